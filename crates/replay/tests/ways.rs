//! Tests that all ways through a trace give the same figures.

use evict::registry;
use proptest::prelude::*;
use replay::curve::{self, Plan};
use replay::{Budget, Unit, WriteModel};
use std::io::Write as _;
use std::path::Path;
use trace::Options;
use trace::generate::{Pattern, Plan as TracePlan};

fn plan(sizes: &[u32], threads: usize) -> Plan {
    Plan {
        options: Options::default(),
        unit: Unit::Page,
        sizes: sizes.to_vec().into(),
        policies: replay::policies().map(|e| e.name).collect(),
        writes: None,
        sample: None,
        threads,
        budget: Budget::default(),
    }
}

fn csv(writes: f64) -> tempfile::NamedTempFile {
    let trace = TracePlan {
        pattern: Pattern::Mixed,
        objects: 3000,
        requests: 40_000,
        skew: 0.9,
        writes,
        rate: 100_000,
        seed: 4,
    };
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").expect("a folder");
    trace::write::csv(&trace, &mut file).expect("space");
    file
}

#[test]
fn streaming_is_as_in_memory_and_threads_make_no_difference() {
    let file = csv(0.3);
    let sizes = [1, 7, 100, 1000, 1_000_000];
    let all = curve::run(file.path(), &plan(&sizes, 1)).expect("a good trace");
    assert_eq!(
        all,
        curve::run(file.path(), &plan(&sizes, 3)).expect("a good trace")
    );
    assert_eq!(all.requests, 40_000);
    for c in &all.curves {
        for point in &c.points {
            let single = Plan {
                policies: vec![c.policy],
                ..plan(&[point.size], 1)
            };
            let streamed = curve::run(file.path(), &single).expect("a good trace");
            assert_eq!(streamed.curves[0].points, [*point], "{}", c.policy);
        }
    }
    // LRU alone keeps the objects, but no requests.
    for threads in [1, 3] {
        let lru = Plan {
            policies: vec!["lru"],
            ..plan(&sizes, threads)
        };
        let run = curve::run(file.path(), &lru).expect("a good trace");
        assert_eq!(run.curves[0], all.curves[1]);
        assert_eq!((run.objects, run.requests), (all.objects, all.requests));
    }
    let with_writes = |threads| {
        let plan = Plan {
            policies: registry::ALL.iter().map(|e| e.name).collect(),
            writes: Some(WriteModel::default()),
            ..plan(&sizes, threads)
        };
        curve::run(file.path(), &plan).expect("a good trace")
    };
    assert_eq!(with_writes(1), with_writes(4));
    for c in &with_writes(2).curves {
        for point in &c.points {
            let single = Plan {
                policies: vec![c.policy],
                writes: Some(WriteModel::default()),
                ..plan(&[point.size], 1)
            };
            let streamed = curve::run(file.path(), &single).expect("a good trace");
            assert_eq!(streamed.curves[0].points, [*point], "{}", c.policy);
        }
    }
    let writes = with_writes(2).curves[0].points[2]
        .writes
        .expect("writes are modelled");
    assert!(writes.writes > 11_000 && writes.flusher_writes > 0 && writes.dirty_met > 0);
}

fn run(text: &str, sizes: &[u32]) -> Vec<u64> {
    let mut file = tempfile::NamedTempFile::with_suffix(".strace").expect("a folder");
    file.write_all(text.as_bytes()).expect("space");
    let whole = curve::run(file.path(), &plan(sizes, 1)).expect("a good trace");
    for c in &whole.curves {
        for point in &c.points {
            let single = Plan {
                policies: vec![c.policy],
                ..plan(&[point.size], 1)
            };
            let streamed = curve::run(file.path(), &single).expect("a good trace");
            assert_eq!(streamed.curves[0].points, [*point], "{}", c.policy);
        }
    }
    let lru = Plan {
        policies: vec!["lru"],
        ..plan(sizes, 2)
    };
    let distances = curve::run(file.path(), &lru).expect("a good trace");
    assert_eq!(distances.curves[0], whole.curves[1]);
    whole.curves[1]
        .points
        .iter()
        .map(|p| p.counts.misses)
        .collect()
}

#[test]
fn truncated_pages_leave_the_cache() {
    let text = "\
7 1795248225.000000 openat(AT_FDCWD, \"a\", O_RDWR) = 3 <0.000009>
7 1795248225.100000 pread64(3, \"\"..., 16384, 0) = 16384 <0.000005>
7 1795248225.200000 ftruncate(3, 8192) = 0 <0.000005>
7 1795248225.300000 pread64(3, \"\"..., 8192, 0) = 8192 <0.000005>
7 1795248225.400000 pwrite64(3, \"\"..., 8192, 8192) = 8192 <0.000005>
7 1795248225.500000 pread64(3, \"\"..., 16384, 0) = 16384 <0.000005>
";
    // Four pages are read; two are truncated and read again. With one page of memory every request
    // misses.
    assert_eq!(run(text, &[1, 4]), [12, 6]);
}

#[test]
fn whole_records_are_one_request_each() {
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").expect("a folder");
    file.write_all(b"time,obj_id,size\n1,1,65536\n2,1,512\n3,9,1024\n")
        .expect("space");
    let at = |unit| {
        let plan = Plan {
            unit,
            policies: vec!["lru"],
            ..plan(&[100], 1)
        };
        let run = curve::run(file.path(), &plan).expect("a good trace");
        (run.requests, run.curves[0].points[0].counts.misses)
    };
    assert_eq!(at(Unit::Record), (3, 2));
    assert_eq!(at(Unit::Page).0, 17 + 1 + 1);
}

/// Objects by name that grow and shrink: with `Unit::Record` they are objects of any size, with
/// `Unit::Page` page `n` of an object is always the same one. Every way through the trace has the
/// misses of a list of (object, page) pairs.
#[test]
fn objects_that_grow_are_the_same_objects() {
    let mut rng = trace::random::Rng::new(3);
    let requests: Vec<(u64, u64)> = (0..3000)
        .map(|_| {
            (
                rng.below(40) * rng.below(5),
                1 + rng.below(4) * rng.below(3),
            )
        })
        .collect();
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").expect("a folder");
    let lines = requests.iter().enumerate();
    let lines = lines.map(|(i, (id, pages))| format!("{i},{id},{},read\n", pages * 4096 - 5));
    let text: String = lines.collect();
    file.write_all(format!("time,obj_id,obj_size,op\n{text}").as_bytes())
        .expect("space");
    for unit in [Unit::Record, Unit::Page] {
        let pages = |size: u64| if unit == Unit::Page { size } else { 1 };
        let all = requests.iter();
        let all = all.flat_map(|(id, size)| (0..pages(*size)).map(move |page| (*id, page)));
        let all: Vec<(u64, u64)> = all.collect();
        let misses = |slots: usize, lru: bool| {
            let (mut list, mut misses) = (Vec::new(), 0);
            for one in &all {
                match list.iter().position(|o| o == one) {
                    Some(at) if lru => {
                        list.remove(at);
                    }
                    Some(_) => continue,
                    None => misses += 1,
                }
                list.push(*one);
                if list.len() > slots {
                    list.remove(0);
                }
            }
            misses
        };
        let sizes = [1, 7, 30, 100, 1000];
        for (policy, lru) in [("lru", true), ("fifo", false)] {
            let expected = sizes.map(|size| misses(size as usize, lru));
            let plan = |sizes: &[u32], writes, sample, threads| Plan {
                options: Options {
                    unit: trace::Unit::Object,
                    ..Options::default()
                },
                unit,
                policies: vec![policy],
                writes,
                sample,
                ..plan(sizes, threads)
            };
            let found = |plan: &Plan| -> Vec<u64> {
                let run = curve::run(file.path(), plan).expect("a good trace");
                assert_eq!(run.requests, all.len() as u64);
                let points = run.curves[0].points.iter();
                points.map(|p| p.counts.misses).collect()
            };
            let writes = Some(WriteModel::default());
            let whole = Some("rate=1".parse().expect("a sample"));
            for threads in [1, 3] {
                for plan in [
                    plan(&sizes, None, None, threads),
                    plan(&sizes, writes, None, threads),
                    plan(&sizes, None, whole, threads),
                ] {
                    assert_eq!(found(&plan), expected, "{policy}, {unit:?}");
                }
                for (size, expected) in sizes.into_iter().zip(expected) {
                    for writes in [None, writes] {
                        let one = found(&plan(&[size], writes, None, threads));
                        assert_eq!(one, [expected], "{policy}, {unit:?}, {size}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_broken_trace_says_where() {
    let file = tempfile::NamedTempFile::with_suffix(".csv").expect("a folder");
    std::fs::write(file.path(), "time,obj_id,size\n1,1,512\nx,1,512\n").expect("space");
    let error = curve::run(file.path(), &plan(&[10], 1)).expect_err("a broken line");
    assert_eq!(error.record, Some(3));
    assert!(curve::run(Path::new("no/such/file"), &plan(&[10], 1)).is_err());
}

/// Regression test: 1,000 requests of almost 4 GiB each took 32 GiB of memory to stream and 4 GiB
/// to keep.
#[test]
fn requests_of_gigabytes_need_no_memory_of_their_size() {
    let line = |i: u32| format!("{i},{},{}\n", i * 8, u32::MAX);
    let text: String = (1000..2000).map(line).collect();
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").expect("a folder");
    file.write_all(text.as_bytes()).expect("space");
    let budget = Budget(Some(64 << 20));
    let plan = Plan {
        budget,
        ..plan(&[10, 20], 2)
    };
    let e = curve::run(file.path(), &plan).expect_err("too many requests to keep");
    assert!(e.message.contains("1048576 requests or more"), "{e}");
    assert!(e.message.contains("64 MiB of memory are left"), "{e}");
    assert!(
        e.accepted.contains("one policy and one size"),
        "{}",
        e.accepted
    );
    let lru = Plan {
        policies: vec!["lru"],
        ..plan.clone()
    };
    let e = curve::run(file.path(), &lru).expect_err("too many objects");
    assert!(e.message.contains("1048576 objects or more"), "{e}");
    // Three requests suffice to test the same path in less time.
    let three: usize = (1000..1003).map(|i| line(i).len()).sum();
    file.as_file().set_len(three as u64).expect("a file");
    let single = Plan {
        sizes: vec![10].into(),
        policies: vec!["fifo"],
        ..plan
    };
    let run = curve::run(file.path(), &single).expect("it streams");
    assert_eq!(run.requests, 3 << 20);
    let large = Plan {
        sizes: vec![1 << 30].into(),
        ..single
    };
    let e = curve::run(file.path(), &large).expect_err("no room for the cache");
    assert!(e.message.contains("a cache of 1073741824 pages"), "{e}");
}

#[test]
fn what_it_may_take_is_said_before() {
    let limited = Plan {
        budget: Budget(Some(64 << 20)),
        ..plan(&[10, 1000], 2)
    };
    // OPT needs four more bytes a request, for its next use.
    let said = curve::memory(&limited, None);
    assert!(
        said.contains("12 bytes a request and 80 bytes an object"),
        "{said}"
    );
    let others = Plan {
        policies: vec!["fifo", "arc"],
        ..limited.clone()
    };
    let said = curve::memory(&others, None);
    assert!(
        said.contains("8 bytes a request and 80 bytes an object"),
        "{said}"
    );
    assert!(said.contains("at most 64 MiB, then it ends"), "{said}");
    let lru = Plan {
        policies: vec!["lru"],
        ..limited.clone()
    };
    assert!(curve::memory(&lru, None).contains("128 bytes an object"));
    let one = Plan {
        sizes: vec![1 << 20].into(),
        ..lru
    };
    assert!(curve::memory(&one, None).contains("161 MiB for a cache of 1048576 pages"));
    let sample = Plan {
        sample: Some(replay::Sample::Rate(0.1)),
        ..limited
    };
    assert!(curve::memory(&sample, None).contains("of the sample"));
}

/// 40,000 requests that touch all 3,000 pages: shares are converted to pages once the number is
/// known.
#[test]
fn shares_are_of_what_the_trace_has() {
    let file = csv(0.0);
    let objects = curve::run(file.path(), &plan(&[1, 2], 1))
        .expect("a good trace")
        .objects;
    let objects = f64::from(objects.expect("they were counted"));
    for policies in [
        vec!["lru"],
        vec!["fifo"],
        vec!["opt"],
        vec!["lru", "arc", "opt"],
    ] {
        let of = |sizes: &str, sample| {
            let plan = Plan {
                policies: policies.clone(),
                sizes: sizes.parse().expect("sizes"),
                sample,
                ..plan(&[1], 2)
            };
            assert!(curve::memory(&plan, None).starts_with("memory: "));
            curve::run(file.path(), &plan).expect("a good trace")
        };
        let pages = |share: f64| (share * objects).round() as u32;
        for (shares, want) in [
            ("10%", vec![pages(0.1)]),
            ("100%,20%,7", vec![7, pages(0.2), pages(1.0)]),
        ] {
            let curves = of(shares, None);
            let list: Vec<String> = want.iter().map(u32::to_string).collect();
            let plain = of(&list.join(","), None);
            let sizes: Vec<u32> = curves.curves[0].points.iter().map(|p| p.size).collect();
            assert_eq!(sizes, want, "{shares} of {objects}");
            assert_eq!(curves.curves, plain.curves);
        }
        // A sample estimates the number of objects from its rate.
        let sampled = of("50%", Some(replay::Sample::Rate(0.5)));
        let size = f64::from(sampled.curves[0].points[0].size);
        assert!(
            (size - objects / 2.0).abs() < objects / 20.0,
            "{size} of {objects}"
        );
    }
}

#[test]
fn progress_counts_every_cache_once() {
    let file = csv(0.0);
    let seen = std::sync::Mutex::new(Vec::new());
    let watch = |done, of| seen.lock().expect("no panic").push((done, of));
    let two = Plan {
        policies: vec!["fifo", "opt"],
        ..plan(&[1, 10, 100], 2)
    };
    let watched = curve::run_watched(file.path(), &two, &watch).expect("a good trace");
    assert_eq!(
        watched,
        curve::run(file.path(), &two).expect("a good trace")
    );
    let all: Vec<(usize, usize)> = (0..=6).map(|done| (done, 6)).collect();
    assert_eq!(seen.into_inner().expect("no panic"), all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]
    #[test]
    fn blocks_are_as_single_requests(objects in prop::collection::vec(0_u64..60, 0..400), slots in 1_u32..50) {
        let new = || replay::Cache::<evict::S3Fifo, _>::new(slots, evict::Index::new(slots));
        let (mut one, mut many) = (new(), new());
        for object in &objects {
            one.request(*object);
        }
        many.request_block(&objects);
        prop_assert_eq!(one.counts(), many.counts());
    }
}
