//! The counters by their names, and which of them this engine produces.

use crate::ZoneType;
use crate::memory::numa::NumaStat;
use crate::policy;
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// The exact level of a counter over all zones (negative differences read 0).
    pub fn global_stat(&self, item: ZoneStat) -> u64 {
        self.stat.exact_global(item).max(0) as u64
    }

    /// The exact level of a counter in one zone.
    pub fn zone_stat(&self, z: usize, item: ZoneStat) -> u64 {
        self.stat.snapshot(z, item)
    }

    /// A cumulative event.
    pub fn vm_event(&self, event: VmEvent) -> u64 {
        self.stat.events(event)
    }

    /// Counts an event that happens outside the engine (kB moved by a block device).
    pub fn count_event(&self, event: VmEvent, n: u64) {
        self.stat.event(event, n);
    }

    /// A cumulative event of a zone.
    pub fn zone_event(&self, z: usize, event: ZoneEvent) -> u64 {
        self.stat.zone_events(z, event)
    }

    /// A zone's name in reports: its type, with the node in front where there are several.
    pub fn zone_name(&self, z: usize) -> String {
        debug_assert!(z < self.zones.len(), "zone {z} does not exist");
        let zone = &self.zones[z];
        if self.nodes.len() == 1 {
            zone.kind.name().into()
        } else {
            format!("node{}/{}", zone.node, zone.kind.name())
        }
    }

    pub(crate) fn produces_level(&self, level: ZoneStat) -> bool {
        match level {
            ZoneStat::NrActiveFile => self.has_active_file(),
            ZoneStat::NrSlabReclaimable => self.keeps_inodes(),
            ZoneStat::NrAllocBatch => self.policy.fair_zones != policy::FairZones::Off,
            _ => true,
        }
    }

    fn produces_event(&self, event: VmEvent) -> bool {
        match event {
            VmEvent::WorkingsetRefault
            | VmEvent::WorkingsetActivate
            | VmEvent::WorkingsetNodereclaim => self.policy.workingset,
            VmEvent::WorkingsetRefaultAnon | VmEvent::WorkingsetActivateAnon => {
                self.policy.workingset_anon
            }
            VmEvent::XfsInodesReclaimed
            | VmEvent::XfsInodesRecycled
            | VmEvent::XfsInodesFlushed
            | VmEvent::XfsInodeWrites
            | VmEvent::XfsReclaimWait
            | VmEvent::KswapdInodeWait => (0..self.super_count()).any(|sb| self.is_xfs(sb)),
            VmEvent::SlabsScanned => self.keeps_inodes() || W::SHRINKERS > 0,
            VmEvent::PgInodeSteal | VmEvent::KswapdInodeSteal | VmEvent::InodesFreed => {
                self.keeps_inodes()
            }
            VmEvent::CompactStall
            | VmEvent::CompactSuccess
            | VmEvent::CompactFail
            | VmEvent::CompactBlocksMoved
            | VmEvent::CompactPagesMoved
            | VmEvent::CompactPagemigrateFailed
            | VmEvent::CompactMigrateScanned => self.compacts(),
            VmEvent::PgScanDirectThrottle => self.policy.emergency_throttle,
            VmEvent::VmscanThrottled => {
                self.policy.reclaim_throttle == policy::ReclaimThrottle::DirtyCounted
            }
            VmEvent::FairReset => self.policy.fair_zones != policy::FairZones::Off,
            _ => true,
        }
    }

    fn produces_zone_event(&self, event: ZoneEvent) -> bool {
        match event {
            ZoneEvent::ReadAheadReclaimed | ZoneEvent::PgHit => self.watches_pages(),
            _ => true,
        }
    }

    /// From now on: how long file pages had been in the cache when they were reclaimed, pages read
    /// ahead and reclaimed unused, hits by zone. It changes nothing else.
    pub fn watch_pages(&self) {
        self.watched.set(1);
    }

    /// Whether [`Mm::watch_pages`] was called.
    #[inline(always)]
    pub fn watches_pages(&self) -> bool {
        self.watched.get() != 0
    }

    /// A zone's file pages that were reclaimed while pages were watched: milliseconds that they had
    /// been in the cache, all together, and how many they were.
    pub fn reclaimed_age(&self, z: usize) -> (u64, u64) {
        debug_assert!(z < self.zones.len(), "zone {z} does not exist");
        let zone = &self.zones[z];
        (zone.reclaimed_age.get(), zone.reclaimed_aged.get())
    }

    /// A read found a page in the cache that it had not brought in.
    #[inline]
    pub fn note_hit(&self, pfn: Pfn) {
        self.stat
            .zone_event(self.frames.zone(pfn), ZoneEvent::PgHit, 1);
    }

    /// Every vmstat counter, by its name: levels and sums.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        let mut out: Vec<(String, u64)> = ZoneStat::ALL
            .iter()
            .filter(|&&s| self.produces_level(s))
            .map(|&s| (s.name().to_string(), self.global_stat(s)))
            .collect();
        out.extend(NumaStat::ALL.iter().filter_map(|&s| {
            let count = self.numa_global(s)?;
            Some((s.name().to_string(), count))
        }));
        out.extend(
            VmEvent::ALL
                .iter()
                .filter(|&&e| self.produces_event(e))
                .map(|&e| (e.name().to_string(), self.vm_event(e))),
        );
        for kind in [
            ZoneType::Dma,
            ZoneType::Dma32,
            ZoneType::Normal,
            ZoneType::Movable,
            ZoneType::HighMem,
        ] {
            let of_kind = || (0..self.zones.len()).filter(|&z| self.zones[z].kind == kind);
            if of_kind().next().is_none() {
                continue;
            }
            for e in ZoneEvent::ALL {
                if !self.produces_zone_event(e) {
                    continue;
                }
                let sum = of_kind().map(|z| self.zone_event(z, e)).sum();
                out.push((format!("{}_{}", e.name(), kind.suffix()), sum));
            }
        }
        out
    }

    /// The once-a-second fold of a CPU's counter differences; the first CPU's also flushes the statistics of the lists
    /// where that is due.
    pub fn refresh_cpu_vm_stats(&self, cpu: usize) {
        self.stat.refresh_cpu(cpu);
        self.decay_pcp_high(cpu);
        if cpu == 0 {
            self.flush_due_lru_stats();
        }
    }
}
