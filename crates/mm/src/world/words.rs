//! Words of engine state and short locks: plain cells in the virtual world, atomics in the live
//! one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// A 32-bit word of engine state: a plain cell in the virtual world, an atomic in the live one.
pub trait Word32 {
    /// Returns the value.
    fn get(&self) -> u32;
    /// Stores a value.
    fn set(&self, v: u32);
    /// Adds, wrapping; returns the value before.
    fn fetch_add(&self, n: u32) -> u32;
    /// Subtracts, wrapping; returns the value before.
    fn fetch_sub(&self, n: u32) -> u32;
    /// Sets bits; returns the value before.
    fn fetch_or(&self, bits: u32) -> u32;
    /// Keeps only `bits`; returns the value before.
    fn fetch_and(&self, bits: u32) -> u32;
    /// Writes `new` if the value is `old`; returns whether it was.
    fn replace(&self, old: u32, new: u32) -> bool;
}

/// A 64-bit word of engine state.
pub trait Word64 {
    /// Returns the value.
    fn get(&self) -> u64;
    /// Stores a value.
    fn set(&self, v: u64);
    /// Adds, wrapping; returns the value before.
    fn fetch_add(&self, n: u64) -> u64;
    /// Subtracts, wrapping; returns the value before.
    fn fetch_sub(&self, n: u64) -> u64;
    /// Sets bits; returns the value before.
    fn fetch_or(&self, bits: u64) -> u64;
    /// Keeps only `bits`; returns the value before.
    fn fetch_and(&self, bits: u64) -> u64;
    /// Writes `new` if the value is `old`; returns whether it was.
    fn replace(&self, old: u64, new: u64) -> bool;
}

macro_rules! cell_word {
    ($int:ty, $trait:ident) => {
        impl $trait for Cell<$int> {
            #[inline(always)]
            fn get(&self) -> $int {
                Cell::get(self)
            }
            #[inline(always)]
            fn set(&self, v: $int) {
                Cell::set(self, v);
            }
            /// Adds, wrapping; returns the value before.
            #[inline(always)]
            fn fetch_add(&self, n: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v.wrapping_add(n));
                v
            }
            /// Subtracts, wrapping; returns the value before.
            #[inline(always)]
            fn fetch_sub(&self, n: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v.wrapping_sub(n));
                v
            }
            /// Sets bits; returns the value before.
            #[inline(always)]
            fn fetch_or(&self, bits: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v | bits);
                v
            }
            /// Keeps only `bits`; returns the value before.
            #[inline(always)]
            fn fetch_and(&self, bits: $int) -> $int {
                let v = Cell::get(self);
                Cell::set(self, v & bits);
                v
            }
            /// Writes `new` if the value is `old`; returns true if it was.
            #[inline(always)]
            fn replace(&self, old: $int, new: $int) -> bool {
                let same = Cell::get(self) == old;
                if same {
                    Cell::set(self, new);
                }
                same
            }
        }
    };
}

cell_word!(u32, Word32);
cell_word!(u64, Word64);

/// The atomics use one total order of all operations (`SeqCst`): the engine tests one word after it
/// has written another (kswapd's sleep mark against the free pages) and relies on that order.
macro_rules! atomic_word {
    ($atomic:ty, $int:ty, $trait:ident) => {
        impl $trait for $atomic {
            #[inline(always)]
            fn get(&self) -> $int {
                self.load(SeqCst)
            }
            #[inline(always)]
            fn set(&self, v: $int) {
                self.store(v, SeqCst);
            }
            #[inline(always)]
            fn fetch_add(&self, n: $int) -> $int {
                <$atomic>::fetch_add(self, n, SeqCst)
            }
            #[inline(always)]
            fn fetch_sub(&self, n: $int) -> $int {
                <$atomic>::fetch_sub(self, n, SeqCst)
            }
            #[inline(always)]
            fn fetch_or(&self, bits: $int) -> $int {
                <$atomic>::fetch_or(self, bits, SeqCst)
            }
            #[inline(always)]
            fn fetch_and(&self, bits: $int) -> $int {
                <$atomic>::fetch_and(self, bits, SeqCst)
            }
            #[inline(always)]
            fn replace(&self, old: $int, new: $int) -> bool {
                self.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
            }
        }
    };
}

atomic_word!(AtomicU32, u32, Word32);
atomic_word!(AtomicU64, u64, Word64);

/// A lock held for a few instructions. It takes a closure, so no guard can live across an await.
pub trait ShortLock {
    /// Runs `f` under the lock.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}
