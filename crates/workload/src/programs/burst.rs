//! `burst`: takes kernel pages in bursts, like network and driver buffers, and measures each
//! allocation.
//!
//! `burst -s SIZE [-r SIZE] [-o ORDER] [-a] [-A periodic|poisson|onoff] [-i TIME] [-j TIME] [-h
//! TIME] [-n COUNT] [-d TIME]`
//!
//! A burst is `-s` bytes in blocks of 2^`-o` pages (order 0 to 3), one allocation after the other
//! at `-r` bytes a second; without `-r` as fast as memory management provides them. With `-a`
//! requests are atomic: they do not sleep and may fail; without it they sleep as needed. Bursts
//! start `-d` after the program's start. Their arrival (`-A`):
//!
//! - `periodic` (the default): one starts every `-i`;
//! - `poisson`: they start at random, with a mean of `-i` between starts;
//! - `onoff`: for a random time with mean `-j` one follows the other at once, then there are none
//!   for a random time with mean `-i`.
//!
//! A burst that is due while the previous one is still running starts when that ends. Each burst's
//! pages are freed `-h` after its last allocation, or before a later burst starts if they are due
//! by then; with `-h 0us`, the default, before the next allocation is due. There are `-n` bursts,
//! or endless bursts beside other commands. Sizes and times are as in
//! [`desktop`](crate::programs::desktop); the random numbers are seeded from the wall clock at the
//! start.

use crate::error::CommandError;
use crate::host::{Host, HostError, HostResult, Pages, Task, Usage};
use crate::options::{Style, Syntax};
use crate::program::{Program, scaled};
use crate::report::Report;
use crate::session::Session;
use crate::shell::Word;
use crate::units::{SIZES, TIMES};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use trace::random::Rng;

const PAGE: u64 = 4096;
const MAX_SIZE: u64 = 16 << 30;
/// The longest time in nanoseconds: a day.
const MAX_TIME: u64 = 86_400_000_000_000;
const SECOND: u64 = 1_000_000_000;
/// The limit on bursts: more held blocks would not fit a machine.
const MAX_REPEATS: u64 = 1_000_000;

const USAGE: &str = "burst -s SIZE [-r SIZE] [-o ORDER] [-a] [-A periodic|poisson|onoff] [-i TIME] \
     [-j TIME] [-h TIME] [-n COUNT] [-d TIME]; SIZE is 4K to 16G (-r: a second), ORDER 0 to 3, TIME a \
     whole number of us, ms, s or m up to a day, COUNT up to 1000000";

const OPTIONS: Syntax = Syntax {
    values: &[
        ("-s", "-s"),
        ("-r", "-r"),
        ("-o", "-o"),
        ("-A", "-A"),
        ("-i", "-i"),
        ("-j", "-j"),
        ("-h", "-h"),
        ("-n", "-n"),
        ("-d", "-d"),
    ],
    flags: &["-a"],
    unknown: "burst has no option `{option}`",
    ..Syntax::new(Style::Words, USAGE)
};

/// The arrival process of bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At fixed intervals.
    Periodic,
    /// At random, independently.
    Poisson,
    /// In random groups with pauses.
    OnOff,
}

impl Arrival {
    /// Returns the arrival process with this name of `-A`.
    fn named(name: &str) -> Option<Self> {
        match name {
            "periodic" => Some(Self::Periodic),
            "poisson" => Some(Self::Poisson),
            "onoff" => Some(Self::OnOff),
            _ => None,
        }
    }
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burst {
    /// `-s`: bytes of a burst, in whole blocks.
    pub bytes: u64,
    /// `-r`: bytes a second; `None`: as fast as possible.
    pub rate: Option<u64>,
    /// `-o`: pages of a block are 2^order.
    pub order: u32,
    /// `-a`: requests are atomic.
    pub atomic: bool,
    /// `-A`: the arrival process.
    pub arrival: Arrival,
    /// `-i`: nanoseconds from burst to burst, or of a pause between groups of bursts.
    pub interval_ns: u64,
    /// `-j`: nanoseconds of a group of bursts.
    pub on_ns: u64,
    /// `-h`: nanoseconds for which pages are held.
    pub hold_ns: u64,
    /// `-n`: number of bursts; `None`: endless.
    pub repeats: Option<u64>,
    /// `-d`: nanoseconds before the first burst.
    pub delay_ns: u64,
}

impl Task for Burst {
    const NAME: &'static str = "burst";

    /// Takes kernel pages in bursts until the number of bursts is reached, frees them when they are
    /// due, and reports the time of each allocation, failures, and how often the task woke kswapd
    /// or entered direct reclaim.
    async fn run<H: Host>(&self, host: &H, _: &Session) -> HostResult<Report> {
        let before = host.usage()?;
        let mut run = Run {
            of: self,
            random: Rng::new(host.gettimeofday()),
            held: VecDeque::new(),
            times: Histogram::new_with_bounds(1, MAX_TIME, 3).expect("valid bounds"),
            failed: 0,
            bursts: 0,
        };
        if self.delay_ns > 0 {
            host.sleep(self.delay_ns).await;
        }
        let mut due = host.now();
        // On-off: the time up to which bursts follow each other.
        let mut on_until = due + run.chance(self.on_ns);
        while self.repeats.is_none_or(|n| run.bursts < n) {
            // A late burst starts now, but first frees the pages that are due.
            run.wait_until(host, due.max(host.now())).await?;
            run.burst(host).await?;
            due = match self.arrival {
                Arrival::Periodic => due + self.interval_ns,
                Arrival::Poisson => due + run.chance(self.interval_ns),
                Arrival::OnOff if host.now() < on_until => host.now(),
                Arrival::OnOff => {
                    let next = host.now() + run.chance(self.interval_ns);
                    on_until = next + run.chance(self.on_ns);
                    next
                }
            };
        }
        run.wait_until(host, u64::MAX).await?;
        let after = host.usage()?;
        let us = |ns: u64| ns as f64 / 1000.0;
        let h = &run.times;
        let mut metrics = vec![
            ("bursts".to_owned(), "bursts", run.bursts as f64),
            ("burst_allocs".to_owned(), "allocations", h.len() as f64),
            ("burst_failed".to_owned(), "allocations", run.failed as f64),
        ];
        // The task's own counters only: other tasks' events are not caused by its bursts.
        let own = |usage: &Usage| [usage.own_kswapd_wakeups, usage.own_direct_reclaims];
        let names = ["burst_kswapd_wakeup", "burst_direct_reclaim"];
        for (name, (then, now)) in names
            .into_iter()
            .zip(own(&before).into_iter().zip(own(&after)))
        {
            if let (Some(then), Some(now)) = (then, now) {
                metrics.push((name.to_owned(), "events", (now - then) as f64));
            }
        }
        for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let value = us(h.value_at_quantile(quantile));
            metrics.push((format!("burst_alloc_{label}"), "us", value));
        }
        metrics.push(("burst_alloc_max".to_owned(), "us", us(h.max())));
        Ok(Report { metrics })
    }
}

impl Program for Burst {
    const USAGE: &'static str = USAGE;

    /// Parses the options of `burst`; a burst's size is rounded up to whole blocks of its order.
    /// Fails without a size.
    fn parse(name: &Word, operands: &[Word]) -> Result<Self, CommandError> {
        let mut b = Self {
            bytes: 0,
            rate: None,
            order: 0,
            atomic: false,
            arrival: Arrival::Periodic,
            interval_ns: SECOND,
            on_ns: SECOND,
            hold_ns: 0,
            repeats: None,
            delay_ns: 0,
        };
        for value in OPTIONS.read(operands) {
            let value = value?;
            let size = || value.scaled(SIZES, PAGE..=MAX_SIZE);
            let time = |least: u64| value.scaled(TIMES, least..=MAX_TIME);
            match value.option {
                "-a" => b.atomic = true,
                "-s" => b.bytes = size()?,
                "-r" => b.rate = Some(size()?),
                "-o" => b.order = value.number(0..=3)? as u32,
                "-A" => b.arrival = value.read(Arrival::named(value.text))?,
                "-i" => b.interval_ns = time(1000)?,
                "-j" => b.on_ns = time(1000)?,
                "-h" => b.hold_ns = time(0)?,
                "-d" => b.delay_ns = time(0)?,
                _ => b.repeats = Some(value.number(1..=MAX_REPEATS)?),
            }
        }
        if b.bytes == 0 {
            let what = "burst has no size (-s)";
            return Err(CommandError::new(name.span.clone(), what, USAGE));
        }
        b.bytes = b.bytes.next_multiple_of(PAGE << b.order);
        Ok(b)
    }

    fn endless(&self) -> bool {
        self.repeats.is_none()
    }

    /// Returns the program with bursts of `factor` times the memory, in whole blocks.
    fn with_bursts(&self, factor: f64) -> Option<Self> {
        Some(Self {
            bytes: scaled(self.bytes, factor, PAGE << self.order),
            ..self.clone()
        })
    }
}

/// The state of a running program.
struct Run<'a> {
    of: &'a Burst,
    random: Rng,
    /// Blocks by burst, with the time at which they are to be freed; oldest first.
    held: VecDeque<(u64, Vec<Pages>)>,
    /// Nanoseconds of each allocation.
    times: Histogram<u64>,
    failed: u64,
    bursts: u64,
}

impl Run<'_> {
    /// Returns a random time with this mean in nanoseconds, exponentially distributed.
    fn chance(&mut self, mean: u64) -> u64 {
        // Uniform from 2^-53 to 1.
        let u = (self.random.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
        (-libm::log(u) * mean as f64) as u64
    }

    /// Waits until time `until` (ns), and frees held pages when they are due; with `u64::MAX` waits
    /// only until no pages are held.
    async fn wait_until<H: Host>(&mut self, host: &H, until: u64) -> HostResult<()> {
        while let Some(&(due, _)) = self.held.front().filter(|h| h.0 <= until) {
            sleep_until(host, due).await;
            let (_, blocks) = self.held.pop_front().expect("looked at");
            for pages in blocks {
                host.free_pages(pages).await?;
            }
        }
        if until != u64::MAX {
            sleep_until(host, until).await;
        }
        Ok(())
    }

    /// Takes the pages of one burst, block by block at the given rate, and measures each
    /// allocation. The pages are then held until their time is over. A failed allocation is counted
    /// if requests are atomic or of several pages; otherwise it is out of memory.
    async fn burst<H: Host>(&mut self, host: &H) -> HostResult<()> {
        let b = self.of;
        let block = PAGE << b.order;
        let began = host.now();
        let mut blocks = Vec::with_capacity((b.bytes / block) as usize);
        for nth in 0..b.bytes / block {
            if let Some(rate) = b.rate {
                let at = u128::from(nth * block) * u128::from(SECOND) / u128::from(rate);
                sleep_until(host, began + at as u64).await;
            }
            let from = host.now();
            let pages = host.alloc_pages(b.order, b.atomic).await?;
            let ns = host.now().saturating_sub(from);
            self.times.saturating_record(ns.max(1));
            match pages {
                Some(pages) => blocks.push(pages),
                None if b.atomic || b.order > 0 => self.failed += 1,
                None => return Err(HostError::OutOfMemory),
            }
        }
        self.bursts += 1;
        self.held.push_back((host.now() + b.hold_ns, blocks));
        Ok(())
    }
}

/// Sleeps until `time` (ns since the run's start); returns at once if it has passed.
async fn sleep_until<H: Host>(host: &H, time: u64) {
    let now = host.now();
    if now < time {
        host.sleep(time - now).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Command;
    use crate::script::{Step, parse};

    fn burst(line: &str) -> Burst {
        let script = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        match &script.steps[0] {
            Step::Foreground(p) | Step::Background(p) => match &p.commands[0] {
                Command::Burst(b) => b.clone(),
                other => panic!("{other:?}"),
            },
            Step::Wait => panic!(),
        }
    }

    #[test]
    fn options() {
        let b = burst("burst -s 10K -o 1 -a -A onoff -j 2s -i 30ms -h 5us -n 7 -r 64M -d 1s");
        assert_eq!((b.bytes, b.order, b.atomic), (16_384, 1, true));
        assert_eq!((b.on_ns, b.interval_ns), (2 * SECOND, 30_000_000));
        assert_eq!((b.hold_ns, b.repeats), (5000, Some(7)));
        assert_eq!((b.rate, b.delay_ns), (Some(64 << 20), SECOND));
        assert_eq!(burst("burst -s 1M & sleep 1").repeats, None);
    }

    #[test]
    fn what_is_not_accepted_is_named_and_placed() {
        for (line, place) in [
            ("burst", "burst"),
            ("burst -s 1M", "burst"),
            ("burst -s 1M -o 4 -n 1", "4"),
            ("burst -s 1M -n 0", "0"),
            ("burst -s 1M -A often -n 1", "often"),
            ("burst -s 17G -n 1", "17G"),
            ("burst -s 1M -i 3 -n 1", "3"),
            ("burst -s 1M -x 3", "-x"),
            ("burst -s", "-s"),
        ] {
            let e = parse(line).expect_err(line);
            assert_eq!(&line[e.span.clone()], place, "{line}: {e}");
        }
    }
}
