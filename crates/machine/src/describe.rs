//! Describes a captured machine as a machine file, which an experiment can use with `machine =
//! "FILE"`.

use crate::capture::{Captured, Disk, PAGE};
use crate::parse::Zone;
use crate::probe::Fit;
use crate::verify::{self, UnknownZone};
use mm::policy::Preset;
use sim::params::Params;
use sim::spec::{
    Boot, DiskKind, DiskSpec, Machine, NodeSpec, Scheduler, Size, SwapSpec, Sysctl, ZoneSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The start of every file that this module writes.
pub const HEADER: &str = "# Written by `lowmark machine`";

/// The engine's limit on CPUs.
const MOST_CPUS: usize = 64;
/// The engine's smallest zone, in pages.
const LEAST_ZONE: u64 = (1 << 20) / PAGE;
/// The capacity in bytes assumed for a machine without a visible disk.
const GUESSED_CAPACITY: u64 = 64 << 30;

/// Additions to the capture.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The machine's name in reports; `None`: its memory, as `9306M`.
    pub name: Option<&'a str>,
    /// The tested disk; `None`: unknown.
    pub disk: Option<&'a Disk>,
    /// A disk model fitted to measurements.
    pub fit: Option<&'a Fit>,
    /// The source of the capture's figures, if it is not /proc and /sys: a phrase for the file.
    pub source: Option<&'a str>,
    /// Sentences, without a full stop, on what the capture assumes.
    pub assumed: &'a [String],
}

/// A machine and its file.
#[derive(Debug, Clone)]
pub struct Described {
    /// The machine.
    pub machine: Machine,
    /// The file: TOML with comments.
    pub text: String,
    /// Facts that the engine can't represent, or that were guessed.
    pub notes: Vec<String>,
    /// The preset that is closest to the machine's kernel.
    pub preset: &'static str,
}

/// Describes a captured machine: converts it to the engine's machine, and writes that as a machine
/// file with comments and notes.
///
/// # Errors
/// A zone has a type that the engine does not support.
pub fn describe(captured: &Captured, options: &Options<'_>) -> Result<Described, UnknownZone> {
    let mut notes = options.assumed.to_vec();
    let (nodes, node_comments) = nodes(captured, &mut notes)?;
    let disk = disk(options, &mut notes);
    let (swap, swap_comment) = swap(captured, options.disk, &mut notes);
    let megabytes = captured.populated().map(|z| z.managed).sum::<u64>() / 256;
    let machine = Machine {
        name: options
            .name
            .map_or_else(|| format!("{megabytes}M"), str::to_owned),
        cpus: chosen_cpus(captured).len() as u32,
        params: BTreeMap::new(),
        hz: captured.hz.unwrap_or(250),
        cpu_speed: None,
        nodes,
        boot: boot(captured),
        swap,
        sysctl: sysctl(captured, &mut notes),
        disk,
        filesystem: None,
        mounts: Vec::new(),
    };
    if captured.cpus.len() > MOST_CPUS {
        notes.push(format!(
            "the machine has {} CPUs, but the engine supports at most {MOST_CPUS}: a subset of that size, evenly chosen, represents all CPUs",
            captured.cpus.len()
        ));
    }
    if captured.unmanaged_free() > 0 {
        notes.push(format!(
            "{} MiB of free memory belong to no zone yet and are left out: this kernel hands memory to its zones when it is needed; capture again when more of it is in use",
            captured.unmanaged_free() / 256
        ));
    }
    let preset = preset(captured, &mut notes);
    let text = Writer {
        preset,
        captured,
        options,
        machine: &machine,
        node_comments: &node_comments,
        swap_comment: &swap_comment,
        notes: &notes,
    }
    .text()?;
    Ok(Described {
        machine,
        preset: preset.name,
        text,
        notes,
    })
}

/// Returns the preset closest to the machine's kernel, and adds the known differences to `notes`.
fn preset(captured: &Captured, notes: &mut Vec<String>) -> &'static Preset {
    let (preset, differs) = captured.era().preset();
    notes.extend(differs);
    if captured.lru_gen == Some(true) {
        notes.push(
            "the multi-generational LRU is on: presets keep an active and an inactive list, as after \
             `echo n > /sys/kernel/mm/lru_gen/enabled`"
                .into(),
        );
    }
    preset
}

/// Returns the disk that experiments are most likely about: that of the root filesystem, or else
/// the largest.
pub fn likely_disk(captured: &Captured) -> Option<&Disk> {
    captured
        .root_device
        .as_deref()
        .and_then(|number| captured.disk_of(number))
        .or_else(|| captured.disks.iter().max_by_key(|d| d.bytes))
}

/// Returns the kind of disk model that the disk's properties suggest: its name, whether it rotates
/// or is removable, and its members if it is a RAID-0.
pub fn likely_kind(disk: &Disk) -> DiskKind {
    DiskKind::likely(&sim::disks::Described {
        name: &disk.name,
        rotational: disk.rotational,
        removable: disk.removable,
        raid0_members: disk.raid0_members,
    })
}

/// Describes a disk by the kernel's information only, without measurements.
pub fn likely_spec(disk: &Disk) -> DiskSpec {
    disk_spec(disk, likely_kind(disk))
}

/// Returns the nodes with memory, renumbered without gaps, and a comment for each. Zones below 1
/// MiB are left out, which is noted.
fn nodes(
    captured: &Captured,
    notes: &mut Vec<String>,
) -> Result<(Vec<NodeSpec>, Vec<String>), UnknownZone> {
    let mut by_node: BTreeMap<u32, Vec<ZoneSpec>> = BTreeMap::new();
    for (zone, info) in verify::zones(captured)? {
        if zone.managed < LEAST_ZONE {
            notes.push(format!(
                "zone {} of node {} has {} pages and is left out: the engine needs at least 1 MiB per zone",
                zone.name, zone.node, zone.managed
            ));
            continue;
        }
        by_node.entry(zone.node).or_default().push(ZoneSpec {
            zone: info.kind,
            size: Size(zone.managed * PAGE),
        });
    }
    let numbers: Vec<u32> = by_node.keys().copied().collect();
    let several = numbers.len() > 1;
    let comments = numbers
        .iter()
        .map(|node| match captured.node_cpus.get(node) {
            Some(cpus) if cpus.is_empty() && several => format!(
                "Node {node}, memory only: the other nodes name all CPUs (CPUs added by a larger `cpus` are spread over all nodes)."
            ),
            Some(cpus) if !cpus.is_empty() => format!("Node {node}, CPUs {}.", ranges(cpus)),
            _ => format!("Node {node}."),
        })
        .collect();
    let nodes = by_node
        .into_values()
        .zip(node_cpus(captured, &numbers, notes))
        .map(|(zones, cpus)| NodeSpec { zones, cpus })
        .collect();
    Ok((nodes, comments))
}

/// Returns the machine's CPUs that the engine's CPUs represent, in order: all, or as many as the
/// engine supports.
fn chosen_cpus(captured: &Captured) -> Vec<u32> {
    let all: Vec<u32> = captured.cpus.iter().copied().collect();
    let taken = all.len().min(MOST_CPUS);
    // Spread evenly, so that each node keeps its share.
    (0..taken).map(|i| all[i * all.len() / taken]).collect()
}

/// Returns the engine's CPUs of each of these nodes (the kernel's numbers); all empty if there is
/// one node or the capture does not tell. CPUs of nodes without memory go to the first node, which
/// is noted.
fn node_cpus(captured: &Captured, nodes: &[u32], notes: &mut Vec<String>) -> Vec<Vec<u32>> {
    let mut of_node = vec![Vec::new(); nodes.len()];
    if nodes.len() > 1 && captured.node_cpus.is_empty() {
        notes.push(
            "the CPUs of each node are unknown: CPUs are assigned to the nodes in turn".into(),
        );
    }
    if captured.node_cpus.is_empty() || nodes.is_empty() {
        return of_node;
    }
    // The index in `nodes` of the node that lists the CPU.
    let owner = |cpu: &u32| {
        let has = |node: &u32| {
            captured
                .node_cpus
                .get(node)
                .is_some_and(|c| c.contains(cpu))
        };
        nodes.iter().position(has)
    };
    let strays = captured.cpus.iter().filter(|cpu| owner(cpu).is_none());
    let strays = strays.count();
    if strays > 0 {
        notes.push(format!(
            "{strays} CPUs belong to no node that has memory; the engine has no such nodes and assigns these CPUs to the first node"
        ));
    }
    if nodes.len() > 1 {
        for (number, cpu) in (0..).zip(chosen_cpus(captured)) {
            of_node[owner(&cpu).unwrap_or(0)].push(number);
        }
    }
    of_node
}

/// Formats CPUs as the kernel does, with blanks: `0-3, 8`.
fn ranges(cpus: &BTreeSet<u32>) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let parts: Vec<String> = parts
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    parts.join(", ")
}

/// Returns the use of memory at the time of the capture, in bytes: `anon` and `cache` as the kernel
/// counts them, `dma` the used part of the DMA zone, and the rest as `kernel`.
fn boot(captured: &Captured) -> Boot {
    let zones = || captured.populated().filter(|z| z.managed >= LEAST_ZONE);
    let managed: u64 = zones().map(|z| z.managed).sum();
    let free: u64 = zones().map(|z| z.free.min(z.managed)).sum();
    let used = managed - free;
    let dma: u64 = zones()
        .filter(|z| z.name == "DMA")
        .map(|z| z.managed - z.free.min(z.managed))
        .sum();
    let anon = captured.memory_pages("AnonPages") + captured.memory_pages("Shmem");
    let anon = anon.min(used);
    let cache = captured.memory_pages("Active(file)") + captured.memory_pages("Inactive(file)");
    let cache = cache.min(used - anon);
    let kernel = (used - anon - cache).saturating_sub(dma);
    let size = |pages: u64| Size(pages * PAGE);
    Boot {
        kernel: size(kernel),
        dma: size(dma),
        anon: size(anon),
        cache: size(cache),
        inodes: 0,
        dentries: 0,
    }
}

/// Converts the captured vm settings to the engine's, within its limits. Settings that were not
/// captured are `None` or the kernel's defaults.
fn sysctl(captured: &Captured, notes: &mut Vec<String>) -> Sysctl {
    let s = &captured.settings;
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let formula = captured.era().marks(s.watermark_scale_factor);
    let movable = captured.populated().any(|z| z.name == "Movable");
    if movable && formula.scale_factor.is_some() && !formula.movable_apart {
        notes.push(
            "the kernel gives its Movable zones a share of the minimum; the engine, as Linux 6.6 and later, does not".into(),
        );
    }
    // The engine's limits are below a day.
    let most_centisecs = 8_640_000;
    Sysctl {
        dirty_background_ratio: small(s.dirty_background_ratio),
        dirty_ratio: small(s.dirty_ratio),
        dirty_background_bytes: Size(s.dirty_background_bytes),
        dirty_bytes: Size(s.dirty_bytes),
        dirty_writeback_centisecs: small(s.dirty_writeback_centisecs).min(most_centisecs),
        dirty_expire_centisecs: small(s.dirty_expire_centisecs).min(most_centisecs),
        min_free_kbytes: Some(s.min_free_kbytes),
        wmark_min_kbytes: None,
        wmark_low_kbytes: None,
        wmark_high_kbytes: None,
        watermark_scale_factor: formula.scale_factor.map(|n| small(n).clamp(1, 3000)),
        watermark_boost_factor: s.watermark_boost_factor.map(|n| small(n).min(100_000)),
        xfssyncd_centisecs: None,
        panic_on_oom: None,
        oom_kill_allocating_task: None,
        lowmem_reserve_ratio: verify::reserve_ratios(captured).map(small),
        highmem_is_dirtyable: None, // not captured
        swappiness: small(s.swappiness).min(200),
        vfs_cache_pressure: small(s.vfs_cache_pressure).min(i32::MAX as u32),
        ..Sysctl::KERNEL
    }
}

/// Combines the swap areas into one. Returns it (`None`: no swap of at least 1 MiB) and a comment
/// for the file. `tested` is the tested disk; swap on another disk gets a disk of its own. Areas in
/// zram are left out.
fn swap(
    captured: &Captured,
    tested: Option<&Disk>,
    notes: &mut Vec<String>,
) -> (Option<SwapSpec>, String) {
    let (compressed, areas): (Vec<_>, Vec<_>) = captured
        .swaps
        .iter()
        .partition(|area| area.name.contains("/zram"));
    if !compressed.is_empty() {
        notes.push(
            "swap areas in compressed memory (zram) are left out: the engine has none".into(),
        );
    }
    let kbytes: u64 = areas.iter().map(|area| area.kbytes).sum();
    // The engine's smallest swap area is a MiB.
    if kbytes < 1024 {
        return (None, "No swap.".into());
    }
    // The disk that holds the area.
    let on = |area: &crate::parse::SwapArea| {
        let device = area.name.strip_prefix("/dev/")?;
        captured.disks.iter().find(|d| d.has_device(device))
    };
    let other = areas
        .iter()
        .find_map(|area| on(area))
        .filter(|d| tested.is_some_and(|t| t.name != d.name));
    if let Some(disk) = other {
        note_scheduler(disk, notes);
    }
    let several = if areas.len() > 1 {
        format!("{} areas as one. ", areas.len())
    } else {
        String::new()
    };
    let comment = match other {
        Some(d) => format!("{several}On another disk, {}.", d.name),
        None => format!("{several}On the tested disk."),
    };
    let spec = SwapSpec {
        // In whole pages.
        size: Size(kbytes / 4 * PAGE),
        disk: other.map(likely_spec),
    };
    (Some(spec), comment)
}

/// Describes the tested disk by the kernel's information and, if it was measured, the fitted model.
/// Without a disk, makes up an SSD and notes it.
fn disk(options: &Options<'_>, notes: &mut Vec<String>) -> DiskSpec {
    let Some(disk) = options.disk else {
        notes.push("no block device was found: the disk is a guess".into());
        return DiskSpec {
            scheduler: Some(Scheduler::Deadline),
            kind: DiskKind::Ssd,
            capacity: Size(GUESSED_CAPACITY),
            members: None,
            params: BTreeMap::new(),
            faults: Vec::new(),
        };
    };
    note_scheduler(disk, notes);
    let mut spec = disk_spec(
        disk,
        options.fit.map_or_else(|| likely_kind(disk), |f| f.kind),
    );
    if let Some(fit) = options.fit {
        let values = fit.params.iter().map(|p| (p.name.to_owned(), p.value));
        spec.params.extend(values);
    } else {
        notes.push(format!(
            "the figures of disk {} are the model's: `--probe DIR` measures it",
            disk.name
        ));
    }
    spec
}

/// Returns the engine's scheduler for the kernel's, and whether it is of the same kind.
///
/// `mq-deadline` is the deadline scheduler for many queues. `bfq` is derived from `cfq`: a queue
/// for each process, turns by budget, idling for a process that will read on. With `noop` and
/// `kyber` requests are dispatched in order of arrival, but reads and writes have separate
/// requests; `deadline` separates those, too.
fn scheduler(disk: &Disk) -> (Scheduler, bool) {
    match disk.scheduler.as_deref() {
        Some("deadline" | "mq-deadline") => (Scheduler::Deadline, true),
        Some("cfq" | "bfq") => (Scheduler::Cfq, true),
        Some("none") => (Scheduler::None, true),
        _ => (Scheduler::Deadline, false),
    }
}

/// Notes that the disk's scheduler is not modelled, if that is so.
fn note_scheduler(disk: &Disk, notes: &mut Vec<String>) {
    if let (Some(name), (_, false)) = (&disk.scheduler, scheduler(disk)) {
        notes.push(format!(
            "disk {} has the I/O scheduler {}, which is not modelled: deadline replaces it, so waiting requests are sorted",
            plain(&disk.name),
            plain(name)
        ));
    }
}

/// Describes a disk as a model of this kind, with the limits of its request queue as the kernel
/// reports them. Values are clamped to the model's range.
fn disk_spec(disk: &Disk, kind: DiskKind) -> DiskSpec {
    let mut params = BTreeMap::new();
    let known = [
        ("nr_requests", disk.nr_requests.map(|n| n as f64)),
        (
            "max_request",
            disk.max_sectors_kb
                .map(|kb| (kb as f64 / 4.0).floor() * 4096.0),
        ),
    ];
    for (name, value) in known {
        let info = Params::TABLE.iter().find(|p| p.name == name);
        if let (Some(value), Some(info)) = (value, info)
            && kind.takes(info)
        {
            params.insert(name.to_owned(), value.clamp(info.min, info.max));
        }
    }
    DiskSpec {
        scheduler: Some(scheduler(disk).0),
        kind,
        capacity: Size((disk.bytes / PAGE * PAGE).max(1 << 20)),
        members: (kind.about().array.as_ref()).map(|array| {
            disk.raid0_members
                .map_or(*array.members.start(), |n| n as u32)
        }),
        params,
        faults: Vec::new(),
    }
}

/// Writes the text of a machine file.
struct Writer<'a> {
    preset: &'a Preset,
    captured: &'a Captured,
    options: &'a Options<'a>,
    machine: &'a Machine,
    node_comments: &'a [String],
    swap_comment: &'a str,
    notes: &'a [String],
}

impl Writer<'_> {
    /// Returns the whole machine file: TOML in which comments say where each value comes from.
    fn text(&self) -> Result<String, UnknownZone> {
        let (c, m) = (self.captured, self.machine);
        let mut out = format!(
            "{HEADER} from {} of Linux {}.\n",
            self.options.source.unwrap_or("/proc and /sys"),
            plain(&c.release)
        );
        out += "# Sizes are powers of 1024; pages have 4 KiB; a zone's size is what its allocator manages.\n";
        out += &comment(&format!(
            "Nearest preset of this kernel: policy = {:?} ({}).",
            self.preset.name, self.preset.date
        ));
        for note in self.notes {
            out += &comment(&format!("Note: {note}."));
        }
        put(&mut out, format_args!("name = {}", quoted(&m.name)));
        put(&mut out, format_args!("cpus = {}", m.cpus));
        let source = if c.hz.is_some() {
            "timer ticks a second, CONFIG_HZ"
        } else {
            "timer ticks a second; a guess: the kernel does not show it"
        };
        put(&mut out, format_args!("hz = {} # {source}", m.hz));
        self.nodes(&mut out);
        self.boot(&mut out);
        self.sysctl(&mut out)?;
        self.swap(&mut out);
        self.disk(&mut out);
        Ok(out)
    }

    /// Appends a `[[node]]` table for each node: its zones with their size and the kernel's marks,
    /// and its CPUs.
    fn nodes(&self, out: &mut String) {
        let mut zones = self
            .captured
            .populated()
            .filter(|z| z.managed >= LEAST_ZONE);
        // `said`: the comment about the node.
        for (node, said) in self.machine.nodes.iter().zip(self.node_comments) {
            *out += "\n";
            *out += &comment(said);
            *out += "[[node]]\nzones = [\n";
            for zone in &node.zones {
                let is = zones.next().map(zone_comment).unwrap_or_default();
                put(
                    out,
                    format_args!(
                        "    {{ zone = \"{}\", size = {} }}, # {is}",
                        zone.zone.name(),
                        size(zone.size)
                    ),
                );
            }
            *out += "]\n";
            if !node.cpus.is_empty() {
                *out += "cpus = [\n";
                for row in node.cpus.chunks(16) {
                    let row: Vec<String> = row.iter().map(u32::to_string).collect();
                    put(out, format_args!("    {},", row.join(", ")));
                }
                *out += "]\n";
            }
        }
    }

    /// Appends the `[boot]` table: the use of memory at the moment of the capture.
    fn boot(&self, out: &mut String) {
        let b = &self.machine.boot;
        *out += "\n# In memory at the moment of the capture.\n[boot]\n";
        for (key, value, said) in [
            (
                "kernel",
                b.kernel,
                "all the rest: kernel, slab, page tables; never reclaimed",
            ),
            ("dma", b.dma, "used of the DMA zone"),
            ("anon", b.anon, "AnonPages and Shmem"),
            (
                "cache",
                b.cache,
                "Active(file) and Inactive(file), as clean pages",
            ),
        ] {
            put(out, format_args!("{key} = {} # {said}", size(value)));
        }
    }

    /// Appends the `[sysctl]` table. A comment says how `min_free_kbytes` came about.
    fn sysctl(&self, out: &mut String) -> Result<(), UnknownZone> {
        let (s, c) = (&self.machine.sysctl, self.captured);
        let zones = verify::zones(c)?;
        let min_free = verify::min_free(c, &zones);
        *out += "\n[sysctl]\n";
        for (key, value) in [
            (
                "dirty_background_ratio",
                s.dirty_background_ratio.to_string(),
            ),
            ("dirty_ratio", s.dirty_ratio.to_string()),
            ("dirty_background_bytes", size(s.dirty_background_bytes)),
            ("dirty_bytes", size(s.dirty_bytes)),
            (
                "dirty_writeback_centisecs",
                s.dirty_writeback_centisecs.to_string(),
            ),
            (
                "dirty_expire_centisecs",
                s.dirty_expire_centisecs.to_string(),
            ),
        ] {
            put(out, format_args!("{key} = {value}"));
        }
        let raised = min_free.raised.map_or_else(String::new, |kb| {
            format!(", raised by khugepaged to {kb} kB")
        });
        *out += &comment(&format!(
            "Set by {}; the kernel's formula gives {} kB{raised}.",
            min_free.origin.phrase(),
            min_free.formula
        ));
        put(out, format_args!("min_free_kbytes = {}", min_free.actual));
        if let Some(factor) = s.watermark_scale_factor {
            put(out, format_args!("watermark_scale_factor = {factor}"));
        }
        put(
            out,
            format_args!(
                "lowmem_reserve_ratio = {:?} # DMA, DMA32, Normal",
                s.lowmem_reserve_ratio
            ),
        );
        put(out, format_args!("swappiness = {}", s.swappiness));
        if let Some(factor) = s.watermark_boost_factor {
            put(out, format_args!("watermark_boost_factor = {factor}"));
        }
        put(
            out,
            format_args!("vfs_cache_pressure = {}", s.vfs_cache_pressure),
        );
        Ok(())
    }

    /// Appends the `[swap]` table and that of its own disk, if there are any, after a comment.
    fn swap(&self, out: &mut String) {
        *out += "\n";
        *out += &comment(self.swap_comment);
        if let Some(swap) = &self.machine.swap {
            put(out, format_args!("[swap]\nsize = {}", size(swap.size)));
            if let Some(disk) = &swap.disk {
                *out += "\n[swap.disk]\n";
                disk_keys(disk, out);
                disk_params("swap.disk.params", disk, &BTreeMap::new(), out);
            }
        }
    }

    /// Appends the `[disk]` table, after comments with the kernel's information about the disk and,
    /// if it was measured, the fit.
    fn disk(&self, out: &mut String) {
        *out += "\n";
        if let Some(d) = self.options.disk {
            let or = |n: Option<u64>| n.map_or_else(|| "unknown".into(), |n| n.to_string());
            *out += &comment(&format!(
                "Disk {}: {}, scheduler {}, write cache {}, read-ahead {} kB (the engine's: `read_ahead` in an experiment's [params], in pages), max_sectors_kb {}, nr_requests {}.",
                plain(&d.name),
                if d.rotational {
                    "rotational"
                } else {
                    "not rotational"
                },
                plain(d.scheduler.as_deref().unwrap_or("unknown")),
                if d.write_back {
                    "write back"
                } else {
                    "write through or none"
                },
                or(d.read_ahead_kb),
                or(d.max_sectors_kb),
                or(d.nr_requests),
            ));
        }
        let mut units = BTreeMap::new();
        if let Some(fit) = self.options.fit {
            for line in fit.to_text().lines() {
                *out += format!("# {line}").trim_end();
                *out += "\n";
            }
            units = fit
                .params
                .iter()
                .map(|p| (p.name, p.from.clone()))
                .collect();
        }
        *out += "[disk]\n";
        disk_keys(&self.machine.disk, out);
        disk_params("disk.params", &self.machine.disk, &units, out);
    }
}

/// Appends a line to the text.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    let _ = out.write_fmt(line);
    out.push('\n');
}

/// Returns the comment about a captured zone: its managed and present pages, and the watermarks
/// min, low and high in pages.
fn zone_comment(zone: &Zone) -> String {
    let [min, low, high] = zone.marks;
    format!(
        "{} pages of {} present; the kernel's marks: {min}, {low}, {high}",
        zone.managed, zone.present
    )
}

/// Appends the keys of a disk's table.
fn disk_keys(disk: &DiskSpec, out: &mut String) {
    let kind = serde_json::to_value(disk.kind).unwrap_or_default();
    put(out, format_args!("kind = {kind}"));
    put(out, format_args!("capacity = {}", size(disk.capacity)));
    let scheduler = serde_json::to_value(disk.scheduler()).unwrap_or_default();
    put(out, format_args!("scheduler = {scheduler}"));
    if let Some(members) = disk.members {
        put(out, format_args!("members = {members}"));
    }
}

/// Appends the table of a disk's model parameters, if it has any. Each has a comment with its unit
/// and its source: the text in `from`, or else the kernel's setting.
fn disk_params(
    table: &str,
    disk: &DiskSpec,
    from: &BTreeMap<&'static str, String>,
    out: &mut String,
) {
    if disk.params.is_empty() {
        return;
    }
    put(out, format_args!("\n[{table}]"));
    for (name, value) in &disk.params {
        let info = Params::TABLE.iter().find(|p| p.name == name);
        let unit = info.map_or("", |p| p.unit);
        let at_most = info.is_some_and(|p| p.max == *value);
        let comment = match from.get(name.as_str()) {
            Some(comment) => comment,
            None if at_most => "the kernel's setting is at least this value, the model's maximum",
            None => "the kernel's setting",
        };
        // A float keeps its decimal point, so that it is read as a float.
        put(out, format_args!("{name} = {value:?} # {unit}; {comment}"));
    }
}

/// Formats a size in the largest unit that divides it, quoted; 0 plain.
fn size(bytes: Size) -> String {
    serde_json::to_string(&bytes).unwrap_or_else(|_| bytes.0.to_string())
}

/// Returns the text as a quoted TOML string, with escapes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Reduces untrusted text to at most 120 characters without control characters, so that it stays on
/// one line of a comment.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Formats text as a comment of `#` lines of at most 99 characters.
fn comment(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 99 && line.len() > 1 {
            out += &line;
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line += word;
    }
    out + &line + "\n"
}
