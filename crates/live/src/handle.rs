//! An open file as a program calls it.

use crate::ahead::{self, Advice, Ahead};
use crate::arena::{PAGE, Pinned};
use crate::cache::Inner;
use crate::errseq::Cursor;
use crate::file::{self, Error};
use crate::latency::{Kind, begin, sampled};
use crate::open_file::OpenFile;
use crate::page::{PageMut, PageRef};
use crate::sync::now;
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// An open file of a [`crate::Cache`]. Dropping it closes it: what is dirty stays cached and is written
/// later, unless the file has no name any more.
pub struct File {
    pub(crate) inner: Arc<Inner>,
    pub(crate) file: Arc<OpenFile>,
    /// Which errors of the file this handle was told of.
    pub(crate) told: Cursor,
    pub(crate) ahead: Ahead,
}

impl File {
    /// Reads at `pos` into `buf`; returns how many bytes the file had there, 0 behind its end.
    ///
    /// # Errors
    /// A read that failed, no memory, or a place beyond 16 TiB in a file that reaches there.
    pub fn read(&self, pos: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        self.open()?;
        // Of a call that is timed, the first page is, if it is there.
        let begun = Cell::new(sampled().then(begin));
        let missing = |at, behind, buf: &mut [u8]| {
            begun.set(None);
            let since = now();
            let read = file::read_page(mm, mapping, &self.ahead, (at, behind), buf);
            let page = (mapping, at / PAGE as u64);
            let read = || inner.call(read);
            let n = inner.recorder.around(mm, page, false, read)?;
            if n > 0 {
                mm.world.clocks.since(Kind::Miss, since);
            }
            Ok(n)
        };
        file::read(mm, mapping, pos, buf, missing, |page| {
            inner.recorder.hit(mapping, mm.frames.index(page.pfn()));
            inner.mark(page)?;
            if let Some(begun) = begun.take() {
                mm.world.clocks.since(Kind::Hit, begun);
            }
            Ok(())
        })
    }

    /// Reads at `pos` into several buffers, one after the other; returns how many bytes the file had
    /// there.
    ///
    /// # Errors
    /// As [`File::read`].
    pub fn read_vectored(&self, pos: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Error> {
        let mut done = 0;
        for buf in bufs {
            let n = self.read(pos.saturating_add(done as u64), buf)?;
            done += n;
            if n < buf.len() {
                break;
            }
        }
        Ok(done)
    }

    /// The page with a number, bytes `page * 4096` and on, where it lies: no copy, and if it is cached
    /// no lock. What lies behind the file's end is zero.
    ///
    /// # Errors
    /// [`Error::BehindEnd`]: the file has no such page. [`Error::TooManyPins`]: nothing is left to
    /// read it into. A read that failed.
    #[inline]
    pub fn pin(&self, page: u32) -> Result<PageRef<'_>, Error> {
        self.open()?;
        if sampled() {
            return self.pin_timed(page);
        }
        match self.pin_cached(page)? {
            Some(pinned) => Ok(pinned),
            None => self.pin_missing(page),
        }
    }

    /// The page, if it is cached.
    #[inline(always)]
    fn pin_cached(&self, page: u32) -> Result<Option<PageRef<'_>>, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        if let Some(pinned) = Pinned::try_take(mm, mapping, page)
            && file::pages_of(file::size(mm, mapping)) > page
        {
            inner.recorder.hit(mapping, page);
            inner.mark(&pinned)?;
            return Ok(Some(PageRef(pinned)));
        }
        Ok(None)
    }

    fn pin_missing(&self, page: u32) -> Result<PageRef<'_>, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        let pin = || inner.timed(Kind::Miss, file::pin(mm, mapping, &self.ahead, page));
        let at = (mapping, u64::from(page));
        inner.recorder.around(mm, at, false, pin).map(PageRef)
    }

    /// The look-up that is timed if the page is cached.
    #[cold]
    #[inline(never)]
    fn pin_timed(&self, page: u32) -> Result<PageRef<'_>, Error> {
        let begun = begin();
        match self.pin_cached(page)? {
            Some(pinned) => {
                self.inner.mm.world.clocks.since(Kind::Hit, begun);
                Ok(pinned)
            }
            None => self.pin_missing(page),
        }
    }

    /// The page with a number to change where it lies. It is dirty from now on; the thread is held
    /// back before if too much is. A file grows by [`File::write`] and [`File::truncate`] only.
    ///
    /// # Errors
    /// As [`File::pin`], and [`Error::Refused`] because of earlier data.
    pub fn pin_mut(&self, page: u32) -> Result<PageMut<'_>, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let pin = || {
            let pin = file::pin_mut(mm, &self.file, &self.ahead, page);
            self.inner.timed(Kind::Write, pin)
        };
        let (recorder, at) = (&self.inner.recorder, (mapping, u64::from(page)));
        let (locked, share) = recorder.around(mm, at, true, pin)?;
        Ok(PageMut::new(mm, (mapping, page), locked, share))
    }

    #[inline]
    pub(crate) fn open(&self) -> Result<(), Error> {
        match self.inner.ended.load(SeqCst) {
            false => Ok(()),
            true => Err(Error::Closed),
        }
    }

    /// Says how a range of the file will be used, as `posix_fadvise(2)`; a length of 0 means up to its
    /// end.
    ///
    /// # Errors
    /// [`Error::Closed`]. What cannot be read now is told to who reads it.
    pub fn advise(&self, pos: u64, len: u64, advice: Advice) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.ahead.advise(advice);
        self.inner.call(async {
            match (advice, file::page_range(mm, mapping, pos, len)) {
                (Advice::WillNeed, Some((first, last))) => {
                    ahead::will_need(mm, mapping, first, last).await;
                }
                (Advice::DontNeed, Some(pages)) => {
                    file::drop_pages(mm, mapping, pages).await;
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Begins to read what is missing of a range, and does not wait for it; a length of 0 means up to the
    /// file's end. Returns how many pages it began to read: fewer than are missing if more than a
    /// sixteenth of memory would be on the way, or none could be had.
    ///
    /// # Errors
    /// [`Error::Closed`]. What cannot be read is told to who reads it.
    pub fn prefetch(&self, pos: u64, len: u64) -> Result<u64, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(async {
            match file::page_range(mm, mapping, pos, len) {
                Some((first, last)) => Ok(ahead::prefetch(mm, mapping, first, last).await),
                None => Ok(0),
            }
        })
    }

    /// Lets the pages of a range go that are clean and that nobody holds; a length of 0 means up to the
    /// file's end. Returns how many pages went. What is dirty stays: [`File::flush`] it first.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn drop_cache(&self, pos: u64, len: u64) -> Result<u64, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(async {
            match file::page_range(mm, mapping, pos, len) {
                Some(pages) => Ok(file::drop_pages(mm, mapping, pages).await),
                None => Ok(0),
            }
        })
    }

    /// Hands what is dirty of a range to the system, and waits for that; a length of 0 means up to the
    /// file's end. The device need not have it then: that is [`File::fsync`]'s.
    ///
    /// # Errors
    /// [`Error::Io`]: data of the file could not be written; it is kept, and [`File::fsync`] will tell.
    pub fn flush(&self, pos: u64, len: u64) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::flush(mm, mapping, pos, len))
    }

    /// Writes `buf` at `pos`. The thread is held back while too much is dirty.
    ///
    /// # Errors
    /// No memory, a page that had to be read first and could not, a file beyond 16 TiB, or
    /// [`Error::Refused`] because of earlier data. What lies before the page that failed is written.
    pub fn write(&self, pos: u64, buf: &[u8]) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let write = || {
            let write = file::write(mm, mapping, pos, buf);
            self.inner.timed(Kind::Write, write)
        };
        let (recorder, range) = (&self.inner.recorder, (pos, buf.len()));
        recorder.around_write(mm, mapping, range, write)
    }

    /// Writes several buffers at `pos`, one after the other.
    ///
    /// # Errors
    /// As [`File::write`].
    pub fn write_vectored(&self, pos: u64, bufs: &[IoSlice<'_>]) -> Result<(), Error> {
        let mut at = pos;
        for buf in bufs {
            self.write(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// Writes what is dirty, and what could not be written before, and waits until the device has
    /// it. `Ok` means that everything which was written to the file before is on its device, but
    /// for what an [`Error::Lost`] was told of.
    ///
    /// # Errors
    /// What went wrong since the last call for this handle, or since the file was opened: each
    /// handle is told once. A file that is opened after an error which nobody was told of is told,
    /// too. After [`Error::Io`] the data is still cached and the next call tries again; after
    /// [`Error::Lost`] what was written since the last call that succeeded must be written again.
    pub fn fsync(&self) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let fsync = file::fsync(mm, mapping, &self.told);
        self.inner.timed(Kind::Fsync, fsync)
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// What the operating system says; the file is then as long as it was.
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::truncate(mm, mapping, len))
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        file::size(&self.inner.mm, self.file.mapping)
    }

    /// Has the pages of the file that come in from now on taken from a class of memory, or from those
    /// below it if that has none to spare; it holds for all handles of the file until it is forgotten. Pages
    /// that are cached stay where they are. At first that is class 0, the general one.
    ///
    /// # Errors
    /// [`Error::NoClass`].
    pub fn set_class(&self, class: usize) -> Result<(), Error> {
        let classes = self.inner.mm.zones.len();
        if class >= classes {
            return Err(Error::NoClass { class, classes });
        }
        self.file.class.store(class as u32, SeqCst);
        Ok(())
    }

    /// Its number in the engine.
    pub fn mapping(&self) -> u32 {
        self.file.mapping
    }

    /// Lets the file's writes fail with EIO from now on, or work again; for tests.
    #[doc(hidden)]
    pub fn fail_writes(&self, fail: bool) {
        self.file.fail_writes(fail);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let inner = &self.inner;
        let closed = inner.closed.read();
        let mut table = inner.table.lock();
        // Nobody will find a file without a name again: its pages and its blocks come free now. If
        // the thread has no number, whoever needs the file's will do it.
        if table.close(self.file.mapping) && !*closed && !self.file.has_name() {
            let _ = inner.forget(&mut table, &self.file);
        }
    }
}
