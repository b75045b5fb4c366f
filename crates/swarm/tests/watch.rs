//! However a worker fails, its parent is told, and the next task is answered.

use std::path::Path;
use std::time::Duration;
use swarm::law::Law;
use swarm::watch::{End, Limits, Worker};
use swarm::worker::{Task, Trouble};

fn worker() -> Worker {
    let limits = Limits {
        cpu: Duration::from_millis(300),
        idle: Duration::from_secs(2),
        memory: 2 << 30,
    };
    Worker::new(Path::new(env!("CARGO_BIN_EXE_lowmark-swarm")), limits).unwrap()
}

#[test]
fn trouble_is_told_and_the_next_task_answered() {
    let mut worker = worker();
    for (trouble, told) in [
        (Trouble::Spins, "spins"),
        (Trouble::Waits, "waits for ever"),
        (Trouble::Dies, "signal: 6"),
        (Trouble::Hoards, "signal: 6"),
    ] {
        match worker.ask(&Task::Trouble(trouble)).unwrap() {
            End::Lost(breach) => assert!(breach.what.contains(told), "{trouble:?}: {breach:?}"),
            End::Answered(answer) => panic!("{trouble:?}: {answer:?}"),
        }
        assert!(worker.last_case().is_none());
    }
    // The cost of a case depends on the machine and its load, so the tight limits are for the
    // failures only.
    worker.hold_to(Limits::default());
    match worker.ask(&Task::Seed(3)).unwrap() {
        End::Answered(_) => assert!(worker.last_case().is_some()),
        End::Lost(breach) => panic!("{breach:?}"),
    }
}

/// A panic inside a run is caught there; a panic of the worker itself ends the process.
#[test]
fn a_panic_is_a_find() {
    match worker().ask(&Task::Trouble(Trouble::Panics)).unwrap() {
        End::Lost(breach) => {
            assert_eq!(breach.law, Law::Check);
            assert!(breach.what.contains("exit status: 101"), "{breach:?}");
        }
        End::Answered(answer) => panic!("{answer:?}"),
    }
}
