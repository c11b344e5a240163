//! The WGSL of products of integers: what a group of a matrix is when its activations are bytes, and what it
//! adds to a sum.

use super::layout::{Integers, Scales};

/// What a kernel stages of a group: 32 bytes, the scales of both halves and their mins.
///
/// And what turns sums below 2²² into floats without a conversion instruction: they are started with the bits of
/// 1.5 · 2²³, whose last one stands for 1.
pub(crate) const COMMON: &str = "struct Words {\n    first: vec4<u32>,\n    last: vec4<u32>,\n    scales: \
                                 vec4<f32>,\n}\n\
                                 const ZERO = 0x4b400000;\n\
                                 fn float_of(sum: i32) -> f32 {\n    \
                                 return bitcast<f32>(sum) - 12582912.0;\n}\n";

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
             {}}}\n",
        term(integers.scales)
    )
}

/// The end of `term_m`: an addition for each scale that a group has, and one for each min. Each sum of products is
/// one chain, as devices multiply four bytes and add in one instruction.
fn term(scales: Scales) -> String {
    let chain = |halves: &[&str]| -> String {
        let dot = |half: &&str, c: &str| format!(" + dot4I8Packed(words.{half}.{c}, {half}.{c})");
        halves.iter().flat_map(|half| ["x", "y", "z", "w"].map(|c| dot(half, c))).collect()
    };
    let mut lines = Vec::new();
    if scales.halves() {
        for (half, sum, scale) in [("first", "x", "x"), ("last", "y", "y")] {
            lines.push(format!("let {half}_products = ZERO - offset * sums.{sum}{};", chain(&[half])));
            let before = if half == "first" { "sum" } else { "first_scaled" };
            let product = format!("words.scales.{scale} * scale, float_of({half}_products), {before}");
            lines.push(format!("let {half}_scaled = fma({product});"));
        }
        if scales.mins() {
            lines.push("let first_min = fma(words.scales.z, scale * f32(sums.x), last_scaled);".to_string());
            lines.push("return fma(words.scales.w, scale * f32(sums.y), first_min);".to_string());
        } else {
            lines.push("return last_scaled;".to_string());
        }
    } else {
        let products = chain(&["first", "last"]);
        lines.push(format!("let products = ZERO - offset * (sums.x + sums.y){products};"));
        lines.push("let scaled = fma(words.scales.x * scale, float_of(products), sum);".to_string());
        lines.push(if scales.mins() {
            "return fma(words.scales.z, bitcast<f32>(about.w), scaled);".to_string()
        } else {
            "return scaled;".to_string()
        });
    }
    lines.iter().map(|line| format!("    {line}\n")).collect()
}
