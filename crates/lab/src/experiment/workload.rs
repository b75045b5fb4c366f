//! The table `[workload]`: a command line, a trace or a fio job file.

use super::command;
use super::expand::{Choices, alternatives};
use super::machine::find_near;
use super::node::{Node, Table};
use super::read::read;
use crate::diagnostic::{Diagnostic, one_of};
use sim::spec::Machine;
use std::path::{Path, PathBuf};
use trace::{Format, Options, Survey, TraceError, Unit};
use workload::{Replay, Script, Timing};

/// What runs; one of them is there.
const KINDS: [&str; 2] = ["command", "trace"];
/// Keys that go with `trace`.
const TRACE_KEYS: [&str; 4] = ["timing", "lenient", "format", "unit"];

/// Every key of the table.
const KEYS: [&str; 6] = ["command", "trace", "timing", "lenient", "format", "unit"];

/// The workloads of an experiment in `folder`, with the choices that lead to each.
///
/// # Errors
/// What can't be read or run.
pub fn scripts(node: &Node, folder: &Path) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let Some(table) = node.table() else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`workload`: {} does not fit here", node.kind()),
            "accepted: a table [workload] with the key `command` or `trace`",
        ));
    };
    if let Some(e) = table.0.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let what = format!("unknown key `workload.{}`", e.key);
        return Err(Diagnostic::at(&e.place, what, one_of(&e.key, &KEYS)));
    }
    let mut kinds = table.0.iter().filter(|e| KINDS.contains(&e.key.as_str()));
    let Some(kind) = kinds.next() else {
        return Err(Diagnostic::at(
            &node.place,
            "missing key `workload.command`",
            "accepted: `command`, a command line in quotes, or `trace`, the file of a trace",
        ));
    };
    if let Some(second) = kinds.next() {
        return Err(Diagnostic::at(
            &second.place,
            format!("`workload.{}` beside `workload.{}`", second.key, kind.key),
            "accepted: one of them; an experiment compares policies under one kind of workload",
        ));
    }
    let extra = table
        .0
        .iter()
        .find(|e| TRACE_KEYS.contains(&e.key.as_str()));
    if let Some(e) = extra.filter(|_| kind.key != "trace") {
        return Err(Diagnostic::at(
            &e.place,
            format!("`workload.{}` without `workload.trace`", e.key),
            "accepted: it beside `trace`",
        ));
    }
    match kind.key.as_str() {
        "trace" => traces(table, &kind.node, folder),
        _ => commands(&kind.node),
    }
}

fn commands(node: &Node) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let lines = alternatives(node, "workload.command")?;
    let several = lines.len() > 1;
    lines
        .into_iter()
        .map(|(text, node)| {
            let choices = several.then(|| ("workload.command".to_owned(), text));
            Ok((choices.into_iter().collect(), command::script(node)?))
        })
        .collect()
}

fn traces(table: &Table, node: &Node, folder: &Path) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let options = Options {
        format: named(table, "format", &Format::NAMES, Format::parse)?,
        lenient: match table.get("lenient") {
            Some(node) => read(node, "workload.lenient")?,
            None => false,
        },
        unit: named(table, "unit", &Unit::NAMES, Unit::parse)?.unwrap_or_default(),
    };
    let timings = match table.get("timing") {
        Some(node) => alternatives(node, "workload.timing")?
            .into_iter()
            .map(|(text, node)| {
                let known = Timing::parse(&text);
                let timing = known.ok_or_else(|| unknown(node, "timing", &text, &Timing::NAMES))?;
                Ok((text, timing))
            })
            .collect::<Result<Vec<_>, Diagnostic>>()?,
        None => vec![(String::new(), Timing::default())],
    };
    let files = alternatives(node, "workload.trace")?;
    let mut scripts = Vec::new();
    for (name, node) in &files {
        let path = file(node, "workload.trace", name, folder)?;
        let survey = Survey::of(&path, &options).map_err(|e| {
            Diagnostic::at(
                &node.place,
                format!("`workload.trace`: {e}"),
                format!("accepted: {}", e.accepted),
            )
        })?;
        if survey.files.len() > MOST_FILES {
            return Err(Diagnostic::at(
                &node.place,
                format!("`workload.trace`: {name} has {} files", survey.files.len()),
                format!("accepted: traces of at most {MOST_FILES} files"),
            ));
        }
        for (text, timing) in &timings {
            let replay = Replay::new(path.clone(), options, *timing, survey.clone());
            let mut choices = Choices::new();
            if files.len() > 1 {
                choices.push(("workload.trace".into(), name.clone()));
            }
            if timings.len() > 1 {
                choices.push(("workload.timing".into(), text.clone()));
            }
            scripts.push((choices, replay.script()));
        }
    }
    Ok(scripts)
}

/// Files that a world has room for beside its own.
const MOST_FILES: usize = 60_000;

/// The path of a file that an experiment names.
fn file(node: &Node, key: &str, name: &str, folder: &Path) -> Result<PathBuf, Diagnostic> {
    let _: String = read(node, key)?;
    find_near(folder, name).map_err(|e| {
        Diagnostic::at(
            &node.place,
            format!("`{key}`: {name}: {e}"),
            "accepted: a file, relative to the experiment's folder or a folder above it",
        )
    })
}

fn named<T>(
    table: &Table,
    key: &str,
    names: &[&str],
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>, Diagnostic> {
    let Some(node) = table.get(key) else {
        return Ok(None);
    };
    let text: String = read(node, &format!("workload.{key}"))?;
    match parse(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(unknown(node, key, &text, names)),
    }
}

fn unknown(node: &Node, key: &str, text: &str, names: &[&str]) -> Diagnostic {
    Diagnostic::at(
        &node.place,
        format!("`workload.{key}`: unknown value `{text}`"),
        one_of(text, names),
    )
}

/// Checks that the files which a workload finds there fit a machine's disk.
///
/// # Errors
/// They do not.
pub fn fits(node: &Node, script: &Script, machine: &Machine) -> Result<(), Diagnostic> {
    let pages: u64 = script.files.iter().map(|f| f.len.div_ceil(4096)).sum();
    let capacity = machine.disk.capacity.0;
    if pages.saturating_mul(4096) <= capacity {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Err(Diagnostic::at(
        &node.place,
        format!(
            "`workload`: its files take {:.1} GiB, and the disk of machine {} holds {:.1} GiB",
            gib(pages.saturating_mul(4096)),
            machine.name,
            gib(capacity)
        ),
        "accepted: a machine with a larger `disk.capacity`",
    ))
}

/// A complaint about a trace that was named on the command line.
pub fn trace_error(e: &TraceError) -> Diagnostic {
    Diagnostic::placeless(e.to_string(), format!("accepted: {}", e.accepted))
}
