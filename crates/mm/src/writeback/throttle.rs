//! Dirtiers that only sleep (`dirty_throttle = "sleep"`; Linux 3.2,
//! docs/reference/writeback.md#sleeping-dirtiers).
//!
//! A task that dirties pages over the free-run ceiling sleeps long enough to keep to a rate: the
//! device's base rate times a ratio that says how far the dirty pages are from their set point. The
//! base rate is adjusted every 200 ms so that N such tasks together dirty as fast as the device
//! writes. All rates are pages a second; times inside are ticks, as in the kernel, whose arithmetic
//! this is (Linux 3.16 mm/page-writeback.c).

use super::group_domain::Domain;
use super::pace::RATIO_BITS;
use crate::Mm;
use crate::policy::DirtyExceeded;
use crate::watch::vmstat::ZoneStat;
use crate::world::event::Event;
use crate::world::{Audience, Cost, Waited, WaitedKind, Word32, Word64, World};
use crate::writeback::bandwidth::INTERVAL;
use crate::writeback::dirty::Limits;
use crate::writeback::pace::{Position, pauses, poll_interval};

/// The most pages that a task dirties between two looks while its device is over its limit (32
/// KiB).
const POLL_EXCEEDED: u32 = 8;
/// The number of longest pauses after which a dirtier may go on, in a world that cuts pauses
/// ([`crate::world::Storage::longest_pause`]).
const MOST_PAUSES: u64 = 2;

impl<W: World> Mm<W> {
    /// Counts a page that the calling task dirtied: for its device, the task, and this CPU, whose
    /// count is `on_cpu`. Returns true if the task must look at the dirty limits now.
    #[inline]
    pub(crate) fn note_dirtied_by_task(&self, bdi: u32, on_cpu: &W::U32) -> bool {
        let (b, pace) = (&self.bdis[bdi as usize], &self.dirtier().pace);
        self.worker_measures(bdi);
        b.rate.dirtied.fetch_add(1);
        pace.dirtied.fetch_add(1);
        on_cpu.set(on_cpu.get() + 1);
        self.must_look(bdi, on_cpu)
    }

    /// Returns true if the calling task, or this CPU (`on_cpu`: its count), has dirtied so many
    /// pages since the last look that the task must look at the dirty limits now. The CPU's count
    /// then starts again at 0.
    #[inline]
    pub(crate) fn must_look(&self, bdi: u32, on_cpu: &W::U32) -> bool {
        let (device, pace) = (&self.bdis[bdi as usize], &self.dirtier().pace);
        let (by_task, by_cpu) = (pace.dirtied.get(), on_cpu.get());
        let mut poll = pace.poll.get();
        if device.dirty_exceeded.get() != 0 {
            poll = poll.min(POLL_EXCEEDED);
        }
        // The CPU's count catches many tasks that dirty a little each.
        if by_task >= poll || by_cpu >= self.writeback.ratelimit.get() {
            on_cpu.set(0);
            return true;
        }
        false
    }

    /// Returns how many pages the calling task may dirty before its own count makes it look at the
    /// dirty limits. `exceeded`: its device is over its limit, so the task looks after every 8
    /// pages.
    #[inline(always)]
    pub(crate) fn pace_unlooked(&self, exceeded: bool) -> u32 {
        let pace = &self.dirtier().pace;
        let mut poll = pace.poll.get();
        if exceeded {
            poll = poll.min(POLL_EXCEEDED);
        }
        poll.saturating_sub(pace.dirtied.get()).saturating_sub(1)
    }

    /// Updates, if that is due, the limits and the base rates of a device's dirtiers: by the
    /// machine's limits and its `dirty` pages at position `p`, and then by those of the calling
    /// task's group (`__wb_update_bandwidth`).
    fn update_rates(
        &self,
        bdi: u32,
        (limits, dirty): (Limits, u64),
        p: &Position,
        of_group: Option<&(Domain, Position)>,
    ) {
        let Some(ticks) = self.rates_due(bdi) else {
            return;
        };
        let held = (&self.writeback.limit, &self.writeback.limit_time);
        self.update_dirty_limit(held, limits.dirty, dirty);
        self.update_ratelimit(bdi, p, ticks);
        if let Some((domain, p)) = of_group {
            let group = self.groups.group(domain.group);
            let held = (&group.dirty_limit, &group.dirty_limit_time);
            self.update_dirty_limit(held, domain.limits.dirty, domain.dirty);
            self.update_ratelimit(bdi, p, ticks);
        }
        self.update_bandwidth(bdi);
    }

    /// Updates a limit that dirtiers are held to, the machine's or a group's, every 200 ms: it
    /// rises to the dirty limit `thresh` in one step, and falls towards it, or towards the `dirty`
    /// pages if they are more, by a 32nd of the distance (`update_dirty_limit`). `changed` is when
    /// that was done last, in nanoseconds.
    fn update_dirty_limit(&self, (held, changed): (&W::U64, &W::U64), thresh: u64, dirty: u64) {
        let (now, limit) = (self.world.jiffies(), held.get());
        if now.saturating_sub(changed.get()) >= INTERVAL {
            changed.set(now);
            let floor = thresh.max(dirty);
            if limit < thresh {
                held.set(thresh);
            } else if limit > floor {
                held.set(limit - (limit - floor) / 32);
            }
        }
    }

    /// Adjusts the base rate of a device's dirtiers (pages a second) by the pages written and
    /// dirtied in the `ticks` since the last adjustment (`bdi_update_dirty_ratelimit`): towards the
    /// rate at which as many pages are dirtied as the device writes.
    fn update_ratelimit(&self, bdi: u32, position: &Position, ticks: u64) {
        let rate = &self.bdis[bdi as usize].rate;
        // Another thread may have begun a new measurement since.
        let dirtied = rate.dirtied.get().saturating_sub(rate.dirtied_then.get());
        let dirty_rate = dirtied * self.config.hz / ticks;
        let bandwidth = self.bdis[bdi as usize].flusher.average_bandwidth.get();
        let base_rate = rate.base.get();
        let task_rate = ((base_rate * position.ratio()) >> RATIO_BITS) + 1;
        // The base rate at which dirtying would have been as fast as the device writes.
        let balanced = (task_rate * bandwidth / (dirty_rate | 1)).min(bandwidth);
        let balanced_before = rate.balanced.get();
        let step = if position.dirty < (position.freerun + position.limit) / 2 {
            balanced_before
                .min(balanced)
                .min(task_rate)
                .saturating_sub(base_rate)
        } else {
            base_rate.saturating_sub(balanced_before.max(balanced).max(task_rate))
        };
        // A small step is half noise, so it is made smaller still.
        let step = step
            .checked_shr((base_rate / (2 * step + 1)) as u32)
            .unwrap_or(0);
        let step = step.div_ceil(8);
        let base_rate = if base_rate < balanced {
            base_rate + step
        } else {
            base_rate.saturating_sub(step)
        };
        rate.base.set(base_rate.max(1));
        rate.balanced.set(balanced);
    }

    /// Returns the number of dirty pages below which a dirtier goes on after some pauses, in a
    /// world that cuts pauses: half way from the limit to all dirtyable pages.
    fn dirty_ceiling(&self, limits: &Limits) -> u64 {
        u64::midpoint(limits.dirty, self.dirtyable())
    }

    /// Returns where a device's dirty pages stand, when the machine has `dirty` dirty pages and
    /// pages under writeback. For a task in a memory control group only those of the group's files
    /// count as the device's.
    pub(crate) fn position(&self, bdi: u32, limits: Limits, dirty: u64) -> Position {
        let bdi_thresh = self.bdi_dirty_limit(bdi, limits.dirty);
        let own = self.own_group();
        let bdi_dirty = match own {
            0 => self.bdi_dirty_against(bdi, bdi_thresh).iter().sum(),
            group => self.owned_dirty(bdi, group),
        };
        Position {
            freerun: limits.freerun(),
            limit: self.writeback.limit.get().max(limits.dirty),
            thresh: limits.dirty,
            dirty,
            bdi_thresh,
            bdi_dirty,
            bandwidth: self.write_bandwidth(bdi),
        }
    }

    /// Emits the trace event `balance_dirty_pages`, which says how a dirtier is held to its rate.
    /// `[pages dirtied, the task's rate in pages a second, the ticks that the pages may take]`;
    /// `pause`: in ticks, negative if credited; `entered`: when the task began to look at its
    /// limits (ns).
    #[inline(always)]
    fn tell_pace(
        &self,
        bdi: u32,
        position: &Position,
        [dirtied, task_rate, period]: [u64; 3],
        pause: i64,
        entered: u64,
    ) {
        let ms = |ticks: u64| (ticks * 1000 / self.config.hz) as u32;
        let kib = |pages: u64| u32::try_from(pages * 4).unwrap_or(u32::MAX);
        self.emit(Audience::Traces, || {
            let (now, tick) = (self.world.jiffies(), self.tick());
            let setpoint = u64::midpoint(position.limit, position.freerun);
            let pace = &self.dirtier().pace;
            // Ticks since the last pause ended: the time that the task has spent dirtying.
            let think = match pace.paused.get() {
                0 => 0,
                then => ticks_since(now, then, tick),
            };
            Event::BalanceDirtyPages {
                bdi,
                limit: position.limit as u32,
                setpoint: setpoint as u32,
                dirty: position.dirty as u32,
                bdi_setpoint: (setpoint * position.bdi_thresh / (position.thresh + 1)) as u32,
                bdi_dirty: position.bdi_dirty as u32,
                dirty_ratelimit: kib(self.bdis[bdi as usize].rate.base.get()),
                task_ratelimit: kib(task_rate),
                dirtied: dirtied as u32,
                dirtied_pause: pace.poll.get(),
                paused: ms((now - entered) / tick),
                pause: (pause * 1000 / self.config.hz as i64) as i32,
                period: ms(period),
                think: (think * 1000 / self.config.hz as i64) as i32,
            }
        });
    }

    /// Looks at the dirty limits for the calling task and puts it to sleep if it dirties faster
    /// than its rate on this device (`balance_dirty_pages`): mostly one sleep.
    pub(crate) async fn throttle_dirtier(&self, bdi: u32) {
        if let Some(pause) = self.look_at_limits(bdi) {
            self.pause_dirtier(pause).await;
        }
    }

    /// Makes the first look of the calling task, which dirtied pages of a device, at its limits.
    /// Returns the pause that is due ([`Mm::pause_dirtier`]); `None`: the task may go on.
    pub(crate) fn look_at_limits(&self, bdi: u32) -> Option<Pause> {
        // Only a trace needs the time of entry.
        let entered = if self.traced() {
            self.world.jiffies()
        } else {
            0
        };
        self.look_again(bdi, (self.dirtier().pace.dirtied.get(), entered))
    }

    /// Makes one pass of the loop of `balance_dirty_pages` for the calling task: computes the
    /// task's rate from where the dirty pages stand, and from it the pause for the pages dirtied.
    /// `entry`: the pages that it had dirtied when it entered, and the time of entry (jiffies, ns).
    /// Returns the pause that is due; `None`: the task is under the free-run ceiling or owes too
    /// short a pause, and may go on.
    fn look_again(&self, bdi: u32, entry: (u32, u64)) -> Option<Pause> {
        let device = &self.bdis[bdi as usize];
        let pace = &self.dirtier().pace;
        let (dirtied, entered) = (u64::from(entry.0), entry.1);
        let (hz, tick) = (self.config.hz, self.tick());
        self.world.charge(Cost::WritebackRound, 1);
        let now = self.world.jiffies();
        let reclaimable = self.stat.global(ZoneStat::NrFileDirty);
        let dirty = reclaimable + self.stat.global(ZoneStat::NrWriteback);
        let limits = self.dirty_limits();
        let domain = self.own_domain(limits, dirty);
        let mut seen = Seen {
            limits,
            reclaimable,
            dirty,
            exceeded: false,
        };
        let each_look = self.policy.dirty_exceeded == DirtyExceeded::EachLook;
        if each_look {
            self.over_background_begins(bdi, &seen);
        }
        if dirty <= limits.freerun() && domain.is_none_or(|d| d.runs_free()) {
            pace.paused.set(now);
            pace.dirtied.set(0);
            let of_group = domain.map_or(u64::MAX, |d| poll_interval(d.dirty, d.limits.dirty));
            let poll = poll_interval(dirty, limits.dirty).min(of_group);
            pace.poll.set(poll as u32);
            self.leave_balance_loop(bdi, &seen);
            return None;
        }
        if !self.flusher_busy(bdi) {
            self.start_background_writeback(bdi);
        }
        let p = self.position(bdi, limits, dirty);
        let of_group = domain.map(|d| (d, self.group_position(bdi, &d)));
        seen.exceeded = p.exceeds() || of_group.is_some_and(|(_, p)| p.exceeds());
        if seen.exceeded || each_look {
            device.dirty_exceeded.set(u32::from(seen.exceeded));
        }
        self.update_rates(bdi, (limits, dirty), &p, of_group.as_ref());
        let p = stricter(p, of_group.map(|(_, p)| p));
        let base = device.rate.base.get();
        let rate = (base * p.ratio()) >> RATIO_BITS;
        // Ticks that the pages may take at the task's rate (`period`), and how many of them are
        // left; without a rate (0) the pause is the longest.
        let (mut left, mut period) = (i64::MAX, None);
        if let Some(ticks) = (hz * dirtied).checked_div(rate) {
            let since_pause = match pace.paused.get() {
                0 => 0,
                then => ticks_since(now, then, tick),
            };
            (left, period) = (ticks as i64 - since_pause, Some(ticks));
        }
        let longest = || self.world.longest_pause().map_or(hz / 5, |ns| ns / tick);
        let pauses = || pauses((hz, longest()), p.bandwidth, p.bdi_dirty, base, rate);
        // The shortest pause is a tick, so its length need not be computed for a task that owes
        // none.
        let may_pause = (left > 0).then(pauses);
        let pauses = may_pause.filter(|pauses| period.is_none() || left >= pauses.min as i64);
        let Some(pauses) = pauses else {
            let period = period.unwrap_or(0);
            self.tell_pace(bdi, &p, [dirtied, rate, period], left.min(0), entered);
            if left < -(hz as i64) {
                pace.paused.set(now);
                pace.dirtied.set(0);
            } else if period > 0 {
                pace.paused.fetch_add(period * tick);
                pace.dirtied.set(0);
            } else if u64::from(pace.poll.get()) <= dirtied {
                pace.poll.fetch_add(dirtied as u32);
            }
            self.leave_balance_loop(bdi, &seen);
            return None;
        };
        // The part of a pause that is cut off is carried over: the next pause is computed as if
        // this one ended later by that part.
        let owed = period.map_or(pauses.max, |_| left as u64);
        let ticks = owed.min(pauses.max);
        let of_pace = [dirtied, rate, period.unwrap_or(pauses.max)];
        self.tell_pace(bdi, &p, of_pace, ticks as i64, entered);
        Some(Pause {
            bdi,
            ticks,
            cut: (owed - ticks).min(pauses.max),
            now,
            entry,
            longest: longest(),
            poll: pauses.poll.min(u64::from(u32::MAX)) as u32,
            again: rate == 0 && p.bdi_dirty > self.bdi_stat_error(),
            seen,
        })
    }

    /// Sleeps for the pause that a look at the limits gave, and notes it in the task's pace. If the
    /// task's rate is 0 (the dirty limit is reached) it looks again, and sleeps for each further
    /// pause that is due.
    pub async fn pause_dirtier(&self, mut pause: Pause) {
        debug_assert!(pause.bdi < self.bdi_count() && pause.ticks > 0);
        let (bdi, tick, pace) = (pause.bdi, self.tick(), &self.dirtier().pace);
        let mut slept = 0;
        loop {
            self.world
                .waits_on(Waited::on(WaitedKind::DirtyLimit, u64::from(bdi)));
            self.world.dirtier_sleeps(bdi);
            self.world.sleep(pause.ticks * tick).await;
            pace.paused
                .set(pause.now + (pause.cut + pause.ticks) * tick);
            pace.dirtied.set(0);
            pace.poll.set(pause.poll);
            if !pause.again {
                break;
            }
            slept += pause.ticks;
            // A world that cuts pauses lets the task go after two of them, unless far too many
            // pages are dirty.
            if self.world.longest_pause().is_some()
                && slept >= MOST_PAUSES * pause.longest
                && pause.seen.dirty < self.dirty_ceiling(&pause.seen.limits)
            {
                // The task may dirty one page before it looks again.
                pace.poll.set(1);
                break;
            }
            match self.look_again(bdi, pause.entry) {
                Some(next) => pause = next,
                None => return,
            }
        }
        self.leave_balance_loop(bdi, &pause.seen);
    }

    /// Does the last steps of `balance_dirty_pages` for a task that leaves its loop, as kernels up
    /// to 5.19 do them there: clears the device's `dirty_exceeded` if this task did not find it
    /// over its limit, even if other tasks have found that since, and starts background writeback.
    /// Since 6.0 (`dirty_exceeded = "each-look"`) every iteration of the loop sets the flag, so
    /// that nothing is left to do here.
    fn leave_balance_loop(&self, bdi: u32, seen: &Seen) {
        if self.policy.dirty_exceeded == DirtyExceeded::EachLook {
            return;
        }
        if !seen.exceeded {
            self.bdis[bdi as usize].dirty_exceeded.set(0);
        }
        self.over_background_begins(bdi, seen);
    }

    /// Starts background writeback for a dirtier that saw more dirty pages than the background
    /// limit.
    fn over_background_begins(&self, bdi: u32, seen: &Seen) {
        if seen.reclaimable > seen.limits.background && !self.flusher_busy(bdi) {
            self.start_background_writeback(bdi);
        }
    }
}

/// Returns the position that lets a task dirty less: the machine's, or that of its memory control
/// group.
fn stricter(machine: Position, group: Option<Position>) -> Position {
    match group {
        Some(group) if group.ratio() < machine.ratio() => group,
        _ => machine,
    }
}

/// Returns the ticks from `then` to `now`, both in nanoseconds. A pause too short to sleep is owed
/// as if it ended in the future: then the ticks are negative, as the kernel's `long` is.
fn ticks_since(now: u64, then: u64, tick: u64) -> i64 {
    (now as i64 - then as i64) / tick as i64
}

/// The state that a dirtier saw when it looked at the limits, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    limits: Limits,
    /// Dirty pages, and dirty pages with those under writeback.
    reclaimable: u64,
    dirty: u64,
    /// Whether the device was over its limit, and the machine over its own.
    exceeded: bool,
}

/// A pause that a dirtier has to make for what it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    bdi: u32,
    /// Length of the pause, the part that was cut off, and the longest pause allowed, in ticks.
    ticks: u64,
    cut: u64,
    longest: u64,
    /// The time of the look (jiffies, ns).
    now: u64,
    /// Pages dirtied before the first look, and the time of entry.
    entry: (u32, u64),
    /// Pages to dirty before the next look.
    poll: u32,
    /// Whether the task looks again after the pause.
    again: bool,
    seen: Seen,
}
