//! Tests of `[[disk]]`: any number of filesystems.

use super::*;

const DISK: &str = "[disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n";

/// Returns the machine with other disks.
fn with(disks: &str) -> String {
    assert!(MACHINE.contains(DISK), "{MACHINE}");
    MACHINE.replace(DISK, disks)
}

fn read(disks: &str, experiment: &str) -> Result<Experiment, Diagnostic> {
    parse_with(experiment, &with(disks), &Overrides::default())
}

const THREE: &str = "\
[[disk]]
mount = \"/mnt/fast\"
filesystem = \"btrfs\"
kind = \"nvme\"
capacity = \"2G\"
[[disk]]
kind = \"ssd\"
capacity = \"1G\"
[[disk]]
mount = \"mnt\"
kind = \"disk\"
capacity = \"4G\"
params = { disk_average_seek = 9000000 }
";

/// A single disk must mean the same in both forms.
#[test]
fn one_disk_may_be_a_list_of_one() {
    let old = parse_with(EXPERIMENT, MACHINE, &Overrides::default()).unwrap();
    for list in [
        "[[disk]]\nkind = \"ssd\"\ncapacity = \"1G\"\n",
        "[[disk]]\nmount = \"/\"\nkind = \"ssd\"\ncapacity = \"1G\"\n",
    ] {
        let new = read(list, EXPERIMENT).unwrap();
        assert_eq!(layout(&new), layout(&old));
        for (a, b) in new.cells.iter().zip(&old.cells) {
            assert_eq!(a.spec.machine, b.spec.machine);
            assert_eq!(a.filesystem, b.filesystem);
        }
    }
}

#[test]
fn a_list_of_disks_is_a_tree_of_filesystems() {
    let e = read(THREE, EXPERIMENT).unwrap();
    let m = &e.cells[0].spec.machine;
    assert_eq!(m.mount_points(), ["", "mnt/fast", "mnt"]);
    assert_eq!(m.disk.capacity.0, 1 << 30);
    let kinds: Vec<_> = m.mounted().map(|on| on.filesystem).collect();
    assert_eq!(kinds, [None, Some(FsKind::Btrfs), None]);
    assert!(m.mounts[1].disk.params.contains_key("disk_average_seek"));
    // A machine must survive serialisation, whichever form it was read from.
    for machine in [
        m.clone(),
        good(EXPERIMENT, &[]).cells[0].spec.machine.clone(),
    ] {
        let json = serde_json::to_value(&machine).unwrap();
        let back: sim::spec::Machine = serde_json::from_value(json).unwrap();
        assert_eq!(back, machine);
    }
    // Files must fit on the disk that they are on.
    let files = |path: &str, size: &str| {
        let files = format!("[workload]\nfiles = {{ \"{path}\" = \"{size}\" }}\n");
        read(THREE, &EXPERIMENT.replace("[workload]\n", &files))
    };
    for path in ["mnt/x", "mnt/fast/x"] {
        assert!(files(path, "1500M").is_ok(), "{path}");
    }
    let e = files("mnt/fast/x", "3G").unwrap_err();
    assert!(e.message.contains("the disk on /mnt/fast"), "{}", e.message);
    assert!(files("mntx", "1500M").is_err());
}

/// Keys of a list's elements may hold lists, which make axes.
#[test]
fn disks_of_a_list_may_vary() {
    let text = THREE
        .replace("\"disk\"\n", "[\"disk\", \"ssd\"]\n")
        .replace("params", "# params");
    let e = read(&text, EXPERIMENT).unwrap();
    assert_eq!(e.axes[0], "machine.disk.2.kind");
    assert_eq!(e.cells.len(), 8);
}

/// The filesystem on `/` is stated by the experiment or by the machine.
#[test]
fn the_machine_may_say_what_is_tested() {
    let own = "[[disk]]\nfilesystem = \"ext4\"\nkind = \"ssd\"\ncapacity = \"1G\"\n";
    let without = EXPERIMENT.replace("filesystem = [\"xfs\", \"ext4\"]\n", "");
    let e = read(own, &without).unwrap();
    assert!(
        e.cells
            .iter()
            .all(|c| c.filesystem == "ext4" && c.spec.filesystem == FsKind::Ext4)
    );
    let both = read(own, EXPERIMENT).unwrap_err();
    assert!(
        both.message.contains("ext4 is mounted on `/`"),
        "{}",
        both.message
    );
    assert!(
        read(DISK, &without)
            .unwrap_err()
            .message
            .contains("missing key `filesystem`")
    );
}

/// Each mistake is one sentence at its place.
#[test]
fn wrong_lists_of_disks() {
    let element = |more: &str| format!("[[disk]]\n{more}kind = \"ssd\"\ncapacity = \"1G\"\n");
    let mut all = String::new();
    for (what, disks) in [
        ("two on /", element("") + &element("mount = \"/\"\n")),
        (
            "two on one directory",
            element("") + &element("mount = \"a\"\n") + &element("mount = \"/a/\"\n"),
        ),
        ("none on /", element("mount = \"a\"\n")),
        ("no disk", "disk = []\n".into()),
        ("a word that is no disk", "disk = \"sdd\"\n".into()),
        ("unknown filesystem", element("filesystem = \"zfs\"\n")),
        ("unknown key", element("mont = \"a\"\n")),
        ("mount point of wrong type", element("mount = 3\n")),
        (
            "mount point out of the tree",
            element("") + &element("mount = \"../a\"\n"),
        ),
        (
            "mount point with an empty name",
            element("") + &element("mount = \"a//b\"\n"),
        ),
        ("no capacity", "[[disk]]\nkind = \"ssd\"\n".into()),
        (
            "capacity out of range",
            element("") + "[[disk]]\nmount = \"a\"\nkind = \"ssd\"\ncapacity = 0\n",
        ),
        (
            "parameter of another kind",
            element("") + &element("mount = \"a\"\nparams = { usb_unit = 4194304 }\n"),
        ),
        (
            "fault of wrong type",
            element("faults = [{ kind = \"stop\", at_s = \"now\" }]\n"),
        ),
        (
            "too many",
            element("")
                + &(0..32)
                    .map(|i| element(&format!("mount = \"m{i}\"\n")))
                    .collect::<String>(),
        ),
        (
            "second beside a list",
            element("")
                + "[second]\nfilesystem = \"xfs\"\nmount = \"a\"\n[second.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n",
        ),
        ("both forms", format!("{DISK}{}", element(""))),
        (
            "a mount point of swap",
            format!(
                "{DISK}[swap]\nsize = \"1M\"\n[swap.disk]\nmount = \"a\"\nkind = \"ssd\"\ncapacity = \"1G\"\n"
            ),
        ),
    ] {
        // Keys of the top table must come before the first table header.
        let machine = match disks.strip_prefix("disk = ") {
            Some(value) => format!("disk = {value}{}", with("")),
            None => with(&disks),
        };
        let Err(e) = parse_with(EXPERIMENT, &machine, &Overrides::default()) else {
            panic!("{what}: accepted")
        };
        let place = e
            .place
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: no place"));
        assert_eq!(place.source.name(), "tiny.toml", "{what}");
        assert!(e.accepted.contains("accepted: "), "{what}: {}", e.accepted);
        all += &format!("## {what}: {place}\n{}\n{}\n", e.message, e.accepted);
    }
    insta::assert_snapshot!(all);
}
