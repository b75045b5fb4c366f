//! Captured machines: checks of their figures by the engine's formulas, and the files that describe
//! them.
//!
//! `lazy-vm` is a real virtual machine of Linux 6.18 whose zones get their memory when it is
//! needed; `numa` (two nodes, 6.1) and `small-vm` (512 MiB, 5.4, dirty limits in bytes) are made by
//! hand, with figures computed by the kernel's formulas in another program.

use machine::verify::{self, Origin};
use machine::{Captured, Root, describe};
use std::path::PathBuf;

const CAPTURES: [&str; 3] = ["lazy-vm", "numa", "small-vm"];

fn root(name: &str) -> Root {
    let tests: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "captures", name]
        .iter()
        .collect();
    Root::at(tests)
}

fn captured(name: &str) -> Captured {
    Captured::read(&root(name)).unwrap()
}

#[test]
fn every_figure_is_the_kernel_s() {
    for name in CAPTURES {
        let report = verify::verify(&captured(name)).unwrap();
        let wrong: Vec<_> = report.rows.iter().filter(|r| !r.is_equal()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        assert!(report.rows.len() >= 9, "{name}: {}", report.rows.len());
    }
}

#[test]
fn the_minimum_has_an_origin() {
    let origin = |machine: &Captured| verify::verify(machine).unwrap().min_free.origin;
    for name in CAPTURES {
        assert_eq!(origin(&captured(name)), Origin::Khugepaged, "{name}");
    }
    let mut small = captured("small-vm");
    let report = verify::verify(&small).unwrap();
    let formula = report.min_free.formula;
    assert_eq!(formula, 2815);
    // A twentieth of memory is less than the value that khugepaged would set.
    assert!(report.min_free.raised.unwrap() < 2 * 512 * 11 * 4);
    small.settings.min_free_kbytes = formula;
    assert_eq!(
        origin(&small),
        Origin::Administrator,
        "khugepaged would have raised it"
    );
    small.huge_pages = false;
    assert_eq!(origin(&small), Origin::Formula);
    // At boot the kernel had not yet freed all of its initial memory.
    small.settings.min_free_kbytes = formula - 20;
    assert_eq!(origin(&small), Origin::Formula);
    small.settings.min_free_kbytes = 2 * formula;
    assert_eq!(origin(&small), Origin::Administrator);
}

#[test]
fn a_difference_is_shown_and_explained() {
    let mut machine = captured("small-vm");
    let normal = machine
        .zones
        .iter_mut()
        .find(|z| z.name == "DMA32")
        .unwrap();
    normal.managed += 500;
    let report = verify::verify(&machine).unwrap();
    assert!(!report.is_equal());
    assert!(
        report
            .notes
            .iter()
            .any(|n| n.contains("another number of pages"))
    );
    machine.settings.watermark_scale_factor = 900;
    let report = verify::verify(&machine).unwrap();
    assert!(report.notes.iter().any(|n| n.contains("another formula")));
}

#[test]
fn what_moved_between_two_looks_is_no_difference() {
    let machine = captured("small-vm");
    let before = verify::verify(&machine).unwrap();
    let mut later = machine.clone();
    *later.vmstat.get_mut("nr_dirty_threshold").unwrap() += 300;
    let after = verify::verify(&later).unwrap();
    assert!(!after.is_equal());
    assert!(after.since(&before, 2).is_equal());
    // Watermarks do not change by themselves.
    later.zones[0].marks[0] += 1;
    let after = verify::verify(&later).unwrap();
    assert!(!after.since(&before, 2).is_equal());
}

/// Older kernels list populated zones only; ratios and reserves are still per zone type.
#[test]
fn zones_that_are_not_listed_are_counted() {
    for name in CAPTURES {
        let whole = captured(name);
        let mut sparse = whole.clone();
        sparse.zones.retain(|z| z.managed > 0);
        assert!(sparse.zones.len() < whole.zones.len());
        assert_eq!(
            verify::verify(&sparse).unwrap(),
            verify::verify(&whole).unwrap(),
            "{name}"
        );
        assert_eq!(verify::reserve_ratios(&sparse), [256, 256, 32]);
    }
}

#[test]
fn descriptions_are_what_they_say() {
    for name in CAPTURES {
        let captured = captured(name);
        let options = describe::Options {
            name: Some(name),
            disk: describe::likely_disk(&captured),
            fit: None,
            ..describe::Options::default()
        };
        let described = describe::describe(&captured, &options).unwrap();
        let read: sim::spec::Machine = toml::from_str(&described.text).unwrap();
        assert_eq!(read, described.machine, "{name}");
        let long = described
            .text
            .lines()
            .find(|l| l.starts_with('#') && l.chars().count() > 100);
        assert_eq!(long, None, "{name}");
        insta::assert_snapshot!(name, described.text);
    }
}

/// The engine built from a machine file has the captured kernel's watermarks and reserves.
#[test]
fn an_engine_built_from_the_file_has_the_kernel_s_marks() {
    for name in ["lazy-vm", "small-vm"] {
        let captured = captured(name);
        let described = describe::describe(&captured, &describe::Options::default()).unwrap();
        let config = sim::run::engine_config(&described.machine);
        let marks = mm::memory::watermark::MarkFormula::of(&config.sysctl)
            .marks(config.sysctl.min_free_kbytes.unwrap(), &config.zones);
        let kernel: Vec<[u64; 3]> = captured.populated().map(|z| z.marks).collect();
        assert_eq!(marks, kernel, "{name}");
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Copies a tree with changed contents of some files; `None` removes a file.
fn changed(name: &str, files: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    copy(&root(name).path(""), tree.path());
    for (file, text) in files {
        let path = tree.path().join(file);
        match text {
            Some(text) => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            None => std::fs::remove_file(path).unwrap(),
        }
    }
    tree
}

fn described(tree: &tempfile::TempDir) -> describe::Described {
    let captured = Captured::read(&Root::at(tree.path())).unwrap();
    let options = describe::Options {
        disk: describe::likely_disk(&captured),
        ..describe::Options::default()
    };
    let described = describe::describe(&captured, &options).unwrap();
    let read: sim::spec::Machine = toml::from_str(&described.text).unwrap();
    assert_eq!(read, described.machine);
    described
}

const ONLINE: &str = "sys/devices/system/cpu/online";
const NODES: [&str; 3] = [
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node1/cpulist",
    "sys/devices/system/node/node2/cpulist",
];

#[test]
fn nodes_have_their_cpus() {
    let of = |files: &[(&str, Option<&str>)]| {
        let described = described(&changed("numa", files));
        let nodes = &described.machine.nodes;
        let cpus: Vec<Vec<u32>> = nodes.iter().map(|n| n.cpus.clone()).collect();
        let engine = sim::run::engine_config(&described.machine).cpu_nodes;
        (cpus, engine, described)
    };
    // Numbers with gaps, because some CPUs are offline.
    let (cpus, engine, _) = of(&[
        (ONLINE, Some("0-3,8-11\n")),
        (NODES[0], Some("0-1,8-9\n")),
        (NODES[1], Some("2-3,10-11\n")),
    ]);
    assert_eq!(cpus, [[0, 1, 4, 5], [2, 3, 6, 7]]);
    assert_eq!(engine, [0, 0, 1, 1, 0, 0, 1, 1]);
    // More CPUs than the engine supports: each node keeps its share.
    let (cpus, engine, _) = of(&[(NODES[0], Some("0-95\n")), (NODES[1], Some("96-127\n"))]);
    assert_eq!((cpus[0].len(), cpus[1].len(), engine.len()), (48, 16, 64));
    // A node with memory only.
    let (cpus, engine, said) = of(&[
        (ONLINE, Some("0-1\n")),
        (NODES[0], Some("0-1\n")),
        (NODES[1], Some("\n")),
    ]);
    assert_eq!(cpus, [vec![0, 1], vec![]]);
    assert_eq!(engine, [0, 0]);
    assert!(said.text.contains("# Node 1, memory only"), "{}", said.text);
    // Nodes with CPUs only.
    let (cpus, _, said) = of(&[
        (ONLINE, Some("0-3\n")),
        (NODES[0], Some("\n")),
        (NODES[1], Some("2\n")),
        (NODES[2], Some("0-1,3\n")),
    ]);
    assert_eq!(cpus, [vec![0, 1, 3], vec![2]]);
    let note = said.notes.iter().find(|n| n.contains("no node"));
    assert!(note.unwrap().starts_with("3 CPUs"), "{:?}", said.notes);
    // The CPUs of nodes are not visible.
    let (cpus, _, said) = of(&[(NODES[0], None), (NODES[1], None)]);
    assert_eq!(cpus, [[0; 0]; 2]);
    let unseen = |n: &String| n.contains("CPUs of each node are unknown");
    assert!(said.notes.iter().any(unseen), "{:?}", said.notes);
}

#[test]
fn schedulers_become_the_engine_s() {
    use sim::spec::Scheduler::{self, Cfq, Deadline};
    for (text, scheduler, represented) in [
        ("noop [deadline] cfq\n", Deadline, true),
        ("[mq-deadline] kyber bfq none\n", Deadline, true),
        ("noop deadline [cfq]\n", Cfq, true),
        ("mq-deadline kyber [bfq] none\n", Cfq, true),
        ("[none] mq-deadline\n", Scheduler::None, true),
        ("[noop] deadline cfq\n", Deadline, false),
        ("mq-deadline [kyber]\n", Deadline, false),
    ] {
        let said = described(&changed(
            "lazy-vm",
            &[("sys/block/vda/queue/scheduler", Some(text))],
        ));
        assert_eq!(said.machine.disk.scheduler(), scheduler, "{text}");
        let noted = said.notes.iter().any(|n| n.contains("I/O scheduler"));
        assert_eq!(noted, !represented, "{text}: {:?}", said.notes);
    }
}

/// The tree that `--save` writes contains everything that a machine is captured from.
#[test]
fn a_saved_tree_is_the_same_machine() {
    for name in CAPTURES {
        let (from, to) = (root(name), tempfile::tempdir().unwrap());
        let machine = Captured::read(&from).unwrap();
        from.save(to.path()).unwrap();
        assert_eq!(Captured::read(&Root::at(to.path())).unwrap(), machine);
        let nodes = to.path().join("sys/devices/system/node").is_dir();
        assert_eq!(nodes, name != "small-vm", "{name}");
    }
}

/// The running machine, if it is a Linux with /proc. The dirty limits change, so several looks are
/// taken.
#[test]
fn this_machine_s_figures_are_its_kernel_s() {
    if !PathBuf::from("/proc/zoneinfo").is_file() {
        println!("skipped: no /proc/zoneinfo here");
        return;
    }
    let look = || Captured::read(&Root::live()).map(|m| (verify::verify(&m), m));
    let mut unequal = Vec::new();
    for _ in 0..100 {
        let (report, machine) = match look() {
            Ok((Ok(report), machine)) => (report, machine),
            Ok((Err(e), _)) => return println!("skipped: {e}"),
            Err(e) => return println!("skipped: {e}"),
        };
        unequal = report
            .rows
            .iter()
            .filter(|r| !r.is_equal())
            .cloned()
            .collect();
        if unequal.is_empty() {
            return;
        }
        if unequal.iter().any(|r| r.of != "machine") {
            let sizes_changed = report
                .notes
                .iter()
                .any(|n| n.contains("another number of pages"));
            assert!(sizes_changed, "Linux {}: {unequal:#?}", machine.release);
            return println!(
                "skipped: the zones' sizes changed since boot: {:?}",
                report.notes
            );
        }
    }
    // On a machine without a quiet moment the figures are only required to be close.
    for row in unequal {
        let away = row.computed.abs_diff(row.actual);
        assert!(away * 100 <= row.actual, "{row:?}");
    }
}

mod damaged {
    use super::*;
    use proptest::prelude::*;

    const FILES: [&str; 10] = [
        "proc/zoneinfo",
        "proc/meminfo",
        "proc/vmstat",
        "proc/swaps",
        "proc/self/mountinfo",
        "proc/sys/vm/lowmem_reserve_ratio",
        "sys/devices/system/cpu/online",
        "sys/devices/system/node/node1/cpulist",
        "sys/block/nvme0n1/queue/scheduler",
        "sys/block/sda/queue/nr_requests",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Arbitrary contents of a file in a tree give a machine or an error that names the file.
        #[test]
        fn trees_do_not_panic(
            file in proptest::sample::select(&FILES[..]), at in 0.0f64..1.0, len in 0usize..60,
            put in "[-0-9a-z :,()\\n]{0,10}|99999999999|18446744073709551615|68719476736",
        ) {
            let tree = tempfile::tempdir().unwrap();
            copy(&root("numa").path(""), tree.path());
            let path = tree.path().join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let at = (at * text.len() as f64) as usize;
            let end = (at + len).min(text.len());
            std::fs::write(&path, format!("{}{put}{}", &text[..at], &text[end..])).unwrap();
            match Captured::read(&Root::at(tree.path())) {
                Ok(machine) => {
                    let _ = verify::verify(&machine);
                    let options = describe::Options {
                        disk: describe::likely_disk(&machine),
                        ..describe::Options::default()
                    };
                    if let Ok(described) = describe::describe(&machine, &options) {
                        let read: sim::spec::Machine = toml::from_str(&described.text).unwrap();
                        prop_assert_eq!(read, described.machine);
                    }
                }
                Err(e) => prop_assert!(e.path.ends_with(file), "{e}"),
            }
        }
    }
}
