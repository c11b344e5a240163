//! The little that following redirects by hand needs to know about web addresses.

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
