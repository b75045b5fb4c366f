//! Tests that a pool written by hand and one over the cache do the same, and that the second is
//! short (docs/live-replace.md).

#[path = "../examples/replace/by_cache.rs"]
mod by_cache;
#[path = "../examples/replace/by_hand.rs"]
mod by_hand;
#[path = "../examples/replace/pool.rs"]
mod pool;
#[path = "../examples/replace/slow.rs"]
mod slow;

use by_cache::ByCache;
use by_hand::ByHand;
use lowmark_cache::storage::{Os, Storage};
use pool::{PAGE, Pool};
use slow::Slow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace::random::Rng;

const PAGES: u32 = 3000;
const MEMORY: u64 = 4 << 20;

/// A function that creates a pool.
type Make = fn(Arc<dyn Storage>, &Path) -> Box<dyn Pool>;

fn both() -> [Make; 2] {
    let by_hand: Make = |s, path| Box::new(ByHand::new(&*s, path, PAGES, MEMORY).expect("a pool"));
    let by_cache: Make = |s, path| Box::new(ByCache::new(s, path, PAGES, MEMORY).expect("a pool"));
    [by_hand, by_cache]
}

fn byte(pool: &dyn Pool, page: u32, at: usize) -> u8 {
    let mut found = 0;
    pool.read(page, &mut |b| found = b[at]).expect("a page");
    found
}

#[test]
fn both_do_what_an_array_does() {
    for make in both() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("pool");
        let (mut paper, mut rng) = (vec![0_u8; PAGES as usize * 2], Rng::new(1));
        for _ in 0..2 {
            let pool = make(Arc::new(Os::default()), &path);
            for _ in 0..20_000 {
                let page = rng.below(u64::from(PAGES)) as u32;
                let (half, new) = (rng.below(2) as usize, rng.below(256) as u8);
                let (on_paper, at) = (page as usize * 2 + half, half * (PAGE - 1));
                if rng.below(2) == 0 {
                    pool.change(page, &mut |b| b[at] = new).expect("a page");
                    paper[on_paper] = new;
                }
                assert_eq!(byte(&*pool, page, at), paper[on_paper]);
            }
            pool.sync().expect("a sync");
            let found = std::fs::read(&path).expect("a file");
            assert_eq!(found.len(), PAGES as usize * PAGE);
            for (i, page) in found.chunks(PAGE).enumerate() {
                assert_eq!([page[0], page[PAGE - 1]], paper[2 * i..2 * i + 2]);
            }
            assert!(pool.read(PAGES, &mut |_| ()).is_err(), "behind the end");
        }
    }
}

#[test]
fn both_bear_threads_on_a_slow_device() {
    for make in both() {
        let dir = tempfile::tempdir().expect("a folder");
        let slow = Slow::new(Duration::from_millis(1));
        let pool = make(Arc::new(slow), &dir.path().join("pool"));
        std::thread::scope(|s| {
            for t in 0..4_usize {
                let pool = &*pool;
                s.spawn(move || {
                    for page in (0..PAGES).step_by(2) {
                        pool.change(page, &mut |b| b[t] = page as u8)
                            .expect("a page");
                        assert_eq!(byte(pool, page, t), page as u8);
                    }
                });
            }
        });
        pool.sync().expect("a sync");
        for page in 0..PAGES {
            let wanted = if page % 2 == 0 { page as u8 } else { 0 };
            assert!((0..4).all(|t| byte(&*pool, page, t) == wanted));
        }
    }
}

#[test]
fn the_second_has_at_most_fifty_lines() {
    let lines = |text: &str| text.lines().count();
    let by_cache = lines(include_str!("../examples/replace/by_cache.rs"));
    let by_hand = lines(include_str!("../examples/replace/by_hand.rs"));
    assert!(by_cache <= 50, "{by_cache}");
    assert!(by_hand > 2 * by_cache, "{by_hand}");
}
