//! The OOM killer: chooses a process to kill when an allocation found nothing to reclaim
//! (mm/oom_kill.c and `show_mem` of Linux 3.0, with the score of 3.6, which is in pages;
//! docs/reference/allocation.md#out-of-memory).
//!
//! A process has the memory that its regions hold ([`Mm::begin_process`]). The process that has
//! most is killed: from then on its tasks take pages without a test of watermarks, so that they can
//! end, and no other process is killed until they have ended. If a process has children with memory
//! of their own, one of them is killed in its place.
//!
//! Not modelled: the reaper of Linux 4.6, which takes a victim's memory while the victim still
//! waits, `oom_score_adj` other than that of protected processes, and memory cgroups.

use crate::cache::mmap::Held;
use crate::memory::buddy::ORDERS;
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::task::{PF_DYING, PF_KILLABLE};
use crate::memory::zone::{Mark, ZONE_OOM_LOCKED};
use crate::watch::vmstat::{VmEvent, ZoneStat};
use crate::world::event::Event;
use crate::world::{Audience, OomKill, TaskId, Waits, Word32, Word64, World};
use crate::{Mm, SECOND};
use std::fmt::Write as _;

/// A victim that has not ended after this time (ns) is taken to be in a deadlock with a task that
/// waits for it: a kernel before 4.6 would hang for ever.
const VICTIM_MAY_TAKE: u64 = 60 * SECOND;

/// A process that could be killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) pid: u32,
    parent: u32,
    /// The first of the process's tasks.
    task: TaskId,
    /// The memory control group of that task.
    pub(super) group: u32,
    pub(super) held: Held,
    pub(super) dying: bool,
}

impl Candidate {
    /// Returns the OOM killer's score of the process: the pages that its end would free, in memory
    /// and in the swap area, and its page tables (`oom_badness`).
    pub(super) fn points(&self) -> u64 {
        let Held {
            anon,
            file,
            swapped,
            tables,
            ..
        } = self.held;
        anon + file + swapped + tables
    }
}

/// The outcome of the search for a victim.
enum Found {
    /// A process to kill.
    Victim(Candidate),
    /// A process that was killed is still dying.
    Dying,
    /// No process can be killed.
    Nobody,
}

impl<W: World> Mm<W> {
    /// Makes the calling task run a program as process `pid`, or as a thread of it, which the OOM
    /// killer may kill; the process was forked by process `parent` (0: by none that could be
    /// killed). Numbers are above 0 and are never used twice.
    pub fn begin_process(&self, pid: u32, parent: u32) {
        assert!(pid > 0 && pid != parent, "process {pid} of {parent}");
        let task = self.current();
        task.process.set(pid);
        task.parent.set(parent);
        task.flags.fetch_or(PF_KILLABLE);
    }

    /// Notes that the calling task's program has ended, so that the OOM killer no longer considers
    /// the task. If it was the last thread of its process, the process's memory has been given
    /// back.
    pub fn end_process(&self) {
        debug_assert!(self.current_process().is_some(), "no process to end");
        self.current().flags.fetch_and(!(PF_KILLABLE | PF_DYING));
    }

    /// Returns the tasks that run process `pid` now.
    pub fn threads_of(&self, pid: u32) -> impl Iterator<Item = TaskId> {
        debug_assert!(pid > 0, "no process");
        let of = move |t: &TaskId| {
            let task = &self.tasks[*t as usize];
            task.flags() & PF_KILLABLE != 0 && task.process.get() == pid
        };
        (0..self.tasks.len() as TaskId).filter(of)
    }

    /// Returns true if the calling task was killed and has not ended yet.
    #[inline(always)]
    pub fn is_dying(&self) -> bool {
        self.current().flags() & PF_DYING != 0
    }

    /// Returns the number of the calling task's process; `None` if the OOM killer may not kill it.
    pub(crate) fn current_process(&self) -> Option<u32> {
        let task = self.current();
        (task.flags() & PF_KILLABLE != 0).then(|| task.process.get())
    }

    /// Returns every process that the OOM killer may kill, in the order of their tasks, with the
    /// memory that each holds.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = Vec::new();
        for (nth, task) in self.tasks.iter().enumerate() {
            if task.flags() & PF_KILLABLE == 0 {
                continue;
            }
            let (pid, dying) = (task.process.get(), task.flags() & PF_DYING != 0);
            match all.iter_mut().find(|c| c.pid == pid) {
                Some(c) => c.dying |= dying,
                None => all.push(Candidate {
                    pid,
                    parent: task.parent.get(),
                    task: nth as TaskId,
                    group: task.group.get(),
                    held: Held::default(),
                    dying,
                }),
            }
        }
        self.for_each_owned(|owner, held| {
            if let Some(c) = all.iter_mut().find(|c| c.pid == owner) {
                c.held.add(held);
            }
        });
        all
    }

    /// Chooses the process to kill among `all`: the one with most memory, or the one that asks for
    /// memory (`vm.oom_kill_allocating_task`); a child of it with memory of its own is taken in its
    /// place (`select_bad_process`, `oom_kill_process`). While a killed process is dying, none is
    /// chosen.
    fn select_bad_process(&self, all: &[Candidate]) -> Found {
        if all.iter().any(|c| c.dying) {
            return Found::Dying;
        }
        let asker = self.current_process();
        let kill_asker = self.sysctl.oom_kill_allocating_task().unwrap_or(0) != 0;
        let asker = asker.filter(|_| kill_asker);
        let worst = |chosen: Option<Candidate>, c: &Candidate| match chosen {
            Some(chosen) if chosen.points() >= c.points() => Some(chosen),
            _ => Some(*c),
        };
        let chosen = match asker {
            Some(asker) => all.iter().find(|c| c.pid == asker).copied(),
            None => all.iter().fold(None, worst),
        };
        let Some(chosen) = chosen else {
            return Found::Nobody;
        };
        let children = all.iter().filter(|c| c.parent == chosen.pid);
        let child = children.filter(|c| c.points() > 0).fold(None, worst);
        Found::Victim(child.unwrap_or(chosen))
    }

    /// Runs the OOM stage of a failed allocation of 2^`order` pages from `node`. Returns true if no
    /// process can be killed and the run has to end. Returns false if the allocation starts anew,
    /// because a process was killed, another task is in the OOM stage, or there is memory after
    /// all.
    pub(crate) async fn oom_stage(&self, node: u32, gfp: Gfp, order: u32) -> bool {
        let zones: Vec<usize> = self.eligible(node, gfp).collect();
        if zones
            .iter()
            .any(|&z| self.zones[z].flags.get() & ZONE_OOM_LOCKED != 0)
        {
            self.world.waits_for(Waits::Lock);
            self.world.sleep(self.tick()).await;
            return false;
        }
        for &z in &zones {
            self.zones[z].flags.fetch_or(ZONE_OOM_LOCKED);
        }
        let classzone = self.zones[zones[0]].kind.index();
        let last_look = zones
            .iter()
            .any(|&z| self.watermark_ok(z, order, self.zones[z].mark(Mark::High), classzone, 0));
        let ends = !last_look && self.out_of_memory(gfp, order);
        for &z in &zones {
            self.zones[z].flags.fetch_and(!ZONE_OOM_LOCKED);
        }
        if !last_look && !ends && !self.is_dying() {
            // The victim gets the CPU, and this task does not take the memory that it frees at
            // once.
            self.world.waits_for(Waits::Lock);
            self.world.sleep(self.tick()).await;
        }
        ends
    }

    /// Kills a process for a failed request of 2^`order` pages, unless one is dying already.
    /// Returns true if none can be killed or the victim does not end: the run ends then, with a
    /// report.
    pub(crate) fn out_of_memory(&self, gfp: Gfp, order: u32) -> bool {
        let asker = self.world.task();
        self.emit(Audience::Traces, || Event::OutOfMemory {
            task: asker,
            order,
        });
        let all = self.candidates();
        let panics = self.sysctl.panic_on_oom().unwrap_or(0) != 0;
        let found = match panics {
            true => Found::Nobody,
            false => self.select_bad_process(&all),
        };
        let now = self.world.now();
        match found {
            Found::Victim(victim) => {
                self.oom_began.set(now);
                self.oom_kill(victim, &all, (asker, gfp, order), 0);
                false
            }
            Found::Dying if now.saturating_sub(self.oom_began.get()) < VICTIM_MAY_TAKE => false,
            found => {
                let why = match found {
                    Found::Dying => "a process that was killed does not end",
                    _ if panics => "vm.panic_on_oom",
                    _ => "no process can be killed",
                };
                let report = format!(
                    "{} asked for 2^{order} pages; {why}\n{}",
                    self.world.comm(asker),
                    self.mem_info()
                );
                self.world.out_of_memory(report);
                true
            }
        }
    }

    /// Kills the process `victim`: marks its threads as dying, signals them, and reports the kill
    /// in the kernel's words. `all`: the processes for the report's table; `asked`: the task, flags
    /// and order of the failed request; `over`: the memory control group that is at its limit, 0 if
    /// the machine's memory has run out.
    pub(super) fn oom_kill(
        &self,
        victim: Candidate,
        all: &[Candidate],
        asked: (TaskId, Gfp, u32),
        over: u32,
    ) {
        let comm = self.world.comm(victim.task);
        let text = match over {
            0 => {
                let mut text = self.mem_info();
                self.put_tasks(all, &mut text);
                self.put_killed(&victim, &comm, &mut text);
                text
            }
            _ => self.group_report(over, all, (&victim, &comm)),
        };
        let pid = victim.pid;
        let kill = OomKill {
            time: self.world.now(),
            asker: asked.0,
            gfp: asked.1.0,
            order: asked.2,
            pid,
            comm,
            group: victim.group,
            over,
            text,
        };
        self.stat.event(VmEvent::OomKill, 1);
        self.count_group(victim.group, GroupEvent::OomKill, 1);
        self.emit(Audience::Traces, || Event::MarkVictim { pid });
        let threads: Vec<TaskId> = self.threads_of(pid).collect();
        for &task in &threads {
            self.tasks[task as usize].flags.fetch_or(PF_DYING);
        }
        threads.into_iter().for_each(|task| self.world.kill(task));
        // The victim's tasks may wait for the reserves, a wait that a fatal signal ends.
        if self.policy.emergency_throttle {
            let nodes = 0..self.nodes.len() as u32;
            nodes.for_each(|nid| self.world.wake(self.emergency_queue(nid)));
        }
        self.world.oom_killed(kill);
    }

    /// Appends the lines about a killed process to the OOM report (3.0's words).
    fn put_killed(&self, victim: &Candidate, comm: &str, text: &mut String) {
        let total = self.ram() + u64::from(self.config.swap_slots);
        let score = victim.points() * 1000 / total.max(1);
        let (pid, held) = (victim.pid, victim.held);
        let kb = |pages: u64| pages * 4;
        let _ = write!(
            text,
            "Out of memory: Kill process {pid} ({comm}) score {score} or sacrifice child\n\
             Killed process {pid} ({comm}) total-vm:{}kB, anon-rss:{}kB, file-rss:{}kB\n",
            kb(held.mapped),
            kb(held.anon),
            kb(held.file)
        );
    }

    /// Returns the number of pages of all zones.
    fn ram(&self) -> u64 {
        self.zones.iter().map(|z| u64::from(z.size)).sum()
    }

    /// Returns the memory part of the OOM report (`show_mem`): the memory in use by kind, and the
    /// free memory.
    fn mem_info(&self) -> String {
        let mut out = String::from("Mem-Info:\n");
        // Writing into a string does not fail.
        let _ = self.put_zones_free(&mut out);
        let _ = self.put_free_lists(&mut out);
        let (free, total) = (self.free_swap(), self.config.swap_slots);
        let _ = write!(
            out,
            "{} total pagecache pages\nFree swap  = {}kB\nTotal swap = {}kB\n{} pages RAM\n",
            self.stat.global(ZoneStat::NrFilePages),
            u64::from(free) * 4,
            u64::from(total) * 4,
            self.ram()
        );
        out
    }

    /// Appends each zone's free pages, watermarks and other levels, in kB, to the OOM report
    /// (`show_free_areas`).
    fn put_zones_free(&self, out: &mut String) -> std::fmt::Result {
        for z in 0..self.zones.len() {
            let (zone, home) = (&self.zones[z], self.lru_home(z));
            let name = zone.kind.name();
            write!(out, "Node {} {name}", zone.node)?;
            let level =
                |out: &mut String, name: &str, pages: u64| write!(out, " {name}:{}kB", pages * 4);
            level(out, "free", self.zone_stat(z, ZoneStat::NrFreePages))?;
            for (name, mark) in [("min", Mark::Min), ("low", Mark::Low), ("high", Mark::High)] {
                level(out, name, zone.mark(mark))?;
            }
            for (name, item) in LEVELS {
                if self.produces_level(*item) {
                    level(out, name, self.zone_stat(z, *item))?;
                }
            }
            level(out, "present", u64::from(zone.size))?;
            let hopeless = ["no", "yes"][usize::from(home.all_unreclaimable.get() != 0)];
            let scanned = home.pages_scanned.get();
            writeln!(
                out,
                " pages_scanned:{scanned} all_unreclaimable? {hopeless}"
            )?;
            write!(out, "lowmem_reserve[]:")?;
            for classzone in self.shown_classzones() {
                write!(out, " {}", zone.reserve(classzone))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Appends each zone's number of free blocks by order to the OOM report.
    fn put_free_lists(&self, out: &mut String) -> std::fmt::Result {
        for zone in &self.zones {
            write!(out, "Node {} {}:", zone.node, zone.kind.name())?;
            let mut total = 0;
            for order in 0..ORDERS {
                let blocks = u64::from(zone.nr_free[order].get());
                let kb = 4u64 << order;
                total += blocks * kb;
                write!(out, " {blocks}*{kb}kB")?;
            }
            writeln!(out, " = {total}kB")?;
        }
        Ok(())
    }

    /// Appends the table of processes that could be killed, with their memory in pages, to the OOM
    /// report (`dump_tasks`).
    pub(super) fn put_tasks(&self, all: &[Candidate], out: &mut String) {
        out.push_str("[ pid ]  ppid total_vm      rss nr_ptes swapents name\n");
        for c in all {
            let Held {
                mapped,
                anon,
                file,
                swapped,
                tables,
            } = c.held;
            let _ = writeln!(
                out,
                "[{:5}] {:5} {mapped:8} {:8} {tables:7} {swapped:8} {}",
                c.pid,
                c.parent,
                anon + file,
                self.world.comm(c.task)
            );
        }
    }
}

/// A zone's levels in the kernel's report, by the report's names.
const LEVELS: &[(&str, ZoneStat)] = &[
    ("active_anon", ZoneStat::NrActiveAnon),
    ("inactive_anon", ZoneStat::NrInactiveAnon),
    ("active_file", ZoneStat::NrActiveFile),
    ("inactive_file", ZoneStat::NrInactiveFile),
    ("unevictable", ZoneStat::NrUnevictable),
    ("isolated(anon)", ZoneStat::NrIsolatedAnon),
    ("isolated(file)", ZoneStat::NrIsolatedFile),
    ("dirty", ZoneStat::NrFileDirty),
    ("writeback", ZoneStat::NrWriteback),
    ("mapped", ZoneStat::NrFileMapped),
    ("slab_reclaimable", ZoneStat::NrSlabReclaimable),
    ("kernel", ZoneStat::NrKernel),
];
