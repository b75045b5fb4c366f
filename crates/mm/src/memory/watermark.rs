//! Watermarks, lowmem reserves, counter thresholds: the formulas of
//! docs/reference/memory-model.md#watermarks.
//!
//! These are functions of sizes alone, so that they can be tested against real machines' numbers;
//! the engine stores their results in its zones at start and whenever a setting changes.

use crate::Mm;
use crate::memory::buddy;
use crate::memory::zone::{Mark, Zone};
use crate::policy::{FreeSnapshot, Mobility, Policy, WatermarkFormula, Watermarks};
use crate::watch::vmstat::ZoneStat;
use crate::world::{ShortLock, Word32, World};
use crate::{ZoneInfo, ZoneType};

/// Returns the position of the highest set bit, counted from 1; 0 for 0 (`fls`).
pub fn fls(x: u64) -> u32 {
    64 - x.leading_zeros()
}

/// Returns the default `min_free_kbytes`: √(16·lowmem kB), clamped to 128..=`max` (65536 up to
/// 4.x, 262144 in 6.1).
pub fn min_free_kbytes(lowmem_kbytes: u64, max: u64) -> u64 {
    (lowmem_kbytes * 16).isqrt().clamp(128, max)
}

/// Returns the value in kB that khugepaged raises `min_free_kbytes`, now `current` kB, to if
/// transparent huge pages are on: so much for each zone with memory that kinds of pages can stay
/// apart, but at most a twentieth of lowmem.
pub fn khugepaged_min_free_kbytes(populated_zones: u64, lowmem_pages: u64, current: u64) -> u64 {
    let recommended = 512 * populated_zones * 2 + 512 * populated_zones * 9;
    current.max(recommended.min(lowmem_pages / 20) * 4)
}

/// Returns a zone's share, by its `size` in pages, of `kbytes` kB of free memory, in pages.
fn share(kbytes: u64, size: u64, lowmem_pages: u64) -> u64 {
    (kbytes / 4) * size / lowmem_pages.max(1)
}

/// Returns the min, low and high watermarks of a zone of `size` pages, in pages, 2.6.37 to 4.5: its
/// share of `min_free_kbytes` (kB), and a quarter and a half more.
pub fn watermarks(min_free_kbytes: u64, size: u64, lowmem_pages: u64) -> [u64; 3] {
    let t = share(min_free_kbytes, size, lowmem_pages);
    [t, t + t / 4, t + t / 2]
}

/// Returns the min, low and high watermarks of a zone of `size` pages, in pages, 4.6 and later:
/// steps are at least `scale_factor` (`watermark_scale_factor`) ten-thousandths of the zone.
pub fn watermarks_scaled(
    min_free_kbytes: u64,
    size: u64,
    lowmem_pages: u64,
    scale_factor: u64,
) -> [u64; 3] {
    let t = share(min_free_kbytes, size, lowmem_pages);
    let step = (t / 4).max(size * scale_factor / 10_000);
    [t, t + step, t + 2 * step]
}

/// The parameters of the watermark formula, by kernel and sysctls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkFormula {
    /// `watermark_scale_factor` in ten-thousandths of a zone; `None`: the form before 4.6.
    pub scale_factor: Option<u64>,
    /// 6.6 and later: Movable zones get a small minimum of their own and no share of
    /// `min_free_kbytes`, like HighMem (liuq, "mm/page_alloc: fix min_free_kbytes calculation
    /// regarding ZONE_MOVABLE", 2023).
    pub movable_apart: bool,
    /// *tunable-watermarks* (`wmark_low_kbytes`): the sum of the zones' low watermarks in kB, which
    /// zones share by size; `None`: by `scale_factor`.
    pub low_kbytes: Option<u64>,
    /// *tunable-watermarks* (`wmark_high_kbytes`): the sum of the zones' high watermarks in kB;
    /// `None`: by `scale_factor`.
    pub high_kbytes: Option<u64>,
}

impl MarkFormula {
    /// Returns the formula that a machine's vm sysctls select.
    pub fn of(sysctl: &crate::Sysctl) -> Self {
        Self {
            scale_factor: sysctl.watermark_scale_factor.map(u64::from),
            movable_apart: sysctl.watermark_scale_factor.is_some(),
            low_kbytes: sysctl.wmark_low_kbytes,
            high_kbytes: sysctl.wmark_high_kbytes,
        }
    }

    /// Returns the min, low and high watermarks of all zones in pages, in the zones' order, for a
    /// machine with `min_free_kbytes` kB. HighMem has a small minimum of its own in every kernel,
    /// and no share of `min_free_kbytes`.
    pub fn marks(self, min_free_kbytes: u64, zones: &[ZoneInfo]) -> Vec<[u64; 3]> {
        let has_own_min = |z: &ZoneInfo| match z.kind {
            ZoneType::HighMem => true,
            ZoneType::Movable => self.movable_apart,
            ZoneType::Dma | ZoneType::Dma32 | ZoneType::Normal => false,
        };
        let shared = zones.iter().filter(|z| !has_own_min(z));
        let lowmem: u64 = shared.map(|z| z.size).sum();
        zones
            .iter()
            .map(|z| {
                let [min, low, high] = match self.scale_factor {
                    None => watermarks(min_free_kbytes, z.size, lowmem),
                    Some(factor) => watermarks_scaled(min_free_kbytes, z.size, lowmem, factor),
                };
                let share = |kbytes| share(kbytes, z.size, lowmem);
                // Callers that give sums ensure their order; rounding to pages may still break that
                // of a zone's parts.
                let low = self.low_kbytes.map_or(low, share).max(min);
                let high = self.high_kbytes.map_or(high, share).max(low);
                let marks = [min, low, high];
                if has_own_min(z) {
                    // The steps remain those of the zone's whole share.
                    let min = (z.size / 1024).clamp(32, 128);
                    marks.map(|mark| mark - marks[0] + min)
                } else {
                    marks
                }
            })
            .collect()
    }
}

impl crate::Sysctl {
    /// The default of `watermark_scale_factor` in kernels that have it.
    pub const SCALE_FACTOR: u32 = 10;

    /// The default of `watermark_boost_factor` in kernels that have it, in ten-thousandths of the
    /// high watermark.
    pub const BOOST_FACTOR: u32 = 15_000;

    /// Returns these settings as the kernel of a policy completes them: a kernel with
    /// `watermark_scale_factor` or `watermark_boost_factor` has a default for it.
    pub fn under(mut self, policy: &Policy) -> Self {
        if policy.watermark_formula == WatermarkFormula::ScaleFactor {
            self.watermark_scale_factor
                .get_or_insert(Self::SCALE_FACTOR);
        }
        if matches!(policy.mobility, Mobility::Boosted | Mobility::Claimed) {
            self.watermark_boost_factor
                .get_or_insert(Self::BOOST_FACTOR);
        }
        self
    }

    /// Returns the sum of the min watermarks in kB that these settings give on a machine with
    /// `lowmem_kbytes` kB in zones up to Normal.
    pub fn min_kbytes(&self, lowmem_kbytes: u64) -> u64 {
        self.wmark_min_kbytes
            .or(self.min_free_kbytes)
            .unwrap_or_else(|| min_free_kbytes(lowmem_kbytes, 65_536))
    }

    /// Returns the sums of the min, low and high watermarks in kB, on a machine with
    /// `lowmem_kbytes` kB in zones up to Normal, before zones round their parts to whole pages, as
    /// `wmark_min_kbytes`, `wmark_low_kbytes` and `wmark_high_kbytes` read.
    pub fn wmark_kbytes(&self, lowmem_kbytes: u64) -> [u64; 3] {
        let min = self.min_kbytes(lowmem_kbytes);
        let factor = u64::from(self.watermark_scale_factor.unwrap_or(0));
        let step = (min / 4).max(lowmem_kbytes / 10_000 * factor);
        [
            min,
            self.wmark_low_kbytes.unwrap_or(min + step),
            self.wmark_high_kbytes.unwrap_or(min + 2 * step),
        ]
    }
}

/// The default of `lowmem_reserve_ratio`, by lower zone.
pub const LOWMEM_RESERVE_RATIO: [u64; 3] = [256, 256, 32];

/// Returns the extra free pages that zone `z` keeps from a request whose classzone is `j`, both
/// indexes into one node's zone types: the pages of the zones above, up to `j`, divided by a ratio.
/// `sizes` by type, `ratios` by lower zone (0: no reserve).
pub fn lowmem_reserve(sizes: &[u64; 4], ratios: &[u64; 3], z: usize, j: usize) -> u64 {
    if j <= z {
        return 0;
    }
    let above: u64 = sizes[z + 1..=j].iter().sum();
    above.checked_div(ratios[z]).unwrap_or(0)
}

/// Returns the total of zone `z`'s reserves in pages: its largest lowmem reserve and its watermark
/// `high`, at most the zone. `sizes` by zone type, `ratios` by lower zone. The sum over all zones
/// is the kernel's `totalreserve_pages`.
pub fn total_reserve(sizes: &[u64; 4], ratios: &[u64; 3], z: usize, high: u64) -> u64 {
    let largest = (0..4).map(|j| lowmem_reserve(sizes, ratios, z, j)).max();
    (largest.unwrap_or(0) + high).min(sizes[z])
}

/// Returns the batch of the per-CPU lists of a zone of `size` pages, in pages
/// (docs/reference/memory-model.md#free-lists): a 4096th of the zone, one and a half times, rounded
/// to one less than a power of two. `cap_pages` is 128 up to 4.x and 256 in 6.1.
pub fn pcp_batch(size: u64, cap_pages: u64) -> u32 {
    let b = ((size / 1024).min(cap_pages) / 4).max(1);
    let b = b + b / 2;
    let b = (1 << (fls(b) - 1)) - 1;
    u32::max(b, 1)
}

/// Returns the threshold, in pages, of a zone counter's per-CPU difference while kswapd sleeps: the
/// difference is folded into the zone's counter when it exceeds this. `size`: pages of the zone.
pub fn normal_threshold(cpus: u64, size: u64) -> u32 {
    let mem = size >> (27 - 12);
    (2 * fls(cpus) * (1 + fls(mem))).min(125)
}

/// Returns the threshold, in pages, of a zone counter's per-CPU difference while kswapd is awake:
/// so small that all CPUs' differences together fit between the zone's watermarks `min` and `low`.
pub fn pressure_threshold(cpus: u64, low: u64, min: u64) -> u32 {
    ((low - min) / cpus).clamp(1, 125) as u32
}

/// Returns the number of free pages below which a watermark check must not trust the cheap counter,
/// because the CPUs' differences could hide that the zone is below min; 0: a check always may trust
/// the counter. `marks`: min, low and high watermark in pages.
pub fn percpu_drift_mark(cpus: u64, normal_threshold: u32, marks: [u64; 3]) -> u64 {
    let drift = cpus * u64::from(normal_threshold);
    if drift > marks[1] - marks[0] {
        marks[2] + drift
    } else {
        0
    }
}

/// The slip in 3.0's watermark test (`watermark_slip`): it subtracts two pages more from the free
/// count than other kernels do (docs/reference/memory-model.md#watermark-test).
const ORDER_SLIP: i64 = 1;

/// Flag of the test: half of the mark is enough.
pub const ALLOC_HIGH: u32 = 1;
/// Flag of the test: a quarter less than the mark is enough.
pub const ALLOC_HARDER: u32 = 2;
/// Flag of a walk: watermarks are not tested.
pub const ALLOC_NO_WATERMARKS: u32 = 4;
/// Flag of a walk: zones over their share of dirty pages are skipped (*per-zone-dirty-limits*).
pub const ALLOC_DIRTY_LIMIT: u32 = 8;
/// Flag of a walk: zones whose fair batch is used up are skipped.
pub const ALLOC_FAIR: u32 = 16;

impl<W: World> Mm<W> {
    /// Computes, at boot, every zone's watermarks from `min_free_kbytes` (kB), and what depends on
    /// them: reserves, counter thresholds, fair batches and dirty reserves.
    pub fn setup_per_zone_wmarks(&self, min_free_kbytes: u64) {
        debug_assert!(
            u32::try_from(min_free_kbytes).is_ok(),
            "{min_free_kbytes} kB are more than all memory"
        );
        let all = self.marks_asked_for(min_free_kbytes);
        self.setup_auto(&all, &self.marks_by_sysctls(min_free_kbytes));
        for (z, marks) in all.iter().enumerate() {
            self.set_marks(z, *marks);
            let zone = &self.zones[z];
            let cpus = self.config.cpus as u64;
            let normal = normal_threshold(cpus, u64::from(zone.size));
            zone.normal_threshold.set(normal);
        }
        self.setup_per_zone_lowmem_reserve();
        for z in 0..self.zones.len() {
            self.follow_marks(z);
        }
        self.stat_thresholds_normal();
        self.start_batches();
    }

    /// Recomputes watermarks from `min_free_kbytes` (kB), and what depends on them, after a sysctl
    /// was written. As in Linux, boosts end and fair batches are reset, while counter thresholds
    /// stay as kswapd has set them.
    pub(crate) fn write_wmarks(&self, min_free_kbytes: u64) {
        let all = self.marks_asked_for(min_free_kbytes);
        self.setup_auto(&all, &self.marks_by_sysctls(min_free_kbytes));
        self.setup_per_zone_lowmem_reserve();
        for (z, marks) in all.iter().enumerate() {
            let boost = self.watermark_boost(z);
            if boost > 0 {
                self.unboost(z, boost);
            }
            if self.policy.watermarks == Watermarks::Auto {
                self.apply_auto(z);
            } else {
                self.change_marks(z, *marks);
            }
        }
        self.start_batches();
    }

    /// Returns the min, low and high watermarks of all zones in pages as the sysctls give them.
    fn marks_by_sysctls(&self, min_free_kbytes: u64) -> Vec<[u64; 3]> {
        MarkFormula::of(&self.sysctls()).marks(min_free_kbytes, &self.config.zones)
    }

    /// Returns the min, low and high watermarks of all zones in pages as the sysctls and,
    /// overriding them unless the policy goes by sysctls alone, a measured profile give them.
    fn marks_asked_for(&self, min_free_kbytes: u64) -> Vec<[u64; 3]> {
        let mut all = self.marks_by_sysctls(min_free_kbytes);
        if let Some(profile) = &self.policy.profile
            && self.policy.watermarks != Watermarks::Sysctl
        {
            profile.lay_over(&mut all, &self.config.zones);
        }
        all
    }

    /// Computes, for every zone and classzone, the lowmem reserve: pages that the zone keeps from
    /// requests that could use higher zones.
    fn setup_per_zone_lowmem_reserve(&self) {
        let ratios = self.sysctl.lowmem_reserve_ratio().map(u64::from);
        for node in 0..self.nodes.len() as u32 {
            let mut sizes = [0u64; 4];
            for z in self.zones.iter().filter(|z| z.node == node) {
                sizes[z.kind.index()] = u64::from(z.size);
            }
            for z in self.zones.iter().filter(|z| z.node == node) {
                let kind = z.kind.index();
                for (j, word) in z.lowmem_reserve.iter().enumerate() {
                    let pages = lowmem_reserve(&sizes, &ratios, kind, j);
                    word.set(pages.min(u64::from(u32::MAX)) as u32);
                }
            }
        }
        self.stat.note_change();
    }

    /// Fills the fair batches of all zones, if the policy has them.
    fn start_batches(&self) {
        if self.policy.fair_zones != crate::policy::FairZones::Off {
            (0..self.zones.len()).for_each(|z| self.start_batch(z));
        }
    }

    /// Stores a zone's min, low and high watermark, in pages, with its present boost added.
    fn set_marks(&self, z: usize, marks: [u64; 3]) {
        debug_assert!(marks.is_sorted(), "{marks:?}");
        let words = &self.zones[z].watermark;
        let put = |boost: u32| {
            for (word, mark) in words.iter().zip(marks) {
                word.set(mark as u32 + boost);
            }
        };
        match self.boost.get(z) {
            None => put(0),
            Some(boost) => self.zones[z].lock.with(|| put(boost.get())),
        }
        self.stat.note_change();
    }

    /// Sets the min, low and high watermark of a running zone, in pages, and what depends on them.
    pub(crate) fn change_marks(&self, z: usize, marks: [u64; 3]) {
        self.set_marks(z, marks);
        self.follow_marks(z);
    }

    /// Recomputes what depends on a zone's watermarks: sizes of per-CPU lists, counter thresholds
    /// and the dirty reserve.
    fn follow_marks(&self, z: usize) {
        self.follow_low_mark(z);
        let cpus = self.config.cpus as u64;
        let zone = &self.zones[z];
        let marks = [Mark::Min, Mark::Low, Mark::High].map(|m| zone.mark(m));
        zone.pressure_threshold
            .set(pressure_threshold(cpus, marks[1], marks[0]));
        let drift = percpu_drift_mark(cpus, zone.normal_threshold.get(), marks);
        zone.percpu_drift_mark.set(drift as u32);
        let mut sizes = [0u64; 4];
        for other in self.zones.iter().filter(|o| o.node == zone.node) {
            sizes[other.kind.index()] = u64::from(other.size);
        }
        let ratios = self.sysctl.lowmem_reserve_ratio().map(u64::from);
        let reserve = total_reserve(&sizes, &ratios, zone.kind.index(), marks[2]);
        zone.dirty_balance_reserve.set(reserve as u32);
        self.stat.note_change();
    }

    /// Sets the counter thresholds of all zones to those that hold while kswapd sleeps.
    fn stat_thresholds_normal(&self) {
        for (i, z) in self.zones.iter().enumerate() {
            self.stat.set_threshold(i, z.normal_threshold.get());
        }
    }

    /// Returns true if a request of 2^`order` pages would leave a zone that has `free` free pages
    /// above the watermark `mark` (pages) and the reserve that it keeps from `classzone`, with
    /// enough of the free pages in blocks of that order. `flags`: `ALLOC_HIGH` and `ALLOC_HARDER`
    /// lower the mark (docs/reference/memory-model.md#watermark-test, 3.0 form).
    #[inline]
    pub(crate) fn watermark_ok_on(
        &self,
        zone: &Zone<W>,
        free: u64,
        order: u32,
        mark: u64,
        classzone: usize,
        flags: u32,
    ) -> bool {
        let mut free = free as i64;
        let mut min = mark as i64;
        free -= if self.policy.watermark_slip {
            (1i64 << order) + ORDER_SLIP
        } else {
            (1i64 << order) - 1
        };
        if flags & ALLOC_HIGH != 0 {
            min -= min / 2;
        }
        if flags & ALLOC_HARDER != 0 {
            min -= min / 4;
        }
        if free <= min + zone.reserve(classzone) as i64 {
            return false;
        }
        // Blocks of lower orders are of no use to the request; half of the mark must be in higher
        // ones.
        for o in 0..order as usize {
            debug_assert!(o < buddy::ORDERS);
            free -= i64::from(zone.nr_free[o].get()) << o;
            min >>= 1;
            if free <= min {
                return false;
            }
        }
        true
    }

    /// Does the allocator's watermark test ([`Self::watermark_ok_on`]) of zone `z`; from 2.6.38 on
    /// by the cheap count of free pages, which leaves out the CPUs' differences.
    #[inline]
    pub(crate) fn watermark_ok(
        &self,
        z: usize,
        order: u32,
        mark: u64,
        classzone: usize,
        flags: u32,
    ) -> bool {
        let mut free = self.stat.zone(z, ZoneStat::NrFreePages);
        let zone = &self.zones[z];
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            free = self.snapshot_while_awake(z, free);
        }
        self.watermark_ok_on(zone, free, order, mark, classzone, flags)
    }

    /// Returns true if the cheap count of a zone's free pages is so far above a watermark that a
    /// single page's test passes with any flags, so that the full test can be left out.
    #[inline(always)]
    pub(crate) fn plainly_above(&self, z: usize, mark: Mark, classzone: usize) -> bool {
        let zone = &self.zones[z];
        let free = self.stat.zone(z, ZoneStat::NrFreePages);
        free > zone.mark(mark) + zone.reserve(classzone) + 2
    }

    /// Does kswapd's watermark test ([`Self::watermark_ok_on`]) of zone `z`, which takes the exact
    /// count of free pages if the cheap one is below the drift mark.
    pub(crate) fn watermark_ok_safe(
        &self,
        z: usize,
        order: u32,
        mark: u64,
        classzone: usize,
    ) -> bool {
        let zone = &self.zones[z];
        let mut free = self.stat.zone(z, ZoneStat::NrFreePages);
        if self.policy.free_snapshot == FreeSnapshot::WhileAwake {
            free = self.snapshot_while_awake(z, free);
        } else if free < zone.percpu_drift_mark() {
            free = self.stat.snapshot(z, ZoneStat::NrFreePages);
        }
        self.watermark_ok_on(zone, free, order, mark, classzone, 0)
    }

    /// Does the watermark test ([`Self::watermark_ok_on`]) of zone `z` by the exact count of free
    /// pages, with the CPUs' differences.
    pub(crate) fn watermark_ok_exact(
        &self,
        z: usize,
        order: u32,
        mark: u64,
        classzone: usize,
    ) -> bool {
        let free = self.stat.snapshot(z, ZoneStat::NrFreePages);
        self.watermark_ok_on(&self.zones[z], free, order, mark, classzone, 0)
    }

    /// Returns the count of free pages that a test uses in 2.6.37 (`zone_nr_free_pages`): the exact
    /// one if the cheap count `free` is below the drift mark while kswapd is awake, else `free`.
    fn snapshot_while_awake(&self, z: usize, free: u64) -> u64 {
        let zone = &self.zones[z];
        if free < zone.percpu_drift_mark() && !self.kswapd_sleeps(zone.node) {
            self.stat.snapshot(z, ZoneStat::NrFreePages)
        } else {
            free
        }
    }
}

/// Returns the sum of the sizes of zones at or below Normal, in kB (lowmem).
pub fn lowmem_kbytes(zones: &[ZoneInfo]) -> u64 {
    zones
        .iter()
        .filter(|z| z.kind <= ZoneType::Normal)
        .map(|z| z.size * 4)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_free_of_real_machines() {
        for (mb, kb) in [
            (512, 2896),
            (1024, 4096),
            (2048, 5792),
            (4096, 8192),
            (8192, 11585),
        ] {
            assert_eq!(min_free_kbytes(mb * 1024, 65_536), kb, "{mb} MB");
        }
        assert_eq!(min_free_kbytes(1, 65_536), 128);
        assert_eq!(min_free_kbytes(1 << 40, 65_536), 65_536);
    }

    /// Checks docs/reference/memory-model.md#watermarks: the machine of sequential-read.
    #[test]
    fn watermarks_of_the_sequential_read_machine() {
        let sizes = [3976u64, 755_409, 1_281_601];
        let low: u64 = sizes.iter().sum();
        assert_eq!(min_free_kbytes(low * 4, 65_536), 11_429);
        let marks: Vec<_> = sizes.iter().map(|&s| watermarks(11_429, s, low)).collect();
        assert_eq!(marks, [[5, 6, 7], [1057, 1321, 1585], [1794, 2242, 2691]]);
        assert_eq!(khugepaged_min_free_kbytes(3, low, 11_429), 67_584);
        assert_eq!(watermarks(67_584, sizes[1], low), [6253, 7816, 9379]);
        assert_eq!(watermarks(67_584, sizes[2], low), [10_609, 13_261, 15_913]);
        let by_type = [sizes[0], sizes[1], sizes[2], 0];
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 1, 2), 5006);
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 0, 1), 2950);
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 0, 2), 7957);
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 2, 1), 0);
    }

    /// Checks docs/reference/memory-model.md#watermarks and
    /// docs/reference/memory-model.md#lowmem-reserves: the machine of per-zone-dirty-limits.
    #[test]
    fn watermarks_of_the_usb_stick_machine() {
        let sizes = [15 * 256u64, 3246 * 256, 504 * 256];
        let low: u64 = sizes.iter().sum();
        assert_eq!(min_free_kbytes(low * 4, 65_536), 7854);
        assert_eq!(watermarks(7854, sizes[1], low), [1692, 2115, 2538]);
        assert_eq!(watermarks(7854, sizes[2], low), [262, 327, 393]);
        let by_type = [sizes[0], sizes[1], sizes[2], 0];
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 1, 2), 504);
        assert_eq!(lowmem_reserve(&by_type, &LOWMEM_RESERVE_RATIO, 0, 2), 3750);
    }

    /// Checks docs/reference/memory-model.md#tunable-watermarks: the settings of tunable-watermarks
    /// on its 2 GB machine; zones share the sums by size.
    #[test]
    fn sums_of_watermarks_are_shared_by_size() {
        let zones =
            [(ZoneType::Dma, 3976), (ZoneType::Dma32, 512_936)].map(|(kind, size)| ZoneInfo {
                node: 0,
                kind,
                size,
            });
        let mut sysctl = crate::Sysctl {
            wmark_min_kbytes: Some(5752),
            ..crate::Sysctl::KERNEL
        };
        assert_eq!(sysctl.wmark_kbytes(2_067_648), [5752, 7190, 8628]);
        let defaults = MarkFormula::of(&sysctl).marks(5752, &zones);
        assert_eq!(defaults, [[11, 13, 16], [1426, 1782, 2139]]);
        sysctl.wmark_low_kbytes = Some(16_384);
        sysctl.wmark_high_kbytes = Some(20_480);
        assert_eq!(sysctl.wmark_kbytes(2_067_648), [5752, 16_384, 20_480]);
        let marks = MarkFormula::of(&sysctl).marks(5752, &zones);
        assert_eq!(marks, [[11, 31, 39], [1426, 4064, 5080]]);
        // With only the low sum given, the zone keeps the order of its marks.
        sysctl.wmark_high_kbytes = None;
        assert_eq!(
            MarkFormula::of(&sysctl).marks(5752, &zones)[1],
            [1426, 4064, 4064]
        );
    }

    #[test]
    fn scale_factor_hides_behind_a_quarter_of_min_on_small_zones() {
        assert_eq!(
            watermarks_scaled(8192, 1 << 20, 1 << 20, 10),
            [2048, 3096, 4144]
        );
        assert_eq!(
            watermarks_scaled(8192, 1 << 17, 1 << 20, 10),
            [256, 387, 518]
        );
        assert_eq!(
            watermarks_scaled(65_536, 1 << 18, 1 << 20, 10),
            [4096, 5120, 6144]
        );
    }

    fn zones(of: &[(u32, ZoneType, u64)]) -> Vec<ZoneInfo> {
        of.iter()
            .map(|&(node, kind, size)| ZoneInfo { node, kind, size })
            .collect()
    }

    /// Checks the numbers of a virtual machine of Linux 6.18 with huge pages on: /proc/zoneinfo,
    /// sizes are managed pages.
    #[test]
    fn watermarks_and_reserves_of_a_6_18_machine() {
        let sizes = [3840u64, 772_917, 1_605_632, 0];
        let all = zones(&[
            (0, ZoneType::Dma, sizes[0]),
            (0, ZoneType::Dma32, sizes[1]),
            (0, ZoneType::Normal, sizes[2]),
            (0, ZoneType::Movable, 0),
        ]);
        let low: u64 = sizes.iter().sum();
        let formula = min_free_kbytes(low * 4, 262_144);
        assert_eq!(formula, 12_347);
        assert_eq!(khugepaged_min_free_kbytes(3, low, formula), 67_584);
        let modern = MarkFormula {
            scale_factor: Some(10),
            movable_apart: true,
            low_kbytes: None,
            high_kbytes: None,
        };
        let marks = modern.marks(67_584, &all);
        assert_eq!(marks[0], [27, 33, 39]);
        assert_eq!(marks[1], [5481, 6851, 8221]);
        assert_eq!(marks[2], [11_387, 14_233, 17_079]);
        assert_eq!(marks[3], [32, 32, 32]);
        let reserve = |z, j| lowmem_reserve(&sizes, &LOWMEM_RESERVE_RATIO, z, j);
        assert_eq!(
            [reserve(0, 1), reserve(0, 2), reserve(0, 3)],
            [3019, 9291, 9291]
        );
        assert_eq!(
            [reserve(1, 1), reserve(1, 2), reserve(1, 3)],
            [0, 6272, 6272]
        );
        let kept: u64 = (0..4)
            .map(|z| total_reserve(&sizes, &LOWMEM_RESERVE_RATIO, z, marks[z][2]))
            .sum();
        assert_eq!(kept, 3840 + (6272 + 8221) + 17_079);
    }

    /// Checks a published machine of two nodes before 4.6: four populated zones raise
    /// `min_free_kbytes` to 90 112 kB. One mark is off by a page because of memory that was freed
    /// after boot.
    #[test]
    fn watermarks_of_a_published_numa_machine() {
        let all = zones(&[
            (0, ZoneType::Dma, 3976),
            (0, ZoneType::Dma32, 354_201),
            (0, ZoneType::Normal, 15_991_024),
            (1, ZoneType::Normal, 16_514_229),
        ]);
        let low: u64 = all.iter().map(|z| z.size).sum();
        let raised = khugepaged_min_free_kbytes(4, low, min_free_kbytes(low * 4, 65_536));
        assert_eq!(raised, 90_112);
        let old = MarkFormula {
            scale_factor: None,
            movable_apart: false,
            low_kbytes: None,
            high_kbytes: None,
        };
        let marks = old.marks(raised, &all);
        assert_eq!(marks[0][..2], [2, 2]);
        assert_eq!(marks[1], [242, 302, 363]);
        assert_eq!(marks[2][0].abs_diff(10_962), 1);
        assert_eq!(marks[3], [11_320, 14_150, 16_980]);
    }

    /// Checks the numbers of the change that set Movable zones apart: 12 GiB of Movable memory
    /// beside a small Normal zone took most of `min_free_kbytes`, and 128 pages, the cap, after the
    /// change.
    #[test]
    fn movable_zones_take_no_share_of_the_minimum() {
        let all = zones(&[
            (0, ZoneType::Normal, 500_000),
            (0, ZoneType::Movable, 3 << 20),
        ]);
        let formula = |movable_apart| MarkFormula {
            scale_factor: Some(10),
            movable_apart,
            low_kbytes: None,
            high_kbytes: None,
        };
        let (shared, apart) = (
            formula(false).marks(8192, &all),
            formula(true).marks(8192, &all),
        );
        assert_eq!((shared[0][0], shared[1][0]), (280, 1767));
        assert_eq!((apart[0][0], apart[1][0]), (2048, 128));
        assert_eq!(apart[1][1] - apart[1][0], 12_884 / 4);
    }

    #[test]
    fn a_ratio_of_zero_keeps_nothing() {
        let sizes = [4000, 800_000, 1 << 20, 0];
        assert_eq!(lowmem_reserve(&sizes, &[256, 0, 32], 1, 2), 0);
        assert_eq!(lowmem_reserve(&sizes, &[1, 0, 32], 0, 1), 800_000);
        assert_eq!(total_reserve(&sizes, &[1, 0, 32], 0, 10), 4000);
    }

    #[test]
    fn pcp_batches() {
        assert_eq!(pcp_batch(129_024, 128), 31);
        assert_eq!(pcp_batch(3840, 128), 1);
        assert_eq!(pcp_batch(16_384, 128), 3);
        assert_eq!(pcp_batch(10_000_000, 256), 63);
    }

    #[test]
    fn thresholds() {
        assert_eq!(normal_threshold(4, 129_024), 2 * 3 * 3);
        assert_eq!(normal_threshold(4, 830_976), 2 * 3 * (1 + 5));
        assert_eq!(pressure_threshold(4, 327, 262), 16);
        assert_eq!(percpu_drift_mark(4, 18, [262, 327, 393]), 393 + 72);
        assert_eq!(percpu_drift_mark(4, 36, [1692, 2115, 2538]), 0);
    }
}
