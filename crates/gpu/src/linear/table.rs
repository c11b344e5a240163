//! A packed matrix as a table whose entries are read one by one: embeddings, which are often the same tensor as
//! the matrix of the logits.

use std::ops::Range;

use super::decode;
use super::weight::PackedWeight;

/// Some rows of a table, for a kernel that reads it.
#[derive(Debug, Clone)]
pub struct TablePart<'a> {
    /// The entries.
    pub rows: Range<usize>,
    /// What a kernel binds, whole, as the arrays `low_a` and `rest_a` of [`TablePart::elements`].
    pub buffer: &'a wgpu::Buffer,
    /// The types of the elements of those arrays; floats have no second array.
    pub elements: (&'static str, Option<&'static str>),
    /// WGSL without the bindings: `fn table_value(entry: u32, column: u32) -> f32`, with entries counted from
    /// the first of this part.
    pub text: String,
}

impl PackedWeight {
    /// The parts that the matrix is cut in, each as a table.
    pub fn table_parts(&self) -> impl Iterator<Item = TablePart<'_>> {
        self.pieces().iter().map(|piece| {
            let packing = self.packing();
            let elements = decode::elements(packing.layout());
            let (groups, rest) = (packing.groups(), packing.rest_row());
            let mut text = format!(
                "struct TableShape {{ groups: u32, rest_a: u32 }}\n\
                 const shape = TableShape({groups}u, {rest}u);\n"
            );
            text.push_str(&decode::functions(packing.layout(), 'a', piece.rest_word()));
            text.push_str(VALUE);
            TablePart { rows: piece.rows.clone(), buffer: piece.buffer(), elements, text }
        })
    }
}

const VALUE: &str = "
fn table_value(entry: u32, column: u32) -> f32 {
    let group = column / 32u;
    let now = ready_a(load_a(entry, group), group);
    var quad: vec4<f32>;
    switch (column % 32u / 4u) {
        case 0u: { quad = quad_a_0(now); }
        case 1u: { quad = quad_a_1(now); }
        case 2u: { quad = quad_a_2(now); }
        case 3u: { quad = quad_a_3(now); }
        case 4u: { quad = quad_a_4(now); }
        case 5u: { quad = quad_a_5(now); }
        case 6u: { quad = quad_a_6(now); }
        default: { quad = quad_a_7(now); }
    }
    return quad[column % 4u];
}
";
