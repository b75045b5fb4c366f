//! What processes that ended in the middle left beside a results folder.

use super::super::log::{self, LOG};
use super::super::manifest::{self, Contents, Manifest};
use super::publish::is_partial;
use super::{ClaimedFolder, PARTIAL, Terms, with};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Hidden folders beside a place.
#[derive(Default)]
struct Leftovers {
    new: Vec<PathBuf>,
    old: Vec<PathBuf>,
}

/// The place that a hidden folder was made for, and whether it is an old one.
fn owner(hidden: &OsStr) -> Option<(&OsStr, bool)> {
    let bytes = hidden.as_bytes().strip_prefix(b".")?;
    for (mark, old) in [(&b".lowmark-new-"[..], false), (b".lowmark-old-", true)] {
        // Eight characters of chance stand behind it.
        let at = bytes.len().checked_sub(mark.len() + 8)?;
        if bytes[at..].starts_with(mark) && at > 0 {
            return Some((OsStr::from_bytes(&bytes[..at]), old));
        }
    }
    None
}

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
    /// Ends what a process of this place left half done: puts results that it had written in place if
    /// there are none, brings replaced ones back, and takes away what it had begun to write.
    ///
    /// The lock is held, so nobody is at it.
    pub(super) fn recover(&mut self) -> io::Result<()> {
        let found = leftovers(&self.parent, &self.name)?;
        let absent = |place: &Self| {
            let there = fs::symlink_metadata(&place.dir);
            there.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
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
                    "results that an earlier lowmark had written were put in place: `{}`",
                    self.shown.display()
                ));
            }
        }
        for path in found.new.iter().chain(&found.old) {
            if fs::symlink_metadata(path).is_err() {
                continue;
            }
            // Without a whole list it was not finished, and nobody but the process that made it knew it.
            if found.new.contains(path) && Manifest::read(path)?.is_none() {
                fs::remove_dir_all(path)?;
            } else {
                let note = self.discard(path);
                self.notes.extend(note);
            }
        }
        Ok(())
    }

    /// Writes into the log what its process could not any more, as it ended right before: that these results,
    /// which are whole, are about to be put in place. A word that is there stands; what waits beside it was replaced.
    fn say_published(&mut self, results: &Path) -> io::Result<()> {
        if self.kept.published.is_none() {
            let (_, sum) = manifest::digest(fs::File::open(results.join(manifest::MANIFEST))?)?;
            self.log.publishes(&sum)?;
            self.kept.published = Some(sum);
        }
        Ok(())
    }
}

/// Puts right what ended processes left for any place in a folder, as far as it has no finished
/// iterations; the sentences to say about it. Places that are in use are left alone.
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
        // To claim a place is to put it right, and to let go of it leaves nothing that was not there.
        let terms = Terms {
            kind: manifest::Kind::Run,
            title: "",
            replace: false,
        };
        let there = fs::symlink_metadata(parent.join(with(&name, PARTIAL))).is_ok();
        let way = if there {
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

/// Whether a folder has a log, no finished iteration in it, and nothing else.
fn is_empty_log(partial: &Path) -> bool {
    let only = matches!(
        manifest::inspect_beside(partial, &[LOG]),
        Ok(Contents::Empty)
    );
    let count = || log::count(&fs::File::open(partial.join(LOG))?);
    only && matches!(count(), Ok(Some(0)))
}

/// The list of what a folder of results has, if it is one.
pub(in crate::results) fn listed(dir: &Path) -> Option<Manifest> {
    Manifest::read(dir).ok().flatten()
}
