//! What a real kernel's run will take of the host.

use sim::RunSpec;

/// What a run of a real kernel takes of the host, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes in the folder for temporary files.
    pub disk: u64,
}

/// Beside the guest's memory: User-Mode Linux itself, disks' metadata and what this program keeps of a run.
const BESIDES: u64 = 200 << 20;
/// What a fresh filesystem takes of its image: tables that are not zero, and the journal's head.
const FRESH: u64 = 64 << 20;

/// What a run takes.
///
/// The guest's memory is a file, all of which may come into use: below `/dev/shm`, or where that is too small
/// in the folder for temporary files, which has the images of disks, too. An image has holes where nothing
/// or only zeroes were written. What a program of the user's writes nobody knows: its disks count whole, and the
/// image of its root folder is among those that are kept.
pub fn estimate(spec: &RunSpec) -> Estimate {
    let memory = kernel::guest::memory(&spec.machine);
    let on_disk = if kernel::run::fits_in_memory(memory) {
        0
    } else {
        memory
    };
    let foreign = matches!(spec.workload.source, workload::Source::Foreign(_));
    let fresh = |disk: &sim::spec::DiskSpec| if foreign { disk.capacity.0 } else { FRESH };
    let mounted = spec.machine.mounted().map(|m| fresh(m.disk));
    let images = mounted.fold(0, u64::saturating_add);
    let swap = spec.machine.swap.as_ref().map_or(0, |s| s.size.0);
    Estimate {
        memory: memory.saturating_add(BESIDES),
        disk: on_disk.saturating_add(images).saturating_add(swap),
    }
}
