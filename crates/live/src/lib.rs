//! A page cache for programs: the engine on OS threads, in real time, with real pages and files.
//!
//! [`Cache`] is a page cache over ordinary files with a hard bound on its memory. Its engine is
//! exactly that of the virtual world: kswapd, direct reclaim, the flusher and the throttling of
//! writers are its loops, run by threads. Read-ahead and writeback are done by a ring or by further
//! threads (`io`, `uring`, `daemons`).
//!
//! # How a thread is a task
//!
//! A call runs the engine's future on the calling thread (`cpu`). While the thread executes engine
//! code it holds one of the CPU slots; where the engine waits, or a file is read or written, it
//! gives the slot back. A thread that only reads a cached page is no task: it pins the page
//! (`arena`) and takes no slot and no lock. The engine's words are atomics with one order of all
//! operations, its short locks are mutexes, its wait queues count their wakes (`wait`). `arena` has
//! the pages and the rules for their bytes.
//!
//! Calls that are futures ([`AsyncFile`]) are tasks that share the threads of a runner (`runner`);
//! other threads make the system calls that would block such a thread (`io`, `blocking`).
//!
//! # Guarantees for data
//!
//! - A file is identified by device and inode, not by name: two links are the same pages, and a
//!   file that replaced another under its name is another file.
//! - A page whose write failed is kept, and the next [`File::fsync`] tries again. Until then
//!   further writes to the file are refused ([`Error::Refused`]), so the number of kept pages is
//!   bounded: by half of memory, beyond which data is lost and [`Error::Lost`] reports it.
//! - Each handle is told of an error once, by its next [`File::fsync`], as on Linux since 4.13.
//! - If the device does not confirm a write (fsync(2) fails), the system holds its pages for clean
//!   and a second fsync(2) proves nothing: that is [`Error::Lost`], too.
//! - [`Cache::shutdown`] writes everything and returns what it could not write; a cache that is
//!   merely dropped does the same and calls [`Config::on_loss`].
//!
//! # Limits
//!
//! One node, three classes of memory (`class`), 16 devices told apart; no swap, no mmap, no page
//! tracker. Only regular files, of which the first 16 TiB can be reached. Nothing else may write to
//! a file that the cache knows, not even another cache. A file that loses its last name after it
//! was closed keeps its blocks until the cache needs its number or ends.
//!
//! # No access to the engine
//!
//! The engine's page bits decide who may touch a page's bytes, so a program cannot reach them: it
//! has a read-only [`Cache::view`], and no access to the engine, its page locks or its threads.
//!
//! ```compile_fail,E0599
//! # let cache = lowmark_cache::Cache::new(lowmark_cache::Config::default()).unwrap();
//! cache.engine().unlock_page(0);
//! ```
//!
//! ```compile_fail,E0603
//! use lowmark_cache::arena::Locked;
//! ```
//!
//! ```compile_fail,E0603
//! use lowmark_cache::cpu::Cpus;
//! ```
//!
//! ```
//! let dir = std::env::temp_dir().join(format!("live-doc-{}", std::process::id()));
//! let config = lowmark_cache::Config { memory: 8 << 20, ..Default::default() };
//! let cache = lowmark_cache::Cache::new(config)?;
//! let file = cache.open(&dir)?;
//! file.write(4090, b"over a page's edge")?;
//! let mut back = [0; 4];
//! assert_eq!(file.read(4095, &mut back)?, 4);
//! assert_eq!(&back, b"a pa");
//! file.fsync()?;
//! assert_eq!(cache.shutdown().lost_pages, 0);
//! # std::fs::remove_file(dir).ok();
//! # Ok::<(), lowmark_cache::Error>(())
//! ```
#![deny(unsafe_code)]

mod ahead;
mod arena;
mod async_file;
mod blocking;
mod buffer;
mod cache;
mod class;
mod config;
mod cpu;
mod daemons;
mod errseq;
mod events;
mod file;
mod handle;
mod io;
mod latency;
mod listen;
mod map;
mod metrics;
mod open_file;
mod page;
mod record;
mod runner;
mod shrink;
pub mod storage;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod uring;
mod wait;
mod world;

pub use ahead::Advice;
pub use async_file::{AsyncFile, PageOwned};
pub use buffer::{Buffer, Registration};
pub use cache::{Cache, Shutdown, Stats};
pub use class::{Class, ClassStats, Held, Marks};
pub use config::{Config, Notice, OnLoss, OnNotice, Transfers};
pub use events::{Events, Traced, Tracing, Who};
pub use file::Error;
pub use handle::File;
pub use latency::{Latencies, Latency};
pub use mm::world::event::Event;
pub use page::{PageMut, PageRef};
pub use record::{Recorded, Recording};
pub use rustix::io::Errno;
pub use shrink::Shrinker;
pub use world::{LiveLock, LiveWorld};

/// The engine in the live world.
type LiveMm = mm::Mm<LiveWorld>;
