//! Work in ranges, one for each thread. What a range computes depends on nothing outside it, so the number of threads
//! changes no bit.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

/// Multiply-adds for which a thread is worth starting.
const WORTH: usize = 1 << 20;

/// How many threads may work at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threads(pub usize);

impl Threads {
    /// As many as the machine runs at once.
    pub(super) fn all() -> Threads {
        Threads(thread::available_parallelism().map_or(1, NonZero::get))
    }

    /// Computes `0..count` in ranges and returns what each gave, in order. `work` is the multiply-adds of all.
    pub(super) fn run<T: Send>(
        self,
        count: usize,
        work: usize,
        range: impl Fn(Range<usize>) -> T + Sync,
    ) -> Vec<T> {
        let threads = self.0.min(work / WORTH).min(count).max(1);
        if threads == 1 {
            return vec![range(0..count)];
        }
        let (range, bound) = (&range, |i: usize| count * i / threads);
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads).map(|i| scope.spawn(move || range(bound(i)..bound(i + 1)))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    }
}
