//! Disk models: how long a request takes, given where the device is.
//!
//! A new disk is one file here, one variant of [`Disk`] and its figures in the parameter table.

mod flash;
mod rotating;
mod usb_flash;

use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskKind, DiskSpec};

/// A disk of any kind.
#[derive(Debug)]
pub enum Disk {
    /// USB flash stick.
    UsbFlash(usb_flash::UsbFlash),
    /// One rotating disk, or several as a RAID-0.
    Rotating(rotating::Raid0),
    /// SATA or NVMe solid-state drive.
    Flash(flash::Flash),
}

impl Disk {
    /// Builds the disk that a machine names.
    pub fn new(spec: &DiskSpec, p: &Params, rng: &mut Rng) -> Self {
        let blocks = (spec.capacity.0 / 4096).max(1);
        match spec.kind {
            DiskKind::UsbFlash => Self::UsbFlash(usb_flash::UsbFlash::new(p, rng)),
            DiskKind::Disk => Self::Rotating(rotating::Raid0::new(1, blocks, p)),
            DiskKind::Raid0 => {
                Self::Rotating(rotating::Raid0::new(spec.members.unwrap_or(4), blocks, p))
            }
            DiskKind::Ssd => Self::Flash(flash::Flash::ssd(p)),
            DiskKind::Nvme => Self::Flash(flash::Flash::nvme(p)),
        }
    }

    /// Requests it works on at a time.
    pub fn depth(&self) -> u32 {
        match self {
            Self::UsbFlash(_) => 1,
            Self::Rotating(d) => d.depth(),
            Self::Flash(d) => d.depth(),
        }
    }

    /// The largest request it takes, in bytes.
    pub fn max_request_bytes(&self) -> u64 {
        match self {
            Self::UsbFlash(d) => d.max_request,
            Self::Rotating(d) => d.max_request(),
            Self::Flash(d) => d.max_request,
        }
    }

    /// How long a request takes from `now`, in nanoseconds, with `depth` requests in flight.
    pub fn service(
        &mut self,
        now: u64,
        write: bool,
        block: u64,
        blocks: u32,
        depth: u32,
        rng: &mut Rng,
    ) -> u64 {
        match self {
            Self::UsbFlash(d) => d.service(write, block, blocks, rng),
            Self::Rotating(d) => d.service(now, block, blocks, rng),
            Self::Flash(d) => d.service(now, write, block, blocks, depth, rng),
        }
        .max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Size;

    fn disk(kind: DiskKind) -> (Disk, Rng) {
        let mut rng = Rng::new(1, "disk");
        let spec = DiskSpec {
            kind,
            capacity: Size(16 << 30),
            members: None,
            faults: Vec::new(),
        };
        (Disk::new(&spec, &Params::default(), &mut rng), rng)
    }

    /// MB/s of a stream of the largest requests, one after the other.
    fn stream(kind: DiskKind, write: bool) -> f64 {
        let (mut d, mut rng) = disk(kind);
        let blocks = (d.max_request_bytes() / 4096) as u32;
        let (mut now, mut bytes) = (0, 0u64);
        for i in 0..20_000u64 {
            now += d.service(now, write, i * u64::from(blocks), blocks, 1, &mut rng);
            bytes += u64::from(blocks) * 4096;
        }
        bytes as f64 / 1e6 / (now as f64 / 1e9)
    }

    /// Scattered single blocks a second.
    fn scattered(kind: DiskKind, write: bool) -> f64 {
        let (mut d, mut rng) = disk(kind);
        let mut now = 0;
        for _ in 0..2000 {
            let block = rng.below(1 << 21);
            now += d.service(now, write, block, 1, 1, &mut rng);
        }
        2000.0 / (now as f64 / 1e9)
    }

    #[test]
    fn every_disk_is_in_its_class() {
        let usb = stream(DiskKind::UsbFlash, true);
        assert!((15.0..20.0).contains(&usb), "USB streams {usb} MB/s");
        assert!(
            scattered(DiskKind::UsbFlash, true) < 100.0,
            "far below 1 MB/s"
        );
        let disk = stream(DiskKind::Disk, true);
        assert!((90.0..150.0).contains(&disk), "a disk streams {disk} MB/s");
        assert!((60.0..200.0).contains(&scattered(DiskKind::Disk, false)));
        let raid = stream(DiskKind::Raid0, true);
        assert!(
            (250.0..450.0).contains(&raid),
            "four disks stream {raid} MB/s"
        );
        let ssd = stream(DiskKind::Ssd, false);
        assert!((200.0..600.0).contains(&ssd), "an SSD streams {ssd} MB/s");
        assert!(scattered(DiskKind::Ssd, false) > 5000.0);
        let nvme = stream(DiskKind::Nvme, false);
        assert!(
            (1000.0..4000.0).contains(&nvme),
            "an NVMe drive streams {nvme} MB/s"
        );
    }
}
