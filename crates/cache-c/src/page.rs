//! Pinned pages of files in the C interface.

use crate::answer::{Wrong, answer};
use crate::borrowed::{deref, make};
use crate::file::{File, Open};
use crate::give_back;
use lowmark_cache::{PageMut, PageRef};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The pin or lock of a page.
enum Guard {
    Read(PageRef<'static>),
    Write(PageMut<'static>),
}

/// A page of a file that stays in memory until it is unpinned.
pub struct Page {
    // Fields are dropped in this order: the guard borrows from the file.
    guard: Option<Guard>,
    open: Arc<Open>,
}

// A thread may unpin a page that another has pinned.
const _: () = {
    const fn sent<T: Send>() {}
    sent::<Page>();
};

impl Page {
    /// Pins page `number` of a file for reading; the result keeps the file open.
    fn read(open: &Arc<Open>, number: u32) -> Result<Self, Wrong> {
        let guard = open.file.pin(number)?;
        // SAFETY: the guard borrows from `open.file`, which stays in place while its `Arc` has an
        // owner: this page has one, and drops the guard first (`Drop`, and the order of its
        // fields). The guard is never moved out.
        let guard = unsafe { transmute::<PageRef<'_>, PageRef<'static>>(guard) };
        Ok(Self {
            guard: Some(Guard::Read(guard)),
            open: Arc::clone(open),
        })
    }

    /// Locks page `number` of a file for writing, and counts the lock in the cache, which refuses a
    /// shutdown while there is one.
    fn write(open: &Arc<Open>, number: u32) -> Result<Self, Wrong> {
        let guard = open.file.pin_mut(number)?;
        // SAFETY: as in `read`.
        let guard = unsafe { transmute::<PageMut<'_>, PageMut<'static>>(guard) };
        open.shared.writing.fetch_add(1, SeqCst);
        Ok(Self {
            guard: Some(Guard::Write(guard)),
            open: Arc::clone(open),
        })
    }

    /// Returns the address of the page's bytes; NULL if it is unpinned.
    fn bytes(&mut self) -> *mut c_void {
        match self.guard.as_mut() {
            Some(Guard::Read(page)) => page.as_ptr().cast_mut().cast(),
            Some(Guard::Write(page)) => page.as_mut_ptr().cast(),
            None => ptr::null_mut(),
        }
    }
}

impl Drop for Page {
    /// Releases the lock of a page that was pinned for writing, then counts it out.
    fn drop(&mut self) {
        if let Some(Guard::Write(page)) = self.guard.take() {
            drop(page);
            self.open.shared.writing.fetch_sub(1, SeqCst);
        }
    }
}

/// Pins a page by `how` (for reading or writing) for a C program, and writes its handle and the
/// address of its bytes to `*page` and `*bytes`.
///
/// # Safety
/// `file` is NULL or a valid handle; `page` and `bytes` are NULL or valid for writing a pointer.
unsafe fn pin(
    file: *const File,
    page: *mut *mut Page,
    bytes: *mut *mut c_void,
    how: impl FnOnce(&Arc<Open>) -> Result<Page, Wrong>,
) -> Result<(), Wrong> {
    let at = || {
        // SAFETY: as promised.
        let open = unsafe { &deref("file", file)?.0 };
        let mut pinned = None;
        let place = || {
            let page = pinned.insert(Box::new(how(open)?));
            Ok(page.bytes())
        };
        // SAFETY: as promised; a pointer of zeros is NULL.
        unsafe { make("bytes", bytes, place)? };
        Ok(pinned.map_or(ptr::null_mut(), Box::into_raw))
    };
    // SAFETY: as promised; a pointer of zeros is NULL.
    unsafe { make("page", page, at) }
}

/// Pins a page for reading: its 4096 bytes are at `*bytes` and do not change until
/// `lowmark_cache_unpin`; bytes behind the file's end are zero. Pages count from 0. A page may be
/// pinned more than once. `*page` belongs to the caller, and is NULL if the call fails.
///
/// A write to the page, or a truncation before it, waits until the page is unpinned; a thread that
/// does so while it has the page pinned itself waits for ever.
///
/// # Safety
/// `file` is NULL or a valid handle; `page` and `bytes` are NULL or valid for writing a pointer.
/// The bytes are not written, and not read after the page is unpinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_pin(
    file: *const File,
    number: u32,
    page: *mut *mut Page,
    bytes: *mut *const c_void,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { pin(file, page, bytes.cast(), |open| Page::read(open, number)) })
}

/// Pins a page for writing: no other thread reads, writes or syncs it until `lowmark_cache_unpin`.
/// The page is dirty from now on; the thread is throttled first if too many pages are dirty. Bytes
/// written behind the file's end are zeroed afterwards; only `lowmark_cache_write` and
/// `lowmark_cache_truncate` extend a file. `*page` belongs to the caller, and is NULL if the call
/// fails.
///
/// A thread that pins, reads, writes or syncs a page that it has pinned for writing waits for ever.
///
/// # Safety
/// `file` is NULL or a valid handle; `page` and `bytes` are NULL or valid for writing a pointer.
/// The bytes are not used after the page is unpinned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_pin_write(
    file: *const File,
    number: u32,
    page: *mut *mut Page,
    bytes: *mut *mut c_void,
) -> c_int {
    // SAFETY: as promised.
    answer(|| unsafe { pin(file, page, bytes, |open| Page::write(open, number)) })
}

/// Unpins a page; NULL is allowed.
///
/// # Safety
/// `page` is NULL, or came from `lowmark_cache_pin` or `lowmark_cache_pin_write`, was not unpinned,
/// and its bytes are not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_unpin(page: *mut Page) {
    // SAFETY: as promised.
    unsafe { give_back(page) };
}
