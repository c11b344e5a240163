//! The thread pool: a fork and join that costs less than a microsecond while the threads are awake.
//!
//! Between two jobs a worker spins for a bounded time and then parks, so that a pool costs nothing when
//! idle and works when there are more threads than cores. A panic in any thread reaches the caller
//! after all threads have finished.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Turns of the spin loop before a thread parks: some ten microseconds, longer than the gap between two
/// ops of a step and much shorter than a scheduler's time slice.
const SPINS: usize = 400;

/// A job: called once on each thread with the thread's number. It lives on the caller's stack.
type Job = *const (dyn Fn(usize) + Sync);

/// What caller and workers share.
struct State {
    /// The job; written only while no worker runs one.
    job: UnsafeCell<Option<Job>>,
    /// Counts jobs; a change tells workers that there is a new one (or that they shall stop).
    generation: AtomicUsize,
    stop: AtomicBool,
    /// Workers that have not finished the job.
    running: AtomicUsize,
    /// Whether the caller has parked, and who it is.
    caller_sleeps: AtomicBool,
    caller: Mutex<Option<Thread>>,
    /// The first worker's panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only part that is not already shareable. The caller writes it while `running` is
// zero, which it learns from the workers' decrements, and workers read it only after they have seen
// `generation` change, which the caller does after writing. The job itself is `Sync`.
unsafe impl Sync for State {}
// SAFETY: as above; the pointer is only followed while the caller waits for the job to end.
unsafe impl Send for State {}

struct Worker {
    /// Whether it has parked.
    sleeps: Arc<AtomicBool>,
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
            job: UnsafeCell::new(None),
            generation: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            caller: Mutex::new(None),
            panic: Mutex::new(None),
        });
        // Dropped when a thread cannot be started, which stops and joins those before it.
        let mut pool = Pool { state, workers: Vec::new() };
        for thread in 1..threads {
            let (state, sleeps) = (Arc::clone(&pool.state), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&sleeps);
            let handle = std::thread::Builder::new()
                .name(format!("gleed-cpu-{thread}"))
                .spawn(move || work(&state, &flag, thread))?;
            pool.workers.push(Worker { sleeps, handle });
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
        // `generation` below and their decrement of `running`; this function does not return or unwind
        // before `running` is zero, and `job` lives that long.
        let erased: Job =
            unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), Job>(std::ptr::from_ref(erased)) };
        // SAFETY: `&mut self` means that no other job is under way, so no worker reads this now.
        unsafe { *state.job.get() = Some(erased) };
        {
            let mut caller = state.caller.lock().unwrap_or_else(PoisonError::into_inner);
            let current = std::thread::current();
            if caller.as_ref().is_none_or(|known| known.id() != current.id()) {
                *caller = Some(current);
            }
        }
        state.running.store(self.workers.len(), SeqCst);
        state.generation.fetch_add(1, SeqCst);
        self.wake();
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        self.wait();
        // Taken in any case: what a worker left must not come up after a later job.
        let workers = state.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = own.err().or(workers) {
            resume_unwind(payload);
        }
    }

    /// Wakes the workers that have parked.
    fn wake(&self) {
        for worker in &self.workers {
            if worker.sleeps.swap(false, SeqCst) {
                worker.handle.thread().unpark();
            }
        }
    }

    /// Waits until no worker runs.
    fn wait(&self) {
        let state = &*self.state;
        for _ in 0..SPINS {
            if state.running.load(SeqCst) == 0 {
                return;
            }
            spin_loop();
        }
        loop {
            // Announce first, look again, then park: the last worker does it in the other order.
            state.caller_sleeps.store(true, SeqCst);
            if state.running.load(SeqCst) == 0 {
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
        self.state.generation.fetch_add(1, SeqCst);
        self.wake();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so there is nothing to learn from its end.
            let _ = worker.handle.join();
        }
    }
}

/// The life of a worker.
fn work(state: &State, sleeps: &AtomicBool, thread: usize) {
    let mut seen = 0;
    loop {
        seen = wait_for_change(state, sleeps, seen);
        if state.stop.load(SeqCst) {
            return;
        }
        // SAFETY: the generation has changed, so the caller has written the job and now waits until this
        // worker decrements `running` below.
        let job = unsafe { (*state.job.get()).map(|job| &*job) };
        if let Some(job) = job
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(thread)))
        {
            state.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
        if state.running.fetch_sub(1, SeqCst) == 1 && state.caller_sleeps.swap(false, SeqCst) {
            let caller = state.caller.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(caller) = &*caller {
                caller.unpark();
            }
        }
    }
}

/// Waits until the generation is no longer `seen`; returns what it is.
fn wait_for_change(state: &State, sleeps: &AtomicBool, seen: usize) -> usize {
    for _ in 0..SPINS {
        let generation = state.generation.load(SeqCst);
        if generation != seen {
            return generation;
        }
        spin_loop();
    }
    loop {
        // Announce first, look again, then park: the caller does it in the other order.
        sleeps.store(true, SeqCst);
        let generation = state.generation.load(SeqCst);
        if generation != seen {
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
