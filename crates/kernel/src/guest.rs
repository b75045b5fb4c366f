//! Turns a run's machine into a guest: the arguments of its kernel and the job of its first
//! process.

use crate::disk::Disk;
use crate::events::{RING_KB, TRACEPOINTS};
use crate::groups;
use crate::server::{CLOCK, port_name};
use crate::spec::{Guest, Kernel};
use guest::wire::{Assignment, BootJob, Job, MountJob, ScriptJob};
use mm::sysctl::{Sysctl, TABLE};
use serde_json::Value;
use sim::Params;
use sim::run::since_tick;
use sim::spec::{DiskSpec, FsKind, Machine, RunSpec, Scheduler, Size};
use std::path::PathBuf;

/// The file descriptor to which a guest's frames are written.
pub const FRAMES: i32 = 100;

/// Names of costs in the kernel's parameter `cpu_cost`; each corresponds to a parameter `cost_…`
/// of a run.
const COSTS: [&str; 25] = [
    "page_alloc",
    "page_bulk",
    "page_free",
    "page_index",
    "lru",
    "page_scan",
    "unmap",
    "page_dirty",
    "writeback_start",
    "writeback_end",
    "zone_walk",
    "shrink_slab",
    "slab_object",
    "copy",
    "fault",
    "syscall",
    "submit",
    "refuse",
    "writeback_round",
    "dirty_limit",
    "lookup",
    "create",
    "unlink",
    "close",
    "fork",
];

/// Files that are sampled while a workload runs.
const WATCHED: [&str; 6] = [
    "/proc/vmstat",
    ZONEINFO,
    "/proc/diskstats",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/pressure/cpu",
];

/// Returns the name of a guest's disk: `vda` for 0.
pub fn disk_name(disk: usize) -> String {
    format!("vd{}", char::from(b'a' + disk as u8))
}

/// Returns true if swap lies on the tested disk, as its second partition, after the filesystem.
pub fn swap_is_shared(spec: &RunSpec) -> bool {
    let swap = spec.machine.swap.as_ref();
    swap.is_some_and(|s| s.disk.is_none())
}

/// Returns the disks of a machine in the guest's order: those of its filesystems, then that of swap
/// if it has its own.
pub fn disks(machine: &Machine) -> impl Iterator<Item = &DiskSpec> {
    let swap = machine.swap.iter().filter_map(|s| s.disk.as_ref());
    machine.mounted().map(|m| m.disk).chain(swap)
}

/// Returns the type of a filesystem for mount(2), and its mount options.
pub fn mount_type(kind: FsKind) -> (&'static str, &'static str) {
    match kind.name() {
        // The ext4 driver serves all three.
        "ext2" | "ext3" => ("ext4", ""),
        name => (name, ""),
    }
}

/// Returns the memory of a guest with this machine in bytes: all zones together.
pub fn memory(machine: &Machine) -> u64 {
    let zones = machine.nodes.iter().flat_map(|n| &n.zones);
    zones.fold(0, |sum: u64, z| sum.saturating_add(z.size.0))
}

/// Returns how much of a machine's memory is in zone Movable, in bytes.
pub fn movable(machine: &Machine) -> u64 {
    let zones = machine.nodes.iter().flat_map(|n| &n.zones);
    let movable = zones.filter(|z| z.zone == mm::ZoneType::Movable);
    movable.map(|z| z.size.0).sum()
}

/// Returns the command line of the guest's kernel: console, memory, clock, disks, and the costs of
/// the kernel's work in nanoseconds, if its cell has costs. `task` says what the guest is started
/// for.
pub fn arguments(spec: &RunSpec, kernel: &Kernel, task: Assignment, disks: &[Disk]) -> Vec<String> {
    let console = match task {
        Assignment::Shell => "con0=fd:0,fd:1",
        Assignment::Prepare | Assignment::Run | Assignment::Try => "con0=null,fd:1",
    };
    let mut args: Vec<String> = [
        "initrd=initrd",
        "rdinit=/init",
        "con=null",
        console,
        "ssl=null",
        "lowmark.out=ttyS0",
        "loglevel=4",
        "random.trust_cpu=off",
    ]
    .map(String::from)
    .into();
    args.push(format!("ssl0=null,fd:{FRAMES}"));
    args.push(format!("mem={}K", memory(&spec.machine) >> 10));
    let movable = movable(&spec.machine);
    if movable > 0 {
        args.push(format!("movablecore={}K", movable >> 10));
    }
    args.push(format!("time-travel=ext:{CLOCK}"));
    args.extend((0..disks.len()).map(|i| format!("virtio_uml.device={}:2", port_name(i))));
    // The parameter holds for all disks, so it is that of the timed ones.
    let (timed, at_once): (Vec<&Disk>, Vec<&Disk>) = disks.iter().partition(|d| d.takes_time());
    let of = |disks: Vec<&Disk>| disks.into_iter().map(Disk::depth).max();
    let depth = of(timed).or_else(|| of(at_once)).unwrap_or(1);
    args.push(format!("virtio_blk.queue_depth={depth}"));
    if kernel.costs && task != Assignment::Prepare {
        let params = spec.machine.params(&spec.params).scaled();
        let cost = |name: &&str| {
            let ns = params.get(&format!("cost_{name}")).unwrap_or(0.0);
            format!("{name}:{}", ns.max(0.0).ceil() as u64)
        };
        let costs: Vec<String> = COSTS.iter().map(cost).collect();
        args.push(format!("cpu_cost={}", costs.join(",")));
    }
    args
}

/// The file that switches the multi-generational LRU.
pub const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Returns the path of a sysctl: names with dots or slashes are below `/proc/sys`, others below its
/// `vm`.
pub fn sysctl_path(name: &str) -> String {
    let known = TABLE.iter().find(|info| info.key == name);
    let name = known.map_or(name, |info| info.name);
    // A part of a name with slashes may have a dot, as a network device's.
    match (name.contains('/'), name.contains('.')) {
        (true, _) => format!("/proc/sys/{name}"),
        (false, true) => format!("/proc/sys/{}", name.replace('.', "/")),
        (false, false) => format!("/proc/sys/vm/{name}"),
    }
}

/// Returns the name of a setting from the path of its file: a sysctl's whole name with dots, or
/// `lru_gen`.
pub fn setting_name(path: &str) -> String {
    if path == LRU_GEN {
        return "lru_gen".to_owned();
    }
    let name = path.strip_prefix("/proc/sys/").unwrap_or(path);
    match name.contains('.') {
        true => name.to_owned(),
        false => name.replace('/', "."),
    }
}

/// Formats a sysctl's value for the kernel; `None` for types that have no such form.
fn sysctl_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(n) => Some(n.to_string()),
        Value::Array(list) => {
            let parts: Option<Vec<String>> = list.iter().map(sysctl_text).collect();
            Some(parts?.join("\t"))
        }
        Value::String(text) => Size::parse(text).ok().map(|bytes| bytes.0.to_string()),
        _ => None,
    }
}

/// Returns paths and texts of the sysctls that differ from the defaults, which are the kernel's.
fn sysctls(own: &Sysctl) -> Vec<(String, String)> {
    let table = |sysctl: &Sysctl| match serde_json::to_value(sysctl) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let defaults = table(&Sysctl::default());
    let own = table(own);
    let changed = own
        .iter()
        .filter(|(key, value)| defaults.get(*key) != Some(value));
    let texts = changed.filter_map(|(key, value)| Some((sysctl_path(key), sysctl_text(value)?)));
    texts.collect()
}

/// Returns paths (below `/sys/block`) and texts of the settings of the disks' queues: scheduler,
/// queue size, read-ahead window, largest request, and whether the disk rotates.
fn queues(spec: &RunSpec, disks: &[Disk]) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (i, disk) in self::disks(&spec.machine).enumerate() {
        let queue = |file: &str| format!("/sys/block/{}/queue/{file}", disk_name(i));
        let scheduler = match disk.scheduler() {
            Scheduler::None => "none",
            _ => "mq-deadline",
        };
        settings.push((queue("scheduler"), scheduler.to_owned()));
        let params = disk.params(&spec.params);
        if disk.scheduler() != Scheduler::None {
            let requests = params.nr_requests as u64 * u64::from(disk.members());
            settings.push((queue("nr_requests"), requests.to_string()));
        }
        let kb = disks[i].max_request() >> 10;
        settings.push((queue("max_sectors_kb"), kb.to_string()));
        let turns = u8::from(disk.kind.about().rotates);
        settings.push((queue("rotational"), turns.to_string()));
        // virtio_blk registers every disk as rotational, so writeback throttling must choose its
        // target anew.
        settings.push((queue("wbt_lat_usec"), "-1".to_owned()));
        // The kernel's own window, which devices may raise, stays unless a run sets another. It is
        // the last setting, since a new limit of the queue resets the window
        // (block/blk-settings.c, blk_apply_bdi_limits).
        if params.read_ahead != Params::default().read_ahead {
            let kb = params.read_ahead as u64 * 4;
            settings.push((queue("read_ahead_kb"), kb.to_string()));
        }
    }
    settings
}

/// Returns the filesystems that a guest mounts for a run: device, mount point, type and options.
fn mounts(spec: &RunSpec) -> Vec<MountJob> {
    let shared = swap_is_shared(spec);
    let mount = |(i, m): (usize, sim::spec::Mounted<'_>)| {
        let kind = m.filesystem.unwrap_or(spec.filesystem);
        let (filesystem, options) = mount_type(kind);
        let partition = if shared && i == 0 { "1" } else { "" };
        MountJob {
            device: format!("/dev/{}{partition}", disk_name(i)),
            mount: m.mount.to_owned(),
            filesystem: filesystem.to_owned(),
            options: options.to_owned(),
        }
    };
    spec.machine.mounted().enumerate().map(mount).collect()
}

/// Returns the guest's device of swap: a disk of its own, or the second partition of the first
/// disk; `None` if the machine has no swap.
fn swap(spec: &RunSpec) -> Option<String> {
    let swap = spec.machine.swap.as_ref()?;
    Some(match &swap.disk {
        Some(_) => format!("/dev/{}", disk_name(disks(&spec.machine).count() - 1)),
        None => format!("/dev/{}2", disk_name(0)),
    })
}

/// Returns the settings made before the measurement: files below `/proc` and `/sys`, and their
/// texts.
fn settings(spec: &RunSpec, kernel: &Kernel) -> Vec<(String, String)> {
    let mut settings = sysctls(&spec.machine.sysctl);
    let own = kernel.sysctl.iter();
    settings.extend(own.map(|(name, text)| (sysctl_path(name), text.clone())));
    if let Some(on) = kernel.lru_gen {
        let text = if on { "y" } else { "n" };
        settings.push((LRU_GEN.to_owned(), text.to_owned()));
    }
    settings
}

/// Returns the settings made while the workload runs: each time in nanoseconds with the files to
/// write and their texts.
fn changes(spec: &RunSpec) -> Vec<(u64, Vec<(String, String)>)> {
    let changes = spec.changes.iter().map(|c| {
        let written = c.numbers().into_iter();
        let written = written.map(|(name, text)| (sysctl_path(name), text));
        (c.at_ns, written.collect())
    });
    changes.collect()
}

/// The file with the pages that the allocator owns.
pub(crate) const ZONEINFO: &str = "/proc/zoneinfo";

/// Returns the job of a guest that reports the memory its allocator owns after boot; it sets
/// nothing and needs no device.
pub fn survey(spec: &RunSpec) -> Job {
    Job {
        task: Assignment::Try,
        mounts: Vec::new(),
        directories: Vec::new(),
        files: Vec::new(),
        boot: BootJob::default(),
        watch: vec![ZONEINFO.to_owned()],
        ..preparation(spec)
    }
}

/// Returns the job of a guest that tries out the run's settings; it needs no device.
pub fn trial(spec: &RunSpec, kernel: &Kernel) -> Job {
    let mut settings = settings(spec, kernel);
    settings.extend(changes(spec).into_iter().flat_map(|(_, settings)| settings));
    Job {
        settings,
        groups: groups::jobs(&spec.groups),
        watch: Vec::new(),
        ..survey(spec)
    }
}

/// Returns the job of a guest that lays out the files a run finds. Settings of the run that do not
/// change the layout are left out, so that equal layouts have equal jobs.
pub fn preparation(spec: &RunSpec) -> Job {
    let script = &spec.workload;
    Job {
        task: Assignment::Prepare,
        mounts: mounts(spec),
        swap: None,
        settings: Vec::new(),
        boot: BootJob {
            cache: spec.machine.boot.cache.0,
            ..BootJob::default()
        },
        groups: Vec::new(),
        group: None,
        script: ScriptJob::Command(String::new()),
        directories: script.directories.clone(),
        files: script
            .files
            .iter()
            .map(|f| (f.path.clone(), f.len))
            .collect(),
        since_tick: 0,
        changes: Vec::new(),
        sample_ns: 0,
        watch: Vec::new(),
        watch_ends: Vec::new(),
        tracepoints: Vec::new(),
        trace_kb: 0,
        copy_page_ns: 0,
        gettimeofday_ns: 0,
        computes: false,
        terminal: (0, 0),
    }
}

/// Returns the job of a guest that runs the workload or a shell, and a file of the host that must
/// be added to its initramfs, if there is one. The root of a user's own program is the last disk.
///
/// # Errors
/// The workload was changed after it was parsed, so that no command line expresses it.
pub fn job(
    spec: &RunSpec,
    kernel: &Kernel,
    task: Assignment,
    disks: &[Disk],
) -> Result<(Job, Option<PathBuf>), String> {
    let (mut script, file) = ScriptJob::of(&spec.workload)
        .ok_or("its workload was changed after it was read, and no command line expresses it")?;
    if let ScriptJob::Foreign { root, .. } = &mut script {
        *root = format!("/dev/{}", disk_name(disks.len().saturating_sub(1)));
    }
    let params = spec.machine.params(&spec.params).scaled();
    let mut settings = queues(spec, disks);
    settings.extend(self::settings(spec, kernel));
    // In a QEMU guest computing takes time by itself.
    let charged = kernel.costs && kernel.guest == Guest::Uml;
    let costs = if charged { 1.0 } else { 0.0 };
    let job = Job {
        task,
        swap: swap(spec),
        mounts: mounts(spec),
        settings,
        boot: BootJob {
            kernel: spec.machine.boot.kernel.0,
            anon: spec.machine.boot.anon.0,
            cache: spec.machine.boot.cache.0,
        },
        groups: groups::jobs(&spec.groups),
        group: spec.groups.of_workload.clone(),
        script,
        directories: Vec::new(),
        files: Vec::new(),
        since_tick: since_tick(spec.seed, mm::SECOND / u64::from(spec.machine.hz)),
        changes: changes(spec),
        sample_ns: spec.sample_ns,
        watch: WATCHED
            .map(String::from)
            .into_iter()
            .chain(groups::watched(&spec.groups))
            .collect(),
        watch_ends: groups::watched_at_ends(&spec.groups).collect(),
        tracepoints: TRACEPOINTS.map(String::from).into(),
        trace_kb: RING_KB,
        copy_page_ns: (params.cost_copy / 2.0 * costs) as u64,
        gettimeofday_ns: (params.cost_gettimeofday * costs) as u64,
        computes: kernel.guest == Guest::Qemu,
        terminal: (0, 0),
    };
    Ok((job, file))
}
