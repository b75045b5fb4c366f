//! Threads that hold pages to change, or pin them, in the way of truncations and writers.

use super::{machine, page, run, schedules, stays, task};
use crate::LiveMm;
use crate::ahead::Ahead;
use crate::file;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Holds page `first` of the file, and then the next one as well, and changes both.
fn split(mm: &LiveMm, who: u32, first: u32, byte: u8) {
    let (file, ahead) = (mm.world.file(0), Ahead::default());
    let held = |index| task(mm, who, file::pin_mut(mm, &file, &ahead, index));
    let (mut one, share) = held(first).expect("a page");
    let (mut two, other) = held(first + 1).expect("a page");
    one.bytes_mut().fill(byte);
    two.bytes_mut().fill(byte);
    drop((one, share));
    // Hand over hand: the next page is wanted while one is held.
    let (mut three, another) = held(first + 2).expect("a page");
    three.bytes_mut().fill(byte);
    drop((two, other, three, another));
}

/// Two threads hold several pages at a time, each in its part of the file, and one of them writes,
/// beside a thread that truncates the file behind these pages: no thread waits for ever.
#[test]
fn pages_in_hand_beside_cuts() {
    schedules(300, 20, || {
        let mm = machine(48, 1);
        task(&mm, 0, file::truncate(&mm, 0, 10 * 4096)).expect("a longer file");
        run(&mm, 3, |mm, who| {
            for round in 1..4u8 {
                if who == 2 {
                    let len = (8 + u64::from(round % 2)) * 4096;
                    task(mm, who, file::truncate(mm, 0, len)).expect("a truncation");
                    continue;
                }
                split(mm, who, who * 4, who as u8 * 4 + round);
                if who == 0 {
                    let bytes = page(0, 7, round);
                    let write = file::write(mm, 0, 7 * 4096, &bytes);
                    task(mm, who, write).expect("a write");
                }
            }
        });
        let file = mm.world.file(0);
        for (index, byte) in [(0, 3), (1, 3), (2, 3), (4, 7), (5, 7), (6, 7)] {
            let pinned = task(&mm, 0, file::pin(&mm, 0, &Ahead::default(), index));
            assert_eq!(stays(&pinned.expect("a page")), byte, "page {index}");
        }
        drop(file);
    });
}

/// Two threads pin a page by turns, and each pins it a second time while it has it, beside a
/// thread that changes it: the writer gets in, although it holds new pins off, and no thread waits
/// for ever.
#[test]
fn a_hot_page_beside_its_writer() {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    schedules(300, 21, || {
        let mm = machine(48, 1);
        task(&mm, 0, file::write(&mm, 0, 0, &[1; 4096])).expect("a write");
        run(&mm, 3, |mm, who| {
            let (file, ahead) = (mm.world.file(0), Ahead::default());
            for round in 0..6u8 {
                if who == 2 {
                    let held = task(mm, who, file::pin_mut(mm, &file, &ahead, 0));
                    let (mut held, share) = held.expect("a page");
                    held.bytes_mut().fill(2 + round);
                    WRITTEN.fetch_add(1, SeqCst);
                    drop((held, share));
                    continue;
                }
                let first = super::pin(mm, who, &ahead, 0).expect("a page");
                let seen = stays(&first);
                let again = super::pin(mm, who, &ahead, 0).expect("a page");
                assert_eq!(stays(&again), seen, "changed under a pin");
            }
        });
    });
    assert_eq!(WRITTEN.load(SeqCst), 300 * 6);
}
