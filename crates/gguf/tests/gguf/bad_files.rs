//! Files that are not what they should be, or barely: each gets one clear line, or is read.

use std::fs;
use std::path::{Path, PathBuf};

use gleed_gguf::{Format, Gguf, TensorInfo};

/// A file that `make_container.py` wrote.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/container").join(name)
}

/// The message for a file in a folder of its own, without the path in front.
fn message_of(name: &str, content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    message(&path)
}

fn message(path: &Path) -> String {
    let message = Gguf::open(path).unwrap_err().to_string();
    assert!(!message.contains('\n'), "more than one line: {message}");
    let rest = message.strip_prefix(&format!("{}: ", path.display()));
    rest.unwrap_or_else(|| panic!("does not start with the file's name: {message}")).to_string()
}

#[test]
fn broken_splits() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number: usize| folder.path().join(format!("m-0000{number}-of-00003.gguf"));
    let original = |number: usize| data(&format!("split-0000{number}-of-00003.gguf"));
    fs::copy(original(1), part(1)).unwrap();
    fs::copy(original(2), part(2)).unwrap();
    assert_eq!(
        message(&part(2)),
        format!("part 3 of 3 is missing; put {} beside the others", part(3).display())
    );
    fs::copy(original(2), part(3)).unwrap();
    let wrong = Gguf::open(&part(1)).unwrap_err().to_string();
    assert_eq!(
        wrong,
        format!(
            "{}: says it is part 2 of 3, but its name says part 3 of 3; download it again",
            part(3).display()
        )
    );
    let renamed = folder.path().join("model.gguf");
    fs::copy(original(2), &renamed).unwrap();
    assert_eq!(
        message(&renamed),
        "is part 2 of 3 of a split file, so its name must end in -00002-of-00003.gguf; rename it back"
    );
    let bytes = fs::read(original(1)).unwrap();
    assert_eq!(
        Gguf::from_vec("m", bytes).unwrap_err().to_string(),
        "m: is part 1 of 3 of a split file; open it from disk, beside its other parts"
    );
}

#[test]
fn what_is_not_a_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(message(folder.path()), "is a directory; name the .gguf file in it");
    assert_eq!(message(&folder.path().join("absent.gguf")), "there is no such file; check the path");
}

#[test]
fn what_is_not_gguf() {
    let cases: [(&[u8], &str); 10] = [
        (b"", "is empty; download it again"),
        (
            &[0; 100],
            "is not a GGUF file: it starts with zeros, as an unfinished download does; download it again",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "is not a GGUF file: it looks like a Git LFS pointer; fetch the file itself with `git lfs pull`",
        ),
        (
            b"\n<!DOCTYPE html><html>",
            "is not a GGUF file: it looks like an HTML page; \
             the download went to a web page: use the link to the file itself",
        ),
        (
            b"\x10\0\0\0\0\0\0\0{\"a\":{}}        ",
            "is not a GGUF file: it looks like a safetensors file; convert it to GGUF first",
        ),
        (
            b"PK\x03\x04abc",
            "is not a GGUF file: it looks like a zip archive, perhaps a PyTorch checkpoint; \
             unpack it or convert it to GGUF first",
        ),
        (b"\x1f\x8b\x08\0", "is not a GGUF file: it looks like gzip data; unpack it first"),
        (
            b"tjgg\x03\0\0\0",
            "is not a GGUF file: it looks like a GGML file, the format before GGUF; \
             convert the model again with a current tool",
        ),
        (b"{\"a\": 1}", "is not a GGUF file: it looks like JSON; name the .gguf file instead"),
        (
            b"ab\xff\n",
            "is not a GGUF file: it starts with \"ab\\xff\\n\" instead of \"GGUF\"; download it again",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(message_of("file.gguf", content), expected);
    }
}

#[test]
fn other_versions() {
    assert_eq!(
        message(&data("big_endian.gguf")),
        "is a big-endian GGUF file, only little-endian is supported; \
         convert the model again for little-endian"
    );
    let with_version = |version: u32| [&b"GGUF"[..], &version.to_le_bytes(), &[0; 16]].concat();
    assert_eq!(
        message_of("v1.gguf", &with_version(1)),
        "GGUF version 1 is not supported; convert the model again with a current tool"
    );
    assert_eq!(message_of("v9.gguf", &with_version(9)), "GGUF version 9 is not supported (2 and 3 are)");
    assert!(Gguf::from_vec("v3", with_version(3)).unwrap().tensors().is_empty());
}

/// A key in a header made by hand: name, type and the bytes of the value.
type Key<'a> = (&'a str, u32, &'a [u8]);
/// A tensor in a header made by hand: name, dimensions, format and offset.
type Tensor<'a> = (&'a str, &'a [u64], u32, u64);

fn header(keys: &[Key], tensors: &[Tensor]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((keys.len() as u64).to_le_bytes());
    let name = |bytes: &mut Vec<u8>, name: &str| {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
    };
    for (key, kind, value) in keys {
        name(&mut bytes, key);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(*value);
    }
    for (tensor, dimensions, format, offset) in tensors {
        name(&mut bytes, tensor);
        bytes.extend((dimensions.len() as u32).to_le_bytes());
        bytes.extend(dimensions.iter().flat_map(|d| d.to_le_bytes()));
        bytes.extend(format.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

fn array(element: u32, count: u64, content: &[u8]) -> Vec<u8> {
    [&element.to_le_bytes()[..], &count.to_le_bytes(), content].concat()
}

#[test]
fn bad_keys() {
    let again = "it is truncated or damaged; download it again";
    let huge = array(0, 1 << 40, b"abc");
    let mut deep = array(0, 0, b"");
    for _ in 0..8 {
        deep = array(9, 1, &deep);
    }
    let cases: [(&[Key], String); 10] = [
        (&[("k", 4, &[1, 0, 0, 0]), ("k", 0, &[1])], "key k is there twice".into()),
        (&[("k", 13, &[])], "key k at offset 33: unknown value type 13".into()),
        (&[("k", 9, &array(13, 0, b""))], "key k at offset 37: unknown element type 13".into()),
        (&[("k", 7, &[2])], "key k at offset 37: 2 is not a boolean".into()),
        (
            &[("k", 9, &huge)],
            format!(
                "claims 1099511627776 elements in key k at offset 49, but the file ends 15 bytes later: {again}"
            ),
        ),
        (
            &[("k", 9, &array(8, u64::MAX, b""))],
            format!(
                "claims {} strings in key k at offset 49, but the file ends 15 bytes later: {again}",
                u64::MAX
            ),
        ),
        (
            &[("k", 8, &u64::MAX.to_le_bytes())],
            format!("key k at offset 45 needs {} bytes, but the file ends 19 bytes later: {again}", u64::MAX),
        ),
        (&[("k", 9, &deep)], "key k: arrays nest deeper than 8 levels".into()),
        (
            &[("general.alignment", 4, &[48, 0, 0, 0])],
            "key general.alignment: 48 is not a power of two below 4294967296".into(),
        ),
        (&[("general.alignment", 7, &[1])], "key general.alignment: expected u32, found bool".into()),
    ];
    for (keys, expected) in cases {
        assert_eq!(message_of("bad.gguf", &header(keys, &[])), expected);
    }
}

#[test]
fn bad_tensors() {
    let row = |columns: u64, rows: u64| [columns, rows];
    let cases: [(&[Tensor], &str); 10] = [
        (&[("t", &[8], 0, 0), ("t", &[8], 0, 32)], "tensor t is there twice"),
        (&[("t", &[1, 1, 1, 1, 1], 0, 0)], "tensor t: has 5 dimensions, at most 4 are supported"),
        (
            &[("blk.3.ffn_down.weight", &row(300, 2), 12, 0)],
            "tensor blk.3.ffn_down.weight: Q4_K needs a multiple of 256 columns, has 300",
        ),
        (&[("t", &[8], 77, 0)], "tensor t: unknown format 77; it may need a newer version of this program"),
        (
            &[("t", &row(1 << 40, 1 << 40), 0, 0)],
            "tensor t: the shape [1099511627776, 1099511627776] is too large for this machine",
        ),
        (
            &[("t", &row(u64::MAX, 0), 0, 0)],
            "tensor t: the shape [18446744073709551615, 0] is too large for this machine",
        ),
        (
            &[("t", &[8], 0, 8)],
            "tensor t: its offset 8 is not a multiple of the alignment 32: \
             the file is damaged; download it again",
        ),
        (&[("t", &[8], 0, u64::MAX - 31)], "tensor t: its offset 18446744073709551584 is out of range"),
        (
            &[("t", &[8], 0, 32)],
            "file is truncated: tensor t needs bytes 96..128, file has 96; download it again",
        ),
        (
            &[("t", &[9], 0, 0), ("u", &[1], 0, 32)],
            "tensor t overlaps tensor u at offset 128: the file is damaged; download it again",
        ),
    ];
    for (tensors, expected) in cases {
        let mut bytes = header(&[], tensors);
        let data = if expected.contains("truncated") { 32 } else { 64 };
        bytes.resize(bytes.len() + data, 1);
        assert_eq!(message_of("bad.gguf", &bytes), expected);
    }
}

#[test]
fn names_in_messages_stay_on_one_line_and_short() {
    let name = format!("line\nbreak{}", "x".repeat(500));
    let text = message_of("bad.gguf", &header(&[], &[(&name, &[8], 77, 0)]));
    assert!(text.starts_with("tensor line\\nbreakxxx"), "{text}");
    assert!(text.len() < 250, "{text}");
}

#[test]
fn scalars_and_empty_tensors_are_read() {
    let mut bytes = header(&[], &[("scalar", &[], 0, 0), ("empty", &[0, 3], 0, 32)]);
    let start = bytes.len();
    bytes.extend(7.5f32.to_le_bytes());
    let file = Gguf::from_vec("small", bytes).unwrap();
    assert_eq!(file.decode(&file.tensors()[0]).unwrap(), [7.5]);
    assert_eq!(file.decode(&file.tensors()[1]).unwrap(), []);
    assert_eq!((file.tensors()[0].len(), file.tensors()[1].is_empty()), (1, true));
    let expected = TensorInfo {
        name: "scalar".into(),
        shape: vec![],
        format: Format::F32,
        part: 0,
        offset: start,
        bytes: 4,
    };
    assert_eq!(file.tensors()[0], expected);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = fs::read(data("all_types.gguf")).unwrap();
    let file = Gguf::from_vec("whole", bytes.clone()).unwrap();
    let last = file.tensors().last().unwrap();
    for end in 0..last.offset + last.bytes {
        assert!(Gguf::from_vec("cut", bytes[..end].to_vec()).is_err(), "cut at {end}");
    }
}
