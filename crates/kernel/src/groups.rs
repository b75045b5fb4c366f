//! Memory control groups of a guest: their jobs, the files that looks read, and their figures.

use crate::proc;
use guest::groups::CGROUPS;
use guest::wire::GroupJob;
use sim::result::Metric;
use sim::spec::Groups;
use std::collections::BTreeMap;

/// Files of a group that are sampled while a workload runs, as far as the kernel has them.
const WATCHED: [&str; 6] = [
    "memory.current",
    "memory.peak",
    "memory.swap.current",
    "memory.events",
    "memory.pressure",
    "io.pressure",
];

/// The file that is read at the start and at the end alone: reading it makes the kernel sum up the
/// group's counters of all CPUs (`mem_cgroup_flush_stats`), which reclaim then reads. With a look
/// at it every 100 ms a group of 200 MB that writes files is scanned a twelfth as much, and never
/// killed.
const STAT: &str = "memory.stat";

/// Events of `memory.events` by the name of the figure, with its unit and the kernel's name.
const EVENTS: [(&str, &str, &str); 6] = [
    ("oom_kill", "processes", "oom_kill"),
    ("oom_group_kill", "events", "oom_group_kill"),
    ("oom", "events", "oom"),
    ("events_max", "events", "max"),
    ("events_high", "events", "high"),
    ("events_low", "events", "low"),
];

/// Counters of `memory.stat`, which has them in pages or as events.
const COUNTERS: [(&str, &str); 14] = [
    ("pgscan", "pages"),
    ("pgscan_kswapd", "pages"),
    ("pgscan_direct", "pages"),
    ("pgsteal", "pages"),
    ("pgsteal_kswapd", "pages"),
    ("pgsteal_direct", "pages"),
    ("pgactivate", "pages"),
    ("pgfault", "events"),
    ("pgmajfault", "events"),
    ("workingset_refault_anon", "pages"),
    ("workingset_refault_file", "pages"),
    ("workingset_activate_file", "pages"),
    ("pswpin", "pages"),
    ("pswpout", "pages"),
];

/// Levels of a series: the column's name, and the file with the number of bytes.
const LEVELS: [(&str, &str); 2] = [
    ("current", "memory.current"),
    ("swap_current", "memory.swap.current"),
];

/// Levels of `memory.stat` at the end of a run, in bytes.
const AT_END: [&str; 6] = [
    "anon",
    "file",
    "kernel",
    "file_dirty",
    "file_writeback",
    "active_file",
];

/// Pressure files of a group with the resource of each.
const PRESSURES: [(&str, &str); 2] = [("memory.pressure", "memory"), ("io.pressure", "io")];

/// The files of one look: contents by path.
type Files = BTreeMap<String, String>;

/// Returns the groups that the guest makes for a run.
pub fn jobs(groups: &Groups) -> Vec<GroupJob> {
    let job = |group: &sim::spec::Group| GroupJob {
        name: group.name.clone(),
        settings: group
            .settings
            .files()
            .into_iter()
            .map(|(file, text)| (file.to_owned(), text))
            .collect(),
    };
    groups.all.iter().map(job).collect()
}

/// Returns the paths of the files that looks read of a run's groups.
pub fn watched(groups: &Groups) -> impl Iterator<Item = String> {
    groups.all.iter().flat_map(|group| {
        let folder = path(&group.name);
        WATCHED.map(|file| format!("{folder}{file}"))
    })
}

/// Returns the paths of the files that are read of a run's groups at its start and end alone.
pub fn watched_at_ends(groups: &Groups) -> impl Iterator<Item = String> {
    let stat = |group: &sim::spec::Group| format!("{}{STAT}", path(&group.name));
    groups.all.iter().map(stat)
}

/// Returns the path of a group's folder, with a slash at its end.
fn path(name: &str) -> String {
    format!("{}/", guest::groups::folder(name).display())
}

/// Returns the names of the groups of which a look has files, sorted.
fn names(files: &Files) -> impl Iterator<Item = String> {
    let below = files.range(CGROUPS.to_owned()..);
    let below = below.map_while(|(path, _)| path.strip_prefix(CGROUPS)?.strip_prefix('/'));
    below.filter_map(|path| {
        let folder = path.strip_suffix("/memory.current")?;
        Some(folder.replace('/', "."))
    })
}

/// Adds the figures of all groups, from the first to the last look of a run: events and counters as
/// differences, seconds of pressure, and the most memory that the group had.
pub fn figures(first: &Files, last: &Files, into: &mut BTreeMap<String, Metric>) {
    for name in names(last) {
        let folder = path(&name);
        let text = |files: &Files, file: &str| -> Option<String> {
            files.get(&format!("{folder}{file}")).cloned()
        };
        let mut put = |figure: &str, unit: &'static str, value: f64| {
            into.insert(format!("group.{name}.{figure}"), Metric { unit, value });
        };
        let both = |file: &str| Some((text(first, file)?, text(last, file)?));
        if let Some((before, after)) = both("memory.events") {
            let (before, after) = (proc::vmstat(&before), proc::vmstat(&after));
            for (figure, unit, key) in EVENTS {
                if let (Some(old), Some(now)) = (before.get(key), after.get(key)) {
                    put(figure, unit, now.saturating_sub(*old) as f64);
                }
            }
        }
        if let Some((before, after)) = both(STAT) {
            let (before, after) = (proc::vmstat(&before), proc::vmstat(&after));
            for (key, unit) in COUNTERS {
                if let (Some(old), Some(now)) = (before.get(key), after.get(key)) {
                    put(key, unit, now.saturating_sub(*old) as f64);
                }
            }
            for key in AT_END {
                if let Some(bytes) = after.get(key) {
                    put(&format!("{key}_at_end"), "pages", (bytes / 4096) as f64);
                }
            }
        }
        for (file, of) in PRESSURES {
            for who in ["some", "full"] {
                let us = |files: &Files| proc::pressure(&text(files, file)?, who);
                if let (Some(old), Some(now)) = (us(first), us(last)) {
                    let seconds = now.saturating_sub(old) as f64 / 1e6;
                    put(&format!("psi_{of}_{who}"), "s", seconds);
                }
            }
        }
        let peak = text(last, "memory.peak");
        if let Some(bytes) = peak.and_then(|text| text.trim().parse::<u64>().ok()) {
            put("peak", "pages", (bytes / 4096) as f64);
        }
    }
}

/// Returns the levels of all groups at one look: the columns' names, and pages.
pub fn levels(files: &Files) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for name in names(files) {
        let folder = path(&name);
        for (column, file) in LEVELS {
            let text = files.get(&format!("{folder}{file}"));
            let bytes = text.and_then(|text| text.trim().parse::<u64>().ok());
            all.extend(bytes.map(|bytes| (format!("group.{name}.{column}"), bytes / 4096)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::spec::{Group, GroupSettings, Limit};

    fn look(group: &str, current: u64, kills: u64, scans: u64) -> Files {
        let folder = format!("/sys/fs/cgroup/{group}/");
        let file = |name: &str, text: String| (format!("{folder}{name}"), text);
        Files::from([
            file("memory.current", format!("{current}\n")),
            file("memory.peak", "819200\n".to_owned()),
            file(
                "memory.events",
                format!("low 0\nhigh 0\nmax 7\noom_kill {kills}\n"),
            ),
            file(
                "memory.stat",
                format!("anon 4096\nfile 8192\npgscan {scans}\n"),
            ),
            file(
                "memory.pressure",
                format!(
                    "some avg10=0.00 total={}\nfull avg10=0.00 total=0\n",
                    scans * 1000
                ),
            ),
        ])
    }

    #[test]
    fn figures_are_differences_and_levels_are_pages() {
        let (first, last) = (
            look("web/worker", 4096, 1, 10),
            look("web/worker", 40960, 3, 260),
        );
        let mut figures_of = BTreeMap::new();
        figures(&first, &last, &mut figures_of);
        let value = |name: &str| {
            figures_of
                .get(&format!("group.web.worker.{name}"))
                .map(|m| m.value)
        };
        assert_eq!(value("oom_kill"), Some(2.0));
        assert_eq!(value("events_max"), Some(0.0));
        assert_eq!(value("pgscan"), Some(250.0));
        assert_eq!(value("psi_memory_some"), Some(0.25));
        assert_eq!(value("peak"), Some(200.0));
        // The kernel did not say these.
        assert_eq!(
            (value("oom"), value("pswpin"), value("psi_io_some")),
            (None, None, None)
        );
        let pages = levels(&last);
        let of = |name: &str| {
            pages
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, pages)| *pages)
        };
        assert_eq!(of("group.web.worker.current"), Some(10));
        assert_eq!(value("file_at_end"), Some(2.0));
        assert_eq!(
            (of("group.web.worker.swap_current"), value("kernel_at_end")),
            (None, None)
        );
    }

    #[test]
    fn a_guest_gets_its_groups_with_the_files_of_cgroup_v2() {
        let groups = Groups {
            all: vec![Group {
                name: "web.worker".into(),
                settings: GroupSettings {
                    max: Some(Limit::Bytes(4096)),
                    high: Some(Limit::Max),
                    oom_group: Some(true),
                    ..GroupSettings::default()
                },
            }],
            of_workload: None,
        };
        let job = &jobs(&groups)[0];
        let settings: Vec<(&str, &str)> = job.settings.iter().map(|(f, t)| (&**f, &**t)).collect();
        assert_eq!(
            settings,
            [
                ("memory.high", "max"),
                ("memory.max", "4096"),
                ("memory.oom.group", "1")
            ]
        );
        // Reading memory.stat changes what the kernel does, so it is read at the ends alone.
        assert!(watched(&groups).all(|path| !path.ends_with("memory.stat")));
        assert_eq!(watched_at_ends(&groups).count(), 1);
        let first = watched(&groups).next();
        assert_eq!(
            first.as_deref(),
            Some("/sys/fs/cgroup/web/worker/memory.current")
        );
    }
}
