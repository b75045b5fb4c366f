//! Progress of runs and of trials: bars on a terminal, seldom a line in a log.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use lab::runner::{Progress, ShowProgress};
use lab::tune::trial::Phases;
use std::fmt;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Returns the time left in words; empty before the first iteration has ended, when nothing is
/// known of it, and for less than a second.
fn left(done: u64, eta: Duration) -> String {
    match (done, eta.as_secs()) {
        (0, _) | (_, 0) => String::new(),
        (_, seconds) => format!("{} left, ", HumanDuration(Duration::from_secs(seconds))),
    }
}

/// Makes a bar of length `len` in this style, drawn only if standard error is a terminal.
fn bar(len: u64, style: ProgressStyle) -> ProgressBar {
    let shown = std::io::stderr().is_terminal();
    let target = if shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(len), target).with_style(style);
    if shown {
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    bar
}

/// Time between two lines about a run whose standard error is no terminal, and before the first.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// Shows iterations done, time left, and how much faster simulated time passes than real time. In
/// a log these are a line at most every [`BETWEEN_LINES`].
struct Iterations {
    bar: ProgressBar,
    start: Instant,
    /// When the last line was written; the start if none was.
    said: Instant,
    finished_ns: u64,
}

impl Iterations {
    /// Writes a line about the progress if no bar is drawn and the last line is long ago.
    fn say(&mut self) {
        if !self.bar.is_hidden() || self.said.elapsed() < BETWEEN_LINES {
            return;
        }
        self.said = Instant::now();
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        eprintln!("{}", line(done, all, self.start.elapsed()));
    }
}

/// Returns a log's line about a run: iterations done and in all, time gone, and the time that the
/// others take if each takes as long as those that are done.
fn line(done: u64, all: u64, gone: Duration) -> String {
    let eta = gone.as_secs_f64() * all.saturating_sub(done) as f64 / done.max(1) as f64;
    let left = left(done, Duration::from_secs_f64(eta));
    let gone = HumanDuration(Duration::from_secs(gone.as_secs()));
    let left = left.trim_end_matches(", ");
    let comma = if left.is_empty() { "" } else { ", " };
    format!("{done} of {all} iterations, {gone} gone{comma}{left}")
}

/// Returns the bar of a run of so many iterations.
pub fn iterations(len: u64) -> Box<dyn Progress> {
    let style = ProgressStyle::with_template(
        "{wide_bar} {pos}/{len} iterations, {elapsed} gone, {left}{msg}",
    )
    .expect("the template is well-formed")
    .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = out.write_str(&left(state.pos(), state.eta()));
    });
    let start = Instant::now();
    Box::new(Iterations {
        bar: bar(len, style),
        start,
        said: start,
        finished_ns: 0,
    })
}

/// Returns [`iterations`], unless the command is to be quiet.
pub fn unless(quiet: bool) -> Option<ShowProgress> {
    (!quiet).then_some(iterations as ShowProgress)
}

impl Progress for Iterations {
    fn known(&mut self, n: u64) {
        self.bar.inc(n);
    }

    fn finished(&mut self, sim_ns: u64) {
        self.finished_ns += sim_ns;
        self.bar.inc(1);
        self.say();
    }

    /// Shows the pace beside the bar, in simulated seconds per real second since the start.
    fn running(&mut self, sim_ns: u64) {
        if !self.bar.is_hidden() {
            let wall = self.start.elapsed().as_secs_f64().max(1e-3);
            let pace = (self.finished_ns + sim_ns) as f64 / 1e9 / wall;
            self.bar.set_message(format!("{pace:.0} simulated s per s"));
        }
        self.say();
    }

    fn clear(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows the phase of trials and their runs.
struct Trials(ProgressBar);

/// Returns the bar of trials; where it can't be drawn, a line on standard error announces each
/// phase.
pub fn trials() -> Box<dyn Phases> {
    let template = "{msg} {wide_bar} {pos}/{len} runs, {elapsed} gone";
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    Box::new(Trials(bar(0, style)))
}

impl Phases for Trials {
    fn begin(&self, name: &str, runs: u64) {
        self.0.set_position(0);
        self.0.set_length(runs);
        self.0.set_message(name.to_owned());
        if self.0.is_hidden() {
            let runs = match runs {
                1 => "1 run".to_owned(),
                runs => format!("at most {runs} runs"),
            };
            eprintln!("{name}, {runs}");
        }
    }

    fn ran(&self, runs: u64) {
        advance(&self.0, runs);
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Moves a bar on by a number of runs. A phase that takes more runs than it announced gets a
/// greater total, so that no bar is more than full.
fn advance(bar: &ProgressBar, runs: u64) {
    let done = bar.position() + runs;
    if bar.length().is_some_and(|length| done > length) {
        bar.set_length(done);
    }
    bar.set_position(done);
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

    #[test]
    fn a_line_of_a_log_says_how_far_a_run_is() {
        let seconds = Duration::from_secs;
        assert_eq!(
            line(12, 80, seconds(30)),
            "12 of 80 iterations, 30 seconds gone, 3 minutes left"
        );
        assert_eq!(
            line(0, 80, seconds(61)),
            "0 of 80 iterations, 61 seconds gone"
        );
    }

    #[test]
    fn a_bar_is_never_more_than_full() {
        let bar = ProgressBar::with_draw_target(Some(10), ProgressDrawTarget::hidden());
        advance(&bar, 8);
        assert_eq!((bar.position(), bar.length()), (8, Some(10)));
        advance(&bar, 4);
        assert_eq!((bar.position(), bar.length()), (12, Some(12)));
    }
}
