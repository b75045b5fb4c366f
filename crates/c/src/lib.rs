#![doc = include_str!("../README.md")]
#![deny(unsafe_op_in_unsafe_fn)]

mod borrowed;

use borrowed::{numbers, text, texts};
use front::{Changes, Experiment, Keys, MrcOptions};
use std::ffi::{CString, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The result of a call, with the numbers of the command line's exit codes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Done = 0,
    /// The system failed, an iteration or a check failed, or lowmark has a bug.
    Failed = 1,
    /// An argument is wrong; the error says what would be accepted.
    WrongInput = 2,
    /// `progress` stopped the run.
    Stopped = 130,
}

/// Changes to an experiment's text, and how it is run. All zero: nothing is changed.
#[repr(C)]
pub struct Options {
    /// A list of `sets` keys of the experiment with values in TOML, such as `machine.cpus=2`.
    pub set: *const *const c_char,
    /// The number of entries in `set`.
    pub sets: usize,
    /// Iterations of each cell; 0: as in the text.
    pub iterations: u32,
    /// Threads; 0: as many as cores and memory allow. The results are the same for any number.
    pub jobs: u32,
    /// The seed from which each iteration derives its own; NULL: as in the text.
    pub seed: *const u64,
    /// The path of the results folder; NULL: the results are kept in memory only.
    pub out: *const c_char,
    /// Whether earlier results in the folder may be replaced.
    pub replace: bool,
    /// Called at the beginning and after each iteration, on the calling thread, with the number of
    /// finished iterations and of all. If it returns anything but 0, the run stops, and the
    /// finished iterations are kept in the folder. NULL: not called.
    pub progress:
        Option<unsafe extern "C" fn(context: *mut c_void, done: usize, total: usize) -> c_int>,
    /// The first argument of `progress`.
    pub context: *mut c_void,
}

/// The results of a run: the files of a results folder, whether they were written to one or not.
pub struct Results {
    results: front::Results,
    comparison: CString,
    failed: Option<CString>,
    names: Vec<CString>,
}

impl Results {
    /// Converts the results of a run for a C program: texts that it asks for become C strings once.
    fn of(results: front::Results) -> Self {
        Self {
            comparison: c_text(results.comparison()),
            failed: results.failed.as_deref().map(c_text),
            names: results.names().map(c_text).collect(),
            results,
        }
    }
}

/// Converts a text for C; a zero byte and all that follows it is cut off.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).expect("it was cut at its first zero")
}

/// Makes the error of an argument that is wrong; `what` says what would be accepted.
fn wrong(what: &str) -> front::Error {
    front::Error {
        message: what.to_owned(),
        code: Code::WrongInput as u8,
    }
}

/// Runs `work`, writes its result to `place` (NULL if it fails) and its error message to `error`,
/// and returns the code. `what`: the name of the result in messages.
///
/// # Safety
/// `place` and `error` are NULL or valid for writing a pointer.
unsafe fn answer<T>(
    (what, place): (&str, *mut *mut T),
    error: *mut *mut c_char,
    work: impl FnOnce() -> Result<*mut T, front::Error>,
) -> Code {
    let done = match place.is_null() {
        true => Ok(Err(wrong(&format!("the pointer for {what} is NULL")))),
        false => {
            // SAFETY: `place` is valid for a pointer, by the function's contract.
            unsafe { place.write(ptr::null_mut()) };
            catch_unwind(AssertUnwindSafe(work))
        }
    };
    let (message, code) = match done {
        Ok(Ok(made)) => {
            // SAFETY: as above; nothing is made without a place.
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
        // SAFETY: `error` is valid for a pointer, by the function's contract.
        unsafe { error.write(message) };
    }
    code
}

/// Returns the version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Runs an experiment: the file `name`, or, if `text` is not NULL, that text as if it were the
/// content of a file `name`. Files that the experiment names are looked for beside that file, in
/// the folders above, and among those that come with the library.
///
/// `options` may be NULL. The caller frees `*results` with `lowmark_free_results`; it is NULL if
/// the call fails. Iterations that failed are no error of the call: `lowmark_failed` reports them.
///
/// # Safety
/// Strings end with a zero byte and lists have the given lengths; `results` is valid for writing a
/// pointer, and so is `error` unless it is NULL.
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
        // SAFETY: the same options were valid for `read`.
        let done = unsafe { run(&experiment, options)? };
        Ok(Box::into_raw(Box::new(Results::of(done))))
    };
    // SAFETY: as promised.
    unsafe { answer(("results", results), error, work) }
}

/// Reads the experiment that a C program names, with the changes of `options`: the file `name`, or,
/// if `text_of_it` is not NULL, that text in its place.
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

/// Runs the experiment as the options of a C program demand, which may be NULL. The program's
/// `progress` is called between iterations; any answer but 0 stops the run.
///
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

/// Returns the comparison of the policies, as `lowmark run` prints it.
///
/// # Safety
/// `results` is NULL, or came from `lowmark_run` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_comparison(results: *const Results) -> *const c_char {
    // SAFETY: as promised.
    let results = unsafe { results.as_ref() };
    results.map_or(ptr::null(), |r| r.comparison.as_ptr())
}

/// Returns the errors of failed iterations; NULL if none failed.
///
/// # Safety
/// As `lowmark_comparison`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_failed(results: *const Results) -> *const c_char {
    // SAFETY: as promised.
    let failed = unsafe { results.as_ref() }.and_then(|r| r.failed.as_ref());
    failed.map_or(ptr::null(), |text| text.as_ptr())
}

/// Returns the path in the results folder of file `number`, counted from 0; NULL behind the last
/// file.
///
/// # Safety
/// As `lowmark_comparison`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_name(results: *const Results, number: usize) -> *const c_char {
    // SAFETY: as promised.
    let name = unsafe { results.as_ref() }.and_then(|r| r.names.get(number));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Returns the content of the results' file `path`, such as `summary.csv`, and writes its length to
/// `length`; NULL if there is no such file. The content does not end with a zero byte.
///
/// # Safety
/// As `lowmark_comparison`; `path` ends with a zero byte, `length` is NULL or valid for writing.
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
        // SAFETY: `length` is valid for writing, by the function's contract.
        unsafe { length.write(file.map_or(0, <[u8]>::len)) };
    }
    file.map_or(ptr::null(), <[u8]>::as_ptr)
}

/// Computes miss-ratio curves of a trace file as CSV, as `lowmark mrc --out` writes them: a line
/// for each policy and size. `sizes`: `5000,10000`, `1000..100000:50`, `512MiB` or `10%`.
/// `policies`: names separated by commas, or `all`. The caller frees `*csv` with `lowmark_free`.
///
/// # Safety
/// Strings end with a zero byte; `csv` is valid for writing a pointer, and so is `error` unless it
/// is NULL.
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

/// Computes curves as `lowmark_mrc` does, for `count` keys in memory; each is a request for one
/// page.
///
/// # Safety
/// As `lowmark_mrc`; `keys` has `count` keys.
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

/// Reads the sizes and policies of miss-ratio curves from the strings of a C program.
///
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

/// Answers a C program's call for miss-ratio curves: runs `work`, and writes the curves as CSV to
/// `csv`, or the error's message to `error`.
///
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

/// Frees a text returned as `char *` or through `error`; NULL is allowed.
///
/// # Safety
/// `text` came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as promised, `into_raw` made it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Frees the results of a run; NULL is allowed.
///
/// # Safety
/// `results` is NULL, or came from `lowmark_run`, was not freed, and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_free_results(results: *mut Results) {
    if !results.is_null() {
        // SAFETY: as promised, `Box::into_raw` made it.
        drop(unsafe { Box::from_raw(results) });
    }
}
