//! The memory that records beside cached pages take.
//!
//! With `page_metadata = "slabs"` these are nodes of the trees, 14 on two pages (`radix_tree_node`,
//! 576 bytes), and buffer heads of pages that were written on filesystems that keep them, 39 on a
//! page (104 bytes). With `writeback_bios = "vectors"` each bio under way has a vector of 256
//! entries, 8 of them on eight pages; with `swap_bios = "pool"` each page on its way to swap has a
//! bio of 192 bytes, 21 on a page. Records of btrfs's extents are in
//! [`extents`](crate::cache::extents), those of XFS's log in
//! [`log_items`](crate::cache::log_items).
//!
//! Records fill slabs without gaps; the oldest slab is freed first, and five with room for whole
//! ones are kept (SLUB's `min_partial`). A slab is allocated without waiting, as `xas_alloc` does
//! under its lock: of two pages, else of one, from the low watermark and then from the min
//! watermark with kswapd woken. If that fails, the next record tries again; Linux would let the
//! task reclaim. A vector is tried for once: without memory there is one in reserve
//! (`mempool_alloc`), and swap waits for one of its own bios to end. Slabs are not counted as
//! reclaimable: no shrinker frees them.

use crate::cache::extents::Extents;
use crate::cache::log_items::{LogItems, RECORDS};
use crate::cache::mapping::Mapping;
use crate::cache::tree::SLOTS;
use crate::memory::frame::flag;
use crate::memory::gfp::Gfp;
use crate::memory::watermark::lowmem_kbytes;
use crate::policy::{PageMetadata, SwapBios, WritebackBios};
use crate::queue;
use crate::world::{ShortLock, WaitQueue, Waits, Word32, Word64, World};
use crate::{Mm, NoMemory, Pfn, Policy, SECOND, ZoneInfo, ZoneType, has_highmem};

/// Slabs with room that a cache keeps (`MIN_PARTIAL`).
const MIN_PARTIAL: u32 = 5;
/// Bios for swap in reserve (`BIO_POOL_SIZE`).
const POOL: u32 = 2;
/// How long a task waits for such a bio, in ns (`mempool_alloc`).
const POOL_WAIT: u64 = 5 * SECOND;
/// Bit of a ring's entry: the slab has one page although slabs of its cache have more.
const SMALL: u32 = 1 << 31;
/// Bit of a ring's entry: the page belongs to one record ([`Mm::map_log_buffers`]); with [`SMALL`]
/// it is not the record's last page.
const MAPPED: u32 = 1 << 30;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    TreeNode,
    BufferHead,
    BioVec,
    SwapBio,
    /// The record of an extent of a file, up to 6.8, and in `ExtentMap` from 6.11 on.
    WideExtentMap,
    ExtentMap,
    /// The record of an extent that is being written, and in `OrderedBio` its bio.
    OrderedExtent,
    OrderedBio,
    /// The records beside an inode of ext4: `jbd2_inode` (64 bytes), and the status of an extent
    /// (40 bytes).
    InodeBeside,
    /// The log item of an XFS inode; the kinds `LogBuffer…` are buffers of items.
    XfsInodeItem,
    LogBuffer512,
    LogBuffer1k,
    LogBuffer2k,
    LogBuffer4k,
    LogBuffer8k,
    /// An XFS's buffer of a block or of a cluster of inodes, and in `XfsBufferPage` a page of it.
    XfsBuffer,
    XfsBufferPage,
}

impl Record {
    const ALL: [Self; 17] = [
        Self::TreeNode,
        Self::BufferHead,
        Self::BioVec,
        Self::SwapBio,
        Self::WideExtentMap,
        Self::ExtentMap,
        Self::OrderedExtent,
        Self::OrderedBio,
        Self::InodeBeside,
        Self::XfsInodeItem,
        Self::LogBuffer512,
        Self::LogBuffer1k,
        Self::LogBuffer2k,
        Self::LogBuffer4k,
        Self::LogBuffer8k,
        Self::XfsBuffer,
        Self::XfsBufferPage,
    ];
    /// The kinds that cached pages have.
    const OF_PAGES: [Self; 2] = [Self::TreeNode, Self::BufferHead];

    /// Returns the number of records that a whole slab of this kind holds, and the slab's order
    /// (2^order pages). With HighMem these are the records of 32 bits, of 304, 56, 3072, 128, 112,
    /// 80, 256, 256 and 128 bytes; slabs of log buffers hold as many as with 64 bits.
    const fn shape(self, highmem: bool) -> (u32, u32) {
        match (self, highmem) {
            (Self::TreeNode, false) => (14, 1),
            (Self::BufferHead, false) => (39, 0),
            (Self::BioVec, false) => (8, 3),
            (Self::SwapBio, false) => (21, 0),
            (Self::WideExtentMap, false) => (28, 0),
            (Self::ExtentMap, false) => (39, 0),
            (Self::OrderedExtent | Self::OrderedBio, false) => (10, 0),
            (Self::InodeBeside, false) => (39, 0),
            (Self::XfsInodeItem, false) => (20, 0),
            (Self::LogBuffer512, _) => (8, 0),
            (Self::LogBuffer1k, _) => (8, 1),
            (Self::LogBuffer2k, _) => (16, 3),
            (Self::LogBuffer4k, _) => (8, 3),
            (Self::LogBuffer8k, _) => (4, 3),
            (Self::XfsBuffer, _) => (10, 0),
            (Self::XfsBufferPage, _) => (1, 0),
            (Self::TreeNode, true) => (26, 1),
            (Self::BufferHead, true) => (73, 0),
            (Self::BioVec, true) => (10, 3),
            (Self::SwapBio, true) => (32, 0),
            (Self::WideExtentMap, true) => (36, 0),
            (Self::ExtentMap, true) => (51, 0),
            (Self::OrderedExtent | Self::OrderedBio, true) => (16, 0),
            (Self::InodeBeside, true) => (56, 0),
            (Self::XfsInodeItem, true) => (32, 0),
        }
    }

    /// Returns true if it is a record of XFS's log.
    const fn of_log(self) -> bool {
        self as u32 >= Self::XfsInodeItem as u32
    }

    /// Returns the flags with which slabs of this kind of record are allocated: never waiting, as
    /// reclaimable or as unmovable memory.
    const fn gfp(self) -> Gfp {
        match self {
            Self::TreeNode | Self::BufferHead | Self::InodeBeside | Self::XfsInodeItem => {
                Gfp::SLAB_NOWAIT
            }
            _ => Gfp::UNMOVABLE_NOWAIT,
        }
    }

    /// Returns how many records the slabs of this kind may have room for beside those in use,
    /// before empty slabs are freed: those of five slabs and of the one in use.
    const fn spare(self, highmem: bool) -> u32 {
        (MIN_PARTIAL + 1) * self.shape(highmem).0
    }

    /// Returns, as [`Record::shape`] does, the number of records and the order of the smallest
    /// slab, which is tried if no whole one can be allocated: one page, or as many as one record
    /// needs.
    const fn small(self, highmem: bool) -> (u32, u32) {
        let (whole, order) = self.shape(highmem);
        match self {
            Self::LogBuffer8k => (1, 1),
            _ => (whole >> order, 0),
        }
    }

    /// Returns the number of records that a slab holds and its order, given the slab's word `entry`
    /// in the ring: a whole slab, a small one, or a page of a single mapped log buffer (order 0,
    /// and the record counts at its last page).
    fn of_entry(self, entry: u32, highmem: bool) -> (u32, u32) {
        match (entry & MAPPED != 0, entry & SMALL != 0) {
            (false, false) => self.shape(highmem),
            (false, true) => self.small(highmem),
            (true, last) => (u32::from(!last), 0),
        }
    }
}

/// The slabs of one kind, the oldest first.
struct Slabs<W: World> {
    ring: Box<[W::U32]>,
    first: W::U32,
    count: W::U32,
    /// Records that the slabs have room for.
    room: W::U32,
    /// Records that they may have room for beside those in use.
    spare: u32,
}

impl<W: World> Slabs<W> {
    /// Returns the ring's word of the `nth`-oldest slab, from 0 (the frame number of its first
    /// page, and flags); for `count`, the place of the next slab.
    fn entry(&self, nth: u32) -> &W::U32 {
        &self.ring[((self.first.get() + nth) % self.ring.len() as u32) as usize]
    }

    /// Returns the words of all slabs of this kind, the oldest first (see [`Slabs::entry`]).
    fn entries(&self) -> impl Iterator<Item = u32> {
        (0..self.count.get()).map(|nth| self.entry(nth).get())
    }
}

/// The records beside cached pages, and bios; empty if they take no memory.
pub(crate) struct Metadata<W: World> {
    slabs: Box<[Slabs<W>]>,
    /// Whether cached pages' records take memory, and in the next two whether bios of writeback and
    /// of swap do.
    pages: bool,
    bios: bool,
    swap_bios: bool,
    /// The records of extents.
    pub(crate) extents: Extents<W>,
    /// The records of XFS's log.
    pub(crate) log_items: LogItems<W>,
    /// Bios of files under way.
    under_way: W::U32,
    /// Bios of pages on their way to swap.
    to_swap: W::U32,
    /// Bios for swap taken out of the reserve.
    reserve_out: W::U32,
    /// Buffer heads in use.
    buffers: W::U32,
    /// The number above which buffer heads are too many: what a tenth of low memory has room for
    /// (Linux fs/buffer.c, `buffer_init`).
    max_buffers: u32,
    /// By leaf, a bit for each page that has a buffer head.
    pub(crate) buffered: Box<[W::U64]>,
    lock: W::Lock,
}

impl<W: World> Metadata<W> {
    /// Allocates the slabs of the page cache's own objects (tree nodes, buffer heads, bios,
    /// extents, log items), each kind with room for the most that the machine can have and without
    /// any where the policy does not keep the kind. `nodes`: nodes of the files' trees; `frames`,
    /// `mappings`, `groups`: pages of the machine, files, allocation groups of XFS.
    ///
    /// # Errors
    /// Fails if the host has too little memory for the tables.
    pub(crate) fn new(
        policy: &Policy,
        nodes: u32,
        (frames, mappings, groups): (u32, u32, u32),
        zones: &[ZoneInfo],
    ) -> Result<Self, NoMemory> {
        let highmem = has_highmem(zones);
        let on = policy.page_metadata == PageMetadata::Slabs;
        let bios = policy.writeback_bios == WritebackBios::Vectors;
        let swap_bios = policy.swap_bios == SwapBios::Pool;
        let what = "the page cache's records";
        let extents = Extents::new(policy.extent_maps, nodes, mappings)?;
        let log_items = LogItems::new(policy, groups);
        // The largest number of slabs of a kind, each of which has a page.
        let most = |of: Record| {
            // Whether the policy keeps this kind, and the most slabs that its records can need.
            let (kept, records) = match of {
                Record::TreeNode => (on, nodes.div_ceil(of.small(highmem).0)),
                Record::BufferHead => (on, frames.div_ceil(of.small(highmem).0)),
                Record::InodeBeside => (on, frames),
                Record::BioVec => (bios, frames),
                Record::SwapBio => (swap_bios, frames),
                _ => (extents.has(of) || log_items.on() && of.of_log(), frames),
            };
            if kept { records + MIN_PARTIAL + 2 } else { 0 }
        };
        let slabs = |of: Record| -> Result<Slabs<W>, NoMemory> {
            Ok(Slabs {
                ring: heap::zeroed(what, most(of) as usize)?,
                first: bytemuck::Zeroable::zeroed(),
                count: bytemuck::Zeroable::zeroed(),
                room: bytemuck::Zeroable::zeroed(),
                spare: of.spare(highmem),
            })
        };
        Ok(Self {
            slabs: match on || bios || swap_bios || extents.kept() || log_items.on() {
                true => Record::ALL
                    .into_iter()
                    .map(slabs)
                    .collect::<Result<_, _>>()?,
                false => Box::default(),
            },
            extents,
            log_items,
            pages: on,
            bios,
            swap_bios,
            under_way: bytemuck::Zeroable::zeroed(),
            to_swap: bytemuck::Zeroable::zeroed(),
            reserve_out: bytemuck::Zeroable::zeroed(),
            buffers: bytemuck::Zeroable::zeroed(),
            max_buffers: {
                let lowmem = lowmem_kbytes(zones) / 4;
                let most = lowmem / 10 * u64::from(Record::BufferHead.shape(highmem).0);
                most.min(u64::from(u32::MAX)) as u32
            },
            buffered: heap::zeroed(what, if on { nodes as usize } else { 0 })?,
            lock: W::Lock::default(),
        })
    }

    /// Returns the largest number of bios under way that the tables have room for, each of which
    /// has a page at least.
    fn most_bios(&self) -> usize {
        self.slabs[Record::BioVec as usize].ring.len()
    }

    /// Returns true if the records of cached pages (tree nodes and buffer heads) take memory.
    #[inline(always)]
    pub(crate) fn counts(&self) -> bool {
        self.pages
    }

    /// Returns true if there may be records to free when a page leaves its file: buffer heads, or
    /// records of extents.
    #[inline(always)]
    pub(crate) fn of_leaves(&self) -> bool {
        self.pages || self.extents.kept()
    }
}

impl<W: World> Mm<W> {
    /// Marks a file as one whose pages get buffer heads when they are written.
    pub fn keep_buffers(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        self.mappings[mapping as usize].buffers.set(1);
    }

    /// Returns true if a file's pages have buffer heads that take memory.
    #[inline(always)]
    pub(crate) fn keeps_buffers(&self, m: &Mapping<W>) -> bool {
        self.metadata.counts() && m.buffers.get() != 0
    }

    /// Adds the buffer head of page `index` of a file that is written, if it has none, and
    /// allocates a slab for it if needed. The page must be cached. Does nothing if the file keeps
    /// no buffer heads.
    #[inline(always)]
    pub(crate) fn buffer_written(&self, m: &Mapping<W>, index: u32) {
        if self.keeps_buffers(m) {
            m.tree_lock.with(|| {
                let leaf = self
                    .leaf_at(m, index)
                    .expect("a page that is written is cached");
                self.buffer_pages(leaf.node, index, 1);
            });
            self.settle_metadata();
        }
    }

    /// Does [`Self::buffer_written`] for `n` consecutive pages from `index` on, all in the tree
    /// node `leaf`.
    #[inline(always)]
    pub(crate) fn buffers_written(&self, m: &Mapping<W>, leaf: u32, index: u32, n: u32) {
        if self.keeps_buffers(m) {
            m.tree_lock.with(|| self.buffer_pages(leaf, index, n));
            self.settle_metadata();
        }
    }

    /// Returns how many fresh pages of a file, which are also written if `dirty`, can get their
    /// tree nodes and buffer heads before slabs have to be allocated or freed; `u32::MAX`: any
    /// number.
    #[inline(always)]
    pub(crate) fn buffers_for(&self, m: &Mapping<W>, dirty: bool) -> u32 {
        if !self.metadata.counts() {
            return u32::MAX;
        }
        // After a failed allocation of a slab, every page tries again.
        if !Record::OF_PAGES.into_iter().all(|of| self.settled(of)) {
            return 0;
        }
        if !dirty || !self.keeps_buffers(m) {
            return u32::MAX;
        }
        let slabs = &self.metadata.slabs[Record::BufferHead as usize];
        slabs.room.get().saturating_sub(self.metadata.buffers.get())
    }

    /// Returns true if the room in slabs for records of the kind `of` (such as tree nodes) is
    /// enough for those in use and not beyond the spare room, so that [`Mm::settle`] would do
    /// nothing.
    #[inline(always)]
    fn settled(&self, of: Record) -> bool {
        let slabs = &self.metadata.slabs[of as usize];
        let (room, records) = (slabs.room.get(), self.records(of));
        records <= room && room <= records + slabs.spare
    }

    /// Returns the number of records of the kind `of` in use; of bios for swap, those beyond the
    /// first slab.
    pub(crate) fn records(&self, of: Record) -> u32 {
        match of {
            Record::TreeNode => self.nodes_pool.in_use(),
            Record::BufferHead => self.metadata.buffers.get(),
            Record::BioVec => self.metadata.under_way.get(),
            // The kernel has had one slab of these since boot.
            Record::SwapBio => self
                .metadata
                .to_swap
                .get()
                .saturating_sub(Record::SwapBio.shape(self.highmem).0),
            Record::InodeBeside => self.with_beside(),
            of if of.of_log() => self.metadata.log_items.records(of),
            _ => self.metadata.extents.records(of),
        }
    }

    /// Counts buffer heads of `n` consecutive pages from `index` on, all in the tree node `leaf`; a
    /// page that has one keeps it. [`Mm::settle_metadata`] must follow.
    #[inline(always)]
    pub(crate) fn buffer_pages(&self, leaf: u32, index: u32, n: u32) {
        let bits = (u64::MAX >> (SLOTS - n)) << (index & (SLOTS - 1));
        let before = self.metadata.buffered[leaf as usize].fetch_or(bits);
        self.metadata
            .buffers
            .fetch_add((bits & !before).count_ones());
    }

    /// Frees the records (buffer heads, records of extents) of pages of a file that leave the tree
    /// node `leaf`; `bits` has a bit for each of its 64 pages that leaves. [`Mm::settle_metadata`]
    /// must follow.
    #[inline(always)]
    pub(crate) fn pages_leave(&self, mapping: u32, leaf: u32, bits: u64) {
        if self.metadata.counts() {
            self.unbuffer_pages(leaf, bits);
        }
        self.metadata.extents.pages_leave(mapping, leaf, bits);
    }

    /// Takes off the count the buffer heads of the pages of the tree node `leaf` whose bits are set
    /// in `bits`.
    #[inline(always)]
    fn unbuffer_pages(&self, leaf: u32, bits: u64) {
        let before = self.metadata.buffered[leaf as usize].fetch_and(!bits);
        self.metadata
            .buffers
            .fetch_sub((bits & before).count_ones());
    }

    /// Returns true if there are more buffer heads than low memory should hold. (The kernel tests
    /// this only at every 4096th that is allocated or freed.)
    #[inline]
    pub(crate) fn buffer_heads_over_limit(&self) -> bool {
        self.metadata.counts() && self.metadata.buffers.get() > self.metadata.max_buffers
    }

    /// Returns true if reclaim for low memory also scans HighMem, whose pages have buffer heads
    /// that fill low memory (`highmem_for_buffers`).
    #[inline]
    pub(crate) fn reclaims_highmem(&self) -> bool {
        self.highmem && self.policy.highmem_for_buffers && self.buffer_heads_over_limit()
    }

    /// Returns the index of the highest zone type whose pages reclaim takes for a request that may
    /// use zones up to `classzone`: that one, or HighMem while too many buffer heads fill low
    /// memory.
    pub(crate) fn reclaim_classzone(&self, classzone: usize) -> usize {
        match self.reclaims_highmem() {
            true => ZoneType::HighMem.index(),
            false => classzone,
        }
    }

    /// Frees the buffer head of an isolated page of a file, unless the page is dirty, under
    /// writeback, locked by a task, or not of a file (`try_to_release_page`).
    /// [`Mm::settle_metadata`] must follow.
    pub(crate) fn strip_buffers(&self, pfn: Pfn) {
        const BUSY: u32 = flag::DIRTY | flag::WRITEBACK | flag::LOCKED | flag::SWAPBACKED;
        let page = self.frames.page(pfn);
        let f = page.flags();
        if f & BUSY != 0 || f & flag::CACHED == 0 {
            return;
        }
        let (mapping, index) = (page.mapping(), page.index());
        let m = &self.mappings[mapping as usize];
        if self.keeps_buffers(m) {
            m.tree_lock.with(|| {
                if let Some(leaf) = self.leaf_at(m, index) {
                    self.unbuffer_pages(leaf.node, 1 << (index & (SLOTS - 1)));
                }
            });
        }
    }

    /// Allocates the slabs that tree nodes, buffer heads and records of extents need after their
    /// numbers changed, and frees the slabs beyond their spare room.
    #[inline(always)]
    pub(crate) fn settle_metadata(&self) {
        if self.metadata.counts() {
            Record::OF_PAGES.into_iter().for_each(|of| self.settle(of));
        }
        if self.metadata.extents.kept() {
            let maps = self.metadata.extents.maps();
            // Most pages that enter or leave do not change the slabs of extents.
            if !self.settled(maps) {
                self.settle(maps);
            }
        }
    }

    /// Begins a bio for pages of a file, which takes memory for its vector until
    /// [`Mm::bios_ended`].
    pub fn bio_begun(&self) {
        if self.metadata.bios {
            debug_assert!(
                (self.metadata.under_way.get() as usize) < self.metadata.most_bios(),
                "each bio has a page"
            );
            self.metadata.under_way.fetch_add(1);
            self.settle(Record::BioVec);
        }
    }

    /// Ends `n` bios of files and frees slabs of their vectors beyond the spare room.
    pub fn bios_ended(&self, n: u32) {
        if self.metadata.bios {
            let before = self.metadata.under_way.fetch_sub(n);
            debug_assert!(before >= n, "{n} of {before} bios ended");
            self.settle(Record::BioVec);
        }
    }

    /// Begins a bio for a page that goes to swap, which lasts until [`Mm::swap_bio_ended`]. Takes
    /// it from the slabs or, without memory, from a reserve of two; waits for a bio to end if that
    /// is empty too (`mempool_alloc`).
    pub(crate) async fn swap_bio(&self) {
        if !self.metadata.swap_bios {
            return;
        }
        let q = self.swap_bio_queue();
        loop {
            // The bio is counted first and taken off again if there is none.
            let ticket = self.world.ticket(q);
            self.metadata.to_swap.fetch_add(1);
            self.settle(Record::SwapBio);
            let room = self.metadata.slabs[Record::SwapBio as usize].room.get();
            let reserve = &self.metadata.reserve_out;
            if self.records(Record::SwapBio) <= room + reserve.get() {
                return;
            }
            if reserve.get() < POOL {
                reserve.fetch_add(1);
                return;
            }
            self.metadata.to_swap.fetch_sub(1);
            self.world.waits_for(Waits::Device);
            self.world.wait(q, ticket, Some(POOL_WAIT)).await;
        }
    }

    /// Ends the bio of a page written to swap: returns it to the reserve, if bios of the reserve
    /// are out, and wakes the tasks that wait for one, else to the slabs.
    pub fn swap_bio_ended(&self) {
        if !self.metadata.swap_bios {
            return;
        }
        let before = self.metadata.to_swap.fetch_sub(1);
        debug_assert!(before > 0, "a bio that ends was begun");
        if self.metadata.reserve_out.get() == 0 {
            return self.settle(Record::SwapBio);
        }
        // The reserve is refilled first, and waiters are woken.
        self.metadata.reserve_out.fetch_sub(1);
        self.world.wake(self.swap_bio_queue());
    }

    /// Checks that no task waits for a bio to swap while the reserve has one (fewer than `POOL` of
    /// its bios are out).
    ///
    /// # Errors
    /// If there is such a task.
    pub(crate) fn check_swap_bio_waits(&self) -> Result<(), String> {
        let bio_available = self.metadata.swap_bios && self.metadata.reserve_out.get() < POOL;
        match bio_available && self.world.waited_on(self.swap_bio_queue()) {
            true => Err("a task waits in vain for a bio to swap: the pool has one".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the wait queue of the tasks that wait for a bio for swap.
    fn swap_bio_queue(&self) -> WaitQueue {
        queue::swap_bios(&self.config, self.nodes.len() as u32)
    }

    /// Fits the slabs of a kind of records to the number in use: allocates slabs until there is
    /// room for all, and frees the oldest ones beyond the spare room. If no slab can be allocated,
    /// the records stay without room, and the next call tries again.
    #[inline(never)]
    pub(crate) fn settle(&self, of: Record) {
        let slabs = &self.metadata.slabs[of as usize];
        let (_, order) = of.shape(self.highmem);
        while self.records(of) > slabs.room.get() {
            let least = of.small(self.highmem).1;
            // `order`, `least`: the order of a whole slab and of the smallest; `got`: the one
            // allocated.
            let Some((pfn, got)) = self.new_slab(of.gfp(), order, least) else {
                if RECORDS.contains(&of) {
                    self.metadata.log_items.short.set(1);
                }
                return;
            };
            self.add_slab(of, pfn | if got < order { SMALL } else { 0 });
        }
        while slabs.room.get() > self.records(of) + slabs.spare {
            let oldest = self.metadata.lock.with(|| {
                let entry = slabs.entry(0).get();
                let (records, order) = of.of_entry(entry, self.highmem);
                slabs
                    .first
                    .set((slabs.first.get() + 1) % slabs.ring.len() as u32);
                slabs.count.fetch_sub(1);
                slabs.room.fetch_sub(records);
                (entry & !(SMALL | MAPPED), order)
            });
            match oldest {
                (pfn, 0) => self.free_page(pfn, false),
                (pfn, order) => {
                    self.mark_tail(pfn, order, 0);
                    self.free_pages_order(pfn, order);
                }
            }
        }
    }

    /// Adds a slab to those of the kind `of` and counts its room. `entry`: the frame number of its
    /// first page, with the flags `SMALL` and `MAPPED`.
    fn add_slab(&self, of: Record, entry: u32) {
        let slabs = &self.metadata.slabs[of as usize];
        self.metadata.lock.with(|| {
            slabs.entry(slabs.count.get()).set(entry);
            slabs.count.fetch_add(1);
            slabs.room.fetch_add(of.of_entry(entry, self.highmem).0);
        });
    }

    /// Gives pages of their own to XFS log buffers for which no slab could be allocated, if there
    /// are such (`short`); the caller may have to reclaim for each (`xlog_kvmalloc`: `vmalloc` maps
    /// what `kmalloc` refuses). Called when a transaction commits.
    #[inline(always)]
    pub async fn map_log_buffers(&self) {
        if self.metadata.log_items.short.get() != 0 {
            self.map_short_buffers().await;
        }
    }

    /// Does [`Mm::map_log_buffers`] if log buffers may be without memory (`short`): allocates, page
    /// by page, as many as each of them needs. After a failed allocation the next call tries again.
    #[cold]
    async fn map_short_buffers(&self) {
        let short = &self.metadata.log_items.short;
        short.set(0);
        for of in RECORDS {
            let slabs = &self.metadata.slabs[of as usize];
            while self.records(of) > slabs.room.get() {
                // A buffer has one page, or two of 8 KiB; `left`: pages that it needs after this
                // one.
                for left in (0..of.small(self.highmem).1 + 1).rev() {
                    let Some(pfn) = self.alloc_page(Gfp::NOFS_UNMOVABLE).await else {
                        short.set(1);
                        return;
                    };
                    debug_assert!(pfn < MAPPED, "page {pfn}");
                    self.add_slab(of, pfn | MAPPED | if left > 0 { SMALL } else { 0 });
                }
            }
        }
    }

    /// Sets the flags of the pages of a slab behind its first one to `bits`, which says whether
    /// they are in use. `pfn`: the first page; the slab has 2^`order` pages.
    fn mark_tail(&self, pfn: Pfn, order: u32, bits: u32) {
        let z = self.frames.zone(pfn);
        for tail in pfn + 1..pfn + (1 << order) {
            self.frames.page(tail).reset_flags(z, bits);
        }
    }

    /// Allocates a slab of 2^`order` pages without waiting or, if that fails, of 2^`least`. Returns
    /// its first page and its order; `None` if there is no memory.
    fn new_slab(&self, gfp: Gfp, order: u32, least: u32) -> Option<(Pfn, u32)> {
        let alloc = |order| {
            let now = self.world.now();
            self.alloc_pages_fast(gfp, order, now)
                .or_else(|| self.alloc_nowait(gfp, order))
        };
        let whole = alloc(order).map(|pfn| (pfn, order));
        let slab = match order {
            0 => whole,
            _ => whole.or_else(|| alloc(least).map(|pfn| (pfn, least))),
        };
        if let Some((pfn, order)) = slab {
            self.mark_tail(pfn, order, flag::USED);
        }
        slab
    }

    /// Recounts buffer heads, extents and the room of the slabs against their counts. Returns a
    /// description of the first difference.
    pub(crate) fn check_metadata(&self) -> Result<(), String> {
        if self.metadata.slabs.is_empty() {
            return Ok(());
        }
        let bits = self.metadata.buffered.iter().map(|b| b.get().count_ones());
        let (found, counted) = (bits.sum::<u32>(), self.metadata.buffers.get());
        if found != counted {
            return Err(format!(
                "{found} pages have buffer heads, {counted} are counted"
            ));
        }
        self.metadata.extents.check()?;
        for of in Record::ALL {
            let slabs = &self.metadata.slabs[of as usize];
            let room: u32 = slabs
                .entries()
                .map(|entry| of.of_entry(entry, self.highmem).0)
                .sum();
            if room != slabs.room.get() {
                return Err(format!(
                    "{of:?}: slabs for {room}, counted for {}",
                    slabs.room.get()
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of pages that the slabs of all kinds of records take.
    pub fn metadata_pages(&self) -> u64 {
        let of = |record: Record| {
            let slabs = self.metadata.slabs.get(record as usize)?;
            let pages = |entry| 1 << record.of_entry(entry, self.highmem).1;
            Some(slabs.entries().map(pages).sum::<u64>())
        };
        Record::ALL.into_iter().filter_map(of).sum()
    }
}
