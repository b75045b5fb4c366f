//! The search for the disk model, and for its parameters, that best predict the measurements.
//!
//! The error of a set of parameters is the mean of |ln(predicted / measured)| over the loads: the
//! same for half as for twice the rate. Each kind of disk that may match the device is tried: its
//! parameters are multiplied and divided one after the other by a factor that shrinks, as long as
//! that helps (a pattern search after Hooke and Jeeves, "Direct search solution of numerical and
//! statistical problems", 1961). The search is deterministic and takes a bounded number of
//! simulations.

use super::load::{Load, Measured, STREAM};
use super::measure::Measurements;
use super::predict;
use serde::Serialize;
use sim::block::Dir;
use sim::disks::{self, Knob, Seen};
use sim::params::Params;
use sim::spec::{DiskKind, DiskSpec};
use std::fmt::Write;

/// Factors of the search, largest first.
const FACTORS: [f64; 6] = [4.0, 2.0, 1.41, 1.19, 1.09, 1.04];
/// Rounds over all parameters per factor.
const ROUNDS: usize = 3;

/// A fitted parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// The parameter's name in the parameter table.
    pub name: &'static str,
    /// The fitted value, in the table's unit.
    pub value: f64,
    /// The measurement that it was fitted to, or its source.
    pub from: String,
}

/// A load's measured and predicted rates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitRow {
    /// The measurement.
    #[serde(flatten)]
    pub measured: Measured,
    /// The model's rate in the same unit.
    pub predicted: f64,
}

impl FitRow {
    /// Returns the error of the prediction, in percent of the measurement; above 0 if the model is
    /// faster than the device.
    pub fn error_percent(&self) -> f64 {
        (self.predicted / self.measured.rate().max(1e-9) - 1.0) * 100.0
    }
}

/// A disk model fitted to measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The kind with the smallest error.
    pub kind: DiskKind,
    /// The fitted parameters of the kind of disk.
    pub params: Vec<Fitted>,
    /// The measured and predicted rates, by load.
    pub rows: Vec<FitRow>,
    /// Mean of |ln(predicted / measured)|.
    pub error: f64,
    /// The error of every kind that was tried, best first.
    pub tried: Vec<(DiskKind, f64)>,
    /// The measured time of a sync, in nanoseconds.
    pub sync_ns: u64,
    /// Whether the page cache was bypassed.
    pub direct: bool,
}

/// Fits a disk model to measurements of a disk. Besides the likely kind, others that the device
/// could be are tried, and the one with the smallest error is returned. The disk's own parameters,
/// such as its queue's size, are kept.
pub fn fit(measurements: &Measurements, likely: &DiskSpec) -> Fit {
    let others = likely.kind.about().fit.others;
    let mut all: Vec<Fit> = std::iter::once(&likely.kind)
        .chain(others)
        .map(|kind| Search::new(measurements, likely, *kind).run())
        .collect();
    all.sort_by(|a, b| a.error.total_cmp(&b.error));
    let tried = all.iter().map(|f| (f.kind, f.error)).collect();
    Fit {
        tried,
        ..all.swap_remove(0)
    }
}

struct Search<'a> {
    measurements: &'a Measurements,
    disk: DiskSpec,
    base: Params,
}

impl<'a> Search<'a> {
    /// Prepares the search for parameters of one kind of disk: takes over the parameters of
    /// `likely` that this kind has.
    fn new(measurements: &'a Measurements, likely: &DiskSpec, kind: DiskKind) -> Self {
        let mut disk = likely.clone();
        disk.kind = kind;
        // The loads are issued by one task: CFQ would see one reader where several threads read.
        disk.scheduler = None;
        disk.faults.clear();
        disk.members = likely.members.filter(|_| kind.about().array.is_some());
        disk.params.retain(|name, _| {
            let info = Params::TABLE.iter().find(|p| p.name == *name);
            info.is_some_and(|p| kind.takes(p))
        });
        let base = disk.params(&Params::default());
        Self {
            measurements,
            disk,
            base,
        }
    }

    /// Returns the rate that a disk with these parameters has under the load of `row`, in the
    /// load's unit, by simulation.
    fn predicted(&self, params: &Params, row: &Measured) -> f64 {
        let span = self.measurements.span;
        predict::rate(&self.disk, params, row.load, span, row.operations)
    }

    /// Returns the mean of |ln(predicted / measured)| over all loads for these parameters. Stops
    /// simulating, and returns a value above `enough`, as soon as the error is certain to exceed
    /// that.
    fn error(&self, params: &Params, enough: f64) -> f64 {
        let rows = &self.measurements.rows;
        let count = rows.len().max(1) as f64;
        let mut sum = 0.0;
        for row in rows {
            let ratio = self.predicted(params, row).max(1e-9) / row.rate().max(1e-9);
            sum += ratio.ln().abs();
            // The caller has found a smaller error before.
            if sum > enough * count {
                break;
            }
        }
        sum / count
    }

    /// Sets a parameter as close to a value as its range allows; returns true if that changed it.
    fn set(params: &mut Params, name: &'static str, value: f64) -> bool {
        let Some(info) = Params::TABLE.iter().find(|p| p.name == name) else {
            return false;
        };
        // Measurements justify three digits; some parameters must be whole numbers.
        let mut value = rounded(value);
        if ["dies", "bytes", "requests", "1/min"].contains(&info.unit) {
            value = value.round();
        }
        let value = value.clamp(info.min, info.max);
        let before = params.get(name);
        params.set(name, value).is_ok() && before != Some(value)
    }

    /// Updates the parameter that keeps its ratio to another one, if this kind of disk has one: it
    /// could not be measured by itself.
    fn with_follower(&self, mut params: Params) -> Params {
        if let Some((name, leader, _)) = self.fitting().follows {
            // `name` follows `leader` in the ratio that the unfitted model has.
            let of = |p: &Params, name| p.get(name).unwrap_or(0.0);
            let ratio = of(&self.base, name) / of(&self.base, leader);
            let value = ratio * of(&params, leader);
            Self::set(&mut params, name, value);
        }
        params
    }

    /// Returns how disks of this kind are fitted: the parameters to vary, their start values, and
    /// the one that follows another.
    fn fitting(&self) -> &'static disks::Fit {
        &self.disk.kind.about().fit
    }

    /// Returns start parameters close to the measurements, which shortens the search: from the best
    /// sequential rates, and the latency of single random reads.
    fn start(&self) -> Params {
        let mut p = self.base.clone();
        // The highest rate in a direction, at any depth.
        let best = |dir: Dir, random: bool| {
            let of = |m: &&Measured| m.load.dir == dir && m.load.random == random;
            let rows = self.measurements.rows.iter().filter(of);
            rows.map(Measured::rate).fold(0.0, f64::max)
        };
        let (read, write) = (best(Dir::Read, false), best(Dir::Write, false));
        let single = Load {
            dir: Dir::Read,
            random: true,
            depth: 1,
        };
        let latency = self
            .measurements
            .rows
            .iter()
            .find(|m| m.load == single)
            .map_or(1e5, |m| 1e9 / m.rate().max(1e-9));
        let seen = Seen {
            read,
            write,
            latency_ns: latency,
        };
        for (name, value) in (self.fitting().start)(&seen, &self.base) {
            Self::set(&mut p, name, value);
        }
        self.with_follower(p)
    }

    /// Searches for the parameters with the smallest error: multiplies and divides one after the
    /// other by ever smaller factors, as long as that helps.
    fn run(&self) -> Fit {
        let mut best = self.start();
        let mut error = self.error(&best, f64::INFINITY);
        // Sets one parameter; keeps the change and returns true if the error is smaller with it.
        let mut attempt = |best: &mut Params, name: &'static str, value: f64| {
            let mut params = best.clone();
            if !Self::set(&mut params, name, value) {
                return false;
            }
            let params = self.with_follower(params);
            let found = self.error(&params, error);
            let better = found < error;
            if better {
                (*best, error) = (params, found);
            }
            better
        };
        for factor in FACTORS {
            for _ in 0..ROUNDS {
                let mut moved = false;
                for knob in self.fitting().knobs {
                    match *knob {
                        Knob::Scale(name) => {
                            let value = best.get(name).unwrap_or(1.0);
                            moved |= attempt(&mut best, name, value * factor)
                                || attempt(&mut best, name, value / factor);
                        }
                        Knob::OneOf(name, values) => {
                            for &value in values {
                                moved |= attempt(&mut best, name, value);
                            }
                        }
                    }
                }
                if !moved {
                    break;
                }
            }
        }
        self.result(&best, error)
    }

    /// Returns the found parameters with the measured and the predicted rate of each load. `error`
    /// is the mean deviation with these parameters.
    fn result(&self, params: &Params, error: f64) -> Fit {
        let fitting = self.fitting();
        let follower = fitting.follows.map(|(name, ..)| name);
        let names = fitting.knobs.iter().map(Knob::name).chain(follower);
        Fit {
            kind: self.disk.kind,
            params: names
                .map(|name| Fitted {
                    name,
                    value: params.get(name).unwrap_or(0.0),
                    from: match fitting.follows {
                        Some((follower, _, leader)) if follower == name => {
                            format!("not measured: keeps the model's ratio to the {leader}")
                        }
                        _ => "fitted".into(),
                    },
                })
                .collect(),
            rows: self
                .measurements
                .rows
                .iter()
                .map(|measured| FitRow {
                    predicted: self.predicted(params, measured),
                    measured: measured.clone(),
                })
                .collect(),
            error,
            tried: Vec::new(),
            sync_ns: self.measurements.sync_ns,
            direct: self.measurements.direct,
        }
    }
}

/// Rounds to three significant digits, the precision of the measurements; 0 for values that are not
/// above 0 or not finite.
fn rounded(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(value.log10().floor() - 2.0);
    let rounded = (value / scale).round() * scale;
    // Powers of ten below one are inexact, so the result goes through text.
    format!("{rounded:.6}").parse().unwrap_or(rounded)
}

impl Fit {
    /// Formats the measurements and the predictions as lines of text: a heading, a line for each
    /// load, the sync, and the other kinds of disk that were tried.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let name = DiskKind::name;
        // Turns the error, a mean of logarithms, into percent.
        let off = |error: f64| (error.exp() - 1.0) * 100.0;
        let _ = writeln!(
            out,
            "Measured {}, and predicted by the {} model fitted to it (mean deviation {:.0} %):",
            if self.direct {
                "with direct I/O"
            } else {
                "through the page cache, because the filesystem has no direct I/O"
            },
            name(self.kind),
            off(self.error)
        );
        for row in &self.rows {
            let m = &row.measured;
            let digits = usize::from(m.rate() < 100.0);
            let _ = writeln!(
                out,
                "  {:32} {:>9.digits$} {:4}  predicted {:>9.digits$}  {:+5.0} %  median {} us",
                m.load.to_string(),
                m.rate(),
                m.load.unit(),
                row.predicted,
                row.error_percent(),
                m.median_ns / 1000,
            );
        }
        let _ = writeln!(
            out,
            "  sync of a 4K write               {:>9.2} ms    not in the model",
            self.sync_ns as f64 / 1e6
        );
        let others: Vec<String> = self
            .tried
            .iter()
            .skip(1)
            .map(|(kind, error)| format!("{} {:.0} % off", name(*kind), off(*error)))
            .collect();
        if !others.is_empty() {
            let _ = writeln!(out, "Also tried: {}.", others.join(", "));
        }
        let _ = writeln!(
            out,
            "Sequential transfers are {} KiB each; MB are powers of 1000.",
            STREAM >> 10
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::{FILL, loads};
    use super::*;
    use sim::spec::Size;

    fn disk(kind: DiskKind) -> DiskSpec {
        DiskSpec {
            scheduler: Default::default(),
            kind,
            capacity: Size(64 << 30),
            members: None,
            params: Default::default(),
            faults: Vec::new(),
        }
    }

    /// Returns the measurements of a probe of a modelled disk.
    fn measured(kind: DiskKind, params: &Params) -> Measurements {
        let span = 64 << 20;
        let rows = std::iter::once(FILL).chain(loads()).map(|load| {
            let operations = (span / load.bytes()).min(if load.random { 1000 } else { 128 });
            let rate = predict::rate(&disk(kind), params, load, span, operations);
            let seconds = operations as f64 / (rate / load.rate(1, 1.0));
            Measured {
                load,
                operations,
                seconds,
                median_ns: 1,
                p99_ns: 1,
            }
        });
        Measurements {
            rows: rows.collect(),
            sync_ns: 1_000_000,
            span,
            direct: true,
            device: "8:0".into(),
            filesystem_bytes: 64 << 30,
        }
    }

    #[test]
    fn a_modelled_drive_is_found_again() {
        let own = [
            ("ssd_bandwidth", 520.0),
            ("ssd_read", 60_000.0),
            ("ssd_command", 30_000.0),
            ("ssd_program", 900_000.0),
        ];
        let params = Params::default().with(&own.map(|(n, v)| (n.to_owned(), v)).into());
        let fit = fit(&measured(DiskKind::Ssd, &params), &disk(DiskKind::Ssd));
        assert!(fit.error < 0.05, "{}\n{:?}", fit.to_text(), fit.params);
        let bandwidth = fit.params.iter().find(|p| p.name.ends_with("_bandwidth"));
        assert!(
            (bandwidth.unwrap().value / 520.0 - 1.0).abs() < 0.1,
            "{bandwidth:?}"
        );
        assert_eq!(fit.tried.len(), 2);
        assert!(fit.tried[0].1 <= fit.tried[1].1);
    }

    #[test]
    fn a_rotating_disk_is_told_from_a_drive_without_parts_that_move() {
        let own = [
            ("disk_outer_bandwidth", 180.0),
            ("disk_inner_bandwidth", 90.0),
        ];
        let params = Params::default().with(&own.map(|(n, v)| (n.to_owned(), v)).into());
        let fit = fit(&measured(DiskKind::Disk, &params), &disk(DiskKind::Disk));
        assert_eq!(fit.kind, DiskKind::Disk, "{}", fit.to_text());
        assert!(fit.error < 0.05, "{}", fit.to_text());
        let value = |name| fit.params.iter().find(|p| p.name == name).unwrap().value;
        assert!((value("disk_outer_bandwidth") / 180.0 - 1.0).abs() < 0.1);
        let ratio = value("disk_inner_bandwidth") / value("disk_outer_bandwidth");
        assert!((ratio - 0.5).abs() < 0.01);
    }

    #[test]
    fn fitted_values_can_be_set() {
        for kind in DiskKind::ALL {
            for knob in kind.about().fit.knobs {
                let (Knob::Scale(name) | Knob::OneOf(name, _)) = *knob;
                let info = Params::TABLE.iter().find(|p| p.name == name).unwrap();
                assert!(kind.takes(info), "{name}");
                if let Knob::OneOf(_, values) = knob {
                    assert!(
                        values.iter().all(|v| (info.min..=info.max).contains(v)),
                        "{name}"
                    );
                }
            }
        }
        assert_eq!(rounded(123_456.0), 123_000.0);
        assert_eq!(rounded(0.123_456), 0.123);
        assert_eq!(rounded(f64::NAN), 0.0);
    }
}
