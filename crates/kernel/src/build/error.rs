//! Errors of building, finding and removing kernels.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why there is no kernel.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A request is wrong or can't be met; `accepted` says which input would be accepted.
    #[error("{what}")]
    Input {
        /// The problem and its place.
        what: String,
        /// The input that would be accepted.
        accepted: String,
    },
    /// The disk that holds the cache is full.
    #[error("no space left while {doing}: {path}", path = path.display())]
    Full {
        /// The action that failed.
        doing: String,
        /// The cache's folder.
        path: PathBuf,
    },
    /// The system refused an operation.
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        /// The action that failed, such as "can't read".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The compiler or the kernel's makefiles failed.
    #[error("{what}")]
    Failed {
        /// The failed action, with the last lines of the log.
        what: String,
        /// The path of the whole log.
        log: PathBuf,
    },
    /// The user stopped the build.
    #[error("stopped; the same command continues the build")]
    Stopped,
}

impl BuildError {
    /// Returns the line that follows the error: the accepted input, or the place to look at next;
    /// `None` if there is nothing to add.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Input { accepted, .. } => Some(format!("accepted: {accepted}")),
            Self::Full { .. } => Some(
                "accepted: 3 GB of free space for a first build, 0.3 GB for more of the same source \
                 (`lowmark kernel list` lists the stored kernels, `lowmark kernel remove NAME` removes one), or \
                 another folder in the environment variable LOWMARK_CACHE"
                    .into(),
            ),
            Self::Failed { log, .. } => Some(format!("the whole log: {}", log.display())),
            Self::Io { .. } | Self::Stopped => None,
        }
    }

    /// Builds the error for a wrong request: `what` is the problem, `accepted` the input that would
    /// be accepted.
    pub(crate) fn input(what: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self::Input {
            what: what.into(),
            accepted: accepted.into(),
        }
    }

    /// Wraps a system error of an action (`doing`, such as "can't read") on a path; a full disk or
    /// an exceeded quota becomes [`BuildError::Full`].
    pub(crate) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let path = path.to_owned();
        if matches!(source.kind(), StorageFull | QuotaExceeded) {
            let doing = "writing".into();
            return Self::Full { doing, path };
        }
        Self::Io {
            doing,
            path,
            source,
        }
    }
}
