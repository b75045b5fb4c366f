//! Eviction policies written in Python, for experiments: some hundred times slower than those in
//! Rust.

use crate::Curves;
use crate::keys::Requests;
use crate::long::{interruptible, wrong};
use evict::{Policy, Slot};
use front::MrcOptions;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

thread_local! {
    /// The class of the policy that this thread simulates: the trait makes policies without
    /// arguments.
    static CLASS: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// Calls between two checks for signals.
const PATIENCE: u32 = 1 << 12;

/// A policy whose hooks are methods of a Python object.
struct InPython {
    object: Py<PyAny>,
    /// The slots in the policy, which it may evict.
    held: Vec<bool>,
    count: usize,
    hears_misses: bool,
    calls: u32,
}

/// Ends the simulation with an exception, because the hooks of the trait can't return errors.
fn raise(e: PyErr) -> ! {
    resume_unwind(Box::new(e))
}

impl InPython {
    /// Calls a method of the Python policy and returns its result. Checks for signals now and then;
    /// an exception ends the simulation.
    fn call<'py>(
        &mut self,
        py: Python<'py>,
        hook: &str,
        args: impl pyo3::call::PyCallArgs<'py>,
    ) -> Bound<'py, PyAny> {
        self.calls += 1;
        if self.calls.is_multiple_of(PATIENCE)
            && let Err(e) = py.check_signals()
        {
            raise(e);
        }
        let called = self.object.bind(py).call_method1(hook, args);
        called.unwrap_or_else(|e| raise(e))
    }

    /// Notes that the policy no longer has `slot`.
    fn out(&mut self, slot: Slot) {
        self.held[slot as usize] = false;
        self.count -= 1;
    }
}

impl Policy for InPython {
    /// Makes a Python object of the class that this thread simulates, for `slots` slots.
    fn new(slots: u32) -> Self {
        Python::attach(|py| {
            let made = CLASS.with_borrow(|class| {
                let class = class.as_ref().expect("set before the simulation");
                class.bind(py).call1((slots,))
            });
            let object = made.unwrap_or_else(|e| raise(e));
            Self {
                hears_misses: object.hasattr("miss").unwrap_or(false),
                object: object.unbind(),
                held: vec![false; slots as usize],
                count: 0,
                calls: 0,
            }
        })
    }

    /// Calls the Python method `miss`, if the policy has one.
    fn miss(&mut self, object: u64) {
        if self.hears_misses {
            Python::attach(|py| self.call(py, "miss", (object,)).unbind());
        }
    }

    /// Notes that the policy has `slot`, and calls the Python method `admit`.
    fn admit(&mut self, slot: Slot, object: u64) {
        self.held[slot as usize] = true;
        self.count += 1;
        Python::attach(|py| self.call(py, "admit", (slot, object)).unbind());
    }

    /// Calls the Python method `access` for a use of the page in `slot`.
    fn access(&mut self, slot: Slot) {
        Python::attach(|py| self.call(py, "access", (slot,)).unbind());
    }

    /// Calls the Python method `evict` and returns its slot; `None` if no slot is occupied. A slot
    /// that the policy does not have, or `None` while it has one, ends the simulation with an
    /// exception.
    fn evict(&mut self) -> Option<Slot> {
        let slot = Python::attach(|py| {
            let said = self.call(py, "evict", ());
            said.extract::<Option<u32>>().unwrap_or_else(|e| raise(e))
        });
        let held = slot.is_some_and(|s| self.held.get(s as usize).is_some_and(|held| *held));
        match slot {
            Some(slot) if held => self.out(slot),
            None if self.count == 0 => {}
            other => {
                let other = other.map_or("None".to_owned(), |slot| slot.to_string());
                let said = format!(
                    "evict() returned {other}; accepted: one of the {} slots that were admitted and have not left",
                    self.count
                );
                raise(Python::attach(|py| wrong(py, said)))
            }
        }
        slot
    }

    /// Notes that the policy no longer has `slot`, and calls the Python method `remove`.
    fn remove(&mut self, slot: Slot) {
        self.out(slot);
        Python::attach(|py| self.call(py, "remove", (slot,)).unbind());
    }
}

/// Returns (size, requests, misses) of a policy for each of some sizes. The options determine how
/// the trace is read.
#[pyfunction]
pub fn misses(
    py: Python<'_>,
    class_: Py<PyAny>,
    path: Option<PathBuf>,
    keys: Option<Requests>,
    sizes: Vec<u32>,
    options: Curves,
) -> PyResult<Vec<(u32, u64, u64)>> {
    let options = options.options(py)?;
    let dense = interruptible(py, None, None, move |stop, _| {
        let options = MrcOptions { stop, ..options };
        match path {
            Some(path) => front::numbered(&path, &options),
            None => front::numbered_keys(keys.unwrap_or_default().into_keys(), &options),
        }
    })?;
    CLASS.set(Some(class_));
    let run = || {
        let one = |size: &u32| {
            let counts = dense.run::<InPython>(*size);
            (*size, counts.requests, counts.misses)
        };
        sizes.iter().map(one).collect()
    };
    let done = catch_unwind(AssertUnwindSafe(run));
    CLASS.set(None);
    done.map_err(|payload| match payload.downcast::<PyErr>() {
        Ok(e) => *e,
        Err(payload) => resume_unwind(payload),
    })
}
