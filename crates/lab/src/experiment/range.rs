//! Checks values that have the right type and may still be impossible for a machine.

use super::disks;
use super::node::{Node, Value};
use crate::diagnostic::{Diagnostic, one_of};
use mm::sysctl::Fits;
use sim::params::{ParamInfo, Params};
use sim::spec::{DiskKind, DiskSpec, Fault, Machine, Size, ZoneSpec};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Least size of a zone in bytes: real zones may have a few pages only.
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Shortest time between samples, in seconds. Each sample takes some microseconds of the host, so
/// that samples take at most a tenth of a second for each simulated second. Their memory is bounded
/// anyway (`sim::sample` drops every second one).
const LEAST_SAMPLE: f64 = 1e-4;
/// Shortest time limit of a run, in seconds.
const LEAST_SECONDS: f64 = 1e-6;
/// Most memory in bytes that the engine's page-table entries can address.
const MOST_MEMORY: u64 = (mm::cache::mmap::MAX_FRAMES as u64) << 12;

/// Bytes that an inode and its dentry take at most, roughly, on the filesystems that there are.
const OBJECT_BYTES: u64 = 1280;

/// Checks the numbers of inodes and dentries at boot against each other and the memory that is
/// `left`, in bytes, beside the rest.
///
/// # Errors
/// Returns the first number that is too large.
fn boot_objects(machine: &Machine, left: u64, at: &At<'_>) -> Result<(), Diagnostic> {
    let boot = &machine.boot;
    let most = left / OBJECT_BYTES;
    at.range(&["boot", "inodes"], boot.inodes.into(), 0, most)?;
    at.range(
        &["boot", "dentries"],
        boot.dentries.into(),
        0,
        boot.inodes.into(),
    )
}

/// Checks the values of a machine, which have the right types, for their ranges and against each
/// other. `node` is the table that it was read from, for the places of mistakes.
///
/// # Errors
/// Returns the first value that is out of its range.
pub fn machine(machine: &Machine, node: &Node) -> Result<(), Diagnostic> {
    let at = At {
        node,
        path: "machine",
    };
    at.name(&["name"], &machine.name)?;
    at.range(&["cpus"], machine.cpus.into(), 1, 64)?;
    if ![100, 250, 300, 1000].contains(&machine.hz) {
        return Err(at.outside(&["hz"], machine.hz, "100, 250, 300 or 1000"));
    }
    let known = Params::TABLE.iter().filter(|p| Machine::takes(p));
    own_params(
        &machine.params,
        known,
        "CPUs and memory have",
        &["params"],
        &at,
    )?;
    let total = memory(machine, &at)?;
    node_cpus(machine, &at)?;
    let boot = &machine.boot;
    let in_use = boot
        .kernel
        .0
        .saturating_add(boot.anon.0)
        .saturating_add(boot.cache.0);
    if in_use > total {
        let shown = format!("{} in use at boot, of {} in all", size(in_use), size(total));
        return Err(at.wrong(&["boot"], shown, "no more than the machine's memory"));
    }
    boot_objects(machine, total - in_use, &at)?;
    if let Some(swap) = &machine.swap {
        at.size(&["swap", "size"], swap.size, MIB, TIB)?;
        if let Some(d) = &swap.disk {
            disk(d, &["swap", "disk"], &at)?;
        }
        // Swap on the disk of a filesystem must leave the least size of a disk for the filesystem.
        let room = match &swap.disk {
            Some(d) => d.capacity.0,
            None => machine.disk.capacity.0.saturating_sub(MIB),
        };
        if swap.size.0 > room {
            let accepted = format!("up to {}, the free space of its disk", size(room));
            return Err(at.outside(&["swap", "size"], size(swap.size.0), accepted));
        }
    }
    sysctl(machine, &["sysctl"], &at)?;
    for second in machine.mounts.iter().filter(|m| m.is_second) {
        at.name(&["second", "mount"], &second.mount)?;
    }
    for (path, spec) in disks::paths(machine, node) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        disk(spec, &path, &at)?;
    }
    Ok(())
}

/// Checks the sizes and the order of nodes and zones. Returns the machine's memory in bytes.
fn memory(machine: &Machine, at: &At<'_>) -> Result<u64, Diagnostic> {
    if machine.nodes.is_empty() || machine.nodes.len() > 64 {
        return Err(at.outside(
            &["node"],
            format!("{} nodes", machine.nodes.len()),
            "1 to 64 tables [[machine.node]] ([[node]] in a machine file), each with a list of zones",
        ));
    }
    let mut total = 0u64;
    for (n, node) in machine.nodes.iter().enumerate() {
        let n = n.to_string();
        if node.zones.is_empty() {
            return Err(at.wrong(
                &["node", &n, "zones"],
                "the node has no zone",
                "at least one zone per node",
            ));
        }
        for (z, zone) in node.zones.iter().enumerate() {
            let most = match zone.zone {
                mm::ZoneType::Dma => 16 * MIB,
                mm::ZoneType::Dma32 => 4 * GIB,
                _ => 16 * TIB,
            };
            let index = z.to_string();
            let path = ["node", &n, "zones", &index, "size"];
            if z > 0 && node.zones[z - 1].zone >= zone.zone {
                let shown = format!(
                    "zone {} comes after zone {}",
                    zone.zone.name(),
                    node.zones[z - 1].zone.name()
                );
                return Err(at.wrong(
                    &["node", &n, "zones", &index, "zone"],
                    shown,
                    "each zone once, in the order DMA, DMA32, Normal, Movable, HighMem",
                ));
            }
            at.size(&path, zone.size, PAGE, most)?;
            if zone.size.0 % 4096 != 0 {
                return Err(at.wrong(
                    &path,
                    format!("{} bytes are not a whole number of pages", zone.size.0),
                    "whole pages of 4 KiB",
                ));
            }
            total = total.saturating_add(zone.size.0);
        }
    }
    of_one_width(machine, at)?;
    let movable = |z: &ZoneSpec| !z.zone.kernel_may_use();
    if machine.nodes.iter().flat_map(|n| &n.zones).all(movable) {
        return Err(at.wrong(
            &["node"],
            "all memory is in zones Movable or HighMem, which cannot hold the kernel's own pages",
            "a zone DMA, DMA32 or Normal on one of the nodes",
        ));
    }
    // Zones take whole blocks of 4 MiB in the frame table.
    let zones = machine.nodes.iter().flat_map(|n| &n.zones);
    // Bytes of all zones, each rounded up to such blocks.
    let whole = zones
        .map(|z| z.size.0.next_multiple_of(4 * MIB))
        .sum::<u64>();
    if total < 4 * MIB || whole > MOST_MEMORY {
        return Err(at.outside(
            &["node"],
            format!("{} of memory", size(total)),
            "4M to 2T in all zones, each counted in whole blocks of 4M",
        ));
    }
    Ok(total)
}

/// Checks that a machine with HighMem is one of 32 bits: it has neither DMA32 nor Movable memory,
/// no more low memory than the kernel has addresses for (3 GiB if programs have one, `VMSPLIT_1G`),
/// and no more memory than PAE reaches.
fn of_one_width(machine: &Machine, at: &At<'_>) -> Result<(), Diagnostic> {
    let zones = || machine.nodes.iter().flat_map(|n| &n.zones);
    let memory_of = |wanted: fn(&ZoneSpec) -> bool| {
        let sizes = zones().filter(|z| wanted(z)).map(|z| z.size.0);
        sizes.fold(0u64, u64::saturating_add)
    };
    let high = memory_of(|z| z.zone == mm::ZoneType::HighMem);
    if high == 0 {
        return Ok(());
    }
    for (n, node) in machine.nodes.iter().enumerate() {
        for (z, zone) in node.zones.iter().enumerate() {
            if matches!(zone.zone, mm::ZoneType::Dma32 | mm::ZoneType::Movable) {
                let (n, z) = (n.to_string(), z.to_string());
                let shown = format!("{} on a machine with HighMem", zone.zone.name());
                let path = ["node", &n, "zones", &z, "zone"];
                return Err(at.wrong(
                    &path,
                    shown,
                    "DMA, Normal and HighMem, the zones of 32-bit kernels",
                ));
            }
        }
    }
    let low = memory_of(|z| z.zone != mm::ZoneType::HighMem);
    if low > 3 * GIB || low.saturating_add(high) > 64 * GIB {
        let shown = format!("{} below HighMem and {} of HighMem", size(low), size(high));
        let accepted = "on a machine with HighMem, up to 3G below it and 64G in all";
        return Err(at.outside(&["node"], shown, accepted));
    }
    Ok(())
}

/// Checks that each CPU is listed at one NUMA node at most. CPUs from the machine's `cpus` on are
/// ignored, so that `cpus` can be varied, but must be below 64.
fn node_cpus(machine: &Machine, at: &At<'_>) -> Result<(), Diagnostic> {
    let mut owner = [None; 64];
    for (n, node) in machine.nodes.iter().enumerate() {
        let text = n.to_string();
        for (i, &cpu) in node.cpus.iter().enumerate() {
            let path = ["node", &text, "cpus", &i.to_string()];
            at.range(&path, cpu.into(), 0, 63)?;
            if let Some(other) = owner[cpu as usize].replace(n) {
                let shown = format!("CPU {cpu} is also listed at node {other}");
                return Err(at.wrong(&path, shown, "each CPU once"));
            }
        }
    }
    Ok(())
}

/// Checks the values of a disk: its capacity, the number of an array's members, its model
/// parameters, and the times of its faults. `path` is its path in the machine.
fn disk(disk: &DiskSpec, path: &[&str], at: &At<'_>) -> Result<(), Diagnostic> {
    let under = |key| [path, &[key]].concat();
    at.size(&under("capacity"), disk.capacity, MIB, 1024 * TIB)?;
    let array = disk.kind.about().array.as_ref();
    match (array.map(|a| &a.members), disk.members) {
        (Some(range), Some(members)) => {
            let (least, most) = (*range.start(), *range.end());
            at.range(&under("members"), members.into(), least.into(), most.into())?;
        }
        (Some(range), None) => {
            let (least, most) = range.clone().into_inner();
            return Err(at.wrong(
                path,
                format!("a {} needs `members`", disk.kind.name()),
                format!("members = {least} to {most}"),
            ));
        }
        (None, Some(members)) => {
            let arrays = DiskKind::ALL.iter().filter(|k| k.about().array.is_some());
            let arrays: Vec<_> = arrays.map(|k| format!("\"{}\"", k.name())).collect();
            return Err(at.wrong(
                &under("members"),
                format!("{members} members of a single disk"),
                format!("this key only with kind = {}", arrays.join(" or ")),
            ));
        }
        (None, None) => {}
    }
    let known = Params::TABLE.iter().filter(|p| disk.kind.takes(p));
    own_params(
        &disk.params,
        known,
        "a disk of this kind has",
        &under("params"),
        at,
    )?;
    for (i, fault) in disk.faults.iter().enumerate() {
        let (at_s, for_s) = match *fault {
            Fault::WriteError { at_s, for_s } | Fault::Stall { at_s, for_s } => (at_s, for_s),
            Fault::Stop { at_s } => (at_s, 1.0),
        };
        let index = i.to_string();
        let here = |key| [path, &["faults", &index, key]].concat();
        if !(0.0..=1e7).contains(&at_s) {
            return Err(at.outside(&here("at_s"), at_s, "0 to 10000000 seconds"));
        }
        if !(for_s > 0.0 && for_s <= 1e7) {
            return Err(at.outside(&here("for_s"), for_s, "more than 0, up to 10000000 seconds"));
        }
    }
    Ok(())
}

/// Checks model parameters that a disk or a machine sets: each must be among `known`, and in its
/// range. `whose` names the owner in messages, and `path` is the path of the table of parameters.
fn own_params(
    values: &BTreeMap<String, f64>,
    known: impl Iterator<Item = &'static ParamInfo>,
    whose: &str,
    path: &[&str],
    at: &At<'_>,
) -> Result<(), Diagnostic> {
    let known: Vec<&ParamInfo> = known.collect();
    for (name, value) in values {
        let here = [path, &[name]].concat();
        let Some(info) = known.iter().find(|p| p.name == name) else {
            let names: Vec<&str> = known.iter().map(|p| p.name).collect();
            let what = format!("{whose} no such parameter");
            let accepted = one_of(name, &names);
            return Err(Diagnostic {
                accepted,
                ..at.wrong(&here, what, "")
            });
        };
        if !(info.min..=info.max).contains(value) {
            let accepted = format!("{} to {} {}", info.min, info.max, info.unit);
            return Err(at.outside(&here, value, accepted));
        }
    }
    Ok(())
}

/// Checks that all values in a disk's list `faults` but `kind` are numbers (of seconds). Serde
/// would refuse them too, but without their place, because it reads a tagged table through a
/// buffer. `path` is the disk's key in messages.
///
/// # Errors
/// Fails on a value that is no number.
pub fn faults(disk: Option<&Node>, path: &str) -> Result<(), Diagnostic> {
    let table = disk.and_then(Node::table);
    let list = table.and_then(|t| t.get("faults")).map(|n| &n.value);
    let Some(Value::List(list)) = list else {
        return Ok(());
    };
    for (i, fault) in list.iter().enumerate() {
        for entry in fault
            .table()
            .iter()
            .flat_map(|t| &t.0)
            .filter(|e| e.key != "kind")
        {
            if !matches!(entry.node.value, Value::Int(_) | Value::Float(_)) {
                return Err(Diagnostic::at(
                    &entry.node.place,
                    format!(
                        "`{path}.faults.{i}.{}`: {} does not fit here",
                        entry.key,
                        entry.node.kind()
                    ),
                    "accepted: a number of seconds",
                ));
            }
        }
    }
    Ok(())
}

/// The place of the values that are checked.
pub struct At<'a> {
    /// The tree that they were read from.
    pub node: &'a Node,
    /// The key of the tree.
    pub path: &'a str,
}

impl At<'_> {
    /// Builds the error for a value that is out of its range.
    fn outside(&self, path: &[&str], value: impl Display, accepted: impl Display) -> Diagnostic {
        self.wrong(path, format!("{value} is out of range"), accepted)
    }

    /// Builds the error `what` for the value at a path below this tree, at its place in the file;
    /// `accepted` says which values are possible.
    fn wrong(&self, path: &[&str], what: impl Display, accepted: impl Display) -> Diagnostic {
        let dot = if self.path.is_empty() { "" } else { "." };
        let key = path.join(".");
        Diagnostic::at(
            &self.node.nearest(path).place,
            format!("`{}{dot}{key}`: {what}", self.path),
            format!("accepted: {accepted}"),
        )
    }

    /// Checks that a whole number, the value at `path`, is at least `min` and at most `max`.
    ///
    /// # Errors
    /// Fails if it is not.
    pub fn range(&self, path: &[&str], value: u64, min: u64, max: u64) -> Result<(), Diagnostic> {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(self.outside(path, value, format!("{min} to {max}")))
    }

    /// Checks that a number of seconds, the value at `path`, is between 0 and `max`.
    ///
    /// # Errors
    /// Fails if it is not.
    pub fn seconds(&self, path: &[&str], value: f64, max: f64) -> Result<(), Diagnostic> {
        if (0.0..=max).contains(&value) {
            return Ok(());
        }
        Err(self.outside(path, value, format!("0 to {max} seconds")))
    }

    /// Checks the seconds between samples (0, or at least [`LEAST_SAMPLE`]) and the seconds after
    /// which a run is given up (0, or at least a microsecond).
    ///
    /// # Errors
    /// Fails if it is shorter, or the time limit is too short to be simulated.
    pub fn samples(&self, sample: f64, time_limit: f64) -> Result<(), Diagnostic> {
        if time_limit > 0.0 && time_limit < LEAST_SECONDS {
            let accepted = format!("0 (no limit), or {LEAST_SECONDS} to 10000000 seconds");
            return Err(self.outside(&["time_limit_s"], time_limit, accepted));
        }
        if sample == 0.0 || sample >= LEAST_SAMPLE {
            return Ok(());
        }
        let shown = format!("{sample} makes too many samples per simulated second");
        let accepted = format!("0 (no series), or {LEAST_SAMPLE} to 3600 seconds");
        Err(self.wrong(&["sample_s"], shown, accepted))
    }

    /// Checks the value at `path`, a name that is used for a folder, a table's cell and a mount
    /// point.
    ///
    /// # Errors
    /// Fails on an empty or long name, and on one with other characters.
    pub fn name(&self, path: &[&str], name: &str) -> Result<(), Diagnostic> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.is_empty() && name.len() <= 80 && name.chars().all(plain) && !name.starts_with('.')
        {
            return Ok(());
        }
        let shown = format!("{name:?} is not a valid folder name");
        Err(self.wrong(
            path,
            shown,
            "1 to 80 letters, digits, `-`, `_` and `.`, not first a `.`",
        ))
    }

    /// Checks that a size, the value at `path`, is at least `min` and at most `max` bytes.
    fn size(&self, path: &[&str], value: Size, min: u64, max: u64) -> Result<(), Diagnostic> {
        if (min..=max).contains(&value.0) {
            return Ok(());
        }
        Err(self.outside(
            path,
            size(value.0),
            format!("{} to {}", size(min), size(max)),
        ))
    }
}

/// Formats a size with its unit.
fn size(bytes: u64) -> String {
    match serde_json::to_value(Size(bytes)) {
        Ok(serde_json::Value::String(s)) => s,
        _ => bytes.to_string(),
    }
}

/// Checks that each vm sysctl of a machine is in its range, and that its watermarks ascend; `path`
/// is the path of the sysctls in the file.
///
/// # Errors
/// Returns the first value that is out of its range.
pub fn sysctl(machine: &Machine, path: &[&str], at: &At<'_>) -> Result<(), Diagnostic> {
    let zones = || machine.nodes.iter().flat_map(|n| &n.zones);
    let total: u64 = zones().map(|z| z.size.0 / 1024).sum();
    for (info, values) in machine.sysctl.values() {
        let path = [path, &[info.key]].concat();
        for &value in &values {
            match info.fits {
                Fits::Number(least, most) | Fits::Three(least, most) => {
                    at.range(&path, value, least, most)?;
                }
                Fits::ZeroOr(..) if value == 0 => {}
                Fits::ZeroOr(least, most) => {
                    if !(least..=most).contains(&value) {
                        let accepted = format!("0, or {least} to {most}");
                        return Err(at.outside(&path, value, accepted));
                    }
                }
                Fits::Bytes(least, most) => at.size(&path, Size(value), least, most)?,
                Fits::HalfOfMemory => at.range(&path, value, 0, total / 2)?,
            }
        }
    }
    wmarks(machine, path, at)
}

/// Finds a sysctl that the kernel modelled by a policy does not have, or not with this value.
/// Returns its key, the mistake, and the accepted values; `None` if the kernel has them all.
pub fn not_of(policy: &mm::Policy, sysctl: &mm::Sysctl) -> Option<(&'static str, String, String)> {
    let (name, most) = (&policy.name, policy.most_swappiness);
    if sysctl.swappiness > most {
        let what = format!("{} is out of range with {name}", sysctl.swappiness);
        let accepted = format!(
            "0 to {most}; up to 200 with a policy of Linux 5.8 or later, such as linux-6.12 (`most_swappiness`)"
        );
        return Some(("swappiness", what, accepted));
    }
    let batches = policy.per_cpu_lists == mm::policy::PerCpuLists::Batches;
    if sysctl.percpu_pagelist_high_fraction > 0 && batches {
        let what = format!("{name} does not have this sysctl, which Linux 5.14 introduced");
        let accepted = "0, or a policy whose lists follow the watermarks, such as linux-6.12 (`per_cpu_lists`)";
        return Some(("percpu_pagelist_high_fraction", what, accepted.to_owned()));
    }
    None
}

/// Checks that the kernel modelled by a policy has all sysctls that are set ([`not_of`]).
///
/// # Errors
/// Returns the first sysctl that it does not have.
pub fn sysctl_of(policy: &mm::Policy, sysctl: &mm::Sysctl, at: &At<'_>) -> Result<(), Diagnostic> {
    match not_of(policy, sysctl) {
        Some((key, what, accepted)) => Err(at.wrong(&[key], what, accepted)),
        None => Ok(()),
    }
}

/// Checks that the watermarks that the sysctls set ascend from min over low to high, and that the
/// two names of the minimum do not contradict each other.
fn wmarks(machine: &Machine, path: &[&str], at: &At<'_>) -> Result<(), Diagnostic> {
    let sysctl = &machine.sysctl;
    let under = |key| [path, &[key]].concat();
    if let (Some(free), Some(min)) = (sysctl.min_free_kbytes, sysctl.wmark_min_kbytes)
        && free != min
    {
        let shown = format!("{min} here contradicts min_free_kbytes = {free}");
        let accepted = "one of the two keys, or the same value for both";
        return Err(at.wrong(&under("wmark_min_kbytes"), shown, accepted));
    }
    let zones = || machine.nodes.iter().flat_map(|n| &n.zones);
    let lowmem = |z: &&ZoneSpec| z.zone <= mm::ZoneType::Normal;
    let lowmem: u64 = zones().filter(lowmem).map(|z| z.size.0 / 1024).sum();
    let [min, low, high] = sysctl.wmark_kbytes(lowmem);
    if sysctl.wmark_low_kbytes.is_some() && low < min {
        let shown = format!("{low} is below the minimum of {min} kB");
        let accepted = format!("{min} or more, or a smaller wmark_min_kbytes");
        return Err(at.wrong(&under("wmark_low_kbytes"), shown, accepted));
    }
    if high < low {
        let (key, shown, accepted) = match sysctl.wmark_high_kbytes {
            Some(_) => (
                "wmark_high_kbytes",
                format!("{high} is below the low watermark of {low} kB"),
                format!("{low} or more"),
            ),
            None => (
                "wmark_low_kbytes",
                format!("{low} is above the high watermark of {high} kB"),
                format!("wmark_high_kbytes = {low} or more beside it"),
            ),
        };
        return Err(at.wrong(&under(key), shown, accepted));
    }
    Ok(())
}
