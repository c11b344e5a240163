//! Damaged and hostile files: thousands of seeded mutations of a header that uses everything. Each must be
//! opened or refused; none may panic, loop, or make the reader allocate more than a small multiple of the
//! file's size, which a counting allocator watches.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gleed_gguf::{Array, Format, Gguf, Importance, Metadata, Strings, TensorSpec, Value, Writer};

thread_local! {
    /// Bytes allocated and not yet freed by this thread, and the most there ever were since the last reset.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    // The thread may be ending, when there is nothing left to count.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while the content is copied.
        count(size as isize);
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        count(-(layout.size() as isize));
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many times its size a file may cost in memory. The worst case is a table of tiny entries:
/// an entry of some 16 bytes in the file is 80 in memory, three times that while a vector grows.
const FACTOR: usize = 16;
/// What any file may cost: messages, small vectors.
const ALLOWANCE: usize = 16 * 1024;

/// Opens the file and asks everything of it. Fails the test on a panic or too much memory.
fn open(bytes: &[u8], what: &dyn Fn() -> String) -> bool {
    let given = bytes.to_vec();
    let ask = || match Gguf::from_vec("hostile", given) {
        Ok(file) => {
            for tensor in file.tensors() {
                assert_eq!(file.data(tensor).len(), tensor.bytes);
                assert_eq!(file.tensor(&tensor.name), Some(tensor));
            }
            for (key, value) in file.metadata().iter() {
                assert_eq!(file.metadata().get(key).map(Value::kind), Some(value.kind()));
            }
            assert!(file.tensor_bytes() <= bytes.len() as u64);
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("hostile: ") && !message.contains('\n'), "{message}");
            false
        }
    };
    watched(bytes.len(), what, ask)
}

/// Runs something on a file of `length` bytes. Fails the test on a panic or too much memory.
fn watched(length: usize, what: &dyn Fn() -> String, run: impl FnOnce() -> bool) -> bool {
    let before = LIVE.get();
    PEAK.set(before);
    let result = catch_unwind(AssertUnwindSafe(run));
    let cost = usize::try_from(PEAK.get() - before).unwrap_or(0);
    let bound = FACTOR * length + ALLOWANCE;
    assert!(cost <= bound, "{}: {cost} bytes for a file of {length}", what());
    result.unwrap_or_else(|_| panic!("{}: panicked", what()))
}

/// A small generator with a seed, so that every run tries the same files (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn written(metadata: &Metadata, specs: &[TensorSpec]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.gguf");
    let mut writer = Writer::create(&path, metadata, specs).unwrap();
    for spec in specs {
        let blocks = spec.shape.iter().product::<usize>() / spec.format.block_len();
        writer.write(&spec.name, &vec![0x55; blocks * spec.format.block_bytes()]).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

/// A file like a model's: a vocabulary, an array of every kind, tensors of many formats.
fn model() -> Vec<u8> {
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", Value::Str("llama".into()));
    metadata.set("general.alignment", Value::U32(32));
    metadata.set("llama.context_length", Value::U32(2048));
    metadata.set("llama.rope.freq_base", Value::F32(8_200.0));
    metadata.set("a.u8", Value::U8(1));
    metadata.set("a.i8", Value::I8(-1));
    metadata.set("a.u16", Value::U16(1));
    metadata.set("a.i16", Value::I16(-1));
    metadata.set("a.i32", Value::I32(-1));
    metadata.set("a.u64", Value::U64(1));
    metadata.set("a.i64", Value::I64(-1));
    metadata.set("a.f64", Value::F64(0.5));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    let tokens = (0..40).map(|i| format!("token {i}"));
    metadata.set("tokenizer.ggml.tokens", Value::Array(Array::Str(Strings::from_iter(tokens))));
    metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(vec![-1.0; 40])));
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1; 40])));
    metadata.set("b.bools", Value::Array(Array::Bool(vec![true, false])));
    metadata.set("b.u64s", Value::Array(Array::U64(vec![1, 2])));
    let inner = Array::Nested(vec![Array::U8(vec![1, 2]), Array::Str(Strings::from_iter(["x"]))]);
    metadata.set("b.nested", Value::Array(Array::Nested(vec![inner, Array::Nested(vec![])])));
    let spec = |name: String, shape: &[usize], format| TensorSpec { name, shape: shape.into(), format };
    let mut specs = vec![spec("token_embd.weight".into(), &[32, 5], Format::Q8_0)];
    for (layer, format) in [Format::Q4_0, Format::Q5_1, Format::F16, Format::BF16].into_iter().enumerate() {
        specs.push(spec(format!("blk.{layer}.attn_q.weight"), &[32, 2], format));
        specs.push(spec(format!("blk.{layer}.attn_norm.weight"), &[32], Format::F32));
    }
    specs.push(spec("experts".into(), &[256, 1, 2, 1], Format::IQ2_XXS));
    specs.push(spec("k".into(), &[256, 1], Format::Q4_K));
    written(&metadata, &specs)
}

const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    u8::MAX as u64,
    u16::MAX as u64,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    1 << 61,
    1 << 62,
    i64::MAX as u64,
    u64::MAX - 31,
    u64::MAX,
];

/// One mutation, or a few.
fn mutate(bytes: &mut Vec<u8>, header: usize, random: &mut Random) -> String {
    let mut what = String::new();
    for _ in 0..1 + random.below(3) {
        let at = random.below(header.min(bytes.len()));
        match random.below(6) {
            0 => {
                bytes[at] ^= 1 << random.below(8);
                what += &format!("flip a bit at {at}; ");
            }
            1 => {
                bytes[at] = random.next() as u8;
                what += &format!("replace the byte at {at}; ");
            }
            2 | 3 => {
                let value = EXTREMES[random.below(EXTREMES.len())];
                let width = [4, 8][random.below(2)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                what += &format!("{value} in {width} bytes at {at}; ");
            }
            4 => {
                bytes.truncate(at.max(1));
                what += &format!("cut at {at}; ");
            }
            _ => {
                let from = random.below(bytes.len());
                let count = 1 + random.below(64.min(bytes.len() - from));
                let piece = bytes[from..from + count].to_vec();
                let end = if random.below(2) == 0 { at } else { (at + count).min(bytes.len()) };
                bytes.splice(at..end, piece);
                what += &format!("copy {count} bytes from {from} to {at}..{end}; ");
            }
        }
    }
    what
}

#[test]
fn mutations_of_a_header() {
    let original = model();
    let header = original.len() - Gguf::from_vec("m", original.clone()).unwrap().tensor_bytes() as usize;
    assert!(open(&original, &|| "unchanged".into()));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut opened, cases) = (0, 20_000);
    for case in 0..cases {
        let mut bytes = original.clone();
        let what = mutate(&mut bytes, header, &mut random);
        opened += usize::from(open(&bytes, &|| format!("case {case}: {what}")));
    }
    // Both sides have to be met for the test to mean anything.
    assert!(opened > cases / 50 && opened < cases * 9 / 10, "{opened} of {cases} opened");
}

#[test]
fn every_number_at_every_offset() {
    let original = model();
    let header = original.len() - Gguf::from_vec("m", original.clone()).unwrap().tensor_bytes() as usize;
    for at in 0..header {
        for value in [u64::MAX, 1 << 40, 1 << 62, u32::MAX as u64] {
            let mut bytes = original.clone();
            let width = 8.min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            open(&bytes, &|| format!("{value} at {at}"));
        }
    }
}

/// Importance matrices in the format before GGUF.
#[test]
fn mutations_of_an_old_importance_matrix() {
    let original = include_bytes!("data/importance/imatrix.dat");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("imatrix.dat");
    let name = path.display().to_string();
    let read = |bytes: &[u8], what: &dyn Fn() -> String| {
        std::fs::write(&path, bytes).unwrap();
        watched(bytes.len(), what, || match Importance::read(&path) {
            Ok(importance) => importance.inputs.values().all(|inputs| !inputs.means().is_empty()),
            Err(error) => {
                let message = error.to_string();
                assert!(message.starts_with(&name) && !message.contains('\n'), "{message}");
                false
            }
        })
    };
    assert!(read(original, &|| "unchanged".into()));
    for at in (0..original.len()).step_by(7) {
        assert!(!read(&original[..at], &|| format!("cut at {at}")) || at >= original.len() - 16);
    }
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let (mut opened, cases) = (0, 1_000);
    for case in 0..cases {
        let mut bytes = original.to_vec();
        let what = mutate(&mut bytes, original.len(), &mut random);
        opened += usize::from(read(&bytes, &|| format!("case {case}: {what}")));
    }
    assert!(opened > cases / 50 && opened < cases * 9 / 10, "{opened} of {cases} opened");
}

/// Files that are valid, or nearly, and made to cost as much memory as possible: a little over 8,192
/// entries, so that vectors have just doubled.
#[test]
fn the_most_memory_that_a_file_can_cost() {
    let mut arrays = Metadata::default();
    arrays.set("k", Value::Array(Array::Nested(vec![Array::U8(vec![]); 8_200])));
    let mut strings = Metadata::default();
    strings.set("k", Value::Array(Array::Str(Strings::from_iter(vec![""; 8_200]))));
    let mut keys = Metadata::default();
    for index in 0..8_200 {
        keys.set(format!("{index:x}"), Value::U8(0));
    }
    // Without data, since data would only make the file larger.
    let empty = |index| TensorSpec { name: format!("{index:x}"), shape: vec![0], format: Format::I8 };
    let tensors: Vec<TensorSpec> = (0..8_200).map(empty).collect();
    for (what, bytes) in [
        ("nested arrays", written(&arrays, &[])),
        ("strings", written(&strings, &[])),
        ("keys", written(&keys, &[])),
        ("tensors", written(&Metadata::default(), &tensors)),
    ] {
        assert!(open(&bytes, &|| what.into()), "{what}");
    }
    // Text that is not UTF-8: each byte becomes a replacement character of three.
    let mut text = Metadata::default();
    text.set("k", Value::Str("x".repeat(100_000)));
    let mut bytes = written(&text, &[]);
    bytes.iter_mut().filter(|byte| **byte == b'x').for_each(|byte| *byte = 0xFF);
    assert!(open(&bytes, &|| "text".into()));
}
