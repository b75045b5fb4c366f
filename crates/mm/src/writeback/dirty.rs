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
    /// Returns the limits of a task that may exceed them by a quarter (`task_lifted`).
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

/// Returns the limits for an amount of dirtyable memory in pages
/// (docs/reference/writeback.md#limits). `lifted`: for a task whose limits are a quarter higher.
/// Since 4.2 the dirty limit fits 32 bits.
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

    /// Returns the pages of HighMem that the machine's sums contain but that are not dirtyable:
    /// all, unless `vm.highmem_is_dirtyable` is set (Linux mm/page-writeback.c,
    /// `highmem_dirtyable_memory`).
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

    /// Returns the pages that may be dirtied at all, machine-wide.
    pub fn dirtyable(&self) -> u64 {
        let all = self.dirtyable_anywhere();
        match self.highmem {
            false => all,
            true => (all - 1).saturating_sub(self.highmem_not_dirtyable()) + 1,
        }
    }

    /// Returns the dirtyable pages by the machine's sums, HighMem included.
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

    /// Returns the present limits, for the calling task.
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

    /// Computes the limits of a task that is not lifted, for callers that have none remembered.
    #[inline(never)]
    pub(crate) fn limits_anew(&self) -> Limits {
        let ratios = self.policy.dirty_ratios;
        limits(ratios, &self.sysctls(), self.dirtyable(), false)
    }

    /// Checks that remembered limits which count as valid are those that would be computed now.
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

    /// Returns the pages of a zone that are free or can become free, as `dirtyable = "reclaimable"`
    /// counts them.
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

    /// Returns the pages of some zones that may be dirty. Reserves are taken off the free pages
    /// only, down to 0.
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

    /// Returns a zone's share of the dirty limit, in pages, for the calling task.
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

    /// Returns the share of the dirty limit, in pages, for this many dirtyable pages.
    fn share_of_limit(&self, dirtyable: u64) -> u64 {
        let bytes = self.sysctl.dirty_bytes().0;
        if bytes > 0 {
            bytes.div_ceil(4096) * dirtyable / self.dirtyable()
        } else {
            dirtyable * u64::from(self.sysctl.dirty_ratio()) / 100
        }
    }

    /// Returns the pages of a zone that are dirty or under writeback, and the zone's share of the
    /// dirty limit; both for its node, where nodes have the limits. The share is that of a task
    /// that is not lifted.
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

    /// Returns true if a zone is within its share of the dirty limit; where nodes have the limits,
    /// if its node is.
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

    /// Does what [`Self::zone_dirty_ok`] does, in a walk over zones. `last`: the node that was
    /// tested last, and the result, which may serve for this zone too.
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

    /// Returns what [`Self::zone_dirty_ok`] would return, and by how many pages counters may move
    /// before that changes; `None`: it would compute a cached limit anew.
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

    /// Tests a zone against the limit that the last failing test computed (*sequential-read* 5); a
    /// failing test computes the limit anew for the next one. For a lifted task the limit is
    /// computed at once.
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

    /// Sets the periods of the floating proportions by the dirty limit; at start and when a limit
    /// changes.
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

    /// Counts `n` pages of a device whose writeback ended.
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

    /// Counts a page as dirty again that was counted as clean for a write which was refused.
    pub(crate) fn reaccount_dirty(&self, pfn: crate::Pfn) {
        let m = &self.mappings[self.frames.mapping(pfn) as usize];
        if m.accounts_dirty() {
            let z = self.frames.zone(pfn);
            self.stat.inc(self.world.cpu(), z, ZoneStat::NrFileDirty);
            self.add_bdi_stat(m.bdi(), BdiStat::Reclaimable, 1);
        }
    }

    /// Returns a device's share of a limit (docs/reference/writeback.md#limits).
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

    /// Returns a task's limit below its device's share: the tasks that dirty most are stopped
    /// first.
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

    /// Counts a dirtied page on this CPU; returns true if the task must look at the limits now.
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

    /// Does `n` calls of [`Mm::note_dirtied`], at least one; all but the last must be within
    /// [`Mm::dirtied_ahead`].
    #[inline(always)]
    pub(crate) fn note_dirtied_run(&self, m: &Mapping<W>, n: u32) -> bool {
        let count = &self.writeback.dirtied_on_cpu[self.world.cpu()];
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            self.note_dirtied_unlooked(m, n - 1);
            return self.note_dirtied_by_task(m.bdi(), count);
        }
        self.note_dirtied_on_cpu(m.bdi(), count, n)
    }

    /// Counts `n` pages of a device; returns true if a task that does not sleep must look at its
    /// limits now.
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

    /// Holds the task to the limits of a file's device between two pieces of a write, if it has
    /// dirtied enough to look at them.
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

    /// Returns how many of up to `most` calls of [`Mm::note_dirtied`], which are `ns` nanoseconds
    /// apart, return false and come before the worker measures the bandwidth.
    #[inline(always)]
    pub(crate) fn dirtied_ahead(&self, m: &Mapping<W>, ns: u64, most: u32) -> u32 {
        self.dirtied_unmeasured(m.bdi(), ns, most.min(self.dirtied_unlooked(m)))
    }

    /// Returns how many calls of [`Mm::note_dirtied`] return false from now on.
    #[inline(always)]
    fn dirtied_unlooked(&self, m: &Mapping<W>) -> u32 {
        let exceeded = self.bdis[m.bdi() as usize].dirty_exceeded.get() != 0;
        let on_cpu = self.writeback.dirtied_on_cpu[self.world.cpu()].get();
        let most = self.writeback.ratelimit.get();
        let room = |limit: u32, n: u32| limit.saturating_sub(n).saturating_sub(1);
        if self.policy.dirty_throttle == DirtyThrottle::Sleep {
            return room(most, on_cpu).min(self.pace_unlooked(exceeded));
        }
        room(if exceeded { EXCEEDED } else { most }, on_cpu)
    }

    /// Counts a page that is dirtied in a piece of a write ([`Mm::balance_between`]).
    pub fn count_dirtied(&self, mapping: u32) {
        debug_assert!(
            mapping < self.mapping_count(),
            "file {mapping} does not exist"
        );
        let m = &self.mappings[mapping as usize];
        self.worker_measures(m.bdi());
        self.note_dirtied_unlooked(m, 1);
    }

    /// Counts `n` dirtied pages as calls of [`Mm::note_dirtied`] do that return false
    /// ([`Mm::dirtied_ahead`]).
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

    /// Holds the task to the limits, after [`Mm::note_dirtied`] returned true.
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

    /// Throttles a dirtier with the loop of 3.0 (docs/reference/writeback.md#throttling): the task
    /// writes a chunk itself, or sleeps 1, 2, 4 … ticks.
    async fn balance_dirty_pages(&self, bdi: u32, chunk: u64) {
        let b = &self.bdis[bdi as usize];
        let most = self.tick_fraction(10);
        let (mut pause, mut written) = (self.tick(), 0u64);
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

    /// Returns a device's dirty pages and its pages under writeback, exact if the limit that they
    /// are compared with is small.
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

    /// Makes a reclaimer wait while far too many pages are under writeback
    /// (docs/reference/writeback.md#waiting-for-writeback).
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
