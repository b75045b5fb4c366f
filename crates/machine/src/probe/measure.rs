//! Measures a device.

use super::file::{Buffer, Scratch};
use super::load::{FILL, Load, Measured, RANDOM, STREAM, loads};
use super::{Options, ProbeError};
use serde::Serialize;
use sim::block::Dir;
use sim::rng::Rng;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The results of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurements {
    /// The results, by load.
    pub rows: Vec<Measured>,
    /// Median of a 4 KiB write including the wait until it is on the device, in nanoseconds.
    pub sync_ns: u64,
    /// Bytes of the file that the loads accessed.
    pub span: u64,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// `MAJOR:MINOR` of the device.
    pub device: String,
    /// Size of the filesystem in bytes.
    pub filesystem_bytes: u64,
}

/// The file is filled in at most one part in this many of the time.
const FILL_SHARE: u32 = 4;
/// Syncs are measured for one part in this many of the time.
const SYNC_SHARE: u32 = 20;
/// The limit on timed syncs.
const MOST_SYNCS: usize = 500;

/// Measures the device below a folder: fills a temporary file, times syncs, and runs each load for
/// its share of `options.time`. `progress` is called before each step with its description, the
/// number of finished steps and their total. `stop` is set by the user to end early.
///
/// # Errors
/// The folder or size can't be used, the system refuses an operation, or the user stops.
pub fn measure(
    options: &Options,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<Measurements, ProbeError> {
    let scratch = Scratch::create(options)?;
    let start = Instant::now();
    let end = start + options.time;
    let all = loads();
    let steps = all.len() + 2;
    let step = Step {
        scratch: &scratch,
        stop,
    };

    progress(&FILL.to_string(), 0, steps);
    // Operations that fill the whole file.
    let wanted = options.size / STREAM;
    let fill = step.run(
        FILL,
        wanted * STREAM,
        wanted,
        start + options.time / FILL_SHARE,
    )?;
    // Bytes that were written in time; the loads access these only.
    let span = fill.operations * STREAM;
    if span < 2 * STREAM {
        return Err(ProbeError::Input {
            what: format!(
                "{} needed a quarter of the probe's time to write {} KiB",
                options.dir.display(),
                span >> 10
            ),
            accepted: "accepted: a larger --probe-time, or a faster device".into(),
        });
    }
    scratch.sync().map_err(system("writing"))?;
    let mut rows = vec![fill];

    progress("sync of a 4K write", 1, steps);
    let sync_ns = step.syncs(span, Instant::now() + options.time / SYNC_SHARE)?;

    for (i, load) in all.into_iter().enumerate() {
        progress(&load.to_string(), i + 2, steps);
        scratch.forget();
        let left = end.saturating_duration_since(Instant::now());
        let share = left / (steps - i - 2) as u32;
        // No step moves more than the file's size, so that a probe does not wear out the device.
        let most = span / load.bytes();
        let row = step.run(load, span, most, Instant::now() + share)?;
        if row.operations > 0 {
            rows.push(row);
        }
    }
    Ok(Measurements {
        rows,
        sync_ns,
        span,
        direct: scratch.direct,
        device: scratch.device.clone(),
        filesystem_bytes: scratch.filesystem_bytes,
    })
}

/// Returns a function that turns an error of the system into the probe's error; `what` names the
/// failed operation.
fn system(what: &'static str) -> impl Fn(io::Error) -> ProbeError {
    move |source| ProbeError::System { what, source }
}

struct Step<'a> {
    scratch: &'a Scratch,
    stop: &'a AtomicBool,
}

impl Step<'_> {
    /// Keeps a load running on `depth` threads in the first `span` bytes of the file, for `most`
    /// operations altogether or until the deadline. Returns the number of operations, the time and
    /// the latencies.
    fn run(
        &self,
        load: Load,
        span: u64,
        most: u64,
        deadline: Instant,
    ) -> Result<Measured, ProbeError> {
        let next = AtomicU64::new(0);
        let begin = Instant::now();
        let done: Vec<io::Result<Vec<Duration>>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..load.depth)
                .map(|worker| {
                    let next = &next;
                    let work = move || self.worker(load, worker, span, most, next, deadline);
                    Builder::new().spawn_scoped(scope, work)
                })
                .collect();
            workers
                .into_iter()
                .map(|w| {
                    w?.join()
                        .unwrap_or_else(|_| Err(io::Error::other("a worker died")))
                })
                .collect()
        });
        let seconds = begin.elapsed().as_secs_f64();
        if self.stop.load(Relaxed) {
            return Err(ProbeError::Stopped);
        }
        let what = match load.dir {
            Dir::Read => "reading the temporary file",
            Dir::Write => "writing the temporary file",
        };
        let mut latencies = Vec::new();
        for of_worker in done {
            latencies.extend(of_worker.map_err(system(what))?);
        }
        latencies.sort_unstable();
        Ok(Measured {
            load,
            operations: latencies.len() as u64,
            seconds,
            median_ns: quantile(&latencies, 50),
            p99_ns: quantile(&latencies, 99),
        })
    }

    /// Does operations of a load one after the other as thread number `worker`, until `most`
    /// operations of all threads have begun, the deadline has passed or the user stops. `next`
    /// counts the operations of all threads. Returns the latency of each operation.
    fn worker(
        &self,
        load: Load,
        worker: u32,
        span: u64,
        most: u64,
        next: &AtomicU64,
        deadline: Instant,
    ) -> io::Result<Vec<Duration>> {
        let mut buffer = Buffer::new(load.bytes() as usize, u64::from(worker) + 1);
        let mut places = Rng::new(u64::from(worker), "probe");
        let mut latencies = Vec::new();
        // The places in the file at which operations may begin.
        let slots = (span / load.bytes()).max(1);
        loop {
            let number = next.fetch_add(1, Relaxed);
            let begin = Instant::now();
            if number >= most || begin >= deadline || self.stop.load(Relaxed) {
                return Ok(latencies);
            }
            let slot = if load.random {
                places.below(slots)
            } else {
                number % slots
            };
            match load.dir {
                Dir::Read => self.scratch.read(&mut buffer, slot * load.bytes())?,
                Dir::Write => self.scratch.write(&buffer, slot * load.bytes())?,
            }
            latencies.push(begin.elapsed());
        }
    }

    /// Times 4-KiB writes at random places of the first `span` bytes, each with its sync, until the
    /// deadline. Returns the median in nanoseconds.
    fn syncs(&self, span: u64, deadline: Instant) -> Result<u64, ProbeError> {
        let buffer = Buffer::new(RANDOM as usize, 99);
        let mut places = Rng::new(99, "probe");
        let mut latencies = Vec::new();
        while latencies.is_empty() || (latencies.len() < MOST_SYNCS && Instant::now() < deadline) {
            if self.stop.load(Relaxed) {
                return Err(ProbeError::Stopped);
            }
            let begin = Instant::now();
            let place = places.below(span / RANDOM) * RANDOM;
            let written = self.scratch.write(&buffer, place);
            written
                .and_then(|()| self.scratch.sync())
                .map_err(system("syncing the temporary file"))?;
            latencies.push(begin.elapsed());
        }
        latencies.sort_unstable();
        Ok(quantile(&latencies, 50))
    }
}

/// Returns a percentile of sorted times, in nanoseconds; 0 if there are none.
fn quantile(sorted: &[Duration], percent: usize) -> u64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &std::path::Path, seconds: u64) -> Options {
        Options {
            dir: dir.to_owned(),
            size: super::super::LEAST_SIZE,
            time: Duration::from_secs(seconds),
        }
    }

    /// Returns a folder on a device: the temporary folder, or else that of the sources.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        match Scratch::create(&options(dir.path(), 2)) {
            Err(ProbeError::Input { .. }) => {
                tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
            }
            _ => dir,
        }
    }

    #[test]
    fn a_probe_measures_every_load_and_leaves_nothing() {
        let dir = folder();
        let mut steps = Vec::new();
        let stop = AtomicBool::new(false);
        let m = measure(&options(dir.path(), 5), &stop, |what, done, all| {
            assert_eq!(
                std::fs::read_dir(dir.path()).unwrap().count(),
                0,
                "no name even now"
            );
            assert!(done < all);
            steps.push(what.to_owned());
        })
        .unwrap();
        assert_eq!(steps.len(), loads().len() + 2);
        assert!(m.rows.len() > 2 && m.rows.iter().all(|r| r.operations > 0 && r.rate() > 0.0));
        assert!(m.rows.iter().all(|r| r.median_ns <= r.p99_ns));
        assert!(m.span <= super::super::LEAST_SIZE && m.sync_ns > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_is_heard() {
        let dir = folder();
        let stop = AtomicBool::new(true);
        let e = measure(&options(dir.path(), 60), &stop, |_, _, _| {}).unwrap_err();
        assert!(matches!(e, ProbeError::Stopped), "{e}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_can_t_be_probed_is_refused() {
        let dir = folder();
        let stop = AtomicBool::new(false);
        let refused = |options: &Options| match measure(options, &stop, |_, _, _| {}) {
            Err(ProbeError::Input { what, accepted }) => (what, accepted),
            other => panic!("{other:?}"),
        };
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(refused(&options(&file, 2)).0.contains("is not a folder"));
        assert!(
            refused(&options(&dir.path().join("none"), 2))
                .1
                .contains("a folder")
        );
        let memory = std::path::Path::new("/dev/shm");
        if memory.is_dir() {
            let refused = measure(&options(memory, 2), &stop, |_, _, _| {});
            // A folder that is no tmpfs can be measured.
            if let Err(e) = refused {
                assert!(e.to_string().contains("in memory"), "{e}");
            }
        }
        let huge = Options {
            size: 1 << 60,
            ..options(dir.path(), 2)
        };
        let (what, accepted) = refused(&huge);
        assert!(
            what.contains("more than half") && accepted.contains("--probe-size"),
            "{accepted}"
        );
    }
}
