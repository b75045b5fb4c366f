//! Reads the handles, paths, result places and memory that a C program passes for a call.

use crate::answer::Wrong;
use libc::iovec;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::slice;

/// Makes the error that the pointer `what` is NULL.
pub(crate) fn null(what: &str) -> Wrong {
    Wrong::new(libc::EFAULT, format!("`{what}` is NULL"))
}

/// Reads a handle or other object through a pointer; `what` names it in messages.
///
/// # Errors
/// The pointer is NULL.
///
/// # Safety
/// The pointer is NULL, or the object is valid as long as the result is used.
pub(crate) unsafe fn deref<'a, T>(what: &str, at: *const T) -> Result<&'a T, Wrong> {
    // SAFETY: as promised.
    unsafe { at.as_ref() }.ok_or_else(|| null(what))
}

/// Reads a path that a C program passes; `what` names the argument in messages.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// If it is not NULL, it ends with a zero byte and outlives the result.
pub(crate) unsafe fn path<'a>(what: &str, path: *const c_char) -> Result<&'a Path, Wrong> {
    if path.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Runs `work` and writes its result to `place`, which is zeroed first and stays zero on an error;
/// `what` names the place in messages.
///
/// # Errors
/// `place` is NULL, or `work` fails.
///
/// # Safety
/// `place` is NULL or valid for writing a `T`, and a `T` of zero bytes is valid.
pub(crate) unsafe fn make<T>(
    what: &str,
    place: *mut T,
    work: impl FnOnce() -> Result<T, Wrong>,
) -> Result<(), Wrong> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised, so below.
    unsafe { place.write_bytes(0, 1) };
    let made = work()?;
    unsafe { place.write(made) };
    Ok(())
}

/// Converts the length of a list, which must not be negative; `what` names the list in messages.
fn counted(what: &str, count: c_int) -> Result<usize, Wrong> {
    usize::try_from(count).map_err(|_| {
        let message = format!("the number of `{what}` is {count}; accepted: 0 or more");
        Wrong::new(libc::EINVAL, message)
    })
}

/// Returns the `count` places of a list that a C program passes for results, zeroed; `what` names
/// it in messages.
///
/// # Errors
/// `count` is negative, or `list` is NULL and `count` is above 0.
///
/// # Safety
/// `list` is NULL or valid for writing `count` values that nobody else uses; a `T` of zero bytes is
/// valid.
pub(crate) unsafe fn places<'a, T>(
    what: &str,
    list: *mut T,
    count: c_int,
) -> Result<&'a mut [T], Wrong> {
    let n = counted(what, count)?;
    if n == 0 {
        return Ok(&mut []);
    }
    if list.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised, so below.
    unsafe { list.write_bytes(0, n) };
    Ok(unsafe { slice::from_raw_parts_mut(list, n) })
}

/// The largest length of memory as a slice, in bytes.
const MOST: usize = isize::MAX as usize;

/// Checks that `length` bytes at `base` can be a slice: `base` is not NULL, and the length not too
/// large. `what` names them in messages.
fn fits(what: &str, base: *const c_void, length: usize) -> Result<(), Wrong> {
    if length > MOST {
        let message = format!("`{what}` has {length} bytes; accepted: up to {MOST}");
        return Err(Wrong::new(libc::EINVAL, message));
    }
    match base.is_null() {
        true => Err(null(what)),
        false => Ok(()),
    }
}

/// Returns memory that a call reads, `length` bytes from `base` on; `what` names it in messages.
///
/// # Errors
/// `base` is NULL and `length` is above 0, or `length` is above [`MOST`].
///
/// # Safety
/// `base` is NULL or has `length` bytes, which do not change meanwhile.
pub(crate) unsafe fn bytes<'a>(
    what: &str,
    base: *const c_void,
    length: usize,
) -> Result<&'a [u8], Wrong> {
    if length == 0 {
        return Ok(&[]);
    }
    fits(what, base, length)?;
    // SAFETY: as promised.
    Ok(unsafe { slice::from_raw_parts(base.cast(), length) })
}

/// Returns memory that a call writes, `length` bytes from `base` on; `what` names it in messages.
///
/// # Errors
/// As [`bytes`].
///
/// # Safety
/// `base` is NULL or has room for `length` bytes, initialised or not, that nobody else uses
/// meanwhile.
pub(crate) unsafe fn room<'a>(
    what: &str,
    base: *mut c_void,
    length: usize,
) -> Result<&'a mut [u8], Wrong> {
    if length == 0 {
        return Ok(&mut []);
    }
    fits(what, base, length)?;
    // SAFETY: as promised; the cache only writes there.
    Ok(unsafe { slice::from_raw_parts_mut(base.cast(), length) })
}

/// Reads a list of `count` memory ranges, as of readv(2); `what` names it in messages.
///
/// # Errors
/// `count` is negative, `list` is NULL and `count` is above 0, or the ranges have more than
/// [`MOST`] bytes in all, which the result of a call could not express.
///
/// # Safety
/// `list` is NULL or has `count` entries.
pub(crate) unsafe fn pieces<'a>(
    what: &str,
    list: *const iovec,
    count: c_int,
) -> Result<&'a [iovec], Wrong> {
    let n = counted(what, count)?;
    if n == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised.
    let list = unsafe { slice::from_raw_parts(list, n) };
    let sum = list
        .iter()
        .try_fold(0_usize, |sum, v| sum.checked_add(v.iov_len));
    match sum.filter(|&n| n <= MOST) {
        Some(_) => Ok(list),
        None => Err(Wrong::new(
            libc::EINVAL,
            format!("`{what}` have more than {MOST} bytes"),
        )),
    }
}
