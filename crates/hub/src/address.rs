//! The little that following redirects by hand and keeping a secret need to know about web addresses.

use std::net::IpAddr;

/// Scheme, host and port of an address, in lower case.
pub fn origin(url: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    url[..end].to_ascii_lowercase()
}

/// The address that a redirect from `base` to `location` leads to.
pub fn join(base: &str, location: &str) -> String {
    let scheme = base.find("://").unwrap_or(0);
    if location.contains("://") && !location.starts_with('/') {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{}:{location}", &base[..scheme])
    } else if location.starts_with('/') {
        format!("{}{location}", &base[..origin(base).len()])
    } else {
        let path = &base[..base.find(['?', '#']).unwrap_or(base.len())];
        let folder = path.rfind('/').filter(|&at| at > scheme + 2).map_or(path, |at| &path[..at]);
        format!("{folder}/{location}")
    }
}

/// Whether what is sent to an address stays between the two: over https, or without leaving this machine.
pub fn keeps_secrets(url: &str) -> bool {
    let origin = origin(url);
    let Some(authority) = origin.strip_prefix("http://") else { return origin.starts_with("https://") };
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    // What stands before an @ is a user's name, however much it looks like a host.
    if authority.contains('@') {
        return false;
    }
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_they_say() {
        let base = "https://Hub:8/a/b/c?x=/y";
        for (location, expected) in [
            ("https://other/z?u=http://v", "https://other/z?u=http://v"),
            ("//other/z", "https://other/z"),
            ("/z?u=http://v", "https://Hub:8/z?u=http://v"),
            ("z", "https://Hub:8/a/b/z"),
        ] {
            assert_eq!(join(base, location), expected);
        }
        assert_eq!(join("http://hub", "z"), "http://hub/z");
    }

    #[test]
    fn secrets_are_kept_by_https_and_on_this_machine() {
        for url in
            ["https://hub/", "HTTPS://hub", "http://127.0.0.1:80/x", "http://[::1]:8", "http://LocalHost"]
        {
            assert!(keeps_secrets(url), "{url}");
        }
        for url in [
            "http://hub/",
            "http://10.0.0.1",
            "http://0.0.0.0:80",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "http://localhost@example/",
            "http://localhost:x@example/",
            "http://[2001:db8::1]/",
            "ftp://127.0.0.1",
        ] {
            assert!(!keeps_secrets(url), "{url}");
        }
    }

    #[test]
    fn origins_tell_hosts_ports_and_schemes_apart() {
        assert_eq!(origin("HTTPS://Hub/a"), origin("https://hub?b"));
        for other in [
            "http://hub/",
            "https://hub:444/",
            "https://hub.evil/",
            "https://hub@evil/",
            "https://evil/https://hub",
        ] {
            assert_ne!(origin("https://hub/"), origin(other));
        }
    }
}
