//! Attention over contexts of several spans, by itself: whatever the batch, the threads, the instruction
//! set and the way the work is cut, it writes what the reference writes, bit for bit.

use std::sync::Arc;

use crate::common::{Random, batch, bits, cpu, file};
use gleed_cpu::{Cpu, Isa, Options};
use gleed_gguf::{Format, Gguf, Metadata};
use gleed_model::arithmetic::{PAGE, SPAN};
use gleed_model::groups::NO_PAGE;
use gleed_model::program::{Attention, Buffer, Indexer, KvLayer, Node, Op, Output, Program, View, Weight};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Reference, Row, StepError, reference};

const CONTEXT: usize = 2 * SPAN + 70;
const PAGES: usize = 2 * CONTEXT.div_ceil(PAGE);
const MAX_ROWS: usize = CONTEXT;

/// Rows of a sequence that grows by one row in each step of another.
const BESIDE: usize = 16;

/// Query heads, key heads, key and value size.
#[derive(Debug, Clone, Copy)]
struct Shape(usize, usize, usize, usize);

/// Shared key heads and not, sizes that are no multiple of the lanes, more query heads than run side by side.
const SHAPES: [Shape; 5] = [
    Shape(4, 2, 12, 20),
    Shape(3, 3, 40, 16),
    Shape(6, 2, 32, 80),
    Shape(7, 1, 24, 8),
    Shape(16, 1, 144, 128),
];

/// What attention may have beside all positions: later ones, a window, chunks, a soft cap, slopes, sinks, and a
/// number of positions that are chosen.
#[derive(Debug, Clone, Copy, Default)]
struct Extras {
    both_ways: bool,
    window: Option<usize>,
    chunk: Option<usize>,
    soft_cap: Option<f32>,
    alibi: Option<f32>,
    sinks: bool,
    chosen: Option<usize>,
}

impl Extras {
    const NONE: Extras = Extras {
        both_ways: false,
        window: None,
        chunk: None,
        soft_cap: None,
        alibi: None,
        sinks: false,
        chosen: None,
    };
}

/// Windows and chunks inside a page, over page borders and over spans, with and without the rest.
const EXTRAS: [(Shape, Extras); 6] = [
    (SHAPES[0], Extras { window: Some(100), soft_cap: Some(1.5), sinks: true, ..Extras::NONE }),
    (SHAPES[1], Extras { window: Some(1), sinks: true, alibi: Some(8.0), ..Extras::NONE }),
    (SHAPES[2], Extras { window: Some(SPAN + 33), ..Extras::NONE }),
    (SHAPES[3], Extras { window: Some(40), soft_cap: Some(0.5), ..Extras::NONE }),
    (SHAPES[0], Extras { chunk: Some(29), sinks: true, ..Extras::NONE }),
    (SHAPES[2], Extras { chunk: Some(SPAN + 21), ..Extras::NONE }),
];

/// Fewer chosen positions than spans have pages, so that some have none, and more than a page has.
const CHOSEN: [(Shape, Extras); 2] = [
    (SHAPES[3], Extras { chosen: Some(3), ..Extras::NONE }),
    (SHAPES[4], Extras { chosen: Some(150), sinks: true, ..Extras::NONE }),
];

/// Both ways over all positions, with windows of both parities, and with slopes.
const BOTH_WAYS: [(Shape, Extras); 4] = [
    (SHAPES[0], Extras { both_ways: true, ..Extras::NONE }),
    (SHAPES[1], Extras { both_ways: true, alibi: Some(8.0), ..Extras::NONE }),
    (SHAPES[2], Extras { both_ways: true, window: Some(2 * SPAN + 11), ..Extras::NONE }),
    (SHAPES[3], Extras { both_ways: true, window: Some(90), alibi: Some(4.0), ..Extras::NONE }),
];

/// Embeds tokens as queries, keys and values, and attends. Those of the last token are NaN.
fn program(random: &mut Random, shape: Shape, extras: Extras) -> (Arc<Gguf>, Program) {
    let Shape(heads, key_heads, key_dim, value_dim) = shape;
    let Extras { both_ways, window, chunk, soft_cap, alibi, sinks, chosen } = extras;
    let widths = [heads * key_dim, key_heads * key_dim, key_heads * value_dim];
    let (width, out, tokens) = (widths.iter().sum(), heads * value_dim, heads * value_dim);
    let mut values = random.units(tokens * width);
    values[(tokens - 1) * width..].fill(f32::NAN);
    let data = values.iter().flat_map(|x| (2.0 * x).to_le_bytes()).collect();
    let view = |buffer, offset, width| View { buffer, offset, width };
    let all_chosen = view(2, 0, chosen.unwrap_or(1));
    let mut ops = vec![
        Op::Embed { table: 0, out: view(0, 0, width) },
        Op::KvWrite {
            cache: 0,
            key: view(0, widths[0], widths[1]),
            value: view(0, widths[0] + widths[1], widths[2]),
        },
        Op::Attention {
            attention: Attention {
                cache: 0,
                heads,
                scale: 0.4,
                causal: !both_ways,
                window,
                chunk,
                soft_cap,
                alibi,
                sinks: sinks.then_some(1),
                chosen: chosen.map(|_| all_chosen),
            },
            query: view(0, 0, widths[0]),
            out: view(1, 0, out),
        },
    ];
    if chosen.is_some() {
        // The keys and queries of attention are those of the indexer.
        let indexer = Indexer { cache: 0, heads };
        let (query, weights) = (view(0, 0, widths[0]), view(0, widths[0], heads));
        ops.insert(2, Op::Choose { indexer, query, weights, out: all_chosen });
    }
    let program = Program {
        buffers: [("x", width), ("out", out), ("chosen", all_chosen.width)]
            .map(|(name, width)| Buffer { name, width })
            .to_vec(),
        weights: [("table", tokens, width), ("sinks", 1, heads)]
            .map(|(name, rows, columns)| Weight {
                experts: 1,
                name: name.to_string(),
                rows,
                columns,
                format: Format::F32,
            })
            .to_vec(),
        nodes: ops.into_iter().map(|op| Node { op, labels: vec![], layer: None }).collect(),
        caches: vec![KvLayer { heads: key_heads, key_dim, value_dim }],
        states: vec![],
        adapters: vec![],
        ropes: vec![],
        output: Output::Logits,
        logits: view(1, 0, out),
        vocabulary: tokens,
        context: CONTEXT,
    };
    let sinks = random.units(heads).iter().flat_map(|x| (3.0 * x).to_le_bytes()).collect();
    let tensors = [
        ("table".to_string(), vec![width, tokens], Format::F32, data),
        ("sinks".to_string(), vec![heads], Format::F32, sinks),
    ];
    (file(&Metadata::default(), &tensors), program)
}

/// The outputs of rows `(sequence, position)`; there is no gather, so all rows have one.
fn outputs(executor: &mut dyn Executor, rows: &[(usize, usize)]) -> Vec<Vec<u32>> {
    let tokens = executor.program().vocabulary - 1;
    let token = |(sequence, position): (usize, usize)| ((position * 31 + sequence * 17) % tokens) as u32;
    let rows: Vec<_> = rows.iter().map(|row| (row.0, row.1, token(*row), true)).collect();
    executor.step(&batch(&rows, 2, PAGES), &mut ()).unwrap();
    (0..rows.len()).map(|row| bits(executor.logits(row))).collect()
}

fn options(kv: KvType, threads: usize, isa: Isa) -> Options {
    Options {
        arithmetic: Arithmetic::Q8,
        kv,
        threads,
        isa: Some(isa),
        max_rows: MAX_ROWS,
        pages: PAGES,
        window_sequences: None,
        memory: None,
    }
}

fn plainly(file: &Arc<Gguf>, program: &Program, kv: KvType) -> Reference {
    let made_for = reference::Options {
        arithmetic: Arithmetic::Q8,
        rounds_to_groups: None,
        kv,
        max_rows: MAX_ROWS,
        pages: PAGES,
    };
    Reference::new(Arc::clone(file), program.clone(), made_for).unwrap()
}

/// All of sequence 0, in steps of these many rows in turn; sequence 1 grows beside it by one row a step.
fn check(cpu: &mut Cpu, truth: &[Vec<Vec<u32>>; 2], lengths: &[usize], what: &str) {
    let (mut at, mut lengths, mut beside) = (0, lengths.iter().cycle(), 0);
    while at < CONTEXT {
        let end = CONTEXT.min(at + lengths.next().unwrap());
        let mut rows: Vec<_> = (at..end).map(|position| (0, position)).collect();
        rows.push((1, beside));
        for (row, found) in rows.iter().zip(outputs(cpu, &rows)) {
            assert!(found == truth[row.0][row.1], "{what}, sequence {} position {}", row.0, row.1);
        }
        (at, beside) = (end, beside + 1);
    }
}

#[test]
fn contexts_of_several_spans() {
    let mut random = Random::new(3);
    let plain = SHAPES.map(|shape| (shape, Extras::default()));
    for (shape, extras) in plain.into_iter().chain(EXTRAS).chain(CHOSEN) {
        let (file, program) = program(&mut random, shape, extras);
        for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
            let mut reference = plainly(&file, &program, kv);
            let truth = [(0, CONTEXT), (1, BESIDE)].map(|(sequence, length)| {
                let rows: Vec<_> = (0..length).map(|position| (sequence, position)).collect();
                outputs(&mut reference, &rows)
            });
            for isa in Isa::available() {
                for (threads, lengths) in
                    [(1, &[CONTEXT - 1][..]), (2, &[257, 1, 1, 40, 2]), (8, &[530, 3, 1])]
                {
                    // Plain Rust is slow: one way is enough.
                    if isa == Isa::Portable && threads != 2 {
                        continue;
                    }
                    let mut cpu = cpu(&file, &program, options(kv, threads, isa));
                    let what = format!("{shape:?} {extras:?} {kv} {isa} {threads} threads {lengths:?}");
                    check(&mut cpu, &truth, lengths, &what);
                }
            }
        }
    }
}

#[test]
fn rows_that_see_later_ones() {
    let mut random = Random::new(5);
    let of = |sequence: usize, length: usize| (0..length).map(move |position| (sequence, position));
    for (shape, extras) in BOTH_WAYS {
        let (file, program) = program(&mut random, shape, extras);
        for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
            let mut reference = plainly(&file, &program, kv);
            // A sequence by itself, and the same in company of another: how long that is changes nothing.
            let (long, short) = (CONTEXT - 70, 45);
            let alone: Vec<_> = of(0, long).collect();
            let together: Vec<_> = of(1, short).chain(of(0, long)).collect();
            let truth = outputs(&mut reference, &alone);
            assert!(outputs(&mut reference, &together)[short..] == truth[..], "{shape:?} {extras:?} {kv}");
            for isa in Isa::available() {
                for (threads, rows) in [(1, &alone), (2, &together), (8, &together)] {
                    if isa == Isa::Portable && threads != 2 {
                        continue;
                    }
                    let mut cpu = cpu(&file, &program, options(kv, threads, isa));
                    let found = outputs(&mut cpu, rows);
                    let what = format!("{shape:?} {extras:?} {kv} {isa} {threads} threads");
                    assert!(found[rows.len() - long..] == truth[..], "{what}");
                }
            }
        }
    }
}

#[test]
fn what_a_window_has_left_is_not_read() {
    let mut random = Random::new(6);
    let (start, end) = (CONTEXT - 30, CONTEXT - 20);
    for (shape, extras) in EXTRAS {
        let (file, program) = program(&mut random, shape, extras);
        let nan = program.vocabulary as u32 - 1;
        // A chunk hides more than is given back: pages are kept for as many positions as a chunk has.
        let Extras { window, chunk, .. } = extras;
        let left = Attention { window, chunk, ..Attention::over_all(0, 1, 1.0) }.visible(start, end).start;
        let gone = (start + 1 - window.or(chunk).unwrap()) / PAGE;
        for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
            for (isa, threads) in Isa::available().zip([1, 2, 1, 2]) {
                let what = format!("{shape:?} {extras:?} {kv} {isa} {threads} threads");
                let mut cpu = cpu(&file, &program, options(kv, threads, isa));
                let prompt: Vec<_> = (0..start).map(|position| (0, position)).collect();
                outputs(&mut cpu, &prompt);
                let rows: Vec<_> = (start..end).map(|position| (0, position)).collect();
                let truth = outputs(&mut cpu, &rows);
                assert!(truth.iter().flatten().all(|x| f32::from_bits(*x).is_finite()), "{what}");
                // Poison at all positions before the window, also in the page that it begins in.
                let poison: Vec<_> = (0..left).map(|position| (0, position, nan, true)).collect();
                cpu.step(&batch(&poison, 2, PAGES), &mut ()).unwrap();
                assert!(cpu.logits(left - 1).iter().all(|x| x.is_nan()), "{what}");
                assert!(outputs(&mut cpu, &rows) == truth, "{what}");
                for row in &rows {
                    assert!(outputs(&mut cpu, &[*row]) == [truth[row.1 - start].clone()], "{what} {row:?}");
                }
                // Pages before the window that are not there at all, and one too many of them.
                let table: Vec<u32> = batch(&[], 2, PAGES).pages(0, 0).to_vec();
                let mut without = |missing: usize| {
                    let mut window = table.clone();
                    window[..missing].fill(NO_PAGE);
                    let mut batch = Batch::default();
                    batch.add_tables([&table[..], &window]);
                    let token = (start * 31 % (program.vocabulary - 1)) as u32;
                    batch.push(Row { table: 0, position: start as u32, token, wants_logits: true });
                    cpu.step(&batch, &mut ()).map(|()| bits(cpu.logits(0)))
                };
                assert_eq!(without(gone).as_ref(), Ok(&truth[0]), "{what}");
                let refused = StepError::NoPage { row: 0, position: start as u32 };
                assert_eq!(without(gone + 1), Err(refused), "{what}");
            }
        }
    }
}

/// What a row sees is a matter of rows and positions that can be counted.
#[test]
fn visible_positions() {
    let attention = |causal, window| Attention { causal, window, ..Attention::over_all(0, 1, 1.0) };
    for window in [None, Some(1), Some(2), Some(7), Some(8), Some(1000)] {
        for length in [1, 2, 9, 30] {
            for own in 0..length {
                let sees = |causal: bool, other: usize| match (causal, window) {
                    (true, None) => other <= own,
                    (true, Some(window)) => other <= own && own - other < window,
                    (false, None) => true,
                    (false, Some(window)) => own.abs_diff(other) <= window / 2,
                };
                for causal in [true, false] {
                    let expected: Vec<_> = (0..length).filter(|other| sees(causal, *other)).collect();
                    let found: Vec<_> = attention(causal, window).visible(own, length).collect();
                    assert_eq!(found, expected, "{own} of {length}, {causal} {window:?}");
                }
            }
        }
    }
}

#[test]
fn visible_positions_of_chunks() {
    for (window, chunk) in [(None, 1), (None, 5), (None, 30), (Some(3), 5), (Some(9), 5)] {
        let attention = Attention { window, chunk: Some(chunk), ..Attention::over_all(0, 1, 1.0) };
        for own in 0..23 {
            let sees = |other: &usize| {
                *other <= own
                    && other / chunk == own / chunk
                    && window.is_none_or(|window| own - other < window)
            };
            let expected: Vec<_> = (0..23).filter(sees).collect();
            assert_eq!(attention.visible(own, 23).collect::<Vec<_>>(), expected, "{own}, {window:?} {chunk}");
        }
    }
}

#[test]
fn few_rows_of_great_depth_are_split_over_spans() {
    let (file, program) = program(&mut Random::new(4), SHAPES[0], Extras::default());
    for (threads, expected) in [(1, 0), (2, 1), (8, 1)] {
        let mut cpu = cpu(&file, &program, options(KvType::F16, threads, Isa::detect()));
        let steps = |cpu: &mut Cpu, rows: std::ops::Range<usize>| {
            let before = cpu.attention_splits();
            outputs(cpu, &rows.map(|position| (0, position)).collect::<Vec<_>>());
            cpu.attention_splits() - before
        };
        // A prompt has rows for all threads; up to the end of the first span there is nothing to split.
        assert_eq!(steps(&mut cpu, 0..SPAN - 1), 0);
        assert_eq!(steps(&mut cpu, SPAN - 1..SPAN), 0);
        assert_eq!(steps(&mut cpu, SPAN..SPAN + 1), expected, "{threads} threads");
        assert_eq!(steps(&mut cpu, SPAN + 1..SPAN + 6), expected, "{threads} threads");
        assert_eq!(steps(&mut cpu, SPAN + 6..SPAN + 200), 0);
    }
}
