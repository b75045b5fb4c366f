//! Workload programs, written once against [`Host`] and run in every world.
//!
//! [`parse`] reads a shell command line such as
//! `dd if=/dev/zero of=zeroes bs=32k count=$((10 << 15))` into a [`Script`]; whoever has a
//! [`Host`] executes its steps with [`Command::run`]. A [`Replay`] makes a script of a recorded
//! trace, [`fio::parse`] one of a fio job file. What the processes of one run share is its [`Session`].
#![forbid(unsafe_code)]

mod arithmetic;
pub mod bound;
pub mod burst;
pub mod command;
pub mod dd;
pub mod desktop;
pub mod fio;
pub mod fs_mark;
pub mod host;
pub mod mapped_file_stream;
pub mod measure;
pub mod mmap_strm;
pub mod replay;
pub mod session;
pub mod shell;
pub mod simoop;
pub mod sleep;
#[cfg(test)]
mod testing;
pub mod tiobench;
mod tree;

pub use command::{Command, CommandError, ExistingFile, Process, Report, Script, Step, parse};
pub use host::{
    Advice, Cpus, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Pages, Stat, Usage, Word,
};
pub use replay::{Replay, Timing};
pub use session::Session;
