//! Wait queues of the world, counted from [`SimWorld::queue_base`](super::SimWorld::queue_base).

/// Requests to the daemons of filesystems.
pub const DAEMON: u32 = 0;
/// Completion of the workload's processes.
pub const PROCESS_DONE: u32 = 1;
/// Metadata writes that nobody waits for.
pub const JOURNAL: u32 = 2;
/// A process was forked.
pub const FORK: u32 = 3;
/// A forked process ended.
pub const EXIT: u32 = 4;
/// Workers that make room in a filesystem's trees.
pub const ROOM: u32 = 5;
/// The worker behind reads whose pages end together.
pub const READ_ENDS: u32 = 6;
/// Per-task raw I/O and answers of daemons start here.
pub const TASK: u32 = 7;

/// Waiters for a request of a device's class, in a world with room for so many tasks.
pub fn request(tasks: u32, device: u32, class: u32) -> u32 {
    TASK + tasks + device * 2 + class
}

/// Writers that a device's throttle holds back, by its room, in a world with so many tasks and devices.
pub fn throttled(tasks: u32, devices: u32, device: u32, room: u32) -> u32 {
    request(tasks, devices, 0) + device * 2 + room
}

/// Those who wait for a journal's transactions.
pub fn transaction(tasks: u32, devices: u32) -> u32 {
    throttled(tasks, devices, devices, 0)
}

/// The worker that gives a device its next requests.
pub fn kblockd(tasks: u32, devices: u32) -> u32 {
    transaction(tasks, devices) + 1
}

/// The thread that commits the journal of a filesystem on a volume.
pub fn jbd2(tasks: u32, devices: u32, volume: u32) -> u32 {
    kblockd(tasks, devices) + 1 + volume
}

/// Those who end the writeback of a filesystem's new blocks.
pub fn conversions(tasks: u32, devices: u32, volume: u32) -> u32 {
    jbd2(tasks, devices, devices) + volume
}

/// All of a world with room for so many tasks and so many devices, of which a volume has one or more.
pub fn count(tasks: u32, devices: u32) -> u32 {
    conversions(tasks, devices, devices)
}
