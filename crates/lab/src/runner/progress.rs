//! The way in which a run tells its progress. Bars are drawn by the command line.

/// The display of a run of the matrix.
pub trait Progress {
    /// Counts `n` iterations that an earlier run finished.
    fn known(&mut self, n: u64);

    /// Counts a finished iteration that simulated `sim_ns` nanoseconds.
    fn finished(&mut self, sim_ns: u64);

    /// Notes that the unfinished iterations have simulated `sim_ns` nanoseconds so far; called many
    /// times a second.
    fn running(&mut self, sim_ns: u64);

    /// Removes the display.
    fn clear(&mut self);
}

/// Makes the display of a run of so many iterations.
pub type ShowProgress = fn(iterations: u64) -> Box<dyn Progress>;

/// No display.
struct Hidden;

impl Progress for Hidden {
    fn known(&mut self, _: u64) {}
    fn finished(&mut self, _: u64) {}
    fn running(&mut self, _: u64) {}
    fn clear(&mut self) {}
}

/// Returns the display of a run of so many iterations, if one is wanted.
pub(super) fn of(show: Option<ShowProgress>, iterations: u64) -> Box<dyn Progress> {
    match show {
        Some(show) => show(iterations),
        None => Box::new(Hidden),
    }
}
