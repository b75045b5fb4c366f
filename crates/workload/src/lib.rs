//! Workload programs, written once against [`Host`] and run in every world.
//!
//! [`parse`] reads a shell command line such as
//! `dd if=/dev/zero of=zeroes bs=32k count=$((10 << 15))` into a [`Script`]; whoever has a
//! [`Host`] executes its steps with [`Command::run`]. A [`Replay`] makes a script of a recorded
//! trace, [`fio::parse`] one of a fio job file. What the processes of one run share is its [`Session`].
#![forbid(unsafe_code)]

pub mod fio;
pub mod host;
pub mod measure;
pub mod programs;
pub mod replay;
pub mod script;
pub mod session;
pub mod shell;
#[cfg(test)]
mod testing;

pub use host::{
    Advice, Cpus, Fd, Host, HostError, HostResult, Map, MapId, OpenFlags, Pages, Stat, Usage, Word,
};
pub use replay::{Replay, Timing};
pub use script::{Command, CommandError, ExistingFile, Process, Report, Script, Step, parse};
pub use session::Session;
