//! The loads of a measurement.

use serde::Serialize;
use sim::block::Dir;
use std::fmt;

/// Bytes of a sequential operation: the largest request of most queues.
pub const STREAM: u64 = 512 << 10;
/// Bytes of a random operation.
pub const RANDOM: u64 = 4096;

/// Operations of one kind, of which `depth` are in flight all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Reads or writes.
    pub dir: Dir,
    /// Operations at random offsets instead of sequential ones.
    pub random: bool,
    /// Operations in flight.
    pub depth: u32,
}

impl Load {
    /// Returns the bytes of an operation.
    pub fn bytes(&self) -> u64 {
        if self.random { RANDOM } else { STREAM }
    }

    /// Returns the unit of its rates.
    pub fn unit(&self) -> &'static str {
        if self.random { "IOPS" } else { "MB/s" }
    }

    /// Returns the rate of so many operations in so many seconds, in the load's unit: IOPS if
    /// random, else MB/s of 1000² bytes.
    pub fn rate(&self, operations: u64, seconds: f64) -> f64 {
        let per_second = operations as f64 / seconds.max(1e-9);
        if self.random {
            per_second
        } else {
            per_second * STREAM as f64 / 1e6
        }
    }
}

impl fmt::Display for Load {
    /// Writes the load as reports show it, such as `random read 4K depth 8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = match self.dir {
            Dir::Read => "read",
            Dir::Write => "write",
        };
        let (kind, size) = if self.random {
            ("random", "4K")
        } else {
            ("sequential", "512K")
        };
        write!(f, "{kind} {dir} {size} depth {}", self.depth)
    }
}

/// The first load: fills the file.
pub const FILL: Load = Load {
    dir: Dir::Write,
    random: false,
    depth: 1,
};

/// Returns the loads after the file is filled, in order: reads before the writes that disturb them.
pub fn loads() -> Vec<Load> {
    let of = |dir, random, depths: &[u32]| {
        let loads = depths.iter().map(move |&depth| Load { dir, random, depth });
        loads.collect::<Vec<_>>()
    };
    [
        of(Dir::Read, false, &[1, 8]),
        of(Dir::Read, true, &[1, 2, 4, 8, 16, 32]),
        of(Dir::Write, true, &[1, 4, 16, 32]),
        of(Dir::Write, false, &[8]),
    ]
    .concat()
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The load.
    pub load: Load,
    /// The number of operations.
    pub operations: u64,
    /// The duration in seconds.
    pub seconds: f64,
    /// Median latency of an operation in nanoseconds.
    pub median_ns: u64,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99_ns: u64,
}

impl Measured {
    /// Returns the rate in the load's unit.
    pub fn rate(&self) -> f64 {
        self.load.rate(self.operations, self.seconds)
    }
}

impl Serialize for Measured {
    /// Serializes the load, its rate with unit, and the counts and latencies of its operations.
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut row = s.serialize_struct("Measured", 7)?;
        row.serialize_field("load", &self.load.to_string())?;
        row.serialize_field("rate", &self.rate())?;
        row.serialize_field("unit", self.load.unit())?;
        row.serialize_field("operations", &self.operations)?;
        row.serialize_field("seconds", &self.seconds)?;
        row.serialize_field("median_ns", &self.median_ns)?;
        row.serialize_field("p99_ns", &self.p99_ns)?;
        row.end()
    }
}
