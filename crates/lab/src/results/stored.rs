//! Lists existing results folders with their contents, age and size, and removes them.

use super::log::{self, LOG};
use super::manifest::{self, Contents, Kind};
use super::place::{is_partial, listed, point_latest};
use std::ffi::OsStr;
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Levels of folders that are searched below the given one: `results/NAME/TIME`.
const DEPTH: u32 = 3;

/// The state of a folder's results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// The results are complete.
    Complete,
    /// An interrupted or killed run, with the number of finished iterations in its log.
    Unfinished(u64),
    /// A run is writing to the folder.
    InUse,
    /// The folder has no list of its files, and is left alone.
    Unlisted,
}

/// A results folder.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The folder.
    pub dir: PathBuf,
    /// The command that wrote the folder; `None` if it is not known.
    pub kind: Option<Kind>,
    /// The name of the experiment or input; empty if it is not known.
    pub title: String,
    /// The state of the results.
    pub state: Completeness,
    /// Bytes of all files in the folder.
    pub bytes: u64,
    /// The time at which the folder was last written.
    pub when: SystemTime,
}

/// The limits beyond which folders are removed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Removes folders that were written longer ago than this.
    pub older_than: Option<Duration>,
    /// Removes the oldest folders until all together have no more than this many bytes.
    pub keep_below: Option<u64>,
}

/// Returns all results folders below the folder `root`, the oldest first.
///
/// # Errors
/// Fails if the folder can't be read. Unreadable folders below it are passed over.
pub fn list(root: &Path) -> io::Result<Vec<Stored>> {
    let mut found = Vec::new();
    look(root, DEPTH, &mut found)?;
    found.sort_by(|a, b| (a.when, &a.dir).cmp(&(b.when, &b.dir)));
    Ok(found)
}

/// Collects into `found` the results folders in a folder and down to `depth` levels below it;
/// hidden folders and those inside of results are skipped.
fn look(dir: &Path, depth: u32, found: &mut Vec<Stored>) -> io::Result<()> {
    if let Some(stored) = stored(dir)? {
        let descend = stored.state == Completeness::Unlisted;
        found.push(stored);
        if !descend {
            return Ok(());
        }
    }
    if depth == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let hidden = entry.file_name().as_bytes().starts_with(b".");
        if !hidden && entry.file_type()?.is_dir() {
            let _ = look(&entry.path(), depth - 1, found);
        }
    }
    Ok(())
}

/// Describes the results in a folder: the command that wrote them, their state, size and time;
/// `None` if the folder has none.
fn stored(dir: &Path) -> io::Result<Option<Stored>> {
    let list = listed(dir);
    let log = match log::opened(dir) {
        Ok(log) if dir.file_name().is_some_and(is_partial) => log::count(&log)?.map(|n| (log, n)),
        _ => None,
    };
    // The file by whose age the folder is judged.
    let mark = match (&list, &log) {
        (_, Some(_)) => LOG,
        (Some(_), None) => manifest::MANIFEST,
        (None, None) if manifest::is_earlier(dir) => "results.json",
        (None, None) => return Ok(None),
    };
    let state = match (&list, log) {
        (_, Some((log, n))) => match log.try_lock() {
            Err(TryLockError::WouldBlock) => Completeness::InUse,
            _ => Completeness::Unfinished(n),
        },
        (Some(m), None) if m.complete => Completeness::Complete,
        // The log of an interrupted run is gone, so its results can't be resumed.
        (Some(_), None) => Completeness::Unfinished(0),
        (None, None) => Completeness::Unlisted,
    };
    Ok(Some(Stored {
        when: fs::metadata(dir.join(mark))?.modified()?,
        bytes: manifest::size(dir)?,
        kind: list.as_ref().map(|m| m.kind),
        title: list.map_or_else(String::new, |m| m.title),
        dir: dir.into(),
        state,
    }))
}

/// Returns the folders of `all` (the oldest first) that the limits remove, in the same order.
/// Folders that are in use or have no list of their files stay, and count towards the size.
pub fn beyond<'a>(all: &'a [Stored], limits: &Limits, now: SystemTime) -> Vec<&'a Stored> {
    // Bytes of the folders that would stay.
    let mut left: u64 = all.iter().map(|s| s.bytes).sum();
    let mut taken = Vec::new();
    for s in all {
        if matches!(s.state, Completeness::InUse | Completeness::Unlisted) {
            continue;
        }
        // A folder with a time in the future counts as new.
        let age = now.duration_since(s.when).unwrap_or_default();
        let old = limits.older_than.is_some_and(|most| age > most);
        let much = limits.keep_below.is_some_and(|most| left > most);
        if old || much {
            left -= s.bytes;
            taken.push(s);
        }
    }
    taken
}

/// Removes a results folder, and its parent if that is empty afterwards. Returns the reason if the
/// folder was left alone, `None` if it was removed. Only files that Lowmark wrote and that are
/// unchanged are removed.
///
/// # Errors
/// Returns the error of the system.
pub fn remove(stored: &Stored) -> io::Result<Option<String>> {
    let dir = &stored.dir;
    let partial = match dir.file_name() {
        Some(name) if !is_partial(name) => {
            let mut name = name.to_owned();
            name.push(".partial");
            dir.with_file_name(name)
        }
        _ => dir.clone(),
    };
    let lock = match log::opened(&partial) {
        Ok(log) => Some(log),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    if let Some(log) = &lock
        && matches!(log.try_lock(), Err(TryLockError::WouldBlock))
    {
        return Ok(Some("a run is still writing to it".into()));
    }
    let here = std::env::current_dir().and_then(fs::canonicalize);
    if here.is_ok_and(|here| fs::canonicalize(dir).is_ok_and(|dir| here.starts_with(dir))) {
        return Ok(Some("is the working folder, or one above it".into()));
    }
    let log = if *dir == partial { &[LOG][..] } else { &[] };
    match manifest::inspect_beside(dir, log)? {
        Contents::Absent => return Ok(None),
        Contents::Foreign(what) => return Ok(Some(what)),
        Contents::Ours(_) | Contents::Empty => {}
    }
    if !log.is_empty() && lock.is_some() {
        // The log goes last: it identifies the folder as long as other files are left.
        if listed(dir).is_some() {
            manifest::remove(dir)?;
        }
        fs::remove_file(dir.join(LOG))?;
        manifest::gone(fs::remove_dir(dir))?;
    } else {
        manifest::remove(dir)?;
    }
    if let Some(parent) = dir.parent() {
        mend_latest(parent)?;
        if !parent.as_os_str().is_empty() {
            // Fails if the parent has other files in it, and then stays.
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(None)
}

/// Points a dangling link `latest` in a folder to the newest complete results beside it, or removes
/// it if there are none.
fn mend_latest(parent: &Path) -> io::Result<()> {
    let latest = parent.join("latest");
    let dangling = fs::symlink_metadata(&latest).is_ok_and(|m| m.is_symlink())
        && fs::metadata(&latest).is_err();
    if !dangling {
        return Ok(());
    }
    let mut beside = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        if listed(&path).is_some_and(|m| m.complete)
            && !path.file_name().is_some_and(is_partial)
            && let Some(stored) = stored(&path)?
        {
            beside.push((stored.when, path));
        }
    }
    match beside.into_iter().max() {
        Some((_, path)) => point_latest(parent, path.file_name().unwrap_or(OsStr::new(""))),
        None => fs::remove_file(latest),
    }
}
