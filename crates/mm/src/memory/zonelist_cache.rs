//! The zonelist cache: which zones gave nothing a moment ago (docs/reference/allocation.md#zonelist-cache).
//!
//! A machine of many nodes has long fallback lists, and where memory is used up most walks over one pass
//! the same full zones. So each list has a bit for each of its zones, and for up to a second a walk passes
//! those whose bit is set without looking at them. What kswapd frees there meanwhile is not seen. A walk that
//! finds nothing is made once more without the bits: the cache makes nobody wait, it only moves
//! allocations to other zones.
//!
//! The kernel has the bits of a list over all nodes; a list of one node alone (`__GFP_THISNODE`) has none.
//! Here a request that may use one node alone is one of `numactl --membind`, which the kernel serves from the
//! list over all nodes, with its bits. They take 40 bytes a node. On a machine of one node nothing is
//! ever set, and the only word that a walk asks is its own.

use crate::Mm;
use crate::policy::ZonelistCache;
use crate::world::{Word64, World};

/// Words of bits: a machine has fewer than 256 zones.
const WORDS: usize = 4;

/// The bits of a node's fallback lists, whatever zones of them a request may use.
pub(crate) struct FullZones<W: World> {
    full: [W::U64; WORDS],
    /// The tick in which age cleared them last; 0: not yet.
    cleared: W::U64,
}

/// What one call of the allocator, which may be several walks, has to do with the cache.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LookUp {
    /// Zones whose bit is set are passed.
    pub active: bool,
    /// It was made active once, and will not be again.
    set_up: bool,
}

impl LookUp {
    /// Switches it off for good; whether it was on, so that one more walk may find what it hid.
    #[inline(always)]
    pub fn stop(&mut self) -> bool {
        std::mem::take(&mut self.active)
    }
}

/// Why a walk goes on to the next zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It is below the watermark.
    Watermark,
    /// It has more dirty pages than its share.
    Dirty,
    /// It is above the watermark, and nothing could be taken.
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

    /// Clears bits that may be older than a second (`hz` ticks).
    fn age(&self, tick: u64, hz: u64) {
        if tick > self.cleared.get() + hz {
            self.clear();
            self.cleared.set(tick);
        }
    }
}

impl<W: World> Mm<W> {
    /// The rule of the cache, where there is one.
    #[inline(always)]
    pub(crate) fn zonelist_cache(&self) -> ZonelistCache {
        match self.nodes.len() {
            1 => ZonelistCache::None,
            _ => self.policy.zonelist_cache,
        }
    }

    /// Whether a walk that passes a zone for this reason sets a bit, or asks for those of others.
    #[inline]
    pub(crate) fn zonelist_cache_notes(&self, why: Passed) -> bool {
        match self.zonelist_cache() {
            ZonelistCache::None => false,
            ZonelistCache::BehindFirst | ZonelistCache::ClearedByReclaim => true,
            ZonelistCache::WhileActive => why != Passed::Dirty,
        }
    }

    /// A walk from a node passed a zone.
    #[inline]
    pub(crate) fn zone_passed(&self, node: u32, z: usize, why: Passed, look_up: &mut LookUp) {
        if self.nodes.len() > 1 {
            self.note_zone_passed(node, z, why, look_up);
        }
    }

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

    /// A direct reclaim from a node's lists has freed pages: where the rule says so, any zone is looked at
    /// again.
    pub(crate) fn zones_reclaimed(&self, node: u32) {
        match self.zonelist_cache() {
            ZonelistCache::None | ZonelistCache::BehindFirst => {}
            ZonelistCache::ClearedByReclaim | ZonelistCache::WhileActive => {
                self.nodes[node as usize].full_zones.clear();
            }
        }
    }
}
