//! Tables of sysctls: keys may be the kernel's own names, in quotes or as nested tables.
//!
//! `"vm.dirty_ratio" = 5`, `vm.dirty_ratio = 5` and `dirty_ratio = 5` are the same. Here all become the
//! last, before tables are laid over each other, so that the text above wins whatever its spelling.

use super::node::{Entry, Node, Table, Value};
use crate::diagnostic::Diagnostic;
use mm::sysctl;

/// Gives the keys of all tables `sysctl` below a node their last part alone. Others stay, for whoever
/// reads the table to complain.
///
/// # Errors
/// A sysctl that stands twice in a table, by two spellings.
pub fn last_parts(node: &mut Node) -> Result<(), Diagnostic> {
    match &mut node.value {
        Value::Table(table) => {
            for entry in &mut table.0 {
                if entry.key == "sysctl"
                    && let Value::Table(own) = &mut entry.node.value
                {
                    *own = flat(std::mem::take(own))?;
                } else {
                    last_parts(&mut entry.node)?;
                }
            }
            Ok(())
        }
        Value::List(list) => list.iter_mut().try_for_each(last_parts),
        _ => Ok(()),
    }
}

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
                format!("`{spelt}`: the sysctl stands there twice, here and as `{other}`"),
                "accepted: each sysctl once, by its whole name or its last part",
            ));
        }
        flat.push((entry, spelt));
    }
    Ok(Table(flat.into_iter().map(|(entry, _)| entry).collect()))
}

/// An entry, or those of a table that is a part of names: `vm = { dirty_ratio = 5 }`.
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
    use crate::diagnostic::Source;

    fn keys(text: &str) -> Result<String, String> {
        let mut node = Node::parse(&Source::new("f", text)).unwrap();
        last_parts(&mut node).map_err(|e| format!("{} {}", e.place.unwrap(), e.message))?;
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
}
