//! The device that a filesystem sees: a disk, or a RAID-0 whose members each have a request queue
//! (Linux 3.0 `drivers/md/raid0.c` cuts bios at the borders of chunks and hands them on).
//!
//! A full member therefore holds up every task that wants to write to it while the other members
//! carry on, and congestion of one member is congestion of the array.

use crate::disks::whole_blocks;
use crate::params::Params;
use crate::spec::{DiskSpec, Size};

/// One or several of the world's devices, seen as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Number of the first device.
    pub first: u32,
    /// Number of devices.
    pub members: u32,
    /// Blocks of a chunk: consecutive blocks on one device before the next device follows.
    chunk: u64,
}

impl Volume {
    /// Returns the volume of a disk, and the disk of each device that it is built on. `first`: the
    /// number of its first device; a disk that is no array is one device.
    pub fn new(spec: &DiskSpec, params: &Params, first: u32) -> (Self, Vec<DiskSpec>) {
        let Some(array) = &spec.kind.about().array else {
            let volume = Self {
                first,
                members: 1,
                chunk: u64::MAX,
            };
            return (volume, vec![spec.clone()]);
        };
        let members = spec.members().max(1);
        let chunk = u64::from(whole_blocks((array.chunk)(params)));
        // Rows of one chunk on each member, so that the members together have at least the array's
        // capacity.
        let rows = spec.capacity.pages().div_ceil(chunk * u64::from(members));
        let member = DiskSpec {
            kind: array.of,
            capacity: Size(rows * chunk * 4096),
            members: None,
            ..spec.clone()
        };
        let volume = Self {
            first,
            members,
            chunk,
        };
        (volume, vec![member; members as usize])
    }

    /// Returns the range of device numbers.
    pub fn devices(self) -> std::ops::Range<u32> {
        self.first..self.first + self.members
    }

    /// Returns where a block of the volume lies: the device, the block there, and how many blocks
    /// of the volume, this one included, follow each other on that device.
    pub fn place(self, block: u64) -> (u32, u64, u64) {
        if self.members == 1 {
            return (self.first, block, u64::MAX);
        }
        let (chunk, within) = (block / self.chunk, block % self.chunk);
        let members = u64::from(self.members);
        let row = chunk / members;
        (
            self.first + (chunk % members) as u32,
            row * self.chunk + within,
            self.chunk - within,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DiskKind;

    fn spec(kind: DiskKind, members: Option<u32>) -> DiskSpec {
        DiskSpec {
            kind,
            capacity: Size(1 << 30),
            members,
            scheduler: Default::default(),
            params: Default::default(),
            faults: vec![],
        }
    }

    #[test]
    fn every_block_of_an_array_has_a_place_of_its_own() {
        let params = Params::default();
        let (v, disks) = Volume::new(&spec(DiskKind::Raid0, Some(3)), &params, 2);
        assert_eq!((v.devices(), disks.len()), (2..5, 3));
        let mut seen = std::collections::BTreeSet::new();
        for block in 0..1000 {
            let (device, at, room) = v.place(block);
            assert_eq!(u64::from(device - 2), block / 16 % 3);
            assert!(at < disks[0].capacity.pages() && seen.insert((device, at)));
            let same = (0..room).all(|i| v.place(block + i).0 == device);
            assert!(same && v.place(block + room).0 != device, "block {block}");
        }
        let all: u64 = disks.iter().map(|d| d.capacity.pages()).sum();
        assert!(all >= (1 << 30) / 4096);
    }

    #[test]
    fn a_disk_is_its_own_volume() {
        let d = spec(DiskKind::Ssd, None);
        let (v, disks) = Volume::new(&d, &Params::default(), 1);
        assert_eq!((v.place(77), disks), ((1, 77, u64::MAX), vec![d]));
    }
}
