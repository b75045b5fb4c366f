//! What things cost: parameters as whole nanoseconds.

use crate::params::Params;
use mm::world::{COSTS, Cost};

/// What calls cost beside entry and exit, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct CallCosts {
    /// Looking up a path.
    pub lookup: u64,
    /// Making a file or directory.
    pub create: u64,
    /// Removing a file.
    pub unlink: u64,
    /// close(2).
    pub close: u64,
    /// fork, exit and wait together.
    pub fork: u64,
    /// A page of zeroes for whoever reads `/dev/zero`.
    pub clear: u64,
    /// A name that is there where mkdir(2) was to make one.
    pub exists: u64,
    /// System calls that open or remove a file by its name.
    pub by_name: u32,
    /// gettimeofday(2), in user mode.
    pub gettimeofday: u64,
    /// A look at the clock by a program that times what it does, and what of it is paid with the next call.
    pub look: u64,
    /// See `look`.
    pub look_later: u64,
}

impl CallCosts {
    pub(super) fn new(p: &Params) -> Self {
        Self {
            lookup: whole(p.cost_lookup),
            create: whole(p.cost_create),
            unlink: whole(p.cost_unlink),
            close: whole(p.cost_close),
            fork: whole(p.cost_fork),
            clear: whole(p.cost_clear),
            exists: whole(p.cost_exists),
            by_name: p.name_calls as u32,
            gettimeofday: whole(p.cost_gettimeofday),
            look: whole((p.cost_look - p.cost_look_later).max(0.0)),
            look_later: whole(p.cost_look_later.min(p.cost_look)),
        }
    }
}

/// A cost in whole nanoseconds. What costs anything costs one at least: work that takes no time would
/// let a loop go round without end.
fn whole(ns: f64) -> u64 {
    (ns as u64).max(u64::from(ns > 0.0))
}

/// The costs of the engine, in nanoseconds, by kind.
pub(super) fn cost_table(p: &Params) -> [u64; COSTS] {
    let mut t = [0; COSTS];
    for (kind, ns) in [
        (Cost::PageAlloc, p.cost_page_alloc),
        (Cost::PageBulk, p.cost_page_bulk),
        (Cost::PageFree, p.cost_page_free),
        (Cost::PageIndex, p.cost_page_index),
        (Cost::Lru, p.cost_lru),
        (Cost::LruDelete, p.cost_lru_delete),
        (Cost::PageScan, p.cost_page_scan),
        (Cost::Unmap, p.cost_unmap),
        (Cost::PageDirty, p.cost_page_dirty),
        (Cost::WritebackStart, p.cost_writeback_start),
        (Cost::WritebackEnd, p.cost_writeback_end),
        (Cost::ZoneWalk, p.cost_zone_walk),
        (Cost::ShrinkSlab, p.cost_shrink_slab),
        (Cost::Copy, p.cost_copy),
        (Cost::Fault, p.cost_fault),
        (Cost::MkWrite, p.cost_mkwrite),
        (Cost::Touch, p.cost_touch),
        (Cost::Syscall, p.cost_syscall),
        (Cost::Submit, p.cost_submit),
        (Cost::Refuse, p.cost_refuse),
        (Cost::WritebackRound, p.cost_writeback_round),
        (Cost::DirtyLimit, p.cost_dirty_limit),
        (Cost::SlabObject, p.cost_slab_object),
        (Cost::SlabMake, p.cost_slab_make),
    ] {
        t[kind as usize] = whole(ns);
    }
    t
}
