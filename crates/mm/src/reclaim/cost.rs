//! How much of anonymous and of file memory to scan, by what it cost to have either
//! (`scan_balance = "cost"`; Linux 5.9 to 6.12 `prepare_scan_control`, `get_scan_count`, `lru_note_cost`;
//! docs/reference/reclaim.md#costs).

use super::scan::{SCAN_ORDER, SWAP_CLUSTER_MAX, ScanControl};
use crate::Mm;
use crate::memory::gfp::Gfp;
use crate::memory::node::Costs;
use crate::memory::zone::Lru;
use crate::policy::ScanBalance;
use crate::watch::vmstat::ZoneStat;
use crate::world::{ShortLock, Word64, World};

impl<W: World> Mm<W> {
    fn costs(&self, z: usize) -> &Costs<W> {
        &self.nodes[self.zones[z].node as usize].costs
    }

    /// What reclaim or a page that came back cost its kind: pages of I/O, and pages looked at for nothing. Old
    /// costs are halved once there is more than a quarter of the lists.
    pub(crate) fn note_cost(&self, z: usize, file: bool, io: u64, rotated: u64) {
        if self.policy.scan_balance != ScanBalance::Cost {
            return;
        }
        let costs = self.costs(z);
        let pages: u64 = SCAN_ORDER.iter().map(|&lru| self.lru_size(z, lru)).sum();
        costs.lock.with(|| {
            costs.cost[usize::from(file)].fetch_add(io * SWAP_CLUSTER_MAX + rotated);
            let [anon, file] = [costs.cost[0].get(), costs.cost[1].get()];
            if anon + file > pages / 4 {
                costs.cost[0].set(anon / 2);
                costs.cost[1].set(file / 2);
            }
        });
    }

    /// A page came back soon enough to be activated.
    pub(crate) fn note_activated(&self, z: usize, file: bool) {
        self.costs(z).activated[usize::from(file)].fetch_add(1);
    }

    /// Reclaim of a request has ended: what comes back from here on is news to the next.
    pub(crate) fn snapshot_refaults(&self, node: u32, gfp: Gfp) {
        if self.policy.scan_balance == ScanBalance::Cost {
            for z in self.eligible(node, gfp) {
                self.snapshot_refaults_of(self.zones[z].node);
            }
        }
    }

    pub(crate) fn snapshot_refaults_of(&self, nid: u32) {
        let costs = &self.nodes[nid as usize].costs;
        for kind in 0..2 {
            costs.seen[kind].set(costs.activated[kind].get());
        }
    }

    /// Whether an inactive list is too short for its active one, by the size of the two.
    pub(crate) fn inactive_is_low(&self, z: usize, file: bool) -> bool {
        let [inactive, active] = match file {
            false => [Lru::InactiveAnon, Lru::ActiveAnon],
            true => [Lru::InactiveFile, Lru::ActiveFile],
        };
        let [inactive, active] = [self.lru_size(z, inactive), self.lru_size(z, active)];
        let gib = (inactive + active) >> (30 - 12);
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        inactive * ratio < active
    }

    /// How many pages of each list to scan, in [`SCAN_ORDER`], and which active lists may be.
    pub(super) fn scan_by_cost(&self, z: usize, sc: &mut ScanControl) -> [u64; 4] {
        let costs = self.costs(z);
        for (kind, may) in sc.may_deactivate.iter_mut().enumerate() {
            let news = costs.activated[kind].get() != costs.seen[kind].get();
            *may = sc.force_deactivate || news || self.inactive_is_low(z, kind == 1);
        }
        let [anon_too, file_too] = sc.may_deactivate;
        let size = |lru| self.lru_size(z, lru);
        let trim = size(Lru::InactiveFile) >> sc.priority > 0 && !file_too;
        let file = size(Lru::InactiveFile) + size(Lru::ActiveFile);
        let tiny = file + self.lru_stat(z, ZoneStat::NrFreePages) <= self.lru_high(z)
            && !anon_too
            && size(Lru::InactiveAnon) >> sc.priority > 0;
        let swappiness = u64::from(self.sysctl.swappiness());
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
            let n = size(lru) >> sc.priority;
            match parts {
                None => n,
                Some(parts) => {
                    (n * parts[usize::from(lru.is_file())]) / (parts[0] + parts[1]).max(1)
                }
            }
        })
    }
}
