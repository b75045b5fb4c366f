//! Wait queues with tickets, and the sleep of threads.
//!
//! A queue counts its wakes, and a ticket is that count. A waiter whose ticket differs from the
//! count does not sleep, so a wake between the test of a condition and the wait is never lost.

use crate::sync::{Condvar, Mutex};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// A queue of waiting tasks.
#[derive(Default)]
pub struct Queue {
    state: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    wakes: u64,
    waiters: Vec<Waker>,
}

impl Queue {
    /// Returns a ticket for [`Queue::poll`].
    pub fn ticket(&self) -> u64 {
        self.state.lock().wakes
    }

    /// Returns `Ready` if the queue was woken after the ticket was taken; otherwise registers the
    /// task to be woken.
    pub fn poll(&self, ticket: u64, context: &Context<'_>) -> Poll<()> {
        let mut s = self.state.lock();
        if s.wakes != ticket {
            return Poll::Ready(());
        }
        if !s.waiters.iter().any(|w| w.will_wake(context.waker())) {
            s.waiters.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Removes the waiter of `context`, whose time is over, from the queue.
    pub fn forget(&self, context: &Context<'_>) {
        let mut s = self.state.lock();
        s.waiters.retain(|w| !w.will_wake(context.waker()));
    }

    /// Wakes every waiter of the queue, and makes older tickets invalid.
    pub fn wake(&self) {
        let waiters = {
            let mut s = self.state.lock();
            s.wakes += 1;
            std::mem::take(&mut s.waiters)
        };
        for w in waiters {
            w.wake();
        }
    }
}

/// A value that one task waits for and another thread supplies, once.
pub struct Answer<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Mutex::new((None, None)))
    }
}

impl<T> Answer<T> {
    /// Stores the value and wakes the task that waits for it.
    pub fn put(&self, value: T) {
        let waiter = {
            let mut s = self.0.lock();
            s.0 = Some(value);
            s.1.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Waits for the value that another thread puts here, and takes it.
    pub async fn wait(&self) -> T {
        poll_fn(|context| {
            let mut s = self.0.lock();
            match s.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    s.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// The sleep of one thread. A wake that comes before the sleep is kept.
#[derive(Default)]
pub struct Parker {
    woken: Mutex<bool>,
    sleeper: Condvar,
}

impl Parker {
    /// Sleeps until woken or until `deadline`; a wake that came before is used up at once.
    pub fn park(&self, deadline: Option<Instant>) {
        let mut woken = self.woken.lock();
        while !*woken {
            match deadline {
                None => self.sleeper.wait(&mut woken),
                Some(t) => {
                    if self.sleeper.wait_until(&mut woken, t).timed_out() {
                        break;
                    }
                }
            }
        }
        *woken = false;
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.sleeper.notify_one();
    }
}
