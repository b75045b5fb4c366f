//! Everything that the code's tables know is drawn: this fails for a new switch, parameter,
//! filesystem, disk, fault or program that is not.

use mm::Policy;
use sim::Params;
use sim::spec::{DiskKind, Machine};
use std::collections::{BTreeMap, BTreeSet};
use swarm::case::Case;
use swarm::space::{Fits, Space};
use swarm::{ends, machine, numbers, programs};
use toml::Value;
use workload::{Step, Task};

/// Number of draws in which everything must occur.
const DRAWS: u64 = 6000;

/// Keys that are not drawn, with the reason for each.
const LEFT_OUT: [(&str, &str); 22] = [
    (
        "groups",
        "memory control groups: each needs a program that runs in it",
    ),
    ("groups.*", "as groups"),
    ("groups.*.cpu_weight", "as groups"),
    ("groups.*.high", "as groups"),
    ("groups.*.io_weight", "as groups"),
    ("groups.*.low", "as groups"),
    ("groups.*.max", "as groups"),
    ("groups.*.min", "as groups"),
    ("groups.*.oom_group", "as groups"),
    ("groups.*.swap_max", "as groups"),
    ("workload.group", "as groups"),
    (
        "workload.columns",
        "how a trace's lines are read: the crate trace draws them",
    ),
    (
        "workload.fio_args",
        "another form of workload.fio, which is drawn",
    ),
    ("baseline", "what is held against what: cells run the same"),
    (
        "workload.command.root",
        "a program of the user's: for real kernels alone",
    ),
    ("workload.command.run", "as its root"),
    (
        "machine.base",
        "a machine file: the shipped experiments have it",
    ),
    ("guest", "the back end of real kernels, which are not drawn"),
    ("machine.cpu_speed", "for real kernels alone, as guest"),
    (
        "machine.memory",
        "a machine in words has nodes before it runs, and nodes are drawn",
    ),
    ("machine.nodes", "as machine.memory"),
    (
        "policies.base",
        "a file of policies: the shipped experiments have it",
    ),
];

/// Returns true if a parameter may be set at a path. The schema allows all parameters at every
/// disk, because it does not distinguish kinds of disks; those of a swap disk and a second disk are
/// drawn like the tested disk's.
fn fits_there(path: &str) -> bool {
    let info = |name: &str| Params::TABLE.iter().find(|p| p.name == name).unwrap();
    match path.rsplit_once(".params.") {
        Some(("machine", name)) => Machine::takes(info(name)),
        Some(("machine.disk", name)) => DiskKind::ALL.iter().any(|k| k.takes(info(name))),
        Some(_) => false,
        None => true,
    }
}

/// Records the contents of a case: for each path of the schema the words found there, or that there
/// is any value.
fn note(value: &Value, path: &str, seen: &mut BTreeMap<String, BTreeSet<String>>) {
    let entry = seen.entry(path.to_owned()).or_default();
    let join = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let any = ["policies", "workload.files"].contains(&path);
                note(value, &join(if any { "*" } else { key }), seen);
            }
        }
        Value::Array(list) => {
            for value in list {
                // A list where a single value is expected is an axis.
                note(value, path, seen);
                note(value, &join("#"), seen);
            }
        }
        Value::String(word) => {
            entry.insert(word.clone());
        }
        Value::Boolean(on) => {
            entry.insert(on.to_string());
        }
        _ => {}
    }
}

#[test]
fn every_key_and_word_of_the_schema_is_drawn() {
    let space = Space::new();
    let mut seen = BTreeMap::new();
    for seed in 0..DRAWS {
        note(
            &Value::Table(Case::draw(seed, seed, &space).table),
            "",
            &mut seen,
        );
    }
    let mut missing = Vec::new();
    for (path, fits) in &space.places {
        if !fits_there(path) || LEFT_OUT.iter().any(|(left, _)| left == path) {
            continue;
        }
        let Some(words) = seen.get(path) else {
            missing.push(path.clone());
            continue;
        };
        let due: Vec<String> = match fits {
            // Layouts of downloaded traces differ in how their lines are read alone.
            Fits::Choice(words) if path == "workload.format" => words
                .iter()
                .filter(|word| trace::Format::parse(word).is_some_and(|f| !f.is_layout()))
                .cloned()
                .collect(),
            Fits::Choice(words) => words.clone(),
            Fits::Switch => vec!["true".into(), "false".into()],
            _ => continue,
        };
        let lacking = due.iter().filter(|w| !words.contains(*w));
        missing.extend(lacking.map(|w| format!("{path} = {w}")));
    }
    let presets = Policy::PRESETS
        .iter()
        .filter(|p| !seen["policies.*.base"].contains(**p));
    missing.extend(presets.map(|p| format!("preset {p}")));
    assert!(missing.is_empty(), "never drawn: {missing:?}");
}

#[test]
fn every_program_is_drawn_as_the_parser_wants_it() {
    let space = Space::new();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let machine = machine::machine(seed, &space);
        for name in programs::drawn() {
            let line = programs::one(seed, name, &machine).command;
            let script = workload::parse(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            for step in &script.steps {
                if let Step::Foreground(p) | Step::Background(p) = step {
                    seen.extend(p.commands.iter().map(Task::name));
                }
            }
        }
    }
    assert!(
        programs::drawn().all(|name| seen.contains(name)),
        "{seen:?}"
    );
}

#[test]
fn nearly_every_draw_is_legal() {
    let space = Space::new();
    let folder = tempfile::tempdir().unwrap();
    let mut refused = Vec::new();
    let n = 1500;
    for seed in 0..n {
        let case = Case::draw(seed, seed, &space);
        if let Err(e) = case.load(folder.path()).unwrap() {
            refused.push(e.message);
        }
    }
    assert!(
        refused.len() * 10 < n as usize,
        "{} of {n}: {refused:?}",
        refused.len()
    );
    // Every seed yields a legal case, whatever its first draw was.
    for seed in 0..50 {
        let (case, ..) = Case::of_seed(seed, &space, folder.path()).unwrap().unwrap();
        let again = Case::of_seed(seed, &space, folder.path())
            .unwrap()
            .unwrap()
            .0;
        assert_eq!(case, again);
        let read: toml::Table = toml::from_str(&case.text()).unwrap();
        assert_eq!(read, case.table, "a case survives its file");
    }
}

#[test]
fn every_end_of_every_parameter_is_legal() {
    let space = Space::new();
    let folder = tempfile::tempdir().unwrap();
    let mut ends = BTreeSet::new();
    for nth in (0..ends::count(&space)).step_by(7) {
        let case = ends::case(nth, &space);
        let loaded = case.load(folder.path()).unwrap();
        let experiment = loaded.unwrap_or_else(|e| panic!("{nth}: {e}\n{}", case.text()));
        let params = &experiment.cells[0].spec.params;
        for info in Params::TABLE {
            let value = params.get(info.name).unwrap();
            let end = [info.min, info.max].iter().position(|end| *end == value);
            if let Some(end) = end.filter(|_| case.table["params"].get(info.name).is_some()) {
                ends.insert((info.name, end));
            }
        }
    }
    assert_eq!(ends.len(), 2 * Params::TABLE.len());
}

/// The ranges written beside the generator, because `lab` checks them in code, cover every sysctl.
#[test]
fn ranges_of_sysctls_are_those_that_are_checked() {
    let space = Space::new();
    let memory = numbers::Memory(64 << 20);
    for (key, _) in space.below("machine.sysctl") {
        assert!(numbers::sysctl(key, memory).is_some(), "{key}");
    }
}
