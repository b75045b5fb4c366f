//! The description of a machine's memory: kinds and sizes of zones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of zones, low to high (docs/reference/memory-model.md#zones).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[repr(u8)]
pub enum ZoneType {
    /// The first 16 MiB.
    #[serde(rename = "DMA")]
    Dma,
    /// Memory below 4 GiB.
    #[serde(rename = "DMA32")]
    Dma32,
    /// All memory above the other zones.
    Normal,
    /// Memory for movable pages only.
    Movable,
    /// On 32 bits, memory that the kernel has no address for: only user programs and the page cache
    /// use it. A machine that has it has neither DMA32 nor Movable.
    HighMem,
}

/// Number of zone types of one machine: those of 64 bits, or DMA, Normal and HighMem.
pub const ZONE_TYPES: usize = 4;

impl ZoneType {
    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
            Self::HighMem => "HighMem",
        }
    }

    /// Returns the suffix of the zone type in names of counters: `pgalloc_normal`, `pgalloc_high`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Dma => "dma",
            Self::Dma32 => "dma32",
            Self::Normal => "normal",
            Self::Movable => "movable",
            Self::HighMem => "high",
        }
    }

    /// Returns true if the kernel's own data may lie in such a zone.
    pub fn kernel_may_use(self) -> bool {
        !matches!(self, Self::Movable | Self::HighMem)
    }

    /// Returns the type's place among a machine's zones, low to high. HighMem and Movable share the
    /// last one: both hold only pages that programs may have, and no machine has both.
    #[inline(always)]
    pub fn index(self) -> usize {
        match self {
            Self::HighMem => Self::Movable as usize,
            _ => self as usize,
        }
    }
}

/// Returns true for a 32-bit machine with memory that the kernel has no address for.
pub fn has_highmem(zones: &[ZoneInfo]) -> bool {
    zones.iter().any(|z| z.kind == ZoneType::HighMem)
}

/// Asserts that zones of 64-bit machines, DMA32 and Movable, are not beside HighMem.
///
/// # Panics
/// If they are.
pub(crate) fn assert_one_width(zones: &[ZoneInfo]) {
    let of_64_bits = |z: &ZoneInfo| matches!(z.kind, ZoneType::Dma32 | ZoneType::Movable);
    assert!(!has_highmem(zones) || !zones.iter().any(of_64_bits));
}

/// The description of a zone that an engine is built with.
#[derive(Debug, Clone, Copy)]
pub struct ZoneInfo {
    /// The zone's node.
    pub node: u32,
    /// The zone's type.
    pub kind: ZoneType,
    /// The zone's size in pages.
    pub size: u64,
}
