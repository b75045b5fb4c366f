//! Experiment files: TOML in, a laid-out matrix of cells out.
//!
//! Any scalar key may be a list; then it is an axis. Axes vary in this order, outermost first: all
//! other keys in file order, then `filesystem`, then `policy`. The first policy is the baseline.

mod doc;
mod error;
mod machine;

pub use doc::Doc;
pub use error::InputError;

use crate::model::{Cell, Experiment};
use error::nearest;
use mm::Policy;
use sim::spec::{FsKind, RunSpec};
use sim::Params;
use std::path::{Path, PathBuf};
use toml::Value;

/// More cells than this are a mistake.
const MOST_CELLS: usize = 10_000;
/// Keys that are not part of the matrix.
const FIXED: [&str; 3] = ["name", "iterations", "seed"];
/// Keys at the top of an experiment file.
const TOP: [&str; 10] = [
    "name", "iterations", "seed", "policy", "filesystem", "machine", "workload", "policies",
    "params", "run",
];

type Result<T> = std::result::Result<T, Box<InputError>>;

/// Reads an experiment file; `overrides` are `key=value` texts that replace its keys.
///
/// # Errors
/// The first thing wrong with the file or with a file it names.
pub fn load(path: &Path, overrides: &[String]) -> Result<Experiment> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        InputError::at(path, "", 0..0, format!("can't read the file: {e}"), "a readable experiment file")
    })?;
    parse(&text, path, overrides)
}

/// Parses an experiment's text; files it names are looked up beside `path`.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, path: &Path, overrides: &[String]) -> Result<Experiment> {
    let mut doc = Doc::parse(path, text)?;
    for o in overrides {
        apply_override(&mut doc, o)?;
    }
    for key in doc.table.keys() {
        if !TOP.contains(&key.as_str()) {
            return Err(unknown_key(&doc, key, key, &TOP));
        }
    }
    let name = string(&doc, "name")?;
    if name.is_empty()
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        || name.starts_with('.')
    {
        return Err(doc.error("name", format!("`name` is {name:?}"), "a file name of letters, digits, `-`, `_` and `.`"));
    }
    let iterations = integer(&doc, "iterations", Some(1), 1, 1000)? as u32;
    let seed = integer(&doc, "seed", Some(1), 0, i64::MAX)? as u64;
    let axes = find_axes(&doc)?;
    let count = axes.iter().try_fold(1usize, |n, a| n.checked_mul(a.1.len()));
    if count.is_none_or(|n| n > MOST_CELLS) {
        return Err(doc.error("policy", "the matrix has too many cells", format!("at most {MOST_CELLS} cells")));
    }
    let mut cells = Vec::new();
    let mut index = vec![0usize; axes.len()];
    loop {
        cells.push(lay_out(&doc, &axes, &index)?);
        let mut i = axes.len();
        loop {
            if i == 0 {
                let axes = axes.into_iter().map(|a| a.0).collect();
                return Ok(Experiment { name, iterations, seed, text: text.into(), axes, cells });
            }
            i -= 1;
            index[i] += 1;
            if index[i] < axes[i].1.len() {
                break;
            }
            index[i] = 0;
        }
    }
}

fn apply_override(doc: &mut Doc, text: &str) -> Result<()> {
    let bad = |message: String| {
        InputError::at(Path::new("--set"), text, 0..text.len(), message, "key=value, such as machine.cpus=2")
    };
    let (key, value) = text.split_once('=').ok_or_else(|| bad("no `=`".into()))?;
    let value: Value = format!("v = {value}")
        .parse::<toml::Table>()
        .or_else(|_| format!("v = {value:?}").parse::<toml::Table>())
        .map_err(|e| bad(e.message().to_string()))?
        .remove("v")
        .expect("the key just written");
    let key = key.trim();
    if key.starts_with("machine.") && doc.get("machine").is_some_and(Value::is_str) {
        let (_, m) = machine::read(doc, &string(doc, "machine")?)?;
        doc::set(&mut doc.table, "machine", Value::Table(m.table)).map_err(&bad)?;
    }
    doc::set(&mut doc.table, key, value).map_err(bad)
}

fn unknown_key(doc: &Doc, path: &str, key: &str, known: &[&str]) -> Box<InputError> {
    let hint = nearest(key, known.iter().copied())
        .map_or(String::new(), |k| format!("; did you mean `{k}`?"));
    doc.key_error(path, format!("unknown key `{key}`{hint}"), format!("one of {}", known.join(", ")))
}

fn string(doc: &Doc, path: &str) -> Result<String> {
    match doc.get(path) {
        Some(Value::String(s)) => Ok(s.clone()),
        Some(v) => Err(doc.error(path, format!("`{path}` is {}", kind(v)), "a text in quotes")),
        None => Err(doc.error("", format!("`{path}` is missing"), format!("`{path} = \"…\"`"))),
    }
}

fn integer(doc: &Doc, path: &str, default: Option<i64>, min: i64, max: i64) -> Result<i64> {
    match (doc.get(path), default) {
        (Some(Value::Integer(n)), _) if (min..=max).contains(n) => Ok(*n),
        (Some(Value::Integer(n)), _) => {
            Err(doc.error(path, format!("`{path}` = {n} is out of range"), format!("{min} to {max}")))
        }
        (Some(v), _) => Err(doc.error(path, format!("`{path}` is {}", kind(v)), "a whole number")),
        (None, Some(d)) => Ok(d),
        (None, None) => Err(doc.error("", format!("`{path}` is missing"), "a whole number")),
    }
}

pub(crate) fn kind(v: &Value) -> &'static str {
    match v {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "a truth value",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Keys that are lists by nature.
fn natively_list(path: &str) -> bool {
    ["machine.node", "machine.disk.faults", "machine.swap.disk.faults"].contains(&path)
}

/// The keys that vary, with their values, in matrix order.
fn find_axes(doc: &Doc) -> Result<Vec<(String, Vec<Value>)>> {
    let mut axes: Vec<(String, Vec<Value>)> = Vec::new();
    collect_axes(doc, "", &doc.table, &mut axes)?;
    let place = |path: &str| doc.keys.get(path).map_or(usize::MAX, |s| s.start);
    axes.sort_by_key(|(path, _)| match path.as_str() {
        "policy" => (2, 0),
        "filesystem" => (1, 0),
        p => (0, place(p)),
    });
    for key in ["filesystem", "policy"] {
        if !axes.iter().any(|a| a.0 == key) {
            let value = Value::String(string(doc, key)?);
            let at = if key == "policy" { axes.len() } else { axes.len() - usize::from(axes.last().is_some_and(|a| a.0 == "policy")) };
            axes.insert(at, (key.into(), vec![value]));
        }
    }
    Ok(axes)
}

fn collect_axes(
    doc: &Doc,
    prefix: &str,
    table: &toml::Table,
    axes: &mut Vec<(String, Vec<Value>)>,
) -> Result<()> {
    for (key, value) in table {
        let path = doc::join(prefix, key);
        match value {
            Value::Table(t) if !path.starts_with("policies") => collect_axes(doc, &path, t, axes)?,
            Value::Array(values) if !natively_list(&path) && !path.starts_with("policies") => {
                if FIXED.contains(&path.as_str()) {
                    return Err(doc.error(&path, format!("`{path}` can't be a list"), "one value"));
                }
                if values.is_empty() {
                    return Err(doc.error(&path, format!("`{path}` is an empty list"), "at least one value"));
                }
                for (i, v) in values.iter().enumerate() {
                    if values[..i].contains(v) {
                        return Err(doc.error(&format!("{path}[{i}]"), format!("`{path}` has {v} twice"), "each value once"));
                    }
                }
                axes.push((path, values.clone()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// One cell: every axis set to one of its values.
fn lay_out(doc: &Doc, axes: &[(String, Vec<Value>)], index: &[usize]) -> Result<Cell> {
    let mut table = doc.table.clone();
    let mut labels = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for ((path, values), &i) in axes.iter().zip(index) {
        let value = values[i].clone();
        labels.push((path.clone(), plain(&value)));
        if values.len() > 1 || doc.get(path).is_some_and(Value::is_array) {
            places.insert(path.clone(), format!("{path}[{i}]"));
        }
        doc::set(&mut table, path, value).expect("an axis is a key of the file");
    }
    let place = |path: &str| places.get(path).cloned().unwrap_or_else(|| path.to_string());
    let policy_name = text_at(doc, &table, "policy", &place)?;
    let filesystem_name = text_at(doc, &table, "filesystem", &place)?;
    let policy = policy(doc, &policy_name, &place("policy"))?;
    let filesystem = filesystem(doc, &filesystem_name, &place("filesystem"))?;
    let machine = machine::machine(doc, &table, &place)?;
    let workload = workload_of(doc, &table, &place)?;
    let params = params(doc, &table, &place)?;
    let run = run_keys(doc, &table, &place)?;
    let first = axes.iter().position(|a| a.0 == "policy").is_some_and(|i| index[i] == 0);
    Ok(Cell {
        axes: labels,
        machine: machine.name.clone(),
        filesystem: filesystem_name,
        policy: policy_name,
        baseline: first,
        spec: RunSpec {
            machine,
            filesystem,
            policy,
            workload,
            params,
            seed: 0,
            sample_ns: (run.0 * 1e9) as u64,
            check_ns: 0,
            track_pages: false,
            time_limit_ns: (run.1 * 1e9) as u64,
        },
    })
}

fn plain(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        v => v.to_string(),
    }
}

fn text_at(
    doc: &Doc,
    table: &toml::Table,
    path: &str,
    place: &dyn Fn(&str) -> String,
) -> Result<String> {
    match doc::get(table, path) {
        Some(Value::String(s)) => Ok(s.clone()),
        Some(v) => Err(doc.error(&place(path), format!("`{path}` is {}", kind(v)), "a text in quotes")),
        None => Err(doc.error("", format!("`{path}` is missing"), format!("`{path} = \"…\"`"))),
    }
}

fn policy(doc: &Doc, name: &str, place: &str) -> Result<Policy> {
    let defined = doc.get("policies").and_then(Value::as_table);
    let Some(entry) = defined.and_then(|t| t.get(name)) else {
        return Policy::preset(name).ok_or_else(|| {
            let mut known: Vec<&str> = Policy::PRESETS.to_vec();
            known.extend(defined.into_iter().flat_map(toml::Table::keys).map(String::as_str));
            let hint = nearest(name, known.iter().copied())
                .map_or(String::new(), |k| format!("; did you mean `{k}`?"));
            doc.error(place, format!("`policy`: no policy `{name}`{hint}"), format!("one of {}, or a [policies.{name}] of your own", known.join(", ")))
        });
    };
    let path = format!("policies.{name}");
    let Value::Table(entry) = entry else {
        return Err(doc.error(&path, format!("`{path}` is {}", kind(entry)), "a table with `base` and switches"));
    };
    let base_path = format!("{path}.base");
    let base = match entry.get("base") {
        Some(Value::String(b)) => Policy::preset(b).ok_or_else(|| {
            doc.error(&base_path, format!("`{base_path}`: no preset `{b}`"), format!("one of {}", Policy::PRESETS.join(", ")))
        })?,
        Some(v) => return Err(doc.error(&base_path, format!("`{base_path}` is {}", kind(v)), "a preset's name")),
        None => return Err(doc.error(&path, format!("`{base_path}` is missing"), format!("base = one of {}", Policy::PRESETS.join(", ")))),
    };
    let mut merged = toml::Table::try_from(&base).expect("a policy is plain data");
    for (key, value) in entry {
        if key == "base" {
            continue;
        }
        if key == "name" || !merged.contains_key(key) {
            let known: Vec<&str> = merged.keys().map(String::as_str).filter(|k| *k != "name").chain(["base"]).collect();
            return Err(unknown_key(doc, &format!("{path}.{key}"), key, &known));
        }
        merged.insert(key.clone(), value.clone());
    }
    merged.insert("name".into(), Value::String(name.into()));
    serde_path_to_error::deserialize(Value::Table(merged)).map_err(|e| {
        let at = format!("{path}.{}", e.path());
        machine::serde_error(doc, &at, &e.inner().to_string())
    })
}

fn filesystem(doc: &Doc, name: &str, place: &str) -> Result<FsKind> {
    let all = [FsKind::Xfs, FsKind::Ext4, FsKind::Ext3, FsKind::Btrfs, FsKind::FuseNtfs];
    all.into_iter().find(|k| k.name() == name).ok_or_else(|| {
        let known = all.map(FsKind::name);
        let hint = nearest(name, known).map_or(String::new(), |k| format!("; did you mean `{k}`?"));
        doc.error(place, format!("`filesystem`: no model of `{name}`{hint}"), format!("one of {}", known.join(", ")))
    })
}

fn workload_of(
    doc: &Doc,
    table: &toml::Table,
    place: &dyn Fn(&str) -> String,
) -> Result<workload::Script> {
    match table.get("workload") {
        Some(Value::Table(t)) => {
            for key in t.keys() {
                if key != "command" {
                    return Err(unknown_key(doc, &format!("workload.{key}"), key, &["command"]));
                }
            }
        }
        Some(v) => return Err(doc.error("workload", format!("`workload` is {}", kind(v)), "a table with `command`")),
        None => return Err(doc.error("", "`workload` is missing", "[workload] with command = \"dd if=… of=…\"")),
    }
    let line = text_at(doc, table, "workload.command", place)?;
    workload::parse(&line).map_err(|e| {
        doc.error_in(&place("workload.command"), Some(e.span.clone()), format!("`workload.command`: {}", e.message), e.accepted)
    })
}

fn number(v: &Value) -> Option<f64> {
    match v {
        Value::Integer(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn params(doc: &Doc, table: &toml::Table, place: &dyn Fn(&str) -> String) -> Result<Params> {
    let mut params = Params::default();
    match table.get("params") {
        None => {}
        Some(Value::Table(t)) => {
            for (name, v) in t {
                let path = format!("params.{name}");
                let Some(x) = number(v) else {
                    return Err(doc.error(&place(&path), format!("`{path}` is {}", kind(v)), "a number"));
                };
                params.set(name, x).map_err(|e| {
                    let known = Params::TABLE.iter().map(|p| p.name);
                    let hint = nearest(name, known).filter(|k| k != name).map_or(String::new(), |k| format!("did you mean `{k}`? "));
                    doc.error(&place(&path), format!("`{path}`: {e}"), format!("{hint}a parameter of the table, within its range"))
                })?;
            }
        }
        Some(v) => return Err(doc.error("params", format!("`params` is {}", kind(v)), "a table of numbers")),
    }
    Ok(params)
}

/// (sample, time limit) in seconds.
fn run_keys(
    doc: &Doc,
    table: &toml::Table,
    place: &dyn Fn(&str) -> String,
) -> Result<(f64, f64)> {
    let (mut sample, mut limit) = (1.0, 0.0);
    match table.get("run") {
        None => {}
        Some(Value::Table(t)) => {
            for (key, v) in t {
                let path = format!("run.{key}");
                let slot = match key.as_str() {
                    "sample" => &mut sample,
                    "time_limit" => &mut limit,
                    _ => return Err(unknown_key(doc, &path, key, &["sample", "time_limit"])),
                };
                match number(v) {
                    Some(x) if (0.0..=1e9).contains(&x) => *slot = x,
                    _ => return Err(doc.error(&place(&path), format!("`{path}` = {v}"), "seconds, 0 to 1e9 (0: never)")),
                }
            }
        }
        Some(v) => return Err(doc.error("run", format!("`run` is {}", kind(v)), "a table")),
    }
    Ok((sample, limit))
}

/// Where a file that an experiment names may lie.
pub(crate) fn beside(doc: &Doc, name: &str) -> Vec<PathBuf> {
    let folder = doc.path.parent().unwrap_or(Path::new("."));
    let mut places = vec![folder.join(name)];
    if let Some(parent) = folder.parent() {
        places.push(parent.join(name));
    } else {
        places.push(Path::new("..").join(name));
    }
    places.push(PathBuf::from(name));
    places
}
