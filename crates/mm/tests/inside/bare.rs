//! Machines without daemons, for tests that call the engine's parts themselves.

use super::prelude::*;
use super::world::{DeviceSpec, Engine, TestWorld};

/// A small machine; a test changes the fields that matter to it.
pub struct Bare {
    pub policy: Policy,
    pub zones: Vec<ZoneInfo>,
    pub cpus: usize,
    pub hz: u64,
    pub sysctl: Sysctl,
    pub swap: u32,
    pub swap_rotates: bool,
    pub supers: Vec<SuperInfo>,
}

impl Bare {
    /// Describes a machine with one zone of `pages` pages, one CPU, a disk and no swap.
    pub fn new(policy: Policy, pages: u64) -> Self {
        Self {
            policy,
            zones: vec![ZoneInfo {
                node: 0,
                kind: ZoneType::Normal,
                size: pages,
            }],
            cpus: 1,
            hz: 1000,
            sysctl: Sysctl::KERNEL,
            swap: 0,
            swap_rotates: false,
            supers: Vec::new(),
        }
    }

    /// Builds the machine: three bdis at most, eight tasks, no daemons.
    pub fn build(self) -> Engine {
        let nodes = self.zones.iter().map(|z| z.node).max().unwrap_or(0) + 1;
        let config = Config {
            cpus: self.cpus,
            hz: self.hz,
            pageblock_order: crate::memory::mobility::PAGEBLOCK_ORDER,
            cpu_nodes: (0..self.cpus as u32).map(|c| c % nodes).collect(),
            zones: self.zones,
            max_tasks: 8,
            max_mappings: 600,
            max_bdis: 3,
            max_supers: self.supers.len() as u32,
            max_ags: self.supers.iter().map(|s| s.ags).sum(),
            swap_slots: self.swap,
            swap_rotates: self.swap_rotates,
            groups: Vec::new(),
            sysctl: self.sysctl,
        };
        let world = TestWorld::new(&config, &[DeviceSpec::DISK; 4]);
        let mm = Mm::new(world, config, self.policy, false);
        mm.new_bdi(0, 100).expect("room for a device");
        (0..8).for_each(|task| mm.init_task(task, 0, 0));
        for info in &self.supers {
            mm.new_super(info).expect("room for a filesystem");
        }
        mm
    }
}

/// Moves pages and counts that CPU 0 has batched to the lists and the global counters.
pub fn settled(mm: &Engine) {
    mm.lru_add_drain();
    mm.refresh_cpu_vm_stats(0);
}

/// Recounts everything.
pub fn recount(mm: &Engine) {
    if let Err(e) = mm.recount() {
        panic!("{e}");
    }
}
