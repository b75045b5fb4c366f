//! Asynchronous calls that are submitted, woken, dropped and closed in any order.

use super::{USER, machine, page, run, schedules, task};
use crate::LiveMm;
use crate::ahead::Ahead;
use crate::cpu;
use crate::file;
use crate::runner::{Begin, Call, Life, Outcome, Runner};
use crate::wait::Parker;
use mm::queue;
use mm::world::Tasks as _;
use shuttle::rand::{Rng as _, thread_rng};
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};

/// Numbers of the runner's tasks: those after the two users.
const TASKS: std::ops::Range<u32> = USER + 2..USER + 5;

struct Waiting {
    life: Life,
    outcome: Arc<Outcome<bool>>,
}

impl Begin for Waiting {
    fn begin(self: Box<Self>) -> Life {
        Box::pin(async move {
            self.life.await;
            self.outcome.set(true);
        })
    }

    fn refuse(self: Box<Self>) {
        self.outcome.set(false);
    }
}

/// A program's future.
struct Asked {
    call: Arc<Call>,
    outcome: Arc<Outcome<bool>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.outcome.abandon();
        self.call.cancel();
    }
}

impl Asked {
    fn new(
        runner: &Arc<Runner>,
        mm: &LiveMm,
        life: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let outcome = Arc::new(Outcome::default());
        let begin = Waiting {
            life: Box::pin(life) as Pin<Box<_>>,
            outcome: Arc::clone(&outcome),
        };
        let told = Arc::clone(&outcome);
        let call = runner.submit(&mm.world.cpus, 0, Box::new(begin), told);
        Self { call, outcome }
    }

    /// Waits for the call; returns false if it was refused.
    fn wait(&self) -> bool {
        let parker = Arc::new(Parker::default());
        let waker = Waker::from(Arc::clone(&parker));
        loop {
            match self.outcome.poll(&Context::from_waker(&waker)) {
                Poll::Ready(done) => return done,
                Poll::Pending => parker.park(None),
            }
        }
    }
}

/// Starts a runner's threads.
fn threads(runner: &Arc<Runner>, mm: &Arc<LiveMm>) -> Vec<shuttle::thread::JoinHandle<()>> {
    let thread = |_| {
        let (runner, mm) = (Arc::clone(runner), Arc::clone(mm));
        shuttle::thread::spawn(move || runner.work(&mm.world.cpus))
    };
    (0..2).map(thread).collect()
}

/// Two users begin calls that wait for a queue, for a time or not at all, drop some of them, and
/// one closes the runner meanwhile. Waiters are woken, no task number is lost, calls that have
/// begun end, and refused ones had not begun.
#[test]
fn calls_are_submitted_dropped_and_closed() {
    schedules(3000, 21, || {
        let mm = machine(24, 1);
        let runner = Runner::new(1, 2, TASKS);
        let threads = threads(&runner, &mm);
        let (begun, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let q = queue::page(5);
        let user = {
            let (runner, mm) = (Arc::clone(&runner), Arc::clone(&mm));
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            move |who: u32| {
                let mut asked = Vec::new();
                for i in 0..4 {
                    let kind = thread_rng().gen_range(0..3);
                    let (for_call, begun, ended) =
                        (Arc::clone(&mm), Arc::clone(&begun), Arc::clone(&ended));
                    let life = async move {
                        begun.fetch_add(1, SeqCst);
                        let w = &for_call.world;
                        match kind {
                            0 => {
                                // Woken, or timed out.
                                w.wait(q, w.ticket(q), Some(1000)).await;
                            }
                            1 => w.sleep(500).await,
                            _ => w.relax().await,
                        }
                        ended.fetch_add(1, SeqCst);
                    };
                    let call = Asked::new(&runner, &mm, life);
                    mm.world.wake(q);
                    if thread_rng().gen_range(0..3) > 0 {
                        asked.push(call);
                    }
                    if who == 0 && i == 2 && thread_rng().gen_range(0..2) == 0 {
                        runner.close();
                    }
                }
                asked.iter().filter(|a| a.wait()).count() as u32
            }
        };
        let user = Arc::new(user);
        let users: Vec<_> = (0..2)
            .map(|who| {
                let user = Arc::clone(&user);
                shuttle::thread::spawn(move || user(who))
            })
            .collect();
        let done: u32 = users.into_iter().map(|u| u.join().expect("a user")).sum();
        runner.close();
        for t in threads {
            t.join().expect("a thread");
        }
        let (begun, ended) = (begun.load(SeqCst), ended.load(SeqCst));
        assert_eq!(begun, ended, "what has begun ends");
        assert!((done..=8).contains(&ended), "{done} were told of {ended}");
        assert!(!Asked::new(&runner, &mm, async {}).wait(), "it is closed");
    });
}

/// Tasks of a runner read pages that threads write and reclaim evicts, through the executor of
/// transfers.
#[test]
fn tasks_read_beside_threads_that_write() {
    schedules(60, 22, || {
        let mm = machine(48, 1);
        let runner = Runner::new(1, 2, TASKS);
        let threads = threads(&runner, &mm);
        for i in 0..60 {
            let bytes = page(1, i, 0);
            let n = mm.world.file(0).write(&[IoSlice::new(&bytes)], i * 4096);
            assert_eq!(n, Ok(4096));
        }
        mm.mappings[0].size.store(60 * 4096, SeqCst);
        let for_call = Arc::clone(&mm);
        let reads = Arc::clone(&runner);
        run(&mm, 2, move |mm, who| {
            if who == 0 {
                for i in (0..60).step_by(2) {
                    let bytes = page(1, i, 1);
                    task(mm, who, file::write(mm, 0, i * 4096, &bytes)).expect("a write");
                }
                return;
            }
            let mut asked = Vec::new();
            for i in 0..20 {
                let its_mm = Arc::clone(&for_call);
                let life = async move {
                    let mm = its_mm;
                    assert!(cpu::shared());
                    let (at, mut found) = (i * 3, [0; 4096]);
                    let ahead = Ahead::default();
                    let read = file::read_on(&mm, 0, &ahead, (at * 4096, 0), &mut found);
                    assert_eq!(read.await, Ok(4096));
                    assert!([0, 1].iter().any(|&v| found == page(1, at, v)), "page {at}");
                };
                let call = Asked::new(&reads, mm, life);
                if i % 5 != 4 {
                    asked.push(call);
                }
            }
            assert!(asked.iter().all(Asked::wait));
            reads.close();
        });
        for t in threads {
            t.join().expect("a thread");
        }
    });
}
