//! Wrong inputs: all included files, damaged in thousands of ways, given to the program. Each run
//! ends with exit code 2 and one message that says what would be accepted, within a gigabyte of
//! address space; inputs that are still valid are only read.
//!
//! `LOWMARK_WRONG_INPUTS` is the number of wrong inputs (default 200). A failure prints the command
//! and keeps the input.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use trace::damage::damaged;
use trace::random::Rng;

/// Address space that reading an input may take, in kB.
const MOST_KB: u64 = 1 << 20;
/// The time after which the harness gives up on a hanging program; the limit of five seconds is
/// checked by the script.
const PATIENCE: Duration = Duration::from_secs(120);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program below `dir` with a gigabyte of address space.
fn lowmark(dir: &Path, args: &[String]) -> Output {
    let limited = format!("ulimit -v {MOST_KB}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_lowmark")])
        .args(args)
        .current_dir(dir)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(dir.join("stderr")).expect("space"))
        .spawn()
        .expect("a shell");
    let mut waited = Duration::ZERO;
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if waited >= PATIENCE => {
                child.kill().expect("a child");
                panic!("it hangs: {args:?}");
            }
            None => {
                std::thread::sleep(Duration::from_millis(2));
                waited += Duration::from_millis(2);
            }
        }
    };
    Output {
        status,
        stdout: Vec::new(),
        stderr: fs::read(dir.join("stderr")).expect("what it said"),
    }
}

/// Returns true if an input was refused; fails on any answer that is neither success nor a proper
/// refusal.
fn is_wrong(args: &[String], output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let bad = |why: &str| -> ! {
        panic!(
            "{why}: lowmark {args:?}\n{:?}\n{}",
            output.status,
            said.chars().take(4000).collect::<String>()
        )
    };
    if said.contains("panicked") || said.contains("backtrace") {
        bad("a panic");
    }
    match output.status.code() {
        Some(0) => return false,
        Some(2) => {}
        _ => bad("neither right nor wrong"),
    }
    // Exactly one message, with the accepted input (clap has its own words for that).
    let complaints = said.matches("  × ").count() + said.matches("error: ").count();
    if complaints != 1 {
        bad("not one message");
    }
    let words = ["accepted", "possible values", "--help", "USAGE", "help:"];
    if !words.iter().any(|w| said.contains(w)) {
        bad("nothing that would be accepted");
    }
    if said.len() > 12_000 {
        bad("a message that nobody reads");
    }
    true
}

/// A folder that looks like the repository, in which files can be replaced.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["machines", "policies", "data"] {
            let from = repository().join(name).canonicalize().expect("a folder");
            symlink(from, dir.path().join(name)).expect("a link");
        }
        fs::create_dir(dir.path().join("experiments")).expect("a folder");
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn files(dir: &str, end: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![repository().join(dir)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

fn contents(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().map(|f| fs::read(f).expect("a file")).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Makes an experiment around a machine file, policies or a job file.
fn around(machine: &str, workload: &str) -> String {
    format!(
        "name = \"e\"\niterations = 1\npolicy = \"linux-3.1\"\nfilesystem = \"ext4\"\n\
         machine = \"{machine}\"\n[workload]\n{workload}\n"
    )
}

const DD: &str = "command = \"dd if=/dev/zero of=z bs=64k count=1\"";

/// Command lines, which are mostly invalid once damaged.
const LINES: [&str; 14] = [
    "dd if=/dev/zero of=z bs=64k count=1",
    "desktop -p 4M -r 1s -t 5s & dd if=/dev/zero of=c bs=1M count=3; wait",
    "fs_mark -d a -D 100 -N 37 -n 37 -L 2 -S0 -s 1048576",
    "taskset -c 0,1 dd if=r of=/dev/null bs=32k skip=3",
    "numactl --cpunodebind=0 sleep 3",
    "mapped-file-stream 5 134217728",
    "mmap-strm 16M",
    "tiobench --size 16 --threads 2",
    "find . -type f; rm -r a",
    "i=0; while [ $i -lt 3 ]; do dd if=/dev/zero of=f$i bs=4k count=1; i=$((i+1)); done",
    "for i in 1 2 3; do sleep $i & done; wait",
    "simoop -t 10",
    "burst 16M 3",
    "sleep 1 && dd if=a of=b oflag=direct conv=fsync || sleep 2",
];

/// Sets of options, of which one option is damaged.
const OPTIONS: [&str; 15] = [
    "run experiments/e.toml --list --iterations 3 --seed 4 --jobs 2",
    "run experiments/e.toml --list --set machine.cpus=2 --set policy=vanilla",
    "run experiments/e.toml --list --set machine.disk.params.nvme_queue_depth=[1,32]",
    "run experiments/e.toml --list --set params.xfs_ags=16 --set sample_s=0.5",
    "run --list --trace data/traces/sqlite.strace.zst --machine machines/512M.toml --policy linux-3.1",
    "mrc --trace t.csv --sizes 10..100:5 --policy lru,sieve --writes --dirty-limit 20",
    "mrc --trace t.csv --sizes 1,2,3 --policy all --jobs 2 --write-rate 50",
    "mrc --trace data/traces/sqlite.strace.zst --sizes 100,1000 --policy lru,fifo --sample rate=0.5",
    "trace info t.csv --format csv --unit page",
    "trace generate zipf --objects 10 --requests 100 --skew 0.9 --out g.csv --writes 0.3",
    "explain throttled",
    "machine --root . --verify --name x",
    "policies --json",
    "params --json",
    "schema",
];

struct Generator {
    rng: Rng,
    experiments: Vec<PathBuf>,
    machines: Vec<PathBuf>,
    policies: Vec<PathBuf>,
    jobs: Vec<Vec<u8>>,
    traces: Vec<(String, Vec<u8>)>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let golden = repository().join("crates/trace/tests/golden");
        let traces = fs::read_dir(golden).expect("samples").map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read(&path).unwrap_or_default())
        });
        let mut traces: Vec<_> = traces.filter(|t| !t.1.is_empty()).collect();
        traces.sort();
        Self {
            rng: Rng::new(seed),
            experiments: files("experiments", ".toml"),
            machines: files("machines", ".toml"),
            policies: files("policies", ".toml"),
            jobs: contents(&files("experiments", ".fio")),
            traces,
        }
    }

    fn pick(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn damaged(&mut self, sample: &[u8]) -> Vec<u8> {
        damaged(&[sample.to_vec()], &mut self.rng)
    }

    /// Writes a damaged input into a folder, and returns the arguments with which to read it.
    fn next(&mut self, at: &Place) -> Vec<String> {
        let put = |file: &str, bytes: &[u8]| {
            let path = at.path().join(file);
            let _ = fs::remove_file(&path);
            fs::write(path, bytes).expect("space");
        };
        let list = "run experiments/e.toml --list";
        match self.pick(8) {
            0 | 1 => {
                let nth = self.pick(self.experiments.len());
                let text = fs::read(&self.experiments[nth]).expect("a file");
                put("experiments/e.toml", &self.damaged(&text));
                words(list)
            }
            2 => {
                let nth = self.pick(self.machines.len());
                let text = fs::read(&self.machines[nth]).expect("a file");
                put("experiments/m.toml", &self.damaged(&text));
                put("experiments/e.toml", around("m.toml", DD).as_bytes());
                words(list)
            }
            3 => {
                let nth = self.pick(self.policies.len());
                let text = fs::read(&self.policies[nth]).expect("a file");
                put("experiments/p.toml", &self.damaged(&text));
                let text = around("machines/512M.toml", DD);
                put(
                    "experiments/e.toml",
                    format!("policies = \"p.toml\"\n{text}").as_bytes(),
                );
                words(list)
            }
            4 => {
                let nth = self.pick(LINES.len());
                let line = self.damaged(LINES[nth].as_bytes());
                let line = String::from_utf8_lossy(&line).replace(['\'', '\0'], "");
                let workload = format!("command = '''{line}'''");
                let text = around("machines/4096M8N.toml", &workload);
                put("experiments/e.toml", text.as_bytes());
                words(list)
            }
            5 => {
                let nth = self.pick(self.jobs.len());
                let job = self.jobs[nth].clone();
                put("experiments/j.fio", &self.damaged(&job));
                let text = around("machines/3765M.toml", "fio = \"j.fio\"");
                put("experiments/e.toml", text.as_bytes());
                words(list)
            }
            6 => {
                let nth = self.pick(self.traces.len());
                let (name, bytes) = self.traces[nth].clone();
                let name = format!("t-{name}");
                put(&name, &self.damaged(&bytes));
                words(&format!("trace info {name}"))
            }
            _ => {
                put(
                    "experiments/e.toml",
                    around("machines/512M.toml", DD).as_bytes(),
                );
                put("t.csv", b"time,obj_id,obj_size\n1,1,4096\n2,2,4096\n");
                let nth = self.pick(OPTIONS.len());
                let mut args = words(OPTIONS[nth]);
                // Words that would start a run are not damaged: `--list`, the command and its file.
                let from = if args[0] == "run" { 3 } else { 1 }.min(args.len() - 1);
                let which = from + self.pick(args.len() - from);
                let arg = self.damaged(args[which].as_bytes());
                args[which] = String::from_utf8_lossy(&arg).replace('\0', "0");
                args
            }
        }
    }
}

#[test]
fn wrong_inputs_get_one_message() {
    let wanted = std::env::var("LOWMARK_WRONG_INPUTS").ok();
    let wanted: u64 = wanted.map_or(200, |n| n.parse().expect("a number"));
    let seed = std::env::var("LOWMARK_SEED").ok();
    let mut generator = Generator::new(seed.map_or(1, |n| n.parse().expect("a number")));
    let (mut wrong, mut right) = (0, 0);
    while wrong < wanted {
        let place = Place::new();
        let args = generator.next(&place);
        let output = lowmark(place.path(), &args);
        let judged = std::panic::catch_unwind(|| is_wrong(&args, &output));
        match judged {
            Ok(true) => wrong += 1,
            Ok(false) => right += 1,
            Err(e) => {
                eprintln!("the input is kept in {}", place.dir.keep().display());
                std::panic::resume_unwind(e);
            }
        }
        // Most damage is a mistake.
        assert!(right < 3 * wanted + 100, "{right} right, {wrong} wrong");
    }
}

/// Runs the program on one experiment.
fn one(text: &str) -> (Output, Vec<String>) {
    let place = Place::new();
    fs::write(place.path().join("experiments/e.toml"), text).expect("space");
    let args = words("run experiments/e.toml --list");
    (lowmark(place.path(), &args), args)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Cases that were found by hand.
#[test]
fn inputs_that_took_memory_time_or_the_program() {
    let long = "x".repeat(900_000);
    let chain: String = (0..900)
        .map(|i| format!("[policies.p{i}]\nbase = \"p{}\"\n", i + 1))
        .collect();
    let with = |above: &str| {
        let text = around("machines/512M.toml", DD);
        format!("{above}\n{text}")
    };
    let many = |n: u32, text: &dyn Fn(u32) -> String| {
        let all: Vec<String> = (0..n).map(text).collect();
        all.join(", ")
    };
    let keys = many(80_000, &|i| format!("k{i} = 1"));
    let names = many(80_000, &|i| format!("\"q{i}\""));
    let above = around("", "");
    let above = above
        .split("machine")
        .next()
        .expect("lines above the machine");
    for (text, part) in [
        (with("sample_s = 1e-9"), "samples"),
        (with("sample_s = 1e-10"), "samples"),
        (with("time_limit_s = 1e-12"), "time_limit_s"),
        (with(&format!("seed = \"{long}\"")), "seed"),
        (with(&format!("{long} = 1")), "unknown key"),
        (with(&format!("compare = [\"{long}\"]")), "compare"),
        (around(&long, DD), "machine"),
        (
            format!(
                "name = \"{long}\"\n{}",
                around("machines/512M.toml", DD)
                    .split_once('\n')
                    .expect("lines")
                    .1
            ),
            "name",
        ),
        (
            format!(
                "{}{chain}",
                around("machines/512M.toml", DD).replace("linux-3.1", "p0")
            ),
            "as bases",
        ),
        (
            format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000)),
            "e.toml",
        ),
        (format!("{}a = 1", "a.".repeat(100_000)), "e.toml"),
        (
            format!(
                "{above}machine = {{ base = \"machines/512M.toml\", {keys} }}\n[workload]\n{DD}\n"
            ),
            "unknown key",
        ),
        (
            around("machines/512M.toml", DD).replace("\"linux-3.1\"", &format!("[{names}]")),
            "unknown policy",
        ),
        (
            format!(
                "policies = {{ {} }}\n{}",
                many(1001, &|i| format!("p{i} = {{ base = \"linux-3.0\" }}")),
                around("machines/512M.toml", DD)
            ),
            "1001 policies",
        ),
        (format!("#{}", "y".repeat(2 << 20)), "longer than 1 MiB"),
        (
            around(
                "machines/512M.toml",
                &format!("command = \"{} dd\"", " ".repeat(70_000)),
            ),
            "e.toml:7:",
        ),
    ] {
        let (output, args) = one(&text);
        let head: String = text.chars().take(60).collect();
        assert!(is_wrong(&args, &output), "{head}: it was accepted");
        assert!(said(&output).contains(part), "{head}: {}", said(&output));
    }
}

/// A named pipe may have no writer, a device no end: both are refused at once, in every place where
/// a command takes an input.
#[test]
fn what_has_no_end_is_no_input() {
    let place = Place::new();
    let dir = place.path();
    let fifo = dir.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    fs::create_dir(dir.join("results")).expect("a folder");
    symlink(&fifo, dir.join("results/results.json")).expect("a link");
    let with = |name: &str, text: &str| fs::write(dir.join(name), text).expect("space");
    with("experiments/machine.toml", &around("endless", DD));
    with(
        "experiments/jobs.toml",
        &around("machines/512M.toml", "fio = \"endless\""),
    );
    with(
        "experiments/trace.toml",
        &around("machines/512M.toml", "trace = \"endless\""),
    );
    for end in [fifo.as_path(), Path::new("/dev/zero")] {
        for name in ["endless", "endless.toml"] {
            let link = dir.join(name);
            let _ = fs::remove_file(&link);
            symlink(end, &link).expect("a link");
        }
        for command in [
            "run endless --list",
            "run experiments/machine.toml --list",
            "run experiments/jobs.toml --list",
            "run experiments/trace.toml --out o",
            "run --trace endless --machine 512M --out o",
            "run --fio endless --machine 512M --out o",
            "validate endless",
            "tune endless --max-free 5M",
            "attribute endless.toml",
            "compare endless endless",
            "compare results results",
            "export results --jsonl o",
            "report endless",
            "report --vmstat endless endless",
            "mrc --trace endless --sizes 10",
            "trace info endless",
            "trace vmscan endless",
            "top --once endless",
            "top --once --guest endless",
        ] {
            let args = words(command);
            let output = lowmark(dir, &args);
            let text = said(&output);
            assert!(is_wrong(&args, &output), "{command}: it was accepted");
            let why = ["a named pipe", "a device"]
                .iter()
                .any(|w| text.contains(w));
            assert!(why, "{command}: {text}");
        }
    }
}

/// A named pipe that no program reads is no output, since a writer would wait for the reader.
#[test]
fn a_pipe_without_a_reader_is_no_output() {
    let place = Place::new();
    let dir = place.path();
    let fifo = dir.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    for command in [
        "new fifo",
        "machine --out fifo",
        "trace generate zipf --objects 10 --requests 100 --out fifo --replace",
    ] {
        let args = words(command);
        let output = lowmark(dir, &args);
        assert!(is_wrong(&args, &output), "{command}: it was accepted");
        let text = said(&output);
        assert!(text.contains("`fifo`: it is a named pipe"), "{text}");
    }
    // Opened for both, so that no side waits; the text fits the pipe.
    let reader = fs::File::options().read(true).write(true).open(&fifo);
    let mut reader = reader.expect("a pipe");
    let output = lowmark(dir, &words("new fifo"));
    assert!(output.status.success(), "{}", said(&output));
    let mut start = [0; 1];
    std::io::Read::read_exact(&mut reader, &mut start).expect("the experiment");
}

/// A pipe in the place of a run's log is no log: the other folders are listed, and nothing waits.
#[test]
fn a_pipe_is_no_log() {
    let place = Place::new();
    let dir = place.path();
    fs::create_dir_all(dir.join("all/q.partial")).expect("a folder");
    let made = Command::new("mkfifo")
        .arg(dir.join("all/q.partial/iterations.log"))
        .status();
    assert!(made.expect("mkfifo").success());
    let output = lowmark(dir, &words("results all"));
    assert!(output.status.success(), "{}", said(&output));
    let experiment = around("machines/512M.toml", DD);
    fs::write(dir.join("experiments/e.toml"), experiment).expect("space");
    for command in [
        "run --resume all/q",
        "run experiments/e.toml --resume all/q",
        "run experiments/e.toml --out all/q --replace",
    ] {
        let args = words(command);
        let output = lowmark(dir, &args);
        assert!(is_wrong(&args, &output), "{command}: it was accepted");
    }
}

/// An error names the file, and says that a folder is one.
#[test]
fn a_folder_is_no_file_and_frames_are_named() {
    let place = Place::new();
    let dir = place.path();
    fs::create_dir(dir.join("folder")).expect("a folder");
    let with = |name: &str, text: &str| fs::write(dir.join(name), text).expect("space");
    with("junk", &"\0".repeat(64));
    with("experiments/machine.toml", &around("folder", DD));
    for (name, workload) in [("fio", "fio = \"folder\""), ("trace", "trace = \"folder\"")] {
        let text = around("machines/512M.toml", workload);
        with(&format!("experiments/{name}.toml"), &text);
    }
    let sysctl = format!("sysctl = \"folder\"\n{}", around("machines/512M.toml", DD));
    with("experiments/sysctl.toml", &sysctl);
    for (command, part) in [
        (
            "run experiments/machine.toml --list",
            "folder`: it is a folder",
        ),
        ("run experiments/fio.toml --list", "folder`: it is a folder"),
        (
            "run experiments/trace.toml --list",
            "folder`: it is a folder",
        ),
        (
            "run experiments/sysctl.toml --list",
            "folder`: it is a folder",
        ),
        (
            "run --trace folder --machine 512M --list",
            "folder`: it is a folder",
        ),
        (
            "top --once --guest folder",
            "can't read folder: it is a folder",
        ),
        (
            "top --once --guest junk",
            "can't read junk as a guest's frames",
        ),
    ] {
        let args = words(command);
        let output = lowmark(dir, &args);
        assert!(is_wrong(&args, &output), "{command}: it was accepted");
        assert!(said(&output).contains(part), "{command}: {}", said(&output));
    }
}

/// On a terminal, errors are coloured, and names in them set no colours of their own.
#[test]
fn names_color_nothing_on_a_terminal() {
    let place = Place::new();
    let dir = place.path();
    let experiment = around("machines/512M.toml", DD);
    fs::write(dir.join("experiments/e.toml"), experiment).expect("space");
    let name = "\u{1b}[8;31mX\u{202e}Y";
    for command in [
        "explain @",
        "mrc --trace @ --sizes 10",
        "export @ --jsonl o",
        "compare @ @",
        "run @",
        "run experiments/e.toml --list --set @=1",
        "run experiments/e.toml --out @/x/../..",
        "kernel build @",
        "kernel remove @",
        "reproduce @",
        "tune @ --max-free 5M",
        "machine --out @/x",
        "new @/x",
        "top --once @",
        "top --once --guest @",
        "trace generate zipf --out @/x",
        "trace info @",
        "@",
        "run --@",
        "schema @",
        "completions @",
        "params @",
        "policies @",
    ] {
        let line = format!("\"$LOWMARK\" {}", command.replace('@', "\"$NAME\""));
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(dir)
            .env("LOWMARK", env!("CARGO_BIN_EXE_lowmark"))
            .env("NAME", name)
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .output()
            .expect("script of util-linux");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        let raw = text.contains("[8;31m") && text.contains("\u{1b}[8;31m");
        assert!(!raw && !text.contains('\u{202e}'), "{command}: {text:?}");
        let flat: String = text.split_whitespace().collect();
        assert!(flat.contains("u001b[8;31mX"), "{command}: {text:?}");
    }
}

/// Every name of a file can be given.
#[test]
fn a_trace_may_have_any_name() {
    let place = Place::new();
    for name in ["a\u{7f}b.csv", "a\u{1b}b.csv", "a\nb.csv", "a'\"\\b.csv"] {
        let text = "time,obj_id,obj_size\n1,1,4096\n2,2,4096\n";
        fs::write(place.path().join(name), text).expect("space");
        let mut args = words("run --list --machine machines/512M.toml --policy linux-3.1 --trace");
        args.push(name.to_owned());
        let output = lowmark(place.path(), &args);
        assert!(output.status.success(), "{name:?}: {}", said(&output));
    }
}

/// Control characters in names from others move no cursor and hide no line.
#[test]
fn control_characters_are_written_out() {
    let place = Place::new();
    let odd = "x\u{1b}[2J\u{7}\u{202e}";
    let path = format!("experiments/{odd}.toml");
    for (text, shown) in [
        (String::new(), "\\u001b[2J\\u0007\\u202e.toml"),
        (format!("{odd} = 1\n"), "x?[2J?\u{fffd}"),
        (
            around("machines/512M.toml", DD).replace("linux-3.1", "x\\u001b[2J"),
            "unknown policy `x\\u001b[2J`",
        ),
        (
            around("machines/512M.toml", "command = \"x\\u001b[2J\\u009b1A\""),
            "x\\u001b[2J\\u009b1A",
        ),
    ] {
        fs::write(place.path().join(&path), &text).expect("space");
        let args = ["run".to_owned(), path.clone(), "--list".to_owned()];
        let output = lowmark(place.path(), &args);
        assert!(is_wrong(&args, &output), "{text:?}: it was accepted");
        let said = String::from_utf8_lossy(&output.stderr);
        let raw = |c: char| lab::diagnostic::is_obeyed(c) && c != '\n';
        assert!(!said.contains(raw), "{said:?}");
        assert!(said.contains(shown), "{said}");
    }
    let args = ["run".to_owned(), format!("--{odd}")];
    let output = lowmark(place.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains(|c: char| lab::diagnostic::is_obeyed(c) && c != '\n'),
        "{said:?}"
    );
    assert!(said.contains("\\u001b[2J\\u0007\\u202e"), "{said}");
}
