//! Every op over random shapes against the reference: odd widths, one row, many and none, views inside
//! wider buffers, heads of any size, sequences longer than a span.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{Case, Random, batch, bits, executor, gpu};
use gleed_gguf::Gguf;
use gleed_gpu::linear::half_units;
use gleed_gpu::{Gpu, Options};
use gleed_model::arithmetic::Xielu;
use gleed_model::compare::ops_alone;
use gleed_model::program::{Activation, Attention, KvLayer, Map, Node, Norm, Op, Program, Projection, View};
use gleed_model::rope::{Pairing, Rope, Scaling, Temperature};
use gleed_model::{Arithmetic, Executor, KvType, Reference, reference};

const TOKENS: usize = 29;
const CONTEXT: usize = 1024;
const OPTIONS: Options = Options {
    arithmetic: Arithmetic::F32,
    kv: KvType::F16,
    max_rows: 600,
    pages: 20,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// What one op may be off, as a share of the largest true value.
const TOLERANCE: f32 = 3e-6;

/// The same of attention over keys that one op has normed, rotated and rounded: what differs in the last
/// place before rounding can differ by a whole step of 16 or 8 bits after it.
const ROUNDED_TOLERANCE: f32 = 2e-3;

impl Case {
    /// Tokens are embedded in the first buffer; some ops follow, and the first buffer goes through a head.
    fn new(seed: u64, width: usize) -> Case {
        let mut case = Case::empty(seed, TOKENS, CONTEXT);
        let out = case.buffer("x", width);
        let table = case.floats(TOKENS, width);
        case.push(Op::Embed { table, out });
        case
    }

    fn norm(&mut self, width: usize, layer: bool) -> Norm {
        let weight = self.floats(1, width);
        let bias = layer.then(|| self.floats(1, width));
        Norm { weight, bias, epsilon: 1e-5 }
    }

    /// Adds the head; the program is done.
    fn finish(mut self) -> (Arc<Gguf>, Program) {
        let width = self.program.buffers[0].width;
        let input = View { buffer: 0, offset: 0, width };
        let out = self.buffer("logits", TOKENS);
        let weight = self.floats(TOKENS, width);
        self.push(Op::Linear { parts: vec![Projection { weight, bias: None }], input, out });
        self.with_logits(out)
    }
}

/// Runs batches of rows `(sequence, position)` of two sequences on both executors, op by op.
fn compare(gpu: &Gpu, case: Case, kv: KvType, batches: &[Vec<(usize, usize)>]) {
    compare_in(Arithmetic::F32, gpu, case, kv, batches);
}

/// The same in an arithmetic.
fn compare_in(arithmetic: Arithmetic, gpu: &Gpu, case: Case, kv: KvType, batches: &[Vec<(usize, usize)>]) {
    let (file, program) = case.finish();
    let options = Options { arithmetic, kv, ..OPTIONS };
    let Options { max_rows, pages, .. } = options;
    let made_for = reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows, pages };
    let mut truth = Reference::new(Arc::clone(&file), program.clone(), made_for).unwrap();
    let mut found = executor(gpu, &file, &program, options);
    for places in batches {
        let row = |&(sequence, position): &(usize, usize)| {
            (sequence, position, ((7 * position + sequence) % TOKENS) as u32, position % 3 != 1)
        };
        let batch = batch(&places.iter().map(row).collect::<Vec<_>>(), 2, OPTIONS.pages);
        for difference in ops_alone(&mut found, &mut truth, &batch, || {}).unwrap() {
            let node = &program.nodes[difference.node];
            let off = difference.difference.relative;
            let rounded = kv != KvType::F32 && matches!(node.op, Op::Attention { .. });
            let fused = program.nodes.iter().any(|node| matches!(node.op, Op::RopeKvWrite { .. }));
            let tolerance = if rounded && fused { ROUNDED_TOLERANCE } else { TOLERANCE };
            assert!(off < tolerance, "{off:e}, kv {kv}, {} rows: {node:?}", places.len());
        }
    }
}

fn rows(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|position| (0, position)).collect()
}

/// No row, one, some, and many.
fn some_batches() -> Vec<Vec<(usize, usize)>> {
    [0, 1, 5, 130].into_iter().map(rows).collect()
}

#[test]
fn norms() {
    let gpu = gpu();
    for (index, width) in [1, 31, 255, 256, 700].into_iter().enumerate() {
        for layer in [false, true] {
            let mut case = Case::new(index as u64, 3 * width + 5);
            let (x, y) = (View { buffer: 0, offset: 2, width: 3 * width }, case.buffer("y", 3 * width + 1));
            let (whole, head) = (case.norm(width, layer), case.norm(width, layer));
            let y = y.part(1, 3 * width);
            let z = case.buffer("z", 3 * width + 2).part(1, 3 * width);
            case.push(Op::Center { heads: if width > 1 { 3 } else { 1 }, input: x, out: z });
            case.push(Op::Norm { norm: whole, heads: 3, input: x, out: y });
            case.push(Op::Norm { norm: head, heads: 3, input: y, out: y });
            case.push(Op::Norm { norm: whole, heads: 1, input: x.part(width, width), out: y.part(0, width) });
            compare(&gpu, case, KvType::F32, &some_batches());
        }
    }
}

#[test]
fn sums_activations_and_gathered_rows() {
    let gpu = gpu();
    let widths = [1, 3, 256, 517];
    let activations = [
        Activation::Silu,
        Activation::Gelu,
        Activation::ExactGelu,
        Activation::SquaredRelu,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::Identity,
        Activation::ClampedSwiglu,
    ];
    // Each activation in two widths.
    for (index, activation) in activations.into_iter().enumerate() {
        for width in [widths[index % 4], widths[(index + 2) % 4]] {
            let mut case = Case::new(20 + index as u64, 2 * width + 3);
            let x = View { buffer: 0, offset: 3, width: 2 * width };
            let (y, z) = (case.buffer("y", width + 4), case.buffer("z", width));
            let (y, half) = (y.part(3, width), x.part(width, width));
            let (table, norm) = (case.floats(CONTEXT, width), case.norm(width, index % 2 == 0));
            case.push(Op::AddPositions { table, x: half });
            case.push(Op::AddVector { table, x: x.part(0, width) });
            case.push(Op::Activate { activation, gate: x.part(0, width), up: Some(half), out: y });
            case.push(Op::Activate { activation, gate: half, up: None, out: z });
            case.push(Op::Add { x: half, y });
            case.push(Op::Map { map: Map::Scale(-1.7), x: y });
            case.push(Op::Map { map: Map::SoftCap(0.8), x: half });
            case.push(Op::Map { map: Map::AtMost(0.9), x: y });
            case.push(Op::Map { map: Map::Within(0.7), x: half });
            case.push(Op::Map { map: Map::Kept(0.6), x: half });
            case.push(Op::Map { map: Map::Xielu(Xielu::new(0.8, -0.3, 0.5)), x: y });
            case.push(Op::AddNorm { x: half, y: z, norm, out: y });
            case.push(Op::Gather { views: vec![View { buffer: 0, offset: 0, width: 2 * width + 3 }, y] });
            case.push(Op::Add { x: half, y });
            compare(&gpu, case, KvType::F32, &some_batches());
        }
    }
}

#[test]
fn streams_lengths_and_sparse_rows() {
    let gpu = gpu();
    for (index, width) in [2, 3, 64, 255, 300].into_iter().enumerate() {
        let mut case = Case::new(90 + index as u64, 3 * width + 2);
        let x = View { buffer: 0, offset: 1, width: 3 * width };
        let (y, z) = (case.buffer("y", 3 * width + 4), case.buffer("z", width + 9));
        let (y, coefficients, part) = (y.part(3, 3 * width), z.part(0, 9), z.part(9, width));
        let (matrix, weight) = (case.floats(9, width), case.floats(1, width));
        let parts = vec![Projection { weight: matrix, bias: None }];
        case.push(Op::Linear { parts, input: x.part(width, width), out: coefficients });
        case.push(Op::MixStreams { coefficients, input: x, out: y });
        case.push(Op::ScaleColumns { weight, input: y.part(0, width), out: part });
        let of_streams = coefficients.part(2, 3);
        case.push(Op::CorrectStreams { coefficients: of_streams, truth: part, input: y, out: x });
        case.push(Op::UnitNorm { heads: 3, epsilon: 1e-6, like: None, x: y });
        case.push(Op::UnitNorm { heads: 3, epsilon: 1e-6, like: Some(part), x });
        case.push(Op::Sparsify { spread: 0.4, x: part });
        let (shares, blended) = (case.floats(2, width), case.buffer("blended", 2 * width + 1));
        let (blended, dots) = (blended.part(1, 2 * width), case.buffer("dots", 4).part(1, 3));
        case.push(Op::Blend { shares, x: part, y: y.part(width, width), out: blended });
        case.push(Op::Dot { heads: 3, x, y, out: dots });
        case.push(Op::Add { x: x.part(0, width), y: part });
        compare(&gpu, case, KvType::F32, &some_batches());
    }
}

#[test]
fn linear_layers() {
    let gpu = gpu();
    for (index, columns) in [1, 31, 32, 33, 300].into_iter().enumerate() {
        let mut case = Case::new(40 + index as u64, columns + 5);
        let input = View { buffer: 0, offset: index, width: columns };
        let (out, gated) = (case.buffer("out", 70), case.buffer("gated", 65));
        let part = |case: &mut Case, rows, bias: bool| {
            let weight = case.floats(rows, columns);
            Projection { weight, bias: bias.then(|| case.floats(1, rows)) }
        };
        let parts = vec![part(&mut case, 1, false), part(&mut case, 64, true), part(&mut case, 3, true)];
        let (gate, up) = (part(&mut case, 65, true), part(&mut case, 65, false));
        case.push(Op::Linear { parts, input, out: out.part(2, 68) });
        case.push(Op::GatedLinear { activation: Activation::Silu, gate, up, input, out: gated });
        compare(&gpu, case, KvType::F32, &some_batches());
    }
}

/// A model's part from projections to attention, of these heads, plain or fused.
#[derive(Debug, Clone, Copy)]
struct Heads {
    heads: usize,
    cache: KvLayer,
    /// Rotated dimensions and pairing.
    rope: Option<(usize, Pairing)>,
    norms: bool,
    fused: bool,
}

fn attention_case(seed: u64, heads: Heads) -> Case {
    let Heads { heads, cache, rope, norms, fused } = heads;
    let KvLayer { heads: kv_heads, key_dim, value_dim } = cache;
    let (queries, keys, values) = (heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);
    let mut case = Case::new(seed, queries + keys + values + 1);
    let x = View { buffer: 0, offset: 1, width: queries + keys + values };
    let (query, key) = (x.part(0, queries), x.part(queries, keys));
    let value = x.part(queries + keys, values);
    let out = case.buffer("out", heads * value_dim + 3).part(2, heads * value_dim);
    case.program.caches.push(cache);
    let norm = |case: &mut Case| norms.then(|| case.norm(key_dim, false));
    let (query_norm, key_norm) = (norm(&mut case), norm(&mut case));
    if let Some((dimensions, pairing)) = rope {
        let scaling = Scaling::Linear { factor: 2.0 };
        // The first rotation is not used, so that the others' angles are not where a row's begin. Queries have a
        // temperature, keys have none.
        case.program.ropes.push(Rope::new(pairing, 2, 10.0, &Scaling::None, None).unwrap());
        let rope = Rope::new(pairing, dimensions, 10_000.0, &scaling, None).unwrap();
        let temperature = Some(Temperature { scale: 0.2, length: 50, offset: 0 });
        case.program.ropes.extend([Rope { temperature, ..rope.clone() }, rope]);
    }
    if fused {
        let (cache, query_rope, key_rope) = (0, 1, 2);
        case.push(Op::RopeKvWrite {
            cache,
            heads,
            query_rope,
            key_rope,
            query_norm,
            key_norm,
            query,
            key,
            value,
        });
    } else {
        for (norm, turn, heads, x) in [(query_norm, 1, heads, query), (key_norm, 2, kv_heads, key)] {
            if let Some(norm) = norm {
                case.push(Op::Norm { norm, heads, input: x, out: x });
            }
            if rope.is_some() {
                case.push(Op::Rope { rope: turn, heads, x });
            }
        }
        case.push(Op::KvWrite { cache: 0, key, value });
    }
    // Scores grow with the size of a head, and what an exponential is off with them: at most those of heads of 64.
    let scale = 0.3f32.min(0.3 * 8.0 / (key_dim as f32).sqrt());
    case.push(Op::Attention { attention: Attention::over_all(0, heads, scale), query, out });
    case
}

#[test]
fn rotations_and_attention() {
    let gpu = gpu();
    let mut random = Random::new(3);
    // Two sequences side by side, then rows one by one, then more of one sequence than a span.
    let mut batches = vec![vec![(1, 0), (0, 0), (0, 1), (0, 2)], vec![(1, 1)], rows(0)];
    batches.push((3..140).map(|position| (0, position)).collect());
    batches.push(vec![(1, 2), (0, 140), (0, 141), (1, 3)]);
    batches.push(vec![(0, 142)]);
    batches.push((143..280).map(|position| (0, position)).collect());
    batches.push(vec![(0, 280), (0, 281), (0, 282), (1, 4)]);
    let fixed =
        [(8, 2, 128, 128), (9, 1, 64, 64), (1, 1, 1, 1), (3, 3, 257, 130), (20, 1, 30, 7), (4, 1, 576, 512)];
    let odd: Vec<_> = (0..3)
        .map(|_| {
            let kv_heads = 1 + random.below(3);
            (kv_heads * (1 + random.below(5)), kv_heads, 2 + random.below(100), 1 + random.below(100))
        })
        .collect();
    for (index, (heads, kv_heads, key_dim, value_dim)) in fixed.into_iter().chain(odd).enumerate() {
        let pairing = if index % 2 == 0 { Pairing::SplitHalf } else { Pairing::Interleaved };
        let rope = (key_dim > 1).then(|| ((key_dim / 2 * 2).min(2 + 2 * random.below(key_dim)), pairing));
        let cache = KvLayer { heads: kv_heads, key_dim, value_dim };
        let kv = [KvType::F16, KvType::Q8_0, KvType::F32][index % 3];
        for fused in [false, true] {
            let norms = random.below(2) == 0;
            let heads = Heads { heads, cache, rope, norms, fused: fused && rope.is_some() };
            compare(&gpu, attention_case(60 + index as u64, heads), kv, &batches);
        }
    }
}

#[test]
fn attention_with_windows_chunks_caps_and_sinks() {
    let gpu = gpu();
    let mut batches = vec![vec![(1, 0), (0, 0), (0, 1), (0, 2)], rows(0)];
    batches.push((3..140).map(|position| (0, position)).collect());
    batches.push(vec![(1, 1), (0, 140), (0, 141)]);
    let shapes = [(8, 2, 128, 128), (3, 3, 37, 30), (5, 1, 20, 300), (1, 1, 1, 1)];
    let options = [
        (Some(1), None, None, true),
        (Some(50), None, Some(0.7), false),
        (None, None, Some(2.0), true),
        (Some(65), None, None, false),
        (None, Some(67), None, false),
        (Some(30), Some(40), None, true),
    ];
    let case = |index: usize, (window, chunk, soft_cap, sinks): (_, _, _, bool)| {
        let (heads, kv_heads, key_dim, value_dim) = shapes[index];
        let cache = KvLayer { heads: kv_heads, key_dim, value_dim };
        let heads_of = Heads { heads, cache, rope: None, norms: false, fused: false };
        let mut case = attention_case(30 + index as u64, heads_of);
        let sinks = sinks.then(|| case.floats(1, heads));
        let Some(Op::Attention { attention, .. }) = case.program.nodes.last_mut().map(|node| &mut node.op)
        else {
            panic!("it ends with attention")
        };
        *attention = Attention { window, chunk, soft_cap, sinks, ..*attention };
        case
    };
    // Each with two shapes, and in halves where there are units for them.
    for (kind, options) in options.into_iter().enumerate() {
        for index in [kind % 4, (kind + 1) % 4] {
            let kv = [KvType::F16, KvType::Q8_0, KvType::F32][(index + kind) % 3];
            compare(&gpu, case(index, options), kv, &batches);
            if half_units(&gpu.info) {
                compare_in(Arithmetic::F16, &gpu, case(index, options), KvType::F16, &batches);
            }
        }
    }
}

#[test]
fn logits_are_mapped_in_turns_too() {
    let gpu = gpu();
    let (file, mut program) = Case::new(1, 40).finish();
    let plain = program.clone();
    for map in [Map::Scale(0.5), Map::SoftCap(1.5)] {
        let op = Op::Map { map, x: program.logits };
        program.nodes.push(Node { op, labels: vec!["map".to_string()], layer: None });
    }
    let rows: Vec<_> = rows(9).iter().map(|(sequence, position)| (*sequence, *position, 3, true)).collect();
    let batch = batch(&rows, 2, OPTIONS.pages);
    for logits_rows in [None, Some(4)] {
        let options = Options { logits_rows, ..OPTIONS };
        let mut unmapped = executor(&gpu, &file, &plain, options);
        let mut mapped = executor(&gpu, &file, &program, options);
        unmapped.step(&batch, &mut ()).unwrap();
        mapped.step(&batch, &mut ()).unwrap();
        for row in 0..rows.len() {
            for (x, found) in unmapped.logits(row).iter().zip(mapped.logits(row)) {
                let expected = gleed_model::arithmetic::soft_cap(x * 0.5, 1.5);
                assert!((found - expected).abs() < 1e-6, "row {row}: {found} for {expected}");
            }
        }
    }
}

/// A model whose logits show what attention wrote.
fn attention_model(seed: u64, heads: Heads, context: usize) -> (Arc<Gguf>, Program) {
    let mut case = attention_case(seed, heads);
    case.program.context = context;
    let input = case.program.nodes.last().unwrap().op.outputs()[0];
    let out = case.buffer("seen", 3);
    let weight = case.floats(3, input.width);
    case.push(Op::Linear { parts: vec![Projection { weight, bias: None }], input, out });
    case.push(Op::Add { x: View { buffer: 0, offset: 0, width: 3 }, y: out });
    case.finish()
}

/// The logits of rows `(sequence, position)` in the order of the batches.
fn logits_of(
    gpu: &Gpu,
    (file, program): &(Arc<Gguf>, Program),
    options: Options,
    batches: &[Vec<(usize, usize)>],
) -> Vec<((usize, usize), Vec<u32>)> {
    let mut executor = executor(gpu, file, program, options);
    let mut found = Vec::new();
    for places in batches {
        let row = |&(sequence, position): &(usize, usize)| {
            (sequence, position, ((7 * position + position / 29 + sequence) % TOKENS) as u32, true)
        };
        executor
            .step(&batch(&places.iter().map(row).collect::<Vec<_>>(), 6, options.pages), &mut ())
            .unwrap();
        let logits = |(index, place): (usize, &(usize, usize))| (*place, bits(executor.logits(index)));
        found.extend(places.iter().enumerate().map(logits));
    }
    found
}

/// However rows are cut into workgroups, by company and by how far they look back, their bits are the same.
#[test]
fn attention_is_the_same_bits_however_it_is_cut() {
    let gpu = gpu();
    // More than the spans that one row may have without being split.
    let end = 64 * 18 + 5;
    let positions = |range: std::ops::Range<usize>| range.map(|position| (0, position));
    let others = |position: usize| (1..6).map(move |sequence| (sequence, position));
    let chunks = |range: std::ops::Range<usize>, most: usize| {
        let (start, end) = (range.start, range.end);
        range.step_by(most).map(move |at| positions(at.max(start)..end.min(at + most)).collect::<Vec<_>>())
    };
    let many: Vec<Vec<_>> = chunks(0..end, 300).collect();
    // So many at the beginning that they are computed one by one; then some rows at once, a few of them left over, where
    // they look far back.
    let some: Vec<Vec<_>> =
        chunks(0..100, 100).chain(chunks(100..900, 300)).chain(chunks(900..end, 37)).collect();
    // One by one from before the border of splitting; beside others; and so many that none is split.
    let mut single: Vec<Vec<_>> = chunks(0..960, 320).collect();
    single.extend(chunks(960..1040, 1));
    single.extend(
        (1040..1060)
            .map(|position| positions(position..position + 1).chain(others(position - 1040)).collect()),
    );
    single.extend(chunks(1060..end, 3));
    let mut beside: Vec<Vec<_>> = (0..20).map(|position| others(position).collect()).collect();
    beside.extend(chunks(0..end, 311));
    for (index, (heads, kv_heads, key_dim, value_dim)) in
        [(4, 1, 128, 128), (1, 1, 20, 260), (5, 1, 64, 40), (1, 1, 260, 70)].into_iter().enumerate()
    {
        let cache = KvLayer { heads: kv_heads, key_dim, value_dim };
        let rope = Some((key_dim, Pairing::SplitHalf));
        let heads = Heads { heads, cache, rope, norms: true, fused: true };
        let kv = [KvType::F16, KvType::F32, KvType::Q8_0, KvType::F16][index];
        let model = attention_model(90 + index as u64, heads, 2048);
        let options = Options { kv, max_rows: 320, pages: 6 * 19, ..OPTIONS };
        let truth: HashMap<_, _> = logits_of(&gpu, &model, options, &many).into_iter().collect();
        assert_eq!(truth.len(), end);
        let mut strangers = HashMap::new();
        for batches in [&some, &single, &beside] {
            for (place, logits) in logits_of(&gpu, &model, options, batches) {
                let expected = if place.0 == 0 {
                    &truth[&place]
                } else {
                    strangers.entry(place).or_insert(logits.clone())
                };
                assert!(logits == *expected, "kv {kv}, {heads:?}: row {place:?}");
            }
        }
        assert_eq!(strangers.len(), 100);
    }
}

/// A row that looks back over more spans than are merged at once is the same bits as beside others.
#[test]
fn more_spans_are_merged_than_at_once() {
    let gpu = gpu();
    let cache = KvLayer { heads: 1, key_dim: 4, value_dim: 3 };
    let heads = Heads { heads: 1, cache, rope: Some((4, Pairing::SplitHalf)), norms: false, fused: true };
    let end = 64 * 257 + 3;
    let model = attention_model(7, heads, end);
    let options = Options { kv: KvType::F32, max_rows: 3000, pages: 6 * 258, ..OPTIONS };
    let chunks = |range: std::ops::Range<usize>, most: usize| {
        let end = range.end;
        range.step_by(most).map(move |at| (at..end.min(at + most)).map(|position| (0, position)).collect())
    };
    let many: Vec<Vec<_>> = chunks(0..end, 3000).collect();
    let mut single: Vec<Vec<_>> = chunks(0..end - 10, 3000).collect();
    single.extend(chunks(end - 10..end, 1));
    assert_eq!(logits_of(&gpu, &model, options, &many), logits_of(&gpu, &model, options, &single));
}
