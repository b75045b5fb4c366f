//! Memory control groups in real guests: `LOWMARK_TEST_KERNEL` names a kernel of the user's cache;
//! without it the tests print a note and pass.

#[allow(dead_code, reason = "the module is shared by several test binaries")]
mod common;

use common::{command, kernel, spec};
use kernel::{Kernel, PATIENCE};
use sim::result::{Outcome, RunResult};
use sim::spec::{Group, GroupSettings, Groups, Limit};
use sim::{Control, RunSpec};

/// Returns a run of a command line with these groups; `whole` is the group of the workload.
fn grouped(line: &str, groups: &[(&str, GroupSettings)], whole: Option<&str>) -> RunSpec {
    let all = groups.iter().map(|(name, settings)| Group {
        name: (*name).to_owned(),
        settings: settings.clone(),
    });
    RunSpec {
        groups: Groups {
            all: all.collect(),
            of_workload: whole.map(str::to_owned),
        },
        sample_ns: 100_000_000,
        ..spec(command(line))
    }
}

fn run(spec: &RunSpec, kernel: &Kernel) -> RunResult {
    kernel::run(spec, kernel, PATIENCE, &Control::default()).0
}

fn at_most(bytes: u64) -> GroupSettings {
    GroupSettings {
        max: Some(Limit::Bytes(bytes)),
        ..GroupSettings::default()
    }
}

/// Returns a figure of a run; NaN if it has none.
fn figure(result: &RunResult, name: &str) -> f64 {
    result.metrics.get(name).map_or(f64::NAN, |m| m.value)
}

/// A program that needs more than its group may have is killed, the others go on, and the run's
/// figures say so.
#[test]
fn a_kill_in_a_group_is_a_result_and_not_the_end() {
    let Some(kernel) = kernel() else { return };
    let line = "cgexec -g web.worker burst -d 500ms -s 40M -n 2 & dd if=/dev/zero of=a bs=1M count=8; wait";
    let groups = [
        ("web", GroupSettings::default()),
        ("web.worker", at_most(16 << 20)),
    ];
    let result = run(&grouped(line, &groups, None), &kernel);
    assert_eq!(result.outcome, Outcome::Completed, "{:?}", result.notes);
    assert_eq!(figure(&result, "group.web.worker.oom_kill"), 1.0);
    assert!(figure(&result, "group.web.worker.first_kill") > 0.4);
    assert!(figure(&result, "group.web.worker.peak") <= 4096.0);
    // The kill counts for the group around it too, and dd was not in either.
    assert_eq!(figure(&result, "group.web.oom_kill"), 1.0);
    assert_eq!(figure(&result, "bytes"), f64::from(8 << 20));
    let killed =
        |note: &String| note.contains("the OOM killer ended burst of the group web.worker");
    assert!(result.notes.iter().any(killed), "{:?}", result.notes);
}

/// A group's own reclaim keeps a writer below the limit, and its levels are in the series.
#[test]
fn a_limit_is_kept_by_reclaim_in_the_group() {
    let Some(kernel) = kernel() else { return };
    let line = "dd if=/dev/zero of=a bs=1M count=64 conv=fsync";
    let result = run(
        &grouped(line, &[("web", at_most(32 << 20))], Some("web")),
        &kernel,
    );
    assert_eq!(result.outcome, Outcome::Completed, "{:?}", result.notes);
    assert!(figure(&result, "group.web.events_max") > 0.0);
    assert!(figure(&result, "group.web.pgsteal") > 4096.0);
    assert_eq!(figure(&result, "group.web.oom_kill"), 0.0);
    let columns = &result.series.columns;
    let current = columns.iter().find(|c| c.name == "group.web.current");
    let most = current.expect("a column").values.iter().copied();
    let most = most.filter(|v| v.is_finite()).fold(0.0, f64::max);
    assert!(most > 4096.0 && most <= 8192.0, "{most}");
}

/// A workload whose only process is killed ends the run, with the group in the reason.
#[test]
fn a_killed_workload_ends_out_of_memory() {
    let Some(kernel) = kernel() else { return };
    let line = "burst -d 500ms -s 40M -n 2";
    let result = run(
        &grouped(line, &[("web", at_most(16 << 20))], Some("web")),
        &kernel,
    );
    let Outcome::Oom { report } = &result.outcome else {
        panic!("{:?}", result.outcome)
    };
    assert!(report.contains("in its group `web`"), "{report}");
    assert_eq!(figure(&result, "group.web.oom_kill"), 1.0);
}

/// A run with groups gives the same bytes twice.
#[test]
fn runs_with_groups_are_the_same_twice() {
    let Some(kernel) = kernel() else { return };
    let line = "cgexec -g web dd if=/dev/zero of=a bs=1M count=40 & cgexec -g web dd if=/dev/zero of=b bs=1M count=40; wait";
    let spec = grouped(line, &[("web", at_most(24 << 20))], None);
    let (one, two) = (run(&spec, &kernel), run(&spec, &kernel));
    assert_eq!(one.digest, two.digest);
    assert_eq!(one.metrics, two.metrics);
}
