//! Classes of memory, as C says them.

use crate::Cache;
use crate::answer::{Wrong, amount};
use crate::borrowed::{places, thing};
use lowmark_cache::Held;
use std::ffi::c_int;

/// Memory that is held as that of any program.
pub const LOWMARK_CACHE_ORDINARY: c_int = 0;
/// Memory that is there from the beginning and never swapped out (mlock(2)); the process needs RLIMIT_MEMLOCK for it.
pub const LOWMARK_CACHE_LOCKED: c_int = 1;
/// Memory in huge pages where the system has them (MADV_HUGEPAGE).
pub const LOWMARK_CACHE_HUGE_PAGES: c_int = 2;

/// Watermarks of a class, in bytes, ascending, the highest at most half of the class: below `low` kswapd is woken and
/// works until `high` is free, and below `min` whoever needs a page reclaims for himself. All zero: its part of the
/// whole cache's by size, which is the kernel's formula.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Marks {
    /// Bytes that only those who write or free pages may use.
    pub min: u64,
    /// Bytes below which kswapd is woken.
    pub low: u64,
    /// Bytes to which it frees.
    pub high: u64,
}

/// A class of memory above the general one.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Class {
    /// Its bytes, a part of the cache's memory; 1 MiB at least. 0: there is no such class.
    pub memory: u64,
    /// Its watermarks.
    pub marks: Marks,
    /// Pages of files of higher classes leave one part in so many of the memory of those classes free here
    /// (lowmem_reserve_ratio); 0: they leave nothing.
    pub reserve_ratio: u32,
    /// How the system holds it: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or `LOWMARK_CACHE_HUGE_PAGES`.
    pub held: c_int,
}

/// What a class of memory holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ClassStats {
    /// Pages of it.
    pub pages: u64,
    /// Free pages, those on lists of one CPU slot not counted.
    pub free_pages: u64,
    /// Pages that hold file data.
    pub cached_pages: u64,
    /// Pages newer than their file.
    pub dirty_pages: u64,
    /// Pages evicted so far.
    pub evicted_pages: u64,
    /// The watermarks as they are now: pages that only those who write or free pages may use.
    pub min_pages: u64,
    /// Pages below which kswapd is woken.
    pub low_pages: u64,
    /// Pages to which it frees.
    pub high_pages: u64,
}

impl Marks {
    pub(crate) fn formula() -> Self {
        Self {
            min: 0,
            low: 0,
            high: 0,
        }
    }

    pub(crate) fn meant(self) -> Option<lowmark_cache::Marks> {
        let Self { min, low, high } = self;
        let given = min > 0 || low > 0 || high > 0;
        given.then_some(lowmark_cache::Marks { min, low, high })
    }
}

impl Class {
    /// None, for which somebody may say how large it is.
    pub(crate) fn none() -> Self {
        let none = lowmark_cache::Class::default();
        Self {
            memory: none.memory,
            marks: Marks::formula(),
            reserve_ratio: none.reserve_ratio,
            held: LOWMARK_CACHE_ORDINARY,
        }
    }

    fn meant(&self) -> Result<lowmark_cache::Class, Wrong> {
        Ok(lowmark_cache::Class {
            memory: self.memory,
            reserve_ratio: self.reserve_ratio,
            marks: self.marks.meant(),
            held: held(self.held)?,
        })
    }
}

/// The classes above the general one, as far as there are any.
///
/// # Errors
/// One is held as nothing is, or there is one above none.
pub(crate) fn classes(of: &[Class]) -> Result<Vec<lowmark_cache::Class>, Wrong> {
    let n = of.iter().take_while(|c| c.memory > 0).count();
    if let Some(i) = of.iter().skip(n).position(|c| c.memory > 0) {
        let (missing, above) = (n + 1, n + i + 1);
        let message = format!("class {above} has memory and class {missing} has none");
        return Err(Wrong::new(libc::EINVAL, message));
    }
    of[..n].iter().map(Class::meant).collect()
}

pub(crate) fn held(number: c_int) -> Result<Held, Wrong> {
    Ok(match number {
        LOWMARK_CACHE_ORDINARY => Held::Ordinary,
        LOWMARK_CACHE_LOCKED => Held::Locked,
        LOWMARK_CACHE_HUGE_PAGES => Held::HugePages,
        _ => {
            let message =
                format!("held = {number}; accepted: LOWMARK_CACHE_ORDINARY, _LOCKED, _HUGE_PAGES");
            return Err(Wrong::new(libc::EINVAL, message));
        }
    })
}

/// What each class of memory holds, the general one first: of up to `count` classes, into as many places; a place for
/// which there is no class is zero. Gives how many classes there are, 1 to 3.
///
/// # Safety
/// `cache` is one or NULL; `stats` has `count` places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_classes(
    cache: *const Cache,
    stats: *mut ClassStats,
    count: c_int,
) -> i64 {
    amount(|| {
        // SAFETY: as promised; numbers may be zero.
        let places = unsafe { places("stats", stats, count)? };
        // SAFETY: as promised.
        let all = unsafe { thing("cache", cache)? }.0.cache.classes();
        for (place, s) in places.iter_mut().zip(&all) {
            let [min, low, high] = s.marks;
            *place = ClassStats {
                pages: s.pages,
                free_pages: s.free,
                cached_pages: s.cached,
                dirty_pages: s.dirty,
                evicted_pages: s.evicted,
                min_pages: min,
                low_pages: low,
                high_pages: high,
            };
        }
        Ok(all.len() as i64)
    })
}
