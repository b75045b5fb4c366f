//! The page index and the LRU lists compared with plain models.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::{Lcg, file};
use super::world::{Engine, block_on};
use crate::memory::zone::Lru;
use crate::reclaim::scan::ScanControl;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy)]
struct Cached {
    pfn: Pfn,
    dirty: bool,
    writeback: bool,
}

/// Returns indexes close to each other, far apart, and at both ends of the range.
fn place(chance: &mut Lcg) -> u32 {
    match chance.below(6) {
        0 => chance.below(70),
        1 => 4000 + chance.below(200),
        2 => chance.below(1 << 19),
        3 => u32::MAX - chance.below(70),
        4 => 1 << chance.below(32),
        _ => chance.below(u32::MAX),
    }
}

/// Returns the number of tree nodes that these pages need below a root of a level.
fn nodes(pages: &BTreeMap<u32, Cached>, level: u32) -> usize {
    (0..=level)
        .map(|l| {
            pages
                .keys()
                .map(|&i| u64::from(i) >> (6 * (l + 1)))
                .collect::<BTreeSet<_>>()
                .len()
        })
        .sum()
}

/// Searches for pages, and for tagged ones, from a random index on.
fn look_around(mm: &Engine, f: u32, model: &BTreeMap<u32, Cached>, chance: &mut Lcg, when: &str) {
    let from = place(chance);
    assert_eq!(mm.find_page(f, from), model.get(&from).map(|p| p.pfn));
    let first = model.range(from..).next().map(|(&i, p)| (i, p.pfn));
    assert_eq!(mm.first_page_from(f, from), first, "{when}");
    for (tag, has) in [
        (Tag::Dirty, (|p: &Cached| p.dirty) as fn(&Cached) -> bool),
        (Tag::Writeback, |p| p.writeback),
    ] {
        let tagged = |i: u32| model.get(&i).is_some_and(has);
        let next = model.range(from..).find(|(_, p)| has(p)).map(|(&i, _)| i);
        assert_eq!(mm.next_tagged(f, tag, from), next, "{when} from {from}");
        let most = 1 + chance.below(130);
        let start = next.unwrap_or(from);
        let run = (0..most)
            .take_while(|&n| start.checked_add(n).is_some_and(tagged))
            .count();
        assert_eq!(mm.tagged_run(f, tag, start, most), run as u32);
        let all = model.values().filter(|p| has(p)).count() as u32;
        assert_eq!(mm.mapping_tagged(f, tag), all > 0);
        assert_eq!(mm.tagged_count(f, tag, most), all.min(most));
    }
}

/// docs/reference/memory-model.md: an index finds the pages that were entered, and tags find those
/// that are dirty or under writeback, at any index.
#[test]
fn an_index_is_a_map() {
    for seed in 0..6 {
        let mm = Bare::new(Policy::linux_3_0(), 6000).build();
        let f = file(&mm, MappingKind::File, 0, 1);
        let mut model: BTreeMap<u32, Cached> = BTreeMap::new();
        let (mut level, mut chance) = (0, Lcg(100 + seed));
        for step in 0..1500 {
            let index = match (chance.below(2), model.is_empty()) {
                (0, false) => {
                    let from = place(&mut chance);
                    let near = model.range(from..).next().or_else(|| model.iter().next());
                    *near.expect("a page").0
                }
                _ => place(&mut chance),
            };
            match (model.get(&index).copied(), chance.below(4)) {
                (None, _) => {
                    let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
                    assert_eq!(mm.enter_page_cache_lru(pfn, f, index), Entered::Added);
                    // A tree never becomes lower, unless it was empty.
                    let needed = (0..6).find(|&l| u64::from(index) < 1 << (6 * (l + 1)).min(36));
                    level = needed
                        .expect("a level")
                        .max(if model.is_empty() { 0 } else { level });
                    model.insert(
                        index,
                        Cached {
                            pfn,
                            dirty: false,
                            writeback: false,
                        },
                    );
                }
                (Some(page), 0) if !page.dirty && !page.writeback => {
                    assert!(mm.try_delete_from_lru(page.pfn));
                    mm.remove_from_page_cache(page.pfn);
                    mm.free_page(page.pfn, false);
                    model.remove(&index);
                }
                (Some(page), 1) if !page.writeback => {
                    assert_eq!(
                        mm.set_page_dirty(page.pfn, TrackPath::BufferedWrite),
                        !page.dirty
                    );
                    model.get_mut(&index).expect("it").dirty = true;
                }
                (Some(page), 2) if page.dirty => {
                    assert!(mm.clear_page_dirty_for_io(page.pfn));
                    mm.set_page_writeback(page.pfn);
                    *model.get_mut(&index).expect("it") = Cached {
                        dirty: false,
                        writeback: true,
                        ..page
                    };
                }
                (Some(page), 3) if page.writeback => {
                    mm.end_page_writeback(page.pfn, false);
                    model.get_mut(&index).expect("it").writeback = false;
                }
                (Some(page), _) => {
                    let other = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
                    assert_eq!(mm.enter_page_cache_lru(other, f, index), Entered::Exists);
                    mm.free_page(other, false);
                    assert_eq!(mm.find_page(f, index), Some(page.pfn));
                }
            }
            let when = format!("seed {seed} step {step}");
            look_around(&mm, f, &model, &mut chance, &when);
            assert_eq!(mm.mappings[f as usize].nrpages.get() as usize, model.len());
            assert_eq!(mm.mapping_has_no_pages(f), model.is_empty());
            assert_eq!(
                mm.tree_nodes() as usize,
                nodes(&model, level),
                "seed {seed} step {step}"
            );
            if step % 100 == 0 {
                recount(&mm);
            }
        }
        recount(&mm);
    }
}

/// Writeback of runs of dirty pages begins and ends as it does page by page.
#[test]
fn runs_under_writeback() {
    let mut bare = Bare::new(Policy::linux_3_0(), 2000);
    bare.zones.insert(
        0,
        ZoneInfo {
            node: 0,
            kind: ZoneType::Dma32,
            size: 700,
        },
    );
    let mm = bare.build();
    let f = file(&mm, MappingKind::File, 0, 1000);
    let pages: Vec<Pfn> = (0..1000)
        .map(|index| {
            // Two zones alternate, in runs of 7.
            let highest = Gfp::zone(if index / 7 % 3 == 0 { 1 } else { 3 });
            let pfn = block_on(&mm, mm.alloc_page(Gfp::WAIT.or(highest))).expect("memory");
            assert!(mm.add_to_page_cache_lru(pfn, f, index));
            if index != 300 {
                mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
            }
            pfn
        })
        .collect();
    assert!(mm.try_lock_page(pages[200]));
    let started = std::cell::RefCell::new(Vec::new());
    let start = |first, most| {
        started.borrow_mut().clear();
        mm.start_writeback(f, first, most, |pfn| started.borrow_mut().push(pfn))
    };
    // As many as asked for; up to a locked page, a clean one, one under writeback, the end.
    assert_eq!(start(10, 100), 100);
    assert_eq!(*started.borrow(), &pages[10..110]);
    assert_eq!(
        (
            start(0, 100),
            start(110, 500),
            start(201, 500),
            start(300, 1)
        ),
        (10, 90, 99, 0)
    );
    assert_eq!(start(301, 5000), 699);
    let writeback: u32 = 10 + 100 + 90 + 99 + 699;
    let levels = |item| (0..2).map(|z| mm.stat.exact(z, item)).sum::<i64>();
    assert_eq!(levels(ZoneStat::NrWriteback), i64::from(writeback));
    assert_eq!(levels(ZoneStat::NrWritten), i64::from(writeback));
    assert_eq!(levels(ZoneStat::NrFileDirty), 1);
    assert_eq!(mm.tagged_count(f, Tag::Writeback, 2000), writeback);
    assert_eq!(mm.tagged_count(f, Tag::Dirty, 2000), 1);
    mm.unlock_page(pages[200]);
    recount(&mm);
    mm.end_writeback(f, 0, 200, false);
    mm.end_writeback(f, 301, 400, true);
    assert_eq!(mm.vm_event(VmEvent::WriteError), 400);
    assert!(mm.frames.has(pages[301], flag::ERROR) && !mm.frames.has(pages[0], flag::ERROR));
    assert_eq!(
        mm.bdi_stat_sum(0, crate::writeback::bdi::BdiStat::Writeback),
        99 + 299
    );
    recount(&mm);
    mm.end_writeback(f, 201, 99, false);
    mm.end_writeback(f, 701, 299, false);
    assert_eq!(levels(ZoneStat::NrWriteback), 0);
    // fsync writes the last page, and reports the failure once.
    assert!(!block_on(&mm, mm.sync_mapping(f)));
    assert!(block_on(&mm, mm.sync_mapping(f)));
    assert_eq!(levels(ZoneStat::NrFileDirty), 0);
    recount(&mm);
}

/// The lists of a zone's file pages, head first, and the CPU's batches.
#[derive(Default)]
struct Lists {
    inactive: VecDeque<Pfn>,
    active: VecDeque<Pfn>,
    add: [Vec<Pfn>; 2],
    activate: Vec<Pfn>,
    rotate: Vec<Pfn>,
    referenced: BTreeSet<Pfn>,
}

impl Lists {
    fn drain_add(&mut self, active: usize) {
        let pages = std::mem::take(&mut self.add[active]);
        let list = if active == 1 {
            &mut self.active
        } else {
            &mut self.inactive
        };
        pages.into_iter().for_each(|pfn| list.push_front(pfn));
    }

    fn drain_rotate(&mut self) {
        for pfn in std::mem::take(&mut self.rotate) {
            if let Some(at) = self.inactive.iter().position(|&p| p == pfn) {
                self.inactive.remove(at);
                self.inactive.push_back(pfn);
            }
        }
    }

    fn drain_activate(&mut self) {
        for pfn in std::mem::take(&mut self.activate) {
            if let Some(at) = self.inactive.iter().position(|&p| p == pfn) {
                self.inactive.remove(at);
                self.active.push_front(pfn);
            }
        }
    }

    fn drain(&mut self) {
        self.drain_add(0);
        self.drain_add(1);
        self.drain_rotate();
        self.drain_activate();
    }

    fn waits(&self, pfn: Pfn) -> bool {
        self.activate.contains(&pfn) || self.rotate.contains(&pfn)
    }
}

/// docs/reference/memory-model.md#lru-lists: pages join, move and rotate through batches of 14; the
/// second access activates a page that is on a list, and since 3.11 one that waits in its CPU's
/// batch.
#[test]
fn lists_and_batches() {
    for mark_accessed in [MarkAccessed::Listed, MarkAccessed::InBatch] {
        let policy = Policy {
            mark_accessed,
            ..Policy::linux_3_0()
        };
        let mm = Bare::new(policy, 5000).build();
        let f = file(&mm, MappingKind::File, 0, 4000);
        let (mut m, mut pages, mut chance) = (Lists::default(), Vec::new(), Lcg(6));
        for step in 0..3000 {
            match chance.below(10) {
                0..4 => {
                    let pfn = block_on(&mm, mm.alloc_page(Gfp::USER)).expect("memory");
                    assert!(mm.add_to_page_cache_lru(pfn, f, pages.len() as u32));
                    pages.push(pfn);
                    m.add[0].push(pfn);
                    if m.add[0].len() == 14 {
                        m.drain_add(0);
                    }
                }
                4..8 if !pages.is_empty() => {
                    // Young pages are used again sooner.
                    let back = 1 + chance.below(40.min(pages.len() as u32)) as usize;
                    let pfn = pages[pages.len() - back];
                    mm.mark_page_accessed(pfn, TrackPath::BufferedRead);
                    use_page(&mut m, pfn, mark_accessed);
                }
                8 if !pages.is_empty() => {
                    let pfn = pages[chance.below(pages.len() as u32) as usize];
                    mm.rotate_reclaimable_page(pfn);
                    if m.inactive.contains(&pfn) && !m.waits(pfn) {
                        m.rotate.push(pfn);
                        if m.rotate.len() == 14 {
                            m.drain_rotate();
                        }
                    }
                }
                9 if step % 25 == 0 => deactivate(&mm, &mut m),
                _ if step % 50 == 0 => {
                    mm.lru_add_drain();
                    m.drain();
                }
                _ => {}
            }
            for (lru, list) in [
                (Lru::InactiveFile, &m.inactive),
                (Lru::ActiveFile, &m.active),
            ] {
                assert!(
                    mm.frames.iter(mm.lru_list(0, lru)).eq(list.iter().copied()),
                    "{mark_accessed:?} step {step}: {lru:?}"
                );
            }
            for &pfn in pages.iter().rev().take(20) {
                let (f, active) = (
                    mm.frames.flags(pfn),
                    m.active.contains(&pfn) || m.add[1].contains(&pfn),
                );
                assert_eq!(f & flag::ACTIVE != 0, active);
                assert_eq!(f & flag::REFERENCED != 0, m.referenced.contains(&pfn));
                assert_eq!(f & flag::PINNED != 0, m.waits(pfn));
                assert_eq!(
                    Lru::of(f),
                    if active {
                        Lru::ActiveFile
                    } else {
                        Lru::InactiveFile
                    }
                );
            }
        }
        recount(&mm);
        let sizes = (m.active.len(), m.inactive.len());
        assert!(sizes.0 > 20 && sizes.1 > 100, "{sizes:?}");
    }
}

/// Records an access to a page in the model.
fn use_page(m: &mut Lists, pfn: Pfn, mark_accessed: MarkAccessed) {
    let active = m.active.contains(&pfn) || m.add[1].contains(&pfn);
    if m.referenced.insert(pfn) || active {
        return;
    }
    if m.inactive.contains(&pfn) {
        m.referenced.remove(&pfn);
        if !m.waits(pfn) {
            m.activate.push(pfn);
            if m.activate.len() == 14 {
                m.drain_activate();
            }
        }
    } else if mark_accessed == MarkAccessed::InBatch {
        m.referenced.remove(&pfn);
        m.add[0].retain(|&p| p != pfn);
        m.add[1].push(pfn);
        if m.add[1].len() == 14 {
            m.drain_add(1);
        }
    }
}

/// Scans the active list: up to 8 pages of its tail move to the head of the inactive list.
fn deactivate(mm: &Engine, m: &mut Lists) {
    let before = mm.vm_event(VmEvent::PgDeactivate);
    let mut sc = ScanControl::new(32, 0, Gfp::KERNEL, 3, true);
    mm.shrink_active_list(0, Lru::ActiveFile, 8, &mut sc);
    m.drain();
    let n = m.active.len().min(8);
    for _ in 0..n {
        let pfn = m.active.pop_back().expect("counted");
        m.inactive.push_front(pfn);
    }
    assert_eq!(mm.vm_event(VmEvent::PgDeactivate) - before, n as u64);
}

/// Pages that cannot be reclaimed have a list of their own, and every list holds one kind.
#[test]
fn lists_by_flags() {
    for (flags, lru) in [
        (0, Lru::InactiveFile),
        (flag::ACTIVE, Lru::ActiveFile),
        (flag::SWAPBACKED, Lru::InactiveAnon),
        (flag::SWAPBACKED | flag::ACTIVE, Lru::ActiveAnon),
        (flag::UNEVICTABLE, Lru::Unevictable),
        (
            flag::UNEVICTABLE | flag::ACTIVE | flag::SWAPBACKED,
            Lru::Unevictable,
        ),
    ] {
        assert_eq!(Lru::of(flags), lru);
        assert_eq!(
            lru.is_file(),
            lru != Lru::Unevictable && flags & flag::SWAPBACKED == 0
        );
        assert_eq!(
            lru.is_active(),
            lru != Lru::Unevictable && flags & flag::ACTIVE != 0
        );
    }
}

/// No two page bits are the same, and the zone's number is above all of them.
#[test]
fn page_bits_differ() {
    use flag::*;
    let all = [
        LOCKED,
        REFERENCED,
        DIRTY,
        LRU,
        ACTIVE,
        WRITEBACK,
        RECLAIM,
        SWAPBACKED,
        SWAPCACHE,
        UNEVICTABLE,
        BUDDY,
        UPTODATE,
        READAHEAD,
        UNUSED,
        CACHED,
        ANON,
        USED,
        EXEC,
        ERROR,
        SLAB,
        PINNED,
        TOUCHED,
        RETURNED,
        WAITERS,
    ];
    let sum = all.iter().fold(0u32, |sum, &bit| {
        assert!(bit.is_power_of_two() && sum & bit == 0 && bit < 1 << ZONE_SHIFT);
        sum | bit
    });
    assert_eq!(sum.count_ones() as usize, all.len());
    let freed = [
        LOCKED, DIRTY, LRU, ACTIVE, WRITEBACK, BUDDY, CACHED, ANON, SLAB, PINNED, RETURNED,
    ];
    assert_eq!(CHECK_AT_FREE, freed.iter().sum::<u32>());
}
