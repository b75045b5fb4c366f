//! The progress bar of a run.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Returns the time left in words; empty before the first iteration has ended, when nothing is
/// known of it, and for less than a second.
pub fn left(done: u64, eta: Duration) -> String {
    match (done, eta.as_secs()) {
        (0, _) | (_, 0) => String::new(),
        (_, seconds) => format!("{} left, ", HumanDuration(Duration::from_secs(seconds))),
    }
}

/// Shows iterations done, time left, and how much faster simulated time passes than real time.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    finished_ns: u64,
}

impl Progress {
    /// Returns a bar over `len` iterations, drawn only if wanted and standard error is a terminal.
    pub fn new(wanted: bool, len: u64) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(len), target).with_style(
            ProgressStyle::with_template(
                "{wide_bar} {pos}/{len} iterations, {elapsed} gone, {left}{msg}",
            )
            .expect("the template is well-formed")
            .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = out.write_str(&left(state.pos(), state.eta()));
            }),
        );
        if shown {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self {
            bar,
            start: Instant::now(),
            finished_ns: 0,
        }
    }

    /// Counts iterations that an earlier run finished.
    pub fn known(&self, n: u64) {
        self.bar.inc(n);
    }

    /// Counts a finished iteration that simulated `sim_ns` nanoseconds.
    pub fn finished(&mut self, sim_ns: u64) {
        self.finished_ns += sim_ns;
        self.bar.inc(1);
    }

    /// Shows the pace beside the bar, in simulated seconds per real second since the start;
    /// `sim_ns` is the simulated time of unfinished iterations so far.
    pub fn running(&self, sim_ns: u64) {
        if !self.bar.is_hidden() {
            let wall = self.start.elapsed().as_secs_f64().max(1e-3);
            let pace = (self.finished_ns + sim_ns) as f64 / 1e9 / wall;
            self.bar.set_message(format!("{pace:.0} simulated s per s"));
        }
    }

    /// Removes the bar from the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_never_zero() {
        assert_eq!(left(0, Duration::from_secs(0)), "");
        assert_eq!(left(0, Duration::from_secs(9)), "");
        assert_eq!(left(1, Duration::from_millis(300)), "");
        assert_eq!(left(1, Duration::from_secs(75)), "75 seconds left, ");
    }
}
