//! The first process of a guest: sets the machine up, takes looks, and powers it off.
//!
//! The process locks its touched memory and has priority over all others (SCHED_FIFO), so that
//! looks are taken in time under any load. The programs run in a process of their own
//! ([`crate::programs`]) and not as threads of this one: their mappings are not locked, and the
//! kernel can kill them when memory runs out, which is impossible for its first process.

mod events;
mod foreign;
mod kills;
mod memory;
mod modules;
mod mounts;
mod prepare;
mod settings;
mod shell;

pub use foreign::run as run_foreign;
pub use memory::idle;

use crate::groups;
use crate::host::{Costs, Spend, clock, last_tick, lock, sleep_until};
use crate::looks::Looks;
use crate::programs::{self, Player, Voice};
use crate::sys;
use crate::tracing::{TRACEFS, Tracer};
use crate::wire::{Assignment, Frame, JOB, Job, ScriptJob};
use rustix::fs::{Mode, OFlags};
use rustix::mm::MlockAllFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::system::RebootCommand;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// The mount point of the first filesystem.
pub const ROOT: &str = "/mnt";

/// The file on the first filesystem that is read once to fill the machine's cache at boot.
pub const CACHE: &str = ".lowmark-cache";

/// The kernel argument that names the terminal for frames, without `/dev/`.
pub const OUT: &str = "lowmark.out";

/// The terminal if the argument is missing.
const OUT_DEFAULT: &str = "ttyS0";

/// Arguments of this program in its other roles: the programs' process, that of a user's own
/// program, and the idle process that holds memory.
pub const PROGRAMS: &str = "programs";
/// See [`PROGRAMS`].
pub const FOREIGN: &str = "foreign";
/// See [`PROGRAMS`]: the process of one program in a group of its own; the numbers of its step and
/// its command follow, and the start of the workload by [`clock`].
pub const MEMBER: &str = "member";
/// See [`PROGRAMS`]; a number of bytes follows.
pub const IDLE: &str = "idle";

const SECOND: u64 = 1_000_000_000;

/// The result of a step of a guest; the error is one line.
type Step<T = ()> = Result<T, String>;

/// Formats an error as `what: why`.
fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |why| format!("{what}: {why}")
}

/// Runs as the guest's first process: sets the machine up, does the job and sends its end or
/// failure to the host as frames. Never returns: the machine is off at its end.
pub fn life() -> ! {
    let end = match begin() {
        Ok((mut out, job)) => {
            let ended = serve(&mut out, &job);
            let sent = ended.and_then(|()| say(&mut out, &Frame::Bye));
            sent.or_else(|why| {
                say(&mut out, &Frame::Failed(why))?;
                say(&mut out, &Frame::Bye)
            })
        }
        Err(why) => Err(why),
    };
    if let Err(why) = end {
        // The console is the only place left to report this.
        eprintln!("lowmark-guest: {why}");
    }
    // The host normally ends the machine here: powering off would first take mounted disks away,
    // and wait for them.
    sleep_until(clock() + SECOND);
    // Data that is not on the disks by now was not meant to be.
    if let Err(why) = rustix::system::reboot(RebootCommand::PowerOff) {
        eprintln!("lowmark-guest: power off: {why}");
    }
    std::process::exit(1)
}

/// Mounts the kernel's filesystems, loads modules, opens the terminal for frames and reads the job
/// from the initramfs.
fn begin() -> Step<(File, Job)> {
    mounts::system()?;
    modules::load()?;
    let out = terminal()?;
    Ok((out, read_job()?))
}

/// Reads the job from the initramfs.
///
/// # Errors
/// The file is missing or holds no job.
pub fn read_job() -> Result<Job, String> {
    let text = fs::read(JOB).map_err(of(JOB))?;
    serde_json::from_slice(&text).map_err(of(JOB))
}

/// Opens the device for frames to the host: a terminal, in raw mode so that bytes pass unchanged,
/// or the device of a QEMU guest's driver, which changes none.
fn terminal() -> Step<File> {
    let line = fs::read_to_string("/proc/cmdline").map_err(of("/proc/cmdline"))?;
    let path = format!("/dev/{}", out_of(&line));
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let out = rustix::fs::open(&path, flags, Mode::empty()).map_err(of(&path))?;
    if !rustix::termios::isatty(&out) {
        return Ok(out.into());
    }
    let mut modes = rustix::termios::tcgetattr(&out).map_err(of(&path))?;
    modes.make_raw();
    rustix::termios::tcsetattr(&out, rustix::termios::OptionalActions::Now, &modes)
        .map_err(of(&path))?;
    Ok(out.into())
}

/// Returns the terminal for frames that the kernel's command line `line` names, without `/dev/`, or
/// the default one.
fn out_of(line: &str) -> &str {
    let mut arguments = line.split_ascii_whitespace();
    let named = arguments.find_map(|a| a.strip_prefix(OUT)?.strip_prefix('='));
    named.unwrap_or(OUT_DEFAULT)
}

/// Writes a frame to the host.
fn say(out: &mut impl Write, frame: &Frame) -> Step {
    frame.write(out).map_err(of("the terminal for frames"))
}

/// Does the job that the host gave: tries settings out, lays out files, runs the script, or starts
/// a shell. Frames go to `out`.
fn serve(out: &mut File, job: &Job) -> Step {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    say(out, &Frame::Hello(release))?;
    if matches!(job.task, Assignment::Run | Assignment::Try) {
        groups::make(&job.groups)?;
    }
    if job.task == Assignment::Try {
        settings::try_out(out, &job.settings)?;
        let mut looks = Looks::open(&job.watch);
        return looks.take(0, out).map_err(of("a look"));
    }
    settings::write(&job.settings)?;
    mounts::filesystems(&job.mounts)?;
    match job.task {
        Assignment::Prepare => {
            prepare::lay_out(job)?;
            mounts::unmount(&job.mounts)
        }
        Assignment::Run => {
            swap_on(job)?;
            run(out, job)
        }
        Assignment::Shell => {
            swap_on(job)?;
            shell::run(job.terminal)
        }
        Assignment::Try => unreachable!("it has returned"),
    }
}

/// Turns on the job's swap areas, if there are any.
fn swap_on(job: &Job) -> Step {
    job.swap
        .iter()
        .try_for_each(|device| sys::swap_on(device).map_err(of(format_args!("swapon {device}"))))
}

/// State shared by the threads of this process.
struct Desk {
    out: File,
    looks: Looks,
    tracer: Option<Tracer>,
    /// Set when the workload has ended, or can't go on.
    over: bool,
}

impl Desk {
    /// Takes a look. Traced events are fetched only when a ring is half full, or at the end,
    /// because fetching takes time.
    fn look(&mut self, at: u64) -> io::Result<()> {
        self.looks.take(at, &mut self.out)
    }

    /// Takes the look at the start or the end, with the files that are read there alone.
    fn look_at_end(&mut self, at: u64) -> io::Result<()> {
        self.looks.take_all(at, &mut self.out)
    }
}

/// Runs the job's script: starts the programs' process, takes the boot memory into use, waits a
/// second, starts tracing and looks, sends the start time to the programs, and forwards their
/// frames until they end.
fn run(out: &mut File, job: &Job) -> Step {
    make_room();
    memory::lock()?;
    let tracer = Tracer::new(Path::new(TRACEFS), &job.tracepoints, job.trace_kb, out)?;
    let mut child = spawn(match job.script {
        ScriptJob::Foreign { .. } => FOREIGN,
        _ => PROGRAMS,
    })?;
    let mut from = child.stdout.take().expect("it was piped");
    match Frame::read(&mut from).map_err(of("the programs' process"))? {
        Some(Frame::Hello(_)) => {}
        Some(Frame::Failed(why)) => return Err(why),
        _ => return Err(death(&mut child, job)),
    }
    let mut looks = Looks::with_ends(&job.watch, &job.watch_ends);
    // A look to allocate the memory that looks need.
    looks.take_all(0, &mut io::sink()).map_err(of("a look"))?;
    for note in memory::boot(&job.boot)? {
        say(out, &Frame::Note(note))?;
    }
    sys::run_first().map_err(of("SCHED_FIFO"))?;
    // A second passes between boot and workload: counters settle, kswapd sleeps.
    let start = behind_tick(clock() + SECOND, job.since_tick);
    sleep_until(start);
    let mut desk = Desk {
        out: out.try_clone().map_err(of("the terminal for frames"))?,
        looks,
        tracer,
        over: false,
    };
    if let Some(tracer) = &desk.tracer {
        tracer.begin()?;
    }
    say(&mut desk.out, &Frame::Start(start))?;
    desk.look_at_end(0).map_err(of("a look"))?;
    let desk = Arc::new(Mutex::new(desk));
    watch(&desk, job, start, &child)?;
    let mut to = child.stdin.take().expect("it was piped");
    let sent = to.write_all(&start.to_le_bytes());
    // If the process is dead, reading from it reports that.
    drop((sent, to));
    follow(&desk, &mut from, &mut child, (job, start))
}

/// Returns the first time from `at` on that is `since` nanoseconds after a tick of the kernel's
/// timer, in nanoseconds of `clock`, so that runs start at the same distance from a tick.
fn behind_tick(at: u64, since: u64) -> u64 {
    let (last, tick) = last_tick();
    let begun = last + since % tick;
    at + (begun + tick - at % tick) % tick
}

/// Forwards the frames of the programs' process to the host until they end. At the end of the
/// workload, also if the OOM killer ended it, takes the last look and fetches the last traced
/// events. The workload is that of the job, and started at this time of [`clock`].
///
/// # Errors
/// The process ended without its last frame, or the terminal fails.
fn follow(
    desk: &Mutex<Desk>,
    from: &mut impl Read,
    child: &mut Child,
    (job, start): (&Job, u64),
) -> Step {
    let mut ended = false;
    loop {
        let frame = Frame::read(from).map_err(of("the programs' process"))?;
        let mut desk = lock(desk);
        match frame {
            Some(Frame::Bye) => return Ok(()),
            Some(frame @ Frame::End(at)) => {
                ended = true;
                desk.over = true;
                say(&mut desk.out, &frame)?;
                desk.look_at_end(at).map_err(of("a look"))?;
                let Desk { tracer, out, .. } = &mut *desk;
                say_kills(out)?;
                if let Some(tracer) = tracer {
                    let lost = tracer.end()?.iter().map(|(_, n)| n).sum();
                    events::drain(tracer, out).map_err(of("the rings of events"))?;
                    if lost > 0 {
                        say(out, &Frame::Lost(lost))?;
                    }
                }
            }
            Some(frame) => say(&mut desk.out, &frame)?,
            None if ended => return Ok(()),
            None if desk.over => return Ok(()),
            None => {
                desk.over = true;
                desk.look_at_end(clock().saturating_sub(start))
                    .map_err(of("a look"))?;
                say_kills(&mut desk.out)?;
                drop(desk);
                return Err(death(child, job));
            }
        }
    }
}

/// Starts this program again in the role `what` as another process, with pipes to and from it.
fn spawn(what: &str) -> Step<Child> {
    let mut command = Command::new("/proc/self/exe");
    let command = command
        .arg(what)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().map_err(of("the programs' process"))
}

/// Returns true if the OOM killer has ended a process since boot.
fn killed() -> bool {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let mut kills = text.lines().filter_map(|l| l.strip_prefix("oom_kill "));
    kills.next().is_some_and(|n| n.trim() != "0")
}

/// Sends the kernel's reports of the processes that it killed for memory; nothing if there are
/// none. The log is read behind the last look, so that no figure counts the reading.
fn say_kills(out: &mut impl Write) -> Step {
    if !killed() {
        return Ok(());
    }
    match sys::kernel_log() {
        Ok(log) => say(out, &Frame::Kills(kills::reports(&log))),
        Err(why) => say(out, &Frame::Note(format!("the kernel's log: {why}"))),
    }
}

/// Waits for a process that has ended and describes why: the OOM killer, by its counter and with
/// the job's group, or the exit status.
fn death(child: &mut Child, job: &Job) -> String {
    let status = match child.wait() {
        Ok(status) => status.to_string(),
        Err(why) => why.to_string(),
    };
    if killed() {
        let group = job
            .group
            .as_ref()
            .filter(|group| groups::oom_kills(group) > 0);
        let place = group.map_or(String::new(), |group| format!(" in its group `{group}`"));
        return format!("out of memory: the kernel killed the workload{place} ({status})");
    }
    format!("the programs' process ended ({status})")
}

/// Starts the threads that fetch traced events, take looks and change settings, each at its time
/// after `start`. If a look or a change fails, the programs' process `child` is killed.
fn watch(desk: &Arc<Mutex<Desk>>, job: &Job, start: u64, child: &Child) -> Step {
    let desk = Arc::clone(desk);
    if lock(&desk).tracer.is_some() {
        let desk = Arc::clone(&desk);
        thread("tracer", move || events::follow(&desk))?;
    }
    let mut changes = job.changes.clone().into_iter().peekable();
    let sample = job.sample_ns;
    let programs = Pid::from_child(child);
    thread("looks", move || {
        let mut look = sample;
        loop {
            let change = changes.peek().map(|change| change.0);
            let at = match (sample > 0, change) {
                (true, Some(change)) => look.min(change),
                (true, None) => look,
                (false, Some(change)) => change,
                (false, None) => return,
            };
            sleep_until(start + at);
            let mut desk = lock(&desk);
            if desk.over {
                return;
            }
            // A look at the time of a change is taken before the change.
            let mut done = Ok(());
            if sample > 0 && at == look {
                done = desk.look(at).map_err(of("a look"));
                look += sample;
            }
            if let Some((_, settings)) = changes.next_if(|change| change.0 <= at) {
                done = done.and_then(|()| settings::write(&settings));
            }
            if let Err(why) = done {
                desk.over = true;
                let _ = say(&mut desk.out, &Frame::Failed(why));
                let _ = rustix::process::kill_process(programs, Signal::KILL);
                return;
            }
        }
    })
}

/// Starts a thread with a small stack and the priority of the first process.
fn thread(name: &str, life: impl FnOnce() + Send + 'static) -> Step {
    let builder = std::thread::Builder::new().name(name.to_owned());
    let first = move || {
        // The main thread has set the same priority successfully.
        let _ = sys::run_first();
        life();
    };
    let spawned = builder.stack_size(crate::host::STACK).spawn(first);
    spawned.map(drop).map_err(of("a thread"))
}

/// Raises the kernel's limits on processes, mappings, pipes and open files, for scripts that need
/// many.
fn make_room() {
    for (path, text) in [
        ("/proc/sys/kernel/pid_max", "32768"),
        ("/proc/sys/kernel/threads-max", "32768"),
        ("/proc/sys/vm/max_map_count", "1048576"),
        // Pipes of one process: see [`crate::host`]'s kernel pages.
        ("/proc/sys/fs/pipe-user-pages-soft", "0"),
    ] {
        // A script that needs a limit reports the failure itself.
        let _ = fs::write(path, text);
    }
    let files = Rlimit {
        current: Some(1 << 20),
        maximum: Some(1 << 20),
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, files);
}

/// Locks the pages that this process has touched or will touch.
fn lock_memory() -> Step {
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(all).map_err(of("mlockall"))
}

/// Runs as the programs' process, which the first process starts: prepares the job's script and
/// runs it.
///
/// # Errors
/// The process can't start or go on; failures of programs are sent as frames.
pub fn run_programs() -> Result<(), String> {
    let out = mounts::output()?;
    // With the smallest timer slack programs sleep as long as requested, instead of up to 50 µs
    // longer. Their threads inherit it.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(of("timer slack"))?;
    match player() {
        Ok((player, sample_ns)) => {
            let lived = programs::live(&player, sample_ns, io::stdin(), out);
            lived.map_err(of("the first process"))
        }
        Err(why) => say(&mut &out, &Frame::Failed(why)),
    }
}

/// Returns the job's script, ready to run on the first filesystem, and the interval between looks
/// in nanoseconds.
fn player() -> Step<(Player, u64)> {
    let job = read_job()?;
    if let Some(group) = &job.group {
        groups::enter(group).map_err(of(format_args!("the group `{group}`")))?;
    }
    let player = player_of(&job)?;
    Ok((player, job.sample_ns))
}

/// Returns a job's script, ready to run on the first filesystem.
fn player_of(job: &Job) -> Step<Player> {
    let root = mounts::open(ROOT)?;
    let costs = Costs {
        copy_page_ns: job.copy_page_ns,
        gettimeofday_ns: job.gettimeofday_ns,
    };
    let spend = match job.computes {
        true => Spend::by_computing(),
        false => Spend::by(crate::host::SPEND),
    };
    let script = job.script.script()?;
    let script = script.ok_or("the job has no script of ours")?;
    Ok(Player::new(script, root, costs, spend))
}

/// Runs as the process of one program in a group: `step` and `nth` say which command of the job's
/// script it is, and `start` when the workload began. Sends the program's measurements as frames.
///
/// # Errors
/// The process can't start or go on; a failure of the program is sent as a frame.
pub fn run_member(step: &str, nth: &str, start: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(of(text));
    let (step, nth) = (number(step)? as usize, number(nth)? as usize);
    let start = number(start)?;
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(of("timer slack"))?;
    let voice = Voice::new(mounts::output()?);
    let frames = match player_of(&read_job()?) {
        Ok(player) => player.member(step, nth, start),
        Err(why) => vec![Frame::Failed(why)],
    };
    voice.say(&frames).map_err(of("the programs' process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_command_line_names_the_terminal() {
        assert_eq!(out_of("mem=1G quiet"), "ttyS0");
        assert_eq!(out_of("quiet lowmark.out=tty1 mem=1G\n"), "tty1");
        assert_eq!(out_of("lowmark.outer=tty2"), "ttyS0");
    }
}
