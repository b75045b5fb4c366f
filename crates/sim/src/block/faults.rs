//! The faults that a disk is configured to show, applied around its model.
//!
//! A stall is a pause of the device's own clock: models run in device time, which stands still
//! while the disk stalls, so the models need not know of faults.

use super::{Dir, IoError};
use crate::params::Params;
use crate::spec::Fault;

/// When a request ends, and its error if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    pub at: u64,
    pub error: Option<IoError>,
}

/// A span of time, end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    from: u64,
    to: u64,
}

/// All faults of one disk.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    write_errors: Vec<Window>,
    /// Sorted, ascending and disjoint.
    stalls: Vec<Window>,
    stop: Option<u64>,
    timeout_ns: u64,
    offline_reply_ns: u64,
    /// When the first command after the stop timed out (or will): from then on the disk is offline.
    /// `None` if no command was started or due after the stop.
    offline: Option<u64>,
}

fn ns(seconds: f64) -> u64 {
    // `as` saturates, and turns NaN into 0.
    (seconds * 1e9) as u64
}

impl Faults {
    /// Collects the faults of a disk by kind: windows of time with write errors, stalls
    /// (overlapping ones joined), and the earliest stop.
    pub fn new(faults: &[Fault], params: &Params) -> Self {
        let mut this = Self {
            write_errors: Vec::new(),
            stalls: Vec::new(),
            stop: None,
            timeout_ns: params.disk_fail_timeout as u64,
            offline_reply_ns: params.disk_offline_reply as u64,
            offline: None,
        };
        let window = |at_s, for_s| Window {
            from: ns(at_s),
            to: ns(at_s).saturating_add(ns(for_s)),
        };
        for fault in faults {
            match *fault {
                Fault::WriteError { at_s, for_s } => this.write_errors.push(window(at_s, for_s)),
                Fault::Stall { at_s, for_s } => this.stalls.push(window(at_s, for_s)),
                Fault::Stop { at_s } => {
                    this.stop = Some(this.stop.map_or(ns(at_s), |t| t.min(ns(at_s))));
                }
            }
        }
        this.stalls.sort_unstable_by_key(|w| w.from);
        this.stalls.dedup_by(|later, earlier| {
            let overlap = later.from <= earlier.to;
            if overlap {
                earlier.to = earlier.to.max(later.to);
            }
            overlap
        });
        this
    }

    /// Returns the device time at `now`: `now` less the time spent in stalls, in nanoseconds.
    pub fn device_time(&self, now: u64) -> u64 {
        let stalled_ns = |w: &Window| now.clamp(w.from, w.to) - w.from;
        now - self.stalls.iter().map(stalled_ns).sum::<u64>()
    }

    /// Returns the world time (ns) at which this device time is seen: device time plus the stalls
    /// that come before. Nothing happens within a stall.
    fn world_time(&self, device_time: u64) -> u64 {
        self.stalls.iter().fold(device_time, |time, w| {
            if time >= w.from {
                time.saturating_add(w.to - w.from)
            } else {
                time
            }
        })
    }

    /// Returns true if a request started now can still reach the device.
    pub fn alive(&self, now: u64) -> bool {
        self.stop.is_none_or(|stop| now < stop)
    }

    /// Returns when a request ends that was started at `now` (ns) and that the model finishes at
    /// `device_finish` in device time, and its error. After the disk's stop a request fails with
    /// the timeout of the first command that the stop met, or soon after it is refused by the
    /// offline disk; a write that ends in a window of write errors fails at its regular end.
    pub fn ending(&mut self, now: u64, device_finish: u64, dir: Dir) -> Ending {
        let at = self.world_time(device_finish).max(now);
        match self.stop {
            Some(stop) if at >= stop => {
                let offline = *self
                    .offline
                    .get_or_insert(now.max(stop).saturating_add(self.timeout_ns));
                let refused = now.saturating_add(self.offline_reply_ns);
                Ending {
                    at: offline.max(refused),
                    error: Some(IoError::DeviceGone),
                }
            }
            _ => {
                let failed = dir == Dir::Write
                    && self
                        .write_errors
                        .iter()
                        .any(|w| (w.from..w.to).contains(&at));
                Ending {
                    at,
                    error: failed.then_some(IoError::WriteFailed),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn faults(list: &[Fault]) -> Faults {
        Faults::new(list, &Params::default())
    }

    #[test]
    fn a_stall_pauses_the_device() {
        let f = faults(&[
            Fault::Stall {
                at_s: 10.0,
                for_s: 2.0,
            },
            Fault::Stall {
                at_s: 11.0,
                for_s: 4.0,
            },
            Fault::Stall {
                at_s: 20.0,
                for_s: 1.0,
            },
        ]);
        assert_eq!(f.device_time(9 * S), 9 * S);
        assert_eq!(f.device_time(13 * S), 10 * S);
        assert_eq!(f.device_time(30 * S), 24 * S);
        for t in [0, 9 * S, 15 * S, 19 * S, 21 * S, 40 * S] {
            assert_eq!(f.world_time(f.device_time(t)), t);
        }
        assert_eq!(
            f.world_time(10 * S),
            15 * S,
            "what ends as the stall starts ends after it"
        );
    }

    #[test]
    fn writes_fail_inside_the_window_only() {
        let mut f = faults(&[Fault::WriteError {
            at_s: 5.0,
            for_s: 1.0,
        }]);
        let mut error = |finish, dir| f.ending(0, finish, dir).error;
        assert_eq!(error(5 * S - 1, Dir::Write), None);
        assert_eq!(error(5 * S, Dir::Write), Some(IoError::WriteFailed));
        assert_eq!(error(5 * S, Dir::Read), None);
        assert_eq!(error(6 * S, Dir::Write), None);
    }

    #[test]
    fn a_stopped_disk_times_out_once_and_is_then_offline() {
        let mut f = faults(&[Fault::Stop { at_s: 5.0 }]);
        assert_eq!(f.ending(4 * S, 5 * S - 1, Dir::Read).error, None);
        let first = f.ending(4 * S, 6 * S, Dir::Read);
        assert_eq!(
            first,
            Ending {
                at: 35 * S,
                error: Some(IoError::DeviceGone)
            }
        );
        assert_eq!(f.ending(20 * S, 21 * S, Dir::Write).at, 35 * S);
        assert_eq!(f.ending(40 * S, 41 * S, Dir::Write).at, 40 * S + 10_000);
    }
}
