//! Checkpoint folders for tests: vocabularies, and a folder as transformers wrote it. `crates/convert/tests/make.py`
//! made them.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where the data of checkpoint folders lies.
pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../convert/tests/data")
}

/// A JSON file.
pub fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The files of a vocabulary, and the tokens of texts.
pub fn vocabulary(name: &str) -> Value {
    read(&data().join("vocabularies").join(format!("{name}.json")))
}

/// A folder that goes away with it.
pub struct Folder {
    path: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Folder {
    /// An empty one of this name.
    pub fn new(name: &str) -> Folder {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder { path, _scratch: scratch }
    }

    /// A checkpoint of several files, as transformers wrote it, and the tensors that it becomes.
    pub fn written_by_transformers() -> (Folder, Value) {
        let json = read(&data().join("folders/sharded.json"));
        let folder = Folder::new("sharded");
        for (file, content) in json["files"].as_object().unwrap() {
            std::fs::write(folder.path.join(file), from_hex(content.as_str().unwrap())).unwrap();
        }
        folder.write_vocabulary("bpe");
        (folder, json["tensors"].clone())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the files of a vocabulary into it.
    pub fn write_vocabulary(&self, name: &str) {
        for (file, content) in vocabulary(name)["files"].as_object().unwrap() {
            let text = content.as_str().unwrap();
            let bytes = if file.ends_with(".model") { from_hex(text) } else { text.as_bytes().to_vec() };
            std::fs::write(self.path.join(file), bytes).unwrap();
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
