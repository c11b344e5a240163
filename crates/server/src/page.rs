//! The chat page and the status page, out of the binary: their files with what a browser must know of each.
//!
//! The files are built from `page/src` (`page/check` tells whether they agree). They need no key and tell nothing of
//! any user: whatever a page shows it asks the API for, as any client does.

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Scripts, styles and requests of this server alone; nothing else, and no page of others around this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file and where it is served.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: &[Asset] = &[
    Asset { path: "/", content_type: HTML, bytes: include_bytes!("../page/dist/chat.html") },
    Asset { path: "/status", content_type: HTML, bytes: include_bytes!("../page/dist/status.html") },
    Asset { path: "/page/chat.js", content_type: SCRIPT, bytes: include_bytes!("../page/dist/chat.js") },
    Asset { path: "/page/chat.css", content_type: STYLE, bytes: include_bytes!("../page/dist/chat.css") },
    Asset { path: "/page/status.js", content_type: SCRIPT, bytes: include_bytes!("../page/dist/status.js") },
    Asset { path: "/page/status.css", content_type: STYLE, bytes: include_bytes!("../page/dist/status.css") },
    Asset { path: "/page/theme.js", content_type: SCRIPT, bytes: include_bytes!("../page/dist/theme.js") },
    Asset { path: "/page/icon.svg", content_type: PICTURE, bytes: include_bytes!("../page/dist/icon.svg") },
    Asset { path: "/favicon.ico", content_type: PICTURE, bytes: include_bytes!("../page/dist/icon.svg") },
];

/// The routes of the pages.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let tag = asset.tag();
        router.route(asset.path, get(async move |headers: HeaderMap| asset.answer(&headers, &tag)))
    })
}

impl Asset {
    /// A name of the content: other bytes, another name.
    fn tag(&self) -> String {
        // FNV-1a, which tells versions of a file apart and is not asked to do more.
        let hash = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("\"{hash:016x}\"")
    }

    /// The file, or that the browser has it already. It asks each time: a new binary has new pages.
    fn answer(&self, headers: &HeaderMap, tag: &str) -> Response {
        let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // A proxy that compresses makes a tag weak.
        let is_known = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
        let headers = [
            (CONTENT_TYPE, self.content_type),
            (ETAG, tag),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ];
        match is_known {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => (headers, Body::from(self.bytes)).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody;

    use super::*;

    fn asset(path: &str) -> &'static Asset {
        ASSETS.iter().find(|asset| asset.path == path).unwrap_or_else(|| panic!("{path} is not served"))
    }

    fn asking(tag: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, tag.parse().unwrap())])
    }

    #[test]
    fn all_that_the_pages_ask_for_is_served_and_nothing_is_asked_of_others() {
        for page in ["/", "/status"] {
            let html = std::str::from_utf8(asset(page).bytes).unwrap();
            let attributes =
                html.split_whitespace().filter(|word| word.starts_with("href=") || word.starts_with("src="));
            let addresses: Vec<&str> = attributes.filter_map(|word| word.split('"').nth(1)).collect();
            assert_eq!(addresses.len(), 4, "icon, style and two scripts of {page}: {addresses:?}");
            addresses.into_iter().for_each(|address| assert!(!asset(address).bytes.is_empty()));
            assert!(
                !html.contains("<style") && !html.contains("style=") && !html.contains("<script>"),
                "{page}"
            );
        }
    }

    #[test]
    fn the_policy_goes_with_every_file() {
        for asset in ASSETS {
            let response = asset.answer(&HeaderMap::new(), &asset.tag());
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()[CONTENT_TYPE], asset.content_type);
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
            assert_eq!(response.body().size_hint().exact(), Some(asset.bytes.len() as u64), "{}", asset.path);
            assert!(!asset.bytes.is_empty());
        }
    }

    #[test]
    fn what_the_browser_has_is_not_sent_again() {
        let script = asset("/page/chat.js");
        let tag = script.tag();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}")] {
            let response = script.answer(&asking(&known), &tag);
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(response.body().size_hint().exact(), Some(0));
        }
        assert_eq!(script.answer(&asking("\"other\""), &tag).status(), StatusCode::OK);
        assert_ne!(tag, asset("/page/status.js").tag());
    }

    #[test]
    fn the_routes_do_not_collide() {
        let _: Router = routes();
    }
}
