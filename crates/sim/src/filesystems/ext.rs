//! ext3 and ext4 in ordered mode, with their journal (jbd, jbd2).
//!
//! Inode tables, inode bitmaps and directories are blocks of the block device's own mapping. ext4
//! as it is today dirties them when the commit that they belong to has ended, and keeps them in
//! memory until then (`__jbd2_journal_refile_buffer`); the older forms dirty them with the change
//! (their kernels wait too, at most 5 s). From then on reclaim and the flusher meet them; a commit
//! also writes them to the journal.
//!
//! ext4 delays allocation: reclaim and the journal thread are refused until the flusher has
//! allocated blocks. Its flusher path writes one extent's worth a call: it raises its quota to the
//! run of contiguous dirty pages, and it wraps to the start of the file only when it found nothing
//! from the saved index on. A commit walks the files with newly allocated blocks; over delayed
//! pages the walk writes nothing, yet it moves the saved index past them
//! (docs/reference/writeback.md#filesystems). As a result, after each commit the flusher follows
//! the end of the file, and earlier pages wait until no new ones are found there.
//!
//! ext3 allocates a page's block in the write call, from the file's reservation window (with
//! `fs_look_ahead`; else when the page is written back). It never refuses writeback.

use super::files::Ahead;
use super::ioend::{self, Ends};
use super::jbd2::Transactions;
use super::layout::Layout;
use super::model::{Daemon, Kind, Model};
use super::names::{Entry, NameChange};
use super::ring::Ring;
use super::walk::{Walk, write_cache_pages};
use super::write::{self, metadata_page};
use super::{Fs, FsError, SimMm};
use mm::world::{Tasks};
use crate::params::Params;
use crate::sched::Pool;
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::policy::{Ext4Bitmaps, Ext4Writeback};
use mm::world::event::TrackPath;
use mm::world::{Cost, WritebackControl};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Place and length of the journal in blocks on a large disk (128 MiB, mke2fs's choice).
const JOURNAL_START: u64 = 1024;
const JOURNAL_LENGTH: u64 = 32_768;
/// Blocks of one commit of a streaming write: descriptor, inode, bitmap, group descriptor,
/// superblock, extent block, commit record, rounded up.
const COMMIT_BLOCKS: u32 = 8;
/// ext4's `max_writeback_mb_bump`: 128 MiB in pages.
const MAX_BUMP: u32 = 32_768;
/// Maximum number of pages that ext4 today writes with one extent (`MAX_WRITEPAGES_EXTENT_LEN`).
const MAX_EXTENT: u32 = 2048;
/// Places of the block bitmaps of the first two groups, behind the superblock, the descriptors and
/// the blocks reserved for more of these.
const FIRST_BITMAPS: [u64; 2] = [1027, 1028];
/// Number of inodes in a block of the table, 256 bytes each.
const INODES_OF_BLOCK: u64 = 16;
/// Blocks of the longest reservation window of ext3 (`EXT3_MAX_RESERVE_BLOCKS`). A window begins
/// with 8 and doubles each time half of it was used, so that a file of a few MiB has the longest
/// one.
const RESERVATION: u32 = 1027;

/// ext4.
pub(super) type Ext4 = Ext<true>;
/// ext3.
pub(super) type Ext3 = Ext<false>;

/// The filesystem's state; `DELAYED` (delayed allocation): it is an ext4.
#[derive(Debug)]
pub(super) struct Ext<const DELAYED: bool> {
    journal: Ring,
    /// Pause between commits, in nanoseconds.
    interval: u64,
    /// Files with blocks allocated in the running transaction.
    files: RefCell<Vec<u32>>,
    /// Metadata blocks changed in the running transaction.
    blocks: RefCell<BTreeSet<u64>>,
    /// Metadata blocks of the commit under way.
    in_commit: RefCell<BTreeSet<u64>>,
    /// Metadata blocks that were ever in use: they must be read when they are not cached.
    known: RefCell<BTreeSet<u64>>,
    /// The block device's own mapping.
    device_file: Cell<u32>,
    /// True while a commit is under way (the older forms).
    committing: Cell<bool>,
    transactions: Transactions,
}

/// Returns the pages of the aligned chunks in which a file of `pages` pages gets its blocks
/// (`ext4_mb_normalize_request`): 2 MiB for a file of up to 4 MiB, 4 MiB up to 8, and 8 MiB for a
/// longer one. A file of up to 1 MiB gets the next power of two, all at once.
fn chunk(pages: u64) -> u64 {
    const MIB: u64 = 256;
    match pages {
        0..=MIB => pages.next_power_of_two().max(4),
        _ if pages <= 4 * MIB => 2 * MIB,
        _ if pages <= 8 * MIB => 4 * MIB,
        _ => 8 * MIB,
    }
}

/// Returns a file's size in pages.
fn size<const T: bool>(mm: &SimMm<T>, mapping: u32) -> u64 {
    mm.mappings[mapping as usize].size.get().div_ceil(4096)
}

/// Returns the block of the inode table that holds the `number`th inode of a group.
fn table_block(front: Layout, group: u32, number: u64) -> u64 {
    front.table(group) + 1 + number / INODES_OF_BLOCK % (front.table_blocks() - 1)
}

/// Returns the places of the block bitmaps that say more than that their group is empty: those of
/// the first two groups, of the first group of each 16 that keep their metadata together
/// (`flex_bg`), and of the last group.
fn bitmaps(front: Layout) -> impl Iterator<Item = u64> {
    const GROUP: u64 = 32_768;
    const FLEX: u64 = 16;
    let groups = front.capacity().div_ceil(GROUP).max(1);
    let first = |flex: u64| flex * FLEX * GROUP;
    let last = (groups - 1) / FLEX;
    let of_last_group = first(last) + (groups - 1) % FLEX;
    let others = (1..=last).map(first);
    let of_first = FIRST_BITMAPS.map(|at| front.place(at));
    let of_last = (last > 0).then_some(of_last_group);
    of_first.into_iter().chain(others).chain(of_last)
}

impl<const DELAYED: bool> Model for Ext<DELAYED> {
    const KIND: Kind = if DELAYED {
        Kind {
            warns_of_direct_reclaim: true,
            ..Kind::plain(1000)
        }
    } else {
        Kind::plain(760)
    };

    /// Makes the state of an empty filesystem, with its journal in `front`.
    fn new(p: &Params, front: Layout) -> Self {
        Self {
            journal: Ring::new(front, JOURNAL_START, JOURNAL_LENGTH),
            interval: p.journal_commit_interval as u64,
            files: RefCell::new(Vec::new()),
            blocks: RefCell::default(),
            in_commit: RefCell::default(),
            known: RefCell::default(),
            device_file: Cell::new(0),
            committing: Cell::new(false),
            transactions: Transactions::default(),
        }
    }

    /// Makes the block device's own mapping, whose pages are the metadata.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let device = mm.new_mapping(MappingKind::BlockDevice, fs.bdi.get());
        let device = device.expect("room for the device's file");
        mm.keep_buffers(device);
        self.device_file.set(device);
    }

    fn buffer_heads(&self) -> bool {
        true
    }

    fn read_root(&self, fs: &Fs) -> u64 {
        table_block(fs.layout, 0, 2)
    }

    /// Returns the journal's thread and, for ext4 as the policy says, the thread that reads bitmaps
    /// and the worker that converts new extents.
    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        let mut all = vec![Daemon::thread("jbd2", self.journal_thread(mm, fs))];
        if DELAYED && mm.policy.ext4_bitmaps == Ext4Bitmaps::Prefetched {
            let life = self.prefetch_bitmaps(mm, fs);
            all.push(Daemon::thread("ext4lazyinit", life));
        }
        if Self::by_extent(mm) {
            let life = ioend::conversion_worker(mm, fs);
            all.push(Daemon::work(Pool::Unbound, "ext4-rsv-conv", life));
        }
        all
    }

    /// Returns how many pages from `first` on get blocks together. For ext4: now the dirty run, at
    /// most 8 MiB; reserved besides, while the file is open for writing, the rest of an aligned
    /// [`chunk`]. For ext3: the `len` pages alone.
    fn look_ahead<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        first: u32,
        len: u32,
    ) -> Ahead {
        if !DELAYED {
            return Ahead::none(len);
        }
        let run = mm.tagged_run(mapping, Tag::Dirty, first, MAX_EXTENT);
        let need = run.max(1);
        if !fs.open_for_writing(mapping) {
            return Ahead::none(need);
        }
        let end = u64::from(first) + u64::from(need);
        let chunk = chunk(size(mm, mapping).max(end));
        let want = end.next_multiple_of(chunk) - u64::from(first);
        Ahead {
            before: 0,
            need,
            want: want.min(u64::from(u32::MAX)) as u32,
        }
    }

    /// Returns true for ext3, which has no delayed allocation: a page gets its block in the write
    /// call, from the file's reservation window. Files written at the same time interleave by
    /// windows.
    fn allocates_at_write(&self, fs: &Fs) -> bool {
        !DELAYED && fs.look_ahead
    }

    /// Allocates a page's block at write(2) from the file's reservation window, for ext3 with
    /// `fs_look_ahead`; otherwise, or if the page has a block, does nothing. Returns false if the
    /// disk is full.
    fn allocate_at_write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        index: u32,
    ) -> bool {
        let file = mm.mappings[mapping as usize].kind() == MappingKind::File;
        if DELAYED || !fs.look_ahead || !file || fs.mapped(mapping, index).is_some() {
            return true;
        }
        self.note_allocation(mapping);
        let window = || Ahead {
            before: 0,
            need: 1,
            want: RESERVATION,
        };
        fs.map_ahead(mapping, index, 1, window).is_some()
    }

    fn run_placed<const T: bool>(&self, _mm: &SimMm<T>, _fs: &Fs, mapping: u32) {
        self.note_allocation(mapping);
    }

    /// Writes through the page cache; ext4 today waits first until the inode may be changed.
    async fn write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        len: u64,
    ) -> Result<(), FsError> {
        if Self::by_extent(mm) {
            // The inode's size and times change.
            self.transactions.change(mm).await;
        }
        write::buffered(mm, fs, mapping, pos, len).await
    }

    /// Returns the limits of ends of writeback. New extents of ext4 today are gathered into ends of
    /// up to 2048 pages, within aligned chunks; others are one bio each.
    fn ends<const T: bool>(&self, mm: &SimMm<T>, mapping: u32, fresh: bool) -> Ends {
        if fresh && Self::by_extent(mm) {
            Ends {
                pages: MAX_EXTENT,
                by_bio: false,
                align: chunk(size(mm, mapping)) as u32,
                ..Ends::BIO
            }
        } else {
            Ends::BIO
        }
    }

    /// Joins the running transaction before pages with new blocks are written (ext4 today).
    async fn begin_fresh<const T: bool>(&self, mm: &SimMm<T>) {
        if Self::by_extent(mm) {
            self.transactions.join(mm).await;
        }
    }

    /// Leaves the transaction that `begin_fresh` joined.
    fn fresh_done<const T: bool>(&self, mm: &SimMm<T>) {
        if Self::by_extent(mm) {
            self.transactions.leave(mm);
        }
    }

    fn converts<const T: bool>(&self, mm: &SimMm<T>) -> bool {
        Self::by_extent(mm)
    }

    async fn may_convert<const T: bool>(&self, mm: &SimMm<T>) {
        self.transactions.change(mm).await;
    }

    fn plugs(&self) -> bool {
        DELAYED
    }

    /// Writes back a file's pages: by `da_writepages` on the older ext4, otherwise as a plain walk
    /// over dirty pages.
    async fn writepages<const T: bool>(
        &self,
        mm: &SimMm<T>,
        _fs: &Fs,
        mapping: u32,
        wbc: &mut WritebackControl,
    ) {
        let bumped = DELAYED && !Self::by_extent(mm);
        if bumped && mm.mappings[mapping as usize].kind() == MappingKind::File {
            da_writepages(mm, mapping, wbc).await;
        } else {
            write_cache_pages(mm, mapping, wbc, Walk::PLAIN).await;
        }
    }

    fn holds(&self, block: u64) -> bool {
        self.blocks.borrow().contains(&block) || self.in_commit.borrow().contains(&block)
    }

    /// Returns how many of a file's pages (first index and maximum) are refused to page reclaim:
    /// for ext4 those whose allocation is delayed, for ext3 none.
    fn refuses_reclaim(&self, fs: &Fs, mapping: u32, pages: (u32, u32), _direct: bool) -> u32 {
        if DELAYED {
            fs.unplaced(mapping, pages)
        } else {
            0
        }
    }

    fn journal(&self) -> Option<&Ring> {
        Some(&self.journal)
    }

    /// Commits the running transaction, as fsync does, and waits for it. Returns true on success.
    async fn commit<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        if Self::by_extent(mm) {
            return self.transactions.complete(mm, fs.volume).await;
        }
        self.commit_transaction(mm, fs, true).await
    }

    /// Returns the block of the inode table that holds the `number`th inode of a group.
    fn inode_place(
        &self,
        fs: &Fs,
        group: u32,
        number: u64,
        _entry: Entry,
        _fresh: bool,
    ) -> Result<u64, FsError> {
        Ok(table_block(fs.layout, group, number))
    }

    /// Changes what a name made or removed changes: the directory's block, the group's inode bitmap
    /// and the block of the inode.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        if Self::by_extent(mm) {
            self.transactions.change(mm).await;
        }
        if change.new_block {
            self.change_block(mm, change.block, true).await?;
        }
        for block in [change.block, fs.layout.table(change.group), change.place] {
            self.change_block(mm, block, false).await?;
        }
        Ok(())
    }

    async fn read_inode<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, _ino: u32, place: u64) {
        self.read_block(mm, place).await;
    }

    async fn read_names<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs, block: u64) {
        self.read_block(mm, block).await;
    }
}

impl<const DELAYED: bool> Ext<DELAYED> {
    /// Returns true for ext4 as it writes today.
    fn by_extent<const T: bool>(mm: &SimMm<T>) -> bool {
        DELAYED && mm.policy.ext4_writeback == Ext4Writeback::ByExtent
    }

    /// Runs the thread that reads the block bitmaps written by mkfs, some time after mounting
    /// (`ext4_run_li_request`, `ext4_mb_prefetch`).
    async fn prefetch_bitmaps<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        mm.world.sched.sleep_ticks(fs.initialised_at).await;
        for block in bitmaps(fs.layout) {
            let (device, path) = (self.device_file.get(), TrackPath::FsMetadata);
            // Errors are ignored: the allocator reads the bitmap when it needs it.
            let _ = metadata_page(mm, device, block as u32, false, path).await;
        }
    }

    /// Brings a block of the inode table or of a directory into memory and marks its page accessed;
    /// does nothing if there is no memory for it.
    async fn read_block<const T: bool>(&self, mm: &SimMm<T>, block: u64) {
        self.known.borrow_mut().insert(block);
        let (device, path) = (self.device_file.get(), TrackPath::FsMetadata);
        if let Some(pfn) = metadata_page(mm, device, block as u32, false, path).await {
            mm.mark_page_accessed(pfn, path);
        }
    }

    /// Changes a metadata block: marks its page of the block device accessed and adds it to the
    /// running transaction. The page is dirtied now or, by ext4 today, once the commit has ended.
    /// `fresh`: the block has no content yet.
    async fn change_block<const T: bool>(
        &self,
        mm: &SimMm<T>,
        block: u64,
        fresh: bool,
    ) -> Result<(), FsError> {
        let first = self.known.borrow_mut().insert(block);
        let path = TrackPath::FsMetadata;
        let device = self.device_file.get();
        let page = metadata_page(mm, device, block as u32, fresh || first, path).await;
        let pfn = page.ok_or(FsError::OutOfMemory)?;
        mm.mark_page_accessed(pfn, path);
        if !Self::by_extent(mm) {
            mm.set_page_dirty(pfn, path);
        }
        self.blocks.borrow_mut().insert(block);
        mm.world.relax().await;
        Ok(())
    }

    /// Adds a file that got new blocks to the running transaction, as ordered mode requires.
    fn note_allocation(&self, mapping: u32) {
        let mut files = self.files.borrow_mut();
        if !files.contains(&mapping) {
            files.push(mapping);
        }
    }

    /// Runs the journal thread: commits the running transaction every interval and, for ext4 today,
    /// when fsync requests it. Never returns.
    async fn journal_thread<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        if Self::by_extent(mm) {
            return self.kjournald2(mm, fs).await;
        }
        loop {
            mm.world.sched.sleep_ticks(self.interval).await;
            self.commit_transaction(mm, fs, false).await;
        }
    }

    /// Runs the journal thread of ext4 today, which alone commits: every interval, and when asked.
    /// Never returns.
    async fn kjournald2<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let (sched, queue) = (&mm.world.sched, mm.world.jbd2_queue(fs.volume));
        let mut due = sched.now() + self.interval;
        loop {
            let ticket = sched.ticket(queue);
            let asked = self.transactions.is_asked();
            // Time until the next periodic commit.
            let left = due.saturating_sub(sched.now());
            if !asked && left > 0 {
                sched.wait(queue, ticket, Some(left)).await;
                continue;
            }
            self.transactions.begins();
            let ok = self.commit_by_extent(mm, fs, asked).await;
            self.transactions.ends(mm, ok);
            if left == 0 {
                due = sched.now() + self.interval;
            }
        }
    }

    /// Commits the running transaction of ext3 or an older ext4, if it holds anything or `force` is
    /// set: writes its files' data, then its metadata to the journal. Returns true if the journal's
    /// writes succeeded, or a commit is under way already.
    async fn commit_transaction<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        force: bool,
    ) -> bool {
        if self.committing.replace(true) {
            return true; // the commit under way includes these changes
        }
        let files = self.files.take();
        let changed = self.blocks.take().len() as u64;
        if files.is_empty() && changed == 0 && !force {
            self.committing.set(false);
            return true;
        }
        for file in files {
            submit_data::<DELAYED, T>(mm, fs, file).await;
        }
        let (at, blocks) = self.journal.take(u64::from(COMMIT_BLOCKS) + changed);
        let ok = mm.world.write_raw(fs.volume, at, blocks, true).await;
        self.committing.set(false);
        ok
    }

    /// Performs a commit of ext4 today, which has begun: writes the metadata, then the commit block
    /// that makes them valid. No file data are in it, because new blocks become a file's only when
    /// their data are written. Returns true on success.
    async fn commit_by_extent<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, force: bool) -> bool {
        if self.files.borrow().is_empty() && self.blocks.borrow().is_empty() && !force {
            return true;
        }
        self.transactions.switch(mm).await;
        let files = self.files.take().len() as u64;
        self.in_commit.swap(&self.blocks);
        let changed = self.in_commit.borrow().len() as u64;
        // One descriptor block; for files with new blocks their inodes, the bitmap and the group's
        // descriptor.
        let allocated = if files > 0 { files.div_ceil(INODES_OF_BLOCK) + 2 } else { 0 };
        let metadata = 1 + allocated + changed;
        let (at, blocks) = self.journal.take(metadata);
        let mut ok = mm.world.write_raw(fs.volume, at, blocks, true).await;
        self.transactions.unshadow(mm);
        let (at, blocks) = self.journal.take(1);
        ok &= mm.world.write_raw(fs.volume, at, blocks, true).await;
        self.refile(mm).await;
        ok
    }

    /// Dirties the metadata blocks of the commit that has ended, so that the flusher may write
    /// them, except those that the running transaction has changed again.
    async fn refile<const T: bool>(&self, mm: &SimMm<T>) {
        for block in self.in_commit.take() {
            if self.blocks.borrow().contains(&block) {
                continue;
            }
            if let Some(pfn) = mm.find_page(self.device_file.get(), block as u32) {
                mm.set_page_dirty(pfn, TrackPath::FsMetadata);
            }
            mm.world.relax().await;
        }
    }
}

/// Starts to write one file's data for a commit in ordered mode: for ext3 all dirty pages, for ext4
/// (`DELAYED`) only those that have blocks.
async fn submit_data<const DELAYED: bool, const T: bool>(mm: &SimMm<T>, fs: &Fs, mapping: u32) {
    let m = &mm.mappings[mapping as usize];
    if !DELAYED {
        // Every dirty page has a block: all are written now.
        let mut wbc = WritebackControl {
            range_cyclic: false,
            ..WritebackControl::pages(i64::MAX)
        };
        write_cache_pages(mm, mapping, &mut wbc, Walk::PLAIN).await;
        return;
    }
    // ext4: pages that have blocks are written, delayed ones are skipped.
    let end = m.size.get().div_ceil(4096).min(u64::from(u32::MAX)) as u32;
    let mut index = 0;
    while let Some(first) = mm.next_tagged(mapping, Tag::Dirty, index) {
        if first >= end {
            break;
        }
        let run = mm.tagged_run(mapping, Tag::Dirty, first, 32.min(end - first));
        if let Some((_, mapped)) = fs.mapped(mapping, first) {
            let mut wbc = WritebackControl {
                range_cyclic: false,
                range_start: first,
                range_end: first + run.min(mapped) - 1,
                ..WritebackControl::pages(i64::from(run))
            };
            write_cache_pages(mm, mapping, &mut wbc, Walk::PLAIN).await;
        } else {
            mm.world.charge(Cost::Refuse, run);
        }
        index = first + run;
        mm.world.relax().await;
    }
    m.writeback_index.set(end);
}

/// Writes back a file's pages on the flusher path of the older ext4 with delayed allocation: more
/// pages than asked for, so that extents become long (`ext4_da_writepages`,
/// `max_writeback_mb_bump`). The caller's quota is then corrected by the surplus.
async fn da_writepages<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &mut WritebackControl,
) {
    let m = &mm.mappings[mapping as usize];
    let desired = if wbc.sync_all {
        wbc.nr_to_write
    } else if wbc.range_cyclic {
        let run = mm
            .next_tagged(mapping, Tag::Dirty, m.writeback_index.get())
            .map_or(0, |first| {
                mm.tagged_run(mapping, Tag::Dirty, first, MAX_BUMP)
            });
        i64::from(run)
    } else {
        wbc.nr_to_write.saturating_mul(8).min(i64::from(MAX_BUMP))
    };
    let bump = (desired - wbc.nr_to_write).max(0);
    wbc.nr_to_write += bump;
    write_cache_pages(
        mm,
        mapping,
        wbc,
        Walk {
            wrap_only_if_nothing_written: true,
        },
    )
    .await;
    wbc.nr_to_write -= bump;
}
