//! Tasks bound to CPUs, and the effect on the nodes that their memory comes from.

mod common;

use common::{machine, run, spec};
use mm::ZoneType;
use sim::spec::{FsKind, Machine, NodeSpec, Size, ZoneSpec};
use sim::{Outcome, RunResult};

/// Two nodes of 64 MiB, each with one of four CPUs out of two.
fn two_nodes() -> Machine {
    let mut m = machine(80);
    m.cpus = 4;
    let zone = |zone, mib: u64| ZoneSpec {
        zone,
        size: Size(mib << 20),
    };
    m.nodes = [
        (
            vec![zone(ZoneType::Dma, 16), zone(ZoneType::Dma32, 64)],
            vec![0, 1],
        ),
        (vec![zone(ZoneType::Dma32, 64)], vec![2, 3]),
    ]
    .map(|(zones, cpus)| NodeSpec { zones, cpus })
    .into();
    m
}

fn ran(command: &str) -> RunResult {
    let mut s = spec(two_nodes(), FsKind::Ext4, command);
    s.sample_ns = 200_000;
    s.check_ns = 20_000_000;
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed, "{command}");
    r
}

/// Pages of page cache that a run added to each node.
fn cached(r: &RunResult) -> [f64; 2] {
    ["node0/DMA32", "node1/DMA32"].map(|scope| {
        let column = r
            .series
            .columns
            .iter()
            .find(|c| c.name == "inactive_file" && c.scope == scope);
        let values = &column.unwrap_or_else(|| panic!("{scope}")).values;
        values.last().unwrap() - values[0]
    })
}

const DD: &str = "dd if=/dev/zero of=disk/x bs=64k count=320";

/// A file of 20 MiB is cached on the node of the CPU that writes it.
#[test]
fn memory_is_local_to_the_cpus_that_a_task_is_bound_to() {
    for (command, node) in [
        (format!("taskset -c 0-1 {DD}"), 0),
        (format!("taskset -c 3 {DD}"), 1),
        (format!("numactl --cpunodebind=1 {DD}"), 1),
    ] {
        let pages = cached(&ran(&command));
        assert!(
            pages[node] > 4500.0 && pages[1 - node] < 200.0,
            "{command}: {pages:?}"
        );
    }
}

/// Processes forked by a bound program are bound too; the shell's next command is not.
#[test]
fn children_inherit_and_the_shell_does_not_stay_bound() {
    let fs_mark = "fs_mark -da -db -D 2 -N 5 -n 5 -L 1 -t 1 -S0 -s 2097152";
    let pages = cached(&ran(&format!("taskset -c 2,3 {fs_mark}")));
    assert!(pages[1] > 4500.0 && pages[0] < 200.0, "{pages:?}");
    let pages = cached(&ran(&format!("taskset -c 2 sleep 0.1; taskset -c 0 {DD}")));
    assert!(pages[0] > 4500.0, "{pages:?}");
}

/// Four processes on one CPU take four times as long as on four.
#[test]
fn bound_tasks_share_their_cpu() {
    let busy = |list: &str| {
        let dd = "dd if=/dev/zero of=/dev/null bs=1M count=2000";
        let all: Vec<String> = (0..4)
            .map(|_| format!("taskset -c {list} {dd} &"))
            .collect();
        ran(&format!("{} wait", all.join(" "))).metrics["elapsed"].value
    };
    let (one, four) = (busy("1"), busy("0-3"));
    assert!((3.5..4.5).contains(&(one / four)), "{one} s, {four} s");
}
