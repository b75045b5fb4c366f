use super::super::{Overrides, parse};
use super::{MACHINE_RULES, QEMU_RULES, RULES, UML_RULES};
use crate::diagnostic::{Diagnostic, Source};
use crate::model::Experiment;
use std::collections::BTreeSet;

const MACHINE: &str = "\
name = \"small\"
cpus = 1
[[node]]
zones = [{ zone = \"Normal\", size = \"512M\" }]
[boot]
kernel = \"4M\"
[swap]
size = \"64M\"
disk = { kind = \"disk\", capacity = \"1G\" }
[disk]
kind = \"ssd\"
capacity = \"1G\"
params = { ssd_bandwidth = 100 }
[sysctl]
dirty_ratio = 30
";

const EXPERIMENT: &str = "\
name = \"try\"
policy = [\"linux-3.1\", \"kernel:6.12\"]
filesystem = [\"xfs\", \"ext4\", \"btrfs\"]
machine = \"small.toml\"
[workload]
command = \"dd if=/dev/zero of=x bs=32k count=16\"
[params]
cost_copy = 400
nr_requests = 64
disk_fail_timeout = 1e9
[[at]]
time = \"1s\"
sysctl = { \"vm.dirty_ratio\" = 5, \"vm.watermark_scale_factor\" = 20 }
";

fn parse_with(
    experiment: &str,
    machine: &str,
    overrides: &Overrides,
) -> Result<Experiment, Diagnostic> {
    let file = |name: &str| Ok((name.to_owned(), machine.to_owned()));
    parse(&Source::new("try.toml", experiment), &file, overrides)
}

fn said(result: Result<Experiment, Diagnostic>) -> String {
    match result {
        Ok(_) => "nothing".to_owned(),
        Err(e) => match &e.place {
            Some(place) => format!("{place} {}", e.message),
            None => e.message,
        },
    }
}

/// The rule, the text of the machine's or the experiment's file that is replaced, its replacement,
/// and the error.
const BROKEN: &[(&str, &str, &str, &str)] = &[
    (
        "one CPU",
        "cpus = 1",
        "cpus = [1, 2]",
        "small.toml:2:12 `machine.cpus`: 2 CPUs",
    ),
    (
        "one node",
        "[boot]",
        "[[node]]\nzones = [{ zone = \"Normal\", size = \"64M\" }]\n[boot]",
        "small.toml:5:1 `machine.node`: 2 nodes",
    ),
    (
        "Normal and Movable",
        "zones = [{",
        "zones = [{ zone = \"DMA32\", size = \"64M\" }, {",
        "small.toml:4:19 `machine.node.0.zones.0.zone`: a zone DMA32",
    ),
    (
        "no DMA zone at boot",
        "kernel = \"4M\"",
        "dma = \"1M\"",
        "small.toml:6:7 `machine.boot.dma`: memory of the zone DMA",
    ),
    (
        "no inodes at boot",
        "kernel = \"4M\"",
        "inodes = 100",
        "small.toml:6:10 `machine.boot.inodes`: inodes in memory at boot",
    ),
    (
        "costs alone of the machine's parameters",
        "cpus = 1",
        "cpus = 1\nparams = { cost_fault = 800, sched_latency = 6e6 }",
        "small.toml:3:46 `machine.params.sched_latency`: a key of the model",
    ),
    (
        "no CFQ",
        "kind = \"ssd\"",
        "kind = \"ssd\"\nscheduler = \"cfq\"",
        "small.toml:12:13 `machine.disk.scheduler`: CFQ",
    ),
    (
        "no CFQ",
        "{ kind = \"disk\"",
        "{ scheduler = \"cfq\", kind = \"disk\"",
        "small.toml:9:22 `machine.swap.disk.scheduler`: CFQ",
    ),
    (
        "filesystems of the machine",
        "[disk]",
        "[second]\nmount = \"ntfs\"\nfilesystem = \"fuse-ntfs\"\ndisk = { kind = \"ssd\", capacity = \"1G\" }\n\
         [disk]",
        "small.toml:12:14 `machine.second.filesystem`: fuse-ntfs is served",
    ),
    (
        "filesystems of the machine",
        "[disk]",
        "[[disk]]\nmount = \"/ntfs\"\nkind = \"ssd\"\ncapacity = \"1G\"\nfilesystem = \"fuse-ntfs\"\n[[disk]]",
        "small.toml:14:14 `machine.disk.0.filesystem`: fuse-ntfs is served",
    ),
    (
        "filesystems of the machine",
        "[disk]",
        "[second]\nmount = \"stick\"\nfilesystem = \"exfat\"\ndisk = { kind = \"ssd\", capacity = \"1G\" }\n\
         [disk]",
        "small.toml:12:14 `machine.second.filesystem`: no image of exfat is made",
    ),
    (
        "sysctls of a kernel",
        "dirty_ratio = 30",
        "wmark_low_kbytes = 4000",
        "small.toml:15:1 `machine.sysctl.wmark_low_kbytes`: no kernel has",
    ),
    (
        "filesystems",
        "\"btrfs\"",
        "\"fuse-ntfs\"",
        "try.toml:3:30 `filesystem`: fuse-ntfs is served",
    ),
    (
        "filesystems",
        "\"btrfs\"",
        "\"vfat\"",
        "try.toml:3:30 `filesystem`: no image of vfat is made",
    ),
    (
        "no membind",
        "[workload]",
        "[workload]\nmembind = 0",
        "try.toml:6:11 `workload.membind`: programs of a kernel's guest",
    ),
    (
        "no monitors",
        "[workload]",
        "monitors = [false, true]\n[workload]",
        "try.toml:5:20 `monitors`: a model of a test harness",
    ),
    (
        "parameters of disks and costs",
        "nr_requests = 64",
        "read_ahead_on_demand = 1",
        "try.toml:9:1 `params.read_ahead_on_demand`: a parameter of the engine's model",
    ),
    (
        "the window of btrfs as it is",
        "nr_requests = 64",
        "read_ahead = 64",
        "try.toml:9:1 `params.read_ahead`: btrfs has a read-ahead window of its own",
    ),
    (
        "sysctls in mid-run",
        "\"vm.dirty_ratio\" = 5",
        "\"vm.wmark_high_kbytes\" = 9000",
        "try.toml:13:12 `at.0.sysctl.wmark_high_kbytes`: no kernel has",
    ),
];

#[test]
fn every_rule_is_told_at_its_place_and_only_beside_a_kernel() {
    let none = Overrides::default();
    let uml = on("uml");
    let mut tried = BTreeSet::from(["no page tracker", "no speed of CPUs"]);
    for &(rule, from, to, complaint) in BROKEN {
        tried.insert(rule);
        let of = |text: &str| text.replacen(from, to, 1);
        assert!(
            MACHINE.contains(from) || EXPERIMENT.contains(from),
            "{rule}"
        );
        let wrong = said(parse_with(&of(EXPERIMENT), &of(MACHINE), &uml));
        assert!(wrong.starts_with(complaint), "{rule}: {wrong}");
        // The engine accepts all of it, except a change of a sysctl that the machine lacks at boot.
        let engine = of(EXPERIMENT)
            .replace(", \"kernel:6.12\"", "")
            .replace(", \"vm.watermark_scale_factor\" = 20", "");
        let machine = of(MACHINE);
        let right = said(parse_with(&engine, &machine, &none));
        assert_eq!(right, "nothing", "{rule}");
    }
    let rules = UML_RULES.iter().chain(MACHINE_RULES).map(|r| r.0);
    let rules: BTreeSet<&str> = rules.chain(RULES.iter().map(|r| r.0)).collect();
    assert_eq!(tried, rules);
}

/// Chooses a back end as `--set guest=…` does.
fn on(guest: &str) -> Overrides {
    Overrides {
        set: vec![format!("guest=\"{guest}\"")],
        ..Overrides::default()
    }
}

/// Returns the back ends on which an experiment's kernels run.
fn guests(experiment: &Experiment) -> BTreeSet<&'static str> {
    let kernels = experiment.cells.iter().filter_map(|c| c.kernel.as_ref());
    kernels.map(|kernel| kernel.guest.name()).collect()
}

#[test]
fn the_largest_machine_decides_the_back_end() {
    let experiment = EXPERIMENT
        .replace("cost_copy = 400\n", "")
        .replace(", \"vm.watermark_scale_factor\" = 20", "");
    let of = |from: &str, to: &str, overrides: &Overrides| {
        let machine = MACHINE.replacen(from, to, 1);
        let e = parse_with(&experiment, &machine, overrides);
        guests(&e.unwrap_or_else(|e| panic!("{to}: {e}")))
    };
    let none = Overrides::default();
    assert_eq!(of("cpus = 1", "cpus = 1", &none), BTreeSet::from(["uml"]));
    assert_eq!(
        of("cpus = 1", "cpus = 1", &on("qemu")),
        BTreeSet::from(["qemu"])
    );
    for (from, to) in [
        ("cpus = 1", "cpus = [1, 4]"),
        (
            "[boot]",
            "[[node]]\nzones = [{ zone = \"Normal\", size = \"64M\" }]\n[boot]",
        ),
        (
            "zones = [{",
            "zones = [{ zone = \"DMA32\", size = \"256M\" }, {",
        ),
    ] {
        assert_eq!(of(from, to, &none), BTreeSet::from(["qemu"]), "{to}");
    }
    // The timer of a distribution's kernel ticks as often as machines do by default.
    let e = parse_with(&experiment, MACHINE, &on("qemu")).unwrap();
    assert!(e.cells.iter().all(|c| c.spec.machine.hz == 250));
}

#[test]
fn what_qemu_cannot_be_is_told_at_its_place() {
    let mut tried = BTreeSet::new();
    for (rule, from, to, complaint) in [
        (
            "memory as q35 lays it out",
            "[boot]",
            "[[node]]\nzones = [{ zone = \"DMA32\", size = \"64M\" }]\n[boot]",
            "small.toml:6:19 `machine.node.1.zones.0.zone`: DMA32 on another node",
        ),
        (
            "at most eight CPUs",
            "cpus = 1",
            "cpus = 9",
            "small.toml:2:8 `machine.cpus`: 9 CPUs",
        ),
        (
            "no costs of the machine",
            "cpus = 1",
            "cpus = 1\nparams = { cost_fault = 800 }",
            "small.toml:3:25 `machine.params.cost_fault`: a cost of the model",
        ),
    ] {
        tried.insert(rule);
        let plain = EXPERIMENT.replace("cost_copy = 400\n", "");
        let wrong = said(parse_with(
            &plain,
            &MACHINE.replacen(from, to, 1),
            &on("qemu"),
        ));
        assert!(wrong.starts_with(complaint), "{rule}: {wrong}");
    }
    let rules: BTreeSet<&str> = QEMU_RULES.iter().map(|r| r.0).collect();
    assert_eq!(tried, rules);
    let costs = said(parse_with(EXPERIMENT, MACHINE, &on("qemu")));
    assert!(costs.contains("`params.cost_copy`: a cost"), "{costs}");
    let free = EXPERIMENT
        .replace("cost_copy = 400\n", "")
        .replace("\"kernel:6.12\"", "\"mine\"")
        + "[policies.mine]\nkernel = \"6.12\"\ncosts = false\n";
    let free = said(parse_with(&free, MACHINE, &on("qemu")));
    assert!(free.contains("`costs = false` of policy `mine`"), "{free}");
}

/// Only a QEMU guest counts instructions, so only it has a speed.
#[test]
fn a_speed_is_that_of_qemus_cpus() {
    let machine = |speed: &str| {
        let to = format!("cpus = 1\ncpu_speed = \"{speed}\"");
        MACHINE.replacen("cpus = 1", &to, 1)
    };
    let plain = EXPERIMENT
        .replace("cost_copy = 400\n", "")
        .replace(", \"vm.watermark_scale_factor\" = 20", "");
    let e = parse_with(&plain, &machine("0.5G"), &on("qemu")).unwrap();
    let speeds = e.cells.iter().map(|c| c.spec.machine.cpu_speed);
    assert!(speeds.into_iter().all(|s| s.is_some_and(|s| s.0 == 500)));
    let of = |text: &str, speed: &str, overrides: &Overrides| {
        said(parse_with(text, &machine(speed), overrides))
    };
    let at = "small.toml:3:13 `machine.cpu_speed`: the engine and User-Mode Linux";
    let wrong = of(&plain, "2G", &on("uml"));
    assert!(wrong.starts_with(at), "{wrong}");
    let engine = plain.replace(", \"kernel:6.12\"", "");
    let wrong = of(&engine, "2G", &Overrides::default());
    assert!(wrong.starts_with(at), "{wrong}");
    for speed in ["5G", "100M", "fast", "2GHz"] {
        let wrong = of(&plain, speed, &on("qemu"));
        assert!(wrong.contains("no speed of a CPU"), "{speed}: {wrong}");
    }
}

#[test]
fn a_back_end_is_one_of_two_and_needs_a_kernel() {
    let wrong = said(parse_with(EXPERIMENT, MACHINE, &on("kvm")));
    assert!(wrong.contains("`guest`: no back end"), "{wrong}");
    let engine = EXPERIMENT.replace(", \"kernel:6.12\"", "");
    let wrong = said(parse_with(&engine, MACHINE, &on("qemu")));
    assert!(
        wrong.contains("has no kernel among its policies"),
        "{wrong}"
    );
}

#[test]
fn the_page_tracker_is_the_engines() {
    let tracked = Overrides {
        track_pages: true,
        ..Overrides::default()
    };
    let wrong = said(parse_with(EXPERIMENT, MACHINE, &tracked));
    assert!(wrong.starts_with("`--track-pages`: "), "{wrong}");
    let engine = EXPERIMENT
        .replace(", \"kernel:6.12\"", "")
        .replace(", \"vm.watermark_scale_factor\" = 20", "");
    assert_eq!(said(parse_with(&engine, MACHINE, &tracked)), "nothing");
}

/// A kernel runs in the build for the machine's ticks; where the machine says nothing of them, it
/// has its own, and the engine beside it the default.
#[test]
fn a_kernel_runs_in_the_build_for_the_machines_ticks() {
    for (hz, build, kernels, engines) in [
        ("", "6.12", 100, 250),
        ("\nhz = 100", "6.12", 100, 100),
        ("\nhz = 250", "6.12-hz250", 250, 250),
        ("\nhz = 1000", "6.12-hz1000", 1000, 1000),
    ] {
        let machine = MACHINE.replacen("cpus = 1", &format!("cpus = 1{hz}"), 1);
        let e = EXPERIMENT.replace(", \"vm.watermark_scale_factor\" = 20", "");
        let e = parse_with(&e, &machine, &Overrides::default());
        let e = e.unwrap_or_else(|e| panic!("{hz}: {e}"));
        for cell in &e.cells {
            let ticks = cell.spec.machine.hz;
            match &cell.kernel {
                Some(kernel) => {
                    assert_eq!((kernel.build.as_str(), ticks), (build, kernels));
                }
                None => assert_eq!(ticks, engines),
            }
        }
    }
    let named = EXPERIMENT
        .replace("kernel:6.12\"", "kernel:6.12-hz250\"")
        .replace(", \"vm.watermark_scale_factor\" = 20", "");
    let e = parse_with(&named, MACHINE, &Overrides::default()).expect("a legal experiment");
    for cell in e.cells.iter().filter(|c| c.kernel.is_some()) {
        let build = cell.kernel.as_ref().map(|k| k.build.as_str());
        assert_eq!((build, cell.spec.machine.hz), (Some("6.12-hz250"), 250));
    }
}

#[test]
fn a_legal_machine_is_taken_as_it_is() {
    for (from, to) in [
        ("cpus = 1", "cpus = 1\nhz = 100"),
        ("cpus = 1", "cpus = 1\nparams = { cost_scale = 2 }"),
        (
            "size = \"512M\" }",
            "size = \"512M\" }, { zone = \"Movable\", size = \"256M\" }",
        ),
        ("kernel = \"4M\"", "kernel = \"4M\"\ndma = 0"),
        ("kind = \"ssd\"", "kind = \"ssd\"\nscheduler = \"none\""),
        (
            "dirty_ratio = 30",
            "watermark_boost_factor = 0\nxfssyncd_centisecs = 500",
        ),
    ] {
        let machine = MACHINE.replacen(from, to, 1);
        let e = EXPERIMENT.replace(", \"vm.watermark_scale_factor\" = 20", "");
        let e = parse_with(&e, &machine, &Overrides::default());
        let e = e.unwrap_or_else(|e| panic!("{to}: {e}"));
        let kernels = e.cells.iter().filter(|c| c.kernel.is_some());
        assert_eq!((kernels.count(), e.cells.len()), (3, 6), "{to}");
    }
}

/// Changes in mid-run must be passed to the guest as the numbers that files of /proc/sys take.
#[test]
fn changes_go_along() {
    let e = EXPERIMENT.replace("\"vm.dirty_ratio\" = 5", "\"vm.dirty_bytes\" = \"1M\"");
    let e = e.replace("\"linux-3.1\", ", "");
    let e = parse_with(&e, MACHINE, &Overrides::default()).unwrap();
    let numbers = e.cells[0].spec.changes[0].numbers();
    let text: Vec<String> = numbers.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        text,
        ["vm.dirty_bytes=1048576", "vm.watermark_scale_factor=20"]
    );
}
