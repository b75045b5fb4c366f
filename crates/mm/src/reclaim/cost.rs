//! Decides how much of anonymous and of file memory to scan, by what reclaiming each has cost so
//! far (`scan_balance = "cost"`; Linux 5.9 to 6.12 `prepare_scan_control`, `get_scan_count`,
//! `lru_note_cost`; docs/reference/reclaim.md#costs).

use super::scan::{SCAN_ORDER, SWAP_CLUSTER_MAX, ScanControl};
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::node::Costs;
use crate::memory::zone::Lru;
use crate::policy::{LruStats, ScanBalance, ScanCosts};
use crate::watch::vmstat::ZoneStat;
use crate::world::{ShortLock, Word64, World};

/// Nanoseconds between flushes of the statistics (mm/memcontrol.c `FLUSH_TIME`).
pub(crate) const FLUSH_TIME: u64 = 2 * crate::SECOND;

/// Returns the word with the time (ns) at which the first flush of the LRU lists' statistics is
/// due.
pub(crate) fn first_flush<W: World>() -> W::U64 {
    let due: W::U64 = bytemuck::Zeroable::zeroed();
    due.set(FLUSH_TIME);
    due
}

impl<W: World> Mm<W> {
    /// Returns the reclaim costs of the node of zone `z`.
    fn costs(&self, z: usize) -> &Costs<W> {
        &self.nodes[self.zones[z].node as usize].costs
    }

    /// Adds a cost to anonymous or file memory of zone `z`'s node, for reclaim or for a page that
    /// was faulted back: `io` pages of I/O, and `rotated` pages scanned in vain, which count in
    /// some kernels (`scan_costs`). Halves both costs once they are above a quarter of the pages on
    /// the lists.
    pub(crate) fn note_cost(&self, z: usize, file: bool, io: u64, rotated: u64) {
        if self.policy.scan_balance != ScanBalance::Cost {
            return;
        }
        let cost = match self.policy.scan_costs {
            ScanCosts::Io => io,
            ScanCosts::Rotations => io * SWAP_CLUSTER_MAX + rotated,
        };
        let costs = self.costs(z);
        let pages: u64 = SCAN_ORDER.iter().map(|&lru| self.known_size(z, lru)).sum();
        costs.lock.with(|| {
            costs.cost[usize::from(file)].fetch_add(cost);
            let [anon, file] = [costs.cost[0].get(), costs.cost[1].get()];
            if anon + file > pages / 4 {
                costs.cost[0].set(anon / 2);
                costs.cost[1].set(file / 2);
            }
        });
    }

    /// Counts, for the node of zone `z`, an anonymous or file page that came back soon enough after
    /// its eviction to be activated.
    pub(crate) fn note_activated(&self, z: usize, file: bool) {
        self.costs(z).activated[usize::from(file)].fetch_add(1);
    }

    /// Remembers the refaults so far, in the nodes that a request may use, at the end of its
    /// reclaim, so that the next reclaim sees only later ones as new.
    pub(crate) fn snapshot_refaults(&self, node: u32, gfp: Gfp) {
        if self.policy.scan_balance == ScanBalance::Cost {
            for z in self.eligible(node, gfp) {
                self.snapshot_refaults_of(self.zones[z].node);
            }
        }
    }

    /// Remembers the refaults of a node so far, so that only later ones count as new.
    pub(crate) fn snapshot_refaults_of(&self, nid: u32) {
        let costs = &self.nodes[nid as usize].costs;
        for kind in 0..2 {
            costs.seen[kind].set(self.known_activated(costs, kind));
        }
    }

    /// Returns true if reclaim sees list lengths as of the last flush of statistics, as it sees the
    /// cgroups' statistics; only where nodes have the lists.
    #[inline(always)]
    fn lru_stats_flushed(&self) -> bool {
        self.policy.lru_stats == LruStats::Flushed && self.node_lru()
    }

    /// Returns the number of pages on an LRU list of zone `z`, or its node, as the balance of
    /// reclaim sees it (possibly as of the last flush).
    pub(crate) fn known_size(&self, z: usize, lru: Lru) -> u64 {
        match self.lru_stats_flushed() {
            true => self.costs(z).flushed[lru as usize].get(),
            false => self.lru_size(z, lru),
        }
    }

    /// Returns the number of pages of a kind (0 anonymous, 1 file) that were activated when they
    /// came back, as reclaim sees it (possibly as of the last flush).
    fn known_activated(&self, costs: &Costs<W>, kind: usize) -> u64 {
        match self.lru_stats_flushed() {
            true => costs.flushed_activated[kind].get(),
            false => costs.activated[kind].get(),
        }
    }

    /// Flushes the statistics of zone `z`'s node before they are read, if they were never flushed
    /// or the periodic flush is a whole period late.
    pub(crate) fn flush_lru_stats_ratelimited(&self, z: usize) {
        if self.lru_stats_flushed() {
            let at = self.costs(z).flushed_at.get();
            if at == 0 || self.world.now() > at + 2 * FLUSH_TIME {
                self.flush_lru_stats(self.zones[z].node);
            }
        }
    }

    /// Does the periodic flush of all nodes' LRU statistics, which reclaim reads, if it is due.
    pub(crate) fn flush_due_lru_stats(&self) {
        if self.lru_stats_flushed() && self.world.now() >= self.flush_due.get() {
            self.flush_due.set(self.world.now() + FLUSH_TIME);
            for nid in 0..self.nodes.len() as u32 {
                self.flush_lru_stats(nid);
            }
        }
    }

    /// Copies the list lengths and refaults of a node into the statistics that reclaim reads.
    fn flush_lru_stats(&self, nid: u32) {
        let node = &self.nodes[nid as usize];
        let (costs, z) = (&node.costs, usize::from(node.zones[0]));
        for lru in SCAN_ORDER {
            costs.flushed[lru as usize].set(self.lru_size(z, lru));
        }
        for kind in 0..2 {
            costs.flushed_activated[kind].set(costs.activated[kind].get());
        }
        costs.flushed_at.set(self.world.now().max(1));
    }

    /// Returns true if the inactive list of file or anonymous pages is too short for its active
    /// one: the ratio of active to inactive may be 1, and with more than 1 GiB the root of ten
    /// times the GiB.
    pub(crate) fn inactive_is_low(&self, z: usize, file: bool) -> bool {
        let [inactive, active] = match file {
            false => [Lru::InactiveAnon, Lru::ActiveAnon],
            true => [Lru::InactiveFile, Lru::ActiveFile],
        };
        let [inactive, active] = [self.known_size(z, inactive), self.known_size(z, active)];
        let gib = (inactive + active) >> (30 - 12);
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        inactive * ratio < active
    }

    /// Returns how many pages of each list of zone `z`, or its node, to scan, in [`SCAN_ORDER`], by
    /// the costs of reclaiming anonymous and file pages so far (`get_scan_count`). Sets in `sc`
    /// which active lists may be scanned.
    pub(super) fn scan_by_cost(&self, z: usize, sc: &mut ScanControl) -> [u64; 4] {
        self.flush_lru_stats_ratelimited(z);
        let costs = self.costs(z);
        for (kind, may) in sc.may_deactivate.iter_mut().enumerate() {
            let new_refaults = self.known_activated(costs, kind) != costs.seen[kind].get();
            *may = sc.force_deactivate || new_refaults || self.inactive_is_low(z, kind == 1);
        }
        let [anon_too, file_too] = sc.may_deactivate;
        let size = |lru| self.lru_size(z, lru);
        let inactive_file = self.known_size(z, Lru::InactiveFile);
        // `trim`: there are enough inactive file pages that anonymous ones are left alone.
        let trim = inactive_file >> sc.priority > 0 && !file_too && !sc.no_trim;
        sc.trim = trim;
        let file = size(Lru::InactiveFile) + size(Lru::ActiveFile);
        // `tiny`: so few file pages that reclaiming all would not reach the high watermark.
        let tiny = file + self.lru_stat(z, ZoneStat::NrFreePages) <= self.lru_high(z)
            && !anon_too
            && size(Lru::InactiveAnon) >> sc.priority > 0;
        let swappiness = u64::from(self.sysctl.swappiness());
        // The parts of anonymous and file memory in the scan; `None`: all of both.
        let parts = if !sc.may_swap || self.free_swap() == 0 {
            Some([0, 1])
        } else if sc.priority == 0 && swappiness > 0 {
            None
        } else if tiny {
            Some([1, 0])
        } else if trim {
            Some([0, 1])
        } else {
            let [anon, file] = costs
                .lock
                .with(|| [costs.cost[0].get(), costs.cost[1].get()]);
            let total = anon + file;
            let (anon, file) = (total + anon, total + file);
            let total = anon + file + 1;
            Some([
                swappiness * total / (anon + 1),
                (200 - swappiness) * total / (file + 1),
            ])
        };
        SCAN_ORDER.map(|lru| {
            let n = self.scan_size(z, lru, sc.classzone) >> sc.priority;
            match parts {
                None => n,
                Some(parts) => {
                    (n * parts[usize::from(lru.is_file())]) / (parts[0] + parts[1]).max(1)
                }
            }
        })
    }
}
