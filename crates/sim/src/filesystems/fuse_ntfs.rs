//! NTFS by ntfs-3g over FUSE.
//!
//! A write goes through the FUSE file's page cache straight to the daemon; those pages are clean.
//! The daemon writes the data into the block device's own page cache, which becomes dirty, and
//! updates the cluster bitmap there. Reclaim may write device pages, one at a time
//! (docs/reference/writeback.md#filesystems). So every page of data takes two frames, and half of
//! the pages on the LRU lists are clean.

use super::layout::Layout;
use super::model::{Daemon, Kind, Model};
use super::names::NameChange;
use super::write::{fill_page, page_or_new};
use super::{Fs, FsError, SimMm};
use mm::world::{Tasks};
use crate::params::Params;
use crate::own_queue;
use mm::memory::gfp::Gfp;
use mm::memory::frame::flag;
use mm::cache::mapping::MappingKind;
use mm::world::event::TrackPath;
use mm::world::{Cost, Waited, WaitedKind};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Share of the dirty limit that FUSE allows its bdi: 1 % (docs/reference/writeback.md#sysctls).
const FUSE_MAX_RATIO: u32 = 1;
/// First block of the cluster bitmap; one page of it covers 32768 clusters.
const BITMAP_START: u64 = 512;
const CLUSTERS_PER_BITMAP_PAGE: u64 = 8 * 4096;
/// Places and lengths of the master file table and of the directories' index blocks on a large
/// disk; records are 1 KiB.
const MFT_START: u64 = 16_384;
const RECORDS_OF_PAGE: u64 = 4;
const INDEX_START: u64 = 8192;
const INDEX_PAGES: u64 = 8192;
const MFT_PAGES: u64 = 49_152;

/// A request to the daemon, and the task that waits for the answer.
#[derive(Debug, Clone, Copy)]
struct Request {
    what: Ask,
    task: u32,
}

/// The operation that a request asks for.
#[derive(Debug, Clone, Copy)]
enum Ask {
    /// Write pages of a file.
    Write {
        mapping: u32,
        index: u32,
        pages: u32,
        bytes: u64,
    },
    /// Change a file record and an index block, both pages of the block device.
    Names { record: u64, index: u64 },
}

/// The state of the mount and of the connection to its daemon.
#[derive(Debug)]
pub(super) struct FuseNtfs {
    /// Number of the mount's bdi.
    bdi: Cell<u32>,
    /// The block device's own mapping.
    device_file: Cell<u32>,
    requests: RefCell<VecDeque<Request>>,
    failed: Cell<bool>,
    max_pages: u32,
}

impl Model for FuseNtfs {
    const KIND: Kind = Kind {
        over_fuse: true,
        ..Kind::plain(700)
    };

    /// Makes the state of a mount without requests. A request carries `fuse_max_write` bytes, 32
    /// pages at most.
    fn new(p: &Params, _front: Layout) -> Self {
        Self {
            bdi: Cell::new(0),
            device_file: Cell::new(0),
            requests: RefCell::new(VecDeque::new()),
            failed: Cell::new(false),
            max_pages: (p.fuse_max_write as u32 / 4096).clamp(1, 32),
        }
    }

    /// Makes the FUSE mount's bdi, which may have 1 % of the dirty limit, and the block device's
    /// mapping, through which the daemon writes.
    fn mount<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        self.bdi
            .set(mm.new_bdi(0, FUSE_MAX_RATIO).expect("room for a bdi"));
        let device = mm.new_mapping(MappingKind::BlockDevice, fs.bdi.get());
        self.device_file
            .set(device.expect("room for the device's file"));
    }

    fn daemons<'a, const T: bool>(&'a self, mm: &'a SimMm<T>, fs: &'a Fs) -> Vec<Daemon<'a>> {
        vec![Daemon::process("ntfs-3g", self.daemon(mm, fs))]
    }

    fn new_file<const T: bool>(&self, mm: &SimMm<T>, _fs: &Fs) -> Option<u32> {
        mm.new_mapping(MappingKind::WriteThrough, self.bdi.get())
    }

    /// Performs write(2) through FUSE: fills pages of the file, which stay clean, sends them to the
    /// daemon and waits for its answer, request by request.
    async fn write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        mapping: u32,
        pos: u64,
        len: u64,
    ) -> Result<(), FsError> {
        let size = &mm.mappings[mapping as usize].size;
        if size.get() < pos + len {
            let grows = (pos + len - size.get()).div_ceil(4096);
            if grows > fs.free_blocks() {
                return Err(FsError::NoSpace);
            }
            size.set(pos + len);
        }
        let (mut at, end) = (pos, pos + len);
        while at < end {
            let first = (at / 4096) as u32;
            let last = ((end - 1) / 4096) as u32;
            let pages = (last - first + 1).min(self.max_pages);
            let upto = end.min((u64::from(first) + u64::from(pages)) * 4096);
            for index in first..first + pages {
                // Pages of the FUSE file stay clean.
                let pfn = page_or_new(
                    mm,
                    mapping,
                    index,
                    Gfp::USER_WRITE,
                    TrackPath::BufferedWrite,
                )
                .await?;
                mm.world
                    .charge_part(Cost::Copy, (upto - at) / u64::from(pages), 4096);
                mm.frames.set_flags(pfn, flag::UPTODATE);
                mm.mark_page_accessed(pfn, TrackPath::BufferedWrite);
                mm.world.relax().await;
            }
            let what = Ask::Write {
                mapping,
                index: first,
                pages,
                bytes: upto - at,
            };
            self.ask(mm, what).await?;
            at = upto;
        }
        Ok(())
    }

    /// Returns 0: the FUSE file keeps no dirty page, so a shared mapping cannot be stored to.
    fn page_mkwrite(&self, _fs: &Fs, _mapping: u32, _index: u32, _most: u32) -> u32 {
        0
    }

    fn data_of(&self, _mapping: u32) -> u32 {
        self.device_file.get()
    }

    /// Asks the daemon to write what changes with a name: a record of the master file table and an
    /// index block of the directory, both in the device's pages.
    async fn names_changed<const T: bool>(
        &self,
        mm: &SimMm<T>,
        fs: &Fs,
        change: NameChange,
    ) -> Result<(), FsError> {
        let front = fs.layout;
        let record = change.place / RECORDS_OF_PAGE % front.length(MFT_START, MFT_PAGES);
        let index = u64::from(change.dir) % front.length(INDEX_START, INDEX_PAGES);
        let what = Ask::Names {
            record: front.place(MFT_START) + record,
            index: front.place(INDEX_START) + index,
        };
        self.ask(mm, what).await
    }
}

impl FuseNtfs {
    /// Sends the daemon a request and waits for its answer; the error means that the daemon found
    /// no memory or no space.
    async fn ask<const T: bool>(&self, mm: &SimMm<T>, what: Ask) -> Result<(), FsError> {
        let task = mm.world.task();
        let reply = mm.world.queue_base + own_queue::TASK + task;
        let ticket = mm.world.sched.ticket(reply);
        self.requests.borrow_mut().push_back(Request { what, task });
        mm.world.charge(Cost::Syscall, 2);
        mm.world
            .sched
            .wake(mm.world.queue_base + own_queue::DAEMON);
        mm.world.waits_on(Waited::on(WaitedKind::Server, 0));
        mm.world.sched.wait(reply, ticket, None).await;
        if self.failed.replace(false) {
            return Err(FsError::OutOfMemory);
        }
        Ok(())
    }

    /// Runs the ntfs-3g daemon: takes a request, writes its data to the block device's page cache
    /// and wakes the task that waits for the answer. Never returns.
    async fn daemon<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs) {
        let q = mm.world.queue_base + own_queue::DAEMON;
        loop {
            let ticket = mm.world.sched.ticket(q);
            let request = self.requests.borrow_mut().pop_front();
            let Some(r) = request else {
                mm.world.sched.wait(q, ticket, None).await;
                continue;
            };
            mm.world.charge(Cost::Syscall, 2);
            if !self.serve(mm, fs, r.what).await {
                self.failed.set(true);
            }
            mm.world
                .sched
                .wake(mm.world.queue_base + own_queue::TASK + r.task);
            mm.world.relax().await;
        }
    }

    /// Serves a request in the daemon: writes file data, and the bitmap for new clusters, to the
    /// block device's page cache. Returns false if the device is full or memory is out.
    async fn serve<const T: bool>(&self, mm: &SimMm<T>, fs: &Fs, what: Ask) -> bool {
        let (mapping, mut index, end, bytes) = match what {
            Ask::Write {
                mapping,
                index,
                pages,
                bytes,
            } => (mapping, index, index + pages, bytes),
            Ask::Names { record, index } => {
                return self.device_write(mm, record, 1, 1024, TrackPath::FsMetadata).await
                    && self.device_write(mm, index, 1, 4096, TrackPath::FsMetadata).await;
            }
        };
        // The request's data is copied to the daemon, and from there into the device's pages.
        mm.world.charge_part(Cost::Copy, bytes, 4096);
        while index < end {
            let fresh = fs.mapped(mapping, index).is_none();
            let Some((block, n)) = fs.map_run(mapping, index, end - index) else {
                return false;
            };
            if fresh {
                // The allocator marks the clusters in the bitmap.
                let cluster = block - fs.layout.blocks();
                let page = fs.layout.place(BITMAP_START) + cluster / CLUSTERS_PER_BITMAP_PAGE;
                if !self.device_write(mm, page, 1, 8, TrackPath::FsMetadata).await {
                    return false;
                }
            }
            let bytes = u64::from(n) * 4096;
            if !self.device_write(mm, block, n, bytes, TrackPath::Daemon).await {
                return false;
            }
            index += n;
        }
        true
    }

    /// Writes `bytes` bytes to `pages` pages of the block device from `block` on through its page
    /// cache, in the daemon, which is held to the dirty limits. Returns false if memory is out.
    async fn device_write<const T: bool>(
        &self,
        mm: &SimMm<T>,
        block: u64,
        pages: u32,
        bytes: u64,
        path: TrackPath,
    ) -> bool {
        let device = self.device_file.get();
        for i in 0..pages {
            let index = block as u32 + i;
            let Ok(pfn) = page_or_new(mm, device, index, Gfp::USER_WRITE, path).await else {
                return false;
            };
            fill_page(mm, pfn, bytes / u64::from(pages), path);
            if mm.note_dirtied(device) {
                mm.balance_now(device).await;
            }
            mm.world.relax().await;
        }
        true
    }
}
