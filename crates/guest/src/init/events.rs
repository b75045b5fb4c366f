//! The thread that fetches events from a guest's trace rings.

use super::Desk;
use crate::host::{clock, lock, sleep_until};
use crate::tracing::Tracer;
use crate::wire::Frame;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Mutex;

/// Nanoseconds to wait if a ring was reported as ready but had no data.
const PAUSE_NS: u64 = 1_000_000;

/// Fetches the traced events of all CPUs' rings and writes them to `out`; returns the number of
/// bytes. Several rings are fetched one after another, so a frame behind them says up to which time
/// no event is missing.
pub(super) fn drain(tracer: &mut Tracer, out: &mut File) -> io::Result<usize> {
    let until = clock();
    let several = tracer.rings().nth(1).is_some();
    let fetched = tracer.drain(out)?;
    if several {
        Frame::Fetched(until).write(out)?;
    }
    Ok(fetched)
}

/// Runs the thread that fetches traced events: waits until a ring is half full, fetches all, and
/// ends when the workload is over.
pub(super) fn follow(desk: &Mutex<Desk>) {
    let rings = lock(desk)
        .tracer
        .as_ref()
        .map(|tracer| tracer.rings().map(File::try_clone).collect());
    let Some(Ok(rings)) = rings else { return };
    let rings: Vec<File> = rings;
    loop {
        let mut ready: Vec<PollFd<'_>> = rings
            .iter()
            .map(|ring| PollFd::new(ring, PollFlags::IN))
            .collect();
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let mut desk = lock(desk);
        if desk.over {
            return;
        }
        let Desk { tracer, out, .. } = &mut *desk;
        if let Some(tracer) = tracer {
            // If writing fails here, the next look fails as well and reports it.
            let fetched = drain(tracer, out).unwrap_or(0);
            drop(desk);
            if fetched == 0 {
                // The kernel's count of full pages may be wrong for a while; without a sleep
                // virtual time would stand still.
                sleep_until(clock() + PAUSE_NS);
            }
        }
    }
}
