//! Reads the table `[workload]`: a command line, a trace or a fio job file.

use super::expand::{Choices, MOST as MOST_VARIANTS, alternatives, too_many};
use super::machine::find_near;
use super::node::{Node, Table, Value};
use super::read::read;
use super::{command, foreign};
use crate::diagnostic::{Diagnostic, Place, Source, one_of};
use crate::model::Experiment;
use mm::ZoneType;
use sim::spec::{Machine, Size, mount_of};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trace::{Format, Layout, Options, Survey, TraceError, Unit};
use workload::{Cpus, ExistingFile, Replay, Script, Timing, fio};

/// The keys that say what runs; exactly one must be given.
const KINDS: [&str; 4] = ["command", "trace", "fio", "fio_args"];
/// Keys that go with `trace`.
const TRACE_KEYS: [&str; 5] = ["timing", "lenient", "format", "columns", "unit"];

/// Every key of the table.
const KEYS: [&str; 14] = [
    "command", "trace", "fio", "files", "timing", "lenient", "format", "columns", "unit",
    "membind", "name", "threads", "group", "fio_args",
];

/// A workload with its names and its binding.
#[derive(Clone)]
pub struct Workload {
    /// The programs and files of the workload.
    pub script: Script,
    /// The name of the workload in published tables; empty if it is not given.
    pub name: String,
    /// The label of its number of threads in published tables, such as `16X`; empty if it is not
    /// given.
    pub threads: String,
    /// The node that its memory comes from, and the place of this setting.
    pub membind: Option<(u32, Place)>,
    /// The memory control group that all its programs run in, if one is named.
    pub group: Option<String>,
}

/// Reads the table `[workload]` (`node`) of an experiment in `folder`. Returns all workloads, with
/// the choices that lead to each.
///
/// # Errors
/// Fails on a workload that can't be read or run.
pub fn workloads(node: &Node, folder: &Path) -> Result<Vec<(Choices, Workload)>, Diagnostic> {
    let scripts = scripts(node, folder, None)?;
    let table = node.table();
    let labels = threads(table.and_then(|t| t.get("threads")), scripts.len())?;
    // The label of threads replaces the command line wherever the matrix is shown.
    let is_command = table.is_some_and(|t| t.get("command").is_some());
    let short = is_command && scripts.len() > 1 && !labels.is_empty();
    let labelled = |(i, (choices, script)): (usize, (Choices, Script))| {
        let label = labels.get(i).cloned().unwrap_or_default();
        let choices = match short {
            true => vec![("workload.threads".to_owned(), label.clone())],
            false => choices,
        };
        (choices, script, label)
    };
    bound(
        node,
        scripts.into_iter().enumerate().map(labelled).collect(),
    )
}

/// Combines scripts with the NUMA nodes that `workload.membind` names, from which their memory
/// comes. Each script has the choices that lead to it and its label of threads. `node` is the table
/// `[workload]`.
///
/// # Errors
/// Fails on a name or a node that can't be read.
pub fn bound(
    node: &Node,
    scripts: Vec<(Choices, Script, String)>,
) -> Result<Vec<(Choices, Workload)>, Diagnostic> {
    let key = |key| node.table().and_then(|t| t.get(key));
    let name: String = match key("name") {
        Some(name) => read(name, "workload.name")?,
        None => String::new(),
    };
    let bindings: Chosen<u32> = chosen(key("membind"), "workload.membind")?;
    let groups: Chosen<String> = chosen(key("group"), "workload.group")?;
    let mut all = Vec::with_capacity(scripts.len() * bindings.len() * groups.len());
    for (choices, script, threads) in scripts {
        for (bound, membind) in &bindings {
            for (grouped, group) in &groups {
                let workload = Workload {
                    script: script.clone(),
                    name: name.clone(),
                    threads: threads.clone(),
                    membind: membind.clone(),
                    group: group.as_ref().map(|(name, _)| name.clone()),
                };
                all.push(([&choices[..], bound, grouped].concat(), workload));
            }
        }
    }
    Ok(all)
}

/// Returns the labels in `workload.threads` (`node`), one for each of the `scripts` command lines,
/// in their order; empty if the key is absent.
fn threads(node: Option<&Node>, scripts: usize) -> Result<Vec<String>, Diagnostic> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let names = alternatives(node, "workload.threads")?;
    if names.len() != scripts {
        return Err(Diagnostic::at(
            &node.place,
            format!(
                "`workload.threads`: {} names for {scripts} workloads",
                names.len()
            ),
            "accepted: one name for each command line, in the same order",
        ));
    }
    names
        .into_iter()
        .map(|(_, node)| read(node, "workload.threads"))
        .collect()
}

/// Values of a key that may be a list, each with its place and the choice that leads to it; a
/// single `None` where the key is absent.
type Chosen<T> = Vec<(Choices, Option<(T, Place)>)>;

/// Reads the key `path`, whose value is `node`: one value, or a list of values as an axis.
fn chosen<T: serde::de::DeserializeOwned>(
    node: Option<&Node>,
    path: &str,
) -> Result<Chosen<T>, Diagnostic> {
    let Some(node) = node else {
        return Ok(vec![(Choices::new(), None)]);
    };
    let values = alternatives(node, path)?;
    let several = values.len() > 1;
    values
        .into_iter()
        .map(|(text, at)| {
            let choices = several.then(|| (path.to_owned(), text));
            let value = (read(at, path)?, at.place.clone());
            Ok((choices.into_iter().collect(), Some(value)))
        })
        .collect()
}

/// Returns the scripts of the table `[workload]` with the choices that lead to each; `command`, if
/// given, replaces the table's own command line. Relative paths are looked up from `folder`.
///
/// # Errors
/// Fails on a script that can't be read or run.
pub fn scripts(
    node: &Node,
    folder: &Path,
    command: Option<&Node>,
) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let Some(table) = node.table() else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`workload`: {} does not fit here", node.kind()),
            "accepted: a table [workload] with the key `command`, `trace`, `fio` or `fio_args`",
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
            "accepted: `command`, a command line in quotes; `trace`, a trace's file; `fio`, a job \
             file; or `fio_args`, fio's options",
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
            "accepted: this key beside `trace`",
        ));
    }
    let files = table.0.iter().find(|e| e.key == "files");
    if let Some(e) = files.filter(|_| kind.key != "command") {
        return Err(Diagnostic::at(
            &e.place,
            "`workload.files` without `workload.command`",
            "accepted: `files` beside `command`; a trace and a job file define their files themselves",
        ));
    }
    match kind.key.as_str() {
        "trace" => traces(table, &kind.node, folder),
        "fio" => job_files(&kind.node, folder),
        "fio_args" => job_lines(&kind.node, folder),
        _ => commands(
            command.unwrap_or(&kind.node),
            files.map(|e| &e.node),
            folder,
        ),
    }
}

/// Returns the values of `workload.command` (`node`), each with its text: command lines and users'
/// own programs. Fails if one is listed twice.
fn command_lines(node: &Node) -> Result<Vec<(String, &Node)>, Diagnostic> {
    let programs = foreign::nodes(node);
    if programs.is_empty() {
        return alternatives(node, "workload.command");
    }
    let Value::List(list) = &node.value else {
        return Ok(vec![(String::new(), node)]);
    };
    let mut lines: Vec<(String, &Node)> = Vec::with_capacity(list.len());
    for node in list {
        let text = node.at(&["run"]).and_then(Node::text).or(node.text());
        let text = text.unwrap_or_default().to_owned();
        if lines.iter().any(|(known, _)| *known == text) {
            return Err(Diagnostic::at(
                &node.place,
                format!("`workload.command`: `{text}` is listed twice"),
                "accepted: each command line once; for other root folders write another experiment",
            ));
        }
        lines.push((text, node));
    }
    Ok(lines)
}

/// Returns the scripts of `workload.command` (`node`) for each choice of `workload.files`, with the
/// choices that lead to each.
fn commands(
    node: &Node,
    files: Option<&Node>,
    folder: &Path,
) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let lines = command_lines(node)?;
    let files = existing_files(files)?;
    let variants = lines.len().saturating_mul(files.len());
    if variants > MOST_VARIANTS {
        return Err(too_many(&node.place, variants));
    }
    let mut scripts = Vec::with_capacity(lines.len() * files.len());
    for (text, node) in &lines {
        let script = match node.table() {
            Some(table) => foreign::script(node, table, folder)?,
            None => command::script(node)?,
        };
        for (sizes, files) in &files {
            let mut script = script.clone();
            for file in files {
                // The experiment's files override those that a program needs.
                script.files.retain(|f| f.path != file.path);
            }
            script.files.extend(files.iter().cloned());
            let mut choices = Choices::new();
            if lines.len() > 1 {
                choices.push(("workload.command".to_owned(), text.clone()));
            }
            choices.extend(sizes.iter().cloned());
            scripts.push((choices, script));
        }
    }
    Ok(scripts)
}

/// Reads `workload.files`: paths and sizes of files that exist before the workload starts. A list
/// of sizes makes an axis: returns the files for each combination of sizes, with the choices that
/// lead to it.
fn existing_files(node: Option<&Node>) -> Result<Vec<(Choices, Vec<ExistingFile>)>, Diagnostic> {
    let mut all = vec![(Choices::new(), Vec::new())];
    let Some(node) = node else {
        return Ok(all);
    };
    let Some(table) = node.table() else {
        return Err(Diagnostic::at(
            &node.place,
            format!("`workload.files`: {} does not fit here", node.kind()),
            "accepted: a table of paths and sizes, such as { big = \"2G\" }",
        ));
    };
    if table.0.len() > MOST_FILES {
        return Err(Diagnostic::at(
            &node.place,
            format!("`workload.files`: {} files", table.0.len()),
            format!("accepted: at most {MOST_FILES} files"),
        ));
    }
    let mut paths = BTreeSet::new();
    for entry in &table.0 {
        let path = entry.key.as_str();
        let plain = path.split('/').all(|name| !name.is_empty());
        if !plain || !paths.insert(path) {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`workload.files`: `{path}` is not a valid path in the tested filesystem"),
                "accepted: names joined by single slashes, such as \"dir/big\"",
            ));
        }
        let key = format!("workload.files.{path}");
        let sizes = alternatives(&entry.node, &key)?;
        let file = |node| {
            let Size(len) = read(node, &key)?;
            let path = path.to_owned();
            Ok(ExistingFile { path, len })
        };
        if let [(_, node)] = sizes[..] {
            let file = file(node)?;
            all.iter_mut()
                .for_each(|(_, files)| files.push(file.clone()));
            continue;
        }
        let variants = all.len().saturating_mul(sizes.len());
        if variants > MOST_VARIANTS {
            return Err(too_many(&entry.place, variants));
        }
        let mut next = Vec::with_capacity(variants);
        for (choices, files) in &all {
            for (text, node) in &sizes {
                let (mut choices, mut files) = (choices.clone(), files.clone());
                choices.push((key.clone(), text.clone()));
                files.push(file(node)?);
                next.push((choices, files));
            }
        }
        // Each combination so far was multiplied by the sizes of this file.
        all = next;
    }
    Ok(all)
}

/// Returns the scripts of the fio job files that `workload.fio` (`node`) names, with the choices
/// that lead to each.
fn job_files(node: &Node, folder: &Path) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let files = alternatives(node, "workload.fio")?;
    let several = files.len() > 1;
    files
        .into_iter()
        .map(|(name, node)| {
            let path = file(node, "workload.fio", &name, folder)?;
            let shown = path.display().to_string();
            let text = super::read_text(&path).map_err(|e| {
                Diagnostic::at(
                    &node.place,
                    format!("`workload.fio`: {shown} can't be read: {e}"),
                    "accepted: a fio job file",
                )
            })?;
            let source = Source::new(shown, text);
            let beside = path.parent().unwrap_or(folder);
            let script = jobs(&source, beside)?;
            let choices = several.then(|| ("workload.fio".to_owned(), name));
            Ok((choices.into_iter().collect(), script))
        })
        .collect()
}

/// Returns the scripts of the fio command lines in `workload.fio_args` (`node`), with the choices
/// that lead to each.
fn job_lines(node: &Node, folder: &Path) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let lines = alternatives(node, "workload.fio_args")?;
    let several = lines.len() > 1;
    lines
        .into_iter()
        .map(|(line, node)| {
            let _: String = read(node, "workload.fio_args")?;
            let text = fio::arguments(&line).map_err(|e| {
                let what = format!("`workload.fio_args`: {}", e.message);
                Diagnostic::at(&node.place, what, format!("accepted: {}", e.accepted))
            })?;
            // A line of the text for each word of the command line.
            let script = jobs(&Source::new("the job file of fio_args", text), folder)?;
            let choices = several.then(|| ("workload.fio_args".to_owned(), line));
            Ok((choices.into_iter().collect(), script))
        })
        .collect()
}

/// Returns the script of a fio job file, whose included files lie in `folder`.
fn jobs(source: &Source, folder: &Path) -> Result<Script, Diagnostic> {
    let jobs = fio::read(source.text(), &Here(folder)).map_err(|e| {
        let place = Place {
            source: source.clone(),
            span: e.span,
        };
        Diagnostic::at(&place, e.message, format!("accepted: {}", e.accepted))
    })?;
    Ok(jobs.script())
}

/// The environment of this process, and the folder of a job file.
struct Here<'a>(&'a Path);

impl fio::Surroundings for Here<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn included(&self, path: &str) -> Result<String, String> {
        let path = self.0.join(path);
        super::read_text(&path).map_err(|e| format!("{} can't be read: {e}", path.display()))
    }
}

/// Returns the scripts that replay the traces in `workload.trace` (`node`), one for each trace and
/// `timing`, with the choices that lead to each. `table` is `[workload]`, whose other keys say how
/// a trace is read.
fn traces(table: &Table, node: &Node, folder: &Path) -> Result<Vec<(Choices, Script)>, Diagnostic> {
    let options = Options {
        format: named(table, "format", &Format::NAMES, Format::parse)?,
        columns: columns(table)?,
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

/// Most files in `workload.files`: the simulated world has room for no more beside its own.
const MOST_FILES: usize = 60_000;

/// Returns the path of the file `name`, the value of `key`, looked up in `folder` or in a folder
/// above it.
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

/// Reads a key of `[workload]` whose value is one of `names`, by `parse`; `None` if the key is
/// absent.
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

/// Returns the columns of a text trace, `workload.columns`.
///
/// # Errors
/// They are no columns, or stand beside `workload.format`.
fn columns(table: &Table) -> Result<Option<Layout>, Diagnostic> {
    let Some(node) = table.get("columns") else {
        return Ok(None);
    };
    let wrong = |what: String, accepted: &str| Diagnostic::at(&node.place, what, accepted);
    if table.get("format").is_some() {
        return Err(wrong(
            "`workload.columns` beside `workload.format`".to_owned(),
            "accepted: one of them",
        ));
    }
    let text: String = read(node, "workload.columns")?;
    let parsed = text.parse::<Layout>();
    let layout = parsed.map_err(|e| wrong(format!("`workload.columns`: {e}"), ""))?;
    Ok(Some(layout))
}

/// Builds the error for a value of a key of `[workload]` that is not one of `names`.
fn unknown(node: &Node, key: &str, text: &str, names: &[&str]) -> Diagnostic {
    Diagnostic::at(
        &node.place,
        format!("`workload.{key}`: unknown value `{text}`"),
        one_of(text, names),
    )
}

/// Checks that a machine has the NUMA node and the CPUs that a workload is bound to, the mount
/// points and paths that its programs need, and space on each disk for its files. `node` is the
/// table `[workload]`, for the places of mistakes.
///
/// # Errors
/// Fails if the machine lacks one of these.
pub fn fits(node: &Node, workload: &Workload, machine: &Machine) -> Result<(), Diagnostic> {
    if let Some((node, place)) = &workload.membind {
        has_node(*node, place, machine)?;
    }
    for cpus in workload.script.cpus() {
        has_cpu(cpus, node, machine)?;
    }
    let script = &workload.script;
    let points = machine.mount_points();
    let refused = |e: ::workload::CommandError| {
        Diagnostic::at(
            &node.nearest(&["command"]).place,
            format!("`workload.command`: {}", e.message),
            format!("accepted: {}", e.accepted),
        )
    };
    script.devices_are_there().map_err(refused)?;
    script.needs_are_met(&points).map_err(refused)?;
    script.mounts_are_there(&points).map_err(|e| {
        let key = ["command", "fio", "trace"];
        let given = |key: &&str| node.at(&[key]).is_some();
        let key = key.into_iter().find(given).unwrap_or("files");
        Diagnostic::at(
            &node.nearest(&[key]).place,
            format!("`workload.{key}`: {} ({})", e.message, machine.name),
            format!("accepted: {}", e.accepted),
        )
    })?;
    for (i, on) in machine.mounted().enumerate() {
        let files = script.files.iter();
        let files = files.filter(|f| mount_of(&points, &f.path) == i);
        let pages: u64 = files.map(|f| f.len.div_ceil(4096)).sum();
        let capacity = on.disk.capacity.0;
        if pages.saturating_mul(4096) <= capacity {
            continue;
        }
        // The disk's name in the message, and the key of its capacity.
        let (called, key) = match i.checked_sub(1).map(|i| &machine.mounts[i]) {
            None => ("disk".to_owned(), "disk.capacity"),
            Some(m) if m.is_second => ("second disk".to_owned(), "second.disk.capacity"),
            Some(m) => (format!("disk on /{}", m.mount), "capacity"),
        };
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        return Err(Diagnostic::at(
            &node.place,
            format!(
                "`workload`: its files take {:.1} GiB, and the {called} of machine {} holds {:.1} GiB",
                gib(pages.saturating_mul(4096)),
                machine.name,
                gib(capacity)
            ),
            format!("accepted: a machine with a larger `{key}`"),
        ));
    }
    Ok(())
}

/// Checks that a machine has some of the CPUs that a program is bound to by taskset (a mask) or
/// numactl (a node). `workload` is the table `[workload]`.
fn has_cpu(cpus: Cpus, workload: &Node, machine: &Machine) -> Result<(), Diagnostic> {
    let (what, has) = match cpus {
        Cpus::Mask(mask) => ("taskset", mask & (u64::MAX >> (64 - machine.cpus)) != 0),
        Cpus::OfNode(node) => ("numactl", sim::run::cpus_of_node(machine, node) != 0),
    };
    if has {
        return Ok(());
    }
    Err(Diagnostic::at(
        &workload.place,
        format!(
            "`workload`: {what} binds to CPUs that the machine `{}` does not have",
            machine.name
        ),
        format!(
            "accepted: CPUs 0 to {}, or a node that has CPUs",
            machine.cpus - 1
        ),
    ))
}

/// Checks that a machine has the NUMA node that a workload's memory is bound to, and that not all
/// memory of the node is movable or high. `place` is that of the setting.
fn has_node(node: u32, place: &Place, machine: &Machine) -> Result<(), Diagnostic> {
    let name = &machine.name;
    let Some(spec) = machine.nodes.get(node as usize) else {
        return Err(Diagnostic::at(
            place,
            format!("`workload.membind`: the machine `{name}` has no node {node}"),
            format!("accepted: 0 to {}", machine.nodes.len().saturating_sub(1)),
        ));
    };
    if spec.zones.iter().all(|z| !z.zone.kernel_may_use()) {
        let what = match spec.zones.iter().any(|z| z.zone == ZoneType::Movable) {
            true => "movable",
            false => "high",
        };
        return Err(Diagnostic::at(
            place,
            format!("`workload.membind`: node {node} of `{name}` has only {what} memory"),
            "accepted: a node with a zone DMA, DMA32 or Normal",
        ));
    }
    Ok(())
}

/// Converts the error of a trace that was named on the command line.
pub fn trace_error(e: &TraceError) -> Diagnostic {
    Diagnostic::placeless(e.to_string(), format!("accepted: {}", e.accepted))
}

/// Returns the guesses at what object numbers mean in the traces of an experiment, each once: a
/// line with the trace's file name and the reason. Traces whose `unit` is given have none.
pub fn unit_guesses(experiment: &Experiment) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for cell in &experiment.cells {
        let workload::Source::Trace(replay) = &cell.spec.workload.source else {
            continue;
        };
        let Some(guess) = replay.survey.guess else {
            continue;
        };
        let name = replay.path.file_name().unwrap_or_default();
        let line = format!("{}: {guess}", name.to_string_lossy());
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all
}

#[cfg(test)]
mod tests;
