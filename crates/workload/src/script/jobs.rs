//! Converts a fio job file to a script.

use super::{Process, Script, Source, Step};
use crate::fio::{Access, Jobs, Worker};
use crate::program::ExistingFile;
use crate::programs::Command;
use crate::recorded::Timing;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Script {
    /// Returns the names of the figures by which runs of a fio job file or of a trace are compared,
    /// the deciding one first: rates before latencies of what it does, and the time that it takes
    /// unless the file says how long it runs. Empty for command lines.
    pub fn figures(&self) -> Vec<&'static str> {
        let fast = match &self.source {
            Source::Fio(_) => false,
            Source::Trace(replay) => replay.timing == Timing::Fast,
            Source::Line | Source::Foreign(_) => return Vec::new(),
        };
        let (mut reads, mut writes, mut syncs, mut ends) = (false, false, false, fast);
        let mut hits = false;
        for command in self.commands() {
            match command {
                Command::Fio(worker) => {
                    let job = worker.job();
                    reads |= job.reads();
                    writes |= job.writes();
                    syncs |= job.fsync > 0 || job.fdatasync > 0 || job.end_fsync;
                    ends |= !job.time_based;
                }
                Command::Replay(_) => hits = true,
                _ => {}
            }
        }
        let wanted = [
            (ends && fast, "elapsed"),
            (hits, "hit_ratio"),
            (reads, "read_rate"),
            (writes, "write_rate"),
            (reads || hits, "read_latency_p99"),
            (writes, "write_latency_p99"),
            (syncs, "sync_latency_p99"),
            (ends && !fast, "elapsed"),
        ];
        let named = wanted.into_iter().filter(|(wanted, _)| *wanted);
        named.map(|(_, name)| name).collect()
    }
}

impl Jobs {
    /// Returns the script that runs the jobs: a background step for each worker (`numjobs` times
    /// the job's depth), and a wait before each job with `stonewall` and at the end. Files of jobs
    /// that read, or write at random, exist beforehand, as long as the largest region in them.
    pub fn script(self) -> Script {
        let mut script = Script {
            notes: self.notes,
            source: Source::Fio(self.text),
            ..Script::default()
        };
        let mut processes = 0;
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        for job in self.jobs {
            if job.stonewall && !script.steps.is_empty() {
                script.steps.push(Step::Wait);
            }
            let job = Arc::new(job);
            for nth in 0..job.numjobs as u32 {
                for file in (0..job.files).filter(|_| job.finds_files() && !job.inherits) {
                    let path = job.path(nth, file);
                    if path.starts_with("/dev/") {
                        continue;
                    }
                    let end = job.start(nth) + job.region;
                    let end = match job.direct || job.access == Access::Mapped {
                        true => end.next_multiple_of(4096),
                        false => end,
                    };
                    let len = files.entry(path).or_insert(0);
                    *len = end.max(*len);
                }
                for slot in 0..job.depth {
                    let worker = Worker::new(&job, nth, processes, slot);
                    script.steps.push(Step::Background(Process {
                        commands: vec![Command::Fio(worker)],
                    }));
                }
                processes += 1;
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
