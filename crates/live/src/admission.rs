//! The bytes of asynchronous writes that the cache holds for the program: a write begins once there
//! is room for its buffer, in order of arrival.
//!
//! The room is a share of the cache's memory, and is taken out of its pages ([`crate::balloon`]),
//! so that the buffers count in the budget. A write that is larger than the room begins when no
//! other write is held.

use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The share of memory that is room for buffers, and the most room in bytes.
const SHARE: u64 = 64;
const MOST: u64 = 64 << 20;

/// Returns the room for buffers in a cache of `memory` bytes, in whole pages of `page` bytes.
pub(crate) fn room(memory: u64, page: u64) -> u64 {
    (memory / SHARE).min(MOST) / page * page
}

/// The room of a cache.
pub(crate) struct Admission {
    room: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes of the writes that were let in.
    held: u64,
    /// Number, bytes and waker of each write that waits, in order of arrival.
    waiting: VecDeque<(u64, u64, Waker)>,
    /// Writes that were let in and have not seen it yet, by number.
    admitted: BTreeSet<u64>,
    /// Number of writes that had to wait so far.
    numbers: u64,
    closed: bool,
}

/// Room for the buffer of one write, given back on drop.
pub(crate) struct Room {
    admission: Arc<Admission>,
    bytes: u64,
}

impl Admission {
    /// Makes a room of `room` bytes.
    pub fn new(room: u64) -> Arc<Self> {
        Arc::new(Self {
            room,
            state: Mutex::default(),
        })
    }

    /// Returns a future that resolves to room for `bytes` bytes; `None`: the cache was shut down.
    pub fn admit(self: &Arc<Self>, bytes: u64) -> Admit {
        Admit {
            admission: Arc::clone(self),
            bytes,
            number: None,
        }
    }

    /// Returns the bytes of the writes that were let in.
    pub fn held(&self) -> u64 {
        self.state.lock().held
    }

    /// Lets nothing in any more; what waits ends.
    pub fn close(&self) {
        let waiting = {
            let mut s = self.state.lock();
            s.closed = true;
            std::mem::take(&mut s.waiting)
        };
        waiting.into_iter().for_each(|(_, _, waker)| waker.wake());
    }

    fn fits(&self, s: &State, bytes: u64) -> bool {
        s.held == 0 || s.held + bytes <= self.room
    }

    /// Gives `bytes` bytes of room back and lets in those that wait first and fit.
    fn give(&self, bytes: u64) {
        let mut wakers = Vec::new();
        {
            let mut s = self.state.lock();
            s.held -= bytes;
            self.let_in(&mut s, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn let_in(&self, s: &mut State, wakers: &mut Vec<Waker>) {
        while let Some(&(number, bytes, _)) = s.waiting.front()
            && self.fits(s, bytes)
        {
            s.held += bytes;
            s.admitted.insert(number);
            wakers.extend(s.waiting.pop_front().map(|(_, _, waker)| waker));
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.admission.give(self.bytes);
    }
}

/// The wait of one write for room.
pub(crate) struct Admit {
    admission: Arc<Admission>,
    bytes: u64,
    /// Its number, once it had to wait.
    number: Option<u64>,
}

impl Future for Admit {
    type Output = Option<Room>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Room>> {
        let (admission, bytes) = (Arc::clone(&self.admission), self.bytes);
        let mut s = admission.state.lock();
        let admitted = match self.number {
            Some(number) => s.admitted.remove(&number),
            None if s.closed => return Poll::Ready(None),
            None => {
                let fits = s.waiting.is_empty() && admission.fits(&s, bytes);
                s.held += if fits { bytes } else { 0 };
                fits
            }
        };
        if admitted {
            self.number = None;
            drop(s);
            return Poll::Ready(Some(Room { admission, bytes }));
        }
        if s.closed {
            self.number = None;
            return Poll::Ready(None);
        }
        let waker = context.waker();
        match self.number {
            // Each poll may come with another waker.
            Some(number) => {
                let mine = s.waiting.iter_mut().find(|w| w.0 == number);
                if let Some((_, _, old)) = mine {
                    old.clone_from(waker);
                }
            }
            None => {
                s.numbers += 1;
                let number = s.numbers;
                s.waiting.push_back((number, bytes, waker.clone()));
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl Drop for Admit {
    /// Gives up the place of a write that waits, or its room.
    fn drop(&mut self) {
        let Some(number) = self.number else {
            return;
        };
        let mut wakers = Vec::new();
        {
            let mut s = self.admission.state.lock();
            if s.admitted.remove(&number) {
                s.held -= self.bytes;
            }
            s.waiting.retain(|w| w.0 != number);
            self.admission.let_in(&mut s, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}
