//! Allocation of requests: Linux 3.0's `get_request` and `freed_request`
//! (docs/reference/writeback.md#request-queue), or, on a device without a scheduler, blk-mq's tags:
//! as many as the device takes, shared by both classes.

use super::Class;
use crate::params::Params;
use crate::spec::Scheduler;

/// The thresholds of a queue, all derived from `nr_requests`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests of a class at which the queue counts as full.
    pub full: u32,
    /// A class is congested when an allocation brings its count to this.
    pub congested_on: u32,
    /// A class is no longer congested when a completion brings its count below this.
    pub congested_off: u32,
    /// Most requests of a class that batching tasks may bring the queue to.
    pub most: u32,
    /// Requests that a batching task may allocate in one batch.
    pub batch_requests: u32,
    /// How long a batch lasts, in nanoseconds.
    pub batch_ns: u64,
}

impl Limits {
    /// Returns the limits of a queue without a scheduler: `tags` tags shared by both classes.
    pub fn of_tags(tags: u32, params: &Params) -> Self {
        Self {
            most: tags,
            ..Self::new(tags, params)
        }
    }

    /// Returns the limits of a queue with `nr_requests` requests per class: a class is congested
    /// from seven eighths on, and batching tasks may bring it to one and a half times that number.
    pub fn new(nr_requests: u32, params: &Params) -> Self {
        let n = nr_requests;
        Self {
            full: n,
            congested_on: n - n / 8 + 1,
            congested_off: n - n / 8 - n / 16 - 1,
            most: 3 * n / 2,
            batch_requests: params.batch_requests as u32,
            batch_ns: params.batch_time as u64,
        }
    }
}

/// A task's state with one queue: Linux's `io_context`. The executor keeps one for each pair of
/// task and queue, and hands it to every submission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoContext {
    owner: u16,
    batch_left: u32,
    batch_until: u64,
    /// True if the task holds a token of the writeback throttle and still needs a request to use
    /// it.
    pub(super) has_token: bool,
}

impl IoContext {
    /// Returns the context of task number `owner`, by which a scheduler tells readers apart.
    pub fn of(owner: u16) -> Self {
        Self {
            owner,
            ..Self::default()
        }
    }

    /// Returns the task's number.
    pub fn owner(&self) -> u16 {
        self.owner
    }

    /// Makes the task a batching task, so that it gets at least one request, and up to a batch of
    /// them for a short time. To be called when the task resumes from its sleep for a request.
    pub fn woken(&mut self, now: u64, limits: &Limits) {
        self.batch_left = limits.batch_requests;
        self.batch_until = now + limits.batch_ns;
    }

    /// Returns true if the task may allocate from a full queue at `now`, because it has requests
    /// left of its batch and the batch's time is not over. An untouched batch doesn't expire: the
    /// task gets at least one request, however late it runs.
    pub fn batching(&self, now: u64, limits: &Limits) -> bool {
        self.batch_left == limits.batch_requests || (self.batch_left > 0 && now < self.batch_until)
    }
}

/// The answer to a task that wants a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The task has a request; the class's count went up.
    Granted,
    /// The task must sleep until a request of its class is freed.
    Wait,
}

/// The tasks to wake after requests were freed. Arrays are indexed by [`Class::index`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wake {
    /// How many tasks that sleep for a request of the class may be woken, the longest sleeper
    /// first.
    pub requests: [u32; 2],
    /// The class's count fell below the off threshold: every task in `congestion_wait` or
    /// `wait_iff_congested` on the class is to be woken, even if the flag was not set.
    pub uncongested: [bool; 2],
    /// The congestion flag was set and is now clear.
    pub flag_cleared: [bool; 2],
    /// How many tasks that sleep for a token of the writeback throttle now have one, the longest
    /// sleeper first. Indexed by the kind of token (0: writeback, 1: swap).
    pub tokens: [u32; 2],
    /// blk-mq: a request was waiting for a tag of the device, so a worker dispatches again
    /// (`blk_mq_sched_restart`).
    pub restart: bool,
}

impl Wake {
    /// Returns true if no task is to be woken.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The requests of one queue: counts and flags of both classes.
#[derive(Debug, Clone)]
pub struct RequestList {
    limits: Limits,
    count: [u32; 2],
    congested: [bool; 2],
    full: [bool; 2],
    /// True if both classes share `limits.full` tags.
    tags: bool,
    /// Most tags that writes may hold (`async_depth`); writes then sleep apart from reads. `None`:
    /// the two classes share all tags and one FIFO of sleepers, or there are no tags.
    writes: Option<u32>,
}

/// Returns how many of a scheduler's `tags` writes may hold (Linux 6.12 block/mq-deadline.c
/// `dd_limit_depth`, lib/sbitmap.c): in every word of the tag bitmap, as many as the `registered`
/// depth of the device. A later `nr_requests` changes the number of words, not the share within
/// each.
fn tags_for_writes(tags: u32, registered: u32) -> u32 {
    // Words have up to 64 bits, fewer while there would be fewer than four words.
    let mut shift = 6;
    while tags >= 4 && 4 << shift > tags {
        shift -= 1;
    }
    let word_bits = 1 << shift;
    let in_whole_words = tags / word_bits * registered.min(word_bits);
    in_whole_words + registered.min(tags % word_bits)
}

impl RequestList {
    /// Returns the request list of an idle queue.
    pub fn new(limits: Limits, scheduler: Scheduler) -> Self {
        Self {
            tags: scheduler == Scheduler::None,
            writes: None,
            limits,
            count: [0; 2],
            congested: [false; 2],
            full: [false; 2],
        }
    }

    /// Returns the request list of an idle queue with tags: `limits.full` of them, the scheduler's
    /// or, without one, the device's. `registered` is the depth that the device was registered
    /// with.
    pub fn of_tags(limits: Limits, registered: u32, scheduler: Scheduler) -> Self {
        let writes = match scheduler {
            Scheduler::None => limits.full,
            _ => tags_for_writes(limits.full, registered),
        };
        Self {
            tags: true,
            writes: Some(writes),
            ..Self::new(limits, scheduler)
        }
    }

    /// Returns the thresholds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns how many requests of the class are queued or in service.
    pub fn count(&self, class: Class) -> u32 {
        self.count[class.index()]
    }

    /// Returns the congestion flag of the class.
    pub fn congested(&self, class: Class) -> bool {
        self.congested[class.index()]
    }

    /// Returns true if the class is marked full.
    pub fn full(&self, class: Class) -> bool {
        self.full[class.index()]
    }

    /// Returns the class whose FIFO of sleepers a task joins when it must wait for a request of
    /// `class`.
    pub fn sleeps_as(&self, class: Class) -> Class {
        if self.tags && self.writes.is_none() {
            Class::Sync
        } else {
            class
        }
    }

    /// Grants or refuses the task a request of the class (`get_request`), and updates the class's
    /// count and its congestion and full flags. The task that fills the queue may batch; the others
    /// have to wait until it is no longer full. With tags only their number counts.
    pub fn admit(&mut self, now: u64, class: Class, task: &mut IoContext) -> Admission {
        let Limits {
            full,
            congested_on,
            most,
            ..
        } = self.limits;
        let c = class.index();
        if self.tags {
            let room = class == Class::Sync || self.writes.is_none_or(|most| self.count[c] < most);
            if self.count[0] + self.count[1] >= full || !room {
                return Admission::Wait;
            }
            self.count[c] += 1;
            return Admission::Granted;
        }
        let next = self.count[c] + 1;
        if next >= full {
            if !self.full[c] {
                // The task that fills the queue becomes a batcher; all others wait.
                task.woken(now, &self.limits);
                self.full[c] = true;
            } else if !task.batching(now, &self.limits) {
                return Admission::Wait;
            }
        }
        if next >= congested_on {
            self.congested[c] = true;
        }
        if self.count[c] >= most {
            return Admission::Wait;
        }
        self.count[c] = next;
        // Requests below the limit don't count against the batch.
        if next >= full && task.batching(now, &self.limits) {
            task.batch_left -= 1;
        }
        Admission::Granted
    }

    /// Frees a request of the class that ended or was merged into another (`freed_request`). Adds
    /// to `wake` how many sleepers may be woken, and whether the class is no longer congested;
    /// clears its full flag below the limit.
    pub fn free(&mut self, class: Class, wake: &mut Wake) {
        let c = class.index();
        assert!(
            self.count[c] > 0,
            "a request that was never allocated is freed"
        );
        self.count[c] -= 1;
        if self.tags {
            match self.writes {
                None => wake.requests[self.sleeps_as(class).index()] += 1,
                // The tag is of use to either class, so the first sleeper of each is woken.
                Some(_) => wake.requests.iter_mut().for_each(|n| *n += 1),
            }
            return;
        }
        if self.count[c] < self.limits.congested_off {
            wake.uncongested[c] = true;
            wake.flag_cleared[c] |= std::mem::take(&mut self.congested[c]);
        }
        if self.count[c] < self.limits.full {
            wake.requests[c] += 1;
            self.full[c] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> RequestList {
        RequestList::new(Limits::new(128, &Params::default()), Scheduler::Deadline)
    }

    fn take(list: &mut RequestList, n: u32, task: &mut IoContext) {
        for _ in 0..n {
            assert_eq!(list.admit(0, Class::Async, task), Admission::Granted);
        }
    }

    #[test]
    fn thresholds_of_the_reference() {
        let limits = Limits::new(128, &Params::default());
        assert_eq!(
            (limits.congested_on, limits.congested_off, limits.most),
            (113, 103, 192)
        );
    }

    #[test]
    fn tags_are_shared_and_never_congested() {
        let limits = Limits::new(128, &Params::default());
        let mut list = RequestList::new(limits, Scheduler::None);
        let mut task = IoContext::default();
        take(&mut list, 100, &mut task);
        for _ in 0..28 {
            assert_eq!(list.admit(0, Class::Sync, &mut task), Admission::Granted);
        }
        for class in Class::ALL {
            // A task that was woken has no more right to a tag than others.
            task.woken(0, &limits);
            assert_eq!(list.admit(0, class, &mut task), Admission::Wait);
            assert!(!list.congested(class) && !list.full(class));
        }
        let mut wake = Wake::default();
        list.free(Class::Async, &mut wake);
        assert_eq!((wake.requests, wake.uncongested), ([1, 0], [false; 2]));
        assert_eq!(list.admit(0, Class::Sync, &mut task), Admission::Granted);
    }

    /// Reads may take all of a scheduler's tags, writes only their share of each bitmap word.
    #[test]
    fn writes_leave_tags_to_reads() {
        assert_eq!(
            [2, 4, 62, 256].map(|r| tags_for_writes(128, r)),
            [8, 16, 128, 128]
        );
        assert_eq!(tags_for_writes(100, 2), 2 * 6 + 2);
        let limits = Limits::new(128, &Params::default());
        let mut list = RequestList::of_tags(limits, 2, Scheduler::Deadline);
        let mut task = IoContext::default();
        take(&mut list, 8, &mut task);
        assert_eq!(list.admit(0, Class::Async, &mut task), Admission::Wait);
        for _ in 8..128 {
            assert_eq!(list.admit(0, Class::Sync, &mut task), Admission::Granted);
        }
        assert_eq!(list.admit(0, Class::Sync, &mut task), Admission::Wait);
        assert!(
            Class::ALL
                .iter()
                .all(|&c| !list.congested(c) && list.sleeps_as(c) == c)
        );
        let mut wake = Wake::default();
        list.free(Class::Async, &mut wake);
        assert_eq!(wake.requests, [1, 1]);
    }

    #[test]
    fn congested_at_113_until_102() {
        let (mut list, mut task) = (list(), IoContext::default());
        take(&mut list, 112, &mut task);
        assert!(!list.congested(Class::Async));
        take(&mut list, 1, &mut task);
        assert!(list.congested(Class::Async) && !list.congested(Class::Sync));
        let mut wake = Wake::default();
        for _ in 0..10 {
            list.free(Class::Async, &mut wake);
        }
        assert_eq!(list.count(Class::Async), 103);
        assert!(list.congested(Class::Async) && !wake.uncongested[1]);
        list.free(Class::Async, &mut wake);
        assert!(!list.congested(Class::Async) && wake.uncongested[1] && wake.flag_cleared[1]);
        // Below the threshold every completion wakes, though the flag is clear.
        let mut wake = Wake::default();
        list.free(Class::Async, &mut wake);
        assert!(wake.uncongested[1] && !wake.flag_cleared[1]);
    }

    #[test]
    fn the_filler_batches_and_others_wait() {
        let (mut list, mut filler, mut other) =
            (list(), IoContext::default(), IoContext::default());
        take(&mut list, 127, &mut other);
        assert!(!list.full(Class::Async));
        take(&mut list, 32, &mut filler);
        assert!(list.full(Class::Async));
        assert_eq!(list.count(Class::Async), 159);
        assert_eq!(list.admit(0, Class::Async, &mut filler), Admission::Wait);
        assert_eq!(list.admit(0, Class::Async, &mut other), Admission::Wait);
        // The other class has its own requests.
        assert_eq!(list.admit(0, Class::Sync, &mut other), Admission::Granted);
    }

    #[test]
    fn no_batch_goes_beyond_192() {
        let (mut list, mut task) = (list(), IoContext::default());
        take(&mut list, 127, &mut task);
        for _ in 0..2 {
            task.woken(0, &Limits::new(128, &Params::default()));
            take(&mut list, 32, &mut task);
        }
        let left = 192 - list.count(Class::Async);
        task.woken(0, &Limits::new(128, &Params::default()));
        take(&mut list, left, &mut task);
        assert_eq!(list.admit(0, Class::Async, &mut task), Admission::Wait);
        assert_eq!(list.count(Class::Async), 192);
    }

    #[test]
    fn a_batch_ends_by_time_but_not_before_its_first_request() {
        let limits = Limits::new(128, &Params::default());
        let mut task = IoContext::default();
        task.woken(0, &limits);
        assert!(task.batching(u64::MAX, &limits));
        task.batch_left -= 1;
        assert!(task.batching(limits.batch_ns - 1, &limits));
        assert!(!task.batching(limits.batch_ns, &limits));
    }

    #[test]
    fn waiters_wake_one_a_request_once_there_is_room() {
        let (mut list, mut task) = (list(), IoContext::default());
        take(&mut list, 130, &mut task);
        let mut wake = Wake::default();
        list.free(Class::Async, &mut wake);
        list.free(Class::Async, &mut wake);
        assert_eq!((list.count(Class::Async), wake.requests[1]), (128, 0));
        assert!(list.full(Class::Async));
        list.free(Class::Async, &mut wake);
        assert_eq!((list.count(Class::Async), wake.requests[1]), (127, 1));
        assert!(!list.full(Class::Async));
    }
}
