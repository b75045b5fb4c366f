//! Workloads from files: job files of fio, and traces in every format.

use crate::dice::Dice;
use crate::machine::Drawn;
use std::fmt::Write;
use trace::generate::{Generator, Pattern, Plan, Request};
use trace::{Format, write};

const KIB: u64 = 1 << 10;
const PAGE: u64 = 4096;

/// Draws a job file of fio for a machine: one to three jobs that read and write, at the same time
/// or one after the other. Returns its text.
pub fn job_file(seed: u64, machine: &Drawn) -> String {
    let d = &mut Dice::new(seed, "fio");
    let mut text = String::from("[global]\n");
    if d.one_in(3) {
        let _ = writeln!(text, "ioengine={}", d.pick(&["psync", "libaio", "sync"]));
    }
    if !machine.mounts.is_empty() && d.one_in(2) {
        let _ = writeln!(text, "directory={}", machine.mounts[0]);
    }
    for nth in 0..d.between(1, 3) {
        job(d, nth, machine, &mut text);
    }
    text
}

/// Appends job `nth` to the text of a job file of fio: its pattern, sizes that suit the machine's
/// memory and disk, and now and then further options.
fn job(d: &mut Dice, nth: u64, machine: &Drawn, text: &mut String) {
    let size = (machine.memory * 2).min(machine.disk / 4).max(64 * KIB);
    let size = d.amount(64 * KIB, size) / PAGE * PAGE;
    let direct = d.one_in(4);
    let bs = match d.between(0, 2) {
        0 if !direct => d.magnitude(512, 64 * KIB),
        1 => PAGE,
        _ => d.magnitude(1, 16) * PAGE,
    };
    let rw = ["read", "write", "randread", "randwrite", "rw", "randrw"];
    let rw = *d.pick(&rw);
    let _ = writeln!(text, "[job{nth}]\nrw={rw}\nbs={bs}\nsize={size}");
    let total = d.magnitude(bs, (bs * 2000).min(2 * size).max(bs));
    let _ = writeln!(text, "io_size={}", total.max(512));
    if direct {
        text.push_str("direct=1\n");
    }
    if rw.ends_with("rw") {
        let _ = writeln!(text, "rwmixread={}", d.between(0, 100));
    }
    if rw.starts_with("rand") {
        match d.between(0, 3) {
            0 => text.push_str("random_distribution=zipf:0.9\n"),
            1 => text.push_str("random_distribution=pareto:0.2\n"),
            2 => text.push_str("norandommap=1\n"),
            _ => {}
        }
    }
    for (key, value) in [
        ("numjobs", d.magnitude(1, 4)),
        ("iodepth", d.magnitude(1, 16)),
        ("fsync", d.magnitude(1, 100)),
        ("fdatasync", d.magnitude(1, 100)),
        ("end_fsync", 1),
        ("rate", d.magnitude(64 * KIB, 64 << 20)),
        ("startdelay", d.between(0, 1)),
        ("thinktime", d.magnitude(1, 10_000)),
    ] {
        if d.one_in(5) {
            let _ = writeln!(text, "{key}={value}");
        }
    }
    if nth > 0 && d.one_in(3) {
        text.push_str("stonewall\n");
    }
    match d.between(0, 5) {
        0 => text.push_str("runtime=1\n"),
        1 => text.push_str("runtime=1\ntime_based=1\nthinktime=1000\n"),
        _ => {}
    }
}

/// Draws a trace in the format of that name, with objects and requests that suit the machine.
/// Returns the name and the content of its file.
///
/// # Panics
/// The swarm cannot write this format.
pub fn trace_file(seed: u64, format: &str, machine: &Drawn) -> (String, Vec<u8>) {
    let d = &mut Dice::new(seed, "trace");
    let patterns: Vec<Pattern> = Pattern::NAMES
        .iter()
        .filter_map(|n| Pattern::parse(n))
        .collect();
    let most = (machine.memory * 2).min(machine.disk / 4) / PAGE;
    let plan = Plan {
        pattern: *d.pick(&patterns),
        objects: d.amount(1, most.max(1)) as u32,
        requests: d.amount(1, 4000),
        skew: d.unit() * 1.5,
        writes: *d.pick(&[0.0, 0.3, 1.0]),
        rate: d.magnitude(10, 100_000),
        seed: d.between(0, u64::MAX - 1),
    };
    let mut bytes = Vec::new();
    match Format::parse(format) {
        Some(Format::OracleGeneral) => write::oracle_general(&plan, &mut bytes).expect("to memory"),
        Some(Format::Csv) => write::csv(&plan, &mut bytes).expect("to memory"),
        Some(Format::Msr) => lines(&plan, &mut bytes, msr),
        Some(Format::FioIolog) => iolog(&plan, &mut bytes),
        Some(Format::Blkparse) => lines(&plan, &mut bytes, blkparse),
        Some(Format::Strace) => strace(&plan, &mut bytes),
        _ => panic!("the swarm can't write a trace as {format}: inputs.rs"),
    }
    (format!("trace.{format}"), bytes)
}

/// Returns true if [`trace_file`] writes traces of this format.
pub fn writes(format: &str) -> bool {
    matches!(
        Format::parse(format),
        Some(
            Format::OracleGeneral
                | Format::Csv
                | Format::Msr
                | Format::FioIolog
                | Format::Blkparse
                | Format::Strace
        )
    )
}

/// Appends one line for each request of a plan to `bytes`; `line` formats a request and its number.
fn lines(plan: &Plan, bytes: &mut Vec<u8>, line: fn(&Request, u64) -> String) {
    for (nth, request) in (0..).zip(Generator::new(plan)) {
        bytes.extend(line(&request, nth).bytes());
    }
}

/// Returns the byte offset of a request.
fn offset(r: &Request) -> u64 {
    u64::from(r.object) * PAGE
}

/// Formats a request as a line of an MSR Cambridge trace, on one of three disks.
fn msr(r: &Request, _: u64) -> String {
    let what = if r.write { "Write" } else { "Read" };
    let disk = r.object % 3;
    let time = 128_166_372_000_000_000 + r.time_ns / 100;
    format!("{time},hm,{disk},{what},{},4096,100\n", offset(r))
}

/// Formats a request as a line of `blkparse`, a queued one; `nth` is its number, from 0.
fn blkparse(r: &Request, nth: u64) -> String {
    let what = if r.write { "W" } else { "R" };
    let (s, ns) = (r.time_ns / 1_000_000_000, r.time_ns % 1_000_000_000);
    let pid = 700 + nth % 3;
    format!(
        "  8,16   0 {:>8} {s:>5}.{ns:09} {pid:>5}  Q  {what} {} + 8 [swarm]\n",
        nth + 1,
        offset(r) / 512
    )
}

/// Writes a plan as an iolog of fio, with a sync after each 50 requests.
fn iolog(plan: &Plan, bytes: &mut Vec<u8>) {
    bytes.extend(b"fio version 3 iolog\n0 f add\n0 f open\n");
    lines(plan, bytes, |r, nth| {
        let what = if r.write { "write" } else { "read" };
        let us = r.time_ns / 1000;
        let sync = if nth % 50 == 49 {
            format!("{us} f sync 0 0\n")
        } else {
            String::new()
        };
        format!("{us} f {what} {} 4096\n{sync}", offset(r))
    });
}

/// Writes a plan as the text of strace, with an fsync after each 50 requests.
fn strace(plan: &Plan, bytes: &mut Vec<u8>) {
    bytes.extend(
        b"560   1795248225.000000 openat(AT_FDCWD, \"f\", O_RDWR|O_CREAT, 0644) = 3 <0.000010>\n",
    );
    lines(plan, bytes, |r, nth| {
        let us = r.time_ns / 1000 + 10;
        let time = format!("{}.{:06}", 1_795_248_225 + us / 1_000_000, us % 1_000_000);
        let sync = match nth % 50 {
            49 => format!("560   {time} fsync(3) = 0 <0.000010>\n"),
            _ => String::new(),
        };
        let call = if r.write { "pwrite64" } else { "pread64" };
        format!(
            "560   {time} {call}(3, \"\"..., 4096, {}) = 4096 <0.000010>\n{sync}",
            offset(r)
        )
    });
}
