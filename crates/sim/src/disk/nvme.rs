//! An NVMe drive: the flash drive of `ssd.rs` with more dies, a wider interface, a larger buffer and
//! a queue a thousand deep.

use super::ssd::{Figures, FlashDrive};
use crate::params::Params;

pub(super) fn new(params: &Params) -> FlashDrive {
    FlashDrive::new(&Figures {
        dies: params.nvme_dies,
        flash_page: params.nvme_flash_page,
        read_ns: params.nvme_read,
        program_ns: params.nvme_program,
        erase_ns: params.nvme_erase,
        block_pages: params.nvme_block_pages,
        command_ns: params.nvme_command,
        interface_mb_s: params.nvme_bandwidth,
        write_buffer: params.nvme_write_buffer,
        fill: params.nvme_fill,
        noise: params.nvme_sigma,
        queue_depth: params.nvme_queue_depth,
        max_request: params.max_request,
    })
}
