//! Why an image could not be made.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// What was asked for is wrong or needs something first. The second text says what would be accepted.
    #[error("{what}")]
    Input {
        /// What is wrong.
        what: String,
        /// What would be accepted.
        accepted: String,
    },
    /// The disk for images is full.
    #[error("no space left for {path}", path = .0.display())]
    Full(PathBuf),
    /// The system refused something.
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        /// What was under way: "can't read".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
}

impl ImageError {
    /// What would be accepted.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Input { accepted, .. } => Some(format!("accepted: {accepted}")),
            Self::Full(path) => {
                let folder = path.parent().unwrap_or(path).display();
                Some(format!("accepted: more free space in {folder}"))
            }
            Self::Io { .. } => None,
        }
    }

    pub(super) fn input(what: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self::Input {
            what: what.into(),
            accepted: accepted.into(),
        }
    }

    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let path = path.to_owned();
        if matches!(source.kind(), StorageFull | QuotaExceeded) {
            return Self::Full(path);
        }
        Self::Io {
            doing,
            path,
            source,
        }
    }
}
