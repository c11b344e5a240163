//! The bytes of one file, mapped or already in memory, and advice to the system about them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::{Error, Result};

/// The bytes of one file.
pub enum Bytes {
    /// Mapped from disk.
    Mapped(Mmap),
    /// Part of the program.
    Static(&'static [u8]),
    /// In memory.
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Static(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Maps a regular file.
    pub fn map(path: &Path) -> Result<Bytes> {
        let refused = |source: io::Error| Error::Io { path: path.to_path_buf(), source };
        let wrong = |what: &str| Error::Malformed { file: path.display().to_string(), what: what.into() };
        // Asked before opening: opening a pipe would wait for its writer.
        let about = fs::metadata(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => {
                refused(io::Error::new(ErrorKind::NotFound, "there is no such file; check the path"))
            }
            _ => refused(source),
        })?;
        if about.is_dir() {
            return Err(wrong("is a directory; name the .gguf file in it"));
        }
        if !about.is_file() {
            return Err(wrong("is not a regular file; name a .gguf file"));
        }
        if about.len() == 0 {
            return Ok(Bytes::Static(&[]));
        }
        let file = File::open(path).map_err(refused)?;
        // SAFETY: the map is read-only and lives as long as the slices taken from it. Another process
        // that shortens the file while it is mapped makes reads fault; no reader of a shared map can
        // rule that out, and copying the file would double its memory.
        let map = unsafe { Mmap::map(&file) }.map_err(refused)?;
        Ok(Bytes::Mapped(map))
    }

    /// Asks the system to read a range ahead of its use. Advice only: a refusal changes nothing.
    pub fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self
            && range.end <= map.len()
        {
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Tells the system that a range is not needed for now. Reading it again reads the file again.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self
            && range.end <= map.len()
        {
            // SAFETY: the map is shared, read-only and backed by a file, so a dropped page comes back
            // with the same content when it is read again.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
