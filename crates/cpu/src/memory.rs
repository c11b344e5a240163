//! Memory of the machine: large allocations in large pages, and how much there is.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::kernels::packed::Line;

/// Cache lines in memory of their own, zero at first. Large pages are asked for: a walk through weights
/// touches a new small page every few hundred cycles, and each would have to be looked up.
#[derive(Debug)]
pub(crate) struct Lines(Option<MmapMut>);

impl Lines {
    /// So many lines, which the system provides when they are first used; `None` when it refuses.
    pub fn zeros(count: usize) -> Option<Lines> {
        if count == 0 {
            return Some(Lines(None));
        }
        let map = MmapMut::map_anon(count.checked_mul(size_of::<Line>())?).ok()?;
        #[cfg(target_os = "linux")]
        {
            // A refusal changes the speed only.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Lines(Some(map)))
    }
}

impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // Maps begin at a page, so they are aligned.
        self.0.as_ref().map_or(&[], |map| bytemuck::cast_slice(map))
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        self.0.as_mut().map_or(&mut [], |map| bytemuck::cast_slice_mut(map))
    }
}

/// Bytes that can be allocated without driving others out, if the system tells: what it counts as
/// available (cached files included, since they can be read again), or what the group of processes may
/// still take.
pub(crate) fn available() -> Option<usize> {
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

    #[test]
    fn lines_are_zero_and_can_be_written() {
        for count in [0, 1, 100, 1 << 17] {
            let mut lines = Lines::zeros(count).unwrap();
            assert_eq!(lines.len(), count);
            assert!(lines.iter().all(|line| line.0 == [0; 16]));
            if let Some(last) = lines.last_mut() {
                last.0[15] = 7;
            }
            assert_eq!(lines.last().map(|line| line.0[15]), (count > 0).then_some(7));
        }
        assert!(Lines::zeros(usize::MAX).is_none());
    }

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       24682408 kB\nMemFree:         9531236 kB\nMemAvailable:   23369300 kB\n";
        assert_eq!(meminfo(text), Some(23_369_300 * 1024));
        assert_eq!(meminfo("MemTotal: 5 kB\n"), None);
        assert_eq!(meminfo("MemAvailable: many kB\n"), None);
    }
}
