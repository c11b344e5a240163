//! A model on two devices, one of which fails when the other has computed its half of a step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleed_engine::{Engine, Error, Sequence};
use gleed_model::program::{Node, Op};
use gleed_model::{Executor, Joined, StepError};
use gleed_testing::{Log, Mock};

const VOCABULARY: usize = 50;
const PAGES: usize = 6;

fn half(op: Op, context: usize) -> Mock {
    let node = Node { op, labels: vec![], layer: None };
    Mock::new(VOCABULARY, context, 128, PAGES).with_nodes(vec![node])
}

/// An engine on two mocks, whose second half knows this many positions, and the logs of both.
fn engine(context: usize) -> (Engine, [Arc<Log>; 2]) {
    let first = half(Op::Gather { views: vec![] }, 512);
    let second = half(Op::Input { views: vec![] }, context);
    let logs = [first.log(), second.log()];
    let program = first.program().clone();
    (Engine::new(Box::new(Joined::new(program, first, second))), logs)
}

#[test]
fn a_step_that_fails_half_way_leaves_every_sequence_as_it_was() {
    for failing in [0, 1] {
        let (mut engine, logs) = engine(512);
        let mut trunk = Sequence::default();
        engine.prefill(&mut trunk, &[7; 70]).unwrap();
        // One goes on in a page that is shared, another begins.
        let (mut fork, mut fresh) = (trunk.fork(), Sequence::default());
        fork.extend(&[1, 2, 3]);
        fresh.extend(&[4, 5]);
        let (pages, free) = (fork.pages().to_vec(), engine.pages().free());
        logs[failing].fail.store(true, Ordering::Relaxed);
        let error = engine.step_many(&mut [&mut fork, &mut fresh]).unwrap_err();
        assert!(matches!(&error, Error::Step(error) if !error.is_refusal()), "{error:?}");
        assert_eq!(
            logs[0].steps.load(Ordering::Relaxed),
            1 + failing,
            "the first half was computed, or failed"
        );
        assert_eq!((fork.pages(), fork.computed(), fork.pending()), (&pages[..], 70, &[1, 2, 3][..]));
        assert_eq!((fresh.pages().len(), fresh.computed(), engine.pages().free()), (0, 0, free));
        // The trunk never saw it, and the same step again is right.
        engine.step_many(&mut [&mut fork, &mut fresh]).unwrap();
        let forked = Mock::expected(&[&[7; 70][..], &[1, 2, 3]].concat(), VOCABULARY);
        assert_eq!(engine.logits(0), forked);
        assert_eq!(engine.logits(1), Mock::expected(&[4, 5], VOCABULARY));
        engine.prefill(&mut trunk, &[9]).unwrap();
        assert_eq!(engine.logits(0), Mock::expected(&[&[7; 70][..], &[9]].concat(), VOCABULARY));
    }
}

#[test]
fn what_the_second_half_refuses_is_no_refusal_of_the_step() {
    let (mut engine, logs) = engine(32);
    let mut sequence = Sequence::default();
    let error = engine.prefill(&mut sequence, &[1; 40]).unwrap_err();
    assert_eq!(logs[0].steps.load(Ordering::Relaxed), 1, "the first half was computed");
    let Error::Step(StepError::Device(message)) = &error else { panic!("{error:?}") };
    assert!(message.contains("position 32 is past the context of 32"), "{message}");
    assert_eq!((sequence.tokens().len(), engine.pages().free()), (0, PAGES));
}
