//! The handle by which a program uses an open file.

use crate::ahead::{self, Advice, Ahead};
use crate::arena::Pinned;
use crate::error::Error;
use crate::errseq::Cursor;
use crate::file;
use crate::inner::Inner;
use crate::latency::{Kind, begin, sampled};
use crate::open_file::OpenFile;
use crate::page::{PageMut, PageRef};
use crate::page_size::PAGE;
use crate::storage::OpenOptions;
use crate::sync::now;
use rustix::io::Errno;
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// An open file of a [`crate::Cache`]. Dropping it closes it: dirty pages stay cached and are
/// written later, unless the file has no name any more.
pub struct File {
    pub(crate) inner: Arc<Inner>,
    pub(crate) file: Arc<OpenFile>,
    /// The position up to which this handle was told of the file's errors.
    pub(crate) told: Cursor,
    pub(crate) ahead: Ahead,
    /// How it was opened.
    pub(crate) how: OpenOptions,
}

impl File {
    /// Reads at `pos` into `buf`; returns the number of bytes the file had there, 0 at or behind
    /// its end.
    ///
    /// # Errors
    /// A page could not be read, there is no memory, or `pos` is beyond 16 TiB in a file that
    /// reaches there.
    pub fn read(&self, pos: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        self.reads()?;
        // A call that is sampled for timing is timed by its first page, if that is cached.
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

    /// Reads at `pos` into several buffers, one after the other; returns the number of bytes the
    /// file had there.
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

    /// Pins a page by its number, bytes `page * 4096` and on, to be read in place: without a copy,
    /// and without a lock if the page is cached. Bytes behind the file's end are zero.
    ///
    /// # Errors
    /// [`Error::BehindEnd`]: the file has no such page. [`Error::TooManyPins`]: no page can be
    /// reclaimed to read it into. [`Error::Io`]: the page cannot be read.
    #[inline]
    pub fn pin(&self, page: u32) -> Result<PageRef<'_>, Error> {
        self.reads()?;
        if sampled() {
            return self.pin_timed(page);
        }
        match self.pin_cached(page)? {
            Some(pinned) => Ok(pinned),
            None => self.pin_missing(page),
        }
    }

    /// Pins a page without a call of the engine, if it is cached and before the file's end; `None`:
    /// it is not.
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

    /// Pins a page that is not cached, after reading it, and records the access and its time.
    fn pin_missing(&self, page: u32) -> Result<PageRef<'_>, Error> {
        let (inner, mm, mapping) = (&self.inner, &self.inner.mm, self.file.mapping);
        let pin = || inner.timed(Kind::Miss, file::pin(mm, mapping, &self.ahead, page));
        let at = (mapping, u64::from(page));
        inner.recorder.around(mm, at, false, pin).map(PageRef)
    }

    /// Pins a page as `File::pin` does, for the sample of calls that are timed: if it is cached,
    /// records how long that took.
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

    /// Locks a page by its number, to be changed in place, and makes it dirty. The thread is
    /// throttled first if too many pages are dirty. Only [`File::write`] and [`File::truncate`]
    /// extend a file.
    ///
    /// # Errors
    /// As [`File::pin`], and [`Error::Refused`] because of earlier data.
    pub fn pin_mut(&self, page: u32) -> Result<PageMut<'_>, Error> {
        self.writes()?;
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let pin = || {
            let pin = file::pin_mut(mm, &self.file, &self.ahead, page);
            self.inner.timed(Kind::Write, pin)
        };
        let (recorder, at) = (&self.inner.recorder, (mapping, u64::from(page)));
        let (locked, share) = recorder.around(mm, at, true, pin)?;
        Ok(PageMut::new(mm, (mapping, page), locked, share))
    }

    /// Returns an error if the handle does not read, or if the cache cannot be used
    /// ([`Inner::usable`]).
    #[inline]
    pub(crate) fn reads(&self) -> Result<(), Error> {
        match self.how.read {
            true => self.inner.usable(),
            false => Err(Error::Io(Errno::BADF)),
        }
    }

    /// Returns an error if the handle does not write.
    pub(crate) fn writes(&self) -> Result<(), Error> {
        match self.how.write {
            true => Ok(()),
            false => Err(Error::Io(Errno::BADF)),
        }
    }

    /// Announces how a range of the file will be used, as `posix_fadvise(2)`; a length of 0 means
    /// up to the file's end.
    ///
    /// # Errors
    /// [`Error::Closed`]. If a page cannot be read now, the call that needs it returns the error.
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

    /// Starts to read the missing pages of a range, and does not wait for them; a length of 0 means
    /// up to the file's end. Returns how many pages it started to read: fewer than are missing if
    /// more than a sixteenth of memory would be on the way, or no memory could be had.
    ///
    /// # Errors
    /// [`Error::Closed`]. If a page cannot be read, the call that needs it returns the error.
    pub fn prefetch(&self, pos: u64, len: u64) -> Result<u64, Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(async {
            match file::page_range(mm, mapping, pos, len) {
                Some((first, last)) => Ok(ahead::prefetch(mm, mapping, first, last).await),
                None => Ok(0),
            }
        })
    }

    /// Drops the pages of a range that are clean, not pinned and not locked; a length of 0 means up
    /// to the file's end. Returns how many. Dirty pages stay: call [`File::flush`] first.
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

    /// Writes the dirty pages of a range to the system, and waits for that; a length of 0 means up
    /// to the file's end. The device need not have the data then: that takes [`File::fsync`].
    ///
    /// # Errors
    /// [`Error::Io`]: data of the file could not be written; it is kept, and [`File::fsync`] will
    /// report it.
    pub fn flush(&self, pos: u64, len: u64) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::flush(mm, mapping, pos, len))
    }

    /// Writes `buf` at `pos`. The thread is throttled while too many pages are dirty.
    ///
    /// # Errors
    /// There is no memory, a page that had to be read first could not be, the file would reach
    /// beyond 16 TiB, or [`Error::Refused`] because of earlier data. The bytes before the page that
    /// failed are written.
    pub fn write(&self, pos: u64, buf: &[u8]) -> Result<(), Error> {
        self.writes()?;
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

    /// Writes the dirty pages, and those that could not be written before, and waits until the
    /// device has them. `Ok` means that everything written to the file before is on its device,
    /// except for data that an [`Error::Lost`] was reported for.
    ///
    /// # Errors
    /// Errors since the last call for this handle, or since the file was opened: each is reported
    /// to a handle once. If a file is opened after an error that no handle was told of, the new
    /// handle is told. After [`Error::Io`] the data is still cached and the next call tries again;
    /// after [`Error::Lost`] the data written since the last call that succeeded must be written
    /// again.
    pub fn fsync(&self) -> Result<(), Error> {
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        let fsync = file::fsync(mm, mapping, &self.told);
        self.inner.timed(Kind::Fsync, fsync)
    }

    /// Truncates or extends the file to `len` bytes.
    ///
    /// # Errors
    /// The operating system's error; the file then has its old length.
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        self.writes()?;
        let (mm, mapping) = (&self.inner.mm, self.file.mapping);
        self.inner.call(file::truncate(mm, mapping, len))
    }

    /// Returns the file's length in bytes.
    pub fn size(&self) -> u64 {
        file::size(&self.inner.mm, self.file.mapping)
    }

    /// Takes the pages that are read or written from now on from a class of memory, or from a class
    /// below if that has none to spare. Holds for all handles of the file until the cache forgets
    /// it. Cached pages stay where they are. A file starts in class 0, the general one.
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

    /// Returns the file's mapping number in the engine.
    pub fn mapping(&self) -> u32 {
        self.file.mapping
    }

    /// Makes the file's writes fail with EIO from now on, or work again; for tests.
    #[doc(hidden)]
    pub fn fail_writes(&self, fail: bool) {
        self.file.fail_writes(fail);
    }
}

impl Drop for File {
    /// Closes the handle. If it was the last one of a file without a name, drops the file's pages:
    /// no call can reach them any more.
    fn drop(&mut self) {
        if !self.inner.born.elsewhere() {
            self.inner.close_file(&self.file);
        }
    }
}
