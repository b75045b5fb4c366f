//! The page tracker of the per-zone-dirty-limits series (docs/reference/workloads.md#page-tracker).
//!
//! For each page: which path instantiated it. For each instantiating path: how often which later
//! path dirtied or activated such pages. Absent unless asked for; then it costs one word a frame
//! that is there anyway.

use crate::world::event::TrackPath;
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

const PATHS: usize = TrackPath::ALL.len();

/// The tables.
pub struct Tracker<W: World> {
    /// The path at work now, noted by whoever calls into the engine.
    path: W::U32,
    dirtied: Box<[W::U64]>,
    activated: Box<[W::U64]>,
}

impl<W: World> Tracker<W> {
    pub(crate) fn new() -> Self {
        Self {
            path: bytemuck::Zeroable::zeroed(),
            dirtied: bytemuck::zeroed_slice_box(PATHS * PATHS),
            activated: bytemuck::zeroed_slice_box(PATHS * PATHS),
        }
    }
}

impl<W: World> Mm<W> {
    /// Says on whose behalf the engine works from here to the next wait.
    #[inline(always)]
    pub fn note_path(&self, path: TrackPath) {
        if let Some(t) = &self.tracker {
            t.path.set(path as u32);
        }
    }

    /// The path noted last; to be kept across a wait.
    #[inline(always)]
    pub(crate) fn noted_path(&self) -> u32 {
        self.tracker.as_ref().map_or(0, |t| t.path.get())
    }

    #[inline(always)]
    pub(crate) fn track_instantiated(&self, pfn: Pfn, path: u32) {
        if self.tracker.is_some() {
            self.frames.track(pfn).set(path);
        }
    }

    #[inline(always)]
    pub(crate) fn track_dirtied(&self, pfn: Pfn) {
        if let Some(t) = &self.tracker {
            let row = self.frames.track(pfn).get() as usize;
            t.dirtied[row * PATHS + t.path.get() as usize].fetch_add(1);
        }
    }

    #[inline(always)]
    pub(crate) fn track_activated(&self, pfn: Pfn) {
        if let Some(t) = &self.tracker {
            let row = self.frames.track(pfn).get() as usize;
            t.activated[row * PATHS + t.path.get() as usize].fetch_add(1);
        }
    }

    /// Rows (instantiated by, later path, dirtied, activated) that are not all zero; `None` when
    /// the tracker is off.
    pub fn tracker_rows(&self) -> Option<Vec<(TrackPath, TrackPath, u64, u64)>> {
        let t = self.tracker.as_ref()?;
        let mut rows = Vec::new();
        for a in TrackPath::ALL {
            for b in TrackPath::ALL {
                let i = a as usize * PATHS + b as usize;
                let (d, n) = (t.dirtied[i].get(), t.activated[i].get());
                if d + n > 0 {
                    rows.push((a, b, d, n));
                }
            }
        }
        Some(rows)
    }
}
