//! File pages in the order of an eviction policy: pages leave in the policy's order, its hooks are
//! called as documented, and the rest of the engine works as before.

mod common;

use common::{ALL_FS, Life, bare, disk, faulty, machine, run, spec, swap};
use evict::{AnyPolicy, Dirty, Policy, Slot, registry};
use mm::ZoneType;
use mm::memory::frame::flag;
use mm::memory::task::PF_SWAPWRITE;
use mm::policy::{Eviction, ReclaimWriteback};
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::watch::vmstat::VmEvent;
use mm::world::Tasks;
use sim::SimMm;
use sim::filesystems as fs;
use sim::spec::{DiskKind, Fault, FsKind, RunSpec};
use sim::{Outcome, RunResult};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use trace::generate::{Generator, Pattern, Plan};
use workload::{Replay, Timing};

fn order(name: &str) -> Eviction {
    Eviction::parse(name).expect("a name of the registry")
}

/// One zone of `mib` MiB with nothing in it, an SSD, and no read-ahead.
fn one_zone(mib: u64, eviction: Eviction) -> RunSpec {
    let mut m = bare(ZoneType::Dma32, mib << 20);
    m.disk = disk(DiskKind::Ssd);
    let mut s = spec(m, FsKind::Ext4, "dd if=/dev/zero of=a count=1");
    s.policy.eviction = eviction;
    s.params.set("read_ahead", 0.0).expect("a parameter");
    s
}

/// Runs tasks with their flags until one of them stops the run, recounting every 5 ms.
fn drive<'a>(mm: &'a SimMm<true>, tasks: Vec<(u32, Life<'a>)>) {
    let mut checks = 0;
    common::drive(mm, tasks, 5_000_000, || {
        mm.recount().expect("every list, counter and order agrees");
        checks += 1;
    });
    assert!(checks > 10, "{checks}");
}

fn plan(pattern: Pattern, requests: u64, objects: u32) -> Plan {
    Plan {
        pattern,
        objects,
        requests,
        skew: 0.8,
        writes: 0.0,
        rate: 1000,
        seed: 5,
    }
}

/// The cached pages of a file, oldest first, in the order of LRU or FIFO.
#[derive(Default)]
struct Model {
    order: VecDeque<u32>,
    move_on_use: bool,
}

impl Model {
    fn request(&mut self, page: u32) -> bool {
        let at = self.order.iter().position(|p| *p == page);
        if at.is_some_and(|_| !self.move_on_use) {
            return true;
        }
        if let Some(at) = at {
            self.order.remove(at);
        }
        self.order.push_back(page);
        at.is_some()
    }
}

/// Runs requests and checks after each that the pages cached by the engine are the youngest of the
/// model's: it evicted the oldest pages, in that order, and no other. Returns hits and evictions.
fn evicts_like(model: &mut Model, eviction: Eviction) -> (u64, u64) {
    const PAGES: u32 = 3000;
    let mm: SimMm<true> = sim::run::build(&one_zone(8, eviction));
    fs::mount(&mm);
    let (hits, left) = (Cell::new(0), Cell::new(0));
    let reader = async {
        let file = fs::create(&mm).expect("a file");
        assert!(fs::lay_out(&mm, file, u64::from(PAGES) * 4096));
        for request in Generator::new(&plan(Pattern::Zipf, 40_000, PAGES)) {
            let cached = |page: u32| mm.find_page(file, page).is_some();
            while model.order.front().is_some_and(|page| !cached(*page)) {
                model.order.pop_front();
                left.set(left.get() + 1);
            }
            let pages = mm.mappings[file as usize].nrpages.get() as usize;
            assert_eq!(model.order.len(), pages, "after {} evictions", left.get());
            let found = cached(request.object);
            assert_eq!(model.request(request.object), found);
            hits.set(hits.get() + u64::from(found));
            let pos = u64::from(request.object) * 4096;
            fs::read(&mm, file, pos, 4096).await.expect("a page");
        }
        mm.world.sched.stop();
    };
    drive(
        &mm,
        vec![
            (KSWAPD_FLAGS, Box::pin(mm.kswapd(0))),
            (0, Box::pin(reader)),
        ],
    );
    assert!(mm.vm_event(VmEvent::PageOutRun) > 0, "kswapd was at work");
    (hits.get(), left.get())
}

#[test]
fn pages_leave_in_the_order_of_lru_and_fifo() {
    let mut lru = Model {
        move_on_use: true,
        ..Model::default()
    };
    let (lru_hits, left) = evicts_like(&mut lru, order("lru"));
    assert!(left > 4000, "{left}");
    let (fifo_hits, left) = evicts_like(&mut Model::default(), order("fifo"));
    assert!(left > 4000, "{left}");
    assert!(lru_hits > fifo_hits, "{lru_hits} {fifo_hits}");
}

/// The comparison fails for another order, as it should.
#[test]
#[should_panic(expected = "evictions")]
fn linux_lists_are_neither() {
    let mut lru = Model {
        move_on_use: true,
        ..Model::default()
    };
    evicts_like(&mut lru, Eviction::Linux);
}

/// Returns the spec with a trace as its workload, and the trace's file, which must be kept during
/// the run.
fn replay(bytes: &[u8], suffix: &str, spec: RunSpec) -> (tempfile::NamedTempFile, RunSpec) {
    let file = tempfile::NamedTempFile::with_suffix(suffix).unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let options = trace::Options {
        unit: trace::Unit::Page,
        ..trace::Options::default()
    };
    let replay = Replay::open(file.path().to_owned(), options, Timing::Fast).unwrap();
    let workload = replay.script();
    (file, RunSpec { workload, ..spec })
}

fn metric(r: &RunResult, name: &str) -> f64 {
    assert_eq!(r.outcome, Outcome::Completed, "{:?}", r.outcome);
    let found = r.metrics.get(name);
    found
        .unwrap_or_else(|| panic!("{name}: {:?}", r.metrics))
        .value
}

/// Returns the minimum and maximum of a zone's file pages once the cache was full.
fn pages_when_full(r: &RunResult) -> [u32; 2] {
    let column = |name: &str| {
        let found = r.series.columns.iter().find(|c| c.name == name);
        found.unwrap_or_else(|| panic!("no column {name}"))
    };
    assert!(r.series.columns.iter().all(|c| c.name != "active_file"));
    let values = &column("inactive_file").values;
    let most = values.iter().copied().fold(0.0, f64::max);
    let full = values.iter().skip_while(|v| **v < 0.9 * most);
    [full.copied().fold(most, f64::min) as u32, most as u32]
}

/// The simulator has no watermarks: the engine's hits lie between the simulated ones for the
/// smallest and for the largest cache that the zone's pages formed.
#[test]
fn hits_are_the_simulators_for_a_cache_of_that_size() {
    struct Misses<'a>(u32, &'a Plan);
    impl registry::Visitor for Misses<'_> {
        type Output = u64;
        fn visit<P: Policy + Clone + Send + 'static>(self) -> u64 {
            let map = replay::Table::new(6000, self.0);
            let mut cache: replay::Cache<P, _> = replay::Cache::new(self.0, map);
            for r in Generator::new(self.1) {
                cache.request(u64::from(r.object));
            }
            cache.counts().misses
        }
    }
    let plan = plan(Pattern::Zipf, 60_000, 6000);
    let mut bytes = Vec::new();
    trace::write::oracle_general(&plan, &mut bytes).unwrap();
    for name in ["lru", "fifo", "clock", "sieve", "s3-fifo"] {
        let mut s = one_zone(12, order(name));
        s.sample_ns = 5_000_000;
        let r = run(&replay(&bytes, ".oracleGeneral", s).1);
        let ratio = metric(&r, "read_hit_ratio");
        let [low, high] = pages_when_full(&r);
        assert!(
            low > 2000 && high < 3072 && high - low < 400,
            "{low} {high}"
        );
        let simulated = |size| {
            let misses = registry::visit(name, Misses(size, &plan)).unwrap();
            1.0 - misses as f64 / plan.requests as f64
        };
        let (least, most) = (simulated(low), simulated(high));
        // The engine frees pages in batches ahead of need, so ghosts and hands advance a batch
        // earlier.
        assert!(
            least - 0.002 <= ratio && ratio <= most + 0.002,
            "{name}: {least} {ratio} {most}"
        );
    }
}

/// A trace of a hot set that is read in rounds, with pages read only once in between.
fn scan_and_hot_set() -> Vec<u8> {
    const HOT: u64 = 1200;
    let mut text = String::new();
    let (mut at, mut scan) = (0, 10_000);
    let mut read = |page: u64| {
        at += 1;
        text.push_str(&format!("{at},{page},4096\n"));
    };
    for round in 0..12 {
        for page in 0..HOT {
            read(page);
            // Four rounds make the hot pages known.
            if round >= 4 {
                for _ in 0..3 {
                    scan += 1;
                    read(scan);
                }
            }
        }
    }
    text.into_bytes()
}

/// LRU and FIFO lose the hot set in the scan: between two uses of a hot page 3600 pages are read
/// that are not used again. S3-FIFO keeps those in its small queue, SIEVE's hand skips the hot
/// pages because they were used, and LFU counts uses. (The generational LRU needs more: a page used
/// once a round is of the lowest tier, like the scan's; `evict/tests/generational.rs` tests which
/// pages it keeps.)
#[test]
fn a_scan_takes_the_hot_set_from_lru_and_fifo_only() {
    let trace = scan_and_hot_set();
    let hits = |eviction| {
        let r = run(&replay(&trace, ".csv", one_zone(12, eviction)).1);
        let ratio = metric(&r, "read_hit_ratio");
        assert!(r.counters["pgsteal_dma32"] > 10_000);
        ratio
    };
    // 12 rounds of 1200 hot pages, 8 of them with three pages of scan for each. The first of those
    // begins with the hot set in the cache, of some 2900 pages. LRU: page p returns after 1200 + 3p
    // others, so 570 are still cached; FIFO: a page is evicted once 1700 + p pages have come, and
    // 3p have, so 850 are still cached.
    let (known, all) = (3.0 * 1200.0 + 900.0, 12.0 * 1200.0 + 8.0 * 3600.0);
    let best = 11.0 * 1200.0 / all;
    for name in ["lru", "fifo"] {
        let ratio = hits(order(name));
        assert!(ratio < known / all, "{name}: {ratio}");
    }
    for name in ["s3-fifo", "sieve", "lfu-ageing"] {
        let ratio = hits(order(name));
        assert!(ratio > best - 0.01, "{name}: {ratio}, possible {best}");
    }
}

/// A policy that counts its hooks, answers `dirty` as told, and asserts that each hook is called as
/// documented.
#[derive(Clone)]
struct Strict {
    fifo: evict::Fifo,
    state: Vec<State>,
    missed: Option<u64>,
    answer: Dirty,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Out,
    In,
    Chosen,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    admits: u64,
    accesses: u64,
    removes: u64,
    dirty: u64,
    cleaned: u64,
}

impl Strict {
    fn turn(&mut self, slot: Slot, from: &[State], to: State, hook: &str) {
        let state = &mut self.state[slot as usize];
        assert!(from.contains(state), "{hook} of a slot that is {state:?}");
        *state = to;
    }

    fn count(&self, what: fn(&mut Counts) -> &mut u64) {
        *what(&mut self.counts.lock().unwrap()) += 1;
    }
}

impl Policy for Strict {
    fn new(slots: u32) -> Self {
        Self {
            fifo: evict::Fifo::new(slots),
            state: vec![State::Out; slots as usize],
            missed: None,
            answer: Dirty::Write,
            counts: Arc::default(),
        }
    }
    fn miss(&mut self, object: u64) {
        assert_eq!(self.missed.replace(object), None);
    }
    fn admit(&mut self, slot: Slot, object: u64) {
        assert_eq!(
            self.missed.take(),
            Some(object),
            "its miss comes just before"
        );
        // A chosen slot has left since, or is back because the answer was to write it.
        self.turn(slot, &[State::Out, State::Chosen], State::In, "admit");
        self.fifo.admit(slot, object);
        self.count(|c| &mut c.admits);
    }
    fn access(&mut self, slot: Slot) {
        self.turn(slot, &[State::In], State::In, "access");
        self.count(|c| &mut c.accesses);
    }
    fn evict(&mut self) -> Option<Slot> {
        let slot = self.fifo.evict()?;
        self.turn(slot, &[State::In], State::Chosen, "evict");
        Some(slot)
    }
    fn remove(&mut self, slot: Slot) {
        self.turn(slot, &[State::In], State::Out, "remove");
        self.fifo.remove(slot);
        self.count(|c| &mut c.removes);
    }
    fn dirty(&mut self, slot: Slot) -> Dirty {
        self.turn(slot, &[State::Chosen], State::Chosen, "dirty");
        self.count(|c| &mut c.dirty);
        if self.answer != Dirty::Write {
            self.turn(slot, &[State::Chosen], State::In, "dirty");
            self.fifo.dirty(slot);
        }
        self.answer
    }
    fn cleaned(&mut self, slot: Slot) {
        self.turn(slot, &[State::In], State::In, "cleaned");
        self.count(|c| &mut c.cleaned);
    }
}

/// Runs writers on a small zone whose dirty limit is out of reach, so that reclaim meets dirty
/// pages; then a part of the file is truncated. Returns the counts of hooks and the pages that
/// reclaim wrote.
fn hooks(answer: Dirty, reclaim_writes: ReclaimWriteback) -> (Counts, u64) {
    let mut s = one_zone(16, Eviction::Linux);
    s.filesystem = FsKind::Ext3; // ext3 never refuses writeback
    s.policy.kswapd_writeback = reclaim_writes;
    s.policy.direct_writeback = reclaim_writes;
    s.machine.sysctl.dirty_ratio = 80;
    s.machine.sysctl.dirty_background_ratio = 60;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let mut mm: SimMm<true> = sim::run::build(&s);
    mm.order_file_pages("strict", |slots| -> Box<dyn AnyPolicy> {
        Box::new(Strict {
            answer,
            counts: counts.clone(),
            ..Strict::new(slots)
        })
    });
    fs::mount(&mm);
    let bdi = mm.world.fs[0].bdi.get();
    let writer = async {
        let file = fs::create(&mm).expect("a file");
        for round in 0..2 {
            for page in 0..6000_u64 {
                fs::write(&mm, file, page * 4096, 4096).await.expect("room");
                if page % 3 == 0 {
                    fs::read(&mm, file, page / 2 * 4096, 4096)
                        .await
                        .expect("a page");
                }
                mm.world.relax().await;
            }
            if round == 0 {
                fs::truncate(&mm, file, 3000 * 4096).await;
            }
        }
        mm.world.sched.stop();
    };
    let mut tasks: Vec<(u32, Life<'_>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(0))),
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(writer)),
    ];
    tasks.extend(fs::daemons(&mm).into_iter().map(|daemon| (0, daemon.life)));
    drive(&mm, tasks);
    let written = mm.vmstat();
    let written = written.iter().find(|(name, _)| name == "nr_vmscan_write");
    let counts = *counts.lock().unwrap();
    (counts, written.expect("counted").1)
}

/// Each hook is called only for slots in the right state (the policy asserts it), and the answer of
/// the dirty hook decides: with `Skip` no page is written and `cleaned` is never called.
#[test]
fn the_dirty_hook_decides_what_reclaim_writes() {
    use ReclaimWriteback::{Always, Never};
    let (behind, written) = hooks(Dirty::WriteBehind, Always);
    assert!(behind.dirty > 100 && written > 100, "{behind:?} {written}");
    assert!(behind.cleaned > 100, "{behind:?}");
    let (skip, written) = hooks(Dirty::Skip, Always);
    assert!(skip.dirty > 100, "{skip:?}");
    assert_eq!((skip.cleaned, written), (0, 0));
    let (write, written) = hooks(Dirty::Write, Always);
    assert!(write.dirty > 100 && written > 100, "{write:?} {written}");
    // The engine's own switches override the policy.
    let (never, written) = hooks(Dirty::WriteBehind, Never);
    assert_eq!(written, 0);
    assert!(never.dirty > 100 && never.cleaned > 100, "{never:?}");
    for c in [behind, skip, write, never] {
        assert!(
            c.removes > 100 && c.accesses > 100 && c.admits > 9000,
            "{c:?}"
        );
    }
}

/// A policy that returns a slot it does not hold is reported at once.
#[test]
#[should_panic(expected = "eviction policy liar gives slot 7 of DMA32, which it does not hold")]
fn a_policy_that_lies_is_caught() {
    #[derive(Clone)]
    struct Liar;
    impl Policy for Liar {
        fn new(_: u32) -> Self {
            Self
        }
        fn admit(&mut self, _: Slot, _: u64) {}
        fn access(&mut self, _: Slot) {}
        fn evict(&mut self) -> Option<Slot> {
            Some(7)
        }
        fn remove(&mut self, _: Slot) {}
    }
    let mut mm: SimMm<true> = sim::run::build(&one_zone(8, Eviction::Linux));
    mm.order_file_pages("liar", |_| Box::new(Liar));
    fs::mount(&mm);
    let task = async {
        let file = fs::create(&mm).expect("a file");
        for index in 0..4000 {
            let pfn = mm
                .alloc_page(mm::memory::gfp::Gfp::USER)
                .await
                .expect("memory");
            mm.frames.set_flags(pfn, flag::UPTODATE);
            assert!(mm.add_to_page_cache_lru(pfn, file, index));
        }
    };
    let mut tasks: Vec<Life<'_>> = vec![Box::pin(async {}), Box::pin(task)];
    for _ in 0..2 {
        mm.init_task(mm.world.sched.spawn(), 0, 0);
    }
    mm.world.sched.run(&mut tasks, |_, _| {});
}

/// The recount also checks the policies.
#[test]
fn the_recount_finds_a_page_that_the_policy_lost() {
    for name in ["lru", "two-list", "lfu-ageing"] {
        let mm: SimMm<true> = sim::run::build(&one_zone(8, order(name)));
        fs::mount(&mm);
        let page = Cell::new(0);
        let task = async {
            let file = fs::create(&mm).expect("a file");
            for index in 0..100 {
                let pfn = mm
                    .alloc_page(mm::memory::gfp::Gfp::USER)
                    .await
                    .expect("memory");
                assert!(mm.add_to_page_cache_lru(pfn, file, index));
                page.set(pfn);
            }
            mm.lru_add_drain();
            mm.world.sched.stop();
        };
        let mut tasks: Vec<Life<'_>> = vec![Box::pin(async {}), Box::pin(task)];
        for _ in 0..2 {
            mm.init_task(mm.world.sched.spawn(), 0, 0);
        }
        mm.world.sched.run(&mut tasks, |_, _| {});
        drop(tasks);
        assert_eq!(mm.recount(), Ok(()));
        mm.frames.set_flags(page.get() + 1, flag::RETURNED);
        let e = mm.recount().expect_err("a mark without a page");
        assert!(e.contains(name) && e.contains("lacks"), "{e}");
    }
}

/// Returns a strace text of four processes that read, write and sync files, and with `cut` also
/// truncate and remove them.
fn processes(seed: u32, cut: bool) -> String {
    let mut text = String::new();
    let mut ns = 0;
    let mut call = |pid: u32, what: &str| {
        ns += 1;
        text.push_str(&format!("{pid} 1795247166.{ns:06} {what} <0.000001>\n"));
    };
    for pid in 1..=4 {
        let own = format!("openat(AT_FDCWD, \"own{pid}\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4");
        call(pid, &own);
        call(pid, "openat(AT_FDCWD, \"all\", O_RDWR) = 3");
    }
    let mut random = seed;
    let mut below = |n: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % n
    };
    for _ in 0..120 {
        for pid in 1..=4 {
            let at = below(64) * 65_536;
            call(pid, &format!("pread64(3, \"\"..., 65536, {at}) = 65536"));
            let at = below(64) * 65_536 + 100;
            call(pid, &format!("pwrite64(3, \"\"..., 65536, {at}) = 65536"));
            call(pid, "write(4, \"\"..., 262144) = 262144");
            match below(20) {
                5 => call(pid, "fsync(3) = 0"),
                _ if !cut => {}
                0 => call(pid, "ftruncate(3, 1000000) = 0"),
                9 => {
                    call(pid, "unlink(\"all\") = 0");
                    call(pid, "close(3) = 0");
                    call(pid, "openat(AT_FDCWD, \"all\", O_RDWR|O_CREAT, 0644) = 3");
                }
                14 if pid == 1 => call(pid, "ftruncate(4, 0) = 0"),
                _ => {}
            }
        }
    }
    text
}

/// Every policy on every filesystem, with dirty limits, reclaim that writes, swap and a disk that
/// fails now and then: the recount, which empties a copy of each policy, finds no error, and a
/// repeated run gives the same bytes.
#[test]
fn every_policy_keeps_the_books_under_writes_limits_and_faults() {
    let faults = [
        None,
        Some(Fault::WriteError {
            at_s: 0.05,
            for_s: 0.2,
        }),
        Some(Fault::Stall {
            at_s: 0.1,
            for_s: 0.3,
        }),
    ];
    for (i, name) in Eviction::NAMES.iter().enumerate() {
        for (j, filesystem) in ALL_FS.into_iter().enumerate() {
            let n = i * ALL_FS.len() + j;
            let mut m = machine(32);
            m.disk = disk(DiskKind::Ssd);
            if n.is_multiple_of(2) {
                m.swap = Some(swap(64 << 20));
            }
            if let Some(fault) = faults[n % 3] {
                m = faulty(m, fault);
            }
            if n % 4 == 1 {
                // The limits are out of reach, so reclaim meets dirty pages.
                m.sysctl.dirty_ratio = 70;
                m.sysctl.dirty_background_ratio = 60;
            }
            let mut s = spec(m, filesystem, "dd if=/dev/zero of=a count=1");
            s.policy.eviction = order(name);
            s.policy.immediate_reclaim = n.is_multiple_of(5);
            // For a moment a file being truncated has dirty pages and is on no flusher's list.
            let cut = !n.is_multiple_of(3);
            s.check_ns = if cut { 50_000_000 } else { 2_000_000 };
            let (_trace, s) = replay(processes(n as u32, cut).as_bytes(), ".strace", s);
            let (r, again) = (run(&s), run(&s));
            let what = format!("{name} on {filesystem:?}, run {n}");
            assert_eq!(r.outcome, Outcome::Completed, "{what}");
            let lists = r.counters.contains_key("nr_active_file");
            assert_eq!(lists, *name == "linux", "{what}");
            let steal = r.counters["pgsteal_dma32"] + r.counters["pgsteal_dma"];
            assert!(steal > 500, "{what}: {steal}");
            assert_eq!(
                (r.digest, &r.metrics),
                (again.digest, &again.metrics),
                "{what}"
            );
        }
    }
}
