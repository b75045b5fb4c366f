//! The request queue of one device.

mod plugged;

use super::device::{Device, Ended};
use super::elevator::{Elevator, Next, Place, Slot};
use super::form::Form;
use super::wbt::Wbt;
use super::{Admission, Bio, Class, Dir, Done, IoContext, Limits, RequestList, Wake};
use crate::disks::Transfer;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskSpec, Scheduler};

/// The outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submit {
    /// The bio extends a queued request. If it closed the gap to another request, that one was
    /// freed, and the [`Wake`] says which tasks to wake, as after a completion.
    Merged(Wake),
    /// The bio is a new request in the queue.
    Queued,
    /// The bio is a new request in the task's plug ([`Queue::submit_plugged`]).
    Plugged(Slot),
    /// The class is full: the bio was not accepted, and the task must sleep for a request.
    WouldBlock,
    /// Too many writes are out: the bio was not accepted, and the task must sleep for a token of
    /// this kind of the writeback throttle ([`Wake::tokens`]).
    Throttled(u8),
}

/// Totals of a queue since its start. Arrays are indexed by [`Dir::index`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that ended.
    pub requests: [u64; 2],
    /// Bios that ended.
    pub bios: [u64; 2],
    /// Bios that extended a queued request.
    pub merges: [u64; 2],
    /// Requests that were joined with their neighbour.
    pub joins: [u64; 2],
    /// 4 KiB blocks transferred without error.
    pub blocks: [u64; 2],
    /// Requests that ended in an error.
    pub errors: [u64; 2],
    /// Nanoseconds from a request's submission to its end, summed.
    pub wait_ns: [u64; 2],
    /// Nanoseconds in which the device had a request in service, up to the last completion.
    pub busy_ns: u64,
    /// Submissions that had to wait for a request, by [`Class::index`].
    pub blocked: [u64; 2],
}

impl Stats {
    /// Returns the 512-byte sectors transferred, as `/proc/diskstats` counts them.
    pub fn sectors(&self, dir: Dir) -> u64 {
        self.blocks[dir.index()] * 8
    }
}

const NO_BIO: u32 = u32::MAX;

/// One bio of a request, in the slab; `next` links the bios of a request.
#[derive(Debug, Clone, Copy)]
struct BioNode {
    tag: u64,
    next: u32,
    blocks: u32,
    sync: bool,
}

/// One queued or started request; `end` is the block after its last.
#[derive(Debug, Clone, Copy)]
struct Request {
    block: u64,
    end: u64,
    submitted: u64,
    first_bio: u32,
    last_bio: u32,
    dir: Dir,
    class: Class,
}

impl Request {
    fn blocks(&self) -> u32 {
        (self.end - self.block) as u32
    }
}

/// The request queue of one block device and the device behind it; see the [module](super).
#[derive(Debug)]
pub struct Queue {
    list: RequestList,
    elevator: Elevator,
    requests: Vec<Request>,
    free_slots: Vec<Slot>,
    bios: Vec<BioNode>,
    free_bio: u32,
    max_request_blocks: u32,
    capacity_blocks: u64,
    device: Device,
    stats: Stats,
    /// blk-mq: reads and writes are the two classes, whether or not a task waits for them.
    multi: bool,
    /// True if the queue has a scheduler, which joins neighbouring requests.
    scheduled: bool,
    /// blk-mq: the request that left the elevator although the device has no tag for it.
    parked: Option<Slot>,
    wbt: Option<Wbt>,
}

impl Queue {
    /// Returns the queue of this disk under kernels with one queue per device. `rng` draws the
    /// properties that differ between runs (the speed of a used stick).
    pub fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
        Self::with_form(spec, params, Form::default(), rng)
    }

    /// Returns the queue of this disk in the form that a policy gives it.
    pub fn with_form(spec: &DiskSpec, params: &Params, form: Form, rng: &mut Rng) -> Self {
        let device = Device::new(spec, params, rng).for_cpus(form.cpus);
        let scheduler = spec.scheduler();
        let limits = form.limits(&device, scheduler, params);
        let registered = form.registered(&device);
        let list = if form.multi {
            RequestList::of_tags(limits, registered, scheduler)
        } else {
            RequestList::new(limits, scheduler)
        };
        let limits = *list.limits();
        let rotates = spec.kind.about().rotates;
        let slots = 2 * limits.most;
        let idle = Request {
            block: 0,
            end: 0,
            submitted: 0,
            first_bio: NO_BIO,
            last_bio: NO_BIO,
            dir: Dir::Read,
            class: Class::Sync,
        };
        Self {
            elevator: Elevator::new(limits.most as usize, scheduler, form, params),
            requests: vec![idle; slots as usize],
            free_slots: (0..slots).rev().collect(),
            bios: Vec::with_capacity(slots as usize),
            free_bio: NO_BIO,
            max_request_blocks: device.max_request_blocks(),
            capacity_blocks: spec.capacity.pages(),
            device,
            stats: Stats::default(),
            multi: form.multi,
            scheduled: scheduler != Scheduler::None,
            parked: None,
            wbt: form
                .throttled
                .then(|| Wbt::new(registered, slots as usize, rotates).with_ticks(form.ticks)),
            list,
        }
    }

    /// Returns the most blocks that a request, and so a bio, may have.
    pub fn max_request_blocks(&self) -> u32 {
        self.max_request_blocks
    }

    /// Returns the number of 4 KiB blocks on the device.
    pub fn capacity_blocks(&self) -> u64 {
        self.capacity_blocks
    }

    /// Returns the request limits, for [`IoContext::woken`].
    pub fn limits(&self) -> &Limits {
        self.list.limits()
    }

    /// Returns the congestion flag of a class.
    pub fn congested(&self, class: Class) -> bool {
        self.list.congested(class)
    }

    /// Returns true if a class is marked full.
    pub fn full(&self, class: Class) -> bool {
        self.list.full(class)
    }

    /// Returns the class that a bio counts against and is sorted in.
    pub fn class_of(&self, bio: &Bio) -> Class {
        match bio.dir {
            _ if !self.multi => bio.class(),
            Dir::Read => Class::Sync,
            Dir::Write => Class::Async,
        }
    }

    /// Tells the writeback throttle that a task that dirtied pages of this device was put to sleep.
    pub fn dirtier_sleeps(&mut self, now: u64) {
        if let Some(wbt) = &mut self.wbt {
            wbt.dirtier_sleeps(now);
        }
    }

    /// Tells the writeback throttle (wbt), if there is one, of a write at `now` (ns) that did not
    /// pass through this queue: the throttle's windows are measured from then on.
    pub fn wrote(&mut self, now: u64) {
        if let Some(wbt) = &mut self.wbt {
            wbt.wrote(now);
        }
    }

    /// Returns the class whose FIFO of sleepers a task joins when it must wait for a request of
    /// `class`.
    pub fn sleeps_as(&self, class: Class) -> Class {
        self.list.sleeps_as(class)
    }

    /// Returns how many requests of a class are queued or in service: the count behind congestion.
    pub fn in_flight(&self, class: Class) -> u32 {
        self.list.count(class)
    }

    /// Returns how many requests the device works on.
    pub fn in_service(&self) -> u32 {
        self.device.in_service()
    }

    /// Returns true if no request is queued or in service.
    pub fn is_idle(&self) -> bool {
        Class::ALL.iter().all(|&class| self.in_flight(class) == 0)
    }

    /// Returns the totals since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Panics if a bio is empty, longer than a request, or reaches beyond the end of the device.
    fn check(&self, bio: &Bio) {
        assert!(
            bio.blocks > 0 && bio.blocks <= self.max_request_blocks,
            "a bio has 1 to {} blocks, not {}",
            self.max_request_blocks,
            bio.blocks
        );
        assert!(
            bio.end() <= self.capacity_blocks,
            "blocks {}..{} are beyond the end of a device of {} blocks",
            bio.block,
            bio.end(),
            self.capacity_blocks
        );
    }

    fn fits(&self, slot: Slot, bio: &Bio) -> bool {
        let request = &self.requests[slot as usize];
        request.dir == bio.dir && request.blocks() + bio.blocks <= self.max_request_blocks
    }

    /// Returns the queued request that the bio would extend at its end, and the request behind that
    /// one, which the extended request may then touch. `None`: no request fits.
    fn back_merge(&self, bio: &Bio) -> Option<(Slot, Option<Slot>)> {
        let (before, after) = self.elevator.around(self.class_of(bio), bio.block);
        let slot = before?;
        let fits = self.requests[slot as usize].end == bio.block && self.fits(slot, bio);
        fits.then_some((slot, after))
    }

    /// Returns the queued request that the bio would extend at its front.
    fn front_merge(&self, bio: &Bio) -> Option<Slot> {
        let slot = self.elevator.starting_at(self.class_of(bio), bio.end())?;
        self.fits(slot, bio).then_some(slot)
    }

    /// Returns true if the bio would extend a queued request and so needs none of its own.
    pub fn may_merge(&self, bio: &Bio) -> bool {
        self.back_merge(bio).is_some() || self.front_merge(bio).is_some()
    }

    /// Submits a bio for the task whose context with this queue is `task`.
    ///
    /// # Panics
    /// If the bio is empty, longer than a request, or reaches beyond the end of the device.
    pub fn submit(&mut self, now: u64, task: &mut IoContext, bio: Bio) -> Submit {
        let answer = self.submit_plugged(now, task, None, bio);
        if let Submit::Plugged(slot) = answer {
            self.insert(now, task, slot);
            return Submit::Queued;
        }
        answer
    }

    /// Submits a bio like [`Self::submit`], for a task that gathers requests in a plug before the
    /// scheduler sees them (`current->plug`). `last` is the plug's youngest request, which the bio
    /// may extend. A new request stays invisible to the scheduler until [`Self::unplug`].
    ///
    /// # Panics
    /// Panics under the conditions of [`Self::submit`].
    pub fn submit_plugged(
        &mut self,
        now: u64,
        task: &mut IoContext,
        last: Option<Slot>,
        bio: Bio,
    ) -> Submit {
        self.check(&bio);
        if let Some(slot) = last
            && self.extend_plugged(slot, &bio)
        {
            let mut wake = Wake::default();
            self.give_back(now, task, &bio, &mut wake);
            return Submit::Merged(wake);
        }
        if let Some(wake) = self.try_merge(now, task, &bio) {
            return Submit::Merged(wake);
        }
        let class = self.class_of(&bio);
        if !task.has_token {
            if let Some(wbt) = &mut self.wbt
                && let Err(kind) = wbt.ask(now, task.owner(), &bio)
            {
                return Submit::Throttled(kind);
            }
            task.has_token = self.wbt.is_some();
        }
        if self.list.admit(now, class, task) == Admission::Wait {
            self.stats.blocked[class.index()] += 1;
            return Submit::WouldBlock;
        }
        task.has_token = false;
        let node = self.new_bio(&bio);
        let slot = self
            .free_slots
            .pop()
            .expect("no more requests are granted than there are");
        self.requests[slot as usize] = Request {
            block: bio.block,
            end: bio.end(),
            submitted: now,
            first_bio: node,
            last_bio: node,
            dir: bio.dir,
            class,
        };
        if let Some(wbt) = &mut self.wbt {
            wbt.queued(slot, &bio);
        }
        Submit::Plugged(slot)
    }

    /// Hands a task's request to the scheduler.
    fn insert(&mut self, now: u64, task: &IoContext, slot: Slot) {
        let request = &self.requests[slot as usize];
        let place = Place {
            block: request.block,
            end: request.end,
        };
        self.elevator
            .insert(now, request.class, task.owner(), place, slot);
    }

    /// Hands the throttle token back, if the task holds one: a bio that was merged needs none.
    fn give_back(&mut self, now: u64, task: &mut IoContext, bio: &Bio, wake: &mut Wake) {
        let had_token = std::mem::take(&mut task.has_token);
        if let Some(wbt) = &mut self.wbt {
            wbt.merged(now, task.owner(), had_token, bio, &mut wake.tokens);
        }
    }

    /// Extends a queued request by the bio if one fits; returns `None` if none does.
    fn try_merge(&mut self, now: u64, task: &mut IoContext, bio: &Bio) -> Option<Wake> {
        let mut wake = if let Some((slot, after)) = self.back_merge(bio) {
            self.merge_back(now, slot, after, bio)
        } else {
            let slot = self.front_merge(bio)?;
            self.merge_front(now, slot, bio)
        };
        self.give_back(now, task, bio, &mut wake);
        Some(wake)
    }

    /// Stores a bio in a free node of the slab; returns the node's index.
    fn new_bio(&mut self, bio: &Bio) -> u32 {
        let node = BioNode {
            tag: bio.tag,
            next: NO_BIO,
            blocks: bio.blocks,
            sync: bio.sync,
        };
        if self.free_bio == NO_BIO {
            self.bios.push(node);
            return u32::try_from(self.bios.len() - 1).expect("fewer bios than 32 bits can name");
        }
        let at = self.free_bio;
        self.free_bio = self.bios[at as usize].next;
        self.bios[at as usize] = node;
        at
    }

    /// Adds a bio at the end of a request that it touches and fits.
    fn append(&mut self, slot: Slot, bio: &Bio) {
        self.stats.merges[bio.dir.index()] += 1;
        let node = self.new_bio(bio);
        let request = &mut self.requests[slot as usize];
        self.bios[request.last_bio as usize].next = node;
        request.last_bio = node;
        request.end = bio.end();
    }

    /// Adds a bio at the front of a request that it touches and fits; returns the request's old
    /// first block.
    fn prepend(&mut self, slot: Slot, bio: &Bio) -> u64 {
        self.stats.merges[bio.dir.index()] += 1;
        let node = self.new_bio(bio);
        let request = &mut self.requests[slot as usize];
        self.bios[node as usize].next = request.first_bio;
        request.first_bio = node;
        std::mem::replace(&mut request.block, bio.block)
    }

    /// Adds a bio at a request's end, and joins the request with the next one, `after`, if they now
    /// touch.
    fn merge_back(&mut self, now: u64, slot: Slot, after: Option<Slot>, bio: &Bio) -> Wake {
        self.append(slot, bio);
        let class = self.requests[slot as usize].class;
        self.elevator.extended(class, bio.block);
        self.elevator.grew(class, slot, bio.end());
        after.map_or_else(Wake::default, |after| self.try_join(now, slot, after))
    }

    /// Adds a bio at a request's front, and joins the request into the one before it if they now
    /// touch.
    fn merge_front(&mut self, now: u64, slot: Slot, bio: &Bio) -> Wake {
        let old_block = self.prepend(slot, bio);
        let class = self.requests[slot as usize].class;
        self.elevator.moved(class, old_block, bio.block, slot);
        self.join_in_front(now, slot)
    }

    /// Joins a queued request into the one before it, if the two touch and fit.
    fn join_in_front(&mut self, now: u64, slot: Slot) -> Wake {
        let request = &self.requests[slot as usize];
        let before = self.elevator.in_front(request.class, request.block, slot);
        before.map_or_else(Wake::default, |before| self.try_join(now, before, slot))
    }

    /// Joins two neighbouring requests into the first if they touch and fit, which frees the second
    /// (Linux: `attempt_merge`). Returns the tasks to wake for the freed one.
    fn try_join(&mut self, now: u64, first: Slot, second: Slot) -> Wake {
        let (a, b) = (
            self.requests[first as usize],
            self.requests[second as usize],
        );
        let mut wake = Wake::default();
        if a.end != b.block || a.dir != b.dir || a.blocks() + b.blocks() > self.max_request_blocks {
            return wake;
        }
        self.stats.joins[a.dir.index()] += 1;
        self.bios[a.last_bio as usize].next = b.first_bio;
        let kept = &mut self.requests[first as usize];
        kept.last_bio = b.last_bio;
        kept.end = b.end;
        kept.submitted = a.submitted.min(b.submitted);
        self.elevator.merged(a.class, first, second, b.block);
        self.free_slots.push(second);
        self.list.free(a.class, &mut wake);
        if let Some(wbt) = &mut self.wbt {
            wbt.joined(now, second, &mut wake.tokens);
        }
        wake
    }

    /// Starts as many requests as the device takes. Returns the time at which to call
    /// [`Self::complete`] and then `dispatch` again: the earliest of the next completion, the end
    /// of the scheduler's idling for a reader, and the end of the throttle's window. `None` if
    /// there is none of these.
    pub fn dispatch(&mut self, now: u64, rng: &mut Rng) -> Option<u64> {
        let mut idle_until = None;
        while self.in_service() < self.device.depth() {
            if let Some(slot) = self.parked.take() {
                self.start(now, slot, rng);
                continue;
            }
            match self.next(now) {
                Next::Request(_, slot) => self.start(now, slot, rng),
                Next::Nothing => break,
                Next::Wait(until) => {
                    idle_until = Some(until);
                    break;
                }
            }
        }
        // blk-mq looks for a tag after taking a request from the scheduler, and keeps the request
        // if there is none.
        if self.multi
            && self.parked.is_none()
            && self.in_service() >= self.device.depth()
            && let Next::Request(_, slot) = self.next(now)
        {
            self.parked = Some(slot);
        }
        let window_end = self.wbt.as_ref().and_then(Wbt::timer);
        [self.next_completion(), idle_until, window_end]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes the next request to serve from the elevator.
    fn next(&mut self, now: u64) -> Next {
        let place = |slot: Slot| {
            let r = &self.requests[slot as usize];
            Place {
                block: r.block,
                end: r.end,
            }
        };
        self.elevator.next(now, place)
    }

    /// Hands a request that was taken out of the elevator to the device.
    fn start(&mut self, now: u64, slot: Slot, rng: &mut Rng) {
        let choices = self.elevator.places().unwrap_or(self.in_service() + 1);
        let request = &self.requests[slot as usize];
        let transfer = Transfer {
            dir: request.dir,
            block: request.block,
            blocks: request.blocks(),
        };
        if let Some(wbt) = &mut self.wbt {
            wbt.issued(now, slot, transfer.dir);
        }
        self.device.start(now, &transfer, choices, slot, rng);
    }

    /// Returns when the next request in service ends.
    pub fn next_completion(&self) -> Option<u64> {
        self.device.next_completion()
    }

    /// Ends every request that is due, appending a [`Done`] for each of its bios to `out`. Call
    /// [`Self::dispatch`] afterwards, as the device may then take more requests.
    pub fn complete(&mut self, now: u64, out: &mut Vec<Done>) -> Wake {
        let mut wake = Wake::default();
        while let Some(ended) = self.device.end(now) {
            wake.restart = self.parked.is_some();
            self.end_request(ended, out, &mut wake);
        }
        self.stats.busy_ns = self.device.busy_ns();
        if let Some(wbt) = &mut self.wbt {
            wbt.tick(now, &mut wake.tokens);
        }
        wake
    }

    /// Counts a request that the device ended, adds a [`Done`] for each of its bios to `out`, and
    /// frees it.
    fn end_request(&mut self, ended: Ended, out: &mut Vec<Done>, wake: &mut Wake) {
        let Ended {
            finish,
            slot,
            error,
        } = ended;
        let request = self.requests[slot as usize];
        self.elevator.ended(finish, request.class, slot);
        let dir_index = request.dir.index();
        self.stats.requests[dir_index] += 1;
        // The submitter's CPU clock may be ahead of the CPU that started and ended the request, on
        // slow CPUs by more than a fast device takes.
        self.stats.wait_ns[dir_index] += finish.saturating_sub(request.submitted);
        match error {
            Some(_) => self.stats.errors[dir_index] += 1,
            None => self.stats.blocks[dir_index] += u64::from(request.blocks()),
        }
        let mut bio_index = request.first_bio;
        while bio_index != NO_BIO {
            let node = &mut self.bios[bio_index as usize];
            out.push(Done {
                tag: node.tag,
                dir: request.dir,
                sync: node.sync,
                blocks: node.blocks,
                error,
            });
            self.stats.bios[dir_index] += 1;
            let next = std::mem::replace(&mut node.next, self.free_bio);
            self.free_bio = bio_index;
            bio_index = next;
        }
        self.free_slots.push(slot);
        self.list.free(request.class, wake);
        if let Some(wbt) = &mut self.wbt {
            wbt.ended(finish, slot, request.dir, &mut wake.tokens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::IoError;
    use crate::spec::{DiskKind, Fault, Size};

    const S: u64 = 1_000_000_000;

    pub fn queue(kind: DiskKind, faults: Vec<Fault>) -> (Queue, Rng) {
        let spec = DiskSpec {
            kind,
            capacity: Size(16 << 30),
            members: None,
            params: Default::default(),
            scheduler: Default::default(),
            faults,
        };
        let mut rng = Rng::new(1, "test");
        (Queue::new(&spec, &Params::default(), &mut rng), rng)
    }

    pub fn write(tag: u64, block: u64, blocks: u32) -> Bio {
        Bio {
            tag,
            dir: Dir::Write,
            sync: false,
            block,
            blocks,
            purpose: Default::default(),
        }
    }

    pub fn tags(q: &mut Queue, now: u64) -> Vec<u64> {
        let mut out = Vec::new();
        q.complete(now, &mut out);
        out.iter().map(|d| d.tag).collect()
    }

    #[test]
    fn slots_are_as_small_as_the_module_says() {
        assert_eq!((size_of::<Request>(), size_of::<BioNode>()), (40, 24));
    }

    #[test]
    fn bios_merge_at_both_ends_and_close_gaps() {
        let (mut q, mut rng) = queue(DiskKind::Disk, vec![]);
        let mut task = IoContext::default();
        assert_eq!(q.submit(0, &mut task, write(1, 10, 2)), Submit::Queued);
        assert!(q.may_merge(&write(2, 12, 1)) && q.may_merge(&write(2, 9, 1)));
        assert!(!q.may_merge(&Bio {
            dir: Dir::Read,
            ..write(2, 12, 1)
        }));
        assert!(!q.may_merge(&Bio {
            sync: true,
            ..write(2, 12, 1)
        }));
        assert!(matches!(
            q.submit(0, &mut task, write(2, 12, 1)),
            Submit::Merged(_)
        ));
        assert!(matches!(
            q.submit(0, &mut task, write(3, 9, 1)),
            Submit::Merged(_)
        ));
        assert_eq!(q.submit(0, &mut task, write(4, 14, 1)), Submit::Queued);
        assert_eq!(q.in_flight(Class::Async), 2);
        let Submit::Merged(wake) = q.submit(0, &mut task, write(5, 13, 1)) else {
            panic!()
        };
        assert_eq!((q.in_flight(Class::Async), wake.requests), (1, [0, 1]));
        let due = q.dispatch(0, &mut rng).unwrap();
        assert_eq!(tags(&mut q, due), [3, 1, 2, 5, 4]);
        assert!(q.is_idle());
    }

    #[test]
    fn requests_stop_growing_at_the_devices_limit() {
        for (kind, blocks) in [(DiskKind::Disk, 128u64), (DiskKind::UsbFlash, 30)] {
            let (mut q, _) = queue(kind, vec![]);
            let mut task = IoContext::default();
            for b in 0..blocks {
                q.submit(0, &mut task, write(b, b, 1));
            }
            assert_eq!(q.in_flight(Class::Async), 1);
            q.submit(0, &mut task, write(0, blocks, 1));
            assert_eq!(q.in_flight(Class::Async), 2);
        }
    }

    #[test]
    fn single_pages_congest_early_and_streams_late() {
        let congested_after = |step: u64| {
            let (mut q, _) = queue(DiskKind::Disk, vec![]);
            let mut task = IoContext::default();
            let pages = (0..).take_while(|&i| {
                q.submit(0, &mut task, write(i, i * step, 1));
                !q.congested(Class::Async)
            });
            pages.count() as u64 + 1
        };
        assert_eq!(congested_after(2), 113);
        assert_eq!(congested_after(1), 112 * 128 + 1);
    }

    #[test]
    fn a_full_queue_blocks_and_a_completion_lets_one_in() {
        let (mut q, mut rng) = queue(DiskKind::Disk, vec![]);
        let (mut a, mut b) = (IoContext::default(), IoContext::default());
        let mut blocked_at = 0;
        for i in 0.. {
            if q.submit(0, &mut a, write(i, i * 2, 1)) == Submit::WouldBlock {
                blocked_at = i;
                break;
            }
        }
        assert_eq!(blocked_at, 127 + 32);
        assert_eq!(q.submit(0, &mut b, write(0, 9999, 1)), Submit::WouldBlock);
        let (mut now, mut woken, mut out) = (0, 0, Vec::new());
        while woken == 0 {
            now = q.dispatch(now, &mut rng).unwrap();
            woken = q.complete(now, &mut out).requests[1];
        }
        assert_eq!((woken, q.in_flight(Class::Async)), (1, 127));
        b.woken(now, q.limits());
        assert_eq!(q.submit(now, &mut b, write(0, 9999, 1)), Submit::Queued);
        assert_eq!(q.stats().blocked, [0, 2]);
    }

    #[test]
    fn faults_reach_the_bios() {
        let (mut q, mut rng) = queue(
            DiskKind::Disk,
            vec![
                Fault::WriteError {
                    at_s: 1.0,
                    for_s: 1.0,
                },
                Fault::Stall {
                    at_s: 3.0,
                    for_s: 2.0,
                },
                Fault::Stop { at_s: 6.0 },
            ],
        );
        let mut at = |now, dir| {
            let mut task = IoContext::default();
            q.submit(
                now,
                &mut task,
                Bio {
                    dir,
                    ..write(7, 1000, 1)
                },
            );
            let due = q.dispatch(now, &mut rng).unwrap();
            let mut out = Vec::new();
            q.complete(due, &mut out);
            assert_eq!(out.len(), 1);
            (due, out[0].error)
        };
        assert_eq!(at(0, Dir::Write).1, None);
        assert_eq!(at(S, Dir::Write).1, Some(IoError::WriteFailed));
        assert_eq!(at(S + S / 2, Dir::Read).1, None);
        let (due, error) = at(4 * S, Dir::Write);
        assert!((5 * S..6 * S).contains(&due) && error.is_none());
        assert_eq!(at(7 * S, Dir::Read), (37 * S, Some(IoError::DeviceGone)));
        assert_eq!(
            at(40 * S, Dir::Read),
            (40 * S + 10_000, Some(IoError::DeviceGone))
        );
        assert_eq!(q.stats().errors, [2, 1]);
        assert_eq!(q.stats().blocks, [1, 2]);
    }

    #[test]
    fn busy_time_is_the_union_of_service() {
        let (mut q, mut rng) = queue(DiskKind::Ssd, vec![]);
        let mut task = IoContext::default();
        let mut expected = 0;
        for start in [0, S, 2 * S] {
            for i in 0..10 {
                q.submit(
                    start,
                    &mut task,
                    Bio {
                        dir: Dir::Read,
                        ..write(i, i * 100, 1)
                    },
                );
            }
            let mut now = start;
            while let Some(due) = q.dispatch(now, &mut rng) {
                now = due;
                tags(&mut q, now);
            }
            expected += now - start;
        }
        assert_eq!(q.stats().busy_ns, expected);
        assert_eq!(q.stats().requests, [30, 0]);
    }
}
