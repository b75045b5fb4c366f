//! Each key that is done changes what a job does, for its own reason.

use super::*;

/// Returns the calls that a job makes whose text begins with `prefix`, without that.
fn calls(text: &str, prefix: &str) -> Vec<String> {
    let (host, ..) = run(text);
    let calls = host.calls.borrow();
    let found = calls.iter().filter_map(|c| c.strip_prefix(prefix));
    found.map(|c| c.trim().to_owned()).collect()
}

/// Returns the offsets that a job of one file seeks to.
fn offsets(keys: &str) -> Vec<u64> {
    let text = format!("[a]\n{keys}\n");
    let calls = calls(&text, "seek a.0.0");
    calls.iter().map(|c| c.parse().unwrap()).collect()
}

fn figure(text: &str, name: &str) -> f64 {
    run(text).1[name]
}

#[test]
fn sync_opens_with_o_sync() {
    let opens = |keys: &str| calls(&format!("[a]\nrw=write\nsize=8k\n{keys}\n"), "open a.0.0");
    assert_eq!(opens(""), ["w create"]);
    assert_eq!(opens("sync=1"), ["w create sync"]);
    assert_eq!(opens("sync=dsync"), ["w create dsync"]);
    assert_eq!(opens("atomic=1"), ["w create direct"]);
    assert_eq!(opens("buffered=0\nverify=md5"), ["rw create direct"]);
}

#[test]
fn sizes_are_drawn_from_ranges_and_splits() {
    let lens = |keys: &str| {
        let (host, ..) = run(&format!("[a]\nrw=write\nsize=4m\n{keys}\n"));
        let calls = host.calls.borrow();
        let lens = calls.iter().filter_map(|c| c.strip_prefix("write a.0.0 "));
        let mut counts = BTreeMap::new();
        lens.for_each(|len| *counts.entry(len.parse::<u64>().unwrap()).or_insert(0) += 1);
        counts
    };
    let split = lens("bssplit=4k/80:16k");
    assert_eq!(split.keys().copied().collect::<Vec<_>>(), [4096, 16_384]);
    let share = f64::from(split[&4096]) / f64::from(split[&4096] + split[&16_384]);
    assert!((0.74..0.86).contains(&share), "{split:?}");
    let range = lens("bsrange=2k-16k");
    assert!(
        range.len() == 8 && range.keys().all(|len| len % 2048 == 0),
        "{range:?}"
    );
    assert!(lens("bsrange=2k-16k\nbs_unaligned").len() > 20);
    let (_, m, _) = run("[a]\nrw=rw\nsize=1m\nbs=4k,16k\n");
    assert_eq!(m["write_bytes"] / m["writes"], 16_384.0);
    assert!(m["read_bytes"] / m["reads"] == 4096.0);
    // The first size is of sequential requests, the second of random ones.
    let both = lens("rw=randwrite\npercentage_random=50\nbs=4k,8k\nbs_is_seq_rand=1");
    assert_eq!(both.keys().copied().collect::<Vec<_>>(), [4096, 8192]);
}

#[test]
fn offsets_begin_where_the_job_says() {
    assert_eq!(
        offsets("rw=read\nsize=16k\noffset=8k"),
        [8192, 12_288, 16_384, 20_480]
    );
    assert_eq!(
        offsets("rw=read\nfilesize=32k\noffset=50%"),
        [16_384, 20_480, 24_576, 28_672]
    );
    assert_eq!(offsets("rw=read\nfilesize=16k\nsize=50%"), [0, 4096]);
    assert_eq!(
        offsets("rw=read\nfilesize=20k\noffset=30%\noffset_align=8k")[0],
        8192
    );
    let text = "[a]\nrw=read\nsize=8k\nfilename=f\nnumjobs=2\noffset_increment=64k\n";
    assert_eq!(calls(text, "seek f"), ["0", "4096", "65536", "69632"]);
    // Every offset is a multiple of the alignment.
    let aligned = offsets("rw=randread\nsize=256k\nbs=4k\nblockalign=16k");
    assert!(
        aligned.iter().all(|at| at % 16_384 == 0 || *at == 258_048),
        "{aligned:?}"
    );
}

/// The offsets are those that fio 3.33 shows with --debug=io.
#[test]
fn gaps_and_runs_are_fios() {
    let k = |offsets: Vec<u64>| offsets.iter().map(|at| at / 1024).collect::<Vec<_>>();
    assert_eq!(
        k(offsets("rw=read:-8k\nsize=32k")),
        [0, 24, 20, 16, 12, 8, 4, 0]
    );
    assert_eq!(k(offsets("rw=read:4k\nsize=16k")), [0, 8, 0, 8]);
    let runs = offsets("rw=randread:4\nsize=1m\nnorandommap");
    let next = |pair: &&[u64]| pair[1] == pair[0] + 4096;
    assert!(runs.windows(2).filter(next).count() > 150, "{runs:?}");
    let same = offsets("rw=randread:4\nsize=1m\nrw_sequencer=identical\nnorandommap");
    assert!(
        same.windows(2).filter(|pair| pair[0] == pair[1]).count() > 150,
        "{same:?}"
    );
    let half = offsets("rw=randread\nsize=1m\npercentage_random=50\nnorandommap");
    let run = half.windows(2).filter(next).count();
    assert!((90..170).contains(&run), "{run}");
    let strides =
        offsets("rw=read\nsize=64k\nio_size=32k\nzonemode=strided\nzonesize=8k\nzoneskip=8k");
    assert_eq!(k(strides), [0, 4, 16, 20, 32, 36, 48, 52]);
}

#[test]
fn distributions_favour_their_blocks() {
    let first = |distribution: &str, of: u64| {
        let keys = format!("rw=randread\nsize=4m\nio_size=16m\nrandom_distribution={distribution}");
        let all = offsets(&keys);
        let within = all.iter().filter(|at| **at < of).count();
        within as f64 / all.len() as f64
    };
    let tenth = (4 << 20) / 10;
    assert!((0.75..0.85).contains(&first("zoned:80/10:20/90", tenth)));
    assert!((0.75..0.85).contains(&first("zoned_abs:80/400k:20/3m", 409_600)));
    assert!((0.46..0.54).contains(&first("normal:10", 2 << 20)));
    assert!(first("normal:10", tenth) < 0.01);
    assert!(first("normal:10:0.05", tenth) > 0.33);
    assert!(first("zipf:1.2:0", tenth) > 0.7);
}

#[test]
fn files_are_taken_in_their_order() {
    let order = |keys: &str| calls(&format!("[a]\nrw=read\nsize=32k\n{keys}\n"), "read ");
    let names = |calls: Vec<String>| {
        calls
            .iter()
            .map(|c| c.replace(" 4096", ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(order("nrfiles=2")),
        [
            "a.0.0", "a.0.1", "a.0.0", "a.0.1", "a.0.0", "a.0.1", "a.0.0", "a.0.1"
        ]
    );
    let twos = names(order("filename=x:y\nfile_service_type=roundrobin:2"));
    assert_eq!(twos, ["x", "x", "y", "y", "x", "x", "y", "y"]);
    let sequential = names(order("filename=x:y\nfile_service_type=sequential"));
    assert_eq!(sequential, ["x", "x", "x", "x", "y", "y", "y", "y"]);
    let random = names(order("nrfiles=4\nfile_service_type=random"));
    assert_ne!(random, names(order("nrfiles=4")));
    for skewed in ["zipf:1.2", "pareto:0.3", "gauss:20"] {
        assert_eq!(
            names(order(&format!("nrfiles=4\nfile_service_type={skewed}"))).len(),
            8
        );
    }
    // One file is open at a time.
    let text = "[a]\nrw=read\nsize=32k\nnrfiles=2\nopenfiles=1\n";
    assert_eq!(calls(text, "open").len(), 8);
    assert_eq!(calls(&text.replace("openfiles=1", ""), "open").len(), 2);
    let named = "[a]\nrw=write\nsize=4k\nfilename_format=$jobname-$filenum.dat\ndirectory=d\n";
    assert_eq!(calls(named, "open"), ["d/a-0.dat w create"]);
    let spread = "[a]\nrw=write\nsize=4k\nnumjobs=2\ndirectory=/x:/y\n";
    assert_eq!(
        calls(spread, "open"),
        ["/x/a.0.0 w create", "/y/a.1.0 w create"]
    );
    let lens = parse("[a]\nrw=read\nnrfiles=8\nfilesize=8k-64k\n").unwrap();
    assert_eq!(lens.jobs[0].total, 8 * 65_536);
}

#[test]
fn amounts_end_a_job() {
    let reads = |keys: &str| figure(&format!("[a]\nrw=randread\nsize=64k\n{keys}\n"), "reads");
    assert_eq!(reads(""), 16.0);
    assert_eq!(reads("loops=3"), 48.0);
    assert_eq!(reads("number_ios=5"), 5.0);
    assert_eq!(reads("io_limit=32k"), 8.0);
    // A job that fills the device ends without an error.
    let script = parse("[a]\nrw=write\nfill_device=1\n").unwrap().script();
    let host = MemoryHost::default();
    host.space.set(1 << 20);
    let session = script.session();
    let Step::Background(process) = &script.steps[0] else {
        panic!("a process");
    };
    block_on(process.commands[0].run(&host, &session)).unwrap();
    assert_eq!(host.contents("a.0.0").len(), 1 << 20);
}

#[test]
fn rates_and_pauses_take_their_time() {
    let seconds = |keys: &str| {
        run(&format!("[a]\nrw=read\nsize=400k\n{keys}\n"))
            .0
            .now_seconds()
    };
    assert!(seconds("") < 0.1);
    assert!((0.98..1.01).contains(&seconds("rate_iops=100")));
    assert!((0.98..1.01).contains(&seconds("rate_iops=,100\nrate=400k")));
    let poisson = seconds("rate_iops=100\nrate_process=poisson");
    assert!(
        (0.7..1.4).contains(&poisson) && (poisson - 0.99).abs() > 0.001,
        "{poisson}"
    );
    assert!((0.99..1.01).contains(&seconds("thinktime=10ms")));
    assert!((0.24..0.26).contains(&seconds("thinktime=10ms\nthinktime_blocks=4")));
    assert!((0.99..1.01).contains(&seconds("thinktime=4ms\nthinktime_spin=10ms")));
    assert!(seconds("thinktime=10ms\nthinktime_iotime=1") < 0.6);
    let kept = "rate_iops=50\nthinktime=10ms";
    assert!((1.9..2.1).contains(&seconds(kept)));
    assert!((2.8..3.1).contains(&seconds(&format!("{kept}\nrate_ignore_thinktime=1"))));
    assert!((1.5..3.6).contains(&seconds("startdelay=1500ms-3500ms")));
}

#[test]
fn files_are_synced_dropped_and_removed_as_asked() {
    let made =
        |keys: &str, call: &str| calls(&format!("[a]\nrw=write\nsize=16k\n{keys}\n"), call).len();
    assert_eq!(
        (made("", "fsync"), made("fsync_on_close=1", "fsync")),
        (0, 1)
    );
    assert_eq!(made("fdatasync=2", "fdatasync"), 2);
    assert_eq!((made("", "unlink"), made("unlink=1", "unlink")), (0, 1));
    assert_eq!(
        (
            made("", "read"),
            made("pre_read=1\noverwrite=1\nverify=md5\ndo_verify=0", "read")
        ),
        (0, 0)
    );
    assert_eq!(made("rw=randread\npre_read=1", "read"), 5);
    let script = |keys: &str| {
        parse(&format!("[a]\nrw=write\nsize=16k\n{keys}\n"))
            .unwrap()
            .script()
    };
    assert_eq!(
        (script("").files.len(), script("overwrite=1").files.len()),
        (0, 1)
    );
    // The second job finds pages of the first, and drops them if it is told to.
    let two =
        "[a]\nrw=write\nsize=16k\nfilename=f\n[b]\nstonewall\nrw=read\nsize=16k\nfilename=f\n";
    assert_eq!(calls(two, "drop_cache").len(), 0);
    assert_eq!(
        calls(&format!("{two}invalidate=1\n"), "drop_cache").len(),
        1
    );
}

#[test]
fn what_was_written_is_verified() {
    let text = "[a]\nrw=randwrite\nsize=32k\nverify=crc32c\n";
    let (host, m, _) = run(text);
    assert_eq!((m["writes"], m["reads"]), (8.0, 8.0));
    // The reads are of the writes' offsets, after a sync.
    let seeks: Vec<String> = host
        .calls
        .borrow()
        .iter()
        .filter(|c| c.starts_with("seek"))
        .cloned()
        .collect();
    assert_eq!(seeks[..8], seeks[8..]);
    assert_eq!((host.count("fsync"), host.count("drop_cache")), (1, 1));
    let reads = |keys: &str| run(&format!("{text}{keys}\n")).1["reads"];
    assert_eq!(reads("do_verify=0"), 0.0);
    assert_eq!(reads("loops=2"), 16.0);
    let (_, m, _) = run(&format!("{text}verify_only\n"));
    assert_eq!((m["writes"], m["reads"]), (0.0, 8.0));
    // With a backlog of two, reads follow each second write.
    let (host, ..) = run(&format!("{text}verify_backlog=2\n"));
    let calls = host.calls.borrow();
    let mut kinds: Vec<&str> = calls.iter().filter_map(|c| c.split(' ').next()).collect();
    kinds.retain(|k| matches!(*k, "read" | "write"));
    assert_eq!(
        kinds[..8],
        [
            "write", "write", "read", "read", "write", "write", "read", "read"
        ]
    );
}

#[test]
fn engines_access_files_in_their_ways() {
    let text = "[a]\nrw=randrw\nsize=64k\niodepth=4\nioengine=";
    let tasks = |engine: &str| {
        parse(&format!("{text}{engine}"))
            .unwrap()
            .script()
            .steps
            .len()
            - 1
    };
    assert_eq!(
        (tasks("psync"), tasks("libaio"), tasks("libaio\ndirect=1")),
        (1, 1, 4)
    );
    assert_eq!((tasks("io_uring"), tasks("posixaio\ndirect=1")), (4, 1));
    assert_eq!(tasks("psync\nio_submit_mode=offload"), 4);
    let (host, m, _) = run(&format!("{text}mmap"));
    assert_eq!(
        (host.count("map"), host.count("touch"), host.count("read ")),
        (1, 16, 0)
    );
    assert_eq!(m["reads"] + m["writes"], 16.0);
    assert_eq!(run(&format!("{text}splice")).1["short_calls"], 0.0);
    // Direct requests move whole pages, and count what they asked for.
    let (host, m, notes) = run("[a]\nrw=write\nsize=2k\nbs=512\ndirect=1\n");
    assert_eq!(
        (host.count("write a.0.0 4096"), m["write_bytes"]),
        (4, 2048.0)
    );
    assert!(notes[0].contains("4 KiB"), "{notes:?}");
}

#[test]
fn devices_are_files() {
    let jobs = parse("[a]\nrw=randread\nfilename=/dev/sda\nsize=1m\n[b]\nfilename=/dev/nvme0n1\n")
        .unwrap();
    assert!(
        jobs.notes[0].contains("`dev-sda` of the tested filesystem, of 1048576"),
        "{:?}",
        jobs.notes
    );
    let files: Vec<(String, u64)> = jobs
        .script()
        .files
        .into_iter()
        .map(|f| (f.path, f.len))
        .collect();
    assert_eq!(
        files,
        [
            ("dev-nvme0n1".to_owned(), 1 << 30),
            ("dev-sda".to_owned(), 1 << 20)
        ]
    );
    let (host, m, _) = run("[a]\nrw=write\nfilename=/dev/null\nsize=64k\n");
    assert_eq!((m["writes"], host.count("open /dev/null")), (16.0, 1));
}

#[test]
fn jobs_end_with_one_another() {
    // The tasks of the test's host run one after the other.
    let two = "[a]\nrw=read\nsize=16k\nexitall\n[b]\nrw=read\nsize=16k\n";
    assert_eq!(figure(two, "reads"), 4.0);
    assert_eq!(figure(&two.replace("exitall", ""), "reads"), 8.0);
    assert_eq!(figure(&format!("{two}new_group\n"), "reads"), 8.0);
    let phases =
        "[a]\nrw=read\nsize=16k\nexitall\nexit_what=stonewall\n[b]\nnew_group\nrw=read\nsize=16k\n";
    assert_eq!(figure(phases, "reads"), 4.0);
    assert_eq!(figure(&format!("{phases}stonewall\n"), "reads"), 8.0);
    let all = format!("{phases}stonewall\n").replace("exit_what=stonewall", "exit_what=all");
    assert_eq!(figure(&all, "reads"), 4.0);
    let waits = parse("[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n").unwrap();
    assert_eq!(waits.jobs[1].wait_for, Some(0));
}

#[test]
fn a_steady_job_ends() {
    let text = "[a]\nrw=read\nsize=1m\ntime_based\nruntime=60\nrate_iops=100\n";
    assert!(run(text).0.now_seconds() > 59.0);
    let steady = |ss: &str| {
        run(&format!("{text}ss={ss}\nss_dur=5s\nss_ramp=2s\n"))
            .0
            .now_seconds()
    };
    for ss in ["iops:5%", "bw:5%", "iops_slope:1%", "bw_slope:5000"] {
        let seconds = steady(ss);
        assert!((6.5..9.0).contains(&seconds), "{ss}: {seconds}");
    }
    let off = parse(&format!("{text}ss=iops:5%\n")).unwrap();
    assert!(off.jobs[0].steady.is_none() && off.notes[0].contains("ss_dur"));
}

#[test]
fn files_are_created_looked_at_and_removed() {
    let text = |engine: &str| format!("[a]\nioengine={engine}\nnrfiles=5\nfilesize=4k\n");
    for (engine, call) in [
        ("filecreate", "open"),
        ("filestat", "stat"),
        ("filedelete", "unlink"),
    ] {
        let (host, m, _) = run(&text(engine));
        assert_eq!((host.count(call), m["reads"]), (5, 5.0), "{engine}");
    }
    let (host, ..) = run("[a]\nrw=write\nioengine=ftruncate\nsize=16k\n");
    assert_eq!(
        (host.count("truncate"), host.contents("a.0.0").len()),
        (4, 12_288)
    );
    assert!(parse("[a]\nioengine=ftruncate\nsize=16k\n").is_err());
}

/// The latency of a queue of a device that serves 10 requests at a time: 1 ms for each 10 of them.
#[test]
fn a_depth_is_sought_for_a_latency() {
    use crate::fio::pace::Search;
    let keys = "[a]\nsize=1m\nlatency_target=3ms\nlatency_window=1s\n";
    let target = parse(keys).unwrap().jobs[0].target.unwrap();
    let mut search = Search::new(128);
    let mut now = 1;
    let found = (0..100_000).any(|_| {
        now += 1_000_000;
        let ns = search.depth.div_ceil(10) * 1_000_000;
        search.note(&target, now, ns)
    });
    assert!(found && search.depth == 30, "{}", search.depth);
    let (host, ..) = run(&format!(
        "{keys}rw=read\ntime_based\nruntime=60\nrate_iops=100\n"
    ));
    assert!(host.now_seconds() < 3.0, "{}", host.now_seconds());
    assert!(parse("[a]\nsize=1m\nlatency_target=1ms\n").is_err());
}

#[test]
fn flows_share_by_weight() {
    use crate::fio::pace::Board;
    let jobs = parse("[a]\nsize=1m\nflow=1\n[b]\nsize=1m\nflow=3\n")
        .unwrap()
        .jobs;
    let mut board = Board::default();
    let mut counts = [0, 0];
    for _ in 0..4000 {
        for (job, count) in jobs.iter().zip(&mut counts) {
            *count += u64::from(board.may_go(job, 0));
        }
    }
    let ratio = counts[1] as f64 / counts[0] as f64;
    assert!((2.9..3.1).contains(&ratio), "{counts:?}");
    // The last of a flow is not held up.
    board.expect(&jobs[1]);
    board.end(&jobs[1], 0);
    assert!((0..100).all(|_| board.may_go(&jobs[0], 0)));
}
