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
mod feedback;
mod formulas;
mod golden;
mod index;
mod memory;
mod names;
mod programs;
mod world;

/// What the tests need of the engine, named in one place.
mod prelude {
    pub use crate::alloc::Gfp;
    pub use crate::frame::flag;
    pub use crate::inode::{NoInode, SuperInfo};
    pub use crate::kswapd::KSWAPD_FLAGS;
    pub use crate::mapping::MappingKind;
    pub use crate::mmap::{Advice, Backing, ReadAround, Touched};
    pub use crate::pagecache::{Entered, Tag};
    pub use crate::policy::*;
    pub use crate::task::*;
    pub use crate::trace::{Event, TrackPath};
    pub use crate::vmstat::{VmEvent, ZoneEvent, ZoneStat};
    pub use crate::world::*;
    pub use crate::zone::{Mark, ZoneInfo, ZoneType};
    pub use crate::{Config, Mm, Pfn, Policy, Recount, SECOND, Sysctl, queue};
}
