//! Processes that a program forks, and the tasks that run them.

use super::TaskHost;
use super::process::{Pid, Runs};
use crate::world::own_queue;
use mm::world::Tasks;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use workload::{AnyTask, HostResult, Report, Session, Task};

/// The processes of one fork call; the parent waits for all of them.
pub(super) struct Family {
    pub alive: Cell<usize>,
    pub results: RefCell<Vec<Option<HostResult<Report>>>>,
}

/// A process that was forked and waits for a task to run it.
pub(super) struct Forked<const T: bool> {
    pub task: Box<dyn for<'a> AnyTask<TaskHost<'a, T>>>,
    /// The process's index in its family.
    pub nth: usize,
    /// CPU mask that the parent was bound to and the child inherits.
    pub cpus: u64,
    /// Whether the kernel sees it as a new process or as a thread.
    pub runs: Runs,
    /// The memory control group of the parent, in which the process begins; 0: none.
    pub group: u32,
    pub family: Rc<Family>,
}

/// Queue of forked processes that no task runs yet.
#[derive(Default)]
pub struct Forks<const T: bool> {
    pub(super) waiting: RefCell<VecDeque<Forked<T>>>,
    /// Highest process number given out so far.
    pids: Cell<Pid>,
}

impl<const T: bool> Forks<T> {
    /// Returns a process number that was never used before.
    pub(super) fn new_pid(&self) -> Pid {
        self.pids.set(self.pids.get() + 1);
        self.pids.get()
    }

    /// Runs forked processes on one task, one after the other: takes the next from the queue, runs
    /// its program to the end, keeps its report and wakes the parent after the last of a family.
    /// Never returns. `begin` is called before each.
    pub async fn child(&self, host: &TaskHost<'_, T>, session: &Session, begin: impl Fn()) {
        let w = &host.mm.world;
        loop {
            let ticket = w.sched.ticket(w.queue_base + own_queue::FORK);
            let next = self.waiting.borrow_mut().pop_front();
            let Some(forked) = next else {
                // When woken, the task counts as a new process (`sched_fork`).
                w.sched.begins_anew();
                w.sched
                    .wait(w.queue_base + own_queue::FORK, ticket, None)
                    .await;
                continue;
            };
            begin();
            let (task, name) = (w.sched.task(), forked.task.task_name());
            w.sched.waiting.set_name(task, name);
            w.listening.set_comm(task, name);
            w.sched.bind(forked.cpus).await;
            host.move_to_group(forked.group);
            let program = forked.task.run_boxed(host, session);
            let ended = host.run_program(forked.runs, program).await;
            // A killed process reports no measurements.
            let result = ended.unwrap_or_else(|| Ok(Report::default()));
            let family = forked.family;
            family.results.borrow_mut()[forked.nth] = Some(result);
            family.alive.set(family.alive.get() - 1);
            if family.alive.get() == 0 {
                w.sched.wake(w.queue_base + own_queue::EXIT);
            }
            w.relax().await;
        }
    }
}

impl<const T: bool> TaskHost<'_, T> {
    /// Queues all children for the tasks that run forked processes (fork(2)) and waits until they
    /// have ended (wait(2)). Returns their reports in order, or the first error.
    pub(super) async fn fork_all<C: Task>(&self, children: Vec<C>) -> HostResult<Vec<Report>> {
        let w = &self.mm.world;
        let family = Rc::new(Family {
            alive: Cell::new(children.len()),
            results: RefCell::new(vec![None; children.len()]),
        });
        for (nth, child) in children.into_iter().enumerate() {
            w.work(w.calls.fork).await;
            self.forks.waiting.borrow_mut().push_back(Forked {
                task: Box::new(child),
                nth,
                cpus: w.sched.affinity(),
                runs: match C::THREAD {
                    true => Runs::Thread(self.life.pid()),
                    false => Runs::Process(self.life.pid()),
                },
                group: self.mm.current_group(),
                family: Rc::clone(&family),
            });
            w.sched.wake_one(w.queue_base + own_queue::FORK);
            w.relax().await;
        }
        let exit = w.queue_base + own_queue::EXIT;
        loop {
            let ticket = w.sched.ticket(exit);
            if family.alive.get() == 0 {
                break;
            }
            if self.dies_here() {
                self.die().await;
            }
            w.sched.wait(exit, ticket, None).await;
        }
        let results = family.results.take();
        results
            .into_iter()
            .map(|r| r.expect("an ended process has a result"))
            .collect()
    }
}
