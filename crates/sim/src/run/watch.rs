//! The observer of a run: samples, recounts, progress and the time limit; it also writes sysctls in
//! mid-run.

use super::shell::Stage;
use crate::Control;
use crate::result::Outcome;
use crate::sample::{Lumpiness, Sampler};
use crate::sched::Observer;
use mm::world::TaskId;
use mm::{Recount, SECOND};
use std::sync::atomic::Ordering;

/// Returns the time of the next periodic look: the first multiple of `every` nanoseconds after
/// `time`; `u64::MAX`, never, if `every` is 0.
fn next_look(time: u64, every: u64) -> u64 {
    match every {
        0 => u64::MAX,
        every => (time / every + 1).saturating_mul(every),
    }
}

/// The observer of a run.
pub(super) struct Watch<'a, const T: bool> {
    pub(super) stage: &'a Stage<'a, T>,
    pub(super) control: &'a Control,
    pub(super) sampler: Sampler,
    pub(super) lumpiness: Lumpiness,
    pub(super) recount: Recount,
    /// Times of the next look of each kind, in nanoseconds since boot.
    pub(super) sample_at: u64,
    pub(super) check_at: u64,
    pub(super) second_at: u64,
    pub(super) limit_at: u64,
    /// The outcome for which the observer ended the run.
    pub(super) outcome: Option<Outcome>,
    pub(super) check_error: Option<String>,
}

impl<'a, const T: bool> Watch<'a, T> {
    /// Returns the observer of a run, with the times of its first looks. `kswapds`, `flushers`: the
    /// tasks whose CPU time is sampled.
    pub(super) fn new(
        stage: &'a Stage<'a, T>,
        control: &'a Control,
        kswapds: Vec<TaskId>,
        flushers: Vec<TaskId>,
    ) -> Self {
        let spec = stage.spec;
        Self {
            stage,
            control,
            sampler: Sampler::new(&spec.machine, kswapds, flushers),
            lumpiness: Lumpiness::default(),
            recount: Recount::default(),
            sample_at: next_look(0, spec.sample_ns),
            check_at: next_look(0, spec.check_ns),
            second_at: SECOND,
            limit_at: match spec.time_limit_ns {
                0 => u64::MAX,
                limit => limit,
            },
            outcome: None,
            check_error: None,
        }
    }
}

impl<const T: bool> Watch<'_, T> {
    /// Returns the time of the next change of sysctls; `u64::MAX` if there is none.
    fn change_at(&self) -> u64 {
        self.stage.progress.change_at.get().unwrap_or(u64::MAX)
    }

    /// Writes the sysctls whose change in mid-run is due by `time` (nanoseconds since boot).
    fn change(&self, time: u64) {
        let Stage {
            mm, spec, progress, ..
        } = *self.stage;
        while self.change_at() <= time {
            let nth = progress.changes.get();
            let sysctl = &spec.changes[nth as usize].sysctl;
            let write = || mm.write_sysctls(sysctl);
            mm.world.sched.aside(self.change_at(), write);
            progress.changes.set(nth + 1);
            progress.change_at.set(progress.next_change(&spec.changes));
        }
    }
}

impl<const T: bool> Observer for Watch<'_, T> {
    /// Returns the time of the next look, in nanoseconds since boot, at which the executor calls
    /// `observe`.
    fn due(&self) -> u64 {
        let looks = self.sample_at.min(self.check_at).min(self.second_at);
        looks.min(self.limit_at).min(self.change_at())
    }

    /// Does what is due now: takes a sample, recounts the engine's lists, reports progress, writes
    /// sysctls, or ends the run at its time limit.
    fn observe(&mut self) {
        let time = self.due();
        let Stage {
            mm, spec, session, ..
        } = *self.stage;
        let started = self.stage.progress.started.get();
        if self.sample_at == time {
            self.sample_at = next_look(time, spec.sample_ns);
            // The workload may have begun after the time of this look.
            if let Some(since) = started.and_then(|start| time.checked_sub(start)) {
                self.sampler.sample(mm, &session.gauges(), since);
            }
        }
        if self.check_at == time {
            self.check_at = next_look(time, spec.check_ns);
            let found = match spec.check_full {
                true => self.recount.run(mm),
                false => self.recount.look(mm),
            };
            if let Err(e) = found {
                self.check_error
                    .get_or_insert(format!("recount at {time} ns: {e}"));
                mm.world.sched.stop();
            }
        }
        if self.second_at == time {
            self.second_at = next_look(time, SECOND);
            if started.is_some() {
                self.lumpiness.second(mm);
            }
            self.control.sim_ns.store(time, Ordering::Relaxed);
        }
        // A sample at the time of a change shows the state before it.
        self.change(time);
        if self.limit_at == time {
            self.limit_at = u64::MAX;
            self.outcome.get_or_insert(Outcome::TimeLimit);
            mm.world.sched.stop();
        }
    }
}
