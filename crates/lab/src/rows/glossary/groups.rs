//! Words for figures of memory control groups, which runs of real kernels and of models since
//! linux-6.1 have. NAME stands for the group's name.

use super::{Kind, Word};

/// Defines the entry of a figure of a group; `text` is its definition, and `high` says what a high
/// value means.
const fn of_group(
    name: &'static str,
    unit: &'static str,
    text: &'static str,
    high: &'static str,
) -> Word {
    Word {
        name,
        also: &[],
        kind: Kind::Metric,
        text,
        unit,
        kernels: "real ones, and models since 6.1, with groups",
        high,
        related: &["cgroup"],
    }
}

/// The meaning of many high figures of a group.
const SHORT: &str =
    "the group is short of memory: its limit, or its protection, is too small for its programs";

/// The words.
pub(super) const WORDS: &[Word] = &[
    of_group(
        "group.NAME.oom_kill",
        "processes",
        "Processes of the group that the OOM killer ended (`oom_kill` of memory.events).",
        "programs were killed because nothing in the group could be reclaimed in time",
    ),
    of_group(
        "group.NAME.first_kill",
        "s",
        "When the OOM killer ended a program of the group for the first time, since the workload began.",
        "",
    ),
    of_group(
        "group.NAME.oom_group_kill",
        "events",
        "How often the OOM killer ended the whole group at once (memory.oom.group).",
        "the whole group was killed",
    ),
    of_group(
        "group.NAME.oom",
        "events",
        "How often an allocation found the group at its limit and reclaim freed nothing (`oom` of memory.events).",
        "the OOM killer was asked for",
    ),
    of_group(
        "group.NAME.events_max",
        "events",
        "How often the group was about to go above memory.max, and reclaimed from itself (`max` of memory.events).",
        SHORT,
    ),
    of_group(
        "group.NAME.events_high",
        "events",
        "How often a task of the group was throttled above memory.high (`high` of memory.events).",
        "the group's tasks are slowed down",
    ),
    of_group(
        "group.NAME.events_low",
        "events",
        "How often the group was reclaimed from although it had less than memory.low (`low` of memory.events).",
        "more memory is protected than there is",
    ),
    of_group(
        "group.NAME.pgscan",
        "pages",
        "Pages of the group that reclaim scanned, for the group's limit or for the machine.",
        SHORT,
    ),
    of_group(
        "group.NAME.pgscan_kswapd",
        "pages",
        "Pages of the group that kswapd scanned: the machine was short of memory.",
        "",
    ),
    of_group(
        "group.NAME.pgscan_direct",
        "pages",
        "Pages of the group that tasks scanned, for its limit or for the machine.",
        SHORT,
    ),
    of_group(
        "group.NAME.pgsteal",
        "pages",
        "Pages of the group that reclaim freed.",
        "",
    ),
    of_group(
        "group.NAME.pgsteal_kswapd",
        "pages",
        "Pages of the group that kswapd freed.",
        "",
    ),
    of_group(
        "group.NAME.pgsteal_direct",
        "pages",
        "Pages of the group that tasks freed.",
        "",
    ),
    of_group(
        "group.NAME.pgactivate",
        "pages",
        "Pages of the group that were moved to an active list.",
        "",
    ),
    of_group(
        "group.NAME.pgfault",
        "events",
        "Page faults of the group's tasks, minor and major.",
        "",
    ),
    of_group(
        "group.NAME.pgmajfault",
        "events",
        "Page faults of the group's tasks that waited for a disk.",
        "pages were reclaimed that are in use",
    ),
    of_group(
        "group.NAME.workingset_refault_anon",
        "pages",
        "Swapped pages of the group that were asked for again.",
        "the group's anonymous memory does not fit",
    ),
    of_group(
        "group.NAME.workingset_refault_file",
        "pages",
        "Reclaimed page cache of the group that was asked for again.",
        "the group's files do not fit into its cache",
    ),
    of_group(
        "group.NAME.workingset_activate_file",
        "pages",
        "Refaulted page cache of the group that became active at once.",
        "",
    ),
    of_group(
        "group.NAME.pswpin",
        "pages",
        "Pages of the group that were read from swap (6.12 and later).",
        "",
    ),
    of_group(
        "group.NAME.pswpout",
        "pages",
        "Pages of the group that were written to swap (6.12 and later).",
        "",
    ),
    of_group(
        "group.NAME.psi_memory_some",
        "s",
        "Time in which a task of the group waited for memory (memory.pressure).",
        SHORT,
    ),
    of_group(
        "group.NAME.psi_memory_full",
        "s",
        "Time in which all tasks of the group that could run waited for memory.",
        SHORT,
    ),
    of_group(
        "group.NAME.psi_io_some",
        "s",
        "Time in which a task of the group waited for a disk (io.pressure).",
        "",
    ),
    of_group(
        "group.NAME.psi_io_full",
        "s",
        "Time in which all tasks of the group that could run waited for a disk.",
        "",
    ),
    of_group(
        "group.NAME.peak",
        "pages",
        "The most memory that the group had, from boot to the end of the run (memory.peak).",
        "",
    ),
    of_group(
        "group.NAME.current",
        "pages",
        "Memory of the group at this time: anonymous memory, page cache, kernel memory (memory.current).",
        "",
    ),
    of_group(
        "group.NAME.swap_current",
        "pages",
        "Swap of the group at this time (memory.swap.current).",
        "",
    ),
    of_group(
        "group.NAME.anon_at_end",
        "pages",
        "Anonymous memory of the group at the end of the run.",
        "",
    ),
    of_group(
        "group.NAME.file_at_end",
        "pages",
        "Page cache of the group at the end of the run.",
        "",
    ),
    of_group(
        "group.NAME.active_file_at_end",
        "pages",
        "Page cache of the group on an active list at the end of the run.",
        "",
    ),
    of_group(
        "group.NAME.kernel_at_end",
        "pages",
        "Memory of the kernel that is charged to the group at the end of the run: slab, page tables, stacks.",
        "",
    ),
    of_group(
        "group.NAME.file_dirty_at_end",
        "pages",
        "Dirty page cache of the group at the end of the run.",
        "reclaim in the group meets pages that it can't free",
    ),
    of_group(
        "group.NAME.file_writeback_at_end",
        "pages",
        "Page cache of the group that is being written at the end of the run.",
        "",
    ),
];

/// Returns the name of the entry for a figure of a group: `group.NAME.oom_kill` for
/// `group.web.worker.oom_kill`. `None` if the name is no figure of a group.
pub fn entry_of(name: &str) -> Option<String> {
    let (_, figure) = name.strip_prefix("group.")?.rsplit_once('.')?;
    Some(format!("group.NAME.{figure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_any_group_share_an_entry() {
        assert_eq!(
            entry_of("group.web.worker.oom_kill").as_deref(),
            Some("group.NAME.oom_kill")
        );
        assert_eq!(entry_of("group.oom_kill"), None);
        assert_eq!(entry_of("oom_kill"), None);
        let names: std::collections::BTreeSet<&str> = WORDS.iter().map(|w| w.name).collect();
        assert_eq!(names.len(), WORDS.len());
    }
}
