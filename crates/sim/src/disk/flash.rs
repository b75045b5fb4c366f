//! Solid-state drives: channels that work in parallel behind a bus.
//!
//! A request is spread over channels page by page; each page occupies its channel for a read or a
//! program time, and the bus for its transfer. Parameters: data sheets of SATA drives of 2011 and
//! of PCIe 3 NVMe drives.

use crate::params::Params;
use crate::rng::Rng;

/// A drive.
#[derive(Debug)]
pub struct Flash {
    channels: Vec<u64>,
    depth: u32,
    read: f64,
    program: f64,
    bus_block: f64,
    bus_free: u64,
    command: f64,
    sigma: f64,
    /// Largest request in bytes.
    pub max_request: u64,
}

impl Flash {
    /// A SATA drive.
    pub fn ssd(p: &Params) -> Self {
        Self {
            channels: vec![0; p.ssd_channels as usize],
            depth: 31,
            read: p.ssd_read,
            program: p.ssd_program,
            bus_block: 4096.0 * 1e3 / p.ssd_bandwidth,
            bus_free: 0,
            command: p.ssd_command,
            sigma: p.flash_sigma,
            max_request: p.max_request as u64,
        }
    }

    /// An NVMe drive.
    pub fn nvme(p: &Params) -> Self {
        Self {
            channels: vec![0; p.nvme_channels as usize],
            depth: 128,
            read: p.nvme_read,
            program: p.nvme_program,
            bus_block: 4096.0 * 1e3 / p.nvme_bandwidth,
            bus_free: 0,
            command: p.nvme_command,
            sigma: p.flash_sigma,
            max_request: p.max_request as u64,
        }
    }

    /// Requests in flight.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Nanoseconds until the last page is done.
    pub fn service(
        &mut self,
        now: u64,
        write: bool,
        block: u64,
        blocks: u32,
        _depth: u32,
        rng: &mut Rng,
    ) -> u64 {
        let cell = if write { self.program } else { self.read } * rng.lognormal(self.sigma);
        let start = now + self.command as u64;
        let mut done = start;
        let n = self.channels.len() as u64;
        for b in block..block + u64::from(blocks) {
            let c = &mut self.channels[(b % n) as usize];
            *c = (*c).max(start) + cell as u64;
            done = done.max(*c);
        }
        let bus = self.bus_free.max(start) + (f64::from(blocks) * self.bus_block) as u64;
        self.bus_free = bus;
        done.max(bus) - now
    }
}
