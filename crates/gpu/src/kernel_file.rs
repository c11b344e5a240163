//! Compiled kernels on disk, for drivers that keep none: one file per adapter, which can be deleted at any time.
//!
//! A file that is not whole, or of another version of this program or of the driver, is not used and replaced. It begins
//! with [`MAGIC`] and a checksum of all that follows: the key of driver and program, as its length and its bytes; the
//! number of kernels and a hash of the text of each; and what the driver made of them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MAGIC: &[u8; 16] = b"gleed kernels 1\n";

/// A file that has grown beyond this, of many models, is begun anew.
const MOST_BYTES: u64 = 64 << 20;

/// A driver's memory of kernels, and the file that it comes from and goes to.
pub(crate) struct KernelFile {
    path: PathBuf,
    key: String,
    cache: wgpu::PipelineCache,
    /// Hashes of the texts that the file had.
    known: HashSet<u64>,
    /// Hashes of those that it will have, and whether they are more than are on disk.
    texts: Mutex<(HashSet<u64>, bool)>,
}

impl KernelFile {
    /// The file of an adapter in a folder, which need not be there yet; none for devices that do not give out what they
    /// compiled.
    pub fn open(device: &wgpu::Device, adapter: &wgpu::AdapterInfo, folder: &Path) -> Option<KernelFile> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let wgpu::AdapterInfo { vendor, device: model, name, driver, driver_info, .. } = adapter;
        let path = folder.join(format!("kernels-{vendor:04x}-{model:04x}.bin"));
        let key = format!("{} | {name} | {driver} | {driver_info}", env!("CARGO_PKG_VERSION"));
        let size = std::fs::metadata(&path).map_or(0, |file| file.len());
        let bytes = if size <= MOST_BYTES { std::fs::read(&path).ok() } else { None };
        let (known, data) = bytes.as_deref().and_then(|bytes| parse(bytes, &key)).unzip();
        let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kernels"), data, fallback: true };
        // SAFETY: the data, if any, is what this program once got from the same driver: the key and the checksum say so.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        let known: HashSet<u64> = known.unwrap_or_default();
        Some(KernelFile { path, key, cache, texts: Mutex::new((known.clone(), false)), known })
    }

    /// What kernels are compiled with.
    pub fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Takes down that a kernel was compiled, and returns whether the file had it.
    pub fn made(&self, text: &str) -> bool {
        let hash = hash(text);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.1 |= texts.0.insert(hash);
        self.known.contains(&hash)
    }

    /// Writes the file if there are more kernels than it has. One that cannot be written only makes the next start slower.
    pub fn save(&self) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut texts.1) {
            return;
        }
        let Some(data) = self.cache.get_data() else { return };
        let _ = write(&self.path, &format(&self.key, &texts.0, &data));
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The bytes of a file.
fn format(key: &str, texts: &HashSet<u64>, data: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(8 + key.len() + 8 * texts.len() + data.len());
    rest.extend((key.len() as u32).to_le_bytes());
    rest.extend(key.as_bytes());
    rest.extend((texts.len() as u32).to_le_bytes());
    texts.iter().for_each(|text| rest.extend(text.to_le_bytes()));
    rest.extend(data);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(hash(&rest[..]).to_le_bytes());
    bytes.extend(rest);
    bytes
}

/// The hashes of the texts and the driver's data, of a file that is whole and has this key.
fn parse<'a>(bytes: &'a [u8], key: &str) -> Option<(HashSet<u64>, &'a [u8])> {
    let (checksum, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if hash(rest) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (length, rest) = rest.split_first_chunk()?;
    let (found, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (count, rest) = rest.split_first_chunk()?;
    let bytes = (u32::from_le_bytes(*count) as usize).checked_mul(8)?;
    let (texts, data) = rest.split_at_checked(bytes)?;
    let texts = texts.as_chunks().0.iter().map(|text| u64::from_le_bytes(*text)).collect();
    (found == key.as_bytes()).then_some((texts, data))
}

/// Puts bytes in the place of a file, all of them or none.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let whole = path.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&whole, bytes).and_then(|()| std::fs::rename(&whole, path));
    written.inspect_err(|_| {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&whole);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_files_of_the_same_driver_and_program_are_used() {
        let (texts, data) = (HashSet::from([1, u64::MAX, 77]), b"what a driver made");
        let bytes = format("1.0 | Card | driver 5", &texts, data);
        assert_eq!(parse(&bytes, "1.0 | Card | driver 5"), Some((texts, &data[..])));
        assert_eq!(parse(&bytes, "1.0 | Card | driver 6"), None);
        assert_eq!(parse(&bytes, "1.0 | Card | driver 55"), None);
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length], "1.0 | Card | driver 5"), None, "the first {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            assert_eq!(parse(&bytes, "1.0 | Card | driver 5"), None, "byte {at} is another");
        }
        // A checksum that was made for it does not make it longer than it is.
        let mut long = MAGIC.to_vec();
        let rest = [u32::MAX.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        long.extend(hash(&rest[..]).to_le_bytes());
        long.extend(rest);
        assert_eq!(parse(&long, ""), None);
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("kernels.bin");
        for bytes in [&b"first"[..], b"2"] {
            write(&path, bytes).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(write(&path.join("below a file"), b"3").is_err());
    }
}
