//! How a walk over the free lists goes, known before it is made and remembered for the next allocation.
//!
//! Most walks go as the one before: the same zones are passed by for the same reasons, and the same zone
//! has a page. All that a walk at the low watermark asks are cheap levels, which move when a CPU's
//! difference is folded, and words that change seldom: watermarks, limits, flags. Whatever changes one of
//! them adds to one count how far (`VmStat::moved`). Who foresees a walk remembers how many pages any level
//! may move before one of its tests goes otherwise. Until the count has gone so far, a new walk would
//! charge the same and end in the same zone, so it is not made. The recount compares what is remembered
//! with what a walk would meet.

use crate::memory::gfp::Gfp;
use crate::memory::watermark::{ALLOC_DIRTY_LIMIT, ALLOC_FAIR};
use crate::memory::zone::{Mark, Zone};
use crate::memory::zonelist_cache::Passed;
use crate::policy::{DirtyCheck, DirtyLimits, FairZones, FreeSnapshot, ZoneWalk};
use crate::watch::vmstat::{Asks, FAR, ZoneStat};
use crate::world::{Cost, Word32, Word64, World};
use crate::{Mm, Pfn};

/// No request has this key: what it asks for fits in half of it.
const NONE: u64 = u64::MAX;
/// A zone's number that is none.
const NOWHERE: u32 = u32::MAX;
/// How many each CPU has.
pub(crate) const HINTS_OF_CPU: usize = 2;
/// Key bit: the task's limits are a quarter higher.
const LIFTED: u64 = 1 << 63;

/// The walk that a CPU foresaw last; for pages that will be written it has another one than for others, which
/// come between them.
pub(crate) struct Hint<W: World> {
    /// What was asked for.
    key: W::U64,
    /// [`VmStat::moved`](crate::watch::vmstat::VmStat::moved) then, and how much further it may be.
    from: W::U64,
    spare: W::U64,
    /// [`NOWHERE`]: none gives a page, or no walk could be foreseen.
    zone: W::U32,
    /// Zones charged as passed by.
    walked: W::U32,
    /// Dirty limits charged as computed.
    limits: W::U32,
    /// [`End`] of all walks at the low watermark.
    end: W::U32,
}

impl<W: World> Hint<W> {
    pub fn new() -> Self {
        let hint = Self {
            key: bytemuck::Zeroable::zeroed(),
            from: bytemuck::Zeroable::zeroed(),
            spare: bytemuck::Zeroable::zeroed(),
            zone: bytemuck::Zeroable::zeroed(),
            walked: bytemuck::Zeroable::zeroed(),
            limits: bytemuck::Zeroable::zeroed(),
            end: bytemuck::Zeroable::zeroed(),
        };
        hint.key.set(NONE);
        hint
    }

    fn remember(&self, key: u64, from: u64, (way, spare): (Way, u64)) {
        self.key.set(key);
        self.from.set(from);
        self.spare.set(spare);
        self.zone.set(way.zone as u32);
        self.walked.set(way.walked);
        self.limits.set(way.limits);
        self.end.set(way.end as u32);
    }

    /// How far levels may move from where they are; `None`: it holds no longer.
    #[inline(always)]
    fn holds(&self, moved: u64) -> Option<u64> {
        self.spare
            .get()
            .checked_sub(moved.wrapping_sub(self.from.get()))
    }

    fn way(&self) -> Way {
        Way {
            zone: self.zone.get() as usize,
            walked: self.walked.get(),
            limits: self.limits.get(),
            end: match self.end.get() {
                end if end == End::Nowhere as u32 => End::Nowhere,
                end if end == End::NowhereReset as u32 => End::NowhereReset,
                _ => End::Other,
            },
        }
    }
}

/// How walks at the low watermark end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum End {
    /// The first one in a zone; or it is not known.
    Other,
    /// None finds a page.
    Nowhere,
    /// The same, and between two of them the fair batches began anew.
    NowhereReset,
}

/// How a walk at the low watermark goes, or where none finds a page all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The zone where it ends.
    zone: usize,
    /// Zones charged as passed by.
    walked: u32,
    /// Dirty limits charged as computed.
    limits: u32,
    end: End,
}

impl Way {
    const NOWHERE: Self = Self {
        zone: NOWHERE as usize,
        walked: 0,
        limits: 0,
        end: End::Other,
    };

    fn is_nowhere(self) -> bool {
        self.zone == NOWHERE as usize
    }

    /// Whether the fair batches begin anew between its walks.
    #[inline(always)]
    pub fn resets(self) -> bool {
        self.end == End::NowhereReset
    }
}

/// How walks at the low watermark for a single page end, without being made.
pub(super) enum Foreseen {
    /// In a zone of which this CPU has a page; they were charged.
    Page(Pfn),
    /// In none. They were charged, and what else they do is done.
    Nowhere,
    /// They have to be made; nothing was charged.
    Unknown,
}

impl<W: World> Mm<W> {
    /// All of a request that a walk at the low watermark depends on.
    #[inline(always)]
    fn hint_key(&self, node: u32, gfp: Gfp) -> u64 {
        let key = u64::from(node) << 32 | u64::from(gfp.0);
        if gfp.has(Gfp::WRITE) && self.task_lifted() {
            key | LIFTED
        } else {
            key
        }
    }

    /// What a walk for a request asks of zones.
    #[inline(always)]
    pub(crate) fn walk_asks(&self, gfp: Gfp) -> Asks {
        match gfp.has(Gfp::WRITE) && self.policy.dirty_limits != DirtyLimits::Global {
            true => Asks::Dirty,
            false => Asks::Free,
        }
    }

    /// How far moved what such walks ask.
    #[inline(always)]
    fn moved_for(&self, gfp: Gfp) -> u64 {
        self.stat.moved(self.walk_asks(gfp))
    }

    #[inline(always)]
    fn hint(&self, gfp: Gfp) -> &Hint<W> {
        &self.hints[HINTS_OF_CPU * self.world.cpu() + usize::from(gfp.has(Gfp::WRITE))]
    }

    /// How the first walk at the low watermark would go (`walk_freelists`), and by how many pages levels may
    /// move before it could go otherwise. Whether the zone where it ends has a page is not asked. Where it finds
    /// none: how all of them would go (`walks_at_low`). `None`: asking would change something, or depends on more.
    fn foresee(&self, node: u32, gfp: Gfp, lifted: bool) -> Option<(Way, u64)> {
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            return None;
        }
        let flags = self.first_walk(node, gfp);
        let mut spare = FAR - 1;
        let first = self.foresee_walk(node, gfp, (flags, lifted), &mut spare, false)?;
        let fresh = self.policy.dirty_check == DirtyCheck::Fresh;
        if !first.is_nowhere() || !fresh || !self.walks_apart() {
            return Some((first, spare));
        }
        if flags & ALLOC_FAIR == 0 {
            let end = End::Nowhere;
            return Some((Way { end, ..first }, spare));
        }
        // The batches begin anew, of which the next walk asks nothing.
        let mut further = spare;
        let flags = flags & !ALLOC_FAIR;
        let all = self.nodes.len() == 1 && !self.asks_once_a_node();
        let second = self.foresee_walk(node, gfp, (flags, lifted), &mut further, all);
        Some(match second {
            Some(second) if second.is_nowhere() => {
                let way = Way {
                    walked: first.walked + second.walked,
                    limits: first.limits + second.limits,
                    end: End::NowhereReset,
                    ..first
                };
                (way, further)
            }
            _ => (first, spare),
        })
    }

    /// One walk of [`Self::foresee`]; `spare` becomes less where its tests need that. `behind_fair`: a fair one found no
    /// page in all zones that had a batch left.
    fn foresee_walk(
        &self,
        node: u32,
        gfp: Gfp,
        (flags, lifted): (u32, bool),
        spare: &mut u64,
        behind_fair: bool,
    ) -> Option<Way> {
        let fair = flags & ALLOC_FAIR != 0;
        let limited = flags & ALLOC_DIRTY_LIMIT != 0 && gfp.has(Gfp::WRITE);
        let fresh = self.policy.dirty_check == DirtyCheck::Fresh;
        let (mut walked, mut limits, mut classzone, mut asked) = (0, 0, None, None);
        for z in self.eligible(node, gfp) {
            let zone = &self.zones[z];
            let classzone = *classzone.get_or_insert(zone.kind.index());
            if fair {
                if zone.node != node {
                    if self.policy.fair_zones == FairZones::Batch {
                        continue;
                    }
                    break;
                }
                if self.batch_used_up(z) {
                    walked += 1;
                    continue;
                }
            }
            if behind_fair && !self.batch_used_up(z) {
                limits += u32::from(limited && fresh);
                walked += 1;
                continue;
            }
            if limited {
                let (ok, far) = self.zone_dirty_foreseen(z, lifted)?;
                *spare = far.min(*spare);
                if fresh {
                    let again = self.asks_once_a_node() && asked == Some(zone.node);
                    asked = Some(zone.node);
                    limits += u32::from(!again);
                    if !ok {
                        if self.zonelist_cache_notes(Passed::Dirty) {
                            return None;
                        }
                        walked += 1;
                        continue;
                    }
                } else if !ok {
                    // A failing check computes its limit anew.
                    return None;
                }
            }
            let free = self.stat.zone(z, ZoneStat::NrFreePages);
            let (ok, far) = self.watermark_foreseen(zone, free, classzone, flags);
            *spare = far.min(*spare);
            if ok {
                return Some(Way {
                    zone: z,
                    walked,
                    limits,
                    end: End::Other,
                });
            }
            if self.policy.zone_walk == ZoneWalk::OneZoneAhead {
                return None; // a walk wakes kswapd here
            }
            if self.zonelist_cache_notes(Passed::Watermark) {
                return None; // what comes behind depends on the clock
            }
            walked += 1;
        }
        Some(Way {
            walked,
            limits,
            ..Way::NOWHERE
        })
    }

    /// The watermark test of a single page at the low mark, and how many pages the free count is away from
    /// where it goes otherwise.
    #[inline(always)]
    fn watermark_foreseen(
        &self,
        zone: &Zone<W>,
        free: u64,
        classzone: usize,
        flags: u32,
    ) -> (bool, u64) {
        let low = zone.mark(Mark::Low);
        let ok = |free| self.watermark_ok_on(zone, free, 0, low, classzone, flags);
        // The walk's flags change no mark: the test is that of a sum of pages.
        let edge = low + zone.reserve(classzone) + 2;
        let passes = ok(free);
        (passes, free.abs_diff(edge).saturating_sub(2))
    }

    /// The zone where a walk for such a request ends, what it costs (ns), and by how many pages levels may
    /// move before it could go otherwise. `None`: it has to be made.
    #[inline(always)]
    pub(crate) fn foreseen(&self, node: u32, gfp: Gfp) -> Option<(usize, u64, u64)> {
        let (hint, spare) = self.foreseen_hint(node, gfp)?;
        let price = |what, n: &W::U32| match n.get() {
            0 => 0,
            n => self.world.price(what) * u64::from(n),
        };
        let ns = price(Cost::ZoneWalk, &hint.walked) + price(Cost::DirtyLimit, &hint.limits);
        Some((hint.zone.get() as usize, ns, spare))
    }

    #[inline(always)]
    fn foreseen_hint(&self, node: u32, gfp: Gfp) -> Option<(&Hint<W>, u64)> {
        let hint = self.hint(gfp);
        let key = self.hint_key(node, gfp);
        let held = self.held(hint, key);
        let spare = held.unwrap_or_else(|| self.foresee_anew(hint, node, gfp, key));
        (hint.zone.get() != NOWHERE).then_some((hint, spare))
    }

    /// By how many pages levels may move before what was foreseen for a key could go otherwise; `None`: it was for another
    /// one, or may do so already.
    #[inline(always)]
    fn held(&self, hint: &Hint<W>, key: u64) -> Option<u64> {
        (hint.key.get() == key)
            .then(|| hint.holds(self.moved_for(Gfp(key as u32))))
            .flatten()
    }

    /// By how many pages levels may move before what this CPU foresaw last for such requests could go otherwise;
    /// `None`: it may do so already.
    #[inline(always)]
    pub(crate) fn still_foreseen(&self, gfp: Gfp) -> Option<u64> {
        self.hint(gfp).holds(self.moved_for(gfp))
    }

    /// How the walks for such a request go that are foreseen to find no page.
    #[inline(always)]
    pub(crate) fn foresees_nowhere(&self, node: u32, gfp: Gfp) -> Option<Way> {
        let hint = self.hint(gfp);
        let known = self.held(hint, self.hint_key(node, gfp)).is_some()
            && hint.zone.get() == NOWHERE
            && hint.end.get() != End::Other as u32;
        known.then(|| hint.way())
    }

    /// Whether walks for such a request, foreseen anew, go as they went.
    #[inline(never)]
    pub(crate) fn foresees_again(&self, node: u32, gfp: Gfp, way: Way) -> bool {
        debug_assert!(way.is_nowhere() && way.end != End::Other);
        let hint = self.hint(gfp);
        self.foresee_anew(hint, node, gfp, self.hint_key(node, gfp));
        hint.way() == way
    }

    #[inline(never)]
    fn foresee_anew(&self, hint: &Hint<W>, node: u32, gfp: Gfp, key: u64) -> u64 {
        // A level that another CPU moves meanwhile is moved before it is counted: it counts as moved since.
        let from = self.moved_for(gfp);
        let foreseen = self.foresee(node, gfp, key & LIFTED != 0);
        let foreseen = foreseen.unwrap_or((Way::NOWHERE, 0));
        hint.remember(key, from, foreseen);
        foreseen.1
    }

    /// A single page from where the last such request found one, or where a walk would, if this CPU's
    /// list there has a page; or what is known where no walk finds one.
    #[inline(always)]
    pub(super) fn take_foreseen(&self, node: u32, gfp: Gfp) -> Foreseen {
        let hint = self.hint(gfp);
        let key = self.hint_key(node, gfp);
        if self.held(hint, key).is_none() {
            self.foresee_anew(hint, node, gfp, key);
        }
        let z = hint.zone.get();
        if z != NOWHERE {
            let pcp = self.pcp(z as usize, self.world.cpu(), self.list_of_request(gfp));
            let Some(pfn) = self.pop_pcp(pcp) else {
                return Foreseen::Unknown;
            };
            self.charge_walks(hint);
            self.hand_out(z as usize, pfn, node, gfp, 0);
            return Foreseen::Page(pfn);
        }
        let end = hint.end.get();
        if end == End::Other as u32 {
            return Foreseen::Unknown;
        }
        self.charge_walks(hint);
        if end == End::NowhereReset as u32 {
            self.reset_alloc_batches(node, gfp);
        }
        Foreseen::Nowhere
    }

    /// Charges walks that were foreseen and not made.
    #[inline(always)]
    fn charge_walks(&self, hint: &Hint<W>) {
        self.world.charge(Cost::ZoneWalk, hint.walked.get());
        self.world.charge(Cost::DirtyLimit, hint.limits.get());
    }

    /// Checks that what is remembered and still holds is what a walk would meet.
    pub(crate) fn check_hints(&self) -> Result<(), String> {
        for (nth, hint) in self.hints.iter().enumerate() {
            let cpu = nth / HINTS_OF_CPU;
            let key = hint.key.get();
            let was = hint.way();
            let moved = self.moved_for(Gfp(key as u32));
            let old = key == NONE || hint.holds(moved).is_none();
            if old || was == Way::NOWHERE && hint.spare.get() == 0 {
                continue;
            }
            let (node, gfp) = ((key & !LIFTED) >> 32, Gfp(key as u32));
            let way = self.foresee(node as u32, gfp, key & LIFTED != 0);
            let way = way.map(|(way, _)| way);
            // What ends in no zone and is not known to its end has its walks made: only the first one is remembered,
            // also where those behind it find no page any more.
            let first = was.is_nowhere() && was.end == End::Other;
            let same = if first {
                way.is_none_or(Way::is_nowhere)
            } else {
                way == Some(was)
            };
            if !same {
                return Err(format!(
                    "CPU {cpu} remembers a walk as {was:?}, it would be {way:?}"
                ));
            }
        }
        Ok(())
    }
}
