//! Memory of the machine: large allocations in large pages, and how much there is.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::MmapMut;

/// Values in memory of their own, zero at first. Large pages are asked for: a walk through weights or down
/// a column of activations touches a new small page every few hundred cycles, and each would have to be
/// looked up.
#[derive(Debug)]
pub(crate) struct Large<T> {
    /// `None` for no values.
    map: Option<MmapMut>,
    len: usize,
    values: PhantomData<T>,
}

/// Bytes from which on large pages are asked for: less would be rounded up too much.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

impl<T: Pod> Large<T> {
    /// `len` values, whose memory the system provides when it is first used; `None` when it refuses.
    pub fn zeros(len: usize) -> Option<Large<T>> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let map = if bytes == 0 { None } else { Some(MmapMut::map_anon(bytes).ok()?) };
        #[cfg(target_os = "linux")]
        if let Some(map) = map.as_ref().filter(|_| bytes >= LARGE) {
            // A refusal changes the speed only.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Large { map, len, values: PhantomData })
    }
}

impl<T: Pod> Deref for Large<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // Maps begin at a page, so they are aligned; they may be longer than what was asked for.
        self.map.as_ref().map_or(&[], |map| bytemuck::cast_slice(&map[..self.len * size_of::<T>()]))
    }
}

impl<T: Pod> DerefMut for Large<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.len * size_of::<T>();
        self.map.as_mut().map_or(&mut [], |map| bytemuck::cast_slice_mut(&mut map[..bytes]))
    }
}

/// Bytes that can be allocated without driving others out, if the system tells: what it counts as
/// available (cached files included, since they can be read again), or what the group of processes may
/// still take.
pub fn available() -> Option<usize> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
    let group =
        number("memory.max").zip(number("memory.current")).map(|(most, now)| most.saturating_sub(now));
    [machine, group].into_iter().flatten().min()
}

/// The bytes that `/proc/meminfo` says are available.
fn meminfo(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tile::Line;

    #[test]
    fn values_are_zero_and_can_be_written() {
        for count in [0, 1, 100, 1 << 17] {
            let mut lines = Large::<Line>::zeros(count).unwrap();
            assert_eq!(lines.len(), count);
            assert!(lines.iter().all(|line| line.0 == [0; 16]));
            if let Some(last) = lines.last_mut() {
                last.0[15] = 7;
            }
            assert_eq!(lines.last().map(|line| line.0[15]), (count > 0).then_some(7));
        }
        assert!(Large::<Line>::zeros(usize::MAX).is_none());
    }

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       24682408 kB\nMemFree:         9531236 kB\nMemAvailable:   23369300 kB\n";
        assert_eq!(meminfo(text), Some(23_369_300 * 1024));
        assert_eq!(meminfo("MemTotal: 5 kB\n"), None);
        assert_eq!(meminfo("MemAvailable: many kB\n"), None);
    }
}
