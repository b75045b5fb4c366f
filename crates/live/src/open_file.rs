//! An open file of a cache: its system calls, the locks between writers and truncation, and the
//! pages that could not be written.
//!
//! **A truncation waits for the tasks that change the file**, and keeps further ones out. A program
//! may hold a page of the file ([`crate::PageMut`]), want another one before it lets go of the
//! first, and do so through another thread. So while a page is held, a task that waits for the
//! truncation is let in all the same: at once if it holds a page itself, else after [`PATIENCE`].
//! A truncation thus waits as long as the program's threads hold pages without a gap, and pages
//! that are held for less than [`PATIENCE`] do not keep it out.
//!
//! **A page whose write failed is kept.** It is not dirty to the engine, so the flusher does not
//! try it again and again, and writers do not wait for it; but reclaim leaves it in its file
//! (`ERROR`, `World::release_page`), and every sync makes it dirty and tries again. Until a sync
//! has written all such pages, further writes to the file are refused. Kept pages take at most half
//! of memory; beyond that data is lost, which is reported, and the page is read anew.

use crate::LiveMm;
use crate::error::Error;
use crate::errseq::{ErrorSequence, Fate};
use crate::shared::assert_none_held;
use crate::storage::{Backing, Way};
use crate::sync::{AtomicBool, AtomicU32, Mutex};
use crate::world::LiveWorld;
use mm::world::{TaskId, Tasks};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;

/// Bit of a count of sharers: a task truncates the file, or waits to; no new sharer is let in.
const CUTTING: u32 = 1 << 31;

/// How long a task without a page in hand waits for a truncation that waits for such pages, before
/// it is let in, in nanoseconds.
const PATIENCE: u64 = 10_000_000;

/// The file of a mapping.
pub struct OpenFile {
    /// Its mapping number in the engine.
    pub(crate) mapping: u32,
    /// The number of its device.
    pub(crate) bdi: u32,
    /// The path at which it was first opened, for messages.
    pub(crate) path: PathBuf,
    backing: Box<dyn Backing>,
    /// The file opened for writing, if it was opened for reading only at first.
    writer: OnceLock<Box<dyn Backing>>,
    only_reads: AtomicBool,
    /// The class of memory that its pages are taken from.
    pub(crate) class: AtomicU32,
    /// The number of tasks that are changing the file's contents, and [`CUTTING`].
    sharers: AtomicU32,
    /// The tasks that took their right to change the file to hold a page of it, once for each such
    /// right, and their number.
    holders: Mutex<Vec<TaskId>>,
    holding: AtomicU32,
    /// The number of write transfers within the file's size, and [`CUTTING`]. While a task
    /// truncates or extends the file there is none, so that the system's file and our size change
    /// together.
    writes: AtomicU32,
    pub(crate) errors: ErrorSequence,
    /// Indices of the pages whose write failed.
    kept: Mutex<BTreeSet<u32>>,
    /// Why writes are refused: an errno, or 0.
    failing: AtomicU32,
    fail_writes: AtomicBool,
}

impl OpenFile {
    /// Makes the state of a file that was opened: its mapping and device (bdi) numbers in the
    /// engine, its path, and its system calls (`backing`).
    pub(crate) fn new(
        (mapping, bdi): (u32, u32),
        path: PathBuf,
        backing: Box<dyn Backing>,
    ) -> Self {
        Self {
            mapping,
            bdi,
            path,
            backing,
            writer: OnceLock::new(),
            only_reads: AtomicBool::new(false),
            class: AtomicU32::new(0),
            sharers: AtomicU32::new(0),
            holders: Mutex::default(),
            holding: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            errors: ErrorSequence::default(),
            kept: Mutex::default(),
            failing: AtomicU32::new(0),
            fail_writes: AtomicBool::new(false),
        }
    }

    /// Marks the file as opened for reading only, before any task knows it.
    pub(crate) fn only_reads(&self) {
        self.only_reads.store(true, SeqCst);
    }

    /// Makes a file that was opened for reading only one that is written by `writer`, the same file
    /// opened for writing, and locks it against other caches; does nothing if the file can be
    /// written.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: another cache reads the file.
    pub(crate) fn writes_by(&self, writer: Box<dyn Backing>) -> Result<(), Errno> {
        if !self.only_reads.load(SeqCst) {
            return Ok(());
        }
        assert_none_held();
        if let Err(e) = self.backing.lock(true) {
            // The exchange of a shared lock for an exclusive one gives the shared one up first.
            // Only a cache that writes the file could have come in between; it sees no change by
            // this one.
            let _ = self.backing.lock(false);
            return Err(e);
        }
        // Another task may have done the same.
        let _ = self.writer.set(writer);
        self.only_reads.store(false, SeqCst);
        Ok(())
    }

    /// Returns the file as it is written.
    fn writer(&self) -> &dyn Backing {
        self.writer.get().unwrap_or(&self.backing).as_ref()
    }

    /// Ends the lock against other caches.
    pub(crate) fn unlock(&self) {
        self.backing.unlock();
    }

    pub(crate) fn fail_writes(&self, fail: bool) {
        self.fail_writes.store(fail, SeqCst);
    }

    /// Begins a write transfer: waits until no task truncates the file, and keeps it from being
    /// truncated until [`OpenFile::written`]. A write behind the file's end can still extend it.
    pub(crate) async fn writes(&self, mm: &LiveMm) {
        until(mm, self, || try_join(&self.writes)).await;
    }

    /// Ends a write transfer; the last one wakes a task that waits to truncate the file.
    pub(crate) fn written(&self, w: &LiveWorld) {
        if self.writes.fetch_sub(1, SeqCst) == CUTTING + 1 {
            w.wake(w.file_queue(self.mapping));
        }
    }

    /// Runs `f`, which truncates or extends the file, while no write transfer is on its way, and
    /// lets transfers begin again. Returns the result of `f`.
    pub(crate) async fn move_end<T>(&self, mm: &LiveMm, f: impl Future<Output = T>) -> T {
        exclude(mm, self, &self.writes).await;
        let r = f.await;
        let w = &mm.world;
        self.writes.fetch_and(!CUTTING, SeqCst);
        w.wake(w.file_queue(self.mapping));
        r
    }

    /// Returns how a ring makes a transfer; see [`Backing::way`].
    pub(crate) fn way(&self, write: bool, at: u64, len: usize) -> Result<Option<Way<'_>>, Errno> {
        if write && self.fail_writes.load(SeqCst) {
            return Err(Errno::IO);
        }
        match write {
            true => self.writer().way(write, at, len),
            false => self.backing.way(write, at, len),
        }
    }

    pub(crate) fn other_way(&self, errno: Errno) -> bool {
        // Either of the two may have been refused.
        let written = self.writer.get().is_some_and(|w| w.other_way(errno));
        self.backing.other_way(errno) || written
    }

    pub(crate) fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        assert_none_held();
        self.backing.read(parts, at)
    }

    /// Writes to the system's file at byte `at`; fails with EIO where a test makes writes fail.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        if self.fail_writes.load(SeqCst) {
            return Err(Errno::IO);
        }
        assert_none_held();
        self.writer().write(parts, at)
    }

    pub(crate) fn truncate(&self, len: u64) -> Result<(), Errno> {
        assert_none_held();
        rustix::io::retry_on_intr(|| self.writer().truncate(len))
    }

    pub(crate) fn sync(&self) -> Result<(), Errno> {
        assert_none_held();
        rustix::io::retry_on_intr(|| self.writer().sync())
    }

    /// Returns true if the file has a name, or if that cannot be determined.
    pub(crate) fn has_name(&self) -> bool {
        assert_none_held();
        rustix::io::retry_on_intr(|| self.backing.has_name()).unwrap_or(true)
    }

    /// Returns the error because of which writes to the file are refused, if they are.
    pub(crate) fn failing(&self) -> Option<Errno> {
        match self.failing.load(SeqCst) {
            0 => None,
            e => Some(Errno::from_raw_os_error(e as i32)),
        }
    }

    /// Returns the indices of the pages whose write failed.
    pub(crate) fn kept(&self) -> Vec<u32> {
        self.kept.lock().iter().copied().collect()
    }

    /// Records that the write of `n` contiguous pages, from index `first` on, failed, so that
    /// further writes to the file are refused. Returns whether the pages are kept for the next
    /// sync, or lost for lack of room.
    pub(crate) fn write_failed(&self, w: &LiveWorld, first: u32, n: u32, errno: Errno) -> Fate {
        let mut kept = self.kept.lock();
        let new = (first..first + n).filter(|i| !kept.contains(i)).count();
        let fate = if w.count_kept(new as u64) {
            kept.extend(first..first + n);
            Fate::Kept
        } else {
            let before = kept.len();
            kept.retain(|i| !(first..first + n).contains(i));
            w.uncount_kept((before - kept.len()) as u64);
            Fate::Lost
        };
        self.failing.store(errno.raw_os_error() as u32, SeqCst);
        self.errors.record(errno, fate);
        fate
    }

    /// Removes pages, by index, from the kept ones, whose write failed: they were written, or are
    /// dirty again.
    pub(crate) fn forget_kept(&self, w: &LiveWorld, pages: impl Iterator<Item = u32>) {
        let mut kept = self.kept.lock();
        w.uncount_kept(pages.filter(|i| kept.remove(i)).count() as u64);
    }

    /// Removes the kept pages from index `first` on, because the file was truncated; writes are
    /// accepted again if no kept page is left.
    pub(crate) fn forget_kept_from(&self, w: &LiveWorld, first: u32) {
        let gone = self.kept.lock().split_off(&first);
        w.uncount_kept(gone.len() as u64);
        self.settle();
    }

    /// Lets the file be written again if no page is kept for a failed write.
    pub(crate) fn settle(&self) {
        let kept = self.kept.lock();
        if kept.is_empty() {
            self.failing.store(0, SeqCst);
        }
    }
}

/// A task's right to change a file's contents.
pub(crate) struct Share<'a> {
    mm: &'a LiveMm,
    file: &'a OpenFile,
    /// The task, if it holds a page of the file with this right.
    holder: Option<TaskId>,
}

/// A task's right to truncate a file, while no task has a [`Share`].
pub(crate) struct Cut<'a> {
    mm: &'a LiveMm,
    file: &'a OpenFile,
}

/// Waits until `try_it` returns true; it is tried again at each wake of the file's wait queue.
async fn until(mm: &LiveMm, file: &OpenFile, try_it: impl Fn() -> bool) {
    let (w, q) = (&mm.world, mm.world.file_queue(file.mapping));
    loop {
        let ticket = w.ticket(q);
        if try_it() {
            return;
        }
        w.wait(q, ticket, None).await;
    }
}

/// Adds a sharer to a file's count and returns true; returns false if [`CUTTING`] is set, because a
/// task truncates the file or waits to.
fn try_join(sharers: &AtomicU32) -> bool {
    let join = |n| (n & CUTTING == 0).then_some(n + 1);
    sharers.fetch_update(SeqCst, SeqCst, join).is_ok()
}

/// Sets [`CUTTING`] in a file's count, after waiting for another task that has set it, and waits
/// until no sharer is left.
async fn exclude(mm: &LiveMm, file: &OpenFile, sharers: &AtomicU32) {
    let mine = || sharers.fetch_or(CUTTING, SeqCst) & CUTTING == 0;
    until(mm, file, mine).await;
    until(mm, file, || sharers.load(SeqCst) == CUTTING).await;
}

/// Adds a sharer to a file's count although a task waits to truncate the file, and returns true;
/// returns false if no sharer is left, because the truncation may have begun.
fn try_join_before_cut(sharers: &AtomicU32) -> bool {
    let join = |n| (n != CUTTING).then_some(n + 1);
    sharers.fetch_update(SeqCst, SeqCst, join).is_ok()
}

impl<'a> Share<'a> {
    /// Returns the right to change the file, after waiting until no task truncates it.
    pub async fn take(mm: &'a LiveMm, file: &'a OpenFile) -> Self {
        let (w, q) = (&mm.world, mm.world.file_queue(file.mapping));
        let mut since = None;
        while !try_join(&file.sharers) {
            let ticket = w.ticket(q);
            let (now, held) = (w.now(), file.holding.load(SeqCst) > 0);
            let since = *since.get_or_insert(now);
            let may = || now - since >= PATIENCE || file.holders.lock().contains(&w.task());
            if held && may() && try_join_before_cut(&file.sharers) {
                break;
            }
            // Tested after the ticket, so that the end of a truncation is not missed.
            if try_join(&file.sharers) {
                break;
            }
            w.wait(q, ticket, held.then_some(PATIENCE)).await;
        }
        let holder = None;
        Self { mm, file, holder }
    }

    /// Returns the right to change the file as [`Share::take`] does, to hold a page of it.
    pub async fn hold(mm: &'a LiveMm, file: &'a OpenFile) -> Self {
        let mut share = Self::take(mm, file).await;
        let w = &mm.world;
        share.holder = Some(w.task());
        file.holders.lock().push(w.task());
        file.holding.fetch_add(1, SeqCst);
        if file.sharers.load(SeqCst) & CUTTING != 0 {
            // Tasks that began to wait before this one was a holder.
            w.wake(w.file_queue(file.mapping));
        }
        share
    }
}

impl Drop for Share<'_> {
    /// Gives up the right to change the file; the last sharer wakes a task that waits to truncate.
    fn drop(&mut self) {
        let w = &self.mm.world;
        if let Some(task) = self.holder {
            self.file.holding.fetch_sub(1, SeqCst);
            let mut holders = self.file.holders.lock();
            if let Some(at) = holders.iter().position(|&t| t == task) {
                holders.swap_remove(at);
            }
        }
        if self.file.sharers.fetch_sub(1, SeqCst) == CUTTING + 1 {
            w.wake(w.file_queue(self.file.mapping));
        }
    }
}

impl<'a> Cut<'a> {
    /// Returns the right to truncate the file, after waiting until no task changes its contents.
    /// Fails if the cache ends while pages of the file are held.
    pub async fn take(mm: &'a LiveMm, file: &'a OpenFile) -> Result<Self, Error> {
        let mine = || file.sharers.fetch_or(CUTTING, SeqCst) & CUTTING == 0;
        until(mm, file, mine).await;
        let cut = Self { mm, file };
        let ends = || mm.world.is_closing() && file.holding.load(SeqCst) > 0;
        let alone = || file.sharers.load(SeqCst) == CUTTING;
        until(mm, file, || alone() || ends()).await;
        match alone() {
            true => Ok(cut),
            false => Err(Error::Closed),
        }
    }
}

impl Drop for Cut<'_> {
    /// Gives up the right to truncate the file, and wakes tasks that wait to change it.
    fn drop(&mut self) {
        let w = &self.mm.world;
        self.file.sharers.fetch_and(!CUTTING, SeqCst);
        w.wake(w.file_queue(self.file.mapping));
    }
}
