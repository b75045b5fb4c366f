//! Storage: the filesystems and devices below the engine.

use super::World;
use crate::{Mm, Pfn};
use std::future::Future;

/// Read/synchronous or asynchronous-write traffic of a block device
/// (docs/reference/writeback.md#request-queue).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All reads and synchronous writes.
    Sync,
    /// Other writes.
    Async,
}

/// Who asks a filesystem to write, and how much (the kernel's `writeback_control`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritebackControl {
    /// Pages that may still be written; counts down.
    pub nr_to_write: i64,
    /// Pages the filesystem refused and dirtied again; counts up.
    pub pages_skipped: u64,
    /// Start at the mapping's saved index and wrap once.
    pub range_cyclic: bool,
    /// First page index when not cyclic.
    pub range_start: u32,
    /// Last page index, inclusive.
    pub range_end: u32,
    /// Called by page reclaim.
    pub for_reclaim: bool,
    /// Called by periodic writeback.
    pub for_kupdate: bool,
    /// Called by background writeback.
    pub for_background: bool,
    /// Wait for every page, and for pages that are already under writeback.
    pub sync_all: bool,
}

impl WritebackControl {
    /// Asynchronous writeback of up to `nr` pages of any index.
    pub fn pages(nr: i64) -> Self {
        Self {
            nr_to_write: nr,
            pages_skipped: 0,
            range_cyclic: true,
            range_start: 0,
            range_end: u32::MAX,
            for_reclaim: false,
            for_kupdate: false,
            for_background: false,
            sync_all: false,
        }
    }
}

/// Where a walk over a file's dirty pages goes on, and where it ends (the kernel's `write_cache_pages`): a
/// cyclic one from where the last one stopped to the end, and once from the beginning up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkRange {
    /// The next page index.
    pub index: u32,
    /// The last one, inclusive.
    pub end: u32,
    /// Where the walk began, if the pages before it are still to come.
    began: Option<u32>,
}

impl WalkRange {
    /// The range of a call. `saved`: where the file's last walk stopped.
    pub fn new(wbc: &WritebackControl, saved: u32) -> Self {
        if wbc.range_cyclic {
            Self {
                index: saved,
                end: u32::MAX,
                began: (saved > 0).then_some(saved),
            }
        } else {
            Self {
                index: wbc.range_start,
                end: wbc.range_end,
                began: None,
            }
        }
    }

    /// Goes on with the pages before the walk's beginning. `false`: there are none, or it did so before.
    pub fn wrap(&mut self) -> bool {
        let Some(began) = self.began.take() else {
            return false;
        };
        (self.index, self.end) = (0, began - 1);
        true
    }
}

/// A filesystem's answer to `writepage` from reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writepage {
    /// I/O was started; the page is under writeback, or its write has already ended.
    Started,
    /// The filesystem refused and left the page dirty.
    Redirtied,
    /// The filesystem asks reclaim to activate the page.
    Activate,
    /// The mapping has no such operation.
    NoOperation,
}

/// Which pages to bring in beside the one that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAround {
    /// No other.
    None,
    /// A window of which half lies before it.
    Around,
    /// The same, with a mark on the page that is a quarter of the window before its end.
    Marked,
    /// What a read(2) of a whole window from it on would have (`page_cache_sync_readahead`); `in_order`:
    /// behind one of the page before.
    Ahead {
        /// The fault before was on the page before, and that is remembered as reading it.
        in_order: bool,
    },
}

/// A page of a file that a fault asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faulted {
    /// The mapping of a process: whoever reads ahead remembers by it how far that went.
    pub region: u32,
    /// The file.
    pub mapping: u32,
    /// The page's index in it.
    pub index: u32,
}

/// How an access to mapped memory ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// The page was mapped already, or is now.
    Ok,
    /// No memory could be had.
    OutOfMemory,
    /// The page could not be read, lies behind the file's end, or has no place on the device
    /// (SIGBUS).
    BusError,
}

/// Storage: what the engine asks of filesystems and devices.
pub trait Storage<W: World> {
    /// Asks the page's filesystem to write one page for reclaim. Must not allocate through
    /// [`Mm::alloc_page`].
    fn writepage(
        &self,
        mm: &Mm<W>,
        pfn: Pfn,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = Writepage>;

    /// How many pages of a file in a row, from an index on and at most `most`, [`Storage::writepage`] would only refuse
    /// ([`Mm::redirty_page_for_writepage`]), beside [`Storage::writepages_refused`]. For worlds in which no other task
    /// runs between two waits.
    #[inline(always)]
    fn refuses_writepages(&self, mm: &Mm<W>, mapping: u32, index: u32, most: u32) -> u32 {
        let _ = (mm, mapping, index, most);
        0
    }

    /// What so many refused calls leave besides.
    #[inline(always)]
    fn writepages_refused(&self, mm: &Mm<W>, mapping: u32, n: u32) {
        let _ = (mm, mapping);
        assert!(n == 0, "a world that refuses says what that leaves");
    }

    /// Asks a mapping's filesystem to write dirty pages. Counts `nr_to_write` down.
    fn writepages(
        &self,
        mm: &Mm<W>,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = ()>;

    /// Writes one page to its swap slot.
    fn swap_writepage(&self, mm: &Mm<W>, pfn: Pfn, slot: u32) -> impl Future<Output = ()>;

    /// Starts to read a locked page from its swap slot; when that ends, the page is up to date and
    /// unlocked.
    fn swap_readpage(&self, mm: &Mm<W>, pfn: Pfn, slot: u32) -> impl Future<Output = ()>;

    /// Brings a page of a mapped file into the page cache, or others around it: with
    /// [`ReadAround::None`] the page comes in or there is an error, else both may be left undone. A world
    /// without file mappings leaves this as it is.
    fn fault_page(
        &self,
        mm: &Mm<W>,
        page: Faulted,
        around: ReadAround,
    ) -> impl Future<Output = Result<(), Touched>> {
        let _ = (mm, page, around);
        async { Err(Touched::BusError) }
    }

    /// A fault found a page that reading ahead has marked ([`crate::memory::frame::flag::READAHEAD`]): the
    /// next window is due. A world that marks no page leaves this as it is.
    fn fault_met_mark(&self, mm: &Mm<W>, page: Faulted, pfn: Pfn) -> impl Future<Output = ()> {
        let _ = (mm, page, pfn);
        async {}
    }

    /// A page of a mapped file is about to become writable. `false`: the filesystem has no room.
    fn page_mkwrite(&self, mm: &Mm<W>, mapping: u32, index: u32) -> impl Future<Output = bool> {
        let _ = (mm, mapping, index);
        async { false }
    }

    /// [`Storage::page_mkwrite`] where the answer is at hand: how many of `most` pages from an index on may become
    /// writable. 0: the filesystem has no room, or has to be waited for.
    fn page_mkwrite_at_once(&self, mm: &Mm<W>, mapping: u32, index: u32, most: u32) -> u32 {
        let _ = (mm, mapping, index, most);
        0
    }

    /// The calling task will write more: its requests may be gathered until [`Self::finish_plug`]. Pairs nest
    /// (`blk_start_plug`; `plugs = "task"`). A world that gathers none leaves these three as they are.
    fn start_plug(&self) {}

    /// The calling task is through: what was gathered goes to the devices (`blk_finish_plug`).
    fn finish_plug(&self) {}

    /// What was gathered goes to the devices if the task is about to give its CPU away.
    fn cond_flush_plug(&self) {}

    /// A task that dirtied pages of a bdi is about to be put to sleep for it. A world whose devices hold no
    /// writes back leaves this as it is.
    fn dirtier_sleeps(&self, bdi: u32) {
        let _ = bdi;
    }

    /// The longest pause of a dirtier that only sleeps, in nanoseconds; the kernel's, a fifth of a second, if
    /// the world has none of its own. With one of its own a call also ends after two pauses, whatever the
    /// device does, as long as dirty pages are closer to the limit than to all that could be dirty: on Linux
    /// who is at the limit of a device that stands still sleeps until it moves again.
    fn longest_pause(&self) -> Option<u64> {
        None
    }

    /// Reads an inode from its place. Worlds whose filesystems do not tell the engine of their inodes
    /// are never asked, neither this nor the next two.
    fn read_inode(&self, mm: &Mm<W>, ino: u32) -> impl Future<Output = ()> {
        let _ = (mm, ino);
        async {}
    }

    /// Starts to write the cluster of an XFS inode to its place. When that has ended,
    /// [`Mm::inode_written`] is to be called. `sync`: somebody waits for it.
    fn write_inode(&self, mm: &Mm<W>, ino: u32, sync: bool) -> impl Future<Output = ()> {
        let _ = sync;
        mm.inode_written(ino, false);
        async {}
    }

    /// Writes `n` changed inodes to the log of an XFS and waits for it. Returns whether it succeeded.
    fn write_log(&self, mm: &Mm<W>, sb: u32, n: u32) -> impl Future<Output = bool> {
        let _ = (mm, sb, n);
        async { true }
    }

    /// Counts the bytes that changes of an XFS which wait for its log would take there, `n` inodes among them; and says how
    /// long the log is, in bytes.
    fn log_space(&self, mm: &Mm<W>, sb: u32, n: u32) -> (u64, u64) {
        let _ = (mm, sb, n);
        (0, u64::MAX)
    }

    /// Caches of the world's own, whose objects lie in pages that it took ([`Mm::alloc_pages`]): how many
    /// there are now, at most [`World::SHRINKERS`]. Reclaim asks each for its share
    /// (docs/reference/shrinkers-and-xfs.md#shrinkers). A world that has none leaves these four as they are.
    fn shrinkers(&self) -> u32 {
        0
    }

    /// What making an object of one of them again costs, in disk seeks, and how many are asked for at a time:
    /// at least 1 each (the kernel's `seeks` and `batch`).
    fn seeks_and_batch(&self, shrinker: u32) -> (u64, u64) {
        let _ = shrinker;
        (2, 128)
    }

    /// Objects of one of them that could be freed.
    fn count_objects(&self, shrinker: u32) -> u64 {
        let _ = shrinker;
        0
    }

    /// Looks at `n` objects of one of them and frees what can be freed; says how many that were, or `None` if
    /// it can't go on now. Pages that become free are told by [`Mm::mm_account_reclaimed_pages`].
    fn scan_objects(&self, shrinker: u32, n: u64) -> impl Future<Output = Option<u64>> {
        let _ = (shrinker, n);
        async { None }
    }

    /// Buffers of an XFS's blocks that it could be asked for (`xfs_buftarg_shrink_count`), where they take memory
    /// (`xfs_log = "buffered"`).
    fn count_buffers(&self, sb: u32) -> u64 {
        let _ = sb;
        0
    }

    /// Looks at `n` of them, gives up those that nobody has used since, and tells what goes by [`Mm::buffer_goes`] and
    /// [`Mm::mm_account_reclaimed_pages`]. Returns how many that were (`xfs_buftarg_shrink_scan`).
    fn scan_buffers(&self, mm: &Mm<W>, sb: u32, n: u64) -> u64 {
        let _ = (mm, sb, n);
        0
    }

    /// Drops a file page's private buffers; `false` keeps the page.
    fn release_page(&self, mm: &Mm<W>, pfn: Pfn) -> bool;

    /// Flags of those pages for which [`Self::release_page`] does more than to say `true`; `None`: it has to be asked for
    /// each.
    #[inline(always)]
    fn release_asks(&self, mm: &Mm<W>) -> Option<u32> {
        let _ = mm;
        None
    }

    /// Whether a backing device is congested for a class.
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool;

    /// How many backing devices are congested for a class.
    fn congested_bdis(&self, class: Class) -> u32;
}
