//! Normalises tables of sysctls, whose keys may be the kernel's own names, in quotes or as nested
//! tables.
//!
//! `"vm.dirty_ratio" = 5`, `vm.dirty_ratio = 5` and `dirty_ratio = 5` are the same. All are
//! converted to the last form before tables are laid over each other, so that overrides work for
//! any spelling.

use super::machine::Files;
use super::node::{Entry, Node, Table, Value};
use crate::diagnostic::{Diagnostic, Place, Source};
use crate::model::Experiment;
use mm::sysctl::{self, Sysctl};
use sim::spec::Change;

/// Shortens the keys of all tables `sysctl` below a node to the last part of their names
/// (`vm.dirty_ratio` to `dirty_ratio`). Unknown keys are kept, and reported when the table is read.
/// A `sysctl` that is a text is the name of a file in the form of sysctl.conf, and is replaced by
/// the file's contents if `files`, which finds files, is given.
///
/// # Errors
/// Fails on a sysctl that a table has twice, by two spellings, and on a file that can't be read.
pub fn last_parts(node: &mut Node, files: Option<&Files<'_>>) -> Result<(), Diagnostic> {
    match &mut node.value {
        Value::Table(table) => {
            for entry in &mut table.0 {
                if let (Some(files), Some(name)) = (files, entry.node.text())
                    && entry.key == "sysctl"
                {
                    entry.node.value = Value::Table(conf(name, &entry.node, files)?);
                }
                if entry.key == "sysctl"
                    && let Value::Table(own) = &mut entry.node.value
                {
                    *own = flat(std::mem::take(own))?;
                } else {
                    last_parts(&mut entry.node, files)?;
                }
            }
            Ok(())
        }
        Value::List(list) => list.iter_mut().try_for_each(|n| last_parts(n, files)),
        _ => Ok(()),
    }
}

/// Returns the key of an experiment under which a sysctl stands, for one that was written as a key
/// of the experiment itself: `machine.sysctl.dirty_ratio` for `vm.dirty_ratio` or `dirty_ratio`.
/// `None` if the entry names no sysctl.
pub fn meant(entry: &Entry) -> Option<String> {
    let inner = entry.node.table().and_then(|table| table.0.first());
    let name = match inner {
        Some(inner) => format!("{}.{}", entry.key, inner.key),
        None => entry.key.clone(),
    };
    let info = sysctl::info(&name)?;
    Some(format!("machine.sysctl.{}", info.key))
}

/// Reads a file in the form of sysctl.conf: `name = value` in each line, with `#` or `;` before
/// comments and `-` before settings that may fail; if a name is repeated the last value counts.
/// Names that are neither below `vm` nor known here belong to another part of the kernel, and are
/// left out, as are unknown names behind a `-`. `node` is the place where the experiment names the
/// file, and `files` finds it.
///
/// # Errors
/// Fails on a file that can't be found, and on a line of another form.
fn conf(name: &str, node: &Node, files: &Files<'_>) -> Result<Table, Diagnostic> {
    let (shown, text) = files(name).map_err(|e| {
        Diagnostic::at(
            &node.place,
            format!("`sysctl`: `{name}`: {e}"),
            "accepted: a table of sysctls, or a file in the form of sysctl.conf, relative to the \
             experiment file's folder or a folder above it",
        )
    })?;
    let source = Source::new(shown, text.clone());
    let mut all: Vec<Entry> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        // Offsets in bytes: `start` of the line without its indent, `at` of the next line.
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let place = Place {
            source: source.clone(),
            span: start..start + trimmed.len(),
        };
        let Some((spelt, value)) = trimmed.split_once('=') else {
            return Err(Diagnostic::at(
                &place,
                format!("`{trimmed}` is not a line of a sysctl.conf"),
                "accepted: name = value, such as vm.dirty_ratio = 5; # or ; before a comment",
            ));
        };
        let spelt = spelt.trim();
        // sysctl(8) passes over such a setting where the kernel has none of its name.
        let may_fail = spelt.starts_with('-');
        let spelt = spelt.trim_start_matches('-').replace('/', ".");
        let is_ours = spelt.starts_with("vm.") && !may_fail;
        if !is_ours && sysctl::info(&spelt).is_none() {
            continue;
        }
        let value = value.trim();
        let value = value
            .parse()
            .map_or_else(|_| Value::Text(value.to_owned()), Value::Int);
        all.retain(|entry| entry.key != spelt);
        all.push(Entry {
            key: spelt,
            node: Node {
                place: place.clone(),
                value,
            },
            place,
        });
    }
    Ok(Table(all))
}

/// Returns notes for the reader of a run's results, each once: sysctls at boot or after a change in
/// mid-run that have no effect in the engine, or are not modelled.
pub fn notes(boot: &Sysctl, changes: &[Change]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for sysctl in std::iter::once(boot).chain(changes.iter().map(|change| &change.sysctl)) {
        for (info, values) in sysctl.values() {
            let note = info.note(values[0]);
            notes.extend(note.filter(|note| !notes.contains(note)));
        }
    }
    notes
}

/// Returns the notes on sysctls of all cells that the engine runs, each note once: which have no
/// effect in the engine, or are not modelled.
pub fn notes_of(experiment: &Experiment) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for cell in experiment.cells.iter().filter(|cell| cell.kernel.is_none()) {
        for note in notes(&cell.spec.machine.sysctl, &cell.spec.changes) {
            if !all.contains(&note) {
                all.push(note);
            }
        }
    }
    all
}

/// Flattens a table of sysctls and shortens their names to the last part; refuses a sysctl that
/// occurs twice, even by two spellings.
fn flat(table: Table) -> Result<Table, Diagnostic> {
    let mut all = Vec::new();
    for entry in table.0 {
        spread("", entry, &mut all);
    }
    let mut flat: Vec<(Entry, String)> = Vec::with_capacity(all.len());
    for mut entry in all {
        let spelt = entry.key.clone();
        if let Some(info) = sysctl::info(&entry.key) {
            entry.key = info.key.to_owned();
        }
        if let Some((_, other)) = flat.iter().find(|(e, _)| e.key == entry.key) {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`{spelt}`: the sysctl is set twice, here and as `{other}`"),
                "accepted: each sysctl once, by its whole name or its last part",
            ));
        }
        flat.push((entry, spelt));
    }
    Ok(Table(flat.into_iter().map(|(entry, _)| entry).collect()))
}

/// Adds a sysctl's entry to `all`, under its whole name. A table whose key is a part of names, such
/// as `vm = { dirty_ratio = 5 }`, is flattened; `above` is the part of the name above the entry.
fn spread(above: &str, entry: Entry, all: &mut Vec<Entry>) {
    let key = match above {
        "" => entry.key,
        above => format!("{above}.{}", entry.key),
    };
    let part = format!("{key}.");
    let is_part = sysctl::TABLE.iter().any(|i| i.name.starts_with(&part));
    match entry.node.value {
        Value::Table(table) if is_part => {
            for entry in table.0 {
                spread(&key, entry, all);
            }
        }
        value => all.push(Entry {
            key,
            place: entry.place,
            node: Node {
                place: entry.node.place,
                value,
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<String, String> {
        let mut node = Node::parse(&Source::new("f", text)).unwrap();
        last_parts(&mut node, None).map_err(|e| format!("{} {}", e.place.unwrap(), e.message))?;
        let table = node.nearest(&["sysctl"]).table().unwrap();
        let keys = table.0.iter().map(|e| &e.key[..]);
        Ok(keys.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_spelling_is_the_same() {
        for text in [
            "sysctl = { dirty_ratio = 5, xfssyncd_centisecs = 100 }",
            "sysctl = { \"vm.dirty_ratio\" = 5, \"fs.xfs.xfssyncd_centisecs\" = 100 }",
            "sysctl = { vm.dirty_ratio = 5, fs.xfs.xfssyncd_centisecs = 100 }",
            "[sysctl]\nvm = { dirty_ratio = 5 }\n[sysctl.fs.xfs]\nxfssyncd_centisecs = 100",
        ] {
            assert_eq!(
                keys(text).unwrap(),
                "dirty_ratio xfssyncd_centisecs",
                "{text}"
            );
        }
        let unknown = "sysctl = { vm.dirty_ratoi = 5, \"kernel.shmmax\" = 1 }";
        assert_eq!(keys(unknown).unwrap(), "vm.dirty_ratoi kernel.shmmax");
        let twice = keys("sysctl = { dirty_ratio = 5, \"vm.dirty_ratio\" = 6 }").unwrap_err();
        assert!(twice.starts_with("f:1:29 `vm.dirty_ratio`") && twice.contains("as `dirty_ratio`"));
    }

    /// A file as distributions ship them, with comments, spellings, repetitions and sysctls of
    /// other parts of the kernel.
    #[test]
    fn a_sysctl_conf_is_a_table() {
        let text = "# first\n; second\nvm.swappiness=10\n vm/dirty_ratio = 5\n-vm.laptop_mode = 0\n\
                    -vm.anon_min_ratio = 15\n\
                    kernel.sysrq = 1\nnet.core.somaxconn = 4096\nvm.swappiness = 1\n\
                    vm.lowmem_reserve_ratio = 256 256 32\nvm.page-cluster = 0\n";
        let files = |name: &str| -> Result<(String, String), String> {
            match name {
                "s.conf" => Ok(("s.conf".to_owned(), text.to_owned())),
                "bad.conf" => Ok(("bad.conf".to_owned(), "vm.swappiness 3".to_owned())),
                _ => Err("there is no such file".to_owned()),
            }
        };
        let read = |name: &str| {
            let mut node = Node::parse(&Source::new("f", format!("sysctl = {name:?}"))).unwrap();
            last_parts(&mut node, Some(&files)).map_err(|e| e.message)?;
            let table = node.nearest(&["sysctl"]).table().unwrap();
            let said = table
                .0
                .iter()
                .map(|e| format!("{}={}", e.key, e.node.scalar().unwrap()));
            Ok::<_, String>(said.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            read("s.conf").unwrap(),
            "dirty_ratio=5 laptop_mode=0 swappiness=1 lowmem_reserve_ratio=256 256 32 page-cluster=0"
        );
        assert!(read("bad.conf").unwrap_err().contains("`vm.swappiness 3`"));
        assert!(read("none.conf").unwrap_err().contains("no such file"));
    }
}
