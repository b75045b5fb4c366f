//! Reads the disks of a machine: `[disk]`, optionally with a `[second]` filesystem, or a list
//! `[[disk]]`.

use super::node::{Node, Value};
use super::range::{self, At};
use crate::diagnostic::Diagnostic;
use sim::spec::{DiskSpec, Machine, plain_mount};

/// Most filesystems of a machine.
const MOST: usize = 32;

/// Returns the elements of a list of disks; `None` if there is one disk, or no disk yet.
pub(super) fn list(machine: &Node) -> Option<&[Node]> {
    match &machine.table()?.get("disk")?.value {
        Value::List(list) => Some(list),
        _ => None,
    }
}

/// Returns the mount point of an element, `/` by default; `None` if it is not a text.
pub(super) fn mount(element: &Node) -> Option<&str> {
    let mount = element.table().map(|t| t.get("mount"))?;
    mount.map_or(Some("/"), Node::text)
}

/// Adds the disks in `extra` to a machine's own; its single disk becomes the one of `/`. Disks
/// whose mount point the machine already uses are left out. Does nothing for a machine without a
/// disk.
pub(super) fn beside(machine: &mut Node, extra: Vec<Node>) {
    let Value::Table(table) = &mut machine.value else {
        return;
    };
    let Some(disk) = table.get_mut("disk") else {
        return;
    };
    if let Value::List(list) = &mut disk.value {
        let taken: Vec<String> = list.iter().filter_map(mount).map(str::to_owned).collect();
        let free = |disk: &Node| mount(disk).is_some_and(|m| !taken.iter().any(|t| t == m));
        list.extend(extra.into_iter().filter(free));
        return;
    }
    let own = disk.clone();
    disk.value = Value::List(std::iter::once(own).chain(extra).collect());
}

/// Checks the disks of a machine's table: a list needs mount points that are different and valid
/// names, and one disk on `/`. Also refuses wrong values that serde reads through a buffer, which
/// loses their place.
///
/// # Errors
/// Returns the first mistake.
pub fn tree(machine: &Node) -> Result<(), Diagnostic> {
    let Some(list) = list(machine) else {
        for path in [&["disk"][..], &["swap", "disk"], &["second", "disk"]] {
            range::faults(machine.at(path), &format!("machine.{}", path.join(".")))?;
        }
        return Ok(());
    };
    range::faults(machine.at(&["swap", "disk"]), "machine.swap.disk")?;
    if let Some(second) = machine.table().and_then(|t| t.entry("second")) {
        return Err(Diagnostic::at(
            &second.place,
            "`machine.second`: a second filesystem beside a list of disks",
            "accepted: one more table [[machine.disk]] ([[disk]] in a machine file) with `mount` and `filesystem`",
        ));
    }
    let place = &machine.nearest(&["disk"]).place;
    if list.is_empty() || list.len() > MOST {
        return Err(Diagnostic::at(
            place,
            format!("`machine.disk`: {} disks", list.len()),
            format!("accepted: 1 to {MOST}, one of them mounted on `/`"),
        ));
    }
    let mut mounts: Vec<&str> = Vec::new();
    for (i, element) in list.iter().enumerate() {
        range::faults(Some(element), &format!("machine.disk.{i}"))?;
        let Some(point) = mount(element) else {
            // An element that is no table, or a mount that is no text, is reported when it is read.
            return Ok(());
        };
        let at = At {
            node: machine,
            path: "machine",
        };
        let index = i.to_string();
        let path = ["disk", &index, "mount"];
        let plain = plain_mount(point);
        if !plain.is_empty() {
            plain.split('/').try_for_each(|name| at.name(&path, name))?;
        }
        if let Some(other) = mounts.iter().position(|m| *m == plain) {
            return Err(Diagnostic::at(
                &machine.nearest(&path).place,
                format!(
                    "`machine.disk.{i}`: two disks are mounted on `/{plain}`, this one and `machine.disk.{other}`"
                ),
                "accepted: a different `mount` for each; a disk without `mount` is mounted on `/`",
            ));
        }
        mounts.push(plain);
    }
    if !mounts.contains(&"") {
        return Err(Diagnostic::at(
            place,
            "`machine.disk`: no disk is mounted on `/`",
            "accepted: one disk with mount = \"/\" or without `mount`",
        ));
    }
    Ok(())
}

/// Returns the disks of a machine that was read from `node`, in the order of its filesystems, each
/// with its path in the file as a list of keys and indices (`["disk", "0"]`). Messages about a disk
/// point there.
pub fn paths<'m>(machine: &'m Machine, node: &Node) -> Vec<(Vec<String>, &'m DiskSpec)> {
    let text = |keys: &[&str]| keys.iter().map(|k| (*k).to_owned()).collect::<Vec<_>>();
    let Some(list) = list(node) else {
        let second = machine
            .mounts
            .iter()
            .map(|m| (text(&["second", "disk"]), &m.disk));
        return second.chain([(text(&["disk"]), &machine.disk)]).collect();
    };
    // The disk mounted on `/` comes first, the others in the order of the file.
    let mut places: Vec<usize> = (0..list.len()).collect();
    places.sort_by_key(|i| mount(&list[*i]).is_some_and(|m| !plain_mount(m).is_empty()));
    let disks = machine.mounted().map(|on| on.disk);
    let paths = places.iter().map(|i| text(&["disk", &i.to_string()]));
    paths.zip(disks).collect()
}
