//! Reports of memory shortage in the kernel's log: the OOM killer's, of a machine or of a memory
//! control group, and page allocation failures, of Linux 2.6.36 to 7.2.
//!
//! `parse` reads a log as `dmesg`, `journalctl -k` or syslog print it; `explain` says in a few
//! lines what happened; `captured` makes a machine of a report, as far as the report tells.
//!
//! Source of the texts: `mm/oom_kill.c` (dump_header, dump_tasks, __oom_kill_process),
//! `mm/show_mem.c` and before 6.5 `mm/page_alloc.c` (show_free_areas, show_mem),
//! `mm/memcontrol.c` (mem_cgroup_print_oom_meminfo, mem_cgroup_print_oom_context) and
//! `warn_alloc` of `mm/page_alloc.c`.

mod captured;
mod explain;
mod parse;

pub use captured::captured;
pub use explain::explain;
pub use parse::parse;

use std::collections::BTreeMap;

/// The trouble that a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The OOM killer ran.
    Oom,
    /// A request for pages failed, and nothing was killed.
    AllocationFailure,
}

/// A report of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The line of the log at which it begins, from 1.
    pub line: usize,
    /// Time of its first line in seconds since boot, if the log has that.
    pub seconds: Option<f64>,
    /// The trouble.
    pub kind: Kind,
    /// Name of the task that asked for memory.
    pub task: String,
    /// Order of the request: it asked for 2^order pages. -1: somebody asked for the killer itself.
    pub order: i32,
    /// The request's flags, by their names if the kernel printed those.
    pub gfp: String,
    /// The CPU that the task ran on.
    pub cpu: Option<u32>,
    /// The kernel's release.
    pub release: Option<String>,
    /// The group that was at its limit; `None`: the machine ran out.
    pub group: Option<Group>,
    /// Pages by kind of use, by the report's names (`active_anon`, `slab_unreclaimable`).
    pub pages: BTreeMap<String, u64>,
    /// The zones, with their fields in kB by the report's names.
    pub zones: Vec<ZoneReport>,
    /// Total and free swap, in kB.
    pub swap: Option<(u64, u64)>,
    /// Pages of memory that exist, with those that the kernel keeps from its allocator.
    pub ram: Option<u64>,
    /// Processes that could have been killed.
    pub tasks: Vec<Task>,
    /// The processes that were killed.
    pub killed: Vec<Killed>,
}

/// A memory control group at its limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its path below the root group.
    pub path: String,
    /// Memory in use, and its limit, in kB.
    pub memory: Option<(u64, u64)>,
    /// Swap in use, and its limit, in kB.
    pub swap: Option<(u64, u64)>,
    /// Its use by kind in bytes, by the names of memory.stat.
    pub stat: BTreeMap<String, u64>,
}

/// A zone of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneReport {
    /// Its node.
    pub node: u32,
    /// Its type by the kernel's name.
    pub name: String,
    /// Its fields in kB, by the report's names (`free`, `min`, `managed`).
    pub kb: BTreeMap<String, u64>,
    /// The lowmem reserve in pages, by the type of the request's highest zone.
    pub reserve: Vec<u64>,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
}

impl ZoneReport {
    /// Returns a field in pages; 0 if the report has none of that name.
    pub fn pages(&self, name: &str) -> u64 {
        self.kb.get(name).copied().unwrap_or(0) / 4
    }

    /// Returns the pages that the allocator manages; before 3.9 the pages that exist.
    pub fn managed(&self) -> u64 {
        match self.kb.get("managed") {
            Some(kb) => kb / 4,
            None => self.pages("present"),
        }
    }
}

/// A process of the report's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub pid: u32,
    /// Its resident pages.
    pub rss: u64,
    /// Its pages in swap.
    pub swapped: u64,
    /// Its name.
    pub name: String,
}

/// A process that was killed. Memory in kB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Anonymous memory.
    pub anon: u64,
    /// Pages of files in its mappings.
    pub file: u64,
    /// Shared memory.
    pub shmem: u64,
}

impl Report {
    /// Returns a count of pages by the report's name, summed over the zones if the report has no
    /// sum; 0 if it has neither.
    pub fn count(&self, name: &str) -> u64 {
        match self.pages.get(name) {
            Some(pages) => *pages,
            None => self.zones.iter().map(|z| z.pages(name)).sum(),
        }
    }

    /// Returns the pages that all zones manage.
    pub fn managed(&self) -> u64 {
        self.zones.iter().map(ZoneReport::managed).sum()
    }
}

#[cfg(test)]
mod tests;
