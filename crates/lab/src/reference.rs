//! Describes what can be written in an experiment file and what stands in tables of results, by
//! name: keys of experiment files, sysctls, programs, model parameters, columns. `lowmark explain`
//! looks names up here after the rows and words of [`crate::rows::explain`].
//!
//! Only the columns are listed by hand: keys and sysctls come from the schema, programs and
//! parameters from their tables.

use crate::experiment::schema;
use crate::rows::explain::{self, Parts, plain};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The heading of the keys of experiment files.
pub const KEYS: &str = "Keys of an experiment";
/// The heading of the sysctls.
pub const SYSCTLS: &str = "Sysctls";
/// The heading of the programs.
pub const PROGRAMS: &str = "Programs";
/// The heading of the model's parameters.
pub const PARAMETERS: &str = "Model parameters";
/// The heading of the columns of tables.
pub const COLUMNS: &str = "Columns of tables";

/// Keys whose table is not listed under its key: its names have a heading of their own, or are
/// chosen by the user.
const CLOSED: [&str; 3] = ["sysctl", "params", "files"];

/// Columns of the CSV files that hold no figure, and their meanings.
const OF_TABLES: &[(&str, &str)] = &[
    (
        "kind",
        "summary.csv: `outcome` (the number of iterations with this outcome), `metric` or `counter`",
    ),
    (
        "n",
        "the number of completed iterations that have the figure",
    ),
    ("mean", "arithmetic mean over the iterations that completed"),
    ("sd", "standard deviation of the sample, with n - 1"),
    (
        "stddev",
        "standard deviation, population form, as MMTests prints it",
    ),
    ("min", "the least value of an iteration"),
    (
        "median",
        "the middle value of the iterations, or the mean of the two middle ones",
    ),
    ("max", "the greatest value of an iteration"),
    (
        "mean_low",
        "the lower end of the 95 % interval of the mean: by Student's t, or by the bootstrap where Student's t would reach below 0",
    ),
    (
        "mean_high",
        "the upper end of the 95 % interval of the mean",
    ),
    (
        "change_percent",
        "change against the baseline as in the reports of 2011: 100 (new - base) / new, positive for a gain",
    ),
    (
        "significant",
        "whether the difference is claimed: `lowmark explain claimed`",
    ),
    (
        "unsupported",
        "the reason for a missing value: the engine, or the real kernel, does not produce it",
    ),
    ("iteration", "the iteration's number, from 0"),
    (
        "outcome",
        "how the iteration ended: completed, oom, failed, time-limit, interrupted",
    ),
    ("simulated", "simulated seconds from boot to the end"),
    (
        "class",
        "tasks.csv: the kind of task: workload, kswapd, flusher, filesystem, monitor",
    ),
    ("tasks", "tasks.csv: the number of tasks of the class"),
    ("block", "rows.csv: the block of a report that has the row"),
    (
        "row",
        "rows.csv: the row's name; `lowmark explain` explains each",
    ),
    (
        "better",
        "whether lower or higher values are better, or neither",
    ),
];

/// Returns all entries of this module, in the order of the headings.
pub fn entries() -> &'static [Parts] {
    static ALL: LazyLock<Vec<Parts>> = LazyLock::new(all);
    &ALL
}

/// Builds an entry that has a text only, under the heading `kind`; `also` are further names by
/// which it is found. Its strings are leaked once: the table is static.
fn note(kind: &'static str, name: String, also: Vec<String>, text: String) -> Parts {
    let also: Vec<&'static str> = also.into_iter().map(|a| &*a.leak()).collect();
    Parts {
        name: name.leak(),
        also: also.leak(),
        kind,
        definition: text.leak(),
        unit: "",
        kernels: "",
        better: None,
        high: "",
        related: &[],
        policy: None,
    }
}

/// Collects the entries of `lowmark explain` in this module: keys of experiments, sysctls,
/// programs, parameters, columns.
fn all() -> Vec<Parts> {
    let schema = schema();
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    keys(&schema, &schema, "", 0, &mut |path, text| {
        if seen.insert(path.to_owned()) {
            out.push(note(KEYS, format!("key: {path}"), Vec::new(), text));
        }
    });
    let mut sysctls = Vec::new();
    if let Some(table) = schema.pointer("/$defs/Sysctl") {
        properties(&schema, table, &mut |key, of| {
            let whole = format!("vm.{key}");
            sysctls.push(note(
                SYSCTLS,
                format!("sysctl: {whole}"),
                vec![key.to_owned()],
                description(&schema, of),
            ));
        });
    }
    out.extend(sysctls);
    for (name, usage) in workload::programs::usages() {
        let text = format!("{usage}; docs/programs.md describes each part");
        out.push(note(PROGRAMS, format!("program: {name}"), Vec::new(), text));
    }
    for p in sim::Params::TABLE {
        let fitted = match p.fitted.is_empty() {
            true => String::new(),
            false => format!("; fitted to {}", p.fitted.join(", ")),
        };
        let text = format!(
            "{}; {} in [{}, {}]{fitted}",
            p.source, p.value, p.min, p.max
        );
        let mut parts = note(
            PARAMETERS,
            format!("parameter: {}", p.name),
            Vec::new(),
            text,
        );
        parts.unit = p.unit;
        out.push(parts);
    }
    for (name, text) in OF_TABLES {
        out.push(note(
            COLUMNS,
            format!("column: {name}"),
            Vec::new(),
            (*text).to_owned(),
        ));
    }
    for name in crate::rows::time::task_columns() {
        let text = format!(
            "tasks.csv: seconds summed over the tasks of a class; `compare` accepts the column as `CLASS:{name}`, such as `workload:{name}`"
        );
        out.push(note(COLUMNS, format!("column: {name}"), Vec::new(), text));
    }
    out
}

/// Returns the schema that `$ref` leads to, or the schema `of` itself. `root` is the whole JSON
/// schema.
fn resolved<'a>(root: &'a Value, mut of: &'a Value) -> &'a Value {
    while let Some(to) = of.get("$ref").and_then(Value::as_str) {
        let Some(found) = root.pointer(to.trim_start_matches('#')) else {
            break;
        };
        of = found;
    }
    of
}

/// Returns the schemas that a value may follow: the schema `of` itself and, if it is a choice or a
/// list, those in it. `root` is the whole JSON schema.
fn choices<'a>(root: &'a Value, of: &'a Value) -> Vec<&'a Value> {
    let of = resolved(root, of);
    let mut out = vec![of];
    for form in ["anyOf", "oneOf", "allOf"] {
        let list = of.get(form).and_then(Value::as_array);
        out.extend(list.into_iter().flatten().flat_map(|o| choices(root, o)));
    }
    if let Some(items) = of.get("items") {
        out.extend(choices(root, items));
    }
    out
}

/// Calls `each` with every key that a table may have by its schema `of`, and with the key's schema;
/// keys that users choose are called `NAME`. `root` is the whole JSON schema.
fn properties<'a>(root: &'a Value, of: &'a Value, each: &mut dyn FnMut(&str, &'a Value)) {
    for choice in choices(root, of) {
        let own = choice.get("properties").and_then(Value::as_object);
        for (key, of) in own.into_iter().flatten() {
            each(key, of);
        }
        if let Some(of) = choice.get("additionalProperties").filter(|a| a.is_object()) {
            each("NAME", of);
        }
    }
}

/// Most levels of keys, more than any experiment has: a schema may contain itself.
const DEEPEST: usize = 6;

/// Calls `each` with the path and the description of every key below a table with the schema `of`,
/// down to [`DEEPEST`] levels. `path` is the table's own path, and `depth` its level; `root` is the
/// whole JSON schema.
fn keys(root: &Value, of: &Value, path: &str, depth: usize, each: &mut dyn FnMut(&str, String)) {
    let mut below = Vec::new();
    properties(root, of, &mut |key, of| below.push((key.to_owned(), of)));
    for (key, of) in below {
        // A policy's switches have entries of their own.
        if path == "policies.NAME" && mm::policy::switches().any(|s| s.name == key) {
            continue;
        }
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        each(&path, description(root, of));
        if depth < DEEPEST && !CLOSED.contains(&&key[..]) {
            keys(root, of, &path, depth + 1, each);
        }
    }
}

/// Returns the description of a value in the JSON schema, and the words, ranges and types that it
/// accepts. `root` is the whole schema, and `of` that of the value.
fn description(root: &Value, of: &Value) -> String {
    let all = choices(root, of);
    let word = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut text = std::iter::once(of)
        .chain(all.iter().copied())
        .find_map(|v| word(v, "description"))
        .unwrap_or_default()
        .replace('\n', " ");
    let mut accepted: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if !accepted.contains(&text) {
            accepted.push(text);
        }
    };
    for v in &all {
        let words = v
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for word in words.filter_map(Value::as_str) {
            add(format!("`{word}`"));
        }
        if let Some(w) = v.get("const").and_then(Value::as_str) {
            add(format!("`{w}`"));
        }
        match (v.get("minimum"), v.get("maximum")) {
            (Some(a), Some(b)) => add(format!("{a} to {b}")),
            // A minimum of 0 is not worth telling.
            (Some(a), None) if a.as_f64() != Some(0.0) => add(format!("{a} or more")),
            _ => {}
        }
        let types = match v.get("type") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![&one[..]],
            _ => Vec::new(),
        };
        for t in types {
            match t {
                "boolean" => add("true or false".into()),
                "object" if v.get("properties").is_some() => add("a table".into()),
                _ => {}
            }
        }
    }
    if text.is_empty() {
        text = "(described by its parts)".into();
    }
    if !accepted.is_empty() {
        text = format!(
            "{}; accepted: {}",
            text.trim_end_matches('.'),
            accepted.join(", ")
        );
    }
    text
}

/// Yields the names of an entry: the whole name, the name without its heading's word, other names,
/// and the last part of a key.
fn names(e: &Parts) -> impl Iterator<Item = &'static str> {
    let label = e.name.split_once(": ").map(|(_, l)| l);
    let last = label.and_then(|l| l.rsplit_once('.')).map(|(_, last)| last);
    [Some(e.name), label]
        .into_iter()
        .flatten()
        .chain(e.also.iter().copied())
        .chain(last)
}

/// Returns all entries of this name, those of rows and words first.
///
/// # Errors
/// Returns similar names, best first, if nothing has this name.
pub fn find(name: &str) -> Result<Vec<Parts>, Vec<&'static str>> {
    let wanted = plain(name);
    // Entries of this name: by their first two names only, or by any of them.
    let by = |whole: bool| -> Vec<&Parts> {
        let is = |n: &str| plain(n) == wanted && !wanted.is_empty();
        let all = entries().iter();
        all.filter(|e| names(e).take(if whole { 2 } else { 9 }).any(is))
            .collect()
    };
    let whole = by(true);
    let found = if whole.is_empty() { by(false) } else { whole };
    let known = explain::explain(name);
    let mut out: Vec<Parts> = known.iter().flatten().map(|e| e.parts()).collect();
    // Drop a row found only by its counter's shortened name if a key has the whole name.
    if !found.is_empty() && !out.iter().any(|p| explain::answers_to(p, name)) {
        out.clear();
    }
    out.extend(found.into_iter().cloned());
    if !out.is_empty() {
        return Ok(out);
    }
    let own = entries()
        .iter()
        .flat_map(|e| names(e).map(move |n| (n, e.name)));
    Err(explain::near_of(&wanted, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written_is_explained() {
        for (asked, name, told) in [
            ("iterations", "key: iterations", "1 to 1000"),
            ("machine.cpus", "key: machine.cpus", "CPUs"),
            ("vm.dirty_ratio", "sysctl: vm.dirty_ratio", ""),
            ("dirty_ratio", "sysctl: vm.dirty_ratio", ""),
            ("dd", "program: dd", "if=FILE"),
            ("cost_page_alloc", "parameter: cost_page_alloc", "order-0"),
            ("sd", "column: sd", "n - 1"),
            (
                "reclaim_device",
                "column: reclaim_device",
                "workload:reclaim_device",
            ),
            ("kswapd_writeback", "kswapd_writeback", ""),
            ("elapsed", "duration: Total Elapsed Time (seconds)", ""),
        ] {
            let found = find(asked).unwrap_or_else(|near| panic!("{asked}: {near:?}"));
            let e = found.iter().find(|e| e.name == name);
            let e = e.unwrap_or_else(|| panic!("{asked}: {found:?}"));
            assert!(e.to_text().contains(told), "{}", e.to_text());
        }
        assert!(
            find("vm.dirty_ratoi")
                .unwrap_err()
                .contains(&"sysctl: vm.dirty_ratio")
        );
        assert!(find("xyzzy").unwrap_err().is_empty());
    }

    #[test]
    fn every_key_parameter_sysctl_and_program_has_its_entry_and_text() {
        let of = |kind: &str| entries().iter().filter(|e| e.kind == kind).count();
        assert_eq!(of(PARAMETERS), sim::Params::TABLE.len());
        assert_eq!(of(PROGRAMS), workload::programs::named().count());
        assert!(
            of(KEYS) > 80 && of(SYSCTLS) > 15,
            "{} {}",
            of(KEYS),
            of(SYSCTLS)
        );
        let mut seen = BTreeSet::new();
        for e in entries() {
            assert!(seen.insert(e.name), "{} twice", e.name);
            assert!(!e.definition.is_empty(), "{}", e.name);
            let label = e.name.split_once(": ").expect("a heading's word").1;
            let found = find(label).unwrap_or_else(|_| panic!("{label}"));
            assert!(found.iter().any(|f| f.name == e.name), "{label}");
        }
    }
}
