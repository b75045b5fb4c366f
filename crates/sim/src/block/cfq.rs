//! Which owner's request is served next: a scheduler in the manner of Linux 3.0's CFQ
//! (`block/cfq-iosched.c`).
//!
//! - Every task that reads, or writes synchronously, has a queue; asynchronous writes share one.
//!   Queues take turns. A turn is a time slice: [`Params::cfq_slice_sync`] or less where many take
//!   turns, [`Params::cfq_slice_async`] and [`Params::cfq_async_requests`] for the shared one.
//! - The disk idles for a reader that has nothing queued ([`Params::cfq_slice_idle`]), because its
//!   next request most likely lies behind its last one. The disk does not idle for a reader that
//!   thinks longer than that or whose requests lie apart, unless the reader is the last such one
//!   with work to do (`cfq_idling`).
//! - A synchronous request ends the turn of the asynchronous queue. Asynchronous requests wait
//!   until the device is drained of synchronous ones, and a reader for which the disk idles waits
//!   until it is drained of asynchronous ones (`cfq_may_dispatch`).
//!
//! Left out: priorities, groups, cooperating queues, and the slow growth of the depth of
//! asynchronous writes while there are readers.

use super::Class;
use crate::params::Params;
use mm::policy::CfqIdling;
use std::collections::VecDeque;

/// Requests further apart than this many blocks are a seek; Linux: `CFQQ_SEEK_THR`, 800 sectors.
const SEEK_BLOCKS: u64 = 100;
/// Nanoseconds that all queues share when many take turns; Linux: `cfq_target_latency`.
const TARGET_LATENCY: u64 = 300_000_000;

/// Number of the task that submitted a request.
pub(super) type Owner = u16;

/// The synchronous queue of one owner; bit `n` of `seeks` tells whether the request `n` before the
/// last was a seek.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    queued: u32,
    in_flight: u32,
    waits_for_turn: bool,
    position: u64,
    seeks: u32,
    think: ThinkTime,
}

/// How long a task takes from the end of one request to the submission of the next.
#[derive(Debug, Clone, Copy, Default)]
struct ThinkTime {
    /// Mean in ns times 256, over `samples` (at most 256 · 7/8 of them).
    sum: u64,
    samples: u64,
    last_end: u64,
}

impl ThinkTime {
    /// Adds a sample to the mean think time when a request arrives at `now`: the nanoseconds since
    /// the reader's last request ended. Think times above two idle windows (`idle`, ns) count as
    /// two. Each sample lowers the weight of the older ones to 7/8.
    fn add_sample(&mut self, now: u64, idle: u64) {
        let think_ns = now.saturating_sub(self.last_end).min(2 * idle);
        self.samples = (7 * self.samples + 256) / 8;
        self.sum = (7 * self.sum + 256 * think_ns) / 8;
    }

    /// Returns true if the think time is known to be longer than the idle window.
    fn is_long(&self, idle: u64) -> bool {
        self.samples > 80 && self.sum / self.samples > idle
    }
}

/// The queue whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Sync(Owner),
    Async,
}

/// The next step of the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Serve a request of this owner.
    Sync(Owner),
    /// Serve an asynchronous request; `first` if it is the first one of a turn.
    Async { first: bool },
    /// Serve nothing before this time, unless a request arrives or ends.
    Wait(u64),
    /// Serve nothing before a request arrives or ends.
    Nothing,
}

/// The queues and whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct Cfq {
    queues: Vec<Queue>,
    /// Synchronous queues with requests, and the asynchronous queue, in the order of their next
    /// turns.
    ring: VecDeque<Turn>,
    active: Option<Turn>,
    slice_end: u64,
    idle_until: Option<u64>,
    async_queued: u32,
    async_waits: bool,
    async_left: u32,
    in_flight: [u32; 2],
    /// Synchronous queues with requests at the device.
    streams: u32,
    slice_sync: u64,
    slice_async: u64,
    slice_idle: u64,
    async_requests: u32,
    /// The disk does not idle for a queue with more seeks than this among its last 32 requests.
    seeky: u32,
    idling: CfqIdling,
    /// Think time over all queues without an idle window of their own (the kernel's service tree of
    /// these).
    think: ThinkTime,
}

impl Cfq {
    /// Creates a scheduler without requests. `idling`: which readers the disk idles for; the slices
    /// and limits are model parameters.
    pub fn new(p: &Params, idling: CfqIdling) -> Self {
        Self {
            idling,
            think: ThinkTime::default(),
            queues: Vec::new(),
            ring: VecDeque::new(),
            active: None,
            slice_end: 0,
            idle_until: None,
            async_queued: 0,
            async_waits: false,
            async_left: 0,
            in_flight: [0; 2],
            streams: 0,
            slice_sync: p.cfq_slice_sync as u64,
            slice_async: p.cfq_slice_async as u64,
            slice_idle: p.cfq_slice_idle as u64,
            async_requests: p.cfq_async_requests as u32,
            seeky: p.cfq_seeky as u32,
        }
    }

    /// Returns the synchronous queue of a task, which comes into being at its first use.
    fn queue(&mut self, owner: Owner) -> &mut Queue {
        let number = usize::from(owner);
        if number >= self.queues.len() {
            self.queues.resize(number + 1, Queue::default());
        }
        &mut self.queues[number]
    }

    /// Notes a newly queued request of `owner` from `block` to `end`: updates the reader's think
    /// time and seeks, and lines its queue up for a turn. A synchronous request ends the
    /// asynchronous turn, or the idling for a last reader without an idle window, and is then next.
    pub fn insert(&mut self, now: u64, class: Class, owner: Owner, block: u64, end: u64) {
        if class == Class::Async {
            self.async_queued += 1;
            if !self.async_waits && self.active != Some(Turn::Async) {
                self.async_waits = true;
                self.ring.push_back(Turn::Async);
            }
            return;
        }
        let idle = self.slice_idle;
        let q = self.queue(owner);
        if q.queued == 0 && q.in_flight == 0 {
            q.think.add_sample(now, idle);
        }
        if !self.has_idle_window(owner) {
            self.think.add_sample(now, idle);
        }
        let q = self.queue(owner);
        q.seeks = q.seeks << 1 | u32::from(block.abs_diff(q.position) > SEEK_BLOCKS);
        q.position = end;
        q.queued += 1;
        if self.active == Some(Turn::Sync(owner)) {
            self.idle_until = None;
        } else if !self.queue(owner).waits_for_turn {
            self.queue(owner).waits_for_turn = true;
            if self.active == Some(Turn::Async) || self.idles_for_windowless(owner) {
                self.expire();
                self.ring.push_front(Turn::Sync(owner));
            } else {
                self.ring.push_back(Turn::Sync(owner));
            }
        }
    }

    /// Notes that a queued request grew and now ends at `end`.
    pub fn grew(&mut self, class: Class, owner: Owner, end: u64) {
        if class == Class::Sync {
            self.queue(owner).position = end;
        }
    }

    /// Notes that a queued request became part of another one.
    pub fn merged(&mut self, class: Class, owner: Owner) {
        match class {
            Class::Async => self.async_queued -= 1,
            Class::Sync => self.queue(owner).queued -= 1,
        }
    }

    /// Notes that a request was taken from its queue and handed to the device.
    pub fn started(&mut self, class: Class, owner: Owner) {
        self.in_flight[class.index()] += 1;
        match class {
            Class::Async => {
                self.async_queued -= 1;
                self.async_left = self.async_left.saturating_sub(1);
            }
            Class::Sync => {
                let q = self.queue(owner);
                q.queued -= 1;
                q.in_flight += 1;
                let first_in_flight = q.in_flight == 1;
                self.streams += u32::from(first_in_flight);
            }
        }
    }

    /// Returns how many places on the disk the device can choose among: requests of one reader
    /// follow each other and are one place; each asynchronous request is one.
    pub fn places(&self) -> u32 {
        self.streams + self.in_flight[Class::Async.index()]
    }

    /// Notes that a request of `owner` ended at `now`, and starts to idle for this reader if it has
    /// nothing else queued and CFQ idles for such readers.
    pub fn ended(&mut self, now: u64, class: Class, owner: Owner) {
        self.in_flight[class.index()] -= 1;
        if class == Class::Async {
            return;
        }
        let q = self.queue(owner);
        q.in_flight -= 1;
        q.think.last_end = now;
        let has_nothing = q.queued == 0 && q.in_flight == 0;
        let none_in_flight = q.in_flight == 0;
        self.streams -= u32::from(none_in_flight);
        if !self.has_idle_window(owner) {
            self.think.last_end = now;
        }
        if has_nothing && self.active == Some(Turn::Sync(owner)) && self.idles_for(owner) {
            self.idle_until = Some(now + self.slice_idle);
        }
    }

    /// Returns true if the disk idles for a reader that has nothing queued, because its next
    /// request is likely to come soon and to lie behind its last: it has an idle window or, as the
    /// policy (`CfqIdling`) says, is the last reader without one.
    fn idles_for(&self, owner: Owner) -> bool {
        if self.slice_idle == 0 || self.has_idle_window(owner) {
            return self.slice_idle > 0;
        }
        let thinks_long = || self.think.is_long(self.slice_idle);
        match self.idling {
            CfqIdling::InOrder => false,
            CfqIdling::LastQueue => self.is_last_without_window(owner),
            CfqIdling::LastPrompt => self.is_last_without_window(owner) && !thinks_long(),
        }
    }

    /// Returns true if the disk idles for this reader whatever others do: it reads in order and
    /// does not think long.
    fn has_idle_window(&self, owner: Owner) -> bool {
        let q = &self.queues[usize::from(owner)];
        q.seeks.count_ones() <= self.seeky && !q.think.is_long(self.slice_idle)
    }

    /// Returns true if the disk is idling for the last reader without an idle window (its turn,
    /// nothing queued), and `owner` is another such reader: `owner` is then served at once.
    fn idles_for_windowless(&self, owner: Owner) -> bool {
        let Some(Turn::Sync(last)) = self.active else {
            return false;
        };
        self.queues[usize::from(last)].queued == 0
            && !self.has_idle_window(last)
            && !self.has_idle_window(owner)
    }

    /// Returns true if no other reader without an idle window waits for a turn.
    fn is_last_without_window(&self, owner: Owner) -> bool {
        !self.ring.iter().any(|&turn| match turn {
            Turn::Sync(other) => other != owner && !self.has_idle_window(other),
            Turn::Async => false,
        })
    }

    /// Ends the present turn and any idling; the queue whose turn it was waits for another turn,
    /// behind the others, if it still has requests.
    fn expire(&mut self) {
        self.idle_until = None;
        match self.active.take() {
            Some(Turn::Async) if self.async_queued > 0 => {
                self.async_waits = true;
                self.ring.push_back(Turn::Async);
            }
            Some(Turn::Sync(owner)) if self.queue(owner).queued > 0 => {
                self.queue(owner).waits_for_turn = true;
                self.ring.push_back(Turn::Sync(owner));
            }
            _ => {}
        }
    }

    /// Begins the turn of the first waiting queue at `now` and sets the end of its slice: fixed for
    /// the asynchronous queue, and shorter for a synchronous one the more queues wait. Returns
    /// false if no queue waits for a turn.
    fn begin(&mut self, now: u64) -> bool {
        let Some(turn) = self.ring.pop_front() else {
            return false;
        };
        self.active = Some(turn);
        let slice = match turn {
            Turn::Async => {
                self.async_waits = false;
                self.async_left = self.async_requests;
                self.slice_async
            }
            Turn::Sync(owner) => {
                self.queue(owner).waits_for_turn = false;
                let waiting = self.ring.len() as u64 + 1;
                let shortest_slice = (2 * self.slice_idle).min(self.slice_sync);
                (TARGET_LATENCY / waiting).clamp(shortest_slice, self.slice_sync)
            }
        };
        self.slice_end = now + slice;
        true
    }

    /// Decides at `now` which owner's request is served next, and ends and begins turns for that
    /// (`cfq_select_queue`). Asynchronous requests wait until the device is drained of synchronous
    /// ones, and a reader for which the disk idles waits until it is drained of asynchronous ones.
    /// The result may be to serve nothing until a time, while the disk idles for a reader, or until
    /// a request arrives or ends.
    pub fn choose(&mut self, now: u64) -> Choice {
        let mut first = false;
        loop {
            match self.active {
                None => {
                    if !self.begin(now) {
                        return Choice::Nothing;
                    }
                    first = true;
                }
                Some(Turn::Async) => {
                    let slice_over = now >= self.slice_end || self.async_left == 0;
                    if self.async_queued == 0 || slice_over && !self.ring.is_empty() {
                        self.expire();
                    } else if self.in_flight[Class::Sync.index()] > 0 {
                        return Choice::Nothing;
                    } else {
                        return Choice::Async { first };
                    }
                }
                Some(Turn::Sync(owner)) => {
                    let slice_over = now >= self.slice_end && !self.ring.is_empty();
                    let q = *self.queue(owner);
                    let idles = self.idles_for(owner);
                    if q.queued > 0 && !slice_over {
                        if idles && self.in_flight[Class::Async.index()] > 0 {
                            return Choice::Nothing;
                        }
                        return Choice::Sync(owner);
                    }
                    if q.queued == 0 && !slice_over && idles {
                        match self.idle_until {
                            _ if q.in_flight > 0 => return Choice::Nothing,
                            Some(until) if now < until => return Choice::Wait(until),
                            _ => {}
                        }
                    }
                    self.expire();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cfq() -> Cfq {
        Cfq::new(&Params::default(), CfqIdling::InOrder)
    }

    const MS: u64 = 1_000_000;

    /// A reader that reads the block after its last one.
    fn read(c: &mut Cfq, now: u64, owner: Owner, block: u64) {
        c.insert(now, Class::Sync, owner, block, block + 32);
    }

    fn serve(c: &mut Cfq, now: u64) -> Choice {
        let choice = c.choose(now);
        match choice {
            Choice::Sync(owner) => c.started(Class::Sync, owner),
            Choice::Async { .. } => c.started(Class::Async, 0),
            _ => {}
        }
        choice
    }

    #[test]
    fn a_reader_keeps_the_disk_for_its_slice_and_is_waited_for() {
        let mut c = cfq();
        read(&mut c, 0, 1, 0);
        read(&mut c, 0, 2, 1 << 20);
        let (mut now, mut block, mut served) = (0, 0, 0);
        loop {
            match serve(&mut c, now) {
                Choice::Sync(1) => served += 1,
                Choice::Sync(2) => break,
                other => panic!("{other:?}"),
            }
            now += 2 * MS;
            c.ended(now, Class::Sync, 1);
            assert!(
                now >= 100 * MS || matches!(c.choose(now), Choice::Wait(t) if t == now + 8 * MS)
            );
            now += MS;
            block += 32;
            read(&mut c, now, 1, block);
        }
        assert!(
            (30..=35).contains(&served),
            "{served} in 100 ms at 3 ms each"
        );
    }

    #[test]
    fn who_does_not_come_back_loses_the_turn() {
        let mut c = cfq();
        read(&mut c, 0, 1, 0);
        read(&mut c, 0, 2, 1 << 20);
        assert_eq!(serve(&mut c, 0), Choice::Sync(1));
        c.ended(MS, Class::Sync, 1);
        assert_eq!(serve(&mut c, MS), Choice::Wait(9 * MS));
        assert_eq!(serve(&mut c, 9 * MS), Choice::Sync(2));
    }

    /// Makes 40 requests of a lone reader, each `step` blocks on and submitted `think` ns after the
    /// end of the one before. Returns when the next one is due, and where.
    fn reads_alone(c: &mut Cfq, step: u64, think: u64) -> (u64, u64) {
        let (mut now, mut block) = (0, 0);
        for _ in 0..40 {
            read(c, now, 1, block);
            assert_eq!(serve(c, now), Choice::Sync(1));
            now += MS;
            c.ended(now, Class::Sync, 1);
            now += think;
            block += step;
        }
        (now, block)
    }

    #[test]
    fn seeky_and_thoughtful_readers_are_not_waited_for() {
        for (step, think) in [(1 << 20, MS), (32, 20 * MS)] {
            let mut c = cfq();
            let (now, block) = reads_alone(&mut c, step, think);
            read(&mut c, now, 1, block);
            assert_eq!(serve(&mut c, now), Choice::Sync(1));
            c.ended(now, Class::Sync, 1);
            assert_eq!(
                serve(&mut c, now),
                Choice::Nothing,
                "step {step} think {think}"
            );
        }
    }

    /// A seeky reader has nothing queued any more, beside a sequential reader that waits. Once the
    /// seeky one is the last of its kind the disk idles for it, unless (3.1) such readers are known
    /// to think long.
    #[test]
    fn the_last_reader_without_an_idle_window_is_waited_for() {
        let after = |idling, think: u64, beside: Option<u64>| {
            let mut c = Cfq::new(&Params::default(), idling);
            let (mut now, block) = reads_alone(&mut c, 1 << 20, think);
            // A new turn.
            c.expire();
            read(&mut c, now, 1, block);
            assert_eq!(serve(&mut c, now), Choice::Sync(1));
            // Two sequential readers, or two seeky ones.
            if let Some(step) = beside {
                (0..40).for_each(|i| read(&mut c, now, 2, i * step));
            }
            now += MS;
            c.ended(now, Class::Sync, 1);
            let kept = Choice::Wait(now + 8 * MS);
            c.choose(now) == kept
        };
        use CfqIdling::*;
        for (idling, prompt, thoughtful) in [
            (InOrder, false, false),
            (LastQueue, true, true),
            (LastPrompt, true, false),
        ] {
            let in_order = Some(32);
            assert_eq!(after(idling, MS, in_order), prompt, "{idling:?}");
            assert_eq!(after(idling, 12 * MS, in_order), thoughtful, "{idling:?}");
            assert_eq!(after(idling, MS, None), prompt, "{idling:?}");
            // Another reader of its kind waits.
            assert!(!after(idling, MS, Some(1 << 20)), "{idling:?}");
        }
    }

    /// While the disk idles for a seeky reader, another seeky one is served at once; a sequential
    /// one is not.
    #[test]
    fn another_reader_without_a_window_ends_that_wait() {
        for (step, served) in [(1 << 20, true), (32, false)] {
            let mut c = Cfq::new(&Params::default(), CfqIdling::LastQueue);
            for i in 0..80 {
                let (owner, step) = if i % 2 == 0 { (1, 1 << 20) } else { (2, step) };
                c.expire();
                read(&mut c, i * MS, owner, i * step);
                assert_eq!(serve(&mut c, i * MS), Choice::Sync(owner));
                c.ended(i * MS, Class::Sync, owner);
            }
            c.expire();
            read(&mut c, 80 * MS, 1, 0);
            assert_eq!(serve(&mut c, 80 * MS), Choice::Sync(1));
            c.ended(81 * MS, Class::Sync, 1);
            assert_eq!(c.choose(81 * MS), Choice::Wait(89 * MS));
            read(&mut c, 82 * MS, 2, 79 * step + 32);
            let next = c.choose(82 * MS);
            assert_eq!(next == Choice::Sync(2), served, "{next:?}");
        }
    }

    #[test]
    fn writes_have_their_turn_and_readers_end_it() {
        let mut c = cfq();
        for i in 0..40 {
            c.insert(0, Class::Async, 9, i, i + 1);
        }
        read(&mut c, 0, 1, 0);
        assert_eq!(serve(&mut c, 0), Choice::Async { first: true });
        for _ in 0..15 {
            assert_eq!(serve(&mut c, 0), Choice::Async { first: false });
        }
        // The turn is over, and the device is drained before the reader begins.
        assert_eq!(serve(&mut c, 0), Choice::Nothing);
        for _ in 0..16 {
            c.ended(MS, Class::Async, 9);
        }
        assert_eq!(serve(&mut c, MS), Choice::Sync(1));
        c.ended(2 * MS, Class::Sync, 1);
        assert_eq!(serve(&mut c, 10 * MS), Choice::Async { first: true });
        read(&mut c, 10 * MS, 2, 500);
        c.ended(11 * MS, Class::Async, 9);
        assert_eq!(serve(&mut c, 11 * MS), Choice::Sync(2));
    }
}
