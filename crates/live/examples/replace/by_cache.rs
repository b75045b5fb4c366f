//! The buffer pool over the live cache.

use super::pool::{Bytes, PAGE, Pool, Result};
use lowmark_cache::storage::Storage;
use lowmark_cache::{Advice, Cache, Config, File};
use std::path::Path;
use std::sync::Arc;

/// The pool.
pub struct ByCache {
    file: File,
    _cache: Cache,
}

impl ByCache {
    /// Creates a pool of `memory` bytes over a file of `pages` pages.
    pub fn new(on: Arc<dyn Storage>, path: &Path, pages: u32, memory: u64) -> Result<Self> {
        let config = Config {
            memory,
            ..Config::default()
        };
        let cache = Cache::on(on, config)?;
        let file = cache.open(path)?;
        file.truncate(u64::from(pages) * PAGE as u64)?;
        file.advise(0, 0, Advice::Random)?;
        Ok(Self {
            file,
            _cache: cache,
        })
    }
}

impl Pool for ByCache {
    fn read(&self, page: u32, f: &mut dyn FnMut(&Bytes)) -> Result<()> {
        f(&*self.file.pin(page)?);
        Ok(())
    }

    fn change(&self, page: u32, f: &mut dyn FnMut(&mut Bytes)) -> Result<()> {
        f(&mut *self.file.pin_mut(page)?);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.fsync()
    }
}
