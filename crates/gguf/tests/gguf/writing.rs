//! Writing files: what is written is what is read, byte for byte like another writer, or not at all.

use std::fs;
use std::path::Path;

use gleed_gguf::{Array, Format, Gguf, Metadata, Strings, TensorSpec, Value, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

fn spec(name: &str, shape: &[usize], format: Format) -> TensorSpec {
    TensorSpec { name: name.into(), shape: shape.into(), format }
}

/// Writes each tensor in parts of at most `part` bytes.
fn write(path: &Path, metadata: &Metadata, tensors: &[(TensorSpec, Vec<u8>)], part: usize) {
    let specs: Vec<TensorSpec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
    let mut writer = Writer::create(path, metadata, &specs).unwrap();
    for (spec, data) in tensors {
        if data.len() <= part {
            writer.write(&spec.name, data).unwrap();
        } else {
            data.chunks(part).for_each(|chunk| writer.write_part(&spec.name, chunk).unwrap());
        }
    }
    writer.finish().unwrap();
}

#[test]
fn another_writers_file_is_written_again_byte_for_byte() {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/container/all_types.gguf");
    let file = Gguf::open(&original).unwrap();
    let tensors: Vec<_> =
        file.tensors().iter().map(|t| (TensorSpec::from(t), file.data(t).to_vec())).collect();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.gguf");
    write(&copy, file.metadata(), &tensors, 50);
    assert!(fs::read(copy).unwrap() == fs::read(original).unwrap());
}

/// Leaves a file for `read_back.py`, which checks it with another reader.
#[test]
fn a_file_for_another_reader() {
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", Value::Str("test".into()));
    metadata.set("general.alignment", Value::U32(128));
    metadata.set("u8", Value::U8(200));
    metadata.set("i8", Value::I8(-100));
    metadata.set("u16", Value::U16(60000));
    metadata.set("i16", Value::I16(-30000));
    metadata.set("u32", Value::U32(4_000_000_000));
    metadata.set("i32", Value::I32(-2_000_000_000));
    metadata.set("u64", Value::U64(u64::MAX - 1));
    metadata.set("i64", Value::I64(i64::MIN));
    metadata.set("f32", Value::F32(0.15625));
    metadata.set("f64", Value::F64(-2.25e300));
    metadata.set("bool", Value::Bool(true));
    metadata.set("string", Value::Str("naïve ▁ 日本語 🙂".into()));
    metadata.set("i32s", Value::Array(Array::I32(vec![-1, 0, 1])));
    metadata.set("f32s", Value::Array(Array::F32(vec![0.5, -0.25])));
    metadata.set("bools", Value::Array(Array::Bool(vec![true, false])));
    metadata.set("strings", Value::Array(Array::Str(Strings::from_iter(["", "▁the", "x"]))));
    metadata.set("nested", Value::Array(Array::Nested(vec![Array::U16(vec![1, 2]), Array::U16(vec![3])])));
    let floats: Vec<u8> = (0..15).flat_map(|i| (i as f32 - 3.5).to_le_bytes()).collect();
    let blocks: Vec<u8> = (0..3 * 210).map(|i| (i * 5 % 253) as u8).collect();
    let tensors = [
        (spec("norm.weight", &[5, 3], Format::F32), floats),
        (spec("blk.0.ffn_down.weight", &[256, 3], Format::Q6_K), blocks),
        (spec("last.bias", &[1], Format::F16), vec![0, 0x3c]),
    ];
    write(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("read_back.gguf"), &metadata, &tensors, 1000);
}

#[test]
fn what_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    let mut odd = Metadata::default();
    odd.set("general.alignment", Value::U32(24));
    let mut wide = Metadata::default();
    wide.set("general.alignment", Value::U64(32));
    let mut nested = Array::U8(vec![]);
    for _ in 0..8 {
        nested = Array::Nested(vec![nested]);
    }
    let mut deep = Metadata::default();
    deep.set("k", Value::Array(nested));
    let none = Metadata::default();
    let long = "n".repeat(64);
    let t = |shape: &[usize]| spec("t", shape, Format::Q8_0);
    let cases: [(&Metadata, Vec<TensorSpec>, &str); 8] = [
        (&odd, vec![], "key general.alignment: 24 is not a power of two below 4294967296"),
        (&wide, vec![], "key general.alignment: must be a u32, is of type u64"),
        (&deep, vec![], "key k: arrays nest deeper than 8 levels"),
        (&none, vec![t(&[32]), t(&[64])], "tensor t is there twice"),
        (&none, vec![t(&[33])], "tensor t: Q8_0 needs a multiple of 32 columns, has 33"),
        (&none, vec![t(&[32, 1, 1, 1, 1])], "tensor t: has 5 dimensions, at most 4 are possible"),
        (
            &none,
            vec![t(&[32, usize::MAX])],
            "tensor t: the shape [32, 18446744073709551615] is too large for this machine",
        ),
        (&none, vec![spec(&long, &[1], Format::F32)], "its name has 64 bytes, other readers take at most 63"),
    ];
    for (metadata, tensors, expected) in cases {
        let message = Writer::create(&path, metadata, &tensors).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
        assert!(message.ends_with(expected), "{message}");
    }
    assert_eq!(
        Writer::create(folder.path(), &none, &[]).unwrap_err().to_string(),
        format!("{}: is a directory; name the file to write", folder.path().display())
    );
    let nowhere = folder.path().join("absent/out.gguf");
    assert!(Writer::create(&nowhere, &none, &[]).unwrap_err().to_string().contains("absent/out.gguf: "));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn wrong_order_and_wrong_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    fs::write(&path, "the old content").unwrap();
    let specs = [spec("a", &[2], Format::F32), spec("b", &[1], Format::F32)];
    let mut writer = Writer::create(&path, &Metadata::default(), &specs).unwrap();
    let mut refused = |name: &str, data: &[u8], part: bool, expected: &str| {
        let result = if part { writer.write_part(name, data) } else { writer.write(name, data) };
        match result {
            Ok(()) => assert_eq!(expected, ""),
            Err(error) => assert_eq!(error.to_string(), format!("{}: {expected}", path.display())),
        }
    };
    refused("b", &[0; 4], false, "tensor a is next, b was given");
    refused("a", &[0; 4], false, "tensor a takes 8 bytes, 4 were given");
    refused("a", &[0; 5], true, "");
    refused("a", &[0; 8], false, "5 of the 8 bytes of tensor a are already written");
    refused("a", &[0; 4], true, "tensor a takes 8 bytes, 4 were given after 5");
    refused("a", &[0; 3], true, "");
    let message = writer.finish().unwrap_err().to_string();
    assert_eq!(message, format!("{}: tensor b is not complete: 0 of 4 bytes written", path.display()));

    // Whatever was there before is still there, and nothing else.
    assert_eq!(fs::read_to_string(&path).unwrap(), "the old content");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let mut writer = Writer::create(&path, &Metadata::default(), &specs[1..]).unwrap();
    writer.write("b", &[0; 4]).unwrap();
    let message = writer.write("c", &[]).unwrap_err().to_string();
    assert_eq!(message, format!("{}: all tensors are written, c was given", path.display()));
    writer.finish().unwrap();
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 1);
}

fn numbers() -> impl Strategy<Value = Array> {
    prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Array::U8),
        vec(any::<i8>(), 0..5).prop_map(Array::I8),
        vec(any::<u16>(), 0..5).prop_map(Array::U16),
        vec(any::<i16>(), 0..5).prop_map(Array::I16),
        vec(any::<u32>(), 0..5).prop_map(Array::U32),
        vec(any::<i32>(), 0..5).prop_map(Array::I32),
        vec(any::<u64>(), 0..5).prop_map(Array::U64),
        vec(any::<i64>(), 0..5).prop_map(Array::I64),
        vec(any::<f32>(), 0..5).prop_map(Array::F32),
        vec(any::<f64>(), 0..5).prop_map(Array::F64),
        vec(any::<bool>(), 0..5).prop_map(Array::Bool),
        vec(vec(any::<u8>(), 0..9), 0..5).prop_map(|strings| Array::Str(Strings::from_iter(strings))),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let arrays = numbers().prop_recursive(6, 24, 4, |inner| vec(inner, 0..4).prop_map(Array::Nested));
    let scalars = prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        ".{0,9}".prop_map(Value::Str),
    ];
    prop_oneof![scalars, arrays.prop_map(Value::Array)]
}

/// Formats with their block, so that shapes can be made to fit without asking the crate.
const FORMATS: [(Format, usize, usize); 6] = [
    (Format::F32, 1, 4),
    (Format::BF16, 1, 2),
    (Format::I64, 1, 8),
    (Format::Q4_0, 32, 18),
    (Format::Q5_1, 32, 24),
    (Format::IQ2_XXS, 256, 66),
];

prop_compose! {
    fn tensors()(
        parts in vec((0..FORMATS.len(), vec(0usize..4, 0..=4), any::<u8>()), 0..6)
    ) -> Vec<(TensorSpec, Vec<u8>)> {
        parts.into_iter().enumerate().map(|(index, (format, mut shape, seed))| {
            let (format, block, bytes) = FORMATS[format];
            match shape.first_mut() {
                Some(columns) => *columns *= block,
                None if block > 1 => shape.push(block),
                None => {}
            }
            let size = shape.iter().product::<usize>() / block * bytes;
            let data = (0..size).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
            (spec(&format!("tensor.{index}"), &shape, format), data)
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        keys in vec(("[a-z.]{0,8}", values()), 0..12),
        alignment in proptest::option::of(0u32..13),
        tensors in tensors(),
        part in 1usize..400,
    ) {
        let mut metadata = Metadata::default();
        for (key, value) in keys {
            metadata.set(key, value);
        }
        if let Some(alignment) = alignment {
            metadata.set("general.alignment", Value::U32(1 << alignment));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.gguf");
        write(&path, &metadata, &tensors, part);
        let file = Gguf::open(&path).unwrap();
        prop_assert_eq!(file.metadata(), &metadata);
        prop_assert_eq!(file.alignment(), 1 << alignment.unwrap_or(5));
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (tensor, (spec, data)) in file.tensors().iter().zip(&tensors) {
            prop_assert_eq!(&TensorSpec::from(tensor), spec);
            prop_assert_eq!(file.data(tensor), &data[..]);
        }
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
