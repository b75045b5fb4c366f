//! The world of a run: the engine's configuration, devices, filesystems.

use crate::Params;
use crate::SimMm;
use crate::block::{Device, Form, Queue, Volume};
use crate::disks::Array;
use crate::filesystems::{DEVICE, Fs};
use crate::groups;
use crate::rng::Rng;
use crate::sched::{Place, Sched, SchedParams};
use crate::spec::{DiskSpec, FsKind, Machine, RunSpec};
use crate::world::{SimWorld, kblockd, own_queue};
use mm::ZoneInfo;
use mm::memory::watermark;
use mm::policy::{
    BlockAllocation, FileReadahead, JournalPlace, Plugs, Scheduler, WritebackThrottling,
};
use mm::{CENTISECOND, Config, Mm, NoMemory, SECOND};

/// Room for files, tasks and devices, beside the files that the workload's programs find and create
/// and the processes that they start.
const MAX_MAPPINGS: u32 = 65_536;
const OWN_TASKS: u32 = 112;
/// Tasks of a further filesystem: a btrfs has 13 on six CPUs, and its flusher.
const OF_MOUNT: u32 = 16;
const MIN_BDIS: u32 = 4;
/// A task's slice on one CPU, in nanoseconds (Linux 6.12 kernel/sched/fair.c, `base_slice_ns`).
const BASE_SLICE: u64 = 700_000;

/// Returns the node of each CPU: the one that the machine names, otherwise the nodes in turn (as
/// Linux does with `numa=fake` where firmware names no CPUs, `numa_init_array`).
fn cpu_nodes(machine: &Machine) -> Vec<u32> {
    let of = |cpu: u32| machine.nodes.iter().position(|n| n.cpus.contains(&cpu));
    (0..machine.cpus)
        .map(|cpu| of(cpu).unwrap_or(cpu as usize % machine.nodes.len()) as u32)
        .collect()
}

/// Returns the bit mask of CPUs of a machine's node; 0 if it has none.
pub fn cpus_of_node(machine: &Machine, node: u32) -> u64 {
    crate::host::cpus_of_node(&cpu_nodes(machine), node)
}

/// 2011-01-01 00:00 UTC, in nanoseconds since the epoch.
const YEAR_2011: u64 = 1_293_840_000 * SECOND;

/// Returns the engine's configuration for a machine: zones, CPUs, sysctls, and the most objects of
/// each kind (tasks, files, devices).
pub fn engine_config(machine: &Machine) -> Config {
    Config {
        cpus: machine.cpus as usize,
        hz: u64::from(machine.hz),
        pageblock_order: mm::memory::mobility::PAGEBLOCK_ORDER,
        zones: machine
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(n, node)| {
                node.zones.iter().map(move |z| ZoneInfo {
                    node: n as u32,
                    kind: z.zone,
                    size: z.size.pages(),
                })
            })
            .collect(),
        cpu_nodes: cpu_nodes(machine),
        max_tasks: OWN_TASKS + OF_MOUNT * machine.mounts.len() as u32,
        max_mappings: MAX_MAPPINGS,
        // A filesystem has one or two bdis.
        max_bdis: MIN_BDIS.max(2 + 2 * machine.mounts.len() as u32),
        max_supers: 1 + machine.mounts.len() as u32,
        max_ags: 0,
        swap_slots: machine.swap.as_ref().map_or(0, |s| s.size.pages() as u32),
        swap_rotates: swap_disk(machine).kind.about().rotates,
        groups: Vec::new(),
        sysctl: machine.sysctl.clone(),
    }
}

/// Returns the disk that holds the swap area.
fn swap_disk(machine: &Machine) -> &DiskSpec {
    let own = machine.swap.as_ref().and_then(|swap| swap.disk.as_ref());
    own.unwrap_or(&machine.disk)
}

/// Returns the watermarks of a machine's zones in pages, in order of zones: min, low, high.
pub fn watermarks(machine: &Machine) -> Vec<[u64; 3]> {
    let config = engine_config(machine);
    let lowmem = watermark::lowmem_kbytes(&config.zones);
    let min = config.sysctl.min_kbytes(lowmem);
    watermark::MarkFormula::of(&config.sysctl).marks(min, &config.zones)
}

/// Returns the read-ahead window of a filesystem of `kind` on `disk` in pages, given the run's
/// parameters. The default window is raised by an array to a number of stripes, so that a reader
/// keeps every member busy, and by a filesystem with a backing device of its own; a window that is
/// read whole at each miss (`on_demand` is false) keeps its disk's size. Any other window has been
/// written to `read_ahead_kb` of the devices and holds as it is.
fn read_ahead(kind: FsKind, disk: &DiskSpec, on_demand: bool, run: &Params) -> u32 {
    let p = disk.params(run);
    if p.read_ahead != Params::default().read_ahead {
        return p.read_ahead as u32;
    }
    let array = disk.kind.about().array.as_ref();
    let stripe = |a: &Array| f64::from(disk.members()) * (a.chunk)(&p) / 4096.0;
    let raised = array.map_or(0.0, |a| (a.read_ahead)(&p) * stripe(a));
    let of_disk = p.read_ahead.max(raised) as u32;
    match kind.about().own_bdi {
        Some(least) if on_demand => of_disk.max(least),
        _ => of_disk,
    }
}

/// Returns the engine's configuration for a run: [`engine_config`] with room for the files and
/// processes of its workload.
pub(crate) fn config_of(spec: &RunSpec, p: &Params) -> Config {
    let mut config = engine_config(&spec.machine);
    config.pageblock_order = p.pageblock_order as u32;
    let workload = &spec.workload;
    // Files and directories that exist before the workload.
    let given = workload.files.len() + workload.directories.len();
    config.max_mappings += workload.files_made() as u32 + given as u32;
    config.max_mappings += spec.machine.boot.inodes;
    config.max_tasks += workload.processes_at_a_time() as u32;
    config.groups = groups::configs(&spec.groups.all);
    for (kind, disk, capacity) in filesystems(spec) {
        config.max_ags += kind.about().inode_groups(capacity, disk, p);
    }
    config
}

/// Returns a run's filesystems, that on `/` first: kind, disk, and capacity in pages, less the swap
/// area where that is on the first disk.
fn filesystems(spec: &RunSpec) -> Vec<(FsKind, &DiskSpec, u64)> {
    let m = &spec.machine;
    let mut capacity = m.disk.capacity.pages();
    if let Some(swap) = m.swap.as_ref().filter(|s| s.disk.is_none()) {
        capacity = capacity.saturating_sub(swap.size.pages());
    }
    let mut all: Vec<_> = m
        .mounted()
        .map(|on| {
            let kind = on.filesystem.unwrap_or(spec.filesystem);
            (kind, on.disk, on.disk.capacity.pages())
        })
        .collect();
    all[0].2 = capacity;
    all
}

/// Returns the number of block devices of a machine, with every member of an array counted.
fn devices_of(m: &Machine) -> u32 {
    let swap = m.swap.as_ref().and_then(|s| s.disk.as_ref());
    let disks = m.mounted().map(|on| on.disk).chain(swap);
    disks.map(DiskSpec::members).sum()
}

/// Returns the prefix for labels of the random streams of the `i`th disk and its filesystem; the
/// first has none.
fn nth(i: usize) -> String {
    match i {
        0 => String::new(),
        1 => "second ".into(),
        _ => format!("filesystem {i} "),
    }
}

/// Returns the parameters of a run: its machine's, with the run's own on top, and costs of CPU time
/// multiplied by `cost_scale`. The sysctl `xfssyncd_centisecs` overrides `xfs_log_interval`.
pub(crate) fn params(spec: &RunSpec) -> Params {
    let mut p = spec.machine.params(&spec.params).scaled();
    if let Some(centisecs) = spec.machine.sysctl.xfssyncd_centisecs {
        p.xfs_log_interval = f64::from(centisecs) * CENTISECOND as f64;
    }
    p
}

/// Builds the world of a run: an engine with all memory free, and no tasks yet. If the host has no
/// memory for it, `build` unwinds with [`NoMemory`].
pub fn build<const T: bool>(spec: &RunSpec) -> SimMm<T> {
    try_build(spec).unwrap_or_else(|e| e.raise())
}

/// Builds the world of a run as [`build`] does: scheduler, devices and volumes, swap area,
/// filesystems, and the engine over them.
///
/// # Errors
/// The host has no memory for one of the engine's tables.
pub fn try_build<const T: bool>(spec: &RunSpec) -> Result<SimMm<T>, NoMemory> {
    let m = &spec.machine;
    let p = &params(spec);
    let config = config_of(spec, p);
    let filesystems = filesystems(spec);
    let capacity = filesystems[0].2;
    let queue_base = config.wait_queues();
    let mut timers = Rng::new(spec.seed, "timer phase");
    let tick = SECOND / u64::from(m.hz);
    let ticks = (tick, timers.below(tick));
    let params = sched_params(spec, p, tick, ticks.1);
    let queues = queue_base + own_queue::count(config.max_tasks, devices_of(m));
    let parents: Vec<u32> = config.groups.iter().map(|group| group.parent).collect();
    let sched = Sched::new(
        config.cpus,
        params,
        queues as usize,
        Rng::new(spec.seed, "wake-up latency"),
    )
    .with_groups(&parents);
    let mut wear = Rng::new(spec.seed, "disk");
    let (mut devices, mut volumes) = (Vec::new(), Vec::new());
    let form = Form {
        registered: registered_alike(m, p),
        cpus: m.cpus,
        ticks,
        ..Form::of(&spec.policy)
    };
    // Adds a disk's devices and volume to the world; returns the volume's number.
    let mut attach = |d: &DiskSpec, label: &str| {
        let own = d.params(p);
        let (volume, disks) = Volume::new(d, &own, devices.len() as u32);
        for (i, disk) in disks.iter().enumerate() {
            let label = match i {
                0 => label.to_owned(),
                _ => format!("{label} {i}"),
            };
            devices.push((
                Queue::with_form(disk, &own, form, &mut wear),
                Rng::new(spec.seed, &label),
            ));
        }
        volumes.push(volume);
        volumes.len() as u32 - 1
    };
    attach(&m.disk, "disk service");
    let mut swap_area = (DEVICE, 0);
    if let Some(swap) = &m.swap {
        if let Some(d) = &swap.disk {
            swap_area = (attach(d, "swap disk service"), 0);
        } else {
            swap_area = (DEVICE, capacity);
        }
    }
    let mut fs_volumes = vec![DEVICE];
    for (i, mount) in (1..).zip(&m.mounts) {
        fs_volumes.push(attach(&mount.disk, &(nth(i) + "disk service")));
    }
    let fs = filesystems
        .into_iter()
        .zip(fs_volumes)
        .enumerate()
        .map(|(i, ((kind, disk, capacity), volume))| {
            let mut layout = Rng::new(spec.seed, &(nth(i) + "filesystem layout"));
            let on_demand = spec.policy.file_readahead != FileReadahead::Parameter
                || p.read_ahead_on_demand >= 0.5;
            let ahead = (read_ahead(kind, disk, on_demand, p), on_demand);
            let mut fs = Fs::new(kind, disk, volume, capacity, ahead, p, &mut layout);
            if spec.policy.block_allocation == BlockAllocation::Ahead {
                fs = fs.looking_ahead();
            }
            match spec.policy.journal_place {
                JournalPlace::Front => fs,
                JournalPlace::Middle => fs.with_journal_in_middle(),
            }
        })
        .collect();
    let offset = (p.boot_offset as u64).max(1);
    let booted = YEAR_2011 + Rng::new(spec.seed, "boot time").below(offset);
    let mut world = SimWorld::new(
        sched,
        (fs, swap_area),
        (devices, volumes),
        queue_base,
        config.max_tasks,
        booted,
        p,
    );
    if spec.policy.plugs != Plugs::None {
        world = world.plugged(p.plug_requests as usize);
    }
    world.left_to_worker = spec.policy.plugs == Plugs::Worker && kblockd::is_there(&spec.policy);
    world.wbt_by_task = spec.policy.writeback_throttling == WritebackThrottling::Wbt;
    (world.groups, world.group_of_workload) = groups::names(&spec.groups);
    if spec.monitors {
        world.record_event = p.cost_trace_event as u64;
    }
    Mm::try_new(world, config, spec.policy.clone(), spec.track_pages)
}

/// Returns how long after a timer tick the workload begins on a machine that has just booted, in
/// nanoseconds. The seed decides, because the machine's boot itself takes equally long in each run.
/// A guest of a real kernel waits for the same moment.
pub fn since_tick(seed: u64, tick: u64) -> u64 {
    Rng::new(seed, "since the last tick").below(tick.max(1))
}

/// Returns the scheduler's parameters, by policy and model parameters; ticks come every `tick`
/// nanoseconds, the first at `tick_phase`.
fn sched_params(spec: &RunSpec, p: &Params, tick: u64, tick_phase: u64) -> SchedParams {
    SchedParams {
        quantum: p.quantum as u64,
        latency: p.sched_latency as u64,
        min_granularity: p.sched_min_granularity as u64,
        wakeup_granularity: p.sched_wakeup_granularity as u64,
        eevdf_slice: match spec.policy.scheduler {
            Scheduler::Cfs => None,
            // `sysctl_sched_base_slice` grows with the number of CPUs, up to eight.
            Scheduler::Eevdf => Some(BASE_SLICE * u64::from(1 + spec.machine.cpus.min(8).ilog2())),
        },
        idle_wakeup: p.idle_wakeup,
        idle_wakeup_sigma: p.idle_wakeup_sigma,
        place: match p.sched_place {
            2.0.. => Place::Kernels,
            0.0 => Place::Busy,
            _ => Place::Everywhere,
        },
        switch: p.sched_switch as u64,
        tick,
        tick_phase,
        timer_wheel: spec.policy.timer_wheel,
    }
}

/// Returns the depth of the deepest disk of a machine, in requests, if its driver registers all
/// disks with that one (`disks_alike`); otherwise 0.
fn registered_alike(m: &Machine, p: &Params) -> u32 {
    if p.disks_alike < 0.5 {
        return 0;
    }
    let swap = m.swap.iter().filter_map(|s| s.disk.as_ref());
    let mounts = m.mounts.iter().map(|mount| &mount.disk);
    let depth = |d: &DiskSpec| {
        let own = d.params(p);
        let members = Volume::new(d, &own, 0).1;
        // The random properties of a device do not affect its depth.
        let of = |disk: &DiskSpec| Device::new(disk, &own, &mut Rng::new(0, "depth")).depth();
        members.iter().map(of).sum::<u32>()
    };
    let all = [&m.disk].into_iter().chain(swap).chain(mounts);
    all.map(depth).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DiskKind, Size};

    fn window(kind: FsKind, disk: DiskKind, on_demand: bool, run: &Params) -> u32 {
        read_ahead(kind, &DiskSpec::new(disk, Size(1 << 30)), on_demand, run)
    }

    /// The window is 128 KiB, which an array raises to two stripes, unless something on top of it
    /// does not.
    #[test]
    fn an_array_raises_the_read_ahead_window() {
        let mut run = Params::default();
        let of = |kind, run: &Params| window(FsKind::Ext4, kind, true, run);
        assert_eq!(of(DiskKind::Disk, &run), 32);
        // Four members with chunks of 64 KiB.
        assert_eq!(of(DiskKind::Raid0, &run), 2 * 4 * 16);
        run.disks.raid0.raid_read_ahead = 0.0;
        assert_eq!(of(DiskKind::Raid0, &run), 32);
    }

    /// btrfs has a backing device of its own, whose windows grow to 4 MiB; the others use their
    /// disk's window.
    #[test]
    fn a_backing_device_of_its_own_reads_further_ahead() {
        let of = |kind, on_demand| window(kind, DiskKind::Disk, on_demand, &Params::default());
        let kinds = [FsKind::Xfs, FsKind::Ext4, FsKind::Btrfs];
        assert_eq!(kinds.map(|kind| of(kind, true)), [32, 32, 1024]);
        assert_eq!(of(FsKind::Btrfs, false), 32);
    }

    /// A window that was set by hand is not raised: 0 reads nothing ahead on any device.
    #[test]
    fn a_window_set_by_hand_holds_as_it_is() {
        for pages in [0, 8, 64] {
            let run = Params {
                read_ahead: f64::from(pages),
                ..Params::default()
            };
            for kind in [FsKind::Ext4, FsKind::Btrfs] {
                for disk in [DiskKind::Disk, DiskKind::Raid0] {
                    assert_eq!(window(kind, disk, true, &run), pages);
                }
            }
        }
    }
}
