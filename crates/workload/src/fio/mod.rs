//! fio job files as workloads.
//!
//! [`parse`] reads a job file: `[global]` sections, which may repeat, and one section per job. Each
//! of a job's `numjobs` is a process. Numbers have fio's suffixes (K, M, G, T are powers of 1024
//! and with an `i` powers of 1000, which is fio's odd default), times `us ms s m h d`.
//!
//! As in fio: random offsets hit every block once in a pass (`norandommap` and the other
//! distributions do not), and are the same in every run. A job ends when it has moved `size` bytes
//! (`io_size`, if given) or after `runtime`; with `time_based` only after `runtime`. Calls in
//! `ramp_time` are made but not measured; counters of the engine include them. Random jobs advise
//! the kernel of random access to each file that they open, which disables readahead, and
//! sequential jobs of sequential access, which doubles its windows (`fadvise_hint`,
//! posix_fadvise(2)).
//!
//! Unlike in fio: a job has more than one request in flight only with `direct=1` and an
//! asynchronous engine, which is how Linux treats libaio; files of jobs that read or write at
//! random exist beforehand, files of sequential writers are new.

mod job;
mod section;
mod setting;
mod worker;

pub use job::{Distribution, Hint, Job, MOST_TASKS};
pub use setting::FioError;
pub use worker::Worker;

use setting::Setting;

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobs {
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// Notes for readers of the results, one sentence each.
    pub notes: Vec<String>,
    /// The text of the job file.
    pub text: String,
}

/// Reads the text of a fio job file: its jobs in order, each with the keys of the global sections
/// before it, and notes on keys without an effect.
///
/// # Errors
/// The file is one that fio would refuse, has an unsupported key, or a job that can't be run here.
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
        // The line's range of bytes in the file, for errors.
        let span = from..from + line.len();
        let mut setting = Setting {
            key: line.to_owned(),
            value: None,
            span,
            line: number + 1,
        };
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|n| !n.trim().is_empty()) else {
                return Err(setting.error("is not a section", "[global] or [NAME]"));
            };
            name.trim().clone_into(&mut setting.key);
            in_global = Some(setting.key == "global");
            if setting.key != "global" {
                // A job inherits from the global sections before it.
                sections.push((setting, global.clone()));
            }
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            setting.key = key.trim().to_owned();
            setting.value = Some(value.trim().to_owned());
        }
        if setting.value.as_deref().unwrap_or(line).contains("${") {
            return Err(setting.error("variables are not expanded", "a value without variables"));
        }
        match (in_global, sections.last_mut()) {
            (Some(true), _) => global.push(setting),
            (Some(false), Some((_, settings))) => settings.push(setting),
            _ => return Err(setting.error("comes before the first section", "[global] or [NAME]")),
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
        let (job, note) = section::job(head, settings, &mut indifferent)?;
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
            "keys of the job file that have no effect in the simulation: {list}"
        ));
    }
    let text = text.to_owned();
    Ok(Jobs { jobs, notes, text })
}

#[cfg(test)]
mod tests;
