//! Words of the texts of `run`, `compare`, `tune`, `validate` and `mrc` that are not names of
//! figures.

use super::Word;
use super::screen::word;

pub(super) const WORDS: &[Word] = &[
    word(
        "claimed",
        &[
            "claim",
            "can be claimed",
            "cannot be claimed",
            "no difference can be claimed",
            "~",
        ],
        "A difference is claimed if chance alone would give one as large in less than 5 % of cases (p < 0.05), the interval of the change \
         does not reach to both sides of 0, and the change is at least 0.05 %. `~` stands in tables in the place of a change that is not \
         claimed: the policies may be equal, or the runs too few to tell.",
        "",
        &["p", "noise"],
    ),
    word(
        "p",
        &["p value", "Mann-Whitney", "Mann–Whitney U"],
        "The probability that policies without any difference give one as large as was seen, by Mann and Whitney's test of ranks (U, \
         two-sided), counted exactly for small samples. It says nothing of the size of the difference.",
        "the difference may be chance",
        &["claimed"],
    ),
    word(
        "interval",
        &[
            "95 % interval",
            "interval of the mean",
            "ci",
            "bootstrap",
            "its interval",
        ],
        "The range that has the true value in 95 of 100 such experiments. It becomes half as wide with four times as many iterations.",
        "runs differ much, or are few",
        &["p"],
    ),
    word(
        "baseline",
        &["base", "against", "vanilla"],
        "The policy that the others are compared with: the first of the list `policy`, or the value that the key `baseline` names.",
        "",
        &["policy"],
    ),
    word(
        "policy",
        &["policies"],
        "The rules that are compared: those of one kernel as switches and sysctls, in the engine; or a real kernel (`kernel:NAME`). A preset has the \
         rules of a release.",
        "",
        &["preset", "baseline"],
    ),
    word(
        "preset",
        &["presets"],
        "A policy with the rules of a Linux release, such as linux-6.12; `lowmark policies` lists them, and a policy of an experiment changes \
         one (`base`).",
        "",
        &["policy"],
    ),
    word(
        "cell",
        &["cells", "matrix"],
        "One combination of everything that varies in an experiment: machine, workload, parameters, filesystem, policy. Each cell runs as \
         often as `iterations` says. In a published table: one figure of one policy.",
        "",
        &["axis"],
    ),
    word(
        "axis",
        &["axes", "sweep"],
        "A key with a list in the place of one value, so that each value is run: the rows and groups of the tables.",
        "",
        &["cell"],
    ),
    word(
        "late",
        &["late answers", "late by"],
        "Of `desktop`: answers after more than the time that a user notices (late_responses). Of replays: a request that began after its \
         recorded time, because earlier ones had not ended.",
        "the task was held up",
        &["late_responses"],
    ),
    word(
        "other endings",
        &[
            "did not finish",
            "no answer",
            "time limit",
            "endings",
            "lost",
        ],
        "Runs that did not complete, with the reason: out of memory, a failed program, the time limit (`time_limit_s`), or a task that never \
         answered. Means are of the runs that completed alone, so a policy with other endings counts as worst where it has no figure.",
        "the policy's means leave out its worst runs",
        &["OOM"],
    ),
    word(
        "price",
        &["the price", "at the price of"],
        "In a verdict: the figures that are claimed to be worse while the question's figure is better, or the reverse.",
        "",
        &["claimed"],
    ),
    word(
        "flusher",
        &["flushers", "flush", "bdi", "wb"],
        "A kernel thread of one disk that writes dirty pages to it: those above the background limit, those that are old, and those that \
         reclaim asks for. Each disk (backing device, bdi) has its own.",
        "",
        &["dirty limit"],
    ),
    word(
        "writeback",
        &["under writeback"],
        "The writing of dirty pages to their disk; a page is under writeback from the request until its completion and can't be freed \
         meanwhile.",
        "the disk is slower than the writers",
        &["nr_writeback", "flusher"],
    ),
    word(
        "reclaim",
        &["reclaimed", "page reclaim", "reclaimer", "reclaimers"],
        "The freeing of pages for other uses: clean pages of files are dropped, dirty ones written first, anonymous ones go to swap. By kswapd, \
         or by the task that needs memory (direct reclaim).",
        "",
        &["kswapd and direct"],
    ),
    word(
        "zone",
        &["DMA", "DMA32", "Normal", "Movable", "HighMem"],
        "A range of page frames with its own free pages and watermarks: DMA below 16 MiB, DMA32 below 4 GiB, Normal above it, Movable for \
         pages that can be moved, HighMem above the addresses of a kernel of 32 bits.",
        "",
        &["watermarks"],
    ),
    word(
        "node",
        &["NUMA", "NUMA node"],
        "Memory with the CPUs that are near to it. A machine with one socket has one node.",
        "",
        &["zone"],
    ),
    word(
        "anonymous",
        &["anon", "anonymous memory"],
        "Memory of programs that belongs to no file. Without swap it can't be reclaimed.",
        "less memory is left for files",
        &["swap in / out"],
    ),
    word(
        "kept free",
        &["memory kept free", "min, low, high"],
        "In `tune`: the memory up to which kswapd keeps pages free, the sum of the zones' high watermarks.",
        "programs and files have less memory; in exchange, fewer allocations wait",
        &["watermarks"],
    ),
    word(
        "within its tolerance",
        &["within", "tolerance", "directions", "known gaps"],
        "Of a published figure: the model's is as near as its row allows. A direction agrees if the change against the baseline has the \
         published sign.",
        "",
        &["cell"],
    ),
    word(
        "seed",
        &["seeds", "other seeds"],
        "The number from which a run's chances derive: times of the disk, positions of files. Equal seeds give equal bytes.",
        "",
        &["noise"],
    ),
    word(
        "OPT",
        &["Belady", "optimal"],
        "The policy that evicts the page whose next use is latest. It needs the future, so no policy can do better.",
        "",
        &["miss ratio"],
    ),
    word(
        "miss ratio",
        &["misses", "hits", "mrc", "miss ratio curve"],
        "The share of requests that a cache can't answer. Its curve over cache sizes says what more memory would bring.",
        "the cache is too small for the requests, or keeps the wrong pages",
        &["hit_ratio"],
    ),
    word(
        "dirty",
        &["dirty pages", "dirtier", "writers"],
        "Of a page: changed in memory and not yet written to its disk. The tasks that make pages dirty are called writers or dirtiers.",
        "more is lost in a crash, and reclaim has to wait for more",
        &["dirty limit", "nr_dirty"],
    ),
    word(
        "page cache",
        &["buffered"],
        "Pages of memory that hold parts of files. Clean ones can be dropped at any time, since their disk has them.",
        "",
        &["nr_file_pages", "reclaim"],
    ),
    word(
        "allocation",
        &["allocs", "page allocation"],
        "The taking of a free page, for a file, a program or the kernel. It is quick while the zone is above its low watermark, and may wait for \
         reclaim below min.",
        "",
        &["watermarks", "alloc_wait_max"],
    ),
    word(
        "velocity",
        &["scan velocity", "efficiency"],
        "In blocks of mm reports: velocity is pages scanned a second of the test, efficiency the share of them that was freed.",
        "velocity: memory is short; efficiency: reclaim finds what it can free",
        &["scanned"],
    ),
    word(
        "inode",
        &["inodes"],
        "A file's entry in memory and on disk: size, times, places of its data. Its pages hang on it, and unused ones are reclaimed as slabs.",
        "",
        &["slab"],
    ),
    word(
        "slab",
        &["slabs", "shrinker", "shrinkers"],
        "Memory of the kernel's own objects, such as inodes and names. Shrinkers free unused ones when memory is short.",
        "",
        &["inode"],
    ),
    word(
        "vmscan",
        &["vmstat", "ftrace", "MMTests", "blocks"],
        "Names of the blocks of an mm report, as MMTests prints them: vmstat from the counters of /proc/vmstat, ftrace vmscan from tracepoints \
         of reclaim (mm/vmscan.c).",
        "",
        &["reclaim"],
    ),
    word(
        "async",
        &["asynchronous"],
        "Of a write: reclaim starts it and goes on. A sync write is waited for.",
        "",
        &["writeback"],
    ),
    word(
        "throughput",
        &["MB/s", "transfer rate"],
        "Bytes that programs read, wrote and touched, by the time that the run took; MB is 1000 x 1000 bytes.",
        "more work is done",
        &["goals"],
    ),
    word(
        "goals",
        &["goal", "chosen", "met", "missed"],
        "In `tune`: the bounds that the settings shall hold. chosen is the setting that holds them and keeps least memory free; met and missed \
         say whether they hold under another seed or cost.",
        "",
        &["kept free", "headroom"],
    ),
    word(
        "predicted",
        &["predicted by a model", "model", "engine"],
        "The figures come from the engine, a model of Linux, and not from a measurement. `--verify-in` and `lowmark validate` compare with a real \
         kernel; docs/limits.md says what the engine lacks.",
        "",
        &["known gaps"],
    ),
    word(
        "MiB",
        &["KiB", "GiB", "kB", "MB"],
        "Units: KiB, MiB and GiB are powers of 1024 bytes; so is kB in the kernel's files; MB and MB/s are powers of 1000.",
        "",
        &["throughput"],
    ),
];
