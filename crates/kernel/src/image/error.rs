//! Errors of making images.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A request is wrong or lacks a prerequisite; `accepted` says which input would be accepted.
    #[error("{what}")]
    Input {
        /// The problem.
        what: String,
        /// The input that would be accepted.
        accepted: String,
    },
    /// The disk for images is full.
    #[error("no space left for {path}", path = .0.display())]
    Full(PathBuf),
    /// The system refused an operation.
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        /// The action that failed, such as "can't read".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ImageError {
    /// Returns the line that follows the error, with the input that would be accepted; `None` if
    /// there is none.
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

    /// Builds the error for a wrong request: `what` is the problem, `accepted` the input that would
    /// be accepted.
    pub(super) fn input(what: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self::Input {
            what: what.into(),
            accepted: accepted.into(),
        }
    }

    /// Wraps a system error of an action (`doing`, such as "can't read") on a path; a full disk or
    /// an exceeded quota becomes [`ImageError::Full`].
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
