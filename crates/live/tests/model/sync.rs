//! The crate's `sync` under shuttle: at every synchronising operation the scheduler may run another
//! thread. Time stands still, except that a wait with a deadline jumps to its deadline.

use bytemuck::Zeroable;
use mm::world::{Word32, Word64};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{self, SeqCst};
use std::time::{Duration, Instant};

pub use shuttle::thread::yield_now;
pub use shuttle::thread_local;

std::thread_local! {
    static BASE: Instant = Instant::now();
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

pub fn now() -> Instant {
    BASE.with(|b| *b) + PASSED.get()
}

fn jump_to(t: Instant) {
    PASSED.set(
        PASSED
            .get()
            .max(t.saturating_duration_since(BASE.with(|b| *b))),
    );
}

#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub fn new(t: T) -> Self {
        Self(shuttle::sync::Mutex::new(t))
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let held = Some(self.0.lock().expect("no thread panicked"));
        Guard { mutex: self, held }
    }

    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let held = Some(self.0.try_lock().ok()?);
        Some(Guard { mutex: self, held })
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.held.as_ref().expect("held")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held")
    }
}

#[derive(Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(t: T) -> Self {
        Self(shuttle::sync::RwLock::new(t))
    }

    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("no thread panicked")
    }

    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("no thread panicked")
    }
}

#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

pub struct TimedOut;

impl TimedOut {
    pub fn timed_out(&self) -> bool {
        true
    }
}

impl Condvar {
    pub fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        let held = guard.held.take().expect("held");
        guard.held = Some(self.0.wait(held).expect("no thread panicked"));
    }

    pub fn wait_until<T>(&self, guard: &mut Guard<'_, T>, t: Instant) -> TimedOut {
        drop(guard.held.take());
        yield_now();
        jump_to(t);
        guard.held = Some(guard.mutex.0.lock().expect("no thread panicked"));
        TimedOut
    }

    pub fn wait_for<T>(&self, guard: &mut Guard<'_, T>, d: Duration) -> TimedOut {
        self.wait_until(guard, now() + d)
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

pub struct AtomicBool(std::sync::atomic::AtomicBool);

impl AtomicBool {
    pub fn new(v: bool) -> Self {
        Self(v.into())
    }

    pub fn load(&self, order: Ordering) -> bool {
        yield_now();
        self.0.load(order)
    }

    pub fn store(&self, v: bool, order: Ordering) {
        yield_now();
        self.0.store(v, order);
    }
}

macro_rules! word {
    ($name:ident, $int:ty, $trait:ident) => {
        #[derive(Default, Zeroable)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            pub fn new(v: $int) -> Self {
                Self(v.into())
            }
            pub fn load(&self, order: Ordering) -> $int {
                yield_now();
                self.0.load(order)
            }
            pub fn store(&self, v: $int, order: Ordering) {
                yield_now();
                self.0.store(v, order);
            }
            pub fn fetch_add(&self, n: $int, order: Ordering) -> $int {
                yield_now();
                self.0.fetch_add(n, order)
            }
            pub fn fetch_sub(&self, n: $int, order: Ordering) -> $int {
                yield_now();
                self.0.fetch_sub(n, order)
            }
            pub fn fetch_or(&self, n: $int, order: Ordering) -> $int {
                yield_now();
                self.0.fetch_or(n, order)
            }
            pub fn fetch_and(&self, n: $int, order: Ordering) -> $int {
                yield_now();
                self.0.fetch_and(n, order)
            }
            pub fn fetch_max(&self, n: $int, order: Ordering) -> $int {
                yield_now();
                self.0.fetch_max(n, order)
            }
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                yield_now();
                self.0.fetch_update(set, fetch, f)
            }
        }

        impl $trait for $name {
            fn get(&self) -> $int {
                self.load(SeqCst)
            }
            fn set(&self, v: $int) {
                self.store(v, SeqCst);
            }
            fn fetch_add(&self, n: $int) -> $int {
                $name::fetch_add(self, n, SeqCst)
            }
            fn fetch_sub(&self, n: $int) -> $int {
                $name::fetch_sub(self, n, SeqCst)
            }
            fn fetch_or(&self, n: $int) -> $int {
                $name::fetch_or(self, n, SeqCst)
            }
            fn fetch_and(&self, n: $int) -> $int {
                $name::fetch_and(self, n, SeqCst)
            }
            fn replace(&self, old: $int, new: $int) -> bool {
                yield_now();
                self.0.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
            }
        }
    };
}

word!(AtomicU32, u32, Word32);
word!(AtomicU64, u64, Word64);
