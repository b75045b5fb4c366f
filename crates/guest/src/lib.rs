//! What runs inside of a real kernel: the programs of `workload`, over system calls.
//!
//! The kernel world boots a guest whose only process is `lowmark-guest`. It reads its [`wire::Job`]
//! from the initramfs, sets the machine up, runs the script and tells the host what it sees, in
//! [`wire::Frame`]s over a terminal that passes the page cache by.

pub mod wire;
