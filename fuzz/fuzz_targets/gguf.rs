//! Opens arbitrary bytes as a GGUF file and asks everything of what opens: nothing may panic, and what is
//! read must be what a written copy says.

#![no_main]

use gleed_gguf::{Gguf, TensorSpec, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = match Gguf::from_vec("fuzz", bytes.to_vec()) {
        Ok(file) => file,
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("fuzz: ") && !message.contains('\n'), "{message}");
            return;
        }
    };
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len(), tensor.bytes);
        assert_eq!(file.tensor(&tensor.name), Some(tensor));
        // Small ones only: decoding is linear in the file's size, and the fuzzer should be fast.
        if tensor.len() <= 4096 {
            let values = file.decode(tensor).expect("small enough for memory");
            assert_eq!(values.len(), tensor.len());
        }
    }
    write_again(&file);
});

/// Writes the file again and reads the copy. The writer refuses some names and alignments that the reader
/// takes.
fn write_again(file: &Gguf) {
    if file.alignment() > 1 << 16 {
        return;
    }
    let path = std::env::temp_dir().join(format!("gleed-fuzz-{}.gguf", std::process::id()));
    let specs: Vec<TensorSpec> = file.tensors().iter().map(TensorSpec::from).collect();
    let Ok(mut writer) = Writer::create(&path, file.metadata(), &specs) else { return };
    for tensor in file.tensors() {
        writer.write(&tensor.name, file.data(tensor)).expect("the size is that of the table");
    }
    writer.finish().expect("the temporary folder takes the file");
    let copy = Gguf::open(&path).expect("what is written can be read");
    let _ = std::fs::remove_file(&path);
    assert_eq!(copy.metadata().len(), file.metadata().len());
    for (original, copied) in file.tensors().iter().zip(copy.tensors()) {
        assert_eq!(TensorSpec::from(original), TensorSpec::from(copied));
        assert_eq!(file.data(original), copy.data(copied));
    }
}
