//! What the kernel counts of all tasks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use workload::{HostError, HostResult, Usage};

/// Reads `/proc/vmstat`, and counts two events that it does not have.
pub(super) struct Counts {
    /// Made when the first program asks.
    events: OnceLock<Option<Events>>,
}

/// Two trace buffers of the kernel's beside the one that is recorded, in which the events are only counted.
struct Events {
    wakeups: PathBuf,
    begins: PathBuf,
}

/// Where trace buffers of their own are made.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

impl Events {
    fn new() -> Option<Self> {
        let instance = |name: &str, event: &str| {
            let dir = Path::new(INSTANCES).join(format!("lowmark-{name}"));
            fs::create_dir(&dir).ok()?;
            fs::write(dir.join("buffer_size_kb"), "4").ok()?;
            fs::write(dir.join(format!("events/vmscan/{event}/enable")), "1").ok()?;
            Some(dir.join("per_cpu/cpu0/stats"))
        };
        Some(Self {
            wakeups: instance("wakeups", "mm_vmscan_wakeup_kswapd")?,
            begins: instance("begins", "mm_vmscan_direct_reclaim_begin")?,
        })
    }
}

/// How many events a buffer saw: those in it, and those that newer ones have taken the place of.
fn seen(stats: &Path) -> Option<u64> {
    let text = fs::read_to_string(stats).ok()?;
    let of = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    Some(of("entries")? + of("overrun")?)
}

fn unreadable(path: &str, why: impl std::fmt::Display) -> HostError {
    HostError::Unsupported(format!("{path}: {why}"))
}

/// The sum of the counters whose names begin so.
fn sum(text: &str, name: &str) -> u64 {
    let of = |line: &str| {
        let (found, value) = line.split_once(' ')?;
        found
            .starts_with(name)
            .then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(of).sum()
}

/// The counter of this name.
fn one(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

impl Counts {
    pub(super) fn new() -> Self {
        let events = OnceLock::new();
        Self { events }
    }

    /// All but what is a thread's own.
    pub(super) fn read(&self) -> HostResult<Usage> {
        const VMSTAT: &str = "/proc/vmstat";
        let text = fs::read_to_string(VMSTAT).map_err(|e| unreadable(VMSTAT, e))?;
        // One counter in older kernels, one a zone in newer.
        let alloc_stalls = sum(&text, "allocstall");
        let events = self.events.get_or_init(Events::new).as_ref();
        let counted = events.and_then(|e| Some((seen(&e.wakeups)?, seen(&e.begins)?)));
        let (kswapd_wakeups, direct_reclaims) =
            counted.unwrap_or_else(|| (sum(&text, "pageoutrun"), alloc_stalls));
        Ok(Usage {
            page_faults: one(&text, "pgfault"),
            kswapd_wakeups,
            direct_reclaims,
            alloc_stalls,
            ..Usage::default()
        })
    }

    /// What a reader of the results must know.
    pub(super) fn note(&self) -> Option<String> {
        let events = self.events.get()?;
        events.is_none().then(|| {
            "this kernel traces no vmscan events: programs that count wakes of kswapd were given its runs \
             (pageoutrun)"
                .to_owned()
        })
    }
}

/// MemTotal in bytes.
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
    fn counters_are_summed_over_zones() {
        let text = "pgfault 12\npgfault_x 5\nallocstall_normal 3\nallocstall_movable 4\n";
        assert_eq!(sum(text, "allocstall"), 7);
        assert_eq!(sum(text, "pageoutrun"), 0);
        assert_eq!(one(text, "pgfault"), 12);
    }
}
