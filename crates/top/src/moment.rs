//! What a frame shows, of whatever world. A figure that the world does not tell is `None`, and shown as
//! `unsupported`.

/// A zone. Counts are pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// Its name; of a machine with several nodes with the node's number before it.
    pub name: String,
    /// Free pages (`free` of `/proc/zoneinfo`).
    pub free: f64,
    /// The watermarks min, low and high, boost included: what the kernel compares `free` with.
    pub marks: [f64; 3],
}

/// Dirty pages and what they are held against. Counts are pages, rates pages a second.
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
    /// Pages that became dirty (`nr_dirtied`).
    pub dirtied: Option<f64>,
    /// Pages that were written (`nr_written`).
    pub written: Option<f64>,
}

/// One who reclaims. Pages a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Class {
    /// Pages that it looked at (`pgscan_*`).
    pub scanned: Option<f64>,
    /// Pages that it freed (`pgsteal_*`).
    pub freed: Option<f64>,
}

/// Reclaim. Everything is a second, pages where nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reclaim {
    /// kswapd.
    pub kswapd: Class,
    /// Tasks that reclaim for themselves.
    pub direct: Class,
    /// Both together, where they are not told apart.
    pub both: Class,
    /// Allocations that reclaimed directly (`allocstall*`), times a second.
    pub stalls: Option<f64>,
    /// Refaults of files' pages (`workingset_refault_file`, before 5.9 `workingset_refault`).
    pub refaults_file: Option<f64>,
    /// Refaults of anonymous pages.
    pub refaults_anon: Option<f64>,
    /// `pswpin`.
    pub swap_in: Option<f64>,
    /// `pswpout`.
    pub swap_out: Option<f64>,
    /// Pages that reclaim wrote itself (`nr_vmscan_write`).
    pub written: Option<f64>,
}

impl Reclaim {
    /// Whether nothing of it is told, but for both together.
    pub fn is_silent(&self) -> bool {
        let both = self.both;
        *self
            == Self {
                both,
                ..Self::default()
            }
    }
}

/// Tasks that wait for the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// How many.
    pub tasks: u32,
    /// Who, by name; empty where only the number is known.
    pub who: String,
    /// What for, in the world's own words: a function of the kernel's, a kind of wait of the engine's. `None`: it
    /// is not told.
    pub on: Option<String>,
    /// What that means.
    pub means: &'static str,
}

/// Pressure of one resource: shares of the time, from 0 to 1, of the last ten seconds (of a simulated or guest's run: since
/// the moment before).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// Some task stood still for it.
    pub some: Option<f64>,
    /// All tasks did.
    pub full: Option<f64>,
}

/// What pressure is told of, in the order of [`Moment::pressure`].
pub const PRESSURES: [&str; 3] = ["memory", "io", "cpu"];

/// A disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Megabytes written a second.
    pub write: Option<f64>,
    /// Megabytes read a second.
    pub read: Option<f64>,
    /// Requests under way.
    pub queue: Option<f64>,
}

/// Times of one kind that a live cache took since the moment before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Of what: `hit`, `miss`, `write`, `throttle`, `allocation`, `fsync`.
    pub name: &'static str,
    /// How many a second were timed.
    pub timed: f64,
    /// Seconds that 99 % and 99.9 % of them were no longer than; `None`: there was none.
    pub shares: [Option<f64>; 2],
}

/// What is known at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Seconds since looking, recording or the workload began.
    pub at: f64,
    /// Zones with memory; none where they are not told.
    pub zones: Vec<Zone>,
    /// Dirty pages.
    pub dirty: Dirty,
    /// Reclaim since the moment before.
    pub reclaim: Reclaim,
    /// What share of a CPU kswapd took.
    pub kswapd_cpu: Option<f64>,
    /// Who waits, most tasks first; `None`: it is not told.
    pub waits: Option<Vec<Wait>>,
    /// Pressure, see [`PRESSURES`].
    pub pressure: [Pressure; 3],
    /// Disks, the most likely one first.
    pub disks: Vec<Disk>,
    /// How long calls took, of a live cache; none of other worlds.
    pub latencies: Vec<Latency>,
}
