//! `record`, `report` and `learn`. Tests that need root print a note and pass without it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn command(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
    command.current_dir(dir).args(args.split(' '));
    command
}

fn lowmark(dir: &Path, args: &str) -> Output {
    command(dir, args).output().expect("the program")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn good(dir: &Path, args: &str) -> String {
    let output = lowmark(dir, args);
    assert!(output.status.success(), "{args}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn wrong(dir: &Path, args: &str, told: &str) {
    let output = lowmark(dir, args);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{args}: {said}");
    assert!(said.contains(told), "{args}: {said}");
}

/// Waits until `there` returns true.
fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Returns the undo log of a process.
fn written_down(pid: u32) -> PathBuf {
    PathBuf::from(format!("/run/lowmark/lowmark-{pid}-0.undo"))
}

/// Returns true if events can be recorded here.
fn may_trace(dir: &Path) -> bool {
    let output = lowmark(dir, "record --duration 100ms --out may --quiet");
    assert!(output.status.success(), "{}", said(&output));
    let rows = fs::read_to_string(dir.join("may/rows.json")).expect("written");
    let told = !rows.contains("the real kernel's trace events were not recorded");
    if !told {
        eprintln!("no tracepoints here: not tried");
    }
    told
}

#[test]
fn a_command_is_recorded_and_reported_with_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let rows = good(
        dir,
        "record --interval 100ms --no-events --name first --out a -- sh -c exit",
    );
    assert!(rows.contains("Page Outs [kB]"), "{rows}");
    assert!(rows.contains("tracepoints are not recorded"), "{rows}");
    good(
        dir,
        "record --interval 100ms --no-events --name second --out b --quiet --duration 350ms",
    );
    for file in [
        "results.json",
        "summary.csv",
        "report.html",
        "rows.txt",
        "recording.z",
    ] {
        assert!(dir.join("a").join(file).exists(), "{file}");
    }
    assert_eq!(
        good(dir, "report a"),
        rows,
        "the same again, from the folder"
    );
    let both: Value = serde_json::from_str(&good(dir, "report a b --json")).expect("JSON");
    let text = both.to_string();
    assert!(text.contains("first") && text.contains("second"), "{text}");
    // Elapsed time is that of the command, and CPU time only its own.
    let elapsed = row(&both, "duration: Total Elapsed Time (seconds)");
    assert!(elapsed[0] < elapsed[1] && elapsed[1] >= 0.35, "{elapsed:?}");
    assert_eq!(row(&both, "duration: User Time (seconds)").len(), 1);
    wrong(
        dir,
        "record --duration 1s --disk nothing --out c",
        "no disk",
    );
    wrong(dir, "record --out c -- /no/such/program", "can't be run");
    wrong(dir, "report nowhere", "nowhere");
    assert!(!dir.join("c").exists());
    let failed = lowmark(dir, "record --no-events --out d --quiet -- false");
    assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
    assert!(dir.join("d/results.json").exists());
}

/// Returns the values of a row, one for each policy that has one.
fn row(rows: &Value, name: &str) -> Vec<f64> {
    let found = find(rows, name).unwrap_or_else(|| panic!("no {name}"));
    let cells = found["cells"].as_array().expect("cells");
    cells.iter().filter_map(|c| c["mean"].as_f64()).collect()
}

fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(o) if o.get("name").and_then(Value::as_str) == Some(name) => Some(value),
        Value::Object(o) => o.values().find_map(|v| find(v, name)),
        Value::Array(a) => a.iter().find_map(|v| find(v, name)),
        _ => None,
    }
}

#[test]
fn an_interrupt_keeps_what_was_recorded_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let traced = may_trace(dir);
    let mut child = command(
        dir,
        "record --duration 60s --interval 100ms --out a --quiet",
    )
    .stderr(Stdio::null())
    .spawn()
    .expect("the program");
    let undo = written_down(child.id());
    match traced {
        true => wait_for("an instance", || undo.exists()),
        false => sleep(Duration::from_millis(500)),
    }
    sleep(Duration::from_millis(500));
    send(&child, Signal::INT);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(dir.join("a/results.json").exists() && !undo.exists());
    let notes = fs::read_to_string(dir.join("a/explained.txt")).expect("written");
    assert!(notes.contains("interrupted"), "{notes}");
}

/// Returns the children of a process.
fn children(pid: u32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(path).into_iter().flatten().flatten();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let all: String = tasks.filter_map(of).collect();
    all.split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

#[test]
fn what_a_kill_leaves_is_removed_at_once_or_by_the_next_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    if !may_trace(dir) {
        return;
    }
    for guard_too in [false, true] {
        let mut child = command(dir, "record --duration 60s --out a --replace --quiet")
            .spawn()
            .expect("the program");
        let undo = written_down(child.id());
        wait_for("an instance", || {
            fs::read_to_string(&undo).is_ok_and(|t| t.starts_with("instance"))
        });
        sleep(Duration::from_millis(200));
        let guards = children(child.id());
        if guard_too {
            // Kill the guards first, so that they can't undo anything.
            for pid in guards {
                let pid = Pid::from_raw(pid).expect("a process");
                kill_process(pid, Signal::KILL).expect("it runs");
            }
        }
        send(&child, Signal::KILL);
        child.wait().expect("it ends");
        if guard_too {
            assert!(undo.exists(), "nobody has undone it");
            let output = lowmark(dir, "record --duration 100ms --no-events --quiet --out b");
            assert!(
                said(&output).contains("removed the instance"),
                "{}",
                said(&output)
            );
            assert!(!undo.exists());
        } else {
            wait_for("the guard undoes it", || !undo.exists());
        }
    }
}

#[test]
fn figures_of_another_machine_make_the_same_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let vmstat = |name: &str, scanned: u32, stalls: u32| {
        let text = format!(
            "nr_free_pages 1000\npgpgin 0\npgscan_kswapd {scanned}\npgscan_direct {stalls}\n\
             pgsteal_kswapd {scanned}\npgsteal_direct {stalls}\nallocstall_normal {stalls}\npgfault 5\n"
        );
        fs::write(dir.join(name), text).expect("space");
    };
    vmstat("a", 100, 0);
    vmstat("b", 300, 1);
    let trace = "# tracer: nop\n\
        kswapd0-40 [000] ..... 1.000000: mm_vmscan_kswapd_wake: nid=0 order=0\n\
        kswapd0-40 [000] ..... 1.100000: mm_vmscan_lru_isolate: classzone=0 order=0 nr_requested=32 nr_scanned=200 \
        nr_skipped=0 nr_taken=32 lru=inactive_file\n\
        dd-7 [001] ..... 1.200000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=X\n\
        dd-7 [001] ..... 1.250000: mm_vmscan_direct_reclaim_end: nr_reclaimed=1\n";
    fs::write(dir.join("t"), trace).expect("space");
    let json = good(
        dir,
        "report --vmstat a b --ftrace t --elapsed 4 --name old --json",
    );
    let rows: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(row(&rows, "vmstat: Kswapd pages scanned"), [200.0]);
    assert_eq!(row(&rows, "vmstat: Kswapd velocity"), [50.0]);
    assert_eq!(row(&rows, "ftrace vmscan: Direct reclaims"), [1.0]);
    let stalled = row(
        &rows,
        "ftrace vmscan: Time stalled direct reclaim (seconds)",
    );
    assert_eq!(stalled, [0.05]);
    // This kernel does not count swapping here, and waits for congestion were not recorded.
    for name in [
        "vmstat: Swap Outs",
        "ftrace congestion: Direct number congest waited",
    ] {
        let cell = &find(&rows, name).expect("a row")["cells"][0];
        assert!(
            cell["mean"].is_null() && cell["unsupported"].is_string(),
            "{cell}"
        );
    }
    let text = good(dir, "report --vmstat a b");
    assert!(
        text.contains("--elapsed") && text.contains("Direct pages scanned 1 pages"),
        "{text}"
    );
    wrong(
        dir,
        "report --vmstat b a",
        "accepted: first the earlier snapshot",
    );
    wrong(dir, "report --vmstat t a", "not the text of /proc/vmstat");
    wrong(dir, "report --vmstat a b --ftrace a", "no event of a trace");
    wrong(dir, "report --vmstat a b --experiment e.toml", "--machine");
}

/// The engine's figures for the same workload are shown beside the measured ones.
#[test]
fn a_prediction_stands_beside_what_was_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../machine/tests/captures/small-vm"
    );
    good(
        dir,
        &format!("machine --root {capture} --name small --out m.toml"),
    );
    let experiment = "name = 'e'\npolicy = 'linux-3.0'\nfilesystem = ['ext4', 'xfs']\nmachine = 'm.toml'\n\
        [workload]\ncommand = 'dd if=/dev/zero of=x bs=1M count=64'\n";
    fs::write(dir.join("e.toml"), experiment).expect("space");
    let text = "nr_free_pages 1\npgpgin 0\npgpgout 0\n";
    fs::write(dir.join("a"), text).expect("space");
    fs::write(dir.join("b"), text.replace("pgpgout 0", "pgpgout 512")).expect("space");
    let args = "report --vmstat a b --machine m.toml --experiment e.toml";
    wrong(dir, args, "has 2 cells here");
    let json = good(dir, &format!("{args} --set filesystem=xfs --json"));
    let rows: Value = serde_json::from_str(&json).expect("JSON");
    let cells = find(&rows, "vmstat: Page Outs").expect("a row")["cells"].clone();
    assert_eq!(cells[0]["policy"], "measured");
    assert_eq!(cells[0]["mean"], 512.0);
    assert_eq!(cells[1]["policy"], "linux-4.9");
    assert!(cells[1]["mean"].as_f64() >= Some(0.0));
}

/// A machine made of files, with the counters that `learn` needs.
struct Machine {
    dir: tempfile::TempDir,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("space");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("space")),
        }
    }
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            dir: tempfile::tempdir().expect("a folder"),
        };
        let capture = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../machine/tests/captures/small-vm"
        );
        copy(Path::new(capture), machine.dir.path());
        machine.stalls(0);
        machine
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join("proc").join(file)
    }

    /// Sets the number of direct reclaims since boot. The file is replaced as a whole, as the
    /// kernel's changes at once.
    fn stalls(&self, n: u64) {
        let text = fs::read_to_string(self.path("vmstat")).expect("a file");
        let kept = text.lines().filter(|l| !l.starts_with("allocstall"));
        let kept: String = kept.map(|l| format!("{l}\n")).collect();
        let more = match text.contains("pageoutrun") {
            true => "",
            false => "pageoutrun 0\npgscan_kswapd 0\npgsteal_kswapd 0\n",
        };
        let new = self.path("vmstat.new");
        fs::write(&new, format!("{kept}{more}allocstall_normal {n}\n")).expect("space");
        fs::rename(new, self.path("vmstat")).expect("space");
    }

    fn factor(&self) -> u64 {
        let text = fs::read_to_string(self.path("sys/vm/watermark_scale_factor"));
        // The file may be being written.
        text.expect("a file").trim().parse().unwrap_or(0)
    }

    fn learn(&self, more: &str) -> Command {
        let root = self.dir.path().display();
        command(
            self.dir.path(),
            &format!("learn --root {root} --interval 100ms {more}"),
        )
    }

    fn left(&self) -> usize {
        fs::read_dir(self.dir.path().join("run/lowmark")).map_or(0, Iterator::count)
    }
}

#[test]
fn without_apply_it_only_says_what_it_would_set() {
    let machine = Machine::new();
    let before = machine.factor();
    let child = machine
        .learn("--duration 2s --json")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    for n in 1..8 {
        sleep(Duration::from_millis(150));
        machine.stalls(n);
        assert_eq!(machine.factor(), before);
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["applied"], false);
    let learned = told["learned"]["watermark_scale_factor"].as_u64();
    assert!(learned > Some(before), "{told}");
    assert!(
        told["periods"][1]["cause"]
            .to_string()
            .contains("direct reclaim"),
        "{told}"
    );
    assert_eq!(machine.left(), 0);
}

#[test]
fn with_apply_it_sets_and_sets_back_at_the_end_and_after_a_kill() {
    for signal in [None, Some(Signal::INT), Some(Signal::KILL)] {
        let machine = Machine::new();
        let before = machine.factor();
        let time = if signal.is_none() { "2s" } else { "60s" };
        let mut child = machine
            .learn(&format!("--duration {time} --apply"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program");
        wait_for("it looks", || machine.left() > 0);
        sleep(Duration::from_millis(300));
        machine.stalls(3);
        wait_for("it raises", || machine.factor() > before);
        if let Some(signal) = signal {
            send(&child, signal);
        }
        child.wait().expect("it ends");
        wait_for("it is set back", || {
            machine.factor() == before && machine.left() == 0
        });
    }
}

#[test]
fn it_steps_aside_when_somebody_else_writes_the_setting() {
    let machine = Machine::new();
    let before = machine.factor();
    let child = machine
        .learn("--duration 60s --apply")
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    wait_for("it looks", || machine.left() > 0);
    sleep(Duration::from_millis(300));
    machine.stalls(3);
    wait_for("it raises", || machine.factor() > before);
    fs::write(machine.path("sys/vm/watermark_scale_factor"), "77\n").expect("space");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(said(&output).contains("tuning stops"), "{}", said(&output));
    assert_eq!((machine.factor(), machine.left()), (77, 0), "theirs stays");
}

#[test]
fn what_can_not_be_learned_from_is_wrong_input() {
    let machine = Machine::new();
    let text = fs::read_to_string(machine.path("vmstat")).expect("a file");
    let without = text.replace("allocstall", "somethingelse");
    fs::write(machine.path("vmstat"), without).expect("space");
    let output = machine
        .learn("--duration 1s")
        .output()
        .expect("the program");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("has no allocstall"),
        "{}",
        said(&output)
    );
    wrong(
        machine.dir.path(),
        "learn --duration 1s --root nowhere",
        "nowhere",
    );
    wrong(machine.dir.path(), "learn --duration 1", "accepted: a time");
}
