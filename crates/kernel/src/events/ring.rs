//! Pages of the kernel's trace ring: events with their times.
//!
//! A page begins with the time of its first event and the number of bytes that follow; each event
//! begins with a word that holds its kind or length (5 bits) and the time since the previous event
//! (27 bits), as described in `include/linux/ring_buffer.h`.

use super::format::Header;
use super::{Result, TraceError};

/// Kinds of records without data. A kind up to 28 is the length of the data in words; 0: the length
/// follows.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of a time difference in a record's first word.
const TIME_BITS: u32 = 27;
/// Bits of the page's length that report missing events before it (`RB_MISSED_EVENTS`), and that
/// their number follows the data (`RB_MISSED_STORED`).
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// The upper bits of a time, which an absolute time stamp lacks.
const TIME_TOP: u64 = 0xf8 << 56;

/// The events of a page.
#[derive(Debug)]
pub struct Page<'a> {
    /// Whether events are missing before it.
    pub missed: bool,
    data: &'a [u8],
    at: usize,
    time: u64,
}

impl<'a> Page<'a> {
    /// Reads the header of a page of the trace ring: its time, the length of its events, and
    /// whether events before it were lost.
    ///
    /// # Errors
    /// The page is shorter than its header says.
    pub fn new(page: &'a [u8], header: &Header) -> Result<Self> {
        let short = || TraceError::Page("it is shorter than its header says");
        let time = header.timestamp.unsigned(page).ok_or_else(short)?;
        let commit = header.commit.unsigned(page).ok_or_else(short)?;
        let len = usize::try_from(commit & !(MISSED | MISSED_STORED)).map_err(|_| short())?;
        let room = page.get(header.data..).ok_or_else(short)?;
        Ok(Self {
            missed: commit & MISSED != 0,
            data: room.get(..len).ok_or_else(short)?,
            at: 0,
            time,
        })
    }

    /// Returns the word of four bytes at offset `at` of the page's events.
    fn word(&self, at: usize) -> Result<u32> {
        let bytes = self.data.get(at..).and_then(|rest| rest.first_chunk());
        let cut = TraceError::Page("an event is cut off at its end");
        bytes.map(|b| u32::from_le_bytes(*b)).ok_or(cut)
    }

    /// Returns `len` bytes of data from offset `from` and moves behind them.
    fn take(&mut self, from: usize, len: usize) -> Result<&'a [u8]> {
        let data = self.data.get(from..).and_then(|rest| rest.get(..len));
        self.at = from + len;
        data.ok_or(TraceError::Page("an event is cut off at its end"))
    }

    /// Returns the next event of the page, its time in nanoseconds of the ring's clock and its
    /// bytes; `None` at the end. Records that only carry time or padding are passed over.
    ///
    /// # Errors
    /// A record is malformed.
    pub fn next(&mut self) -> Result<Option<(u64, &'a [u8])>> {
        while self.at < self.data.len() {
            let word = self.word(self.at)?;
            // `delta`: nanoseconds since the previous record.
            let (kind, delta) = (word & 31, u64::from(word >> 5));
            let at = self.at + 4;
            match kind {
                PADDING if delta == 0 => break,
                PADDING => {
                    let len = self.word(at)? as usize;
                    self.time = self.time.wrapping_add(delta);
                    self.take(at, len.max(4))?;
                }
                TIME_EXTEND => {
                    let more = u64::from(self.word(at)?) << TIME_BITS;
                    self.time = self.time.wrapping_add(more | delta);
                    self.at = at + 4;
                }
                TIME_STAMP => {
                    let time = u64::from(self.word(at)?) << TIME_BITS | delta;
                    let top = self.time & TIME_TOP;
                    let whole = time & !TIME_TOP | top;
                    // The lower bits may have overflowed since.
                    let over = top != 0 && whole < self.time;
                    self.time = whole.wrapping_add(u64::from(over) << 59);
                    self.at = at + 4;
                }
                _ => {
                    self.time = self.time.wrapping_add(delta);
                    let data = match kind {
                        0 => {
                            // The length includes its own word.
                            let len = self.word(at)? as usize;
                            let len = len.checked_sub(4);
                            let len = len.ok_or(TraceError::Page("an event has no length"))?;
                            self.take(at + 4, len)?
                        }
                        words => self.take(at, words as usize * 4)?,
                    };
                    return Ok(Some((self.time, data)));
                }
            }
        }
        Ok(None)
    }
}
