//! Where the hub is, and the right to read from it.

use crate::address::keeps_secrets;
use crate::error::{Error, Result};
use crate::reference::Reference;
use crate::repository::Repository;

/// The hub that `HF_ENDPOINT` may replace.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// A hub and the right to read from it.
pub struct Hub {
    /// Its address, without a slash at the end.
    pub endpoint: String,
    /// What to show it, and no other host.
    pub token: Option<String>,
    /// Whether there is a token that the hub is not shown, because it would go there in clear.
    pub token_withheld: bool,
}

impl Hub {
    /// The hub that `HF_ENDPOINT` and `HF_TOKEN` describe.
    pub fn from_environment() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().map(|value| value.trim().to_owned());
        let endpoint = variable("HF_ENDPOINT").filter(|value| !value.is_empty());
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            let what = format!("must start with https:// or http://, but is {endpoint}");
            return Err(Error::Variable { variable: "HF_ENDPOINT", what });
        }
        let token = variable("HF_TOKEN").filter(|value| !value.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Error::Variable { variable: "HF_TOKEN", what: "holds odd characters".to_owned() });
        }
        Ok(Self::new(&endpoint, token))
    }

    /// The hub at this address. It is shown the token only where no one else can read it.
    fn new(endpoint: &str, token: Option<String>) -> Self {
        let kept = keeps_secrets(endpoint);
        let token_withheld = token.is_some() && !kept;
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Self { endpoint, token: token.filter(|_| kept), token_withheld }
    }

    /// The address of what the hub says about a repository, the sizes of its files included.
    pub fn listing_url(&self, repository: &Repository) -> String {
        let Self { endpoint, .. } = self;
        let [owner, name, revision] = [repository.owner(), repository.name(), repository.revision()];
        let [owner, name, revision] = [owner, name, revision].map(percent_encoded);
        format!("{endpoint}/api/models/{owner}/{name}/revision/{revision}?blobs=true")
    }

    /// The address of a file.
    pub fn url(&self, reference: &Reference) -> String {
        let repository = reference.repository();
        let path = [repository.owner(), repository.name(), "resolve", repository.revision()];
        let path = path.into_iter().chain(reference.file().split('/'));
        path.fold(self.endpoint.clone(), |url, step| url + "/" + &percent_encoded(step))
    }
}

/// One step of a path with everything but unreserved characters escaped.
fn percent_encoded(step: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    step.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_addresses() {
        let hub = Hub::new("http://hub/mirror/", None);
        let url = |reference: &str| hub.url(&reference.parse().unwrap());
        assert_eq!(
            url("owner/repo/sub folder/é.gguf"),
            "http://hub/mirror/owner/repo/resolve/main/sub%20folder/%C3%A9.gguf"
        );
        assert_eq!(url("owner/repo@v1.0/m.gguf"), "http://hub/mirror/owner/repo/resolve/v1.0/m.gguf");
    }

    #[test]
    fn a_token_does_not_go_out_in_clear() {
        let shown = |endpoint: &str| {
            let hub = Hub::new(endpoint, Some("secret".to_owned()));
            assert_eq!(hub.token.is_none(), hub.token_withheld);
            hub.token.is_some()
        };
        assert!(shown("https://hub/mirror") && shown("http://localhost:8080/mirror"));
        assert!(!shown("http://hub/mirror"));
        assert!(!Hub::new("http://hub", None).token_withheld);
    }
}
