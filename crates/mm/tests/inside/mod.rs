//! Tests of the engine from the inside. They see what no caller sees (lists, formulas, shrinkers),
//! so they are compiled into the crate's own test binary, which is also the only one that
//! `just mutants` builds for each change.
//!
//! * Models: each describes what the kernel does (`docs/reference`) in the plainest way, and the
//!   engine is compared with the model over random operations.
//! * Golden scenarios ([`golden`]): short runs of the whole engine over every switch, compared with
//!   snapshots.
//!
//! [`world`] is the world that the tests run in, [`programs`] has the work of the tasks in it.

mod bare;
mod candidate;
mod compaction;
mod costs;
mod dirtiers;
mod feedback;
mod formulas;
mod fresh;
mod golden;
mod highmem;
mod index;
mod mapped;
mod memory;
mod names;
mod node_lists;
mod numa;
mod objects;
mod oom;
mod programs;
mod recounts;
mod scans;
mod sysctls;
mod today;
mod vmstat_text;
mod waits;
pub(crate) mod world;
mod xfs_log;

/// The names of the engine that the tests use, imported in one place.
mod prelude {
    pub use crate::cache::mapping::MappingKind;
    pub use crate::cache::mmap::{Advice, Backing};
    pub use crate::cache::pagecache::Entered;
    pub use crate::cache::tree::Tag;
    pub use crate::inodes::inode::{NoInode, SuperInfo};
    pub use crate::memory::frame::flag;
    pub use crate::memory::gfp::Gfp;
    pub use crate::memory::task::*;
    pub use crate::memory::zone::Mark;
    pub use crate::policy::*;
    pub use crate::reclaim::kswapd::KSWAPD_FLAGS;
    pub use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
    pub use crate::world::event::{Event, TrackPath};
    pub use crate::world::*;
    pub use crate::{Config, Mm, Pfn, Policy, Recount, SECOND, Sysctl, ZoneInfo, ZoneType, queue};
}
