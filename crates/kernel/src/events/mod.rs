//! Tracepoints of a guest or of the running Linux: turns the pages of its trace rings into figures
//! of a run, according to the formats that the kernel reports.
//!
//! The figures are sums, so a run's result is small however much was recorded. Lost events would
//! make a sum wrong, so the sum is left out then: the row is `unsupported`, and a note gives the
//! reason.

mod format;
mod ring;
mod sums;

use format::Formats;
use guest::wire::Frame;
use ring::Page;
pub use sums::Traced;
use sums::{Cast, Occurred, Sums};

/// The recorded tracepoints. Of the two names of reclaim's writes a kernel has one (6.5 renamed
/// it). The most frequent tracepoint has one event for 32 pages scanned. Events of single pages
/// (kmem, writeback_dirty_folio) are left out: they take tens of bytes a page, and no row needs
/// them.
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
    // Most checks of the dirty limits, one for a few pages, find no reason to sleep.
    "writeback/balance_dirty_pages pause > 0",
];

/// Size of the ring in KiB. The ring is read when it is half full, which the kernel reports at its
/// next tick: the events of 10 ms fit into the other half many times over.
pub const RING_KB: u64 = 1024;

/// The reason why a recording can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A `format` file is malformed.
    #[error("the format of {0} can't be read")]
    Format(String),
    /// A tracepoint lacks a field, or a field lacks the name of a value, that is evaluated.
    #[error("the format of {0} has no `{1}`")]
    NoField(String, String),
    /// A page is malformed.
    #[error("a page of the ring can't be read: {0}")]
    Page(&'static str),
    /// An event that is shorter than its format says.
    #[error("an event of the ring is shorter than its format says")]
    Event,
}

type Result<T> = std::result::Result<T, TraceError>;

/// The first pass over the frames: collects formats, tasks, and what was under way before the
/// recording began. The second pass ([`Reading`]) sums up.
#[derive(Debug, Default)]
pub struct Survey {
    texts: Vec<(String, String)>,
    formats: Option<Formats>,
    start: Option<u64>,
    lasted: Option<u64>,
    lost: Option<u64>,
    cast: Cast,
    queue: Queue,
}

impl Survey {
    /// Reads a frame of the recording in the first pass: collects formats, times, lost events, and
    /// the first events of tasks (`cast`).
    ///
    /// # Errors
    /// Formats or pages can't be read.
    pub fn frame(&mut self, frame: &Frame) -> Result<()> {
        match frame {
            Frame::Format(name, text) => self.texts.push((name.clone(), text.clone())),
            Frame::Start(ns) => self.start = Some(*ns),
            Frame::End(ns) => self.lasted = Some(*ns),
            Frame::Lost(n) => self.lost = Some(self.lost.unwrap_or(0) + n),
            Frame::Trace(pages) => {
                let formats = match &mut self.formats {
                    Some(formats) => formats,
                    empty => empty.insert(formats(&self.texts)?),
                };
                if self.queue.take(pages, formats)? {
                    self.lost = self.lost.or(Some(0));
                }
            }
            // All rings were read up to this time.
            Frame::Fetched(until) => self.queue.each(*until, |event| self.cast.see(event)),
            _ => {}
        }
        Ok(())
    }

    /// Ends the first pass and returns the second; `None`: there are no tracepoints, or the run has
    /// no start or end.
    ///
    /// # Errors
    /// Formats can't be read.
    pub fn done(mut self) -> Result<Option<Reading>> {
        let (Some(start), Some(lasted), false) = (self.start, self.lasted, self.texts.is_empty())
        else {
            return Ok(None);
        };
        self.queue.each(u64::MAX, |event| self.cast.see(event));
        let formats = match self.formats {
            Some(formats) => formats,
            None => formats(&self.texts)?,
        };
        Ok(Some(Reading {
            sums: Sums::new(self.cast, start, start.saturating_add(lasted)),
            formats,
            lost: self.lost,
            queue: Queue::default(),
        }))
    }
}

/// Reads the `format` files (name of the tracepoint, text) that a guest reported.
fn formats(texts: &[(String, String)]) -> Result<Formats> {
    Formats::read(texts.iter().map(|(name, text)| (&**name, &**text)))
}

/// The second pass over the same frames.
pub struct Reading {
    formats: Formats,
    lost: Option<u64>,
    queue: Queue,
    sums: Sums,
}

impl Reading {
    /// Reads a frame again, in the second pass: adds its events to the sums.
    ///
    /// # Errors
    /// Pages can't be read.
    pub fn frame(&mut self, frame: &Frame) -> Result<()> {
        match frame {
            Frame::Trace(pages) => drop(self.queue.take(pages, &self.formats)?),
            Frame::Fetched(until) => self.queue.each(*until, |event| self.sums.add(event)),
            _ => {}
        }
        Ok(())
    }

    /// Ends the second pass and returns the figures of all events.
    pub fn done(mut self) -> Traced {
        self.queue.each(u64::MAX, |event| self.sums.add(event));
        self.sums.end();
        self.sums.traced(&self.formats, self.lost)
    }
}

/// Events that were read but may be preceded by others not yet read: the rings of several CPUs are
/// fetched one after the other.
#[derive(Debug, Default)]
struct Queue {
    events: Vec<Occurred>,
}

impl Queue {
    /// Takes the evaluated events out of pages of a trace ring; returns true if events are missing
    /// between the pages.
    fn take(&mut self, pages: &[u8], formats: &Formats) -> Result<bool> {
        let mut missed = false;
        for page in pages.chunks(formats.header.size.max(1)) {
            let mut page = Page::new(page, &formats.header)?;
            missed |= page.missed;
            while let Some((at, event)) = page.next()? {
                if let Some(point) = formats.point(event) {
                    let event = Occurred::new(at, point, event).ok_or(TraceError::Event)?;
                    self.events.push(event);
                }
            }
        }
        Ok(missed)
    }

    /// Passes on the events up to time `until` (ns) in the order of time, and forgets them; no
    /// earlier ones can follow.
    fn each(&mut self, until: u64, mut to: impl FnMut(&Occurred)) {
        // The sort is stable: events of one CPU and time stay in order.
        self.events.sort_by_key(Occurred::at);
        let ready = self.events.partition_point(|e| e.at() <= until);
        self.events.drain(..ready).for_each(|event| to(&event));
    }
}

/// Sums up the events of tracepoints in the frames that a guest sent, in two passes; `None`: there
/// are no tracepoints, or the run has no start or end.
///
/// # Errors
/// Formats or pages can't be read.
pub fn read(frames: &[Frame]) -> Result<Option<Traced>> {
    let mut survey = Survey::default();
    frames.iter().try_for_each(|frame| survey.frame(frame))?;
    let Some(mut reading) = survey.done()? else {
        return Ok(None);
    };
    frames.iter().try_for_each(|frame| reading.frame(frame))?;
    Ok(Some(reading.done()))
}

#[cfg(test)]
mod tests;
