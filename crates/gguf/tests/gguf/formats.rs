//! Every format decodes and encodes as PyPI `gguf` does, bit for bit; `make_format_vectors.py` made
//! the vectors.

use std::path::Path;

use gleed_gguf::{Format, Unpacked};

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn floats(name: &str) -> Vec<f32> {
    data(name).as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The bits of two lists are the same; where both are not a number, any bits will do.
fn assert_same(what: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}: length");
    for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
            "{what}: value {i} is {ours:e}, should be {theirs:e}"
        );
    }
}

#[test]
fn every_format_decodes_as_gguf_does() {
    for format in Format::all() {
        let bytes = data(&format!("{format}.blocks"));
        let mut values = vec![f32::NAN; bytes.len() / format.block_bytes() * format.block_len()];
        format.decode(&bytes, &mut values);
        assert_same(format.name(), &values, &floats(&format!("{format}.values")));
        // One block at a time gives the same.
        let blocks = bytes.chunks(format.block_bytes()).zip(values.chunks(format.block_len()));
        for (block, values) in blocks {
            let mut alone = vec![f32::NAN; format.block_len()];
            format.decode(block, &mut alone);
            assert_same(format.name(), &alone, values);
        }
    }
}

/// What `Format::unpack` makes of whole blocks.
struct Parts {
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

fn unpack(format: Format, bytes: &[u8]) -> Parts {
    let groups = format.groups().expect("a format with groups");
    let len = bytes.len() / format.block_bytes() * format.block_len();
    let (count, blocks) = (len / groups.len, len / groups.block);
    let mut parts = Parts {
        integers: vec![0; len],
        factors: vec![0; count],
        scales: vec![f32::NAN; blocks],
        min_factors: vec![0; if groups.mins { count } else { 0 }],
        mins: vec![f32::NAN; if groups.mins { blocks } else { 0 }],
    };
    let Parts { integers, factors, scales, min_factors, mins } = &mut parts;
    format.unpack(bytes, Unpacked { integers, factors, scales, min_factors, mins });
    parts
}

#[test]
fn every_format_unpacks_to_the_same_values() {
    let mut unpacked = 0;
    for format in Format::all() {
        let Some(groups) = format.groups() else { continue };
        let bytes = data(&format!("{format}.blocks"));
        let values = floats(&format!("{format}.values"));
        let Parts { integers, factors, scales, min_factors, mins } = unpack(format, &bytes);
        let recomputed: Vec<f32> = integers
            .iter()
            .enumerate()
            .map(|(i, integer)| {
                let (group, block) = (i / groups.len, i / groups.block);
                let product = scales[block] * f32::from(factors[group]) * f32::from(*integer);
                if groups.mins { product + mins[block] * f32::from(min_factors[group]) } else { product }
            })
            .collect();
        assert_same(format.name(), &recomputed, &values);
        unpacked += 1;
    }
    assert_eq!(unpacked, 23);
}

#[test]
fn names_and_ids_lead_back_to_their_format() {
    assert_eq!(Format::all().count(), 31);
    for format in Format::all() {
        assert_eq!(Format::from_id(format.id()), Some(format));
        assert_eq!(Format::from_name(format.name()), Some(format));
        assert_eq!(Format::from_name(&format.to_string().to_lowercase()), Some(format));
        assert_eq!(format.row_bytes(3 * format.block_len()).unwrap(), 3 * format.block_bytes());
        assert_eq!(format.row_bytes(0).unwrap(), 0);
    }
    for id in [4, 5, 9, 31, 32, 33, 36, 38, 40, 41, 1000, u32::MAX] {
        assert_eq!(Format::from_id(id), None);
    }
    assert_eq!(Format::from_name("Q9_K"), None);
    let error = Format::Q4_K.row_bytes(300).unwrap_err().to_string();
    assert_eq!(error, "Q4_K needs a multiple of 256 columns, has 300");
    assert!(Format::F64.row_bytes(usize::MAX).is_err());
}

#[test]
fn formats_encode_as_gguf_does() {
    let values = floats("encode.values");
    let formats = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"];
    for format in formats.map(|name| Format::from_name(name).unwrap()) {
        let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
        format.encode(&values, &mut bytes).unwrap();
        let theirs = data(&format!("{format}.encoded"));
        let blocks = bytes.chunks(format.block_bytes()).zip(theirs.chunks(format.block_bytes()));
        for (i, (ours, theirs)) in blocks.enumerate() {
            assert_eq!(ours, theirs, "{format}: block {i}");
        }
    }
}

/// A hostile file can hold any bytes: every one of them decodes to something, without a panic or an
/// overflow, and unpacking agrees with decoding.
#[test]
fn any_bytes_decode() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for format in Format::all() {
        for fill in [Some(0), Some(0xff), Some(0x7f), Some(0x80), None] {
            let mut bytes = vec![fill.unwrap_or(0); 64 * format.block_bytes()];
            for byte in bytes.iter_mut().filter(|_| fill.is_none()) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = (state >> 32) as u8;
            }
            let mut values = vec![0.0; 64 * format.block_len()];
            format.decode(&bytes, &mut values);
            let Some(groups) = format.groups() else { continue };
            let Parts { integers, factors, scales, min_factors, mins } = unpack(format, &bytes);
            for (i, value) in values.iter().enumerate() {
                let (group, block) = (i / groups.len, i / groups.block);
                let product = i32::from(factors[group]) * i32::from(integers[i]);
                assert!(product.abs() <= 4096, "{format}: {product}");
                assert!(!groups.mins || min_factors[group] >= 0, "{format}");
                let min =
                    if groups.mins { f64::from(mins[block]) * f64::from(min_factors[group]) } else { 0.0 };
                let exact = f64::from(scales[block]) * f64::from(product) + min;
                let size = f64::from(scales[block].abs()) * 4096.0 + min.abs();
                assert!(
                    exact.is_nan()
                        || exact.abs() > f64::from(f32::MAX)
                        || (f64::from(*value) - exact).abs() <= 1e-6 * size,
                    "{format}: value {i} is {value}, unpacked {exact}"
                );
            }
        }
    }
}
