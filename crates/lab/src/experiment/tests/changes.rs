//! Tests of `[[at]]`: sysctls that are written in mid-run.

use super::*;

fn with(changes: &str) -> Result<Experiment, Diagnostic> {
    let text = format!("{EXPERIMENT}{changes}");
    parse_with(&text, MACHINE, &Overrides::default())
}

#[test]
fn changes_are_in_the_order_of_time_and_build_on_each_other() {
    let text = "\
[[at]]
time = \"30s\"
sysctl = { \"vm.dirty_bytes\" = \"8M\", \"fs.xfs.xfssyncd_centisecs\" = 100 }
[[at]]
time = \"500ms\"
sysctl = { dirty_ratio = 5, vm.swappiness = 0 }
[[at]]
time = \"2m\"
sysctl.\"vm.lowmem_reserve_ratio\" = [0, 256, 32]
";
    let e = with(text).unwrap();
    let changes = &e.cells[0].spec.changes;
    let told: Vec<_> = changes.iter().map(sim::spec::Change::text).collect();
    assert_eq!(
        told,
        [
            "at 0.5 s: vm.dirty_ratio = 5, vm.swappiness = 0",
            "at 30 s: vm.dirty_bytes = 8M, fs.xfs.xfssyncd_centisecs = 100",
            "at 120 s: vm.lowmem_reserve_ratio = 0 256 32",
        ]
    );
    let s = &changes[2].sysctl;
    assert_eq!(
        (s.dirty_ratio, s.dirty_bytes.0, s.swappiness),
        (0, 8 << 20, 0)
    );
    assert_eq!(
        (s.xfssyncd_centisecs, s.lowmem_reserve_ratio),
        (Some(100), [0, 256, 32])
    );
    assert!(e.cells.iter().all(|c| &c.spec.changes == changes));
    assert!(good(EXPERIMENT, &[]).cells[0].spec.changes.is_empty());
}

/// Changes must start from the sysctls of the policy.
#[test]
fn changes_begin_with_the_policy_s_sysctls() {
    let text = "[policies.limits.sysctl]\n\"vm.swappiness\" = 10\n[[at]]\ntime = \"1s\"\nsysctl.vm.dirty_ratio = 5\n";
    let e = with(text).unwrap();
    let swappiness = [0, 1].map(|i| e.cells[i].spec.changes[0].sysctl.swappiness);
    assert_eq!(swappiness, [60, 10]);
}

/// Times and values may be lists, which make axes, and may be set from the command line.
#[test]
fn changes_may_vary() {
    let text = "[[at]]\ntime = [\"1s\", \"2s\"]\nsysctl = { \"vm.dirty_ratio\" = [5, 10] }\n";
    let e = with(text).unwrap();
    assert_eq!(
        e.axes,
        [
            "at.0.time",
            "at.0.sysctl.dirty_ratio",
            "filesystem",
            "policy"
        ]
    );
    assert_eq!(e.cells.len(), 16);
    let last = &e.cells[15].spec.changes[0];
    assert_eq!((last.at_ns, last.sysctl.dirty_ratio), (2_000_000_000, 10));
}

/// Whole names are accepted in all tables of sysctls, and overrides work for any spelling.
#[test]
fn machines_take_whole_names() {
    let machine = MACHINE.replace("[disk]", "[sysctl]\nvm.dirty_ratio = 30\n[disk]");
    let read = |set: &[&str]| {
        let overrides = Overrides {
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            ..Overrides::default()
        };
        let e = parse_with(EXPERIMENT, &machine, &overrides).unwrap();
        e.cells
            .iter()
            .map(|c| c.spec.machine.sysctl.dirty_ratio)
            .collect::<Vec<_>>()
    };
    assert_eq!(read(&[])[0], 30);
    assert_eq!(read(&["machine.sysctl.dirty_ratio=7"])[0], 7);
    assert_eq!(read(&["machine.sysctl.\"vm.dirty_ratio\"=8"])[0], 8);
    let axis = read(&["machine.sysctl.vm.dirty_ratio=[9, 10]"]);
    assert_eq!((axis[0], axis[4]), (9, 10));
}

/// Each mistake is one sentence at its place.
#[test]
fn wrong_changes() {
    let one =
        |time: &str, sysctl: &str| format!("[[at]]\ntime = {time}\nsysctl = {{ {sysctl} }}\n");
    let mut all = String::new();
    for (what, text) in [
        ("no table", "[at]\ntime = \"1s\"\n".to_owned()),
        (
            "unknown key",
            "[[at]]\ntime = \"1s\"\nsysctls = { }\n".into(),
        ),
        (
            "no time",
            "[[at]]\nsysctl = { \"vm.dirty_ratio\" = 5 }\n".into(),
        ),
        ("no sysctl", "[[at]]\ntime = \"1s\"\n".into()),
        ("nothing written", one("\"1s\"", "")),
        ("a number for a time", one("30", "\"vm.dirty_ratio\" = 5")),
        (
            "a time without its unit",
            one("\"30\"", "\"vm.dirty_ratio\" = 5"),
        ),
        (
            "a time with another unit",
            one("\"1h\"", "\"vm.dirty_ratio\" = 5"),
        ),
        (
            "a time that is not reached",
            one("\"1441m\"", "\"vm.dirty_ratio\" = 5"),
        ),
        ("unknown sysctl", one("\"1s\"", "\"vm.dirty_ratoi\" = 5")),
        (
            "sysctl of another folder",
            one("\"1s\"", "\"kernel.shmmax\" = 5"),
        ),
        (
            "twice",
            one("\"1s\"", "\"vm.dirty_ratio\" = 5, dirty_ratio = 6"),
        ),
        ("out of range", one("\"1s\"", "\"vm.dirty_ratio\" = 101")),
        (
            "of wrong type",
            one("\"1s\"", "\"vm.dirty_ratio\" = \"5%\""),
        ),
        ("no bytes", one("\"1s\"", "\"vm.dirty_bytes\" = 0")),
        (
            "more than half of memory",
            one("\"1s\"", "\"vm.min_free_kbytes\" = 1000000"),
        ),
        (
            "watermarks that do not ascend",
            one("\"1s\"", "\"vm.wmark_high_kbytes\" = 1"),
        ),
        (
            "not at boot",
            one("\"1s\"", "\"vm.watermark_scale_factor\" = 100"),
        ),
        (
            "too often a log",
            one("\"1s\"", "\"fs.xfs.xfssyncd_centisecs\" = 99"),
        ),
    ] {
        let Err(e) = with(&text) else {
            panic!("{what}: accepted")
        };
        let place = e
            .place
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: no place"));
        assert_eq!(place.source.name(), "try.toml", "{what}");
        assert!(e.accepted.contains("accepted: "), "{what}: {}", e.accepted);
        all += &format!("## {what}: {place}\n{}\n{}\n", e.message, e.accepted);
    }
    insta::assert_snapshot!(all);
}

/// Settings of real machines are accepted as they are: those without effect or model become notes
/// of the run. A sysctl that the policy's kernel lacks is an error.
#[test]
fn sysctls_that_do_nothing_are_said() {
    let read = |policy: &str, sysctl: &str, at: &str| {
        let text = format!(
            "name = 'x'\niterations = 1\nfilesystem = 'ext4'\npolicy = '{policy}'\n\
             machine = {{ base = '512M', sysctl = {{ {sysctl} }} }}\n\
             [workload]\ncommand = 'sleep 5'\n[[at]]\ntime = '1s'\nsysctl = {{ {at} }}\n"
        );
        let files = files_near(Path::new("x.toml"));
        let source = Source::new("x.toml", text);
        parse(&source, &files, &Overrides::default()).map_err(|e| e.message)
    };
    let e = read(
        "linux-6.12",
        "swappiness = 180, max_map_count = 1000000, laptop_mode = 0",
        "'vm.laptop_mode' = 5, watermark_boost_factor = 0, page-cluster = 0",
    )
    .unwrap();
    let notes = sysctl_notes(&e);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("vm.max_map_count = 1000000 has no effect here: "));
    assert!(notes[1].starts_with("vm.laptop_mode = 5 is not modelled, "));
    assert_eq!(e.cells[0].spec.workload.notes, notes);
    let change = &e.cells[0].spec.changes[0].sysctl;
    assert_eq!(
        (change.page_cluster, change.watermark_boost_factor),
        (0, Some(0))
    );
    for (policy, sysctl, at, why) in [
        (
            "linux-4.9",
            "swappiness = 101",
            "dirty_ratio = 5",
            "machine.sysctl.swappiness",
        ),
        (
            "linux-4.9",
            "",
            "swappiness = 200",
            "at.0.sysctl.swappiness",
        ),
        ("linux-4.9", "", "watermark_boost_factor = 0", "at boot"),
        (
            "linux-6.12",
            "swappiness = 201",
            "dirty_ratio = 5",
            "out of range",
        ),
        (
            "linux-6.12",
            "percpu_pagelist_high_fraction = 7",
            "dirty_ratio = 5",
            "out of range",
        ),
        (
            "linux-3.16",
            "percpu_pagelist_high_fraction = 8",
            "dirty_ratio = 5",
            "5.14",
        ),
    ] {
        let message = read(policy, sysctl, at).map(|_| ()).unwrap_err();
        assert!(message.contains(why), "{policy} {sysctl} {at}: {message}");
    }
}
