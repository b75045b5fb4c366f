//! Words of the files of memory control groups (cgroup v2), and of people's reports about
//! containers.

use super::Word;
use super::linux::word;

pub(super) const WORDS: &[Word] = &[
    word(
        "memory.stat",
        &["systemd-cgtop", "cgtop", "memory.stat file"],
        "The memory of a control group by kind, in bytes: anon and file are most of it, and the lists inactive_anon to unevictable split both by \
         age. file_dirty and file_writeback are part of file, shmem too although only swap can take it; slab, kernel_stack and pagetables are the \
         kernel's for the group. systemd-cgtop and docker stats show the sum with page cache, so that a large figure need not be a shortage. In \
         results: `group.NAME.…`.",
        &["cgroup", "memory.current", "file_dirty"],
    ),
    word(
        "memory.current",
        &[
            "memory.peak",
            "memory.usage_in_bytes",
            "container_memory_working_set_bytes",
        ],
        "The memory that is charged to a control group now, page cache included, and in memory.peak the most so far. Kubernetes' \
         working set is memory.current less inactive_file, the page cache that is reclaimed first.",
        &["memory.stat", "cgroup"],
    ),
    word(
        "file_dirty",
        &["file_writeback", "memory.stat file_dirty"],
        "Page cache of a control group that waits to be written, and that is being written. It can't be reclaimed before the disk has taken it: a \
         group whose limit is full of it stalls, and may be killed although it only writes files.",
        &["memory.stat", "memory.events"],
    ),
    word(
        "file_mapped",
        &["sock", "vmalloc", "percpu", "sec_pagetables", "zswapped"],
        "Smaller parts of memory.stat: page cache in mappings, anonymous pages that are in swap and in memory, buffers of sockets, vmalloc and \
         per-CPU memory, page tables of devices and virtual machines, stacks of the kernel, memory behind zswap.",
        &["memory.stat"],
    ),
    word(
        "anon_thp",
        &[
            "file_thp",
            "shmem_thp",
            "thp_fault_alloc",
            "thp_collapse_alloc",
            "thp_swpout",
        ],
        "Memory in huge pages of 2 MiB, of the kinds of memory.stat, and how often a fault or khugepaged made one. Not modelled in the engine, nor \
         in guests of User-Mode Linux; guests of QEMU have them.",
        &["memory.stat", "khugepaged"],
    ),
    word(
        "memory.events",
        &[
            "memory.events.local",
            "oom_group_kill",
            "memory.oom.group",
            "oom_memcg",
        ],
        "Counts of what limits did to a control group and those below it: low (reclaimed although protected), high (slowed down), max (at the hard \
         limit), oom (reclaim freed nothing), oom_kill (processes killed), oom_group_kill (the whole group at once, memory.oom.group). In results: \
         `group.NAME.oom_kill` and the like.",
        &["cgroup", "memory.high", "OOM"],
    ),
    word(
        "CONSTRAINT_MEMCG",
        &[
            "CONSTRAINT_NONE",
            "CONSTRAINT_CPUSET",
            "CONSTRAINT_MEMORY_POLICY",
            "failcnt",
            "constraint=CONSTRAINT_MEMCG",
        ],
        "The reason in the line oom-kill of the kernel's log: NONE, the whole machine ran out; MEMCG, a control group was at its limit (failcnt: \
         how often it was), while the machine may have had memory; CPUSET and MEMORY_POLICY, the nodes that the task may use ran out.",
        &["OOM", "memory.events"],
    ),
    word(
        "memory.swap.max",
        &[
            "memory.swap.current",
            "memory.swap.high",
            "memory.zswap.max",
            "memory.memsw.limit_in_bytes",
        ],
        "The swap that a control group may use, and uses. At 0 its anonymous memory can't be reclaimed, so that only its page cache gives way. In \
         an experiment: `swap_max` of [groups].",
        &["cgroup", "memory.stat"],
    ),
    word(
        "memory.reclaim",
        &["proactive reclaim"],
        "A file of a control group: a write of an amount reclaims so much from the group at once, without a shortage (since 5.19).",
        &["cgroup"],
    ),
    word(
        "memory.pressure",
        &["io.pressure", "cpu.pressure"],
        "The stall figures (PSI) of a control group, or of the machine in /proc/pressure: the share of time in which some or all of its tasks \
         waited for memory, I/O or CPUs. Kubernetes' MemoryPressure is none of these: it compares the node's working set with a threshold.",
        &["pressure", "memory.stat"],
    ),
    word(
        "OOMKilled",
        &["exit code 137", "evicted", "kubelet", "resources.limits"],
        "Kubernetes' word for a container whose process the kernel killed (signal 9, exit code 137): mostly at the container's limit \
         (resources.limits.memory, systemd's MemoryMax: memory.max), seldom because the machine ran out. An evicted pod was ended by the kubelet \
         before that. `lowmark machine --from-dmesg FILE` says which it was.",
        &["CONSTRAINT_MEMCG", "memory.events"],
    ),
    word(
        "systemd-oomd",
        &["oomd", "earlyoom", "nohang"],
        "Programs that kill before the kernel does, by pressure (systemd-oomd) or by how much memory and swap is left (earlyoom). Not modelled: \
         their kills are not in a report of the kernel.",
        &["OOM", "memory.pressure"],
    ),
    word(
        "io.max",
        &["io.stat", "cgroup.procs"],
        "Files of a control group for its I/O: limits of its requests, counts, its weight; cgroup.procs lists its processes. In an experiment \
         `io_weight` of [groups] is the weight; limits of I/O are a disk's (`kind = \"volume\"`).",
        &["cgroup"],
    ),
    word(
        "total pagecache pages",
        &[
            "pages RAM",
            "pages reserved",
            "HighMem/MovableOnly",
            "hugepages_total",
            "shmem",
        ],
        "Sums at the end of Mem-Info: page cache (with shmem: tmpfs and shared memory, which only swap can take), all pages of memory, those that \
         the kernel keeps from its allocator, huge pages set aside. Huge pages set aside are used in no other figure.",
        &["Mem-Info"],
    ),
];
