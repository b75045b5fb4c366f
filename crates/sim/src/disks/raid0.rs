//! RAID-0: chunks of the array go round its members in turn, and the members work in parallel.
//!
//! ```text
//!   array   |c0|c1|c2|c3|c4|c5|c6|c7| …      a request over c1..c6 of an array of three:
//!   disk 0  |c0      |c3      |c6      |       disk 0  c3 c6   one piece, consecutive there
//!   disk 1     |c1      |c4      |c7   |       disk 1  c1 c4
//!   disk 2        |c2      |c5      |c8|       disk 2  c2 c5
//! ```
//!
//! The blocks that a request has on one member are consecutive there, so each member gets one
//! piece; the request ends with the last piece.

use super::rotating::{self, Rotating};
use super::{Array, DiskKind, Fit, Kind, Model, Transfer, whole_blocks};
use crate::params::{Params, rows};
use crate::rng::Rng;
use crate::spec::DiskSpec;

rows! {
    /// Model parameters of a RAID-0, beside those of its disks.
    pub struct Figures {
        raid_read_ahead: "stripes" = 2.0, 0.0 => 16.0, "least read-ahead window that an array gives its disks (Linux 3.0 drivers/md/raid0.c, raid0_run: 2); 0: the array leaves their windows, as under a logical volume with the default window, which MMTests of 2011 makes (run-mmtests.sh)";
        raid_chunk: "bytes" = 65536.0, 4096.0 => 1048576.0, "RAID-0 chunk; mdadm's default of the 0.90 metadata era";
    }
}

/// A RAID-0 among the kinds of disk. A probe fits its members as rotating disks.
pub(super) const KIND: Kind = Kind {
    rotates: true,
    uses: &[<rotating::Figures as crate::params::Rows>::ROWS],
    array: Some(Array {
        members: 2..=16,
        // The number of disks in docs/reference/workloads.md#writeback-from-reclaim.
        default: 4,
        of: DiskKind::Disk,
        chunk: |params| params.disks.raid0.raid_chunk,
        read_ahead: |params| params.disks.raid0.raid_read_ahead,
    }),
    suits: |disk| !disk.one_device(),
    fit: Fit {
        others: &[],
        ..rotating::FIT
    },
    ..Kind::SINGLE
};

/// The disks of an array.
#[derive(Debug, Clone)]
pub struct Raid0 {
    disks: Vec<Rotating>,
    chunk_blocks: u64,
}

impl Model for Raid0 {
    /// Returns an array of `spec.capacity` in total, over equal rotating disks.
    fn new(spec: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        let members = spec.members().max(1);
        let each = spec.capacity.pages().div_ceil(u64::from(members));
        Self {
            disks: (0..members).map(|_| Rotating::of(each, params)).collect(),
            chunk_blocks: u64::from(whole_blocks(params.disks.raid0.raid_chunk)),
        }
    }

    /// Returns the nanoseconds until a request on the array is complete: the longest time of its
    /// pieces on the members. `in_service`: the array's requests, which are taken as spread evenly
    /// over the members.
    fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        let per_member = in_service.div_ceil(self.members());
        (0..self.disks.len())
            .filter_map(|member| {
                let piece = self.piece(member as u64, t)?;
                Some(self.disks[member].service(now, &piece, per_member, rng))
            })
            .max()
            .expect("a request lies on at least one member")
    }

    fn depth(&self) -> u32 {
        self.disks.iter().map(Rotating::depth).sum()
    }

    fn max_request_blocks(&self) -> u32 {
        self.disks[0].max_request_blocks()
    }

    fn members(&self) -> u32 {
        self.disks.len() as u32
    }
}

impl Raid0 {
    /// Returns the part of an array request that lies on one member, in the member's blocks; `None`
    /// if none does. The parts in several chunks of a member are one piece, because they follow
    /// each other there.
    fn piece(&self, member: u64, t: &Transfer) -> Option<Transfer> {
        let members = self.disks.len() as u64;
        // Returns the number of blocks of this member that lie before an array block.
        let before = |block: u64| {
            let chunk = block / self.chunk_blocks;
            let row = chunk / members * self.chunk_blocks;
            match (chunk % members).cmp(&member) {
                std::cmp::Ordering::Less => row,
                std::cmp::Ordering::Equal => row + block % self.chunk_blocks,
                std::cmp::Ordering::Greater => row + self.chunk_blocks,
            }
        };
        let (from, to) = (before(t.block), before(t.end()));
        (from < to).then(|| Transfer {
            dir: t.dir,
            block: from,
            blocks: (to - from) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::Dir;
    use crate::spec::Size;

    fn array(members: u32) -> Raid0 {
        let spec = DiskSpec {
            scheduler: Default::default(),
            kind: DiskKind::Raid0,
            capacity: Size(1 << 40),
            members: Some(members),
            params: Default::default(),
            faults: vec![],
        };
        Raid0::new(&spec, &Params::default(), &mut Rng::new(1, "test"))
    }

    #[test]
    fn pieces_are_what_a_block_by_block_count_gives() {
        let raid = array(3);
        for (block, blocks) in [(0, 1), (15, 2), (20, 128), (48, 48), (100, 16), (47, 97)] {
            let t = Transfer {
                dir: Dir::Write,
                block,
                blocks,
            };
            for member in 0..3 {
                let on_member: Vec<u64> = (block..t.end())
                    .filter(|b| b / 16 % 3 == member)
                    .map(|b| b / 48 * 16 + b % 16)
                    .collect();
                let piece = raid.piece(member, &t);
                assert_eq!(piece.map(|p| p.block), on_member.first().copied());
                assert_eq!(piece.map_or(0, |p| p.blocks as usize), on_member.len());
                assert!(on_member.windows(2).all(|w| w[0] + 1 == w[1]));
            }
        }
    }

    #[test]
    fn small_requests_on_different_members_overlap() {
        let (mut raid, mut rng) = (array(4), Rng::new(1, "test"));
        let ends: Vec<u64> = (0..4)
            .map(|m| {
                let t = Transfer {
                    dir: Dir::Read,
                    block: 16_000_000 + m * 16,
                    blocks: 1,
                };
                raid.service(0, &t, 1, &mut rng)
            })
            .collect();
        assert!(ends.iter().all(|&ns| ns < 30_000_000), "{ends:?}");
    }
}
