//! The cost of monitoring: periodic samplers and a reader of trace events, as a test harness runs
//! them beside the workload.
//!
//! Each sampler has memory of its own that it touches at every sample, in random order, and that is
//! swapped like any other task's. A recorded event costs CPU time where it happens, and more where
//! it is read and formatted. docs/reference/workloads.md#writeback-from-reclaim: every
//! configuration ran with and without monitors; one of them differed by 7.5 % in elapsed time.

use crate::SimMm;
use crate::params::Params;
use crate::rng::Rng;
use mm::cache::mmap::{Advice, Backing};
use mm::world::Tasks;
use mm::world::Touched;

/// Pages that are touched one after the other: an arena or a table of the sampler's.
const RUN: u32 = 64;

/// One sampler of a run.
pub struct Monitor {
    nth: u64,
    samplers: u64,
    /// Number of pages of the sampler's memory.
    pages: u32,
    /// Share of the memory that a sample writes; the rest is read.
    written: f64,
    interval: u64,
    sample: u64,
    /// CPU time in nanoseconds to read and format one event; 0 for all but the reader of the trace.
    read_event: f64,
    rng: Rng,
}

impl Monitor {
    /// Returns the samplers of a run with seed `seed`; they share `monitor_memory` equally. The
    /// first one reads the trace.
    pub fn all(p: &Params, seed: u64) -> Vec<Self> {
        let samplers = p.monitor_tools as u64;
        (0..samplers)
            .map(|nth| Self {
                nth,
                samplers,
                pages: (p.monitor_memory / 4096.0 / samplers as f64) as u32,
                written: p.monitor_written,
                interval: p.monitor_interval as u64,
                sample: p.monitor_sample as u64,
                read_event: if nth == 0 { p.cost_trace_read } else { 0.0 },
                rng: Rng::new(seed, &format!("monitor {nth}")),
            })
            .collect()
    }

    /// Samples at a fixed interval until the run ends: touches the sampler's whole memory, in
    /// random order of runs of pages, and works for the time that a sample and the formatting of
    /// new trace events take. Ends early without memory.
    pub async fn run<const T: bool>(mut self, mm: &SimMm<T>) {
        let Some(memory) = mm.new_region(Backing::Anon, self.pages.max(1), Advice::Normal) else {
            return;
        };
        let runs = self.pages.div_ceil(RUN);
        let mut order: Vec<u32> = (0..runs).collect();
        // Number of trace events that were formatted already.
        let mut read = mm.world.watched.get();
        // Staggers the samplers over an interval.
        mm.world
            .sched
            .sleep(self.interval * self.nth / self.samplers)
            .await;
        loop {
            for i in (1..order.len()).rev() {
                order.swap(i, self.rng.below(i as u64 + 1) as usize);
            }
            for run in &order {
                let write = self.rng.unit() < self.written;
                for page in run * RUN..((run + 1) * RUN).min(self.pages) {
                    if mm.touch(memory, page, write).await != Touched::Ok {
                        return;
                    }
                    mm.world.relax().await;
                }
            }
            let events = mm.world.watched.get();
            let formatting = (self.read_event * (events - read) as f64) as u64;
            read = events;
            mm.world.work(self.sample + formatting).await;
            mm.world.sched.sleep(self.interval).await;
        }
    }
}
