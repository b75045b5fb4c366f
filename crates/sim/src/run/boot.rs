//! The memory of a booted machine: kernel, anonymous pages, page cache and inodes.

use crate::SimMm;
use crate::filesystems as fs;
use crate::params::Params;
use crate::spec::Machine;
use mm::cache::mapping::MappingKind;
use mm::cache::mmap::{Advice, Backing};
use mm::memory::gfp::Gfp;
use mm::world::Tasks;
use mm::world::Touched;
use mm::world::event::TrackPath;

/// Allocates the memory that a booted machine `m` has in use: the kernel's pages, anonymous memory
/// of idle programs, page cache, and inodes. Returns false if it does not fit.
pub(super) async fn boot<const T: bool>(mm: &SimMm<T>, m: &Machine, params: &Params) -> bool {
    mm.note_path(TrackPath::Boot);
    // Of the kernel's pages the first are reclaimable slab, the last locked memory of programs.
    let kernel = m.boot.kernel.pages();
    let own = kernel.saturating_sub(params.boot_locked as u64);
    let reclaimable = own.min(params.boot_reclaimable as u64);
    for page in 0..kernel {
        let gfp = if page < reclaimable {
            Gfp::KERNEL.or(Gfp::RECLAIMABLE)
        } else if page < own {
            Gfp::KERNEL
        } else {
            Gfp::USER
        };
        if mm.alloc_kernel_page(gfp).await.is_none() {
            return false;
        }
        mm.world.relax().await;
    }
    for _ in 0..m.boot.dma.pages() {
        // A machine without a DMA zone, or with a smaller one, cannot have it in use.
        if mm.config.zones[0].kind != mm::ZoneType::Dma
            || mm.alloc_kernel_page(Gfp::zone(0)).await.is_none()
        {
            break;
        }
    }
    // The limit of dirtiers was computed from all of memory. Unless the machine has just booted, it
    // has been recomputed since.
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
    fs::known(mm, m.boot.inodes, m.boot.dentries).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{
        Boot, DiskKind, DiskSpec, FsKind, NodeSpec, RunSpec, Size, Sysctl, ZoneSpec,
    };
    use mm::memory::mobility::MigrateType;
    use mm::{Policy, ZoneType};
    use std::collections::BTreeMap;

    /// Returns the number of pageblocks of a kind after boot, with a parameter set to `pages`.
    fn blocks(of: MigrateType, parameter: &str, pages: f64) -> usize {
        let mut params = Params::default();
        params.set(parameter, pages).expect("pages");
        let zone = ZoneSpec {
            zone: ZoneType::Normal,
            size: Size(64 << 20),
        };
        let machine = Machine {
            name: "m".into(),
            cpus: 1,
            params: BTreeMap::default(),
            hz: 250,
            cpu_speed: None,
            nodes: vec![NodeSpec {
                cpus: Vec::new(),
                zones: vec![zone],
            }],
            boot: Boot {
                kernel: Size(8 << 20),
                dma: Size(0),
                anon: Size(0),
                cache: Size(0),
                inodes: 0,
                dentries: 0,
            },
            swap: None,
            sysctl: Sysctl::default(),
            disk: DiskSpec {
                scheduler: None,
                kind: DiskKind::Disk,
                capacity: Size(4 << 30),
                members: None,
                params: BTreeMap::default(),
                faults: Vec::new(),
            },
            filesystem: None,
            mounts: Vec::new(),
        };
        let spec = RunSpec {
            machine,
            filesystem: FsKind::Ext4,
            policy: Policy::linux_6_12(),
            workload: workload::parse("sleep 1").expect("a command"),
            changes: Vec::new(),
            membind: None,
            groups: crate::spec::Groups::default(),
            monitors: false,
            params,
            seed: 1,
            sample_ns: 1_000_000_000,
            check_ns: 1_000_000_000,
            check_full: false,
            track_pages: false,
            time_limit_ns: 10_000_000_000,
        };
        let mm: SimMm<false> = crate::run::build(&spec);
        for _ in 0..2 {
            mm.init_task(mm.world.sched.spawn(), 0, 0);
        }
        let booted = async {
            assert!(boot(&mm, &spec.machine, &spec.params).await);
            mm.world.sched.stop();
        };
        mm.world
            .sched
            .run(&mut [Box::pin(async {}), Box::pin(booted)], |_, event| {
                unreachable!("{event:?}")
            });
        let kinds = (0..16384).step_by(mm.pageblock_pages() as usize);
        kinds
            .filter(|&pfn| mm.pageblock_type(pfn) == Some(of))
            .count()
    }

    #[test]
    fn what_boot_leaves_reclaimable_has_pageblocks_of_its_own() {
        let blocks = |pages| blocks(MigrateType::Reclaimable, "boot_reclaimable", pages);
        assert_eq!(blocks(0.0), 0);
        // An allocation takes the largest free block, which is two pageblocks.
        assert_eq!(blocks(500.0), 2);
        assert_eq!(blocks(1100.0), 4);
    }

    #[test]
    fn what_boot_leaves_locked_is_no_pageblock_of_the_kernels() {
        let blocks = |pages| blocks(MigrateType::Unmovable, "boot_locked", pages);
        // 2,048 pages fill four pageblocks, taken two at a time; the beginning of another batch
        // takes the last two.
        assert_eq!(blocks(0.0), 6);
        assert_eq!(blocks(1500.0), 2);
        assert_eq!(blocks(2048.0), 0);
    }
}
