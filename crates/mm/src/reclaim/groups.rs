//! Reclaim by memory control group (mm/vmscan.c `shrink_node_memcgs`,
//! `try_to_free_mem_cgroup_pages`; mm/memcontrol.c `mem_cgroup_iter`;
//! docs/reference/memory-groups.md#reclaim).

use super::scan::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl};
use super::shrinker::SlabPressure;
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::task::PF_MEMALLOC;
use crate::memory::zone::Lru;
use crate::world::{Cost, Word32, World};
use crate::{Mm, ZONE_TYPES};

/// A walk of one reclaimer over the groups inside its target.
struct Walk {
    /// The group visited last; `None`: none so far.
    at: Option<u32>,
    /// The round of shared walks that this one is part of.
    round: u32,
    /// Whether the walk goes on where the last one on this node ended, and may end early.
    shared: bool,
}

impl<W: World> Mm<W> {
    /// Returns the next group of a walk over `target` and the groups inside it on a node, parents
    /// first; `None`: the walk is over. Walks of direct reclaim share their place, so that
    /// reclaimers that end early do not all take from the first groups.
    fn next_group(&self, walk: &mut Walk, target: u32, nid: u32) -> Option<u32> {
        let end = self.groups.group(target).end;
        let behind = |at: Option<u32>| match at {
            None => Some(target),
            Some(g) => Some(g + 1).filter(|&g| g < end),
        };
        if !walk.shared {
            walk.at = behind(walk.at);
            return walk.at;
        }
        let lists = self.groups.lists(target, nid);
        let first = walk.at.is_none();
        if !first && walk.round != lists.generation.get() {
            return None;
        }
        loop {
            walk.round = lists.generation.get();
            let next = behind(lists.position.get().checked_sub(1));
            lists.position.set(next.map_or(0, |g| g + 1));
            if next.is_none() {
                lists.generation.set(walk.round.wrapping_add(1));
                if first {
                    continue; // each walk visits at least one group
                }
            }
            walk.at = next;
            return next;
        }
    }

    /// Scans the lists of the groups inside `sc.target` on the node of zone `home`, each as far as
    /// its protection allows, and asks shrinkers for their part when it comes to the root. Returns
    /// the objects that the shrinkers freed.
    pub(super) async fn shrink_groups(&self, home: usize, sc: &mut ScanControl) -> u64 {
        let (nid, target) = (self.zones[home].node, sc.target);
        let mut walk = Walk {
            at: None,
            round: 0,
            shared: !sc.kswapd && !sc.full_walk,
        };
        let mut objects = 0;
        while let Some(g) = self.next_group(&mut walk, target, nid) {
            self.world.charge(Cost::ZoneWalk, 1);
            self.world.relax().await;
            if !self.may_shrink_group(g, sc) {
                continue;
            }
            let scanned = sc.nr_scanned;
            sc.group = g;
            self.shrink_lruvec(home, sc).await;
            if g == 0 {
                let pressure = SlabPressure {
                    nid,
                    scanned: sc.nr_scanned - scanned,
                    lru: self.node_lru_pages(nid),
                };
                objects += self.shrink_slab(pressure, sc).await;
            }
            if walk.shared && sc.nr_reclaimed >= sc.nr_to_reclaim {
                break;
            }
        }
        sc.group = target;
        objects
    }

    /// Returns true if reclaim may take from a group: not if all of it is under `memory.min`, and
    /// if all is under `memory.low` only where the other groups gave nothing, which is an event of
    /// the group.
    fn may_shrink_group(&self, g: u32, sc: &mut ScanControl) -> bool {
        self.groups.calculate_protection(sc.target, g);
        if g == sc.target {
            return true;
        }
        let (group, usage) = (self.groups.group(g), self.group_pages(g)[0]);
        let [min, low] = group.effective();
        if min >= usage {
            return false;
        }
        if low >= usage {
            if !sc.low_too {
                sc.low_skipped = true;
                return false;
            }
            self.count_group(g, GroupEvent::Low, 1);
        }
        true
    }

    /// Moves pages of each group's active anonymous list on a node to the inactive one if that is
    /// too short, before kswapd reclaims (`kswapd_age_node`).
    pub(super) async fn age_groups(&self, home: usize, sc: &mut ScanControl) {
        let groups = match self.has_groups() {
            true => self.groups.all.len() as u32,
            false => 1,
        };
        for g in 0..groups {
            sc.group = g;
            if self.inactive_anon_is_low(home, g) {
                self.shrink_active_list(home, Lru::ActiveAnon, SWAP_CLUSTER_MAX as u32, sc);
                self.world.relax().await;
            }
        }
        sc.group = sc.target;
    }

    /// Changes how a reclaim that freed nothing tries again: it visits all groups, then scans
    /// active lists too, and then groups below `memory.low`. Returns false if nothing is left to
    /// try (`do_try_to_free_pages`).
    pub(super) fn tries_harder(&self, sc: &mut ScanControl) -> bool {
        if self.has_groups() && !sc.full_walk {
            sc.full_walk = true;
            return true;
        }
        if std::mem::take(&mut sc.skipped_deactivate) {
            sc.force_deactivate = true;
            return true;
        }
        if std::mem::take(&mut sc.low_skipped) {
            (sc.force_deactivate, sc.low_too) = (false, true);
            return true;
        }
        false
    }

    /// Frees at least `n` pages of a group and the groups inside it, if it can; at least 32.
    /// Returns the number of pages freed.
    pub(crate) async fn try_to_free_group_pages(&self, target: u32, n: u64) -> u64 {
        let highest = ZONE_TYPES - 1;
        let most = n.max(SWAP_CLUSTER_MAX);
        let mut sc = ScanControl::new(most, 0, Gfp::USER, highest, false);
        (sc.target, sc.group) = (target, target);
        let task = self.current();
        task.flags.fetch_or(PF_MEMALLOC);
        let node = self.local_node();
        loop {
            self.scan_target(node, &mut sc).await;
            for nid in 0..self.nodes.len() as u32 {
                self.snapshot_group_refaults(nid, target);
                self.groups.lists(target, nid).congested.set(0);
            }
            if sc.nr_reclaimed > 0 || !self.tries_harder(&mut sc) {
                break;
            }
        }
        task.flags.fetch_and(!PF_MEMALLOC);
        sc.nr_reclaimed
    }

    /// Scans the group `sc.target` on all nodes, from `node` on, at one priority after another,
    /// until enough is freed.
    async fn scan_target(&self, node: u32, sc: &mut ScanControl) {
        for priority in (0..=DEF_PRIORITY).rev() {
            sc.priority = priority;
            sc.nr_scanned = 0;
            let (mut last, mut first) = (None, None);
            for &z in &self.nodes[node as usize].zonelists[sc.classzone] {
                let z = usize::from(z);
                self.world.charge(Cost::ZoneWalk, 1);
                if last.replace(self.zones[z].node) == Some(self.zones[z].node) {
                    continue;
                }
                let home = self.zones[z].lru_home as usize;
                first.get_or_insert(home);
                self.shrink_node(home, sc).await;
            }
            if let Some(first) = first {
                self.consider_reclaim_throttle(first, sc).await;
            }
            self.world.relax().await;
            if sc.nr_reclaimed >= sc.nr_to_reclaim {
                return;
            }
        }
    }
}
