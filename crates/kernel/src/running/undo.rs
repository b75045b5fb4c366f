//! An undo log of changes to the running Linux, written before each change.
//!
//! The log is a file in `/run/lowmark`, which a reboot clears as it does the settings. The process
//! that made the changes holds the file's lock; where the lock is free that process has died, and
//! the next start undoes the changes. A guard process that waits for the end of ours undoes them at
//! once ([`Undo::guard`]).

use super::tracefs::Tracefs;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The folder of undo logs.
pub const FOLDER: &str = "/run/lowmark";

/// The extension of their names.
const END: &str = "undo";
/// Longest undo log that is read, in bytes.
const MOST: u64 = 16 << 20;

/// A change to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Remove an instance of tracefs.
    Instance(String),
    /// Restore a setting, if it still has the value that we wrote: another process that has written
    /// it since wants its own value.
    Setting {
        /// The setting's file.
        path: PathBuf,
        /// The value before, without the newline.
        was: String,
        /// The value that we are about to write, or have written last.
        ours: String,
    },
}

impl Action {
    /// Returns the line of an undo log for this change.
    fn line(&self) -> String {
        match self {
            Self::Instance(name) => format!("instance\t{name}\n"),
            Self::Setting { path, was, ours } => {
                format!("setting\t{}\t{was}\t{ours}\n", path.display())
            }
        }
    }

    /// Reads a line of an undo log; `None` if it is none, or names an instance that is not ours.
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["instance", name] if !name.contains('/') && name.starts_with(PREFIX) => {
                Some(Self::Instance(name.to_owned()))
            }
            ["setting", path, was, ours] => Some(Self::Setting {
                path: path.into(),
                was: was.to_owned(),
                ours: ours.to_owned(),
            }),
            _ => None,
        }
    }

    /// Undoes the change; returns a description, or `None` if nothing had to be done.
    fn undo(&self) -> io::Result<Option<String>> {
        match self {
            Self::Instance(name) => {
                let tracefs = Tracefs::find()?;
                tracefs.remove(name)?;
                Ok(Some(format!("removed the instance {name} of tracefs")))
            }
            Self::Setting { path, was, ours } => {
                let now = fs::read_to_string(path)?;
                if now.trim_end() != ours || ours == was {
                    return Ok(None);
                }
                fs::write(path, was)?;
                Ok(Some(format!("{} was set back to {was}", path.display())))
            }
        }
    }
}

/// The start of instance names.
const PREFIX: &str = "lowmark-";

/// An undo log and its lock.
#[derive(Debug)]
pub struct Undo {
    path: PathBuf,
    name: String,
    file: File,
    actions: Vec<Action>,
}

impl Undo {
    /// Makes and locks an empty log in a folder, under a unique name.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for number in 0_u32.. {
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = folder.join(format!("{name}.{END}"));
            let file = OpenOptions::new().append(true).create_new(true).open(&path);
            match file {
                Ok(file) => {
                    file.lock()?;
                    // A sweep may have removed the file before it was locked.
                    if !path.exists() {
                        continue;
                    }
                    return Ok(Self {
                        path,
                        name,
                        file,
                        actions: Vec::new(),
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        unreachable!("there are more numbers than files")
    }

    /// Returns the log's unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Logs a change that is about to be made. If a setting is logged more than once, undoing gives
    /// it the old value of the first entry, provided that it still has the new value of the last.
    ///
    /// # Errors
    /// The log could not be written, so the change must not be made.
    pub fn add(&mut self, action: Action) -> io::Result<()> {
        self.file.write_all(action.line().as_bytes())?;
        self.actions.push(action);
        Ok(())
    }

    /// Undoes all changes and removes the log; returns descriptions.
    ///
    /// # Errors
    /// A change could not be undone, and stays in the log.
    pub fn undo(&mut self) -> io::Result<Vec<String>> {
        let descriptions = undo(&self.actions)?;
        self.done()?;
        Ok(descriptions)
    }

    /// Discards the log and removes its file: nothing is left to undo.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn done(&mut self) -> io::Result<()> {
        self.actions.clear();
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Starts a process that undoes the changes as soon as this process has ended in any way.
    /// `program`, called with `arguments` and the log's path, has to call [`wait_and_undo`].
    ///
    /// # Errors
    /// The program can't be started.
    pub fn guard(&self, program: &Path, arguments: &[&str]) -> io::Result<Guard> {
        let child = Command::new(program)
            .args(arguments)
            .arg(&self.path)
            // In its own process group, so that Ctrl-C does not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Guard(child))
    }
}

impl Drop for Undo {
    /// Removes the log if no change is left in it; otherwise the next start undoes the changes.
    fn drop(&mut self) {
        if self.actions.is_empty() {
            // No change was made, so the log is not needed.
            let _ = self.done();
        }
    }
}

/// The process that guards a log; ended on drop.
#[derive(Debug)]
pub struct Guard(Child);

impl Drop for Guard {
    /// Ends the guard: closes its input, for whose end it waits, and waits until it has exited.
    fn drop(&mut self) {
        // The guard waits for the end of its input; by now there is nothing to undo.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits for the end of standard input, which means that the process at its other end has gone,
/// then undoes the changes in the log `path`. The guard of an undo log does that ([`Undo::guard`]).
///
/// # Errors
/// A change could not be undone.
pub fn wait_and_undo(path: &Path) -> io::Result<()> {
    let _ = io::stdin().read_to_end(&mut Vec::new());
    match input::file(path) {
        Ok(file) => {
            file.lock()?;
            undo_file(path).map(drop)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Undoes the logs in a folder whose processes have died, which a free lock shows; returns what was
/// done, or failed.
pub fn sweep(folder: &Path) -> Vec<String> {
    let mut descriptions = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != END) {
            continue;
        }
        let Ok(file) = input::file(&path) else {
            continue;
        };
        match file.try_lock() {
            Ok(()) => match undo_file(&path) {
                Ok(done) => descriptions.extend(done),
                Err(e) => descriptions.push(format!("{} could not be undone: {e}", path.display())),
            },
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => descriptions.push(format!("{}: {e}", path.display())),
        }
    }
    descriptions
}

/// Undoes the log in a file whose lock is held, and removes it; returns descriptions.
fn undo_file(path: &Path) -> io::Result<Vec<String>> {
    let text = match input::text(path, MOST) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let actions: Vec<Action> = text.lines().filter_map(Action::of).collect();
    let descriptions = undo(&actions)?;
    fs::remove_file(path)?;
    Ok(descriptions)
}

/// Undoes a list of changes: removes instances of tracefs, and gives each setting that still has
/// the last value written its first one again. Returns descriptions.
fn undo(actions: &[Action]) -> io::Result<Vec<String>> {
    let mut descriptions = Vec::new();
    let mut settings: Vec<Action> = Vec::new();
    for action in actions {
        match action {
            Action::Instance(_) => descriptions.extend(action.undo()?),
            Action::Setting { path, ours, .. } => {
                let same = settings
                    .iter_mut()
                    .find(|a| matches!(a, Action::Setting { path: other, .. } if other == path));
                match same {
                    // The process may have died between the log entry and the write, so both values
                    // are ours.
                    Some(Action::Setting { ours: last, .. }) if last != ours => {
                        let before = std::mem::replace(last, ours.clone());
                        let now = fs::read_to_string(path)?;
                        if now.trim_end() == before {
                            *last = before;
                        }
                    }
                    Some(_) => {}
                    None => settings.push(action.clone()),
                }
            }
        }
    }
    for action in &settings {
        descriptions.extend(action.undo()?);
    }
    Ok(descriptions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(path: &Path, was: &str, ours: &str) -> Action {
        Action::Setting {
            path: path.to_owned(),
            was: was.to_owned(),
            ours: ours.to_owned(),
        }
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for action in [
            Action::Instance("lowmark-1-0".into()),
            setting(Path::new("/proc/sys/vm/x"), "10", "20 30"),
        ] {
            let line = action.line();
            assert_eq!(Action::of(line.trim_end_matches('\n')), Some(action));
        }
        assert_eq!(Action::of("instance\t../x"), None);
        assert_eq!(Action::of("instance\tother"), None, "not ours");
        assert_eq!(Action::of("setting\t/x"), None, "cut off");
    }

    #[test]
    fn a_setting_goes_back_to_what_it_was_at_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("factor");
        fs::write(&file, "10\n").unwrap();
        let mut undo = Undo::new(&dir.path().join("run")).unwrap();
        for step in ["40", "80"] {
            undo.add(setting(&file, "10", step)).unwrap();
            fs::write(&file, step).unwrap();
        }
        assert_eq!(undo.undo().unwrap().len(), 1);
        assert_eq!(fs::read_to_string(&file).unwrap(), "10");
        assert_eq!(fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_process_left_is_undone_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let (file, run) = (dir.path().join("factor"), dir.path().join("run"));
        // The process died before the last value was written, and after.
        for last in ["40", "80"] {
            fs::write(&file, last).unwrap();
            let mut undo = Undo::new(&run).unwrap();
            undo.add(setting(&file, "10", "40")).unwrap();
            undo.add(setting(&file, "10", "80")).unwrap();
            assert_eq!(sweep(&run), [""; 0], "it is held");
            drop(undo);
            assert_eq!(sweep(&run).len(), 1);
            assert_eq!(fs::read_to_string(&file).unwrap(), "10");
            assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_somebody_else_wrote_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, run) = (dir.path().join("factor"), dir.path().join("run"));
        fs::write(&file, "123").unwrap();
        let mut undo = Undo::new(&run).unwrap();
        undo.add(setting(&file, "10", "40")).unwrap();
        drop(undo);
        assert_eq!(sweep(&run), [""; 0]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "123");
    }
}
