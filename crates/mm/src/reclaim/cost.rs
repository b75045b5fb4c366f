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
    /// Returns the reclaim costs of the node of zone `z`, or of a group there.
    fn costs(&self, z: usize, group: u32) -> &Costs<W> {
        let nid = self.zones[z].node;
        match group {
            0 => &self.nodes[nid as usize].costs,
            _ => &self.groups.lists(group, nid).costs,
        }
    }

    /// Adds a cost to anonymous or file memory of zone `z`'s node, and of a group and all that it
    /// lies in (`group`; 0: none), for reclaim or for a page that
    /// was faulted back: `io` pages of I/O, and `rotated` pages scanned in vain, which count in
    /// some kernels (`scan_costs`). Halves both costs once they are above a quarter of the pages on
    /// the lists.
    pub(crate) fn note_cost(&self, (z, group): (usize, u32), file: bool, io: u64, rotated: u64) {
        if self.policy.scan_balance != ScanBalance::Cost {
            return;
        }
        if group != 0 {
            for g in self.groups.upwards(group) {
                self.note_cost_of(z, g, file, io, rotated);
            }
        }
        self.note_cost_of(z, 0, file, io, rotated);
    }

    /// Does [`Self::note_cost`] for the node itself, or for a group on it.
    fn note_cost_of(&self, z: usize, group: u32, file: bool, io: u64, rotated: u64) {
        let cost = match self.policy.scan_costs {
            ScanCosts::Io => io,
            ScanCosts::Rotations => io * SWAP_CLUSTER_MAX + rotated,
        };
        let costs = self.costs(z, group);
        let lists = SCAN_ORDER.iter();
        let pages: u64 = lists.map(|&lru| self.known_size(z, group, lru)).sum();
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
    pub(crate) fn note_activated(&self, z: usize, group: u32, file: bool) {
        self.costs(z, 0).activated[usize::from(file)].fetch_add(1);
        if group != 0 {
            for g in self.groups.upwards(group) {
                self.costs(z, g).activated[usize::from(file)].fetch_add(1);
            }
        }
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
        self.snapshot_group_refaults(nid, 0);
    }

    /// Remembers the refaults of a group (0: all) on a node so far.
    pub(crate) fn snapshot_group_refaults(&self, nid: u32, group: u32) {
        let costs = self.costs(usize::from(self.nodes[nid as usize].zones[0]), group);
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

    /// Returns the number of pages on an LRU list of zone `z`, or its node, or of a group there
    /// with the groups inside it, as the balance of reclaim sees it (possibly as of the last
    /// flush).
    pub(crate) fn known_size(&self, z: usize, group: u32, lru: Lru) -> u64 {
        match self.lru_stats_flushed() {
            true => self.costs(z, group).flushed[lru as usize].get(),
            false => self.size_below(z, group, lru),
        }
    }

    /// Returns the number of pages on an LRU list of zone `z` or its node, or of a group there and
    /// the groups inside it.
    fn size_below(&self, z: usize, group: u32, lru: Lru) -> u64 {
        if group == 0 {
            return self.lru_size(z, lru);
        }
        let all = group..self.groups.group(group).end;
        all.map(|g| self.group_lru_size(z, g, lru, usize::MAX))
            .sum()
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
            let at = self.costs(z, 0).flushed_at.get();
            if at == 0 || self.world.now() > at + 2 * FLUSH_TIME {
                self.flush_lru_stats(self.zones[z].node);
            }
        }
    }

    /// Does the periodic flush of all nodes' LRU statistics, which reclaim reads, if it is due.
    pub(crate) fn flush_due_lru_stats(&self) {
        if self.lru_stats_flushed() && self.world.now() >= self.flush_due.get() {
            self.flush_due.set(self.world.now() + FLUSH_TIME);
            self.flush_all_lru_stats();
        }
    }

    /// Flushes the statistics of all nodes.
    pub(crate) fn flush_all_lru_stats(&self) {
        for nid in 0..self.nodes.len() as u32 {
            self.flush_lru_stats(nid);
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
        if self.has_groups() {
            self.flush_group_stats(nid);
        }
    }

    /// Copies the list lengths and refaults of all groups on a node into the statistics that
    /// reclaim reads: children first, whose sums their parents contain.
    fn flush_group_stats(&self, nid: u32) {
        if nid == 0 {
            self.flush_group_dirty();
        }
        let z = usize::from(self.nodes[nid as usize].zones[0]);
        let groups = 1..self.groups.all.len() as u32;
        for g in groups.clone() {
            let costs = self.costs(z, g);
            for lru in SCAN_ORDER {
                let own = self.group_lru_size(z, g, lru, usize::MAX);
                costs.flushed[lru as usize].set(own);
            }
            for kind in 0..2 {
                costs.flushed_activated[kind].set(costs.activated[kind].get());
            }
        }
        for g in groups.rev() {
            let parent = self.groups.group(g).parent;
            if parent != 0 {
                let (own, above) = (self.costs(z, g), self.costs(z, parent));
                for (own, above) in own.flushed.iter().zip(&above.flushed) {
                    above.fetch_add(own.get());
                }
            }
        }
    }

    /// Returns true if the inactive list of file or anonymous pages is too short for its active
    /// one: the ratio of active to inactive may be 1, and with more than 1 GiB the root of ten
    /// times the GiB.
    pub(crate) fn inactive_is_low(&self, z: usize, group: u32, file: bool) -> bool {
        let [inactive, active] = match file {
            false => [Lru::InactiveAnon, Lru::ActiveAnon],
            true => [Lru::InactiveFile, Lru::ActiveFile],
        };
        let size = |lru| self.known_size(z, group, lru);
        let [inactive, active] = [size(inactive), size(active)];
        let gib = (inactive + active) >> (30 - 12);
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        inactive * ratio < active
    }

    /// Decides the balance of a scan of zone `z`'s node, or of the group `sc.target` there
    /// (`prepare_scan_control`): which active lists may be scanned, whether file pages are scanned
    /// alone (`trim`) or anonymous ones (`tiny`), and what both have cost so far.
    pub(super) fn prepare_scan(&self, z: usize, sc: &mut ScanControl) {
        self.flush_lru_stats_ratelimited(z);
        let costs = self.costs(z, sc.target);
        for (kind, may) in sc.may_deactivate.iter_mut().enumerate() {
            let new_refaults = self.known_activated(costs, kind) != costs.seen[kind].get();
            let low = || self.inactive_is_low(z, sc.target, kind == 1);
            *may = sc.force_deactivate || new_refaults || low();
        }
        let [anon_too, file_too] = sc.may_deactivate;
        let inactive_file = self.known_size(z, sc.target, Lru::InactiveFile);
        // `trim`: there are enough inactive file pages that anonymous ones are left alone.
        sc.trim = inactive_file >> sc.priority > 0 && !file_too && !sc.no_trim;
        let size = |lru| self.lru_size(z, lru);
        let file = size(Lru::InactiveFile) + size(Lru::ActiveFile);
        // `tiny`: so few file pages that reclaiming all would not reach the high watermark.
        sc.tiny = sc.target == 0
            && file + self.lru_stat(z, ZoneStat::NrFreePages) <= self.lru_high(z)
            && !anon_too
            && size(Lru::InactiveAnon) >> sc.priority > 0;
        sc.costs = costs
            .lock
            .with(|| [costs.cost[0].get(), costs.cost[1].get()]);
    }

    /// Returns how many pages of each list of zone `z` or its node, or of the group `sc.group`
    /// there, to scan, in [`SCAN_ORDER`], by the costs of reclaiming anonymous and file pages so
    /// far (`get_scan_count`). Without groups decides the balance first.
    pub(super) fn scan_by_cost(&self, z: usize, sc: &mut ScanControl) -> [u64; 4] {
        let groups = self.has_groups();
        if !groups {
            self.prepare_scan(z, sc);
        }
        let may_swap = match groups {
            true => self.group_may_swap(sc.group),
            false => self.free_swap() > 0,
        };
        let swappiness = u64::from(self.sysctl.swappiness());
        // The parts of anonymous and file memory in the scan; `None`: all of both.
        let parts = if !sc.may_swap || !may_swap || sc.target != 0 && swappiness == 0 {
            Some([0, 1])
        } else if sc.priority == 0 && swappiness > 0 {
            None
        } else if sc.tiny {
            Some([1, 0])
        } else if sc.trim {
            Some([0, 1])
        } else {
            let [anon, file] = sc.costs;
            let total = anon + file;
            let (anon, file) = (total + anon, total + file);
            let total = anon + file + 1;
            Some([
                swappiness * total / (anon + 1),
                (200 - swappiness) * total / (file + 1),
            ])
        };
        let protection = self.protection(sc);
        SCAN_ORDER.map(|lru| {
            let mut n = self.scan_size(z, lru, sc);
            if let Some((protected, size)) = protection {
                n -= n * protected / (size.max(protected) + 1);
                n = n.max(SWAP_CLUSTER_MAX);
            }
            let n = n >> sc.priority;
            match parts {
                None => n,
                Some(parts) => {
                    (n * parts[usize::from(lru.is_file())]) / (parts[0] + parts[1]).max(1)
                }
            }
        })
    }

    /// Returns the protected pages of the group `sc.group` from this reclaim, and its size; `None`:
    /// nothing is protected. Notes in `sc` if `memory.low` protects more than `memory.min`
    /// (`get_scan_count`, `mem_cgroup_protection`).
    fn protection(&self, sc: &mut ScanControl) -> Option<(u64, u64)> {
        if sc.group == sc.target {
            return None;
        }
        let group = self.groups.group(sc.group);
        let [min, low] = group.effective();
        if min == 0 && low == 0 {
            return None;
        }
        let protected = match !sc.low_too && low > min {
            true => {
                sc.low_skipped = true;
                low
            }
            false => min,
        };
        Some((protected, group.usage.get()))
    }
}
