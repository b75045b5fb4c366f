//! Memory: frames, zones, nodes, free lists, watermarks, the allocator, slabs.

mod ahead;
pub mod alloc;
pub mod buddy;
mod charge;
pub(crate) mod fair;
pub mod frame;
pub mod gfp;
pub mod group;
pub(crate) mod hint;
pub mod mobility;
pub mod node;
pub mod numa;
pub mod pcp;
pub(crate) mod pcp_blocks;
pub(crate) mod pcp_high;
pub mod slab;
pub mod task;
pub mod watermark;
pub mod zone;
mod zoneinfo;
pub(crate) mod zonelist_cache;
