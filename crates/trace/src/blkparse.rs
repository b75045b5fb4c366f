//! The text of blkparse(1) in its default form: `major,minor cpu sequence seconds pid action rwbs
//! [sector + sectors] [process]`.
//!
//! One action per request is taken and the others are counted: queued (`Q`) if the first block of
//! the file holds one, else issued (`D`), else completed (`C`). Each device is a file, each pid a
//! process. A flush is a sync. The summary after the events is skipped.

use crate::error::Fault;
use crate::number::{parse_seconds, parse_u64, words};
use crate::record::{MAX_FILE, NO_LATENCY, Op, Record};
use crate::tables::Tables;

const LINE: &str = "MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS], \
     such as 8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]";

pub(crate) struct Blkparse {
    action: u8,
    first: Option<u64>,
    /// Set once the summary has begun.
    over: bool,
}

/// Splits a line of blkparse. Returns its first six words (device, CPU, sequence number, seconds,
/// pid, action) and an iterator over the further ones; `None` if the line is no event.
fn event(line: &[u8]) -> Option<([&[u8]; 6], impl Iterator<Item = &[u8]>)> {
    let mut w = words(line);
    let mut head: [&[u8]; 6] = [b""; 6];
    for slot in &mut head {
        *slot = w.next()?;
    }
    let comma = memchr::memchr(b',', head[0])?;
    parse_u64(&head[0][..comma])?;
    parse_u64(&head[0][comma + 1..])?;
    Some((head, w))
}

/// Returns true if a line is an event of blkparse, by which the format is recognised.
pub(crate) fn is_event(line: &[u8]) -> bool {
    event(line).is_some_and(|(h, _)| {
        parse_u64(h[1]).is_some()
            && parse_u64(h[2]).is_some()
            && parse_seconds(h[3]).is_some()
            && parse_u64(h[4]).is_some()
            && h[5].len() <= 3
    })
}

impl Blkparse {
    /// Makes a reader that takes one action of each request, as the lines of the file's first block
    /// suggest: queued (`Q`) if one of them is, else issued (`D`), else completed (`C`).
    pub fn new<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut action = b'C';
        for line in lines {
            match event(line) {
                Some((h, _)) if h[5] == b"Q" => {
                    action = b'Q';
                    break;
                }
                Some((h, _)) if h[5] == b"D" => action = b'D',
                _ => {}
            }
        }
        Self {
            action,
            first: None,
            over: false,
        }
    }

    /// Parses a line and adds its request, if it has one, to `out`: a read, a write, or a sync for
    /// a flush. Events of other actions, discards and requests without data are counted in
    /// `tables`, and the summary at the end is skipped. Sectors become bytes; times count from the
    /// first event taken.
    ///
    /// # Errors
    /// The line is no event, one of its words is no number or unknown, or the request is too long.
    pub fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables,
        out: &mut Vec<Record>,
    ) -> Result<(), Fault> {
        if self.over {
            return Ok(());
        }
        let Some((head, mut rest)) = event(line) else {
            let text = line.trim_ascii();
            // "CPU0 (8,0):" or "Total (8,0):" starts the summary.
            if (text.starts_with(b"CPU") || text.starts_with(b"Total")) && text.ends_with(b":") {
                self.over = true;
                return Ok(());
            }
            return Err(Fault::about("no event:", line, LINE));
        };
        let bad = |text| Fault::about("no number:", text, LINE);
        let [device, cpu, sequence, time, pid, action] = head;
        for number in [cpu, sequence, pid] {
            parse_u64(number).ok_or_else(|| bad(number))?;
        }
        let time = parse_seconds(time).ok_or_else(|| bad(time))?;
        if action != [self.action] {
            tables.ignore("blkparse events other than the chosen action");
            return Ok(());
        }
        let rwbs = rest
            .next()
            .ok_or_else(|| Fault::about("the kind of request is missing in", line, LINE))?;
        if rwbs.is_empty() || !rwbs.iter().all(|b| b"RWDFNSMABEVZP".contains(b)) {
            return Err(Fault::about("unknown kind of request", rwbs, LINE));
        }
        // The request's first byte and its length in bytes; `None` if the event has no sector.
        let mut range = None;
        if let Some(sector) = rest
            .next()
            .filter(|w| !w.starts_with(b"[") && !w.starts_with(b"("))
        {
            let sector = parse_u64(sector).ok_or_else(|| bad(sector))?;
            let sectors = match (rest.next(), rest.next()) {
                (Some(b"+"), Some(n)) => parse_u64(n).ok_or_else(|| bad(n))?,
                (Some(w), _) if w.starts_with(b"[") => 0,
                _ => return Err(Fault::about("no length in", line, LINE)),
            };
            let bytes = sectors.checked_mul(512).and_then(|b| u32::try_from(b).ok());
            let at = sector.checked_mul(512);
            range = match (at, bytes) {
                (Some(at), Some(len)) if at <= MAX_FILE - u64::from(len) => Some((at, len)),
                _ => {
                    return Err(Fault::about(
                        "a request too long or past 16 TiB in",
                        line,
                        "requests below 4 GiB that end within 16 TiB",
                    ));
                }
            };
        }
        let first = *self.first.get_or_insert(time);
        let mut push = |op, offset, len| {
            out.push(Record {
                time_ns: time.saturating_sub(first),
                offset,
                latency_ns: NO_LATENCY,
                len,
                file: tables.file(device),
                process: tables.process(pid),
                op,
            });
        };
        let flush = rwbs.contains(&b'F');
        let kind = rwbs.iter().copied().find(|b| b"RWDN".contains(b));
        match (kind, range) {
            (Some(b'R'), Some((at, len))) if len > 0 => push(Op::Read, at, len),
            (Some(b'W'), Some((at, len))) if len > 0 => push(Op::Write, at, len),
            _ if flush => push(Op::Sync, 0, 0),
            (Some(b'D'), _) => tables.ignore("discard"),
            _ => tables.ignore("requests without data"),
        }
        Ok(())
    }
}
