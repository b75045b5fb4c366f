//! Tests of the engine from the inside: they see what no caller does (lists, formulas, shrinkers), so they
//! are compiled into the crate's own test binary, which also is the only one that `just mutants` builds for
//! each change.
//!
//! * Models: each says what the kernel does (`docs/reference`) in the plainest way there is, and the engine is
//!   held to it over random operations.
//! * Golden scenarios ([`golden`]): short runs of the whole engine over every switch, held by snapshots.
//!
//! [`world`] is the world that they run in, [`programs`] what tasks do in it.

mod bare;
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

/// What the tests need of the engine, named in one place.
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
