//! Time and tasks: a clock per CPU, run queues, events, wait queues, and the watchdog for runs in
//! which time stands still.

pub mod sched;
pub mod watchdog;
