//! Reads the header of one file: metadata and tensor table, every length checked before it is used.
//!
//! Nothing is allocated from a number that the file claims until the bytes behind it are known to be
//! there, so a hostile file costs at most a small multiple of its own size.

use crate::metadata::{Array, Metadata, Strings, Value};
use crate::wire::{self, kind, shown};
use crate::{Error, Format, Result, TensorInfo};

/// What the header of one file says.
pub struct Header {
    pub version: u32,
    pub alignment: usize,
    pub metadata: Metadata,
    pub tensors: Vec<TensorInfo>,
}

/// Reads the header of the file whose content is `bytes`; `file` stands in messages and `part` in tensors.
pub fn header(file: &str, bytes: &[u8], part: usize) -> Result<Header> {
    parse(bytes, part).map_err(|what| Error::Malformed { file: file.to_string(), what })
}

/// What is wrong, without the file's name.
pub type Checked<T> = std::result::Result<T, String>;

fn parse(bytes: &[u8], part: usize) -> Checked<Header> {
    if !bytes.starts_with(wire::MAGIC) {
        return Err(crate::looks::not_gguf(bytes));
    }
    let mut cursor = Cursor { bytes, at: wire::MAGIC.len() };
    let version = cursor.u32(&"the version")?;
    match version {
        2 | 3 => {}
        1 => {
            return Err("GGUF version 1 is not supported; convert the model again with a current tool".into());
        }
        _ if matches!(version.swap_bytes(), 1..=255) => {
            return Err("is a big-endian GGUF file, only little-endian is supported; \
                        convert the model again for little-endian"
                .into());
        }
        _ => return Err(format!("GGUF version {version} is not supported (2 and 3 are)")),
    }
    let tensor_count = cursor.u64(&"the number of tensors")?;
    let key_count = cursor.u64(&"the number of keys")?;
    // The smallest tensor entry: name length, dimension count, format, offset; the smallest key: name
    // length, type and a one-byte value.
    cursor.expect_room(tensor_count, 8 + 4 + 4 + 8, &"tensors")?;
    cursor.expect_room(key_count, 8 + 4 + 1, &"keys")?;

    let metadata = cursor.metadata(key_count)?;
    let alignment = match metadata.get("general.alignment") {
        None => wire::DEFAULT_ALIGNMENT,
        Some(value) => {
            let value = value
                .as_u64()
                .ok_or_else(|| format!("key general.alignment: expected u32, found {}", value.kind()))?;
            wire::checked_alignment(value)?
        }
    };
    let mut tensors = cursor.tensors(tensor_count, part)?;
    place(&mut tensors, cursor.at, alignment, bytes.len())?;
    Ok(Header { version, alignment, metadata, tensors })
}

/// Turns offsets into the data section into offsets into the file, and checks that every tensor lies in
/// the file by itself.
fn place(tensors: &mut [TensorInfo], header_end: usize, alignment: usize, file_len: usize) -> Checked<()> {
    let start = wire::align_up(header_end, alignment)
        .ok_or_else(|| format!("key general.alignment: {alignment} is too large for this machine"))?;
    for tensor in tensors.iter_mut() {
        let name = shown(&tensor.name);
        if !tensor.offset.is_multiple_of(alignment) {
            return Err(format!(
                "tensor {name}: its offset {} is not a multiple of the alignment {alignment}: \
                 the file is damaged; download it again",
                tensor.offset
            ));
        }
        let range = start
            .checked_add(tensor.offset)
            .and_then(|first| Some((first, first.checked_add(tensor.bytes)?)))
            .ok_or_else(|| format!("tensor {name}: its offset {} is out of range", tensor.offset))?;
        if range.1 > file_len && tensor.bytes > 0 {
            return Err(format!(
                "file is truncated: tensor {name} needs bytes {}..{}, file has {file_len}; download it again",
                range.0, range.1
            ));
        }
        // An empty tensor may be said to lie anywhere; keep every stored range inside the file.
        tensor.offset = range.0.min(file_len);
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().filter(|tensor| tensor.bytes > 0).collect();
    order.sort_unstable_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(format!(
                "tensor {} overlaps tensor {} at offset {}: the file is damaged; download it again",
                shown(&pair[0].name),
                shown(&pair[1].name),
                pair[1].offset
            ));
        }
    }
    Ok(())
}

/// Bytes at an offset as the name of something: UTF-8 and of a sensible length.
pub fn as_name(bytes: &[u8], at: usize, what: &dyn std::fmt::Display) -> Checked<String> {
    if bytes.len() > wire::MAX_KEY_BYTES {
        return Err(format!(
            "{what} at offset {at} has {} bytes, at most {} are allowed",
            bytes.len(),
            wire::MAX_KEY_BYTES
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{what} at offset {at} is not UTF-8"))?;
    Ok(text.to_string())
}

/// A place in the bytes of a file.
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn take(&mut self, count: usize, what: &dyn std::fmt::Display) -> Checked<&'a [u8]> {
        if count > self.left() {
            return Err(format!(
                "{what} at offset {} needs {count} bytes, but the file ends {} bytes later: \
                 it is truncated or damaged; download it again",
                self.at,
                self.left()
            ));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// Checks that `count` things of at least `least` bytes each can follow, and makes `count` an index.
    pub fn expect_room(&self, count: u64, least: usize, what: &dyn std::fmt::Display) -> Checked<usize> {
        usize::try_from(count).ok().filter(|&count| count <= self.left() / least).ok_or_else(|| {
            format!(
                "claims {count} {what} at offset {}, but the file ends {} bytes later: \
                 it is truncated or damaged; download it again",
                self.at,
                self.left()
            )
        })
    }

    fn array<const N: usize>(&mut self, what: &dyn std::fmt::Display) -> Checked<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, what)?);
        Ok(bytes)
    }

    pub fn u32(&mut self, what: &dyn std::fmt::Display) -> Checked<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &dyn std::fmt::Display) -> Checked<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length of eight bytes and that many bytes.
    fn string(&mut self, what: &dyn std::fmt::Display) -> Checked<&'a [u8]> {
        let length = self.u64(what)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX), what)
    }

    /// A string that names something: UTF-8 and of a sensible length.
    fn name(&mut self, what: &dyn std::fmt::Display) -> Checked<String> {
        let at = self.at;
        as_name(self.string(what)?, at, what)
    }

    fn metadata(&mut self, count: u64) -> Checked<Metadata> {
        let mut entries = Vec::new();
        for index in 0..count {
            let key = self.name(&format_args!("the name of key {index}"))?;
            let value = self.value(&Location { key: &key })?;
            entries.push((key, value));
        }
        Metadata::from_entries(entries).map_err(|key| format!("key {} is there twice", shown(&key)))
    }

    fn value(&mut self, place: &Location) -> Checked<Value> {
        let at = self.at;
        Ok(match self.u32(place)? {
            kind::U8 => Value::U8(u8::from_le_bytes(self.array(place)?)),
            kind::I8 => Value::I8(i8::from_le_bytes(self.array(place)?)),
            kind::U16 => Value::U16(u16::from_le_bytes(self.array(place)?)),
            kind::I16 => Value::I16(i16::from_le_bytes(self.array(place)?)),
            kind::U32 => Value::U32(u32::from_le_bytes(self.array(place)?)),
            kind::I32 => Value::I32(i32::from_le_bytes(self.array(place)?)),
            kind::U64 => Value::U64(u64::from_le_bytes(self.array(place)?)),
            kind::I64 => Value::I64(i64::from_le_bytes(self.array(place)?)),
            kind::F32 => Value::F32(f32::from_le_bytes(self.array(place)?)),
            kind::F64 => Value::F64(f64::from_le_bytes(self.array(place)?)),
            kind::BOOL => Value::Bool(self.bools(1, place)?[0]),
            kind::STRING => Value::Str(String::from_utf8_lossy(self.string(place)?).into_owned()),
            kind::ARRAY => Value::Array(self.values(place, 1)?),
            other => return Err(format!("{place} at offset {at}: unknown value type {other}")),
        })
    }

    /// An array: element type, count, elements. `depth` is 1 for an array that is a value.
    fn values(&mut self, place: &Location, depth: usize) -> Checked<Array> {
        if depth > wire::MAX_DEPTH {
            return Err(format!("{place}: arrays nest deeper than {} levels", wire::MAX_DEPTH));
        }
        let at = self.at;
        let element = self.u32(place)?;
        let count = self.u64(place)?;
        Ok(match element {
            kind::U8 => Array::U8(self.numbers(count, u8::from_le_bytes, place)?),
            kind::I8 => Array::I8(self.numbers(count, i8::from_le_bytes, place)?),
            kind::U16 => Array::U16(self.numbers(count, u16::from_le_bytes, place)?),
            kind::I16 => Array::I16(self.numbers(count, i16::from_le_bytes, place)?),
            kind::U32 => Array::U32(self.numbers(count, u32::from_le_bytes, place)?),
            kind::I32 => Array::I32(self.numbers(count, i32::from_le_bytes, place)?),
            kind::U64 => Array::U64(self.numbers(count, u64::from_le_bytes, place)?),
            kind::I64 => Array::I64(self.numbers(count, i64::from_le_bytes, place)?),
            kind::F32 => Array::F32(self.numbers(count, f32::from_le_bytes, place)?),
            kind::F64 => Array::F64(self.numbers(count, f64::from_le_bytes, place)?),
            kind::BOOL => Array::Bool(self.bools(count, place)?),
            kind::STRING => Array::Str(self.strings(count, place)?),
            kind::ARRAY => {
                self.expect_room(count, 4 + 8, &format_args!("arrays in {place}"))?;
                let mut arrays = Vec::new();
                for _ in 0..count {
                    arrays.push(self.values(place, depth + 1)?);
                }
                Array::Nested(arrays)
            }
            other => return Err(format!("{place} at offset {at}: unknown element type {other}")),
        })
    }

    fn numbers<T, const N: usize>(
        &mut self,
        count: u64,
        decode: fn([u8; N]) -> T,
        place: &Location,
    ) -> Checked<Vec<T>> {
        let count = self.expect_room(count, N, &format_args!("elements in {place}"))?;
        let bytes = self.take(count * N, place)?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|&chunk| decode(chunk)).collect())
    }

    fn bools(&mut self, count: u64, place: &Location) -> Checked<Vec<bool>> {
        let at = self.at;
        let count = self.expect_room(count, 1, &format_args!("elements in {place}"))?;
        let bytes = self.take(count, place)?;
        match bytes.iter().position(|&byte| byte > 1) {
            Some(bad) => Err(format!("{place} at offset {}: {} is not a boolean", at + bad, bytes[bad])),
            None => Ok(bytes.iter().map(|&byte| byte == 1).collect()),
        }
    }

    /// Two passes: the first checks every length and adds them up, the second copies into one allocation.
    fn strings(&mut self, count: u64, place: &Location) -> Checked<Strings> {
        let count = self.expect_room(count, 8, &format_args!("strings in {place}"))?;
        let first = self.at;
        for _ in 0..count {
            self.string(place)?;
        }
        let mut strings = Strings::with_capacity(count, self.at - first - 8 * count);
        self.at = first;
        for _ in 0..count {
            strings.push(self.string(place)?);
        }
        Ok(strings)
    }

    /// The tensor table. Offsets are still counted from the start of the data section.
    fn tensors(&mut self, count: u64, part: usize) -> Checked<Vec<TensorInfo>> {
        let mut tensors = Vec::new();
        for index in 0..count {
            let name = self.name(&format_args!("the name of tensor {index}"))?;
            let tensor = self.tensor(name, part)?;
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    fn tensor(&mut self, name: String, part: usize) -> Checked<TensorInfo> {
        let place = format!("tensor {}", shown(&name));
        let dimensions = self.u32(&place)? as usize;
        if dimensions > wire::MAX_DIMENSIONS {
            return Err(format!(
                "{place}: has {dimensions} dimensions, at most {} are supported",
                wire::MAX_DIMENSIONS
            ));
        }
        let mut shape = Vec::with_capacity(dimensions);
        for _ in 0..dimensions {
            let length = self.u64(&place)?;
            shape
                .push(usize::try_from(length).map_err(|_| {
                    format!("{place}: a dimension of {length} is too large for this machine")
                })?);
        }
        let id = self.u32(&place)?;
        let format = Format::from_id(id).ok_or_else(|| {
            format!("{place}: unknown format {id}; it may need a newer version of this program")
        })?;
        let bytes = wire::tensor_bytes(format, &shape).map_err(|what| format!("{place}: {what}"))?;
        let offset = self.u64(&place)?;
        let offset = usize::try_from(offset)
            .map_err(|_| format!("{place}: its offset {offset} is too large for this machine"))?;
        Ok(TensorInfo { name, shape, format, part, offset, bytes })
    }
}

/// Which key is being read, for messages.
struct Location<'a> {
    key: &'a str,
}

impl std::fmt::Display for Location<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "key {}", shown(self.key))
    }
}
