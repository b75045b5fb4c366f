//! A run as a trace for Perfetto (ui.perfetto.dev): which tasks reclaim, what they wait on, how
//! long disk queues are.
//!
//! Every task is a thread. On its track direct reclaim, kswapd's balancing and shrinkers are
//! slices, and every other event that is not about a single page is an instant; a track below it
//! has the task's waits. Each disk's queue is a counter. Events have the names and fields of
//! [`ftrace`](super::ftrace).
//!
//! The format is protocol buffers, of which it needs three kinds of fields. Numbers of messages and
//! fields are those of Perfetto's `protos/perfetto/trace/perfetto_trace.proto`, against which
//! `python/tests/test_exports.py` reads a trace.

use super::ftrace::{Failure, text};
use super::waiting::Ended;
use crate::world::{Listener, Moment};
use mm::world::TaskId;
use mm::world::event::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::PoisonError;

/// A message under construction.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    /// Appends a number in the variable-length form of protocol buffers: seven bits a byte, the
    /// lowest first, the top bit set in all but the last byte.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Adds a number as field `field` of the message and returns the message.
    fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds a byte string as field `field` of the message and returns the message.
    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
}

/// `Trace.packet`.
const PACKET: u32 = 1;
/// Number of the only sequence of packets.
const SEQUENCE: u64 = 1;
/// `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// Number of the process whose threads are the tasks.
const MACHINE: u64 = 1;
/// First numbers of tracks, by kind.
const THREADS: u64 = 1 << 32;
const WAITS: u64 = 2 << 32;
const QUEUES: u64 = 3 << 32;

/// Writes events as a Perfetto trace.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: W,
    failure: Failure,
    /// Tracks that have been described, with their present names.
    known: BTreeMap<u64, String>,
    /// Tasks with an open slice of each kind, which the next event of the kind ends.
    reclaiming: BTreeSet<TaskId>,
    balancing: BTreeSet<TaskId>,
    shrinking: BTreeSet<TaskId>,
    fields: String,
}

impl<W: Write> Perfetto<W> {
    /// Starts a trace with a description of the machine. The writer should be buffered.
    pub fn new(out: W, failure: Failure) -> Self {
        let mut trace = Self {
            out,
            failure,
            known: BTreeMap::new(),
            reclaiming: BTreeSet::new(),
            balancing: BTreeSet::new(),
            shrinking: BTreeSet::new(),
            fields: String::new(),
        };
        let process = Message::default().number(1, MACHINE).text(6, "machine");
        let track = Message::default().number(1, MACHINE).message(3, &process);
        // SEQ_INCREMENTAL_STATE_CLEARED: no earlier packet belongs to this sequence.
        let packet = Message::default().number(10, SEQUENCE).number(13, 1);
        trace.packet(packet.message(60, &track));
        trace
    }

    /// Writes a packet to the trace. Keeps the first error for the caller of the run, which
    /// continues.
    fn packet(&mut self, packet: Message) {
        let whole = Message::default().message(PACKET, &packet);
        if let Err(e) = self.out.write_all(&whole.0) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
        }
    }

    /// Describes track number `uuid` in the trace, if it is new or its name has changed; `track`
    /// adds what its kind needs.
    fn describe(&mut self, uuid: u64, name: &str, track: impl FnOnce(Message) -> Message) {
        if self.known.get(&uuid).is_some_and(|known| known == name) {
            return;
        }
        self.known.insert(uuid, name.to_owned());
        let track = track(Message::default().number(1, uuid));
        let packet = Message::default().number(10, SEQUENCE).message(60, &track);
        self.packet(packet);
    }

    /// Returns the number of a task's track, described first if it is new or the task has another
    /// name. Task 0 stands for interrupts.
    fn thread(&mut self, task: TaskId, comm: &str) -> u64 {
        let uuid = THREADS + u64::from(task);
        let name = if task == 0 { "interrupts" } else { comm };
        self.describe(uuid, name, |track| {
            let thread = Message::default()
                .number(1, MACHINE)
                .number(2, u64::from(task))
                .text(5, name);
            track.number(5, MACHINE).message(4, &thread)
        });
        uuid
    }

    /// Writes an event on a track at `ns` nanoseconds. `kind`: begin or end of a slice, or an
    /// instant; an end has no name. `fields`: text shown with the event; may be empty.
    fn event(&mut self, ns: u64, kind: u64, track: u64, name: &str, fields: &str) {
        let mut event = Message::default().number(9, kind).number(11, track);
        if kind != END {
            event = event.text(23, name);
        }
        if !fields.is_empty() {
            // A DebugAnnotation: its name and a string value.
            let note = Message::default().text(10, "fields").text(6, fields);
            event = event.message(4, &note);
        }
        self.put(ns, &event);
    }

    /// Writes an event in a packet with the time `ns` in nanoseconds.
    fn put(&mut self, ns: u64, event: &Message) {
        let packet = Message::default().number(8, ns).number(10, SEQUENCE);
        self.packet(packet.message(11, event));
    }

    /// Begins (`begins`) or ends a slice on the track of the moment's task, with `self.fields` as
    /// text; does nothing if it is already open, or not open. `open` selects the set of tasks that
    /// have a slice of this kind open.
    fn slice(
        &mut self,
        at: Moment<'_>,
        open: fn(&mut Self) -> &mut BTreeSet<TaskId>,
        begins: bool,
        name: &str,
    ) {
        let changed = match begins {
            true => open(self).insert(at.task),
            false => open(self).remove(&at.task),
        };
        if changed {
            let (track, kind) = (self.thread(at.task, at.comm), [END, BEGIN][begins as usize]);
            let fields = std::mem::take(&mut self.fields);
            self.event(at.ns, kind, track, name, &fields);
            self.fields = fields;
        }
    }
}

impl<W: Write + Send + std::fmt::Debug> Listener for Perfetto<W> {
    /// Writes an event of the run: the begin or end of a slice for direct reclaim, kswapd's
    /// balancing and shrinkers, otherwise an instant. Events about single pages are left out,
    /// because there are too many.
    fn heard(&mut self, at: Moment<'_>, event: &Event) {
        if event.by_page() {
            return;
        }
        self.fields.clear();
        text::fields(event, &mut self.fields);
        match event {
            Event::DirectReclaimBegin { .. } => {
                self.slice(at, |s| &mut s.reclaiming, true, "direct reclaim");
            }
            Event::DirectReclaimEnd { .. } => {
                self.slice(at, |s| &mut s.reclaiming, false, "");
            }
            Event::KswapdWake { .. } => {
                self.slice(at, |s| &mut s.balancing, true, "balance");
            }
            Event::KswapdSleep { .. } => self.slice(at, |s| &mut s.balancing, false, ""),
            Event::ShrinkSlabStart { shrinker, .. } => {
                self.slice(at, |s| &mut s.shrinking, true, shrinker);
            }
            Event::ShrinkSlabEnd { .. } => self.slice(at, |s| &mut s.shrinking, false, ""),
            _ => {
                let track = self.thread(at.task, at.comm);
                let fields = std::mem::take(&mut self.fields);
                self.event(at.ns, INSTANT, track, text::name(event), &fields);
                self.fields = fields;
            }
        }
    }

    /// Writes a mark, such as the workload's beginning, as an instant on the task's track.
    fn marked(&mut self, at: Moment<'_>, text: &str) {
        let track = self.thread(at.task, at.comm);
        self.event(at.ns, INSTANT, track, text, "");
    }

    /// Writes a wait that has ended as a slice on a track below the task's.
    fn waited(&mut self, wait: &Ended, comm: &str) {
        let parent = self.thread(wait.task, comm);
        let uuid = WAITS + u64::from(wait.task);
        self.describe(uuid, "waits", |track| {
            track.number(5, parent).text(2, "waits")
        });
        self.event(wait.since, BEGIN, uuid, wait.on.kind.name(), &wait.object());
        self.event(wait.until, END, uuid, "", "");
    }

    /// Writes the number of requests in a disk's queue at `ns` nanoseconds as a value of the disk's
    /// counter.
    fn queued(&mut self, ns: u64, disk: usize, requests: u32) {
        let uuid = QUEUES + disk as u64;
        let name = format!("disk {disk} queue");
        self.describe(uuid, &name, |track| {
            let counter = Message::default().text(6, "requests");
            track.number(5, MACHINE).text(2, &name).message(8, &counter)
        });
        let event = Message::default().number(9, COUNTER).number(11, uuid);
        self.put(ns, &event.number(30, u64::from(requests)));
    }

    fn hears_waits(&self) -> bool {
        true
    }

    /// Flushes the output at the end of the run.
    fn ended(&mut self, _: &dyn Fn() -> String) {
        if let Err(e) = self.out.flush() {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_protocol_buffers() {
        let message = Message::default().number(1, 150).text(2, "testing");
        // The examples of protobuf.dev/programming-guides/encoding.
        let expected = [0x08, 0x96, 0x01, 0x12, 0x07];
        assert_eq!(message.0[..5], expected);
        assert_eq!(&message.0[5..], b"testing");
        assert_eq!(Message::default().number(60, 0).0, [0xe0, 0x03, 0x00]);
    }

    #[test]
    fn slices_are_balanced_whatever_is_heard() {
        let failure = Failure::default();
        let mut trace = Perfetto::new(Vec::new(), failure);
        let at = Moment {
            ns: 5,
            cpu: 0,
            task: 3,
            comm: "dd",
        };
        let sleep = Event::KswapdSleep { nid: 0 };
        let wake = Event::KswapdWake { nid: 0, order: 0 };
        trace.heard(at, &sleep);
        let quiet = trace.out.len();
        trace.heard(at, &wake);
        let begun = trace.out.len();
        assert!(begun > quiet);
        trace.heard(at, &wake);
        assert_eq!(trace.out.len(), begun, "it is balancing already");
        trace.heard(at, &sleep);
        let ended = trace.out.len();
        assert!(ended > begun);
        trace.heard(at, &sleep);
        assert_eq!(trace.out.len(), ended);
    }
}
