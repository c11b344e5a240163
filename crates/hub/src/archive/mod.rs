//! Taking one member out of a package: a wheel (zip) or an npm package (gzipped tar). Only what these
//! need of the two formats is read, and every length in them is checked before use.

mod tar;
mod zip;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Which format an archive has.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Zip, members stored or deflated.
    Zip,
    /// Tar inside gzip.
    TarGz,
}

/// Writes the one member whose name matches `pattern` to `output` and gives its size, which may be at
/// most `limit` bytes.
pub fn extract(kind: Kind, path: &Path, pattern: &str, limit: u64, output: &mut impl Write) -> Result<u64> {
    let extracted = File::open(path).map_err(Fault::Io).and_then(|file| match kind {
        Kind::Zip => zip::extract(file, pattern, limit, output),
        Kind::TarGz => tar::extract(file, pattern, limit, output),
    });
    extracted.map_err(|fault| Error::Archive {
        file: path.file_name().unwrap_or_default().display().to_string(),
        reason: fault.to_string(),
    })
}

/// Why nothing comes out of an archive.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// It cannot be read, or its member not written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not what it should be.
    #[error("{0}")]
    Content(String),
}

/// An error that says this, unless `sound`.
fn check(sound: bool, what: impl Fn() -> String) -> Result<(), Fault> {
    if sound { Ok(()) } else { Err(Fault::Content(what())) }
}

/// For [`Result::map_err`]: an error that says this.
fn fault<T>(what: &str) -> impl Fn(T) -> Fault {
    move |_| Fault::Content(what.to_owned())
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = name.char_indices().map(|(index, _)| index).chain([name.len()]);
            ends.into_iter().any(|end| matches(rest, &name[end..]))
        }),
    }
}

/// The number in a little-endian field. The caller has checked that the field is there.
fn number<const BYTES: usize>(record: &[u8], offset: usize) -> u64 {
    (0..BYTES).fold(0, |value, index| value | u64::from(record[offset + index]) << (8 * index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        for (pattern, name) in [
            ("package/model.part", "package/model.part"),
            ("*.gguf", "a/b.gguf"),
            ("*.gguf", ".gguf"),
            ("*.gguf.part*", "é/m.gguf.part00"),
            ("*/data/part*.bin", "x/data/part01.bin"),
            ("*", ""),
            ("a*a", "aba"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.gguf", "a.gguf.part0"),
            ("model.part", "package/model.part"),
            ("a*a", "a"),
            ("", "x"),
            ("x", ""),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
