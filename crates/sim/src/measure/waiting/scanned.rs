//! A reference for tests of `chains`: the crowds computed by a scan of all tasks at every change.

use super::{
    Crowd, DEPTH, KINDS, KindSum, LONGEST, MEMBERS, Member, Object, WaitSums, held_by_tasks, name,
};
use mm::world::{TaskId, Waited, WaitedKind};
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
struct Wait {
    on: Waited,
    since: u64,
    /// The crowd in which the task is counted.
    crowd: Option<Object>,
}

#[derive(Default, Clone)]
struct Task {
    name: &'static str,
    wait: Option<Wait>,
    /// Pages of the I/O that the task wants to submit: the first as [`Waited::page`], and their
    /// number.
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
    /// Sets the number of members of a crowd at time `now`, and adds the time that the members
    /// before have lost to `area`.
    fn change(&mut self, now: u64, members: u32) {
        // The clocks of CPUs differ by up to a quantum.
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
    /// Holders of objects.
    holders: BTreeMap<Object, TaskId>,
    /// Number of tasks with pages to submit.
    submitting: u32,
    crowds: BTreeMap<Object, Open>,
    worst: Vec<Crowd>,
}

/// The table of waits; all calls come from the tests.
#[derive(Default)]
pub struct Waiting(RefCell<Table>);

impl Table {
    /// Returns a task's entry; the table grows to reach it.
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

    /// Returns the task that holds the object of a wait: the known holder, or the one that the wait
    /// names, or, for a page, a waiting task that wants to submit its I/O. `None`: no task holds
    /// it.
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

    /// Returns the object at the end of a task's chain of holders, the number of tasks in between,
    /// and the object's holder. `None` if the task waits on nothing that tasks hold.
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

    /// Returns the members of an object's crowd, nearest to the object first, and last the object's
    /// holder.
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

    /// Adds a task to the crowd of an object at time `now`; the first task opens the crowd.
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

    /// Takes a task out of the crowd of an object, and ends the crowd if it was the last.
    fn leave(&mut self, object: Object, now: u64) {
        let open = self.crowds.get_mut(&object).expect("a crowd with members");
        open.change(now, open.now - 1);
        if open.now == 0 {
            let open = self.crowds.remove(&object).expect("it is there");
            self.keep(object, open, now);
        }
    }

    /// Records the members of an object's crowd if it is larger than ever.
    fn measure(&mut self, object: Object, now: u64) {
        let grown = self.crowds.get(&object).filter(|c| c.now > c.most);
        let Some(members) = grown.map(|c| c.now) else {
            return;
        };
        let list = self.members(object, now);
        let open = self.crowds.get_mut(&object).expect("it is there");
        (open.most, open.most_at, open.members) = (members, now, list);
    }

    /// Keeps a crowd that has ended if it is among those in which tasks lost most time.
    fn keep(&mut self, (kind, id): Object, open: Open, now: u64) {
        // A lone task that waits for an object without a holder is not a crowd.
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

    /// Moves every waiter whose chain has changed to the crowd at the chain's end.
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

impl Waiting {
    /// Restarts the sums at `now`, when the workload starts; waits under way count from `now` on.
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

    /// Notes the pages of the I/O that a task wants to submit (the first, and how many), for which
    /// it may wait for a request; `None`: none any more.
    pub fn submits(&self, task: TaskId, pages: Option<(u64, u32)>) {
        let table = &mut *self.0.borrow_mut();
        let before = std::mem::replace(&mut table.task(task).submits, pages);
        table.submitting += u32::from(pages.is_some());
        table.submitting -= u32::from(before.is_some());
    }

    /// Notes that a task holds an object from now on; `None`: no task does.
    pub fn holds(&self, kind: WaitedKind, object: u64, task: Option<TaskId>, now: u64) {
        let table = &mut *self.0.borrow_mut();
        match task {
            Some(task) => table.holders.insert((kind, object), task),
            None => table.holders.remove(&(kind, object)),
        };
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
        table.task(task).wait = Some(Wait {
            on,
            since: now,
            crowd: None,
        });
        // The waiters on this task's objects are in the crowd behind its own object from now on.
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

    /// Notes the end of a task's wait at time `now`, if it has one: adds its time to the sums, and
    /// takes the task out of its crowd.
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

    /// Returns the sums by kind and the crowds that cost most time; waits under way count up to
    /// time `end`.
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
