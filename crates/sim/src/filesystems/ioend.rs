//! Pages that leave writeback together (`writeback_ends = "ioend"`;
//! docs/reference/writeback.md#ends-of-writeback).
//!
//! A walk over a file's dirty pages gathers neighbours, in the file and on the disk, into bios, and
//! bios into ends. The device serves requests; a page is under writeback until all requests of its
//! end have completed and, where the blocks were new to ext4 or xfs, until a worker has converted
//! their extent (`conversion_worker`).

mod together;

use super::{Fs, SimMm, of};
use crate::Tag;
use crate::block::{Bio, Dir, Purpose};
use mm::Pfn;
use mm::cache::mapping::MappingKind;
use mm::policy::{IomapWriteback, WritebackEnds};
use mm::world::WritebackControl;
use smallvec::SmallVec;
use std::cell::RefCell;
pub(super) use together::{finish_read, read_together};

/// The limits of a bio and of an end, where pages leave writeback by ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Maximum number of pages that leave writeback together.
    pub pages: u32,
    /// Maximum number of segments (runs of adjacent frames) in a bio.
    pub segments: u32,
    /// True if each bio is an end by itself.
    pub by_bio: bool,
    /// An end never crosses a multiple of this many pages of the file.
    pub align: u32,
}

impl Ends {
    /// The limits of a plain bio (`BIO_MAX_VECS`).
    pub const BIO: Self = Self {
        pages: u32::MAX,
        segments: 256,
        by_bio: true,
        align: u32::MAX,
    };

    /// Returns true if an end of `pages` pages may take the file's next page, `index`.
    pub fn takes_page(self, pages: u32, index: u32) -> bool {
        pages < self.pages && !index.is_multiple_of(self.align)
    }

    /// Returns how many consecutive pages of the file, from page `index` on, an end of `pages`
    /// pages takes that takes the first of them; at least 1.
    fn room(self, pages: u32, index: u32) -> u32 {
        debug_assert!(pages < self.pages, "a full end takes no page");
        (self.pages - pages).min(self.align - index % self.align)
    }
}

/// An end: a run of a file's pages that leave writeback, or are unlocked after a read, together.
#[derive(Debug, Clone, Copy)]
struct End {
    mapping: u32,
    first: u32,
    pages: u32,
    /// Pages whose requests have not completed.
    left: u32,
    /// Number of bios that hold its pages; they are freed with the end.
    bios: u32,
    /// True while more pages may join.
    open: bool,
    failed: bool,
    /// True if its blocks are new.
    fresh: bool,
    /// True if its pages are being read; the end is then one bio.
    read: bool,
}

/// All ends that are under way, and the walks that gather them.
#[derive(Debug, Default)]
pub struct IoEnds(RefCell<Table>, Walks);

/// The files of all walks that are under way, one entry for each walk.
#[derive(Debug, Default)]
struct Walks(RefCell<SmallVec<[u32; 4]>>);

impl Walks {
    /// Notes that a walk over a file begins.
    fn begin(&self, mapping: u32) {
        self.0.borrow_mut().push(mapping);
    }

    /// Notes that a walk over a file has ended.
    fn end(&self, mapping: u32) {
        let mut walks = self.0.borrow_mut();
        let at = walks.iter().position(|&m| m == mapping);
        walks.swap_remove(at.expect("what ends has begun"));
    }

    /// Returns true if more than one walk over this file is under way.
    fn several(&self, mapping: u32) -> bool {
        let walks = self.0.borrow();
        walks.len() > 1 && walks.iter().filter(|&&m| m == mapping).count() > 1
    }
}

/// All ends by number, and the numbers that are free.
#[derive(Debug, Default)]
struct Table {
    ends: Vec<End>,
    free: Vec<u32>,
}

impl IoEnds {
    /// Adds an end (pages that leave writeback together) and returns its number.
    fn open(&self, end: End) -> u32 {
        let table = &mut *self.0.borrow_mut();
        if let Some(id) = table.free.pop() {
            table.ends[id as usize] = end;
            return id;
        }
        table.ends.push(end);
        u32::try_from(table.ends.len() - 1).expect("fewer ends than 32 bits can name")
    }

    /// Calls `change` with an end.
    fn change<R>(&self, id: u32, change: impl FnOnce(&mut End) -> R) -> R {
        change(&mut self.0.borrow_mut().ends[id as usize])
    }

    /// Returns the pages of an end: file, first index, number.
    pub fn pages(&self, id: u32) -> (u32, u32, u32) {
        self.change(id, |e| (e.mapping, e.first, e.pages))
    }
}

/// Handles the completion of a request that carried `blocks` pages of the end `id`; once no page is
/// left, ends the writeback, or the read, of all its pages. `failed`: the request had an error.
pub fn completed<const T: bool>(mm: &SimMm<T>, id: u32, blocks: u32, failed: bool) {
    let (done, read) = mm.world.ends.change(id, |e| {
        e.left -= blocks;
        e.failed |= failed;
        (e.left == 0 && !e.open, e.read)
    });
    if failed && !read {
        mm.world.note_lost(blocks);
    }
    match (done, read) {
        (true, false) => all_written(mm, id),
        (true, true) => together::all_read(mm, id),
        (false, _) => {}
    }
}

/// Handles an end whose pages are all written: leaves it to the conversion worker if its blocks are
/// new and the filesystem has such a worker, or ends the writeback of its pages.
fn all_written<const T: bool>(mm: &SimMm<T>, id: u32) {
    let (mapping, pages, fresh) = mm
        .world
        .ends
        .change(id, |e| (e.mapping, (e.first, e.pages), e.fresh));
    let fs = of(mm, mapping);
    ask!(fs, model => model.end_written(mm, fs, mapping, pages));
    if fresh && ask!(fs, model => model.converts(mm)) {
        fs.conversions.borrow_mut().push_back(id);
        mm.world.sched.wake(mm.world.conversion_queue(fs.volume));
    } else {
        finish(mm, id);
    }
}

/// Runs the worker that converts new extents one by one once their data is written, and then ends
/// the writeback of their pages (`ext4_end_io_rsv_work`, `xfs_end_io`). Never returns.
pub(super) async fn conversion_worker<const T: bool>(mm: &SimMm<T>, fs: &Fs) {
    let (sched, queue) = (&mm.world.sched, mm.world.conversion_queue(fs.volume));
    loop {
        let ticket = sched.ticket(queue);
        let next = fs.conversions.borrow_mut().pop_front();
        let Some(id) = next else {
            sched.wait(queue, ticket, None).await;
            continue;
        };
        ask!(fs, model => model.may_convert(mm).await);
        let mapping = mm.world.ends.pages(id).0;
        ask!(fs, model => model.converted(mm, mapping));
        mm.transaction_committed(mapping).await;
        finish(mm, id);
        sched.relax().await;
    }
}

/// Frees an end and its bios' vectors, and returns it.
fn close<const T: bool>(mm: &SimMm<T>, id: u32) -> End {
    let end = mm.world.ends.change(id, |e| *e);
    mm.world.ends.0.borrow_mut().free.push(id);
    mm.bios_ended(end.bios);
    end
}

/// Ends the writeback of an end's pages.
fn finish<const T: bool>(mm: &SimMm<T>, id: u32) {
    let end = close(mm, id);
    mm.end_writeback(end.mapping, end.first, end.pages, end.failed);
}

/// A bio that is still being filled.
#[derive(Debug, Default)]
struct Growing {
    block: u64,
    pages: u32,
    /// Number of segments; adjacent frames share one.
    segments: u32,
    last: Pfn,
}

impl Growing {
    /// Returns true if a frame extends the last segment.
    fn joins(&self, pfn: Pfn) -> bool {
        self.pages > 0 && self.last + 1 == pfn
    }

    /// Returns true if a frame fits into a bio of at most `segments` segments.
    fn has_room(&self, pfn: Pfn, segments: u32) -> bool {
        self.joins(pfn) || self.segments < segments
    }

    /// Adds pages whose places begin at `block` and whose frames are `pfns` to the bio, as far as
    /// it has room in at most `segments` segments; adjacent frames share one. Returns their number,
    /// which is at least 1: the first one fits.
    fn grow(&mut self, block: u64, pfns: &[Pfn], segments: u32) -> u32 {
        debug_assert!(self.has_room(pfns[0], segments), "no room for a page");
        if self.pages == 0 {
            self.block = block;
        }
        let before = self.pages;
        for &pfn in pfns {
            if !self.has_room(pfn, segments) {
                break;
            }
            self.segments += u32::from(!self.joins(pfn));
            self.pages += 1;
            self.last = pfn;
        }
        self.pages - before
    }
}

/// An end that takes no more pages, with its last bio, not yet submitted.
pub(super) struct Full(u32, Growing);

/// The pages that a walk has gathered and not yet submitted.
pub(super) struct Gathered {
    mapping: u32,
    purpose: Purpose,
    sync: bool,
    /// The end that is being filled, and the block after its last page.
    open: Option<(u32, u64)>,
    bio: Growing,
    /// Pages before this index got their blocks in this walk.
    fresh_until: u32,
    /// True after the model's `begin_fresh`, until `fresh_done`.
    in_transaction: bool,
}

impl Gathered {
    /// Starts to gather the pages that one writeback walk over a file submits, into bios and into
    /// ends, the runs of pages that leave writeback together (the kernel's ioends). Returns `None`
    /// if the policy's pages leave it one by one, or for metadata.
    pub fn new<const T: bool>(mm: &SimMm<T>, mapping: u32, wbc: &WritebackControl) -> Option<Self> {
        let file = mm.mappings[mapping as usize].kind() == MappingKind::File;
        let gathers = file && mm.policy.writeback_ends == WritebackEnds::IoEnd;
        if gathers {
            mm.world.ends.1.begin(mapping);
        }
        gathers.then(|| Self {
            mapping,
            purpose: purpose(mm, mapping, wbc),
            sync: wbc.sync_all,
            open: None,
            bio: Growing::default(),
            fresh_until: 0,
            in_transaction: false,
        })
    }

    /// Returns the limits of ends in this file.
    fn limits<const T: bool>(&self, mm: &SimMm<T>, fresh: bool) -> Ends {
        let fs = of(mm, self.mapping);
        ask!(fs, model => model.ends(mm, self.mapping, fresh))
    }

    /// Returns true if another walk over the file is under way, so that both must go page by page.
    pub fn is_beside<const T: bool>(&self, mm: &SimMm<T>) -> bool {
        mm.world.ends.1.several(self.mapping) && self.locks(mm) != IomapWriteback::Alone
    }

    /// Returns what a walk keeps locked while it submits a bio.
    pub fn locks<const T: bool>(&self, mm: &SimMm<T>) -> IomapWriteback {
        let fs = of(mm, self.mapping);
        ask!(fs, model => model.locks(mm))
    }

    /// Returns true if a page's blocks are new: it has none yet, or got them in this walk.
    pub fn is_fresh<const T: bool>(&self, mm: &SimMm<T>, index: u32) -> bool {
        index < self.fresh_until || of(mm, self.mapping).mapped(self.mapping, index).is_none()
    }

    /// Prepares the walk for pages from index `first` on: submits what was gathered if the pages
    /// cannot join it. Returns true if their blocks are new; the walk then joins the filesystem's
    /// transaction, for which it may wait.
    pub async fn prepare<const T: bool>(&mut self, mm: &SimMm<T>, first: u32) -> bool {
        let fresh = self.is_fresh(mm, first);
        if let Some((id, _)) = self.open {
            let (next, pages, was_fresh) = mm
                .world
                .ends
                .change(id, |e| (e.first + e.pages, e.pages, e.fresh));
            if next != first
                || was_fresh != fresh
                || !self.limits(mm, fresh).takes_page(pages, first)
            {
                self.submit(mm).await;
            }
        }
        if fresh {
            self.join(mm).await;
        }
        fresh
    }

    /// Tells the filesystem, once until `submit`, that pages with new blocks are about to be
    /// written (`begin_fresh`), and waits until they may be.
    async fn join<const T: bool>(&mut self, mm: &SimMm<T>) {
        // Tells the model once that pages with new blocks are about to be written; may wait.
        if !self.in_transaction {
            self.in_transaction = true;
            let fs = of(mm, self.mapping);
            ask!(fs, model => model.begin_fresh(mm).await);
        }
    }

    /// Returns true if the end being filled can take page `index`, whose place is `block` and whose
    /// frame is `pfn`. `fresh`: the page's blocks are new.
    pub fn takes<const T: bool>(
        &self,
        mm: &SimMm<T>,
        index: u32,
        (block, pfn): (u64, Pfn),
        fresh: bool,
    ) -> bool {
        let Some((id, next)) = self.open else {
            return false;
        };
        let limits = self.limits(mm, fresh);
        let has_room = self.bio.has_room(pfn, limits.segments) || !limits.by_bio;
        mm.world.ends.change(id, |e| {
            let follows = e.first + e.pages == index && next == block;
            follows && e.fresh == fresh && limits.takes_page(e.pages, index) && has_room
        })
    }

    /// Gathers pages from index `first` on that are under writeback and lie on contiguous blocks
    /// from `block` on. Submits ends and bios as they become full. `fresh`: their blocks are new.
    pub async fn add<const T: bool>(
        &mut self,
        mm: &SimMm<T>,
        first: u32,
        (block, pfns): (u64, &[Pfn]),
        fresh: bool,
    ) {
        if fresh && let Some((_, len)) = of(mm, self.mapping).mapped(self.mapping, first) {
            self.fresh_until = self.fresh_until.max(first + len);
        }
        let limits = self.limits(mm, fresh);
        let mut added = 0;
        while let Some(&pfn) = pfns.get(added as usize) {
            let (block, index) = (block + u64::from(added), first + added);
            let has_room = self.bio.has_room(pfn, limits.segments);
            if let Some((id, next)) = self.open {
                let full = |e: &mut End| !limits.takes_page(e.pages, index);
                if next != block || mm.world.ends.change(id, full) || (!has_room && limits.by_bio) {
                    self.submit(mm).await;
                    if fresh {
                        self.join(mm).await;
                    }
                } else if !has_room {
                    self.submit_bio(mm, id).await;
                }
            }
            let id = match self.open {
                Some((id, _)) => id,
                None => mm.world.ends.open(End {
                    mapping: self.mapping,
                    first: index,
                    pages: 0,
                    left: 0,
                    bios: 0,
                    open: true,
                    failed: false,
                    fresh,
                    read: false,
                }),
            };
            let begins_bio = self.bio.pages == 0;
            // The page, and those behind it that go into the same end and bio.
            let n = mm.world.ends.change(id, |e| {
                let rest = &pfns[added as usize..];
                let most = rest.len().min(limits.room(e.pages, index) as usize);
                let n = self.bio.grow(block, &rest[..most], limits.segments);
                e.pages += n;
                e.left += n;
                e.bios += u32::from(begins_bio);
                n
            });
            if begins_bio {
                mm.bio_begun();
            }
            self.open = Some((id, block + u64::from(n)));
            added += n;
        }
    }

    /// Submits the bio being filled, as a part of end `id`, which goes on with another bio.
    async fn submit_bio<const T: bool>(&mut self, mm: &SimMm<T>, id: u32) {
        let bio = std::mem::take(&mut self.bio);
        self.submit_grown(mm, id, bio).await;
    }

    /// Submits a bio of end `id` to the device, unless a daemon of the filesystem does that later;
    /// does nothing for an empty bio.
    async fn submit_grown<const T: bool>(&self, mm: &SimMm<T>, id: u32, bio: Growing) {
        let Growing { block, pages, .. } = bio;
        if pages == 0 {
            return;
        }
        let bio = Bio {
            tag: Tag::End { id }.pack(),
            dir: Dir::Write,
            sync: self.sync,
            block,
            blocks: pages,
            purpose: self.purpose,
        };
        let fs = of(mm, self.mapping);
        if !ask!(fs, model => model.submits_later(mm, fs.volume, bio, false)) {
            mm.world.submit_parts(fs.volume, bio).await;
        }
    }

    /// Takes the end being filled and its last bio, to be submitted with [`Self::hand_over`]; the
    /// next page begins a new end. `None`: nothing was gathered.
    pub fn take(&mut self) -> Option<Full> {
        let (id, _) = self.open.take()?;
        Some(Full(id, std::mem::take(&mut self.bio)))
    }

    /// Submits the last bio of an end that [`Self::take`] returned, and closes the end: it is
    /// finished when its requests are, perhaps at once.
    pub async fn hand_over<const T: bool>(&self, mm: &SimMm<T>, Full(id, bio): Full) {
        self.submit_grown(mm, id, bio).await;
        let done = mm.world.ends.change(id, |e| {
            e.open = false;
            e.left == 0
        });
        if done {
            all_written(mm, id);
        }
    }

    /// Ends the walk: submits what was gathered.
    pub async fn end<const T: bool>(&mut self, mm: &SimMm<T>) {
        self.submit(mm).await;
        mm.world.ends.1.end(self.mapping);
    }

    /// Submits what was gathered and closes its end; leaves the transaction first, if pages with
    /// new blocks had joined one, so that the last bio waits for the device outside of it
    /// (`ext4_do_writepages` stops its handle and then calls `ext4_io_submit`).
    pub async fn submit<const T: bool>(&mut self, mm: &SimMm<T>) {
        if std::mem::take(&mut self.in_transaction) {
            let fs = of(mm, self.mapping);
            ask!(fs, model => model.fresh_done(mm));
        }
        if let Some(full) = self.take() {
            self.hand_over(mm, full).await;
        }
    }
}

/// Returns the purpose of the bios of one call of `writepages`, by which writeback throttling
/// treats them (`wbc_to_write_flags`, `REQ_META`).
pub(super) fn purpose<const T: bool>(
    mm: &SimMm<T>,
    mapping: u32,
    wbc: &WritebackControl,
) -> Purpose {
    if wbc.sync_all || mm.mappings[mapping as usize].is_meta() {
        Purpose::Waited
    } else if wbc.for_kupdate || wbc.for_background {
        Purpose::Background
    } else {
        Purpose::Writeback
    }
}
