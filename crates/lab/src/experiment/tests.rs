use super::*;
use proptest::prelude::*;

mod changes;
mod disks;
mod docs;
mod kernels;
mod machines;
mod wrong_input;

const MACHINE: &str = "\
name = \"tiny\"
cpus = 2
[[node]]
zones = [{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }]
[boot]
kernel = \"4M\"
anon = \"0\"
cache = \"0\"
[disk]
kind = \"ssd\"
capacity = \"1G\"
";

const EXPERIMENT: &str = "\
name = \"try\"
iterations = 3
policy = [\"vanilla\", \"limits\"]
filesystem = [\"xfs\", \"ext4\"]
machine = \"tiny.toml\"
[workload]
command = \"dd if=/dev/zero of=x bs=32k count=$((1 << 4))\"
[policies.vanilla]
base = \"linux-3.1\"
[policies.limits]
base = \"linux-3.1\"
dirty_limits = \"per-zone\"
";

const PROFILE: &str = "\
# Predicted by a model.
machine = \"tiny\"
[[zone]]
zone = \"Normal\"
min_kbytes = 1000
low_kbytes = 4000
high_kbytes = 5000
";

fn parse_with(text: &str, machine: &str, overrides: &Overrides) -> Result<Experiment, Diagnostic> {
    let files = |name: &str| match name {
        "tiny.toml" => Ok((name.to_owned(), machine.to_owned())),
        "second.toml" => Ok((name.to_owned(), machine.replace("tiny", "second"))),
        "learned.toml" => Ok((name.to_owned(), PROFILE.to_owned())),
        "no-zone.toml" => Ok((name.to_owned(), "machine = \"tiny\"\n".to_owned())),
        "other.toml" => Ok((name.to_owned(), PROFILE.replace("Normal", "DMA32"))),
        "typo.toml" => Ok((name.to_owned(), PROFILE.replace("low_kbytes", "lo_kbytes"))),
        _ => Err("there is no such file".to_owned()),
    };
    parse(&Source::new("try.toml", text), &files, overrides)
}

fn good(text: &str, set: &[&str]) -> Experiment {
    let overrides = Overrides {
        set: set.iter().map(|s| s.to_string()).collect(),
        ..Overrides::default()
    };
    parse_with(text, MACHINE, &overrides).unwrap_or_else(|e| panic!("{}", show(&e)))
}

/// Formats a diagnostic as the user sees it.
fn show(e: &Diagnostic) -> String {
    let mut out = String::new();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    miette::GraphicalReportHandler::new_themed(theme)
        .with_width(100)
        .render_report(&mut out, e)
        .unwrap();
    out
}

fn layout(e: &Experiment) -> Vec<String> {
    e.cells
        .iter()
        .map(|c| {
            c.axes
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn the_matrix_is_laid_out_with_policies_innermost() {
    let e = good(EXPERIMENT, &[]);
    assert_eq!((&e.name[..], e.iterations, e.seed), ("try", 3, 1));
    assert_eq!(e.axes, ["filesystem", "policy"]);
    assert_eq!(
        layout(&e),
        [
            "filesystem=xfs policy=vanilla",
            "filesystem=xfs policy=limits",
            "filesystem=ext4 policy=vanilla",
            "filesystem=ext4 policy=limits",
        ]
    );
    assert_eq!(
        e.cells.iter().map(|c| c.baseline).collect::<Vec<_>>(),
        [true, false, true, false]
    );
    assert_eq!(
        e.cells[1].spec.policy.dirty_limits,
        mm::policy::DirtyLimits::PerZone
    );
    assert_eq!(e.cells[0].spec.machine.cpus, 2);
}

#[test]
fn a_policy_may_build_on_another() {
    let text = EXPERIMENT.replace(
        "[policies.limits]\nbase = \"linux-3.1\"",
        "[policies.limits]\nbase = \"vanilla\"",
    );
    let e = good(&text, &["policies.vanilla.immediate_reclaim=true"]);
    let policy = &e.cells[1].spec.policy;
    assert_eq!(policy.name, "limits");
    assert!(policy.immediate_reclaim);
    assert_eq!(policy.dirty_limits, mm::policy::DirtyLimits::PerZone);
}

/// The settings of tunable-watermarks: policies that differ only in sysctls.
#[test]
fn a_policy_may_bring_its_own_sysctls() {
    let text = EXPERIMENT.replace(
        "[policies.limits]\nbase = \"linux-3.1\"",
        "[policies.vanilla.sysctl]\nwmark_min_kbytes = 1000\nswappiness = 10\n\
         [policies.limits]\nbase = \"vanilla\"\n\
         sysctl = { wmark_low_kbytes = 2000, wmark_high_kbytes = 3000 }",
    );
    let machine = MACHINE.replace(
        "[disk]",
        "[sysctl]\nmin_free_kbytes = 800\ndirty_ratio = 30\n[disk]",
    );
    let overrides = Overrides {
        set: vec!["policies.limits.sysctl.swappiness=[20, 30]".into()],
        ..Overrides::default()
    };
    let e = parse_with(&text, &machine, &overrides).unwrap_or_else(|e| panic!("{}", show(&e)));
    let rows: Vec<_> = e.cells[..3]
        .iter()
        .map(|c| {
            let s = &c.spec.machine.sysctl;
            let marks = s.wmark_kbytes(79 * 1024);
            (&c.policy[..], marks, s.swappiness, s.dirty_ratio)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("vanilla", [1000, 1250, 1500], 10, 30),
            ("limits[sysctl.swappiness=20]", [1000, 2000, 3000], 20, 30),
            ("limits[sysctl.swappiness=30]", [1000, 2000, 3000], 30, 30),
        ]
    );
}

/// The same happens on a running kernel (docs/reference/memory-model.md#tunable-watermarks).
#[test]
fn a_policys_min_free_kbytes_resets_the_machines_watermarks() {
    let machine = MACHINE.replace(
        "[disk]",
        "[sysctl]\nwmark_low_kbytes = 4000\nwmark_high_kbytes = 5000\n[disk]",
    );
    let text = EXPERIMENT.replace(
        "[policies.limits]",
        "[policies.limits]\nsysctl.min_free_kbytes = 1000",
    );
    let e = parse_with(&text, &machine, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
    let marks = |n: usize| {
        let sysctl = &e.cells[n].spec.machine.sysctl;
        sysctl.wmark_kbytes(79 * 1024)
    };
    assert_eq!(marks(0), [1137, 4000, 5000]);
    assert_eq!(marks(1), [1000, 1250, 1500]);
}

#[test]
fn a_node_may_name_its_cpus() {
    let machine = MACHINE.replace("[[node]]", "[[node]]\ncpus = [0, 1, 2]");
    let e = parse_with(EXPERIMENT, &machine, &Overrides::default());
    let e = e.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(e.cells.len(), 4);
    assert_eq!(e.cells[0].spec.machine.nodes[0].cpus, [0, 1, 2]);
}

#[test]
fn a_workload_may_be_bound_to_a_node() {
    let second = "[[node]]\nzones = [{ zone = \"Normal\", size = \"8M\" }]\n[boot]";
    let machine = MACHINE.replace("[boot]", second);
    let text = EXPERIMENT.replace("[workload]", "[workload]\nmembind = [0, 1]");
    let e = parse_with(&text, &machine, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(e.axes[0], "workload.membind");
    assert_eq!(
        e.cells.iter().map(|c| c.spec.membind).collect::<Vec<_>>(),
        [Some(0); 4]
            .into_iter()
            .chain([Some(1); 4])
            .collect::<Vec<_>>()
    );
    assert!(
        good(EXPERIMENT, &[])
            .cells
            .iter()
            .all(|c| c.spec.membind.is_none())
    );
    let movable = machine.replace("\"Normal\", size = \"8M\"", "\"Movable\", size = \"8M\"");
    let e = parse_with(&text, &movable, &Overrides::default()).unwrap_err();
    assert!(show(&e).contains("only movable memory"), "{}", show(&e));
}

/// One command line serves all labels; machines with different numbers of CPUs have different
/// numbers of threads.
#[test]
fn a_command_may_take_the_number_of_threads() {
    let text = EXPERIMENT
        .replace(
            "command = ",
            "threads = [\"1P\", \"2X\", \"3\"]\ncommand = ",
        )
        .replace("$((1 << 4))", "$((12 / $threads))")
        .replace("machine = \"tiny.toml\"\n", "")
        + "[machine]\nbase = \"tiny.toml\"\ncpus = [1, 2]\n";
    let e = good(&text, &["policy=limits", "filesystem=xfs"]);
    let told = |c: &Cell| format!("{} {}", c.group(), c.spec.workload.line);
    let lines: Vec<String> = e.cells.iter().map(told).collect();
    let line = |cpus: u32, label: &str, n: u32| {
        let count = format!("count=$((12 / {n}))");
        format!("machine.cpus={cpus} {label} dd if=/dev/zero of=x bs=32k {count}")
    };
    let wanted = [(1, "1P", 1), (1, "2X", 2), (1, "3", 3)];
    let mut wanted: Vec<String> = wanted.map(|(c, l, n)| line(c, l, n)).into();
    wanted.extend([(2, "1P", 1), (2, "2X", 4), (2, "3", 3)].map(|(c, l, n)| line(c, l, n)));
    assert_eq!(lines, wanted);
    let sized = text.replace(
        "[policies.vanilla]",
        "files = { y = [\"1M\", \"2M\"] }\n[policies.vanilla]",
    );
    assert_eq!(good(&sized, &[]).cells.len(), 2 * 3 * 2 * 2 * 2);

    for (threads, marked, message) in [
        ("", "\"dd", "`$threads` without `workload.threads`"),
        (
            "threads = \"4Y\"\n",
            "\"4Y\"",
            "`4Y` is not a number of threads",
        ),
        ("threads = []\n", "[]", "the list is empty"),
        ("threads = \"5P\"\n", "\"dd", "division"),
    ] {
        let text = EXPERIMENT
            .replace("command = ", &format!("{threads}command = "))
            .replace("$((1 << 4))", "$((12 / ($threads / 8)))");
        let e = parse_with(&text, MACHINE, &Overrides::default()).unwrap_err();
        assert!(e.message.contains(message), "{e:?}");
        let place = e.place.as_ref().unwrap().text();
        assert!(place.starts_with(marked), "{place}");
        assert!(e.accepted.starts_with("accepted"), "{e:?}");
    }
}

/// Found by the swarm: without a zone for the kernel's own pages, the first request for one
/// panicked.
#[test]
fn a_machine_is_not_all_movable() {
    let normal = "{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }";
    let machine = MACHINE.replace(normal, "{ zone = \"Movable\", size = \"64M\" }");
    let e = parse_with(EXPERIMENT, &machine, &Overrides::default()).unwrap_err();
    assert!(
        show(&e).contains("all memory is in zones Movable or HighMem"),
        "{}",
        show(&e)
    );
}

#[test]
fn any_scalar_may_be_a_list() {
    let e = good(
        EXPERIMENT,
        &[
            "filesystem=xfs",
            "policy=[\"linux-3.0\", \"limits\"]",
            "machine.cpus=[1, 2]",
            "machine.sysctl.dirty_ratio=[20, 40]",
            "params.cost_copy=[1000, 1200.5]",
            "policies.limits.immediate_reclaim=[true, false]",
        ],
    );
    assert_eq!(
        e.axes,
        [
            "machine.cpus",
            "machine.sysctl.dirty_ratio",
            "params.cost_copy",
            "policy"
        ]
    );
    assert_eq!(e.cells.len(), 2 * 2 * 2 * 3);
    assert_eq!(
        layout(&e)[..4],
        [
            "machine.cpus=1 machine.sysctl.dirty_ratio=20 params.cost_copy=1000 policy=linux-3.0",
            "machine.cpus=1 machine.sysctl.dirty_ratio=20 params.cost_copy=1000 policy=limits[immediate_reclaim=true]",
            "machine.cpus=1 machine.sysctl.dirty_ratio=20 params.cost_copy=1000 policy=limits[immediate_reclaim=false]",
            "machine.cpus=1 machine.sysctl.dirty_ratio=20 params.cost_copy=1200.5 policy=linux-3.0",
        ]
    );
    let last = &e.cells[23];
    assert_eq!(
        (last.spec.machine.cpus, last.spec.machine.sysctl.dirty_ratio),
        (2, 40)
    );
    assert_eq!(last.spec.params.get("cost_copy"), Some(1200.5));
}

#[test]
fn machines_are_files_tables_or_changed_files() {
    let e = good(
        EXPERIMENT,
        &["machine=[\"tiny.toml\", \"second.toml\"]", "machine.cpus=8"],
    );
    assert_eq!(e.axes, ["machine", "filesystem", "policy"]);
    assert_eq!(
        e.cells[0].key(),
        "tiny/xfs/vanilla/machine=tiny,filesystem=xfs,policy=vanilla"
    );
    assert!(e.cells.iter().all(|c| c.spec.machine.cpus == 8));
    let table = MACHINE
        .replace("[[node]]", "[[machine.node]]")
        .replace("[boot]", "[machine.boot]");
    let inline = EXPERIMENT.replace("machine = \"tiny.toml\"\n", "")
        + "[machine]\n"
        + &table.replace("[disk]", "[machine.disk]");
    assert_eq!(good(&inline, &[]).cells[0].machine, "tiny");
}

#[test]
fn a_machine_may_have_a_second_filesystem() {
    let second = "[second]\nfilesystem = \"ext4\"\nmount = \"mnt2\"\n[second.disk]\nkind = \"disk\"\ncapacity = \"2G\"\n";
    let machine = MACHINE.to_owned() + second;
    let read = |text: &str| parse_with(text, &machine, &Overrides::default());
    let e = read(EXPERIMENT).unwrap();
    let second = &e.cells[0].spec.machine.mounts[0];
    let said = (&*second.mount, second.filesystem, second.is_second);
    assert_eq!(said, ("mnt2", Some(FsKind::Ext4), true));
    // Files must fit on the disk that they are on.
    let files = |path: &str| {
        let command = "[workload]\n";
        let files = format!("{command}files = {{ \"{path}\" = \"1500M\" }}\n");
        read(&EXPERIMENT.replace(command, &files))
    };
    assert!(files("mnt2/x").is_ok());
    assert!(
        files("mnt2x/x")
            .unwrap_err()
            .accepted
            .contains("disk.capacity")
    );
}

#[test]
fn the_command_line_overrides_the_file() {
    let overrides = Overrides {
        iterations: Some(7),
        track_pages: true,
        ..Overrides::default()
    };
    let e = parse_with(EXPERIMENT, MACHINE, &overrides).unwrap();
    assert_eq!(e.iterations, 7);
    assert!(e.cells.iter().all(|c| c.spec.track_pages));
    assert_eq!(e.text, EXPERIMENT);
}

#[test]
fn the_order_of_eviction_is_a_switch_that_may_be_an_axis() {
    let e = good(
        EXPERIMENT,
        &["policies.limits.eviction=[\"linux\", \"s3-fifo\"]"],
    );
    let names: Vec<_> = e.cells.iter().map(|c| &c.spec.policy.name[..]).collect();
    assert_eq!(
        names[..3],
        [
            "vanilla",
            "limits[eviction=linux]",
            "limits[eviction=s3-fifo]"
        ]
    );
    let orders: Vec<_> = e
        .cells
        .iter()
        .map(|c| c.spec.policy.eviction.name())
        .collect();
    assert_eq!(orders[..3], ["linux", "linux", "s3-fifo"]);
}

#[test]
fn the_experiments_of_the_project_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut left = vec![root.join("experiments")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        // Job files lie beside the experiments that name them.
        if path.extension().is_some_and(|e| e == "fio") {
            continue;
        }
        load(&path, &Overrides::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
    }
    let usb = load(
        &root.join("experiments/usb-stick.toml"),
        &Overrides::default(),
    )
    .unwrap();
    assert_eq!((usb.cells.len(), usb.iterations), (8, 10));
    assert_eq!(usb.cells[0].machine, "3765M");
}

#[test]
fn a_disk_has_parameters_of_its_own() {
    let machine = MACHINE.replace(
        "\"1G\"",
        "\"1G\"\nparams = { ssd_read = [50000, 90000], nr_requests = 256 }",
    );
    let cells = parse_with(EXPERIMENT, &machine, &Overrides::default())
        .unwrap()
        .cells;
    let read = |i: usize| cells[i].spec.machine.disk.params(&cells[i].spec.params);
    let last = cells.len() - 1;
    assert_eq!(
        (read(0).disks.ssd.ssd_read, read(last).disks.ssd.ssd_read),
        (50_000.0, 90_000.0)
    );
    assert_eq!(read(0).nr_requests, 256.0);
    assert_eq!(cells[0].spec.params.nr_requests, 128.0);
    assert!(
        cells[0]
            .axes
            .contains(&("machine.disk.params.ssd_read".into(), "50000".into()))
    );

    let twice = EXPERIMENT.replace(
        "[policies.vanilla]",
        "[params]\nssd_read = 1e5\n[policies.vanilla]",
    );
    let e = parse_with(&twice, &machine, &Overrides::default()).unwrap_err();
    assert_eq!(e.place.as_ref().unwrap().text(), "ssd_read");
    assert!(e.message.contains("has no effect"), "{e:?}");
    assert!(e.accepted.contains("machine.disk.params.ssd_read"), "{e:?}");
}

#[test]
fn overrides_are_refused_at_their_own_place() {
    let mut all = String::new();
    for set in [
        "machine.cpus=0",
        "filesystem=ext5",
        "machne.cpus=1",
        "cpus",
        "a=[1",
    ] {
        let overrides = Overrides {
            set: vec![set.into()],
            ..Overrides::default()
        };
        let e = parse_with(EXPERIMENT, MACHINE, &overrides).unwrap_err();
        all += &format!("{}\n", show(&e));
    }
    let overrides = Overrides {
        iterations: Some(0),
        ..Overrides::default()
    };
    all += &show(&parse_with(EXPERIMENT, MACHINE, &overrides).unwrap_err());
    insta::assert_snapshot!(all);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "name = ",
        "iterations = ",
        "policy = ",
        "filesystem = ",
        "machine = ",
        "[workload]\n",
        "command = ",
        "[policies.",
        "a",
        "]\n",
        "[",
        "]",
        "[[node]]\n",
        "zones = ",
        "{",
        "}",
        ", ",
        "\"",
        "'",
        "\"\"\"",
        "\n",
        "1",
        "-",
        ".",
        "5",
        "e9",
        "true",
        "\"xfs\"",
        "\"linux-3.1\"",
        "\"tiny.toml\"",
        "cpus",
        "[machine]\n",
        "base = ",
        "= ",
        "dd if=/dev/zero ",
        "é",
        "\\",
        "[params]\n",
        "cost_copy = ",
        "faults = ",
        "#",
        "\r\n",
        "size = \"1M\"",
        "zone = \"DMA\"",
    ]);
    proptest::collection::vec(piece, 0..40).prop_map(|v| v.concat())
}

/// Asserts that parsing does not panic, and that an error can be shown at its place.
fn does_not_panic(text: &str, machine: &str) {
    if let Err(e) = parse_with(text, machine, &Overrides::default()) {
        if let Some(place) = &e.place {
            assert!(
                place.source.text().get(place.span.clone()).is_some(),
                "{e:?}"
            );
        }
        show(&e);
    }
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        does_not_panic(&text, MACHINE);
    }

    #[test]
    fn almost_experiments_do_not_panic(text in pieces(), cut in 0..EXPERIMENT.len(), len in 0usize..60) {
        does_not_panic(&text, MACHINE);
        let end = (cut + len).min(EXPERIMENT.len());
        does_not_panic(&format!("{}{text}{}", &EXPERIMENT[..cut], &EXPERIMENT[end..]), MACHINE);
    }

    #[test]
    fn almost_machines_do_not_panic(text in pieces(), cut in 0..MACHINE.len(), len in 0usize..60) {
        let end = (cut + len).min(MACHINE.len());
        does_not_panic(EXPERIMENT, &format!("{}{text}{}", &MACHINE[..cut], &MACHINE[end..]));
    }

    #[test]
    fn settings_do_not_panic(setting in "[a-z.\"=\\[\\]{}0-9 ]{0,30}") {
        let overrides = Overrides { set: vec![setting], ..Overrides::default() };
        let _ = parse_with(EXPERIMENT, MACHINE, &overrides);
    }
}

/// A profile may be a file beside the experiment, and then means the same as its tables.
#[test]
fn a_profile_may_be_the_name_of_a_file() {
    let with = |profile: &str| {
        let switch = format!("watermarks = \"learned\"\nprofile{profile}");
        EXPERIMENT.replace("dirty_limits = \"per-zone\"", &switch)
    };
    let profile = |text: &str| good(text, &[]).cells[1].spec.policy.profile.clone();
    let inline = ".machine = \"tiny\"\nprofile.zone = [{ zone = \"Normal\", min_kbytes = 1000, low_kbytes = 4000, high_kbytes = 5000 }]";
    let file = profile(&with(" = \"learned.toml\""));
    assert!(file.is_some());
    assert_eq!(file, profile(&with(inline)));
    // A mistake in the file is shown at its place in the file.
    for (name, says) in [
        (
            "no-zone.toml",
            "`policies.limits.profile`: it names no zone",
        ),
        (
            "other.toml",
            "`policies.limits.profile`: the machine has no zone DMA32",
        ),
        (
            "typo.toml",
            "unknown key `policies.limits.profile.zone.0.lo_kbytes`",
        ),
    ] {
        let text = with(&format!(" = \"{name}\""));
        let e = parse_with(&text, MACHINE, &Overrides::default()).unwrap_err();
        assert!(e.message.starts_with(says), "{}", show(&e));
        assert_eq!(e.place.as_ref().unwrap().source.name(), name);
        assert!(e.accepted.contains("accepted: "), "{}", e.accepted);
    }
}

/// Swap on a filesystem's disk must leave space for the filesystem; a disk of its own may be full.
#[test]
fn swap_has_room_on_its_disk() {
    let with = |swap: &str| MACHINE.replacen("[disk]", &format!("{swap}\n[disk]"), 1);
    let shared = with("[swap]\nsize = \"1G\"");
    let e = parse_with(EXPERIMENT, &shared, &Overrides::default()).expect_err("too large");
    assert!(e.accepted.contains("up to 1023M"), "{e:?}");
    let own = "[swap]\nsize = \"1G\"\n[swap.disk]\nkind = \"ssd\"\ncapacity = ";
    let fits = with(&format!("{own}\"1G\""));
    assert!(parse_with(EXPERIMENT, &fits, &Overrides::default()).is_ok());
    let e = parse_with(
        EXPERIMENT,
        &with(&format!("{own}\"512M\"")),
        &Overrides::default(),
    );
    assert!(e.expect_err("too large").accepted.contains("up to 512M"));
}

/// Words of an earlier version are refused with the words that replaced them.
#[test]
fn old_words_of_fair_zones_name_the_new_ones() {
    for old in ["flag", "flag-merged"] {
        let overrides = Overrides {
            set: vec![format!("policies.limits.fair_zones='{old}'")],
            ..Overrides::default()
        };
        let refused = parse_with(EXPERIMENT, MACHINE, &overrides).expect_err(old);
        let said = show(&refused);
        assert!(
            said.contains("as-meant") && said.contains("as-merged"),
            "{said}"
        );
    }
}
