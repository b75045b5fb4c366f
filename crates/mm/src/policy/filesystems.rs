//! The values of the switches about filesystems; the switches themselves are in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! { Policy inode_reclaim InodeReclaim {
    /// To 4.10: every reclaimer, kswapd too, waits for the I/O of a changed inode it meets; if all
    /// groups are busy, all reclaimers queue for one.
    Blocking = "blocking",
    /// As posted: kswapd never waits, the first pass waits for no lock, a walk resumes where the
    /// last one ended, and if all groups are busy the shrinker reports that it cannot proceed.
    NonBlocking = "non-blocking",
    /// 5.9: the shrinker neither writes nor waits. It frees clean inodes, skips those that are
    /// locked, pinned, being flushed or dirty, and has everything in the log pushed. Groups have no
    /// lock.
    CleanOnly = "clean-only",
} }

choice! { Policy xfs_roots XfsRoots {
    /// Yes.
    Cached = "cached",
    /// No: each is read when first needed, two blocks for a group's inodes and two for its free
    /// space.
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
    /// 2.6.39, delayed logging: each force logs, of every block changed since the last force, all
    /// changes since the block was written in place, in chunks of 128 bytes, including blocks of
    /// the inode and free-space trees.
    Relogged = "relogged",
    /// As `relogged`, and logging takes memory (4.8): an item for each inode, and two buffers for
    /// each item, of its changes and of the next ones, until the inode goes or the block is written
    /// in place.
    Buffered = "buffered",
} }

choice! { Policy xfs_log_push XfsLogPush {
    /// Only tasks that force the log, in one write, as in 2.6.38 and before, except that those
    /// kernels wrote log buffers when they were full.
    Forces = "forces",
    /// 2.6.39: also a worker, once an eighth of the log waits for it, in buffers of 32 KiB, up to
    /// eight of which are under way at a time.
    Background = "background",
    /// 5.14: the pusher of items has the worker write the log and does not wait for it. The eighth
    /// of the log is at most 32 MiB, and a task that commits waits for the worker while twice as
    /// much waits (5.7).
    Unwaited = "unwaited",
} }

choice! { Policy ext4_writeback Ext4Writeback {
    /// linux-3.0: the flusher raises its quota to the run of dirty pages; a commit walks the files
    /// with new blocks.
    Bumped = "bumped",
    /// 5.6: extent by extent, within the quota and one transaction. Blocks stay marked as new until
    /// their data is written, so a commit has no data to write; it waits for the tasks that are in
    /// its transaction.
    ByExtent = "by-extent",
} }

choice! { Policy iomap_writeback IomapWriteback {
    /// Neighbouring pages are taken at once; another writer finds what lies behind them.
    Alone = "alone",
    /// 5.5, with `writeback_ends = "ioend"`: nothing. Another writer may write the next page as a
    /// request of its own.
    Unlocked = "unlocked",
    /// 6.8: the lock of the next page, for which another writer waits until its batch of pages is
    /// used up.
    Locked = "locked",
} }

choice! { Policy block_allocation BlockAllocation {
    /// Not at all: pages get blocks in the order in which they are written. The parameter
    /// `fs_look_ahead` turns this into `ahead`.
    InOrder = "in-order",
    /// xfs converts a delayed extent as a whole and preallocates behind the end of an open file,
    /// ext4 takes aligned chunks: files written in turn lie apart, and a hard disk's head seeks
    /// between them.
    Ahead = "ahead",
} }

choice! { Policy journal_place JournalPlace {
    /// In front of all data, so that for a hard disk's head it lies next to the first files.
    Front = "front",
    /// In the middle of the filesystem, as mke2fs and mkfs.xfs do: a commit moves the head there
    /// and back.
    Middle = "middle",
} }

choice! { Policy ext4_bitmaps Ext4Bitmaps {
    /// No: they are in memory.
    Cached = "cached",
    /// `prefetch_block_bitmaps`, the default since 5.11: `ext4lazyinit` reads those in use within 5
    /// s of mounting.
    Prefetched = "prefetched",
} }

choice! { Policy extent_maps ExtentMaps {
    /// None.
    Free = "free",
    /// Up to 6.8: 144 bytes, 28 on a page. Those of files up to 16 MiB do not go with a page.
    Wide = "wide",
    /// 6.11: 104 bytes, 39 on a page.
    Lean = "lean",
} }

choice! { Policy btrfs_writeback BtrfsWriteback {
    /// The same as on other filesystems.
    Flusher = "flusher",
    /// 5.12: also the space that dirty extents, extents under writeback and references reserve for
    /// trees. Above half of the room, a worker has a quarter of it written or put into the extent
    /// tree; without room, a writer waits for another one.
    Preemptive = "preemptive",
    /// 6.7: as `preemptive`; extents up to 128 KiB, up to 8 MiB and above have chunks of their own,
    /// and one more chunk is not reserved.
    BySize = "by-size",
} }

choice! { Policy btrfs_trees BtrfsTrees {
    /// Nodes of 4 KiB, mkfs's until 2013; all items go to the end of their tree.
    Rightmost = "rightmost",
    /// Nodes of 16 KiB; items go where their keys belong, so name changes dirty leaves all over
    /// their directory's part of the tree. The flusher and each commit write changed nodes twice;
    /// the next change copies them.
    Ordered = "ordered",
    /// As `ordered`, and each node is a bio, not each run of nodes; its second copy comes right
    /// behind it (6.4).
    NodeBios = "node-bios",
} }
