//! A suite: a folder of experiments, with one machine and one filesystem each, in which presets are
//! compared with real kernels.
//!
//! A digest identifies what a scenario runs ([`Scenario::content`]), so that figures are never
//! judged by those of another scenario. Some scenarios are [`held_out`]: they must not influence
//! the building of the engine.

use crate::diagnostic::Diagnostic;
use crate::experiment::{self, Overrides, quoted};
use crate::model::Experiment;
use crate::results::hex;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of the suites, from the project's root.
pub const FOLDER: &str = "experiments/validate";

/// A scenario of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The name of the scenario's file without its ending.
    pub name: String,
    /// The path of the scenario's file.
    pub path: PathBuf,
    /// A digest of what the scenario runs: of its file and its job file, without comments.
    pub content: String,
}

/// Returns true if a scenario is held out, and must not influence the building of the engine: if
/// the first eight bytes of the SHA-256 of its name, read as a big-endian number, are divisible by
/// three.
pub fn held_out(name: &str) -> bool {
    let sum = Sha256::digest(name);
    let (first, _) = sum.as_slice().split_first_chunk().expect("it has 32 bytes");
    u64::from_be_bytes(*first).is_multiple_of(3)
}

/// Returns the timer frequency of a scenario's machine: 250 ticks a second, as most machines have,
/// if the second eight bytes of the SHA-256 of its name, read as a big-endian number, are divisible
/// by three, and otherwise 100, as User-Mode Linux has. The scenario's file sets it (`machine.hz`).
pub fn ticks(name: &str) -> u32 {
    let sum = Sha256::digest(name);
    let (second, _) = sum.as_slice()[8..]
        .split_first_chunk()
        .expect("it has 32 bytes");
    match u64::from_be_bytes(*second).is_multiple_of(3) {
        true => 250,
        false => kernel::build::ticks::HZ,
    }
}

/// Returns the preset nearest to a kernel, by its release or name (`6.12.94`); the newest preset if
/// the name holds no release.
pub fn nearest(kernel: &str) -> &'static str {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let release = number().zip(number());
    mm::policy::nearest(release.unwrap_or((u32::MAX, 0))).name
}

/// Returns the scenarios of a suite, sorted by name. `suite` is the path of a folder, or the name
/// of one in [`FOLDER`], which is looked for here and in all folders above.
///
/// # Errors
/// Fails if there is no such folder, if it is empty, or if a file can't be read or is no scenario.
pub fn scenarios(suite: &str) -> Result<Vec<Scenario>, Diagnostic> {
    let folder = folder(suite)?;
    let wrong = |e: std::io::Error| {
        let what = format!("`{}` can't be read: {e}", folder.display());
        Diagnostic::placeless(what, "accepted: a folder of experiments")
    };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            all.push(Scenario::read(path)?);
        }
    }
    if all.is_empty() {
        let what = format!("no experiment is in `{}`", folder.display());
        let accepted = "accepted: a folder with files that end in .toml";
        return Err(Diagnostic::placeless(what, accepted));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Finds the folder of a suite: by name in [`FOLDER`] here or in a folder above, or else by path.
///
/// # Errors
/// Fails if there is no such folder.
fn folder(suite: &str) -> Result<PathBuf, Diagnostic> {
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().map(|at| at.join(FOLDER).join(suite));
    let mut candidates = above.chain([PathBuf::from(suite)]);
    candidates.find(|path| path.is_dir()).ok_or_else(|| {
        let what = format!("no suite `{suite}`");
        let accepted = format!(
            "accepted: the name of a folder of {FOLDER}, such as modern, in the project's folder; or any folder of experiments"
        );
        Diagnostic::placeless(what, accepted)
    })
}

impl Scenario {
    /// Reads a scenario's file and its fio job file, and computes the digest of both.
    ///
    /// # Errors
    /// Fails if a file can't be read, or the experiment names further files, whose content the
    /// digest would not cover.
    pub(super) fn read(path: PathBuf) -> Result<Self, Diagnostic> {
        let wrong = |what: String, accepted: &str| {
            Diagnostic::placeless(format!("scenario `{}`: {what}", path.display()), accepted)
        };
        let read = |path: &Path| {
            experiment::read_text(path).map_err(|e| {
                let what = format!("`{}` can't be read: {e}", path.display());
                wrong(what, "accepted: a file that can be read")
            })
        };
        let text = read(&path)?;
        let table: toml::Table = toml::from_str(&text)
            .map_err(|e| wrong(e.message().to_owned(), "accepted: an experiment file"))?;
        let workload = table.get("workload").and_then(toml::Value::as_table);
        let machine = table.get("machine").and_then(toml::Value::as_table);
        let of = |key: &str| workload.and_then(|w| w.get(key));
        // Other files that a scenario could name would be missing from the digest.
        if machine.is_none_or(|m| m.contains_key("base")) || of("trace").is_some() {
            return Err(wrong(
                "it is made of other files".to_owned(),
                "accepted: a table [machine] of its own, and a command line or one fio job file",
            ));
        }
        let jobs = match of("fio") {
            None => String::new(),
            Some(toml::Value::String(name)) => read(&path.with_file_name(name))?,
            Some(_) => {
                let what = "it has several job files".to_owned();
                return Err(wrong(what, "accepted: one"));
            }
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.into_owned(),
            content: content(&text, &jobs),
            path,
        })
    }

    /// Returns the scenario's experiment with a cell for each of these policies. `set` has further
    /// settings as `key=value`, and each cell runs `iterations` times.
    ///
    /// # Errors
    /// Fails if it can't be read, or has axes of its own.
    pub fn load(
        &self,
        policies: &[String],
        set: &[String],
        iterations: u32,
    ) -> Result<Experiment, Diagnostic> {
        let list: Vec<String> = policies.iter().map(|p| quoted(p)).collect();
        let mut set = set.to_vec();
        // Comes last, so that it overrides `set`.
        set.push(format!("policy=[{}]", list.join(",")));
        let overrides = Overrides {
            set,
            iterations: Some(iterations),
            track_pages: false,
            ..Overrides::default()
        };
        let experiment = experiment::load(&self.path, &overrides)?;
        let zones = |cell: &crate::model::Cell| -> usize {
            cell.spec.machine.nodes.iter().map(|n| n.zones.len()).sum()
        };
        let several = experiment.cells.len() != policies.len();
        if several || experiment.cells.iter().any(|cell| zones(cell) != 1) {
            let what = format!("scenario `{}` is more than one", self.path.display());
            let accepted = "accepted: one machine of one zone, one filesystem, one workload";
            return Err(Diagnostic::placeless(what, accepted));
        }
        Ok(experiment)
    }
}

/// Returns the SHA-256 digest, in hex, of the text of an experiment and its job file (empty if
/// there is none), without empty lines and comments.
fn content(experiment: &str, jobs: &str) -> String {
    let mut hash = Sha256::new();
    for (text, comments) in [(experiment, &["#"][..]), (jobs, &["#", ";"])] {
        let kept = |line: &&str| !line.is_empty() && comments.iter().all(|c| !line.starts_with(c));
        for line in text.lines().map(str::trim).filter(kept) {
            hash.update(format!("{line}\n"));
        }
        hash.update([0]);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_content() {
        let one = content(
            "# why\nname = \"a\"\n\n[machine]\n",
            "; jobs\n[a]\nrw=read\n",
        );
        assert_eq!(one, content("name = \"a\"\n[machine]", "[a]\n# b\nrw=read"));
        assert_ne!(one, content("name = \"a\"\n[machine]", "[a]\nrw=write"));
        assert_ne!(one, content("name = \"b\"\n[machine]", "[a]\nrw=read"));
        // Moving a line from one file into the other gives another digest.
        assert_ne!(content("a", "b"), content("a\nb", ""));
    }

    #[test]
    fn the_nearest_preset_is_none_of_a_later_time() {
        let newest = mm::policy::PRESETS
            .iter()
            .max_by_key(|p| p.release)
            .unwrap();
        assert_eq!(nearest("4.9.337"), "linux-4.9");
        assert_eq!(nearest("4.1"), "linux-3.16");
        assert_eq!(nearest("99.1-mine"), newest.name);
        assert_eq!(nearest("mine"), newest.name);
    }

    /// The list of held-out scenarios is fixed before the first mechanism is built: moving a name
    /// from one part to the other would be a choice by results.
    #[test]
    fn a_third_of_the_suite_is_held_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let suite = root.join(FOLDER).join("modern");
        let all = scenarios(&suite.display().to_string()).unwrap();
        assert!(all.len() >= 18);
        let apart: Vec<&str> = all
            .iter()
            .map(|s| s.name.as_str())
            .filter(|name| held_out(name))
            .collect();
        assert_eq!(
            apart,
            [
                "fsync-xfs-256m",
                "inodes-ext4-192m",
                "re-read-one-xfs-256m",
                "re-read-random-xfs-512m",
                "re-read-two-btrfs-128m",
                "small-files-xfs-128m",
                "write-ext4-256m",
                "write-two-ext4-128m",
                "write-usb-ext4-1g",
                "write-xfs-512m",
            ]
        );
        for scenario in all {
            let loaded = scenario.load(&["linux-4.9".to_owned()], &[], 5).unwrap();
            assert_eq!(loaded.name, format!("modern-{}", scenario.name));
            // Whether it ticks 250 times is no choice by results either.
            let cell = &loaded.cells[0];
            assert!(!cell.says_hz || cell.spec.machine.hz == ticks(&scenario.name));
        }
    }

    #[test]
    fn a_third_of_the_suite_ticks_250_times() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let suite = root.join(FOLDER).join("modern");
        let all = scenarios(&suite.display().to_string()).unwrap();
        let names = all.iter().map(|s| s.name.as_str());
        let faster: Vec<&str> = names.filter(|name| ticks(name) == 250).collect();
        assert_eq!(
            faster,
            [
                "database-ext4-256m",
                "inodes-ext4-192m",
                "mmap-write-ext4-256m",
                "re-read-two-btrfs-128m",
                "small-files-btrfs-128m",
                "small-files-xfs-128m",
                "swap-burst-ext4-256m",
                "write-btrfs-256m",
                "write-ext4-256m",
                "write-usb-ext4-1g",
            ]
        );
    }

    #[test]
    fn what_is_no_scenario_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let suite = dir.path().display().to_string();
        let refused = |text: &str| {
            std::fs::write(dir.path().join("a.toml"), text).unwrap();
            let all = scenarios(&suite).map_err(|e| e.to_string());
            all.and_then(|all| {
                let policy = ["linux-4.9".to_owned()];
                all[0].load(&policy, &[], 1).map_err(|e| e.to_string())
            })
            .map(|_| ())
            .unwrap_err()
        };
        assert!(
            scenarios(&suite)
                .unwrap_err()
                .to_string()
                .contains("no experiment")
        );
        let nowhere = scenarios("nowhere").unwrap_err().to_string();
        assert!(nowhere.contains("no suite `nowhere`"), "{nowhere}");
        let other = refused("machine = \"m.toml\"\n[workload]\ncommand = \"sleep 1\"\n");
        assert!(other.contains("other files"), "{other}");
        let two = "name = \"a\"\npolicy = \"linux-4.9\"\nfilesystem = [\"ext4\", \"xfs\"]\n\
                   [machine]\nname = \"m\"\ncpus = 1\ndisk = { kind = \"ssd\", capacity = \"1G\" }\n\
                   boot = { kernel = \"16M\", anon = \"0\", cache = \"0\" }\n\
                   [[machine.node]]\nzones = [{ zone = \"Normal\", size = \"128M\" }]\n\
                   [workload]\ncommand = \"sleep 1\"\n";
        let two = refused(two);
        assert!(two.contains("more than one"), "{two}");
    }
}
