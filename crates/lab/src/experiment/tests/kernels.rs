//! Tests of policies that are real kernels.

use super::{EXPERIMENT, MACHINE, parse_with, show};
use crate::experiment::Overrides;
use crate::model::Experiment;
use std::collections::BTreeMap;

/// Returns a machine that a guest can be.
fn machine() -> String {
    MACHINE
        .replace("cpus = 2", "cpus = 1")
        .replace("{ zone = \"DMA\", size = \"15M\" }, ", "")
}

fn with(policy: &str, tables: &str) -> Result<Experiment, String> {
    let text = EXPERIMENT
        .replace(
            "policy = [\"vanilla\", \"limits\"]",
            &format!("policy = {policy}"),
        )
        .replace("filesystem = [\"xfs\", \"ext4\"]", "filesystem = \"ext4\"")
        + tables;
    parse_with(&text, &machine(), &Overrides::default()).map_err(|e| show(&e))
}

/// Returns each cell's policy, and its kernel in a line.
fn cells(policy: &str, tables: &str) -> Vec<String> {
    let e = with(policy, tables).unwrap_or_else(|e| panic!("{e}"));
    let line = |c: &crate::model::Cell| {
        assert_eq!(c.policy, c.spec.policy.name);
        let Some(k) = &c.kernel else {
            return format!("{}: the engine", c.policy);
        };
        let sysctl: Vec<String> = k.sysctl.iter().map(|(k, v)| format!(" {k}={v}")).collect();
        format!(
            "{}: {} {:?} {}{}",
            c.policy,
            k.build,
            k.lru_gen,
            k.costs,
            sysctl.concat()
        )
    };
    e.cells.iter().map(line).collect()
}

#[test]
fn models_and_kernels_stand_in_one_comparison() {
    let tables = "[policies.mine]\nkernel = \"6.12-mine\"\nlru_gen = true\n\
                  sysctl = { \"vm.swappiness\" = 150, 'vm/page-cluster' = \"0\" }\n";
    assert_eq!(
        cells(
            "[\"kernel:6.12\", \"mine\", \"linux-3.1\", \"limits\"]",
            tables
        ),
        [
            "kernel:6.12: 6.12 None true",
            "mine: 6.12-mine Some(true) true vm.page-cluster=0 vm.swappiness=150",
            "linux-3.1: the engine",
            "limits: the engine",
        ]
    );
    let e = with("[\"kernel:6.12\", \"linux-3.1\"]", "").unwrap();
    assert!(e.cells[0].baseline && !e.cells[1].baseline);
    assert_eq!(e.axes, ["policy"]);
    assert_eq!(e.kernels().len(), 1);
    // The machine keeps the settings of its file, without the engine's formulas.
    let sysctl = &e.cells[0].spec.machine.sysctl;
    assert_eq!(sysctl, &mm::sysctl::Sysctl::KERNEL);
}

#[test]
fn lists_in_a_kernels_table_are_policies() {
    let tables = "[policies.mine]\nkernel = [\"6.12\", \"6.1\"]\nlru_gen = [false, true]\n\
                  sysctl.dirty_bytes = \"64M\"\n";
    let all = cells("\"mine\"", tables);
    assert_eq!(all.len(), 4);
    assert_eq!(
        all[1],
        "mine[kernel=6.12,lru_gen=true]: 6.12 Some(true) true vm.dirty_bytes=67108864"
    );
}

#[test]
fn a_kernels_policy_may_be_a_base() {
    let tables = "[policies.mine]\nkernel = \"6.12\"\ncosts = false\nsysctl = { swappiness = 10, dirty_ratio = 5 }\n\
                  [policies.more]\nbase = \"mine\"\nlru_gen = true\nsysctl.swappiness = 20\n\
                  [policies.most]\nbase = \"more\"\ncosts = true\n\
                  [policies.bare]\nbase = \"kernel:6.1\"\nlru_gen = false\n";
    assert_eq!(
        cells("[\"more\", \"most\", \"bare\"]", tables),
        [
            "more: 6.12 Some(true) false vm.dirty_ratio=5 vm.swappiness=20",
            "most: 6.12 Some(true) true vm.dirty_ratio=5 vm.swappiness=20",
            "bare: 6.1 Some(false) true",
        ]
    );
}

#[test]
fn what_is_wrong_is_one_error_each() {
    let mine = |table: &str| format!("[policies.mine]\n{table}\n");
    let wrong: BTreeMap<&str, (&str, String)> = [
        ("a bare version", ("\"6.12\"", String::new())),
        ("a bare release", ("\"linux-6.18\"", String::new())),
        ("no build", ("\"kernel:\"", String::new())),
        ("a path", ("\"kernel:../x\"", String::new())),
        (
            "base and kernel",
            ("\"mine\"", mine("base = \"linux-3.1\"\nkernel = \"6.12\"")),
        ),
        ("neither", ("\"mine\"", mine("lru_gen = true"))),
        (
            "a switch of the engine",
            (
                "\"mine\"",
                mine("kernel = \"6.12\"\ndirty_limits = \"per-zone\""),
            ),
        ),
        (
            "a switch over a kernel's base",
            (
                "\"mine\"",
                mine("base = \"kernel:6.12\"\nauto = { cap = 2 }"),
            ),
        ),
        (
            "a kernel's key over the engine",
            ("\"mine\"", mine("base = \"linux-3.1\"\nlru_gen = true")),
        ),
        (
            "a table with a kernel's name",
            (
                "\"linux-3.1\"",
                "[policies.\"kernel:mine\"]\nkernel = \"6.12\"\n".to_owned(),
            ),
        ),
    ]
    .into();
    let mut all = String::new();
    for (what, (policy, tables)) in wrong {
        let error = with(policy, &tables).expect_err(what);
        all += &format!("{what}\n{error}\n");
    }
    insta::assert_snapshot!(all);
}
