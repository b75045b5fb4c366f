//! Keys in memory, in the forms that Python has.

use crate::long::wrong;
use front::{Array, Keys};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys: an array of whole numbers, or an iterable.
pub enum Requests {
    /// Keys in Python's memory, which is kept alive.
    There(There),
    /// Keys that had to be converted first.
    Made(Vec<u64>),
}

impl Default for Requests {
    fn default() -> Self {
        Self::Made(Vec::new())
    }
}

impl Requests {
    /// Converts the keys for the front, without a copy if they are in Python's memory.
    pub fn into_keys(self) -> Keys {
        match self {
            Self::There(there) => Keys::new(there),
            Self::Made(keys) => Keys::new(keys),
        }
    }
}

/// A contiguous array of 64-bit numbers. Python code may write to it while it is read; the results
/// are then those of the values read.
pub enum There {
    Unsigned(PyBuffer<u64>),
    /// All of them are at least 0.
    Signed(PyBuffer<i64>),
}

impl Array for There {
    /// Returns the number of keys.
    fn count(&self) -> usize {
        match self {
            Self::Unsigned(buffer) => buffer.item_count(),
            Self::Signed(buffer) => buffer.item_count(),
        }
    }

    /// Returns the key at the index `place`. Python code may write to the array meanwhile, so the
    /// number is read atomically.
    fn at(&self, place: usize) -> u64 {
        assert!(place < self.count(), "a place of the array");
        let start = match self {
            Self::Unsigned(buffer) => buffer.buf_ptr(),
            Self::Signed(buffer) => buffer.buf_ptr(),
        };
        // SAFETY: the buffer is aligned for its items (`PyBuffer::get`), contiguous, and lives as
        // long as `self`.
        let key = unsafe { AtomicU64::from_ptr(start.cast::<u64>().add(place)) };
        key.load(Relaxed)
    }
}

/// Makes the exception for a negative key.
fn negative(py: Python<'_>) -> PyErr {
    wrong(py, "a key is below 0; accepted: whole numbers from 0 on")
}

/// Returns the numbers of a Python buffer as keys; `None` if its items have another type than `T`.
/// A negative number is an error.
fn items<T: Element + TryInto<u64>>(given: &Bound<'_, PyAny>) -> Option<PyResult<Vec<u64>>> {
    let py = given.py();
    let numbers = PyBuffer::<T>::get(given).ok()?.to_vec(py);
    let keys = numbers.map(|all| all.into_iter().map(TryInto::try_into).collect());
    Some(keys.and_then(|all: Result<_, _>| all.map_err(|_| negative(py))))
}

/// Returns the array itself if it can be read in place, because its items have 64 bits and lie one
/// after the other; `None` otherwise. A negative number is an error.
fn there(given: &Bound<'_, PyAny>) -> PyResult<Option<There>> {
    if let Ok(buffer) = PyBuffer::<u64>::get(given)
        && buffer.is_c_contiguous()
    {
        return Ok(Some(There::Unsigned(buffer)));
    }
    if let Ok(buffer) = PyBuffer::<i64>::get(given)
        && buffer.is_c_contiguous()
    {
        let there = There::Signed(buffer);
        if (0..there.count()).any(|place| there.at(place) > i64::MAX as u64) {
            return Err(negative(given.py()));
        }
        return Ok(Some(there));
    }
    Ok(None)
}

impl<'py> FromPyObject<'_, 'py> for Requests {
    type Error = PyErr;

    /// Converts what a Python caller gives as keys: an array that can be read in place, one of
    /// smaller numbers, or an iterable of whole numbers.
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Some(there) = there(&given)? {
            return Ok(Self::There(there));
        }
        let kinds = [
            items::<u64>,
            items::<i64>,
            items::<u32>,
            items::<i32>,
            items::<u16>,
            items::<i16>,
            items::<u8>,
            items::<i8>,
        ];
        if let Some(keys) = kinds.iter().find_map(|kind| kind(&given)) {
            return keys.map(Self::Made);
        }
        // Python's own numbers.
        let mut keys = Vec::new();
        for key in given.try_iter()? {
            let key = key?;
            match key.extract::<u64>() {
                Ok(key) => keys.push(key),
                Err(e) if e.is_instance_of::<PyTypeError>(given.py()) => {
                    let said = format!(
                        "{} is no key; accepted: whole numbers from 0 on",
                        key.repr()?
                    );
                    return Err(PyTypeError::new_err(said));
                }
                Err(_) => {
                    let said = format!(
                        "{} is no key; accepted: whole numbers from 0 to 2^64 - 1",
                        key.repr()?
                    );
                    return Err(wrong(given.py(), said));
                }
            }
        }
        Ok(Self::Made(keys))
    }
}
