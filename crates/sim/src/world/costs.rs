//! CPU costs of the engine's work and of system calls: parameters as whole nanoseconds.

use crate::params::Params;
use mm::world::{COSTS, Cost};

/// Costs of system calls beside kernel entry and exit, in nanoseconds.
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
    /// Clearing a page for a read of `/dev/zero`.
    pub clear: u64,
    /// Finding that the name exists which mkdir(2) was to make.
    pub exists: u64,
    /// Number of system calls that opening or removing a file by its name takes.
    pub by_name: u32,
    /// gettimeofday(2), in user mode.
    pub gettimeofday: u64,
    /// Reading the clock, by a program that times its own work: the part that is paid at once.
    pub look: u64,
    /// The part of a clock reading that is paid with the program's next system call.
    pub look_later: u64,
}

impl CallCosts {
    /// Returns the costs of system calls, in nanoseconds, by the model parameters.
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

/// Rounds a cost to whole nanoseconds. A cost above 0 stays at least 1: work that takes no time
/// would let a loop run without end.
fn whole(ns: f64) -> u64 {
    (ns as u64).max(u64::from(ns > 0.0))
}

/// Returns the costs of the engine's work, in nanoseconds and indexed by [`Cost`], by the model
/// parameters.
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
