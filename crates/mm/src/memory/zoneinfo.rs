//! `/proc/zoneinfo` (`zoneinfo_show_print` of Linux 3.16 mm/vmstat.c), with the line of the boost
//! that 5.0 added if watermarks are boosted. Counts are pages.

use super::zone::Mark;
use crate::memory::numa::NumaStat;
use crate::watch::vmstat::ZoneStat;
use crate::world::{Word32, Word64, World};
use crate::{Mm, ZONE_TYPES};
use std::fmt::Write as _;

impl<W: World> Mm<W> {
    /// Returns the text of `/proc/zoneinfo`: zone by zone in the order of nodes. A zone's counters
    /// are exact, as after a fold of all CPUs' differences.
    pub fn zoneinfo(&self) -> String {
        let mut out = String::new();
        for node in &self.nodes {
            for &z in &node.zones {
                // Writing into a string does not fail.
                let _ = self.put_zone(usize::from(z), &mut out);
            }
        }
        out
    }

    /// Returns the classzones whose reserves are shown, low to high: a 32-bit kernel has no DMA32,
    /// and an empty Movable zone above HighMem.
    pub(crate) fn shown_classzones(&self) -> [usize; ZONE_TYPES] {
        match self.highmem {
            false => [0, 1, 2, 3],
            true => [0, 2, 3, 3],
        }
    }

    /// Appends the text of zone `z`, as /proc/zoneinfo has it, to `out`.
    fn put_zone(&self, z: usize, out: &mut String) -> std::fmt::Result {
        let (zone, home) = (&self.zones[z], self.lru_home(z));
        writeln!(out, "Node {}, zone {:>8}", zone.node, zone.kind.name())?;
        let free = self.zone_stat(z, ZoneStat::NrFreePages);
        writeln!(out, "  pages free     {free}")?;
        if let Some(boost) = self.boost.get(z) {
            writeln!(out, "        boost    {}", boost.get())?;
        }
        let [min, low, high] = [Mark::Min, Mark::Low, Mark::High].map(|mark| zone.mark(mark));
        // No zone of the engine has holes, or pages that the allocator does not own.
        let (scanned, size) = (home.pages_scanned.get(), zone.size);
        write!(
            out,
            "        min      {min}\n        low      {low}\n        high     {high}\n        scanned  {scanned}\n        \
             spanned  {size}\n        present  {size}\n        managed  {size}\n"
        )?;
        for item in ZoneStat::ALL {
            if self.produces_level(item) {
                writeln!(out, "    {:<12} {}", item.name(), self.zone_stat(z, item))?;
            }
        }
        for item in NumaStat::ALL {
            if let Some(count) = self.numa_stat(z, item) {
                writeln!(out, "    {:<12} {count}", item.name())?;
            }
        }
        let protection: Vec<String> = self
            .shown_classzones()
            .into_iter()
            .map(|classzone| zone.reserve(classzone).to_string())
            .collect();
        writeln!(out, "        protection: ({})", protection.join(", "))?;
        writeln!(out, "  pagesets")?;
        for cpu in 0..self.config.cpus {
            let count = self.pcp_count(z, cpu);
            let (high, batch) = (self.pcp_high(z, cpu), zone.pcp_batch);
            write!(
                out,
                "    cpu: {cpu}\n              count: {count}\n              high:  {high}\n              batch: {batch}\n"
            )?;
        }
        let hopeless = home.all_unreclaimable.get();
        writeln!(out, "  all_unreclaimable: {hopeless}")?;
        writeln!(out, "  start_pfn:         {}", zone.start)
    }
}
