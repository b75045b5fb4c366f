//! A B+tree over the pages of a cached file, with copy on write: a page of the last checkpoint's
//! tree is never overwritten; a change is made to a copy of it elsewhere, and of the path above it.
//! So it does not matter which dirty pages the cache has written when the program is killed, and no
//! page can be torn.

use super::page::{self, Bytes, Entry};
use super::{Error, PAGE, Result};
use lowmark_cache::File;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of pages by which the file grows.
const GROWTH: u64 = 1024;
/// The first page behind those that have the place of a tree.
pub const FIRST: u32 = 2;

/// The new page of a split, for the page above: its smallest key and its number.
type Split = Option<(Vec<u8>, u32)>;

/// The tree.
pub struct Tree {
    file: File,
    pub root: u32,
    /// Number of pages of the file that were ever used.
    pub next: u32,
    /// Pages that belong to no tree.
    free: Vec<u32>,
    /// Pages that belong only to the last checkpoint's tree.
    left: Vec<u32>,
    /// Pages of this epoch belong only to this tree.
    pub epoch: u64,
    /// Number of page accesses.
    pub pins: AtomicU64,
}

impl Tree {
    /// Creates an empty tree.
    pub fn new(file: File, epoch: u64) -> Result<Self> {
        let mut tree = Self::at(file, FIRST, FIRST, epoch);
        tree.root = tree.add_page(&page::empty(0, epoch))?;
        Ok(tree)
    }

    fn at(file: File, root: u32, next: u32, epoch: u64) -> Self {
        Self {
            file,
            root,
            next,
            free: Vec::new(),
            left: Vec::new(),
            epoch,
            pins: AtomicU64::new(0),
        }
    }

    /// Opens the tree of a checkpoint; `epoch` is the one that begins.
    pub fn open(file: File, root: u32, next: u32, epoch: u64) -> Result<Self> {
        let mut tree = Self::at(file, root, next, epoch);
        let mut used = HashSet::new();
        tree.note_used(root, &mut used)?;
        tree.free = (FIRST..next).filter(|n| !used.contains(n)).collect();
        Ok(tree)
    }

    /// Collects the pages of a tree; leaves are not read.
    fn note_used(&self, n: u32, used: &mut HashSet<u32>) -> Result<()> {
        used.insert(n);
        let children = {
            let p = self.pin(n)?;
            let children = 0..if page::level(&p) > 0 {
                page::count(&p)
            } else {
                0
            };
            let leaves = page::level(&p) == 1;
            let children: Vec<u32> = children.map(|i| page::child(&p, i)).collect();
            if leaves {
                used.extend(&children);
                return Ok(());
            }
            children
        };
        children
            .into_iter()
            .try_for_each(|c| self.note_used(c, used))
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Begins the next epoch after a checkpoint is on the device: pages that only the one before
    /// had are free.
    pub fn next_epoch(&mut self) {
        self.free.append(&mut self.left);
        self.epoch += 1;
    }

    fn pin(&self, n: u32) -> Result<lowmark_cache::PageRef<'_>> {
        self.pins.fetch_add(1, Relaxed);
        Ok(self.file.pin(n)?)
    }

    /// Changes a page of this epoch in place.
    fn change<T>(&self, n: u32, f: impl FnOnce(&mut Bytes) -> T) -> Result<T> {
        self.pins.fetch_add(1, Relaxed);
        Ok(f(&mut *self.file.pin_mut(n)?))
    }

    fn add_page(&mut self, bytes: &Bytes) -> Result<u32> {
        let n = match self.free.pop() {
            Some(n) => n,
            None => {
                let at = u64::from(self.next) * PAGE as u64;
                if at >= self.file.size() {
                    self.file.truncate(at + GROWTH * PAGE as u64)?;
                }
                self.next += 1;
                self.next - 1
            }
        };
        // The whole page is written, so it is not read first.
        self.file.write(u64::from(n) * PAGE as u64, bytes)?;
        Ok(n)
    }

    /// Returns a page that may be changed: `n` itself, or a copy.
    fn own(&mut self, n: u32) -> Result<u32> {
        let mut copy = {
            let p = self.pin(n)?;
            if page::epoch(&p) == self.epoch {
                return Ok(n);
            }
            *p
        };
        page::set_epoch(&mut copy, self.epoch);
        let new = self.add_page(&copy)?;
        self.left.push(n);
        Ok(new)
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut n = self.root;
        loop {
            let p = self.pin(n)?;
            if page::level(&p) == 0 {
                let found = page::find(&p, key).ok();
                return Ok(found.map(|i| page::value(&p, i).to_vec()));
            }
            n = page::child(&p, page::child_for(&p, key));
        }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (root, split) = self.put_below(self.root, key, value)?;
        self.root = root;
        if let Some((least, right)) = split {
            let level = page::level(&*self.pin(root)?) + 1;
            let mut p = page::empty(level, self.epoch);
            page::insert(&mut p, 0, b"", &root.to_le_bytes());
            page::insert(&mut p, 1, &least, &right.to_le_bytes());
            self.root = self.add_page(&p)?;
        }
        Ok(())
    }

    /// Puts an entry below a page; returns the page's new number and the split, if there was one.
    fn put_below(&mut self, n: u32, key: &[u8], value: &[u8]) -> Result<(u32, Split)> {
        let n = self.own(n)?;
        let below = self.below(n, key)?;
        let Some((i, child)) = below else {
            return Ok((n, self.add(n, key, value)?));
        };
        let (new, split) = self.put_below(child, key, value)?;
        if new != child {
            self.change(n, |p| page::set_child(p, i, new))?;
        }
        match split {
            Some((least, right)) => Ok((n, self.add(n, &least, &right.to_le_bytes())?)),
            None => Ok((n, None)),
        }
    }

    /// Returns the entry and the child for a key; `None` on a leaf.
    fn below(&self, n: u32, key: &[u8]) -> Result<Option<(usize, u32)>> {
        let p = self.pin(n)?;
        if page::level(&p) == 0 {
            return Ok(None);
        }
        let i = page::child_for(&p, key);
        Ok(Some((i, page::child(&p, i))))
    }

    /// Puts an entry into a page, and splits the page if there is no room.
    fn add(&mut self, n: u32, key: &[u8], value: &[u8]) -> Result<Split> {
        let all = self.change(n, |p| {
            let at = page::find(p, key).inspect(|&i| page::remove(p, i));
            let at = at.unwrap_or_else(|i| i);
            if page::insert(p, at, key, value) {
                return None;
            }
            let mut all = page::entries(p);
            all.insert(at, (key.to_vec(), value.to_vec()));
            let right = all.split_off(page::middle(&all));
            page::fill(p, &all);
            Some((page::level(p), right))
        })?;
        let Some((level, right)) = all else {
            return Ok(None);
        };
        let mut p = page::empty(level, self.epoch);
        page::fill(&mut p, &right);
        Ok(Some((right[0].0.clone(), self.add_page(&p)?)))
    }

    /// Deletes a key; returns true if it was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        if self.get(key)?.is_none() {
            return Ok(false);
        }
        self.root = match self.delete_below(self.root, key)? {
            Some(root) => root,
            None => self.add_page(&page::empty(0, self.epoch))?,
        };
        Ok(true)
    }

    /// Deletes an existing key below a page; returns the page's new number, `None` if it became
    /// empty.
    fn delete_below(&mut self, n: u32, key: &[u8]) -> Result<Option<u32>> {
        let n = self.own(n)?;
        let left = match self.below(n, key)? {
            None => self.change(n, |p| {
                let i = page::find(p, key).expect("it is there");
                page::remove(p, i);
                page::count(p)
            })?,
            Some((i, child)) => {
                let new = self.delete_below(child, key)?;
                if new == Some(child) {
                    return Ok(Some(n));
                }
                self.change(n, |p| {
                    match new {
                        Some(new) => page::set_child(p, i, new),
                        None => page::remove(p, i),
                    }
                    page::count(p)
                })?
            }
        };
        if left == 0 {
            self.left.push(n);
        }
        Ok((left > 0).then_some(n))
    }

    /// Returns up to `most` entries from a key on, in order.
    pub fn scan(&self, from: &[u8], most: usize) -> Result<Vec<Entry>> {
        let mut out = Vec::new();
        self.scan_below(self.root, from, most, &mut out)?;
        Ok(out)
    }

    fn scan_below(&self, n: u32, from: &[u8], most: usize, out: &mut Vec<Entry>) -> Result<()> {
        let p = self.pin(n)?;
        if page::level(&p) == 0 {
            let first = page::find(&p, from).unwrap_or_else(|i| i);
            let entry = |i| (page::key(&p, i).to_vec(), page::value(&p, i).to_vec());
            let room = most - out.len();
            out.extend((first..page::count(&p)).take(room).map(entry));
            return Ok(());
        }
        for i in page::child_for(&p, from)..page::count(&p) {
            if out.len() == most {
                break;
            }
            self.scan_below(page::child(&p, i), from, most, out)?;
        }
        Ok(())
    }
}

/// Returns an error if a key or a value is too long for a tree.
pub fn check(key: &[u8], value: &[u8]) -> Result<()> {
    match key.len() <= page::MOST_KEY && value.len() <= page::MOST_VALUE {
        true => Ok(()),
        false => Err(Error::TooLong),
    }
}
