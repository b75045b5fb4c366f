//! The extension module of Python's package `lowmark`: the front of the Rust library, with Python's
//! types.
//!
//! Nothing is computed here. Long calls run in a separate thread while the caller, with the
//! interpreter's lock released, checks for signals, so that Ctrl-C ends them as it ends the command
//! line.

mod keys;
mod long;
mod policy;
mod table;

use front::{Changes, MrcOptions, Options, Progress, Writes};
use keys::Requests;
use long::{failure, interruptible, wrong};
use miette::MietteHandlerOpts;
use pyo3::exceptions::{PyException, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use table::Table;

pyo3::create_exception!(
    _lowmark,
    Error,
    PyException,
    "What lowmark could not do, in the words of its command line."
);

/// The files of a results folder.
#[pyclass(frozen, module = "lowmark._lowmark")]
struct Results(front::Results);

#[pymethods]
impl Results {
    /// Returns the experiment's name.
    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    #[getter]
    fn axes(&self) -> Vec<String> {
        self.0.axes().to_vec()
    }

    #[getter]
    fn folder(&self) -> Option<PathBuf> {
        self.0.folder.clone()
    }

    #[getter]
    fn failed(&self) -> Option<String> {
        self.0.failed.clone()
    }

    #[getter]
    fn complete(&self) -> bool {
        self.0.complete
    }

    #[getter]
    fn comparison(&self) -> &str {
        self.0.comparison()
    }

    fn answers(&self) -> Vec<String> {
        self.0.clone().into_comparison().answers
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    fn file<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.0.file(path);
        let bytes = bytes.ok_or_else(|| PyKeyError::new_err(path.to_owned()))?;
        Ok(PyBytes::new(py, bytes))
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = py.detach(|| self.0.table(name));
        Table::of(table.map_err(|e| failure(py, e))?)
    }

    fn export(
        &self,
        py: Python<'_>,
        openmetrics: Option<PathBuf>,
        jsonl: Option<PathBuf>,
        parquet: Option<PathBuf>,
        replace: bool,
    ) -> PyResult<()> {
        let done = py.detach(|| {
            self.0.export(&front::Exports {
                openmetrics: openmetrics.as_deref(),
                jsonl: jsonl.as_deref(),
                parquet: parquet.as_deref(),
                replace,
            })
        });
        done.map_err(|e| failure(py, e))
    }

    #[pyo3(signature = (folder, replace=false))]
    fn save(&self, py: Python<'_>, folder: PathBuf, replace: bool) -> PyResult<PathBuf> {
        let saved = py.detach(|| self.0.save(&folder, replace));
        saved.map_err(|e| failure(py, e))
    }
}

/// An experiment: a file, or a text with a file name for messages.
#[derive(FromPyObject)]
struct Experiment {
    text: Option<String>,
    name: PathBuf,
    set: Vec<String>,
    iterations: Option<u32>,
    seed: Option<u64>,
    track_pages: bool,
}

impl Experiment {
    /// Reads the experiment with its changes, from its text or its file.
    fn read(&self) -> Result<front::Experiment, front::Error> {
        let changes = Changes {
            set: self.set.clone(),
            iterations: self.iterations,
            seed: self.seed,
            track_pages: self.track_pages,
        };
        match &self.text {
            Some(text) => front::parse(text, &self.name.display().to_string(), &changes),
            None => front::load(&self.name, &changes),
        }
    }
}

/// Stops runs in other threads, which receive no signals.
#[pyclass(frozen, module = "lowmark._lowmark")]
struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    fn set(&self) {
        self.0.store(true, Relaxed);
    }
}

/// The options of a run.
#[derive(FromPyObject)]
struct How {
    jobs: Option<usize>,
    check: Option<String>,
    out: Option<PathBuf>,
    resume: Option<PathBuf>,
    replace: bool,
    patience: u64,
    build: String,
    stop: Option<Py<Stop>>,
}

/// Checks the argument `jobs`, a number of threads: `None` stays, 0 is an error.
fn jobs(py: Python<'_>, jobs: Option<usize>) -> PyResult<Option<NonZeroUsize>> {
    let none = || wrong(py, "jobs=0; accepted: a whole number from 1 on");
    jobs.map(|n| NonZeroUsize::new(n).ok_or_else(none))
        .transpose()
}

/// Converts the argument `check`: which checks a run makes, if any; an error names the words
/// accepted.
fn check(py: Python<'_>, how: Option<&str>) -> PyResult<Option<front::Check>> {
    match how {
        None => Ok(None),
        Some("sampled") => Ok(Some(front::Check::Sampled)),
        Some("full") => Ok(Some(front::Check::Full)),
        Some(other) => Err(wrong(
            py,
            format!("check={other:?}; accepted: None, \"sampled\", \"full\""),
        )),
    }
}

/// Runs an experiment; `progress` is called with (done, total, simulated seconds).
#[pyfunction]
fn run(
    py: Python<'_>,
    experiment: Experiment,
    how: How,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let (jobs, check) = (jobs(py, how.jobs)?, check(py, how.check.as_deref())?);
    let stop = how.stop.as_ref().map(|stop| Arc::clone(&stop.get().0));
    let done = interruptible(py, stop, progress.as_ref(), move |stop, tell| {
        let experiment = experiment.read()?;
        let mut tell = |progress: Progress| {
            // The receiver is gone if the caller is about to stop the run.
            let _ = tell.send(progress);
        };
        let options = Options {
            jobs,
            check,
            out: how.out.as_deref(),
            resume: how.resume.as_deref(),
            replace: how.replace,
            patience: Duration::from_secs(how.patience),
            stop,
            build: Some(how.build),
            progress: &mut tell,
        };
        front::run(&experiment, options)
    })?;
    Ok(Results(done))
}

/// Reads a results folder.
#[pyfunction]
fn load(py: Python<'_>, folder: PathBuf) -> PyResult<Results> {
    let opened = py.detach(|| front::Results::open(&folder));
    opened.map(Results).map_err(|e| failure(py, e))
}

/// Returns the keys of an experiment's cells, its iterations, its identity and the memory of its
/// largest run.
#[pyfunction]
fn inspect(
    py: Python<'_>,
    experiment: Experiment,
    build: String,
) -> PyResult<(Vec<String>, u32, String, u64)> {
    let told = py.detach(|| {
        let experiment = experiment.read()?;
        let keys = experiment.cells.iter().map(|c| c.key()).collect();
        let identity = front::identity(&experiment, build)?;
        let memory = front::memory(&experiment);
        Ok((keys, experiment.iterations, identity, memory))
    });
    told.map_err(|e| failure(py, e))
}

/// Returns the memory of an experiment's largest run, in bytes; reads only the experiment.
#[pyfunction]
fn need(py: Python<'_>, experiment: Experiment) -> PyResult<u64> {
    let told = py.detach(|| Ok(front::memory(&experiment.read()?)));
    told.map_err(|e| failure(py, e))
}

/// Returns the digest of a file.
#[pyfunction]
fn digest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let digest = py.detach(|| front::digest(&path));
    digest.map_err(|e| failure(py, e))
}

/// The fields of `MrcOptions`.
#[derive(FromPyObject)]
struct Curves {
    sizes: String,
    policies: Vec<String>,
    sample: Option<String>,
    format: Option<String>,
    unit: String,
    lenient: bool,
    ignore_size: bool,
    writes: Option<(f64, f64, f64)>,
    jobs: Option<usize>,
}

impl Curves {
    /// Converts the arguments for miss-ratio curves to those of the front.
    fn options(self, py: Python<'_>) -> PyResult<MrcOptions> {
        Ok(MrcOptions {
            sizes: self.sizes,
            policies: self.policies,
            sample: self.sample,
            format: self.format,
            unit: self.unit,
            lenient: self.lenient,
            ignore_size: self.ignore_size,
            writes: self.writes.map(|(limit, background, rate)| Writes {
                limit,
                background,
                rate,
            }),
            jobs: jobs(py, self.jobs)?,
            stop: Arc::default(),
        })
    }
}

/// Returns the miss-ratio curves of a trace file or of keys: the table `curves.csv`, the text, the
/// JSON.
#[pyfunction]
fn mrc(
    py: Python<'_>,
    path: Option<PathBuf>,
    keys: Option<Requests>,
    options: Curves,
) -> PyResult<(Table, String, String)> {
    let options = options.options(py)?;
    let curves = interruptible(py, None, None, move |stop, _| {
        let options = MrcOptions { stop, ..options };
        match path {
            Some(path) => front::mrc(&path, &options),
            None => front::mrc_keys(keys.unwrap_or_default().into_keys(), &options),
        }
    })?;
    let csv = front::curves_csv(&curves);
    let table = front::Table::read("curves.csv", csv.as_bytes(), &[]);
    let table = table.map_err(|e| failure(py, e.into()))?;
    let json = serde_json::to_string(&curves).expect("plain data has a JSON form");
    Ok((Table::of(table)?, front::curves_text(&curves), json))
}

/// Scores the engine against published tables; returns JSON and text.
#[pyfunction]
fn reproduce(
    py: Python<'_>,
    series: Option<String>,
    iterations: Option<u32>,
    jobs: Option<usize>,
) -> PyResult<(String, String)> {
    let jobs = self::jobs(py, jobs)?;
    let none = || wrong(py, "iterations=0; accepted: a whole number from 1 on");
    let iterations = iterations.map(|n| NonZeroU32::new(n).ok_or_else(none));
    let iterations = iterations.transpose()?;
    let scored = interruptible(py, None, None, move |stop, _| {
        front::reproduce(series.as_deref(), iterations, jobs, stop)
    })?;
    Ok((scored.json, scored.text))
}

/// Describes a computer as a machine file; returns name, text, notes.
#[pyfunction]
fn capture(
    py: Python<'_>,
    root: Option<PathBuf>,
    name: Option<String>,
    disk: Option<String>,
) -> PyResult<(String, String, Vec<String>)> {
    let captured = py.detach(|| front::capture(root, name, disk));
    let machine = captured.map_err(|e| failure(py, e))?;
    Ok((machine.name, machine.text, machine.notes))
}

/// The extension module.
#[pymodule]
fn _lowmark(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // Messages go into exceptions: plain text, as the command line writes it to a file.
    let plain = MietteHandlerOpts::new().color(false).terminal_links(false);
    let _ = miette::set_hook(Box::new(move |_| Box::new(plain.clone().build())));
    m.add("Error", m.py().get_type::<Error>())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<Results>()?;
    m.add_class::<Stop>()?;
    m.add_class::<Table>()?;
    for function in [
        wrap_pyfunction!(run, m)?,
        wrap_pyfunction!(load, m)?,
        wrap_pyfunction!(inspect, m)?,
        wrap_pyfunction!(need, m)?,
        wrap_pyfunction!(digest, m)?,
        wrap_pyfunction!(mrc, m)?,
        wrap_pyfunction!(policy::misses, m)?,
        wrap_pyfunction!(reproduce, m)?,
        wrap_pyfunction!(capture, m)?,
    ] {
        m.add_function(function)?;
    }
    Ok(())
}
