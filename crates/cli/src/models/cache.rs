//! The folder where pulled models live. A file appears under its name only when it is whole and checked:
//! until then it is a `.partial` file beside a small note about where it comes from.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::output;
use crate::progress::Progress;

/// How much is read, hashed and written at a time.
const CHUNK: usize = 1 << 18;

/// The cache folder; it may not exist yet.
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The folder named by `GLEED_CACHE`, else `gleed` in the platform's folder for caches.
    pub fn locate() -> Result<Self> {
        let root = root(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
        let Some(root) = root else { bail!("no folder for models: set GLEED_CACHE to one") };
        // Absolute, for the children that run in another folder and the scripts that read our paths.
        Ok(Self { root: std::path::absolute(root).context("no current folder")? })
    }

    /// The cache in this folder.
    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the file of this relative path lies or would lie.
    pub fn file(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Lets one process at a time change the cache, for as long as the answer lives.
    pub fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.root).with_context(|| format!("cannot create {}", self.root.display()))?;
        let path = self.file(".lock");
        let about = || format!("cannot lock {}", path.display());
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).with_context(about)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                output::note("waiting for another gleed that is pulling");
                lock.lock().with_context(about)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(about),
        }
        Ok(lock)
    }

    /// An empty folder for archives on their way, on the same disk as the models. What an interrupted
    /// pull left in it is removed: the caller holds the lock.
    pub fn work_folder(&self) -> Result<WorkFolder> {
        let path = self.file(".work");
        let emptied = match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&path),
        };
        emptied.with_context(|| format!("cannot prepare {}", path.display()))?;
        Ok(WorkFolder { path })
    }
}

/// The cache folder that these environment variables lead to.
fn root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(folder) = variable("GLEED_CACHE") {
        return Some(PathBuf::from(folder));
    }
    let home = || variable("HOME").map(PathBuf::from);
    let platform = if cfg!(windows) {
        variable("LOCALAPPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Caches"))
    } else {
        // The XDG rules say to ignore a relative path here.
        let named = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| home().map(|home| home.join(".cache")))
    };
    platform.map(|folder| folder.join("gleed"))
}

/// A folder that is removed when dropped.
pub struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // If this fails the next pull removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

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
        let path = with_suffix(target, ".partial");
        let about = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(about)?;
        }
        let mut options = OpenOptions::new();
        let file =
            options.create(true).truncate(false).read(true).write(true).open(&path).with_context(about)?;
        Ok(Self { target: target.to_path_buf(), file, length: 0, hash: Sha256::new() })
    }

    /// Bytes on disk, whether they count yet or not.
    pub fn found(&self) -> Result<u64> {
        Ok(self.file.metadata().with_context(|| self.about())?.len())
    }

    /// Bytes that count: kept from before or written since.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Keeps the first `length` bytes and drops the rest; what is written next follows them.
    pub fn keep(&mut self, length: u64, progress: &Progress) -> Result<()> {
        self.file.set_len(length).and_then(|()| self.file.rewind()).with_context(|| self.about())?;
        let (hash, hashed) = hash_reader(&mut self.file, progress).with_context(|| self.about())?;
        self.file.seek(SeekFrom::Start(hashed)).with_context(|| self.about())?;
        (self.hash, self.length) = (hash, hashed);
        progress.restart_clock();
        Ok(())
    }

    /// The note beside the file, if there is one that can be read.
    pub fn note<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&fs::read(self.note_path()).ok()?).ok()
    }

    /// Writes the note.
    pub fn set_note(&self, note: &impl Serialize) -> Result<()> {
        let path = self.note_path();
        fs::write(&path, serde_json::to_vec(note)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Hash of the bytes that count.
    pub fn sha256(&self) -> String {
        hexadecimal(self.hash.clone())
    }

    /// Gives the file its name, in one step that either happens or does not.
    pub fn finish(self) -> Result<()> {
        self.file.sync_all().with_context(|| self.about())?;
        let (partial, note) = (self.path(), self.note_path());
        fs::rename(&partial, &self.target)
            .with_context(|| format!("cannot create {}", self.target.display()))?;
        let _ = fs::remove_file(note);
        Ok(())
    }

    /// Removes the file and its note: it turned out not to be what it should be.
    pub fn discard(self) {
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_file(self.note_path());
    }

    fn path(&self) -> PathBuf {
        with_suffix(&self.target, ".partial")
    }

    fn note_path(&self) -> PathBuf {
        with_suffix(&self.target, ".partial.json")
    }

    fn about(&self) -> String {
        format!("cannot write {}", self.path().display())
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

/// Whether a file of the cache's folder is one of its finished files, by its name.
pub fn is_model_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// SHA-256 of a whole file, in lower-case hexadecimal digits.
pub fn hash_file(path: &Path, progress: &Progress) -> Result<String> {
    let hashed = File::open(path).and_then(|mut file| hash_reader(&mut file, progress));
    let (hash, _) = hashed.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hexadecimal(hash))
}

/// Hashes all that a reader has left and counts it, showing how far it is.
fn hash_reader(reader: &mut impl Read, progress: &Progress) -> io::Result<(Sha256, u64)> {
    let (mut hash, mut hashed, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    progress.set(0);
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok((hash, hashed)),
            Ok(count) => {
                hash.update(&chunk[..count]);
                hashed += count as u64;
                progress.advance(count as u64);
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
        let progress = Progress::new("test", 3);
        let mut partial = Partial::open(&target).unwrap();
        partial.write_all(b"abXXX").unwrap();
        partial.set_note(&"note").unwrap();
        drop(partial);

        let mut partial = Partial::open(&target).unwrap();
        assert_eq!((partial.found().unwrap(), partial.length()), (5, 0));
        assert_eq!(partial.note::<String>().as_deref(), Some("note"));
        partial.keep(2, &progress).unwrap();
        partial.write_all(b"c").unwrap();
        assert_eq!((partial.length(), partial.sha256().as_str()), (3, ABC));
        assert!(!target.exists());
        partial.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"abc");
        assert_eq!(hash_file(&target, &progress).unwrap(), ABC);
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

    #[test]
    fn the_work_folder_starts_empty_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        fs::create_dir_all(cache.file(".work/left/over")).unwrap();
        let work = cache.work_folder().unwrap();
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        drop(work);
        assert!(!cache.file(".work").exists());
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn the_folder_follows_the_environment() {
        let root = |set: &[(&str, &str)]| {
            root(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(root(&[home]), Some(PathBuf::from("/home/a/.cache/gleed")));
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/x")]), Some(PathBuf::from("/x/gleed")));
        assert_eq!(
            root(&[home, ("XDG_CACHE_HOME", "relative")]),
            Some(PathBuf::from("/home/a/.cache/gleed"))
        );
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "/x"), ("GLEED_CACHE", "/g")]), Some(PathBuf::from("/g")));
        assert_eq!(root(&[]), None);
    }
}
