//! An opened GGUF file: mapped, checked, ready to be asked.

use std::borrow::Cow;
use std::collections::TryReserveError;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::assembly::{Made, Make, Piece, Place};
use crate::map::Bytes;
use crate::parse::{self, Header};
use crate::split::Split;
use crate::wire::{DEFAULT_ALIGNMENT, VERSION, shown};
use crate::{Error, Format, Metadata, Result, TensorSpec};

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// The name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// The dimensions, fastest first: a linear layer is `[inputs, outputs]`.
    pub shape: Vec<usize>,
    /// How the values are stored.
    pub format: Format,
    /// Which part of a split file holds the data; past the last for a tensor that is made when it is read.
    pub part: usize,
    /// Where the data starts in that part, from the start of the file.
    pub offset: usize,
    /// How many bytes the data takes.
    pub bytes: usize,
}

impl TensorInfo {
    /// How many values the tensor has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One file on disk or in memory.
struct FilePart {
    path: PathBuf,
    bytes: Arc<Bytes>,
}

/// An opened GGUF file (or all the parts of a split one).
///
/// Every tensor in [`tensors`](Gguf::tensors) has been checked: its data lies inside its part, does not
/// overlap another tensor's, and is as long as its shape and format say.
pub struct Gguf {
    /// As the caller named it.
    name: String,
    version: u32,
    alignment: usize,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    /// Indices into `tensors`, sorted by name.
    by_name: Vec<usize>,
    parts: Vec<FilePart>,
    /// Of a model that was assembled, the tensors that lie in no file as they are.
    made: Vec<Made>,
}

impl Gguf {
    /// Opens a file; when it is one part of a split (`-00001-of-00003`), opens them all.
    pub fn open(path: &Path) -> Result<Gguf> {
        let name = path.display().to_string();
        let bytes = Bytes::map(path)?;
        let header = parse::header(&name, &bytes, 0)?;
        match Split::of(&header.metadata).map_err(|error| malformed(&name, error))? {
            None => Gguf::whole(name, path.to_path_buf(), bytes, header),
            Some(split) => {
                drop(bytes);
                Gguf::join(name, split.siblings(path)?)
            }
        }
    }

    /// Opens a file that is already in memory; `name` stands in messages.
    pub fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Gguf> {
        Gguf::in_memory(name, Bytes::Static(bytes))
    }

    /// Opens a file from bytes that it keeps; `name` stands in messages.
    pub fn from_vec(name: &str, bytes: Vec<u8>) -> Result<Gguf> {
        Gguf::in_memory(name, Bytes::Owned(bytes))
    }

    fn in_memory(name: &str, bytes: Bytes) -> Result<Gguf> {
        let header = parse::header(name, &bytes, 0)?;
        if let Some(split) = Split::of(&header.metadata).map_err(|error| malformed(name, error))? {
            let what = format!(
                "is part {} of {} of a split file; open it from disk, beside its other parts",
                split.number + 1,
                split.count
            );
            return Err(Error::Malformed { file: name.to_string(), what });
        }
        Gguf::whole(name.to_string(), PathBuf::from(name), bytes, header)
    }

    fn whole(name: String, path: PathBuf, bytes: Bytes, header: Header) -> Result<Gguf> {
        let Header { version, alignment, metadata, tensors } = header;
        let parts = vec![FilePart { path, bytes: Arc::new(bytes) }];
        Gguf { name, version, alignment, metadata, tensors, by_name: Vec::new(), parts, made: Vec::new() }
            .indexed()
    }

    /// A model in memory that takes its tensors from files of other kinds: as they lie there, or made when they are
    /// first read. `name` stands in messages.
    pub fn assemble(
        name: &str,
        metadata: Metadata,
        files: Vec<(PathBuf, Arc<Bytes>)>,
        pieces: Vec<Piece>,
    ) -> Result<Gguf> {
        let (mut tensors, mut made) = (Vec::with_capacity(pieces.len()), Vec::new());
        for Piece { spec, place } in pieces {
            let bytes = spec.bytes()?;
            let (part, offset) = match place {
                Place::In { file, offset } => {
                    let end = offset.checked_add(bytes);
                    let whole = files.get(file).map(|(_, bytes)| bytes.len());
                    if end.is_none() || end > whole {
                        let what = format!("tensor {} does not lie inside its file", shown(&spec.name));
                        return Err(Error::Malformed { file: name.to_string(), what });
                    }
                    (file, offset)
                }
                Place::Made(make) => {
                    made.push(Made::new(make, bytes));
                    (files.len() + made.len() - 1, 0)
                }
            };
            let TensorSpec { name, shape, format } = spec;
            tensors.push(TensorInfo { name, shape, format, part, offset, bytes });
        }
        let parts = files.into_iter().map(|(path, bytes)| FilePart { path, bytes }).collect();
        let (name, version, alignment) = (name.to_string(), VERSION, DEFAULT_ALIGNMENT);
        Gguf { name, version, alignment, metadata, tensors, by_name: Vec::new(), parts, made }.indexed()
    }

    /// The same file with more tensors, which are made when they are read.
    pub fn with_made(mut self, tensors: Vec<(TensorSpec, Box<dyn Make>)>) -> Result<Gguf> {
        for (spec, make) in tensors {
            let bytes = spec.bytes()?;
            let part = self.parts.len() + self.made.len();
            let TensorSpec { name, shape, format } = spec;
            self.tensors.push(TensorInfo { name, shape, format, part, offset: 0, bytes });
            self.made.push(Made::new(make, bytes));
        }
        self.indexed()
    }

    /// Opens all parts of a split file. The first one holds the metadata.
    fn join(name: String, paths: Vec<PathBuf>) -> Result<Gguf> {
        let fail = |what: String| Error::Malformed { file: name.clone(), what };
        let count = paths.len();
        let mut joined: Option<Gguf> = None;
        for (number, path) in paths.into_iter().enumerate() {
            let bytes = Bytes::map(&path).map_err(|error| match error {
                Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => fail(format!(
                    "part {} of {count} is missing; put {} beside the others",
                    number + 1,
                    path.display()
                )),
                other => other,
            })?;
            let file = path.display().to_string();
            let header = parse::header(&file, &bytes, number)?;
            let found = Split::of(&header.metadata).map_err(|error| malformed(&file, error))?;
            if found != Some(Split { number, count }) {
                let what = match found {
                    Some(other) => format!("says it is part {} of {}", other.number + 1, other.count),
                    None => "does not say that it is part of a split file".to_string(),
                };
                let what =
                    format!("{what}, but its name says part {} of {count}; download it again", number + 1);
                return Err(Error::Malformed { file, what });
            }
            match &mut joined {
                None => joined = Some(Gguf::whole(name.clone(), path, bytes, header)?),
                Some(all) => {
                    all.tensors.extend(header.tensors);
                    all.parts.push(FilePart { path, bytes: Arc::new(bytes) });
                }
            }
        }
        let joined = joined.ok_or_else(|| fail("has no part".into()))?;
        let total = joined.metadata.u64("split.tensors.count").map_err(|error| malformed(&name, error))?;
        if let Some(total) = total.filter(|&total| total != joined.tensors.len() as u64) {
            return Err(fail(format!(
                "key split.tensors.count says {total} tensors, but the {count} parts hold {}; \
                 download all parts again",
                joined.tensors.len()
            )));
        }
        joined.indexed()
    }

    /// Sorts the names for look-up, and refuses a name that is there twice.
    fn indexed(mut self) -> Result<Gguf> {
        let tensors = &self.tensors;
        self.by_name = (0..tensors.len()).collect();
        self.by_name.sort_unstable_by_key(|&index| &tensors[index].name);
        for pair in self.by_name.windows(2) {
            if tensors[pair[0]].name == tensors[pair[1]].name {
                let what = format!("tensor {} is there twice", shown(&tensors[pair[0]].name));
                return Err(Error::Malformed { file: self.name, what });
            }
        }
        Ok(self)
    }

    /// The file, as the caller named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of tensor data, in bytes.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// The paths of the parts, in order: one, unless the file is split.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// The keys and values; of a split file, those of its first part.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// How many bytes the data of all tensors takes.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes as u64).sum()
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let found =
            self.by_name.binary_search_by(|&index| self.tensors[index].name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[self.by_name[found]])
    }

    /// The tensor of that name, or an error that names the file and the tensor.
    pub fn require_tensor(&self, name: &str) -> Result<&TensorInfo> {
        self.tensor(name)
            .ok_or_else(|| Error::MissingTensor { file: self.name.clone(), name: name.to_string() })
    }

    /// The bytes of a tensor of this file, straight from the map; where it is made, it is made now and kept.
    ///
    /// # Panics
    /// When `tensor` is not one of this file's.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        match self.parts.get(tensor.part) {
            Some(part) => &part.bytes[tensor.offset..][..tensor.bytes],
            None => self.made[tensor.part - self.parts.len()].data(),
        }
    }

    /// Some of the bytes of a tensor of this file, whole rows of it, for one who reads it once from end to end:
    /// what is made is not kept.
    ///
    /// # Panics
    /// When `tensor` is not one of this file's, or the range not inside it.
    pub fn stretch(&self, tensor: &TensorInfo, range: Range<usize>) -> Cow<'_, [u8]> {
        match self.parts.get(tensor.part) {
            Some(part) => Cow::Borrowed(&part.bytes[tensor.offset..][..tensor.bytes][range]),
            None => self.made[tensor.part - self.parts.len()].stretch(range),
        }
    }

    /// All values of a tensor of this file as `f32`.
    ///
    /// # Panics
    /// When `tensor` is not one of this file's.
    pub fn decode(&self, tensor: &TensorInfo) -> Result<Vec<f32>> {
        let mut values = Vec::new();
        values.try_reserve_exact(tensor.len()).map_err(|_: TryReserveError| Error::Malformed {
            file: self.name.clone(),
            what: format!("tensor {}: not enough memory to decode {} values", tensor.name, tensor.len()),
        })?;
        values.resize(tensor.len(), 0.0);
        tensor.format.decode(self.data(tensor), &mut values);
        Ok(values)
    }

    /// Asks the system to read a tensor's pages ahead of their use. Does nothing where it cannot.
    pub fn will_need(&self, tensor: &TensorInfo) {
        if let Some(part) = self.parts.get(tensor.part) {
            part.bytes.will_need(tensor.offset..tensor.offset + tensor.bytes);
        }
    }

    /// Tells the system that a tensor's pages can be dropped from memory; they are read from the file
    /// again when used again. Does nothing where it cannot.
    pub fn release(&self, tensor: &TensorInfo) {
        match self.parts.get(tensor.part) {
            Some(part) => part.bytes.release(tensor.offset..tensor.offset + tensor.bytes),
            None => self.made[tensor.part - self.parts.len()].release(),
        }
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Gguf")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("keys", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .field("parts", &self.parts.len())
            .finish()
    }
}

/// The same error, with the file's name in front.
fn malformed(file: &str, error: Error) -> Error {
    Error::Malformed { file: file.to_string(), what: error.to_string() }
}
