//! fio job files as workloads.
//!
//! [`parse`] reads a job file: `[global]` sections, which may repeat, and one section per job. Each
//! of a job's `numjobs` is a process. [`keys`] lists every key of fio with the answer that it gets;
//! [`arguments`] makes a job file of a command line of fio.
//!
//! As in fio: random offsets hit every block once in a pass (`norandommap` and the other
//! distributions do not), and are the same in every run. A job ends when it has moved `size` bytes
//! (`io_size`, if given) or after `runtime`; with `time_based` only after `runtime`. Calls in
//! `ramp_time` are made but not measured; counters of the engine include them. Random jobs advise
//! the kernel of random access to each file that they open, which disables readahead, and
//! sequential jobs of sequential access, which doubles its windows (`fadvise_hint`,
//! posix_fadvise(2)).
//!
//! Unlike in fio: a device is a file of the tested filesystem; files of jobs that read or write at
//! random exist beforehand, files of sequential writers are new; contents are not compared.

mod finish;
mod job;
pub mod keys;
mod order;
mod pace;
mod patterns;
mod requests;
mod section;
mod setting;
mod syntax;
mod worker;

pub use job::{Access, Distribution, Hint, Job, MOST_TASKS};
pub use setting::FioError;
pub use syntax::{Alone, Surroundings, arguments};
pub use worker::Worker;

use finish::Given;
use syntax::Sections;

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobs {
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// Notes for readers of the results, one sentence each.
    pub notes: Vec<String>,
    /// The text of the job file, with its variables and included files in their places.
    pub text: String,
}

/// Reads the text of a fio job file that needs no variables and includes no files, as [`read`]
/// does.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Jobs, FioError> {
    read(text, &Alone)
}

/// Reads the text of a fio job file: its jobs in order, each with the keys of the global sections
/// before it, and notes on keys without an effect.
///
/// # Errors
/// The file is one that fio would refuse, has refused keys, or a job that can't be run here; one
/// error tells all of them.
pub fn read(text: &str, around: &dyn Surroundings) -> Result<Jobs, FioError> {
    let mut sections = Sections::read(text, around);
    let mut errors = std::mem::take(&mut sections.errors);
    if sections.jobs.is_empty() && errors.is_empty() {
        return Err(FioError {
            span: 0..0,
            line: 1,
            message: "the file has no job".into(),
            accepted: "a section [NAME] with keys such as rw=randread".into(),
        });
    }
    // Keys of lines that can't be read are missing in their jobs.
    let unread = !errors.is_empty();
    let mut jobs: Vec<Job> = Vec::new();
    let mut indifferent: Vec<String> = Vec::new();
    let mut notes = Vec::new();
    for (head, settings) in &sections.jobs {
        let mut given = Given::named(&head.key);
        let known = errors.len();
        // As in fio, this key is read before all others.
        let base = settings.iter().rev().find(|s| s.key == "kb_base");
        let base = base.map_or(1024, |s| {
            if s.value.as_deref() == Some("1000") {
                1000
            } else {
                1024
            }
        });
        for s in settings {
            let mut s = s.clone();
            s.base = base;
            errors.extend(section::apply(&mut given, &s, &mut indifferent).err());
        }
        if unread || errors.len() > known {
            continue;
        }
        match given.finish(head, &jobs, &mut notes) {
            Ok(job) => jobs.push(job),
            Err(e) => errors.push(e),
        }
        let tasks: u64 = jobs
            .iter()
            .map(|j: &Job| j.numjobs.saturating_mul(j.depth))
            .sum();
        if tasks > MOST_TASKS {
            errors.push(head.error(
                format!("the jobs so far have {tasks} requests in flight"),
                format!("at most {MOST_TASKS} of numjobs times iodepth over all jobs"),
            ));
            break;
        }
    }
    if let Some(e) = FioError::joined(errors) {
        return Err(e);
    }
    if !indifferent.is_empty() {
        let list = indifferent.join(", ");
        notes.push(format!(
            "keys of the job file that have no effect in the simulation: {list}"
        ));
    }
    let text = match sections.expanded {
        true => sections.text(),
        false => text.to_owned(),
    };
    Ok(Jobs { jobs, notes, text })
}

#[cfg(test)]
mod tests;
