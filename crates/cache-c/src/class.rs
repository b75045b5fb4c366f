//! Classes of memory in the C interface.

use crate::Cache;
use crate::answer::{Wrong, amount};
use crate::borrowed::{deref, places};
use lowmark_cache::Held;
use std::ffi::c_int;

/// `held`: memory like that of any program, allocated when first touched.
pub const LOWMARK_CACHE_ORDINARY: c_int = 0;
/// `held`: memory allocated at once and never swapped out (mlock(2)); needs RLIMIT_MEMLOCK.
pub const LOWMARK_CACHE_LOCKED: c_int = 1;
/// `held`: memory in huge pages where the system has them (MADV_HUGEPAGE).
pub const LOWMARK_CACHE_HUGE_PAGES: c_int = 2;

/// Watermarks of a class in bytes, ascending, the highest at most half of the class. Below `low`
/// kswapd is woken and works until `high` is free; below `min` a thread that needs a page reclaims
/// directly. All zero: the class's share by size of those of the whole cache, by the kernel's
/// formula.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Marks {
    /// Free bytes reserved for threads that write or free pages.
    pub min: u64,
    /// Free bytes below which kswapd is woken.
    pub low: u64,
    /// Free bytes at which kswapd stops.
    pub high: u64,
}

/// A class of memory above the general one.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Class {
    /// Size in bytes, a part of the cache's memory; at least 1 MiB. 0: the class does not exist.
    pub memory: u64,
    /// The class's watermarks.
    pub marks: Marks,
    /// Allocations for files of higher classes leave this class a reserve: the memory of the higher
    /// classes divided by this ratio (lowmem_reserve_ratio). 0: no reserve.
    pub reserve_ratio: u32,
    /// How the system holds the memory: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or
    /// `LOWMARK_CACHE_HUGE_PAGES`.
    pub held: c_int,
}

/// Levels and counters of a class of memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ClassStats {
    /// All pages of the class.
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free_pages: u64,
    /// Pages that hold file data.
    pub cached_pages: u64,
    /// Dirty pages: newer than their file.
    pub dirty_pages: u64,
    /// Pages evicted so far.
    pub evicted_pages: u64,
    /// The `min` watermark as it is now: free pages reserved for threads that write or free pages.
    pub min_pages: u64,
    /// The `low` watermark: free pages below which kswapd is woken.
    pub low_pages: u64,
    /// The `high` watermark: free pages at which kswapd stops.
    pub high_pages: u64,
}

impl Marks {
    /// Returns watermarks of zero, which stand for those of the kernel's formula.
    pub(crate) fn formula() -> Self {
        Self {
            min: 0,
            low: 0,
            high: 0,
        }
    }

    /// Converts the watermarks for the Rust cache, in bytes; `None`: all are zero, so the kernel's
    /// formula applies.
    pub(crate) fn convert(self) -> Option<lowmark_cache::Marks> {
        let Self { min, low, high } = self;
        let given = min > 0 || low > 0 || high > 0;
        given.then_some(lowmark_cache::Marks { min, low, high })
    }
}

impl Class {
    /// Returns a class without memory, for the caller to set its size.
    pub(crate) fn empty() -> Self {
        let defaults = lowmark_cache::Class::default();
        Self {
            memory: defaults.memory,
            marks: Marks::formula(),
            reserve_ratio: defaults.reserve_ratio,
            held: LOWMARK_CACHE_ORDINARY,
        }
    }

    /// Converts the class of memory for the Rust cache. An error says that `held` is no valid
    /// value.
    fn convert(&self) -> Result<lowmark_cache::Class, Wrong> {
        Ok(lowmark_cache::Class {
            memory: self.memory,
            reserve_ratio: self.reserve_ratio,
            marks: self.marks.convert(),
            held: held(self.held)?,
        })
    }
}

/// Converts the classes above the general one that have memory.
///
/// # Errors
/// `held` of a class is no valid value, or a class has memory and the one below it has none.
pub(crate) fn classes(of: &[Class]) -> Result<Vec<lowmark_cache::Class>, Wrong> {
    let n = of.iter().take_while(|c| c.memory > 0).count();
    if let Some(i) = of.iter().skip(n).position(|c| c.memory > 0) {
        let (missing, above) = (n + 1, n + i + 1);
        let message = format!("class {above} has memory and class {missing} has none");
        return Err(Wrong::new(libc::EINVAL, message));
    }
    of[..n].iter().map(Class::convert).collect()
}

/// Converts `LOWMARK_CACHE_ORDINARY`, `_LOCKED` or `_HUGE_PAGES`, which say how the system holds
/// memory; another number is an error.
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

/// Writes what each class of memory holds to `stats`, the general class first, for up to `count`
/// classes; places without a class are zeroed. Returns the number of classes, 1 to 3.
///
/// # Safety
/// `cache` is NULL or a valid handle; `stats` has `count` places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_classes(
    cache: *const Cache,
    stats: *mut ClassStats,
    count: c_int,
) -> i64 {
    amount(|| {
        // SAFETY: as promised; all-zero statistics are valid.
        let places = unsafe { places("stats", stats, count)? };
        // SAFETY: as promised.
        let all = unsafe { deref("cache", cache)? }.0.cache.classes();
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
