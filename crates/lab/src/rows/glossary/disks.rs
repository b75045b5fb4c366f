//! Words about disks, requests and machines.

use super::Word;
use super::screen::word;

/// The words.
pub(super) const WORDS: &[Word] = &[
    word(
        "IOPS",
        &["read IOPS", "write IOPS", "io/s"],
        "Calls of reads or writes a second (I/O operations per second): `reads` or `writes` over the time from the first call to the last.",
        "",
        &["reads", "writes", "read_rate", "write_rate"],
    ),
    word(
        "percentile",
        &[
            "percentiles",
            "p50",
            "p90",
            "p95",
            "p99",
            "p999",
            "99 of 100",
            "read p50 us",
            "read p99 us",
            "read max us",
            "write p50 us",
            "write p99 us",
            "write max us",
        ],
        "The time within which this share of calls ended: p50 half of them (the median), p99 99 of 100, p999 999 of 1000; max is the \
         longest.",
        "calls wait long",
        &["read_latency", "write_latency"],
    ),
    word(
        "nvme",
        &[
            "ssd",
            "usb-flash",
            "volume",
            "raid0",
            "kind of disk",
            "rotational",
        ],
        "Kinds of disks: `disk` rotates; `ssd` is one on SATA, `nvme` one on PCIe with deep queues; `usb-flash` a stick; `volume` a cloud or \
         virtio volume with caps and burst credits; `raid0` stripes over several. docs/disks.md has their models.",
        "",
        &["wbt", "I/O scheduler"],
    ),
    word(
        "wbt",
        &["wbt_lat_usec", "blk-wbt"],
        "Writeback throttling of the block layer (4.10): it lets fewer writes of the flusher through while reads take longer than a target, \
         2 ms on disks that do not rotate and 75 ms on others. Here it is the switch `writeback_throttling`; on and off are two policies.",
        "",
        &["IOPS"],
    ),
    word(
        "I/O scheduler",
        &[
            "mq-deadline",
            "deadline",
            "cfq",
            "kyber",
            "bfq",
            "io.latency",
        ],
        "The order in which a disk's requests are sent: `none`, `deadline` (mq-deadline since 5.0) or `cfq` (up to 4.x), by the key \
         `scheduler` of a disk. Kyber, BFQ and the groups' io.latency are not modelled.",
        "",
        &["wbt"],
    ),
    word(
        "read_ahead_kb",
        &["read-ahead window", "ra_pages"],
        "The largest read-ahead of a disk in KiB. Here it is the parameter `read_ahead` of the disk, in pages.",
        "",
        &["read_rate"],
    ),
    word(
        "max_ratio",
        &["strict_limit", "min_ratio", "min_bytes", "max_bytes"],
        "Limits of one disk's share of the dirty limit (/sys/class/bdi): strict_limit holds it to its share although other disks have room.",
        "",
        &["dirty limit"],
    ),
    word(
        "calls",
        &["call"],
        "System calls of a program that read, write or sync. A short call moved fewer bytes than it asked for.",
        "",
        &["reads", "writes", "short_calls"],
    ),
    word(
        "container",
        &["pod", "Docker", "Kubernetes", "cgexec"],
        "Programs in a control group with limits of its own. `[groups]` of an experiment and `cgexec -g GROUP PROGRAM` make one in real \
         kernels and in models since linux-6.1 (docs/groups.md).",
        "",
        &["cgroup", "memory.high"],
    ),
    word(
        "UML",
        &["User-Mode Linux", "QEMU", "virtual s"],
        "The back ends that run real kernels in virtual time: User-Mode Linux (one CPU, node and zone) and QEMU (several). A virtual second \
         is one of the guest's clock, however long the computer takes (docs/which-linux.md).",
        "",
        &["kernel:NAME"],
    ),
    word(
        "event for event",
        &["the same in every run", "the baseline's own"],
        "Two runs of one seed whose whole histories are equal: what differs between them had no effect at all.",
        "",
        &["claimed"],
    ),
    word(
        "outlying iterations",
        &["outlying", "outlier", "outliers", "kept"],
        "Iterations that lie further from the median than ten times the usual deviation (14.826 median absolute deviations). They are named \
         and kept: a stall of one run in ten is a result.",
        "",
        &["noise"],
    ),
    word(
        "ext4",
        &[
            "xfs",
            "btrfs",
            "ext2",
            "ext3",
            "vfat",
            "exfat",
            "fuse-ntfs",
            "filesystem",
        ],
        "The filesystems that an experiment can test, by the key `filesystem`; docs/reference has what of each is modelled.",
        "",
        &[],
    ),
    word(
        "not shown",
        &["more rows", "more notes", "also better", "worse"],
        "Figures, rows or policies that the first screen has no room for; `--verbose` and `comparison.txt` have them all. `also better` and \
         `worse` name the policies beside the best one, with their change.",
        "",
        &["claimed"],
    ),
];
