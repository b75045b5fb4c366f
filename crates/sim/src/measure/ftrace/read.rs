//! Computes the rows of reports (docs/reference/counters-and-traces.md#rows-from-traces) from a
//! trace's text: from ours, or from a kernel's, back to 2.6.36. Texts of tracefs, `trace-cmd
//! report`, `perf script` and systrace are understood; all have a line for each event.
//!
//! A task is a kswapd if its name says so. If the trace marker says when the workload begins and
//! has ended, only the time between counts, with spans under way at the beginning counted from
//! there on; otherwise everything counts. Times are as exact as the text: a microsecond.

use super::{BEGINS, ENDS, text::MARK};
use crate::account::{ClassSums, CongestionWaits, ReclaimSums};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use thiserror::Error;

/// Why a text gives no rows.
#[derive(Debug, Error)]
pub enum Wrong {
    /// The text cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not an event.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, counted from 1.
        line: u64,
        /// Description of what is wrong with the line.
        what: &'static str,
    },
    /// The kernel's ring buffer was full, and events were lost.
    #[error("line {0}: the kernel lost events there, so what is left makes no sums")]
    Lost(u64),
}

/// The figures of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// The sums behind the rows.
    pub sums: ReclaimSums,
    /// Nanoseconds between the first and last counted event, or between the marks.
    pub span_ns: u64,
    /// Number of events of each name in that time.
    pub events: BTreeMap<String, u64>,
}

/// A line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The task's name.
    pub comm: &'a str,
    /// The task's number.
    pub pid: u32,
    /// Number of the CPU.
    pub cpu: u32,
    /// Time in nanoseconds.
    pub ns: u64,
    /// The event's name.
    pub name: &'a str,
    /// The text of the event's fields.
    pub fields: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line in one of these forms, with or without flags:
    ///
    /// - `comm-pid [cpu] flags time: name: fields` of tracefs and `trace-cmd report`;
    /// - `comm-pid (tgid) [cpu] flags time: name: fields` of tracefs with `record-tgid`, and
    ///   systrace;
    /// - `comm pid [cpu] time: system:name: fields` of `perf script`, where the pid may be
    ///   `pid/tid` and the CPU may be absent (0 then).
    ///
    /// `None`: the line has another form.
    pub fn of(line: &'a str) -> Option<Self> {
        // A task's name may contain brackets and blanks: the CPU's bracket is the one after the
        // task's number.
        let (mut from, mut found) = (0, None);
        while let Some(at) = line[from..].find(" [").map(|at| at + from) {
            let rest = &line[at + 2..];
            if let (Some((cpu, rest)), Some((comm, pid))) =
                (rest.split_once(']'), task(&line[..at]))
                && let Ok(cpu) = cpu.parse()
            {
                found = Some((comm, pid, cpu, rest.split_once(": ")?));
                break;
            }
            from = at + 2;
        }
        let (comm, pid, cpu, (head, rest)) = match found {
            Some(found) => found,
            None => {
                let (head, rest) = line.split_once(": ")?;
                let (comm, pid) = task(&head[..head.rfind(' ')?])?;
                (comm, pid, 0, (head, rest))
            }
        };
        let ns = nanoseconds(head.split_whitespace().last()?)?;
        let rest = rest.trim_start();
        let (name, fields) = match rest.split_once(' ') {
            Some((name, fields)) => (name, fields),
            None => (rest, ""),
        };
        let name = name.strip_suffix(':')?;
        Some(Self {
            comm,
            pid,
            cpu,
            ns,
            name: name.rsplit(':').next()?,
            fields: fields.trim(),
        })
    }

    /// Returns the text of a field.
    pub fn word(&self, name: &str) -> Option<&'a str> {
        let mut words = self.fields.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the number in a field.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }
}

/// Splits the text of a task into its name and its number: `comm-pid`, `comm-pid (tgid)`, `comm
/// pid` or `comm pid/tid`. `None`: the text has another form.
fn task(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    // Only digits, blanks and dashes (`(-----)`, not known) stand in the brackets of a tgid.
    let is_tgid = |c: char| c.is_ascii_digit() || c == '-' || c == ' ';
    let text = match text.strip_suffix(')').and_then(|t| t.rsplit_once('(')) {
        Some((task, tgid)) if tgid.chars().all(is_tgid) => task.trim_end(),
        _ => text,
    };
    let (comm, number) = text.rsplit_once(['-', ' '])?;
    let number = number.rsplit('/').next()?;
    Some((comm.trim_end(), number.parse().ok()?))
}

/// Returns true for a line without an event that belongs to a trace's text: comments, the head of
/// `trace-cmd report` and of systrace, and the call chains of `perf script -g`.
fn without_event(line: &str) -> bool {
    let line = line.trim_start();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.len() >= 6 && text.bytes().all(|b| b.is_ascii_hexdigit());
    line.is_empty()
        || line.starts_with('#')
        || line == "TRACE:"
        || line.strip_prefix("cpus=").is_some_and(number)
        || line.strip_prefix("version = ").is_some_and(number)
        || line
            .strip_prefix("CPU ")
            .is_some_and(|l| l.ends_with(" is empty"))
        || line
            .split_once(' ')
            .is_some_and(|(address, _)| hex(address))
            && line.ends_with(')')
            && !line.contains(": ")
}

/// Converts a time as text, `seconds.fraction` with at most nine decimals, to nanoseconds. `None`:
/// the text is no such number.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len() as u32;
    if digits == 0 || digits > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * 10_u64.pow(9 - digits))
}

/// The spans and counts of one task.
#[derive(Debug, Default)]
struct Task {
    awake_since: Option<u64>,
    stalled_since: Option<u64>,
    requests: u64,
    begins: u64,
}

/// Sums over a trace's lines, while it is read.
#[derive(Debug)]
struct Reading {
    tasks: BTreeMap<u32, Task>,
    sums: ReclaimSums,
    events: BTreeMap<String, u64>,
    from: Option<u64>,
    to: u64,
}

/// Reads a trace and returns the sums of its events, up to the mark of the workload's end if it has
/// one.
///
/// # Errors
/// [`Wrong`]: the text cannot be read, a line is not an event, or the kernel lost events.
pub fn rows(mut input: impl BufRead) -> Result<Traced, Wrong> {
    let mut reading = Reading::new();
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        if input.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        number += 1;
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if without_event(line) {
            continue;
        }
        // `CPU:1 [LOST 5 EVENTS]` of the kernel, `CPU:1 [5 EVENTS DROPPED]` of trace-cmd.
        if line.starts_with("CPU:") && line.ends_with(']') && line.contains("EVENTS") {
            return Err(Wrong::Lost(number));
        }
        let wrong = |what| Wrong::Line { line: number, what };
        let line = Line::of(line).ok_or_else(|| wrong("no event of a trace"))?;
        if line.name == MARK && line.fields == ENDS {
            reading.to = line.ns;
            reading.end();
            return Ok(reading.traced());
        }
        reading
            .read(&line)
            .ok_or_else(|| wrong("a field is missing"))?;
    }
    reading.end();
    Ok(reading.traced())
}

impl Reading {
    /// Returns the state before the first line: no task, no event, all sums 0.
    fn new() -> Self {
        let sums = ReclaimSums {
            direct: ClassSums::NOTHING,
            kswapd: ClassSums::NOTHING,
            ..ReclaimSums::default()
        };
        Self {
            tasks: BTreeMap::new(),
            sums,
            events: BTreeMap::new(),
            from: None,
            to: 0,
        }
    }

    /// Begins the sums anew at `ns` nanoseconds, where the workload begins: what came before is
    /// discarded, and tasks' spans under way (kswapd awake, in direct reclaim) count from `ns` on.
    fn begin(&mut self, ns: u64) {
        let tasks = std::mem::take(&mut self.tasks);
        *self = Self::new();
        self.from = Some(ns);
        self.to = ns;
        for (pid, task) in tasks {
            let spans = Task {
                awake_since: task.awake_since.map(|_| ns),
                stalled_since: task.stalled_since.map(|_| ns),
                ..Task::default()
            };
            self.tasks.insert(pid, spans);
        }
    }

    /// Adds one event to the sums of its task and class; events without sums are counted by name
    /// only. `None`: a field that is needed is missing.
    fn read(&mut self, line: &Line<'_>) -> Option<()> {
        if line.name == MARK {
            if line.fields == BEGINS {
                self.begin(line.ns);
            }
            return Some(());
        }
        self.from.get_or_insert(line.ns);
        self.to = self.to.max(line.ns);
        let count = self.events.entry(line.name.to_owned()).or_default();
        *count += 1;
        let task = self.tasks.entry(line.pid).or_default();
        let class = match line.comm.starts_with("kswapd") {
            true => &mut self.sums.kswapd,
            false => &mut self.sums.direct,
        };
        match line.name {
            "mm_vmscan_kswapd_wake" if task.awake_since.is_none() => {
                task.awake_since = Some(line.ns);
                self.sums.kswapd_wakeups += 1;
            }
            "mm_vmscan_kswapd_sleep" => {
                let since = task.awake_since.take();
                let ns = since.map_or(0, |s| line.ns.saturating_sub(s));
                add(&mut self.sums.kswapd_awake_ns, ns);
            }
            "mm_vmscan_direct_reclaim_begin" => {
                task.stalled_since = Some(line.ns);
                task.begins += 1;
            }
            "mm_vmscan_direct_reclaim_end" => {
                let since = task.stalled_since.take();
                let ns = since.map_or(0, |s| line.ns.saturating_sub(s));
                add(&mut self.sums.stalled_ns, ns);
            }
            "mm_vmscan_wakeup_kswapd" => task.requests += 1,
            "mm_vmscan_lru_isolate" => {
                // Linux 3.16 and earlier print `isolate_mode`, whose 1 is an active list before
                // 3.3; 4.10 and later name the list.
                let active = match line.word("lru") {
                    // Number 1 or 3 where no symbol was printed: LRU_ACTIVE_ANON, LRU_ACTIVE_FILE.
                    Some(list) => list.starts_with("active") || list == "1" || list == "3",
                    None => line.word("isolate_mode")? == "1",
                };
                if !active {
                    class.scanned = class.scanned.saturating_add(line.number("nr_scanned")?);
                }
            }
            "mm_vmscan_writepage" | "mm_vmscan_write_folio" => {
                let flags = line.word("flags")?;
                let has = |flag: &str| flags.split('|').any(|f| f == flag);
                let (file, sync) = (has("RECLAIM_WB_FILE"), has("RECLAIM_WB_SYNC"));
                let writes = &mut class.writes;
                *match (file, sync) {
                    (true, false) => &mut writes.file_async,
                    (true, true) => &mut writes.file_sync,
                    (false, false) => &mut writes.anon_async,
                    (false, true) => &mut writes.anon_sync,
                } += 1;
            }
            "writeback_congestion_wait" => wait(&mut class.congest, line)?,
            "writeback_wait_iff_congested" => wait(&mut class.conditional, line)?,
            _ => {}
        }
        Some(())
    }

    /// Closes the spans under way at the end of the trace and sums over the tasks.
    fn end(&mut self) {
        for task in self.tasks.values() {
            let open = |since: Option<u64>| since.map_or(0, |s| self.to.saturating_sub(s));
            add(&mut self.sums.kswapd_awake_ns, open(task.awake_since));
            add(&mut self.sums.stalled_ns, open(task.stalled_since));
            self.sums.direct_reclaims += task.begins;
            self.sums.wake_requests_all += task.requests;
            if task.begins > 0 {
                self.sums.wake_requests += task.requests;
            }
        }
    }

    /// Returns the figures, with the time between the first and last counted event.
    fn traced(self) -> Traced {
        Traced {
            sums: self.sums,
            span_ns: self.to.saturating_sub(self.from.unwrap_or(self.to)),
            events: self.events,
        }
    }
}

/// Adds without overflow: times of a damaged trace may be any number.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// Counts a wait for congestion with the microseconds of its fields. `None`: a field is missing.
fn wait(waits: &mut Option<CongestionWaits>, line: &Line<'_>) -> Option<()> {
    let (timeout, delayed) = (line.number("usec_timeout")?, line.number("usec_delayed")?);
    let waits = waits.get_or_insert_default();
    waits.number += 1;
    waits.delayed_us = waits.delayed_us.saturating_add(delayed);
    waits.full += u64::from(delayed >= timeout);
    Some(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
