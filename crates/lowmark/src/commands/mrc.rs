//! `lowmark mrc`.

use crate::cli::Mrc;
use crate::{interrupt, text};
use front::curves::plan::{Request, plan, unreadable};
use front::curves::text::{document, files, tables};
use front::failure::Failure;
use front::place::{claim, settled};
use indicatif::{ProgressBar, ProgressStyle};
use lab::results::{ClaimedFolder, Kind, Published, Terms};
use replay::curve::{self, Curves, Plan};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace::{Format, Options, TraceError, Unit};

impl From<&Mrc> for Request {
    /// Returns the request of a command line, whose names clap has checked.
    fn from(args: &Mrc) -> Self {
        Self {
            options: Options {
                format: args.format.as_deref().and_then(Format::parse),
                columns: args.columns,
                lenient: args.lenient,
                unit: Unit::parse(&args.unit).unwrap_or_default(),
            },
            ignore_size: args.ignore_size,
            sizes: args.sizes.clone(),
            policies: args.policy.clone(),
            sample: args.sample,
            writes: args.writes.then_some(front::Writes {
                limit: args.dirty_limit,
                background: args.dirty_background,
                rate: args.write_rate,
            }),
            jobs: args.jobs,
        }
    }
}

/// Simulates caches on a trace, one for each policy and size, and prints their miss ratios; with
/// `--out` also writes them to a results folder.
pub fn run(args: &Mrc) -> Result<(), Failure> {
    let plan = plan(&args.into())?;
    let title = args
        .trace()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
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
    let memory = curve::memory(&plan, curve::expected(args.trace(), &plan));
    front::stderr::say(&text::screen().wrapped(&memory));
    let curves = watched(args.trace(), &plan).map_err(unreadable)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use evict::registry;

    fn args(options: &[&str]) -> Mrc {
        let sizes = ["--sizes", "2,4"];
        let sizes = &sizes[..if options.contains(&"--sizes") { 0 } else { 2 }];
        let all = [&["lowmark", "mrc", "--trace", "t.csv"][..], sizes].concat();
        match Cli::try_parse_from(all.iter().chain(options)).map(|c| c.command) {
            Ok(Command::Mrc(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_trace_is_an_option_or_an_operand() {
        let parse = |words: &[&str]| {
            let all = [&["lowmark", "mrc", "--sizes", "2"][..], words].concat();
            match Cli::try_parse_from(all).map(|c| c.command) {
                Ok(Command::Mrc(args)) => Some(args.trace().to_owned()),
                _ => None,
            }
        };
        let expected = Some("t.csv".into());
        assert_eq!(parse(&["--trace", "t.csv"]), expected);
        assert_eq!(parse(&["t.csv"]), expected);
        assert_eq!(
            (parse(&[]), parse(&["t.csv", "--trace", "u"])),
            (None, None)
        );
    }

    fn planned(options: &[&str]) -> Result<Plan, Failure> {
        plan(&Request::from(&args(options)))
    }

    fn refused(options: &[&str]) -> String {
        match planned(options) {
            Err(Failure::Input(report)) => format!("{report:?}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn policies_are_named_once_and_known() {
        let p = planned(&["--policy", "sieve,lru, sieve"]).unwrap();
        assert_eq!(p.policies, ["sieve", "lru"]);
        let all = planned(&["--policy", "all,lru"]).unwrap();
        assert_eq!(all.policies.len(), registry::ALL.len() + 1);
        let cased = planned(&["--policy", "S3-FIFO,Opt,ARC,2q,ALL"]).unwrap();
        assert_eq!(cased.policies[..4], ["s3-fifo", "opt", "arc", "2q"]);
        assert_eq!(cased.policies.len(), all.policies.len());
        let mru = refused(&["--policy", "mru"]);
        assert!(mru.contains("s3-fifo") && mru.contains("opt"), "{mru}");
    }

    #[test]
    fn the_future_has_no_writes_and_records_have_no_bytes() {
        let written = planned(&["--policy", "all", "--writes"]).unwrap();
        assert_eq!(written.policies.len(), registry::ALL.len());
        let error = refused(&["--policy", "lru,OPT", "--writes"]);
        assert!(error.contains("`opt` has no model of writes"), "{error}");
        assert!(refused(&["--ignore-size", "--sizes", "4MiB"]).contains("sizes in bytes"));
        let plan = planned(&["--sizes", "4MiB,10%"]).unwrap();
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
        let p = planned(&["--writes", "--write-rate", "50"]).unwrap();
        assert_eq!(p.writes.unwrap().page_ns, 78_125);
        assert_eq!(planned(&[]).unwrap().writes, None);
    }

    #[test]
    fn a_sample_is_a_share_or_a_number_and_knows_no_writes() {
        let p = planned(&["--sample", "size=8192"]).unwrap();
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
