//! Importance matrices: what is written is read again, and what is none is refused.

use std::path::{Path, PathBuf};

use gleed_gguf::{Error, Format, Gguf, Importance, InputSquares, Metadata, TensorSpec, Value, Writer};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn inputs() -> impl Strategy<Value = InputSquares> {
    (1usize..5, 1usize..40).prop_flat_map(|(matrices, columns)| {
        let counts = vec((0u32..1000).prop_map(|count| count as f32), matrices);
        (vec(0.0f32..1e9, matrices * columns), counts)
            .prop_map(|(sums, counts)| InputSquares { sums, counts })
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        datasets in vec("[a-zé ]{0,20}", 0..3),
        chunks in any::<u32>(),
        chunk_size in any::<u32>(),
        inputs in btree_map("blk\\.[0-9]{1,2}\\.[a-z_]{1,20}\\.weight", inputs(), 0..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imatrix.gguf");
        let importance = Importance { datasets, chunks, chunk_size, inputs };
        importance.write(&path).unwrap();
        prop_assert_eq!(Importance::read(&path).unwrap(), importance);
    }
}

#[test]
fn means_are_of_each_matrix_and_ones_where_nothing_came() {
    let inputs = InputSquares { sums: vec![2.0, 4.0, 0.0, 0.0, 9.0, 30.0], counts: vec![2.0, 0.0, 3.0] };
    assert_eq!(inputs.means(), [1.0, 2.0, 1.0, 1.0, 3.0, 10.0]);
    // Heads share their rows, and have one count.
    let inputs = InputSquares { sums: vec![2.0, 4.0, 0.0, 1.0], counts: vec![2.0] };
    assert_eq!(inputs.means(), [1.0, 2.0, 0.0, 0.5]);
}

/// A file with these tensors of f32, by name.
fn file(folder: &Path, kind: Option<&str>, tensors: &[(&str, &[usize], &[f32])]) -> PathBuf {
    let path = folder.join("some.gguf");
    let mut metadata = Metadata::default();
    if let Some(kind) = kind {
        metadata.set("general.type", Value::Str(kind.into()));
    }
    let spec = |(name, shape, _): &(&str, &[usize], &[f32])| TensorSpec {
        name: (*name).into(),
        shape: shape.to_vec(),
        format: Format::F32,
    };
    let specs: Vec<TensorSpec> = tensors.iter().map(spec).collect();
    let mut writer = Writer::create(&path, &metadata, &specs).unwrap();
    for (name, _, values) in tensors {
        writer.write(name, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    }
    writer.finish().unwrap();
    path
}

#[test]
fn what_is_no_matrix_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |kind, tensors: &[(&str, &[usize], &[f32])], expected: &str| {
        let error = Importance::read(&file(folder.path(), kind, tensors)).unwrap_err().to_string();
        assert!(error.contains("some.gguf") && error.contains(expected), "{error}");
    };
    refused(None, &[], "is not an importance matrix");
    refused(Some("model"), &[], "is not an importance matrix");
    let sums = ("x.in_sum2", &[3][..], &[1.0, 2.0, 3.0][..]);
    refused(Some("imatrix"), &[sums], "tensor x.counts is missing");
    refused(Some("imatrix"), &[sums, ("x.counts", &[2], &[1.0, 1.0])], "3 sums do not belong to 2 counts");
    refused(Some("imatrix"), &[sums, ("x.counts", &[0], &[])], "3 sums do not belong to 0 counts");
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        refused(Some("imatrix"), &[sums, ("x.counts", &[1], &[bad])], "neither a sum of squares nor a count");
    }
    let missing = Importance::read(&folder.path().join("missing.gguf"));
    assert!(matches!(missing, Err(Error::Io { .. })));
}

/// What `llama-imatrix` wrote of one model and text in its two formats; `make_importance_vectors.py` made them. An expert
/// without tokens is among them.
#[test]
fn the_format_before_gguf_says_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/importance");
    let [new, old] =
        ["imatrix.gguf", "imatrix.dat"].map(|name| Importance::read(&folder.join(name)).unwrap());
    assert_eq!(old.datasets, ["text.txt"]);
    assert_eq!((&old.datasets, old.chunks), (&new.datasets, new.chunks));
    assert_eq!(old.inputs.len(), 8);
    for ((name, old), (other, new)) in old.inputs.iter().zip(&new.inputs) {
        assert_eq!(name, other);
        let (old, new) = (old.means(), new.means());
        assert_eq!(old.len(), new.len(), "{name}");
        for (old, new) in old.iter().zip(&new) {
            assert!((old - new).abs() <= 1e-6 * new, "{name}: {old} and {new}");
        }
    }
}

/// A file of the format before GGUF, with as many of its parts as are given.
fn old_file(folder: &Path, tensors: &[(&[u8], u32, &[f32])], end: &[u8]) -> PathBuf {
    let path = folder.join("some.dat");
    let mut bytes = (tensors.len() as u32).to_le_bytes().to_vec();
    for (name, windows, values) in tensors {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(*name);
        bytes.extend(windows.to_le_bytes());
        bytes.extend((values.len() as u32).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes.extend(end);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_oldest_files_end_early_and_may_hold_means() {
    let folder = tempfile::tempdir().unwrap();
    let tensors: [(&[u8], u32, &[f32]); 2] = [(b"x", 4, &[2.0, 6.0]), (b"y", 0, &[2.0, 6.0])];
    for (end, chunks, datasets) in
        [(&b""[..], 0, &[][..]), (b"\x07\0\0\0", 7, &[]), (b"\x07\0\0\0\x02\0\0\0ab", 7, &["ab"])]
    {
        let read = Importance::read(&old_file(folder.path(), &tensors, end)).unwrap();
        assert_eq!(read.inputs["x"].means(), [0.5, 1.5]);
        assert_eq!(read.inputs["y"].means(), [2.0, 6.0]);
        assert_eq!(
            (read.chunks, &read.datasets[..]),
            (chunks, &datasets.iter().map(|d| d.to_string()).collect::<Vec<_>>()[..])
        );
    }
}

#[test]
fn old_files_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tensors: &[(&[u8], u32, &[f32])], expected: &str| {
        let error = Importance::read(&old_file(folder.path(), tensors, b"")).unwrap_err().to_string();
        assert!(error.contains("some.dat: ") && error.contains(expected), "{error}");
    };
    refused(&[], "is not a GGUF file");
    refused(&[(b"", 1, &[1.0])], "is not a GGUF file");
    refused(&[(b"\xff", 1, &[1.0])], "is not a GGUF file");
    refused(&[(b"x", 1, &[1.0]), (b"\xff", 1, &[1.0])], "the name of a tensor at offset 25 is not UTF-8");
    refused(&[(b"x", 1, &[])], "tensor x has no columns");
    refused(&[(b"x", 1, &[1.0]), (b"x", 1, &[1.0])], "tensor x is there twice");
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        refused(&[(b"x", 1, &[bad])], "neither a sum of squares nor a count");
    }
    // The bytes of a text are no numbers of tensors.
    let text = folder.path().join("text.txt");
    std::fs::write(&text, "Once upon a time there was a coal.").unwrap();
    let error = Importance::read(&text).unwrap_err().to_string();
    assert!(error.contains("it starts with \"Once upo\" instead of \"GGUF\""), "{error}");
}

/// llama.cpp writes more than is needed here: means, and statistics about them.
#[test]
fn other_tensors_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sums = ("x.in_sum2", &[2][..], &[1.0, 2.0][..]);
    let tensors = [("x.in_sum", &[2][..], &[-1.0, 2.0][..]), sums, ("x.counts", &[1], &[4.0])];
    let path = file(folder.path(), Some("imatrix"), &tensors);
    let read = Importance::read(&path).unwrap();
    assert_eq!(read.inputs.len(), 1);
    assert_eq!(read.inputs["x"].means(), [0.25, 0.5]);
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 3);
}
