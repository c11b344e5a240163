//! Writes GGUF files: metadata and tensor table first, then the data, one tensor after the other.
//!
//! The data is streamed, so memory stays small however large the file. Everything goes to a temporary
//! file beside the target, which takes the target's name at the very end: a write that fails, or that is
//! dropped half-way, leaves no half file behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::encode::Header;
use crate::wire::{shown, tensor_bytes};
use crate::{Error, Format, Metadata, Result, TensorInfo};

/// What the tensor table says about a tensor that will be written.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// The name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// The dimensions, fastest first: a linear layer is `[inputs, outputs]`.
    pub shape: Vec<usize>,
    /// How the values are stored.
    pub format: Format,
}

impl TensorSpec {
    /// How many bytes the data takes.
    pub fn bytes(&self) -> Result<usize> {
        tensor_bytes(self.format, &self.shape)
            .map_err(|what| Error::Unsupported(format!("tensor {}: {what}", shown(&self.name))))
    }
}

impl From<&TensorInfo> for TensorSpec {
    fn from(tensor: &TensorInfo) -> TensorSpec {
        TensorSpec { name: tensor.name.clone(), shape: tensor.shape.clone(), format: tensor.format }
    }
}

/// Writes a GGUF file of version 3: metadata and the tensor table first, then the data of each tensor in
/// the order of the table.
#[derive(Debug)]
pub struct Writer {
    target: PathBuf,
    temporary: PathBuf,
    /// `None` once finished or dropped, so that the file is closed before it is renamed or removed.
    out: Option<BufWriter<File>>,
    alignment: usize,
    /// Name and size in bytes of each tensor.
    tensors: Vec<(String, usize)>,
    /// The tensor that is being written, and how many of its bytes have been.
    current: usize,
    written: usize,
}

impl Writer {
    /// Starts a file with this metadata and these tensors. The alignment of the data is that of the
    /// key `general.alignment`, 32 when absent.
    pub fn create(path: &Path, metadata: &Metadata, tensors: &[TensorSpec]) -> Result<Writer> {
        let header = Header::new(metadata, tensors)
            .map_err(|what| Error::Malformed { file: path.display().to_string(), what })?;
        let refused = |source: io::Error| Error::Io { path: path.to_path_buf(), source };
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(refused(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory; name the file to write",
            )));
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        hidden.push(format!(".{}-{count}.partial", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(refused)?;
        // From here on dropping the writer removes the temporary file.
        let mut writer = Writer {
            target: path.to_path_buf(),
            temporary,
            out: Some(BufWriter::with_capacity(1 << 18, file)),
            alignment: header.alignment,
            tensors: tensors.iter().map(|tensor| tensor.name.clone()).zip(header.sizes).collect(),
            current: 0,
            written: 0,
        };
        writer.put(&header.bytes)?;
        Ok(writer)
    }

    /// Writes the whole data of the next tensor, which must be the one of that name.
    pub fn write(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let size = self.expect(name)?;
        if self.written > 0 || data.len() != size {
            let place = shown(name);
            return Err(self.wrong(match self.written {
                0 => format!("tensor {place} takes {size} bytes, {} were given", data.len()),
                written => format!("{written} of the {size} bytes of tensor {place} are already written"),
            }));
        }
        self.write_part(name, data)
    }

    /// Writes some more of the data of the next tensor, which must be the one of that name. The part
    /// that completes it makes the tensor after it the next one.
    pub fn write_part(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let size = self.expect(name)?;
        if data.len() > size - self.written {
            return Err(self.wrong(format!(
                "tensor {} takes {size} bytes, {} were given after {}",
                shown(name),
                data.len(),
                self.written
            )));
        }
        self.put(data)?;
        self.written += data.len();
        if self.written == size {
            self.put_padding(size)?;
            self.current += 1;
            self.written = 0;
        }
        Ok(())
    }

    /// Completes the file and gives it its name. All tensors must have been written.
    pub fn finish(mut self) -> Result<()> {
        if let Some((name, size)) = self.tensors.get(self.current) {
            return Err(self.wrong(format!(
                "tensor {} is not complete: {} of {size} bytes written",
                shown(name),
                self.written
            )));
        }
        let named = self.close_and_rename();
        if named.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        named.map_err(|source| Error::Io { path: self.target.clone(), source })
    }

    fn close_and_rename(&mut self) -> io::Result<()> {
        if let Some(out) = self.out.take() {
            // On disk before it has its name: a name never stands for data that a crash can lose.
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        }
        fs::rename(&self.temporary, &self.target)
    }

    /// The size of the next tensor, when that is the one of this name.
    fn expect(&self, name: &str) -> Result<usize> {
        match self.tensors.get(self.current) {
            Some((next, size)) if next == name => Ok(*size),
            Some((next, _)) => {
                Err(self.wrong(format!("tensor {} is next, {} was given", shown(next), shown(name))))
            }
            None => Err(self.wrong(format!("all tensors are written, {} was given", shown(name)))),
        }
    }

    fn put_padding(&mut self, size: usize) -> Result<()> {
        // The table has been checked, so the sum does not overflow.
        let mut missing = size.next_multiple_of(self.alignment) - size;
        while missing > 0 {
            let zeros = [0; 4096];
            let count = missing.min(zeros.len());
            self.put(&zeros[..count])?;
            missing -= count;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.write_all(bytes).map_err(|source| Error::Io { path: self.target.clone(), source })
    }

    fn wrong(&self, what: String) -> Error {
        Error::Malformed { file: self.target.display().to_string(), what }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            // Without a flush: the file goes away.
            drop(out.into_parts());
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
