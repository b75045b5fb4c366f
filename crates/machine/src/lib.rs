#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod capture;
pub mod describe;
pub mod dmesg;
pub mod era;
pub mod parse;
pub mod probe;
pub mod root;
pub mod verify;

pub use capture::Captured;
pub use root::{ReadError, Root};
