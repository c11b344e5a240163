//! What the machine itself can do.

use std::hint::black_box;
use std::time::Instant;

/// Bytes per second that all threads together can read from memory, measured over buffers much larger
/// than the caches; the best of several passes.
pub fn memory_read(threads: Option<usize>) -> f64 {
    const BYTES: usize = 256 << 20;
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        .max(1);
    let words = BYTES / size_of::<u64>() / threads;
    let buffers: Vec<Vec<u64>> = (0..threads).map(|t| vec![t as u64 + 1; words]).collect();
    let pass = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for buffer in &buffers {
                scope.spawn(move || black_box(sum(buffer)));
            }
        });
        (threads * words * size_of::<u64>()) as f64 / start.elapsed().as_secs_f64()
    };
    (0..6).map(|_| pass()).fold(0.0, f64::max)
}

/// Reads everything with eight independent sums, so that the loads and not the additions take the time.
fn sum(buffer: &[u64]) -> u64 {
    let mut sums = [0u64; 8];
    let (chunks, rest) = buffer.as_chunks::<8>();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().chain(rest).fold(0, |a, b| a.wrapping_add(*b))
}

/// The most memory that this process has had resident, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
