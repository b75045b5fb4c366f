//! The results of calls: a number, and a message for an error.

use lowmark_cache::Error;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Data that was written since the last sync that succeeded may be lost: write it again.
pub const LOWMARK_CACHE_LOST: c_int = -5001;
/// Earlier data could not be written: writes are refused until a sync of that data succeeds.
pub const LOWMARK_CACHE_REFUSED: c_int = -5002;
/// There is no memory because pages are pinned or used by buffers: unpin or free some.
pub const LOWMARK_CACHE_PINNED: c_int = -5003;
/// A bug of this library. The state of the cache is unknown: free its handles.
pub const LOWMARK_CACHE_BUG: c_int = -5004;

/// An error of a call: its code and its message.
pub(crate) struct Wrong {
    pub code: c_int,
    pub message: String,
}

impl Wrong {
    /// Creates an error with an errno as in `errno.h`; the code is its negative.
    pub fn new(errno: c_int, message: impl Into<String>) -> Self {
        Self {
            code: -errno,
            message: message.into(),
        }
    }
}

impl From<Error> for Wrong {
    /// Converts an error of the cache into the code that a C program gets, a negative errno or one
    /// of our own, and its message.
    fn from(e: Error) -> Self {
        let code = match &e {
            Error::Io(errno) => -errno.raw_os_error(),
            Error::Lost(_) => LOWMARK_CACHE_LOST,
            Error::Refused(_) => LOWMARK_CACHE_REFUSED,
            Error::OutOfMemory => -libc::ENOMEM,
            Error::TooManyPins { .. } => LOWMARK_CACHE_PINNED,
            Error::BehindEnd => -libc::ENXIO,
            Error::TooLarge => -libc::EFBIG,
            Error::NotRegular(_) => -libc::ENODEV,
            Error::TooManyFiles => -libc::EMFILE,
            Error::TooManyThreads => -libc::EAGAIN,
            Error::Closed => -libc::ESHUTDOWN,
            Error::Config(_) | Error::NoClass { .. } | Error::BufferSize(_) => -libc::EINVAL,
            Error::TooManyShrinkers => -libc::ENOSPC,
            Error::InShrinker => -libc::EDEADLK,
            Error::InUse | Error::Held => -libc::EBUSY,
            Error::Forked => -libc::ECHILD,
        };
        Self {
            code,
            message: e.to_string(),
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Converts a text for C; a zero byte and all that follows it is cut off.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).expect("it was cut at its first zero")
}

/// Runs `work` and returns its result or a negative error code, whose message it keeps for
/// [`lowmark_cache_message`].
pub(crate) fn amount(work: impl FnOnce() -> Result<i64, Wrong>) -> i64 {
    let wrong = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(n)) => return n,
        Ok(Err(wrong)) => wrong,
        Err(payload) => Wrong {
            code: LOWMARK_CACHE_BUG,
            message: format!("a bug in the cache: {}", panicked(payload.as_ref())),
        },
    };
    // A thread that is ending has lost its thread-locals, so the message is dropped.
    let _ = MESSAGE.try_with(|m| *m.borrow_mut() = c_text(&wrong.message));
    i64::from(wrong.code)
}

/// Does what [`amount`] does, for work without a result: returns 0 or an error code.
pub(crate) fn answer(work: impl FnOnce() -> Result<(), Wrong>) -> c_int {
    amount(|| work().map(|()| 0)) as c_int
}

/// Returns the message of a panic from its payload.
fn panicked(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref().copied())
        .unwrap_or("it panicked")
}

/// Returns the error message of this thread's last call that failed; an empty text if none did. The
/// text stays valid until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn lowmark_cache_message() -> *const c_char {
    const NOTHING: &CStr = c"";
    let message = MESSAGE.try_with(|m| m.borrow().as_ptr());
    message.unwrap_or(NOTHING.as_ptr())
}
