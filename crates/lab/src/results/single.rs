//! Writes a single file for a command: beside its place, and renamed when it is complete.

use super::place::{OutputError, sync_dir};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that is being written. If dropped before its end, it leaves the old file and nothing
/// else.
pub struct Single {
    shown: PathBuf,
    path: PathBuf,
    replace: bool,
    to: To,
}

enum To {
    /// A temporary file beside the place, locked to show that its process is alive.
    Beside(BufWriter<tempfile::NamedTempFile>),
    /// A pipe or device, which is written directly.
    Itself(BufWriter<fs::File>),
}

/// Returns a function that turns an error of the system about `path` into the error that the place
/// can't be written.
fn unusable(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_owned();
    move |source| OutputError::Unusable { path, source }
}

impl Single {
    /// Begins to write a file at the path `given`. `replace` is true if an existing file may be
    /// replaced, and `ours` tells whether a file that is there was written by this command.
    ///
    /// # Errors
    /// Fails if a file is there and `replace` is false or `ours` refuses it, or if the place can't
    /// be written.
    pub fn create(
        given: &Path,
        replace: bool,
        ours: impl FnOnce(&Path) -> io::Result<bool>,
    ) -> Result<Self, OutputError> {
        let foreign = |what: &str, accepted| OutputError::Foreign {
            path: given.into(),
            what: what.into(),
            accepted,
        };
        let path = match fs::metadata(given) {
            Ok(meta) => {
                let kind = meta.file_type();
                if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
                    let file = opened(given).map_err(unusable(given))?;
                    return Ok(Self {
                        shown: given.into(),
                        path: given.into(),
                        replace,
                        to: To::Itself(BufWriter::new(file)),
                    });
                }
                if !kind.is_file() {
                    return Err(foreign("is not a file", "a new file"));
                }
                if !ours(given).map_err(unusable(given))? {
                    return Err(foreign(
                        "exists and was not written by this command",
                        "a new file, or with `--replace` one that this command wrote",
                    ));
                }
                if !replace {
                    return Err(foreign("exists", "a new file, or `--replace`"));
                }
                fs::canonicalize(given).map_err(unusable(given))?
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(given).is_ok() {
                    return Err(foreign("is a dangling link", "a new file"));
                }
                given.to_owned()
            }
            Err(e) => return Err(unusable(given)(e)),
        };
        let Some(name) = path.file_name() else {
            return Err(OutputError::Unnamed { path: given.into() });
        };
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".lowmark-file-");
        clear(above(&path), &prefix);
        let beside = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(8)
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(above(&path))
            .map_err(unusable(given))?;
        let _ = beside.as_file().try_lock();
        Ok(Self {
            shown: given.into(),
            path,
            replace,
            to: To::Beside(BufWriter::with_capacity(1 << 16, beside)),
        })
    }

    /// Ends the file: flushes it and renames it to its place.
    ///
    /// # Errors
    /// Returns the error of the system. A file that was created there meanwhile stays, unless it
    /// was to be replaced.
    pub fn finish(self) -> Result<(), OutputError> {
        let path = self.shown;
        let io = |source| OutputError::Io {
            path: path.clone(),
            source,
        };
        match self.to {
            To::Itself(file) => {
                file.into_inner().map_err(|e| io(e.into_error()))?;
            }
            To::Beside(file) => {
                let file = file.into_inner().map_err(|e| io(e.into_error()))?;
                file.as_file().sync_all().map_err(io)?;
                if self.replace {
                    file.persist(&self.path).map_err(|e| io(e.error))?;
                } else {
                    file.persist_noclobber(&self.path)
                        .map_err(|e| io(e.error))?;
                }
                sync_dir(above(&self.path)).map_err(io)?;
            }
        }
        Ok(())
    }
}

impl Write for Single {
    /// Writes bytes to the temporary file beside the place, or to the pipe or device itself.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Beside(file) => file.write(bytes),
            To::Itself(file) => file.write(bytes),
        }
    }

    /// Passes buffered bytes on to the file; they are put in place by `finish`.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Beside(file) => file.flush(),
            To::Itself(file) => file.flush(),
        }
    }
}

/// Opens a pipe or device for writing, without waiting for a program that reads it.
///
/// # Errors
/// It can't be opened, or is a pipe that no program reads.
fn opened(path: &Path) -> io::Result<fs::File> {
    let nonblock = OFlags::NONBLOCK;
    let mut options = fs::OpenOptions::new();
    options.write(true).custom_flags(nonblock.bits() as i32);
    let file = options.open(path).map_err(|e| {
        // Linux's answer for a pipe without a reader (fifo(7)).
        let unread = e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
        match unread && fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
            true => io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a named pipe that no program reads; accepted: a new file, or a pipe with a reader",
            ),
            false => e,
        }
    })?;
    // Writes wait for the reader.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - nonblock)?;
    Ok(file)
}

/// Returns the folder of a path; `.` for a bare name.
fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes temporary files that killed processes left in the folder `parent`: those whose names
/// begin with `prefix` and that no process has locked.
fn clear(parent: &Path, prefix: &std::ffi::OsStr) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.len() == prefix.len() + 8
            && name.as_bytes().starts_with(prefix.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file());
        if ours
            && let Ok(file) = input::file(&entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &Path, replace: bool) -> Result<Single, OutputError> {
        Single::create(path, replace, |_| Ok(true))
    }

    fn names(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        let mut file = begin(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(dir.path()), 0);
        let mut file = begin(&path, false).unwrap();
        file.write_all(b"whole").unwrap();
        file.finish().unwrap();
        let error = begin(&path, false).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`--replace`"), "{error}");
        let anothers = Single::create(&path, true, |_| Ok(false)).map(|_| ());
        assert!(
            anothers
                .unwrap_err()
                .to_string()
                .contains("not written by this command")
        );
        let mut file = begin(&path, true).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(dir.path()), 1);
        assert!(begin(dir.path(), true).is_err());
    }

    #[test]
    fn a_file_that_comes_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        let file = begin(&path, false).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(matches!(file.finish(), Err(OutputError::Io { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(names(dir.path()), 1);
    }

    #[test]
    fn what_killed_processes_left_goes_and_what_others_write_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(dir.path().join(".t.csv.lowmark-file-aB3dE6gH"), "half").unwrap();
        let one = begin(&path, false).unwrap();
        assert_eq!(names(dir.path()), 1);
        let two = begin(&path, false).unwrap();
        assert_eq!(names(dir.path()), 2);
        drop((one, two));
        assert_eq!(names(dir.path()), 0);
    }

    #[test]
    fn a_device_stays_one_and_a_link_leads_to_its_file() {
        use std::os::unix::fs::symlink;
        let mut null = begin(Path::new("/dev/null"), false).unwrap();
        null.write_all(b"gone").unwrap();
        null.finish().unwrap();
        assert!(
            fs::symlink_metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink("file", &link).unwrap();
        assert!(begin(&link, true).is_err());
        fs::write(&file, "old").unwrap();
        let mut to = begin(&link, true).unwrap();
        to.write_all(b"new").unwrap();
        to.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }
}
