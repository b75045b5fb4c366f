//! A rotating disk: seek, rotation, streaming, command choice and write cache.
//!
//! - **Where a block lies.** At constant areal density the share `x` of the capacity that lies
//!   outside radius `r` is an area: `r(x) = √(1 − (1 − ρ²)·x)` with the outer radius 1 and the
//!   inner one ρ. The media rate is proportional to `r`, the seek distance to the difference in
//!   `r`.
//! - **Seek.** `t(d) = track + b·√d + c·d` for a share `d` of the stroke: acceleration-bound when
//!   short, cruising when long (Ruemmler and Wilkes, "An introduction to disk drive modeling",
//!   1994). `b` and `c` follow from the average seek (`d` = 1/3) and the full stroke.
//! - **Rotation.** Uniform over a revolution.
//! - **Choice.** A drive that holds `n` commands serves the one that it reaches first. The gain is
//!   shared between the two axes: the seek is `√n` times shorter, and the rotation is the least of
//!   `√n` draws. At `n` = 32 that makes some 200 reads a second of 75, as NCQ measurements show.
//! - **Streaming.** A request that starts where the last one ended neither seeks nor waits for the
//!   platter: reads come from the drive's read-ahead, writes from its track buffer. A request that
//!   starts less than a revolution further on waits at most until that place has come round.
//! - **Write cache**, if any: a write ends when its data is transferred and the cache has room for
//!   it. The drive writes back in order of arrival; each write's positioning is that of the best of
//!   those in the cache. A read goes next, before the cached writes.

use super::{BLOCK, DiskKind, Fit, Kind, Knob, Model, Transfer, block_ns, whole_blocks};
use crate::disks::Dir;
use crate::params::{Params, rows};
use crate::rng::Rng;
use crate::spec::DiskSpec;
use std::collections::VecDeque;

rows! {
    /// Model parameters of a rotating disk.
    pub struct Figures {
        disk_rpm: "1/min" = 7200.0, 3600.0 => 15000.0, "spindle speed of a desktop disk";
        disk_track_seek: "ns" = 800000.0, 50000.0 => 5e6, "track-to-track seek; data sheets of 7200 rpm desktop disks around 2010";
        disk_average_seek: "ns" = 8.5e6, 500000.0 => 2e7, "seek over a third of the stroke; the same data sheets";
        disk_full_seek: "ns" = 1.8e7, 1e6 => 4e7, "full-stroke seek; the same data sheets";
        disk_outer_bandwidth: "MB/s" = 130.0, 10.0 => 300.0, "media rate of the outermost zone; the same data sheets, and docs/reference/workloads.md#sequential-read (120 to 140 MB/s single stream)";
        disk_inner_bandwidth: "MB/s" = 65.0, 5.0 => 300.0, "media rate of the innermost zone, and so the inner radius at constant linear density: about 23 mm of 46 mm";
        disk_command: "ns" = 100000.0, 1000.0 => 5e6, "controller overhead of one command";
        disk_interface_bandwidth: "MB/s" = 280.0, 30.0 => 600.0, "SATA 3 Gbit/s less 8b/10b coding and framing";
        disk_queue_depth: "requests" = 1.0, 1.0 => 31.0, "commands the drive is given at a time: 1 without NCQ, 31 with AHCI NCQ";
        disk_reorder: "requests" = 32.0, 1.0 => 256.0, "commands or cached writes among which a drive chooses the next; the length of an NCQ queue";
        disk_whole: "times" = 1.0, 1.0 => 64.0, "size of the whole disk as a multiple of `capacity` in the machine file: above 1, `capacity` is a partition at the disk's outer edge, where MMTests makes its partition (run-mmtests.sh, TESTDISK_RAID_OFFSET=63)";
        disk_write_cache: "bytes" = 0.0, 0.0 => 67108864.0, "write-back cache of the drive; 0: a write completes on the platter, as with barriers after each; drives of 2011 have 8 to 32 MiB";
    }
}

/// A rotating disk among the kinds of disk. Virtual disks often claim to rotate, so a probe tries
/// others too.
pub(super) const KIND: Kind = Kind {
    rotates: true,
    suits: |disk| disk.one_device() && disk.rotational && !disk.removable && !disk.nvme(),
    fit: Fit {
        others: &[DiskKind::Ssd, DiskKind::Nvme],
        ..FIT
    },
    ..Kind::SINGLE
};

/// How a probe fits rotating disks, alone and in an array. The platters' geometry is kept: the
/// inner rate follows the outer one.
pub(super) const FIT: Fit = Fit {
    others: &[],
    knobs: &[
        Knob::OneOf(
            "disk_write_cache",
            &[0.0, 8_388_608.0, 33_554_432.0, 67_108_864.0],
        ),
        Knob::OneOf("disk_queue_depth", &[1.0, 31.0]),
        Knob::Scale("disk_outer_bandwidth"),
        Knob::Scale("disk_interface_bandwidth"),
        Knob::Scale("disk_rpm"),
        Knob::Scale("disk_track_seek"),
        Knob::Scale("disk_command"),
    ],
    start: |m, _| {
        vec![
            ("disk_outer_bandwidth", m.read),
            ("disk_interface_bandwidth", m.read.max(m.write) * 2.0),
        ]
    },
    follows: Some(("disk_inner_bandwidth", "disk_outer_bandwidth", "outer")),
};

/// A write in the drive's cache. Reads that go before cached writes delay all of them.
#[derive(Debug, Clone, Copy)]
struct Cached {
    /// Time at which the write will be on the platter, without the delay by reads since.
    finish: u64,
    /// Value of the total `Rotating::pushed` when the write arrived.
    pushed: u64,
    blocks: u32,
}

/// A disk with its geometry, times and state.
#[derive(Debug, Clone)]
pub struct Rotating {
    /// Capacity of the whole disk, in blocks.
    capacity: f64,
    /// ρ², the inner radius squared.
    inner_squared: f64,
    outer_block_ns: f64,
    seek_track_ns: f64,
    seek_root_ns: f64,
    seek_linear_ns: f64,
    revolution_ns: f64,
    command_ns: f64,
    interface_block_ns: f64,
    depth: u32,
    reorder: u32,
    max_request_blocks: u32,
    cache_blocks: u32,
    /// The block under the head when it last stopped.
    head: u64,
    /// Time at which the mechanism is free.
    free_at: u64,
    cached: VecDeque<Cached>,
    cached_blocks: u32,
    /// Total time by which reads have delayed cached writes, in nanoseconds.
    pushed: u64,
    /// Time at which the last read that went before cached writes ends.
    read_until: u64,
}

impl Model for Rotating {
    fn new(spec: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        Self::of(spec.capacity.pages(), params)
    }

    fn service(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        self.take(now, t, in_service, rng)
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn max_request_blocks(&self) -> u32 {
        self.max_request_blocks
    }
}

impl Rotating {
    /// Returns a disk of this many blocks with its head at block 0. The seek curve, `track + b·√d +
    /// c·d` for a distance `d` of 0 to 1, is fitted to the data sheet's average and full-stroke
    /// seeks.
    pub(super) fn of(capacity: u64, all_params: &Params) -> Self {
        let params = &all_params.disks.rotating;
        let cruise = params.disk_full_seek - params.disk_track_seek;
        let average = params.disk_average_seek - params.disk_track_seek;
        let third: f64 = 1.0 / 3.0;
        // b + c = cruise and b·√⅓ + c·⅓ = average, with neither below 0.
        let root =
            ((average - cruise * third) / (third.sqrt() - third)).clamp(0.0, cruise.max(0.0));
        let ratio = (params.disk_inner_bandwidth / params.disk_outer_bandwidth).min(1.0);
        let cache_blocks = (params.disk_write_cache / BLOCK) as u32;
        Self {
            capacity: capacity.max(1) as f64 * params.disk_whole,
            inner_squared: ratio * ratio,
            outer_block_ns: block_ns(params.disk_outer_bandwidth),
            seek_track_ns: params.disk_track_seek,
            seek_root_ns: root,
            seek_linear_ns: (cruise - root).max(0.0),
            revolution_ns: 60e9 / params.disk_rpm,
            command_ns: params.disk_command,
            interface_block_ns: block_ns(params.disk_interface_bandwidth),
            depth: params.disk_queue_depth as u32,
            reorder: params.disk_reorder as u32,
            max_request_blocks: whole_blocks(all_params.max_request),
            cache_blocks,
            head: 0,
            free_at: 0,
            cached: VecDeque::with_capacity(cache_blocks as usize),
            cached_blocks: 0,
            pushed: 0,
            read_until: 0,
        }
    }

    /// Returns the radius at which a block lies, from the inner radius to 1, the outer one: block 0
    /// is outermost, and the density of data is the same everywhere.
    fn radius(&self, block: u64) -> f64 {
        let outside = (block as f64 / self.capacity).min(1.0);
        (1.0 - (1.0 - self.inner_squared) * outside).sqrt()
    }

    /// Returns the seek time in nanoseconds between two blocks, with the distance divided by
    /// `shorter`, because a drive with a choice of requests takes a near one.
    fn seek_ns(&self, from: u64, to: u64, shorter: f64) -> f64 {
        let stroke = 1.0 - self.inner_squared.sqrt();
        let distance = if stroke > 0.0 {
            (self.radius(from) - self.radius(to)).abs() / stroke
        } else {
            from.abs_diff(to) as f64 / self.capacity
        };
        let distance = distance / shorter;
        self.seek_track_ns + self.seek_root_ns * distance.sqrt() + self.seek_linear_ns * distance
    }

    /// Returns the rotational delay as a share of a revolution: the least of `draws` uniform draws,
    /// because a drive with a choice of requests takes one that comes by soon.
    fn rotation(draws: f64, rng: &mut Rng) -> f64 {
        1.0 - (1.0 - rng.unit()).powf(1.0 / draws)
    }

    /// Returns the time in nanoseconds that a transfer occupies the mechanism (seek, rotation and
    /// media), and moves the head to its end. `choices`: the number of requests among which the
    /// drive chooses, which shortens positioning. A transfer close ahead of the head may also be
    /// reached by letting the blocks between pass.
    fn mechanical_ns(&mut self, t: &Transfer, choices: u32, rng: &mut Rng) -> f64 {
        let media = f64::from(t.blocks) * self.outer_block_ns / self.radius(t.block);
        // Seek distance and rotational delay shrink with the root of the choices.
        let gain = f64::from(choices.clamp(1, self.reorder)).sqrt();
        let positioning = if t.block == self.head {
            0.0
        } else {
            let by_seeking = self.seek_ns(self.head, t.block, gain)
                + Self::rotation(gain, rng) * self.revolution_ns;
            let by_waiting = t.block.checked_sub(self.head).map(|blocks| {
                let passing_ns = blocks as f64 * self.outer_block_ns / self.radius(t.block);
                if passing_ns < self.revolution_ns {
                    passing_ns
                } else {
                    f64::INFINITY
                }
            });
            by_waiting.map_or(by_seeking, |passing_ns| passing_ns.min(by_seeking))
        };
        self.head = t.end();
        positioning + media
    }

    /// Returns the nanoseconds until a request that is started at `now` is complete: on the
    /// platter, or, with a write cache, in the cache for writes; reads go before cached writes.
    fn take(&mut self, now: u64, t: &Transfer, in_service: u32, rng: &mut Rng) -> u64 {
        if self.cache_blocks == 0 {
            let start = now.max(self.free_at) as f64;
            let finish = start + self.command_ns + self.mechanical_ns(t, in_service, rng);
            self.free_at = finish as u64;
            return self.free_at - now;
        }
        self.write_back(now);
        match t.dir {
            Dir::Write => self.cached_write(now, t, rng),
            Dir::Read => self.read_past_cache(now, t, in_service, rng),
        }
    }

    /// Returns the time at which a cached write will be on the platter, delayed by the reads that
    /// went before it since it arrived.
    fn on_platter(&self, c: &Cached) -> u64 {
        c.finish + (self.pushed - c.pushed)
    }

    /// Removes the writes that are on the platter by now from the cache.
    fn write_back(&mut self, now: u64) {
        while let Some(front) = self.cached.front()
            && self.on_platter(front) <= now
        {
            self.cached_blocks -= front.blocks;
            self.cached.pop_front();
        }
    }

    /// Puts a write into the drive's cache, waiting until enough older writes are on the platter;
    /// returns the nanoseconds until the data is in the cache. The mechanism is busy with the write
    /// for longer.
    fn cached_write(&mut self, now: u64, t: &Transfer, rng: &mut Rng) -> u64 {
        let mut room_at = now;
        while self.cached_blocks + t.blocks > self.cache_blocks {
            let Some(front) = self.cached.pop_front() else {
                break;
            };
            self.cached_blocks -= front.blocks;
            room_at = room_at.max(self.on_platter(&front));
        }
        let choices = self.cached.len() as u32 + 1;
        let mechanical = self.mechanical_ns(t, choices, rng) as u64;
        let transferred =
            room_at + (self.command_ns + f64::from(t.blocks) * self.interface_block_ns) as u64;
        self.free_at = self.free_at.max(transferred) + mechanical;
        self.cached.push_back(Cached {
            finish: self.free_at,
            pushed: self.pushed,
            blocks: t.blocks,
        });
        self.cached_blocks += t.blocks;
        transferred - now
    }

    /// Serves a read before the cached writes, which it delays; returns the nanoseconds that the
    /// request takes. `choices`: the number of requests among which the drive chooses.
    fn read_past_cache(&mut self, now: u64, t: &Transfer, choices: u32, rng: &mut Rng) -> u64 {
        let command_done = now + self.command_ns as u64;
        let mechanical = self.mechanical_ns(t, choices, rng) as u64;
        // The write under way is finished first; the other cached writes are pushed back.
        let start = match self.cached.front() {
            Some(front) => command_done.max(self.on_platter(front).min(self.free_at)),
            None => command_done.max(self.free_at),
        };
        let start = start.max(self.read_until);
        self.read_until = start + mechanical;
        if let Some(first) = self.cached.pop_front() {
            self.pushed += mechanical;
            let kept = Cached {
                pushed: first.pushed + mechanical,
                ..first
            };
            self.cached.push_front(kept);
        }
        self.free_at = self.free_at.max(start) + mechanical;
        self.read_until - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Rotating {
        Rotating::of(250_000_000, &Params::default())
    }

    #[test]
    fn a_short_way_ahead_costs_the_time_to_pass_over_it() {
        let mut d = disk();
        let mut rng = Rng::new(1, "test");
        let read = |block| Transfer {
            dir: Dir::Read,
            block,
            blocks: 8,
        };
        d.mechanical_ns(&read(0), 1, &mut rng);
        let over = d.mechanical_ns(&read(16), 1, &mut rng);
        assert!((over - 16.0 * d.outer_block_ns).abs() < 1000.0, "{over}");
        // Backwards, or further than a revolution, seek and rotation decide.
        assert!(d.mechanical_ns(&read(0), 1, &mut rng) > d.seek_track_ns);
        let track = (d.revolution_ns / d.outer_block_ns) as u64;
        assert!(d.mechanical_ns(&read(9 + track), 1, &mut rng) > d.seek_track_ns);
    }

    #[test]
    fn the_seek_curve_meets_the_data_sheet() {
        let d = disk();
        let curve =
            |share: f64| d.seek_track_ns + d.seek_root_ns * share.sqrt() + d.seek_linear_ns * share;
        assert!((curve(1.0 / 3.0) - 8.5e6).abs() < 1.0);
        assert!((curve(1.0) - 18e6).abs() < 1.0);
        assert!((d.seek_ns(0, 250_000_000, 1.0) - 18e6).abs() < 1.0);
        assert!((d.seek_ns(1000, 1001, 1.0) - 0.8e6).abs() < 0.01e6);
        assert!((1..1000).all(|i| curve(f64::from(i)) < curve(f64::from(i + 1))));
    }

    #[test]
    fn inner_tracks_are_slower() {
        let d = disk();
        assert_eq!(d.radius(0), 1.0);
        assert!((d.radius(250_000_000) - 0.5).abs() < 1e-9);
    }

    /// A partition of one half, at the outer edge: its end is where half of the whole disk ends.
    #[test]
    fn a_partition_lies_on_the_outer_tracks() {
        let mut params = Params::default();
        params.disks.rotating.disk_whole = 2.0;
        let (part, whole) = (Rotating::of(250_000_000, &params), disk());
        assert_eq!(part.radius(250_000_000), whole.radius(125_000_000));
        assert!(part.seek_ns(0, 250_000_000, 1.0) < whole.seek_ns(0, 250_000_000, 1.0));
    }

    #[test]
    fn a_deeper_queue_shortens_the_rotation() {
        let mut rng = Rng::new(1, "test");
        let mut mean = |draws| {
            (0..20_000)
                .map(|_| Rotating::rotation(draws, &mut rng))
                .sum::<f64>()
                / 20_000.0
        };
        assert!((mean(1.0) - 0.5).abs() < 0.01);
        assert!((mean(3.0) - 0.25).abs() < 0.01);
    }

    #[test]
    fn a_write_cache_hides_seeks_until_it_is_full() {
        let mut params = Params::default();
        params.disks.rotating.disk_write_cache = 2048.0 * BLOCK;
        let (mut d, mut rng) = (Rotating::of(250_000_000, &params), Rng::new(1, "test"));
        let mut now = 0;
        let mut write = |now: &mut u64| {
            let t = Transfer {
                dir: Dir::Write,
                block: rng.below(250_000_000),
                blocks: 1,
            };
            let ns = d.service(*now, &t, 1, &mut rng);
            *now += ns;
            ns
        };
        assert!((0..2048).all(|_| write(&mut now) < 200_000));
        let full: u64 = (0..200).map(|_| write(&mut now)).sum::<u64>() / 200;
        assert!((2_500_000..8_000_000).contains(&full), "{full}");
        // A read goes before the cached writes.
        let read = Transfer {
            dir: Dir::Read,
            block: 77,
            blocks: 1,
        };
        assert!(d.service(now, &read, 1, &mut rng) < 45_000_000);
    }
}
