//! File handles for programs that use futures, on any executor.
//!
//! A read of cached bytes is done in the first poll of its future: no lock, no allocation, no other
//! thread. Everything else is a [`Call`] of the cache (`runner`): it begins on the polling thread,
//! and once it has to wait, the runner's threads continue it, whether or not the future is polled.
//! So a future that is dropped, or not polled for a long time, blocks nothing; its buffer belongs
//! to the call until the call ends.
//!
//! [`Call`]: crate::runner::Call

use crate::LiveMm;
use crate::admission::Room;
use crate::ahead::{self, Advice};
use crate::arena::{Keeper, Kept, Pinned};
use crate::cpu;
use crate::error::Error;
use crate::file;
use crate::handle::File;
use crate::inner;
use crate::latency::{Kind, begin, sampled};
use crate::page::PageMut;
use crate::page_size::PAGE;
use crate::record::Begun;
use crate::runner::{Begin, Call, Life, Outcome};
use crate::sync::now;
use crate::wait::Answer;
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::time::Instant;

/// An open file, kept open as long as a handle, a call or a page needs it. `None`: closed.
struct Open(Option<File>);

impl Deref for Open {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("an open file")
    }
}

impl Open {
    /// Closes the file on a thread of its device, because closing may block, and then calls `then`.
    fn close(&mut self, then: impl FnOnce() + Send + 'static) {
        if let Some(file) = self.0.take() {
            let (inner, bdi) = (Arc::clone(&file.inner), file.file.bdi);
            if inner.born.elsewhere() {
                // A child of the process: the threads of the cache are not here.
                drop(file);
                return then();
            }
            let owner = Arc::clone(&inner);
            let close = Box::new(move || {
                // A thread of the cache must not keep a task number that is meant for the
                // program's threads.
                let runner = &owner.calls.runner;
                runner.spare(|task| inner::lend(task, || drop(file)));
                then();
            });
            if let Err(close) = inner.mm.world.blocking.put(bdi, close) {
                close();
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close(|| {});
    }
}

impl Keeper for Arc<Open> {
    fn mm(&self) -> &LiveMm {
        &self.inner.mm
    }
}

/// A page of a file to read in place, like [`crate::PageRef`], but one that keeps its file open
/// ([`AsyncFile::pin`]).
pub struct PageOwned(Kept<Arc<Open>>);

impl Deref for PageOwned {
    type Target = [u8; PAGE];

    /// Returns the page's bytes.
    fn deref(&self) -> &[u8; PAGE] {
        self.0.bytes()
    }
}

impl fmt::Debug for PageOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageOwned")
    }
}

/// An open file of a [`crate::Cache`] whose calls are futures, for any executor: they need no
/// runtime, and are `Send` and `'static`. Clones are the same handle. The file is closed by a
/// thread of the cache, when the last clone is dropped and no call or page needs the file.
///
/// A future does nothing before it is polled. It takes its buffers and returns them with the
/// result. If a future is dropped before its turn has come ([`crate::Config::async_calls`]),
/// nothing has been done; a call that has begun runs to its end, and its buffers are dropped then.
/// When the cache is shut down, calls under way end as usual; calls not begun yet fail with
/// [`Error::Closed`], and so do writes that wait for a pinned page.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("async-doc-{}", std::process::id()));
/// # use std::pin::pin;
/// # use std::task::{Context, Poll, Wake, Waker};
/// // A minimal executor.
/// struct Thread(std::thread::Thread);
/// impl Wake for Thread {
///     fn wake(self: std::sync::Arc<Self>) {
///         self.0.unpark();
///     }
/// }
/// fn block_on<T>(future: impl Future<Output = T>) -> T {
///     let waker = Waker::from(std::sync::Arc::new(Thread(std::thread::current())));
///     let mut future = pin!(future);
///     loop {
///         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
///             Poll::Ready(value) => return value,
///             Poll::Pending => std::thread::park(),
///         }
///     }
/// }
///
/// let config = lowmark_cache::Config { memory: 8 << 20, ..Default::default() };
/// let cache = lowmark_cache::Cache::new(config)?;
/// let file = cache.open(&path)?.into_async()?;
/// block_on(async {
///     let (result, mut buf) = file.write(0, b"hello, page".to_vec()).await;
///     result?;
///     buf.truncate(5);
///     let (n, buf) = file.read(7, buf).await;
///     assert_eq!((n?, &buf[..4]), (4, &b"page"[..]));
///     assert_eq!(&file.pin(0).await?[..5], b"hello");
///     file.fsync().await
/// })?;
/// assert!(cache.shutdown().is_clean());
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), lowmark_cache::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncFile(Arc<Open>);

impl fmt::Debug for AsyncFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncFile")
    }
}

impl File {
    /// Turns the handle into one whose calls are futures. The first such handle of a cache starts
    /// [`crate::Config::async_threads`] threads, and the first on a device one more.
    ///
    /// # Errors
    /// [`Error::Config`]: a thread cannot be started. [`Error::Closed`]: the cache was shut down.
    pub fn into_async(self) -> Result<AsyncFile, Error> {
        self.inner.usable()?;
        self.inner.calls.start(&self.inner, self.file.bdi)?;
        Ok(AsyncFile(Arc::new(Open(Some(self)))))
    }
}

/// The kind of a call: one that only reads never waits for a pin to be dropped; the others may.
#[derive(Clone, Copy)]
enum Lane {
    Reads = 0,
    Others = 1,
}

/// How a call is timed and recorded.
#[derive(Clone, Copy)]
enum Seen {
    Nothing,
    /// A read or write of bytes: position and length.
    Read(u64, usize),
    Write(u64, usize),
    Sync,
    /// A truncation, which is not timed.
    Cut,
}

impl Seen {
    /// Returns the histogram in which the call's time is recorded; `None`: it is not timed.
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Nothing | Self::Cut => None,
            Self::Read(..) => Some(Kind::Miss),
            Self::Write(..) => Some(Kind::Write),
            Self::Sync => Some(Kind::Fsync),
        }
    }

    /// Starts to record the call's pages, if a recording of accesses runs. `None`: nothing to end
    /// later.
    fn begin(self, file: &Open) -> Option<Begun> {
        let (range, write) = match self {
            Self::Nothing | Self::Sync | Self::Cut => return None,
            Self::Read(pos, len) => ((pos, len), false),
            Self::Write(pos, len) => ((pos, len), true),
        };
        let inner = &file.inner;
        inner
            .recorder
            .begin(&inner.mm, file.file.mapping, range, write)
    }
}

/// Returns the record of a read of one whole page.
fn page_read(page: u32) -> Seen {
    Seen::Read(u64::from(page) * PAGE as u64, PAGE)
}

/// The result of a call, and the buffers that it was given.
type Done<T, A> = (Result<T, Error>, A);

/// A call before its turn.
struct Waiting<T, A, F> {
    given: A,
    go: F,
    seen: Seen,
    asked: Instant,
    file: Arc<Open>,
    outcome: Arc<Outcome<Done<T, A>>>,
}

impl<T, A, F, L> Begin for Waiting<T, A, F>
where
    T: Send + 'static,
    A: Send + 'static,
    F: FnOnce(Arc<Open>, A) -> L + Send + 'static,
    L: Future<Output = Done<T, A>> + Send + 'static,
{
    /// Begins the call: returns the future that runs it as a task, records its time and sets its
    /// outcome.
    fn begin(self: Box<Self>) -> Life {
        let this = *self;
        Box::pin(async move {
            let (file, outcome) = (Arc::clone(&this.file), this.outcome);
            this.file.inner.mm.init_task(cpu::task(), 0, 0);
            let begun = this.seen.begin(&file);
            let (result, given) = (this.go)(this.file, this.given).await;
            let result = result.map_err(|e| file.inner.explain(e));
            if let (Ok(_), Some(kind)) = (&result, this.seen.kind()) {
                file.inner.recorder.end(begun);
                file.inner.mm.world.clocks.since(kind, this.asked);
            }
            outcome.set((result, given));
        })
    }

    fn refuse(self: Box<Self>) {
        self.outcome.set((Err(Error::Closed), self.given));
    }
}

/// A future's share of its call. Dropping it cancels a call that has not begun.
struct Asked<T: Send> {
    call: Arc<Call>,
    outcome: Arc<Outcome<T>>,
}

/// Abandons the result, and cancels the call if it has not begun.
impl<T: Send> Drop for Asked<T> {
    fn drop(&mut self) {
        self.outcome.abandon();
        self.call.cancel();
    }
}

impl AsyncFile {
    /// Runs `go` as a task of the cache on `given` (the call's buffers), and waits for its result
    /// and the buffers. `lane`: the queue of its device; `seen`: how it is timed. If the returned
    /// future is dropped, a call that has begun continues.
    async fn call<T, A, L>(
        file: Arc<Open>,
        (lane, seen): (Lane, Seen),
        given: A,
        go: impl FnOnce(Arc<Open>, A) -> L + Send + 'static,
    ) -> Done<T, A>
    where
        T: Send + 'static,
        A: Send + 'static,
        L: Future<Output = Done<T, A>> + Send + 'static,
    {
        let changes = matches!(seen, Seen::Write(..) | Seen::Cut);
        let may = match changes {
            true => file.writes(),
            false => Ok(()),
        };
        if let Err(e) = may.and_then(|()| file.inner.alive()) {
            return (Err(e), given);
        }
        let asked = {
            let outcome = Arc::new(Outcome::default());
            let told = Arc::clone(&outcome);
            let runner = &file.inner.calls.runner;
            let lane = file.file.bdi as usize * 2 + lane as usize;
            let begin = Box::new(Waiting {
                given,
                go,
                seen,
                asked: now(),
                file: Arc::clone(&file),
                outcome: Arc::clone(&outcome),
            });
            let call = runner.submit(&file.inner.mm.world.cpus, lane, begin, told);
            Asked { call, outcome }
        };
        drop(file);
        poll_fn(|context| asked.outcome.poll(context)).await
    }

    /// Copies the cached bytes of a range, at most [`AT_HAND`] of them, without a call. `Break(n)`:
    /// `n` bytes, and the read is complete. `Continue(n)`: `n` bytes, then a page is missing or
    /// [`AT_HAND`] is reached.
    fn at_hand(file: &Open, pos: u64, buf: &mut [u8]) -> Result<ControlFlow<usize, usize>, Error> {
        file.reads()?;
        let (mm, mut missed) = (&file.inner.mm, false);
        let most = buf.len().min(AT_HAND);
        let missing = |_, _, _: &mut [u8]| {
            missed = true;
            Ok(0)
        };
        // A read that is sampled for timing is timed by its first page.
        let begun = Cell::new(sampled().then(begin));
        let mark = |page: &Pinned<'_>| {
            file.inner
                .recorder
                .hit(file.file.mapping, mm.frames.index(page.pfn()));
            file.inner.calls.mark(mm, page);
            if let Some(begun) = begun.take() {
                mm.world.clocks.since(Kind::Hit, begun);
            }
            Ok(())
        };
        let n = file::read(mm, file.file.mapping, pos, &mut buf[..most], missing, mark)?;
        Ok(match missed || n == most && most < buf.len() {
            true => ControlFlow::Continue(n),
            false => ControlFlow::Break(n),
        })
    }

    /// Reads at `pos` into `buf`; resolves to the number of bytes the file had there, 0 at or
    /// behind its end.
    ///
    /// # Errors
    /// As [`File::read`], and [`Error::Closed`].
    pub fn read<B: AsMut<[u8]> + Send + 'static>(
        &self,
        pos: u64,
        mut buf: B,
    ) -> impl Future<Output = (Result<usize, Error>, B)> + Send + 'static + use<B> {
        let file = Arc::clone(&self.0);
        async move {
            let done = match Self::at_hand(&file, pos, buf.as_mut()) {
                Err(e) => return (Err(e), buf),
                Ok(ControlFlow::Break(n)) => return (Ok(n), buf),
                Ok(ControlFlow::Continue(done)) => done,
            };
            let rest = buf.as_mut().len() - done;
            let seen = Seen::Read(pos.saturating_add(done as u64), rest);
            let go = move |file: Arc<Open>, mut buf: B| async move {
                let (mm, mapping) = (&file.inner.mm, file.file.mapping);
                let read = file::read_on(mm, mapping, &file.ahead, (pos, done), buf.as_mut());
                (read.await, buf)
            };
            Self::call(file, (Lane::Reads, seen), buf, go).await
        }
    }

    /// Reads at `pos` into several buffers, one after the other; resolves to the number of bytes
    /// the file had there.
    ///
    /// # Errors
    /// As [`AsyncFile::read`].
    pub fn read_vectored<B: AsMut<[u8]> + Send + 'static>(
        &self,
        pos: u64,
        mut bufs: Vec<B>,
    ) -> impl Future<Output = (Result<usize, Error>, Vec<B>)> + Send + 'static + use<B> {
        let file = Arc::clone(&self.0);
        async move {
            let mut total = 0;
            let mut at_hand = 0;
            // First the leading buffers that are cached as a whole; the call reads the rest.
            for buf in &mut bufs {
                let buf = buf.as_mut();
                match Self::at_hand(&file, pos.saturating_add(total as u64), buf) {
                    Err(e) => return (Err(e), bufs),
                    Ok(ControlFlow::Continue(_)) => break,
                    Ok(ControlFlow::Break(n)) if n < buf.len() => return (Ok(total + n), bufs),
                    Ok(ControlFlow::Break(n)) => total += n,
                }
                at_hand += 1;
            }
            if at_hand == bufs.len() {
                return (Ok(total), bufs);
            }
            let rest = bufs[at_hand..].iter_mut().map(|b| b.as_mut().len()).sum();
            let seen = Seen::Read(pos.saturating_add(total as u64), rest);
            let go = move |file: Arc<Open>, mut bufs: Vec<B>| async move {
                let result = Self::read_rest(&file, pos, &mut bufs[at_hand..], total).await;
                (result, bufs)
            };
            Self::call(file, (Lane::Reads, seen), bufs, go).await
        }
    }

    /// Reads into the buffers that remain of a vectored read, one after the other. `total`: bytes
    /// read so far, counted from `pos`; returns it with the bytes added here.
    async fn read_rest<B: AsMut<[u8]>>(
        file: &Open,
        pos: u64,
        bufs: &mut [B],
        mut total: usize,
    ) -> Result<usize, Error> {
        let (mm, mapping) = (&file.inner.mm, file.file.mapping);
        for buf in bufs {
            let (at, buf) = (pos.saturating_add(total as u64), buf.as_mut());
            let n = file::read_on(mm, mapping, &file.ahead, (at, 0), buf).await?;
            total += n;
            if n < buf.len() {
                break;
            }
        }
        Ok(total)
    }

    /// Writes `buf` at `pos`. The future waits while too many pages are dirty, and begins when the
    /// cache has room for the buffer: a 64th of its memory, at most 64 MiB, is for the buffers of
    /// writes that have begun. Until then the future alone holds the buffer;
    /// [`AsyncFile::writable`] says when to make it.
    ///
    /// # Errors
    /// As [`File::write`], and [`Error::Closed`].
    pub fn write<B: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        pos: u64,
        buf: B,
    ) -> impl Future<Output = (Result<(), Error>, B)> + Send + 'static + use<B> {
        let file = Arc::clone(&self.0);
        async move {
            let len = buf.as_ref().len();
            let room = match Self::admit(&file, len).await {
                Ok(room) => room,
                Err(e) => return (Err(e), buf),
            };
            let go = move |file: Arc<Open>, buf: B| async move {
                let (mm, mapping) = (&file.inner.mm, file.file.mapping);
                let result = file::write(mm, mapping, pos, buf.as_ref()).await;
                drop(room);
                (result, buf)
            };
            Self::call(file, (Lane::Others, Seen::Write(pos, len)), buf, go).await
        }
    }

    /// Waits until the cache has room for the buffers of a write of `len` bytes. `Err`: the handle
    /// does not write, or the cache cannot be used.
    async fn admit(file: &Open, len: usize) -> Result<Room, Error> {
        file.writes()?;
        file.inner.usable()?;
        let room = file.inner.calls.admission.admit(len as u64).await;
        room.ok_or(Error::Closed)
    }

    /// Resolves when the cache has room for a write of `len` bytes, and no other write waits for
    /// room. A program that awaits this before it makes the buffer of each write has hardly more
    /// buffers than the cache has room for. The room is not kept.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Io`] with `EBADF` if the handle does not write.
    pub fn writable(
        &self,
        len: usize,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let file = Arc::clone(&self.0);
        async move { Self::admit(&file, len).await.map(drop) }
    }

    /// Writes several buffers at `pos`, one after the other.
    ///
    /// # Errors
    /// As [`AsyncFile::write`].
    pub fn write_vectored<B: AsRef<[u8]> + Send + Sync + 'static>(
        &self,
        pos: u64,
        bufs: Vec<B>,
    ) -> impl Future<Output = (Result<(), Error>, Vec<B>)> + Send + 'static + use<B> {
        let file = Arc::clone(&self.0);
        let len = bufs.iter().map(|b| b.as_ref().len()).sum();
        async move {
            let room = match Self::admit(&file, len).await {
                Ok(room) => room,
                Err(e) => return (Err(e), bufs),
            };
            let go = move |file: Arc<Open>, bufs: Vec<B>| async move {
                let (mm, mapping) = (&file.inner.mm, file.file.mapping);
                let mut at = pos;
                for buf in &bufs {
                    if let Err(e) = file::write(mm, mapping, at, buf.as_ref()).await {
                        return (Err(e), bufs);
                    }
                    at = at.saturating_add(buf.as_ref().len() as u64);
                }
                drop(room);
                (Ok(()), bufs)
            };
            Self::call(file, (Lane::Others, Seen::Write(pos, len)), bufs, go).await
        }
    }

    /// Pins a page by its number, to be read in place, as [`File::pin`]. While it is pinned nobody
    /// changes it: a task that holds a page and waits for a write to the same page waits for ever,
    /// or until the cache ends.
    ///
    /// # Errors
    /// As [`File::pin`].
    pub fn pin(
        &self,
        page: u32,
    ) -> impl Future<Output = Result<PageOwned, Error>> + Send + 'static + use<> {
        let file = Arc::clone(&self.0);
        async move {
            file.reads()?;
            if let Some(pinned) = Self::pin_at_hand(&file, page) {
                return Ok(pinned);
            }
            let go = move |file: Arc<Open>, ()| async move {
                let (mm, mapping) = (&file.inner.mm, file.file.mapping);
                let pinned = file::pin(mm, mapping, &file.ahead, page).await;
                let kept = pinned.map(|p| PageOwned(p.keep(Arc::clone(&file))));
                (kept, ())
            };
            Self::call(file, (Lane::Reads, page_read(page)), (), go)
                .await
                .0
        }
    }

    /// Pins a page if it is cached and not locked, without a call to a thread of the cache. `None`:
    /// the page is missing, is being read or removed, or lies behind the file's end.
    fn pin_at_hand(file: &Arc<Open>, page: u32) -> Option<PageOwned> {
        let (mm, mapping) = (&file.inner.mm, file.file.mapping);
        let pinned = Pinned::try_take(mm, mapping, page)?;
        if file::pages_of(file::size(mm, mapping)) <= page {
            return None;
        }
        file.inner.recorder.hit(mapping, page);
        file.inner.calls.mark(mm, &pinned);
        Some(PageOwned(pinned.keep(Arc::clone(file))))
    }

    /// Calls `change` with the bytes of a page, to change them in place, as [`File::pin_mut`], on
    /// the polling thread or one of the cache's. `change` must not wait for calls of the cache,
    /// which may need that thread.
    ///
    /// # Errors
    /// As [`File::pin_mut`].
    pub fn pin_mut<T: Send + 'static>(
        &self,
        page: u32,
        change: impl FnOnce(&mut [u8; PAGE]) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static {
        let go = move |file: Arc<Open>, ()| async move {
            let (mm, mapping) = (&file.inner.mm, file.file.mapping);
            let result = match file::pin_mut(mm, &file.file, &file.ahead, page).await {
                Ok((locked, share)) => {
                    let mut held = PageMut::new(mm, (mapping, page), locked, share);
                    Ok(mm.world.cpus.off(|| change(&mut held)))
                }
                Err(e) => Err(e),
            };
            (result, ())
        };
        let seen = Seen::Write(u64::from(page) * PAGE as u64, PAGE);
        let call = Self::call(Arc::clone(&self.0), (Lane::Others, seen), (), go);
        async move { call.await.0 }
    }

    /// Starts to read the missing pages of a range, as [`File::prefetch`]; resolves to their
    /// number.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn prefetch(
        &self,
        pos: u64,
        len: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            let (mm, mapping) = (&file.inner.mm, file.file.mapping);
            let n = match file::page_range(mm, mapping, pos, len) {
                Some((first, last)) => ahead::prefetch(mm, mapping, first, last).await,
                None => 0,
            };
            (Ok(n), ())
        };
        let call = Self::call(Arc::clone(&self.0), (Lane::Reads, Seen::Nothing), (), go);
        async move { call.await.0 }
    }

    /// Drops the clean pages of a range that are neither locked nor pinned, as
    /// [`File::drop_cache`]; resolves to their number.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn drop_cache(
        &self,
        pos: u64,
        len: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            let (mm, mapping) = (&file.inner.mm, file.file.mapping);
            let n = match file::page_range(mm, mapping, pos, len) {
                Some(pages) => file::drop_pages(mm, mapping, pages).await,
                None => 0,
            };
            (Ok(n), ())
        };
        let call = Self::call(Arc::clone(&self.0), (Lane::Reads, Seen::Nothing), (), go);
        async move { call.await.0 }
    }

    /// Announces how a range of the file will be used, as [`File::advise`].
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn advise(
        &self,
        pos: u64,
        len: u64,
        advice: Advice,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            file.ahead.advise(advice);
            let (mm, mapping) = (&file.inner.mm, file.file.mapping);
            match (advice, file::page_range(mm, mapping, pos, len)) {
                (Advice::WillNeed, Some((first, last))) => {
                    ahead::will_need(mm, mapping, first, last).await;
                }
                (Advice::DontNeed, Some(pages)) => {
                    file::drop_pages(mm, mapping, pages).await;
                }
                _ => {}
            }
            (Ok(()), ())
        };
        let call = Self::call(Arc::clone(&self.0), (Lane::Reads, Seen::Nothing), (), go);
        async move { call.await.0 }
    }

    /// Writes the dirty pages of a range to the system, as [`File::flush`].
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn flush(
        &self,
        pos: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            let flush = file::flush(&file.inner.mm, file.file.mapping, pos, len);
            (flush.await, ())
        };
        let call = Self::call(Arc::clone(&self.0), (Lane::Others, Seen::Nothing), (), go);
        async move { call.await.0 }
    }

    /// Writes the dirty pages and waits until the device has them, as [`File::fsync`].
    ///
    /// # Errors
    /// As [`File::fsync`]. Clones are one handle, and an error is reported once to a handle; a
    /// future that was dropped has reported nothing.
    pub fn fsync(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            (file::to_device(&file.inner.mm, file.file.mapping).await, ())
        };
        let file = Arc::clone(&self.0);
        let call = Self::call(Arc::clone(&file), (Lane::Others, Seen::Sync), (), go);
        async move {
            call.await.0?;
            file.file.errors.check(&file.told)
        }
    }

    /// Truncates or extends the file, as [`File::truncate`].
    ///
    /// # Errors
    /// As [`File::truncate`].
    pub fn truncate(
        &self,
        len: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let go = move |file: Arc<Open>, ()| async move {
            let cut = file::truncate(&file.inner.mm, file.file.mapping, len);
            (cut.await, ())
        };
        let call = Self::call(Arc::clone(&self.0), (Lane::Others, Seen::Cut), (), go);
        async move { call.await.0 }
    }

    /// Drops the handle. If it is the last clone, and no call or page needs the file, the future
    /// resolves when the file is closed; otherwise at once.
    pub async fn close(self) {
        if let Some(mut open) = Arc::into_inner(self.0) {
            let closed = Arc::new(Answer::default());
            let told = Arc::clone(&closed);
            open.close(move || told.put(()));
            closed.wait().await;
        }
    }

    /// Returns the file's length in bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Returns the handle with the blocking calls.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// Most bytes that the first poll of a read copies. A longer read continues as a call, which lets
/// other tasks of its thread run now and then.
const AT_HAND: usize = 64 * PAGE;
