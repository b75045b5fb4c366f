//! The folder itself: written aside, put in place at the end.

use super::{File, Format, formats};
use crate::model::Outcomes;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Why there is no results folder.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The place is taken by something that must not be replaced.
    #[error("`{}` exists and {what}; accepted: a new path, an empty folder, or an earlier results folder, which is replaced", path.display())]
    Foreign {
        /// The place.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The path has no last component to create a folder by.
    #[error("`{}` does not name a folder", path.display())]
    Unnamed {
        /// The path.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("can't write `{}`: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Looks whether results may be written to `dir`, before the time is spent to get them.
///
/// # Errors
/// Something is there that is neither an empty folder nor a results folder.
pub fn check_target(dir: &Path) -> Result<(), OutputError> {
    let foreign = |what| {
        Err(OutputError::Foreign {
            path: dir.into(),
            what,
        })
    };
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return match dir.components().next_back() {
                Some(Component::Normal(_)) => Ok(()),
                _ => Err(OutputError::Unnamed { path: dir.into() }),
            };
        }
        Err(source) => {
            return Err(OutputError::Io {
                path: dir.into(),
                source,
            });
        }
    };
    if !meta.is_dir() {
        return foreign("is not a folder");
    }
    if let Ok(text) = fs::read(dir.join("results.json")) {
        return match serde_json::from_slice::<Mark>(&text) {
            Ok(_) => Ok(()),
            Err(_) => foreign("has a results.json that is not ours"),
        };
    }
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => foreign("has no results.json of ours"),
        Err(source) => Err(OutputError::Io {
            path: dir.into(),
            source,
        }),
    }
}

/// What every `results.json` of ours has.
#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "lowmark")]
    _version: String,
}

/// Writes the results folder, and `extra` files into it: all of it, or nothing.
///
/// An earlier results folder at `dir` is replaced as a whole, with whatever else lies in it.
///
/// # Errors
/// The place is taken by something else, or a file could not be written; what was there before is
/// still there then.
pub fn write(dir: &Path, outcomes: &Outcomes, extra: &[File]) -> Result<(), OutputError> {
    write_formats(dir, outcomes, extra, &formats())
}

pub(super) fn write_formats(
    dir: &Path,
    outcomes: &Outcomes,
    extra: &[File],
    formats: &[&dyn Format],
) -> Result<(), OutputError> {
    replace(dir, |emit| {
        for format in formats {
            format.files(outcomes, emit)?;
        }
        extra.iter().try_for_each(|file| emit(file.clone()))
    })
}

/// Writes a folder of these files, one of which is a `results.json` with the key `lowmark`: all of
/// it, or nothing. An earlier results folder at `dir` is replaced.
///
/// # Errors
/// As [`write()`].
pub fn write_files(dir: &Path, files: &[File]) -> Result<(), OutputError> {
    replace(dir, |emit| {
        files.iter().try_for_each(|file| emit(file.clone()))
    })
}

/// Puts a folder with the files that `fill` passes on in the place of `dir`.
fn replace(
    dir: &Path,
    fill: impl FnOnce(&mut dyn FnMut(File) -> io::Result<()>) -> io::Result<()>,
) -> Result<(), OutputError> {
    check_target(dir)?;
    // Through symbolic links and `..`, so that what is renamed is the folder itself.
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let error = |path: &Path, source| OutputError::Io {
        path: path.into(),
        source,
    };
    let name = dir
        .file_name()
        .ok_or_else(|| OutputError::Unnamed { path: dir.clone() })?;
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|e| error(parent, e))?;
    let sibling = |kind: &str| {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{kind}-{}", std::process::id()));
        parent.join(hidden)
    };
    let fresh = Scratch(sibling("new"));
    fs::create_dir(&fresh.0).map_err(|e| error(&fresh.0, e))?;
    let mut failed = fresh.0.clone();
    fill(&mut |file| {
        failed = fresh.0.join(&file.path);
        put(&fresh.0, &file)
    })
    .map_err(|e| error(&failed, e))?;
    if !dir.exists() {
        return fs::rename(&fresh.0, &dir).map_err(|e| error(&dir, e));
    }
    let old = sibling("old");
    fs::rename(&dir, &old).map_err(|e| error(&dir, e))?;
    if let Err(e) = fs::rename(&fresh.0, &dir) {
        let _ = fs::rename(&old, &dir);
        return Err(error(&dir, e));
    }
    // The new results are in place; an old folder that can't be removed is no reason to fail.
    let _ = fs::remove_dir_all(&old);
    Ok(())
}

fn put(dir: &Path, file: &File) -> io::Result<()> {
    let inside = Path::new(&file.path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !inside {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a path inside the folder",
        ));
    }
    let path = dir.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.bytes)
}

/// A folder that goes away unless it was renamed.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
