//! A cloud volume, or a virtio disk of a host that meters its guests: the data lie behind a network
//! and a service that caps rates.
//!
//! - **Latency** is the same for reads and writes wherever they are, with a spread.
//! - **Caps** limit requests per second and bytes per second; requests above a cap wait. A request
//!   counts once for each `volume_io_unit` that it has.
//! - **Bursts**: below its cap a volume earns credits at the rate of the cap, up to a bucket; with
//!   credits it runs at its burst rate, and each request (or byte) takes a credit. A full bucket of
//!   `C` credits lasts `C / (burst − cap)` seconds. Without a burst rate there is no bucket.
//! - **The queue is deep**: requests are served in parallel.
//!
//! The defaults are a gp3 volume of Amazon EBS as one gets it without asking for more (3,000 IOPS,
//! 125 MiB/s, no bursts). A gp2 volume of 100 GiB is `volume_iops = 300, volume_burst_iops = 3000,
//! volume_bandwidth = 134` (3 IOPS a GiB, a bucket of 5.4 million credits, 128 MiB/s up to 170
//! GiB).

use super::{BLOCK, Kind, Model, Transfer, whole_blocks};
use crate::params::{Params, rows};
use crate::rng::Rng;
use crate::spec::{DiskSpec, Scheduler};

rows! {
    /// Model parameters of a cloud or virtio volume.
    pub struct Figures {
        volume_latency: "ns" = 700000.0, 10000.0 => 1e9, "mean time of a request on an idle volume; Amazon EBS documents single-digit milliseconds for General Purpose SSD volumes, and fio sees 0.5 to 1 ms";
        volume_jitter: "ln" = 0.25, 0.0 => 2.0, "spread of that time (sigma of its logarithm): one in a hundred requests takes 1.7 times as long";
        volume_iops: "IOPS" = 3000.0, 100.0 => 1e6, "requests a second that the volume sustains; gp3's baseline (Amazon EBS volume types); gp2: 3 a GiB, 100 at least";
        volume_burst_iops: "IOPS" = 0.0, 0.0 => 1e6, "requests a second while credits last; gp2: 3000 (Amazon EBS volume types); 0, or no more than volume_iops: no bursts";
        volume_burst_credits: "requests" = 5.4e6, 1.0 => 1e9, "credits that the bucket of requests holds; gp2: 5.4 million, half an hour of 3,000 a second (Amazon EBS volume types)";
        volume_bandwidth: "MB/s" = 131.0, 1.0 => 16000.0, "data a second that the volume sustains, either way; gp3's baseline of 125 MiB/s (Amazon EBS volume types)";
        volume_burst_bandwidth: "MB/s" = 0.0, 0.0 => 16000.0, "data a second while credits last; Azure Premium SSD up to 512 GiB: 170 (Managed disk bursting); 0, or no more than volume_bandwidth: no bursts";
        volume_burst_bytes: "bytes" = 1.26e11, 4096.0 => 1e15, "credits that the bucket of data holds; Azure Premium SSD P10: 30 minutes of 170 MB/s where 100 are sustained (Managed disk bursting)";
        volume_credits_left: "fraction" = 1.0, 0.0 => 1.0, "how full both buckets are when the machine boots; a new volume's are full";
        volume_io_unit: "bytes" = 262144.0, 4096.0 => 1048576.0, "bytes that count as one request; Amazon EBS counts 256 KiB on volumes of SSDs (I/O characteristics and monitoring), other services each request (1 MiB: the largest here)";
        volume_queue_depth: "requests" = 256.0, 1.0 => 1024.0, "entries of one queue of virtio-blk; QEMU's default since 5.0 (hw/core/machine.c), 128 before";
        volume_queues: "queues" = 64.0, 1.0 => 64.0, "greatest number of queues; QEMU makes one per CPU since 5.2 (num-queues)";
    }
}

/// A volume among the kinds of disk. A kernel describes a volume just like a disk,
/// so a probe never takes a disk for one (`suits` is false).
pub(super) const KIND: Kind = Kind {
    scheduler: Scheduler::None,
    ..Kind::SINGLE
};

/// A cap on a rate, with a bucket of credits that let the cap be exceeded. Times are in
/// nanoseconds.
#[derive(Debug, Clone)]
struct Cap {
    /// Time of one unit at the sustained rate.
    sustained: f64,
    /// Time of one unit at the burst rate; equal to `sustained` if there are no bursts.
    burst: f64,
    /// Capacity of the bucket, as the time in which it fills at the sustained rate.
    bucket: f64,
    /// Time at which the credits for all admitted units will have been earned.
    earned_at: f64,
    /// Time at which the next unit may follow at the burst rate.
    next_at: f64,
}

impl Cap {
    /// Returns a cap of `sustained` units a second, and `burst` units a second while credits last
    /// (0, or no more than `sustained`: no bursts). The bucket holds `credits`, of which the share
    /// `left` is there at the start.
    fn new(sustained: f64, burst: f64, credits: f64, left: f64) -> Self {
        let ns = |rate: f64| 1e9 / rate;
        let bursts = burst > sustained;
        let bucket = if bursts { credits * ns(sustained) } else { 0.0 };
        Self {
            sustained: ns(sustained),
            burst: ns(burst.max(sustained)),
            bucket,
            earned_at: bucket * (1.0 - left),
            next_at: 0.0,
        }
    }

    /// Returns when a request of `units` units that arrives at `now` may start, in nanoseconds:
    /// when the burst rate allows the next one and there are credits for it. Charges the units
    /// against both.
    fn admit(&mut self, now: f64, units: f64) -> f64 {
        let credit = self.earned_at.max(now) - self.bucket;
        let start = now.max(self.next_at).max(credit);
        self.next_at = start + units * self.burst;
        self.earned_at = self.earned_at.max(now) + units * self.sustained;
        start
    }
}

/// The state of a volume.
#[derive(Debug, Clone)]
pub(super) struct CloudVolume {
    requests: Cap,
    bytes: Cap,
    latency: f64,
    jitter: f64,
    unit: u32,
    depth: u32,
    queues: u32,
    max_request_blocks: u32,
}

impl Model for CloudVolume {
    /// Returns a volume by its model parameters: one cap on requests a second and one on bytes a
    /// second, each with a bucket of credits for bursts.
    fn new(_: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        let p = &params.disks.cloud_volume;
        let left = p.volume_credits_left;
        Self {
            requests: Cap::new(
                p.volume_iops,
                p.volume_burst_iops,
                p.volume_burst_credits,
                left,
            ),
            bytes: Cap::new(
                p.volume_bandwidth * 1e6,
                p.volume_burst_bandwidth * 1e6,
                p.volume_burst_bytes,
                left,
            ),
            latency: p.volume_latency,
            jitter: p.volume_jitter,
            unit: whole_blocks(p.volume_io_unit),
            depth: p.volume_queue_depth as u32,
            queues: p.volume_queues as u32,
            max_request_blocks: whole_blocks(params.max_request),
        }
    }

    /// Returns the nanoseconds from `now` until the transfer `t` is complete: the wait until both
    /// caps admit it, and a random latency. A large transfer counts as several requests.
    fn service(&mut self, now: u64, t: &Transfer, _: u32, rng: &mut Rng) -> u64 {
        let at = now as f64;
        let counted = t.blocks.div_ceil(self.unit);
        let start = self.requests.admit(at, f64::from(counted));
        let start = start.max(self.bytes.admit(at, f64::from(t.blocks) * BLOCK));
        (start - at + self.latency * rng.noise(self.jitter)) as u64
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn queues(&self) -> u32 {
        self.queues
    }

    fn max_request_blocks(&self) -> u32 {
        self.max_request_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dir, DiskKind};
    use super::*;
    use crate::spec::Size;

    const S: u64 = 1_000_000_000;

    fn volume(set: &[(&str, f64)]) -> CloudVolume {
        let mut params = Params::default();
        for (name, value) in [("volume_jitter", 0.0)].iter().chain(set) {
            params.set(name, *value).expect("a row of the table");
        }
        let spec = DiskSpec::new(DiskKind::Volume, Size(1 << 37));
        CloudVolume::new(&spec, &params, &mut Rng::new(1, "test"))
    }

    /// Keeps `deep` requests of `blocks` blocks outstanding until `end`; returns how many ended in
    /// each second.
    fn rates(v: &mut CloudVolume, deep: usize, blocks: u32, end: u64) -> Vec<u64> {
        let mut rng = Rng::new(1, "load");
        let mut out = std::collections::BinaryHeap::from(vec![std::cmp::Reverse(0); deep]);
        let mut rates = vec![0; (end / S) as usize];
        loop {
            let std::cmp::Reverse(now) = out.pop().expect("some are out");
            if now >= end {
                return rates;
            }
            rates[(now / S) as usize] += 1;
            let t = Transfer {
                dir: Dir::Read,
                block: 7,
                blocks,
            };
            out.push(std::cmp::Reverse(now + v.service(now, &t, 1, &mut rng)));
        }
    }

    #[test]
    fn one_at_a_time_takes_the_latency() {
        let mut v = volume(&[]);
        let rates = rates(&mut v, 1, 1, 2 * S);
        assert!(rates.iter().all(|n| (1427..=1430).contains(n)), "{rates:?}");
    }

    #[test]
    fn caps_hold_by_requests_and_by_bytes() {
        let second = |blocks, set: &[(&str, f64)]| rates(&mut volume(set), 64, blocks, 3 * S)[2];
        assert!((2999..=3001).contains(&second(1, &[])));
        // 131 MB/s of 64 KiB; each request of 512 KiB counts twice, and there the byte cap is the
        // limit.
        assert!((1998..=2000).contains(&second(16, &[])));
        assert!((249..=251).contains(&second(128, &[])));
        let wide = [("volume_bandwidth", 10_000.0)];
        assert!((1499..=1501).contains(&second(128, &wide)));
    }

    /// gp2 of 100 GiB with a small bucket: 3,000 a second for `credits / (3000 − 300)` seconds,
    /// then 300. Idle time earns credits again.
    #[test]
    fn bursts_last_as_long_as_credits() {
        let set = [
            ("volume_iops", 300.0),
            ("volume_burst_iops", 3000.0),
            ("volume_burst_credits", 27_000.0),
        ];
        let mut v = volume(&set);
        let seen = rates(&mut v, 32, 1, 20 * S);
        assert!(
            seen[1..9].iter().all(|n| (2999..=3001).contains(n)),
            "{seen:?}"
        );
        assert!(
            seen[11..].iter().all(|n| (299..=301).contains(n)),
            "{seen:?}"
        );
        // Ten seconds of rest earn 3,000 credits: one second's burst and a little.
        let mut rng = Rng::new(1, "rest");
        let t = Transfer {
            dir: Dir::Write,
            block: 0,
            blocks: 1,
        };
        let mut let_through = |now: u64| v.service(now, &t, 1, &mut rng) < 800_000 + S / 3000;
        let early = (0..4000).take_while(|i| let_through(31 * S + i * S / 3000));
        let n = early.count();
        assert!((3200..3700).contains(&n), "{n}");
        let mut empty = volume(&[&set[..], &[("volume_credits_left", 0.0)]].concat());
        assert!((299..=301).contains(&rates(&mut empty, 32, 1, 3 * S)[2]));
    }
}
