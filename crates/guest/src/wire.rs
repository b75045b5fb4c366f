//! What host and guest say to each other: a [`Job`] in, [`Frame`]s out.

use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Where the job lies in the initramfs.
pub const JOB: &str = "/job.json";

/// Where a static busybox lies in the initramfs of a guest with a shell.
pub const BUSYBOX: &str = "/bin/busybox";

/// What a guest does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What for.
    pub task: Assignment,
    /// Filesystems to mount, the one on `/` first.
    pub mounts: Vec<MountJob>,
    /// The device of the swap area, if there is one: `/dev/vdb`. It has its header.
    pub swap: Option<String>,
    /// What is written to files below `/proc` and `/sys` before anything is measured, in this order:
    /// path and text. A file that is not there ends the guest with [`Frame::Failed`].
    pub settings: Vec<(String, String)>,
    /// Memory that is in use before the workload starts, in bytes.
    pub boot: BootJob,
    /// What runs.
    pub script: ScriptJob,
    /// Directories that the script finds, parents first: what [`Assignment::Prepare`] lays out.
    #[serde(default)]
    pub directories: Vec<String>,
    /// Files that it finds, and their bytes.
    #[serde(default)]
    pub files: Vec<(String, u64)>,
    /// The workload begins so many nanoseconds after a tick of the guest's timer, less whole ticks.
    #[serde(default)]
    pub since_tick: u64,
    /// Settings written while the workload runs, in the order of time: nanoseconds since its start, and
    /// as `settings`.
    pub changes: Vec<(u64, Vec<(String, String)>)>,
    /// Nanoseconds between looks at [`Job::watch`]; 0: only at the start and the end.
    pub sample_ns: u64,
    /// Files below `/proc` and `/sys` that are read at the start, at every look and at the end; one that
    /// is not there is left out.
    pub watch: Vec<String>,
    /// Tracepoints to record while the workload runs, as `vmscan/mm_vmscan_kswapd_wake`, and behind a space the
    /// kernel's filter of their events: `writeback/balance_dirty_pages pause > 0`. One that is not there is
    /// left out.
    pub tracepoints: Vec<String>,
    /// Memory of the ring that they are recorded into, in KiB; 0: 4096. It counts as the kernel's own
    /// ([`BootJob::kernel`]).
    #[serde(default)]
    pub trace_kb: u64,
    /// What user code costs where a world has to say it, in nanoseconds: a whole page copied between two
    /// buffers of a program, and gettimeofday.
    pub copy_page_ns: u64,
    /// See `copy_page_ns`.
    pub gettimeofday_ns: u64,
    /// Columns and lines of a shell's terminal.
    #[serde(default)]
    pub terminal: (u16, u16),
}

/// What a guest is booted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assignment {
    /// Lay out the files and directories that the script finds, written with zeroes, and end.
    Prepare,
    /// Run the script.
    Run,
    /// Write the settings and say of the first that the kernel does not take ([`Frame::Refused`]); mount and
    /// measure nothing.
    Try,
    /// A shell on the console.
    Shell,
}

/// A filesystem to mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountJob {
    /// `/dev/vda`.
    pub device: String,
    /// The directory below the first filesystem, with no slash at either end; empty for the first.
    pub mount: String,
    /// The type for mount(2).
    pub filesystem: String,
    /// The options for mount(2).
    pub options: String,
}

/// Memory in use before the workload starts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BootJob {
    /// What the kernel itself has: topped up with locked memory to this.
    pub kernel: u64,
    /// Anonymous memory of an idle program.
    pub anon: u64,
    /// Clean page cache, read once.
    pub cache: u64,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptJob {
    /// A command line of the programs of `workload`.
    Command(String),
    /// The text of a fio job file.
    Fio(String),
    /// A recorded trace, in a file of the initramfs.
    Trace {
        /// Its path.
        path: String,
        /// The name of its format; empty: found out.
        format: String,
        /// Whether the times of the recording are kept: as the experiment's `timing`.
        timing: String,
        /// Whether lines that can't be read are skipped.
        lenient: bool,
        /// The unit of the recording's times or sizes, as the experiment's `unit`; empty: the format's.
        unit: String,
    },
    /// A program of the user's: its command line for `/bin/sh -c`, and the device of its root folder.
    Foreign {
        /// The command line.
        run: String,
        /// The device, such as `/dev/vdc`, mounted read-only as its root.
        root: String,
    },
}

/// What a guest says.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// It is up: the kernel's release.
    Hello(String),
    /// The workload begins, at this virtual time in nanoseconds (CLOCK_MONOTONIC of the guest). Looks
    /// and gauges at the start follow it.
    Start(u64),
    /// A look at a watched file: virtual nanoseconds since the workload's start, path, contents. The looks
    /// at the start carry 0; those at the end carry the time of [`Frame::End`] and follow it.
    Look(u64, String, Vec<u8>),
    /// A figure that programs say of themselves as they run: nanoseconds since the start, name, unit,
    /// value.
    Gauge(u64, String, String, f64),
    /// A figure of a program's report: name, unit and value.
    Figure(String, String, f64),
    /// The format of a tracepoint: its name and the text of its `format` file. The one named `header_page` is
    /// that of the ring's pages. All are said before the start.
    Format(String, String),
    /// Raw pages of the trace ring, whole ones. Times in them are nanoseconds of the clock that
    /// [`Frame::Start`] is a time of.
    Trace(Vec<u8>),
    /// Every event up to this time of the ring's clock has been said, of all CPUs. Said by who records a machine
    /// of several; those of one are in the order of time anyway.
    Fetched(u64),
    /// So many events found no room in the ring; not said if none.
    Lost(u64),
    /// Something a reader must know.
    Note(String),
    /// The workload's programs have ended, so many nanoseconds since its start.
    End(u64),
    /// It can't go on, or a program failed: why.
    Failed(String),
    /// The setting of this place in [`Job::settings`] was not taken: why, and the names of the files beside its
    /// own, a line each.
    Refused(u64, String, String),
    /// All was said; the guest powers off.
    Bye,
}

const MOST: u32 = 64 << 20;

/// Makes the bytes of a [`Frame::Look`] in a buffer that is used again, so that looking takes no memory.
pub fn look(into: &mut Vec<u8>, ns: u64, path: &str, contents: &[u8]) {
    let head = Head::new("look", ns, path, "", 0.0);
    into.clear();
    put(into, &head, contents);
}

/// Two lengths, a head and a body.
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
    /// The bits of a float: JSON has no NaN.
    #[serde(default)]
    value: u64,
}

impl Head {
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
            Self::End(ns) => (head("end", *ns, "", "", 0.0), none),
            Self::Failed(why) => (head("failed", 0, why, "", 0.0), none),
            Self::Refused(nth, why, beside) => {
                (head("refused", *nth, why, "", 0.0), beside.as_bytes())
            }
            Self::Bye => (head("bye", 0, "", "", 0.0), none),
        }
    }

    /// Its bytes: two lengths in 4 bytes each, little endian, a head as JSON, the body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (head, body) = self.head();
        let mut bytes = Vec::with_capacity(128 + body.len());
        put(&mut bytes, &head, body);
        bytes
    }

    /// Writes it.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_bytes())
    }

    /// Reads the next one; `None` at the end, also at one that is cut short: a guest that was killed has
    /// said only a part of it.
    ///
    /// # Errors
    /// The reader's, and bytes that are no frame.
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
            "end" => Self::End(head.ns),
            "failed" => Self::Failed(head.text),
            "refused" => Self::Refused(head.ns, head.text, text(&body)),
            "bye" => Self::Bye,
            other => return Err(io::Error::other(format!("the guest says `{other}`"))),
        }))
    }
}

/// Fills the buffer; false if the end comes before that.
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
            // By their bytes: a NaN is not equal to itself.
            let again: Vec<u8> = read.iter().flat_map(Frame::to_bytes).collect();
            assert_eq!(read.len(), whole);
            assert!(bytes.starts_with(&again));
        }
    }
}
