//! A file on its way into the cache. It appears under its name only when it is whole and checked: until then
//! it is a `.partial` file beside a small note about where it comes from.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::event::{Event, Watch};

/// How much is read and hashed at a time.
const CHUNK: usize = 1 << 18;

/// A file on its way into the cache: `NAME.partial`, hashed as it grows, with a note in
/// `NAME.partial.json` that says what would have to hold for it to be continued.
pub struct Partial {
    target: PathBuf,
    file: File,
    length: u64,
    hash: Sha256,
}

impl Partial {
    /// Opens the partial file of `target` as an earlier pull left it, or a new and empty one. Nothing of
    /// it counts until it is continued with [`Partial::keep`].
    pub fn open(target: &Path) -> Result<Self> {
        let [path, _] = unfinished(target);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        let mut options = OpenOptions::new();
        let opened = options.create(true).truncate(false).read(true).write(true).open(&path);
        let file = opened.map_err(Error::io("write", &path))?;
        Ok(Self { target: target.to_path_buf(), file, length: 0, hash: Sha256::new() })
    }

    /// Bytes on disk, whether they count yet or not.
    pub fn found(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io("read", &self.path()))?.len())
    }

    /// Bytes that count: kept from before or written since.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Keeps the first `length` bytes and drops the rest; what is written next follows them.
    pub fn keep(&mut self, length: u64, watch: Watch) -> Result<()> {
        let path = self.path();
        self.file.set_len(length).and_then(|()| self.file.rewind()).map_err(Error::io("write", &path))?;
        let (hash, hashed) = hash_reader(&mut self.file, length, watch).map_err(Error::io("read", &path))?;
        self.file.seek(SeekFrom::Start(hashed)).map_err(Error::io("write", &path))?;
        (self.hash, self.length) = (hash, hashed);
        Ok(())
    }

    /// The note beside the file, if there is one that can be read.
    pub fn note<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&fs::read(self.note_path()).ok()?).ok()
    }

    /// Writes the note.
    pub fn set_note(&self, note: &impl Serialize) -> Result<()> {
        let path = self.note_path();
        let written =
            serde_json::to_vec(note).map_err(io::Error::from).and_then(|text| fs::write(&path, text));
        written.map_err(Error::io("write", &path))
    }

    /// Hash of the bytes that count.
    pub fn sha256(&self) -> String {
        hexadecimal(self.hash.clone())
    }

    /// Gives the file its name, in one step that either happens or does not.
    pub fn finish(self) -> Result<()> {
        let (partial, note) = (self.path(), self.note_path());
        self.file.sync_all().map_err(Error::io("write", &partial))?;
        fs::rename(&partial, &self.target).map_err(Error::io("create", &self.target))?;
        let _ = fs::remove_file(note);
        Ok(())
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.path();
        self.write_all(bytes).map_err(Error::io("write", &path))
    }

    /// Removes the file and its note: it turned out not to be what it should be.
    pub fn discard(self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_file(self.note_path());
    }

    fn path(&self) -> PathBuf {
        let [partial, _] = unfinished(&self.target);
        partial
    }

    fn note_path(&self) -> PathBuf {
        let [_, note] = unfinished(&self.target);
        note
    }
}

impl Drop for Partial {
    /// An empty file is of no use to a later pull.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(self.path());
            let _ = fs::remove_file(self.note_path());
        }
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The files that an unfinished pull of `target` leaves: what came, and the note beside it.
pub fn unfinished(target: &Path) -> [PathBuf; 2] {
    [with_suffix(target, ".partial"), with_suffix(target, ".partial.json")]
}

/// Whether a pull of this file of the cache was begun and not finished.
pub fn is_begun(target: &Path) -> bool {
    let [partial, _] = unfinished(target);
    partial.exists()
}

/// SHA-256 of a whole file, in lower-case hexadecimal digits.
pub fn hash_file(path: &Path, watch: Watch) -> Result<String> {
    let hashed = File::open(path).and_then(|mut file| {
        let bytes = file.metadata()?.len();
        hash_reader(&mut file, bytes, watch)
    });
    let (hash, _) = hashed.map_err(Error::io("read", path))?;
    Ok(hexadecimal(hash))
}

/// Hashes all that a reader has left and counts it, telling how far it is of the `bytes` it should have.
fn hash_reader(reader: &mut impl Read, bytes: u64, watch: Watch) -> io::Result<(Sha256, u64)> {
    let (mut hash, mut hashed, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok((hash, hashed)),
            Ok(count) => {
                hash.update(&chunk[..count]);
                hashed += count as u64;
                watch(Event::Progress { done: hashed, total: Some(bytes) });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1: the hash of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_partial_file_continues_where_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("deep/er/model.gguf");
        let mut partial = Partial::open(&target).unwrap();
        partial.write_all(b"abXXX").unwrap();
        partial.set_note(&"note").unwrap();
        drop(partial);

        let mut partial = Partial::open(&target).unwrap();
        assert_eq!((partial.found().unwrap(), partial.length()), (5, 0));
        assert_eq!(partial.note::<String>().as_deref(), Some("note"));
        partial.keep(2, &|_| {}).unwrap();
        partial.write_all(b"c").unwrap();
        assert_eq!((partial.length(), partial.sha256().as_str()), (3, ABC));
        assert!(!target.exists());
        partial.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"abc");
        assert_eq!(hash_file(&target, &|_| {}).unwrap(), ABC);
        assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_discarded_partial_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut partial = Partial::open(&folder.path().join("model.gguf")).unwrap();
        partial.write_all(b"abc").unwrap();
        partial.set_note(&1).unwrap();
        partial.discard();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(Partial::open(&folder.path().join("model.gguf")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
