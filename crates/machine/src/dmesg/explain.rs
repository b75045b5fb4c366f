//! Explains a report in a few lines: what was asked for, who held the memory, which zone was short,
//! swap, and the likely cause.

use super::{Group, Killed, Kind, Report, ZoneReport};
use std::fmt::Write as _;

/// Orders above this one are costly: the kernel does not retry them for long
/// (PAGE_ALLOC_COSTLY_ORDER).
const COSTLY: i32 = 3;

/// Returns the explanation of a report: five lines without line breaks of their own, in the order
/// of the questions that a reader has. The first says what happened, the last the likely cause.
pub fn explain(report: &Report) -> Vec<String> {
    let mut lines = vec![happened(report)];
    match &report.group {
        Some(group) => {
            lines.push(limits(group));
            lines.push(held_by_group(group));
        }
        None => {
            lines.push(held(report));
            lines.push(zones(report));
            lines.push(swap(report));
        }
    }
    lines.push(format!("Likely cause: {}.", cause(report)));
    lines
}

/// Says who asked for what, when, and who was killed.
fn happened(report: &Report) -> String {
    let mut out = String::new();
    if let Some(seconds) = report.seconds {
        let _ = write!(out, "At {seconds:.3} s: ");
    }
    let _ = match report.order {
        -1 => write!(out, "{} asked for the OOM killer itself", report.task),
        0 => write!(out, "{} asked for one page", report.task),
        order => write!(
            out,
            "{} asked for {} in one block (order {order})",
            report.task,
            bytes(4u64.saturating_mul(1u64.checked_shl(order.unsigned_abs()).unwrap_or(u64::MAX)))
        ),
    };
    if !report.gfp.is_empty() {
        let _ = write!(out, " as {}", report.gfp);
    }
    if let Some(group) = &report.group {
        let _ = write!(
            out,
            " in the memory group {}, which was at its limit",
            name_of(group)
        );
    }
    match (&report.killed[..], report.kind) {
        ([], Kind::Oom) => out += "; whom the kernel killed is not in the log.",
        ([], Kind::AllocationFailure) => out += "; the request failed, and nothing was killed.",
        (killed, _) => {
            let each = killed.iter().map(
                |Killed {
                     pid, name, anon, ..
                 }| {
                    format!(
                        "{name} (pid {pid}), which held {} of anonymous memory",
                        bytes(*anon)
                    )
                },
            );
            let _ = write!(
                out,
                "; the kernel killed {}.",
                each.collect::<Vec<_>>().join(", then ")
            );
        }
    }
    out
}

/// Returns the name of a group for sentences.
fn name_of(group: &Group) -> &str {
    match group.path.as_str() {
        "" => "(unnamed)",
        path => path,
    }
}

/// Says how much memory and swap a group uses of its limits.
fn limits(group: &Group) -> String {
    let of = |(used, limit): (u64, u64)| match unlimited(limit) {
        true => format!("{}, without a limit", bytes(used)),
        false => format!("{} of {}", bytes(used), bytes(limit)),
    };
    let memory = group.memory.map_or("not in the log".to_owned(), of);
    let swap = group.swap.map_or("not in the log".to_owned(), of);
    format!("The group's memory: {memory}; its swap: {swap}.")
}

/// Returns true if a limit in kB is the kernel's word for none: about 2^63 bytes.
fn unlimited(limit: u64) -> bool {
    limit >= 1 << 52
}

/// Says what a group's memory is made of, largest first.
fn held_by_group(group: &Group) -> String {
    let of = |names: &[&str]| names.iter().find_map(|n| group.stat.get(*n)).copied();
    let kinds = [
        ("anonymous", of(&["anon", "rss"])),
        ("page cache", of(&["file", "cache"])),
        ("slab of the kernel", of(&["slab"])),
        ("page tables and stacks", {
            let both = [of(&["pagetables"]), of(&["kernel_stack"])];
            both.into_iter().flatten().reduce(u64::saturating_add)
        }),
        ("shared memory (part of page cache)", of(&["shmem"])),
        ("dirty (part of page cache)", of(&["file_dirty", "dirty"])),
        (
            "under writeback (part of page cache)",
            of(&["file_writeback", "writeback"]),
        ),
    ];
    let mut known: Vec<(&str, u64)> = kinds
        .into_iter()
        .filter_map(|(n, v)| Some((n, v?)))
        .collect();
    if known.is_empty() {
        return "What the group's memory was made of is not in the log.".to_owned();
    }
    known.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let known: Vec<String> = (known.iter())
        .filter(|(_, held)| *held > 0)
        .map(|(name, held)| format!("{} {name}", bytes(held / 1024)))
        .collect();
    format!("The group held {}.", known.join(", "))
}

/// The uses of a machine's memory, in pages.
struct Uses {
    managed: u64,
    anon: u64,
    shmem: u64,
    file: u64,
    dirty: u64,
    writeback: u64,
    slab: u64,
    unreclaimable: u64,
    tables: u64,
    free: u64,
    /// Not in any of the others: drivers, huge pages, balloons.
    unnamed: u64,
}

impl Uses {
    /// Sums the uses of a report.
    fn of(report: &Report) -> Self {
        let count = |names: &[&str]| names.iter().map(|n| report.count(n)).sum::<u64>();
        let anon_lists = count(&["active_anon", "inactive_anon", "isolated_anon"]);
        let shmem = count(&["shmem"]);
        let file = count(&["active_file", "inactive_file", "isolated_file"]);
        let slab = count(&["slab_reclaimable", "slab_unreclaimable"]);
        let stacks = count(&["kernel_stack"]);
        let tables = count(&["pagetables", "sec_pagetables"]) + stacks;
        let free = count(&["free"]);
        let unevictable = count(&["unevictable"]);
        let named = anon_lists + file + slab + tables + free + unevictable;
        Self {
            managed: report.managed(),
            anon: anon_lists.saturating_sub(shmem) + unevictable,
            shmem,
            file,
            dirty: count(&["dirty"]),
            writeback: count(&["writeback"]),
            slab,
            unreclaimable: count(&["slab_unreclaimable"]),
            tables,
            free,
            unnamed: report.managed().saturating_sub(named),
        }
    }

    /// Returns true if `pages` are at least `percent` of the memory.
    fn share(&self, pages: u64, percent: u64) -> bool {
        self.managed > 0 && pages.saturating_mul(100) >= self.managed.saturating_mul(percent)
    }
}

/// Says what the machine's memory was used for.
fn held(report: &Report) -> String {
    if report.zones.is_empty() {
        return "Who held the memory is not in the log: it has no zones.".to_owned();
    }
    let uses = Uses::of(report);
    let part = |pages: u64| match uses.managed {
        0 => "0 %".to_owned(),
        all => format!("{:.0} %", 100.0 * pages as f64 / all as f64),
    };
    format!(
        "Of {} of memory: {} anonymous and mlocked, {} shared, {} page cache ({} dirty, {} under \
         writeback), {} slab ({} of it unreclaimable), {} page tables and stacks, {} free, {} without a name.",
        bytes(uses.managed * 4),
        part(uses.anon),
        part(uses.shmem),
        part(uses.file),
        bytes(uses.dirty * 4),
        bytes(uses.writeback * 4),
        part(uses.slab),
        bytes(uses.unreclaimable * 4),
        part(uses.tables),
        part(uses.free),
        part(uses.unnamed),
    )
}

/// Returns true if a request with these flags, names or a hexadecimal number, may use a zone of
/// this type.
fn serves(gfp: &str, zone: &str) -> bool {
    // The four lowest bits are the zone modifiers, in every release.
    let bits = gfp
        .strip_prefix("0x")
        .and_then(|n| u64::from_str_radix(n, 16).ok());
    let has = |bit: u64, names: &[&str]| match bits {
        Some(bits) => bits & bit != 0,
        None => gfp.split('|').any(|flag| names.contains(&flag)),
    };
    let dma = has(1, &["GFP_DMA", "__GFP_DMA"]);
    let dma32 = has(4, &["GFP_DMA32", "__GFP_DMA32"]);
    let movable = has(8, &["__GFP_MOVABLE"]) || gfp.contains("HIGHUSER_MOVABLE");
    let high = has(2, &["__GFP_HIGHMEM"]) || gfp.contains("HIGHUSER") || gfp.contains("TRANSHUGE");
    match zone {
        "Movable" => movable && high,
        "HighMem" => high,
        "Normal" => !dma && !dma32,
        "DMA32" => !dma,
        "Device" => false,
        _ => true,
    }
}

/// Returns the reserve in pages that a zone keeps from this request: that for the highest zone type
/// which the request may use and the machine has.
fn reserve(report: &Report, zone: &ZoneReport) -> u64 {
    // Reserves rise with the type, and types that the machine lacks repeat the one below.
    let types = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];
    let has = |name: &str| report.zones.iter().any(|z| z.name == name);
    // The types that this kernel has: as many as the reserve's figures, HighMem on 32 bits alone.
    let known: Vec<&str> = types
        .into_iter()
        .filter(|t| *t != "HighMem" || has("HighMem"))
        .filter(|t| *t != "DMA32" || has("DMA32") || !has("HighMem"))
        .collect();
    let highest = known
        .iter()
        .rposition(|t| serves(&report.gfp, t) && (has(t) || *t == "Movable"));
    let at = highest
        .unwrap_or(0)
        .min(zone.reserve.len().saturating_sub(1));
    zone.reserve.get(at).copied().unwrap_or(0)
}

/// Returns true if a zone has pages and the request may use it.
fn usable(report: &Report, zone: &ZoneReport) -> bool {
    zone.managed() > 0 && serves(&report.gfp, &zone.name)
}

/// Returns true if a zone's free memory is below its min watermark with the reserve that it keeps
/// from the request.
fn short(report: &Report, zone: &ZoneReport) -> bool {
    zone.pages("free") <= zone.pages("min") + reserve(report, zone)
}

/// Returns the free pages of a zone in blocks that fit a request of this order; `None`: the report
/// has no blocks.
fn fitting(zone: &ZoneReport, order: i32) -> Option<u64> {
    let from = usize::try_from(order).ok()?;
    (!zone.blocks.is_empty()).then(|| {
        let blocks = zone.blocks.iter().enumerate().skip(from);
        blocks.map(|(order, blocks)| blocks << order).sum()
    })
}

/// Says of each zone that the request may use whether it was short.
fn zones(report: &Report) -> String {
    let told: Vec<String> = (report.zones.iter())
        .filter(|z| usable(report, z))
        .map(|z| {
            let place = match report.zones.iter().any(|z| z.node > 0) {
                true => format!("{} of node {}", z.name, z.node),
                false => z.name.clone(),
            };
            let reserve = reserve(report, z);
            let marks = match reserve {
                0 => format!("min is {}", bytes(z.pages("min") * 4)),
                _ => format!(
                    "min is {}, and {} are reserved for others",
                    bytes(z.pages("min") * 4),
                    bytes(reserve * 4)
                ),
            };
            let state = match (short(report, z), fitting(z, report.order)) {
                (true, _) => "too little",
                (false, Some(0)) if report.order > 0 => "enough, but no block of this size",
                (false, _) => "enough",
            };
            format!(
                "{place} has {} free ({marks}): {state}",
                bytes(z.pages("free") * 4)
            )
        })
        .collect();
    match told.is_empty() {
        true => "No zone of the log can serve the request.".to_owned(),
        false => format!("{}.", told.join("; ")),
    }
}

/// Says how much swap there was.
fn swap(report: &Report) -> String {
    match report.swap {
        None => "Swap is not in the log.".to_owned(),
        Some((0, _)) => "There is no swap: anonymous memory can't be reclaimed.".to_owned(),
        Some((total, free)) => format!("Of {} of swap {} are free.", bytes(total), bytes(free)),
    }
}

/// Returns the likely cause, a sentence without its full stop.
fn cause(report: &Report) -> String {
    if let Some(group) = &report.group {
        return cause_in_group(group);
    }
    if report.order == -1 {
        return "none: the killer was asked for (SysRq f), or a page fault could not be served"
            .into();
    }
    if report.zones.is_empty() {
        return "not to be told without the zones, which the log lacks".into();
    }
    let usable: Vec<&ZoneReport> = report.zones.iter().filter(|z| usable(report, z)).collect();
    let enough = usable.iter().any(|z| !short(report, z));
    let atomic = ["GFP_ATOMIC", "GFP_NOWAIT"]
        .iter()
        .any(|f| report.gfp.contains(f));
    if report.order > 0 && enough {
        let costly = match report.order > COSTLY {
            true => {
                "; blocks this large are not waited for, and callers should fall back to single pages"
            }
            false => "",
        };
        return format!(
            "free memory lies in pieces: no block of order {} is left{costly}",
            report.order
        );
    }
    if report.kind == Kind::AllocationFailure && atomic {
        return "the request could not wait for reclaim (it came from an interrupt or under a lock), and \
                kswapd was too slow: a higher min_free_kbytes or watermark_scale_factor leaves more for it"
            .into();
    }
    let uses = Uses::of(report);
    if enough {
        return "not to be told: a zone that serves the request has enough free memory by now, and \
                may have been short a moment before"
            .into();
    }
    if !usable.iter().any(|z| z.managed() * 2 > uses.managed) && usable.len() < report.zones.len() {
        return "the zones that the request may use are small, and full; others have memory that it can't use".into();
    }
    if uses.share(uses.unreclaimable, 25) {
        return "the kernel's own objects (unreclaimable slab) fill the memory: see /proc/slabinfo for which".into();
    }
    if uses.share(uses.unnamed, 30) {
        return "memory that no counter names: huge pages set aside, a driver, or a balloon of the hypervisor".into();
    }
    if uses.share(uses.dirty + uses.writeback, 10) {
        return "page cache waits for a slow disk: much of it is dirty or under writeback, and can't be \
                reclaimed before it is written (lower vm.dirty_bytes)"
            .into();
    }
    let swap_left = report
        .swap
        .is_some_and(|(total, free)| total > 0 && free * 20 > total);
    if uses.share(uses.anon + uses.shmem, 60) {
        return match (report.swap, swap_left) {
            (_, true) => {
                "processes fill the memory faster than swap takes it, or may not use swap".into()
            }
            (Some((total, _)), _) if total > 0 => {
                "processes hold more than memory and swap together".into()
            }
            _ => "processes hold the memory, and without swap nothing of theirs can be reclaimed"
                .into(),
        };
    }
    if uses.share(uses.file, 10) {
        return "page cache is left, but in pages that are used again and again (thrashing), mapped or \
                locked"
            .into();
    }
    "several uses together fill the memory; no one of them stands out".into()
}

/// Returns the likely cause why a group was at its limit.
fn cause_in_group(group: &Group) -> String {
    let of = |names: &[&str]| {
        names
            .iter()
            .find_map(|n| group.stat.get(*n))
            .copied()
            .unwrap_or(0)
    };
    let (anon, file) = (of(&["anon", "rss"]), of(&["file", "cache"]));
    let shmem = of(&["shmem"]);
    let waiting = of(&["file_dirty", "dirty"]).saturating_add(of(&["file_writeback", "writeback"]));
    let kernel = of(&["slab_unreclaimable", "kmem"]);
    let used = match group.memory {
        Some((used, _)) => used.saturating_mul(1024),
        None => anon.saturating_add(file),
    };
    let most = |part: u64| used > 0 && part.saturating_mul(2) >= used;
    let no_swap = group
        .swap
        .is_none_or(|(used, limit)| limit == 0 || used >= limit);
    if group.stat.is_empty() {
        return "the group needs more than its limit; what its memory was made of is not in the log".into();
    }
    if most(waiting) {
        return "page cache that waits for the disk fills the group: it can't be reclaimed before it is \
                written (lower vm.dirty_bytes, set memory.high below memory.max, or write with fsync)"
            .into();
    }
    if most(shmem) {
        return "files in tmpfs or shared memory fill the group: they count like anonymous memory, and \
                only swap can take them"
            .into();
    }
    if most(anon) {
        return match no_swap {
            true => "the group's processes need more than its limit, and have no swap left".into(),
            false => {
                "the group's processes need more than its limit, faster than swap takes it".into()
            }
        };
    }
    if most(kernel) {
        return "the kernel's objects for the group (dentries, inodes, sockets) fill it".into();
    }
    if most(file) {
        return "clean page cache fills the group, and yet could not be reclaimed: it was in use at that \
                moment, or protected (memory.min, memory.low) in groups below"
            .into();
    }
    "several uses together fill the group; no one of them stands out".into()
}

/// Formats an amount given in kB: `12 MiB`, `1.5 GiB`.
fn bytes(kb: u64) -> String {
    match kb {
        0..1024 => format!("{kb} KiB"),
        1024..1_048_576 => format!("{:.1} MiB", kb as f64 / 1024.0),
        _ => format!("{:.1} GiB", kb as f64 / 1_048_576.0),
    }
}
