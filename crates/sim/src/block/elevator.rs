//! The order of service: a single-queue elevator in the manner of Linux's deadline scheduler, with
//! classes in the place of directions.
//!
//! - Synchronous requests pass asynchronous ones, but at most `starved` batches in a row.
//! - Within a class requests are served in ascending block order from where the class's last
//!   request ended, and from the lowest block again after the highest: one way, so that no request
//!   is passed twice in a sweep.
//! - A batch is up to `fifo_batch` requests in that order. Before each batch the elevator checks
//!   the oldest request of the class; if that one has expired, the sweep continues from there.
//!
//! With `scheduler = "deadline"` all of this applies; a single writer or reader can't tell it from
//! CFQ. Under `request_queue = "multi"` the elevator is mq-deadline: the classes are reads and
//! writes, and after the highest block the oldest request is next. With `"cfq"`, [`super::cfq`]
//! decides which owner's turn it is, and only the order of one owner's requests is decided here.
//! With `"none"` requests are served in the order of arrival, and the sorted list is used for
//! merging alone.

use super::Class;
use super::cfq::{Cfq, Choice, Owner};
use super::form::Form;
use crate::params::Params;
use crate::spec::Scheduler;
use std::collections::VecDeque;

/// Index of a request in the queue's table.
pub type Slot = u32;

/// First block of a request and the block after its last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub block: u64,
    pub end: u64,
}

/// A queued request in order of age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    slot: Slot,
    expires: u64,
    /// Number of the request in order of arrival at this device, over both classes.
    arrived: u64,
}

/// The queued requests of one class.
#[derive(Debug, Clone)]
struct ClassQueue {
    /// Sorted by first block; equal blocks in the order of arrival. A hundred entries at most in
    /// common use, so moving the tail beats a tree.
    sorted: Vec<(u64, Slot)>,
    /// In order of age. Merging, and serving out of age order, remove from the middle.
    fifo: VecDeque<Waiting>,
    expire_ns: u64,
    /// The block at which the last served request ended.
    position: u64,
    /// The index after the request that was last added or extended, where a stream's next bio
    /// belongs.
    hint: usize,
}

impl ClassQueue {
    /// Returns the index of the first entry of the sorted list that starts at or after `block`.
    /// Looks first where the last request was added or extended, because a stream's next bio
    /// belongs there; then searches by halves.
    fn lower_bound(&self, block: u64) -> usize {
        let hint = self.hint;
        let starts_before = |i: usize| self.sorted[i].0 < block;
        if hint <= self.sorted.len()
            && (hint == 0 || starts_before(hint - 1))
            && (hint == self.sorted.len() || !starts_before(hint))
        {
            return hint;
        }
        self.sorted.partition_point(|e| e.0 < block)
    }

    /// Returns the index in the sorted list of a queued request that starts at `block`.
    ///
    /// # Panics
    /// If the request is not queued.
    fn index_of(&self, block: u64, slot: Slot) -> usize {
        let first = self.lower_bound(block);
        let offset = self.sorted[first..].iter().position(|e| e.1 == slot);
        first + offset.expect("a queued request is in the sorted list")
    }

    /// Inserts a request into the sorted list, behind those that start at the same block.
    fn insert_sorted(&mut self, block: u64, slot: Slot) {
        let at = self.sorted.partition_point(|e| e.0 <= block);
        self.sorted.insert(at, (block, slot));
        self.hint = at + 1;
    }

    /// Returns the place of a queued request in the order of age, 0 for the oldest.
    ///
    /// # Panics
    /// If the request is not queued.
    fn fifo_index(&self, slot: Slot) -> usize {
        self.fifo
            .iter()
            .position(|w| w.slot == slot)
            .expect("a queued request is in the fifo")
    }
}

/// The queued requests of one device.
#[derive(Debug, Clone)]
pub(super) struct Elevator {
    classes: [ClassQueue; 2],
    fifo_batch: u32,
    starved_limit: u32,
    batch_class: Class,
    batched: u32,
    starved: u32,
    cfq: Option<Cfq>,
    /// True if requests are served in order of arrival.
    in_order: bool,
    /// True if a sweep restarts at the oldest request instead of the lowest block (mq-deadline).
    from_oldest: bool,
    /// Number of requests that have arrived so far.
    arrivals: u64,
    /// The owner of each slot's request.
    owners: Vec<Owner>,
}

/// The result of [`Elevator::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Serve this request, which was taken out of the elevator.
    Request(Class, Slot),
    /// Serve nothing before this time, unless a request arrives or ends.
    Wait(u64),
    /// Serve nothing before a request arrives or ends.
    Nothing,
}

impl Elevator {
    /// Returns an empty elevator for at most `capacity` requests per class. `form` says whether it
    /// is one of blk-mq (mq-deadline), and which readers CFQ idles for.
    pub fn new(capacity: usize, scheduler: Scheduler, form: Form, params: &Params) -> Self {
        let multi = form.multi;
        let class = |expire: f64| ClassQueue {
            sorted: Vec::with_capacity(capacity),
            fifo: VecDeque::with_capacity(capacity),
            expire_ns: expire as u64,
            position: 0,
            hint: 0,
        };
        let fifo_batch = params.fifo_batch as u32;
        Self {
            classes: [class(params.read_expire), class(params.write_expire)],
            fifo_batch,
            starved_limit: params.writes_starved as u32,
            batch_class: Class::Sync,
            batched: fifo_batch,
            starved: 0,
            cfq: (scheduler == Scheduler::Cfq && !multi).then(|| Cfq::new(params, form.idling)),
            in_order: scheduler == Scheduler::None,
            from_oldest: multi,
            arrivals: 0,
            owners: vec![0; 2 * capacity],
        }
    }

    /// Tells CFQ that a request in service has ended.
    pub fn ended(&mut self, now: u64, class: Class, slot: Slot) {
        if let Some(cfq) = &mut self.cfq {
            cfq.ended(now, class, self.owners[slot as usize]);
        }
    }

    /// Returns how many places the device can choose among; `None` if the scheduler does not know.
    pub fn places(&self) -> Option<u32> {
        self.cfq.as_ref().map(Cfq::places)
    }

    /// Tells CFQ that a queued request now ends at `end`.
    pub fn grew(&mut self, class: Class, slot: Slot, end: u64) {
        if let Some(cfq) = &mut self.cfq {
            cfq.grew(class, self.owners[slot as usize], end);
        }
    }

    /// Returns the number of queued requests of a class.
    pub fn len(&self, class: Class) -> usize {
        self.classes[class.index()].sorted.len()
    }

    /// Adds a new request of the task `owner`, which covers `place`, to the sorted list and to the
    /// order of age.
    pub fn insert(&mut self, now: u64, class: Class, owner: Owner, place: Place, slot: Slot) {
        let block = place.block;
        self.owners[slot as usize] = owner;
        if let Some(cfq) = &mut self.cfq {
            cfq.insert(now, class, owner, block, place.end);
        }
        self.arrivals += 1;
        let queue = &mut self.classes[class.index()];
        queue.insert_sorted(block, slot);
        queue.fifo.push_back(Waiting {
            slot,
            expires: now + queue.expire_ns,
            arrived: self.arrivals,
        });
    }

    /// Returns the last request that starts before `block`, the only one that a bio at `block` can
    /// extend at its end, and the request after that one in block order; `None` for each that does
    /// not exist.
    pub fn around(&self, class: Class, block: u64) -> (Option<Slot>, Option<Slot>) {
        let queue = &self.classes[class.index()];
        let at = queue.lower_bound(block);
        let get = |i: usize| queue.sorted.get(i).map(|e| e.1);
        (at.checked_sub(1).and_then(get), get(at))
    }

    /// Returns the first request that starts at `block`, if any.
    pub fn starting_at(&self, class: Class, block: u64) -> Option<Slot> {
        let queue = &self.classes[class.index()];
        let entry = queue.sorted.get(queue.lower_bound(block))?;
        (entry.0 == block).then_some(entry.1)
    }

    /// Returns the request before a queued one in block order; `None` if that is the first.
    pub fn in_front(&self, class: Class, block: u64, slot: Slot) -> Option<Slot> {
        let queue = &self.classes[class.index()];
        let at = queue.index_of(block, slot);
        at.checked_sub(1).map(|i| queue.sorted[i].1)
    }

    /// Notes that a bio at `block` extended the request before it, so that the next lookup for a
    /// stream starts there.
    pub fn extended(&mut self, class: Class, block: u64) {
        let queue = &mut self.classes[class.index()];
        queue.hint = queue.lower_bound(block);
    }

    /// Keeps the sorted list in order after a request grew at its front: its first block changed
    /// from `old_block` to `new_block`.
    pub fn moved(&mut self, class: Class, old_block: u64, new_block: u64, slot: Slot) {
        let queue = &mut self.classes[class.index()];
        let at = queue.index_of(old_block, slot);
        let keeps_place = at
            .checked_sub(1)
            .is_none_or(|i| queue.sorted[i].0 <= new_block);
        if keeps_place {
            queue.sorted[at].0 = new_block;
        } else {
            queue.sorted.remove(at);
            queue.insert_sorted(new_block, slot);
        }
    }

    /// Removes the request `gone`, which starts at `block` and became part of `kept`. `kept` takes
    /// over the age and expiry of `gone` if that is the older of the two.
    pub fn merged(&mut self, class: Class, kept: Slot, gone: Slot, block: u64) {
        let queue = &mut self.classes[class.index()];
        let at = queue.index_of(block, gone);
        queue.sorted.remove(at);
        let (kept_age, gone_age) = (queue.fifo_index(kept), queue.fifo_index(gone));
        // The list is by age: the earlier place belongs to the older request.
        queue.fifo[kept_age.min(gone_age)].slot = kept;
        queue.fifo.remove(kept_age.max(gone_age));
        if let Some(cfq) = &mut self.cfq {
            cfq.merged(class, self.owners[gone as usize]);
        }
    }

    /// Returns the class of the next batch: synchronous, unless asynchronous requests have been
    /// passed over by `starved_limit` batches in a row. `None` if nothing is queued. Keeps the
    /// count of batches passed over.
    fn pick_class(&mut self) -> Option<Class> {
        let (sync, background) = (self.len(Class::Sync) > 0, self.len(Class::Async) > 0);
        if sync && (!background || self.starved < self.starved_limit) {
            self.starved += u32::from(background);
            return Some(Class::Sync);
        }
        if background {
            self.starved = 0;
            return Some(Class::Async);
        }
        None
    }

    /// Returns the index in the sorted list of the next request in the class's sweep: the first at
    /// or behind the end of the last one served. `None` at the end of the sweep.
    fn ahead(&self, class: Class) -> Option<usize> {
        let queue = &self.classes[class.index()];
        let at = queue.sorted.partition_point(|e| e.0 < queue.position);
        (at < queue.sorted.len()).then_some(at)
    }

    /// Takes out the request to be served next, as the scheduler decides: CFQ, deadline, or the
    /// order of arrival; CFQ may want to wait instead. `place` returns the blocks of a slot's
    /// request.
    pub fn next(&mut self, now: u64, place: impl Fn(Slot) -> Place) -> Next {
        let found = match self.cfq.as_mut().map(|cfq| cfq.choose(now)) {
            None if self.in_order => self.oldest(&place),
            None => self.next_by_deadline(now, &place),
            Some(Choice::Nothing) => return Next::Nothing,
            Some(Choice::Wait(until)) => return Next::Wait(until),
            Some(Choice::Sync(owner)) => {
                let queue = &self.classes[Class::Sync.index()];
                let of_owner = |e: &&(u64, Slot)| self.owners[e.1 as usize] == owner;
                let at = queue.sorted.partition_point(|e| e.0 < queue.position);
                // The owner's next request behind the last one served, or else the owner's first.
                let ahead = queue.sorted[at..].iter().find(of_owner);
                let entry = ahead.or_else(|| queue.sorted.iter().find(of_owner));
                let &(block, slot) = entry.expect("an owner with a turn has a request");
                Some((Class::Sync, queue.index_of(block, slot)))
            }
            Some(Choice::Async { first }) => {
                let queue = &self.classes[Class::Async.index()];
                let oldest = queue.fifo.front().filter(|o| first && o.expires <= now);
                let at = match oldest {
                    Some(o) => queue.index_of(place(o.slot).block, o.slot),
                    None => self.ahead(Class::Async).unwrap_or(0),
                };
                Some((Class::Async, at))
            }
        };
        let Some((class, at)) = found else {
            return Next::Nothing;
        };
        let queue = &mut self.classes[class.index()];
        let (_, slot) = queue.sorted.remove(at);
        let fifo_index = queue.fifo_index(slot);
        queue.fifo.remove(fifo_index);
        queue.position = place(slot).end;
        if let Some(cfq) = &mut self.cfq {
            cfq.started(class, self.owners[slot as usize]);
        }
        Next::Request(class, slot)
    }

    /// Returns class and index in the sorted list of the request that arrived first, over both
    /// classes; `None` if nothing is queued.
    fn oldest(&self, place: &impl Fn(Slot) -> Place) -> Option<(Class, usize)> {
        let front = |class: Class| Some((class, *self.classes[class.index()].fifo.front()?));
        let fronts = Class::ALL.into_iter().filter_map(front);
        let (class, first) = fronts.min_by_key(|(_, w)| w.arrived)?;
        let queue = &self.classes[class.index()];
        Some((class, queue.index_of(place(first.slot).block, first.slot)))
    }

    /// Returns class and index in the sorted list of the request that the deadline scheduler serves
    /// next: the next one of the running batch or, if that is over, the first one of a new batch,
    /// which starts at the oldest request if that has expired at `now`. `None` if nothing is
    /// queued.
    fn next_by_deadline(
        &mut self,
        now: u64,
        place: &impl Fn(Slot) -> Place,
    ) -> Option<(Class, usize)> {
        let in_batch = if self.batched < self.fifo_batch {
            self.ahead(self.batch_class)
                .map(|index| (self.batch_class, index))
        } else {
            None
        };
        let (class, index) = match in_batch {
            Some(found) => found,
            None => {
                let class = self.pick_class()?;
                self.batch_class = class;
                self.batched = 0;
                let queue = &self.classes[class.index()];
                let oldest = queue
                    .fifo
                    .front()
                    .expect("a class with requests has an oldest");
                let at_oldest = || queue.index_of(place(oldest.slot).block, oldest.slot);
                let index = match self.ahead(class) {
                    _ if oldest.expires <= now => at_oldest(),
                    Some(index) => index,
                    None if self.from_oldest => at_oldest(),
                    None => 0,
                };
                (class, index)
            }
        };
        self.batched += 1;
        Some((class, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(slot: Slot) -> Place {
        Place {
            block: u64::from(slot) * 10,
            end: u64::from(slot) * 10 + 1,
        }
    }

    fn elevator() -> Elevator {
        Elevator::new(
            192,
            Scheduler::Deadline,
            Form::default(),
            &Params::default(),
        )
    }

    fn add(e: &mut Elevator, now: u64, class: Class, slot: Slot) {
        e.insert(now, class, 0, place(slot), slot);
    }

    fn serve(e: &mut Elevator, now: u64, n: usize) -> Vec<Slot> {
        (0..n)
            .map_while(|_| match e.next(now, place) {
                Next::Request(_, slot) => Some(slot),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn ascending_from_the_last_position_then_round() {
        let mut e = elevator();
        for slot in [5, 1, 9] {
            add(&mut e, 0, Class::Async, slot);
        }
        assert_eq!(serve(&mut e, 0, 1), [1]);
        add(&mut e, 0, Class::Async, 0);
        add(&mut e, 0, Class::Async, 7);
        assert_eq!(serve(&mut e, 0, 9), [5, 7, 9, 0]);
    }

    #[test]
    fn reads_pass_writes_two_batches_long() {
        let mut e = elevator();
        for slot in 0..100 {
            add(&mut e, 0, Class::Sync, slot);
            add(&mut e, 0, Class::Async, 100 + slot);
        }
        let order = serve(&mut e, 0, 96);
        let class = |r: std::ops::Range<usize>| order[r].iter().all(|&s| s < 100);
        assert!(class(0..32) && !class(32..48) && order[32..48].iter().all(|&s| s >= 100));
        assert!(class(48..80) && order[80..96].iter().all(|&s| s >= 100));
    }

    #[test]
    fn an_expired_request_starts_the_next_batch() {
        let mut e = elevator();
        add(&mut e, 0, Class::Async, 300);
        for slot in 0..60 {
            add(&mut e, 4_000_000_000, Class::Async, slot);
        }
        let order = serve(&mut e, 5_000_000_000, 3);
        assert_eq!(order, [300, 0, 1]);
    }

    #[test]
    fn merged_requests_keep_the_older_age() {
        let mut e = elevator();
        for (now, slot) in [(0, 2), (1, 5), (2, 1)] {
            add(&mut e, now, Class::Async, slot);
        }
        e.merged(Class::Async, 1, 2, place(2).block);
        assert_eq!(e.len(Class::Async), 2);
        assert_eq!(serve(&mut e, 5_000_000_000, 2), [1, 5]);
    }
}
