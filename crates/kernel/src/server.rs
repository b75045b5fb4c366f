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
        let mut progress = (0, Instant::now());
        loop {
            if control.stop.load(Relaxed) {
                return Ok(Ending::Stopped);
            }
            let now = self.now();
            if limits.time_ns > 0 && now >= limits.time_ns {
                return Ok(Ending::TimeLimit);
            }
            if now > progress.0 {
                progress = (now, Instant::now());
                control.sim_ns.store(now, Relaxed);
            }
            let waits = self.calendar.as_ref().is_some_and(Calendar::waiting);
            // A driver's first messages have no replies: they may still be under way.
            match self.listen(if waits { 0 } else { 200 })? {
                Source::Nobody if waits => {
                    if watched.done() {
                        return Ok(Ending::Done);
                    }
                    self.step()?;
                }
                Source::Nobody => {
                    let still = progress.1.elapsed();
                    if still > limits.patience {
                        return Ok(Ending::Hung(still));
                    }
                    if !watched.alive() {
                        return Ok(Ending::Gone);
                    }
                }
                Source::Clock => self.clock()?,
                Source::Port(i) => self.port(i)?,
            }
        }
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
    fn step(&mut self) -> io::Result<()> {
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
                let leash = wanted.max(calendar.now()).saturating_add(LEASH);
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
