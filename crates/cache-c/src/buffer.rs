//! Buffers: memory of a cache's budget that a C program uses for itself.

use crate::answer::{amount, answer};
use crate::borrowed::{deref, make};
use crate::{Cache, Shared, give_back};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// Memory of a cache's budget that holds no file's data.
pub struct Buffer {
    /// Address of the bytes, taken once: C code writes through it, so no Rust reference is made
    /// later.
    bytes: *mut u8,
    length: usize,
    // Fields are dropped in this order: the memory is freed before the cache may end.
    _memory: lowmark_cache::Buffer,
    _shared: Arc<Shared>,
}

// A thread may free a buffer that another has allocated: everything but the address of its bytes,
// which C code may share between threads, is `Send`.
const _: () = {
    const fn sent<T: Send>() {}
    sent::<(lowmark_cache::Buffer, Arc<Shared>)>();
};

/// Allocates a buffer of 1 to 32768 bytes, zeroed, from the cache's memory budget: from class
/// `number` (0: the general one) or, if that has none to spare, a class below. It counts in blocks
/// of 1, 2, 4 or 8 pages, is never written out, and only `lowmark_cache_free_buffer` frees it: a
/// program that could make its content again should register a shrinker. `*buffer` belongs to the
/// caller, and is NULL if the call fails. A buffer keeps its cache in existence, and may be used
/// after a shutdown.
///
/// # Safety
/// `cache` is NULL or a valid handle; `buffer` is NULL or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_allocate(
    cache: *const Cache,
    length: usize,
    number: u32,
    buffer: *mut *mut Buffer,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let shared = unsafe { &deref("cache", cache)?.0 };
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

/// Returns the address of a buffer's bytes, aligned to a page and valid until the buffer is freed;
/// NULL if `buffer` is.
///
/// # Safety
/// `buffer` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_buffer_bytes(buffer: *const Buffer) -> *mut c_void {
    // SAFETY: as promised.
    let buffer = unsafe { buffer.as_ref() };
    buffer.map_or(ptr::null_mut(), |b| b.bytes.cast())
}

/// Returns the length of a buffer in bytes, as it was asked for.
///
/// # Safety
/// `buffer` is NULL or a valid handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_buffer_length(buffer: *const Buffer) -> i64 {
    amount(|| {
        // SAFETY: as promised.
        Ok(unsafe { deref("buffer", buffer)? }.length as i64)
    })
}

/// Frees a buffer; NULL is allowed. A shrinker may do so while it is called.
///
/// # Safety
/// `buffer` is NULL, or came from `lowmark_cache_allocate`, was not freed, and its bytes are not in
/// use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free_buffer(buffer: *mut Buffer) {
    // SAFETY: as promised.
    unsafe { give_back(buffer) };
}
