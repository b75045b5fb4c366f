//! vfat and exfat: the device blocks that each operation dirties, the order in which they are
//! written, and the effect of mount options and cluster sizes. Places are computed here
//! independently, from the tools' formulas for a disk of 4 GiB.

mod common;

use common::{Life, bare, drive, machine, run, spec};
use mm::cache::mapping::MappingKind;
use mm::cache::tree::Tag;
use mm::memory::task::PF_SWAPWRITE;
use mm::reclaim::kswapd::KSWAPD_FLAGS;
use mm::{Policy, ZoneType};
use proptest::prelude::*;
use sim::SimMm;
use sim::filesystems::{self as fs, DirId, FsError};
use sim::spec::{DiskKind, FsKind, RunSpec, Size};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

const MS: u64 = 1_000_000;
/// Number of blocks of the disk.
const CAPACITY: u64 = 1 << 20;

fn spec_of(kind: FsKind, params: &[(&str, f64)]) -> RunSpec {
    let mut m = bare(ZoneType::Dma32, 256 << 20);
    m.disk.kind = DiskKind::UsbFlash;
    m.disk.capacity = Size(CAPACITY * 4096);
    let mut s = spec(m, kind, "dd if=/dev/zero of=a count=1");
    s.policy = Policy::preset("linux-6.12").expect("a preset");
    for (name, value) in params {
        s.params.set(name, *value).expect("a parameter");
    }
    s
}

fn build(kind: FsKind, params: &[(&str, f64)]) -> SimMm<true> {
    let mm = sim::run::build(&spec_of(kind, params));
    fs::mount(&mm);
    mm
}

/// Runs one task beside the daemons, and calls `look` every ten microseconds.
fn live<'a>(mm: &'a SimMm<true>, user: impl Future<Output = ()> + 'a, look: impl FnMut()) {
    let life = async move {
        user.await;
        mm.world.sched.stop();
    };
    let bdi = mm.world.fs[0].bdi.get();
    let tasks: Vec<(u32, Life<'a>)> = vec![
        (KSWAPD_FLAGS, Box::pin(mm.kswapd(0))),
        (PF_SWAPWRITE, Box::pin(mm.flusher(bdi))),
        (0, Box::pin(life)),
    ];
    drive(mm, tasks, 10_000, look);
}

/// Returns the block device's own mapping.
fn device(mm: &SimMm<true>) -> u32 {
    let mut all = 0..mm.mapping_count();
    let found = all.find(|&m| mm.mappings[m as usize].kind() == MappingKind::BlockDevice);
    found.expect("a block device")
}

/// Pages of a file with a tag, by their index.
fn tagged(mm: &SimMm<true>, file: u32, tag: Tag) -> BTreeSet<u64> {
    let mut from = 0;
    let next = || {
        let at = mm.next_tagged(file, tag, from)?;
        from = at + 1;
        Some(u64::from(at))
    };
    std::iter::from_fn(next).collect()
}

/// Returns the device's blocks that are dirty or under writeback.
fn dirty(mm: &SimMm<true>) -> BTreeSet<u64> {
    let device = device(mm);
    &tagged(mm, device, Tag::Dirty) | &tagged(mm, device, Tag::Writeback)
}

/// Makes a file in a directory, which is held while the name is made.
async fn new_file_in(mm: &SimMm<true>, dir: DirId) -> u32 {
    let above = fs::inode_of_dir(mm, dir);
    mm.iget(above).await.expect("memory");
    let made = fs::create_in(mm, dir).await;
    mm.iput(above);
    made.expect("room").expect("a file")
}

async fn new_file(mm: &SimMm<true>) -> u32 {
    new_file_in(mm, DirId::root(0)).await
}

/// Returns the blocks of a file.
fn blocks(mm: &SimMm<true>, file: u32) -> Vec<u64> {
    let pages = mm.mappings[file as usize].size.get().div_ceil(4096) as u32;
    let runs = fs::map_direct(mm, file, 0, pages).expect("blocks");
    let each = |(first, n): (u64, u32)| first..first + u64::from(n);
    runs.into_iter().flat_map(each).collect()
}

/// The layout of a vfat of 4 GiB (mkfs.vfat): blocks of a cluster, first block of the tables,
/// blocks of each table, number of tables.
struct Vfat {
    cluster: u64,
    table: u64,
    length: u64,
    tables: u64,
}

impl Vfat {
    fn new(cluster_bytes: u64, tables: u64) -> Self {
        let cluster = cluster_bytes / 4096;
        let table = 4u64.next_multiple_of(cluster);
        // Of 8,388,608 sectors, those in whole tracks of 63.
        let bytes = (8_388_576 - 8 * table) * 512 + 8 * tables;
        let clusters = bytes / (cluster_bytes + 4 * tables);
        let length = (4 * (clusters + 2)).div_ceil(4096);
        Self {
            cluster,
            table,
            length: length.next_multiple_of(cluster),
            tables,
        }
    }

    fn heap(&self) -> u64 {
        self.table + self.tables * self.length
    }

    fn all(&self) -> Range<u64> {
        self.table..self.heap()
    }

    /// Returns the blocks of all tables that hold the entries of the given blocks.
    fn entries(&self, blocks: &[u64]) -> BTreeSet<u64> {
        let entry = |b: &u64| 2 + (b - self.heap()) / self.cluster;
        let first = blocks.iter().map(|b| self.table + entry(b) * 4 / 4096);
        first
            .flat_map(|at| (0..self.tables).map(move |t| at + t * self.length))
            .collect()
    }
}

/// The layout of an exfat of 4 GiB (mkfs.exfat): the table at 1 MiB, clusters of 32 KiB behind it.
const EXFAT_TABLE: Range<u64> = 256..256 + 128 + 1;
const EXFAT_BITMAP: u64 = 512;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A file of N clusters changes only the blocks that hold its N entries, in each table, and the
    /// block with its name. fsync writes each of them once, and each page once.
    #[test]
    fn a_file_changes_its_entries_in_every_table(
        pages in 1..4000u32,
        at_once in 1..300u32,
        tables in 1..5u32,
        cluster in 0..4u32,
    ) {
        let bytes = 4096u64 << cluster;
        let places = Vfat::new(bytes, u64::from(tables));
        let params = [("vfat_fats", f64::from(tables)), ("vfat_cluster", bytes as f64)];
        let mm = build(FsKind::Vfat, &params);
        let user = async {
            let file = new_file(&mm).await;
            prop_assert_eq!(dirty(&mm), BTreeSet::from([places.heap()]), "the root's first cluster");
            for first in (0..pages).step_by(at_once as usize) {
                let n = u64::from(at_once.min(pages - first));
                let written = fs::write(&mm, file, u64::from(first) * 4096, n * 4096).await;
                prop_assert_eq!(written, Ok(()));
            }
            let of_file = places.entries(&blocks(&mm, file));
            let named = BTreeSet::from([places.heap()]);
            prop_assert_eq!(dirty(&mm), &of_file | &named);
            let out = || mm.vm_event(mm::watch::vmstat::VmEvent::PgpgOut) / 4;
            let before = out();
            prop_assert!(fs::fsync(&mm, file).await);
            let written = u64::from(pages) + of_file.len() as u64 + 1;
            prop_assert_eq!(out() - before, written);
            prop_assert!(dirty(&mm).is_disjoint(&places.all().collect()));
            Ok(())
        };
        let result = RefCell::new(Ok(()));
        live(&mm, async { *result.borrow_mut() = user.await }, || ());
        result.into_inner()?;
    }
}

/// Longer clusters (`vfat_cluster`) need fewer table entries.
#[test]
fn longer_clusters_have_fewer_entries() {
    let changed = |bytes: f64| {
        let mm = build(FsKind::Vfat, &[("vfat_cluster", bytes)]);
        let found = Cell::new(0);
        let user = async {
            let file = new_file(&mm).await;
            fs::write(&mm, file, 0, 16 << 20).await.expect("room");
            found.set(dirty(&mm).len());
        };
        live(&mm, user, || ());
        found.get()
    };
    // 4096 entries of 4 bytes take 4 blocks, and one more if they begin within one; both tables,
    // and the name.
    let [small, usual, large] = [512.0, 4096.0, 32_768.0].map(changed);
    assert!((9..=11).contains(&usual), "{usual}");
    assert!((3..=5).contains(&large), "{large}");
    assert!((65..=67).contains(&small), "{small}");
}

/// exfat: a contiguous file changes only the bitmap; once a file is not contiguous, all of its
/// clusters are entered into the table. `exfat_cluster` determines how often files can become
/// scattered.
#[test]
fn exfat_needs_its_table_for_scattered_files_alone() {
    let tables = |files: usize, params: &[(&str, f64)]| {
        let mm = build(FsKind::Exfat, params);
        let found = RefCell::new((BTreeSet::new(), Vec::new()));
        let user = async {
            let mut all = Vec::new();
            for _ in 0..files {
                all.push(new_file(&mm).await);
            }
            for at in 0..64 {
                for &file in &all {
                    fs::write(&mm, file, at * 65_536, 65_536)
                        .await
                        .expect("room");
                }
            }
            let of_files = all.iter().map(|&file| blocks(&mm, file)).collect();
            *found.borrow_mut() = (dirty(&mm), of_files);
        };
        live(&mm, user, || ());
        found.into_inner()
    };
    let (alone, placed) = tables(1, &[]);
    assert!(alone.contains(&EXFAT_BITMAP));
    assert!(alone.is_disjoint(&EXFAT_TABLE.collect()), "{alone:?}");
    assert!(placed[0].windows(2).all(|w| w[1] == w[0] + 1));
    let (two, placed) = tables(2, &[]);
    assert!(two.contains(&EXFAT_BITMAP));
    let in_table = two.intersection(&EXFAT_TABLE.collect()).count();
    // 256 clusters of 32 KiB have entries in one or two blocks.
    assert!((1..=2).contains(&in_table), "{two:?}");
    assert!(
        placed
            .iter()
            .all(|b| !b.windows(2).all(|w| w[1] == w[0] + 1))
    );
    // Each file of 4 MiB has four clusters of 1 MiB.
    let (large, placed) = tables(2, &[("exfat_cluster", 1_048_576.0)]);
    let jumps = |b: &Vec<u64>| b.windows(2).filter(|w| w[1] != w[0] + 1).count();
    assert_eq!(placed.iter().map(jumps).collect::<Vec<_>>(), [3, 3]);
    assert!(!large.is_empty());
}

/// fsync writes the file's pages, then its directory entry, then the tables, waiting for each.
/// Without fsync there is no order: writeback by the flusher alone leaves moments when a power cut
/// loses one part and keeps another.
#[test]
fn fsync_writes_data_then_the_name_then_the_tables() {
    for kind in [FsKind::Vfat, FsKind::Exfat] {
        let mm = build(kind, &[]);
        let (file, synced) = (Cell::new(u32::MAX), Cell::new(false));
        let user = async {
            let new = new_file(&mm).await;
            fs::write(&mm, new, 0, 8 << 20).await.expect("room");
            file.set(new);
            assert!(fs::fsync(&mm, new).await);
            synced.set(true);
            let left = dirty(&mm);
            // Only FSINFO may be left, with the part of the table that shares its block.
            assert!(
                left.is_empty() || left == BTreeSet::from([0]),
                "{kind:?}: {left:?}"
            );
        };
        let name = match kind {
            FsKind::Vfat => Vfat::new(4096, 2).heap(),
            _ => 512 + 8 + 8,
        };
        let seen = Cell::new([false; 3]);
        live(&mm, user, || {
            if file.get() == u32::MAX || synced.get() {
                return;
            }
            let device = device(&mm);
            let out = |file, of: &dyn Fn(u64) -> bool| {
                tagged(&mm, file, Tag::Writeback).into_iter().any(of)
            };
            let waits = |file, of: &dyn Fn(u64) -> bool| {
                out(file, of) || tagged(&mm, file, Tag::Dirty).into_iter().any(of)
            };
            let is_name = |b: u64| b == name;
            let is_table = |b: u64| b != name && b != 0;
            let data = waits(file.get(), &|_| true);
            let mut all = seen.get();
            all[0] |= out(file.get(), &|_| true);
            if out(device, &is_name) {
                assert!(!data, "{kind:?}: the name before the data");
                all[1] = true;
            }
            if out(device, &is_table) {
                assert!(!data && !out(device, &is_name), "{kind:?}");
                all[2] = true;
            }
            seen.set(all);
        });
        assert_eq!(seen.get(), [true; 3], "{kind:?}: {name}");
    }
}

/// Without fsync a power cut may leave all data without the entries that lead to it, for hours if
/// no other task writes, or a name without data. With fsync it leaves neither.
#[test]
fn a_power_cut_may_leave_data_without_its_chain() {
    let mut s = spec_of(FsKind::Vfat, &[]);
    s.machine.sysctl.dirty_background_ratio = 0;
    let mm: SimMm<true> = sim::run::build(&s);
    fs::mount(&mm);
    let places = Vfat::new(4096, 2);
    let lost = Cell::new(false);
    let user = async {
        let file = new_file(&mm).await;
        fs::write(&mm, file, 0, 4 << 20).await.expect("room");
        mm.sync_mapping(file).await;
        let chain = places.entries(&blocks(&mm, file));
        lost.set(tagged(&mm, file, Tag::Dirty).is_empty() && !chain.is_disjoint(&dirty(&mm)));
        assert!(fs::fsync(&mm, file).await);
        assert!(chain.is_disjoint(&dirty(&mm)));
    };
    live(&mm, user, || ());
    assert!(lost.get());
}

/// The number of free clusters is kept in a sector whose inode gets dirty with them (FSINFO): fsync
/// does not write it, sync(2) writes it once.
#[test]
fn the_free_count_is_syncs_to_write() {
    let mm = build(FsKind::Vfat, &[]);
    let user = async {
        let file = new_file(&mm).await;
        fs::write(&mm, file, 0, 65_536).await.expect("room");
        assert!(fs::fsync(&mm, file).await);
        let out = || mm.vm_event(mm::watch::vmstat::VmEvent::PgpgOut) / 4;
        for expected in [1, 0] {
            let before = out();
            assert!(fs::sync_all(&mm).await);
            assert_eq!(out() - before, expected);
        }
    };
    live(&mm, user, || ());
}

/// With `-o flush`, closing a file starts its writeback and sleeps a tenth of a second; without,
/// the file stays dirty.
#[test]
fn flush_writes_at_close() {
    let closed = |params: &[(&str, f64)], pages: u64| {
        let mm = build(FsKind::Vfat, params);
        let found = Cell::new((0, 0, 0));
        let user = async {
            let file = new_file(&mm).await;
            fs::write(&mm, file, 0, pages * 4096).await.expect("room");
            let begun = mm.world.sched.now();
            fs::released(&mm, file).await;
            let took = mm.world.sched.now() - begun;
            let left = tagged(&mm, file, Tag::Dirty).len();
            found.set((took, left, dirty(&mm).len()));
        };
        live(&mm, user, || ());
        found.get()
    };
    let (took, left, metadata) = closed(&[], 256);
    assert!(
        took < MS && left == 256 && metadata >= 3,
        "{took} {left} {metadata}"
    );
    let (took, left, _) = closed(&[("vfat_flush", 1.0)], 256);
    assert!((100 * MS..200 * MS).contains(&took), "{took}");
    assert_eq!(left, 0);
    // A small file is on the device with its table entries when the sleep is over.
    assert_eq!(closed(&[("vfat_flush", 1.0)], 4).2, 0);
}

/// With `-o sync`, a write waits for its data, its directory entry and, for each cluster, the
/// tables: the sector of the new entry and that of its predecessor's, each in both tables. Without,
/// a vfat has written nothing by then.
#[test]
fn sync_waits_for_every_sector() {
    let write = |kind: FsKind, params: &[(&str, f64)]| {
        let mm = build(kind, params);
        let found = Cell::new((0, 0, 0));
        let user = async {
            let file = new_file(&mm).await;
            let out = || mm.vm_event(mm::watch::vmstat::VmEvent::PgpgOut) / 4;
            let (begun, before) = (mm.world.sched.now(), out());
            fs::write(&mm, file, 0, 65_536).await.expect("room");
            let took = mm.world.sched.now() - begun;
            found.set((took, out() - before, tagged(&mm, file, Tag::Dirty).len()));
        };
        live(&mm, user, || ());
        found.get()
    };
    let (quick, none, dirty) = write(FsKind::Vfat, &[]);
    assert!(none == 0 && dirty == 16, "{none} {dirty}");
    let (slow, written, dirty) = write(FsKind::Vfat, &[("vfat_sync", 1.0)]);
    // 16 clusters: two writes for the first, four for each other one; 16 pages, and the directory
    // entry.
    assert_eq!((written, dirty), (2 + 15 * 4 + 16 + 1, 0));
    assert!(slow > 20 * quick, "{slow} against {quick}");
    // The number of tables determines this: with one table there are half as many writes to them.
    let (_, written, _) = write(FsKind::Vfat, &[("vfat_sync", 1.0), ("vfat_fats", 1.0)]);
    assert_eq!(written, 1 + 15 * 2 + 16 + 1);
    // exfat: the bitmap for each of two clusters, 16 pages, and the directory entry.
    let (_, none, dirty) = write(FsKind::Exfat, &[]);
    assert!(none == 0 && dirty == 16, "{none} {dirty}");
    let (_, written, dirty) = write(FsKind::Exfat, &[("exfat_sync", 1.0)]);
    assert_eq!((written, dirty), (2 + 16 + 1, 0));
}

/// With `-o dirsync`, a name is on the device when the call returns; a file's data is not.
#[test]
fn dirsync_waits_for_names() {
    let makes = |kind: FsKind, params: &[(&str, f64)]| {
        let mm = build(kind, params);
        let found = Cell::new((0, 0, 0));
        let user = async {
            new_file(&mm).await;
            let begun = mm.world.sched.now();
            let file = new_file(&mm).await;
            let took = mm.world.sched.now() - begun;
            let left = dirty(&mm).len();
            fs::write(&mm, file, 0, 65_536).await.expect("room");
            found.set((took, left, tagged(&mm, file, Tag::Dirty).len()));
        };
        live(&mm, user, || ());
        found.get()
    };
    for (kind, param) in [
        (FsKind::Vfat, "vfat_dirsync"),
        (FsKind::Exfat, "exfat_dirsync"),
    ] {
        let (quick, left, data) = makes(kind, &[]);
        assert!(left == 1 && data == 16, "{kind:?}: {left} {data}");
        let (slow, left, data) = makes(kind, &[(param, 1.0)]);
        assert_eq!((left, data), (0, 16), "{kind:?}");
        assert!(slow > quick + MS / 10, "{kind:?}: {slow} against {quick}");
    }
}

/// There are no holes: pages before a write behind the end are zeroes in the cache, dirty, and have
/// clusters.
#[test]
fn a_write_behind_the_end_writes_zeroes() {
    let pages = |kind: FsKind| {
        let mm = build(kind, &[]);
        let found = Cell::new(0);
        let user = async {
            let file = new_file(&mm).await;
            fs::write(&mm, file, 1 << 20, 4096).await.expect("room");
            found.set(tagged(&mm, file, Tag::Dirty).len());
        };
        live(&mm, user, || ());
        found.get()
    };
    assert_eq!(
        [FsKind::Vfat, FsKind::Exfat, FsKind::Ext4].map(pages),
        [257, 257, 1]
    );
}

/// truncate(2) to a greater length: vfat writes zeroes; exfat takes clusters and remembers up to
/// where they are valid, and a later write behind that point writes the zeroes.
#[test]
fn a_file_made_longer_has_clusters() {
    let grown = |kind: FsKind| {
        let mm = build(kind, &[]);
        let found = Cell::new((0, 0, 0));
        let user = async {
            let file = new_file(&mm).await;
            fs::truncate(&mm, file, 1 << 20).await;
            let (zeroes, has) = (tagged(&mm, file, Tag::Dirty).len(), blocks(&mm, file).len());
            fs::write(&mm, file, 1 << 19, 4096).await.expect("room");
            found.set((zeroes, has, tagged(&mm, file, Tag::Dirty).len()));
        };
        live(&mm, user, || ());
        found.get()
    };
    assert_eq!(grown(FsKind::Vfat), (256, 256, 256));
    assert_eq!(grown(FsKind::Exfat), (0, 256, 129));
}

/// A vfat file has less than 4 GiB.
#[test]
fn a_vfat_file_has_less_than_4_gib() {
    for (kind, expected) in [
        (FsKind::Vfat, Err(FsError::TooLarge)),
        (FsKind::Exfat, Ok(())),
    ] {
        let mut s = spec_of(kind, &[]);
        s.machine.disk.capacity = Size(16 << 30);
        let mm: SimMm<true> = sim::run::build(&s);
        fs::mount(&mm);
        let user = async {
            let file = fs::lay_out_in(&mm, DirId::root(0)).expect("a file");
            assert!(fs::lay_out(&mm, file, (4 << 30) - 4096));
            mm.iget(file).await.expect("memory");
            assert_eq!(fs::write(&mm, file, (4 << 30) - 4096, 4096).await, expected);
        };
        live(&mm, user, || ());
    }
}

/// Reading the end of a cold file on vfat follows its chain through the table; exfat computes the
/// place. The second read uses the runs that the inode remembers.
#[test]
fn a_cold_chain_is_followed() {
    let reads = |kind: FsKind| {
        let mm = build(kind, &[]);
        let found = Cell::new([0; 2]);
        let user = async {
            let file = fs::lay_out_in(&mm, DirId::root(0)).expect("a file");
            assert!(fs::lay_out(&mm, file, 256 << 20));
            mm.iget(file).await.expect("memory");
            let got = || mm.vm_event(mm::watch::vmstat::VmEvent::PgpgIn) / 4;
            let mut all = [0; 2];
            for (nth, at) in [(256u64 << 20) - 4096, 128 << 20].into_iter().enumerate() {
                let before = got();
                fs::read(&mm, file, at, 4096).await.expect("a read");
                all[nth] = got() - before;
            }
            found.set(all);
        };
        live(&mm, user, || ());
        found.get()
    };
    // 65,536 entries take 64 blocks, and one more if they begin within one.
    let [end, middle] = reads(FsKind::Vfat);
    assert!((64..=66).contains(&(end - 1)), "{end}");
    let [plain, window] = reads(FsKind::Exfat);
    assert_eq!((plain, window), (1, middle));
}

/// Clusters of removed files are free again: a disk can be filled over and over.
#[test]
fn clusters_come_back() {
    for kind in [FsKind::Vfat, FsKind::Exfat] {
        let mut s = spec_of(kind, &[]);
        s.machine.disk.capacity = Size(64 << 20);
        let mm: SimMm<true> = sim::run::build(&s);
        fs::mount(&mm);
        let user = async {
            let free = mm.world.fs[0].free_blocks();
            let mut names = 0;
            for _ in 0..3 {
                let mut all = Vec::new();
                loop {
                    let file = new_file(&mm).await;
                    all.push(file);
                    match fs::write(&mm, file, 0, 5_000_000).await {
                        Ok(()) => {}
                        Err(e) => {
                            assert_eq!(e, FsError::NoSpace);
                            break;
                        }
                    }
                }
                assert!(all.len() > 9, "{kind:?}: {}", all.len());
                let half = 2_500_000u64;
                fs::truncate(&mm, all[0], half).await;
                assert_eq!(blocks(&mm, all[0]).len() as u64, half.div_ceil(4096));
                for &file in &all {
                    fs::unlink(&mm, file).await.expect("memory");
                    fs::remove(&mm, file).await;
                }
                // A directory keeps its clusters: one for each 25 names, and here a cluster is a
                // block.
                names += all.len() as u64;
                let left = mm.world.fs[0].free_blocks();
                assert!(
                    free - left <= names / 25,
                    "{kind:?}: {left} of {free}, {names} names"
                );
            }
        };
        live(&mm, user, || ());
    }
}

/// A directory is a chain of clusters that are zeroed when they are taken: a new one dirties all
/// its blocks, so larger clusters dirty more.
#[test]
fn a_directory_dirties_its_whole_cluster() {
    let made = |kind: FsKind, params: &[(&str, f64)]| {
        let mm = build(kind, params);
        let found = Cell::new([0; 2]);
        let user = async {
            let above = fs::inode_of_dir(&mm, DirId::root(0));
            mm.iget(above).await.expect("memory");
            let dir = fs::make_dir(&mm, DirId::root(0)).await.expect("room");
            mm.iput(above);
            let first = dirty(&mm).len();
            for _ in 0..26 {
                new_file_in(&mm, dir).await;
            }
            found.set([first, dirty(&mm).len()]);
        };
        live(&mm, user, || ());
        found.get()
    };
    // The name in the root, the cluster, and its entry in both tables; the 26th name needs a second
    // cluster of one block.
    let [one, two] = made(FsKind::Vfat, &[]);
    assert_eq!((one, two - one), (4, 1));
    let [one, two] = made(FsKind::Vfat, &[("vfat_cluster", 32_768.0)]);
    assert_eq!((one, two - one), (11, 0));
    // The name, a cluster of 32 KiB, and the bitmap.
    assert_eq!(made(FsKind::Exfat, &[]), [10, 10]);
}

/// Reclaim may write a file's page under presets whose fat had a `writepage`, but not under
/// today's.
#[test]
fn reclaim_writes_where_fat_had_a_writepage() {
    for kind in [FsKind::Vfat, FsKind::Exfat] {
        for (preset, some) in [("linux-3.0", true), ("linux-6.12", false)] {
            let mut m = machine(64);
            m.disk.kind = DiskKind::UsbFlash;
            // With loose limits dirty pages reach the tail. Where reclaim may not write them,
            // looser limits can end in OOM on a machine this small, depending on which task has the
            // CPU when.
            m.sysctl.dirty_ratio = if some { 90 } else { 60 };
            m.sysctl.dirty_background_ratio = if some { 80 } else { 50 };
            let mut s = spec(m, kind, "dd if=/dev/zero of=a bs=64k count=2000");
            s.policy = Policy::preset(preset).expect("a preset");
            let r = run(&s);
            assert_eq!(r.outcome, sim::Outcome::Completed);
            let written = r.counters["nr_vmscan_write"];
            assert_eq!(written > 0, some, "{kind:?}, {preset}: {written}");
        }
    }
}
