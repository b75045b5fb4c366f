//! The host memory that a run needs, known before the run begins.
//!
//! The figure is an estimate: the engine's tables are known to the byte, and the world's state of
//! tasks, files and requests is counted with sizes that a test measured. Programs add little of
//! their own.

use crate::block::Device;
use crate::rng::Rng;
use crate::run::{config_of, params};
use crate::spec::{DiskSpec, RunSpec, Scheduler};
use crate::world::SimWorld;
use mm::Mm;
use mm::footprint::Use;

/// Bytes per task: its future, its account, its share of histograms and its entries in queues.
const BYTES_PER_TASK: u64 = 6 << 10;
/// Bytes per file: extents, read-ahead, names and indices.
const BYTES_PER_FILE: u64 = 320;
/// Bytes per slot of a request queue.
const BYTES_PER_REQUEST: u64 = 512;
/// Bytes that every run needs: histograms, sums, the sampler, a disk's own state.
const BYTES_OF_WORLD: u64 = 7 << 20;

/// Returns the host memory that a run needs, as a list of named uses: the engine's tables first,
/// then the world's tasks, files, requests and page tables. Uses of 0 bytes are left out.
pub fn uses(spec: &RunSpec) -> Vec<Use> {
    let machine = &spec.machine;
    let config = config_of(spec, &params(spec));
    let mut uses = Mm::<SimWorld<false>>::uses(&config, &spec.policy);
    let tasks = u64::from(config.max_tasks) + u64::from(config.max_ags) / 64;
    let files = spec.workload.files_made() + spec.workload.files.len() as u64;
    let swap_disk = machine.swap.as_ref().and_then(|s| s.disk.as_ref());
    let disks = machine.mounted().map(|on| on.disk).chain(swap_disk);
    let requests: u64 = disks.map(|d| slots(d, spec)).sum();
    uses.extend([
        Use::whole("tasks of the world", tasks * BYTES_PER_TASK),
        Use::whole("files of the world", files * BYTES_PER_FILE),
        Use::whole("request queues", requests * BYTES_PER_REQUEST),
        Use::whole("page tables", machine.boot.anon.pages() * 4),
        Use::whole("the world", BYTES_OF_WORLD),
    ]);
    uses.retain(|u| u.reserved > 0);
    uses
}

/// Returns the number of request slots in the queues of a disk and its members, for the estimate of
/// host memory.
fn slots(disk: &DiskSpec, spec: &RunSpec) -> u64 {
    let p = disk.params(&spec.machine.params(&spec.params));
    let members = u64::from(disk.members.unwrap_or(1));
    let of_class = members * p.nr_requests as u64;
    2 * match disk.scheduler() {
        // One set of tags per hardware queue, on all CPUs.
        Scheduler::None => {
            let mut rng = Rng::new(0, "depth");
            let device = Device::new(disk, &p, &mut rng).for_cpus(spec.machine.cpus);
            of_class.max(u64::from(device.depth()))
        }
        _ => of_class,
    }
}
