//! The work of the tests' tasks: files read and written through the page cache, anonymous memory,
//! mappings, trees of inodes, memory for the kernel.

use super::prelude::*;
use super::world::{Done, Engine};
use crate::world::WalkRange;

/// A generator of pseudo-random numbers, the same on every machine.
pub struct Lcg(pub u64);

impl Lcg {
    /// Returns a number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

impl Lcg {
    /// Returns a number of up to `bits` bits, small ones as often as large ones.
    pub fn size(&mut self, bits: u32) -> u32 {
        let most = 2 << self.below(bits);
        self.below(most)
    }
}

/// Makes a file of `pages` pages on a device; none of them is cached.
pub fn file(mm: &Engine, kind: MappingKind, bdi: u32, pages: u32) -> u32 {
    let file = mm.new_mapping(kind, bdi).expect("room for a file");
    mm.mappings[file as usize].size.set(u64::from(pages) * 4096);
    file
}

/// Allocates a page and enters it into a file; `None` if another task entered one first, or there
/// is no memory.
async fn new_page(mm: &Engine, file: u32, index: u32, gfp: Gfp, locked: bool) -> Option<Pfn> {
    let pfn = mm.alloc_page(mm.bound(gfp)).await?;
    if locked {
        assert!(mm.try_lock_page(pfn));
    }
    match mm.enter_page_cache_lru(pfn, file, index) {
        Entered::Added => Some(pfn),
        Entered::Exists | Entered::NoMemory => {
            mm.frames.clear_flags(pfn, flag::LOCKED);
            mm.free_page(pfn, false);
            None
        }
    }
}

/// Writes one page of a file, in the order of 3.0's kernel. Returns false if there is no memory.
pub async fn write(mm: &Engine, file: u32, index: u32) -> bool {
    mm.file_changed(file);
    loop {
        match mm.find_page(file, index) {
            Some(pfn) if mm.frames.has(pfn, flag::LOCKED) => mm.wait_on_page_locked(pfn).await,
            Some(pfn) => {
                mm.world.charge(Cost::Copy, 1);
                mm.frames.set_flags(pfn, flag::UPTODATE);
                if mm.mappings[file as usize].kind() != MappingKind::WriteThrough {
                    mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
                }
                mm.mark_page_accessed(pfn, TrackPath::BufferedWrite);
                break;
            }
            None => {
                mm.note_path(TrackPath::BufferedWrite);
                let page = new_page(mm, file, index, Gfp::USER_WRITE, false).await;
                if page.is_none() && mm.world.oom.borrow().is_some() {
                    return false;
                }
            }
        }
    }
    mm.balance_dirty_pages_ratelimited(file).await;
    mm.world.relax().await;
    true
}

/// Reads up to `n` missing pages of a file from its device. Returns false if there was no memory
/// for the first one.
pub async fn bring_in(mm: &Engine, file: u32, index: u32, n: u32) -> bool {
    let pages = (mm.mappings[file as usize].size.get() / 4096) as u32;
    let mut run = 0;
    while run < n && index + run < pages && mm.find_page(file, index + run).is_none() {
        let Some(pfn) = new_page(mm, file, index + run, Gfp::USER, true).await else {
            break;
        };
        if run > 0 {
            mm.frames.set_flags(pfn, flag::UNUSED);
        }
        run += 1;
    }
    if run > 0 {
        let bdi = mm.mappings[file as usize].bdi();
        let what = Done::Read {
            mapping: file,
            first: index,
            n: run,
        };
        mm.world.submit(bdi, false, run, what).await;
    }
    run > 0 || mm.find_page(file, index).is_some() || mm.world.oom.borrow().is_none()
}

/// Reads one page of a file; if the page is missing, up to `ahead` pages are read from the device.
/// Returns false if there is no memory.
pub async fn read(mm: &Engine, file: u32, index: u32, ahead: u32) -> bool {
    mm.file_accessed(file);
    let mut hit = true;
    loop {
        match mm.find_page(file, index) {
            None => {
                hit = false;
                mm.note_path(TrackPath::BufferedRead);
                if !bring_in(mm, file, index, ahead).await {
                    return false;
                }
            }
            Some(pfn) if mm.frames.has(pfn, flag::LOCKED) => mm.wait_on_page_locked(pfn).await,
            Some(pfn) => {
                mm.frames.clear_flags(pfn, flag::UNUSED);
                if hit {
                    mm.note_hit(pfn);
                }
                mm.world.charge(Cost::Copy, 1);
                mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
                break;
            }
        }
    }
    mm.world.relax().await;
    true
}

/// Writes pages `from..to` in order.
pub async fn write_all(mm: &Engine, file: u32, from: u32, to: u32) {
    for index in from..to {
        if !write(mm, file, index).await {
            return;
        }
    }
}

/// Reads pages `from..to` in order.
pub async fn read_all(mm: &Engine, file: u32, from: u32, to: u32) {
    for index in from..to {
        if !read(mm, file, index, 8).await {
            return;
        }
    }
}

/// Reads and writes random pages of a file, mostly of its first quarter.
pub async fn mix(mm: &Engine, file: u32, pages: u32, times: u32, seed: u64) {
    let mut chance = Lcg(seed);
    for _ in 0..times {
        let part = if chance.below(4) == 0 {
            pages
        } else {
            pages / 4
        };
        let index = chance.below(part);
        let ok = match chance.below(3) {
            0 => write(mm, file, index).await,
            _ => read(mm, file, index, 2).await,
        };
        if !ok {
            return;
        }
    }
}

/// Touches random pages of a region, mostly of its first quarter, a third of the times with a
/// store.
pub async fn touch(mm: &Engine, region: u32, pages: u32, times: u32, seed: u64) {
    let mut chance = Lcg(seed);
    for _ in 0..times {
        let part = if chance.below(4) == 0 {
            pages
        } else {
            pages / 4
        };
        let store = chance.below(3) == 0;
        let touched = mm.touch(region, chance.below(part), store).await;
        mm.world.mix(touched as u64);
        mm.world.charge(Cost::Touch, 1);
        mm.world.relax().await;
        if touched == Touched::OutOfMemory {
            return;
        }
    }
}

/// Maps anonymous memory of `pages` pages, stores to each, touches random ones, and frees the
/// region.
pub async fn anonymous(mm: &Engine, pages: u32, times: u32, seed: u64) {
    let region = mm
        .new_region(Backing::Anon, pages, Advice::Normal)
        .expect("room for a region");
    for index in 0..pages {
        if mm.touch(region, index, true).await != Touched::Ok {
            return;
        }
    }
    touch(mm, region, pages, times, seed).await;
    mm.free_region(region);
}

/// Allocates kernel blocks of orders up to 3, some with requests that may not wait. Frees half of
/// them at once and the rest at the end.
pub async fn kernel(mm: &Engine, times: u32, seed: u64) {
    let mut chance = Lcg(seed);
    let mut held = Vec::new();
    for i in 0..times {
        let order = chance.below(4);
        let gfp = match chance.below(4) {
            0 => Gfp::ATOMIC,
            1 => Gfp::NOFS,
            2 => Gfp::KERNEL.or(Gfp::NORETRY),
            _ => Gfp::KERNEL.or(Gfp::RECLAIMABLE),
        };
        if let Some(pfn) = mm.alloc_kernel_pages(gfp, order).await {
            held.push((pfn, order));
        }
        if i % 2 == 0 && !held.is_empty() {
            let (pfn, order) = held.swap_remove(chance.below(held.len() as u32) as usize);
            mm.free_kernel_pages(pfn, order);
        }
        if i % 8 == 0 {
            mm.world.sleep(3_000_000).await;
        }
        mm.world.relax().await;
    }
    for (pfn, order) in held {
        mm.free_kernel_pages(pfn, order);
    }
}

/// Takes memory for the kernel `times` times, `pages` pages each time without yielding, and frees
/// it a little later: only the task itself can free memory meanwhile.
pub async fn bursts(mm: &Engine, times: u32, pages: u32) {
    for i in 0..times {
        let mut held = Vec::new();
        for n in 0..pages {
            let gfp = if (i + n) % 7 == 0 {
                Gfp::NOFS
            } else {
                Gfp::KERNEL
            };
            held.extend(mm.alloc_kernel_page(gfp).await);
        }
        mm.world.sleep(8_000_000).await;
        held.into_iter().for_each(|pfn| mm.free_kernel_page(pfn));
        mm.world.sleep(25_000_000).await;
        if mm.world.oom.borrow().is_some() {
            return;
        }
    }
}

/// Visits random files of a tree: looks each up, reads or writes its first pages or changes its
/// inode, and removes one in 32, so that another is made in its place.
pub async fn tree(mm: &Engine, files: &[u32], dir: u32, times: u32, seed: u64) {
    let mut chance = Lcg(seed);
    for _ in 0..times {
        let ino = files[chance.below(files.len() as u32) as usize];
        match mm.iget(ino).await {
            Ok(()) => {}
            Err(NoInode::Gone) => {
                if mm.inode_gone(ino) && mm.iget(dir).await.is_ok() {
                    if mm.inode_gone(ino) {
                        mm.reuse_inode(ino, Some(dir));
                        if mm.new_inode(ino).await {
                            mm.log_inode(ino);
                            mm.log_inode(dir);
                            mm.iput(ino);
                        }
                    }
                    mm.iput(dir);
                }
                continue;
            }
            Err(NoInode::NoMemory) => continue,
        }
        match chance.below(32) {
            0 => {
                mm.unlink_inode(ino);
                mm.log_inode(dir);
                mm.hold_inode(ino).await;
                mm.truncate_from(ino, 0).await;
                mm.release_inode(ino);
            }
            1..6 => write_all(mm, ino, 0, 2).await,
            6..12 => read_all(mm, ino, 0, 3).await,
            12..20 => mm.file_changed(ino),
            20 => mm.mark_inode_metadata_dirty(ino),
            _ => {}
        }
        mm.iput(ino);
        mm.world.relax().await;
    }
}

/// Writes dirty pages as a filesystem's `writepages` does: in index order, runs of up to 64 at once
/// (`write_cache_pages`; a cyclic walk wraps once).
pub async fn write_back(mm: &Engine, file: u32, wbc: &mut WritebackControl) {
    let m = &mm.mappings[file as usize];
    let mut range = WalkRange::new(wbc, m.writeback_index.get());
    loop {
        while let Some(first) = mm
            .next_tagged(file, Tag::Dirty, range.index)
            .filter(|&i| i <= range.end)
        {
            let most = (range.end - first).saturating_add(1).min(64);
            let most = (wbc.nr_to_write.clamp(1, 64) as u32).min(most);
            let run = mm.tagged_run(file, Tag::Dirty, first, most);
            let n = mm.start_writeback(file, first, run, |_| ());
            if n > 0 {
                let what = Done::Written {
                    mapping: file,
                    first,
                    n,
                };
                mm.world.submit(m.bdi(), true, n, what).await;
                range.index = first + n;
            } else {
                let page = mm.find_page(file, first);
                let busy = page.filter(|&p| mm.frames.any(p, flag::LOCKED | flag::WRITEBACK));
                match busy {
                    Some(pfn) if wbc.sync_all => {
                        mm.wait_on_page_locked(pfn).await;
                        mm.wait_on_page_writeback(pfn).await;
                        range.index = first;
                    }
                    _ => range.index = first + 1,
                }
            }
            wbc.nr_to_write -= i64::from(n);
            if wbc.nr_to_write <= 0 && !wbc.sync_all {
                if wbc.range_cyclic {
                    m.writeback_index.set(range.index);
                }
                return;
            }
            mm.world.relax().await;
        }
        if !range.wrap() {
            break;
        }
    }
    if wbc.range_cyclic {
        m.writeback_index.set(0);
    }
}
