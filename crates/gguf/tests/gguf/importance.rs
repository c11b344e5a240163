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
