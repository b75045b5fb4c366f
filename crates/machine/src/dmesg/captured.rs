//! Makes a machine of a report, as far as the report tells.

use super::{Report, ZoneReport};
use crate::capture::{Captured, Settings, UNKNOWN_RELEASE};
use crate::parse::{SwapArea, Zone};
use std::collections::{BTreeMap, BTreeSet};

/// Makes a machine of a report. Zones, watermarks, reserves, swap, `min_free_kbytes` and the use of
/// memory are the report's, except for what killed processes held, which was free a moment later;
/// `watermark_scale_factor` follows from the distance of the watermarks. Also returns sentences
/// without a full stop on what was assumed. `None`: the report has no zones, such as that of a
/// group.
pub fn captured(report: &Report) -> Option<(Captured, Vec<String>)> {
    if report.managed() == 0 {
        return None;
    }
    let zones: Vec<Zone> = report.zones.iter().map(zone).collect();
    let mut notes = vec![
        "dirty limits, swappiness and ticks are not in a report of the kernel: its defaults are assumed"
            .to_owned(),
    ];
    let cpus: BTreeSet<u32> = (0..=report.cpu.unwrap_or(0).min(8191)).collect();
    notes.push(format!(
        "the machine has at least {} CPUs, because the report comes from CPU {}; state the true number with `cpus`",
        cpus.len(),
        cpus.len() - 1
    ));
    if report.release.is_none() {
        notes.push("the report does not name the kernel's release".into());
    }
    let freed: u64 = report.killed.iter().map(|k| (k.anon + k.shmem) / 4).sum();
    if freed > 0 {
        notes.push(format!(
            "memory in use at boot is that of the report without the {} MiB of the killed processes; \
             take off what your workload itself holds, too",
            freed / 256
        ));
    }
    let count = |names: &[&str]| names.iter().map(|n| report.count(n)).sum::<u64>();
    let free: u64 = zones.iter().map(|z| z.free).sum();
    let anon = count(&["active_anon", "inactive_anon", "unevictable"]).saturating_sub(freed);
    let meminfo = [
        ("MemTotal", report.managed()),
        ("MemFree", free),
        ("AnonPages", anon),
        ("Active(file)", count(&["active_file"])),
        ("Inactive(file)", count(&["inactive_file"])),
    ];
    let settings = Settings::of_marks(&zones);
    let total = report.swap.map_or(0, |(total, _)| total);
    // Memory of the killed processes was free a moment later, in the zones that have most.
    let zones = with_free(zones, freed);
    let machine = Captured {
        release: report
            .release
            .clone()
            .unwrap_or_else(|| UNKNOWN_RELEASE.into()),
        zones,
        cpus,
        node_cpus: BTreeMap::new(),
        vmstat: [("nr_free_pages".to_owned(), free)].into(),
        meminfo: meminfo
            .map(|(name, pages)| (name.to_owned(), pages * 4))
            .into(),
        settings,
        huge_pages: false,
        lru_gen: None,
        hz: None,
        swaps: (total > 0)
            .then(|| SwapArea {
                name: "swap".into(),
                kbytes: total,
            })
            .into_iter()
            .collect(),
        disks: Vec::new(),
        root_device: None,
    };
    Some((machine, notes))
}

/// Converts a zone of the report, with the temporary boost taken off its watermarks.
fn zone(of: &ZoneReport) -> Zone {
    let boost = of.pages("boost");
    let mark = |name: &str| of.pages(name).saturating_sub(boost);
    let managed = of.managed();
    Zone {
        node: of.node,
        name: of.name.clone(),
        free: of.pages("free").min(managed),
        marks: [mark("min"), mark("low"), mark("high")],
        boost,
        spanned: of.pages("present").max(managed),
        present: of.pages("present").max(managed),
        managed,
        protection: of.reserve.clone(),
    }
}

/// Adds freed pages to the zones, largest first, as far as they have room.
fn with_free(mut zones: Vec<Zone>, mut freed: u64) -> Vec<Zone> {
    let mut order: Vec<usize> = (0..zones.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(zones[i].managed));
    for i in order {
        let more = freed.min(zones[i].managed - zones[i].free);
        zones[i].free += more;
        freed -= more;
    }
    zones
}
