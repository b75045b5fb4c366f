//! Classes of memory: zones of the engine's, each with watermarks of its own.
//!
//! Linux has zones because some memory is for some requests only. A cache has classes for the same
//! reason: memory that is locked or lies in huge pages is dear, and so are some files' pages (an index). Class
//! 0 is the general one, from which all files take. A file of class `c` takes from class `c`; if that has
//! none to spare from `c - 1`, and so on down to 0, as far as their reserves (`lowmem_reserve`) let it.
//! Nothing that happens to files of lower classes moves a page of a higher one.

use crate::arena::PAGE;
use crate::file::Error;
use mm::memory::gfp::Gfp;
use mm::policy::{FairZones, ProfileZone, WatermarkProfile, Watermarks};
use mm::{Policy, ZoneInfo, ZoneType};

/// Classes that there may be, the general one among them: the zones below Movable.
pub(crate) const CLASSES: usize = 3;
/// The least memory of a class beside another, in bytes.
const LEAST: u64 = 1 << 20;

/// The kernel's for its Normal zone.
pub(crate) const RESERVE_RATIO: u32 = 32;

/// How the system holds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Held {
    /// As the memory of any program, by pages of 4 KiB as they are touched.
    Ordinary,
    /// It is there from the beginning and never swapped out (`mlock(2)`); the process needs
    /// `RLIMIT_MEMLOCK` for it.
    Locked,
    /// In huge pages where the system has them (`MADV_HUGEPAGE`), had from it by a thread of the cache when that
    /// begins: fewer misses of the TLB, and no allocation that waits until the system has cleared, or made room for,
    /// 2 MiB. All of it is the process's from then on.
    #[default]
    HugePages,
}

/// Watermarks of a class, in bytes, ascending, the highest at most half of the class: below `low` kswapd
/// is woken and works until `high` is free, and below `min` whoever needs a page reclaims for himself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Bytes that only those who write or free pages may use.
    pub min: u64,
    /// Bytes below which kswapd is woken.
    pub low: u64,
    /// Bytes to which it frees.
    pub high: u64,
}

/// A class above the general one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Its bytes, a part of [`crate::Config::memory`]; 1 MiB at least.
    pub memory: u64,
    /// Pages of files of higher classes leave one part in so many of the memory of those classes free
    /// here (`lowmem_reserve_ratio`); 0: they leave nothing.
    pub reserve_ratio: u32,
    /// Its watermarks; `None`: its part of the whole cache's, by size.
    pub marks: Option<Marks>,
    /// How the system holds it.
    pub held: Held,
}

impl Default for Class {
    /// No memory yet; a reserve as Linux keeps it of its largest zone.
    fn default() -> Self {
        Self {
            memory: 0,
            reserve_ratio: RESERVE_RATIO,
            marks: None,
            held: Held::default(),
        }
    }
}

/// What a class holds. Pages, unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassStats {
    /// All of it.
    pub pages: u64,
    /// Free ones, those on lists of CPUs not counted.
    pub free: u64,
    /// Those that hold data of files.
    pub cached: u64,
    /// Of these, newer than their file.
    pub dirty: u64,
    /// The watermarks as they are now: min, low, high.
    pub marks: [u64; 3],
    /// Evicted so far.
    pub evicted: u64,
}

/// The zone of a class among `classes`: the highest is Normal.
fn kind(class: usize, classes: usize) -> ZoneType {
    [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal][class + CLASSES - classes]
}

/// What is asked of the engine for a page of a class, among so many.
pub(crate) fn asked(gfp: Gfp, class: usize, classes: usize) -> Gfp {
    let others = gfp.0 & !Gfp::zone(3).0;
    Gfp(others | Gfp::zone(kind(class, classes) as u32).0)
}

/// The zones of a cache with these classes above the general one, and so many pages in all.
///
/// # Errors
/// Too many classes, or one that is too small or leaves too little.
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
            "class {i} has {} of {} KiB of memory: it needs 1 MiB at least",
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

/// `lowmem_reserve_ratio` by zone type; the general class's comes first.
pub(crate) fn reserve_ratios(of: &[u32]) -> [u32; 3] {
    let mut ratios = [0; 3];
    for (i, &ratio) in of.iter().enumerate() {
        ratios[kind(i, of.len()) as usize] = ratio;
    }
    ratios
}

/// A policy whose classes have these watermarks, lowest first; `None`: the class has its part by size. Fair
/// allocation (3.12) would have every file take from all of its classes by their size: with more than one
/// it is off.
///
/// # Errors
/// Watermarks that do not ascend or are more than half of their class.
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
                "class {i}, watermarks {}, {}, {} bytes: they ascend, and the highest is at most half of \
                 the class, which has {} bytes",
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
