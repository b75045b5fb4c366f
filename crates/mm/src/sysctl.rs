//! The sysctls: what a machine file sets, which values are accepted, and what is recomputed when
//! one is written while the machine runs (docs/reference/writeback.md#sysctls,
//! docs/reference/memory-model.md#watermarks).
//!
//! [`TABLE`] is the only place that holds the kernel's names. An entry makes the field of
//! [`Sysctl`], its default, its range, its place in the JSON schema of machine files and its word
//! in a running engine ([`Mm::write_sysctls`]).

use crate::Mm;
use crate::memory::watermark::lowmem_kbytes;
use crate::size::Size;
use crate::world::{Word64, World};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values that a sysctl accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fits {
    /// A whole number in this range, inclusive.
    Number(u64, u64),
    /// A size in bytes in this range, inclusive.
    Bytes(u64, u64),
    /// kB, up to half of the machine's memory.
    HalfOfMemory,
    /// Three whole numbers, each in this range, inclusive.
    Three(u64, u64),
    /// 0, or a whole number in this range, inclusive.
    ZeroOr(u64, u64),
}

/// The state that the kernel recomputes when a sysctl is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// Nothing: the value is read where it is needed.
    Nothing,
    /// `setup_per_zone_wmarks`: every zone's watermarks and boosts, reserves and counter
    /// thresholds, and with them the amount of dirtyable memory.
    Watermarks,
    /// `update_completion_period`: the period of the proportions of completions and of dirtiers,
    /// and how often dirtiers check the limits.
    CompletionPeriod,
    /// `zone_pcp_update`: how many pages a CPU's lists hold.
    PerCpuLists,
    /// The period of XFS's log and reclaim workers, from their next run on.
    LogPeriod,
}

/// How far the engine models a sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The sysctl has the effect that it has on Linux.
    Works,
    /// No outcome depends on the sysctl; the text says why.
    NoEffect(&'static str),
    /// The engine always behaves as Linux does with these values; the text says why others are not
    /// modelled.
    Only(&'static [u64], &'static str),
}

/// One sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// The kernel's name, with points as in `sysctl -a`.
    pub name: &'static str,
    /// The last part of the name: the key in a machine file's table of sysctls.
    pub key: &'static str,
    /// The unit of the value.
    pub unit: &'static str,
    /// The values that are accepted at boot.
    pub fits: Fits,
    /// Whether a running engine accepts the sysctl only if the machine was built with it. A machine
    /// without it at boot models a kernel from before the sysctl, or its engine has no state for
    /// it.
    pub from_boot: bool,
    /// The state that is recomputed when the sysctl is written.
    pub follows: Follows,
    /// How far the engine models the sysctl.
    pub answer: Answer,
    /// Description of the sysctl, as users read it.
    pub about: &'static str,
}

impl Info {
    /// Returns what a reader of results must know about the sysctl's value `value`: that the engine
    /// does not model it, and why; `None` where the engine does as Linux.
    pub fn note(&self, value: u64) -> Option<String> {
        let name = self.name;
        match self.answer {
            Answer::Works => None,
            Answer::NoEffect(why) => Some(format!("{name} = {value} has no effect here: {why}")),
            Answer::Only(values, _) if values.contains(&value) => None,
            Answer::Only(_, why) => Some(format!(
                "{name} = {value} is not modelled, so figures are those of a machine without it: {why}"
            )),
        }
    }
}

/// Any non-negative number that the kernel's `int` holds.
const ANY: Fits = Fits::Number(0, i32::MAX as u64);

/// The word of an optional sysctl that was not set.
const ABSENT: u64 = u64::MAX;

/// The largest number of words that one sysctl takes.
const PARTS: usize = 3;

/// A type of sysctl values that can be stored in the words of a running engine.
trait Held: Sized {
    /// Returns true if the sysctl was not set, so files leave it out.
    fn absent(&self) -> bool {
        false
    }

    /// Returns one of the value's words; 0 beyond its last.
    fn word(&self, part: usize) -> u64;

    /// Returns the value that these words hold.
    fn of(word: impl Fn(usize) -> u64) -> Self;
}

macro_rules! held {
    ($($type:ty: $value:ident => $to:expr, $word:ident => $of:expr, $absent:expr;)*) => {$(
        impl Held for $type {
            fn absent(&self) -> bool {
                let absent: fn(&Self) -> bool = $absent;
                absent(self)
            }

            #[inline(always)]
            fn word(&self, part: usize) -> u64 {
                let $value = self;
                if part == 0 { $to } else { 0 }
            }

            #[inline(always)]
            fn of(word: impl Fn(usize) -> u64) -> Self {
                let $word = word(0);
                $of
            }
        }
    )*};
}

held! {
    u32: n => u64::from(*n), word => word as u32, |_| false;
    Size: size => size.0, word => Self(word), |_| false;
    Option<u32>: n => n.map_or(ABSENT, u64::from), word => (word != ABSENT).then_some(word as u32), Self::is_none;
    Option<u64>: n => n.unwrap_or(ABSENT), word => (word != ABSENT).then_some(word), Self::is_none;
}

impl Held for [u32; PARTS] {
    #[inline(always)]
    fn word(&self, part: usize) -> u64 {
        u64::from(self[part])
    }

    #[inline(always)]
    fn of(word: impl Fn(usize) -> u64) -> Self {
        std::array::from_fn(|part| word(part) as u32)
    }
}

/// Returns the part of a sysctl's name behind its last point.
const fn last_part(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b'.' {
        at -= 1;
    }
    name.split_at(at).1
}

/// The accepted forms of [`Sysctl::lowmem_reserve_ratio`]: a list, or the text of its file in
/// `/proc/sys`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ratios {
    List(Vec<u32>),
    Text(String),
}

/// Reads `lowmem_reserve_ratio` for serde. A list has a number for each of DMA, DMA32 and Normal. A
/// text may be shorter, as on writing to the kernel's file: zones that it does not reach keep the
/// default. A fourth and fifth number are for Movable memory and devices; there is no memory above
/// these to keep a reserve from, so they are ignored.
///
/// # Errors
/// If the value is neither a list of 3 to 5 numbers nor a text of 1 to 5 numbers.
fn reserve_ratios<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[u32; PARTS], D::Error> {
    use serde::de::Error as _;
    const MOST: usize = 5;
    let wrong = || {
        let what =
            "a list of 3 to 5 whole numbers, or the text of /proc/sys such as \"256 256 32 0 0\"";
        D::Error::custom(format!("not a list of zone reserves; accepted: {what}"))
    };
    let (all, least) = match Ratios::deserialize(from).map_err(|_| wrong())? {
        Ratios::List(list) => (list, PARTS),
        Ratios::Text(text) => {
            let numbers = text.split_whitespace().map(str::parse);
            (numbers.collect::<Result<_, _>>().map_err(|_| wrong())?, 1)
        }
    };
    if !(least..=MOST).contains(&all.len()) {
        return Err(wrong());
    }
    let mut ratios = Sysctl::KERNEL.lowmem_reserve_ratio;
    ratios.iter_mut().zip(all).for_each(|(ratio, n)| *ratio = n);
    Ok(ratios)
}

/// The accepted forms of [`Sysctl::numa_zonelist_order`]: its number, or the text of its file in
/// `/proc/sys`.
#[derive(Deserialize)]
#[serde(untagged)]
enum ZonelistOrder {
    Number(u32),
    Text(String),
}

/// Reads `numa_zonelist_order` for serde: 0, 1 and 2, or words with the first letters d, n and z
/// (default, node, zone), as Linux reads them.
///
/// # Errors
/// If the value is neither a number nor such a word.
fn zonelist_order<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    use serde::de::Error as _;
    let wrong =
        || D::Error::custom("not an order of zones; accepted: \"default\", \"node\" or \"zone\"");
    match ZonelistOrder::deserialize(from).map_err(|_| wrong())? {
        ZonelistOrder::Number(number) => Ok(Some(number)),
        ZonelistOrder::Text(text) => match text.trim_start().as_bytes().first() {
            Some(b'd' | b'D') => Ok(Some(0)),
            Some(b'n' | b'N') => Ok(Some(1)),
            Some(b'z' | b'Z') => Ok(Some(2)),
            _ => Err(wrong()),
        },
    }
}

macro_rules! answer {
    () => {
        Answer::Works
    };
    ($answer:expr) => {
        $answer
    };
}

macro_rules! sysctls {
    ($($(#[doc = $about:literal])+ $(#[serde($($serde:tt)+)])?
       $name:literal, $field:ident: $type:ty = $default:expr, $unit:literal, $fits:expr, $from_boot:literal, $follows:ident
       $(=> $answer:expr)?;)*) => {
        /// The sysctls of a machine, by the last part of their names. Absent: the kernel's default.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Sysctl {
            $($(#[doc = $about])+
            #[serde(skip_serializing_if = "Held::absent")]
            $(#[serde($($serde)+)])?
            pub $field: $type,)*
        }

        /// All sysctls, in the order of [`Sysctl`]'s fields.
        pub const TABLE: &[Info] = &[$(Info {
            name: $name,
            key: last_part($name),
            unit: $unit,
            fits: $fits,
            from_boot: $from_boot,
            follows: Follows::$follows,
            answer: answer!($($answer)?),
            about: concat!($($about),+),
        },)*];

        impl Sysctl {
            /// The defaults of the kernels of the series: 10 and 20 % of dirtyable memory, a
            /// flusher run every 5 s for inodes older than 30 s, the formulas for free memory,
            /// reserves of 1/256, 1/256 and 1/32, swappiness 60.
            pub const KERNEL: Self = Self { $($field: $default,)* };

            fn words(&self) -> [[u64; PARTS]; TABLE.len()] {
                [$(std::array::from_fn(|part| self.$field.word(part)),)*]
            }

            /// Copies the value of one key from another machine's sysctls; returns false if there
            /// is no such key.
            fn take(&mut self, from: &Self, key: &str) -> bool {
                $(if key == last_part($name) {
                    self.$field = from.$field.clone();
                    return true;
                })*
                false
            }
        }

        /// The index of each sysctl in [`Words`].
        #[allow(non_camel_case_types)]
        enum Nth { $($field,)* }

        impl<U: Word64> Words<U> {
            $(#[inline(always)]
            pub fn $field(&self) -> $type {
                let words = &self.0[Nth::$field as usize];
                <$type as Held>::of(|part| words[part].get())
            })*

            /// Returns the present values of all sysctls.
            pub fn get(&self) -> Sysctl {
                Sysctl { $($field: self.$field(),)* }
            }
        }
    };
}

sysctls! {
    /// Background writeback starts above this share of dirtyable memory, in percent.
    "vm.dirty_background_ratio", dirty_background_ratio: u32 = 10,
        "%", Fits::Number(0, 100), false, Nothing;
    /// Dirtiers are throttled at this share of dirtyable memory, in percent.
    "vm.dirty_ratio", dirty_ratio: u32 = 20,
        "%", Fits::Number(0, 100), false, CompletionPeriod;
    /// Background writeback starts above this amount, in bytes; non-zero replaces the ratio.
    "vm.dirty_background_bytes", dirty_background_bytes: Size = Size(0),
        "bytes", Fits::Bytes(0, 16 << 40), false, Nothing;
    /// Dirtiers are throttled at this amount, in bytes; non-zero replaces the ratio.
    "vm.dirty_bytes", dirty_bytes: Size = Size(0),
        "bytes", Fits::Bytes(0, 16 << 40), false, CompletionPeriod;
    /// Periodic flusher wake-up in hundredths of a second; 0 disables it.
    "vm.dirty_writeback_centisecs", dirty_writeback_centisecs: u32 = 500,
        "1/100 s", Fits::Number(0, 8_640_000), false, Nothing;
    /// Age at which periodic writeback takes an inode, in hundredths of a second.
    "vm.dirty_expire_centisecs", dirty_expire_centisecs: u32 = 3000,
        "1/100 s", Fits::Number(0, 8_640_000), false, Nothing;
    /// The minimum of free memory in kB; absent: the kernel's formula.
    "vm.min_free_kbytes", min_free_kbytes: Option<u64> = None,
        "kB", Fits::HalfOfMemory, false, Watermarks;
    /// *tunable-watermarks*: the min watermarks of all zones together in kB. Another name of
    /// `min_free_kbytes`.
    "vm.wmark_min_kbytes", wmark_min_kbytes: Option<u64> = None,
        "kB", Fits::HalfOfMemory, false, Watermarks;
    /// *tunable-watermarks*: the low watermarks of all zones together in kB, at least the minimum;
    /// zones share the sum by size. Absent: by `watermark_scale_factor`.
    "vm.wmark_low_kbytes", wmark_low_kbytes: Option<u64> = None,
        "kB", Fits::HalfOfMemory, false, Watermarks;
    /// *tunable-watermarks*: the high watermarks of all zones together in kB, at least the low
    /// ones; zones share the sum by size. Absent: by `watermark_scale_factor`.
    "vm.wmark_high_kbytes", wmark_high_kbytes: Option<u64> = None,
        "kB", Fits::HalfOfMemory, false, Watermarks;
    /// Distance between a zone's watermarks in ten-thousandths of the zone, 1..=3000, if that is
    /// more than a quarter of the minimum; absent: always the quarter, as before Linux 4.6. With
    /// this key Movable zones have a minimum of their own, as from Linux 6.6 on.
    "vm.watermark_scale_factor", watermark_scale_factor: Option<u32> = None,
        "1/10000", Fits::Number(1, 3000), true, Watermarks;
    /// The largest boost of a zone's watermarks in ten-thousandths of its high watermark, given
    /// when a request has to use pages set aside for another kind (`mobility = "grouped"`),
    /// 0..=100000; 0: none. Absent: none, as before Linux 5.0, whose default is 15000.
    "vm.watermark_boost_factor", watermark_boost_factor: Option<u32> = None,
        "1/10000", Fits::Number(0, 100_000), true, Nothing;
    /// For DMA, DMA32 and Normal: the zone keeps 1/n of the memory above it free from requests that
    /// could use that memory; 0: none. Also the text of /proc/sys, "256 256 32 0 0".
    #[serde(deserialize_with = "reserve_ratios")]
    "vm.lowmem_reserve_ratio", lowmem_reserve_ratio: [u32; 3] = [256, 256, 32],
        "parts", Fits::Three(0, u32::MAX as u64), false, Watermarks;
    /// 1: memory of HighMem zones may be dirtied, too. Absent: 0, the dirty limits are shares of
    /// the memory that the kernel has addresses for. Without HighMem it has no effect.
    "vm.highmem_is_dirtyable", highmem_is_dirtyable: Option<u32> = None,
        "0 or 1", Fits::Number(0, 1), false, Nothing;
    /// Preference for swapping against dropping page cache, 0..=100, and 0..=200 since Linux 5.8.
    "vm.swappiness", swappiness: u32 = 60,
        "of 200", Fits::Number(0, 200), false, Nothing;
    /// Swap read-ahead reads up to 2 to this power pages around the one that is missed; 0: that
    /// page alone. Read-ahead by neighbours in memory reads at most 32 (`SWAP_RA_ORDER_CEILING`).
    #[serde(rename = "page-cluster")]
    "vm.page-cluster", page_cluster: u32 = 3,
        "power of 2", Fits::Number(0, 31), false, Nothing;
    /// How many of the unused dentries and inodes reclaim counts, in percent: above 100 more of
    /// them are freed with each page of the LRU lists scanned, below 100 fewer; 0: none.
    "vm.vfs_cache_pressure", vfs_cache_pressure: u32 = 100,
        "%", Fits::Number(0, i32::MAX as u64), false, Nothing;
    /// Since Linux 5.14: a CPU's lists of a zone hold together its share of 1/n of the zone, 8 or
    /// more, and do not grow or shrink; 0: by the low watermark.
    "vm.percpu_pagelist_high_fraction", percpu_pagelist_high_fraction: u32 = 0,
        "parts", Fits::ZeroOr(8, i32::MAX as u64), false, PerCpuLists;
    /// Up to this fragmentation index a zone is reclaimed for a request of contiguous pages, above
    /// it compacted.
    "vm.extfrag_threshold", extfrag_threshold: u32 = 500,
        "1/1000", Fits::Number(0, 1000), false, Nothing;
    /// 1 or 2: when memory runs out the machine panics instead of killing a task, which ends the
    /// run. Absent: 0, a task is killed.
    "vm.panic_on_oom", panic_on_oom: Option<u32> = None,
        "0, 1 or 2", Fits::Number(0, 2), false, Nothing;
    /// 1: the task whose allocation failed is killed, not the one with the highest score. Absent:
    /// 0.
    "vm.oom_kill_allocating_task", oom_kill_allocating_task: Option<u32> = None,
        "0 or 1", Fits::Number(0, 1), false, Nothing;
    /// How often XFS forces its log and writes changed metadata in place, in hundredths of a
    /// second, 100..=720000; absent: the parameter `xfs_log_interval`.
    "fs.xfs.xfssyncd_centisecs", xfssyncd_centisecs: Option<u32> = None,
        "1/100 s", Fits::Number(100, 720_000), false, LogPeriod;
    /// Seconds after a read in which dirty pages are written as well, while the disk spins; 0: off.
    "vm.laptop_mode", laptop_mode: Option<u32> = None,
        "s", ANY, false, Nothing
        => Answer::Only(&[0], "a read does not start writeback of dirty pages");
    /// How hard kcompactd compacts memory in advance of requests; 0: not at all.
    "vm.compaction_proactiveness", compaction_proactiveness: Option<u32> = None,
        "of 100", Fits::Number(0, 100), false, Nothing
        => Answer::Only(&[0], "the engine has no kcompactd: memory is compacted only when an allocation needs it");
    /// How often a page's lock may be taken by others before a waiter gets it.
    "vm.page_lock_unfairness", page_lock_unfairness: Option<u32> = None,
        "times", ANY, false, Nothing
        => Answer::Only(&[], "a task that waits for a page's lock tries to take it again when it is woken");
    /// The number of mappings that a process may have.
    "vm.max_map_count", max_map_count: Option<u32> = None,
        "mappings", ANY, false, Nothing
        => Answer::NoEffect("no simulated program has more than a few mappings");
    /// Whether mappings are refused for which there may be no memory: 0 obvious ones, 1 none, 2 by
    /// overcommit_ratio.
    "vm.overcommit_memory", overcommit_memory: Option<u32> = None,
        "0, 1 or 2", Fits::Number(0, 2), false, Nothing
        => Answer::Only(&[0, 1], "the engine refuses no mapping");
    /// The share of memory that mappings may have beside swap with overcommit_memory = 2.
    "vm.overcommit_ratio", overcommit_ratio: Option<u32> = None,
        "%", ANY, false, Nothing
        => Answer::NoEffect("the kernel uses it only with overcommit_memory = 2, which is not modelled");
    /// Whether a node reclaims before an allocation moves to another node: bits for clean pages,
    /// writing and swapping.
    "vm.zone_reclaim_mode", zone_reclaim_mode: Option<u32> = None,
        "bits", Fits::Number(0, 7), false, Nothing
        => Answer::Only(&[0], "allocations that a full node cannot serve go to the next node without reclaim");
    /// Memory that overcommit_memory = 2 keeps for the administrator.
    "vm.admin_reserve_kbytes", admin_reserve_kbytes: Option<u64> = None,
        "kB", ANY, false, Nothing
        => Answer::NoEffect("it limits mappings only, and the engine refuses no mapping");
    /// Memory that overcommit_memory = 2 keeps from a process's growth for others.
    "vm.user_reserve_kbytes", user_reserve_kbytes: Option<u64> = None,
        "kB", ANY, false, Nothing
        => Answer::NoEffect("it limits mappings only, and the engine refuses no mapping");
    /// Number of huge pages that are set aside.
    "vm.nr_hugepages", nr_hugepages: Option<u64> = None,
        "huge pages", ANY, false, Nothing
        => Answer::Only(&[0], "no huge pages are set aside; `boot.kernel` can take as much memory");
    /// Share of unmapped file pages above which zone_reclaim_mode reclaims them.
    "vm.min_unmapped_ratio", min_unmapped_ratio: Option<u32> = None,
        "%", Fits::Number(0, 100), false, Nothing
        => Answer::NoEffect("the kernel uses it only with zone_reclaim_mode, which is 0");
    /// Share of reclaimable slab pages above which zone_reclaim_mode shrinks them.
    "vm.min_slab_ratio", min_slab_ratio: Option<u32> = None,
        "%", Fits::Number(0, 100), false, Nothing
        => Answer::NoEffect("the kernel uses it only with zone_reclaim_mode, which is 0");
    /// Age at which an inode is written if only its times have changed (`lazytime`).
    "vm.dirtytime_expire_seconds", dirtytime_expire_seconds: Option<u32> = None,
        "s", ANY, false, Nothing
        => Answer::NoEffect("no simulated filesystem is mounted with lazytime");
    /// How often the CPUs' differences of counters are folded.
    "vm.stat_interval", stat_interval: Option<u32> = None,
        "s", Fits::Number(1, i32::MAX as u64), false, Nothing
        => Answer::Only(&[1], "the engine folds counters once per second");
    /// Writing it drops clean pages (1), dentries and inodes (2) or both (3) at once.
    "vm.drop_caches", drop_caches: Option<u32> = None,
        "1, 2 or 3", Fits::Number(1, 4), false, Nothing
        => Answer::Only(&[], "the engine cannot drop caches on request; at boot only `boot.cache` is cached");
    /// Linux 6.15: requests of contiguous pages reclaim and compact rather than mix kinds of pages.
    "vm.defrag_mode", defrag_mode: Option<u32> = None,
        "0 or 1", Fits::Number(0, 1), false, Nothing
        => Answer::Only(&[0], "Linux 6.15 introduced it, and every preset is older");
    /// Whether the kernel's log has a line for each block that is read or dirtied (up to Linux
    /// 5.13).
    "vm.block_dump", block_dump: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("it only writes lines to the kernel's log");
    /// Any value compacts all memory once.
    "vm.compact_memory", compact_memory: Option<u32> = None,
        "1", ANY, false, Nothing
        => Answer::Only(&[], "memory is compacted only when an allocation needs it");
    /// Whether compaction moves pages that a program has locked.
    "vm.compact_unevictable_allowed", compact_unevictable_allowed: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("no simulated program locks its memory");
    /// Whether pages with corrected errors are taken out of use (6.11).
    "vm.enable_soft_offline", enable_soft_offline: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("simulated memory has no errors");
    /// Whether huge pages come from Movable zones (up to Linux 4.15).
    "vm.hugepages_treat_as_movable", hugepages_treat_as_movable: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("no huge pages are set aside");
    /// Whether the descriptions of huge pages are freed in part.
    "vm.hugetlb_optimize_vmemmap", hugetlb_optimize_vmemmap: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("no huge pages are set aside");
    /// The group that may have shared memory in huge pages.
    "vm.hugetlb_shm_group", hugetlb_shm_group: Option<u32> = None,
        "group", ANY, false, Nothing
        => Answer::NoEffect("no huge pages are set aside");
    /// Where a process's mappings lie.
    "vm.legacy_va_layout", legacy_va_layout: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("no outcome depends on the addresses of mappings");
    /// Whether files of memfd_create can be executed.
    "vm.memfd_noexec", memfd_noexec: Option<u32> = None,
        "0, 1 or 2", ANY, false, Nothing
        => Answer::NoEffect("no simulated program makes such files");
    /// Whether all users of a broken page are killed at once.
    "vm.memory_failure_early_kill", memory_failure_early_kill: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("simulated memory has no errors");
    /// Whether the kernel goes on after an error of memory.
    "vm.memory_failure_recovery", memory_failure_recovery: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("simulated memory has no errors");
    /// The lowest address of a mapping.
    "vm.mmap_min_addr", mmap_min_addr: Option<u64> = None,
        "address", ANY, false, Nothing
        => Answer::NoEffect("no outcome depends on the addresses of mappings");
    /// How many bits of a mapping's address are random.
    "vm.mmap_rnd_bits", mmap_rnd_bits: Option<u32> = None,
        "bits", ANY, false, Nothing
        => Answer::NoEffect("no outcome depends on the addresses of mappings");
    /// As `mmap_rnd_bits`, for programs of 32 bits.
    "vm.mmap_rnd_compat_bits", mmap_rnd_compat_bits: Option<u32> = None,
        "bits", ANY, false, Nothing
        => Answer::NoEffect("no outcome depends on the addresses of mappings");
    /// Number of huge pages that are set aside on the writer's nodes.
    "vm.nr_hugepages_mempolicy", nr_hugepages_mempolicy: Option<u64> = None,
        "huge pages", ANY, false, Nothing
        => Answer::Only(&[0], "no huge pages are set aside; `boot.kernel` can take as much memory");
    /// Number of huge pages that may be had beyond those set aside.
    "vm.nr_overcommit_hugepages", nr_overcommit_hugepages: Option<u64> = None,
        "huge pages", ANY, false, Nothing
        => Answer::NoEffect("no simulated program asks for them");
    /// Number of pdflush threads: always 0 since 2.6.32, where each device has a flusher.
    "vm.nr_pdflush_threads", nr_pdflush_threads: Option<u32> = None,
        "threads", ANY, false, Nothing
        => Answer::NoEffect("it only shows a number");
    /// How much of a mapping is given back on computers without an MMU.
    "vm.nr_trim_pages", nr_trim_pages: Option<u32> = None,
        "pages", ANY, false, Nothing
        => Answer::NoEffect("simulated computers have an MMU");
    /// Whether events of NUMA are counted.
    "vm.numa_stat", numa_stat: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::Only(&[1], "they are always counted");
    /// Up to Linux 4.13, the order of fallback lists: 0 (`default`) by the sizes of zones, 1
    /// (`node`) or 2 (`zone`) first.
    #[serde(deserialize_with = "zonelist_order")]
    "vm.numa_zonelist_order", numa_zonelist_order: Option<u32> = None,
        "0, 1 or 2", Fits::Number(0, 2), false, Nothing
        => Answer::Only(&[0], "the order is the kernel's choice by the sizes of zones");
    /// Whether the report of a kill lists all tasks.
    "vm.oom_dump_tasks", oom_dump_tasks: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("it changes only the text of the report");
    /// As `overcommit_ratio`, in kB.
    "vm.overcommit_kbytes", overcommit_kbytes: Option<u64> = None,
        "kB", ANY, false, Nothing
        => Answer::NoEffect("the kernel uses it only with overcommit_memory = 2, which is not modelled");
    /// Up to Linux 5.13: the most that each CPU's lists of a zone may hold, as 1/n of the zone; 0:
    /// by the list's batch.
    "vm.percpu_pagelist_fraction", percpu_pagelist_fraction: Option<u32> = None,
        "parts", ANY, false, Nothing
        => Answer::Only(&[0], "before linux-6.1 a CPU's lists have their default sizes");
    /// Any value looks through the unevictable pages (up to Linux 3.x).
    "vm.scan_unevictable_pages", scan_unevictable_pages: Option<u32> = None,
        "1", ANY, false, Nothing
        => Answer::NoEffect("no simulated program locks its memory");
    /// A look at it folds the counters of all CPUs.
    "vm.stat_refresh", stat_refresh: Option<u32> = None,
        "1", ANY, false, Nothing
        => Answer::Only(&[], "counters of CPUs are folded when they reach their threshold, and now and then");
    /// Whether any process may use userfaultfd.
    "vm.unprivileged_userfaultfd", unprivileged_userfaultfd: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("no simulated program uses it");
    /// Whether programs have the vDSO.
    "vm.vdso_enabled", vdso_enabled: Option<u32> = None,
        "0 or 1", ANY, false, Nothing
        => Answer::NoEffect("the time of a system call is a parameter");
    /// The value of `vfs_cache_pressure` that counts once (6.16).
    "vm.vfs_cache_pressure_denom", vfs_cache_pressure_denom: Option<u32> = None,
        "parts", ANY, false, Nothing
        => Answer::Only(&[100], "Linux 6.16 introduced it, and every preset is older");
}

impl Default for Sysctl {
    fn default() -> Self {
        Self::KERNEL
    }
}

impl Sysctl {
    /// Resets the three watermark sysctls, as writing `min_free_kbytes` does on a running kernel
    /// (*tunable-watermarks*).
    pub fn reset_wmarks(&mut self) {
        self.wmark_min_kbytes = None;
        self.wmark_low_kbytes = None;
        self.wmark_high_kbytes = None;
    }

    /// Writes the values of these keys from `from`, one after the other, each with the effects of
    /// the kernel's handler on others: bytes and ratio of a dirty limit replace each other
    /// (`dirty_bytes_handler`, `dirty_ratio_handler` and those of the background limit), and the
    /// minimum resets the watermark sysctls or is another name of one.
    ///
    /// # Panics
    /// If a key is in no entry of [`TABLE`].
    pub fn write<'k>(&mut self, from: &Self, keys: impl IntoIterator<Item = &'k str>) {
        for key in keys {
            assert!(self.take(from, key), "there is a sysctl {key}");
            match key {
                "dirty_ratio" => self.dirty_bytes = Size(0),
                "dirty_bytes" => self.dirty_ratio = 0,
                "dirty_background_ratio" => self.dirty_background_bytes = Size(0),
                "dirty_background_bytes" => self.dirty_background_ratio = 0,
                "min_free_kbytes" => self.reset_wmarks(),
                "wmark_min_kbytes" => self.min_free_kbytes = None,
                _ => {}
            }
        }
    }
}

impl Sysctl {
    /// Returns the sysctls that were set or have a default, each with its value: one number, or
    /// three.
    pub fn values(&self) -> Vec<(&'static Info, Vec<u64>)> {
        let written = TABLE.iter().zip(self.words());
        written
            .filter(|(_, words)| words[0] != ABSENT)
            .map(|(info, words)| {
                let parts = match info.fits {
                    Fits::Three(..) => PARTS,
                    _ => 1,
                };
                (info, words[..parts].to_vec())
            })
            .collect()
    }

    /// Returns true if the sysctl with this key was set or has a default.
    pub fn says(&self, key: &str) -> bool {
        self.values().iter().any(|(info, _)| info.key == key)
    }
}

/// Returns the entry of a key or of a kernel's name; `None` if there is none.
pub fn info(name: &str) -> Option<&'static Info> {
    TABLE.iter().find(|i| i.key == name || i.name == name)
}

/// The sysctls of a running engine, one row of words each.
pub(crate) struct Words<U>([[U; PARTS]; TABLE.len()]);

impl<U: Word64 + bytemuck::Zeroable> Words<U> {
    /// Makes the words of a running engine's sysctls, with the values of `boot`.
    pub fn new(boot: &Sysctl) -> Self {
        let zeroed = |_| std::array::from_fn(|_| U::zeroed());
        let words = Self(std::array::from_fn(zeroed));
        words.put(boot);
        words
    }

    /// Stores the values of `new` in the words of a running engine's sysctls.
    fn put(&self, new: &Sysctl) {
        for (words, new) in self.0.iter().zip(new.words()) {
            for (word, new) in words.iter().zip(new) {
                word.set(new);
            }
        }
    }
}

impl<W: World> Mm<W> {
    /// Returns the present sysctls; [`Config::sysctl`](crate::Config::sysctl) has them as they were
    /// at boot.
    pub fn sysctls(&self) -> Sysctl {
        self.sysctl.get()
    }

    /// Writes sysctls while the engine runs and recomputes what depends on those that changed, as
    /// [`TABLE`] says; if none changed, does nothing. The values must be such that a machine may
    /// boot with them, and a sysctl that is accepted only from boot on (`Info::from_boot`) must
    /// have been set then.
    pub fn write_sysctls(&self, new: &Sysctl) {
        // As at boot: a sysctl that the machine does not set has the default of its kernel.
        let new = &new.clone().under(&self.policy);
        let (old, new_words) = (self.sysctls().words(), new.words());
        if old == new_words {
            return;
        }
        let changed = |follows| {
            let pairs = old.iter().zip(&new_words).zip(TABLE);
            let mut changed = pairs.filter(|((old, new), _)| old != new);
            changed.any(|(_, info)| info.follows == follows)
        };
        self.sysctl.put(new);
        self.stat.note_change();
        if changed(Follows::Watermarks) {
            self.write_wmarks(new.min_kbytes(lowmem_kbytes(&self.config.zones)));
        }
        if changed(Follows::PerCpuLists) {
            (0..self.zones.len()).for_each(|z| self.follow_low_mark(z));
        }
        if changed(Follows::CompletionPeriod) {
            self.update_completion_period();
        }
        if changed(Follows::LogPeriod)
            && let Some(centisecs) = new.xfssyncd_centisecs
        {
            self.set_sync_interval(u64::from(centisecs) * crate::CENTISECOND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_last_part_of_its_name_and_stands_once() {
        for (i, info) in TABLE.iter().enumerate() {
            assert_eq!(info.name.rsplit('.').next(), Some(info.key));
            let mut written = Sysctl::KERNEL;
            assert!(written.take(&Sysctl::KERNEL, info.key));
            assert!(TABLE[..i].iter().all(|other| other.key != info.key));
            assert_eq!(super::info(info.name), super::info(info.key));
            assert!(!info.unit.is_empty() && !info.about.trim().is_empty());
        }
    }

    /// Checks that words return the value stored, including absent ones and lists.
    #[test]
    fn words_hold_every_value() {
        use std::cell::Cell;
        let mut s = Sysctl::KERNEL;
        assert_eq!(Words::<Cell<u64>>::new(&s).get(), s);
        s.dirty_bytes = Size(1 << 40);
        s.min_free_kbytes = Some(0);
        s.watermark_scale_factor = Some(3000);
        s.lowmem_reserve_ratio = [0, u32::MAX, 7];
        let words = Words::<Cell<u64>>::new(&s);
        assert_eq!(words.get(), s);
        assert_eq!(words.lowmem_reserve_ratio(), [0, u32::MAX, 7]);
    }

    /// Checks the kernel's form of the reserves: numbers with any white space between them, as many
    /// as a kernel has zones.
    #[test]
    fn reserves_are_read_as_the_kernel_has_them() {
        let read = |value: serde_json::Value| {
            let table = serde_json::json!({ "lowmem_reserve_ratio": value });
            serde_json::from_value::<Sysctl>(table).map(|s| s.lowmem_reserve_ratio)
        };
        for (value, ratios) in [
            (serde_json::json!("256\t256\t32\t0\t0"), [256, 256, 32]),
            (serde_json::json!("128 64 0"), [128, 64, 0]),
            (serde_json::json!("96"), [96, 256, 32]),
            (serde_json::json!([1, 2, 3, 0]), [1, 2, 3]),
        ] {
            assert_eq!(read(value).unwrap(), ratios);
        }
        for value in ["", "256 x 32", "1 2 3 4 5 6", "-1 2 3"] {
            assert!(read(serde_json::json!(value)).is_err(), "{value:?}");
        }
    }

    /// Checks that bytes and ratios replace each other in the order in which they are written.
    #[test]
    fn writing_does_what_the_handlers_do() {
        let from = Sysctl {
            dirty_bytes: Size(1 << 20),
            dirty_ratio: 5,
            min_free_kbytes: Some(4096),
            wmark_low_kbytes: Some(9000),
            ..Sysctl::KERNEL
        };
        let after = |keys: &[&str]| {
            let mut s = Sysctl {
                wmark_high_kbytes: Some(8192),
                ..Sysctl::KERNEL
            };
            s.write(&from, keys.iter().copied());
            s
        };
        let s = after(&["dirty_bytes"]);
        assert_eq!((s.dirty_bytes.0, s.dirty_ratio), (1 << 20, 0));
        let s = after(&["dirty_bytes", "dirty_ratio"]);
        assert_eq!((s.dirty_bytes.0, s.dirty_ratio), (0, 5));
        let s = after(&["min_free_kbytes", "wmark_low_kbytes"]);
        assert_eq!((s.min_free_kbytes, s.wmark_high_kbytes), (Some(4096), None));
        assert_eq!(s.wmark_low_kbytes, Some(9000));
    }
}
