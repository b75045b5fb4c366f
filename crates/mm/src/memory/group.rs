//! Memory control groups (cgroup v2, mm/memcontrol.c and mm/page_counter.c of Linux 6.12;
//! docs/reference/memory-groups.md): what they may have, what they have, and their LRU lists.
//!
//! Group 0 is the root, which has no limits and is not counted; the others are numbered from 1 in
//! the order of the tree, a parent before its children and these before its next sibling, so that
//! the groups below one are a row of numbers. A frame's map count has its group in its upper bits
//! ([`GROUP_SHIFT`](crate::memory::frame::GROUP_SHIFT)). Each group has lists on each node; the
//! root's are those of the node. A machine without groups has empty tables.

use crate::memory::node::Costs;
use crate::memory::zone::{LRU_LISTS, Lru};
use crate::world::{Word32, Word64, World};
use crate::{Config, Mm, Pfn};

/// The most groups that a machine can have.
pub const MAX_GROUPS: usize = (1 << (32 - crate::memory::frame::GROUP_SHIFT)) - 1;

/// The value of a limit that is none.
pub const NO_LIMIT: u64 = u64::MAX;

/// Pages that a group is charged for at a time (`MEMCG_CHARGE_BATCH`).
pub(crate) const CHARGE_BATCH: u64 = 64;

/// The limits and protections of a group, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// `memory.max`: above it the group reclaims from itself, or a program of it is killed.
    pub max: u64,
    /// `memory.high`: above it the group's tasks reclaim and sleep.
    pub high: u64,
    /// `memory.low`: memory that is reclaimed last.
    pub low: u64,
    /// `memory.min`: memory that is not reclaimed.
    pub min: u64,
    /// `memory.swap.max`: the most swap.
    pub swap_max: u64,
    /// `memory.oom.group`: a kill ends the whole group.
    pub oom_group: bool,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            max: NO_LIMIT,
            high: NO_LIMIT,
            low: 0,
            min: 0,
            swap_max: NO_LIMIT,
            oom_group: false,
        }
    }
}

/// A group of a machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupConfig {
    /// The number of the group that it lies in; 0: the root.
    pub parent: u32,
    /// Its limits.
    pub limits: GroupLimits,
}

/// An event or counter of a group, in `memory.events` or `memory.stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEvent {
    /// Reclaimed from although below `memory.low`.
    Low,
    /// A task reclaimed because the group was above `memory.high`.
    High,
    /// About to go above `memory.max`.
    Max,
    /// Reclaim at `memory.max` failed.
    Oom,
    /// Processes that the OOM killer ended.
    OomKill,
    /// The OOM killer ended all of the group.
    OomGroupKill,
    /// Pages that kswapd scanned.
    PgScanKswapd,
    /// Pages that tasks scanned.
    PgScanDirect,
    /// Pages that kswapd freed.
    PgStealKswapd,
    /// Pages that tasks freed.
    PgStealDirect,
    /// Pages that became active.
    PgActivate,
    /// Page faults.
    PgFault,
    /// Page faults that waited for a disk.
    PgMajFault,
    /// Anonymous pages that came back.
    RefaultAnon,
    /// File pages that came back.
    RefaultFile,
    /// File pages that came back soon enough to be active at once.
    ActivateFile,
    /// Pages read from swap.
    PswpIn,
    /// Pages written to swap.
    PswpOut,
}

/// Number of [`GroupEvent`]s.
const EVENTS: usize = GroupEvent::PswpOut as usize + 1;

/// One group.
pub(crate) struct Group<W: World> {
    pub(crate) parent: u32,
    /// The first number that is not of a group inside this one.
    pub(crate) end: u32,
    pub(crate) limits: GroupLimits,
    /// Pages charged to the group and the groups inside it.
    pub(crate) usage: W::U64,
    /// The most that `usage` was.
    pub(crate) peak: W::U64,
    /// Swap slots charged to the group and the groups inside it.
    pub(crate) swap: W::U64,
    /// The parts of `usage` below `min` and `low`, and their sums over the group's children.
    protected: [W::U64; 2],
    children_protected: [W::U64; 2],
    /// `min` and `low` in effect for the last walk, in pages.
    effective: [W::U64; 2],
    /// Dirty pages and pages under writeback at the last flush, with the groups inside.
    pub(crate) known_dirty: [W::U64; 2],
    /// The limit that the group's dirtiers are held to, and when it was last adjusted.
    pub(crate) dirty_limit: W::U64,
    pub(crate) dirty_limit_time: W::U64,
    events: [W::U64; EVENTS],
}

/// The lists of a group on a node, beside the lists themselves.
pub(crate) struct GroupLists<W: World> {
    /// Costs of reclaim, refaults, and the sizes at the last flush, with the groups inside.
    pub(crate) costs: Costs<W>,
    /// The clock of evictions (`nonresident_age`).
    pub(crate) age: W::U64,
    /// 1 if a reclaimer of the group's limit met only dirty pages that are queued for writing.
    pub(crate) congested: W::U32,
    /// The group at which the reclaimers of this one go on; 0: at its first. For the root: plus 1.
    pub(crate) position: W::U32,
    /// How often such a round has ended.
    pub(crate) generation: W::U32,
}

/// Pages of one group that are charged and not used, on one CPU.
pub(crate) struct Stock<W: World> {
    pub(crate) group: W::U32,
    pub(crate) pages: W::U64,
}

/// The groups of a machine; all empty if it has none.
pub(crate) struct Groups<W: World> {
    pub(crate) all: Box<[Group<W>]>,
    /// By group and zone: the pages on each list.
    sizes: Box<[W::U64]>,
    /// By group and node.
    lists: Box<[GroupLists<W>]>,
    stocks: Box<[Stock<W>]>,
    /// By group and device: dirty pages and pages under writeback of the group's files.
    dirty: Box<[W::U64]>,
    bdis: usize,
    zones: usize,
    nodes: usize,
    /// The sentinel of the first list of group 1 on node 0.
    first: Pfn,
    /// Bits of a shadow that hold the place of an evicted page.
    pub(crate) place_bits: u32,
}

impl<W: World> Group<W> {
    fn new(config: GroupConfig, end: u32) -> Self {
        Self {
            parent: config.parent,
            end,
            limits: config.limits,
            usage: bytemuck::Zeroable::zeroed(),
            peak: bytemuck::Zeroable::zeroed(),
            swap: bytemuck::Zeroable::zeroed(),
            protected: bytemuck::Zeroable::zeroed(),
            children_protected: bytemuck::Zeroable::zeroed(),
            effective: bytemuck::Zeroable::zeroed(),
            known_dirty: bytemuck::Zeroable::zeroed(),
            dirty_limit: bytemuck::Zeroable::zeroed(),
            dirty_limit_time: bytemuck::Zeroable::zeroed(),
            events: bytemuck::Zeroable::zeroed(),
        }
    }

    /// Returns the part of the group's memory that reclaim has to leave, in pages: `min` and `low`
    /// as the last walk found them to be in effect.
    pub(crate) fn effective(&self) -> [u64; 2] {
        [self.effective[0].get(), self.effective[1].get()]
    }
}

/// Returns the number of list heads that groups need, on so many nodes.
pub(crate) fn sentinels(groups: &[GroupConfig], nodes: u32) -> u32 {
    groups.len() as u32 * nodes * LRU_LISTS as u32
}

/// Returns the bits of a shadow that hold the zone and the group of an evicted page: 8, or more
/// where there are many groups.
fn place_bits(zones: usize, groups: usize) -> u32 {
    let places = zones * (groups + 1);
    8.max(usize::BITS - (places - 1).leading_zeros())
}

impl<W: World> Groups<W> {
    /// Makes the groups of a machine; the heads of
    /// their lists begin at sentinel `first`.
    ///
    /// # Panics
    /// If there are more than [`MAX_GROUPS`] groups, or one stands before its parent.
    pub(crate) fn new(machine: &Config, first: Pfn) -> Self {
        let config = &machine.groups[..];
        assert!(config.len() <= MAX_GROUPS, "{} groups", config.len());
        let (zones, nodes) = (machine.zones.len(), machine.nodes() as usize);
        let (cpus, bdis) = (machine.cpus, machine.max_bdis as usize);
        let n = if config.is_empty() {
            0
        } else {
            config.len() + 1
        };
        let below = |root: u32| {
            // The row of groups behind `root` whose ancestors include it.
            let mut end = root + 1;
            while let Some(group) = config.get(end as usize - 1) {
                let mut above = group.parent;
                while above > root {
                    above = config[above as usize - 1].parent;
                }
                if above != root {
                    break;
                }
                end += 1;
            }
            end
        };
        let of = |nth: usize| match nth.checked_sub(1) {
            None => Group::new(GroupConfig::default(), n as u32),
            Some(i) => {
                assert!(config[i].parent <= i as u32, "a group before its parent");
                Group::new(config[i], below(nth as u32))
            }
        };
        Self {
            all: (0..n).map(of).collect(),
            sizes: bytemuck::zeroed_slice_box(n * zones * LRU_LISTS),
            lists: (0..n * nodes)
                .map(|_| GroupLists {
                    costs: Costs::new(),
                    age: bytemuck::Zeroable::zeroed(),
                    congested: bytemuck::Zeroable::zeroed(),
                    position: bytemuck::Zeroable::zeroed(),
                    generation: bytemuck::Zeroable::zeroed(),
                })
                .collect(),
            stocks: (0..if n > 0 { cpus } else { 0 })
                .map(|_| Stock {
                    group: bytemuck::Zeroable::zeroed(),
                    pages: bytemuck::Zeroable::zeroed(),
                })
                .collect(),
            dirty: bytemuck::zeroed_slice_box(n * bdis * 2),
            bdis,
            zones,
            nodes,
            first,
            place_bits: place_bits(zones, config.len()),
        }
    }

    /// Returns true if the machine has no groups.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns a group.
    #[inline(always)]
    pub(crate) fn group(&self, group: u32) -> &Group<W> {
        &self.all[group as usize]
    }

    /// Returns the record of a group's lists on a node.
    #[inline(always)]
    pub(crate) fn lists(&self, group: u32, node: u32) -> &GroupLists<W> {
        &self.lists[group as usize * self.nodes + node as usize]
    }

    /// Returns the pages on a list of a group in one zone.
    #[inline(always)]
    pub(crate) fn size(&self, group: u32, zone: usize, lru: Lru) -> &W::U64 {
        &self.sizes[(group as usize * self.zones + zone) * LRU_LISTS + lru as usize]
    }

    /// Returns the dirty pages (`stat` 0) or pages under writeback (1) of a device's files that
    /// belong to a group.
    #[inline(always)]
    pub(crate) fn dirty_of(&self, group: u32, bdi: u32, stat: usize) -> &W::U64 {
        &self.dirty[(group as usize * self.bdis + bdi as usize) * 2 + stat]
    }

    /// Returns a group and all that it lies in, from the inside out, without the root.
    pub(crate) fn upwards(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |g: &u32| Some(self.group(*g).parent).filter(|&above| above != 0);
        std::iter::successors(Some(group).filter(|&g| g != 0), next)
    }

    /// Returns the stock of a CPU.
    #[inline(always)]
    pub(crate) fn stock(&self, cpu: usize) -> &Stock<W> {
        &self.stocks[cpu]
    }

    /// Notes how much of a group's memory, now `usage` pages, its `min` and `low` protect, and the
    /// change in its parent's sum (`propagate_protected_usage`).
    #[inline]
    pub(crate) fn note_protected(&self, group: u32, usage: u64) {
        let g = self.group(group);
        for (kind, setting) in [g.limits.min, g.limits.low].into_iter().enumerate() {
            if setting == 0 {
                continue;
            }
            let now = usage.min(setting);
            let before = g.protected[kind].get();
            if now != before {
                g.protected[kind].set(now);
                let sum = &self.group(g.parent).children_protected[kind];
                sum.set(sum.get() + now - before);
            }
        }
    }

    /// Computes how much of a group's memory is protected from the reclaimers of `target`, a group
    /// that it lies in (`page_counter_calculate_protection`); those of a parent have to be known.
    pub(crate) fn calculate_protection(&self, target: u32, group: u32) {
        let g = self.group(group);
        let usage = g.usage.get();
        if group == target || usage == 0 {
            return;
        }
        let parent = self.group(g.parent);
        for (kind, setting) in [g.limits.min, g.limits.low].into_iter().enumerate() {
            let effective = match g.parent == target {
                true => setting,
                false => effective_protection(
                    (usage, parent.usage.get()),
                    setting,
                    parent.effective[kind].get(),
                    parent.children_protected[kind].get(),
                ),
            };
            g.effective[kind].set(effective);
        }
    }
}

/// Returns which part of a group's protection is in effect, in pages (mm/page_counter.c
/// `effective_protection`): what it asks for as far as it uses it; less, in proportion, if the
/// children of its parent together ask for more than the parent has; more, by their unprotected
/// memory, if they leave some of the parent's. `usage`, `parent_usage`: pages of the group and its
/// parent; `setting`: `min` or `low`; `parent_effective`: what the parent has; `siblings`: the
/// protected pages of all its children.
pub(crate) fn effective_protection(
    (usage, parent_usage): (u64, u64),
    setting: u64,
    parent_effective: u64,
    siblings: u64,
) -> u64 {
    let protected = usage.min(setting);
    if siblings > parent_effective {
        let share = u128::from(protected) * u128::from(parent_effective) / u128::from(siblings);
        return share as u64;
    }
    if parent_effective > siblings && parent_usage > siblings && usage > protected {
        let left = u128::from(parent_effective - siblings) * u128::from(usage - protected)
            / u128::from(parent_usage - siblings);
        return protected + left as u64;
    }
    protected
}

impl<W: World> Mm<W> {
    /// Returns true if the machine has memory control groups.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Moves the calling task into a group; 0: the root. Pages that it was charged for stay where
    /// they are.
    pub fn enter_group(&self, group: u32) {
        debug_assert!(group == 0 || (group as usize) < self.groups.all.len());
        self.current().group.set(group);
    }

    /// Returns the group of the calling task; 0: the root.
    #[inline(always)]
    pub fn current_group(&self) -> u32 {
        self.current().group.get()
    }

    /// Returns the memory of a group, its swap, and the most memory that it had, in pages.
    pub fn group_pages(&self, group: u32) -> [u64; 3] {
        let g = self.groups.group(group);
        [g.usage.get(), g.swap.get(), g.peak.get()]
    }

    /// Returns true if a group is `other` or contains it.
    pub fn group_contains(&self, group: u32, other: u32) -> bool {
        (group..self.groups.group(group).end).contains(&other)
    }

    /// Returns a counter of a group and the groups inside it.
    pub fn group_event(&self, group: u32, event: GroupEvent) -> u64 {
        debug_assert!(
            group != 0 && (group as usize) < self.groups.all.len(),
            "no group {group}"
        );
        self.groups.group(group).events[event as usize].get()
    }

    /// Counts `n` events of a group, and of all that it lies in.
    #[inline]
    pub(crate) fn count_group(&self, group: u32, event: GroupEvent, n: u64) {
        if n > 0 && group != 0 {
            for g in self.groups.upwards(group) {
                self.groups.group(g).events[event as usize].fetch_add(n);
            }
        }
    }

    /// Counts `n` events of the group of a page.
    #[inline(always)]
    pub(crate) fn count_of_page(&self, pfn: Pfn, event: GroupEvent, n: u64) {
        if self.has_groups() {
            self.count_group(self.frames.page(pfn).group(), event, n);
        }
    }

    /// Counts `n` events of the calling task's group.
    #[inline(always)]
    pub(crate) fn count_of_task(&self, event: GroupEvent, n: u64) {
        if self.has_groups() {
            self.count_group(self.current_group(), event, n);
        }
    }

    /// Returns the sentinel of a group's LRU list on the node of zone `z`; of the zone or node
    /// itself for the root (0).
    #[inline(always)]
    pub(crate) fn lru_list_of(&self, z: usize, group: u32, lru: Lru) -> Pfn {
        match group {
            0 => self.lru_list(z, lru),
            _ => {
                let place = (group - 1) * self.nodes.len() as u32 + self.zones[z].node;
                self.groups.first + place * LRU_LISTS as u32 + lru as u32
            }
        }
    }

    /// Adds `n` to the size of a list of a group in zone `z`.
    #[inline(always)]
    pub(crate) fn count_group_lru(&self, z: usize, group: u32, lru: Lru, n: i32) {
        if self.has_groups() {
            let size = self.groups.size(group, z, lru);
            match n < 0 {
                true => size.fetch_sub(u64::from(n.unsigned_abs())),
                false => size.fetch_add(n as u64),
            };
        }
    }

    /// Returns the pages on a list of a group, without the groups inside it, on the node of zone
    /// `z`, in the zones up to type `classzone`.
    pub(crate) fn group_lru_size(&self, z: usize, group: u32, lru: Lru, classzone: usize) -> u64 {
        let zones = self.nodes[self.zones[z].node as usize].zones.iter();
        zones
            .map(|&z| usize::from(z))
            .filter(|&z| self.zones[z].kind.index() <= classzone)
            .map(|z| self.groups.size(group, z, lru).get())
            .sum()
    }

    /// Returns the number of groups, with the root.
    pub(crate) fn group_count(&self) -> u32 {
        self.groups.all.len().max(1) as u32
    }

    /// Checks that a list of a group has `n` pages in zone `z`.
    ///
    /// # Errors
    /// Its counter says otherwise.
    pub(crate) fn check_group_lru(
        &self,
        z: usize,
        group: u32,
        lru: Lru,
        n: u64,
    ) -> Result<(), String> {
        let counted = match self.has_groups() {
            true => self.groups.size(group, z, lru).get(),
            false => n,
        };
        match counted == n {
            true => Ok(()),
            false => Err(format!(
                "{lru:?} of group {group} in {}: {n} pages, counted {counted}",
                self.zone_name(z)
            )),
        }
    }

    /// Checks that the pages charged to each group are those that it is marked on and what the
    /// stocks hold of it. Each task may have been charged for a page that it still has to allocate.
    ///
    /// # Errors
    /// A group's counter says otherwise.
    pub(crate) fn check_charges(&self) -> Result<(), String> {
        use crate::memory::frame::flag;
        let mut pages = vec![0; self.groups.all.len()];
        if pages.is_empty() {
            return Ok(());
        }
        for pfn in 0..self.frames.len() {
            let page = self.frames.page(pfn);
            if page.flags() & flag::USED != 0 {
                let of = pages.get_mut(page.group() as usize);
                *of.ok_or_else(|| format!("frame {pfn} is in no group"))? += 1;
            }
        }
        for cpu in 0..self.config.cpus {
            let stock = self.groups.stock(cpu);
            pages[stock.group.get() as usize] += stock.pages.get();
        }
        for g in (1..pages.len()).rev() {
            let (group, has) = (self.groups.group(g as u32), pages[g]);
            let charged = group.usage.get();
            if charged < has || charged > has + u64::from(self.config.max_tasks) {
                return Err(format!(
                    "group {g} is charged for {charged} pages and has {has}"
                ));
            }
            pages[group.parent as usize] += has;
        }
        Ok(())
    }

    /// Flushes the statistics of all groups, as a look at `memory.stat` does.
    pub fn read_group_stats(&self) {
        if self.has_groups() {
            self.flush_all_lru_stats();
        }
    }

    /// Returns the levels of each group with the groups inside it, in pages, the root first:
    /// anonymous, page cache, of that dirty, under writeback, and on an active list. Looks at every
    /// frame once.
    pub fn group_levels(&self) -> Vec<[u64; 5]> {
        use crate::memory::frame::flag;
        let mut levels = vec![[0; 5]; self.groups.all.len()];
        for pfn in 0..self.frames.len() {
            let page = self.frames.page(pfn);
            let f = page.flags();
            if f & (flag::CACHED | flag::ANON) == 0 || page.group() == 0 {
                continue;
            }
            let file = f & flag::CACHED != 0;
            let of = [
                !file,
                file,
                file && f & flag::DIRTY != 0,
                file && f & flag::WRITEBACK != 0,
                file && f & flag::ACTIVE != 0,
            ];
            for (level, is) in levels[page.group() as usize].iter_mut().zip(of) {
                *level += u64::from(is);
            }
        }
        for g in (1..levels.len()).rev() {
            let own = levels[g];
            let above = &mut levels[self.groups.group(g as u32).parent as usize];
            above.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
        }
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_shared_by_use_and_left_over_by_unprotected_memory() {
        // A group that uses less than it asks for has what it uses.
        assert_eq!(effective_protection((50, 500), 100, 300, 50), 50);
        // Two children ask for 200 and 100 of a parent's 150.
        assert_eq!(effective_protection((300, 600), 200, 150, 300), 100);
        assert_eq!(effective_protection((300, 600), 100, 150, 300), 50);
        // The parent has 300, the children ask for 100 together: the other 200 go by what is not
        // protected, 200 of the 400 pages of this one and the parent's 500.
        assert_eq!(effective_protection((300, 500), 100, 300, 100), 100 + 100);
        // A parent without protection gives none.
        assert_eq!(effective_protection((300, 500), 100, 0, 100), 0);
    }

    #[test]
    fn places_of_shadows_grow_with_the_groups() {
        assert_eq!(place_bits(3, 0), 8);
        assert_eq!(place_bits(3, 84), 8);
        assert_eq!(place_bits(3, 85), 9);
        assert_eq!(place_bits(2, 1000), 11);
    }
}
