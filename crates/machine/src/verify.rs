//! Applies the engine's formulas to a captured machine, and compares the results with its kernel's.

use crate::capture::Captured;
use crate::parse::Zone;
use mm::memory::watermark::{
    khugepaged_min_free_kbytes, lowmem_reserve, min_free_kbytes, total_reserve,
};
use mm::{ZoneInfo, ZoneType};
use serde::Serialize;

/// A figure as computed and as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedRow {
    /// The zone, `node 0 Normal`, or `machine`.
    pub of: String,
    /// The name of the figure.
    pub what: String,
    /// The result of the engine's formula, in pages.
    pub computed: u64,
    /// The kernel's figure, in pages.
    pub actual: u64,
    /// By how many pages it may have changed between the kernel's computation and the reading of
    /// the counters; 0: it is constant.
    pub moved: u64,
}

impl VerifiedRow {
    /// Returns true if both figures are equal, up to the change that was possible meanwhile.
    pub fn is_equal(&self) -> bool {
        self.computed.abs_diff(self.actual) <= self.moved
    }
}

/// The origin of `min_free_kbytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The kernel's formula.
    Formula,
    /// khugepaged, which raises it where transparent huge pages are on.
    Khugepaged,
    /// A user, who wrote the sysctl.
    Administrator,
}

impl Origin {
    /// Returns the origin as part of a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Formula => "the kernel's formula",
            Self::Khugepaged => "khugepaged's raise",
            Self::Administrator => "an administrator",
        }
    }
}

/// The value of `min_free_kbytes` and its explanation, in kB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MinFree {
    /// The actual value.
    pub actual: u64,
    /// The result of the formula for the pages that are managed now.
    pub formula: u64,
    /// The value to which khugepaged raises that; `None` where it does not run.
    pub raised: Option<u64>,
    /// The origin of the value.
    pub origin: Origin,
}

/// The result of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The compared figures.
    pub rows: Vec<VerifiedRow>,
    /// The explanation of `min_free_kbytes`.
    pub min_free: MinFree,
    /// Possible explanations of differences.
    pub notes: Vec<String>,
}

impl Verification {
    /// Returns true if all figures equal the kernel's.
    pub fn is_equal(&self) -> bool {
        self.rows.iter().all(VerifiedRow::is_equal)
    }

    /// Sets by how much each figure of the machine may have changed between its computation and its
    /// reading. `before` is an earlier report of the same running machine: dirty limits follow
    /// every page that is freed or cached, and the kernel adds up its counters one after the other
    /// while its `cpus` CPUs run on. Each CPU has up to 125 pages that are not counted yet (Linux
    /// `calculate_normal_threshold`).
    #[must_use]
    pub fn since(mut self, before: &Self, cpus: usize) -> Self {
        let moving = self.rows.iter_mut().filter(|r| r.of == "machine");
        for row in moving {
            let same = |r: &&VerifiedRow| r.of == row.of && r.what == row.what;
            let Some(earlier) = before.rows.iter().find(same) else {
                continue;
            };
            // The kernel's own figure changes as well.
            let moved = row.computed.abs_diff(earlier.computed);
            let moved = moved.max(row.actual.abs_diff(earlier.actual));
            row.moved = moved + (cpus as u64 * 125).min(row.actual / 64);
        }
        self
    }
}

/// Returns the engine's zone type with this name; `None`: there is none.
pub fn zone_type(name: &str) -> Option<ZoneType> {
    [
        ZoneType::Dma,
        ZoneType::Dma32,
        ZoneType::Normal,
        ZoneType::Movable,
        ZoneType::HighMem,
    ]
    .into_iter()
    .find(|t| t.name() == name)
}

/// A machine has a zone that the engine does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node} has a zone `{zone}`; accepted: DMA, DMA32, Normal, Movable and HighMem")]
pub struct UnknownZone {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
}

/// Returns the populated zones, each as the kernel lists it and as the engine describes it.
///
/// # Errors
/// A zone has a type that the engine does not support.
pub fn zones(machine: &Captured) -> Result<Vec<(&Zone, ZoneInfo)>, UnknownZone> {
    machine
        .populated()
        .map(|z| {
            let info = zone_type(&z.name).map(|kind| ZoneInfo {
                node: z.node,
                kind,
                size: z.managed,
            });
            info.map(|info| (z, info)).ok_or_else(|| UnknownZone {
                node: z.node,
                zone: z.name.clone(),
            })
        })
        .collect()
}

/// Returns the machine's zone types in order, by which `lowmem_reserve_ratio` and `protection` are
/// indexed; `None`: a type that the engine does not use. Some kernels also list zones without
/// pages, which shows the types; for others they follow from their number.
fn types(machine: &Captured) -> Vec<Option<ZoneType>> {
    // Every zone's `protection` has an entry for each type.
    let count = machine
        .zones
        .iter()
        .map(|z| z.protection.len())
        .max()
        .unwrap_or(0);
    // A node that lists a zone of every type.
    let full = machine
        .zones
        .chunk_by(|a, b| a.node == b.node)
        .find(|node| node.len() == count);
    match full {
        Some(node) => node.iter().map(|z| zone_type(&z.name)).collect(),
        None => ["DMA", "DMA32", "Normal", "Movable", "Device"]
            .into_iter()
            .take(count)
            .map(zone_type)
            .collect(),
    }
}

/// Returns `lowmem_reserve_ratio` of DMA, DMA32 and Normal; 0 for a type that the kernel does not
/// have.
pub fn reserve_ratios(machine: &Captured) -> [u64; 3] {
    let mut ratios = [0; 3];
    for (kind, ratio) in types(machine)
        .into_iter()
        .zip(&machine.settings.lowmem_reserve_ratio)
    {
        if let Some(slot) = kind.and_then(|k| ratios.get_mut(k.index())) {
            *slot = *ratio;
        }
    }
    ratios
}

/// Explains the value of `min_free_kbytes`: whether it is that of the kernel's formula, that to
/// which khugepaged raises it, or another one, which an administrator must have set. `zones` are
/// those of [`zones`].
pub fn min_free(machine: &Captured, zones: &[(&Zone, ZoneInfo)]) -> MinFree {
    let era = machine.era();
    let low = |kind: ZoneType| kind <= ZoneType::Normal;
    // Pages of the zones up to Normal.
    let lowmem: u64 = zones
        .iter()
        .map(|(_, i)| *i)
        .filter(|i| low(i.kind))
        .map(|i| i.size)
        .sum();
    let actual = machine.settings.min_free_kbytes;
    let most = era.most_min_free_kbytes();
    let formula = min_free_kbytes(lowmem * 4, most);
    // khugepaged counts populated zones, and bases its value on the memory above the high
    // watermarks.
    let all: Vec<ZoneInfo> = zones.iter().map(|(_, i)| *i).collect();
    let marks = era
        .marks(machine.settings.watermark_scale_factor)
        .marks(formula, &all);
    let high: u64 = all
        .iter()
        .zip(&marks)
        .filter(|(i, _)| low(i.kind))
        .map(|(_, m)| m[2])
        .sum();
    let above = lowmem.saturating_sub(high);
    let populated = machine
        .zones
        .iter()
        .filter(|z| z.present > 0 && zone_type(&z.name).is_some_and(low))
        .count() as u64;
    // kB to which khugepaged raises the value with so many pages above the high watermarks.
    let raise = |pages| khugepaged_min_free_kbytes(populated, pages, formula);
    let raised = machine.huge_pages.then(|| raise(above));
    // The kernel computed its value at boot; memory that it freed later is managed by now.
    let then = lowmem - lowmem / 20;
    let is_formula = (min_free_kbytes(then * 4, most)..=formula).contains(&actual);
    let origin = match raised {
        Some(now)
            if (raise(then.saturating_sub(high))..=now).contains(&actual) && now > formula =>
        {
            Origin::Khugepaged
        }
        Some(now) if now > formula => Origin::Administrator,
        _ if is_formula => Origin::Formula,
        _ => Origin::Administrator,
    };
    MinFree {
        actual,
        formula,
        raised,
        origin,
    }
}

/// Returns the dirty limits, background and dirty, in pages, by the engine's formulas and the
/// captured counters. `reserves` is the sum of the zones' reserves in pages, which kernels since
/// 3.3 do not count as dirtyable.
pub fn dirty_limits(machine: &Captured, reserves: u64) -> mm::writeback::dirty::Limits {
    let era = machine.era();
    let free = machine.pages("nr_free_pages") + machine.unmanaged_free();
    let file = machine.pages("nr_inactive_file") + machine.pages("nr_active_file");
    let kept = if era.reserves_are_not_dirtyable() {
        reserves
    } else {
        0
    };
    let dirtyable = mm::writeback::dirty::dirtyable_pages(free, kept, file);
    let s = &machine.settings;
    // A ratio is at most 100.
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let sysctl = mm::Sysctl {
        dirty_background_ratio: small(s.dirty_background_ratio),
        dirty_ratio: small(s.dirty_ratio),
        dirty_background_bytes: mm::size::Size(s.dirty_background_bytes),
        dirty_bytes: mm::size::Size(s.dirty_bytes),
        ..mm::Sysctl::KERNEL
    };
    mm::writeback::dirty::limits(era.dirty_ratios(), &sysctl, dirtyable, false)
}

/// Computes every watermark, every lowmem reserve and the dirty limits with the engine's formulas,
/// and compares them with the kernel's.
///
/// # Errors
/// A zone has a type that the engine does not support.
pub fn verify(machine: &Captured) -> Result<Verification, UnknownZone> {
    let zones = zones(machine)?;
    let infos: Vec<ZoneInfo> = zones.iter().map(|(_, i)| *i).collect();
    let (ratios, types) = (reserve_ratios(machine), types(machine));
    let marks = machine
        .era()
        .marks(machine.settings.watermark_scale_factor)
        .marks(machine.settings.min_free_kbytes, &infos);
    let mut rows = Vec::new();
    let mut reserves = 0;
    for ((zone, info), marks) in zones.iter().zip(&marks) {
        let of = format!("node {} {}", zone.node, zone.name);
        let mut row = |what: String, computed: u64, actual: u64| {
            rows.push(VerifiedRow {
                of: of.clone(),
                what,
                computed,
                actual,
                moved: 0,
            });
        };
        for (what, (computed, actual)) in ["min", "low", "high"]
            .iter()
            .zip(marks.iter().zip(zone.marks))
        {
            row((*what).into(), *computed, actual);
        }
        // Pages of the node's zones, by type.
        let mut sizes = [0; 4];
        for i in infos.iter().filter(|i| i.node == zone.node) {
            sizes[i.kind.index()] = i.size;
        }
        let kind = info.kind.index();
        for (above, actual) in types.iter().zip(&zone.protection) {
            let Some(above) = *above else {
                continue;
            };
            if above > info.kind {
                let computed = lowmem_reserve(&sizes, &ratios, kind, above.index());
                row(format!("reserve for {}", above.name()), computed, *actual);
            }
        }
        reserves += total_reserve(&sizes, &ratios, kind, marks[2]);
    }
    let limits = dirty_limits(machine, reserves);
    for (what, computed) in [
        ("nr_dirty_background_threshold", limits.background),
        ("nr_dirty_threshold", limits.dirty),
    ] {
        // Kernels before 2.6.37 do not report it.
        if let Some(actual) = machine.vmstat.get(what) {
            rows.push(VerifiedRow {
                of: "machine".into(),
                what: what.into(),
                computed,
                actual: *actual,
                moved: 0,
            });
        }
    }
    let min_free = min_free(machine, &zones);
    let notes = notes(machine, &rows);
    Ok(Verification {
        rows,
        min_free,
        notes,
    })
}

/// Returns sentences that may explain the differences between the engine's figures and the
/// kernel's.
fn notes(machine: &Captured, rows: &[VerifiedRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let unmanaged = machine.unmanaged_free();
    if unmanaged > 0 {
        notes.push(format!(
            "{unmanaged} pages ({} MiB) of free memory belong to no zone yet: this kernel hands memory to its zones when it is needed. These pages count as dirtyable memory, but not for watermarks",
            unmanaged / 256
        ));
    }
    let different = |of_machine: bool| {
        rows.iter()
            .filter(move |r| !r.is_equal() && (r.of == "machine") == of_machine)
    };
    // Within a 64th or a page: the sizes differ, not the formula.
    let near = |r: &VerifiedRow| r.computed.abs_diff(r.actual) <= 1.max(r.actual / 64);
    if different(false).next().is_some() {
        notes.push(if different(false).all(near) {
            "the marks and reserves differ by no more than a page or a 64th: the kernel computed its own when the zones managed another number of pages (before it freed its initial memory, or a balloon or huge pages took some); writing min_free_kbytes makes the kernel compute them again".into()
        } else {
            "the marks or reserves differ by more than changed sizes explain: this kernel has another formula".into()
        });
    }
    if different(true).next().is_some() {
        notes.push("the dirty limits move with every page that is freed or cached, and the kernel reads its counters one after the other: on a busy machine, and in files that were not read at one moment, they differ by some pages".into());
    }
    notes
}
