//! Kernels on matrix units, on devices that have none: what they multiply is multiplied by plain WGSL, so that all else
//! that such a kernel does can be tested anywhere.

use gleed_model::arithmetic::SEGMENT;

use crate::linear::layout::GROUP;
use crate::linear::shader::{LANES, text_of};
use crate::linear::{LinearKernels, LinearSpec, Tiling};
use crate::testing::kernels;
use crate::units::fragments::{FRAGMENTS, Fragments, UNITS_ENABLED};

/// Kernels of one tiling on matrix units.
pub fn emulating(tiling: Tiling) -> LinearKernels {
    LinearKernels::new(&mut kernels(), &[], &[]).with_texts(tiling, within_bounds)
}

/// Products that a thread may emulate. Mesa ends all loops of a thread, without a word, after 65,535 turns that are counted
/// over the whole kernel, and each product takes 280: past that results are wrong.
const MOST_PRODUCTS: usize = 65_535 / 280 - 1;

/// The text of a kernel that multiplies no more than can be emulated.
fn within_bounds(spec: LinearSpec, tiling: Tiling) -> String {
    let Tiling::Halves { rows, split, .. } = tiling else { panic!("{tiling} is not on matrix units") };
    // Of 16 columns, 16 outputs and 16 rows, for two tiles of outputs.
    let segments = (spec.half_groups() as usize * GROUP).div_ceil(SEGMENT).div_ceil(split as usize);
    let columns = (segments * SEGMENT).min(spec.half_groups() as usize * GROUP);
    let products = columns / 16 * 2 * rows.div_ceil(16) as usize;
    assert!(products <= MOST_PRODUCTS, "{tiling} of {columns} columns: {products} emulated products");
    emulated(spec, tiling)
}

/// The text of a kernel with plain products, and with subgroups of 32 threads whatever the device's are.
pub fn emulated(spec: LinearSpec, tiling: Tiling) -> String {
    let Tiling::Halves { split, across, .. } = tiling else { panic!("{tiling} is not on matrix units") };
    let text = text_of(spec, tiling, false).replace(LANES, include_str!("lanes_plain.wgsl"));
    with_plain_halves(&text, (split * across) as usize, "shape.columns")
}

/// A kernel of halves with plain products: it says how many subgroups it has, and has a word that is not zero.
pub fn with_plain_halves(text: &str, subgroups: usize, not_zero: &str) -> String {
    let text = text.strip_prefix(UNITS_ENABLED).expect("a kernel on matrix units");
    let fragments = include_str!("fragments_plain.wgsl").replace("shape.columns", not_zero);
    let text = text.replace(FRAGMENTS, &fragments);
    let text = format!("enable f16;\nconst ALL_FRAGMENTS = {}u;\n{text}", 256 * subgroups);
    of_32_lanes(&text)
}

/// A kernel whose lanes share elements of matrices, with plain products of 8x8 matrices.
pub fn with_plain_parts(text: &str) -> String {
    let text = Fragments::Shared(8).shared_in(text).expect("a kernel on matrix units");
    let text = text.strip_prefix(UNITS_ENABLED).expect("a kernel on matrix units");
    let parts: Vec<&str> = text.lines().filter(|line| line.contains("coop_mat8x8")).collect();
    let text = parts.iter().fold(text.to_string(), |text, line| text.replace(line, ""));
    let functions = [
        ("coopLoadT<LeftPart>(&unit_halves[", "load_left("),
        ("coopLoad<RightPart>(&unit_halves[", "load_right("),
        ("coopLoadT<SumsPart>(&unit_sums[", "load_sums("),
        ("coopStoreT(", "store_sums("),
        ("&unit_sums[", ""),
        ("], 16u)", ")"),
        ("coopMultiplyAdd(", "multiply_parts("),
        ("subgroupBarrier()", "workgroupBarrier()"),
    ];
    let text = functions.iter().fold(text, |text, (from, to)| text.replace(from, to));
    of_32_lanes(&format!("enable f16;\n{}{text}", include_str!("parts_plain.wgsl")))
}

/// A kernel whose lanes are counted by its threads.
fn of_32_lanes(text: &str) -> String {
    let text = text.replace("    @builtin(subgroup_id) subgroup: u32,\n", "");
    let text = text.replace("    @builtin(subgroup_invocation_id) lane: u32,\n", "");
    let (before, main) = text.split_once("fn main(").expect("an entry");
    let lanes = ") {\n    let subgroup = thread / 32u;\n    let lane = thread % 32u;\n";
    format!("{before}fn main({}", main.replacen(") {\n", lanes, 1))
}
