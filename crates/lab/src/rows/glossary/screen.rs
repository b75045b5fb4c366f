//! Words of `lowmark top` and of the charts that are not names of counters.

use super::{Kind, Word};

/// Defines the entry of a word without a unit, such as those of `lowmark top`; `text` explains it,
/// and `also` are names by which it is found.
pub(super) const fn word(
    name: &'static str,
    also: &'static [&'static str],
    text: &'static str,
    high: &'static str,
    related: &'static [&'static str],
) -> Word {
    Word {
        name,
        also,
        kind: Kind::Question,
        text,
        unit: "",
        kernels: "",
        high,
        related,
    }
}

pub(super) const WORDS: &[Word] = &[
    word(
        "watermarks",
        &[
            "min",
            "low",
            "high",
            "boost",
            "below low",
            "below high",
            "below min",
            "above high",
            "free",
            "zones",
        ],
        "Three marks of each zone that its free pages are compared with. Below low, an allocation wakes kswapd, which works until free \
         pages are above high; below min, tasks reclaim for themselves (direct reclaim). Boost is added to all \
         three for a time after fragmentation (5.0).",
        "more memory is kept free, which programs cannot use; in exchange, fewer allocations wait",
        &["allocstall", "nr_free_pages"],
    ),
    word(
        "dirty limit",
        &[
            "background",
            "background limit",
            "over the limit",
            "writers slowed",
            "flushers write",
        ],
        "Two limits of dirty pages and pages under writeback together. Above the background limit flushers write; from the middle \
         between the two on, programs that write are slowed (3.2); at the dirty limit they wait.",
        "a crash loses more data and a sync takes longer; in exchange, fewer writers wait",
        &["nr_dirty", "nr_writeback"],
    ),
    word(
        "scanned",
        &["freed", "stolen", "of scanned", "both now"],
        "Pages that reclaim scanned, and those of them that it freed (pgscan, pgsteal). Pages that are scanned and not freed are \
         dirty, under writeback, locked or in use.",
        "memory is short; with few freed, reclaim works in vain",
        &[
            "pgscan_kswapd",
            "pgsteal_kswapd",
            "pgscan_direct",
            "pgsteal_direct",
        ],
    ),
    word(
        "kswapd and direct",
        &["kswapd", "direct"],
        "The two reclaimers: kswapd, a thread of each node that works before memory runs out, and direct reclaim, by an allocating task \
         itself, whose allocation waits meanwhile.",
        "",
        &["allocstall", "watermarks"],
    ),
    word(
        "refaults",
        &["refaults of files", "refaults of anonymous"],
        "Pages that were needed again after they were reclaimed, and so soon that keeping them would have been better \
         (workingset_refault).",
        "the working set does not fit, or reclaim chooses badly",
        &["workingset_refault", "workingset_activate"],
    ),
    word(
        "pressure",
        &["PSI", "some", "full"],
        "The share of time in which tasks were stalled for lack of a resource: some, at least one task; full, all tasks at once.",
        "programs wait for memory, disks or CPUs",
        &["psi_memory_some", "psi_io_some", "psi_cpu_some"],
    ),
    word(
        "swap in / out",
        &["swap in", "swap out"],
        "Pages read back from swap, and pages written to swap (pswpin, pswpout).",
        "anonymous memory does not fit",
        &["pswpin", "pswpout"],
    ),
    word(
        "written by reclaim",
        &["dirtied"],
        "Pages that reclaim wrote itself, one by one (nr_vmscan_write), where flushers were late; dirtied are those that programs made \
         dirty (nr_dirtied).",
        "pages are written in list order, which is slow on disks",
        &["nr_vmscan_write"],
    ),
    word(
        "who waits",
        &[
            "wchan",
            "waiting",
            "crowd",
            "page lock",
            "page writeback",
            "inode writeback",
            "request",
            "reclaim throttle",
            "log force",
        ],
        "Blocked tasks, by the object that they wait on. For the running Linux: the kernel function (wchan) of tasks in state D; \
         for the engine: its kinds of waits: a page's lock or writeback, an inode's writeback, a free request of the disk's queue, a read \
         or write, the dirty limit, reclaim's throttle, the log. A crowd is the set of tasks that wait on one object, directly or through \
         other tasks.",
        "",
        &["throttled", "congest"],
    ),
    word(
        "queue",
        &["requests under way"],
        "Requests that a disk has accepted and not yet completed.",
        "the disk is busy; latencies grow with it",
        &[],
    ),
    word(
        "headroom",
        &[],
        "In `tune`: the distance of a time below its goal, as a share of the goal.",
        "the setting would meet a stricter goal",
        &[],
    ),
    word(
        "beside a kernel, such changes",
        &["beside a kernel", "sign", "false claim"],
        "How often the engine was right, beside a real kernel, about changes of the same kind as those that are compared here: whether a \
         figure grows or shrinks (its sign), and by how much (its size). `were not tried yet`: none of the pairs of docs/effects.md \
         changes all of these settings, so no kernel has confirmed the engine here.",
        "`lowmark validate --effects` prints the counts by kind and every miss",
        &["claimed", "preset"],
    ),
];
