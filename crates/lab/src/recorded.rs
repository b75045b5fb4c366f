//! Shows measured figures, which no run gave, in Lowmark's report rows: recordings of a running
//! Linux, snapshots and traces of any machine. Several of them are compared as policies are, with
//! the first as the baseline.

use crate::diagnostic::{Diagnostic, Source};
use crate::experiment::{Overrides, files_near, parse, quoted};
use crate::model::{Cell, Experiment, Outcomes};
use crate::report::found;
use sim::RunResult;
use sim::ftrace::read::Traced;
use std::fmt::Write as _;
use std::path::Path;

/// A measurement to be shown beside others.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Its name in tables: a kernel's release, a preset.
    pub name: String,
    /// The name of the machine it was taken on.
    pub machine: String,
    /// The measured results, one for each repetition.
    pub results: Vec<RunResult>,
}

/// A placeholder [`Experiment`] for measurements, which have none: no figure depends on it.
const STAND_IN: &str = "name = \"recorded\"\niterations = 1\npolicy = \"linux-4.9\"\nfilesystem = \"ext4\"\n\
    [machine]\nname = \"recorded\"\ncpus = 1\n[[machine.node]]\nzones = [{ zone = \"Normal\", size = \"512M\" }]\n\
    [machine.disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n[workload]\ncommand = \"sleep 1\"\n";

/// Wraps measurements as the outcomes of an experiment, one cell each with the first as the
/// baseline, so that reports can show and compare them. `name` names the results, `what` says what
/// was measured and labels the group, and `text` stands in full in the place of an experiment's
/// text.
///
/// # Panics
/// Panics if two measurements have the same name: rows could not tell them apart.
pub fn outcomes(name: &str, what: &str, text: String, measured: Vec<Measured>) -> Outcomes {
    let stand_in = Source::new("recorded", STAND_IN.to_owned());
    let near = files_near(Path::new("recorded"));
    let experiment = parse(&stand_in, &near, &Overrides::default());
    let experiment = experiment.expect("the stand-in is an experiment");
    let several = measured.len() > 1;
    let iterations = measured.iter().map(|m| m.results.len()).max().unwrap_or(0);
    // All that is not measured comes from the stand-in's only cell.
    let cell = |(i, m): (usize, &Measured)| Cell {
        axes: match several {
            true => vec![("policy".to_owned(), m.name.clone())],
            false => Vec::new(),
        },
        machine: m.machine.clone(),
        // Measurements are grouped by what was measured.
        filesystem: what.to_owned(),
        policy: m.name.clone(),
        baseline: i == 0,
        by: None,
        ..experiment.cells[0].clone()
    };
    let cells: Vec<Cell> = measured.iter().enumerate().map(cell).collect();
    for (i, cell) in cells.iter().enumerate() {
        let same = cells[..i].iter().any(|c| c.policy == cell.policy);
        assert!(!same, "two are called {}", cell.policy);
    }
    Outcomes {
        experiment: Experiment {
            name: name.to_owned(),
            iterations: iterations as u32,
            text,
            axes: match several {
                true => vec!["policy".to_owned()],
                false => Vec::new(),
            },
            cells,
            ..experiment
        },
        results: measured
            .into_iter()
            .map(|m| {
                let mut results: Vec<_> = m.results.into_iter().map(Some).collect();
                results.resize_with(iterations, || None);
                results
            })
            .collect(),
        host: Vec::new(),
        interrupted: false,
        build: None,
    }
}

/// Adds the sums of a trace of events to the result of a machine's snapshots, or a note that says
/// why they are left out. The text of a trace does not say which events were being recorded, so an
/// event that never occurs counts as 0 only if the counters agree, and is left out otherwise.
pub fn with_events(result: &mut RunResult, traced: &Traced) {
    let occurred = |name: &str| traced.events.contains_key(name);
    // The sum of the counters whose names begin so; `None` if there are none.
    let counted = |prefix: &str| {
        let all = result.counters.iter();
        let values: Vec<u64> = all
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(_, n)| *n)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<u64>())
    };
    // Events of the trace, each with a counter that must be 0 if it did not occur.
    let silent = [
        ("mm_vmscan_lru_isolate", "pgscan_kswapd"),
        ("mm_vmscan_lru_isolate", "pgscan_direct"),
        ("mm_vmscan_direct_reclaim_begin", "allocstall"),
    ];
    let silent = silent
        .iter()
        .find(|(event, counter)| !occurred(event) && counted(counter) != Some(0));
    if let Some((event, counter)) = silent {
        let evidence = match counted(counter) {
            Some(n) => format!("{counter} has {n}"),
            None => format!("no {counter} shows that there were none"),
        };
        result.notes.push(format!(
            "the trace has no {event}, and {evidence}: the rows of vmscan's events are left out"
        ));
        return;
    }
    let mut sums = traced.sums;
    for class in [&mut sums.direct, &mut sums.kswapd] {
        if !occurred("writeback_congestion_wait") {
            class.congest = None;
        }
        if !occurred("writeback_wait_iff_congested") {
            class.conditional = None;
        }
    }
    result.reclaim = Some(sums);
}

/// Returns a text that lists for each measurement the figures that stand out, with their meanings;
/// then the notes on the measurement.
pub fn explained(outcomes: &Outcomes) -> String {
    let mut out = String::new();
    for (name, figures, result) in found::of_all(outcomes) {
        let _ = writeln!(out, "\n{name}:");
        if figures.is_empty() {
            let _ = writeln!(out, "  {}", found::NOTHING);
        }
        for f in figures {
            let _ = writeln!(out, "  {} {}: {}", f.name, f.value, f.meaning);
        }
        for note in &result.notes {
            let _ = writeln!(out, "  note: {note}");
        }
    }
    out
}

/// Returns the experiment in the file `path` on a machine's file under one policy, with further
/// settings `set` as for `--set`: a prediction by the engine to stand beside measurements. It must
/// have one cell.
///
/// # Errors
/// Fails if the experiment is wrong, or has several cells, so that it is unclear which was
/// measured.
pub fn prediction(
    path: &Path,
    machine: &Path,
    policy: &str,
    mut set: Vec<String>,
    iterations: u32,
) -> Result<Experiment, Diagnostic> {
    let machine = std::fs::canonicalize(machine).unwrap_or_else(|_| machine.to_owned());
    set.push(format!(
        "machine={}",
        quoted(&machine.display().to_string())
    ));
    set.push(format!("policy={}", quoted(policy)));
    let overrides = Overrides {
        set,
        iterations: Some(iterations),
        track_pages: false,
        ..Overrides::default()
    };
    let experiment = crate::experiment::load(path, &overrides)?;
    if experiment.cells.len() > 1 {
        let axes = experiment.axes.join(", ");
        let what = format!(
            "`{}` has {} cells here ({axes} vary), and one was measured",
            path.display(),
            experiment.cells.len()
        );
        return Err(Diagnostic::placeless(
            what,
            "accepted: an experiment of one cell; `--set KEY=VALUE` chooses one of a list",
        ));
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::Comparison;
    use crate::rows;
    use sim::Outcome;
    use sim::result::{Column, Metric};

    fn result(counters: &[(&str, u64)]) -> RunResult {
        let mut result = RunResult::of_kernel(Outcome::Completed);
        let own = |(name, n): &(&str, u64)| ((*name).to_owned(), *n);
        result.counters = counters.iter().map(own).collect();
        result
    }

    fn traced(text: &str) -> Traced {
        sim::ftrace::read::rows(text.as_bytes()).unwrap()
    }

    const STALL: &str = "dd-7 [000] ..... 1.000000: mm_vmscan_direct_reclaim_begin: order=0\n\
        dd-7 [000] ..... 1.500000: mm_vmscan_lru_isolate: classzone=0 order=0 nr_requested=32 nr_scanned=32 \
        nr_skipped=0 nr_taken=32 lru=inactive_file\n\
        dd-7 [001] ..... 2.000000: mm_vmscan_direct_reclaim_end: nr_reclaimed=32\n";

    #[test]
    fn what_a_trace_does_not_say_is_not_told() {
        let counters = [
            ("pgscan_kswapd", 0),
            ("pgscan_direct", 32),
            ("allocstall_normal", 1),
        ];
        let mut r = result(&counters);
        with_events(&mut r, &traced(STALL));
        let sums = r.reclaim.unwrap();
        assert_eq!((sums.direct_reclaims, sums.stalled_ns), (1, 1_000_000_000));
        assert_eq!(sums.direct.congest, None, "no kernel of today waits so");
        // kswapd scanned pages but no event tells of it: vmscan's events were not recorded.
        let mut r = result(&[
            ("pgscan_kswapd", 9),
            ("pgscan_direct", 0),
            ("allocstall", 0),
        ]);
        with_events(
            &mut r,
            &traced("dd-7 [000] ..... 1.000000: mm_vmscan_kswapd_wake: nid=0\n"),
        );
        assert_eq!(r.reclaim, None);
        assert!(r.notes[0].contains("pgscan_kswapd has 9"), "{:?}", r.notes);
    }

    #[test]
    fn what_stands_out_is_said_in_the_words_of_the_rows() {
        let calm = result(&[("pgscan_direct", 0), ("pgsteal_direct", 0)]);
        let busy = result(&[("pgscan_direct", 64), ("pgsteal_direct", 60)]);
        let one = |name: &str, result| Measured {
            name: name.to_owned(),
            machine: "m".to_owned(),
            results: vec![result],
        };
        let o = outcomes(
            "x",
            "dd",
            String::new(),
            vec![one("6.1", calm), one("6.12", busy)],
        );
        let text = explained(&o);
        let (calm, busy) = text.split_once("\n6.12:").unwrap();
        assert!(calm.contains("nothing stands out"), "{text}");
        assert!(
            busy.contains("Direct pages scanned 64 pages: processes search for pages themselves"),
            "{text}"
        );
        let rows = rows::to_text(&o, crate::terminal::Screen::default());
        assert!(rows.contains("unsupported"), "{rows}");
    }

    #[test]
    fn a_recordings_page_begins_with_what_stands_out() {
        let one = |result| Measured {
            name: "6.12".to_owned(),
            machine: "m".to_owned(),
            results: vec![result],
        };
        let page = |result| {
            let o = outcomes("record", "dd", String::new(), vec![one(result)]);
            let page = crate::report::page::report(&o, &Comparison::new(&o));
            (page, explained(&o))
        };
        let mut busy = result(&[("allocstall_normal", 7), ("pgscan_direct", 64)]);
        let psi = Metric {
            unit: "s",
            value: 1.5,
        };
        busy.metrics.insert("psi_memory_some".to_owned(), psi);
        let column = |name: &str, values: [f64; 2]| Column {
            name: name.to_owned(),
            scope: "all".to_owned(),
            unit: "pages",
            values: values.into(),
        };
        busy.series.t = vec![0.0, 1.0];
        busy.series.columns = vec![
            column("dirty", [100.0, 700.0]),
            column("writeback", [0.0, 200.0]),
            column("background_limit", [500.0; 2]),
            column("dirty_limit", [1000.0; 2]),
        ];
        let (busy, text) = page(busy);
        let main = busy.split("<main>").nth(1).unwrap();
        let at = |part: &str| {
            main.find(part)
                .unwrap_or_else(|| panic!("no {part}: {main}"))
        };
        let order = [
            "6.12: 4 figures stand out",
            ">allocstall</span><span class=\"claim\">7<",
            ">psi_memory_some</span><span class=\"claim\">1.50 s<",
            ">dirty</span><span class=\"claim\">900 of 1000 pages<",
            ">Direct pages scanned</span>",
            "id=\"groups\"",
        ];
        assert!(order.map(at).is_sorted(), "{main}");
        assert!(text.contains("  dirty 900 of 1000 pages: "), "{text}");
        // One recording is compared with nothing, and its page says which rows are folded.
        for other in ["Comparison</", "baseline</span>", "Nothing was"] {
            assert!(!busy.contains(other), "{other}");
        }
        assert!(busy.contains("\"measured\":true"));
        let calm = page(result(&[("pgscan_direct", 0)])).0;
        assert!(calm.contains("6.12: nothing stands out"));
    }
}
