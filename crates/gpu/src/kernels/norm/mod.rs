//! RMS and layer norms of rows or of their heads, and of a sum.

use super::{Dispatch, Grid, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::linear::{HalfRows, Quantized};
use crate::template::{Values, expand};

/// The vectors of a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norm {
    pub weight: Buffer,
    /// Layer norm has one, RMS norm has none.
    pub bias: Option<Buffer>,
    pub epsilon: f32,
    /// Whether each head has factors of its own.
    pub of_heads: bool,
}

/// What else a norm of whole rows writes, besides floats.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Also {
    Nothing,
    /// Integers, where columns are whole groups. Those of an RMS norm are of its input times its weights, beside the
    /// factor of each row.
    Integers(Quantized),
    /// Halves, of the results.
    Halves(HalfRows),
    /// Halves of the input of an RMS norm times its weights, where columns are whole groups; the factors of rows are
    /// among those of halves.
    HalfProducts(HalfRows),
}

/// Bytes of memory that a workgroup needs for an RMS norm of `width` columns that writes halves of products.
pub(crate) fn half_product_bytes(width: usize) -> usize {
    width.next_multiple_of(1024) + width / 8 + 4096
}

/// out = norm(input) of each head, after input += addend where there is one.
pub(crate) fn norm(
    kernels: &mut Kernels,
    norm: Norm,
    heads: usize,
    input: Place,
    addend: Option<Place>,
    out: Place,
    also: Also,
) -> Dispatch {
    let width = out.width / heads;
    let places = [Some(input), addend, Some(out)];
    let aligned = width.is_multiple_of(4)
        && places.iter().flatten().all(|place| (place.offset | place.stride).is_multiple_of(4));
    let element = if aligned { "vec4<f32>" } else { "f32" };
    let values = Values::default()
        .list("EACH", (0..width.div_ceil(4 * 256)).map(|i| format!("{i}u")))
        .switch("LAYER", norm.bias.is_some())
        .switch("RMS", norm.bias.is_none())
        .switch("ADD", addend.is_some())
        .switch("INTEGERS", matches!(also, Also::Integers(_)))
        .switch("HALVES", matches!(also, Also::Halves(_) | Also::HalfProducts(_)));
    let quad = |name: &str, writes: bool| {
        let values = Values::default()
            .set("NAME", name)
            .switch("ALIGNED", aligned)
            .switch("UNALIGNED", !aligned)
            .switch("WRITES", writes);
        expand(include_str!("quad.wgsl"), &values)
    };
    let by_groups = match also {
        Also::Nothing | Also::Halves(_) => false,
        Also::Integers(_) => norm.bias.is_none(),
        Also::HalfProducts(_) => true,
    };
    let text = if by_groups {
        expand(include_str!("rms.wgsl"), &values) + include_str!("../../common/row_factor.wgsl")
    } else {
        expand(include_str!("norm.wgsl"), &values) + include_str!("../../common/fold.wgsl")
    };
    let mut source = Source::new("norm", &text)
        .snippet(&quad("source", addend.is_some()))
        .snippet(&quad("weight", false))
        .snippet(&quad("out", true))
        .size("WIDTH", width)
        .size("WEIGHTS_STRIDE", if norm.of_heads { width } else { 0 })
        .float("INVERSE_WIDTH", 1.0 / width as f32)
        .float("EPSILON", norm.epsilon)
        .read("weight", element, norm.weight)
        .place("OUT_", out)
        .write("out", element, out.buffer)
        .place("SOURCE_", input)
        .write("source", element, input.buffer)
        .place("ADDEND_", addend.unwrap_or(input));
    if let Some(bias) = norm.bias {
        source = source.snippet(&quad("bias", false)).read("bias", element, bias);
    }
    if let Some(addend) = addend {
        source = source.snippet(&quad("addend", false)).read("addend", element, addend.buffer);
    }
    let block_quads = 256 * width.div_ceil(4 * 256);
    if by_groups {
        source = source
            .snippet(include_str!("../../common/squares.wgsl"))
            .snippet(include_str!("../../common/put_squares.wgsl"));
    }
    if let Also::Halves(halves) | Also::HalfProducts(halves) = also {
        source = source.put_halves(halves, width);
    }
    if let Also::HalfProducts(halves) = also {
        source = source.size("BLOCK_QUADS", block_quads).size("HALF_SQUARES", 2 * halves.squares());
    }
    if let Also::Integers(integers) = also {
        source = source.put_integers(integers, block_quads);
        if by_groups {
            source = source.size("SQUARES", 4 * integers.squares()).size("FACTORS", 4 * integers.factors());
        }
    }
    kernels.dispatch(source, Grid::Rows(heads as u32))
}
