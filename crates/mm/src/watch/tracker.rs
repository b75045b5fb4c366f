//! The page tracker of the per-zone-dirty-limits series (docs/reference/workloads.md#page-tracker).
//!
//! For each page, the tracker keeps which path instantiated it; for each instantiating path, how
//! often each later path dirtied or activated such pages. It exists only if asked for and then
//! costs one word per frame, which the frame has room for anyway.

use crate::world::event::TrackPath;
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

const PATHS: usize = TrackPath::ALL.len();

/// The tracker's tables, with a row per instantiating path and a column per later path.
pub struct Tracker<W: World> {
    /// The path at work now, noted by the callers of the engine.
    path: W::U32,
    dirtied: Box<[W::U64]>,
    activated: Box<[W::U64]>,
}

impl<W: World> Tracker<W> {
    /// Makes a tracker that has counted nothing.
    pub(crate) fn new() -> Self {
        Self {
            path: bytemuck::Zeroable::zeroed(),
            dirtied: bytemuck::zeroed_slice_box(PATHS * PATHS),
            activated: bytemuck::zeroed_slice_box(PATHS * PATHS),
        }
    }
}

impl<W: World> Mm<W> {
    /// Notes for the page tracker on whose behalf (read, write, reclaim …) the engine works from
    /// here to the next wait. Does nothing if there is no tracker.
    #[inline(always)]
    pub fn note_path(&self, path: TrackPath) {
        if let Some(t) = &self.tracker {
            t.path.set(path as u32);
        }
    }

    /// Returns the number of the path noted last by [`Mm::note_path`], which callers keep across a
    /// wait; 0 without a tracker.
    #[inline(always)]
    pub(crate) fn noted_path(&self) -> u32 {
        self.tracker.as_ref().map_or(0, |t| t.path.get())
    }

    /// Records in the page's word of the tracker which path brought the page in.
    #[inline(always)]
    pub(crate) fn track_instantiated(&self, pfn: Pfn, path: u32) {
        if self.tracker.is_some() {
            self.frames.track(pfn).set(path);
        }
    }

    /// Counts for the page tracker that the path noted last dirtied a page, in the row of the path
    /// that brought the page in.
    #[inline(always)]
    pub(crate) fn track_dirtied(&self, pfn: Pfn) {
        if let Some(t) = &self.tracker {
            let row = self.frames.track(pfn).get() as usize;
            t.dirtied[row * PATHS + t.path.get() as usize].fetch_add(1);
        }
    }

    /// Counts for the page tracker that the path noted last activated a page, in the row of the
    /// path that brought the page in.
    #[inline(always)]
    pub(crate) fn track_activated(&self, pfn: Pfn) {
        if let Some(t) = &self.tracker {
            let row = self.frames.track(pfn).get() as usize;
            t.activated[row * PATHS + t.path.get() as usize].fetch_add(1);
        }
    }

    /// Returns the rows of the page tracker that are not all zero: the path that brought pages in,
    /// a later path, and how often that dirtied and activated such pages. `None` if the tracker is
    /// off.
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
