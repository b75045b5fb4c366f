//! The world around a guest: its calendar and its disks, in one thread and one order.
//!
//! Virtual time moves only while the guest waits. Then the earlier of two events happens: a disk
//! completes requests and interrupts the guest, or the guest runs at the time that it requested.
//! Everything else is an answer to a message. So two runs of equal guests see the same messages at
//! the same times, however busy the host is.

use crate::calendar::Calendar;
use crate::disk::Disk;
use crate::outside::{Ending, Limits, Outside, Pace, Progress, Watched, readable};
use crate::virtio::{Asked, Connection};
use sim::Control;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How far a guest may run without asking, in virtual nanoseconds: this bounds how long it may run
/// without visible progress.
const LEASH: u64 = 100_000_000;
/// The same for a guest that follows wall time: short, so that it reacts to keys.
const SHORT_LEASH: u64 = 5_000_000;
/// A guest that lags behind wall time by more than this does not catch up but continues from there.
const BEHIND: Duration = Duration::from_millis(100);
/// A disk and its connection, which is there once the guest's driver has connected.
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

/// Returns the name of the socket of the disk with this number in a run's folder.
pub fn port_name(disk: usize) -> String {
    format!("disk{disk}")
}

/// The origin of the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Clock,
    Port(usize),
    /// No message within the time to wait.
    Nobody,
}

impl Server {
    /// Makes the world of a guest with these disks, with the sockets of its clock and disks in
    /// `folder`.
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

    /// Returns the virtual time in nanoseconds of the next event: a completion of a disk, or the
    /// time that the guest wants to run at; 0 if there is none.
    fn next_event(&self) -> u64 {
        let wanted = self.calendar.as_ref().and_then(Calendar::request);
        let next = [self.next_completion(), wanted].into_iter().flatten().min();
        next.unwrap_or(0)
    }

    /// Waits for a message for at most `wait_ms` milliseconds and returns its source, without
    /// reading it; the clock before the disks, since messages to the clock were sent first.
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

    /// Serves a message of the guest to its clock (User-Mode Linux's time travel): a request of a
    /// time, a wait, a question. The first call accepts the guest's connection.
    fn serve_clock(&mut self) -> io::Result<()> {
        match &mut self.calendar {
            Some(calendar) => calendar.serve(),
            None => {
                self.calendar = Some(Calendar::new(self.clock.accept()?.0));
                Ok(())
            }
        }
    }

    /// Serves a message of the guest's driver to the disk with index `i`; the first call accepts
    /// the connection. Takes the requests that a kick announces and lowers the guest's bound to
    /// their next completion, before the kick is acknowledged.
    fn serve_disk(&mut self, i: usize) -> io::Result<()> {
        let port = &mut self.ports[i];
        // The driver connects first.
        let Some(connection) = &mut port.connection else {
            let socket: UnixStream = port.listener.accept()?.0;
            port.connection = Some(Connection::new(socket, port.disk.capacity()));
            return Ok(());
        };
        // A step of the device's setup needs nothing else; a kick announces requests in the ring.
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

    /// Returns the virtual time (ns) of the next completion on any disk; `None` if no request is in
    /// flight.
    fn next_completion(&self) -> Option<u64> {
        let now = self.now();
        let completions = self
            .ports
            .iter()
            .filter_map(|p| p.disk.next_completion(now));
        completions.min()
    }

    /// Moves virtual time to the next event, while the guest waits: to a completion of a disk, or
    /// to the time at which the guest wants to run, which it then does, up to a bound that depends
    /// on `pace`. Fails if there is no next event.
    fn step(&mut self, pace: Pace) -> io::Result<()> {
        let ends = self.next_completion();
        let Some(calendar) = &mut self.calendar else {
            return Ok(());
        };
        match (ends, calendar.request()) {
            (Some(at), wanted) if wanted.is_none_or(|wanted| at <= wanted) => {
                calendar.advance(at);
                self.complete_requests(at)
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
                "deadlock: the guest is idle without a timer, and no request is under way",
            )),
        }
    }

    /// Completes the requests that are due at virtual time `now` (ns) on all disks and interrupts
    /// the guest for each disk, serving its clock until it has taken the interrupt.
    fn complete_requests(&mut self, now: u64) -> io::Result<()> {
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
            // The guest's interrupt handler asks for the time before it replies to the call.
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

impl Outside for Server {
    /// Serves messages of the guest, and moves virtual time to the next event while the guest
    /// waits, until it ends. Fails if a connection is closed or a message is wrong.
    fn until_it_ends(
        &mut self,
        limits: Limits,
        control: &Control,
        watched: &mut dyn Watched,
    ) -> io::Result<Ending> {
        let mut progress = Progress::new();
        let mut follower = (limits.pace == Pace::Ours).then(Follower::new);
        loop {
            let now = self.now();
            if let Some(ending) = limits.reached(now, control) {
                return Ok(ending);
            }
            if progress.to(now) {
                control.sim_ns.store(now, Relaxed);
            }
            let waits = self.calendar.as_ref().is_some_and(Calendar::waiting);
            // Milliseconds to wait before the next event, if virtual time may not outrun wall time.
            let early = match &mut follower {
                Some(follower) if waits => follower.early(self.next_event(), Instant::now()),
                _ => None,
            };
            // A driver's first messages have no replies: further ones may still be on their way.
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
                    if let Some(still) = progress.stalled_for(limits.patience) {
                        return Ok(Ending::Hung(still));
                    }
                    if !watched.alive() {
                        return Ok(Ending::Gone);
                    }
                }
                Source::Clock => self.serve_clock()?,
                Source::Port(i) => self.serve_disk(i)?,
            }
            // A guest that sends messages without end but never moves its time also counts as hung.
            if progress.on_message()
                && let Some(still) = progress.stalled_for(limits.patience)
            {
                return Ok(Ending::Hung(still));
            }
        }
    }

    fn now(&self) -> u64 {
        self.calendar.as_ref().map_or(0, Calendar::now)
    }

    fn disks(&self) -> Vec<&Disk> {
        self.ports.iter().map(|p| &p.disk).collect()
    }
}

/// Holds a guest's time back to wall time.
struct Follower {
    /// The wall time that corresponds to virtual time 0.
    zero: Instant,
}

impl Follower {
    /// Starts to hold a guest's time back to wall time: virtual time 0 corresponds to now.
    fn new() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    /// Returns the milliseconds of wall time to wait before the guest may reach virtual time `at`
    /// (ns), at most a tenth of a second, so that a wish to stop is noticed; `None`: no wait. A
    /// guest that lags far behind does not catch up.
    fn early(&mut self, at: u64, now: Instant) -> Option<i64> {
        let due = self.zero + Duration::from_nanos(at);
        if now > due + BEHIND {
            self.zero += now - due;
        }
        let early = due.saturating_duration_since(now).as_millis();
        (early > 0).then(|| early.min(100) as i64)
    }
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
        // Long waits are cut into pieces.
        assert_eq!(follower.early(5_000_000_000, zero + 50 * MS), Some(100));
        // A small lag is caught up.
        assert_eq!(follower.early(60_000_000, zero + 100 * MS), None);
        assert_eq!(follower.zero, zero);
        // After a large lag time continues from there.
        assert_eq!(follower.early(70_000_000, zero + 3000 * MS), None);
        assert_eq!(follower.early(80_000_000, zero + 3000 * MS), Some(10));
    }
}
