//! The live cache ([`lowmark_cache`]) for C programs: what is in `include/lowmark_cache.h`, which cbindgen makes of
//! these files.
//!
//! Nothing is decided here. Handles are boxes behind pointers; a page holds its file, and files, buffers, registrations
//! and recordings hold their cache, so no order of giving them back is wrong. No panic leaves it: what would be one is [`LOWMARK_CACHE_BUG`].
#![deny(unsafe_op_in_unsafe_fn)]

mod answer;
mod borrowed;
mod buffer;
mod class;
mod config;
mod file;
mod page;
mod record;
mod shrinker;

pub use answer::*;
pub use buffer::*;
pub use class::{
    Class, ClassStats, LOWMARK_CACHE_HUGE_PAGES, LOWMARK_CACHE_LOCKED, LOWMARK_CACHE_ORDINARY,
    Marks, lowmark_cache_classes,
};
pub use config::Config;
pub use file::*;
pub use page::*;
pub use record::*;
pub use shrinker::*;

use answer::{Wrong, c_text};
use borrowed::{make, path, thing};
use shrinker::not_asked;
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A cache and its handles.
pub(crate) struct Shared {
    pub cache: lowmark_cache::Cache,
    /// Pages that are pinned for writing: who syncs waits for them.
    pub writing: AtomicUsize,
}

/// A page cache over files, with threads of its own.
pub struct Cache(Arc<Shared>);

/// What a cache holds and did.
#[repr(C)]
pub struct Stats {
    /// Pages of memory, 4096 bytes each.
    pub pages: u64,
    /// Free pages, those on lists of one CPU slot not counted.
    pub free_pages: u64,
    /// Pages that hold file data.
    pub cached_pages: u64,
    /// Pages newer than their file.
    pub dirty_pages: u64,
    /// Pages being written.
    pub writeback_pages: u64,
    /// Pages of buffers.
    pub buffer_pages: u64,
    /// Pages evicted so far, by anyone.
    pub evicted_pages: u64,
    /// Pages evicted by kswapd.
    pub evicted_by_kswapd: u64,
    /// Times a thread had to reclaim for itself.
    pub direct_reclaims: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Pages whose write failed: they are kept, and the next sync of their file tries again.
    pub kept_pages: u64,
    /// Pages whose write failed and for which there was no room: their data is lost.
    pub lost_pages: u64,
}

/// How a cache ended. All zero: everything that it took is in its files, and confirmed by their devices.
#[repr(C)]
pub struct End {
    /// Pages whose data did not get into their files since the cache began: it is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed.
    pub failed_files: u64,
}

/// The version of this library, `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_cache_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What a cache is opened for if nobody says otherwise: 64 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_cache_defaults() -> Config {
    Config::of(&lowmark_cache::Config::default())
}

/// Opens a cache and starts its threads. `config` may be NULL: the defaults. `*cache` is the caller's, to be given back
/// to `lowmark_cache_free`, and NULL if it fails.
///
/// # Safety
/// `config` is one or NULL, its `policy` ends with a zero or is NULL, `cache` takes a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_open(
    config: *const Config,
    cache: *mut *mut Cache,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (os, config) = match unsafe { config.as_ref() } {
            // SAFETY: as promised.
            Some(config) => unsafe { config.meant()? },
            None => Default::default(),
        };
        let shared = Shared {
            cache: lowmark_cache::Cache::on(Arc::new(os), config)?,
            writing: AtomicUsize::new(0),
        };
        Ok(Box::into_raw(Box::new(Cache(Arc::new(shared)))))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("cache", cache, work) })
}

/// Lets calls end, refuses further ones (-ESHUTDOWN), writes everything dirty and stops the threads. `*end` says what
/// is lost; `end` may be NULL, and then a loss is `LOWMARK_CACHE_LOST`. The handles remain to be given back; bytes of
/// pages that are pinned for reading may still be read. A second call has nothing left to do.
///
/// -EBUSY: pages are pinned for writing, and nothing has happened.
///
/// # Safety
/// `cache` is one or NULL; `end` takes one or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_shutdown(cache: *const Cache, end: *mut End) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        let shared = unsafe { &thing("cache", cache)?.0 };
        not_asked()?;
        let pinned = shared.writing.load(SeqCst);
        if pinned > 0 {
            let message = format!("{pinned} pages are pinned for writing; let them go first");
            return Err(Wrong::new(libc::EBUSY, message));
        }
        let ended = shared.cache.shutdown();
        if end.is_null() && !ended.is_clean() {
            return Err(Wrong {
                code: LOWMARK_CACHE_LOST,
                message: config::loss(&ended),
            });
        }
        if !end.is_null() {
            let told = End {
                lost_pages: ended.lost_pages,
                failed_files: ended.failed.len() as u64,
            };
            // SAFETY: as promised, it takes one.
            unsafe { end.write(told) };
        }
        Ok(())
    })
}

/// Gives a cache back; NULL is nothing. It ends when the last of its files is closed, the last of its pages let go, and
/// its buffers, shrinkers and recordings given back: then as by `lowmark_cache_shutdown`, and of a loss `tell` is told.
///
/// # Safety
/// It came from `lowmark_cache_open`, was not given back, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free(cache: *mut Cache) {
    // SAFETY: as promised.
    unsafe { give_back(cache) };
}

/// Drops what a handle is of; what goes wrong then is left as a message.
///
/// # Safety
/// It is NULL or came from `Box::into_raw`, and nobody uses it any more.
pub(crate) unsafe fn give_back<T>(handle: *mut T) {
    answer(|| {
        if !handle.is_null() {
            // SAFETY: as promised.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

/// What the cache holds and did, all zero if that is not known because `cache` is NULL.
///
/// # Safety
/// `cache` is one or NULL; `stats` takes one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_get_stats(cache: *const Cache, stats: *mut Stats) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let s = unsafe { thing("cache", cache)? }.0.cache.stats();
        Ok(Stats {
            pages: s.pages,
            free_pages: s.free,
            cached_pages: s.cached,
            dirty_pages: s.dirty,
            writeback_pages: s.writeback,
            buffer_pages: s.buffers,
            evicted_pages: s.evicted,
            evicted_by_kswapd: s.evicted_by_kswapd,
            direct_reclaims: s.direct_reclaims,
            read_bytes: s.kib_read * 1024,
            written_bytes: s.kib_written * 1024,
            kept_pages: s.kept_pages,
            lost_pages: s.lost_pages,
        })
    };
    // SAFETY: as promised; numbers may be zero.
    answer(|| unsafe { make("stats", stats, work) })
}

/// The counters as a page of OpenMetrics 1.0, for whoever serves it. `*text` is the caller's, to be given back to
/// `lowmark_cache_free_text`, and NULL if it fails.
///
/// # Safety
/// `cache` is one or NULL; `text` takes a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_openmetrics(
    cache: *const Cache,
    text: *mut *mut c_char,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let stats = unsafe { thing("cache", cache)? }.0.cache.stats();
        Ok(c_text(&stats.openmetrics()).into_raw())
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("text", text, work) })
}

/// Gives a text back; NULL is nothing.
///
/// # Safety
/// It came from `lowmark_cache_openmetrics` and was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as promised, `into_raw` made it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Opens a regular file of the cache for reading and writing, and creates it if it is missing. Nothing but this cache
/// may change its contents meanwhile. `*file` is the caller's, to be given back to `lowmark_cache_close`, and NULL if it
/// fails.
///
/// # Safety
/// `cache` is one or NULL, `name` ends with a zero or is NULL, `file` takes a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_open_file(
    cache: *const Cache,
    name: *const c_char,
    file: *mut *mut File,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (cache, name) = unsafe { (thing("cache", cache)?, path("name", name)?) };
        not_asked()?;
        let opened = cache.0.cache.open(name)?;
        let file = File::new(opened, Arc::clone(&cache.0));
        Ok(Box::into_raw(Box::new(file)))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("file", file, work) })
}
