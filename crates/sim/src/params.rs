//! Every model parameter in one table: unit, value, range, source, and the published cells that it
//! was fitted to, if any.

use serde::Serialize;
use std::collections::BTreeMap;

/// A row of the parameter table.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ParamInfo {
    /// Name, as an experiment's `[params]` section spells it.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Default value.
    pub value: f64,
    /// Least accepted value.
    pub min: f64,
    /// Greatest accepted value.
    pub max: f64,
    /// Source of the value.
    pub source: &'static str,
    /// Published cells that the value was fitted to, as
    /// `series/machine/threads/filesystem/workload/metric/policy`; empty: none.
    pub fitted: &'static [&'static str],
}

/// A set of model parameters with its part of the table.
pub trait Rows {
    /// One row per parameter.
    const ROWS: &'static [ParamInfo];

    /// Returns a parameter's value by name.
    fn get(&self, name: &str) -> Option<f64>;

    /// Returns a reference to a parameter by name.
    fn slot(&mut self, name: &str) -> Option<&mut f64>;
}

/// Joins several parts of the parameter table, at compile time; `N` is the sum of their lengths.
pub(crate) const fn join<const N: usize>(parts: &[&[ParamInfo]]) -> [ParamInfo; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut n) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[n] = parts[part][i];
            i += 1;
            n += 1;
        }
        part += 1;
    }
    assert!(n == N);
    all
}

/// Defines a struct of model parameters and its rows of the table from one list. `part FIELD:
/// TYPE;` includes another such struct as a field.
macro_rules! rows {
    ($(#[$doc:meta])* pub struct $Struct:ident {
        $($name:ident: $unit:literal = $value:expr, $min:expr => $max:expr, $source:literal $(, fitted [$($cell:literal),*])?;)*
        $(#[$field_doc:meta] part $field:ident: $Part:ty;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Struct {
            $(#[doc = concat!($source, " (", $unit, ")")] pub $name: f64,)*
            $(#[$field_doc] pub $field: $Part,)*
        }

        impl Default for $Struct {
            fn default() -> Self {
                Self { $($name: $value,)* $($field: <$Part>::default(),)* }
            }
        }

        impl $crate::params::Rows for $Struct {
            const ROWS: &'static [$crate::params::ParamInfo] = {
                const OWN: &[$crate::params::ParamInfo] = &[$($crate::params::ParamInfo {
                    name: stringify!($name), unit: $unit, value: $value, min: $min, max: $max,
                    source: $source, fitted: &[$($($cell),*)?],
                },)*];
                const N: usize = OWN.len() $(+ <$Part as $crate::params::Rows>::ROWS.len())*;
                &$crate::params::join::<N>(&[OWN $(, <$Part as $crate::params::Rows>::ROWS)*])
            };

            fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None$(.or_else(|| self.$field.get(name)))*,
                }
            }

            fn slot(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None$(.or_else(|| self.$field.slot(name)))*,
                }
            }
        }
    };
}
pub(crate) use rows;

rows! {
    /// The values of all model parameters for one run.
    pub struct Params {
    // CPU costs of a machine of 2010-2011 (about 2.5 GHz).
    cost_scale: "times" = 1.0, 0.01 => 100.0, "factor on all CPU costs below: 2 is a machine whose CPUs take twice as long for each";
    cost_page_alloc: "ns" = 120.0, 1.0 => 1e5, "one order-0 allocation from a per-CPU list with its watermark test: about 300 cycles";
    cost_page_bulk: "ns" = 40.0, 1.0 => 1e5, "one page between buddy and per-CPU list: about 100 cycles with a cache miss";
    cost_page_free: "ns" = 80.0, 1.0 => 1e5, "one free_hot_cold_page: about 200 cycles";
    pageblock_order: "" = 9.0, 4.0 => 10.0, "order of a pageblock (`mobility`): 9 is a huge page of x86-64; 10 in kernels without them, such as User-Mode Linux";
    cost_page_index: "ns" = 150.0, 1.0 => 1e5, "one radix tree insertion or deletion under its lock: about 400 cycles";
    cost_lru: "ns" = 50.0, 1.0 => 1e5, "one page through a pagevec: about 120 cycles";
    cost_lru_delete: "ns" = 50.0, 0.0 => 1e5, "one page taken off its LRU list as it is freed, by the task that truncates its file or unmaps it last: as cost_lru";
    cost_page_scan: "ns" = 200.0, 1.0 => 1e5, "one page isolated, tested and put back or freed: 125 000 pages/s were seen with writes, CPU alone about 500 cycles (docs/reference/workloads.md#writeback-from-reclaim)";
    cost_unmap: "ns" = 500.0, 1.0 => 1e5, "one try_to_unmap with its TLB flush";
    cost_page_dirty: "ns" = 150.0, 1.0 => 1e5, "set_page_dirty with accounting and radix tag";
    cost_writeback_start: "ns" = 200.0, 1.0 => 1e5, "one page prepared for I/O, tags and counters";
    cost_writeback_end: "ns" = 150.0, 1.0 => 1e5, "one page in an end_io handler";
    cost_zone_walk: "ns" = 60.0, 1.0 => 1e5, "one zone examined on a walk over zones: a cache line or two";
    cost_shrink_slab: "ns" = 5000.0, 500.0 => 1e6, "one walk over all shrinkers: one lock taken and a dozen shrinkers called, at least 500 ns";
    cost_slab_object: "ns" = 150.0, 1.0 => 1e6, "one dentry or inode evicted, or examined by a shrinker or by the log: two cache misses";
    cost_slab_make: "ns" = 150.0, 0.0 => 1e6, "one dentry, inode or record made: as cost_slab_object";
    cost_copy: "ns" = 1200.0, 1.0 => 1e6, "clear_user plus copy_from_user of 4 KiB at 3-4 GB/s each way";
    cost_clear: "ns" = 400.0, 0.0 => 1e6, "4 KiB of /dev/zero read, clear_user at about twice the speed of a copy: a third of the cost_copy of both";
    cost_fault: "ns" = 800.0, 1.0 => 1e6, "one minor fault, entry to exit, zeroing included";
    cost_mkwrite: "ns" = 0.0, 0.0 => 1e6, "additional cost of a fault that makes a page of a shared mapping writable, beside cost_fault; above 0 where each such fault is taken twice, as under User-Mode Linux 6.1";
    cost_touch: "ns" = 60.0, 0.0 => 1e5, "one load or store to a mapped page: a TLB miss and a cache miss";
    cost_syscall: "ns" = 150.0, 1.0 => 1e6, "one system call, entry and exit";
    cost_submit: "ns" = 2000.0, 1.0 => 1e6, "one bio through the block layer";
    cost_refuse: "ns" = 250.0, 1.0 => 1e6, "one writepage call that dirties its page again";
    cost_writeback_round: "ns" = 1500.0, 1.0 => 1e6, "one turn of balance_dirty_pages or of the flusher";
    cost_dirty_limit: "ns" = 0.0, 0.0 => 1e5, "one zone's dirty limit computed: four counters, two divisions and the task's flags, some 200 cycles where the counters are other CPUs' cache lines (sequential-read 5 is about this cost); 0: cost_page_alloc includes it, as on the machines of the older series", fitted ["sequential-read/desktop/all/ext3/tiobench/system_cpu/3.16-lessdirty"];
    cost_lookup: "ns" = 1500.0, 1.0 => 1e6, "looking up a path of three names in the dentry cache and opening or refusing it, beside the system call: lmbench open/close took 2 to 3 us in 2011";
    cost_exists: "ns" = 1500.0, 0.0 => 1e6, "a mkdir of a name that exists, beside the system call: as cost_lookup";
    name_calls: "" = 2.0, 1.0 => 4.0, "system calls of a program that opens or removes a file by its name: the C library's fstat after open, lstat before unlink";
    cost_create: "ns" = 8000.0, 1.0 => 1e6, "a new inode and its directory entry in memory: lmbench lat_fs made 50 000 to 120 000 empty files a second in 2011";
    cost_unlink: "ns" = 6000.0, 1.0 => 1e6, "removing a name and its inode in memory; lmbench lat_fs removed somewhat more than it made";
    cost_close: "ns" = 500.0, 1.0 => 1e6, "closing a file, beside the system call: the rest of lmbench open/close, which cost_lookup cites";
    cost_fork: "ns" = 120000.0, 1000.0 => 1e7, "fork, exit and wait of a small process: lmbench lat_proc fork, 100 to 150 us in 2011";
    cost_gettimeofday: "ns" = 50.0, 1.0 => 1e5, "gettimeofday in user mode (vsyscall, TSC); 1 to 2 us where the clock is the HPET";
    cost_look: "ns" = 0.0, 0.0 => 1e6, "one reading of the clock by a program that times its calls, where the reading is a system call; 0: a vDSO and a TSC, about 20 ns, too short to matter here";
    cost_look_later: "ns" = 0.0, 0.0 => 1e6, "part of cost_look that is charged late: with the next other system call, or once the sum is a microsecond, as a guest's kernel charges its debts (not fitted: LEAST_DEBT of crates/kernel/patches)";
    cost_trace_event: "ns" = 1000.0, 0.0 => 1e6, "recording one trace event in the ring buffer, with monitors: 0.5 to 1 us on hardware of 2009 to 2011 (LWN, ftrace articles)";
    cost_trace_read: "ns" = 10000.0, 0.0 => 1e7, "formatting one trace event and reading it by a script, with monitors";
    monitor_tools: "processes" = 5.0, 1.0 => 16.0, "vmstat, iostat, top, a sampler of /proc and the trace reader, with monitors";
    monitor_memory: "bytes" = 134217728.0, 4096.0 => 1073741824.0, "anonymous memory of the monitors together: some MB for each tool, more for the scripts that read their output", fitted ["writeback-from-reclaim/512M/1X/xfs/fsmark/vmstat: Swap Ins/vanilla"];
    monitor_written: "share" = 0.33, 0.0 => 1.0, "share of that memory that a sample changes: of the pages swapped in, only these must be swapped out again", fitted ["writeback-from-reclaim/512M/1X/xfs/fsmark/vmstat: Swap Outs/vanilla"];
    monitor_interval: "ns" = 1e10, 1e6 => 1e12, "pause between two samples: the harness's default of 10 s";
    monitor_sample: "ns" = 2e7, 0.0 => 1e10, "CPU time of a sample: some hundred small files of /proc, 50 us each";
    boot_offset: "ns" = 3.15e16, 1.0 => 1e17, "range over which the wall clock's reading at boot varies between runs, from 2011 on: a year";
    // Scheduler.
    quantum: "ns" = 10000.0, 100.0 => 1e6, "design: virtual time by which one CPU may run ahead of another";
    sched_latency: "ns" = 18e6, 1e5 => 1e9, "CFS: 6 ms times 1 + log2(4 CPUs)";
    sched_min_granularity: "ns" = 2.25e6, 1e4 => 1e9, "CFS: 0.75 ms times 1 + log2(4 CPUs)";
    sched_wakeup_granularity: "ns" = 3e6, 1e4 => 1e9, "CFS: 1 ms times 1 + log2(4 CPUs)";
    sched_place: "0, 1 or 2" = 0.0, 0.0 => 2.0, "2: CFS as in kernels 2.6.23 to 6.5: a task that wakes is placed at most half a latency behind the tasks of its CPU (place_entity), slices end at timer ticks (check_preempt_tick), and high-priority workers have their weight; 1: slices end at their exact time, and all tasks have the same weight; 0: as 1, but a task is placed only if it wakes on a busy CPU, so after a long sleep a task may keep an idle CPU for as long";
    sched_switch: "ns" = 2000.0, 0.0 => 1e6, "one context switch with its cache effects";
    idle_wakeup: "ns" = 5000.0, 0.0 => 1e7, "median time from wake-up to running on an idle CPU: C1 exit plus IPI";
    idle_wakeup_sigma: "ln" = 0.5, 0.0 => 3.0, "spread of idle_wakeup (sigma of its logarithm)";
    // Filesystems.
    fs_layout_spread: "blocks" = 65536.0, 1.0 => 1e9, "where a fresh filesystem's allocator begins differs between runs: up to 256 MiB, and an eighth of the disk at most";
    fs_look_ahead: "0 or 1" = 0.0, 0.0 => 1.0, "1: xfs converts a delayed extent as a whole and preallocates behind the end of an open file, ext4 takes aligned chunks, ext3 gives a page its block when it is written to, out of a reservation window (Linux 3.0 xfs_iomap_write_allocate, xfs_iomap_prealloc_size, ext4_mb_normalize_request, EXT3_MAX_RESERVE_BLOCKS); 0: blocks are taken in the order of writing";
    journal_commit_interval: "ns" = 5e9, 1e6 => 1e12, "jbd and jbd2: commit every 5 s";
    btrfs_commit_interval: "ns" = 3e10, 1e6 => 1e12, "btrfs: transaction commit every 30 s";
    btrfs_fast_checksum: "0 or 1" = 1.0, 0.0 => 1.0, "1: the CPU has an instruction for crc32c; 0: a worker of btrfs computes the checksums of asynchronous writes and submits them, so the task that writes back never sleeps for a free request (Linux 6.12 fs/btrfs/bio.c should_async_write, where pages leave writeback by ioends). User-Mode Linux has no such instruction, so `validate` sets 0";
    xfs_log_interval: "ns" = 3e10, 1e6 => 1e12, "xfssyncd: every 30 s (docs/reference/shrinkers-and-xfs.md#log-and-pusher)";
    xfs_buffers: "buffers" = 4096.0, 1.0 => 1e7, "inode clusters and directory blocks that an xfs keeps in buffers, most recently used first: 32 MiB, about what memory pressure leaves; with xfs_log = buffered a shrinker decides instead";
    xfs_ags: "groups" = 0.0, 0.0 => 65536.0, "allocation groups of an xfs, limited so that each has at least 16 MiB (mkfs.xfs, XFS_AG_MIN_BYTES); 0: the number that mkfs chooses";
    vfat_cluster: "bytes" = 0.0, 0.0 => 65536.0, "bytes of a vfat's cluster, rounded down to a power of two, at least 512 (mkfs.vfat -s); 0: as mkfs.vfat chooses for FAT32 (dosfstools src/mkfs.fat.c establish_params: 512 up to 260 MiB, 4 KiB up to 8 GiB, 8 KiB up to 16 GiB, 16 KiB up to 32 GiB, then 32 KiB)";
    vfat_fats: "tables" = 2.0, 1.0 => 4.0, "file allocation tables of a vfat, all of which are written (mkfs.vfat -f; Linux 6.12 fs/fat/fatent.c fat_mirror_bhs)";
    vfat_sync: "0 or 1" = 0.0, 0.0 => 1.0, "1: vfat is mounted with -o sync: a write waits for its data, directory entry and tables, each change of a table for its sector (Linux 6.12 fs/fat/fatent.c fat_alloc_clusters, fat_mirror_bhs; SB_SYNCHRONOUS)";
    vfat_dirsync: "0 or 1" = 0.0, 0.0 => 1.0, "1: vfat is mounted with -o dirsync: making and removing a name waits for the directory's sector (Linux 6.12 fs/fat/dir.c fat_add_entries, fat_remove_entries; IS_DIRSYNC)";
    vfat_flush: "0 or 1" = 0.0, 0.0 => 1.0, "1: vfat is mounted with -o flush, as desktops mounted sticks: a task that closes a file open for writing starts writeback of the file and of all metadata, and sleeps a tenth of a second (Linux 6.12 fs/fat/file.c fat_file_release)";
    exfat_cluster: "bytes" = 0.0, 0.0 => 1048576.0, "bytes of an exfat's cluster, rounded down to a power of two, at least 512 (mkfs.exfat -c); 0: as mkfs.exfat chooses (exfatprogs lib/libexfat.c exfat_set_default_cluster_size: 512 below 7 MiB, 4 KiB up to 256 MiB, 32 KiB up to 32 GiB, then 128 KiB)";
    exfat_sync: "0 or 1" = 0.0, 0.0 => 1.0, "1: exfat is mounted with -o sync: a write waits for its data and all metadata, each change of bitmap or table for its sector (Linux 6.12 fs/exfat/inode.c exfat_map_cluster, fatent.c exfat_ent_set; SB_SYNCHRONOUS)";
    exfat_dirsync: "0 or 1" = 0.0, 0.0 => 1.0, "1: exfat is mounted with -o dirsync: making and removing a name waits for the directory's sectors (Linux 6.12 fs/exfat/namei.c exfat_add_entry; IS_DIRSYNC)";
    fuse_max_write: "bytes" = 4096.0, 4096.0 => 131072.0, "FUSE splits a write into pages unless the mount asks for big_writes (128 KiB), which ntfs-3g of 2011 did not by itself";
    read_ahead: "pages" = 32.0, 0.0 => 1024.0, "the largest window of a disk (`read_ahead_kb`), docs/reference/workloads.md#read-ahead: 128 KiB, which arrays and btrfs raise; any other value is written to each device and raised by none; 0: missing pages are read one by one (Linux 3.16 mm/readahead.c, page_cache_sync_readahead without ra_pages)";
    read_ahead_on_demand: "0 or 1" = 1.0, 0.0 => 1.0, "1: windows that grow with sequential reads, with a marked page that starts reading the next window; random reads bring in only the pages asked for (Linux 2.6.23 to 6.12 mm/readahead.c, ondemand_readahead); 0: the whole window when a page is missing, unlike any kernel since 2.6.23; presets of 6.x always read on demand (`file_readahead`)";
    watch_pages: "0 or 1" = 0.0, 0.0 => 1.0, "1: each zone counts the age of file pages at reclaim, the reclaimed pages that were read ahead and never used, and the reads that found their page in the zone; presets of 6.x always count these; counting makes runs slower";

    nr_requests: "requests" = 128.0, 16.0 => 8192.0, "requests of one class a queue holds before it is full; docs/reference/writeback.md#request-queue (BLKDEV_MAX_RQ); a RAID-0 has this many per member";
    batch_requests: "requests" = 32.0, 1.0 => 1024.0, "requests a batching task may allocate beyond a full queue; Linux 3.0 block/blk-core.c, BLK_BATCH_REQ";
    batch_time: "ns" = 2e7, 1e6 => 1e9, "time for which a batching task may exceed the full queue; Linux 3.0, BLK_BATCH_TIME = HZ/50";
    max_request: "bytes" = 524288.0, 4096.0 => 1310720.0, "largest request of a disk, 1024 sectors and 128 segments; docs/reference/writeback.md#request-queue";
    disks_alike: "0 or 1" = 0.0, 0.0 => 1.0, "1: a driver registers every disk with the depth of the deepest one; 0: with its own. User-Mode Linux's virtio_blk has one variable for all disks (queue_depth), so `validate` sets 1";
    just_booted: "0 or 1" = 0.0, 0.0 => 1.0, "1: the machine has just booted, as a guest of `validate` has: the workload begins at a distance from a tick that the seed draws; no dirtier was throttled since boot, so the dirty limit that falls slowly is still that of all memory (Linux 3.3, page_writeback_init before the kernel takes its memory); and the disks came up a second before the workload, which counts as a dirtier's sleep (bdi_init): where mounting wrote, the windows of writeback throttling have widened the depth by then; 0: the limit has fallen since boot";
    boot_reclaimable: "pages" = 0.0, 0.0 => 1e6, "part of the kernel's memory at boot (`machine.boot`) that is reclaimable slab, and so lies in reclaimable pageblocks (`mobility`): SReclaimable of /proc/meminfo; `validate` sets its guests' value";
    boot_locked: "pages" = 0.0, 0.0 => 1e6, "part of the kernel's memory at boot (`machine.boot`) that is locked memory of processes, and so lies in movable pageblocks (`mobility`): unmovable pages are fewer by this number, and their last pageblock may have free pages; `validate` sets its guests' value";
    plug_requests: "requests" = 32.0, 1.0 => 128.0, "requests that a task's plug holds (plugs = \"task\"); Linux 5.15, BLK_MAX_REQUEST_COUNT (16 before)";
    read_expire: "ns" = 5e8, 1e6 => 6e10, "age at which a queued synchronous request goes first; Linux block/deadline-iosched.c, read_expire = HZ/2";
    write_expire: "ns" = 5e9, 1e6 => 6e10, "age at which a queued asynchronous write goes first; Linux block/deadline-iosched.c, write_expire = 5 HZ";
    fifo_batch: "requests" = 16.0, 1.0 => 1024.0, "requests served in block order before classes and ages are compared again; Linux block/deadline-iosched.c, fifo_batch";
    cfq_slice_sync: "ns" = 1e8, 1e6 => 1e9, "a reader's turn under CFQ; Linux block/cfq-iosched.c, cfq_slice_sync = HZ/10";
    cfq_slice_async: "ns" = 4e7, 1e6 => 1e9, "the turn of asynchronous writes; the same source, cfq_slice_async = HZ/25";
    cfq_slice_idle: "ns" = 8e6, 0.0 => 1e8, "how long CFQ keeps the disk for a reader; the same source, cfq_slice_idle = HZ/125";
    cfq_async_requests: "requests" = 16.0, 1.0 => 256.0, "asynchronous requests a turn; the same source, 2 * cfq_slice_async_rq * (8 - priority 4)";
    cfq_seeky: "requests" = 4.0, 0.0 => 32.0, "seeks among a reader's last 32 requests up to which CFQ keeps the disk for it; the same source, CFQQ_SEEKY. The source exempts deep queues and merges queues that read close to each other, which the model leaves out; where many readers skip cached pages, a value of 8 stands in for that (the experiment sequential-read)", fitted ["sequential-read/desktop/16/ext3/tiobench/seqread_min/3.16-checklow"];
    writes_starved: "batches" = 2.0, 1.0 => 64.0, "synchronous batches that may pass a waiting asynchronous request; Linux block/deadline-iosched.c, writes_starved";
    disk_fail_timeout: "ns" = 3e10, 1e8 => 3e11, "time after which a command to a stopped disk is given up; Linux drivers/scsi/sd.h, SD_TIMEOUT";
    disk_offline_reply: "ns" = 10000.0, 1000.0 => 1e7, "time to fail a request for a disk that was taken offline: software only, no device is involved";


    /// The model parameters of every kind of disk.
    part disks: crate::disks::Figures;
    }
}

impl Params {
    /// The table: one row per parameter.
    pub const TABLE: &'static [ParamInfo] = Self::ROWS;

    /// Returns a parameter's value by name.
    pub fn get(&self, name: &str) -> Option<f64> {
        Rows::get(self, name)
    }

    /// Returns the parameters with all CPU costs (`cost_…`) multiplied by `cost_scale`, for
    /// building a world.
    pub fn scaled(&self) -> Self {
        let mut scaled = self.clone();
        for info in Self::TABLE {
            if info.name.starts_with("cost_")
                && info.name != "cost_scale"
                && let Some(slot) = scaled.slot(info.name)
            {
                *slot *= self.cost_scale;
            }
        }
        scaled
    }

    /// Returns these parameters with the values of `own` (by name) put in, as those of a machine or
    /// disk. Names and ranges were checked where they were read.
    pub fn with(&self, own: &BTreeMap<String, f64>) -> Self {
        let mut params = self.clone();
        for (name, value) in own {
            let _ = params.set(name, *value);
        }
        params
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// An unknown name or a value outside the range; the text says which values are accepted.
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
