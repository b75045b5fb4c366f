//! Keeps a kernel's figures of a suite in a file, so that presets can be judged without running a
//! guest: a kernel's figures do not depend on the engine.
//!
//! The file is a JSON object with a scenario in each line. It names the build, list of figures,
//! scenarios and seeds that its figures were taken with, and is refused if one of these has
//! changed.

use super::judged;
use super::measured::{KEPT_SAMPLES, Measured};
use super::suite::Scenario;
use crate::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The format that such a file names in itself.
const FORMAT: &str = "lowmark kept figures 1";

/// A kernel's figures of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    format: String,
    /// The name under which the kernel was built.
    pub kernel: String,
    /// The kernel's release (`uname -r`) in a guest.
    pub release: String,
    /// The digest of everything that the kernel was built from: sources, patches, configuration,
    /// compiler.
    pub build: String,
    /// The digest of the list of figures.
    pub figures: String,
    /// Scenarios by name.
    pub scenarios: BTreeMap<String, OfScenario>,
}

/// The kept figures of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfScenario {
    /// The digest of the scenario's content.
    pub content: String,
    /// The seed from which the seeds of iterations derive.
    pub seed: u64,
    /// Number of iterations.
    pub iterations: u32,
    /// The figures.
    pub measured: Measured,
}

impl Kept {
    /// Starts a file of kept figures for a kernel, without a scenario; `build` is the digest of
    /// everything that the kernel was built from.
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

    /// Adds the figures of a scenario, measured in `iterations` runs whose seeds derive from
    /// `seed`. The time series are thinned.
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

    /// Returns the kernel's figures of a scenario that this file keeps.
    ///
    /// # Errors
    /// Fails if the scenario is not kept, or was kept with other content or another list of
    /// figures.
    pub fn of(&self, scenario: &Scenario) -> Result<&OfScenario, Diagnostic> {
        let wrong = |what: &str| {
            let what = format!("kept figures of kernel:{}: {what}", self.kernel);
            let accepted = "accepted: figures of these scenarios and this list; `lowmark validate --suite … --keep` takes them anew";
            Diagnostic::placeless(what, accepted)
        };
        if self.version().is_none() {
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

    /// Returns the version of the list of figures that was used; `None` if it never was this
    /// program's list.
    pub fn version(&self) -> Option<u32> {
        judged::version_of(&self.figures)
    }

    /// Adds the scenarios of an earlier file of the same build that this one does not have.
    ///
    /// # Errors
    /// Fails if the earlier file is of another build of the kernel or another list of figures.
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

    /// Returns the text of the file: a JSON object with a line for each scenario, so that
    /// differences between versions are readable.
    pub fn to_text(&self) -> String {
        let head = [
            ("format", &self.format),
            ("kernel", &self.kernel),
            ("release", &self.release),
            ("build", &self.build),
            ("figures", &self.figures),
        ];
        to_lines(&head, "scenarios", &self.scenarios)
    }
}

/// Returns a JSON object with the texts of `head`, each in a line, and behind them the object
/// `name` with a line for each of its entries.
pub(super) fn to_lines(
    head: &[(&str, &String)],
    name: &str,
    entries: &BTreeMap<String, impl Serialize>,
) -> String {
    let mut out = String::from("{\n");
    for (key, value) in head {
        let _ = writeln!(out, "  \"{key}\": {},", json(value));
    }
    let _ = write!(out, "  \"{name}\": {{");
    for (i, (key, of)) in entries.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\n    {}: {}", json(key), json(of));
    }
    out += "\n  }\n}\n";
    out
}

/// Returns the JSON text of a value.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("figures have a JSON form")
}

/// Returns the path of a kernel's file in a folder of kept figures.
pub fn file(folder: &Path, kernel: &str) -> PathBuf {
    folder.join(format!("{kernel}.json"))
}

/// Largest file that is read, in bytes: some dozen times that of the suite of this project.
const MOST: u64 = 256 << 20;

/// Reads a file of kept figures of a kernel, and checks its format.
///
/// # Errors
/// Fails if the file cannot be read, or is not a file of kept figures.
pub fn read(path: &Path) -> Result<Kept, Diagnostic> {
    let wrong = |what: String| {
        let what = format!("`{}`: {what}", path.display());
        let accepted = "accepted: a file that `lowmark validate --suite … --keep` wrote";
        Diagnostic::placeless(what, accepted)
    };
    let text = input::text(path, MOST).map_err(|e| wrong(format!("can't be read: {e}")))?;
    let kept: Kept = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("the file does not hold stored figures: {e}")))?;
    match kept.format == FORMAT {
        true => Ok(kept),
        false => Err(wrong(format!("it is of the form `{}`", kept.format))),
    }
}

/// Reads all files of kept figures (`*.json`) in a folder, sorted by the numbers of the kernel's
/// release.
///
/// # Errors
/// Fails as [`read`] does, and if the folder has no such file.
pub fn read_folder(folder: &Path) -> Result<Vec<Kept>, Diagnostic> {
    let no_figures = |why: String| {
        let what = format!("no kept figures in `{}`{why}", folder.display());
        let accepted = "accepted: a folder that `lowmark validate --suite … --keep` wrote";
        Diagnostic::placeless(what, accepted)
    };
    let entries = std::fs::read_dir(folder).map_err(|e| no_figures(format!(": {e}")))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let all: Result<Vec<Kept>, Diagnostic> = paths.iter().map(|path| read(path)).collect();
    let mut all = all?;
    if all.is_empty() {
        return Err(no_figures(String::new()));
    }
    let numbers = |kept: &Kept| -> Vec<u32> {
        let parts = kept.release.split(|c: char| !c.is_ascii_digit());
        parts.map_while(|n| n.parse().ok()).collect()
    };
    all.sort_by_key(numbers);
    Ok(all)
}

/// Writes a file of kept figures completely or not at all; creates its folder if necessary.
///
/// # Errors
/// Returns the error of the system.
pub fn write(path: &Path, kept: &Kept) -> std::io::Result<()> {
    write_whole(path, &kept.to_text())
}

/// Writes a text file completely or not at all; creates its folder if necessary.
///
/// # Errors
/// Returns the error of the system.
pub fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::measured::{Course, Told};

    fn scenario(name: &str, content: &str) -> Scenario {
        Scenario {
            name: name.to_owned(),
            path: PathBuf::new(),
            content: content.to_owned(),
        }
    }

    fn measured(samples: usize) -> Measured {
        let t: Vec<f64> = (0..samples).map(|i| i as f64 / 10.0).collect();
        let values = vec![0.1, 1.0 / 3.0, 12345.678];
        let elapsed = Told {
            unit: "s".to_owned(),
            values,
        };
        Measured {
            policy: "kernel:6.12".to_owned(),
            group: "ext4".to_owned(),
            completed: 3,
            moved: 1000.0,
            managed: Some(60_000.0),
            figures: BTreeMap::from([("elapsed".to_owned(), elapsed)]),
            course: Course {
                columns: BTreeMap::from([("free".to_owned(), t.clone())]),
                t,
            },
        }
    }

    fn kept(build: &str, scenarios: &[&str]) -> Kept {
        let mut kept = Kept::new("6.12", "6.12.94".to_owned(), build.to_owned());
        for name in scenarios {
            kept.take(&scenario(name, "as it is"), 1, 3, measured(250));
        }
        kept
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir.path().join("new"), "6.12");
        let all = kept("a build", &["one", "two"]);
        write(&path, &all).unwrap();
        let read = read_folder(path.parent().unwrap()).unwrap();
        assert_eq!(read, [all]);
        let course = &read[0].scenarios["one"].measured.course;
        assert!(course.t.len() <= KEPT_SAMPLES && course.t.len() > KEPT_SAMPLES / 2);
        assert_eq!(course.t[..2], [0.0, 0.3], "every third");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 11, "a scenario a line");
    }

    #[test]
    fn kernels_are_in_the_order_of_their_releases() {
        let dir = tempfile::tempdir().unwrap();
        for (name, release) in [("6.12", "6.12.94"), ("6.1", "6.1.192")] {
            let kept = Kept::new(name, release.to_owned(), String::new());
            write(&file(dir.path(), name), &kept).unwrap();
        }
        let names: Vec<String> = (read_folder(dir.path()).unwrap().into_iter())
            .map(|k| k.kernel)
            .collect();
        assert_eq!(names, ["6.1", "6.12"]);
    }

    #[test]
    fn figures_of_another_scenario_or_list_are_refused() {
        let mut kept = kept("a build", &["one"]);
        let refused = |kept: &Kept, scenario: &Scenario| kept.of(scenario).unwrap_err().to_string();
        assert!(kept.of(&scenario("one", "as it is")).is_ok());
        let changed = refused(&kept, &scenario("one", "another"));
        assert!(changed.contains("`one` has changed since"), "{changed}");
        let none = refused(&kept, &scenario("two", "as it is"));
        assert!(none.contains("none of the scenario `two`"), "{none}");
        kept.figures = "another list".to_owned();
        let list = refused(&kept, &scenario("one", "as it is"));
        assert!(list.contains("another list of figures"), "{list}");
    }

    #[test]
    fn single_scenarios_join_those_of_the_same_build_alone() {
        let mut new = kept("a build", &["one"]);
        new.scenarios.get_mut("one").unwrap().iterations = 5;
        new.join(kept("a build", &["one", "two"])).unwrap();
        let had: Vec<(&str, u32)> = (new.scenarios.iter())
            .map(|(name, of)| (name.as_str(), of.iterations))
            .collect();
        assert_eq!(had, [("one", 5), ("two", 3)], "what is new stands above");
        let other = new.join(kept("another build", &["three"])).unwrap_err();
        assert!(other.to_string().contains("another build"), "{other}");
    }

    #[test]
    fn what_is_no_file_of_kept_figures_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = read_folder(dir.path()).unwrap_err().to_string();
        assert!(nothing.contains("no kept figures"), "{nothing}");
        let path = file(dir.path(), "6.12");
        let text = kept("a build", &[]).to_text();
        std::fs::write(&path, text.replace("figures 1", "figures 9")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("figures 9"));
        std::fs::write(&path, "{}").unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("not hold stored figures")
        );
    }
}
