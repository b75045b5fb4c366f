//! A patch series as switches: `patches.toml` in the folder of a published series, or a file of the
//! user's.
//!
//! | key | meaning |
//! | --- | --- |
//! | `series` | its name |
//! | `base` | the policy that the patches are applied to |
//! | `experiment` | the experiment that shows their effects |
//! | `set` | settings of it, as `--set` takes them, so that fewer cells are run |
//! | `figures` | rows, counters and figures of the workload that patches are judged by |
//! | `patch` | a list in the order of the series: `number`, `title`, `switches`, `note` |
//!
//! A patch without `switches` changes no behaviour of the engine.

use crate::diagnostic::{Diagnostic, Source};
use crate::experiment::{self, Overrides, files_near, read_text};
use crate::model::{Experiment, Figure};
use crate::published::files;
use crate::rows;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file in a series' folder.
pub const FILE: &str = "patches.toml";

/// Switches of a policy by name.
pub type Switches = BTreeMap<String, toml::Value>;

/// One patch of a series.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The patch's number in the series.
    pub number: u32,
    /// The patch's title.
    pub title: String,
    /// The switches that the patch sets; empty: it changes no behaviour of the engine.
    #[serde(default)]
    pub switches: Switches,
    /// A remark on the patch.
    pub note: Option<String>,
}

/// A series of patches.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patches {
    /// The name of the series.
    pub series: String,
    /// The policy that the patches are applied to.
    pub base: String,
    /// The path of the experiment's file.
    pub experiment: String,
    /// Settings of the experiment, as `--set` takes them.
    #[serde(default)]
    pub set: Vec<String>,
    /// The figures that patches are judged by.
    pub figures: Vec<String>,
    /// The patches in the order of the series.
    pub patch: Vec<Patch>,
}

/// A series with the experiment in which it is tried: a cell for each different set of switches.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The series.
    pub patches: Patches,
    /// The figures that patches are judged by.
    pub figures: Vec<Figure>,
    /// The experiment.
    pub experiment: Experiment,
    /// The policy of each prefix: before the first patch, with the first patch, …
    pub prefixes: Vec<String>,
    /// The policy with all patches but one, for each patch.
    pub without: Vec<String>,
}

/// Returns the names of the shipped series that can be attributed, because they have a file
/// `patches.toml`.
pub fn shipped() -> Vec<&'static str> {
    let name = |(path, _): &(&'static str, &'static str)| {
        let inside = path.strip_prefix("data/published/")?;
        inside.strip_suffix(FILE)?.strip_suffix('/')
    };
    files::FILES.iter().filter_map(name).collect()
}

/// Reads a shipped series of patches by its name, or a file of the user's by its path; `set` adds
/// settings of the experiment.
///
/// # Errors
/// Returns the first mistake.
pub fn load(name: &str, set: &[String]) -> Result<Tried, Diagnostic> {
    let own = |file: &str| {
        let text = files::find(file);
        let text = text.ok_or_else(|| format!("there is no file `{file}` with the program"));
        Ok((file.to_owned(), text?.to_owned()))
    };
    if shipped().contains(&name) {
        let path = format!("data/published/{name}/{FILE}");
        let text = files::find(&path).unwrap_or_default();
        return parse(&Source::new(path, text), &own, set);
    }
    if Path::new(name).extension().is_none_or(|e| e != "toml") {
        let what = format!("no series `{name}` whose patches are switches");
        let accepted = format!(
            "accepted: {}, or a file such as mine.toml",
            shipped().join(", ")
        );
        return Err(Diagnostic::placeless(what, accepted));
    }
    let text = read_text(Path::new(name)).map_err(|e| {
        let accepted = "accepted: a file of patches, as docs/commands.md describes it";
        Diagnostic::placeless(format!("{name} can't be read: {e}"), accepted)
    })?;
    let near = files_near(Path::new(name));
    let find = |file: &str| near(file).or_else(|_| own(file));
    parse(&Source::new(name, text), &find, set)
}

/// Reads a series of patches from a text, as [`load`] does, and its experiment with a policy for
/// each set of switches; `find` finds the experiment's files, `set` adds settings.
///
/// # Errors
/// Returns the first mistake.
pub fn parse(
    source: &Source,
    find: &experiment::Files<'_>,
    set: &[String],
) -> Result<Tried, Diagnostic> {
    let wrong = |what: String, accepted: &str| {
        Diagnostic::placeless(format!("{}: {what}", source.name()), accepted)
    };
    let patches: Patches = toml::from_str(source.text()).map_err(|e| {
        let before = e.span().map_or("", |s| source.text().get(..s.start).unwrap_or_default());
        let line = before.matches('\n').count() + 1;
        let accepted = "accepted: series, base, experiment, set, figures, and [[patch]] with number, title, switches, note";
        wrong(format!("line {line}: {}", e.message()), accepted)
    })?;
    if patches.patch.is_empty() || !patches.patch.is_sorted_by(|a, b| a.number < b.number) {
        let what = "patches are not in the order of their numbers, each once".to_owned();
        return Err(wrong(what, "accepted: [[patch]] with ascending `number`"));
    }
    let figure = |name: &String| {
        rows::figure(name).map_err(|why| wrong(why, "accepted: what `lowmark explain` lists"))
    };
    let figures: Vec<Figure> = patches
        .figures
        .iter()
        .map(figure)
        .collect::<Result<_, _>>()?;
    if figures.is_empty() {
        let what = "no `figures`".to_owned();
        return Err(wrong(what, "accepted: at least one, such as `elapsed`"));
    }
    let (shown, text) = find(&patches.experiment)
        .map_err(|why| wrong(why, "accepted: the path of an experiment"))?;
    let mut policies = Policies::default();
    let all: Vec<&Switches> = patches.patch.iter().map(|p| &p.switches).collect();
    let prefixes = (0..=all.len()).map(|n| {
        let name = match n {
            0 => "none".to_owned(),
            n => format!("to-{}", patches.patch[n - 1].number),
        };
        policies.named(name, &all[..n])
    });
    let prefixes: Vec<String> = prefixes.collect();
    let without = (0..all.len()).map(|n| {
        let rest: Vec<&Switches> = [&all[..n], &all[n + 1..]].concat();
        policies.named(format!("without-{}", patches.patch[n].number), &rest)
    });
    let without = without.collect();
    let mut settings = patches.set.clone();
    settings.extend_from_slice(set);
    settings.extend(policies.settings(&patches.base));
    let overrides = Overrides {
        set: settings,
        iterations: Some(1),
        track_pages: false,
        ..Overrides::default()
    };
    let experiment = experiment::parse(&Source::new(shown, text), find, &overrides)?;
    Ok(Tried {
        patches,
        figures,
        experiment,
        prefixes,
        without,
    })
}

/// The different sets of switches, each with the name of the first policy that has it.
#[derive(Default)]
struct Policies(Vec<(String, Switches)>);

impl Policies {
    /// Returns the name of the policy that these patches' switches make; later patches override
    /// earlier ones. A new set of switches gets `name`; a known one keeps the name that it has.
    fn named(&mut self, name: String, patches: &[&Switches]) -> String {
        let mut all = Switches::new();
        for switches in patches {
            all.extend(switches.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        if let Some((known, _)) = self.0.iter().find(|(_, s)| *s == all) {
            return known.clone();
        }
        self.0.push((name.clone(), all));
        name
    }

    /// Returns the settings, in the form of `--set`, that define these policies over the policy
    /// `base` in the experiment.
    fn settings(&self, base: &str) -> Vec<String> {
        let text = |s: &str| toml::Value::String(s.to_owned()).to_string();
        let names: Vec<String> = self.0.iter().map(|(name, _)| text(name)).collect();
        let mut all = vec![format!("policy=[{}]", names.join(", "))];
        for (name, switches) in &self.0 {
            let mut table = format!("base = {}", text(base));
            for (key, value) in switches {
                table += &format!(", {} = {value}", key);
            }
            all.push(format!("policies.{name}={{ {table} }}"));
        }
        all
    }
}
