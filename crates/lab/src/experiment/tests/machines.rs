//! Machines in a line, and machines in the place of an experiment's own.

use super::*;
use mm::ZoneType;
use sim::DiskKind;

fn with_machine(value: &str) -> String {
    EXPERIMENT.replace("machine = \"tiny.toml\"", value)
}

fn on(text: &str, machine: &str) -> Result<Experiment, Diagnostic> {
    let overrides = Overrides {
        machine: Some(machine.to_owned()),
        ..Overrides::default()
    };
    parse_with(text, MACHINE, &overrides)
}

#[test]
fn a_line_and_its_table_are_one_machine() {
    let line = good(&with_machine("machine = \"16G,8cpus,nvme\""), &[]);
    let table =
        "machine = { memory = \"16G\", cpus = 8, disk = \"nvme\", name = \"16G-8cpus-nvme\" }";
    let table = good(&with_machine(table), &[]);
    assert_eq!(line.cells[0].spec.machine, table.cells[0].spec.machine);
    let machine = &line.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (8, DiskKind::Nvme));
    let zones: Vec<ZoneType> = machine.nodes[0].zones.iter().map(|z| z.zone).collect();
    assert_eq!(zones, [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal]);
    // Everything that was taken is stated before any figure.
    assert_eq!(line.said.len(), 1);
    assert!(line.said[0].starts_with("machine 16G,8cpus,nvme: DMA 15 MiB"));
}

#[test]
fn keys_lie_over_a_line() {
    let e = good(&with_machine("machine = \"2G\""), &["machine.cpus=2"]);
    assert_eq!(e.cells[0].spec.machine.cpus, 2);
    let e = good(
        &with_machine("machine = { memory = \"2G\", sysctl = { dirty_ratio = 5 } }"),
        &[],
    );
    assert_eq!(e.cells[0].spec.machine.sysctl.dirty_ratio, 5);
}

/// A machine's table needs its zones only: disk and swap may be words, and the rest is stated.
#[test]
fn a_table_takes_words_and_a_name_by_its_memory() {
    let table = "machine = { disk = \"nvme=2T\", swap = \"1G\", \
                 node = [{ zones = [{ zone = \"Normal\", size = \"512M\" }] }] }";
    let e = good(&with_machine(table), &[]);
    let machine = &e.cells[0].spec.machine;
    assert_eq!(machine.name, "512M");
    assert_eq!(
        (machine.disk.kind, machine.disk.capacity.0),
        (DiskKind::Nvme, 2 << 40)
    );
    assert_eq!(machine.swap.as_ref().map(|s| s.size.0), Some(1 << 30));
    assert!(
        e.said[0].contains("the name 512M (`name`); 4 CPUs"),
        "{:?}",
        e.said
    );
    for (disk, why) in [
        ("sdd", "unknown word `sdd`"),
        ("4cpus", "`4cpus` is no disk"),
    ] {
        let wrong = with_machine(&table.replace("nvme=2T", disk));
        let error = parse_with(&wrong, MACHINE, &Overrides::default()).unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert!(error.accepted.contains("nvme=1T"), "{error}");
    }
}

/// A line is a machine that a guest can be, whichever back end runs it.
#[test]
fn a_line_fits_real_kernels() {
    let with = |policy: &str, line: &str| {
        let text = with_machine(&format!("machine = \"{line}\""));
        good(
            &text.replace("policy = ", &format!("policy = {policy} #")),
            &[],
        )
    };
    for line in ["512M,1cpu,ssd", "2G,4cpus,2nodes,nvme"] {
        let e = with("[\"kernel:6.12\", \"linux-6.12\"]", line);
        for node in &e.cells[0].spec.machine.nodes {
            let zones: Vec<ZoneType> = node.zones.iter().map(|z| z.zone).collect();
            assert_eq!(zones, [ZoneType::Normal], "{line}");
        }
        let engine = with("\"linux-6.12\"", line);
        let first = &engine.cells[0].spec.machine.nodes[0].zones[0];
        assert_eq!(first.zone, ZoneType::Dma);
    }
    let text = EXPERIMENT.replace("policy = ", "policy = \"kernel:6.12\" #");
    let e = on(&text, "512M,1cpu,ssd").unwrap();
    assert_eq!(e.cells[0].spec.machine.nodes[0].zones.len(), 1);
}

#[test]
fn a_wrong_word_is_refused_at_its_place() {
    let error = parse_with(
        &with_machine("machine = \"16G,8cpus,nmve\""),
        MACHINE,
        &Overrides::default(),
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("unknown word `nmve`"), "{text}");
    let error = on(EXPERIMENT, "16G,many").unwrap_err().to_string();
    assert!(error.contains("unknown word `many`"), "{error}");
    let error = on(EXPERIMENT, "nowhere.toml").unwrap_err().to_string();
    assert!(error.contains("nowhere.toml"), "{error}");
}

/// The experiment's question may need a disk that the machine does not have, such as a USB stick.
#[test]
fn another_machine_keeps_the_disks_that_the_experiment_adds() {
    let text = with_machine("").replace(
        "[workload]",
        "[machine]\nbase = \"tiny.toml\"\n[[machine.disk]]\nkind = \"ssd\"\ncapacity = \"1G\"\n\
         [[machine.disk]]\nmount = \"/mnt/stick\"\nfilesystem = \"vfat\"\nkind = \"usb-flash\"\n\
         capacity = \"2G\"\n[workload]",
    );
    let e = on(&text, "16G,8cpus,nvme").unwrap();
    let machine = &e.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (8, DiskKind::Nvme));
    assert_eq!(machine.mounts.len(), 1);
    assert_eq!(machine.mounts[0].disk.kind, DiskKind::UsbFlash);
    assert!(
        e.said[0].contains("the disk of /mnt/stick is the experiment's"),
        "{:?}",
        e.said
    );
    // Without such a disk the machine is simply the other one.
    let e = on(EXPERIMENT, "second.toml").unwrap();
    assert_eq!(e.cells[0].machine, "second");
    assert!(e.said.is_empty());
}

#[test]
fn all_missing_keys_are_named_at_once() {
    let message = |text: &str, machine: &str| {
        let e = parse_with(text, machine, &Overrides::default()).unwrap_err();
        (e.message.clone(), e.accepted.clone())
    };
    let (what, accepted) = message("iterations = 2\n[machine]\nhz = 250\n", MACHINE);
    assert_eq!(
        what,
        "missing keys `name`, `policy`, `filesystem`, `workload`, `machine.name` and `machine.node`"
    );
    for example in [
        "name = \"mine\"",
        "policy = \"linux-6.12\"",
        "[[node]] with `zones`",
    ] {
        assert!(accepted.contains(example), "{accepted}");
    }
    // Those of a machine's file, of its zones and of its disk.
    let (what, _) = message(
        EXPERIMENT,
        "name = \"tiny\"\n[[node]]\nzones = [{ size = \"64M\" }]\n[disk]\nscheduler = \"none\"\n",
    );
    assert_eq!(
        what,
        "missing keys `machine.node.0.zones.0.zone`, `machine.disk.kind` and `machine.disk.capacity`"
    );
    // An unknown key comes first, since it may be the missing one.
    let (what, _) = message(EXPERIMENT, &MACHINE.replace("name =", "nmae ="));
    assert!(what.contains("unknown key `machine.nmae`"), "{what}");
    // A filesystem of `/` in the machine is one; a filesystem elsewhere is none.
    let disks = |root: &str| {
        MACHINE.replace("[disk]", "[[disk]]\nmount = \"/mnt/a\"\nfilesystem = \"xfs\"\nkind = \"ssd\"\ncapacity = \"1G\"\n[[disk]]")
            + root
    };
    let text = EXPERIMENT.replace("filesystem = [\"xfs\", \"ext4\"]\n", "");
    assert_eq!(message(&text, &disks("")).0, "missing key `filesystem`");
    assert!(
        parse_with(
            &text,
            &disks("filesystem = \"xfs\"\n"),
            &Overrides::default()
        )
        .is_ok()
    );
}

#[test]
fn a_file_may_leave_out_cpus_disk_and_boot_and_what_was_taken_is_stated() {
    let short = "name = \"tiny\"\n[[node]]\nzones = [{ zone = \"DMA32\", size = \"1G\" }]\n";
    let e = parse_with(EXPERIMENT, short, &Overrides::default()).unwrap();
    let machine = &e.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (4, DiskKind::Ssd));
    assert_eq!(
        e.said,
        [
            "machine tiny: taken for keys that it lacks: 4 CPUs (`cpus`); an ssd of 512G (`disk`); at boot 64 MiB of \
             the kernel, 64 MiB anonymous, 64 MiB of page cache (`boot`)."
        ]
    );
    // A machine that gives both keeps its record as it was.
    assert!(good(EXPERIMENT, &[]).said.is_empty());
}

#[test]
fn a_file_may_describe_its_machine_in_words() {
    let words = "memory = \"16G\"\ncpus = 8\ndisk = \"nvme\"\n";
    let e = parse_with(EXPERIMENT, words, &Overrides::default()).unwrap();
    let line = good(&with_machine("machine = \"16G,8cpus,nvme\""), &[]);
    assert_eq!(e.cells[0].spec.machine, line.cells[0].spec.machine);
    assert_eq!(e.said, line.said);
    // The record leaves out those parts which the table gives itself.
    let e = good(
        &with_machine(
            "machine = { memory = \"2G\", disk = { kind = \"usb-flash\" }, boot = { kernel = \"50M\" } }",
        ),
        &[],
    );
    let disk = &e.cells[0].spec.machine.disk;
    assert_eq!((disk.kind, disk.capacity.0), (DiskKind::UsbFlash, 32 << 30));
    assert!(
        !e.said[0].contains("at boot") && !e.said[0].contains("ssd"),
        "{:?}",
        e.said
    );
    let e = parse_with(
        &with_machine("machine = { memory = [\"2G\", \"4G\"] }"),
        MACHINE,
        &Overrides::default(),
    );
    let e = e.unwrap_err();
    assert!(
        e.message.contains("`machine.memory`: a list"),
        "{}",
        e.message
    );
}

/// Such files would lie on the disk of `/`, and the answer would be that to another question.
#[test]
fn a_path_below_a_mount_point_that_the_machine_lacks_is_refused() {
    let writes = |path: &str| EXPERIMENT.replace("of=x", &format!("of={path}"));
    let stick = MACHINE.replace("[disk]", "[[disk]]\nmount = \"/mnt/stick\"\nfilesystem = \"xfs\"\nkind = \"ssd\"\ncapacity = \"1G\"\n[[disk]]");
    let none = Overrides::default();
    for path in ["mnt/stick/copy", "/media/me/copy"] {
        let e = parse_with(&writes(path), MACHINE, &none).unwrap_err();
        let text = format!("{} {}", e.message, e.accepted);
        assert!(text.contains("mounts no disk at or above `m"), "{text}");
        assert!(text.contains("`/`"), "{text}");
    }
    let e = parse_with(&writes("mnt/stik/copy"), &stick, &none).unwrap_err();
    assert!(e.accepted.contains("`/mnt/stick`"), "{}", e.accepted);
    for (path, machine) in [
        ("mnt/stick/copy", &stick[..]),
        ("mnt", MACHINE),
        ("a/mnt/b", MACHINE),
    ] {
        assert!(parse_with(&writes(path), machine, &none).is_ok(), "{path}");
    }
    let files = EXPERIMENT.replace(
        "[policies.vanilla]",
        "files = { \"mnt/a/b\" = \"1M\" }\n[policies.vanilla]",
    );
    assert!(parse_with(&files, MACHINE, &none).is_err());
}

/// A stick on `/` is what the experiment asks about; another kind of disk gives way, and both are
/// said.
#[test]
fn a_stick_under_test_stays_and_other_disks_give_way() {
    let stick = MACHINE.replace("kind = \"ssd\"", "kind = \"usb-flash\"");
    assert_ne!(stick, MACHINE);
    let overrides = |machine: &str| Overrides {
        machine: Some(machine.to_owned()),
        ..Overrides::default()
    };
    let e = parse_with(
        EXPERIMENT,
        &stick,
        &overrides("16G,8cpus,nvme=1T,swap=512M"),
    )
    .unwrap();
    let machine = &e.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (8, DiskKind::UsbFlash));
    assert_eq!(machine.name, "16G-8cpus-nvme-1T-swap-512M");
    assert!(machine.swap.is_some());
    assert!(
        e.said[0].contains("stays the experiment's usb-flash"),
        "{:?}",
        e.said
    );
    let e = on(EXPERIMENT, "16G,8cpus,nvme").unwrap();
    assert_eq!(e.cells[0].spec.machine.disk.kind, DiskKind::Nvme);
    assert!(
        e.said[0].contains("nvme, in the place of the experiment's ssd"),
        "{:?}",
        e.said
    );
}
