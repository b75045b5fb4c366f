//! An NVMe drive: the flash drive of `flash.rs` with more dies, a wider interface, a larger buffer
//! and queues a thousand requests deep, one per CPU.

use super::flash::{Drive, Flash, FlashFigures};
use super::{DiskKind, Fit, Kind, Knob};
use crate::params::{Params, rows};
use crate::spec::Scheduler;

rows! {
    /// Model parameters of an NVMe drive.
    pub struct Figures {
        nvme_dies: "dies" = 64.0, 1.0 => 1024.0, "flash dies that work in parallel: 8 channels of 8, a PCIe 3 drive";
        nvme_flash_page: "bytes" = 16384.0, 4096.0 => 65536.0, "page of 3D TLC NAND";
        nvme_read: "ns" = 65000.0, 5000.0 => 1e6, "page read of 3D TLC NAND, data sheet";
        nvme_program: "ns" = 700000.0, 50000.0 => 1e7, "page program of 3D TLC NAND, data sheet";
        nvme_erase: "ns" = 5e6, 100000.0 => 2e7, "block erase of 3D TLC NAND, data sheet";
        nvme_block_pages: "pages" = 768.0, 16.0 => 4096.0, "pages in an erase block of 3D TLC NAND, data sheet";
        nvme_command: "ns" = 5000.0, 500.0 => 1e6, "controller overhead of one command";
        nvme_bandwidth: "MB/s" = 3200.0, 100.0 => 16000.0, "PCIe 3.0 with four lanes, payload";
        nvme_write_buffer: "bytes" = 67108864.0, 65536.0 => 1073741824.0, "writes acknowledged from power-protected memory before they are programmed";
        nvme_fill: "fraction" = 0.7, 0.0 => 0.97, "share of the capacity that holds live data; with random writes it sets what garbage collection copies";
        nvme_spare: "fraction" = 0.07, 0.0 => 1.0, "flash beside the capacity, as a share of it: 2^30 bytes of flash for each 10^9 sold are 7 %, data-centre drives for mixed loads have 28 % (Smith, Understanding SSD over-provisioning, Flash Memory Summit 2012)";
        nvme_program_suspend: "ns" = 100000.0, 1000.0 => 1e7, "time until a running program operation is suspended for a read; MQSim (Tavakkol et al., FAST 2018) has 100 us; a value longer than a program takes: no suspension";
        nvme_erase_suspend: "ns" = 700000.0, 1000.0 => 2e7, "time until a running erase is suspended for a read; MQSim (Tavakkol et al., FAST 2018) has 700 us; a value longer than an erase takes: no suspension";
        nvme_progress: "ns" = 100000.0, 0.0 => 1e7, "design: least time that an operation runs between two suspensions, equal to the time of a suspension; controllers suspend again only once an operation has progressed, so that it ends";
        nvme_passing: "reads" = 8.0, 1.0 => 1000.0, "design: greatest number of consecutive reads that pass a waiting program or erase: reads that fill a die leave writes a seventh of its time";
        nvme_sigma: "ln" = 0.03, 0.0 => 1.0, "spread of the flash time of one request";
        nvme_queue_depth: "requests" = 1024.0, 1.0 => 10240.0, "entries of one NVMe submission queue as Linux sizes it (drivers/nvme/host/pci.c io_queue_depth); at most BLK_MQ_MAX_DEPTH";
        nvme_queues: "queues" = 64.0, 1.0 => 64.0, "submission queues that the drive has for I/O; Linux makes one a CPU, and each has the whole depth (drivers/nvme/host/pci.c nvme_setup_io_queues)";
    }
}

/// An NVMe drive among the kinds of disk.
pub(super) const KIND: Kind = Kind {
    scheduler: Scheduler::None,
    suits: |disk| disk.one_device() && disk.nvme(),
    fit: Fit {
        others: &[DiskKind::Ssd],
        knobs: &[
            Knob::Scale("nvme_bandwidth"),
            Knob::Scale("nvme_read"),
            Knob::Scale("nvme_command"),
            Knob::Scale("nvme_dies"),
            Knob::Scale("nvme_program"),
            Knob::Scale("nvme_write_buffer"),
            Knob::OneOf(
                "nvme_queue_depth",
                &[2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 1024.0],
            ),
        ],
        start: |m, p| {
            let p = &p.disks.nvme;
            vec![
                ("nvme_bandwidth", m.read.max(m.write)),
                ("nvme_read", m.latency_ns * 0.8),
                ("nvme_command", m.latency_ns * 0.1),
                ("nvme_program", m.program_ns(p.nvme_dies, p.nvme_flash_page)),
            ]
        },
        follows: None,
    },
    ..Kind::SINGLE
};

/// The model of an NVMe drive.
pub(super) type Nvme = Drive<Figures>;

impl Flash for Figures {
    /// Returns the parameters of NVMe drives as the figures of the flash model.
    fn figures(params: &Params) -> FlashFigures {
        let p = &params.disks.nvme;
        FlashFigures {
            dies: p.nvme_dies,
            flash_page: p.nvme_flash_page,
            read_ns: p.nvme_read,
            program_ns: p.nvme_program,
            erase_ns: p.nvme_erase,
            block_pages: p.nvme_block_pages,
            command_ns: p.nvme_command,
            interface_mb_s: p.nvme_bandwidth,
            write_buffer: p.nvme_write_buffer,
            fill: p.nvme_fill,
            spare: p.nvme_spare,
            program_suspend_ns: p.nvme_program_suspend,
            erase_suspend_ns: p.nvme_erase_suspend,
            progress_ns: p.nvme_progress,
            passing: p.nvme_passing,
            noise: p.nvme_sigma,
            queue_depth: p.nvme_queue_depth,
            queues: p.nvme_queues,
            max_request: params.max_request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dir, Model, Transfer};
    use super::*;
    use crate::rng::Rng;
    use crate::spec::{DiskSpec, Size};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// Makes reads of 4 KiB, one at a time, beside `writes` outstanding random writes, for a second
    /// after one in which the buffer fills. Returns the read times in ascending order, and the
    /// writes per second.
    fn reads_beside(writes: usize) -> (Vec<u64>, f64) {
        const S: u64 = 1_000_000_000;
        let spec = DiskSpec::new(DiskKind::Nvme, Size(1 << 40));
        let mut rng = Rng::new(1, "test");
        let mut d = Nvme::new(&spec, &Params::default(), &mut rng);
        let mut next = BinaryHeap::from(vec![Reverse((0, Dir::Write as u8)); writes]);
        next.push(Reverse((0, Dir::Read as u8)));
        let (mut reads, mut written) = (Vec::new(), 0u64);
        while let Some(Reverse((now, dir))) = next.pop()
            && now < 2 * S
        {
            let dir = if dir == Dir::Read as u8 {
                Dir::Read
            } else {
                Dir::Write
            };
            let t = Transfer {
                dir,
                block: rng.below(1 << 28),
                blocks: 1,
            };
            let ns = d.service(now, &t, 1, &mut rng);
            next.push(Reverse((now + ns, dir as u8)));
            if now >= S {
                match dir {
                    Dir::Read => reads.push(ns),
                    Dir::Write => written += 1,
                }
            }
        }
        reads.sort_unstable();
        (reads, written as f64)
    }

    /// Random writes at full rate keep garbage collection busy on all dies; even so 99 % of reads
    /// take less than half a millisecond, and none more than a suspended erase and a read.
    #[test]
    fn reads_pass_writes_and_collection() {
        let (alone, _) = reads_beside(0);
        let (beside, written) = reads_beside(512);
        assert!(written > 150_000.0, "{written} writes a second");
        let p = |sorted: &[u64], q: usize| sorted[sorted.len() * q / 1000];
        assert!(p(&alone, 990) < 90_000, "{}", p(&alone, 990));
        assert!(
            (90_000..250_000).contains(&p(&beside, 500)),
            "{}",
            p(&beside, 500)
        );
        assert!(p(&beside, 990) < 500_000, "{}", p(&beside, 990));
        assert!(
            *beside.last().expect("reads") < 1_000_000,
            "{:?}",
            beside.last()
        );
    }
}
