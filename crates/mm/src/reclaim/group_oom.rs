//! Out of memory in a memory control group (mm/memcontrol.c `mem_cgroup_oom`,
//! `mem_cgroup_get_oom_group`; mm/oom_kill.c; docs/reference/memory-groups.md#out-of-memory).

use super::oom::Candidate;
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::world::{Word64, World};
use std::fmt::Write as _;

impl<W: World> Mm<W> {
    /// Kills a process of the group `over`, which is at its limit, or of a group inside it. Returns
    /// true if the charge shall try again: there is memory, a process was killed, or one is dying;
    /// false if none can be killed.
    pub(crate) async fn group_out_of_memory(&self, over: u32) -> bool {
        if self.group_margin(over) > 0 || self.is_dying() {
            return true;
        }
        let below = over..self.groups.group(over).end;
        let mut all = self.candidates();
        all.retain(|c| below.contains(&c.group));
        if all.iter().any(|c| c.dying) {
            // The victim needs the CPU to end.
            self.world.relax().await;
            return true;
        }
        // The process with most memory; of several, the one that began last (`oom_evaluate_task`).
        let Some(victim) = all.iter().max_by_key(|c| c.points()).copied() else {
            return false;
        };
        let whole = self.oom_group_of(victim.group, over);
        let asked = (self.world.task(), Gfp::USER, 0);
        self.oom_began.set(self.world.now());
        self.oom_kill(victim, &all, asked, over);
        if let Some(whole) = whole {
            self.count_group(whole, GroupEvent::OomGroupKill, 1);
            let inside = whole..self.groups.group(whole).end;
            for c in &all {
                if c.pid != victim.pid && inside.contains(&c.group) {
                    self.oom_kill(*c, &all, asked, over);
                }
            }
        }
        true
    }

    /// Returns the outermost group from `group` up to `over` that is killed as a whole
    /// (`memory.oom.group`); `None`: none is.
    fn oom_group_of(&self, group: u32, over: u32) -> Option<u32> {
        let mut whole = None;
        for g in self.groups.upwards(group) {
            if self.groups.group(g).limits.oom_group {
                whole = Some(g);
            }
            if g == over {
                break;
            }
        }
        whole
    }

    /// Returns the report of a kill in the group `over`, in the words of 6.12: its memory and
    /// limit, its processes, and the one that is killed.
    pub(super) fn group_report(
        &self,
        over: u32,
        all: &[Candidate],
        (victim, comm): (&Candidate, &str),
    ) -> String {
        let group = self.groups.group(over);
        let kb = |pages: u64| pages.saturating_mul(4);
        let mut text = format!(
            "memory: usage {}kB, limit {}kB\nswap: usage {}kB\n",
            kb(group.usage.get()),
            kb(group.limits.max),
            kb(group.swap.get())
        );
        self.put_tasks(all, &mut text);
        let held = victim.held;
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "Memory cgroup out of memory: Killed process {} ({comm}) total-vm:{}kB, \
             anon-rss:{}kB, file-rss:{}kB",
            victim.pid,
            kb(held.mapped),
            kb(held.anon),
            kb(held.file)
        );
        text
    }
}
