//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`.

pub mod calendar;
pub mod disk;
pub mod process;
pub mod server;
pub mod spec;
pub mod store;
pub mod virtio;

pub use spec::Kernel;
