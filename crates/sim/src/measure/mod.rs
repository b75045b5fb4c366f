//! Measurements of a run: sums kept as it runs (`account`, `waiting`, `latency`, `slowest`), series
//! (`sample`), the test harness beside it (`monitors`), and the result that holds all of these.

pub mod account;
pub mod ftrace;
pub(crate) mod groups;
pub mod latency;
pub(crate) mod monitors;
pub mod perfetto;
pub mod result;
pub mod sample;
pub mod slowest;
pub mod stack;
pub mod stored;
pub mod waiting;
