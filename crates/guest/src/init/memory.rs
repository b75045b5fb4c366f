//! Sets up the memory that a booted machine has in use.
//!
//! Both the kernel's part and the cache are topped up. Memory in use that is neither page cache of
//! files nor the idle process's (MemTotal − MemFree − Active(file) − Inactive(file), less
//! free pages on per-CPU lists) is that of the kernel, of this process and of the programs. The
//! rest up to the machine's figure is locked memory of this process, which reclaim neither finds
//! nor takes. If more is in use already, a note says so. A file is read until there is as much
//! cache as the machine has: mounting has left some.

use super::{CACHE, ROOT, Step, of};
use crate::sys::{Mapping, Of, PAGE};
use crate::wire::BootJob;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const MEMINFO: &str = "/proc/meminfo";
const ZONEINFO: &str = "/proc/zoneinfo";

/// Locks this process in memory.
pub(super) fn lock() -> Step {
    super::lock_memory()
}

/// Returns a value of the text of `/proc/meminfo`, in bytes.
fn field(text: &str, name: &str) -> Step<u64> {
    let kb = crate::meminfo(text, name).ok_or_else(|| format!("{MEMINFO} has no {name}"))?;
    Ok(kb * 1024)
}

/// Returns the bytes that the kernel, this process and the programs use, from the texts of
/// `/proc/meminfo` and `/proc/zoneinfo`: all that is neither free nor page cache.
fn in_use(meminfo: &str, zoneinfo: &str) -> Step<u64> {
    let rest = ["MemFree", "Active(file)", "Inactive(file)"];
    let left = rest
        .into_iter()
        .try_fold(field(meminfo, "MemTotal")?, |left, name| {
            Ok::<_, String>(left.saturating_sub(field(meminfo, name)?))
        })?;
    Ok(left.saturating_sub(on_cpus(zoneinfo)? * PAGE as u64))
}

/// Returns the number of free pages on per-CPU lists, from the text of `/proc/zoneinfo`; MemFree
/// leaves them out, up to as many as the low watermark.
fn on_cpus(zoneinfo: &str) -> Step<u64> {
    let lists = zoneinfo
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("count:"));
    let counts = lists.map(|count| count.trim().parse::<u64>().map_err(of(ZONEINFO)));
    let counts: Vec<u64> = counts.collect::<Step<_>>()?;
    if counts.is_empty() {
        return Err(format!("{ZONEINFO} has no list of a CPU"));
    }
    Ok(counts.iter().sum())
}

/// The present use of memory, in bytes.
struct Now {
    total: u64,
    /// Swap, not included in `total`.
    swap: u64,
    swapped: u64,
    in_use: u64,
    cache: u64,
}

impl Now {
    /// Reads the present use of memory from `/proc`.
    fn look() -> Step<Self> {
        let meminfo = fs::read_to_string(MEMINFO).map_err(of(MEMINFO))?;
        let zoneinfo = fs::read_to_string(ZONEINFO).map_err(of(ZONEINFO))?;
        let swap = field(&meminfo, "SwapTotal")?;
        Ok(Self {
            total: field(&meminfo, "MemTotal")?,
            swap,
            swapped: swap.saturating_sub(field(&meminfo, "SwapFree")?),
            in_use: in_use(&meminfo, &zoneinfo)?,
            cache: field(&meminfo, "Active(file)")? + field(&meminfo, "Inactive(file)")?,
        })
    }
}

/// Takes as much memory into use as the modelled machine has in use after boot: the kernel's part
/// as locked memory, an idle process's anonymous memory, and cache by reading a file. All processes
/// of the workload must have been started. Returns notes for readers of the results.
pub(super) fn boot(job: &BootJob) -> Step<Vec<String>> {
    let now = Now::look()?;
    let most = job.kernel.max(now.in_use);
    if most > now.total || most + job.anon > now.total + now.swap {
        let what = "the machine's boot footprint does not fit its memory";
        let (own, total) = (now.in_use, now.total);
        return Err(format!("{what}: {own} of {total} bytes are in use already"));
    }
    if job.anon > 0 {
        idle_process(job.anon)?;
    }
    let now = Now::look()?;
    let idle = job.anon.saturating_sub(now.swapped);
    let own = now.in_use.saturating_sub(idle);
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
        // Locked, like all memory of this process, and never freed.
        std::mem::forget(touched(top_up)?);
    }
    let rest = job.cache.saturating_sub(Now::look()?.cache);
    if rest > 0 {
        read_once(&Path::new(ROOT).join(CACHE), rest)?;
    }
    Ok(notes)
}

/// Maps and touches `pages` anonymous pages, so that they take memory; returns the mapping.
fn touched(pages: usize) -> Step<Mapping> {
    let memory = Mapping::new(Of::Anon, pages).map_err(of("memory in use at boot"))?;
    for page in 0..pages {
        memory.touch(page, None, Some(1));
    }
    Ok(memory)
}

/// Starts a process that holds `bytes` bytes of anonymous memory and does nothing, and waits until
/// it holds them. The OOM killer spares it.
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

/// Runs as the idle process, which models a booted machine's programs: touches `bytes` bytes (a
/// number as text), reports that with a byte on standard output, and sleeps for ever.
///
/// # Errors
/// The memory can't be had.
pub fn idle(bytes: &str) -> Result<(), String> {
    let bytes: u64 = bytes.parse().map_err(of(bytes))?;
    let memory = touched((bytes / PAGE as u64) as usize)?;
    let mut out = super::mounts::output()?;
    out.write_all(&[0]).map_err(of("standard output"))?;
    loop {
        std::thread::park();
        // Keeps the memory alive.
        std::hint::black_box(&memory);
    }
}

/// Reads `bytes` bytes of a file from its start, once, so that they are in the page cache. A
/// shorter file is an error.
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
    fn what_is_in_use_is_neither_file_cache_nor_free_on_a_list() {
        let meminfo =
            "MemTotal: 1000 kB\nMemFree: 600 kB\nActive(file): 100 kB\nInactive(file): 50 kB\n";
        let zoneinfo = "Node 0, zone   Normal\n  pages free     150\n  pagesets\n    cpu: 0\n              count:    12\n              high:     89\n    cpu: 1\n              count: 8\n";
        assert_eq!(in_use(meminfo, zoneinfo).unwrap(), (250 - 80) * 1024);
        let without = in_use("MemTotal: 1 kB\n", zoneinfo).unwrap_err();
        assert!(without.contains("MemFree"), "{without}");
        let without = in_use(meminfo, "").unwrap_err();
        assert!(without.contains("list of a CPU"), "{without}");
        let what = in_use(meminfo, "  count: many\n").unwrap_err();
        assert!(what.contains(ZONEINFO), "{what}");
    }
}
