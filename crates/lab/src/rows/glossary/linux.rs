//! Words of people's reports from real Linux: log lines, features, files. Those that the engine
//! does not model say so.

use super::{Kind, Word};

/// Defines a word of reports.
pub(super) const fn word(
    name: &'static str,
    also: &'static [&'static str],
    text: &'static str,
    related: &'static [&'static str],
) -> Word {
    Word {
        name,
        also,
        kind: Kind::Report,
        text,
        unit: "",
        kernels: "",
        high: "",
        related,
    }
}

pub(super) const WORDS: &[Word] = &[
    word(
        "cgroup",
        &[
            "cgroups",
            "control group",
            "memcg",
            "memory cgroup",
            "memory.max",
            "memory.low",
            "memory.min",
        ],
        "A group of tasks with limits of its own. memory.max is a hard limit, at which the group reclaims its own pages and at last is killed; \
         memory.low and memory.min protect its pages from the reclaim of others. Real kernels and models since linux-6.1 have them: [groups] in an \
         experiment, `cgexec -g GROUP` in its command.",
        &["memory.high", "OOM"],
    ),
    word(
        "memory.high",
        &["memory.high events"],
        "The soft limit of a control group (v2): above it each task of the group reclaims and is made to sleep on its way back to user \
         space, up to two seconds at a time, which looks like a hang without I/O. It is `high` of [groups] in an experiment.",
        &["cgroup"],
    ),
    word(
        "MGLRU",
        &[
            "multi-gen LRU",
            "multi-generational LRU",
            "CONFIG_LRU_GEN",
            "/sys/kernel/mm/lru_gen",
        ],
        "The reclaim of Linux 6.1 and later by generations of pages in the place of active and inactive lists, if it is switched on. Not \
         modelled in the engine's reclaim: `lru_gen` is a key of real kernels. For page cache alone the eviction policy `generational` \
         has its rules.",
        &["reclaim"],
    ),
    word(
        "zram",
        &["zramctl"],
        "A disk in memory that compresses what is written to it, mostly used for swap. Not modelled: swap is a disk.",
        &["zswap", "swap in / out"],
    ),
    word(
        "zswap",
        &["zswpin", "zswpout", "zswpwb"],
        "A compressed cache in memory in front of the swap area. Not modelled: swap is a disk.",
        &["zram", "swap in / out"],
    ),
    word(
        "kcompactd",
        &["kcompactd0", "compaction daemon"],
        "A kernel thread of each node that moves pages together in the background, so that blocks of several pages become free (4.6). Not \
         modelled: the engine compacts in the allocating task alone.",
        &["order", "compact_daemon_wake"],
    ),
    word(
        "khugepaged",
        &[
            "THP",
            "transparent huge pages",
            "transparent_hugepage",
            "huge pages",
        ],
        "A kernel thread that joins pages of programs to huge pages of 2 MiB; at its start it raises min_free_kbytes. Huge pages are not \
         modelled, neither in the engine nor in guests.",
        &["kcompactd", "order"],
    ),
    word(
        "thrashing",
        &["thrash", "livelock", "freeze", "hang", "stutter"],
        "Pages are needed again soon after they were reclaimed, so that most time goes into reading them back: the working set is larger than \
         memory. Programs stand still although no one of them is out of memory. In the figures: refaults, PSI, late answers.",
        &["refaults", "pressure"],
    ),
    word(
        "OOM",
        &[
            "OOM killer",
            "out of memory",
            "oom_score_adj",
            "invoked oom-killer",
            "oom_reaper",
            "Killed process",
            "sacrifice child",
        ],
        "Out of memory: an allocation found no page after reclaim had failed for several rounds, and the process with the most memory is \
         killed. Modelled, with the kernel's report in `comparison.txt` of the results; oom_score_adj, limits of control groups and systemd-oomd are not. \
         `lowmark machine --from-dmesg FILE` explains a report of a real machine and makes a machine file of it.",
        &["Mem-Info", "other endings"],
    ),
    word(
        "page allocation failure",
        &[
            "warn_alloc",
            "page allocation stall",
            "page allocation stalls",
            "SLAB: Unable to allocate memory",
            "allocation failure",
        ],
        "The kernel's warning that a request for 2^order pages found none and may fail: mostly one that must not wait (GFP_ATOMIC), or one for \
         several pages in a row while memory is fragmented. The lines that follow are Mem-Info. Page allocation stalls (4.10 to 4.14) \
         reported requests that waited for more than ten seconds.",
        &["GFP flags", "order", "Mem-Info", "alloc_wait_max"],
    ),
    word(
        "GFP flags",
        &[
            "GFP",
            "gfp_mask",
            "GFP_KERNEL",
            "GFP_ATOMIC",
            "GFP_NOFS",
            "GFP_NOIO",
            "GFP_NOWAIT",
            "GFP_HIGHUSER_MOVABLE",
            "__GFP_IO",
            "__GFP_FS",
            "__GFP_DIRECT_RECLAIM",
            "__GFP_KSWAPD_RECLAIM",
            "__GFP_NOFAIL",
            "__GFP_NORETRY",
            "__GFP_RETRY_MAYFAIL",
            "__GFP_NOWARN",
            "__GFP_COMP",
            "__GFP_MOVABLE",
        ],
        "The rights of an allocation (gfp_mask): GFP_KERNEL may wait, reclaim and call filesystems; GFP_NOFS may not call a filesystem, GFP_NOIO \
         may not start I/O, GFP_NOWAIT and GFP_ATOMIC may not wait at all, and the latter may use part of the reserve below min; \
         GFP_HIGHUSER_MOVABLE is memory of programs. The engine has those that its callers use: waiting or not, file systems or not, the zone.",
        &["page allocation failure", "watermarks"],
    ),
    word(
        "order",
        &["order-0", "high-order", "fragmentation"],
        "The size of an allocation as a power of two: order 0 is one page, order 9 a huge page of 2 MiB on x86-64. A high order needs free pages \
         in a row. Modelled for `burst -o` and for records of the page cache, with direct compaction.",
        &["page allocation failure", "kcompactd"],
    ),
    word(
        "Mem-Info",
        &["show_mem", "show_free_areas", "sysrq-m", "Node 0"],
        "The kernel's list of memory at an OOM kill or a failed allocation: per node and zone the free pages, watermarks and lists, then free \
         blocks by order, page cache, swap, and the processes. Lowmark prints it in the kernel's words at an OOM kill (`comparison.txt`).",
        &["active_anon", "lowmem_reserve[]", "free blocks", "OOM"],
    ),
    word(
        "active_anon",
        &[
            "inactive_anon",
            "active_file",
            "inactive_file",
            "unevictable",
            "isolated",
            "isolated(anon)",
            "isolated(file)",
        ],
        "In Mem-Info: the lists of a zone or node. Active pages were used lately, inactive ones are next for reclaim; unevictable ones can't be \
         reclaimed (mlock); isolated ones are in the hands of a reclaimer. Little inactive_file and much active_anon without swap mean that \
         nothing is left to reclaim.",
        &["Mem-Info", "anonymous"],
    ),
    word(
        "pages_scanned",
        &["all_unreclaimable", "hopeless"],
        "In Mem-Info: pages scanned since the last one was freed, and whether the kernel gave the zone up, after six times (up to 4.11) as many \
         as it has, or 16 rounds of kswapd without a page (4.12).",
        &["Mem-Info", "scanned"],
    ),
    word(
        "lowmem_reserve[]",
        &["protection"],
        "In Mem-Info and /proc/zoneinfo: pages of a zone that requests which could have used a higher zone must leave free, on top of the \
         watermark. `vm.lowmem_reserve_ratio` sets them.",
        &["watermarks", "zone"],
    ),
    word(
        "free blocks",
        &[
            "4kB",
            "buddyinfo",
            "0*4kB",
            "free_pcp",
            "free_cma",
            "local_pcp",
            "bounce",
            "pagetables",
            "kernel_stack",
            "slab_reclaimable",
            "slab_unreclaimable",
            "present",
            "mlocked",
        ],
        "In Mem-Info: `3*4kB 1*8kB` are free blocks by size. present is all memory of a zone, managed what the allocator has; free_pcp lies in CPUs' \
         lists and free_cma in areas for devices; pagetables, kernel_stack and slab are the kernel's. The engine has no CMA, no bounce \
         buffers and no kernel stacks.",
        &["Mem-Info", "order"],
    ),
    word(
        "swap cache",
        &[
            "pages in swap cache",
            "Free swap",
            "Total swap",
            "swapents",
            "SwapCached",
        ],
        "Anonymous pages that are in memory and in the swap area at once; they are freed without I/O while they are clean. swapents: pages of a \
         process in swap.",
        &["swap in / out", "anonymous"],
    ),
    word(
        "total_vm",
        &[
            "pid",
            "ppid",
            "rss",
            "anon-rss",
            "file-rss",
            "shmem-rss",
            "nr_ptes",
            "pgtables_bytes",
        ],
        "In the kernel's list of processes: total_vm is address space, in pages; rss what is in memory of it (anon-rss of its own, file-rss \
         of files); nr_ptes or pgtables_bytes its page tables.",
        &["OOM"],
    ),
    word(
        "hung task",
        &[
            "blocked for more than 120 seconds",
            "hung_task_timeout_secs",
            "D state",
            "state D",
            "uninterruptible",
        ],
        "A task that could not run for two minutes because it waited on a lock, page or request (state D). The function that it waits in \
         (wchan) says on what; `lowmark run` writes the same to `waits.txt`.",
        &["who waits"],
    ),
    word(
        "balance_dirty_pages",
        &[
            "shrink_inactive_list",
            "try_to_free_pages",
            "__alloc_pages_slowpath",
            "reclaim_throttle_wait",
        ],
        "Functions in stacks of waiting tasks: balance_dirty_pages, a writer over the dirty limit; try_to_free_pages and shrink_inactive_list, \
         direct reclaim; congestion_wait and wait_iff_congested (up to 5.15), a reclaimer that waits for the disk; \
         __alloc_pages_slowpath, an allocation below the watermarks.",
        &["who waits", "throttled"],
    ),
];
