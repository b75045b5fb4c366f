//! The front of [`lowmark`] for C programs: what is in `include/lowmark.h`, which cbindgen makes of this file.
//!
//! Nothing is computed here. No panic leaves it: what would be one is an error with [`Code::Failed`].
#![deny(unsafe_op_in_unsafe_fn)]

mod borrowed;

use borrowed::{numbers, text, texts};
use lowmark::front::{self, Changes, Experiment, Keys, MrcOptions};
use std::ffi::{CString, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How a call ended, as the command line's exit codes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It did what it should.
    Done = 0,
    /// The system failed, an iteration or a check did, or there is a bug in lowmark.
    Failed = 1,
    /// Something in what was given is wrong; the error says what would be accepted.
    WrongInput = 2,
    /// `progress` stopped it.
    Stopped = 130,
}

/// What stands above an experiment's text, and how it is run. All zero is as the text has it.
#[repr(C)]
pub struct Options {
    /// Keys of the experiment with their values as TOML, `machine.cpus=2`; `sets` of them.
    pub set: *const *const c_char,
    /// How many there are.
    pub sets: usize,
    /// Iterations of each cell; 0: the text's.
    pub iterations: u32,
    /// Threads; 0: as many as there are cores and memory for. The results are the same for any number.
    pub jobs: u32,
    /// The seed that iterations derive theirs from; NULL: the text's.
    pub seed: *const u64,
    /// The results folder; NULL: the results are in memory alone.
    pub out: *const c_char,
    /// Whether earlier results there may be replaced.
    pub replace: bool,
    /// Is told at the beginning and after each iteration how many of all are finished, by the thread that called; if it gives
    /// anything but 0, the run stops, and what is finished is kept in the folder. NULL: nobody is told.
    pub progress:
        Option<unsafe extern "C" fn(context: *mut c_void, done: usize, total: usize) -> c_int>,
    /// What `progress` is given.
    pub context: *mut c_void,
}

/// Results of a run: the files of a results folder, whether they were put into one or not.
pub struct Results {
    results: front::Results,
    comparison: CString,
    failed: Option<CString>,
    names: Vec<CString>,
}

impl Results {
    fn of(results: front::Results) -> Self {
        Self {
            comparison: c_text(results.comparison()),
            failed: results.failed.as_deref().map(c_text),
            names: results.names().map(c_text).collect(),
            results,
        }
    }
}

/// A text as C has it: what follows a zero in it is lost.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).expect("it was cut at its first zero")
}

fn wrong(what: &str) -> front::Error {
    front::Error {
        message: what.to_owned(),
        code: Code::WrongInput as u8,
    }
}

/// Does work and puts what it makes into its place, NULL if it fails; tells the caller how it ended. `what` the place is
/// for, in messages.
///
/// # Safety
/// `place` and `error` are NULL or take a pointer.
unsafe fn answer<T>(
    (what, place): (&str, *mut *mut T),
    error: *mut *mut c_char,
    work: impl FnOnce() -> Result<*mut T, front::Error>,
) -> Code {
    let done = match place.is_null() {
        true => Ok(Err(wrong(&format!("no place for {what}")))),
        false => {
            // SAFETY: as promised, it takes a pointer.
            unsafe { place.write(ptr::null_mut()) };
            catch_unwind(AssertUnwindSafe(work))
        }
    };
    let (message, code) = match done {
        Ok(Ok(made)) => {
            // SAFETY: as above; without a place nothing is made.
            unsafe { place.write(made) };
            (None, Code::Done)
        }
        Ok(Err(e)) => {
            let code = match e.code {
                2 => Code::WrongInput,
                130 => Code::Stopped,
                _ => Code::Failed,
            };
            (Some(e.message), code)
        }
        Err(payload) => (Some(front::panicked(payload.as_ref())), Code::Failed),
    };
    if !error.is_null() {
        let message = message.map_or(ptr::null_mut(), |m| c_text(&m).into_raw());
        // SAFETY: it takes a pointer.
        unsafe { error.write(message) };
    }
    code
}

/// The version of this library, `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Runs an experiment: a file, or, if `text` is not NULL, that text as if it lay in a file named `name`. Files that it
/// names are looked for beside that, in the folders above, and among those that come with the library.
///
/// `options` may be NULL. `*results` are the caller's, to be given back to `lowmark_free_results`, and NULL if it
/// fails. Iterations that failed are no error: `lowmark_failed` tells of them.
///
/// # Safety
/// Strings end with a zero and lists have the lengths that are said; `results` takes a pointer, `error` too unless it
/// is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_run(
    name: *const c_char,
    text: *const c_char,
    options: *const Options,
    results: *mut *mut Results,
    error: *mut *mut c_char,
) -> Code {
    let work = || {
        // SAFETY: as promised, strings and lists.
        let (experiment, options) = unsafe { (read(name, text, options)?, options.as_ref()) };
        // SAFETY: what was read once is as it was.
        let done = unsafe { run(&experiment, options)? };
        Ok(Box::into_raw(Box::new(Results::of(done))))
    };
    // SAFETY: as promised.
    unsafe { answer(("results", results), error, work) }
}

/// The experiment that is meant.
///
/// # Safety
/// As [`lowmark_run`].
unsafe fn read(
    name: *const c_char,
    text_of_it: *const c_char,
    options: *const Options,
) -> Result<Experiment, front::Error> {
    let mut changes = Changes::default();
    // SAFETY: as promised; so below.
    if let Some(options) = unsafe { options.as_ref() } {
        changes.set = unsafe { texts("set", options.set, options.sets)? };
        changes.iterations = Some(options.iterations).filter(|n| *n > 0);
        changes.seed = unsafe { options.seed.as_ref() }.copied();
    }
    let name = unsafe { text("name", name)? };
    if text_of_it.is_null() {
        return front::load(Path::new(name), &changes);
    }
    front::parse(unsafe { text("text", text_of_it)? }, name, &changes)
}

/// # Safety
/// As [`lowmark_run`].
unsafe fn run(
    experiment: &Experiment,
    options: Option<&Options>,
) -> Result<front::Results, front::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tell = |progress: front::Progress| {
        let Some((heard, context)) = options.and_then(|o| Some((o.progress?, o.context))) else {
            return;
        };
        // SAFETY: it is the caller's own function with the caller's own context.
        if unsafe { heard(context, progress.done, progress.total) } != 0 {
            stop.store(true, Relaxed);
        }
    };
    let mut how = front::Options {
        stop: Arc::clone(&stop),
        progress: &mut tell,
        ..front::Options::default()
    };
    if let Some(options) = options {
        how.jobs = NonZeroUsize::new(options.jobs as usize);
        how.replace = options.replace;
        if !options.out.is_null() {
            // SAFETY: as promised, a string.
            how.out = Some(Path::new(unsafe { text("out", options.out)? }));
        }
    }
    front::run(experiment, how)
}

/// Which policy is better, as `lowmark run` prints it.
///
/// # Safety
/// `results` came from `lowmark_run` and was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_comparison(results: *const Results) -> *const c_char {
    // SAFETY: as promised.
    let results = unsafe { results.as_ref() };
    results.map_or(ptr::null(), |r| r.comparison.as_ptr())
}

/// What went wrong in iterations; NULL if nothing did.
///
/// # Safety
/// As `lowmark_comparison`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_failed(results: *const Results) -> *const c_char {
    // SAFETY: as promised.
    let failed = unsafe { results.as_ref() }.and_then(|r| r.failed.as_ref());
    failed.map_or(ptr::null(), |text| text.as_ptr())
}

/// The path of the file of that number, from 0 on, in the results folder; NULL behind the last one.
///
/// # Safety
/// As `lowmark_comparison`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_name(results: *const Results, number: usize) -> *const c_char {
    // SAFETY: as promised.
    let name = unsafe { results.as_ref() }.and_then(|r| r.names.get(number));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// A file of the results by its path, `summary.csv`, and how long it is; NULL if there is none. It does not end
/// with a zero.
///
/// # Safety
/// As `lowmark_comparison`; `path` is a string, `length` takes a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_file(
    results: *const Results,
    path: *const c_char,
    length: *mut usize,
) -> *const u8 {
    // SAFETY: as promised.
    let (results, path) = unsafe { (results.as_ref(), text("path", path)) };
    let file = results.and_then(|r| r.results.file(path.ok()?));
    if !length.is_null() {
        // SAFETY: it takes a number.
        unsafe { length.write(file.map_or(0, <[u8]>::len)) };
    }
    file.map_or(ptr::null(), <[u8]>::as_ptr)
}

/// Miss-ratio curves of a trace file as CSV, as `lowmark mrc --out` writes them: a line for each policy and size.
/// `sizes`: `5000,10000`, `1000..100000:50`, `512MiB`, `10%`. `policies`: names with commas between, or `all`.
///
/// # Safety
/// Strings end with a zero; `csv` takes a pointer, `error` too unless it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_mrc(
    trace: *const c_char,
    sizes: *const c_char,
    policies: *const c_char,
    csv: *mut *mut c_char,
    error: *mut *mut c_char,
) -> Code {
    let work = || {
        // SAFETY: as promised.
        let (trace, options) = unsafe { (text("trace", trace)?, curves_of(sizes, policies)?) };
        front::mrc(Path::new(trace), &options)
    };
    // SAFETY: as promised.
    unsafe { curves(csv, error, work) }
}

/// As `lowmark_mrc`, of keys in memory: each is one request for one page, in order.
///
/// # Safety
/// As `lowmark_mrc`; there are `count` keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_mrc_keys(
    keys: *const u64,
    count: usize,
    sizes: *const c_char,
    policies: *const c_char,
    csv: *mut *mut c_char,
    error: *mut *mut c_char,
) -> Code {
    let work = || {
        // SAFETY: as promised.
        let (keys, options) =
            unsafe { (numbers("keys", keys, count)?, curves_of(sizes, policies)?) };
        front::mrc_keys(Keys::new(keys.to_vec()), &options)
    };
    // SAFETY: as promised.
    unsafe { curves(csv, error, work) }
}

/// # Safety
/// As [`lowmark_mrc`].
unsafe fn curves_of(
    sizes: *const c_char,
    policies: *const c_char,
) -> Result<MrcOptions, front::Error> {
    // SAFETY: as promised.
    let (sizes, policies) = unsafe { (text("sizes", sizes)?, text("policies", policies)?) };
    Ok(MrcOptions {
        sizes: sizes.to_owned(),
        policies: policies.split(',').map(|p| p.trim().to_owned()).collect(),
        ..MrcOptions::default()
    })
}

/// # Safety
/// As [`lowmark_mrc`].
unsafe fn curves(
    csv: *mut *mut c_char,
    error: *mut *mut c_char,
    work: impl FnOnce() -> Result<front::Curves, front::Error>,
) -> Code {
    let work = || Ok(c_text(&front::curves_csv(&work()?)).into_raw());
    // SAFETY: as promised.
    unsafe { answer(("curves", csv), error, work) }
}

/// Gives back what came as `char *` or through `error`; NULL is nothing.
///
/// # Safety
/// It came from this library and was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as promised, `into_raw` made it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Gives back results; NULL is nothing.
///
/// # Safety
/// As `lowmark_free`, of `lowmark_run`; nobody reads them any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_free_results(results: *mut Results) {
    if !results.is_null() {
        // SAFETY: as promised, `Box::into_raw` made it.
        drop(unsafe { Box::from_raw(results) });
    }
}
