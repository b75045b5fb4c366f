//! The costs of monitoring on the monitored machine.

mod common;

use common::{machine, run, spec, swap};
use sim::account::TaskClass;
use sim::spec::FsKind;
use sim::{Outcome, RunResult};

fn watched(monitors: bool, change: &[(&str, f64)]) -> RunResult {
    let mut m = machine(96);
    m.swap = Some(swap(256 << 20));
    let mut s = spec(m, FsKind::Ext4, "dd if=/dev/zero of=a bs=32k count=16000");
    s.monitors = monitors;
    s.params.set("monitor_memory", 16777216.0).unwrap();
    s.params.set("monitor_interval", 5e8).unwrap();
    s.params.set("monitor_sample", 0.0).unwrap();
    for (name, value) in change {
        s.params.set(name, *value).unwrap();
    }
    let r = run(&s);
    assert_eq!(r.outcome, Outcome::Completed);
    r
}

fn event(r: &RunResult, name: &str) -> u64 {
    r.counters[name]
}

/// Returns the CPU time of a class of tasks in nanoseconds.
fn cpu(r: &RunResult, class: TaskClass) -> u64 {
    let of_class = r.tasks.iter().find(|t| t.class == class);
    of_class.map_or(0, |t| t.outside.cpu + t.in_reclaim.cpu)
}

/// The writer pushes the samplers' memory out to swap between samples, and each sample swaps it in
/// again.
#[test]
fn samplers_swap() {
    let (off, on) = (watched(false, &[]), watched(true, &[]));
    assert_eq!(
        (event(&off, "pswpin"), cpu(&off, TaskClass::Monitor)),
        (0, 0)
    );
    assert!(event(&on, "pswpin") > 1000, "{}", event(&on, "pswpin"));
    assert!(event(&on, "pswpout") > event(&off, "pswpout"));
    assert!(cpu(&on, TaskClass::Monitor) > 0);
}

/// An event costs CPU time in the task that causes it, and in the monitor that reads it.
#[test]
fn events_cost_who_makes_them_and_who_reads_them() {
    let free = [("cost_trace_event", 0.0), ("cost_trace_read", 0.0)];
    let dear = [("cost_trace_event", 50_000.0), ("cost_trace_read", 0.0)];
    let read = [("cost_trace_event", 1.0), ("cost_trace_read", 200_000.0)];
    let [free, dear, read] = [&free[..], &dear, &read].map(|change| watched(true, change));
    assert!(cpu(&dear, TaskClass::Kswapd) > 2 * cpu(&free, TaskClass::Kswapd));
    assert!(cpu(&read, TaskClass::Monitor) > 2 * cpu(&free, TaskClass::Monitor));
}
