//! Common parts of tests with real guests: the kernel, and a small machine.

use kernel::Kernel;
use sim::spec::{Boot, DiskKind, DiskSpec, FsKind, Machine, NodeSpec, Size, ZoneSpec};
use sim::{Params, RunSpec};
use workload::Script;

/// Returns the kernel to test with: `LOWMARK_TEST_KERNEL` names one of the user's cache (CI: 6.12).
/// Without it a test prints a note and passes: building a kernel takes minutes and tools that not
/// every machine has.
pub fn kernel() -> Option<Kernel> {
    let name = std::env::var("LOWMARK_TEST_KERNEL").ok();
    if name.is_none() {
        eprintln!("not run: LOWMARK_TEST_KERNEL names no kernel");
    }
    name.map(|name| Kernel::new(&name))
}

/// Parses a command line.
pub fn command(line: &str) -> Script {
    workload::parse(line).unwrap()
}

/// Returns a run of a script on 128 MiB with nothing in use at boot, ext4 on a drive of 1 GiB, a
/// look every second, an hour at most.
pub fn spec(workload: Script) -> RunSpec {
    let zone = ZoneSpec {
        zone: mm::ZoneType::Normal,
        size: Size(128 << 20),
    };
    RunSpec {
        machine: Machine {
            name: "guest".into(),
            cpus: 1,
            params: Default::default(),
            hz: 100,
            cpu_speed: None,
            nodes: vec![NodeSpec {
                zones: vec![zone],
                cpus: vec![],
            }],
            boot: boot(0, 0, 0),
            swap: None,
            sysctl: Default::default(),
            disk: DiskSpec::new(DiskKind::Ssd, Size(1 << 30)),
            filesystem: None,
            mounts: vec![],
        },
        filesystem: FsKind::Ext4,
        policy: mm::Policy::linux_4_9(),
        workload,
        changes: vec![],
        membind: None,
        groups: sim::spec::Groups::default(),
        monitors: false,
        params: Params::default(),
        seed: 1,
        sample_ns: 1_000_000_000,
        check_ns: 0,
        check_full: false,
        track_pages: false,
        time_limit_ns: 3_600_000_000_000,
    }
}

/// Returns the memory in use at boot, in MiB: the kernel's, anonymous, cached.
pub fn boot(kernel: u64, anon: u64, cache: u64) -> Boot {
    Boot {
        kernel: Size(kernel << 20),
        dma: Size(0),
        anon: Size(anon << 20),
        cache: Size(cache << 20),
        inodes: 0,
        dentries: 0,
    }
}
