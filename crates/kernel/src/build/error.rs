//! Why a kernel could not be built, found or removed.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no kernel.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Something that was asked for is not to be had, or is wrong. The second text says what would be
    /// accepted.
    #[error("{what}")]
    Input {
        /// What is wrong, and where.
        what: String,
        /// What would be accepted.
        accepted: String,
    },
    /// The disk that kernels are kept on is full.
    #[error("no space left while {doing}: {path}", path = path.display())]
    Full {
        /// What was under way.
        doing: String,
        /// The folder that is kept kernels' own.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        /// What was under way: "can't read".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The compiler or the kernel's makefiles gave up.
    #[error("{what}")]
    Failed {
        /// What failed, with the log's last lines.
        what: String,
        /// Where the whole log is.
        log: PathBuf,
    },
    /// The user stopped it.
    #[error("stopped; the same command goes on where it was")]
    Stopped,
}

impl BuildError {
    /// What would be accepted, or what to look at.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Input { accepted, .. } => Some(format!("accepted: {accepted}")),
            Self::Full { .. } => Some(
                "accepted: 3 GB of free space for a first build, 0.3 GB for more of the same source \
                 (`lowmark kernel list` says what is kept, `lowmark kernel remove NAME` frees it), or \
                 another folder in the environment variable LOWMARK_CACHE"
                    .into(),
            ),
            Self::Failed { log, .. } => Some(format!("the whole log: {}", log.display())),
            Self::Io { .. } | Self::Stopped => None,
        }
    }

    pub(super) fn input(what: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self::Input {
            what: what.into(),
            accepted: accepted.into(),
        }
    }

    /// The system's refusal; a full disk gets words of its own.
    pub(super) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
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
