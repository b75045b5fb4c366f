//! One run: build a world, boot it, run the workload, gather what it left.

use crate::Control;
use crate::Params;
use crate::account::{TaskClass, TaskTime};
use crate::block::{Queue, Volume};
use crate::filesystems::{self as fs, DEVICE, Fs, SimMm};
use crate::host::{Forks, Namespace, TaskHost};
use crate::latency::AllocClass;
use crate::monitors::Monitor;
use crate::result::{AllocLatency, Metric, Outcome, RunResult, Series, TrackerReport, TrackerRow};
use crate::rng::Rng;
use crate::sample::{FREED, Lumpiness, Sampler};
use crate::sched::{Event, Observer, Sched, SchedParams};
use crate::spec::{DiskSpec, FsKind, Machine, RunSpec};
use crate::watchdog::{Ending, MOST_POLLS};
use crate::world::{SimWorld, own_queue};
use hdrhistogram::Histogram;
use mm::ZoneInfo;
use mm::cache::mapping::MappingKind;
use mm::cache::mmap::{Advice, Backing};
use mm::memory::gfp::Gfp;
use mm::memory::task::{PF_MEMBIND, PF_SWAPWRITE};
use mm::memory::watermark;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::ZoneStat;
use mm::world::TaskId;
use mm::world::Touched;
use mm::world::event::{self, TrackPath};
use mm::world::{Tasks, Watch as _};
use mm::{Config, Mm, NoMemory, Recount, SECOND};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use workload::{HostError, Report, Session, Step, Task};

/// Files, tasks and devices a world has room for, beside the files that the workload's programs
/// find and make and the processes that they are.
const MAX_MAPPINGS: u32 = 65_536;
const OWN_TASKS: u32 = 112;
const MAX_BDIS: u32 = 4;

/// The periodic duty of the engine: `vmstat_update`.
const REFRESH: u32 = 0;

/// The node of each CPU: as the machine says, else one node after the other (what Linux does with
/// `numa=fake` where firmware names no CPUs, `numa_init_array`).
fn cpu_nodes(machine: &Machine) -> Vec<u32> {
    let of = |cpu: u32| machine.nodes.iter().position(|n| n.cpus.contains(&cpu));
    (0..machine.cpus)
        .map(|cpu| of(cpu).unwrap_or(cpu as usize % machine.nodes.len()) as u32)
        .collect()
}

/// The CPUs of a machine's node, a bit each; none if it has none.
pub fn cpus_of_node(machine: &Machine, node: u32) -> u64 {
    crate::host::cpus_of_node(&cpu_nodes(machine), node)
}

/// 2011-01-01 00:00 UTC, in nanoseconds since the epoch.
const YEAR_2011: u64 = 1_293_840_000 * SECOND;

/// What the engine is built for on a machine.
pub fn engine_config(machine: &Machine) -> Config {
    Config {
        cpus: machine.cpus as usize,
        hz: u64::from(machine.hz),
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
        max_tasks: OWN_TASKS,
        max_mappings: MAX_MAPPINGS,
        max_bdis: MAX_BDIS,
        max_supers: 1 + machine.second.iter().len() as u32,
        max_ags: 0,
        swap_slots: machine.swap.as_ref().map_or(0, |s| s.size.pages() as u32),
        sysctl: machine.sysctl.engine(),
    }
}

/// The watermarks of a machine's zones in pages, in their order: min, low, high.
pub fn watermarks(machine: &Machine) -> Vec<[u64; 3]> {
    let config = engine_config(machine);
    let lowmem = watermark::lowmem_kbytes(&config.zones);
    let min = config.sysctl.min_kbytes(lowmem);
    watermark::MarkFormula::of(&config.sysctl).marks(min, &config.zones)
}

/// The read-ahead window of a disk in pages. An array raises it to two stripes, so that a reader
/// keeps every member busy (Linux 3.0 drivers/md/raid0.c, `raid0_run`).
fn read_ahead(disk: &DiskSpec, run: &Params) -> u32 {
    let p = disk.params(run);
    let array = disk.kind.about().array.as_ref();
    let stripe = array.map_or(0.0, |a| f64::from(disk.members()) * (a.chunk)(&p) / 4096.0);
    p.read_ahead.max(2.0 * stripe) as u32
}

/// What a run's engine is built for: [`engine_config`] with room for what its workload makes.
pub(crate) fn config_of(spec: &RunSpec, p: &Params) -> Config {
    let mut config = engine_config(&spec.machine);
    let workload = &spec.workload;
    let given = workload.files.len() + workload.directories.len();
    config.max_mappings += workload.files_made() as u32 + given as u32;
    config.max_tasks += workload.processes_at_a_time() as u32;
    for (kind, disk, capacity) in filesystems(spec) {
        config.max_ags += kind.about().inode_groups(capacity, disk, p);
    }
    config
}

/// A run's filesystems: which one, on which disk, how many pages it has of it.
fn filesystems(spec: &RunSpec) -> Vec<(FsKind, &DiskSpec, u64)> {
    let m = &spec.machine;
    let mut capacity = m.disk.capacity.pages();
    if let Some(swap) = m.swap.as_ref().filter(|s| s.disk.is_none()) {
        capacity = capacity.saturating_sub(swap.size.pages());
    }
    let mut all = vec![(spec.filesystem, &m.disk, capacity)];
    if let Some(s) = &m.second {
        all.push((s.filesystem, &s.disk, s.disk.capacity.pages()));
    }
    all
}

/// Builds the world of a run: an engine with all memory free, no task yet. Where the host has no
/// memory for it, it unwinds with [`NoMemory`].
pub fn build<const T: bool>(spec: &RunSpec) -> SimMm<T> {
    try_build(spec).unwrap_or_else(|e| e.raise())
}

/// As [`build`].
///
/// # Errors
/// The host has no memory for one of the engine's tables.
pub fn try_build<const T: bool>(spec: &RunSpec) -> Result<SimMm<T>, NoMemory> {
    let m = &spec.machine;
    let p = &m.params(&spec.params).scaled();
    let config = config_of(spec, p);
    let filesystems = filesystems(spec);
    let capacity = filesystems[0].2;
    let queue_base = config.wait_queues();
    let mut timers = Rng::new(spec.seed, "timer phase");
    let tick = SECOND / u64::from(m.hz);
    let params = SchedParams {
        quantum: p.quantum as u64,
        latency: p.sched_latency as u64,
        min_granularity: p.sched_min_granularity as u64,
        wakeup_granularity: p.sched_wakeup_granularity as u64,
        idle_wakeup: p.idle_wakeup,
        idle_wakeup_sigma: p.idle_wakeup_sigma,
        place: p.sched_place != 0.0,
        switch: p.sched_switch as u64,
        tick,
        tick_phase: timers.below(tick),
    };
    let queues = queue_base + own_queue::TASK + config.max_tasks;
    let sched = Sched::new(
        config.cpus,
        params,
        queues as usize,
        Rng::new(spec.seed, "wake-up latency"),
    );
    let mut wear = Rng::new(spec.seed, "disk");
    let (mut devices, mut volumes) = (Vec::new(), Vec::new());
    let mut attach = |d: &DiskSpec, label: &str| {
        let own = d.params(p);
        let (volume, disks) = Volume::new(d, &own, devices.len() as u32);
        for (i, disk) in disks.iter().enumerate() {
            let label = match i {
                0 => label.to_owned(),
                _ => format!("{label} {i}"),
            };
            devices.push((
                Queue::new(disk, &own, &mut wear),
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
    let mut on = vec![DEVICE];
    if let Some(s) = &m.second {
        on.push(attach(&s.disk, "second disk service"));
    }
    let labels = ["filesystem layout", "second filesystem layout"];
    let fs = filesystems
        .into_iter()
        .zip(on)
        .zip(labels)
        .map(|(((kind, disk, capacity), volume), label)| {
            let mut layout = Rng::new(spec.seed, label);
            let ahead = read_ahead(disk, p);
            Fs::new(kind, disk, volume, capacity, ahead, p, &mut layout)
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
    if spec.monitors {
        world.record_event = p.cost_trace_event as u64;
    }
    Mm::try_new(world, config, spec.policy.clone(), spec.track_pages)
}

/// What the workload's shell leaves for the gatherer.
#[derive(Default)]
struct Progress {
    started: Cell<Option<u64>>,
    /// Events recorded before the start.
    recorded: Cell<usize>,
    finished: Cell<Option<u64>>,
    baseline: RefCell<Vec<(String, u64)>>,
    /// Inodes freed before the start, of each filesystem.
    freed: RefCell<Vec<u64>>,
    reports: RefCell<Vec<Report>>,
    error: RefCell<Option<HostError>>,
    background: Cell<usize>,
    foreground: Cell<usize>,
}

/// Memory that a booted machine has in use. `false`: it does not fit.
async fn boot<const T: bool>(mm: &SimMm<T>, m: &Machine) -> bool {
    mm.note_path(TrackPath::Boot);
    for _ in 0..m.boot.kernel.pages() {
        if mm.alloc_kernel_page(Gfp::KERNEL).await.is_none() {
            return false;
        }
        mm.world.relax().await;
    }
    for _ in 0..m.boot.dma.pages() {
        // A machine without a DMA zone, or with a smaller one, has nothing of it to hold.
        if mm.config.zones[0].kind != mm::ZoneType::Dma
            || mm.alloc_kernel_page(Gfp::zone(0)).await.is_none()
        {
            break;
        }
    }
    let anon = m.boot.anon.pages() as u32;
    if anon > 0 {
        let Some(region) = mm.new_region(Backing::Anon, anon, Advice::Normal) else {
            return false;
        };
        for i in 0..anon {
            if mm.touch(region, i, true).await != Touched::Ok {
                return false;
            }
        }
    }
    let cache = m.boot.cache.pages() as u32;
    if cache > 0 {
        let Some(file) = mm.new_mapping(MappingKind::File, mm.world.fs[0].bdi.get()) else {
            return false;
        };
        for i in 0..cache {
            let Some(pfn) = mm.alloc_page(Gfp::USER).await else {
                return false;
            };
            if !mm.add_to_page_cache_lru(pfn, file, i) {
                return false;
            }
            mm.world.relax().await;
        }
    }
    mm.lru_add_drain();
    true
}

/// What the tasks of a workload share.
struct Stage<'a, const T: bool> {
    mm: &'a SimMm<T>,
    spec: &'a RunSpec,
    names: &'a Namespace,
    forks: &'a Forks<T>,
    session: &'a Session,
    progress: &'a Progress,
}

impl<'a, const T: bool> Stage<'a, T> {
    /// A host whose time counts from the start of the workload.
    fn host(&self) -> TaskHost<'a, T> {
        let start = self.progress.started.get().unwrap_or(0);
        TaskHost::new(self.mm, self.names, self.forks, start)
    }
}

/// The script's shell: boots, then runs the foreground steps one after the other.
async fn shell<const T: bool>(stage: &Stage<'_, T>) {
    let Stage {
        mm, spec, progress, ..
    } = *stage;
    if !boot(mm, &spec.machine).await {
        mm.world
            .out_of_memory("the machine's boot footprint does not fit its memory".into());
        return;
    }
    for path in &spec.workload.directories {
        if !stage.names.lay_out_dir(mm, path) {
            *progress.error.borrow_mut() = Some(HostError::NoSpace(path.clone()));
            mm.world.sched.stop();
            return;
        }
    }
    for file in &spec.workload.files {
        if !stage.names.lay_out(mm, &file.path, file.len) {
            let error = HostError::NoSpace(format!("{} ({} bytes)", file.path, file.len));
            *progress.error.borrow_mut() = Some(error);
            mm.world.sched.stop();
            return;
        }
    }
    bind(mm, spec);
    // A second passes between boot and workload: counters settle, kswapd sleeps.
    mm.world.sched.sleep(SECOND).await;
    mm.world.alloc.reset();
    mm.world.slowest.reset();
    let start = mm.world.now();
    mm.world.sched.restart_accounts();
    mm.world.reclaim.restart(start);
    mm.world.sched.waiting.restart(start);
    progress.recorded.set(mm.world.events.borrow().len());
    *progress.baseline.borrow_mut() = mm.vmstat();
    *progress.freed.borrow_mut() = inodes_freed(mm);
    progress.started.set(Some(start));
    let go = mm.world.queue_base + own_queue::PROCESS_DONE;
    for step in &spec.workload.steps {
        match step {
            Step::Foreground(process) => {
                if !run_process(process, stage).await {
                    break;
                }
            }
            Step::Background(_) => {
                progress.background.set(progress.background.get() + 1);
                mm.world.sched.wake(go);
            }
            Step::Wait => loop {
                let ticket = mm.world.sched.ticket(go);
                if progress.foreground.get() >= progress.background.get() {
                    break;
                }
                mm.world.sched.wait(go, ticket, None).await;
            },
        }
    }
    progress.finished.set(Some(mm.world.now()));
    mm.world.sched.stop();
}

/// Holds the calling task's memory to the workload's node.
fn bind<const T: bool>(mm: &SimMm<T>, spec: &RunSpec) {
    if let Some(node) = spec.membind {
        mm.init_task(mm.world.sched.task(), PF_MEMBIND, node);
    }
}

async fn run_process<const T: bool>(process: &workload::Process, stage: &Stage<'_, T>) -> bool {
    let (host, progress) = (stage.host(), stage.progress);
    for command in &process.commands {
        match command.run(&host, stage.session).await {
            Ok(report) => progress.reports.borrow_mut().push(report),
            Err(e) => {
                progress.error.borrow_mut().get_or_insert(e);
                return false;
            }
        }
    }
    true
}

/// A background process: waits until the shell reaches its step.
async fn background<const T: bool>(stage: &Stage<'_, T>, nth: usize, process: &workload::Process) {
    let Stage {
        mm, spec, progress, ..
    } = *stage;
    let go = mm.world.queue_base + own_queue::PROCESS_DONE;
    loop {
        let ticket = mm.world.sched.ticket(go);
        if progress.background.get() > nth {
            break;
        }
        mm.world.sched.wait(go, ticket, None).await;
    }
    bind(mm, spec);
    run_process(process, stage).await;
    progress.foreground.set(progress.foreground.get() + 1);
    mm.world.sched.wake(go);
}

/// A task for forked processes: each is a new one to the engine.
async fn child<const T: bool>(stage: &Stage<'_, T>) {
    let Stage { mm, spec, .. } = *stage;
    let own = mm.world.sched.task();
    let go = mm.world.queue_base + own_queue::FORK;
    let ticket = mm.world.sched.ticket(go);
    mm.world.sched.wait(go, ticket, None).await;
    let host = stage.host();
    let begin = || {
        mm.init_task(own, 0, 0);
        bind(mm, spec);
    };
    stage.forks.child(&host, stage.session, begin).await;
}

/// The first look later than `time` of those that are `every` nanoseconds apart; 0: none.
fn next_look(time: u64, every: u64) -> u64 {
    match every {
        0 => u64::MAX,
        every => (time / every + 1).saturating_mul(every),
    }
}

/// Who looks at a run as it goes: samples, recounts, progress, and whoever wants it to end.
struct Watch<'a, const T: bool> {
    stage: &'a Stage<'a, T>,
    control: &'a Control,
    sampler: Sampler,
    lumpiness: Lumpiness,
    recount: Recount,
    /// When what is due next, in nanoseconds since boot.
    sample_at: u64,
    check_at: u64,
    second_at: u64,
    limit_at: u64,
    /// What it ended the run for.
    outcome: Option<Outcome>,
    check_error: Option<String>,
}

impl<const T: bool> Observer for Watch<'_, T> {
    fn due(&self) -> u64 {
        let looks = self.sample_at.min(self.check_at).min(self.second_at);
        looks.min(self.limit_at)
    }

    fn observe(&mut self) {
        let time = self.due();
        let Stage {
            mm, spec, session, ..
        } = *self.stage;
        let started = self.stage.progress.started.get();
        if self.sample_at == time {
            self.sample_at = next_look(time, spec.sample_ns);
            // The workload may have begun after the time that this look is for.
            if let Some(since) = started.and_then(|start| time.checked_sub(start)) {
                self.sampler.sample(mm, &session.gauges(), since);
            }
        }
        if self.check_at == time {
            self.check_at = next_look(time, spec.check_ns);
            if let Err(e) = self.recount.run(mm) {
                self.check_error
                    .get_or_insert(format!("recount at {time} ns: {e}"));
                mm.world.sched.stop();
            }
        }
        if self.second_at == time {
            self.second_at = next_look(time, SECOND);
            if started.is_some() {
                self.lumpiness.second(mm);
            }
            self.control.sim_ns.store(time, Ordering::Relaxed);
        }
        if self.limit_at == time {
            self.limit_at = u64::MAX;
            self.outcome.get_or_insert(Outcome::TimeLimit);
            mm.world.sched.stop();
        }
    }
}

/// Runs one cell at one iteration; deterministic in `spec`. Where the host has no memory for it, it
/// unwinds with [`NoMemory`] and no message.
pub fn run(spec: &RunSpec, control: &Control) -> RunResult {
    run_in::<false>(spec, control, false).0
}

/// What a traced run recorded.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Events from boot on, with time in nanoseconds and the task that emitted them.
    pub events: Vec<(u64, TaskId, event::Event)>,
    /// How often the ring of events was full and was emptied: 0 for a complete record.
    pub rings_lost: u64,
    /// The first event of the workload.
    pub first: usize,
    /// When the workload began and ended.
    pub span: (u64, u64),
    /// The tasks that are a kswapd.
    pub kswapds: Vec<TaskId>,
    /// Where the time of each task went.
    pub tasks: Vec<(TaskId, TaskTime)>,
    /// CPU time of each task since boot, as the scheduler has it.
    pub cpu_ns: Vec<u64>,
}

/// As [`run`], with every event of reclaim and writeback recorded. Recording changes nothing.
pub fn traced(spec: &RunSpec, control: &Control) -> (RunResult, Recorded) {
    run_in::<true>(spec, control, true)
}

/// As [`run`], with the tracepoints in place and nobody who listens; for the benchmark of that.
pub fn unread(spec: &RunSpec, control: &Control) -> RunResult {
    run_in::<true>(spec, control, false).0
}

fn run_in<const T: bool>(spec: &RunSpec, control: &Control, record: bool) -> (RunResult, Recorded) {
    let mm = build::<T>(spec);
    mm.world.recording.set(record);
    fs::mount(&mm);
    let names = Namespace::new(spec.machine.second.as_ref().map(|s| &*s.mount));
    let forks = Forks::default();
    let session = spec.workload.session();
    if session.measures_calls() {
        mm.world.reuse.start();
    }
    if mm.world.fs[0].on_demand() {
        mm.watch_pages();
    }
    let progress = Progress::default();
    let stage = Stage {
        mm: &mm,
        spec,
        names: &names,
        forks: &forks,
        session: &session,
        progress: &progress,
    };
    let w = &mm.world;
    let mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    fn add<'a, const T: bool>(
        mm: &SimMm<T>,
        future: Pin<Box<dyn Future<Output = ()> + 'a>>,
        flags: u32,
        node: u32,
        class: TaskClass,
    ) -> (Pin<Box<dyn Future<Output = ()> + 'a>>, u32) {
        let id = mm.world.sched.spawn();
        mm.init_task(id, flags, node);
        mm.world.sched.set_class(id, class);
        mm.world.sched.waiting.set_name(id, class.name());
        if class == TaskClass::Kswapd {
            mm.world.reclaim.is_kswapd(id);
        }
        (future, id)
    }
    // Task 0 is the idle identity of interrupts.
    let mut list = vec![add(&mm, Box::pin(async {}), 0, 0, TaskClass::Workload)];
    for node in 0..mm.nodes.len() as u32 {
        let (life, class) = (Box::pin(mm.kswapd(node)), TaskClass::Kswapd);
        list.push(add(&mm, life, KSWAPD_FLAGS, node, class));
        // Linux 3.0 kswapd(): set_cpus_allowed_ptr, where its node has CPUs.
        let cpus = cpus_of_node(&spec.machine, node);
        if cpus != 0 {
            mm.world.sched.set_affinity(list[list.len() - 1].1, cpus);
        }
    }
    let kswapds: Vec<u32> = list[1..].iter().map(|t| t.1).collect();
    let mut flushers = Vec::new();
    for bdi in 0..mm.bdi_count() {
        let (life, class) = (Box::pin(mm.flusher(bdi)), TaskClass::Flusher);
        let t = add(&mm, life, PF_SWAPWRITE, 0, class);
        flushers.push(t.1);
        list.push(t);
    }
    for (_, daemon) in fs::daemons(&mm) {
        list.push(add(&mm, daemon, 0, 0, TaskClass::Filesystem));
    }
    if spec.monitors {
        let p = spec.machine.params(&spec.params).scaled();
        for monitor in Monitor::all(&p, spec.seed) {
            list.push(add(
                &mm,
                Box::pin(monitor.run(&mm)),
                0,
                0,
                TaskClass::Monitor,
            ));
        }
    }
    let mut nth = 0;
    for step in &spec.workload.steps {
        if let Step::Background(process) = step {
            let life = Box::pin(background(&stage, nth, process));
            list.push(add(&mm, life, 0, 0, TaskClass::Workload));
            nth += 1;
        }
    }
    for _ in 0..spec.workload.children() {
        let life = Box::pin(child(&stage));
        list.push(add(&mm, life, 0, 0, TaskClass::Workload));
    }
    list.push(add(&mm, Box::pin(shell(&stage)), 0, 0, TaskClass::Workload));
    futures.extend(list.into_iter().map(|(f, _)| f));

    w.sched.at(SECOND, Event::Periodic(REFRESH));
    w.sched.heed(Arc::clone(&control.stop));
    let mut watch = Watch {
        stage: &stage,
        control,
        sampler: Sampler::new(&mm, kswapds.clone(), flushers),
        lumpiness: Lumpiness::default(),
        recount: Recount::default(),
        sample_at: next_look(0, spec.sample_ns),
        check_at: next_look(0, spec.check_ns),
        second_at: SECOND,
        limit_at: match spec.time_limit_ns {
            0 => u64::MAX,
            limit => limit,
        },
        outcome: None,
        check_error: None,
    };
    let on_event = |time, event| match event {
        Event::Device(dev) => {
            SimWorld::device_event(&mm, dev);
            w.alloc.interrupted(time, w.sched.now() - time);
        }
        Event::Periodic(_) => {
            w.sched.at(time + SECOND, Event::Periodic(REFRESH));
            for cpu in 0..mm.config.cpus {
                mm.refresh_cpu_vm_stats(cpu);
            }
        }
        Event::Timer(..) => {}
    };
    let ended = w.sched.run_observed(&mut futures, on_event, &mut watch);
    let Watch {
        sampler,
        lumpiness,
        mut recount,
        mut outcome,
        mut check_error,
        ..
    } = watch;
    control.polls.store(w.sched.polls(), Ordering::Relaxed);
    if let Some(ending) = w.sched.ending() {
        outcome.get_or_insert_with(|| ended_by(&mm, ending));
    }
    drop(futures);
    let end = progress.finished.get().or(ended).unwrap_or(0);
    let lasted = end.saturating_sub(progress.started.get().unwrap_or(end));
    progress.reports.borrow_mut().extend(session.report(lasted));
    if spec.check_ns > 0
        && check_error.is_none()
        && let Err(e) = recount.run(&mm)
    {
        check_error = Some(format!("recount at the end: {e}"));
    }
    let seen = (sampler.finish(), lumpiness.value());
    let result = gather(&mm, spec, &progress, seen, outcome, check_error, ended);
    let recorded = if record {
        recorded(&mm, &progress, result.sim_ns, kswapds)
    } else {
        Recorded::default()
    };
    (result, recorded)
}

/// How a run ended that nobody in it ended.
fn ended_by<const T: bool>(mm: &SimMm<T>, ending: Ending) -> Outcome {
    let Ending::Stuck { task, at } = ending else {
        return Outcome::Interrupted;
    };
    let sched = &mm.world.sched;
    let on = sched.waiting.waits_on(task);
    let waits = on.map_or_else(|| "goes round".into(), |on| format!("waits for {on}"));
    Outcome::Failed {
        error: format!(
            "no progress in {MOST_POLLS} polls at {} ns of simulated time: {} {waits} at {at}",
            sched.now(),
            sched.waiting.name(task),
        ),
    }
}

fn recorded<const T: bool>(
    mm: &SimMm<T>,
    progress: &Progress,
    end: u64,
    kswapds: Vec<TaskId>,
) -> Recorded {
    let w = &mm.world;
    let tasks = w.sched.task_times(end);
    Recorded {
        events: w.events.take(),
        rings_lost: w.rings_lost.get(),
        first: progress.recorded.get(),
        span: (progress.started.get().unwrap_or(end), end),
        kswapds,
        cpu_ns: tasks.iter().map(|(t, _)| w.sched.task_cpu_ns(*t)).collect(),
        tasks,
    }
}

/// Inodes whose memory was given back since the mount, of each filesystem.
fn inodes_freed<const T: bool>(mm: &SimMm<T>) -> Vec<u64> {
    let all = 0..mm.world.fs.len() as u32;
    all.map(|sb| mm.inodes_freed(sb)).collect()
}

/// How well the page cache served, if it was counted.
fn reuse(r: &fs::Reuse) -> Vec<(String, Metric)> {
    let mut metrics = Vec::new();
    let mut put = |name: &str, unit, value| {
        metrics.push((name.to_string(), Metric { unit, value }));
    };
    if !r.on() {
        return metrics;
    }
    let (read, found) = (r.read.get(), r.read_found.get());
    let (all, all_found) = (read + r.written.get(), found + r.written_found.get());
    if all > 0 {
        put("hit_ratio", "share", all_found as f64 / all as f64);
    }
    if read > 0 {
        put("read_hit_ratio", "share", found as f64 / read as f64);
    }
    put("read_from_disk", "bytes", r.fetched.get() as f64 * 4096.0);
    put("read_again", "bytes", r.fetched_again.get() as f64 * 4096.0);
    metrics
}

fn gather<const T: bool>(
    mm: &SimMm<T>,
    spec: &RunSpec,
    progress: &Progress,
    (series, lumpiness): (Series, Option<f64>),
    outcome: Option<Outcome>,
    check_error: Option<String>,
    ended: Option<u64>,
) -> RunResult {
    let w = &mm.world;
    let end = progress.finished.get().or(ended).unwrap_or(0);
    let outcome = if let Some(report) = w.oom.borrow_mut().take() {
        Outcome::Oom { report }
    } else if let Some(error) = check_error {
        Outcome::Failed { error }
    } else if let Some(o) = outcome {
        o
    } else if let Some(error) = progress.error.borrow_mut().take() {
        Outcome::Failed {
            error: error.to_string(),
        }
    } else if ended.is_none() {
        Outcome::Failed {
            error: "every task waits for ever".into(),
        }
    } else {
        Outcome::Completed
    };
    let mut metrics = BTreeMap::new();
    if let Some(start) = progress.started.get() {
        let seconds = end.saturating_sub(start) as f64 / SECOND as f64;
        metrics.insert(
            "elapsed".to_string(),
            Metric {
                unit: "s",
                value: seconds,
            },
        );
    }
    for report in progress.reports.borrow().iter() {
        for (name, unit, value) in &report.metrics {
            if name != "elapsed" {
                metrics
                    .entry(name.clone())
                    .and_modify(|m: &mut Metric| m.value += value)
                    .or_insert(Metric {
                        unit,
                        value: *value,
                    });
            }
        }
    }
    if w.fs[0].on_demand() {
        let value = w.dropped.reread.get() as f64;
        metrics.insert(
            "readahead_reread".into(),
            Metric {
                unit: "pages",
                value,
            },
        );
    }
    let alloc = w.alloc.histograms();
    if let Some(longest) = alloc.iter().map(Histogram::max).max() {
        let value = longest as f64 / 1000.0;
        metrics.insert("alloc_wait_max".into(), Metric { unit: "us", value });
    }
    let tasks = TaskTime::by_class(w.sched.task_times(end).into_iter().map(|t| t.1));
    if let Some(t) = tasks.iter().find(|t| t.class == TaskClass::Workload) {
        let cpu = t.outside.cpu + t.in_reclaim.cpu;
        for (name, ns) in [
            ("user_time", t.user),
            ("system_time", cpu.saturating_sub(t.user)),
        ] {
            let value = ns as f64 / SECOND as f64;
            metrics.insert(name.to_string(), Metric { unit: "s", value });
        }
    }
    let mut figures = workload::programs::metrics();
    if figures.any(|m| m.beside_watermarks && metrics.contains_key(m.name)) {
        let lowmem = watermark::lowmem_kbytes(&mm.config.zones);
        let sums = mm.config.sysctl.wmark_kbytes(lowmem);
        for (name, kb) in ["wmark_min", "wmark_low", "wmark_high"]
            .into_iter()
            .zip(sums)
        {
            let value = kb as f64;
            metrics.insert(name.to_string(), Metric { unit: "kB", value });
        }
    }
    metrics.extend(reuse(&w.reuse));
    if w.fs.len() > 1 {
        let freed = inodes_freed(mm);
        let before = progress.freed.borrow();
        for (i, name) in FREED.into_iter().enumerate() {
            let value = (freed[i] - before.get(i).unwrap_or(&freed[i])) as f64;
            let unit = "inodes";
            metrics.insert(name.to_string(), Metric { unit, value });
        }
    }
    let baseline: BTreeMap<String, u64> = progress.baseline.borrow().iter().cloned().collect();
    let levels: Vec<&str> = ZoneStat::ALL
        .iter()
        .filter(|s| !s.cumulative())
        .map(|s| s.name())
        .collect();
    let counters = mm
        .vmstat()
        .into_iter()
        .map(|(name, v)| {
            let before = if levels.contains(&name.as_str()) {
                0
            } else {
                baseline.get(&name).copied().unwrap_or(0)
            };
            (name, v.saturating_sub(before))
        })
        .collect();
    let mut notes = spec.workload.notes.clone();
    if w.lost_pages.get() > 0 {
        notes.push(format!(
            "{} dirty pages could not be written and are lost",
            w.lost_pages.get()
        ));
    }
    let tracker = mm.tracker_rows().map(|rows| TrackerReport {
        rows: rows
            .into_iter()
            .flat_map(|(a, b, dirtied, activated)| {
                [("dirtied", dirtied), ("activated", activated)].map(|(event, count)| TrackerRow {
                    instantiated_by: a.name(),
                    path: b.name(),
                    event,
                    count,
                })
            })
            .filter(|r| r.count > 0)
            .collect(),
    });
    if let Some(value) = lumpiness {
        let name = "inode_reclaim_lumpiness".to_owned();
        metrics.insert(name, Metric { unit: "1", value });
    }
    RunResult {
        outcome,
        metrics,
        counters,
        reclaim: w.reclaim.sums(end),
        tasks,
        waits: w.sched.waiting.sums(end),
        moved: w.moved.get(),
        series,
        alloc_latency: AllocLatency {
            paths: AllocClass::ALL
                .iter()
                .map(|&p| (p.name(), alloc[p as usize].clone()))
                .filter(|(_, h)| !h.is_empty())
                .collect(),
            slowest: w.slowest.list(progress.started.get().unwrap_or(0)),
        },
        watermarks: mm.learned_watermarks(&spec.machine.name),
        tracker,
        sim_ns: end,
        notes,
        digest: w.sched.digest() ^ spec.seed,
    }
}
