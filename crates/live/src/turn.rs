//! The wait of a writer for a page that others pin by turns.
//!
//! A writer that has waited for [`OPEN`] holds new pins of the page off. A task with a pin may
//! want a second one of the same page, so pins are held off for a time only: [`FIRST_SHUT`], then
//! the page is open for [`OPEN_TIMES`] as long, then they are held off for twice the time, up to
//! [`MOST_SHUT`]. If no pin lasts longer than [`FIRST_SHUT`], the writer has the page after
//! [`OPEN`] and the longest of the pins.

use crate::LiveMm;
use mm::Pfn;
use mm::world::Tasks;
use std::sync::atomic::Ordering::SeqCst;

/// Bit of a frame's pin word (`arena`): a task that waits until the page has no pins holds new ones
/// off.
pub const SHUT: u32 = 1 << 29;

/// Nanoseconds that a writer waits for pins before it holds new ones off, for how long it does so
/// at first and at most, and for how many times as long the page is open between two such times.
const OPEN: u64 = 10_000_000;
const FIRST_SHUT: u64 = 100_000_000;
pub const MOST_SHUT: u64 = 1_000_000_000;
const OPEN_TIMES: u64 = 4;

/// The wait of a task for a page without pins, over all tries of the task.
pub struct Turn<'a> {
    mm: &'a LiveMm,
    /// When the present phase ends, in nanoseconds; `None`: the wait has not begun.
    until: Option<u64>,
    /// The length of the next phase in which new pins are held off.
    next: u64,
    /// New pins are held off in the present phase.
    shut: bool,
    /// The frame on which this task set [`SHUT`].
    frame: Option<Pfn>,
}

impl<'a> Turn<'a> {
    /// Returns a wait that has not begun.
    pub fn new(mm: &'a LiveMm) -> Self {
        Self {
            mm,
            until: None,
            next: FIRST_SHUT,
            shut: false,
            frame: None,
        }
    }

    /// Moves to the phase of the present time for a wait for frame `pfn`. Returns the bit to set in
    /// the frame's word, [`SHUT`] or none, and the nanoseconds until the phase ends.
    pub fn phase(&mut self, pfn: Pfn) -> (u32, u64) {
        let now = self.mm.world.now();
        let until = match self.until {
            Some(until) if now < until => until,
            Some(_) if self.shut => {
                self.shut = false;
                let open = (self.next * OPEN_TIMES).min(MOST_SHUT * OPEN_TIMES);
                self.next = (self.next * 2).min(MOST_SHUT);
                now + open
            }
            Some(_) => {
                self.shut = true;
                now + self.next
            }
            None => now + OPEN,
        };
        self.until = Some(until);
        if self.frame.is_some_and(|f| f != pfn || !self.shut) {
            self.open();
        }
        if !self.shut {
            return (0, until - now);
        }
        self.frame = Some(pfn);
        (SHUT, until - now)
    }

    /// Lets new pins in again, if this task held them off, and wakes the tasks that want one.
    pub fn open(&mut self) {
        if let Some(pfn) = self.frame.take() {
            self.mm.frames.track(pfn).fetch_and(!SHUT, SeqCst);
            self.mm.world.wake(self.mm.world.pin_queue(pfn));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.open();
    }
}
