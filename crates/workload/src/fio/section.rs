//! Converts a section of a job file to a job: the table of keys, and checks of their combination.

use super::job::{Distribution, Hint, Job, MOST_TASKS};
use super::setting::{FioError, Setting};
use crate::host::Advice;

/// The limit on blocks for a Zipf distribution.
const MOST_RANKS: u64 = 1 << 26;

/// Keys without an effect here; they are listed in the results.
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

/// Synchronous engines.
const SYNC_ENGINES: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];
/// Asynchronous engines.
const ASYNC_ENGINES: [&str; 3] = ["libaio", "io_uring", "posixaio"];

/// The longest file, in bytes.
const FILE: u64 = trace::MAX_FILE;
const SECOND: u64 = 1_000_000_000;

/// A job in the making, while its section is read.
struct Given {
    job: Job,
    size: Option<u64>,
    io_size: Option<u64>,
    filesize: Option<u64>,
    /// Set if reads and writes are mixed; `mix` is the percentage of reads.
    mixed: bool,
    mix: u64,
    engine: String,
}

/// Applies a key's value to the job.
type Set = fn(&mut Given, &Setting) -> Result<(), FioError>;

/// A key of a section: its name, an alternative name, and its action.
struct Key(&'static str, &'static str, Set);

/// Defines a key that sets a field to its parsed value.
macro_rules! key {
    ($name:literal, $other:literal, $($field:ident).+ = |$s:ident| $value:expr) => {
        Key($name, $other, |given, $s| {
            given.$($field).+ = $value;
            Ok(())
        })
    };
}

const KEYS: &[Key] = &[
    Key("rw", "readwrite", direction),
    key!("bs", "blocksize", job.bs = |s| s.pair(&(512..=1 << 30))?),
    key!("size", "", size = |s| Some(s.number(512..=FILE)?)),
    key!("io_size", "", io_size = |s| Some(s.number(512..=1 << 60)?)),
    key!("filesize", "", filesize = |s| Some(s.number(512..=FILE)?)),
    key!("numjobs", "", job.numjobs = |s| s.number(1..=MOST_TASKS)?),
    key!("iodepth", "", job.depth = |s| s.number(1..=MOST_TASKS)?),
    key!("direct", "", job.direct = |s| s.switch()?),
    key!("buffered", "", job.direct = |s| !s.switch()?),
    key!("fsync", "", job.fsync = |s| s.number(0..=1 << 40)?),
    key!("fdatasync", "", job.fdatasync = |s| s.number(0..=1 << 40)?),
    key!("end_fsync", "", job.end_fsync = |s| s.switch()?),
    key!("rate", "", job.rate = |s| s.pair(&(0..=1 << 50))?),
    key!("rwmixread", "", mix = |s| s.number(0..=100)?),
    key!("rwmixwrite", "", mix = |s| 100 - s.number(0..=100)?),
    key!(
        "random_distribution",
        "",
        job.distribution = |s| distribution(s)?
    ),
    key!("fadvise_hint", "", job.hint = |s| hint(s)?),
    key!("norandommap", "", job.repeat = |s| s.switch()?),
    key!("runtime", "", job.runtime_ns = |s| s.time(SECOND)?),
    key!("time_based", "", job.time_based = |s| s.switch()?),
    key!("ramp_time", "", job.ramp_ns = |s| s.time(SECOND)?),
    key!("thinktime", "", job.think_ns = |s| s.time(1_000)?),
    key!("startdelay", "", job.delay_ns = |s| s.time(SECOND)?),
    key!("stonewall", "", job.stonewall = |s| s.switch()?),
    key!("name", "", job.name = |s| s.text()?.to_owned()),
    key!("directory", "", job.directory = |s| s.text()?.to_owned()),
    key!("filename", "", job.filename = |s| Some(one_file(s)?)),
    key!("ioengine", "", engine = |s| known_engine(s)?),
];

/// The old name of `runtime`, which error messages do not offer.
const OLDER: (&str, &str) = ("timeout", "runtime");

/// Returns the supported key with this name, alternative name or older name; `None` if there is
/// none.
fn key(name: &str) -> Option<&'static Key> {
    let name = if name == OLDER.0 { OLDER.1 } else { name };
    KEYS.iter().find(|Key(a, b, _)| *a == name || *b == name)
}

/// Lists the accepted keys, with their alternative names, for an error message.
fn accepted_keys() -> String {
    let named = KEYS.iter().map(|Key(name, other, _)| match *other {
        "" => (*name).to_owned(),
        other => format!("{name} ({other})"),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Makes a job from its section: `head` is the line with its name, `settings` the keys of it and of
/// the global sections. Returns the job, and a note for readers of the results if one is needed.
/// Keys without an effect are added to `indifferent`.
pub(super) fn job(
    head: &Setting,
    settings: &[Setting],
    indifferent: &mut Vec<String>,
) -> Result<(Job, Option<String>), FioError> {
    let mut given = Given {
        job: Job::named(&head.key),
        size: None,
        io_size: None,
        filesize: None,
        mixed: false,
        mix: 50,
        engine: "psync".to_owned(),
    };
    for s in settings {
        let ignored = INDIFFERENT.contains(&s.key.as_str());
        match key(&s.key) {
            Some(Key(.., set)) => set(&mut given, s)?,
            None if ignored => {}
            None => return Err(s.error("this key is not supported", accepted_keys())),
        }
        // The choice of engine matters only with direct=1.
        if (ignored || s.key == "ioengine") && !indifferent.contains(&s.key) {
            indifferent.push(s.key.clone());
        }
    }
    given.finish(head)
}

/// Applies `rw=`: whether the job reads, writes or does both, at random or sequential offsets.
fn direction(given: &mut Given, s: &Setting) -> Result<(), FioError> {
    let job = &mut given.job;
    (job.reads, job.random, given.mixed) = match s.text()? {
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
    Ok(())
}

/// Parses `fadvise_hint=`, the advice that a job gives on its file.
fn hint(s: &Setting) -> Result<Hint, FioError> {
    Ok(match s.text()? {
        "0" | "none" => Hint::None,
        "1" => Hint::Pattern,
        "random" => Hint::As(Advice::Random),
        "sequential" => Hint::As(Advice::Sequential),
        other => {
            return Err(s.error(
                format!("`{other}` is not a known kind of advice"),
                "0 (none), 1 (as rw= says, the default), random, sequential",
            ));
        }
    })
}

/// Parses `filename=`: one name; fio's list of several files is refused, and so are device files,
/// which the tested filesystem does not have.
fn one_file(s: &Setting) -> Result<String, FioError> {
    let text = s.text()?;
    if text.contains(':') {
        return Err(s.error("several files are not supported", "one file"));
    }
    if text.starts_with("/dev/") {
        return Err(s.error(
            "a device file, and jobs run on files of the tested filesystem",
            "no `filename`, or a file's path; with direct=1 it measures the disk",
        ));
    }
    Ok(text.to_owned())
}

/// Parses `ioengine=`: one of the synchronous or asynchronous engines.
fn known_engine(s: &Setting) -> Result<String, FioError> {
    let engine = s.text()?;
    if !SYNC_ENGINES.contains(&engine) && !ASYNC_ENGINES.contains(&engine) {
        return Err(s.error(
            format!("the engine `{engine}` is not supported"),
            [&SYNC_ENGINES[..], &ASYNC_ENGINES].concat().join(", "),
        ));
    }
    Ok(engine.to_owned())
}

/// Parses `random_distribution=`: uniform, Zipf with its exponent, or Pareto with its parameter.
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

impl Given {
    /// Completes the job with the values that depend on several keys, and checks that they are
    /// consistent. Returns the job, and a note if `iodepth` has no effect; errors point at `head`,
    /// the section's name.
    fn finish(self, head: &Setting) -> Result<(Job, Option<String>), FioError> {
        let mut job = self.job;
        if self.mixed {
            job.reads = self.mix;
        }
        // `region`: bytes of the file; `total`: bytes to move.
        let Some(region) = self.filesize.or(self.size) else {
            return Err(head.error("the job has no size", "size= or filesize= in its section"));
        };
        job.region = region;
        job.total = self.io_size.or(self.size).unwrap_or(region);
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
                "direct=1 with blocks that are not whole pages",
                "bs= in multiples of 4k",
            ));
        }
        if job.time_based && job.runtime_ns == 0 {
            return Err(head.error("time_based without a runtime", "runtime= beside it"));
        }
        if matches!(job.distribution, Distribution::Zipf(_)) && job.blocks() > MOST_RANKS {
            return Err(head.error(
                format!("zipf over {} blocks", job.blocks()),
                format!("up to {MOST_RANKS} blocks: a smaller file or larger blocks"),
            ));
        }
        let mut note = None;
        if job.depth > 1 && !(job.direct && ASYNC_ENGINES.contains(&self.engine.as_str())) {
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
}
