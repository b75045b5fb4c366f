//! Programs that a build runs: checks for them, cleans their environment, and logs their output.

use super::Watch;
use super::error::BuildError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Programs that a kernel is built with, and the Debian packages that contain them.
const NEEDED: [(&str, &str); 10] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("awk", "mawk"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Parts of compiler errors, and the Debian package that provides the missing file.
const HINTS: [(&str, &str); 6] = [
    ("gelf.h", "libelf-dev"),
    ("libelf", "libelf-dev"),
    ("openssl/", "libssl-dev"),
    ("stdlib.h: No such file", "libc6-dev"),
    ("stdio.h: No such file", "libc6-dev"),
    ("linux/limits.h: No such file", "linux-libc-dev"),
];

/// Checks that the programs that a build needs are installed.
///
/// # Errors
/// Lists the missing ones, with the command that installs them.
pub fn find_tools() -> Result<(), BuildError> {
    let folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(program, _)| !folders.iter().any(|f| is_program(&f.join(program))))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(p, _)| *p).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, p)| *p).collect();
    if packages.contains(&"gcc") {
        packages.push("libc6-dev");
    }
    Err(BuildError::input(
        format!("a kernel can't be built; missing: {}", programs.join(", ")),
        format!("`apt install {}` first", packages.join(" ")),
    ))
}

/// Returns true if the path is a regular file that may be executed.
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Returns a command whose environment is empty but for `PATH`, `HOME`, `TMPDIR` and `LC_ALL`, so
/// that a build does not depend on the user's other variables.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let kept = ["PATH", "HOME", "TMPDIR"];
    let kept: Vec<(&str, OsString)> = kept
        .into_iter()
        .filter_map(|k| Some((k, std::env::var_os(k)?)))
        .collect();
    command.env_clear().envs(kept).env("LC_ALL", "C");
    command
}

/// Returns the first line of the output of a program's `--version`.
pub fn version(name: &str) -> Result<String, BuildError> {
    let output = tool(name).arg("--version").output();
    let output = output.map_err(|e| BuildError::io("can't run", Path::new(name), e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A log file of programs' output.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    /// Whether a line said that the disk is full.
    full: bool,
    /// The Debian package that seems to be missing.
    hint: Option<&'static str>,
    /// The first few lines that look like errors.
    wrong: Vec<String>,
    last: String,
}

/// How a program ended.
#[derive(Debug)]
#[must_use]
pub struct Ended(ExitStatus);

impl Ended {
    /// Turns a failed exit status into an error; `doing` names the step, such as "compiling the
    /// kernel".
    ///
    /// # Errors
    /// The program failed; the error has its complaints, or names the full disk or the missing
    /// package.
    pub fn or_failed(self, doing: &str, log: &Log) -> Result<(), BuildError> {
        if self.0.success() {
            return Ok(());
        }
        if log.full {
            return Err(BuildError::Full {
                doing: doing.into(),
                path: log.path.parent().unwrap_or(&log.path).to_owned(),
            });
        }
        if let Some(package) = log.hint {
            return Err(BuildError::input(
                format!("{doing} failed: {}", log.complaints()),
                format!("`apt install {package}` first"),
            ));
        }
        Err(BuildError::Failed {
            what: format!("{doing} failed ({}): {}", self.0, log.complaints()),
            log: log.path.clone(),
        })
    }
}

/// The interval at which a wish to stop is polled while a program prints nothing.
const LOOK: Duration = Duration::from_millis(200);
/// The number of complaint lines repeated in an error.
const REPEATED: usize = 4;

impl Log {
    /// Creates an empty log file for the output of a build's programs.
    ///
    /// # Errors
    /// The file can't be created.
    pub fn create(path: &Path) -> Result<Self, BuildError> {
        Ok(Self {
            path: path.to_owned(),
            file: File::create(path).map_err(|e| BuildError::io("can't make", path, e))?,
            full: false,
            hint: None,
            wrong: Vec::new(),
            last: String::new(),
        })
    }

    /// Returns the lines of a build's output that look like errors, or the last line if none does,
    /// to be quoted in an error.
    fn complaints(&self) -> String {
        match self.wrong.as_slice() {
            [] => self.last.clone(),
            some => some.join("; "),
        }
    }

    /// Looks at one line of output for causes of a failure: a full disk, a missing Debian package
    /// (`hint`), and the first few lines that look like errors.
    fn note(&mut self, line: &str) {
        self.full |=
            line.contains("No space left on device") || line.contains("Disk quota exceeded");
        if self.hint.is_none() {
            let found = HINTS.iter().find(|(words, _)| line.contains(words));
            let complaint = line.contains("error") || line.contains("cannot find");
            self.hint = found.filter(|_| complaint).map(|(_, package)| *package);
        }
        let wrong = ["error:", "Error:", "undefined reference", "cannot find"];
        if self.wrong.len() < REPEATED && wrong.iter().any(|w| line.contains(w)) {
            self.wrong.push(line.trim().to_owned());
        }
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut self.last);
        }
    }

    /// Runs a program to its end, writes its output into the log and passes each line to `line`.
    /// The program and its children inherit the lock file, so that no other process builds beside
    /// one that was left over. If `watch` says stop, the program is terminated.
    ///
    /// # Errors
    /// The program can't be run, its output can't be logged, or the user wants to stop.
    pub fn run(
        &mut self,
        mut command: Command,
        lock: &File,
        watch: &mut dyn Watch,
        mut line: impl FnMut(&str, &mut dyn Watch),
    ) -> Result<Ended, BuildError> {
        let program = PathBuf::from(command.get_program());
        let io = |e| BuildError::io("can't run", &program, e);
        let (reader, writer) = std::io::pipe().map_err(io)?;
        command
            .stdin(Stdio::from(lock.try_clone().map_err(io)?))
            .stdout(writer.try_clone().map_err(io)?)
            .stderr(writer);
        let mut child = command.spawn().map_err(io)?;
        // The command holds the other ends of the pipe; dropping it lets the reader see the end.
        drop(command);
        let (sender, lines) = channel();
        let reading = thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n') {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        // The first error of writing the log; it ends the program, too.
        let mut trouble = None;
        let mut stopped = false;
        loop {
            if !stopped && (watch.stopped() || trouble.is_some()) {
                stopped = true;
                // Make passes the signal on to its children.
                if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
            }
            match lines.recv_timeout(LOOK) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes);
                    self.note(&text);
                    line(&text, watch);
                    let kept = self.file.write_all(&bytes);
                    if let Err(e) = kept.and_then(|()| self.file.write_all(b"\n")) {
                        trouble = trouble.or(Some(BuildError::io("can't write", &self.path, e)));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().map_err(io)?;
        let _ = reading.join();
        if let Some(e) = trouble {
            return Err(e);
        }
        if watch.stopped() {
            return Err(BuildError::Stopped);
        }
        Ok(Ended(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn run(script: &str) -> (Result<(), BuildError>, String) {
        let dir = TempDir::new().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        let mut log = Log::create(&dir.path().join("log")).unwrap();
        let mut command = tool("sh");
        command.args(["-c", script]);
        let ended = log.run(command, &lock, &mut (), |_, _| {}).unwrap();
        let result = ended.or_failed("the trial", &log);
        (
            result,
            std::fs::read_to_string(dir.path().join("log")).unwrap(),
        )
    }

    #[test]
    fn words_are_kept_and_failures_explained() {
        let (result, log) = run("echo one; echo two >&2");
        assert!(result.is_ok());
        assert_eq!(log, "one\ntwo\n");
        let (result, _) =
            run("echo 'mm/vmscan.c:3:1: error: no such thing'; echo 'Error 2'; exit 2");
        let e = result.unwrap_err();
        assert!(
            e.to_string()
                .contains("mm/vmscan.c:3:1: error: no such thing"),
            "{e}"
        );
        let (result, _) = run("echo 'cc1: write error: No space left on device'; exit 1");
        assert!(matches!(result, Err(BuildError::Full { .. })));
        let (result, _) = run("echo 'fatal error: gelf.h: No such file'; exit 1");
        assert!(result.unwrap_err().help().unwrap().contains("libelf-dev"));
    }

    #[test]
    fn a_stop_ends_it() {
        struct Stop;
        impl Watch for Stop {
            fn step(&mut self, _: super::super::Step<'_>) {}
            fn stopped(&self) -> bool {
                true
            }
        }
        let dir = TempDir::new().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        let mut log = Log::create(&dir.path().join("log")).unwrap();
        let mut command = tool("sleep");
        command.arg("1000");
        let result = log.run(command, &lock, &mut Stop, |_, _| {});
        assert!(matches!(result, Err(BuildError::Stopped)));
    }
}
