//! Makes a machine of a report, as far as the report tells.

use super::{Report, ZoneReport};
use crate::capture::{Captured, Used};
use crate::parse::{SwapArea, Zone};

/// Makes a machine of a report. Zones, watermarks, reserves, swap, `min_free_kbytes` and the use of
/// memory are the report's, except for what killed processes held, which was free a moment later;
/// `watermark_scale_factor` follows from the distance of the watermarks. Also returns sentences
/// without a full stop on what was assumed. `None`: the report has no zones, such as that of a
/// group.
pub fn captured(report: &Report) -> Option<(Captured, Vec<String>)> {
    if report.managed() == 0 {
        return None;
    }
    let count = |names: &[&str]| names.iter().map(|n| report.count(n)).sum::<u64>();
    // Memory of the killed processes was free a moment later.
    let freed: u64 = report.killed.iter().map(|k| (k.anon + k.shmem) / 4).sum();
    let used = Used {
        anon: count(&["active_anon", "inactive_anon", "unevictable"]).saturating_sub(freed),
        active_file: count(&["active_file"]),
        inactive_file: count(&["inactive_file"]),
    };
    let zones = with_free(report.zones.iter().map(zone).collect(), freed);
    let mut machine = Captured::of_zones(zones, report.cpu.unwrap_or(0), &used);
    let mut notes = vec![
        "dirty limits, swappiness and ticks are not in a report of the kernel: its defaults are assumed"
            .to_owned(),
    ];
    let cpus = machine.cpus.len();
    notes.push(format!(
        "the machine has at least {cpus} CPUs, because the report comes from CPU {}; state the true number with `cpus`",
        cpus - 1
    ));
    match &report.release {
        Some(release) => machine.release.clone_from(release),
        None => notes.push("the report does not name the kernel's release".into()),
    }
    if freed > 0 {
        notes.push(format!(
            "memory in use at boot is that of the report without the {} MiB of the killed processes; \
             take off what your workload itself holds, too",
            freed / 256
        ));
    }
    let total = report.swap.map_or(0, |(total, _)| total);
    machine.swaps.extend((total > 0).then(|| SwapArea {
        name: "swap".into(),
        kbytes: total,
    }));
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
