//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`.

pub mod build;
pub mod calendar;
pub mod collect;
pub mod disk;
pub mod guest;
pub mod image;
pub mod initramfs;
mod proc;
pub mod process;
pub mod run;
pub mod server;
pub mod spec;
pub mod store;
pub mod virtio;

pub use run::{HostUse, run};
pub use spec::Kernel;

/// Temporary.
pub fn guest_binary() -> Result<&'static [u8], String> {
    static B: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    Ok(B.get_or_init(|| std::fs::read("/work/k/try/lowmark-guest").unwrap()))
}
