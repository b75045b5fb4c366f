//! Tests of the host on this machine's kernel, in a folder.

use super::*;
use crate::programs::{Ended, Player};
use crate::wire::Frame;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;
use workload::{ExistingFile, Script, fio};

fn root(dir: &TempDir) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    rustix::fs::open(dir.path(), flags, Mode::empty()).unwrap()
}

const FREE: Costs = Costs {
    copy_page_ns: 0,
    gettimeofday_ns: 0,
};

fn host(dir: &TempDir) -> TaskHost {
    let spend = Spend::by("/nowhere");
    TaskHost::new(&Arc::new(Shared::new(
        root(dir),
        Session::default(),
        FREE,
        spend,
    )))
}

fn lay_out(dir: &Path, script: &Script) {
    for path in &script.directories {
        fs::create_dir_all(dir.join(path)).unwrap();
    }
    for ExistingFile { path, len } in &script.files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().set_len(*len).unwrap();
    }
}

fn play(dir: &TempDir, script: Script) -> Ended {
    lay_out(dir.path(), &script);
    Player::new(script, root(dir), FREE, Spend::by("/nowhere")).run(clock())
}

/// Runs a line that must succeed; returns a function that looks up its figures.
fn figures(line: &str) -> impl Fn(&str) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let script = workload::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    let ended = play(&dir, script);
    assert_eq!(ended.error, None, "{line}");
    let line = line.to_owned();
    move |name| {
        let figure = ended.figures.get(name);
        figure
            .unwrap_or_else(|| panic!("{line}: {name} of {:?}", ended.figures))
            .1
    }
}

const EMPTY: OpenFlags = OpenFlags::EMPTY_FILE;

#[test]
fn files_are_made_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let h = host(&dir);
    run(async {
        // Missing parent directories are made.
        let fd = h.open("/a//b/c", EMPTY).await.unwrap();
        let mut buf = h.buffer(1 << 20);
        assert_eq!(h.write(fd, &buf, 1 << 20).await, Ok(1 << 20));
        assert_eq!(h.write_at(fd, &buf, 3 << 20, 10).await, Ok(10));
        assert_eq!(h.len(fd), Ok((3 << 20) + 10));
        assert_eq!(h.read_at(fd, &mut buf, 3 << 20, 4096).await, Ok(10));
        assert_eq!(h.seek(fd, 1 << 20).await, Ok(1 << 20));
        assert_eq!(h.read(fd, &mut buf, 1 << 20).await, Ok(1 << 20));
        assert_eq!(h.truncate(fd, 5).await, Ok(()));
        assert_eq!(h.read_at(fd, &mut buf, 0, 4096).await, Ok(5));
        assert_eq!(
            (h.sync(fd, true).await, h.sync(fd, false).await),
            (Ok(()), Ok(()))
        );
        assert_eq!(h.close(fd).await, Ok(()));
        assert!(matches!(h.close(fd).await, Err(HostError::Unsupported(_))));
        assert_eq!(h.mkdir("a/d/e").await, Ok(()));
        assert_eq!(h.mkdir("a/d").await, Err(HostError::Exists("a/d".into())));
        let stat = |directory, len| Ok(Stat { directory, len });
        assert_eq!(h.stat("a/b/c").await, stat(false, 5));
        assert_eq!(h.stat("/").await, stat(true, 0));
        // One listing has two directories, the other a file.
        for (dir, expected) in [("a", stat(true, 0)), ("a/b", stat(false, 5))] {
            let names = h.read_dir(dir).await.unwrap();
            assert!(!names.is_empty());
            for nth in 0..names.len() {
                let found = h.stat_listed(&h.dir(dir), &names, nth).await;
                assert_eq!(found, expected, "{dir}/{}", names[nth]);
            }
        }
        let mut names = h.read_dir("a").await.unwrap().to_vec();
        names.sort();
        assert_eq!(names, ["b".into(), "d".into()]);
        assert_eq!(h.rmdir("a").await, Err(HostError::Exists("a".into())));
        assert_eq!(h.unlink("a/b/c").await, Ok(()));
        let gone = HostError::NotFound("a/b/c".into());
        assert_eq!(h.unlink("a/b/c").await, Err(gone.clone()));
        assert_eq!(h.stat("a/b/c").await, Err(gone.clone()));
        assert_eq!(
            h.open(
                "a/b/c",
                OpenFlags {
                    read: true,
                    ..OpenFlags::default()
                }
            )
            .await,
            Err(gone)
        );
        assert_eq!(h.rmdir("a/b").await, Ok(()));
        assert_eq!(
            h.unlink("a/d").await,
            Err(HostError::NotFound("a/d".into()))
        );
    });
}

#[test]
fn devices_are_as_every_host_knows_them() {
    let dir = tempfile::tempdir().unwrap();
    let h = host(&dir);
    run(async {
        let mut buf = h.buffer(8192);
        let zero = h
            .open(
                "/dev/zero",
                OpenFlags {
                    direct: true,
                    ..EMPTY
                },
            )
            .await
            .unwrap();
        assert_eq!(h.read(zero, &mut buf, 8192).await, Ok(8192));
        assert_eq!(
            (h.seek(zero, 7).await, h.truncate(zero, 7).await),
            (Ok(7), Ok(()))
        );
        let null = h.open("/dev/null", EMPTY).await.unwrap();
        assert_eq!(h.read(null, &mut buf, 8192).await, Ok(0));
        assert_eq!(
            (h.write(null, &buf, 100).await, h.sync(null, false).await),
            (Ok(100), Ok(()))
        );
        assert!(
            h.map(Map::Shared(null), 4096, Advice::Normal)
                .await
                .is_err()
        );
    });
}

#[test]
fn buffers_are_aligned_and_longer_calls_are_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let h = host(&dir);
    run(async {
        let direct = OpenFlags {
            direct: true,
            ..EMPTY
        };
        let fd = match h.open("direct", direct).await {
            // A tmpfs before 6.6 has no direct I/O.
            Err(HostError::Unsupported(_)) => h.open("direct", EMPTY).await.unwrap(),
            other => other.unwrap(),
        };
        let mut buf = h.buffer(3 << 20);
        assert!(buf.memory.len() <= 300 << 10);
        assert_eq!(buf.window(3 << 20).as_ptr().align_offset(PAGE), 0);
        assert_eq!(h.write(fd, &buf, 3 << 20).await, Ok(3 << 20));
        assert_eq!(
            h.read_at(fd, &mut buf, 4096, 3 << 20).await,
            Ok((3 << 20) - 4096)
        );
    });
    let file = fs::File::open(dir.path().join("direct")).unwrap();
    let mut byte = [1];
    file.read_exact_at(&mut byte, (3 << 20) - 1).unwrap();
    assert_eq!(byte, [0]);
}

#[test]
fn mapped_memory_holds_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let h = host(&dir);
    let word = |expect, store| Word { expect, store };
    run(async {
        let fd = h.open("m", EMPTY).await.unwrap();
        h.truncate(fd, 8 * 4096).await.unwrap();
        let shared = h
            .map(Map::Shared(fd), 8 * 4096, Advice::Random)
            .await
            .unwrap();
        let private = h
            .map(Map::Private(fd), 8 * 4096, Advice::Sequential)
            .await
            .unwrap();
        h.touch(shared, 0, 8, word(Some(0), Some(5))).await.unwrap();
        h.touch(shared, 2, 6, word(Some(5), None)).await.unwrap();
        h.touch(private, 0, 8, word(Some(5), Some(6)))
            .await
            .unwrap();
        h.touch(shared, 0, 8, word(Some(5), None)).await.unwrap();
        let wrong = h.touch(shared, 0, 1, word(Some(9), None)).await;
        assert_eq!(wrong, Err(HostError::Io("m".into())));
        // Truncated while mapped: an access behind the end is a bus error.
        h.truncate(fd, 4096).await.unwrap();
        let behind = h.touch(shared, 0, 2, word(None, Some(1))).await;
        assert_eq!(behind, Err(HostError::Io("m".into())));
        let anon = h.map(Map::Anon, 4 << 20, Advice::Normal).await.unwrap();
        h.touch(anon, 0, 1024, word(Some(0), Some(1)))
            .await
            .unwrap();
        for map in [shared, private, anon] {
            assert_eq!(h.unmap(map).await, Ok(()));
            assert!(h.unmap(map).await.is_err());
        }
        assert!(h.map(Map::Anon, 100, Advice::Normal).await.is_err());
        assert_eq!(
            h.map(Map::Anon, 1 << 60, Advice::Normal).await,
            Err(HostError::OutOfMemory)
        );
    });
}

#[test]
fn what_the_kernel_says_of_itself() {
    let dir = tempfile::tempdir().unwrap();
    let h = host(&dir);
    run(async {
        assert!(h.memory().unwrap() > 1 << 20);
        let before = h.usage().unwrap();
        let map = h.map(Map::Anon, 400 * 4096, Advice::Normal).await.unwrap();
        h.touch(
            map,
            0,
            400,
            Word {
                expect: None,
                store: Some(1),
            },
        )
        .await
        .unwrap();
        let after = h.usage().unwrap();
        assert!(after.page_faults > before.page_faults);
        assert!(after.longest_alloc_ns > 0, "timed once somebody has asked");
        assert!(h.gettimeofday() > 1_600_000_000_000_000);
        let all = h.bind(Cpus::Mask(1)).await.unwrap();
        assert_eq!(h.bind(all).await, Ok(Cpus::Mask(1)));
        assert!(h.bind(Cpus::OfNode(7)).await.is_err());
        let page = h.alloc_pages(0, false).await.unwrap().unwrap();
        assert_eq!(h.free_pages(page).await, Ok(()));
        assert!(matches!(
            h.alloc_pages(1, false).await,
            Err(HostError::Unsupported(_))
        ));
        assert!(matches!(
            h.alloc_pages(0, true).await,
            Err(HostError::Unsupported(_))
        ));
    });
}

/// Charged time is written to the kernel's file in pieces, once it is worth a call.
#[test]
fn computing_is_paid_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spend");
    fs::write(&path, "").unwrap();
    let spend = Spend::by(path.to_str().unwrap());
    let costs = Costs {
        copy_page_ns: 400,
        gettimeofday_ns: 50,
    };
    let h = TaskHost::new(&Arc::new(Shared::new(
        root(&dir),
        Session::default(),
        costs,
        spend,
    )));
    let paid = || fs::read_to_string(&path).unwrap();
    run(async {
        let (from, mut to) = (h.buffer(8192), h.buffer(8192));
        h.copy(&from, 0, &mut to, 0, 8192).await.unwrap();
        h.gettimeofday();
        assert_eq!((h.debt.get(), paid()), (850, String::new()));
        h.compute(9_151).await;
        assert_eq!((h.debt.get(), paid()), (0, "10001".to_owned()));
        h.compute(200_007).await;
        // The last piece replaces the one before in the file.
        assert_eq!(paid(), "700000");
        h.compute(9).await;
        h.sleep(1).await;
        assert_eq!((h.debt.get(), h.spent.get()), (0, 10_001 + 200_007 + 9));
    });
    assert_eq!(h.shared.notes(), [""; 0]);
    assert_eq!(h.usage().unwrap().user_ns, h.spent.get());

    let sleeping = host(&dir);
    run(sleeping.compute(20_000));
    let notes = sleeping.shared.notes();
    assert!(notes.len() == 1 && notes[0].contains("slept"), "{notes:?}");
}

#[test]
fn copying_programs() {
    let f =
        figures("dd if=/dev/zero of=a bs=64k count=20 conv=fsync && dd if=a of=b ibs=3k obs=10k");
    assert_eq!(f("bytes"), f64::from(40 << 16));
    assert_eq!(f("full_records_out"), 20.0 + f64::from(20 << 6) / 10.0);
    let f = figures("fs_mark -d m -t 2 -n 20 -s 4096 -L 2; find m; rm -r m");
    assert!(f("files") >= 80.0 && f("names_walked") >= 80.0 && f("names_removed") >= 80.0);
    let f = figures("tiobench --size 2 --threads 2 --random 20 --dir t");
    assert!(f("seqread_mean") > 0.0);
}

#[test]
fn mapping_programs() {
    let f =
        figures("mmap-strm -t 2 --memory 1M --stream 2 --mixed 1 --file-passes 2 --anon-passes 2");
    assert_eq!(f("stream stores"), 512.0);
    let f = figures("mapped-file-stream 2 1048576");
    assert!(f("page_fault") > 0.0);
    let f = figures("desktop -w 1M -p 256K -i 10ms -c 100us -t 300ms");
    assert_eq!(f("responses"), 30.0);
    let f = figures("simoop -t 2 -m 1 -M 1 -C 1 -D 1 -w 1 -r 1 -i 1 -f 1 -n 20 -T 2 s");
    assert!(f("work_units") > 0.0 && f("allocations") > 0.0);
    let f = figures("burst -s 1M -h 5ms -i 20ms -n 3");
    assert_eq!(
        (f("bursts"), f("burst_allocs"), f("burst_failed")),
        (3.0, 768.0, 0.0)
    );
}

#[test]
fn scripts_are_run_as_a_shell_does() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sleep 0.05 && dd if=/dev/zero of=late count=1 & dd if=/dev/zero of=early count=1; wait; \
                dd if=late of=copy && dd if=nothing of=x; dd if=/dev/zero of=never count=1";
    let ended = play(&dir, workload::parse(line).unwrap());
    assert_eq!(ended.error, Some(HostError::NotFound("nothing".into())));
    assert!(ended.at >= 50_000_000, "{}", ended.at);
    assert_eq!(ended.figures["bytes"], ("bytes", 3.0 * 512.0));
    let there = ["late", "early", "copy", "never"].map(|f| dir.path().join(f).exists());
    assert_eq!(there, [true, true, true, false]);
    let frames = ended.frames();
    assert!(matches!(frames[0], Frame::End(_)));
    assert_eq!(
        frames.last(),
        Some(&Frame::Failed("nothing: no such file".into()))
    );
    // A failing program in the background is reported, and ends nothing else.
    let line = "dd if=nothing of=x & sleep 0.05; dd if=/dev/zero of=y count=1";
    let ended = play(&dir, workload::parse(line).unwrap());
    assert_eq!(ended.error, Some(HostError::NotFound("nothing".into())));
    assert!(dir.path().join("y").exists());
}

#[test]
fn job_files_and_traces() {
    let text = "[global]\nsize=256k\n[r]\nrw=randrw\nnumjobs=2\niodepth=2\n[w]\nstonewall\nrw=write\nfsync=8\n";
    let dir = tempfile::tempdir().unwrap();
    let ended = play(&dir, fio::parse(text).unwrap().script());
    assert_eq!(ended.error, None);
    let of = |name: &str| ended.figures[name].1;
    assert_eq!(of("read_bytes") + of("write_bytes"), 3.0 * 262_144.0);
    assert_eq!(of("syncs"), 8.0);

    let trace = dir.path().join("trace.csv");
    fs::write(&trace, "0,1,4096\n0.02,2,4096\n").unwrap();
    let open = workload::Replay::open(trace, Default::default(), workload::Timing::Recorded);
    let ended = play(&dir, open.unwrap().script());
    assert_eq!((ended.error, ended.figures["reads"].1), (None, 2.0));
    assert!(ended.at >= 20_000_000);
}

/// The programs' process from its first frame to its last.
#[test]
fn a_process_says_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let line = "simoop -t 1 -m 1 -M 1 -r 1 -i 1 -f 1 -n 2 s";
    let script = workload::parse(line).unwrap();
    lay_out(dir.path(), &script);
    let player = Player::new(script, root(&dir), FREE, Spend::by("/nowhere"));
    let (from, to) = std::io::pipe().unwrap();
    let reader = std::thread::spawn(move || {
        let mut from = from;
        let mut frames = Vec::new();
        loop {
            let frame = Frame::read(&mut from).unwrap().unwrap();
            let last = frame == Frame::Bye;
            frames.push(frame);
            if last {
                return frames;
            }
        }
    });
    let start = clock();
    crate::programs::live(&player, 300_000_000, &start.to_le_bytes()[..], to).unwrap();
    let frames = reader.join().unwrap();
    assert_eq!(frames[0], Frame::Hello(String::new()));
    let gauges = frames.iter().filter_map(|frame| match frame {
        Frame::Gauge(at, name, unit, _) if name == "work_rate" && unit == "1/s" => Some(*at),
        _ => None,
    });
    let gauges: Vec<u64> = gauges.collect();
    assert_eq!(gauges[..2], [0, 300_000_000]);
    assert!(
        frames
            .iter()
            .any(|f| matches!(f, Frame::End(at) if gauges.last() == Some(at)))
    );
}
