//! Puts results in their place: writes and flushes them aside, then exchanges them with the old
//! ones.

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

/// Passes the files of a folder to the callback one by one; called again to write another place.
pub type Fill<'a> = &'a dyn Fn(&mut dyn FnMut(File) -> io::Result<()>) -> io::Result<()>;

/// The result of writing results.
#[derive(Debug)]
pub struct Published {
    /// The folder that has them.
    pub dir: PathBuf,
    /// The reason why the results are in another folder than was wanted, or not safe from a power
    /// cut; `None` if all went well.
    pub trouble: Option<String>,
    /// Other notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// A place that could not be written, and the error.
type Failed = (PathBuf, io::Error);

impl ClaimedFolder {
    /// Puts complete results, which `fill` passes file by file, in their place; if that can't be
    /// written any more, in a new folder among the temporary files. Then the log is removed, since
    /// it is not needed any more.
    ///
    /// # Errors
    /// Fails if neither could be written. The log is kept in that case.
    pub fn publish(mut self, fill: Fill<'_>) -> Result<Published, OutputError> {
        let (scratch, sum) = match self.fresh(true, fill) {
            Ok(fresh) => fresh,
            Err(failed) => return self.fall_back(fill, failed),
        };
        // Failure is harmless: a kill in the next moment would leave a log that is not needed any
        // more.
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
                "`{}` was kept: it holds files that lowmark did not write",
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

    /// Writes results that are not complete, which `fill` passes file by file, into the folder of
    /// the log. Returns that folder. Complete results at the place itself stay there.
    ///
    /// # Errors
    /// Fails if they could not be written. The log is kept in that case.
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

    /// Moves incomplete results from the hidden folder `scratch` into the folder of the log. The
    /// list is moved first, so that files which are there at any moment can be recognised as
    /// Lowmark's.
    fn move_beside_log(&self, scratch: &Path) -> io::Result<()> {
        let list = Manifest::read(scratch)?
            .ok_or_else(|| io::Error::other("the list of the files is gone"))?;
        // Remove the results of an earlier interrupt. Files that the user added or changed stay.
        if let Some(old) = Manifest::read(&self.partial)? {
            manifest::remove_files(&self.partial, &old)?;
        }
        for listed in &list.files {
            if fs::symlink_metadata(self.partial.join(&listed.path)).is_ok() {
                return Err(io::Error::other(format!(
                    "the folder holds a `{}` that lowmark did not write",
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

    /// Writes all files and their list to a new hidden folder and flushes them. `complete` is
    /// stated in the list. Returns the folder and the list's SHA-256.
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

    /// Writes the files that `fill` passes to the folder `to`, and then their list, and flushes
    /// all. Returns the list's SHA-256; on failure the path that could not be written, as it would
    /// be at its place.
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

    /// Moves the written folder `scratch` to the place of the results, if that is free, empty, or
    /// has results that may be replaced. Otherwise moves it to a new name beside that place, and
    /// `Published::trouble` says why.
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
            Contents::Ours(_) => "another process has put results there during the run".into(),
            Contents::Foreign(what) => format!("since the start of the run it {what}"),
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

    /// Returns a free name beside the place with `what` in it: its real path, and the path as the
    /// user knows it.
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

    /// Removes the hidden folder `old` of replaced results. Files in it that are no results are
    /// kept, in a visible folder if it can be renamed. Returns a note that names what is left, or
    /// says why `old` could not be removed; `None` if nothing is left.
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
                    "`{shown}` holds files that were added to the replaced folder and are not results"
                ))
            }
            Err(e) => Some(format!("`{}` could not be removed: {e}", old.display())),
        }
    }

    /// Writes the results to a new folder in the directory for temporary files, because their place
    /// could not be written: `failed` is its path and the error. Returns that folder with the
    /// reason, or the first error if the new folder can't be written either.
    fn fall_back(&mut self, fill: Fill<'_>, failed: Failed) -> Result<Published, OutputError> {
        let (path, source) = failed;
        // `ended` makes `drop` keep the log of finished iterations, so that the run can be resumed.
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

    /// Points the link `latest` beside the folder to it; fails if `latest` is no link.
    fn move_latest(&self) -> io::Result<()> {
        point_latest(&self.parent, &self.name)
    }
}

/// Points the link `latest` in the folder `parent` to its folder `name`, in place of an older link;
/// fails if `latest` is no link.
pub fn point_latest(parent: &Path, name: &std::ffi::OsStr) -> io::Result<()> {
    let latest = parent.join("latest");
    match fs::symlink_metadata(&latest) {
        Ok(meta) if !meta.is_symlink() => {
            return Err(io::Error::other("a file or folder of that name exists"));
        }
        _ => {}
    }
    let link = tempfile::Builder::new()
        .prefix(".latest.lowmark-link-")
        .rand_bytes(8)
        .make_in(parent, |path| std::os::unix::fs::symlink(name, path))?;
    link.into_temp_path().persist(latest).map_err(|e| e.error)
}

/// Exchanges the written folder `scratch` with the one in its place. Returns the path at which the
/// old one is afterwards.
fn exchange(place: &ClaimedFolder, scratch: &Path) -> io::Result<PathBuf> {
    match renameat_with(CWD, scratch, CWD, &place.dir, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(scratch.to_owned()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(e) => return Err(e.into()),
    }
    // The filesystem can't exchange folders. If the process is killed between the two renames, the
    // next process that claims the place finishes them.
    let old = place.scratch("old")?.keep();
    fs::rename(&place.dir, &old)?;
    if let Err(e) = fs::rename(scratch, &place.dir) {
        let _ = fs::rename(&old, &place.dir);
        return Err(e);
    }
    Ok(old)
}

/// Flushes a folder's entries to the disk, if the filesystem supports it.
pub(in crate::results) fn sync_dir(dir: &Path) -> io::Result<()> {
    match fs::File::open(dir)?.sync_all() {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// Writes a file below the folder `dir`, with the folders that it needs, and flushes it. Fails if
/// it exists.
fn put(dir: &Path, file: &File) -> io::Result<()> {
    let path = dir.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut to = fs::File::create_new(path)?;
    to.write_all(&file.bytes)?;
    to.sync_all()
}

/// Returns true if a folder's name says that its results are not complete.
pub fn is_partial(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().ends_with(PARTIAL.as_bytes())
}
