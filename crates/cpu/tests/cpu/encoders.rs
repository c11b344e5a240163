//! Models that read a text both ways: every op writes what the reference writes, and a text's vector depends on that
//! text alone, bit for bit, whatever the company, the threads and the instruction set.

use std::sync::Arc;

use crate::common::{Capture, ENCODERS, batch, bits, cpu, tiny};
use gleed_cpu::{Isa, Options};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Output, Program};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Reference, Row, StepError, reference};

/// Tokens of each text: more than a page, some, one.
const LENGTHS: [usize; 4] = [75, 9, 1, 40];
const PAGES: usize = 8;
const MAX_ROWS: usize = 128;

fn options(arithmetic: Arithmetic, kv: KvType, threads: usize, isa: Isa) -> Options {
    Options {
        arithmetic,
        kv,
        threads,
        isa: Some(isa),
        max_rows: MAX_ROWS,
        pages: PAGES,
        window_sequences: None,
        memory: None,
    }
}

/// Some texts of [`LENGTHS`] in one step, in this order.
fn texts(program: &Program, order: &[usize]) -> Batch {
    let Output::Embedding(pooling) = program.output else { panic!("not an encoder") };
    let rows: Vec<_> = order
        .iter()
        .flat_map(|&text| {
            let wanted = pooling.wanted(LENGTHS[text]);
            let token = move |position| ((position * 13 + text * 29) % 67) as u32;
            (0..LENGTHS[text]).map(move |position| (text, position, token(position), position == wanted))
        })
        .collect();
    batch(&rows, LENGTHS.len(), PAGES)
}

fn vectors(executor: &mut dyn Executor, order: &[usize]) -> Vec<Vec<u32>> {
    let batch = texts(executor.program(), order);
    executor.step(&batch, &mut ()).unwrap();
    (0..order.len()).map(|index| bits(executor.logits(index))).collect()
}

#[test]
fn a_vector_depends_on_its_text_alone() {
    let formats =
        [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::Q4_1, Format::F32, Format::Q4_0];
    for family in ENCODERS {
        let (file, plain) = tiny(family, &formats, 5);
        let fused = fuse(&plain, Rules::ALL);
        for (arithmetic, kv) in [(Arithmetic::Q8, KvType::F16), (Arithmetic::F32, KvType::F32)] {
            let made_for = reference::Options {
                arithmetic,
                rounds_to_groups: None,
                kv,
                max_rows: MAX_ROWS,
                pages: PAGES,
            };
            let mut truth = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
            let truth: Vec<_> = (0..4).map(|text| vectors(&mut truth, &[text])[0].clone()).collect();
            assert!(truth.iter().all(|vector| vector.len() == 256), "{family}");
            for isa in Isa::available() {
                for (program, threads, orders) in [
                    (&fused, 2, &[&[0, 1, 2, 3][..], &[2, 0], &[3]]),
                    (&plain, 1, &[&[3, 1], &[1], &[2, 3, 0]]),
                    (&fused, 8, &[&[1, 0, 3, 2], &[2], &[0]]),
                ] {
                    // Plain Rust is slow: one way is enough.
                    if isa == Isa::Portable && threads != 2 {
                        continue;
                    }
                    let mut cpu = cpu(&file, program, options(arithmetic, kv, threads, isa));
                    for order in orders {
                        for (text, found) in order.iter().zip(vectors(&mut cpu, order)) {
                            let what = format!("{family} {arithmetic} {isa} {threads} threads");
                            assert!(found == truth[*text], "{what}: text {text} of {order:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_op_writes_what_the_reference_writes() {
    for family in ENCODERS {
        let (file, plain) = tiny(family, &[Format::Q5_K, Format::BF16, Format::Q8_0], 3);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            let (arithmetic, kv) = (Arithmetic::Q8, KvType::Q8_0);
            let made_for = reference::Options {
                arithmetic,
                rounds_to_groups: None,
                kv,
                max_rows: MAX_ROWS,
                pages: PAGES,
            };
            let mut truth = Reference::new(Arc::clone(&file), program.clone(), made_for).unwrap();
            let mut found = cpu(&file, &program, options(arithmetic, kv, 2, Isa::detect()));
            let mut batch = texts(&program, &[1, 3]);
            // All rows may be wanted, not only the one that stands for its text.
            if program.nodes.len() == plain.nodes.len() {
                let rows: Vec<_> =
                    batch.rows().iter().map(|row| Row { wants_logits: true, ..*row }).collect();
                let mut all = texts(&program, &[]);
                rows.into_iter().for_each(|row| all.push(row));
                batch = all;
            }
            let truth = Capture::run(&program, &mut truth, &batch);
            let found = Capture::run(&program, &mut found, &batch);
            for (node, (truth, found)) in program.nodes.iter().zip(truth.iter().zip(&found)) {
                assert!(truth == found, "{family} {:?}", node.labels);
            }
        }
    }
}

#[test]
fn a_text_in_parts_is_refused() {
    let (file, program) = tiny("bert", &[Format::F32], 1);
    let mut cpu = cpu(&file, &program, options(Arithmetic::F32, KvType::F32, 1, Isa::detect()));
    let row = |text, position| (text, position, 7, true);
    let mut step = |rows: &[(usize, usize, u32, bool)]| cpu.step(&batch(rows, 2, PAGES), &mut ());
    assert_eq!(step(&[row(0, 0), row(0, 1), row(1, 0)]), Ok(()));
    // Its beginning is not there, a row between is not, another text is between.
    for (rows, wrong) in [
        (&[row(0, 2), row(0, 3)][..], 0),
        (&[row(0, 0), row(0, 2)], 1),
        (&[row(0, 0), row(1, 0), row(0, 1)], 2),
    ] {
        let error = step(rows).unwrap_err();
        assert_eq!(error, StepError::NotWhole { row: wrong, position: rows[wrong].1 as u32 });
        assert!(error.is_refusal());
    }
}
