#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod cache;
mod check;
pub mod counters;
pub mod footprint;
pub mod inodes;
mod machine;
pub mod memory;
pub mod policy;
pub mod queue;
pub mod reclaim;
pub mod size;
pub mod sysctl;
pub mod view;
pub mod watch;
pub mod world;
pub mod writeback;

#[cfg(test)]
#[path = "../tests/inside/mod.rs"]
mod inside;

pub use check::Recount;
pub use heap::NoMemory;
pub use machine::{ZONE_TYPES, ZoneInfo, ZoneType, has_highmem};
pub use memory::frame::{NO_PFN, Pfn};
pub use policy::Policy;
pub use sysctl::Sysctl;
pub use world::World;

use cache::{mapping, metadata, mmap, swap, tree};
use inodes::table;
use memory::zone::{LRU_LISTS, Zone};
use memory::{
    buddy, frame, group, hint, mobility, node, numa, pcp, pcp_high, slab, task, watermark,
};
use reclaim::{auto, boost, cost, eviction, lru};
use watch::{tracker, vmstat};
use world::event::Event;
use world::{Audience, WaitQueue, Word32};
use writeback::{bdi, shared};

/// The machine that an engine is built for. Sizes are pages unless named otherwise.
#[derive(Debug, Clone)]
pub struct Config {
    /// CPUs (or per-CPU slots), 1..=64.
    pub cpus: usize,
    /// Timer ticks a second.
    pub hz: u64,
    /// The order of a pageblock: 9 on x86-64, 10 where the kernel has no huge pages.
    pub pageblock_order: u32,
    /// The node of each CPU, from which the tasks on it allocate first.
    pub cpu_nodes: Vec<u32>,
    /// Zones, grouped by node, low to high inside a node.
    pub zones: Vec<ZoneInfo>,
    /// The largest number of tasks, over the life of the engine.
    pub max_tasks: u32,
    /// The largest number of files, over the life of the engine.
    pub max_mappings: u32,
    /// The largest number of backing devices, over the life of the engine.
    pub max_bdis: u32,
    /// Filesystems that register their inodes with the engine; 0: none does.
    pub max_supers: u32,
    /// Allocation groups of all these filesystems together.
    pub max_ags: u32,
    /// Swap slots; 0: no swap.
    pub swap_slots: u32,
    /// Whether the disk of the swap area is rotational.
    pub swap_rotates: bool,
    /// The sysctls at boot.
    pub sysctl: Sysctl,
    /// The memory control groups, parents before their children; group 1 is the first.
    pub groups: Vec<group::GroupConfig>,
}

impl Config {
    /// Returns the number of NUMA nodes that the zones are on.
    pub fn nodes(&self) -> u32 {
        self.zones.iter().map(|z| z.node).max().unwrap_or(0) + 1
    }

    /// Returns the number of CPUs of a node, or of all CPUs if the node has none.
    pub(crate) fn cpus_of(&self, node: u32) -> u32 {
        let local = self.cpu_nodes.iter().filter(|&&of| of == node).count();
        if local == 0 {
            self.cpus as u32
        } else {
            local as u32
        }
    }

    /// Returns how many wait queues the engine uses; a world may number its own from here on.
    pub fn wait_queues(&self) -> u32 {
        queue::no_progress(self, self.nodes(), self.nodes()).0
    }
}

/// The engine. One value is one machine's memory.
pub struct Mm<W: World> {
    /// The world that the engine runs in.
    pub world: W,
    /// The machine that it was built for.
    pub config: Config,
    /// The switches.
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
    pub(crate) sysctl: sysctl::Words<W::U64>,
    pub(crate) stat: vmstat::VmStat<W>,
    /// Where pages were allocated from; no entries on a machine of one node.
    pub(crate) numa: numa::NumaStats<W>,
    /// The per-CPU lists, by zone, CPU, order and kind.
    pub(crate) pcp: Box<[pcp::Pcp<W>]>,
    /// The number of per-CPU lists that a CPU has of each zone.
    pub(crate) pcp_lists: usize,
    /// The sizes of the per-CPU lists, by zone and CPU; empty where lists hold six batches.
    pub(crate) pcp_tuning: Box<[pcp_high::Tuning<W>]>,
    pub(crate) pagevecs: Box<[lru::Pagevecs<W>]>,
    /// The results of each CPU's last walks over the free lists.
    pub(crate) hints: Box<[hint::Hint<W>]>,
    /// When the OOM killer last killed a process (ns).
    pub(crate) oom_began: W::U64,
    pub(crate) nodes_pool: tree::Nodes<W>,
    pub(crate) mappings_used: W::U32,
    watched: W::U32,
    pub(crate) bdis_used: W::U32,
    pub(crate) bdi_stat_batch: i32,
    pub(crate) swap: swap::Swap<W>,
    pub(crate) regions: mmap::Regions<W>,
    pub(crate) caches: Box<[slab::Cache<W>]>,
    pub(crate) inodes: table::Inodes<W>,
    /// Objects that shrinkers deferred, by shrinker and node.
    pub(crate) nr_deferred: Box<[W::U64]>,
    pub(crate) writeback: shared::Shared<W>,
    pub(crate) tracker: Option<Box<tracker::Tracker<W>>>,
    /// The eviction policy's order of file pages; `None`: the kernel's two lists.
    pub(crate) orders: Option<Box<eviction::Orders>>,
    /// The state of `watermarks = "auto"`; empty for other policies.
    pub(crate) auto: Box<[auto::ZoneAuto<W>]>,
    /// Whether the machine has HighMem.
    pub(crate) highmem: bool,
    /// The number of kinds that free lists are divided into.
    pub(crate) lists: usize,
    pub(crate) metadata: metadata::Metadata<W>,
    /// The kind of each pageblock; empty if lists are not kept by mobility.
    pub(crate) pageblocks: Box<[W::U32]>,
    /// The pages that each zone's watermarks are boosted by; empty if they never are.
    pub(crate) boost: Box<[W::U32]>,
    /// When the statistics of the lists are flushed next, in nanoseconds (`lru_stats = "flushed"`).
    pub(crate) flush_due: W::U64,
    /// Pages scanned since the pressure worker's last turn (`vmpressure = "worker"`).
    pub(crate) pressure_scanned: W::U64,
    /// The memory control groups; no entries on a machine without.
    pub(crate) groups: group::Groups<W>,
    /// First sentinel of the tasks' isolated lists.
    task_lists: Pfn,
}

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// A hundredth of a second in nanoseconds: the unit of several sysctls.
pub const CENTISECOND: u64 = SECOND / 100;

/// Returns the number of groups of pages (zones or nodes) for each of which reclaim queues requests
/// to write its dirty pages at a device; 0 if the policy has no such requests.
fn reclaim_groups(policy: &Policy, zones: usize, nodes: u32) -> usize {
    match policy.reclaim_flush {
        policy::ReclaimFlush::None | policy::ReclaimFlush::Inode => 0,
        policy::ReclaimFlush::Zone => zones,
        policy::ReclaimFlush::Node => nodes as usize,
    }
}

impl<W: World> Mm<W> {
    /// Builds a machine as [`Mm::try_new`] does, for callers that know that the host has the
    /// memory.
    ///
    /// # Panics
    /// As [`Mm::try_new`]; if the host has no memory, unwinds with [`NoMemory`].
    pub fn new(world: W, config: Config, policy: Policy, track_pages: bool) -> Self {
        Self::try_new(world, config, policy, track_pages).unwrap_or_else(|e| e.raise())
    }

    /// Builds the engine of a machine, with all its memory free. `track_pages` enables the page
    /// tracker. The heads of lists (sentinels) are entries behind the last frame: each zone's free
    /// lists and LRU lists, then the tasks' lists of isolated pages, then the slab caches' lists.
    ///
    /// # Errors
    /// If the host has no memory for one of the tables.
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
            sysctl: config.sysctl.under(&policy),
            ..config
        };
        assert!((1..=64).contains(&config.cpus) && !config.zones.is_empty());
        assert!(config.zones.len() < 256 && config.zones.iter().all(|z| z.size > 0));
        let total = footprint::frames(&config);
        assert!(
            total <= u64::from(mmap::MAX_FRAMES),
            "a page-table entry names every frame"
        );
        let nodes = config.nodes();
        let lists = mobility::lists(policy.mobility);
        let free_lists = (lists * buddy::ORDERS) as u32;
        let per_zone = free_lists + LRU_LISTS as u32;
        let zone_lists = total as u32;
        let task_lists = zone_lists + per_zone * config.zones.len() as u32;
        let slab_lists = task_lists + config.max_tasks;
        let group_lists = slab_lists + table::caches(config.max_supers);
        let sentinels = group_lists + group::sentinels(&config.groups, nodes) - zone_lists;
        let zones = Self::zones_of(&config, &policy, [zone_lists, per_zone, free_lists]);
        let frames = total as u32;
        let pool = footprint::tree_pool(frames);
        let reclaim_groups = reclaim_groups(&policy, zones.len(), nodes);
        let mm = Self {
            frames: frame::Frames::new(frames, sentinels)?,
            nodes: node::nodes(&config.zones, nodes),
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
            numa: numa::NumaStats::new(zones.len(), nodes),
            pcp_lists: lists * pcp_high::orders(&policy),
            pcp: pcp_high::lists(&config, &policy, &zones, lists),
            pcp_tuning: pcp_high::tunings(&config, &policy),
            pagevecs: (0..config.cpus)
                .map(|_| lru::Pagevecs::new(policy.lru_batch))
                .collect(),
            hints: (0..hint::HINTS_OF_CPU * config.cpus)
                .map(|_| hint::Hint::new())
                .collect(),
            oom_began: bytemuck::Zeroable::zeroed(),
            nodes_pool: tree::Nodes::new(pool)?,
            mappings_used: bytemuck::Zeroable::zeroed(),
            watched: bytemuck::Zeroable::zeroed(),
            bdis_used: bytemuck::Zeroable::zeroed(),
            bdi_stat_batch: bdi::stat_batch(config.cpus),
            swap: swap::Swap::new(&config, &policy)?,
            groups: group::Groups::new(&config, group_lists),
            regions: mmap::Regions::new(),
            caches: table::new_caches(config.max_supers, slab_lists),
            inodes: table::Inodes::new(&config, nodes)?,
            nr_deferred: bytemuck::zeroed_slice_box(
                Self::shrinker_slots(config.max_supers) * nodes as usize,
            ),
            writeback: shared::Shared::new(config.cpus, config.max_tasks)?,
            tracker: track_pages.then(|| Box::new(tracker::Tracker::new())),
            orders: eviction::Orders::new(policy.eviction, &zones),
            auto: auto::zones(&policy, zones.len()),
            lists,
            highmem: has_highmem(&config.zones),
            metadata: metadata::Metadata::new(
                &policy,
                pool,
                (frames, config.max_mappings, config.max_ags),
                &config.zones,
            )?,
            pageblocks: mobility::pageblocks::<W>(policy.mobility, frames, config.pageblock_order)?,
            sysctl: sysctl::Words::new(&config.sysctl),
            boost: boost::zones::<W>(&config, lists > 1),
            flush_due: cost::first_flush::<W>(),
            pressure_scanned: bytemuck::Zeroable::zeroed(),
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

    /// Builds the machine's zones, one behind the other in whole buddy blocks. Zone `z`'s lists
    /// begin at sentinel `lists[0] + z * lists[1]`; the first `lists[2]` of them are of free pages,
    /// the others the LRU lists. Where nodes have the LRU lists, those of a node's first zone are
    /// used.
    fn zones_of(config: &Config, policy: &Policy, lists: [u32; 3]) -> Box<[Zone<W>]> {
        machine::assert_one_width(&config.zones);
        let [zone_lists, per_zone, free_lists] = lists;
        let block = 1u64 << (buddy::ORDERS - 1);
        let mut start = 0u32;
        let mut zones: Box<[Zone<W>]> = config
            .zones
            .iter()
            .enumerate()
            .map(|(i, z)| {
                let batch = watermark::pcp_batch(z.size, policy.pcp_batch_cap());
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
        zones
    }

    /// Returns the length of a timer tick in nanoseconds.
    #[inline]
    pub fn tick(&self) -> u64 {
        SECOND / self.config.hz
    }

    /// Returns the queue in which the flusher of a backing device waits for work.
    pub(crate) fn flusher_queue(&self, bdi: u32) -> WaitQueue {
        queue::flusher(self.nodes.len() as u32, bdi)
    }

    /// Returns the queue of tasks that are throttled until a node's reserves are refilled.
    pub(crate) fn emergency_queue(&self, node: u32) -> WaitQueue {
        queue::emergency(self.nodes.len() as u32, self.bdis.len() as u32, node)
    }

    /// Returns the sentinel (head) of the list of pages that a task has isolated from the LRU
    /// lists.
    #[inline(always)]
    pub(crate) fn isolated_list(&self, task: world::TaskId) -> Pfn {
        debug_assert!(task < self.config.max_tasks);
        self.task_lists + task
    }

    /// Returns true if a trace of every event is being read.
    #[inline(always)]
    pub(crate) fn traced(&self) -> bool {
        W::TRACE && self.world.tracing()
    }

    /// Reports an event to its audience; all events pass here. `event` builds it, and is not called
    /// if only traces want the event and none is read. [`world::Watch`] says where the event goes.
    #[inline(always)]
    pub(crate) fn emit(&self, to: Audience, event: impl FnOnce() -> Event) {
        if to != Audience::Traces || self.traced() {
            self.world.event(to, &event());
        }
    }

    /// Returns the number of tree nodes in use.
    pub fn tree_nodes(&self) -> u32 {
        self.nodes_pool.in_use()
    }

    /// Returns the number of files created so far.
    pub fn mapping_count(&self) -> u32 {
        self.mappings_used.get()
    }
}
