//! A solid-state drive: flash dies that work in parallel behind one interface. SATA drives (`ssd.rs`)
//! and NVMe drives (`nvme.rs`) are this with figures of their own.
//!
//! - **Mapping** by page, log-structured: writes fill a flash page, and each full page goes to the
//!   next die in turn. Reads find a page on the die that its address hashes to, so consecutive pages
//!   lie on consecutive dies.
//! - **Writes** end when they are in the controller's buffer; once the dies are behind by as much
//!   as the buffer holds, at the rate of the dies.
//! - **Reads** wait for their die: at most for the one program operation under way, as controllers
//!   let reads pass queued programs, but for all of a garbage collection.
//! - **Garbage collection** happens on a die each time writes have filled an erase block there. A
//!   block that is picked for erasing still holds valid pages, which are copied: with random writes
//!   and a share `u` of the flash in use, write amplification is `(1 + s)/(2s)` with the spare factor
//!   `s = (1 − u)/u` (Hu et al., "Write amplification analysis in flash-based solid state drives",
//!   2009); a stream of consecutive writes leaves blocks that are wholly stale.
//!
//! Estimate for the SATA figures: 40 dies program 8 KiB in 1.3 ms, 252 MB/s; reads are bound by the
//! interface, 270 MB/s; a single random 4 KiB read takes 20 + 75 + 15 µs.

use super::{Model, Transfer, block_ns, whole_blocks};
use crate::disks::Dir;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::DiskSpec;
use std::marker::PhantomData;

/// The figures of a drive, as parameter rows give them.
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
    pub noise: f64,
    pub queue_depth: f64,
    pub queues: f64,
    pub max_request: f64,
}

/// The parameters of a kind of drive, which name its figures.
pub(super) trait Flash {
    fn figures(params: &Params) -> FlashFigures;
}

/// A drive of a kind, whose parameters are `F`.
#[derive(Debug, Clone)]
pub(super) struct Drive<F>(FlashDrive, PhantomData<F>);

impl<F: Flash> Model for Drive<F> {
    fn new(_: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        Self(FlashDrive::new(&F::figures(params)), PhantomData)
    }

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

/// One flash die.
#[derive(Debug, Clone, Copy, Default)]
struct Die {
    /// When it has done all that was given to it.
    free_at: u64,
    /// It collects garbage until then.
    collecting_until: u64,
    /// Pages programmed since the last collection.
    programmed: u32,
    /// Of those, pages of random writes.
    scattered: u32,
}

/// The dies behind an interface.
#[derive(Debug, Clone)]
struct FlashDrive {
    dies: Vec<Die>,
    page_blocks: u32,
    block_pages: u32,
    read_ns: f64,
    program_ns: f64,
    erase_ns: f64,
    command_ns: u64,
    interface_block_ns: f64,
    /// How far a die may be behind the writes that were acknowledged.
    buffer_ns: u64,
    /// Valid share of a block that random writes leave for collection.
    valid_share: f64,
    noise: f64,
    depth: u32,
    queues: u32,
    max_request_blocks: u32,
    interface_free_at: u64,
    next_die: usize,
    /// Blocks in the flash page that is being filled.
    filling: u32,
    write_end: u64,
}

impl FlashDrive {
    fn new(f: &FlashFigures) -> Self {
        let page_blocks = whole_blocks(f.flash_page);
        let buffer_pages = f.write_buffer / f.flash_page;
        let valid_share = if f.fill > 0.0 {
            let spare = (1.0 - f.fill) / f.fill;
            let amplification = ((1.0 + spare) / (2.0 * spare)).max(1.0);
            1.0 - 1.0 / amplification
        } else {
            0.0
        };
        Self {
            dies: vec![Die::default(); f.dies as usize],
            page_blocks,
            block_pages: f.block_pages as u32,
            read_ns: f.read_ns,
            program_ns: f.program_ns,
            erase_ns: f.erase_ns,
            command_ns: (f.command_ns) as u64,
            interface_block_ns: block_ns(f.interface_mb_s),
            buffer_ns: (buffer_pages / f.dies * f.program_ns) as u64,
            valid_share,
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

    /// Nanoseconds until a request started now is complete.
    fn service(&mut self, now: u64, t: &Transfer, rng: &mut Rng) -> u64 {
        let noise = rng.noise(self.noise);
        let finish = match t.dir {
            Dir::Read => self.read(now, t, noise),
            Dir::Write => self.write(now, t, noise),
        };
        finish - now
    }

    /// Occupies the interface for a transfer that could start at `ready`; returns its end.
    fn transfer(&mut self, ready: u64, blocks: u32) -> u64 {
        let start = ready.max(self.interface_free_at);
        self.interface_free_at = start + (f64::from(blocks) * self.interface_block_ns) as u64;
        self.interface_free_at
    }

    fn read(&mut self, now: u64, t: &Transfer, noise: f64) -> u64 {
        let ready = now + self.command_ns;
        let read_ns = (self.read_ns * noise) as u64;
        let page = u64::from(self.page_blocks);
        let mut sensed = ready;
        for p in t.block / page..t.end().div_ceil(page) {
            let die = (p % self.dies.len() as u64) as usize;
            let die = &mut self.dies[die];
            let busy = die
                .free_at
                .saturating_sub(ready)
                .min(self.program_ns as u64);
            let start = (ready + busy).max(die.collecting_until);
            die.free_at = die.free_at.max(ready) + read_ns;
            sensed = sensed.max(start + read_ns);
        }
        // The interface carries what is sensed while other dies still work; it is held only for
        // the transfer itself.
        let streamed = self.transfer(ready, t.blocks);
        let last = (f64::from(t.blocks.min(self.page_blocks)) * self.interface_block_ns) as u64;
        streamed.max(sensed + last)
    }

    fn write(&mut self, now: u64, t: &Transfer, noise: f64) -> u64 {
        let scattered = std::mem::replace(&mut self.write_end, t.end()) != t.block;
        let mut finish = self.transfer(now + self.command_ns, t.blocks);
        let arrived = finish;
        self.filling += t.blocks;
        while self.filling >= self.page_blocks {
            self.filling -= self.page_blocks;
            let free_at = self.program(arrived, scattered, noise);
            finish = finish.max(free_at.saturating_sub(self.buffer_ns));
        }
        finish
    }

    /// Programs a page on the next die; returns when that die will be free.
    fn program(&mut self, arrived: u64, scattered: bool, noise: f64) -> u64 {
        let at = self.next_die;
        self.next_die = (at + 1) % self.dies.len();
        let die = &mut self.dies[at];
        die.free_at = die.free_at.max(arrived) + (self.program_ns * noise) as u64;
        die.programmed += 1;
        die.scattered += u32::from(scattered);
        if die.programmed == self.block_pages {
            // To make room for these pages, blocks with `valid` pages each were freed: each gives
            // 1 − v of its pages, so v/(1 − v) pages are copied for every page written.
            let v = self.valid_share;
            let copies = f64::from(die.scattered) * v / (1.0 - v);
            let copy_ns = copies * (self.read_ns + self.program_ns);
            die.free_at += ((copy_ns + self.erase_ns) * noise) as u64;
            die.collecting_until = die.free_at;
            die.programmed = 0;
            die.scattered = 0;
        }
        die.free_at
    }
}
