//! The values of the switches about the block layer; the switches themselves are in `switches`.

use super::table::choice;
use super::{Choice, Form, Setting, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! { Policy request_queue RequestQueue {
    /// Up to 4.20: one queue with a limit of requests per class and congestion marks, and the
    /// disk's scheduler.
    Single = "single",
    /// 5.0: tags. A device has a tag for each request it takes at a time, a scheduler `nr_requests`
    /// of its own, all of which reads may have; no device is congested. `deadline` and `cfq` become
    /// mq-deadline, which goes by direction; `none` has the device's tags alone.
    Multi = "multi",
} }

choice! { Policy cfq_idling CfqIdling {
    /// Those that read in order and think no longer than `cfq_slice_idle`.
    InOrder = "in-order",
    /// linux-3.0: also the last of the others with requests, which so keeps the disk for more than
    /// one.
    LastQueue = "last-queue",
    /// 3.1: as `last-queue`, unless those others are known to think longer than that.
    LastPrompt = "last-prompt",
} }

choice! { Policy writeback_throttling WritebackThrottling {
    /// No: as many as the queue has room for.
    None = "none",
    /// 4.10, on by default with `request_queue = "multi"`: writes are limited so that reads keep
    /// their latency. The flusher has a quarter or half of the limit; synchronous writes, metadata
    /// and kswapd's have all of it.
    Wbt = "wbt",
    /// 6.12: as `wbt`, and all writes to swap have the whole limit, whichever task sends them.
    WbtSwap = "wbt-swap",
} }

choice! { Policy plugs Plugs {
    /// No: each request is queued as it is made.
    None = "none",
    /// 2.6.39, of consequence with `request_queue = "multi"`: the flusher, reclaim and the
    /// `writepages` of ext4 and btrfs gather requests, and merge neighbouring blocks of other files
    /// into them, until they sleep, yield or have enough (`plug_requests`, or one of 128 KiB).
    Task = "task",
    /// Up to 6.9: as `task`; a task without a plug leaves its request to a worker and the request
    /// grows until the worker's turn. Later kernels give each such bio a plug of its own.
    Worker = "worker",
} }

choice! { Policy writeback_ends WritebackEnds {
    /// Those of a request.
    Request = "request",
    /// Those that the filesystem gathered: a bio's, which has 256 runs of frames; on xfs up to 4096
    /// neighbours (5.4, iomap); on ext4 with `ext4_writeback = "by-extent"` up to 2048, when their
    /// extent is converted.
    IoEnd = "ioend",
} }

choice! { Policy writeback_bios WritebackBios {
    /// None.
    Free = "free",
    /// Each bio has the longest vector, `BIO_MAX_VECS` of 256 pages, however few it gets, as ext4,
    /// xfs and btrfs make bios that may grow. A vector has 4 KiB, a slab eight of them
    /// (`biovec-max`). Needs `writeback_ends = "ioend"`.
    Vectors = "vectors",
} }
