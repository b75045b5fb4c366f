//! A run's events in the text form of `/sys/kernel/tracing/trace`.
//!
//! Events have the names and fields of Linux 6.18, whose reclaim still writes
//! pages; `writeback_congestion_wait` and `writeback_wait_iff_congested`, which it has no longer, those of 5.15.
//! What the engine has and no kernel has a tracepoint for stands as a line of the trace marker
//! (`tracing_mark_write`). Task 0 is the idle task, in whose place interrupts run. A page's address is its place
//! in a frame table at the x86-64 address of the kernel's. [`read`] is the way back: the rows that
//! are made of such a trace.

pub mod gfp;
pub mod read;
pub mod text;

use crate::world::{Listener, Moment};
use mm::world::event::Event;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What the kernel writes above a trace.
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

/// The trace marker's line where the workload begins.
pub const BEGINS: &str = "lowmark: the workload begins";
/// … and where it has ended.
pub const ENDS: &str = "lowmark: the workload has ended";

/// Which events are written.
#[derive(Debug, Clone, Default)]
pub struct Selection(Vec<String>);

impl Selection {
    /// By names as `mm_vmscan_*`, with stars at the end, or as `vmscan`, the folder that the kernel has them in; none: all
    /// events.
    ///
    /// # Errors
    /// The first name that is no event's.
    pub fn new(names: &[String]) -> Result<Self, String> {
        for name in names {
            let one = Self(vec![name.clone()]);
            if !text::EVENTS.iter().any(|(_, event)| one.has(event)) {
                return Err(name.clone());
            }
        }
        Ok(Self(names.to_vec()))
    }

    /// Whether an event is selected. Lines of the trace marker always are.
    pub fn has(&self, event: &str) -> bool {
        let folder = text::EVENTS.iter().find(|(_, name)| *name == event);
        let is = |wanted: &String| match wanted.strip_suffix('*') {
            Some(start) => event.starts_with(start),
            None => event == wanted || folder.is_some_and(|(folder, _)| folder == wanted),
        };
        self.0.is_empty() || folder.is_none() || self.0.iter().any(is)
    }
}

/// How writing failed, if it did.
pub type Failure = Arc<Mutex<Option<io::Error>>>;

/// Writes a trace.
#[derive(Debug)]
pub struct Ftrace<W> {
    out: W,
    selection: Selection,
    /// The line that is being made, and its fields.
    line: String,
    fields: String,
    failure: Failure,
}

impl<W: Write> Ftrace<W> {
    /// With its head. The writer should be buffered.
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

    fn put(&mut self) {
        let written = self.out.write_all(self.line.as_bytes());
        self.note(written);
        self.line.clear();
    }

    /// The first failure is kept; what follows it is lost, and the run goes on.
    fn note(&self, written: io::Result<()>) {
        if let Err(e) = written {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
        }
    }

    /// A line whose fields are made.
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
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        let name = text::name(event);
        if !self.selection.has(name) {
            return;
        }
        self.fields.clear();
        text::fields(event, &mut self.fields);
        self.write(at, name);
    }

    fn marked(&mut self, at: Moment<'_>, text: &str) {
        self.fields.clear();
        self.fields.push_str(text);
        self.write(at, text::MARK);
    }

    fn ended(&mut self, _: &dyn Fn() -> String) {
        let flushed = self.out.flush();
        self.note(flushed);
    }
}
