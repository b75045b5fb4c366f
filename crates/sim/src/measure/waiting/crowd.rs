//! A crowd while it lasts, and its members.

use super::{MEMBERS, Member, Object, name};
use mm::world::TaskId;

/// A member of a crowd before it is turned into text, as most crowds are never reported.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub task: TaskId,
    pub name: &'static str,
    /// Object that the task waits on; `None`: the task runs.
    pub on: Option<Object>,
    /// Beginning of the wait, in nanoseconds since the start of the workload.
    pub since: u64,
    /// Number of tasks between this one and the object.
    pub behind: u32,
}

impl Seen {
    /// Turns a member into the texts of a report.
    pub fn member(&self) -> Member {
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

/// Returns a task's name and number.
fn label(name: &str, task: TaskId) -> String {
    format!("{} {task}", if name.is_empty() { "task" } else { name })
}

/// A crowd that has members; times in nanoseconds, `area` in task-nanoseconds.
pub(super) struct Open {
    pub since: u64,
    pub now: u32,
    pub most: u32,
    pub most_at: u64,
    pub area: u64,
    pub changed: u64,
    /// Members at the time of the maximum; see [`super::Crowd::members`].
    pub members: Vec<Seen>,
}

impl Open {
    /// Returns a crowd without members that begins at `now` (nanoseconds). `members`: an empty
    /// list, perhaps with memory from an earlier crowd.
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

    /// Sets the number of members at time `now`, and adds the time that the members before have
    /// lost to `area`.
    pub fn change(&mut self, now: u64, members: u32) {
        // The clocks of CPUs differ by up to a quantum.
        self.area += u64::from(self.now) * now.saturating_sub(self.changed);
        self.changed = self.changed.max(now);
        self.now = members;
    }
}

/// Cuts a list of members to the [`MEMBERS`] nearest to the object, at equal distance the longest
/// waiters first, and sorts it so.
pub(super) fn nearest(members: &mut Vec<Seen>) {
    let place = |m: &Seen| (m.behind, m.since, m.task);
    if members.len() > MEMBERS {
        members.select_nth_unstable_by_key(MEMBERS, place);
        members.truncate(MEMBERS);
    }
    members.sort_unstable_by_key(place);
}
