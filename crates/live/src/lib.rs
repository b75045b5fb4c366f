#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod admission;
mod ahead;
mod arena;
mod async_file;
mod balloon;
mod blocking;
mod buffer;
mod cache;
mod calls;
mod class;
mod config;
mod cpu;
mod daemons;
mod error;
mod errseq;
mod events;
mod file;
mod fold;
mod fork;
mod handle;
mod inner;
mod io;
mod latency;
mod listen;
mod map;
mod metrics;
mod open_file;
mod opening;
mod page;
mod page_size;
mod record;
mod runner;
mod shared;
mod shrink;
mod stats;
pub mod storage;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod uring;
mod wait;
mod world;

pub use ahead::Advice;
pub use async_file::{AsyncFile, PageOwned};
pub use buffer::{Buffer, Registration};
pub use cache::Cache;
pub use class::{Class, ClassStats, Held, Marks};
pub use config::{Config, Notice, OnLoss, OnNotice, Transfers};
pub use error::Error;
pub use events::{Events, Traced, Tracing, Who};
pub use handle::File;
pub use latency::{Latencies, Latency};
pub use mm::Policy;
pub use mm::policy::Eviction;
pub use mm::world::event::Event;
pub use page::{PageMut, PageRef};
pub use record::{Recorded, Recording};
pub use rustix::io::Errno;
pub use shrink::Shrinker;
pub use stats::{Shutdown, Stats};
pub use storage::OpenOptions;
pub use world::{LiveLock, LiveWorld};

/// The engine in the live world.
type LiveMm = mm::Mm<LiveWorld>;
