//! The recount finds the errors that it is meant to find.

mod common;

use common::{machine, spec};
use mm::cache::mapping::MappingKind;
use mm::memory::frame::flag;
use mm::memory::gfp::Gfp;
use mm::world::event::TrackPath;
use mm::{Pfn, Recount};
use sim::SimMm;
use sim::spec::FsKind;
use std::cell::RefCell;
use std::pin::Pin;

const PAGES: usize = 400;

/// Fills a machine with a file of clean pages, dirty pages and pages under writeback, in turn, and
/// then one kernel page. Returns the frames.
fn filled(mm: &SimMm<false>) -> Vec<Pfn> {
    mm.new_bdi(0, 100).expect("a bdi");
    let frames = RefCell::new(Vec::new());
    let task = async {
        let file = mm.new_mapping(MappingKind::File, 0).expect("a file");
        for index in 0..PAGES as u32 {
            let pfn = mm.alloc_page(Gfp::USER).await.expect("memory");
            assert!(mm.add_to_page_cache_lru(pfn, file, index));
            if index % 3 > 0 {
                mm.set_page_dirty(pfn, TrackPath::BufferedWrite);
            }
            if index % 3 == 2 {
                mm.clear_page_dirty_for_io(pfn);
                mm.set_page_writeback(pfn);
            }
            frames.borrow_mut().push(pfn);
        }
        mm.lru_add_drain();
        let kernel = mm.alloc_kernel_page(Gfp::KERNEL).await.expect("memory");
        frames.borrow_mut().push(kernel);
        mm.world.sched.stop();
    };
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        vec![Box::pin(async {}), Box::pin(task)];
    for _ in 0..2 {
        mm.init_task(mm.world.sched.spawn(), 0, 0);
    }
    mm.world.sched.run(&mut tasks, |_, _| {});
    drop(tasks);
    frames.into_inner()
}

#[test]
fn one_wrong_bit_of_any_page_is_found() {
    let s = spec(machine(64), FsKind::Xfs, "dd if=/dev/zero of=a count=1");
    let mm: SimMm<false> = sim::run::build(&s);
    let frames = filled(&mm);
    let mut recount = Recount::default();
    assert_eq!(recount.run(&mm), Ok(()));
    let page_bits = [
        flag::DIRTY,
        flag::WRITEBACK,
        flag::LRU,
        flag::ACTIVE,
        flag::CACHED,
        flag::ANON,
        flag::UNEVICTABLE,
        1 << flag::ZONE_SHIFT,
    ];
    let kernel = (frames[PAGES], &[flag::USED, flag::CACHED, flag::ANON][..]);
    let pages = frames[PAGES / 2..][..3]
        .iter()
        .map(|&pfn| (pfn, &page_bits[..]));
    for (pfn, bits) in pages.chain([kernel]) {
        for &bit in bits {
            let before = mm.frames.flags(pfn);
            if before & bit == 0 {
                mm.frames.set_flags(pfn, bit);
            } else {
                mm.frames.clear_flags(pfn, bit);
            }
            let found = recount.run(&mm);
            assert!(
                found.is_err(),
                "frame {pfn}, flags {before:#x}, bit {bit:#x}"
            );
            mm.frames.clear_flags(pfn, bit);
            mm.frames.set_flags(pfn, before & bit);
            assert_eq!(recount.run(&mm), Ok(()), "and it recovers");
        }
    }
}

/// Between recounts, a look finds errors at the ends of lists, and sums that disagree; other errors
/// are found only by the next recount.
#[test]
fn a_look_finds_what_is_wrong_where_work_is_done() {
    let s = spec(machine(64), FsKind::Xfs, "dd if=/dev/zero of=a count=1");
    let mm: SimMm<false> = sim::run::build(&s);
    let frames = filled(&mm);
    let mut recount = Recount::default();
    assert_eq!(recount.look(&mm), Ok(()));
    let [first, last] = [frames[0], frames[PAGES - 1]];
    for (pfn, bit) in [
        (last, flag::DIRTY),
        (first, flag::WRITEBACK),
        (last, flag::ACTIVE),
    ] {
        let before = mm.frames.flags(pfn);
        if before & bit == 0 {
            mm.frames.set_flags(pfn, bit);
        } else {
            mm.frames.clear_flags(pfn, bit);
        }
        let found = recount.look(&mm);
        assert!(found.is_err(), "the page stands at an end: bit {bit:#x}");
        mm.frames.clear_flags(pfn, bit);
        mm.frames.set_flags(pfn, before & bit);
        assert_eq!(recount.look(&mm), Ok(()), "and it recovers");
    }
    let middle = frames[PAGES / 2];
    mm.frames.set_flags(middle, flag::ACTIVE);
    assert!(recount.run(&mm).is_err());
}
