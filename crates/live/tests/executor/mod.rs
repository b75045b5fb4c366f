//! A minimal executor, which uses only what any executor provides.
#![allow(dead_code)] // not every test uses all of it

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Longer than any test takes: a future not ready by then counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Futures on one thread; each is polled only after it was woken.
#[derive(Default)]
pub struct Many<'a> {
    tasks: Vec<Option<Task<'a>>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    more: Condvar,
}

struct One {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        let mut tasks = self.woken.tasks.lock().expect("no panic");
        tasks.push_back(self.number);
        self.woken.more.notify_one();
    }
}

impl Woken {
    fn next(&self) -> usize {
        let tasks = self.tasks.lock().expect("no panic");
        let none = |tasks: &mut VecDeque<usize>| tasks.is_empty();
        let waited = self.more.wait_timeout_while(tasks, PATIENCE, none);
        let (mut tasks, _) = waited.expect("no panic");
        tasks.pop_front().expect("nobody is woken any more")
    }
}

impl<'a> Many<'a> {
    /// Adds a future.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'a) {
        let number = self.tasks.len();
        self.tasks.push(Some(Box::pin(future)));
        let mut tasks = self.woken.tasks.lock().expect("no panic");
        tasks.push_back(number);
    }

    /// Runs all futures to their ends.
    pub fn run(mut self) {
        let mut left = self.tasks.len();
        while left > 0 {
            let number = self.woken.next();
            let Some(task) = &mut self.tasks[number] else {
                continue;
            };
            let woken = Arc::clone(&self.woken);
            let waker = Waker::from(Arc::new(One { number, woken }));
            if task
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                self.tasks[number] = None;
                left -= 1;
            }
        }
    }
}

/// Runs one future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let woken = Arc::new(Woken::default());
    let one = One {
        number: 0,
        woken: Arc::clone(&woken),
    };
    let waker = Waker::from(Arc::new(one));
    let mut future = pin!(future);
    loop {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(value) => return value,
            Poll::Pending => {
                woken.next();
            }
        }
    }
}

/// Polls a future once with a waker that does nothing.
pub fn poll_once<F: Future>(
    future: &mut Pin<impl std::ops::DerefMut<Target = F>>,
) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}
