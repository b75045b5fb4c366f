#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod laws;
pub mod model;

use mm::World;
use mm::view::View;
use mm::watch::vmstat::ZoneStat;
use std::future::Future;

/// One task's view of a world. A file's number is its mapping.
pub trait Machine {
    /// The type of the world.
    type World: World;
    /// Whether files have contents; if not, buffers are left unchanged.
    const CONTENTS: bool;

    /// Returns a read-only view of the engine.
    fn engine(&self) -> View<'_, Self::World>;
    /// Opens a file by its name, and creates it if it is missing; returns its number.
    fn open(&self, name: &str) -> impl Future<Output = u32>;
    /// Writes all of `bytes`.
    fn write(&self, file: u32, pos: u64, bytes: &[u8]) -> impl Future<Output = ()>;
    /// Reads; returns the number of bytes.
    fn read(&self, file: u32, pos: u64, bytes: &mut [u8]) -> impl Future<Output = usize>;
    /// Calls fsync(2). Returns true if all data reached the device.
    fn fsync(&self, file: u32) -> impl Future<Output = bool>;
    /// Calls ftruncate(2).
    fn truncate(&self, file: u32, len: u64) -> impl Future<Output = ()>;
    /// Reads the file from its device, bypassing the cache; returns the number of bytes. Called
    /// only if files have contents.
    fn on_device(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize;
}

/// A law: its requirements, its tasks and its check.
pub trait Law: Sync {
    /// The law's name.
    const NAME: &'static str;
    /// Pages of memory that it needs.
    const MEMORY: u32 = 2048;
    /// The number of its tasks.
    const TASKS: usize = 4;

    /// Runs task number `who`. Panics if the law is broken.
    fn task<M: Machine>(&self, m: &M, who: usize) -> impl Future<Output = ()>;

    /// Checks the end state, with the engine at rest.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        let _ = engine;
    }
}

/// Concludes a law after all its tasks have ended: checks the result of the world's full recount
/// (`recount`; the error describes an inconsistency), that no page is missing (cached, free, or on
/// a per-CPU list), and calls the law's own check.
///
/// # Panics
/// If a list, an index or a counter is inconsistent, or the law is broken.
pub fn conclude<L: Law, W: World>(law: &L, engine: View<'_, W>, recount: Result<(), String>) {
    if let Err(e) = recount {
        panic!("{}: {e}", L::NAME);
    }
    let zones = 0..engine.config().zones.len();
    let size: u64 = zones.clone().map(|z| engine.zone_pages(z)).sum();
    let cached = engine.stat(ZoneStat::NrFilePages);
    let free = engine.stat(ZoneStat::NrFreePages);
    let pcp: u64 = zones.map(|z| engine.pcp_pages(z)).sum();
    assert_eq!(cached + free + pcp, size, "{}: pages are missing", L::NAME);
    law.verdict(engine);
}

/// Calls a macro with every law, for a harness that makes a test of each.
#[macro_export]
macro_rules! for_each_law {
    ($test:ident) => {
        $test!(allocate, $crate::laws::Allocate::default());
        $test!(read, $crate::laws::Read::default());
        $test!(dirty, $crate::laws::Dirty::default());
        $test!(reclaim, $crate::laws::Reclaim::default());
        $test!(flush, $crate::laws::Flush::default());
        $test!(throttle, $crate::laws::Throttle::default());
        $test!(truncate, $crate::laws::Truncate::default());
    };
}
