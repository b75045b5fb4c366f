#![doc = include_str!("../README.md")]
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
use borrowed::{deref, make, path};
use lowmark_cache::OpenOptions;
use shrinker::not_in_shrinker;
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A cache, shared by its handles.
pub(crate) struct Shared {
    pub cache: lowmark_cache::Cache,
    /// Pages that are pinned for writing; a sync would wait for them.
    pub writing: AtomicUsize,
}

/// A page cache over files, with its own threads.
pub struct Cache(Arc<Shared>);

/// Levels and counters of a cache. Levels are as of now, counters since the cache began.
#[repr(C)]
pub struct Stats {
    /// Pages of memory, 4096 bytes each.
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free_pages: u64,
    /// Pages that hold file data.
    pub cached_pages: u64,
    /// Dirty pages: newer than their file.
    pub dirty_pages: u64,
    /// Pages under writeback.
    pub writeback_pages: u64,
    /// Pages of buffers.
    pub buffer_pages: u64,
    /// Pages evicted so far, by kswapd or by direct reclaim.
    pub evicted_pages: u64,
    /// Pages evicted by kswapd.
    pub evicted_by_kswapd: u64,
    /// Times a thread entered direct reclaim.
    pub direct_reclaims: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Pages whose write failed: they are kept, and the next sync of their file tries again.
    pub kept_pages: u64,
    /// Pages whose write failed and that could not be kept for lack of room: their data is lost.
    pub lost_pages: u64,
}

/// The result of a shutdown. All zero: everything written to the cache is in its files and
/// confirmed by their devices.
#[repr(C)]
pub struct End {
    /// Pages whose data did not reach their files since the cache began: it is lost.
    pub lost_pages: u64,
    /// Files whose last sync failed.
    pub failed_files: u64,
}

/// Returns the version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_cache_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the default configuration: 64 MiB of memory.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_cache_defaults() -> Config {
    Config::of(&lowmark_cache::Config::default())
}

/// Opens a cache and starts its threads. `config` may be NULL: the defaults. The caller frees
/// `*cache` with `lowmark_cache_free`; it is NULL if the call fails.
///
/// # Safety
/// `config` is NULL or valid, and its `policy` is NULL or ends with a zero byte; `cache` is NULL or
/// valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_open(
    config: *const Config,
    cache: *mut *mut Cache,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (os, config) = match unsafe { config.as_ref() } {
            // SAFETY: as promised.
            Some(config) => unsafe { config.convert()? },
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

/// Shuts the cache down: refuses further calls (-ESHUTDOWN), lets those under way end, writes all
/// dirty pages and stops the threads. `*end` reports losses; `end` may be NULL, and then a loss is
/// the error `LOWMARK_CACHE_LOST`. The handles still have to be freed; the bytes of pages pinned
/// for reading may still be read. A second call has nothing left to do.
///
/// -EBUSY: pages are pinned for writing, and nothing was done.
///
/// # Safety
/// `cache` is NULL or a valid handle; `end` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_shutdown(cache: *const Cache, end: *mut End) -> c_int {
    answer(|| {
        // SAFETY: as promised.
        let shared = unsafe { &deref("cache", cache)?.0 };
        not_in_shrinker()?;
        let pinned = shared.writing.load(SeqCst);
        if pinned > 0 {
            let message = format!("{pinned} pages are pinned for writing; unpin them first");
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
            // SAFETY: `end` is valid for writing, by the function's contract.
            unsafe { end.write(told) };
        }
        Ok(())
    })
}

/// Frees the handle of a cache; NULL is allowed. The cache ends when also the last of its files is
/// closed, the last of its pages unpinned, and its buffers, shrinkers and recordings freed: then as
/// by `lowmark_cache_shutdown`, and a loss is reported to `tell`.
///
/// # Safety
/// `cache` is NULL, or came from `lowmark_cache_open`, was not freed, and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free(cache: *mut Cache) {
    // SAFETY: as promised.
    unsafe { give_back(cache) };
}

/// Drops the object behind a handle; an error is kept as the thread's message.
///
/// # Safety
/// `handle` is NULL, or came from `Box::into_raw` and is not in use.
pub(crate) unsafe fn give_back<T>(handle: *mut T) {
    answer(|| {
        if !handle.is_null() {
            // SAFETY: as promised.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

/// Writes the levels and counters of the cache to `*stats`; all zero if `cache` is NULL.
///
/// # Safety
/// `cache` is NULL or a valid handle; `stats` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_get_stats(cache: *const Cache, stats: *mut Stats) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let s = unsafe { deref("cache", cache)? }.0.cache.stats();
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
    // SAFETY: as promised; all-zero statistics are valid.
    answer(|| unsafe { make("stats", stats, work) })
}

/// Writes the cache's counters to `*text` as a page of OpenMetrics 1.0, for a program that serves
/// it. The caller frees `*text` with `lowmark_cache_free_text`; it is NULL if the call fails.
///
/// # Safety
/// `cache` is NULL or a valid handle; `text` is NULL or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_openmetrics(
    cache: *const Cache,
    text: *mut *mut c_char,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let stats = unsafe { deref("cache", cache)? }.0.cache.stats();
        Ok(c_text(&stats.openmetrics()).into_raw())
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("text", text, work) })
}

/// Frees a text; NULL is allowed.
///
/// # Safety
/// `text` is NULL, or came from `lowmark_cache_openmetrics` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as promised, `into_raw` made it.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// `flags`: the file is read.
pub const LOWMARK_CACHE_READ: c_int = 1;
/// `flags`: the file is written. A file that is only read is opened for reading only.
pub const LOWMARK_CACHE_WRITE: c_int = 2;
/// `flags`: the file is created if it is missing; only with `LOWMARK_CACHE_WRITE`.
pub const LOWMARK_CACHE_CREATE: c_int = 4;
/// `flags`: the file must be missing (-EEXIST); only with `LOWMARK_CACHE_CREATE`.
pub const LOWMARK_CACHE_EXCLUSIVE: c_int = 8;

/// Opens a regular file of the cache for reading and writing, and creates it if it is missing.
/// Nothing but this cache may change its contents meanwhile; it is locked (flock(2)), and another
/// cache that has it is -EBUSY. The caller closes `*file` with `lowmark_cache_close`; it is NULL if
/// the call fails.
///
/// # Safety
/// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `file` is NULL or
/// valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_open_file(
    cache: *const Cache,
    name: *const c_char,
    file: *mut *mut File,
) -> c_int {
    let flags = LOWMARK_CACHE_READ | LOWMARK_CACHE_WRITE | LOWMARK_CACHE_CREATE;
    // SAFETY: as promised.
    unsafe { lowmark_cache_open_file_with(cache, name, flags, file) }
}

/// Opens a regular file of the cache as `lowmark_cache_open_file`, but as the `flags` say: one or
/// more of `LOWMARK_CACHE_READ`, `LOWMARK_CACHE_WRITE`, `LOWMARK_CACHE_CREATE` and
/// `LOWMARK_CACHE_EXCLUSIVE`. Caches that only read a file may share it.
///
/// # Safety
/// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `file` is NULL or
/// valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_open_file_with(
    cache: *const Cache,
    name: *const c_char,
    flags: c_int,
    file: *mut *mut File,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (cache, name) = unsafe { (deref("cache", cache)?, path("name", name)?) };
        not_in_shrinker()?;
        let opened = cache.0.cache.open_with(name, options(flags)?)?;
        let file = File::new(opened, Arc::clone(&cache.0));
        Ok(Box::into_raw(Box::new(file)))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("file", file, work) })
}

/// Converts the flags of an open file; `Err`: they do not fit together.
fn options(flags: c_int) -> Result<OpenOptions, Wrong> {
    let options = OpenOptions {
        read: flags & LOWMARK_CACHE_READ != 0,
        write: flags & LOWMARK_CACHE_WRITE != 0,
        create: flags & LOWMARK_CACHE_CREATE != 0,
        exclusive: flags & LOWMARK_CACHE_EXCLUSIVE != 0,
    };
    match options.is_valid() && (0..16).contains(&flags) {
        true => Ok(options),
        false => Err(Wrong::new(
            libc::EINVAL,
            format!(
                "flags = {flags}: accepted are READ (1), WRITE (2) or both, with WRITE also CREATE \
                 (4), and with CREATE also EXCLUSIVE (8)"
            ),
        )),
    }
}
