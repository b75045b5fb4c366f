#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
pub mod fio;
pub mod host;
pub mod measure;
pub mod options;
pub mod program;
pub mod programs;
pub mod recorded;
pub mod report;
pub mod script;
pub mod session;
pub mod shell;
#[cfg(test)]
mod testing;
pub mod units;

pub use error::CommandError;
pub use host::{
    Advice, AnyTask, Cpus, Fd, Host, HostError, HostResult, InodeWalk, Listing, Map, MapId,
    OpenFlags, Pages, Stat, Task, Unmounted, Usage, Word, joined,
};
pub use program::{ExistingFile, Program};
pub use programs::Command;
pub use recorded::{Replay, Timing};
pub use report::{Instance, Metric, Report};
pub use script::{Foreign, Process, Script, Source, Step, parse};
pub use session::Session;
