//! Paths of programs, and errors of calls on them.

use rustix::io::Errno;
use std::borrow::Cow;
use std::io;
use workload::{HostError, HostResult};

/// Returns a program's path relative to the root of the tested filesystem: no slash at either end,
/// `.` for the root.
///
/// # Errors
/// The path contains `..`.
pub(super) fn relative(path: &str) -> HostResult<Cow<'_, str>> {
    if path.split('/').any(|name| name == "..") {
        let what = format!("{path}: a path with `..`");
        return Err(HostError::Unsupported(what));
    }
    let plain = path.trim_matches('/');
    Ok(Cow::Borrowed(if plain.is_empty() { "." } else { plain }))
}

/// Converts the error of a failed system call on `path` into the error that a program of the
/// workload sees.
pub(super) fn error(path: &str, error: impl Into<io::Error>) -> HostError {
    let error = error.into();
    let path = path.to_owned();
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => HostError::NotFound(path),
        Some(Errno::EXIST | Errno::NOTEMPTY) => HostError::Exists(path),
        Some(Errno::NOSPC | Errno::DQUOT) => HostError::NoSpace(path),
        Some(Errno::NOMEM) => HostError::OutOfMemory,
        Some(Errno::IO) => HostError::Io(path),
        // A filesystem becomes read-only after an error.
        Some(Errno::ROFS) => HostError::Io(format!("{path} (read-only by now)")),
        _ => HostError::Unsupported(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for (path, plain) in [("a/b", "a/b"), ("/a/", "a"), ("/", "."), (".", ".")] {
            assert_eq!(relative(path).unwrap(), plain);
        }
        assert!(relative("a/../../etc").is_err());
        assert!(relative("a..b").is_ok());
    }
}
