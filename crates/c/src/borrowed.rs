//! Reads the strings and lists that a C program passes for the duration of a call.

use crate::wrong;
use front::Error;
use std::ffi::{CStr, c_char};
use std::slice;

/// Reads a string; `what` names it in messages.
///
/// # Errors
/// It is NULL or not UTF-8.
///
/// # Safety
/// If it is not NULL, it ends with a zero byte and outlives the result.
pub unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(wrong(&format!("`{what}` is NULL; accepted: a string")));
    }
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(text) };
    let utf8 = |_| {
        wrong(&format!(
            "`{what}` is not UTF-8; accepted: a string of UTF-8"
        ))
    };
    text.to_str().map_err(utf8)
}

/// Reads a list of `count` strings.
///
/// # Errors
/// As [`text`].
///
/// # Safety
/// `list` is NULL or has `count` strings, each as [`text`] requires.
pub unsafe fn texts(
    what: &str,
    list: *const *const c_char,
    count: usize,
) -> Result<Vec<String>, Error> {
    // SAFETY: as promised; so below.
    let list = unsafe { numbers(what, list, count)? };
    let owned = |one: &*const c_char| Ok(unsafe { text(what, *one)? }.to_owned());
    list.iter().map(owned).collect()
}

/// Reads a list of `count` plain values.
///
/// # Errors
/// It is NULL and `count` is above 0.
///
/// # Safety
/// `list` is NULL or has `count` values, and they outlive the result.
pub unsafe fn numbers<'a, T>(what: &str, list: *const T, count: usize) -> Result<&'a [T], Error> {
    match (list.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(wrong(&format!(
            "`{what}` is NULL; accepted: a list of {count}"
        ))),
        // SAFETY: as promised.
        (false, _) => Ok(unsafe { slice::from_raw_parts(list, count) }),
    }
}
