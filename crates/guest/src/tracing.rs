//! Tracepoints: the kernel's rings of events, fetched page by page.

use crate::wire::Frame;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The mount point of a guest's tracefs.
pub(crate) const TRACEFS: &str = "/sys/kernel/tracing";

/// The default size of each ring in KiB.
const RING_KB: u64 = 4096;

/// Bytes of a page of a ring.
const PAGE: usize = 4096;

/// Pages written in one frame.
const PAGES: usize = 16;

/// The result of a step; the error is one line.
type Step<T = ()> = Result<T, String>;

/// Formats an error as `what: why`.
fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |why| format!("{what}: {why}")
}

/// Records events of one or several CPUs. It owns a folder of tracefs: the whole tracefs of a
/// guest, or an instance.
pub struct Tracer {
    dir: PathBuf,
    /// Each CPU's number and ring.
    rings: Vec<(u32, File)>,
    pages: Vec<u8>,
}

/// Reads a text file of tracefs into a large buffer: `header_page` ends with the first read,
/// however short, and std's first read is only a few bytes.
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

/// Returns the sorted numbers of the CPUs that have a ring of events, in a folder of tracefs.
pub(crate) fn cpus(dir: &Path) -> io::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for entry in fs::read_dir(dir.join("per_cpu"))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("cpu"));
        cpus.extend(number.and_then(|n| n.parse::<u32>().ok()));
    }
    cpus.sort_unstable();
    Ok(cpus)
}

impl Tracer {
    /// Sets up rings of `kb` KiB each in this folder of tracefs, writes the formats of the existing
    /// tracepoints to `out`, and enables them; nothing is recorded yet. `None` if none of them
    /// exists. A tracepoint may be followed by a space and a filter of its events in the kernel's
    /// syntax.
    ///
    /// # Errors
    /// A file could not be written or read; in one line.
    pub fn new(dir: &Path, points: &[String], kb: u64, out: &mut impl Write) -> Step<Option<Self>> {
        let events = dir.join("events");
        let known = |p: &(&str, &str)| fs::exists(events.join(p.0).join("format")).unwrap_or(false);
        let points = points.iter().map(|p| p.split_once(' ').unwrap_or((p, "")));
        let points: Vec<(&str, &str)> = points.filter(known).collect();
        if points.is_empty() {
            return Ok(None);
        }
        let mut tracer = Self {
            dir: dir.to_owned(),
            rings: Vec::new(),
            pages: vec![0; PAGES * PAGE],
        };
        tracer.set("tracing_on", "0")?;
        tracer.set(
            "buffer_size_kb",
            &if kb == 0 { RING_KB } else { kb }.to_string(),
        )?;
        // When a ring is full, new events are dropped and counted; recorded ones are kept.
        tracer.set("options/overwrite", "0")?;
        // The clock that programs and looks use.
        tracer.set("trace_clock", "mono")?;
        let mut format = |name: &str, path: &Path| {
            let text = read_text(path).map_err(of(path.display()))?;
            let written = Frame::Format(name.to_owned(), text).write(out);
            written.map_err(of("what is said of tracepoints"))
        };
        format("header_page", &events.join("header_page"))?;
        for (point, filter) in points {
            format(point, &events.join(point).join("format"))?;
            if !filter.is_empty() {
                tracer.set(&format!("events/{point}/filter"), filter)?;
            }
            tracer.set(&format!("events/{point}/enable"), "1")?;
        }
        for cpu in cpus(dir).map_err(of(dir.display()))? {
            let raw = dir.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let raw = rustix::fs::open(&raw, flags, Mode::empty()).map_err(of(raw.display()))?;
            tracer.rings.push((cpu, raw.into()));
        }
        Ok(Some(tracer))
    }

    /// Writes a text into a file of this tracer's folder of tracefs.
    fn set(&self, file: &str, text: &str) -> Step {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(of(format_args!("`{text}` into {}", path.display())))
    }

    /// Returns the rings, to poll them.
    pub fn rings(&self) -> impl Iterator<Item = &File> {
        self.rings.iter().map(|(_, ring)| ring)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&self) -> Step {
        self.set("tracing_on", "1")
    }

    /// Fetches the events that all rings have recorded since the last call and writes them to `out`
    /// as frames; returns their bytes.
    ///
    /// # Errors
    /// A ring can't be read, or the writer fails.
    pub fn drain(&mut self, out: &mut impl Write) -> io::Result<usize> {
        let mut all = 0;
        for (_, ring) in &mut self.rings {
            all += drain(ring, &mut self.pages, out)?;
        }
        Ok(all)
    }

    /// Stops recording. Returns each CPU's number and how many of its events were lost; events in
    /// the rings can still be fetched.
    ///
    /// # Errors
    /// The kernel refuses, or its statistics can't be read.
    pub fn end(&self) -> Step<Vec<(u32, u64)>> {
        self.set("tracing_on", "0")?;
        let of_cpu = |cpu: u32| {
            let path = self.dir.join(format!("per_cpu/cpu{cpu}/stats"));
            let text = fs::read_to_string(&path).map_err(of(path.display()))?;
            Ok((cpu, lost(&text)))
        };
        self.rings.iter().map(|(cpu, _)| of_cpu(*cpu)).collect()
    }
}

/// Fetches the contents of one ring, page by page, and writes them to `out` as frames of up to 16
/// pages; `pages` is the buffer for one frame. Returns the number of bytes.
fn drain(ring: &mut File, pages: &mut [u8], out: &mut impl Write) -> io::Result<usize> {
    let mut all = 0;
    loop {
        let mut len = 0;
        let more = loop {
            if len + PAGE > pages.len() {
                break true;
            }
            match ring.read(&mut pages[len..len + PAGE]) {
                Ok(0) => break false,
                // A short page is filled with zeroes, which end its events; the next one starts at
                // a page boundary.
                Ok(n) => {
                    pages[len + n..len + PAGE].fill(0);
                    len += PAGE;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        all += len;
        if len > 0 {
            Frame::Trace(pages[..len].to_vec()).write(out)?;
        }
        if !more {
            return Ok(all);
        }
    }
}

/// Returns the count `name` from a ring's statistics; `None` if it is missing.
pub(crate) fn counted(stats: &str, name: &str) -> Option<u64> {
    let mut lines = stats.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

/// Returns the number of events that a ring has lost, from its statistics: overwritten and dropped
/// ones.
fn lost(stats: &str) -> u64 {
    let of = |name| counted(stats, name).unwrap_or(0);
    of("overrun") + of("dropped events")
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
