#![doc = include_str!("../README.md")]

#[cfg(target_os = "linux")]
pub mod groups;
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

/// Returns the value `name` of the text of `/proc/meminfo`, in kB; `None` if it is missing.
#[cfg(target_os = "linux")]
pub fn meminfo(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().trim_end_matches("kB").trim().parse().ok()
}
