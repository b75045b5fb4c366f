//! The answer in a sentence: the settings to write, the gain, and the price in figures of the user.

use super::goals::{Figures, Goals, mib, time};

/// A figure of the machine's own settings beside that of the chosen ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The name of the figure.
    pub name: &'static str,
    /// The figure with the machine's own settings, in words.
    pub own: String,
    /// The figure with the chosen settings, in words.
    pub chosen: String,
    /// The relative change; `None` if there was nothing before.
    pub by: Option<f64>,
    /// True if the change is a gain.
    pub better: bool,
}

/// Returns the figures that change, gains first, and among them those that a goal asks for: times
/// of programs, allocations, direct reclaims, throughput, memory kept free.
pub fn changes(own: &Figures, chosen: &Figures, goals: &Goals) -> Vec<Change> {
    let mut all = Vec::new();
    let mut put = |name, of: [f64; 2], said: [String; 2], less_is_better: bool| {
        let [before, after] = of;
        let same = before == after || before.is_nan() || after.is_nan() || said[0] == said[1];
        if same {
            return;
        }
        let [own, chosen] = said;
        all.push(Change {
            name,
            own,
            chosen,
            by: (before > 0.0).then(|| after / before - 1.0),
            better: (after < before) == less_is_better,
        });
    };
    let times = [
        ("longest answer", own.response_ns, chosen.response_ns),
        ("99 of 100 requests", own.fio_p99_ns, chosen.fio_p99_ns),
    ];
    for (name, before, after) in times {
        if let (Some(before), Some(after)) = (before, after) {
            let of = [before as f64, after as f64];
            put(name, of, [time(before), time(after)], true);
        }
    }
    if goals.alloc_latency_ns.is_some() || !goals.of_programs() {
        let of = [own.worst_ns as f64, chosen.worst_ns as f64];
        let said = [time(own.worst_ns), time(chosen.worst_ns)];
        put("longest allocation", of, said, true);
    }
    if goals.direct_reclaim.is_some() {
        let of = [own.direct as f64, chosen.direct as f64];
        let said = [own.direct.to_string(), chosen.direct.to_string()];
        put("direct reclaims", of, said, true);
    }
    let rate = |f: &Figures| format!("{:.1} MB/s", f.throughput);
    let of = [own.throughput, chosen.throughput];
    put("throughput", of, [rate(own), rate(chosen)], false);
    let of = [own.kept_free as f64, chosen.kept_free as f64];
    let said = [mib(own.kept_free), mib(chosen.kept_free)];
    put("memory kept free", of, said, true);
    all.sort_by_key(|change| !change.better);
    all
}

/// Returns true if two figures end in the same unit, which is then written once.
fn unit_of(said: &str) -> Option<&str> {
    said.split_once(' ').map(|(_, unit)| unit)
}

impl Change {
    /// Formats the change, as in `longest answer 123 -> 50 ms (-59 %)`.
    fn text(&self) -> String {
        let own = match unit_of(&self.own) {
            unit if unit == unit_of(&self.chosen) => self.own.split(' ').next().unwrap_or_default(),
            _ => &self.own,
        };
        let by = self.by.map_or(String::new(), |by| {
            let percent = by * 100.0;
            match percent.abs() < 10.0 {
                true => format!(" ({percent:+.1} %)"),
                false => format!(" ({percent:+.0} %)"),
            }
        });
        format!("{} {own} -> {}{by}", self.name, self.chosen)
    }
}

/// Returns the sentence for settings such as `dirty_bytes=8388608`. Settings under which the goals
/// do not hold (`holds`) are called the nearest, and not told to be set.
pub fn sentence(settings: &[String], changes: &[Change], holds: bool) -> String {
    let of = |better: bool| -> Vec<String> {
        let these = changes.iter().filter(|change| change.better == better);
        these.map(Change::text).collect()
    };
    let (gains, prices) = (of(true), of(false));
    let gains = match gains.is_empty() {
        true => "no figure gains".to_owned(),
        false => gains.join(", "),
    };
    let price = match prices.is_empty() {
        true => "at no price in these figures".to_owned(),
        false => format!("the price: {}", prices.join(", ")),
    };
    let settings = settings.join(", ");
    match holds {
        true => format!("Set {settings}: {gains}; {price}."),
        false => format!("Nearest: {settings}: {gains}; {price}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(response_ms: u64, throughput: f64, kept_mib: u64) -> Figures {
        Figures {
            kept_free: kept_mib << 20,
            worst_ns: 20_000_000,
            direct: 3,
            throughput,
            response_ns: Some(response_ms * 1_000_000),
            fio_p99_ns: None,
            runs: 1,
            failed: None,
        }
    }

    #[test]
    fn the_sentence_has_gain_and_price() {
        let goals = Goals {
            response_ns: Some(100_000_000),
            ..Goals::default()
        };
        let set = ["dirty_bytes=8388608".to_owned()];
        let changes = changes(&figures(123, 118.1, 6), &figures(50, 98.3, 11), &goals);
        assert_eq!(
            sentence(&set, &changes, true),
            "Set dirty_bytes=8388608: longest answer 123 -> 50 ms (-59 %); the price: throughput 118.1 -> 98.3 MB/s \
             (-17 %), memory kept free 6.0 -> 11.0 MiB (+83 %)."
        );
        assert!(sentence(&set, &changes, false).starts_with("Nearest: dirty_bytes=8388608: "));
        // A figure that stays the same is neither.
        let changes = super::changes(&figures(123, 118.1, 6), &figures(123, 120.0, 6), &goals);
        assert_eq!(
            sentence(&set, &changes, true),
            "Set dirty_bytes=8388608: throughput 118.1 -> 120.0 MB/s (+1.6 %); at no price in these figures."
        );
    }
}
