//! Boots built kernels and checks what guests rely on. Every kernel of the user's cache is tried
//! (CI builds one first); without any the test prints a note and passes.

use kernel::build::{self, Built};
use kernel::initramfs::Initramfs;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The signal with which a kernel ends that aborts.
const SIGABRT: i32 = 6;

/// Compiles the test's statically linked first program; `None` where there is no compiler.
fn init(dir: &Path) -> Option<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boot/init.c");
    let program = dir.join("init");
    let status = Command::new("gcc")
        .args(["-Wall", "-Werror", "-O2", "-static", "-o"])
        .args([&program, &source])
        .status()
        .ok()?;
    assert!(status.success(), "init.c");
    Some(fs::read(program).unwrap())
}

/// Boots a guest with this seed, in the mode in which computation takes no time, and returns its
/// output.
fn boot(kernel: &Built, init: &[u8], seed: u64) -> String {
    let dir = TempDir::new().unwrap();
    let initrd = dir.path().join("initrd");
    let archive = Initramfs::new(init)
        .file("/job.json", b"{}", false)
        .unwrap();
    fs::write(&initrd, archive.archive().unwrap()).unwrap();
    // A guest that hangs is the kernel's fault, and fails the test.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", "setarch", "-R"])
        .arg(&kernel.linux)
        .args([
            "mem=64M",
            "con=null",
            // No input: this mode leaves it to the host when the end of input is noticed, and that
            // would affect random numbers.
            "con0=null,fd:1",
            "init=/init",
            "quiet",
            "panic=1",
        ])
        .args([
            "time-travel=inf-cpu",
            "time-travel-start=1600000000000000000",
        ])
        // The command line seeds the kernel's random numbers, so no path of this folder may be in
        // it.
        .args(["uml_dir=.", "initrd=initrd"])
        .current_dir(dir.path())
        .env("TMPDIR", dir.path())
        .env("LD_PRELOAD", &kernel.preload)
        .env("LOWMARK_SEED", seed.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    // Between the guest's halt and the end of its process the host's timer may still interrupt a
    // kernel that has shut down (see `main` in arch/um/os-Linux/main.c): one process in some
    // hundred ends by SIGABRT there, when nothing is left to test. Only this mode has that timer.
    let halted = said.trim_end().ends_with("reboot: System halted");
    assert!(
        output.status.success() || halted && output.status.signal() == Some(SIGABRT),
        "kernel:{}: {:?}\n{said}",
        kernel.name,
        output.status,
    );
    said
}

#[test]
fn kernels_have_what_guests_rely_on() {
    let listed = build::list().unwrap_or_default();
    let kernels: Vec<Built> = listed
        .iter()
        .filter_map(|l| build::find(&l.name).ok())
        .collect();
    let dir = TempDir::new().unwrap();
    let Some(init) = init(dir.path()).filter(|_| !kernels.is_empty()) else {
        eprintln!("skipped: no kernel of this version is built, or there is no gcc");
        return;
    };
    for kernel in &kernels {
        let said = boot(kernel, &init, 1);
        let name = &kernel.name;
        assert!(
            said.contains(&format!("release {}\n", kernel.release)),
            "{name}: {said}"
        );
        let missing: Vec<&str> = said.lines().filter(|l| l.starts_with("missing ")).collect();
        let known = |symbol: &str| !kernel.record.unknown.iter().any(|u| u == symbol);
        if known("LRU_GEN") {
            assert_eq!(missing, [""; 0], "{name}");
        }
        for filesystem in ["ext3", "ext4", "xfs", "btrfs", "tmpfs"] {
            let line = |l: &str| {
                l.starts_with("/proc/filesystems") && l.ends_with(&format!("\t{filesystem}"))
            };
            assert!(said.lines().any(line), "{name}: no {filesystem}");
        }
        let controllers = said
            .lines()
            .find(|l| l.contains("cgroup.controllers"))
            .unwrap_or_default();
        for controller in ["memory", "io", "cpu", "pids"] {
            assert!(controllers.contains(controller), "{name}: {controllers}");
        }
        assert!(said.contains("\nrandom "), "{name}: {said}");
        // In this mode the host decides when interrupts arrive, and 6.1 mixes that into its random
        // numbers. In the guests' own mode a seed determines a run to the byte (`a_seed_is_a_run`).
        let but_random = |said: &str| {
            let lines = said.lines().filter(|l| !l.starts_with("random "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            but_random(&boot(kernel, &init, 1)),
            but_random(&said),
            "{name}: the same seed"
        );
        assert_ne!(boot(kernel, &init, 2), said, "{name}: another seed");
    }
}
