//! What is run: machine, disk, filesystem, policy, workload, seed.

use crate::params::{ParamInfo, Params};
use mm::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A number of bytes, written in TOML as an integer or as `"512"`, `"64K"`, `"504M"`, `"16G"`,
/// `"1T"` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema)]
#[schemars(with = "String")]
pub struct Size(pub u64);

impl Size {
    /// Whole 4 KiB pages in this size.
    pub fn pages(self) -> u64 {
        self.0 / 4096
    }

    /// Reads the textual form.
    ///
    /// # Errors
    /// A text that is not a whole number with an optional suffix K, M, G or T (each also with a
    /// trailing `iB`), or one that does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let complaint = || {
            format!(
                "`{text}` is not a size; accepted: a whole number of bytes, or one with the suffix K, M, G or T (powers of 1024), such as \"504M\""
            )
        };
        let body = text.trim();
        let body = body.strip_suffix("iB").unwrap_or(body);
        let (digits, shift) = match body.as_bytes().last() {
            Some(b'K') => (&body[..body.len() - 1], 10),
            Some(b'M') => (&body[..body.len() - 1], 20),
            Some(b'G') => (&body[..body.len() - 1], 30),
            Some(b'T') => (&body[..body.len() - 1], 40),
            _ => (body, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(complaint());
        }
        let n: u64 = digits.parse().map_err(|_| complaint())?;
        n.checked_mul(1 << shift).map(Size).ok_or_else(complaint)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Size;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size in bytes or with a suffix K, M, G, T, such as \"504M\"")
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Size, E> {
                Ok(Size(v))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Size, E> {
                u64::try_from(v)
                    .map(Size)
                    .map_err(|_| E::custom("a size can't be negative"))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Size, E> {
                Size::parse(v).map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        for (shift, suffix) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return s.serialize_str(&format!("{}{suffix}", self.0 >> shift));
            }
        }
        s.serialize_str(&self.0.to_string())
    }
}

/// One memory zone of a node, by the kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// DMA, DMA32, Normal or Movable.
    pub zone: mm::ZoneType,
    /// Size of the zone.
    pub size: Size,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Its zones, lowest first.
    pub zones: Vec<ZoneSpec>,
    /// Its CPUs, from 0 to 63. A CPU that no node names belongs to one node after the other; one
    /// beyond the machine's `cpus` counts for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
}

/// Memory that is in use before the workload starts; taken through the ordinary allocation path,
/// so it lands where a booted Linux has it: in the highest zone first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Boot {
    /// Kernel text, slab, page tables: never reclaimed.
    pub kernel: Size,
    /// What early boot and legacy drivers hold of the DMA zone; never reclaimed.
    pub dma: Size,
    /// Anonymous memory of idle programs.
    pub anon: Size,
    /// Page cache left by booting: clean, read once.
    pub cache: Size,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            kernel: Size(64 << 20),
            dma: Size(1 << 20),
            anon: Size(64 << 20),
            cache: Size(64 << 20),
        }
    }
}

/// A swap area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwapSpec {
    /// Size of the area.
    pub size: Size,
    /// The disk it lies on; absent: the tested disk.
    #[serde(default)]
    pub disk: Option<DiskSpec>,
}

/// The vm sysctls, by their names (docs/reference/writeback.md#sysctls and
/// docs/reference/memory-model.md#watermarks). Absent: the kernel's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sysctl {
    /// Background writeback starts above this share of dirtyable memory, in percent.
    pub dirty_background_ratio: u32,
    /// Dirtiers are throttled at this share of dirtyable memory, in percent.
    pub dirty_ratio: u32,
    /// As the ratio, in bytes; non-zero replaces it.
    pub dirty_background_bytes: Size,
    /// As the ratio, in bytes; non-zero replaces it.
    pub dirty_bytes: Size,
    /// Periodic flusher wake-up in hundredths of a second; 0 disables it.
    pub dirty_writeback_centisecs: u32,
    /// Age at which periodic writeback takes an inode, in hundredths of a second.
    pub dirty_expire_centisecs: u32,
    /// The minimum of free memory in kB; absent: the kernel's formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_kbytes: Option<u64>,
    /// *tunable-watermarks*: the min watermarks of all zones together in kB. Another name of
    /// `min_free_kbytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wmark_min_kbytes: Option<u64>,
    /// *tunable-watermarks*: the low watermarks of all zones together in kB, at least the minimum;
    /// zones share it by size. Absent: by `watermark_scale_factor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wmark_low_kbytes: Option<u64>,
    /// *tunable-watermarks*: the same for the high watermarks, at least the low ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wmark_high_kbytes: Option<u64>,
    /// Distance between a zone's watermarks in ten-thousandths of the zone, 1..=3000, if that is
    /// more than a quarter of the minimum; absent: always the quarter, as before Linux 4.6. With
    /// this key Movable zones have a minimum of their own, as from Linux 6.6 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_scale_factor: Option<u32>,
    /// By how many ten-thousandths of its high watermark a zone's watermarks are boosted at most when
    /// a request has to use pages set aside for others (`mobility = "grouped"`), 0..=100000; 0: not
    /// at all. Absent: not at all, as before Linux 5.0, whose default is 15000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_boost_factor: Option<u32>,
    /// For DMA, DMA32 and Normal: the zone keeps one part in so many of the memory above it free
    /// from requests that could use that memory; 0: none.
    pub lowmem_reserve_ratio: [u32; 3],
    /// Preference for swapping against dropping page cache, 0..=100.
    pub swappiness: u32,
}

impl Default for Sysctl {
    fn default() -> Self {
        let s = mm::Sysctl::KERNEL;
        Self {
            dirty_background_ratio: s.dirty_background_ratio as u32,
            dirty_ratio: s.dirty_ratio as u32,
            dirty_background_bytes: Size(s.dirty_background_bytes),
            dirty_bytes: Size(s.dirty_bytes),
            dirty_writeback_centisecs: s.dirty_writeback_centisecs as u32,
            dirty_expire_centisecs: s.dirty_expire_centisecs as u32,
            min_free_kbytes: s.min_free_kbytes,
            wmark_min_kbytes: s.wmark_min_kbytes,
            wmark_low_kbytes: s.wmark_low_kbytes,
            wmark_high_kbytes: s.wmark_high_kbytes,
            watermark_scale_factor: s.watermark_scale_factor.map(|n| n as u32),
            watermark_boost_factor: None,
            lowmem_reserve_ratio: s.lowmem_reserve_ratio.map(|n| n as u32),
            swappiness: s.swappiness as u32,
        }
    }
}

impl Sysctl {
    /// Takes back what is said of the three watermarks, as writing `min_free_kbytes` does on a running
    /// kernel (*tunable-watermarks*).
    pub fn reset_wmarks(&mut self) {
        self.wmark_min_kbytes = None;
        self.wmark_low_kbytes = None;
        self.wmark_high_kbytes = None;
    }

    /// As the engine takes them.
    pub fn engine(&self) -> mm::Sysctl {
        mm::Sysctl {
            dirty_background_ratio: u64::from(self.dirty_background_ratio),
            dirty_ratio: u64::from(self.dirty_ratio),
            dirty_background_bytes: self.dirty_background_bytes.0,
            dirty_bytes: self.dirty_bytes.0,
            dirty_writeback_centisecs: u64::from(self.dirty_writeback_centisecs),
            dirty_expire_centisecs: u64::from(self.dirty_expire_centisecs),
            min_free_kbytes: self.min_free_kbytes,
            wmark_min_kbytes: self.wmark_min_kbytes,
            wmark_low_kbytes: self.wmark_low_kbytes,
            wmark_high_kbytes: self.wmark_high_kbytes,
            watermark_scale_factor: self.watermark_scale_factor.map(u64::from),
            watermark_boost_factor: self.watermark_boost_factor.map_or(0, u64::from),
            lowmem_reserve_ratio: self.lowmem_reserve_ratio.map(u64::from),
            swappiness: u64::from(self.swappiness),
        }
    }
}

pub use crate::disks::DiskKind;
pub use crate::filesystems::FsKind;

/// A fault that a disk shows at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// Write requests that complete in the given second fail with an I/O error.
    WriteError {
        /// First second of the fault, since the start of the run.
        at_s: f64,
        /// How long it lasts, in seconds.
        for_s: f64,
    },
    /// The disk completes nothing for a while.
    Stall {
        /// Start in seconds since the start of the run.
        at_s: f64,
        /// Duration in seconds.
        for_s: f64,
    },
    /// The disk fails every request from then on.
    Stop {
        /// Start in seconds since the start of the run.
        at_s: f64,
    },
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Its kind.
    pub kind: DiskKind,
    /// Its capacity.
    pub capacity: Size,
    /// Number of disks of a RAID-0 (2..=16).
    #[serde(default)]
    pub members: Option<u32>,
    /// Who decides the order of requests.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Model parameters of this disk that differ from those of the run, by name; see
    /// [`DiskKind::takes`].
    #[serde(default)]
    pub params: BTreeMap<String, f64>,
    /// Injected faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The I/O scheduler of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// One queue in block order; reads pass writes, and nothing waits too long.
    #[default]
    Deadline,
    /// Turns for each reader, idling for it, and one for all writes: the default of 2006 to 2013.
    Cfq,
    /// None: requests go to the device as they come. Reads and writes share the device's
    /// `nr_requests` tags, and its queue is never called congested: blk-mq devices (virtio, NVMe) of
    /// Linux 3.13 to 4.10, which had no choice, and of today where it is chosen.
    None,
}

impl Eq for DiskSpec {}

impl DiskSpec {
    /// A disk with everything else at its default.
    pub fn new(kind: DiskKind, capacity: Size) -> Self {
        Self {
            kind,
            capacity,
            members: None,
            scheduler: Scheduler::default(),
            params: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// Disks of an array; 1 for a single disk.
    pub fn members(&self) -> u32 {
        let array = self.kind.about().array.as_ref();
        array.map_or(1, |a| self.members.unwrap_or(a.default))
    }

    /// The run's parameters with those of this disk put in.
    pub fn params(&self, run: &Params) -> Params {
        run.with(&self.params)
    }
}

impl Machine {
    /// The run's parameters with those of this machine put in.
    pub fn params(&self, run: &Params) -> Params {
        run.with(&self.params)
    }

    /// Whether a parameter is of CPUs and memory, so that a machine can have its own.
    pub fn takes(info: &ParamInfo) -> bool {
        ["cost_", "sched_", "idle_"]
            .iter()
            .any(|prefix| info.name.starts_with(prefix))
    }
}

/// A machine: memory, CPUs, settings, disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name that reports and published tables use.
    pub name: String,
    /// Number of CPUs, 1..=64.
    pub cpus: u32,
    /// Model parameters of its CPUs and memory that differ from those of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, f64>,
    /// Timer ticks per second: 100, 250, 300 or 1000.
    #[serde(default = "default_hz")]
    pub hz: u32,
    /// NUMA nodes, nearest first; node 0 holds the lowest zones.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeSpec>,
    /// Memory in use before the workload starts.
    #[serde(default)]
    pub boot: Boot,
    /// The swap area, if any.
    #[serde(default)]
    pub swap: Option<SwapSpec>,
    /// vm sysctls.
    #[serde(default)]
    pub sysctl: Sysctl,
    /// The disk under test.
    pub disk: DiskSpec,
    /// A second filesystem on a disk of its own, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondSpec>,
}

/// A filesystem beside the tested one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecondSpec {
    /// Which one.
    pub filesystem: FsKind,
    /// The disk it is on.
    pub disk: DiskSpec,
    /// A directory of the first filesystem: paths below it are on this one, all others on the first.
    pub mount: String,
}

/// Whether a path is below a mount point.
pub fn is_below(mount: &str, path: &str) -> bool {
    let path = path.trim_start_matches('/');
    let rest = path.strip_prefix(mount);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

fn default_hz() -> u32 {
    250
}

/// One cell of an experiment at one iteration.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The machine.
    pub machine: Machine,
    /// The filesystem under test.
    pub filesystem: FsKind,
    /// The policy.
    pub policy: Policy,
    /// The workload.
    pub workload: workload::Script,
    /// The node that the workload's page cache and anonymous memory come from
    /// (`numactl --membind`); `None`: any, from node 0 on.
    pub membind: Option<u32>,
    /// Watch the run as a test harness does: samplers and a trace reader, with what they cost.
    pub monitors: bool,
    /// Model parameters.
    pub params: Params,
    /// Seed of all randomness of this run.
    pub seed: u64,
    /// Time series interval in simulated nanoseconds; 0: no series.
    pub sample_ns: u64,
    /// Recount every list and counter at this interval of simulated nanoseconds; 0: never.
    pub check_ns: u64,
    /// Record which path instantiated, dirtied and activated each page
    /// (docs/reference/workloads.md#page-tracker).
    pub track_pages: bool,
    /// Give up after this much simulated time; 0: never.
    pub time_limit_ns: u64,
}
