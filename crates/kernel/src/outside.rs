//! The world around a guest, as a run sees it: it serves the guest until it ends. Each back end has
//! its own.

use crate::disk::Disk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sim::Control;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Messages between two checks of the host's clock.
const MESSAGES: u32 = 4096;

/// How a guest ended.
#[derive(Debug)]
pub enum Ending {
    /// The guest sent its last frame.
    Done,
    /// The guest closed its connections before its last frame: it powered off, or died.
    Gone,
    /// The user interrupted the run.
    Stopped,
    /// The run's time limit was reached.
    TimeLimit,
    /// Virtual time stood still for this wall time.
    Hung(Duration),
    /// A wrong message of the guest, or an error of the host, ended the run.
    Broken(io::Error),
}

/// The server's view of its guest's process.
pub trait Watched {
    /// Returns true if the process runs.
    fn alive(&mut self) -> bool;

    /// Returns the CPU time that the process has taken, in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Returns true if the guest has sent its last frame. A guest that powers off with mounted
    /// filesystems first takes their disks away, and can wait for them for ever.
    fn done(&mut self) -> bool;
}

/// Limits at which a guest is stopped.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Virtual time in nanoseconds; 0: no limit.
    pub time_ns: u64,
    /// Longest wall time without virtual progress.
    pub patience: Duration,
    /// The pace of virtual time.
    pub pace: Pace,
}

impl Limits {
    /// Returns how a guest that has come to virtual time `now` (ns) is stopped, by the user or at
    /// its time limit; `None`: it goes on.
    pub(crate) fn reached(&self, now: u64, control: &Control) -> Option<Ending> {
        if control.stop.load(Relaxed) {
            return Some(Ending::Stopped);
        }
        (self.time_ns > 0 && now >= self.time_ns).then_some(Ending::TimeLimit)
    }
}

/// The pace of a guest's virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the work is done.
    Free,
    /// At most as fast as wall time: for a user at the console.
    Ours,
}

/// The world around a guest: its clock, and its disks.
pub trait Outside {
    /// Serves the guest until it has sent its last frame, is stopped by `control` or a limit, or
    /// hangs.
    ///
    /// # Errors
    /// A connection is closed or a message is wrong.
    fn until_it_ends(
        &mut self,
        limits: Limits,
        control: &Control,
        watched: &mut dyn Watched,
    ) -> io::Result<Ending>;

    /// Serves the guest until it has sent its last frame, is gone, or is stopped. Returns how it
    /// ended.
    fn serve(&mut self, limits: Limits, control: &Control, watched: &mut dyn Watched) -> Ending {
        match self.until_it_ends(limits, control, watched) {
            Ok(ending) => ending,
            Err(e) if gone(&e) => Ending::Gone,
            Err(e) => Ending::Broken(e),
        }
    }

    /// Returns the virtual nanoseconds since the guest was switched on.
    fn now(&self) -> u64;

    /// Returns the disks, in order.
    fn disks(&self) -> Vec<&Disk>;
}

/// How far a guest has come, and at which wall time.
pub(crate) struct Progress {
    to: u64,
    at: Instant,
    messages: u32,
}

impl Progress {
    /// Starts to watch a guest's progress at virtual time 0 and the present wall time.
    pub fn new() -> Self {
        Self {
            to: 0,
            at: Instant::now(),
            messages: 0,
        }
    }

    /// Records that the guest has come to virtual time `now` (ns); if the time has moved, notes the
    /// wall time, counts messages anew, and returns true.
    pub fn to(&mut self, now: u64) -> bool {
        let later = now > self.to;
        if later {
            (self.to, self.messages) = (now, 0);
            self.at = Instant::now();
        }
        later
    }

    /// Counts a message; returns true every [`MESSAGES`] messages, when the host's clock is due for
    /// a check.
    pub fn on_message(&mut self) -> bool {
        self.messages = (self.messages + 1) % MESSAGES;
        self.messages == 0
    }

    /// Returns the wall time without progress, if it exceeds `patience`.
    pub fn stalled_for(&self, patience: Duration) -> Option<Duration> {
        Some(self.at.elapsed()).filter(|still| *still > patience)
    }
}

/// Returns the index of the first descriptor that is readable within `wait_ms` milliseconds.
pub(crate) fn readable<'a>(
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

/// Returns true if an error means that the guest has closed its end.
fn gone(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_later_time_is_progress_and_words_are_none() {
        let mut progress = Progress::new();
        assert!(progress.to(5) && !progress.to(5));
        let asked = (0..2 * MESSAGES).filter(|_| progress.on_message()).count();
        assert_eq!(asked, 2);
        progress.at -= 10 * MS;
        assert!(progress.stalled_for(9 * MS).is_some());
        assert!(progress.to(6));
        assert_eq!(progress.stalled_for(Duration::from_secs(3600)), None);
    }
}
