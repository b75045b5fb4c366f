//! Mapped memory as workloads use it: mmap(2), touching pages, munmap(2).

use super::names::FileName;
use super::{Object, TaskHost, advise};
use crate::stack::Bottom;
use mm::cache::mmap::Backing;
use mm::world::Cost;
use mm::world::Tasks;
use mm::world::Touched;
use workload::{Advice, HostError, HostResult, Map, MapId, Word};

/// Pages touched between two relax points.
const BATCH: u64 = 32;

/// A mapping made by a task.
#[derive(Debug, Clone)]
pub(super) struct Mapped {
    region: u32,
    file: Option<u32>,
    pages: u64,
    /// The name its file was opened by; `None` for anonymous memory.
    name: Option<FileName>,
    /// The process that made it.
    pub(super) owner: super::process::Pid,
}

impl<const T: bool> TaskHost<'_, T> {
    /// Maps `len` bytes of anonymous memory or of an open file (mmap(2)). Returns the mapping's
    /// handle. The mapping holds the file's inode until it is unmapped.
    ///
    /// # Errors
    /// `len` is 0 or not a multiple of 4096, the descriptor is not a file's, or memory is out.
    pub(super) async fn map_pages(&self, what: Map, len: u64, advice: Advice) -> HostResult<MapId> {
        if self.dies_here() {
            self.die().await;
        }
        self.calls(Bottom::Other, 2);
        if len == 0 || !len.is_multiple_of(4096) {
            return Err(HostError::Unsupported(format!(
                "a mapping of {len} bytes; it takes whole pages of 4096"
            )));
        }
        let pages = u32::try_from(len / 4096).map_err(|_| HostError::OutOfMemory)?;
        let file = match what {
            Map::Anon => None,
            Map::Shared(fd) | Map::Private(fd) => {
                let o = self.get(fd)?;
                let Object::File(id) = o.object else {
                    let what = format!("mapping {}", self.path(fd));
                    return Err(HostError::Unsupported(what));
                };
                Some((id, self.file_name(fd), self.window(fd)))
            }
        };
        let backing = match (what, &file) {
            (Map::Shared(_), Some((mapping, ..))) => Backing::Shared {
                mapping: *mapping,
                first: 0,
            },
            (Map::Private(_), Some((mapping, ..))) => Backing::Private {
                mapping: *mapping,
                first: 0,
            },
            _ => Backing::Anon,
        };
        let region = self
            .mm
            .new_region(backing, pages, advise::of(advice))
            .ok_or(HostError::OutOfMemory)?;
        let (file, name) = match file {
            Some((id, name, window)) => {
                self.mm.world.map_windows.map(region, window);
                (Some(id), name)
            }
            None => (None, None),
        };
        if let Some(id) = file {
            self.hold_inode(id).await?;
            self.names.hold(id);
        }
        let map = self.names.maps.borrow_mut().insert(Mapped {
            region,
            file,
            pages: u64::from(pages),
            name,
            owner: self.life.pid(),
        });
        Ok(MapId(map as u32))
    }

    /// Touches `pages` pages of a mapping from page `first` on, faulting in those that are missing;
    /// with `word.store` the touch is a store.
    ///
    /// # Errors
    /// Memory is out, a fault met an I/O error, or `map` is not mapped.
    pub(super) async fn touch_pages(
        &self,
        map: MapId,
        first: u64,
        pages: u64,
        word: Word,
    ) -> HostResult<()> {
        let (region, inside) = {
            let maps = self.names.maps.borrow();
            let m = maps.get(map.0 as usize);
            let m = m.ok_or_else(|| HostError::Unsupported("memory that is not mapped".into()))?;
            (m.region, first + pages <= m.pages)
        };
        assert!(inside, "a program touches what it has mapped");
        let write = word.store.is_some();
        self.calls(Bottom::Fault, 0);
        let mut at = first;
        while at < first + pages {
            if self.dies_here() {
                self.die().await;
            }
            let n = BATCH.min(first + pages - at);
            self.mm.world.charge(Cost::Touch, n as u32);
            let (mut page, end) = (at as u32, (at + n) as u32);
            // Each step handles as many pages as need the same work: those in memory, those that a
            // store may dirty, missing anonymous ones, and others by a fault each.
            loop {
                page += self.mm.touch_mapped_run(region, page, end - page, write);
                if page == end {
                    break;
                }
                if write && let Some(done) = self.mm.store_at_once(region, page, end - page) {
                    page += done.pages - 1;
                    if let Some(file) = done.look {
                        self.mm.balance_now(file).await;
                        self.mm.world.relax().await;
                    } else if !self.mm.world.goes_on() {
                        self.mm.world.relax().await;
                    } else {
                        // No other task has run since, so no one can have cleaned this page.
                        page += 1;
                    }
                    continue;
                }
                if let Some(done) = self.mm.anon_at_once(region, page, end - page) {
                    // The next to touch is the last page that was given memory, or, with `rest`,
                    // the one whose allocation is still to be finished.
                    page += done.pages - u32::from(done.rest.is_none());
                    let had = match done.rest {
                        Some(start) => self.mm.anon_rest(region, page, start).await,
                        None => true,
                    };
                    self.mm.world.relax().await;
                    if !had {
                        return Err(HostError::OutOfMemory);
                    }
                    continue;
                }
                match self.mm.touch(region, page, write).await {
                    Touched::Ok => {}
                    Touched::OutOfMemory => return Err(HostError::OutOfMemory),
                    Touched::BusError => {
                        return Err(HostError::Io(self.mapped_path(map)));
                    }
                }
                page += 1;
            }
            self.mm.world.note_moved(n * 4096);
            if self.mm.is_over_high() {
                self.mm.handle_over_high().await;
            }
            self.mm.world.relax().await;
            at += n;
        }
        Ok(())
    }

    /// Returns the path of a mapping's file, for error messages; empty if `map` is not mapped.
    fn mapped_path(&self, map: MapId) -> String {
        let maps = self.names.maps.borrow();
        let name = maps.get(map.0 as usize).map(|m| m.name.as_ref());
        match name {
            Some(Some(name)) => self.names.names.borrow().path_of(name),
            Some(None) => "anonymous memory".to_owned(),
            None => String::new(),
        }
    }

    /// Unmaps a mapping and releases its file (munmap(2)); a file that has no name any more is
    /// removed with its last mapping.
    pub(super) async fn unmap_pages(&self, map: MapId) -> HostResult<()> {
        self.calls(Bottom::Other, 1);
        let gone = self.names.maps.borrow_mut().try_remove(map.0 as usize);
        let Some(m) = gone else {
            return Err(HostError::Unsupported("memory that is not mapped".into()));
        };
        self.mm.free_region(m.region);
        self.mm.world.relax().await;
        if let Some(id) = m.file {
            self.let_go(id).await;
        }
        Ok(())
    }
}
