//! The Lowmark engine: Linux page reclaim and writeback, without Linux.
//!
//! # Rules of the house
//!
//! **State.** Everything lives in tables that are allocated once and indexed by small integers:
//! frames ([`frame`]), zones ([`zone`]), files ([`mapping`]), tree nodes ([`pagecache`]), backing
//! devices ([`bdi`]), tasks ([`task`]). A word of state is a [`world::Word32`] or
//! [`world::Word64`]: a plain cell in the virtual world, an atomic in the live one.
//!
//! **Who may touch a frame.** A free frame belongs to its zone's buddy list (zone lock) or to a
//! per-CPU list (that CPU). An allocated frame belongs to the task that allocated it until it is
//! entered into a file's index or an anonymous region. On an LRU list its links belong to the
//! zone's `lru_lock`, which also decides the `LRU` and `ACTIVE` bits of a listed page; isolated by
//! reclaim they belong to the task that isolated it, whose list they are on, so that a recount
//! always finds the page. `LOCKED` excludes everybody but reclaim's try; `PINNED` says that a
//! per-CPU batch holds the page, and reclaim keeps such a page. Whoever sets `PINNED` clears it.
//!
//! **Tasks that run at the same time** (the live world) hold a page by its lock, which they get
//! together with the look-up ([`Mm::find_lock_page`]): a frame number that was merely looked up may
//! belong to another file by now. `DIRTY` is set, `DIRTY` is taken and `WRITEBACK` is set under the
//! page lock only; [`Mm::start_writeback`] does the latter two in one step from a state in which
//! nobody has the lock. `WRITEBACK` is cleared by whoever did the I/O, after the page's tag, and is
//! the last that he touches of the page. A page's bytes are written by the holder of its lock while
//! it is not under writeback, and read by him or by the I/O. Tags are read and written under the
//! file's tree lock; a leaf found under it stays as long as one of its pages does. `WAITERS` is set
//! by who waits for a lock, or, with the lock, for an isolated page: who unlocks it or puts it back
//! wakes him. Between two waits a task has its CPU's lists and counter differences for itself
//! (`vmstat::ZoneCounters` lives no longer than that); those of another CPU are reached only under
//! their lock, or while nobody has that CPU.
//!
//! **Lock order.** bdi list lock → file tree lock → tree node pool lock; per-CPU batch or page list
//! lock → zone `lru_lock` → zone `lock`. A node's request lock and a proportion's lock are leaves,
//! and so are the world's own. Short locks take closures and are never held across a wait.
//!
//! **Who may sleep.** Functions that may wait are `async` and wait only through the [`World`].
//! Plain functions never wait. Reclaim tasks carry [`task::PF_MEMALLOC`]: their own allocations
//! ignore watermarks and never enter reclaim again.
//!
//! **Time.** Every span between two [`World::relax`] calls handles at most 32 pages.
#![forbid(unsafe_code)]

pub mod alloc;
pub mod auto;
pub mod bdi;
pub mod boost;
pub mod buddy;
mod check;
pub mod congestion;
pub mod direct;
pub mod dirty;
mod eviction;
mod fair;
pub mod filemap;
pub mod flusher;
pub mod footprint;
pub mod frame;
pub mod inode;
pub mod kswapd;
pub mod lru;
pub mod mapping;
pub mod mmap;
pub mod mobility;
pub mod node;
pub mod pagecache;
pub mod pcp;
pub mod policy;
pub mod profile;
mod proportion;
pub mod shrink;
mod shrinker;
mod slab;
mod sleep_lock;
pub mod swap;
pub mod task;
pub mod throttle;
pub mod trace;
pub mod tracker;
pub mod view;
pub mod vmstat;
pub mod watermark;
mod workingset;
pub mod world;
pub mod xfs;
pub mod zone;

pub use check::Recount;
pub use frame::{NO_PFN, Pfn};
pub use heap::NoMemory;
pub use policy::Policy;
pub use world::World;

use vmstat::{VmEvent, ZoneEvent, ZoneStat};
use world::{WaitQueue, Word32, Word64};
use zone::{Zone, ZoneInfo, ZoneType};

/// What an engine is built for. Sizes are pages unless named otherwise.
#[derive(Debug, Clone)]
pub struct Config {
    /// CPUs (or per-CPU slots), 1..=64.
    pub cpus: usize,
    /// Timer ticks a second.
    pub hz: u64,
    /// The node of each CPU, from which the tasks on it allocate first.
    pub cpu_nodes: Vec<u32>,
    /// Zones, grouped by node, low to high inside a node.
    pub zones: Vec<ZoneInfo>,
    /// Tasks that may ever exist.
    pub max_tasks: u32,
    /// Files that may ever exist.
    pub max_mappings: u32,
    /// Backing devices that may ever exist.
    pub max_bdis: u32,
    /// Filesystems that tell the engine of their inodes; 0: none does.
    pub max_supers: u32,
    /// Allocation groups of all of them together.
    pub max_ags: u32,
    /// Swap slots; 0: no swap.
    pub swap_slots: u32,
    /// The vm sysctls.
    pub sysctl: Sysctl,
}

impl Config {
    /// How many nodes its zones are on.
    pub fn nodes(&self) -> u32 {
        self.zones.iter().map(|z| z.node).max().unwrap_or(0) + 1
    }

    /// How many wait queues the engine uses; a world may number its own from here on.
    pub fn wait_queues(&self) -> u32 {
        queue::ag(self, self.nodes(), self.max_ags).0
    }
}

/// The vm sysctls (docs/reference/writeback.md#sysctls and docs/reference/memory-model.md#watermarks).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sysctl {
    /// Percent of dirtyable memory at which background writeback starts.
    pub dirty_background_ratio: u64,
    /// Percent of dirtyable memory at which dirtiers are throttled.
    pub dirty_ratio: u64,
    /// Bytes; non-zero replaces the ratio.
    pub dirty_background_bytes: u64,
    /// Bytes; non-zero replaces the ratio.
    pub dirty_bytes: u64,
    /// Hundredths of a second between periodic flusher runs; 0: none.
    pub dirty_writeback_centisecs: u64,
    /// Hundredths of a second after which periodic writeback takes an inode.
    pub dirty_expire_centisecs: u64,
    /// kB; `None`: the kernel's formula.
    pub min_free_kbytes: Option<u64>,
    /// *tunable-watermarks*: the min watermarks of all zones together in kB; as `min_free_kbytes`,
    /// and above it.
    pub wmark_min_kbytes: Option<u64>,
    /// *tunable-watermarks*: the low watermarks of all zones together in kB; `None`: by formula.
    pub wmark_low_kbytes: Option<u64>,
    /// *tunable-watermarks*: the high watermarks of all zones together in kB; `None`: by formula.
    pub wmark_high_kbytes: Option<u64>,
    /// Ten-thousandths of a zone between its watermarks; `None`: the formula of before 4.6.
    pub watermark_scale_factor: Option<u64>,
    /// By how many ten-thousandths of its high watermark a zone is boosted at most (Linux 5.0); 0: it
    /// is not. Only where free lists are kept by mobility.
    pub watermark_boost_factor: u64,
    /// Which part of the zones above a lower zone keeps free from their requests, by lower zone;
    /// 0: none.
    pub lowmem_reserve_ratio: [u64; 3],
    /// 0..=100.
    pub swappiness: u64,
}

impl Sysctl {
    /// The defaults of the kernels of the series: 10 and 20 % of dirtyable memory, a flusher run every 5 s for what is
    /// older than 30 s, the formulas for free memory, reserves of 1/256, 1/256 and 1/32, swappiness
    /// 60.
    pub const KERNEL: Self = Self {
        dirty_background_ratio: 10,
        dirty_ratio: 20,
        dirty_background_bytes: 0,
        dirty_bytes: 0,
        dirty_writeback_centisecs: 500,
        dirty_expire_centisecs: 3000,
        min_free_kbytes: None,
        wmark_min_kbytes: None,
        wmark_low_kbytes: None,
        wmark_high_kbytes: None,
        watermark_scale_factor: None,
        watermark_boost_factor: 0,
        lowmem_reserve_ratio: watermark::LOWMEM_RESERVE_RATIO,
        swappiness: 60,
    };
}

/// The engine. One value is one machine's memory.
pub struct Mm<W: World> {
    /// The world it runs in.
    pub world: W,
    /// What it was built for.
    pub config: Config,
    /// Its switches.
    pub policy: Policy,
    /// The frame table.
    pub frames: frame::Frames<W>,
    /// The zones, numbered as in [`Config::zones`].
    pub zones: Box<[Zone<W>]>,
    /// The nodes.
    pub nodes: Box<[node::Node<W>]>,
    /// The files.
    pub mappings: Box<[mapping::Mapping<W>]>,
    /// The backing devices.
    pub bdis: Box<[bdi::Bdi<W>]>,
    /// The tasks.
    pub tasks: Box<[task::Task<W>]>,
    pub(crate) stat: vmstat::VmStat<W>,
    pub(crate) pcp: Box<[pcp::Pcp<W>]>,
    pub(crate) pagevecs: Box<[lru::Pagevecs<W>]>,
    pub(crate) nodes_pool: pagecache::Nodes<W>,
    pub(crate) mappings_used: W::U32,
    watched: W::U32,
    pub(crate) bdis_used: W::U32,
    pub(crate) bdi_stat_batch: i32,
    pub(crate) swap: swap::Swap<W>,
    pub(crate) regions: mmap::Regions<W>,
    pub(crate) caches: Box<[slab::Cache<W>]>,
    pub(crate) inodes: inode::Inodes<W>,
    /// Objects that shrinkers left over, by shrinker and node.
    pub(crate) nr_deferred: Box<[W::U64]>,
    pub(crate) writeback: flusher::Shared<W>,
    pub(crate) tracker: Option<Box<tracker::Tracker<W>>>,
    /// The order of file pages, if it is not the two lists'.
    pub(crate) orders: Option<Box<eviction::Orders>>,
    /// What `watermarks = "auto"` remembers; empty for other policies.
    pub(crate) auto: Box<[auto::ZoneAuto<W>]>,
    /// How many kinds of free lists there are.
    pub(crate) lists: usize,
    /// The kind of each pageblock; empty where lists are not kept by mobility.
    pub(crate) pageblocks: Box<[W::U32]>,
    /// The pages that each zone's watermarks are boosted by; empty where they never are.
    pub(crate) boost: Box<[W::U32]>,
    /// First sentinel of the tasks' isolated lists.
    task_lists: Pfn,
}

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// The queues that engine tasks wait on, in the world's numbering.
pub mod queue {
    use crate::world::{Class, WaitQueue};

    /// Waiters of congestion, one queue a class.
    pub fn congestion(class: Class) -> WaitQueue {
        WaitQueue(class as u32)
    }
    /// Waiters for any page's writeback or lock: 64 hashed queues.
    pub fn page(pfn: u32) -> WaitQueue {
        WaitQueue(2 + pfn % 64)
    }
    /// A node's kswapd.
    pub fn kswapd(node: u32) -> WaitQueue {
        WaitQueue(66 + node)
    }
    /// A bdi's flusher; `nodes` as in the engine.
    pub fn flusher(nodes: u32, bdi: u32) -> WaitQueue {
        WaitQueue(66 + nodes + bdi)
    }
    /// Those who wait until a node's kswapd has freed part of the emergency reserves; `nodes` and
    /// `bdis` as in the engine.
    pub fn emergency(nodes: u32, bdis: u32, node: u32) -> WaitQueue {
        WaitQueue(66 + nodes + bdis + node)
    }
    /// The first queue about inodes.
    fn inodes(config: &crate::Config, nodes: u32) -> u32 {
        66 + 2 * nodes + config.max_bdis
    }
    /// Waiters for an inode's state: 64 hashed queues.
    pub fn inode(config: &crate::Config, nodes: u32, ino: u32) -> WaitQueue {
        WaitQueue(inodes(config, nodes) + ino % 64)
    }
    /// Waiters for an XFS's log (0), its pusher (1) and its background reclaimer (2).
    pub fn xfs(config: &crate::Config, nodes: u32, sb: u32, nth: u32) -> WaitQueue {
        WaitQueue(inodes(config, nodes) + 64 + 3 * sb + nth)
    }
    /// Waiters for the inodes of an allocation group.
    pub fn ag(config: &crate::Config, nodes: u32, ag: u32) -> WaitQueue {
        WaitQueue(inodes(config, nodes) + 64 + 3 * config.max_supers + ag)
    }
}

impl<W: World> Mm<W> {
    /// As [`Mm::try_new`], for who knows that the host has the memory.
    ///
    /// # Panics
    /// As [`Mm::try_new`]; where the host has no memory it unwinds with [`NoMemory`].
    pub fn new(world: W, config: Config, policy: Policy, track_pages: bool) -> Self {
        Self::try_new(world, config, policy, track_pages).unwrap_or_else(|e| e.raise())
    }

    /// Builds a machine: all memory free.
    ///
    /// # Errors
    /// The host has no memory for one of its tables.
    ///
    /// # Panics
    /// If the configuration has no zone, more than [`mmap::MAX_FRAMES`] frames, or no CPU; callers
    /// check input.
    pub fn try_new(
        world: W,
        config: Config,
        policy: Policy,
        track_pages: bool,
    ) -> Result<Self, NoMemory> {
        const { Zone::<W>::LAYOUT };
        let config = Config {
            sysctl: config.sysctl.under(policy.watermark_formula),
            ..config
        };
        assert!((1..=64).contains(&config.cpus) && !config.zones.is_empty());
        assert!(config.zones.len() < 256 && config.zones.iter().all(|z| z.size > 0));
        let block = 1u64 << (buddy::ORDERS - 1);
        let total = footprint::frames(&config);
        assert!(
            total <= u64::from(mmap::MAX_FRAMES),
            "a page-table entry names every frame"
        );
        let nodes = config.nodes();
        let lists = mobility::lists(policy.mobility);
        let free_lists = (lists * buddy::ORDERS) as u32;
        let per_zone = free_lists + lru::LRU_LISTS as u32;
        let zone_lists = total as u32;
        let task_lists = zone_lists + per_zone * config.zones.len() as u32;
        let slab_lists = task_lists + config.max_tasks;
        let sentinels = slab_lists + inode::caches(config.max_supers) - zone_lists;
        let order = zone::default_order(&config.zones, nodes);
        let mut start = 0u32;
        let mut zones: Box<[Zone<W>]> = config
            .zones
            .iter()
            .enumerate()
            .map(|(i, z)| {
                let batch = watermark::pcp_batch(z.size, 128);
                let first = zone_lists + i as u32 * per_zone;
                let zone = Zone::new(z, start, [first, first + free_lists], batch);
                start += (z.size.next_multiple_of(block)) as u32;
                zone
            })
            .collect();
        let node_lru =
            policy.lru == policy::LruScope::Node && policy.eviction == policy::Eviction::Linux;
        for z in 0..zones.len() {
            let of_node = |other: &Zone<W>| other.node == zones[z].node;
            let home = match node_lru {
                true => zones.iter().position(of_node).unwrap_or(z),
                false => z,
            };
            (zones[z].lru_home, zones[z].lru) = (home as u32, zones[home].lru);
        }
        let frames = total as u32;
        let pool = footprint::tree_pool(frames);
        let reclaim_groups = match policy.reclaim_flush {
            policy::ReclaimFlush::None => 0,
            policy::ReclaimFlush::Zone => zones.len(),
            policy::ReclaimFlush::Node => nodes as usize,
        };
        let mm = Self {
            frames: frame::Frames::new(frames, sentinels)?,
            nodes: (0..nodes)
                .map(|n| node::Node::new(&config.zones, nodes, n, order))
                .collect(),
            mappings: heap::filled("the files", config.max_mappings as usize, |_| {
                mapping::Mapping::new()
            })?,
            bdis: (0..config.max_bdis)
                .map(|_| bdi::Bdi::new(config.cpus, reclaim_groups))
                .collect(),
            tasks: heap::filled("the tasks", config.max_tasks as usize, |_| {
                task::Task::new()
            })?,
            stat: vmstat::VmStat::new(zones.len(), config.cpus),
            pcp: zones
                .iter()
                .flat_map(|z| {
                    (0..config.cpus * lists).map(move |_| pcp::Pcp::new(z.pcp_high + z.pcp_batch))
                })
                .collect(),
            pagevecs: (0..config.cpus).map(|_| lru::Pagevecs::new()).collect(),
            nodes_pool: pagecache::Nodes::new(pool)?,
            mappings_used: bytemuck::Zeroable::zeroed(),
            watched: bytemuck::Zeroable::zeroed(),
            bdis_used: bytemuck::Zeroable::zeroed(),
            bdi_stat_batch: bdi::stat_batch(config.cpus),
            swap: swap::Swap::new(config.swap_slots)?,
            regions: mmap::Regions::new(),
            caches: inode::new_caches(config.max_supers, slab_lists),
            inodes: inode::Inodes::new(&config, nodes)?,
            nr_deferred: bytemuck::zeroed_slice_box(
                Self::shrinker_slots(config.max_supers) * nodes as usize,
            ),
            writeback: flusher::Shared::new(config.cpus),
            tracker: track_pages.then(|| Box::new(tracker::Tracker::new())),
            orders: eviction::Orders::new(policy.eviction, &zones),
            auto: auto::zones(&policy, zones.len()),
            lists,
            pageblocks: mobility::pageblocks::<W>(policy.mobility, frames)?,
            boost: boost::zones::<W>(&config, lists > 1),
            task_lists,
            zones,
            world,
            config,
            policy,
        };
        let lowmem = watermark::lowmem_kbytes(&mm.config.zones);
        mm.setup_per_zone_wmarks(mm.config.sysctl.min_kbytes(lowmem));
        for z in 0..mm.zones.len() {
            mm.free_all_of_zone(z);
        }
        mm.update_completion_period();
        Ok(mm)
    }

    /// One timer tick in nanoseconds.
    #[inline]
    pub fn tick(&self) -> u64 {
        SECOND / self.config.hz
    }

    pub(crate) fn flusher_queue(&self, bdi: u32) -> WaitQueue {
        queue::flusher(self.nodes.len() as u32, bdi)
    }

    pub(crate) fn emergency_queue(&self, node: u32) -> WaitQueue {
        queue::emergency(self.nodes.len() as u32, self.bdis.len() as u32, node)
    }

    /// The sentinel of a task's isolated list.
    #[inline(always)]
    pub(crate) fn isolated_list(&self, task: world::TaskId) -> Pfn {
        debug_assert!(task < self.config.max_tasks);
        self.task_lists + task
    }

    /// Hands an event to the world, if anybody reads it.
    #[inline(always)]
    pub(crate) fn trace(&self, event: impl FnOnce() -> trace::Event) {
        if W::TRACE && self.world.tracing() {
            self.world.trace(event());
        }
    }

    /// As [`Mm::trace`] for an event that the record of the slowest allocations tells too.
    #[inline(always)]
    pub(crate) fn observe(&self, event: trace::Event) {
        self.world.observe(&event);
        self.trace(|| event);
    }

    /// As [`Mm::trace`] for an event that the world also sums up.
    #[inline(always)]
    pub(crate) fn note(&self, event: trace::Event) {
        self.world.count(&event);
        self.trace(|| event);
    }

    /// The exact level of a counter over all zones (negative differences read 0).
    pub fn global_stat(&self, item: ZoneStat) -> u64 {
        self.stat.exact_global(item).max(0) as u64
    }

    /// The exact level of a counter in one zone.
    pub fn zone_stat(&self, z: usize, item: ZoneStat) -> u64 {
        self.stat.snapshot(z, item)
    }

    /// A cumulative event.
    pub fn vm_event(&self, event: VmEvent) -> u64 {
        self.stat.events(event)
    }

    /// Counts an event that happens outside the engine (kB moved by a block device).
    pub fn count_event(&self, event: VmEvent, n: u64) {
        self.stat.event(event, n);
    }

    /// A cumulative event of a zone.
    pub fn zone_event(&self, z: usize, event: ZoneEvent) -> u64 {
        self.stat.zone_events(z, event)
    }

    /// A zone's name in reports: its type, with the node in front where there are several.
    pub fn zone_name(&self, z: usize) -> String {
        let zone = &self.zones[z];
        if self.nodes.len() == 1 {
            zone.kind.name().into()
        } else {
            format!("node{}/{}", zone.node, zone.kind.name())
        }
    }

    fn produces_level(&self, level: ZoneStat) -> bool {
        match level {
            ZoneStat::NrActiveFile => self.has_active_file(),
            ZoneStat::NrSlabReclaimable => self.keeps_inodes(),
            ZoneStat::NrAllocBatch => self.policy.fair_zones != policy::FairZones::Off,
            _ => true,
        }
    }

    fn produces_event(&self, event: VmEvent) -> bool {
        match event {
            VmEvent::WorkingsetRefault
            | VmEvent::WorkingsetActivate
            | VmEvent::WorkingsetNodereclaim => self.policy.workingset,
            VmEvent::XfsInodesReclaimed
            | VmEvent::XfsInodesRecycled
            | VmEvent::XfsInodesFlushed
            | VmEvent::XfsInodeWrites
            | VmEvent::XfsReclaimWait
            | VmEvent::KswapdInodeWait => (0..self.super_count()).any(|sb| self.is_xfs(sb)),
            VmEvent::SlabsScanned
            | VmEvent::PgInodeSteal
            | VmEvent::KswapdInodeSteal
            | VmEvent::InodesFreed => self.keeps_inodes(),
            VmEvent::PgScanDirectThrottle => self.policy.emergency_throttle,
            VmEvent::FairReset => self.policy.fair_zones != policy::FairZones::Off,
            _ => true,
        }
    }

    fn produces_zone_event(&self, event: ZoneEvent) -> bool {
        match event {
            ZoneEvent::ReadAheadReclaimed | ZoneEvent::PgHit => self.watches_pages(),
            _ => true,
        }
    }

    /// From now on: how long file pages had been in the cache when they were reclaimed, pages read
    /// ahead and reclaimed unused, hits by zone. It changes nothing else.
    pub fn watch_pages(&self) {
        self.watched.set(1);
    }

    /// Whether [`Mm::watch_pages`] was called.
    #[inline(always)]
    pub fn watches_pages(&self) -> bool {
        self.watched.get() != 0
    }

    /// A zone's file pages that were reclaimed while pages were watched: milliseconds that they had
    /// been in the cache, all together, and how many they were.
    pub fn reclaimed_age(&self, z: usize) -> (u64, u64) {
        let zone = &self.zones[z];
        (zone.reclaimed_age.get(), zone.reclaimed_aged.get())
    }

    /// A read found a page in the cache that it had not brought in.
    #[inline]
    pub fn note_hit(&self, pfn: Pfn) {
        self.stat
            .zone_event(self.frames.zone(pfn), ZoneEvent::PgHit, 1);
    }

    /// Every vmstat counter, by its name: levels and sums.
    pub fn vmstat(&self) -> Vec<(String, u64)> {
        let mut out: Vec<(String, u64)> = ZoneStat::ALL
            .iter()
            .filter(|&&s| self.produces_level(s))
            .map(|&s| (s.name().to_string(), self.global_stat(s)))
            .collect();
        out.extend(
            VmEvent::ALL
                .iter()
                .filter(|&&e| self.produces_event(e))
                .map(|&e| (e.name().to_string(), self.vm_event(e))),
        );
        for kind in [
            ZoneType::Dma,
            ZoneType::Dma32,
            ZoneType::Normal,
            ZoneType::Movable,
        ] {
            let of_kind = || (0..self.zones.len()).filter(|&z| self.zones[z].kind == kind);
            if of_kind().next().is_none() {
                continue;
            }
            for e in ZoneEvent::ALL {
                if !self.produces_zone_event(e) {
                    continue;
                }
                let sum = of_kind().map(|z| self.zone_event(z, e)).sum();
                out.push((format!("{}_{}", e.name(), kind.name().to_lowercase()), sum));
            }
        }
        out
    }

    /// The once-a-second fold of a CPU's counter differences.
    pub fn refresh_cpu_vm_stats(&self, cpu: usize) {
        self.stat.refresh_cpu(cpu);
    }

    /// Tree nodes in use.
    pub fn tree_nodes(&self) -> u32 {
        self.nodes_pool.in_use()
    }

    /// Files created so far.
    pub fn mapping_count(&self) -> u32 {
        self.mappings_used.get()
    }
}
