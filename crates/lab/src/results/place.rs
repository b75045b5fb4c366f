//! Claims the folder that results go to: it is locked and tested before anything is computed, and
//! written as a whole at the end.
//!
//! ```text
//! DIR                      results, complete; exchanged as a whole
//! DIR.partial/             of a run that is under way, was interrupted or was killed:
//!     iterations.log       finished iterations, and the lock on DIR
//!     manifest.json, …     after Ctrl-C: results of the finished iterations
//! .NAME.lowmark-new-XXXX   being written; after an exchange, the replaced folder
//! .NAME.lowmark-old-XXXX   being replaced, where the filesystem can't exchange two folders
//! ```
//!
//! The process that holds the lock owns all of these. If the lock is free, files that are left
//! belong to a process that was killed, and the next process cleans them up.

mod publish;
mod recover;
#[cfg(test)]
mod tests;

pub use publish::{Fill, Published};
pub(super) use publish::{is_partial, point_latest, sync_dir};
pub(super) use recover::listed;
pub use recover::sweep;

use super::log::{Header, Kept, LOG, Log};
use super::manifest::{self, Contents, Kind};
use sim::RunResult;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes written to test a place: less than any results folder has, more than fits in an inode.
const PROBE: usize = 256 << 10;
/// How often a lock is tried again before the place counts as in use.
const LOOKS: u32 = 5;
/// The end of the name of a folder whose results are not complete.
const PARTIAL: &str = ".partial";

/// The reason why there is no results folder.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The place holds something that must not be replaced.
    #[error("`{}` {what}; accepted: {accepted}", path.display())]
    Foreign {
        /// The place.
        path: PathBuf,
        /// The contents of the place, in words.
        what: String,
        /// The places that would be accepted.
        accepted: &'static str,
    },
    /// The path has no last component to create a folder by.
    #[error("`{}` does not name a folder", path.display())]
    Unnamed {
        /// The path.
        path: PathBuf,
    },
    /// Another process is writing there.
    #[error("another lowmark is writing to `{}`; accepted: another folder, or this one when it is done", path.display())]
    InUse {
        /// The place.
        path: PathBuf,
    },
    /// An earlier run was interrupted there.
    #[error("`{}` has {finished} finished iterations of an interrupted run; accepted: `--resume {}` to continue it, `--replace` to start again, or another folder", partial.display(), dir.display())]
    Unfinished {
        /// The place.
        dir: PathBuf,
        /// The folder with the finished iterations.
        partial: PathBuf,
        /// The number of finished iterations.
        finished: u64,
    },
    /// There is no interrupted run to resume.
    #[error("`{}` holds no interrupted run; accepted: a folder whose name ends in `.partial`, or the folder that the results were to go to", path.display())]
    NothingToResume {
        /// The place.
        path: PathBuf,
    },
    /// The log belongs to a run with other settings.
    #[error("the run in `{}` can't be continued: {difference}; accepted: the experiment and options that it was started with, or `--replace` without `--resume` to start again", path.display())]
    Differs {
        /// The folder with the log.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// The place can't be written, as was found before anything was computed.
    #[error("can't write to `{}`: {source}", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Results could not be written, neither to their place nor to the temporary folder.
    #[error("can't write `{}`: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The conditions under which a folder is claimed.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The command that writes results.
    pub kind: Kind,
    /// The name of what is run, for the folder's list.
    pub title: &'a str,
    /// True if earlier results may be replaced.
    pub replace: bool,
}

/// The way in which a place was chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Given by the user.
    Given,
    /// Given by the user, to resume an interrupted run.
    Resumed,
    /// Named by the program: nothing may be there.
    New,
}

/// A claimed results folder.
///
/// If dropped before its end, it leaves the log if that has an iteration, and nothing else.
pub struct ClaimedFolder {
    /// The path as the user gave it.
    shown: PathBuf,
    /// The path with links resolved.
    dir: PathBuf,
    parent: PathBuf,
    name: OsString,
    partial: PathBuf,
    log: Log,
    kept: Kept,
    kind: Kind,
    title: String,
    replace: bool,
    /// True if the link `latest` beside the folder is to point to it.
    latest: bool,
    /// Folders above it that were created for it, the outermost first.
    made: Vec<PathBuf>,
    notes: Vec<String>,
    /// True if the results of the log that was found are already in place.
    in_place: bool,
    ended: bool,
}

/// The result of claiming a folder to resume a run.
pub enum Resumption {
    /// The run can be resumed.
    Unfinished(Box<ClaimedFolder>),
    /// The results are complete: the process ended after they were put in place.
    Complete(PathBuf),
}

/// Returns a function that turns an error of the system about `path` into the error that the place
/// can't be written.
fn unusable(path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_owned();
    move |source| OutputError::Unusable { path, source }
}

/// Builds the error that a place must not be replaced because it holds `what`, in words.
fn foreign(path: &Path, what: impl Into<String>) -> OutputError {
    OutputError::Foreign {
        path: path.into(),
        what: what.into(),
        accepted: "a new path, an empty folder, or with `--replace` an earlier results folder that holds nothing else",
    }
}

/// Appends a suffix to a name.
fn with(name: &OsStr, suffix: &str) -> OsString {
    let mut all = name.to_owned();
    all.push(suffix);
    all
}

/// Returns the folder for a run's complete results: the path itself, or, if it ends in `.partial`,
/// the path without this ending.
pub fn complete_folder(dir: &Path) -> &Path {
    let shown = dir.as_os_str().as_bytes();
    let trimmed = shown.strip_suffix(b"/").unwrap_or(shown);
    let stem = trimmed.strip_suffix(PARTIAL.as_bytes());
    stem.map_or(dir, |stem| Path::new(OsStr::from_bytes(stem)))
}

/// Returns the folder that keeps the finished iterations of a run whose complete results go to
/// `dir`: its name with `.partial`. `None` if `dir` does not end in a name.
pub fn partial_folder(dir: &Path) -> Option<PathBuf> {
    let dir = complete_folder(dir);
    let name = dir.file_name()?;
    Some(dir.with_file_name(with(name, PARTIAL)))
}

/// Returns true if complete results, or finished iterations of an incomplete run, are at this
/// place.
pub fn is_begun(dir: &Path) -> bool {
    let dir = complete_folder(dir);
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    exists(dir) || partial_folder(dir).is_some_and(|partial| exists(&partial))
}

impl ClaimedFolder {
    /// Claims a folder for results: locks it, and tests that it can be written, before anything is
    /// computed.
    ///
    /// # Errors
    /// Fails if the folder is taken, in use, or can't be written. Nothing is left behind in that
    /// case.
    pub fn claim(dir: &Path, terms: Terms<'_>) -> Result<Self, OutputError> {
        Self::come_to(dir, terms, Way::Given)
    }

    /// Claims a new folder below `root`, named by the time `now`, followed by a number if the name
    /// is taken. A link `latest` beside it will point to it when its results are complete.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does.
    pub fn claim_new(root: &Path, now: SystemTime, terms: Terms<'_>) -> Result<Self, OutputError> {
        let time = humantime::format_rfc3339_seconds(now).to_string();
        let time = time.replace(':', "-");
        let mut notes = sweep(root);
        let mut n = 1_u32;
        loop {
            let name = match n {
                1 => time.clone(),
                n => format!("{time}-{n}"),
            };
            match Self::come_to(&root.join(name), terms, Way::New) {
                Err(OutputError::Foreign { .. } | OutputError::InUse { .. }) if n < 10_000 => {
                    n += 1
                }
                Ok(mut place) => {
                    place.latest = true;
                    notes.append(&mut place.notes);
                    place.notes = notes;
                    return Ok(place);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Claims the folder of an interrupted run, given by the path of its results or by the folder
    /// beside it that ends in `.partial`. Returns that its results are complete if the process
    /// ended after they were put in place.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does, and if there is no run to resume.
    pub fn resume(dir: &Path, terms: Terms<'_>) -> Result<Resumption, OutputError> {
        let dir = complete_folder(dir);
        let Some(partial) = partial_folder(dir) else {
            return Err(OutputError::NothingToResume { path: dir.into() });
        };
        let nothing = || {
            let contents = manifest::inspect(dir);
            let complete = matches!(contents, Ok(Contents::Ours(m)) if m.complete);
            // With `--replace`, complete results are those that were to be replaced, not the run's
            // own.
            if complete && !terms.replace {
                Ok(Resumption::Complete(dir.into()))
            } else {
                Err(OutputError::NothingToResume { path: dir.into() })
            }
        };
        if fs::symlink_metadata(partial).is_err() {
            return nothing();
        }
        let mut place = Self::come_to(dir, terms, Way::Resumed)?;
        if place.in_place {
            return Ok(Resumption::Complete(dir.into()));
        }
        if place.kept.header.is_none() {
            drop(place);
            return nothing();
        }
        if place.kept.torn > 0 {
            let torn = place.kept.torn;
            let note = format!(
                "the last {torn} bytes of the log are an incomplete iteration, which runs again"
            );
            place.notes.push(note);
        }
        // In a folder of timed folders with a link `latest`, it is the folder of a default run.
        place.latest = is_timed(&place.parent, &place.name);
        Ok(Resumption::Unfinished(Box::new(place)))
    }

    /// Locks the place `given`, cleans up after earlier processes, and tests that it can be
    /// written. `way` says whether it is a new run or a resumed one. If it can't be locked, parent
    /// folders that were created are removed again.
    fn come_to(given: &Path, terms: Terms<'_>, way: Way) -> Result<Self, OutputError> {
        let dir = resolved(given)?;
        let (Some(name), Some(Component::Normal(_))) =
            (dir.file_name(), dir.components().next_back())
        else {
            return Err(OutputError::Unnamed { path: given.into() });
        };
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let partial = parent.join(with(name, PARTIAL));
        // Checked before anything is touched, and again once the place is locked.
        if way != Way::Resumed {
            refuse(given, &dir, &parent, terms.replace)?;
        }
        let made = make_above(&parent)?;
        let locked = lock(given, &partial, way == Way::New);
        let (log, kept) = locked.inspect_err(|_| {
            for dir in made.iter().rev() {
                let _ = fs::remove_dir(dir);
            }
        })?;
        let mut place = Self {
            shown: given.into(),
            name: name.to_owned(),
            dir,
            parent,
            partial,
            log,
            kept,
            kind: terms.kind,
            title: terms.title.into(),
            replace: terms.replace,
            latest: false,
            made,
            notes: Vec::new(),
            in_place: false,
            ended: false,
        };
        place.settle(way)?;
        place.probe()?;
        Ok(place)
    }

    /// Cleans up after an earlier process, and checks that the place may be used: a log with
    /// finished iterations must be resumed or replaced, and results may only be replaced if that is
    /// allowed.
    fn settle(&mut self, way: Way) -> Result<(), OutputError> {
        self.recover().map_err(unusable(&self.parent))?;
        if let Some(sum) = &self.kept.published
            && let Ok(list) = input::file(&self.dir.join(manifest::MANIFEST))
            && manifest::digest(list).is_ok_and(|(_, there)| there == *sum)
        {
            // All results are in place; the process ended before it removed the log.
            self.forget()?;
            self.in_place = true;
        }
        let finished = self.log.records();
        match way {
            Way::Resumed => {
                if self.kept.header.is_none() {
                    return Ok(());
                }
            }
            _ if finished == 0 || self.replace => self.forget()?,
            _ => {
                return Err(OutputError::Unfinished {
                    dir: self.shown.clone(),
                    partial: self.partial.clone(),
                    finished,
                });
            }
        }
        refuse(&self.shown, &self.dir, &self.parent, self.replace)
    }

    /// Removes all records of the log, and the incomplete results that an interrupt wrote beside
    /// it.
    fn forget(&mut self) -> Result<(), OutputError> {
        let contents = manifest::inspect_beside(&self.partial, &[LOG]);
        match contents.map_err(unusable(&self.partial))? {
            Contents::Foreign(what) => return Err(foreign(&self.partial, what)),
            Contents::Ours(_) => {
                manifest::remove(&self.partial).map_err(unusable(&self.partial))?;
            }
            Contents::Absent | Contents::Empty => {}
        }
        self.kept = Kept::default();
        self.log.restart().map_err(unusable(&self.partial))
    }

    /// Tests that results can be written, with a file of some size that is removed again.
    fn probe(&self) -> Result<(), OutputError> {
        let scratch = self.scratch("new").map_err(unusable(&self.parent))?;
        let path = scratch.path().join("probe");
        // Not zeroes, which some filesystems do not store.
        let bytes: Vec<u8> = (0..PROBE as u32).map(|i| (i % 251) as u8 + 1).collect();
        let written = fs::File::create_new(&path).and_then(|file| {
            (&file).write_all(&bytes)?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        let closed = scratch.close();
        written
            .and(removed)
            .and(closed)
            .map_err(unusable(&self.dir))
    }

    /// Creates a hidden folder beside the results, with the permissions of any other folder. `what`
    /// is a part of its name: `new` or `old`.
    fn scratch(&self, what: &str) -> io::Result<tempfile::TempDir> {
        let mut prefix = OsString::from(".");
        prefix.push(&self.name);
        prefix.push(format!(".lowmark-{what}-"));
        tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(8)
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir_in(&self.parent)
    }

    /// Returns notes for the user about what was found, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the folder with the log.
    pub fn partial(&self) -> PathBuf {
        let name = self.shown.file_name().unwrap_or(&self.name);
        self.shown.with_file_name(with(name, PARTIAL))
    }

    /// Begins or resumes a run. Returns the results of iterations that are already finished, by the
    /// index of the cell and the number of the iteration; empty for a new run.
    ///
    /// # Errors
    /// Fails if the log belongs to another run, or can't be written.
    pub fn begin(
        &mut self,
        header: &Header,
    ) -> Result<BTreeMap<(u32, u32), RunResult>, OutputError> {
        match &self.kept.header {
            Some(then) => {
                if let Some(difference) = then.difference(header) {
                    return Err(OutputError::Differs {
                        path: self.partial(),
                        difference,
                    });
                }
                Ok(std::mem::take(&mut self.kept.results))
            }
            None => {
                let begun = self.log.begin(header);
                begun.map_err(unusable(&self.partial))?;
                Ok(BTreeMap::new())
            }
        }
    }

    /// Returns the log.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Removes the log and the incomplete results beside it, when they are not needed any more.
    /// Returns true if the folder is gone, false if other files are left in it.
    fn clear(&mut self) -> io::Result<bool> {
        self.ended = true;
        if manifest::Manifest::read(&self.partial)?.is_some() && !manifest::remove(&self.partial)? {
            let list = self.partial.join(manifest::MANIFEST);
            // remove() has removed the list already if only the log was left.
            let _ = fs::remove_file(list);
        }
        match fs::remove_file(self.partial.join(LOG)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        manifest::gone(fs::remove_dir(&self.partial))
    }
}

impl ClaimedFolder {
    /// Tells on standard error where finished iterations are, if there are any.
    pub fn say_kept(&self) {
        let n = self.log.records();
        if n > 0 {
            let partial = self.partial();
            let partial = partial.display();
            let text = format!(
                "{n} finished iterations are in {partial}; to continue, give the same command with `--resume {partial}` (`lowmark run` needs nothing else)"
            );
            // If standard error can't be written, the message can't be given in another way.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

impl Drop for ClaimedFolder {
    /// Gives up a claim that was not ended. The log stays if it has finished iterations; otherwise
    /// the log and folders that were created for the claim are removed.
    fn drop(&mut self) {
        if !self.ended && std::thread::panicking() {
            self.say_kept();
        }
        if self.ended || self.log.records() > 0 {
            return;
        }
        let _ = self.clear();
        for dir in self.made.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Returns the real path of a place, with links resolved, so that a rename does not replace the
/// link; the path itself if nothing is there.
fn resolved(given: &Path) -> Result<PathBuf, OutputError> {
    match fs::symlink_metadata(given) {
        Ok(meta) if meta.is_symlink() && fs::metadata(given).is_err() => {
            Err(foreign(given, "is a dangling link"))
        }
        Ok(_) => fs::canonicalize(given).map_err(unusable(given)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(given.to_owned()),
        Err(e) => Err(unusable(given)(e)),
    }
}

/// Fails unless the place `dir` is free, or holds earlier results of Lowmark's that may be
/// replaced. `given` is its path as the user knows it, for messages.
fn refuse(given: &Path, dir: &Path, parent: &Path, replace: bool) -> Result<(), OutputError> {
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(unusable(given)(e)),
    };
    if !meta.is_dir() {
        return Err(foreign(given, "is not a folder"));
    }
    let here = std::env::current_dir().and_then(fs::canonicalize);
    if here.is_ok_and(|here| here.starts_with(dir)) {
        return Err(foreign(given, "is the working folder, or one above it"));
    }
    if fs::metadata(parent).is_ok_and(|above| above.dev() != meta.dev()) {
        return Err(foreign(given, "is a mount point"));
    }
    match manifest::inspect(dir).map_err(unusable(given))? {
        Contents::Absent | Contents::Empty => Ok(()),
        Contents::Foreign(what) => Err(foreign(given, what)),
        Contents::Ours(_) if replace => Ok(()),
        Contents::Ours(_) => Err(foreign(given, "already holds results")),
    }
}

/// Creates missing parent folders. Returns those that were created, the outermost first.
fn make_above(parent: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let missing: Vec<PathBuf> = parent
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && fs::symlink_metadata(p).is_err())
        .map(Path::to_owned)
        .collect();
    match fs::create_dir_all(parent) {
        Ok(()) => Ok(missing.into_iter().rev().collect()),
        Err(e) => {
            for dir in &missing {
                let _ = fs::remove_dir(dir);
            }
            Err(unusable(parent)(e))
        }
    }
}

/// Returns true if a folder's name begins with a time as [`ClaimedFolder::claim_new`] gives it, and
/// `latest` beside it is a link or absent: then the link may point to it.
fn is_timed(parent: &Path, name: &OsStr) -> bool {
    let latest = fs::symlink_metadata(parent.join("latest"));
    let free = latest.map_or(true, |m| m.is_symlink());
    let name = name.to_string_lossy();
    let form = "0000-00-00T00-00-00Z";
    free && name.len() >= form.len()
        && name.bytes().zip(form.bytes()).all(|(c, f)| match f {
            b'0' => c.is_ascii_digit(),
            f => c == f,
        })
}

/// Opens and locks the log in the folder `partial`, creating both if necessary. Returns the log
/// with its contents. With `fresh` the folder must not exist yet. A lock that another process holds
/// is tried again for a moment.
fn lock(given: &Path, partial: &Path, fresh: bool) -> Result<(Log, Kept), OutputError> {
    let in_use = || OutputError::InUse { path: given.into() };
    let mut looks = 0;
    // A process that ends removes the log and its folder, so both may vanish between two steps.
    for _ in 0..100 {
        match fs::create_dir(partial) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if fresh {
                    return Err(in_use());
                }
                may_hold_a_log(partial)?;
            }
            Err(e) => return Err(unusable(partial)(e)),
        }
        let path = partial.join(LOG);
        let opened = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => {
                let _ = fs::remove_dir(partial);
                return Err(unusable(&path)(e));
            }
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if looks == LOOKS => return Err(in_use()),
            Err(TryLockError::WouldBlock) => {
                // A process that lists results takes the lock for a moment.
                looks += 1;
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            // The second case is a filesystem without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // True if the opened file is still the one under this name.
        let same = |m: fs::Metadata| {
            let own = file.metadata();
            own.is_ok_and(|own| (own.dev(), own.ino()) == (m.dev(), m.ino()))
        };
        if !fs::symlink_metadata(&path).is_ok_and(same) {
            continue;
        }
        return match Log::open(file) {
            Ok(Some(log)) => Ok(log),
            Ok(None) => Err(foreign(
                partial,
                format!("holds a `{LOG}` that lowmark did not write"),
            )),
            Err(e) => {
                // A log that existed before is not empty, and stays.
                if fs::symlink_metadata(&path).is_ok_and(|m| m.len() == 0) {
                    let _ = fs::remove_file(&path);
                    let _ = fs::remove_dir(partial);
                }
                Err(unusable(&path)(e))
            }
        };
    }
    Err(in_use())
}

/// Fails if a folder that ends in `.partial` is not Lowmark's: it must have a log or be empty.
fn may_hold_a_log(partial: &Path) -> Result<(), OutputError> {
    let log = fs::symlink_metadata(partial.join(LOG)).is_ok_and(|m| m.is_file());
    let empty = || fs::read_dir(partial).map(|mut entries| entries.next().is_none());
    match log || empty().map_err(unusable(partial))? {
        true => Ok(()),
        false => Err(foreign(partial, format!("holds no `{LOG}`"))),
    }
}
