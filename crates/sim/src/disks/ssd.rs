//! A SATA solid-state drive: the flash drive of `flash.rs` with the figures of 2011.

use super::flash::{Drive, Flash, FlashFigures};
use super::{DiskKind, Fit, Kind, Knob};
use crate::params::{Params, rows};

rows! {
    /// Model parameters of a SATA solid-state drive.
    pub struct Figures {
        ssd_dies: "dies" = 40.0, 1.0 => 512.0, "flash dies that work in parallel: 10 channels of 4, a SATA drive of 2011";
        ssd_flash_page: "bytes" = 8192.0, 4096.0 => 65536.0, "page of 25 nm MLC NAND";
        ssd_read: "ns" = 75000.0, 5000.0 => 1e6, "page read of 25 nm MLC NAND, data sheet";
        ssd_program: "ns" = 1.3e6, 50000.0 => 1e7, "page program of 25 nm MLC NAND, data sheet";
        ssd_erase: "ns" = 3e6, 100000.0 => 2e7, "block erase of 25 nm MLC NAND, data sheet";
        ssd_block_pages: "pages" = 256.0, 16.0 => 4096.0, "pages in an erase block of 25 nm MLC NAND, data sheet";
        ssd_command: "ns" = 20000.0, 1000.0 => 1e6, "controller overhead of one command";
        ssd_bandwidth: "MB/s" = 270.0, 30.0 => 600.0, "SATA 3 Gbit/s payload; data sheets of 2011 drives give 270 MB/s of reads";
        ssd_write_buffer: "bytes" = 2097152.0, 65536.0 => 1073741824.0, "writes acknowledged from the controller's buffer before they are programmed";
        ssd_fill: "fraction" = 0.7, 0.0 => 0.97, "share of the capacity that holds live data; with random writes it sets what garbage collection copies";
        ssd_spare: "fraction" = 0.07, 0.0 => 1.0, "flash beside the capacity, as a share of it: 2^30 bytes of flash for each 10^9 sold are 7 % (Smith, Understanding SSD over-provisioning, Flash Memory Summit 2012)";
        ssd_program_suspend: "ns" = 1e7, 1000.0 => 1e7, "time until a running program operation is suspended for a read; a value longer than a program takes: no suspension, as in drives of 2011 (proposed by Wu and He, FAST 2012)";
        ssd_erase_suspend: "ns" = 2e7, 1000.0 => 2e7, "time until a running erase is suspended for a read; a value longer than an erase takes: no suspension, as in drives of 2011 (proposed by Wu and He, FAST 2012)";
        ssd_progress: "ns" = 100000.0, 0.0 => 1e7, "design: least time that an operation runs between two suspensions, if the drive suspends operations";
        ssd_passing: "reads" = 8.0, 1.0 => 1000.0, "design: greatest number of consecutive reads that pass a waiting program or erase";
        ssd_sigma: "ln" = 0.03, 0.0 => 1.0, "spread of the flash time of one request";
        ssd_queue_depth: "requests" = 32.0, 1.0 => 32.0, "the whole queue of SATA NCQ, as Linux uses it since 4.18 (ATA_MAX_QUEUE; 31 before)";
    }
}

/// A SATA drive among the kinds of disk: the default for devices without distinguishing marks.
pub(super) const KIND: Kind = Kind {
    suits: |disk| disk.one_device() && !disk.rotational && !disk.removable && !disk.nvme(),
    fit: Fit {
        others: &[DiskKind::Nvme],
        knobs: &[
            Knob::Scale("ssd_bandwidth"),
            Knob::Scale("ssd_read"),
            Knob::Scale("ssd_command"),
            Knob::Scale("ssd_dies"),
            Knob::Scale("ssd_program"),
            Knob::Scale("ssd_write_buffer"),
            Knob::OneOf(
                "ssd_queue_depth",
                &[4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 31.0, 32.0],
            ),
        ],
        start: |m, p| {
            let p = &p.disks.ssd;
            vec![
                ("ssd_bandwidth", m.read.max(m.write)),
                ("ssd_read", m.latency_ns * 0.7),
                ("ssd_command", m.latency_ns * 0.2),
                ("ssd_program", m.program_ns(p.ssd_dies, p.ssd_flash_page)),
            ]
        },
        follows: None,
    },
    ..Kind::SINGLE
};

/// The model of a SATA drive.
pub(super) type Ssd = Drive<Figures>;

impl Flash for Figures {
    /// Returns the parameters of SATA drives as the figures of the flash model.
    fn figures(params: &Params) -> FlashFigures {
        let p = &params.disks.ssd;
        FlashFigures {
            dies: p.ssd_dies,
            flash_page: p.ssd_flash_page,
            read_ns: p.ssd_read,
            program_ns: p.ssd_program,
            erase_ns: p.ssd_erase,
            block_pages: p.ssd_block_pages,
            command_ns: p.ssd_command,
            interface_mb_s: p.ssd_bandwidth,
            write_buffer: p.ssd_write_buffer,
            fill: p.ssd_fill,
            spare: p.ssd_spare,
            program_suspend_ns: p.ssd_program_suspend,
            erase_suspend_ns: p.ssd_erase_suspend,
            progress_ns: p.ssd_progress,
            passing: p.ssd_passing,
            noise: p.ssd_sigma,
            queue_depth: p.ssd_queue_depth,
            queues: 1.0,
            max_request: params.max_request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Model, Transfer};
    use super::*;
    use crate::disks::Dir;
    use crate::rng::Rng;
    use crate::spec::DiskSpec;

    fn read(block: u64) -> Transfer {
        Transfer {
            dir: Dir::Read,
            block,
            blocks: 1,
        }
    }

    fn write(block: u64) -> Transfer {
        Transfer {
            dir: Dir::Write,
            block,
            blocks: 128,
        }
    }

    fn drive(fill: Option<f64>) -> (Ssd, Rng) {
        let mut params = Params::default();
        let own = &mut params.disks.ssd;
        own.ssd_sigma = 0.0;
        own.ssd_fill = fill.unwrap_or(own.ssd_fill);
        let spec = DiskSpec::new(DiskKind::Ssd, crate::spec::Size(1 << 37));
        let mut rng = Rng::new(1, "test");
        (Ssd::new(&spec, &params, &mut rng), rng)
    }

    #[test]
    fn an_idle_read_takes_command_sense_and_transfer() {
        let (mut d, mut rng) = drive(None);
        let ns = d.service(0, &read(5), 1, &mut rng);
        assert_eq!(ns, 20_000 + 75_000 + 15_170);
    }

    #[test]
    fn a_read_waits_for_one_program_at_most() {
        let (mut d, mut rng) = drive(None);
        let mut now = 0;
        for i in 0..40 {
            now += d.service(now, &write(i * 128), 1, &mut rng);
        }
        let ns = d.service(now, &read(9_999_999), 1, &mut rng);
        assert!((200_000..1_500_000).contains(&ns), "{ns}");
    }

    /// A drive without suspension: beside random writes that it can hardly keep up with, a read
    /// waits for at most an erase, and never for the collection of a block.
    #[test]
    fn a_read_never_waits_for_a_whole_collection() {
        let (mut d, mut rng) = drive(Some(0.9));
        let (mut now, mut longest) = (0, 0);
        for i in 0..40_000 {
            let t = Transfer {
                blocks: 1,
                ..write(rng.below(1 << 25))
            };
            now += d.service(now, &t, 1, &mut rng);
            if i % 8 == 0 {
                let block = rng.below(1 << 25);
                longest = longest.max(d.service(now, &read(block), 1, &mut rng));
            }
        }
        assert!((1_400_000..3_300_000).contains(&longest), "{longest}");
    }

    #[test]
    fn a_write_is_acknowledged_from_the_buffer() {
        let (mut d, mut rng) = drive(None);
        let t = Transfer {
            dir: Dir::Write,
            block: 7,
            blocks: 1,
        };
        assert!(d.service(0, &t, 1, &mut rng) < 50_000);
    }

    #[test]
    fn a_fuller_drive_collects_more_garbage() {
        let random_write_seconds = |fill| {
            let (mut d, mut rng) = drive(Some(fill));
            let mut now = 0;
            for _ in 0..200_000 {
                let t = Transfer {
                    dir: Dir::Write,
                    block: rng.below(1 << 25),
                    blocks: 1,
                };
                now += d.service(now, &t, 1, &mut rng);
            }
            now as f64 / 1e9
        };
        let (empty, full) = (random_write_seconds(0.3), random_write_seconds(0.95));
        assert!(full > 2.0 * empty, "{empty} {full}");
    }
}
