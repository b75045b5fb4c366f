//! Long calls: run without the interpreter's lock, and stopped by Ctrl-C.

use crate::Error;
use front::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// The interval at which signals are checked.
const TICK: Duration = Duration::from_millis(50);
/// The stack of the worker thread in bytes, as in the command line.
const STACK: usize = 8 << 20;

/// Converts an error of the front to Python's exception `Error`, whose attribute `code` is the exit
/// code of the command line.
pub fn failure(py: Python<'_>, error: front::Error) -> PyErr {
    let raised = Error::new_err(error.message);
    match raised.value(py).setattr("code", error.code) {
        Ok(()) => raised,
        Err(e) => e,
    }
}

/// Makes the exception for a wrong argument, with the exit code 2.
pub fn wrong(py: Python<'_>, message: impl Into<String>) -> PyErr {
    let message = message.into();
    failure(py, front::Error { message, code: 2 })
}

/// Runs `work` in another thread, without the interpreter's lock, and returns its result. `stop` is
/// the flag that stops it, if others share it. `progress` is called in the calling thread with the
/// messages of the work; if it raises, or a signal handler does, the work is stopped and the
/// exception is passed on when it has ended.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    stop: Option<Arc<AtomicBool>>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Arc<AtomicBool>, Sender<Progress>) -> Result<T, front::Error> + Send,
) -> PyResult<T> {
    let stop = stop.unwrap_or_default();
    let theirs = Arc::clone(&stop);
    std::thread::scope(|scope| {
        let (tell, told) = channel();
        let worker = Builder::new()
            .name("lowmark".into())
            .stack_size(STACK)
            .spawn_scoped(scope, move || work(theirs, tell));
        let worker = worker.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        let mut raised: Option<PyErr> = None;
        let told = std::sync::Mutex::new(told);
        loop {
            let next = py.detach(|| told.lock().expect("no panic here").recv_timeout(TICK));
            let heard = match (next, progress) {
                (Err(RecvTimeoutError::Disconnected), _) => break,
                (Ok(p), Some(progress)) if raised.is_none() => {
                    let called = progress.call1((p.done, p.total, p.simulated));
                    called.map(drop)
                }
                _ => Ok(()),
            };
            if let Err(e) = heard.and_then(|()| py.check_signals())
                && raised.is_none()
            {
                stop.store(true, Relaxed);
                raised = Some(e);
            }
        }
        let done = py.detach(|| worker.join());
        let done = match done {
            Ok(done) => done.map_err(|e| failure(py, e)),
            Err(payload) => Err(Error::new_err(front::panicked(payload.as_ref()))),
        };
        match raised {
            None => done,
            Some(raised) => {
                // For example the folder in which finished iterations are kept.
                if let Err(e) = done {
                    let _ = raised
                        .value(py)
                        .call_method1("add_note", (e.value(py).to_string(),));
                }
                Err(raised)
            }
        }
    })
}
