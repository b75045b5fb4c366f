//! Dirty limits, and the throttling of dirtiers (docs/reference/writeback.md#limits,
//! docs/reference/writeback.md#throttling and docs/reference/allocation.md#zone-dirty-limits). The
//! throttling is that of 3.0; that of 3.2 is in `throttle`.

use crate::Mm;
use crate::ZoneType;
use crate::cache::mapping::Mapping;
use crate::memory::gfp::Gfp;
use crate::memory::task::{PF_LESS_THROTTLE, PF_REALTIME};
use crate::policy::{
    Completions, DirtyCheck, DirtyExceeded, DirtyLimits, DirtyRatios, DirtyThrottle, Dirtyable,
};
use crate::size::Size;
use crate::watch::vmstat::{Asks, ZoneStat};
use crate::world::{Class, Cost, Waited, WaitedKind, Word32, Word64, World};
use crate::writeback::bdi::BdiStat;

/// After dirtying this many pages a task looks at the limits while its device is over its own
/// limit.
const EXCEEDED: u32 = 8;

/// The two dirty limits, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Above it background writeback starts.
    pub background: u64,
    /// Near it dirtiers are throttled.
    pub dirty: u64,
}

impl Limits {
    /// Returns the limits of a task that may exceed both by a quarter, as the kernel allows to
    /// real-time tasks and to those with `PF_LESS_THROTTLE` (`task_lifted`).
    fn lifted(self) -> Self {
        Self {
            background: self.background + self.background / 4,
            dirty: self.dirty + self.dirty / 4,
        }
    }

    /// Returns the number of dirty pages below which no task is throttled.
    pub fn freerun(self) -> u64 {
        (self.dirty + self.background) / 2
    }
}

/// Returns the background and the dirty limit in pages, by the sysctls and the machine's
/// `dirtyable` pages (docs/reference/writeback.md#limits). A limit in bytes goes before one in
/// percent, and a background limit that is not below the dirty limit becomes half of it. `lifted`:
/// for a task whose limits are a quarter higher. Since 4.2 the dirty limit fits 32 bits.
#[inline]
pub fn limits(ratios: DirtyRatios, sysctl: &crate::Sysctl, dirtyable: u64, lifted: bool) -> Limits {
    let pick = |bytes: Size, ratio: u32| match ratios {
        _ if bytes.0 > 0 => bytes.0.div_ceil(4096),
        DirtyRatios::Percent => dirtyable * u64::from(ratio) / 100,
        DirtyRatios::In4096ths => (u64::from(ratio) * 4096 / 100) * dirtyable / 4096,
    };
    let mut dirty = pick(sysctl.dirty_bytes, sysctl.dirty_ratio);
    if ratios == DirtyRatios::In4096ths {
        dirty = dirty.min(u64::from(u32::MAX));
    }
    let mut background = pick(sysctl.dirty_background_bytes, sysctl.dirty_background_ratio);
    if background >= dirty {
        background = dirty / 2;
    }
    let limits = Limits { background, dirty };
    if lifted { limits.lifted() } else { limits }
}

/// Returns the dirtyable pages of a whole machine, 4.8 and later: free pages less the reserves (see
/// [`crate::memory::watermark::total_reserve`]), and the file LRU lists.
pub fn dirtyable_pages(free: u64, reserves: u64, file: u64) -> u64 {
    free.saturating_sub(reserves) + file + 1
}

/// Returns after how many dirtied pages a task looks at the limits: `total / (32 * cpus)`, in
/// 16..=1024.
pub fn ratelimit_pages(total_pages: u64, cpus: u64) -> u64 {
    (total_pages / (32 * cpus)).clamp(16, 1024)
}

impl<W: World> Mm<W> {
    /// Returns true if reserves are not dirtyable (*per-zone-dirty-limits*).
    fn excludes_reserves(&self) -> bool {
        self.policy.dirty_limits != DirtyLimits::Global
    }

    /// Returns the pages of HighMem zones that the machine's sums of dirtyable pages contain
    /// although they are not dirtyable: all, unless `vm.highmem_is_dirtyable` is set; then 0 (Linux
    /// mm/page-writeback.c, `highmem_dirtyable_memory`).
    #[cold]
    fn highmem_not_dirtyable(&self) -> u64 {
        if self.sysctl.highmem_is_dirtyable() == Some(1) {
            return 0;
        }
        let high = (0..self.zones.len()).filter(|&z| self.zones[z].kind == ZoneType::HighMem);
        // Without *per-zone-dirty-limits* the machine's sums contain the reserves, too.
        let with_reserves =
            !self.excludes_reserves() && self.policy.dirtyable == Dirtyable::Reclaimable;
        high.map(|z| match with_reserves {
            true => self.zone_free_and_reclaimable(z),
            false => self.zone_dirtyable(z),
        })
        .sum()
    }

    /// Returns the pages that may be dirtied at all, machine-wide; at least 1. Only with
    /// `vm.highmem_is_dirtyable` are pages of HighMem among them.
    pub fn dirtyable(&self) -> u64 {
        let all = self.dirtyable_anywhere();
        match self.highmem {
            false => all,
            true => (all - 1).saturating_sub(self.highmem_not_dirtyable()) + 1,
        }
    }

    /// Returns the dirtyable pages by the machine's sums, HighMem included: free pages less the
    /// reserves, and file pages (`Dirtyable::FreeAndFile`); in older kernels anonymous pages too
    /// while swap is free, less the reserves only where the policy excludes them.
    #[inline(always)]
    fn dirtyable_anywhere(&self) -> u64 {
        let global = |i| self.stat.global(i);
        if self.policy.dirtyable == Dirtyable::FreeAndFile {
            let reserves: u64 = self.zones.iter().map(|z| z.dirty_balance_reserve()).sum();
            let file = global(ZoneStat::NrInactiveFile) + global(ZoneStat::NrActiveFile);
            return dirtyable_pages(global(ZoneStat::NrFreePages), reserves, file);
        }
        let mut pages = global(ZoneStat::NrFreePages)
            + global(ZoneStat::NrInactiveFile)
            + global(ZoneStat::NrActiveFile);
        if self.free_swap() > 0 {
            pages += global(ZoneStat::NrInactiveAnon) + global(ZoneStat::NrActiveAnon);
        }
        if self.excludes_reserves() {
            let reserves: u64 = self.zones.iter().map(|z| z.dirty_balance_reserve()).sum();
            pages = pages.saturating_sub(reserves);
        }
        pages + 1
    }

    /// Returns true if the calling task may exceed the limits by a quarter.
    pub(crate) fn task_lifted(&self) -> bool {
        self.current().flags() & (PF_LESS_THROTTLE | PF_REALTIME) != 0
    }

    /// Returns the present dirty limits in pages, for the calling task. Limits that this CPU has
    /// computed before are used again until a counter that they depend on moves.
    #[inline(always)]
    pub fn dirty_limits(&self) -> Limits {
        let known = &self.writeback.limits[self.world.cpu()];
        let moved = self.stat.moved(Asks::Dirtyable);
        let limits = known.get(moved).unwrap_or_else(|| {
            let limits = self.limits_anew();
            known.put(moved, limits);
            limits
        });
        if self.task_lifted() {
            limits.lifted()
        } else {
            limits
        }
    }

    /// Computes the limits of a task that may not exceed them, for callers that have no remembered
    /// ones.
    #[inline(never)]
    pub(crate) fn limits_anew(&self) -> Limits {
        let ratios = self.policy.dirty_ratios;
        limits(ratios, &self.sysctls(), self.dirtyable(), false)
    }

    /// Checks that the limits that CPUs remember, where they still count as valid, are those that
    /// would be computed now. Returns the contradiction as text.
    pub(crate) fn check_limits(&self) -> Result<(), String> {
        let now = self.limits_anew();
        for (cpu, known) in self.writeback.limits.iter().enumerate() {
            let was = known.get(self.stat.moved(Asks::Dirtyable)).unwrap_or(now);
            if was != now {
                return Err(format!(
                    "CPU {cpu} remembers dirty limits as {was:?}, they are {now:?}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the free pages and file pages of a zone, and its anonymous pages while swap is free,
    /// as `dirtyable = "reclaimable"` counts the pages that may be dirtied.
    fn zone_free_and_reclaimable(&self, z: usize) -> u64 {
        let of = |item| self.stat.zone(z, item);
        let mut pages =
            of(ZoneStat::NrFreePages) + of(ZoneStat::NrInactiveFile) + of(ZoneStat::NrActiveFile);
        if self.free_swap() > 0 {
            pages += of(ZoneStat::NrInactiveAnon) + of(ZoneStat::NrActiveAnon);
        }
        pages
    }

    /// Returns the pages of a zone that may be dirty (*per-zone-dirty-limits*), HighMem or not.
    pub fn zone_dirtyable(&self, z: usize) -> u64 {
        debug_assert!(z < self.zones.len(), "zone {z} does not exist");
        self.dirtyable_of(std::iter::once(z))
    }

    /// Returns the pages of some zones (by index) that may be dirty: free pages less reserves, but
    /// not below 0, and file pages, as the policy counts them.
    #[inline]
    fn dirtyable_of(&self, zones: impl Iterator<Item = usize>) -> u64 {
        let of = |z, item| self.stat.zone(z, item);
        let (mut free, mut reserves, mut file) = (0, 0, 0);
        for z in zones {
            reserves += self.zones[z].dirty_balance_reserve();
            match self.policy.dirtyable {
                Dirtyable::Reclaimable => free += self.zone_free_and_reclaimable(z),
                Dirtyable::FreeAndFile => {
                    free += of(z, ZoneStat::NrFreePages);
                    file += of(z, ZoneStat::NrInactiveFile) + of(z, ZoneStat::NrActiveFile);
                }
            }
        }
        free.saturating_sub(reserves) + file
    }

    /// Returns the pages of a zone that are dirty or under writeback.
    #[inline]
    fn zone_dirty(&self, z: usize) -> u64 {
        self.stat.zone(z, ZoneStat::NrFileDirty) + self.stat.zone(z, ZoneStat::NrWriteback)
    }

    /// Returns a zone's share of the dirty limit, in pages, for the calling task: a quarter more if
    /// the task may exceed limits.
    pub fn zone_dirty_limit(&self, z: usize) -> u64 {
        let limit = self.zone_share_of_limit(z);
        if self.task_lifted() {
            limit + limit / 4
        } else {
            limit
        }
    }

    /// Returns a zone's share of the dirty limit, in pages, for a task that is not lifted.
    fn zone_share_of_limit(&self, z: usize) -> u64 {
        self.share_of_limit(self.zone_dirtyable(z))
    }

    /// Returns the share of the machine's dirty limit, in pages, that a zone or node with this many
    /// dirtyable pages has: in proportion to `vm.dirty_bytes`, or by `vm.dirty_ratio`.
    fn share_of_limit(&self, dirtyable: u64) -> u64 {
        let bytes = self.sysctl.dirty_bytes().0;
        if bytes > 0 {
            bytes.div_ceil(4096) * dirtyable / self.dirtyable()
        } else {
            dirtyable * u64::from(self.sysctl.dirty_ratio()) / 100
        }
    }

    /// Returns the pages of a zone that are dirty or under writeback, and the zone's share of the
    /// dirty limit, in pages; where nodes have the limits, both of the zone's node. The share is
    /// that of a task that may not exceed limits.
    #[inline]
    fn dirty_and_share(&self, z: usize) -> (u64, u64) {
        if self.policy.dirty_limits != DirtyLimits::PerNode {
            return (self.zone_dirty(z), self.zone_share_of_limit(z));
        }
        let node = &self.nodes[self.zones[z].node as usize];
        let zones = || node.zones.iter().map(|&z| usize::from(z));
        let dirty = zones().map(|z| self.zone_dirty(z)).sum();
        (dirty, self.share_of_limit(self.dirtyable_of(zones())))
    }

    /// Returns true if a zone's dirty pages are within its share of the dirty limit, so that the
    /// allocator may take a page there that will be dirtied; where nodes have the limits, true if
    /// its node's are. Charges the time of computing the limit.
    #[inline]
    pub(crate) fn zone_dirty_ok(&self, z: usize) -> bool {
        match self.policy.dirty_check {
            DirtyCheck::Fresh => {
                self.world.charge(Cost::DirtyLimit, 1);
                let (dirty, limit) = self.dirty_and_share(z);
                let more = if self.task_lifted() { limit / 4 } else { 0 };
                dirty <= limit + more
            }
            DirtyCheck::Cached => self.zone_dirty_ok_cached(z),
        }
    }

    /// Does what [`Self::zone_dirty_ok`] does, in an allocator's walk over zones. `last`: the node
    /// that was tested last, and the result, which serves for the next zone of that node too where
    /// nodes have the limits; updated by each test.
    #[inline]
    pub(crate) fn zone_dirty_ok_in_walk(&self, z: usize, last: &mut Option<(u32, bool)>) -> bool {
        let node = self.zones[z].node;
        if self.asks_once_a_node()
            && let Some((asked, ok)) = *last
            && asked == node
        {
            return ok;
        }
        let ok = self.zone_dirty_ok(z);
        *last = Some((node, ok));
        ok
    }

    /// Returns true if a walk tests the dirty pages of a node only once. Cached limits
    /// (`DirtyCheck::Cached`) are those of zones, so they are tested for each.
    #[inline(always)]
    pub(crate) fn asks_once_a_node(&self) -> bool {
        self.policy.dirty_limits == DirtyLimits::PerNode
            && self.policy.dirty_check == DirtyCheck::Fresh
    }

    /// Returns what [`Self::zone_dirty_ok`] would return now, and by how many pages counters may
    /// move before that result can change; `None`: it would compute a cached limit anew. `lifted`:
    /// for a task that may exceed limits by a quarter. Charges nothing and changes nothing.
    #[inline]
    pub(crate) fn zone_dirty_foreseen(&self, z: usize, lifted: bool) -> Option<(bool, u64)> {
        let (dirty, limit, by_bytes) = match self.policy.dirty_check {
            DirtyCheck::Fresh => {
                let (dirty, limit) = self.dirty_and_share(z);
                let more = if lifted { limit / 4 } else { 0 };
                (dirty, limit + more, self.sysctl.dirty_bytes().0 > 0)
            }
            DirtyCheck::Cached if lifted => return None,
            DirtyCheck::Cached => {
                let limit = u64::from(self.zones[z].dirty_limit_cached.get());
                (self.zone_dirty(z), limit, false)
            }
        };
        // Pages that become dirty, or stop being dirtyable, move the dirty pages and the limit
        // towards each other, the limit by at most 1.25 for each, rounded. A share of `dirty_bytes`
        // may move faster.
        let far = if by_bytes {
            0
        } else {
            limit.abs_diff(dirty) / 2
        };
        Some((dirty <= limit, far.saturating_sub(2)))
    }

    /// Returns true if a zone's dirty pages are within the limit that the last failing test
    /// computed (*sequential-read* 5). A failing test computes the limit anew for the next one. For
    /// a task that may exceed limits by a quarter the limit is computed at once.
    fn zone_dirty_ok_cached(&self, z: usize) -> bool {
        let dirty = self.zone_dirty(z);
        let cached = &self.zones[z].dirty_limit_cached;
        let renew = || {
            self.world.charge(Cost::DirtyLimit, 1);
            let limit = self.zone_share_of_limit(z).min(u64::from(u32::MAX));
            cached.set(limit as u32);
            self.stat.note_change();
            limit
        };
        if self.task_lifted() {
            let limit = renew();
            return dirty <= limit + limit / 4;
        }
        let ok = dirty <= u64::from(cached.get());
        if !ok {
            renew();
        }
        ok
    }

    /// Sets the lengths of the periods in which devices' and tasks' shares fade, by the dirty
    /// limit, and after how many dirtied pages a CPU looks at the limits. Called at start and when
    /// a limit changes.
    pub fn update_completion_period(&self) {
        let limit = self.dirty_limits().dirty;
        self.writeback.completions.set_limit(limit);
        self.writeback.dirties.set_limit(limit);
        let total = self.zones.iter().map(|z| u64::from(z.size)).sum();
        self.writeback
            .ratelimit
            .set(ratelimit_pages(total, self.config.cpus as u64) as u32);
        self.writeback_set_ratelimit();
    }

    /// Sets the slowly falling limit that sleeping dirtiers see to the present dirty limit, and
    /// makes a CPU look at the limits after it has dirtied its share of a 32nd of that; does
    /// nothing with other dirtiers. Called at boot before the kernel takes its memory
    /// (`page_writeback_init`), so that the falling limit begins above the later one, and when a
    /// limit is set.
    pub fn writeback_set_ratelimit(&self) {
        debug_assert!(self.config.cpus > 0, "a machine has a CPU");
        if self.policy.dirty_throttle != DirtyThrottle::Sleep {
            return;
        }
        let limit = self.dirty_limits().dirty;
        self.writeback.limit.set(limit);
        let of_a_cpu = limit / (32 * self.config.cpus as u64);
        self.writeback
            .ratelimit
            .set(of_a_cpu.clamp(16, u64::from(u32::MAX)) as u32);
    }

    /// Counts `n` pages that the calling task dirtied for its share of all dirtying. Only the
    /// per-task limits of 3.0 use the share; dirtiers that sleep have none.
    #[inline(always)]
    pub(crate) fn task_dirty_inc(&self, n: u64) {
        if self.policy.dirty_throttle == DirtyThrottle::Write {
            self.writeback.dirties.inc_by(&self.dirtier().share, n);
        }
    }

    /// Counts `n` pages of a device whose writeback ended: for its share of all completed
    /// writeback, of which its share of the dirty limit follows, and for its measured bandwidth.
    #[inline]
    pub(crate) fn bdi_writeout_add(&self, bdi: u32, n: u64) {
        let b = &self.bdis[bdi as usize];
        match self.policy.completions {
            Completions::ByEvents => self.writeback.completions.inc_by(&b.completions, n),
            Completions::ByTime => {
                let now = self.world.now();
                self.writeback.completions.inc_at(&b.completions, n, now);
            }
        }
        self.worker_measures(bdi);
        b.flusher.completed.fetch_add(n);
    }

    /// Counts a page as dirty again, for its zone and its device, that was counted as clean for a
    /// write which the filesystem then refused.
    pub(crate) fn reaccount_dirty(&self, pfn: crate::Pfn) {
        let m = &self.mappings[self.frames.mapping(pfn) as usize];
        if m.accounts_dirty() {
            let z = self.frames.zone(pfn);
            self.stat.inc(self.world.cpu(), z, ZoneStat::NrFileDirty);
            self.add_bdi_stat(m.bdi(), BdiStat::Reclaimable, 1);
            self.count_for_owner(m, BdiStat::Reclaimable, 1, 1);
        }
    }

    /// Returns a device's share of `limit`, in pages: its guaranteed part, and a share of the part
    /// that is guaranteed to no device, in proportion to the device's share of the writeback that
    /// was completed lately; at most the device's maximum (docs/reference/writeback.md#limits).
    pub fn bdi_dirty_limit(&self, bdi: u32, limit: u64) -> u64 {
        debug_assert!(bdi < self.bdi_count(), "device {bdi} does not exist");
        let b = &self.bdis[bdi as usize];
        let guaranteed = u64::from(self.writeback.min_ratios.get());
        let (n, d) = match self.policy.completions {
            Completions::ByEvents => self.writeback.completions.fraction(&b.completions),
            Completions::ByTime => {
                let now = self.world.now();
                self.writeback.completions.fraction_at(&b.completions, now)
            }
        };
        let share = limit * (100 - guaranteed.min(100)) / 100 * n / d
            + limit * u64::from(b.min_ratio.get()) / 100;
        share.min(limit * u64::from(b.max_ratio.get()) / 100)
    }

    /// Returns the limit in pages at which the calling task is stopped, below `share`, the limit of
    /// its device: by up to an eighth of that, the more of all recent dirtying the task has done,
    /// so that the tasks that dirty most are stopped first (3.0).
    fn task_dirty_limit(&self, share: u64) -> u64 {
        debug_assert!(self.policy.dirty_throttle == DirtyThrottle::Write);
        let (n, d) = self.writeback.dirties.fraction(&self.dirtier().share);
        (share - (share >> 3) * n / d).max(share / 2)
    }

    /// Counts a dirtied page, and holds the task to the limits when it has dirtied enough. Called
    /// after each dirtied page.
    #[inline]
    pub async fn balance_dirty_pages_ratelimited(&self, mapping: u32) {
        if self.note_dirtied(mapping) {
            self.balance_now(mapping).await;
        }
    }

    /// Counts a page of a file that the calling task dirtied, on this CPU and, where dirtiers
    /// sleep, for the task. Returns true if the task must look at the dirty limits now
    /// ([`Mm::balance_now`]).
    #[inline(always)]
    pub fn note_dirtied(&self, mapping: u32) -> bool {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let bdi = self.mappings[mapping as usize].bdi();
        let count = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            return self.note_dirtied_by_task(bdi, count);
        }
        self.note_dirtied_on_cpu(bdi, count, 1)
    }

    /// Does `n` calls of [`Mm::note_dirtied`] at once, at least one, and returns the result of the
    /// last; all but the last must be within [`Mm::dirtied_ahead`], which means that they would
    /// return false.
    #[inline(always)]
    pub(crate) fn note_dirtied_run(&self, m: &Mapping<W>, n: u32) -> bool {
        let count = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            self.note_dirtied_unlooked(m, n - 1);
            return self.note_dirtied_by_task(m.bdi(), count);
        }
        self.note_dirtied_on_cpu(m.bdi(), count, n)
    }

    /// Counts `n` dirtied pages of a device on this CPU, whose count is `count`; returns true if
    /// the count has reached the number after which a task looks at its limits: 8 while the device
    /// is over its own limit. For kernels in which dirtiers write.
    #[inline(always)]
    fn note_dirtied_on_cpu(&self, bdi: u32, count: &W::U32, n: u32) -> bool {
        let n = count.get() + n;
        count.set(n);
        let limit = if self.bdis[bdi as usize].dirty_exceeded.get() != 0 {
            EXCEEDED
        } else {
            self.writeback.ratelimit.get()
        };
        n >= limit
    }

    /// Returns how many pages the calling task may dirty until its own count makes it look at its
    /// limits (`nr_dirtied_pause - nr_dirtied`).
    pub fn dirtied_until_look(&self) -> u32 {
        match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.pace_unlooked(false) + 1,
            DirtyThrottle::Write => self.writeback.ratelimit.get(),
        }
    }

    /// Holds the calling task to the dirty limits of a file's device between two pieces of a write,
    /// if it, or this CPU, has dirtied enough since the last look: the task may sleep, or write
    /// pages itself.
    pub async fn balance_between(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let bdi = self.mappings[mapping as usize].bdi();
        let on_cpu = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        let due = match self.policy.dirty_throttle {
            DirtyThrottle::Sleep => self.must_look(bdi, on_cpu),
            DirtyThrottle::Write => self.note_dirtied_on_cpu(bdi, on_cpu, 0),
        };
        if due {
            self.balance_now(mapping).await;
        }
    }

    /// Returns how many of up to `most` pages the calling task can dirty, `ns` nanoseconds apart,
    /// without having to look at its limits ([`Mm::note_dirtied`] would return false for each) and
    /// before the worker measures the bandwidth. Such pages can be counted together.
    #[inline(always)]
    pub(crate) fn dirtied_ahead(&self, m: &Mapping<W>, ns: u64, most: u32) -> u32 {
        self.dirtied_unmeasured(m.bdi(), ns, most.min(self.dirtied_unlooked(m)))
    }

    /// Returns how many pages the calling task can dirty from now on without having to look at its
    /// limits ([`Mm::note_dirtied`] would return false for each).
    #[inline(always)]
    fn dirtied_unlooked(&self, m: &Mapping<W>) -> u32 {
        let exceeded = self.bdis[m.bdi() as usize].dirty_exceeded.get() != 0;
        let on_cpu = self.writeback.dirtied_on_cpu[self.world.cpu()].get();
        let most = self.writeback.ratelimit.get();
        // Pages that may still be counted before the count `n` reaches `limit`.
        let room = |limit: u32, n: u32| limit.saturating_sub(n).saturating_sub(1);
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            return room(most, on_cpu).min(self.pace_unlooked(exceeded));
        }
        room(if exceeded { EXCEEDED } else { most }, on_cpu)
    }

    /// Counts a page that is dirtied in a piece of a write, without a look at the limits: the task
    /// looks between pieces ([`Mm::balance_between`]).
    pub fn count_dirtied(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        self.worker_measures(m.bdi());
        self.note_dirtied_unlooked(m, 1);
    }

    /// Counts `n` dirtied pages, on this CPU and, where dirtiers sleep, for the device and the
    /// task, none of which makes the task look at its limits ([`Mm::dirtied_ahead`]).
    #[inline(always)]
    pub(crate) fn note_dirtied_unlooked(&self, m: &Mapping<W>, n: u32) {
        let on_cpu = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        on_cpu.set(on_cpu.get() + n);
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            self.bdis[m.bdi() as usize]
                .rate
                .dirtied
                .fetch_add(u64::from(n));
            self.dirtier().pace.dirtied.fetch_add(n);
        }
    }

    /// Holds the task to the limits of a file's device, after [`Mm::note_dirtied`] returned true:
    /// the task sleeps or, in kernels before 3.2, writes one and a half times as many pages as this
    /// CPU has dirtied since the last look.
    pub async fn balance_now(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let bdi = self.mappings[mapping as usize].bdi();
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            return self.throttle_dirtier(bdi).await;
        }
        let count = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        let dirtied = count.get().max(self.writeback.ratelimit.get());
        count.set(0);
        self.balance_dirty_pages(bdi, u64::from(dirtied + dirtied / 2))
            .await;
    }

    /// Throttles a dirtier with the loop of 3.0 (docs/reference/writeback.md#throttling): until the
    /// device is within its limit or `chunk` pages are written, the task writes pages of the device
    /// itself and sleeps 1, 2, 4 … ticks, a tenth of a second at most. Wakes the flusher if the
    /// background limit is exceeded.
    async fn balance_dirty_pages(&self, bdi: u32, chunk: u64) {
        let b = &self.bdis[bdi as usize];
        // The longest sleep (ns).
        let most = self.tick_fraction(10);
        let (mut pause, mut written) = (self.tick(), 0u64);
        // `clear`: whether the device's mark that it is over its limit is taken off at the end.
        let mut clear;
        let mut limits;
        let mut reclaimable;
        loop {
            self.world.charge(Cost::WritebackRound, 1);
            reclaimable = self.stat.global(ZoneStat::NrFileDirty);
            let writeback = self.stat.global(ZoneStat::NrWriteback);
            limits = self.dirty_limits();
            if reclaimable + writeback <= limits.freerun() {
                clear = true;
                break;
            }
            let share = self.bdi_dirty_limit(bdi, limits.dirty);
            let limit = self.task_dirty_limit(share);
            let [bdi_reclaimable, bdi_writeback] = self.bdi_dirty_against(bdi, limit);
            let exceeded =
                bdi_reclaimable + bdi_writeback > limit || reclaimable + writeback > limits.dirty;
            clear = match self.policy.dirty_exceeded {
                DirtyExceeded::OwnLimit => !exceeded,
                DirtyExceeded::LowestLimit | DirtyExceeded::EachLook => {
                    bdi_reclaimable + bdi_writeback <= share - share / 8
                        && reclaimable + writeback <= limits.dirty
                }
            };
            if !exceeded {
                break;
            }
            b.dirty_exceeded.set(1);
            if bdi_reclaimable > limit {
                written += self.writeback_inodes_by_task(bdi, chunk - written).await;
                if written >= chunk {
                    break;
                }
            }
            self.world
                .waits_on(Waited::on(WaitedKind::DirtyLimit, u64::from(bdi)));
            self.world.sleep(pause).await;
            pause = (pause * 2).min(most);
        }
        if clear {
            b.dirty_exceeded.set(0);
        }
        if reclaimable > limits.background && !self.flusher_busy(bdi) {
            self.start_background_writeback(bdi);
        }
    }

    /// Returns `[dirty pages, pages under writeback]` of a device. The numbers are exact if
    /// `limit`, with which the caller compares them, is small; otherwise read without the CPUs'
    /// differences, which is cheaper.
    pub(crate) fn bdi_dirty_against(&self, bdi: u32, limit: u64) -> [u64; 2] {
        let exact = limit < 2 * self.bdi_stat_error();
        [BdiStat::Reclaimable, BdiStat::Writeback].map(|stat| {
            if exact {
                self.bdi_stat_sum(bdi, stat)
            } else {
                self.bdi_stat(bdi, stat)
            }
        })
    }

    /// Makes a reclaimer wait, a tenth of a second at a time, while more pages are under writeback
    /// than 1.1 times the dirty limit (docs/reference/writeback.md#waiting-for-writeback). A
    /// request without `Gfp::IO` or `Gfp::FS` waits once at most.
    pub(crate) async fn throttle_vm_writeout(&self, gfp: Gfp) {
        loop {
            let dirty = self.dirty_limits().dirty;
            if self.stat.global(ZoneStat::NrWriteback) <= dirty + dirty / 10 {
                return;
            }
            self.congestion_wait(Class::Async, self.tick_fraction(10))
                .await;
            if !gfp.has(Gfp::IO) || !gfp.has(Gfp::FS) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSCTL: crate::Sysctl = crate::Sysctl {
        dirty_ratio: 40,
        ..crate::Sysctl::KERNEL
    };

    /// The figures of docs/reference/writeback.md#scales: 512 MiB, ratio 40, mostly file cache.
    #[test]
    fn limits_of_the_512m_machine() {
        let l = limits(DirtyRatios::Percent, &SYSCTL, 125_000, false);
        assert_eq!(
            (l.dirty, l.background, l.freerun()),
            (50_000, 12_500, 31_250)
        );
    }

    #[test]
    fn bytes_replace_ratios_and_background_stays_below() {
        let s = crate::Sysctl {
            dirty_bytes: Size(4097),
            dirty_background_bytes: Size(1 << 20),
            ..SYSCTL
        };
        let l = limits(DirtyRatios::Percent, &s, 1 << 20, false);
        assert_eq!((l.dirty, l.background), (2, 1));
        let lifted = limits(DirtyRatios::Percent, &SYSCTL, 1000, true);
        assert_eq!((lifted.dirty, lifted.background), (500, 125));
    }

    /// Figures of a virtual machine with Linux 6.18: nr_free_pages 2178700 and 3788621 pages that
    /// no zone manages yet, file LRU 130594, reserves 35412; /proc/vmstat reports 1212204 and
    /// 605362.
    #[test]
    fn limits_of_a_6_18_machine() {
        let dirtyable = dirtyable_pages(5_967_321, 35_412, 130_594);
        let l = limits(
            DirtyRatios::In4096ths,
            &crate::Sysctl::KERNEL,
            dirtyable,
            false,
        );
        assert_eq!((l.dirty, l.background), (1_212_204, 605_362));
        // A ratio in whole percents would give more.
        assert!(l.dirty < dirtyable / 5);
        assert_eq!(dirtyable_pages(10, 20, 30), 31);
    }

    #[test]
    fn ratelimits() {
        assert_eq!(ratelimit_pages(963_840, 4), 1024);
        assert_eq!(ratelimit_pages(125_000, 4), 976);
        assert_eq!(ratelimit_pages(1000, 64), 16);
    }
}
