//! Whom reclaim asks for objects of the program's own.

use crate::sync::RwLock;
use std::sync::Arc;

/// A cache of a program's own objects, which reclaim may ask for some back ([`crate::Cache::register_shrinker`]).
///
/// It is called by whoever reclaims: the cache's own kswapd, or a thread of the program that needs a page,
/// in the middle of its call. So it must not wait for a lock that such a thread may hold (`try_lock`, and
/// `None` if it fails), and must not call the cache but to drop what it has of it: whatever needs more than a
/// look at what is cached answers [`crate::Error::InShrinker`]. It may be called by several threads at the same time.
pub trait Shrinker: Send + Sync {
    /// Objects that could be freed now.
    fn count(&self) -> u64;

    /// Looks at `n` objects and frees those that it can, mostly by dropping their [`crate::Buffer`]s; says how many
    /// they were. `None`: it can't go on now, ask another time.
    fn scan(&self, n: u64) -> Option<u64>;

    /// What making an object again costs, in seeks of a disk: twice as much, and half as many are asked
    /// for. At least 1; the kernel's default is 2.
    fn seeks(&self) -> u32 {
        2
    }

    /// Objects that it is asked for at a time; less than that is put off until enough has come together.
    /// At least 1; the kernel's default is 128.
    fn batch(&self) -> u32 {
        128
    }
}

/// The shrinkers of a cache.
#[derive(Default)]
pub struct Shrinkers(RwLock<Vec<Option<Arc<dyn Shrinker>>>>);

/// Shrinkers that a cache may have.
pub const MOST: usize = 64;

impl Shrinkers {
    /// Its number; `None`: there are as many as may be.
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

    pub fn remove(&self, number: u32) {
        // Dropped without the lock: it may drop buffers.
        let _gone = self.0.write()[number as usize].take();
    }

    /// How many numbers there are.
    pub fn count(&self) -> u32 {
        self.0.read().len() as u32
    }

    /// One of them, if it is registered.
    pub fn get(&self, number: u32) -> Option<Arc<dyn Shrinker>> {
        self.0.read().get(number as usize).cloned().flatten()
    }
}
