use super::setting::scaled;
use super::worker::Progress;
use super::*;
use crate::host::Task;
use crate::script::Step;
use crate::testing::{MemoryHost, block_on};
use proptest::prelude::*;
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
        ("[a]\nrw=trim\nsize=1m", 2, "`rw`"),
        ("[a]\nrw=read\n", 1, "no size"),
        ("[global]\nsize=1m\n[a]\n\nverify=md5\n", 5, "`verify`"),
        ("[a]\nsize=10%\n", 2, "`size`"),
        ("[a]\nsize=1m\nbs=4k-64k\n", 3, "`bs`"),
        ("[a]\nsize=1m\nioengine=mmap\n", 3, "mmap"),
        ("[a]\nsize=1m\ndirect=yes\n", 3, "`direct`"),
        ("[a]\nsize=1m\ndirect=1\nbs=512\n", 1, "whole pages"),
        ("[a]\nsize=1m\ntime_based\n", 1, "runtime"),
        ("[a]\nsize=${SIZE}\n", 2, "variables"),
        ("[a]\nsize=1m\nrandom_distribution=normal:3\n", 3, "normal"),
        ("[a]\nsize=1m\nnumjobs=500\n", 3, "`numjobs`"),
        (
            "[a]\nsize=1m\nnumjobs=300\n[b]\nsize=1m\nnumjobs=300\n",
            4,
            "600",
        ),
        ("[a]\nsize=1k\nbs=4k\n", 1, "does not fit"),
        ("[a]\nsize=1m\nfilename=x:y\n", 3, "several files"),
        ("[a]\nsize=1m\nruntime=5 parsecs\n", 3, "`runtime`"),
        ("[a]\nsize=\n", 2, "missing"),
        ("[a]\nsize=1m\nfadvise_hint=2\n", 3, "`fadvise_hint`: `2`"),
        ("[a]\nsize=1m\nfadvise_hint=noreuse\n", 3, "noreuse"),
        ("[a]\nsize=1m\nfadvise_hint\n", 3, "missing"),
    ] {
        let e = parse(text).expect_err(text);
        assert_eq!(e.line, line, "{text}: {e}");
        assert!(e.message.contains(what), "{text}: {e}");
        assert!(!e.accepted.is_empty() && text.get(e.span.clone()).is_some());
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
        ("k", None),
        ("1x", None),
        ("1i", None),
        ("99999999999999t", None),
    ] {
        assert_eq!(scaled(text), n, "{text}");
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
        let mut progress = Progress::new(job, 0);
        while let Some(r) = progress.next(job, 0) {
            prop_assert!(r.len > 0 && r.offset + r.len <= job.region, "{:?}", r);
        }
    }
}
