//! Reads the machines of an experiment: tables, files, or tables that change a file.

use super::disks;
use super::expand::{Choices, MOST, expand, too_many};
use super::guest;
use super::node::{Node, Value};
use super::policy;
use super::quoted;
use super::range;
use super::read::read;
use super::short::{self, Layout, Short};
use super::sysctls;
use crate::diagnostic::{Diagnostic, Source};
use kernel::Guest;
use sim::DiskKind;
use sim::spec::Machine;
use std::path::{Path, PathBuf};

/// Finds a machine file: from the name in the experiment to (the name to show, the text).
pub type Files<'a> = dyn Fn(&str) -> Result<(String, String), String> + 'a;

/// Returns a function that finds a file by the name that an experiment gives, and returns (the name
/// to show in messages, its text). Looks beside the experiment or in a folder above it:
/// `machines/x.toml` is found from `experiments/y.toml`. Otherwise the file may be a shipped one,
/// by its path or name (`512M`).
pub fn files_near(experiment: &Path) -> impl Fn(&str) -> Result<(String, String), String> {
    let folder = experiment.parent().unwrap_or(Path::new("")).to_owned();
    move |name: &str| {
        let path = match find_near(&folder, name) {
            Ok(path) => path,
            Err(none) => {
                let shipped = crate::shipped::meant(name, &["machines", "policies"]);
                let (path, text) = shipped.ok_or(none)?;
                return Ok((path.to_owned(), text.to_owned()));
            }
        };
        let text = super::read_text(&path)
            .map_err(|e| format!("{} can't be read: {e}", path.display()))?;
        Ok((path.display().to_string(), text))
    }
}

/// Returns the path of the file `name` in `folder` or in the nearest folder above it.
///
/// # Errors
/// Fails if there is none.
pub fn find_near(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    // The error of the nearest folder with that name.
    let mut folders = None;
    let mut above = folder;
    let full = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let parents = full.ancestors().skip(1);
    let mut candidates: Vec<PathBuf> = Vec::new();
    // Paths stay relative to the user's own path as long as it has parents, and are absolute above.
    loop {
        candidates.push(above.join(name));
        match above.parent() {
            Some(parent) => above = parent,
            None => break,
        }
    }
    candidates.extend(parents.map(|p| p.join(name)));
    for path in candidates {
        if path.is_file() {
            return Ok(path);
        }
        // A pipe won't do, because the file is read more than once. Below a folder of that name
        // there may still be a file.
        if path.exists()
            && let Err(e) = input::file(&path)
        {
            let wrong = format!("`{}`: {e}", path.display());
            if !path.is_dir() {
                return Err(wrong);
            }
            folders.get_or_insert(wrong);
        }
        tried.push(path.display().to_string());
    }
    // The message names the two nearest places only.
    tried.truncate(2);
    Err(folders.filter(|_| !name.is_empty()).unwrap_or_else(|| {
        format!(
            "there is no such file (tried {} and the folders above)",
            tried.join(", ")
        )
    }))
}

/// A machine of an experiment.
pub struct Made {
    /// The choices that lead to it.
    pub choices: Choices,
    /// Whether its table says how often its timer ticks.
    pub says_hz: bool,
    /// A statement of what was taken for a machine that is written in a line.
    pub said: Option<String>,
    /// The machine.
    pub machine: Machine,
}

/// Returns all machines of an experiment with the choices that lead to each, and the back end on
/// which real kernels run. `node` is the value of the key `machine`. `kernel` is the policy that
/// runs a real kernel on all of them, if there is one, and `guest` the back end that the experiment
/// names; otherwise the machines decide.
///
/// # Errors
/// Fails on a file that can't be read, a table that makes no machine, and, with a kernel, a machine
/// that can't be a guest.
pub fn machines(
    node: &Node,
    files: &Files<'_>,
    kernel: Option<&str>,
    guest: Option<Guest>,
) -> Result<(Vec<Made>, Guest), Diagnostic> {
    let elements = match &node.value {
        Value::List(list) => &list[..],
        _ => std::slice::from_ref(node),
    };
    if elements.is_empty() {
        return Err(Diagnostic::at(
            &node.place,
            "`machine`: the list is empty",
            "accepted: a machine file, a table, or a list of at least one machine",
        ));
    }
    let mut names: Vec<String> = Vec::new();
    let mut machines: Vec<Made> = Vec::new();
    let mut nodes = Vec::new();
    for element in elements {
        let (tree, said) = resolve(element, files, layout(kernel.is_some()))?;
        let mut name = None;
        for variant in expand(&tree, "machine")? {
            disks::tree(&variant.node)?;
            let machine: Machine = read(&variant.node, "machine")?;
            range::machine(&machine, &variant.node)?;
            let mut choices = Choices::new();
            if elements.len() > 1 {
                choices.push(("machine".into(), machine.name.clone()));
            }
            choices.extend(variant.choices);
            name = Some(machine.name.clone());
            machines.push(Made {
                choices,
                said: said.clone(),
                says_hz: variant.node.at(&["hz"]).is_some(),
                machine,
            });
            nodes.push(variant.node);
            if machines.len() > MOST {
                return Err(too_many(&element.place, machines.len()));
            }
        }
        if let Some(name) = name {
            if names.contains(&name) {
                return Err(Diagnostic::at(
                    &element.place,
                    format!("`machine`: a second machine is named `{name}`"),
                    "accepted: machines with different names",
                ));
            }
            names.push(name);
        }
    }
    // All kernels of a comparison run on the same back end: the one that its largest machine needs.
    let needs_qemu = machines.iter().any(|made| guest::needs_qemu(&made.machine));
    let guest = guest.unwrap_or(match needs_qemu {
        true => Guest::Qemu,
        false => Guest::Uml,
    });
    for (made, node) in machines.iter().zip(&nodes) {
        match kernel {
            Some(kernel) => guest::machine(kernel, guest, &made.machine, node)?,
            None => guest::speed_without_qemu(&made.machine, node)?,
        }
    }
    Ok((machines, guest))
}

/// Reads a machine in words: a line such as `16G,8cpus,nvme`, a table with `memory`, or a table
/// whose `base` is a line. Returns the machine, and the table of further keys that are laid over
/// it; `None` if the node is no such machine but a file's name or a plain table. A file of the same
/// name comes first, since `512M` is a machine that is shipped.
fn in_words(
    node: &Node,
    files: &Files<'_>,
    layout: Layout,
) -> Result<Option<(Short, Node)>, Diagnostic> {
    if let Some(short) = short::of_table(node, layout)? {
        return Ok(Some(short));
    }
    let mut over = node.table().cloned().unwrap_or_default();
    let base = over.remove("base").map(|entry| entry.node);
    let at = base.as_ref().unwrap_or(node);
    let Some(line) = at.text().filter(|text| short::is_meant(text)) else {
        return Ok(None);
    };
    if !line.contains(',') && files(line).is_ok() {
        return Ok(None);
    }
    let mut short = Short::parse(line, layout)
        .map_err(|why| Diagnostic::at(&at.place, format!("`machine`: {why}"), short::ACCEPTED))?;
    let over = Node {
        place: node.place.clone(),
        value: Value::Table(over),
    };
    short.laid_over(&over);
    Ok(Some((short, over)))
}

/// Puts another machine into an experiment (`--machine`), in the place of the value of its key
/// `machine`. Disks that the experiment mounts below `/` stay beside the machine's own. Returns a
/// sentence for the user that says which disks come from which of the two; `None` if all come from
/// the new machine.
///
/// # Errors
/// Fails on a machine that can't be read.
pub fn instead(
    root: &mut Node,
    machine: &str,
    files: &Files<'_>,
) -> Result<Option<String>, Diagnostic> {
    let source = Source::new("--machine", format!("machine = {}", quoted(machine)));
    let named = Node::parse(&source)?;
    let named = named.at(&["machine"]).expect("it was just written").clone();
    let layout = layout(policy::names_kernel(root));
    let Value::Table(table) = &mut root.value else {
        unreachable!("a TOML document is a table")
    };
    let Some(own) = table.get_mut("machine") else {
        return Ok(None);
    };
    let (mut tree, line) = resolve(&named, files, layout)?;
    // The experiment's machine with its file's contents; that of a list of machines has no disk.
    let before = match &own.value {
        Value::List(_) => None,
        _ => resolve(own, files, layout).ok().map(|(tree, _)| tree),
    };
    let extra: Vec<Node> = before
        .as_ref()
        .and_then(disks::list)
        .unwrap_or_default()
        .iter()
        .filter(|disk| disks::mount(disk).is_some_and(|mount| mount != "/"))
        .cloned()
        .collect();
    if extra.is_empty() {
        let said = before.and_then(|before| disk_under_test(&mut tree, &before, machine));
        let said: Vec<String> = line.into_iter().chain(said).collect();
        *own = tree;
        return Ok((!said.is_empty()).then(|| said.join(" ")));
    }
    let mounts: Vec<&str> = extra.iter().filter_map(disks::mount).collect();
    let said = format!(
        "--machine {machine}: memory, CPUs and the disk of / are that machine's; the disk of {} is the experiment's.",
        mounts.join(", ")
    );
    disks::beside(&mut tree, extra);
    *own = tree;
    let line = line.map(|line| format!("{line} "));
    Ok(Some(line.unwrap_or_default() + &said))
}

/// Puts the disk of an experiment's own machine, `before`, on `/` of the machine `tree` that takes
/// its place, if it is a USB stick and the other is none: such an experiment asks about the stick.
/// Returns a sentence for the user on which disk `/` has; `None` if both have the same kind.
/// `machine` is the new machine as the user named it.
fn disk_under_test(tree: &mut Node, before: &Node, machine: &str) -> Option<String> {
    let kind = |tree: &Node| {
        let disk = match disks::list(tree) {
            Some(list) => list.iter().find(|disk| disks::mount(disk) == Some("/"))?,
            None => tree.at(&["disk"])?,
        };
        Some((disk.at(&["kind"])?.text()?.to_owned(), disk.clone()))
    };
    let ((old, stick), (new, _)) = (kind(before)?, kind(tree)?);
    if old == new {
        return None;
    }
    let single = disks::list(tree).is_none();
    if old != DiskKind::UsbFlash.name() || !single {
        return Some(format!(
            "--machine {machine}: the disk of / is that machine's {new}, in the place of the experiment's {old}."
        ));
    }
    if let Value::Table(table) = &mut tree.value
        && let Some(disk) = table.get_mut("disk")
    {
        *disk = stick;
    }
    Some(format!(
        "--machine {machine}: memory and CPUs are that machine's; the disk of / stays the experiment's {old}, \
         which it asks about, and not {new}."
    ))
}

/// Returns the layout of memory for machines in words: `kernel` is true if real kernels run on
/// them.
fn layout(kernel: bool) -> Layout {
    match kernel {
        true => Layout::Guest,
        false => Layout::X86,
    }
}

/// Returns the machine's full table, with the contents of the file that it names and the words of a
/// line spelt out; and, if any value was assumed, a sentence that states it. `layout` decides on
/// the zones of a machine in words.
pub(super) fn resolve(
    node: &Node,
    files: &Files<'_>,
    layout: Layout,
) -> Result<(Node, Option<String>), Diagnostic> {
    if let Some((short, over)) = in_words(node, files, layout)? {
        let mut tree = short.node()?;
        tree.overlay(over);
        return Ok((tree, Some(short.said())));
    }
    let mut tree = with_base(
        &Named {
            key: "machine",
            holds: "a machine",
            example: "a machine file such as \"machines/3765M.toml\", a line such as \"16G,8cpus,nvme\", or a table [machine]",
        },
        node,
        files,
    )?;
    // A file may describe its machine in words, too.
    if let Some((short, over)) = short::of_table(&tree, layout)? {
        let mut tree = short.node()?;
        tree.overlay(over);
        return Ok((tree, Some(short.said())));
    }
    let said = short::fill(&mut tree)?;
    Ok((tree, said))
}

/// A key whose value is a table, a file's name, or a table that changes a file (`base`).
pub(super) struct Named<'a> {
    pub key: &'a str,
    /// The contents of the file, in words for messages.
    pub holds: &'a str,
    /// The values that are accepted, in words for messages.
    pub example: &'a str,
}

/// Returns a key's table. The name of a file is replaced by the file's contents, and a table with
/// `base` is laid over the contents of the file that `base` names. `of` describes the key for
/// messages.
pub(super) fn with_base(
    of: &Named<'_>,
    node: &Node,
    files: &Files<'_>,
) -> Result<Node, Diagnostic> {
    let key = of.key;
    match &node.value {
        Value::Text(file) => load(of, file, node, files),
        Value::Table(table) => match table.get("base") {
            None => Ok(node.clone()),
            Some(base) => {
                let Some(file) = base.text() else {
                    return Err(Diagnostic::at(
                        &base.place,
                        format!("`{key}.base`: {} does not fit here", base.kind()),
                        format!("accepted: the name of one file with {}", of.holds),
                    ));
                };
                let mut tree = load(of, file, base, files)?;
                let mut over = node.clone();
                if let Value::Table(t) = &mut over.value {
                    t.remove("base");
                }
                tree.overlay(over);
                Ok(tree)
            }
        },
        _ => Err(Diagnostic::at(
            &node.place,
            format!("`{key}`: {} does not fit here", node.kind()),
            format!("accepted: {}", of.example),
        )),
    }
}

/// Reads the TOML file `name`, with the names of its sysctls shortened to their last part. `node`
/// is the place where the experiment names the file, for messages.
fn load(of: &Named<'_>, name: &str, node: &Node, files: &Files<'_>) -> Result<Node, Diagnostic> {
    let (shown, text) = files(name).map_err(|e| {
        Diagnostic::at(
            &node.place,
            format!("`{}`: `{name}`: {e}", of.key),
            format!(
                "accepted: {}; a file is looked for from the experiment's folder upwards",
                of.example
            ),
        )
    })?;
    let mut node = Node::parse(&Source::new(shown, text))?;
    sysctls::last_parts(&mut node, Some(files))?;
    Ok(node)
}
