//! A view of the engine that may be read while its tasks run.
//!
//! In the live world page bits decide which task may touch a page's bytes, so code that gets an
//! [`Mm`] could break what its tasks rely on. A view gives figures only.

use crate::cache::tree::Tag;
use crate::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use crate::writeback::dirty::Limits;
use crate::{Config, Mm, World};

/// A read-only view of an engine.
pub struct View<'a, W: World>(&'a Mm<W>);

impl<W: World> Clone for View<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for View<'_, W> {}

impl<W: World> Mm<W> {
    /// Returns a read-only view of the engine.
    pub fn view(&self) -> View<'_, W> {
        View(self)
    }
}

impl<'a, W: World> View<'a, W> {
    /// Returns the machine that the engine was built for.
    pub fn config(self) -> &'a Config {
        &self.0.config
    }

    /// Returns the pages of a zone; zones are numbered as in [`Config::zones`].
    pub fn zone_pages(self, zone: usize) -> u64 {
        debug_assert!(zone < self.0.zones.len(), "zone {zone} does not exist");
        u64::from(self.0.zones[zone].size)
    }

    /// Returns the free pages of a zone that are on per-CPU lists.
    pub fn pcp_pages(self, zone: usize) -> u64 {
        self.0.pcp_pages(zone)
    }

    /// Returns the number of pages in a state, over all zones.
    pub fn stat(self, item: ZoneStat) -> u64 {
        self.0.global_stat(item)
    }

    /// Returns how often an event happened.
    pub fn event(self, event: VmEvent) -> u64 {
        self.0.vm_event(event)
    }

    /// Returns how often an event happened in a zone.
    pub fn zone_event(self, zone: usize, event: ZoneEvent) -> u64 {
        self.0.zone_event(zone, event)
    }

    /// Returns the present dirty limits, in pages.
    pub fn dirty_limits(self) -> Limits {
        self.0.limits_anew()
    }

    /// Returns true if any page of a file carries the tag.
    pub fn tagged(self, mapping: u32, tag: Tag) -> bool {
        self.0.mapping_tagged(mapping, tag)
    }

    /// Returns true if no page of a file is cached.
    pub fn has_no_pages(self, mapping: u32) -> bool {
        self.0.mapping_has_no_pages(mapping)
    }
}
