//! A light cache simulator: a trace against a policy of [`evict`] and a number of frames.
//!
//! It has no zones, CPUs or filesystems, so it takes tens of nanoseconds a request where the engine
//! takes hundreds. There are three ways through a trace:
//!
//! | way | for | memory |
//! |---|---|---|
//! | [`stream`] | one policy, one size: requests go from the reader's batch into the cache | the cache |
//! | [`Dense`] and [`Cache`] | many sizes: objects are numbered once, then a table finds their slots without hashing | 4 bytes a request, 4 an object and cache |
//! | [`stack`] | LRU, every size in one pass | 12 bytes an object |
//!
//! [`WriteCache`] adds dirty pages, their limits and writing them back. [`curve`] puts it together:
//! policies by sizes on all cores, the same figures for any number of them.
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
