use super::*;
use proptest::prelude::*;

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

/// A diagnostic as the user sees it.
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

/// The settings of tunable-watermarks: policies that differ in sysctls alone.
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
            let marks = s.engine().wmark_kbytes(79 * 1024);
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

/// As where it is written on a running kernel (docs/reference/memory-model.md#tunable-watermarks).
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
        sysctl.engine().wmark_kbytes(79 * 1024)
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

/// Found by the swarm: the kernel's own pages had no zone, and the first request for one panicked.
#[test]
fn a_machine_is_not_all_movable() {
    let normal = "{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }";
    let machine = MACHINE.replace(normal, "{ zone = \"Movable\", size = \"64M\" }");
    let e = parse_with(EXPERIMENT, &machine, &Overrides::default()).unwrap_err();
    assert!(show(&e).contains("all memory is movable"), "{}", show(&e));
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
    let second = e.cells[0].spec.machine.second.as_ref().unwrap();
    assert_eq!((&*second.mount, second.filesystem), ("mnt2", FsKind::Ext4));
    // Files count for the disk that they are on.
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
        set: vec![],
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
        // Job files stand beside the experiments that name them.
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

/// Each wrong input: a name, what is replaced in the experiment, what is replaced in the machine.
#[test]
fn wrong_input_gets_one_error_with_place_key_and_what_is_accepted() {
    let experiment: &[(&str, &str, &str)] = &[
        ("syntax", "iterations = 3", "iterations = = 3"),
        ("key twice", "iterations = 3", "name = \"again\""),
        ("unknown key", "filesystem =", "filesytem ="),
        ("missing key", "machine = \"tiny.toml\"\n", ""),
        (
            "no workload",
            "[workload]\ncommand =",
            "[params]\ncost_copy =",
        ),
        (
            "iterations of wrong type",
            "iterations = 3",
            "iterations = \"three\"",
        ),
        ("no iterations", "iterations = 3", "iterations = 0"),
        (
            "figures that are no list",
            "iterations = 3",
            "compare = \"elapsed\"",
        ),
        (
            "an unknown figure",
            "iterations = 3",
            "compare = [\"elapsd\"]",
        ),
        (
            "a figure without a good direction",
            "iterations = 3",
            "compare = [\"pgactivate\"]",
        ),
        (
            "a figure twice",
            "iterations = 3",
            "compare = [\"elapsed\", \"elapsed\"]",
        ),
        ("no figure", "iterations = 3", "compare = []"),
        (
            "iterations as axis",
            "iterations = 3",
            "iterations = [3, 4]",
        ),
        ("negative seed", "iterations = 3", "seed = -1"),
        ("huge seed", "iterations = 3", "seed = 99999999999999999999"),
        ("name with a slash", "name = \"try\"", "name = \"../try\""),
        ("a date", "iterations = 3", "seed = 2011-09-30"),
        ("unknown filesystem", "\"ext4\"", "\"ext5\""),
        ("filesystem of wrong type", "\"ext4\"", "4"),
        ("unknown policy", "\"limits\"]", "\"limit\"]"),
        (
            "unknown preset",
            "[policies.limits]\nbase = \"linux-3.1\"",
            "[policies.limits]\nbase = \"linux-3.2\"",
        ),
        (
            "own base",
            "[policies.limits]\nbase = \"linux-3.1\"",
            "[policies.other]\nbase = \"limits\"\n[policies.limits]\nbase = \"other\"",
        ),
        (
            "too many retries before out of memory",
            "[policies.limits]\nbase = \"linux-3.1\"",
            "[policies.limits]\nbase = \"linux-4.9\"\noom_retries = 65",
        ),
        (
            "base of several policies",
            "[policies.limits]\nbase = \"linux-3.1\"",
            "[policies.many]\nbase = \"linux-3.1\"\nimmediate_reclaim = [true, false]\n[policies.limits]\nbase = \"many\"",
        ),
        (
            "no base",
            "[policies.limits]\nbase = \"linux-3.1\"",
            "[policies.limits]",
        ),
        ("unknown switch", "dirty_limits =", "dirty_limit ="),
        ("unknown value of a switch", "\"per-zone\"", "\"per-node\""),
        (
            "unknown eviction policy",
            "dirty_limits = \"per-zone\"",
            "eviction = \"s3fifo\"",
        ),
        (
            "eviction policy of wrong type",
            "dirty_limits = \"per-zone\"",
            "eviction = 3",
        ),
        (
            "priority out of range",
            "dirty_limits = \"per-zone\"",
            "kswapd_writeback_priority = 13",
        ),
        (
            "unknown sysctl of a policy",
            "dirty_limits = \"per-zone\"",
            "sysctl = { wmark_kbytes = 1 }",
        ),
        (
            "sysctl of a policy of wrong type",
            "dirty_limits = \"per-zone\"",
            "sysctl = { wmark_low_kbytes = \"4M\" }",
        ),
        (
            "sysctls of a policy that are no table",
            "dirty_limits = \"per-zone\"",
            "sysctl = 5",
        ),
        (
            "a policy's high watermark below low",
            "dirty_limits = \"per-zone\"",
            "sysctl = { wmark_low_kbytes = 4000, wmark_high_kbytes = 3000 }",
        ),
        (
            "a cap of nothing",
            "dirty_limits = \"per-zone\"",
            "watermarks = \"auto\"\nauto = { cap = 0 }",
        ),
        (
            "learned from nothing",
            "dirty_limits = \"per-zone\"",
            "watermarks = \"learned\"",
        ),
        (
            "a profile of another machine",
            "dirty_limits = \"per-zone\"",
            "watermarks = \"learned\"\nprofile.zone = [{ zone = \"DMA32\", min_kbytes = 1, low_kbytes = 2, high_kbytes = 3 }]",
        ),
        (
            "a profile's file that is not there",
            "dirty_limits = \"per-zone\"",
            "watermarks = \"learned\"\nprofile = \"lerned.toml\"",
        ),
        (
            "a profile that is a number",
            "dirty_limits = \"per-zone\"",
            "watermarks = \"learned\"\nprofile = 5",
        ),
        (
            "policy named like a preset",
            "[policies.limits]",
            "[policies.limits]\nbase = \"linux-3.1\"\n[policies.\"linux-3.0\"]",
        ),
        ("empty list", "[\"xfs\", \"ext4\"]", "[]"),
        ("value twice", "[\"xfs\", \"ext4\"]", "[\"xfs\", \"xfs\"]"),
        ("list in a list", "[\"xfs\", \"ext4\"]", "[[\"xfs\"]]"),
        ("missing machine file", "\"tiny.toml\"", "\"tony.toml\""),
        ("machine of wrong type", "\"tiny.toml\"", "3765"),
        (
            "two machines of one name",
            "\"tiny.toml\"",
            "[\"tiny.toml\", \"tiny.toml\"]",
        ),
        ("bad command", "count=$((1 << 4))", "cuont=$((1 << 4))"),
        ("bad arithmetic", "$((1 << 4))", "$((1 << ))"),
        ("unknown program", "\"dd if", "\"ddd if"),
        (
            "command with escapes",
            "\"dd if=/dev/zero",
            "\"\\u0064d fi=/dev/zero",
        ),
        ("unknown workload key", "command =", "comand ="),
        (
            "binding to a node that is not there",
            "[workload]\n",
            "[workload]\nmembind = 1\n",
        ),
        (
            "binding to CPUs that are not there",
            "\"dd if=",
            "\"taskset -c 40-50 dd if=",
        ),
        (
            "binding to the CPUs of a node that is not there",
            "\"dd if=",
            "\"numactl --cpunodebind=7 dd if=",
        ),
        (
            "binding of wrong type",
            "[workload]\n",
            "[workload]\nmembind = \"1\"\n",
        ),
        (
            "unknown parameter",
            "[policies.vanilla]",
            "[params]\ncost_cpy = 1\n[policies.vanilla]",
        ),
        (
            "parameter out of range",
            "[policies.vanilla]",
            "[params]\ncost_copy = 1e9\n[policies.vanilla]",
        ),
        (
            "parameter of wrong type",
            "[policies.vanilla]",
            "[params]\ncost_copy = \"fast\"\n[policies.vanilla]",
        ),
        ("sampling too rarely", "iterations = 3", "sample_s = -1"),
        (
            "absurd matrix",
            "[policies.vanilla]",
            "[params]\ncost_copy = [COUNT]\ncost_fault = [COUNT]\ncost_lru = [COUNT]\n[policies.vanilla]",
        ),
    ];
    let machine: &[(&str, &str, &str)] = &[
        ("unknown machine key", "cpus = 2", "cpu = 2"),
        ("missing machine key", "cpus = 2\n", ""),
        ("no CPU", "cpus = 2", "cpus = 0"),
        ("too many CPUs", "cpus = 2", "cpus = [2, 65]"),
        ("no CPU of a node", "[[node]]", "[[node]]\ncpus = [0, 64]"),
        ("a CPU twice", "[[node]]", "[[node]]\ncpus = [0, 1, 0]"),
        ("odd hz", "cpus = 2", "cpus = 2\nhz = 24"),
        ("wrong unit", "\"64M\"", "\"64MB\""),
        ("size of wrong type", "\"64M\"", "0.5"),
        ("zones out of order", "\"Normal\"", "\"DMA\""),
        ("unknown zone", "\"Normal\"", "\"HighMem\""),
        (
            "too little memory",
            "{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }",
            "{ zone = \"DMA\", size = \"3M\" }",
        ),
        ("DMA too large", "\"15M\"", "\"17M\""),
        (
            "no zone",
            "[{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }]",
            "[]",
        ),
        (
            "boot takes too much",
            "kernel = \"4M\"",
            "kernel = \"400M\"",
        ),
        (
            "ratio over 100",
            "[disk]",
            "[sysctl]\ndirty_ratio = 140\n[disk]",
        ),
        (
            "unknown sysctl",
            "[disk]",
            "[sysctl]\ndirty_ration = 40\n[disk]",
        ),
        (
            "scale factor of none",
            "[disk]",
            "[sysctl]\nwatermark_scale_factor = 0\n[disk]",
        ),
        (
            "a minimum that is most of the memory",
            "[disk]",
            "[sysctl]\nwmark_min_kbytes = 60000\n[disk]",
        ),
        (
            "two minimums",
            "[disk]",
            "[sysctl]\nmin_free_kbytes = 1000\nwmark_min_kbytes = 2000\n[disk]",
        ),
        (
            "low watermark below min",
            "[disk]",
            "[sysctl]\nmin_free_kbytes = 1000\nwmark_low_kbytes = 500\n[disk]",
        ),
        (
            "high watermark below low",
            "[disk]",
            "[sysctl]\nwmark_low_kbytes = 4000\nwmark_high_kbytes = 3000\n[disk]",
        ),
        (
            "low watermark above the high one of the formula",
            "[disk]",
            "[sysctl]\nwmark_low_kbytes = 4000\n[disk]",
        ),
        (
            "watermark of wrong type",
            "[disk]",
            "[sysctl]\nwmark_low_kbytes = \"4M\"\n[disk]",
        ),
        (
            "too few reserve ratios",
            "[disk]",
            "[sysctl]\nlowmem_reserve_ratio = [256, 32]\n[disk]",
        ),
        (
            "reserve ratio of wrong type",
            "[disk]",
            "[sysctl]\nlowmem_reserve_ratio = [256, 256, \"1/32\"]\n[disk]",
        ),
        (
            "parameter of another kind of disk",
            "\"1G\"",
            "\"1G\"\nparams = { nvme_read = 1e5 }",
        ),
        (
            "misspelt parameter of a disk",
            "\"1G\"",
            "\"1G\"\nparams = { ssd_raed = 1e5 }",
        ),
        (
            "parameter of a disk out of range",
            "\"1G\"",
            "\"1G\"\nparams = { ssd_read = 1 }",
        ),
        (
            "parameter of a disk of wrong type",
            "\"1G\"",
            "\"1G\"\nparams = { ssd_read = \"fast\" }",
        ),
        (
            "parameters of a disk that are no table",
            "\"1G\"",
            "\"1G\"\nparams = 3",
        ),
        ("unknown disk", "\"ssd\"", "\"hdd\""),
        ("raid without members", "\"ssd\"", "\"raid0\""),
        ("members without raid", "\"ssd\"", "\"ssd\"\nmembers = 4"),
        (
            "fault before the start",
            "\"1G\"",
            "\"1G\"\nfaults = [{ kind = \"stop\", at_s = -1 }]",
        ),
        (
            "unknown fault",
            "\"1G\"",
            "\"1G\"\nfaults = [{ kind = \"explode\", at_s = 1 }]",
        ),
        ("swap of no size", "[disk]", "[swap]\nsize = 0\n[disk]"),
        (
            "unknown key of a second filesystem",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmout = \"mnt2\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[disk]",
        ),
        (
            "a second filesystem nowhere",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[disk]",
        ),
        (
            "a second filesystem over the first",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmount = \"\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[disk]",
        ),
        (
            "a mount point that is a path",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmount = \"mnt/2\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[disk]",
        ),
        (
            "unknown second filesystem",
            "[disk]",
            "[second]\nfilesystem = \"zfs\"\nmount = \"mnt2\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[disk]",
        ),
        (
            "a second filesystem without a disk",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmount = \"mnt2\"\n[disk]",
        ),
        (
            "a second disk without a size",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmount = \"mnt2\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"0\"\n[disk]",
        ),
        (
            "parameter of a second disk of another kind",
            "[disk]",
            "[second]\nfilesystem = \"xfs\"\nmount = \"mnt2\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\nparams = { usb_unit = 4194304 }\n[disk]",
        ),
        ("machine syntax", "cpus = 2", "cpus 2"),
    ];
    let count = (1..=50)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let mut all = String::new();
    let cases = experiment
        .iter()
        .map(|c| (c, true))
        .chain(machine.iter().map(|c| (c, false)));
    for ((what, from, to), in_experiment) in cases {
        let (file, other) = if in_experiment {
            (EXPERIMENT, MACHINE)
        } else {
            (MACHINE, EXPERIMENT)
        };
        assert!(file.contains(from), "{what}: `{from}`");
        let changed = file.replacen(from, &to.replace("COUNT", &count), 1);
        let (text, machine) = if in_experiment {
            (&changed[..], other)
        } else {
            (other, &changed[..])
        };
        let Err(mut e) = parse_with(text, machine, &Overrides::default()) else {
            panic!("{what}: accepted")
        };
        e.accepted = without_lists(&e.accepted);
        assert!(
            e.accepted.starts_with("accepted: ") || e.accepted.starts_with("did you mean"),
            "{what}: {e:?}"
        );
        let place = e
            .place
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: no place"));
        assert_eq!(
            place.source.name(),
            if in_experiment {
                "try.toml"
            } else {
                "tiny.toml"
            },
            "{what}"
        );
        let marked = if place.text().len() > 60 {
            "…"
        } else {
            place.text()
        };
        all += &format!("## {what}: {place} marks {marked:?}\n{}\n", show(&e));
    }
    insta::assert_snapshot!(all);
}

/// A text in which lists of everything that there is of a kind have a name, so that one thing more is
/// not another text.
fn without_lists(text: &str) -> String {
    let switches = mm::Policy::SWITCHES.iter().map(|s| s.name);
    let filesystems = || FsKind::ALL.iter().map(|kind| kind.name());
    let quoted: Vec<String> = filesystems().map(|name| format!("\"{name}\"")).collect();
    let lists: [(&str, Vec<&str>); 6] = [
        ("EVERY SWITCH", switches.collect()),
        ("EVERY PRESET", mm::Policy::PRESETS.to_vec()),
        (
            "EVERY EVICTION POLICY",
            mm::policy::Eviction::NAMES.to_vec(),
        ),
        ("EVERY FILESYSTEM", filesystems().collect()),
        (
            "EVERY QUOTED FILESYSTEM",
            quoted.iter().map(String::as_str).collect(),
        ),
        ("EVERY PROGRAM", ::workload::programs::named().collect()),
    ];
    let text = text.replace(&format!("the {} param", Params::TABLE.len()), "the N param");
    lists.iter().fold(text, |text, (name, list)| {
        text.replace(&list.join(", "), name)
    })
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

/// Wherever the complaint stands, it can be shown.
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

/// A profile may be a file beside the experiment, and is then what its tables would be in its place.
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
    // What is wrong in the file is shown there.
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

/// Beside a filesystem it leaves room for one; on a disk of its own it may have all of it.
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
