use super::*;
use std::sync::atomic::AtomicU64;

fn options(jobs: usize, check: bool) -> RunOptions {
    RunOptions {
        jobs,
        check: check.then_some(Check::Sampled),
        progress: None,
        listeners: None,
        stop: Arc::default(),
    }
}

fn digests(outcomes: &Outcomes) -> Vec<Vec<Option<u64>>> {
    outcomes
        .results
        .iter()
        .map(|c| c.iter().map(|r| Some(r.as_ref()?.digest)).collect())
        .collect()
}

#[test]
fn seeds_stay_what_they_are() {
    let e = fixture::experiment(1);
    // This value was computed separately, in another language.
    assert_eq!(iteration_seed(&e, 0), 9106379309145445720);
    let mut all: Vec<u64> = (0..200).map(|i| iteration_seed(&e, i)).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200);
}

/// Results of a cell must not depend on other cells, their order, or the experiment's name.
#[test]
fn a_cell_keeps_its_numbers_in_any_company() {
    let e = fixture::experiment(3);
    let whole = digests(&run(&e, &options(2, false), &fixture::simulate).unwrap());
    for (i, cell) in e.cells.iter().enumerate() {
        let mut alone = Experiment {
            name: "another".into(),
            cells: vec![cell.clone()],
            ..e.clone()
        };
        // A list of one value makes no axis.
        alone.cells[0].axes.clear();
        let of = digests(&run(&alone, &options(1, false), &fixture::simulate).unwrap());
        assert_eq!(of[0], whole[i]);
    }
    let mut reversed = e.clone();
    reversed.cells.reverse();
    let mut of = digests(&run(&reversed, &options(2, false), &fixture::simulate).unwrap());
    of.reverse();
    assert_eq!(of, whole);
    // With more iterations the first ones stay the same.
    let more = digests(
        &run(
            &fixture::experiment(5),
            &options(2, false),
            &fixture::simulate,
        )
        .unwrap(),
    );
    assert!(
        more.iter()
            .zip(&whole)
            .all(|(more, few)| more[..3] == few[..])
    );
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let e = fixture::experiment(9);
    let uneven = |spec: &RunSpec, control: &Control| {
        std::thread::sleep(Duration::from_micros(spec.seed % 500));
        fixture::simulate(spec, control)
    };
    let one = run(&e, &options(1, false), &uneven).unwrap();
    assert!(!one.interrupted);
    let expected: Vec<Vec<_>> = e
        .cells
        .iter()
        .map(|c| {
            (0..9)
                .map(|i| {
                    let mut spec = c.spec.clone();
                    spec.seed = iteration_seed(&e, i);
                    Some(fixture::digest(&spec))
                })
                .collect()
        })
        .collect();
    assert_eq!(digests(&one), expected);
    for jobs in [0, 2, 8, 1000] {
        let many = run(&e, &options(jobs, jobs == 2), &uneven).unwrap();
        for (a, b) in one
            .results
            .iter()
            .flatten()
            .zip(many.results.iter().flatten())
        {
            assert_eq!(difference(a.as_ref().unwrap(), b.as_ref().unwrap()), None);
        }
    }
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let mut e = fixture::experiment(0);
    assert!(
        !run(&e, &options(4, false), &fixture::simulate)
            .unwrap()
            .interrupted
    );
    e.cells.clear();
    e.iterations = 3;
    assert!(
        run(&e, &options(4, true), &fixture::simulate)
            .unwrap()
            .results
            .is_empty()
    );
}

#[test]
fn a_check_runs_twice_with_recounts_and_names_the_first_difference() {
    let e = fixture::experiment(4);
    // The third cell fails at the second iteration, and the first one at the fourth.
    let bad = [(2, 1), (0, 3)].map(|(cell, i): (usize, u32)| {
        let spec = &e.cells[cell].spec;
        let of = (spec.filesystem, spec.policy.name.clone());
        (iteration_seed(&e, i), of)
    });
    for jobs in [1, 2, 8] {
        let calls = AtomicU64::new(0);
        let drifting = |spec: &RunSpec, control: &Control| {
            assert_eq!((spec.check_ns, spec.check_full), (1_000_000_000, false));
            let call = calls.fetch_add(1, Relaxed);
            let mut r = fixture::simulate(spec, control);
            if bad.contains(&(spec.seed, (spec.filesystem, spec.policy.name.clone()))) {
                r.counters.insert("pgscan".into(), call);
            }
            r
        };
        let failure = run(&e, &options(jobs, true), &drifting).err().unwrap();
        assert_eq!(
            (failure.cell.as_str(), failure.iteration),
            (e.cells[2].key().as_str(), 1)
        );
        assert_eq!(failure.seed, bad[0].0);
        assert!(
            failure.difference.starts_with("counter `pgscan`: "),
            "{failure}"
        );
    }
}

#[test]
fn a_full_check_recounts_everything_at_every_look() {
    let e = fixture::experiment(1);
    let full = |spec: &RunSpec, control: &Control| {
        assert!(spec.check_full);
        fixture::simulate(spec, control)
    };
    let options = RunOptions {
        check: Some(Check::Full),
        ..options(1, true)
    };
    assert!(run(&e, &options, &full).is_ok());
}

#[test]
fn every_part_of_a_result_is_compared() {
    let e = fixture::experiment(1);
    let a = fixture::simulate(&e.cells[0].spec, &Control::default());
    assert_eq!(difference(&a, &a.clone()), None);
    type Change = fn(&mut RunResult);
    let changes: [(&str, Change); 8] = [
        ("outcome", |r| r.outcome = Outcome::TimeLimit),
        ("metric `elapsed`", |r| {
            r.metrics.get_mut("elapsed").unwrap().value = -0.0
        }),
        ("counter `nr_vmscan_write`", |r| r.counters.clear()),
        ("series `free Normal` at 0.5 s", |r| {
            r.series.columns[0].values[1] = f64::NAN
        }),
        ("allocation latency of path `fast`", |r| {
            r.alloc_latency.paths[0].1.reset()
        }),
        ("notes", |r| r.notes.push("x".into())),
        ("simulated time", |r| r.sim_ns += 1),
        ("event digest", |r| r.digest ^= 1),
    ];
    for (what, change) in changes {
        let mut b = a.clone();
        change(&mut b);
        let text = difference(&a, &b).unwrap();
        assert!(text.starts_with(what), "{text}");
    }
}

#[test]
fn a_failed_recount_is_a_failed_check() {
    let e = fixture::experiment(2);
    let wrong = |_: &RunSpec, _: &Control| -> RunResult { panic!("free: 3 counted, 4 kept") };
    let failure = run(&e, &options(2, true), &wrong);
    let failure = failure.err().unwrap();
    assert_eq!((failure.cell, failure.iteration), (e.cells[0].key(), 0));
    assert_eq!(
        failure.difference,
        "the engine panicked: free: 3 counted, 4 kept"
    );
}

#[test]
#[should_panic(expected = "a bug in the engine")]
fn without_a_check_a_panic_stays_one() {
    let e = fixture::experiment(2);
    let wrong = |_: &RunSpec, _: &Control| -> RunResult { panic!("a bug in the engine") };
    let _ = run(&e, &options(2, false), &wrong);
}

#[test]
fn an_interrupt_keeps_what_is_finished_and_stops_what_runs() {
    for check in [false, true] {
        let e = fixture::experiment(3);
        let options = options(2, check);
        let calls = AtomicU64::new(0);
        let each = if check { 2 } else { 1 };
        let simulate = |spec: &RunSpec, control: &Control| {
            if calls.fetch_add(1, Relaxed) >= 5 * each {
                options.stop.store(true, Relaxed);
                while !control.stop.load(Relaxed) {
                    std::thread::yield_now();
                }
            }
            fixture::simulate(spec, control)
        };
        let outcomes = run(&e, &options, &simulate).unwrap();
        assert!(outcomes.interrupted);
        let kept = outcomes.results.iter().flatten().flatten().count();
        assert!((3..=5).contains(&kept), "{kept}");
        assert!(
            outcomes
                .results
                .iter()
                .flatten()
                .flatten()
                .all(|r| r.outcome == Outcome::Completed)
        );
    }
}

/// A journal with some earlier iterations by cell and iteration, which records new ones.
struct Beforehand {
    earlier: std::collections::BTreeMap<(u32, u32), RunResult>,
    finished: Vec<(u32, u32)>,
}

impl Journal for Beforehand {
    fn earlier(&mut self, cell: u32, iteration: u32) -> Option<RunResult> {
        self.earlier.remove(&(cell, iteration))
    }

    fn finished(&mut self, cell: u32, iteration: u32, _: &RunResult) {
        self.finished.push((cell, iteration));
    }
}

#[test]
fn what_an_earlier_run_finished_is_not_run_again() {
    let e = fixture::experiment(3);
    let whole = run(&e, &options(2, false), &fixture::simulate).unwrap();
    for known in 0..1_u32 << 12 {
        // Tries a few hundred of the subsets, the empty and the full one among them.
        if known % 13 != 0 && known != (1 << 12) - 1 {
            continue;
        }
        let places = (0..12_u32)
            .filter(|n| known >> n & 1 == 1)
            .map(|n| (n % 4, n / 4));
        let earlier = places.map(|(cell, i)| {
            let result = whole.results[cell as usize][i as usize].clone();
            ((cell, i), result.unwrap())
        });
        let mut journal = Beforehand {
            earlier: earlier.collect(),
            finished: Vec::new(),
        };
        let calls = AtomicU64::new(0);
        let counting = |spec: &RunSpec, control: &Control| {
            calls.fetch_add(1, Relaxed);
            fixture::simulate(spec, control)
        };
        let again = run_with(&e, &options(2, false), &counting, &mut journal).unwrap();
        assert_eq!(digests(&again), digests(&whole));
        assert!(!again.interrupted);
        assert_eq!(calls.into_inner(), u64::from(12 - known.count_ones()));
        assert_eq!(journal.finished.len() as u32, 12 - known.count_ones());
    }
}

/// A stand-in for real kernels that takes another time of the host in every run.
struct Kernels(AtomicU64);

impl Worlds for Kernels {
    fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
        fixture::simulate(spec, control)
    }

    fn kernel(&self, spec: &RunSpec, kernel: &Kernel, control: &Control) -> (RunResult, HostUse) {
        let run = self.0.fetch_add(1, Relaxed);
        let used = HostUse {
            wall_ns: 1_000_000_000 * (1 + run),
            cpu_ns: 500_000_000,
            peak_bytes: (600 + run) << 20,
        };
        (fixture::kernel(spec, kernel, control), used)
    }
}

/// Returns an experiment in which the first cell of each filesystem runs a kernel.
fn with_kernels(iterations: u32) -> Experiment {
    let mut e = fixture::experiment(iterations);
    for cell in e.cells.iter_mut().filter(|c| c.baseline) {
        cell.kernel = Some(Kernel::new("6.12"));
        cell.policy = "kernel:6.12".into();
    }
    e
}

#[test]
fn kernels_run_beside_the_engine_and_what_they_took_is_no_part_of_results() {
    let e = with_kernels(3);
    let runs = |jobs, check| run(&e, &options(jobs, check), &Kernels(AtomicU64::new(0))).unwrap();
    let one = runs(1, false);
    for (jobs, check) in [(2, false), (8, true)] {
        let other = runs(jobs, check);
        for (a, b) in one
            .results
            .iter()
            .flatten()
            .zip(other.results.iter().flatten())
        {
            assert_eq!(difference(a.as_ref().unwrap(), b.as_ref().unwrap()), None);
        }
        let per_cell: Vec<usize> = other.host.iter().map(Vec::len).collect();
        let n = if check { 6 } else { 3 };
        assert_eq!(per_cell, [n, 0, n, 0]);
    }
    for (cell, results) in e.cells.iter().zip(&one.results) {
        let kernels = results.iter().flatten().map(|r| r.origin);
        let expected = match cell.kernel {
            Some(_) => sim::Origin::Kernel,
            None => sim::Origin::Engine,
        };
        assert!(kernels.into_iter().all(|origin| origin == expected));
    }
    let runs = one.host[0].iter().map(|h| (h.used.wall_ns, h.sim_ns));
    assert!(runs.into_iter().all(|(wall, sim)| wall > 0 && sim > 0));
}

#[test]
fn a_kernel_that_is_not_the_same_twice_fails_the_check() {
    struct Drifting(AtomicU64);
    impl Worlds for Drifting {
        fn engine(&self, spec: &RunSpec, control: &Control) -> RunResult {
            fixture::simulate(spec, control)
        }
        fn kernel(&self, spec: &RunSpec, k: &Kernel, control: &Control) -> (RunResult, HostUse) {
            let mut r = fixture::kernel(spec, k, control);
            let drift = self.0.fetch_add(1, Relaxed);
            r.counters.insert("pgscan_kswapd".into(), drift);
            (r, HostUse::default())
        }
    }
    let e = with_kernels(2);
    let failure = run(&e, &options(2, true), &Drifting(AtomicU64::new(0)));
    let failure = failure.err().unwrap();
    assert_eq!((failure.cell, failure.iteration), (e.cells[0].key(), 0));
    let text = &failure.difference;
    assert!(text.starts_with("counter `pgscan_kswapd`: "), "{text}");
}

#[test]
fn the_engine_alone_says_that_it_has_no_kernels() {
    let e = with_kernels(1);
    let outcomes = run(&e, &options(1, false), &fixture::simulate).unwrap();
    let Some(Outcome::Failed { error }) = outcomes.results[0][0].as_ref().map(|r| &r.outcome)
    else {
        panic!("it can't have run");
    };
    assert!(error.contains("`6.12`"), "{error}");
    assert_eq!(
        outcomes.results[1][0].as_ref().unwrap().outcome,
        Outcome::Completed
    );
}
