//! The machine of a cell: a file or an inline table, checked.

use super::{Doc, InputError, Result, beside, doc, kind, nearest};
use sim::spec::{DiskKind, Machine};
use std::path::Path;
use toml::Value;

/// Reads a machine file that an experiment names.
pub fn read(doc: &Doc, name: &str) -> Result<(String, Doc)> {
    let places = beside(doc, name);
    for place in &places {
        if let Ok(text) = std::fs::read_to_string(place) {
            return Ok((text.clone(), Doc::parse(place, &text)?));
        }
    }
    // The machines of the published series come with the program.
    if let Some((path, text)) = crate::reproduce::MACHINES.iter().find(|(path, _)| *path == name) {
        return Ok(((*text).into(), Doc::parse(Path::new(path), text)?));
    }
    let looked: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    Err(doc.error("machine", format!("`machine`: no file `{name}`"), format!("a file at one of {}", looked.join(", "))))
}

/// Builds and checks the machine of a cell.
pub fn machine(
    experiment: &Doc,
    table: &toml::Table,
    place: &dyn Fn(&str) -> String,
) -> Result<Machine> {
    match table.get("machine") {
        Some(Value::String(name)) => {
            let (_, file) = read(experiment, name)?;
            build(&file, "", &file.table, &|p| p.to_string())
        }
        Some(Value::Table(t)) => build(experiment, "machine", t, place),
        Some(v) => Err(experiment.error("machine", format!("`machine` is {}", kind(v)), "a machine file's name, or a table")),
        None => Err(experiment.error("", "`machine` is missing", "a machine file's name, or a [machine] table")),
    }
}

fn build(
    file: &Doc,
    prefix: &str,
    table: &toml::Table,
    place: &dyn Fn(&str) -> String,
) -> Result<Machine> {
    let at = |key: &str| if prefix.is_empty() { key.to_string() } else { doc::join(prefix, key) };
    let m: Machine = serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|e| {
        let path = e.path().to_string();
        let path = if path == "." { prefix.to_string() } else { at(&path) };
        serde_error(file, &place(&path), &e.inner().to_string())
    })?;
    let bad = |key: &str, message: String, accepted: &str| {
        Err(file.error(&place(&at(key)), format!("`{key}`{message}"), accepted))
    };
    if !(1..=64).contains(&m.cpus) {
        return bad("cpus", format!(" = {} is out of range", m.cpus), "1 to 64");
    }
    if ![100, 250, 300, 1000].contains(&m.hz) {
        return bad("hz", format!(" = {}", m.hz), "100, 250, 300 or 1000");
    }
    if m.nodes.is_empty() || m.nodes.len() > 64 {
        return bad("node", format!(": {} nodes", m.nodes.len()), "1 to 64 nodes");
    }
    for (n, node) in m.nodes.iter().enumerate() {
        let key = format!("node[{n}].zones");
        if node.zones.is_empty() {
            return bad(&key, " is empty".into(), "at least one zone");
        }
        if node.zones.windows(2).any(|w| w[0].zone >= w[1].zone) {
            return bad(&key, " are out of order".into(), "zones from low to high, each once: DMA, DMA32, Normal, Movable");
        }
        if let Some(z) = node.zones.iter().position(|z| z.size.0 < 1 << 20) {
            return bad(&format!("{key}[{z}].size"), " is too small".into(), "1M or more");
        }
    }
    let total: u64 = m.nodes.iter().flat_map(|n| &n.zones).map(|z| z.size.0).sum();
    if !((16 << 20)..=(4u64 << 40)).contains(&total) {
        return bad("node", format!(": {total} bytes of memory in all"), "16M to 4T");
    }
    let s = &m.sysctl;
    for (key, v) in [
        ("sysctl.dirty_ratio", s.dirty_ratio),
        ("sysctl.dirty_background_ratio", s.dirty_background_ratio),
        ("sysctl.swappiness", s.swappiness),
    ] {
        if v > 100 {
            return bad(key, format!(" = {v} is out of range"), "0 to 100");
        }
    }
    if s.min_free_kbytes.is_some_and(|kb| kb < 128 || kb * 1024 > total / 4) {
        return bad("sysctl.min_free_kbytes", " is out of range".into(), "128 to a quarter of memory");
    }
    let disks = [Some(("disk", &m.disk)), m.swap.as_ref().and_then(|s| s.disk.as_ref()).map(|d| ("swap.disk", d))];
    for (key, d) in disks.into_iter().flatten() {
        match (d.kind, d.members) {
            (DiskKind::Raid0, None) | (_, None) => {}
            (DiskKind::Raid0, Some(2..=16)) => {}
            (DiskKind::Raid0, Some(n)) => return bad(&format!("{key}.members"), format!(" = {n}"), "2 to 16"),
            (_, Some(_)) => return bad(&format!("{key}.members"), " belongs to raid0 only".into(), "no `members`, or kind = \"raid0\""),
        }
        if d.capacity.0 < 512 << 20 {
            return bad(&format!("{key}.capacity"), " is too small".into(), "512M or more");
        }
    }
    if m.swap.as_ref().is_some_and(|s| s.size.0 < 1 << 20 || s.size.0 > 1 << 42) {
        return bad("swap.size", " is out of range".into(), "1M to 4T");
    }
    Ok(m)
}

/// Turns serde's words into ours, with a hint for a misspelt key.
pub fn serde_error(file: &Doc, path: &str, text: &str) -> Box<InputError> {
    let text = text.trim().lines().next().unwrap_or("").to_string();
    if let Some((head, expected)) = text.split_once(", expected ") {
        let word = head.split('`').nth(1).unwrap_or("");
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let hint = nearest(word, known.iter().copied())
            .map_or(String::new(), |k| format!("; did you mean `{k}`?"));
        let message = format!("`{path}`: {head}{hint}");
        return if head.starts_with("unknown field") {
            file.key_error(path, message, expected)
        } else {
            file.error(path, message, expected)
        };
    }
    if let Some(field) = text.strip_prefix("missing field ") {
        let within = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        return file.error(path, format!("{field} is missing{within}"), format!("a value for {field}"));
    }
    file.error(path, format!("`{path}`: {text}"), "see `lowmark schema`")
}
