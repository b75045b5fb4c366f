//! What a booted machine has in memory.
//!
//! The kernel's part is topped up: what is in use and no page cache of files, MemTotal − MemFree −
//! Active(file) − Inactive(file) at this point, is the kernel's own and this process's; the rest to
//! what the machine says is locked memory of this process, which reclaim neither finds nor takes. If
//! the kernel has more already, a note says so.

use super::{CACHE, ROOT, Step, of};
use crate::sys::{Mapping, Of, PAGE};
use crate::wire::BootJob;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const MEMINFO: &str = "/proc/meminfo";

/// Locks this process in memory.
pub(super) fn lock() -> Step {
    super::lock_memory()
}

fn field(text: &str, name: &str) -> Step<u64> {
    let kb = crate::meminfo(text, name).ok_or_else(|| format!("{MEMINFO} has no {name}"))?;
    Ok(kb * 1024)
}

/// Bytes that the kernel and this process have in use.
fn in_use(text: &str) -> Step<u64> {
    let rest = ["MemFree", "Active(file)", "Inactive(file)"];
    rest.into_iter()
        .try_fold(field(text, "MemTotal")?, |left, name| {
            Ok(left.saturating_sub(field(text, name)?))
        })
}

/// Takes the memory of a booted machine into use, in the order of the virtual world; returns what a reader of
/// the results must know.
pub(super) fn boot(job: &BootJob) -> Step<Vec<String>> {
    let text = fs::read_to_string(MEMINFO).map_err(of(MEMINFO))?;
    let (total, own) = (field(&text, "MemTotal")?, in_use(&text)?);
    let room = total + field(&text, "SwapTotal")?;
    if job.kernel.max(own) > total || job.kernel.max(own) + job.anon > room {
        let what = "the machine's boot footprint does not fit its memory";
        return Err(format!("{what}: {own} of {total} bytes are in use already"));
    }
    let mut notes = Vec::new();
    if job.kernel > 0 && own > job.kernel {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        notes.push(format!(
            "this kernel has {:.1} MiB in use, more than the machine's {:.1}",
            mib(own),
            mib(job.kernel)
        ));
    }
    let top_up = (job.kernel.saturating_sub(own) / PAGE as u64) as usize;
    if top_up > 0 {
        // Locked, as all of this process. Nobody gives it back.
        std::mem::forget(touched(top_up)?);
    }
    if job.anon > 0 {
        idle_process(job.anon)?;
    }
    if job.cache > 0 {
        read_once(&Path::new(ROOT).join(CACHE), job.cache)?;
    }
    Ok(notes)
}

/// Anonymous memory of so many pages, each touched.
fn touched(pages: usize) -> Step<Mapping> {
    let memory = Mapping::new(Of::Anon, pages).map_err(of("memory in use at boot"))?;
    for page in 0..pages {
        memory.touch(page, None, Some(1));
    }
    Ok(memory)
}

/// Starts a process that has so many bytes and does nothing. When memory runs out, it is not the one
/// to kill.
fn idle_process(bytes: u64) -> Step {
    let mut command = Command::new("/proc/self/exe");
    let command = command
        .args([super::IDLE, &bytes.to_string()])
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(of("the idle process"))?;
    let score = format!("/proc/{}/oom_score_adj", child.id());
    fs::write(&score, "-1000").map_err(of(&score))?;
    let mut ready = child.stdout.take().expect("it was piped");
    ready
        .read_exact(&mut [0; 1])
        .map_err(of("the idle process"))
}

/// The life of the idle process: touches so many bytes, says so, and sleeps for ever.
///
/// # Errors
/// Why it could not.
pub fn idle(bytes: &str) -> Result<(), String> {
    let bytes: u64 = bytes.parse().map_err(of(bytes))?;
    let memory = touched((bytes / PAGE as u64) as usize)?;
    let mut out = super::mounts::output()?;
    out.write_all(&[0]).map_err(of("standard output"))?;
    loop {
        std::thread::park();
        // Its memory is its purpose.
        std::hint::black_box(&memory);
    }
}

/// Reads a file from its start, once.
fn read_once(path: &Path, bytes: u64) -> Step {
    let what = path.display();
    let mut file = File::open(path).map_err(of(&what))?.take(bytes);
    let mut window = vec![0; 128 << 10];
    let mut read = 0;
    loop {
        match file.read(&mut window) {
            Ok(0) if read == bytes => return Ok(()),
            Ok(0) => return Err(format!("{what} has {read} bytes where {bytes} are due")),
            Ok(n) => read += n as u64,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(of(&what)(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_no_file_cache() {
        let text =
            "MemTotal: 1000 kB\nMemFree: 600 kB\nActive(file): 100 kB\nInactive(file): 50 kB\n";
        assert_eq!(in_use(text).unwrap(), 250 * 1024);
        assert!(in_use("MemTotal: 1 kB\n").unwrap_err().contains("MemFree"));
    }
}
