//! The input of a run: machine, disk, filesystem, policy, workload, seed.

use crate::params::{ParamInfo, Params};
use mm::Policy;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One memory zone of a node, by the kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// DMA, DMA32, Normal or Movable; on 32 bits DMA, Normal or HighMem.
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
    /// Its CPUs, from 0 to 63. CPUs that no node names are assigned to the nodes in turn; numbers
    /// beyond the machine's `cpus` are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
}

/// Memory that is in use before the workload starts. It is allocated as usual and so lies where a
/// booted Linux has it: in the highest zone first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Boot {
    /// Kernel text, slab, page tables: never reclaimed.
    pub kernel: Size,
    /// Memory of the DMA zone that early boot and legacy drivers hold; never reclaimed.
    pub dma: Size,
    /// Anonymous memory of idle programs.
    pub anon: Size,
    /// Page cache left by booting: clean, read once.
    pub cache: Size,
    /// Inodes of the filesystem on `/` that booting left in memory, unused and without page cache;
    /// their slab is reclaimable. Counted as /proc/sys/fs/inode-nr does.
    #[serde(skip_serializing_if = "none_at_boot")]
    pub inodes: u32,
    /// Dentries among them: so many of the inodes, the youngest, still have one. No more than
    /// `inodes`; dentries of names that do not exist are not modelled.
    #[serde(skip_serializing_if = "none_at_boot")]
    pub dentries: u32,
}

/// Returns true if booting left none of a kind of object in memory, so that the key is not written.
fn none_at_boot(objects: &u32) -> bool {
    *objects == 0
}

impl Default for Boot {
    /// Returns the memory that an idle machine has in use: 64 MiB each of kernel, programs and
    /// cache.
    fn default() -> Self {
        Self {
            kernel: Size(64 << 20),
            dma: Size(1 << 20),
            anon: Size(64 << 20),
            cache: Size(64 << 20),
            inodes: 0,
            dentries: 0,
        }
    }
}

/// A swap area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwapSpec {
    /// Size of the area.
    pub size: Size,
    /// The disk that holds the area; absent: the tested disk.
    #[serde(default)]
    pub disk: Option<DiskSpec>,
}

pub use crate::{DiskKind, FsKind};
pub use mm::size::Size;
pub use mm::sysctl::Sysctl;

/// A fault that a disk shows at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// Write requests that complete in the given second fail with an I/O error.
    WriteError {
        /// First second of the fault, since the start of the run.
        at_s: f64,
        /// Duration of the fault in seconds.
        for_s: f64,
    },
    /// The disk completes no requests for a while.
    Stall {
        /// Start in seconds since the start of the run.
        at_s: f64,
        /// Duration in seconds.
        for_s: f64,
    },
    /// The disk fails every request from this time on.
    Stop {
        /// Start in seconds since the start of the run.
        at_s: f64,
    },
}

/// Defines the table of a disk: its own keys, then those that every disk has.
macro_rules! disk_table {
    ($(#[$meta:meta])* pub struct $Name:ident { $($(#[$own_meta:meta])* pub $own:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Name {
            $($(#[$own_meta])* pub $own: $type,)*
            /// Kind of the disk.
            pub kind: DiskKind,
            /// Capacity of the disk.
            pub capacity: Size,
            /// Number of disks of a RAID-0 (2..=16).
            #[serde(default)]
            pub members: Option<u32>,
            /// The scheduler that orders requests; absent: none for kinds that may have several
            /// hardware queues (nvme, volume), deadline for all others.
            #[serde(default)]
            pub scheduler: Option<Scheduler>,
            /// Model parameters of this disk that differ from those of the run, by name; see
            /// [`DiskKind::takes`].
            #[serde(default)]
            pub params: BTreeMap<String, f64>,
            /// Injected faults.
            #[serde(default)]
            pub faults: Vec<Fault>,
        }
    };
}

disk_table! {
    /// A block device.
    pub struct DiskSpec {}
}

disk_table! {
    /// A block device with the filesystem on it: an element of the list `[[disk]]`.
    pub struct MountedDisk {
        /// Mount point: `/`, or a directory such as `/mnt/data`. Paths below the mount point are on
        /// this disk unless another mount point is nearer to them.
        #[serde(default = "root")]
        pub mount: String,
        /// The filesystem on it; absent: the experiment's.
        #[serde(default)]
        pub filesystem: Option<FsKind>,
    }
}

fn root() -> String {
    "/".into()
}

/// The I/O scheduler of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// One queue in block order; reads pass writes, and requests expire so that none waits too
    /// long.
    #[default]
    Deadline,
    /// A turn for each reader, with idling for its next request, and one for all writes: the
    /// default of 2006 to 2013.
    Cfq,
    /// No scheduler: requests go to the device as they come. Reads and writes share the tags of
    /// each hardware queue (before `request_queue = "multi"` `nr_requests`, if that is more), and
    /// the queue is never called congested. This is how blk-mq devices (virtio, NVMe) work on Linux
    /// 3.13 to 4.10, which had no choice, and today where `none` is chosen or a device has several
    /// queues.
    None,
}

impl Eq for DiskSpec {}

impl DiskSpec {
    /// Returns a single disk of a kind, without faults, with everything else at its default.
    pub fn new(kind: DiskKind, capacity: Size) -> Self {
        Self {
            kind,
            capacity,
            members: None,
            scheduler: None,
            params: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// Returns the number of disks of an array; 1 for a single disk.
    pub fn members(&self) -> u32 {
        let array = self.kind.about().array.as_ref();
        array.map_or(1, |a| self.members.unwrap_or(a.default))
    }

    /// Returns the scheduler: the one given, or the kind's.
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler.unwrap_or(self.kind.about().scheduler)
    }

    /// Returns the run's parameters with those of this disk put in.
    pub fn params(&self, run: &Params) -> Params {
        run.with(&self.params)
    }
}

impl Machine {
    /// Returns the run's parameters with those of this machine put in.
    pub fn params(&self, run: &Params) -> Params {
        run.with(&self.params)
    }

    /// Returns true if a machine can have a parameter of its own: it is one of CPUs or memory.
    pub fn takes(info: &ParamInfo) -> bool {
        ["cost_", "sched_", "idle_"]
            .iter()
            .any(|prefix| info.name.starts_with(prefix))
    }
}

/// Speed of a CPU of a QEMU guest, in millions of instructions a virtual second: 250 to 4000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Speed(pub u32);

impl TryFrom<String> for Speed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let scaled = |number: &str, scale: f64| Some(number.parse::<f64>().ok()? * scale);
        let mips = match text.strip_suffix('G') {
            Some(number) => scaled(number, 1000.0),
            None => text.strip_suffix('M').and_then(|n| scaled(n, 1.0)),
        };
        match mips {
            Some(mips) if (250.0..=4000.0).contains(&mips) => Ok(Self(mips.round() as u32)),
            _ => Err(format!(
                "`{text}` is no speed of a CPU; accepted: \"250M\" to \"4G\" instructions a second"
            )),
        }
    }
}

impl From<Speed> for String {
    fn from(speed: Speed) -> Self {
        match speed.0.is_multiple_of(1000) {
            true => format!("{}G", speed.0 / 1000),
            false => format!("{}M", speed.0),
        }
    }
}

/// Defines a machine's types: the form of its file and ours have all but the disks in common.
macro_rules! machine {
    ($($(#[$meta:meta])* $vis:vis struct $Name:ident { $($disks:tt)* })*) => {$(
        $(#[$meta])*
        $vis struct $Name {
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
            /// Speed of each CPU of a QEMU guest, in instructions a virtual second, as "2G";
            /// absent: 2 G. The engine, and User-Mode Linux, charge costs instead.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cpu_speed: Option<Speed>,
            /// NUMA nodes, nearest first; node 0 holds the lowest zones.
            #[serde(rename = "node")]
            pub nodes: Vec<NodeSpec>,
            /// Memory in use before the workload starts.
            #[serde(default)]
            pub boot: Boot,
            /// The swap area, if any.
            #[serde(default)]
            pub swap: Option<SwapSpec>,
            /// Sysctls.
            #[serde(default)]
            pub sysctl: Sysctl,
            $($disks)*
        }
    )*};
}
machine! {
    /// A machine: memory, CPUs, settings, disks.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(try_from = "MachineFile", into = "MachineFile")]
    pub struct Machine {
        /// The disk of the filesystem on `/`: the tested one.
        pub disk: DiskSpec,
        /// The filesystem on `/`, if the machine gives one; absent: the experiment's filesystem.
        pub filesystem: Option<FsKind>,
        /// Filesystems on disks of their own beside it, in the order of mounting.
        pub mounts: Vec<Mount>,
    }

    /// The form of a machine in its file.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Machine")]
    struct MachineFile {
        /// The disk under test; or all disks with their filesystems, as a list `[[disk]]`.
        disk: Disks,
        /// A second filesystem on a disk of its own, if any; not beside a list of disks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        second: Option<SecondSpec>,
    }
}

/// The disks in a machine's file: one table, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum Disks {
    One(DiskSpec),
    Several(Vec<MountedDisk>),
}

impl<'de> Deserialize<'de> for Disks {
    /// Reads one disk from a table, or several from a list of tables.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Disks;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table [disk], or a list of tables [[disk]]")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Disks, A::Error> {
                DiskSpec::deserialize(MapAccessDeserializer::new(map)).map(Disks::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Disks, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Disks::Several)
            }
        }
        d.deserialize_any(V)
    }
}

impl TryFrom<MachineFile> for Machine {
    type Error = String;

    /// Converts the form of a machine's file to a machine. The disk on `/` becomes the tested one,
    /// the others mounts. Fails if the file has `second` beside a list of disks, or if no disk of
    /// the list is on `/`.
    fn try_from(file: MachineFile) -> Result<Self, String> {
        let (disk, filesystem, mounts) = match (file.disk, file.second) {
            (Disks::One(disk), second) => {
                (disk, None, second.map(Mount::second).into_iter().collect())
            }
            (Disks::Several(_), Some(_)) => {
                return Err("`second` beside a list of disks".into());
            }
            (Disks::Several(list), None) => {
                let mut mounts: Vec<Mount> = list.into_iter().map(Mount::of).collect();
                let at = mounts.iter().position(|m| m.mount.is_empty());
                let root = mounts.remove(at.ok_or("no disk is mounted on `/`")?);
                (root.disk, root.filesystem, mounts)
            }
        };
        Ok(Self {
            name: file.name,
            cpus: file.cpus,
            params: file.params,
            hz: file.hz,
            cpu_speed: file.cpu_speed,
            nodes: file.nodes,
            boot: file.boot,
            swap: file.swap,
            sysctl: file.sysctl,
            disk,
            filesystem,
            mounts,
        })
    }
}

impl From<Machine> for MachineFile {
    /// Converts a machine to the form of its file: with `second` if that form suffices, else with a
    /// list of disks.
    fn from(m: Machine) -> Self {
        let old = m.filesystem.is_none() && m.mounts.iter().all(|m| m.is_second);
        let (disk, second) = match (old, m.mounts.len()) {
            (true, 0 | 1) => {
                let second = m.mounts.into_iter().next();
                let second = second.and_then(|m| {
                    Some(SecondSpec {
                        filesystem: m.filesystem?,
                        disk: m.disk,
                        mount: m.mount,
                    })
                });
                (Disks::One(m.disk), second)
            }
            _ => {
                let root = MountedDisk::new("", m.filesystem, m.disk);
                let others = m.mounts.into_iter();
                let others = others.map(|m| MountedDisk::new(&m.mount, m.filesystem, m.disk));
                let all = std::iter::once(root).chain(others);
                (Disks::Several(all.collect()), None)
            }
        };
        Self {
            name: m.name,
            cpus: m.cpus,
            params: m.params,
            hz: m.hz,
            cpu_speed: m.cpu_speed,
            nodes: m.nodes,
            boot: m.boot,
            swap: m.swap,
            sysctl: m.sysctl,
            disk,
            second,
        }
    }
}

/// A filesystem beside the one on `/`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mount {
    /// Its mount point, with no slash at either end: `mnt/data`.
    pub mount: String,
    /// The filesystem; `None`: the experiment's.
    pub filesystem: Option<FsKind>,
    /// The disk that it is on.
    pub disk: DiskSpec,
    /// True for the mount of the key `second`: results name it so, and not by its mount point.
    pub is_second: bool,
}

impl Mount {
    /// Returns the mount that a machine's key `second` describes.
    pub fn second(second: SecondSpec) -> Self {
        Self {
            mount: second.mount,
            filesystem: Some(second.filesystem),
            disk: second.disk,
            is_second: true,
        }
    }

    /// Returns the mount that an element of a machine's list of disks describes.
    pub fn of(d: MountedDisk) -> Self {
        Self {
            mount: plain_mount(&d.mount).to_owned(),
            filesystem: d.filesystem,
            disk: DiskSpec {
                kind: d.kind,
                capacity: d.capacity,
                members: d.members,
                scheduler: d.scheduler,
                params: d.params,
                faults: d.faults,
            },
            is_second: false,
        }
    }
}

impl MountedDisk {
    /// Returns the element of a machine's list of disks for a filesystem mounted at `mount`
    /// (without leading slash).
    fn new(mount: &str, filesystem: Option<FsKind>, d: DiskSpec) -> Self {
        Self {
            mount: format!("/{mount}"),
            filesystem,
            kind: d.kind,
            capacity: d.capacity,
            members: d.members,
            scheduler: d.scheduler,
            params: d.params,
            faults: d.faults,
        }
    }
}

/// A filesystem of a machine and the disk that it is on.
#[derive(Debug, Clone, Copy)]
pub struct Mounted<'a> {
    /// The mount point, with no slash at either end; empty for `/`.
    pub mount: &'a str,
    /// The filesystem, if the machine gives one.
    pub filesystem: Option<FsKind>,
    /// The disk.
    pub disk: &'a DiskSpec,
}

impl Machine {
    /// Returns a machine's filesystems with their disks, that on `/` first.
    pub fn mounted(&self) -> impl Iterator<Item = Mounted<'_>> {
        let root = Mounted {
            mount: "",
            filesystem: self.filesystem,
            disk: &self.disk,
        };
        let others = self.mounts.iter().map(|m| Mounted {
            mount: &m.mount,
            filesystem: m.filesystem,
            disk: &m.disk,
        });
        std::iter::once(root).chain(others)
    }

    /// Returns the mount points in the order of the filesystems; that of the first is empty.
    pub fn mount_points(&self) -> Vec<&str> {
        self.mounted().map(|m| m.mount).collect()
    }
}

/// A filesystem beside the tested one, from the key `second`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecondSpec {
    /// The filesystem.
    pub filesystem: FsKind,
    /// The disk that it is on.
    pub disk: DiskSpec,
    /// A directory of the first filesystem: paths below it are on this one, all others on the
    /// first.
    pub mount: String,
}

/// Returns a mount point as files spell it without slashes at its ends.
pub fn plain_mount(mount: &str) -> &str {
    mount.trim_matches('/')
}

/// Returns true if a path is below a mount point, both without a leading slash; every path is below
/// the empty one.
fn is_below(mount: &str, path: &str) -> bool {
    let rest = path.strip_prefix(mount);
    mount.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the index of the nearest of these mount points that a path is below. One of the mount
/// points is empty, and all paths are below that one.
pub fn mount_of(mounts: &[impl AsRef<str>], path: &str) -> usize {
    let path = path.trim_start_matches('/');
    let above = mounts.iter().enumerate().map(|(i, m)| (i, m.as_ref()));
    let above = above.filter(|(_, m)| is_below(m, path));
    above.max_by_key(|(_, m)| m.len()).map_or(0, |(i, _)| i)
}

fn default_hz() -> u32 {
    250
}

/// Sysctls that are written while the workload runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Time of the change, in nanoseconds since the workload began.
    pub at_ns: u64,
    /// The sysctls written, by the kernel's names, with values as the experiment spells them.
    pub written: Vec<(String, String)>,
    /// All sysctls from then on.
    pub sysctl: Sysctl,
}

impl Change {
    /// Returns the sysctls that this change writes, by the kernel's names and in the order of
    /// writing, as numbers in the form that a file of /proc/sys takes.
    pub fn numbers(&self) -> Vec<(&'static str, String)> {
        let values = self.sysctl.values();
        let of = |(name, _): &(String, String)| {
            let (info, numbers) = values.iter().find(|(info, _)| info.name == name)?;
            let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
            Some((info.name, texts.join(" ")))
        };
        self.written.iter().filter_map(of).collect()
    }

    /// Describes the change and its time for people.
    pub fn text(&self) -> String {
        let written = self.written.iter().map(|(k, v)| format!("{k} = {v}"));
        let written: Vec<String> = written.collect();
        format!("at {} s: {}", self.at_ns as f64 / 1e9, written.join(", "))
    }
}

/// A limit or a protection of a memory control group: a size, or `"max"`, which is all memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub enum Limit {
    /// So many bytes.
    Bytes(u64),
    /// All memory.
    Max,
}

impl Limit {
    /// Returns the limit in bytes; the largest number for all memory.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Max => u64::MAX,
        }
    }

    /// Returns the text that a file of the group takes.
    pub fn text(self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Max => "max".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    /// Reads the word `max`, or a size as [`Size`] does.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stated {
            Bytes(u64),
            Text(String),
        }
        let stated = Stated::deserialize(d).map_err(|_| {
            serde::de::Error::custom("not a limit; accepted: a size such as \"200M\", or \"max\"")
        })?;
        match stated {
            Stated::Bytes(bytes) => Ok(Self::Bytes(bytes)),
            Stated::Text(text) if text == "max" => Ok(Self::Max),
            Stated::Text(text) => match Size::parse(&text) {
                Ok(size) => Ok(Self::Bytes(size.0)),
                Err(why) => Err(serde::de::Error::custom(format!("{why}, or \"max\""))),
            },
        }
    }
}

/// The settings of a memory control group, by the names of cgroup v2. Absent ones are the kernel's
/// defaults: no limit, no protection, weight 100.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupSettings {
    /// The most memory that its programs may have (`memory.max`): above it the group is reclaimed
    /// from, and if that fails the OOM killer ends one of its programs.
    pub max: Option<Limit>,
    /// The memory above which its programs are slowed down and reclaim for themselves
    /// (`memory.high`).
    pub high: Option<Limit>,
    /// Memory that is reclaimed only if no other can be (`memory.low`).
    pub low: Option<Limit>,
    /// Memory that is never reclaimed (`memory.min`).
    pub min: Option<Limit>,
    /// The most swap that its programs may have (`memory.swap.max`).
    pub swap_max: Option<Limit>,
    /// Whether the OOM killer ends all programs of the group at once (`memory.oom.group`).
    pub oom_group: Option<bool>,
    /// Its share of the CPUs beside its siblings, 1 to 10000 (`cpu.weight`).
    pub cpu_weight: Option<u32>,
    /// Its share of the disks beside its siblings, 1 to 10000 (`io.weight`), which schedulers of
    /// disks other than BFQ don't read without `io.cost`.
    pub io_weight: Option<u32>,
}

impl GroupSettings {
    /// Returns the files of the group that have a setting, each with its text. Protections and
    /// `high` come before `max`, as the kernel compares none of them.
    pub fn files(&self) -> Vec<(&'static str, String)> {
        let limits = [
            ("memory.min", self.min),
            ("memory.low", self.low),
            ("memory.high", self.high),
            ("memory.swap.max", self.swap_max),
            ("memory.max", self.max),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(file, limit)| Some((file, limit?.text())));
        let numbers = [
            ("memory.oom.group", self.oom_group.map(u32::from)),
            ("cpu.weight", self.cpu_weight),
            ("io.weight", self.io_weight),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(file, number)| Some((file, number?.to_string())));
        limits.chain(numbers).collect()
    }
}

/// A memory control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, with points between nested groups: `web.worker`.
    pub name: String,
    /// Its settings.
    pub settings: GroupSettings,
}

/// The memory control groups of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// All groups, parents before their children.
    pub all: Vec<Group>,
    /// The name of the group that the whole workload runs in, if it does.
    pub of_workload: Option<String>,
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
    /// Sysctls that are written while the workload runs, in the order of time.
    pub changes: Vec<Change>,
    /// The workload.
    pub workload: workload::Script,
    /// The node that the workload's page cache and anonymous memory come from
    /// (`numactl --membind`); `None`: any, from node 0 on.
    pub membind: Option<u32>,
    /// Memory control groups, which real kernels and models since 5.16 have.
    pub groups: Groups,
    /// Watch the run as a test harness does: with samplers and a trace reader, and their cost.
    pub monitors: bool,
    /// Model parameters.
    pub params: Params,
    /// Seed of all randomness of this run.
    pub seed: u64,
    /// Time series interval in simulated nanoseconds; 0: no series.
    pub sample_ns: u64,
    /// Check that lists and counters agree at this interval of simulated nanoseconds; 0: never.
    pub check_ns: u64,
    /// Each check recounts everything; otherwise it takes samples, and a full recount comes with
    /// the work and at the end ([`mm::Recount::look`]).
    pub check_full: bool,
    /// Record which path instantiated, dirtied and activated each page
    /// (docs/reference/workloads.md#page-tracker).
    pub track_pages: bool,
    /// Give up after this much simulated time in nanoseconds; 0: never.
    pub time_limit_ns: u64,
}
