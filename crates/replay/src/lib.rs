#![doc = include_str!("../README.md")]
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
