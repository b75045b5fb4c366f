//! Zones.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of zones, low to high (reference 01 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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
}
