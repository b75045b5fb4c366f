//! Recorded I/O: readers for the formats that people have, and generators of artificial traces.
//!
//! A [`Reader`] turns a file of any [`Format`] into batches of [`Record`]s. It reads in blocks of
//! [`BLOCK`] bytes and keeps nothing of what it has passed but the names of files, the processes
//! and, for `strace`, their descriptors; only [`Unit::Object`] needs memory for every object. A
//! [`Survey`] is one pass over a trace: what a replay has to know before it begins.
//!
//! What is wrong in a trace is a [`TraceError`] with the file and the record. A lenient reader
//! counts and skips such records.
#![forbid(unsafe_code)]

mod blkparse;
pub mod damage;
mod error;
mod fio_iolog;
mod format;
pub mod generate;
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
pub use objects::Unit;
pub use reader::{Options, Reader};
pub use record::{MAX_FILE, NO_LATENCY, Op, Record};
pub use survey::{FileUse, ProcessUse, Survey};
