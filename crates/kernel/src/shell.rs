//! A shell in a guest on the user's terminal; the guest's time follows wall time.
//!
//! The guest's console is one end of a socket, and this program copies between the other end and
//! the user's terminal. The console is no pseudo-terminal of the host: for that User-Mode Linux
//! would start a helper process, which watches the terminal's size and outlives it.

use crate::run::Sitter;
use crate::spec::Kernel;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sim::{Control, RunSpec};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The path at which Debian's busybox-static installs it.
const BUSYBOX: &str = "/bin/busybox";

/// Ctrl-], which kills a guest whose shell does not end.
const ESCAPE: u8 = 0x1d;
/// Ctrl-D: end of input.
const END: u8 = 0x04;
/// The pause between two Ctrl-D: one that arrives while the shell changes the terminal's modes is
/// lost.
const AGAIN: Duration = Duration::from_millis(200);

/// Reads a statically linked busybox.
///
/// # Errors
/// There is none; the error says what to install.
pub fn busybox() -> Result<Vec<u8>, String> {
    let fix = "a guest's shell is busybox: `apt install busybox-static`";
    let bytes = fs::read(BUSYBOX).map_err(|e| format!("{BUSYBOX}: {e}; {fix}"))?;
    match is_static(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{BUSYBOX} is not linked statically; {fix}")),
    }
}

/// Returns true if an x86-64 program needs no interpreter, and so no shared libraries.
fn is_static(bytes: &[u8]) -> bool {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(bytes) else {
        return false;
    };
    let interpreter = object::elf::PT_INTERP;
    let mut headers = file.elf_program_headers().iter();
    !headers.any(|h| h.p_type(file.endian()) == interpreter)
}

/// Runs a shell in a guest with the machine and filesystem of `spec`, on the caller's standard
/// input and output, until it exits. If the input is a terminal, each key is passed on at once and
/// Ctrl-] kills the guest. `started` is called with the id of the guest's process.
///
/// # Errors
/// There is no such guest, no static busybox, or no terminal for it.
pub fn shell(
    spec: &RunSpec,
    kernel: &Kernel,
    started: &mut dyn FnMut(u32),
    control: &Arc<Control>,
) -> Result<(), String> {
    busybox()?;
    let of = |e: io::Error| format!("the guest's terminal: {e}");
    let (ours, theirs) = UnixStream::pair().map_err(of)?;
    let raw = Raw::new().map_err(of)?;
    let size = raw.0.as_ref().and_then(|_| tcgetwinsize(io::stdin()).ok());
    let size = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    let typed = ours.try_clone().map_err(of)?;
    let escape = raw.0.is_some().then(|| Arc::clone(control));
    let typing = std::thread::Builder::new().name("typing".to_owned());
    // The thread ends with this program: a read from a terminal can't be interrupted.
    typing
        .spawn(move || copy_in(typed, escape.as_deref()))
        .map_err(of)?;
    std::thread::scope(|scope| {
        let printing = scope.spawn(move || copy_out(ours, io::stdout().is_terminal()));
        let sitter = Sitter {
            terminal: File::from(OwnedFd::from(theirs)),
            size,
            started,
        };
        let sat = crate::run::sit(spec, kernel, sitter, control);
        // The other end is closed by now, so the thread prints the rest and ends.
        let _ = printing.join();
        sat
    })
}

/// Puts standard input into raw mode, if it is a terminal; restored on drop.
struct Raw(Option<Termios>);

impl Raw {
    /// Puts standard input into raw mode, so that each key is passed on at once; changes nothing if
    /// it is no terminal.
    fn new() -> io::Result<Self> {
        let input = io::stdin();
        if !input.is_terminal() {
            return Ok(Self(None));
        }
        let before = tcgetattr(&input)?;
        let mut modes = before.clone();
        modes.make_raw();
        tcsetattr(&input, OptionalActions::Now, &modes)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Raw {
    /// Restores the terminal's modes from before.
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Copies standard input to the guest until it ends; then sends Ctrl-D until the guest is gone.
/// Ctrl-] in the input stops the guest through `escape`, if given.
fn copy_in(mut to: UnixStream, escape: Option<&Control>) {
    let mut bytes = [0; 1024];
    loop {
        let n = match io::stdin().read(&mut bytes) {
            Ok(0) => {
                while to.write_all(&[END]).is_ok() {
                    std::thread::sleep(AGAIN);
                }
                return;
            }
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let end = escape.and_then(|control| {
            let at = bytes[..n].iter().position(|b| *b == ESCAPE)?;
            control.stop.store(true, Relaxed);
            Some(at)
        });
        if to.write_all(&bytes[..end.unwrap_or(n)]).is_err() || end.is_some() {
            return;
        }
    }
}

/// Prints the guest's output until its end. Without `terminal`, for files and pipes, lines get no
/// carriage returns.
fn copy_out(mut from: UnixStream, terminal: bool) {
    let mut bytes = [0; 4096];
    // Reading fails or returns 0 once the other end is closed.
    while let Ok(n) = from.read(&mut bytes)
        && n > 0
    {
        let mut out = io::stdout().lock();
        let mut output = bytes[..n].to_vec();
        if !terminal {
            output.retain(|b| *b != b'\r');
        }
        if out.write_all(&output).and_then(|()| out.flush()).is_err() {
            // The output is gone, but the guest must not block on it.
            continue;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_an_interpreter_are_told_apart() {
        assert!(is_static(crate::guest_binary().unwrap()));
        let own = fs::read("/proc/self/exe").unwrap();
        assert!(!is_static(&own));
        assert!(!is_static(b"#!/bin/sh"));
    }
}
