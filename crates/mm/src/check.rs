//! The recount-everything checker: every list, counter and index from scratch.

use crate::frame::flag;
use crate::lru::Lru;
use crate::vmstat::ZoneStat;
use crate::world::{Word32, World};
use crate::{Mm, Pfn, buddy};

/// Where the checker found a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Place {
    Nowhere,
    Free,
    Pcp,
    Lru,
    Batch,
    Isolated,
}

impl<W: World> Mm<W> {
    /// Recounts everything. Allocates; for checks only.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub fn recount(&self) -> Result<(), String> {
        let mut place = vec![Place::Nowhere; self.frames.len() as usize];
        let mut put = |pfn: Pfn, p: Place, what: &str| -> Result<(), String> {
            let slot = &mut place[pfn as usize];
            if *slot != Place::Nowhere {
                return Err(format!("frame {pfn} is on {slot:?} and on {p:?} ({what})"));
            }
            *slot = p;
            Ok(())
        };
        self.stat.check()?;
        for (z, zone) in self.zones.iter().enumerate() {
            let mut free = 0u64;
            for order in 0..buddy::ORDERS {
                let mut blocks = 0;
                for pfn in self.frames.iter(zone.free_area + order as u32) {
                    if !self.frames.has(pfn, flag::BUDDY)
                        || self.frames.private(pfn) != order as u32
                        || self.frames.zone(pfn) != z
                        || pfn % (1 << order) != 0
                    {
                        return Err(format!("free block {pfn} of order {order} is malformed"));
                    }
                    for p in pfn..pfn + (1 << order) {
                        put(p, Place::Free, "buddy")?;
                    }
                    blocks += 1;
                }
                if blocks != zone.nr_free[order].get() {
                    return Err(format!("zone {z} order {order}: {blocks} blocks"));
                }
                free += u64::from(blocks) << order;
            }
            self.expect(z, ZoneStat::NrFreePages, free)?;
            for cpu in 0..self.config.cpus {
                for pfn in self.pcp(z, cpu).iter() {
                    put(pfn, Place::Pcp, "per-CPU list")?;
                }
            }
            for lru in Lru::ALL {
                let mut n = 0;
                for pfn in self.frames.iter(zone.lru + lru as u32) {
                    put(pfn, Place::Lru, "LRU")?;
                    let f = self.frames.flags(pfn);
                    if f & flag::LRU == 0 || Lru::of(f) != lru || self.frames.zone(pfn) != z {
                        return Err(format!("frame {pfn} on {lru:?} of zone {z}: flags {f:#x}"));
                    }
                    n += 1;
                }
                self.expect(z, ZoneStat::of_lru(lru), n)?;
            }
        }
        for pv in &self.pagevecs {
            for batch in &pv.add {
                for pfn in batch.iter() {
                    put(pfn, Place::Batch, "add batch")?;
                }
            }
        }
        let mut isolated = vec![[0u64; 2]; self.zones.len()];
        for task in 0..self.config.max_tasks {
            for pfn in self.frames.iter(self.isolated_list(task)) {
                put(pfn, Place::Isolated, "isolated")?;
                let file = usize::from(!self.frames.has(pfn, flag::SWAPBACKED));
                isolated[self.frames.zone(pfn)][file] += 1;
            }
        }
        self.recount_frames(&place)?;
        let (mut pages, mut nodes) = (0u64, 0);
        for mapping in 0..self.mapping_count() {
            let (p, n) = self.check_tree(mapping)?;
            if p != self.mappings[mapping as usize].nrpages.get() {
                return Err(format!("mapping {mapping}: {p} pages, counted otherwise"));
            }
            pages += u64::from(p);
            nodes += n;
        }
        if nodes != self.tree_nodes() {
            return Err(format!(
                "{nodes} tree nodes in trees, {} in use",
                self.tree_nodes()
            ));
        }
        if pages != self.global_stat(ZoneStat::NrFilePages) {
            return Err(format!("{pages} pages in trees, nr_file_pages differs"));
        }
        for bdi in 0..self.bdi_count() {
            self.check_flusher(bdi)?;
        }
        self.check_swap()
    }

    fn expect(&self, z: usize, item: ZoneStat, found: u64) -> Result<(), String> {
        let counted = self.stat.exact(z, item);
        if counted == found as i64 {
            Ok(())
        } else {
            Err(format!(
                "{} of {}: {found}, counted {counted}",
                item.name(),
                self.zone_name(z)
            ))
        }
    }

    fn recount_frames(&self, place: &[Place]) -> Result<(), String> {
        for (z, zone) in self.zones.iter().enumerate() {
            let (mut dirty, mut writeback, mut file, mut anon) = (0, 0, 0, 0);
            for pfn in zone.start..zone.start + zone.size {
                let f = self.frames.flags(pfn);
                let here = place[pfn as usize];
                match here {
                    Place::Free | Place::Pcp if here == Place::Pcp && f & flag::USED != 0 => {
                        return Err(format!("frame {pfn} is free and in use"));
                    }
                    Place::Free | Place::Pcp => continue,
                    Place::Nowhere if f & flag::USED == 0 => {
                        return Err(format!("frame {pfn} is lost (flags {f:#x})"));
                    }
                    _ => {}
                }
                let cached = f & flag::CACHED != 0;
                if cached {
                    let m = &self.mappings[self.frames.mapping(pfn) as usize];
                    let counts = m.accounts_dirty();
                    dirty += u64::from(f & flag::DIRTY != 0 && counts);
                    if self.find_page(self.frames.mapping(pfn), self.frames.index(pfn)) != Some(pfn)
                    {
                        return Err(format!("frame {pfn} is not where its file says"));
                    }
                }
                writeback += u64::from(f & flag::WRITEBACK != 0);
                file += u64::from(cached);
                anon += u64::from(f & flag::ANON != 0);
                if (cached || f & flag::ANON != 0) && here == Place::Nowhere {
                    return Err(format!("page {pfn} is on no list (flags {f:#x})"));
                }
            }
            self.expect(z, ZoneStat::NrFileDirty, dirty)?;
            self.expect(z, ZoneStat::NrWriteback, writeback)?;
            self.expect(z, ZoneStat::NrFilePages, file)?;
            self.expect(z, ZoneStat::NrAnonPages, anon)?;
        }
        Ok(())
    }
}
