//! Runs a probe's loads on a disk model, in simulated time.

use super::load::Load;
use sim::block::{Bio, Dir, IoContext, Queue, Submit};
use sim::params::Params;
use sim::rng::Rng;
use sim::spec::DiskSpec;

/// Limits on simulated operations: reads reach their rate soon, writes once buffers are full.
const MOST_READS: u64 = 1000;
const MOST_WRITES: u64 = 16_000;

/// Simulates a load on a disk model and returns its rate, in the load's unit; 0 if the model makes
/// no progress. `span` is the part of the disk in bytes that the load accesses, `operations` the
/// number of measured operations, of which only as many are simulated as show the rate.
pub fn rate(disk: &DiskSpec, params: &Params, load: Load, span: u64, operations: u64) -> f64 {
    let most = match load.dir {
        Dir::Read => MOST_READS,
        Dir::Write => MOST_WRITES,
    };
    let operations = operations.clamp(1, most);
    let mut rng = Rng::new(1, "disk");
    let mut places = Rng::new(2, "load");
    let mut queue = Queue::new(disk, params, &mut rng);
    let mut task = IoContext::default();
    // Blocks of 4 KiB: an operation may need several requests (`pieces`).
    let blocks = load.bytes() / 4096;
    let whole = queue.capacity_blocks() / blocks;
    let slots = (span / load.bytes()).clamp(1, whole.max(1));
    let piece = u64::from(queue.max_request_blocks()).min(blocks);
    let pieces = blocks.div_ceil(piece);
    // Outstanding requests, by operation.
    let mut open = vec![0u32; operations as usize];
    let (mut started, mut ended, mut now) = (0u64, 0u64, 0u64);
    let mut done = Vec::new();
    while ended < operations {
        while started < operations && started - ended < u64::from(load.depth) {
            let slot = if load.random {
                places.below(slots)
            } else {
                started % slots
            };
            for i in 0..pieces {
                let first = i * piece;
                let bio = Bio {
                    tag: started,
                    dir: load.dir,
                    sync: true,
                    block: slot * blocks + first,
                    blocks: piece.min(blocks - first) as u32,
                    purpose: Default::default(),
                };
                // With a full queue a thread would sleep; the simulation drains the queue first.
                while queue.submit(now, &mut task, bio) == Submit::WouldBlock {
                    let Some(next) = queue.dispatch(now, &mut rng) else {
                        return 0.0;
                    };
                    now = next;
                    queue.complete(now, &mut done);
                    task.woken(now, queue.limits());
                }
                open[started as usize] += 1;
            }
            started += 1;
        }
        match queue.dispatch(now, &mut rng) {
            Some(next) => now = next,
            None if done.is_empty() => return 0.0,
            None => {}
        }
        queue.complete(now, &mut done);
        for d in done.drain(..) {
            let left = &mut open[d.tag as usize];
            *left -= 1;
            if *left == 0 {
                ended += 1;
            }
        }
    }
    load.rate(operations, now as f64 / 1e9)
}
