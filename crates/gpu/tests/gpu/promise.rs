//! The promise: a row's result depends on that row alone.
//!
//! For every family and KV type the logits of every row are the same bits in one step, in chunks, alone,
//! beside other sequences, of the fused and the plain program, and close to the reference's. The longest
//! sequence has more positions than a span, so that attention is split over spans and merged.

use std::sync::Arc;

use crate::common::{FLOATS, RECURRENT, Sequences, bits, executor, gpu, test_families, tiny};
use gleed_gguf::Format;
use gleed_gpu::Options;
use gleed_gpu::linear::half_units;
use gleed_model::arithmetic::SPAN;
use gleed_model::compare::LogitsDifference;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, KvType, Reference, reference};

/// More than a span, some rows, one row.
const SEQUENCES: Sequences = Sequences { lengths: [SPAN + 21, 9, 1], pages: PAGES };
const PAGES: usize = 15;

/// The same without a span to spare: recurrent layers know none, and Gemma 3n and 4 attend as others do, and
/// where positions are chosen there are no spans.
const SHORT: Sequences = Sequences { lengths: [75, 9, 1], pages: PAGES };
const OPTIONS: Options = Options {
    arithmetic: Arithmetic::F32,
    kv: KvType::F16,
    max_rows: 300,
    pages: PAGES,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// What the logits of a whole model may be off, as a share of the largest true one.
const TOLERANCE: f32 = 1e-5;

/// How far logits may be apart, in nats, where activations are rounded to 8 bits too: one that becomes the other
/// of two integers moves everything after it. Ops by themselves are held to far less.
const ROUNDED_DIVERGENCE: f64 = 2e-4;

/// The same where they are rounded to halves, whose steps are eight times as small: divergences go by squares.
const HALVED_DIVERGENCE: f64 = ROUNDED_DIVERGENCE / 64.0;

fn check_family(family: &str) {
    let short = RECURRENT.contains(&family) || ["gemma3n", "gemma4", "glm_dsa"].contains(&family);
    let sequences = if short { SHORT } else { SEQUENCES };
    let mixed =
        [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::Q4_1, Format::F32, Format::Q4_0];
    let integers = [Format::Q4_K, Format::Q8_0, Format::Q6_K, Format::Q4_K, Format::Q4_1, Format::Q5_0];
    // What matrices, keys and values are stored as has nothing to do with the family, and each format has kernels of its
    // own, which a software GPU takes long to compile: Llama has them all.
    let (mixed, integers) =
        if family == "llama" { (&mixed[..], &integers[..]) } else { (FLOATS, &[Format::Q8_0][..]) };
    let gpu = gpu();
    let stored = [KvType::F16, KvType::Q8_0].into_iter().filter(|kv| *kv == KvType::F16 || family == "llama");
    let in_integers = stored.map(|kv| (Arithmetic::Q8, integers, kv));
    let in_halves = half_units(&gpu.info).then_some((Arithmetic::F16, mixed, KvType::F16));
    let all = [(Arithmetic::F32, mixed, KvType::F32)].into_iter().chain(in_halves).chain(in_integers);
    // Its scores are larger than what the tolerance of floats is for, and in floats it is like its sister.
    let is_held = |arithmetic| family != "deepseek2_wide" || arithmetic != Arithmetic::F32;
    for (arithmetic, formats, kv) in all.filter(|(arithmetic, ..)| is_held(*arithmetic)) {
        let (file, plain) = tiny(family, formats, 5);
        let fused = fuse(&plain, Rules::ALL);
        let options = Options { arithmetic, kv, ..OPTIONS };
        let mut all_at_once = executor(&gpu, &file, &fused, options);
        let same = sequences.run(&mut all_at_once, &sequences.whole(), 1);
        let on_units = |rows: usize| all_at_once.layers_on_matrix_units(rows) > 0;
        let should = arithmetic == Arithmetic::F16;
        assert_eq!([sequences.lengths.iter().sum(), 1].map(on_units), [should; 2]);
        // In halves attention is on the units too, with options or without, but for that over chosen positions.
        let is_plain = |text: &str| ["QUADS_EACH", "VALUE_PAIRS"].iter().any(|name| text.contains(name));
        let has_plain = all_at_once.kernel_texts().any(is_plain);
        assert!(!should || !has_plain || family == "glm_dsa", "{family} attends without the units");

        let (rounds_to_groups, max_rows) = ((arithmetic == Arithmetic::Q8).then_some(0), options.max_rows);
        let order = if arithmetic == Arithmetic::F16 { Arithmetic::F16 } else { Arithmetic::F32 };
        let made_for = reference::Options { arithmetic: order, rounds_to_groups, kv, max_rows, pages: PAGES };
        let reference = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
        let mut reference = reference.with_slots(OPTIONS.slots).unwrap();
        let mut difference = LogitsDifference::default();
        for (place, truth) in sequences.run(&mut reference, &sequences.whole(), 1) {
            difference.add(&same[&place], &truth);
        }
        let most = match arithmetic {
            Arithmetic::Q8 => ROUNDED_DIVERGENCE,
            Arithmetic::F16 => HALVED_DIVERGENCE,
            Arithmetic::F32 => f64::INFINITY,
        };
        let divergence = difference.divergence(&plain);
        assert!(divergence < most, "{family} {arithmetic} kv {kv}: {divergence}, {difference:?}");
        let relative = difference.difference.relative;
        assert!(
            arithmetic != Arithmetic::F32 || relative < TOLERANCE,
            "{family} kv {kv}: {relative}, {difference:?}"
        );

        // Single rows, too, at the beginning and beyond a span; all programs and lists of rows are Llama's.
        let chunks = [1, 7, 53, 1, 2, 1, 3, SPAN - 68, 1, 2, 1];
        let schedules = [
            (&fused, sequences.chunks(&chunks), 2, None),
            (&plain, sequences.chunks(&[97, 2]), 1, None),
            (&fused, sequences.one_at_a_time(sequences.lengths[0] - 24), 1, None),
            // Logits in three turns, the last one of fewer rows.
            (&fused, sequences.whole(), 5, Some(23)),
        ];
        let count = if family == "llama" { schedules.len() } else { 2 };
        for (program, schedule, every, logits_rows) in schedules.into_iter().take(count) {
            let options = Options { logits_rows, ..options };
            let mut executor = executor(&gpu, &file, program, options);
            let found = sequences.run(&mut executor, &schedule, every);
            for (place, logits) in &found {
                let equal = bits(logits) == bits(&same[place]);
                assert!(equal, "{family} kv {kv}, row {place:?} of {schedule:?}");
            }
        }
    }
}

test_families!(check_family: llama, qwen3, gpt2, gemma2, gemma3n, gemma4, gpt_oss, deepseek2, deepseek2_wide, llama4, step35, glm_dsa, mamba2, qwen35, rwkv7);
