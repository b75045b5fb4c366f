//! Backing devices: their counts of dirty pages and pages under writeback, with per-CPU batches,
//! and the state of their flushers.

use super::pace::Rate;
use super::queues::State;
use crate::Mm;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Word32, Word64, World};
use crate::writeback::proportion::Local;

/// The counters of a backing device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BdiStat {
    /// Dirty pages of its files.
    Reclaimable,
    /// Pages of its files under writeback.
    Writeback,
}

/// One backing device.
pub struct Bdi<W: World> {
    /// Counters without the per-CPU differences, by [`BdiStat`].
    global: [W::U64; 2],
    /// Differences of each CPU that are not folded yet.
    diff: Box<[[W::U32; 2]]>,
    /// The device's share of all completed writeback.
    pub(crate) completions: Local<W>,
    /// The most that the device may have of the dirty limit, in percent.
    pub(crate) max_ratio: W::U32,
    /// The part of the dirty limit that the device is guaranteed, in percent.
    pub(crate) min_ratio: W::U32,
    /// Set when a dirtier found the device over its limit.
    pub(crate) dirty_exceeded: W::U32,
    pub(crate) flusher: State<W>,
    /// Rate of its dirtiers ([`crate::writeback::throttle`]).
    pub(crate) rate: Rate<W>,
}

impl<W: World> Bdi<W> {
    /// Creates the state of a device without dirty pages, which may have all of the dirty limit.
    /// `reclaim_groups`: zones or nodes whose reclaim may leave requests at its flusher.
    pub(crate) fn new(cpus: usize, reclaim_groups: usize) -> Self {
        let bdi = Self {
            global: bytemuck::Zeroable::zeroed(),
            diff: bytemuck::zeroed_slice_box(cpus),
            completions: Local::new(),
            max_ratio: bytemuck::Zeroable::zeroed(),
            min_ratio: bytemuck::Zeroable::zeroed(),
            dirty_exceeded: bytemuck::Zeroable::zeroed(),
            flusher: State::new(reclaim_groups),
            rate: Rate::new(),
        };
        bdi.max_ratio.set(100);
        bdi
    }
}

/// Returns the size of a per-CPU difference of a device's counter at which it is added to the
/// global count (`BDI_STAT_BATCH`).
pub(crate) fn stat_batch(cpus: usize) -> i32 {
    8 * (1 + cpus.ilog2() as i32)
}

impl<W: World> Mm<W> {
    /// Creates a backing device and returns its number; `None` when [`crate::Config::max_bdis`]
    /// exist. `min_ratio` and `max_ratio`: the parts of the dirty limit that it is guaranteed, and
    /// that it may have at most, in percent.
    pub fn new_bdi(&self, min_ratio: u32, max_ratio: u32) -> Option<u32> {
        debug_assert!(
            min_ratio <= max_ratio && max_ratio <= 100,
            "{min_ratio} to {max_ratio} percent"
        );
        let id = self.bdis_used.fetch_add(1);
        if id >= self.config.max_bdis {
            self.bdis_used.fetch_sub(1);
            return None;
        }
        self.set_min_ratio(id, min_ratio);
        self.bdis[id as usize].max_ratio.set(max_ratio);
        Some(id)
    }

    /// Guarantees a device `percent` of the dirty limit, in place of its earlier guarantee, and
    /// keeps the sum of all devices' guarantees.
    pub(crate) fn set_min_ratio(&self, bdi: u32, percent: u32) {
        let (least, all) = (
            &self.bdis[bdi as usize].min_ratio,
            &self.writeback.min_ratios,
        );
        all.fetch_add(percent);
        all.fetch_sub(least.get());
        least.set(percent);
    }

    /// Returns the measured, smoothed write speed of a device, in pages a second; 100 MiB/s before
    /// the first measurement.
    pub fn write_bandwidth(&self, bdi: u32) -> u64 {
        debug_assert!(bdi < self.bdi_count(), "device {bdi} does not exist");
        self.worker_measures(bdi);
        self.bdis[bdi as usize].flusher.average_bandwidth.get()
    }

    /// Returns the number of backing devices created so far.
    pub fn bdi_count(&self) -> u32 {
        self.bdis_used.get()
    }

    /// Adds `n` to a device's counter: to this CPU's difference, which is moved to the global count
    /// when it reaches the batch size.
    #[inline(always)]
    pub(crate) fn add_bdi_stat(&self, bdi: u32, stat: BdiStat, n: i32) {
        let b = &self.bdis[bdi as usize];
        let diff = &b.diff[self.world.cpu()][stat as usize];
        let sum = diff.get() as i32 + n;
        if sum.abs() >= self.bdi_stat_batch {
            b.global[stat as usize].fetch_add(i64::from(sum) as u64);
            diff.set(0);
        } else {
            diff.set(sum as u32);
        }
    }

    /// Does `n` calls of [`Mm::add_bdi_stat`] with `step`, 1 or -1, at once: computes how often the
    /// CPU's difference would have been moved to the global count.
    pub(crate) fn step_bdi_stat(&self, bdi: u32, stat: BdiStat, step: i32, n: u32) {
        let b = &self.bdis[bdi as usize];
        let diff = &b.diff[self.world.cpu()][stat as usize];
        let batch = self.bdi_stat_batch;
        // Seen in the direction of the steps: from x up to the batch, then from 0 again.
        let start = diff.get() as i32 * step;
        let end = start + n as i32;
        if end < batch {
            diff.set((end * step) as u32);
            return;
        }
        let folds = end.max(0) / batch;
        let left = end - folds * batch;
        b.global[stat as usize].fetch_add(i64::from(folds * batch * step) as u64);
        diff.set((left * step) as u32);
    }

    /// Does `n` times: [`Mm::add_bdi_stat`] with -1, then with 1. The counter keeps its value, but
    /// the CPU's difference may be moved to the global count as single calls would.
    pub(crate) fn bdi_stat_and_back(&self, bdi: u32, stat: BdiStat, n: u32) {
        let diff = &self.bdis[bdi as usize].diff[self.world.cpu()][stat as usize];
        for _ in 0..n {
            // If neither step folds the difference, nothing changes.
            if (diff.get() as i32 - 1).abs() < self.bdi_stat_batch
                && (diff.get() as i32).abs() < self.bdi_stat_batch
            {
                return;
            }
            self.add_bdi_stat(bdi, stat, -1);
            self.add_bdi_stat(bdi, stat, 1);
        }
    }

    /// Reads a counter without the per-CPU differences; a negative value reads as 0.
    #[inline(always)]
    pub fn bdi_stat(&self, bdi: u32, stat: BdiStat) -> u64 {
        debug_assert!(bdi < self.bdi_count(), "device {bdi} does not exist");
        (self.bdis[bdi as usize].global[stat as usize].get() as i64).max(0) as u64
    }

    /// Reads a counter exactly: the global count with the differences of all CPUs. A negative sum
    /// reads as 0.
    pub fn bdi_stat_sum(&self, bdi: u32, stat: BdiStat) -> u64 {
        debug_assert!(bdi < self.bdi_count(), "device {bdi} does not exist");
        let b = &self.bdis[bdi as usize];
        let drift: i64 = b
            .diff
            .iter()
            .map(|d| i64::from(d[stat as usize].get() as i32))
            .sum();
        (b.global[stat as usize].get() as i64 + drift).max(0) as u64
    }

    /// Checks that the dirty pages and pages under writeback of all devices are those of all zones.
    /// `counted_under_writeback`: the file pages found under writeback, if they were counted one by
    /// one; the devices must agree. Returns the contradiction as text.
    pub(crate) fn check_devices(&self, counted_under_writeback: Option<u64>) -> Result<(), String> {
        let sum_of_devices = |stat| -> u64 {
            let bdis = 0..self.bdi_count();
            bdis.map(|bdi| self.bdi_stat_sum(bdi, stat)).sum()
        };
        let items = [ZoneStat::NrFileDirty, ZoneStat::NrWriteback];
        let [dirty, written] = items.map(|item| self.stat.exact_global(item));
        let [reclaimable, writeback] =
            [BdiStat::Reclaimable, BdiStat::Writeback].map(|stat| sum_of_devices(stat) as i64);
        if dirty != reclaimable {
            return Err(format!(
                "{dirty} dirty pages in zones, {reclaimable} of devices"
            ));
        }
        // A page that is being swapped out is under writeback but belongs to no device's file.
        let swapped = written - writeback;
        if swapped < 0
            || swapped > 0 && self.config.swap_slots == 0
            || counted_under_writeback.is_some_and(|n| n as i64 != writeback)
        {
            return Err(format!(
                "{written} pages under writeback in zones, {writeback} of devices"
            ));
        }
        Ok(())
    }

    /// Returns how far [`Mm::bdi_stat`] can be off.
    pub(crate) fn bdi_stat_error(&self) -> u64 {
        self.config.cpus as u64 * self.bdi_stat_batch as u64
    }
}
