//! Page tables and swap slots, step by step.

use super::bare::{Bare, recount};
use super::prelude::*;
use super::programs::{bring_in, file, write};
use super::world::{Engine, block_on};

/// Makes a machine with two files of 200 pages and 600 swap slots. The second file's number is odd:
/// its filesystem has no room for page 63.
fn machine() -> (Engine, [u32; 2]) {
    let mut bare = Bare::new(Policy::linux_3_0(), 4096);
    bare.swap = 600;
    let mm = bare.build();
    let files = [0, 1].map(|_| file(&mm, MappingKind::File, 0, 200));
    (mm, files)
}

fn touch(mm: &Engine, region: u32, index: u32, store: bool) -> Touched {
    block_on(mm, mm.touch(region, index, store))
}

/// Returns the numbers of all faults and of major ones.
fn faults(mm: &Engine) -> (u64, u64) {
    (
        mm.vm_event(VmEvent::PgFault),
        mm.vm_event(VmEvent::PgMajFault),
    )
}

#[test]
fn anonymous_memory() {
    let (mm, _) = machine();
    let region = mm
        .new_region(Backing::Anon, 10, Advice::Normal)
        .expect("room");
    assert_eq!(touch(&mm, region, 3, false), Touched::Ok);
    assert_eq!(
        (faults(&mm), mm.global_stat(ZoneStat::NrAnonPages)),
        ((1, 0), 1)
    );
    // An anonymous page is writable from the start.
    assert!(mm.touch_mapped(region, 3, true) && !mm.touch_mapped(region, 4, false));
    assert_eq!(touch(&mm, region, 3, true), Touched::Ok);
    assert_eq!(faults(&mm), (1, 0));
    recount(&mm);
    mm.free_region(region);
    assert_eq!(mm.global_stat(ZoneStat::NrAnonPages), 0);
    recount(&mm);
}

/// The number of a region that ended is used again for the next one of its length, and for no
/// other.
#[test]
fn regions_are_used_again() {
    let (mm, files) = machine();
    let region = |backing, pages| mm.new_region(backing, pages, Advice::Normal).expect("room");
    let (a, b) = (region(Backing::Anon, 10), region(Backing::Anon, 20));
    assert_ne!(a, b);
    mm.free_region(a);
    let c = region(Backing::Anon, 20);
    assert!(
        c != a && c != b,
        "of another length, and of one that is in use"
    );
    let shared = Backing::Shared {
        mapping: files[0],
        first: 0,
    };
    assert_eq!(region(shared, 10), a);
    mm.free_region(b);
    assert_eq!(region(shared, 20), b);
}

/// docs/reference/writeback.md#mapped-faults: a load maps the page read-only, a store makes it
/// dirty, and after its writeback the next store faults again.
#[test]
fn shared_mappings() {
    let (mm, [even, odd]) = machine();
    let shared = |mapping| Backing::Shared { mapping, first: 20 };
    let region = mm
        .new_region(shared(even), 180, Advice::Random)
        .expect("room");
    assert_eq!(touch(&mm, region, 5, false), Touched::Ok);
    assert_eq!(faults(&mm), (1, 1));
    let pfn = mm.find_page(even, 25).expect("it was read");
    assert_eq!(
        (
            mm.frames.mapcount(pfn),
            mm.global_stat(ZoneStat::NrFileMapped)
        ),
        (1, 1)
    );
    assert!(!mm.touch_mapped(region, 5, true) && !mm.frames.has(pfn, flag::DIRTY));
    assert_eq!(touch(&mm, region, 5, true), Touched::Ok);
    assert!(mm.frames.has(pfn, flag::DIRTY) && mm.touch_mapped(region, 5, true));
    assert_eq!(faults(&mm), (2, 1), "the page was there");
    // A second region maps the same page.
    let other = mm
        .new_region(shared(even), 100, Advice::Random)
        .expect("room");
    assert_eq!(touch(&mm, other, 5, true), Touched::Ok);
    assert_eq!(
        (
            mm.frames.mapcount(pfn),
            mm.global_stat(ZoneStat::NrFileMapped)
        ),
        (2, 1)
    );
    assert_eq!(mm.take_young(pfn), 2);
    assert_eq!(mm.take_young(pfn), 0);
    assert!(mm.touch_mapped(other, 5, false));
    assert_eq!(mm.take_young(pfn), 1);
    recount(&mm);
    // Writeback makes both entries read-only.
    assert_eq!(mm.start_writeback(even, 25, 1, |_| ()), 1);
    assert!(!mm.touch_mapped(region, 5, true) && !mm.touch_mapped(other, 5, true));
    assert!(mm.touch_mapped(region, 5, false));
    mm.end_writeback(even, 25, 1, false);
    recount(&mm);
    // Freeing a region marks the pages that it used as accessed; the other region stays visible to
    // reclaim.
    mm.frames.clear_flags(pfn, flag::REFERENCED);
    mm.free_region(region);
    assert!(mm.frames.has(pfn, flag::REFERENCED) && mm.frames.mapcount(pfn) == 1);
    mm.frames.clear_flags(pfn, flag::REFERENCED);
    assert_eq!(mm.take_young(pfn), 0);
    assert!(mm.touch_mapped(other, 5, false));
    assert_eq!(
        mm.take_young(pfn),
        1,
        "the other one is still known to the file"
    );
    mm.free_region(other);
    assert!(!mm.frames.has(pfn, flag::REFERENCED), "not used since");
    assert_eq!(mm.global_stat(ZoneStat::NrFileMapped), 0);
    // Pages after the file's end cannot be mapped; a filesystem without room refuses stores but no
    // loads.
    let long = mm
        .new_region(shared(odd), 400, Advice::Normal)
        .expect("room");
    assert_eq!(touch(&mm, long, 180, false), Touched::BusError);
    assert_eq!(touch(&mm, long, 179, false), Touched::Ok);
    assert_eq!(touch(&mm, long, 43, false), Touched::Ok);
    assert_eq!(touch(&mm, long, 43, true), Touched::BusError);
    assert_eq!(touch(&mm, long, 44, true), Touched::Ok);
    // Truncation removes the entries with the pages.
    block_on(&mm, mm.truncate_from(odd, 64));
    assert!(mm.touch_mapped(long, 43, false) && !mm.touch_mapped(long, 44, false));
    recount(&mm);
}

/// A store to a private mapping copies the page, whatever was mapped before.
#[test]
fn private_mappings() {
    let (mm, [f, _]) = machine();
    let private = Backing::Private {
        mapping: f,
        first: 0,
    };
    let region = mm.new_region(private, 200, Advice::Normal).expect("room");
    for (index, load_first) in [(3, true), (90, false)] {
        if load_first {
            assert_eq!(touch(&mm, region, index, false), Touched::Ok);
            assert_eq!(mm.global_stat(ZoneStat::NrFileMapped), 1);
        }
        assert_eq!(touch(&mm, region, index, true), Touched::Ok);
        let cached = mm.find_page(f, index).expect("read");
        assert_eq!(
            (
                mm.frames.mapcount(cached),
                mm.frames.has(cached, flag::DIRTY)
            ),
            (0, false)
        );
        assert_eq!(mm.global_stat(ZoneStat::NrFileMapped), 0);
    }
    assert_eq!(mm.global_stat(ZoneStat::NrAnonPages), 2);
    recount(&mm);
    mm.free_region(region);
    recount(&mm);
}

/// Advice and access order decide which pages are read beside a missing one.
#[test]
fn reading_around() {
    for (advice, begin, expected) in [
        (Advice::Normal, 50, 4),
        (Advice::Random, 50, 1),
        (Advice::Sequential, 50, 8),
        (Advice::Normal, 0, 4),
    ] {
        let (mm, [f, _]) = machine();
        let shared = Backing::Shared {
            mapping: f,
            first: 0,
        };
        let region = mm.new_region(shared, 200, advice).expect("room");
        touch(&mm, region, begin, false);
        let cached = || mm.mappings[f as usize].nrpages.get();
        assert_eq!(cached(), expected, "{advice:?} at {begin}");
        // A fault on a cached page reads nothing, and is no major fault.
        let before = faults(&mm);
        if advice == Advice::Normal {
            touch(&mm, region, begin + 1, false);
            assert_eq!(
                (cached(), faults(&mm)),
                (expected, (before.0 + 1, before.1))
            );
        }
    }
}

/// docs/reference/writeback.md#swap: slots are given in order; a swapped page leaves its slot's
/// number in its region, is read back with its neighbours in the area, and a store makes the slot's
/// copy stale.
#[test]
fn swap_slots() {
    let (mm, _) = machine();
    let region = mm
        .new_region(Backing::Anon, 300, Advice::Normal)
        .expect("room");
    let pages: Vec<Pfn> = (0..300)
        .map(|index| {
            assert_eq!(touch(&mm, region, index, true), Touched::Ok);
            mm.frames
                .iter(mm.lru_list(0, crate::memory::zone::Lru::ActiveAnon))
                .next();
            let all = 0..mm.frames.len();
            let at = |&pfn: &Pfn| {
                mm.frames.has(pfn, flag::ANON)
                    && mm.frames.index(pfn) == index
                    && mm.frames.mapcount(pfn) > 0
            };
            all.into_iter().find(at).expect("its page")
        })
        .collect();
    mm.lru_add_drain();
    for (slot, &pfn) in (0..).zip(&pages[..200]) {
        assert!(mm.add_to_swap(pfn));
        assert_eq!(mm.frames.private(pfn), slot);
        assert!(mm.frames.has(pfn, flag::SWAPCACHE | flag::DIRTY));
    }
    assert_eq!(mm.free_swap(), 400);
    recount(&mm);
    // The pages are written out, unmapped and freed.
    for &pfn in &pages[..200] {
        assert!(mm.try_lock_page(pfn));
        mm.try_to_unmap(pfn);
        assert!(mm.clear_page_dirty_for_io(pfn));
        let job = async { assert_eq!(mm.swap_writepage(pfn).await, Writepage::Started) };
        block_on(&mm, job);
        mm.unlock_page(pfn);
    }
    block_on(&mm, mm.world.sleep(SECOND));
    assert_eq!(mm.vm_event(VmEvent::PswpOut), 200);
    for &pfn in &pages[..200] {
        assert!(!mm.frames.any(pfn, flag::WRITEBACK | flag::DIRTY));
        assert!(mm.try_delete_from_lru(pfn));
        mm.delete_from_swap_cache(pfn);
        mm.free_page(pfn, false);
    }
    assert_eq!(
        (mm.free_swap(), mm.global_stat(ZoneStat::NrAnonPages)),
        (400, 100)
    );
    recount(&mm);
    // Slot 13 is read together with 8 to 15.
    assert_eq!(touch(&mm, region, 13, false), Touched::Ok);
    assert_eq!((mm.vm_event(VmEvent::PswpIn), faults(&mm).1), (8, 1));
    assert_eq!(mm.free_swap(), 400, "a load leaves the slot's copy good");
    assert!(mm.touch_mapped(region, 13, false) && !mm.touch_mapped(region, 13, true));
    assert_eq!(touch(&mm, region, 13, true), Touched::Ok);
    assert_eq!(mm.free_swap(), 401, "a store does not");
    // Its neighbour was read already; a store to it frees its slot at once.
    assert_eq!(touch(&mm, region, 14, true), Touched::Ok);
    assert_eq!((mm.free_swap(), faults(&mm).1), (402, 1));
    recount(&mm);
    // Wait for the reads: a page that is still being read would be left without an owner, for
    // reclaim to free.
    block_on(&mm, mm.world.sleep(SECOND));
    mm.free_region(region);
    assert_eq!(
        (mm.free_swap(), mm.global_stat(ZoneStat::NrAnonPages)),
        (600, 0)
    );
    recount(&mm);
}

/// Makes a region of 300 pages of which the first 200 are swapped out, the last of them first.
fn swapped_out(policy: Policy, rotates: bool) -> (Engine, u32) {
    let mut bare = Bare::new(policy, 4096);
    (bare.swap, bare.swap_rotates) = (600, rotates);
    let mm = bare.build();
    let region = mm
        .new_region(Backing::Anon, 300, Advice::Normal)
        .expect("room");
    (0..300).for_each(|index| assert_eq!(touch(&mm, region, index, true), Touched::Ok));
    mm.lru_add_drain();
    for index in (0..200).rev() {
        let pfn = mm.pte(region, index).get() >> 3; // An entry's three bits.
        assert!(mm.add_to_swap(pfn) && mm.try_lock_page(pfn));
        mm.try_to_unmap(pfn);
        assert!(mm.clear_page_dirty_for_io(pfn));
        let job = async { assert_eq!(mm.swap_writepage(pfn).await, Writepage::Started) };
        block_on(&mm, job);
        mm.unlock_page(pfn);
        block_on(&mm, mm.world.sleep(SECOND / 100));
        assert!(mm.try_delete_from_lru(pfn));
        mm.delete_from_swap_cache(pfn);
        mm.free_page(pfn, false);
    }
    (mm, region)
}

/// `swap_readahead`: eight aligned slots; as many as earlier ones were used; or, where the disk
/// does not turn, the neighbours in memory, in whatever slots they are.
#[test]
fn what_comes_back_beside_a_page() {
    // Pages that are read with each touch of a swapped page.
    let brought = |rule, rotates, touches: &[u32]| {
        let mut policy = Policy::linux_3_0();
        policy.swap_readahead = rule;
        let (mm, region) = swapped_out(policy, rotates);
        let came = |&index: &u32| {
            let before = mm.vm_event(VmEvent::PswpIn);
            assert_eq!(touch(&mm, region, index, true), Touched::Ok);
            block_on(&mm, mm.world.sleep(SECOND / 100));
            recount(&mm);
            mm.vm_event(VmEvent::PswpIn) - before
        };
        touches.iter().map(came).collect::<Vec<u64>>()
    };
    // Page 150 has slot 49.
    let far = [150, 20, 100, 60, 180];
    assert_eq!(brought(SwapReadahead::Cluster, false, &far), [8; 5]);
    for (rule, rotates) in [
        (SwapReadahead::Hits, false),
        (SwapReadahead::Neighbours, false),
        (SwapReadahead::Neighbours, true),
    ] {
        // No page read ahead was used: half as many each time.
        let least = brought(rule, rotates, &far);
        assert_eq!(least, [8, 4, 2, 1, 1], "{rule:?} {rotates}");
        // Two neighbours are used: as many as two plus those used, rounded up.
        let met = [150, 149, 151, 20];
        assert_eq!(
            brought(rule, rotates, &met),
            [8, 0, 0, 4],
            "{rule:?} {rotates}"
        );
    }
    // Slots 48 to 55 are pages 151 down to 144; the neighbours of 150 are 147 to 154.
    let edges = [150, 144, 154];
    assert_eq!(brought(SwapReadahead::Hits, false, &edges), [8, 0, 4]);
    assert_eq!(brought(SwapReadahead::Neighbours, true, &edges), [8, 0, 4]);
    assert_eq!(brought(SwapReadahead::Neighbours, false, &edges), [8, 4, 0]);
    // In order: a neighbour of the last page counts as two, and then used pages make the window
    // grow.
    let mut policy = Policy::linux_3_0();
    policy.swap_readahead = SwapReadahead::Neighbours;
    let (mm, region) = swapped_out(policy, false);
    let order: Vec<u32> = (40..120).collect();
    for index in order {
        assert_eq!(touch(&mm, region, index, true), Touched::Ok);
        block_on(&mm, mm.world.sleep(SECOND / 100));
    }
    assert_eq!((mm.vm_event(VmEvent::PswpIn), faults(&mm).1), (88, 11));
}

/// `fault_retry`: a fault that read a page, waited for one, or met a readahead mark is taken twice;
/// others are not.
#[test]
fn faults_begin_anew() {
    let charged = |retry: bool, touches: &[(u32, bool)]| {
        let mut policy = Policy::linux_3_0();
        policy.fault_retry = retry;
        let (mm, _, region) = mapped_file(policy, Advice::Normal);
        let count = || mm.world.charged[Cost::Fault as usize].get();
        let one = |&(index, store): &(u32, bool)| {
            let before = count();
            assert_eq!(touch(&mm, region, index, store), Touched::Ok);
            count() - before
        };
        touches.iter().map(one).collect::<Vec<u64>>()
    };
    // 40 is missing, 41 is cached, 42 has the mark, and a page that was mapped for loads faults
    // again for a store.
    let touches = [(40, false), (41, true), (42, false), (41, true), (40, true)];
    assert_eq!(charged(false, &touches), [1, 1, 1, 0, 1]);
    assert_eq!(charged(true, &touches), [2, 1, 2, 0, 1]);
}

/// Every 256 slots a cluster of 256 free ones is searched for; if there is none, the next free slot
/// is given.
#[test]
fn clusters_of_swap_slots() {
    let (mm, _) = machine();
    let region = mm
        .new_region(Backing::Anon, 620, Advice::Normal)
        .expect("room");
    (0..620).for_each(|index| assert_eq!(touch(&mm, region, index, true), Touched::Ok));
    let pages: Vec<Pfn> = (0..mm.frames.len())
        .filter(|&pfn| mm.frames.has(pfn, flag::ANON))
        .collect();
    let mut given = Vec::new();
    let slot = |pfn: Pfn| mm.add_to_swap(pfn).then(|| mm.frames.private(pfn));
    for &pfn in &pages[..100] {
        given.push(slot(pfn).expect("room"));
    }
    assert!(given.iter().copied().eq(0..100));
    // Slots before become free again: the cluster is used up first.
    pages[..50].iter().for_each(|&pfn| mm.try_to_free_swap(pfn));
    for (&pfn, expected) in pages[100..256].iter().zip(100..256) {
        assert_eq!(slot(pfn), Some(expected));
    }
    // 256 slots were given: the next cluster is 256..512. After that no cluster is free.
    for (&pfn, expected) in pages[256..512].iter().zip(256..512) {
        assert_eq!(slot(pfn), Some(expected));
    }
    for (&pfn, expected) in pages[512..600].iter().zip(512..600) {
        assert_eq!(slot(pfn), Some(expected));
    }
    // After the end of the area the search starts from its beginning.
    for (&pfn, expected) in pages[..20].iter().zip(0..20) {
        assert_eq!(slot(pfn), Some(expected));
    }
    assert_eq!((mm.free_swap(), mm.swap_is_half_full()), (30, true));
    for &pfn in pages[20..50].iter() {
        assert!(slot(pfn).is_some());
    }
    assert_eq!((slot(pages[610]), mm.free_swap()), (None, 0));
    pages[..300]
        .iter()
        .for_each(|&pfn| mm.try_to_free_swap(pfn));
    assert_eq!((mm.free_swap(), mm.swap_is_half_full()), (300, false));
    mm.try_to_free_swap(pages[300]);
    recount(&mm);
}

/// Clean, unmapped and idle pages of a file are dropped; the others stay.
#[test]
fn invalidating_a_file() {
    let (mm, [f, _]) = machine();
    block_on(&mm, async {
        bring_in(&mm, f, 0, 20).await;
        mm.world.sleep(SECOND).await;
    });
    block_on(&mm, async {
        write(&mm, f, 2).await;
        write(&mm, f, 3).await;
    });
    assert_eq!(mm.start_writeback(f, 3, 1, |_| ()), 1);
    mm.lru_add_drain();
    let at = |index| mm.find_page(f, index).expect("cached");
    // The mark says that a batch holds the page, but none does, so draining does not clear it.
    mm.frames.set_flags(at(5), flag::PINNED);
    assert!(mm.try_lock_page(at(7)));
    let shared = Backing::Shared {
        mapping: f,
        first: 9,
    };
    let region = mm.new_region(shared, 1, Advice::Random).expect("room");
    touch(&mm, region, 0, false);
    let dropped = block_on(&mm, mm.invalidate_mapping_pages(f));
    let left: Vec<u32> = (0..20).filter(|&i| mm.find_page(f, i).is_some()).collect();
    assert_eq!((dropped, left), (15, vec![2, 3, 5, 7, 9]));
    assert!(mm.frames.has(at(7), flag::LOCKED) && !mm.frames.any(at(2), flag::LOCKED));
    // A bit is cleared once.
    assert!(mm.frames.test_and_clear(at(7), flag::LOCKED));
    assert!(!mm.frames.test_and_clear(at(7), flag::LOCKED));
    assert!(
        !mm.frames.test_and_set(at(7), flag::LOCKED) && mm.frames.test_and_set(at(7), flag::LOCKED)
    );
}

/// Makes a machine with one file of 1000 pages, mapped with `advice`.
fn mapped_file(policy: Policy, advice: Advice) -> (Engine, u32, u32) {
    let mm = Bare::new(policy, 4096).build();
    let mapping = file(&mm, MappingKind::File, 0, 1000);
    let backing = Backing::Shared { mapping, first: 0 };
    let region = mm.new_region(backing, 1000, advice).expect("room");
    (mm, mapping, region)
}

/// Returns how many pages the touch of one reads. The world reads 1 for a single page, 4 around one
/// (with a mark on the third) and 8 ahead.
fn brought(mm: &Engine, file: u32, region: u32, index: u32) -> usize {
    let cached = |mm: &Engine| {
        (0..1000)
            .filter(|&i| mm.find_page(file, i).is_some())
            .count()
    };
    let before = cached(mm);
    assert_eq!(touch(mm, region, index, false), Touched::Ok);
    cached(mm) - before
}

/// docs/reference/writeback.md#mapped-faults: after a hundred misses more than hits, a fault reads
/// its page alone. Both rules count so.
#[test]
fn many_misses_end_reading_around() {
    for policy in [Policy::linux_3_0(), Policy::linux_2_6_37()] {
        let (mm, file, region) = mapped_file(policy, Advice::Normal);
        let brought = |index| brought(&mm, file, region, index);
        // No fault follows directly on the one before.
        let misses = (1..=100).map(|i| brought(8 * i));
        assert_eq!(misses.sum::<usize>(), 400);
        assert_eq!((brought(900), brought(910)), (1, 1));
        // 102 misses so far. The next is the 103rd, less the hits.
        assert_eq!((brought(9), brought(17)), (0, 0));
        assert_eq!(brought(920), 1, "101");
        assert_eq!((brought(25), brought(33)), (0, 0));
        assert_eq!(brought(930), 4, "100");
    }
}

/// Linux 3.0 reads ahead by a mark, 2.6.37 by the previous fault.
#[test]
fn reading_ahead_of_faults() {
    let touches = [40, 41, 42, 43, 44, 45, 46];
    let all = |policy, advice| {
        let (mm, file, region) = mapped_file(policy, advice);
        touches.map(|index| brought(&mm, file, region, index))
    };
    let (new, old) = (Policy::linux_3_0, Policy::linux_2_6_37);
    // Marks are met at 42, 44 (the pages after it are cached) and 46.
    assert_eq!(all(new(), Advice::Normal), [4, 0, 4, 0, 0, 0, 4]);
    assert_eq!(all(old(), Advice::Normal), [4, 0, 0, 0, 8, 0, 0]);
    // The very first page follows on nothing, which 2.6.37 takes for sequential access.
    for (policy, pages) in [(new(), 4), (old(), 8)] {
        let (mm, file, region) = mapped_file(policy, Advice::Normal);
        assert_eq!(brought(&mm, file, region, 0), pages);
    }
    for policy in [new, old] {
        assert_eq!(all(policy(), Advice::Random), [1; 7]);
        assert_eq!(all(policy(), Advice::Sequential), [8, 0, 0, 0, 0, 0, 0]);
    }
}

/// Touches of fresh pages in one go have the same result as single touches: the same pages,
/// counters and time, also where an allocation has to wait.
#[test]
fn anonymous_memory_at_once() {
    const PAGES: u32 = 3970;
    let (mut waited, mut at_once) = (0, 0);
    let [single, together] = [false, true].map(|together| {
        let (mm, files) = machine();
        for f in files {
            assert!(block_on(&mm, bring_in(&mm, f, 0, 60)));
        }
        let region = mm
            .new_region(Backing::Anon, PAGES, Advice::Normal)
            .expect("room");
        assert_eq!(touch(&mm, region, 7, true), Touched::Ok);
        let mut at = 0;
        while at < PAGES {
            at += mm.touch_mapped_run(region, at, PAGES - at, true);
            if at == PAGES {
                break;
            }
            let done = together.then(|| mm.anon_at_once(region, at, PAGES - at));
            let Some(Some(done)) = done else {
                assert!(!together, "nothing but fresh pages");
                assert_eq!(touch(&mm, region, at, true), Touched::Ok);
                continue;
            };
            at_once += done.pages;
            if let Some(start) = done.rest {
                waited += 1;
                assert!(block_on(&mm, mm.anon_rest(region, at + done.pages, start)));
            }
            block_on(&mm, mm.world.relax());
        }
        recount(&mm);
        let entries: Vec<u32> = (0..PAGES).map(|i| mm.pte(region, i).get()).collect();
        (mm.world.now(), mm.vmstat(), entries)
    });
    assert_eq!(single, together);
    assert!(
        waited > 0 && at_once > 3000,
        "{waited} waited for, {at_once} at once"
    );
}
