//! Tracepoints of a guest: the pages of its ring, by the formats that it says, as the figures of a run.
//!
//! The figures are sums, so what a run keeps is small however much was recorded. Events that are missing make
//! a sum wrong, so then there is none: a row that can't be told is `unsupported`, and a note says why.

mod format;
mod ring;
mod sums;

use format::Formats;
use guest::wire::Frame;
use ring::Page;
pub use sums::Traced;
use sums::{Occurred, Sums};

/// What is recorded. Of the two names of reclaim's writes a kernel has one (6.5 renamed it). The most frequent
/// is one event for 32 pages scanned. Events of single pages (kmem, writeback_dirty_folio) are left out: they are
/// tens of bytes a page, and no row needs them.
pub const TRACEPOINTS: [&str; 10] = [
    "vmscan/mm_vmscan_kswapd_sleep",
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_wakeup_kswapd",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_lru_isolate",
    "vmscan/mm_vmscan_writepage",
    "vmscan/mm_vmscan_write_folio",
    "vmscan/mm_vmscan_throttled",
    // Most looks at the dirty limits, one for a few pages, find no reason to sleep.
    "writeback/balance_dirty_pages pause > 0",
];

/// KiB of the ring. It is read when it is half full, which the kernel tells at its next tick: 10 ms of events fit
/// into the other half many times over.
pub const RING_KB: u64 = 1024;

/// Why what was recorded can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A `format` file that is none.
    #[error("the format of {0} can't be read")]
    Format(String),
    /// A tracepoint without a field, or without a name for a value, that is read from its events.
    #[error("the format of {0} has no `{1}`")]
    NoField(String, String),
    /// A page that is none.
    #[error("a page of the ring can't be read: {0}")]
    Page(&'static str),
    /// An event that is shorter than its format says.
    #[error("an event of the ring is shorter than its format says")]
    Event,
}

type Result<T> = std::result::Result<T, TraceError>;

/// What a guest's frames say of its events; `None`: it has no tracepoints, or did not come to its end.
///
/// # Errors
/// Formats or pages that can't be read.
pub fn read(frames: &[Frame]) -> Result<Option<Traced>> {
    let texts = frames.iter().filter_map(|f| match f {
        Frame::Format(name, text) => Some((name.as_str(), text.as_str())),
        _ => None,
    });
    if texts.clone().next().is_none() {
        return Ok(None);
    }
    let time = |of: fn(&Frame) -> Option<u64>| frames.iter().find_map(of);
    let start = time(|f| match f {
        Frame::Start(ns) => Some(*ns),
        _ => None,
    });
    let lasted = time(|f| match f {
        Frame::End(ns) => Some(*ns),
        _ => None,
    });
    let (Some(start), Some(lasted)) = (start, lasted) else {
        return Ok(None);
    };
    let formats = Formats::read(texts)?;
    let mut lost = time(|f| match f {
        Frame::Lost(n) => Some(*n),
        _ => None,
    });
    let mut all = Vec::new();
    let traces = frames.iter().filter_map(|f| match f {
        Frame::Trace(pages) => Some(pages),
        _ => None,
    });
    for page in traces.flat_map(|pages| pages.chunks(formats.header.size.max(1))) {
        let mut page = Page::new(page, &formats.header)?;
        if page.missed {
            lost = lost.or(Some(0));
        }
        while let Some((at, event)) = page.next()? {
            if let Some(point) = formats.point(event) {
                all.push(Occurred::new(at, point, event).ok_or(TraceError::Event)?);
            }
        }
    }
    let sums = Sums::new(&all, start, start.saturating_add(lasted));
    Ok(Some(sums.traced(&formats, lost)))
}

#[cfg(test)]
mod tests;
