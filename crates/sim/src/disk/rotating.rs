//! Rotating disks, alone or striped.
//!
//! A request costs a seek (square root of the distance, up to the full stroke), half a turn on
//! average, and its transfer at the zone's rate. A request that continues where the head stands
//! pays for neither seek nor turn. Parameters: data sheets of 7200 rpm desktop drives of 2010.

use crate::params::Params;
use crate::rng::Rng;

#[derive(Debug, Clone)]
struct Spindle {
    head: u64,
    free_at: u64,
}

/// One or more disks under stripes.
#[derive(Debug)]
pub struct Raid0 {
    members: Vec<Spindle>,
    chunk: u64,
    blocks: u64,
    track_seek: f64,
    full_seek: f64,
    turn: f64,
    outer_block: f64,
    inner_block: f64,
    overhead: f64,
    request: u64,
}

impl Raid0 {
    /// `members` disks with `blocks` blocks in all.
    pub fn new(members: u32, blocks: u64, p: &Params) -> Self {
        assert!((1..=16).contains(&members));
        Self {
            members: vec![
                Spindle {
                    head: 0,
                    free_at: 0
                };
                members as usize
            ],
            chunk: (p.raid_chunk as u64 / 4096).max(1),
            blocks: (blocks / u64::from(members)).max(1),
            track_seek: p.disk_track_seek,
            full_seek: p.disk_full_seek,
            turn: 60e9 / p.disk_rpm,
            outer_block: 4096.0 * 1e3 / p.disk_outer_bandwidth,
            inner_block: 4096.0 * 1e3 / p.disk_inner_bandwidth,
            overhead: p.disk_command,
            request: p.max_request as u64,
        }
    }

    /// Requests in flight: one a member, and one more to keep a stripe's members busy.
    pub fn depth(&self) -> u32 {
        if self.members.len() == 1 {
            1
        } else {
            2 * self.members.len() as u32
        }
    }

    /// Largest request in bytes.
    pub fn max_request(&self) -> u64 {
        self.request
    }

    fn one(&mut self, m: usize, now: u64, block: u64, blocks: u64, rng: &mut Rng) -> u64 {
        let s = &self.members[m];
        let distance = block.abs_diff(s.head);
        let place = block as f64 / self.blocks as f64;
        let per_block = self.outer_block + (self.inner_block - self.outer_block) * place.min(1.0);
        let mut time = self.overhead + blocks as f64 * per_block;
        if distance > 0 {
            let share = (distance as f64 / self.blocks as f64).min(1.0);
            // A short hop forward is waited out under the head.
            let hop = if block > s.head {
                distance as f64 * per_block
            } else {
                f64::MAX
            };
            let seek = self.track_seek
                + (self.full_seek - self.track_seek) * share.sqrt()
                + rng.unit() * self.turn;
            time += hop.min(seek);
        }
        let s = &mut self.members[m];
        s.head = block + blocks;
        s.free_at = s.free_at.max(now) + time as u64;
        s.free_at - now
    }

    /// Nanoseconds until the last member is done.
    pub fn service(&mut self, now: u64, block: u64, blocks: u32, rng: &mut Rng) -> u64 {
        let n = self.members.len() as u64;
        if n == 1 {
            return self.one(0, now, block, u64::from(blocks), rng);
        }
        let (mut at, end) = (block, block + u64::from(blocks));
        let mut longest = 0;
        while at < end {
            let stripe = at / self.chunk;
            let len = (self.chunk - at % self.chunk).min(end - at);
            let place = stripe / n * self.chunk + at % self.chunk;
            longest = longest.max(self.one((stripe % n) as usize, now, place, len, rng));
            at += len;
        }
        longest
    }
}
