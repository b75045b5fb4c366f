//! Watermarks that adjust themselves (`watermarks = "auto"`): the review of *tunable-watermarks*
//! asked for them instead of more sysctls (docs/reference/memory-model.md#tunable-watermarks).
//!
//! Each zone has an amount by which its low watermark is above the default one; the high watermark
//! grows in proportion. Direct reclaim and a kswapd in trouble raise the amount. A kswapd that
//! frees enough at its first priority, long spells with next to no direct reclaim, and time lower
//! it, down to a floor: the part that direct reclaim has taught, which is forgotten much more
//! slowly. No amount exceeds the cap, a multiple of the watermarks that the sysctls give. If there
//! is a profile of an earlier run, the amounts are added to its marks, below the same cap. The
//! minimum stays the default one unless allocations that cannot wait fail.

use super::amounts::{Amounts, PARTS};
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::zone::Mark;
use crate::policy::{Policy, Watermarks};
use crate::policy::{ProfileZone, WatermarkProfile};
use crate::reclaim::scan::{DEF_PRIORITY, ScanControl};
use crate::world::{ShortLock, Word32, Word64, World};

/// The amounts that a zone has above its default marks, in pages, and what they were when decay
/// began. The words of an [`Amounts`], and the marks that they are added to.
pub(crate) struct ZoneAuto<W: World> {
    /// The watermarks that the amounts are added to: the profile's, or those of the sysctls.
    default: [W::U32; 3],
    /// The highest watermarks that the cap allows.
    most: [W::U32; 3],
    /// Pages above the default low watermark.
    extra: W::U32,
    /// The part of `extra` that decay leaves; it is forgotten more slowly.
    floor: W::U32,
    /// Pages above the default min watermark.
    extra_min: W::U32,
    /// `extra` less `floor`, and `extra_min`, when decay began.
    peak: W::U32,
    peak_min: W::U32,
    peak_floor: W::U32,
    /// The largest `extra` and `extra_min` so far; a profile keeps them.
    learned: W::U32,
    learned_min: W::U32,
    /// When the last raise took place (ns), and how many parts of the decay since then have passed.
    raised_at: W::U64,
    parts: W::U32,
    /// The same for the floor: the last raise by direct reclaim.
    taught_at: W::U64,
    floor_parts: W::U32,
    /// Reclaim events since the last test for quiet, and direct reclaims among them.
    events: W::U32,
    direct: W::U32,
    lock: W::Lock,
}

/// Makes the state of the watermarks of each of `zones` zones that adjust themselves; none unless
/// the policy is `watermarks = "auto"`.
pub(crate) fn zones<W: World>(policy: &Policy, zones: usize) -> Box<[ZoneAuto<W>]> {
    use bytemuck::Zeroable;
    let n = match policy.watermarks {
        Watermarks::Auto => zones,
        Watermarks::Sysctl | Watermarks::Learned => 0,
    };
    (0..n)
        .map(|_| ZoneAuto {
            default: Zeroable::zeroed(),
            most: Zeroable::zeroed(),
            extra: Zeroable::zeroed(),
            floor: Zeroable::zeroed(),
            extra_min: Zeroable::zeroed(),
            peak: Zeroable::zeroed(),
            peak_min: Zeroable::zeroed(),
            peak_floor: Zeroable::zeroed(),
            learned: Zeroable::zeroed(),
            learned_min: Zeroable::zeroed(),
            raised_at: Zeroable::zeroed(),
            parts: Zeroable::zeroed(),
            taught_at: Zeroable::zeroed(),
            floor_parts: Zeroable::zeroed(),
            events: Zeroable::zeroed(),
            direct: Zeroable::zeroed(),
            lock: W::Lock::default(),
        })
        .collect()
}

impl<W: World> ZoneAuto<W> {
    /// Returns the pages by which the zone's watermarks are raised, with the state of their decay;
    /// called under the lock.
    fn amounts(&self) -> Amounts {
        Amounts {
            extra: self.extra.get(),
            floor: self.floor.get(),
            extra_min: self.extra_min.get(),
            peak: self.peak.get(),
            peak_min: self.peak_min.get(),
            peak_floor: self.peak_floor.get(),
            learned: self.learned.get(),
            learned_min: self.learned_min.get(),
            raised_at: self.raised_at.get(),
            parts: self.parts.get(),
            taught_at: self.taught_at.get(),
            floor_parts: self.floor_parts.get(),
        }
    }

    /// Lets `how` change the pages by which the zone's watermarks are raised, under the lock,
    /// stores them and returns its result.
    fn change<R>(&self, how: impl FnOnce(&mut Amounts) -> R) -> R {
        self.lock.with(|| {
            let mut amounts = self.amounts();
            let done = how(&mut amounts);
            self.extra.set(amounts.extra);
            self.floor.set(amounts.floor);
            self.extra_min.set(amounts.extra_min);
            self.peak.set(amounts.peak);
            self.peak_min.set(amounts.peak_min);
            self.peak_floor.set(amounts.peak_floor);
            self.learned.set(amounts.learned);
            self.learned_min.set(amounts.learned_min);
            self.raised_at.set(amounts.raised_at);
            self.parts.set(amounts.parts);
            self.taught_at.set(amounts.taught_at);
            self.floor_parts.set(amounts.floor_parts);
            done
        })
    }

    /// Returns the zone's watermark (pages) as the sysctls or a profile give it.
    fn default_mark(&self, mark: Mark) -> u32 {
        self.default[mark as usize].get()
    }

    /// Returns the most pages that the cap lets a zone's watermark have above its default.
    fn room(&self, mark: Mark) -> u32 {
        self.most[mark as usize].get() - self.default_mark(mark)
    }

    /// Returns the zone's min, low and high watermark in pages for amounts above its defaults:
    /// `extra_min` raises min and with it low, `extra` raises low only, and high keeps its
    /// proportion to low. Each stays below its own cap (`most`), and none is below the one before
    /// it.
    fn marks(&self, extra: u32, extra_min: u32) -> [u64; 3] {
        let all = [Mark::Min, Mark::Low, Mark::High];
        let [min, low, high] = all.map(|m| u64::from(self.default_mark(m)));
        let [most_min, most_low, most_high] = all.map(|m| u64::from(self.most[m as usize].get()));
        let new_min = (min + u64::from(extra_min)).min(most_min);
        let new_low = (low + u64::from(extra) + u64::from(extra_min))
            .min(most_low)
            .max(new_min);
        let new_high = match low {
            0 => high,
            _ => (high * new_low / low).min(most_high),
        };
        [new_min, new_low, new_high.max(new_low)]
    }
}

impl<W: World> Mm<W> {
    /// Sets the watermarks (min, low, high of each zone, in pages) from which those that adjust
    /// themselves start, `marks`, and the most that each may be raised to: the policy's cap times
    /// `by_sysctls`, the marks that the sysctls alone give, and at least the mark itself.
    pub(crate) fn setup_auto(&self, marks: &[[u64; 3]], by_sysctls: &[[u64; 3]]) {
        let cap = self.policy.auto.cap;
        for ((zone, marks), plain) in self.auto.iter().zip(marks).zip(by_sysctls) {
            for i in 0..marks.len() {
                let mark = marks[i] as u32;
                zone.default[i].set(mark);
                zone.most[i].set((plain[i] as u32).saturating_mul(cap).max(mark));
            }
        }
    }

    /// Puts into force the watermarks that the amounts of zone `z` above its defaults make.
    pub(crate) fn apply_auto(&self, z: usize) {
        let a = &self.auto[z];
        let marks = a.marks(a.extra.get(), a.extra_min.get());
        self.change_marks(z, marks);
    }

    /// Raises the low watermark of zone `z` by a step, at most once in `debounce_ms`. `taught`:
    /// direct reclaim raises it, so that a part is remembered.
    fn raise(&self, z: usize, taught: bool) {
        let rules = &self.policy.auto;
        let now = self.world.now();
        let a = &self.auto[z];
        let (low, room) = (a.default_mark(Mark::Low), a.room(Mark::Low));
        a.change(|amounts| amounts.raise(rules, now, low, room, taught));
        self.apply_auto(z);
    }

    /// Lowers the low watermark of zone `z` by a part of what it has above its floor.
    fn lower(&self, z: usize) {
        if self.auto[z].change(|amounts| amounts.lower(&self.policy.auto)) {
            self.apply_auto(z);
        }
    }

    /// Notes that a task on `node` enters direct reclaim for a request of 2^`order` pages: raises
    /// the watermarks of its zones that are below min, and counts the event in all its zones. Does
    /// nothing unless watermarks adjust themselves.
    pub(crate) fn direct_reclaim_seen(&self, node: u32, gfp: Gfp, order: u32) {
        if self.auto.is_empty() {
            return;
        }
        for z in self.eligible(node, gfp) {
            let min = self.zones[z].mark(Mark::Min);
            if self.policy.auto.raise_on_direct_reclaim && !self.watermark_ok_safe(z, order, min, 0)
            {
                self.raise(z, true);
            }
            self.auto[z].direct.fetch_add(1);
            self.reclaim_event(z);
        }
    }

    /// Raises the watermarks of zone `z`, which kswapd left unbalanced after it scanned `scanned`
    /// pages in this run, if less than half of them were freed at a low priority. A low priority
    /// alone is no trouble on a small zone: a pass frees all it scans, but scans little.
    pub(crate) fn kswapd_has_trouble(&self, z: usize, sc: &ScanControl, scanned: u64) {
        let rules = &self.policy.auto;
        if !self.auto.is_empty()
            && rules.raise_on_trouble
            && sc.priority <= rules.trouble_priority
            && 2 * sc.nr_reclaimed < scanned
        {
            self.raise(z, false);
        }
    }

    /// Notes that the kswapd of node `nid` has ended a run: lowers the watermarks of its zones if
    /// the node was `balanced` at the first priorities, counts the event, and lets the watermarks
    /// decay.
    pub(crate) fn kswapd_ran(&self, nid: u32, balanced: bool, sc: &ScanControl) {
        if self.auto.is_empty() {
            return;
        }
        let first = balanced && sc.nr_reclaimed > 0 && sc.priority + 1 >= DEF_PRIORITY;
        for &z in &self.nodes[nid as usize].zones {
            let z = usize::from(z);
            if first && self.policy.auto.lower_on_first_priority {
                self.lower(z);
            }
            self.reclaim_event(z);
        }
        self.decay_marks(nid);
    }

    /// Counts a run of kswapd or a direct reclaim in zone `z`; after `quiet_events` of them lowers
    /// the zone's watermarks if few were direct reclaims.
    fn reclaim_event(&self, z: usize) {
        let (a, rules) = (&self.auto[z], &self.policy.auto);
        if a.events.fetch_add(1) + 1 < rules.quiet_events.max(1) {
            return;
        }
        a.events.set(0);
        let direct = a.direct.get();
        a.direct.set(0);
        if rules.lower_on_quiet && direct <= rules.quiet_direct {
            self.lower(z);
        }
    }

    /// Raises the min watermarks of the zones of a request from `node` because an allocation that
    /// may not wait has failed. Does nothing unless watermarks adjust themselves.
    pub(crate) fn atomic_allocation_failed(&self, node: u32, gfp: Gfp) {
        let rules = &self.policy.auto;
        if self.auto.is_empty() || !rules.raise_min_on_failure {
            return;
        }
        let now = self.world.now();
        for z in self.eligible(node, gfp) {
            let a = &self.auto[z];
            let (min, room) = (a.default_mark(Mark::Min), a.room(Mark::Min));
            a.change(|amounts| amounts.raise_min(rules, now, min, room));
            self.apply_auto(z);
        }
    }

    /// Returns for how long (ns) a sleeping kswapd can leave its zones' watermarks alone before the
    /// next part of their decay is due; `None`: until it is woken.
    pub(crate) fn until_decay(&self, nid: u32) -> Option<u64> {
        let rules = &self.policy.auto;
        if self.auto.is_empty() {
            return None;
        }
        let of = |z: &u16| {
            let a = &self.auto[usize::from(*z)];
            let above = a.extra.get() > a.floor.get() || a.extra_min.get() > 0;
            let decay = (above && rules.decay_ms > 0)
                .then(|| u64::from(rules.decay_ms) * 1_000_000 / PARTS);
            let forget = (a.floor.get() > 0 && rules.forget_s > 0)
                .then(|| u64::from(rules.forget_s) * crate::SECOND / PARTS);
            [decay, forget].into_iter().flatten().min()
        };
        let zones = &self.nodes[nid as usize].zones;
        // At least a tick, because a shorter wait would not end.
        zones
            .iter()
            .filter_map(of)
            .min()
            .map(|ns| ns.max(self.tick()))
    }

    /// Lets the raised watermarks of a node's zones decay by the time since their last raise.
    pub(crate) fn decay_marks(&self, nid: u32) {
        let rules = &self.policy.auto;
        if self.auto.is_empty() {
            return;
        }
        let now = self.world.now();
        for &z in &self.nodes[nid as usize].zones {
            let z = usize::from(z);
            let changed = self.auto[z].change(|amounts| amounts.decay(rules, now));
            if changed {
                self.apply_auto(z);
            }
        }
    }

    /// Returns the watermarks to start the next run with, as a profile of the machine named
    /// `machine`: under `auto` the highest that anything has raised them to; otherwise those in
    /// force without boosts.
    pub fn learned_watermarks(&self, machine: &str) -> WatermarkProfile {
        let zones = (0..self.zones.len()).map(|z| {
            let zone = &self.zones[z];
            let marks = match self.auto.get(z) {
                Some(a) => a.marks(a.learned.get(), a.learned_min.get()),
                None => {
                    let boost = u64::from(self.watermark_boost(z));
                    [Mark::Min, Mark::Low, Mark::High].map(|m| zone.mark(m) - boost)
                }
            };
            let [min_kbytes, low_kbytes, high_kbytes] = marks.map(|pages| pages * 4);
            ProfileZone {
                node: zone.node,
                zone: zone.kind,
                min_kbytes,
                low_kbytes,
                high_kbytes,
            }
        });
        WatermarkProfile {
            machine: machine.into(),
            zones: zones.collect(),
        }
    }

    /// Returns the pages by which `auto` has raised a zone's low watermark, and how many of them
    /// are its floor; (0, 0) without `auto`.
    pub fn auto_extra(&self, z: usize) -> (u32, u32) {
        let of = |a: &ZoneAuto<W>| (a.extra.get(), a.floor.get());
        self.auto.get(z).map_or((0, 0), of)
    }
}
