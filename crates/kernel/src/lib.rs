//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`.

pub mod build;
pub mod image;
pub mod initramfs;
pub mod spec;

pub use spec::Kernel;
