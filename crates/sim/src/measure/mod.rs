//! What is seen of a run: sums kept as it goes (`account`, `waiting`, `latency`, `slowest`), series
//! (`sample`), the harness beside it (`monitors`), and the result that all of it ends in.

pub mod account;
pub mod ftrace;
pub mod latency;
pub(crate) mod monitors;
pub mod perfetto;
pub mod result;
pub mod sample;
pub mod slowest;
pub mod stack;
pub mod stored;
pub mod waiting;
