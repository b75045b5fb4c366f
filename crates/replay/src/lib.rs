//! A light cache simulator: runs a trace against a policy of [`evict`] and a number of frames.
//!
//! It has no zones, CPUs or filesystems, so it takes tens of nanoseconds a request where the engine
//! takes hundreds. There are three ways to process a trace:
//!
//! - [`stream`]: one policy at one size. Requests go from the reader's batch into the cache, which
//!   is all that memory has to hold.
//! - [`Dense`] and [`Cache`]: many sizes. Objects are numbered once, and then a table finds their
//!   slots without hashing. Memory: 4 bytes a request, and 4 for each object and cache.
//! - [`stack`]: LRU at every size in one pass. Memory: 12 bytes an object.
//!
//! [`WriteCache`] adds dirty pages, their limits and writeback. [`curve`] combines all: policies by
//! sizes on all cores, with the same figures for any number of cores.
#![forbid(unsafe_code)]

pub mod bench;
mod budget;
mod cache;
pub mod curve;
mod dense;
pub mod opt;
mod policies;
mod requests;
mod sample;
mod sampled;
mod sizes;
pub mod stack;
mod stream;
mod touched;
mod writes;

pub use budget::Budget;
pub use cache::{BLOCK, Cache, Counts, Guesses, Map, Table};
pub use dense::{Dense, Event};
pub use policies::{find, names, policies};
pub use requests::{PAGE, Unit};
pub use sample::{LEAST_OBJECTS, Sample, SampleError};
pub use sampled::{Bound, LEAST_SLOTS, SampleFacts};
pub use sizes::{Sizes, SizesError};
pub use stream::{stream, stream_with_writes};
pub use writes::{WriteCache, WriteCounts, WriteModel};
