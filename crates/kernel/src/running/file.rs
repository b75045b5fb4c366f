//! A recording as it is kept: frames, packed. A line of text before them says what it is.

use crate::collect::{Disks, Heard};
use crate::proc;
use serde::{Deserialize, Serialize};
use sim::result::{Outcome, RunResult};
use sim::sample::Names;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// Its name in a results folder.
pub const NAME: &str = "recording.zst";

/// What the first line begins with.
const MAGIC: &str = "lowmark-recording 1 ";

/// How hard it is packed: texts that differ little from one look to the next need no more.
const LEVEL: i32 = 1;

/// Samples that a time series has at most, as the engine's.
const MOST: usize = 2000;

/// Bits of the distance over which texts are compared while they are packed: 4 MiB, a few looks of a machine with
/// hundreds of CPUs.
const WINDOW: u32 = 22;

/// What a recording is of, beside what its frames say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// What results call the kernel.
    pub name: String,
    /// What was recorded: a command line, or for how long.
    pub what: String,
    /// The disks that series show, the most likely one first.
    pub disks: Vec<String>,
}

/// Where a recording is written to.
pub type Writer<W> = zstd::Encoder<'static, W>;

/// Begins a recording.
///
/// # Errors
/// The writer's.
pub fn writer<W: Write>(mut to: W, about: &About) -> io::Result<Writer<W>> {
    let line = serde_json::to_string(about)?;
    writeln!(to, "{MAGIC}{line}")?;
    let mut packed = zstd::Encoder::new(to, LEVEL)?;
    // A look of a machine with many CPUs is large, and the next one is like it.
    packed.long_distance_matching(true)?;
    packed.window_log(WINDOW)?;
    Ok(packed)
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    /// What it is of.
    pub about: About,
    heard: Heard,
}

fn head<R: Read>(from: R) -> io::Result<(About, BufReader<R>)> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    (&mut from).take(64 << 10).read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    let about = text.strip_prefix(MAGIC).map(serde_json::from_str);
    match about {
        Some(Ok(about)) => Ok((about, from)),
        _ => Err(io::Error::other("it is no recording of `lowmark record`")),
    }
}

impl Recording {
    /// Reads one.
    ///
    /// # Errors
    /// It can't be read, or is none.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::of(|| File::open(path))
    }

    /// Reads one, from its beginning each time that it is opened.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of<R: Read>(open: impl Fn() -> io::Result<R>) -> io::Result<Self> {
        let (about, _) = head(open()?)?;
        let heard = Heard::read(|| {
            let (_, from) = head(open()?)?;
            let mut frames = zstd::Decoder::with_buffer(from)?;
            frames.window_log_max(WINDOW)?;
            Ok(BufReader::new(frames))
        })?;
        Ok(Self { about, heard })
    }

    /// The kernel's release.
    pub fn release(&self) -> &str {
        self.heard.release().unwrap_or("")
    }

    /// As the result of a run.
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
                format!("time series show every {each}th look, and rates as means between them");
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

/// The result that two snapshots of a machine make: the texts of `/proc/vmstat` and, if there are any, of
/// `/proc/zoneinfo`, before and after.
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
