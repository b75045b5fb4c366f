//! Decides how many pages of each LRU list to scan (docs/reference/reclaim.md).

use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::zone::{Lru, Mark};
use crate::policy::SmallScan;
use crate::policy::{ScanBalance, ScanSizes};
use crate::watch::vmstat::ZoneStat;
use crate::world::{ShortLock, Word32, Word64, World};

/// Pages scanned and reclaimed at a time.
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// The first, gentlest priority; every step down doubles the share of a list that is scanned.
pub const DEF_PRIORITY: u8 = 12;

/// State and parameters of one invocation of reclaim.
#[derive(Debug, Clone, Copy)]
pub struct ScanControl {
    /// Reclaim stops after this many pages.
    pub nr_to_reclaim: u64,
    /// Pages examined by the page loop so far; a mapped or swap-cache page counts twice.
    pub nr_scanned: u64,
    /// Pages freed so far.
    pub nr_reclaimed: u64,
    /// Dirty file pages met so far.
    pub nr_dirty_file: u64,
    /// Whether reclaim may write pages.
    pub may_writepage: bool,
    /// Whether reclaim may swap.
    pub may_swap: bool,
    /// Order of the request.
    pub order: u32,
    /// The request's flags.
    pub gfp: Gfp,
    /// Current priority: a list's share of `1 / 2^priority` is scanned.
    pub priority: u8,
    /// Whether kswapd reclaims.
    pub kswapd: bool,
    /// The highest zone type whose pages help the request; pages of higher zones on a node's lists
    /// are skipped.
    pub classzone: usize,
    /// The memory control group that is reclaimed from, with the groups inside it; 0: the machine.
    pub target: u32,
    /// The group whose lists are scanned.
    pub group: u32,
    /// Groups below `memory.low` are scanned too, because the others gave nothing.
    pub(super) low_too: bool,
    /// A group was left alone, or scanned less, because of `memory.low`.
    pub(super) low_skipped: bool,
    /// Every walk visits all groups.
    pub(super) full_walk: bool,
    /// There are so few file pages that only anonymous ones are scanned (`file_is_tiny`).
    pub(super) tiny: bool,
    /// The costs of anonymous and file memory of the target.
    pub(super) costs: [u64; 2],
    /// Pages that the scan of the node has met so far, by state.
    pub(super) met: Met,
    /// Which active lists may be scanned, anonymous and file (`scan_balance = "cost"`).
    pub(super) may_deactivate: [bool; 2],
    /// Both active lists may be scanned, because nothing else is left to reclaim.
    pub(super) force_deactivate: bool,
    /// An active list was not scanned because `may_deactivate` forbade it.
    pub(super) skipped_deactivate: bool,
    /// Only file pages are scanned, because there seem to be enough of them (`cache_trim_mode`).
    pub(super) trim: bool,
    /// A scan of file pages alone freed nothing.
    pub(super) trim_failed: bool,
    /// File pages are not scanned alone any more (`trim_retry`).
    pub(super) no_trim: bool,
}

/// Pages that the scan of a zone or node has met, by state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Met {
    /// Dirty file pages, those under writeback too.
    pub(super) dirty: u64,
    /// Dirty file pages met again under writeback.
    pub(super) congested: u64,
    /// Dirty file pages that are not under writeback.
    pub(super) unqueued: u64,
    /// Pages under writeback that do not count as `immediate`.
    pub(super) writeback: u64,
    /// Pages under writeback that kswapd met again in a node full of such pages.
    pub(super) immediate: u64,
    /// Isolated pages.
    pub(super) taken: u64,
    /// Isolated file pages.
    pub(super) file_taken: u64,
}

impl ScanControl {
    /// Returns the state at the start of a reclaimer's work: nothing scanned yet, at the first
    /// priority, writing and swapping allowed. `nr_to_reclaim`: pages to free; `order`, `gfp`: the
    /// request; `classzone`: the highest zone type that helps the request.
    pub(crate) fn new(
        nr_to_reclaim: u64,
        order: u32,
        gfp: Gfp,
        classzone: usize,
        kswapd: bool,
    ) -> Self {
        Self {
            nr_to_reclaim,
            nr_scanned: 0,
            nr_reclaimed: 0,
            nr_dirty_file: 0,
            may_writepage: true,
            may_swap: true,
            order,
            gfp,
            priority: DEF_PRIORITY,
            kswapd,
            classzone,
            target: 0,
            group: 0,
            low_too: false,
            low_skipped: false,
            full_walk: false,
            tiny: false,
            costs: [0; 2],
            met: Met::default(),
            may_deactivate: [true; 2],
            force_deactivate: false,
            skipped_deactivate: false,
            trim: false,
            trim_failed: false,
            no_trim: false,
        }
    }
}

/// The four evictable lists in scanning order.
pub(super) const SCAN_ORDER: [Lru; 4] = [
    Lru::InactiveAnon,
    Lru::ActiveAnon,
    Lru::InactiveFile,
    Lru::ActiveFile,
];

/// Cuts the rest of a scan once enough is reclaimed: scans no more of the smaller one of anonymous
/// and file memory, and of the other one only up to the same share of its target. `nr`: pages left
/// to scan of each list, which it changes; `targets`: pages that were to be scanned, both in
/// `SCAN_ORDER`. Returns false, and changes nothing, if only one kind is left.
pub(super) fn scan_in_proportion(nr: &mut [u64; 4], targets: &[u64; 4]) -> bool {
    let left = [nr[0] + nr[1], nr[2] + nr[3]];
    if left.contains(&0) {
        return false;
    }
    // The kernel compares file > anon; the smaller one stops.
    let (stop, go) = if left[1] > left[0] { (0, 2) } else { (2, 0) };
    let target = targets[stop] + targets[stop + 1] + 1;
    let percentage = left[stop / 2] * 100 / target;
    for i in 0..2 {
        nr[stop + i] = 0;
        let scanned = targets[go + i] - nr[go + i];
        let share = targets[go + i] * (100 - percentage) / 100;
        nr[go + i] = share.saturating_sub(scanned);
    }
    true
}

impl<W: World> Mm<W> {
    /// Returns the number of pages on both lists, active and inactive, of file or anonymous memory
    /// of zone `z` (or its node).
    #[inline(always)]
    fn size_of_type(&self, z: usize, file: bool) -> u64 {
        if file {
            self.lru_size(z, Lru::ActiveFile) + self.lru_size(z, Lru::InactiveFile)
        } else {
            self.lru_size(z, Lru::ActiveAnon) + self.lru_size(z, Lru::InactiveAnon)
        }
    }

    /// Returns how many pages of a zone (or its node) reclaim could free: the file pages, and the
    /// anonymous ones if there is free swap.
    pub fn zone_reclaimable_pages(&self, z: usize) -> u64 {
        let anon = if self.free_swap() > 0 {
            self.size_of_type(z, false)
        } else {
            0
        };
        self.size_of_type(z, true) + anon
    }

    /// Returns true if scanning zone `z` (or its node) still makes sense: fewer pages were scanned
    /// since the last one was freed than six times those that are reclaimable.
    pub(crate) fn zone_reclaimable(&self, z: usize) -> bool {
        self.lru_home(z).pages_scanned.get() < self.zone_reclaimable_pages(z) * 6
    }

    /// Returns true if the inactive anonymous list of zone `z` (or its node), or of a group on it,
    /// is too short for its active list; false without swap.
    pub(crate) fn inactive_anon_is_low(&self, z: usize, group: u32) -> bool {
        if self.config.swap_slots == 0 {
            return false;
        }
        if self.policy.scan_balance == ScanBalance::Cost {
            return self.inactive_is_low(z, group, false);
        }
        let pages = if self.node_lru() {
            self.nodes[self.zones[z].node as usize].size
        } else {
            u64::from(self.zones[z].size)
        };
        let gib = pages >> (30 - 12);
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        self.lru_size(z, Lru::InactiveAnon) * ratio < self.lru_size(z, Lru::ActiveAnon)
    }

    /// Returns true if the inactive file list of zone `z` (or its node) is shorter than the active
    /// one.
    pub(super) fn inactive_file_is_low(&self, z: usize) -> bool {
        self.lru_size(z, Lru::ActiveFile) > self.lru_size(z, Lru::InactiveFile)
    }

    /// Returns the size of a list of zone `z` (or its node) of which a scan for a request up to
    /// `classzone` takes a share, in pages (`scan_sizes`; mm/vmscan.c `lruvec_lru_size`).
    #[inline]
    pub(super) fn scan_size(&self, z: usize, lru: Lru, sc: &ScanControl) -> u64 {
        let classzone = sc.classzone;
        if self.has_groups() {
            return self.group_lru_size(z, sc.group, lru, classzone);
        }
        if self.policy.scan_sizes == ScanSizes::List || !self.node_lru() {
            return self.lru_size(z, lru);
        }
        let zones = self.nodes[self.zones[z].node as usize].zones.iter();
        zones
            .map(|&z| usize::from(z))
            .filter(|&z| self.zones[z].kind.index() <= classzone)
            .map(|z| self.stat.zone(z, lru.size_item()))
            .sum()
    }

    /// Returns how many pages of each list of zone `z` (or its node) to scan at the present
    /// priority (docs/reference/reclaim.md#scan-counts), in [`SCAN_ORDER`].
    pub(crate) fn get_scan_count(&self, z: usize, sc: &mut ScanControl) -> [u64; 4] {
        match self.policy.scan_balance {
            ScanBalance::Fractions => {}
            ScanBalance::FileFirst => return self.get_scan_count_file_first(z, sc),
            ScanBalance::Cost => return self.scan_by_cost(z, sc),
        }
        let anon = self.size_of_type(z, false);
        let file = self.size_of_type(z, true);
        let swap = sc.may_swap && self.free_swap() > 0;
        let save = self.policy.small_scan == SmallScan::Save;
        // `force`: kswapd scans at least 32 pages of each list.
        let force = !save && sc.kswapd && (anon + file) >> sc.priority < SWAP_CLUSTER_MAX;
        let free = self.lru_stat(z, ZoneStat::NrFreePages);
        let (fraction, denominator) = if !swap {
            ([0, 1], 1)
        } else if file + free <= self.lru_high(z) {
            ([1, 0], 1)
        } else {
            let swappiness = u64::from(self.sysctl.swappiness());
            let decayed = self.decayed_rotations(z, [anon, file]);
            // The parts of anonymous and file memory: larger, the fewer of the scanned pages were
            // rotated.
            let ap = (swappiness + 1) * (decayed[0].0 + 1) / (decayed[0].1 + 1);
            let fp = (201 - swappiness) * (decayed[1].0 + 1) / (decayed[1].1 + 1);
            ([ap, fp], ap + fp + 1)
        };
        SCAN_ORDER.map(|lru| {
            let kind = usize::from(lru.is_file());
            let size = self.scan_size(z, lru, sc);
            if sc.priority == 0 && swap {
                return size;
            }
            if save {
                let share = (size >> sc.priority) * fraction[kind] / denominator;
                let saved = &self.zones[z].saved_scan[lru as usize];
                let n = u64::from(saved.get()) + share;
                let batch = n >= SWAP_CLUSTER_MAX;
                saved.set(if batch { 0 } else { n as u32 });
                return if batch { n } else { 0 };
            }
            let n = (size >> sc.priority) * fraction[kind] / denominator;
            if n == 0 && force && (lru.is_file() || swap) {
                SWAP_CLUSTER_MAX
            } else {
                n
            }
        })
    }

    /// Returns the high watermark of a zone, or where nodes have the lists the sum over all zones
    /// of its node, in pages.
    pub(super) fn lru_high(&self, z: usize) -> u64 {
        if !self.node_lru() {
            return self.zones[z].mark(Mark::High);
        }
        let zones = self.nodes[self.zones[z].node as usize].zones.iter();
        zones
            .map(|&z| self.zones[usize::from(z)].mark(Mark::High))
            .sum()
    }

    /// Returns, for anonymous and for file memory of zone `z` (or its node), the pages scanned
    /// lately and how many of them were rotated (kept as used). Halves counts above a quarter of
    /// the memory of their kind, given in `sizes`, first.
    fn decayed_rotations(&self, z: usize, sizes: [u64; 2]) -> [(u64, u64); 2] {
        let zone = self.lru_home(z);
        zone.lru_lock.with(|| {
            for (t, size) in sizes.into_iter().enumerate() {
                if zone.recent_scanned[t].get() > size / 4 {
                    zone.recent_scanned[t].set(zone.recent_scanned[t].get() / 2);
                    zone.recent_rotated[t].set(zone.recent_rotated[t].get() / 2);
                }
            }
            [0, 1].map(|t| (zone.recent_scanned[t].get(), zone.recent_rotated[t].get()))
        })
    }

    /// Returns how many pages of each list of zone `z` (or its node) to scan, in [`SCAN_ORDER`], as
    /// 3.16 does: the first of its rules that applies decides.
    fn get_scan_count_file_first(&self, z: usize, sc: &ScanControl) -> [u64; 4] {
        let high = self.lru_high(z);
        let sizes = [false, true].map(|file| self.size_of_type(z, file));
        let free = self.lru_stat(z, ZoneStat::NrFreePages);
        let swap = sc.may_swap && self.free_swap() > 0;
        let s = u64::from(self.sysctl.swappiness());
        // The parts of anonymous and file memory; `None`: both are scanned in full.
        let fraction = if !swap {
            Some([0, 1])
        } else if sc.priority == 0 && s > 0 {
            None
        } else if sizes[1] + free <= high {
            Some([1, 0])
        } else if !self.inactive_file_is_low(z) {
            Some([0, 1])
        } else {
            let decayed = self.decayed_rotations(z, sizes);
            let part = |weight, (scanned, rotated)| weight * (scanned + 1) / (rotated + 1);
            Some([part(s, decayed[0]), part(200 - s, decayed[1])])
        };
        let force = sc.kswapd && !self.zone_reclaimable(z);
        let count = |forced: bool| {
            SCAN_ORDER.map(|lru| {
                let size = self.scan_size(z, lru, sc);
                let mut n = size >> sc.priority;
                if n == 0 && forced {
                    n = size.min(SWAP_CLUSTER_MAX);
                }
                match fraction {
                    None => n,
                    // If only one kind is scanned its share is not divided.
                    Some([0, 1] | [1, 0])
                        if fraction.is_some_and(|f| f[usize::from(lru.is_file())] == 0) =>
                    {
                        0
                    }
                    Some([0, 1] | [1, 0]) => n,
                    Some(f) => n * f[usize::from(lru.is_file())] / (f[0] + f[1] + 1),
                }
            })
        };
        let plain = count(false);
        if force && plain == [0; 4] {
            count(true)
        } else {
            plain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets are 100 anonymous and 1000 file pages; 64 of each are scanned.
    #[test]
    fn what_is_left_of_a_scan_is_in_proportion() {
        let targets = [100, 0, 1000, 0];
        let mut nr = [36, 0, 936, 0];
        assert!(scan_in_proportion(&mut nr, &targets));
        // Of the smaller kind 36 of 101 were left, so 65 % of the other's target is scanned in all.
        assert_eq!(nr, [0, 0, 650 - 64, 0]);
        // The file pages may be the smaller kind.
        let mut nr = [968, 500, 0, 8];
        assert!(scan_in_proportion(&mut nr, &[1000, 500, 32, 40]));
        assert_eq!(nr, [1000 * 90 / 100 - 32, 450, 0, 0]);
        // If both are equal the file pages stop: the kernel stops the anonymous ones only if more
        // file pages are left.
        let mut nr = [50, 0, 50, 0];
        assert!(scan_in_proportion(&mut nr, &[100, 0, 100, 0]));
        assert_eq!(nr, [51 - 50, 0, 0, 0]);
        // With one kind alone there is nothing to divide.
        assert!(!scan_in_proportion(&mut [0, 0, 936, 0], &targets));
    }
}
