//! Files of a cache.

use crate::Shared;
use crate::answer::{Wrong, amount, answer};
use crate::borrowed::{bytes, pieces, room, thing};
use crate::give_back;
use libc::iovec;
use lowmark_cache::Advice;
use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// An open file and the cache that it keeps.
pub(crate) struct Open {
    // Dropped in this order: the file is closed before the cache may end.
    pub file: lowmark_cache::File,
    pub shared: Arc<Shared>,
}

/// An open file of a cache.
pub struct File(pub(crate) Arc<Open>);

impl File {
    pub(crate) fn new(file: lowmark_cache::File, shared: Arc<Shared>) -> Self {
        Self(Arc::new(Open { file, shared }))
    }
}

/// The file of a handle.
///
/// # Safety
/// It is one or NULL.
unsafe fn of<'a>(file: *const File) -> Result<&'a lowmark_cache::File, Wrong> {
    // SAFETY: as promised.
    Ok(&unsafe { thing("file", file)? }.0.file)
}

/// Closes a file; NULL is nothing. What is dirty stays cached and is written later. Pages of it that are pinned stay
/// pinned.
///
/// # Safety
/// It came from `lowmark_cache_open_file`, was not given back, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_close(file: *mut File) {
    // SAFETY: as promised.
    unsafe { give_back(file) };
}

/// Reads up to `length` bytes at `position` into `buffer`; gives how many the file had there, 0 behind its end.
///
/// # Safety
/// `file` is one or NULL; `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_read(
    file: *const File,
    position: u64,
    buffer: *mut c_void,
    length: usize,
) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        let (file, buffer) = unsafe { (of(file)?, room("buffer", buffer, length)?) };
        Ok(file.read(position, buffer)? as i64)
    })
}

/// As `lowmark_cache_read`, into several buffers one after the other.
///
/// # Safety
/// `file` is one or NULL; there are `count` buffers with the room that they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_readv(
    file: *const File,
    position: u64,
    buffers: *const iovec,
    count: c_int,
) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        let (file, list) = unsafe { (of(file)?, pieces("buffers", buffers, count)?) };
        // SAFETY: as promised.
        let one = |v: &iovec| unsafe { room("buffers", v.iov_base, v.iov_len) };
        let slices: Result<Vec<_>, _> = list.iter().map(|v| one(v).map(IoSliceMut::new)).collect();
        Ok(file.read_vectored(position, &mut slices?)? as i64)
    })
}

/// Writes `length` bytes at `position` and gives `length`; the file grows if it must. The thread is held back while too
/// much is dirty. After an error a part may be written.
///
/// # Safety
/// `file` is one or NULL; `buffer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_write(
    file: *const File,
    position: u64,
    buffer: *const c_void,
    length: usize,
) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        let (file, buffer) = unsafe { (of(file)?, bytes("buffer", buffer, length)?) };
        file.write(position, buffer)?;
        Ok(length as i64)
    })
}

/// As `lowmark_cache_write`, of several buffers one after the other; gives the sum of their lengths.
///
/// # Safety
/// `file` is one or NULL; there are `count` buffers with the bytes that they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_writev(
    file: *const File,
    position: u64,
    buffers: *const iovec,
    count: c_int,
) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        let (file, list) = unsafe { (of(file)?, pieces("buffers", buffers, count)?) };
        // SAFETY: as promised.
        let one = |v: &iovec| unsafe { bytes("buffers", v.iov_base, v.iov_len) };
        let slices: Result<Vec<_>, _> = list.iter().map(|v| one(v).map(IoSlice::new)).collect();
        file.write_vectored(position, &slices?)?;
        Ok(list.iter().map(|v| v.iov_len as i64).sum())
    })
}

fn advice(number: c_int) -> Result<Advice, Wrong> {
    Ok(match number {
        libc::POSIX_FADV_NORMAL => Advice::Normal,
        libc::POSIX_FADV_SEQUENTIAL => Advice::Sequential,
        libc::POSIX_FADV_RANDOM => Advice::Random,
        libc::POSIX_FADV_WILLNEED => Advice::WillNeed,
        libc::POSIX_FADV_DONTNEED => Advice::DontNeed,
        _ => {
            let message = format!(
                "advice = {number}; accepted: POSIX_FADV_NORMAL, _SEQUENTIAL, _RANDOM, _WILLNEED, _DONTNEED"
            );
            return Err(Wrong::new(libc::EINVAL, message));
        }
    })
}

/// # Safety
/// As [`lowmark_cache_advise`].
unsafe fn advise(file: *const File, range: (u64, u64), advice: Advice) -> Result<(), Wrong> {
    // SAFETY: as promised.
    let file = unsafe { of(file)? };
    Ok(file.advise(range.0, range.1, advice)?)
}

/// Says how a range will be used, in the words of posix_fadvise(2): POSIX_FADV_NORMAL, _SEQUENTIAL and _RANDOM hold for
/// the handle, whatever the range; _WILLNEED and _DONTNEED for the range, where a length of 0 means up to the end.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_advise(
    file: *const File,
    position: u64,
    length: u64,
    advice: c_int,
) -> c_int {
    answer(|| {
        let advice = self::advice(advice)?;
        // SAFETY: as promised.
        unsafe { advise(file, (position, length), advice) }
    })
}

/// Has what is missing of a range read, without a wait where that can be; a length of 0 means up to the end.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_prefetch(
    file: *const File,
    position: u64,
    length: u64,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { advise(file, (position, length), Advice::WillNeed) })
}

/// Lets the clean pages of a range go that nobody holds; a length of 0 means up to the end.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_drop(
    file: *const File,
    position: u64,
    length: u64,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { advise(file, (position, length), Advice::DontNeed) })
}

/// Hands what is dirty of a range to the system, and waits for that; a length of 0 means up to the end. The device need
/// not have it then: that is `lowmark_cache_fsync`'s. Who has a page of the range pinned for writing waits for ever.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_flush(
    file: *const File,
    position: u64,
    length: u64,
) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.flush(position, length)?)
    })
}

/// Writes what is dirty, and what could not be written before, and waits until the device has it. Each handle is told
/// of an error once: after -EIO and the like the data is still cached and the next call tries again; after
/// `LOWMARK_CACHE_LOST` what was written since the last call that gave 0 must be written again. Who has a page of the
/// file pinned for writing waits for ever.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_fsync(file: *const File) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.fsync()?)
    })
}

/// Has the pages of the file that come in from now on taken from a class of memory, or from those below it if that has
/// none to spare; at first that is 0, the general one. It holds for all handles of the file. Pages that are cached stay
/// where they are.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_file_set_class(file: *const File, number: u32) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.set_class(number as usize)?)
    })
}

/// Cuts or extends the file to so many bytes. Who has a page behind the new end pinned waits for ever.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_truncate(file: *const File, length: u64) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.truncate(length)?)
    })
}

/// The file's length in bytes.
///
/// # Safety
/// `file` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_size(file: *const File) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.size() as i64)
    })
}
