//! Formats of strings, as patterns. Each is a subset of what its definition allows, so that what was written by it is
//! valid for strict validators too.

use std::sync::LazyLock;

/// Formats that say nothing about which texts or numbers are valid.
pub fn is_annotation(name: &str) -> bool {
    matches!(name, "password" | "float" | "double" | "textarea" | "multi-line" | "markdown" | "unknown")
}

/// The pattern of a format; none where it is not supported.
pub fn pattern(name: &str) -> Option<&'static str> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| pattern.as_str())
}

static FORMATS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    // Leap years are those that four divides, and of the centuries those that 400 does.
    let leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
    let year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
    let date = format!(
        "(?:{year}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|{leap}-02-29)"
    );
    let time = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    let label = "[a-zA-Z0-9](?:-?[a-zA-Z0-9]){0,20}";
    let host = format!(r"{label}(?:\.{label}){{0,5}}");
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let four_bytes = format!(r"{byte}(?:\.{byte}){{3}}");
    let hex = "[0-9a-fA-F]{1,4}";
    let groups: Vec<String> = (0..=6)
        .map(|n| match n {
            0 => format!("::(?:{hex}(?::{hex}){{0,6}})?"),
            n => format!("{hex}(?::{hex}){{{}}}::(?:{hex}(?::{hex}){{0,{}}})?", n - 1, 6 - n),
        })
        .collect();
    let six = format!("(?:{hex}(?::{hex}){{7}}|{})", groups.join("|"));
    let number = "(?:0|[1-9][0-9]{0,5})";
    let clock = format!("T(?:{number}H(?:{number}M(?:{number}S)?)?|{number}M(?:{number}S)?|{number}S)");
    let days =
        format!("(?:{number}Y(?:{number}M(?:{number}D)?)?|{number}M(?:{number}D)?|{number}D)(?:{clock})?");
    let duration = format!("P(?:{days}|{clock}|{number}W)");
    let plain = r"(?:[a-zA-Z0-9\-._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})";
    let path = format!("(?:/{plain}*)*");
    let tail = format!(r"(?:\?(?:{plain}|[/?])*)?(?:#(?:{plain}|[/?])*)?");
    let authority = format!(r"//(?:{host}|\[{six}\])(?::[0-9]{{1,5}})?{path}");
    let scheme = r"[a-zA-Z][a-zA-Z0-9+.\-]{0,20}";
    let rootless = format!("{plain}+{path}");
    let uri = format!("{scheme}:(?:{authority}|{rootless}){tail}");
    let segment = r"(?:[a-zA-Z0-9\-._~!$&'()*+,;=@]|%[0-9a-fA-F]{2})";
    let reference = format!("(?:{uri}|(?:{authority}|(?:/{plain}+{path})?|{segment}+{path}){tail})");
    let token = "(?:[^~/]|~[01])";
    let word = r"[a-zA-Z0-9!#$%&'*+\-/=?^_`{|}~]{1,20}";
    let all = [
        ("date", date.clone()),
        ("time", time.to_string()),
        ("date-time", format!("{date}T{time}")),
        ("duration", duration),
        ("email", format!(r"{word}(?:\.{word}){{0,2}}@{host}")),
        ("hostname", host.clone()),
        ("ipv4", four_bytes),
        ("ipv6", six),
        ("uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_string()),
        ("uri", uri),
        ("uri-reference", reference),
        ("json-pointer", format!("(?:/{token}*)*")),
        ("relative-json-pointer", format!("(?:0|[1-9][0-9]{{0,9}})(?:#|(?:/{token}*)*)")),
    ];
    all.into_iter().map(|(name, inside)| (name, format!("^(?:{inside})$"))).collect()
});
