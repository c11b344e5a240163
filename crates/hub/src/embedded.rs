//! The model inside this crate, deflated by its build script: six megabytes less to download and to keep, for some
//! hundredths of a second whenever it is run.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// What the model inside this crate is called.
pub const EMBEDDED_NAME: &str = "stories15M";

static DEFLATED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/embedded.deflate"));

/// How long the file of the model inside this crate is.
pub fn embedded_bytes() -> usize {
    env!("EMBEDDED_BYTES").parse().expect("the build script writes a number")
}

/// The file of the model inside this crate.
pub fn embedded() -> Vec<u8> {
    let mut file = Vec::with_capacity(embedded_bytes());
    DeflateDecoder::new(DEFLATED).read_to_end(&mut file).expect("the build script deflated it");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_file_that_was_put_in() {
        let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories15M-q8_0.gguf"));
        assert!(embedded() == file.unwrap());
        assert_eq!(embedded().len(), embedded_bytes());
        assert!(4 * DEFLATED.len() < 3 * embedded_bytes(), "it is smaller");
    }
}
