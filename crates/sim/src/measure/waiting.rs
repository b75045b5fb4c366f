//! Which task waits for which, and for how long.
//!
//! A table holds each task's present wait. If a task holds the object waited on ([`World::holds`],
//! or the pages of an I/O that a task wants to submit), the waiter leads to the holder, whose own
//! wait leads on: a chain, which ends at a task that waits for a device or a throttle, or that
//! runs. All tasks that wait on one object, directly or through others, are a *crowd*; a crowd
//! lasts from its first waiter to its last. Crowds are ranked by the total time that tasks lost in
//! them.
//!
//! Back of the envelope: a wait costs a few words in the table, and a look-up of the object's entry
//! if tasks can hold it. A change moves only the tasks that it concerns from crowd to crowd
//! (`chains`), and a crowd's members are recorded when it is larger than ever. Texts are made only
//! for crowds that are reported.
//!
//! [`World::holds`]: mm::world::Tasks::holds

mod chains;
mod crowd;
#[cfg(test)]
mod scanned;

use chains::{Chains, NONE};
use crowd::{Open, Seen, nearest};
use mm::world::{TaskId, Waited, WaitedKind};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Number of crowds that are kept.
pub const LONGEST: usize = 10;
/// Most members of a crowd that are reported.
const MEMBERS: usize = 64;
/// Length of the longest chain that is followed.
const DEPTH: usize = 64;
const KINDS: usize = WaitedKind::ALL.len();

/// Returns true if tasks hold objects of this kind (locks, pages under I/O, a daemon), so that a
/// crowd of waiting tasks may form behind one; false for devices and throttles.
fn held_by_tasks(kind: WaitedKind) -> bool {
    match kind {
        WaitedKind::PageLock
        | WaitedKind::PageWriteback
        | WaitedKind::InodeSync
        | WaitedKind::AgLock
        | WaitedKind::InodeLock
        | WaitedKind::FlushLock
        | WaitedKind::Pin
        | WaitedKind::LogForce
        | WaitedKind::ClusterBuffer
        | WaitedKind::ClusterWrite
        | WaitedKind::Server => true,
        WaitedKind::Request
        | WaitedKind::DeviceRead
        | WaitedKind::DeviceWrite
        | WaitedKind::DirtyLimit
        | WaitedKind::ReclaimThrottle
        | WaitedKind::Congestion => false,
    }
}

/// Returns true if objects of this kind are pages.
fn of_page(kind: WaitedKind) -> bool {
    matches!(kind, WaitedKind::PageLock | WaitedKind::PageWriteback)
}

type Object = (WaitedKind, u64);

/// The waits of a kind, summed over tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindSum {
    /// The kind.
    #[serde(deserialize_with = "crate::stored::name")]
    pub kind: crate::stored::Name,
    /// Number of waits that began.
    pub count: u64,
    /// Total time of the waits in nanoseconds.
    pub total_ns: u64,
    /// Most tasks that waited at the same time.
    pub most: u32,
}

/// A task in a crowd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The task's name and number.
    pub task: String,
    /// The object that the task waits on; "runs" for a holder that does not wait.
    pub waits_on: String,
    /// Beginning of the wait, in nanoseconds since the start of the workload.
    pub since_ns: u64,
    /// Number of tasks between this one and the object.
    pub behind: u32,
}

/// The tasks that waited on one object, directly or through others, without a break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The object.
    pub object: String,
    /// Arrival of the first waiter, in nanoseconds since the start of the workload.
    pub since_ns: u64,
    /// Nanoseconds until the last waiter left.
    pub lasted_ns: u64,
    /// Most tasks at one time.
    pub most: u32,
    /// Time of that maximum, in nanoseconds since the start of the workload.
    pub most_at_ns: u64,
    /// Nanoseconds that all tasks lost in the crowd together.
    pub task_ns: u64,
    /// Members at the time of the maximum, nearest to the object first, and last the holder of the
    /// object.
    pub members: Vec<Member>,
}

/// The summary of a run's waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSums {
    /// The kinds of wait that occurred.
    pub kinds: Vec<KindSum>,
    /// The crowds that cost most time, the worst first.
    pub crowds: Vec<Crowd>,
}

/// Waits of one kind: present and most waiters, number and total nanoseconds.
#[derive(Default, Clone, Copy)]
struct Sum {
    now: u32,
    most: u32,
    count: u64,
    total: u64,
}

/// The waits of all tasks, and the sums over them.
#[derive(Default)]
struct Table {
    start: u64,
    chains: Chains,
    sums: [Sum; KINDS],
    worst: Vec<Crowd>,
    /// Vectors kept for reuse.
    waiters: Vec<TaskId>,
    moved: Vec<TaskId>,
    spare: Vec<Vec<Seen>>,
}

/// A wait that is over, for listeners.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The task that waited.
    pub task: TaskId,
    /// The object that it waited on.
    pub on: Waited,
    /// Beginning of the wait, in nanoseconds since boot.
    pub since: u64,
    /// End of the wait, in nanoseconds since boot.
    pub until: u64,
}

impl Ended {
    /// Returns the name of the object.
    pub fn object(&self) -> String {
        name(self.on.kind, self.on.object)
    }
}

/// The table of waits; all calls come from the executor and the world.
#[derive(Default)]
pub struct Waiting(RefCell<Table>, RefCell<Option<Vec<Ended>>>);

impl Table {
    fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start)
    }

    /// Returns the crowd in which a waiting task is counted, as an index of an object; `None` if
    /// the task does not wait.
    fn crowd(&mut self, task: TaskId) -> Option<&mut u32> {
        let wait = self.chains.tasks[task as usize].wait.as_mut();
        wait.map(|w| &mut w.crowd)
    }

    /// Adds a task to the crowd of an object, given by index, at time `now` (nanoseconds); the
    /// first task opens the crowd. Returns the number of members.
    fn join(&mut self, object: u32, now: u64) -> u32 {
        let spare = &mut self.spare;
        let open = &mut self.chains.things[object as usize].open;
        // `open`: the crowd while it lasts.
        let open = open.get_or_insert_with(|| Open::new(now, spare.pop().unwrap_or_default()));
        open.change(now, open.now + 1);
        open.now
    }

    /// Takes a task out of the crowd of an object, given by index, and ends the crowd if it was the
    /// last.
    fn leave(&mut self, object: u32, now: u64) {
        let thing = &mut self.chains.things[object as usize];
        let open = thing.open.as_mut().expect("a crowd with members");
        open.change(now, open.now - 1);
        if open.now == 0 {
            let (what, open) = (thing.what, thing.open.take().expect("it is there"));
            self.keep(what, open, now);
            self.chains.forget(object);
        }
    }

    /// Records the members of an object's crowd, and the time, if it is larger than ever before.
    fn measure(&mut self, object: u32, now: u64) {
        let open = self.chains.things[object as usize].open.as_mut();
        let Some(open) = open.filter(|c| c.now > c.most) else {
            return;
        };
        (open.most, open.most_at) = (open.now, now);
        let mut members = std::mem::take(&mut open.members);
        self.members(object, now, &mut members);
        let open = self.chains.things[object as usize].open.as_mut();
        open.expect("it is there").members = members;
    }

    /// Records the members of a new crowd: its only waiter `task`, `behind` tasks away from
    /// `object`, and the task `last`, if any, that holds the object. Cheaper than
    /// `measure`, with the same result.
    fn measure_first(
        &mut self,
        task: TaskId,
        (object, behind, last): (u32, u32, TaskId),
        now: u64,
    ) {
        let first = self.seen(task, behind, now);
        let holder = (last != NONE).then(|| self.seen(last, 0, now));
        let open = self.chains.things[object as usize].open.as_mut();
        let open = open.expect("it has a member");
        debug_assert!(open.now == 1 && open.most == 0);
        (open.most, open.most_at) = (1, now);
        open.members.clear();
        open.members.push(first);
        open.members.extend(holder);
    }

    /// Describes a task in a crowd; a task that does not wait has run since `runs_since`.
    fn seen(&self, task: TaskId, behind: u32, runs_since: u64) -> Seen {
        let known = self.chains.tasks.get(task as usize);
        let wait = self.chains.wait(task);
        Seen {
            task,
            name: known.map_or("task", |t| t.name),
            on: wait.map(|w| (w.on.kind, w.on.object)),
            since: self.since_start(wait.map_or(runs_since, |w| w.since)),
            behind,
        }
    }

    /// Collects the members of an object's crowd for a report: the waiters nearest to the object
    /// first, and last the object's holder.
    fn members(&mut self, object: u32, now: u64, members: &mut Vec<Seen>) {
        members.clear();
        let mut tasks = std::mem::take(&mut self.waiters);
        self.chains.behind(object, &mut tasks);
        // The waiter of lowest number that has a holder at the end of its chain, and that holder.
        let mut holder = (NONE, NONE);
        for &task in &tasks {
            if self.chains.wait(task).is_none_or(|w| w.crowd != object) {
                continue;
            }
            let Some((_, behind, last)) = self.chains.root(task) else {
                continue;
            };
            if last != NONE && task < holder.0 {
                holder = (task, last);
            }
            members.push(self.seen(task, behind, now));
        }
        nearest(members);
        if holder.1 != NONE {
            members.push(self.seen(holder.1, 0, now));
        }
        self.waiters = tasks;
    }

    /// Keeps a crowd that has ended, with its members as texts, if it is among those in which tasks
    /// lost most time.
    fn keep(&mut self, (kind, id): Object, open: Open, now: u64) {
        // A lone task that waits for an object without a holder is not a crowd.
        if open.members.len() >= 2
            && let at = self.worst.partition_point(|c| c.task_ns >= open.area)
            && at < LONGEST
            && open.area > 0
        {
            let crowd = Crowd {
                object: name(kind, id),
                since_ns: self.since_start(open.since),
                lasted_ns: now.saturating_sub(open.since),
                most: open.most,
                most_at_ns: self.since_start(open.most_at),
                task_ns: open.area,
                members: open.members.iter().map(Seen::member).collect(),
            };
            self.worst.insert(at, crowd);
            self.worst.truncate(LONGEST);
        }
        self.spare.push(open.members);
    }

    /// Moves each waiter whose chain has changed to the crowd at the chain's end, and records the
    /// crowds that have become larger than ever.
    fn regroup(&mut self, now: u64) {
        if !self.chains.any_moved() {
            return;
        }
        let mut moved = std::mem::take(&mut self.moved);
        self.chains.moved(&mut moved);
        moved.retain(|&task| self.regroup_one(task, now));
        for &task in &moved {
            let crowd = *self.crowd(task).expect("it waits");
            self.measure(crowd, now);
        }
        self.moved = moved;
    }

    /// Moves a waiter to the crowd at the end of its chain. Returns true if that is a different
    /// crowd; false, too, for a task that waits in no crowd.
    fn regroup_one(&mut self, task: TaskId, now: u64) -> bool {
        // `before`, `root`: indices of the objects whose crowds the task leaves and joins.
        let before = self.crowd(task).map_or(NONE, |c| *c);
        if before == NONE {
            return false;
        }
        let (root, ..) = self.chains.root(task).expect("it waits on what tasks hold");
        if root == before {
            return false;
        }
        *self.crowd(task).expect("it waits") = root;
        self.leave(before, now);
        self.join(root, now);
        true
    }
}

/// Returns the text for an object that tasks wait on, for reports. `object` is a number by `kind`:
/// an inode, disk, node or task, or file and page in its upper and lower half.
fn name(kind: WaitedKind, object: u64) -> String {
    let (high, low) = (object >> 32, object & 0xffff_ffff);
    match kind {
        WaitedKind::PageLock => format!("lock of page {low} of file {high}"),
        WaitedKind::PageWriteback => format!("writeback of page {low} of file {high}"),
        WaitedKind::InodeSync => format!("writeback of inode {object}"),
        WaitedKind::Request => {
            let class = ["a sync", "an async"][object as usize & 1];
            format!("{class} request of disk {}", object >> 1)
        }
        WaitedKind::DeviceRead if high > 0 => format!("disk: page {low} of file {high}"),
        WaitedKind::DeviceRead => format!("disk {object}: read"),
        WaitedKind::DeviceWrite => format!("disk {object}: write"),
        WaitedKind::DirtyLimit => format!("dirty limit of bdi {object}"),
        WaitedKind::ReclaimThrottle => format!("reserves of node {object}"),
        WaitedKind::Congestion => {
            ["sync congestion", "async congestion"][object as usize & 1].into()
        }
        WaitedKind::AgLock => format!("reclaim lock of group {object}"),
        WaitedKind::InodeLock => format!("lock of inode {object}"),
        WaitedKind::FlushLock => format!("flush lock of inode {object}"),
        WaitedKind::Pin => format!("pin of inode {object}"),
        WaitedKind::LogForce => "log force".into(),
        WaitedKind::ClusterBuffer => format!("buffer of inode {object}'s cluster"),
        WaitedKind::ClusterWrite => format!("write of inode {object}'s cluster"),
        WaitedKind::Server => "filesystem daemon".into(),
    }
}

impl Waiting {
    /// Sets a task's name.
    pub fn set_name(&self, task: TaskId, name: &'static str) {
        self.0.borrow_mut().chains.task(task).name = name;
    }

    /// Returns a task's name and number, for reports.
    pub fn name(&self, task: TaskId) -> String {
        let table = self.0.borrow();
        let known = table.chains.tasks.get(task as usize);
        format!("{} {task}", known.map_or("task", |t| t.name))
    }

    /// Returns the text for the object that a task waits on now; `None` if it does not wait.
    pub fn waits_on(&self, task: TaskId) -> Option<String> {
        let on = self.0.borrow().chains.wait(task)?.on;
        Some(name(on.kind, on.object))
    }

    /// Restarts the sums at `now`, when the workload starts; waits under way continue and count
    /// from `now` on.
    pub fn restart(&self, now: u64) {
        let table = &mut *self.0.borrow_mut();
        table.start = now;
        table.worst.clear();
        for sum in &mut table.sums {
            // Tasks that wait now stay counted as waiting.
            *sum = Sum {
                now: sum.now,
                most: sum.now,
                ..Sum::default()
            };
        }
        let chains = &mut table.chains;
        for wait in chains.tasks.iter_mut().filter_map(|t| t.wait.as_mut()) {
            wait.since = now;
        }
        for open in chains.things.iter_mut().filter_map(|t| t.open.as_mut()) {
            (open.since, open.changed, open.area) = (now, now, 0);
        }
    }

    /// Notes the pages of the I/O that a task wants to submit (the first, and how many), for which
    /// it may wait for a request; the tasks that wait for these pages then wait behind it. `None`:
    /// none any more.
    pub fn submits(&self, task: TaskId, pages: Option<(u64, u32)>) {
        let table = &mut *self.0.borrow_mut();
        table.chains.submits(task, pages);
    }

    /// Notes that `task` holds an object from time `now` on, so that the object's waiters wait
    /// behind it; `None`: no task does.
    pub fn holds(&self, kind: WaitedKind, object: u64, task: Option<TaskId>, now: u64) {
        let table = &mut *self.0.borrow_mut();
        table.chains.holds((kind, object), task);
        table.regroup(now);
    }

    /// Notes that a task begins to wait on an object at time `now`: counts the wait, and adds the
    /// task to the crowd at the end of its chain of holders, if tasks can hold the object.
    pub fn begin(&self, task: TaskId, on: Waited, now: u64) {
        let table = &mut *self.0.borrow_mut();
        let sum = &mut table.sums[on.kind as usize];
        sum.count += 1;
        sum.now += 1;
        sum.most = sum.most.max(sum.now);
        table.chains.begin(task, on, now);
        table.regroup(now);
        if let Some(end) = table.chains.root(task) {
            let (root, ..) = end;
            *table.crowd(task).expect("it waits") = root;
            match table.join(root, now) {
                1 => table.measure_first(task, end, now),
                _ => table.measure(root, now),
            }
        }
    }

    /// Notes the end of a task's wait at time `now`, if it has one: adds its time to the sums, and
    /// takes the task out of its crowd.
    pub fn end(&self, task: TaskId, now: u64) {
        let table = &mut *self.0.borrow_mut();
        let Some(wait) = table.chains.end(task) else {
            return;
        };
        if let Some(ended) = &mut *self.1.borrow_mut() {
            ended.push(Ended {
                task,
                on: wait.on,
                since: wait.since,
                until: now,
            });
        }
        let sum = &mut table.sums[wait.on.kind as usize];
        sum.now -= 1;
        sum.total += now.saturating_sub(wait.since);
        if wait.crowd != NONE {
            table.leave(wait.crowd, now);
        }
        table.regroup(now);
        if wait.object != NONE {
            table.chains.forget(wait.object);
        }
    }

    /// Keeps waits that end from now on, for [`Self::ended`].
    pub fn keep_ended(&self) {
        *self.1.borrow_mut() = Some(Vec::new());
    }

    /// Takes out the waits that have ended since the last call; empty unless [`Self::keep_ended`]
    /// was called.
    pub fn ended(&self) -> Vec<Ended> {
        let mut kept = self.1.borrow_mut();
        kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the number of tasks that wait now, by kind.
    pub fn now(&self) -> [(&'static str, u32); KINDS] {
        let table = self.0.borrow();
        WaitedKind::ALL.map(|k| (k.name(), table.sums[k as usize].now))
    }

    /// Returns the sums by kind and the crowds that cost most time; waits under way count up to
    /// time `end`. Nothing is left in the table.
    pub fn sums(&self, end: u64) -> WaitSums {
        let mut table = self.0.take();
        let things = table.chains.things.iter_mut();
        let open = things.filter_map(|t| Some((t.what, t.open.take()?)));
        let mut crowds: Vec<(Object, Open)> = open.collect();
        crowds.sort_by_key(|(what, _)| *what);
        for (what, mut open) in crowds {
            open.change(end, 0);
            table.keep(what, open, end);
        }
        for wait in table.chains.tasks.iter().filter_map(|t| t.wait) {
            table.sums[wait.on.kind as usize].total += end.saturating_sub(wait.since);
        }
        let sum = |k: WaitedKind| {
            let s = &table.sums[k as usize];
            (s.most > 0).then_some(KindSum {
                kind: k.name(),
                count: s.count,
                total_ns: s.total,
                most: s.most,
            })
        };
        WaitSums {
            kinds: WaitedKind::ALL.into_iter().filter_map(sum).collect(),
            crowds: table.worst,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn on(kind: WaitedKind, object: u64) -> Waited {
        Waited::on(kind, object)
    }

    /// Tasks 2 and 3 wait for a page that task 1 holds, task 4 for an inode that task 3 holds; task
    /// 1 waits for the disk from 10 to 60.
    #[test]
    fn a_chain_ends_at_the_disk() {
        let w = Waiting::default();
        let page = Waited::page(7, 5);
        w.set_name(1, "flusher");
        w.restart(5);
        w.holds(WaitedKind::PageLock, page, Some(1), 5);
        w.holds(WaitedKind::InodeSync, 9, Some(3), 5);
        w.begin(1, on(WaitedKind::DeviceWrite, 0), 10);
        w.begin(2, on(WaitedKind::PageLock, page), 20);
        w.begin(4, on(WaitedKind::InodeSync, 9), 25);
        // Task 4's own crowd ends here: through task 3 it waits for the page too.
        w.begin(3, on(WaitedKind::PageLock, page), 30);
        assert_eq!(w.now()[WaitedKind::PageLock as usize], ("page lock", 2));
        w.end(1, 60);
        w.end(2, 61);
        w.holds(WaitedKind::PageLock, page, None, 61);
        w.end(3, 70);
        w.end(4, 80);
        let s = w.sums(100);
        let kinds: Vec<_> = s
            .kinds
            .iter()
            .map(|k| (k.kind, k.count, k.total_ns, k.most))
            .collect();
        assert_eq!(
            kinds,
            [
                ("page lock", 2, 41 + 40, 2),
                ("inode writeback", 1, 55, 1),
                ("write", 1, 50, 1)
            ]
        );
        let c = &s.crowds[0];
        assert_eq!(c.object, "lock of page 5 of file 7");
        // 10 of one task, 31 of three, 9 of two.
        assert_eq!(
            (c.since_ns, c.lasted_ns, c.task_ns),
            (15, 50, 10 + 31 * 3 + 9 * 2)
        );
        assert_eq!((c.most, c.most_at_ns), (3, 25));
        let members: Vec<_> = c
            .members
            .iter()
            .map(|m| (&m.task[..], &m.waits_on[..], m.since_ns, m.behind))
            .collect();
        assert_eq!(
            members,
            [
                ("task 2", "lock of page 5 of file 7", 15, 0),
                ("task 3", "lock of page 5 of file 7", 25, 0),
                ("task 4", "writeback of inode 9", 20, 1),
                ("flusher 1", "disk 0: write", 5, 0),
            ]
        );
        // The crowd of task 4 alone, before and after.
        let others: Vec<u64> = s.crowds[1..].iter().map(|c| c.task_ns).collect();
        assert_eq!(others, [10, 5]);
    }

    /// A task that waits to submit a page counts as its holder.
    #[test]
    fn a_page_belongs_to_whoever_submits_it() {
        let w = Waiting::default();
        w.submits(1, Some((Waited::page(3, 8), 4)));
        w.begin(1, on(WaitedKind::Request, 1), 0);
        w.begin(2, on(WaitedKind::PageWriteback, Waited::page(3, 11)), 0);
        w.begin(3, on(WaitedKind::PageWriteback, Waited::page(3, 12)), 0);
        let s = w.sums(10);
        let last = |c: &Crowd| c.members.last().map(|m| m.waits_on.clone());
        assert_eq!(last(&s.crowds[0]).unwrap(), "an async request of disk 0");
        // Page 12 is under way: it has no holder.
        assert_eq!(s.crowds.len(), 1);
    }

    /// A task that gives up submitting a page on which it also waits itself then waits behind the
    /// next submitter.
    #[test]
    fn a_page_given_up_is_the_next_submitters() {
        let (ours, scanned) = (Waiting::default(), scanned::Waiting::default());
        macro_rules! both {
            ($($call:tt)*) => {{ ours.$($call)*; scanned.$($call)*; }};
        }
        both!(submits(8, Some((2, 1))));
        both!(begin(1, on(WaitedKind::PageLock, 2), 0));
        both!(submits(1, Some((1, 2))));
        both!(begin(8, on(WaitedKind::AgLock, 0), 1));
        both!(submits(1, None));
        both!(holds(WaitedKind::PageLock, 0, None, 2));
        assert_eq!(ours.sums(10), scanned.sums(10));
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn a_cycle_is_a_deadlock() {
        let w = Waiting::default();
        w.holds(WaitedKind::AgLock, 1, Some(1), 0);
        w.holds(WaitedKind::AgLock, 2, Some(2), 0);
        w.begin(1, on(WaitedKind::AgLock, 2), 0);
        w.begin(2, on(WaitedKind::AgLock, 1), 0);
    }

    /// A change in the table of waits.
    #[derive(Debug, Clone)]
    enum Change {
        Begin(TaskId, usize, u64, Option<TaskId>),
        End(TaskId),
        Holds(usize, u64, Option<TaskId>),
        Submits(TaskId, Option<(u64, u32)>),
        Restart,
    }

    fn change() -> impl Strategy<Value = Change> {
        let task = 0..9u32;
        let maybe = |few: u32| prop_oneof![few => Just(None), 1 => (0..9u32).prop_map(Some)];
        let object = 0..4u64;
        prop_oneof![
            9 => (task.clone(), 0..KINDS, object.clone(), maybe(5))
                .prop_map(|(t, k, o, h)| Change::Begin(t, k, o, h)),
            6 => task.clone().prop_map(Change::End),
            4 => (0..KINDS, object.clone(), maybe(1)).prop_map(|(k, o, t)| Change::Holds(k, o, t)),
            3 => (task, proptest::option::of((object, 1..3u32))).prop_map(|(t, p)| Change::Submits(t, p)),
            1 => Just(Change::Restart),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 3000 }))]

        /// Moving only the tasks that a change concerns gives the result of a scan of all tasks. A
        /// deadlock ends the case.
        #[test]
        fn nobody_else_is_concerned(changes in proptest::collection::vec(change(), 1..80)) {
            let (ours, scanned) = (Waiting::default(), scanned::Waiting::default());
            let mut waits = [false; 9];
            for (now, change) in (10u64..).step_by(7).zip(&changes) {
                macro_rules! both {
                    ($($call:tt)*) => {{
                        let one = catch_unwind(AssertUnwindSafe(|| ours.$($call)*));
                        let two = catch_unwind(AssertUnwindSafe(|| scanned.$($call)*));
                        prop_assert_eq!(one.is_err(), two.is_err(), "a deadlock is seen by both");
                        if one.is_err() {
                            return Ok(());
                        }
                    }};
                }
                match *change {
                    Change::Begin(task, kind, object, holder) if !waits[task as usize] => {
                        let on = Waited { holder, ..on(WaitedKind::ALL[kind], object) };
                        waits[task as usize] = true;
                        both!(begin(task, on, now));
                    }
                    Change::Begin(..) => {}
                    Change::End(task) => {
                        waits[task as usize] = false;
                        both!(end(task, now));
                    }
                    Change::Holds(kind, object, task) => {
                        both!(holds(WaitedKind::ALL[kind], object, task, now));
                    }
                    Change::Submits(task, pages) => both!(submits(task, pages)),
                    Change::Restart => both!(restart(now)),
                }
            }
            prop_assert_eq!(ours.sums(1000), scanned.sums(1000));
        }
    }

    #[test]
    fn the_worst_are_kept_and_memory_is_bounded() {
        let w = Waiting::default();
        for n in 1..=50u64 {
            w.holds(WaitedKind::InodeLock, n, Some(2), n * 1000);
            w.begin(1, on(WaitedKind::InodeLock, n), n * 1000);
            w.end(1, n * 1000 + n);
        }
        let s = w.sums(100_000);
        let lost: Vec<u64> = s.crowds.iter().map(|c| c.task_ns).collect();
        assert_eq!(lost, (41..=50).rev().collect::<Vec<u64>>());
        assert_eq!(s.kinds[0].count, 50);
    }
}
