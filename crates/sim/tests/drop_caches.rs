//! `drop_caches` frees what Linux's sysctl frees, and nothing that is dirty.

mod common;

use common::{machine, run, spec};
use sim::RunResult;
use sim::spec::FsKind;

/// Returns the run of a script on a machine of 256 MiB.
fn script(fs: FsKind, line: &str) -> RunResult {
    run(&spec(machine(256), fs, line))
}

/// MiB that a run has read from its disk.
fn read(result: &RunResult) -> u64 {
    result.counters["pgpgin"] / 1024
}

/// A file that was just written is read from the disk only if its pages were dropped, and they are
/// dropped only once they are clean.
#[test]
fn clean_pages_are_dropped_and_dirty_ones_stay() {
    for fs in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
        let write = "dd if=/dev/zero of=a bs=64k count=256";
        let again = "dd if=a of=/dev/null bs=64k";
        let of = |between: &str| read(&script(fs, &format!("{write}; {between}; {again}")));
        let kept = of("sync");
        assert!(kept < 8, "{fs:?}: {kept} MiB were read of cached pages");
        for drop in [
            "drop_caches 1",
            "echo 3 > /proc/sys/vm/drop_caches",
            "sysctl -w vm.drop_caches=1",
        ] {
            let dropped = of(&format!("sync; {drop}"));
            assert!((16..20).contains(&dropped), "{fs:?}, {drop}: {dropped} MiB");
        }
        let dirty = of("drop_caches 1");
        assert!(dirty < 8, "{fs:?}: {dirty} MiB were read of dirty pages");
        let objects = of("sync; drop_caches 2");
        // An inode that goes takes its pages along.
        assert!(objects == kept || objects >= 16, "{fs:?}: {objects} MiB");
    }
}

/// Inodes in memory are freed by 2 and 3 and not by 1.
#[test]
fn inodes_are_dropped() {
    for fs in [FsKind::Ext4, FsKind::Xfs] {
        let of = |drop: &str| {
            let line = format!("fs_mark -d t -n 2000 -s 4096 -k; sync; {drop}; find t");
            let result = script(fs, &line);
            result.counters["slabs_scanned"]
        };
        let (none, pages, objects) = (of("sleep 0"), of("drop_caches 1"), of("drop_caches 2"));
        assert_eq!(none, pages, "{fs:?}");
        assert!(objects >= none + 2000, "{fs:?}: {objects} of {none}");
    }
}
