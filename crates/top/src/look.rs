//! A look at `/proc`, and the changes between two looks.

use crate::moment::{
    Class, Dirty, Disk, Latency, Moment, PRESSURES, Pressure, Reclaim, Wait, Zone,
};
use crate::tasks::Tasks;
use kernel::proc::{DiskStats, all_diskstats};
use kernel::running::live::{KINDS, LATENCY, Latencies};
use machine::parse;
use std::collections::BTreeMap;

/// The files of a look.
pub const FILES: [&str; 6] = [
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/diskstats",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/pressure/cpu",
];

/// Ticks a second in `/proc/PID/stat` (USER_HZ): 100 on every architecture that is captured.
const USER_HZ: f64 = 100.0;

/// The contents of the files at one time.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Nanoseconds since the first look.
    at: u64,
    vmstat: BTreeMap<String, u64>,
    zones: Vec<Zone>,
    disks: Vec<(String, DiskStats)>,
    /// In the order of [`crate::moment::PRESSURES`].
    pressure: [Pressure; 3],
    waits: Option<Vec<Wait>>,
    kswapd_ticks: Option<u64>,
    /// Latencies of a live cache; `None` for other worlds.
    latencies: Option<Latencies>,
}

/// Parses a file of `/proc/pressure`: the shares of time, 0 to 1, that some task or all were
/// stalled, as the kernel's means over ten seconds. The totals beside them are updated only every
/// other second, so that their increase over one second would be alternately zero and too large.
fn pressure(text: Option<&str>) -> Pressure {
    let share = |who: &str| {
        let line = text?.lines().find_map(|l| l.strip_prefix(who))?;
        let mean = line
            .split_whitespace()
            .find_map(|w| w.strip_prefix("avg10="));
        Some(mean?.parse::<f64>().ok()? / 100.0)
    };
    Pressure {
        some: share("some"),
        full: share("full"),
    }
}

/// Returns the zones with memory of `/proc/zoneinfo`, with free pages and watermarks in pages;
/// empty if the text is malformed. With several nodes the name begins with the node's number.
fn zones(text: &str) -> Vec<Zone> {
    let mut zones = parse::zoneinfo(text).unwrap_or_default();
    zones.retain(|z| z.managed > 0);
    let several = zones.iter().any(|z| z.node != zones[0].node);
    let named = |z: parse::Zone| Zone {
        name: match several {
            true => format!("{} {}", z.node, z.name),
            false => z.name,
        },
        free: z.free as f64,
        // The kernel compares free pages with watermark and boost.
        marks: z.marks.map(|mark| (mark + z.boost) as f64),
    };
    zones.into_iter().map(named).collect()
}

impl Look {
    /// Parses the files of one time: `at` is in nanoseconds since the first look, `text` returns a
    /// file's contents, or `None` if the file is missing; `tasks` was read beside them.
    pub fn of<'a>(at: u64, text: impl Fn(&str) -> Option<&'a str>, tasks: Tasks) -> Self {
        let own = |path: &str| text(path).unwrap_or("");
        Self {
            at,
            vmstat: parse::counters(own("/proc/vmstat")).unwrap_or_default(),
            zones: zones(own("/proc/zoneinfo")),
            disks: all_diskstats(own("/proc/diskstats")).collect(),
            pressure: PRESSURES.map(|of| pressure(text(&format!("/proc/pressure/{of}")))),
            waits: tasks.waits,
            kswapd_ticks: tasks.kswapd_ticks,
            latencies: text(LATENCY).map(Latencies::of),
        }
    }

    /// Returns its time, in nanoseconds since the first look.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the names of the disks that had I/O since boot, without those in memory or files and
    /// without parts of other disks.
    pub fn busy_disks(&self) -> Vec<String> {
        let whole = |name: &str| {
            let of_memory = ["loop", "ram", "zram", "dm-", "sr", "fd"];
            let disks = self.disks.iter().map(|(n, _)| n.as_str());
            let part_of = |disk: &str| disk != name && name.starts_with(disk);
            !of_memory.iter().any(|p| name.starts_with(p)) && !disks.into_iter().any(part_of)
        };
        let busy = self.disks.iter().filter(|(_, s)| s.read + s.written > 0);
        let names = busy.map(|(name, _)| name.clone());
        names.filter(|name| whole(name)).collect()
    }

    /// Returns a disk's counters since boot; `None` if there is no disk of that name.
    fn disk(&self, name: &str) -> Option<DiskStats> {
        let found = self.disks.iter().find(|(n, _)| n == name);
        found.map(|(_, stats)| *stats)
    }

    /// Returns a counter, summed over the zone types in older kernels.
    fn counter(&self, name: &str) -> Option<u64> {
        sum(&self.vmstat, name)
    }
}

/// Makes a look of a live cache: `files` are pairs of the path that a kernel would have and the
/// contents.
pub fn of_files(at: u64, files: &[(&str, String)]) -> Look {
    let text = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| text.as_str())
    };
    Look::of(at, text, Tasks::default())
}

/// The suffixes of counters per zone type in older kernels.
const TYPES: [&str; 6] = ["_dma", "_dma32", "_normal", "_movable", "_high", "_device"];

/// Returns a counter of vmstat, or the sum of its counters per zone type, as older kernels have
/// them; `None` if there is neither.
fn sum(counters: &BTreeMap<String, u64>, name: &str) -> Option<u64> {
    let whole = counters.get(name).copied();
    whole.or_else(|| {
        let parts = TYPES.map(|t| counters.get(&format!("{name}{t}")).copied());
        let told: Vec<u64> = parts.into_iter().flatten().collect();
        (!told.is_empty()).then(|| told.iter().sum())
    })
}

/// Makes the reclaim figures. `rate` returns the increase per second of a counter of vmstat, `None`
/// if it is not known.
fn reclaim(rate: impl Fn(&str) -> Option<f64>) -> Reclaim {
    let class = |who: &str| Class {
        scanned: rate(&format!("pgscan_{who}")),
        freed: rate(&format!("pgsteal_{who}")),
    };
    Reclaim {
        kswapd: class("kswapd"),
        direct: class("direct"),
        both: Class::default(),
        stalls: rate("allocstall"),
        refaults_file: rate("workingset_refault_file").or_else(|| rate("workingset_refault")),
        refaults_anon: rate("workingset_refault_anon"),
        swap_in: rate("pswpin"),
        swap_out: rate("pswpout"),
        written: rate("nr_vmscan_write"),
    }
}

/// Returns the means of reclaim over a whole run of so many seconds, from the increases of its
/// counters; `None` if the run has no length or none of the counters.
pub fn over(counters: &BTreeMap<String, u64>, seconds: f64) -> Option<Reclaim> {
    if seconds <= 0.0 {
        return None;
    }
    let own = reclaim(|name| Some(sum(counters, name)? as f64 / seconds));
    (!own.is_silent()).then_some(own)
}

/// Returns the state at the look `now`, with rates since the look `before`, for the disks named. A
/// counter that decreased (because a CPU or a disk went away) gives no figure.
pub fn between(before: &Look, now: &Look, disks: &[String]) -> Moment {
    let seconds = (now.at.saturating_sub(before.at) as f64 / 1e9).max(1e-9);
    // The increase per second.
    let grew = |now: u64, then: u64| Some(now.checked_sub(then)? as f64 / seconds);
    let rate = |name: &str| grew(now.counter(name)?, before.counter(name)?);
    let level = |name: &str| now.vmstat.get(name).map(|n| *n as f64);
    let disk = |name: &String| {
        let (new, old) = (now.disk(name)?, before.disk(name));
        // Sectors of 512 bytes as megabytes a second.
        let megabytes = |new: u64, old: Option<u64>| Some(grew(new, old?)? * 512.0 / 1e6);
        Some(Disk {
            name: name.clone(),
            write: megabytes(new.written, old.map(|d| d.written)),
            read: megabytes(new.read, old.map(|d| d.read)),
            queue: new.in_flight.map(|n| n as f64),
        })
    };
    let ticks = || grew(now.kswapd_ticks?, before.kswapd_ticks?);
    Moment {
        at: now.at as f64 / 1e9,
        zones: now.zones.clone(),
        dirty: Dirty {
            dirty: level("nr_dirty"),
            writeback: level("nr_writeback"),
            background: level("nr_dirty_background_threshold"),
            limit: level("nr_dirty_threshold"),
            dirtied: rate("nr_dirtied"),
            written: rate("nr_written"),
        },
        reclaim: reclaim(rate),
        kswapd_cpu: ticks().map(|t| t / USER_HZ),
        waits: now.waits.clone(),
        pressure: now.pressure,
        disks: disks.iter().filter_map(disk).collect(),
        latencies: latencies(before, now, seconds),
    }
}

/// Returns how many calls of each kind a live cache timed per second between two looks, and their
/// percentiles; empty for other worlds.
fn latencies(before: &Look, now: &Look, seconds: f64) -> Vec<Latency> {
    let mut found = Vec::new();
    if let (Some(before), Some(now)) = (&before.latencies, &now.latencies) {
        for name in KINDS {
            let between = now.since(before, name);
            found.push(Latency {
                name,
                timed: between.count as f64 / seconds,
                shares: between.shares,
            });
        }
    }
    found
}
