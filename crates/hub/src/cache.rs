//! The folder where pulled models live, and the lock that lets one process at a time change it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::event::{Event, Watch};

/// The cache folder; it may not exist yet.
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The folder named by `GLEED_CACHE`, else `gleed` in the platform's folder for caches.
    pub fn locate() -> Result<Self> {
        let root = root(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
        let root = root.ok_or(Error::NoFolder)?;
        // Absolute, for the children that run in another folder and the scripts that read our paths.
        let absolute = std::path::absolute(&root).map_err(Error::io("find", &root))?;
        Ok(Self { root: absolute })
    }

    /// The cache in this folder, which should be an absolute path.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
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
    pub(crate) fn lock(&self, watch: Watch) -> Result<File> {
        fs::create_dir_all(&self.root).map_err(Error::io("create", &self.root))?;
        let path = self.file(".lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = opened.map_err(Error::io("lock", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                watch(Event::Waiting);
                lock.lock().map_err(Error::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
        }
        Ok(lock)
    }

    /// An empty folder for archives on their way, on the same disk as the models. What an interrupted
    /// pull left in it is removed: the caller holds the lock.
    pub(crate) fn work_folder(&self) -> Result<WorkFolder> {
        let path = self.file(".work");
        let emptied = match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&path),
        };
        emptied.map_err(Error::io("prepare", &path))?;
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
pub(crate) struct WorkFolder {
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

#[cfg(test)]
mod tests {
    use super::*;

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
