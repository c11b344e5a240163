//! The key-value part of a GGUF file, with typed look-ups whose errors name the key.

use crate::{Error, Result};

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants are the value types of the format")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    /// Text; the format does not promise UTF-8, the reader replaces what is not.
    Str(String),
    Array(Array),
}

/// An array of metadata values, stored flat by element type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants are the value types of the format")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Str(Strings),
    Nested(Vec<Array>),
}

/// Many byte strings in one allocation: a vocabulary of 150,000 tokens is two vectors, not 150,000.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strings {
    bytes: Vec<u8>,
    /// Where each string ends in `bytes`; it starts where the one before it ends.
    ends: Vec<usize>,
}

impl Strings {
    /// No strings yet, and room for `count` of them with `bytes` bytes in all.
    pub fn with_capacity(count: usize, bytes: usize) -> Strings {
        Strings { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Appends one string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`, as the bytes that the file holds.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.bytes[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            &self.bytes[start..self.ends[i]]
        })
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut all = Strings::default();
        for s in strings {
            all.push(s.as_ref());
        }
        all
    }
}

impl Array {
    /// How many elements the array has.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::Str(v) => v.len(),
            Array::Nested(v) => v.len(),
        }
    }

    /// Whether the array has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index` as a value of its own.
    pub fn get(&self, index: usize) -> Option<Value> {
        Some(match self {
            Array::U8(v) => Value::U8(*v.get(index)?),
            Array::I8(v) => Value::I8(*v.get(index)?),
            Array::U16(v) => Value::U16(*v.get(index)?),
            Array::I16(v) => Value::I16(*v.get(index)?),
            Array::U32(v) => Value::U32(*v.get(index)?),
            Array::I32(v) => Value::I32(*v.get(index)?),
            Array::U64(v) => Value::U64(*v.get(index)?),
            Array::I64(v) => Value::I64(*v.get(index)?),
            Array::F32(v) => Value::F32(*v.get(index)?),
            Array::F64(v) => Value::F64(*v.get(index)?),
            Array::Bool(v) => Value::Bool(*v.get(index)?),
            Array::Str(v) => Value::Str(String::from_utf8_lossy(v.get(index)?).into_owned()),
            Array::Nested(v) => Value::Array(v.get(index)?.clone()),
        })
    }
}

impl Value {
    /// The value as a non-negative integer, whatever integer type the file chose for it.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::U64(v) => Some(v),
            Value::I8(v) => v.try_into().ok(),
            Value::I16(v) => v.try_into().ok(),
            Value::I32(v) => v.try_into().ok(),
            Value::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a float, whatever float type the file chose for it.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        }
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Bool(_) => "bool",
            Value::Str(_) => "string",
            Value::Array(_) => "array",
        }
    }
}

/// The keys and values of a file, in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    /// Indices into `entries`, sorted by key.
    by_key: Vec<usize>,
}

impl Metadata {
    /// Takes all entries of a file at once; the error is a key that is there twice.
    pub(crate) fn from_entries(entries: Vec<(String, Value)>) -> std::result::Result<Metadata, String> {
        let mut by_key: Vec<usize> = (0..entries.len()).collect();
        by_key.sort_unstable_by_key(|&index| &entries[index].0);
        match by_key.windows(2).find(|pair| entries[pair[0]].0 == entries[pair[1]].0) {
            Some(pair) => Err(entries[pair[0]].0.clone()),
            None => Ok(Metadata { entries, by_key }),
        }
    }

    /// Sets a key, replacing a value that is already there.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.by_key.binary_search_by(|&i| self.entries[i].0.as_str().cmp(&key)) {
            Ok(found) => self.entries[self.by_key[found]].1 = value,
            Err(place) => {
                self.by_key.insert(place, self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    /// Removes all keys that start so.
    pub fn remove_prefix(&mut self, prefix: &str) {
        let kept = std::mem::take(self).entries.into_iter().filter(|(key, _)| !key.starts_with(prefix));
        for (key, value) in kept {
            self.set(key, value);
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let found = self.by_key.binary_search_by(|&i| self.entries[i].0.as_str().cmp(key)).ok()?;
        Some(&self.entries[self.by_key[found]].1)
    }

    /// All keys and values, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An optional non-negative integer of any width.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a non-negative integer", Value::as_u64)
    }

    /// An optional size: a non-negative integer that fits an index and is at most `u32::MAX`.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        self.typed(key, "an integer from 0 to 4294967295", |v| {
            v.as_u64().and_then(|n| u32::try_from(n).ok()).map(|n| n as usize)
        })
    }

    /// An optional float of any width.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a float", Value::as_f32)
    }

    /// An optional boolean.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a boolean", |v| if let Value::Bool(b) = v { Some(*b) } else { None })
    }

    /// An optional string.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", |v| if let Value::Str(s) = v { Some(s.as_str()) } else { None })
    }

    /// An optional array of any element type.
    pub fn array(&self, key: &str) -> Result<Option<&Array>> {
        self.typed(key, "an array", |v| if let Value::Array(a) = v { Some(a) } else { None })
    }

    /// An optional array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&Strings>> {
        self.typed(key, "an array of strings", |v| match v {
            Value::Array(Array::Str(s)) => Some(s),
            _ => None,
        })
    }

    /// An optional array of `f32`.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>> {
        self.typed(key, "an array of f32", |v| match v {
            Value::Array(Array::F32(a)) => Some(a.as_slice()),
            _ => None,
        })
    }

    /// An optional array of `i32` (token types, for example).
    pub fn i32s(&self, key: &str) -> Result<Option<&[i32]>> {
        self.typed(key, "an array of i32", |v| match v {
            Value::Array(Array::I32(a)) => Some(a.as_slice()),
            _ => None,
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| Error::WrongType {
            key: key.to_string(),
            expected,
            found: value.kind().to_string(),
        })
    }
}
