//! What has to be undone of what was set on the running Linux, written down before it is set.
//!
//! A file in `/run/lowmark`, which goes as settings do when the machine is booted. Whoever set something holds
//! the file's lock; where the lock is free, nobody will undo what stands there, so the next one who comes by does.
//! And somebody does at once: a process that waits for the end of ours ([`Undo::guard`]).

use super::tracefs::Tracefs;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where files are kept that say what has to be undone.
pub const FOLDER: &str = "/run/lowmark";

/// The end of their names.
const END: &str = "undo";

/// Something to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Remove an instance of tracefs.
    Instance(String),
    /// Write a setting back, if it is what we wrote: who else wrote it wants it so.
    Setting {
        /// The file.
        path: PathBuf,
        /// What was in it before, without the end of the line.
        was: String,
        /// What we are about to write, or have written last.
        ours: String,
    },
}

impl Action {
    fn line(&self) -> String {
        match self {
            Self::Instance(name) => format!("instance\t{name}\n"),
            Self::Setting { path, was, ours } => {
                format!("setting\t{}\t{was}\t{ours}\n", path.display())
            }
        }
    }

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

    /// Undoes it; what was done, if anything was.
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
                Ok(Some(format!("{} is {was} again", path.display())))
            }
        }
    }
}

/// What names of ours begin with.
const PREFIX: &str = "lowmark-";

/// A list of what has to be undone, and the lock on it.
#[derive(Debug)]
pub struct Undo {
    path: PathBuf,
    name: String,
    file: File,
    actions: Vec<Action>,
}

impl Undo {
    /// An empty list in a folder, under a name that nobody has.
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
                    // Who sweeps may have taken it for one that was left before it was locked.
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

    /// A name that nobody else has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes something down that is about to be done. The last that is said of a file holds.
    ///
    /// # Errors
    /// It could not be written, so it must not be done.
    pub fn add(&mut self, action: Action) -> io::Result<()> {
        self.file.write_all(action.line().as_bytes())?;
        self.actions.push(action);
        Ok(())
    }

    /// Undoes all of it; says what was done.
    ///
    /// # Errors
    /// Something could not be undone, and is still written down.
    pub fn undo(&mut self) -> io::Result<Vec<String>> {
        let said = undo(&self.actions)?;
        self.done()?;
        Ok(said)
    }

    /// Nothing has to be undone any more.
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

    /// Starts a process that undoes it as soon as ours has ended, however that was: `program` with these arguments
    /// and the file behind them has to call [`wait_and_undo`].
    ///
    /// # Errors
    /// It can't be started.
    pub fn guard(&self, program: &Path, arguments: &[&str]) -> io::Result<Guard> {
        let child = Command::new(program)
            .args(arguments)
            .arg(&self.path)
            // A key that interrupts us is not for it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Guard(child))
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.actions.is_empty() {
            // Nothing was done that has to be undone.
            let _ = self.done();
        }
    }
}

/// Who watches over a list; it ends with this.
#[derive(Debug)]
pub struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // The end of its input is what it waits for; by now there is nothing to undo.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits for the end of the standard input, which is that of the process at its other end, and undoes what stands
/// in a file.
///
/// # Errors
/// It could not be undone.
pub fn wait_and_undo(path: &Path) -> io::Result<()> {
    let _ = io::stdin().read_to_end(&mut Vec::new());
    match File::open(path) {
        Ok(file) => {
            file.lock()?;
            undo_file(path).map(drop)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Undoes what processes left that ended in the middle; says what was done, or could not be.
pub fn sweep(folder: &Path) -> Vec<String> {
    let mut said = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != END) {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        match file.try_lock() {
            Ok(()) => match undo_file(&path) {
                Ok(done) => said.extend(done),
                Err(e) => said.push(format!("{} could not be undone: {e}", path.display())),
            },
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => said.push(format!("{}: {e}", path.display())),
        }
    }
    said
}

/// Undoes what stands in a file whose lock we have, and removes it.
fn undo_file(path: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let actions: Vec<Action> = text.lines().filter_map(Action::of).collect();
    let said = undo(&actions)?;
    fs::remove_file(path)?;
    Ok(said)
}

/// Undoes a list: of each setting what was said last, to what was there at first.
fn undo(actions: &[Action]) -> io::Result<Vec<String>> {
    let mut said = Vec::new();
    let mut settings: Vec<Action> = Vec::new();
    for action in actions {
        match action {
            Action::Instance(_) => said.extend(action.undo()?),
            Action::Setting { path, ours, .. } => {
                let same = settings
                    .iter_mut()
                    .find(|a| matches!(a, Action::Setting { path: other, .. } if other == path));
                match same {
                    // Between the line and the writing we may have ended, so both are ours.
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
        said.extend(action.undo()?);
    }
    Ok(said)
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
        // Ended before the last value was written, and after.
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
