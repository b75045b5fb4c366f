//! Shrinkers of C programs: callbacks by which reclaim asks for objects to be freed.

use crate::answer::{Wrong, answer};
use crate::borrowed::{deref, make, null};
use crate::{Cache, Shared, give_back};
use lowmark_cache::Error;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError, RwLock};

/// A program's cache of its own objects (decoded blocks, results) that it could make again: when
/// memory is short it is asked to free the same share of them that is taken of the files' pages.
///
/// `count` and `scan` are called by the thread that reclaims: one of the cache's, or one of the
/// program's in the middle of a call, and by several at the same time. So they
///
/// - must not wait for a lock that a thread which calls the cache may hold: use
///   pthread_mutex_trylock, and if that fails return 0 objects from `count`, and a negative number
///   from `scan`;
/// - may free buffers (`lowmark_cache_free_buffer`), but no other handle: no file, page, cache or
///   recording;
/// - may ask for counters and sizes; a call that needs more of the cache, opens a file, shuts down
///   or unregisters is -EDEADLK;
/// - must return, and not by longjmp or an exception.
///
/// Any number they return is accepted, and limited to a sensible range: none ends the process or
/// confuses the cache.
#[repr(C)]
pub struct Shrinker {
    /// Returns the number of objects that could be freed now; a negative number means 0.
    pub count: Option<unsafe extern "C" fn(context: *mut c_void) -> i64>,
    /// Scans `objects` objects and frees those that it can; returns how many it freed. A negative
    /// number: it cannot proceed now and is to be asked another time.
    pub scan: Option<unsafe extern "C" fn(context: *mut c_void, objects: u64) -> i64>,
    /// The first argument of both; it must outlive the registration.
    pub context: *mut c_void,
    /// The cost of making an object again, in disk seeks: at twice the cost half as many objects
    /// are asked for. 0: the kernel's default, 2.
    pub seeks: u32,
    /// Objects that are asked for in one call; fewer are put off until there are enough. 0: the
    /// kernel's default, 128.
    pub batch: u32,
}

/// Limit on the number of objects that a callback may return, so that the engine's arithmetic
/// cannot overflow.
const MOST: u64 = 1 << 31;

/// The program's callbacks.
struct Callbacks {
    count: unsafe extern "C" fn(context: *mut c_void) -> i64,
    scan: unsafe extern "C" fn(context: *mut c_void, objects: u64) -> i64,
    context: *mut c_void,
}

// SAFETY: a program that registers a shrinker promises that any thread may call it.
unsafe impl Send for Callbacks {}
// SAFETY: as above, several threads at the same time.
unsafe impl Sync for Callbacks {}

struct Asked {
    /// Held shared during a callback; unregistering takes the callbacks out exclusively.
    callbacks: RwLock<Option<Callbacks>>,
    seeks: u32,
    batch: u32,
}

thread_local! {
    /// True while the thread is in a callback.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a call that would wait for ever in a shrinker's callback.
///
/// # Errors
/// The thread is in a callback.
pub(crate) fn not_in_shrinker() -> Result<(), Wrong> {
    match ASKED.get() {
        true => Err(Error::InShrinker.into()),
        false => Ok(()),
    }
}

impl Asked {
    /// Calls one of the C program's callbacks and returns its answer, limited to a sensible range;
    /// `None`: the answer is negative, or the shrinker is being unregistered.
    fn ask(&self, call: impl FnOnce(&Callbacks) -> i64) -> Option<u64> {
        // Never waits for the lock: unregistering waits for the callbacks that run.
        let callbacks = self.callbacks.try_read().ok()?;
        let callbacks = callbacks.as_ref()?;
        let before = ASKED.replace(true);
        let answer = call(callbacks);
        ASKED.set(before);
        Some(u64::try_from(answer).ok()?.min(MOST))
    }
}

impl lowmark_cache::Shrinker for Asked {
    /// Asks the C program how many objects it could free; 0 if it can't say now.
    fn count(&self) -> u64 {
        // SAFETY: it is the caller's own function with the caller's own context, still registered.
        self.ask(|c| unsafe { (c.count)(c.context) }).unwrap_or(0)
    }

    /// Asks the C program to scan `n` objects and free those that it can. Returns how many it
    /// freed; `None`: it cannot proceed now.
    fn scan(&self, n: u64) -> Option<u64> {
        // SAFETY: as above.
        self.ask(|c| unsafe { (c.scan)(c.context, n) })
    }

    fn seeks(&self) -> u32 {
        self.seeks
    }

    fn batch(&self) -> u32 {
        self.batch
    }
}

/// The registration of a shrinker.
pub struct Registration {
    asked: Arc<Asked>,
    // Fields are dropped in this order: the shrinker is unregistered before the cache may end.
    _registration: lowmark_cache::Registration,
    _shared: Arc<Shared>,
}

impl Drop for Registration {
    /// Takes the callbacks out, after waiting for those that run, so that none is called from now
    /// on.
    fn drop(&mut self) {
        let callbacks = self.asked.callbacks.write();
        *callbacks.unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Converts a shrinker of a C program; zeros become the kernel's defaults. An error says that a
/// callback is NULL.
fn convert(shrinker: &Shrinker) -> Result<Asked, Wrong> {
    // The number, or the default for 0.
    let or = |n: u32, default: u32| if n == 0 { default } else { n };
    Ok(Asked {
        callbacks: RwLock::new(Some(Callbacks {
            count: shrinker.count.ok_or_else(|| null("count"))?,
            scan: shrinker.scan.ok_or_else(|| null("scan"))?,
            context: shrinker.context,
        })),
        seeks: or(shrinker.seeks, 2),
        batch: or(shrinker.batch, 128),
    })
}

/// Registers a shrinker, which is called when memory is short, until
/// `lowmark_cache_unregister_shrinker`; a cache can have up to 64. `*shrinker` is copied.
/// `*registration` belongs to the caller, and is NULL if the call fails. It keeps the cache in
/// existence.
///
/// # Safety
/// `cache` is NULL or a valid handle; `shrinker` is NULL or valid, and its functions may be called
/// as described there; `registration` is NULL or valid for writing a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_register_shrinker(
    cache: *const Cache,
    shrinker: *const Shrinker,
    registration: *mut *mut Registration,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (shared, shrinker) =
            unsafe { (&deref("cache", cache)?.0, deref("shrinker", shrinker)?) };
        let asked = Arc::new(convert(shrinker)?);
        let other = Arc::clone(&asked) as Arc<dyn lowmark_cache::Shrinker>;
        Ok(Box::into_raw(Box::new(Registration {
            asked,
            _registration: shared.cache.register_shrinker(other)?,
            _shared: Arc::clone(shared),
        })))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    answer(|| unsafe { make("registration", registration, work) })
}

/// Unregisters a shrinker and frees its registration; NULL is allowed. It waits until no thread is
/// in `count` or `scan`; afterwards none is called, and the context is the program's again. A
/// thread that holds a lock which a callback waits for waits for ever.
///
/// -EDEADLK: it was called from a shrinker, and nothing was done.
///
/// # Safety
/// `registration` is NULL, or came from `lowmark_cache_register_shrinker`, was not freed, and is
/// not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_unregister_shrinker(
    registration: *mut Registration,
) -> c_int {
    answer(|| {
        not_in_shrinker()?;
        // SAFETY: as promised.
        unsafe { give_back(registration) };
        Ok(())
    })
}
