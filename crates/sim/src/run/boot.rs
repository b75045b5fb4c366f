//! What a booted machine has in memory.

use crate::SimMm;
use crate::params::Params;
use crate::spec::Machine;
use mm::cache::mapping::MappingKind;
use mm::cache::mmap::{Advice, Backing};
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use mm::world::Touched;
use mm::world::event::TrackPath;

/// Memory that a booted machine has in use. `false`: it does not fit.
pub(super) async fn boot<const T: bool>(mm: &SimMm<T>, m: &Machine, params: &Params) -> bool {
    mm.note_path(TrackPath::Boot);
    for page in 0..m.boot.kernel.pages() {
        let gfp = match page < params.boot_reclaimable as u64 {
            true => Gfp::KERNEL.or(Gfp::RECLAIMABLE),
            false => Gfp::KERNEL,
        };
        if mm.alloc_kernel_page(gfp).await.is_none() {
            return false;
        }
        mm.world.relax().await;
    }
    for _ in 0..m.boot.dma.pages() {
        // A machine without a DMA zone, or with a smaller one, has nothing of it to hold.
        if mm.config.zones[0].kind != mm::ZoneType::Dma
            || mm.alloc_kernel_page(Gfp::zone(0)).await.is_none()
        {
            break;
        }
    }
    // What dirtiers are held to began with all of memory. It has fallen since, where anybody was held to it.
    if params.just_booted < 0.5 {
        mm.writeback_set_ratelimit();
    }
    let anon = m.boot.anon.pages() as u32;
    if anon > 0 {
        let Some(region) = mm.new_region(Backing::Anon, anon, Advice::Normal) else {
            return false;
        };
        for i in 0..anon {
            if mm.touch(region, i, true).await != Touched::Ok {
                return false;
            }
        }
    }
    let cache = m.boot.cache.pages() as u32;
    if cache > 0 {
        let Some(file) = mm.new_mapping(MappingKind::File, mm.world.fs[0].bdi.get()) else {
            return false;
        };
        for i in 0..cache {
            let Some(pfn) = mm.alloc_page(Gfp::USER).await else {
                return false;
            };
            if !mm.add_to_page_cache_lru(pfn, file, i) {
                return false;
            }
            mm.world.relax().await;
        }
    }
    mm.lru_add_drain();
    true
}
