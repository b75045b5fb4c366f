//! Whom reclaim asks for objects of a C program's own.

use crate::answer::{Wrong, answer};
use crate::borrowed::{make, null, thing};
use crate::{Cache, Shared, give_back};
use lowmark_cache::Error;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError, RwLock};

/// A program's cache of its own objects (decoded blocks, results), which could make them again: when memory is short
/// it is asked for some back, for the share that is taken of files' pages as well.
///
/// `count` and `scan` are called by whoever reclaims: a thread of the cache's, or one of the program's in the middle of
/// a call, several at the same time. So they
///
/// - must not wait for a lock that a thread which calls the cache may hold: pthread_mutex_trylock, and if that fails 0
///   objects, or "can't go on now";
/// - may free buffers (`lowmark_cache_free_buffer`), and give back nothing else: no file, page, cache or recording;
/// - may look at counters and sizes; what needs more of the cache, opens a file, shuts down or unregisters is
///   -EDEADLK;
/// - must return, and not by longjmp or an exception.
///
/// What they answer is taken for what it can mean: no number ends the process or confuses the cache.
#[repr(C)]
pub struct Shrinker {
    /// How many objects could be freed now; below 0 is none.
    pub count: Option<unsafe extern "C" fn(context: *mut c_void) -> i64>,
    /// Looks at so many objects and frees those that it can; gives how many they were. Below 0: it can't go on now,
    /// ask another time.
    pub scan: Option<unsafe extern "C" fn(context: *mut c_void, objects: u64) -> i64>,
    /// What both are given; it outlives the registration.
    pub context: *mut c_void,
    /// What making an object again costs, in seeks of a disk: twice as much, and half as many are asked for. 0: the
    /// kernel's 2.
    pub seeks: u32,
    /// Objects that it is asked for at a time; less than that is put off until enough has come together. 0: the
    /// kernel's 128.
    pub batch: u32,
}

/// Objects that anybody is taken to have, or to have freed at a time: the engine's arithmetic holds these.
const MOST: u64 = 1 << 31;

/// The callbacks, as long as they may be called.
struct Callbacks {
    count: unsafe extern "C" fn(context: *mut c_void) -> i64,
    scan: unsafe extern "C" fn(context: *mut c_void, objects: u64) -> i64,
    context: *mut c_void,
}

// SAFETY: whoever registers a shrinker promises that it may be called by any thread with its context.
unsafe impl Send for Callbacks {}
// SAFETY: as above, by several at the same time.
unsafe impl Sync for Callbacks {}

struct Asked {
    /// Who calls holds it shared; who unregisters takes them away, alone.
    callbacks: RwLock<Option<Callbacks>>,
    seeks: u32,
    batch: u32,
}

thread_local! {
    /// The thread is in a callback.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// # Errors
/// The thread is in a callback, where what would be done now waits for ever.
pub(crate) fn not_asked() -> Result<(), Wrong> {
    match ASKED.get() {
        true => Err(Error::InShrinker.into()),
        false => Ok(()),
    }
}

impl Asked {
    /// What a callback answers; `None`: nothing, or below 0.
    fn ask(&self, call: impl FnOnce(&Callbacks) -> i64) -> Option<u64> {
        // Never waits: who unregisters waits for those who are in here.
        let callbacks = self.callbacks.try_read().ok()?;
        let callbacks = callbacks.as_ref()?;
        let before = ASKED.replace(true);
        let answer = call(callbacks);
        ASKED.set(before);
        Some(u64::try_from(answer).ok()?.min(MOST))
    }
}

impl lowmark_cache::Shrinker for Asked {
    fn count(&self) -> u64 {
        // SAFETY: it is the caller's own function with the caller's own context, and registered.
        self.ask(|c| unsafe { (c.count)(c.context) }).unwrap_or(0)
    }

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

/// A shrinker that is registered.
pub struct Registration {
    asked: Arc<Asked>,
    // Dropped in this order: nobody is asked any more when the cache ends.
    _registration: lowmark_cache::Registration,
    _shared: Arc<Shared>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let callbacks = self.asked.callbacks.write();
        *callbacks.unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn meant(shrinker: &Shrinker) -> Result<Asked, Wrong> {
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

/// Has a shrinker asked when memory is short, until `lowmark_cache_unregister_shrinker`; up to 64 of a cache. What is at
/// `shrinker` is copied. `*registration` is the caller's, and NULL if it fails; it keeps the cache.
///
/// # Safety
/// `cache` is one or NULL, `shrinker` is one or NULL whose functions may be called as it says; `registration` takes a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_register_shrinker(
    cache: *const Cache,
    shrinker: *const Shrinker,
    registration: *mut *mut Registration,
) -> c_int {
    let work = || {
        // SAFETY: as promised.
        let (shared, shrinker) =
            unsafe { (&thing("cache", cache)?.0, thing("shrinker", shrinker)?) };
        let asked = Arc::new(meant(shrinker)?);
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

/// Has a shrinker asked no more, and gives its registration back; NULL is nothing. It waits for those that are in
/// `count` or `scan`: afterwards nobody is, and the context is the program's again. Who holds a lock for which they
/// wait waits for ever.
///
/// -EDEADLK: a shrinker has called it, and nothing has happened.
///
/// # Safety
/// It came from `lowmark_cache_register_shrinker`, was not given back, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_unregister_shrinker(
    registration: *mut Registration,
) -> c_int {
    answer(|| {
        not_asked()?;
        // SAFETY: as promised.
        unsafe { give_back(registration) };
        Ok(())
    })
}
