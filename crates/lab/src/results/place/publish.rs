//! Results into their place: written aside and flushed, then exchanged with what is there.

use super::super::File;
use super::super::log::LOG;
use super::super::manifest::{self, Contents, Listed, MANIFEST, Manifest};
use super::{ClaimedFolder, OutputError, PARTIAL, with};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What passes the files of a folder on, one by one; called again for another place.
pub type Fill<'a> = &'a dyn Fn(&mut dyn FnMut(File) -> io::Result<()>) -> io::Result<()>;

/// Results that are written.
#[derive(Debug)]
pub struct Published {
    /// The folder that has them.
    pub dir: PathBuf,
    /// Why that is not the folder that was wanted, or is not safe from a power cut.
    pub trouble: Option<String>,
    /// What else the user should know, one sentence each.
    pub notes: Vec<String>,
}

/// A place that went wrong.
type Failed = (PathBuf, io::Error);

impl ClaimedFolder {
    /// Puts complete results into their place; where that can't be written any more, into a new folder
    /// among the temporary ones.
    ///
    /// # Errors
    /// Neither could be written. The log is still there then.
    pub fn publish(mut self, fill: Fill<'_>) -> Result<Published, OutputError> {
        let (scratch, sum) = match self.fresh(true, fill) {
            Ok(fresh) => fresh,
            Err(failed) => return self.fall_back(fill, failed),
        };
        // Without the record a kill in the next moment leaves a log that can be resumed for nothing.
        let _ = self.log.publishes(&sum);
        let mut done = match self.put(&scratch) {
            Ok(done) => done,
            Err(e) => {
                let failed = (self.dir.clone(), e);
                let _ = fs::remove_dir_all(&scratch);
                return self.fall_back(fill, failed);
            }
        };
        if let Err(e) = sync_dir(&self.parent) {
            let parent = self.parent.display();
            done.trouble
                .get_or_insert_with(|| format!("`{parent}` could not be flushed: {e}"));
        }
        match self.clear() {
            Ok(true) => {}
            Ok(false) => done.notes.push(format!(
                "`{}` stays: it holds what lowmark did not write",
                self.partial().display()
            )),
            Err(e) => done.notes.push(format!(
                "`{}` could not be removed: {e}",
                self.partial().display()
            )),
        }
        if self.latest
            && done.trouble.is_none()
            && let Err(e) = self.move_latest()
        {
            done.notes
                .push(format!("the link `latest` was not moved: {e}"));
        }
        Ok(done)
    }

    /// Writes what there is of results that are not complete into the folder of the log. Complete ones
    /// that are at the place itself stay there.
    ///
    /// # Errors
    /// It could not be written. The log is still there then.
    pub fn keep_partial(mut self, fill: Fill<'_>) -> Result<PathBuf, OutputError> {
        self.ended = true;
        let kept = self.fresh(false, fill).and_then(|(scratch, _)| {
            let moved = self.move_beside_log(&scratch);
            let _ = fs::remove_dir_all(&scratch);
            moved.map_err(|e| (self.partial.clone(), e))
        });
        match kept {
            Ok(()) => Ok(self.partial()),
            Err((path, source)) => Err(OutputError::Io { path, source }),
        }
    }

    /// Moves files from beside into the folder of the log. The list comes first: whatever of it is
    /// there at any moment is known to be ours.
    fn move_beside_log(&self, scratch: &Path) -> io::Result<()> {
        let list = Manifest::read(scratch)?
            .ok_or_else(|| io::Error::other("the list of the files is gone"))?;
        // That of an earlier interrupt. What the user added or changed stays where it is.
        if let Some(old) = Manifest::read(&self.partial)? {
            manifest::remove_files(&self.partial, &old)?;
        }
        for listed in &list.files {
            if fs::symlink_metadata(self.partial.join(&listed.path)).is_ok() {
                return Err(io::Error::other(format!(
                    "it holds a `{}` that lowmark did not write",
                    listed.path
                )));
            }
        }
        fs::rename(scratch.join(MANIFEST), self.partial.join(MANIFEST))?;
        for listed in &list.files {
            let to = self.partial.join(&listed.path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::rename(scratch.join(&listed.path), to)?;
        }
        sync_dir(&self.partial)
    }

    /// A hidden folder with all files and their list, flushed; and the digest of the list.
    pub(super) fn fresh(
        &self,
        complete: bool,
        fill: Fill<'_>,
    ) -> Result<(PathBuf, String), Failed> {
        let failed = |e| (self.dir.clone(), e);
        let scratch = self.scratch("new").map_err(failed)?;
        let sum = self.write(scratch.path(), complete, fill)?;
        Ok((scratch.keep(), sum))
    }

    /// Writes the files and then their list; the list's digest.
    fn write(&self, to: &Path, complete: bool, fill: Fill<'_>) -> Result<String, Failed> {
        let mut failed = self.dir.clone();
        let mut listed = Vec::new();
        let mut folders = BTreeSet::from([PathBuf::new()]);
        let written = fill(&mut |file| {
            failed = self.dir.join(&file.path);
            if !manifest::is_inside(&file.path) || file.path == MANIFEST || file.path == LOG {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "not a path inside the folder",
                ));
            }
            let above = Path::new(&file.path).ancestors().skip(1);
            folders.extend(above.map(Path::to_owned));
            listed.push(Listed::new(&file.path, &file.bytes));
            put(to, &file)
        });
        written.map_err(|e| (failed, e))?;
        let list = File::new(
            MANIFEST,
            Manifest::new(self.kind, &self.title, complete, listed).text(),
        );
        let finished = folders
            .iter()
            .rev()
            .try_for_each(|folder| sync_dir(&to.join(folder)))
            .and_then(|()| put(to, &list))
            .and_then(|()| sync_dir(to))
            .and_then(|()| manifest::digest(&*list.bytes));
        finished
            .map(|(_, sum)| sum)
            .map_err(|e| (self.dir.join(MANIFEST), e))
    }

    /// Puts a written folder in place of what is there.
    fn put(&mut self, scratch: &Path) -> io::Result<Published> {
        let mut done = Published {
            dir: self.shown.clone(),
            trouble: None,
            notes: Vec::new(),
        };
        let taken = match manifest::inspect(&self.dir)? {
            Contents::Absent | Contents::Empty => match fs::rename(scratch, &self.dir) {
                Ok(()) => return Ok(done),
                Err(e) => format!("{e}"),
            },
            Contents::Ours(_) if self.replace => match exchange(self, scratch) {
                Ok(old) => {
                    done.notes.extend(self.discard(&old));
                    return Ok(done);
                }
                Err(e) => format!("{e}"),
            },
            Contents::Ours(_) => "somebody else's results have come there meanwhile".into(),
            Contents::Foreign(what) => format!("meanwhile it {what}"),
        };
        let (beside, shown) = self.beside("results");
        fs::rename(scratch, beside)?;
        done.trouble = Some(format!(
            "`{}` could not be put in place: {taken}; the results are in `{}`",
            self.shown.display(),
            shown.display()
        ));
        done.dir = shown;
        Ok(done)
    }

    /// A free name beside the place, itself and as the user knows it.
    pub(super) fn beside(&self, what: &str) -> (PathBuf, PathBuf) {
        let mut n = 1_u32;
        loop {
            let name = with(&self.name, &format!(".{what}-{n}"));
            let path = self.parent.join(&name);
            if fs::symlink_metadata(&path).is_err() {
                return (path, self.shown.with_file_name(name));
            }
            n += 1;
        }
    }

    /// Removes a hidden folder of results that were replaced; what else is in it comes to light again.
    pub(super) fn discard(&self, old: &Path) -> Option<String> {
        match manifest::remove(old) {
            Ok(true) => None,
            Ok(false) => {
                let (beside, shown) = self.beside("kept");
                let shown = match fs::rename(old, &beside) {
                    Ok(()) => {
                        let _ = fs::remove_file(beside.join(MANIFEST));
                        shown
                    }
                    Err(_) => old.to_owned(),
                };
                let shown = shown.display();
                Some(format!(
                    "`{shown}` holds what came into the replaced folder besides results"
                ))
            }
            Err(e) => Some(format!("`{}` could not be removed: {e}", old.display())),
        }
    }

    /// Writes to a new folder among the temporary ones.
    fn fall_back(&mut self, fill: Fill<'_>, failed: Failed) -> Result<Published, OutputError> {
        let (path, source) = failed;
        // The log, where it has anything, serves to go on.
        self.ended = self.log.records() > 0;
        let mut prefix = OsString::from("lowmark-");
        prefix.push(&self.name);
        prefix.push("-");
        let made = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(8)
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir();
        let written = made.map_err(|e| (std::env::temp_dir(), e)).and_then(|dir| {
            self.write(dir.path(), true, fill)?;
            Ok(dir.keep())
        });
        match written {
            Ok(dir) => Ok(Published {
                trouble: Some(format!(
                    "can't write `{}`: {source}; the results are in `{}`",
                    path.display(),
                    dir.display()
                )),
                dir,
                notes: Vec::new(),
            }),
            Err(_) => Err(OutputError::Io { path, source }),
        }
    }

    /// Makes `latest` lead to the folder, if it leads somewhere or is not there.
    fn move_latest(&self) -> io::Result<()> {
        point_latest(&self.parent, &self.name)
    }
}

/// Makes the link `latest` in a folder lead to one of its folders; a file or folder of that name stays.
pub fn point_latest(parent: &Path, name: &std::ffi::OsStr) -> io::Result<()> {
    let latest = parent.join("latest");
    match fs::symlink_metadata(&latest) {
        Ok(meta) if !meta.is_symlink() => {
            return Err(io::Error::other("something of that name is there"));
        }
        _ => {}
    }
    let link = tempfile::Builder::new()
        .prefix(".latest.lowmark-link-")
        .rand_bytes(8)
        .make_in(parent, |path| std::os::unix::fs::symlink(name, path))?;
    link.into_temp_path().persist(latest).map_err(|e| e.error)
}

/// Exchanges a written folder with the one in its place; where the old one is then.
fn exchange(place: &ClaimedFolder, scratch: &Path) -> io::Result<PathBuf> {
    match renameat_with(CWD, scratch, CWD, &place.dir, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(scratch.to_owned()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(e) => return Err(e.into()),
    }
    // A filesystem that can't. Killed between the two, the next one that comes by ends it.
    let old = place.scratch("old")?.keep();
    fs::rename(&place.dir, &old)?;
    if let Err(e) = fs::rename(scratch, &place.dir) {
        let _ = fs::rename(&old, &place.dir);
        return Err(e);
    }
    Ok(old)
}

/// Flushes a folder's names, where the filesystem has such a thing.
pub(in crate::results) fn sync_dir(dir: &Path) -> io::Result<()> {
    match fs::File::open(dir)?.sync_all() {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

fn put(dir: &Path, file: &File) -> io::Result<()> {
    let path = dir.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut to = fs::File::create_new(path)?;
    to.write_all(&file.bytes)?;
    to.sync_all()
}

/// Whether a folder's name says that it holds results that are not complete.
pub fn is_partial(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().ends_with(PARTIAL.as_bytes())
}
