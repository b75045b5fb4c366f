//! A crowd while it lasts.

use super::{MEMBERS, Member, Object, name};
use mm::world::TaskId;

/// A task in a crowd, before it is put in words: most crowds are never told of.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub task: TaskId,
    pub name: &'static str,
    /// What it waits on; `None`: it runs.
    pub on: Option<Object>,
    /// Since when, in nanoseconds since the start of the workload.
    pub since: u64,
    /// How many tasks stand between it and the object.
    pub behind: u32,
}

impl Seen {
    pub fn told(&self) -> Member {
        Member {
            task: label(self.name, self.task),
            waits_on: self
                .on
                .map_or_else(|| "runs".into(), |(kind, object)| name(kind, object)),
            since_ns: self.since,
            behind: self.behind,
        }
    }
}

/// A task's name and number.
fn label(name: &str, task: TaskId) -> String {
    format!("{} {task}", if name.is_empty() { "task" } else { name })
}

/// A crowd that has members.
pub(super) struct Open {
    pub since: u64,
    pub now: u32,
    pub most: u32,
    pub most_at: u64,
    pub area: u64,
    pub changed: u64,
    /// Who they were when they were most; see [`super::Crowd::members`].
    pub members: Vec<Seen>,
}

impl Open {
    pub fn new(now: u64, members: Vec<Seen>) -> Self {
        Self {
            since: now,
            now: 0,
            most: 0,
            most_at: now,
            area: 0,
            changed: now,
            members,
        }
    }

    /// The number of members changes.
    pub fn change(&mut self, now: u64, members: u32) {
        // Clocks of CPUs differ by a quantum.
        self.area += u64::from(self.now) * now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        self.now = members;
    }
}

/// The [`MEMBERS`] that stand nearest to the object, the longest there first.
pub(super) fn nearest(members: &mut Vec<Seen>) {
    let place = |m: &Seen| (m.behind, m.since, m.task);
    if members.len() > MEMBERS {
        members.select_nth_unstable_by_key(MEMBERS, place);
        members.truncate(MEMBERS);
    }
    members.sort_unstable_by_key(place);
}
