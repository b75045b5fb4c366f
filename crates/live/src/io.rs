//! Transfers between pages and files: those handed to another thread (read-ahead, writeback), and
//! those that the calling thread makes.
//!
//! A task hands a transfer over as a [`Job`]; an executor turns it into a [`Transfer`], moves the
//! bytes and ends it: the pages are then valid and unlocked, or written and no longer under
//! writeback, and errors are recorded in the file before any task can see that the transfer is
//! over. Executors are threads that make system calls ([`calls`]), or one that owns a ring
//! (`uring`). Without an executor, the task that begins a transfer makes it itself.
//!
//! The number of transfers on the way is bounded: pages being read, which cannot be reclaimed, by a
//! share of memory; a device's writes by [`Io::room`], on which writers wait before they put pages
//! under writeback.

use crate::LiveMm;
use crate::arena::{Handed, Locked, Sent, Writeback};
use crate::cpu;
use crate::errseq::Fate;
use crate::open_file::OpenFile;
use crate::page_size::PAGE;
use crate::sync::{Condvar, Mutex};
use crate::wait::Answer;
use crate::world::LiveWorld;
use mm::memory::frame::flag;
use mm::watch::vmstat::VmEvent;
use mm::world::{TaskId, WaitQueue};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Most pages of a transfer whose copying costs next to nothing compared with the transfer.
const FEW: u32 = 4;

/// A transfer to be made.
pub enum Job {
    /// Fresh pages to fill.
    Read(Handed),
    /// Pages to fill, for a task that waits for them.
    Fill(Handed, Arc<Answer<Filled>>),
    /// Pages under writeback; their file is not truncated meanwhile ([`OpenFile::writes`]).
    Write(Arc<OpenFile>, Sent, Begun),
}

/// The time and the file size when a writeback began.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The time in nanoseconds since the world began.
    since: u64,
    /// The file's size. After a truncation the last page, and a copy of it, may hold old bytes
    /// behind this size until the truncating task clears the page; others may then extend the file.
    end: u64,
}

/// Pages that were to be filled, and the result, for the task that owns them.
pub type Filled = (Handed, Result<(), Errno>);

/// Wakes the executor that sleeps in its ring.
type Bell = Box<dyn Fn() + Send + Sync>;

/// The transfers that wait for an executor, and the number on the way, of all devices or of one.
#[derive(Default)]
pub struct Io {
    state: Mutex<State>,
    more: Condvar,
    bell: std::sync::OnceLock<Bell>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Pages that are being read, or wait for that.
    reads: u32,
    /// Number of executors.
    running: u32,
    /// An executor with a ring sleeps until the bell is rung.
    asleep: bool,
    stopped: bool,
}

/// The next step of an executor that has a ring.
pub enum Next {
    /// Begin this job.
    Begin(Job),
    /// Sleep until the bell is rung: there is no job.
    Sleep,
    /// End: there will be no more jobs.
    End,
}

impl Io {
    /// Queues a transfer for an executor and wakes one. `Err`: the job, if there is no executor, or
    /// if more than `most_read` handed-over pages would be waiting to be read.
    fn put(&self, job: Job, most_read: u32) -> Result<(), Job> {
        let mut s = self.state.lock();
        if s.running == 0 || s.stopped {
            return Err(job);
        }
        if let Job::Read(pages) = &job {
            if s.reads + pages.run.count() > most_read {
                return Err(job);
            }
            s.reads += pages.run.count();
        }
        s.jobs.push_back(job);
        let asleep = std::mem::take(&mut s.asleep);
        drop(s);
        let Some(bell) = self.bell.get() else {
            self.more.notify_one();
            return Ok(());
        };
        if asleep {
            bell();
        }
        Ok(())
    }

    /// Queues pages to be read in the background. `Err`: the pages, if there is no executor, or if
    /// more than `most` pages would be on the way.
    pub fn read(&self, pages: Handed, most: u32) -> Result<(), Handed> {
        self.put(Job::Read(pages), most).map_err(|job| match job {
            Job::Read(pages) => pages,
            _ => unreachable!("it was a read"),
        })
    }

    /// Returns true if handed-over pages are being read or wait for that.
    pub fn reads(&self) -> bool {
        self.state.lock().reads > 0
    }

    /// Returns true if `n` more pages may be read within the bound `most`.
    pub fn may_read(&self, n: u32, most: u32) -> bool {
        self.state.lock().reads + n <= most
    }

    /// Adds an executor. `bell`: wakes an executor that does not sleep in [`Io::wait`].
    pub fn begin(&self, bell: Option<Bell>) {
        if let Some(bell) = bell {
            assert!(self.bell.set(bell).is_ok(), "one ring");
        }
        self.state.lock().running += 1;
    }

    /// Waits for the next job of an executor that makes system calls; `None`: the queue was
    /// stopped, and no job is left, so the executor ends.
    fn wait(&self) -> Option<Job> {
        let mut s = self.state.lock();
        while s.jobs.is_empty() && !s.stopped {
            self.more.wait(&mut s);
        }
        let job = s.jobs.pop_front();
        if job.is_none() {
            s.running -= 1;
        }
        job
    }

    /// Returns the next step of an executor that has a ring; `busy`: it has transfers on the way.
    pub fn next(&self, busy: bool) -> Next {
        let mut s = self.state.lock();
        s.asleep = false;
        match s.jobs.pop_front() {
            Some(job) => Next::Begin(job),
            None if s.stopped && !busy => {
                s.running -= 1;
                Next::End
            }
            None => {
                s.asleep = true;
                Next::Sleep
            }
        }
    }

    /// Takes no more transfers; the executors end when none is left.
    pub fn stop(&self) {
        let mut s = self.state.lock();
        s.stopped = true;
        s.asleep = false;
        drop(s);
        self.more.notify_all();
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    /// Waits until a device has room for one more write transfer, that is fewer than `most`
    /// transfers and fewer than `pages` pages are on the way to it, and counts the transfer.
    pub async fn room(mm: &LiveMm, bdi: u32, (most, pages): (u32, u32)) {
        let w = &mm.world;
        let (writing, q) = (w.writing(bdi), w.room_queue(bdi));
        loop {
            let ticket = mm::world::Tasks::ticket(w, q);
            let more = |n| (n < most).then_some(n + 1);
            if w.in_flight(bdi) < pages && writing.fetch_update(SeqCst, SeqCst, more).is_ok() {
                return;
            }
            mm::world::Tasks::wait(w, q, ticket, None).await;
        }
    }

    /// Counts one more write transfer, whether there is room or not.
    pub fn no_room(w: &LiveWorld, bdi: u32) {
        w.writing(bdi).fetch_add(1, SeqCst);
    }

    /// Uncounts a device's write transfer, which has ended or did not begin, and wakes tasks that
    /// wait for room.
    pub fn leave_room(w: &LiveWorld, bdi: u32) {
        w.writing(bdi).fetch_sub(1, SeqCst);
        let q: WaitQueue = w.room_queue(bdi);
        mm::world::Tasks::wake(w, q);
    }
}

enum Pages<'a> {
    Read(Vec<Locked<'a>>),
    Write(Writeback<'a>),
}

/// A transfer of bytes between pages and a file.
pub struct Transfer<'a> {
    pub(crate) file: Arc<OpenFile>,
    pages: Pages<'a>,
    /// The position in the file at which it begins, in bytes.
    start: u64,
    len: usize,
    done: usize,
    /// The transfer was tried again by another way ([`OpenFile::other_way`]).
    other_way: bool,
    /// When its pages were put under writeback.
    since: u64,
    /// Pages to take off [`State::reads`] at the end.
    counted: u32,
    /// The task that waits for the pages; `None`: none does.
    answer: Option<Arc<Answer<Filled>>>,
}

impl<'a> Transfer<'a> {
    /// Creates a transfer that fills locked pages, contiguous from index `first` on.
    pub fn read(mm: &'a LiveMm, mapping: u32, first: u32, pages: Vec<Locked<'a>>) -> Self {
        Self {
            file: mm.world.file(mapping),
            start: u64::from(first) * PAGE as u64,
            len: pages.len() * PAGE,
            done: 0,
            other_way: false,
            since: 0,
            counted: 0,
            answer: None,
            pages: Pages::Read(pages),
        }
    }

    /// Creates a transfer that writes pages, up to the end that the file had when their writeback
    /// began.
    fn write(file: Arc<OpenFile>, pages: Writeback<'a>, begun: Begun) -> Self {
        let start = u64::from(pages.run.first()) * PAGE as u64;
        let whole = u64::from(pages.run.count()) * PAGE as u64;
        Self {
            file,
            start,
            len: begun.end.saturating_sub(start).min(whole) as usize,
            done: 0,
            other_way: false,
            since: begun.since,
            counted: 0,
            answer: None,
            pages: Pages::Write(pages),
        }
    }

    /// Creates the transfer that a job describes, on the executor's thread, which takes over the
    /// job's pages.
    pub fn begin(mm: &'a LiveMm, job: Job) -> Self {
        match job {
            Job::Read(handed) => {
                let (mapping, first) = (handed.run.mapping(), handed.run.first());
                let counted = handed.run.count();
                let pages = handed.take(mm);
                Self {
                    counted,
                    ..Self::read(mm, mapping, first, pages)
                }
            }
            Job::Fill(handed, answer) => {
                let (mapping, first) = (handed.run.mapping(), handed.run.first());
                Self {
                    answer: Some(answer),
                    ..Self::read(mm, mapping, first, handed.take(mm))
                }
            }
            Job::Write(file, sent, begun) => Self::write(file, sent.take(mm), begun),
        }
    }

    /// Returns true if the transfer writes to the file.
    pub fn writes(&self) -> bool {
        matches!(self.pages, Pages::Write(_))
    }

    /// Returns the position in the file of the next byte, and the number of bytes left.
    pub fn rest(&self) -> (u64, usize) {
        (self.start + self.done as u64, self.len - self.done)
    }

    /// Returns the memory of the next `most` bytes of the transfer, page by page, for a write.
    fn parts(&self, most: usize) -> Vec<IoSlice<'_>> {
        let Pages::Write(pages) = &self.pages else {
            unreachable!("it reads");
        };
        let parts = pages.bytes().enumerate().filter_map(|(i, p)| {
            let (from, to) = part(i, self.done, self.done + most)?;
            Some(IoSlice::new(&p[from..to]))
        });
        parts.collect()
    }

    /// Returns the memory of the next `most` bytes of the transfer, page by page, for a read.
    fn parts_mut(&mut self, most: usize) -> Vec<IoSliceMut<'_>> {
        let (done, end) = (self.done, self.done + most);
        let Pages::Read(pages) = &mut self.pages else {
            unreachable!("it writes");
        };
        let parts = pages.iter_mut().enumerate().filter_map(|(i, p)| {
            let (from, to) = part(i, done, end)?;
            Some(IoSliceMut::new(&mut p.bytes_mut()[from..to]))
        });
        parts.collect()
    }

    /// Calls `each` with address and length of each part of the next `most` bytes.
    pub fn addresses(&mut self, most: usize, mut each: impl FnMut(*mut u8, usize)) {
        match self.pages {
            Pages::Write(_) => {
                for p in self.parts(most) {
                    each(p.as_ptr().cast_mut(), p.len());
                }
            }
            Pages::Read(_) => {
                for mut p in self.parts_mut(most) {
                    each(p.as_mut_ptr(), p.len());
                }
            }
        }
    }

    /// Makes one system call for the rest of the transfer; returns the bytes that it moved.
    fn call(&mut self) -> Result<usize, Errno> {
        let (at, len) = self.rest();
        let file = Arc::clone(&self.file);
        match self.pages {
            Pages::Write(_) => file.write(&self.parts(len), at),
            Pages::Read(_) => file.read(&mut self.parts_mut(len), at),
        }
    }

    /// Takes the answer of a system call or of the ring: the bytes moved, or an error. Returns the
    /// transfer's result once it is over; `None`: it continues.
    pub fn answered(&mut self, answer: Result<usize, Errno>) -> Option<Result<(), Errno>> {
        match answer {
            Ok(0) if self.len == self.done => Some(Ok(())),
            Ok(0) if self.writes() => Some(Err(Errno::IO)),
            // The file ends here.
            Ok(0) => Some(Ok(())),
            Ok(n) => {
                self.done += n;
                (self.done >= self.len).then_some(Ok(()))
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(e) if !self.other_way && self.file.other_way(e) => {
                self.other_way = true;
                None
            }
            Err(e) => Some(Err(e)),
        }
    }

    /// Moves all bytes that are left by system calls, which may block. Returns the transfer's
    /// result.
    pub fn run(&mut self) -> Result<(), Errno> {
        if self.done == self.len {
            return Ok(());
        }
        loop {
            let answer = self.call();
            if let Some(result) = self.answered(answer) {
                return result;
            }
        }
    }

    /// Returns the locked pages of a read, by its `result`: valid, or as they were if the read
    /// failed. Bytes behind the file's end are zero.
    pub fn filled(self, mm: &LiveMm, result: Result<(), Errno>) -> Vec<Locked<'a>> {
        let Pages::Read(mut pages) = self.pages else {
            unreachable!("it writes");
        };
        if result.is_err() {
            return pages;
        }
        let size = mm.mappings[self.file.mapping as usize].size.load(SeqCst);
        let valid = size.saturating_sub(self.start).min(self.done as u64) as usize;
        for (i, p) in pages.iter_mut().enumerate() {
            let from = valid.saturating_sub(i * PAGE).min(PAGE);
            if from < PAGE {
                p.bytes_mut()[from..].fill(0);
            }
            mm.frames.set_flags(p.pfn(), flag::UPTODATE);
        }
        mm.count_event(VmEvent::PgpgIn, valid.div_ceil(1024) as u64);
        pages
    }

    /// Ends the transfer with its `result`: unlocks pages that were read, or hands them to the task
    /// that waits for them; ends the writeback of pages that were written. The caller holds a CPU
    /// slot.
    pub fn end(mut self, mm: &LiveMm, result: Result<(), Errno>) {
        let file = Arc::clone(&self.file);
        if let Some(answer) = self.answer.take() {
            let first = (self.start / PAGE as u64) as u32;
            let pages = self.filled(mm, result);
            return answer.put((Handed::new(file.mapping, first, pages), result));
        }
        match self.pages {
            Pages::Read(_) => {
                // A task that needs a page which could not be read tries again, and gets the error.
                let n = self.counted;
                drop(self.filled(mm, result));
                mm.world.io(file.bdi).state.lock().reads -= n;
            }
            Pages::Write(pages) => {
                let n = pages.run.count();
                mm.world.write_took(file.bdi, self.since);
                file.written(&mm.world);
                match result {
                    Ok(()) => written(mm, &file, pages),
                    Err(errno) => not_written(mm, &file, pages, errno),
                }
                mm.world.write_ended(file.bdi, n);
            }
        }
    }
}

/// Returns the part of the page number `page` of a transfer that lies between the bytes `from` and
/// `end`, counted over all pages: first byte in the page, and the byte behind its last. `None`:
/// nothing of this page does.
fn part(page: usize, from: usize, end: usize) -> Option<(usize, usize)> {
    let from = from.saturating_sub(page * PAGE);
    let to = end.saturating_sub(page * PAGE).min(PAGE);
    (from < to).then_some((from, to))
}

/// Ends the writeback of pages that were written; pages of the file that were kept after an earlier
/// failure may be reclaimed from now on.
fn written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>) {
    mm.count_event(VmEvent::PgpgOut, u64::from(pages.run.count()) * 4);
    // Only now may kept pages that were written be reclaimed.
    if file.failing().is_some() {
        pages.clear_flags(flag::ERROR);
        let first = pages.run.first();
        file.forget_kept(&mm.world, first..first + pages.run.count());
    }
    pages.end(false);
}

/// Ends the writeback of pages that could not be written: records the error, and keeps the pages
/// for the next sync, or counts their data as lost.
fn not_written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>, errno: Errno) {
    let w = &mm.world;
    w.not_written(errno);
    // The error is recorded first: a page without its writeback bit may leave its file, and a task
    // that waits for that bit wants to know the error.
    match file.write_failed(w, pages.run.first(), pages.run.count(), errno) {
        Fate::Kept => pages.end(true),
        Fate::Lost => {
            w.lost_pages.fetch_add(u64::from(pages.run.count()), SeqCst);
            pages.lost();
        }
    }
}

/// Writes pages that are under writeback and counted by [`Io::room`]. On return they have been
/// handed to an executor, or the transfer is over.
pub async fn write(mm: &LiveMm, mut pages: Writeback<'_>, how: How) {
    let w = &mm.world;
    let file = w.file(pages.run.mapping());
    w.write_started(file.bdi, pages.run.count());
    file.writes(mm).await;
    let bdi = file.bdi;
    // Read while no task can truncate the file, so that nothing cut off comes back; and before the
    // copy, after which the page may change and the file grow.
    let end = mm.mappings[file.mapping as usize].size.load(SeqCst);
    if pages.run.count() <= FEW || w.writes_slowly(bdi) {
        pages.copy();
    }
    let since = mm::world::Tasks::now(w);
    let job = Job::Write(file, pages.send(), Begun { since, end });
    let job = match how {
        How::Handed => match w.io(bdi).put(job, 0) {
            Ok(()) => return,
            Err(job) => job,
        },
        How::Here => job,
    };
    let mut transfer = Transfer::begin(mm, job);
    let result = w.cpus.off(|| transfer.run());
    transfer.end(mm, result);
}

/// Fills locked pages, contiguous from index `first` on, from their file, and waits. Returns the
/// pages, still locked, and the result; see [`Transfer::filled`]. The calling thread makes the
/// system calls, unless it has other tasks: then an executor does.
pub async fn fill<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    first: u32,
    pages: Vec<Locked<'a>>,
) -> (Vec<Locked<'a>>, Result<(), Errno>) {
    let (w, bdi) = (&mm.world, mm.mappings[mapping as usize].bdi());
    let began = w.read_begins(bdi);
    let filled = fill_now(mm, mapping, first, pages).await;
    w.read_ends(bdi, began);
    filled
}

/// Does what [`fill`] does, without counting the wait in the device's load.
async fn fill_now<'a>(
    mm: &'a LiveMm,
    mapping: u32,
    first: u32,
    mut pages: Vec<Locked<'a>>,
) -> (Vec<Locked<'a>>, Result<(), Errno>) {
    if cpu::shared() {
        let bdi = mm.mappings[mapping as usize].bdi();
        let filled = Arc::new(Answer::default());
        let handed = Handed::new(mapping, first, pages);
        let job = Job::Fill(handed, Arc::clone(&filled));
        match mm.world.io(bdi).put(job, 0) {
            Ok(()) => {
                let (handed, result) = filled.wait().await;
                return (handed.take(mm), result);
            }
            Err(Job::Fill(handed, _)) => pages = handed.take(mm),
            Err(_) => unreachable!("it was to be filled"),
        }
    }
    let mut transfer = Transfer::read(mm, mapping, first, pages);
    let result = mm.world.cpus.off(|| transfer.run());
    (transfer.filled(mm, result), result)
}

/// By whom a transfer is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By an executor, if there is one.
    Handed,
    /// By the calling thread.
    Here,
}

/// Makes the transfers handed over for a device by system calls, as `task`, until the queue is
/// stopped and empty: the body of a thread. The executor was added before ([`Io::begin`]).
pub fn calls(mm: &LiveMm, bdi: u32, task: TaskId) {
    while let Some(job) = mm.world.io(bdi).wait() {
        mm.world.cpus.block_on(task, async {
            let mut transfer = Transfer::begin(mm, job);
            let result = mm.world.cpus.off(|| transfer.run());
            transfer.end(mm, result);
        });
    }
}
