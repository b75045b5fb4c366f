//! The file format of a recording: a line of text that describes it, then compressed frames.

use crate::collect::{Disks, Heard};
use crate::proc;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Serialize};
use sim::result::{Outcome, RunResult};
use sim::sample::Names;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// The recording's name in a results folder.
pub const NAME: &str = "recording.z";

/// The start of the first line.
const MAGIC: &str = "lowmark-recording 1 ";

/// The compression level: texts that differ little from one look to the next need no higher one.
const LEVEL: u8 = 4;

/// Bytes that are compressed as one block.
const BLOCK: usize = 1 << 20;

/// The largest number of samples in a time series, as in the engine's.
const MOST: usize = 2000;

/// A description of a recording, beside its frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The kernel's name in results.
    pub name: String,
    /// The recorded command line, or for how long was recorded.
    pub what: String,
    /// The disks that series show, the most likely one first.
    pub disks: Vec<String>,
}

/// Writes a recording in blocks: each has its compressed and uncompressed length (4 bytes each,
/// little endian) and a deflate stream.
pub struct Writer<W: Write> {
    to: W,
    block: Vec<u8>,
}

/// Starts a recording: writes its first line and returns a writer that compresses the frames that
/// follow.
///
/// # Errors
/// The writer fails.
pub fn writer<W: Write>(mut to: W, about: &About) -> io::Result<Writer<W>> {
    let line = serde_json::to_string(about)?;
    writeln!(to, "{MAGIC}{line}")?;
    Ok(Writer {
        to,
        block: Vec::with_capacity(BLOCK),
    })
}

impl<W: Write> Writer<W> {
    /// Compresses the present block and writes it behind its two lengths; the next block is empty.
    fn put(&mut self) -> io::Result<()> {
        let packed = compress_to_vec(&self.block, LEVEL);
        for len in [packed.len(), self.block.len()] {
            self.to.write_all(&(len as u32).to_le_bytes())?;
        }
        self.block.clear();
        self.to.write_all(&packed)
    }

    /// Compresses and writes the last block of the recording, and returns the writer to which the
    /// blocks went.
    ///
    /// # Errors
    /// The writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.put()?;
        self.to.flush()?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Writer<W> {
    /// Takes bytes into the present block, which is written when full; returns how many were taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK {
            self.put()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Blocks are filled up first; `finish` writes the last.
        Ok(())
    }
}

/// Decompresses blocks. A block that is cut off counts as the end.
struct Unpacked<R: Read> {
    from: R,
    block: Vec<u8>,
    at: usize,
}

impl<R: Read> Unpacked<R> {
    /// Reads and decompresses the next block; returns false at the end, or if the block is cut off.
    fn next(&mut self) -> io::Result<bool> {
        let wrong = || io::Error::other("a block of the recording is damaged");
        let mut lengths = [0; 8];
        if !crate::collect::whole(&mut self.from, &mut lengths)? {
            return Ok(false);
        }
        let length = |at: usize| {
            let bytes = lengths[at..at + 4].try_into().expect("4 bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (packed, len) = (length(0), length(4));
        // Data that can't be compressed grows by a few bytes.
        if packed > 2 * BLOCK || len > BLOCK {
            return Err(wrong());
        }
        let mut bytes = vec![0; packed];
        if !crate::collect::whole(&mut self.from, &mut bytes)? {
            return Ok(false);
        }
        self.block = decompress_to_vec_with_limit(&bytes, len).map_err(|_| wrong())?;
        self.at = 0;
        Ok(true)
    }
}

impl<R: Read> Read for Unpacked<R> {
    /// Copies decompressed bytes; returns 0 at the end.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let n = into.len().min(self.block.len() - self.at);
        into[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// The recording's description.
    pub about: About,
    heard: Heard,
}

/// The source of a recording.
pub type From<'a> = Box<dyn Read + 'a>;

/// Reads the first line of a recording. Returns its description and the source behind the line.
fn head(from: From<'_>) -> io::Result<(About, BufReader<From<'_>>)> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    (&mut from).take(64 << 10).read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    let about = text.strip_prefix(MAGIC).map(serde_json::from_str);
    match about {
        Some(Ok(about)) => Ok((about, from)),
        _ => Err(io::Error::other(
            "the file is not a recording of `lowmark record`",
        )),
    }
}

/// Reads the description of a recording.
///
/// # Errors
/// The source is no recording.
pub fn about(from: From<'_>) -> io::Result<About> {
    head(from).map(|(about, _)| about)
}

/// Returns the decompressed frames of a recording, which follow its first line.
///
/// # Errors
/// The source is no recording.
pub fn frames(from: From<'_>) -> io::Result<From<'_>> {
    let (_, from) = head(from)?;
    Ok(Box::new(Unpacked {
        from,
        block: Vec::new(),
        at: 0,
    }))
}

impl Recording {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// The file can't be read, or is no recording.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::of(&|| Ok(Box::new(input::file(path)?)))
    }

    /// Reads a recording; `open` starts from its beginning each time it is called.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of<'a>(open: &dyn Fn() -> io::Result<From<'a>>) -> io::Result<Self> {
        let (about, _) = head(open()?)?;
        let heard = Heard::read(&|| frames(open()?))?;
        Ok(Self { about, heard })
    }

    /// Returns the kernel's release.
    pub fn release(&self) -> &str {
        self.heard.release().unwrap_or("")
    }

    /// Returns the recording as the result of a run, with time series of at most `MOST` samples.
    pub fn result(self) -> RunResult {
        let outcome = match (self.heard.failure(), self.heard.complete()) {
            (Some(why), _) => Outcome::Failed {
                error: why.to_owned(),
            },
            (None, true) => Outcome::Completed,
            (None, false) => Outcome::Failed {
                error: "the recording is cut off".to_owned(),
            },
        };
        let names = match &self.about.disks[..] {
            [] | [_] => Names::One,
            disks => Names::ByMount(disks.to_vec()),
        };
        let disks = Disks {
            filesystems: &self.about.disks,
            swap: None,
        };
        let digest = self.heard.digest();
        let mut heard = self.heard;
        let each = heard.thin(MOST);
        let mut result = heard.result(outcome, &names, disks);
        if each > 1 {
            let note =
                format!("time series show every {each}th sample, and rates as means between them");
            result.notes.push(note);
        }
        result.digest = digest;
        result.sim_ns = result
            .metrics
            .get("elapsed")
            .map_or(0, |m| (m.value * 1e9) as u64);
        result
    }
}

/// Makes a result of two snapshots of a machine: the texts of `/proc/vmstat` and, if given, of
/// `/proc/zoneinfo`, each before and after. Zones are shown as levels at both times.
pub fn of_snapshots(vmstat: [&str; 2], zoneinfo: Option<[&str; 2]>) -> RunResult {
    let mut result = RunResult::of_kernel(Outcome::Completed);
    result.counters = proc::events_between(vmstat[0], vmstat[1]);
    if let Some([before, after]) = zoneinfo {
        for (zone, after) in proc::zones(before).iter().zip(proc::zones(after)) {
            for what in ["free", "min", "low", "high"] {
                let pages = |z: &proc::Zone| z.figures.get(what).copied();
                let of = |when: &str| format!("{what} of {} {when}", zone.name);
                for (when, value) in [("before", pages(zone)), ("after", pages(&after))] {
                    if let Some(n) = value {
                        let metric = sim::result::Metric {
                            unit: "pages",
                            value: n as f64,
                        };
                        result.metrics.insert(of(when), metric);
                    }
                }
            }
        }
    }
    result
}
