//! Names all keys that an experiment and its machines lack, in one error.

use super::disks;
use super::machine::{self, Files};
use super::node::{Node, Table, Value as Given};
use super::short::Layout;
use crate::diagnostic::{Diagnostic, Place};
use schemars::schema_for;
use serde_json::Value;
use sim::spec::plain_mount;
use std::sync::LazyLock;

/// Keys of an experiment that have no default; `filesystem` may be the machine's.
const OF_EXPERIMENT: [&str; 5] = ["name", "policy", "filesystem", "machine", "workload"];

/// Values of keys, as examples for messages.
const EXAMPLES: [(&str, &str); 13] = [
    ("name", "name = \"mine\""),
    ("policy", "policy = \"linux-6.12\""),
    ("filesystem", "filesystem = \"ext4\""),
    ("machine", "machine = \"16G,8cpus,nvme\""),
    ("workload", "[workload] with `command`"),
    ("node", "[[node]] with `zones`"),
    (
        "zones",
        "zones = [{ zone = \"DMA32\", size = \"1G\" }] or, for the whole machine, memory = \"16G\"",
    ),
    ("zone", "zone = \"Normal\""),
    ("size", "size = \"1G\""),
    ("kind", "kind = \"ssd\""),
    ("capacity", "capacity = \"64G\""),
    ("mount", "mount = \"/mnt/data\""),
    ("disk", "a table `disk` with `kind` and `capacity`"),
];

/// The schema of a machine, which says which of its keys have no default.
static MACHINE: LazyLock<Value> = LazyLock::new(|| schema_for!(sim::spec::Machine).to_value());

/// A key that is missing, by its path, and the table that lacks it.
struct Missing {
    path: String,
    place: Place,
}

/// Returns an error that names every key which the experiment or one of its machines lacks. Tables
/// with an unknown key count as whole, because that key's own error tells more.
pub fn keys(root: &Node, table: &Table, files: &Files<'_>) -> Result<(), Diagnostic> {
    // A missing key has no place, so the first character of the file stands for it.
    let start = Place {
        source: root.place.source.clone(),
        span: 0..0,
    };
    let mut missing: Vec<Missing> = Vec::new();
    let mut names_filesystem = false;
    let mut of_machines = Vec::new();
    if let Some(node) = table.get("machine") {
        let elements = match &node.value {
            Given::List(list) => &list[..],
            _ => std::slice::from_ref(node),
        };
        for element in elements {
            // A machine that can't be read is reported when it is read.
            let Ok((tree, _)) = machine::resolve(element, files, Layout::X86) else {
                names_filesystem = true;
                continue;
            };
            let named = |disk: &Node| {
                let on_root = disks::mount(disk).is_some_and(|m| plain_mount(m).is_empty());
                on_root && disk.at(&["filesystem"]).is_some()
            };
            names_filesystem |= disks::list(&tree).is_some_and(|list| list.iter().any(named));
            if of_machines.is_empty() {
                of_machines = lacks(&tree, &MACHINE, &MACHINE, "machine").unwrap_or_default();
            }
        }
    }
    for key in OF_EXPERIMENT {
        if table.get(key).is_none() && !(key == "filesystem" && names_filesystem) {
            missing.push(Missing {
                path: key.to_owned(),
                place: start.clone(),
            });
        }
    }
    missing.extend(of_machines);
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let quoted: Vec<String> = missing.iter().map(|m| format!("`{}`", m.path)).collect();
    let called = match &quoted[..] {
        [one] => format!("missing key {one}"),
        [rest @ .., last] => format!("missing keys {} and {last}", rest.join(", ")),
        [] => unreachable!("at least one is missing"),
    };
    let mut examples: Vec<String> = Vec::new();
    for Missing { path, .. } in &missing {
        let key = path.rsplit('.').next().unwrap_or(path);
        let example = EXAMPLES.iter().find(|(known, _)| *known == key);
        let example = match example {
            Some((_, example)) => (*example).to_owned(),
            None => format!("a line `{key} = …` in this table"),
        };
        if !examples.contains(&example) {
            examples.push(example);
        }
    }
    Err(Diagnostic::at(
        &first.place,
        called,
        format!("accepted: {}", examples.join("; ")),
    ))
}

/// Returns the whole name of a machine's key that stands at the top of an experiment, such as
/// `machine.cpus` for `cpus`; `None` if machines have no such key.
pub fn of_machine(key: &str) -> Option<String> {
    let machine = described(&MACHINE, &MACHINE, false)?;
    machine.get("properties")?.get(key)?;
    Some(format!("machine.{key}"))
}

/// Returns the part of a schema that describes a value: references are followed, and of several
/// forms the one for a table or a list is taken. Tables whose kind decides about their keys
/// (`oneOf`) are left to their own errors.
fn described<'s>(schema: &'s Value, all: &'s Value, is_list: bool) -> Option<&'s Value> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return described(all.pointer(name.strip_prefix('#')?)?, all, is_list);
    }
    if let Some(forms) = schema.get("anyOf").and_then(Value::as_array) {
        let mut forms = forms.iter();
        return forms.find_map(|form| described(form, all, is_list));
    }
    let key = if is_list { "items" } else { "properties" };
    schema.get(key).is_some().then_some(schema)
}

/// Returns the keys that a value lacks by its schema; `None` if a table has an unknown key.
fn lacks(node: &Node, schema: &Value, all: &Value, path: &str) -> Option<Vec<Missing>> {
    let mut missing = Vec::new();
    match &node.value {
        Given::List(list) => {
            let Some(items) = described(schema, all, true).and_then(|s| s.get("items")) else {
                return Some(missing);
            };
            for (i, element) in list.iter().enumerate() {
                missing.extend(lacks(element, items, all, &format!("{path}.{i}"))?);
            }
        }
        Given::Table(table) => {
            let Some(schema) = described(schema, all, false) else {
                return Some(missing);
            };
            let required = schema.get("required").and_then(Value::as_array);
            for key in required.into_iter().flatten().filter_map(Value::as_str) {
                if table.get(key).is_none() {
                    missing.push(Missing {
                        path: format!("{path}.{key}"),
                        place: node.place.clone(),
                    });
                }
            }
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            for entry in &table.0 {
                match schema["properties"].get(&entry.key) {
                    Some(schema) => {
                        let path = format!("{path}.{}", entry.key);
                        missing.extend(lacks(&entry.node, schema, all, &path)?);
                    }
                    None if closed => return None,
                    None => {}
                }
            }
        }
        _ => {}
    }
    Some(missing)
}
