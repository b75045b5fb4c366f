//! Isolation: takes pages off their LRU lists for reclaim, and counts isolated pages.

use super::scan::ScanControl;
use crate::memory::frame::{Page, ZoneRun, flag};
use crate::memory::gfp::Gfp;
use crate::memory::group::GroupEvent;
use crate::memory::zone::Lru;
use crate::policy::{HopelessZones, SkippedPages};
use crate::reclaim::scan::SWAP_CLUSTER_MAX;
use crate::watch::vmstat::{PG_SKIPS, ZoneEvent, ZoneStat};
use crate::world::event::{Event, IsolateMode};
use crate::world::{Audience, Cost, ShortLock, Word64, World};
use crate::{Mm, Pfn, ZONE_TYPES};

/// Pages of a node's list that isolation passed over because the request cannot use their zones.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// Their number, by type of their zone.
    by_type: [u32; ZONE_TYPES],
    /// Whether no other page was left on the list.
    all_seen: bool,
}

impl<W: World> Mm<W> {
    /// Takes up to `n` pages from the tail of an LRU list of zone `z` (or its node) onto the
    /// calling task's isolated list, in their order, so that its tail is examined first; counts and
    /// reports them. `mode`: which list it is, for the trace. Returns the numbers of pages scanned
    /// and taken.
    pub(crate) fn isolate(
        &self,
        z: usize,
        lru: Lru,
        n: u32,
        mode: IsolateMode,
        sc: &ScanControl,
    ) -> (u32, u32) {
        let order = sc.order;
        debug_assert!(n as u64 <= SWAP_CLUSTER_MAX);
        let list = self.lru_list_of(z, sc.group, lru);
        let own_list = self.isolated_list(self.world.task());
        debug_assert!(self.frames.list_empty(own_list));
        let (mut scanned, mut taken, mut skipped) = (0, 0, 0);
        let mut passed = Passed::default();
        self.lru_home(z).lru_lock.with(|| {
            if self.node_lru() {
                (taken, passed) = self.isolate_of_node(list, n, own_list, sc.classzone);
                skipped = passed.by_type.iter().sum();
                let file = usize::from(lru.is_file());
                self.lru_home(z).recent_scanned[file].fetch_add(u64::from(taken));
                return;
            }
            if let Some(orders) = self.ordering(lru) {
                (scanned, taken) = self.isolate_ordered(orders, z, n, own_list);
                self.zones[z].recent_scanned[1].fetch_add(u64::from(taken));
                return;
            }
            let frames = self.frames.table();
            let (mut first, mut at) = (list, frames.before(list));
            while taken < n && at != list {
                let page = frames.page(at);
                let before = page.clear_flags(flag::LRU);
                debug_assert!(before & flag::LRU != 0);
                first = at;
                at = page.before();
                taken += 1;
            }
            if taken > 0 {
                frames.cut_tail(list, first, own_list);
            }
            scanned = taken;
            let file = usize::from(lru.is_file());
            self.zones[z].recent_scanned[file].fetch_add(u64::from(taken));
        });
        let cpu = self.world.cpu();
        let isolated = Self::isolated_item(lru.is_file());
        if self.node_lru() {
            let event = match (mode, sc.kswapd) {
                (IsolateMode::Active, _) => ZoneEvent::PgRefill,
                (IsolateMode::Inactive, true) => ZoneEvent::PgScanKswapd,
                (IsolateMode::Inactive, false) => ZoneEvent::PgScanDirect,
            };
            let count = |page_zone, n| {
                let stat = self.stat.on(cpu, page_zone);
                stat.dec_by(lru.size_item(), n);
                stat.inc_by(isolated, n);
                self.count_group_lru(page_zone, sc.group, lru, -(n as i32));
                // The machine's counters do not have the scans for a group's limit.
                if sc.target == 0 {
                    self.stat.zone_event(page_zone, event, u64::from(n));
                }
            };
            let mut run = ZoneRun::default();
            for pfn in self.frames.iter(own_list) {
                run.page(self.frames.zone(pfn), count);
            }
            run.end(count);
            scanned = taken + self.count_passed(z, &passed, event);
            if mode == IsolateMode::Inactive {
                let event = match sc.kswapd {
                    true => GroupEvent::PgScanKswapd,
                    false => GroupEvent::PgScanDirect,
                };
                self.count_group(sc.group, event, u64::from(scanned));
            }
        } else {
            self.stat.add(cpu, z, lru.size_item(), -(taken as i32));
            self.stat.add(cpu, z, isolated, taken as i32);
        }
        self.lru_home(z).pages_scanned.fetch_add(u64::from(scanned));
        // Pages that were passed over were moved on the list, too.
        self.world.charge(Cost::Lru, taken + skipped);
        self.emit(Audience::Sums, || Event::LruIsolate {
            mode,
            classzone: sc.classzone as u32,
            order,
            nr_requested: n,
            nr_scanned: scanned,
            nr_skipped: skipped,
            nr_taken: taken,
            lru: lru as u8,
        });
        (scanned, taken)
    }

    /// Takes up to `n` pages from the tail of a node's list onto the task's list `own_list`; the
    /// list lock is held. Pages of zones above `classzone`, which the request cannot use, go to the
    /// head of the list in their order, without a bound: the walk ends with `n` pages or when it
    /// has seen the whole list (mm/vmscan.c `isolate_lru_pages`, since 5.18 `isolate_lru_folios`).
    /// Returns the number of pages taken, and those passed over.
    fn isolate_of_node(&self, list: Pfn, n: u32, own_list: Pfn, classzone: usize) -> (u32, Passed) {
        let frames = self.frames.table();
        let type_of = |page: Page<'_, W>| self.zones[page.zone()].kind.index();
        let (mut taken, mut passed) = (0, Passed::default());
        // The pages behind the first one that is to be passed over, which are mostly all, leave the
        // list in one piece.
        let (mut first, mut at) = (list, frames.before(list));
        while taken < n && at != list {
            let page = frames.page(at);
            if type_of(page) > classzone {
                break;
            }
            page.clear_flags(flag::LRU);
            first = at;
            at = page.before();
            taken += 1;
        }
        if taken > 0 {
            frames.cut_tail(list, first, own_list);
        }
        // The first page passed over. Once it is at the tail again, the whole list was seen.
        let mut end = list;
        while taken < n {
            let pfn = frames.before(list);
            if pfn == end {
                break;
            }
            let page = frames.page(pfn);
            if type_of(page) <= classzone {
                frames.del(pfn);
                page.clear_flags(flag::LRU);
                frames.add(own_list, pfn);
                taken += 1;
                continue;
            }
            // Neighbours that are passed over go to the head in one piece.
            let (mut first, mut at) = (pfn, pfn);
            while at != end && at != list {
                let page = frames.page(at);
                let kind = type_of(page);
                if kind <= classzone {
                    break;
                }
                passed.by_type[kind] += 1;
                first = at;
                at = page.before();
            }
            if end == list {
                end = pfn;
            }
            frames.tail_to_head(list, first);
        }
        passed.all_seen = end != list && frames.before(list) == end;
        (taken, passed)
    }

    /// Counts pages of the node of zone `z` that isolation passed over, and returns how many of
    /// them count as scanned; these are added to `event`, the count of scanned pages, of their zone
    /// (`skipped_pages`; mm/vmscan.c `isolate_lru_pages`).
    fn count_passed(&self, z: usize, passed: &Passed, event: ZoneEvent) -> u32 {
        let mut scanned = 0;
        for &z in &self.nodes[self.zones[z].node as usize].zones {
            let kind = self.zones[usize::from(z)].kind.index();
            let skipped = passed.by_type[kind];
            if skipped == 0 {
                continue;
            }
            self.stat.event(PG_SKIPS[kind], u64::from(skipped));
            let counted = match self.policy.skipped_pages {
                SkippedPages::Quarter if !passed.all_seen => skipped / 4,
                SkippedPages::Quarter | SkippedPages::All => skipped,
            };
            self.stat
                .zone_event(usize::from(z), event, u64::from(counted));
            scanned += counted;
        }
        scanned
    }

    /// Returns which zone counter counts isolated pages: that of file or of anonymous pages.
    pub(super) fn isolated_item(file: bool) -> ZoneStat {
        if file {
            ZoneStat::NrIsolatedFile
        } else {
            ZoneStat::NrIsolatedAnon
        }
    }

    /// Takes a page that is no longer isolated off its zone's count of isolated pages, where nodes
    /// have the lists and so each page may be of another zone. `file`: a file page, not an
    /// anonymous one.
    #[inline]
    pub(super) fn count_returned(&self, pfn: Pfn, file: bool) {
        if self.node_lru() {
            let z = self.frames.zone(pfn);
            self.stat
                .dec(self.world.cpu(), z, Self::isolated_item(file));
        }
    }

    /// Adds `n` (negative: fewer) to a zone's count of isolated file or anonymous pages. Does
    /// nothing where nodes have the lists, since each page is counted by itself then
    /// (`count_returned`).
    pub(super) fn count_isolated(&self, z: usize, file: bool, n: i32) {
        if !self.node_lru() {
            let item = Self::isolated_item(file);
            self.stat.add(self.world.cpu(), z, item, n);
        }
    }

    /// Returns true if so many file or anonymous pages of zone `z` (or its node) are isolated,
    /// compared with its inactive list, that a direct reclaimer may not isolate more; kswapd always
    /// may. If they are few, wakes the tasks that wait for that.
    pub(crate) fn too_many_isolated(&self, z: usize, file: bool, sc: &ScanControl) -> bool {
        if sc.kswapd {
            return false;
        }
        let (inactive, isolated) = if file {
            (
                self.lru_size(z, Lru::InactiveFile),
                ZoneStat::NrIsolatedFile,
            )
        } else {
            (
                self.lru_size(z, Lru::InactiveAnon),
                ZoneStat::NrIsolatedAnon,
            )
        };
        // Since 3.8 reclaimers that may enter filesystems may isolate only an eighth, so that those
        // which may not find room.
        let leaves_room =
            self.policy.hopeless_zones != HopelessZones::Marked && sc.gfp.has(Gfp::IO.or(Gfp::FS));
        let too_many = self.lru_stat(z, isolated) > inactive >> if leaves_room { 3 } else { 0 };
        if !too_many {
            self.wake_for_isolated(z);
        }
        too_many
    }

    /// Takes a page off its LRU list for good, after draining per-CPU batches that may hold it.
    /// Returns false if a reclaimer has isolated the page and will put it back.
    pub(crate) fn try_delete_from_lru(&self, pfn: Pfn) -> bool {
        if !self.frames.has(pfn, flag::LRU) || self.frames.has(pfn, flag::PINNED) {
            for cpu in 0..self.config.cpus {
                self.lru_add_drain_cpu(cpu);
            }
        }
        let z = self.frames.zone(pfn);
        let listed = self.lru_home(z).lru_lock.with(|| {
            let f = self.frames.clear_flags(pfn, flag::LRU);
            (f & flag::LRU != 0).then(|| {
                let lru = Lru::of(f);
                self.frames.del(pfn);
                self.remove_ordered(z, lru, pfn);
                lru
            })
        });
        let Some(lru) = listed else {
            return false;
        };
        self.stat.add(self.world.cpu(), z, lru.size_item(), -1);
        self.count_group_lru(z, self.frames.page(pfn).group(), lru, -1);
        self.frames
            .clear_flags(pfn, flag::ACTIVE | flag::REFERENCED | flag::RECLAIM);
        self.world.charge(Cost::LruDelete, 1);
        true
    }
}
