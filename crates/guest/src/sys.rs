//! System calls for which neither std nor rustix has a safe form. All `unsafe` of this crate is
//! here.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use workload::Advice;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Converts the result of a system call that returns 0 or -1: the error is errno's.
fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets the scheduling policy and the static priority of the calling thread. Asks the kernel and
/// not the C library: musl's `sched_setscheduler` fails with ENOSYS.
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    /// The kernel's `struct sched_param`; that of musl has more fields.
    #[repr(C)]
    struct Param {
        sched_priority: libc::c_int,
    }
    let param = Param {
        sched_priority: priority,
    };
    // SAFETY: the parameter outlives the call; 0 is the calling thread.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the text of the kernel's log, oldest line first, as far as its ring still holds it. Each
/// line begins with its level in angle brackets and its time in square ones.
///
/// # Errors
/// As syslog(2).
pub fn kernel_log() -> io::Result<String> {
    const READ_ALL: libc::c_int = 3;
    const SIZE: libc::c_int = 10;
    // SAFETY: the kernel reads no buffer for this question.
    let size = unsafe { libc::klogctl(SIZE, null_mut(), 0) };
    let mut text = vec![0u8; usize::try_from(size).map_err(|_| io::Error::last_os_error())?];
    // SAFETY: the buffer has `size` bytes.
    let read = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast(), size) };
    text.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Gives the calling thread real-time priority (SCHED_FIFO), so that looks are taken in time. Its
/// nice value becomes the lowest, which counts while it runs [as a normal task](as_others).
///
/// # Errors
/// As sched_setscheduler(2) and setpriority(2).
pub fn run_first() -> io::Result<()> {
    rustix::process::setpriority_process(None, -20)?;
    set_policy(libc::SCHED_FIFO, 1)
}

/// Calls `what` as a normal task (SCHED_OTHER), then restores the policy. The kernel allows
/// real-time tasks more, for example more dirty pages, and reports the limits that hold for the
/// reading task (`domain_dirty_limits`).
///
/// # Errors
/// As sched_setscheduler(2), and those of `what`.
pub fn as_others<T>(what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: the call only queries; 0 is the calling thread.
    let first = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_FIFO;
    if !first {
        return what();
    }
    set_policy(libc::SCHED_OTHER, 0)?;
    let done = what();
    set_policy(libc::SCHED_FIFO, 1)?;
    done
}

/// Turns on the swap area on the device with swapon(2).
///
/// # Errors
/// As swapon(2).
pub fn swap_on(device: &str) -> io::Result<()> {
    let device = CString::new(device)?;
    // SAFETY: a string that ends with 0 and outlives the call.
    done(unsafe { libc::swapon(device.as_ptr(), 0) })
}

/// Returns user and system CPU time of the calling thread as in getrusage(2), in nanoseconds.
pub fn thread_times() -> (u64, u64) {
    // SAFETY: all zeroes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a struct of ours. With these operands the call can't fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// The most parts that readv(2) and related calls take.
const MOST_PARTS: usize = 1024;

/// Returns the parts of a readv(2) or writev(2) of `len` bytes in total, which all lie in the same
/// window of `size` bytes: the data does not matter, and a small window saves memory.
fn parts(window: *mut u8, size: usize, len: usize) -> Vec<libc::iovec> {
    let part = |at: usize| libc::iovec {
        iov_base: window.cast(),
        iov_len: size.min(len - at),
    };
    (0..len).step_by(size).take(MOST_PARTS).map(part).collect()
}

/// Returns the size in bytes, in whole pages, of the window (a small buffer that is used again and
/// again) for reads or writes of `len` bytes: at most 256 KiB, unless the call would have too many
/// parts.
pub fn window_for(len: usize) -> usize {
    const LARGE: usize = 256 << 10;
    len.min(LARGE)
        .max(len.div_ceil(MOST_PARTS))
        .next_multiple_of(PAGE)
        .max(PAGE)
}

/// Converts the result of a read or write: the number of bytes, or errno's error if it is negative.
fn transferred(result: isize) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Calls readv(2), or preadv(2) if `at` gives an offset: reads at most `len` bytes, all parts into
/// the same window (sized by [`window_for`]).
///
/// # Errors
/// As readv(2).
pub fn read_over(
    fd: BorrowedFd<'_>,
    window: &mut [u8],
    len: usize,
    at: Option<u64>,
) -> io::Result<u64> {
    let parts = parts(window.as_mut_ptr(), window.len(), len);
    let (fd, n) = (fd.as_raw_fd(), parts.len() as libc::c_int);
    // SAFETY: the kernel writes into parts that all lie inside of the window, which is borrowed
    // for writing until the call returns; bytes have no invalid values.
    transferred(unsafe {
        match at {
            Some(at) => libc::preadv64(fd, parts.as_ptr(), n, at as i64),
            None => libc::readv(fd, parts.as_ptr(), n),
        }
    })
}

/// Calls writev(2), or pwritev(2) if `at` gives an offset: writes at most `len` bytes, all parts
/// from the same window.
///
/// # Errors
/// As writev(2).
pub fn write_over(
    fd: BorrowedFd<'_>,
    window: &[u8],
    len: usize,
    at: Option<u64>,
) -> io::Result<u64> {
    let parts = parts(window.as_ptr().cast_mut(), window.len(), len);
    let (fd, n) = (fd.as_raw_fd(), parts.len() as libc::c_int);
    // SAFETY: the kernel only reads the parts, which all lie inside of the window.
    transferred(unsafe {
        match at {
            Some(at) => libc::pwritev64(fd, parts.as_ptr(), n, at as i64),
            None => libc::writev(fd, parts.as_ptr(), n),
        }
    })
}

thread_local! {
    /// Set while the calling thread is in [`Mapping::touch`].
    static TOUCHING: Cell<bool> = const { Cell::new(false) };
    /// Set if a touch caused a bus error.
    static BUS_ERROR: Cell<bool> = const { Cell::new(false) };
}

/// Handles SIGBUS at a page of a mapped file that can't be read: maps an empty page in its place,
/// so that the touch continues and can report it.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if TOUCHING.get() {
        // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO, and fills in the
        // address for SIGBUS.
        let at = unsafe { (*info).si_addr() } as usize & !(PAGE - 1);
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
        );
        // SAFETY: only `touch` faults while TOUCHING is set, at words of its own mapping, so a page
        // of that mapping is replaced. mmap may be called from a handler.
        let page = unsafe { libc::mmap(at as *mut _, PAGE, access, flags, -1, 0) };
        if page != libc::MAP_FAILED {
            BUS_ERROR.set(true);
            return;
        }
    }
    // SAFETY: restores the default action: the same instruction faults again and ends the process.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// Installs `on_bus_error` as the handler of SIGBUS, at the first call only.
fn catch_bus_errors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zeroes are a valid sigaction: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            on_bus_error;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler only does what is allowed in a handler: mmap, signal, its thread's
        // own flags.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    });
}

/// The outcome of a touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// The page was read, with the expected value if one was given.
    Ok,
    /// Another value than the one expected.
    Differs,
    /// The page can't be read (SIGBUS).
    BusError,
}

/// The object that a [`Mapping`] maps.
#[derive(Debug, Clone, Copy)]
pub enum Of<'a> {
    /// Anonymous memory.
    Anon,
    /// A file from its start; true: private, copied when it is written.
    File(BorrowedFd<'a>, bool),
}

/// Mapped memory, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    at: *mut u8,
    pages: usize,
}

// SAFETY: the memory is only accessed through atomics, and unmapped once it has no owner any more.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `pages` pages of anonymous memory or of a file, for reading and writing; they are
    /// unmapped on drop.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn new(of: Of<'_>, pages: usize) -> io::Result<Self> {
        catch_bus_errors();
        let (flags, fd) = match of {
            Of::Anon => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
            Of::File(fd, true) => (libc::MAP_PRIVATE, fd.as_raw_fd()),
            Of::File(fd, false) => (libc::MAP_SHARED, fd.as_raw_fd()),
        };
        let len = pages
            .checked_mul(PAGE)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(null_mut(), len, access, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = at.cast();
        Ok(Self { at, pages })
    }

    /// Calls madvise(2) for the whole mapping.
    ///
    /// # Errors
    /// As madvise(2).
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Normal => libc::MADV_NORMAL,
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
        };
        // SAFETY: the advice changes no contents, and the memory is ours.
        done(unsafe { libc::madvise(self.at.cast(), self.pages * PAGE, advice) })
    }

    /// Accesses the first word of a page of the mapping once, so that the kernel may fault it in:
    /// stores `store`, or only reads. Returns whether the word was as expected (always if `expect`
    /// is `None`), or that the page can't be read. `store` is stored in any case.
    ///
    /// # Panics
    /// If the mapping has no such page.
    pub fn touch(&self, page: usize, expect: Option<u64>, store: Option<u64>) -> Touched {
        assert!(page < self.pages, "a program touches what it has mapped");
        // SAFETY: inside the mapping, page-aligned, and only accessed through atomics.
        let word = unsafe { AtomicU64::from_ptr(self.at.add(page * PAGE).cast()) };
        TOUCHING.set(true);
        compiler_fence(Ordering::SeqCst);
        // One access, and so one fault, in any case: the virtual world checks contents without an
        // access.
        let found = match store {
            Some(new) => word.swap(new, Ordering::Relaxed),
            None => word.load(Ordering::Relaxed),
        };
        compiler_fence(Ordering::SeqCst);
        TOUCHING.set(false);
        if BUS_ERROR.take() {
            Touched::BusError
        } else if expect.is_some_and(|e| e != found) {
            Touched::Differs
        } else {
            Touched::Ok
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` and no longer used.
        unsafe { libc::munmap(self.at.cast(), self.pages * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn windows_take_calls_of_any_length() {
        for (len, size) in [
            (0, PAGE),
            (1, PAGE),
            (PAGE + 1, 2 * PAGE),
            (1 << 20, 256 << 10),
            (1 << 30, 1 << 20),
        ] {
            assert_eq!(window_for(len), size);
            let all = parts(null_mut(), size, len);
            assert!(all.len() <= MOST_PARTS);
            assert_eq!(all.iter().map(|p| p.iov_len).sum::<usize>(), len);
        }
    }

    /// A page behind the end of its file gives SIGBUS; the touch reports it, and the next touch is
    /// not affected.
    #[test]
    fn a_bus_error_is_told_and_survived() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE as u64).unwrap();
        let map = Mapping::new(Of::File(file.as_fd(), false), 2).unwrap();
        assert_eq!(map.touch(0, Some(0), Some(7)), Touched::Ok);
        assert_eq!(map.touch(1, None, Some(1)), Touched::BusError);
        assert_eq!(map.touch(0, Some(7), None), Touched::Ok);
        assert_eq!(map.touch(0, Some(8), None), Touched::Differs);
    }
}
