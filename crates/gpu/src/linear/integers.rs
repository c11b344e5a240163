//! The WGSL of products of integers: what a group of a matrix is when its activations are bytes, and what it
//! adds to a sum.

use super::layout::{Integers, Scales};

/// What a kernel stages of a group: 32 bytes, the scales of both halves and their mins.
/// And the conversion of sums below 2²² without a conversion instruction: they are added to the bits of
/// 1.5 · 2²³, whose last one stands for 1.
pub(crate) const COMMON: &str = "struct Words {\n    first: vec4<u32>,\n    last: vec4<u32>,\n    scales: \
                                 vec4<f32>,\n}\n\
                                 fn float_of(sum: i32) -> f32 {\n    \
                                 return bitcast<f32>(sum + 0x4b400000) - 12582912.0;\n}\n";

/// Functions of matrix `m`, after those that [`super::decode::snippet`] has for it: `words_m(Raw_m, group)`;
/// `centred_m(Words)`, whose bytes have no offset any more; and
/// `term_m(Words, bytes of the input, …, offset, sum)`, the sum with the group's products added.
pub(crate) fn snippet(integers: Integers, m: char) -> String {
    let eight_bits = integers.low_bits == 8;
    // Eight bits have their offset taken off by turning their sign; fewer are positive as signed bytes too.
    let offset = if eight_bits { 0 } else { integers.offset };
    let quads = |from: usize| {
        let turned = |quad| {
            let bytes = format!("bytes_{m}_{quad}(raw)");
            if eight_bits { format!("{bytes} ^ 0x80808080u") } else { bytes }
        };
        (from..from + 4).map(turned).collect::<Vec<_>>().join(", ")
    };
    let (first, last) = (quads(0), quads(4));
    let mins = if integers.scales.mins() { "ready.min_0, ready.min_1" } else { "0.0, 0.0" };
    let centred = if offset == 0 {
        "words".to_string()
    } else {
        // Each byte has its own borrow: the bit above it, which is turned back.
        let each = offset * 0x0101_0101;
        let centre = |part: &str| {
            format!(
                "((words.{part} | vec4<u32>(0x80808080u)) - vec4<u32>({each:#x}u)) ^ vec4<u32>(0x80808080u)"
            )
        };
        format!("Words({}, {}, words.scales)", centre("first"), centre("last"))
    };
    format!(
        "const OFFSET_{m} = {offset};\n\
         fn words_{m}(raw: Raw_{m}, group: u32) -> Words {{\n    \
             let ready = ready_{m}(raw, group);\n    \
             return Words(vec4<u32>({first}), vec4<u32>({last}), \
                 vec4<f32>(ready.scale_0, ready.scale_1, {mins}));\n\
         }}\n\
         fn centred_{m}(words: Words) -> Words {{\n    return {centred};\n}}\n\
         fn term_{m}(words: Words, first: vec4<u32>, last: vec4<u32>, about: vec4<u32>, offset: i32, sum: f32) \
         -> f32 {{\n    \
             let scale = bitcast<f32>(about.x);\n    \
             let sums = bitcast<vec2<i32>>(about.yz);\n    \
             let first_products = dot4I8Packed(words.first.x, first.x) + dot4I8Packed(words.first.y, first.y) \
                 + dot4I8Packed(words.first.z, first.z) + dot4I8Packed(words.first.w, first.w);\n    \
             let last_products = dot4I8Packed(words.last.x, last.x) + dot4I8Packed(words.last.y, last.y) \
                 + dot4I8Packed(words.last.z, last.z) + dot4I8Packed(words.last.w, last.w);\n\
             {}}}\n",
        term(integers.scales)
    )
}

/// The end of `term_m`: an addition for each scale that a group has, and one for each min.
fn term(scales: Scales) -> String {
    let lines: &[&str] = match (scales.halves(), scales.mins()) {
        (false, false) => &[
            "let products = first_products + last_products - offset * (sums.x + sums.y);",
            "return fma(words.scales.x * scale, float_of(products), sum);",
        ],
        (false, true) => &[
            "let products = first_products + last_products - offset * (sums.x + sums.y);",
            "let scaled = fma(words.scales.x * scale, float_of(products), sum);",
            "return fma(words.scales.z, scale * f32(sums.x + sums.y), scaled);",
        ],
        (true, mins) => {
            let both = &[
                "var result = fma(words.scales.x * scale, float_of(first_products - offset * sums.x), sum);",
                "result = fma(words.scales.y * scale, float_of(last_products - offset * sums.y), result);",
                "result = fma(words.scales.z, scale * f32(sums.x), result);",
                "result = fma(words.scales.w, scale * f32(sums.y), result);",
            ];
            let count = if mins { 4 } else { 2 };
            return both[..count]
                .iter()
                .chain(&["return result;"])
                .map(|line| format!("    {line}\n"))
                .collect();
        }
    };
    lines.iter().map(|line| format!("    {line}\n")).collect()
}
