//! The command line before it is parsed: spellings that other engines have taught and `clap` has no word for.

use std::ffi::OsString;

/// The arguments with `-ngl` written out: a flag with one dash and several letters, which parsers take for several
/// flags.
pub fn spelled_out(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut are_options = true;
    let spelled = |argument: OsString| {
        are_options &= argument != "--";
        if are_options && argument == "-ngl" { OsString::from("--gpu-layers") } else { argument }
    };
    arguments.into_iter().map(spelled).collect()
}

/// Whether the report is to be JSON, told from arguments that may make no sense otherwise: an error is then an
/// object too.
pub fn ask_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn layers_on_the_gpu_are_spelled_out() {
        let spelled = |text: &str| spelled_out(words(text));
        assert_eq!(spelled("gleed run m -ngl 5 hi"), words("gleed run m --gpu-layers 5 hi"));
        assert_eq!(spelled("gleed run -n 5 -nglx -- -ngl"), words("gleed run -n 5 -nglx -- -ngl"));
    }

    #[test]
    fn json_is_asked_for_before_the_end_of_the_options() {
        assert!(ask_for_json(&words("gleed run x --json")));
        assert!(ask_for_json(&words("gleed frobnicate --json --nonsense")));
        assert!(!ask_for_json(&words("gleed run --json-like")));
        assert!(!ask_for_json(&words("gleed run -- --json")));
    }
}
