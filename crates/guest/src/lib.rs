//! What runs inside of a real kernel: the programs of `workload`, over system calls.
//!
//! The kernel world boots a guest whose only process is `lowmark-guest`. It reads its [`wire::Job`]
//! from the initramfs, sets the machine up, runs the script and tells the host what it sees, in
//! [`wire::Frame`]s over a terminal that passes the page cache by.
//!
//! Two processes share that work ([`init`], [`programs`]): the first one looks at the machine and is locked
//! in memory; the programs are threads of a second one, which the kernel may swap out or kill as any.

#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
pub mod init;
pub mod job;
#[cfg(target_os = "linux")]
pub mod looks;
#[cfg(target_os = "linux")]
pub mod programs;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
pub mod tracing;
pub mod wire;

/// A value of /proc/meminfo, in kB.
#[cfg(target_os = "linux")]
pub(crate) fn meminfo(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().trim_end_matches("kB").trim().parse().ok()
}
