//! The meaning of the kernel functions in which tasks wait, in the words of the engine's kinds of
//! waits where it has one (`mm::world::tasks`).

/// Beginnings of function names (`/proc/PID/wchan`, in kernels from 3.0 to 6.18) and the reasons
/// for waiting there. The first match counts.
const REASONS: [(&str, &str); 41] = [
    ("balance_dirty_pages", "dirty limit"),
    ("reclaim_throttle", "reclaim throttle"),
    ("throttle_direct_reclaim", "reclaim throttle"),
    ("throttle_vm_writeout", "reclaim throttle"),
    ("congestion_wait", "congestion"),
    ("wait_iff_congested", "congestion"),
    ("shrink_", "reclaim throttle"),
    ("mem_cgroup_handle_over_high", "limit of a memory cgroup"),
    ("folio_wait_writeback", "page writeback"),
    ("wait_on_page_writeback", "page writeback"),
    ("folio_wait_bit", "page lock or writeback"),
    ("wait_on_page_bit", "page lock or writeback"),
    ("__folio_lock", "page lock"),
    ("__lock_page", "page lock"),
    ("sleep_on_page", "page lock or writeback"),
    ("__inode_wait_for_writeback", "inode writeback"),
    ("inode_wait_for_writeback", "inode writeback"),
    ("wb_wait_for_completion", "a sync"),
    ("blk_mq_get_tag", "request"),
    ("get_request", "request"),
    ("rq_qos_wait", "request"),
    ("wbt_wait", "request"),
    ("blk_", "I/O"),
    ("blkdev_", "I/O"),
    ("submit_bio_wait", "I/O"),
    ("io_schedule", "I/O"),
    ("bit_wait_io", "I/O"),
    ("wait_on_buffer", "I/O"),
    ("iomap_dio", "direct I/O"),
    ("jbd2_", "ext4's journal"),
    ("wait_transaction", "ext4's journal"),
    ("start_this_handle", "ext4's journal"),
    ("do_get_write_access", "ext4's journal"),
    ("xlog_", "log force"),
    ("xfs_log_force", "log force"),
    ("xfs_", "XFS"),
    ("btrfs_", "btrfs"),
    ("request_wait_answer", "filesystem daemon"),
    ("rpc_wait_bit", "a server"),
    ("rwsem_", "a lock"),
    ("do_swap_page", "swap"),
];

/// Returns the reason why tasks wait in a function of the kernel, in a few words; empty if unknown.
pub fn of(function: &str) -> &'static str {
    let fits = |(start, _): &&(&str, &str)| function.starts_with(start);
    REASONS.iter().find(fits).map_or("", |(_, means)| means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wait_means_is_said_and_nothing_is_made_up() {
        assert_eq!(of("balance_dirty_pages_ratelimited"), "dirty limit");
        assert_eq!(of("folio_wait_bit_common"), "page lock or writeback");
        assert_eq!(of("blk_mq_get_tag"), "request");
        assert_eq!(of("do_wait"), "");
    }

    #[test]
    fn no_reason_hides_behind_one_before_it() {
        for (i, (name, means)) in REASONS.iter().enumerate() {
            let first = REASONS
                .iter()
                .position(|(start, _)| name.starts_with(start));
            assert_eq!(first, Some(i), "{name}: {means}");
        }
    }
}
