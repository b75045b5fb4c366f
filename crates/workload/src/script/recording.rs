//! Converts a recorded trace to a script.

use super::{Process, Script, Source, Step};
use crate::program::ExistingFile;
use crate::programs::Command;
use crate::recorded::{Lane, Replay, path_of};
use std::sync::Arc;

impl Replay {
    /// Returns the script that replays the trace: a background process for each lane, and a wait
    /// for all of them. Files that the trace found existing exist beforehand.
    pub fn script(self) -> Script {
        let replay = Arc::new(self);
        let lane = |lane| {
            Step::Background(Process {
                commands: vec![Command::Replay(Lane::new(&replay, lane))],
            })
        };
        let mut steps: Vec<Step> = (0..replay.lanes()).map(lane).collect();
        steps.push(Step::Wait);
        let files = (0..)
            .zip(&replay.survey.files)
            .filter(|(_, f)| f.existed)
            .map(|(id, f)| ExistingFile {
                path: path_of(id),
                len: f.reach,
            })
            .collect();
        Script {
            steps,
            files,
            notes: replay.notes(),
            source: Source::Trace(replay),
            ..Script::default()
        }
    }
}
