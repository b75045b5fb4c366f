//! Scans of LRU lists, one call at a time.

use super::bare::{Bare, recount, settled};
use super::prelude::*;
use super::programs::{Lcg, file, write};
use super::world::{Engine, block_on};
use crate::reclaim::scan::ScanControl;

/// docs/reference/reclaim.md#zone-scan: a direct reclaimer scans its whole share of the lists at
/// the first priority; at lower ones it stops once it has enough.
#[test]
fn a_scan_stops_below_the_first_priority() {
    let mm = Bare::new(Policy::linux_3_0(), 320_000).build();
    let f = file(&mm, MappingKind::File, 0, 300_000);
    for index in 0..300_000 {
        let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
        assert!(mm.add_to_page_cache_lru(pfn, f, index));
    }
    settled(&mm);
    let share = |priority: u8| {
        let mut sc = ScanControl::new(32, 0, Gfp::USER, 3, false);
        sc.priority = priority;
        let size = mm.zone_stat(0, ZoneStat::NrInactiveFile);
        block_on(&mm, mm.shrink_zone(0, &mut sc));
        mm.refresh_cpu_vm_stats(0);
        (sc.nr_reclaimed, size >> priority)
    };
    let (reclaimed, share_of_it) = share(12);
    assert!(
        share_of_it > 64 && reclaimed == share_of_it,
        "{reclaimed} of {share_of_it}"
    );
    assert_eq!(share(11).0, 32);
}

/// docs/reference/reclaim.md#page-decisions: a request that may not enter filesystems writes no
/// file page, and one that may not start I/O swaps nothing either.
#[test]
fn what_a_request_may_write() {
    for (gfp, writes_files, swaps) in [
        (Gfp::KERNEL, true, true),
        (Gfp::WAIT.or(Gfp::IO), false, true),
        (Gfp::WAIT, false, false),
    ] {
        let mut bare = Bare::new(Policy::linux_3_0(), 1024);
        bare.swap = 400;
        bare.sysctl.dirty_ratio = 100;
        bare.sysctl.dirty_background_ratio = 90;
        let mm = bare.build();
        let f = file(&mm, MappingKind::File, 0, 300);
        let region = mm
            .new_region(Backing::Anon, 300, Advice::Normal)
            .expect("room");
        block_on(&mm, async {
            for index in 0..300 {
                write(&mm, f, index).await;
                mm.touch(region, index, true).await;
            }
            settled(&mm);
            mm.try_to_free_pages(0, gfp.or(Gfp::zone(3)), 0).await;
            mm.try_to_free_pages(0, gfp.or(Gfp::zone(3)), 0).await;
            mm.world.sleep(SECOND).await;
        });
        let swapped = mm.vm_event(VmEvent::PswpOut);
        let written = mm.global_stat(ZoneStat::NrVmscanWrite) - swapped;
        assert_eq!((written > 0, swapped > 0), (writes_files, swaps), "{gfp:?}");
        recount(&mm);
    }
}

/// Fewer than 32 freed pages are returned as they are; none at all, while some zone is not
/// hopeless, as 1.
#[test]
fn little_is_progress() {
    for (clean, expected) in [(10, 10), (0, 1)] {
        let mm = Bare::new(Policy::linux_3_0(), 1024).build();
        let f = file(&mm, MappingKind::File, 0, 100);
        for index in 0..clean {
            let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
            assert!(mm.add_to_page_cache_lru(pfn, f, index));
        }
        settled(&mm);
        assert_eq!(
            block_on(&mm, mm.try_to_free_pages(0, Gfp::USER, 0)),
            expected
        );
        assert_eq!(mm.vm_event(VmEvent::AllocStall), 1);
    }
}

/// The state that a scan works on: sizes of lists in scanning order, and the other inputs.
#[derive(Debug)]
struct Lists {
    sizes: [u64; 4],
    /// Pages scanned and rotated lately, of anonymous and of file memory.
    recent: [[u64; 2]; 2],
    /// Pages saved from shares that were too small, by list.
    saved: [u64; 4],
    /// Pages scanned since one was freed.
    scanned: u64,
    free: u64,
    high: u64,
    swappiness: u64,
    /// Whether there is swap at all, and whether it may be used.
    swap: [bool; 2],
    priority: u8,
    kswapd: bool,
}

impl Lists {
    /// Returns the pages of a type: 0 anonymous, 1 file.
    fn of_type(&self, t: usize) -> u64 {
        self.sizes[2 * t] + self.sizes[2 * t + 1]
    }

    /// Returns the weight of a type; its statistics count half if they exceed a quarter of its
    /// pages.
    fn weight(&self, t: usize, weight: u64) -> u64 {
        let old = self.recent[t][0] > self.of_type(t) / 4;
        let [scanned, rotated] = self.recent[t].map(|n| if old { n / 2 } else { n });
        weight * (scanned + 1) / (rotated + 1)
    }

    /// Returns true if file and free pages together are not above the high watermark.
    fn few_files(&self) -> bool {
        self.of_type(1) + self.free <= self.high
    }

    /// Returns how many of `n` pages of a type 3.16 scans.
    fn file_first(&self, n: u64, t: usize) -> u64 {
        let f = [
            self.weight(0, self.swappiness),
            self.weight(1, 200 - self.swappiness),
        ];
        match t {
            0 if !self.swap[1] => 0,
            _ if !self.swap[1] => n,
            _ if self.priority == 0 && self.swappiness > 0 => n,
            _ if self.few_files() => n * (1 - t as u64),
            _ if self.sizes[3] <= self.sizes[2] => n * t as u64,
            _ => n * f[t] / (f[0] + f[1] + 1),
        }
    }

    /// Returns how many of `n` pages of a type 3.0 scans.
    fn by_fractions(&self, n: u64, t: usize) -> u64 {
        let f = [
            self.weight(0, self.swappiness + 1),
            self.weight(1, 201 - self.swappiness),
        ];
        match t {
            0 if !self.swap[1] => 0,
            _ if !self.swap[1] => n,
            _ if self.few_files() => n * (1 - t as u64),
            _ => n * f[t] / (f[0] + f[1] + 1),
        }
    }

    /// Returns the scan counts that the kernel's formulas give. `file_first`: those of 3.16;
    /// `save`: small shares are saved.
    fn expected(&self, file_first: bool, save: bool) -> [u64; 4] {
        let shares: [u64; 4] = std::array::from_fn(|i| {
            let n = self.sizes[i] >> self.priority;
            if file_first {
                self.file_first(n, i / 2)
            } else {
                self.by_fractions(n, i / 2)
            }
        });
        if file_first {
            let anon = if self.swap[0] { self.of_type(0) } else { 0 };
            let hopeless = self.scanned >= 6 * (self.of_type(1) + anon);
            if !self.kswapd || !hopeless || shares != [0; 4] {
                return shares;
            }
            return std::array::from_fn(|i| {
                let n = self.sizes[i] >> self.priority;
                let n = if n == 0 { self.sizes[i].min(32) } else { n };
                self.file_first(n, i / 2)
            });
        }
        if self.priority == 0 && self.swap[1] {
            return self.sizes;
        }
        let small = (self.of_type(0) + self.of_type(1)) >> self.priority < 32;
        std::array::from_fn(|i| {
            let all = self.saved[i] + shares[i];
            match shares[i] {
                _ if save => all * u64::from(all >= 32),
                0 if small && self.kswapd && (i >= 2 || self.swap[1]) => 32,
                share => share,
            }
        })
    }

    /// Puts a machine into this state.
    fn impose(&self, mm: &Engine) {
        let items = [
            ZoneStat::NrInactiveAnon,
            ZoneStat::NrActiveAnon,
            ZoneStat::NrInactiveFile,
            ZoneStat::NrActiveFile,
        ];
        let zone = &mm.zones[0];
        for (i, item) in items.into_iter().enumerate() {
            mm.stat.add_exact(0, item, self.sizes[i] as i64);
            zone.saved_scan[i].set(self.saved[i] as u32);
        }
        for t in 0..2 {
            zone.recent_scanned[t].set(self.recent[t][0]);
            zone.recent_rotated[t].set(self.recent[t][1]);
        }
        zone.pages_scanned.set(self.scanned);
    }
}

/// docs/reference/reclaim.md#scan-counts: how many pages of each list a scan takes, in both forms.
#[test]
fn scan_counts() {
    let mut chance = Lcg(31);
    for step in 0..4000u32 {
        let (file_first, save) = (step % 2 == 0, step % 4 == 1);
        let policy = Policy {
            scan_balance: if file_first {
                ScanBalance::FileFirst
            } else {
                ScanBalance::Fractions
            },
            small_scan: if save {
                SmallScan::Save
            } else {
                SmallScan::Force
            },
            ..Policy::linux_3_0()
        };
        let mut bare = Bare::new(policy, 1024);
        bare.swap = if chance.below(4) == 0 { 0 } else { 10 };
        bare.sysctl.swappiness = chance.below(101);
        bare.sysctl.min_free_kbytes = Some(1000);
        let mm = bare.build();
        let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, chance.below(2) == 0);
        sc.priority = chance.below(13) as u8;
        sc.may_swap = chance.below(8) > 0;
        let swap = mm.config.swap_slots > 0;
        let lists = Lists {
            sizes: std::array::from_fn(|_| u64::from(chance.size(15))),
            recent: std::array::from_fn(|_| {
                let scanned = chance.size(14);
                [u64::from(scanned), u64::from(chance.below(scanned + 1))]
            }),
            saved: std::array::from_fn(|_| u64::from(chance.below(32))),
            scanned: u64::from(chance.size(18)),
            free: mm.stat.zone(0, ZoneStat::NrFreePages),
            high: mm.zones[0].mark(Mark::High),
            swappiness: mm.config.sysctl.swappiness.into(),
            swap: [swap, swap && sc.may_swap],
            priority: sc.priority,
            kswapd: sc.kswapd,
        };
        lists.impose(&mm);
        let got = mm.get_scan_count(0, &mut sc);
        assert_eq!(
            got,
            lists.expected(file_first, save),
            "step {step}: {lists:?}"
        );
    }
}
