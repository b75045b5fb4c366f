//! Every model parameter in one table: unit, value, range, source, and the published cells it was
//! fitted to, if any.

use serde::Serialize;

/// A row of the parameter table.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ParamInfo {
    /// Its name, as an experiment's `[params]` section spells it.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// The default.
    pub value: f64,
    /// Least accepted value.
    pub min: f64,
    /// Greatest accepted value.
    pub max: f64,
    /// Where the value comes from.
    pub source: &'static str,
    /// Published cells it was fitted to, as `series/filesystem/metric/policy`; empty: none.
    pub fitted: &'static [&'static str],
}

macro_rules! params {
    ($($name:ident: $unit:literal = $value:expr, $min:expr => $max:expr, $source:literal $(, fitted [$($cell:literal),*])?;)*) => {
        /// The values of all model parameters for one run.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Params { $(#[doc = concat!($source, " (", $unit, ")")] pub $name: f64,)* }

        impl Default for Params {
            fn default() -> Self { Self { $($name: $value,)* } }
        }

        impl Params {
            /// The table: one row a parameter.
            pub const TABLE: &'static [ParamInfo] = &[$(ParamInfo {
                name: stringify!($name), unit: $unit, value: $value, min: $min, max: $max,
                source: $source, fitted: &[$($($cell),*)?],
            },)*];

            /// Reads a parameter by name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }

            fn slot(&mut self, name: &str) -> Option<&mut f64> {
                match name { $(stringify!($name) => Some(&mut self.$name),)* _ => None }
            }
        }
    };
}

params! {
    // CPU costs of a machine of 2010-2011 (about 2.5 GHz).
    cost_page_alloc: "ns" = 120.0, 1.0 => 1e5, "one order-0 allocation from a per-CPU list with its watermark test: about 300 cycles";
    cost_page_bulk: "ns" = 40.0, 1.0 => 1e5, "one page between buddy and per-CPU list: about 100 cycles with a cache miss";
    cost_page_free: "ns" = 80.0, 1.0 => 1e5, "one free_hot_cold_page: about 200 cycles";
    cost_page_index: "ns" = 150.0, 1.0 => 1e5, "one radix tree insertion or deletion under its lock: about 400 cycles";
    cost_lru: "ns" = 50.0, 1.0 => 1e5, "one page through a pagevec: about 120 cycles";
    cost_page_scan: "ns" = 200.0, 1.0 => 1e5, "one page isolated, tested and put back or freed: 125 000 pages/s were seen with writes, CPU alone about 500 cycles (reference 07 par. 1.3)";
    cost_unmap: "ns" = 500.0, 1.0 => 1e5, "one try_to_unmap with its TLB flush";
    cost_page_dirty: "ns" = 150.0, 1.0 => 1e5, "set_page_dirty with accounting and radix tag";
    cost_writeback_start: "ns" = 200.0, 1.0 => 1e5, "one page prepared for I/O, tags and counters";
    cost_writeback_end: "ns" = 150.0, 1.0 => 1e5, "one page in an end_io handler";
    cost_zone_walk: "ns" = 60.0, 1.0 => 1e5, "one zone looked at: a cache line or two";
    cost_shrink_slab: "ns" = 5000.0, 1.0 => 1e6, "one walk over all shrinkers";
    cost_copy: "ns" = 1200.0, 1.0 => 1e6, "clear_user plus copy_from_user of 4 KiB at 3-4 GB/s each way";
    cost_fault: "ns" = 800.0, 1.0 => 1e6, "one minor fault, entry to exit, zeroing included";
    cost_syscall: "ns" = 150.0, 1.0 => 1e6, "one system call, entry and exit";
    cost_submit: "ns" = 2000.0, 1.0 => 1e6, "one bio through the block layer";
    cost_refuse: "ns" = 250.0, 1.0 => 1e6, "one writepage call that dirties its page again";
    cost_writeback_round: "ns" = 1500.0, 1.0 => 1e6, "one turn of balance_dirty_pages or of the flusher";
    // Scheduler.
    quantum: "ns" = 10000.0, 100.0 => 1e6, "design: how far one CPU may lead another";
    sched_latency: "ns" = 18e6, 1e5 => 1e9, "CFS: 6 ms times 1 + log2(4 CPUs)";
    sched_min_granularity: "ns" = 2.25e6, 1e4 => 1e9, "CFS: 0.75 ms times 1 + log2(4 CPUs)";
    sched_wakeup_granularity: "ns" = 3e6, 1e4 => 1e9, "CFS: 1 ms times 1 + log2(4 CPUs)";
    sched_switch: "ns" = 2000.0, 0.0 => 1e6, "one context switch with its cache effects";
    idle_wakeup: "ns" = 5000.0, 0.0 => 1e7, "median time from wake-up to running on an idle CPU: C1 exit plus IPI";
    idle_wakeup_sigma: "ln" = 0.5, 0.0 => 3.0, "spread of the same (sigma of its logarithm)";
    // Block layer.
    nr_requests: "requests" = 128.0, 16.0 => 4096.0, "reference 04 par. 6";
    max_request: "bytes" = 524288.0, 4096.0 => 1.6777216e7, "reference 04 par. 6: 1024 sectors";
    writes_starved: "requests" = 2.0, 1.0 => 100.0, "deadline elevator: writes_starved";
    write_expire: "ns" = 5e9, 1e6 => 1e12, "deadline elevator: write_expire";
    read_expire: "ns" = 5e8, 1e6 => 1e12, "deadline elevator: read_expire";
    disk_fail_timeout: "ns" = 1e9, 1e3 => 1e12, "a dead disk answers each command after a link reset; Linux gives 30 s a command, later ones fail at once";
    // Filesystems.
    fs_layout_spread: "blocks" = 65536.0, 1.0 => 1e9, "where a fresh filesystem's allocator begins differs between runs: up to 256 MiB";
    journal_commit_interval: "ns" = 5e9, 1e6 => 1e12, "jbd and jbd2: commit every 5 s";
    btrfs_commit_interval: "ns" = 3e10, 1e6 => 1e12, "btrfs: transaction commit every 30 s";
    xfs_log_interval: "ns" = 3e10, 1e6 => 1e12, "xfssyncd: every 30 s (reference 05 par. 4)";
    fuse_max_write: "bytes" = 131072.0, 4096.0 => 131072.0, "ntfs-3g of 2011 with big_writes: 128 KiB a request";
    read_ahead: "pages" = 32.0, 1.0 => 1024.0, "reference 07 par. 4: 128 KiB";
    // USB flash stick.
    usb_write_bandwidth: "MB/s" = 17.9, 0.1 => 1000.0, "streaming write; reference 07 par. 2 derives 17-19.5 MB/s", fitted ["per-zone-dirty-limits/xfs/elapsed/vanilla"];
    usb_read_bandwidth: "MB/s" = 30.0, 0.1 => 1000.0, "USB 2.0 bulk transfers reach 30-35 MB/s";
    usb_copy_bandwidth: "MB/s" = 17.0, 0.1 => 1000.0, "copying inside the stick is bound by programming, as streaming is";
    usb_unit: "bytes" = 4194304.0, 131072.0 => 6.7108864e7, "allocation unit: 4 MiB is the most common size in Bergmann's survey (LWN, February 2011)";
    usb_open_units: "units" = 5.0, 1.0 => 64.0, "units open at a time: 3 to 8 in the same survey";
    usb_erase: "ns" = 2e6, 0.0 => 1e9, "one erase block erase, NAND data sheets: 1.5-3 ms";
    usb_command: "ns" = 250000.0, 0.0 => 1e9, "USB mass storage: command, data and status phase in 125 us microframes";
    usb_max_request: "bytes" = 122880.0, 4096.0 => 1.6777216e7, "usb-storage: 240 sectors";
    usb_speed_sigma: "ln" = 0.006, 0.0 => 1.0, "how worn and full the stick is at the start of a run: spread of its speed between runs", fitted ["per-zone-dirty-limits/xfs/elapsed stddev"];
    usb_request_sigma: "ln" = 0.05, 0.0 => 1.0, "program time varies page by page, NAND data sheets";
    // Rotating disks.
    disk_rpm: "1/min" = 7200.0, 3600.0 => 15000.0, "desktop drive of 2010";
    disk_track_seek: "ns" = 1e6, 0.0 => 1e9, "data sheet: track to track";
    disk_full_seek: "ns" = 1.8e7, 0.0 => 1e9, "data sheet: full stroke";
    disk_outer_bandwidth: "MB/s" = 135.0, 1.0 => 1000.0, "data sheet: outer zone; reference 07 par. 4: 120-140 MB/s";
    disk_inner_bandwidth: "MB/s" = 65.0, 1.0 => 1000.0, "data sheet: inner zone";
    disk_command: "ns" = 50000.0, 0.0 => 1e9, "SATA command overhead";
    raid_chunk: "bytes" = 65536.0, 4096.0 => 1.6777216e7, "mdadm default of 2010";
    // Solid-state drives.
    ssd_channels: "channels" = 16.0, 1.0 => 256.0, "8 channels of 2 planes, SATA drive of 2011";
    ssd_read: "ns" = 75000.0, 1e3 => 1e8, "MLC page read, data sheet";
    ssd_program: "ns" = 250000.0, 1e3 => 1e8, "MLC page program with a write buffer in front";
    ssd_bandwidth: "MB/s" = 500.0, 10.0 => 1e5, "SATA 6 Gb/s";
    ssd_command: "ns" = 20000.0, 0.0 => 1e8, "AHCI command overhead";
    nvme_channels: "channels" = 64.0, 1.0 => 1024.0, "16 channels of 4 planes";
    nvme_read: "ns" = 60000.0, 1e3 => 1e8, "TLC page read, data sheet";
    nvme_program: "ns" = 200000.0, 1e3 => 1e8, "TLC page program behind an SLC cache";
    nvme_bandwidth: "MB/s" = 3200.0, 10.0 => 1e5, "PCIe 3.0 x4";
    nvme_command: "ns" = 8000.0, 0.0 => 1e8, "NVMe command overhead";
    flash_sigma: "ln" = 0.1, 0.0 => 2.0, "spread of cell times";
}

impl Params {
    /// Sets a parameter.
    ///
    /// # Errors
    /// An unknown name or a value outside the range; the text says what would be accepted.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let Some(info) = Self::TABLE.iter().find(|p| p.name == name) else {
            return Err(format!(
                "unknown parameter `{name}`; `lowmark params` lists the {} parameters",
                Self::TABLE.len()
            ));
        };
        if !(info.min..=info.max).contains(&value) {
            return Err(format!(
                "`{name}` = {value} is out of range; accepted: {} to {} {}",
                info.min, info.max, info.unit
            ));
        }
        *self.slot(name).expect("a table row has a slot") = value;
        Ok(())
    }
}
