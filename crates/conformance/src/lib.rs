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
    /// The world.
    type World: World;
    /// Whether files carry contents; if not, buffers are left as they are.
    const CONTENTS: bool;

    /// The engine, to read.
    fn engine(&self) -> View<'_, Self::World>;
    /// Opens a file by its name, and creates it if it is missing.
    fn open(&self, name: &str) -> impl Future<Output = u32>;
    /// Writes all of `bytes`.
    fn write(&self, file: u32, pos: u64, bytes: &[u8]) -> impl Future<Output = ()>;
    /// Reads; returns how many bytes there were.
    fn read(&self, file: u32, pos: u64, bytes: &mut [u8]) -> impl Future<Output = usize>;
    /// fsync(2). Whether all data reached the device.
    fn fsync(&self, file: u32) -> impl Future<Output = bool>;
    /// ftruncate(2).
    fn truncate(&self, file: u32, len: u64) -> impl Future<Output = ()>;
    /// What the file holds on its device, past the cache; returns how many bytes. Only asked where
    /// files carry contents.
    fn on_device(&self, file: u32, pos: u64, bytes: &mut [u8]) -> usize;
}

/// What a law needs and what it says.
pub trait Law: Sync {
    /// Its name.
    const NAME: &'static str;
    /// Pages of memory.
    const MEMORY: u32 = 2048;
    /// Tasks.
    const TASKS: usize = 4;

    /// What task number `who` does. Panics where the law is broken.
    fn task<M: Machine>(&self, m: &M, who: usize) -> impl Future<Output = ()>;

    /// What holds at the end, with the engine at rest.
    fn verdict<W: World>(&self, engine: View<'_, W>) {
        let _ = engine;
    }
}

/// What every law ends with, all tasks ended: a full recount, whose answer the world gives, then the
/// law's own verdict.
///
/// # Panics
/// If a list, an index or a counter disagrees, or the law is broken.
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

/// Calls a macro with every law's value, for a harness that makes a test of each.
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
