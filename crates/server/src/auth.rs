//! Who may ask: keys, compared in the same time whatever they have in common.

use axum::http::{HeaderMap, StatusCode, header};
use subtle::{Choice, ConstantTimeEq};

use crate::errors::Problem;

/// The keys that open a server. Without any, it is open.
#[derive(Clone, Default)]
pub struct Keys(Vec<String>);

impl Keys {
    /// These keys; empty ones and white space around them do not count.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Keys {
        let keys = keys.into_iter().map(|key| key.trim().to_string());
        Keys(keys.filter(|key| !key.is_empty()).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request's headers bring a key, as `Authorization: Bearer` or as Anthropic's `x-api-key`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.is_empty() {
            return Ok(());
        }
        let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(key)
        });
        let problem = |message: &str| Problem::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message);
        let given = bearer.or_else(|| text("x-api-key")).map(str::trim);
        let given = given.ok_or_else(|| problem("a key is needed: send `Authorization: Bearer KEY`"))?;
        // All keys are compared, whichever it is.
        let is_known = |found: Choice, key: &String| found | key.as_bytes().ct_eq(given.as_bytes());
        match bool::from(self.0.iter().fold(Choice::from(0), is_known)) {
            true => Ok(()),
            false => Err(problem("the key is not one of this server's")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn a_key_opens_and_nothing_else_does() {
        let keys = Keys::new(["one".to_string(), " two\n".to_string(), String::new()]);
        for good in ["Bearer one", "bearer two"] {
            assert_eq!(keys.check(&headers("authorization", good)), Ok(()), "{good}");
        }
        assert_eq!(keys.check(&headers("x-api-key", "two")), Ok(()));
        for bad in ["Bearer on", "Bearer onee", "Bearer ", "Basic one", "one", ""] {
            let problem = keys.check(&headers("authorization", bad)).unwrap_err();
            assert_eq!(problem.status, StatusCode::UNAUTHORIZED, "{bad}");
        }
        assert!(keys.check(&HeaderMap::new()).is_err());
        assert_eq!(Keys::new([" ".to_string()]).check(&HeaderMap::new()), Ok(()));
    }
}
