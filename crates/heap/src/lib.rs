#![doc = include_str!("../README.md")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The host has no memory for a purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoMemory {
    /// The purpose, in a few words ("the frame table").
    pub what: &'static str,
    /// The bytes requested at once.
    pub bytes: u64,
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, bytes } = self;
        write!(f, "there is no memory for {what} ({bytes} bytes)")
    }
}

impl std::error::Error for NoMemory {}

impl NoMemory {
    /// Returns the error for a thread with a stack of `bytes` bytes.
    pub fn thread(bytes: u64) -> Self {
        Self {
            what: "a thread",
            bytes,
        }
    }

    /// Unwinds with this value as the payload, without a panic's message: for code that can't
    /// return it. The caller catches the unwind and checks the type.
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

/// Allocates a table of `n` zeroed values; `what` names its purpose in the error. The operating
/// system provides its memory when it is touched.
///
/// # Errors
/// The host refuses the memory.
pub fn zeroed<T: bytemuck::Zeroable>(what: &'static str, n: usize) -> Result<Box<[T]>, NoMemory> {
    may_fail(|| bytemuck::try_zeroed_slice_box(n)).map_err(|()| refused::<T>(what, n))
}

/// Allocates a table of `n` values, which `make` makes one after the other from their index; `what`
/// names its purpose in the error.
///
/// # Errors
/// The host refuses the memory of the table. Allocations by `make` are not covered.
pub fn filled<T>(
    what: &'static str,
    n: usize,
    make: impl FnMut(usize) -> T,
) -> Result<Box<[T]>, NoMemory> {
    let mut table = Vec::new();
    may_fail(|| table.try_reserve_exact(n)).map_err(|_| refused::<T>(what, n))?;
    table.extend((0..n).map(make));
    Ok(table.into_boxed_slice())
}

/// Allocates a table as [`filled`] does, with a `make` that may fail.
///
/// # Errors
/// The host refuses the table, or `make` fails.
pub fn try_filled<T>(
    what: &'static str,
    n: usize,
    make: impl FnMut(usize) -> Result<T, NoMemory>,
) -> Result<Box<[T]>, NoMemory> {
    let mut table = Vec::new();
    may_fail(|| table.try_reserve_exact(n)).map_err(|_| refused::<T>(what, n))?;
    for value in (0..n).map(make) {
        table.push(value?);
    }
    Ok(table.into_boxed_slice())
}

/// Makes the error that the host refuses a table of `n` values of the type `T`.
fn refused<T>(what: &'static str, n: usize) -> NoMemory {
    let bytes = (n as u64).saturating_mul(size_of::<T>() as u64);
    NoMemory { what, bytes }
}

thread_local! {
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, whose caller handles failed allocations: a [`Heap`] then returns the refusal instead
/// of ending the program, until `f` returns or unwinds. `f` must contain only fallible calls
/// (`try_reserve`).
pub fn may_fail<R>(f: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_FAIL.set(self.0);
        }
    }
    let _before = Before(MAY_FAIL.replace(true));
    f()
}

/// A global allocator that ends the program when memory runs out.
#[derive(Debug)]
pub struct Heap<A = System> {
    inner: A,
    help: &'static str,
}

impl<A> Heap<A> {
    /// Wraps the allocator `inner`; `help` is printed below the message.
    pub const fn new(inner: A, help: &'static str) -> Self {
        Self { inner, help }
    }

    /// Passes on the address `given` that `inner` returned for `layout`, and ends the program if it
    /// is NULL, that is, a refusal, outside of [`may_fail`].
    #[inline]
    fn checked(&self, given: *mut u8, layout: Layout) -> *mut u8 {
        if given.is_null() && !MAY_FAIL.get() {
            self.end(layout.size());
        }
        given
    }

    /// Ends the process with a message that memory ran out, without allocating: `bytes` were
    /// refused.
    #[cold]
    fn end(&self, bytes: usize) -> ! {
        static ENDING: AtomicBool = AtomicBool::new(false);
        if ENDING.swap(true, SeqCst) {
            // Another thread has reported it and is ending the process.
            loop {
                std::thread::yield_now();
            }
        }
        let mut text = Line {
            bytes: [0; 512],
            len: 0,
        };
        let help = self.help;
        let sentence = "error: memory ran out: the system refused";
        let _ = write!(text, "{sentence} {bytes} bytes more\nhelp: {help}\n");
        // SAFETY: the bytes are initialised and live here; neither call allocates, and neither
        // needs a lock of this process, which other threads may hold.
        unsafe {
            libc::write(2, text.bytes.as_ptr().cast(), text.len);
            libc::_exit(1)
        }
    }
}

/// A text without heap memory; longer text is cut.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    /// Appends a text to the buffer, as far as it fits.
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

// SAFETY: every call is forwarded with its own arguments, and its result is returned unless the
// process ends. Nothing here allocates or unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.checked(unsafe { self.inner.alloc(layout) }, layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.checked(unsafe { self.inner.alloc_zeroed(layout) }, layout)
    }

    /// Reallocates by the wrapped allocator, and ends the program if it refuses outside of
    /// [`may_fail`].
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let given = unsafe { self.inner.realloc(ptr, layout, new_size) };
        if given.is_null() && !MAY_FAIL.get() {
            self.end(new_size);
        }
        given
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { self.inner.dealloc(ptr, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_host_has_is_refused_by_name() {
        let e = zeroed::<u64>("the moon", usize::MAX / 16).unwrap_err();
        assert_eq!(e.what, "the moon");
        assert!(e.to_string().contains("for the moon ("), "{e}");
        let e = filled("the sun", usize::MAX / 4, |_| 0_u32).unwrap_err();
        assert_eq!(e.bytes, (usize::MAX / 4) as u64 * 4);
        let e = try_filled("a star", 3, |n| zeroed::<u64>("dust", n << 60));
        assert_eq!(e.unwrap_err().what, "dust");
        assert_eq!(*zeroed::<u32>("a stone", 3).unwrap(), [0; 3]);
        assert_eq!(*filled("stones", 3, |i| i).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn scopes_nest() {
        assert!(!MAY_FAIL.get());
        may_fail(|| {
            may_fail(|| assert!(MAY_FAIL.get()));
            assert!(MAY_FAIL.get());
        });
        assert!(!MAY_FAIL.get());
    }

    #[test]
    fn it_unwinds_with_its_own_type() {
        let wanted = NoMemory {
            what: "x",
            bytes: 3,
        };
        let raised = wanted.clone();
        let caught = std::panic::catch_unwind(|| raised.raise()).unwrap_err();
        assert_eq!(caught.downcast_ref::<NoMemory>(), Some(&wanted));
    }

    #[test]
    fn a_long_line_is_cut() {
        let mut line = Line {
            bytes: [0; 512],
            len: 0,
        };
        write!(line, "{:600}", 1).unwrap();
        assert_eq!(line.len, 512);
    }
}
