//! A storage whose files are slow, or hang, if their path has "slow" in it; such files are on a
//! device of their own.
#![allow(dead_code)] // not every test uses all of it

use lowmark_cache::storage::{Backing, Opened, Os, Storage};
use lowmark_cache::{Errno, Error};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The storage: its slow files take `ms` milliseconds for each write, sync and truncation.
pub struct Slow {
    ms: u64,
    hang: Arc<AtomicBool>,
}

struct File {
    beneath: Box<dyn Backing>,
    ms: u64,
    hang: Arc<AtomicBool>,
}

impl Slow {
    /// Returns the storage, and the word that makes its slow files hang while it is true.
    pub fn new(ms: u64) -> (Arc<Self>, Arc<AtomicBool>) {
        let hang = Arc::new(AtomicBool::new(false));
        let storage = Self {
            ms,
            hang: Arc::clone(&hang),
        };
        (Arc::new(storage), hang)
    }
}

impl Storage for Slow {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let mut opened = Os::default().open(path)?;
        if path.to_string_lossy().contains("slow") {
            opened.id.device ^= 1 << 40;
            opened.file = Box::new(File {
                beneath: opened.file,
                ms: self.ms,
                hang: Arc::clone(&self.hang),
            });
        }
        Ok(opened)
    }
}

impl File {
    fn wait(&self) {
        std::thread::sleep(Duration::from_millis(self.ms));
        while self.hang.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Backing for File {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.beneath.read(parts, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        self.wait();
        self.beneath.write(parts, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.wait();
        self.beneath.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.wait();
        self.beneath.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.beneath.has_name()
    }
}

/// A pseudorandom generator: xorshift64*.
pub struct Random(pub u64);

impl Random {
    /// Returns a number from 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % n
    }
}
