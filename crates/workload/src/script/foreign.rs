//! A user's own program as a script.

use super::{Script, Source};
use std::path::PathBuf;
use std::sync::Arc;

/// A user's own program and the folder that is its root. It can't be modelled, so only a real
/// kernel runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The command line, for `/bin/sh -c` in the folder.
    pub run: String,
    /// The folder, with everything that the program needs.
    pub root: PathBuf,
    /// A digest of the folder's contents, in hexadecimal digits.
    pub digest: String,
}

impl Foreign {
    /// Returns the script that runs the program. It has no steps: the real kernel's shell runs the
    /// command line.
    pub fn script(self) -> Script {
        Script {
            line: self.run.clone(),
            source: Source::Foreign(Arc::new(self)),
            notes: vec![
                "user programs compute in zero time: only their calls of the kernel take time"
                    .to_owned(),
            ],
            ..Script::default()
        }
    }
}
