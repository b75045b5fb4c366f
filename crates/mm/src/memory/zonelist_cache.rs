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
    /// Stops the use of the bits of full zones for the rest of the allocator's call. Returns true
    /// if they were in use, so one more walk may find a page that they hid.
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
    /// Makes a cache in which no zone is full.
    pub fn new() -> Self {
        Self {
            full: bytemuck::Zeroable::zeroed(),
            cleared: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns true if zone `z` was found full since the bits were last cleared.
    #[inline]
    pub fn has(&self, z: usize) -> bool {
        self.full[z / 64].get() >> (z % 64) & 1 != 0
    }

    /// Notes that zone `z` was found full.
    fn mark(&self, z: usize) {
        let word = &self.full[z / 64];
        word.set(word.get() | 1 << (z % 64));
    }

    /// Forgets which zones were found full.
    fn clear(&self) {
        self.full.iter().for_each(|word| word.set(0));
    }

    /// Clears the marks of full zones if that was last done more than a second ago (`zlc_setup`).
    /// `tick`: now, in ticks; `hz`: ticks a second.
    fn age(&self, tick: u64, hz: u64) {
        if tick > self.cleared.get() + hz {
            self.clear();
            self.cleared.set(tick);
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the policy's rule for the zonelist cache; `None` on a machine of one node.
    #[inline(always)]
    pub(crate) fn zonelist_cache(&self) -> ZonelistCache {
        match self.nodes.len() {
            1 => ZonelistCache::None,
            _ => self.policy.zonelist_cache,
        }
    }

    /// Returns true if a walk that passes over a zone for the reason `why` marks the zone as full,
    /// or starts to heed such marks.
    #[inline]
    pub(crate) fn zonelist_cache_notes(&self, why: Passed) -> bool {
        match self.zonelist_cache() {
            ZonelistCache::None => false,
            ZonelistCache::BehindFirst | ZonelistCache::ClearedByReclaim => true,
            ZonelistCache::WhileActive => why != Passed::Dirty,
        }
    }

    /// Notes in the zonelist cache of a node that a walk from there passed over zone `z` for the
    /// reason `why`. `look_up`: the state of the cache during this call of the allocator.
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
        // Starts to heed the marks, once in a call, and clears them if they are older than a
        // second. Returns true if they are heeded.
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

    /// Clears the marks of full zones of a node's lists after direct reclaim has freed pages, under
    /// rules that say so.
    pub(crate) fn zones_reclaimed(&self, node: u32) {
        match self.zonelist_cache() {
            ZonelistCache::None | ZonelistCache::BehindFirst => {}
            ZonelistCache::ClearedByReclaim | ZonelistCache::WhileActive => {
                self.nodes[node as usize].full_zones.clear();
            }
        }
    }
}
