//! Maps the settings that can be tried to points of a unit cube.

use sim::spec::{Machine, Size, Sysctl};

/// The way in which the distance between watermarks is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By `watermark_scale_factor`, as Linux does from 4.6 on.
    ScaleFactor,
    /// By `wmark_low_kbytes` and `wmark_high_kbytes` (*tunable-watermarks*, never merged).
    Explicit,
}

/// A setting, or a group of settings, that is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// `min_free_kbytes`.
    MinFree,
    /// The distance between min and low, and between low and high.
    Watermarks,
    /// `dirty_bytes` and `dirty_background_bytes`.
    Dirty,
    /// `swappiness`.
    Swappiness,
}

impl Knob {
    /// The knobs by their names on the command line.
    pub const NAMES: [(&str, Self); 4] = [
        ("min-free", Self::MinFree),
        ("watermarks", Self::Watermarks),
        ("dirty", Self::Dirty),
        ("swappiness", Self::Swappiness),
    ];

    /// Returns the knob's name.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, knob)| *knob == self);
        found.map_or("", |(name, _)| name)
    }
}

/// Values of the sysctls that are tuned; `None`: the machine's own value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Setting {
    /// In kB.
    pub min_free_kbytes: Option<u64>,
    /// In ten-thousandths of a zone.
    pub watermark_scale_factor: Option<u32>,
    /// In kB, for all zones together.
    pub wmark_low_kbytes: Option<u64>,
    /// In kB, for all zones together.
    pub wmark_high_kbytes: Option<u64>,
    /// In bytes.
    pub dirty_bytes: Option<u64>,
    /// In bytes.
    pub dirty_background_bytes: Option<u64>,
    /// Between 0 and 100.
    pub swappiness: Option<u32>,
}

impl Setting {
    /// Returns a copy of the machine with the sysctls of this setting; a sysctl that the setting
    /// leaves open keeps the machine's own value.
    pub fn on(&self, machine: &Machine) -> Machine {
        let mut own = machine.sysctl.clone();
        if let Some(kbytes) = self.min_free_kbytes {
            // Explicit watermarks of the machine would go with its old minimum.
            own.reset_wmarks();
            own.min_free_kbytes = Some(kbytes);
        }
        let sysctl = Sysctl {
            watermark_scale_factor: self.watermark_scale_factor.or(own.watermark_scale_factor),
            wmark_low_kbytes: self.wmark_low_kbytes.or(own.wmark_low_kbytes),
            wmark_high_kbytes: self.wmark_high_kbytes.or(own.wmark_high_kbytes),
            dirty_bytes: self.dirty_bytes.map_or(own.dirty_bytes, Size),
            dirty_background_bytes: self
                .dirty_background_bytes
                .map_or(own.dirty_background_bytes, Size),
            swappiness: self.swappiness.unwrap_or(own.swappiness),
            ..own
        };
        Machine {
            sysctl,
            ..machine.clone()
        }
    }
}

/// Returns the sum of a machine's high watermarks in bytes, up to which kswapd keeps memory free.
pub fn kept_free(machine: &Machine) -> u64 {
    let marks = sim::run::watermarks(machine);
    marks.iter().map(|m| m[2] * 4096).sum()
}

/// The range of one coordinate, divided in equal ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// Returns the value at the coordinate `u` (0 to 1) of the range, in equal ratios.
    fn value(self, u: f64) -> f64 {
        self.least * (self.most / self.least).powf(u)
    }

    /// Returns the coordinate (0 to 1) of the value `x`: the reverse of `value`.
    fn coordinate(self, x: f64) -> f64 {
        ((x / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0)
    }
}

/// The settings that can be tried on a machine.
#[derive(Debug, Clone)]
pub struct Space {
    knobs: Vec<Knob>,
    form: Form,
    lowmem_kbytes: u64,
    own: [u64; 3],
    min: Range,
    gap: Range,
    dirty: Range,
}

/// The largest `watermark_scale_factor` that Linux accepts from 5.19 on; 1000 before.
pub const MOST_SCALE_FACTOR: u32 = 3000;

impl Space {
    /// Builds the space of the settings of `knobs` for a machine on which at most `max_free` bytes
    /// may be kept free (`None`: a quarter of memory): the range of each coordinate. Knobs without
    /// effect on the machine, such as swappiness without swap, are left out.
    pub fn new(machine: &Machine, knobs: &[Knob], form: Form, max_free: Option<u64>) -> Self {
        let zones = sim::run::engine_config(machine).zones;
        let lowmem_kbytes = mm::memory::watermark::lowmem_kbytes(&zones);
        let memory = lowmem_kbytes * 1024;
        let own = sums(machine);
        let most = max_free.unwrap_or(memory / 4).min(memory / 4) as f64 / 1024.0;
        // From the machine's own minimum, which serves allocations that can't wait: most workloads
        // here make none, so that a search would lower it. To two thirds of the memory that may be
        // kept free.
        let min = Range {
            least: (own[0] as f64).max(128.0).min(most / 1.6),
            most: most / 1.5,
        };
        // A factor of 1 at least; a gap below a quarter of min has no effect, because the kernel
        // takes the larger of both.
        // The largest gap without effect, in kB.
        let least_effective = match form {
            Form::ScaleFactor => own[0] as f64 / 4.0,
            Form::Explicit => 16.0,
        };
        let gap = Range {
            least: (lowmem_kbytes as f64 / 10_000.0)
                .max(least_effective)
                .min(most / 4.0),
            most,
        };
        let dirty = Range {
            least: f64::from(1 << 20).min(memory as f64 / 100.0),
            most: memory as f64 * 0.4,
        };
        let swaps = machine.swap.is_some();
        let mut knobs: Vec<Knob> = knobs
            .iter()
            .copied()
            .filter(|knob| swaps || *knob != Knob::Swappiness)
            .collect();
        knobs.sort_unstable();
        knobs.dedup();
        Self {
            knobs,
            form,
            lowmem_kbytes,
            own,
            min,
            gap,
            dirty,
        }
    }

    /// Returns the knobs that have an effect on this machine.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// Returns the number of coordinates of a point, over all knobs.
    pub fn dimensions(&self) -> usize {
        self.knobs.iter().map(|k| self.coordinates(*k)).sum()
    }

    /// Returns the number of coordinates that a knob has: two where it sets two sysctls by values
    /// of their own.
    fn coordinates(&self, knob: Knob) -> usize {
        match (knob, self.form) {
            (Knob::Dirty, _) | (Knob::Watermarks, Form::Explicit) => 2,
            _ => 1,
        }
    }

    /// Returns the setting at a point, whose coordinates follow the order of the knobs. Points
    /// outside of the cube are mirrored into it, so that the cost is continuous across the edges.
    pub fn setting(&self, point: &[f64]) -> Setting {
        assert_eq!(point.len(), self.dimensions());
        let mut at = point.iter().map(|x| mirrored(*x));
        let mut next = || at.next().unwrap_or(0.5);
        let mut s = Setting::default();
        for knob in &self.knobs {
            match knob {
                Knob::MinFree => s.min_free_kbytes = Some(rounded(self.min.value(next()))),
                Knob::Watermarks => {
                    let gap = self.gap.value(next());
                    let min = s.min_free_kbytes.unwrap_or(self.own[0]);
                    match self.form {
                        Form::ScaleFactor => {
                            s.watermark_scale_factor = Some(self.factor(gap as u64));
                        }
                        Form::Explicit => {
                            let low = min + rounded(gap);
                            s.wmark_low_kbytes = Some(low);
                            s.wmark_high_kbytes = Some(low + rounded(self.gap.value(next())));
                        }
                    }
                }
                Knob::Dirty => {
                    let most = rounded(self.dirty.value(next()));
                    // The background limit as a share of `dirty_bytes`.
                    let share = 0.05 + 0.9 * next();
                    s.dirty_bytes = Some(most);
                    s.dirty_background_bytes = Some(rounded(most as f64 * share));
                }
                Knob::Swappiness => s.swappiness = Some((next() * 100.0).round() as u32),
            }
        }
        s
    }

    /// Returns the point of the machine's own settings, as near as the ranges allow: where a search
    /// begins.
    pub fn own(&self, machine: &Machine) -> Vec<f64> {
        let mut point = Vec::with_capacity(self.dimensions());
        for knob in &self.knobs {
            match knob {
                Knob::MinFree => point.push(self.min.coordinate(self.own[0] as f64)),
                Knob::Watermarks => {
                    let [min, low, high] = self.own.map(|kb| kb as f64);
                    point.push(self.gap.coordinate((low - min).max(1.0)));
                    if self.form == Form::Explicit {
                        point.push(self.gap.coordinate((high - low).max(1.0)));
                    }
                }
                Knob::Dirty => {
                    let s = &machine.sysctl;
                    // A dirty limit in bytes: given so, or else as a percentage of memory.
                    let of = |bytes: Size, ratio: u32| match bytes.0 {
                        0 => self.lowmem_kbytes as f64 * 1024.0 * f64::from(ratio) / 100.0,
                        bytes => bytes as f64,
                    };
                    let most = of(s.dirty_bytes, s.dirty_ratio);
                    let background = of(s.dirty_background_bytes, s.dirty_background_ratio);
                    point.push(self.dirty.coordinate(most.max(1.0)));
                    point.push(((background / most - 0.05) / 0.9).clamp(0.0, 1.0));
                }
                Knob::Swappiness => point.push(f64::from(machine.sysctl.swappiness) / 100.0),
            }
        }
        point
    }

    /// Returns the least scale factor whose distance between watermarks is not below `gap_kbytes`.
    fn factor(&self, gap_kbytes: u64) -> u32 {
        scale_factor(gap_kbytes, self.lowmem_kbytes)
    }

    /// Returns the setting with distances between its watermarks `by` times as large; `None` if the
    /// setting has no watermarks, or they can't be larger.
    pub fn wider(&self, s: &Setting, by: f64) -> Option<Setting> {
        let mut s = s.clone();
        if let Some(factor) = &mut s.watermark_scale_factor {
            let min = s.min_free_kbytes.unwrap_or(self.own[0]);
            // A gap below a quarter of the minimum has no effect, so the widened factor starts
            // there.
            let least = (min as f64 / 4.0 * 10_000.0 / self.lowmem_kbytes as f64).floor();
            let wider = (f64::from(*factor).max(least) * by).ceil() as u32;
            *factor = wider.max(*factor + 1);
            return (*factor <= MOST_SCALE_FACTOR).then_some(s);
        }
        let (low, high) = (s.wmark_low_kbytes?, s.wmark_high_kbytes?);
        let min = s.min_free_kbytes.unwrap_or(self.own[0]);
        let wide = |gap: u64| (gap as f64 * by).ceil() as u64;
        let new_low = min + wide(low.saturating_sub(min));
        s.wmark_low_kbytes = Some(new_low);
        s.wmark_high_kbytes = Some(new_low + wide(high - low));
        Some(s)
    }
}

/// Returns the least `watermark_scale_factor` that sets low at least `gap_kbytes` above min on a
/// machine with `lowmem_kbytes` in zones up to Normal (gap = managed · factor / 10 000):
/// factor = ⌈10 000 · gap / managed⌉ (docs/reference/memory-model.md#watermarks).
pub fn scale_factor(gap_kbytes: u64, lowmem_kbytes: u64) -> u32 {
    let factor = (gap_kbytes * 10_000).div_ceil(lowmem_kbytes.max(1));
    factor.clamp(1, u64::from(MOST_SCALE_FACTOR)) as u32
}

/// Returns the sums of the watermarks of a machine's zones in kB: min, low, high.
pub fn sums(machine: &Machine) -> [u64; 3] {
    let marks = sim::run::watermarks(machine);
    [0, 1, 2].map(|i| marks.iter().map(|m| m[i] * 4).sum())
}

/// Rounds a value to its five leading binary digits, about 3 % apart, so that a search does not try
/// settings that hardly differ.
pub(super) fn rounded(x: f64) -> u64 {
    let x = x.round().max(1.0) as u64;
    let shift = x.ilog2().saturating_sub(4);
    (x + ((1 << shift) >> 1)) >> shift << shift
}

/// Mirrors a coordinate into 0..=1: 1.2 becomes 0.8, and -0.2 becomes 0.2.
pub(super) fn mirrored(x: f64) -> f64 {
    let x = x.rem_euclid(2.0);
    if x > 1.0 { 2.0 - x } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixture;
    use proptest::prelude::*;

    /// Returns a machine with 490 MiB in one zone, with swap.
    fn machine() -> Machine {
        let mut m = fixture::experiment(1).cells[0].spec.machine.clone();
        m.nodes[0].zones[0].size = Size(490 << 20);
        m.sysctl.dirty_ratio = 40;
        m.swap = Some(sim::spec::SwapSpec {
            size: Size(1 << 30),
            disk: None,
        });
        m
    }

    const ALL: [Knob; 4] = [
        Knob::MinFree,
        Knob::Watermarks,
        Knob::Dirty,
        Knob::Swappiness,
    ];

    #[test]
    fn the_machines_own_point_is_its_own_setting() {
        let m = machine();
        for form in [Form::ScaleFactor, Form::Explicit] {
            let space = Space::new(&m, &ALL, form, None);
            let own = space.setting(&space.own(&m)).on(&m);
            let (got, want) = (sums(&own), sums(&m));
            for (got, want) in got.into_iter().zip(want) {
                let off = got as f64 / want as f64;
                assert!((0.95..1.12).contains(&off), "{form:?}: {got} for {want}");
            }
            let dirty = own.sysctl.dirty_bytes.0 as f64 / (490.0 * 1048576.0);
            assert!((dirty - 0.4).abs() < 0.02, "{dirty}");
            assert_eq!(own.sysctl.swappiness, 60);
        }
    }

    #[test]
    fn without_swap_there_is_no_swappiness_to_tune() {
        let mut m = machine();
        m.swap = None;
        let space = Space::new(&m, &ALL, Form::ScaleFactor, None);
        assert_eq!(space.dimensions(), 4);
        assert!(!space.knobs().contains(&Knob::Swappiness));
    }

    #[test]
    fn a_factor_is_the_least_that_reaches_the_distance() {
        // With 490 MiB a factor of 1 is 50 kB.
        for gap in [1, 50, 51, 724, 10_000] {
            let factor = u64::from(scale_factor(gap, 501_760));
            assert!(501_760 * factor / 10_000 + 1 >= gap, "{gap}: {factor}");
            assert!(factor == 1 || 501_760 * (factor - 1) / 10_000 < gap);
        }
        assert_eq!(scale_factor(u64::from(u32::MAX), 1000), MOST_SCALE_FACTOR);
    }

    #[test]
    fn points_beyond_an_edge_are_mirrored() {
        for (x, want) in [(0.2, 0.2), (-0.2, 0.2), (1.3, 0.7), (2.1, 0.1), (-1.4, 0.6)] {
            assert!((mirrored(x) - want).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn values_keep_five_binary_digits() {
        assert_eq!(
            [1, 31, 33, 1000, 2896].map(|x| rounded(f64::from(x))),
            [1, 31, 34, 992, 2944]
        );
    }

    proptest! {
        #[test]
        fn every_point_is_a_setting_that_a_machine_takes(
            point in prop::collection::vec(-3.0..3.0f64, 6), limit in 2u64..100, explicit: bool,
        ) {
            let m = machine();
            let form = if explicit { Form::Explicit } else { Form::ScaleFactor };
            let space = Space::new(&m, &ALL, form, Some(limit << 20));
            let s = space.setting(&point[..space.dimensions()]);
            let there = s.on(&m);
            let [min, low, high] = sums(&there);
            prop_assert!(min <= low && low <= high, "{s:?}: {min} {low} {high}");
            prop_assert!(s.dirty_background_bytes < s.dirty_bytes);
            prop_assert!(s.swappiness.unwrap() <= 100);
            prop_assert!(s.watermark_scale_factor.is_none_or(|f| (1..=MOST_SCALE_FACTOR).contains(&f)));
            if let Some(wider) = space.wider(&s, 1.25) {
                prop_assert!(kept_free(&wider.on(&m)) > kept_free(&there), "{s:?} {wider:?}");
            }
        }
    }
}
