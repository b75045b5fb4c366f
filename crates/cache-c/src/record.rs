//! Recordings of the accesses to a cache in the C interface.

use crate::answer::{Wrong, answer};
use crate::borrowed::{deref, make, path};
use crate::{Cache, Shared};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A running recording.
pub struct Recording {
    recording: lowmark_cache::Recording,
    shared: Arc<Shared>,
}

/// Counts of a recording.
#[repr(C)]
pub struct Recorded {
    /// All accesses to pages, in the sample or not.
    pub accesses: u64,
    /// Accesses of the sample that found their page in the cache.
    pub hits: u64,
    /// Accesses of the sample that did not.
    pub misses: u64,
    /// Hits and misses that were not written to the trace: they arrived faster than the file could
    /// be written, or writing failed (`error`).
    pub dropped: u64,
    /// The share of the pages in the sample, up to 1.
    pub rate: f64,
    /// Misses by accesses, estimated if the recording is a sample; 0 if there were no accesses.
    pub miss_ratio: f64,
    /// The negative of the errno after which nothing was written to the trace; 0: no error.
    pub error: c_int,
}

/// Records every access to a page from now on into a new file, as a trace that `lowmark mrc` reads,
/// or the accesses to a share of the pages chosen by hash (`rate`, above 0 and up to 1). A cache
/// can have one recording at a time. The caller ends `*recording` with
/// `lowmark_cache_finish_recording`; it is NULL if the call fails. It keeps the cache in existence.
///
/// # Safety
/// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `recording` is NULL
/// or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_record(
    cache: *const Cache,
    name: *const c_char,
    rate: f64,
    recording: *mut *mut Recording,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (shared, name) = unsafe { (&deref("cache", cache)?.0, path("name", name)?) };
        Ok(Box::into_raw(Box::new(Recording {
            recording: shared.cache.record(name, rate)?,
            shared: Arc::clone(shared),
        })))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("recording", recording, work) })
}

/// Ends a recording and frees its handle, even if it returns an error. The trace file is then
/// written, but not synced. `*recorded` receives the counts; `recorded` may be NULL, and then a
/// failure to write the file is returned as an error.
///
/// # Safety
/// `recording` is NULL, or came from `lowmark_cache_record`, was not ended, and is not in use;
/// `recorded` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_finish_recording(
    recording: *mut Recording,
    recorded: *mut Recorded,
) -> c_int {
    let end = || {
        // SAFETY: as promised.
        unsafe { deref("recording", recording)? };
        // SAFETY: as promised; it is not NULL.
        let Recording { recording, shared } = *unsafe { Box::from_raw(recording) };
        let r = recording.finish();
        drop(shared);
        Ok(Recorded {
            accesses: r.accesses,
            hits: r.hits,
            misses: r.misses,
            dropped: r.dropped,
            rate: r.rate,
            miss_ratio: r.miss_ratio(),
            error: r.error.map_or(0, |e| -e.raw_os_error()),
        })
    };
    answer(|| {
        if !recorded.is_null() {
            // SAFETY: as promised; all-zero counts are valid.
            return unsafe { make("recorded", recorded, end) };
        }
        match end()?.error {
            0 => Ok(()),
            code => Err(Wrong::new(
                -code,
                "the recording's file could not be written",
            )),
        }
    })
}
