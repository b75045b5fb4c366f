//! `top`: its output for scripts, and its use of a terminal.

mod common;

use common::{good, wrong};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

const EXPERIMENT: &str = "name = 'small'\niterations = 1\nfilesystem = 'ext3'\npolicy = ['linux-3.0', 'linux-3.1']\n\
    sample_s = 0.5\n\
    machine = { name = '64M', cpus = 2, node = [{ zones = [{ zone = 'DMA', size = '16M' }, { zone = 'DMA32', size = '48M' }] }], \
    boot = { kernel = '4M', anon = '4M', dma = '1M', cache = '0M' }, disk = { kind = 'usb-flash', capacity = '4G' } }\n\
    [workload]\ncommand = 'dd if=/dev/zero of=a bs=64k count=800'\n";

/// Returns its output as text.
fn printed(dir: &Path, args: &str) -> String {
    String::from_utf8_lossy(&good(dir, args)).into_owned()
}

/// A run and a recording give frames of their contents; a path that can't be shown gives one error.
#[test]
fn frames_for_scripts() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    fs::write(dir.join("e.toml"), EXPERIMENT).expect("space");
    good(dir, "run e.toml --quiet --out run");
    let frame = printed(dir, "top run --once --cell 2 --at 2s");
    for told in [
        "linux-3.1",
        "2 of 2",
        "DMA32",
        "over the whole run",
        "pressure, some/full: memory unsupported",
    ] {
        assert!(frame.contains(told), "{told}: {frame}");
    }
    assert!(frame.lines().all(|l| l.chars().count() <= 80), "{frame}");
    good(
        dir,
        "record --no-events --duration 300ms --interval 100ms --quiet --out record",
    );
    let frame = printed(dir, "top record --once");
    assert!(frame.contains("tasks: unsupported"), "{frame}");
    assert_eq!(
        printed(dir, "top record/recording.z --once").lines().nth(1),
        frame.lines().nth(1)
    );
    let here = printed(dir, "top --once --interval 100ms");
    assert!(
        here.contains("this machine") && here.contains("who waits"),
        "{here}"
    );
    wrong(dir, "top", "not a terminal");
    wrong(dir, "top none --once", "none");
    wrong(dir, "top e.toml --once", "no recording");
    wrong(dir, "top run --once --cell 3", "1: ");
    wrong(dir, "top --guest none --once", "frames");
    wrong(dir, "top --speed 2", "<WHAT>");
    wrong(dir, "top run --speed 0", "0.01");
}

/// The program on a terminal of 80 columns and 24 lines.
struct Screen {
    keyboard: File,
    terminal: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Tells the terminal's reader to close it.
    over: Arc<AtomicBool>,
}

impl Screen {
    fn new(args: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&ours).expect("a terminal");
        unlockpt(&ours).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let open = || {
            let path = name.to_str().expect("a path");
            File::options()
                .read(true)
                .write(true)
                .open(path)
                .expect("a terminal")
        };
        let terminal = open();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).expect("a size");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
        command
            .args(args)
            .env("TERM", "xterm")
            .env_remove("COLUMNS");
        command.stdin(open()).stdout(open()).stderr(open());
        let child = command.spawn().expect("the program");
        let ours: OwnedFd = ours;
        let keyboard = File::from(ours);
        let mut from = keyboard.try_clone().expect("a terminal");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&shown);
        let over = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&over);
        // The thread ends with the test.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                if heard.load(SeqCst) {
                    break;
                }
                into.lock()
                    .expect("no panic")
                    .extend_from_slice(&bytes[..n]);
            }
        });
        Self {
            keyboard,
            terminal,
            child,
            shown,
            over,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic")).into_owned()
    }

    fn wait_for(&self, what: &str) {
        let begun = Instant::now();
        while !self.shown().contains(what) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{what:?} is not shown"
            );
            sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("a terminal");
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_modes;
        !modes.contains(LocalModes::ICANON)
    }

    /// Waits for the program's end with this exit code, and checks that the terminal is restored:
    /// the alternate screen left, the cursor shown, line mode and echo on.
    fn ends(mut self, code: i32) {
        let status = self.child.wait().expect("it ran");
        assert_eq!(status.code(), Some(code));
        self.wait_for("\x1b[?1049l");
        self.wait_for("\x1b[?25h");
        assert!(!self.is_raw());
    }
}

/// The program ends when its terminal goes away, instead of running on unseen.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let mut screen = Screen::new(&["top", "--interval", "100ms"]);
    screen.wait_for("disks");
    // The other end is closed once its reader has noticed the flag as well.
    drop(std::mem::replace(
        &mut screen.keyboard,
        File::open("/dev/null").expect("a file"),
    ));
    screen.over.store(true, SeqCst);
    let begun = Instant::now();
    while screen.child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            screen.child.kill().expect("it runs");
            panic!("it goes on without a terminal");
        }
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let here = ["top", "--interval", "100ms"];
    let mut screen = Screen::new(&here);
    screen.wait_for("disks");
    assert!(screen.is_raw());
    screen.press("?");
    screen.wait_for("Esc");
    screen.press("?");
    screen.press("q");
    screen.ends(0);
    let mut screen = Screen::new(&here);
    screen.wait_for("disks");
    screen.press("\x03");
    screen.ends(130);
    for signal in [Signal::INT, Signal::TERM] {
        let screen = Screen::new(&here);
        screen.wait_for("disks");
        kill_process(Pid::from_child(&screen.child), signal).expect("it runs");
        screen.ends(130);
    }
}
