//! Classes of memory: zones of the engine, each with its own watermarks.
//!
//! Linux has zones because some memory serves only some requests. A cache has classes for the same
//! reason: memory that is locked or in huge pages is scarce, and some files' pages (an index) are
//! worth more than others. Class 0 is the general one, from which all files take. A file of class
//! `c` takes from class `c`, and if that has none to spare from `c - 1` and so on down to 0, as far
//! as their reserves (`lowmem_reserve`) let it. No access to files of lower classes moves a page of
//! a higher one.

use crate::error::Error;
use crate::page_size::PAGE;
use mm::memory::gfp::Gfp;
use mm::policy::{FairZones, ProfileZone, WatermarkProfile, Watermarks};
use mm::{Policy, ZoneInfo, ZoneType};

/// Most classes of a cache, the general one included: the zones below Movable.
pub(crate) const CLASSES: usize = 3;
/// The smallest class in bytes, if there are several.
const LEAST: u64 = 1 << 20;

/// The default `lowmem_reserve_ratio`: the kernel's for its Normal zone.
pub(crate) const RESERVE_RATIO: u32 = 32;

/// How the operating system holds a class's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Held {
    /// Like any program's memory: in pages of 4 KiB, allocated when first touched.
    Ordinary,
    /// Allocated from the beginning and never swapped out (`mlock(2)`); the process needs
    /// `RLIMIT_MEMLOCK` for it.
    Locked,
    /// In huge pages where the system has them (`MADV_HUGEPAGE`), populated by a thread of the
    /// cache when it starts: fewer TLB misses, and no allocation that waits while the system
    /// clears, or makes room for, a 2 MiB page. All of the memory belongs to the process from then
    /// on.
    #[default]
    HugePages,
}

/// Watermarks of a class in bytes, ascending, the highest at most half of the class. Below `low`
/// kswapd is woken and works until `high` is free; below `min` a task that needs a page reclaims
/// directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Free bytes reserved for tasks that write or free pages.
    pub min: u64,
    /// Free bytes below which kswapd is woken.
    pub low: u64,
    /// Free bytes at which kswapd stops.
    pub high: u64,
}

/// A class of memory above the general one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Size in bytes, a part of [`crate::Config::memory`]; at least 1 MiB.
    pub memory: u64,
    /// Allocations for files of higher classes leave this class a reserve: the memory of the higher
    /// classes divided by this ratio (`lowmem_reserve_ratio`). 0: no reserve.
    pub reserve_ratio: u32,
    /// The class's watermarks; `None`: its share, by size, of the watermarks of the whole cache.
    pub marks: Option<Marks>,
    /// How the system holds the class's memory.
    pub held: Held,
}

impl Default for Class {
    /// A class of no memory yet; its reserve ratio is the kernel's for its largest zone.
    fn default() -> Self {
        Self {
            memory: 0,
            reserve_ratio: RESERVE_RATIO,
            marks: None,
            held: Held::default(),
        }
    }
}

/// Levels and counters of a class, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassStats {
    /// All pages of the class.
    pub pages: u64,
    /// Free pages, those on per-CPU lists not counted.
    pub free: u64,
    /// Pages that hold file data.
    pub cached: u64,
    /// Cached pages that are dirty.
    pub dirty: u64,
    /// The watermarks as they are now: min, low, high.
    pub marks: [u64; 3],
    /// Pages evicted so far.
    pub evicted: u64,
}

/// Returns the zone type that stands for a class (0: the general one) among `classes`: the highest
/// class is Normal.
fn kind(class: usize, classes: usize) -> ZoneType {
    [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal][class + CLASSES - classes]
}

/// Returns allocation flags `gfp` with the zone bits of a class among `classes`, so that the
/// allocation takes from that class and those below.
pub(crate) fn asked(gfp: Gfp, class: usize, classes: usize) -> Gfp {
    let others = gfp.0 & !Gfp::zone(3).0;
    Gfp(others | Gfp::zone(kind(class, classes) as u32).0)
}

/// Returns the zones of a cache of `pages` pages in all, with these classes above the general one.
///
/// # Errors
/// There are too many classes, or one of them, or the rest for the general class, is too small.
pub(crate) fn zones(classes: &[Class], pages: u64) -> Result<Vec<ZoneInfo>, Error> {
    let refuse = |text: String| Err(Error::Config(text));
    let n = classes.len() + 1;
    if n > CLASSES {
        return refuse(format!(
            "{} classes: accepted are up to {} above the general one",
            n - 1,
            CLASSES - 1
        ));
    }
    let sizes: Vec<u64> = classes.iter().map(|c| c.memory / PAGE as u64).collect();
    let above = sizes.iter().fold(0, |sum: u64, &n| sum.saturating_add(n));
    let general = pages.saturating_sub(above);
    let all: Vec<u64> = [general].into_iter().chain(sizes).collect();
    if n > 1
        && let Some(i) = all.iter().position(|&n| n * (PAGE as u64) < LEAST)
    {
        return refuse(format!(
            "class {i} has {} of {} KiB of memory: it needs at least 1 MiB",
            all[i] * 4,
            pages * 4
        ));
    }
    let zone = |(i, size)| ZoneInfo {
        node: 0,
        kind: kind(i, n),
        size,
    };
    Ok(all.into_iter().enumerate().map(zone).collect())
}

/// Returns the sysctl `lowmem_reserve_ratio`, by zone type, from the ratios by class, the general
/// class first.
pub(crate) fn reserve_ratios(of: &[u32]) -> [u32; 3] {
    let mut ratios = [0; 3];
    for (i, &ratio) in of.iter().enumerate() {
        ratios[kind(i, of.len()) as usize] = ratio;
    }
    ratios
}

/// Returns the policy with the watermarks of the classes, lowest first; `None`: the class has its
/// share by size. With more than one class, fair allocation (3.12) is switched off, because it
/// would take every file's pages from all its classes in proportion to their sizes.
///
/// # Errors
/// Watermarks do not ascend, or are above half of their class.
pub(crate) fn with_marks(
    mut policy: Policy,
    marks: &[Option<Marks>],
    zones: &[ZoneInfo],
) -> Result<Policy, Error> {
    let mut profile = WatermarkProfile::default();
    for (i, (marks, zone)) in marks.iter().zip(zones).enumerate() {
        let Some(m) = marks else { continue };
        if !(m.min <= m.low && m.low <= m.high && m.high / PAGE as u64 <= zone.size / 2) {
            return Err(Error::Config(format!(
                "class {i}, watermarks {}, {}, {} bytes: accepted are ascending values, the \
                 highest at most half of the class, which has {} bytes",
                m.min,
                m.low,
                m.high,
                zone.size * PAGE as u64
            )));
        }
        profile.zones.push(ProfileZone {
            node: zone.node,
            zone: zone.kind,
            min_kbytes: m.min / 1024,
            low_kbytes: m.low / 1024,
            high_kbytes: m.high / 1024,
        });
    }
    if zones.len() > 1 {
        policy.fair_zones = FairZones::Off;
    }
    if !profile.zones.is_empty() {
        policy.profile = Some(profile);
        if policy.watermarks == Watermarks::Sysctl {
            policy.watermarks = Watermarks::Learned;
        }
    }
    Ok(policy)
}
