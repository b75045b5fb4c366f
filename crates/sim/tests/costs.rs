//! CPU costs that no other test covers.

mod common;

use common::{disk, machine, run, spec};
use sim::Outcome;
use sim::spec::{DiskKind, FsKind};

/// Returns how many nanoseconds longer a script takes with a cost raised by one microsecond.
fn longer(command: &str, cost: &str) -> f64 {
    let time = |more: f64| {
        let mut m = machine(64);
        m.disk = disk(DiskKind::Ssd);
        let mut s = spec(m, FsKind::Ext4, command);
        let value = s.params.get(cost).expect("a parameter") + more;
        s.params.set(cost, value).expect("in its range");
        let r = run(&s);
        assert_eq!(r.outcome, Outcome::Completed);
        r.metrics["elapsed"].value * 1e9
    };
    time(1000.0) - time(0.0)
}

/// Each cost is charged once for each occurrence of its operation; no script here waits for a disk.
#[test]
fn costs_are_paid_by_what_they_are_for() {
    let memory = "desktop -w 4M -p 4K -n 0 -f 0 -c 0us -i 1s -t 1ms";
    let shared = "mmap-strm -t 1 --stream 1 --mixed 0 --memory 4M";
    let files = "fs_mark -d marks -n 200 -s 0 -t 1 -S 0";
    for (command, cost, times) in [
        (
            "dd if=/dev/zero of=/dev/null bs=64K count=64",
            "cost_clear",
            1024.0,
        ),
        (memory, "cost_lru_delete", 1024.0),
        (memory, "cost_touch", 1025.0),
        (memory, "cost_mkwrite", 0.0),
        (shared, "cost_mkwrite", 1024.0),
        (files, "cost_exists", 200.0),
        (files, "cost_create", 201.0),
        (files, "cost_gettimeofday", 1402.0),
    ] {
        let ns = longer(command, cost);
        let off = (ns / 1000.0 - times).abs();
        assert!(
            off <= 3.0 + times * 0.01,
            "{cost} of {command}: {ns} ns, {times} times"
        );
    }
    // One dentry and one inode for each file, and the records of its pages.
    let made = longer(files, "cost_slab_make") / 1000.0;
    assert!((400.0..500.0).contains(&made), "{made} objects");
}

/// Opening and removing a file by its name takes `name_calls` system calls.
#[test]
fn names_take_calls() {
    let time = |calls: f64| {
        let mut m = machine(64);
        m.disk = disk(DiskKind::Ssd);
        let mut s = spec(m, FsKind::Ext4, "fs_mark -d marks -n 200 -s 0 -t 1 -S 0");
        s.params.set("name_calls", calls).expect("in its range");
        s.params.set("cost_syscall", 1000.0).expect("in its range");
        run(&s).metrics["elapsed"].value * 1e6
    };
    let us = time(3.0) - time(1.0);
    assert!((798.0..=804.0).contains(&us), "{us} us for 400 names");
}
