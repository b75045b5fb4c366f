//! The guest's process: started so that it depends on nothing of the host, and killed with its
//! owner.

use nix::sys::personality::{self, Persona};
use std::fs::{File, read_to_string};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Standard input, output and error of a guest's process.
#[derive(Debug)]
pub enum Console {
    /// No input, output into a file.
    File(File),
    /// A terminal.
    Terminal(File),
}

/// A file descriptor that a process is started with.
pub struct Passed<'a> {
    /// The file.
    pub file: &'a File,
    /// The descriptor's number in the process.
    pub number: i32,
}

/// A guest's process and the processes that it started.
pub struct Process {
    child: Child,
    peak: u64,
}

impl Process {
    /// Starts a program in `folder` with only these arguments, variables (`env`) and file
    /// descriptors (`passed`). Address randomisation is off, and the program is killed when the
    /// thread that started it ends.
    ///
    /// # Errors
    /// The program can't be started.
    pub fn start(
        program: &Path,
        args: &[String],
        env: &[(&str, String)],
        folder: &Path,
        console: Console,
        passed: &[Passed<'_>],
    ) -> io::Result<Self> {
        let (stdin, console) = match console {
            Console::File(file) => (Stdio::null(), file),
            Console::Terminal(terminal) => (terminal.try_clone()?.into(), terminal),
        };
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(env.iter().map(|(k, v)| (k, v)))
            .current_dir(folder)
            .stdin(stdin)
            .stderr(console.try_clone()?)
            .stdout(console);
        let fds: Vec<(i32, i32)> = passed
            .iter()
            .map(|p| (p.file.as_raw_fd(), p.number))
            .collect();
        before_exec(&mut command, fds);
        Ok(Self {
            child: command.spawn()?,
            peak: 0,
        })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the process runs; samples its peak memory as well.
    pub fn alive(&mut self) -> bool {
        self.look();
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Samples the process's peak memory (`VmHWM`).
    pub fn look(&mut self) {
        self.peak = self
            .peak
            .max(status(&self.child.id().to_string(), &["VmHWM"]));
    }

    /// Returns the peak memory in bytes, as far as it was sampled.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the CPU time of the process and its threads in nanoseconds; 0 if the host does not
    /// say.
    pub fn cpu_ns(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let ran = |task: std::fs::DirEntry| -> Option<u64> {
            let text = read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        tasks.into_iter().flatten().flatten().filter_map(ran).sum()
    }

    /// Reads `len` bytes of the process's memory at `address`. The guest's kernel lies at the
    /// addresses of its executable, because address randomisation is off.
    pub fn memory(&self, address: u64, len: usize) -> io::Result<Vec<u8>> {
        let memory = File::open(format!("/proc/{}/mem", self.child.id()))?;
        let mut bytes = vec![0; len];
        memory.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    }

    /// Waits until the process has ended, for at most `wait_ms` milliseconds. Returns its status,
    /// or `None` if it still runs.
    ///
    /// # Errors
    /// The host can't wait for the process.
    pub fn ended(&mut self, wait_ms: u64) -> io::Result<Option<ExitStatus>> {
        for _ in 0..wait_ms.div_ceil(5) {
            self.look();
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.child.try_wait()
    }
}

impl Drop for Process {
    /// Kills the guest and the user processes that it started, and waits for its end.
    fn drop(&mut self) {
        // User-Mode Linux makes itself the leader of a session. Its user processes die with it
        // (they have requested a signal at its death); the signal to the group reaches those that
        // have not yet done so.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sum of the given lines (such as `VmHWM`) of a process's `/proc/PID/status` in bytes;
/// `self` is this process, and a missing line counts as 0.
fn status(process: &str, lines: &[&str]) -> u64 {
    let text = read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kb = |line: &str| -> Option<u64> {
        let (name, value) = line.split_once(':')?;
        let value = value.trim().strip_suffix("kB")?;
        lines.contains(&name).then(|| value.trim().parse().ok())?
    };
    text.lines().filter_map(kb).sum::<u64>() * 1024
}

/// Returns the memory of this program in bytes, without the guests' memory that it maps.
pub fn own() -> u64 {
    status("self", &["RssAnon", "RssFile"])
}

/// Prepares the new process between fork and exec: switches address randomisation off, has it
/// killed with its parent, and copies the descriptors `fds` (from, to).
#[allow(unsafe_code)]
fn before_exec(command: &mut Command, fds: Vec<(i32, i32)>) {
    let prepare = move || {
        let persona = personality::get()?;
        personality::set(persona | Persona::ADDR_NO_RANDOMIZE)?;
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        for &(from, to) in &fds {
            // SAFETY: `from` is open, as the caller's files are; nothing owns `to` yet, and its
            // owner is forgotten at once, so that it stays open for the program.
            let copy = unsafe { nix::unistd::dup2_raw(BorrowedFd::borrow_raw(from), to)? };
            let _ = copy.into_raw_fd();
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, nothing is allocated and no lock is
    // taken; descriptors are copied to numbers above those that the standard library uses, and the
    // files that they are copied from live until the process is started.
    unsafe {
        command.pre_exec(prepare);
    }
}
