//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`. And [`running`]: the Linux that we run on, recorded in the same words.

pub mod build;
pub mod calendar;
pub mod collect;
pub mod disk;
pub mod events;
pub mod guest;
pub mod image;
pub mod initramfs;
mod layout;
pub mod proc;
pub mod process;
pub mod run;
pub mod running;
mod seat;
pub mod server;
pub mod shell;
pub mod spec;
pub mod store;
pub mod virtio;

pub use guest_binary::guest_binary;
pub use run::{HostUse, PATIENCE, Refused, owned, refuses, run};
pub use spec::Kernel;
