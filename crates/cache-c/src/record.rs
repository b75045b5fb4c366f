//! What is asked of a cache, written down.

use crate::answer::{Wrong, answer};
use crate::borrowed::{make, path, thing};
use crate::{Cache, Shared};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A recording that is under way.
pub struct Recording {
    recording: lowmark_cache::Recording,
    shared: Arc<Shared>,
}

/// What a recording has of a cache's accesses to pages.
#[repr(C)]
pub struct Recorded {
    /// All accesses to pages, of the sample or not.
    pub accesses: u64,
    /// Accesses of the sample that found their page in the cache.
    pub hits: u64,
    /// Accesses of the sample that did not.
    pub misses: u64,
    /// Of both together those that were not written, because they came faster than the file took them, or could not
    /// be (`error`).
    pub dropped: u64,
    /// The share of the pages that is in the sample, up to 1.
    pub rate: f64,
    /// Misses by accesses, of a sample an estimate; 0 if there were none.
    pub miss_ratio: f64,
    /// Why the file could not be written, from where on nothing was: the negative of an errno; 0: it was.
    pub error: c_int,
}

/// Records every access to a page from now on as a trace that `lowmark mrc` reads, or those to a share of the pages by
/// hash (`rate`, above 0 and up to 1), into a file that is made anew. There is one recording of a cache at a time.
/// `*recording` is the caller's, to be given back to `lowmark_cache_finish_recording`, and NULL if it fails; it keeps
/// the cache.
///
/// # Safety
/// `cache` is one or NULL, `name` ends with a zero or is NULL, `recording` takes a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_record(
    cache: *const Cache,
    name: *const c_char,
    rate: f64,
    recording: *mut *mut Recording,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (shared, name) = unsafe { (&thing("cache", cache)?.0, path("name", name)?) };
        Ok(Box::into_raw(Box::new(Recording {
            recording: shared.cache.record(name, rate)?,
            shared: Arc::clone(shared),
        })))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("recording", recording, work) })
}

/// Ends a recording and gives it back, whatever is answered. Its file is written then, though not synced. `*recorded`
/// says what it has; `recorded` may be NULL, and then it is an error if the file could not be written.
///
/// # Safety
/// `recording` is NULL or came from `lowmark_cache_record`, was not given back, and nobody uses it any more; `recorded`
/// takes one or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_finish_recording(
    recording: *mut Recording,
    recorded: *mut Recorded,
) -> c_int {
    let end = || {
        // SAFETY: as promised.
        unsafe { thing("recording", recording)? };
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
            // SAFETY: as promised; numbers may be zero.
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
