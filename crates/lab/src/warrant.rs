//! Quotes below a verdict how often the engine was right, beside a real kernel, about changes of
//! the same kind. The counts come from the committed score of the pairs of one change each
//! (`data/validate/effects/score.json`, docs/effects.md).

use crate::figures::claim::{SummaryTable, baselines};
use crate::model::{Cell, Experiment};
use mm::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The committed score.
const EMBEDDED: &str = include_str!("../../../data/validate/effects/score.json");
/// The presets that the pairs judge.
const JUDGED: [&str; 2] = ["linux-6.12", "linux-6.1"];
/// Fewest effects of one figure whose counts are told instead of those of the whole kind.
const FEWEST: usize = 4;

/// Counts of right and judged figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Figures whose effect in the kernel is up or down.
    pub effects: usize,
    /// Those in which the engine has the same sign.
    pub signs: usize,
    /// Those in which the engine has the same sign and size.
    pub sizes: usize,
    /// Figures that do not change in the kernel.
    pub none: usize,
    /// Those in which the engine claims an effect.
    pub false_claims: usize,
    /// Figures of which the kernel's runs do not tell whether they change: not scored.
    pub undecided: usize,
}

impl Tally {
    /// Returns the sums of two counts.
    fn with(&self, other: &Self) -> Self {
        Self {
            effects: self.effects + other.effects,
            signs: self.signs + other.signs,
            sizes: self.sizes + other.sizes,
            none: self.none + other.none,
            false_claims: self.false_claims + other.false_claims,
            undecided: self.undecided + other.undecided,
        }
    }

    /// Returns the share of signs that are right, 0 to 1; 1 if the kernel has no effect.
    pub fn share_of_signs(&self) -> f64 {
        match self.effects {
            0 => 1.0,
            n => self.signs as f64 / n as f64,
        }
    }
}

/// The score of the engine by kind of change, as it is committed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The kinds by name.
    pub kinds: BTreeMap<String, OfKind>,
}

/// The score of one kind of change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfKind {
    /// Keys of an experiment that the kind's pairs change, such as `machine.disk.kind`, and
    /// switches of a policy.
    pub keys: BTreeSet<String>,
    /// The counts of all figures.
    pub all: Tally,
    /// The counts by metric or counter of a figure.
    pub figures: BTreeMap<String, Tally>,
}

impl Score {
    /// Reads the committed score.
    fn committed() -> Self {
        serde_json::from_str(EMBEDDED).expect("the file that comes with the program is right")
    }

    /// Returns the text of the committed file.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a score has a JSON form") + "\n"
    }

    /// Returns the kinds that change all of these keys; empty if a key belongs to none.
    fn kinds_of(&self, changed: &BTreeSet<String>) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        for key in changed {
            let kind = self.kinds.iter().find(|(_, of)| {
                let within = |known: &String| {
                    let rest = key.strip_prefix(known.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                };
                of.keys.iter().any(within)
            });
            match kind {
                Some((name, _)) => all.insert(name.as_str()),
                None => return BTreeSet::new(),
            };
        }
        all
    }
}

/// The answer of the pairs about the changes that an experiment compares.
#[derive(Debug, Clone, PartialEq)]
pub enum Warrant {
    /// The kinds of the changes, the counts of all of their figures, and those of the figure that
    /// leads.
    Held(Vec<String>, Tally, Tally),
    /// The pairs do not have all of these keys.
    Unasked(Vec<String>),
}

impl Warrant {
    /// Finds what the pairs tell about the changes that an experiment compares, and about the
    /// leading figure `question`. `None` if nothing is compared, if real kernels take part, or if
    /// no compared policy is a judged preset.
    pub fn of(experiment: &Experiment, question: &SummaryTable) -> Option<Self> {
        Self::by(&Score::committed(), experiment, &question.metric)
    }

    /// Finds the same by a score, for the leading figure `question`.
    fn by(score: &Score, experiment: &Experiment, question: &str) -> Option<Self> {
        let cells = &experiment.cells;
        let of = baselines(cells);
        let mut compared = (cells.iter().zip(&of))
            .filter_map(|(cell, base)| Some((&cells[(*base)?], cell)))
            .peekable();
        let presets = JUDGED.map(|name| Policy::preset(name).expect("a preset"));
        let first = compared.peek()?;
        let is_engine = cells.iter().all(|cell| cell.kernel.is_none());
        let judged = |cell| judged_preset(&presets, cell).is_some();
        if !is_engine || !(judged(first.0) || judged(first.1)) {
            return None;
        }
        let changed: BTreeSet<String> = compared
            .flat_map(|(a, b)| changed(&presets, a, b))
            .collect();
        if changed.is_empty() {
            return None;
        }
        let kinds = score.kinds_of(&changed);
        if kinds.is_empty() {
            return Some(Self::Unasked(changed.into_iter().collect()));
        }
        let (mut all, mut figure) = (Tally::default(), Tally::default());
        for of in kinds.iter().map(|kind| &score.kinds[*kind]) {
            all = all.with(&of.all);
            figure = figure.with(&of.figures.get(question).copied().unwrap_or_default());
        }
        let kinds = kinds.into_iter().map(str::to_owned).collect();
        Some(Self::Held(kinds, all, figure))
    }

    /// Returns a line of a terminal.
    pub fn line(&self) -> String {
        match self {
            Self::Held(_, all, _) if all.effects == 0 => format!(
                "beside a kernel, such changes: no effect in {} figures, {} claimed (docs/effects.md)",
                all.none, all.false_claims
            ),
            Self::Held(_, all, _) => format!(
                "beside a kernel, such changes: sign {} of {}, size {} of {} (docs/effects.md)",
                all.signs, all.effects, all.sizes, all.effects
            ),
            Self::Unasked(_) => {
                "beside a kernel, such changes were not tried yet (docs/effects.md)".to_owned()
            }
        }
    }

    /// Returns a sentence of a page: with the kinds, the false claims, and the counts of the
    /// leading figure, `question`, if the pairs have at least four effects of it.
    pub fn sentence(&self, question: &str) -> String {
        let counts = |tally: &Tally| {
            format!(
                "the engine had the sign of {} and the size of {} of the kernel's {} effects, and claimed {} where \
                 the kernel had none ({})",
                tally.signs, tally.sizes, tally.effects, tally.false_claims, tally.none
            )
        };
        match self {
            Self::Held(kinds, all, figure) => {
                let mut out = format!(
                    "Beside a real kernel (docs/effects.md), by changes of {}: {}",
                    kinds.join(", "),
                    counts(all)
                );
                if figure.effects >= FEWEST {
                    out += &format!("; in {question}: {}", counts(figure));
                }
                out + "."
            }
            Self::Unasked(keys) => format!(
                "No real kernel was asked what changes of {} do (docs/effects.md).",
                keys.join(", ")
            ),
        }
    }
}

/// Returns the name of the preset whose switches a cell's policy has, whatever its sysctls; `None`
/// if it has others.
fn judged_preset<'a>(presets: &'a [Policy], cell: &Cell) -> Option<&'a str> {
    let own = &cell.spec.policy;
    let found = presets
        .iter()
        .find(|preset| own.clone().named(&preset.name) == **preset);
    found.map(|preset| preset.name.as_str())
}

/// Returns the keys in which two cells' runs differ: of the machine and of the experiment, and
/// switches of the policy by their bare names. Names of machines and policies are words for people.
fn changed(presets: &[Policy], a: &Cell, b: &Cell) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    match (judged_preset(presets, a), judged_preset(presets, b)) {
        (Some(a), Some(b)) if a != b => {
            keys.insert("release".to_owned());
        }
        (Some(_), Some(_)) => {}
        _ => {
            differences("", &json(&a.spec.policy), &json(&b.spec.policy), &mut keys);
            keys.remove("name");
        }
    }
    if a.spec.machine != b.spec.machine {
        let (a, b) = (json(&a.spec.machine), json(&b.spec.machine));
        differences("machine", &a, &b, &mut keys);
        keys.remove("machine.name");
    }
    if a.spec.params != b.spec.params {
        let (before, behind) = (&a.spec.params, &b.spec.params);
        let names = sim::Params::TABLE.iter().map(|p| p.name);
        let differ = names.filter(|name| before.get(name) != behind.get(name));
        keys.extend(differ.map(|name| format!("params.{name}")));
    }
    if a.spec.filesystem != b.spec.filesystem {
        keys.insert("filesystem".into());
    }
    if a.spec.workload != b.spec.workload {
        keys.insert("workload.command".into());
    }
    keys
}

/// Returns a value in JSON.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("specifications have a JSON form")
}

/// Adds to `keys` the paths below `path` at which two JSON values differ, with dots between.
fn differences(path: &str, a: &Value, b: &Value, keys: &mut BTreeSet<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let below = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                let null = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                differences(&below, a, b, keys);
            }
        }
        _ if a == b => {}
        _ => {
            keys.insert(path.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use crate::experiment::{Overrides, parse};

    /// Returns an experiment that compares these policies, with further keys.
    fn experiment(policies: &str, more: &str) -> Experiment {
        let text = format!(
            "name = \"t\"\npolicy = [{policies}]\nfilesystem = \"ext4\"\nmachine = \"1G,1cpu,ssd\"\n\
             workload = {{ command = \"sleep 1\" }}\n{more}"
        );
        let source = Source::new("t.toml", text);
        parse(&source, &|_| Err(String::new()), &Overrides::default()).unwrap()
    }

    fn score() -> Score {
        let tally = |effects, signs| Tally {
            effects,
            signs,
            sizes: signs - 1,
            none: 7,
            ..Tally::default()
        };
        let kind = |keys: &[&str], figures: BTreeMap<String, Tally>| OfKind {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            all: tally(12, 11),
            figures,
        };
        let elapsed = [("elapsed", tally(4, 3)), ("reads", tally(3, 2))];
        let figures = elapsed.map(|(name, tally)| (name.to_owned(), tally));
        let kinds = [
            (
                "dirty limits",
                kind(&["machine.sysctl.dirty_ratio"], BTreeMap::from(figures)),
            ),
            (
                "swappiness",
                OfKind {
                    all: Tally {
                        none: 11,
                        ..Tally::default()
                    },
                    ..kind(&["machine.sysctl.swappiness"], BTreeMap::new())
                },
            ),
            ("kernel release", kind(&["release"], BTreeMap::new())),
        ];
        Score {
            kinds: kinds.map(|(name, of)| (name.to_owned(), of)).into(),
        }
    }

    fn line(experiment: &Experiment) -> String {
        let warrant = Warrant::by(&score(), experiment, "elapsed");
        warrant.map_or(String::new(), |warrant| warrant.line())
    }

    const SYSCTL: &str = "[policies.mine]\nbase = \"linux-6.12\"\nsysctl = { dirty_ratio = 5 }\n";

    #[test]
    fn a_sysctl_has_the_counts_of_its_kind_and_figure() {
        let e = experiment("\"linux-6.12\", \"mine\"", SYSCTL);
        assert_eq!(
            line(&e),
            "beside a kernel, such changes: sign 11 of 12, size 10 of 12 (docs/effects.md)"
        );
        let sentence = |question| {
            Warrant::by(&score(), &e, question)
                .unwrap()
                .sentence(question)
        };
        let whole = "Beside a real kernel (docs/effects.md), by changes of dirty limits: the engine had the sign of \
                     11 and the size of 10 of the kernel's 12 effects, and claimed 0 where the kernel had none (7)";
        let figure = "; in elapsed: the engine had the sign of 3 and the size of 2 of the kernel's 4 effects, and \
                      claimed 0 where the kernel had none (7)";
        assert_eq!(sentence("elapsed"), format!("{whole}{figure}."));
        assert_eq!(
            sentence("reads"),
            format!("{whole}."),
            "too few of the figure"
        );
    }

    #[test]
    fn changes_without_an_effect_say_so() {
        let swappiness = SYSCTL.replace("dirty_ratio", "swappiness");
        let e = experiment("\"linux-6.12\", \"mine\"", &swappiness);
        assert_eq!(
            line(&e),
            "beside a kernel, such changes: no effect in 11 figures, 0 claimed (docs/effects.md)"
        );
    }

    #[test]
    fn kinds_are_summed_up() {
        let disk = SYSCTL.to_owned() + "[policies.other]\nbase = \"linux-6.1\"\n";
        let e = experiment("\"linux-6.12\", \"mine\", \"other\"", &disk);
        assert!(
            line(&e).contains("sign 22 of 24, size 20 of 24"),
            "{}",
            line(&e)
        );
    }

    #[test]
    fn a_release_is_a_kind_of_its_own() {
        let e = experiment("\"linux-6.1\", \"linux-6.12\"", "");
        let Some(Warrant::Held(kinds, ..)) = Warrant::by(&score(), &e, "elapsed") else {
            panic!("it is held to a kernel");
        };
        assert_eq!(kinds, ["kernel release"]);
    }

    #[test]
    fn unknown_changes_say_so() {
        let more = SYSCTL.replace("sysctl", "lru_batch = 1\nsysctl");
        let e = experiment("\"linux-6.12\", \"mine\"", &more);
        let warrant = Warrant::by(&score(), &e, "elapsed").unwrap();
        assert_eq!(
            warrant.sentence("elapsed"),
            "No real kernel was asked what changes of lru_batch, machine.sysctl.dirty_ratio do (docs/effects.md)."
        );
        assert!(warrant.line().contains("not tried"), "{}", warrant.line());
    }

    #[test]
    fn presets_that_no_pair_judges_have_no_sentence() {
        assert_eq!(line(&experiment("\"linux-3.1\", \"linux-3.16\"", "")), "");
        assert_eq!(
            line(&experiment("\"linux-6.12\"", "")),
            "",
            "nothing is compared"
        );
        let same = SYSCTL.replace("dirty_ratio = 5", "");
        let e = experiment("\"linux-6.12\", \"mine\"", &same);
        assert_eq!(line(&e), "", "nothing changes");
    }

    #[test]
    fn the_committed_score_is_read() {
        assert!(Score::committed().to_text().starts_with("{\n"));
    }
}
