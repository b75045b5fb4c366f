//! Page reclaim: LRU lists, scanning, kswapd, direct reclaim, shrinkers.

pub mod amounts;
pub mod auto;
pub mod boost;
pub(crate) mod compaction;
pub mod congestion;
pub(crate) mod cost;
pub mod direct;
pub mod drop_caches;
pub(crate) mod eviction;
mod group_oom;
mod groups;
pub(crate) mod isolate;
pub mod kswapd;
pub mod lru;
pub mod oom;
mod over_high;
pub(crate) mod page_list;
mod pageout;
mod pressure;
mod reasons;
mod refused;
pub mod scan;
pub mod shrink;
pub(crate) mod shrinker;
