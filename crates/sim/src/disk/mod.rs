//! Disk models: how long a device takes for a request, given where its head is, which erase blocks
//! are open, how deep its queue is. One file a kind; [`DiskModel`] registers them.
//!
//! To add a kind: a file here with its model, a [`DiskKind`], a variant of [`DiskModel`], rows in
//! [`crate::params`]. Models know no faults and no queue: [`crate::block::Queue`] has both.
//!
//! Everything is converted once, at construction: times to nanoseconds, sizes to 4 KiB blocks.

mod nvme;
pub(crate) mod raid0;
mod rotating;
mod ssd;
#[cfg(test)]
mod throughput;
mod usb_flash;

pub use raid0::DEFAULT_MEMBERS;

use crate::block::Dir;
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskKind, DiskSpec};

/// Bytes in a block.
const BLOCK: f64 = 4096.0;

/// What a device is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Read or write.
    pub dir: Dir,
    /// First 4 KiB block.
    pub block: u64,
    /// Number of blocks, at least 1.
    pub blocks: u32,
}

impl Transfer {
    /// The block after its last.
    pub fn end(&self) -> u64 {
        self.block + u64::from(self.blocks)
    }
}

/// A device of some kind, with its state.
#[derive(Debug, Clone)]
pub enum DiskModel {
    /// USB flash stick.
    UsbFlash(usb_flash::UsbFlash),
    /// One rotating disk.
    Rotating(rotating::Rotating),
    /// RAID-0 over rotating disks.
    Raid0(raid0::Raid0),
    /// SATA solid-state drive.
    Ssd(ssd::FlashDrive),
    /// NVMe solid-state drive.
    Nvme(ssd::FlashDrive),
}

impl DiskModel {
    /// The model of this disk. Draws what differs from run to run.
    pub fn new(spec: &DiskSpec, params: &Params, rng: &mut Rng) -> Self {
        match spec.kind {
            DiskKind::UsbFlash => Self::UsbFlash(usb_flash::UsbFlash::new(params, rng)),
            DiskKind::Disk => {
                Self::Rotating(rotating::Rotating::new(spec.capacity.pages(), params))
            }
            DiskKind::Raid0 => Self::Raid0(raid0::Raid0::new(spec, params)),
            DiskKind::Ssd => Self::Ssd(ssd::new(params)),
            DiskKind::Nvme => Self::Nvme(nvme::new(params)),
        }
    }

    /// Nanoseconds from `now` until a request that is started now is complete. `in_service` counts
    /// the requests that the device holds, this one included. `now` never goes back.
    pub fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        match self {
            Self::UsbFlash(disk) => disk.service(t, rng),
            Self::Rotating(disk) => disk.service(now, t, in_service, rng),
            Self::Raid0(disk) => disk.service(now, t, in_service, rng),
            Self::Ssd(disk) | Self::Nvme(disk) => disk.service(now, t, rng),
        }
    }

    /// How many requests the device takes at a time.
    pub fn depth(&self) -> u32 {
        match self {
            Self::UsbFlash(_) => 1,
            Self::Rotating(disk) => disk.depth(),
            Self::Raid0(disk) => disk.depth(),
            Self::Ssd(disk) | Self::Nvme(disk) => disk.depth(),
        }
    }

    /// The most blocks it takes in one request.
    pub fn max_request_blocks(&self) -> u32 {
        match self {
            Self::UsbFlash(disk) => disk.max_request_blocks(),
            Self::Rotating(disk) => disk.max_request_blocks(),
            Self::Raid0(disk) => disk.max_request_blocks(),
            Self::Ssd(disk) | Self::Nvme(disk) => disk.max_request_blocks(),
        }
    }

    /// Disks behind it, each with a request queue of its own in Linux. The one queue of an array
    /// has the requests of all of them: streaming spreads evenly over the members, so they congest
    /// together.
    pub fn members(&self) -> u32 {
        match self {
            Self::Raid0(disk) => disk.members(),
            _ => 1,
        }
    }
}

/// Nanoseconds a block takes at this many MB/s (powers of 1000).
fn block_ns(megabytes_per_second: f64) -> f64 {
    BLOCK / megabytes_per_second * 1e3
}

/// Whole blocks in this many bytes, at least one.
pub(crate) fn whole_blocks(bytes: f64) -> u32 {
    ((bytes / BLOCK) as u32).max(1)
}
