//! Every parameter of the table at both ends of its range, on each filesystem and each disk: no run
//! panics or spins, and every list and counter agrees.

mod common;

use common::{ALL_FS, bare, disk};
use mm::Policy;
use mm::ZoneType;
use sim::params::{ParamInfo, Params};
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use sim::{Control, Outcome};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// More polls than any of these runs may take: those of 4 simulated seconds on four busy CPUs.
const POLLS: u64 = 40_000_000;

/// A machine of 16 MiB that writes more than its memory, makes files, reads and swaps.
fn tiny(fs: FsKind, kind: DiskKind, param: &ParamInfo, value: f64, nth: usize) -> RunSpec {
    let mut m = bare(ZoneType::Normal, 16 << 20);
    m.cpus = [1, 4][nth % 2];
    m.disk = disk(kind);
    m.disk.capacity = Size(96 << 20);
    if kind == DiskKind::Raid0 {
        m.disk.members = Some(2);
    }
    m.swap = Some(common::swap(8 << 20));
    m.boot.anon = Size(2 << 20);
    let command = "dd if=/dev/zero of=a bs=64k count=300; fs_mark -d b -n 150 -L 1 -s 5000 -S1 -k; \
                   dd if=a of=/dev/null bs=16k";
    let mut s = common::spec(m, fs, command);
    s.policy = Policy::preset(Policy::PRESETS[nth % Policy::PRESETS.len()]).expect("a preset");
    s.monitors = param.name.starts_with("monitor_") || param.name.starts_with("cost_trace");
    s.params
        .set(param.name, value)
        .expect("an end of its range");
    s.seed = nth as u64;
    s.sample_ns = 0;
    s.check_ns = 500_000_000;
    s.time_limit_ns = 4_000_000_000;
    s
}

/// Runs a spec; returns a description of the error, if any.
fn wrong(spec: &RunSpec) -> Option<String> {
    let control = Control::default();
    let run = std::panic::AssertUnwindSafe(|| sim::run(spec, &control));
    let Ok(result) = std::panic::catch_unwind(run) else {
        return Some("a panic".into());
    };
    let polls = control.polls.load(Relaxed);
    match result.outcome {
        Outcome::Failed { error } if !error.contains("space") => Some(error),
        _ if polls > POLLS => Some(format!("{polls} polls")),
        _ => None,
    }
}

/// Tests all cases on all cores; panics with a list of the errors.
fn try_all(cases: &[(&ParamInfo, f64, FsKind, DiskKind)]) {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Relaxed);
                    let Some(&(param, value, fs, kind)) = cases.get(nth) else {
                        break;
                    };
                    if let Some(what) = wrong(&tiny(fs, kind, param, value, nth)) {
                        let name = param.name;
                        let line = format!("{nth}: {name} = {value}, {fs:?}, {kind:?}: {what}");
                        found.lock().expect("no panic here").push(line);
                    }
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic here");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The parameters of a kind of disk are tested on that disk, all others on the disks in turn; each
/// on all filesystems.
#[test]
fn ends_of_every_parameter() {
    let mut cases = Vec::new();
    for (i, param) in Params::TABLE.iter().enumerate() {
        let own: Vec<DiskKind> = DiskKind::ALL
            .iter()
            .copied()
            .filter(|d| d.takes(param))
            .collect();
        let disks = if own.is_empty() {
            DiskKind::ALL
        } else {
            &own[..]
        };
        for (end, value) in [param.min, param.max].into_iter().enumerate() {
            for (f, fs) in ALL_FS.into_iter().enumerate() {
                cases.push((param, value, fs, disks[(i + end + f) % disks.len()]));
            }
        }
    }
    try_all(&cases);
}

/// An earlier find. Memory has run out; while a look-up waits for a dentry's memory, the inode that
/// it has found is written, moves to the list of unused inodes and is freed.
#[test]
fn an_inode_that_goes_while_its_dentry_is_looked_for() {
    let param = Params::TABLE.iter().find(|p| p.name == "monitor_interval");
    let param = param.expect("a parameter");
    let mut spec = tiny(FsKind::Xfs, DiskKind::Ssd, param, 1e6, 1653);
    spec.policy = Policy::linux_3_16();
    assert_eq!(wrong(&spec), None);
}

/// All combinations: a few minutes without optimisation, half a minute with it.
#[test]
#[ignore = "minutes; CI runs it: cargo test --workspace --test parameters -- --ignored"]
fn ends_of_every_parameter_on_every_disk() {
    let mut cases = Vec::new();
    for param in Params::TABLE {
        for value in [param.min, param.max] {
            for fs in ALL_FS {
                cases.extend(DiskKind::ALL.iter().map(|&kind| (param, value, fs, kind)));
            }
        }
    }
    try_all(&cases);
}
