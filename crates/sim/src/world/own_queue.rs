//! Wait queues of the world, counted from [`SimWorld::queue_base`](super::SimWorld::queue_base).

/// Requests to the daemons of filesystems.
pub const DAEMON: u32 = 0;
/// Completion of the workload's processes.
pub const PROCESS_DONE: u32 = 1;
/// Metadata writes that no task waits for.
pub const JOURNAL: u32 = 2;
/// A process was forked.
pub const FORK: u32 = 3;
/// A forked process ended.
pub const EXIT: u32 = 4;
/// Workers that free space in a filesystem's trees.
pub const ROOM: u32 = 5;
/// The worker that ends reads whose pages are unlocked together.
pub const READ_ENDS: u32 = 6;
/// First of the per-task queues for raw I/O and answers of daemons.
pub const TASK: u32 = 7;

/// Returns the queue of tasks that wait for a request of a device's class, in a world of `tasks`
/// tasks.
pub fn request(tasks: u32, device: u32, class: u32) -> u32 {
    TASK + tasks + device * 2 + class
}

/// Returns the queue of writers held back by a device's writeback throttle, one queue for each of
/// its `room`s, in a world of `tasks` tasks and `devices` devices.
pub fn throttled(tasks: u32, devices: u32, device: u32, room: u32) -> u32 {
    request(tasks, devices, 0) + device * 2 + room
}

/// Returns the queue of tasks that wait for a journal's transactions.
pub fn transaction(tasks: u32, devices: u32) -> u32 {
    throttled(tasks, devices, devices, 0)
}

/// Returns the queue of the worker that dispatches devices' next requests.
pub fn kblockd(tasks: u32, devices: u32) -> u32 {
    transaction(tasks, devices) + 1
}

/// Returns the queue of the thread that commits the journal of the filesystem on a volume.
pub fn jbd2(tasks: u32, devices: u32, volume: u32) -> u32 {
    kblockd(tasks, devices) + 1 + volume
}

/// Returns the queue of the workers that end the writeback of newly allocated blocks on a volume.
pub fn conversions(tasks: u32, devices: u32, volume: u32) -> u32 {
    jbd2(tasks, devices, devices) + volume
}

/// Returns the number of queues of a world with `tasks` tasks and `devices` devices; a volume has
/// at least one device.
pub fn count(tasks: u32, devices: u32) -> u32 {
    conversions(tasks, devices, devices)
}
