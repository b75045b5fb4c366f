//! Shrinkers: caches of the program's own objects that reclaim asks to free some.

use crate::sync::RwLock;
use std::sync::Arc;

/// A cache of a program's own objects, which reclaim asks to free some
/// ([`crate::Cache::register_shrinker`]).
///
/// It is called by the task that reclaims: the cache's own kswapd, or a thread of the program that
/// needs a page, in the middle of its call. So it must not wait for a lock that such a thread may
/// hold (use `try_lock`, and return `None` if it fails). It must not call the cache, except to drop
/// what it holds of it: a call that needs more than a look at cached pages fails with
/// [`crate::Error::InShrinker`]. Several threads may call it at the same time.
pub trait Shrinker: Send + Sync {
    /// Returns the number of objects that could be freed now.
    fn count(&self) -> u64;

    /// Scans `n` objects and frees those that it can, mostly by dropping their [`crate::Buffer`]s;
    /// returns how many it freed. `None`: it cannot proceed now and is to be asked another time.
    fn scan(&self, n: u64) -> Option<u64>;

    /// Returns the cost of making an object again, in disk seeks: at twice the cost half as many
    /// objects are asked for. At least 1; the kernel's default is 2.
    fn seeks(&self) -> u32 {
        2
    }

    /// Returns how many objects are asked for in one call; fewer are put off until there are
    /// enough. At least 1; the kernel's default is 128.
    fn batch(&self) -> u32 {
        128
    }
}

/// The shrinkers of a cache.
#[derive(Default)]
pub struct Shrinkers(RwLock<Vec<Option<Arc<dyn Shrinker>>>>);

/// Most shrinkers of a cache.
pub const MOST: usize = 64;

impl Shrinkers {
    /// Registers a shrinker and returns its number; `None`: there are [`MOST`] already.
    pub fn add(&self, shrinker: Arc<dyn Shrinker>) -> Option<u32> {
        let mut all = self.0.write();
        let free = all.iter().position(Option::is_none);
        let at = free.unwrap_or(all.len());
        if at == MOST {
            return None;
        }
        if at == all.len() {
            all.push(None);
        }
        all[at] = Some(shrinker);
        Some(at as u32)
    }

    /// Removes a shrinker by its number, which then is free for another.
    pub fn remove(&self, number: u32) {
        // Dropped outside the lock: its drop may free buffers.
        let _gone = self.0.write()[number as usize].take();
    }

    /// Returns the number of places, free ones included.
    pub fn count(&self) -> u32 {
        self.0.read().len() as u32
    }

    /// Returns a shrinker by its number, if it is registered.
    pub fn get(&self, number: u32) -> Option<Arc<dyn Shrinker>> {
        self.0.read().get(number as usize).cloned().flatten()
    }
}
