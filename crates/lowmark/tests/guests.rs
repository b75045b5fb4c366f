//! Real guests through the command line: a shell, users' own programs, failures, Ctrl-C.
//! `LOWMARK_TEST_KERNEL` names a built kernel of the user's cache (CI: 6.12); without it, or
//! without a static busybox, a test prints a note and passes.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetattr;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BUSYBOX: &str = "/bin/busybox";

/// Returns the kernel to test with, if a guest can have a shell.
fn kernel() -> Option<String> {
    let name = std::env::var("LOWMARK_TEST_KERNEL").ok();
    if name.is_none() {
        eprintln!("not run: LOWMARK_TEST_KERNEL names no kernel");
    } else if kernel::shell::busybox().is_err() {
        eprintln!("not run: there is no static busybox");
        return None;
    }
    name
}

fn is_6_1(kernel: &str) -> bool {
    kernel.trim_start_matches("kernel:") == "6.1"
}

fn lowmark(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    let tmp = dir.join("tmp");
    fs::create_dir_all(&tmp).unwrap();
    command.args(args).current_dir(dir).env("TMPDIR", tmp);
    command
}

/// Checks that nothing of a guest is left: no folder, and no process that is a child of this one or
/// an orphan.
fn nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let tmp = dir.join("tmp").display().to_string();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let cwd = fs::read_link(process.path().join("cwd"));
        let inside = cwd.is_ok_and(|cwd| cwd.display().to_string().starts_with(&tmp));
        assert!(!inside, "{:?} is left", process.path());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_shell_reads_commands_and_its_time_is_ours() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let args = ["kernel", "shell", &kernel, "--set", "filesystem=xfs"];
    let args = [&args[..], &["--set", "machine.sysctl.swappiness=33"]].concat();
    let mut shell = lowmark(dir.path(), &args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typing = shell.stdin.take().unwrap();
    let began = Instant::now();
    typing
        .write_all(
            b"grep SReclaimable /proc/meminfo; cat /proc/pagetypeinfo; echo $((6 * 7)) here; sleep 2; cat /proc/sys/vm/swappiness; grep /mnt /proc/mounts\n",
        )
        .unwrap();
    drop(typing);
    let said = shell.wait_with_output().unwrap();
    // The guest waits for wall time, so its time does not run ahead.
    assert!(began.elapsed().as_secs() >= 2);
    let said_text = text(&said.stdout);
    assert!(said.status.success(), "{said_text}");
    for line in ["42 here\n", "33\n", "/dev/vda /mnt xfs"] {
        assert!(said_text.contains(line), "{line}: {said_text}");
    }
    // The reclaimable slab memory that `validate` gives the engine equals a guest's.
    let kib = said_text.lines().find_map(|l| {
        let rest = l.strip_prefix("SReclaimable:")?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    });
    let pages = kib.expect("a line of /proc/meminfo") / 4.0;
    let kernel = kernel.trim_start_matches("kernel:");
    let given = lab::validate::guest_reclaimable(kernel);
    assert!((pages / given - 1.0).abs() < 0.1, "{pages}, {given} given");
    // The same for unmovable memory: pageblocks of that kind, less their free pages by order.
    let numbers = |line: &str| -> Vec<f64> {
        let words = line.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let mut lines = said_text.lines();
    let free = lines.find_map(|l| Some(numbers(l.split_once("type    Unmovable")?.1)));
    let free: f64 = (0..)
        .zip(free.expect("free pages by order"))
        .map(|(order, n)| n * 2f64.powi(order))
        .sum();
    let blocks = lines.find_map(|l| Some(numbers(l.strip_prefix("Node 0, zone   Normal")?)));
    let pages = blocks.expect("pageblocks by kind")[0] * 1024.0 - free;
    let given = lab::validate::guest_unmovable(kernel, sim::spec::FsKind::Xfs);
    // A shell's processes, pipes and console have some pages that the programs of a run do not
    // have.
    let shells = 400.0;
    let off = pages - shells - given;
    assert!(
        off.abs() < 0.1 * given,
        "{pages}, {given} given and {shells} a shell's"
    );
    nothing_is_left(dir.path());
}

#[test]
fn a_key_ends_a_shell_and_the_terminal_is_as_it_was() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let modes = || format!("{:?}", tcgetattr(&theirs).unwrap());
    let before = modes();
    let mut shell = lowmark(dir.path(), &["kernel", "shell", &kernel])
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ours = File::from(ours);
    let mut seen = Vec::new();
    // Waits for the prompt; then tries a program that Ctrl-C ends, and the key that kills the
    // guest.
    let mut until = |words: &str, ours: &mut File| {
        let mut bytes = [0; 256];
        while !text(&seen).contains(words) {
            let n = ours.read(&mut bytes).unwrap();
            seen.extend(&bytes[..n]);
        }
        seen.clear();
    };
    until("guest:/mnt#", &mut ours);
    assert_ne!(modes(), before, "every key is handed on");
    ours.write_all(b"sleep 100000\r").unwrap();
    until("100000", &mut ours);
    // A Ctrl-C that arrives before the program runs goes to the shell, which changes the terminal's
    // modes meanwhile.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut typing = ours.try_clone().unwrap();
        let over = &over;
        scope.spawn(move || {
            while !over.load(Relaxed) {
                typing.write_all(b"\x03echo $((40 + 2)) back\r").unwrap();
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        until("42 back", &mut ours);
        over.store(true, Relaxed);
    });
    ours.write_all(b"while :; do :; done\r\x1d").unwrap();
    assert!(shell.wait().unwrap().success());
    assert_eq!(modes(), before);
    nothing_is_left(dir.path());
}

/// Writes an experiment with a user's own program, and the folder that is its root.
fn foreign(dir: &Path, kernel: &str, run: &str) {
    let bin = dir.join("root/bin");
    fs::create_dir_all(&bin).unwrap();
    for name in ["sh", "busybox"] {
        fs::copy(BUSYBOX, bin.join(name)).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let workload = format!("command = {{ run = {run:?}, root = \"root\" }}");
    experiment(dir, kernel, "", &workload);
}

fn experiment(dir: &Path, kernel: &str, policies: &str, workload: &str) {
    let text = format!(
        "name = \"e\"\niterations = 2\npolicy = [\"mine\"]\nfilesystem = \"ext4\"\nworkload = {{ {workload} }}\n\
         [policies.mine]\nkernel = \"{kernel}\"\n{policies}\n[machine]\nname = \"m\"\ncpus = 1\nnode = [{{ zones = \
         [{{ zone = \"Normal\", size = \"128M\" }}] }}]\nboot = {{ kernel = \"24M\", anon = \"4M\", cache = \"4M\" \
         }}\ndisk = {{ kind = \"ssd\", capacity = \"1G\" }}\n"
    );
    fs::write(dir.join("e.toml"), text).unwrap();
}

fn run(dir: &Path, more: &[&str]) -> (Option<i32>, String) {
    let args = [&["run", "e.toml", "--out", "out"], more].concat();
    let output: Output = lowmark(dir, &args).output().unwrap();
    (
        output.status.code(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

#[test]
fn a_program_of_the_users_is_a_workload() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let line =
        "busybox dd if=/dev/zero of=z bs=1M count=64 2>/dev/null && busybox sync && test -s z";
    foreign(dir.path(), &kernel, line);
    let (code, said) = run(dir.path(), &["--check"]);
    assert_eq!(code, Some(0), "{said}");
    let csv = fs::read_to_string(dir.path().join("out/summary.csv")).unwrap();
    assert!(csv.contains("mine") && csv.contains("elapsed"), "{csv}");
    assert!(said.contains("each run twice with equal results"), "{said}");
    nothing_is_left(dir.path());
}

/// A preset beside the kernel: figures that both report are judged, figures that only the kernel
/// reports are misses.
#[test]
fn a_preset_is_held_to_the_kernel() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let line = "command = \"dd if=/dev/zero of=a bs=64k count=3200\"";
    experiment(dir.path(), &kernel, "", line);
    let args = ["validate", "e.toml", "--kernel", &kernel, "--out", "out"];
    let old = ["--preset", "linux-4.9", "--iterations", "2"];
    let args = [&args[..], &old, &["--set", "sample_s=0.1"]].concat();
    let output: Output = lowmark(dir.path(), &args).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("figures inside those of kernel:"), "{said}");
    let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).unwrap();
    let csv = read("validation.csv");
    let standing = |figure: &str| {
        let row = csv.lines().map(|l| l.split(',').collect::<Vec<_>>());
        row.filter(|r| r[3] == figure)
            .map(|r| r[5].to_owned())
            .next()
    };
    // Both write the same bytes, and neither swaps.
    assert_eq!(standing("nr_dirtied").as_deref(), Some("inside"), "{csv}");
    assert_eq!(standing("pswpout").as_deref(), Some("idle"), "{csv}");
    assert_eq!(
        standing("workingset_refault_anon").as_deref(),
        Some("unsupported"),
        "{csv}"
    );
    assert_eq!(
        standing("fsync latency p50").as_deref(),
        Some("untold"),
        "{csv}"
    );
    assert_eq!(read("validation.txt"), said);
    nothing_is_left(dir.path());
}

/// A kernel is charged for copied bytes, not for a page's size: a byte through a packet pipe, two
/// clock readings and three system calls take 1.3 us with 6.12; with two pages' copies they took
/// 3.3. With 6.1 the calls take less than the microsecond at which the kernel's charge is spent, so
/// that half of them end with the 0.26 us of the clock readings, and others pay.
#[test]
fn a_byte_through_a_pipe_costs_no_page() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    experiment(
        dir.path(),
        &kernel,
        "",
        "command = \"burst -n 1 -s 4M -i 1s\"",
    );
    let (code, said) = run(dir.path(), &[]);
    assert_eq!(code, Some(0), "{said}");
    let csv = fs::read_to_string(dir.path().join("out/rows.csv")).unwrap();
    let mean = csv
        .lines()
        .next()
        .unwrap()
        .split(',')
        .position(|name| name == "mean")
        .unwrap();
    let row = csv
        .lines()
        .find(|l| l.contains("burst_alloc_p50"))
        .expect("burst tells");
    let median: f64 = row.split(',').nth(mean).unwrap().parse().unwrap();
    let least = if is_6_1(&kernel) { 0.2 } else { 0.5 };
    assert!((least..2.0).contains(&median), "{row}");
    nothing_is_left(dir.path());
}

/// A guest decompresses a trace with its own decoder (`guest`'s feature `alone`), and replays the
/// same records as from the plain trace.
#[test]
fn a_packed_trace_is_replayed() {
    let Some(kernel) = kernel() else { return };
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/sqlite.strace.zst");
    let packed = fs::read(shipped).unwrap();
    let rows = [
        ("t.strace.zst", packed.clone()),
        ("t.strace", zstd::decode_all(&packed[..]).unwrap()),
    ];
    let rows = rows.map(|(name, bytes)| {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join(name), bytes).unwrap();
        let workload = format!("trace = {name:?}, timing = \"fast\"");
        experiment(dir.path(), &kernel, "", &workload);
        let (code, said) = run(dir.path(), &["--iterations", "1"]);
        assert_eq!(code, Some(0), "{said}");
        nothing_is_left(dir.path());
        fs::read_to_string(dir.path().join("out/rows.csv")).unwrap()
    });
    let bytes = rows.each_ref().map(|rows| {
        let of = |row: &&str| row.contains(",read_bytes,") || row.contains(",write_bytes,");
        rows.lines().filter(of).collect::<Vec<_>>()
    });
    assert_eq!(bytes[0].len(), 2, "{}", rows[0]);
    assert_eq!(bytes[0], bytes[1]);
}

/// A program that computes without end stops the clock: the error names it, and the other cells go
/// on.
#[test]
fn a_guest_that_hangs_is_given_up() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    foreign(dir.path(), &kernel, "while :; do :; done");
    let (code, said) = run(dir.path(), &["--patience", "2"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("2 of 2 iterations failed"), "{said}");
    assert!(said.contains("`sh` computes without end"), "{said}");
    nothing_is_left(dir.path());
}

#[test]
fn a_setting_that_the_kernel_does_not_take_is_told_before_anything_runs() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let refused = |policies: &str, words: &[&str]| {
        experiment(dir.path(), &kernel, policies, "command = \"sleep 1\"");
        let (code, said) = run(dir.path(), &[]);
        assert_eq!(code, Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!dir.path().join("out").exists());
        nothing_is_left(dir.path());
    };
    let sysctl = "sysctl = { swapiness = 5 }";
    refused(
        sysctl,
        &[
            "e.toml:8:12",
            "`vm.swapiness`",
            "did you mean `vm.swappiness`",
        ],
    );
    let sysctl = "sysctl = { swappiness = 500 }";
    refused(
        sysctl,
        &[
            "e.toml:8:12",
            "`vm.swappiness = 500` was refused by the kernel",
        ],
    );
}

/// Counts the records of a log of iterations, including its header.
fn records(log: &Path) -> usize {
    let bytes = fs::read(log).unwrap_or_default();
    let first = bytes.iter().position(|b| *b == b'\n');
    let mut rest = first.map_or(&[][..], |at| &bytes[at + 1..]);
    let mut records = 0;
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let whole = 12 + u32::from_le_bytes(*length) as usize;
        let Some(after) = rest.get(whole..) else {
            break;
        };
        rest = after;
        records += 1;
    }
    records
}

/// Waits for a word in a child's standard error.
fn hear(child: &mut Child, log: &Path, word: &str) {
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        if said.contains(word) {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "{said}");
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_keeps_what_was_finished_and_leaves_nothing_behind() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    // The second program never ends: virtual time goes on.
    let endless = "sleep 80000 & burst -s 1M -n 1000000 -i 50ms -h 10ms";
    let commands = format!("command = [\"sleep 1\", \"{endless}\"]");
    experiment(dir.path(), &kernel, "", &commands);
    let args = ["run", "e.toml", "--out", "out", "--jobs", "1"];
    let log = dir.path().join("log");
    let mut child = lowmark(dir.path(), &args)
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // The first iteration is in the log, and another guest is running.
    let journal = dir.path().join("out.partial/iterations.log");
    let logged = || records(&journal) > 1;
    let guest = || {
        let mut runs = fs::read_dir(dir.path().join("tmp")).unwrap().flatten();
        runs.any(|run| run.path().join("frames").exists())
    };
    while !(logged() && guest()) {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    hear(&mut child, &log, "stopping");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("1 of 4 iterations finished"), "{said}");
    nothing_is_left(dir.path());
}

/// The answer of `tune` is verified in the kernel: settings that already meet the goals, and
/// proposed ones.
#[test]
fn a_proposal_is_tried_in_the_kernel() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new().unwrap();
    let line = "command = \"dd if=/dev/zero of=a bs=64k count=3200\"";
    experiment(dir.path(), &kernel, "", line);
    let there = format!("kernel:{kernel}");
    let tuned = |direct_reclaim: &str, out: &str| {
        let args = ["tune", "e.toml", "--set", "policy=\"linux-6.12\""];
        let few = ["--budget", "3", "--search-seeds", "1", "--seeds", "1"];
        let more = ["--verify-in", &there, "--verify-seeds", "1", "--json"];
        let asked = ["--knobs", "watermarks", "--direct-reclaim", direct_reclaim];
        let args = [&args[..], &few, &more, &asked, &["--out", out]].concat();
        let output: Output = lowmark(dir.path(), &args).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        let read = |name: &str| fs::read_to_string(dir.path().join(out).join(name));
        let json = read("results.json").unwrap_or_else(|e| panic!("{e}: {said}"));
        let verified = serde_json::from_str::<Value>(&json).unwrap()["verified"].clone();
        // Exit code 1 means that the kernel does not confirm the answer; every file states the
        // verdict.
        let holds = verified["holds"].as_bool().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(!holds)), "{said}");
        let verdict = if holds {
            "itself the goals hold"
        } else {
            "itself the goals are missed"
        };
        assert!(read("tune.txt").unwrap().contains(verdict), "{said}");
        (verified, verdict, read("90-lowmark.conf").ok())
    };
    let (verified, verdict, conf) = tuned("100000", "already");
    assert_eq!(verdict, "itself the goals hold");
    assert_eq!(conf, None, "there is nothing to change");
    let own = &verified["own"]["throughput_mb_per_s"];
    assert!(own.as_f64().is_some_and(|rate| rate > 1.0), "{verified}");
    // With the present free memory kswapd falls behind: fewer direct reclaims need other settings.
    let (_, verdict, conf) = tuned("60", "proposed");
    let conf = conf.expect("settings are proposed");
    assert!(conf.contains(verdict), "{conf}");
    nothing_is_left(dir.path());
}
