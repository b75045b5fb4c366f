//! Write errors of a file, each reported once to every handle: the rule of Linux since 4.13
//! (lib/errseq.c).
//!
//! A file has a sequence of errors, and each handle a cursor into it. A check returns the newest
//! error since the handle's last check. A handle that is opened after an error which no handle was
//! told of is told of that error, too. Beyond the kernel's rule, a check also returns whether any
//! of the errors since the last check lost data.

use crate::error::Error;
use crate::sync::Mutex;
use rustix::io::Errno;

/// The fate of data whose write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The data is kept; the next sync tries again.
    Kept,
    /// The data is lost.
    Lost,
}

/// The number of errors, and how many of them lost data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    errors: u64,
    losses: u64,
}

#[derive(Default)]
struct Sequence {
    count: Count,
    /// The count when a handle was last told.
    reported: Count,
    newest: Option<Errno>,
}

/// The errors of one file.
#[derive(Default)]
pub(crate) struct ErrorSequence(Mutex<Sequence>);

/// The count up to which a handle has been told.
#[derive(Default)]
pub(crate) struct Cursor(Mutex<Count>);

impl ErrorSequence {
    /// Records an error of a write, and whether the data is lost.
    pub fn record(&self, errno: Errno, fate: Fate) {
        let mut s = self.0.lock();
        s.count.errors += 1;
        s.count.losses += u64::from(fate == Fate::Lost);
        s.newest = Some(errno);
    }

    /// Returns the cursor of a handle that is opened now.
    pub fn sample(&self) -> Cursor {
        Cursor(Mutex::new(self.0.lock().reported))
    }

    /// Returns a cursor behind all errors so far.
    pub fn end(&self) -> Cursor {
        Cursor(Mutex::new(self.0.lock().count))
    }

    /// Returns the newest error that a handle was not told of yet, and moves the handle's cursor
    /// behind all errors. `Error::Lost`: an error since the last check lost data.
    pub fn check(&self, cursor: &Cursor) -> Result<(), Error> {
        // Two threads may check the same handle at once.
        let mut since = cursor.0.lock();
        let mut s = self.0.lock();
        let before = std::mem::replace(&mut *since, s.count);
        match s.newest {
            Some(errno) if before.errors != s.count.errors => {
                s.reported = s.count;
                Err(match before.losses == s.count.losses {
                    true => Error::Io(errno),
                    false => Error::Lost(errno),
                })
            }
            _ => Ok(()),
        }
    }
}
