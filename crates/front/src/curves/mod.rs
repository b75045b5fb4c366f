//! Miss-ratio curves of a trace, or of keys in memory.

pub mod plan;
mod tables;
pub mod text;
mod verdict;

pub use plan::Writes;

use crate::Error;
use crate::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::terminal::Screen;
use plan::Request;
use replay::curve::{self, Curves};
use replay::{Dense, Sizes};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::{Format, Options, Reader, TraceError};

/// The request for curves; the fields are the options of `lowmark mrc`.
#[derive(Debug, Clone)]
pub struct MrcOptions {
    /// Sizes of the caches: `5000,10000`, `1000..100000:50`, `512MiB`, `10%`.
    pub sizes: String,
    /// Policies by name; `all`: all of them.
    pub policies: Vec<String>,
    /// A sample of the objects, `rate=0.01` or `size=8192`.
    pub sample: Option<String>,
    /// The trace's format, by name; `None`: recognised.
    pub format: Option<String>,
    /// The meaning of object numbers, by name.
    pub unit: String,
    /// Count and skip malformed records.
    pub lenient: bool,
    /// Treat every record as one request, regardless of its size.
    pub ignore_size: bool,
    /// The model of dirty pages, if wanted.
    pub writes: Option<Writes>,
    /// Threads; `None`: all cores. The figures are the same for any number.
    pub jobs: Option<NonZeroUsize>,
    /// Set from any thread to stop; the result is then an error.
    pub stop: Arc<AtomicBool>,
}

impl Default for MrcOptions {
    /// Returns the options of `lowmark mrc` without arguments: LRU at fifty sizes from 1000 to
    /// 100,000 pages.
    fn default() -> Self {
        Self {
            sizes: "1000..100000:50".into(),
            policies: vec!["lru".into()],
            sample: None,
            format: None,
            unit: "auto".into(),
            lenient: false,
            ignore_size: false,
            writes: None,
            jobs: None,
            stop: Arc::default(),
        }
    }
}

impl MrcOptions {
    /// Checks the options and makes the plan of a simulation, by the rules of `lowmark mrc`.
    fn plan(&self) -> Result<curve::Plan, Error> {
        let wrong =
            |what: String, accepted: &str| Error::from(Diagnostic::placeless(what, accepted));
        if let Some(format) = &self.format
            && Format::parse(format).is_none()
        {
            let what = format!("`{format}` is not a trace format");
            return Err(wrong(
                what,
                &format!("accepted: {}", Format::NAMES.join(", ")),
            ));
        }
        if trace::Unit::parse(&self.unit).is_none() {
            let what = format!("`{}` is not a unit of object numbers", self.unit);
            return Err(wrong(
                what,
                &format!("accepted: {}", trace::Unit::NAMES.join(", ")),
            ));
        }
        let sizes: Sizes = self
            .sizes
            .parse()
            .map_err(|e: replay::SizesError| wrong(e.to_string(), ""))?;
        let sample = self.sample.as_deref().map(str::parse).transpose();
        let sample = sample.map_err(|e: replay::SampleError| wrong(e.to_string(), ""))?;
        if sample.is_some() && self.writes.is_some() {
            return Err(wrong(
                "`--sample` and writes can't be combined: a sample has no writes".into(),
                "accepted: a sample, or writes, but not both",
            ));
        }
        let request = Request {
            options: Options {
                format: self.format.as_deref().and_then(Format::parse),
                columns: None,
                lenient: self.lenient,
                unit: trace::Unit::parse(&self.unit).unwrap_or_default(),
            },
            ignore_size: self.ignore_size,
            sizes,
            policies: self.policies.clone(),
            sample,
            writes: self.writes,
            jobs: self.jobs,
        };
        Ok(plan::plan(&request)?)
    }
}

/// Returns the curves of a trace file.
///
/// # Errors
/// The options are wrong, or the trace can't be read.
pub fn mrc(trace: &Path, options: &MrcOptions) -> Result<Curves, Error> {
    let plan = options.plan()?;
    let reader = open(trace, &plan, &options.stop);
    let shown = trace.display().to_string();
    stoppable(reader, shown, &plan, &options.stop)
}

/// A stream that fails once the flag is set.
struct Stopping<R> {
    stream: R,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Read for Stopping<R> {
    /// Reads on, or fails once the flag is set.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        self.stream.read(out)
    }
}

/// Opens the trace file `trace`; setting `stop` ends its reading. A pipe can't be stopped.
fn open(trace: &Path, plan: &curve::Plan, stop: &Arc<AtomicBool>) -> Result<Reader, TraceError> {
    match trace.is_file().then(|| input::file(trace)) {
        Some(Ok(stream)) => stream_of(stream, &trace.display().to_string(), plan, stop),
        // A missing file, for which this call returns the error, or a pipe.
        _ => Reader::open(trace, &plan.options),
    }
}

/// Opens a stream of records as a trace called `name`; setting `stop` ends its reading.
fn stream_of(
    stream: impl Read + Send + 'static,
    name: &str,
    plan: &curve::Plan,
    stop: &Arc<AtomicBool>,
) -> Result<Reader, TraceError> {
    let stop = Arc::clone(stop);
    Reader::from_stream(Stopping { stream, stop }, name, &plan.options)
}

/// Returns the curves of an open trace called `shown`; an error if it can't be read or `stop` is
/// set.
fn stoppable(
    reader: Result<Reader, TraceError>,
    shown: String,
    plan: &curve::Plan,
    stop: &Arc<AtomicBool>,
) -> Result<Curves, Error> {
    let curves = reader.and_then(|reader| curve::run_reader_until(reader, shown, plan, stop));
    unless_stopped(curves, stop)?.ok_or_else(stopped)
}

fn stopped() -> Error {
    Failure::Stopped("stopped".into()).into()
}

/// Converts the result of reading a trace into that of the front: an error caused by `stop` says
/// so, instead of blaming the trace.
fn unless_stopped<T>(read: Result<T, TraceError>, stop: &AtomicBool) -> Result<T, Error> {
    read.map_err(|e| match stop.load(Relaxed) {
        true => stopped(),
        false => plan::unreadable(e).into(),
    })
}

/// An array of keys: requests, each for the object with its key, in order.
pub trait Array: Send + Sync {
    /// Returns the number of keys.
    fn count(&self) -> usize;

    /// Returns the key at an index below [`Self::count`].
    fn at(&self, place: usize) -> u64;
}

impl<T: AsRef<[u64]> + Send + Sync> Array for T {
    fn count(&self) -> usize {
        self.as_ref().len()
    }

    fn at(&self, place: usize) -> u64 {
        self.as_ref()[place]
    }
}

/// Requests in memory. The keys are not copied.
#[derive(Clone)]
pub struct Keys {
    keys: Arc<dyn Array>,
    /// Bytes of the stream read so far.
    at: usize,
}

/// Bytes of a record of the stream (`trace::oracle_general`).
const RECORD: usize = 24;

impl Keys {
    /// Wraps an array of keys.
    pub fn new(keys: impl Array + 'static) -> Self {
        Self {
            keys: Arc::new(keys),
            at: 0,
        }
    }
}

/// The name of keys in place of a trace's file name.
const KEYS: &str = "keys";

/// Returns the options with which keys are read: as a trace in which each record is one request for
/// one object.
fn keys_options(options: &MrcOptions) -> MrcOptions {
    MrcOptions {
        format: Some(Format::OracleGeneral.name().to_owned()),
        unit: trace::Unit::Object.name().to_owned(),
        ignore_size: true,
        ..options.clone()
    }
}

/// Presents the keys as a trace in libCacheSim's oracleGeneral.
impl Read for Keys {
    /// Presents the keys as a trace in libCacheSim's oracleGeneral: fills `out` with the next bytes
    /// of its records and returns their number; 0 at the end. A record has the key, a size of 4096
    /// and no next access.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (mut n, count) = (0, self.keys.count());
        while n < out.len() && self.at / RECORD < count {
            let (record, from) = (self.at / RECORD, self.at % RECORD);
            let key = self.keys.at(record);
            let mut bytes = [0; RECORD];
            bytes[4..12].copy_from_slice(&key.to_le_bytes());
            bytes[12..16].copy_from_slice(&4096_u32.to_le_bytes());
            bytes[16..].copy_from_slice(&(-1_i64).to_le_bytes());
            let len = (RECORD - from).min(out.len() - n);
            out[n..n + len].copy_from_slice(&bytes[from..from + len]);
            (n, self.at) = (n + len, self.at + len);
        }
        Ok(n)
    }
}

/// Returns the curves of keys in memory: each key is one request for one page.
///
/// ```
/// use front::{Keys, MrcOptions, mrc_keys};
///
/// let keys: Vec<u64> = (0..1000).map(|i| i % 10).collect();
/// let options = MrcOptions { sizes: "5,10".into(), ..MrcOptions::default() };
/// let curves = mrc_keys(Keys::new(keys), &options)?;
/// let points = &curves.curves[0].points;
/// // LRU with five pages never hits in a loop over ten; with ten pages it always does.
/// assert_eq!(points[0].miss_ratio, 1.0);
/// assert_eq!(points[1].counts.misses, 10);
/// # Ok::<(), front::Error>(())
/// ```
///
/// # Errors
/// The options are wrong, there is no memory for so many keys, or it was stopped.
pub fn mrc_keys(keys: Keys, options: &MrcOptions) -> Result<Curves, Error> {
    if options.writes.is_some() {
        let what = "keys in memory have no writes";
        return Err(Diagnostic::placeless(what, "accepted: a trace file with writes").into());
    }
    let plan = keys_options(options).plan()?;
    let reader = stream_of(keys, KEYS, &plan, &options.stop);
    stoppable(reader, KEYS.to_owned(), &plan, &options.stop)
}

/// Formats the curves as `curves.csv` of `lowmark mrc --out`.
pub fn curves_csv(curves: &Curves) -> String {
    text::csv(curves)
}

/// Formats the curves as `lowmark mrc` prints them.
pub fn curves_text(curves: &Curves) -> String {
    text::tables(curves, Screen::here())
}

/// Reads a trace into memory, its objects numbered in the order of their first request: for
/// policies that are not in the registry, through [`Dense::run`].
///
/// # Errors
/// The options are wrong, the trace can't be read, there is not enough memory, or it was stopped.
pub fn numbered(trace: &Path, options: &MrcOptions) -> Result<Dense, Error> {
    let plan = options.plan()?;
    let read = open(trace, &plan, &options.stop)
        .and_then(|reader| Dense::read(reader, plan.unit, false, plan.budget, plan.threads));
    Ok(unless_stopped(read, &options.stop)?.0)
}

/// Does the same as [`numbered`] for keys in memory.
///
/// # Errors
/// The options are wrong, there is not enough memory, or it was stopped.
pub fn numbered_keys(keys: Keys, options: &MrcOptions) -> Result<Dense, Error> {
    let plan = keys_options(options).plan()?;
    let read = stream_of(keys, KEYS, &plan, &options.stop)
        .and_then(|reader| Dense::read(reader, plan.unit, false, plan.budget, plan.threads));
    Ok(unless_stopped(read, &options.stop)?.0)
}
