//! The thread pool: a fork and join that costs less than a microsecond while the threads are awake.
//!
//! Between two jobs a worker spins for a bounded time, then lets others have its core for as long again as it takes to
//! wake many threads, and then parks, so that a pool costs nothing when idle and works when there are more threads than
//! cores. What a thread writes lies apart from what others do: sixteen threads that count in one place wait for each
//! other longer than a small op takes. A panic in any thread reaches the caller after all threads have finished.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread, yield_now};

use super::apart::Apart;

/// Turns of the spin loop before a thread lets others have its core: some ten to twenty microseconds, longer than the gap
/// between two ops of a step.
const SPINS: usize = 400;

/// Turns in which it does that before it parks: a few hundred microseconds, as long as a large op's slowest thread keeps
/// the others waiting, and much shorter than a scheduler's time slice. Where no other thread wants the core, waking it
/// up again takes as long as a small op for each thread.
const YIELDS: usize = 1000;

/// Waits for something without parking; `None` where that took too long.
fn soon<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for turn in 0..SPINS + YIELDS {
        if let Some(found) = look() {
            return Some(found);
        }
        if turn < SPINS {
            spin_loop();
        } else {
            yield_now();
        }
    }
    None
}

/// A job: called once on each thread with the thread's number. It lives on the caller's stack.
type Job = *const (dyn Fn(usize) + Sync);

/// What the caller tells all workers at once.
struct Call {
    /// The job; written only while no worker runs one.
    job: UnsafeCell<Option<Job>>,
    /// Counts jobs; a change tells workers that there is a new one (or that they shall stop).
    generation: AtomicUsize,
}

/// What caller and workers share.
struct State {
    call: Apart<Call>,
    stop: AtomicBool,
    /// Whether the caller has parked; workers ask after each job.
    caller_sleeps: Apart<AtomicBool>,
    /// Who that is.
    caller: Mutex<Option<Thread>>,
    /// The first worker's panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only part that is not already shareable. The caller writes it while all workers have finished,
// which it learns from their `finished`, and workers read it only after they have seen `generation` change, which the
// caller does after writing. The job itself is `Sync`.
unsafe impl Sync for State {}
// SAFETY: as above; the pointer is only followed while the caller waits for the job to end.
unsafe impl Send for State {}

/// What caller and one worker share.
#[derive(Default)]
struct Shared {
    /// The last job that it has finished.
    finished: Apart<AtomicUsize>,
    /// Whether it has parked.
    sleeps: Apart<AtomicBool>,
}

struct Worker {
    shared: Arc<Shared>,
    handle: JoinHandle<()>,
}

/// A fixed number of threads, one of which is the caller.
pub struct Pool {
    state: Arc<State>,
    workers: Vec<Worker>,
}

impl Pool {
    /// A pool of this many threads in all; with one, jobs run on the caller alone.
    pub fn new(threads: usize) -> std::io::Result<Pool> {
        let state = Arc::new(State {
            call: Apart(Call { job: UnsafeCell::new(None), generation: AtomicUsize::new(0) }),
            stop: AtomicBool::new(false),
            caller_sleeps: Apart::default(),
            caller: Mutex::new(None),
            panic: Mutex::new(None),
        });
        // Dropped when a thread cannot be started, which stops and joins those before it.
        let mut pool = Pool { state, workers: Vec::new() };
        for thread in 1..threads {
            let (state, shared) = (Arc::clone(&pool.state), Arc::new(Shared::default()));
            let own = Arc::clone(&shared);
            let handle = std::thread::Builder::new()
                .name(format!("gleed-cpu-{thread}"))
                .spawn(move || work(&state, &own, thread))?;
            pool.workers.push(Worker { shared, handle });
        }
        // Threads allocate while they start: wait until all have, so that no job does.
        pool.run(|_| {});
        Ok(pool)
    }

    /// How many threads there are, the caller among them.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls the job once on every thread, with the thread's number, and returns when all are done.
    pub fn run<F: Fn(usize) + Sync>(&mut self, job: F) {
        if self.workers.is_empty() {
            return job(0);
        }
        let state = &*self.state;
        let erased: &(dyn Fn(usize) + Sync) = &job;
        // SAFETY: only the lifetime is erased. The pointer is followed by workers between the change of
        // `generation` below and their writing it to `finished`; this function does not return or unwind
        // before all have, and `job` lives that long.
        let erased: Job =
            unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), Job>(std::ptr::from_ref(erased)) };
        // SAFETY: `&mut self` means that no other job is under way, so no worker reads this now.
        unsafe { *state.call.job.get() = Some(erased) };
        {
            let mut caller = state.caller.lock().unwrap_or_else(PoisonError::into_inner);
            let current = std::thread::current();
            if caller.as_ref().is_none_or(|known| known.id() != current.id()) {
                *caller = Some(current);
            }
        }
        let generation = state.call.generation.fetch_add(1, SeqCst).wrapping_add(1);
        self.wake();
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        self.wait(generation);
        // Taken in any case: what a worker left must not come up after a later job.
        let workers = state.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = own.err().or(workers) {
            resume_unwind(payload);
        }
    }

    /// Wakes the workers that have parked.
    fn wake(&self) {
        for Worker { shared, handle } in &self.workers {
            // Looked at first: that leaves the cache line where it is.
            if shared.sleeps.load(SeqCst) && shared.sleeps.swap(false, SeqCst) {
                handle.thread().unpark();
            }
        }
    }

    /// Waits until all workers have finished a job.
    fn wait(&self, generation: usize) {
        let state = &*self.state;
        let mut left = &self.workers[..];
        let mut look = || {
            while let [worker, rest @ ..] = left {
                if worker.shared.finished.load(SeqCst) != generation {
                    return None;
                }
                left = rest;
            }
            Some(())
        };
        if soon(&mut look).is_some() {
            return;
        }
        loop {
            // Announce first, look again, then park: the workers do it in the other order.
            state.caller_sleeps.store(true, SeqCst);
            if look().is_some() {
                state.caller_sleeps.store(false, SeqCst);
                return;
            }
            std::thread::park();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, SeqCst);
        self.state.call.generation.fetch_add(1, SeqCst);
        self.wake();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so there is nothing to learn from its end.
            let _ = worker.handle.join();
        }
    }
}

/// The life of a worker.
fn work(state: &State, shared: &Shared, thread: usize) {
    let mut seen = 0;
    loop {
        seen = wait_for_change(state, &shared.sleeps, seen);
        if state.stop.load(SeqCst) {
            return;
        }
        // SAFETY: the generation has changed, so the caller has written the job and now waits until this
        // worker has written the generation to `finished` below.
        let job = unsafe { (*state.call.job.get()).map(|job| &*job) };
        if let Some(job) = job
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(thread)))
        {
            state.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
        shared.finished.store(seen, SeqCst);
        if state.caller_sleeps.load(SeqCst) && state.caller_sleeps.swap(false, SeqCst) {
            let caller = state.caller.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(caller) = &*caller {
                caller.unpark();
            }
        }
    }
}

/// Waits until the generation is no longer `seen`; returns what it is.
fn wait_for_change(state: &State, sleeps: &AtomicBool, seen: usize) -> usize {
    let look = || Some(state.call.generation.load(SeqCst)).filter(|generation| *generation != seen);
    if let Some(generation) = soon(look) {
        return generation;
    }
    loop {
        // Announce first, look again, then park: the caller does it in the other order.
        sleeps.store(true, SeqCst);
        if let Some(generation) = look() {
            sleeps.store(false, SeqCst);
            return generation;
        }
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_every_job_once() {
        for threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..2000 {
                pool.run(|thread| {
                    counts[thread].fetch_add(1, SeqCst);
                });
            }
            assert!(counts.iter().all(|count| count.load(SeqCst) == 2000), "{threads} threads");
        }
    }

    #[test]
    fn jobs_see_what_jobs_before_them_wrote() {
        let mut pool = Pool::new(4).unwrap();
        let cells: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        for round in 0..5000 {
            pool.run(|thread| cells[thread].store(round, SeqCst));
            pool.run(|thread| assert_eq!(cells[(thread + 1) % 4].load(SeqCst), round));
        }
    }

    #[test]
    fn parked_workers_wake_up() {
        let mut pool = Pool::new(3).unwrap();
        let count = AtomicUsize::new(0);
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            pool.run(|_| {
                count.fetch_add(1, SeqCst);
            });
        }
        assert_eq!(count.load(SeqCst), 15);
    }

    #[test]
    fn a_slow_worker_is_waited_for() {
        let mut pool = Pool::new(3).unwrap();
        let done = AtomicUsize::new(0);
        for _ in 0..3 {
            done.store(0, SeqCst);
            pool.run(|thread| {
                if thread == 2 {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
                done.fetch_add(1, SeqCst);
            });
            assert_eq!(done.load(SeqCst), 3);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(3).unwrap();
        for bad in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|thread| assert_ne!(thread, bad, "thread {bad} fails"));
            }));
            let payload = caught.unwrap_err();
            let message = payload.downcast_ref::<String>().unwrap();
            assert!(message.contains(&format!("thread {bad} fails")), "{message}");
            let count = AtomicUsize::new(0);
            pool.run(|_| {
                count.fetch_add(1, SeqCst);
            });
            assert_eq!(count.load(SeqCst), 3);
        }
    }

    #[test]
    fn a_panic_of_several_threads_is_over_after_its_job() {
        let mut pool = Pool::new(3).unwrap();
        for bad in [[0, 1], [0, 2], [1, 2]] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|thread| assert!(!bad.contains(&thread), "thread {thread} fails"));
            }));
            assert!(caught.is_err());
            let count = AtomicUsize::new(0);
            pool.run(|_| {
                count.fetch_add(1, SeqCst);
            });
            assert_eq!(count.load(SeqCst), 3);
        }
    }

    #[test]
    fn a_pool_can_be_used_from_another_thread() {
        let mut pool = Pool::new(2).unwrap();
        let count = AtomicUsize::new(0);
        pool.run(|_| {
            count.fetch_add(1, SeqCst);
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    pool.run(|_| {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        count.fetch_add(1, SeqCst);
                    });
                }
            });
        });
        assert_eq!(count.load(SeqCst), 22);
    }
}
