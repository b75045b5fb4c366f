//! Defines words that are no rows: counters, workload metrics, kinds of time, and the questions
//! that reviewers of *writeback-from-reclaim* asked.

mod compaction;
mod control_groups;
mod disks;
mod eviction;
mod forms;
mod groups;
mod kind;
mod linux;
mod numa;
mod programs;
mod real;
mod report;
mod screen;

pub use groups::entry_of as group_entry;
pub use kind::Kind;
use std::sync::LazyLock;

/// A word with its definition.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The word's name. A counter that is kept by zone has the name without the zone.
    pub name: &'static str,
    /// Other names.
    pub also: &'static [&'static str],
    /// The kind of word.
    pub kind: Kind,
    /// The definition, or the answer to a question.
    pub text: &'static str,
    /// The unit; empty for questions.
    pub unit: &'static str,
    /// The kernels that have it; empty for questions.
    pub kernels: &'static str,
    /// The meaning of a high value; empty if it has none.
    pub high: &'static str,
    /// Words and rows that should be looked at together with it.
    pub related: &'static [&'static str],
}

/// Defines the entry of a level of /proc/vmstat, in pages; `high` says what a high value means.
const fn level(name: &'static str, text: &'static str, high: &'static str) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Level,
        text,
        unit: "pages",
        kernels: "all",
        high,
        related: &[],
    }
}

/// Defines the entry of a counter of /proc/vmstat; `text` is its definition, `kernels` says which
/// kernels have it, and `high` what a high value means.
const fn counter(
    name: &'static str,
    unit: &'static str,
    kernels: &'static str,
    text: &'static str,
    high: &'static str,
    related: &'static [&'static str],
) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Counter,
        text,
        unit,
        kernels,
        high,
        related,
    }
}

/// Defines the entry of a counter of /proc/vmstat that is kept for each zone, in pages.
const fn zone(
    name: &'static str,
    kernels: &'static str,
    text: &'static str,
    high: &'static str,
    related: &'static [&'static str],
) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::ZoneCounter,
        text,
        unit: "pages",
        kernels,
        high,
        related,
    }
}

/// Defines the entry of a figure that a program reports; `text` is its definition.
const fn metric(name: &'static str, unit: &'static str, text: &'static str) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Metric,
        text,
        unit,
        kernels: "none: the program's own",
        high: "",
        related: &[],
    }
}

/// Defines the entry of a part of a task's time, in seconds; `high` says what a high value means.
const fn time(
    name: &'static str,
    text: &'static str,
    high: &'static str,
    related: &'static [&'static str],
) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Time,
        text,
        unit: "s",
        kernels: "none: only the simulation knows why a task waits",
        high,
        related,
    }
}

/// Returns every word that has an explanation: those of the tables, and the figures that programs
/// declare themselves.
pub fn words() -> &'static [Word] {
    static ALL: LazyLock<Vec<Word>> = LazyLock::new(|| {
        let mut all = [
            WORDS,
            compaction::WORDS,
            eviction::WORDS,
            numa::WORDS,
            forms::WORDS,
            real::WORDS,
            groups::WORDS,
            disks::WORDS,
            screen::WORDS,
            report::WORDS,
            linux::WORDS,
            control_groups::WORDS,
        ]
        .concat();
        all.extend(programs::words());
        for of in workload::programs::metrics().filter(|m| !m.text.is_empty()) {
            match all.iter_mut().find(|word| word.name == of.name) {
                Some(word) if word.text.contains(of.text) => {}
                // Several programs have a figure of this name. The text is leaked once: the table
                // is static.
                Some(word) => {
                    let text = word.text.trim_end_matches('.');
                    word.text = format!("{text}; {}", of.text).leak();
                }
                None => all.push(metric(of.name, of.unit, of.text)),
            }
        }
        all
    });
    &ALL
}

/// The words of the engine and of the simulated world.
const WORDS: &[Word] = &[
    Word {
        name: "throttled",
        also: &["throttling"],
        kind: Kind::Question,
        text: "A task is throttled when the kernel makes it sleep so that the device can catch up. The row \"Page reclaim throttled\" is meaningful only for the first version of writeback-from-reclaim, which had its counter, nr_vmscan_throttled; reports of later kernels print 0. Throttling in other kernels is in the congestion_wait rows (reclaim sleeps), and in the time `throttle` of the block \"Where time went\", which also includes the sleeps of writers at the dirty limit (balance_dirty_pages).",
        unit: "",
        kernels: "",
        high: "",
        related: &[
            "congest",
            "conditional",
            "time: throttle",
            "vmstat: Page reclaim throttled",
        ],
    },
    Word {
        name: "congest",
        also: &[
            "congest waited",
            "congestion_wait",
            "writeback_congestion_wait",
        ],
        kind: Kind::Question,
        text: "congestion_wait: always sleeps, until some device's queue is no longer congested, or for the timeout. It does not test first whether any device is congested. \"number\" counts events, \"time\" is the sum of their durations (ms, resolution one tick), \"full\" counts the events that lasted their whole timeout. Direct is every process but kswapd.",
        unit: "",
        kernels: "",
        high: "",
        related: &[
            "conditional",
            "ftrace congestion: Direct number congest waited",
            "ftrace congestion: KSwapd number congest waited",
        ],
    },
    Word {
        name: "conditional",
        also: &[
            "conditional waited",
            "wait_iff_congested",
            "writeback_wait_iff_congested",
        ],
        kind: Kind::Question,
        text: "wait_iff_congested: sleeps like congestion_wait, but only if both a device and the zone being reclaimed are congested; otherwise it yields the CPU once. A yield counts as an event of nearly zero duration, so a large \"number\" with a few ms of \"time\" means that hardly any task slept.",
        unit: "",
        kernels: "",
        high: "",
        related: &[
            "congest",
            "ftrace congestion: Direct number conditional waited",
        ],
    },
    Word {
        name: "noise",
        also: &["significance", "significant", "star", "stddev"],
        kind: Kind::Question,
        text: "Whether a difference is noise: every cell runs several iterations with different seeds, and each policy's values are compared with the baseline's by the Mann-Whitney U test, two-sided (exact for small samples without ties). Stars, as in * 12.50%*, mark p < 0.05; without stars the difference can be chance, however large. p, n and the 95 % interval of each mean by Student's t (mean_low to mean_high) are in rows.csv; the comparison shows the interval of elapsed time. Below 6 iterations little can be claimed; with 3 or fewer on each side p cannot fall below 0.05. About one row in twenty gets stars by chance, so look for rows that agree. The percentage is that of the 2011 reports: 100 * (new - base) / new, with the sign flipped where lower is better, so positive is better (more, where neither is better); its denominator is the new value. `stddev` is the population form.",
        unit: "",
        kernels: "",
        high: "",
        related: &["duration: Total Elapsed Time (seconds)"],
    },
    Word {
        name: "stall time",
        also: &["stall", "stalled", "stall time and elapsed time"],
        kind: Kind::Question,
        text: "Why time stalled in direct reclaim can change while elapsed time does not: stall time is a sum over tasks, elapsed time is that of the last one. Eight tasks stalled for one second in parallel are eight seconds of stall and at most one of elapsed. If the device is the bottleneck, a task that does not wait in direct reclaim waits for the dirty limit or for a request instead: the wait moves and the end time stays. The block \"Where time went\" shows where it moves to: compare `direct reclaim` with `throttle` and `device`. Stalls of tasks on which no other task waits may also cost the test nothing.",
        unit: "",
        kernels: "",
        high: "",
        related: &[
            "ftrace vmscan: Time stalled direct reclaim (seconds)",
            "duration: Total Elapsed Time (seconds)",
            "time: direct reclaim",
        ],
    },
    Word {
        name: "kernel threads",
        also: &["kswapd CPU"],
        kind: Kind::Question,
        text: "CPU time of kswapd and the flushers is not in User/Sys. It is in the block \"Where time went\", and over time in the report (series kswapd_cpu and flusher_cpu, as a share of one CPU; with several nodes it is the sum of their kswapds).",
        unit: "",
        kernels: "",
        high: "",
        related: &[
            "duration: User/Sys Time Running Test (seconds)",
            "time: cpu",
        ],
    },
    time(
        "time: cpu",
        "Time executing: the program itself and the kernel on its behalf; interrupts that arrive on the task's CPU are charged to the task.",
        "the CPU is the bottleneck, or reclaim scans in vain",
        &["user_time", "system_time"],
    ),
    time(
        "time: run queue",
        "Runnable without a CPU: the wake-up latency of an idle CPU, other tasks' time slices, context switches.",
        "more tasks than CPUs",
        &["time: cpu"],
    ),
    time(
        "time: device",
        "Waiting for a block device: for a page that is read or written, for direct I/O, or for a free request of a full queue.",
        "the device is the bottleneck",
        &["time: throttle"],
    ),
    time(
        "time: throttle",
        "Held back: the sleeps of a writer at the dirty limit, congestion_wait and wait_iff_congested.",
        "pages become dirty faster than the device writes them",
        &["throttled", "time: device"],
    ),
    time(
        "time: lock",
        "Waiting for an object that another task holds: a page's lock, an inode that is being written.",
        "tasks contend for the same pages or files",
        &["time: device"],
    ),
    time(
        "time: server",
        "Waiting for the daemon that serves the filesystem (fuse-ntfs); the daemon's own time is in the class filesystem.",
        "the daemon is slow or itself held back",
        &["time: throttle"],
    ),
    time(
        "time: sleep",
        "Nothing to do: a kswapd without pressure (this includes its nap of HZ/10 before the full sleep, while \"Time kswapd awake\" counts to the end of the nap), a flusher without work, a process that waits for another process or for its own timer.",
        "idle",
        &[],
    ),
    time(
        "time: direct reclaim",
        "All the time between entering and leaving direct reclaim, on CPU or waiting; results.json and tasks.csv split it. Summed over tasks it is the row \"Time stalled direct reclaim\".",
        "processes free their memory themselves",
        &[
            "stall time",
            "ftrace vmscan: Time stalled direct reclaim (seconds)",
        ],
    ),
    metric(
        "alloc_wait_max",
        "us",
        "The longest time that an allocation of a page took, reclaim included, among all tasks. Of a real kernel: the longest direct reclaim alone (mm_vmscan_direct_reclaim_begin to _end), 0 if there was none.",
    ),
    metric(
        "reclaim_wait_max",
        "us",
        "The longest that an allocation waited for one round of direct reclaim: in front of it for the reserves (throttle_direct_reclaim) and in it; 0 if there was none. Of a real kernel: the longest direct reclaim (mm_vmscan_direct_reclaim_begin to _end), reported only if no task waited for the reserves (pgscan_direct_throttle is 0), because no tracepoint records the length of that wait.",
    ),
    metric(
        "wmark_min",
        "kB",
        "The sum of the zones' min watermarks, where a program prints them (simoop).",
    ),
    metric(
        "wmark_low",
        "kB",
        "The sum of the zones' low watermarks, where a program prints them (simoop).",
    ),
    metric(
        "wmark_high",
        "kB",
        "The sum of the zones' high watermarks, where a program prints them (simoop).",
    ),
    metric(
        "inode_reclaim_lumpiness",
        "1",
        "Standard deviation of the XFS inodes freed in each simulated second, divided by their mean. 0: the same number in every second.",
    ),
    metric(
        "first_inodes_freed",
        "inodes",
        "Inodes of the first filesystem whose memory was freed, where a machine has two filesystems.",
    ),
    metric(
        "second_inodes_freed",
        "inodes",
        "Inodes of the second filesystem whose memory was freed.",
    ),
    metric(
        "inodes_freed_on",
        "inodes",
        "Inodes whose memory was freed, for each filesystem of a list of disks: `inodes_freed_on:/` is the filesystem mounted on `/`.",
    ),
    metric(
        "disk_written",
        "bytes",
        "Bytes written to the disk of each filesystem of a list of disks, since boot: `disk_written:/mnt`.",
    ),
    metric(
        "disk_read",
        "bytes",
        "Bytes read from the disk of each filesystem of a list of disks, since boot: `disk_read:/mnt`.",
    ),
    metric(
        "hit_ratio",
        "share",
        "Pages that were in memory when a call asked for them because an earlier call had asked for them, of all pages read and written. Pages that the call itself reads in are no hits; pages that were read ahead are counted by `readahead_hit_ratio`. `mrc` counts the same way: this is 1 minus its miss ratio.",
    ),
    metric(
        "readahead_hit_ratio",
        "share",
        "Pages that were in memory when a call asked for them only because an earlier call had them read ahead, of all pages read and written: each counts once, and as a hit (`hit_ratio`) from then on.",
    ),
    metric(
        "read_hit_ratio",
        "share",
        "As `hit_ratio`, but of pages read only.",
    ),
    metric(
        "read_from_disk",
        "bytes",
        "Bytes brought into the page cache, read-ahead included.",
    ),
    metric(
        "readahead_reread",
        "pages",
        "Pages that were read ahead, reclaimed before they were asked for, and read again.",
    ),
    metric(
        "read_again",
        "bytes",
        "Bytes brought into the page cache that had been there before.",
    ),
    counter(
        "slabs_scanned",
        "objects",
        "all",
        "Objects of slab caches that reclaim asked the shrinkers to scan.",
        "reclaim puts much pressure on dentries and inodes",
        &[],
    ),
    counter(
        "pginodesteal",
        "pages",
        "2.6 and later",
        "Page-cache pages dropped with unused inodes by processes.",
        "whole files leave the cache with their inodes",
        &[],
    ),
    counter(
        "kswapd_inodesteal",
        "pages",
        "2.6 and later",
        "Page-cache pages dropped with unused inodes by kswapd.",
        "whole files leave the cache with their inodes",
        &[],
    ),
    counter(
        "inodes_freed",
        "inodes",
        "none: the engine's own",
        "Inodes whose memory was freed.",
        "inodes leave memory; looking them up again takes I/O",
        &[],
    ),
    counter(
        "xfs_inodes_reclaimed",
        "inodes",
        "xs_ig_reclaims of /proc/fs/xfs/stat",
        "XFS inodes that a reclaim walk freed.",
        "inode caches shrink",
        &[],
    ),
    counter(
        "xfs_inodes_recycled",
        "inodes",
        "xs_ig_frecycle of /proc/fs/xfs/stat",
        "Evicted XFS inodes that were used again before they were freed.",
        "keeping evicted inodes saves much I/O",
        &[],
    ),
    counter(
        "xfs_inodes_flushed",
        "inodes",
        "xs_iflush_count of /proc/fs/xfs/stat",
        "Changed XFS inodes that went into a cluster's write.",
        "metadata writes",
        &[],
    ),
    counter(
        "xfs_inode_writes",
        "writes",
        "none: the engine's own",
        "Writes of inode clusters that a reclaimer started and waited for.",
        "reclaim waits for metadata I/O",
        &[],
    ),
    counter(
        "xfs_reclaim_wait",
        "waits",
        "none: the engine's own",
        "Waits of reclaimers for inodes, their groups and their I/O.",
        "tasks that need memory wait for inodes",
        &[],
    ),
    counter(
        "kswapd_inode_wait",
        "waits",
        "none: the engine's own",
        "Waits of kswapd for inodes, their groups and their I/O (part of xfs_reclaim_wait).",
        "kswapd frees nothing during these waits; with inode_reclaim = \"non-blocking\" it is 0",
        &[],
    ),
    counter(
        "nr_dirtied",
        "pages",
        "2.6.37 and later",
        "Pages of accounted filesystems that became dirty, again or for the first time.",
        "much is dirtied",
        &["nr_written"],
    ),
    counter(
        "nr_written",
        "pages",
        "2.6.37 and later",
        "Pages that entered writeback.",
        "much is written; the value cannot exceed nr_dirtied",
        &["vmstat: Page Outs"],
    ),
    counter(
        "nr_vmscan_write",
        "pages",
        "all",
        "Pages that reclaim handed to their writepage and that it did not return with \"activate\"; pages that the filesystem refused are included.",
        "reclaim writes single pages in list order",
        &["vmstat: Page writes by reclaim"],
    ),
    Word {
        name: "nr_vmscan_immediate_reclaim",
        also: &["nr_vmscan_invalidate"],
        kind: Kind::Counter,
        text: "Dirty file pages that reclaim marked PG_reclaim instead of writing them; nr_vmscan_invalidate in the posted patches.",
        unit: "pages",
        kernels: "3.2 and later",
        high: "dirty pages reach the end of the list before the flusher has cleaned them",
        related: &["vmstat: Page reclaim invalidate", "pgrotated"],
    },
    counter(
        "nr_vmscan_write_skip",
        "pages",
        "early patches of writeback-from-reclaim",
        "Dirty file pages that reclaim skipped.",
        "reclaim finds many dirty file pages that it may not write",
        &["vmstat: Page writes skipped"],
    ),
    counter(
        "pgfree",
        "pages",
        "all",
        "Pages freed.",
        "memory is freed and reused at a high rate",
        &["pgalloc"],
    ),
    counter(
        "pgactivate",
        "pages",
        "all",
        "Pages moved to an active list.",
        "pages are used again, or reclaim cannot get rid of them",
        &["pgdeactivate"],
    ),
    counter(
        "pgdeactivate",
        "pages",
        "all",
        "Pages moved from an active list.",
        "active lists are too long for the inactive ones",
        &["pgrefill"],
    ),
    counter(
        "pgrotated",
        "pages",
        "all",
        "Pages moved to the tail of the inactive list when their writeback ended.",
        "reclaim found pages that were dirty or under writeback",
        &["nr_vmscan_immediate_reclaim"],
    ),
    counter(
        "oom_kill",
        "processes",
        "4.13 and later",
        "Processes killed because no memory was found.",
        "memory ran out; the kernel's report names the task that allocated, the task that was killed, and the use of memory",
        &["allocstall"],
    ),
    counter(
        "pgfault",
        "faults",
        "all",
        "Page faults of all kinds.",
        "memory is mapped and touched",
        &["pgmajfault"],
    ),
    counter(
        "pgmajfault",
        "faults",
        "all",
        "Page faults that needed I/O.",
        "mapped pages were evicted or swapped out",
        &["pgfault"],
    ),
    counter(
        "pswpin",
        "pages",
        "all",
        "Pages read from swap.",
        "anonymous pages that were still wanted had been swapped out",
        &["vmstat: Swap Ins"],
    ),
    counter(
        "pswpout",
        "pages",
        "all",
        "Pages written to swap.",
        "reclaim turns to anonymous memory",
        &["vmstat: Swap Outs"],
    ),
    counter(
        "pgpgin",
        "kB",
        "all",
        "kB read by block devices (sectors / 2), swap included.",
        "much is read",
        &["vmstat: Page Ins"],
    ),
    counter(
        "pgpgout",
        "kB",
        "all",
        "kB written by block devices (sectors / 2), swap included.",
        "much is written",
        &["vmstat: Page Outs"],
    ),
    counter(
        "allocstall",
        "events",
        "all; by zone from 4.9: add them up",
        "Entries into direct reclaim.",
        "kswapd starts too late to keep up with allocations",
        &["ftrace vmscan: Direct reclaims"],
    ),
    counter(
        "pageoutrun",
        "events",
        "all; 3.0 also counts restarts",
        "Balance runs that kswapd began.",
        "kswapd runs often",
        &["ftrace vmscan: Kswapd wakeups"],
    ),
    counter(
        "kswapd_steal",
        "pages",
        "to 3.3; later the sum of pgsteal_kswapd",
        "Pages reclaimed by kswapd.",
        "kswapd frees most of what is needed",
        &["vmstat: Kswapd pages reclaimed"],
    ),
    counter(
        "kswapd_low_wmark_hit_quickly",
        "events",
        "2.6.33 and later",
        "kswapd was woken during the first HZ/10 of its sleep.",
        "memory is used up as soon as kswapd stops",
        &["kswapd_high_wmark_hit_quickly"],
    ),
    counter(
        "kswapd_high_wmark_hit_quickly",
        "events",
        "2.6.33 and later",
        "kswapd's first nap of HZ/10 ended with the high watermark broken again.",
        "memory is used up faster than kswapd naps",
        &["kswapd_low_wmark_hit_quickly"],
    ),
    counter(
        "kswapd_skip_congestion_wait",
        "events",
        "2.6.34 to 3.10",
        "kswapd left out its congestion_wait because a zone was under min.",
        "kswapd can't keep up with allocations",
        &["vmstat: Kswapd skipped wait"],
    ),
    counter(
        "direct_writepage_warning",
        "pages",
        "patches 2 to 4 of writeback-from-reclaim and 3.2, which warn once",
        "Dirty pages that direct reclaim handed to xfs, ext4 or btrfs, which refuse them.",
        "direct reclaim is allowed to write and finds many dirty file pages",
        &["vmstat: Page writes by reclaim"],
    ),
    counter(
        "write_error",
        "pages",
        "none: only in the simulation",
        "Pages whose write the device failed.",
        "the device has faults",
        &[],
    ),
    zone(
        "pgalloc",
        "all",
        "Pages allocated, 2^order each.",
        "the zone serves many allocations",
        &["vmstat: DMA32 allocs"],
    ),
    zone(
        "pgrefill",
        "to 4.7 by zone",
        "Pages scanned on active lists.",
        "reclaim shortens the active lists by much",
        &["pgdeactivate"],
    ),
    zone(
        "pgsteal",
        "to 3.3; later pgsteal_kswapd and pgsteal_direct",
        "Pages reclaimed, by kswapd and by direct reclaim.",
        "much is reclaimed",
        &["vmstat: Direct pages reclaimed"],
    ),
    zone(
        "pgscan_kswapd",
        "to 4.7 by zone, later one sum",
        "Pages scanned on inactive lists by kswapd.",
        "kswapd scans many pages",
        &["vmstat: Kswapd pages scanned"],
    ),
    zone(
        "pgscan_direct",
        "to 4.7 by zone, later one sum",
        "Pages scanned on inactive lists by direct reclaim.",
        "processes scan for reclaimable pages themselves",
        &["vmstat: Direct pages scanned"],
    ),
    zone(
        "pgsteal_kswapd",
        "3.4 to 4.7 by zone, later one sum",
        "Pages reclaimed by kswapd.",
        "kswapd frees most of what is needed",
        &["vmstat: Kswapd pages reclaimed"],
    ),
    zone(
        "pgsteal_direct",
        "3.4 to 4.7 by zone, later one sum",
        "Pages reclaimed by direct reclaim.",
        "processes free their pages themselves",
        &["vmstat: Direct pages reclaimed"],
    ),
    level("nr_free_pages", "Free pages.", "memory is not used up"),
    level(
        "nr_slab_reclaimable",
        "Pages of slab caches whose objects can be reclaimed: dentries and inodes.",
        "inodes and dentries fill memory",
    ),
    level(
        "nr_inactive_anon",
        "Anonymous pages on the inactive list.",
        "anonymous pages are about to be swapped out",
    ),
    level(
        "nr_active_anon",
        "Anonymous pages on the active list.",
        "programs use much memory",
    ),
    level(
        "nr_inactive_file",
        "File pages on the inactive list.",
        "much cache that was used once",
    ),
    level(
        "nr_active_file",
        "File pages on the active list.",
        "much cache that is used again",
    ),
    level(
        "nr_unevictable",
        "Pages that cannot be reclaimed.",
        "locked memory",
    ),
    level(
        "nr_alloc_batch",
        "Pages that may still be allocated from the zone before allocations move on to the next zone (fair zones).",
        "",
    ),
    counter(
        "fair_reset",
        "times",
        "3.12 to 4.7",
        "Resets of the zones' allocation batches, after which allocations start at the first zone again (fair zones).",
        "the zones' batches were used up often",
        &["nr_alloc_batch"],
    ),
    level("nr_file_pages", "Pages of the page cache.", "much cache"),
    level(
        "nr_anon_pages",
        "Anonymous pages that are mapped.",
        "programs use much memory",
    ),
    level(
        "nr_mapped",
        "File pages that are mapped.",
        "programs map files",
    ),
    level(
        "nr_dirty",
        "Dirty pages.",
        "writers are ahead of the flusher",
    ),
    level(
        "nr_writeback",
        "Pages under writeback.",
        "the device has much to write",
    ),
    level(
        "nr_isolated_anon",
        "Anonymous pages that reclaim has isolated from the LRU lists at the moment.",
        "many reclaim at once",
    ),
    level(
        "nr_isolated_file",
        "File pages that reclaim has isolated from the LRU lists at the moment.",
        "many reclaim at once",
    ),
    level(
        "nr_kernel",
        "Pages in use by the kernel itself, as in the engine's boot footprint.",
        "little memory is left for programs and caches",
    ),
];
