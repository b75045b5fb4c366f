//! Every key and every engine of fio (3.33, and the keys of later versions that job files use),
//! with the answer that a job file gets here.
//!
//! The page `docs/fio.md` is the text of [`page`]; a test compares them.

use std::fmt::Write as _;

/// The answer to a key or an engine of fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The key works as in fio.
    Done,
    /// The key can change nothing here; the results list it.
    NoEffect,
    /// The key belongs to a device or an engine that has no meaning here; it is refused.
    Elsewhere,
    /// The key is refused, although it would have a meaning here.
    NotYet,
}

impl Answer {
    /// Returns the answer in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NoEffect => "no effect here",
            Self::Elsewhere => "a device or engine that has no meaning here",
            Self::NotYet => "not yet",
        }
    }
}

/// Keys with one answer and the reason for it. Names are separated by spaces; a key's other names
/// follow its first, each after a `|`.
pub struct Row {
    /// The names.
    pub names: &'static str,
    /// The answer.
    pub answer: Answer,
    /// The effect of the keys here, or the reason for the answer.
    pub about: &'static str,
}

/// Makes a row.
const fn row(answer: Answer, names: &'static str, about: &'static str) -> Row {
    Row {
        names,
        answer,
        about,
    }
}

use Answer::{Done, Elsewhere, NoEffect, NotYet};

/// Every key of a job file.
pub const KEYS: &[Row] = &[
    row(Done, "name", "the job's name, of which its files are named"),
    row(
        Done,
        "rw|readwrite",
        "without trims; also `rw=randread:8` and `rw=read:-8k`",
    ),
    row(
        Done,
        "rw_sequencer",
        "sequential or identical, with `rw=randread:8`",
    ),
    row(
        Done,
        "bs|blocksize bsrange|blocksize_range bssplit",
        "for reads, writes and trims; sizes of trims are read and not used",
    ),
    row(
        Done,
        "bs_unaligned|blocksize_unaligned",
        "sizes of `bsrange` of any number of bytes",
    ),
    row(
        Done,
        "bs_is_seq_rand",
        "the first `bs` is for sequential offsets, the second for random",
    ),
    row(Done, "ba|blockalign", "the alignment of random offsets"),
    row(
        Done,
        "size io_size|io_limit filesize",
        "bytes; `size` also a share of `filesize` or device",
    ),
    row(
        Done,
        "fill_device|fill_fs",
        "the job ends when no space is left",
    ),
    row(
        Done,
        "offset|fileoffset offset_increment offset_align",
        "where the accessed part of a file begins: bytes or a share of the file",
    ),
    row(Done, "number_ios loops", "how much a job does"),
    row(Done, "numjobs", "processes of a job"),
    row(
        Done,
        "iodepth",
        "with libaio and direct=1, with io_uring, and with io_submit_mode=offload",
    ),
    row(
        Done,
        "io_submit_mode",
        "offload keeps `iodepth` calls of any engine in flight",
    ),
    row(Done, "ioengine", "see the engines below"),
    row(
        Done,
        "direct buffered",
        "O_DIRECT; 4 KiB are the smallest unit of the simulated device",
    ),
    row(Done, "atomic", "as direct=1, which it implies"),
    row(Done, "sync", "none, sync (O_SYNC) or dsync (O_DSYNC)"),
    row(
        Done,
        "fsync fdatasync end_fsync fsync_on_close",
        "calls of fsync and fdatasync",
    ),
    row(
        Done,
        "overwrite allow_file_create",
        "the files exist before the job",
    ),
    row(
        Done,
        "pre_read",
        "the files are read into the page cache before the job begins",
    ),
    row(
        Done,
        "invalidate",
        "1 drops the cached pages of files that an earlier job used; 0 is the default here and 1 is \
         fio's, because the kernels' figures that `validate` keeps were taken without it",
    ),
    row(
        Done,
        "unlink",
        "the files are removed when the job has ended",
    ),
    row(
        Done,
        "directory filename filename_format",
        "paths; `filename=a:b` has several files",
    ),
    row(
        Done,
        "nrfiles|nr_files openfiles file_service_type",
        "roundrobin, sequential, random, zipf, pareto or normal order of files",
    ),
    row(
        Done,
        "rate rate_iops rate_process",
        "limits; rate_process is linear or poisson",
    ),
    row(
        Done,
        "rate_ignore_thinktime",
        "thinktime does not count for the rate",
    ),
    row(
        Done,
        "thinktime thinktime_spin thinktime_blocks thinktime_blocks_type thinktime_iotime",
        "pauses between requests",
    ),
    row(
        Done,
        "rwmixread rwmixwrite percentage_random",
        "shares of reads and of random offsets",
    ),
    row(
        Done,
        "random_distribution",
        "random, zipf, pareto, normal (gauss), zoned and zoned_abs",
    ),
    row(
        Done,
        "norandommap",
        "blocks may repeat before all were accessed",
    ),
    row(Done, "fadvise_hint", "0 (none), 1, random or sequential"),
    row(
        Done,
        "runtime|timeout time_based ramp_time",
        "how long a job runs",
    ),
    row(
        Done,
        "startdelay",
        "a time, or a range of which each process draws one",
    ),
    row(
        Done,
        "stonewall|wait_for_previous wait_for new_group exitall exit_what",
        "which jobs wait for which, and end with which",
    ),
    row(
        Done,
        "flow flow_id flow_sleep",
        "jobs of one flow_id issue requests in these proportions",
    ),
    row(
        Done,
        "verify do_verify verify_only verify_backlog verify_backlog_batch",
        "what was written is read again; contents are not simulated, so are not compared",
    ),
    row(
        Done,
        "zonemode zonesize zoneskip zonerange",
        "zonemode is none or strided",
    ),
    row(
        Done,
        "steadystate|ss steadystate_duration|ss_dur steadystate_ramp_time|ss_ramp",
        "the job ends in a steady state",
    ),
    row(
        Done,
        "latency_target latency_window latency_percentile latency_run",
        "the largest depth up to `iodepth` that keeps the latency is sought",
    ),
    row(
        Done,
        "stat_type",
        "the engine filestat: stat and lstat are one call here, statx is refused",
    ),
    row(
        Done,
        "kb_base",
        "1024 (the default) or 1000: the meaning of k and ki",
    ),
    row(
        Done,
        "continue_on_error",
        "failed calls of these kinds do not end the run",
    ),
    // Keys that can change nothing here.
    row(
        NoEffect,
        "description unit_base clocksource gtod_reduce gtod_cpu eta status-interval minimal \
         output output-format append-terse bandwidth-log warnings-fatal max-jobs alloc-size",
        "how fio measures and prints",
    ),
    row(
        NoEffect,
        "group_reporting stats per_job_logs write_bw_log write_lat_log write_iops_log \
         write_hist_log log_entries log_avg_msec log_window_value log_hist_msec \
         log_hist_coarseness log_max_value log_offset log_prio log_issue_time log_compression \
         log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch \
         log_alternate_epoch_clock_id bwavgtime iopsavgtime disk_util disable_lat disable_clat \
         disable_slat disable_bw_measurement|disable_bw slat_percentiles clat_percentiles \
         lat_percentiles percentile_list significant_figures unified_rw_reporting \
         block_error_percentiles error_dump",
        "figures are of all jobs together, and the results have their own logs",
    ),
    row(
        NoEffect,
        "randrepeat allrandrepeat randseed random_generator softrandommap",
        "random numbers are the same in every run",
    ),
    row(
        NoEffect,
        "zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage \
         buffer_compress_chunk dedupe_percentage dedupe_mode dedupe_working_set_percentage \
         dedupe_global verify_interval verify_offset verify_pattern verify_fatal verify_dump \
         verify_async verify_async_cpus verify_state_save verify_state_load verify_write_sequence \
         experimental_verify",
        "data have no contents",
    ),
    row(
        NoEffect,
        "mem|iomem iomem_align|mem_align hugepage-size",
        "memory of fio's own buffers, which is not simulated",
    ),
    row(
        NoEffect,
        "thread nice prio prioclass uid gid cpumask cpus_allowed cpus_allowed_policy \
         numa_cpu_nodes numa_mem_policy cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit",
        "processes have no priorities, and run on all CPUs",
    ),
    row(
        NoEffect,
        "iodepth_batch|iodepth_batch_submit iodepth_batch_complete_min|iodepth_batch_complete \
         iodepth_batch_complete_max hipri hipri_percentage registerfiles fixedbufs sqthread_poll \
         sqthread_poll_cpu userspace_reap nonvectored force_async nowait",
        "how requests are handed to the kernel; each is issued by itself",
    ),
    row(
        NoEffect,
        "fallocate create_on_open create_serialize create_fsync allow_mounted_write write_hint \
         unique_filename",
        "files are laid out before the run begins",
    ),
    row(
        NoEffect,
        "rate_min|ratemin rate_iops_min rate_cycle|ratecycle max_latency exitall_on_error \
         ignore_error",
        "fio ends a job that is too slow or fails; here the results tell its rate and latencies",
    ),
    row(
        NoEffect,
        "device-names load test-duration threads-per-queue read-req-num-512-blocks \
         large-block-op-kbytes prep block numruns dir threads",
        "keys of fio's profiles, which are without effect where no `profile` is chosen",
    ),
    // Keys with a meaning that are not simulated yet.
    row(NotYet, "file_append", "beginning at the end of the file"),
    row(NotYet, "sync_file_range", "writeback of a range"),
    row(
        NotYet,
        "write_barrier",
        "a barrier between writes; fdatasync is near to it",
    ),
    row(
        NotYet,
        "uncached",
        "buffered requests that drop their pages",
    ),
    row(
        NotYet,
        "iodepth_low serialize_overlap",
        "rules for filling the queue",
    ),
    row(
        NotYet,
        "lockmem",
        "memory that the job locks; burst and mmap-strm take memory",
    ),
    row(
        NotYet,
        "lockfile create_only opendir unlink_each_loop",
        "rules for files",
    ),
    row(
        NotYet,
        "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch",
        "discards, which the disk models do not have",
    ),
    row(
        NotYet,
        "read_iolog write_iolog read_iolog_chunked replay_no_stall replay_time_scale \
         replay_redirect replay_align replay_scale replay_skip merge_blktrace_file \
         merge_blktrace_scalars merge_blktrace_iters",
        "a recording; `run --trace` replays iologs and text of blkparse",
    ),
    row(
        NotYet,
        "exec_prerun exec_postrun ioscheduler profile thinktime_fd dataplacement plids fdp \
         fdp_pli plid_select num_range",
        "commands and settings of the machine; experiments have keys of their own for them",
    ),
    row(
        NotYet,
        "cgroup cgroup_weight cgroup_nodelete",
        "control groups, which an experiment's own keys have",
    ),
    row(
        NotYet,
        "ss_interval|steadystate_check_interval",
        "the interval of a steady state's checks",
    ),
    // Keys of devices and engines that are not simulated.
    row(
        Elsewhere,
        "zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits \
         zone_reset_threshold zone_reset_frequency",
        "zoned block devices",
    ),
    row(
        Elsewhere,
        "cpuload cpuchunks cpumode exit_on_io_done program arguments grace_time std_redirect",
        "the engines cpuio and exec, which do no I/O",
    ),
    row(
        Elsewhere,
        "hostname port protocol|proto interface ttl nodelay listen pingpong window_size mss \
         namenode serverip direct_write_to_pmem busy_wait_polling clustername rbdname clientname \
         conf busy_poll touch_objects pool cont chunk_size object_class hdfsdirectory verb \
         bindname http_host http_user http_pass https http_mode http_s3_region http_s3_key \
         http_s3_keyid http_s3_sse_customer_key http_s3_sse_customer_algorithm \
         http_s3_storage_class http_s3_security_token http_swift_auth_token http_verbose uri \
         nfs_url volume brick server client remote-config initiator",
        "networks and storage behind them",
    ),
    row(
        Elsewhere,
        "skip_bad readfua writefua sg_write_mode stream_id cmd_type md_per_io_size pi_act pi_chk \
         apptag apptag_mask deallocate verify_mode write_mode gpu_dev_ids gpu_dev_id cuda_io \
         xnvme_async \
         xnvme_sync xnvme_admin xnvme_dev_nsid xnvme_dev_subnqn xnvme_mem xnvme_iovec \
         libblkio_driver libblkio_path libblkio_pre_connect_props",
        "commands of devices below the block layer, flash without a controller, and GPUs",
    ),
    row(
        Elsewhere,
        "donorname inplace",
        "the engine e4defrag, which is not simulated",
    ),
];

/// Every engine of fio.
pub const ENGINES: &[Row] = &[
    row(
        Done,
        "sync psync vsync pvsync pvsync2",
        "read and write, one call at a time",
    ),
    row(
        Done,
        "libaio",
        "direct=1: `iodepth` requests in flight; buffered calls one at a time, as by Linux",
    ),
    row(
        Done,
        "io_uring",
        "`iodepth` requests in flight, direct or buffered",
    ),
    row(
        Done,
        "posixaio",
        "one call at a time: glibc makes the calls of one file one after the other",
    ),
    row(Done, "mmap", "the file is mapped and its pages are touched"),
    row(
        Done,
        "splice",
        "as psync: the data pass through the page cache",
    ),
    row(
        Done,
        "filecreate filestat filedelete",
        "open, stat or unlink of each of `nrfiles` files",
    ),
    row(Done, "ftruncate", "ftruncate to the offset of each write"),
    row(
        NotYet,
        "falloc e4defrag dircreate dirstat dirdelete",
        "calls on files other than reads and writes",
    ),
    row(Elsewhere, "null cpuio exec cpp_null", "no I/O"),
    row(
        Elsewhere,
        "net netsplice rdma librpma_apm_client librpma_apm_server librpma_gpspm_client \
         librpma_gpspm_server gfapi gfapi_async rados rbd http nbd nfs libhdfs libiscsi dfs \
         ime_psync ime_psyncv ime_aio",
        "networks and storage behind them",
    ),
    row(
        Elsewhere,
        "sg io_uring_cmd xnvme libblkio libzbc mtd pmemblk dev-dax libpmem libcufile guasi \
         solarisaio windowsaio external",
        "devices below the block layer, memory without a page cache, GPUs and other systems",
    ),
];

impl Row {
    /// Returns the keys of the row: each with its first name and its other names.
    pub fn keys(&self) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
        self.names.split_ascii_whitespace().map(|key| {
            let mut names = key.split('|');
            (names.next().unwrap_or_default(), names)
        })
    }
}

/// Returns the row of a key or an engine and its first name; `None`: the table has no such name.
/// As in fio, `_` and `-` are one character in names.
pub fn find(rows: &'static [Row], name: &str) -> Option<(&'static Row, &'static str)> {
    let plain = |c: u8| if c == b'-' { b'_' } else { c };
    let same = |known: &str| {
        known.len() == name.len() && known.bytes().map(plain).eq(name.bytes().map(plain))
    };
    rows.iter().find_map(|row| {
        let mut keys = row.keys();
        let found =
            keys.find_map(|(first, mut others)| (same(first) || others.any(same)).then_some(first));
        found.map(|first| (row, first))
    })
}

/// Returns the first names of all rows with this answer, joined by commas.
pub fn named(rows: &'static [Row], answer: Answer) -> String {
    let of = rows.iter().filter(|row| row.answer == answer);
    let names = of.flat_map(Row::keys).map(|(name, _)| name);
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the page of all keys and engines, as Markdown: one table of each, ordered by answers.
pub fn page() -> String {
    let mut text = String::from(
        "# fio's keys and engines\n\n\
         Each key of fio's job files, and each of its engines, has one of four answers here. A\n\
         key that can change nothing is listed once with the results. Keys and engines of the\n\
         last two kinds are refused: all of a job file in one message, with their lines.\n\
         [Workloads](programs.md) says how jobs run.\n",
    );
    for (title, rows) in [("Keys", KEYS), ("Engines", ENGINES)] {
        let _ = write!(
            text,
            "\n## {title}\n\n| names | answer | here |\n|---|---|---|\n"
        );
        for answer in [Done, NoEffect, NotYet, Elsewhere] {
            for row in rows.iter().filter(|row| row.answer == answer) {
                let names = row.keys().map(|(first, others)| {
                    let others: String = others.map(|o| format!(" (`{o}`)")).collect();
                    format!("`{first}`{others}")
                });
                let names = names.collect::<Vec<_>>().join(", ");
                let about = row.about.replace('|', "\\|");
                let _ = writeln!(text, "| {names} | {} | {about} |", answer.words());
            }
        }
    }
    text
}
