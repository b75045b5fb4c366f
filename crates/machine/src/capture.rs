//! A captured machine: the parsed files, combined.

use crate::era::Era;
use crate::parse::{self, SwapArea, Zone};
use crate::root::{ReadError, Root};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a page of the engine, and of every machine that can be captured.
pub const PAGE: u64 = 4096;

/// The relevant vm sysctls, in the kernel's units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// `vm.min_free_kbytes`, in kB.
    pub min_free_kbytes: u64,
    /// `vm.watermark_scale_factor`, in ten-thousandths of a zone; 10 before 4.6, where it had no
    /// effect.
    pub watermark_scale_factor: u64,
    /// `vm.watermark_boost_factor`, in ten-thousandths of the high watermark; `None` before 5.0.
    pub watermark_boost_factor: Option<u64>,
    /// `vm.lowmem_reserve_ratio`, by lower zone type.
    pub lowmem_reserve_ratio: Vec<u64>,
    /// `vm.dirty_background_ratio`, in percent; 0 where the bytes are set.
    pub dirty_background_ratio: u64,
    /// `vm.dirty_ratio`, in percent; 0 where the bytes are set.
    pub dirty_ratio: u64,
    /// `vm.dirty_background_bytes`, in bytes; 0 where the ratio is set.
    pub dirty_background_bytes: u64,
    /// `vm.dirty_bytes`, in bytes; 0 where the ratio is set.
    pub dirty_bytes: u64,
    /// `vm.dirty_writeback_centisecs`, in hundredths of a second.
    pub dirty_writeback_centisecs: u64,
    /// `vm.dirty_expire_centisecs`, in hundredths of a second.
    pub dirty_expire_centisecs: u64,
    /// `vm.swappiness`, 0..=200.
    pub swappiness: u64,
    /// `vm.vfs_cache_pressure`, in percent.
    pub vfs_cache_pressure: u64,
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// The disk's name in `/sys/block`.
    pub name: String,
    /// `MAJOR:MINOR`.
    pub number: Option<String>,
    /// Device numbers of its partitions.
    pub partitions: Vec<String>,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Whether the kernel considers it a rotating disk.
    pub rotational: bool,
    /// Whether the medium is removable, as in a USB stick.
    pub removable: bool,
    /// The size of its request queue.
    pub nr_requests: Option<u64>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The largest request in kB.
    pub max_sectors_kb: Option<u64>,
    /// Read-ahead in kB.
    pub read_ahead_kb: Option<u64>,
    /// Whether the device reports a volatile write cache.
    pub write_back: bool,
    /// Members of a RAID-0.
    pub raid0_members: Option<u64>,
}

impl Disk {
    /// Returns true if `device` is the kernel's name of this disk or of one of its partitions:
    /// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1` (`disk_name` in block/genhd.c), and not `sdaa1` or
    /// `nvme0n12` of them.
    pub(crate) fn has_device(&self, device: &str) -> bool {
        let Some(rest) = device.strip_prefix(&self.name) else {
            return false;
        };
        // A name that ends with a digit has a `p` before the partition's number.
        let number = match self.name.ends_with(|c: char| c.is_ascii_digit()) {
            true => rest.strip_prefix('p'),
            false => Some(rest),
        };
        let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        rest.is_empty() || number.is_some_and(is_number)
    }
}

/// A captured machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Captured {
    /// The kernel release.
    pub release: String,
    /// The zones as the kernel lists them, empty ones too.
    pub zones: Vec<Zone>,
    /// The online CPUs, by the kernel's numbers; at least one.
    pub cpus: BTreeSet<u32>,
    /// The CPUs of each node that lists them; empty for a node with memory only.
    pub node_cpus: BTreeMap<u32, BTreeSet<u32>>,
    /// `/proc/vmstat`.
    #[serde(skip)]
    pub vmstat: BTreeMap<String, u64>,
    /// `/proc/meminfo` in kB.
    #[serde(skip)]
    pub meminfo: BTreeMap<String, u64>,
    /// The vm sysctls.
    pub settings: Settings,
    /// Whether khugepaged runs, and so raises `min_free_kbytes`.
    pub huge_pages: bool,
    /// Whether the multi-generational LRU is on; `None`: the kernel has none.
    pub lru_gen: Option<bool>,
    /// Timer ticks a second, where the kernel's configuration can be read.
    pub hz: Option<u32>,
    /// Swap areas.
    pub swaps: Vec<SwapArea>,
    /// Block devices with a capacity, without those in memory or in files.
    pub disks: Vec<Disk>,
    /// The device number of the root filesystem.
    pub root_device: Option<String>,
}

impl Captured {
    /// Reads a machine from its `/proc`, `/sys` and `/boot` (live, or a saved tree).
    ///
    /// # Errors
    /// A file is missing or malformed, or the machine has pages of another size.
    pub fn read(root: &Root) -> Result<Self, ReadError> {
        let release = root.text("proc/sys/kernel/osrelease")?.trim().to_owned();
        parse::release(&release).map_err(|e| root.wrong("proc/sys/kernel/osrelease", e))?;
        let (zones, vmstat, meminfo) = memory(root)?;
        page_size(root, &vmstat, &meminfo)?;
        let node_cpus = node_cpus(root)?;
        let online = root.optional("sys/devices/system/cpu/online", parse::cpus)?;
        // Without the list of online CPUs, all that a node lists count; without these, CPU 0.
        let mut cpus = online.unwrap_or_else(|| node_cpus.values().flatten().copied().collect());
        if cpus.is_empty() {
            cpus.insert(0);
        }
        Ok(Self {
            hz: hz(root, &release),
            zones,
            cpus,
            node_cpus,
            vmstat,
            meminfo,
            settings: settings(root)?,
            huge_pages: huge_pages(root)?,
            lru_gen: root.optional("sys/kernel/mm/lru_gen/enabled", parse::lru_gen)?,
            swaps: root
                .optional("proc/swaps", parse::swaps)?
                .unwrap_or_default(),
            disks: disks(root)?,
            root_device: root
                .part("proc/self/mountinfo", parse::root_mount)
                .ok()
                .and_then(|t| parse::mount_device(&t).map(str::to_owned)),
            release,
        })
    }

    /// Returns the formulas of its kernel's release.
    pub fn era(&self) -> Era {
        Era::of(parse::release(&self.release).unwrap_or((0, 0)))
    }

    /// Returns the zones that have pages.
    pub fn populated(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|z| z.managed > 0)
    }

    /// Returns a counter of `/proc/vmstat` in pages, at most [`parse::MOST_PAGES`]; 0 if the kernel
    /// has none of that name.
    pub fn pages(&self, name: &str) -> u64 {
        let pages = self.vmstat.get(name).copied().unwrap_or(0);
        pages.min(parse::MOST_PAGES)
    }

    /// Returns a figure of `/proc/meminfo` in pages of 4 KiB; 0 if the kernel has none of that
    /// name.
    pub fn memory_pages(&self, name: &str) -> u64 {
        self.meminfo.get(name).copied().unwrap_or(0) / 4
    }

    /// Returns the free pages that no zone manages yet: a kernel may give memory to its zones only
    /// when it is needed. Only `/proc/meminfo` counts such pages as free. 0 if the zones manage all
    /// memory.
    pub fn unmanaged_free(&self) -> u64 {
        let managed: u64 = self.zones.iter().map(|z| z.managed).sum();
        if self.memory_pages("MemTotal") <= managed {
            return 0;
        }
        self.memory_pages("MemFree")
            .saturating_sub(self.pages("nr_free_pages"))
    }

    /// Returns the disk with a device number (`MAJOR:MINOR`), its own or one of its partitions'.
    pub fn disk_of(&self, number: &str) -> Option<&Disk> {
        self.disks.iter().find(|d| {
            d.number.as_deref() == Some(number) || d.partitions.iter().any(|p| p == number)
        })
    }
}

/// Makes a machine of the text of `/proc/zoneinfo` alone. Settings that it does not show are the
/// kernel's defaults, and it says nothing of CPUs, disks and swap; sentences without a full stop on
/// that are returned, too.
///
/// # Errors
/// The text is not that of /proc/zoneinfo, or has no zone with pages.
pub fn of_zoneinfo(text: &str) -> Result<(Captured, Vec<String>), parse::ParseError> {
    let zones = parse::zoneinfo(text)?;
    if zones.iter().all(|z| z.managed == 0) {
        return Err(parse::ParseError {
            line: 1,
            what: "no zone that has pages".into(),
        });
    }
    // Pages by use stand with the first zone of each node since 4.8, with each zone before.
    let sum = |name: &str| -> u64 {
        let of = |line: &str| {
            let mut words = line.split_whitespace();
            let is = words.next() == Some(name);
            is.then(|| words.next()?.parse::<u64>().ok()).flatten()
        };
        let pages = text
            .lines()
            .filter_map(of)
            .map(|n| n.min(parse::MOST_PAGES));
        pages.fold(0, u64::saturating_add).min(parse::MOST_PAGES)
    };
    let used = Used {
        anon: sum("nr_active_anon") + sum("nr_inactive_anon"),
        active_file: sum("nr_active_file"),
        inactive_file: sum("nr_inactive_file"),
    };
    let cpus = text.lines().filter_map(|l| l.trim().strip_prefix("cpu: "));
    let most = cpus.filter_map(|n| n.trim().parse::<u32>().ok()).max();
    let notes = vec![
        "/proc/zoneinfo says nothing of dirty limits, swappiness, swap and disks: the kernel's defaults are \
         assumed"
            .to_owned(),
        "/proc/zoneinfo does not name the kernel's release".to_owned(),
    ];
    let captured = Captured::of_zones(zones, most.unwrap_or(0), &used);
    Ok((captured, notes))
}

/// The use of a machine's memory, in pages.
pub(crate) struct Used {
    pub anon: u64,
    pub active_file: u64,
    pub inactive_file: u64,
}

impl Captured {
    /// Makes a machine of its zones, the highest number of a CPU that is known, and the use of its
    /// memory: release, ticks, disks and swap are unknown, and settings are the kernel's defaults
    /// but for what the zones show.
    pub(crate) fn of_zones(zones: Vec<Zone>, last_cpu: u32, used: &Used) -> Self {
        let free: u64 = zones.iter().map(|z| z.free).sum();
        let meminfo = [
            ("MemTotal", zones.iter().map(|z| z.managed).sum()),
            ("MemFree", free),
            ("AnonPages", used.anon),
            ("Active(file)", used.active_file),
            ("Inactive(file)", used.inactive_file),
        ];
        Self {
            release: UNKNOWN_RELEASE.to_owned(),
            cpus: (0..=last_cpu.min(MOST_CPU)).collect(),
            node_cpus: BTreeMap::new(),
            vmstat: [("nr_free_pages".to_owned(), free)].into(),
            meminfo: meminfo
                .map(|(name, pages)| (name.to_owned(), pages * 4))
                .into(),
            settings: Settings::of_marks(&zones),
            huge_pages: false,
            lru_gen: None,
            hz: None,
            swaps: Vec::new(),
            disks: Vec::new(),
            root_device: None,
            zones,
        }
    }
}

/// The highest number of a CPU that Linux has (`NR_CPUS`, 8192).
const MOST_CPU: u32 = 8191;

/// The release that stands for an unknown one: that of the newest preset.
const UNKNOWN_RELEASE: &str = "6.12 (the text does not say which)";

impl Settings {
    /// Returns the kernel's defaults, with what a machine's zones show of its settings:
    /// `min_free_kbytes` is the sum of the min watermarks of all zones but HighMem and Movable
    /// (each of which the kernel has rounded down to a page), and `watermark_scale_factor` follows
    /// from the distance from min to low in the largest zone, unless a quarter of min decides on
    /// it.
    pub(crate) fn of_marks(zones: &[Zone]) -> Self {
        let low = |z: &&Zone| z.name != "HighMem" && z.name != "Movable" && z.managed > 0;
        let low = || zones.iter().filter(low);
        let factor = low().max_by_key(|z| z.managed).map_or(10, |zone| {
            let [min, low, _] = zone.marks;
            let distance = low.saturating_sub(min);
            match distance > min / 4 + 1 {
                // Rounded up: the kernel rounds the distance down to a page.
                true => (distance * 10_000).div_ceil(zone.managed).clamp(1, 3000),
                false => 10,
            }
        });
        Self {
            min_free_kbytes: low().map(|z| z.marks[0] * 4).sum::<u64>().max(1),
            watermark_scale_factor: factor,
            watermark_boost_factor: None,
            lowmem_reserve_ratio: vec![256, 256, 32, 0, 0],
            dirty_background_ratio: 10,
            dirty_ratio: 20,
            dirty_background_bytes: 0,
            dirty_bytes: 0,
            dirty_writeback_centisecs: 500,
            dirty_expire_centisecs: 3000,
            swappiness: 60,
            vfs_cache_pressure: 100,
        }
    }
}

type Memory = (Vec<Zone>, BTreeMap<String, u64>, BTreeMap<String, u64>);

/// Reads `/proc/zoneinfo`, `/proc/vmstat` and `/proc/meminfo` as close to one moment as possible:
/// repeats, up to 20 times, while the free memory before and after the counters differs. Returns
/// the zones, the counters in pages and the sums in kB, in this order.
fn memory(root: &Root) -> Result<Memory, ReadError> {
    let mut tries = 0;
    loop {
        let before = root.parsed("proc/meminfo", parse::kilobytes)?;
        let vmstat = root.parsed("proc/vmstat", parse::counters)?;
        let meminfo = root.parsed("proc/meminfo", parse::kilobytes)?;
        let zones = root.parsed("proc/zoneinfo", parse::zoneinfo)?;
        tries += 1;
        let quiet = before.get("MemFree") == meminfo.get("MemFree");
        if quiet || tries == 20 {
            for name in ["MemTotal", "MemFree"] {
                if !meminfo.contains_key(name) {
                    return Err(root.wrong("proc/meminfo", format!("has no `{name}`")));
                }
            }
            if !vmstat.contains_key("nr_free_pages") {
                return Err(root.wrong("proc/vmstat", "has no `nr_free_pages`"));
            }
            return Ok((zones, vmstat, meminfo));
        }
    }
}

/// Refuses pages other than 4 KiB, because the engine has no others. The size of a saved tree's
/// pages is inferred from a quantity in both pages (`vmstat`) and kB (`meminfo`).
fn page_size(
    root: &Root,
    vmstat: &BTreeMap<String, u64>,
    meminfo: &BTreeMap<String, u64>,
) -> Result<(), ReadError> {
    let bytes = if root.is_live() {
        rustix::param::page_size() as u64
    } else {
        // A saved tree does not state it; a quantity in both pages and kB reveals it.
        let pairs = [
            ("nr_active_file", "Active(file)"),
            ("nr_mapped", "Mapped"),
            ("nr_free_pages", "MemFree"),
        ];
        let pair = pairs.iter().find_map(|(pages, kb)| {
            let (pages, kb) = (*vmstat.get(*pages)?, *meminfo.get(*kb)?);
            (pages >= 64).then_some(kb * 1024 / pages)
        });
        match pair {
            // The next existing size, from halfway on.
            Some(bytes) if bytes > 8192 => bytes.next_power_of_two(),
            _ => PAGE,
        }
    };
    if bytes == PAGE {
        return Ok(());
    }
    Err(root.wrong(
        "proc/vmstat",
        format!("the machine has pages of about {bytes} bytes; accepted: pages of 4096 bytes"),
    ))
}

/// Reads the vm sysctls from `/proc/sys/vm`. A value above the kernel's own limit is an error;
/// sysctls that older kernels lack may be missing.
fn settings(root: &Root) -> Result<Settings, ReadError> {
    let path = |name: &str| format!("proc/sys/vm/{name}");
    let bounded = |name: &str, value: u64, most: u64| {
        if value <= most {
            return Ok(value);
        }
        Err(root.wrong(&path(name), format!("{value} is more than {most}")))
    };
    let number = |name: &str, most: u64| {
        let value = root.parsed(&path(name), parse::number)?;
        bounded(name, value, most)
    };
    let int = i32::MAX as u64;
    let scale = "watermark_scale_factor";
    let ratios = root.parsed(&path("lowmem_reserve_ratio"), parse::numbers)?;
    for ratio in &ratios {
        bounded("lowmem_reserve_ratio", *ratio, int)?;
    }
    Ok(Settings {
        min_free_kbytes: number("min_free_kbytes", int)?,
        watermark_scale_factor: match root.optional(&path(scale), parse::number)? {
            Some(n) => bounded(scale, n, 10_000)?,
            None => 10,
        },
        watermark_boost_factor: root.optional(&path("watermark_boost_factor"), parse::number)?,
        lowmem_reserve_ratio: ratios,
        dirty_background_ratio: number("dirty_background_ratio", 100)?,
        dirty_ratio: number("dirty_ratio", 100)?,
        dirty_background_bytes: number("dirty_background_bytes", u64::MAX / 2)?,
        dirty_bytes: number("dirty_bytes", u64::MAX / 2)?,
        dirty_writeback_centisecs: number("dirty_writeback_centisecs", int)?,
        dirty_expire_centisecs: number("dirty_expire_centisecs", int)?,
        swappiness: number("swappiness", 200)?,
        vfs_cache_pressure: number("vfs_cache_pressure", int)?,
    })
}

/// Returns true if khugepaged runs, which raises `min_free_kbytes`: transparent huge pages are on,
/// in general or for PMD-sized pages.
fn huge_pages(root: &Root) -> Result<bool, ReadError> {
    let dir = "sys/kernel/mm/transparent_hugepage";
    let is_on = |text: &str| parse::choice(text).map(|word| word != "never");
    let Some(general) = root.optional(&format!("{dir}/enabled"), is_on)? else {
        return Ok(false);
    };
    // The setting of 2-MiB pages overrides the general one, unless it is `inherit`.
    let of_size = root.optional(&format!("{dir}/hugepages-2048kB/enabled"), |text| {
        parse::choice(text).map(|word| match word {
            "never" => false,
            "inherit" => general,
            _ => true,
        })
    })?;
    Ok(of_size.unwrap_or(general))
}

/// Returns the CPUs of each node that lists them in `/sys/devices/system/node`; the set of a node
/// with memory only is empty.
fn node_cpus(root: &Root) -> Result<BTreeMap<u32, BTreeSet<u32>>, ReadError> {
    let dir = "sys/devices/system/node";
    let mut all = BTreeMap::new();
    for name in root.names(dir) {
        let Some(Ok(node)) = name.strip_prefix("node").map(str::parse::<u32>) else {
            continue;
        };
        if let Some(cpus) = root.optional(&format!("{dir}/{name}/cpulist"), parse::cpus)? {
            all.insert(node, cpus);
        }
    }
    Ok(all)
}

/// Returns `CONFIG_HZ`, the timer ticks a second, from the kernel's configuration in `/boot`;
/// `None` if that can't be read or has no known value.
fn hz(root: &Root, release: &str) -> Option<u32> {
    // The release becomes a part of a path.
    if release.contains('/') {
        return None;
    }
    let file = format!("boot/config-{release}");
    let line = root.part(&file, parse::config_line).ok()?;
    parse::config_hz(&line).filter(|hz| [100, 250, 300, 1000].contains(hz))
}

/// Reads the block devices of `/sys/block` with their queues' settings. Devices in memory or in
/// files, and those of no capacity, are left out.
fn disks(root: &Root) -> Result<Vec<Disk>, ReadError> {
    let mut all = Vec::new();
    for name in root.names("sys/block") {
        let of_memory = ["loop", "ram", "zram", "nbd", "fd", "sr"].iter().any(|p| {
            name.strip_prefix(p)
                .is_some_and(|n| n.parse::<u32>().is_ok())
        });
        if of_memory {
            continue;
        }
        let dir = format!("sys/block/{name}");
        let sectors = root.optional(&format!("{dir}/size"), parse::number)?;
        // `size` is in sectors of 512 bytes, regardless of the device's sector size.
        let bytes = sectors.unwrap_or(0).saturating_mul(512);
        if bytes == 0 {
            continue;
        }
        let number = |file: &str| root.optional(&format!("{dir}/{file}"), parse::number);
        let text = |file: &str| {
            let text = root.text(&format!("{dir}/{file}")).ok()?;
            Some(text.trim().to_owned())
        };
        let raid0 = text("md/level").as_deref() == Some("raid0");
        let partitions = root
            .names(&dir)
            .into_iter()
            .filter(|part| part.starts_with(&name))
            .filter_map(|part| text(&format!("{part}/dev")))
            .collect();
        all.push(Disk {
            number: text("dev"),
            partitions,
            bytes,
            rotational: number("queue/rotational")? == Some(1),
            removable: number("removable")? == Some(1),
            nr_requests: number("queue/nr_requests")?,
            scheduler: text("queue/scheduler")
                .and_then(|t| parse::choice(&t).map(str::to_owned).ok()),
            max_sectors_kb: number("queue/max_sectors_kb")?,
            read_ahead_kb: number("queue/read_ahead_kb")?,
            write_back: text("queue/write_cache").as_deref() == Some("write back"),
            raid0_members: if raid0 {
                number("md/raid_disks")?
            } else {
                None
            },
            name,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_their_own_disk() {
        let has = |name: &str, device: &str| {
            let disk = Disk {
                name: name.to_owned(),
                ..Disk::default()
            };
            disk.has_device(device)
        };
        for (disk, device) in [
            ("sda", "sda"),
            ("sda", "sda12"),
            ("sdaa", "sdaa1"),
            ("nvme0n1", "nvme0n1p2"),
            ("md0", "md0p1"),
            ("dm-1", "dm-1"),
        ] {
            assert!(has(disk, device), "{device} of {disk}");
        }
        for (disk, device) in [
            ("sda", "sdaa1"),
            ("sda", "sdaa"),
            ("sda", "sdap1"),
            ("nvme0n1", "nvme0n12"),
            ("nvme0n1", "nvme0n12p1"),
            ("dm-1", "dm-10"),
            ("md0", "md0p"),
        ] {
            assert!(!has(disk, device), "{device} of {disk}");
        }
    }
}
