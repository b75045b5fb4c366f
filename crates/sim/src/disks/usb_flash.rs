//! A cheap USB flash stick, as surveyed by Arnd Bergmann ("Optimizing Linux with cheap flash
//! drives", LWN, February 2011; flashbench).
//!
//! The stick maps *allocation units* of some MiB. A few of them are *open*: each has a fresh erase
//! block that takes the new contents, while the old contents stay where they are until the unit is
//! closed.
//!
//! ```text
//!           0            pointer                          unit_blocks
//!   open    |■■■■■■■■■■■■■|                                |   new block, written so far
//!   old     |.............|□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□□|   still valid: copied when it closes
//! ```
//!
//! - A write at the pointer programs flash pages: the linear rate.
//! - A write ahead of the pointer first copies the gap from the old block.
//! - A write behind the pointer closes the unit (copies the rest, erases) and opens it again.
//! - A write to a unit that isn't open, while all open slots are taken, first closes the open unit
//!   that was written to longest ago.
//! - A unit that is written to its end is closed without any copy.
//!
//! With `usb_out_of_order` (the default) an open unit takes pages in any order into a log block
//! instead (a hybrid log translation layer). A unit whose pages came in order closes as above;
//! otherwise all of the unit is merged into a third block. Scattered writes therefore cost at most
//! one extra pass over a unit for each time its log fills, and not one for each write.
//!
//! Every unit is taken to hold data: sticks of the time know no TRIM, and a stick that was filled
//! once stays full. There is one command at a time and no write cache: a command ends when its
//! pages are programmed. A partly written flash page costs a whole program operation, which makes
//! single 4 KiB writes several times slower than streaming even where they are linear.
//!
//! The program time is not a parameter but follows from `usb_write_bandwidth`, so that a linear
//! stream of the largest requests comes out at exactly that rate. By default 0.88 ms for 16 KiB,
//! inside the 0.8 to 1.3 ms of MLC data sheets. A 4 KiB write at the pointer then takes 1.08 ms
//! (3.8 MB/s), one that merges a unit about 1 s (4 KB/s).

use super::{DiskKind, Fit, Kind, Knob, Model, Transfer, block_ns, whole_blocks};
use crate::disks::Dir;
use crate::params::{Params, rows};
use crate::rng::Rng;
use crate::spec::DiskSpec;

rows! {
    /// Model parameters of a USB stick.
    pub struct Figures {
        usb_write_bandwidth: "MB/s" = 17.4, 0.5 => 30.0, "linear write rate of the stick; docs/reference/workloads.md#per-zone-dirty-limits gives 17 to 19.5 MB/s", fitted ["per-zone-dirty-limits/3765M/1/xfs/dd-usb/elapsed/vanilla"];
        usb_speed_sigma: "ln" = 0.006, 0.0 => 0.5, "spread between runs of the stick's flash speed (how full and worn it is); the spread of the published cell, 3.5 of 550 s", fitted ["per-zone-dirty-limits/3765M/1/xfs/dd-usb/elapsed/vanilla"];
        usb_read_bandwidth: "MB/s" = 30.0, 1.0 => 40.0, "USB 2.0 high-speed bulk transfers carry 30 to 35 MB/s of payload";
        usb_max_request: "bytes" = 122880.0, 4096.0 => 1048576.0, "largest request of usb-storage, max_sectors = 240; Linux 3.0 drivers/usb/storage/scsiglue.c";
        usb_command: "ns" = 200000.0, 10000.0 => 5e6, "command and status phases of a bulk-only transfer: two or three 125 us microframes around the data";
        usb_random_read: "ns" = 350000.0, 0.0 => 1e7, "translation lookup and page read before an unexpected read; flashbench finds 0.5 to 0.9 ms for a small read of such a stick";
        usb_unit: "bytes" = 8388608.0, 131072.0 => 67108864.0, "allocation unit; Bergmann's flash card survey (LWN, Optimizing Linux with cheap flash drives, 2011) finds 4 MiB commonest and 8 MiB in media of 16 GB and more";
        usb_open_units: "units" = 5.0, 1.0 => 64.0, "allocation units kept open for writing; mostly 1 to 10, typically 5, in the same survey";
        usb_out_of_order: "0 or 1" = 1.0, 0.0 => 1.0, "1: an open unit takes pages in any order into a log block that is merged when closed (hybrid log translation: Kim et al. 2002; Lee et al. 2007); 0: it can only be written linearly (the cheapest sticks of Bergmann 2011)";
        usb_flash_page: "bytes" = 16384.0, 4096.0 => 262144.0, "bytes that one program operation writes: 8 KiB pages of 2011 MLC NAND on two planes";
        usb_copy_bandwidth: "MB/s" = 8.0, 0.5 => 200.0, "copying inside the stick: reading at 30 and programming at 17.4 MB/s one after the other would give 11, without an erase or a mapping update; an 8 MiB unit then merges in 1 s", fitted ["per-zone-dirty-limits/3765M/1/fuse-ntfs/dd-usb/elapsed/vanilla"];
        usb_erase: "ns" = 5e6, 0.0 => 1e8, "erasing one allocation unit: blocks of 2 to 3 ms, two rounds over the planes; MLC NAND data sheets";
        usb_request_sigma: "ln" = 0.05, 0.0 => 1.0, "spread of the flash time of one request: program retries, bad-block detours; order of magnitude from flashbench scatter";
        usb_merge_sigma: "ln" = 0.2, 0.0 => 1.0, "spread of one merge of an allocation unit: how many pages are valid and where they lie; order of magnitude from flashbench scatter";
    }
}

/// A USB stick among the kinds of disk, with the request size of its own driver. Few sticks have
/// the page that says that nothing rotates, so Linux takes them for rotating disks
/// (drivers/scsi/sd.c `sd_read_block_characteristics`); sticks are recognised by being removable.
pub(super) const KIND: Kind = Kind {
    max_request: false,
    rotates: true,
    suits: |disk| disk.one_device() && disk.removable && !disk.nvme(),
    fit: Fit {
        others: &[DiskKind::Ssd],
        knobs: &[
            Knob::OneOf("usb_out_of_order", &[0.0, 1.0]),
            Knob::Scale("usb_write_bandwidth"),
            Knob::Scale("usb_read_bandwidth"),
            Knob::Scale("usb_command"),
            Knob::Scale("usb_random_read"),
            Knob::Scale("usb_copy_bandwidth"),
        ],
        start: |m, _| {
            vec![
                ("usb_write_bandwidth", m.write),
                ("usb_read_bandwidth", m.read),
                ("usb_random_read", m.latency_ns * 0.6),
            ]
        },
        follows: None,
    },
    ..Kind::SINGLE
};

/// An allocation unit that is open for writing.
#[derive(Debug, Clone, Copy)]
struct OpenUnit {
    unit: u64,
    /// Blocks `0..pointer` lie in order in the new block.
    pointer: u32,
    /// Blocks taken into the log, in any order; equal to `pointer` while in order.
    logged: u32,
    in_order: bool,
    last_use: u64,
}

impl OpenUnit {
    /// Returns the state of an allocation unit that was just opened: nothing of its new contents is
    /// written.
    fn fresh(unit: u64) -> Self {
        Self {
            unit,
            pointer: 0,
            logged: 0,
            in_order: true,
            last_use: 0,
        }
    }
}

/// Flash work that a request causes; counts of operations and of 4 KiB blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    programs: u32,
    /// Blocks copied to fill a gap.
    gap_blocks: u32,
    /// Blocks copied to close units.
    merge_blocks: u32,
    merges: u32,
    erases: u32,
}

/// A stick with its times and its open units.
#[derive(Debug, Clone)]
pub struct UsbFlash {
    unit_blocks: u32,
    page_blocks: u32,
    max_request_blocks: u32,
    slots: usize,
    out_of_order: bool,
    command_ns: f64,
    program_ns: f64,
    copy_ns: f64,
    erase_ns: f64,
    read_ns: f64,
    random_read_ns: f64,
    request_noise: f64,
    merge_noise: f64,
    open: Vec<OpenUnit>,
    uses: u64,
    read_ahead: u64,
}

impl Model for UsbFlash {
    fn new(_: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
        Self::of(&params.disks.usb_flash, rng)
    }

    fn service(&mut self, _: u64, t: &Transfer, _: u32, rng: &mut Rng) -> u64 {
        self.take(t, rng)
    }

    fn max_request_blocks(&self) -> u32 {
        self.max_request_blocks
    }
}

impl UsbFlash {
    /// Returns a stick in the state in which this run finds it, without open units; `rng` draws how
    /// much slower its flash is than the parameters say.
    fn of(params: &Figures, rng: &mut Rng) -> Self {
        let slots = params.usb_open_units as usize;
        let mut stick = Self {
            unit_blocks: whole_blocks(params.usb_unit),
            page_blocks: whole_blocks(params.usb_flash_page.min(params.usb_unit)),
            max_request_blocks: whole_blocks(params.usb_max_request),
            slots,
            out_of_order: params.usb_out_of_order >= 0.5,
            command_ns: params.usb_command,
            program_ns: 0.0,
            copy_ns: block_ns(params.usb_copy_bandwidth),
            erase_ns: params.usb_erase,
            read_ns: block_ns(params.usb_read_bandwidth),
            random_read_ns: params.usb_random_read,
            request_noise: params.usb_request_sigma,
            merge_noise: params.usb_merge_sigma,
            open: Vec::with_capacity(slots),
            uses: 0,
            read_ahead: u64::MAX,
        };
        stick.program_ns = stick.program_ns_for(block_ns(params.usb_write_bandwidth));
        let slowness = rng.noise(params.usb_speed_sigma);
        stick.program_ns *= slowness;
        stick.copy_ns *= slowness;
        stick.erase_ns *= slowness;
        stick
    }

    /// Returns the time of one program operation in nanoseconds with which a linear stream of the
    /// largest requests takes `block_ns` per block: the time left after commands and erases,
    /// divided by the pages that are programmed. So the stick keeps its measured write rate.
    fn program_ns_for(&self, block_ns: f64) -> f64 {
        let mut probe = self.clone();
        let mut work = Work::default();
        let mut requests = 0.0;
        // After this many blocks, requests, pages and units are all aligned again.
        let period = u64::from(self.unit_blocks) * u64::from(self.max_request_blocks);
        let mut block = 0;
        while block < period {
            let blocks = self.max_request_blocks;
            probe.write(
                &Transfer {
                    dir: Dir::Write,
                    block,
                    blocks,
                },
                &mut work,
            );
            block += u64::from(blocks);
            requests += 1.0;
        }
        let flash_ns = period as f64 * block_ns
            - requests * self.command_ns
            - f64::from(work.erases) * self.erase_ns;
        (flash_ns / f64::from(work.programs)).max(0.0)
    }

    /// Returns the nanoseconds that a request takes: a read that does not continue the last one
    /// looks up the translation first; a write takes its programs, copies and erases.
    fn take(&mut self, t: &Transfer, rng: &mut Rng) -> u64 {
        let flash_ns = match t.dir {
            Dir::Read => {
                let expected = std::mem::replace(&mut self.read_ahead, t.end()) == t.block;
                let lookup = if expected { 0.0 } else { self.random_read_ns };
                (lookup + f64::from(t.blocks) * self.read_ns) * rng.noise(self.request_noise)
            }
            Dir::Write => {
                let mut work = Work::default();
                self.write(t, &mut work);
                self.time(&work, rng)
            }
        };
        (self.command_ns + flash_ns) as u64
    }

    /// Returns the nanoseconds that flash work takes: its operations times their durations, with
    /// noise.
    fn time(&self, work: &Work, rng: &mut Rng) -> f64 {
        let linear = f64::from(work.programs) * self.program_ns
            + f64::from(work.gap_blocks) * self.copy_ns
            + f64::from(work.erases) * self.erase_ns;
        let merging = f64::from(work.merge_blocks) * self.copy_ns;
        let noise = rng.noise(self.request_noise);
        // Draws nothing without merges, so that the stream of a run without merges stays the same.
        let merge_noise = if work.merges > 0 {
            rng.noise(self.merge_noise)
        } else {
            1.0
        };
        linear * noise + merging * merge_noise
    }

    /// Adds the flash work of a write to `work`: pages to program and, allocation unit by unit, the
    /// copies and erases that it causes.
    fn write(&mut self, t: &Transfer, work: &mut Work) {
        let unit_blocks = u64::from(self.unit_blocks);
        let page = u64::from(self.page_blocks);
        let mut from = t.block;
        while from < t.end() {
            let unit = from / unit_blocks;
            let to = t.end().min((unit + 1) * unit_blocks);
            work.programs += (to.div_ceil(page) - from / page) as u32;
            let within = |block: u64| (block - unit * unit_blocks) as u32;
            self.write_unit(unit, within(from), within(to), work);
            from = to;
        }
    }

    /// Adds to `work` the copies and erases that writing blocks `from..to` of one allocation unit
    /// causes, and notes in the unit's state that they are written. A write that an open unit
    /// cannot take closes it and opens it anew; a full unit is closed.
    fn write_unit(&mut self, unit: u64, from: u32, to: u32, work: &mut Work) {
        let slot = self.slot_of(unit, work);
        self.uses += 1;
        let mut open = OpenUnit {
            last_use: self.uses,
            ..self.open[slot]
        };
        if self.out_of_order {
            if open.logged + (to - from) > self.unit_blocks {
                self.close(&open, work);
                open = OpenUnit {
                    last_use: self.uses,
                    ..OpenUnit::fresh(unit)
                };
            }
            open.logged += to - from;
            open.in_order &= from == open.pointer;
        } else {
            if from < open.pointer {
                self.close(&open, work);
                open = OpenUnit {
                    last_use: self.uses,
                    ..OpenUnit::fresh(unit)
                };
            }
            work.gap_blocks += from - open.pointer;
        }
        if open.in_order {
            open.pointer = to;
        }
        self.open[slot] = open;
        if open.pointer == self.unit_blocks || open.logged == self.unit_blocks {
            self.close(&open, work);
            self.open.swap_remove(slot);
        }
    }

    /// Returns the index in `open` of an allocation unit, after opening the unit if need be. If as
    /// many units are open as the stick can keep, the one used longest ago is closed, whose copies
    /// and erases are added to `work`.
    fn slot_of(&mut self, unit: u64, work: &mut Work) -> usize {
        if let Some(slot) = self.open.iter().position(|o| o.unit == unit) {
            return slot;
        }
        if self.open.len() == self.slots {
            let oldest = (0..self.slots).min_by_key(|&i| self.open[i].last_use);
            let victim = self
                .open
                .swap_remove(oldest.expect("there is at least one slot"));
            self.close(&victim, work);
        }
        self.open.push(OpenUnit::fresh(unit));
        self.open.len() - 1
    }

    /// Adds to `work` the copies and erases of closing an open erase unit of the flash. If its
    /// pages were written in order, the rest of the old block is copied behind them and the old
    /// block is erased (a partial merge); otherwise the unit is a log block, which is merged with
    /// the old block into a third one, and both are erased (a full merge).
    fn close(&self, open: &OpenUnit, work: &mut Work) {
        let (copied, erased) = if open.in_order {
            (self.unit_blocks - open.pointer, 1)
        } else {
            // Log and old block are merged into a third block, and both are erased.
            (self.unit_blocks, 2)
        };
        work.erases += erased;
        if copied > 0 {
            work.merge_blocks += copied;
            work.merges += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stick without noise that takes linear writes only.
    fn quiet() -> Figures {
        Figures {
            usb_unit: 4.0 * 1024.0 * 1024.0,
            usb_out_of_order: 0.0,
            usb_copy_bandwidth: 20.0,
            usb_request_sigma: 0.0,
            usb_merge_sigma: 0.0,
            usb_speed_sigma: 0.0,
            ..Figures::default()
        }
    }

    fn stick(params: &Figures) -> UsbFlash {
        UsbFlash::of(params, &mut Rng::new(1, "test"))
    }

    /// Returns the seconds for writes of `blocks` blocks each at the given places.
    fn seconds(stick: &mut UsbFlash, places: impl IntoIterator<Item = u64>, blocks: u32) -> f64 {
        let mut rng = Rng::new(2, "test");
        let writes = places.into_iter().map(|block| Transfer {
            dir: Dir::Write,
            block,
            blocks,
        });
        writes.map(|t| stick.take(&t, &mut rng) as f64).sum::<f64>() / 1e9
    }

    fn mb_per_s(blocks: u64, seconds: f64) -> f64 {
        blocks as f64 * 4096.0 / 1e6 / seconds
    }

    #[test]
    fn a_linear_stream_runs_at_the_parameters_rate() {
        for rate in [5.0, 17.0, 25.0] {
            for out_of_order in [0.0, 1.0] {
                let params = Figures {
                    usb_write_bandwidth: rate,
                    usb_out_of_order: out_of_order,
                    ..quiet()
                };
                let n = 40_960;
                let t = seconds(&mut stick(&params), (0..n).map(|i| i * 30), 30);
                let measured = mb_per_s(n * 30, t);
                assert!(
                    (measured / rate - 1.0).abs() < 0.001,
                    "{measured} for {rate}"
                );
            }
        }
    }

    #[test]
    fn the_fitted_program_time_is_that_of_mlc_flash() {
        let ns = stick(&quiet()).program_ns;
        assert!((0.8e6..1.3e6).contains(&ns), "{ns}");
    }

    #[test]
    fn single_pages_linear_are_slow_and_scattered_are_hopeless() {
        let n = 2048;
        let linear = mb_per_s(n, seconds(&mut stick(&quiet()), 0..n, 1));
        assert!((2.0..6.0).contains(&linear), "{linear}");
        let mut rng = Rng::new(5, "test");
        let places: Vec<u64> = (0..n).map(|_| rng.below(4 << 20)).collect();
        let scattered = mb_per_s(n, seconds(&mut stick(&quiet()), places, 1));
        assert!((0.005..0.1).contains(&scattered), "{scattered}");
    }

    #[test]
    fn rewriting_inside_a_unit_merges_it_each_time() {
        let params = quiet();
        let (unit, copy_s) = (1024.0, block_ns(params.usb_copy_bandwidth) / 1e9);
        let mut s = stick(&params);
        seconds(&mut s, [0], 30);
        let again = seconds(&mut s, [0], 30);
        // Closing copies all but the 30 blocks written.
        let expected = (unit - 30.0) * copy_s;
        assert!((again - expected).abs() < 0.02, "{again} {expected}");
        // Writing on at the pointer is cheap again.
        assert!(seconds(&mut s, [30], 30) < 0.01);
        // A log block takes the second version as it comes.
        let mut log = stick(&Figures {
            usb_out_of_order: 1.0,
            ..params
        });
        assert!(seconds(&mut log, [0, 0], 30) < 0.02);
    }

    #[test]
    fn a_gap_is_copied_once() {
        let params = quiet();
        let copy_s = block_ns(params.usb_copy_bandwidth) / 1e9;
        let mut s = stick(&params);
        let jump = seconds(&mut s, [500], 4);
        assert!((jump - 500.0 * copy_s).abs() < 0.005, "{jump}");
        assert!(seconds(&mut s, [504], 4) < 0.002);
    }

    #[test]
    fn two_streams_need_two_open_units() {
        let alternate = |open| {
            let mut s = stick(&Figures {
                usb_open_units: open,
                ..quiet()
            });
            let places = (0..200).map(|i| (i % 2) * 1024 * 50 + (i / 2) * 30);
            mb_per_s(200 * 30, seconds(&mut s, places, 30))
        };
        let (one, five) = (alternate(1.0), alternate(5.0));
        assert!(
            five > 15.0 && one < 1.0,
            "one slot {one} MB/s, five {five} MB/s"
        );
    }

    #[test]
    fn the_slot_used_longest_ago_is_closed() {
        let mut s = stick(&Figures {
            usb_open_units: 2.0,
            ..quiet()
        });
        seconds(&mut s, [0, 1024, 30], 30);
        assert!(seconds(&mut s, [2048], 30) > 0.1, "closes a unit");
        assert!(seconds(&mut s, [60], 30) < 0.01, "but not the first");
    }

    #[test]
    fn a_log_block_written_out_of_order_costs_one_merge() {
        let mut s = stick(&Figures {
            usb_out_of_order: 1.0,
            ..quiet()
        });
        let pages = seconds(&mut s, (0..1023).rev(), 1);
        let programs = 1023.0 * (s.program_ns + s.command_ns) / 1e9;
        assert!((pages / programs - 1.0).abs() < 0.01, "{pages} {programs}");
        let last = seconds(&mut s, [1023], 1);
        assert!((0.2..0.25).contains(&last), "{last}");
    }

    #[test]
    fn runs_differ_by_the_state_of_the_stick() {
        let rate = |seed| {
            let mut s = UsbFlash::of(&Figures::default(), &mut Rng::new(seed, "test"));
            mb_per_s(30_000, seconds(&mut s, (0..1000).map(|i| i * 30), 30))
        };
        let rates: Vec<f64> = (0..40).map(rate).collect();
        let mean = rates.iter().sum::<f64>() / 40.0;
        let sd = (rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / 39.0).sqrt();
        assert!(
            (mean / Figures::default().usb_write_bandwidth - 1.0).abs() < 0.01
                && (0.003..0.01).contains(&(sd / mean))
        );
    }

    #[test]
    fn reads_are_fast_and_pay_a_little_for_surprise() {
        let mut s = stick(&quiet());
        let mut rng = Rng::new(1, "test");
        let mut read = |block| {
            s.take(
                &Transfer {
                    dir: Dir::Read,
                    block,
                    blocks: 30,
                },
                &mut rng,
            )
        };
        let (random, sequential) = (read(1000), read(1030));
        assert_eq!(random - sequential, 350_000);
        assert!(mb_per_s(30, sequential as f64 / 1e9) > 25.0);
    }
}
