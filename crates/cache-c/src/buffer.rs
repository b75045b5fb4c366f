//! Memory of a cache's budget that a C program has for itself.

use crate::answer::{amount, answer};
use crate::borrowed::{make, thing};
use crate::{Cache, Shared, give_back};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// Memory of a cache's budget that holds no file's data.
pub struct Buffer {
    /// Where its bytes are: from the beginning, for C writes them as it likes and no reference to them is made later.
    bytes: *mut u8,
    length: usize,
    // Dropped in this order: the memory goes back before the cache may end.
    _memory: lowmark_cache::Buffer,
    _shared: Arc<Shared>,
}

// A thread may free what another has allocated: but for where the bytes are, which C may know anywhere, nothing keeps
// it from that.
const _: () = {
    const fn sent<T: Send>() {}
    sent::<(lowmark_cache::Buffer, Arc<Shared>)>();
};

/// Memory of the cache's budget for the program itself: 1 to 32768 bytes, zero at first, of a class of memory (0: the
/// general one) or those below it. It counts in whole blocks of 1, 2, 4 or 8 pages, is never written anywhere, and
/// never taken back but by `lowmark_cache_free_buffer`: who could make again what is in it registers a shrinker.
/// `*buffer` is the caller's, and NULL if it fails. A buffer keeps its cache, and may be used when that was shut down.
///
/// # Safety
/// `cache` is one or NULL; `buffer` takes a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_allocate(
    cache: *const Cache,
    length: usize,
    number: u32,
    buffer: *mut *mut Buffer,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let shared = unsafe { &thing("cache", cache)?.0 };
        let mut memory = shared.cache.buffer(length, number as usize)?;
        Ok(Box::into_raw(Box::new(Buffer {
            bytes: memory.as_mut_ptr(),
            length,
            _memory: memory,
            _shared: Arc::clone(shared),
        })))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("buffer", buffer, work) })
}

/// Where a buffer's bytes are, at the beginning of a page, as long as it is not freed; NULL if `buffer` is.
///
/// # Safety
/// `buffer` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_buffer_bytes(buffer: *const Buffer) -> *mut c_void {
    // SAFETY: as promised.
    let buffer = unsafe { buffer.as_ref() };
    buffer.map_or(ptr::null_mut(), |b| b.bytes.cast())
}

/// How many bytes a buffer has: as many as were asked for.
///
/// # Safety
/// `buffer` is one or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_buffer_length(buffer: *const Buffer) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        Ok(unsafe { thing("buffer", buffer)? }.length as i64)
    })
}

/// Gives a buffer back; NULL is nothing. A shrinker may do so while it is asked.
///
/// # Safety
/// It came from `lowmark_cache_allocate`, was not given back, and nobody uses its bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free_buffer(buffer: *mut Buffer) {
    // SAFETY: as promised.
    unsafe { give_back(buffer) };
}
