//! How much memory of the host an engine's tables take, known before they are made.

use crate::cache::{mapping, tree};
use crate::inodes::{table, xfs};
use crate::memory::zone::LRU_LISTS;
use crate::memory::{buddy, frame, group, mobility, task};
use crate::policy;
use crate::world::World;
use crate::writeback::shared::Dirtier;
use crate::{Config, Mm, Policy};

/// A use of the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The name of the use, in a few words.
    pub what: &'static str,
    /// Bytes of address space that it takes.
    pub reserved: u64,
    /// The part of these bytes that is resident once the machine has been in full use; the
    /// operating system gives no memory for the rest.
    pub touched: u64,
}

impl Use {
    /// Makes a use of the host's memory all of whose bytes are written, so that all are resident.
    pub fn whole(what: &'static str, bytes: u64) -> Self {
        Self {
            what,
            reserved: bytes,
            touched: bytes,
        }
    }
}

/// Returns the number of frames of a machine: those of its zones, each rounded up to whole blocks
/// of the buddy allocator's largest order.
pub(crate) fn frames(config: &Config) -> u64 {
    let block = 1u64 << (buddy::ORDERS - 1);
    let whole = config.zones.iter().map(|z| z.size.next_multiple_of(block));
    whole.sum()
}

/// Returns the number of nodes for the trees of all files: a quarter of the frames, but at least
/// four million or, if there are fewer frames, as many as frames; and 64 more.
pub(crate) fn tree_pool(frames: u32) -> u32 {
    frames.min((frames / 4).max(4 << 20)) + 64
}

/// Bytes that an eviction policy may take for each page that it orders; a test holds every policy
/// to it.
const BYTES_PER_ORDERED_PAGE: u64 = 80;

impl<W: World> Mm<W> {
    /// Returns the uses of the host's memory, in bytes, that the tables of an engine with this
    /// configuration and policy have; only the largest ones.
    pub fn uses(config: &Config, policy: &Policy) -> Vec<Use> {
        let frames = frames(config);
        let lists = mobility::lists(policy.mobility) as u64;
        let zones = config.zones.len() as u64;
        // One entry of the frame table for the head of each list.
        let sentinels = zones * (lists * buddy::ORDERS as u64 + LRU_LISTS as u64)
            + u64::from(config.max_tasks)
            + u64::from(table::caches(config.max_supers))
            + u64::from(group::sentinels(&config.groups, config.nodes()));
        let table = frame::BYTES_PER_FRAME as u64;
        let pool = u64::from(tree_pool(u32::try_from(frames).unwrap_or(u32::MAX)));
        // A leaf of 64 pages for every 64 frames, as many again for inner nodes and shadows, and
        // one for each small file.
        let nodes = pool.min(frames / 32 + 2 * u64::from(config.max_mappings));
        let files = u64::from(config.max_mappings);
        let inodes = if config.max_supers > 0 { files } else { 0 };
        let mut uses = vec![
            Use::whole("the frame table", (frames + sentinels) * table),
            Use {
                what: "the files' trees",
                reserved: pool * tree::BYTES_PER_NODE as u64,
                touched: nodes * tree::BYTES_PER_NODE as u64,
            },
            Use::whole(
                "files and inodes",
                files * size_of::<mapping::Mapping<W>>() as u64
                    + inodes * size_of::<table::Inode<W>>() as u64,
            ),
            Use::whole(
                "tasks of the engine",
                u64::from(config.max_tasks)
                    * (size_of::<task::Task<W>>() + size_of::<Dirtier<W>>()) as u64,
            ),
        ];
        if config.max_ags > 0 {
            // Twice the inodes, for parts that are half full, and the first part of each group in
            // use.
            let groups = u64::from(config.max_ags);
            let used = groups.min(files) * xfs::BYTES_PER_USED_GROUP as u64;
            let bytes = groups * size_of::<xfs::Ag<W>>() as u64 + used + 2 * 5 * inodes;
            uses.push(Use {
                what: "allocation groups",
                reserved: bytes,
                touched: bytes,
            });
        }
        if policy.extent_maps != policy::ExtentMaps::Free {
            uses.push(Use {
                what: "the records of extents",
                reserved: pool * 16 + files * 4,
                touched: nodes * 16 + files * 4,
            });
        }
        if config.swap_slots > 0 {
            let slots = u64::from(config.swap_slots);
            let map = slots.div_ceil(64) * 8;
            let shadows = if policy.workingset_anon { slots * 4 } else { 0 };
            uses.push(Use::whole("swap slots", slots * 8 + shadows + map));
        }
        if policy.eviction != policy::Eviction::Linux {
            let bytes = frames * BYTES_PER_ORDERED_PAGE;
            uses.push(Use::whole("the order of file pages", bytes));
        }
        uses
    }
}
