//! A small key-value store whose buffer pool is the live cache: pages of 4 KiB that are pinned in
//! place, a B+tree over them (`tree`, `page`), and a log that makes changes durable (`log`).
//!
//! A put changes the log and the tree, and is acknowledged when the log is on the device. A
//! checkpoint syncs the tree, writes its place to one of two pages alternately, syncs that, and
//! starts the log anew. Opening the store takes the newer of the two pages whose sum is right, and
//! replays the log of the epoch after it. No page that the last checkpoint needs is overwritten, so
//! the cache may write dirty pages whenever it wants, as page caches do.

pub mod log;
pub mod page;
pub mod tree;

use log::Log;
use lowmark_cache::{Advice, Cache, File};
use page::Entry;
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tree::{FIRST, Tree};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The first bytes of a page that has the place of a tree.
const MAGIC: &[u8; 8] = b"lowmarkv";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the cache.
    #[error("{0}")]
    Cache(#[from] lowmark_cache::Error),
    /// A key of more than 256 bytes, or a value of more than 1024.
    #[error("a key has up to 256 bytes and a value up to 1024")]
    TooLong,
    /// The file is not a store.
    #[error("this is no store")]
    NoStore,
    /// An earlier change failed half way: the data on the device is consistent, so open the store
    /// again.
    #[error("an earlier change failed; open the store again")]
    Broken,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The store.
pub struct Store {
    tree: RwLock<Tree>,
    log: Log,
    /// Bytes of log after which a checkpoint is made.
    most_log: u64,
    broken: AtomicBool,
}

/// The place of a tree in its file.
struct Place {
    epoch: u64,
    root: u32,
    next: u32,
}

impl Place {
    fn bytes(&self) -> [u8; PAGE] {
        let mut p = [0; PAGE];
        p[..8].copy_from_slice(MAGIC);
        p[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        p[16..20].copy_from_slice(&self.root.to_le_bytes());
        p[20..24].copy_from_slice(&self.next.to_le_bytes());
        let sum = log::sum(&p[..24]);
        p[24..28].copy_from_slice(&sum.to_le_bytes());
        p
    }

    fn read(p: &[u8; PAGE]) -> Option<Self> {
        let four = |at: usize| u32::from_le_bytes([p[at], p[at + 1], p[at + 2], p[at + 3]]);
        let right = &p[..8] == MAGIC && four(24) == log::sum(&p[..24]);
        right.then(|| Self {
            epoch: u64::from(four(8)) | u64::from(four(12)) << 32,
            root: four(16),
            next: four(20),
        })
    }

    /// Returns the newest valid place in a file.
    fn newest(file: &File) -> Result<Option<Self>> {
        let mut found = Vec::new();
        for n in 0..FIRST {
            found.extend(Self::read(&*file.pin(n)?));
        }
        Ok(found.into_iter().max_by_key(|p| p.epoch))
    }
}

impl Store {
    /// Opens the store of a folder, or creates one; `most_log`: bytes of log after which a
    /// checkpoint is made.
    pub fn open(cache: &Cache, folder: &Path, most_log: u64) -> Result<Self> {
        let file = cache.open(folder.join("tree"))?;
        file.advise(0, 0, Advice::Random)?;
        let fresh = file.size() == 0;
        if fresh {
            file.truncate(u64::from(FIRST) * PAGE as u64)?;
        }
        let (tree, log) = match Place::newest(&file)? {
            Some(p) => {
                let tree = Tree::open(file, p.root, p.next, p.epoch + 1)?;
                (
                    tree,
                    Log::open(cache.open(folder.join("log"))?, p.epoch + 1)?,
                )
            }
            // Without a checkpoint nothing was acknowledged.
            None if fresh || is_empty(&file)? => (
                Tree::new(file, 1)?,
                Log::open(cache.open(folder.join("log"))?, u64::MAX)?,
            ),
            None => return Err(Error::NoStore),
        };
        let (log, changes) = log;
        let store = Self {
            tree: RwLock::new(tree),
            log,
            most_log,
            broken: AtomicBool::new(false),
        };
        for (key, value) in changes {
            store.apply(
                &mut store.tree.write().expect("no panic"),
                &key,
                value.as_deref(),
            )?;
        }
        store.checkpoint()?;
        Ok(store)
    }

    fn apply(&self, tree: &mut Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => tree.put(key, value),
            None => tree.delete(key).map(|_| ()),
        }
    }

    /// Runs `f`; if it fails, the store counts as broken.
    fn whole<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.broken.load(SeqCst) {
            return Err(Error::Broken);
        }
        let result = f();
        if result.is_err() {
            self.broken.store(true, SeqCst);
        }
        result
    }

    /// Changes the tree and the log; returns the end of the log that must be synced.
    fn change(&self, key: &[u8], value: Option<&[u8]>) -> Result<u64> {
        tree::check(key, value.unwrap_or_default())?;
        let mut tree = self.tree.write().expect("no panic");
        self.whole(|| {
            let end = self.log.append(tree.epoch, key, value)?;
            self.apply(&mut tree, key, value)?;
            if self.log.len() > self.most_log {
                self.checkpoint_of(&mut tree)?;
            }
            Ok(end)
        })
    }

    /// Puts a value and waits until it is durable.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let end = self.change(key, Some(value))?;
        self.whole(|| self.log.sync(end))
    }

    /// Deletes a key and waits until the deletion is durable.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let end = self.change(key, None)?;
        self.whole(|| self.log.sync(end))
    }

    /// Changes a key without waiting: the change is durable once a later one is.
    pub fn change_soon(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.change(key, value).map(|_| ())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.tree.read().expect("no panic").get(key)
    }

    /// Returns up to `most` entries from a key on, in order.
    pub fn scan(&self, from: &[u8], most: usize) -> Result<Vec<Entry>> {
        self.tree.read().expect("no panic").scan(from, most)
    }

    /// Makes the tree durable and starts the log anew.
    pub fn checkpoint(&self) -> Result<()> {
        let mut tree = self.tree.write().expect("no panic");
        self.whole(|| self.checkpoint_of(&mut tree))
    }

    fn checkpoint_of(&self, tree: &mut Tree) -> Result<()> {
        tree.file().fsync()?;
        let place = Place {
            epoch: tree.epoch,
            root: tree.root,
            next: tree.next,
        };
        let at = place.epoch % u64::from(FIRST) * PAGE as u64;
        tree.file().write(at, &place.bytes())?;
        tree.file().fsync()?;
        tree.next_epoch();
        self.log.restart();
        Ok(())
    }

    /// Returns the number of page accesses so far, and the number of pages.
    pub fn pages(&self) -> (u64, u32) {
        let tree = self.tree.read().expect("no panic");
        (tree.pins.load(SeqCst), tree.next)
    }
}

/// Returns true if the file's first pages are all zero.
fn is_empty(file: &File) -> Result<bool> {
    for n in 0..FIRST {
        if file.pin(n)?.iter().any(|&b| b != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
