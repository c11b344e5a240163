//! Two executors, each with one half of a program, as one.
//!
//! A step runs the first half over all rows, reads the activations that the second half begins with, and runs
//! that over the same rows. Each half keeps its own layers' keys and values, under the same page numbers.

use crate::batch::{Batch, check, check_states};
use crate::executor::{Buffers, Executor, Observer, StepError};
use crate::groups::{PageGroup, PageGroups};
use crate::program::{Program, View};

/// Runs the halves that [`crate::split`] makes of a program.
pub struct Joined<A, B> {
    program: Program,
    first: A,
    second: B,
    /// The page groups of the whole program.
    groups: Vec<PageGroup>,
    /// Which of them each half has, in its own order.
    of_halves: [Vec<usize>; 2],
    /// The rows of the step, with the pages of the first half.
    given: Batch,
    /// The rows of the step, with what the first half has made of them.
    handed: Batch,
}

impl<A: Executor, B: Executor> Joined<A, B> {
    /// Joins executors of both halves of a program. The first one is looked at after its last op, so it
    /// should be one for which that costs nothing.
    pub fn new(program: Program, first: A, second: B) -> Joined<A, B> {
        // The second half has one node more, which brings its inputs.
        let nodes = first.program().nodes.len() + second.program().nodes.len();
        assert!(nodes == program.nodes.len() + 1, "the executors must run the halves of the program");
        let halves = [first.page_groups(), second.page_groups()];
        let windows = PageGroups::of(&program).windows().to_vec();
        // A window has one group in each half that has caches with it.
        let of_half = |half: &[PageGroup]| -> Vec<usize> {
            half.iter().map(|group| windows.binary_search(&group.window).unwrap_or(0)).collect()
        };
        let of_halves = halves.map(of_half);
        let pages = |window: &Option<usize>| {
            let of = halves.into_iter().flatten().filter(|group| group.window == *window);
            of.map(|group| group.pages).min().unwrap_or(0)
        };
        let groups = windows.iter().map(|window| PageGroup { window: *window, pages: pages(window) });
        let (groups, given, handed) = (groups.collect(), Batch::default(), Batch::default());
        Joined { program, first, second, groups, of_halves, given, handed }
    }

    /// The executor of the first half.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// The executor of the second half.
    pub fn second(&self) -> &B {
        &self.second
    }

    /// The same, to be changed.
    pub fn second_mut(&mut self) -> &mut B {
        &mut self.second
    }

    /// The first node of the second half, as the whole program counts them.
    pub fn cut(&self) -> usize {
        self.first.program().nodes.len()
    }

    /// Runs the first half over a batch. Returns the executor of the second half and the batch for it, with
    /// which the step is completed: its node 0 brings the inputs, and all others are the program's from
    /// [`Joined::cut`] on.
    pub fn run_first(
        &mut self,
        batch: &Batch,
        observer: &mut dyn Observer,
    ) -> Result<(&mut B, &Batch), StepError> {
        check(batch, &self.program, self.max_rows(), &self.groups)?;
        check_states(batch, &self.program, self.slot_count())?;
        let [first, second] = &self.of_halves;
        self.given.copy_rows(batch, first);
        self.handed.copy_rows(batch, second);
        let (last, views) = (self.cut() - 1, self.second.program().inputs());
        let mut handing = Handing { observer, last, views, values: self.handed.inputs_mut() };
        self.first.step(&self.given, &mut handing)?;
        Ok((&mut self.second, &self.handed))
    }
}

impl<A: Executor, B: Executor> Executor for Joined<A, B> {
    fn program(&self) -> &Program {
        &self.program
    }

    fn max_rows(&self) -> usize {
        self.first.max_rows().min(self.second.max_rows())
    }

    fn page_groups(&self) -> &[PageGroup] {
        &self.groups
    }

    fn slot_count(&self) -> usize {
        // A half without recurrent layers needs no slots.
        let of = |half: &dyn Executor| (!half.program().states.is_empty()).then(|| half.slot_count());
        of(&self.first).into_iter().chain(of(&self.second)).min().unwrap_or(0)
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        let cut = self.cut();
        let (second, handed) = self.run_first(batch, observer)?;
        second.step(handed, &mut Rest { observer, cut }).map_err(StepError::half_way)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.second.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        let [first, second] = &self.of_halves;
        let of = |half: &[usize]| half.iter().position(|of| *of == group);
        if let Some(group) = of(first) {
            self.first.copy_page(group, from, to);
        }
        if let Some(group) = of(second) {
            self.second.copy_page(group, from, to);
        }
    }
}

/// Observes the first half, and reads what is handed over after its last node.
struct Handing<'a> {
    observer: &'a mut dyn Observer,
    last: usize,
    views: &'a [View],
    values: &'a mut Vec<f32>,
}

impl Observer for Handing<'_> {
    fn start(&mut self) {
        self.observer.start();
    }

    fn after(&mut self, node: usize, buffers: &dyn Buffers) {
        self.observer.after(node, buffers);
        if node == self.last {
            self.views.iter().for_each(|view| buffers.read(*view, self.values));
        }
    }
}

/// Observes the second half, which has already begun and whose first node is not the program's.
struct Rest<'a> {
    observer: &'a mut dyn Observer,
    cut: usize,
}

impl Observer for Rest<'_> {
    fn looks(&self) -> bool {
        self.observer.looks()
    }

    fn after(&mut self, node: usize, buffers: &dyn Buffers) {
        if node > 0 {
            self.observer.after(self.cut + node - 1, buffers);
        }
    }
}
