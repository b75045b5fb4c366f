//! Time and tasks: a clock a CPU, run queues, events, wait queues, and the law that time goes on.

pub mod sched;
pub mod watchdog;
