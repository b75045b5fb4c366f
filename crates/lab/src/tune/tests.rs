use super::*;
use crate::model::HostUse;
use crate::runner::fixture;
use goals::Floor;
use hdrhistogram::Histogram;
use kernel::Kernel;
use sim::result::Metric;
use sim::spec::{Machine, Size};
use sim::{Control, RunResult, RunSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Stands in for the engine: a burst of 8 MiB must fit between low and min, or an allocation waits;
/// small dirty limits cost throughput; the cost of scanning a page scales the size of the burst.
fn simulate(spec: &RunSpec, control: &Control) -> RunResult {
    let mut r = fixture::simulate(spec, control);
    let [min, low, _] = space::sums(&spec.machine);
    let p = spec.machine.params(&spec.params);
    let slow = p.cost_page_scan / Params::default().cost_page_scan;
    let noise = 1.0 + (spec.seed % 16) as f64 / 200.0;
    let need = 8192.0 * noise * slow.max(0.5);
    let short = (need - (low - min) as f64).max(0.0);
    let mut h = Histogram::new(3).unwrap();
    h.record(20_000 + (short * 50.0) as u64).unwrap();
    r.alloc_latency.paths = vec![("fast", h)];
    r.reclaim.as_mut().unwrap().direct_reclaims = u64::from(short > 0.0) + (short / 1024.0) as u64;
    let dirty = spec.machine.sysctl.dirty_bytes.0;
    let share = if dirty == 0 {
        1.0
    } else {
        (dirty as f64 / f64::from(16 << 20)).min(1.0)
    };
    r.metrics = [(
        "elapsed".to_owned(),
        Metric {
            unit: "s",
            value: 10.0,
        },
    )]
    .into();
    r.moved = (1e9 * share) as u64;
    r
}

use sim::Params;

fn one_cell() -> Experiment {
    let mut e = fixture::experiment(1);
    e.cells.truncate(1);
    e.cells[0].spec.machine.nodes[0].zones[0].size = Size(490 << 20);
    e
}

fn question(goals: Goals) -> Question {
    Question {
        goals,
        knobs: vec![Knob::MinFree, Knob::Watermarks, Knob::Dirty],
        form: Form::ScaleFactor,
        budget: 60,
        search_seeds: 2,
        seeds: 10,
        seed: 1,
    }
}

fn options(jobs: usize) -> TrialOptions {
    TrialOptions {
        jobs,
        progress: None,
        stop: Arc::default(),
    }
}

fn report<'a>(
    e: &'a Experiment,
    question: &'a Question,
    answer: &'a Answer,
    known_gaps: &'a [String],
) -> text::AnswerReport<'a> {
    text::AnswerReport {
        answer,
        question,
        cell: &e.cells[0],
        known_gaps,
        verified: None,
    }
}

const GOALS: Goals = Goals {
    alloc_latency_ns: Some(100_000),
    direct_reclaim: Some(0),
    max_free: Some(64 << 20),
    throughput: Some(Floor::Share(0.95)),
    response_ns: None,
    fio_p99_ns: None,
};

#[test]
fn the_cheapest_setting_that_bears_every_cost_is_found() {
    let e = one_cell();
    let q = question(GOALS);
    let a = tune(&e, &q, options(2), &simulate).unwrap();
    assert!(a.own.direct > 0 && a.tried <= 70, "{:?} {}", a.own, a.tried);
    let c = &a.chosen;
    assert!(c.holds && c.margins.iter().all(|m| m.holds || !m.case.must_hold()));
    let machine = c.setting.on(&e.cells[0].spec.machine);
    let [min, low, high] = space::sums(&machine);
    // One and a half times 8 MiB, and the variation between seeds above it.
    let gap = low - min;
    assert!((12_288..17_000).contains(&gap), "{gap} kB");
    assert!(high * 1024 <= 64 << 20 && c.setting.dirty_bytes.unwrap() >= 15 << 20);
    // Every rung below the chosen one says why less memory is not enough.
    let (last, before) = a.rungs.split_last().unwrap();
    assert!(last.refused.is_none() && before.iter().all(|r| r.refused.is_some()));
    assert!(a.rungs.windows(2).all(|w| w[0].kept_free < w[1].kept_free));
    let costs: Vec<String> = c.margins.iter().map(|m| m.case.name()).collect();
    for name in margin::cost_parameters() {
        for by in ["-50 %", "+50 %"] {
            assert!(costs.contains(&format!("{name} {by}")), "{name} {by}");
        }
    }
}

#[test]
fn settings_that_hold_every_goal_are_left_alone() {
    let mut e = one_cell();
    let q = question(GOALS);
    let first = tune(&e, &q, options(2), &simulate).unwrap();
    assert!(!first.already);
    e.cells[0].spec.machine = first.chosen.setting.on(&e.cells[0].spec.machine);
    let a = tune(&e, &q, options(2), &simulate).unwrap();
    assert!(a.already && a.tried == 1 && a.chosen.setting == Setting::default());
    let report = report(&e, &q, &a, &[]);
    assert!(
        report.text().starts_with("Your settings already do"),
        "{}",
        report.text()
    );
    assert!(report.files().iter().all(|f| f.path != "90-lowmark.conf"));
}

#[test]
fn a_goal_of_programs_is_met_by_dirty_limits() {
    // The longest answer is the time in which the dirty limit is written.
    let answering = |spec: &RunSpec, control: &Control| {
        let mut r = simulate(spec, control);
        let dirty = match spec.machine.sysctl.dirty_bytes.0 {
            0 => 80 << 20,
            bytes => bytes,
        };
        let value =
            dirty as f64 / f64::from(1 << 20) * 5_000.0 * (1.0 + (spec.seed % 4) as f64 / 40.0);
        r.metrics
            .insert("response_max".into(), Metric { unit: "us", value });
        r
    };
    let q = question(Goals {
        response_ns: Some(100_000_000),
        ..Goals::default()
    });
    let a = tune(&one_cell(), &q, options(2), &answering).unwrap();
    assert!(a.own.response_ns > Some(300_000_000) && !a.already);
    assert!(a.chosen.holds && a.chosen.figures.response_ns <= Some(100_000_000));
    assert!(a.chosen.setting.dirty_bytes.unwrap() < 20 << 20);
    match tune(&one_cell(), &q, options(2), &simulate) {
        Err(NoAnswer::Impossible { reason, .. }) => {
            assert!(reason.contains("measures the longest answer"))
        }
        _ => panic!("nothing answers there"),
    }
}

#[test]
fn the_same_seed_gives_the_same_answer_on_any_number_of_threads() {
    let (e, q) = (one_cell(), question(GOALS));
    let text = |jobs| {
        let a = tune(&e, &q, options(jobs), &simulate).unwrap();
        report(&e, &q, &a, &[]).json().to_string()
    };
    let first = text(1);
    assert_eq!(first, text(3));
    let other = Question {
        seed: 2,
        ..q.clone()
    };
    let a = tune(&e, &other, options(1), &simulate).unwrap();
    assert_ne!(first, report(&e, &other, &a, &[]).json().to_string());
}

#[test]
fn the_front_holds_what_nothing_beats() {
    let (e, q) = (one_cell(), question(GOALS));
    let a = tune(&e, &q, options(2), &simulate).unwrap();
    assert!(a.front.len() > 1);
    for (_, f) in &a.front {
        for (_, g) in &a.front {
            let beats = g.kept_free < f.kept_free
                && g.worst_ns < f.worst_ns
                && g.direct < f.direct
                && g.throughput > f.throughput;
            assert!(!beats);
        }
    }
}

fn impossible(goals: Goals) -> (String, String) {
    match tune(&one_cell(), &question(goals), options(2), &simulate) {
        Err(NoAnswer::Impossible { reason, nearest }) => (reason, nearest),
        Err(NoAnswer::Interrupted) => panic!("nobody interrupted"),
        Ok(a) => panic!("an answer: {:?}", a.chosen.setting),
    }
}

#[test]
fn goals_that_contradict_each_other_are_refused_with_what_is_nearest() {
    let (reason, nearest) = impossible(Goals {
        max_free: Some(6 << 20),
        ..GOALS
    });
    assert!(reason.contains("none of"), "{reason}");
    let price = nearest.split("--max-free ").nth(1).unwrap();
    let kbytes: u64 = price.split('K').next().unwrap().parse().unwrap();
    // high is min plus two gaps of 8 MiB or more.
    assert!((16_384..40_000).contains(&kbytes), "{nearest}");
}

#[test]
fn what_can_never_be_is_refused_without_a_run() {
    let runs = AtomicU32::new(0);
    let counting = |spec: &RunSpec, control: &Control| {
        runs.fetch_add(1, Relaxed);
        simulate(spec, control)
    };
    for (goals, says) in [
        (
            Goals {
                max_free: Some(64 << 10),
                ..Goals::default()
            },
            "--max-free ",
        ),
        (
            Goals {
                alloc_latency_ns: Some(100),
                ..Goals::default()
            },
            "--alloc-latency ",
        ),
    ] {
        match tune(&one_cell(), &question(goals), options(1), &counting) {
            Err(NoAnswer::Impossible { nearest, .. }) => assert!(nearest.starts_with(says)),
            _ => panic!("{goals}"),
        }
    }
    assert_eq!(runs.load(Relaxed), 0);
}

#[test]
fn an_interrupt_ends_it() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = |spec: &RunSpec, control: &Control| {
        stop.store(true, Relaxed);
        simulate(spec, control)
    };
    let options = TrialOptions {
        stop: Arc::clone(&stop),
        ..options(1)
    };
    let end = tune(&one_cell(), &question(GOALS), options, &stopping);
    assert!(matches!(end, Err(NoAnswer::Interrupted)));
}

#[test]
fn texts_and_files() {
    let (e, q) = (one_cell(), question(GOALS));
    let a = tune(&e, &q, options(2), &simulate).unwrap();
    let gaps = ["A line about gaps.".to_owned()];
    let report = report(&e, &q, &a, &gaps);
    insta::assert_snapshot!(report.text());
    let narrow = report.text_for(crate::terminal::Screen {
        width: Some(80),
        colour: false,
    });
    assert!(narrow.lines().all(|l| l.chars().count() <= 80), "{narrow}");
    for file in report.files() {
        let contents = String::from_utf8(file.bytes).unwrap();
        match file.path.as_str() {
            "90-lowmark.conf" => insta::assert_snapshot!("conf", contents),
            "report.html" => {
                let dots = a.all.len() + a.front.len();
                assert_eq!(contents.matches("<circle").count(), dots);
                assert!(contents.contains("class=\"chosen\"") && !contents.contains("NaN"));
                assert!(!contents.contains("http"), "opens without a network");
            }
            "front.csv" => assert_eq!(contents.lines().count(), a.front.len() + 1),
            _ => {}
        }
    }
}

/// Tests the inverse formulas on a machine where rounding matters.
#[test]
fn explicit_watermarks_become_the_least_factor_that_wakes_kswapd_as_early() {
    let machine: Machine = one_cell().cells[0].spec.machine.clone();
    let s = Setting {
        min_free_kbytes: Some(2880),
        wmark_low_kbytes: Some(2880 + 10_632),
        wmark_high_kbytes: Some(2880 + 14_728),
        ..Setting::default()
    };
    let m = sysctl_d::modern(&s, &machine);
    // 501 760 kB: 212 ten-thousandths are 10 637 kB.
    assert_eq!(m.watermark_scale_factor, Some(212));
    assert_eq!((m.wmark_low_kbytes, m.wmark_high_kbytes), (None, None));
    insta::assert_snapshot!("explicit", sysctl_d::text(&[], &s, &machine));
    let hidden = Setting {
        min_free_kbytes: Some(8192),
        watermark_scale_factor: Some(10),
        ..Setting::default()
    };
    let text = sysctl_d::text(&[], &hidden, &machine);
    assert!(text.contains("The factor is hidden here"), "{text}");
    assert!(!sysctl_d::text(&[], &s, &machine).contains("hidden"));
}

/// Stands in for feedback: doubles the distance between min and low after direct reclaim, below the
/// cap.
fn learning(spec: &RunSpec, control: &Control) -> RunResult {
    let [_, default, _] = space::sums(&spec.machine);
    let mut at = spec.clone();
    if let Some(profile) = &spec.policy.profile {
        let [min, low, high] = profile.sums();
        let sysctl = &mut at.machine.sysctl;
        sysctl.min_free_kbytes = Some(min);
        sysctl.wmark_low_kbytes = Some(low);
        sysctl.wmark_high_kbytes = Some(high);
    }
    let mut r = simulate(&at, control);
    let [min, low, high] = space::sums(&at.machine);
    let most = default * u64::from(spec.policy.auto.cap) - low;
    let more = if r.reclaim.as_ref().unwrap().direct_reclaims > 0 {
        (low - min).min(most)
    } else {
        0
    };
    r.watermarks.as_mut().unwrap().zones = vec![mm::policy::ProfileZone {
        node: 0,
        zone: mm::ZoneType::Normal,
        min_kbytes: min,
        low_kbytes: low + more,
        high_kbytes: high + more,
    }];
    r
}

#[test]
fn learning_ends_with_a_phase_without_direct_reclaim_and_its_profile_can_be_tried() {
    let e = one_cell();
    let trials = Trials::new(&e, 2, options(2), &learning);
    let l = learn::learn(&trials, 2).unwrap();
    assert!(
        l.calm && l.phases.len() > 2 && l.phases.len() < learn::PHASES,
        "{l:?}"
    );
    let (last, before) = l.phases.split_last().unwrap();
    assert!(last.direct == 0 && before.iter().all(|p| p.direct > 0));
    assert!(l.phases.windows(2).all(|w| w[0].sums[1] < w[1].sums[1]));
    let [min, low, _] = l.profile.sums();
    assert!((8192..17_000).contains(&(low - min)), "{:?}", l.profile);
    insta::assert_snapshot!("learned", text::learned_text(&l));

    // The cell that tries the profile has its watermarks, and the profile survives a file.
    let cell = learn::with_profile(&e.cells[0], &l.profile);
    assert_eq!(cell.spec.policy.profile.as_ref(), Some(&l.profile));
    let file = text::learned_files(&l, &e.cells[0], 2).remove(0);
    let path = tempfile::tempdir().unwrap();
    let path = path.path().join(&file.path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, file.bytes).unwrap();
    let machine = &e.cells[0].spec.machine;
    let read = crate::experiment::load_profile(&path, machine).unwrap();
    assert_eq!(read, l.profile);
    std::fs::write(&path, "machine = 'x'").unwrap();
    let e = crate::experiment::load_profile(&path, machine).unwrap_err();
    assert!(e.message.contains("names no zone"), "{e}");
}

/// The cap is a multiple of the sysctls' watermarks, not of those that a phase begins with.
#[test]
fn learning_ends_at_the_cap_of_all_phases() {
    let mut e = one_cell();
    e.cells[0].spec.policy.auto.cap = 3;
    let trials = Trials::new(&e, 2, options(2), &learning);
    let l = learn::learn(&trials, 2).unwrap();
    let [_, default, _] = l.phases[0].sums;
    assert_eq!(l.profile.sums()[1], 3 * default, "{:?}", l.profile);
    assert!(!l.calm && l.cap == Some(3) && l.phases.len() < learn::PHASES);
    assert!(l.phases.iter().all(|p| p.sums[1] <= 3 * default), "{l:?}");
    let text = text::learned_text(&l);
    assert!(
        text.contains("3 times the default, which is the cap"),
        "{text}"
    );
}

#[test]
fn without_a_knob_only_what_there_is_is_tried() {
    let mut e = one_cell();
    let knobs = Question {
        knobs: Vec::new(),
        ..question(GOALS)
    };
    match tune(&e, &knobs, options(2), &simulate) {
        Err(NoAnswer::Impossible { reason, .. }) => {
            assert!(reason.contains("misses some"), "{reason}")
        }
        _ => panic!("8 MiB do not fit"),
    }
    let sysctl = &mut e.cells[0].spec.machine.sysctl;
    sysctl.wmark_low_kbytes = Some(20_000);
    sysctl.wmark_high_kbytes = Some(24_000);
    let a = tune(&e, &knobs, options(2), &simulate).unwrap();
    assert_eq!((a.tried, a.rungs.len(), a.chosen.holds), (1, 1, true));
    assert_eq!(a.chosen.setting, Setting::default());
    // The file states the watermarks, although nothing is changed.
    let files = report(&e, &knobs, &a, &[]).files();
    let conf = files.iter().find(|f| f.path == "90-lowmark.conf").unwrap();
    let conf = String::from_utf8(conf.bytes.clone()).unwrap();
    assert!(conf.contains("vm.watermark_scale_factor = 3"), "{conf}");
}

/// Stands in for the engine: bursts stall the more, the nearer they are to 40 MiB every 300 ms.
fn stalling(spec: &RunSpec, control: &Control) -> RunResult {
    let mut r = fixture::simulate(spec, control);
    let workload::Step::Foreground(p) = &spec.workload.steps[1] else {
        panic!("{:?}", spec.workload)
    };
    let workload::Command::Burst(b) = &p.commands[0] else {
        panic!("{p:?}")
    };
    let off = |x: u64, best: f64| (x as f64 / best).ln().powi(2);
    let far = off(b.bytes, f64::from(40 << 20)) + off(b.interval_ns, 3e8);
    let bursts = b.repeats.unwrap_or(0) as f64;
    let noise = 1.0 + (spec.seed % 8) as f64 / 100.0;
    let mib = b.bytes as f64 / f64::from(1 << 20) * bursts;
    let direct = match spec.policy.watermarks {
        mm::policy::Watermarks::Auto => (-far).exp() * mib * noise,
        _ => mib,
    };
    let metric = |unit, value| Metric { unit, value };
    r.metrics = [
        ("bursts".to_owned(), metric("bursts", bursts)),
        ("burst_direct_reclaim".to_owned(), metric("events", direct)),
        ("burst_alloc_max".to_owned(), metric("us", direct)),
    ]
    .into();
    r
}

/// Returns one cell with bursts, as an experiment file would define it.
fn with_bursts() -> Experiment {
    let mut e = one_cell();
    let cell = &mut e.cells[0];
    cell.policy = "self-adjusting".into();
    cell.spec.policy = mm::Policy {
        watermarks: mm::policy::Watermarks::Auto,
        ..mm::Policy::linux_3_0().named("self-adjusting")
    };
    cell.axes.clear();
    let line = "dd if=/dev/zero of=a bs=64k & burst -d 1s -s 4M -A poisson -n 20 -i 1s";
    cell.spec.workload = workload::parse(line).unwrap();
    e
}

const ADVERSARY: adversary::Question = adversary::Question {
    worst: adversary::Worst::DirectReclaim,
    budget: 80,
    runs: 2,
    seed: 1,
};

#[test]
fn the_worst_bursts_are_found_and_their_file_runs_again() {
    let e = with_bursts();
    let of = |jobs, question: &adversary::Question| {
        let trials = Trials::new(&e, 2, options(jobs), &stalling);
        adversary::search(&trials, question).unwrap().unwrap()
    };
    let found = of(2, &ADVERSARY);
    let (worst, cost) = &found.worst;
    assert!((28_000..60_000).contains(&worst.size_kbytes), "{worst:?}");
    assert!((200_000..450_000).contains(&worst.interval_us), "{worst:?}");
    assert!(cost.direct_per_mib > 0.85 && found.own.1.direct_per_mib < 0.5);
    assert!(found.by_sysctl.direct_per_mib >= 1.0);
    assert!(found.all.len() <= 90, "{}", found.all.len());
    // The other options of `burst`, and the writer, must be unchanged.
    let line = &found.cell.spec.workload.line;
    assert!(
        line.starts_with("dd if=/dev/zero of=a bs=64k & burst -s "),
        "{line}"
    );
    assert!(line.ends_with(" -d 1s -A poisson -n 20"), "{line}");

    // The result must not depend on the number of threads, and must change with the seed.
    let text = |found: &adversary::Found, q| adversary::json(found, q).to_string();
    assert_eq!(
        text(&found, &ADVERSARY),
        text(&of(1, &ADVERSARY), &ADVERSARY)
    );
    let other = adversary::Question {
        seed: 2,
        ..ADVERSARY
    };
    assert_ne!(found.all, of(1, &other).all);

    // The file must give the cell again, and with it the figures.
    let files = adversary::files(&found, &ADVERSARY, &e).unwrap();
    let toml = String::from_utf8(files[0].bytes.clone()).unwrap();
    let source = crate::diagnostic::Source::new("adversary.toml", toml);
    let none = |_: &str| Err("no other file is needed".to_owned());
    let again = crate::experiment::parse(&source, &none, &Default::default()).unwrap();
    let [cell] = &again.cells[..] else {
        panic!("{} cells", again.cells.len())
    };
    assert_eq!(again.iterations, 2);
    let seed = |e: &Experiment| crate::runner::iteration_seed(e, 1);
    assert_eq!(seed(&again), seed(&e));
    assert_eq!(format!("{:?}", cell.spec), format!("{:?}", found.cell.spec));
}

#[test]
fn without_a_burst_there_is_no_pattern_to_search() {
    let mut e = with_bursts();
    e.cells[0].spec.workload = workload::parse("dd if=/dev/zero of=a count=9").unwrap();
    let trials = Trials::new(&e, 1, options(1), &stalling);
    let refused = adversary::search(&trials, &ADVERSARY).unwrap().unwrap_err();
    assert!(refused.message.contains("no `burst` command"), "{refused}");
}

/// A world with a kernel that reclaims directly if the gap between low and min is below its need.
struct Guests {
    need_kbytes: u64,
    says_bytes: bool,
}

impl crate::runner::Worlds for Guests {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        simulate(spec, control)
    }

    fn release(&self, _: &Kernel) -> Option<String> {
        Some("6.12.9".into())
    }

    fn kernel(&self, spec: &RunSpec, _: &Kernel, control: &Control) -> (RunResult, HostUse) {
        let mut r = fixture::simulate(spec, control);
        let [min, low, _] = space::sums(&spec.machine);
        r.origin = sim::Origin::Kernel;
        r.reclaim.as_mut().unwrap().direct_reclaims = u64::from(low - min < self.need_kbytes);
        r.moved = 0;
        let metric = |unit, value| Metric { unit, value };
        r.metrics = [("elapsed".to_owned(), metric("s", 10.0))].into();
        if self.says_bytes {
            r.metrics.insert("bytes".to_owned(), metric("bytes", 1e9));
        }
        (r, HostUse::default())
    }
}

/// The real kernel decides whether the answer holds in it; figures that it lacks are not 0.
#[test]
fn a_kernel_is_asked_about_the_answer() {
    let mut e = one_cell();
    e.cells[0].kernel = Some(Kernel::new("6.12"));
    let gap = |s: &Setting| {
        let [min, low, _] = space::sums(&s.on(&e.cells[0].spec.machine));
        low - min
    };
    let chosen = Setting {
        watermark_scale_factor: Some(500),
        ..Setting::default()
    };
    let (own, wide) = (gap(&Setting::default()), gap(&chosen));
    assert!(own < wide);
    for (need_kbytes, says_bytes) in [(wide, true), (wide + 1, true), (wide, false)] {
        let guests = Guests {
            need_kbytes,
            says_bytes,
        };
        let v = verify::verify(&e, &chosen, &GOALS, 3, options(1), &guests).unwrap();
        let holds = need_kbytes <= wide;
        assert_eq!((v.own.direct, v.holds()), (1, holds));
        assert_eq!(
            v.missed,
            if holds {
                vec![]
            } else {
                vec![Goal::DirectReclaim]
            }
        );
        assert_eq!(v.unmeasured, (!says_bytes).then_some(Goal::Throughput));
        let text = v.text();
        assert!(
            text.contains("Linux 6.12.9 itself the goals") && text.contains("3 runs"),
            "{text}"
        );
        assert_eq!(text.contains("100.0 MB/s"), says_bytes, "{text}");
        let rate = &v.json()["chosen"]["throughput_mb_per_s"];
        assert_eq!(rate.is_null(), !says_bytes);
    }
}
