//! Opens files, and gives each a mapping number: a free one, or that of a closed file, whose pages
//! are dropped for it.
//!
//! No lock is held while a file or the storage is called, so a device that hangs holds up only the
//! tasks that open its files. A closed file whose pages are clean is dropped by the task that
//! needs its number, and so is one that must be written first and is on the device of the new file.
//! Others are written by a thread of their device, one file for each device at a time, and the task
//! takes the number that becomes free first. If all closed files are on devices that hang, the task
//! waits for them.

use crate::blocking::Job;
use crate::error::Error;
use crate::file;
use crate::inner::{self, Inner};
use crate::open_file::OpenFile;
use crate::shared::{Held, assert_none_held};
use crate::storage::{OpenOptions, Opened};
use crate::table::{Closed, Found, Table};
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long a task waits for a change of the table before it looks whether the cache ends.
const LOOK: Duration = Duration::from_millis(50);

/// The closed files that a task has tried to drop, by the number of their closing.
#[derive(Default)]
struct Tried {
    /// Pages could not be dropped at once.
    at_once: BTreeSet<u64>,
    /// The file was written.
    written: BTreeSet<u64>,
}

impl Inner {
    /// Opens a file as `how` says and adds a handle to it. `device` returns the number of a device
    /// by its `st_dev`.
    ///
    /// # Errors
    /// As [`crate::Cache::open_with`].
    pub(crate) fn open_file(
        self: &Arc<Self>,
        path: &Path,
        mut how: OpenOptions,
        device: impl Fn(u64) -> Result<u32, Error>,
    ) -> Result<Arc<OpenFile>, Error> {
        loop {
            let removals = self.table.lock().removals();
            // The descriptor stays open until the file is in the table, so its inode number is not
            // used again.
            let opened = self.open_beneath(path, how)?;
            // A file that this call created need not be missing a second time.
            how.exclusive = false;
            let mut table = self.table.lock();
            let found = loop {
                match table.open(opened.id) {
                    Found::Moving => self.wait_for_change(&mut table)?,
                    found => break found,
                }
            };
            if let Found::File(file) = found {
                drop(table);
                return self.also_for(file, opened, how);
            }
            if table.removals() != removals {
                // It may have left the table after its length was read, and was written meanwhile.
                continue;
            }
            table.begin_to_enter(opened.id);
            drop(table);
            let id = opened.id;
            let made = self.make(opened, path, how, device);
            let mut table = self.table.lock();
            table.entered(id);
            if let Ok(file) = &made {
                table.insert(id, Arc::clone(file));
            }
            self.table.changed();
            return made;
        }
    }

    /// Opens a file of the storage. If the process has no descriptor left, gives up a closed
    /// file's.
    fn open_beneath(self: &Arc<Self>, path: &Path, how: OpenOptions) -> Result<Opened, Error> {
        loop {
            assert_none_held();
            match self.storage.open_with(path, how) {
                Err(Error::Io(Errno::INTR)) => {}
                Err(Error::Io(e @ (Errno::MFILE | Errno::NFILE))) => {
                    let n = self.number_of_closed(None).map_err(|_| Error::Io(e))?;
                    self.table.lock().give_number(n);
                    self.table.changed();
                }
                other => return other,
            }
        }
    }

    /// Makes the state of a file that is not in the table: locks it, gives it a mapping number.
    fn make(
        self: &Arc<Self>,
        opened: Opened,
        path: &Path,
        how: OpenOptions,
        device: impl Fn(u64) -> Result<u32, Error>,
    ) -> Result<Arc<OpenFile>, Error> {
        opened.file.lock(how.write).map_err(in_use)?;
        let bdi = device(opened.id.device)?;
        let mapping = self.number(bdi)?;
        self.mm.move_mapping(mapping, bdi);
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = OpenFile::new((mapping, bdi), path, opened.file);
        if !how.write {
            file.only_reads();
        }
        let file = Arc::new(file);
        let m = &self.mm.mappings[mapping as usize];
        m.size.store(opened.len, SeqCst);
        self.mm.world.add_file(Arc::clone(&file));
        Ok(file)
    }

    /// Makes a known file, to which a handle was added, one that can be written, if `how` asks for
    /// that and it is not; `opened` is the same file.
    fn also_for(
        &self,
        file: Arc<OpenFile>,
        opened: Opened,
        how: OpenOptions,
    ) -> Result<Arc<OpenFile>, Error> {
        if how.write
            && let Err(e) = file.writes_by(opened.file)
        {
            self.table.lock().close(file.mapping);
            self.table.changed();
            return Err(in_use(e));
        }
        Ok(file)
    }

    /// Waits until the table changes, or for [`LOOK`]. `Err`: the cache ends.
    fn wait_for_change(&self, table: &mut Held<'_, Table>) -> Result<(), Error> {
        self.table.wait(table, LOOK);
        self.usable()
    }

    /// Returns a mapping number for one more file on device `bdi`.
    ///
    /// # Errors
    /// [`Error::TooManyFiles`]: all files are open, or cannot be written.
    fn number(self: &Arc<Self>, bdi: u32) -> Result<u32, Error> {
        let new = || self.mm.new_mapping(MappingKind::File, bdi);
        let free = self.table.lock().free_number().or_else(new);
        match free {
            Some(n) => Ok(n),
            None => self.number_of_closed(Some(bdi)),
        }
    }

    /// Takes the mapping number of a closed file, whose pages are dropped: of those whose pages are
    /// clean the one that was closed longest ago; then of those on device `own`, which the task
    /// needs anyway and so writes itself; otherwise of those that can be written, the first to be.
    ///
    /// # Errors
    /// [`Error::TooManyFiles`]: there is none. [`Error::Closed`].
    fn number_of_closed(self: &Arc<Self>, own: Option<u32>) -> Result<u32, Error> {
        let mut tried = Tried::default();
        let mut table = self.table.lock();
        loop {
            if let Some(n) = table.free_number() {
                return Ok(n);
            }
            let clean = |c: &Closed| !tried.at_once.contains(&c.closing) && self.is_clean(&c.file);
            let clean = table.closed().find(clean);
            if let Some(c) = clean
                && table.begin_to_leave(c.file.mapping)
            {
                tried.at_once.insert(c.closing);
                drop(table);
                let dropped = self.drop_at_once(&c.file);
                table = self.leave(c.file, dropped);
                continue;
            }
            let of_own = |c: &Closed| {
                Some(c.file.bdi) == own && !c.being_written && !tried.written.contains(&c.closing)
            };
            let of_own = table.closed().find(of_own);
            if let Some(c) = of_own {
                tried.written.insert(c.closing);
                table.set_being_written(c.file.mapping, true);
                drop(table);
                self.write_and_leave(c.file);
                table = self.table.lock();
                continue;
            }
            let to_write = to_write(&mut table, &mut tried.written);
            if to_write.is_empty() && !table.frees_soon() {
                return Err(Error::TooManyFiles);
            }
            if to_write.is_empty() {
                self.wait_for_change(&mut table)?;
                continue;
            }
            drop(table);
            to_write.into_iter().for_each(|f| self.write_to_leave(f));
            table = self.table.lock();
        }
    }

    /// Returns true if no page of a file is dirty, under writeback or kept after a failed write.
    fn is_clean(&self, file: &OpenFile) -> bool {
        let tagged = |tag| self.mm.mapping_tagged(file.mapping, tag);
        !tagged(Tag::Dirty) && !tagged(Tag::Writeback) && file.failing().is_none()
    }

    /// Drops the pages of a leaving file that was clean, without waiting for its device; returns
    /// false if a page is left, or became dirty before the file began to leave.
    fn drop_at_once(&self, file: &OpenFile) -> bool {
        let pages = &self.mm.mappings[file.mapping as usize].nrpages;
        let drop = async {
            file::drop_pages(&self.mm, file.mapping, (0, u32::MAX)).await;
            if pages.load(SeqCst) > 0 || !self.is_clean(file) {
                return false;
            }
            file::forget(&self.mm, file).await;
            true
        };
        self.block_on(drop) == Ok(true)
    }

    /// Ends the leaving of a file: it has left if its pages were `dropped`, otherwise it stays.
    /// Returns the table.
    fn leave(&self, file: Arc<OpenFile>, dropped: bool) -> Held<'_, Table> {
        let mapping = file.mapping;
        if dropped {
            let m = &self.mm.mappings[mapping as usize];
            m.size.store(0, SeqCst);
            m.writeback_index.store(0, SeqCst);
            file.unlock();
            self.mm.world.remove_file(mapping);
        }
        let mut table = self.table.lock();
        match dropped {
            true => table.left(mapping),
            false => table.stay(mapping),
        }
        self.table.changed();
        table
    }

    /// Has a thread of its device write a closed file and drop its pages; the calling thread does
    /// it if the device can have no thread.
    fn write_to_leave(self: &Arc<Self>, file: Arc<OpenFile>) {
        let (inner, blocking) = (Arc::clone(self), &self.mm.world.blocking);
        let bdi = file.bdi;
        let job: Job = Box::new(move || {
            // A thread of the cache must not keep a task number that is meant for the program's
            // threads.
            let owner = Arc::clone(&inner);
            let runner = &owner.calls.runner;
            runner.spare(|task| inner::lend(task, || inner.write_and_leave(file)));
        });
        let put = match blocking.start(bdi) {
            Ok(()) => blocking.put(bdi, job),
            Err(_) => Err(job),
        };
        if let Err(job) = put {
            job();
        }
    }

    /// Writes a closed file's dirty pages, unless it has no name, and drops its pages, unless it
    /// was opened again or cannot be written.
    fn write_and_leave(&self, file: Arc<OpenFile>) {
        let named = file.has_name();
        let written = match named {
            true => self.block_on(file::write_back(&self.mm, &file)).is_ok(),
            false => true,
        };
        let mut table = self.table.lock();
        table.set_being_written(file.mapping, false);
        let can_leave = written && (!named || file.failing().is_none());
        if can_leave && table.begin_to_leave(file.mapping) {
            drop(table);
            let dropped = self.block_on(file::forget(&self.mm, &file)).is_ok();
            drop(self.leave(file, dropped));
            return;
        }
        self.table.changed();
    }

    /// Removes a handle of a file. If it was the last one of a file without a name, drops the
    /// file's pages: no call can reach them any more. If the thread has no task number, that
    /// happens when the file's mapping number is needed.
    pub(crate) fn close_file(&self, file: &Arc<OpenFile>) {
        let last = self.table.lock().close(file.mapping);
        if !last || self.ended.load(SeqCst) {
            return;
        }
        self.table.changed();
        // The shutdown waits until the pages are dropped.
        let Some(closed) = self.closed.try_read() else {
            return;
        };
        if *closed || file.has_name() || !self.table.lock().begin_to_leave(file.mapping) {
            return;
        }
        let dropped = self.block_on(file::forget(&self.mm, file)).is_ok();
        drop(self.leave(Arc::clone(file), dropped));
    }
}

/// Returns the error of a lock that another cache has.
fn in_use(e: Errno) -> Error {
    match e {
        Errno::WOULDBLOCK => Error::InUse,
        e => Error::Io(e),
    }
}

/// Returns closed files to be written for their numbers, and marks them: of each device that writes
/// none yet, the one closed longest ago that is not among the `tried` ones.
fn to_write(table: &mut Table, tried: &mut BTreeSet<u64>) -> Vec<Arc<OpenFile>> {
    let closed: Vec<Closed> = table.closed().collect();
    let mut busy: BTreeSet<u32> = BTreeSet::new();
    busy.extend(
        closed
            .iter()
            .filter(|c| c.being_written)
            .map(|c| c.file.bdi),
    );
    let mut files = Vec::new();
    for c in closed {
        if !c.being_written && !tried.contains(&c.closing) && busy.insert(c.file.bdi) {
            tried.insert(c.closing);
            table.set_being_written(c.file.mapping, true);
            files.push(c.file);
        }
    }
    files
}
