//! Recording of the accesses to a cache as a trace that `lowmark mrc` reads, to find out how many
//! of them would hit with another budget.
//!
//! Each access to a page is a line in the format of the MSR Cambridge traces: time, file, read or
//! write, offset, and the time it took if the page was not cached, else 0. The accessing task puts
//! 24 bytes into a bounded buffer ([`MOST`]) under a lock, so lines are in the order of the
//! accesses; a thread writes them. An access that finds no room is counted and not written. Without
//! a recording an access costs one load.
//!
//! A recording may be a sample by hash of the page (SHARDS): a page is in it with all its accesses,
//! or with none.

use crate::LiveMm;
use crate::error::Error;
use crate::file;
use crate::page_size::PAGE;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most accesses that wait to be written: 1.5 MiB, and as much again while they are written.
const MOST: usize = 1 << 16;
/// How long an access waits at most.
const LONGEST: Duration = Duration::from_millis(100);
/// Ticks of 100 ns from 1601, where the format's clock begins, to 1970.
const EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// One access to a page.
struct Access {
    ticks: u64,
    file: u32,
    page: u32,
    /// Ticks until the page was read, at least 1; 0: it was cached.
    took: u32,
    write: bool,
}

/// Counts of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Recorded {
    /// All accesses to pages, in the sample or not.
    pub accesses: u64,
    /// The share of the pages in the sample, up to 1.
    pub rate: f64,
    /// Accesses of the sample that found their page in the cache.
    pub hits: u64,
    /// Accesses of the sample that did not.
    pub misses: u64,
    /// Hits and misses that were not written to the trace: they arrived faster than the file could
    /// be written, or writing failed (`error`).
    pub dropped: u64,
    /// The error after which nothing was written to the trace; `None`: no error.
    pub error: Option<Errno>,
}

impl Recorded {
    /// Returns the misses per access of a page; 0 if there was no access. For a sample it is an
    /// estimate: the misses divided by the sampling rate, by all accesses. The sample's own
    /// accesses are not used, because they depend on whether it contains the few pages that are
    /// accessed most.
    pub fn miss_ratio(&self) -> f64 {
        match self.accesses {
            0 => 0.0,
            n => self.misses as f64 / (n as f64 * self.rate),
        }
    }
}

/// A running recording ([`crate::Cache::record`]). It ends on drop, or with [`Recording::finish`],
/// which returns its counts.
#[must_use = "it ends when it is dropped"]
pub struct Recording {
    recorder: Arc<Recorder>,
    writer: Option<JoinHandle<Recorded>>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recording")
    }
}

#[derive(Default)]
struct Buffer {
    accesses: Vec<Access>,
    counts: Recorded,
    /// A recording runs and accepts accesses.
    taken: bool,
    begin: Option<(Instant, u64)>,
}

/// The recorder of a cache.
#[derive(Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    /// Accesses to pages that are not in the sample.
    others: AtomicU64,
    /// The sample has the pages whose hash is at most this.
    most_hash: AtomicU64,
    buffer: Mutex<Buffer>,
    /// Notified when the buffer is half full, or the recording ends.
    full: Condvar,
}

/// A call under way, for [`Recorder::end`].
pub(crate) struct Begun {
    file: u32,
    write: bool,
    /// The pages, each with whether it was missing at the start.
    pages: Vec<(u32, bool)>,
    at: Instant,
}

/// Returns the hash by which a page is sampled: SplitMix64's last step over file and page.
fn hash(file: u32, page: u32) -> u64 {
    let mut z = (u64::from(file) << 32 | u64::from(page)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn ticks(d: Duration) -> u64 {
    (d.as_nanos() / 100) as u64
}

impl Recorder {
    /// Returns true while a recording runs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Starts a recording of the share `rate` of the pages, chosen by hash, into a new file at
    /// `path`, and the thread that writes it. Fails if another recording runs or the file cannot be
    /// created.
    pub fn start(self: &Arc<Self>, path: &Path, rate: f64) -> Result<Recording, Error> {
        if !(rate > 0.0 && rate <= 1.0) {
            let message = format!("rate = {rate}: accepted are shares above 0 and up to 1");
            return Err(Error::Config(message));
        }
        let mut b = self.buffer.lock();
        if b.begin.is_some() {
            let message = "another recording of this cache is running".to_owned();
            return Err(Error::Config(message));
        }
        let file = File::create(path).map_err(|e| Error::Io(errno(&e)))?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let recorder = Arc::clone(self);
        let writer = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || recorder.write(file))
            .map_err(|e| Error::Io(errno(&e)))?;
        *b = Buffer {
            accesses: Vec::with_capacity(MOST),
            counts: Recorded {
                rate,
                ..Recorded::default()
            },
            taken: true,
            begin: Some((
                Instant::now(),
                EPOCH_TICKS + ticks(unix.unwrap_or_default()),
            )),
        };
        // For a rate of 1 the product is above the largest u64, and `as` saturates.
        let most = (rate * 18_446_744_073_709_551_616.0) as u64;
        self.most_hash.store(most, Relaxed);
        self.others.store(0, Relaxed);
        drop(b);
        self.on.store(true, Relaxed);
        Ok(Recording {
            recorder: Arc::clone(self),
            writer: Some(writer),
        })
    }

    /// Records an access to a cached page, if a recording runs.
    #[inline]
    pub fn hit(&self, file: u32, page: u32) {
        if self.is_on() {
            self.note((file, page), false, None);
        }
    }

    /// Runs `f`, which reads or writes one page that may be missing from the cache, and records the
    /// access if it succeeds: as a miss, with the time it took, if the page was missing before.
    pub fn around<T>(
        &self,
        mm: &LiveMm,
        (file, page): (u32, u64),
        write: bool,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let page = u32::try_from(page).ok().filter(|_| self.is_on());
        let Some(page) = page.filter(|&p| p < file::pages_of(file::size(mm, file))) else {
            return f();
        };
        let missing = mm.peek_page(file, page).is_none();
        let begin = Instant::now();
        let result = f();
        if result.is_ok() {
            self.note((file, page), write, missing.then(|| begin.elapsed()));
        }
        result
    }

    /// Runs `f`, a write of a range (first byte, length), and records its pages if it succeeds.
    pub fn around_write(
        &self,
        mm: &LiveMm,
        file: u32,
        range: (u64, usize),
        f: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begun = self.begin(mm, file, range, true);
        f()?;
        self.end(begun);
        Ok(())
    }

    /// Notes, before a call on `len` bytes at `pos`, which of its pages are missing from the cache.
    /// The result is for `end`; `None`: no recording runs.
    pub fn begin(
        &self,
        mm: &LiveMm,
        file: u32,
        (pos, len): (u64, usize),
        write: bool,
    ) -> Option<Begun> {
        if !self.is_on() || len == 0 {
            return None;
        }
        let page = |at: u64| u32::try_from(at / PAGE as u64).unwrap_or(u32::MAX);
        let last = page(pos.saturating_add(len as u64 - 1));
        let behind = match write {
            true => u32::MAX,
            false => file::pages_of(file::size(mm, file)),
        };
        let pages = (page(pos)..=last).take_while(|&p| p < behind);
        Some(Begun {
            file,
            write,
            pages: pages
                .map(|p| (p, mm.peek_page(file, p).is_none()))
                .collect(),
            at: Instant::now(),
        })
    }

    /// Records the pages of a call that succeeded; a miss is recorded with the call's time divided
    /// by the number of all its pages. `None`: no recording runs.
    pub fn end(&self, begun: Option<Begun>) {
        let Some(b) = begun else { return };
        let each = b.at.elapsed() / (b.pages.len() as u32).max(1);
        for (page, missing) in b.pages {
            self.note((b.file, page), b.write, missing.then_some(each));
        }
    }

    /// Records one access, unless its page is outside of the sample; `took`: how long a missing
    /// page took to read, `None`: it was cached. An access that finds the buffer full is counted as
    /// dropped.
    fn note(&self, (file, page): (u32, u32), write: bool, took: Option<Duration>) {
        if hash(file, page) > self.most_hash.load(Relaxed) {
            self.others.fetch_add(1, Relaxed);
            return;
        }
        let mut b = self.buffer.lock();
        let (true, Some((begin, first))) = (b.taken, b.begin) else {
            return;
        };
        match took {
            None => b.counts.hits += 1,
            Some(_) => b.counts.misses += 1,
        }
        if b.accesses.len() == MOST {
            b.counts.dropped += 1;
            return;
        }
        let access = Access {
            ticks: first + ticks(begin.elapsed()),
            file,
            page,
            took: took.map_or(0, |d| ticks(d).clamp(1, u64::from(u32::MAX)) as u32),
            write,
        };
        b.accesses.push(access);
        if b.accesses.len() == MOST / 2 {
            self.full.notify_one();
        }
    }

    /// Writes the accesses to `file` until the recording ends, and returns its counts; the body of
    /// the writing thread.
    fn write(&self, file: File) -> Recorded {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let mut taken = Vec::with_capacity(MOST);
        let (mut dropped, mut error) = (0, None);
        loop {
            let more = {
                let mut b = self.buffer.lock();
                if b.taken && b.accesses.len() < MOST / 2 {
                    self.full.wait_for(&mut b, LONGEST);
                }
                std::mem::swap(&mut b.accesses, &mut taken);
                b.taken
            };
            if error.is_none() {
                error = lines(&mut out, &taken).err().map(|e| errno(&e));
            }
            if error.is_some() {
                // It is unknown how much of a batch that failed is in the file: all of it counts as
                // dropped.
                dropped += taken.len() as u64;
            }
            taken.clear();
            if !more {
                break;
            }
        }
        if error.is_none() {
            error = out.flush().err().map(|e| errno(&e));
        }
        let mut b = self.buffer.lock();
        b.begin = None;
        Recorded {
            accesses: b.counts.hits + b.counts.misses + self.others.load(Relaxed),
            dropped: b.counts.dropped + dropped,
            error,
            ..b.counts
        }
    }

    /// Ends the recording: no more accesses are accepted, and the writing thread finishes.
    fn stop(&self) {
        self.on.store(false, Relaxed);
        self.buffer.lock().taken = false;
        self.full.notify_one();
    }
}

/// Writes accesses as lines of the MSR Cambridge format: time, file, kind, byte, length, time
/// taken; times in ticks of 100 ns.
fn lines(out: &mut impl io::Write, accesses: &[Access]) -> io::Result<()> {
    for a in accesses {
        let (kind, at) = (
            if a.write { "Write" } else { "Read" },
            u64::from(a.page) * PAGE as u64,
        );
        let (ticks, file, took) = (a.ticks, a.file, a.took);
        writeln!(out, "{ticks},file,{file},{kind},{at},{PAGE},{took}")?;
    }
    Ok(())
}

fn errno(e: &io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

impl Recording {
    /// Ends the recording and returns its counts. The file is written, but not synced.
    pub fn finish(mut self) -> Recorded {
        self.end()
    }

    /// Stops the recording, waits for its thread and returns the counts; empty counts if that was
    /// done before.
    fn end(&mut self) -> Recorded {
        let Some(writer) = self.writer.take() else {
            return Recorded::default();
        };
        self.recorder.stop();
        writer
            .join()
            .unwrap_or_else(|e| std::panic::resume_unwind(e))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}
