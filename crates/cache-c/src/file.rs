//! Files of a cache in the C interface.

use crate::Shared;
use crate::answer::{Wrong, amount, answer};
use crate::borrowed::{bytes, deref, pieces, room};
use crate::give_back;
use libc::iovec;
use lowmark_cache::Advice;
use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// An open file, with the cache that it keeps in existence.
pub(crate) struct Open {
    // Fields are dropped in this order: the file is closed before the cache may end.
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

/// Returns the cache's file behind the handle of a C program.
///
/// # Safety
/// `file` is NULL or a valid handle.
unsafe fn of<'a>(file: *const File) -> Result<&'a lowmark_cache::File, Wrong> {
    // SAFETY: as promised.
    Ok(&unsafe { deref("file", file)? }.0.file)
}

/// Closes a file; NULL is allowed. Dirty pages stay cached and are written later. Pinned pages stay
/// pinned.
///
/// # Safety
/// `file` is NULL, or came from `lowmark_cache_open_file`, was not closed, and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_close(file: *mut File) {
    // SAFETY: as promised.
    unsafe { give_back(file) };
}

/// Reads up to `length` bytes at `position` into `buffer`; returns the number of bytes the file had
/// there, 0 at or behind its end.
///
/// # Safety
/// `file` is NULL or a valid handle; `buffer` has room for `length` bytes.
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

/// Reads as `lowmark_cache_read`, into several buffers one after the other.
///
/// # Safety
/// `file` is NULL or a valid handle; there are `count` buffers with room for their lengths.
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

/// Writes `length` bytes at `position` and returns `length`; the file grows if needed. The thread
/// is throttled while too many pages are dirty. After an error a part may have been written.
///
/// # Safety
/// `file` is NULL or a valid handle; `buffer` has `length` bytes.
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

/// Writes as `lowmark_cache_write`, from several buffers one after the other; returns the sum of
/// their lengths.
///
/// # Safety
/// `file` is NULL or a valid handle; there are `count` buffers of their lengths.
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

/// Converts a `POSIX_FADV_` constant of posix_fadvise(2); another number is an error.
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

/// Gives the cache advice on a range of a file, as position and length in bytes.
///
/// # Safety
/// As [`lowmark_cache_advise`].
unsafe fn advise(file: *const File, range: (u64, u64), advice: Advice) -> Result<(), Wrong> {
    // SAFETY: as promised.
    let file = unsafe { of(file)? };
    Ok(file.advise(range.0, range.1, advice)?)
}

/// Announces how a range will be used, in the words of posix_fadvise(2). POSIX_FADV_NORMAL,
/// _SEQUENTIAL and _RANDOM hold for the handle, whatever the range; _WILLNEED and _DONTNEED for the
/// range, where a length of 0 means up to the end.
///
/// # Safety
/// `file` is NULL or a valid handle.
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

/// Reads the missing pages of a range, in the background where possible; a length of 0 means up to
/// the end.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_prefetch(
    file: *const File,
    position: u64,
    length: u64,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { advise(file, (position, length), Advice::WillNeed) })
}

/// Drops the clean, unpinned pages of a range from the cache; a length of 0 means up to the end.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_drop(
    file: *const File,
    position: u64,
    length: u64,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { advise(file, (position, length), Advice::DontNeed) })
}

/// Writes the dirty pages of a range to the system, and waits for that; a length of 0 means up to
/// the end. The device need not have the data then: that takes `lowmark_cache_fsync`. A thread that
/// has pinned a page of the range for writing waits for ever.
///
/// # Safety
/// `file` is NULL or a valid handle.
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

/// Writes the dirty pages, and those that could not be written before, and waits until the device
/// has them. Each handle is told of an error once. After -EIO and the like the data is still cached
/// and the next call tries again; after `LOWMARK_CACHE_LOST` the data written since the last call
/// that returned 0 must be written again. A thread that has pinned a page of the file for writing
/// waits for ever.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_fsync(file: *const File) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.fsync()?)
    })
}

/// Takes the pages of the file that are read or written from now on from class `number` of memory,
/// or from a class below if that has none to spare; at first from class 0, the general one. Holds
/// for all handles of the file. Cached pages stay where they are.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_file_set_class(file: *const File, number: u32) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.set_class(number as usize)?)
    })
}

/// Truncates or extends the file to `length` bytes. A thread that has pinned a page behind the new
/// end waits for ever.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_truncate(file: *const File, length: u64) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.truncate(length)?)
    })
}

/// Returns the file's length in bytes.
///
/// # Safety
/// `file` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_size(file: *const File) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        Ok(unsafe { of(file)? }.size() as i64)
    })
}
