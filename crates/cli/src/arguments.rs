//! The command line before it is parsed.

use std::ffi::OsString;

/// Whether the report is to be JSON, told from arguments that may make no sense otherwise: an error is then an
/// object too.
pub fn ask_for_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = OsString> {
        text.split(' ').map(OsString::from)
    }

    #[test]
    fn json_is_asked_for_before_the_end_of_the_options() {
        assert!(ask_for_json(words("gleed run x --json")));
        assert!(ask_for_json(words("gleed frobnicate --json --nonsense")));
        assert!(!ask_for_json(words("gleed run --json-like")));
        assert!(!ask_for_json(words("gleed run -- --json")));
    }
}
