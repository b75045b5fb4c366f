//! An example of a filesystem: it has no metadata, and reclaim may not write to it.

use super::Fs;
use super::layout::Layout;
use super::model::{Kind, Model};
use crate::params::Params;

/// A filesystem without state of its own.
#[derive(Debug)]
pub(super) struct Toyfs;

impl Model for Toyfs {
    const KIND: Kind = Kind::plain(512);

    fn new(_: &Params, _: Layout) -> Self {
        Self
    }

    fn refuses_reclaim(&self, _: &Fs, _: u32, (_, most): (u32, u32), _: bool) -> u32 {
        most
    }
}
