//! Golden scenarios: short runs of the whole engine in the small world, with every switch used in
//! at least one of them. The state after a run is printed and compared with a snapshot: counters,
//! zones, events, waits, charges and a digest of every event with its time. Lists, indexes and
//! counters are recounted every tenth of a second of virtual time and at the end.
//!
//! A snapshot that changes shows that the engine's behaviour has changed. If the change is meant,
//! accept it with `cargo insta review` or `INSTA_UPDATE=always`, and give the reason in the commit
//! message.

use super::prelude::*;
use super::programs::{self as p, file};
use super::world::{DeviceSpec, Engine, Job, Manners, TestWorld, run};
use std::fmt::Write as _;

mod caches;
mod kernels;
mod mapped;
mod zones;

/// A machine and its switches.
struct Scenario {
    name: &'static str,
    policy: Policy,
    zones: Vec<ZoneInfo>,
    cpus: usize,
    sysctl: Sysctl,
    swap: u32,
    /// The devices; the last one is that of the swap area.
    devices: Vec<DeviceSpec>,
    manners: Manners,
    supers: Vec<SuperInfo>,
    /// Whether pages are tracked and watched.
    watch: bool,
    /// Tasks with flags of their own: index in the list of jobs, flags, node.
    flags: Vec<(u32, u32, u32)>,
    /// Virtual seconds after which the run ends in any case.
    seconds: u64,
    /// Order of a pageblock; a small one lets the small zones be boosted.
    pageblock_order: u32,
    /// Whether the run is expected to exhaust memory.
    oom: bool,
}

/// Returns a zone of `size` pages.
fn zone(node: u32, kind: ZoneType, size: u64) -> ZoneInfo {
    ZoneInfo { node, kind, size }
}

/// Returns 1 MiB of DMA, 8 MiB of DMA32 and 7 MiB of Normal memory.
fn three_zones() -> Vec<ZoneInfo> {
    vec![
        zone(0, ZoneType::Dma, 256),
        zone(0, ZoneType::Dma32, 2048),
        zone(0, ZoneType::Normal, 1792),
    ]
}

/// Returns 10 MiB in three zones.
fn small_zones() -> Vec<ZoneInfo> {
    vec![
        zone(0, ZoneType::Dma, 200),
        zone(0, ZoneType::Dma32, 1300),
        zone(0, ZoneType::Normal, 1060),
    ]
}

/// Returns two nodes: the first as [`three_zones`], the second of 6 MiB.
fn two_nodes() -> Vec<ZoneInfo> {
    let mut zones = three_zones();
    zones.push(zone(1, ZoneType::Normal, 1536));
    zones
}

impl Scenario {
    /// Describes a machine with three zones, two CPUs, one disk, and swap of 4 MiB on another one.
    fn new(name: &'static str, policy: Policy) -> Self {
        Self {
            name,
            policy,
            zones: three_zones(),
            cpus: 2,
            sysctl: Sysctl {
                min_free_kbytes: Some(512),
                ..Sysctl::KERNEL
            },
            swap: 1024,
            devices: vec![DeviceSpec::DISK; 2],
            manners: Manners::default(),
            supers: Vec::new(),
            watch: false,
            flags: Vec::new(),
            pageblock_order: crate::memory::mobility::PAGEBLOCK_ORDER,
            seconds: 30,
            oom: false,
        }
    }

    /// Returns the engine's configuration for the scenario's machine.
    fn config(&self) -> Config {
        let nodes = self.zones.iter().map(|z| z.node).max().unwrap_or(0) + 1;
        Config {
            cpus: self.cpus,
            hz: 250,
            pageblock_order: self.pageblock_order,
            cpu_nodes: (0..self.cpus as u32).map(|c| c % nodes).collect(),
            zones: self.zones.clone(),
            max_tasks: 40,
            max_mappings: 3200,
            max_bdis: self.devices.len() as u32 - 1,
            max_supers: self.supers.len() as u32,
            max_ags: self.supers.iter().map(|s| s.ags).sum(),
            swap_slots: self.swap,
            swap_rotates: false,
            groups: Vec::new(),
            sysctl: self.sysctl.clone(),
        }
    }

    /// Boots the machine, runs the jobs that `programs` makes beside the engine's own tasks, and
    /// compares the result with the snapshot.
    fn play(self, programs: impl for<'a> FnOnce(&'a Engine) -> Vec<Job<'a>>) {
        let config = self.config();
        let world = TestWorld::new(&config, &self.devices);
        world.set_manners(self.manners);
        let mm = Mm::new(world, config, self.policy.clone(), self.watch);
        for _ in 1..self.devices.len() {
            mm.new_bdi(0, 100).expect("room for a device");
        }
        if self.watch {
            mm.watch_pages();
        }
        let supers: Vec<u32> = self
            .supers
            .iter()
            .map(|info| mm.new_super(info).expect("room"))
            .collect();
        let mut jobs = programs(&mm);
        let n = jobs.len();
        for task in 0..mm.config.max_tasks {
            mm.init_task(task, 0, 0);
        }
        for &(task, flags, node) in &self.flags {
            mm.init_task(task, flags, node);
        }
        let engine = &mm;
        for node in 0..mm.nodes.len() as u32 {
            mm.init_task(jobs.len() as u32, KSWAPD_FLAGS, node);
            jobs.push(Box::pin(mm.kswapd(node)));
        }
        for bdi in 0..mm.bdi_count() {
            mm.init_task(jobs.len() as u32, PF_SWAPWRITE, 0);
            jobs.push(Box::pin(mm.flusher(bdi)));
        }
        for sb in supers
            .into_iter()
            .filter(|&sb| self.supers[sb as usize].ags > 0)
        {
            jobs.push(Box::pin(mm.xfs_log_worker(sb)));
            jobs.push(Box::pin(mm.xfsaild(sb)));
            jobs.push(Box::pin(mm.xfs_reclaim_worker(sb)));
            if self.policy.xfs_log_push == XfsLogPush::Unwaited {
                jobs.push(Box::pin(mm.xfs_cil_worker(sb)));
            }
        }
        jobs.push(Box::pin(async move {
            loop {
                engine.world.sleep(SECOND).await;
                (0..engine.config.cpus).for_each(|cpu| engine.refresh_cpu_vm_stats(cpu));
            }
        }));
        let mut recount = Recount::default();
        let ended = run(&mm, jobs, n, self.seconds * SECOND, |mm| {
            if let Err(e) = recount.run(mm) {
                panic!("{}: {e} at {} ns", self.name, mm.world.now());
            }
        });
        assert_eq!(
            mm.world.oom.borrow().is_some(),
            self.oom,
            "{}: memory exhausted",
            self.name
        );
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false,
            omit_expression => true }, {
            insta::assert_snapshot!(self.name, state_after(&mm, ended, n));
        });
    }
}

/// Prints the state after a run.
fn state_after(mm: &Engine, ended: usize, of: usize) -> String {
    let (mut s, w) = (String::new(), &mm.world);
    let _ = writeln!(
        s,
        "{ended} of {of} programs, {} ns, digest {:016x}",
        w.now(),
        w.digest()
    );
    if let Some(report) = &*w.oom.borrow() {
        let _ = writeln!(s, "out of memory: {report}");
    }
    for (name, n) in mm.vmstat().iter().filter(|(_, n)| *n > 0) {
        let _ = writeln!(s, "{name} {n}");
    }
    for z in 0..mm.zones.len() {
        let zone = &mm.zones[z];
        let marks = [Mark::Min, Mark::Low, Mark::High].map(|m| zone.mark(m));
        let levels: Vec<u64> = ZoneStat::ALL
            .iter()
            .map(|&item| mm.zone_stat(z, item))
            .collect();
        let sums: Vec<u64> = ZoneEvent::ALL
            .iter()
            .map(|&event| mm.zone_event(z, event))
            .collect();
        let _ = writeln!(
            s,
            "{}: marks {marks:?} pcp {} boost {} auto {:?} age {:?} dirty limit {}\n  {levels:?}\n  {sums:?}",
            mm.zone_name(z),
            mm.pcp_pages(z),
            mm.watermark_boost(z),
            mm.auto_extra(z),
            mm.reclaimed_age(z),
            mm.zone_dirty_limit(z),
        );
    }
    let _ = writeln!(s, "events {:?}", w.events.borrow());
    let _ = writeln!(s, "waits {:?}", w.waits.borrow());
    let _ = writeln!(s, "allocations {:?}", w.latencies.borrow());
    let _ = writeln!(s, "charged {:?}", w.charged.each_ref().map(|c| c.get()));
    let _ = writeln!(
        s,
        "tree nodes {} free swap {}",
        mm.tree_nodes(),
        mm.free_swap()
    );
    for sb in 0..mm.config.max_supers {
        let (dentries, inodes) = mm.cached_objects(sb);
        let _ = writeln!(
            s,
            "filesystem {sb}: {dentries} dentries, {inodes} inodes, {} reclaimable, {} freed",
            mm.reclaimable_inodes(sb),
            mm.inodes_freed(sb)
        );
    }
    if mm.config.sysctl.wmark_low_kbytes.is_some() || mm.policy.watermarks != Watermarks::Sysctl {
        let _ = writeln!(s, "learned {:?}", mm.learned_watermarks("m").sums());
    }
    for (by, path, dirtied, activated) in mm.tracker_rows().unwrap_or_default() {
        let _ = writeln!(s, "{} {}: {dirtied} {activated}", by.name(), path.name());
    }
    s
}

/// Makes the load of most scenarios: a writer, a reader, a task that reads and writes random pages
/// of the block device's file, two with anonymous memory, one that takes kernel memory in bursts,
/// and one that syncs and truncates the writer's file.
fn busy<'a>(mm: &'a Engine) -> Vec<Job<'a>> {
    let written = file(mm, MappingKind::File, 0, 5000);
    let read = file(mm, MappingKind::File, 0, 4600);
    let mixed = file(mm, MappingKind::BlockDevice, 0, 1600);
    vec![
        Box::pin(async move {
            p::write_all(mm, written, 0, 5000).await;
            p::write_all(mm, written, 300, 900).await;
        }),
        Box::pin(async move {
            p::read_all(mm, read, 0, 4600).await;
            p::read_all(mm, read, 0, 1500).await;
        }),
        Box::pin(p::mix(mm, mixed, 1600, 5000, 7)),
        Box::pin(p::anonymous(mm, 1600, 4000, 11)),
        Box::pin(async move {
            mm.world.sleep(900_000_000).await;
            p::anonymous(mm, 1300, 3000, 12).await;
        }),
        Box::pin(p::bursts(mm, 60, 120)),
        Box::pin(async move {
            for i in 1..9 {
                mm.world.sleep(300_000_000).await;
                mm.world.mix(u64::from(mm.sync_mapping(written).await));
                if i == 4 {
                    mm.hold_inode(written).await;
                    mm.truncate_from(written, 700).await;
                    mm.release_inode(written);
                }
            }
        }),
    ]
}
