//! Models that are put together of tensors in files of other kinds.

use std::path::PathBuf;
use std::sync::Arc;

use gleed_gguf::{Bytes, Format, Gguf, Make, Metadata, Piece, Place, TensorSpec, Value};

/// Counts upwards from the byte's place.
struct Counting;

impl Make for Counting {
    fn make(&self, start: usize, out: &mut [u8]) {
        for (place, byte) in (start..).zip(out) {
            *byte = place as u8;
        }
    }

    fn release(&self) {}
}

fn piece(name: &str, rows: usize, place: Place) -> Piece {
    Piece { spec: TensorSpec { name: name.to_string(), shape: vec![2, rows], format: Format::F16 }, place }
}

fn assemble(pieces: Vec<Piece>) -> gleed_gguf::Result<Gguf> {
    let bytes = Arc::new(Bytes::Owned((0..100).rev().collect()));
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", Value::Str("test".into()));
    Gguf::assemble("folder", metadata, vec![(PathBuf::from("weights"), bytes)], pieces)
}

#[test]
fn tensors_lie_in_files_or_are_made() {
    let lying = piece("lying", 3, Place::In { file: 0, offset: 88 });
    let file = assemble(vec![lying, piece("made", 5, Place::Made(Box::new(Counting)))]).unwrap();
    assert_eq!((file.name(), file.tensor_bytes()), ("folder", 12 + 20));
    assert_eq!(file.parts().collect::<Vec<_>>(), [PathBuf::from("weights")]);
    let expected: [(&str, Vec<u8>); 2] = [("lying", (0..12).rev().collect()), ("made", (0..20).collect())];
    for (name, expected) in expected {
        let tensor = file.require_tensor(name).unwrap();
        let stretch = |from: usize, to: usize| file.stretch(tensor, from..to).into_owned();
        // Before it is made, and after.
        for _ in 0..2 {
            assert_eq!(stretch(4, 12), expected[4..12]);
            file.will_need(tensor);
            file.release(tensor);
            assert_eq!(file.data(tensor), expected);
        }
    }
}

#[test]
fn pieces_that_do_not_fit() {
    let lying = |file, offset| piece("lying", 3, Place::In { file, offset });
    for (file, offset) in [(0, 89), (0, usize::MAX), (1, 0)] {
        let message = assemble(vec![lying(file, offset)]).unwrap_err().to_string();
        assert_eq!(message, "folder: tensor lying does not lie inside its file");
    }
    let message = assemble(vec![lying(0, 0), lying(0, 12)]).unwrap_err().to_string();
    assert_eq!(message, "folder: tensor lying is there twice");
    assert!(assemble(vec![piece("made", usize::MAX, Place::Made(Box::new(Counting)))]).is_err());
}
