//! fio job files as workloads.
//!
//! [`parse`] reads a job file: `[global]` sections, which may come again, and one section a job.
//! Each of a job's `numjobs` is a process. Numbers have fio's suffixes (K, M, G, T are powers of
//! 1024 and with an `i` powers of 1000, which is fio's odd default), times `us ms s m h d`.
//!
//! As in fio: random offsets hit every block once in a pass (`norandommap` and the other
//! distributions do not), and are the same in every run. A job ends when it moved `size` bytes
//! (`io_size`, if given) or after `runtime`; with `time_based` only then. Calls in `ramp_time` are
//! made and not measured; counters of the engine include them.
//!
//! Other than in fio: more than one request of a job is in flight only with `direct=1` and an
//! asynchronous engine, which is what Linux does of libaio; files of jobs that read or write at
//! random are there beforehand, files of sequential writers are new.

use crate::host::{Fd, Host, HostResult, OpenFlags};
use crate::measure::Kind;
use crate::script::{Command, ExistingFile, Process, Report, Script, Step};
use crate::session::{Session, Shared, lock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trace::random::{Pareto, Permutation, Rng, Zipf};

/// Processes of one job file, with the requests that each has in flight.
pub const MOST_TASKS: u64 = 400;

/// Blocks that a Zipf distribution reaches.
const MOST_RANKS: u64 = 1 << 26;

const KEYS: &str = "rw (readwrite), bs (blocksize), size, io_size, filesize, numjobs, iodepth, \
     direct, buffered, fsync, fdatasync, end_fsync, rate, rwmixread, rwmixwrite, \
     random_distribution, norandommap, runtime, time_based, ramp_time, thinktime, startdelay, \
     stonewall, name, directory, filename, ioengine";

/// Keys that change nothing here; they are listed in the results.
const INDIFFERENT: &[&str] = &[
    "allrandrepeat",
    "buffer_compress_percentage",
    "clat_percentiles",
    "create_on_open",
    "create_serialize",
    "description",
    "disk_util",
    "eta",
    "fallocate",
    "group_reporting",
    "gtod_cpu",
    "gtod_reduce",
    "invalidate",
    "iodepth_batch",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "lat_percentiles",
    "log_avg_msec",
    "new_group",
    "per_job_logs",
    "percentile_list",
    "randrepeat",
    "refill_buffers",
    "scramble_buffers",
    "stats",
    "thread",
    "unlink",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

/// Engines that wait for each request.
const SYNC_ENGINES: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Engines that do not.
const ASYNC_ENGINES: [&str; 3] = ["libaio", "io_uring", "posixaio"];

/// Why a job file can't be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}; accepted: {accepted}")]
pub struct FioError {
    /// The bytes of the file that are at fault.
    pub span: Range<usize>,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the key.
    pub message: String,
    /// What would be right.
    pub accepted: String,
}

/// How random offsets are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Zipf with this exponent.
    Zipf(f64),
    /// fio's Pareto with this parameter.
    Pareto(f64),
}

/// One job: a section of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name, or `name=`.
    pub name: String,
    /// Percentage of reads: 100 reads only, 0 writes only.
    pub reads: u64,
    /// Random offsets and not sequential ones.
    pub random: bool,
    /// Bytes of a read and of a write.
    pub bs: [u64; 2],
    /// Bytes of the file that are used.
    pub region: u64,
    /// Bytes to move.
    pub total: u64,
    /// Number of processes.
    pub numjobs: u64,
    /// Requests that each process has in flight.
    pub depth: u64,
    /// Past the page cache.
    pub direct: bool,
    /// fsync after so many writes; 0: never.
    pub fsync: u64,
    /// fdatasync after so many writes; 0: never.
    pub fdatasync: u64,
    /// fsync at the end.
    pub end_fsync: bool,
    /// Bytes a second of reads and of writes; 0: as many as may be.
    pub rate: [u64; 2],
    /// How random offsets are chosen.
    pub distribution: Distribution,
    /// Blocks may come again before all have been used.
    pub repeat: bool,
    /// Nanoseconds after which the job ends; 0: never.
    pub runtime_ns: u64,
    /// Only the time ends the job.
    pub time_based: bool,
    /// Nanoseconds at the beginning that are not measured.
    pub ramp_ns: u64,
    /// Nanoseconds between the end of a request and the next.
    pub think_ns: u64,
    /// Nanoseconds before the first request.
    pub delay_ns: u64,
    /// All jobs before it in the file end first.
    pub stonewall: bool,
    /// Folder of the file.
    pub directory: String,
    /// The file, if all processes use one.
    pub filename: Option<String>,
}

impl Job {
    fn path(&self, nth: u32) -> String {
        let name = match &self.filename {
            Some(name) => name.clone(),
            None => format!("{}.{nth}.0", self.name),
        };
        match self.directory.trim_end_matches('/') {
            "" => name,
            directory => format!("{directory}/{name}"),
        }
    }

    /// Whether its files are there before it starts.
    fn finds_files(&self) -> bool {
        self.random || self.reads > 0
    }
}

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobs {
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// What a reader of the results must know, one sentence each.
    pub notes: Vec<String>,
}

impl Jobs {
    /// The script that runs the jobs.
    pub fn script(self) -> Script {
        let mut script = Script {
            notes: self.notes,
            ..Script::default()
        };
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        for job in self.jobs {
            if job.stonewall && !script.steps.is_empty() {
                script.steps.push(Step::Wait);
            }
            let job = Arc::new(job);
            for nth in 0..job.numjobs as u32 {
                if job.finds_files() {
                    let len = files.entry(job.path(nth)).or_insert(0);
                    *len = job.region.max(*len);
                }
                let shared = script.shared.len();
                script.shared.push(Shared::Fio(Arc::clone(&job), nth));
                for _ in 0..job.depth {
                    script.steps.push(Step::Background(Process {
                        commands: vec![Command::Fio(Worker { shared, nth })],
                    }));
                }
            }
        }
        script.steps.push(Step::Wait);
        script.files = files
            .into_iter()
            .map(|(path, len)| ExistingFile { path, len })
            .collect();
        script
    }
}

/// A `key=value` line.
#[derive(Debug, Clone)]
struct Setting {
    key: String,
    value: Option<String>,
    span: Range<usize>,
    line: usize,
}

impl Setting {
    fn error(&self, message: impl Into<String>, accepted: impl Into<String>) -> FioError {
        FioError {
            span: self.span.clone(),
            line: self.line,
            message: format!("`{}`: {}", self.key, message.into()),
            accepted: accepted.into(),
        }
    }

    fn text(&self) -> Result<&str, FioError> {
        match self.value.as_deref() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.error("a value is missing", format!("{}=…", self.key))),
        }
    }

    /// fio's switches: alone they are on.
    fn switch(&self) -> Result<bool, FioError> {
        match self.value.as_deref() {
            None | Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => Err(self.error(format!("`{other}` is no switch"), "0 or 1")),
        }
    }

    fn number(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, FioError> {
        let text = self.text()?;
        let (min, max) = (*range.start(), *range.end());
        scaled(text).filter(|n| range.contains(n)).ok_or_else(|| {
            let accepted = format!(
                "a whole number from {min} to {max}, with a suffix if need be: k, m, g, t are \
                 powers of 1024"
            );
            self.error(format!("`{text}` does not fit here"), accepted)
        })
    }

    /// One number, or one for reads and one for writes.
    fn pair(&self, range: &std::ops::RangeInclusive<u64>) -> Result<[u64; 2], FioError> {
        let text = self.text()?;
        let parts: Vec<&str> = text.split(',').collect();
        let bad = || {
            self.error(
                format!("`{text}` does not fit here"),
                format!(
                    "a size from {} to {}, or two with a comma, for reads and writes",
                    range.start(),
                    range.end()
                ),
            )
        };
        let number = |t: &str| scaled(t).filter(|n| range.contains(n)).ok_or_else(bad);
        match parts[..] {
            [one] => number(one).map(|n| [n, n]),
            [read, write] => Ok([number(read)?, number(write)?]),
            [read, write, _trim] => Ok([number(read)?, number(write)?]),
            _ => Err(bad()),
        }
    }

    /// A time in nanoseconds; a number alone counts `unit` nanoseconds.
    fn time(&self, unit: u64) -> Result<u64, FioError> {
        let text = self.text()?;
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = match &text[digits..] {
            "" => Some(unit),
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "s" => Some(1_000_000_000),
            "m" => Some(60_000_000_000),
            "h" => Some(3_600_000_000_000),
            "d" => Some(86_400_000_000_000),
            _ => None,
        };
        let ns = unit.and_then(|u| text[..digits].parse::<u64>().ok()?.checked_mul(u));
        ns.filter(|ns| *ns <= 1 << 60).ok_or_else(|| {
            self.error(
                format!("`{text}` is no time"),
                "a whole number, with us, ms, s, m, h or d if need be",
            )
        })
    }
}

/// A number with fio's suffixes.
fn scaled(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let n: u64 = text[..digits].parse().ok()?;
    let suffix = text[digits..].to_ascii_lowercase();
    let suffix = suffix.strip_suffix('b').unwrap_or(&suffix);
    let (letter, base) = match suffix.strip_suffix('i') {
        Some(letter) => (letter, 1000_u64),
        None => (suffix, 1024),
    };
    let power = match letter {
        "" if base == 1024 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    n.checked_mul(base.pow(power))
}

/// Reads a job file.
///
/// # Errors
/// What fio would refuse, a key that is not supported, and jobs that can't be run here.
pub fn parse(text: &str) -> Result<Jobs, FioError> {
    let mut global: Vec<Setting> = Vec::new();
    let mut sections: Vec<(Setting, Vec<Setting>)> = Vec::new();
    let mut in_global = None;
    let mut at = 0;
    for (number, raw) in text.split_inclusive('\n').enumerate() {
        let start = at;
        at += raw.len();
        let line = raw.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        let from = start + raw.len() - raw.trim_start().len();
        let span = from..from + line.len();
        let mut setting = Setting {
            key: line.to_owned(),
            value: None,
            span,
            line: number + 1,
        };
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|n| !n.trim().is_empty()) else {
                return Err(setting.error("is no section", "[global] or [NAME]"));
            };
            name.trim().clone_into(&mut setting.key);
            in_global = Some(setting.key == "global");
            if setting.key != "global" {
                // A job has what the global sections before it say.
                sections.push((setting, global.clone()));
            }
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            setting.key = key.trim().to_owned();
            setting.value = Some(value.trim().to_owned());
        }
        if setting.value.as_deref().unwrap_or(line).contains("${") {
            return Err(setting.error("variables are not expanded", "the value itself"));
        }
        match (in_global, sections.last_mut()) {
            (Some(true), _) => global.push(setting),
            (Some(false), Some((_, settings))) => settings.push(setting),
            _ => return Err(setting.error("stands before any section", "[global] or [NAME]")),
        }
    }
    if sections.is_empty() {
        return Err(FioError {
            span: 0..0,
            line: 1,
            message: "the file has no job".into(),
            accepted: "a section [NAME] with keys such as rw=randread".into(),
        });
    }
    let mut jobs = Vec::new();
    let mut indifferent: Vec<String> = Vec::new();
    let mut notes = Vec::new();
    for (head, settings) in &sections {
        let (job, note) = job(head, settings, &mut indifferent)?;
        notes.extend(note);
        jobs.push(job);
        let tasks: u64 = jobs.iter().map(|j: &Job| j.numjobs * j.depth).sum();
        if tasks > MOST_TASKS {
            return Err(head.error(
                format!("the jobs so far have {tasks} requests in flight"),
                format!("at most {MOST_TASKS} of numjobs times iodepth over all jobs"),
            ));
        }
    }
    if !indifferent.is_empty() {
        let list = indifferent.join(", ");
        notes.push(format!(
            "keys of the job file that change nothing here: {list}"
        ));
    }
    Ok(Jobs { jobs, notes })
}

/// A job from its section, and what is to be said of it.
fn job(
    head: &Setting,
    settings: &[Setting],
    indifferent: &mut Vec<String>,
) -> Result<(Job, Option<String>), FioError> {
    let mut job = Job {
        name: head.key.clone(),
        reads: 100,
        random: false,
        bs: [4096; 2],
        region: 0,
        total: 0,
        numjobs: 1,
        depth: 1,
        direct: false,
        fsync: 0,
        fdatasync: 0,
        end_fsync: false,
        rate: [0; 2],
        distribution: Distribution::Random,
        repeat: false,
        runtime_ns: 0,
        time_based: false,
        ramp_ns: 0,
        think_ns: 0,
        delay_ns: 0,
        stonewall: false,
        directory: String::new(),
        filename: None,
    };
    let (mut size, mut io_size, mut filesize) = (None, None, None);
    let (mut mixed, mut mix) = (false, 50);
    let mut engine = "psync".to_owned();
    const FILE: u64 = trace::MAX_FILE;
    for s in settings {
        match s.key.as_str() {
            "rw" | "readwrite" => {
                (job.reads, job.random, mixed) = match s.text()? {
                    "read" => (100, false, false),
                    "write" => (0, false, false),
                    "randread" => (100, true, false),
                    "randwrite" => (0, true, false),
                    "rw" | "readwrite" => (50, false, true),
                    "randrw" => (50, true, true),
                    other => {
                        return Err(s.error(
                            format!("`{other}` is not supported"),
                            "read, write, randread, randwrite, rw, readwrite, randrw",
                        ));
                    }
                };
            }
            "bs" | "blocksize" => job.bs = s.pair(&(512..=1 << 30))?,
            "size" => size = Some(s.number(512..=FILE)?),
            "io_size" => io_size = Some(s.number(512..=1 << 60)?),
            "filesize" => filesize = Some(s.number(512..=FILE)?),
            "numjobs" => job.numjobs = s.number(1..=MOST_TASKS)?,
            "iodepth" => job.depth = s.number(1..=MOST_TASKS)?,
            "direct" => job.direct = s.switch()?,
            "buffered" => job.direct = !s.switch()?,
            "fsync" => job.fsync = s.number(0..=1 << 40)?,
            "fdatasync" => job.fdatasync = s.number(0..=1 << 40)?,
            "end_fsync" => job.end_fsync = s.switch()?,
            "rate" => job.rate = s.pair(&(0..=1 << 50))?,
            "rwmixread" => mix = s.number(0..=100)?,
            "rwmixwrite" => mix = 100 - s.number(0..=100)?,
            "random_distribution" => job.distribution = distribution(s)?,
            "norandommap" => job.repeat = s.switch()?,
            "runtime" | "timeout" => job.runtime_ns = s.time(1_000_000_000)?,
            "time_based" => job.time_based = s.switch()?,
            "ramp_time" => job.ramp_ns = s.time(1_000_000_000)?,
            "thinktime" => job.think_ns = s.time(1_000)?,
            "startdelay" => job.delay_ns = s.time(1_000_000_000)?,
            "stonewall" => job.stonewall = s.switch()?,
            "name" => s.text()?.clone_into(&mut job.name),
            "directory" => s.text()?.clone_into(&mut job.directory),
            "filename" => {
                if s.text()?.contains(':') {
                    return Err(s.error("several files are not supported", "one file"));
                }
                job.filename = Some(s.text()?.to_owned());
            }
            "ioengine" => {
                s.text()?.clone_into(&mut engine);
                if !SYNC_ENGINES.contains(&engine.as_str())
                    && !ASYNC_ENGINES.contains(&engine.as_str())
                {
                    return Err(s.error(
                        format!("the engine `{engine}` is not supported"),
                        [&SYNC_ENGINES[..], &ASYNC_ENGINES].concat().join(", "),
                    ));
                }
                list(indifferent, "ioengine");
            }
            key if INDIFFERENT.contains(&key) => list(indifferent, key),
            _ => return Err(s.error("this key is not supported", KEYS)),
        }
    }
    if mixed {
        job.reads = mix;
    }
    let Some(region) = filesize.or(size) else {
        return Err(head.error("the job has no size", "size= or filesize= in its section"));
    };
    job.region = region;
    job.total = io_size.or(size).unwrap_or(region);
    let largest = match job.reads {
        100 => job.bs[0],
        0 => job.bs[1],
        _ => job.bs[0].max(job.bs[1]),
    };
    if largest > region {
        return Err(head.error(
            format!("a block of {largest} bytes does not fit the file of {region} bytes"),
            "bs= up to the file's size",
        ));
    }
    if job.direct && job.bs.iter().any(|bs| !bs.is_multiple_of(4096)) {
        return Err(head.error(
            "direct=1 with blocks that are no whole pages",
            "bs= in multiples of 4k",
        ));
    }
    if job.time_based && job.runtime_ns == 0 {
        return Err(head.error("time_based without a runtime", "runtime= beside it"));
    }
    if matches!(job.distribution, Distribution::Zipf(_)) && blocks(&job) > MOST_RANKS {
        return Err(head.error(
            format!("zipf over {} blocks", blocks(&job)),
            format!("up to {MOST_RANKS} blocks: a smaller file or larger blocks"),
        ));
    }
    let mut note = None;
    if job.depth > 1 && !(job.direct && ASYNC_ENGINES.contains(&engine.as_str())) {
        note = Some(format!(
            "job {}: iodepth={} has no effect: only direct=1 with {} keeps several requests in flight",
            job.name,
            job.depth,
            ASYNC_ENGINES.join(", ")
        ));
        job.depth = 1;
    }
    Ok((job, note))
}

fn list(names: &mut Vec<String>, key: &str) {
    if !names.iter().any(|n| n == key) {
        names.push(key.to_owned());
    }
}

fn distribution(s: &Setting) -> Result<Distribution, FioError> {
    let text = s.text()?;
    let bad = || {
        s.error(
            format!("`{text}` is not supported"),
            "random, zipf:THETA (above 0 up to 10), pareto:H (above 0, below 1)",
        )
    };
    let (kind, value) = match text.split_once(':') {
        Some((kind, value)) => (kind, Some(value.parse::<f64>().map_err(|_| bad())?)),
        None => (text, None),
    };
    match (kind, value) {
        ("random", None) => Ok(Distribution::Random),
        ("zipf", Some(theta)) if theta > 0.0 && theta <= 10.0 => Ok(Distribution::Zipf(theta)),
        ("pareto", Some(h)) if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto(h)),
        _ => Err(bad()),
    }
}

/// Bytes that offsets are multiples of.
fn step(job: &Job) -> u64 {
    match job.reads {
        100 => job.bs[0],
        0 => job.bs[1],
        _ => job.bs[0].min(job.bs[1]),
    }
}

fn blocks(job: &Job) -> u64 {
    (job.region / step(job)).max(1)
}

enum Ranks {
    Zipf(Zipf),
    Pareto(Pareto),
    Any,
    /// Every block once, then again.
    Once,
    Sequential,
}

/// How far one process of a job is.
pub struct Progress {
    rng: Rng,
    ranks: Ranks,
    scatter: Permutation,
    blocks: u64,
    /// Blocks of this pass.
    passed: u64,
    passes: u64,
    seed: u64,
    /// The next byte of a sequential job.
    pos: u64,
    /// Bytes issued, read and written.
    issued: [u64; 2],
    writes: u64,
    started: Option<u64>,
    /// Workers that have ended.
    ended: u64,
}

/// What a worker does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    write: bool,
    offset: u64,
    len: u64,
    /// Not before this time, in nanoseconds.
    not_before: u64,
    /// Afterwards: nothing, or a sync (of data only).
    sync: Option<bool>,
}

impl Progress {
    pub(crate) fn new(job: &Job, nth: u32) -> Self {
        let blocks = blocks(job);
        let name = job.name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let seed = name ^ u64::from(nth);
        let ranks = match job.distribution {
            _ if !job.random => Ranks::Sequential,
            Distribution::Zipf(theta) => Ranks::Zipf(Zipf::new(blocks as u32, theta)),
            Distribution::Pareto(h) => Ranks::Pareto(Pareto::new(blocks, h)),
            Distribution::Random if job.repeat => Ranks::Any,
            Distribution::Random => Ranks::Once,
        };
        Self {
            rng: Rng::new(seed),
            ranks,
            scatter: Permutation::new(blocks, seed),
            blocks,
            passed: 0,
            passes: 0,
            seed,
            pos: 0,
            issued: [0; 2],
            writes: 0,
            started: None,
            ended: 0,
        }
    }

    fn next(&mut self, job: &Job, now: u64) -> Option<Request> {
        let started = *self.started.get_or_insert(now);
        let limit = job.runtime_ns.saturating_add(job.ramp_ns);
        if job.runtime_ns > 0 && now - started >= limit {
            return None;
        }
        let left = job.total.saturating_sub(self.issued[0] + self.issued[1]);
        if !job.time_based && left == 0 {
            return None;
        }
        let write = match job.reads {
            100 => false,
            0 => true,
            reads => self.rng.below(100) >= reads,
        };
        let direction = usize::from(write);
        let len = job.bs[direction];
        let offset = self.offset(job, len);
        let len = len.min(job.region - offset);
        let rate = job.rate[direction];
        let mut not_before = 0;
        if rate > 0 {
            let due = u128::from(self.issued[direction]) * 1_000_000_000 / u128::from(rate);
            not_before = started.saturating_add(due as u64);
        }
        self.issued[direction] += len;
        self.writes += u64::from(write);
        let every = |n: u64| write && n > 0 && self.writes.is_multiple_of(n);
        let sync = if every(job.fsync) {
            Some(false)
        } else if every(job.fdatasync) {
            Some(true)
        } else {
            None
        };
        Some(Request {
            write,
            offset,
            len,
            not_before,
            sync,
        })
    }

    fn offset(&mut self, job: &Job, len: u64) -> u64 {
        let block = match &self.ranks {
            Ranks::Sequential => {
                let at = if self.pos >= job.region { 0 } else { self.pos };
                self.pos = at + len;
                return at;
            }
            Ranks::Zipf(zipf) => self.scatter.apply(u64::from(zipf.draw(&mut self.rng))),
            Ranks::Pareto(pareto) => self.scatter.apply(pareto.draw(&mut self.rng)),
            Ranks::Any => self.rng.below(self.blocks),
            Ranks::Once => {
                if self.passed == self.blocks {
                    self.passed = 0;
                    self.passes += 1;
                    self.scatter = Permutation::new(self.blocks, self.seed ^ self.passes << 32);
                }
                self.passed += 1;
                self.scatter.apply(self.passed - 1)
            }
        };
        // A longer request at the end of the file is moved to fit.
        (block * step(job)).min(job.region - len)
    }
}

/// One of the tasks that do a process's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// The process among what the script shares.
    pub shared: usize,
    /// Which of the job's processes.
    pub nth: u32,
}

impl Worker {
    pub(crate) async fn run<H: Host>(&self, host: &H, session: &Session) -> HostResult<Report> {
        let (job, progress) = session.fio(self.shared);
        if job.delay_ns > 0 {
            host.sleep(job.delay_ns).await;
        }
        let flags = OpenFlags {
            read: job.reads > 0,
            write: job.reads < 100,
            create: true,
            direct: job.direct,
            ..OpenFlags::default()
        };
        let fd = host.open(&job.path(self.nth), flags).await?;
        let result = self.requests(host, session, fd).await;
        let all_ended = {
            let mut p = lock(progress);
            p.ended += 1;
            p.ended == job.depth
        };
        if result.is_ok() && all_ended && job.end_fsync && job.reads < 100 {
            host.sync(fd, false).await?;
        }
        host.close(fd).await?;
        result.map(|()| Report::default())
    }

    async fn requests<H: Host>(&self, host: &H, session: &Session, fd: Fd) -> HostResult<()> {
        let (job, progress) = session.fio(self.shared);
        let mut buffer = host.buffer(job.bs[0].max(job.bs[1]));
        let measured = |began: u64| {
            let started = lock(progress).started.unwrap_or(0);
            began - started >= job.ramp_ns
        };
        loop {
            let request = lock(progress).next(job, host.now());
            let Some(r) = request else {
                return Ok(());
            };
            let early = r.not_before.saturating_sub(host.now());
            if early > 0 {
                host.sleep(early).await;
            }
            let began = host.now();
            let (kind, done) = if r.write {
                (
                    Kind::Write,
                    host.write_at(fd, &buffer, r.offset, r.len).await?,
                )
            } else {
                (
                    Kind::Read,
                    host.read_at(fd, &mut buffer, r.offset, r.len).await?,
                )
            };
            if measured(began) {
                session.note(kind, (began, host.now()), done, r.len);
            }
            if let Some(data_only) = r.sync {
                let began = host.now();
                host.sync(fd, data_only).await?;
                if measured(began) {
                    session.note(Kind::Sync, (began, host.now()), 0, 0);
                }
            }
            if job.think_ns > 0 {
                host.sleep(job.think_ns).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryHost, block_on};
    use proptest::prelude::*;

    fn run(text: &str) -> (MemoryHost, BTreeMap<String, f64>, Vec<String>) {
        let script = parse(text).unwrap_or_else(|e| panic!("{e}")).script();
        let host = MemoryHost::default();
        for file in &script.files {
            host.put(&file.path, &vec![1; file.len as usize]);
        }
        let session = Session::new(&script);
        for step in &script.steps {
            if let Step::Background(process) = step {
                block_on(process.commands[0].run(&host, &session)).unwrap();
            }
        }
        assert_eq!(host.open_files(), 0);
        let report = session.report(0).unwrap();
        let metrics = report.metrics.into_iter().map(|(n, _, v)| (n, v)).collect();
        (host, metrics, script.notes)
    }

    #[test]
    fn a_job_file_of_several_sections_runs() {
        let text = "\
; two readers, then a writer
[global]
bs=4k
size=64k
ioengine=libaio
group_reporting
[readers]
rw=randread
numjobs=2
iodepth=8

[global]
directory=/data/
[writer]
stonewall
rw=write
filename=log
bs=16k
fsync=2
end_fsync=1
";
        let jobs = parse(text).unwrap();
        let script = jobs.clone().script();
        assert_eq!(script.steps.len(), 5);
        assert_eq!(script.steps[2], Step::Wait);
        let names: Vec<&str> = script.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(names, ["readers.0.0", "readers.1.0"]);
        let (host, metrics, notes) = run(text);
        assert_eq!(metrics["reads"], 32.0);
        assert_eq!(metrics["writes"], 4.0);
        assert_eq!(metrics["syncs"], 2.0);
        assert_eq!(metrics["short_calls"], 0.0);
        assert_eq!(host.count("fsync"), 3);
        assert_eq!(host.contents("/data/log").len(), 65_536);
        assert!(notes[0].contains("iodepth=8 has no effect"), "{notes:?}");
        assert!(notes[1].ends_with("ioengine, group_reporting"), "{notes:?}");
        // Every block once.
        let mut seeks: Vec<String> = host.calls.borrow().clone();
        seeks.retain(|c| c.starts_with("seek readers.0.0"));
        seeks.sort();
        seeks.dedup();
        assert_eq!(seeks.len(), 16);
    }

    #[test]
    fn rates_times_and_ramps_are_kept() {
        let (host, metrics, _) = run("[a]\nrw=write\nbs=1k\nsize=100k\nrate=10k\n");
        // A hundred blocks at ten a second; the last one is due after 9.9 s.
        let seconds = host.now_seconds();
        assert!((9.9..9.91).contains(&seconds), "{seconds}");
        assert_eq!(metrics["writes"], 100.0);
        let text = "[a]\nrw=read\nsize=8k\ntime_based\nruntime=2s\nramp_time=500ms\nthinktime=10ms";
        let (host, metrics, _) = run(text);
        assert!((2.5..2.52).contains(&host.now_seconds()));
        assert_eq!(metrics["reads"], 200.0);
        let (_, metrics, _) =
            run("[a]\nrw=randrw\nrwmixread=80\nsize=4m\nrandom_distribution=zipf:1.1");
        assert!((750.0..870.0).contains(&metrics["reads"]), "{metrics:?}");
        assert_eq!(metrics["reads"] + metrics["writes"], 1024.0);
        let (_, metrics, _) =
            run("[a]\nrw=randwrite\nsize=1m\nio_size=2m\nrandom_distribution=pareto:0.3");
        assert_eq!(metrics["writes"], 512.0);
    }

    #[test]
    fn direct_jobs_keep_their_queue_full() {
        let text = "[a]\nrw=randread\nsize=64k\ndirect=1\nioengine=io_uring\niodepth=4";
        let script = parse(text).unwrap().script();
        assert_eq!(script.steps.len(), 5);
        let (_, metrics, _) = run(text);
        assert_eq!(metrics["reads"], 16.0);
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_line() {
        for (text, line, what) in [
            ("", 1, "no job"),
            ("rw=read\n", 1, "before any section"),
            ("[a\n", 1, "no section"),
            ("[a]\nrw=trim\nsize=1m", 2, "`rw`"),
            ("[a]\nrw=read\n", 1, "no size"),
            ("[global]\nsize=1m\n[a]\n\nverify=md5\n", 5, "`verify`"),
            ("[a]\nsize=10%\n", 2, "`size`"),
            ("[a]\nsize=1m\nbs=4k-64k\n", 3, "`bs`"),
            ("[a]\nsize=1m\nioengine=mmap\n", 3, "mmap"),
            ("[a]\nsize=1m\ndirect=yes\n", 3, "`direct`"),
            ("[a]\nsize=1m\ndirect=1\nbs=512\n", 1, "whole pages"),
            ("[a]\nsize=1m\ntime_based\n", 1, "runtime"),
            ("[a]\nsize=${SIZE}\n", 2, "variables"),
            ("[a]\nsize=1m\nrandom_distribution=normal:3\n", 3, "normal"),
            ("[a]\nsize=1m\nnumjobs=500\n", 3, "`numjobs`"),
            (
                "[a]\nsize=1m\nnumjobs=300\n[b]\nsize=1m\nnumjobs=300\n",
                4,
                "600",
            ),
            ("[a]\nsize=1k\nbs=4k\n", 1, "does not fit"),
            ("[a]\nsize=1m\nfilename=x:y\n", 3, "several files"),
            ("[a]\nsize=1m\nruntime=5 parsecs\n", 3, "`runtime`"),
            ("[a]\nsize=\n", 2, "missing"),
        ] {
            let e = parse(text).expect_err(text);
            assert_eq!(e.line, line, "{text}: {e}");
            assert!(e.message.contains(what), "{text}: {e}");
            assert!(!e.accepted.is_empty() && text.get(e.span.clone()).is_some());
        }
    }

    #[test]
    fn numbers_have_fios_suffixes() {
        for (text, n) in [
            ("0", Some(0)),
            ("4k", Some(4096)),
            ("4KB", Some(4096)),
            ("4ki", Some(4000)),
            ("4KiB", Some(4000)),
            ("1G", Some(1 << 30)),
            ("k", None),
            ("1x", None),
            ("1i", None),
            ("99999999999999t", None),
        ] {
            assert_eq!(scaled(text), n, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(\\[(global|a|b)\\]?\n|(rw|bs|size|rate|iodepth|direct|x)=?[0-9a-z,:%.é-]{0,6}\n|;.{0,5}\n){0,12}") {
            if let Err(e) = parse(&text) {
                prop_assert!(text.get(e.span.clone()).is_some());
            }
        }

        #[test]
        fn requests_lie_inside_the_file(
            rw in prop_oneof![Just("rw"), Just("randrw"), Just("randwrite")],
            read in 1_u64..40, write in 1_u64..40, size in 40_u64..400,
        ) {
            let text = format!("[a]\nrw={rw}\nbs={},{}\nsize={}", read * 512, write * 512, size * 512);
            let jobs = parse(&text).unwrap();
            let job = &jobs.jobs[0];
            let mut progress = Progress::new(job, 0);
            while let Some(r) = progress.next(job, 0) {
                prop_assert!(r.len > 0 && r.offset + r.len <= job.region, "{:?}", r);
            }
        }
    }
}
