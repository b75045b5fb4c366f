//! A kernel's figures of a suite as a file, by which presets are judged without a guest: the kernel's side does not depend
//! on the engine.
//!
//! A JSON object, a scenario a line. It says by which build, list of figures, scenario and seeds its figures were taken, and
//! is refused where one of these is another one now.

use super::judged;
use super::measured::{KEPT_SAMPLES, Measured};
use super::suite::Scenario;
use crate::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What a file of this form says of itself.
const FORMAT: &str = "lowmark kept figures 1";

/// A kernel's figures of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    format: String,
    /// The kernel, by the name that it was built under.
    pub kernel: String,
    /// As `uname -r` says in a guest.
    pub release: String,
    /// The digest of everything that it was built from: sources, patches, configuration, compiler.
    pub build: String,
    /// The digest of the list of figures.
    pub figures: String,
    /// Scenarios by name.
    pub scenarios: BTreeMap<String, OfScenario>,
}

/// What is kept of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfScenario {
    /// The digest of its content.
    pub content: String,
    /// The seed that those of the iterations derive from.
    pub seed: u64,
    /// Iterations.
    pub iterations: u32,
    /// The figures.
    pub measured: Measured,
}

impl Kept {
    /// Of a kernel, without a scenario yet.
    pub fn new(kernel: &str, release: String, build: String) -> Self {
        Self {
            format: FORMAT.to_owned(),
            kernel: kernel.to_owned(),
            release,
            build,
            figures: judged::digest(),
            scenarios: BTreeMap::new(),
        }
    }

    /// Takes what a scenario gave, its course thinned.
    pub fn take(&mut self, scenario: &Scenario, seed: u64, iterations: u32, measured: Measured) {
        let course = measured.course.thinned(KEPT_SAMPLES);
        let of = OfScenario {
            content: scenario.content.clone(),
            seed,
            iterations,
            measured: Measured { course, ..measured },
        };
        self.scenarios.insert(scenario.name.clone(), of);
    }

    /// What is kept of a scenario as it is now.
    ///
    /// # Errors
    /// It is not kept, or of another content or list of figures.
    pub fn of(&self, scenario: &Scenario) -> Result<&OfScenario, Diagnostic> {
        let wrong = |what: &str| {
            let what = format!("kept figures of kernel:{}: {what}", self.kernel);
            let accepted = "accepted: figures of these scenarios and this list; `lowmark validate --suite … --keep` takes them anew";
            Diagnostic::placeless(what, accepted)
        };
        if self.figures != judged::digest() {
            let what = "they were taken by another list of figures than this program's (data/validate/figures.toml)";
            return Err(wrong(what));
        }
        let name = &scenario.name;
        let Some(kept) = self.scenarios.get(name) else {
            return Err(wrong(&format!("there is none of the scenario `{name}`")));
        };
        if kept.content != scenario.content {
            let what = format!("the scenario `{name}` has changed since they were taken");
            return Err(wrong(&what));
        }
        Ok(kept)
    }

    /// Joins what an earlier file has of other scenarios.
    ///
    /// # Errors
    /// It is of another build of the kernel or another list of figures.
    pub fn join(&mut self, earlier: Self) -> Result<(), Diagnostic> {
        if (&earlier.build, &earlier.figures) != (&self.build, &self.figures) {
            let what = format!(
                "the kept figures of kernel:{} are of another build of it, or another list of figures",
                self.kernel
            );
            let accepted = "accepted: `--keep` without `--scenario`, which takes all of them anew";
            return Err(Diagnostic::placeless(what, accepted));
        }
        for (name, of) in earlier.scenarios {
            self.scenarios.entry(name).or_insert(of);
        }
        Ok(())
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut out = String::from("{\n");
        for (key, value) in [
            ("format", &self.format),
            ("kernel", &self.kernel),
            ("release", &self.release),
            ("build", &self.build),
            ("figures", &self.figures),
        ] {
            let _ = writeln!(out, "  \"{key}\": {},", json(value));
        }
        out += "  \"scenarios\": {";
        for (i, (name, of)) in self.scenarios.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\n    {}: {}", json(name), json(of));
        }
        out += "\n  }\n}\n";
        out
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("figures have a JSON form")
}

/// The file of a kernel in a folder of kept figures.
pub fn file(folder: &Path, kernel: &str) -> PathBuf {
    folder.join(format!("{kernel}.json"))
}

/// Reads a file.
///
/// # Errors
/// It can't be read, or is none of kept figures.
pub fn read(path: &Path) -> Result<Kept, Diagnostic> {
    let wrong = |what: String| {
        let what = format!("`{}`: {what}", path.display());
        let accepted = "accepted: a file that `lowmark validate --suite … --keep` wrote";
        Diagnostic::placeless(what, accepted)
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("can't be read: {e}")))?;
    let kept: Kept = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("these are no kept figures: {e}")))?;
    match kept.format == FORMAT {
        true => Ok(kept),
        false => Err(wrong(format!("it is of the form `{}`", kept.format))),
    }
}

/// Those of a folder, by release.
///
/// # Errors
/// As [`read`]; or there are none.
pub fn read_folder(folder: &Path) -> Result<Vec<Kept>, Diagnostic> {
    let none = |why: String| {
        let what = format!("no kept figures in `{}`{why}", folder.display());
        let accepted = "accepted: a folder that `lowmark validate --suite … --keep` wrote";
        Diagnostic::placeless(what, accepted)
    };
    let entries = std::fs::read_dir(folder).map_err(|e| none(format!(": {e}")))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let all: Result<Vec<Kept>, Diagnostic> = paths.iter().map(|path| read(path)).collect();
    let mut all = all?;
    if all.is_empty() {
        return Err(none(String::new()));
    }
    let numbers = |kept: &Kept| -> Vec<u32> {
        let parts = kept.release.split(|c: char| !c.is_ascii_digit());
        parts.map_while(|n| n.parse().ok()).collect()
    };
    all.sort_by_key(numbers);
    Ok(all)
}

/// Writes a file as a whole or not at all; its folder is made if need be.
///
/// # Errors
/// What the system says.
pub fn write(path: &Path, kept: &Kept) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(kept.to_text().as_bytes())?;
    file.as_file().sync_all()?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode)?;
    file.persist(path)?;
    Ok(())
}
