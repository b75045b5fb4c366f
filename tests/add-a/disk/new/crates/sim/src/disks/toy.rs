//! An example of a disk: it takes the same time for every block.

use super::{Kind, Model, Transfer, whole_blocks};
use crate::params::{Params, rows};
use crate::rng::Rng;
use crate::spec::DiskSpec;

rows! {
    /// Model parameters of a toy disk.
    pub struct Figures {
        toy_block: "ns" = 10000.0, 100.0 => 1e6, "one block: a round number";
    }
}

/// The toy as a kind of disk: machine files name it, but no real disk reports it as its kind.
pub(super) const KIND: Kind = Kind::SINGLE;

/// A toy disk with its parameters.
#[derive(Debug, Clone)]
pub struct Toy {
    block_ns: f64,
    max_request_blocks: u32,
}

impl Model for Toy {
    fn new(_: &DiskSpec, params: &Params, _: &mut Rng) -> Self {
        Self {
            block_ns: params.disks.toy.toy_block,
            max_request_blocks: whole_blocks(params.max_request),
        }
    }

    fn service(&mut self, _: u64, t: &Transfer, _: u32, _: &mut Rng) -> u64 {
        (f64::from(t.blocks) * self.block_ns) as u64
    }

    fn max_request_blocks(&self) -> u32 {
        self.max_request_blocks
    }
}
