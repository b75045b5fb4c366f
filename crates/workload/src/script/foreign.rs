//! A program that is none of ours, as a script.

use super::{Script, Source};
use std::path::PathBuf;
use std::sync::Arc;

/// A program of the user's, with the folder that is its root. Nothing here can imitate it, so only a real
/// kernel runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The command line, for `/bin/sh -c` of the folder.
    pub run: String,
    /// The folder, with all that the program needs.
    pub root: PathBuf,
    /// What tells the folder's contents from others, in hexadecimal digits.
    pub digest: String,
}

impl Foreign {
    /// The script that runs it, without steps of its own.
    pub fn script(self) -> Script {
        Script {
            line: self.run.clone(),
            source: Source::Foreign(Arc::new(self)),
            notes: vec![
                "programs of the user's compute in no time: only what they ask of the kernel takes any"
                    .to_owned(),
            ],
            ..Script::default()
        }
    }
}
