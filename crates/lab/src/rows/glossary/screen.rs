//! Words of `lowmark top` and of the charts that are not names of counters.

use super::{Kind, Word};

/// Defines a word without a unit.
const fn word(
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
        "Three marks of each zone that its free pages are held against. Below low, an allocation wakes kswapd; it works until free \
         pages are above high; below min, tasks reclaim for themselves (direct reclaim). Boost is what fragmentation adds to all \
         three for the moment (5.0).",
        "memory kept free that programs cannot use; in exchange, fewer allocations wait",
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
        "more data that a crash loses and a sync waits for; in exchange, fewer writers wait",
        &["nr_dirty", "nr_writeback"],
    ),
    word(
        "scanned",
        &["freed", "stolen", "of scanned", "both now"],
        "Pages that reclaim looked at, and those of them that it freed (pgscan, pgsteal). What it looks at and does not free is \
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
        "Who reclaims: kswapd, a thread of each node, before memory runs out, or directly, each task that allocates, for itself and \
         while it waits.",
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
        "The share of the time that tasks stood still for a resource: some, at least one of them; full, all of them at once.",
        "programs wait for memory, disks or CPUs",
        &["psi_memory_some", "psi_io_some", "psi_cpu_some"],
    ),
    word(
        "swap in / out",
        &["swap in", "swap out"],
        "Pages that were read back from swap, and those written there (pswpin, pswpout).",
        "anonymous memory does not fit",
        &["pswpin", "pswpout"],
    ),
    word(
        "written by reclaim",
        &["dirtied"],
        "Pages that reclaim wrote itself, one by one (nr_vmscan_write), where flushers were late; dirtied are those that programs made \
         dirty (nr_dirtied).",
        "writes come in an order that disks are slow at",
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
        "Tasks that can't go on, by what they wait on. Of the running Linux the function of the kernel (wchan) of tasks in state D; \
         of the engine its kinds of waits: a page's lock or writeback, an inode's writeback, a free request of the disk's queue, a read \
         or write, the dirty limit, reclaim's throttle, the log. A crowd is who stands behind one object, directly or through \
         others.",
        "",
        &["throttled", "congest"],
    ),
    word(
        "queue",
        &["requests under way"],
        "Requests that a disk has and has not finished.",
        "the disk is busy; latencies grow with it",
        &[],
    ),
    word(
        "headroom",
        &[],
        "Of `tune`: how far below its goal a time stays, as a share of the goal.",
        "the setting bears more than was asked for",
        &[],
    ),
];
