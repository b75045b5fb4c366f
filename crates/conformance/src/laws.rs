//! The laws. The byte at each position of a file is a function of file, position and version, so a
//! law only has to keep versions.

use crate::{Law, Machine};
use mm::World;
use mm::cache::tree::Tag;
use mm::policy::DirtyRatios;
use mm::view::View;
use mm::watch::vmstat::{VmEvent, ZoneEvent, ZoneStat};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const PAGE: u64 = 4096;

/// Returns the byte that a law writes, and expects, at the position `pos` of a file: a hash of
/// file, version of the contents and position, never 0.
fn byte(file: u64, version: u64, pos: u64) -> u8 {
    let word = (file << 56 ^ version << 48 ^ pos >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32).to_le_bytes()[pos as usize & 3] | 1
}

/// Returns the bytes that a law writes, and expects, at `pos` to `pos + len` of a file.
fn pattern(file: u64, version: u64, pos: u64, len: usize) -> Vec<u8> {
    (pos..pos + len as u64)
        .map(|p| byte(file, version, p))
        .collect()
}

/// Returns the bytes to write to, and to expect of, a range of a file; in a world without contents
/// any bytes do.
fn content<M: Machine>(file: u64, version: u64, pos: u64, len: usize) -> Vec<u8> {
    if M::CONTENTS {
        pattern(file, version, pos, len)
    } else {
        vec![0; len]
    }
}

/// Reads a range of a file and panics unless it has the bytes expected. `what` begins the message;
/// in a world without contents only the length counts.
async fn expect<M: Machine>(m: &M, file: u32, pos: u64, expected: &[u8], what: &str) {
    let mut found = vec![0; expected.len()];
    let n = m.read(file, pos, &mut found).await;
    assert_eq!(n, expected.len(), "{what}: a read at {pos}");
    if M::CONTENTS
        && let Some(i) = (0..n).find(|&i| found[i] != expected[i])
    {
        panic!(
            "{what}: byte {} of file {file} is {}, not {}",
            pos + i as u64,
            found[i],
            expected[i]
        );
    }
}

/// Reads a range of a file from its device, past the cache, and panics unless it has the bytes
/// expected; `what` begins the message. Does nothing in a world without contents.
fn expect_on_device<M: Machine>(m: &M, file: u32, pos: u64, expected: &[u8], what: &str) {
    if M::CONTENTS {
        let mut found = vec![0; expected.len()];
        let n = m.on_device(file, pos, &mut found);
        assert!(
            n == expected.len() && found == expected,
            "{what}: file {file} differs on its device in the {} bytes at {pos}",
            expected.len()
        );
    }
}

/// A rendezvous of tasks without a clock: `is_me` returns true for the last task of a round.
#[derive(Default)]
struct Last(AtomicUsize);

impl Last {
    /// Counts one more of `tasks` tasks that have come here; returns true for the last one.
    fn is_me(&self, tasks: usize) -> bool {
        self.0.fetch_add(1, SeqCst) + 1 == tasks
    }
}

/// Four tasks write half as much again as memory holds, each to its own file: every allocation
/// succeeds, by eviction.
#[derive(Default)]
pub struct Allocate {}

impl Law for Allocate {
    const NAME: &'static str = "allocate";

    /// Writes a file of its own, 3/8 of memory, and reads its end back. `who` is the task's number,
    /// 0 to 3.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open(&format!("allocate-{who}")).await;
        let pages = u64::from(Self::MEMORY) * 3 / 2 / Self::TASKS as u64;
        for i in 0..pages / 8 {
            let bytes = content::<M>(who as u64, 0, i * 8 * PAGE, 8 * PAGE as usize);
            m.write(file, i * 8 * PAGE, &bytes).await;
        }
        let last = (pages / 8 - 1) * 8 * PAGE;
        expect(
            m,
            file,
            last,
            &content::<M>(who as u64, 0, last, 100),
            Self::NAME,
        )
        .await;
    }

    /// Checks that pages were evicted, and that no write failed.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        assert!(
            engine.zone_event(0, ZoneEvent::PgSteal) > 0,
            "nothing was evicted"
        );
        assert_eq!(engine.event(VmEvent::WriteError), 0);
    }
}

/// Four tasks read the same file, half as large again as memory, each from a different position:
/// all read the right bytes, and reading dirties no page.
#[derive(Default)]
pub struct Read {
    begun: AtomicUsize,
    prepared: AtomicUsize,
}

impl Law for Read {
    const NAME: &'static str = "read";

    /// Writes and syncs a quarter of the common file, then reads: the tasks that find all quarters
    /// written read the whole file, the others their own quarter.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open("read").await;
        let pages = u64::from(Self::MEMORY) * 3 / 2;
        // Each task writes a quarter; the task that finds all of them written reads.
        let share = pages / Self::TASKS as u64;
        let mine = who as u64 * share;
        for i in mine..mine + share {
            m.write(file, i * PAGE, &content::<M>(7, 0, i * PAGE, PAGE as usize))
                .await;
        }
        assert!(m.fsync(file).await);
        self.prepared.fetch_add(1, SeqCst);
        let others_done = self.prepared.load(SeqCst) == Self::TASKS;
        self.begun.fetch_add(usize::from(others_done), SeqCst);
        let (from, count) = if others_done {
            (0, pages)
        } else {
            (mine, share)
        };
        for i in from..from + count {
            // Unaligned, across a page boundary; the last one is cut off by the file's end.
            let pos = i * PAGE + 4000;
            let len = if i + 1 == from + count { 96 } else { 1000 };
            expect(m, file, pos, &content::<M>(7, 0, pos, len), Self::NAME).await;
        }
        if others_done {
            let mut none = [0; 10];
            assert_eq!(m.read(file, pages * PAGE, &mut none).await, 0);
        }
    }

    /// Checks that some task read all of the file, that pages were evicted, and that none is dirty
    /// or under writeback.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        assert!(self.begun.load(SeqCst) >= 1);
        assert!(
            engine.zone_event(0, ZoneEvent::PgSteal) > 0,
            "nothing was evicted"
        );
        assert_eq!(engine.stat(ZoneStat::NrFileDirty), 0);
        assert_eq!(engine.stat(ZoneStat::NrWriteback), 0);
    }
}

/// Four tasks repeatedly change adjacent records of 1000 bytes in the same pages: no change is
/// lost, and no page is dirty after a sync.
#[derive(Default)]
pub struct Dirty {
    ended: Last,
}

impl Dirty {
    const RECORD: u64 = 1000;
    const RECORDS: u64 = 1000;
    const VERSIONS: u64 = 3;
}

impl Law for Dirty {
    const NAME: &'static str = "dirty";
    const MEMORY: u32 = 1024;

    /// Changes and reads every fourth record of a common file, three times. The last task to end
    /// syncs the file and compares it with its device.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open("dirty").await;
        for version in 0..Self::VERSIONS {
            for r in (who as u64..Self::RECORDS).step_by(Self::TASKS) {
                let pos = r * Self::RECORD;
                m.write(file, pos, &content::<M>(r, version, pos, 1000))
                    .await;
            }
            for r in (who as u64..Self::RECORDS).step_by(Self::TASKS) {
                let pos = r * Self::RECORD;
                expect(
                    m,
                    file,
                    pos,
                    &content::<M>(r, version, pos, 1000),
                    Self::NAME,
                )
                .await;
            }
        }
        if self.ended.is_me(Self::TASKS) {
            assert!(m.fsync(file).await);
            assert!(!m.engine().tagged(file, Tag::Dirty), "dirty after a sync");
            assert!(
                !m.engine().tagged(file, Tag::Writeback),
                "unfinished after a sync"
            );
            for r in 0..Self::RECORDS {
                let pos = r * Self::RECORD;
                let bytes = content::<M>(r, Self::VERSIONS - 1, pos, 1000);
                expect_on_device(m, file, pos, &bytes, Self::NAME);
            }
        }
    }

    /// Checks that no page is dirty at the end.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        assert_eq!(engine.stat(ZoneStat::NrFileDirty), 0);
    }
}

/// Four tasks together write more than memory holds and read everything back: evicted pages were
/// written before.
#[derive(Default)]
pub struct Reclaim {}

impl Law for Reclaim {
    const NAME: &'static str = "reclaim";
    const MEMORY: u32 = 1024;

    /// Writes a file of its own, half of memory, page by page, and reads it back.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open(&format!("reclaim-{who}")).await;
        let pages = u64::from(Self::MEMORY) * 2 / Self::TASKS as u64;
        for i in 0..pages {
            m.write(
                file,
                i * PAGE,
                &content::<M>(who as u64, 1, i * PAGE, PAGE as usize),
            )
            .await;
        }
        for i in 0..pages {
            let bytes = content::<M>(who as u64, 1, i * PAGE, PAGE as usize);
            expect(m, file, i * PAGE, &bytes, Self::NAME).await;
        }
    }

    /// Checks that at least half of the zone's pages were evicted, and that no write failed.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        let size = engine.zone_pages(0);
        assert!(engine.zone_event(0, ZoneEvent::PgSteal) >= size / 2);
        assert_eq!(engine.event(VmEvent::WriteError), 0);
    }
}

/// While other tasks write, a sync of a file waits for all data written to it before.
#[derive(Default)]
pub struct Flush {}

impl Law for Flush {
    const NAME: &'static str = "flush";
    const MEMORY: u32 = 1024;

    /// Writes to a file of its own and to a common one, syncs each, and checks that the data is
    /// then on the device, eight times.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let own = m.open(&format!("flush-{who}")).await;
        let common = m.open("flush").await;
        for round in 0..8u64 {
            let pos = round * 24 * PAGE;
            let bytes = content::<M>(who as u64, 2, pos, 24 * PAGE as usize);
            m.write(own, pos, &bytes).await;
            let at = (round * Self::TASKS as u64 + who as u64) * 3000;
            m.write(common, at, &content::<M>(99, 0, at, 3000)).await;
            assert!(m.fsync(own).await);
            assert!(!m.engine().tagged(own, Tag::Dirty), "dirty after a sync");
            assert!(
                !m.engine().tagged(own, Tag::Writeback),
                "unfinished after a sync"
            );
            expect_on_device(m, own, pos, &bytes, Self::NAME);
            assert!(m.fsync(common).await);
            expect_on_device(m, common, at, &content::<M>(99, 0, at, 3000), Self::NAME);
        }
    }

    /// Checks that no page is dirty or under writeback.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        assert_eq!(engine.stat(ZoneStat::NrFileDirty), 0);
        assert_eq!(engine.stat(ZoneStat::NrWriteback), 0);
    }
}

/// However fast four tasks dirty pages, the number of dirty pages stays near the limit.
///
/// The bound: between two checks of the limit a CPU dirties `ratelimit` pages, and then half as
/// many again are written before its task goes on. A task that has to wait after its check leaves
/// the CPU to another task, which dirties as many pages before its own check; so the count is per
/// task, or per CPU if there are more CPUs. Counters may be off by 125 per CPU.
#[derive(Default)]
pub struct Throttle {}

impl Law for Throttle {
    const NAME: &'static str = "throttle";
    const MEMORY: u32 = 4096;

    /// Writes a file of its own, half of memory, and checks after each page that no more pages are
    /// dirty than the limit and the steps between its checks allow.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open(&format!("throttle-{who}")).await;
        let engine = m.engine();
        let cpus = engine.config().cpus as u64;
        let size = engine.zone_pages(0);
        let sysctl = &engine.config().sysctl;
        // At most, all of memory is dirtyable.
        let limit = mm::writeback::dirty::limits(DirtyRatios::Percent, sysctl, size, false).dirty;
        let step = mm::writeback::dirty::ratelimit_pages(size, cpus);
        let each = cpus.max(Self::TASKS as u64);
        let bound = limit + each * (step + step / 2) + cpus * 125;
        assert!(bound < size * 3 / 4, "the law says something");
        for i in 0..size / 2 {
            let bytes = content::<M>(who as u64, 3, i * PAGE, PAGE as usize);
            m.write(file, i * PAGE, &bytes).await;
            let dirty = engine.stat(ZoneStat::NrFileDirty);
            assert!(dirty <= bound, "{dirty} dirty pages, bound {bound}");
        }
    }
}

/// A file that is truncated and grows again reads as zeroes after the cut, under memory pressure.
#[derive(Default)]
pub struct Truncate {}

impl Law for Truncate {
    const NAME: &'static str = "truncate";
    const MEMORY: u32 = 1024;

    /// Writes a file of its own, cuts it off and lets it grow again, three times: bytes before the
    /// cut stay, those after it are zeroes. At last the file is empty and has no pages.
    async fn task<M: Machine>(&self, m: &M, who: usize) {
        let file = m.open(&format!("truncate-{who}")).await;
        let pages = u64::from(Self::MEMORY) / 3;
        for round in 0..3u64 {
            for i in 0..pages / 4 {
                let pos = i * 4 * PAGE;
                m.write(
                    file,
                    pos,
                    &content::<M>(who as u64, round, pos, 4 * PAGE as usize),
                )
                .await;
            }
            let end = pages / 4 * 4 * PAGE;
            let cut = end / 3 + 1000 * round;
            m.truncate(file, cut).await;
            let mut none = [0; 8];
            assert_eq!(
                m.read(file, cut, &mut none).await,
                0,
                "a read behind the end"
            );
            m.truncate(file, end).await;
            let before = content::<M>(who as u64, round, cut - 2000, 2000);
            expect(m, file, cut - 2000, &before, Self::NAME).await;
            expect(m, file, cut, &vec![0; 3 * PAGE as usize], Self::NAME).await;
        }
        m.truncate(file, 0).await;
        assert!(m.engine().has_no_pages(file));
    }

    /// Checks that no page of a file is left, dirty or clean.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        assert_eq!(engine.stat(ZoneStat::NrFilePages), 0);
        assert_eq!(engine.stat(ZoneStat::NrFileDirty), 0);
    }
}
