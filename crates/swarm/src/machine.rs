//! Random machines, from 8 MiB of memory on.

use crate::dice::Dice;
use crate::numbers::{self, Memory, whole};
use crate::space::Space;
use sim::Params;
use sim::spec::{DiskKind, Machine};
use toml::{Table, Value};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Smallest and largest memory of a machine: larger machines take longer to recount and show
/// nothing more.
const LEAST: u64 = 8 * MIB;
const MOST: u64 = 64 * MIB;
/// Maximum number of nodes.
const NODES: u64 = 8;

/// A drawn machine, with the properties that programs and policies depend on.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The table `[machine]`.
    pub table: Table,
    /// Memory in bytes.
    pub memory: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of CPUs.
    pub cpus: u64,
    /// Node, kind and bytes of each zone.
    pub zones: Vec<(u64, String, u64)>,
    /// Capacity in bytes of the smallest disk that has a filesystem.
    pub disk: u64,
    /// Mount points of all filesystems but that on `/`; the first is [`MOUNT`].
    pub mounts: Vec<String>,
}

/// Mount point of the second filesystem.
pub const MOUNT: &str = "mnt2";

/// Draws the machine of a seed: memory and nodes, CPUs, kernel parameters, sysctls, disks and swap,
/// with the words that the space allows. Returns its table and the properties that programs and
/// policies depend on.
pub fn machine(seed: u64, space: &Space) -> Drawn {
    let d = &mut Dice::new(seed, "machine");
    let memory = if d.one_in(8) {
        d.magnitude(LEAST, MOST)
    } else {
        d.between(LEAST, 3 * LEAST)
    };
    let nodes = match d.between(0, 5) {
        0..=2 => 1,
        3 => 2,
        _ => d.between(1, NODES),
    };
    let cpus = match d.between(0, 5) {
        0 => 1,
        1..=3 => d.between(1, 4),
        4 => d.between(1, 16),
        _ => d.between(1, 64),
    };
    let (mut list, mut zones) = zones(d, space, memory, nodes, cpus);
    // This choice has its own random stream, for the reason given below.
    if Dice::new(seed, "highmem").one_in(8) {
        of_32_bits(&mut list, &mut zones);
    }
    let memory = zones.iter().map(|z| z.2).sum();
    let mut table = Table::new();
    table.insert("name".into(), "m".into());
    table.insert("cpus".into(), whole(cpus));
    if d.one_in(3) {
        table.insert("hz".into(), whole(*d.pick(&[100, 250, 300, 1000])));
    }
    table.insert("node".into(), Value::Array(list));
    table.insert("boot".into(), Value::Table(boot(d, space, memory)));
    if d.one_in(6) {
        let known = Params::TABLE.iter().filter(|p| Machine::takes(p));
        put(&mut table, "params", numbers::parameters(d, known, 6));
    }
    put(
        &mut table,
        "sysctl",
        numbers::sysctls(d, space, Memory(memory)),
    );
    let (first, capacity) = disk(d, space);
    table.insert("disk".into(), Value::Table(first));
    let mut smallest = capacity;
    if d.one_in(2) {
        let (swap, taken) = swap(d, space, capacity);
        table.insert("swap".into(), Value::Table(swap));
        smallest -= taken;
    }
    let second = d.one_in(6);
    if second {
        let (disk, capacity) = disk(d, space);
        let kind = d.pick(space.choices("machine.second.filesystem")).clone();
        let mut second = Table::new();
        second.insert("filesystem".into(), kind.into());
        second.insert("mount".into(), MOUNT.into());
        second.insert("disk".into(), Value::Table(disk));
        table.insert("second".into(), Value::Table(second));
        smallest = smallest.min(capacity);
    }
    let mut mounts: Vec<String> = second.then(|| MOUNT.to_owned()).into_iter().collect();
    // This choice has its own random stream: everything else that a seed draws stays as it was
    // before disks could be a list.
    let d = &mut Dice::new(seed, "disks");
    if d.one_in(6) {
        smallest = smallest.min(several(d, space, &mut table, &mut mounts));
    }
    Drawn {
        table,
        memory,
        nodes,
        cpus,
        zones,
        disk: smallest,
        mounts,
    }
}

/// Turns the disks of a machine's table into a list and adds more, with their mount points in
/// `mounts`. Returns the capacity in bytes of the smallest one added, or the largest number if none
/// was.
fn several(d: &mut Dice, space: &Space, table: &mut Table, mounts: &mut Vec<String>) -> u64 {
    let kinds = space.choices("machine.disk.#.filesystem");
    let mut list = Vec::new();
    if let Some(Value::Table(mut root)) = table.remove("disk") {
        if d.one_in(2) {
            root.insert("mount".into(), "/".into());
        }
        list.push(Value::Table(root));
    }
    if let Some(Value::Table(mut second)) = table.remove("second") {
        let disk = second.remove("disk");
        second.extend(
            disk.into_iter()
                .filter_map(|d| d.try_into::<Table>().ok())
                .flatten(),
        );
        list.push(Value::Table(second));
    }
    let mut smallest = u64::MAX;
    for mount in [MOUNT, "mnt3", "mnt2/below/it"] {
        if mounts.iter().any(|m| m == mount) || !d.one_in(2) {
            continue;
        }
        let (mut disk, capacity) = disk(d, space);
        smallest = smallest.min(capacity);
        disk.insert("mount".into(), format!("/{mount}").into());
        if d.one_in(2) {
            disk.insert("filesystem".into(), d.pick(kinds).clone().into());
        }
        mounts.push(mount.to_owned());
        list.push(Value::Table(disk));
    }
    table.insert("disk".into(), Value::Array(list));
    smallest
}

/// Inserts a table under a key, unless it is empty.
fn put(table: &mut Table, key: &str, value: Table) {
    if !value.is_empty() {
        table.insert(key.to_owned(), Value::Table(value));
    }
}

type Zones = Vec<(u64, String, u64)>;

/// Draws nodes with zones whose memory is about `memory` bytes together; each zone has whole pages
/// and at least a MiB. Returns the list of nodes for the machine file, and node, kind and bytes of
/// each zone.
fn zones(d: &mut Dice, space: &Space, memory: u64, nodes: u64, cpus: u64) -> (Vec<Value>, Zones) {
    let kinds = space.choices("machine.node.#.zones.#.zone").iter();
    let kinds: Vec<&String> = kinds.filter(|k| *k != "HighMem").collect();
    let (mut list, mut all) = (Vec::new(), Vec::new());
    let own_cpus = nodes > 1 && d.one_in(3);
    for node in 0..nodes {
        let mut names: Vec<&String> = kinds.iter().copied().filter(|_| d.one_in(2)).collect();
        if nodes == 1 && names.iter().all(|n| *n == "Movable") {
            // The kernel's own pages need a zone that is not movable.
            names.clear();
        }
        if node > 0 || names.is_empty() {
            // A node with only movable or only DMA memory is legal, and rare.
            if !d.one_in(12) || names.is_empty() {
                names.retain(|n| *n != "DMA");
                if !names.iter().any(|n| *n == "Normal" || *n == "DMA32") {
                    names.extend(kinds.iter().copied().filter(|k| *k == "Normal"));
                }
            }
            names.sort_by_key(|n| kinds.iter().position(|k| k == n));
        }
        let share = (memory / nodes).max(names.len() as u64 * MIB);
        let mut left = share;
        let mut zones = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let others = (names.len() - i - 1) as u64 * MIB;
            let most = (left - others).min(if *name == "DMA" { 16 * MIB } else { u64::MAX });
            let bytes = match i + 1 == names.len() {
                true => most.max(MIB),
                false => d.magnitude(MIB, most.max(MIB)),
            };
            let bytes = bytes / PAGE * PAGE;
            left = left.saturating_sub(bytes).max(others);
            let mut zone = Table::new();
            zone.insert("zone".into(), (*name).clone().into());
            zone.insert("size".into(), whole(bytes));
            zones.push(Value::Table(zone));
            all.push((node, (*name).clone(), bytes));
        }
        let mut table = Table::new();
        table.insert("zones".into(), Value::Array(zones));
        if own_cpus {
            let of_node =
                (0..cpus).filter(|cpu| cpu % nodes == node || cpus < nodes && *cpu == node);
            let cpus: Vec<Value> = of_node.map(whole).collect();
            if !cpus.is_empty() && !d.one_in(4) {
                table.insert("cpus".into(), Value::Array(cpus));
            }
        }
        list.push(Value::Table(table));
    }
    (list, all)
}

/// Renames the zones as on a 32-bit machine, in the list of nodes and in `zones`: a node's lowest
/// zone above DMA is Normal, the memory above it HighMem. A machine with more memory than a 32-bit
/// kernel has addresses for is left as it was.
fn of_32_bits(list: &mut [Value], zones: &mut Zones) {
    let mut all = Zones::new();
    for (node, name, bytes) in zones.iter() {
        let kind = match &name[..] {
            "DMA" => "DMA",
            "Movable" => "HighMem",
            _ if all.iter().any(|(n, kind, _)| n == node && kind == "Normal") => "HighMem",
            _ => "Normal",
        };
        match all.last_mut() {
            Some((n, last, sum)) if n == node && last == kind => *sum += bytes,
            _ => all.push((*node, kind.to_owned(), *bytes)),
        }
    }
    let of = |high: bool| -> u64 {
        let wanted = all.iter().filter(|z| (z.1 == "HighMem") == high);
        wanted.map(|z| z.2).sum()
    };
    if of(false) > 3 << 30 || of(true) > 32 << 30 {
        return;
    }
    for (node, table) in list.iter_mut().enumerate() {
        let own = all.iter().filter(|z| z.0 == node as u64);
        let tables = own.map(|(_, kind, bytes)| {
            let mut zone = Table::new();
            zone.insert("zone".into(), kind.clone().into());
            zone.insert("size".into(), whole(*bytes));
            Value::Table(zone)
        });
        if let Value::Table(table) = table {
            table.insert("zones".into(), Value::Array(tables.collect()));
        }
    }
    *zones = all;
}

/// Draws the memory in use at boot, in bytes by kind: none, or shares of `memory` that leave some
/// free.
fn boot(d: &mut Dice, space: &Space, memory: u64) -> Table {
    let mut table = Table::new();
    let tight = d.one_in(12);
    for (key, _) in space.below("machine.boot") {
        if ["inodes", "dentries"].contains(&key) {
            continue;
        }
        let most = if tight { memory / 4 } else { memory / 10 };
        let bytes = match (key, d.between(0, 2)) {
            (_, 0) => 0,
            ("dma", _) => d.magnitude(0, MIB),
            _ => d.magnitude(0, most),
        };
        // Every key is written, because the defaults are for larger machines.
        table.insert(key.to_owned(), whole(bytes));
    }
    // An inode and its dentry take some 1.25 KiB, and as many as memory has room for may be named.
    if d.one_in(4) {
        let inodes = d.magnitude(1, (memory / 64 / 1280).clamp(1, 4096));
        table.insert("inodes".into(), whole(inodes));
        table.insert("dentries".into(), whole(d.between(0, inodes)));
    }
    table
}

/// Draws a swap area, on a disk of its own or on the first one, which has `capacity` bytes. Returns
/// its table and the bytes that it takes from the first disk.
fn swap(d: &mut Dice, space: &Space, capacity: u64) -> (Table, u64) {
    let mut swap = Table::new();
    let mut size = d.magnitude(MIB, 64 * MIB);
    let mut taken = 0;
    if d.one_in(2) {
        let (own, capacity) = disk(d, space);
        size = size.min(capacity);
        swap.insert("disk".into(), Value::Table(own));
    } else {
        size = size.min(capacity / 2).max(MIB);
        taken = size.min(capacity);
    }
    swap.insert("size".into(), whole(size));
    (swap, taken)
}

/// Draws a disk: kind, capacity, scheduler, parameters and faults. Returns its table and its
/// capacity in bytes.
fn disk(d: &mut Dice, space: &Space) -> (Table, u64) {
    let path = "machine.disk";
    let mut table = Table::new();
    let word = d.pick(space.choices(&format!("{path}.kind"))).clone();
    let kind: DiskKind = serde_json::from_value(word.clone().into()).expect("a kind of the schema");
    let capacity = match d.between(0, 29) {
        // Too small for a filesystem's own structures.
        0 => d.magnitude(MIB, 64 * MIB),
        1 | 2 => d.magnitude(64 * MIB, 256 * MIB),
        3..=12 => d.magnitude(256 * MIB, 4096 * MIB),
        _ => d.magnitude(4096 * MIB, 1 << 40),
    };
    // A capacity that ends within a page is legal too.
    let capacity = if d.one_in(4) {
        capacity
    } else {
        capacity / MIB * MIB
    };
    if kind == DiskKind::Raid0 {
        table.insert("members".into(), whole(d.magnitude(2, 16)));
    }
    table.insert("kind".into(), word.into());
    table.insert("capacity".into(), whole(capacity));
    if d.one_in(2) {
        let schedulers = space.choices(&format!("{path}.scheduler"));
        table.insert("scheduler".into(), d.pick(schedulers).clone().into());
    }
    if d.one_in(8) {
        let known = Params::TABLE.iter().filter(|p| kind.takes(p));
        put(&mut table, "params", numbers::parameters(d, known, 6));
    }
    let faults = if d.one_in(3) { d.between(1, 2) } else { 0 };
    let faults: Vec<Value> = (0..faults).map(|_| fault(d, space)).collect();
    if !faults.is_empty() {
        table.insert("faults".into(), Value::Array(faults));
    }
    (table, capacity)
}

/// Draws a fault of a disk: its kind, when it begins and how long it lasts in simulated seconds.
/// Most begin soon after the second in which the machine boots.
fn fault(d: &mut Dice, space: &Space) -> Value {
    let kind = d.pick(space.choices("machine.disk.faults.#.kind")).clone();
    let at_s = match d.between(0, 4) {
        0 => 0.0,
        1 => d.unit() * 4.0,
        _ => 1.0 + d.unit() * d.unit() * d.unit(),
    };
    let mut table = Table::new();
    if kind != "stop" {
        let for_s = if d.one_in(4) {
            1e7
        } else {
            d.unit() * 2.0 + 1e-9
        };
        table.insert("for_s".into(), Value::Float(for_s));
    }
    table.insert("kind".into(), kind.into());
    table.insert("at_s".into(), Value::Float(at_s));
    Value::Table(table)
}
