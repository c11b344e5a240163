//! The start of an executor: kernels are compiled once and when they are needed, and the file of kernels is used where it
//! can be, and nowhere else.

use std::path::Path;

use gleed_gguf::Format;
use gleed_gpu::{Gpu, Options, Selection};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, Batch, KvType};

use crate::common::{batch, executor, gpu, logits, own_gpu, tiny};

const OPTIONS: Options = Options {
    arithmetic: Arithmetic::Q8,
    kv: KvType::F16,
    max_rows: 128,
    pages: 4,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// A prompt of `rows` tokens.
fn prompt(rows: usize) -> Batch {
    let rows: Vec<_> = (0..rows).map(|i| (0, i, (5 * i % 60) as u32, i + 1 == rows)).collect();
    batch(&rows, 1, OPTIONS.pages)
}

#[test]
fn kernels_are_compiled_when_they_are_needed_and_once() {
    let gpu = own_gpu();
    let (file, plain) = tiny("qwen3", &[Format::Q4_K, Format::Q6_K], 2);
    let program = fuse(&plain, Rules::ALL);
    let mut found = executor(&gpu, &file, &program, OPTIONS);
    let compiled = || gpu.compiled().kernels;
    let probes = compiled();
    assert!(found.start().kernels > 10 && found.start().first_step.is_none());
    // A GPU's kernels are compiled before they are needed, too.
    let lazy = gpu.info.is_software();
    assert!(!lazy || probes == 0, "{probes} kernels before the first step");
    let of_one = logits(&mut found, &prompt(1));
    let after_one = compiled();
    assert!(!lazy || after_one > 0 && after_one < found.start().kernels);
    assert_eq!(logits(&mut found, &prompt(1)), of_one);
    assert!(!lazy || compiled() == after_one, "the same step needs the same kernels");
    // More rows have other tilings.
    let of_many = logits(&mut found, &prompt(120));
    let after_many = compiled();
    assert!(!lazy || after_many > after_one && after_many < found.start().kernels);
    found.compile_all().unwrap();
    let all = compiled();
    assert!(all == found.start().kernels || !lazy && all > found.start().kernels);
    assert!(found.start().first_step.is_some() && found.start().waited > std::time::Duration::ZERO);
    // Another executor has the same kernels, and the same bits.
    let mut other = executor(&gpu, &file, &program, OPTIONS);
    other.compile_all().unwrap();
    assert_eq!(logits(&mut other, &prompt(120)), of_many);
    assert_eq!(logits(&mut other, &prompt(1)), of_one);
    assert_eq!(compiled(), all, "each text is compiled once");
}

/// Opens the adapter of the tests with a folder for kernels, runs a step, and returns its bits, how many kernels were
/// compiled and how many of them the file had.
fn run_with(folder: &Path) -> (Vec<Vec<u32>>, usize, usize) {
    let index = gpu().info.index.to_string();
    let gpu = Gpu::open_with(Selection::Named(&index), Some(folder)).unwrap();
    let (file, plain) = tiny("llama", &[Format::Q8_0], 1);
    let mut found = executor(&gpu, &file, &fuse(&plain, Rules::ALL), OPTIONS);
    let logits = logits(&mut found, &prompt(2));
    if !gpu.info.is_software() {
        // Others are being compiled, too.
        found.compile_all().unwrap();
    }
    let compiled = gpu.compiled();
    (logits, compiled.kernels, compiled.from_file)
}

#[test]
fn a_file_of_kernels_is_used_and_a_corrupt_one_replaced() {
    if !gpu().device.features().contains(wgpu::Features::PIPELINE_CACHE) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("kernels");
    let (truth, kernels, from_file) = run_with(&folder);
    assert!(kernels > 0 && from_file == 0);
    let paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [path] = &paths[..] else { panic!("one file, not {paths:?}") };
    assert_eq!(run_with(&folder), (truth.clone(), kernels, kernels), "all are in the file");

    let whole = std::fs::read(path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(path, flipped).unwrap();
    assert_eq!(run_with(&folder), (truth.clone(), kernels, 0), "a bit is another");
    assert_eq!(run_with(&folder), (truth.clone(), kernels, kernels), "it is whole again");
    // A folder that cannot be there is no reason not to run.
    let below_a_file = path.join("kernels");
    assert_eq!(run_with(&below_a_file), (truth, kernels, 0));
}
