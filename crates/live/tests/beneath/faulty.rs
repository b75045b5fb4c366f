//! A storage whose calls fail, are cut short or are late.

use super::Random;
use lowmark_cache::storage::{Backing, Opened, Storage, Way};
use lowmark_cache::{Errno, Error};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often calls go wrong, in times per thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// The call returns EINTR.
    pub interrupted: u64,
    /// The call transfers only a part of what was asked for.
    pub short: u64,
    /// Other threads run first.
    pub late: u64,
    /// The call returns EIO, or ENOSPC where it needs space.
    pub failed: u64,
    /// fsync(2) fails, and the data that was not on the device never gets there.
    pub unconfirmed: u64,
}

/// The source of faults, and their counts.
pub struct Faults {
    rates: Rates,
    random: Mutex<Random>,
    quiet: AtomicBool,
    /// Calls so far, and the number of the call that always fails.
    calls: AtomicU64,
    nth: AtomicU64,
    happened: [AtomicU64; 5],
    rings: AtomicU64,
    /// Additional microseconds of a read, a write and a sync.
    slow: [AtomicU64; 3],
}

impl Faults {
    pub fn new(seed: u64, rates: Rates) -> Arc<Self> {
        Arc::new(Self {
            rates,
            random: Mutex::new(Random::new(seed)),
            quiet: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            nth: AtomicU64::new(u64::MAX),
            happened: Default::default(),
            rings: AtomicU64::new(0),
            slow: Default::default(),
        })
    }

    /// Stops errors, or starts them again; short and interrupted calls continue.
    pub fn quiet(&self, quiet: bool) {
        self.quiet.store(quiet, SeqCst);
    }

    /// Makes call number `nth` fail, counted from 0.
    pub fn fail_nth(&self, nth: u64) {
        self.nth.store(nth, SeqCst);
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// Makes reads, writes and syncs take this much longer from now on.
    pub fn slow(&self, [read, write, sync]: [Duration; 3]) {
        for (more, word) in [read, write, sync].iter().zip(&self.slow) {
            word.store(more.as_micros() as u64, SeqCst);
        }
    }

    fn takes_longer(&self, what: usize) {
        let more = self.slow[what].load(SeqCst);
        if more > 0 {
            std::thread::sleep(Duration::from_micros(more));
        }
    }

    fn ring(&self) {
        self.rings.fetch_add(1, SeqCst);
    }

    /// Returns the number of transfers made by a ring.
    pub fn rings(&self) -> u64 {
        self.rings.load(SeqCst)
    }

    /// Returns how often each fault happened, in the order of [`Rates`].
    pub fn happened(&self) -> [u64; 5] {
        [0, 1, 2, 3, 4].map(|i: usize| self.happened[i].load(SeqCst))
    }

    fn hits(&self, which: usize, rate: u64) -> bool {
        let hit = self.random.lock().expect("no panic").hits(rate);
        if hit {
            self.happened[which].fetch_add(1, SeqCst);
        }
        hit
    }

    /// Comes before every call: delays it, interrupts it, or lets it fail with `errno`.
    fn before(&self, errno: Errno) -> Result<(), Errno> {
        if self.calls.fetch_add(1, SeqCst) == self.nth.load(SeqCst) {
            return Err(errno);
        }
        if self.hits(2, self.rates.late) {
            for _ in 0..20 {
                std::thread::yield_now();
            }
        }
        if self.hits(0, self.rates.interrupted) {
            return Err(Errno::INTR);
        }
        if !self.quiet.load(SeqCst) && self.hits(3, self.rates.failed) {
            return Err(errno);
        }
        Ok(())
    }

    /// Returns how many of `len` bytes a call transfers.
    fn part(&self, len: usize) -> usize {
        if len > 1 && self.hits(1, self.rates.short) {
            1 + self.random.lock().expect("no panic").below(len as u64 - 1) as usize
        } else {
            len
        }
    }

    /// Returns true if an fsync is to fail.
    pub fn unconfirmed(&self) -> bool {
        !self.quiet.load(SeqCst) && self.hits(4, self.rates.unconfirmed)
    }
}

/// A storage whose calls go wrong.
pub struct Faulty<S> {
    pub beneath: S,
    pub faults: Arc<Faults>,
}

struct FaultyFile {
    beneath: Box<dyn Backing>,
    faults: Arc<Faults>,
}

impl<S: Storage> Storage for Faulty<S> {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        self.faults.before(Errno::IO).map_err(Error::Io)?;
        let opened = self.beneath.open(path)?;
        Ok(Opened {
            file: Box::new(FaultyFile {
                beneath: opened.file,
                faults: Arc::clone(&self.faults),
            }),
            ..opened
        })
    }

    fn rings(&self) -> bool {
        self.beneath.rings()
    }
}

impl Backing for FaultyFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.faults.before(Errno::IO)?;
        self.faults.takes_longer(0);
        let len = parts.iter().map(|p| p.len()).sum();
        let mut left = self.faults.part(len);
        let mut some = Vec::new();
        for p in parts {
            let n = left.min(p.len());
            some.push(IoSliceMut::new(&mut p[..n]));
            left -= n;
        }
        self.beneath.read(&mut some, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let full = at.is_multiple_of(3);
        self.faults
            .before(if full { Errno::NOSPC } else { Errno::IO })?;
        self.faults.takes_longer(1);
        let mut left = self.faults.part(parts.iter().map(|p| p.len()).sum());
        let mut some = Vec::new();
        for p in parts {
            let n = left.min(p.len());
            some.push(IoSlice::new(&p[..n]));
            left -= n;
        }
        self.beneath.write(&some, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.faults.before(Errno::NOSPC)?;
        self.beneath.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.faults.before(Errno::IO)?;
        self.faults.takes_longer(2);
        self.beneath.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.faults.before(Errno::IO)?;
        self.beneath.has_name()
    }

    /// Applies the faults to a ring's transfer: interruptions and errors before it, short counts by
    /// asking for less.
    fn way(&self, write: bool, at: u64, len: usize) -> Result<Option<Way<'_>>, Errno> {
        let full = write && at.is_multiple_of(3);
        self.faults
            .before(if full { Errno::NOSPC } else { Errno::IO })?;
        self.faults.ring();
        self.beneath.way(write, at, self.faults.part(len))
    }

    fn other_way(&self, errno: Errno) -> bool {
        self.beneath.other_way(errno)
    }
}
