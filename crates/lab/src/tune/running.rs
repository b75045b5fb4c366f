//! The learning mode on the running Linux: applies the rules of `watermarks = "auto"`
//! ([`mm::reclaim::amounts`]) to the kernel's counters instead of the engine's events, for the
//! machine as a whole instead of zone by zone.
//!
//! - A direct reclaim raises the watermarks to twice their distance above the default; the level
//!   that direct reclaim has taught stays as a floor.
//! - Trouble of kswapd raises them by a step: kswapd freed less than half of the pages it scanned,
//!   and a zone is below low. (The engine tests the scan priority, too, which no counter shows.)
//! - Next to no direct reclaim among the last thousand reclaim events lowers them, and so does
//!   time.
//! - No low watermark exceeds the cap, five times its value at the start (the review: 4 to 5).

use super::space::scale_factor;
use mm::ZoneInfo;
use mm::memory::watermark::{MarkFormula, lowmem_kbytes};
use mm::policy::AutoWatermarks;
use mm::reclaim::amounts::Amounts;

/// The sysctl that is written to change watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// `watermark_scale_factor`, from 4.6 on, with the largest value accepted (1000 before 5.19,
    /// 3000 since).
    ScaleFactor(u32),
    /// `wmark_low_kbytes` and `wmark_high_kbytes` of the patch of 2011.
    Explicit,
    /// `min_free_kbytes`, where there is no other sysctl: before 4.6.
    MinFree,
}

/// A machine whose watermarks are learned.
#[derive(Debug, Clone)]
pub struct Learning {
    /// The machine's zones.
    pub zones: Vec<ZoneInfo>,
    /// `min_free_kbytes` at the start.
    pub min_free_kbytes: u64,
    /// The kernel's formula for watermarks, with the settings at the start.
    pub formula: MarkFormula,
    /// The sysctl that is written.
    pub knob: Knob,
}

/// Names of files below `/proc/sys/vm` and the values written to them.
pub type Setting = Vec<(&'static str, u64)>;

impl Learning {
    /// Returns the sums over all zones of the watermarks in pages (min, low, high) that the
    /// kernel's formula gives for this `min_free_kbytes`.
    fn sums(&self, min_free_kbytes: u64, formula: MarkFormula) -> [u64; 3] {
        let all = formula.marks(min_free_kbytes, &self.zones);
        all.iter().fold([0; 3], |sums, marks| {
            [sums[0] + marks[0], sums[1] + marks[1], sums[2] + marks[2]]
        })
    }

    /// Returns the sums of the zones' watermarks at the start, in pages: min, low, high.
    pub fn default_sums(&self) -> [u64; 3] {
        self.sums(self.min_free_kbytes, self.formula)
    }

    /// Returns the setting at the start: the files below `/proc/sys/vm` of the sysctl that is
    /// written, with their values.
    pub fn defaults(&self) -> Setting {
        match self.knob {
            Knob::ScaleFactor(_) => {
                vec![(
                    "watermark_scale_factor",
                    self.formula.scale_factor.unwrap_or(0),
                )]
            }
            // The value 0 lets the kernel compute the watermark.
            Knob::Explicit => vec![
                ("wmark_low_kbytes", self.formula.low_kbytes.unwrap_or(0)),
                ("wmark_high_kbytes", self.formula.high_kbytes.unwrap_or(0)),
            ],
            Knob::MinFree => vec![("min_free_kbytes", self.min_free_kbytes)],
        }
    }

    /// Returns the least setting whose low watermarks exceed those of the start by `extra` pages
    /// together, and the sum of the low watermarks that the setting gives, in pages. Where the
    /// largest value that the kernel accepts does not suffice, that value is returned.
    pub fn setting(&self, extra: u32) -> (Setting, u64) {
        let [min, low, high] = self.default_sums();
        if extra == 0 {
            return (self.defaults(), low);
        }
        let wanted = low + u64::from(extra);
        match self.knob {
            Knob::ScaleFactor(most) => {
                // The sum of the low watermarks that a scale factor gives.
                let of = |factor: u32| {
                    let formula = MarkFormula {
                        scale_factor: Some(factor.into()),
                        ..self.formula
                    };
                    self.sums(self.min_free_kbytes, formula)[1]
                };
                let least = self.formula.scale_factor.unwrap_or(0) as u32;
                // Solve for all zones together first, then step up, because each zone is rounded.
                let gap = 4 * wanted.saturating_sub(min);
                let mut factor =
                    scale_factor(gap, lowmem_kbytes(&self.zones)).clamp(least, most.max(least));
                while factor < most && of(factor) < wanted {
                    factor += 1;
                }
                (vec![("watermark_scale_factor", factor.into())], of(factor))
            }
            Knob::Explicit => {
                // Pages to kB; the high watermark grows in proportion.
                let marks = [wanted * 4, (high * wanted).div_ceil(low.max(1)) * 4];
                let setting = vec![
                    ("wmark_low_kbytes", marks[0]),
                    ("wmark_high_kbytes", marks[1]),
                ];
                (setting, wanted)
            }
            Knob::MinFree => {
                // The kernel sets low to 5/4 of min.
                let mut kbytes = (4 * wanted * 4).div_ceil(5).max(self.min_free_kbytes);
                // The sum of the low watermarks that a minimum gives.
                let of = |kbytes| self.sums(kbytes, self.formula)[1];
                // Each zone is rounded down, by less than a page.
                while of(kbytes) < wanted {
                    kbytes += 4;
                }
                (vec![("min_free_kbytes", kbytes)], of(kbytes))
            }
        }
    }
}

/// Counters of `/proc/vmstat` since boot, as read at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Nanoseconds since learning began.
    pub at_ns: u64,
    /// Entries into direct reclaim: `allocstall`, summed over zones.
    pub stalls: u64,
    /// Runs of kswapd: `pageoutrun`.
    pub runs: u64,
    /// Pages that kswapd scanned: `pgscan_kswapd`, summed over zones.
    pub scanned: u64,
    /// Pages that kswapd freed: `pgsteal_kswapd`.
    pub freed: u64,
    /// True if a zone has fewer free pages than its low watermark.
    pub below_low: bool,
}

/// The reason for a change of watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// This many direct reclaims since the last look.
    DirectReclaim(u64),
    /// kswapd scanned much and freed little since the last look, and a zone is below low.
    Trouble {
        /// Pages scanned.
        scanned: u64,
        /// Pages freed.
        freed: u64,
    },
    /// Few direct reclaims among many reclaim events.
    Quiet {
        /// Reclaim events: kswapd's runs and direct reclaims.
        events: u64,
        /// Direct reclaims.
        direct: u64,
    },
    /// Time has passed since the last raise.
    Time,
}

impl Cause {
    /// Describes the cause of a change of watermarks in words, with its counts.
    pub fn text(self) -> String {
        match self {
            Self::DirectReclaim(n) => format!("{n} direct reclaims since the last look: raise"),
            Self::Trouble { scanned, freed } => format!(
                "kswapd scanned {scanned} pages and freed {freed}, and a zone is below low: raise"
            ),
            Self::Quiet { events, direct } => {
                format!("{direct} direct reclaims among {events} reclaim events: lower")
            }
            Self::Time => "no reason to raise for a while: lower".to_owned(),
        }
    }
}

/// A span of time with one setting, and the counts of events in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Period {
    /// The reason why it began; `None` for the first.
    pub cause: Option<Cause>,
    /// Its setting.
    pub setting: Setting,
    /// The sum of the low watermarks under the setting, in pages.
    pub low: u64,
    /// The time of its beginning, in nanoseconds since learning began.
    pub from_ns: u64,
    /// The time of its end so far, in nanoseconds since learning began.
    pub to_ns: u64,
    /// Direct reclaims in this period.
    pub stalls: u64,
    /// Runs of kswapd in this period.
    pub runs: u64,
    /// Pages that kswapd scanned.
    pub scanned: u64,
    /// Pages that kswapd freed.
    pub freed: u64,
}

/// Learns watermarks from successive looks at the counters.
#[derive(Debug, Clone)]
pub struct Learner {
    learning: Learning,
    rules: AutoWatermarks,
    amounts: Amounts,
    low: u32,
    last: Option<Look>,
    /// Reclaim events since the rule of quiet last decided, and direct reclaims among them.
    events: u64,
    direct: u64,
    periods: Vec<Period>,
}

impl Learner {
    /// Begins learning with the settings of the start as the first period; `rules` are those of
    /// self-adjusting watermarks.
    pub fn new(learning: Learning, rules: AutoWatermarks) -> Self {
        let [_, low, _] = learning.default_sums();
        let first = Period {
            cause: None,
            setting: learning.defaults(),
            low,
            from_ns: 0,
            to_ns: 0,
            stalls: 0,
            runs: 0,
            scanned: 0,
            freed: 0,
        };
        Self {
            low: u32::try_from(low).unwrap_or(u32::MAX),
            learning,
            rules,
            amounts: Amounts::default(),
            last: None,
            events: 0,
            direct: 0,
            periods: vec![first],
        }
    }

    /// Takes the next look at the kernel's counters, adds what happened since the last look to the
    /// present period, and applies the rules. Returns true if the rules ask for another setting,
    /// which is then that of the last of [`Self::periods`]. The first look only sets the counters
    /// to start from.
    pub fn see(&mut self, look: Look) -> bool {
        let Some(last) = self.last.replace(look) else {
            return false;
        };
        // How much a counter has grown since the last look.
        let since = |of: fn(&Look) -> u64| of(&look).saturating_sub(of(&last));
        let stalls = since(|l| l.stalls);
        let (runs, scanned, freed) = (since(|l| l.runs), since(|l| l.scanned), since(|l| l.freed));
        if let Some(period) = self.periods.last_mut() {
            period.to_ns = look.at_ns;
            period.stalls += stalls;
            period.runs += runs;
            period.scanned += scanned;
            period.freed += freed;
        }
        let cause = self.cause(look, stalls, runs, scanned, freed);
        let (setting, low) = self.learning.setting(self.amounts.extra);
        let now = self.periods.last().map(|p| &p.setting);
        if now == Some(&setting) {
            return false;
        }
        self.periods.push(Period {
            cause: Some(cause),
            setting,
            low,
            from_ns: look.at_ns,
            to_ns: look.at_ns,
            stalls: 0,
            runs: 0,
            scanned: 0,
            freed: 0,
        });
        true
    }

    /// Applies the rules of self-adjusting watermarks to the events since the last look: `stalls`
    /// direct reclaims, `runs` of kswapd, pages `scanned` and `freed` by kswapd. Changes `amounts`,
    /// the pages added to the watermarks, and returns the cause of the last rule that acted (`Time`
    /// if none did).
    fn cause(&mut self, look: Look, stalls: u64, runs: u64, scanned: u64, freed: u64) -> Cause {
        let (rules, now) = (&self.rules, look.at_ns);
        // The most pages that may be added to the low watermarks.
        let room = self.low.saturating_mul(rules.cap.saturating_sub(1));
        self.amounts.decay(rules, now);
        let mut cause = Cause::Time;
        self.events += runs + stalls;
        self.direct += stalls;
        if self.events >= u64::from(rules.quiet_events.max(1)) {
            let (events, direct) = (self.events, self.direct);
            (self.events, self.direct) = (0, 0);
            if rules.lower_on_quiet
                && direct <= u64::from(rules.quiet_direct)
                && self.amounts.lower(rules)
            {
                cause = Cause::Quiet { events, direct };
            }
        }
        if rules.raise_on_direct_reclaim && stalls > 0 {
            self.amounts.raise(rules, now, self.low, room, true);
            cause = Cause::DirectReclaim(stalls);
        } else if rules.raise_on_trouble && look.below_low && 2 * freed < scanned {
            self.amounts.raise(rules, now, self.low, room, false);
            cause = Cause::Trouble { scanned, freed };
        }
        cause
    }

    /// Returns the periods in order of time, with the events in each.
    pub fn periods(&self) -> &[Period] {
        &self.periods
    }

    /// Returns the setting to begin with next time, the highest that was learned, with the sum of
    /// its low watermarks in pages; `None`: the watermarks were never raised, so the setting of the
    /// start was never too low.
    pub fn learned(&self) -> Option<(Setting, u64)> {
        (self.amounts.learned > 0).then(|| self.learning.setting(self.amounts.learned))
    }

    /// Returns true if the highest watermarks that were learned have reached the cap, a multiple of
    /// the low watermarks at the start, or the largest value that the kernel accepts. All amounts
    /// are pages, summed over zones.
    pub fn at_cap(&self) -> bool {
        let room = self.low.saturating_mul(self.rules.cap.saturating_sub(1));
        // The low watermarks that the kernel gives for all learned pages, or for its largest value.
        let most = self.learning.setting(self.amounts.learned).1;
        self.amounts.learned >= room || most < u64::from(self.low) + u64::from(self.amounts.learned)
    }

    /// Returns the cap, as a multiple of the low watermarks at the start.
    pub fn cap(&self) -> u32 {
        self.rules.cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::ZoneType;

    const SECOND: u64 = 1_000_000_000;

    fn learning(knob: Knob) -> Learning {
        let zone = |kind, size| ZoneInfo {
            node: 0,
            kind,
            size,
        };
        Learning {
            zones: vec![zone(ZoneType::Dma, 3840), zone(ZoneType::Dma32, 126_000)],
            min_free_kbytes: 2800,
            formula: MarkFormula {
                scale_factor: match knob {
                    Knob::MinFree => None,
                    _ => Some(10),
                },
                movable_apart: false,
                low_kbytes: None,
                high_kbytes: None,
            },
            knob,
        }
    }

    fn learner(knob: Knob) -> Learner {
        Learner::new(learning(knob), AutoWatermarks::default())
    }

    fn look(second: u64, stalls: u64) -> Look {
        Look {
            at_ns: second * SECOND,
            stalls,
            ..Look::default()
        }
    }

    #[test]
    fn every_knob_gives_what_is_asked_for_and_no_more() {
        for knob in [Knob::ScaleFactor(3000), Knob::Explicit, Knob::MinFree] {
            let l = learning(knob);
            let [_, low, _] = l.default_sums();
            assert_eq!(l.setting(0), (l.defaults(), low), "{knob:?}");
            for extra in [1, 100, 2000] {
                let (setting, gives) = l.setting(extra);
                assert!(
                    gives >= low + u64::from(extra),
                    "{knob:?} {extra}: {setting:?}"
                );
                assert!(
                    gives <= low + u64::from(extra) + 20,
                    "{knob:?} {extra}: {setting:?}"
                );
            }
        }
        // Values that the kernel does not accept are not proposed.
        let (setting, _) = learning(Knob::ScaleFactor(1000)).setting(100_000);
        assert_eq!(setting, [("watermark_scale_factor", 1000)]);
    }

    #[test]
    fn direct_reclaim_raises_to_the_cap_and_no_further() {
        let mut l = learner(Knob::ScaleFactor(3000));
        let low = l.learning.default_sums()[1];
        assert!(!l.see(look(0, 100)), "what was before does not count");
        let mut lows = vec![low];
        for second in 1..10 {
            if l.see(look(second, 100 + second)) {
                lows.push(l.periods().last().unwrap().low);
            }
        }
        assert!(lows.is_sorted() && lows.len() > 3, "{lows:?}");
        let most = *lows.last().unwrap();
        assert!(most >= 5 * low && most < 5 * low + 20, "{lows:?}");
        assert!(l.at_cap());
        let causes: Vec<_> = l.periods()[1..].iter().map(|p| p.cause).collect();
        assert!(causes.iter().all(|c| *c == Some(Cause::DirectReclaim(1))));
        // Each period counts the events under its own setting.
        let stalls: u64 = l.periods().iter().map(|p| p.stalls).sum();
        assert_eq!(stalls, 9);
    }

    #[test]
    fn trouble_of_kswapd_raises_only_where_a_zone_is_below_low() {
        for below_low in [false, true] {
            let mut l = learner(Knob::Explicit);
            l.see(look(0, 0));
            let changed = l.see(Look {
                scanned: 1000,
                freed: 100,
                below_low,
                ..look(1, 0)
            });
            assert_eq!(changed, below_low);
        }
        let mut l = learner(Knob::Explicit);
        l.see(look(0, 0));
        let fine = Look {
            scanned: 1000,
            freed: 900,
            below_low: true,
            ..look(1, 0)
        };
        assert!(!l.see(fine), "it frees most of what it looks at");
    }

    #[test]
    fn long_quiet_lowers_to_what_direct_reclaim_has_taught_and_below_it_only_later() {
        let mut l = learner(Knob::ScaleFactor(3000));
        let low = l.learning.default_sums()[1];
        l.see(look(0, 0));
        assert!(l.see(look(1, 1)));
        let raised = l.periods().last().unwrap().low;
        // kswapd works and no task reclaims directly: the floor holds.
        for second in 2..60 {
            let runs = second * 1000;
            l.see(Look {
                runs,
                ..look(second, 1)
            });
        }
        assert_eq!(l.periods().last().unwrap().low, raised);
        // After an hour the floor is forgotten.
        for minute in 1..=62 {
            l.see(look(60 * minute, 1));
        }
        let last = l.periods().last().unwrap();
        assert_eq!((last.low, last.cause), (low, Some(Cause::Time)));
        assert_eq!(last.setting, l.learning.defaults());
        // The highest level is kept for the next boot.
        assert_eq!(l.learned().unwrap().1, raised);
    }

    #[test]
    fn a_machine_without_stalls_keeps_what_it_has() {
        let mut l = learner(Knob::MinFree);
        for second in 0..100 {
            assert!(!l.see(look(second, 7)));
        }
        assert_eq!((l.periods().len(), l.learned()), (1, None));
    }
}
