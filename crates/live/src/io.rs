//! Transfers that nobody waits for where they begin: windows that are read ahead, and writeback.
//!
//! Whoever begins one hands it over as a [`Job`]; an executor makes it a [`Transfer`], has the bytes
//! moved, and ends it: pages are valid and unlocked, or written and no longer under writeback, and
//! errors stand in their file before anybody can see that it is over. Executors are threads that make
//! the calls ([`calls`]), or one that owns a ring (`uring`). While there is none, whoever begins a
//! transfer makes it himself.
//!
//! What is on the way is bounded. Pages that are read, which nobody can reclaim, by a part of memory;
//! a device's writes by [`Io::room`], which their writers wait for before they put pages under
//! writeback.

use crate::LiveMm;
use crate::arena::{Handed, Locked, PAGE, Sent, Writeback};
use crate::cpu;
use crate::errseq::Fate;
use crate::open_file::OpenFile;
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

/// Pages of a transfer whose copy costs next to nothing beside it.
const FEW: u32 = 4;

/// Something to transfer.
pub enum Job {
    /// Fresh pages, to fill.
    Read(Handed),
    /// Pages to fill, for a task that waits for them.
    Fill(Handed, Arc<Answer<Filled>>),
    /// Pages under writeback of a file whose end is not cut meanwhile ([`OpenFile::writes`]).
    Write(Arc<OpenFile>, Sent, Begun),
}

/// What was so when writeback of pages began.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// When it was.
    since: u64,
    /// Where the file ended. A file that was cut a moment before may have old bytes behind that in its last page, and in a
    /// copy of it; whoever cut it clears the page, and others may then move the end on.
    end: u64,
}

/// Pages that were to be filled, for the task that has them.
pub type Filled = (Handed, Result<(), Errno>);

/// Tells the executor that sleeps elsewhere of more to do.
type Bell = Box<dyn Fn() + Send + Sync>;

/// Transfers that wait for an executor, and how many are on the way: all of them, or a device's.
#[derive(Default)]
pub struct Io {
    state: Mutex<State>,
    more: Condvar,
    bell: std::sync::OnceLock<Bell>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Pages that are read, or wait for it.
    reads: u32,
    /// Executors.
    running: u32,
    /// One of them sleeps until the bell is rung.
    asleep: bool,
    stopped: bool,
}

/// What an executor that has a ring is to do.
pub enum Next {
    /// This.
    Begin(Job),
    /// Nothing now: it sleeps until the bell is rung.
    Sleep,
    /// Nothing any more.
    End,
}

impl Io {
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

    /// Has pages read, unless nobody would do it or more than `most` are on the way.
    pub fn read(&self, pages: Handed, most: u32) -> Result<(), Handed> {
        self.put(Job::Read(pages), most).map_err(|job| match job {
            Job::Read(pages) => pages,
            _ => unreachable!("it was a read"),
        })
    }

    /// Whether pages are read, or wait for it.
    pub fn reads(&self) -> bool {
        self.state.lock().reads > 0
    }

    /// Whether `n` more pages may be on the way, of `most`.
    pub fn may_read(&self, n: u32, most: u32) -> bool {
        self.state.lock().reads + n <= most
    }

    /// An executor begins; `bell` wakes it when it sleeps other than in [`Io::wait`].
    pub fn begin(&self, bell: Option<Bell>) {
        if let Some(bell) = bell {
            assert!(self.bell.set(bell).is_ok(), "one ring");
        }
        self.state.lock().running += 1;
    }

    /// The next job of an executor that sleeps here; `None`: it is over, and none is left.
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

    /// The next job of an executor that sleeps elsewhere, and has transfers on the way or not.
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

    /// Nothing is handed over any more; executors end when nothing is left.
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

    /// Waits until a device has room for one more transfer that writes: fewer than so many transfers, and
    /// of pages, are on their way. It is then counted.
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

    /// One more transfer that writes, whether there is room or not.
    pub fn no_room(w: &LiveWorld, bdi: u32) {
        w.writing(bdi).fetch_add(1, SeqCst);
    }

    /// A transfer that writes has ended, or did not begin.
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

/// Bytes on their way between pages and a file.
pub struct Transfer<'a> {
    pub(crate) file: Arc<OpenFile>,
    pages: Pages<'a>,
    /// Where in the file it begins.
    start: u64,
    len: usize,
    done: usize,
    /// Another way was tried.
    other_way: bool,
    /// When its pages were put under writeback.
    since: u64,
    /// Pages to take from [`State::reads`].
    counted: u32,
    /// Who waits for the pages.
    answer: Option<Arc<Answer<Filled>>>,
}

impl<'a> Transfer<'a> {
    /// Locked pages, contiguous from `first` on, to fill.
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

    /// What a job is about.
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

    /// Whether it is one that writes.
    pub fn writes(&self) -> bool {
        matches!(self.pages, Pages::Write(_))
    }

    /// Where in the file it goes on, and how many bytes are left.
    pub fn rest(&self) -> (u64, usize) {
        (self.start + self.done as u64, self.len - self.done)
    }

    /// The memory of the next `most` bytes, to read from.
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

    /// The same, to read into.
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

    /// The memory of the next `most` bytes by address and length.
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

    fn call(&mut self) -> Result<usize, Errno> {
        let (at, len) = self.rest();
        let file = Arc::clone(&self.file);
        match self.pages {
            Pages::Write(_) => file.write(&self.parts(len), at),
            Pages::Read(_) => file.read(&mut self.parts_mut(len), at),
        }
    }

    /// A call, or a ring, has answered. `None`: it goes on.
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

    /// Moves all bytes by calls, which may block.
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

    /// The pages that were to be filled: valid, or as they were. What lies behind the file's end is
    /// zero.
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

    /// Ends it, on a CPU slot.
    pub fn end(mut self, mm: &LiveMm, result: Result<(), Errno>) {
        let file = Arc::clone(&self.file);
        if let Some(answer) = self.answer.take() {
            let first = (self.start / PAGE as u64) as u32;
            let pages = self.filled(mm, result);
            return answer.put((Handed::new(file.mapping, first, pages), result));
        }
        match self.pages {
            Pages::Read(_) => {
                // Who needs a page that could not be read asks again, and is told.
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

/// The part of a page that lies between two bytes of the pages.
fn part(page: usize, from: usize, end: usize) -> Option<(usize, usize)> {
    let from = from.saturating_sub(page * PAGE);
    let to = end.saturating_sub(page * PAGE).min(PAGE);
    (from < to).then_some((from, to))
}

/// Ends the writeback of pages that were written.
fn written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>) {
    mm.count_event(VmEvent::PgpgOut, u64::from(pages.run.count()) * 4);
    // Only now may pages be reclaimed that were kept and written over.
    if file.failing().is_some() {
        pages.clear_flags(flag::ERROR);
        let first = pages.run.first();
        file.forget_kept(&mm.world, first..first + pages.run.count());
    }
    pages.end(false);
}

/// Ends the writeback of pages that were not.
fn not_written(mm: &LiveMm, file: &OpenFile, pages: Writeback<'_>, errno: Errno) {
    let w = &mm.world;
    w.not_written(errno);
    // All this comes first: a page without its writeback bit may leave its file, and who waits
    // for that bit wants to know the error.
    match file.write_failed(w, pages.run.first(), pages.run.count(), errno) {
        Fate::Kept => pages.end(true),
        Fate::Lost => {
            w.lost_pages.fetch_add(u64::from(pages.run.count()), SeqCst);
            pages.lost();
        }
    }
}

/// Writes pages that are under writeback, for which there is room; they are on their way then, or it
/// is over.
pub async fn write(mm: &LiveMm, mut pages: Writeback<'_>, how: How) {
    let w = &mm.world;
    let file = w.file(pages.run.mapping());
    w.write_started(file.bdi, pages.run.count());
    file.writes(mm).await;
    let bdi = file.bdi;
    // Not before nobody cuts the file: what is cut meanwhile must not come back. And before the copy: from then on the page may
    // change, and the end move on.
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

/// Fills locked pages, contiguous from `first` on, from their file, as [`Transfer::filled`] says. The
/// thread calls, unless it has other tasks: then an executor does it.
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

/// Who makes a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// An executor.
    Handed,
    /// Whoever begins it.
    Here,
}

/// Makes the calls of what is handed over for a device, until it is told to stop and nothing is left. It has begun
/// already ([`Io::begin`]).
pub fn calls(mm: &LiveMm, bdi: u32, task: TaskId) {
    while let Some(job) = mm.world.io(bdi).wait() {
        mm.world.cpus.block_on(task, async {
            let mut transfer = Transfer::begin(mm, job);
            let result = mm.world.cpus.off(|| transfer.run());
            transfer.end(mm, result);
        });
    }
}
