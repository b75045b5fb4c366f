//! How a machine's memory is described.

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
    /// Below 4 GiB.
    #[serde(rename = "DMA32")]
    Dma32,
    /// Everything above.
    Normal,
    /// Memory for movable pages only.
    Movable,
    /// On 32 bits what the kernel has no address for: memory of user programs and the page cache alone. A
    /// machine that has it has neither DMA32 nor Movable.
    HighMem,
}

/// Number of zone types of one machine: those of 64 bits, or DMA, Normal and HighMem.
pub const ZONE_TYPES: usize = 4;

impl ZoneType {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
            Self::HighMem => "HighMem",
        }
    }

    /// How the kernel ends a counter's name that is a zone type's: `pgalloc_normal`, `pgalloc_high`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Dma => "dma",
            Self::Dma32 => "dma32",
            Self::Normal => "normal",
            Self::Movable => "movable",
            Self::HighMem => "high",
        }
    }

    /// Whether the kernel's own data may lie in it.
    pub fn kernel_may_use(self) -> bool {
        !matches!(self, Self::Movable | Self::HighMem)
    }

    /// Its place among a machine's zones, low to high. HighMem and Movable share the last one: either is for
    /// pages that programs may have, and no machine has both.
    #[inline(always)]
    pub fn index(self) -> usize {
        match self {
            Self::HighMem => Self::Movable as usize,
            _ => self as usize,
        }
    }
}

/// Whether a machine is one of 32 bits, with memory that the kernel has no address for.
pub fn has_highmem(zones: &[ZoneInfo]) -> bool {
    zones.iter().any(|z| z.kind == ZoneType::HighMem)
}

/// Holds where zones of 64 bits, DMA32 and Movable, have no HighMem beside them.
pub(crate) fn assert_one_width(zones: &[ZoneInfo]) {
    let of_64_bits = |z: &ZoneInfo| matches!(z.kind, ZoneType::Dma32 | ZoneType::Movable);
    assert!(!has_highmem(zones) || !zones.iter().any(of_64_bits));
}

/// What the builder must know of a zone.
#[derive(Debug, Clone, Copy)]
pub struct ZoneInfo {
    /// Its node.
    pub node: u32,
    /// Its type.
    pub kind: ZoneType,
    /// Pages.
    pub size: u64,
}
