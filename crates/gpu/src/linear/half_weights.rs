//! The WGSL that makes halves of a matrix's weights: how a lane loads its eight columns of each group of 32, and how they
//! become halves. [`gleed_model::arithmetic::half_weights`] says what it computes.
//!
//! Integers become halves without conversion instructions. Where there are mins, their bits are those of a very small half
//! already, and a fused multiply-add does the rest. Where there are none, under the exponent of 2¹⁰ they are a half whose
//! mantissa ends in them, and subtracting 2¹⁰ leaves the integer.

use std::fmt::Write as _;

use super::half_layout::{HalfLayout, Terms, sharing, shift_of_pair};

/// The exponent of 2¹⁰ of two halves.
const EXPONENT: &str = "0x64006400u";

/// Bindings and functions of matrix `m`. A lane has columns 8·word to 8·word + 7 of every group of two rows, the near one
/// and the far one. Rows have `groups` groups, `GROUPS` in the text. As many groups as are loaded `ahead` have a slot.
/// - `load_m(ptr Raw_m, tile, group, slot, lane)` loads what a group needs into a slot,
/// - `terms_m(ptr Raw_m, group, slot, side, word) -> vec2<f16>` are scale and min of its columns,
/// - `weights_m(ptr Raw_m, terms, group, slot, side, step) -> vec4<f16>` are the first or the last four,
/// - `weight_factor_m(row) -> f32` is what the row's halves are to be multiplied with.
pub(crate) fn snippet(
    layout: HalfLayout,
    m: char,
    first_binding: u32,
    groups: usize,
    ahead: usize,
) -> String {
    let mut text = bindings(m, first_binding);
    let mut fields = format!("    low: array<vec2<u32>, {}>,\n", ahead * Plane::of(layout.low_bits).vectors);
    for (name, is_there) in [("extra", layout.extra_bits > 0), ("terms", layout.terms.is_some())] {
        if is_there {
            line(&mut fields, format!("    {name}: array<vec2<u32>, {ahead}>,"));
        }
    }
    line(&mut text, format!("struct Raw_M {{\n{fields}}}"));
    text += &load(layout);
    text += &terms_of(layout);
    text += &weights_of(layout);
    // Sizes that compilers know make addresses cheap.
    let text = text.replace("shape.groups", "GROUPS").replace("shape.rest_", "REST_");
    let sizes = format!("const REST_{m} = {}u;\n", layout.rest_words(groups));
    sizes + &text.replace("_M", &format!("_{m}"))
}

fn bindings(m: char, first_binding: u32) -> String {
    let rest = first_binding + 1;
    format!(
        "@group(0) @binding({first_binding}) var<storage, read> low_{m}: array<vec2<u32>>;\n\
         @group(0) @binding({rest}) var<storage, read> rest_{m}: array<vec2<u32>>;\n\
         fn weight_factor_{m}(row: u32) -> f32 {{\n\
         \x20   let last = (row / 16u + 1u) * shape.rest_{m} - 1u;\n\
         \x20   return bitcast<f32>(rest_{m}[last * 8u + row % 8u][row % 16u / 8u]);\n}}\n"
    )
}

fn line(text: &mut String, what: impl AsRef<str>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", what.as_ref());
}

/// How numbers of `bits` bits lie: groups that share a vector of a lane, or vectors that a group has.
#[derive(Clone, Copy)]
struct Plane {
    bits: u32,
    groups: usize,
    vectors: usize,
}

impl Plane {
    fn of(bits: u32) -> Plane {
        let (groups, vectors) = sharing(bits);
        Plane { bits, groups, vectors }
    }
}

fn load(layout: HalfLayout) -> String {
    let mut body = String::new();
    // The vectors of a plane, which begins at some place.
    let mut lanes = |name: &str, buffer: &str, begin: String, plane: Plane| {
        let Plane { groups, vectors, .. } = plane;
        for v in 0..vectors {
            let (slot, vector) = match (groups, vectors) {
                (1, 1) => ("slot".to_string(), "group".to_string()),
                (1, _) => (format!("slot * {vectors}u + {v}u"), format!("(group * {vectors}u + {v}u)")),
                _ => ("slot".to_string(), format!("group / {groups}u")),
            };
            line(
                &mut body,
                format!("    (*raw).{name}[{slot}] = {buffer}[{begin} + {vector} * 32u + lane];"),
            );
        }
    };
    let low = format!("tile * shape.groups * {}u", 8 * layout.low_bits);
    lanes("low", "low_M", low, Plane::of(layout.low_bits));
    if layout.extra_bits > 0 {
        lanes("extra", "rest_M", "tile * shape.rest_M * 8u".to_string(), Plane::of(layout.extra_bits));
    }
    if let Some(terms) = layout.terms {
        let begin = format!("tile * shape.rest_M * 8u + shape.groups * {}u", 8 * layout.extra_bits);
        let word = match terms {
            Terms { mins: true, halves: true } => "(group * 2u + lane % 4u / 2u)",
            Terms { mins: false, halves: false } => "group / 2u",
            _ => "group",
        };
        line(&mut body, format!("    (*raw).terms[slot] = rest_M[{begin} + {word} * 8u + lane / 4u];"));
    }
    format!(
        "fn load_M(raw: ptr<function, Raw_M>, tile: u32, group: u32, slot: u32, lane: u32) {{\n{body}}}\n"
    )
}

/// Scale and min of a lane's columns.
fn terms_of(layout: HalfLayout) -> String {
    let value = match layout.terms {
        None => "vec2<f16>()",
        Some(Terms { mins: true, .. }) => "halves_of((*raw).terms[slot][side])",
        Some(Terms { mins: false, halves: false }) => {
            "halves_of((*raw).terms[slot][side] >> (group % 2u * 16u))"
        }
        Some(Terms { mins: false, halves: true }) => {
            "halves_of((*raw).terms[slot][side] >> (word / 2u * 16u))"
        }
    };
    format!(
        "fn terms_M(raw: ptr<function, Raw_M>, group: u32, slot: u32, side: u32, word: u32) -> vec2<f16> {{\n    return {value};\n}}\n"
    )
}

/// Four weights.
fn weights_of(layout: HalfLayout) -> String {
    let signature = "fn weights_M(raw: ptr<function, Raw_M>, terms: vec2<f16>, group: u32, slot: u32, side: u32, step: u32)";
    let body = match layout.terms {
        None => "    let first = halves_of((*raw).low[slot * 4u + step * 2u][side]);\n\
                 \x20   return vec4<f16>(first, halves_of((*raw).low[slot * 4u + step * 2u + 1u][side]));\n"
            .to_string(),
        Some(terms) => (0..2).map(|step| step_of(layout, terms, step)).collect(),
    };
    format!("{signature} -> vec4<f16> {{\n{body}}}\n")
}

/// The four of a step.
fn step_of(layout: HalfLayout, terms: Terms, step: usize) -> String {
    let HalfLayout { low_bits, extra_bits, offset, .. } = layout;
    let (begin, end) = if step == 0 { ("    if (step == 0u) {\n", "    }\n") } else { ("", "") };
    let mut body = begin.to_string();
    let word = |name: &str, bits: u32| {
        let index = match sharing(bits).1 {
            1 => "slot".to_string(),
            vectors => format!("slot * {vectors}u + {}u", step * vectors / 2),
        };
        format!("    let {name} = (*raw).{name}[{index}][side];")
    };
    line(&mut body, word("low", low_bits));
    if extra_bits > 0 {
        line(&mut body, word("extra", extra_bits));
    }
    // The bits of a pair, each above nothing else in its half of a word.
    let part = |name: &str, bits: u32, pair: usize| {
        let mask = ((1u32 << bits) - 1) * 0x0001_0001;
        let shift = match sharing(bits) {
            (1, _) => format!("{}u", shift_of_pair(bits, 0, pair)),
            (groups, _) => {
                let apart = shift_of_pair(bits, 1, 0);
                format!("(group % {groups}u * {apart}u + {}u)", shift_of_pair(bits, 0, pair))
            }
        };
        format!("({name} >> {shift} & {mask:#x}u)")
    };
    // Four bits above four others need no shift of their own: they are sixteen times the integer.
    let lifted = (low_bits, extra_bits, step) == (4, 0, 1);
    let pairs = [2 * step, 2 * step + 1].map(|pair| {
        let bits = if lifted {
            format!("(low >> {}u & 0xf000f0u)", shift_of_pair(4, 0, pair) - 4)
        } else if extra_bits > 0 {
            format!("({} | {} << {low_bits}u)", part("low", low_bits, pair), part("extra", extra_bits, pair))
        } else {
            part("low", low_bits, pair)
        };
        match (terms.mins, lifted) {
            (true, false) => format!("fused(halves_of({bits}), terms.xx, terms.yy)"),
            (true, true) => format!("fused(halves_of({bits}), terms.xx * 0.0625h, terms.yy)"),
            (false, false) => format!("(halves_of({bits} | {EXPONENT}) - {}.0h) * terms.xx", 1024 + offset),
            (false, true) => {
                let zero = 64 + offset;
                format!("fused(halves_of({bits} | {EXPONENT}), vec2<f16>(0.0625h), vec2<f16>(-{zero}.0h)) * terms.xx")
            }
        }
    });
    line(&mut body, format!("    return vec4<f16>({}, {});", pairs[0], pairs[1]));
    body + end
}

/// Bindings of matrix `a` and functions that give its weights as floats, as [`super::decode`] has them for other layouts:
/// of rows that are read one by one. They are what their terms say, not rounded to halves.
pub(crate) fn as_floats(layout: HalfLayout, first_binding: u32) -> String {
    let mut text = bindings('a', first_binding);
    text += &raw_row(layout);
    (0..8).for_each(|quad| text += &quad_of(layout, quad));
    text
}

/// `load_a(row, group)`, which finds where a row begins.
fn raw_row(layout: HalfLayout) -> String {
    let rest = "tile * shape.rest_a * 8u";
    let first_term = format!("{rest} + shape.groups * {}u", 8 * layout.extra_bits);
    format!(
        "struct Raw_a {{\n    low: u32,\n    extra: u32,\n    terms: u32,\n    own: u32,\n    side: u32,\n    group: u32,\n    \
         factor: f32,\n}}\nalias Ready_a = Raw_a;\n\
         fn load_a(row: u32, group: u32) -> Raw_a {{\n    let tile = row / 16u;\n    \
         return Raw_a(tile * shape.groups * {}u, {rest}, {first_term} + row % 8u, row % 8u, row % 16u / 8u, group, \
         weight_factor_a(row));\n}}\n\
         fn ready_a(raw: Raw_a, group: u32) -> Ready_a {{\n    return raw;\n}}\n",
        8 * layout.low_bits
    )
}

/// Columns 4·quad to 4·quad + 3 of a group.
fn quad_of(layout: HalfLayout, quad: usize) -> String {
    let (lane, step) = (quad / 2, quad % 2);
    let mut body = String::new();
    // The word of a lane that has a pair, and the pair's bits.
    let bits = |name: &str, plane: Plane, pair: usize| {
        let Plane { bits, groups, vectors } = plane;
        let vector = format!("raw.group / {groups}u * {vectors}u + {}u", pair * vectors / 4);
        let word = format!(
            "{name}_a[raw.{0} + ({vector}) * 32u + raw.own * 4u + {lane}u][raw.side]",
            if name == "low" { "low" } else { "extra" }
        );
        let apart = if groups > 1 { shift_of_pair(bits, 1, 0) } else { 0 };
        let shift = format!("(raw.group % {groups}u * {apart}u + {}u)", shift_of_pair(bits, 0, pair));
        format!("({word} >> {shift} & {:#x}u)", (1u64 << bits).wrapping_sub(1) as u32 * 0x0001_0001)
    };
    let pairs = [2 * step, 2 * step + 1].map(|pair| {
        let low = bits("low", Plane::of(layout.low_bits), pair);
        match layout.extra_bits {
            0 => low,
            extra => format!("({low} | {} << {}u)", bits("rest", Plane::of(extra), pair), layout.low_bits),
        }
    });
    for (name, pair) in ["first", "second"].iter().zip(pairs) {
        line(&mut body, format!("    let {name} = {pair};"));
    }
    let value = match layout.terms {
        None => "vec4<f32>(unpack2x16float(first), unpack2x16float(second))".to_string(),
        Some(terms) => {
            line(
                &mut body,
                "    let integers = vec4<f32>(vec4<u32>(first & 0xffffu, first >> 16u, second & 0xffffu, second >> 16u));",
            );
            let half_of_group = lane / 2;
            let (word, shift) = match (terms.mins, terms.halves) {
                (true, true) => (format!("raw.group * 2u + {half_of_group}u"), "0u".to_string()),
                (true, false) => ("raw.group".to_string(), "0u".to_string()),
                (false, true) => ("raw.group".to_string(), format!("{}u", 16 * half_of_group)),
                (false, false) => ("raw.group / 2u".to_string(), "raw.group % 2u * 16u".to_string()),
            };
            line(
                &mut body,
                format!(
                    "    let terms = unpack2x16float(rest_a[raw.terms + ({word}) * 8u][raw.side] >> ({shift}));"
                ),
            );
            if terms.mins {
                "fma(integers, vec4<f32>(terms.x * 0x1p-24f), vec4<f32>(terms.y))".to_string()
            } else {
                format!("(integers - {}.0) * terms.x", layout.offset)
            }
        }
    };
    format!("fn quad_a_{quad}(raw: Raw_a) -> vec4<f32> {{\n{body}    return {value} * raw.factor;\n}}\n")
}
