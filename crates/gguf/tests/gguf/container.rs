//! Reading files that other tools wrote.

use std::fs;
use std::path::{Path, PathBuf};

use gleed_gguf::{Array, Error, Format, Gguf, Strings, Value};

/// A file that `make_container.py` wrote.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/container").join(name)
}

/// The bytes that `make_container.py` calls `raw`.
fn raw(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * 7 + seed * 13) % 251) as u8).collect()
}

fn le<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

#[test]
fn every_value_type_of_another_writer() {
    let file = Gguf::open(&data("all_types.gguf")).unwrap();
    let metadata = file.metadata();
    let expected = [
        ("general.architecture", Value::Str("test".into())),
        ("general.alignment", Value::U32(64)),
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60000)),
        ("i16", Value::I16(-30000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-2_000_000_000)),
        ("u64", Value::U64(u64::MAX - 1)),
        ("i64", Value::I64(i64::MIN)),
        ("f32", Value::F32(1.5e-5)),
        ("f64", Value::F64(-2.25e300)),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("empty", Value::Str(String::new())),
        ("string", Value::Str("naïve ▁ 日本語 🙂\nline".into())),
        ("u8s", Value::Array(Array::U8(vec![0, 1, 255]))),
        ("i8s", Value::Array(Array::I8(vec![-128, 127]))),
        ("u16s", Value::Array(Array::U16(vec![0, 65535]))),
        ("i16s", Value::Array(Array::I16(vec![-32768, 32767]))),
        ("u32s", Value::Array(Array::U32(vec![1, 2, u32::MAX]))),
        ("i32s", Value::Array(Array::I32(vec![-1, 0, 1]))),
        ("u64s", Value::Array(Array::U64(vec![1 << 63, 7]))),
        ("i64s", Value::Array(Array::I64(vec![-(1 << 62), 7]))),
        ("f32s", Value::Array(Array::F32(vec![0.0, -0.5, 3.25]))),
        ("f64s", Value::Array(Array::F64(vec![1e-300, 1.0]))),
        ("bools", Value::Array(Array::Bool(vec![true, false, true]))),
        (
            "strings",
            Value::Array(Array::Str(Strings::from_iter([&b""[..], b"a", "▁the".as_bytes(), b"\xff\xfe"]))),
        ),
        (
            "nested",
            Value::Array(Array::Nested(vec![
                Array::I32(vec![1, 2, 3]),
                Array::I32(vec![4]),
                Array::I32(vec![5, 6]),
            ])),
        ),
        (
            "nested.strings",
            Value::Array(Array::Nested(vec![
                Array::Str(Strings::from_iter(["a", "b"])),
                Array::Str(Strings::from_iter(["c"])),
            ])),
        ),
    ];
    for (found, expected) in metadata.iter().zip(&expected) {
        assert_eq!(found, (expected.0, &expected.1));
        assert_eq!(metadata.get(expected.0), Some(&expected.1));
    }
    assert_eq!(metadata.len(), expected.len());
    assert_eq!((file.version(), file.alignment()), (3, 64));
    assert_eq!(metadata.get("absent"), None);
}

#[test]
fn tensors_of_another_writer() {
    let path = data("all_types.gguf");
    let file = Gguf::open(&path).unwrap();
    let expected: [(&str, &[usize], Format, Vec<u8>); 5] = [
        ("norm.weight", &[5], Format::F32, le((0..5).map(|i| (i as f32 * 0.5).to_le_bytes()))),
        (
            "half.weight",
            &[4, 3],
            Format::F16,
            le((0..12).map(|i| half::f16::from_f32(i as f32 * 0.25).to_le_bytes())),
        ),
        ("q8.weight", &[64, 2], Format::Q8_0, raw(136, 2)),
        ("q4k.weight", &[256, 1, 3, 1], Format::Q4_K, raw(432, 3)),
        ("ids", &[2, 2], Format::I32, le([1i32, -2, 3, -4].map(i32::to_le_bytes))),
    ];
    assert_eq!(file.tensors().len(), expected.len());
    for (tensor, (name, shape, format, bytes)) in file.tensors().iter().zip(&expected) {
        assert_eq!((tensor.name.as_str(), &*tensor.shape, tensor.format), (*name, *shape, *format));
        assert_eq!(file.tensor(name), Some(tensor));
        assert_eq!(file.data(tensor), bytes);
        assert_eq!(tensor.offset % 64, 0);
        // Advice must not change what is read.
        file.release(tensor);
        file.will_need(tensor);
        assert_eq!(file.data(tensor), bytes);
    }
    assert_eq!(file.tensor_bytes(), 20 + 24 + 136 + 432 + 16);
    assert_eq!(file.decode(file.tensor("norm.weight").unwrap()).unwrap(), [0.0, 0.5, 1.0, 1.5, 2.0]);
    assert_eq!(file.decode(file.tensor("half.weight").unwrap()).unwrap()[11], 2.75);
    assert_eq!(file.parts().collect::<Vec<_>>(), [path.as_path()]);
    assert_eq!(file.name(), path.to_str().unwrap());

    let missing = file.require_tensor("output.weight").unwrap_err();
    assert!(matches!(missing, Error::MissingTensor { .. }));
    assert_eq!(missing.to_string(), format!("{}: tensor output.weight is missing", path.display()));
}

#[test]
fn a_file_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Gguf>();
}

#[test]
fn version_2_differs_only_in_its_number() {
    let mut bytes = fs::read(data("all_types.gguf")).unwrap();
    bytes[4] = 2;
    let second = Gguf::from_vec("v2", bytes).unwrap();
    let third = Gguf::open(&data("all_types.gguf")).unwrap();
    assert_eq!(second.version(), 2);
    assert_eq!((second.metadata(), second.tensors()), (third.metadata(), third.tensors()));
}

#[test]
fn any_part_of_a_split_file_opens_them_all() {
    for number in 1..=3 {
        let file = Gguf::open(&data(&format!("split-0000{number}-of-00003.gguf"))).unwrap();
        assert_eq!(file.metadata().str("general.name").unwrap(), Some("split test"));
        assert_eq!(file.parts().len(), 3);
        assert_eq!(file.tensors().iter().map(|t| t.part).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        for index in 0..5 {
            let tensor = file.tensor(&format!("tensor.{index}")).unwrap();
            assert_eq!(file.data(tensor), le([(index as f32).to_le_bytes(); 6]));
        }
    }
}
