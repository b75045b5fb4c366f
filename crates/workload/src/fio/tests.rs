use super::keys::Answer;
use super::order::{Order, Tables};
use super::setting::scaled;
use super::*;
use crate::host::Task;
use crate::script::Step;
use crate::testing::{MemoryHost, block_on};
use proptest::prelude::*;

mod examples;
mod keys_at_work;
use std::collections::BTreeMap;

fn run(text: &str) -> (MemoryHost, BTreeMap<String, f64>, Vec<String>) {
    let script = parse(text).unwrap_or_else(|e| panic!("{e}")).script();
    let host = MemoryHost::default();
    for file in &script.files {
        host.put(&file.path, &vec![1; file.len as usize]);
    }
    let session = script.session();
    for step in &script.steps {
        if let Step::Background(process) = step {
            block_on(process.commands[0].run(&host, &session)).unwrap();
        }
    }
    assert_eq!(host.open_files(), 0);
    let report = session.report(0).unwrap();
    let metrics = report.metrics.into_iter().map(|(n, _, v)| (n, v)).collect();
    (host, metrics, script.notes)
}

#[test]
fn a_job_file_of_several_sections_runs() {
    let text = "\
; two readers, then a writer
[global]
bs=4k
size=64k
ioengine=libaio
group_reporting
[readers]
rw=randread
numjobs=2
iodepth=8

[global]
directory=/data/
[writer]
stonewall
rw=write
filename=log
bs=16k
fsync=2
end_fsync=1
";
    let jobs = parse(text).unwrap();
    let script = jobs.clone().script();
    assert_eq!(script.steps.len(), 5);
    assert_eq!(script.steps[2], Step::Wait);
    let names: Vec<&str> = script.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(names, ["readers.0.0", "readers.1.0"]);
    let (host, metrics, notes) = run(text);
    assert_eq!(metrics["reads"], 32.0);
    assert_eq!(metrics["writes"], 4.0);
    assert_eq!(metrics["syncs"], 2.0);
    assert_eq!(metrics["short_calls"], 0.0);
    assert_eq!(host.count("fsync"), 3);
    assert_eq!(host.contents("/data/log").len(), 65_536);
    assert!(notes[0].contains("iodepth=8 has no effect"), "{notes:?}");
    assert!(notes[1].ends_with("ioengine, group_reporting"), "{notes:?}");
    // Every block is read once.
    let mut seeks: Vec<String> = host.calls.borrow().clone();
    seeks.retain(|c| c.starts_with("seek readers.0.0"));
    seeks.sort();
    seeks.dedup();
    assert_eq!(seeks.len(), 16);
}

#[test]
fn rates_times_and_ramps_are_kept() {
    let (host, metrics, _) = run("[a]\nrw=write\nbs=1k\nsize=100k\nrate=10k\n");
    // A hundred blocks at ten a second; the last one is due after 9.9 s.
    let seconds = host.now_seconds();
    assert!((9.9..9.91).contains(&seconds), "{seconds}");
    assert_eq!(metrics["writes"], 100.0);
    let text = "[a]\nrw=read\nsize=8k\ntime_based\nruntime=2s\nramp_time=500ms\nthinktime=10ms";
    let (host, metrics, _) = run(text);
    assert!((2.5..2.52).contains(&host.now_seconds()));
    assert_eq!(metrics["reads"], 200.0);
    let (_, metrics, _) =
        run("[a]\nrw=randrw\nrwmixread=80\nsize=4m\nrandom_distribution=zipf:1.1");
    assert!((750.0..870.0).contains(&metrics["reads"]), "{metrics:?}");
    assert_eq!(metrics["reads"] + metrics["writes"], 1024.0);
    let (_, metrics, _) =
        run("[a]\nrw=randwrite\nsize=1m\nio_size=2m\nrandom_distribution=pareto:0.3");
    assert_eq!(metrics["writes"], 512.0);
}

#[test]
fn direct_jobs_keep_their_queue_full() {
    let text = "[a]\nrw=randread\nsize=64k\ndirect=1\nioengine=io_uring\niodepth=4";
    let script = parse(text).unwrap().script();
    assert_eq!(script.steps.len(), 5);
    let (_, metrics, _) = run(text);
    assert_eq!(metrics["reads"], 16.0);
}

/// As `fio --rw=…` does under strace (3.33): each open file gets one advice, according to its
/// `rw` unless `fadvise_hint` overrides it.
#[test]
fn jobs_advise_the_kernel_of_their_order() {
    let advised = |keys: &str| -> Vec<String> {
        let (host, ..) = run(&format!("[a]\nsize=64k\n{keys}\n"));
        let mut calls = host.calls.borrow().clone();
        calls.retain(|c| c.starts_with("fadvise"));
        calls
    };
    for (rw, advice) in [
        ("read", "Sequential"),
        ("write", "Sequential"),
        ("rw", "Sequential"),
        ("readwrite", "Sequential"),
        ("randread", "Random"),
        ("randwrite", "Random"),
        ("randrw", "Random"),
    ] {
        let of = |hint: &str| advised(&format!("rw={rw}\n{hint}"));
        let call = |advice: &str| vec![format!("fadvise a.0.0 {advice}")];
        assert_eq!(of(""), call(advice), "{rw}");
        assert_eq!(of("fadvise_hint=1"), call(advice), "{rw}");
        assert_eq!(of("fadvise_hint=random"), call("Random"), "{rw}");
        assert_eq!(of("fadvise_hint=sequential"), call("Sequential"), "{rw}");
        assert!(of("fadvise_hint=0").is_empty() && of("fadvise_hint=none").is_empty());
    }
    assert_eq!(advised("rw=randread\nnumjobs=3\nfilename=f").len(), 3);
}

#[test]
fn what_is_not_supported_is_named_with_its_line() {
    for (text, line, what) in [
        ("", 1, "no job"),
        ("rw=read\n", 1, "before the first section"),
        ("[a\n", 1, "not a section"),
        ("[a]\nrw=trim\nsize=1m", 2, "discards"),
        ("[a]\nrw=read\n", 1, "no size"),
        (
            "[global]\nsize=1m\n[a]\n\nlockmem=1m\n",
            5,
            "not supported yet",
        ),
        ("[a]\nsize=1m\nhttp_host=x\n", 3, "networks"),
        ("[a]\nsize=1m\nbeverage=tea\n", 3, "no such key"),
        ("[a]\nsize=10%\n", 1, "is not given"),
        ("[a]\nsize=1m\nbs=4k-64k\n", 3, "`bs`"),
        ("[a]\nsize=1m\nioengine=rados\n", 3, "rados"),
        ("[a]\nsize=1m\nioengine=falloc\n", 3, "not supported yet"),
        ("[a]\nsize=1m\nioengine=tape\n", 3, "no engine"),
        ("[a]\nsize=1m\ndirect=yes\n", 3, "`direct`"),
        ("[a]\nsize=1m\ntime_based\n", 1, "runtime"),
        ("[a]\nsize=${SIZE}\n", 2, "`SIZE` is not set"),
        ("[a]\nsize=$mb_memory\n", 2, "depends on the machine"),
        ("[a]\nsize=1m\nrandom_distribution=normal\n", 3, "normal"),
        (
            "[a]\nsize=1m\nrandom_distribution=zoned:50/50\n",
            3,
            "zoned",
        ),
        ("[a]\nsize=1m\nbssplit=4k/50:8k/40\n", 3, "add up"),
        ("[a]\nsize=1m\nnumjobs=50000\n", 3, "`numjobs`"),
        (
            "[a]\nsize=1m\nnumjobs=9000\n[b]\nsize=1m\nnumjobs=9000\n",
            4,
            "18000",
        ),
        ("[a]\nsize=1k\nbs=4k\n", 1, "does not fit"),
        ("[a]\nsize=1m\nruntime=5 parsecs\n", 3, "`runtime`"),
        ("[a]\nsize=\n", 2, "missing"),
        ("[a]\nsize=1m\nfadvise_hint=2\n", 3, "`fadvise_hint`: `2`"),
        ("[a]\nsize=1m\nfadvise_hint=noreuse\n", 3, "noreuse"),
        ("[a]\nsize=1m\nfadvise_hint\n", 3, "missing"),
        ("[a]\nsize=1m\nwait_for=b\n", 3, "named `b`"),
        ("[a]\nsize=1m\nzonemode=zbd\n", 3, "zbd"),
        ("[a]\nsize=1m\nzonemode=strided\n", 1, "zonesize"),
        ("include other.fio\n", 1, "can't include"),
    ] {
        let e = parse(text).expect_err(text);
        assert_eq!(e.line, line, "{text}: {e}");
        assert!(e.message.contains(what), "{text}: {e}");
        assert!(!e.accepted.is_empty() && text.get(e.span.clone()).is_some());
    }
}

#[test]
fn all_refusals_of_a_job_file_come_at_once() {
    let text = "[global]\nlockmem=1m\n[a]\nsize=1m\nioengine=rbd\npool=x\n[b]\nsize=1q\nrw=trim\n";
    let e = parse(text).unwrap_err();
    assert_eq!(e.line, 2);
    for what in [
        "`lockmem`",
        "line 5: `ioengine`",
        "line 6: `pool`",
        "line 8: `size`",
        "line 9: `rw`",
    ] {
        assert!(e.message.contains(what), "{what}: {e}");
    }
    assert_eq!(e.message.matches("lockmem").count(), 1, "{e}");
}

/// Every key of the table has the answer that the table says; the table names no key twice.
#[test]
fn every_key_has_its_answer() {
    let mut seen = std::collections::BTreeSet::new();
    for row in keys::KEYS {
        for (first, others) in row.keys() {
            for name in std::iter::once(first).chain(others) {
                assert!(seen.insert(name), "{name} is listed twice");
                let text = format!("[a]\nsize=1m\n{name}=1\n");
                let parsed = parse(&text);
                match row.answer {
                    Answer::NoEffect => {
                        let notes = parsed.unwrap_or_else(|e| panic!("{name}: {e}")).notes;
                        assert!(notes[0].ends_with(name), "{name}: {notes:?}");
                    }
                    Answer::NotYet | Answer::Elsewhere => {
                        let e = parsed.expect_err(name);
                        assert!(e.message.contains("not supported"), "{name}: {e}");
                    }
                    // The value may not fit; the key is known.
                    Answer::Done => {
                        if let Err(e) = parsed {
                            assert!(!e.message.contains("this key"), "{name}: {e}");
                        }
                    }
                }
            }
        }
    }
    for row in keys::ENGINES {
        for (engine, _) in row.keys() {
            let parsed = parse(&format!("[a]\nrw=write\nsize=1m\nioengine={engine}\n"));
            assert_eq!(parsed.is_ok(), row.answer == Answer::Done, "{engine}");
        }
    }
}

/// `FIO_PAGE=write cargo test -p workload` writes the page anew.
#[test]
fn the_page_lists_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fio.md");
    if std::env::var("FIO_PAGE").is_ok_and(|v| v == "write") {
        std::fs::write(path, keys::page()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept, keys::page(), "FIO_PAGE=write cargo test -p workload");
}

struct House;

impl Surroundings for House {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "SIZE").then(|| "64k".to_owned())
    }

    fn included(&self, path: &str) -> Result<String, String> {
        match path {
            "more.fio" => Ok("[more]\nsize=8k\nrw=write\n".to_owned()),
            "bad.fio" => Ok("\nlockmem=1\n".to_owned()),
            "loop.fio" => Ok("include loop.fio\n".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }
}

#[test]
fn lines_are_read_as_fio_reads_them() {
    let text = "\
# a comment
[a] ; the first
  bs = 0x2000 # in hexadecimal
size=${SIZE};and a comment
time_based=0
rw=randread ; the usual
thinktime=1 ms
include more.fio
[global]
kb_base=1000
[b]
filesize=1.5mi
size=$pagesize
";
    let jobs = read(text, &House).unwrap();
    let names: Vec<&str> = jobs.jobs.iter().map(|j| j.name.as_str()).collect();
    assert_eq!(names, ["a", "more", "b"]);
    assert_eq!(
        (jobs.jobs[0].region, jobs.jobs[0].sizes()),
        (65_536, (8192, 8192))
    );
    assert_eq!(jobs.jobs[0].think.ns, 1_000_000);
    assert_eq!((jobs.jobs[2].region, jobs.jobs[2].total), (1_572_864, 4096));
    // The text that it stands for has the same jobs, also where there are no variables.
    assert_eq!(parse(&jobs.text).unwrap(), jobs);
    let e = read("[a]\nsize=1m\ninclude bad.fio\n", &House).unwrap_err();
    assert!(e.line == 3 && e.message.contains("bad.fio:2"), "{e}");
    assert!(read("include loop.fio\n", &House).is_err());
    let text = arguments("--bs=8k --name=x --rw=randread '--size=64k' --name=y --size=1m").unwrap();
    let jobs = parse(&text).unwrap().jobs;
    assert_eq!(
        (jobs[0].sizes().0, jobs[0].region, jobs[1].region),
        (8192, 65_536, 1 << 20)
    );
    for line in ["", "--rw=read", "--name=x job.fio", "--name=", "-x"] {
        let e = arguments(line).expect_err(line);
        assert!(line.get(e.span.clone()).is_some(), "{line}: {e}");
    }
}

#[test]
fn numbers_have_fios_suffixes() {
    for (text, n) in [
        ("0", Some(0)),
        ("4k", Some(4096)),
        ("4KB", Some(4096)),
        ("4ki", Some(4000)),
        ("4KiB", Some(4000)),
        ("1G", Some(1 << 30)),
        ("0x10", Some(16)),
        ("1.5k", Some(1536)),
        ("1.k5", None),
        ("k", None),
        ("1x", None),
        ("1i", None),
        ("99999999999999t", None),
    ] {
        assert_eq!(scaled(text, 1024), n, "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "(\\[(global|a|b)\\]?\n|(rw|bs|size|rate|iodepth|direct|x)=?[0-9a-z,:%.é-]{0,6}\n|;.{0,5}\n){0,12}") {
        if let Err(e) = parse(&text) {
            prop_assert!(text.get(e.span.clone()).is_some());
        }
    }

    #[test]
    fn requests_lie_inside_the_file(
        rw in prop_oneof![Just("rw"), Just("randrw"), Just("randwrite")],
        read in 1_u64..40, write in 1_u64..40, size in 40_u64..400,
    ) {
        let text = format!("[a]\nrw={rw}\nbs={},{}\nsize={}", read * 512, write * 512, size * 512);
        let jobs = parse(&text).unwrap();
        let job = &jobs.jobs[0];
        let mut order = Order::new(job, 0, &Tables::new(job));
        for _ in 0..2 * size / read.min(write) {
            let r = order.next(job);
            prop_assert!(r.len > 0 && r.offset + r.len <= job.region, "{:?}", r);
        }
    }
}
