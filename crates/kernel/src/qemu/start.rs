//! Starts a QEMU guest: the arguments of QEMU and of the guest's kernel.

use super::clock;
use super::machine::{Layout, arguments as of_machine};
use super::program::Program;
use super::server::CONTROL;
use crate::guest::movable;
use crate::server::port_name;
use sim::spec::Machine;

/// The first descriptor of a guest's process for the files of its memory.
pub const MEMORY: i32 = 101;

/// The model of the CPUs: the least that distributions' kernels start on, and random numbers, which
/// follow QEMU's seed. Wider models copy memory by instructions that are one for each byte here.
const CPU: &str = "qemu64,+rdrand";

/// The wall clock at which every guest boots, as in User-Mode Linux.
const BOOT_TIME: &str = "base=2023-11-14T22:13:20,clock=vm";

/// The name of the socket of QEMU's messages and errors, and that of the kernel's console, in a
/// run's folder.
pub const CONSOLE: &str = "console";

/// Returns the arguments of the guest's kernel.
pub fn kernel_arguments(machine: &Machine) -> Vec<String> {
    let mut args: Vec<String> = [
        "rdinit=/init",
        "console=ttyS0",
        "lowmark.out=lowmark",
        "loglevel=4",
        "panic=-1",
        "nokaslr",
        "mitigations=off",
        "tsc=reliable",
        "no_timer_check",
        "random.trust_cpu=on",
        // Our disks have the PCI numbers of virtio's and a driver of their own: virtio's stays out.
        "initcall_blacklist=virtio_pci_driver_init",
    ]
    .map(String::from)
    .into();
    let movable = movable(machine);
    if movable > 0 {
        args.push(format!("movablecore={}K", movable >> 10));
    }
    args
}

/// The inputs of a guest's process.
pub struct Start<'a> {
    /// The installed QEMU.
    pub program: &'a Program,
    /// The path of the clock's library.
    pub clock: &'a str,
    /// Millions of instructions a virtual second of each CPU.
    pub mips: u64,
    /// The seed of random numbers.
    pub seed: u64,
    /// The compressed kernel.
    pub image: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// Its memory.
    pub layout: &'a Layout,
    /// How many disks it has.
    pub disks: usize,
}

/// Returns the arguments of a guest's process, whose folder has the sockets and `initrd`.
pub fn arguments(start: &Start<'_>) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|w| (*w).to_owned()));
    // The clock knows the threads by their names.
    add(&["-name", "lowmark,debug-threads=on"]);
    add(&["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"]);
    add(&["-accel", "tcg,thread=single", "-plugin"]);
    let (clock, mips) = (start.clock, start.mips);
    let quantum = clock::QUANTUM_NS;
    add(&[&format!("{clock},mips={mips},quantum={quantum}")]);
    add(&["-seed", &(start.seed & 0x7fff_ffff).to_string()]);
    add(&["-cpu", CPU, "-bios", "qboot.rom", "-rtc", BOOT_TIME]);
    add(&["-serial", &format!("file:{CONSOLE}")]);
    let sockets = std::iter::once(CONTROL.to_owned());
    let sockets = sockets.chain((0..start.disks).map(port_name));
    for (i, socket) in sockets.enumerate() {
        add(&["-chardev", &format!("socket,id=c{i},path={socket}")]);
        let device = "vhost-user-blk-pci-non-transitional";
        let device = format!("{device},chardev=c{i},num-queues=1,queue-size=2");
        add(&["-device", &device]);
    }
    add(&["-kernel", start.image, "-initrd", "initrd", "-append"]);
    add(&[&kernel_arguments(start.machine).join(" ")]);
    let fds: Vec<i32> = (0..start.layout.nodes.len() as i32)
        .map(|i| MEMORY + i)
        .collect();
    args.extend(of_machine(start.machine, start.layout, &fds));
    args
}
