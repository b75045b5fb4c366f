//! What may be read of an engine while its tasks run.
//!
//! In the live world page bits decide who may touch a page's bytes, so whoever gets an [`Mm`] could
//! break what its tasks rely on. A view has figures only.

use crate::cache::tree::Tag;
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::writeback::dirty::Limits;
use crate::{Config, Mm, World};

/// An engine, to read.
pub struct View<'a, W: World>(&'a Mm<W>);

impl<W: World> Clone for View<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for View<'_, W> {}

impl<W: World> Mm<W> {
    /// The engine, to read.
    pub fn view(&self) -> View<'_, W> {
        View(self)
    }
}

impl<'a, W: World> View<'a, W> {
    /// What it was built for.
    pub fn config(self) -> &'a Config {
        &self.0.config
    }

    /// Pages of a zone; zones are numbered as in [`Config::zones`].
    pub fn zone_pages(self, zone: usize) -> u64 {
        debug_assert!(zone < self.0.zones.len(), "zone {zone} does not exist");
        u64::from(self.0.zones[zone].size)
    }

    /// Free pages of a zone that lie on lists of CPUs.
    pub fn pcp_pages(self, zone: usize) -> u64 {
        self.0.pcp_pages(zone)
    }

    /// Pages in some state, all zones together.
    pub fn stat(self, item: ZoneStat) -> u64 {
        self.0.global_stat(item)
    }

    /// How often something happened.
    pub fn event(self, event: VmEvent) -> u64 {
        self.0.vm_event(event)
    }

    /// How often something happened in a zone.
    pub fn zone_event(self, zone: usize, event: ZoneEvent) -> u64 {
        self.0.zone_event(zone, event)
    }

    /// The dirty limits now, in pages.
    pub fn dirty_limits(self) -> Limits {
        self.0.limits_anew()
    }

    /// Whether any page of a file carries the tag.
    pub fn tagged(self, mapping: u32, tag: Tag) -> bool {
        self.0.mapping_tagged(mapping, tag)
    }

    /// Whether nothing of a file is cached.
    pub fn has_no_pages(self, mapping: u32) -> bool {
        self.0.mapping_has_no_pages(mapping)
    }
}
