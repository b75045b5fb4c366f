//! Workload programs, written once against [`Host`] and run in every world.
//!
//! [`parse`] reads a shell command line such as
//! `dd if=/dev/zero of=zeroes bs=32k count=$((10 << 15))` into a [`Script`]; whoever has a
//! [`Host`] executes its steps with [`Command::run`].
#![forbid(unsafe_code)]

mod arithmetic;
pub mod command;
pub mod dd;
pub mod host;
pub mod shell;
#[cfg(test)]
mod testing;

pub use command::{Command, CommandError, Process, Report, Script, Step, parse};
pub use host::{Fd, Host, HostError, HostResult, OpenFlags};
