//! `lowmark report`.

use crate::cli::Report;
use crate::text;
use front::failure::Failure;
use front::worlds::Here;
use kernel::running::file::{self, Recording, of_snapshots};
use kernel::running::live;
use lab::diagnostic::Diagnostic;
use lab::model::Outcomes;
use lab::recorded::{self, Measured};
use lab::report::compare::Comparison;
use lab::results::{File, must_be_unchanged, text_unchanged};
use lab::runner::{self, RunOptions};
use lab::terminal::Screen;
use sim::RunResult;
use sim::result::Metric;
use std::path::{Path, PathBuf};

/// The report on measured figures.
pub struct Answer {
    /// The notable findings and the rows, for a terminal.
    pub text: String,
    /// Rows, findings and the page, for a results folder.
    pub files: Vec<File>,
}

impl Answer {
    /// Makes the report on `outcomes`: the rows, the findings in them, and the page.
    pub fn new(outcomes: &Outcomes) -> Self {
        let comparison = Comparison::new(outcomes);
        let page = lab::report::page::report(outcomes, &comparison);
        let rows = |screen| lab::rows::to_text(outcomes, screen);
        let explained = recorded::explained(outcomes);
        // The terminal begins with what stands out, as the page does.
        let first = text::screen().broken(explained.trim_start());
        Self {
            text: format!("{first}\n{}", rows(text::screen())),
            files: vec![
                File::new("rows.txt", rows(Screen::default())),
                File::new("explained.txt", explained),
                File::new("report.html", page),
            ],
        }
    }
}

/// Puts recordings side by side as the columns of a report, each with the name of its machine.
/// Equal names of columns get numbers.
pub fn outcomes_of(recordings: Vec<(Recording, String)>) -> Outcomes {
    let mut names: Vec<String> = Vec::new();
    let mut workloads: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut measured = Vec::new();
    for (recording, machine) in recordings {
        let about = recording.about.clone();
        let numbered = |n: u32| format!("{} ({n})", about.name);
        let mut name = about.name.clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = numbered(number);
        }
        names.push(name.clone());
        let release = match recording.release() {
            live::RELEASE => "a live cache".to_owned(),
            release => format!("Linux {release}"),
        };
        text += &format!("# {name}: {release}, recorded: {}\n", about.what);
        if !workloads.contains(&about.what) {
            workloads.push(about.what);
        }
        measured.push(Measured {
            name,
            machine,
            results: vec![recording.result()],
        });
    }
    recorded::outcomes("record", &workloads.join(" | "), text, measured)
}

/// Returns the error for wrong input: `what` is wrong, and `accepted` would be right.
fn wrong(what: String, accepted: &str) -> Failure {
    Failure::Input(Diagnostic::placeless(what, accepted).into())
}

/// Prints the rows of mm reports for recordings, a run's folder, or files of another machine. With
/// `--experiment` the engine's prediction stands beside the measured figures.
pub fn run(args: &Report) -> Result<(), Failure> {
    let mut outcomes = match &args.runs[..] {
        [] => foreign(args)?,
        runs => match recordings(runs)? {
            Some(outcomes) => outcomes,
            None => return stored(&runs[0], args.json),
        },
    };
    if let (Some(path), Some(machine)) = (&args.experiment, &args.machine) {
        let predicted = predicted(args, path, machine)?;
        outcomes = beside(outcomes, predicted);
    }
    if args.json {
        return text::print(&lab::results::rows_json(&outcomes));
    }
    text::print(&Answer::new(&outcomes).text)
}

/// Reads the recordings in these folders or files; `None`: there is one folder, and it is that of a
/// run, whose rows exist already.
fn recordings(runs: &[PathBuf]) -> Result<Option<Outcomes>, Failure> {
    let mut all = Vec::new();
    for run in runs {
        let path = match run.is_dir() {
            true => run.join(file::NAME),
            false => run.clone(),
        };
        if runs.len() == 1 && run.is_dir() && !path.exists() && run.join("rows.txt").exists() {
            return Ok(None);
        }
        let recording = must_be_unchanged(&path).and_then(|_| Recording::read(&path));
        let recording = recording.map_err(|e| {
            let accepted = "accepted: a results folder of `lowmark record`, several of them, or one of `lowmark run`";
            wrong(format!("{}: {e}", path.display()), accepted)
        })?;
        let machine = machine_name(&run.join("machine.toml"));
        all.push((recording, machine));
    }
    Ok(Some(outcomes_of(all)))
}

/// Returns the machine's name from the machine file at `path`; "a machine" if there is none.
fn machine_name(path: &Path) -> String {
    let text = input::text(path, MOST_SNAPSHOT).unwrap_or_default();
    let name = text.lines().find_map(|l| l.strip_prefix("name = "));
    name.map_or_else(
        || "a machine".to_owned(),
        |name| name.trim().trim_matches('"').to_owned(),
    )
}

/// Prints the stored comparison and rows of a run's folder, or its rows as JSON. Files that were
/// changed since are an error.
fn stored(run: &Path, json: bool) -> Result<(), Failure> {
    let read = |name: &str| {
        text_unchanged(run, name).map_err(|e| {
            let accepted = "accepted: a results folder that is complete";
            wrong(format!("{}: {e}", run.join(name).display()), accepted)
        })
    };
    match json {
        true => text::print(&read("rows.json")?),
        false => text::print(&format!(
            "{}\n{}",
            read("comparison.txt")?,
            read("rows.txt")?
        )),
    }
}

/// Makes outcomes from files of another machine: two texts of /proc/vmstat and of /proc/zoneinfo,
/// before and after, and a kernel's trace. Without `--elapsed` rows per second are left out.
fn foreign(args: &Report) -> Result<Outcomes, Failure> {
    let mut result = match &args.vmstat[..] {
        [alone] => {
            let text = snapshot(alone, "vmstat", "nr_free_pages")?;
            let mut result = of_snapshots([&at_boot(&text), &text], None);
            let note = "one text of /proc/vmstat: everything since boot, not what one workload did";
            result.notes.push(note.to_owned());
            result
        }
        [before, after] => {
            let read = |path: &PathBuf, of: &str, must: &str| snapshot(path, of, must);
            let vmstat = [
                read(before, "vmstat", "nr_free_pages")?,
                read(after, "vmstat", "nr_free_pages")?,
            ];
            let zoneinfo = match &args.zoneinfo[..] {
                [before, after] => Some([
                    read(before, "zoneinfo", "Node ")?,
                    read(after, "zoneinfo", "Node ")?,
                ]),
                _ => None,
            };
            let zoneinfo = zoneinfo.as_ref().map(|[a, b]| [a.as_str(), b.as_str()]);
            backwards(&vmstat, before, after)?;
            of_snapshots([&vmstat[0], &vmstat[1]], zoneinfo)
        }
        _ => RunResult::of_kernel(sim::Outcome::Completed),
    };
    if let Some(seconds) = args.elapsed {
        let elapsed = Metric {
            unit: "s",
            value: seconds,
        };
        result.metrics.insert("elapsed".to_owned(), elapsed);
    } else {
        let note =
            "the elapsed time is unknown (`--elapsed` gives it): rows per second are left out";
        result.notes.push(note.to_owned());
    }
    if let Some(path) = &args.ftrace {
        recorded::with_events(&mut result, &super::trace::read(path)?);
    }
    let measured = Measured {
        name: args.name.clone(),
        machine: "a machine".to_owned(),
        results: vec![result],
    };
    let text = "# figures of snapshots\n".to_owned();
    Ok(recorded::outcomes(
        "report",
        "measured",
        text,
        vec![measured],
    ))
}

/// Returns the text of /proc/vmstat as it was at boot: the same names, each 0.
fn at_boot(vmstat: &str) -> String {
    let names = vmstat.lines().filter_map(|l| l.split_whitespace().next());
    names.map(|name| format!("{name} 0\n")).collect()
}

/// The longest snapshot that is read, in bytes: /proc/zoneinfo of a machine with many CPUs and
/// nodes has less than one MiB.
const MOST_SNAPSHOT: u64 = 64 << 20;

/// Reads the snapshot at `path` and checks that it is the text of /proc/`of`: a line must start
/// with `must`.
fn snapshot(path: &Path, of: &str, must: &str) -> Result<String, Failure> {
    let accepted = format!("accepted: the text of /proc/{of}");
    let text = input::text(path, MOST_SNAPSHOT)
        .map_err(|e| wrong(format!("{}: {e}", path.display()), &accepted))?;
    match text.lines().any(|line| line.starts_with(must)) {
        true => Ok(text),
        false => Err(wrong(
            format!(
                "{}: not the text of /proc/{of}, because it has no `{must}`",
                path.display()
            ),
            &accepted,
        )),
    }
}

/// Checks that no counter has decreased from the first text of /proc/vmstat to the last, which
/// would mean that the snapshots are swapped. The paths are for the error.
fn backwards(vmstat: &[String; 2], before: &Path, after: &Path) -> Result<(), Failure> {
    let [first, last] = vmstat.each_ref().map(|text| kernel::proc::vmstat(text));
    let less = first.iter().find(|(name, n)| {
        // Only these counters are compared: they never decrease, and every kernel has them.
        ["pgpgin", "pgpgout", "pgfault", "pgfree", "pgscan_kswapd"].contains(name)
            && last.get(*name).is_some_and(|m| m < n)
    });
    match less {
        None => Ok(()),
        Some((name, n)) => Err(wrong(
            format!(
                "{name} is {n} in {} and {} in {}",
                before.display(),
                last[name],
                after.display()
            ),
            "accepted: first the earlier snapshot, then the later one of the same boot",
        )),
    }
}

/// Runs the experiment at `path` on the machine file `machine` in the engine, and returns the
/// outcomes as the prediction for measured figures. An interrupted or failed run is an error.
fn predicted(args: &Report, path: &Path, machine: &Path) -> Result<Outcomes, Failure> {
    let set = args.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let iterations = args.iterations.get();
    let experiment = recorded::prediction(path, machine, &args.policy, set, iterations);
    let experiment = experiment.map_err(|e| Failure::Input(e.into()))?;
    let options = RunOptions {
        jobs: front::runs::fitting_jobs(&experiment, None)?,
        check: None,
        progress: Some(crate::bars::iterations),
        listeners: None,
        stop: crate::interrupt::flag_saying("stopping; once more to stop at once"),
    };
    let here = Here {
        patience: kernel::PATIENCE,
    };
    let outcomes = runner::run(&experiment, &options, &here)?;
    if outcomes.interrupted {
        let what = "interrupted before the engine's runs for comparison ended";
        return Err(Failure::Stopped(what.to_owned()));
    }
    match front::runs::failures(&outcomes) {
        Some(failed) => Err(Failure::Results(failed)),
        None => Ok(outcomes),
    }
}

/// Puts measured and predicted outcomes side by side, the measured ones first, under the measured
/// workload.
fn beside(measured: Outcomes, predicted: Outcomes) -> Outcomes {
    let what = measured.experiment.cells[0].filesystem.clone();
    let text = measured.experiment.text + &predicted.experiment.text;
    let name = measured.experiment.name;
    let cells = measured.experiment.cells.iter();
    let cells = cells.chain(&predicted.experiment.cells);
    let names: Vec<(String, String)> = cells
        .map(|c| (c.policy.clone(), c.machine.clone()))
        .collect();
    let results = measured.results.into_iter().chain(predicted.results);
    let all = names
        .into_iter()
        .zip(results)
        .map(|((name, machine), r)| Measured {
            name,
            machine,
            results: r.into_iter().flatten().collect(),
        });
    recorded::outcomes(&name, &what, text, all.collect())
}
