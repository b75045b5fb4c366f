//! Prediction of walks over the free lists: the result of a walk is computed before it is made, and
//! remembered for the next allocations.
//!
//! Most walks go as the one before: the same zones are skipped for the same reasons, and the same
//! zone has a page. A walk at the low watermark depends only on cheap levels, which move when a
//! CPU's difference is folded, and on words that change seldom: watermarks, limits, flags. Every
//! change of one of them is added to one count of moves (`VmStat::moved`). A prediction includes by
//! how many pages levels may move before one of its tests could turn out differently. Until the
//! count has moved that far, a new walk would charge the same and end in the same zone, so it is
//! not made. The recount compares what is remembered with what a walk would meet.

use crate::memory::gfp::Gfp;
use crate::memory::watermark::{ALLOC_DIRTY_LIMIT, ALLOC_FAIR};
use crate::memory::zone::{Mark, Zone};
use crate::memory::zonelist_cache::Passed;
use crate::policy::{DirtyCheck, DirtyLimits, FairZones, FreeSnapshot, ZoneWalk};
use crate::watch::vmstat::{Asks, FAR, ZoneStat};
use crate::world::{Cost, Word32, Word64, World};
use crate::{Mm, Pfn};

/// The key of an unused hint; a request's key fits in half of the word.
const NONE: u64 = u64::MAX;
/// The zone number that stands for no zone.
const NOWHERE: u32 = u32::MAX;
/// The number of hints of each CPU.
pub(crate) const HINTS_OF_CPU: usize = 2;
/// Key bit: the task's limits are a quarter higher.
const LIFTED: u64 = 1 << 63;

/// The walk that a CPU predicted last. Pages that will be written have a hint of their own, as
/// requests for others come between them.
pub(crate) struct Hint<W: World> {
    /// The request, as `hint_key` encodes it.
    key: W::U64,
    /// [`VmStat::moved`](crate::watch::vmstat::VmStat::moved) at the time of the prediction, and in
    /// `spare` how much further it may go.
    from: W::U64,
    spare: W::U64,
    /// The zone where the walk ends; [`NOWHERE`]: no zone gives a page, or no walk could be
    /// predicted.
    zone: W::U32,
    /// Zones that the walk skips and charges for.
    walked: W::U32,
    /// Dirty limits that the walk computes and charges for.
    limits: W::U32,
    /// The [`End`] of all walks at the low watermark.
    end: W::U32,
}

impl<W: World> Hint<W> {
    /// Makes an unused hint.
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

    /// Stores how the next allocator's walk over the zones is predicted to end for allocations with
    /// this `key`. `from`: pages allocated and freed so far; `way`: how the walk ends; `spare`: how
    /// many more pages may be allocated or freed before the walk could end otherwise.
    fn remember(&self, key: u64, from: u64, (way, spare): (Way, u64)) {
        self.key.set(key);
        self.from.set(from);
        self.spare.set(spare);
        self.zone.set(way.zone as u32);
        self.walked.set(way.walked);
        self.limits.set(way.limits);
        self.end.set(way.end as u32);
    }

    /// Returns how many more pages may move between levels before the prediction could change,
    /// given the count of moved pages now; `None` if it is no longer valid.
    #[inline(always)]
    fn holds(&self, moved: u64) -> Option<u64> {
        self.spare
            .get()
            .checked_sub(moved.wrapping_sub(self.from.get()))
    }

    /// Returns the remembered course of a walk over the free lists.
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

/// How the walks at the low watermark end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum End {
    /// The first walk ends in a zone; or the end is not known.
    Other,
    /// No walk finds a page.
    Nowhere,
    /// No walk finds a page, and between two of them the fair batches are reset.
    NowhereReset,
}

/// The course of a walk at the low watermark or, if none finds a page, of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The zone where the walk ends; [`NOWHERE`] if in none.
    zone: usize,
    /// Zones skipped and charged for.
    walked: u32,
    /// Dirty limits computed and charged for.
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

    /// Returns true if the fair batches are reset between the walks.
    #[inline(always)]
    pub fn resets(self) -> bool {
        self.end == End::NowhereReset
    }
}

/// The state of a prediction: its reach, and whether it marks zones.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    /// By how many pages levels may move before a walk could go differently.
    spare: u64,
    /// Whether zones below their high watermark are to be marked.
    marks: bool,
}

impl Outlook {
    /// Lowers the number of pages by which levels may move to `far`, which another test allows.
    #[inline(always)]
    fn limit(&mut self, far: u64) {
        self.spare = far.min(self.spare);
    }
}

/// The result of predicted walks at the low watermark for a single page.
pub(super) enum Foreseen {
    /// They end in a zone of which this CPU's list has a page; they were charged.
    Page(Pfn),
    /// They find no page. They were charged, and their side effects are done.
    Nowhere,
    /// The walks have to be made; nothing was charged.
    Unknown,
}

impl<W: World> Mm<W> {
    /// Returns the key of a request: its node and flags, and whether the task's dirty limits are
    /// raised, if that matters. A walk at the low watermark depends on nothing else of the request.
    #[inline(always)]
    fn hint_key(&self, node: u32, gfp: Gfp) -> u64 {
        let key = u64::from(node) << 32 | u64::from(gfp.0);
        if gfp.has(Gfp::WRITE) && self.task_lifted() {
            key | LIFTED
        } else {
            key
        }
    }

    /// Returns which class of counters (free pages, or also dirty pages) a walk for a request
    /// depends on.
    #[inline(always)]
    pub(crate) fn walk_asks(&self, gfp: Gfp) -> Asks {
        match gfp.has(Gfp::WRITE) && self.policy.dirty_limits != DirtyLimits::Global {
            true => Asks::Dirty,
            false => Asks::Free,
        }
    }

    /// Returns how many pages the levels that a walk for such a request depends on have moved so
    /// far.
    #[inline(always)]
    fn moved_for(&self, gfp: Gfp) -> u64 {
        self.stat.moved(self.walk_asks(gfp))
    }

    /// Returns this CPU's hint for such requests; those for pages to be written have their own.
    #[inline(always)]
    fn hint(&self, gfp: Gfp) -> &Hint<W> {
        &self.hints[HINTS_OF_CPU * self.world.cpu() + usize::from(gfp.has(Gfp::WRITE))]
    }

    /// Predicts the first walk at the low watermark for a request from `node` (`walk_freelists`),
    /// without its other side effects; does not check that the zone where it ends has a page. If
    /// the first walk finds none, predicts all walks (`walks_at_low`). Returns the walk's course,
    /// and by how many pages levels may move before the walk could go differently. `lifted`: the
    /// task's dirty limits are a quarter higher. `None`: the tests would have side effects, or
    /// depend on more than levels. `marks`: marks zones that the walk would find below their high
    /// watermark, as the walk, which is not made if it goes as predicted, would do (`below_high`).
    fn foresee(&self, node: u32, gfp: Gfp, lifted: bool, marks: bool) -> Option<(Way, u64)> {
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            return None;
        }
        let flags = self.first_walk(node, gfp);
        let mut outlook = Outlook {
            spare: FAR - 1,
            marks,
        };
        let first = self.foresee_walk(node, gfp, (flags, lifted), &mut outlook, false)?;
        let fresh = self.policy.dirty_check == DirtyCheck::Fresh;
        if !first.is_nowhere() || !fresh || !self.walks_apart() {
            return Some((first, outlook.spare));
        }
        if flags & ALLOC_FAIR == 0 {
            let end = End::Nowhere;
            return Some((Way { end, ..first }, outlook.spare));
        }
        // The batches are reset, and the next walk does not test them.
        let mut further = outlook;
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
                (way, further.spare)
            }
            _ => (first, outlook.spare),
        })
    }

    /// Predicts one walk of [`Self::foresee`], and lowers `outlook.spare`, the number of pages that
    /// levels may move, to what its tests allow. `flags`: the walk's `ALLOC_*` flags; `lifted`: the
    /// task's dirty limits are raised. `behind_fair`: a fair walk before it found no page in any
    /// zone that had a batch left. `None`: the walk cannot be predicted.
    fn foresee_walk(
        &self,
        node: u32,
        gfp: Gfp,
        (flags, lifted): (u32, bool),
        outlook: &mut Outlook,
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
                outlook.limit(far);
                if fresh {
                    let same_node = self.asks_once_a_node() && asked == Some(zone.node);
                    asked = Some(zone.node);
                    limits += u32::from(!same_node);
                    if !ok {
                        if self.zonelist_cache_notes(Passed::Dirty) {
                            return None;
                        }
                        walked += 1;
                        continue;
                    }
                } else if !ok {
                    // A check that fails computes its limit anew.
                    return None;
                }
            }
            let free = self.stat.zone(z, ZoneStat::NrFreePages);
            if self.may_be_below_high(zone) {
                let high = zone.mark(Mark::High);
                match self.watermark_foreseen(zone, high, free, classzone, flags) {
                    (true, far) => outlook.limit(far),
                    (false, _) if outlook.marks => self.mark_below_high(zone),
                    (false, _) => {}
                }
            }
            let low = zone.mark(Mark::Low);
            let (ok, far) = self.watermark_foreseen(zone, low, free, classzone, flags);
            outlook.limit(far);
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
                return None; // whether later zones are skipped depends on the clock
            }
            walked += 1;
        }
        Some(Way {
            walked,
            limits,
            ..Way::NOWHERE
        })
    }

    /// Tests whether a zone with `free` pages is above the watermark `mark` (pages) for a single
    /// page. Returns the result, and by how many pages the free count may move before the result
    /// could change.
    #[inline(always)]
    fn watermark_foreseen(
        &self,
        zone: &Zone<W>,
        mark: u64,
        free: u64,
        classzone: usize,
        flags: u32,
    ) -> (bool, u64) {
        let ok = |free| self.watermark_ok_on(zone, free, 0, mark, classzone, flags);
        // The walk's flags do not change the mark: the test compares the free count with a sum of
        // pages.
        let edge = mark + zone.reserve(classzone) + 2;
        let passes = ok(free);
        (passes, free.abs_diff(edge).saturating_sub(2))
    }

    /// Returns the result of the remembered or predicted walk over the free lists for a request
    /// from `node`: the zone where it ends, its cost (ns), and by how many pages the counters that
    /// it depends on may move before it could go differently. `None`: the walk has to be made.
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

    /// Returns this CPU's hint for a request from `node`, predicted anew if needed, and by how many
    /// pages levels may move before it could change; `None` if it names no zone.
    #[inline(always)]
    fn foreseen_hint(&self, node: u32, gfp: Gfp) -> Option<(&Hint<W>, u64)> {
        let hint = self.hint(gfp);
        let key = self.hint_key(node, gfp);
        let held = self.held(hint, key);
        let spare = held.unwrap_or_else(|| self.foresee_anew(hint, node, gfp, key));
        (hint.zone.get() != NOWHERE).then_some((hint, spare))
    }

    /// Returns by how many pages the counters may move before the prediction in `hint` for the
    /// request `key` could change; `None` if the hint is for another key, or may be wrong already.
    #[inline(always)]
    fn held(&self, hint: &Hint<W>, key: u64) -> Option<u64> {
        (hint.key.get() == key)
            .then(|| hint.holds(self.moved_for(Gfp(key as u32))))
            .flatten()
    }

    /// Returns by how many pages levels may move before this CPU's last prediction for such
    /// requests could change; `None` if it may be wrong already. The request's node is not
    /// compared.
    #[inline(always)]
    pub(crate) fn still_foreseen(&self, gfp: Gfp) -> Option<u64> {
        self.hint(gfp).holds(self.moved_for(gfp))
    }

    /// Returns the course of the walks for a request from `node` if they are predicted to find no
    /// page; `None` otherwise.
    #[inline(always)]
    pub(crate) fn foresees_nowhere(&self, node: u32, gfp: Gfp) -> Option<Way> {
        let hint = self.hint(gfp);
        let known = self.held(hint, self.hint_key(node, gfp)).is_some()
            && hint.zone.get() == NOWHERE
            && hint.end.get() != End::Other as u32;
        known.then(|| hint.way())
    }

    /// Predicts the walks for a request from `node` anew and returns true if they go as in `way`,
    /// which found no page.
    #[inline(never)]
    pub(crate) fn foresees_again(&self, node: u32, gfp: Gfp, way: Way) -> bool {
        debug_assert!(way.is_nowhere() && way.end != End::Other);
        let hint = self.hint(gfp);
        self.foresee_anew(hint, node, gfp, self.hint_key(node, gfp));
        hint.way() == way
    }

    /// Predicts the walk for a request with this key and stores the result in `hint`. Returns by
    /// how many pages levels may move before it could change; 0 if nothing could be predicted.
    #[inline(never)]
    fn foresee_anew(&self, hint: &Hint<W>, node: u32, gfp: Gfp, key: u64) -> u64 {
        // A level that another CPU moves meanwhile is moved before the move is counted, so it
        // counts as moved since.
        let from = self.moved_for(gfp);
        let foreseen = self.foresee(node, gfp, key & LIFTED != 0, true);
        let foreseen = foreseen.unwrap_or((Way::NOWHERE, 0));
        hint.remember(key, from, foreseen);
        foreseen.1
    }

    /// Takes a single page from the zone where the walk is predicted to end, if this CPU's list of
    /// that zone has a page; if the walks are predicted to find none, does their side effects.
    /// Charges the walks as if made.
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

    /// Charges walks that were predicted and not made.
    #[inline(always)]
    fn charge_walks(&self, hint: &Hint<W>) {
        self.world.charge(Cost::ZoneWalk, hint.walked.get());
        self.world.charge(Cost::DirtyLimit, hint.limits.get());
    }

    /// Checks that what each CPU's hint remembers, if it is still valid, is how a walk would go
    /// now. Returns a text about the first that is wrong.
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
            let way = self.foresee(node as u32, gfp, key & LIFTED != 0, false);
            let way = way.map(|(way, _)| way);
            // A walk that ends in no zone and whose further walks are not known is really made:
            // only the first one is remembered, even if those after it no longer find a page.
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
