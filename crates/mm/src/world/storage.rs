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

/// The options of a write request to a filesystem: its caller, range and size (the kernel's
/// `writeback_control`).
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
    /// Makes a request for asynchronous writeback of up to `nr` pages of any index. The walk is
    /// cyclic: it starts where the last one of the file stopped.
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

/// The rest of a walk over a file's dirty pages (the kernel's `write_cache_pages`). A cyclic walk
/// goes from where the last one stopped to the end of the file, then from the beginning up to where
/// it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkRange {
    /// The next page index.
    pub index: u32,
    /// The last one, inclusive.
    pub end: u32,
    /// The index at which the walk began, while the pages before it are still to come.
    began: Option<u32>,
}

impl WalkRange {
    /// Returns the range that a walk over a file's dirty pages covers. `saved`: the page index at
    /// which the last walk of the file stopped; a cyclic walk starts there and, if that is not the
    /// first page, wraps later to the pages before it ([`Self::wrap`]).
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

    /// Moves on to the pages before the walk's beginning. Returns false if there are none, or the
    /// walk has wrapped before.
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

/// The pages that a fault reads beside the missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAround {
    /// No other pages.
    None,
    /// A window, half of which lies before the missing page.
    Around,
    /// As `Around`, with a mark on the page that is a quarter of the window before its end.
    Marked,
    /// A whole window as read(2) reads it from the page on (`page_cache_sync_readahead`).
    Ahead {
        /// Whether the last fault was on the page before, which counts as reading in order.
        in_order: bool,
    },
}

/// A page of a file that a fault asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faulted {
    /// The mapping of a process, by which the world remembers how far it has read ahead.
    pub region: u32,
    /// The file.
    pub mapping: u32,
    /// The page's index in the file.
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

    /// Returns how many of up to `most` consecutive pages of a file, from `index` on,
    /// [`Storage::writepage`] would only refuse ([`Mm::redirty_page_for_writepage`]); other effects
    /// of these calls are those of [`Storage::writepages_refused`]. For worlds in which no other
    /// task runs between two waits.
    #[inline(always)]
    fn refuses_writepages(&self, mm: &Mm<W>, mapping: u32, index: u32, most: u32) -> u32 {
        let _ = (mm, mapping, index, most);
        0
    }

    /// Returns true if a mapping's filesystem is not asked for [`Storage::writepage`] but for a
    /// range of one page ([`Storage::writepages`]) when reclaim wants a dirty page written.
    #[inline(always)]
    fn reclaim_writes_ranges(&self, mm: &Mm<W>, mapping: u32) -> bool {
        let _ = (mm, mapping);
        false
    }

    /// Asks a mapping's filesystem to write a range of one page for reclaim. Called only where
    /// [`Storage::reclaim_writes_ranges`] is true.
    fn reclaim_writes_range(
        &self,
        mm: &Mm<W>,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) -> impl Future<Output = ()> {
        let _ = (mm, mapping, wbc);
        async { unreachable!("a world that writes ranges says how") }
    }

    /// Applies the other effects of `n` refused calls of [`Storage::writepage`].
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

    /// Starts to read a locked page from its swap slot. When the read ends, the page is up to date
    /// and unlocked.
    fn swap_readpage(&self, mm: &Mm<W>, pfn: Pfn, slot: u32) -> impl Future<Output = ()>;

    /// Brings a page of a mapped file, or others around it, into the page cache. With
    /// [`ReadAround::None`] the page comes in or an error is returned; with other values the call
    /// may do nothing. A world without file mappings keeps the default.
    fn fault_page(
        &self,
        mm: &Mm<W>,
        page: Faulted,
        around: ReadAround,
    ) -> impl Future<Output = Result<(), Touched>> {
        let _ = (mm, page, around);
        async { Err(Touched::BusError) }
    }

    /// Reads the next window after a fault on a page that read-ahead has marked
    /// ([`crate::memory::frame::flag::READAHEAD`]). A world that marks no page keeps the default.
    fn fault_met_mark(&self, mm: &Mm<W>, page: Faulted, pfn: Pfn) -> impl Future<Output = ()> {
        let _ = (mm, page, pfn);
        async {}
    }

    /// Prepares a page of a mapped file for becoming writable. Returns false if the filesystem has
    /// no room.
    fn page_mkwrite(&self, mm: &Mm<W>, mapping: u32, index: u32) -> impl Future<Output = bool> {
        let _ = (mm, mapping, index);
        async { false }
    }

    /// Does [`Storage::page_mkwrite`] for consecutive pages as far as it need not wait. Returns how
    /// many of `most` pages from `index` on may become writable; 0 if the filesystem has no room or
    /// has to be waited for.
    fn page_mkwrite_at_once(&self, mm: &Mm<W>, mapping: u32, index: u32, most: u32) -> u32 {
        let _ = (mm, mapping, index, most);
        0
    }

    /// Starts a plug: the calling task will submit more, so its requests may be gathered until
    /// [`Self::finish_plug`]. Pairs nest (`blk_start_plug`; `plugs = "task"`). A world that gathers
    /// no requests keeps the defaults of these three.
    fn start_plug(&self) {}

    /// Finishes the plug: the gathered requests go to the devices (`blk_finish_plug`).
    fn finish_plug(&self) {}

    /// Sends the gathered requests to the devices if the task is about to yield its CPU.
    fn cond_flush_plug(&self) {}

    /// Notes that a task that dirtied pages of a bdi is about to be throttled for it. A world whose
    /// devices hold no writes back keeps the default.
    fn dirtier_sleeps(&self, bdi: u32) {
        let _ = bdi;
    }

    /// Returns the longest pause of a dirtier that only sleeps, in nanoseconds; `None`: the
    /// kernel's, a fifth of a second. With a value, a throttling call also ends after two pauses,
    /// whatever the device does, as long as the number of dirty pages is closer to the limit than
    /// to all dirtyable memory; on Linux a task at the limit of a stalled device sleeps until the
    /// device resumes.
    fn longest_pause(&self) -> Option<u64> {
        None
    }

    /// Reads an inode from its place on disk. A world whose filesystems do not register inodes with
    /// the engine keeps the defaults of this and the next two, which are never called.
    fn read_inode(&self, mm: &Mm<W>, ino: u32) -> impl Future<Output = ()> {
        let _ = (mm, ino);
        async {}
    }

    /// Starts to write the cluster of an XFS inode to its place. When the write has ended, the
    /// world calls [`Mm::inode_written`]. `sync`: a task waits for it.
    fn write_inode(&self, mm: &Mm<W>, ino: u32, sync: bool) -> impl Future<Output = ()> {
        let _ = sync;
        mm.inode_written(ino, false);
        async {}
    }

    /// Writes `n` changed inodes to the log of an XFS and waits for it. Returns true if it
    /// succeeded.
    fn write_log(&self, mm: &Mm<W>, sb: u32, n: u32) -> impl Future<Output = bool> {
        let _ = (mm, sb, n);
        async { true }
    }

    /// Returns the bytes that the changes of an XFS which wait for its log would take there, `n`
    /// inodes among them, and the length of the log in bytes.
    fn log_space(&self, mm: &Mm<W>, sb: u32, n: u32) -> (u64, u64) {
        let _ = (mm, sb, n);
        (0, u64::MAX)
    }

    /// Returns how many caches of its own the world has now, at most [`World::SHRINKERS`]; their
    /// objects lie in pages taken by [`Mm::alloc_pages`]. Reclaim asks each for its share
    /// (docs/reference/shrinkers-and-xfs.md#shrinkers). A world without any keeps the defaults of
    /// these four.
    fn shrinkers(&self) -> u32 {
        0
    }

    /// Returns the cost of recreating an object of a cache, in disk seeks, and how many objects are
    /// scanned at a time; at least 1 each (the kernel's `seeks` and `batch`).
    fn seeks_and_batch(&self, shrinker: u32) -> (u64, u64) {
        let _ = shrinker;
        (2, 128)
    }

    /// Returns the number of objects of a cache that could be freed.
    fn count_objects(&self, shrinker: u32) -> u64 {
        let _ = shrinker;
        0
    }

    /// Scans `n` objects of a cache and frees what can be freed. Returns how many were freed, or
    /// `None` if the scan cannot proceed now. Pages that become free are reported by
    /// [`Mm::mm_account_reclaimed_pages`].
    fn scan_objects(&self, shrinker: u32, n: u64) -> impl Future<Output = Option<u64>> {
        let _ = (shrinker, n);
        async { None }
    }

    /// Returns the number of buffers of an XFS's blocks that could be freed
    /// (`xfs_buftarg_shrink_count`), where buffers take memory (`xfs_log = "buffered"`).
    fn count_buffers(&self, sb: u32) -> u64 {
        let _ = sb;
        0
    }

    /// Scans `n` buffers of an XFS, frees those not used since the last scan, and reports them by
    /// [`Mm::buffer_goes`] and [`Mm::mm_account_reclaimed_pages`]. Returns how many were freed
    /// (`xfs_buftarg_shrink_scan`).
    fn scan_buffers(&self, mm: &Mm<W>, sb: u32, n: u64) -> u64 {
        let _ = (mm, sb, n);
        0
    }

    /// Drops a file page's private buffers. Returns false if the page must be kept.
    fn release_page(&self, mm: &Mm<W>, pfn: Pfn) -> bool;

    /// Returns the flags of the pages for which [`Self::release_page`] does more than return true;
    /// `None` if it must be called for each page.
    #[inline(always)]
    fn release_asks(&self, mm: &Mm<W>) -> Option<u32> {
        let _ = mm;
        None
    }

    /// Returns true if a backing device is congested for a class.
    fn bdi_congested(&self, bdi: u32, class: Class) -> bool;

    /// Returns how many backing devices are congested for a class.
    fn congested_bdis(&self, class: Class) -> u32;
}
