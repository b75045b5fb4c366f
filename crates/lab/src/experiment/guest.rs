//! Checks what a guest with a real kernel can be. An experiment with a kernel among its policies is
//! refused, at the place in the file, if it asks for more, so that nothing is silently left out.
//!
//! User-Mode Linux with time travel has one CPU and one node; without x86's zones all memory is
//! Normal, or the end of it Movable (`movablecore=`). Behaviour that the kernel's own source
//! decides has no parameter: the scheduler's, the filesystems', the queue's. Its timer ticks as
//! often as the machine's `hz` states, in a build of the kernel for that (`6.12-hz250`). With a
//! machine that does not state `hz` it has the ticks of the named build, 100 a second unless the
//! name says otherwise, although the engine alone ticks 250 times by default.

use super::kernels::{OF_NO_KERNEL, PREFIX};
use super::node::{Node, Value};
use super::{Overrides, disks};
use crate::diagnostic::{Diagnostic, Place};
use kernel::Guest;
use mm::ZoneType;
use sim::spec::{DiskKind, FsKind, Machine, Scheduler};
use sim::{Params, params::ParamInfo};

/// A setting that a guest can't have.
struct Refused {
    place: Option<Place>,
    /// The key as the file has it.
    key: String,
    why: String,
    accepted: String,
}

impl Refused {
    /// Builds the refusal of the value of `key` at the place of `node`; `accepted` says what a
    /// guest can have.
    fn at(node: &Node, key: impl Into<String>, why: String, accepted: &str) -> Self {
        Self {
            place: Some(node.place.clone()),
            key: key.into(),
            why,
            accepted: accepted.into(),
        }
    }

    /// Turns the refusal into an error. `kernel` is the name of the policy that runs the real
    /// kernel.
    fn into_diagnostic(self, kernel: &str) -> Diagnostic {
        Diagnostic {
            message: format!("`{}`: {}", self.key, self.why),
            accepted: format!(
                "accepted: {}; or only policies of the engine, without `{kernel}`",
                self.accepted
            ),
            place: self.place.map(Box::new),
        }
    }
}

/// A rule for a machine, given with its table.
type MachineRule = fn(&Machine, &Node) -> Option<Refused>;

/// The rules for machines in User-Mode Linux alone, by name.
const UML_RULES: &[(&str, MachineRule)] = &[
    ("one CPU", one_cpu),
    ("one node", one_node),
    ("Normal and Movable", zones),
    ("no speed of CPUs", no_speed),
];

/// The rules for machines in QEMU alone, by name.
const QEMU_RULES: &[(&str, MachineRule)] = &[
    ("memory as q35 lays it out", q35_memory),
    ("at most eight CPUs", eight_cpus),
    ("no costs of the machine", no_costs),
];

/// The rules for machines in both, by name.
const MACHINE_RULES: &[(&str, MachineRule)] = &[
    ("no DMA zone at boot", boot_dma),
    ("no inodes at boot", boot_inodes),
    ("costs alone of the machine's parameters", machine_params),
    ("no CFQ", no_cfq),
    ("filesystems of the machine", mounted),
    ("sysctls of a kernel", machine_sysctls),
];

/// A rule for the rest of an experiment, given with its root.
type Rule = fn(&Node, &Overrides) -> Option<Refused>;

/// The rules for the rest of an experiment, by name.
const RULES: &[(&str, Rule)] = &[
    ("filesystems", filesystems),
    ("no membind", membind),
    ("no monitors", monitors),
    ("parameters of disks and costs", params),
    ("the window of btrfs as it is", window_of_btrfs),
    ("sysctls in mid-run", changes),
    ("no page tracker", tracker),
];

/// Checks that a machine can be a guest that runs a real kernel: `kernel` is the name of its
/// policy, and `guest` the back end. `node` is the machine's table, for the places of mistakes.
///
/// # Errors
/// Fails with the first rule that the machine breaks.
pub fn machine(
    kernel: &str,
    guest: Guest,
    machine: &Machine,
    node: &Node,
) -> Result<(), Diagnostic> {
    let own = match guest {
        Guest::Uml => UML_RULES,
        Guest::Qemu => QEMU_RULES,
    };
    let rules = own.iter().chain(MACHINE_RULES);
    let mut broken = rules.filter_map(|(_, rule)| rule(machine, node));
    broken
        .next()
        .map_or(Ok(()), |r| Err(r.into_diagnostic(kernel)))
}

/// Checks that all of an experiment but its machines can run with a real kernel: `kernel` is the
/// name of its policy, and `guest` the back end. `root` is the experiment's tree.
///
/// # Errors
/// Fails with the first rule that the experiment breaks.
pub fn experiment(
    kernel: &str,
    guest: Guest,
    root: &Node,
    overrides: &Overrides,
) -> Result<(), Diagnostic> {
    let own: &[(&str, Rule)] = match guest {
        Guest::Uml => &[],
        Guest::Qemu => &[("no costs", no_params_of_costs)],
    };
    let rules = own.iter().chain(RULES);
    let mut broken = rules.filter_map(|(_, rule)| rule(root, overrides));
    broken
        .next()
        .map_or(Ok(()), |r| Err(r.into_diagnostic(kernel)))
}

/// Returns the back end of real kernels that an experiment's key `guest` names; `None`: the key is
/// absent, and the machines decide. `kernel` is the name of a policy that is a real kernel, if
/// there is one.
///
/// # Errors
/// The value is no back end, or the experiment runs no kernel.
pub fn named(root: &Node, kernel: Option<&str>) -> Result<Option<Guest>, Diagnostic> {
    let Some(node) = root.at(&["guest"]) else {
        return Ok(None);
    };
    if kernel.is_none() {
        return Err(Diagnostic::at(
            &node.place,
            "`guest`: the experiment has no kernel among its policies",
            "accepted: no key `guest`, or a policy such as \"kernel:6.12\"",
        ));
    }
    let all = [Guest::Uml, Guest::Qemu];
    let guest = node
        .text()
        .and_then(|text| all.into_iter().find(|g| g.name() == text));
    guest.map(Some).ok_or_else(|| {
        Diagnostic::at(
            &node.place,
            "`guest`: no back end of real kernels",
            "accepted: \"uml\" (User-Mode Linux: one CPU, node and zone), \"qemu\"",
        )
    })
}

/// Returns true if a machine is more than User-Mode Linux can be: several CPUs or nodes, or zones
/// that its memory does not have.
pub fn needs_qemu(machine: &Machine) -> bool {
    let zones = machine.nodes.iter().flat_map(|n| &n.zones);
    let low = |z: ZoneType| matches!(z, ZoneType::Dma | ZoneType::Dma32);
    machine.cpus > 1 || machine.nodes.len() > 1 || zones.into_iter().any(|z| low(z.zone))
}

/// Refuses the machine's key `cpu_speed` in an experiment without a real kernel: only a QEMU guest
/// has a speed of CPUs.
pub fn speed_without_qemu(machine: &Machine, node: &Node) -> Result<(), Diagnostic> {
    match no_speed(machine, node) {
        Some(refused) => Err(Diagnostic::at(
            &node.nearest(&["cpu_speed"]).place,
            format!("`{}`: {}", refused.key, refused.why),
            "accepted: a machine without it, or a policy such as \"kernel:6.12\" with \
             `guest = \"qemu\"`",
        )),
        None => Ok(()),
    }
}

/// Refuses a machine with the key `cpu_speed`, which only a QEMU guest can have; `None` if the
/// machine has none.
fn no_speed(machine: &Machine, node: &Node) -> Option<Refused> {
    machine.cpu_speed.map(|_| {
        let why = "the engine and User-Mode Linux charge costs (`cost_scale`), and only a QEMU \
                   guest counts instructions";
        let accepted = "a machine without it, or `guest = \"qemu\"`";
        let node = node.nearest(&["cpu_speed"]);
        Refused::at(node, "machine.cpu_speed", why.to_owned(), accepted)
    })
}

/// Refuses nodes and zones that QEMU's machine type q35 can't lay out; `None` if it can.
fn q35_memory(machine: &Machine, node: &Node) -> Option<Refused> {
    let (key, why) = kernel::qemu::machine::Layout::of(machine).err()?;
    let path: Vec<&str> = key.split('.').skip(1).collect();
    let accepted = "zones as Linux lays them out on x86-64: DMA and DMA32 on the first node, then \
                    Normal; or Normal alone, for memory whose zones follow from its size";
    Some(Refused::at(node.nearest(&path), key.clone(), why, accepted))
}

/// Refuses more CPUs than the clock of QEMU guests is tested with; `None` for up to 8.
fn eight_cpus(machine: &Machine, node: &Node) -> Option<Refused> {
    (machine.cpus > 8).then(|| {
        let why = format!(
            "{} CPUs; the clock of QEMU guests is tested with up to 8",
            machine.cpus
        );
        Refused::at(node.nearest(&["cpus"]), "machine.cpus", why, "1 to 8")
    })
}

/// Refuses costs (`cost_…`) among a machine's parameters in a QEMU guest, where instructions take
/// their own time; `None` if the machine sets none.
fn no_costs(machine: &Machine, node: &Node) -> Option<Refused> {
    let name = machine.params.keys().find(|n| n.starts_with("cost_"))?;
    Some(Refused::at(
        node.nearest(&["params", name]),
        format!("machine.params.{name}"),
        OWN_TIME.to_owned(),
        "a machine without it",
    ))
}

/// The reason why costs of the model have no effect in a QEMU guest.
const OWN_TIME: &str = "a cost of the model; in a QEMU guest each instruction takes its time";

/// Refuses costs (`cost_…`) in an experiment's `[params]` in a QEMU guest, where instructions
/// take their own time; `None` if there are none.
fn no_params_of_costs(root: &Node, _: &Overrides) -> Option<Refused> {
    let table = root.at(&["params"])?.table()?;
    let e = table.0.iter().find(|e| e.key.starts_with("cost_"))?;
    Some(Refused {
        place: Some(e.place.clone()),
        key: format!("params.{}", e.key),
        why: OWN_TIME.to_owned(),
        accepted: "parameters of disks, nr_requests, max_request and read_ahead".into(),
    })
}

/// Refuses more than one CPU in a guest of User-Mode Linux; `None` for one.
fn one_cpu(machine: &Machine, node: &Node) -> Option<Refused> {
    (machine.cpus > 1).then(|| {
        let why = format!(
            "{} CPUs, but a guest of User-Mode Linux has one",
            machine.cpus
        );
        let accepted = "1, or `guest = \"qemu\"`";
        Refused::at(node.nearest(&["cpus"]), "machine.cpus", why, accepted)
    })
}

/// Refuses more than one NUMA node in a guest of User-Mode Linux; `None` for one.
fn one_node(machine: &Machine, node: &Node) -> Option<Refused> {
    let n = machine.nodes.len();
    (n > 1).then(|| {
        let why = format!("{n} nodes, but a guest of User-Mode Linux has no NUMA");
        let accepted = "one table [[machine.node]] ([[node]] in a machine file)";
        Refused::at(node.nearest(&["node", "1"]), "machine.node", why, accepted)
    })
}

/// Refuses the zones DMA, DMA32 and HighMem in a guest of User-Mode Linux; `None` if the machine
/// has only Normal and Movable.
fn zones(machine: &Machine, node: &Node) -> Option<Refused> {
    let zones = &machine.nodes.first()?.zones;
    let low = |z: ZoneType| matches!(z, ZoneType::Dma | ZoneType::Dma32 | ZoneType::HighMem);
    let (i, zone) = zones.iter().enumerate().find(|(_, z)| low(z.zone))?;
    let why = format!(
        "a zone {}, but all memory of a guest of User-Mode Linux is Normal, or the end of it Movable",
        zone.zone.name()
    );
    let at = node.nearest(&["node", "0", "zones", &i.to_string(), "zone"]);
    let key = format!("machine.node.0.zones.{i}.zone");
    let accepted = "one zone Normal, or Normal and Movable";
    Some(Refused::at(at, key, why, accepted))
}

/// Refuses the machine's key `boot.dma`, memory of the zone DMA in use at boot, because a real
/// kernel takes such memory itself; `None` if it is absent or 0.
fn boot_dma(machine: &Machine, node: &Node) -> Option<Refused> {
    let stated = node.at(&["boot", "dma"])?;
    (machine.boot.dma.0 > 0).then(|| {
        let why = "memory of the zone DMA, which a kernel takes as it boots".to_owned();
        Refused::at(stated, "machine.boot.dma", why, "0, or leave out the key")
    })
}

/// Refuses the machine's key `boot.inodes`, because a real kernel brings the inodes of its own
/// programs into memory; `None` if it is absent or 0.
fn boot_inodes(machine: &Machine, node: &Node) -> Option<Refused> {
    let stated = node.at(&["boot", "inodes"])?;
    (machine.boot.inodes > 0).then(|| {
        let why = "inodes in memory at boot, which a kernel has from its own programs".to_owned();
        Refused::at(
            stated,
            "machine.boot.inodes",
            why,
            "0, or leave out the key",
        )
    })
}

/// Refuses parameters of the machine other than costs (`cost_…`), because a real kernel does not
/// read them; `None` if there are none.
fn machine_params(machine: &Machine, node: &Node) -> Option<Refused> {
    let own = |name: &&String| !name.starts_with("cost_");
    let name = machine.params.keys().find(own)?;
    let why = "a key of the model; a real kernel's scheduler does not read it";
    Some(Refused::at(
        node.nearest(&["params", name]),
        format!("machine.params.{name}"),
        why.to_owned(),
        "parameters cost_…",
    ))
}

/// Refuses disks, swap's included, whose I/O scheduler is CFQ, which Linux removed in 5.0; `None`
/// if no disk has it.
fn no_cfq(machine: &Machine, node: &Node) -> Option<Refused> {
    let mut disks = disks::paths(machine, node);
    let swap = machine.swap.as_ref().and_then(|s| s.disk.as_ref());
    let path = ["swap", "disk"].map(str::to_owned);
    disks.extend(swap.map(|disk| (path.into(), disk)));
    let (path, _) = disks
        .into_iter()
        .find(|(_, d)| d.scheduler() == Scheduler::Cfq)?;
    let mut at: Vec<&str> = path.iter().map(String::as_str).collect();
    at.push("scheduler");
    Some(Refused::at(
        node.nearest(&at),
        format!("machine.{}", at.join(".")),
        "CFQ, which Linux removed in 5.0".to_owned(),
        "\"deadline\" (mq-deadline) or \"none\"",
    ))
}

const MOUNTABLE: &str = "a filesystem that a guest's disks are made with: xfs, ext4, ext3, btrfs";

/// Returns the reason why a guest can't have a filesystem; `None` if it can.
fn no_guest_has(kind: FsKind) -> Option<String> {
    let name = kind.name();
    if kind.over_fuse() {
        let why = "is served by a daemon over FUSE, which a kernel's guest does not run";
        return Some(format!("{name} {why}"));
    }
    let made = kernel::image::KINDS.contains(&kind);
    (!made).then(|| format!("no image of {name} is made for a kernel's guest"))
}

/// Refuses filesystems that the machine's disks state and that a guest can't have; `None` if it can
/// have them all.
fn mounted(machine: &Machine, node: &Node) -> Option<Refused> {
    // The first filesystem may be the experiment's, which has a rule of its own.
    let kinds = machine.mounted().map(|m| m.filesystem);
    let (i, why) = kinds
        .enumerate()
        .find_map(|(i, kind)| Some((i, no_guest_has(kind?)?)))?;
    let mut path = match machine.mounts.iter().any(|m| m.is_second) {
        true => vec!["second".to_owned()],
        // The disks of a list are returned in the order of filesystems.
        false => disks::paths(machine, node).swap_remove(i).0,
    };
    path.push("filesystem".to_owned());
    let at: Vec<&str> = path.iter().map(String::as_str).collect();
    let key = format!("machine.{}", path.join("."));
    Some(Refused::at(node.nearest(&at), key, why, MOUNTABLE))
}

/// Refuses sysctls of the machine that no kernel has.
fn machine_sysctls(_: &Machine, node: &Node) -> Option<Refused> {
    of_no_kernel(node.at(&["sysctl"])?, "machine.sysctl")
}

/// Finds in a table of sysctls the first that no real kernel has, and returns its refusal; `None`
/// if kernels have them all. `path` is the table's key in messages.
fn of_no_kernel(sysctl: &Node, path: &str) -> Option<Refused> {
    let entries = &sysctl.table()?.0;
    let e = entries
        .iter()
        .find(|e| OF_NO_KERNEL.contains(&e.key.as_str()))?;
    Some(Refused {
        place: Some(e.place.clone()),
        key: format!("{path}.{}", e.key),
        why: "no kernel has this sysctl, which was proposed but not merged".into(),
        accepted: "min_free_kbytes and watermark_scale_factor; or `sysctl` in the table of a policy whose \
                   kernel was patched to have it"
            .into(),
    })
}

/// Returns the values of a key of an experiment: the elements of a list, one value as it is, or
/// none if the key is absent.
pub(super) fn values<'a>(root: &'a Node, path: &[&str]) -> &'a [Node] {
    match root.at(path) {
        Some(Node {
            value: Value::List(list),
            ..
        }) => list,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    }
}

/// Refuses a filesystem under test (key `filesystem`) that a guest can't have; `None` if it can
/// have all that are listed.
fn filesystems(root: &Node, _: &Overrides) -> Option<Refused> {
    let kind = |node: &Node| {
        let mut all = FsKind::ALL.iter();
        all.find(|k| node.text() == Some(k.name()))
    };
    let listed = values(root, &["filesystem"]).iter();
    let (node, why) = listed
        .filter_map(|n| Some((n, no_guest_has(*kind(n)?)?)))
        .next()?;
    Some(Refused::at(node, "filesystem", why, MOUNTABLE))
}

/// Refuses the key `workload.membind`, since programs of a real kernel's guest are not bound to
/// NUMA nodes; `None` if it is absent.
fn membind(root: &Node, _: &Overrides) -> Option<Refused> {
    let stated = root.at(&["workload", "membind"])?;
    let why = "programs of a kernel's guest are not bound to nodes".to_owned();
    Some(Refused::at(
        stated,
        "workload.membind",
        why,
        "leave out the key",
    ))
}

/// Refuses `monitors = true`: the monitors model the samplers of a test harness, and a guest has
/// none. `None` if no value is true.
fn monitors(root: &Node, _: &Overrides) -> Option<Refused> {
    let on = |n: &&Node| matches!(n.value, Value::Bool(true));
    let stated = values(root, &["monitors"]).iter().find(on)?;
    let why = "a model of a test harness's samplers; figures of a kernel's guest are read without such samplers";
    Some(Refused::at(stated, "monitors", why.to_owned(), "false"))
}

/// Returns true if a model parameter has an effect in a guest with a real kernel: those of the
/// modelled disks, their read-ahead window, and costs, which are charged inside the guest.
fn has_use(p: &ParamInfo) -> bool {
    // The time and the answer of a disk that has stopped.
    let faults = ["disk_fail_timeout", "disk_offline_reply"];
    p.name.starts_with("cost_")
        || p.name == READ_AHEAD
        || faults.contains(&p.name)
        || DiskKind::ALL.iter().any(|kind| kind.takes(p))
}

/// The read-ahead window of the disks, in pages.
const READ_AHEAD: &str = "read_ahead";

/// Refuses a read-ahead window of the disks under btrfs in a guest with a real kernel, which gives
/// each btrfs a window of its own; `None` if there is none.
fn window_of_btrfs(root: &Node, _: &Overrides) -> Option<Refused> {
    let table = root.at(&["params"])?.table()?;
    let window = table.0.iter().find(|e| e.key == READ_AHEAD)?;
    let is_btrfs = |n: &&Node| matches!(&n.value, Value::Text(text) if text == "btrfs");
    values(root, &["filesystem"]).iter().find(is_btrfs)?;
    Some(Refused {
        place: Some(window.place.clone()),
        key: format!("params.{READ_AHEAD}"),
        why: "btrfs has a read-ahead window of its own, whatever its disk's is".into(),
        accepted: "other filesystems with this parameter".into(),
    })
}

/// Refuses entries of `[params]` that have no effect in a guest with a real kernel; `None` if all
/// have one.
fn params(root: &Node, _: &Overrides) -> Option<Refused> {
    let table = root.at(&["params"])?.table()?;
    // Unknown names are reported when the table is read.
    let known = |key: &str| Params::TABLE.iter().find(|p| p.name == key);
    let useless = |key: &str| known(key).is_some_and(|p| !has_use(p));
    let e = table.0.iter().find(|e| useless(&e.key))?;
    Some(Refused {
        place: Some(e.place.clone()),
        key: format!("params.{}", e.key),
        why: "a parameter of the engine's model; a real kernel does not read it".into(),
        accepted: "parameters of disks, nr_requests, max_request, read_ahead and cost_…".into(),
    })
}

/// Refuses sysctls that no kernel has in the tables `[[at]]`, which are written during the run;
/// `None` if there are none.
fn changes(root: &Node, _: &Overrides) -> Option<Refused> {
    let changes = values(root, &["at"]).iter().enumerate();
    let mut broken = changes.filter_map(|(i, change)| {
        let sysctl = change.at(&["sysctl"])?;
        of_no_kernel(sysctl, &format!("at.{i}.sysctl"))
    });
    broken.next()
}

/// Refuses the option `--track-pages`, since a real kernel does not report the code path that
/// allocated a page; `None` without the option.
fn tracker(_: &Node, overrides: &Overrides) -> Option<Refused> {
    overrides.track_pages.then(|| Refused {
        place: None,
        key: "--track-pages".into(),
        why: format!("a kernel (`{PREFIX}…`) does not report the code path that allocated a page"),
        accepted: "a run without it".into(),
    })
}

#[cfg(test)]
mod tests;
