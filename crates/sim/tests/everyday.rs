//! Commands of everyday use: `drop_caches` frees what Linux's sysctl frees, copies of trees have
//! what their sources have, and memory is filled by size.

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

/// Copies of a tree have its files and directories, which are read from the disk once if they are
/// not cached.
#[test]
fn copies_of_trees_are_whole() {
    let make = "fs_mark -d t -n 100 -s 10000 -k -t 2 -D 4 -N 25; sync; drop_caches";
    let walked = |line: &str| {
        let result = script(FsKind::Ext4, &format!("{make}; {line}"));
        (result.metrics["names_walked"].value, read(&result))
    };
    let (source, _) = walked("find t");
    for copy in ["cp -r t c", "rsync -a t/ c", "(cp -a t c)"] {
        let (names, mib) = walked(&format!("{copy}; find c"));
        assert_eq!(names, source, "{copy}");
        assert!(mib < 8, "{copy}: {mib} MiB");
    }
    // Into a directory that is there: one name more.
    let (names, _) = walked("cp -r t c; cp -r t c; find c");
    assert_eq!(names, 2.0 * source);
    let result = script(FsKind::Ext4, &format!("{make}; tar cf a t"));
    let files = result.metrics["tar_files"].value;
    let least = files * (20.0 * 512.0 + 512.0);
    let bytes = result.metrics["tar_bytes"].value;
    assert!(
        files >= 200.0 && (least..least * 1.2).contains(&bytes),
        "{files} files, {bytes} bytes"
    );
    assert_eq!(bytes % 10240.0, 0.0);
}

/// Twice the machine's memory ends in a kill, half of it does not.
#[test]
fn memory_is_filled_by_share() {
    let ended = |line: &str| script(FsKind::Ext4, line).outcome;
    assert_eq!(
        ended("stress-ng --vm 2 --vm-bytes 50% -t 2s"),
        sim::Outcome::Completed
    );
    let much = ended("usemem -n 2 200m");
    assert!(matches!(much, sim::Outcome::Oom { .. }), "{much:?}");
}
