//! The counters by their names, and which of them this engine produces.
//!
//! The same is counted whatever kernel a policy models. Names, and whether a counter is of one zone
//! or of all of them, are those of that kernel's /proc/vmstat (the switch `counters`). Counters
//! that the kernel has and the engine does not count are left out, as are those that only other
//! kernels have. Counters that no kernel has ([`of_no_kernel`]) are present under every kernel's
//! names.

use crate::ZoneType;
use crate::memory::numa::NumaStat;
use crate::policy::{self, Counters, Policy};
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::world::{Word32, Word64, World};
use crate::{Mm, Pfn};

impl<W: World> Mm<W> {
    /// Returns the exact level of a counter (mostly in pages) over all zones, 0 if it is negative.
    pub fn global_stat(&self, item: ZoneStat) -> u64 {
        self.stat.exact_global(item).max(0) as u64
    }

    /// Returns the exact level of a counter in one zone.
    pub fn zone_stat(&self, z: usize, item: ZoneStat) -> u64 {
        self.stat.snapshot(z, item)
    }

    /// Returns how often an event was counted since boot.
    pub fn vm_event(&self, event: VmEvent) -> u64 {
        self.stat.events(event)
    }

    /// Adds `n` to the count of an event that happens outside the engine (kB moved by a block
    /// device).
    pub fn count_event(&self, event: VmEvent, n: u64) {
        self.stat.event(event, n);
    }

    /// Returns how often an event of a zone was counted since boot.
    pub fn zone_event(&self, z: usize, event: ZoneEvent) -> u64 {
        self.stat.zone_events(z, event)
    }

    /// Returns a zone's name in reports: its type, with the node in front if there are several.
    pub fn zone_name(&self, z: usize) -> String {
        debug_assert!(z < self.zones.len(), "zone {z} does not exist");
        let zone = &self.zones[z];
        if self.nodes.len() == 1 {
            zone.kind.name().into()
        } else {
            format!("node{}/{}", zone.node, zone.kind.name())
        }
    }

    /// Returns true if the counter of a level exists under this policy and for these filesystems,
    /// so that lists of counters include it.
    pub(crate) fn produces_level(&self, level: ZoneStat) -> bool {
        match level {
            ZoneStat::NrActiveFile => self.has_active_file(),
            ZoneStat::NrSlabReclaimable => self.keeps_inodes(),
            ZoneStat::NrAllocBatch => self.policy.fair_zones != policy::FairZones::Off,
            // A counter of 3.2, and of the patch that it came with.
            ZoneStat::NrVmscanImmediateReclaim => self.policy.immediate_reclaim,
            _ => true,
        }
    }

    /// Returns true if an event's counter exists on this machine, under this policy and for these
    /// filesystems.
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
            VmEvent::AllocStallDma | VmEvent::PgSkipDma => self.has_zone(ZoneType::Dma),
            VmEvent::AllocStallDma32 | VmEvent::PgSkipDma32 => self.has_zone(ZoneType::Dma32),
            // The counters of requests up to Normal or Movable exist even if those zones are empty.
            VmEvent::PgSkipNormal => self.has_zone(ZoneType::Normal),
            VmEvent::PgSkipMovable => self.has_zone(ZoneType::Movable),
            _ => true,
        }
    }

    /// Returns true if the counter of a zone's event exists; some do only while pages are watched.
    fn produces_zone_event(&self, event: ZoneEvent) -> bool {
        match event {
            ZoneEvent::ReadAheadReclaimed | ZoneEvent::PgHit => self.watches_pages(),
            _ => true,
        }
    }

    /// Starts to record how long file pages had been in the cache when they were reclaimed, pages
    /// read ahead and reclaimed unused, and hits by zone. Nothing else changes.
    pub fn watch_pages(&self) {
        self.watched.set(1);
    }

    /// Returns true if [`Mm::watch_pages`] was called.
    #[inline(always)]
    pub fn watches_pages(&self) -> bool {
        self.watched.get() != 0
    }

    /// Returns, of a zone's file pages that were reclaimed since [`Mm::watch_pages`], the sum of
    /// the milliseconds that they had been in the cache, and their number.
    pub fn reclaimed_age(&self, z: usize) -> (u64, u64) {
        debug_assert!(z < self.zones.len(), "zone {z} does not exist");
        let zone = &self.zones[z];
        (zone.reclaimed_age.get(), zone.reclaimed_aged.get())
    }

    /// Counts a hit of the page cache in the page's zone: a read found the page there and had not
    /// brought it in itself.
    #[inline]
    pub fn note_hit(&self, pfn: Pfn) {
        self.stat
            .zone_event(self.frames.zone(pfn), ZoneEvent::PgHit, 1);
    }

    /// Returns true if the machine has a zone of a kind.
    fn has_zone(&self, kind: ZoneType) -> bool {
        self.zones.iter().any(|zone| zone.kind == kind)
    }

    /// Returns every vmstat counter, levels and sums, by its name in the kernel that the policy
    /// models.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        let names = self.policy.counters;
        let mut out = Vec::new();
        for level in ZoneStat::ALL
            .into_iter()
            .filter(|&s| self.produces_level(s))
        {
            let n = self.global_stat(level);
            let of_zones = zone_level_name(names, level);
            let all = of_zones.into_iter().chain([level.name()]);
            out.extend(all.map(|name| (name.to_owned(), n)));
        }
        if by_node(names) {
            let pending =
                [ZoneStat::NrFileDirty, ZoneStat::NrWriteback].map(|s| self.global_stat(s));
            out.push((WRITE_PENDING.to_owned(), pending.iter().sum()));
        }
        out.extend(NumaStat::ALL.iter().filter_map(|&s| {
            let count = self.numa_global(s)?;
            Some((s.name().to_string(), count))
        }));
        let events = VmEvent::ALL.iter().filter(|&&e| self.produces_event(e));
        out.extend(events.filter_map(|&e| {
            let name = event_name(names, e)?;
            Some((name.to_owned(), self.vm_event(e)))
        }));
        self.sums_of_zones(&mut out);
        out
    }

    /// Adds to `out` the names and values of the counters that are kept by zone: one for each kind
    /// of zone, or their sum, as the policy's kernel lists them.
    fn sums_of_zones(&self, out: &mut Vec<(String, u64)>) {
        let produced = || {
            ZoneEvent::ALL
                .into_iter()
                .filter(|&e| self.produces_zone_event(e))
        };
        let listing = |e| listing_of(self.policy.counters, e);
        for e in produced().filter(|&e| listing(e) == Listing::Together) {
            let sum = (0..self.zones.len()).map(|z| self.zone_event(z, e)).sum();
            out.push((e.name().to_owned(), sum));
        }
        for kind in KINDS.into_iter().filter(|&kind| self.has_zone(kind)) {
            for e in produced().filter(|&e| listing(e) == Listing::ByZone) {
                let of_kind = (0..self.zones.len()).filter(|&z| self.zones[z].kind == kind);
                let sum = of_kind.map(|z| self.zone_event(z, e)).sum();
                out.push((format!("{}_{}", e.name(), kind.suffix()), sum));
            }
        }
    }

    /// Folds a CPU's counter differences into the zones' counters, as the kernel does once a
    /// second, and lets its per-CPU lists shrink. For the first CPU, also flushes the statistics of
    /// the LRU lists if that is due.
    pub fn refresh_cpu_vm_stats(&self, cpu: usize) {
        self.stat.refresh_cpu(cpu);
        self.decay_pcp_high(cpu);
        if cpu == 0 {
            self.flush_due_lru_stats();
        }
    }
}

/// The kinds of zones, in the order in which counters are listed.
const KINDS: [ZoneType; 5] = [
    ZoneType::Dma,
    ZoneType::Dma32,
    ZoneType::Normal,
    ZoneType::Movable,
    ZoneType::HighMem,
];

/// The counter of pages of zones that are dirty or under writeback (4.8).
const WRITE_PENDING: &str = "nr_zone_write_pending";

/// Returns true if the kernels with these names keep reclaim's counters by node (4.8).
fn by_node(names: Counters) -> bool {
    matches!(names, Counters::Linux49 | Counters::Linux61)
}

/// Returns the name (`nr_zone_…`) under which kernels that keep a level by node also list it by
/// zone (`enum zone_stat_item`, 4.8); `None` if they have none.
fn zone_level_name(names: Counters, level: ZoneStat) -> Option<&'static str> {
    let name = match level {
        ZoneStat::NrInactiveAnon => "nr_zone_inactive_anon",
        ZoneStat::NrActiveAnon => "nr_zone_active_anon",
        ZoneStat::NrInactiveFile => "nr_zone_inactive_file",
        ZoneStat::NrActiveFile => "nr_zone_active_file",
        ZoneStat::NrUnevictable => "nr_zone_unevictable",
        _ => return None,
    };
    by_node(names).then_some(name)
}

/// Returns the name of an event in kernels with these names; `None` if they do not count it.
fn event_name(names: Counters, event: VmEvent) -> Option<&'static str> {
    use VmEvent as E;
    let oldest = names == Counters::Linux30;
    let today = names == Counters::Linux61;
    // `listed`: the kernel counts the event; `renamed`: under another name than the engine's.
    let (listed, renamed) = match event {
        E::AllocStall => (!by_node(names), None),
        E::AllocStallDma | E::AllocStallDma32 | E::AllocStallNormal | E::AllocStallMovable => {
            (by_node(names), None)
        }
        E::PgSkipDma | E::PgSkipDma32 | E::PgSkipNormal | E::PgSkipMovable => {
            (by_node(names), None)
        }
        E::KswapdSteal | E::KswapdSkipCongestionWait | E::CompactBlocksMoved => (oldest, None),
        E::CompactPagesMoved if !oldest => (true, Some("pgmigrate_success")),
        E::CompactPagemigrateFailed if !oldest => (true, Some("pgmigrate_fail")),
        E::CompactMigrateScanned => (!oldest, None),
        E::WorkingsetRefault if today => (true, Some("workingset_refault_file")),
        E::WorkingsetActivate if today => (true, Some("workingset_activate_file")),
        E::OomKill | E::PgScanAnon | E::PgScanFile | E::PgStealAnon | E::PgStealFile => {
            (today, None)
        }
        _ => (true, None),
    };
    listed.then_some(renamed.unwrap_or(event.name()))
}

/// How a kernel lists a sum over zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Not,
    /// Under the event's name with the kind of zone.
    ByZone,
    /// Under the event's name alone.
    Together,
}

/// Returns how kernels with these names list an event of zones: one by kind of zone, the sum, or
/// not at all.
fn listing_of(names: Counters, event: ZoneEvent) -> Listing {
    use ZoneEvent as E;
    match (event, names) {
        (E::PgAlloc | E::ReadAheadReclaimed | E::PgHit, _) => Listing::ByZone,
        (E::PgSteal, Counters::Linux30) => Listing::ByZone,
        (E::PgSteal, _) => Listing::Not,
        (E::PgStealKswapd | E::PgStealDirect, Counters::Linux30) => Listing::Not,
        (_, Counters::Linux30 | Counters::Linux316) => Listing::ByZone,
        (_, Counters::Linux49 | Counters::Linux61) => Listing::Together,
    }
}

/// Returns true if the counter `name` is this engine's own and no kernel has it: it belongs to a
/// form that was never merged, or replaces a tracer.
pub fn of_no_kernel(name: &str) -> bool {
    const OWN: [&str; 18] = [
        "nr_kernel",
        "nr_vmscan_write_skip",
        "dirty_stall",
        "nr_vmscan_throttled",
        "reclaim_flush",
        "reclaim_flush_dropped",
        "reclaim_flush_written",
        "pressure_expired",
        "direct_writepage_warning",
        "write_error",
        "fair_reset",
        "inodes_freed",
        "xfs_inodes_reclaimed",
        "xfs_inodes_recycled",
        "xfs_inodes_flushed",
        "xfs_inode_writes",
        "xfs_reclaim_wait",
        "kswapd_inode_wait",
    ];
    debug_assert!(!name.is_empty(), "a counter has a name");
    OWN.contains(&name)
        || ["readahead_reclaimed_", "pghit_"]
            .iter()
            .any(|own| name.starts_with(own))
}

/// The result of looking a counter's name up in a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The kernel has a counter of this name, or one for each kind of zone.
    Here,
    /// Only other kernels have this name; this kernel counts the same under the name given.
    As(String),
    /// Only other kernels count it.
    Elsewhere,
    /// The engine has no counter of this name.
    Nowhere,
}

/// Looks a counter's name up in the kernel that a policy models, as if its machine had zones of
/// every kind.
pub fn known(policy: &Policy, name: &str) -> Known {
    debug_assert!(!name.is_empty(), "a counter has a name");
    let matches = |spelt: &str| {
        let zone = spelt
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('_'));
        spelt == name || zone.is_some_and(|zone| KINDS.iter().any(|kind| kind.suffix() == zone))
    };
    let here = spellings(policy.counters);
    if here.iter().any(|(_, spelt)| matches(spelt)) {
        return Known::Here;
    }
    let all = [
        Counters::Linux30,
        Counters::Linux316,
        Counters::Linux49,
        Counters::Linux61,
    ];
    let mut elsewhere = all.into_iter().flat_map(spellings);
    // `counted`: the name that identifies the counter over all kernels.
    let Some((counted, _)) = elsewhere.find(|(_, spelt)| matches(spelt)) else {
        return Known::Nowhere;
    };
    match here.into_iter().find(|(same, _)| *same == counted) {
        // A counter that is kept by kind of zone is named without the kind.
        Some((base, spelt)) => Known::As(match spelt.strip_prefix(base) {
            Some(rest)
                if KINDS
                    .iter()
                    .any(|kind| rest.strip_prefix('_') == Some(kind.suffix())) =>
            {
                base.to_owned()
            }
            _ => spelt,
        }),
        None => Known::Elsewhere,
    }
}

/// Returns every name that the counters of a policy may have, as if its machine had zones of every
/// kind.
pub fn names(policy: &Policy) -> Vec<String> {
    let all = spellings(policy.counters).into_iter();
    all.map(|(_, name)| name).collect()
}

/// Returns the names that these kernels use, each with the counter's first name over all kernels,
/// which identifies it.
fn spellings(names: Counters) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for level in ZoneStat::ALL {
        let of_zones = zone_level_name(names, level);
        let spelt = of_zones.into_iter().chain([level.name()]);
        all.extend(spelt.map(|name| (level.name(), name.to_owned())));
    }
    all.extend(by_node(names).then(|| (WRITE_PENDING, WRITE_PENDING.to_owned())));
    all.extend(NumaStat::ALL.map(|s| (s.name(), s.name().to_owned())));
    for &event in VmEvent::ALL {
        // Events that replaced each other are identified by one name.
        let counted = match event {
            _ if event.name().starts_with("allocstall") => VmEvent::AllocStall.name(),
            VmEvent::KswapdSteal => ZoneEvent::PgStealKswapd.name(),
            _ => event.name(),
        };
        all.extend(event_name(names, event).map(|name| (counted, name.to_owned())));
    }
    for event in ZoneEvent::ALL {
        match listing_of(names, event) {
            Listing::Not => {}
            Listing::Together => all.push((event.name(), event.name().to_owned())),
            Listing::ByZone => all.extend(
                KINDS.map(|kind| (event.name(), format!("{}_{}", event.name(), kind.suffix()))),
            ),
        }
    }
    all
}
