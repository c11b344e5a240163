//! Which web pages may ask: a browser that a person has open must not become a way into a server on their machine.
//!
//! A page of another site may send requests here; it is refused unless the operator named it (`--cors`). A page may
//! also call itself by a name that leads to this machine; a server without keys on the loopback interface therefore
//! answers only to the names of that interface.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::errors::Problem;

/// Pages and names that are allowed.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// Origins (`https://example.org`) of other sites; `*` is any.
    pub allowed: Vec<String>,
    /// Whether only names of the loopback interface are answered to.
    pub local_only: bool,
}

impl Origins {
    /// Refuses requests of pages that the operator has not allowed.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let problem = |message: String| Problem::new(StatusCode::FORBIDDEN, "forbidden_origin", message);
        let host = text(headers, header::HOST.as_str());
        if let Some(host) = host.filter(|host| self.local_only && !is_local(host)) {
            return Err(problem(format!(
                "this server answers to localhost, not to `{host}`; use --api-key to open it, or have the proxy send \
                 `Host: localhost`"
            )));
        }
        let Some(origin) = text(headers, header::ORIGIN.as_str()) else { return Ok(()) };
        let is_own = origin.split_once("://").is_some_and(|(_, place)| Some(place) == host);
        if is_own || self.allows(origin) || *method == Method::GET || *method == Method::HEAD {
            return Ok(());
        }
        Err(problem(format!("pages of {origin} may not ask this server; --cors {origin} allows them")))
    }

    /// The answer to a browser that asks whether a page may ask.
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let asks = *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if !asks {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let known = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ];
        known.into_iter().for_each(|(name, value)| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        });
        // Clients bring headers of their own, such as the versions of their libraries.
        if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        Some(response)
    }

    /// Tells a browser that the page may read the response.
    pub fn mark(&self, asked: &HeaderMap, response: &mut Response) {
        let Some(origin) = asked.get(header::ORIGIN) else { return };
        if origin.to_str().is_ok_and(|origin| self.allows(origin)) {
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
        }
    }

    fn allows(&self, origin: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == "*" || allowed == origin)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a `Host` is a name of the loopback interface, with any port.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let is_loopback = |name: &str| name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost") || is_loopback(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "a.localhost:1"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org", "10.0.0.1:80", "[::2]", "127.0.0.1.nip.io", ""] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let origins = Origins { allowed: vec!["https://good.example".to_string()], local_only: false };
        let check = |method: Method, origin: &str| {
            let headers = [(header::HOST, "here:80"), (header::ORIGIN, origin)];
            let headers = headers.into_iter().map(|(name, value)| (name, value.parse().unwrap()));
            origins.check(&method, &HeaderMap::from_iter(headers)).is_ok()
        };
        assert!(check(Method::POST, "https://good.example"));
        assert!(check(Method::POST, "http://here:80"));
        assert!(!check(Method::POST, "https://bad.example"));
        assert!(!check(Method::POST, "null"));
        assert!(!check(Method::DELETE, "http://here"));
        // A page of another site cannot read what it gets.
        assert!(check(Method::GET, "https://bad.example"));
    }
}
