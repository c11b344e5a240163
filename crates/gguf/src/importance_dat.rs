//! Importance matrices as llama.cpp wrote them before it wrote GGUF, mostly under the name `imatrix.dat`. There are more
//! of these on hubs than of the others.
//!
//! Little-endian: the number of tensors (u32), then for each the length of its name (u32) and the name, the number of
//! windows (u32), the number of columns (u32) and an f32 for each: the mean square of its input times the windows. Then,
//! but for the oldest, the number of windows of all and the name of the text with its length.

use std::collections::BTreeMap;

use crate::parse::{Checked, Cursor, as_name};
use crate::{Importance, InputSquares, shown};

/// The least that an entry takes: the length of a name, windows, columns.
const LEAST: usize = 12;

/// Whether bytes may be such a matrix: a first tensor with a name.
pub fn looks_like(bytes: &[u8]) -> bool {
    let mut cursor = Cursor { bytes, at: 0 };
    tensors(&mut cursor).is_ok_and(|count| count > 0 && name(&mut cursor).is_ok_and(|name| !name.is_empty()))
}

/// Reads a whole file.
pub fn parse(bytes: &[u8]) -> Checked<Importance> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut importance = Importance { inputs: BTreeMap::new(), ..Importance::default() };
    for _ in 0..tensors(&mut cursor)? {
        let name = name(&mut cursor)?;
        let place = format_args!("tensor {}", shown(&name)).to_string();
        let windows = cursor.u32(&place)?;
        let columns = cursor.u32(&place)?;
        let columns = cursor.expect_room(columns.into(), 4, &format_args!("columns of {place}"))?;
        if columns == 0 {
            return Err(format!("{place} has no columns"));
        }
        let sums = cursor.take(4 * columns, &place)?.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
        // Files that do not say how many windows there were hold means.
        let inputs = InputSquares { sums: sums.collect(), counts: vec![windows.max(1) as f32] };
        inputs.check(&name)?;
        if importance.inputs.insert(name, inputs).is_some() {
            return Err(format!("{place} is there twice"));
        }
    }
    if cursor.left() > 0 {
        importance.chunks = cursor.u32(&"the number of windows")?;
    }
    if cursor.left() > 0 {
        let length = cursor.u32(&"the name of the text")? as usize;
        let text = cursor.take(length, &"the name of the text")?;
        importance.datasets.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(importance)
}

/// How many tensors there are.
fn tensors(cursor: &mut Cursor) -> Checked<usize> {
    let count = cursor.u32(&"the number of tensors")?;
    cursor.expect_room(count.into(), LEAST, &"tensors")
}

/// The name of a tensor.
fn name(cursor: &mut Cursor) -> Checked<String> {
    let length = cursor.u32(&"the name of a tensor")? as usize;
    let at = cursor.at;
    as_name(cursor.take(length, &"the name of a tensor")?, at, &"the name of a tensor")
}
