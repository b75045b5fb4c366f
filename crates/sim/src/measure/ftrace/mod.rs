//! A run's events in the text form of `/sys/kernel/tracing/trace`.
//!
//! Events have the names and fields of Linux 6.18, whose reclaim still writes pages;
//! `writeback_congestion_wait` and `writeback_wait_iff_congested`, which 6.18 no longer has, are
//! those of 5.15. Events of the engine without a kernel tracepoint are written as lines of the
//! trace marker (`tracing_mark_write`). Task 0 is the idle task, in whose place interrupts run. A
//! page's address is its place in a frame table at the x86-64 address of the kernel's. [`read`] is
//! the reverse: it computes the rows of reports from such a trace.

pub mod gfp;
pub mod read;
pub mod text;

use crate::world::{Listener, Moment};
use mm::world::event::Event;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The header that the kernel writes above a trace.
const HEAD: &str = "\
# tracer: nop
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

/// Text of the trace marker where the workload begins.
pub const BEGINS: &str = "lowmark: the workload begins";
/// Text of the trace marker where the workload has ended.
pub const ENDS: &str = "lowmark: the workload has ended";

/// The events that are written.
#[derive(Debug, Clone, Default)]
pub struct Selection(Vec<String>);

impl Selection {
    /// Selects events by names, with stars at the end (`mm_vmscan_*`), or by the kernel's folder of
    /// them (`vmscan`); without names, all events.
    ///
    /// # Errors
    /// The first name that matches no event.
    pub fn new(names: &[String]) -> Result<Self, String> {
        for name in names {
            let one = Self(vec![name.clone()]);
            if !text::EVENTS.iter().any(|(_, event)| one.has(event)) {
                return Err(name.clone());
            }
        }
        Ok(Self(names.to_vec()))
    }

    /// Returns true if an event is selected. Lines of the trace marker always are.
    pub fn has(&self, event: &str) -> bool {
        let folder = text::EVENTS.iter().find(|(_, name)| *name == event);
        let is = |wanted: &String| match wanted.strip_suffix('*') {
            Some(start) => event.starts_with(start),
            None => event == wanted || folder.is_some_and(|(folder, _)| folder == wanted),
        };
        self.0.is_empty() || folder.is_none() || self.0.iter().any(is)
    }
}

/// The first error of writing, if there was one.
pub type Failure = Arc<Mutex<Option<io::Error>>>;

/// Writes events as a trace's text.
#[derive(Debug)]
pub struct Ftrace<W> {
    out: W,
    selection: Selection,
    /// The line under construction, and its fields.
    line: String,
    fields: String,
    failure: Failure,
}

impl<W: Write> Ftrace<W> {
    /// Starts a trace in the kernel's text form by writing its header. `selection`: the events to
    /// write; `failure` receives the first error of `out`, which should be buffered.
    pub fn new(out: W, selection: Selection, failure: Failure) -> Self {
        let mut ftrace = Self {
            out,
            selection,
            line: String::new(),
            fields: String::new(),
            failure,
        };
        ftrace.line.push_str(HEAD);
        ftrace.put();
        ftrace
    }

    /// Writes the finished line to the trace and clears it.
    fn put(&mut self) {
        let written = self.out.write_all(self.line.as_bytes());
        self.note(written);
        self.line.clear();
    }

    /// Keeps the first error of writing for the caller of the run; later output may be lost, and
    /// the run continues.
    fn note(&self, written: io::Result<()>) {
        if let Err(e) = written {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
        }
    }

    /// Writes a line of the trace for event `name` at a moment (time, CPU and task); its fields are
    /// in `self.fields`.
    fn write(&mut self, at: Moment<'_>, name: &str) {
        let (seconds, us) = (at.ns / 1_000_000_000, at.ns % 1_000_000_000 / 1000);
        let flags = if at.task == 0 { "d.h.." } else { "....." };
        // trace_print_context() and trace_print_event() of kernel/trace/trace_output.c.
        let _ = writeln!(
            self.line,
            "{:>16}-{:<7} [{:03}] {flags} {seconds:>5}.{us:06}: {name}: {}",
            at.comm, at.task, at.cpu, self.fields
        );
        self.put();
    }
}

impl<W: Write + Send + std::fmt::Debug> Listener for Ftrace<W> {
    /// Writes an event of the run as a line of the trace, if it is selected.
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        let name = text::name(event);
        if !self.selection.has(name) {
            return;
        }
        self.fields.clear();
        text::fields(event, &mut self.fields);
        self.write(at, name);
    }

    /// Writes a text as a line of the kernel's trace marker.
    fn marked(&mut self, at: Moment<'_>, text: &str) {
        self.fields.clear();
        self.fields.push_str(text);
        self.write(at, text::MARK);
    }

    /// Flushes the output at the end of the run.
    fn ended(&mut self, _: &dyn Fn() -> String) {
        let flushed = self.out.flush();
        self.note(flushed);
    }
}
