//! What a C program lends for a call: handles, paths, places, memory.

use crate::answer::Wrong;
use libc::iovec;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::slice;

pub(crate) fn null(what: &str) -> Wrong {
    Wrong::new(libc::EFAULT, format!("`{what}` is NULL"))
}

/// A handle, or another thing that is read; `what` it is, in messages.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// If it is not NULL, it is one and stays one.
pub(crate) unsafe fn thing<'a, T>(what: &str, at: *const T) -> Result<&'a T, Wrong> {
    // SAFETY: as promised.
    unsafe { at.as_ref() }.ok_or_else(|| null(what))
}

/// A path.
///
/// # Errors
/// It is NULL.
///
/// # Safety
/// If it is not NULL, it ends with a zero and outlives what is given.
pub(crate) unsafe fn path<'a>(what: &str, path: *const c_char) -> Result<&'a Path, Wrong> {
    if path.is_null() {
        return Err(null(what));
    }
    // SAFETY: as promised.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Makes something and puts it into its place, which is zero if it cannot be made.
///
/// # Errors
/// There is no place, or what the work says.
///
/// # Safety
/// If it is not NULL, the place takes one, for which a zero of every bit is one, too.
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

/// How many there are of something.
fn counted(what: &str, count: c_int) -> Result<usize, Wrong> {
    usize::try_from(count).map_err(|_| {
        let message = format!("there are {count} of `{what}`; accepted: 0 and more");
        Wrong::new(libc::EINVAL, message)
    })
}

/// Places for several things, which are zero at first.
///
/// # Errors
/// There is no list and it has places, or fewer than none.
///
/// # Safety
/// If it is not NULL, it takes `count`, for which a zero of every bit is one, too; nobody else looks at them.
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

/// How long memory may be, as a slice.
const MOST: usize = isize::MAX as usize;

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

/// Bytes to read.
///
/// # Errors
/// They are NULL and there are some, or too many.
///
/// # Safety
/// There are `length`, and they stay as they are.
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

/// Bytes to write.
///
/// # Errors
/// As [`bytes`].
///
/// # Safety
/// There is room for `length` bytes, initialised or not, and nobody else looks at it.
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

/// Pieces of memory.
///
/// # Errors
/// The list is NULL and there are some, there are fewer than none, or all together have more bytes than a call can give back.
///
/// # Safety
/// There are `count`.
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
