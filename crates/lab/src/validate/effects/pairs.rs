//! The list of pairs: a file with a table for each, the headline figures with their floors, and the
//! experiments that a pair's sides run.

use crate::diagnostic::{Diagnostic, one_of};
use crate::experiment::{self, Overrides, quoted};
use crate::model::Experiment;
use crate::results::hex;
use crate::validate::judged::Figure;
use crate::validate::suite::{Scenario, nearest};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of the file in a folder of pairs.
pub const FILE: &str = "pairs.toml";
/// The kernel of sides that name none.
const KERNEL: &str = "6.12";
/// The name of the policy that a side's experiment runs.
const SIDE: &str = "side";
/// Fewest and most headline figures of a pair.
const FIGURES: std::ops::RangeInclusive<usize> = 3..=6;

/// The content of a file of pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The folder of the scenarios, from the file's own folder.
    scenarios: PathBuf,
    /// The figures that pairs name.
    figure: Vec<Headline>,
    pair: Vec<PairText>,
}

/// A figure that pairs name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// The value below which the figure does not matter, in the figure's unit; positive.
    pub floor: f64,
    /// The figure: its name, and where it is found in a run.
    pub figure: Figure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairText {
    name: String,
    kind: String,
    scenario: String,
    #[serde(default)]
    from: SideText,
    to: SideText,
    figures: Vec<String>,
}

/// A side of a pair as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SideText {
    /// Keys of the scenario with dots, and the values that they get.
    #[serde(default)]
    set: toml::Table,
    /// The name of the kernel's build.
    kernel: Option<String>,
    /// Sysctls of the kernel alone, such as those of a patch.
    #[serde(default)]
    sysctl: toml::Table,
    /// Settings of the engine's policy, which is the preset nearest to the kernel.
    #[serde(default)]
    engine: toml::Table,
}

/// All pairs of a folder.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// The figures, in the order of the file.
    pub figures: Vec<Headline>,
    /// The pairs, in the order of the file.
    pub pairs: Vec<Pair>,
}

/// One scenario and one change of it.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The pair's name.
    pub name: String,
    /// The kind of the change, such as `dirty limits`.
    pub kind: String,
    /// The side before the change.
    pub from: Side,
    /// The side behind it.
    pub to: Side,
    /// The names of the headline figures.
    pub figures: Vec<String>,
}

/// One side of a pair: a scenario with settings.
#[derive(Debug, Clone)]
pub struct Side {
    scenario: Scenario,
    side: SideText,
}

impl Pair {
    /// Returns the keys that the change sets: of the experiment, and switches of the engine's
    /// policy by their bare names. A change of the kernel's release has `release`.
    pub fn changed(&self) -> BTreeSet<String> {
        let (from, to) = (&self.from.side, &self.to.side);
        let mut keys = BTreeSet::new();
        for (a, b) in [(&from.set, &to.set), (&from.engine, &to.engine)] {
            let all = a.keys().chain(b.keys());
            keys.extend(all.filter(|key| a.get(*key) != b.get(*key)).cloned());
        }
        if self.from.kernel() != self.to.kernel() {
            keys.insert("release".into());
        }
        keys
    }
}

impl Side {
    /// Returns the name of the kernel's build.
    pub fn kernel(&self) -> &str {
        self.side.kernel.as_deref().unwrap_or(KERNEL)
    }

    /// Returns a digest of everything that the kernel runs on this side but its build: the
    /// scenario's content, the settings, the kernel's name and its sysctls. Sides of several pairs
    /// that run the same share their figures.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(&self.scenario.content);
        for table in [&self.side.set, &self.side.sysctl] {
            hash.update([0]);
            hash.update(table.to_string());
        }
        hash.update([0]);
        hash.update(self.kernel());
        hex(&hash.finalize()[..8])
    }

    /// Returns a digest of everything that the engine runs on this side: [`Side::key`] and the
    /// policy's settings.
    pub fn engine_key(&self) -> String {
        format!("{} {}", self.key(), self.side.engine)
    }

    /// Returns a text for people: the scenario's name with the settings.
    pub fn label(&self) -> String {
        let mut words = vec![format!("{} kernel:{}", self.scenario.name, self.kernel())];
        for (key, value) in self.side.set.iter().chain(&self.side.sysctl) {
            words.push(format!("{key}={value}"));
        }
        words.join(" ")
    }

    /// Returns the experiment that runs this side in its kernel `iterations` times.
    ///
    /// # Errors
    /// Fails if the scenario or a setting is wrong, or if the scenario has axes.
    pub fn in_kernel(&self, iterations: u32) -> Result<Experiment, Diagnostic> {
        let mut policy = toml::Table::new();
        policy.insert("kernel".into(), self.kernel().into());
        if !self.side.sysctl.is_empty() {
            policy.insert("sysctl".into(), self.side.sysctl.clone().into());
        }
        self.experiment(policy, iterations)
    }

    /// Returns the experiment that runs this side in the engine, under the preset nearest to the
    /// kernel's `release`, or under `preset`, `iterations` times.
    ///
    /// # Errors
    /// Fails as [`Side::in_kernel`] does.
    pub fn in_engine(
        &self,
        release: &str,
        preset: Option<&str>,
        iterations: u32,
    ) -> Result<Experiment, Diagnostic> {
        let mut policy = self.side.engine.clone();
        let base = preset.unwrap_or_else(|| nearest(release));
        policy.insert("base".into(), base.into());
        self.experiment(policy, iterations)
    }

    /// Returns the scenario's experiment with this side's settings and one policy.
    fn experiment(&self, policy: toml::Table, iterations: u32) -> Result<Experiment, Diagnostic> {
        let mut set: Vec<String> = (self.side.set.iter())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        set.push(format!("policies.{SIDE}={}", toml::Value::Table(policy)));
        set.push(format!("policy=[{}]", quoted(SIDE)));
        let overrides = Overrides {
            set,
            iterations: Some(iterations),
            ..Overrides::default()
        };
        let experiment = experiment::load(&self.scenario.path, &overrides)?;
        match experiment.cells.len() {
            1 => Ok(experiment),
            _ => Err(Diagnostic::placeless(
                format!("`{}` has several cells", self.label()),
                "accepted: one machine, one filesystem, one workload",
            )),
        }
    }
}

/// Reads the pairs of a folder: its file [`FILE`] and the scenarios that it names.
///
/// # Errors
/// Fails if a file can't be read or is wrong, if two pairs have one name, if a pair changes
/// nothing, or names an unknown figure, too few or too many.
pub fn read(folder: &Path) -> Result<Pairs, Diagnostic> {
    let path = folder.join(FILE);
    let wrong = |what: String, accepted: &str| {
        Diagnostic::placeless(format!("`{}`: {what}", path.display()), accepted)
    };
    let text = experiment::read_text(&path).map_err(|e| {
        let accepted = "accepted: a folder of pairs, such as data/validate/effects";
        wrong(format!("can't be read: {e}"), accepted)
    })?;
    let file: File = toml::from_str(&text).map_err(|e| {
        wrong(
            e.message().to_owned(),
            "accepted: the keys of docs/effects.md",
        )
    })?;
    let known: Vec<&str> = file.figure.iter().map(|f| f.figure.name.as_str()).collect();
    if let Some(f) = file
        .figure
        .iter()
        .find(|f| f.floor.is_nan() || f.floor <= 0.0)
    {
        let what = format!("the floor of `{}` is not positive", f.figure.name);
        return Err(wrong(what, "accepted: a number above 0"));
    }
    let mut pairs: Vec<Pair> = Vec::new();
    for text in file.pair {
        let of = |what: String| format!("pair `{}`: {what}", text.name);
        if pairs.iter().any(|pair| pair.name == text.name) {
            return Err(wrong(
                of("there are two".into()),
                "accepted: names that differ",
            ));
        }
        if text.from == text.to {
            let accepted = "accepted: `from` and `to` that differ";
            return Err(wrong(of("nothing changes".into()), accepted));
        }
        if !FIGURES.contains(&text.figures.len()) {
            let accepted = format!("accepted: {} to {}", FIGURES.start(), FIGURES.end());
            let what = of(format!("{} figures", text.figures.len()));
            return Err(wrong(what, &accepted));
        }
        if let Some(name) = text.figures.iter().find(|n| !known.contains(&n.as_str())) {
            let what = of(format!("no figure `{name}`"));
            return Err(wrong(what, &one_of(name, &known)));
        }
        let place = folder.join(&file.scenarios).join(&text.scenario);
        let scenario = Scenario::read(place.with_extension("toml"))?;
        let side = |side: SideText| Side {
            scenario: scenario.clone(),
            side,
        };
        pairs.push(Pair {
            from: side(text.from),
            to: side(text.to),
            name: text.name,
            kind: text.kind,
            figures: text.figures,
        });
    }
    Ok(Pairs {
        figures: file.figure,
        pairs,
    })
}

impl Pairs {
    /// Returns the headline figure that a pair names.
    ///
    /// # Panics
    /// Panics if no figure has the name; [`read`] refuses pairs that name such a figure.
    pub fn headline(&self, name: &str) -> &Headline {
        let found = self.figures.iter().find(|f| f.figure.name == name);
        found.expect("a figure that a pair names")
    }

    /// Returns the sides that kernels run, each once, in the order of the pairs.
    pub fn sides(&self) -> Vec<&Side> {
        let mut seen = BTreeSet::new();
        let all = self.pairs.iter().flat_map(|pair| [&pair.from, &pair.to]);
        all.filter(|side| seen.insert(side.key())).collect()
    }

    /// Returns a digest of the figures that are measured, without their floors.
    pub fn figures_digest(&self) -> String {
        let mut hash = Sha256::new();
        for headline in &self.figures {
            hash.update(format!("{:?}\n", headline.figure));
        }
        hex(&hash.finalize()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "name = \"s\"\npolicy = \"linux-4.9\"\nfilesystem = \"ext4\"\n\
         [machine]\nname = \"m\"\ncpus = 1\ndisk = { kind = \"ssd\", capacity = \"1G\" }\n\
         node = [{ zones = [{ zone = \"Normal\", size = \"512M\" }] }]\n\
         [workload]\ncommand = \"sleep 1\"\n";

    /// Returns a folder with a scenario `s` and a list of these pairs. The figures are `a`, `b` and
    /// `c`.
    fn folder(pairs: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let figure = |name: &str| {
            format!(
                "[[figure]]\nfloor = 1\nfigure = {{ name = \"{name}\", metric = [\"elapsed\"] }}\n"
            )
        };
        let figures: String = ["a", "b", "c"].map(figure).concat();
        let list = format!("scenarios = \".\"\n{figures}{pairs}");
        std::fs::write(dir.path().join(FILE), list).unwrap();
        std::fs::write(dir.path().join("s.toml"), SCENARIO).unwrap();
        dir
    }

    fn pair(name: &str, sides: &str) -> String {
        format!(
            "[[pair]]\nname = \"{name}\"\nkind = \"k\"\nscenario = \"s\"\n{sides}\n\
             figures = [\"a\", \"b\", \"c\"]\n"
        )
    }

    #[test]
    fn sides_that_run_the_same_are_measured_once() {
        let ratio = "to = { set = { \"machine.sysctl.dirty_ratio\" = 5 } }";
        let scheduler = "to = { set = { \"machine.disk.scheduler\" = \"none\" } }";
        let engine = "to = { kernel = \"6.12\", engine = { dirty_limits = \"global\" } }";
        let text = [pair("x", ratio), pair("y", scheduler), pair("z", engine)].concat();
        let pairs = read(folder(&text).path()).unwrap();
        let labels: Vec<String> = pairs.sides().iter().map(|s| s.label()).collect();
        assert_eq!(
            labels,
            [
                "s kernel:6.12",
                "s kernel:6.12 machine.sysctl.dirty_ratio=5",
                "s kernel:6.12 machine.disk.scheduler=\"none\""
            ],
            "a policy's switches of the engine are nothing to the kernel"
        );
        let z = &pairs.pairs[2];
        assert_ne!(z.from.engine_key(), z.to.engine_key());
    }

    #[test]
    fn a_side_changes_kernel_and_engine_alike() {
        let set = "to = { set = { \"machine.sysctl.dirty_ratio\" = 5 }, engine = { dirty_limits = \"global\" } }";
        let dir = folder(&pair("x", set));
        let pairs = read(dir.path()).unwrap();
        let to = &pairs.pairs[0].to;
        let (kernel, engine) = (
            to.in_kernel(6).unwrap(),
            to.in_engine("6.1.9", None, 2).unwrap(),
        );
        let ratio = |e: &Experiment| e.cells[0].spec.machine.sysctl.dirty_ratio;
        assert_eq!((ratio(&kernel), ratio(&engine)), (5, 5));
        assert_eq!(kernel.cells[0].kernel.as_ref().unwrap().build, "6.12");
        assert_eq!((kernel.iterations, engine.iterations), (6, 2));
        assert!(engine.cells[0].kernel.is_none());
        assert_eq!(
            engine.cells[0].spec.policy.dirty_limits,
            mm::policy::DirtyLimits::Global
        );
    }

    #[test]
    fn wrong_lists_are_refused() {
        let refused = |pairs: &str, why: &str| {
            let dir = folder(pairs);
            let said = read(dir.path()).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        };
        let change = "to = { kernel = \"6.1\" }";
        refused(&pair("x", "to = {}"), "pair `x`: nothing changes");
        refused(
            &[pair("x", change), pair("x", change)].concat(),
            "there are two",
        );
        refused(
            &pair("x", change).replace("\"c\"", "\"d\""),
            "no figure `d`",
        );
        refused(&pair("x", change).replace(", \"c\"", ""), "2 figures");
        refused(&pair("x", "to = { sett = {} }"), "unknown field `sett`");
        refused(
            "[[figure]]\nfloor = 0\nfigure = { name = \"d\" }\n",
            "missing field `pair`",
        );
        let floor = format!(
            "[[figure]]\nfloor = 0\nfigure = {{ name = \"d\" }}\n{}",
            pair("x", change)
        );
        refused(&floor, "the floor of `d` is not positive");
        let nothing = tempfile::tempdir().unwrap();
        let said = read(nothing.path()).unwrap_err().to_string();
        assert!(said.contains("can't be read"), "{said}");
        let axes = pair("x", "to = { set = { filesystem = [\"ext4\", \"xfs\"] } }");
        let dir = folder(&axes);
        let said = read(dir.path()).unwrap().pairs[0].to.in_kernel(1);
        assert!(said.unwrap_err().to_string().contains("several cells"));
    }

    /// The committed list has what docs/effects.md promises, and every side of it can be run.
    #[test]
    fn the_committed_list_is_balanced() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pairs = read(&root.join("data/validate/effects")).unwrap();
        assert!(pairs.pairs.len() >= 60);
        let kinds: BTreeSet<&str> = pairs.pairs.iter().map(|p| p.kind.as_str()).collect();
        let of = |kind: &str| pairs.pairs.iter().filter(|p| p.kind == kind).count();
        for kind in kinds {
            assert!(of(kind) >= 3, "{kind}");
        }
        assert!(of("disk") <= 15 && of("memory size") <= 15);
        for side in pairs.sides() {
            side.in_kernel(1)
                .unwrap_or_else(|e| panic!("{}: {e}", side.label()));
        }
        for side in pairs.pairs.iter().flat_map(|p| [&p.from, &p.to]) {
            let release = side.kernel();
            side.in_engine(release, None, 1)
                .unwrap_or_else(|e| panic!("{}: {e}", side.label()));
        }
    }
}
