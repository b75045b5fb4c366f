//! The executor with an io_uring: one thread that submits all jobs handed over in one system call,
//! sleeps in that call until a transfer completes, and ends it. `unsafe`, because the memory of a
//! transfer belongs to the kernel while it is on its way.
//!
//! # Who may touch which memory
//!
//! [`Flights`] owns a transfer from before its submission until its completion was seen, and with
//! it the pages (locked, or under writeback, so no other task frees, reads or writes them), their
//! file, which keeps the descriptor open, and the vector of addresses. It never gives one up
//! earlier: if the thread panics, it waits for the transfers on their way, and if it cannot, it
//! ends the process.
#![allow(unsafe_code)]

use crate::LiveMm;
use crate::io::{Next, Transfer};
use io_uring::{IoUring, opcode, squeue, types};
use mm::world::TaskId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

/// Most transfers on their way, the bell not counted: several devices that hang may hold so many.
const MOST: usize = 255;
/// The `user_data` of the bell's completion.
const BELL: u64 = u64::MAX;

/// An io_uring, for the thread that made it, with an eventfd (the bell) that wakes this thread.
pub struct Ring {
    ring: IoUring,
    bell: Arc<OwnedFd>,
}

fn errno(e: &std::io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

impl Ring {
    /// Creates a ring, or returns why the system has none: the kernel is too old, or it is
    /// forbidden (seccomp, the sysctl `kernel.io_uring_disabled`).
    pub fn new() -> Result<Self, Errno> {
        let entries = MOST as u32 + 1;
        // Completions are processed when our thread asks for them, and interrupt no other thread.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries);
        let ring = match ring {
            Err(e) if errno(&e) == Errno::INVAL => IoUring::new(entries),
            other => other,
        };
        let ring = ring.map_err(|e| errno(&e))?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self {
            ring,
            bell: Arc::new(bell),
        })
    }

    /// Returns a function that rings the bell: it wakes the ring's thread from any other thread.
    pub fn bell(&self) -> impl Fn() + Send + Sync + use<> {
        let bell = Arc::clone(&self.bell);
        move || {
            let rung = rustix::io::retry_on_intr(|| rustix::io::write(&*bell, &1u64.to_ne_bytes()));
            rung.expect("a count below 2^64");
        }
    }
}

/// A transfer on its way.
struct Flight<'a> {
    transfer: Transfer<'a>,
    vector: Vec<libc::iovec>,
}

/// All transfers on their way.
struct Flights<'a> {
    ring: Ring,
    places: Vec<Option<Flight<'a>>>,
    free: Vec<usize>,
    /// The buffer for the bell's count.
    heard: Box<[u8; 8]>,
    /// True while a read of the bell is submitted.
    listening: bool,
}

/// The ring's answer to the transfer at a place.
type Answer = (usize, Result<usize, Errno>);
/// A transfer that is over, with its result.
type Ended<'a> = (Transfer<'a>, Result<(), Errno>);

impl<'a> Flights<'a> {
    /// Returns the state of a ring without transfers.
    fn new(ring: Ring) -> Self {
        Self {
            ring,
            places: (0..MOST).map(|_| None).collect(),
            free: (0..MOST).collect(),
            heard: Box::default(),
            listening: false,
        }
    }

    fn busy(&self) -> bool {
        self.free.len() < MOST
    }

    /// Queues an entry for submission.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry points to is ours and stays until its completion was
        // seen: `heard` and the places (module documentation).
        let pushed = unsafe { self.ring.ring.submission().push(entry) };
        pushed.expect("as many entries as transfers and a bell");
    }

    /// Submits a read of the bell, unless one is submitted, so that ringing it ends the thread's
    /// sleep in the ring.
    fn listen(&mut self) {
        if !self.listening {
            let fd = types::Fd(self.ring.bell.as_raw_fd());
            let read = opcode::Read::new(fd, self.heard.as_mut_ptr(), 8).build();
            self.push(&read.user_data(BELL));
            self.listening = true;
        }
    }

    /// Submits a transfer, or the rest of it, to the ring; `Some`: the transfer is over without the
    /// ring, with its result.
    fn begin(&mut self, mut transfer: Transfer<'a>) -> Option<Ended<'a>> {
        let (at, len) = transfer.rest();
        if len == 0 {
            return Some((transfer, Ok(())));
        }
        let writes = transfer.writes();
        let file = Arc::clone(&transfer.file);
        let way = loop {
            match file.way(writes, at, len) {
                Ok(way) => break way,
                Err(e) => {
                    if let Some(result) = transfer.answered(Err(e)) {
                        return Some((transfer, result));
                    }
                }
            }
        };
        let Some(way) = way else {
            let result = transfer.run();
            return Some((transfer, result));
        };
        let mut vector: Vec<libc::iovec> = Vec::new();
        transfer.addresses(way.most.min(len), |base, len| {
            let iov_base = base.cast::<libc::c_void>();
            match vector.last_mut() {
                // Frames of neighbouring pages are often contiguous.
                Some(v) if v.iov_base.wrapping_byte_add(v.iov_len) == iov_base => v.iov_len += len,
                _ => vector.push(libc::iovec {
                    iov_base,
                    iov_len: len,
                }),
            }
        });
        let (fd, n) = (types::Fd(way.descriptor.as_raw_fd()), vector.len() as u32);
        let entry = match writes {
            true => opcode::Writev::new(fd, vector.as_ptr(), n)
                .offset(at)
                .build(),
            false => opcode::Readv::new(fd, vector.as_ptr(), n)
                .offset(at)
                .build(),
        };
        let place = self.free.pop().expect("a place for what was taken");
        self.places[place] = Some(Flight { transfer, vector });
        self.push(&entry.user_data(place as u64));
        None
    }

    /// Submits the queued entries, waits until at least one transfer has completed or the bell was
    /// rung, and returns the answers by the places of their transfers.
    fn wait(&mut self) -> Result<Vec<Answer>, Errno> {
        match self.ring.ring.submit_and_wait(1) {
            Ok(_) => {}
            // These errors leave completions to be taken.
            Err(e) if [Errno::INTR, Errno::BUSY, Errno::AGAIN].contains(&errno(&e)) => {}
            Err(e) => return Err(errno(&e)),
        }
        let mut answers = Vec::new();
        for c in self.ring.ring.completion() {
            if c.user_data() == BELL {
                self.listening = false;
                continue;
            }
            let answer = match c.result() {
                n if n < 0 => Err(Errno::from_raw_os_error(-n)),
                n => Ok(n as usize),
            };
            answers.push((c.user_data() as usize, answer));
        }
        Ok(answers)
    }

    /// Removes the transfer at a place, whose completion was seen, and frees the place.
    fn take(&mut self, place: usize) -> Transfer<'a> {
        let flight = self.places[place].take().expect("a transfer on its way");
        self.free.push(place);
        drop(flight.vector);
        flight.transfer
    }
}

impl Drop for Flights<'_> {
    /// Waits for all transfers on their way, because the kernel still uses their memory; ends the
    /// process if it cannot.
    fn drop(&mut self) {
        while self.busy() {
            let Ok(answers) = self.wait() else {
                // The kernel may still write to our pages, for an unknown time.
                std::process::abort();
            };
            for (place, _) in answers {
                drop(self.take(place));
            }
        }
    }
}

/// Makes the transfers that are handed over by a ring, as `task`, until the queue is stopped and
/// empty: the body of the ring's thread. The executor was added before ([`crate::io::Io::begin`]).
pub fn run(mm: &LiveMm, task: TaskId, ring: Ring) {
    let mut flights = Flights::new(ring);
    let mut ended: Vec<Ended<'_>> = Vec::new();
    loop {
        while !flights.free.is_empty() {
            match mm.world.io(0).next(flights.busy() || !ended.is_empty()) {
                Next::Begin(job) => ended.extend(flights.begin(Transfer::begin(mm, job))),
                Next::Sleep => break,
                Next::End => return,
            }
        }
        if ended.is_empty() {
            flights.listen();
            let answers = flights.wait().expect("a ring that works");
            for (place, answer) in answers {
                let mut transfer = flights.take(place);
                match transfer.answered(answer) {
                    Some(result) => ended.push((transfer, result)),
                    None => ended.extend(flights.begin(transfer)),
                }
            }
        }
        if !ended.is_empty() {
            let end = async {
                for (transfer, result) in ended.drain(..) {
                    transfer.end(mm, result);
                }
            };
            mm.world.cpus.block_on(task, end);
        }
    }
}
