//! The protocol between host and guest: a [`Job`] in, [`Frame`]s out.

use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// The job's path in the initramfs.
pub const JOB: &str = "/job.json";

/// The path of a static busybox in the initramfs of a guest with a shell.
pub const BUSYBOX: &str = "/bin/busybox";

/// The work of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The kind of work.
    pub task: Assignment,
    /// Filesystems to mount, the one on `/` first.
    pub mounts: Vec<MountJob>,
    /// The device of the swap area, if any, such as `/dev/vdb`. It already has a swap header.
    pub swap: Option<String>,
    /// Texts written to files below `/proc` and `/sys` before the measurement, in this order: path
    /// and text. A missing file ends the guest with [`Frame::Failed`].
    pub settings: Vec<(String, String)>,
    /// Memory that is in use before the workload starts, in bytes.
    pub boot: BootJob,
    /// Memory control groups to make, parents before their children.
    #[serde(default)]
    pub groups: Vec<GroupJob>,
    /// The group that the whole script runs in, if it does.
    #[serde(default)]
    pub group: Option<String>,
    /// The script to run.
    pub script: ScriptJob,
    /// Directories that the script finds, parents first; [`Assignment::Prepare`] makes them.
    #[serde(default)]
    pub directories: Vec<String>,
    /// Files that the script finds, and their bytes.
    #[serde(default)]
    pub files: Vec<(String, u64)>,
    /// The workload starts this many nanoseconds, modulo the tick interval, after a tick of the
    /// guest's timer.
    #[serde(default)]
    pub since_tick: u64,
    /// Settings written while the workload runs, in the order of time: nanoseconds since its start,
    /// and paths and texts as in `settings`.
    pub changes: Vec<(u64, Vec<(String, String)>)>,
    /// Nanoseconds between looks at [`Job::watch`]; 0: only at the start and the end.
    pub sample_ns: u64,
    /// Files below `/proc` and `/sys` that are read at the start, at every look and at the end;
    /// missing ones are left out.
    pub watch: Vec<String>,
    /// Files that are read at the start and at the end alone, since reading them changes what the
    /// kernel does.
    #[serde(default)]
    pub watch_ends: Vec<String>,
    /// Tracepoints to record while the workload runs, such as `vmscan/mm_vmscan_kswapd_wake`,
    /// optionally followed by a space and a filter in the kernel's syntax:
    /// `writeback/balance_dirty_pages pause > 0`. Missing ones are left out.
    pub tracepoints: Vec<String>,
    /// Size of the ring for them, in KiB; 0: 4096. The ring counts as memory of the kernel
    /// ([`BootJob::kernel`]).
    #[serde(default)]
    pub trace_kb: u64,
    /// Cost of user code in nanoseconds, in worlds that charge it explicitly: copying a whole page
    /// between two buffers of a program.
    pub copy_page_ns: u64,
    /// The same for a call of gettimeofday.
    pub gettimeofday_ns: u64,
    /// Whether computing takes time by itself, so that programs compute in a loop.
    #[serde(default)]
    pub computes: bool,
    /// Columns and lines of a shell's terminal.
    #[serde(default)]
    pub terminal: (u16, u16),
}

/// The purpose of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assignment {
    /// Lay out the files and directories of the script, written with zeroes, and end.
    Prepare,
    /// Run the script.
    Run,
    /// Write the settings and report the first that the kernel refuses ([`Frame::Refused`]); mount
    /// and measure nothing.
    Try,
    /// Run a shell on the console.
    Shell,
}

/// A filesystem to mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountJob {
    /// The device, such as `/dev/vda`.
    pub device: String,
    /// The directory below the first filesystem, with no slash at either end; empty for the first.
    pub mount: String,
    /// The filesystem type for mount(2).
    pub filesystem: String,
    /// The options for mount(2).
    pub options: String,
}

/// A memory control group to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupJob {
    /// Its name, with points between nested groups.
    pub name: String,
    /// Files of the group and the texts to write to them, in this order.
    pub settings: Vec<(String, String)>,
}

/// Memory in use before the workload starts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BootJob {
    /// Memory of the kernel: topped up to this with locked memory.
    pub kernel: u64,
    /// Anonymous memory of an idle process.
    pub anon: u64,
    /// Clean page cache, read once.
    pub cache: u64,
}

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptJob {
    /// A command line of the programs of `workload`.
    Command(String),
    /// The text of a fio job file.
    Fio(String),
    /// A recorded trace, in a file of the initramfs.
    Trace {
        /// The trace's path.
        path: String,
        /// The name of its format; empty: detected.
        format: String,
        /// The columns of its lines, as the experiment's `columns`; empty: those of the format.
        #[serde(default)]
        columns: String,
        /// How the times of the recording are used, as the experiment's `timing`.
        timing: String,
        /// Whether malformed lines are skipped.
        lenient: bool,
        /// The unit of the recording's times or sizes, as the experiment's `unit`; empty: the
        /// format's.
        unit: String,
    },
    /// A user's own program.
    Foreign {
        /// The command line, for `/bin/sh -c`.
        run: String,
        /// The device, such as `/dev/vdc`, mounted read-only as its root.
        root: String,
    },
}

/// A message of a guest.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The guest is ready: the kernel's release.
    Hello(String),
    /// The workload starts, at this virtual time in nanoseconds (CLOCK_MONOTONIC of the guest).
    /// Looks and gauges at the start follow.
    Start(u64),
    /// A sample of a watched file: virtual nanoseconds since the workload's start, path, contents.
    /// Looks at the start have time 0; those at the end have the time of [`Frame::End`] and follow
    /// it.
    Look(u64, String, Vec<u8>),
    /// A figure that programs report while they run: nanoseconds since the start, name, unit,
    /// value.
    Gauge(u64, String, String, f64),
    /// A figure of a program's report: name, unit and value.
    Figure(String, String, f64),
    /// The format of a tracepoint: its name and the text of its `format` file. `header_page` is the
    /// format of the ring's pages. All are sent before the start.
    Format(String, String),
    /// Whole raw pages of the trace ring. Their times are nanoseconds of the clock of
    /// [`Frame::Start`].
    Trace(Vec<u8>),
    /// All CPUs' events up to this time of the ring's clock have been sent. Only recordings of
    /// several CPUs need it; those of one CPU are in the order of time anyway.
    Fetched(u64),
    /// The number of events lost because the ring was full; not sent if none were.
    Lost(u64),
    /// A note for readers of the results.
    Note(String),
    /// The kernel's reports of processes that it killed for memory, from its log.
    Kills(String),
    /// The workload's programs ended, this many nanoseconds after its start.
    End(u64),
    /// The reason why the guest can't go on, or a program failed.
    Failed(String),
    /// The setting with this index in [`Job::settings`] was refused: the reason, and the names of
    /// the files in its folder, one per line.
    Refused(u64, String, String),
    /// The last frame; the guest powers off.
    Bye,
}

const MOST: u32 = 64 << 20;

/// Encodes a [`Frame::Look`] into a reused buffer, so that looks allocate no memory.
pub fn look(into: &mut Vec<u8>, ns: u64, path: &str, contents: &[u8]) {
    let head = Head::new("look", ns, path, "", 0.0);
    into.clear();
    put(into, &head, contents);
}

/// Appends a frame's bytes to `into`: the lengths of head and body, 4 bytes each, little endian,
/// then the head as JSON and the body.
fn put(into: &mut Vec<u8>, head: &Head, body: &[u8]) {
    let at = into.len();
    into.extend([0; 8]);
    serde_json::to_writer(&mut *into, head).expect("a head of strings and numbers is JSON");
    let head = (into.len() - at - 8) as u32;
    into[at..at + 4].copy_from_slice(&head.to_le_bytes());
    into[at + 4..at + 8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    into.extend_from_slice(body);
}

#[derive(Serialize, Deserialize)]
struct Head {
    tag: String,
    #[serde(default)]
    ns: u64,
    #[serde(default)]
    text: String,
    #[serde(default)]
    unit: String,
    /// The bits of a float, because JSON has no NaN.
    #[serde(default)]
    value: u64,
}

impl Head {
    /// Makes the head of a frame: its kind, a time or number, a name or text, a unit and a value.
    fn new(tag: &str, ns: u64, text: &str, unit: &str, value: f64) -> Self {
        Self {
            tag: tag.into(),
            ns,
            text: text.into(),
            unit: unit.into(),
            value: value.to_bits(),
        }
    }
}

impl Frame {
    /// Returns the frame's head, which is sent as JSON, and its body, which is sent as it is.
    fn head(&self) -> (Head, &[u8]) {
        let head = Head::new;
        let none: &[u8] = &[];
        match self {
            Self::Hello(release) => (head("hello", 0, release, "", 0.0), none),
            Self::Start(ns) => (head("start", *ns, "", "", 0.0), none),
            Self::Look(ns, path, body) => (head("look", *ns, path, "", 0.0), body),
            Self::Gauge(ns, name, unit, value) => (head("gauge", *ns, name, unit, *value), none),
            Self::Figure(name, unit, value) => (head("figure", 0, name, unit, *value), none),
            Self::Format(name, text) => (head("format", 0, name, "", 0.0), text.as_bytes()),
            Self::Trace(raw) => (head("trace", 0, "", "", 0.0), raw),
            Self::Fetched(ns) => (head("fetched", *ns, "", "", 0.0), none),
            Self::Lost(n) => (head("lost", *n, "", "", 0.0), none),
            Self::Note(text) => (head("note", 0, text, "", 0.0), none),
            Self::Kills(text) => (head("kills", 0, "", "", 0.0), text.as_bytes()),
            Self::End(ns) => (head("end", *ns, "", "", 0.0), none),
            Self::Failed(why) => (head("failed", 0, why, "", 0.0), none),
            Self::Refused(nth, why, beside) => {
                (head("refused", *nth, why, "", 0.0), beside.as_bytes())
            }
            Self::Bye => (head("bye", 0, "", "", 0.0), none),
        }
    }

    /// Returns the frame's bytes: two lengths of 4 bytes each, little endian, a head in JSON, the
    /// body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (head, body) = self.head();
        let mut bytes = Vec::with_capacity(128 + body.len());
        put(&mut bytes, &head, body);
        bytes
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// The writer fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_bytes())
    }

    /// Reads the next frame; `None` at the end, also if the last frame is cut off: a guest that was
    /// killed may have sent part of it.
    ///
    /// # Errors
    /// The reader fails, or the bytes are no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut lengths = [0; 8];
        if !whole(from, &mut lengths)? {
            return Ok(None);
        }
        let length =
            |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().expect("4 bytes"));
        let (head, body) = (length(0), length(4));
        if head > MOST || body > MOST {
            return Err(io::Error::other("the guest's frames are out of step"));
        }
        let mut bytes = vec![0; head as usize + body as usize];
        if !whole(from, &mut bytes)? {
            return Ok(None);
        }
        let body = bytes.split_off(head as usize);
        let head: Head = serde_json::from_slice(&bytes)?;
        let value = f64::from_bits(head.value);
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        Ok(Some(match head.tag.as_str() {
            "hello" => Self::Hello(head.text),
            "start" => Self::Start(head.ns),
            "look" => Self::Look(head.ns, head.text, body),
            "gauge" => Self::Gauge(head.ns, head.text, head.unit, value),
            "figure" => Self::Figure(head.text, head.unit, value),
            "format" => Self::Format(head.text, text(&body)),
            "trace" => Self::Trace(body),
            "fetched" => Self::Fetched(head.ns),
            "lost" => Self::Lost(head.ns),
            "note" => Self::Note(head.text),
            "kills" => Self::Kills(text(&body)),
            "end" => Self::End(head.ns),
            "failed" => Self::Failed(head.text),
            "refused" => Self::Refused(head.ns, head.text, text(&body)),
            "bye" => Self::Bye,
            other => return Err(io::Error::other(format!("the guest says `{other}`"))),
        }))
    }
}

/// Fills the buffer from a reader; returns false if the reader ends before that.
fn whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_a_frame() {
        let mut bytes = vec![1];
        look(&mut bytes, 3, "/proc/vmstat", b"x 1\n");
        let frame = Frame::Look(3, "/proc/vmstat".into(), b"x 1\n".to_vec());
        assert_eq!(bytes, frame.to_bytes());
    }

    #[test]
    fn frames_survive_the_wire_and_end_where_they_are_cut() {
        let all = [
            Frame::Hello("6.12".into()),
            Frame::Start(7),
            Frame::Look(9, "/proc/vmstat".into(), b"nr_free_pages 1\n".to_vec()),
            Frame::Gauge(1, "rate".into(), "1/s".into(), f64::NAN),
            Frame::Figure("elapsed".into(), "s".into(), 1.5),
            Frame::Format("a/b".into(), "text\n".into()),
            Frame::Trace(vec![0, 255, 10]),
            Frame::Fetched(8),
            Frame::Lost(3),
            Frame::Note("n".into()),
            Frame::End(u64::MAX),
            Frame::Failed("why".into()),
            Frame::Refused(3, "why".into(), "a\nb\n".into()),
            Frame::Bye,
        ];
        let bytes: Vec<u8> = all.iter().flat_map(Frame::to_bytes).collect();
        for cut in [bytes.len(), bytes.len() - 1] {
            let mut from = &bytes[..cut];
            let mut read = Vec::new();
            while let Some(frame) = Frame::read(&mut from).unwrap() {
                read.push(frame);
            }
            let whole = if cut == bytes.len() {
                all.len()
            } else {
                all.len() - 1
            };
            // Compared as bytes: a NaN is not equal to itself.
            let again: Vec<u8> = read.iter().flat_map(Frame::to_bytes).collect();
            assert_eq!(read.len(), whole);
            assert!(bytes.starts_with(&again));
        }
    }
}
