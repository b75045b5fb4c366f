//! Applies the keys of a section to a job.

use super::finish::Given;
use super::job::{Access, Amount, Blocks, ExitWhat, Hint, MOST_TASKS, Steady, Think};
use super::keys::{self, Answer};
use super::patterns::{direction, distribution, service, split};
use super::setting::{FioError, Setting};
use crate::host::Advice;
use crate::units;

/// The longest file, in bytes.
pub(super) const FILE: u64 = trace::MAX_FILE;
const SECOND: u64 = 1_000_000_000;
const MICROSECOND: u64 = 1_000;
/// The sizes that a request may have.
const REQUEST: std::ops::RangeInclusive<u64> = 1..=1 << 30;
/// The largest number of files of a process.
const MOST_FILES: u64 = 1 << 16;

/// Applies one setting to the job. A key without an effect here is added to `indifferent`.
///
/// # Errors
/// The key is refused, or its value does not fit.
pub(super) fn apply(
    given: &mut Given,
    s: &Setting,
    indifferent: &mut Vec<String>,
) -> Result<(), FioError> {
    let Some((row, name)) = keys::find(keys::KEYS, &s.key) else {
        let accepted = keys::named(keys::KEYS, Answer::Done);
        return Err(s.error("fio has no such key", accepted));
    };
    match row.answer {
        Answer::Done => {
            // The choice among engines of one kind matters only with direct=1.
            if name == "ioengine" && !indifferent.contains(&s.key) {
                indifferent.push(s.key.clone());
            }
            let done = sizes(given, s, name)?
                || files(given, s, name)?
                || order(given, s, name)?
                || calls(given, s, name)?
                || times(given, s, name)?
                || jobs(given, s, name)?;
            debug_assert!(done, "{name} is in the table as done");
        }
        Answer::NoEffect => {
            if !indifferent.contains(&s.key) {
                indifferent.push(s.key.clone());
            }
        }
        Answer::NotYet => {
            let what = format!("this key is not supported yet: {}", row.about);
            return Err(s.error(what, "the job without it"));
        }
        Answer::Elsewhere => {
            let what = format!("this key is not supported, as it belongs to {}", row.about);
            return Err(s.error(what, "the job without it"));
        }
    }
    Ok(())
}

/// Applies the keys that say how much is read and written, and where. Returns false for others.
fn sizes(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "bs" => job.blocks = s.pair(&REQUEST)?.map(Blocks::Fixed),
        "bsrange" => {
            let range = |text: &str| {
                let [least, most] = s.range(text, &REQUEST)?;
                Ok(Blocks::Range(least, most))
            };
            job.blocks = s.each(range)?;
        }
        "bssplit" => job.blocks = s.each(|text| split(s, text, &REQUEST))?,
        "bs_unaligned" => job.unaligned = s.switch()?,
        "bs_is_seq_rand" => job.by_order = s.switch()?,
        "ba" => job.align = s.pair(&(0..=1 << 30))?[0],
        "size" => given.size = Some(s.amount(1..=1 << 60)?),
        "io_size" => given.io_size = Some(s.amount(1..=1 << 60)?),
        "filesize" => given.filesize = Some(s.range(s.text()?, &(1..=FILE))?),
        "fill_device" => job.fill = s.switch()?,
        "offset" => given.offset = s.amount(0..=FILE)?,
        "offset_increment" => given.increment = s.amount(0..=FILE)?,
        "offset_align" => given.offset_align = s.number(0..=1 << 40)?,
        "number_ios" => job.requests = s.number(0..=1 << 60)?,
        "loops" => job.loops = s.number(1..=1 << 40)?,
        "zonemode" => given.strided = s.choice(&[("none", false), ("strided", true)])?,
        "zonesize" => given.zone[0] = s.number(0..=FILE)?,
        "zoneskip" => given.zone[1] = s.number(0..=FILE)?,
        "zonerange" => given.zone[2] = s.number(0..=FILE)?,
        "kb_base" => {
            s.choice(&[("1024", ()), ("1000", ())])?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies the keys that name files. Returns false for others.
fn files(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "name" => s.text()?.clone_into(&mut job.name),
        "directory" => job.directories = listed(s.text()?),
        "filename" => job.filenames = listed(s.text()?),
        "filename_format" => s.text()?.clone_into(&mut job.format),
        "nrfiles" => job.files = s.number(1..=MOST_FILES)?,
        "stat_type" => s.choice(&[("stat", ()), ("lstat", ())])?,
        "openfiles" => job.open_files = s.number(0..=MOST_FILES)?,
        "file_service_type" => job.service = service(s)?,
        "overwrite" => job.exist |= s.switch()?,
        "allow_file_create" => job.exist |= !s.switch()?,
        "pre_read" => job.pre_read = s.switch()?,
        "invalidate" => job.invalidate = s.switch()?,
        "unlink" => job.unlink = s.switch()?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Splits a list of files or folders at its colons; `\:` is a colon in a name.
fn listed(text: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            ':' if !escaped => names.push(std::mem::take(&mut name)),
            c => name.push(c),
        }
        escaped = false;
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

/// Applies the keys that say which offsets follow one another. Returns false for others.
fn order(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "rw" => direction(given, s)?,
        "rw_sequencer" => {
            job.identical = s.choice(&[("sequential", false), ("identical", true)])?
        }
        "rwmixread" => given.mix = s.number(0..=100)?,
        "rwmixwrite" => given.mix = 100 - s.number(0..=100)?,
        "percentage_random" => job.random_share = s.pair(&(0..=100))?,
        "random_distribution" => job.distribution = distribution(s)?,
        "norandommap" => job.repeat = s.switch()?,
        "fadvise_hint" => {
            job.hint = s.choice(&[
                ("0", Hint::None),
                ("none", Hint::None),
                ("1", Hint::Pattern),
                ("random", Hint::As(Advice::Random)),
                ("sequential", Hint::As(Advice::Sequential)),
            ])?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies the keys that say by which calls files are accessed. Returns false for others.
fn calls(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "ioengine" => {
            job.access = engine(s)?;
            s.text()?.clone_into(&mut given.engine);
        }
        "iodepth" => job.depth = s.number(1..=MOST_TASKS)?,
        "io_submit_mode" => given.offload = s.choice(&[("inline", false), ("offload", true)])?,
        "direct" => job.direct = s.switch()?,
        "buffered" => job.direct = !s.switch()?,
        "atomic" => job.direct |= s.switch()?,
        "sync" => {
            (job.sync, job.dsync) = s.choice(&[
                ("none", (false, false)),
                ("0", (false, false)),
                ("sync", (true, false)),
                ("1", (true, false)),
                ("dsync", (false, true)),
            ])?;
        }
        "fsync" => job.fsync = s.number(0..=1 << 40)?,
        "fdatasync" => job.fdatasync = s.number(0..=1 << 40)?,
        "end_fsync" => job.end_fsync = s.switch()?,
        "fsync_on_close" => job.fsync_on_close = s.switch()?,
        "verify" => given.verify = !matches!(s.text()?, "0" | "null"),
        "do_verify" => given.do_verify = s.switch()?,
        "verify_only" => given.verify_only = s.switch()?,
        "verify_backlog" => given.backlog = s.number(0..=1 << 40)?,
        "verify_backlog_batch" => given.batch = s.number(0..=1 << 40)?,
        "continue_on_error" => {
            let [neither, reads, writes, both] =
                [(false, false), (true, false), (false, true), (true, true)];
            (job.tolerant.reads, job.tolerant.writes) = s.choice(&[
                ("none", neither),
                ("read", reads),
                ("write", writes),
                ("io", both),
                ("verify", neither),
                ("all", both),
                ("0", neither),
                ("1", both),
            ])?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns how the engine that `ioengine=` names accesses files.
fn engine(s: &Setting) -> Result<Access, FioError> {
    let text = s.text()?;
    // `external:PATH` loads an engine from a file.
    let name = text.split(':').next().unwrap_or_default();
    let accepted = keys::named(keys::ENGINES, Answer::Done);
    let Some((row, _)) = keys::find(keys::ENGINES, name) else {
        return Err(s.error(format!("fio has no engine `{text}`"), accepted));
    };
    match row.answer {
        Answer::NotYet => {
            let what = format!("the engine `{text}` is not supported yet: {}", row.about);
            Err(s.error(what, accepted))
        }
        Answer::Elsewhere => {
            let what = format!("the engine `{text}` is not supported: {}", row.about);
            Err(s.error(what, accepted))
        }
        Answer::Done | Answer::NoEffect => Ok(match name {
            "libaio" => Access::Aio,
            "io_uring" => Access::Uring,
            "mmap" => Access::Mapped,
            "filecreate" => Access::Create,
            "filestat" => Access::Stat,
            "filedelete" => Access::Delete,
            "ftruncate" => Access::Truncate,
            _ => Access::Calls,
        }),
    }
}

/// Applies the keys of times and rates. Returns false for others.
fn times(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "runtime" => job.runtime_ns = s.time(SECOND)?,
        "time_based" => job.time_based = s.switch()?,
        "ramp_time" => job.ramp_ns = s.time(SECOND)?,
        "startdelay" => {
            let mut ends = s.text()?.split('-').map(|text| s.time_of(text, SECOND));
            let first = ends.next().unwrap_or(Ok(0))?;
            let second = ends.next().unwrap_or(Ok(first))?;
            job.delay_ns = [first.min(second), first.max(second)];
        }
        "rate" => job.rate = s.pair(&(0..=1 << 50))?,
        "rate_iops" => job.rate_iops = s.pair(&(0..=1 << 50))?,
        "rate_process" => job.poisson = s.choice(&[("linear", false), ("poisson", true)])?,
        "rate_ignore_thinktime" => job.rate_without_think = s.switch()?,
        "steadystate" => {
            let steady = steady(s, job.steady)?;
            job.steady = Some(steady);
        }
        "latency_target" => given.target.ns = s.time(MICROSECOND)?,
        "latency_window" => given.target.window_ns = s.time(MICROSECOND)?,
        "latency_percentile" => {
            let share = units::decimal(s.text()?, 3).filter(|n| (1..=100_000).contains(n));
            given.target.percentile = share.ok_or_else(|| {
                s.error(
                    "is no percentage",
                    "a number above 0, up to 100, with three decimals",
                )
            })?;
        }
        "latency_run" => given.target.goes_on = s.switch()?,
        "steadystate_duration" => given.steady_ns = s.time(SECOND)?,
        "steadystate_ramp_time" => given.steady_ramp_ns = s.time(SECOND)?,
        _ => return think(&mut job.think, s, name),
    }
    Ok(true)
}

/// Applies the keys of pauses. Returns false for others.
fn think(think: &mut Think, s: &Setting, name: &str) -> Result<bool, FioError> {
    match name {
        "thinktime" => think.ns = s.time(MICROSECOND)?,
        "thinktime_spin" => think.spin_ns = s.time(MICROSECOND)?,
        "thinktime_blocks" => think.blocks = s.number(1..=1 << 40)?,
        // A request that a task has issued is complete before the task issues another.
        "thinktime_blocks_type" => s.choice(&[("complete", ()), ("issue", ())])?,
        "thinktime_iotime" => think.iotime_ns = s.time(MICROSECOND)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Parses `steadystate=`: the figure and its limit.
fn steady(s: &Setting, known: Option<Steady>) -> Result<Steady, FioError> {
    let text = s.text()?;
    let bad = || {
        s.error(
            format!("`{text}` does not fit here"),
            "iops, bw, iops_slope or bw_slope, a colon, and a limit such as 0.3%",
        )
    };
    let (what, limit) = text.split_once(':').ok_or_else(bad)?;
    let (bytes, slope) = match what {
        "iops" => (false, false),
        "bw" => (true, false),
        "iops_slope" => (false, true),
        "bw_slope" => (true, true),
        _ => return Err(bad()),
    };
    let (number, percent) = match limit.strip_suffix('%') {
        Some(number) => (number, true),
        None => (limit, false),
    };
    let limit: f64 = number.trim().parse().map_err(|_| bad())?;
    if !(limit.is_finite() && limit >= 0.0) {
        return Err(bad());
    }
    Ok(Steady {
        bytes,
        slope,
        limit,
        percent,
        seconds: known.map_or(0, |k| k.seconds),
        ramp_ns: 0,
    })
}

/// Applies the keys that tie jobs together. Returns false for others.
fn jobs(given: &mut Given, s: &Setting, name: &str) -> Result<bool, FioError> {
    let job = &mut given.job;
    match name {
        "numjobs" => job.numjobs = s.number(1..=MOST_TASKS)?,
        "stonewall" => job.stonewall = s.switch()?,
        "new_group" => given.new_group = s.switch()?,
        "wait_for" => given.wait_for = Some(s.clone()),
        "exitall" => given.exitall = s.switch()?,
        "exit_what" => {
            given.exit_what = s.choice(&[
                ("group", ExitWhat::Group),
                ("stonewall", ExitWhat::Stonewall),
                ("all", ExitWhat::All),
            ])?;
        }
        "flow" => job.flow = s.number(0..=1 << 20)?,
        "flow_id" => job.flow_id = s.number(0..=1 << 32)?,
        "flow_sleep" => job.flow_sleep_ns = s.time(MICROSECOND)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The amount that stands for no bytes.
pub(super) const NOTHING: Amount = Amount::Bytes(0);
