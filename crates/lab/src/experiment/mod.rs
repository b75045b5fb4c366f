//! Reads experiment files: which policies run on which machines, filesystems and workloads, how
//! often.
//!
//! A list in the place of one value makes an axis of the matrix. The matrix is the full product.
//! Its order is stable: machines are outermost (in the order of the file, and within a machine its
//! own lists in the order of its text), then command lines and their binding, then `[params]`, then
//! filesystems; policies are innermost, so that compared cells are adjacent.

mod changes;
mod command;
mod compared;
mod disks;
mod expand;
mod foreign;
mod groups;
mod guest;
pub mod kernels;
mod machine;
mod missing;
pub mod node;
mod of_command;
mod overrides;
mod policy;
mod profile;
mod range;
mod read;
mod schema;
mod short;
mod sysctls;
mod text;
mod threads;
mod trace_run;
mod workload;

use kernel::Guest;
pub use machine::{Files, files_near};
use mm::counters::{Known, known};
pub use of_command::of_command;
pub use profile::load_profile;
pub use schema::schema;
pub use sysctls::notes_of as sysctl_notes;
pub use threads::{Threads, counts_threads};
pub use trace_run::TraceRun;
pub use workload::{trace_error, unit_guesses};

use crate::diagnostic::{Diagnostic, Place, Source, one_of};
use crate::figures::values::renamed;
use crate::model::{Cell, Experiment, Figure};
use crate::rows;
use changes::Changes;
use expand::{Choices, alternatives, expand, pairs};
use node::{Node, Table};
use range::At;
use read::read;
use sim::spec::{FsKind, Groups};
use sim::{Params, RunSpec};
use std::path::Path;
pub use text::{quoted, read_text};
use threads::OnMachines;

/// Options of the command line that override the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--set key=value`, in order.
    pub set: Vec<String>,
    /// `--iterations`.
    pub iterations: Option<u32>,
    /// `--track-pages`.
    pub track_pages: bool,
    /// `--machine`: a file, a shipped machine's name or a line, in the place of the experiment's.
    pub machine: Option<String>,
}

const KEYS: [&str; 17] = [
    "name",
    "iterations",
    "seed",
    "policy",
    "filesystem",
    "machine",
    "guest",
    "workload",
    "groups",
    "policies",
    "params",
    "at",
    "sample_s",
    "time_limit_s",
    "monitors",
    "compare",
    "baseline",
];

/// Reads an experiment file, or the shipped experiment of that name if there is no such file, and
/// expands its lists to the matrix of cells. `overrides` are options of the command line.
///
/// # Errors
/// Returns the first mistake in the file, its machines or the overrides.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Experiment, Diagnostic> {
    let mut name = path.display().to_string();
    let mut text = read_text(path);
    // Without a checkout of the sources, use the shipped experiment.
    if text
        .as_ref()
        .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        && let Some(shipped) = crate::shipped::meant(&name, &["experiments"])
    {
        name = shipped.0.to_owned();
        text = Ok(shipped.1.to_owned());
    }
    let text = text.map_err(|e| {
        let like = crate::shipped::like(&name);
        let like = like.map_or(String::new(), |like| format!("did you mean `{like}`? "));
        Diagnostic::placeless(
            format!("{name} can't be read: {e}"),
            format!("{like}accepted: an experiment file, or a name that `lowmark examples` lists"),
        )
    })?;
    let near = files_near(Path::new(&name));
    parse(&Source::new(&name, text), &near, overrides)
}

/// A small experiment with comments on the most important keys, for `lowmark new`.
pub const NEW: &str = include_str!("new.toml");

/// Returns the number of iterations of each cell: that of `--iterations`, else the file's, else 10.
fn iterations(at: &At<'_>, table: &Table, overrides: &Overrides) -> Result<u32, Diagnostic> {
    let most = MOST_ITERATIONS;
    let own: u32 = optional(table, "iterations")?.unwrap_or(10);
    at.range(&["iterations"], own.into(), 1, most.into())?;
    match overrides.iterations {
        Some(n) if !(1..=most).contains(&n) => Err(Diagnostic::placeless(
            format!("`--iterations {n}` is out of range"),
            format!("accepted: 1 to {most}"),
        )),
        other => Ok(other.unwrap_or(own)),
    }
}

/// Reads `sample_s` and `time_limit_s`: returns the seconds between samples (0: no time series),
/// and the seconds after which a run is given up (0: never).
fn times(at: &At<'_>, table: &Table) -> Result<(f64, f64), Diagnostic> {
    let sample: f64 = optional(table, "sample_s")?.unwrap_or(1.0);
    at.seconds(&["sample_s"], sample, 3600.0)?;
    let time_limit: f64 = optional(table, "time_limit_s")?.unwrap_or(86_400.0);
    at.seconds(&["time_limit_s"], time_limit, 1e7)?;
    at.samples(sample, time_limit)?;
    Ok((sample, time_limit))
}

/// Returns the keys of the experiment file in which cells differ (the axes of the matrix), each
/// once, in the order of reports (`rank`).
fn axes_of(cells: &[Cell]) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for (key, _) in cells.iter().flat_map(|c| &c.axes) {
        if !axes.contains(key) {
            axes.push(key.clone());
        }
    }
    axes.sort_by_key(|k| rank(k));
    axes
}

/// Parses the experiment's text and lays `--machine` and `--set` over it. Returns the tree, and
/// sentences for the user about the parts that were replaced.
fn overridden(
    source: &Source,
    files: &Files<'_>,
    overrides: &Overrides,
) -> Result<(Node, Vec<String>), Diagnostic> {
    let mut root = Node::parse(source)?;
    sysctls::last_parts(&mut root, Some(files))?;
    let mut said = Vec::new();
    if let Some(machine) = &overrides.machine {
        said.extend(machine::instead(&mut root, machine, files)?);
    }
    for setting in &overrides.set {
        overrides::set(&mut root, setting)?;
    }
    sysctls::last_parts(&mut root, Some(files))?;
    Ok((root, said))
}

/// Parses an experiment from a text, as [`load`] does from a file: reads policies, machines,
/// workloads and parameters, checks them against each other, and builds all cells of the matrix.
/// `files` finds the files that the text names.
///
/// # Errors
/// Returns the first mistake.
pub fn parse(
    source: &Source,
    files: &Files<'_>,
    overrides: &Overrides,
) -> Result<Experiment, Diagnostic> {
    let (root, mut said) = overridden(source, files, overrides)?;
    let Some(table) = root.table() else {
        unreachable!("a TOML document is a table")
    };
    if let Some(e) = table.0.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let what = format!("unknown key `{}`", e.key);
        let meant = sysctls::meant(e).or_else(|| missing::of_machine(&e.key));
        let meant = meant.map(|key| format!("accepted: `{key}`"));
        let accepted = meant.unwrap_or_else(|| one_of(&e.key, &KEYS));
        return Err(Diagnostic::at(&e.place, what, accepted));
    }
    let at = At {
        node: &root,
        path: "",
    };
    missing::keys(&root, table, files)?;
    let name: String = read(required(table, "name"), "name")?;
    at.name(&["name"], &name)?;
    let iterations = iterations(&at, table, overrides)?;
    let seed: u64 = optional(table, "seed")?.unwrap_or(1);
    let (sample, time_limit) = times(&at, table)?;

    let figures = figures(table.get("compare"))?;
    let tables = policy::tables(table.get("policies"), files)?;
    let tables = tables.as_ref();
    policy::check_all(tables)?;
    let runs = required(table, "workload");
    let folder = Path::new(source.name()).parent().unwrap_or(Path::new(""));
    let policies = named_policies(required(table, "policy"), tables)?;
    let kernel = policies.iter().find(|p| p.kernel.is_some());
    let kernel = kernel.map(|p| p.policy.name.as_str());
    let named = guest::named(&root, kernel)?;
    let (machines, guest) = machine::machines(required(table, "machine"), files, kernel, named)?;
    let policies = on_guests(policies, guest, &root)?;
    let kernel = policies.iter().find(|p| p.kernel.is_some());
    let kernel = kernel.map(|p| p.policy.name.as_str());
    said.extend(machines.iter().filter_map(|made| made.said.clone()));
    said.dedup();
    if let Some(kernel) = kernel {
        guest::experiment(kernel, guest, &root, overrides)?;
    }
    foreign::needs_kernels(
        runs,
        policies
            .iter()
            .map(|p| (p.policy.name.as_str(), p.kernel.is_some())),
    )?;
    let parts = Parts {
        workloads: OnMachines::new(runs, folder, machines.iter().map(|m| &m.machine))?,
        machines,
        params: watched(params(table.get("params"))?, table.get("monitors"))?,
        changes: changes::changes(table.get("at"), time_limit)?,
        groups: groups::groups(table.get("groups"), &models(&policies))?,
        filesystems: Vec::new(),
        policies,
    };
    let parts = Parts {
        filesystems: filesystems_of(&root, table, &parts.machines)?,
        ..parts
    };
    parts.workloads_fit(runs, table)?;
    no_parameter_twice(table.get("params"), &parts.machines)?;
    let cells = parts.count();
    // From here on `runs` is the number of runs: cells times iterations.
    let runs = cells.saturating_mul(iterations as usize);
    if cells > expand::MOST || runs > MOST_RUNS {
        return Err(expand::too_many(
            &Place {
                source: source.clone(),
                span: 0..0,
            },
            cells,
        ));
    }
    let mut cells = parts.product(&RunSettings {
        sample_ns: (sample * 1e9) as u64,
        time_limit_ns: (time_limit * 1e9) as u64,
        track_pages: overrides.track_pages,
    })?;
    let axes = axes_of(&cells);
    compared::mark(&mut cells, &axes, table.get("baseline"))?;
    counted(table.get("compare"), &figures, &cells)?;
    Ok(Experiment {
        name,
        iterations,
        seed,
        text: source.text().to_owned(),
        figures,
        axes,
        cells,
        settings: kernels::settings(&root),
        said,
    })
}

const MOST_ITERATIONS: u32 = 1000;
const MOST_RUNS: usize = 100_000;

/// Returns a number by which the axes of the matrix are sorted, the outermost first: 0 for the
/// machine's keys, then workload, parameters, filesystem, and 4 for the policy.
fn rank(key: &str) -> usize {
    match key {
        "policy" => 4,
        "filesystem" => 3,
        k if k.starts_with("params") || k.starts_with("at.") || k == "monitors" => 2,
        k if k.starts_with("groups.") => 2,
        k if k.starts_with("workload") => 1,
        _ => 0,
    }
}

/// Returns the value of a key that must be there: [`missing::keys`] has reported missing keys
/// before.
fn required<'a>(table: &'a Table, key: &str) -> &'a Node {
    match table.get(key) {
        Some(node) => node,
        None => unreachable!("`{key}` is a missing key"),
    }
}

/// Reads the value of a key that can't be an axis; `None` if it is absent. A list is refused.
fn optional<T: serde::de::DeserializeOwned>(
    table: &Table,
    key: &str,
) -> Result<Option<T>, Diagnostic> {
    let Some(node) = table.get(key) else {
        return Ok(None);
    };
    if let node::Value::List(_) = node.value {
        return Err(Diagnostic::at(
            &node.place,
            format!("`{key}`: a list does not fit here"),
            "accepted: one value; this key can't be an axis",
        ));
    }
    read(node, key).map(Some)
}

/// Reads the value of `compare`, a list of figures that policies are compared by, the deciding one
/// first; empty if the key is absent.
fn figures(node: Option<&Node>) -> Result<Vec<Figure>, Diagnostic> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let accepted = "accepted: a list of rows, counters and figures of the workload, the \
     deciding one first; `lowmark explain` lists them";
    let node::Value::List(list) = &node.value else {
        return Err(Diagnostic::at(
            &node.place,
            "`compare` is not a list",
            accepted,
        ));
    };
    let mut figures: Vec<Figure> = Vec::new();
    for node in list {
        let name: String = read(node, "compare")?;
        let figure = rows::figure(&name)
            .map_err(|why| Diagnostic::at(&node.place, format!("`compare`: {why}"), accepted))?;
        if figures.contains(&figure) {
            let twice = format!("`compare`: `{name}` is listed twice");
            return Err(Diagnostic::at(&node.place, twice, accepted));
        }
        figures.push(figure);
    }
    if figures.is_empty() {
        return Err(Diagnostic::at(&node.place, "`compare` is empty", accepted));
    }
    Ok(figures)
}

/// Refuses counters in `compare` that no policy of the experiment has. `node` is the value of
/// `compare`, and `figures` are its entries, in the same order. With a real kernel among the
/// policies nothing is refused, because its counters are not known before it runs.
fn counted(node: Option<&Node>, figures: &[Figure], cells: &[Cell]) -> Result<(), Diagnostic> {
    let Some(Node {
        place,
        value: node::Value::List(list),
    }) = node
    else {
        return Ok(());
    };
    if cells.iter().any(|cell| cell.kernel.is_some()) {
        return Ok(());
    }
    for (i, figure) in figures.iter().enumerate() {
        let known = |cell: &Cell| known(&cell.spec.policy, &figure.name);
        // A renamed counter is found under its new name (`figures::values`).
        // True for a policy that has the counter neither under this name nor renamed.
        let lacks = |cell: &Cell| match known(cell) {
            Known::As(now) => !renamed(&figure.name, &now),
            known => known == Known::Elsewhere,
        };
        let Some(first) = cells.first().filter(|_| cells.iter().all(lacks)) else {
            continue;
        };
        // The counter that a policy has in the place of this one, for the message.
        let has = cells.iter().find_map(|cell| match known(cell) {
            Known::As(name) => Some(format!(
                "`{name}`, the counter of {} in its place",
                cell.policy
            )),
            _ => None,
        });
        return Err(Diagnostic::at(
            list.get(i).map_or(place, |node| &node.place),
            format!(
                "`compare`: {} has no counter `{}`",
                first.policy, figure.name
            ),
            format!(
                "accepted: {}",
                has.unwrap_or_else(
                    || "a counter that it has; `lowmark explain` lists them".to_owned()
                )
            ),
        ));
    }
    Ok(())
}

/// The factors of the matrix; choices are empty where there is nothing to choose.
struct Parts {
    machines: Vec<machine::Made>,
    workloads: OnMachines,
    params: Vec<(Choices, Params, bool)>,
    changes: Vec<(Choices, Changes)>,
    groups: Vec<groups::Variant>,
    filesystems: Vec<FsKind>,
    policies: Vec<policy::Named>,
}

struct RunSettings {
    sample_ns: u64,
    time_limit_ns: u64,
    track_pages: bool,
}

impl Parts {
    /// Returns the number of cells in the matrix: the product of the numbers of its factors;
    /// saturates.
    fn count(&self) -> usize {
        [
            self.machines.len(),
            self.workloads.count(),
            self.params.len(),
            self.changes.len(),
            self.groups.len(),
            self.filesystems.len(),
            self.policies.len(),
        ]
        .iter()
        .fold(1, |n: usize, k| n.saturating_mul(*k))
    }

    /// Checks that each machine has all that the workloads need, and each variant of the groups the
    /// groups that they name. `runs` is the table `[workload]`, and `table` the experiment's.
    fn workloads_fit(&self, runs: &Node, table: &Table) -> Result<(), Diagnostic> {
        for made in &self.machines {
            for (_, workload) in self.workloads.on(&made.machine) {
                workload::fits(runs, workload, &made.machine)?;
            }
        }
        for (_, groups) in &self.groups {
            groups::members(runs, table.get("groups"), groups, self.workloads.all())?;
        }
        Ok(())
    }

    /// Builds all cells of the matrix, with machines outermost and policies innermost.
    fn product(&self, settings: &RunSettings) -> Result<Vec<Cell>, Diagnostic> {
        let mut cells = Vec::with_capacity(self.count());
        for machine in &self.machines {
            for workload in self.workloads.on(&machine.machine) {
                for params in &self.params {
                    for (changes, groups) in pairs(&self.changes, &self.groups) {
                        let outer = Outer {
                            machine,
                            workload,
                            params,
                            changes,
                            groups,
                        };
                        for (&filesystem, named) in pairs(&self.filesystems, &self.policies) {
                            cells.push(self.cell(&outer, filesystem, named, settings)?);
                        }
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Builds one cell of the matrix: applies the policy `named`, its sysctls and the changes in
    /// mid-run to the machine, checks them, and collects the choices that tell the cell from the
    /// others as its axes.
    fn cell(
        &self,
        outer: &Outer<'_>,
        filesystem: FsKind,
        named: &policy::Named,
        settings: &RunSettings,
    ) -> Result<Cell, Diagnostic> {
        let machine::Made {
            choices: machine_choices,
            machine,
            says_hz,
            ..
        } = outer.machine;
        let (workload_choices, workload) = outer.workload;
        let (param_choices, params, monitors) = outer.params;
        let (change_choices, changes) = outer.changes;
        let (group_choices, groups) = outer.groups;
        let choices = [
            machine_choices,
            workload_choices,
            param_choices,
            change_choices,
            group_choices,
        ];
        let mut axes = choices.map(|c| &c[..]).concat();
        if self.filesystems.len() > 1 {
            axes.push(("filesystem".into(), filesystem.name().into()));
        }
        let policy = &named.policy;
        if self.policies.len() > 1 {
            axes.push(("policy".into(), policy.name.clone()));
        }
        // The machine with this policy's sysctls.
        let mut own = named.on(machine)?;
        let kernel = named.kernel.clone().map(|kernel| {
            // The build of a kernel decides how often its timer ticks, and a machine may say which
            // build.
            if !says_hz && kernel.guest == Guest::Uml {
                own.hz = kernel::build::ticks::of_name(&kernel.build);
            }
            kernel.ticking(own.hz)
        });
        let real = kernel.is_some();
        let changes = changes.on(&own, (!real).then_some(policy))?;
        let mut script = workload.script.clone();
        if !real {
            script.notes.extend(sysctls::notes(&own.sysctl, &changes));
        }
        Ok(Cell {
            axes,
            machine: machine.name.clone(),
            workload: workload.name.clone(),
            threads: workload.threads.clone(),
            filesystem: filesystem.name().into(),
            policy: policy.name.clone(),
            baseline: std::ptr::eq(named, &self.policies[0]),
            by: None,
            spec: RunSpec {
                changes,
                machine: own,
                filesystem,
                policy: policy.clone(),
                workload: script,
                membind: workload.membind.as_ref().map(|b| b.0),
                groups: Groups {
                    all: groups.clone(),
                    of_workload: workload.group.clone(),
                },
                monitors: *monitors,
                params: params.clone(),
                seed: 0,
                sample_ns: settings.sample_ns,
                check_ns: 0,
                check_full: false,
                track_pages: settings.track_pages,
                time_limit_ns: settings.time_limit_ns,
            },
            kernel,
            says_hz: *says_hz,
        })
    }
}

/// Sets the back end `guest` for all real kernels among the policies. `root` is the experiment's
/// tree, for the place of a mistake.
///
/// # Errors
/// A kernel is asked for whose computing takes no time, which a QEMU guest can't be.
fn on_guests(
    policies: Vec<policy::Named>,
    guest: Guest,
    root: &Node,
) -> Result<Vec<policy::Named>, Diagnostic> {
    let mut policies = policies;
    for named in &mut policies {
        let Some(kernel) = &mut named.kernel else {
            continue;
        };
        kernel.guest = guest;
        if guest == Guest::Qemu && !kernel.costs {
            let place = kernels::settings(root).remove("costs");
            let what = format!(
                "`costs = false` of policy `{}`: in a QEMU guest computing always takes time",
                named.policy.name
            );
            let accepted = "accepted: the policy without `costs`; or a machine with one CPU, one \
                            node and one zone, which runs on User-Mode Linux";
            return Err(match place {
                Some(place) => Diagnostic::at(&place, what, accepted),
                None => Diagnostic::placeless(what, accepted),
            });
        }
    }
    Ok(policies)
}

/// A choice of everything except filesystem and policy.
struct Outer<'a> {
    machine: &'a machine::Made,
    workload: &'a (Choices, workload::Workload),
    params: &'a (Choices, Params, bool),
    changes: &'a (Choices, Changes),
    groups: &'a groups::Variant,
}

/// Returns the policies that are models and no real kernels.
fn models(policies: &[policy::Named]) -> Vec<&mm::Policy> {
    let models = policies.iter().filter(|p| p.kernel.is_none());
    models.map(|p| &p.policy).collect()
}

/// Returns the filesystems under test: those of the experiment's key `filesystem`, or, if the
/// machines state one for `/`, that one. Fails if the machines do not agree, or the key contradicts
/// them.
fn filesystems_of(
    root: &Node,
    table: &Table,
    machines: &[machine::Made],
) -> Result<Vec<FsKind>, Diagnostic> {
    let all = || machines.iter().map(|made| &made.machine);
    let stated = all().find_map(|m| Some((m, m.filesystem?)));
    let Some((machine, kind)) = stated else {
        return filesystems(required(table, "filesystem"));
    };
    if let Some(other) = all().find(|m| m.filesystem != Some(kind)) {
        return Err(Diagnostic::at(
            &table.get("machine").unwrap_or(root).place,
            format!(
                "`machine`: in {}, {} is mounted on `/`, but not in {}",
                machine.name,
                kind.name(),
                other.name
            ),
            "accepted: the same filesystem for `/` in all machines, or none there and `filesystem` in the experiment",
        ));
    }
    match table.get("filesystem") {
        None => Ok(vec![kind]),
        Some(node) if filesystems(node)? == [kind] => Ok(vec![kind]),
        Some(node) => Err(Diagnostic::at(
            &node.place,
            format!(
                "`filesystem`: in the machine {}, {} is mounted on `/`",
                machine.name,
                kind.name()
            ),
            format!(
                "accepted: \"{}\", no key `filesystem`, or a machine without a filesystem for `/`",
                kind.name()
            ),
        )),
    }
}

/// Combines every choice of parameters with every choice of the key `monitors`, whose value is
/// `node`. Returns for each combination the choices, the parameters, and true if monitors run.
fn watched(
    params: Vec<(Choices, Params)>,
    node: Option<&Node>,
) -> Result<Vec<(Choices, Params, bool)>, Diagnostic> {
    let Some(node) = node else {
        return Ok(params.into_iter().map(|(c, p)| (c, p, false)).collect());
    };
    let values = alternatives(node, "monitors")?;
    let mut all = Vec::with_capacity(params.len() * values.len());
    for (choices, params) in params {
        for (text, node) in &values {
            let mut choices = choices.clone();
            if values.len() > 1 {
                choices.push(("monitors".into(), text.clone()));
            }
            all.push((choices, params.clone(), read(node, "monitors")?));
        }
    }
    Ok(all)
}

/// Reads `[params]`: all variants of the parameters with the choices that lead to each.
fn params(node: Option<&Node>) -> Result<Vec<(Choices, Params)>, Diagnostic> {
    let Some(node) = node else {
        return Ok(vec![(Choices::new(), Params::default())]);
    };
    if node.table().is_none() {
        return Err(Diagnostic::at(
            &node.place,
            format!("`params`: {} does not fit here", node.kind()),
            "accepted: a table [params] of model parameters; `lowmark params` lists them",
        ));
    }
    let mut all = Vec::new();
    for variant in expand(node, "params")? {
        let mut params = Params::default();
        for entry in &variant
            .node
            .table()
            .expect("variants of a table are tables")
            .0
        {
            let Some(info) = Params::TABLE.iter().find(|p| p.name == entry.key) else {
                let known: Vec<&str> = Params::TABLE.iter().map(|p| p.name).collect();
                let guess = crate::diagnostic::did_you_mean(&entry.key, known)
                    .map_or(String::new(), |g| format!("did you mean `{g}`? "));
                return Err(Diagnostic::at(
                    &entry.place,
                    format!("unknown key `params.{}`", entry.key),
                    format!(
                        "{guess}accepted: one of the {} parameters that `lowmark params` lists",
                        Params::TABLE.len()
                    ),
                ));
            };
            let path = format!("params.{}", entry.key);
            let value: f64 = read(&entry.node, &path)?;
            params.set(&entry.key, value).map_err(|_| {
                Diagnostic::at(
                    &entry.node.place,
                    format!("`{path}`: {value} is out of range"),
                    format!("accepted: {} to {} {}", info.min, info.max, info.unit),
                )
            })?;
        }
        all.push((variant.choices, params));
    }
    Ok(all)
}

/// Refuses a parameter in `[params]` that a machine or its disk sets too, because the experiment's
/// value would have no effect. `params` is that table.
fn no_parameter_twice(params: Option<&Node>, machines: &[machine::Made]) -> Result<(), Diagnostic> {
    let Some(table) = params.and_then(Node::table) else {
        return Ok(());
    };
    for entry in &table.0 {
        let key = &entry.key;
        let owner = machines.iter().map(|made| &made.machine).find_map(|m| {
            let named = m.mounts.iter().filter(|m| !m.is_second);
            let mut disks = std::iter::once(&m.disk).chain(named.map(|m| &m.disk));
            let of_disk = disks.any(|d| d.params.contains_key(key));
            let of_sysctl = key == "xfs_log_interval" && m.sysctl.xfssyncd_centisecs.is_some();
            let of_machine = m.params.contains_key(key);
            let owners = [
                (
                    of_disk,
                    "the disk of machine",
                    format!("machine.disk.params.{key}"),
                ),
                (of_machine, "machine", format!("machine.params.{key}")),
                (
                    of_sysctl,
                    "machine",
                    "machine.sysctl.xfssyncd_centisecs".into(),
                ),
            ];
            let mut owners = owners.into_iter().filter(|(own, ..)| *own);
            owners.next().map(|(_, whose, path)| (whose, &m.name, path))
        });
        if let Some((whose, machine, path)) = owner {
            return Err(Diagnostic::at(
                &entry.place,
                format!("`params.{key}` has no effect: {whose} `{machine}` has its own value"),
                format!("accepted: the value in one place, such as `{path}`"),
            ));
        }
    }
    Ok(())
}

/// Reads the value of `filesystem`, one name or a list of names.
fn filesystems(node: &Node) -> Result<Vec<FsKind>, Diagnostic> {
    alternatives(node, "filesystem")?
        .into_iter()
        .map(|(_, n)| read(n, "filesystem"))
        .collect()
}

/// Returns the policies that the key `policy` (`node`) names, in the order of its list. `tables`
/// are the policies that the experiment defines (`[policies]`).
fn named_policies(node: &Node, tables: Option<&Node>) -> Result<Vec<policy::Named>, Diagnostic> {
    let mut all = Vec::new();
    for (_, node) in alternatives(node, "policy")? {
        let name: String = read(node, "policy")?;
        all.extend(policy::policies(&name, node, tables)?);
        if all.len() > expand::MOST {
            return Err(expand::too_many(&node.place, all.len()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
