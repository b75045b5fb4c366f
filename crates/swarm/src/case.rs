//! A case: an experiment as a user would write it, with the files that it refers to.

use crate::changes;
use crate::dice::Dice;
use crate::inputs;
use crate::machine;
use crate::numbers;
use crate::policy;
use crate::programs;
use crate::space::Space;
use lab::diagnostic::{Diagnostic, Source};
use lab::experiment::{Overrides, files_near, parse};
use lab::model::Experiment;
use mm::Policy;
use serde::{Deserialize, Serialize};
use sim::Params;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use toml::{Table, Value};

/// An experiment file and the files beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The keys of the experiment file.
    pub table: Table,
    /// The files that it refers to, by name: a trace, a job file.
    pub beside: BTreeMap<String, Vec<u8>>,
}

/// Name of the experiment file in its folder.
const FILE: &str = "case.toml";
/// Maximum number of draws for one seed until one is legal: values whose ranges depend on each
/// other are not always drawn so that they fit.
pub(crate) const TRIES: u64 = 64;

impl Case {
    /// Draws the experiment of `seed` for the swarm (random legal experiments held to laws), again
    /// and again until `lab` accepts a draw. `space` has the words that the schema allows. Returns
    /// the case laid out in `folder`, the experiment that `lab` reads from it, and the number of
    /// draws refused before it; if all `TRIES` draws were refused, `lab`'s error for the last one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn of_seed(
        seed: u64,
        space: &Space,
        folder: &Path,
    ) -> io::Result<Result<(Self, Experiment, u64), Diagnostic>> {
        let mut last = None;
        for nth in 0..TRIES {
            // The upper bits of the seed tell the draws apart.
            let case = Self::draw(seed.wrapping_add(nth << 48), seed, space);
            match case.load(folder)? {
                Ok(experiment) => return Ok(Ok((case, experiment, nth))),
                Err(refused) => last = Some(refused),
            }
        }
        Ok(Err(last.expect("there were draws")))
    }

    /// Draws a case, legal or not: machine, policies, filesystem, parameters, changes of sysctls
    /// and workload, each mostly from a random stream of its own. `named` is the seed that the
    /// experiment names; `space` has the words that the schema allows.
    pub fn draw(seed: u64, named: u64, space: &Space) -> Self {
        let d = &mut Dice::new(seed, "experiment");
        let machine = machine::machine(seed, space);
        let (policies, mut names) = policy::policies(seed, space, &machine);
        if d.one_in(24) {
            names.push((*d.pick(Policy::PRESETS)).to_owned());
            names.dedup();
        }
        let mut table = Table::new();
        table.insert("name".into(), format!("swarm-{named}").into());
        table.insert("iterations".into(), Value::Integer(1));
        table.insert("seed".into(), numbers::whole(named & (u64::MAX >> 1)));
        table.insert("policy".into(), one_or_list(names));
        table.insert("filesystem".into(), filesystems(d, space));
        // A long simulated time costs the most and shows the least.
        table.insert(
            "time_limit_s".into(),
            Value::Integer(d.magnitude(2, 8) as i64),
        );
        if d.one_in(3) {
            let sample = *d.pick(&[0.0, 0.01, 0.1, 0.5, 3600.0]);
            table.insert("sample_s".into(), Value::Float(sample));
        }
        if !policies.is_empty() {
            table.insert("policies".into(), Value::Table(policies));
        }
        let monitors = d.one_in(12);
        let mut params = numbers::parameters(d, Params::TABLE.iter(), 12);
        if monitors {
            table.insert("monitors".into(), Value::Boolean(true));
            // The default is more memory than these machines have.
            let memory = d.magnitude(4096, machine.memory / 8);
            params.insert("monitor_memory".into(), Value::Float(memory as f64));
        } else if d.one_in(12) {
            table.insert("monitors".into(), Value::Boolean(false));
        }
        if d.one_in(4) {
            // By default a stopped disk reports errors only after these runs have ended.
            params.insert("disk_fail_timeout".into(), Value::Float(1e8));
        }
        own_params_are_left_out(&mut params, &machine.table);
        if !params.is_empty() {
            table.insert("params".into(), Value::Table(params));
        }
        if d.one_in(8) {
            let figures = ["elapsed", "nr_vmscan_write"];
            let n = d.between(1, figures.len() as u64) as usize;
            let figures = figures[..n].iter().map(|f| (*f).into()).collect();
            table.insert("compare".into(), Value::Array(figures));
        }
        let changes = changes::changes(seed, space, &machine, &table);
        if !changes.is_empty() {
            table.insert("at".into(), Value::Array(changes));
        }
        let mut beside = BTreeMap::new();
        let workload = workload(seed, d, space, &machine, &mut beside);
        table.insert("machine".into(), Value::Table(machine.table));
        table.insert("workload".into(), Value::Table(workload));
        Self { table, beside }
    }

    /// Returns the text of the experiment file.
    ///
    /// # Panics
    /// Never: a drawn table and one read from a file can always be written as TOML.
    pub fn text(&self) -> String {
        toml::to_string(&self.table).expect("a table is TOML")
    }

    /// Writes the case into `folder` and has `lab` read the experiment. The inner error is that of
    /// `lab`, which refuses the case.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn load(&self, folder: &Path) -> io::Result<Result<Experiment, Diagnostic>> {
        for (name, bytes) in &self.beside {
            std::fs::write(folder.join(name), bytes)?;
        }
        let path = folder.join(FILE);
        let source = Source::new(path.display().to_string(), self.text());
        Ok(parse(&source, &files_near(&path), &Overrides::default()))
    }

    /// Reads an experiment file and the trace or job file that it refers to as a case.
    ///
    /// # Errors
    /// A file cannot be read, or the experiment file is not TOML.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let table: Table = toml::from_str(&text).map_err(io::Error::other)?;
        let mut beside = BTreeMap::new();
        let folder = path.parent().unwrap_or(Path::new(""));
        let workload = table.get("workload").and_then(Value::as_table);
        for key in ["trace", "fio"] {
            let name = workload.and_then(|w| w.get(key)).and_then(Value::as_str);
            if let Some(name) = name {
                beside.insert(name.to_owned(), std::fs::read(folder.join(name))?);
            }
        }
        Ok(Self { table, beside })
    }
}

/// Returns a single word as a TOML string, and several as a list.
fn one_or_list(mut words: Vec<String>) -> Value {
    if words.len() == 1 {
        return words.remove(0).into();
    }
    Value::Array(words.into_iter().map(Value::from).collect())
}

/// Draws the filesystem with `d`, seldom two of them, so that the experiment runs on each.
fn filesystems(d: &mut Dice, space: &Space) -> Value {
    let words = space.choices("filesystem");
    let first = d.pick(words).clone();
    let second = d.pick(words).clone();
    if second != first && d.one_in(20) {
        return one_or_list(vec![first, second]);
    }
    first.into()
}

/// Removes the parameters from `params`, the experiment's own, that the machine or one of its disks
/// sets too: `lab` refuses a parameter that is set twice.
fn own_params_are_left_out(params: &mut Table, machine: &Table) {
    // The table at a path of keys below the machine.
    let at = |path: &[&str]| {
        let mut table = Some(machine);
        for key in path {
            table = table.and_then(|t| t.get(*key)).and_then(Value::as_table);
        }
        table
    };
    for path in [
        &["params"][..],
        &["disk", "params"],
        &["swap", "disk", "params"],
        &["second", "disk", "params"],
    ] {
        for name in at(path).into_iter().flat_map(Table::keys) {
            params.remove(name);
        }
    }
    let disks = machine.get("disk").and_then(Value::as_array);
    for disk in disks.into_iter().flatten() {
        let own = disk.get("params").and_then(Value::as_table);
        for name in own.into_iter().flat_map(Table::keys) {
            params.remove(name);
        }
    }
    let sysctl = machine.get("sysctl").and_then(Value::as_table);
    if sysctl.is_some_and(|s| s.contains_key("xfssyncd_centisecs")) {
        params.remove("xfs_log_interval");
    }
}

/// Draws the `[workload]` table: mostly a command line, else a job file of fio or a trace, which is
/// added to `beside`, the files that the experiment refers to.
fn workload(
    seed: u64,
    d: &mut Dice,
    space: &Space,
    machine: &machine::Drawn,
    beside: &mut BTreeMap<String, Vec<u8>>,
) -> Table {
    let mut table = Table::new();
    match d.between(0, 9) {
        0 => {
            let text = inputs::job_file(seed, machine);
            beside.insert("jobs.fio".into(), text.into_bytes());
            table.insert("fio".into(), "jobs.fio".into());
        }
        1 => {
            let formats = space.choices("workload.format");
            let formats: Vec<_> = formats
                .iter()
                .filter(|f| inputs::writes(f))
                .cloned()
                .collect();
            let format = d.pick(&formats).clone();
            let (name, bytes) = inputs::trace_file(seed, &format, machine);
            beside.insert(name.clone(), bytes);
            table.insert("trace".into(), name.into());
            let timing = d.pick(space.choices("workload.timing")).clone();
            table.insert("timing".into(), timing.into());
            if d.one_in(2) {
                table.insert(
                    "unit".into(),
                    d.pick(space.choices("workload.unit")).clone().into(),
                );
            }
            if d.one_in(2) {
                table.insert("format".into(), format.into());
            }
            if d.one_in(4) {
                table.insert("lenient".into(), Value::Boolean(d.one_in(2)));
            }
        }
        _ => {
            let line = programs::line(seed, machine);
            table.insert("command".into(), line.command.into());
            if !line.files.is_empty() {
                table.insert("files".into(), Value::Table(line.files));
            }
            if d.one_in(12) {
                table.insert("threads".into(), "1X".into());
            }
        }
    }
    if d.one_in(8) {
        let zones = machine
            .zones
            .iter()
            .filter(|(_, zone, _)| !["Movable", "HighMem"].contains(&&zone[..]));
        let nodes: Vec<u64> = zones.map(|z| z.0).collect();
        if !nodes.is_empty() {
            table.insert("membind".into(), numbers::whole(*d.pick(&nodes)));
        }
    }
    if d.one_in(12) {
        table.insert("name".into(), "swarm".into());
    }
    table
}
