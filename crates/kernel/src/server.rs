//! The world around a guest: its calendar and its disks, in one thread and one order.
//!
//! Virtual time moves only while the guest waits. Then the earlier of two things happens: a disk ends
//! requests and calls the guest, or the guest runs at the time that it asked for. Everything else is an
//! answer to a message. So two runs of equal guests see the same messages at the same times, however busy
//! the host is.

use crate::calendar::Calendar;
use crate::disk::Disk;
use crate::store::Store;
use crate::virtio::{Asked, Connection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sim::Control;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How far a guest may go without asking, in virtual nanoseconds: so that its progress is seen.
const LEASH: u64 = 100_000_000;
/// The same of a guest whose time follows ours: so that it answers whoever types.
const SHORT_LEASH: u64 = 5_000_000;
/// A guest that is so far behind our time, in wall time, goes on from there and does not catch up.
const BEHIND: Duration = Duration::from_millis(100);
/// Messages between two looks at the host's clock.
const MESSAGES: u32 = 4096;

/// How a guest ended, as its world saw it.
#[derive(Debug)]
pub enum Ending {
    /// It has said everything.
    Done,
    /// It closed its connections before that: it powered off, or died.
    Gone,
    /// The user interrupted the run.
    Stopped,
    /// The run's time limit was reached.
    TimeLimit,
    /// Its virtual time stood still for so long.
    Hung(Duration),
    /// What it said, or what the host could not do, made going on impossible.
    Broken(io::Error),
}

/// What a server asks about its guest.
pub trait Watched {
    /// Whether its process runs.
    fn alive(&mut self) -> bool;

    /// Whether it has said everything. A guest that would power off with its filesystems mounted takes their
    /// disks away from them first, which can wait for ever.
    fn done(&mut self) -> bool;
}

/// When to give a guest up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Virtual nanoseconds; 0: never.
    pub time_ns: u64,
    /// Wall time without virtual progress.
    pub patience: Duration,
    /// How fast its time goes.
    pub pace: Pace,
}

/// How fast a guest's time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as everything is done.
    Free,
    /// As ours, or slower where there is too much to do: for somebody at its console.
    Ours,
}

/// A disk with its connection, once the guest's driver has come for it.
struct Port {
    listener: UnixListener,
    connection: Option<Connection>,
    disk: Disk,
}

/// The world around a guest.
pub struct Server {
    clock: UnixListener,
    calendar: Option<Calendar>,
    ports: Vec<Port>,
}

/// The name of the clock's socket in a run's folder.
pub const CLOCK: &str = "clock";

/// The name of a disk's socket.
pub fn port_name(disk: usize) -> String {
    format!("disk{disk}")
}

/// Who has something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Clock,
    Port(usize),
    /// Nobody within the time to wait.
    Nobody,
}

impl Server {
    /// A world with these disks, whose sockets are in `folder`.
    ///
    /// # Errors
    /// The sockets can't be made.
    pub fn new(folder: &Path, disks: Vec<Disk>) -> io::Result<Self> {
        let mut ports = Vec::new();
        for (i, disk) in disks.into_iter().enumerate() {
            ports.push(Port {
                listener: UnixListener::bind(folder.join(port_name(i)))?,
                connection: None,
                disk,
            });
        }
        Ok(Self {
            clock: UnixListener::bind(folder.join(CLOCK))?,
            calendar: None,
            ports,
        })
    }

    /// The disks, in order.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.ports.iter().map(|p| &p.disk)
    }

    /// What the disks hold, when the guest is gone.
    pub fn into_stores(self) -> Vec<Store> {
        self.ports
            .into_iter()
            .map(|p| p.disk.into_store())
            .collect()
    }

    /// Virtual nanoseconds since the guest was switched on.
    pub fn now(&self) -> u64 {
        self.calendar.as_ref().map_or(0, Calendar::now)
    }

    /// Serves the guest until it has said everything, is gone or given up.
    pub fn serve(
        &mut self,
        limits: Limits,
        control: &Control,
        watched: &mut dyn Watched,
    ) -> Ending {
        match self.until_it_ends(limits, control, watched) {
            Ok(ending) => ending,
            Err(e) if gone(&e) => Ending::Gone,
            Err(e) => Ending::Broken(e),
        }
    }

    fn until_it_ends(
        &mut self,
        limits: Limits,
        control: &Control,
        watched: &mut dyn Watched,
    ) -> io::Result<Ending> {
        let mut progress = Progress::new();
        let mut follower = (limits.pace == Pace::Ours).then(Follower::new);
        loop {
            if control.stop.load(Relaxed) {
                return Ok(Ending::Stopped);
            }
            let now = self.now();
            if limits.time_ns > 0 && now >= limits.time_ns {
                return Ok(Ending::TimeLimit);
            }
            if progress.to(now) {
                control.sim_ns.store(now, Relaxed);
            }
            let waits = self.calendar.as_ref().is_some_and(Calendar::waiting);
            let early = match &mut follower {
                Some(follower) if waits => follower.early(self.next(), Instant::now()),
                _ => None,
            };
            // A driver's first messages have no replies: they may still be under way.
            match self.listen(if waits { early.unwrap_or(0) } else { 200 })? {
                Source::Nobody if waits => {
                    if watched.done() {
                        return Ok(Ending::Done);
                    }
                    if early.is_none() {
                        self.step(limits.pace)?;
                    }
                }
                Source::Nobody => {
                    if let Some(still) = progress.none_for(limits.patience) {
                        return Ok(Ending::Hung(still));
                    }
                    if !watched.alive() {
                        return Ok(Ending::Gone);
                    }
                }
                Source::Clock => self.clock()?,
                Source::Port(i) => self.port(i)?,
            }
            // One that talks without end, and never of a later time, is not heard as silent.
            if progress.message()
                && let Some(still) = progress.none_for(limits.patience)
            {
                return Ok(Ending::Hung(still));
            }
        }
    }

    /// When something happens next.
    fn next(&self) -> u64 {
        let wanted = self.calendar.as_ref().and_then(Calendar::request);
        let next = [self.next_completion(), wanted].into_iter().flatten().min();
        next.unwrap_or(0)
    }

    /// Who speaks first; the clock before the disks, for what was said to the clock came first.
    fn listen(&self, wait_ms: i64) -> io::Result<Source> {
        let clock = match &self.calendar {
            Some(calendar) => calendar.as_fd(),
            None => self.clock.as_fd(),
        };
        let ports = self.ports.iter().map(|p| match &p.connection {
            Some(connection) => connection.as_fd(),
            None => p.listener.as_fd(),
        });
        Ok(
            match readable(std::iter::once(clock).chain(ports), wait_ms)? {
                None => Source::Nobody,
                Some(0) => Source::Clock,
                Some(i) => Source::Port(i - 1),
            },
        )
    }

    fn clock(&mut self) -> io::Result<()> {
        match &mut self.calendar {
            Some(calendar) => calendar.serve(),
            None => {
                self.calendar = Some(Calendar::new(self.clock.accept()?.0));
                Ok(())
            }
        }
    }

    fn port(&mut self, i: usize) -> io::Result<()> {
        let port = &mut self.ports[i];
        let Some(connection) = &mut port.connection else {
            let socket: UnixStream = port.listener.accept()?.0;
            port.connection = Some(Connection::new(socket, port.disk.capacity()));
            return Ok(());
        };
        if connection.serve()? == Asked::SetUp {
            return Ok(());
        }
        let Some(calendar) = &mut self.calendar else {
            return Err(io::Error::other("a request before the clock was started"));
        };
        let now = calendar.now();
        port.disk.take(now, connection)?;
        if let Some(at) = port.disk.next_completion(now) {
            calendar.lower(at)?;
        }
        connection.answer()
    }

    /// When something on a disk ends next.
    fn next_completion(&self) -> Option<u64> {
        let now = self.now();
        let of = self
            .ports
            .iter()
            .filter_map(|p| p.disk.next_completion(now));
        of.min()
    }

    /// Moves time, for the guest waits.
    fn step(&mut self, pace: Pace) -> io::Result<()> {
        let ends = self.next_completion();
        let Some(calendar) = &mut self.calendar else {
            return Ok(());
        };
        match (ends, calendar.request()) {
            (Some(at), wanted) if wanted.is_none_or(|wanted| at <= wanted) => {
                calendar.advance(at);
                self.end(at)
            }
            (ends, Some(wanted)) => {
                let leash = match pace {
                    Pace::Free => LEASH,
                    Pace::Ours => SHORT_LEASH,
                };
                let leash = wanted.max(calendar.now()).saturating_add(leash);
                calendar.run(ends.map_or(leash, |at| at.min(leash)))
            }
            _ => Err(io::Error::other(
                "the guest waits for nothing, and nothing will happen",
            )),
        }
    }

    /// Ends what is due on all disks.
    fn end(&mut self, now: u64) -> io::Result<()> {
        let Self {
            calendar, ports, ..
        } = self;
        let Some(calendar) = calendar else {
            return Ok(());
        };
        for Port {
            connection, disk, ..
        } in ports
        {
            let Some(connection) = connection else {
                continue;
            };
            if !disk.end(now, connection)? {
                continue;
            }
            connection.call()?;
            // The interrupt asks for the time before the call is replied to.
            loop {
                let calls = connection.calls().into_iter();
                match readable(std::iter::once(calendar.as_fd()).chain(calls), 10_000)? {
                    Some(0) => calendar.serve()?,
                    Some(_) => break connection.called()?,
                    None => return Err(io::Error::other("the guest takes no interrupts")),
                }
            }
        }
        Ok(())
    }
}

/// How far a guest has come, and when it did so in the host's time.
struct Progress {
    to: u64,
    at: Instant,
    messages: u32,
}

impl Progress {
    fn new() -> Self {
        Self {
            to: 0,
            at: Instant::now(),
            messages: 0,
        }
    }

    /// It is at this virtual time; whether that is later than before.
    fn to(&mut self, now: u64) -> bool {
        let later = now > self.to;
        if later {
            (self.to, self.messages) = (now, 0);
            self.at = Instant::now();
        }
        later
    }

    /// Something was said; whether so much was that it is time to look at the host's clock.
    fn message(&mut self) -> bool {
        self.messages = (self.messages + 1) % MESSAGES;
        self.messages == 0
    }

    /// The wall time for which there was none, if it is more than this.
    fn none_for(&self, patience: Duration) -> Option<Duration> {
        Some(self.at.elapsed()).filter(|still| *still > patience)
    }
}

/// What holds a guest's time back to ours.
struct Follower {
    /// When the guest's time was, or would have been, 0.
    zero: Instant,
}

impl Follower {
    fn new() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    /// Milliseconds of wall time to wait for before a guest may be at this virtual time, at most a tenth of a
    /// second at once, so that whoever stops it is heard; `None`: it is time.
    fn early(&mut self, at: u64, now: Instant) -> Option<i64> {
        let due = self.zero + Duration::from_nanos(at);
        if now > due + BEHIND {
            self.zero += now - due;
        }
        let early = due.saturating_duration_since(now).as_millis();
        (early > 0).then(|| early.min(100) as i64)
    }
}

/// The first that can be read, within so many milliseconds.
fn readable<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    wait_ms: i64,
) -> io::Result<Option<usize>> {
    let polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    let wait = Timespec {
        tv_sec: wait_ms / 1000,
        tv_nsec: wait_ms % 1000 * 1_000_000,
    };
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&wait)))?;
    Ok(polled.iter().position(|p| !p.revents().is_empty()))
}

/// Whether an error means that the guest has closed its end.
fn gone(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_guest_is_held_back_to_our_time() {
        let mut follower = Follower::new();
        let zero = follower.zero;
        assert_eq!(follower.early(50_000_000, zero), Some(50));
        assert_eq!(follower.early(50_000_000, zero + 20 * MS), Some(30));
        assert_eq!(follower.early(50_000_000, zero + 50 * MS), None);
        // A wait is taken in pieces.
        assert_eq!(follower.early(5_000_000_000, zero + 50 * MS), Some(100));
        // A little behind it catches up.
        assert_eq!(follower.early(60_000_000, zero + 100 * MS), None);
        assert_eq!(follower.zero, zero);
        // Far behind it goes on from where it is.
        assert_eq!(follower.early(70_000_000, zero + 3000 * MS), None);
        assert_eq!(follower.early(80_000_000, zero + 3000 * MS), Some(10));
    }

    #[test]
    fn a_later_time_is_progress_and_words_are_none() {
        let mut progress = Progress::new();
        assert!(progress.to(5) && !progress.to(5));
        let asked = (0..2 * MESSAGES).filter(|_| progress.message()).count();
        assert_eq!(asked, 2);
        progress.at -= 10 * MS;
        assert!(progress.none_for(9 * MS).is_some());
        assert!(progress.to(6));
        assert_eq!(progress.none_for(Duration::from_secs(3600)), None);
    }
}
