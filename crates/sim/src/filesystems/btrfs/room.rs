//! Space for btrfs's trees (metadata space), reserved before it is needed (Linux 6.12
//! fs/btrfs/space-info.c; `btrfs_writeback = "preemptive"`): by dirty extents, by extents that are
//! being written and their files, and by references that are not in the extent tree yet. When half
//! of it is reserved, a worker starts to free some. When none is left, a writer waits for another
//! worker, which puts references into the extent tree, has files written, and finally commits.

use super::super::{Fs, SimMm, writepages};
use super::Btrfs;
use super::chunks::{self, Chunks};
use crate::own_queue;
use mm::cache::tree::Tag;
use mm::policy::BtrfsWriteback;
use mm::world::{Tasks, Waited, WaitedKind, WritebackControl};
use mm::writeback::bdi::BdiStat;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Bytes that changing one item reserves (`btrfs_calc_metadata_size`: 16 KiB, eight levels).
const ITEM: u64 = 16384 * 8;
/// Items reserved for a dirty extent or one that is being written
/// (`btrfs_calc_insert_metadata_size`: a node may be split), for its file (its inode, and
/// checksums), for a write while it is under way, and for a reference
/// (`btrfs_calc_delayed_ref_bytes`: the free space tree changes with the extent tree).
const OF_EXTENT: u64 = 2;
const OF_FILE: u64 = 1 + 2;
const OF_WRITE: u64 = OF_EXTENT + OF_FILE;
const OF_REFERENCE: u64 = 2 * OF_EXTENT;
/// Bytes of the first chunk for metadata.
const METADATA_CHUNK: u64 = 256 << 20;
/// Bytes of the disk that other areas take from chunks: the superblock's MiB, and mkfs's chunks for
/// the system, twice, and for data.
const SINCE_MKFS: u64 = (1 + 2 * 8 + 8) << 20;
/// Items in the global reserve of an empty filesystem (`btrfs_update_global_block_rsv`): six
/// deletions, each with its reference, and the roots of four trees.
const GLOBAL: u64 = 10 * OF_EXTENT + 6 * OF_REFERENCE;
/// Reserved items up to which space is never freed in advance.
const FEW: u64 = (128 << 20) / ITEM;
/// Maximum number of times the preemptive worker's threshold may be halved.
const MOST_HALVED: u32 = 8;

/// An extent that got its blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub file: u32,
    pub first: u32,
    pub pages: u32,
}

/// The reservations of metadata space, and the writers that wait for some.
#[derive(Debug)]
pub(super) struct Room {
    /// Files with dirty extents (`delalloc_inodes`), and for each file whether it is listed.
    files: RefCell<Vec<u32>>,
    listed: RefCell<Vec<bool>>,
    /// Number of dirty extents.
    dirty: Cell<u64>,
    /// Extents that are being written (ordered extents).
    ordered: RefCell<VecDeque<Placed>>,
    /// Number of references of data extents that are not in the extent tree yet.
    pub references: Cell<u64>,
    /// Number of items that references keep reserved (`delayed_refs_rsv.reserved`).
    kept: Cell<u64>,
    /// Number of times the threshold is halved (`clamp`).
    halved: Cell<u32>,
    /// Number of writers that wait, and of those that were granted space and have not run yet.
    waiting: Cell<u64>,
    granted: Cell<u64>,
    /// True if the preemptive or the reclaiming worker, respectively, has work to do.
    preempts: Cell<bool>,
    reclaims: Cell<bool>,
}

impl Room {
    /// Creates the state of an empty filesystem: nothing is reserved, and no writer waits.
    pub fn new() -> Self {
        Self {
            files: RefCell::default(),
            listed: RefCell::default(),
            dirty: Cell::new(0),
            ordered: RefCell::default(),
            references: Cell::new(0),
            kept: Cell::new(0),
            halved: Cell::new(1),
            waiting: Cell::new(0),
            granted: Cell::new(0),
            preempts: Cell::new(false),
            reclaims: Cell::new(false),
        }
    }

    /// Counts pages `first` to `last` of a file that are about to be dirtied: they form one extent
    /// with the dirty extents that they touch. Lists the file as one with dirty extents.
    fn dirtied<const T: bool>(&self, mm: &SimMm<T>, file: u32, (first, last): (u32, u32)) {
        let (mut at, end) = (first.saturating_sub(1), last.saturating_add(1));
        let mut touched = 0;
        while let Some(run) = mm.next_tagged(file, Tag::Dirty, at)
            && run <= end
        {
            touched += 1;
            let len = mm.tagged_run(file, Tag::Dirty, run, end - run + 1);
            at = run.saturating_add(len);
        }
        self.dirty.set((self.dirty.get() + 1).saturating_sub(touched));
        let listed = &mut *self.listed.borrow_mut();
        if listed.len() <= file as usize {
            listed.resize((file as usize + 1).next_power_of_two(), false);
        }
        if !std::mem::replace(&mut listed[file as usize], true) {
            self.files.borrow_mut().push(file);
        }
    }

    /// Moves an extent that got its blocks from the dirty ones to those being written.
    pub fn placed(&self, placed: Placed) {
        self.dirty.set(self.dirty.get().saturating_sub(1));
        self.ordered.borrow_mut().push_back(placed);
    }

    /// Handles pages of a file that were written, from `first` on: extents that end there get a
    /// reference to be put into the extent tree and move to `written`. Returns the number of these
    /// extents.
    pub fn written(
        &self,
        file: u32,
        (first, pages): (u32, u32),
        written: &mut VecDeque<Placed>,
    ) -> u32 {
        let ordered = &mut *self.ordered.borrow_mut();
        let ends = |p: &Placed| p.file == file && (p.first + p.pages - 1).wrapping_sub(first) < pages;
        let mut n = 0;
        while let Some(at) = ordered.iter().position(ends) {
            written.extend(ordered.remove(at));
            n += 1;
        }
        self.references.set(self.references.get() + u64::from(n));
        n
    }

    /// Recounts the dirty extents by the pages' tags, and drops files from the list that have
    /// neither dirty pages nor pages under writeback.
    fn count<const T: bool>(&self, mm: &SimMm<T>) {
        let (mut dirty, listed) = (0, &mut *self.listed.borrow_mut());
        self.files.borrow_mut().retain(|&m| {
            let runs = u64::from(mm.tagged_runs(m, Tag::Dirty));
            dirty += runs;
            let stays = runs > 0 || mm.mapping_tagged(m, Tag::Writeback);
            listed[m as usize] = stays;
            stays
        });
        self.dirty.set(dirty);
    }

    /// Returns the number of items that files have reserved.
    fn items_of_files(&self) -> u64 {
        let extents = self.dirty.get() + self.ordered.borrow().len() as u64;
        OF_EXTENT * extents + OF_FILE * self.files.borrow().len() as u64
    }
}

/// Returns true if this policy reserves metadata space before it is needed.
pub(super) fn reserves_ahead<const T: bool>(mm: &SimMm<T>) -> bool {
    mm.policy.btrfs_writeback != BtrfsWriteback::Flusher
}

/// Returns the number of items (changes of the trees) that there is metadata space for: a chunk,
/// plus an eighth of the space that metadata, which are stored twice, could still take from the
/// disk outside chunks (`calc_available_free_space`), less the global reserve. Where data have
/// chunks by size, space for one more of those is kept free.
fn limit<const T: bool>(chunks: &Chunks, mm: &SimMm<T>, fs: &Fs) -> u64 {
    let by_size = mm.policy.btrfs_writeback == BtrfsWriteback::BySize;
    let disk = fs.layout.capacity();
    let used = disk.saturating_sub(fs.layout.blocks() + fs.free_blocks());
    let chunk = chunks::blocks(disk);
    let data_chunks = if by_size { chunks.held(disk, used) } else { used.div_ceil(chunk) };
    let data = data_chunks * chunk * 4096;
    let unallocated = (disk * 4096).saturating_sub(SINCE_MKFS + 2 * METADATA_CHUNK + data);
    let spared = if by_size { chunk * 4096 } else { 0 };
    let overcommit = (unallocated / 2).saturating_sub(spared) / 8;
    ((overcommit + METADATA_CHUNK) / ITEM).saturating_sub(GLOBAL)
}

impl Btrfs {
    /// Returns the number of items that references need, those of nodes included
    /// (`delayed_refs_rsv.size`).
    fn needed_by_references(&self) -> u64 {
        OF_REFERENCE * (self.room.references.get() + self.ordered.references())
    }

    /// Returns the number of items that references have reserved. They reserve none when they
    /// arise. They keep what others give back until they have what they need
    /// (`btrfs_block_rsv_release`), and free the excess once some of them are in their tree. So
    /// putting a few there frees nothing while most lack their reservation.
    fn items_of_references(&self) -> u64 {
        let kept = self.room.kept.get().min(self.needed_by_references());
        self.room.kept.set(kept);
        kept
    }

    /// Gives back reserved items: references keep them as far as they need them.
    fn give_back(&self, items: u64) {
        let kept = self.items_of_references();
        self.room.kept.set((kept + items).min(self.needed_by_references()));
    }

    /// Applies `change` to what files have reserved, with `more` items reserved for it beforehand,
    /// and gives back the items that it does not need. Returns what `change` returns.
    pub(super) fn change_for_files<R>(&self, more: u64, change: impl FnOnce(&Room) -> R) -> R {
        let before = self.room.items_of_files() + more;
        let result = change(&self.room);
        self.give_back(before.saturating_sub(self.room.items_of_files()));
        result
    }

    /// Recounts from the pages' tags what files have reserved, and gives back the rest.
    fn count<const T: bool>(&self, mm: &SimMm<T>) {
        self.change_for_files(0, |room| room.count(mm));
    }

    /// Returns true if metadata space is left for one more write, beside the writers that were
    /// granted space and have not run yet.
    fn has_room<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let granted = OF_WRITE * (self.room.granted.get() + 1);
        let reserved = self.room.items_of_files() + self.items_of_references();
        reserved + granted < limit(&self.chunks, mm, fs)
    }

    /// Returns true if so much is reserved that space should be freed in advance
    /// (`need_preemptive_reclaim`). Where more is under writeback than dirty, files are not
    /// counted, because their writeback frees space anyway.
    fn is_short<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let (room, bdi) = (&self.room, fs.bdi.get());
        let references = self.items_of_references();
        let all_items = room.items_of_files() + references;
        if all_items <= FEW || room.waiting.get() > 0 {
            return false;
        }
        let dirty = mm.bdi_stat(bdi, BdiStat::Reclaimable);
        let ordered = mm.bdi_stat(bdi, BdiStat::Writeback);
        let counted = if ordered / 2 >= dirty { references } else { all_items };
        counted >= limit(&self.chunks, mm, fs) >> room.halved.get()
    }

    /// Reserves metadata space for writing `len` bytes of a file at `pos`. If none is left, or
    /// others wait, the task waits until the reclaiming worker grants it; if space is only short,
    /// wakes the worker that frees some in advance.
    pub(super) async fn reserve<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        (pos, len): (u64, u64),
    ) {
        let room = &self.room;
        let short = || room.waiting.get() > 0 || !self.has_room(mm, fs);
        if short() {
            self.count(mm);
        }
        if short() {
            self.wait_for_room(mm, fs).await;
        } else if !room.preempts.get() && self.is_short(mm, fs) {
            room.preempts.set(true);
            mm.world.sched.wake(workers(mm));
        }
        let page = |at: u64| (at / 4096).min(u64::from(u32::MAX)) as u32;
        let pages = (page(pos), page(pos + len - 1));
        self.change_for_files(OF_WRITE, |room| room.dirtied(mm, mapping, pages));
    }

    /// Wakes the reclaiming worker and waits until it grants metadata space for a write. Where less
    /// is under writeback than dirty, space is from now on freed earlier in advance.
    async fn wait_for_room<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let (room, queue) = (&self.room, mm.world.transaction_queue());
        room.waiting.set(room.waiting.get() + 1);
        if !room.reclaims.replace(true) {
            let pages_of = |stat| mm.bdi_stat(fs.bdi.get(), stat);
            if pages_of(BdiStat::Writeback) < pages_of(BdiStat::Reclaimable) {
                room.halved.set((room.halved.get() + 1).min(MOST_HALVED));
            }
            mm.world.sched.wake(workers(mm));
        }
        loop {
            let ticket = mm.world.sched.ticket(queue);
            if let Some(left) = room.granted.get().checked_sub(1) {
                room.granted.set(left);
                return;
            }
            mm.world.waits_on(Waited::on(WaitedKind::Request, 0));
            mm.world.sched.wait(queue, ticket, None).await;
        }
    }

    /// Grants metadata space to waiting writers as far as it reaches, and wakes them. Returns true
    /// if any was granted some.
    fn grant<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) -> bool {
        let room = &self.room;
        let granted_before = room.granted.get();
        self.count(mm);
        while room.waiting.get() > 0 && self.has_room(mm, fs) {
            room.waiting.set(room.waiting.get() - 1);
            room.granted.set(room.granted.get() + 1);
        }
        let granted_some = room.granted.get() > granted_before;
        if granted_some {
            mm.world.sched.wake(mm.world.transaction_queue());
        }
        granted_some
    }

    /// Runs the worker that frees space for waiting writers (`btrfs_async_reclaim_metadata_space`):
    /// the cheapest step first, and from the beginning again once a step helped. Never returns.
    pub(super) async fn reclaim_worker<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let room = &self.room;
        let mut step = 0;
        loop {
            let ticket = mm.world.sched.ticket(workers(mm));
            if !room.reclaims.get() {
                mm.world.sched.wait(workers(mm), ticket, None).await;
                step = 0;
                continue;
            }
            let used = room.items_of_files() + self.items_of_references();
            let excess = used.saturating_sub(limit(&self.chunks, mm, fs));
            let items = OF_WRITE * room.waiting.get() + excess;
            match step {
                0 => self.run_delayed(mm).await,
                1 => self.run_references(mm, items.div_ceil(OF_REFERENCE)).await,
                2 => self.run_references(mm, u64::MAX).await,
                3 => self.shrink(mm, fs, items, (false, false)).await,
                4 => self.shrink(mm, fs, items, (true, false)).await,
                _ => {
                    while self.committing.get() {
                        mm.world.sched.sleep_ticks(1).await;
                    }
                    self.commit_transaction(mm, fs).await;
                }
            }
            step = if self.grant(mm, fs) || step == 5 { 0 } else { step + 1 };
            room.reclaims.set(room.waiting.get() > 0);
            mm.world.relax().await;
        }
    }

    /// Runs the worker that frees space in advance (`btrfs_preempt_reclaim_metadata_space`): a
    /// quarter of the larger of the two kinds of reservations at a time. Never returns.
    pub(super) async fn preempt_worker<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let room = &self.room;
        loop {
            let ticket = mm.world.sched.ticket(workers(mm));
            if !room.preempts.get() {
                mm.world.sched.wait(workers(mm), ticket, None).await;
                continue;
            }
            let mut rounds = 0;
            self.count(mm);
            while self.is_short(mm, fs) {
                rounds += 1;
                let (files, references) = (room.items_of_files(), self.items_of_references());
                if files > references {
                    self.shrink(mm, fs, files / 4, (false, true)).await;
                } else {
                    self.run_references(mm, (references / 4).div_ceil(OF_REFERENCE)).await;
                }
                mm.world.relax().await;
                self.count(mm);
            }
            if rounds == 1 && room.waiting.get() == 0 {
                room.halved.set((room.halved.get() - 1).max(1));
            }
            room.preempts.set(false);
        }
    }

    /// Writes files back, the bytes of `items` items or an eighth of the dirty pages, and then
    /// waits until some extents are written (`waits`) or for a jiffy, up to three times
    /// (`shrink_delalloc`). `preempts`: the caller frees space in advance, and one round is enough.
    async fn shrink<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        items: u64,
        (waits, preempts): (bool, bool),
    ) {
        let pages_of = |stat| mm.bdi_stat(fs.bdi.get(), stat);
        let (mut dirty, mut ordered) = (pages_of(BdiStat::Reclaimable), pages_of(BdiStat::Writeback));
        let pages = (items * ITEM / 4096).max(dirty / 8);
        let extents = pages * 4096 / (OF_EXTENT * ITEM) * 2;
        let waits = waits || (ordered > dirty && !preempts);
        for _ in 0..3 {
            if dirty == 0 && ordered == 0 {
                // Extents that found no place on a full disk are never written.
                self.room.ordered.borrow_mut().clear();
                return;
            }
            self.write_files(mm, pages.min(dirty)).await;
            if waits {
                self.wait_for_ordered(mm, extents).await;
            } else {
                mm.world.sched.schedule_timeout(1).await;
            }
            if preempts || all_granted(self, mm, fs) {
                return;
            }
            (dirty, ordered) = (pages_of(BdiStat::Reclaimable), pages_of(BdiStat::Writeback));
        }
    }

    /// Starts to write `pages` pages of the files with dirty extents, one file after the other
    /// (`btrfs_start_delalloc_roots`).
    async fn write_files<const T: bool>(&self, mm: &SimMm<T>, pages: u64) {
        let mut wbc = WritebackControl {
            range_cyclic: false,
            ..WritebackControl::pages(pages as i64)
        };
        let mut nth = 0;
        while wbc.nr_to_write > 0 {
            let Some(file) = self.room.files.borrow().get(nth).copied() else {
                break;
            };
            writepages(mm, file, &mut wbc).await;
            nth += 1;
        }
    }

    /// Waits until `extents` of the extents being written are written, oldest first; only for a
    /// tick if the oldest was not submitted yet.
    async fn wait_for_ordered<const T: bool>(&self, mm: &SimMm<T>, extents: u64) {
        let ordered = &self.room.ordered;
        let left = (ordered.borrow().len() as u64).saturating_sub(extents) as usize;
        while ordered.borrow().len() > left {
            let first = ordered.borrow().front().copied();
            let page = first.and_then(|p| mm.next_tagged(p.file, Tag::Writeback, p.first).map(|at| (p.file, at)));
            let Some(pfn) = page.and_then(|(file, at)| mm.find_page(file, at)) else {
                // The worker that computes checksums has not submitted it yet.
                mm.world.sched.sleep_ticks(1).await;
                return;
            };
            mm.wait_on_page_writeback(pfn).await;
        }
    }
}

/// Grants space where possible, and returns true if no writer waits any more.
fn all_granted<const T: bool>(btrfs: &Btrfs, mm: &SimMm<T>, fs: &Fs) -> bool {
    btrfs.grant(mm, fs);
    btrfs.room.waiting.get() == 0
}

/// Returns the wait queue of both workers.
fn workers<const T: bool>(mm: &SimMm<T>) -> u32 {
    mm.world.queue_base + own_queue::ROOM
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::Layout;
    use super::super::super::model::Model;
    use super::*;
    use crate::params::Params;

    /// References keep what extents give back, up to what they need. While most lack theirs,
    /// putting a few into their tree frees no space; putting all of them there does.
    #[test]
    fn references_keep_what_is_given_back_until_they_have_their_own() {
        let btrfs = Btrfs::new(&Params::default(), Layout::new(1 << 22));
        btrfs.room.references.set(10);
        btrfs.give_back(25);
        assert_eq!(btrfs.items_of_references(), 25);
        btrfs.room.references.set(8);
        assert_eq!(btrfs.items_of_references(), 25);
        btrfs.give_back(100);
        assert_eq!(btrfs.items_of_references(), 8 * OF_REFERENCE);
        btrfs.room.references.set(7);
        assert_eq!(btrfs.items_of_references(), 7 * OF_REFERENCE);
        btrfs.room.references.set(0);
        assert_eq!(btrfs.items_of_references(), 0);
    }
}
