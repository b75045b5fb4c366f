//! Dirty limits of memory control groups (cgroup writeback: mm/page-writeback.c `mdtc_calc_avail`,
//! `domain_dirty_limits`, `wb_over_bg_thresh`; mm/memcontrol.c `mem_cgroup_wb_stats`;
//! docs/reference/memory-groups.md#dirty-limits).
//!
//! A file belongs to the group of the task that dirtied it first, and its dirty pages count there
//! at once. The dirty pages by which a group's limit is judged are those at the last flush of
//! statistics, up to two seconds ago: a group can be full of dirty pages before its tasks are held
//! back at all.

use super::dirty::Limits;
use super::pace::Position;
use crate::Mm;
use crate::cache::mapping::Mapping;
use crate::memory::frame::flag;
use crate::world::{Word32, Word64, World};
use crate::writeback::bdi::BdiStat;

/// Where the dirty pages of a group stand, as its tasks see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain {
    pub(super) group: u32,
    pub(super) limits: Limits,
    /// Dirty pages and pages under writeback.
    pub(super) dirty: u64,
}

impl Domain {
    /// Returns true if tasks of the group need not be held back for it.
    pub(super) fn runs_free(&self) -> bool {
        self.dirty <= self.limits.freerun()
    }
}

impl<W: World> Mm<W> {
    /// Adds `n` (with `step` -1: subtracts) to the dirty pages, or pages under writeback, of files
    /// of a device that belong to the group of the file `m`. A file that belongs to none yet is the
    /// calling task's (`inode_attach_wb`).
    #[inline(always)]
    pub(super) fn count_for_owner(&self, m: &Mapping<W>, stat: BdiStat, step: i32, n: u32) {
        if self.has_groups() {
            if m.owner.get() == 0 {
                m.owner.set(self.current_group() + 1);
            }
            let count = self
                .groups
                .dirty_of(m.owner.get() - 1, m.bdi(), stat as usize);
            match step < 0 {
                true => count.fetch_sub(u64::from(n)),
                false => count.fetch_add(u64::from(n)),
            };
        }
    }

    /// Copies the dirty pages and pages under writeback of all groups into the statistics that
    /// dirtiers read. Looks at every frame.
    pub(crate) fn flush_group_dirty(&self) {
        for group in &self.groups.all {
            group.known_dirty.iter().for_each(|known| known.set(0));
        }
        for pfn in 0..self.frames.len() {
            let page = self.frames.page(pfn);
            let f = page.flags();
            if f & flag::CACHED == 0 || f & (flag::DIRTY | flag::WRITEBACK) == 0 {
                continue;
            }
            for g in self.groups.upwards(page.group()) {
                let known = &self.groups.group(g).known_dirty;
                known[0].fetch_add(u64::from(f & flag::DIRTY != 0));
                known[1].fetch_add(u64::from(f & flag::WRITEBACK != 0));
            }
        }
    }

    /// Returns the group of the calling task; 0: none.
    #[inline(always)]
    pub(super) fn own_group(&self) -> u32 {
        match self.has_groups() {
            true => self.current_group(),
            false => 0,
        }
    }

    /// Returns where the dirty pages of the calling task's group stand; `None`: it is in none.
    #[inline(always)]
    pub(super) fn own_domain(&self, machine: Limits, dirty: u64) -> Option<Domain> {
        let group = self.own_group();
        (group != 0).then(|| self.group_domain(group, machine, dirty))
    }

    /// Returns where the dirty pages of a group stand, by the machine's limits and its `dirty`
    /// pages with those under writeback. The group's part of the limits is that of its page cache
    /// and of the clean memory that it could still use.
    pub(super) fn group_domain(&self, group: u32, machine: Limits, dirty: u64) -> Domain {
        self.flush_lru_stats_ratelimited(0);
        let [known, under_writeback] = self.groups.group(group).known_dirty.each_ref();
        let own = known.get() + under_writeback.get();
        let available = self.dirtyable();
        let file = self.known_file_pages(group);
        let clean = file.saturating_sub(own);
        let other_clean = available.saturating_sub(dirty).saturating_sub(clean);
        let headroom = self.groups.upwards(group).map(|g| {
            let g = self.groups.group(g);
            let ceiling = g.limits.max.min(g.limits.high);
            ceiling.saturating_sub(g.usage.get())
        });
        let headroom = headroom.min().unwrap_or(u64::MAX);
        let of = file + headroom.min(other_clean);
        // Ratios of the machine, in 4096ths; limits in bytes become ratios.
        let share = |limit: u64| {
            let ratio = (limit * 4096).div_ceil(available.max(1)).min(4096);
            ratio * of / 4096
        };
        let (mut background, dirty) = (share(machine.background), share(machine.dirty));
        if background >= dirty {
            background = dirty / 2;
        }
        Domain {
            group,
            limits: Limits { background, dirty },
            dirty: own,
        }
    }

    /// Returns the page cache of a group and the groups inside it, as of the last flush.
    fn known_file_pages(&self, group: u32) -> u64 {
        use crate::memory::zone::Lru;
        let nodes = self.nodes.iter().map(|node| usize::from(node.zones[0]));
        nodes
            .map(|z| {
                self.known_size(z, group, Lru::InactiveFile)
                    + self.known_size(z, group, Lru::ActiveFile)
            })
            .sum()
    }

    /// Returns where the dirty pages of a device's files stand in the group of `domain`.
    pub(super) fn group_position(&self, bdi: u32, domain: &Domain) -> Position {
        let limit = self.groups.group(domain.group).dirty_limit.get();
        Position {
            freerun: domain.limits.freerun(),
            limit: limit.max(domain.limits.dirty),
            thresh: domain.limits.dirty,
            dirty: domain.dirty,
            bdi_thresh: self.bdi_dirty_limit(bdi, domain.limits.dirty),
            bdi_dirty: self.owned_dirty(bdi, domain.group),
            bandwidth: self.write_bandwidth(bdi),
        }
    }

    /// Returns the dirty pages and pages under writeback of a device's files that belong to a
    /// group.
    pub(super) fn owned_dirty(&self, bdi: u32, group: u32) -> u64 {
        let of = |stat: BdiStat| self.groups.dirty_of(group, bdi, stat as usize).get();
        of(BdiStat::Reclaimable) + of(BdiStat::Writeback)
    }

    /// Returns true if a group that has dirty files on a device has more dirty pages than its
    /// background limit, so that the device's flusher writes on (`wb_over_bg_thresh`).
    pub(super) fn groups_over_background(&self, bdi: u32, machine: Limits, dirty: u64) -> bool {
        (1..self.groups.all.len() as u32).any(|g| {
            let count = |stat: BdiStat| self.groups.dirty_of(g, bdi, stat as usize).get();
            if count(BdiStat::Reclaimable) == 0 {
                return false;
            }
            let domain = self.group_domain(g, machine, dirty);
            let limit = domain.limits.background;
            self.groups.group(g).known_dirty[0].get() > limit
                || count(BdiStat::Reclaimable) > self.bdi_dirty_limit(bdi, limit)
        })
    }
}
