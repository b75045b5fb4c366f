//! Converts a fio job file to a script.

use super::{Process, Script, Source, Step};
use crate::fio::{Jobs, Worker};
use crate::program::ExistingFile;
use crate::programs::Command;
use std::collections::BTreeMap;
use std::sync::Arc;

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
                if job.finds_files() {
                    let len = files.entry(job.path(nth)).or_insert(0);
                    *len = job.region.max(*len);
                }
                for _ in 0..job.depth {
                    let worker = Worker::new(&job, nth, processes);
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
