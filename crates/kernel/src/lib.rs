//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`.

pub mod build;
pub mod calendar;
pub mod collect;
pub mod disk;
pub mod events;
pub mod guest;
pub mod image;
pub mod initramfs;
mod layout;
mod proc;
pub mod process;
pub mod run;
mod seat;
pub mod server;
pub mod shell;
pub mod spec;
pub mod store;
pub mod virtio;

pub use guest_binary::guest_binary;
pub use run::{HostUse, PATIENCE, Refused, refuses, run};
pub use spec::Kernel;
