//! The state shown in a frame, for every world. A figure that the world does not report is `None`,
//! and shown as `unsupported`.

/// A zone. Counts are pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// The zone's name, after the node's number on machines with several nodes.
    pub name: String,
    /// Free pages (`free` of `/proc/zoneinfo`).
    pub free: f64,
    /// The watermarks min, low and high with boost, which the kernel compares with `free`.
    pub marks: [f64; 3],
}

/// Dirty pages and their limits. Counts are pages, rates pages per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Dirty {
    /// `nr_dirty` of `/proc/vmstat`.
    pub dirty: Option<f64>,
    /// `nr_writeback`.
    pub writeback: Option<f64>,
    /// `nr_dirty_background_threshold`.
    pub background: Option<f64>,
    /// `nr_dirty_threshold`.
    pub limit: Option<f64>,
    /// Pages dirtied per second (`nr_dirtied`).
    pub dirtied: Option<f64>,
    /// Pages written per second (`nr_written`).
    pub written: Option<f64>,
}

/// The work of kswapd or of direct reclaim, in pages per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Class {
    /// Pages scanned (`pgscan_*`).
    pub scanned: Option<f64>,
    /// Pages reclaimed (`pgsteal_*`).
    pub freed: Option<f64>,
}

/// Reclaim. All figures are per second, and pages unless stated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reclaim {
    /// kswapd.
    pub kswapd: Class,
    /// Direct reclaim.
    pub direct: Class,
    /// Both together, for worlds that do not distinguish them.
    pub both: Class,
    /// Entries into direct reclaim (`allocstall*`).
    pub stalls: Option<f64>,
    /// Refaults of file pages (`workingset_refault_file`, before 5.9 `workingset_refault`).
    pub refaults_file: Option<f64>,
    /// Refaults of anonymous pages.
    pub refaults_anon: Option<f64>,
    /// `pswpin`.
    pub swap_in: Option<f64>,
    /// `pswpout`.
    pub swap_out: Option<f64>,
    /// Pages written by reclaim itself (`nr_vmscan_write`).
    pub written: Option<f64>,
}

impl Reclaim {
    /// Returns true if no figure of reclaim is reported, except possibly `both`.
    pub fn is_silent(&self) -> bool {
        let both = self.both;
        *self
            == Self {
                both,
                ..Self::default()
            }
    }
}

/// Tasks that wait for the same thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The number of tasks.
    pub tasks: u32,
    /// The tasks' name; empty if only their number is known.
    pub who: String,
    /// The place of the wait, in the world's own words: a function of the kernel, a kind of wait of
    /// the engine. `None`: not reported.
    pub on: Option<String>,
    /// The meaning of that place.
    pub means: &'static str,
}

/// Pressure on one resource: shares of time, from 0 to 1, over the last ten seconds (for simulated
/// runs and guests: since the previous moment).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// At least one task was stalled.
    pub some: Option<f64>,
    /// All tasks were stalled.
    pub full: Option<f64>,
}

/// The resources, in the order of [`Moment::pressure`].
pub const PRESSURES: [&str; 3] = ["memory", "io", "cpu"];

/// A disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// The disk's name.
    pub name: String,
    /// Megabytes written per second.
    pub write: Option<f64>,
    /// Megabytes read per second.
    pub read: Option<f64>,
    /// Requests in flight.
    pub queue: Option<f64>,
}

/// Times of one kind in a live cache since the previous moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// The operation: `hit`, `miss`, `write`, `throttle`, `allocation`, `fsync`.
    pub name: &'static str,
    /// Operations timed per second.
    pub timed: f64,
    /// The 99th and 99.9th percentiles in seconds; `None`: nothing was timed.
    pub shares: [Option<f64>; 2],
}

/// The state at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Seconds since the start of looking, recording or the workload.
    pub at: f64,
    /// Zones with memory; empty if not reported.
    pub zones: Vec<Zone>,
    /// Dirty pages.
    pub dirty: Dirty,
    /// Reclaim since the previous moment.
    pub reclaim: Reclaim,
    /// The share of a CPU that kswapd used.
    pub kswapd_cpu: Option<f64>,
    /// Waiting tasks, the largest group first; `None`: not reported.
    pub waits: Option<Vec<Wait>>,
    /// Pressure, see [`PRESSURES`].
    pub pressure: [Pressure; 3],
    /// Disks, the most likely one first.
    pub disks: Vec<Disk>,
    /// Latencies of a live cache; empty for other worlds.
    pub latencies: Vec<Latency>,
}
