//! Reads the JSON files of a folder, none of which may be larger than a tokenizer's.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result, malformed};

/// The largest JSON file that is read. The largest tokenizer.json in use has 35 MB.
const LARGEST: u64 = 256 << 20;

/// Reads a file that must be there.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = text(path)?;
    serde_json::from_str(&text)
        .map_err(|error| malformed(&path.display().to_string(), format!("is not valid: {error}")))
}

/// Reads a file that may be there.
pub fn read_if_there<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if path.is_file() { read(path).map(Some) } else { Ok(None) }
}

/// A whole text file.
pub fn text(path: &Path) -> Result<String> {
    let refused = |source: std::io::Error| Error::Io { path: path.to_path_buf(), source };
    let file = std::fs::File::open(path).map_err(refused)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(refused)?;
    if text.len() as u64 > LARGEST {
        return Err(malformed(&path.display().to_string(), format!("is larger than {} MB", LARGEST >> 20)));
    }
    Ok(text)
}
