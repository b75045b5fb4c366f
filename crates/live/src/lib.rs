//! The live world: the engine on OS threads, in real time, with real pages and files.
//!
//! [`Cache`] is a page cache over ordinary files with a hard bound on its memory. The engine beneath
//! is the one of the virtual world, to the letter: kswapd, direct reclaim, the flusher and the
//! throttling of writers are its loops, run by threads.
//!
//! # How a thread is a task
//!
//! A call runs the engine's future on the calling thread ([`cpu`]). While it executes it holds one of
//! the CPU slots; where the engine waits, or a file is read or written, it gives the slot back. The
//! engine's words are atomics with one order of all operations, its short locks are mutexes, its
//! wait queues count their wakes ([`wait`]). Pages and the rule for their bytes: [`arena`].
//!
//! # Limits
//!
//! One node, one zone, one device; no swap, no mmap, no page tracker, no trace events. A file's
//! number is never used again, so [`Config::max_files`] bounds the files ever opened. Readers of the
//! same page take turns.
//!
//! ```
//! let dir = std::env::temp_dir().join(format!("live-doc-{}", std::process::id()));
//! let cache = live::Cache::new(live::Config { memory: 8 << 20, ..Default::default() })?;
//! let file = cache.open(&dir)?;
//! file.write(4090, b"over a page's edge")?;
//! let mut back = [0; 4];
//! assert_eq!(file.read(4095, &mut back)?, 4);
//! assert_eq!(&back, b"a pa");
//! file.fsync()?;
//! assert_eq!(cache.shutdown().lost_pages, 0);
//! # std::fs::remove_file(dir).ok();
//! # Ok::<(), live::Error>(())
//! ```
#![deny(unsafe_code)]

pub mod arena;
mod cache;
pub mod cpu;
mod file;
mod sync;
pub mod wait;
mod world;

pub use cache::{Cache, Config, File, Shutdown, Stats};
pub use file::Error;
pub use world::{LiveLock, LiveWorld};

/// The engine in the live world.
pub type LiveMm = mm::Mm<LiveWorld>;
