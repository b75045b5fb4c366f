//! Runs one cell in a real kernel.

use crate::bootable::Bootable;
use crate::collect::{Disks, Heard};
use crate::disk::Disk;
use crate::guest::{self, FRAMES, arguments};
use crate::image::Images;
use crate::initramfs::Initramfs;
use crate::launch::{ERRORS, Launch};
use crate::layout::{Layout, said};
use crate::outside::{Ending, Limits, Outside, Pace, Watched};
use crate::proc;
use crate::process::{Console, Passed, Process};
use crate::qemu;
use crate::seat::Seat;
use crate::server::Server;
use crate::spec::{Guest, Kernel};
use crate::store::Store;
use ::guest::wire::{Assignment, Frame, Job};
use sim::result::{Outcome, RunResult};
use sim::sample::Names;
use sim::spec::RunSpec;
use sim::{Control, rng::fnv1a};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use workload::Source;

/// The default wall time without virtual progress after which a guest is killed.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Wall time that a guest may take to exit after it has closed its connections, in milliseconds.
const LAST_BREATH_MS: u64 = 5_000;
/// Number of the console's last lines that an error quotes.
const LAST_WORDS: usize = 6;

/// The host resources that a run took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostUse {
    /// Wall time in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the guest in nanoseconds.
    pub cpu_ns: u64,
    /// Peak memory in bytes: the guest's process at its peak, plus this program at the run's end,
    /// including memory for other runs.
    pub peak_bytes: u64,
}

/// Runs a cell in its kernel; the result is deterministic in `spec` and `kernel`. A guest without
/// virtual progress for more than `patience` of wall time is killed. Returns the result, in which a
/// failure is an outcome, and the host's resources that the run took.
pub fn run(
    spec: &RunSpec,
    kernel: &Kernel,
    patience: Duration,
    control: &Control,
) -> (RunResult, HostUse) {
    let begun = Instant::now();
    let _seat = Seat::take();
    let mut used = HostUse::default();
    let ran = Run::new(spec, kernel, patience).map_err(Stop::Failed);
    let ran = ran.and_then(|run| run.go(control, &mut used));
    // Measured when this program holds all frames of the guest.
    used.peak_bytes += crate::process::own();
    used.wall_ns = begun.elapsed().as_nanos() as u64;
    let result = ran.unwrap_or_else(|stop| {
        RunResult::of_kernel(match stop {
            Stop::Failed(error) => Outcome::Failed { error },
            Stop::Interrupted => Outcome::Interrupted,
        })
    });
    (result, used)
}

/// Boots a guest with a shell at the user's terminal (`sitter`) and serves it until the shell ends,
/// or the user interrupts.
///
/// # Errors
/// The guest can't be started, or fails.
pub(crate) fn sit(
    spec: &RunSpec,
    kernel: &Kernel,
    sitter: Sitter<'_>,
    control: &Control,
) -> Result<(), String> {
    if kernel.guest == Guest::Qemu {
        return Err(
            "a shell runs in guests of User-Mode Linux: a machine with one CPU, one node \
                    and one zone"
                .to_owned(),
        );
    }
    let run = Run::new(spec, kernel, PATIENCE)?;
    match run.sit(sitter, control) {
        Ok(()) | Err(Stop::Interrupted) => Ok(()),
        Err(Stop::Failed(why)) => Err(why),
    }
}

/// A setting that a kernel does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The sysctl's whole name, with points unless a part of it has one, or `lru_gen`.
    pub name: String,
    /// The text to write.
    pub text: String,
    /// The kernel's error.
    pub why: String,
    /// The names of settings in the same folder.
    pub known: Vec<String>,
}

/// Boots a kernel with a machine's memory and tries the settings of a run: sysctls, also those
/// changed in mid-run, and `lru_gen`. Returns the first that the kernel does not accept; `None`: it
/// accepts all, or there are none.
///
/// # Errors
/// There is no such kernel, or its guest does not boot.
pub fn refuses(
    spec: &RunSpec,
    kernel: &Kernel,
    patience: Duration,
    control: &Control,
) -> Result<Option<Refused>, String> {
    let job = guest::trial(spec, kernel);
    if job.settings.is_empty() && job.groups.is_empty() {
        return Ok(None);
    }
    let run = Run::new(spec, kernel, patience)?;
    let boot = Boot::with(&job, Vec::new());
    let after = run.guest(boot, control, &mut HostUse::default())?;
    if let Some((nth, why, beside)) = after.heard.refused() {
        let (path, text) = &job.settings[nth];
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let known = beside
            .iter()
            .map(|name| guest::setting_name(&format!("{folder}/{name}")));
        return Ok(Some(Refused {
            name: guest::setting_name(path),
            text: text.clone(),
            why: why.to_owned(),
            known: known.collect(),
        }));
    }
    if after.heard.complete() && after.heard.failure().is_none() {
        return Ok(None);
    }
    Err(after.why())
}

/// Boots a kernel with a machine's memory. Returns the pages of each zone that its allocator owns,
/// by the zone's name. All other pages hold the kernel's text and data and the descriptors of
/// pages.
///
/// # Errors
/// There is no such kernel, its guest does not boot, or it was stopped.
pub fn owned(
    spec: &RunSpec,
    kernel: &Kernel,
    patience: Duration,
    control: &Control,
) -> Result<Vec<(String, u64)>, String> {
    let job = guest::survey(spec);
    let run = Run::new(spec, kernel, patience)?;
    let boot = Boot::with(&job, Vec::new());
    let after = run.guest(boot, control, &mut HostUse::default())?;
    let zones = after.heard.last(guest::ZONEINFO).map(proc::zones);
    match zones {
        Some(zones) if !zones.is_empty() => {
            Ok(zones.into_iter().map(|z| (z.name, z.managed)).collect())
        }
        _ => Err(after.why()),
    }
}

/// The reason why there is no result.
enum Stop {
    Failed(String),
    Interrupted,
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A run and its folder, which is removed with it.
struct Run<'a> {
    spec: &'a RunSpec,
    kernel: &'a Kernel,
    bootable: Bootable,
    patience: Duration,
    folder: TempDir,
}

/// The user at a guest's console.
pub(crate) struct Sitter<'a> {
    /// The guest's end of the terminal.
    pub terminal: File,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Called with the id of the guest's process.
    pub started: &'a mut dyn FnMut(u32),
}

/// The inputs of a guest's boot.
struct Boot<'j, 's> {
    job: &'j Job,
    /// A file of the host to add to the guest's initramfs.
    file: Option<PathBuf>,
    disks: Vec<Disk>,
    seed: u64,
    sitter: Option<Sitter<'s>>,
}

impl<'j> Boot<'j, '_> {
    /// Returns the inputs of a guest's boot for this job with these disks: seed 0, no file of the
    /// host, no user at the console.
    fn with(job: &'j Job, disks: Vec<Disk>) -> Self {
        Self {
            job,
            file: None,
            disks,
            seed: 0,
            sitter: None,
        }
    }
}

/// Returns a function that formats an error as `what: why`, for `map_err`.
fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |why| format!("{what}: {why}")
}

impl<'a> Run<'a> {
    /// Prepares a run in a temporary folder with the built kernel that the cell names. `patience`
    /// is the wall time without virtual progress after which the guest is killed.
    ///
    /// # Errors
    /// There is no such kernel, or its timer or zones don't fit the machine.
    fn new(spec: &'a RunSpec, kernel: &'a Kernel, patience: Duration) -> Result<Self, String> {
        let bootable = Bootable::find(spec, kernel)?;
        let folder = tempfile::Builder::new().prefix("lowmark-").tempdir();
        Ok(Self {
            spec,
            kernel,
            bootable,
            patience,
            folder: folder.map_err(of("a folder for the run"))?,
        })
    }

    /// Returns the path of a file in the run's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lays out the disks, boots the guest, serves it until the workload has ended, and returns the
    /// result. Adds to `used` what the guest took of the host.
    fn go(&self, control: &Control, used: &mut HostUse) -> Result<RunResult, Stop> {
        let mut disks = self.disks(self.stores(control)?);
        if let Source::Foreign(foreign) = &self.spec.workload.source {
            let made = self.bootable.preload_and_digest();
            let path = self.layout(&made)?.root(foreign).map_err(|e| said(&e))?;
            let image = File::open(&path).and_then(Store::new);
            // The user's folder is no part of the modelled machine, so reading it takes no time.
            disks.push(Disk::at_once(image.map_err(of(path.display()))?).holding_programs());
        }
        let (job, file) = guest::job(self.spec, self.kernel, Assignment::Run, &disks)?;
        let boot = Boot {
            file,
            seed: self.spec.seed,
            ..Boot::with(&job, disks)
        };
        let after = self.guest(boot, control, used)?;
        Ok(self.result(after))
    }

    /// Boots a guest with a shell at a terminal of the user's (`sitter`: the terminal and its size)
    /// and returns when the shell exits or the guest powers itself off.
    ///
    /// # Errors
    /// Returns the failure that the guest reported, or its ending if that was another one.
    fn sit(&self, sitter: Sitter<'_>, control: &Control) -> Result<(), Stop> {
        let disks = self.disks(self.stores(control)?);
        let (mut job, file) = guest::job(self.spec, self.kernel, Assignment::Shell, &disks)?;
        job.terminal = sitter.size;
        let boot = Boot {
            file,
            seed: self.spec.seed,
            sitter: Some(sitter),
            ..Boot::with(&job, disks)
        };
        let after = self.guest(boot, control, &mut HostUse::default())?;
        match after.ending {
            // A guest that powers itself off has ended as properly as one whose shell exits.
            Ending::Done | Ending::Gone | Ending::Stopped => after
                .heard
                .failure()
                .map_or(Ok(()), |why| Err(why.to_owned().into())),
            _ => Err(format!("{:?}", after.outcome()).into()),
        }
    }

    /// Describes the disks at the start of the workload. `made` holds the library and the digest
    /// that the layout refers to.
    fn layout<'b>(&'b self, made: &'b (PathBuf, &'b str)) -> Result<Layout<'b>, String> {
        let cache = crate::build::Cache::of_user().map_err(|e| e.to_string())?;
        let images = Images::at(cache.images());
        let made = (made.0.as_path(), made.1);
        Ok(Layout::new(self.spec, made, images, self.folder.path()))
    }

    /// Returns the contents of the disks at the start of the workload. Disks with files are laid
    /// out once, by a guest whose disks take no time, and kept for later runs.
    fn stores(&self, control: &Control) -> Result<Vec<Store>, Stop> {
        let made = self.bootable.preload_and_digest();
        let layout = self.layout(&made)?;
        let fresh = || layout.fresh().map_err(|e| said(&e));
        let stores = || -> Result<Vec<Store>, String> {
            layout.paths.iter().map(|path| open(path)).collect()
        };
        if !layout.finds() {
            fresh()?;
            return Ok(stores()?);
        }
        let job = guest::preparation(self.spec);
        let args = match &self.bootable {
            Bootable::Uml(_) => arguments(self.spec, self.kernel, job.task, &[]),
            Bootable::Qemu(_) => qemu::start::kernel_arguments(&self.spec.machine),
        };
        let key = layout.key(&job, &args)?;
        // `again` copies the disks kept under this key by an earlier run, if there are any.
        if !layout.again(&key).map_err(|e| said(&e))? {
            fresh()?;
            let disks = stores()?.into_iter().map(Disk::at_once).collect();
            let mut used = HostUse::default();
            let after = self.guest(Boot::with(&job, disks), control, &mut used)?;
            if matches!(after.ending, Ending::Stopped) {
                return Err(Stop::Interrupted);
            }
            if !after.heard.complete() || after.heard.failure().is_some() {
                return Err(format!("its disks could not be laid out: {}", after.why()).into());
            }
            // The disks' files now hold the guest's writes.
            drop(after);
            layout.keep(&key).map_err(|e| said(&e))?;
        }
        Ok(stores()?)
    }

    /// Makes the machine's disks, which take the time of their device models, over these contents.
    fn disks(&self, stores: Vec<Store>) -> Vec<Disk> {
        let RunSpec {
            machine,
            params,
            seed,
            ..
        } = self.spec;
        let specs = guest::disks(machine).zip(stores).enumerate();
        // Swap is the last disk, or a part of the first.
        let of_swap = match (&machine.swap, guest::swap_is_shared(self.spec)) {
            (None, _) => None,
            (Some(_), true) => Some(0),
            (Some(_), false) => Some(guest::disks(machine).count() - 1),
        };
        specs
            .map(|(i, (spec, store))| {
                let disk = Disk::new(spec, params, *seed, &format!("disk{i}"), store);
                match of_swap == Some(i) {
                    true => disk.holding_programs(),
                    false => disk,
                }
            })
            .collect()
    }

    /// Writes the initramfs of a guest: the first process, its job, a shell's programs if a user
    /// sits at it, and the trace to replay (`file`).
    fn boot_from(&self, job: &Job, file: Option<PathBuf>) -> Result<(), String> {
        let task = job.task;
        let job = serde_json::to_vec(job).map_err(of("the guest's job"))?;
        let trace = match &file {
            Some(from) => {
                let name = from.file_name().unwrap_or_default().to_string_lossy();
                let bytes = fs::read(from).map_err(of(from.display()))?;
                Some((format!("/trace/{name}"), bytes))
            }
            None => None,
        };
        let mut initramfs = Initramfs::new(crate::guest_binary()?)
            .file(::guest::wire::JOB, &job, false)
            .map_err(of("the initramfs"))?;
        let busybox = match task {
            Assignment::Shell => Some(crate::shell::busybox()?),
            Assignment::Prepare | Assignment::Run | Assignment::Try => None,
        };
        if let Some(busybox) = &busybox {
            initramfs = initramfs
                .file(::guest::wire::BUSYBOX, busybox, true)
                .map_err(of("the initramfs"))?;
        }
        if let Some((path, bytes)) = &trace {
            initramfs = initramfs
                .file(path, bytes, false)
                .map_err(of("the initramfs"))?;
        }
        let modules = match &self.bootable {
            Bootable::Uml(_) => Vec::new(),
            Bootable::Qemu(found) => found.modules(self.spec, task)?,
        };
        for (path, bytes) in &modules {
            initramfs = initramfs
                .file(path, bytes, false)
                .map_err(of("the initramfs"))?;
        }
        initramfs
            .archive()
            .map_err(of("the initramfs"))
            .and_then(|bytes| fs::write(self.path("initrd"), bytes).map_err(of("the initramfs")))?;
        Ok(())
    }

    /// Boots a guest and serves its clock and disks to its end. Returns all that it sent and how it
    /// ended; adds to `used` what it took of the host.
    fn guest(
        &self,
        boot: Boot<'_, '_>,
        control: &Control,
        used: &mut HostUse,
    ) -> Result<After, String> {
        let Boot {
            job,
            file,
            disks,
            seed,
            mut sitter,
        } = boot;
        let task = job.task;
        self.boot_from(job, file)?;
        let (launch, mut server) = self.launch(task, seed, disks)?;
        let terminal = sitter.as_ref().map(|s| s.terminal.try_clone());
        let terminal = terminal.transpose().map_err(of("the terminal"))?;
        let sits = terminal.is_some();
        let mut process = self.start(&launch, terminal)?;
        if let Some(sitter) = &mut sitter {
            (sitter.started)(process.id());
        }
        let limits = Limits {
            time_ns: match task {
                Assignment::Run => self.spec.time_limit_ns,
                Assignment::Prepare | Assignment::Try | Assignment::Shell => 0,
            },
            patience: if sits { Duration::MAX } else { self.patience },
            pace: if sits { Pace::Ours } else { Pace::Free },
        };
        let mut watched = OfRun {
            process: &mut process,
            frames: File::open(self.path("frames")).map_err(of("what the guest says"))?,
            seen: 0,
            bye: Frame::Bye.to_bytes(),
        };
        let ending = server.serve(limits, control, &mut watched);
        process.look();
        let heard = || -> Result<Heard, String> {
            let heard = Heard::read(&|| {
                let file = File::open(self.path("frames"))?;
                Ok(Box::new(BufReader::new(file)))
            });
            heard.map_err(of("what the guest said"))
        };
        let mut all = heard()?;
        // A guest that has sent its last frame may hang while powering off, without its disks; such
        // a guest is not waited for.
        if matches!(ending, Ending::Gone) && !all.complete() {
            process.ended(LAST_BREATH_MS).map_err(of("the guest"))?;
            all = heard()?;
        }
        // The task that computes without end, if the guest was killed for that.
        let running = matches!(ending, Ending::Hung(_)).then(|| self.bootable.running(&process));
        used.cpu_ns += process.cpu_ns();
        used.peak_bytes = used.peak_bytes.max(process.peak());
        drop(process);
        Ok(After {
            ending,
            heard: all,
            words: self.last_words(),
            running: running.flatten(),
            server,
        })
    }

    /// Returns the last lines of the guest's console, or of QEMU's errors if it has none.
    fn last_words(&self) -> String {
        match last_words(&self.path(qemu::start::CONSOLE)) {
            none if none == NO_WORDS => last_words(&self.path(ERRORS)),
            words => words,
        }
    }

    /// Makes the world of a guest with these disks, and says how its process is started. Removes
    /// the sockets that an earlier guest of this run left.
    fn launch(
        &self,
        task: Assignment,
        seed: u64,
        disks: Vec<Disk>,
    ) -> Result<(Launch, Box<dyn Outside>), String> {
        let ports = (0..disks.len()).map(crate::server::port_name);
        let others = [
            crate::server::CLOCK,
            qemu::server::CONTROL,
            qemu::start::CONSOLE,
        ];
        for socket in ports.chain(others.map(str::to_owned)) {
            let _ = fs::remove_file(self.path(&socket));
        }
        let frames = create(&self.path("frames"))?;
        let sockets = "the guest's sockets";
        match &self.bootable {
            Bootable::Uml(built) => {
                let launch = Launch {
                    program: built.linux.clone(),
                    args: arguments(self.spec, self.kernel, task, &disks),
                    env: vec![
                        ("HOME", ".".to_owned()),
                        (
                            "TMPDIR",
                            memory_folder(guest::memory(&self.spec.machine), self.folder.path()),
                        ),
                        ("LD_PRELOAD", built.preload.display().to_string()),
                        ("LOWMARK_SEED", seed.to_string()),
                    ],
                    output: qemu::start::CONSOLE,
                    files: vec![(frames, FRAMES)],
                };
                let server = Server::new(self.folder.path(), disks).map_err(of(sockets))?;
                Ok((launch, Box::new(server)))
            }
            Bootable::Qemu(found) => {
                let (launch, memory) = found.launch(self.spec, seed, disks.len())?;
                let folder = self.folder.path();
                let server = qemu::server::Server::new(folder, memory, disks, frames);
                Ok((launch, Box::new(server.map_err(of(sockets))?)))
            }
        }
    }

    /// Starts a guest's process, on `terminal` if there is one.
    fn start(&self, launch: &Launch, terminal: Option<File>) -> Result<Process, String> {
        let file = create(&self.path(launch.output))?;
        let console = terminal.map_or(Console::File(file), Console::Terminal);
        let passed: Vec<Passed<'_>> = launch
            .files
            .iter()
            .map(|(file, number)| Passed {
                file,
                number: *number,
            })
            .collect();
        let (program, folder) = (&launch.program, self.folder.path());
        let started = Process::start(program, &launch.args, &launch.env, folder, console, &passed);
        started.map_err(of(program.display()))
    }

    /// Makes the result of a run from its ended guest: the figures, and a digest of all that the
    /// guest sent and its disks did.
    fn result(&self, after: After) -> RunResult {
        let outcome = after.outcome();
        let machine = &self.spec.machine;
        let names = Names::of(machine);
        let filesystems: Vec<String> = (0..=machine.mounts.len()).map(guest::disk_name).collect();
        // Requests of a partition are counted with those of its disk.
        let swap = machine.swap.as_ref().filter(|s| s.disk.is_some());
        let swap = swap.map(|_| guest::disk_name(filesystems.len()));
        let disks = Disks {
            filesystems: &filesystems,
            swap: swap.as_deref(),
        };
        let digest = after.heard.digest();
        let mut result = after.heard.result(outcome, &names, disks);
        result.sim_ns = after.server.now();
        let disks = after.server.disks();
        let digests = disks.iter().flat_map(|d| d.digest().to_le_bytes());
        let words: Vec<u8> = digests.chain(digest.to_le_bytes()).collect();
        result.digest = fnv1a(&words);
        if matches!(after.ending, Ending::TimeLimit) && after.words != NO_WORDS {
            let note = format!("the kernel's last words: {}", after.words);
            result.notes.push(note);
        }
        if let Bootable::Qemu(found) = &self.bootable {
            result.notes.push(found.note(machine));
        }
        let errors: u64 = disks.iter().map(|d| d.errors()).sum();
        if errors > 0 {
            result
                .notes
                .push(format!("{errors} requests failed on the guest's disks"));
        }
        result
    }
}

/// A guest's process and its frames.
struct OfRun<'a> {
    process: &'a mut Process,
    frames: File,
    /// Length of the frames in bytes at the last look.
    seen: u64,
    bye: Vec<u8>,
}

impl Watched for OfRun<'_> {
    fn cpu_ns(&self) -> u64 {
        self.process.cpu_ns()
    }

    /// Returns true if the guest's process runs.
    fn alive(&mut self) -> bool {
        self.process.alive()
    }

    /// Returns true if the guest has sent its last frame, which says that it is done; looks only if
    /// frames have come since the last call.
    fn done(&mut self) -> bool {
        let len = self.frames.metadata().map_or(0, |m| m.len());
        if len == self.seen {
            return false;
        }
        self.seen = len;
        let mut tail = vec![0; self.bye.len()];
        let at = len.checked_sub(tail.len() as u64);
        at.is_some_and(|at| self.frames.read_exact_at(&mut tail, at).is_ok()) && tail == self.bye
    }
}

/// A guest that has ended.
struct After {
    ending: Ending,
    heard: Heard,
    /// The last lines of its console.
    words: String,
    /// The task that was running when the guest was killed as hung.
    running: Option<String>,
    server: Box<dyn Outside>,
}

impl After {
    /// Returns the reason why a guest failed: as it reported, or else the last words on its
    /// console.
    fn why(&self) -> String {
        match self.heard.failure() {
            Some(why) => why.to_owned(),
            None => format!("the kernel's last words: {}", self.words),
        }
    }

    /// Returns the outcome of a run from how its guest ended. Powering off is no failure if the
    /// guest has sent its last frame and reports no failure.
    fn outcome(&self) -> Outcome {
        let failed = |error: String| Outcome::Failed { error };
        match &self.ending {
            Ending::Stopped => Outcome::Interrupted,
            Ending::TimeLimit => Outcome::TimeLimit,
            Ending::Hung(wall) => {
                let who = match &self.running {
                    Some(task) => format!("`{task}` computes without end"),
                    None => "a task computes without end".to_owned(),
                };
                failed(format!(
                    "no virtual time passed in {} s of wall time: {who} in the guest, or waits \
                     for an event that depends on the host's time",
                    wall.as_secs(),
                ))
            }
            Ending::Broken(why) => {
                failed(format!("the simulated devices of the guest failed: {why}"))
            }
            Ending::Done | Ending::Gone => match self.heard.failure() {
                Some(why) if why.starts_with("out of memory") => Outcome::Oom {
                    report: why.to_owned(),
                },
                Some(why) => failed(why.to_owned()),
                None if self.heard.complete() => Outcome::Completed,
                None if self.words.contains("Out of memory") => Outcome::Oom {
                    report: self.words.clone(),
                },
                None => failed(format!("the guest died; {}", self.why())),
            },
        }
    }
}

const IN_MEMORY: &str = "/dev/shm";

/// Returns true if a guest's memory of `bytes` bytes fits into the host's in-memory filesystem now;
/// otherwise it lies in the folder for temporary files.
pub fn fits_in_memory(bytes: u64) -> bool {
    let room = rustix::fs::statvfs(IN_MEMORY);
    room.map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize)) > bytes
}

/// Returns the folder for a guest's memory of `bytes` bytes: `/dev/shm` if there is room, else the
/// folder `otherwise`.
fn memory_folder(bytes: u64, otherwise: &Path) -> String {
    match fits_in_memory(bytes) {
        true => IN_MEMORY.to_owned(),
        false => otherwise.display().to_string(),
    }
}

/// Creates a new file that is appended to, in the place of an older one.
fn create(path: &Path) -> Result<File, String> {
    let _ = fs::remove_file(path);
    let file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .mode(0o600)
        .open(path);
    file.map_err(of(path.display()))
}

/// Opens a disk's file as the contents of a disk.
fn open(path: &Path) -> Result<Store, String> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.and_then(Store::new).map_err(of(path.display()))
}

/// Stands for the last lines of an empty console.
const NO_WORDS: &str = "none";

/// Returns the last lines of a guest's console, joined; those around a panic or a lack of memory if
/// there was one. The text of an empty console is [`NO_WORDS`].
fn last_words(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(16 << 10)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = read()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let panic = lines
        .iter()
        .position(|l| l.contains("Kernel panic") || l.contains("Out of memory"));
    let from = panic.map_or(lines.len().saturating_sub(LAST_WORDS), |at| {
        at.saturating_sub(LAST_WORDS - 1)
    });
    let words: Vec<&str> = lines[from..].iter().take(LAST_WORDS).copied().collect();
    if words.is_empty() {
        NO_WORDS.to_owned()
    } else {
        words.join(" / ")
    }
}
