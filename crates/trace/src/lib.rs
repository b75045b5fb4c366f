#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod blkparse;
mod columns;
mod convert;
pub mod damage;
mod error;
mod fio_iolog;
mod fixed;
mod format;
pub mod generate;
mod guess;
mod input;
mod layout;
mod msr;
mod number;
mod object_csv;
mod objects;
mod oracle_general;
pub mod random;
mod reader;
mod record;
mod strace;
mod survey;
mod tables;
mod unpack;
pub mod write;

pub use crate::input::BLOCK;
pub use convert::Pages;
pub use error::TraceError;
pub use format::{Format, Reason};
pub use guess::Guess;
pub use layout::Layout;
pub use objects::Unit;
pub use reader::{Options, Reader};
pub use record::{MAX_FILE, NO_LATENCY, Op, Record};
pub use survey::{FileUse, ProcessUse, Survey};
pub use unpack::is_packed;
