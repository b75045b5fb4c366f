#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod ghost;
mod index;
mod lists;
mod policy;
pub mod registry;
mod sketch;

pub use ghost::Ghost;
pub use index::{End, Index, MOST};
pub use lists::Lists;
pub use policy::{AnyPolicy, Dirty, Policy, Slot};
pub use registry::types::*;
pub use sketch::Sketch;
