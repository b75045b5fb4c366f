//! The kernel world: a real Linux, built from a source tree, in virtual time on the modelled disks of
//! `sim`.

pub mod spec;

pub use guest_binary::guest_binary;
pub use spec::Kernel;
