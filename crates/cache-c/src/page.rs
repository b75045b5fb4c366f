//! Pages of a file, pinned for as long as a C program wants them.

use crate::answer::{Wrong, answer};
use crate::borrowed::{make, thing};
use crate::file::{File, Open};
use crate::give_back;
use lowmark_cache::{PageMut, PageRef};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// What holds a page.
enum Guard {
    Read(PageRef<'static>),
    Write(PageMut<'static>),
}

/// A page of a file that stays in memory until it is let go.
pub struct Page {
    // Dropped in this order: the guard borrows from the file.
    guard: Option<Guard>,
    open: Arc<Open>,
}

// A thread may let go of what another has pinned.
const _: () = {
    const fn sent<T: Send>() {}
    sent::<Page>();
};

impl Page {
    fn read(open: &Arc<Open>, number: u32) -> Result<Self, Wrong> {
        let guard = open.file.pin(number)?;
        // SAFETY: the guard borrows from `open.file`, which stays where it is as long as somebody holds its `Arc`: the
        // page does, and lets go of the guard first (`Drop`, and the order of its fields). Nobody takes the guard out.
        let guard = unsafe { transmute::<PageRef<'_>, PageRef<'static>>(guard) };
        Ok(Self {
            guard: Some(Guard::Read(guard)),
            open: Arc::clone(open),
        })
    }

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

    /// Where its bytes are.
    fn bytes(&mut self) -> *mut c_void {
        match self.guard.as_mut() {
            Some(Guard::Read(page)) => page.as_ptr().cast_mut().cast(),
            Some(Guard::Write(page)) => page.as_mut_ptr().cast(),
            None => ptr::null_mut(),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(Guard::Write(page)) = self.guard.take() {
            drop(page);
            self.open.shared.writing.fetch_sub(1, SeqCst);
        }
    }
}

/// Pins a page by a way and says where its bytes are.
///
/// # Safety
/// `file` is one or NULL; `page` and `bytes` take a pointer or are NULL.
unsafe fn pin(
    file: *const File,
    page: *mut *mut Page,
    bytes: *mut *mut c_void,
    how: impl FnOnce(&Arc<Open>) -> Result<Page, Wrong>,
) -> Result<(), Wrong> {
    let at = || {
        // SAFETY: as promised.
        let open = unsafe { &thing("file", file)?.0 };
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

/// Pins a page for reading: its 4096 bytes are at `*bytes` and stay as they are until `lowmark_cache_unpin`; what lies
/// behind the file's end is zero. Pages count from 0. A page may be pinned more than once. `*page` is the caller's, and
/// NULL if it fails.
///
/// Who writes the page, or cuts the file in front of it, waits until it is let go; a thread that does so with a page of
/// its own waits for ever.
///
/// # Safety
/// `file` is one or NULL; `page` and `bytes` take a pointer. Nobody writes the bytes, and nobody reads them once the
/// page is let go.
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

/// Pins a page for writing: nobody else reads, writes or syncs it until `lowmark_cache_unpin`. It is dirty from now on;
/// the thread is held back before if too much is. What is written behind the file's end is zero afterwards; a file grows
/// by `lowmark_cache_write` and `lowmark_cache_truncate` only. `*page` is the caller's, and NULL if it fails.
///
/// A thread that pins, reads, writes or syncs a page that it has pinned for writing waits for ever.
///
/// # Safety
/// `file` is one or NULL; `page` and `bytes` take a pointer. Nobody uses the bytes once the page is let go.
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

/// Lets a page go; NULL is nothing.
///
/// # Safety
/// It came from `lowmark_cache_pin` or `lowmark_cache_pin_write`, was not given back, and nobody uses its bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lowmark_cache_unpin(page: *mut Page) {
    // SAFETY: as promised.
    unsafe { give_back(page) };
}
