//! Tests of wrong input: one error each, with its place, its key and the accepted input.

use super::{EXPERIMENT, MACHINE, parse_with, show};
use crate::experiment::Overrides;

/// The name of the mistake, the text of the file that is replaced, and its replacement.
type Wrong = (&'static str, &'static str, &'static str);

/// Changes to the experiment; `COUNT` stands for the numbers from 1 to 50.
const IN_EXPERIMENT: &[Wrong] = &[
    ("syntax", "iterations = 3", "iterations = = 3"),
    ("key twice", "iterations = 3", "name = \"again\""),
    ("unknown key", "filesystem =", "filesytem ="),
    (
        "a machine's key at the top",
        "iterations = 3",
        "iterations = 3\ncpus = 4",
    ),
    (
        "sysctls at the top",
        "[workload]\ncommand =",
        "[sysctl]\ndirty_ratio = 5\n[workload]\ncommand =",
    ),
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
    ("unknown value of a switch", "\"per-zone\"", "\"per-cpu\""),
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

/// Changes to the machine's file.
const IN_MACHINE: &[Wrong] = &[
    ("unknown machine key", "cpus = 2", "cpu = 2"),
    (
        "missing machine key",
        "[[node]]\nzones = [{ zone = \"DMA\", size = \"15M\" }, { zone = \"Normal\", size = \"64M\" }]\n",
        "",
    ),
    ("no CPU", "cpus = 2", "cpus = 0"),
    ("too many CPUs", "cpus = 2", "cpus = [2, 65]"),
    ("no CPU of a node", "[[node]]", "[[node]]\ncpus = [0, 64]"),
    ("a CPU twice", "[[node]]", "[[node]]\ncpus = [0, 1, 0]"),
    ("odd hz", "cpus = 2", "cpus = 2\nhz = 24"),
    ("wrong unit", "\"64M\"", "\"64MB\""),
    ("size of wrong type", "\"64M\"", "0.5"),
    ("zones out of order", "\"Normal\"", "\"DMA\""),
    ("unknown zone", "\"Normal\"", "\"Device\""),
    (
        "a zone of 64 bits beside HighMem",
        "{ zone = \"Normal\", size = \"64M\" }",
        "{ zone = \"DMA32\", size = \"64M\" }, { zone = \"HighMem\", size = \"64M\" }",
    ),
    (
        "more low memory than a kernel of 32 bits has addresses for",
        "{ zone = \"Normal\", size = \"64M\" }",
        "{ zone = \"Normal\", size = \"3G\" }, { zone = \"HighMem\", size = \"64M\" }",
    ),
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
        "more inodes than memory holds",
        "cache = \"0\"",
        "cache = \"0\"\ninodes = 100000",
    ),
    (
        "more dentries than inodes",
        "cache = \"0\"",
        "cache = \"0\"\ninodes = 100\ndentries = 101",
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

#[test]
fn wrong_input_gets_one_error_with_place_key_and_what_is_accepted() {
    let count = (1..=50)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let mut all = String::new();
    let cases = IN_EXPERIMENT
        .iter()
        .map(|c| (c, true))
        .chain(IN_MACHINE.iter().map(|c| (c, false)));
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

/// Replaces complete lists of switches, presets and other names by a short name, so that a new
/// entry does not change the snapshot.
fn without_lists(text: &str) -> String {
    let switches = mm::Policy::SWITCHES.iter().map(|s| s.name);
    let filesystems = || sim::spec::FsKind::ALL.iter().map(|kind| kind.name());
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
    let text = text.replace(
        &format!("the {} param", sim::Params::TABLE.len()),
        "the N param",
    );
    lists.iter().fold(text, |text, (name, list)| {
        text.replace(&list.join(", "), name)
    })
}
