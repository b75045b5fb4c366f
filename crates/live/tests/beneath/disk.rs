//! A device in memory that can lose power.
//!
//! Changes that were not synced are kept in a list. At a power cut each sector of each write
//! reaches the device or not, and each truncation reaches it or not, independently of those before.
//! An fsync that fails leaves some of the writes on the device and forgets the others, like a
//! kernel that holds pages for clean which it could not write; truncations are the filesystem's own
//! and are not forgotten. Inode numbers of files without names and users are used again at once.

use super::{Faults, Random};
use lowmark_cache::storage::{Backing, FileId, Opened, Storage};
use lowmark_cache::{Errno, Error};
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(at, new) => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Self::Cut(len) => bytes.resize(*len, 0),
        }
    }

    /// Applies some sectors of a write; applies a truncation with probability `cuts` in a thousand.
    fn make_in_part(&self, random: &mut Random, bytes: &mut Vec<u8>, cuts: u64) {
        match self {
            Self::Write(at, new) => {
                let mut from = 0;
                while from < new.len() {
                    let to = ((at + from) / SECTOR + 1) * SECTOR - at;
                    let to = to.min(new.len());
                    if random.hits(500) {
                        Self::Write(at + from, new[from..to].to_vec()).make(bytes);
                    }
                    from = to;
                }
            }
            Self::Cut(_) if random.hits(cuts) => self.make(bytes),
            Self::Cut(_) => {}
        }
    }
}

#[derive(Default)]
struct Inode {
    /// The contents as the system has them.
    now: Vec<u8>,
    /// The contents on the device.
    durable: Vec<u8>,
    /// Changes that are not on the device.
    pending: Vec<Change>,
    names: u32,
    users: u32,
}

struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    random: Random,
    /// Calls until the power cut; `None`: there is none.
    left: Option<u64>,
    faults: Arc<Faults>,
}

/// The device; clones share it.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

struct DiskFile {
    disk: Disk,
    inode: usize,
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().expect("a name");
    name.to_str().expect("a plain name").to_owned()
}

impl Disk {
    /// Creates an empty device. The power is cut after `calls` calls; `None`: never.
    pub fn new(seed: u64, faults: Arc<Faults>, calls: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            random: Random::new(seed),
            left: calls,
            faults,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    pub fn is_dead(&self) -> bool {
        self.state().left == Some(0)
    }

    /// Counts a call; it fails if there is no power.
    fn call(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let mut s = self.state();
        if let Some(left) = &mut s.left {
            if *left == 0 {
                return Err(Errno::IO);
            }
            *left -= 1;
            // The power is cut in the middle of this call.
            if *left == 0 {
                return Err(Errno::IO);
            }
        }
        Ok(s)
    }

    pub fn link(&self, from: &str, to: &str) {
        let mut s = self.state();
        let inode = s.names[from];
        s.inodes[inode].names += 1;
        s.names.insert(to.to_owned(), inode);
    }

    pub fn rename(&self, from: &str, to: &str) {
        let mut s = self.state();
        let inode = s.names.remove(from).expect("a name");
        if let Some(gone) = s.names.insert(to.to_owned(), inode) {
            s.inodes[gone].names -= 1;
        }
    }

    pub fn remove(&self, name: &str) {
        let mut s = self.state();
        let gone = s.names.remove(name).expect("a name");
        s.inodes[gone].names -= 1;
    }

    pub fn inode_of(&self, name: &str) -> u64 {
        self.state().names[name] as u64
    }

    /// Returns a file's contents as the system sees them.
    pub fn bytes(&self, inode: u64) -> Vec<u8> {
        self.state().inodes[inode as usize].now.clone()
    }

    /// Returns what a power cut now would leave of every file that has a name.
    pub fn survivors(&self) -> Vec<(u64, Vec<u8>)> {
        let mut s = self.state();
        let State { inodes, random, .. } = &mut *s;
        let named = inodes.iter().enumerate().filter(|(_, i)| i.names > 0);
        named
            .map(|(n, i)| {
                let mut bytes = i.durable.clone();
                for change in &i.pending {
                    change.make_in_part(random, &mut bytes, 500);
                }
                (n as u64, bytes)
            })
            .collect()
    }
}

impl Storage for Disk {
    fn open(&self, path: &Path) -> Result<Opened, Error> {
        let mut s = self.call().map_err(Error::Io)?;
        let State { inodes, names, .. } = &mut *s;
        let inode = *names.entry(name_of(path)).or_insert_with(|| {
            let unused = |i: &Inode| i.names == 0 && i.users == 0;
            let n = inodes.iter().position(unused).unwrap_or(inodes.len());
            if n == inodes.len() {
                inodes.push(Inode::default());
            }
            inodes[n] = Inode {
                names: 1,
                ..Inode::default()
            };
            n
        });
        inodes[inode].users += 1;
        let len = inodes[inode].now.len() as u64;
        drop(s);
        Ok(Opened {
            id: FileId {
                device: 1,
                inode: inode as u64,
            },
            len,
            file: Box::new(DiskFile {
                disk: self.clone(),
                inode,
            }),
        })
    }
}

impl DiskFile {
    fn change(&self, s: &mut State, change: Change) {
        let inode = &mut s.inodes[self.inode];
        change.make(&mut inode.now);
        inode.pending.push(change);
    }
}

impl Backing for DiskFile {
    fn read(&self, parts: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        let s = self.disk.call()?;
        let now = &s.inodes[self.inode].now;
        let mut from = now.len().min(at as usize);
        let start = from;
        for p in parts {
            let n = p.len().min(now.len() - from);
            p[..n].copy_from_slice(&now[from..from + n]);
            from += n;
        }
        Ok(from - start)
    }

    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let bytes: Vec<u8> = parts.iter().flat_map(|p| p.iter().copied()).collect();
        let n = bytes.len();
        match self.disk.call() {
            Ok(mut s) => self.change(&mut s, Change::Write(at as usize, bytes)),
            Err(e) => {
                // The power was cut while the write was under way.
                self.change(&mut self.disk.state(), Change::Write(at as usize, bytes));
                return Err(e);
            }
        }
        Ok(n)
    }

    fn truncate(&self, len: u64) -> Result<(), Errno> {
        let mut s = self.disk.call()?;
        self.change(&mut s, Change::Cut(len as usize));
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        let mut s = self.disk.call()?;
        let fails = s.faults.unconfirmed();
        let State { inodes, random, .. } = &mut *s;
        let inode = &mut inodes[self.inode];
        for change in std::mem::take(&mut inode.pending) {
            if fails {
                change.make_in_part(random, &mut inode.durable, 1000);
            } else {
                change.make(&mut inode.durable);
            }
        }
        if fails { Err(Errno::IO) } else { Ok(()) }
    }

    fn has_name(&self) -> Result<bool, Errno> {
        Ok(self.disk.call()?.inodes[self.inode].names > 0)
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.disk.state().inodes[self.inode].users -= 1;
    }
}
