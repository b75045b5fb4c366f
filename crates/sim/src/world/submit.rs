//! Submission of bios to devices, and waiting for requests there.

use super::{SimWorld, Tag, own_queue};
use crate::block::{self, Bio, Dir, Purpose, Submit, Wake};
use crate::filesystems::cil::LogWrite;
use mm::queue;
use mm::world::{Class, Cost, TaskId, Tasks, Waited, WaitedKind};

/// Blocks of a buffer of XFS's log (`XLOG_BIG_RECORD_BSIZE`, 32 KiB), and the number of buffers
/// (`XLOG_MAX_ICLOGS`).
const BUFFER_BLOCKS: u32 = 8;
const BUFFERS: u32 = 8;

impl<const TRACE: bool> SimWorld<TRACE> {
    /// Submits a read or write of adjacent blocks of a volume, and waits for requests while a queue
    /// is full. Does not wait for the I/O: at its completion `tag` says whose it is. `sync`: a task
    /// waits for it.
    pub async fn submit(
        &self,
        volume: u32,
        tag: Tag,
        write: bool,
        sync: bool,
        block: u64,
        blocks: u32,
    ) {
        let purpose = match tag {
            Tag::Swap { .. } if self.wbt_by_task && !self.reclaim.of_kswapd(self.sched.task()) => {
                Purpose::Writeback
            }
            Tag::Swap { .. } => Purpose::Swap,
            Tag::Raw { .. } if sync => Purpose::Exempt,
            Tag::Pages { .. } if !sync => Purpose::Writeback,
            _ => Purpose::Waited,
        };
        let bio = Bio {
            tag: tag.pack(),
            dir: if write { Dir::Write } else { Dir::Read },
            sync,
            block,
            blocks,
            purpose,
        };
        self.submit_parts(volume, bio).await;
    }

    /// Submits a bio whose block is a place on the volume. A bio that spans several members of an
    /// array is cut into parts, and so is one longer than a request may be (Linux cuts at the
    /// limits of the queue: `bio_add_page` up to 4.2, `blk_queue_split` since). Each part has the
    /// bio's tag, advanced to its first page. An inode's cluster is submitted in parts that need no
    /// cut, because each end of such a tag is counted.
    pub async fn submit_parts(&self, volume: u32, whole: Bio) {
        let mut done = 0;
        while done < whole.blocks {
            let first = whole.block + u64::from(done);
            // The device, the block there, and how many blocks follow each other on that device.
            let (dev, at, room) = self.volumes[volume as usize].place(first);
            let most = self.max_bio(volume);
            let n = u64::from((whole.blocks - done).min(most)).min(room) as u32;
            let tag = match done {
                0 => whole.tag,
                done => Tag::unpack(whole.tag).after(done).pack(),
            };
            let bio = Bio {
                tag,
                block: at,
                blocks: n,
                ..whole
            };
            self.submit_bio(dev, bio).await;
            done += n;
        }
    }

    /// Brings up a volume's devices when it is mounted, which counts as if a dirtier had slept
    /// (`bdi_init`). `written`: mounting its filesystem wrote, so throttled writes have windows
    /// from here on.
    pub(crate) fn came_up(&self, volume: u32, written: bool) {
        self.make_room(volume);
        for dev in self.volumes[volume as usize].devices() {
            if written {
                self.devices.borrow_mut()[dev as usize]
                    .queue
                    .wrote(self.sched.now());
            }
            self.kick(dev);
        }
    }

    /// Notes that a task which dirtied pages sleeps: writes to the volume's devices get more room
    /// in the writeback throttle (`last_bdp_sleep`).
    pub(crate) fn make_room(&self, volume: u32) {
        let mut devices = self.devices.borrow_mut();
        for dev in self.volumes[volume as usize].devices() {
            devices[dev as usize].queue.dirtier_sleeps(self.sched.now());
        }
    }

    /// Returns the number of requests, sync and async, that a volume's devices have in flight.
    pub fn in_flight(&self, volume: u32) -> u32 {
        let devices = self.devices.borrow();
        let members = self.volumes[volume as usize].devices();
        let of = |d: u32| {
            let queue = &devices[d as usize].queue;
            block::Class::ALL
                .map(|class| queue.in_flight(class))
                .iter()
                .sum::<u32>()
        };
        members.map(of).sum()
    }

    /// Returns the wait queue of tasks that wait for a journal's transactions.
    pub(crate) fn transaction_queue(&self) -> u32 {
        let devices = self.devices.borrow().len() as u32;
        self.queue_base + own_queue::transaction(self.tasks, devices)
    }

    /// Returns the wait queue of the thread that commits the journal on a volume.
    pub(crate) fn jbd2_queue(&self, volume: u32) -> u32 {
        let devices = self.devices.borrow().len() as u32;
        self.queue_base + own_queue::jbd2(self.tasks, devices, volume)
    }

    /// Returns the wait queue of the workers that end the writeback of new blocks on a volume.
    pub(crate) fn conversion_queue(&self, volume: u32) -> u32 {
        let devices = self.devices.borrow().len() as u32;
        self.queue_base + own_queue::conversions(self.tasks, devices, volume)
    }

    /// Submits a bio to a device's queue, waiting for a request there as long as needed.
    async fn submit_bio(&self, dev: u32, bio: Bio) {
        self.charge(Cost::Submit, 1);
        while !self.try_submit(dev, bio).await {}
    }

    /// Tries once to submit a bio to a device's queue: queues it, keeps it in the task's plug or
    /// merges it, and returns true. If no request is free or writes are throttled, sleeps until
    /// woken and returns false: the caller tries again.
    async fn try_submit(&self, dev: u32, bio: Bio) -> bool {
        let task = self.sched.task() as usize;
        let answer = {
            let d = &mut self.devices.borrow_mut()[dev as usize];
            let (queue, context) = (&mut d.queue, &mut d.contexts[task]);
            match self.plugs.open(task, dev) {
                Some(last) => queue.submit_plugged(self.sched.now(), context, last, bio),
                None => queue.submit(self.sched.now(), context, bio),
            }
        };
        // No wakeup can come between this answer and taking the ticket.
        let (q, class) = match answer {
            Submit::Queued => {
                self.give_out(dev);
                return true;
            }
            Submit::Plugged(slot) => {
                self.hold(dev, slot);
                return true;
            }
            Submit::Merged(wake) => {
                self.wake_for(dev, wake);
                self.kick_unless_left(dev);
                return true;
            }
            Submit::WouldBlock | Submit::Throttled(_) => self.room_for(dev, &bio, answer),
        };
        let ticket = self.sched.ticket(q);
        self.kick(dev);
        let waited = u64::from(dev) << 1 | u64::from(class);
        self.waits_on(Waited::on(WaitedKind::Request, waited));
        // Waits are recorded by pages, so an end's tag is translated to its pages.
        let pages = match Tag::unpack(bio.tag) {
            Tag::Pages { .. } => Some((bio.tag, bio.blocks)),
            Tag::End { id } => {
                let (mapping, index, pages) = self.ends.pages(id);
                Some((Tag::Pages { mapping, index }.pack(), pages))
            }
            _ => None,
        };
        self.sched.waiting.submits(task as TaskId, pages);
        self.sched.wait(q, ticket, None).await;
        self.sched.waiting.submits(task as TaskId, None);
        if answer == Submit::WouldBlock {
            let d = &mut self.devices.borrow_mut()[dev as usize];
            let limits = *d.queue.limits();
            d.contexts[task].woken(self.sched.now(), &limits);
        }
        false
    }

    /// Returns the wait queue for a task whose bio was refused (`answer`: no free request, or the
    /// writeback throttle), and the index of the class, sync or async, it sleeps as.
    #[cold]
    fn room_for(&self, dev: u32, bio: &Bio, answer: Submit) -> (u32, u32) {
        let devices = self.devices.borrow();
        let queue = &devices[dev as usize].queue;
        let class = queue.sleeps_as(queue.class_of(bio)).index() as u32;
        let own = match answer {
            Submit::Throttled(room) => {
                own_queue::throttled(self.tasks, devices.len() as u32, dev, u32::from(room))
            }
            _ => own_queue::request(self.tasks, dev, class),
        };
        (self.queue_base + own, class)
    }

    /// Wakes tasks that may have a request or throttle token now, and those that wait for the end
    /// of congestion.
    #[inline]
    pub(super) fn wake_for(&self, dev: u32, wake: Wake) {
        // Most completions and merges wake no task.
        if (wake.requests, wake.uncongested, wake.tokens) != Default::default() {
            self.wake_freed(dev, wake);
        }
    }

    /// Wakes one task for each request and token that was freed, and all that wait for the end of
    /// congestion.
    #[inline(never)]
    fn wake_freed(&self, dev: u32, wake: Wake) {
        for class in [block::Class::Sync, block::Class::Async] {
            let c = class.index();
            for _ in 0..wake.requests[c] {
                let q = own_queue::request(self.tasks, dev, c as u32);
                self.sched.wake_one(self.queue_base + q);
            }
            if wake.uncongested[c] {
                let ours = if c == 0 { Class::Sync } else { Class::Async };
                self.sched.wake(queue::congestion(ours).0);
            }
        }
        let devices = self.devices.borrow().len() as u32;
        for (room, &tokens) in (0..).zip(&wake.tokens) {
            for _ in 0..tokens {
                let q = own_queue::throttled(self.tasks, devices, dev, room);
                self.sched.wake_one(self.queue_base + q);
            }
        }
    }

    /// Reads, or with `write` writes, blocks of a volume that belong to no page, such as metadata
    /// or a log, and waits for the device. Returns true on success, false on an I/O error.
    pub async fn write_raw(&self, volume: u32, block: u64, blocks: u32, write: bool) -> bool {
        let queue = self.queue_base + own_queue::TASK + self.sched.task();
        let (mut at, end) = (block, block + u64::from(blocks));
        let most = u64::from(self.max_bio(volume));
        self.raw_failed.borrow_mut().remove(&queue);
        while at < end {
            let (_, _, room) = self.volumes[volume as usize].place(at);
            let n = (end - at).min(most).min(room) as u32;
            let ticket = self.sched.ticket(queue);
            self.submit(volume, Tag::Raw { queue }, write, true, at, n)
                .await;
            let kind = if write {
                WaitedKind::DeviceWrite
            } else {
                WaitedKind::DeviceRead
            };
            self.waits_on(Waited::on(kind, u64::from(volume)));
            self.sched.wait(queue, ticket, None).await;
            at += u64::from(n);
        }
        !self.raw_failed.borrow_mut().remove(&queue)
    }

    /// Writes a log record (first block, number of blocks) that begins or ends within a block, and
    /// waits; `beside` sectors of these blocks are not part of it. The device writes whole blocks,
    /// but its write counters count sectors. `how`: as one write, or by log buffers. Returns true
    /// on success.
    pub async fn write_record(
        &self,
        volume: u32,
        (block, blocks): (u64, u32),
        beside: u64,
        how: LogWrite,
    ) -> bool {
        debug_assert!(
            beside < 8 * u64::from(blocks),
            "a record of {blocks} blocks beside {beside} sectors"
        );
        let (of_volumes, unsubtracted) = &self.sectors_beside;
        let of_volume = &of_volumes[volume as usize];
        of_volume.set(of_volume.get() + beside);
        unsubtracted.set(unsubtracted.get() + beside);
        match how {
            LogWrite::Whole => self.write_raw(volume, block, blocks, true).await,
            _ => {
                let last_alone = how == LogWrite::BuffersLastAlone;
                self.write_buffers(volume, block, blocks, last_alone).await
            }
        }
    }

    /// Writes blocks of a log by its buffers, one request each with at most [`BUFFERS`] in flight,
    /// and waits for all of them. `last_alone`: the last buffer is submitted once all before it are
    /// written. Returns true on success (fs/xfs/xfs_log.c `xlog_state_get_iclog_space`,
    /// `xlog_write_iclog`).
    async fn write_buffers(&self, volume: u32, block: u64, blocks: u32, last_alone: bool) -> bool {
        let queue = self.queue_base + own_queue::TASK + self.sched.task();
        let (mut at, end) = (block, block + u64::from(blocks));
        let most = u64::from(self.max_bio(volume).min(BUFFER_BLOCKS));
        self.raw_failed.borrow_mut().remove(&queue);
        self.buffers_under_way.borrow_mut().insert(queue, 0);
        while at < end {
            let (_, _, room) = self.volumes[volume as usize].place(at);
            let n = (end - at).min(most).min(room);
            let alone = last_alone && at + n == end;
            self.wait_for_buffers(volume, queue, if alone { 0 } else { BUFFERS - 1 })
                .await;
            *self
                .buffers_under_way
                .borrow_mut()
                .entry(queue)
                .or_default() += 1;
            self.submit(volume, Tag::Raw { queue }, true, true, at, n as u32)
                .await;
            at += n;
        }
        self.wait_for_buffers(volume, queue, 0).await;
        self.buffers_under_way.borrow_mut().remove(&queue);
        !self.raw_failed.borrow_mut().remove(&queue)
    }

    /// Waits until at most `most` log buffers of the task with wait queue `queue` are in flight.
    async fn wait_for_buffers(&self, volume: u32, queue: u32, most: u32) {
        loop {
            let ticket = self.sched.ticket(queue);
            if self.buffers_under_way.borrow()[&queue] <= most {
                return;
            }
            self.waits_on(Waited::on(WaitedKind::DeviceWrite, u64::from(volume)));
            self.sched.wait(queue, ticket, None).await;
        }
    }

    /// Returns how many of `kb` written kilobytes count towards the write statistics: the sectors
    /// that share blocks with log records, but are not part of them, do not
    /// ([`Self::write_record`]).
    pub(super) fn counted_kb(&self, kb: u64) -> u64 {
        let unsubtracted = &self.sectors_beside.1;
        let beside = (unsubtracted.get() / 2).min(kb);
        unsubtracted.set(unsubtracted.get() - 2 * beside);
        kb - beside
    }
}
