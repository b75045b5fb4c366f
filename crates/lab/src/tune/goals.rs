//! The goals that settings have to reach.

use std::fmt;

/// The least throughput that is accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Floor {
    /// A share of the throughput with the machine's own settings.
    Share(f64),
    /// A rate in MB/s.
    Rate(f64),
}

/// The goals that settings have to reach. `None`: the figure does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Goals {
    /// The longest that a page allocation may take, in nanoseconds.
    pub alloc_latency_ns: Option<u64>,
    /// The most entries into direct reclaim that a run may have.
    pub direct_reclaim: Option<u64>,
    /// The most memory that the high watermarks may keep free, in bytes.
    pub max_free: Option<u64>,
    /// The least throughput.
    pub throughput: Option<Floor>,
    /// The longest that an interactive task may take to answer, in nanoseconds.
    pub response_ns: Option<u64>,
    /// The time within which 99 of 100 requests of a fio job or a trace must end, in nanoseconds.
    pub fio_p99_ns: Option<u64>,
}

/// The figures measured with one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The sum of the high watermarks, up to which kswapd keeps memory free, in bytes.
    pub kept_free: u64,
    /// The longest page allocation of all runs, in nanoseconds.
    pub worst_ns: u64,
    /// The most entries into direct reclaim of any run.
    pub direct: u64,
    /// Bytes that programs read, wrote and touched, per microsecond, which is MB/s: the mean of
    /// runs.
    pub throughput: f64,
    /// The longest answer of an interactive task of all runs, in nanoseconds; `None` if no program
    /// answers.
    pub response_ns: Option<u64>,
    /// The time within which 99 of 100 reads ended, or writes if that is longer, in the worst of
    /// all runs, in nanoseconds; `None` where no fio job or trace runs.
    pub fio_p99_ns: Option<u64>,
    /// Number of runs behind these figures.
    pub runs: u32,
    /// The reason why a run did not complete; `None` if all did.
    pub failed: Option<String>,
}

/// One kind of goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// Every run completes; always asked for.
    Completes,
    /// The longest allocation.
    AllocLatency,
    /// Entries into direct reclaim.
    DirectReclaim,
    /// Memory kept free.
    MaxFree,
    /// The least throughput.
    Throughput,
    /// The longest answer of an interactive task.
    Response,
    /// The time within which 99 of 100 requests end.
    FioP99,
}

impl Goal {
    /// Returns the goal in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completes => "that every run completes",
            Self::AllocLatency => "the longest allocation",
            Self::DirectReclaim => "direct reclaims",
            Self::MaxFree => "memory kept free",
            Self::Throughput => "throughput",
            Self::Response => "the longest answer",
            Self::FioP99 => "99 of 100 requests",
        }
    }
}

impl Goals {
    /// Returns true if no goal is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the first goal that the workload cannot be judged by, because no program of it
    /// measures the figure, and a text that names workloads that do. `None`: all goals are
    /// measured. `own` has the figures of the machine's own settings.
    pub fn unmeasured(&self, own: &Figures) -> Option<(Goal, &'static str)> {
        let asked = [
            (
                Goal::Response,
                self.response_ns.is_some() && own.response_ns.is_none(),
                "a workload with `desktop`, which answers its user, such as that of `usb-desktop`",
            ),
            (
                Goal::FioP99,
                self.fio_p99_ns.is_some() && own.fio_p99_ns.is_none(),
                "a workload of a fio job or a trace",
            ),
        ];
        let mut missing = asked.into_iter().filter(|(_, missing, _)| *missing);
        missing.next().map(|(goal, _, what)| (goal, what))
    }

    /// Returns the figure, in nanoseconds, that time goals are about: an interactive task's longest
    /// answer or the 99th percentile of requests if there is such a goal, else the longest page
    /// allocation.
    pub fn time_of(&self, f: &Figures) -> u64 {
        let response = f.response_ns.filter(|_| self.response_ns.is_some());
        let fio = f.fio_p99_ns.filter(|_| self.fio_p99_ns.is_some());
        response.or(fio).unwrap_or(f.worst_ns)
    }

    /// Returns the limit in nanoseconds of the time that [`time_of`](Self::time_of) gives, and its
    /// name; `None` as the limit if no goal limits that time.
    pub fn time_goal(&self) -> (Option<u64>, &'static str) {
        match (self.response_ns, self.fio_p99_ns) {
            (Some(ns), _) => (Some(ns), "longest answer"),
            (None, Some(ns)) => (Some(ns), "99 of 100 requests"),
            (None, None) => (self.alloc_latency_ns, "longest allocation"),
        }
    }

    /// Returns true if a goal is about times that programs measure.
    pub fn of_programs(&self) -> bool {
        self.response_ns.is_some() || self.fio_p99_ns.is_some()
    }

    /// Formats the times measured with a setting: the longest allocation, and before it the longest
    /// answer and the 99th percentile of requests where there are goals for them.
    pub fn times(&self, f: &Figures) -> String {
        let mut text = format!("longest allocation {}", time(f.worst_ns));
        for (name, ns) in [
            ("longest answer", self.response_ns.and(f.response_ns)),
            (
                "99 of 100 requests within",
                self.fio_p99_ns.and(f.fio_p99_ns),
            ),
        ] {
            if let Some(ns) = ns {
                text = format!("{name} {}, {text}", time(ns));
            }
        }
        text
    }

    /// Returns the least accepted throughput in MB/s, where the machine's own settings reach `own`
    /// MB/s; `None` if there is no such goal.
    pub fn floor(&self, own: f64) -> Option<f64> {
        self.throughput.map(|floor| match floor {
            Floor::Share(share) => share * own,
            Floor::Rate(rate) => rate,
        })
    }

    /// Returns the missed goals of a setting with the figures `f`, each with its distance: the
    /// logarithm of the ratio of the figure to the limit. `own_throughput` (MB/s) is that of the
    /// machine's own settings. Empty if all goals are met.
    pub fn missed(&self, f: &Figures, own_throughput: f64) -> Vec<(Goal, f64)> {
        let mut missed = Vec::new();
        // Notes a goal as missed if the figure `is` exceeds the limit `most`.
        let mut above = |goal, is: f64, most: f64| {
            if is > most {
                missed.push((goal, (is / most).ln()));
            }
        };
        if f.failed.is_some() {
            above(Goal::Completes, std::f64::consts::E.powi(5), 1.0);
        }
        if let Some(most) = self.alloc_latency_ns {
            above(Goal::AllocLatency, f.worst_ns as f64, most as f64);
        }
        if let Some(most) = self.direct_reclaim {
            // The offset of 1 makes 0 to 1 direct reclaims as far as 1 to 3, and avoids a ratio to
            // 0.
            above(
                Goal::DirectReclaim,
                f.direct as f64 + 1.0,
                most as f64 + 1.0,
            );
        }
        if let Some(most) = self.max_free {
            above(Goal::MaxFree, f.kept_free as f64, most as f64);
        }
        if let (Some(most), Some(is)) = (self.response_ns, f.response_ns) {
            above(Goal::Response, is as f64, most as f64);
        }
        if let (Some(most), Some(is)) = (self.fio_p99_ns, f.fio_p99_ns) {
            above(Goal::FioP99, is as f64, most as f64);
        }
        if let Some(least) = self.floor(own_throughput) {
            above(Goal::Throughput, least, f.throughput.max(1e-6));
        }
        missed
    }
}

/// Formats a time given in nanoseconds, in the unit that makes it short.
pub fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1000),
        10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Formats an amount of memory in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl fmt::Display for Goals {
    /// Formats the goals that are asked for, joined with commas; empty if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(ns) = self.response_ns {
            parts.push(format!("no answer later than {}", time(ns)));
        }
        if let Some(ns) = self.fio_p99_ns {
            parts.push(format!("99 of 100 requests within {}", time(ns)));
        }
        if let Some(ns) = self.alloc_latency_ns {
            parts.push(format!("no allocation longer than {}", time(ns)));
        }
        if let Some(n) = self.direct_reclaim {
            parts.push(match n {
                0 => "no direct reclaim".into(),
                n => format!("at most {n} direct reclaims a run"),
            });
        }
        if let Some(bytes) = self.max_free {
            parts.push(format!("at most {} kept free", mib(bytes)));
        }
        match self.throughput {
            Some(Floor::Share(s)) => parts.push(format!(
                "at least {:.0} % of the throughput of the machine's own settings",
                s * 100.0
            )),
            Some(Floor::Rate(r)) => parts.push(format!("at least {r} MB/s")),
            None => {}
        }
        f.write_str(&parts.join(", "))
    }
}

/// Parses a time, such as `100us`, `2ms`, `1s` or `500ns`, into nanoseconds.
///
/// # Errors
/// Fails on a text that is no time with a unit, and on a time of 0.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
    ];
    let complaint = || "accepted: a time with its unit, such as 100us, 2ms or 1s".to_owned();
    let (digits, unit) = units
        .iter()
        .find_map(|(suffix, ns)| Some((text.strip_suffix(suffix)?, *ns)))
        .ok_or_else(complaint)?;
    let ns = digits.parse::<f64>().map_err(|_| complaint())? * unit;
    if (1.0..=3.6e12).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err("accepted: a time from 1ns to 3600s".into())
    }
}

/// Parses a floor: `90%` of the throughput of the machine's own settings, or `120MB/s`.
///
/// # Errors
/// Fails on any other text.
pub fn parse_floor(text: &str) -> Result<Floor, String> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|x| *x > 0.0);
    let floor = match text.strip_suffix('%') {
        Some(share) => number(share).map(|x| Floor::Share(x / 100.0)),
        None => text.strip_suffix("MB/s").and_then(number).map(Floor::Rate),
    };
    floor
        .filter(|f| matches!(f, Floor::Share(s) | Floor::Rate(s) if s.is_finite()))
        .ok_or_else(|| {
            "accepted: a share of the throughput of the machine's own settings, such as 95%, or a \
             rate, such as 120MB/s"
                .into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        kept_free: 20 << 20,
        worst_ns: 80_000,
        direct: 0,
        throughput: 100.0,
        response_ns: None,
        fio_p99_ns: None,
        runs: 1,
        failed: None,
    };

    #[test]
    fn a_goal_is_missed_by_the_logarithm_of_its_ratio() {
        let goals = Goals {
            alloc_latency_ns: Some(40_000),
            direct_reclaim: Some(0),
            max_free: Some(20 << 20),
            throughput: Some(Floor::Share(0.9)),
            ..Goals::default()
        };
        assert_eq!(
            goals.missed(&FIGURES, 100.0),
            [(Goal::AllocLatency, 2f64.ln())]
        );
        let worse = Figures {
            direct: 1,
            failed: Some("out of memory".into()),
            ..FIGURES
        };
        let missed: Vec<Goal> = goals.missed(&worse, 200.0).iter().map(|m| m.0).collect();
        assert_eq!(
            missed,
            [
                Goal::Completes,
                Goal::AllocLatency,
                Goal::DirectReclaim,
                Goal::Throughput
            ]
        );
        assert!(Goals::default().missed(&FIGURES, 1e9).is_empty());
    }

    #[test]
    fn goals_of_programs_need_programs_that_measure() {
        let goals = Goals {
            response_ns: Some(100_000_000),
            fio_p99_ns: Some(5_000_000),
            ..Goals::default()
        };
        assert!(goals.missed(&FIGURES, 100.0).is_empty());
        assert_eq!(
            goals.unmeasured(&FIGURES).map(|m| m.0),
            Some(Goal::Response)
        );
        let measured = Figures {
            response_ns: Some(200_000_000),
            fio_p99_ns: Some(5_000_000),
            ..FIGURES
        };
        assert_eq!(goals.unmeasured(&measured), None);
        assert_eq!(
            goals.missed(&measured, 100.0),
            [(Goal::Response, 2f64.ln())]
        );
        assert_eq!(goals.time_of(&measured), 200_000_000);
        assert_eq!(
            goals.to_string(),
            "no answer later than 100 ms, 99 of 100 requests within 5000 us"
        );
    }

    #[test]
    fn times_and_floors_are_read_with_their_units() {
        assert_eq!(parse_time("100us"), Ok(100_000));
        assert_eq!(parse_time("1.5ms"), Ok(1_500_000));
        assert_eq!(parse_time("2s"), Ok(2_000_000_000));
        assert_eq!(parse_floor("95%"), Ok(Floor::Share(0.95)));
        assert_eq!(parse_floor("120MB/s"), Ok(Floor::Rate(120.0)));
        for bad in ["", "100", "us", "-1us", "0us", "nanus", "1e99s"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        for bad in ["", "95", "%", "-3%", "0%", "infMB/s", "nan%"] {
            assert!(parse_floor(bad).is_err(), "{bad}");
        }
    }
}
