//! `lowmark mrc`.

mod verdict;

use crate::cli::Mrc;
use crate::commands::run::jobs;
use crate::failure::Failure;
use crate::place::{claim, settled};
use crate::{interrupt, text};
use evict::registry;
use indicatif::{ProgressBar, ProgressStyle};
use lab::report::curves::{Line, Page, Panel, html};
use lab::report::terminal::Screen;
use lab::results::{ClaimedFolder, File, Kind, Published, Terms};
use lab::runner::memory::Host;
use miette::miette;
use replay::curve::{self, Curves, Plan, Point};
use replay::opt::OPT;
use replay::{Budget, SampleFacts, Unit, WriteModel};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace::{Format, Options, TraceError};

/// Simulates caches on a trace, one for each policy and size, and prints their miss ratios; with
/// `--out` also writes them to a results folder.
pub fn run(args: &Mrc) -> Result<(), Failure> {
    let plan = plan(args)?;
    let title = args.trace.file_name().unwrap_or_default().to_string_lossy();
    let place = match &args.out {
        Some(dir) => {
            let terms = Terms {
                kind: Kind::Mrc,
                title: &title,
                replace: args.replace,
            };
            Some(guarded(claim(Some(dir), "", terms)?))
        }
        None => None,
    };
    eprintln!("{}", curve::memory(&plan));
    let curves = watched(&args.trace, &plan).map_err(unreadable)?;
    let place = place.and_then(|place| lock(&place).take());
    let published: Option<Published> = match place {
        Some(place) => {
            let files = files(&curves);
            Some(place.publish(&|emit| files.iter().try_for_each(|f| emit(f.clone())))?)
        }
        None => None,
    };
    let written = published.as_ref().map_or(Ok(()), settled);
    if args.json {
        text::print_json(&document(&curves))?;
        return written;
    }
    text::print(&tables(&curves, text::screen()))?;
    if curves.skipped > 0 {
        eprintln!(
            "{} records could not be read and were skipped",
            curves.skipped
        );
    }
    written?;
    if let Some(published) = &published {
        eprintln!("results in {}", published.dir.display());
    }
    Ok(())
}

/// Runs the plan on the trace, with progress on a terminal, and returns the curves.
fn watched(trace: &Path, plan: &Plan) -> Result<Curves, TraceError> {
    let bar = ProgressBar::new_spinner();
    bar.set_message("reading the trace");
    bar.enable_steady_tick(Duration::from_millis(250));
    let style = |text| ProgressStyle::with_template(text).expect("a valid template");
    bar.set_style(style("{spinner} {msg}, {elapsed} gone"));
    let curves = curve::run_watched(trace, plan, &|done, of| {
        if done == 0 {
            bar.set_length(of as u64);
            bar.set_style(style("{wide_bar} {pos}/{len} caches, {elapsed} gone"));
        }
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    curves
}

/// Makes Ctrl-C release the claimed folder, because the simulator can't be stopped. Returns the
/// folder in a lock; `None` in it: an interrupt has taken it.
fn guarded(place: ClaimedFolder) -> Arc<Mutex<Option<ClaimedFolder>>> {
    let place = Arc::new(Mutex::new(Some(place)));
    let held = Arc::clone(&place);
    interrupt::before_exit(move || drop(lock(&held).take()));
    place
}

/// Locks the claimed folder, also after a panic of its holder.
fn lock(place: &Mutex<Option<ClaimedFolder>>) -> std::sync::MutexGuard<'_, Option<ClaimedFolder>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts an error of reading a trace into a failure.
pub fn unreadable(e: TraceError) -> Failure {
    Failure::Input(miette!(help = format!("accepted: {}", e.accepted), "{e}"))
}

/// Makes the plan of a simulation from the options: policies without repetitions, sizes, sampling
/// and the model of writes.
///
/// # Errors
/// A policy is unknown or has no model of writes, or sizes are given in bytes where objects have
/// none.
pub fn plan(args: &Mrc) -> Result<Plan, Failure> {
    let mut policies = Vec::new();
    for name in &args.policy {
        let name = name.trim();
        match replay::find(name) {
            // An optimal order for writes, with the fewest stalls, is not known.
            Some(entry) if args.writes && *entry == OPT => {
                return Err(Failure::Input(miette!(
                    help = format!("accepted with `--writes`: all, {}", registry::names()),
                    "`{}` has no model of writes: it minimizes misses, not stalls",
                    OPT.name
                )));
            }
            Some(entry) => policies.push(entry.name),
            None if name.eq_ignore_ascii_case("all") => {
                let all = replay::policies().filter(|e| !args.writes || **e != OPT);
                policies.extend(all.map(|e| e.name));
            }
            None => {
                return Err(Failure::Input(miette!(
                    help = format!("accepted: all, {}", replay::names()),
                    "`{name}` is not an eviction policy"
                )));
            }
        }
    }
    if args.sizes.in_bytes && args.ignore_size {
        return Err(Failure::Input(miette!(
            help = "accepted: numbers of objects such as `5000`, or per cent of them such as `10%`",
            "sizes in bytes have no meaning for this trace, where every record is one object of any size"
        )));
    }
    let mut seen = Vec::new();
    policies.retain(|p| {
        let new = !seen.contains(p);
        seen.push(*p);
        new
    });
    Ok(Plan {
        options: Options {
            format: args.format.as_deref().and_then(Format::parse),
            lenient: args.lenient,
            unit: trace::Unit::parse(&args.unit).unwrap_or_default(),
        },
        unit: if args.ignore_size {
            Unit::Record
        } else {
            Unit::Page
        },
        sizes: args.sizes.clone(),
        policies,
        writes: if args.writes {
            Some(model(args)?)
        } else {
            None
        },
        sample: args.sample,
        threads: jobs(args.jobs),
        budget: Budget(Host::here().least()),
    })
}

/// Returns the model of writes from the options. Limits become shares of the cache, and the
/// device's rate in MiB/s the time for a page.
fn model(args: &Mrc) -> Result<WriteModel, Failure> {
    let share = |option: &str, percent: f64| {
        if (0.0..=100.0).contains(&percent) {
            return Ok(percent / 100.0);
        }
        Err(Failure::Input(miette!(
            help = "accepted: a percentage from 0 to 100",
            "--{option} {percent} is not a share of the cache"
        )))
    };
    // From a page in a quarter of an hour to a page in a nanosecond.
    if !(5e-6..=4e6).contains(&args.write_rate) {
        return Err(Failure::Input(miette!(
            help = "accepted: MiB per second, from 0.000005 to 4000000",
            "--write-rate {} is not a possible speed of a device",
            args.write_rate
        )));
    }
    Ok(WriteModel {
        limit: share("dirty-limit", args.dirty_limit)?,
        background: share("dirty-background", args.dirty_background)?,
        page_ns: (1e9 / 256.0 / args.write_rate).round() as u64,
        ..WriteModel::default()
    })
}

/// Returns the contents of `results.json`.
fn document(curves: &Curves) -> serde_json::Value {
    json!({ "lowmark": env!("CARGO_PKG_VERSION"), "mrc": curves })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A figure of a point: a column of tables and a line of charts.
struct Figure {
    title: &'static str,
    hint: &'static str,
    unit: &'static str,
    decimals: usize,
    value: fn(&Point) -> f64,
}

const MISSES: Figure = Figure {
    title: "miss ratio",
    hint: "requests for pages that the cache did not hold, as a share of all requests",
    unit: "share",
    decimals: 6,
    value: |p| p.miss_ratio,
};

/// Figures of writes: 0 where writes are not modelled, and then not shown.
const WRITES: [Figure; 4] = [
    Figure {
        title: "stall",
        hint: "time that requests waited at the dirty limit and for evicted pages to be written",
        unit: "s",
        decimals: 3,
        value: |p| p.writes.map_or(0.0, |w| seconds(w.stall_ns())),
    },
    Figure {
        title: "longest stall",
        hint: "the longest wait of one request",
        unit: "s",
        decimals: 3,
        value: |p| p.writes.map_or(0.0, |w| seconds(w.longest_stall_ns)),
    },
    Figure {
        title: "dirty pages met",
        hint: "times that an eviction found a page that was dirty or being written",
        unit: "",
        decimals: 0,
        value: |p| p.writes.map_or(0.0, |w| w.dirty_met as f64),
    },
    Figure {
        title: "pages written",
        hint: "by the flusher and for evictions",
        unit: "",
        decimals: 0,
        value: |p| {
            p.writes
                .map_or(0.0, |w| (w.flusher_writes + w.eviction_writes) as f64)
        },
    },
];

/// Returns the figures to show: the miss ratio, and those of writes if writes are modelled.
fn figures(curves: &Curves) -> Vec<&'static Figure> {
    let writes = if curves.model.is_some() {
        &WRITES[..]
    } else {
        &[]
    };
    std::iter::once(&MISSES).chain(writes).collect()
}

/// Describes the sample from which the figures are estimated.
fn sample_line(s: &SampleFacts) -> String {
    format!(
        "{} objects with {} requests, {:.4} % of all objects",
        s.objects,
        s.requests,
        s.rate * 100.0
    )
}

/// The meaning of `±`, for tables and the page.
const BOUND_HINT: &str = "± is an error bound from the sample itself, meant to hold at 99 of 100 sizes; \
                          it reaches over 0 to 1 where a cache has too few pages of the sample";

/// Returns the largest distance of the exact figure from an estimate; `None`: the figure is exact.
fn error(p: &Point) -> Option<f64> {
    Some(p.bound?.error(p.miss_ratio))
}

/// Formats the curves for a terminal: the verdict, then a table for each figure, with a row for
/// each size and a column for each policy.
pub fn tables(curves: &Curves, screen: Screen) -> String {
    let mut out = screen.wrapped(&verdict::verdict(curves));
    let requests = curves.requests;
    out += &match curves.objects {
        Some(objects) => format!("\n{requests} requests for {objects} objects\n"),
        None => format!("\n{requests} requests\n"),
    };
    if let Some(sample) = &curves.sample {
        out += &screen.wrapped(&format!("estimated from {}", sample_line(sample)));
        out += &screen.wrapped(BOUND_HINT);
    }
    for figure in figures(curves) {
        let unit = match figure.unit {
            "" | "share" => String::new(),
            unit => format!(" ({unit})"),
        };
        let said = format!("{}{unit}: {}", figure.title, figure.hint);
        out += &format!("\n{}", screen.wrapped(&said));
        let mut header = vec!["pages"];
        header.extend(curves.curves.iter().map(|c| c.policy));
        let mut table = text::table(header);
        for (i, point) in curves.curves[0].points.iter().enumerate() {
            let mut row = vec![point.size.to_string()];
            row.extend(curves.curves.iter().map(|c| {
                let point = &c.points[i];
                let value = (figure.value)(point);
                match error(point) {
                    Some(error) => format!("{value:.4} ± {error:.4}"),
                    None => format!("{value:.*}", figure.decimals),
                }
            }));
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        out += &format!("{table}\n");
    }
    out
}

/// Formats the curves as `curves.csv`: a row for each policy and size. Columns of samples and
/// writes are there only if they were asked for.
pub fn csv(curves: &Curves) -> String {
    let mut out = "policy,pages,requests,misses,miss_ratio".to_owned();
    if curves.sample.is_some() {
        out += ",low,high";
    }
    if curves.model.is_some() {
        out += ",writes,read_misses,flusher_writes,eviction_writes,dirty_met,limit_stall_ns,\
                eviction_stall_ns,longest_stall_ns,stalls,dirty_at_end";
    }
    out.push('\n');
    for (policy, p) in curves
        .curves
        .iter()
        .flat_map(|c| c.points.iter().map(|p| (c.policy, p)))
    {
        let counts = p.counts;
        out += &format!(
            "{policy},{},{},{},{}",
            p.size, counts.requests, counts.misses, p.miss_ratio
        );
        if let Some(bound) = p.bound {
            out += &format!(",{},{}", bound.low, bound.high);
        }
        if let Some(w) = p.writes {
            out += &format!(
                ",{},{},{},{},{},{},{},{},{},{}",
                w.writes,
                w.read_misses,
                w.flusher_writes,
                w.eviction_writes,
                w.dirty_met,
                w.limit_stall_ns,
                w.eviction_stall_ns,
                w.longest_stall_ns,
                w.stalls,
                w.dirty_at_end
            );
        }
        out.push('\n');
    }
    out
}

/// Returns the files of the results folder: `results.json`, `curves.csv` and `report.html`.
fn files(curves: &Curves) -> Vec<File> {
    let mut json = serde_json::to_string_pretty(&document(curves)).expect("plain data");
    json.push('\n');
    vec![
        File::new("results.json", json),
        File::new("curves.csv", csv(curves)),
        File::new("report.html", page(curves)),
    ]
}

/// Returns the page `report.html`: charts of the figures, and facts about the trace, the sample and
/// the model of writes.
fn page(curves: &Curves) -> String {
    let sizes: Vec<u32> = curves.curves[0].points.iter().map(|p| p.size).collect();
    let mut facts = vec![
        ("trace".to_owned(), curves.trace.clone()),
        ("format".to_owned(), curves.format.to_owned()),
        ("requests".to_owned(), curves.requests.to_string()),
    ];
    if let Some(objects) = curves.objects {
        facts.push(("objects".to_owned(), objects.to_string()));
    }
    if let Some(sample) = &curves.sample {
        facts.push(("sample".to_owned(), sample_line(sample)));
    }
    if let Some(m) = curves.model {
        facts.push((
            "dirty limit".to_owned(),
            format!("{} % of the cache", m.limit * 100.0),
        ));
        facts.push((
            "background limit".to_owned(),
            format!("{} % of the cache", m.background * 100.0),
        ));
        facts.push(("flusher's batch".to_owned(), format!("{} pages", m.batch)));
        facts.push((
            "device".to_owned(),
            format!("{} ns a page written", m.page_ns),
        ));
    }
    for c in &curves.curves {
        let about = replay::find(c.policy).map_or("", |e| e.about);
        facts.push((c.policy.to_owned(), about.to_owned()));
    }
    let mut notes = Vec::new();
    if let Some(sample) = &curves.sample {
        notes.push(format!(
            "Estimated from {}; {BOUND_HINT}.",
            sample_line(sample)
        ));
    }
    if curves.skipped > 0 {
        notes.push(format!(
            "{} records could not be read and were skipped.",
            curves.skipped
        ));
    }
    let panels = figures(curves)
        .into_iter()
        .map(|f| Panel {
            title: f.title.to_owned(),
            hint: f.hint.to_owned(),
            unit: f.unit.to_owned(),
            decimals: f.decimals,
            lines: curves
                .curves
                .iter()
                .map(|c| Line {
                    name: c.policy.to_owned(),
                    values: c.points.iter().map(f.value).collect(),
                    bounds: c
                        .points
                        .iter()
                        .filter_map(|p| p.bound.map(|b| [b.low, b.high]))
                        .collect(),
                })
                .collect(),
        })
        .collect();
    html(&Page {
        title: format!("Miss-ratio curves: {}", curves.trace),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sizes,
        panels,
        answer: verdict::verdict(curves),
        facts,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use replay::Bound;
    use replay::curve::Curve;

    fn args(options: &[&str]) -> Mrc {
        let sizes = ["--sizes", "2,4"];
        let sizes = &sizes[..if options.contains(&"--sizes") { 0 } else { 2 }];
        let all = [&["lowmark", "mrc", "--trace", "t.csv"][..], sizes].concat();
        match Cli::try_parse_from(all.iter().chain(options)).map(|c| c.command) {
            Ok(Command::Mrc(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    fn refused(options: &[&str]) -> String {
        match plan(&args(options)) {
            Err(Failure::Input(report)) => format!("{report:?}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn policies_are_named_once_and_known() {
        let p = plan(&args(&["--policy", "sieve,lru, sieve"])).unwrap();
        assert_eq!(p.policies, ["sieve", "lru"]);
        let all = plan(&args(&["--policy", "all,lru"])).unwrap();
        assert_eq!(all.policies.len(), registry::ALL.len() + 1);
        let cased = plan(&args(&["--policy", "S3-FIFO,Opt,ARC,2q,ALL"])).unwrap();
        assert_eq!(cased.policies[..4], ["s3-fifo", "opt", "arc", "2q"]);
        assert_eq!(cased.policies.len(), all.policies.len());
        let mru = refused(&["--policy", "mru"]);
        assert!(mru.contains("s3-fifo") && mru.contains("opt"), "{mru}");
    }

    #[test]
    fn the_future_has_no_writes_and_records_have_no_bytes() {
        let written = plan(&args(&["--policy", "all", "--writes"])).unwrap();
        assert_eq!(written.policies.len(), registry::ALL.len());
        let error = refused(&["--policy", "lru,OPT", "--writes"]);
        assert!(error.contains("`opt` has no model of writes"), "{error}");
        assert!(refused(&["--ignore-size", "--sizes", "4MiB"]).contains("sizes in bytes"));
        let plan = plan(&args(&["--sizes", "4MiB,10%"])).unwrap();
        assert_eq!(
            (&plan.sizes.pages[..], &plan.sizes.shares[..]),
            (&[1024][..], &[0.1][..])
        );
    }

    #[test]
    fn limits_and_rates_have_ranges() {
        assert!(refused(&["--writes", "--dirty-limit", "101"]).contains("0 to 100"));
        assert!(refused(&["--writes", "--write-rate", "0"]).contains("MiB per second"));
        assert!(refused(&["--writes", "--write-rate", "NaN"]).contains("MiB per second"));
        let p = plan(&args(&["--writes", "--write-rate", "50"])).unwrap();
        assert_eq!(p.writes.unwrap().page_ns, 78_125);
        assert_eq!(plan(&args(&[])).unwrap().writes, None);
    }

    #[test]
    fn a_sample_is_a_share_or_a_number_and_knows_no_writes() {
        let p = plan(&args(&["--sample", "size=8192"])).unwrap();
        assert_eq!(p.sample, Some(replay::Sample::Size(8192)));
        for wrong in [
            &["--sample", "rate=0"][..],
            &["--sample", "8192"],
            &["--sample", "rate=0.1", "--writes"],
        ] {
            let all = ["lowmark", "mrc", "--trace", "t.csv", "--sizes", "2,4"];
            let error = Cli::try_parse_from(all.iter().chain(wrong)).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }

    #[test]
    fn estimates_have_their_bounds_beside_them() {
        let curves = Curves {
            trace: "t".to_owned(),
            format: "csv",
            requests: 1000,
            objects: None,
            sample: Some(SampleFacts {
                rate: 0.125,
                objects: 300,
                requests: 120,
            }),
            skipped: 0,
            model: None,
            curves: vec![Curve {
                policy: "lru",
                points: vec![Point {
                    size: 400,
                    counts: replay::Counts {
                        requests: 1000,
                        misses: 250,
                    },
                    miss_ratio: 0.25,
                    bound: Some(Bound {
                        low: 0.125,
                        high: 0.3125,
                    }),
                    writes: None,
                }],
            }],
        };
        assert!(tables(&curves, Screen::default()).contains("0.2500 ± 0.1250"));
        assert!(
            tables(&curves, Screen::default()).contains("300 objects with 120 requests, 12.5000 %")
        );
        let narrow = tables(
            &curves,
            Screen {
                width: Some(80),
                colour: false,
            },
        );
        assert!(narrow.starts_with("by estimates, lru at 400 pages is all"));
        let too_wide = narrow.lines().find(|l| l.chars().count() > 80);
        assert_eq!(too_wide, None, "{narrow}");
        assert!(csv(&curves).contains("miss_ratio,low,high\nlru,400,1000,250,0.25,0.125,0.3125\n"));
        let page = page(&curves);
        assert!(page.contains("0.250000 ± 0.125000") && page.contains("[0.125,0.3125]"));
        let json = document(&curves).to_string();
        assert!(json.contains("\"low\":0.125") && json.contains("\"rate\":0.125"));
    }

    #[test]
    fn a_run_leaves_a_folder_that_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (trace, out) = (dir.path().join("t.csv"), dir.path().join("out"));
        std::fs::write(
            &trace,
            "time,obj_id,obj_size,op\n1,1,4096,w\n2,2,4096,r\n3,1,4096,r\n",
        )
        .unwrap();
        let all = [
            "lowmark",
            "mrc",
            "--sizes",
            "1..3:3",
            "--policy",
            "all",
            "--writes",
            "--trace",
            trace.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ];
        let again = [&all[..], &["--replace"]].concat();
        for (all, done) in [(&all[..], true), (&all, false), (&again, true)] {
            let Command::Mrc(args) = Cli::parse_from(all).command else {
                panic!("another command")
            };
            assert_eq!(run(&args).is_ok(), done);
        }
        let csv = std::fs::read_to_string(out.join("curves.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + registry::ALL.len() * 3);
        assert!(csv.contains("lru,1,3,3,1,1,2,"));
        assert!(
            std::fs::read_to_string(out.join("report.html"))
                .unwrap()
                .contains("two-list")
        );
    }
}
