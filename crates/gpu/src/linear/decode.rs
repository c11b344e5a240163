//! The WGSL that reads a matrix: for each layout, how a group of 32 columns is loaded, made ready and
//! decoded four columns at a time.
//!
//! Integers become floats without conversion instructions: masked where they lie in their word and put under
//! the exponent of 2²³, they are a float whose mantissa ends in them; subtracting 2²³ (and the offset) leaves
//! the integer times a power of two, which a scale divided by that power makes up for. All of this is exact.

use std::fmt::Write as _;

use super::half_weights;
use super::layout::{Factors, GROUP, Integers, Layout, Scales};

/// The exponent of 2²³, above 23 bits of mantissa.
const EXPONENT: u32 = 0x4b00_0000;

/// Bindings and functions of matrix `m`, which is `a` or `b`:
/// `load_m(row, group) -> Raw_m`, `ready_m(Raw_m, group) -> Ready_m` and `quad_m_0(Ready_m) -> vec4<f32>` to
/// `quad_m_7`, which give four weights each. They read `groups` and `rest_m` of a `shape`.
pub(crate) fn snippet(layout: Layout, m: char, first_binding: u32) -> String {
    if let Layout::Halves(halves) = layout {
        return half_weights::as_floats(halves, first_binding);
    }
    let mut wgsl = raw(layout, m) + &loads(layout, m, first_binding);
    match layout {
        Layout::Integers(integers) => {
            ready(&mut wgsl, integers, m);
            (0..8).for_each(|quad| integer_quad(&mut wgsl, integers, m, quad));
        }
        _ => {
            line(&mut wgsl, format!("alias Ready_{m} = Raw_{m};"));
            line(&mut wgsl, format!("fn ready_{m}(raw: Raw_{m}, group: u32) -> Ready_{m} {{ return raw; }}"));
            (0..8).for_each(|quad| float_quad(&mut wgsl, layout, m, quad));
        }
    }
    wgsl
}

/// The bindings of matrix `m` and `load_m`, which gives groups as they lie.
fn loads(layout: Layout, m: char, first_binding: u32) -> String {
    let mut wgsl = String::new();
    let mut bind = |binding: u32, name: &str, element: &str| {
        let text = format!("@group(0) @binding({binding}) var<storage, read> {name}_{m}: array<{element}>;");
        line(&mut wgsl, text);
    };
    bind(first_binding, "low", if layout.vector_words() == 4 { "vec4<u32>" } else { "vec2<u32>" });
    if let Layout::Integers(_) = layout {
        bind(first_binding + 1, "rest", "u32");
    }
    load(&mut wgsl, layout, m);
    wgsl
}

fn line(wgsl: &mut String, text: impl AsRef<str>) {
    // Writing to a string cannot fail.
    let _ = writeln!(wgsl, "{}", text.as_ref());
}

/// What is loaded of a group.
fn raw(layout: Layout, m: char) -> String {
    let lanes = layout.vector_words();
    let vectors = layout.low_words() / lanes;
    let mut fields = String::new();
    (0..vectors).for_each(|i| line(&mut fields, format!("    low_{i}: vec{lanes}<u32>,")));
    if let Layout::Integers(integers) = layout {
        (0..integers.extra_bits).for_each(|i| line(&mut fields, format!("    extra_{i}: u32,")));
        line(&mut fields, "    head: u32,");
        if let Scales::Super(_) = integers.scales {
            line(&mut fields, "    factors: u32,");
        }
    }
    format!("struct Raw_{m} {{\n{fields}}}\n")
}

fn load(wgsl: &mut String, layout: Layout, m: char) {
    let (vectors, together) = (layout.low_words() / layout.vector_words(), layout.together());
    // Where a vector or word of the row is, given its place in a row that lies by itself.
    let mut body = format!("    let tile = row / {together}u;\n    let own = row % {together}u;\n");
    let at = |row_len: &str, place: String| format!("(tile * {row_len} + {place}) * {together}u + own");
    for i in 0..vectors {
        let low = at(&format!("shape.groups * {vectors}u"), format!("group * {vectors}u + {i}u"));
        line(&mut body, format!("    raw.low_{i} = low_{m}[{low}];"));
    }
    if let Layout::Integers(integers) = layout {
        let extra = integers.extra_bits;
        let rest = |place: String| format!("rest_{m}[{}]", at(&format!("shape.rest_{m}"), place));
        for i in 0..extra {
            line(&mut body, format!("    raw.extra_{i} = {};", rest(format!("group * {extra}u + {i}u"))));
        }
        line(&mut body, format!("    let scales = shape.groups * {extra}u;"));
        let head = match integers.scales {
            Scales::Half => "scales + group / 2u",
            Scales::HalfMin | Scales::Float => "scales + group",
            Scales::Super(_) => "scales + group / 8u * 5u",
        };
        line(&mut body, format!("    raw.head = {};", rest(head.to_string())));
        if let Scales::Super(_) = integers.scales {
            line(&mut body, format!("    raw.factors = {};", rest(format!("{head} + 1u + group % 8u / 2u"))));
        }
    }
    let signature = format!("fn load_{m}(row: u32, group: u32) -> Raw_{m}");
    line(wgsl, format!("{signature} {{\n    var raw: Raw_{m};\n{body}    return raw;\n}}"));
}

/// Scales and mins of the two halves of a group.
fn ready(wgsl: &mut String, integers: Integers, m: char) {
    let half_of_group = "unpack2x16float(raw.head >> (group % 2u * 16u)).x";
    // As integers of quads become floats; signed bytes are put 128 higher first.
    let bits = |factors: &str, at: u32, count: u32, above: u32| {
        let zero = f64::from(1 << 23) + f64::from(above);
        format!("(bitcast<f32>(extractBits({factors}, {at}u, {count}u) | {EXPONENT:#x}u) - {zero:?})")
    };
    let byte = |at: u32| bits("(factors ^ 0x8080u)", at, 8, 128);
    let nibble = |at: u32| bits("factors", at, 4, 0);
    // Scale and min of the first half, then of the second.
    let [first, second]: [(String, String); 2] = match integers.scales {
        Scales::Half => [(); 2].map(|()| (half_of_group.to_string(), String::new())),
        Scales::HalfMin => [(); 2].map(|()| ("head.x".to_string(), "head.y".to_string())),
        Scales::Float => [(); 2].map(|()| ("bitcast<f32>(raw.head)".to_string(), String::new())),
        Scales::Super(Factors::Whole) => {
            [(); 2].map(|()| (format!("bitcast<f32>(raw.head) * {}", byte(0)), String::new()))
        }
        Scales::Super(Factors::WholeMin) => {
            [(); 2].map(|()| (format!("head.x * {}", byte(0)), format!("head.y * {}", byte(8))))
        }
        Scales::Super(Factors::Halves) => [0, 8].map(|at| (format!("head.x * {}", byte(at)), String::new())),
        Scales::Super(Factors::WideHalves) => {
            [0, 8].map(|at| (format!("bitcast<f32>(raw.head) * {}", byte(at)), String::new()))
        }
        Scales::Super(Factors::HalvesMin) => {
            [0, 8].map(|at| (format!("head.x * {}", nibble(at)), format!("head.y * {}", nibble(at + 4))))
        }
    };
    line(
        wgsl,
        format!(
            "struct Ready_{m} {{\n    raw: Raw_{m},\n    scale_0: f32,\n    scale_1: f32,\n    min_0: f32,\n    \
             min_1: f32,\n}}"
        ),
    );
    line(wgsl, format!("fn ready_{m}(raw: Raw_{m}, group: u32) -> Ready_{m} {{"));
    line(wgsl, format!("    var ready: Ready_{m};\n    ready.raw = raw;"));
    let (head, factors) = match integers.scales {
        Scales::Half | Scales::Float => (false, false),
        Scales::HalfMin => (true, false),
        Scales::Super(Factors::Whole | Factors::WideHalves) => (false, true),
        Scales::Super(_) => (true, true),
    };
    if head {
        line(wgsl, "    let head = unpack2x16float(raw.head);");
    }
    if factors {
        line(wgsl, "    let factors = raw.factors >> (group % 2u * 16u);");
    }
    for (i, (scale, min)) in [&first, &second].into_iter().enumerate() {
        if i == 1 && first == second {
            line(wgsl, "    ready.scale_1 = ready.scale_0;\n    ready.min_1 = ready.min_0;");
            continue;
        }
        line(wgsl, format!("    ready.scale_{i} = {scale};"));
        if !min.is_empty() {
            line(wgsl, format!("    ready.min_{i} = {min};"));
        }
    }
    line(wgsl, "    return ready;\n}");
}

/// Columns 4·quad to 4·quad + 3 of a group: as unsigned bytes, and decoded.
fn integer_quad(wgsl: &mut String, integers: Integers, m: char, quad: usize) {
    let part = |word: String, shift: u32, bits: u32| {
        let word = if shift > 0 { format!("({word} >> {shift}u)") } else { word };
        if bits == 8 { word } else { format!("({word} & {:#x}u)", ((1u32 << bits) - 1) * 0x0101_0101) }
    };
    let (word, shift) = integers.low_at(quad);
    let component = ["x", "y", "z", "w"][word % 4];
    let mut bytes = part(format!("raw.low_{}.{component}", word / 4), shift, integers.low_bits);
    if integers.extra_bits > 0 {
        let (word, shift) = integers.extra_at(quad);
        let extra = part(format!("raw.extra_{word}"), shift, integers.extra_bits);
        bytes = format!("({bytes} | ({extra} << {}u))", integers.low_bits);
    }
    line(wgsl, format!("fn bytes_{m}_{quad}(raw: Raw_{m}) -> u32 {{\n    return {bytes};\n}}"));

    let half_of_group = quad * 4 / (GROUP / 2);
    let scale = format!("(ready.scale_{half_of_group} * vec4<f32>(1.0, 0.00390625, 1.0, 0.00390625))");
    let bias = |place: u32| f64::from(1 << 23) + f64::from(integers.offset << place);
    let (even, odd) = (bias(0), bias(8));
    line(wgsl, format!("fn quad_{m}_{quad}(ready: Ready_{m}) -> vec4<f32> {{"));
    line(wgsl, format!("    let word = bytes_{m}_{quad}(ready.raw);"));
    line(wgsl, "    let spread = vec4<u32>(word, word, word >> 16u, word >> 16u);");
    line(wgsl, "    let masked = spread & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u);");
    line(
        wgsl,
        format!(
            "    let value = bitcast<vec4<f32>>(masked | vec4<u32>({EXPONENT:#x}u)) - \
             vec4<f32>({even:?}, {odd:?}, {even:?}, {odd:?});"
        ),
    );
    line(
        wgsl,
        if integers.scales.mins() {
            format!("    return fma({scale}, value, vec4<f32>(ready.min_{half_of_group}));\n}}")
        } else {
            format!("    return {scale} * value;\n}}")
        },
    );
}

fn float_quad(wgsl: &mut String, layout: Layout, m: char, quad: usize) {
    let value = if layout == Layout::F32 {
        format!("bitcast<vec4<f32>>(ready.low_{quad})")
    } else {
        let pair = ["xy", "zw"][quad % 2];
        let pair = format!("ready.low_{}.{pair}", quad / 2);
        let [first, second] = ["x", "y"].map(|half| format!("{pair}.{half}"));
        match layout {
            Layout::F16 => format!("vec4<f32>(unpack2x16float({first}), unpack2x16float({second}))"),
            _ => format!(
                "bitcast<vec4<f32>>(vec4<u32>({first} << 16u, {first} & 0xffff0000u, {second} << 16u, \
                 {second} & 0xffff0000u))"
            ),
        }
    };
    line(wgsl, format!("fn quad_{m}_{quad}(ready: Ready_{m}) -> vec4<f32> {{\n    return {value};\n}}"));
}
