#![doc = include_str!("../README.md")]

mod bootable;
pub mod build;
pub mod calendar;
pub mod collect;
pub mod disk;
pub mod events;
mod groups;
pub mod guest;
pub mod image;
pub mod initramfs;
mod launch;
mod layout;
pub mod outside;
pub mod proc;
pub mod process;
pub mod qemu;
pub mod run;
pub mod running;
mod seat;
pub mod server;
pub mod shell;
pub mod spec;
pub mod store;
pub mod virtio;

pub use bootable::find_uml;
pub use guest_binary::{guest_binary, includes_guest};
pub use run::{HostUse, PATIENCE, Refused, owned, refuses, run};
pub use spec::{Guest, Kernel};
