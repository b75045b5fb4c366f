//! Guests in a User-Mode Linux without a calendar: its time is virtual and passes by itself
//! (`time-travel=inf-cpu`), its disks are the host's files. While such a disk is at work in the host's time,
//! virtual time leaps from one event to the next, so nothing here says how long I/O takes.
//!
//! They need what not everybody has, so they are ignored: `LOWMARK_UML` names a kernel with ubd disks
//! and ext4, `mke2fs` makes an image.
#![cfg(target_os = "linux")]

use guest::wire::{Assignment, BootJob, Frame, JOB, Job, MountJob, ScriptJob};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// An archive as the kernel unpacks it (cpio, `newc`).
fn initramfs(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    let trailer = [("TRAILER!!!", 0, &[][..])];
    for (nth, (name, mode, contents)) in files.iter().chain(&trailer).enumerate() {
        let name = name.trim_start_matches('/');
        let size = contents.len() as u32;
        let fields = [
            nth as u32 + 1,
            *mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        archive.extend(b"070701");
        fields
            .iter()
            .for_each(|field| archive.extend(format!("{field:08x}").bytes()));
        archive.extend(name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(*contents);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

/// A machine's folder: its disks, and what it said last.
struct Machine {
    dir: TempDir,
    kernel: PathBuf,
}

impl Machine {
    /// With an ext4 of 256 MiB and a swap area of 64 MiB.
    fn new() -> Self {
        let kernel = std::env::var_os("LOWMARK_UML").expect("LOWMARK_UML names a kernel");
        let machine = Self {
            dir: tempfile::tempdir().unwrap(),
            kernel: kernel.into(),
        };
        let made = |command: &mut Command| {
            let made = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            assert!(made.unwrap().success());
        };
        let (disk, swap) = (machine.path("disk"), machine.path("swap"));
        File::create(&disk).unwrap().set_len(256 << 20).unwrap();
        made(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&disk));
        File::create(&swap).unwrap().set_len(64 << 20).unwrap();
        made(Command::new("mkswap").arg(&swap));
        fs::write(machine.path("typed"), "").unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Boots it with a job, and returns all that it said.
    fn run(&self, job: &Job, more: &[(&str, u32, &[u8])]) -> Vec<Frame> {
        let json = serde_json::to_vec(job).unwrap();
        let binary = guest_binary::guest_binary().unwrap();
        let mut files = vec![
            ("/init", 0o100_755, binary),
            (JOB, 0o100_644, &json[..]),
            ("/trace", 0o040_755, &[][..]),
            ("/bin", 0o040_755, &[][..]),
        ];
        files.extend_from_slice(more);
        let initrd = self.path("initrd");
        fs::write(&initrd, initramfs(&files)).unwrap();
        let out = File::create(self.path("frames")).unwrap();
        let flags = rustix::io::FdFlags::empty();
        rustix::io::fcntl_setfd(&out, flags).unwrap();
        let mut kernel = Command::new(&self.kernel)
            .args([
                "mem=128M",
                "time-travel=inf-cpu",
                "init=/init",
                "panic=1",
                "quiet",
            ])
            .args(["con=null", "con0=fd:0,fd:1", "lowmark.out=ttyS0"])
            .arg("time-travel-start=1700000000")
            .arg(format!("ssl0=null,fd:{}", out.as_raw_fd()))
            .arg(format!("initrd={}", initrd.display()))
            .arg(format!("ubd0={}", self.path("disk").display()))
            .arg(format!("ubd1={}", self.path("swap").display()))
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It stays open to the end: a console that hangs up ends its shell.
        let mut typing = kernel.stdin.take().unwrap();
        typing
            .write_all(&fs::read(self.path("typed")).unwrap())
            .unwrap();
        let said = kernel.wait_with_output().unwrap();
        drop(typing);
        fs::write(self.path("console"), &said.stdout).unwrap();
        let console = String::from_utf8_lossy(&said.stdout).into_owned();
        let frames = read(&self.path("frames"));
        assert!(matches!(frames.first(), Some(Frame::Hello(_))), "{console}");
        eprintln!("{console}");
        frames
    }
}

fn read(path: &Path) -> Vec<Frame> {
    let bytes = fs::read(path).unwrap();
    let mut from = &bytes[..];
    std::iter::from_fn(|| Frame::read(&mut from).unwrap()).collect()
}

fn job(task: Assignment, script: ScriptJob) -> Job {
    let found = script.script().ok().flatten().unwrap_or_default();
    Job {
        directories: found.directories,
        files: found.files.into_iter().map(|f| (f.path, f.len)).collect(),
        task,
        mounts: vec![MountJob {
            device: "/dev/ubda".into(),
            mount: String::new(),
            filesystem: "ext4".into(),
            options: "noatime".into(),
        }],
        swap: None,
        settings: vec![("/proc/sys/vm/swappiness".into(), "10".into())],
        boot: BootJob::default(),
        script,
        changes: Vec::new(),
        sample_ns: 0,
        watch: vec![
            "/proc/vmstat".into(),
            "/proc/meminfo".into(),
            "/proc/nothing".into(),
        ],
        tracepoints: Vec::new(),
        trace_kb: 0,
        copy_page_ns: 0,
        gettimeofday_ns: 0,
    }
}

fn command(line: &str) -> ScriptJob {
    ScriptJob::Command(line.to_owned())
}

fn figures(frames: &[Frame]) -> BTreeMap<&str, f64> {
    let figure = |frame| match frame {
        &Frame::Figure(ref name, _, value) => Some((name.as_str(), value)),
        _ => None,
    };
    frames.iter().filter_map(figure).collect()
}

fn end(frames: &[Frame]) -> Option<u64> {
    frames.iter().find_map(|frame| match frame {
        Frame::End(at) => Some(*at),
        _ => None,
    })
}

fn failed(frames: &[Frame]) -> Option<&str> {
    frames.iter().find_map(|frame| match frame {
        Frame::Failed(why) => Some(why.as_str()),
        _ => None,
    })
}

/// The values of a counter at the looks, with their times.
fn looks(frames: &[Frame], path: &str, name: &str) -> Vec<(u64, u64)> {
    let value = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next());
        value.unwrap().parse().unwrap()
    };
    let look = |frame: &Frame| match frame {
        Frame::Look(at, of, text) if of == path => Some((*at, value(text))),
        _ => None,
    };
    frames.iter().filter_map(look).collect()
}

const SECOND: u64 = 1_000_000_000;

#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn a_guest_prepares_runs_and_looks() {
    let machine = Machine::new();
    let line = "dd if=/dev/zero of=a bs=64k count=320 && find . & \
                fs_mark -d fm -t 2 -n 50 -s 4096 -L 1 & desktop -w 4M -p 1M -t 3s; sleep 2; wait";
    let mut prepare = job(Assignment::Prepare, command(line));
    prepare.boot.cache = 8 << 20;
    let frames = machine.run(&prepare, &[]);
    assert_eq!(frames.last(), Some(&Frame::Bye), "{frames:?}");
    assert_eq!((failed(&frames), frames.len()), (None, 2));

    let mut run = job(Assignment::Run, command(line));
    run.sample_ns = SECOND;
    run.swap = Some("/dev/ubdb".into());
    run.boot = BootJob {
        kernel: 40 << 20,
        anon: 16 << 20,
        cache: 8 << 20,
    };
    let change = ("/proc/sys/vm/swappiness".to_owned(), "77".to_owned());
    run.changes = vec![(3 * SECOND / 2, vec![change])];
    run.watch.push("/proc/sys/vm/swappiness".into());
    let frames = machine.run(&run, &[]);
    assert_eq!(frames.last(), Some(&Frame::Bye));
    assert_eq!(failed(&frames), None);
    let end = end(&frames).unwrap();
    assert!(end >= 5 * SECOND, "{end}");
    let figures = figures(&frames);
    // dd's and fs_mark's.
    assert_eq!(figures["bytes"], f64::from((320 << 16) + 100 * 4096));
    assert!(
        figures["responses"] > 140.0 && figures["files"] >= 100.0,
        "{figures:?}"
    );
    let dirtied = looks(&frames, "/proc/vmstat", "nr_dirtied ");
    let times: Vec<u64> = dirtied.iter().map(|look| look.0).collect();
    let mut expected: Vec<u64> = (0..).map(|n| n * SECOND).take_while(|t| *t < end).collect();
    expected.push(end);
    assert_eq!(times, expected);
    assert!(dirtied.last().unwrap().1 - dirtied[0].1 >= 320 * 16);
    let swappiness = looks(&frames, "/proc/sys/vm/swappiness", "");
    assert_eq!([swappiness[1].1, swappiness[2].1], [10, 77]);
    // The boot memory: what is in use and no cache of files, and the idle process's.
    let at_start = |name: &str| looks(&frames, "/proc/meminfo", name)[0].1;
    let unevictable = at_start("Unevictable:");
    assert!(unevictable > 1024, "{unevictable}");
    let (total, free) = (at_start("MemTotal:"), at_start("MemFree:"));
    let files = at_start("Active(file):") + at_start("Inactive(file):");
    let used = total - free - files;
    let due = (40 + 16) << 10;
    // Free pages of the CPU's lists count as used, and the programs' process has some by now.
    assert!(
        (due - (2 << 10)..due + (6 << 10)).contains(&used),
        "{used} kB of {due}"
    );
    assert!(at_start("AnonPages:") >= 16 << 10);
    assert!(files >= 8 << 10);
}

/// Megabytes of frames arrive whole, and a script that fails says why.
#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn nothing_is_lost_and_failures_are_told() {
    let machine = Machine::new();
    let mut run = job(Assignment::Run, command("sleep 50"));
    run.sample_ns = SECOND / 20;
    run.watch.push("/proc/zoneinfo".into());
    let frames = machine.run(&run, &[]);
    assert_eq!(failed(&frames), None);
    let late = end(&frames).unwrap() - 50 * SECOND;
    assert!(late < 10_000, "{late}");
    // At the start, every 50 ms, and at the end, which comes a moment after the last of those.
    assert_eq!(looks(&frames, "/proc/vmstat", "nr_free_pages ").len(), 1002);
    assert!(fs::metadata(machine.path("frames")).unwrap().len() > 4 << 20);

    run.settings = vec![("/proc/sys/vm/no_such".into(), "1".into())];
    let frames = machine.run(&run, &[]);
    assert!(
        failed(&frames).unwrap().contains("/proc/sys/vm/no_such"),
        "{frames:?}"
    );
    assert_eq!(frames.last(), Some(&Frame::Bye));

    run.settings = Vec::new();
    run.sample_ns = 0;
    run.script = command("dd if=nothing of=b");
    let frames = machine.run(&run, &[]);
    assert_eq!(failed(&frames), Some("nothing: no such file"));

    run.boot.kernel = 1 << 30;
    let frames = machine.run(&run, &[]);
    assert!(
        failed(&frames).unwrap().contains("does not fit"),
        "{frames:?}"
    );
}

/// The workload takes more memory than there is: the kernel kills it and nothing else.
#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn out_of_memory_is_the_workloads_end() {
    let machine = Machine::new();
    let line = "simoop -t 2 -m 100 -M 4 -r 5 -f 1 -n 2 -R 1 -W 1 d";
    machine.run(&job(Assignment::Prepare, command(line)), &[]);
    let mut run = job(Assignment::Run, command(line));
    run.boot.anon = 4 << 20;
    let frames = machine.run(&run, &[]);
    let why = failed(&frames).unwrap();
    assert!(why.starts_with("out of memory"), "{why}");
    assert_eq!(frames.last(), Some(&Frame::Bye));
}

#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn tracepoints_are_recorded() {
    let machine = Machine::new();
    let mut run = job(
        Assignment::Run,
        command("dd if=/dev/zero of=a bs=1M count=60"),
    );
    run.tracepoints = vec!["vmscan/mm_vmscan_kswapd_wake".into(), "vmscan/none".into()];
    run.tracepoints.push("writeback/writeback_start".into());
    let frames = machine.run(&run, &[]);
    assert_eq!(failed(&frames), None);
    let formats: Vec<&str> = frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Format(name, text) => Some(name.as_str()).filter(|_| text.contains("field")),
            _ => None,
        })
        .collect();
    let points = ["vmscan/mm_vmscan_kswapd_wake", "writeback/writeback_start"];
    assert_eq!(formats, ["header_page", points[0], points[1]]);
    let start = frames.iter().find_map(|frame| match frame {
        Frame::Start(at) => Some(*at),
        _ => None,
    });
    let mut pages = 0;
    for frame in &frames {
        let Frame::Trace(raw) = frame else { continue };
        for page in raw.chunks(4096) {
            assert_eq!(page.len(), 4096);
            let time = u64::from_le_bytes(page[..8].try_into().unwrap());
            let since = time - start.unwrap();
            assert!(since <= end(&frames).unwrap(), "{since}");
            pages += 1;
        }
    }
    assert!(pages > 0);
}

/// The files that the host's shell needs.
fn libraries_of_sh() -> Vec<String> {
    let libraries = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let words = libraries.split_ascii_whitespace();
    words
        .filter(|w| w.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

/// A shell on the console, on the mounted filesystem; without one, what is missing is said.
#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn a_shell_is_on_the_console() {
    let machine = Machine::new();
    let shell = job(Assignment::Shell, command("sleep 1"));
    let frames = machine.run(&shell, &[]);
    assert!(failed(&frames).unwrap().contains("busybox"), "{frames:?}");
    let libraries = libraries_of_sh();
    let mut files: Vec<(&str, u32, Vec<u8>)> = ["/lib", "/lib/x86_64-linux-gnu", "/lib64"]
        .map(|dir| (dir, 0o040_755, Vec::new()))
        .into();
    for path in libraries.iter().map(String::as_str).chain(["/bin/sh"]) {
        files.push((path, 0o100_755, fs::read(path).unwrap()));
    }
    let files: Vec<(&str, u32, &[u8])> = files
        .iter()
        .map(|(path, mode, c)| (*path, *mode, &c[..]))
        .collect();
    fs::write(machine.path("typed"), "echo here: *\nexit\n").unwrap();
    let frames = machine.run(&shell, &files);
    assert_eq!((failed(&frames), frames.last()), (None, Some(&Frame::Bye)));
    let console = fs::read_to_string(machine.path("console")).unwrap();
    assert!(console.contains("here: lost+found"), "{console}");
}

/// A program of the user's: the host's shell in a root folder with little else.
#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn a_foreign_program_runs_in_its_root() {
    let machine = Machine::new();
    let root = machine.path("root");
    for dir in ["bin", "etc", "lib64", "mnt"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy("/bin/sh", root.join("bin/sh")).unwrap();
    fs::write(root.join("etc/name"), "own\n").unwrap();
    for library in libraries_of_sh() {
        let to = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(library, to).unwrap();
    }
    std::os::unix::fs::symlink("bin", root.join("sbin")).unwrap();
    let image = machine.path("swap");
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-d"])
        .args([&root, &image])
        .status();
    assert!(made.unwrap().success());
    let foreign = |run: &str| {
        let script = ScriptJob::Foreign {
            run: run.to_owned(),
            root: "/dev/ubdb".into(),
        };
        machine.run(&job(Assignment::Run, script), &[])
    };
    let frames = foreign(
        "read name </etc/name && test $name = own && echo x >here && test -e /mnt/here && test -r \
         /proc/self/stat -a -x /sbin/sh && echo y >/tmp/y && ! echo z 2>/dev/null >/etc/z",
    );
    assert_eq!((failed(&frames), end(&frames).is_some()), (None, true));
    let frames = foreign("echo first >&2; no_such_program");
    let why = failed(&frames).unwrap();
    assert!(
        why.contains("exit status: 127") && why.contains("first / "),
        "{why}"
    );
    assert!(why.contains("no_such_program: not found"), "{why}");
}

/// Without a disk of the host's time, a guest takes the time that its programs take, every time the same.
/// What differs is what the kernel draws by chance, which is the kernel world's business to hold still.
#[test]
#[ignore = "needs LOWMARK_UML: a kernel with ubd disks, which Lowmark's own have not"]
fn virtual_time_is_the_programs() {
    let machine = Machine::new();
    let line = "burst -s 1M -n 20 -i 50ms -h 10ms & fs_mark -d m -t 2 -n 100 -s 8192 -L 2; \
                dd if=/dev/zero of=a bs=64k count=200; mapped-file-stream 2 4194304; wait";
    let mut run = job(Assignment::Run, command(line));
    run.mounts[0].device = "tmpfs".into();
    run.mounts[0].filesystem = "tmpfs".into();
    run.sample_ns = SECOND / 4;
    let run = || machine.run(&run, &[]);
    let (one, two) = (run(), run());
    for frames in [&one, &two] {
        assert_eq!(failed(frames), None);
        let bursts = figures(frames);
        assert_eq!((bursts["bursts"], bursts["burst_allocs"]), (20.0, 5120.0));
        // Twenty bursts, one every 50 ms, held for 10.
        let at = end(frames).unwrap();
        assert!((960_000_000..1_000_000_000).contains(&at), "{at}");
    }
    assert_eq!(end(&one), end(&two));
    let times = |frames| looks(frames, "/proc/vmstat", "nr_free_pages ").into_iter();
    assert!(times(&one).map(|l| l.0).eq(times(&two).map(|l| l.0)));
    let all = figures(&one);
    for (name, value) in figures(&two) {
        assert_eq!(all[name], value, "{name}");
    }
}
