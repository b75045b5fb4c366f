//! Machines in a line, and machines in the place of an experiment's own.

use super::*;
use mm::ZoneType;
use sim::DiskKind;

fn with_machine(value: &str) -> String {
    EXPERIMENT.replace("machine = \"tiny.toml\"", value)
}

fn on(text: &str, machine: &str) -> Result<Experiment, Diagnostic> {
    let overrides = Overrides {
        machine: Some(machine.to_owned()),
        ..Overrides::default()
    };
    parse_with(text, MACHINE, &overrides)
}

#[test]
fn a_line_and_its_table_are_one_machine() {
    let line = good(&with_machine("machine = \"16G,8cpus,nvme\""), &[]);
    let table =
        "machine = { memory = \"16G\", cpus = 8, disk = \"nvme\", name = \"16G-8cpus-nvme\" }";
    let table = good(&with_machine(table), &[]);
    assert_eq!(line.cells[0].spec.machine, table.cells[0].spec.machine);
    let machine = &line.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (8, DiskKind::Nvme));
    let zones: Vec<ZoneType> = machine.nodes[0].zones.iter().map(|z| z.zone).collect();
    assert_eq!(zones, [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal]);
    // Everything that was taken is stated before any figure.
    assert_eq!(line.said.len(), 1);
    assert!(line.said[0].starts_with("machine 16G,8cpus,nvme: DMA 15 MiB"));
}

#[test]
fn keys_lie_over_a_line() {
    let e = good(&with_machine("machine = \"2G\""), &["machine.cpus=2"]);
    assert_eq!(e.cells[0].spec.machine.cpus, 2);
    let e = good(
        &with_machine("machine = { memory = \"2G\", sysctl = { dirty_ratio = 5 } }"),
        &[],
    );
    assert_eq!(e.cells[0].spec.machine.sysctl.dirty_ratio, 5);
}

#[test]
fn a_wrong_word_is_refused_at_its_place() {
    let error = parse_with(
        &with_machine("machine = \"16G,8cpus,nmve\""),
        MACHINE,
        &Overrides::default(),
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("unknown word `nmve`"), "{text}");
    let error = on(EXPERIMENT, "16G,many").unwrap_err().to_string();
    assert!(error.contains("unknown word `many`"), "{error}");
    let error = on(EXPERIMENT, "nowhere.toml").unwrap_err().to_string();
    assert!(error.contains("nowhere.toml"), "{error}");
}

/// The experiment's question may need a disk that the machine does not have, such as a USB stick.
#[test]
fn another_machine_keeps_the_disks_that_the_experiment_adds() {
    let text = with_machine("").replace(
        "[workload]",
        "[machine]\nbase = \"tiny.toml\"\n[[machine.disk]]\nkind = \"ssd\"\ncapacity = \"1G\"\n\
         [[machine.disk]]\nmount = \"/mnt/stick\"\nfilesystem = \"vfat\"\nkind = \"usb-flash\"\n\
         capacity = \"2G\"\n[workload]",
    );
    let e = on(&text, "16G,8cpus,nvme").unwrap();
    let machine = &e.cells[0].spec.machine;
    assert_eq!((machine.cpus, machine.disk.kind), (8, DiskKind::Nvme));
    assert_eq!(machine.mounts.len(), 1);
    assert_eq!(machine.mounts[0].disk.kind, DiskKind::UsbFlash);
    assert!(
        e.said[0].contains("the disk of /mnt/stick is the experiment's"),
        "{:?}",
        e.said
    );
    // Without such a disk the machine is simply the other one.
    let e = on(EXPERIMENT, "second.toml").unwrap();
    assert_eq!(e.cells[0].machine, "second");
    assert!(e.said.is_empty());
}
