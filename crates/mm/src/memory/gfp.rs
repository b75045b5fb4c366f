//! The flags of an allocation request: where it may allocate and what it may do for that.

use crate::machine::ZONE_TYPES;
/// The flags of a request (docs/reference/allocation.md#requests).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gfp(pub u32);

impl Gfp {
    /// May run direct reclaim.
    pub const WAIT: Self = Self(1);
    /// Reclaim may start I/O.
    pub const IO: Self = Self(2);
    /// Reclaim may call filesystems.
    pub const FS: Self = Self(4);
    /// May use half of the min watermark's pages.
    pub const HIGH: Self = Self(8);
    /// Gives up after one round.
    pub const NORETRY: Self = Self(16);
    /// Never gives up.
    pub const NOFAIL: Self = Self(32);
    /// The page will be dirtied soon (*per-zone-dirty-limits*).
    pub const WRITE: Self = Self(64);
    /// Tries harder for high orders.
    pub const REPEAT: Self = Self(128);
    /// Allocates only from the local node.
    pub const THISNODE: Self = Self(256);
    /// Allocates for a kernel cache that reclaim can free (`mobility = "grouped"`).
    pub const RECLAIMABLE: Self = Self(512);
    /// Charges the calling task's memory control group; every page that a program brings in.
    pub const CHARGED: Self = Self(1024);
    const ZONE_SHIFT: u32 = 16;

    /// Returns the flags of a request that may use zone types up to the index `zone`, and nothing
    /// else.
    pub const fn zone(zone: u32) -> Self {
        Self(zone << Self::ZONE_SHIFT)
    }

    /// Page cache and anonymous pages: any zone, may wait.
    pub const USER: Self = Self(1 | 2 | 4 | 3 << Self::ZONE_SHIFT);
    /// Page cache pages that may never be used (read-ahead): as [`Self::USER`], but tries only
    /// once, and without entering filesystems (`readahead_gfp_mask`, `page_cache_ra_unbounded`).
    pub const READAHEAD: Self = Self(1 | 2 | 16 | 3 << Self::ZONE_SHIFT);
    /// Page cache pages that will be written.
    pub const USER_WRITE: Self = Self(1 | 2 | 4 | 64 | 3 << Self::ZONE_SHIFT);
    /// Filesystems' metadata: may wait, may not enter filesystems, up to Normal.
    pub const NOFS: Self = Self(1 | 2 | 512 | 2 << Self::ZONE_SHIFT);
    /// Pages that a filesystem maps contiguously: as [`Self::NOFS`], unmovable.
    pub const NOFS_UNMOVABLE: Self = Self(1 | 2 | 2 << Self::ZONE_SHIFT);
    /// A slab of reclaimable objects: may not wait, up to Normal.
    pub const SLAB_NOWAIT: Self = Self(512 | 2 << Self::ZONE_SHIFT);
    /// A slab of other objects: may not wait, up to Normal.
    pub const UNMOVABLE_NOWAIT: Self = Self(2 << Self::ZONE_SHIFT);
    /// Kernel data: may wait, up to Normal.
    pub const KERNEL: Self = Self(1 | 2 | 4 | 2 << Self::ZONE_SHIFT);
    /// From interrupts: may not wait, may use the reserves.
    pub const ATOMIC: Self = Self(8 | 2 << Self::ZONE_SHIFT);

    /// Returns the flags of both.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of `flags` are set.
    #[inline(always)]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the index of the highest zone type that the request may use.
    #[inline(always)]
    pub const fn high_zoneidx(self) -> usize {
        (self.0 >> Self::ZONE_SHIFT) as usize & (ZONE_TYPES - 1)
    }
}
