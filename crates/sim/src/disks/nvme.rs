//! An NVMe drive: the flash drive of `flash.rs` with more dies, a wider interface, a larger buffer and
//! queues a thousand deep, one a CPU.

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
        nvme_fill: "fraction" = 0.7, 0.0 => 0.97, "share of the flash that holds live data";
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

/// A drive.
pub(super) type Nvme = Drive<Figures>;

impl Flash for Figures {
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
            noise: p.nvme_sigma,
            queue_depth: p.nvme_queue_depth,
            queues: p.nvme_queues,
            max_request: params.max_request,
        }
    }
}
