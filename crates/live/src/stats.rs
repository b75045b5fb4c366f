//! Levels and counters of a cache, and the result of its shutdown.

use crate::LiveMm;
use crate::error::Error;
use crate::file;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

/// Levels and counters of a cache. Levels are as of now, counters since the cache began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages of memory, without those that were taken out of the cache
    /// ([`crate::Cache::set_memory`], and the room for the buffers of asynchronous writes).
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free: u64,
    /// Pages that hold file data.
    pub cached: u64,
    /// Dirty pages: newer than their file.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Pages that hold [`crate::Buffer`]s.
    pub buffers: u64,
    /// Bytes of buffers that the cache holds for asynchronous writes ([`crate::AsyncFile::write`]).
    pub write_buffers: u64,
    /// Pages evicted so far, by kswapd or by direct reclaim.
    pub evicted: u64,
    /// Pages evicted by kswapd.
    pub evicted_by_kswapd: u64,
    /// Times a thread entered direct reclaim.
    pub direct_reclaims: u64,
    /// KiB read from files.
    pub kib_read: u64,
    /// KiB written to files.
    pub kib_written: u64,
    /// Pages whose write failed: they are kept, and the next sync of their file tries again.
    pub kept_pages: u64,
    /// Pages whose write failed and that could not be kept for lack of room: their data is lost.
    pub lost_pages: u64,
}

impl Stats {
    /// Reads the levels and counters of an engine.
    pub(crate) fn of(mm: &LiveMm) -> Self {
        Self {
            pages: u64::from(file::pages_of_memory(mm)) - mm.world.pages_out.load(SeqCst),
            write_buffers: 0,
            free: mm.global_stat(ZoneStat::NrFreePages),
            cached: mm.global_stat(ZoneStat::NrFilePages),
            dirty: mm.global_stat(ZoneStat::NrFileDirty),
            writeback: mm.global_stat(ZoneStat::NrWriteback),
            evicted: (0..mm.zones.len())
                .map(|z| mm.zone_event(z, ZoneEvent::PgSteal))
                .sum(),
            buffers: u64::from(mm.world.buffer_pages.load(SeqCst)),
            evicted_by_kswapd: mm.vm_event(VmEvent::KswapdSteal),
            direct_reclaims: mm.vm_event(VmEvent::AllocStall),
            kib_read: mm.vm_event(VmEvent::PgpgIn),
            kib_written: mm.vm_event(VmEvent::PgpgOut),
            kept_pages: mm.world.kept_pages(),
            lost_pages: mm.world.lost_pages.load(SeqCst),
        }
    }
}

/// The result of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "it may say that data is lost"]
pub struct Shutdown {
    /// Pages whose data did not reach their files since the cache began: it is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed, by the path at which each was first opened, with the error.
    pub failed: Vec<(PathBuf, Error)>,
}

impl Shutdown {
    /// Returns true if everything written to the cache is in its files and confirmed by their
    /// devices.
    pub fn is_clean(&self) -> bool {
        self.lost_pages == 0 && self.failed.is_empty()
    }
}
