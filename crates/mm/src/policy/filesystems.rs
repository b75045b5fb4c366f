//! The values of the switches about filesystems; the switches themselves stand in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! { Policy inode_reclaim InodeReclaim {
    /// To 4.10: whoever meets a changed inode waits for its I/O, kswapd too; where all groups are busy all queue for one.
    Blocking = "blocking",
    /// As posted: kswapd never waits, the first pass waits for no lock, a walk goes on where the last
    /// one ended, and with all groups busy the shrinker says that it can't go on.
    NonBlocking = "non-blocking",
    /// 5.9: the shrinker never writes and never waits. It frees clean inodes, passes by those that are locked, pinned, being
    /// flushed or dirty, and has everything pushed that is in the log. Groups have no lock.
    CleanOnly = "clean-only",
} }

choice! { Policy xfs_roots XfsRoots {
    /// It has.
    Cached = "cached",
    /// It reads them when they are first needed: two blocks for a group's inodes, two for its free space.
    Read = "read",
} }

choice! { Policy xfs_format XfsFormat {
    /// Inodes of 256 bytes, 32 in a cluster of 8 KiB.
    V4 = "v4",
    /// The default since 2015: inodes of 512 bytes, 32 in a cluster of 16 KiB.
    V5 = "v5",
} }

choice! { Policy xfs_log XfsLog {
    /// Directories and headers of groups, each once until it is written in place.
    Once = "once",
    /// 2.6.39, delayed logging: with every force, of each block changed since the last, all that was changed since
    /// it was written in place, in chunks of 128 bytes; the trees of inodes and of free space are there, too.
    Relogged = "relogged",
    /// The same, and what is logged takes memory (4.8): an item of each inode, and for each item two buffers, of its
    /// changes and of the next ones, until the inode goes or the block is written in place.
    Buffered = "buffered",
} }

choice! { Policy xfs_log_push XfsLogPush {
    /// Nobody but those who force it, in one write: as in 2.6.38 and before, but for its buffers, which were written when
    /// they were full.
    Forces = "forces",
    /// 2.6.39: also a worker, once an eighth of the log waits for it; in buffers of 32 KiB, eight of which are under way
    /// at a time.
    Background = "background",
    /// 5.14: the pusher of items has the worker write the log and does not wait for it. An eighth of the log is 32 MiB at
    /// most, and who commits waits for the worker while twice as much waits (5.7).
    Unwaited = "unwaited",
} }

choice! { Policy ext4_writeback Ext4Writeback {
    /// linux-3.0: the flusher raises its quota to the run of dirty pages; a commit walks the files with new blocks.
    Bumped = "bumped",
    /// 5.6: extent by extent, within the quota and a transaction; blocks are new ones until their data
    /// is written, so a commit has no data to write, and waits for whoever is in its transaction.
    ByExtent = "by-extent",
} }

choice! { Policy iomap_writeback IomapWriteback {
    /// Neighbouring pages are taken at once: the other one finds what lies behind them.
    Alone = "alone",
    /// 5.5, with `writeback_ends = "ioend"`: nothing. The other one may write the next page, a request of its own.
    Unlocked = "unlocked",
    /// 6.8: the lock of the page that comes next, for which the other one waits until its batch of pages is used up.
    Locked = "locked",
} }

choice! { Policy block_allocation BlockAllocation {
    /// Not at all: pages have blocks in the order in which they are written. The parameter `fs_look_ahead` makes it `ahead`.
    InOrder = "in-order",
    /// xfs converts a delayed extent as a whole and sets blocks aside behind the end of an open file, ext4 takes aligned
    /// chunks: files that are written in turn lie apart, and a hard disk's head goes from one to the other.
    Ahead = "ahead",
} }

choice! { Policy journal_place JournalPlace {
    /// In front of all data, so that a hard disk's head has it next to the first files.
    Front = "front",
    /// In the middle of the filesystem, as mke2fs and mkfs.xfs do: a commit takes the head there and back.
    Middle = "middle",
} }

choice! { Policy ext4_bitmaps Ext4Bitmaps {
    /// They are in memory.
    Cached = "cached",
    /// `prefetch_block_bitmaps`, the default since 5.11: `ext4lazyinit` reads those in use within 5 s of mounting.
    Prefetched = "prefetched",
} }
