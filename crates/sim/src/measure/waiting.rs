//! Who waits for whom, and for how long.
//!
//! A table by task of its wait at the moment. An object that a task holds ([`World::holds`], or the
//! pages of an I/O that a task wants to submit) leads from a waiter to the holder, whose own wait
//! leads on: a chain, which ends at a task that waits for a device or a throttle, or that runs. All who
//! wait on one object directly or through others are a *crowd*; it lasts from the first waiter to the
//! last. Crowds are ranked by the time that tasks lost in them together.
//!
//! Back of the envelope: a wait costs a few words in the table. Only waits on what tasks hold look for
//! holders, and only a crowd of two or more is looked through (a scan of the tasks) when it grows.
//!
//! [`World::holds`]: mm::world::Tasks::holds

use mm::world::{TaskId, Waited, WaitedKind};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Crowds that are kept.
pub const LONGEST: usize = 10;
/// Members told of a crowd.
const MEMBERS: usize = 64;
/// The longest chain that is followed.
const DEPTH: usize = 64;
const KINDS: usize = WaitedKind::ALL.len();

/// Whether a task holds what the kind names, so that a crowd may stand behind it.
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

type Object = (WaitedKind, u64);

/// Waits of a kind, summed over tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindSum {
    /// The kind.
    #[serde(deserialize_with = "crate::stored::name")]
    pub kind: crate::stored::Name,
    /// How many waits began.
    pub count: u64,
    /// Nanoseconds of all of them.
    pub total_ns: u64,
    /// Tasks that waited at the same time, at most.
    pub most: u32,
}

/// A task in a crowd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name and number.
    pub task: String,
    /// What it waits on; for the last member "runs" if it does.
    pub waits_on: String,
    /// Since when, in nanoseconds since the start of the workload.
    pub since_ns: u64,
    /// How many tasks stand between it and the object.
    pub behind: u32,
}

/// All who waited on one object, directly or through others, without a break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The object.
    pub object: String,
    /// When its first waiter came, in nanoseconds since the start of the workload.
    pub since_ns: u64,
    /// Until its last waiter went.
    pub lasted_ns: u64,
    /// Tasks at the moment when they were most.
    pub most: u32,
    /// When that was.
    pub most_at_ns: u64,
    /// Time that all of them lost in it.
    pub task_ns: u64,
    /// Who they were at that moment, nearest to the object first, and who held it, last.
    pub members: Vec<Member>,
}

/// What is left of a run's waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSums {
    /// Kinds that occurred.
    pub kinds: Vec<KindSum>,
    /// The crowds that cost most, first the worst.
    pub crowds: Vec<Crowd>,
}

#[derive(Clone, Copy)]
struct Wait {
    on: Waited,
    since: u64,
    /// The crowd that it is counted in.
    crowd: Option<Object>,
}

#[derive(Default, Clone)]
struct Task {
    name: &'static str,
    wait: Option<Wait>,
    /// Pages of the I/O that it wants to submit: the first as [`Waited::page`], and how many.
    submits: Option<(u64, u32)>,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    now: u32,
    most: u32,
    count: u64,
    total: u64,
}

struct Open {
    since: u64,
    now: u32,
    most: u32,
    most_at: u64,
    area: u64,
    changed: u64,
    members: Vec<Member>,
}

impl Open {
    /// The number of members changes.
    fn change(&mut self, now: u64, members: u32) {
        // Clocks of CPUs differ by a quantum.
        self.area += u64::from(self.now) * now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        self.now = members;
    }
}

#[derive(Default)]
struct Table {
    start: u64,
    tasks: Vec<Task>,
    sums: [Sum; KINDS],
    /// Who has what others may wait on.
    holders: BTreeMap<Object, TaskId>,
    /// Tasks that wait to submit pages.
    submitting: u32,
    crowds: BTreeMap<Object, Open>,
    worst: Vec<Crowd>,
}

/// The view; all calls are made by the executor and the world.
#[derive(Default)]
pub struct Waiting(RefCell<Table>);

impl Table {
    fn task(&mut self, task: TaskId) -> &mut Task {
        let at = task as usize;
        if self.tasks.len() <= at {
            self.tasks.resize(at + 1, Task::default());
        }
        &mut self.tasks[at]
    }

    fn wait(&self, task: TaskId) -> Option<&Wait> {
        self.tasks.get(task as usize)?.wait.as_ref()
    }

    /// The task that has what another one waits on.
    fn holder(&self, on: &Waited) -> Option<TaskId> {
        let known = self.holders.get(&(on.kind, on.object)).copied();
        known.or(on.holder).or_else(|| {
            let page = matches!(on.kind, WaitedKind::PageLock | WaitedKind::PageWriteback);
            let submits = |t: &Task| {
                let (first, n) = t.submits?;
                (first..first + u64::from(n))
                    .contains(&on.object)
                    .then_some(())
            };
            let found = |t: &Task| t.wait.is_some() && submits(t).is_some();
            let any = page && self.submitting > 0;
            let at = any.then(|| self.tasks.iter().position(found)).flatten();
            at.map(|at| at as TaskId)
        })
    }

    /// The object at the end of a task's chain, how many tasks stand between, and the task that has it.
    fn root(&self, task: TaskId) -> Option<(Object, u32, Option<TaskId>)> {
        let mut root = None;
        let mut at = task;
        for depth in 0..DEPTH as u32 {
            let Some(wait) = self.wait(at).filter(|w| held_by_tasks(w.on.kind)) else {
                return root;
            };
            let holder = self.holder(&wait.on).filter(|&h| h != at);
            root = Some(((wait.on.kind, wait.on.object), depth, holder));
            match holder {
                Some(holder) => {
                    assert!(
                        holder != task,
                        "task {task} waits for itself through others"
                    );
                    at = holder;
                }
                None => return root,
            }
        }
        root
    }

    fn label(&self, task: TaskId) -> String {
        let name = self.tasks.get(task as usize).map_or("task", |t| t.name);
        format!("{} {task}", if name.is_empty() { "task" } else { name })
    }

    fn since_start(&self, time: u64) -> u64 {
        time.saturating_sub(self.start)
    }

    /// Who is in a crowd.
    fn members(&self, object: Object, now: u64) -> Vec<Member> {
        let mut members = Vec::new();
        let mut holder = None;
        for task in 0..self.tasks.len() as TaskId {
            let Some(wait) = self.wait(task).filter(|w| w.crowd == Some(object)) else {
                continue;
            };
            let Some((_, behind, last)) = self.root(task) else {
                continue;
            };
            holder = holder.or(last);
            members.push(Member {
                task: self.label(task),
                waits_on: name(wait.on.kind, wait.on.object),
                since_ns: self.since_start(wait.since),
                behind,
            });
        }
        members.sort_by_key(|m| (m.behind, m.since_ns));
        members.truncate(MEMBERS);
        if let Some(holder) = holder {
            let wait = self.wait(holder);
            members.push(Member {
                task: self.label(holder),
                waits_on: wait.map_or("runs".into(), |w| name(w.on.kind, w.on.object)),
                since_ns: self.since_start(wait.map_or(now, |w| w.since)),
                behind: 0,
            });
        }
        members
    }

    fn join(&mut self, object: Object, now: u64) {
        let open = self.crowds.entry(object).or_insert(Open {
            since: now,
            now: 0,
            most: 0,
            most_at: now,
            area: 0,
            changed: now,
            members: Vec::new(),
        });
        open.change(now, open.now + 1);
    }

    fn leave(&mut self, object: Object, now: u64) {
        let open = self.crowds.get_mut(&object).expect("a crowd with members");
        open.change(now, open.now - 1);
        if open.now == 0 {
            let open = self.crowds.remove(&object).expect("it is there");
            self.keep(object, open, now);
        }
    }

    /// Tells of a crowd whose members may be more than ever.
    fn measure(&mut self, object: Object, now: u64) {
        let grown = self.crowds.get(&object).filter(|c| c.now > c.most);
        let Some(members) = grown.map(|c| c.now) else {
            return;
        };
        let list = self.members(object, now);
        let open = self.crowds.get_mut(&object).expect("it is there");
        (open.most, open.most_at, open.members) = (members, now, list);
    }

    /// Puts a crowd that has ended among the worst, if it is one of them.
    fn keep(&mut self, (kind, id): Object, open: Open, now: u64) {
        // One task that waits for what no task has is no crowd.
        if open.members.len() < 2 {
            return;
        }
        let better = |c: &Crowd| c.task_ns >= open.area;
        let at = self.worst.partition_point(better);
        if at >= LONGEST || open.area == 0 {
            return;
        }
        let crowd = Crowd {
            object: name(kind, id),
            since_ns: self.since_start(open.since),
            lasted_ns: now.saturating_sub(open.since),
            most: open.most,
            most_at_ns: self.since_start(open.most_at),
            task_ns: open.area,
            members: open.members,
        };
        self.worst.insert(at, crowd);
        self.worst.truncate(LONGEST);
    }

    /// Chains may lead elsewhere from here on: every waiter is counted where it belongs.
    fn regroup(&mut self, now: u64) {
        if self.crowds.is_empty() {
            return;
        }
        let mut grown = Vec::new();
        for task in 0..self.tasks.len() as TaskId {
            let Some(before) = self.wait(task).and_then(|w| w.crowd) else {
                continue;
            };
            let root = self.root(task).map(|(object, ..)| object);
            if root == Some(before) {
                continue;
            }
            let wait = self.tasks[task as usize].wait.as_mut();
            wait.expect("it waits").crowd = root;
            self.leave(before, now);
            if let Some(root) = root {
                self.join(root, now);
                grown.push(root);
            }
        }
        grown.sort_unstable();
        grown.dedup();
        for object in grown {
            self.measure(object, now);
        }
    }
}

/// An object in words.
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
    /// A task's name.
    pub fn set_name(&self, task: TaskId, name: &'static str) {
        self.0.borrow_mut().task(task).name = name;
    }

    /// A task's name and number.
    pub fn name(&self, task: TaskId) -> String {
        let table = self.0.borrow();
        let known = table.tasks.get(task as usize);
        format!("{} {task}", known.map_or("task", |t| t.name))
    }

    /// What a task waits on at the moment, in words.
    pub fn waits_on(&self, task: TaskId) -> Option<String> {
        let on = self.0.borrow().wait(task)?.on;
        Some(name(on.kind, on.object))
    }

    /// The workload starts at `now`: sums begin anew, waits that are under way go on.
    pub fn restart(&self, now: u64) {
        let table = &mut *self.0.borrow_mut();
        table.start = now;
        table.worst.clear();
        for sum in &mut table.sums {
            *sum = Sum {
                now: sum.now,
                most: sum.now,
                ..Sum::default()
            };
        }
        for wait in table.tasks.iter_mut().filter_map(|t| t.wait.as_mut()) {
            wait.since = now;
        }
        for open in table.crowds.values_mut() {
            (open.since, open.changed, open.area) = (now, now, 0);
        }
    }

    /// The task wants to submit I/O of pages, and may wait for a request.
    pub fn submits(&self, task: TaskId, pages: Option<(u64, u32)>) {
        let table = &mut *self.0.borrow_mut();
        let before = std::mem::replace(&mut table.task(task).submits, pages);
        table.submitting += u32::from(pages.is_some());
        table.submitting -= u32::from(before.is_some());
    }

    /// A task has an object from here on, or nobody has.
    pub fn holds(&self, kind: WaitedKind, object: u64, task: Option<TaskId>, now: u64) {
        let table = &mut *self.0.borrow_mut();
        match task {
            Some(task) => table.holders.insert((kind, object), task),
            None => table.holders.remove(&(kind, object)),
        };
        table.regroup(now);
    }

    /// A task begins to wait.
    pub fn begin(&self, task: TaskId, on: Waited, now: u64) {
        let table = &mut *self.0.borrow_mut();
        let sum = &mut table.sums[on.kind as usize];
        sum.count += 1;
        sum.now += 1;
        sum.most = sum.most.max(sum.now);
        table.task(task).wait = Some(Wait {
            on,
            since: now,
            crowd: None,
        });
        // Whoever waits for what this task has is in the crowd behind it from here on.
        table.regroup(now);
        if held_by_tasks(on.kind) {
            let root = table.root(task).map(|(object, ..)| object);
            table.task(task).wait.as_mut().expect("just set").crowd = root;
            if let Some(root) = root {
                table.join(root, now);
                table.measure(root, now);
            }
        }
    }

    /// A task's wait ends, if it has one.
    pub fn end(&self, task: TaskId, now: u64) {
        let table = &mut *self.0.borrow_mut();
        let Some(t) = table.tasks.get_mut(task as usize) else {
            return;
        };
        let Some(wait) = t.wait.take() else {
            return;
        };
        let sum = &mut table.sums[wait.on.kind as usize];
        sum.now -= 1;
        sum.total += now.saturating_sub(wait.since);
        if let Some(crowd) = wait.crowd {
            table.leave(crowd, now);
        }
        table.regroup(now);
    }

    /// Tasks that wait now, by kind.
    pub fn now(&self) -> [(&'static str, u32); KINDS] {
        let table = self.0.borrow();
        WaitedKind::ALL.map(|k| (k.name(), table.sums[k as usize].now))
    }

    /// What is left at `end`; waits that are under way count up to then.
    pub fn sums(&self, end: u64) -> WaitSums {
        let mut table = self.0.take();
        for (object, mut open) in std::mem::take(&mut table.crowds) {
            open.change(end, 0);
            table.keep(object, open, end);
        }
        for wait in table.tasks.iter().filter_map(|t| t.wait) {
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

    fn on(kind: WaitedKind, object: u64) -> Waited {
        Waited::on(kind, object)
    }

    /// Tasks 2 and 3 wait for a page of task 1, task 4 for an inode of task 3; task 1 waits for the
    /// disk from 10 to 60.
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
        // Task 4's own crowd ends here: it waits for the page too, through task 3.
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
        // 10 of one, 31 of three, 9 of two.
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
        // Task 4's own crowd, before and after.
        let others: Vec<u64> = s.crowds[1..].iter().map(|c| c.task_ns).collect();
        assert_eq!(others, [10, 5]);
    }

    /// Who waits to submit a page has it.
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
        // Page 12 is under way: nobody has it.
        assert_eq!(s.crowds.len(), 1);
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
