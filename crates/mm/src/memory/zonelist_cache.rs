//! The zonelist cache: which zones recently gave nothing
//! (docs/reference/allocation.md#zonelist-cache).
//!
//! A machine of many nodes has long fallback lists, and once memory is used up most walks over one
//! skip the same full zones. So each list has a bit for each of its zones, and for up to a second a
//! walk skips those whose bit is set without looking at them. Pages that kswapd frees there
//! meanwhile are not seen. A walk that finds nothing is repeated without the bits: the cache makes
//! no task wait, it only moves allocations to other zones.
//!
//! The kernel has the bits of a list over all nodes; a list of one node alone (`__GFP_THISNODE`)
//! has none. Here a request that may use one node alone is one of `numactl --membind`, which the
//! kernel serves from the list over all nodes, with its bits. The bits take 40 bytes per node. On a
//! machine of one node no bit is ever set, and a walk reads only its own [`LookUp`].

use crate::Mm;
use crate::policy::ZonelistCache;
use crate::world::{Word64, World};

/// Words of bits; a machine has fewer than 256 zones.
const WORDS: usize = 4;

/// The bits of a node's fallback lists, regardless of which of their zones a request may use.
pub(crate) struct FullZones<W: World> {
    full: [W::U64; WORDS],
    /// The tick in which the bits were last cleared by age; 0: not yet.
    cleared: W::U64,
}

/// The state of the cache during one call of the allocator, which may make several walks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LookUp {
    /// Zones whose bit is set are skipped.
    pub active: bool,
    /// `active` was set once and is not set again.
    set_up: bool,
}

impl LookUp {
    /// Stops using the bits for good. Returns true if they were in use, so one more walk may find a
    /// page that they hid.
    #[inline(always)]
    pub fn stop(&mut self) -> bool {
        std::mem::take(&mut self.active)
    }
}

/// Why a walk skips a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The zone is below the watermark.
    Watermark,
    /// The zone has more dirty pages than its share.
    Dirty,
    /// The zone is above the watermark, but no page could be taken.
    Empty,
}

impl<W: World> FullZones<W> {
    pub fn new() -> Self {
        Self {
            full: bytemuck::Zeroable::zeroed(),
            cleared: bytemuck::Zeroable::zeroed(),
        }
    }

    #[inline]
    pub fn has(&self, z: usize) -> bool {
        self.full[z / 64].get() >> (z % 64) & 1 != 0
    }

    fn mark(&self, z: usize) {
        let word = &self.full[z / 64];
        word.set(word.get() | 1 << (z % 64));
    }

    fn clear(&self) {
        self.full.iter().for_each(|word| word.set(0));
    }

    /// Forgets which zones were found full (`zlc_setup`) if that was last cleared more than a
    /// second ago. `tick`: now, in ticks; `hz`: ticks a second.
    fn age(&self, tick: u64, hz: u64) {
        if tick > self.cleared.get() + hz {
            self.clear();
            self.cleared.set(tick);
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the rule of the cache; on a machine of one node, that there is none.
    #[inline(always)]
    pub(crate) fn zonelist_cache(&self) -> ZonelistCache {
        match self.nodes.len() {
            1 => ZonelistCache::None,
            _ => self.policy.zonelist_cache,
        }
    }

    /// Returns true if a walk that skips a zone for this reason sets its bit, or starts to use the
    /// bits.
    #[inline]
    pub(crate) fn zonelist_cache_notes(&self, why: Passed) -> bool {
        match self.zonelist_cache() {
            ZonelistCache::None => false,
            ZonelistCache::BehindFirst | ZonelistCache::ClearedByReclaim => true,
            ZonelistCache::WhileActive => why != Passed::Dirty,
        }
    }

    /// Notes that a walk from a node skipped a zone.
    #[inline]
    pub(crate) fn zone_passed(&self, node: u32, z: usize, why: Passed, look_up: &mut LookUp) {
        if self.nodes.len() > 1 {
            self.note_zone_passed(node, z, why, look_up);
        }
    }

    /// Does [`Self::zone_passed`] on machines of several nodes, by the rule of the cache.
    #[inline(never)]
    fn note_zone_passed(&self, node: u32, z: usize, why: Passed, look_up: &mut LookUp) {
        let cache = &self.nodes[node as usize].full_zones;
        let mut set_up = || {
            if !look_up.set_up {
                cache.age(self.world.now() / self.tick(), self.config.hz);
                *look_up = LookUp {
                    active: true,
                    set_up: true,
                };
            }
            look_up.active
        };
        match self.policy.zonelist_cache {
            ZonelistCache::None => {}
            ZonelistCache::BehindFirst => {
                cache.mark(z);
                set_up();
            }
            ZonelistCache::ClearedByReclaim => {
                if why == Passed::Watermark {
                    set_up();
                }
                cache.mark(z);
            }
            ZonelistCache::WhileActive => {
                let active = match why {
                    Passed::Watermark => set_up(),
                    Passed::Dirty => false,
                    Passed::Empty => look_up.active,
                };
                if active {
                    cache.mark(z);
                }
            }
        }
    }

    /// Clears the bits of a node's lists after direct reclaim has freed pages, under rules that say
    /// so.
    pub(crate) fn zones_reclaimed(&self, node: u32) {
        match self.zonelist_cache() {
            ZonelistCache::None | ZonelistCache::BehindFirst => {}
            ZonelistCache::ClearedByReclaim | ZonelistCache::WhileActive => {
                self.nodes[node as usize].full_zones.clear();
            }
        }
    }
}
