//! Changes without effect on an experiment: its results must stay the same bytes.

use crate::case::Case;
use sim::params::ParamInfo;
use sim::spec::{DiskKind, DiskSpec, FsKind, Scheduler};
use sim::{Params, RunSpec};
use toml::{Table, Value};

/// A change without effect.
pub struct Change {
    /// A description in a few words.
    pub about: &'static str,
    apply: Box<dyn Fn(&mut Table)>,
}

impl Change {
    /// Makes the change in an experiment's table.
    pub fn apply(&self, table: &mut Table) {
        (self.apply)(table);
    }
}

/// Returns the changes that have no effect on the results of a case, such as a policy that no cell
/// uses: each result must stay the same bytes. `spec` is the run of its first cell, which tells
/// what is in use.
pub fn all(case: &Case, spec: &RunSpec) -> Vec<Change> {
    let mut changes = of_params(case, spec);
    let mut add = |about, apply: Box<dyn Fn(&mut Table)>| changes.push(Change { about, apply });
    add(
        "a policy that nobody uses",
        Box::new(|t| {
            let unused = toml::toml! { base = "linux-3.0" };
            sub(t, &["policies"]).insert("nobody".into(), Value::Table(unused));
        }),
    );
    add(
        "sysctls with their defaults written out",
        Box::new(|t| {
            let known = Value::try_from(sim::spec::Sysctl::default());
            let Ok(Value::Table(known)) = known else {
                return;
            };
            let sysctl = sub(t, &["machine", "sysctl"]);
            for (key, value) in known {
                sysctl.entry(key).or_insert(value);
            }
        }),
    );
    add(
        "other names",
        Box::new(|t| {
            t.insert("name".into(), "other".into());
            sub(t, &["workload"]).insert("name".into(), "other".into());
        }),
    );
    add(
        "a figure to compare by",
        Box::new(|t| {
            t.entry("compare")
                .or_insert(Value::Array(vec!["elapsed".into()]));
        }),
    );
    for at_ns in [0, 1_000_000, 333_333_000, 2_000_000_000] {
        if let Some(change) = written_again(spec, at_ns) {
            add("a sysctl that is written again in mid-run", change);
        }
    }
    add(
        "a later time limit than the end of time",
        Box::new(|t| {
            if t.get("time_limit_s").and_then(Value::as_integer) == Some(0) {
                t.insert("time_limit_s".into(), Value::Integer(10_000_000));
            }
        }),
    );
    if spec.machine.nodes.iter().all(|n| n.cpus.is_empty()) && spec.machine.cpus < 64 {
        add(
            "a CPU of a node beyond the machine's",
            Box::new(|t| {
                let node = sub(t, &["machine"])
                    .get_mut("node")
                    .and_then(Value::as_array_mut);
                let first = node
                    .and_then(|n| n.first_mut())
                    .and_then(Value::as_table_mut);
                if let Some(first) = first {
                    first.insert("cpus".into(), Value::Array(vec![Value::Integer(63)]));
                }
            }),
        );
    }
    add(
        "faults of the disk after the end",
        Box::new(|t| {
            let far = toml::toml! {
                faults = [
                    { kind = "stall", at_s = 9e6, for_s = 1.0 },
                    { kind = "write-error", at_s = 9e6, for_s = 1.0 },
                ]
            };
            let machine = sub(t, &["machine"]);
            let disk = match machine.get_mut("disk") {
                Some(Value::Array(list)) => list.first_mut().and_then(Value::as_table_mut),
                Some(Value::Table(one)) => Some(one),
                _ => None,
            };
            let Some(disk) = disk else { return };
            let faults = disk.entry("faults").or_insert(Value::Array(Vec::new()));
            let more = far["faults"].as_array().expect("a list");
            if let Value::Array(faults) = faults {
                faults.extend(more.iter().cloned());
            }
        }),
    );
    of_policy(case, spec, &mut changes);
    changes
}

/// A change of an experiment's table.
type Edit = Box<dyn Fn(&mut Table)>;

/// Returns an edit of the experiment's table that writes the swappiness once more, at `at_ns` of
/// simulated time, with the value that the run has by then. `None`: the run has ended by then.
fn written_again(spec: &RunSpec, at_ns: u64) -> Option<Edit> {
    if spec.time_limit_ns > 0 && at_ns >= spec.time_limit_ns {
        return None;
    }
    let mut earlier = spec.changes.iter().rev();
    let before = earlier.find(|c| c.at_ns <= at_ns);
    let sysctl = before.map_or(&spec.machine.sysctl, |c| &c.sysctl);
    let swappiness = Value::Integer(i64::from(sysctl.swappiness));
    Some(Box::new(move |t| {
        let mut written = Table::new();
        written.insert("vm.swappiness".into(), swappiness.clone());
        let mut change = Table::new();
        change.insert("time".into(), format!("{}us", at_ns / 1000).into());
        change.insert("sysctl".into(), Value::Table(written));
        let all = t.entry("at").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.push(Value::Table(change));
        }
    }))
}

/// Adds changes to switches of the first cell's policy that nothing reads with its other switches,
/// if the experiment has a table for that policy.
fn of_policy(case: &Case, spec: &RunSpec, changes: &mut Vec<Change>) {
    use mm::policy::{Mobility, ReclaimWriteback, Watermarks};
    let (policy, name) = (&spec.policy, spec.policy.name.clone());
    let tables = case.table.get("policies").and_then(Value::as_table);
    if !tables.is_some_and(|t| t.contains_key(&name)) {
        return;
    }
    // A change that sets one key of the policy's table.
    let mut set = |about, key: &'static str, value: Value| {
        let name = name.clone();
        changes.push(Change {
            about,
            apply: Box::new(move |t| {
                sub(t, &["policies", &name]).insert(key.into(), value.clone());
            }),
        });
    };
    let in_trouble = [policy.direct_writeback, policy.kswapd_writeback];
    if !in_trouble.contains(&ReclaimWriteback::InTrouble) {
        // Another of the 13 priorities, whichever the policy has.
        let other = Value::Integer(i64::from((policy.kswapd_writeback_priority + 7) % 13));
        set(
            "a priority that nothing is written at",
            "kswapd_writeback_priority",
            other,
        );
    }
    if policy.watermarks != Watermarks::Auto {
        let auto = toml::toml! { cap = 2
        step_percent = 7
        raise_on_trouble = false };
        set(
            "rules of watermarks that do not adjust themselves",
            "auto",
            Value::Table(auto),
        );
    }
    if policy.mobility == Mobility::None {
        let sysctl = toml::toml! { watermark_boost_factor = 15000 };
        if case.table["policies"][&name].get("sysctl").is_none() {
            set("a boost without mobility", "sysctl", Value::Table(sysctl));
        }
    }
    let on = |kind| {
        let mut all = spec.machine.mounted();
        all.any(|on| on.filesystem.unwrap_or(spec.filesystem) == kind)
    };
    if !on(FsKind::Xfs) {
        let other = match policy.inode_reclaim {
            mm::policy::InodeReclaim::Blocking => "non-blocking",
            mm::policy::InodeReclaim::NonBlocking => "clean-only",
            mm::policy::InodeReclaim::CleanOnly => "blocking",
        };
        set(
            "how xfs inodes are freed, without an xfs",
            "inode_reclaim",
            other.into(),
        );
    }
}

/// Returns two changes: other values for parameters that no part of the machine uses, and the
/// defaults written out for those in use.
fn of_params(case: &Case, spec: &RunSpec) -> Vec<Change> {
    let machine = &spec.machine;
    let swap = machine.swap.as_ref().and_then(|s| s.disk.as_ref());
    let disks: Vec<&DiskSpec> = machine.mounted().map(|on| on.disk).chain(swap).collect();
    let filesystems: Vec<FsKind> = machine
        .mounted()
        .map(|on| on.filesystem.unwrap_or(spec.filesystem))
        .collect();
    let on = |kinds: &[FsKind]| filesystems.iter().any(|f| kinds.contains(f));
    let cfq = disks.iter().any(|d| d.scheduler() == Scheduler::Cfq);
    // True if the machine has the disk or filesystem that reads the parameter.
    let used = |info: &ParamInfo| {
        let of = |prefix: &str| info.name.starts_with(prefix);
        let mut kinds = DiskKind::ALL.iter();
        if kinds.any(|kind| kind.rows().iter().any(|row| row.name == info.name)) {
            return disks.iter().any(|d| d.kind.takes(info));
        }
        match () {
            () if of("cfq_") => cfq,
            () if of("xfs_") => on(&[FsKind::Xfs]),
            () if of("btrfs_") => on(&[FsKind::Btrfs]),
            () if of("fuse_") => on(&[FsKind::FuseNtfs]),
            () if of("vfat_") => on(&[FsKind::Vfat]),
            () if of("exfat_") => on(&[FsKind::Exfat]),
            () if of("journal_") => on(&[FsKind::Ext3, FsKind::Ext4]),
            () if of("monitor_") || of("cost_trace_") => spec.monitors,
            () => true,
        }
    };
    // True if the experiment sets the parameter somewhere, so that it must not be set again.
    let is_set = |name: &str| {
        let table = |path: &[&str]| {
            let mut table = Some(&case.table);
            for key in path {
                table = table.and_then(|t| t.get(*key)).and_then(Value::as_table);
            }
            table.is_some_and(|t| t.contains_key(name))
        };
        let list = case.table["machine"].get("disk").and_then(Value::as_array);
        let mut elements = list.into_iter().flatten();
        let of_list = |disk: &Value| disk.get("params").is_some_and(|p| p.get(name).is_some());
        // The sysctl replaces the parameter: setting both is refused.
        let of_sysctl = name == "xfs_log_interval" && machine.sysctl.xfssyncd_centisecs.is_some();
        of_sysctl
            || table(&["params"])
            || elements.any(of_list)
            || table(&["machine", "params"])
            || table(&["machine", "disk", "params"])
            || table(&["machine", "swap", "disk", "params"])
            || table(&["machine", "second", "disk", "params"])
    };
    let unused: Vec<(String, f64)> = Params::TABLE
        .iter()
        .filter(|p| !used(p) && !is_set(p.name))
        .map(|p| {
            (
                p.name.to_owned(),
                if p.value == p.max { p.min } else { p.max },
            )
        })
        .collect();
    let defaults: Vec<(String, f64)> = Params::TABLE
        .iter()
        .filter(|p| used(p) && !is_set(p.name))
        .map(|p| (p.name.to_owned(), p.value))
        .collect();
    let put = |about, values: Vec<(String, f64)>| Change {
        about,
        apply: Box::new(move |t| {
            let params = sub(t, &["params"]);
            for (name, value) in &values {
                params.insert(name.clone(), Value::Float(*value));
            }
        }),
    };
    vec![
        put("parameters of what the machine does not have", unused),
        put("parameters with their defaults written out", defaults),
    ]
}

/// Returns the table at a path of keys below `table`, and makes it if it is missing.
fn sub<'a>(mut table: &'a mut Table, path: &[&str]) -> &'a mut Table {
    for key in path {
        let below = table
            .entry(*key)
            .or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(below) = below else {
            unreachable!("{key} is a table wherever a case has it");
        };
        table = below;
    }
    table
}
