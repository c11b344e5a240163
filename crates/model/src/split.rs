//! Cuts a program in two before a layer, so that two devices can each run one half.
//!
//! The first half ends without logits; the second begins with an input op that brings the buffers which are
//! still needed. Both have only their own weights and caches, but number the buffers as the whole does, so
//! that a view means the same in all three.

use std::collections::{HashMap, HashSet};

use crate::operands::Operand;
use crate::program::{Buffer, Node, Op, Program, View};

/// The halves of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Halves {
    /// Everything before the layer.
    pub first: Program,
    /// The layer and everything after it, behind an [`Op::Input`].
    pub second: Program,
}

/// Cuts a program before the first op of a layer; `None` where there is no such layer, or nothing before it, or where
/// the second half would read keys and values that the first one wrote: each device has its own.
pub fn split(program: &Program, layer: usize) -> Option<Halves> {
    let (first, second) = program.nodes.split_at(cut_before(program, layer)?);
    let whole = |buffer: usize| View { buffer, offset: 0, width: program.buffers[buffer].width };
    let views = (0..program.buffers.len()).filter(|b| is_live(second, *b)).map(whole).collect();
    let input = Node { op: Op::Input { views }, labels: vec!["input".to_string()], layer: None };
    let nothing = View { width: 0, ..program.logits };
    Some(Halves {
        first: part(program, first.to_vec(), &input.op, nothing),
        second: part(program, [std::slice::from_ref(&input), second].concat(), &input.op, program.logits),
    })
}

/// The layers before which a program can be cut.
pub fn cuts(program: &Program) -> impl Iterator<Item = usize> {
    (0..program.layers()).filter(|layer| cut_before(program, *layer).is_some())
}

/// The node that the second half begins with.
fn cut_before(program: &Program, layer: usize) -> Option<usize> {
    let cut = program.nodes.iter().position(|node| node.layer == Some(layer)).filter(|cut| *cut > 0)?;
    let (first, second) = program.nodes.split_at(cut);
    caches(first).is_disjoint(&caches(second)).then_some(cut)
}

/// The caches that some nodes touch.
fn caches(nodes: &[Node]) -> HashSet<usize> {
    let mut found = HashSet::new();
    for Node { op, .. } in nodes {
        op.each_operand(&mut |operand| {
            if let Operand::Cache(cache, _) = operand {
                found.insert(*cache);
            }
        });
    }
    found
}

/// Whether some of a buffer is read before it is written.
fn is_live(nodes: &[Node], buffer: usize) -> bool {
    let mut written: Vec<View> = Vec::new();
    for Node { op, .. } in nodes {
        let mut reads = op.inputs().into_iter().filter(|view| view.buffer == buffer);
        if reads.any(|read| !written.iter().any(|view| view.covers(read))) {
            return true;
        }
        written.extend(op.outputs().into_iter().filter(|view| view.buffer == buffer));
    }
    false
}

/// Some nodes of a program as a program of their own. Buffers that neither they nor what is handed over use
/// have no columns.
fn part(program: &Program, mut nodes: Vec<Node>, handed: &Op, logits: View) -> Program {
    let (mut weights, mut caches, mut states) = (Numbers::default(), Numbers::default(), Numbers::default());
    let mut used = vec![false; program.buffers.len()];
    handed.outputs().iter().for_each(|view| used[view.buffer] = true);
    for Node { op, .. } in &mut nodes {
        op.each_operand_mut(&mut |operand| match operand {
            Operand::Weight(weight, _) => weights.renumber(weight),
            Operand::Cache(cache, _) => caches.renumber(cache),
            Operand::State(state, _) => states.renumber(state),
            Operand::View(view, _) => used[view.buffer] = true,
            // Both halves have all rotary embeddings.
            Operand::Rope(_) => {}
        });
    }
    let buffer = |(buffer, used): (&Buffer, bool)| Buffer {
        width: if used { buffer.width } else { 0 },
        ..buffer.clone()
    };
    Program {
        buffers: program.buffers.iter().zip(used).map(buffer).collect(),
        weights: weights.old.iter().map(|id| program.weights[*id].clone()).collect(),
        nodes,
        caches: caches.old.iter().map(|id| program.caches[*id]).collect(),
        states: states.old.iter().map(|id| program.states[*id]).collect(),
        ropes: program.ropes.clone(),
        // Both halves count all of them, so that a batch means the same to both.
        adapters: program.adapters.clone(),
        output: program.output,
        logits,
        vocabulary: program.vocabulary,
        context: program.context,
    }
}

/// New numbers for what is used, in the order of its first use.
#[derive(Default)]
struct Numbers {
    new: HashMap<usize, usize>,
    old: Vec<usize>,
}

impl Numbers {
    fn renumber(&mut self, number: &mut usize) {
        *number = *self.new.entry(*number).or_insert_with(|| {
            self.old.push(*number);
            self.old.len() - 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::{Rules, fuse};
    use crate::shapes::Shape;
    use crate::verify::{verify, verify_flow};

    const SHAPES: [&str; 5] = ["llama3.2-1b", "tinyllama-1.1b", "qwen2.5-0.5b", "qwen3-0.6b", "gpt2-124m"];

    fn program(shape: &str, rules: Rules) -> Program {
        fuse(&Shape::find(shape).unwrap().model().unwrap().program, rules)
    }

    /// What is printed of each node, without its number.
    fn lines(program: &Program) -> Vec<String> {
        program.to_string().lines().map(|line| line[4..].to_string()).collect()
    }

    #[test]
    fn the_halves_are_sound_and_together_the_whole() {
        for shape in SHAPES {
            for rules in [Rules::NONE, Rules::ALL] {
                let whole = program(shape, rules);
                assert!(whole.layers() > 10);
                for layer in 0..whole.layers() {
                    let Halves { first, second } = split(&whole, layer).unwrap();
                    assert_eq!((verify(&first), verify(&second)), (Ok(()), Ok(())), "{shape} {layer}");
                    assert_eq!(
                        (verify_flow(&first), verify_flow(&second)),
                        (Ok(()), Ok(())),
                        "{shape} {layer}"
                    );
                    // The same ops on the same buffers, weights and heads, by name.
                    let both = [lines(&first), lines(&second)[1..].to_vec()].concat();
                    assert!(both == lines(&whole), "{shape} {layer}");
                    assert_eq!([&first.caches[..], &second.caches[..]].concat(), whole.caches);
                    assert_eq!(first.caches.len(), layer);
                }
            }
        }
    }

    #[test]
    fn a_weight_is_in_the_half_that_uses_it() {
        for shape in SHAPES {
            let whole = program(shape, Rules::ALL);
            for layer in 0..whole.layers() {
                let Halves { first, second } = split(&whole, layer).unwrap();
                let shared: Vec<_> = first.weights.iter().filter(|w| second.weights.contains(w)).collect();
                assert!(shared.iter().all(|w| w.name == "token_embd.weight"), "{shape}: {shared:?}");
                let count = first.weights.len() + second.weights.len();
                assert_eq!(count, whole.weights.len() + shared.len(), "{shape} {layer}");
                let layer_of =
                    |name: &str| name.strip_prefix("blk.")?.split('.').next()?.parse::<usize>().ok();
                assert!(first.weights.iter().all(|w| layer_of(&w.name).is_none_or(|of| of < layer)));
                assert!(second.weights.iter().all(|w| layer_of(&w.name).is_none_or(|of| of >= layer)));
            }
        }
    }

    #[test]
    fn only_what_is_needed_is_handed_over() {
        for shape in SHAPES {
            let names = |rules, layer| {
                let Halves { first, second } = split(&program(shape, rules), layer).unwrap();
                for view in second.inputs() {
                    let width = |half: &Program| half.buffers[view.buffer].width;
                    assert_eq!((width(&first), width(&second)), (view.width, view.width));
                }
                second.inputs().iter().map(|view| second.buffers[view.buffer].name).collect::<Vec<_>>()
            };
            assert_eq!(names(Rules::NONE, 0), ["x"], "{shape}");
            assert_eq!(names(Rules::NONE, 3), ["x"], "{shape}");
            assert_eq!(names(Rules::ALL, 0), ["x"], "{shape}");
            // The residual and what the layer's first op will add to it.
            assert_eq!(names(Rules::ALL, 3), ["x", "y"], "{shape}");
        }
    }

    #[test]
    fn the_first_half_has_no_room_for_logits() {
        let Halves { first, second } = split(&program("qwen3-0.6b", Rules::ALL), 5).unwrap();
        let width = |half: &Program| half.buffers.iter().find(|b| b.name == "logits").unwrap().width;
        assert_eq!((width(&first), first.logits.width), (0, 0));
        assert_eq!((width(&second), second.logits.width), (second.vocabulary, second.vocabulary));
    }

    #[test]
    fn a_half_can_be_split_again() {
        let whole = program("llama3.2-1b", Rules::ALL);
        let late = split(&whole, 9).unwrap().second;
        let again = split(&split(&whole, 4).unwrap().second, 9).unwrap();
        assert_eq!(again.second, late);
        assert_eq!(verify(&again.first), Ok(()));
        assert_eq!(split(&late, 4), None, "it begins later");
    }

    #[test]
    fn there_is_nothing_to_split_where_there_is_no_layer() {
        let whole = program("gpt2-124m", Rules::ALL);
        assert_eq!(whole.layers(), 12);
        assert_eq!(split(&whole, 12), None);
        assert_eq!(split(&whole, usize::MAX), None);
    }
}
