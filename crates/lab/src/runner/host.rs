//! Estimates the resources of the host that a run of a real kernel takes.

use sim::RunSpec;

/// Upper bounds of the host's resources that one run of a real kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes in the folder for temporary files.
    pub disk: u64,
}

/// Memory in bytes beside the guest's: User-Mode Linux itself, the disks' metadata and what this
/// program keeps of a run.
const BESIDES: u64 = 200 << 20;
/// Bytes that a fresh filesystem occupies in its image: tables that are not zero, and the journal's
/// head.
const FRESH: u64 = 64 << 20;

/// Estimates the memory and disk space of a run.
///
/// The guest's memory is a file, all of which may come into use. It lies below `/dev/shm`, or,
/// where that is too small, in the folder for temporary files, which holds the images of the disks
/// too. An image is sparse where nothing or only zeroes were written. How much a user's own program
/// will write is unknown: its disks count in full, and the image of its root folder is among those
/// that are kept.
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
