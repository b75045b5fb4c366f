//! A shell on the console.

use super::{ROOT, Step, of};
use crate::host::{clock, sleep_until};
use crate::wire::BUSYBOX;
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::process::Command;

/// The console as a terminal that can control a session, which /dev/console can't.
const TERMINAL: &str = "/dev/tty0";

/// Nanoseconds between two wake-ups of the guest. Its kernel sees typed keys when it next runs, and
/// an idle guest might not run for minutes.
const BEAT: u64 = 10_000_000;

/// Runs busybox's shell on a terminal of that size (columns, lines), with its applets in the path,
/// until it ends. A thread wakes the guest often, so that it sees typed keys.
pub(super) fn run((columns, lines): (u16, u16)) -> Step {
    let installed = Command::new(BUSYBOX)
        .args(["--install", "-s", "/bin"])
        .status();
    let installed = installed.map_err(of(BUSYBOX))?;
    if !installed.success() {
        return Err(format!("{BUSYBOX} --install: {installed}"));
    }
    std::env::set_current_dir(ROOT).map_err(of(ROOT))?;
    let beat = || {
        let mut at = clock();
        loop {
            at += BEAT;
            sleep_until(at);
        }
    };
    let builder = std::thread::Builder::new().name("beat".to_owned());
    builder.spawn(beat).map_err(of("a thread"))?;
    let open = || File::options().read(true).write(true).open(TERMINAL);
    let terminal = || open().map_err(of(TERMINAL));
    let size = Winsize {
        ws_col: columns,
        ws_row: lines,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal()?, size).map_err(of(TERMINAL))?;
    // A session with its own controlling terminal: Ctrl-C and job control work.
    let mut command = Command::new("/bin/setsid");
    command
        .args(["-c", "/bin/sh"])
        .stdin(terminal()?)
        .stdout(terminal()?)
        .stderr(terminal()?)
        .env("PATH", "/bin")
        .env("HOME", "/root")
        .env("TERM", "vt100")
        .env("PS1", "guest:\\w# ");
    command.status().map(drop).map_err(of("/bin/sh"))
}
