//! A machine as QEMU's `q35` lays it out: addresses of memory, nodes, CPUs.
//!
//! Memory begins at address 0. Devices lie below 4 GiB (from 2 GiB or more on), so the rest of the
//! memory begins at 4 GiB.
//! Linux calls the first 16 MiB DMA, the memory below 4 GiB DMA32 and the rest Normal. Nodes own
//! consecutive memory in their order.

use mm::ZoneType;
use sim::spec::Machine;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use vm_memory::mmap::FromRangesError;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

const MIB: u64 = 1 << 20;
const FOUR_GIB: u64 = 4 << 30;
/// `q35` gives memory of at least this much a hole from 2 GiB on, and none to less.
const HOLE_FROM: u64 = 0xb000_0000;
const HOLE: u64 = 0x8000_0000;
/// The least memory with which a kernel of a distribution boots.
const LEAST: u64 = 128 * MIB;
/// The end of zone DMA.
const DMA: u64 = 16 * MIB;

/// Memory of a guest: a part of a node's file at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Guest-physical address.
    pub at: u64,
    /// The node, whose memory is one file.
    pub node: usize,
    /// Offset in the node's file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// The memory of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of each node.
    pub nodes: Vec<u64>,
    /// Bytes below 4 GiB.
    pub low: u64,
    /// All memory, in the order of addresses.
    pub regions: Vec<Region>,
}

impl Layout {
    /// Lays a machine out.
    ///
    /// # Errors
    /// The machine can't be had: its zones are none that such memory has, or it is too small. The
    /// key in the machine, and why.
    pub fn of(machine: &Machine) -> Result<Self, (String, String)> {
        let nodes: Vec<u64> = machine
            .nodes
            .iter()
            .map(|n| n.zones.iter().map(|z| z.size.0).sum::<u64>() / MIB * MIB)
            .collect();
        let total: u64 = nodes.iter().sum();
        if total < LEAST {
            let why = format!("{} MiB; a guest on QEMU needs 128", total / MIB);
            return Err(("machine.node".into(), why));
        }
        let low = match low_zones(machine)? {
            Some(low) => low,
            None if total >= HOLE_FROM => HOLE,
            None => total,
        };
        let mut regions = Vec::new();
        let mut from = 0;
        for (node, &bytes) in nodes.iter().enumerate() {
            let to = from + bytes;
            let below = low.clamp(from, to) - from;
            if below > 0 {
                regions.push(Region {
                    at: from,
                    node,
                    offset: 0,
                    len: below,
                });
            }
            if bytes > below {
                regions.push(Region {
                    at: FOUR_GIB + from.max(low) - low,
                    node,
                    offset: below,
                    len: bytes - below,
                });
            }
            from = to;
        }
        Ok(Self {
            nodes,
            low,
            regions,
        })
    }

    /// Returns all memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().sum()
    }

    /// Makes the nodes' files, which are on no filesystem and vanish with their last user, and maps
    /// them.
    ///
    /// # Errors
    /// The host refuses.
    pub fn make(&self) -> io::Result<(Vec<File>, GuestMemoryMmap)> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = |bytes: &u64| -> io::Result<File> {
            let made: OwnedFd = rustix::fs::memfd_create("lowmark-guest", flags)?;
            let file = File::from(made);
            file.set_len(*bytes)?;
            Ok(file)
        };
        let files: Vec<File> = self.nodes.iter().map(file).collect::<io::Result<_>>()?;
        let mut ranges = Vec::new();
        for region in &self.regions {
            let file = files[region.node].try_clone()?;
            let from = FileOffset::new(file, region.offset);
            ranges.push((GuestAddress(region.at), region.len as usize, Some(from)));
        }
        let mapped = GuestMemoryMmap::from_ranges_with_files(ranges);
        let mapped = mapped.map_err(|e: FromRangesError| io::Error::other(e.to_string()))?;
        Ok((files, mapped))
    }
}

/// Returns the bytes below 4 GiB that a machine asks for by its zones; `None`: its zones are those
/// that QEMU's machine has anyway, or it names only its memory.
fn low_zones(machine: &Machine) -> Result<Option<u64>, (String, String)> {
    let mut low = 0;
    let mut named = false;
    for (n, node) in machine.nodes.iter().enumerate() {
        for (z, zone) in node.zones.iter().enumerate() {
            let refuse = |why: &str| {
                let key = format!("machine.node.{n}.zones.{z}.zone");
                Err((key, format!("{} {why}", zone.zone.name())))
            };
            match zone.zone {
                ZoneType::Dma | ZoneType::Dma32 if n > 0 => {
                    return refuse("on another node than the first, which has the lowest memory");
                }
                ZoneType::Dma if zone.size.0 > DMA => {
                    return refuse("of more than its 16 MiB");
                }
                ZoneType::Dma | ZoneType::Dma32 => {
                    named = true;
                    low += zone.size.0 / MIB * MIB;
                }
                ZoneType::HighMem => return refuse("exists on 32-bit machines only"),
                ZoneType::Normal | ZoneType::Movable => {}
            }
        }
    }
    match named {
        true if low < LEAST => Err((
            "machine.node.0.zones".into(),
            "less than 128 MiB in DMA and DMA32, in which a kernel boots".into(),
        )),
        true if low > HOLE => Err((
            "machine.node.0.zones".into(),
            "more than 2 GiB in DMA and DMA32; QEMU's devices lie above".into(),
        )),
        true => Ok(Some(low)),
        false => Ok(None),
    }
}

/// Returns QEMU's arguments for memory, nodes and CPUs. `fds` are the descriptors of the nodes'
/// files in its process.
pub fn arguments(machine: &Machine, layout: &Layout, fds: &[i32]) -> Vec<String> {
    let mut args = Vec::new();
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("-smp", machine.cpus.to_string());
    add("-m", format!("{}M", layout.bytes() / MIB));
    let below = layout.low / MIB;
    let mut kind = format!("q35,hpet=off,max-ram-below-4g={below}M");
    let numa = layout.nodes.len() > 1;
    for (i, bytes) in layout.nodes.iter().enumerate() {
        add(
            "-object",
            format!(
                "memory-backend-file,id=m{i},size={}M,mem-path=/proc/self/fd/{},share=on,prealloc=off",
                bytes / MIB,
                fds[i]
            ),
        );
    }
    if numa {
        for i in 0..layout.nodes.len() as u32 {
            let mask = sim::run::cpus_of_node(machine, i);
            let cpus: Vec<String> = (0..machine.cpus)
                .filter(|c| mask >> c & 1 == 1)
                .map(|c| format!(",cpus={c}"))
                .collect();
            add(
                "-numa",
                format!("node,nodeid={i},memdev=m{i}{}", cpus.concat()),
            );
        }
    } else {
        kind.push_str(",memory-backend=m0");
    }
    add("-machine", kind);
    args
}

#[cfg(test)]
mod tests;
