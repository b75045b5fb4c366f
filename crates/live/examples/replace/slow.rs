//! A slow device: it makes one transfer after the other, with a fixed time for each MiB.

use lowmark_cache::storage::{Backing, Opened, Os, Storage};
use lowmark_cache::{Errno, Error};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time at which the device is free again.
#[derive(Clone)]
struct Queue(Arc<Mutex<Instant>>);

/// The operating system's files on a slow device.
pub struct Slow {
    queue: Queue,
    per_mib: Duration,
}

struct SlowFile {
    file: Box<dyn Backing>,
    queue: Queue,
    per_mib: Duration,
}

impl Slow {
    /// Creates a device that takes `per_mib` for each MiB.
    pub fn new(per_mib: Duration) -> Self {
        Self {
            queue: Queue(Arc::new(Mutex::new(Instant::now()))),
            per_mib,
        }
    }
}

impl Storage for Slow {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let opened = Os::default().open(path)?;
        let file = SlowFile {
            file: opened.file,
            queue: self.queue.clone(),
            per_mib: self.per_mib,
        };
        Ok(Opened {
            file: Box::new(file),
            ..opened
        })
    }
}

impl SlowFile {
    /// Waits until the device has finished the transfers before, and one of `len` bytes.
    fn wait(&self, len: usize) {
        let end = {
            let mut free = self.queue.0.lock().expect("no panic");
            *free = Instant::now().max(*free) + self.per_mib.mul_f64(len as f64 / 1_048_576.0);
            *free
        };
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

impl Backing for SlowFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        self.wait(parts.iter().map(|p| p.len()).sum());
        self.file.read(parts, at)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        self.wait(parts.iter().map(|p| p.len()).sum());
        self.file.write(parts, at)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        self.file.truncate(len)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.file.sync()
    }

    fn has_name(&self) -> Result<bool, Errno> {
        self.file.has_name()
    }
}
