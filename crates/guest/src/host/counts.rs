//! The kernel's system-wide counters.

use crate::tracing::{TRACEFS, counted, cpus};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use workload::{HostError, HostResult, Usage};

/// Reads `/proc/vmstat`, and counts wake-ups of kswapd, which `/proc/vmstat` lacks.
pub(super) struct Counts {
    /// Made when a program first asks for counters.
    wakeups: OnceLock<Option<Wakeups>>,
}

/// A trace buffer in which an event is only counted: the kernel's main buffer, or, if events are
/// recorded there, an instance beside it. (An instance has its own files, with inodes of 10 MiB up
/// to Linux 6.5: no small part of a small guest's memory.)
struct Wakeups {
    dir: PathBuf,
}

/// The event, as `set_event` lists it.
const EVENT: &str = "vmscan:mm_vmscan_wakeup_kswapd";

impl Wakeups {
    /// Begins to count wake-ups of kswapd by a tracepoint, in the kernel's main trace buffer or, if
    /// that records events, in an instance beside it. `None`: the kernel does not allow it.
    fn new() -> Option<Self> {
        let mut dir = PathBuf::from(TRACEFS);
        if recorded(&dir)? {
            dir.push("instances/lowmark-wakeups");
            match fs::create_dir(&dir) {
                // Made by another program of this run.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => return Some(Self { dir }),
                made => made.ok()?,
            }
        }
        fs::write(dir.join("buffer_size_kb"), "4").ok()?;
        fs::write(dir.join("set_event"), EVENT).ok()?;
        Some(Self { dir })
    }

    /// Returns the number of wake-ups so far: events in the buffers of all CPUs and those
    /// overwritten; `None` if it can't be read.
    fn seen(&self) -> Option<u64> {
        let cpus = cpus(&self.dir).ok()?;
        let stats = |cpu| fs::read_to_string(self.dir.join(format!("per_cpu/cpu{cpu}/stats"))).ok();
        cpus.into_iter().map(|cpu| seen(&stats(cpu)?)).sum()
    }
}

/// Returns true if the main trace buffer in `dir` records events, false if it is free or only
/// counts; `None` if it can't be read.
fn recorded(dir: &Path) -> Option<bool> {
    let read = |file| fs::read_to_string(dir.join(file)).ok();
    let events = read("set_event")?;
    // A recording keeps all events, so it never overwrites (`options/overwrite`).
    let counts = events.trim() == EVENT && read("options/overwrite")?.trim() == "1";
    Some(!events.trim().is_empty() && !counts)
}

/// Returns the number of events that a CPU's trace buffer saw, from its statistics; `None` if they
/// have another form.
fn seen(stats: &str) -> Option<u64> {
    Some(counted(stats, "entries")? + counted(stats, "overrun")?)
}

/// Makes the error that a file of `/proc` can't be used.
fn unreadable(path: &str, why: impl std::fmt::Display) -> HostError {
    HostError::Unsupported(format!("{path}: {why}"))
}

/// Returns the sum of the counters in the text of `/proc/vmstat` whose names begin with `name`.
fn sum(text: &str, name: &str) -> u64 {
    let of = |line: &str| {
        let (found, value) = line.split_once(' ')?;
        found
            .starts_with(name)
            .then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(of).sum()
}

/// Returns the counter `name` in the text of `/proc/vmstat`; 0 if it is missing.
fn one(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

impl Counts {
    pub(super) fn new() -> Self {
        let wakeups = OnceLock::new();
        Self { wakeups }
    }

    /// Reads the system's counters that programs ask for: page faults, wake-ups of kswapd, direct
    /// reclaims. Counters of the calling thread stay 0.
    pub(super) fn read(&self) -> HostResult<Usage> {
        const VMSTAT: &str = "/proc/vmstat";
        let text = fs::read_to_string(VMSTAT).map_err(|e| unreadable(VMSTAT, e))?;
        // Older kernels have one counter, newer ones one per zone.
        let alloc_stalls = sum(&text, "allocstall");
        let wakeups = self.wakeups.get_or_init(Wakeups::new).as_ref();
        let counted = wakeups.and_then(Wakeups::seen);
        Ok(Usage {
            page_faults: one(&text, "pgfault"),
            kswapd_wakeups: counted.unwrap_or_else(|| sum(&text, "pageoutrun")),
            // Each direct reclaim is counted once, at its start.
            direct_reclaims: alloc_stalls,
            alloc_stalls,
            ..Usage::default()
        })
    }

    /// Returns a note for readers of the results if wake-ups of kswapd could not be counted and its
    /// runs were given instead; `None` if they could, or no program asked.
    pub(super) fn note(&self) -> Option<String> {
        let wakeups = self.wakeups.get()?;
        wakeups.is_none().then(|| {
            "this kernel traces no vmscan events: programs that count wakes of kswapd were given its runs \
             (pageoutrun)"
                .to_owned()
        })
    }
}

/// Returns the memory of the machine in bytes (MemTotal of `/proc/meminfo`).
pub(super) fn total_memory() -> HostResult<u64> {
    const MEMINFO: &str = "/proc/meminfo";
    let text = fs::read_to_string(MEMINFO).map_err(|e| unreadable(MEMINFO, e))?;
    let kb = crate::meminfo(&text, "MemTotal").ok_or_else(|| unreadable(MEMINFO, "no MemTotal"))?;
    Ok(kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_seen_what_newer_events_took_the_place_of() {
        let stats = "entries: 12\noverrun: 30\ncommit overrun: 7\nbytes: 480\ndropped events: 2\n";
        assert_eq!(seen(stats), Some(42));
        assert_eq!(seen("entries: 12\n"), None);
    }

    #[test]
    fn counters_are_summed_over_zones() {
        let text = "pgfault 12\npgfault_x 5\nallocstall_normal 3\nallocstall_movable 4\n";
        assert_eq!(sum(text, "allocstall"), 7);
        assert_eq!(sum(text, "pageoutrun"), 0);
        assert_eq!(one(text, "pgfault"), 12);
    }
}
