//! Errors of a file's writes, each told once to everybody who has the file open: the rule of Linux
//! since 4.13 (lib/errseq.c).
//!
//! A file has a sequence, everybody who opens it a cursor into it. Whoever asks is told of the
//! newest error since he asked last. Who opens a file after an error that nobody was told of is
//! told, too. Beyond the kernel's rule, who is told also learns whether data was lost by any of the
//! errors since he asked last.

use crate::file::Error;
use crate::sync::Mutex;
use rustix::io::Errno;

/// What became of data that was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is kept; the next sync tries again.
    Kept,
    /// It is gone.
    Lost,
}

/// How many errors there were, and how many of them lost data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    errors: u64,
    losses: u64,
}

#[derive(Default)]
struct Told {
    count: Count,
    /// The count when somebody was told last.
    told: Count,
    newest: Option<Errno>,
}

/// The errors of one file.
#[derive(Default)]
pub(crate) struct ErrorSequence(Mutex<Told>);

/// How far somebody was told.
#[derive(Default)]
pub(crate) struct Cursor(Mutex<Count>);

impl ErrorSequence {
    /// An error happened.
    pub fn record(&self, errno: Errno, fate: Fate) {
        let mut s = self.0.lock();
        s.count.errors += 1;
        s.count.losses += u64::from(fate == Fate::Lost);
        s.newest = Some(errno);
    }

    /// A cursor for somebody who opens the file now.
    pub fn sample(&self) -> Cursor {
        Cursor(Mutex::new(self.0.lock().told))
    }

    /// A cursor behind all errors so far.
    pub fn end(&self) -> Cursor {
        Cursor(Mutex::new(self.0.lock().count))
    }

    /// The newest error behind a cursor, which then stands behind it.
    pub fn check(&self, cursor: &Cursor) -> Result<(), Error> {
        // Two threads may ask for one handle.
        let mut since = cursor.0.lock();
        let mut s = self.0.lock();
        let before = std::mem::replace(&mut *since, s.count);
        match s.newest {
            Some(errno) if before.errors != s.count.errors => {
                s.told = s.count;
                Err(match before.losses == s.count.losses {
                    true => Error::Io(errno),
                    false => Error::Lost(errno),
                })
            }
            _ => Ok(()),
        }
    }
}
