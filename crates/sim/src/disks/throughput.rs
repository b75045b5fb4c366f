//! Each kind of device, driven through its queue in simulated time, against the band of its class.

use crate::block::{Bio, Dir, IoContext, Queue, Submit};
use crate::params::Params;
use crate::rng::Rng;
use crate::spec::{DiskKind, DiskSpec, Size};

/// A load of bios of one size that keeps `outstanding` of them in flight.
struct Load {
    kind: DiskKind,
    capacity: u64,
    dir: Dir,
    random: bool,
    blocks: u32,
    outstanding: usize,
    bios: u64,
}

impl Load {
    fn sequential(kind: DiskKind, dir: Dir) -> Self {
        let blocks = if kind == DiskKind::UsbFlash { 30 } else { 128 };
        Self {
            kind,
            capacity: 1 << 40,
            dir,
            random: false,
            blocks,
            outstanding: 64,
            bios: 8000,
        }
    }

    fn random(kind: DiskKind, dir: Dir, outstanding: usize, bios: u64) -> Self {
        Self {
            kind,
            capacity: 1 << 38,
            dir,
            random: true,
            blocks: 1,
            outstanding,
            bios,
        }
    }

    /// Runs the load; returns the completion times of all bios, and the seconds in total.
    fn run(&self, params: &Params, seed: u64) -> (Vec<u64>, f64) {
        let spec = DiskSpec::new(self.kind, Size(self.capacity));
        let mut rng = Rng::new(seed, "disk");
        let mut load = Rng::new(seed, "load");
        let mut queue = Queue::new(&spec, params, &mut rng);
        let mut task = IoContext::default();
        let (mut now, mut submitted, mut out, mut ends) = (0, 0, Vec::new(), Vec::new());
        while (ends.len() as u64) < self.bios {
            while submitted < self.bios && submitted - (ends.len() as u64) < self.outstanding as u64
            {
                let span = queue.capacity_blocks() / u64::from(self.blocks);
                let place = if self.random {
                    load.below(span)
                } else {
                    submitted
                };
                let block = place * u64::from(self.blocks);
                let bio = Bio {
                    tag: submitted,
                    dir: self.dir,
                    sync: false,
                    block,
                    blocks: self.blocks,
                    purpose: Default::default(),
                };
                assert_ne!(queue.submit(now, &mut task, bio), Submit::WouldBlock);
                submitted += 1;
            }
            now = queue.dispatch(now, &mut rng).expect("work is outstanding");
            queue.complete(now, &mut out);
            ends.extend(out.drain(..).map(|_| now));
        }
        (ends, now as f64 / 1e9)
    }

    fn mb_per_s(&self) -> f64 {
        let (_, seconds) = self.run(&Params::default(), 1);
        (self.bios * u64::from(self.blocks)) as f64 * 4096.0 / 1e6 / seconds
    }

    fn iops(&self) -> f64 {
        self.bios as f64 / self.run(&Params::default(), 1).1
    }
}

fn band(what: &str, measured: f64, low: f64, high: f64) {
    println!("{what}: {measured:.3} (band {low} to {high})");
    assert!(
        (low..high).contains(&measured),
        "{what}: {measured}, not in {low}..{high}"
    );
}

#[test]
fn sequential_rates() {
    use DiskKind::{Disk, Nvme, Raid0, Ssd, UsbFlash, Volume};
    let rate = |kind, dir| Load::sequential(kind, dir).mb_per_s();
    band("usb write MB/s", rate(UsbFlash, Dir::Write), 16.9, 17.9);
    band("usb read MB/s", rate(UsbFlash, Dir::Read), 25.0, 35.0);
    band("disk write MB/s", rate(Disk, Dir::Write), 110.0, 130.0);
    band("disk read MB/s", rate(Disk, Dir::Read), 110.0, 130.0);
    band("raid write MB/s", rate(Raid0, Dir::Write), 300.0, 520.0);
    band("ssd write MB/s", rate(Ssd, Dir::Write), 180.0, 260.0);
    band("ssd read MB/s", rate(Ssd, Dir::Read), 250.0, 275.0);
    band("nvme write MB/s", rate(Nvme, Dir::Write), 1000.0, 3200.0);
    band("nvme read MB/s", rate(Nvme, Dir::Read), 2500.0, 3250.0);
    band("volume write MB/s", rate(Volume, Dir::Write), 129.0, 133.0);
    band("volume read MB/s", rate(Volume, Dir::Read), 129.0, 133.0);
}

#[test]
fn random_4k_rates() {
    use DiskKind::{Disk, Nvme, Raid0, Ssd, UsbFlash, Volume};
    let rate = |kind, dir, deep, bios| Load::random(kind, dir, deep, bios).iops();
    band(
        "usb write IOPS",
        rate(UsbFlash, Dir::Write, 1, 300), // each merges a unit
        0.5,
        20.0,
    );
    band(
        "usb read IOPS",
        rate(UsbFlash, Dir::Read, 1, 1000),
        800.0,
        2000.0,
    );
    band(
        "disk read IOPS",
        rate(Disk, Dir::Read, 1, 2000),
        60.0,
        100.0,
    );
    band(
        "disk read IOPS, 64 queued",
        rate(Disk, Dir::Read, 64, 4000),
        100.0,
        250.0,
    );
    band(
        "raid read IOPS, 64 queued",
        rate(Raid0, Dir::Read, 64, 4000),
        250.0,
        900.0,
    );
    band("ssd read IOPS", rate(Ssd, Dir::Read, 1, 5000), 6e3, 12e3);
    band(
        "ssd read IOPS, 64 queued",
        rate(Ssd, Dir::Read, 64, 50_000),
        3e4,
        7e4,
    );
    band(
        "ssd write IOPS, 64 queued",
        rate(Ssd, Dir::Write, 64, 200_000),
        1e4,
        4e4,
    );
    band("nvme read IOPS", rate(Nvme, Dir::Read, 1, 5000), 8e3, 2e4);
    band(
        "nvme read IOPS, 120 queued",
        rate(Nvme, Dir::Read, 120, 100_000),
        3e5,
        8e5,
    );
    band(
        "nvme write IOPS, 120 queued",
        rate(Nvme, Dir::Write, 120, 400_000),
        5e4,
        5e5,
    );
    band(
        "volume read IOPS",
        rate(Volume, Dir::Read, 1, 5000),
        1300.0,
        1500.0,
    );
    band(
        "volume read IOPS, 64 queued",
        rate(Volume, Dir::Read, 64, 10_000),
        2950.0,
        3050.0,
    );
}

/// Random writes of a drive that is filled to 0.7 settle at a share of the fresh drive's rate. Per
/// host page a fresh die programs one page and erases a block for each `pages` of them; with a
/// write amplification of `A` the die also reads and programs `A − 1` other pages, and erases `A`
/// times as often:
///
/// share = (tPROG + tBERS / pages) / (tPROG + (A − 1) (tR + tPROG) + A tBERS / pages)
///
/// with A = α / (α + W(−α exp(−α))), α = (1 + spare) / fill (Desnoyers, SYSTOR 2012). For 7 % of
/// spare flash α is 1.529 and A 1.664 (W from a table), and the share 0.58.
#[test]
fn random_writes_settle_at_the_share_that_collection_leaves() {
    let mut params = Params::default();
    params.disks.nvme.nvme_sigma = 0.0;
    let tenths = |fill: f64| {
        let mut params = params.clone();
        params.disks.nvme.nvme_fill = fill;
        let load = Load::random(DiskKind::Nvme, Dir::Write, 512, 600_000);
        let (ends, _) = load.run(&params, 1);
        let at: Vec<u64> = (0..=10).map(|i| ends[(i * 60_000).min(599_999)]).collect();
        at.windows(2)
            .map(|w| 60_000.0 / ((w[1] - w[0]) as f64 / 1e9))
            .collect::<Vec<f64>>()
    };
    let (fresh, filled) = (tenths(0.0), tenths(0.7));
    let (program, read, erase) = (700.0, 65.0, 5000.0 / 768.0);
    let amplification = 1.664;
    let share = (program + erase)
        / (program + (amplification - 1.0) * (read + program) + amplification * erase);
    // The first tenth fills the buffer.
    for (i, (fresh, filled)) in fresh.iter().zip(&filled).enumerate().skip(2) {
        let seen = filled / fresh;
        assert!(
            (seen / share - 1.0).abs() < 0.03,
            "{i}: {seen}, not {share}"
        );
    }
    // Writes come without gaps: no tenth is far from the others.
    let mean = filled[2..].iter().sum::<f64>() / 8.0;
    assert!(
        filled[2..].iter().all(|r| (r / mean - 1.0).abs() < 0.05),
        "{filled:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_times() {
    for &kind in DiskKind::ALL {
        let load = Load::random(kind, Dir::Read, 64, 500);
        let times = |seed| load.run(&Params::default(), seed).0;
        assert!(
            times(1) == times(1),
            "{kind:?} gave two results for one seed"
        );
        assert!(times(1) != times(2), "{kind:?} doesn't look at its seed");
    }
}
