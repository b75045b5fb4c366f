//! Cleans up files that killed processes left beside a results folder.

use super::super::log::{self, LOG};
use super::super::manifest::{self, Contents, Manifest};
use super::publish::is_partial;
use super::{ClaimedFolder, PARTIAL, Terms, with};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Hidden folders found beside a place.
#[derive(Default)]
struct Leftovers {
    new: Vec<PathBuf>,
    old: Vec<PathBuf>,
}

/// Returns the name of the place that a hidden folder was made for, and true if the folder holds
/// replaced results, false for new ones. `None` if the name is not that of such a folder.
fn owner(hidden: &OsStr) -> Option<(&OsStr, bool)> {
    let bytes = hidden.as_bytes().strip_prefix(b".")?;
    for (mark, old) in [(&b".lowmark-new-"[..], false), (b".lowmark-old-", true)] {
        // Eight random characters follow the mark.
        let at = bytes.len().checked_sub(mark.len() + 8)?;
        if bytes[at..].starts_with(mark) && at > 0 {
            return Some((OsStr::from_bytes(&bytes[..at]), old));
        }
    }
    None
}

/// Returns the hidden folders in `parent` that were made for the place `name`, new and replaced
/// results apart, each sorted.
fn leftovers(parent: &Path, name: &OsStr) -> io::Result<Leftovers> {
    let mut found = Leftovers::default();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let hidden = entry.file_name();
        if let Some((of, old)) = owner(&hidden)
            && of == name
            && entry.file_type()?.is_dir()
        {
            let list = if old { &mut found.old } else { &mut found.new };
            list.push(entry.path());
        }
    }
    found.new.sort();
    found.old.sort();
    Ok(found)
}

impl ClaimedFolder {
    /// Finishes what an ended process of this place left half done: puts results that it had
    /// written in place if there are none, brings replaced ones back, and removes unfinished ones.
    ///
    /// The lock is held, so no other process works on the place.
    pub(super) fn recover(&mut self) -> io::Result<()> {
        let found = leftovers(&self.parent, &self.name)?;
        // True if nothing is at the place; `complete`: true for a folder of whole results.
        let absent = |place: &Self| {
            let metadata = fs::symlink_metadata(&place.dir);
            metadata.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        };
        let complete = |path: &PathBuf| {
            let contents = manifest::inspect(path);
            matches!(contents, Ok(Contents::Ours(m)) if m.complete)
        };
        for candidate in found.new.iter().chain(&found.old) {
            if absent(self) && complete(candidate) {
                if found.new.contains(candidate) {
                    self.say_published(candidate)?;
                }
                fs::rename(candidate, &self.dir)?;
                self.notes.push(format!(
                    "finished results of an earlier, interrupted lowmark were put in place: `{}`",
                    self.shown.display()
                ));
            }
        }
        for path in found.new.iter().chain(&found.old) {
            if fs::symlink_metadata(path).is_err() {
                continue;
            }
            // Without a complete list the folder was unfinished, and only its own process knew of
            // it.
            if found.new.contains(path) && Manifest::read(path)?.is_none() {
                fs::remove_dir_all(path)?;
            } else {
                let note = self.discard(path);
                self.notes.extend(note);
            }
        }
        Ok(())
    }

    /// Records in the log that these complete results are about to be put in place, if the process
    /// ended before it could. An existing record stays: results beside it have been replaced.
    fn say_published(&mut self, results: &Path) -> io::Result<()> {
        if self.kept.published.is_none() {
            let (_, sum) = manifest::digest(input::file(&results.join(manifest::MANIFEST))?)?;
            self.log.publishes(&sum)?;
            self.kept.published = Some(sum);
        }
        Ok(())
    }
}

/// Cleans up what ended processes left of any place in a folder, unless there are finished
/// iterations. Returns sentences for the user that report it. Places that are in use are left
/// alone.
pub fn sweep(parent: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut names: Vec<OsString> = Vec::new();
    for entry in entries.flatten() {
        let found = entry.file_name();
        if let Some((name, _)) = owner(&found) {
            names.push(name.to_owned());
        } else if is_partial(&found) && is_empty_log(&entry.path()) {
            let stem = &found.as_bytes()[..found.len() - PARTIAL.len()];
            names.push(OsStr::from_bytes(stem).to_owned());
        }
    }
    names.sort();
    names.dedup();
    let mut notes = Vec::new();
    for name in names {
        // Claiming a place cleans it up, and dropping the claim leaves nothing new behind.
        let terms = Terms {
            kind: manifest::Kind::Run,
            title: "",
            replace: false,
        };
        let has_partial = fs::symlink_metadata(parent.join(with(&name, PARTIAL))).is_ok();
        let way = if has_partial {
            super::Way::Resumed
        } else {
            super::Way::Given
        };
        if let Ok(place) = ClaimedFolder::come_to(&parent.join(&name), terms, way) {
            notes.extend(place.notes.iter().cloned());
        }
    }
    notes
}

/// Returns true if the folder `partial` has a log without a finished iteration, and no other files.
fn is_empty_log(partial: &Path) -> bool {
    let only = matches!(
        manifest::inspect_beside(partial, &[LOG]),
        Ok(Contents::Empty)
    );
    let count = || log::count(&log::opened(partial)?);
    only && matches!(count(), Ok(Some(0)))
}

/// Returns the list of a results folder; `None` if the folder is none.
pub(in crate::results) fn listed(dir: &Path) -> Option<Manifest> {
    Manifest::read(dir).ok().flatten()
}
