//! Tracepoints: the kernel's ring of events, fetched page by page.

use super::{Desk, Step, of, say};
use crate::host::{clock, lock, sleep_until};
use crate::wire::Frame;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Mutex;

const TRACEFS: &str = "/sys/kernel/tracing";
const STATS: &str = "per_cpu/cpu0/stats";

/// KiB of the ring if the job does not say.
const RING_KB: u64 = 4096;

/// Pages that are said at once.
const PAGES: usize = 16;

/// Nanoseconds until the ring is asked again that was said to have something and had not.
const PAUSE_NS: u64 = 1_000_000;

/// Events that are recorded.
pub(super) struct Tracer {
    raw: File,
    pages: Vec<u8>,
}

fn set(file: &str, text: &str) -> Step {
    let path = Path::new(TRACEFS).join(file);
    fs::write(&path, text).map_err(of(format_args!("`{text}` into {}", path.display())))
}

/// The text of a file of tracefs. `header_page` ends with the first read, however little that asked for, and
/// std's begins with a few bytes.
fn read_text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 16 << 10];
    let mut len = 0;
    loop {
        if len == bytes.len() {
            bytes.resize(2 * len, 0);
        }
        match file.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).map_err(io::Error::other)
}

impl Tracer {
    /// Readies the ring, says the formats of those tracepoints that there are, and turns them on; nothing is
    /// recorded yet. `None` if there are none.
    pub(super) fn new(points: &[String], kb: u64, out: &mut impl Write) -> Step<Option<Self>> {
        let events = Path::new(TRACEFS).join("events");
        let there = |p: &(&str, &str)| fs::exists(events.join(p.0).join("format")).unwrap_or(false);
        let points = points.iter().map(|p| p.split_once(' ').unwrap_or((p, "")));
        let points: Vec<(&str, &str)> = points.filter(there).collect();
        if points.is_empty() {
            return Ok(None);
        }
        set("tracing_on", "0")?;
        set(
            "buffer_size_kb",
            &if kb == 0 { RING_KB } else { kb }.to_string(),
        )?;
        set("options/overwrite", "0")?;
        // The clock that programs and looks go by.
        set("trace_clock", "mono")?;
        let mut format = |name: &str, path: &Path| {
            let text = read_text(path).map_err(of(path.display()))?;
            say(out, &Frame::Format(name.to_owned(), text))
        };
        format("header_page", &events.join("header_page"))?;
        for (point, filter) in points {
            format(point, &events.join(point).join("format"))?;
            if !filter.is_empty() {
                set(&format!("events/{point}/filter"), filter)?;
            }
            set(&format!("events/{point}/enable"), "1")?;
        }
        let raw = Path::new(TRACEFS).join("per_cpu/cpu0/trace_pipe_raw");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let raw = rustix::fs::open(&raw, flags, Mode::empty()).map_err(of(raw.display()))?;
        let (raw, pages) = (raw.into(), vec![0; PAGES * 4096]);
        Ok(Some(Self { raw, pages }))
    }

    /// Recording begins.
    pub(super) fn begin(&self) -> Step {
        set("tracing_on", "1")
    }

    /// Says what was recorded since the last time; returns how many bytes that are.
    pub(super) fn drain(&mut self, out: &mut impl Write) -> io::Result<usize> {
        let mut all = 0;
        loop {
            let mut len = 0;
            let more = loop {
                if len + 4096 > self.pages.len() {
                    break true;
                }
                match self.raw.read(&mut self.pages[len..len + 4096]) {
                    Ok(0) => break false,
                    Ok(n) => len += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break false,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            };
            all += len;
            if len > 0 {
                Frame::Trace(self.pages[..len].to_vec()).write(out)?;
            }
            if !more {
                return Ok(all);
            }
        }
    }

    /// Recording ends; returns how many events found no room.
    pub(super) fn end(&self) -> Step<u64> {
        set("tracing_on", "0")?;
        let path = Path::new(TRACEFS).join(STATS);
        let text = fs::read_to_string(&path).map_err(of(path.display()))?;
        Ok(lost(&text))
    }
}

/// Events that found no room.
fn lost(stats: &str) -> u64 {
    let of = |name: &str| {
        let mut lines = stats.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .and_then(|v| v.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    of("overrun") + of("dropped events")
}

/// Fetches events whenever the ring is half full.
pub(super) fn follow(desk: &Mutex<Desk>) {
    let raw = match &lock(desk).tracer {
        Some(tracer) => tracer.raw.try_clone(),
        None => return,
    };
    let Ok(raw) = raw else { return };
    loop {
        let mut ready = [PollFd::new(&raw, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let mut desk = lock(desk);
        if desk.over {
            return;
        }
        let Desk { tracer, out, .. } = &mut *desk;
        if let Some(tracer) = tracer {
            // What can't be written here, the next look can't either, and says so.
            let fetched = tracer.drain(out).unwrap_or(0);
            drop(desk);
            if fetched == 0 {
                // The kernel's sum of full pages may be wrong for a while, and here time would stand still.
                sleep_until(clock() + PAUSE_NS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_counted() {
        let stats = "entries: 5\noverrun: 2\ncommit overrun: 0\nbytes: 9\ndropped events: 3\nread events: 1\n";
        assert_eq!(lost(stats), 5);
    }
}
