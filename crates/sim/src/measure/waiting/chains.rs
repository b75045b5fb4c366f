//! The chains of waiters: which task waits on which object, and behind which task, kept as lists.
//!
//! An object that tasks can hold has a list of its waiters, and a task has a list of the waiters on
//! objects that it holds. A change therefore finds exactly the tasks that it concerns: those behind
//! the task whose wait begins or ends, the waiters of the object that changes hands, and all tasks
//! behind those in turn. The lists run through the tasks' own entries; nothing is allocated for a
//! wait once the tables have grown.

use super::crowd::Open;
use super::{DEPTH, Object, held_by_tasks, of_page};
use mm::world::{TaskId, Waited, WaitedKind};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// No task, or no index.
pub(super) const NONE: u32 = u32::MAX;

/// Neighbours in a list.
#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

const UNLINKED: Link = Link {
    before: NONE,
    after: NONE,
};

/// The wait of a task.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub on: Waited,
    pub since: u64,
    /// Index of the object in [`Chains::things`] if tasks can hold it, otherwise [`NONE`].
    pub object: u32,
    /// Index of the object in whose crowd the task is counted, or [`NONE`].
    pub crowd: u32,
    /// Holder of the object, or [`NONE`].
    holder: TaskId,
    /// Neighbours in the list of the object's waiters.
    beside: Link,
    /// Neighbours in the list of waiters behind the holder.
    along: Link,
    /// Index of the task in [`Chains::page_waiters`].
    page_at: u32,
}

/// A task: its wait, and the list of tasks that wait behind it.
#[derive(Clone)]
pub(super) struct Task {
    pub name: &'static str,
    pub wait: Option<Wait>,
    /// Pages of the I/O that the task wants to submit: the first as [`Waited::page`], and their
    /// number.
    submits: Option<(u64, u32)>,
    /// First in the list of waiters on objects that this task holds, or [`NONE`].
    behind: TaskId,
    /// Number of the last walk that has met the task.
    met: u32,
}

impl Default for Task {
    /// Returns a task without name that does not wait and has no task behind it.
    fn default() -> Self {
        Self {
            name: "",
            wait: None,
            submits: None,
            behind: NONE,
            met: 0,
        }
    }
}

/// An object that tasks hold and wait on.
pub(super) struct Thing {
    pub what: Object,
    holder: TaskId,
    /// First in the list of the object's waiters.
    first: TaskId,
    /// The crowd behind the object; `None` if it has no waiters.
    pub open: Option<Open>,
    /// True if the object is in the tables; false for a free entry.
    known: bool,
}

/// Waits, holders, and the chains that they form.
#[derive(Default)]
pub(super) struct Chains {
    pub tasks: Vec<Task>,
    pub things: Vec<Thing>,
    /// Index of each object in `things`.
    places: Places,
    free: Vec<u32>,
    /// Tasks that wait and have pages to submit, ordered by number.
    submitting: Vec<TaskId>,
    /// Tasks that wait on a page, in no order.
    page_waiters: Vec<TaskId>,
    /// Tasks whose chain may have changed since the last call of [`Chains::moved`].
    concerned: Vec<TaskId>,
    walk: u32,
}

/// Indices of objects. A writeback of an inode is under way for every file that is written, so
/// these are found by inode number; other objects by kind and number.
#[derive(Default)]
struct Places {
    /// By inode: its index; or [`NONE`]; or [`HELD`] and its holder while no task waits.
    inodes: Vec<u32>,
    others: FxHashMap<(u8, u64), u32>,
}

/// Flag in [`Places::inodes`]: the entry is a task, not an index. With all other bits set it is
/// [`NONE`].
const HELD: u32 = 1 << 31;

impl Places {
    /// Returns the index of an object; `None` if it is not in the tables.
    fn get(&self, (kind, object): Object) -> Option<u32> {
        let known = match kind {
            WaitedKind::InodeSync => self.inodes.get(object as usize).filter(|&&at| at < HELD),
            _ => self.others.get(&(kind as u8, object)),
        };
        known.copied()
    }

    /// Returns the entry of an inode's writeback in `inodes`, which grows to reach it.
    fn inode(&mut self, object: u64) -> &mut u32 {
        let at = object as usize;
        if self.inodes.len() <= at {
            self.inodes.resize(at + 1, NONE);
        }
        &mut self.inodes[at]
    }

    /// Notes the holder of an inode's writeback that has no index, because no task waits for it;
    /// `None`: no holder. Returns true if that is all there is to do, false for an object that has
    /// an index or is of another kind.
    fn hold_alone(&mut self, (kind, object): Object, task: Option<TaskId>) -> bool {
        if kind != WaitedKind::InodeSync {
            return false;
        }
        let known = self.inode(object);
        let alone = *known >= HELD;
        if alone {
            *known = task.map_or(NONE, |task| HELD | task);
        }
        alone
    }

    /// Returns the holder of an object that has no index, as only an inode's writeback can; or
    /// [`NONE`].
    fn holder_alone(&self, (kind, object): Object) -> TaskId {
        let known = match kind {
            WaitedKind::InodeSync => self.inodes.get(object as usize),
            _ => None,
        };
        match known {
            Some(&known) if known != NONE => known & !HELD,
            _ => NONE,
        }
    }

    /// Notes that an object has the index `at`.
    fn insert(&mut self, (kind, object): Object, at: u32) {
        if kind == WaitedKind::InodeSync {
            *self.inode(object) = at;
        } else {
            self.others.insert((kind as u8, object), at);
        }
    }

    /// Forgets the index of an object.
    fn remove(&mut self, (kind, object): Object) {
        match kind {
            WaitedKind::InodeSync => self.inodes[object as usize] = NONE,
            _ => drop(self.others.remove(&(kind as u8, object))),
        }
    }
}

/// Returns the pages of an I/O that a task wants to submit.
fn pages((first, n): (u64, u32)) -> Range<u64> {
    first..first + u64::from(n)
}

impl Chains {
    /// Returns a task's entry; the table grows to reach it.
    pub fn task(&mut self, task: TaskId) -> &mut Task {
        let at = task as usize;
        if self.tasks.len() <= at {
            self.tasks.resize(at + 1, Task::default());
        }
        &mut self.tasks[at]
    }

    pub fn wait(&self, task: TaskId) -> Option<&Wait> {
        self.tasks.get(task as usize)?.wait.as_ref()
    }

    /// Returns the wait of a task that is in a list of waiters.
    fn linked(&mut self, task: TaskId) -> &mut Wait {
        let wait = self.tasks[task as usize].wait.as_mut();
        wait.expect("whoever is on a list waits")
    }

    /// Returns the index of an object in `things`, adding the object to the tables if need be.
    fn place(&mut self, what: Object) -> u32 {
        if let Some(at) = self.places.get(what) {
            return at;
        }
        let holder = self.places.holder_alone(what);
        let at = match self.free.pop() {
            // No task has held or waited on this entry's object since it was forgotten.
            Some(at) => {
                let thing = &mut self.things[at as usize];
                (thing.what, thing.holder, thing.known) = (what, holder, true);
                at
            }
            None => {
                self.things.push(Thing {
                    what,
                    holder,
                    first: NONE,
                    open: None,
                    known: true,
                });
                self.things.len() as u32 - 1
            }
        };
        self.places.insert(what, at);
        at
    }

    /// Removes the object at an index from the tables if it has neither holder nor waiters nor
    /// crowd; daemons and logs stay, as they are few and recur.
    pub fn forget(&mut self, at: u32) {
        let thing = &mut self.things[at as usize];
        if matches!(thing.what.0, WaitedKind::Server | WaitedKind::LogForce) {
            return;
        }
        let used = thing.holder != NONE || thing.first != NONE || thing.open.is_some();
        if thing.known && !used {
            thing.known = false;
            self.places.remove(thing.what);
            self.free.push(at);
        }
    }

    /// Returns the task that holds the object of a wait, or [`NONE`]: the known holder, or the one
    /// that the wait names, or, for a page, a waiting task that wants to submit its I/O.
    fn holder(&self, wait: &Wait) -> TaskId {
        let known = self.things[wait.object as usize].holder;
        if known != NONE {
            return known;
        }
        wait.on.holder.unwrap_or_else(|| {
            let has = |&t: &TaskId| {
                let submits = self.tasks[t as usize].submits;
                submits.is_some_and(|s| pages(s).contains(&wait.on.object))
            };
            let any = of_page(wait.on.kind) && !self.submitting.is_empty();
            let found = any.then(|| self.submitting.iter().copied().find(has));
            found.flatten().unwrap_or(NONE)
        })
    }

    /// Looks up again which task holds the object that `task` waits on, and moves `task` to the
    /// list of waiters behind that holder. A task does not wait behind itself.
    fn follow(&mut self, task: TaskId) {
        let wait = *self.linked(task);
        let holder = match self.holder(&wait) {
            own if own == task => NONE,
            holder => holder,
        };
        if holder != wait.holder {
            self.leave_holder(task);
            self.linked(task).holder = holder;
            if holder != NONE {
                let next = std::mem::replace(&mut self.task(holder).behind, task);
                self.linked(task).along.after = next;
                if next != NONE {
                    self.linked(next).along.before = task;
                }
            }
        }
    }

    /// Takes a task off the list of waiters behind the task that holds its object, if any does.
    fn leave_holder(&mut self, task: TaskId) {
        let wait = self.linked(task);
        let holder = std::mem::replace(&mut wait.holder, NONE);
        let Link { before, after } = std::mem::replace(&mut wait.along, UNLINKED);
        if holder == NONE {
            return;
        }
        match before {
            NONE => self.tasks[holder as usize].behind = after,
            before => self.linked(before).along.after = after,
        }
        if after != NONE {
            self.linked(after).along.before = before;
        }
    }

    /// Takes a task off the list of the waiters on its object: unlinks it from both neighbours.
    fn leave_object(&mut self, task: TaskId) {
        let wait = self.linked(task);
        let (at, Link { before, after }) = (wait.object as usize, wait.beside);
        match before {
            NONE => self.things[at].first = after,
            before => self.linked(before).beside.after = after,
        }
        if after != NONE {
            self.linked(after).beside.before = before;
        }
    }

    /// Puts a task first on the list of the waiters on its object.
    fn join_object(&mut self, task: TaskId) {
        let at = self.linked(task).object as usize;
        let next = std::mem::replace(&mut self.things[at].first, task);
        self.linked(task).beside.after = next;
        if next != NONE {
            self.linked(next).beside.before = task;
        }
    }

    /// Notes that a task begins to wait on an object at time `now`, and enters the task in the
    /// lists of waiters. The tasks behind it, and those waiting for pages that it wants to submit,
    /// are noted as changed.
    pub fn begin(&mut self, task: TaskId, on: Waited, now: u64) {
        let held = held_by_tasks(on.kind);
        let object = match held {
            true => self.place((on.kind, on.object)),
            false => NONE,
        };
        let page_at = self.page_waiters.len() as u32;
        if of_page(on.kind) {
            self.page_waiters.push(task);
        }
        let entry = self.task(task);
        debug_assert!(entry.wait.is_none(), "task {task} waits twice");
        entry.wait = Some(Wait {
            on,
            since: now,
            object,
            crowd: NONE,
            holder: NONE,
            beside: UNLINKED,
            along: UNLINKED,
            page_at,
        });
        // The waiters on this task's objects wait behind its own object from now on.
        self.mark_those_behind(task);
        self.add_submitter(task);
        if held {
            self.join_object(task);
            self.follow(task);
        }
    }

    /// Notes the end of a task's wait and returns that wait; `None` if the task did not wait. The
    /// tasks behind it are noted as changed.
    pub fn end(&mut self, task: TaskId) -> Option<Wait> {
        let wait = self.tasks.get(task as usize)?.wait?;
        if wait.object != NONE {
            self.leave_holder(task);
            self.leave_object(task);
        }
        if of_page(wait.on.kind) {
            let at = wait.page_at as usize;
            self.page_waiters.swap_remove(at);
            if let Some(&moved) = self.page_waiters.get(at) {
                self.linked(moved).page_at = wait.page_at;
            }
        }
        let first = self.concerned.len();
        self.mark_those_behind(task);
        self.tasks[task as usize].wait = None;
        self.remove_submitter(task, first);
        Some(wait)
    }

    /// Notes the pages of the I/O that the task wants to submit (the first, and how many), so that
    /// tasks that wait for these pages wait behind it as long as it waits itself; `None`: none any
    /// more.
    pub fn submits(&mut self, task: TaskId, pages: Option<(u64, u32)>) {
        let first = self.concerned.len();
        if let Some(wait) = self.wait(task) {
            let own = of_page(wait.on.kind);
            self.mark_those_behind(task);
            if own {
                // Another task that submits the page on which this one waits may become its holder.
                self.concerned.push(task);
            }
            self.remove_submitter(task, first);
        }
        self.task(task).submits = pages;
        if self.wait(task).is_some() {
            self.add_submitter(task);
        }
    }

    /// Adds the tasks that wait behind a task to `concerned`: they may have changed crowds.
    fn mark_those_behind(&mut self, task: TaskId) {
        let mut next = self.tasks[task as usize].behind;
        while next != NONE {
            self.concerned.push(next);
            next = self.linked(next).along.after;
        }
    }

    /// Enters a waiting task that keeps pages locked or under writeback until it can submit them:
    /// the tasks that wait for such a page wait behind this one from now on, and their chains of
    /// waits are built anew (`concerned`). Of pages and waiting tasks the shorter list is searched.
    fn add_submitter(&mut self, task: TaskId) {
        let Some(submits) = self.tasks[task as usize].submits else {
            return;
        };
        let at = self.submitting.partition_point(|&t| t < task);
        self.submitting.insert(at, task);
        let first = self.concerned.len();
        if (submits.1 as usize) < self.page_waiters.len() {
            for object in pages(submits) {
                for kind in [WaitedKind::PageLock, WaitedKind::PageWriteback] {
                    self.mark_waiters((kind, object));
                }
            }
        } else {
            for &waiter in &self.page_waiters {
                let wait = self.tasks[waiter as usize].wait.as_ref();
                if wait.is_some_and(|w| pages(submits).contains(&w.on.object)) {
                    self.concerned.push(waiter);
                }
            }
        }
        self.follow_concerned(first);
    }

    /// Takes a task off the list of those that wait and want to submit pages, if it wanted to; the
    /// tasks that were behind it, in `concerned` from index `first` on, look up their holders
    /// again.
    fn remove_submitter(&mut self, task: TaskId, first: usize) {
        if self.tasks[task as usize].submits.is_some() {
            self.submitting.retain(|&t| t != task);
            self.follow_concerned(first);
        }
    }

    /// Adds the waiters on an object to `concerned`, if it is in the tables: they may have changed
    /// crowds.
    fn mark_waiters(&mut self, what: Object) {
        if let Some(at) = self.places.get(what) {
            self.mark_waiters_at(at);
        }
    }

    /// Adds the waiters on the object at an index to `concerned`.
    fn mark_waiters_at(&mut self, at: u32) {
        let mut next = self.things[at as usize].first;
        while next != NONE {
            self.concerned.push(next);
            next = self.linked(next).beside.after;
        }
    }

    /// Looks up again the holders that the tasks in `concerned` from index `first` on wait behind.
    fn follow_concerned(&mut self, first: usize) {
        for at in first..self.concerned.len() {
            let task = self.concerned[at];
            // The task itself may wait on a page that it submits, and has then left its lists
            // already.
            if self.wait(task).is_some() {
                self.follow(task);
            }
        }
    }

    /// Notes that `task` holds an object from now on, so that the object's waiters wait behind it;
    /// `None`: no task does.
    pub fn holds(&mut self, what: Object, task: Option<TaskId>) {
        if self.places.hold_alone(what, task) {
            return;
        }
        let at = self.place(what);
        self.things[at as usize].holder = task.unwrap_or(NONE);
        let first = self.concerned.len();
        self.mark_waiters_at(at);
        self.follow_concerned(first);
        self.forget(at);
    }

    /// Returns true if [`Chains::moved`] would return any task.
    pub fn any_moved(&self) -> bool {
        !self.concerned.is_empty()
    }

    /// Collects in `tasks`, ordered by number, the tasks whose chains may have changed since the
    /// last call: all in `concerned`, and all tasks behind them.
    pub fn moved(&mut self, tasks: &mut Vec<TaskId>) {
        tasks.clear();
        self.walk = self.walk.wrapping_add(1);
        for at in 0..self.concerned.len() {
            self.meet(self.concerned[at], tasks);
        }
        self.concerned.clear();
        self.meet_those_behind(tasks);
        tasks.sort_unstable();
    }

    /// Collects in `tasks`, in no order, all tasks that wait on the object at an index, directly or
    /// through others.
    pub fn behind(&mut self, object: u32, tasks: &mut Vec<TaskId>) {
        tasks.clear();
        self.walk = self.walk.wrapping_add(1);
        let mut next = self.things[object as usize].first;
        while next != NONE {
            self.meet(next, tasks);
            next = self.linked(next).beside.after;
        }
        self.meet_those_behind(tasks);
    }

    /// Adds a task to `tasks` unless this walk over the lists has met it before.
    fn meet(&mut self, task: TaskId, tasks: &mut Vec<TaskId>) {
        let walk = self.walk;
        let entry = &mut self.tasks[task as usize];
        if entry.met != walk {
            entry.met = walk;
            tasks.push(task);
        }
    }

    /// Adds all tasks that wait behind those in `tasks`, directly or through others.
    fn meet_those_behind(&mut self, tasks: &mut Vec<TaskId>) {
        let mut at = 0;
        while at < tasks.len() {
            let mut next = self.tasks[tasks[at] as usize].behind;
            while next != NONE {
                self.meet(next, tasks);
                next = self.linked(next).along.after;
            }
            at += 1;
        }
    }

    /// Returns the index of the object at the end of a task's chain of holders, the number of tasks
    /// in between, and the object's holder or [`NONE`]. `None` if the task waits on nothing that
    /// tasks hold. A chain is followed for at most `DEPTH` tasks.
    pub fn root(&self, task: TaskId) -> Option<(u32, u32, TaskId)> {
        let mut root = None;
        let mut at = task;
        for depth in 0..DEPTH as u32 {
            let Some(wait) = self.wait(at).filter(|w| w.object != NONE) else {
                return root;
            };
            root = Some((wait.object, depth, wait.holder));
            if wait.holder == NONE {
                return root;
            }
            assert!(
                wait.holder != task,
                "task {task} waits for itself through others"
            );
            at = wait.holder;
        }
        root
    }
}
