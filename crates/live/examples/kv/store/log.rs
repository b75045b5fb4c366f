//! The log: puts and deletions since the last checkpoint, in order. One fsync serves all that wait
//! for it.
//!
//! ```text
//! sum 4 | epoch 8 | length of the key 2 | of the value 2, or 65535: deleted | key | value
//! ```
//!
//! Each epoch begins at the file's first byte. Reading ends at a record whose sum is wrong or whose
//! epoch differs: it was being written when the program was killed, or is older.

use super::{Error, PAGE, Result};
use lowmark_cache::{Advice, File};
use std::sync::{Condvar, Mutex};

const HEAD: usize = 16;
const DELETED: u16 = u16::MAX;
/// Bytes by which the file grows, so that an fsync need not write a new file size.
const GROWTH: u64 = 1 << 20;

#[derive(Default)]
struct State {
    /// Bytes ever appended, and how many of them are on the device.
    end: u64,
    synced: u64,
    /// The value of `end` at the first byte of this epoch.
    base: u64,
    syncing: bool,
    broken: bool,
}

/// The log.
pub struct Log {
    file: File,
    state: Mutex<State>,
    done: Condvar,
}

/// A key, and its value unless it was deleted.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// Returns a 32-bit checksum: FNV-1a, folded.
pub fn sum(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ hash >> 32) as u32
}

impl Log {
    /// Opens a log; returns it with the changes it has of an epoch.
    pub fn open(file: File, epoch: u64) -> Result<(Self, Vec<Change>)> {
        file.advise(0, 0, Advice::Sequential)?;
        let mut changes = Vec::new();
        let mut at = 0;
        while let Some((change, len)) = read(&file, at, epoch)? {
            changes.push(change);
            at += len;
        }
        let log = Self {
            file,
            state: Mutex::default(),
            done: Condvar::new(),
        };
        Ok((log, changes))
    }

    /// Appends a change, in the order of the calls; returns the end that must be synced for it.
    pub fn append(&self, epoch: u64, key: &[u8], value: Option<&[u8]>) -> Result<u64> {
        let mut record = vec![0; 4];
        record.extend(epoch.to_le_bytes());
        record.extend((key.len() as u16).to_le_bytes());
        let len = value.map_or(DELETED, |v| v.len() as u16);
        record.extend(len.to_le_bytes());
        record.extend(key);
        record.extend(value.unwrap_or_default());
        let sum = sum(&record[4..]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
        let mut s = self.state.lock().expect("no panic");
        let at = s.end - s.base;
        if at + record.len() as u64 > self.file.size() {
            self.file.truncate(self.file.size() + GROWTH)?;
        }
        self.file.write(at, &record)?;
        s.end += record.len() as u64;
        Ok(s.end)
    }

    /// Waits until everything up to `end` is on the device.
    pub fn sync(&self, end: u64) -> Result<()> {
        let mut s = self.state.lock().expect("no panic");
        while s.synced < end {
            if s.broken {
                return Err(Error::Broken);
            }
            if s.syncing {
                s = self.done.wait(s).expect("no panic");
                continue;
            }
            s.syncing = true;
            let target = s.end;
            drop(s);
            let result = self.file.fsync();
            s = self.state.lock().expect("no panic");
            s.syncing = false;
            s.broken |= result.is_err();
            self.done.notify_all();
            result?;
            s.synced = s.synced.max(target);
        }
        Ok(())
    }

    /// Returns the number of bytes of this epoch.
    pub fn len(&self) -> u64 {
        let s = self.state.lock().expect("no panic");
        s.end - s.base
    }

    /// Starts a new epoch after a checkpoint, which contains all changes so far.
    pub fn restart(&self) {
        let mut s = self.state.lock().expect("no panic");
        s.base = s.end;
        s.synced = s.end;
        self.done.notify_all();
    }
}

/// Reads a record and its length; `None`: there is none of this epoch.
fn read(file: &File, at: u64, epoch: u64) -> Result<Option<(Change, u64)>> {
    let mut head = [0; HEAD];
    if file.read(at, &mut head)? < HEAD {
        return Ok(None);
    }
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (key, value) = (usize::from(number(12)), number(14));
    let values = if value == DELETED {
        0
    } else {
        usize::from(value)
    };
    if head[4..12] != epoch.to_le_bytes() || key + values > PAGE {
        return Ok(None);
    }
    let mut record = vec![0; HEAD + key + values];
    let n = file.read(at, &mut record)?;
    if n < record.len() || sum(&record[4..]).to_le_bytes() != head[..4] {
        return Ok(None);
    }
    let len = record.len() as u64;
    let rest = record.split_off(HEAD + key);
    let change = (record.split_off(HEAD), (value != DELETED).then_some(rest));
    Ok(Some((change, len)))
}
