//! Where the fetched test data lies, and tokenizers made from it.

use gleed_gguf::Gguf;
use gleed_tokenizer::Tokenizer;
use std::path::PathBuf;

/// The folder that `fetch_vocabs.py` filled: `vocabs` in `GLEED_TEST_DATA`, or in `.cache/test-data`.
pub fn data_folder() -> PathBuf {
    let folder = std::env::var_os("GLEED_TEST_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"))
        .join("vocabs");
    assert!(
        folder.join("complete").exists(),
        "{} holds no test data: run ./test, which fetches it (crates/tokenizer/tests/fetch_vocabs.py)",
        folder.display()
    );
    folder
}

/// The tokenizer of `ggml-vocab-NAME.gguf`.
pub fn tokenizer(name: &str) -> Tokenizer {
    let path = data_folder().join(format!("ggml-vocab-{name}.gguf"));
    let file = Gguf::open(&path).unwrap_or_else(|error| panic!("{error}"));
    Tokenizer::from_metadata(file.metadata()).unwrap_or_else(|error| panic!("{name}: {error}"))
}
