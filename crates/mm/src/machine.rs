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
}

/// Number of zone types.
pub const ZONE_TYPES: usize = 4;

impl ZoneType {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }

    /// The zone index.
    pub fn index(self) -> usize {
        self as usize
    }
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
