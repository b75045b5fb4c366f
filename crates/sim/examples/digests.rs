//! Prints a line for each of some small runs: the digest of its events and a hash of all its
//! figures. Every filesystem meets every load. A change that only moves or renames code leaves this
//! output the same:
//!
//! ```text
//! cargo run -p sim --example digests > before    # and again behind the change
//! ```
//!
//! `digests check` says instead what samples and recounts find in each run, and ends with 1 if that
//! is anything, as `lowmark run --check` does; `digests check full` recounts everything each
//! simulated second.
#![forbid(unsafe_code)]

use mm::Policy;
use mm::ZoneType;
use sim::result::Outcome;
use sim::spec::{
    Boot, DiskKind, DiskSpec, FsKind, Machine, Mount, NodeSpec, RunSpec, SecondSpec, Size,
    SwapSpec, Sysctl, ZoneSpec,
};
use sim::{Control, Params, RunResult};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use workload::ExistingFile;

/// Names, command lines, and memory in MiB that they do not fit.
const LOADS: [(&str, u64, &str); 6] = [
    (
        "data",
        32,
        "dd if=/dev/zero of=a bs=64k count=800 & dd if=/dev/zero of=b bs=3000 count=6000 & wait; \
         dd if=/dev/zero of=a bs=1000 count=3000 conv=notrunc,fsync; dd if=r of=/dev/null bs=64k; \
         dd if=a of=/dev/null bs=64k; dd if=/dev/zero of=b bs=64k count=20 oflag=direct",
    ),
    (
        "mapped",
        32,
        "mmap-strm -t 2 --stream 2 --mixed 2 --file-passes 2 --anon-passes 1",
    ),
    (
        "names",
        32,
        "fs_mark -d a -d b -d c -D 8 -N 64 -n 700 -L 2 -S0 -s 6000 -w 4096 -k -t 1; find a b c; \
         rm -r a b",
    ),
    (
        "synced",
        40,
        "fs_mark -d a -d b -n 30 -L 2 -S1 -s 40000; fs_mark -d d -n 60 -S2 -s 30000",
    ),
    (
        "simoop",
        96,
        "simoop -t 4 -m 8 -M 8 -n 128 -i 1 -r 4 -w 2 -C 1 -D 1 tree",
    ),
    (
        "two",
        40,
        "fs_mark -d p -D 4 -N 16 -n 300 -L 1 -S0 -s 6000 -w 4096 -k; find p; rm -r p & \
         fs_mark -d mnt2/q -D 4 -N 16 -n 400 -L 1 -S2 -s 6000 -w 4096 -k; rm -r mnt2/q & \
         dd if=/dev/zero of=mnt2/r bs=64k count=300; dd if=mnt2/r of=s bs=64k & wait",
    ),
];

/// How often every filesystem meets every load, each time with another policy, disk and parameters.
const TIMES: usize = 3;

fn machine(mib: u64, disk: DiskSpec) -> Machine {
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    Machine {
        name: format!("{mib}M"),
        cpus: 2,
        params: Default::default(),
        hz: 250,
        cpu_speed: None,
        nodes: vec![NodeSpec {
            cpus: Vec::new(),
            zones: vec![zone(ZoneType::Dma, 8), zone(ZoneType::Dma32, mib - 8)],
        }],
        boot: Boot {
            kernel: Size(4 << 20),
            dma: Size(1 << 20),
            anon: Size(4 << 20),
            cache: Size(0),
            inodes: 0,
            dentries: 0,
        },
        swap: Some(SwapSpec {
            size: Size(64 << 20),
            disk: None,
        }),
        sysctl: Sysctl {
            dirty_ratio: 40,
            ..Sysctl::default()
        },
        disk,
        filesystem: None,
        mounts: Vec::new(),
    }
}

/// The run of a load on a filesystem; `nth` varies policy, disk and parameters.
fn spec(filesystem: FsKind, load: usize, nth: usize) -> RunSpec {
    let (name, mib, command) = LOADS[load];
    let policies = [
        Policy::linux_3_0(),
        Policy::linux_3_16(),
        Policy::linux_4_9(),
    ];
    let kinds = [DiskKind::Disk, DiskKind::Ssd, DiskKind::Raid0];
    let capacity = if nth % 4 == 1 { 320 << 20 } else { 8 << 30 };
    let capacity = if name == "simoop" { 16 << 30 } else { capacity };
    let mut m = machine(mib, DiskSpec::new(kinds[nth % kinds.len()], Size(capacity)));
    if name == "two" {
        m.mounts.push(Mount::second(SecondSpec {
            filesystem: FsKind::ALL[nth * 2 % FsKind::ALL.len()],
            disk: DiskSpec::new(kinds[(nth + 1) % kinds.len()], Size(4 << 30)),
            mount: "mnt2".into(),
        }));
    }
    let mut workload = workload::parse(command).expect("a valid command");
    if name == "data" {
        let (path, len) = ("r".into(), 8 << 20);
        workload.files.push(ExistingFile { path, len });
    }
    let mut params = Params::default();
    let on = |yes: bool| f64::from(u8::from(yes));
    params.fs_look_ahead = on(nth.is_multiple_of(2));
    params.watch_pages = on(nth.is_multiple_of(3));
    params.xfs_log_interval = 2e9;
    params.btrfs_commit_interval = 1e9;
    params.journal_commit_interval = 1e9;
    params.fuse_max_write = if nth.is_multiple_of(2) {
        4096.0
    } else {
        131_072.0
    };
    RunSpec {
        machine: m,
        filesystem,
        policy: policies[nth % policies.len()].clone(),
        workload,
        changes: Vec::new(),
        membind: None,
        groups: sim::spec::Groups::default(),
        monitors: false,
        params,
        seed: 7 + nth as u64,
        sample_ns: 100_000_000,
        check_ns: 0,
        check_full: false,
        track_pages: true,
        time_limit_ns: 120_000_000_000,
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

fn line(r: &RunResult) -> String {
    let figures = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        r.metrics, r.counters, r.reclaim, r.tasks, r.series, r.tracker, r.notes, r.watermarks
    );
    let count = |name: &str| r.counters.get(name).copied().unwrap_or(0);
    format!(
        "{:016x} {:016x} {} ns, {} dirtied, {} written by reclaim, {:?}",
        r.digest,
        hash(&figures),
        r.sim_ns,
        count("nr_dirtied"),
        count("nr_vmscan_write"),
        r.outcome
    )
}

/// The faults that samples and recounts find in a run, and an unexpected end.
fn checked(of: &RunSpec, full: bool) -> Option<String> {
    let spec = RunSpec {
        check_ns: 1_000_000_000,
        check_full: full,
        ..of.clone()
    };
    let run = || sim::run(&spec, &Control::default());
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(r) => match r.outcome {
            Outcome::Failed { error } => Some(error),
            _ => None,
        },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("panic: {}", text.unwrap_or("without a message")))
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let check = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["check"] => Some(false),
        ["check", "full"] => Some(true),
        _ => {
            eprintln!("accepted: nothing, `check`, or `check full`");
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    let (mut nth, mut found) = (0, false);
    for load in (0..LOADS.len()).cycle().take(TIMES * LOADS.len()) {
        let name = LOADS[load].0;
        for &filesystem in FsKind::ALL {
            let of = spec(filesystem, load, nth);
            let kind = filesystem.name();
            let text = match check {
                None => Some(line(&sim::run(&of, &Control::default()))),
                Some(full) => checked(&of, full).inspect(|_| found = true),
            };
            if let Some(text) = text
                && writeln!(out, "{name:8} {kind:10} {text}").is_err()
            {
                return ExitCode::FAILURE;
            }
            nth += 1;
        }
    }
    ExitCode::from(u8::from(found))
}
