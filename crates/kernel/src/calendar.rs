//! The clock of a guest: the messages by which User-Mode Linux asks when it may run (Linux
//! `include/uapi/linux/um_timetravel.h`).
//!
//! The guest owns no clock. It *requests* the time of its next event and *waits*; the calendar
//! answers *run* when no earlier event is left, and adds *free until*: up to then the guest may
//! move its own clock without asking. The bound is never later than the next completion of a disk.
//! A disk request that brings an earlier completion lowers the bound before the guest's request is
//! acknowledged, so that the bound needs no guess about how fast a disk can be.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Op {
    Ack = 0,
    Start = 1,
    Request = 2,
    Wait = 3,
    Get = 4,
    Update = 5,
    Run = 6,
    FreeUntil = 7,
    TimeOfDay = 8,
    Broadcast = 9,
}

impl Op {
    /// Returns the kind of a message with this number on the wire; `None` if it is unknown.
    fn of(word: u32) -> Option<Self> {
        use Op::*;
        let all = [
            Ack, Start, Request, Wait, Get, Update, Run, FreeUntil, TimeOfDay, Broadcast,
        ];
        all.into_iter().find(|op| *op as u32 == word)
    }
}

/// Builds a message of `struct um_timetravel_msg`: kind, sequence number and time (or other value)
/// in nanoseconds, little endian.
fn message(op: Op, seq: u32, time: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(op as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&seq.to_le_bytes());
    bytes[8..].copy_from_slice(&time.to_le_bytes());
    bytes
}

/// The wall clock at which every guest boots: 2023-11-14 22:13:20, in nanoseconds since 1970.
const TIME_OF_DAY: u64 = 1_700_000_000 * 1_000_000_000;

/// The clock of one guest.
#[derive(Debug)]
pub struct Calendar {
    socket: UnixStream,
    /// Virtual time in nanoseconds.
    now: u64,
    /// Whether the guest waits for the time that it requested.
    waiting: bool,
    request: Option<u64>,
    free_until: u64,
    seq: u32,
}

impl Calendar {
    /// Makes the clock of the guest at the other end of `socket`, at time 0.
    pub fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            now: 0,
            waiting: false,
            request: None,
            free_until: 0,
            seq: 0,
        }
    }

    /// Returns the virtual time in nanoseconds. The guest's own clock may be ahead, up to its
    /// bound.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Moves the clock forward to `to`, in nanoseconds; an earlier time changes nothing.
    pub fn advance(&mut self, to: u64) {
        self.now = self.now.max(to);
    }

    /// Returns true if the guest waits to be told to run.
    pub fn waiting(&self) -> bool {
        self.waiting
    }

    /// Returns the time at which the guest wants to run next, in nanoseconds; `None` if it has
    /// asked for none.
    pub fn request(&self) -> Option<u64> {
        self.request
    }

    /// Sends a message to the guest without waiting for its acknowledgement.
    fn send(&mut self, op: Op, seq: u32, time: u64) -> io::Result<()> {
        self.socket.write_all(&message(op, seq, time))
    }

    /// Acknowledges the first message. From 6.12 on a guest expects two files with the
    /// acknowledgement, shared memory and a log, and without them closes the files whose numbers
    /// happen to lie on its stack (`time_travel_handle_message`), its console among them. The files
    /// sent here can't be mapped, so the guest keeps to messages; older kernels ignore them.
    fn welcome(&mut self, seq: u32) -> io::Result<()> {
        let null = File::open("/dev/null")?;
        let files = [null.as_fd(), null.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = message(Op::Ack, seq, 0);
        let sent = sendmsg(
            &self.socket,
            &[IoSlice::new(&bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// Reads one message of the guest and serves it: notes a request or a wait, answers a question,
    /// acknowledges. Returns the sequence number of our message that it acknowledges; `None` if it
    /// is another message.
    fn receive(&mut self) -> io::Result<Option<u32>> {
        let mut bytes = [0; 16];
        self.socket.read_exact(&mut bytes)?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let time = u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"));
        let seq = word(4);
        let op = Op::of(word(0)).ok_or_else(|| {
            io::Error::other(format!(
                "the guest's clock sent the unknown message {:#x}",
                word(0)
            ))
        })?;
        let mut answer = 0;
        match op {
            Op::Ack => return Ok(Some(seq)),
            Op::Start => {
                self.welcome(seq)?;
                return Ok(None);
            }
            Op::Broadcast | Op::Run | Op::FreeUntil => {}
            Op::Request => self.request = Some(time),
            Op::Wait => self.waiting = true,
            Op::Get => answer = self.now,
            Op::Update => self.advance(time),
            Op::TimeOfDay => answer = TIME_OF_DAY,
        }
        self.send(Op::Ack, seq, answer)?;
        Ok(None)
    }

    /// Serves the pending message of the guest.
    ///
    /// # Errors
    /// The guest has gone, or sent an unknown message.
    pub fn serve(&mut self) -> io::Result<()> {
        self.receive().map(drop)
    }

    /// Sends a message with a new sequence number, and serves messages of the guest until it is
    /// acknowledged.
    fn say(&mut self, op: Op, time: u64) -> io::Result<()> {
        self.seq = self.seq.wrapping_add(1);
        let seq = self.seq;
        self.send(op, seq, time)?;
        while self.receive()? != Some(seq) {}
        Ok(())
    }

    /// Tells the waiting guest to run: moves virtual time to the time that the guest requested, and
    /// lets it move its own clock freely up to `bound`, in nanoseconds.
    ///
    /// The bound is sent first, while the guest waits: a running guest could wait again before the
    /// bound arrives, and would apply it to its next turn.
    ///
    /// # Errors
    /// As [`Self::serve`].
    ///
    /// # Panics
    /// If the guest does not wait, or has requested no time.
    pub fn run(&mut self, bound: u64) -> io::Result<()> {
        assert!(self.waiting, "a guest that waits is told to run");
        let time = self
            .request
            .take()
            .expect("a guest that waits has asked for a time");
        self.advance(time);
        self.free_until = 0;
        if bound > self.now + 1 {
            self.say(Op::FreeUntil, bound)?;
            self.free_until = bound;
        }
        self.waiting = false;
        self.say(Op::Run, self.now)
    }

    /// Lowers the time up to which the guest may move its own clock freely to `time`, in
    /// nanoseconds, because a disk will complete a request then. Does nothing while the guest
    /// waits, or if its bound is not later.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub fn lower(&mut self, time: u64) -> io::Result<()> {
        if self.waiting || self.free_until <= time {
            return Ok(());
        }
        self.free_until = time;
        self.say(Op::FreeUntil, time)
    }
}

impl AsFd for Calendar {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest's end of the socket.
    struct Guest(UnixStream);

    impl Guest {
        fn say(&mut self, op: Op, seq: u32, time: u64) {
            let mut bytes = Vec::new();
            bytes.extend((op as u32).to_le_bytes());
            bytes.extend(seq.to_le_bytes());
            bytes.extend(time.to_le_bytes());
            self.0.write_all(&bytes).unwrap();
        }

        fn hear(&mut self) -> (u32, u32, u64) {
            let mut b = [0; 16];
            self.0.read_exact(&mut b).unwrap();
            let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
            (
                word(0),
                word(4),
                u64::from_le_bytes(b[8..].try_into().unwrap()),
            )
        }
    }

    #[test]
    fn a_guest_runs_when_it_asked_and_freely_until_the_bound() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut calendar, mut guest) = (Calendar::new(ours), Guest(theirs));
        guest.say(Op::Request, 1, 500);
        guest.say(Op::Wait, 2, 0);
        calendar.serve().unwrap();
        calendar.serve().unwrap();
        assert_eq!((calendar.request(), calendar.waiting()), (Some(500), true));
        assert_eq!((guest.hear(), guest.hear()), ((0, 1, 0), (0, 2, 0)));
        // The guest acknowledges both messages, and after the second reports that time has passed.
        guest.say(Op::Ack, 1, 0);
        guest.say(Op::Ack, 2, 0);
        guest.say(Op::Update, 3, 600);
        calendar.run(900).unwrap();
        assert_eq!(guest.hear(), (Op::FreeUntil as u32, 1, 900));
        assert_eq!(guest.hear(), (Op::Run as u32, 2, 500));
        calendar.serve().unwrap();
        assert_eq!(guest.hear(), (0, 3, 0));
        assert_eq!((calendar.now(), calendar.waiting()), (600, false));
        // A later completion leaves the bound, an earlier one lowers it.
        calendar.lower(950).unwrap();
        guest.say(Op::Ack, 3, 0);
        calendar.lower(700).unwrap();
        assert_eq!(guest.hear(), (Op::FreeUntil as u32, 3, 700));
    }

    #[test]
    fn a_guest_that_starts_is_given_two_files() {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut calendar, mut guest) = (Calendar::new(ours), Guest(theirs));
        guest.say(Op::Start, 9, u64::MAX);
        calendar.serve().unwrap();
        let mut bytes = [0; 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        recvmsg(&guest.0, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC).unwrap();
        let files: usize = beside
            .drain()
            .map(|m| match m {
                RecvAncillaryMessage::ScmRights(files) => files.count(),
                _ => 0,
            })
            .sum();
        assert_eq!((files, bytes), (2, message(Op::Ack, 9, 0)));
    }

    #[test]
    fn a_guest_that_waits_has_no_bound_to_lower() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut calendar, mut guest) = (Calendar::new(ours), Guest(theirs));
        for (op, seq) in [(Op::Request, 1), (Op::Wait, 2), (Op::Ack, 1), (Op::Ack, 2)] {
            guest.say(op, seq, 5);
        }
        calendar.serve().unwrap();
        calendar.serve().unwrap();
        calendar.run(100).unwrap();
        guest.say(Op::Wait, 3, 0);
        calendar.serve().unwrap();
        // Three acknowledgements, a bound and the permission to run.
        let heard: Vec<u32> = (0..5).map(|_| guest.hear().0).collect();
        let (bound, run) = (Op::FreeUntil as u32, Op::Run as u32);
        assert_eq!(heard, [0, 0, bound, run, 0]);
        calendar.lower(50).unwrap();
        guest.0.set_nonblocking(true).unwrap();
        let nothing = guest.0.read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_no_calendar_knows_is_an_error() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut calendar = Calendar::new(ours);
        theirs.write_all(&[77; 16]).unwrap();
        assert!(
            calendar
                .serve()
                .unwrap_err()
                .to_string()
                .contains("0x4d4d4d4d")
        );
        drop(theirs);
        assert_eq!(
            calendar.serve().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
