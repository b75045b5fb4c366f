//! Records the running Linux with the frames that a guest sends ([`guest::wire`]), so that the code
//! for a guest's run (rows, series, `unsupported`) serves a recording as well.
//!
//! - [`Recorder`]: looks at `/proc` at an interval, and with sufficient rights records the
//!   tracepoints that guests have.
//! - [`tracefs`]: an instance of its own, so that other users' tracing is untouched.
//! - [`undo`]: settings are written down before they are changed, and the next start restores them
//!   if this process is killed.
//! - [`live`]: a live cache, by the page that it serves on loopback.
//! - [`file`](mod@file): the file format of recordings.

pub mod file;
pub mod live;
pub mod tracefs;
pub mod undo;

use crate::events::TRACEPOINTS;
use guest::looks::Looks;
use guest::tracing::Tracer;
use guest::wire::Frame;
use live::{Latencies, Live};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use tracefs::Instance;

/// The files of a look, those of a guest's run among them. A file that is missing or not readable
/// is left out and named.
pub const WATCH: [&str; 7] = [
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/pressure/cpu",
];

/// KiB of each CPU's ring.
pub const RING_KB: u64 = 1024;

/// The least time between two fetches of half full rings, in nanoseconds.
const PAUSE_NS: u64 = 10_000_000;

/// The interval at which a wish to stop is polled, in nanoseconds.
const HEAR_NS: u64 = 100_000_000;

/// Returns CLOCK_MONOTONIC in nanoseconds, the clock of rings and looks.
pub fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The reason why a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The recorded program has ended, at this time of [`clock`].
    Done(u64),
    /// The user stopped the recording.
    Asked,
    /// The time limit was reached.
    Limit,
    /// The recorded live cache has been gone since this time of [`clock`].
    Gone(u64),
}

/// The cost of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Seconds recorded.
    pub recorded_s: f64,
    /// CPU seconds of the recording process.
    pub cpu_s: f64,
    /// Looks taken.
    pub looks: u64,
    /// Bytes of events fetched.
    pub event_bytes: u64,
    /// Events of all CPUs that were lost because a ring was full.
    pub lost: u64,
}

/// The source of looks.
enum Source {
    Proc(Looks),
    Cache(Live),
}

/// Records the running system.
pub struct Recorder<W: Write> {
    out: W,
    source: Source,
    /// Latencies of a live cache at the first look and at the last.
    latencies: Option<(String, String)>,
    /// The time of the last look, and whether the source is gone.
    last: u64,
    gone: bool,
    tracer: Option<(Tracer, Instance)>,
    interval_ns: u64,
    start: u64,
    /// The time at which rings were last fetched.
    fetched: u64,
    cpu_s: f64,
    taken: u64,
    event_bytes: u64,
}

/// Returns the CPU seconds of this process.
fn cpu_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return f64::NAN;
    };
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Returns a function that formats an error as `what: why`, for `map_err`.
fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |why| format!("{what}: {why}")
}

impl<W: Write> Recorder<W> {
    /// Prepares a recording of the running kernel to `out`: writes the kernel's release, and notes
    /// what is missing: files of [`WATCH`] that can't be read, and events if there is no instance
    /// of tracefs for them (with the reason). `root` is the folder that holds `/proc`, from which
    /// only the release is read. Nothing else is recorded yet.
    ///
    /// # Errors
    /// There is no `/proc/vmstat`, or nothing can be written; in one line.
    pub fn new(
        mut out: W,
        root: &Path,
        instance: Result<Instance, String>,
        ring_kb: u64,
        interval_ns: u64,
    ) -> Result<Self, String> {
        let failed = of("the recording");
        let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
        let release = release.map_err(of("the kernel's release"))?;
        let hello = Frame::Hello(release.trim().to_owned());
        hello.write(&mut out).map_err(failed)?;
        let note = |out: &mut W, text: String| {
            let note = Frame::Note(text);
            note.write(out).map_err(of("the recording"))
        };
        let looks = Looks::open(WATCH.map(str::to_owned).as_ref());
        let seen: Vec<String> = looks.paths().map(str::to_owned).collect();
        let missing: Vec<&str> = WATCH
            .into_iter()
            .filter(|w| seen.iter().all(|s| s != w))
            .collect();
        if missing.contains(&"/proc/vmstat") {
            return Err("/proc/vmstat can't be read, and a recording needs it".to_owned());
        }
        if !missing.is_empty() {
            note(
                &mut out,
                format!("not recorded: {} can't be read", missing.join(", ")),
            )?;
        }
        // Formats are written only if tracing works: without events they would promise figures.
        let mut formats = Vec::new();
        let points = TRACEPOINTS.map(str::to_owned);
        let tracer = instance.and_then(|instance| {
            let tracer = Tracer::new(&instance.dir(), &points, ring_kb, &mut formats)?;
            let tracer = tracer.ok_or("the kernel has none of them")?;
            Ok((tracer, instance))
        });
        let tracer = match tracer {
            Ok(tracer) => {
                out.write_all(&formats).map_err(of("the recording"))?;
                Some(tracer)
            }
            Err(why) => {
                note(&mut out, format!("tracepoints are not recorded: {why}"))?;
                None
            }
        };
        let source = Source::Proc(looks);
        Ok(Self::of(out, source, tracer, interval_ns))
    }

    /// Prepares the recording of a live cache to `out`, with a look every `interval_ns`
    /// nanoseconds.
    ///
    /// # Errors
    /// The cache does not answer, or nothing can be written; in one line.
    pub fn live(mut out: W, cache: Live, interval_ns: u64) -> Result<Self, String> {
        cache.look().map_err(of(cache.address()))?;
        let hello = Frame::Hello(live::RELEASE.to_owned());
        hello.write(&mut out).map_err(of("the recording"))?;
        Ok(Self::of(out, Source::Cache(cache), None, interval_ns))
    }

    /// Makes a recorder that has recorded nothing yet.
    fn of(out: W, source: Source, tracer: Option<(Tracer, Instance)>, interval_ns: u64) -> Self {
        Self {
            out,
            source,
            latencies: None,
            last: 0,
            gone: false,
            tracer,
            interval_ns,
            start: 0,
            fetched: 0,
            cpu_s: 0.0,
            taken: 0,
            event_bytes: 0,
        }
    }

    /// Returns true if events are recorded.
    pub fn traces(&self) -> bool {
        self.tracer.is_some()
    }

    /// Starts the recording: starts the tracepoints, if events are recorded, writes the start's
    /// frame, and takes the first sample at time 0.
    ///
    /// # Errors
    /// Returns one line if a file of /proc or of tracefs can't be read any more, or the recording
    /// can't be written.
    pub fn begin(&mut self) -> Result<(), String> {
        self.cpu_s = cpu_seconds();
        if let Some((tracer, _)) = &self.tracer {
            tracer.begin()?;
        }
        self.start = clock();
        self.fetched = self.start;
        let start = Frame::Start(self.start).write(&mut self.out);
        start.map_err(of("the recording"))?;
        self.look(0)
    }

    /// Takes a sample `at` nanoseconds after the start: of /proc, or of a live cache. Notes if the
    /// cache does not answer any more.
    fn look(&mut self, at: u64) -> Result<(), String> {
        match &mut self.source {
            Source::Proc(looks) => looks.take(at, &mut self.out).map_err(of("a look"))?,
            Source::Cache(cache) => {
                let Ok(files) = cache.look() else {
                    self.gone = true;
                    return Ok(());
                };
                self.look_at_cache(at, files)?;
            }
        }
        (self.taken, self.last) = (self.taken + 1, at);
        Ok(())
    }

    /// Writes the files of a look at a live cache at time `at` (ns), and the percentiles of its
    /// latencies since the look before.
    fn look_at_cache(&mut self, at: u64, files: Vec<(&str, String)>) -> Result<(), String> {
        let write = |out: &mut W, frame: Frame| frame.write(out).map_err(of("the recording"));
        for (path, text) in files {
            if path == live::LATENCY {
                let now = Latencies::of(&text);
                let ends = self.latencies.take();
                let (first, before) = ends.unwrap_or_else(|| (text.clone(), text.clone()));
                let before = Latencies::of(&before);
                for kind in live::KINDS {
                    for (name, us) in now.since(&before, kind).named(kind) {
                        let gauge = Frame::Gauge(at, name, "us".to_owned(), us);
                        write(&mut self.out, gauge)?;
                    }
                }
                self.latencies = Some((first, text.clone()));
            }
            let look = Frame::Look(at, path.to_owned(), text.into_bytes());
            write(&mut self.out, look)?;
        }
        Ok(())
    }

    /// Fetches events from the rings of all CPUs, and writes up to when they are complete: all
    /// events before the previous fetch are. An event is in its ring some time after its own time
    /// stamp, but never that late.
    fn fetch(&mut self) -> Result<(), String> {
        let Some((tracer, _)) = &mut self.tracer else {
            return Ok(());
        };
        let now = clock();
        let bytes = tracer.drain(&mut self.out);
        self.event_bytes += bytes.map_err(of("a ring of events"))? as u64;
        let until = Frame::Fetched(self.fetched).write(&mut self.out);
        until.map_err(of("the recording"))?;
        self.fetched = now;
        Ok(())
    }

    /// Records until `over` returns an end, `done` becomes readable, or the limit is reached.
    /// `over` and `done` are checked whenever something happens, and ten times a second. `limit_ns`
    /// counts from the start; returns the reason for the end.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn follow(
        &mut self,
        limit_ns: Option<u64>,
        done: Option<&File>,
        over: &mut dyn FnMut() -> Option<Ended>,
    ) -> Result<Ended, String> {
        let limit = limit_ns.map(|ns| self.start.saturating_add(ns));
        let mut next = self.start + self.interval_ns;
        loop {
            if let Some(ended) = over() {
                return Ok(ended);
            }
            let now = clock();
            if limit.is_some_and(|limit| now >= limit) {
                return Ok(Ended::Limit);
            }
            if now >= next {
                self.fetch()?;
                self.look(now - self.start)?;
                if self.gone {
                    return Ok(Ended::Gone(self.start + self.last));
                }
                // Looks that are late are skipped: series have their true times.
                while next <= now {
                    next += self.interval_ns;
                }
                continue;
            }
            let until = next.min(limit.unwrap_or(u64::MAX));
            if self.wait((until - now).min(HEAR_NS), done)? {
                self.fetch()?;
            }
        }
    }

    /// Waits for `ns` nanoseconds at most, or until `done` is readable; returns true if a ring of
    /// events is half full.
    fn wait(&mut self, ns: u64, done: Option<&File>) -> Result<bool, String> {
        // Older kernels report a ring as ready as soon as anything is in it.
        let soon = clock() < self.fetched + PAUSE_NS;
        let rings = self.tracer.iter().flat_map(|(tracer, _)| tracer.rings());
        let mut ready: Vec<PollFd<'_>> = rings
            .filter(|_| !soon)
            .map(|ring| PollFd::from_borrowed_fd(ring.as_fd(), PollFlags::IN))
            .collect();
        let of_rings = ready.len();
        ready.extend(done.map(|done| PollFd::from_borrowed_fd(done.as_fd(), PollFlags::IN)));
        let ns = if soon { ns.min(PAUSE_NS) } else { ns };
        let timeout = Timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) => {
                let mut rings = ready[..of_rings].iter();
                Ok(rings.any(|fd| fd.revents().contains(PollFlags::IN)))
            }
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(format!("waiting for events: {e}")),
        }
    }

    /// Ends the recording as of `at` of [`clock`] (`None`: now): takes the last sample and the
    /// remaining events, writes the notes and the last frame. Returns the writer and the cost.
    ///
    /// # Errors
    /// As [`Self::begin`]. The instance is removed in any case.
    pub fn end(mut self, at: Option<u64>, notes: Vec<String>) -> Result<(W, Cost), String> {
        let end = at.unwrap_or_else(clock).max(self.start) - self.start;
        let write = |out: &mut W, frame: Frame| frame.write(out).map_err(of("the recording"));
        let losses = match &self.tracer {
            Some((tracer, _)) => tracer.end()?,
            None => Vec::new(),
        };
        let end = if self.gone { self.last } else { end };
        write(&mut self.out, Frame::End(end))?;
        if !self.gone {
            self.look(end)?;
        }
        self.fetch()?;
        if let Some((first, last)) = self.latencies.take() {
            let (first, last) = (Latencies::of(&first), Latencies::of(&last));
            for kind in live::KINDS {
                for (name, us) in last.since(&first, kind).named(kind) {
                    self.figure(&name, "us", us)?;
                }
            }
        }
        let lost: u64 = losses.iter().map(|(_, n)| n).sum();
        if lost > 0 {
            write(&mut self.out, Frame::Lost(lost))?;
            let of_cpus = losses.iter().filter(|(_, n)| *n > 0);
            let of_cpus: Vec<String> = of_cpus
                .map(|(cpu, n)| format!("{n} on CPU {cpu}"))
                .collect();
            let text = format!(
                "events lost because their ring buffer was full: {}",
                of_cpus.join(", ")
            );
            write(&mut self.out, Frame::Note(text))?;
        }
        for note in notes {
            write(&mut self.out, Frame::Note(note))?;
        }
        write(&mut self.out, Frame::Bye)?;
        let cost = Cost {
            recorded_s: end as f64 / 1e9,
            cpu_s: cpu_seconds() - self.cpu_s,
            looks: self.taken,
            event_bytes: self.event_bytes,
            lost,
        };
        if let Some((tracer, instance)) = self.tracer.take() {
            drop(tracer);
            instance.end().map_err(of("the instance of tracefs"))?;
        }
        Ok((self.out, cost))
    }

    /// Writes a figure of the recorded program.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn figure(&mut self, name: &str, unit: &str, value: f64) -> Result<(), String> {
        let frame = Frame::Figure(name.to_owned(), unit.to_owned(), value);
        frame.write(&mut self.out).map_err(of("the recording"))
    }
}

/// Returns user and system CPU seconds of the children that this process has waited for; `None` if
/// the host does not say.
pub fn childrens_seconds() -> Option<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    Some((seconds(usage.user_time()), seconds(usage.system_time())))
}
