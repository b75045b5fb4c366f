//! The script's shell and the processes that it starts.

use super::boot::boot;
use super::build::since_tick;
use super::gather::inodes_freed;
use crate::SimMm;
use crate::ftrace;
use crate::host::{Forks, Namespace, Runs, TaskHost};
use crate::spec::{Change, RunSpec};
use crate::world::own_queue;
use mm::SECOND;
use mm::memory::task::PF_MEMBIND;
use mm::world::{Tasks, Watch};
use std::cell::{Cell, RefCell};
use workload::{HostError, Instance, Report, Session, Step, Task};

/// State that the workload's shell leaves for the gatherer.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) started: Cell<Option<u64>>,
    /// Number of events recorded before the start.
    pub(super) recorded: Cell<usize>,
    pub(super) finished: Cell<Option<u64>>,
    pub(super) baseline: RefCell<Vec<(String, u64)>>,
    /// Inodes freed before the start, of each filesystem.
    pub(super) freed: RefCell<Vec<u64>>,
    /// Reports of programs, each with its program's instance if there are several.
    pub(super) reports: RefCell<Vec<(Option<Instance>, Report)>>,
    pub(super) error: RefCell<Option<HostError>>,
    /// Number of mid-run changes made.
    pub(super) changes: Cell<u32>,
    /// Time of the next change, in nanoseconds since boot.
    pub(super) change_at: Cell<Option<u64>>,
    pub(super) background: Cell<usize>,
    pub(super) foreground: Cell<usize>,
}

impl Progress {
    /// Returns the time of the next change that was not made yet, in nanoseconds since boot; `None`
    /// if there is none, or if the workload has not begun.
    pub(super) fn next_change(&self, changes: &[Change]) -> Option<u64> {
        let next = changes.get(self.changes.get() as usize)?;
        Some(self.started.get()? + next.at_ns)
    }
}

/// The state that the tasks of a workload share.
pub(super) struct Stage<'a, const T: bool> {
    pub(super) mm: &'a SimMm<T>,
    pub(super) spec: &'a RunSpec,
    pub(super) names: &'a Namespace,
    pub(super) forks: &'a Forks<T>,
    pub(super) session: &'a Session,
    pub(super) progress: &'a Progress,
}

impl<'a, const T: bool> Stage<'a, T> {
    /// Returns a host whose time counts from the start of the workload.
    fn host(&self) -> TaskHost<'a, T> {
        let start = self.progress.started.get().unwrap_or(0);
        TaskHost::new(self.mm, self.names, self.forks, start)
    }
}

/// Runs the script's shell: boots the machine, creates the files that exist before the workload,
/// restarts all measurements, then runs the foreground steps one after the other and ends the run.
pub(super) async fn shell<const T: bool>(stage: &Stage<'_, T>) {
    let Stage {
        mm, spec, progress, ..
    } = *stage;
    let just_booted = spec.params.just_booted >= 0.5;
    if !boot(mm, &spec.machine, &spec.params).await {
        mm.world
            .out_of_memory("the machine's boot footprint does not fit its memory".into());
        return;
    }
    for path in &spec.workload.directories {
        if !stage.names.lay_out_dir(mm, path) {
            *progress.error.borrow_mut() = Some(HostError::NoSpace(path.clone()));
            mm.world.sched.stop();
            return;
        }
    }
    for file in &spec.workload.files {
        if !stage.names.lay_out(mm, &file.path, file.len) {
            let error = HostError::NoSpace(format!("{} ({} bytes)", file.path, file.len));
            *progress.error.borrow_mut() = Some(error);
            mm.world.sched.stop();
            return;
        }
    }
    bind(mm, spec);
    if just_booted {
        for fs in &mm.world.fs {
            mm.world
                .came_up(fs.volume, fs.kind().about().own_bdi.is_none());
        }
    }
    // A second passes between boot and workload: counters settle, kswapd sleeps.
    mm.world.sched.sleep(SECOND).await;
    if just_booted {
        let tick = SECOND / u64::from(spec.machine.hz);
        let at = mm.world.sched.last_tick() + since_tick(spec.seed, tick);
        let left = (at + tick - mm.world.now()) % tick;
        mm.world.sched.sleep(left).await;
    }
    mm.world.alloc.reset();
    mm.world.slowest.reset();
    let start = mm.world.now();
    mm.world.sched.restart_accounts();
    mm.world.reclaim.restart(start);
    mm.world.stack.restart();
    mm.world.sched.waiting.restart(start);
    progress.recorded.set(mm.world.events.borrow().len());
    *progress.baseline.borrow_mut() = mm.vmstat();
    // A guest's groups are looked at here, which flushes their statistics.
    mm.read_group_stats();
    *progress.freed.borrow_mut() = inodes_freed(mm);
    progress.started.set(Some(start));
    mm.world.mark(ftrace::BEGINS);
    progress.change_at.set(progress.next_change(&spec.changes));
    if let Some(time) = progress.change_at.get() {
        mm.world.sched.look_by(time);
    }
    let queue = mm.world.queue_base + own_queue::PROCESS_DONE;
    for step in &spec.workload.steps {
        match step {
            Step::Foreground(process) => {
                if !run_process(process, stage).await {
                    break;
                }
            }
            Step::Background(_) => {
                progress.background.set(progress.background.get() + 1);
                mm.world.sched.wake(queue);
            }
            Step::Wait => loop {
                let ticket = mm.world.sched.ticket(queue);
                if progress.foreground.get() >= progress.background.get() {
                    break;
                }
                mm.world.sched.wait(queue, ticket, None).await;
            },
        }
    }
    progress.finished.set(Some(mm.world.now()));
    mm.world.mark(ftrace::ENDS);
    mm.world.sched.stop();
}

/// Binds the calling task's memory to the workload's node, if it has one, and moves the task into
/// the workload's memory control group.
fn bind<const T: bool>(mm: &SimMm<T>, spec: &RunSpec) {
    if let Some(node) = spec.membind {
        mm.init_task(mm.world.sched.task(), PF_MEMBIND, node);
    }
    let group = mm.world.group_of_workload;
    if group != 0 {
        mm.enter_group(group);
        mm.world.sched.enter_group(group);
    }
}

/// Runs the commands of a process one after the other and keeps their reports. Returns false if one
/// failed; a killed command ends the process without failure.
async fn run_process<const T: bool>(process: &workload::Process, stage: &Stage<'_, T>) -> bool {
    let (host, progress) = (stage.host(), stage.progress);
    let w = &stage.mm.world;
    for command in &process.commands {
        w.listening.set_comm(w.sched.task(), command.name());
        let program = command.run(&host, stage.session);
        match host.run_program(Runs::Process(0), program).await {
            // The shell continues with its next step after a command that was killed.
            None => return true,
            Some(Ok(report)) => {
                let instance = stage.spec.workload.instance(command);
                progress.reports.borrow_mut().push((instance, report));
            }
            Some(Err(e)) => {
                progress.error.borrow_mut().get_or_insert(e);
                return false;
            }
        }
    }
    true
}

/// Runs the `nth` background process, once the shell has reached its step, and tells the shell when
/// it has ended.
pub(super) async fn background<const T: bool>(
    stage: &Stage<'_, T>,
    nth: usize,
    process: &workload::Process,
) {
    let Stage {
        mm, spec, progress, ..
    } = *stage;
    let queue = mm.world.queue_base + own_queue::PROCESS_DONE;
    loop {
        let ticket = mm.world.sched.ticket(queue);
        if progress.background.get() > nth {
            break;
        }
        // When woken, the task counts as a new process (`sched_fork`).
        mm.world.sched.begins_anew();
        mm.world.sched.wait(queue, ticket, None).await;
    }
    bind(mm, spec);
    run_process(process, stage).await;
    progress.foreground.set(progress.foreground.get() + 1);
    mm.world.sched.wake(queue);
}

/// Runs forked processes in a task reserved for them, once the first is forked: to the engine each
/// is a new task.
pub(super) async fn child<const T: bool>(stage: &Stage<'_, T>) {
    let Stage { mm, spec, .. } = *stage;
    let own = mm.world.sched.task();
    let queue = mm.world.queue_base + own_queue::FORK;
    let ticket = mm.world.sched.ticket(queue);
    // When woken, the task counts as a new process (`sched_fork`).
    mm.world.sched.begins_anew();
    mm.world.sched.wait(queue, ticket, None).await;
    let host = stage.host();
    let begin = || {
        mm.init_task(own, 0, 0);
        bind(mm, spec);
    };
    stage.forks.child(&host, stage.session, begin).await;
}
