#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod blkparse;
pub mod damage;
mod error;
mod fio_iolog;
mod format;
pub mod generate;
mod guess;
mod input;
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
pub use error::TraceError;
pub use format::Format;
pub use guess::Guess;
pub use objects::Unit;
pub use reader::{Options, Reader};
pub use record::{MAX_FILE, NO_LATENCY, Op, Record};
pub use survey::{FileUse, ProcessUse, Survey};
pub use unpack::is_packed;
