//! RAID-0: chunks of the array go round its members, which work in parallel.
//!
//! ```text
//!   array   |c0|c1|c2|c3|c4|c5|c6|c7| …      a request over c1..c6 of an array of three:
//!   disk 0  |c0      |c3      |c6      |       disk 0  c3 c6   one piece, consecutive there
//!   disk 1     |c1      |c4      |c7   |       disk 1  c1 c4
//!   disk 2        |c2      |c5      |c8|       disk 2  c2 c5
//! ```
//!
//! What a request has on one member is consecutive there, so it is one piece a member; the request
//! ends with the last of them.

use super::rotating::Rotating;
use super::{Transfer, whole_blocks};
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::DiskSpec;

/// Members of an array whose specification gives no number: as in reference 07 §1.
const DEFAULT_MEMBERS: u32 = 4;

/// An array.
#[derive(Debug, Clone)]
pub struct Raid0 {
    disks: Vec<Rotating>,
    chunk_blocks: u64,
}

impl Raid0 {
    /// An array of `spec.capacity` in total.
    pub fn new(spec: &DiskSpec, params: &Params) -> Self {
        let members = spec.members.unwrap_or(DEFAULT_MEMBERS).max(1);
        let each = spec.capacity.pages().div_ceil(u64::from(members));
        Self {
            disks: (0..members).map(|_| Rotating::new(each, params)).collect(),
            chunk_blocks: u64::from(whole_blocks(params.raid_chunk)),
        }
    }

    /// Number of disks.
    pub fn members(&self) -> u32 {
        self.disks.len() as u32
    }

    /// How many requests the array takes at a time.
    pub fn depth(&self) -> u32 {
        self.disks.iter().map(Rotating::depth).sum()
    }

    /// The most blocks in a request.
    pub fn max_request_blocks(&self) -> u32 {
        self.disks[0].max_request_blocks()
    }

    /// The part of an array request that lies on one member, in the member's blocks.
    fn piece(&self, member: u64, t: &Transfer) -> Option<Transfer> {
        let members = self.disks.len() as u64;
        // Blocks of this member that lie before an array block.
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

    /// Nanoseconds until a request started now is complete.
    pub fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        let each = in_service.div_ceil(self.members());
        (0..self.disks.len())
            .filter_map(|m| {
                let piece = self.piece(m as u64, t)?;
                Some(self.disks[m].service(now, &piece, each, rng))
            })
            .max()
            .expect("a request lies on at least one member")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Dir;
    use crate::spec::{DiskKind, Size};

    fn array(members: u32) -> Raid0 {
        let spec = DiskSpec {
            kind: DiskKind::Raid0,
            capacity: Size(1 << 40),
            members: Some(members),
            params: Default::default(),
            faults: vec![],
        };
        Raid0::new(&spec, &Params::default())
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
