//! A solid-state drive: flash dies that work in parallel behind one interface. SATA drives
//! (`ssd.rs`) and NVMe drives (`nvme.rs`) are this model with figures of their own; a die is in
//! `die.rs`.
//!
//! - **Mapping** by page, log-structured: writes fill a flash page, and each full page goes to the
//!   next die in turn. Reads find a page on the die that its address hashes to, so consecutive
//!   pages lie on consecutive dies.
//! - **Writes** end when they are in the controller's buffer; once that is full, at the rate of the
//!   dies. A cache of flash that is programmed with one bit a cell is not modelled.
//! - **Reads** go before all that a die has to program or erase. An operation under way is
//!   suspended if the drive can do that; otherwise the read waits for its end.
//! - **Garbage collection** runs beside the host's writes, a page at a time, for as long as writes
//!   come: the drive has been filled once and begins in its steady state. A stream of consecutive
//!   writes leaves blocks that are wholly stale. Of the blocks that random writes leave, the share
//!   `v` is still valid when they are collected, with `α` = flash / live data:
//!
//!   ```text
//!   v = exp(−α (1 − v))            write amplification A = 1 / (1 − v)
//!   ```
//!
//!   A block is collected after the log has gone once through all of the flash. Of each page that
//!   is written by then the share `1 − v` is the host's, and so each page of live data was written
//!   over `α (1 − v)` times, at random: the share of pages still valid is that of a Poisson
//!   distribution at zero. This is `A = α / (α + W(−α exp(−α)))` of Desnoyers ("Analytic modeling
//!   of SSD write performance", SYSTOR 2012) and of Xiang and Kurkoski (2012), which the greedy
//!   choice of blocks approaches where blocks have hundreds of pages. The approximation
//!   (1 + s)/(2s) with `s = α − 1` (Agarwal and Marrow 2010) is 11 % below that where `α` is 1.43.
//! - **Over-provisioning**: a drive has more flash than capacity, `α = (1 + spare) / fill`. Filled
//!   to 0.7 with 7 % of spare flash, `α` is 1.53, `v` 0.40 and `A` 1.66.
//!
//! Estimate for the SATA figures: 40 dies program 8 KiB in 1.3 ms, 252 MB/s; reads are bound by the
//! interface, 270 MB/s; a single random 4 KiB read takes 20 + 75 + 15 µs. For NVMe: 64 dies program
//! 16 KiB in 0.7 ms, 1.5 GB/s; random writes settle at 58 % of that, which is
//!
//! ```text
//! (tPROG + tBERS / pages) / (tPROG + (A − 1)(tR + tPROG) + A tBERS / pages)
//! ```

use super::die::{Die, Timing};
use super::{Model, Transfer, block_ns, whole_blocks};
use crate::disks::Dir;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::DiskSpec;
use std::marker::PhantomData;

/// The figures of a drive, taken from its kind's parameter rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlashFigures {
    pub dies: f64,
    pub flash_page: f64,
    pub read_ns: f64,
    pub program_ns: f64,
    pub erase_ns: f64,
    pub block_pages: f64,
    pub command_ns: f64,
    pub interface_mb_s: f64,
    pub write_buffer: f64,
    pub fill: f64,
    pub spare: f64,
    pub program_suspend_ns: f64,
    pub erase_suspend_ns: f64,
    pub progress_ns: f64,
    pub passing: f64,
    pub noise: f64,
    pub queue_depth: f64,
    pub queues: f64,
    pub max_request: f64,
}

/// A kind of flash drive: converts the kind's parameters to the figures of the model.
pub(super) trait Flash {
    fn figures(params: &Params) -> FlashFigures;
}

/// A drive of the kind whose parameters are `F`.
#[derive(Debug, Clone)]
pub(super) struct Drive<F>(FlashDrive, PhantomData<F>);

impl<F: Flash> Model for Drive<F> {
    fn new(_: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        Self(FlashDrive::new(&F::figures(params)), PhantomData)
    }

    /// Returns the nanoseconds until a transfer that is started at `now` is complete. The number of
    /// requests in service is not needed: each die keeps its own queue.
    fn service(&mut self, now: u64, t: &Transfer, _: u32, rng: &mut Rng) -> u64 {
        self.0.service(now, t, rng)
    }

    fn depth(&self) -> u32 {
        self.0.depth
    }

    fn queues(&self) -> u32 {
        self.0.queues
    }

    fn max_request_blocks(&self) -> u32 {
        self.0.max_request_blocks
    }
}

/// Returns the share of a block's pages that are still valid when the block is collected, in the
/// steady state under random writes: the root below 1 of `v = exp(-flash * (1 - v))`. `flash` is
/// the amount of flash per amount of live data, above 1.
fn valid_share(flash: f64) -> f64 {
    // Bisects for the root below 1; left of the root `exp` is above its argument.
    let (mut low, mut high) = (0.0, 1.0 - flash.ln() / flash);
    for _ in 0..60 {
        let share = f64::midpoint(low, high);
        if share < (-flash * (1.0 - share)).exp() {
            low = share;
        } else {
            high = share;
        }
    }
    f64::midpoint(low, high)
}

/// The dies of a drive behind their interface.
#[derive(Debug, Clone)]
struct FlashDrive {
    dies: Vec<Die>,
    timing: Timing,
    page_blocks: u32,
    command_ns: u64,
    interface_block_ns: f64,
    /// Pages copied per page of random writes.
    copies: f64,
    noise: f64,
    depth: u32,
    queues: u32,
    max_request_blocks: u32,
    interface_free_at: u64,
    next_die: usize,
    /// 4 KiB blocks already in the flash page that is being filled.
    filling: u32,
    write_end: u64,
}

impl FlashDrive {
    /// Returns an idle drive with these figures. Its state is that of one filled to `f.fill`: each
    /// scattered write causes as many copied pages as garbage collection then needs.
    fn new(f: &FlashFigures) -> Self {
        let buffer_pages = f.write_buffer / f.flash_page;
        let valid = if f.fill > 0.0 {
            valid_share((1.0 + f.spare) / f.fill)
        } else {
            0.0
        };
        let dies = f.dies as u32;
        let block_pages = f.block_pages as u32;
        // Staggers the dies, so that erases come in turn and not on all dies together.
        let programmed = |die: u32| u64::from(block_pages) * u64::from(die) / u64::from(dies);
        Self {
            dies: (0..dies).map(|i| Die::new(programmed(i) as u32)).collect(),
            timing: Timing {
                read: f.read_ns as u64,
                program: f.program_ns as u64,
                erase: f.erase_ns as u64,
                program_suspend: f.program_suspend_ns as u64,
                erase_suspend: f.erase_suspend_ns as u64,
                progress: f.progress_ns as u64,
                passing: f.passing as u32,
                block_pages,
                buffered: (buffer_pages / f.dies) as u32,
            },
            page_blocks: whole_blocks(f.flash_page),
            command_ns: (f.command_ns) as u64,
            interface_block_ns: block_ns(f.interface_mb_s),
            copies: valid / (1.0 - valid),
            noise: f.noise,
            depth: f.queue_depth as u32,
            queues: f.queues as u32,
            max_request_blocks: whole_blocks(f.max_request),
            interface_free_at: 0,
            next_die: 0,
            filling: 0,
            write_end: u64::MAX,
        }
    }

    /// Returns the nanoseconds until a transfer that is started at `now` is complete; the time of
    /// flash operations is multiplied by a random factor near 1.
    fn service(&mut self, now: u64, t: &Transfer, rng: &mut Rng) -> u64 {
        let noise = rng.noise(self.noise);
        let finish = match t.dir {
            Dir::Read => self.read(now, t, noise),
            Dir::Write => self.write(now, t, noise),
        };
        finish - now
    }

    /// Occupies the drive's interface for a transfer of so many blocks that could start at
    /// `ready_at`; returns the transfer's end.
    fn transfer(&mut self, ready_at: u64, blocks: u32) -> u64 {
        let start = ready_at.max(self.interface_free_at);
        self.interface_free_at = start + (f64::from(blocks) * self.interface_block_ns) as u64;
        self.interface_free_at
    }

    /// Returns the time at which a read that starts at `now` ends: when all of its flash pages are
    /// sensed, by several dies at once, and transferred. `noise`: factor of the sensing time.
    fn read(&mut self, now: u64, t: &Transfer, noise: f64) -> u64 {
        let ready = now + self.command_ns;
        let read_ns = (self.timing.read as f64 * noise) as u64;
        let page = u64::from(self.page_blocks);
        let mut sensed = ready;
        for p in t.block / page..t.end().div_ceil(page) {
            let die = (p % self.dies.len() as u64) as usize;
            sensed = sensed.max(self.dies[die].read(ready, read_ns, &self.timing));
        }
        // The interface carries sensed pages while other dies still work, and is busy for the
        // transfer itself only.
        let streamed = self.transfer(ready, t.blocks);
        let last = (f64::from(t.blocks.min(self.page_blocks)) * self.interface_block_ns) as u64;
        streamed.max(sensed + last)
    }

    /// Returns the time at which a write that starts at `now` is acknowledged: when it is
    /// transferred and the dies' buffers have room. Pages go to the dies in turn; a write that does
    /// not continue the last one causes garbage collection. `noise`: factor of the flash times.
    fn write(&mut self, now: u64, t: &Transfer, noise: f64) -> u64 {
        let scattered = std::mem::replace(&mut self.write_end, t.end()) != t.block;
        let copies = if scattered { self.copies } else { 0.0 };
        let mut finish = self.transfer(now + self.command_ns, t.blocks);
        let arrived = finish;
        self.filling += t.blocks;
        while self.filling >= self.page_blocks {
            self.filling -= self.page_blocks;
            let at = self.next_die;
            self.next_die = (at + 1) % self.dies.len();
            finish = finish.max(self.dies[at].write(arrived, copies, noise, &self.timing));
        }
        finish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `α / (α + W(−α exp(−α)))` at three points (W from a table), and at flash almost full of live
    /// data.
    #[test]
    fn write_amplification_is_that_of_the_closed_form() {
        let amplification = |flash| 1.0 / (1.0 - valid_share(flash));
        for (flash, expected) in [(1.0 / 0.7, 1.876), (1.07 / 0.7, 1.664), (2.0, 1.255)] {
            let a: f64 = amplification(flash);
            assert!((a - expected).abs() < 0.005, "{flash}: {a}");
        }
        let brim = amplification(1.03);
        assert!((15.0..20.0).contains(&brim), "{brim}");
        // Each value is the root of the equation that the module derives.
        for flash in [1.01, 1.1, 1.5, 3.0, 50.0] {
            let v = valid_share(flash);
            assert!(
                ((-flash * (1.0 - v)).exp() - v).abs() < 1e-9,
                "{flash}: {v}"
            );
        }
    }
}
