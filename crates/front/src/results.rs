//! The results of a run, in memory or from a folder.

use crate::Error;
use crate::failure::Failure;
use crate::place::settled;
use crate::runs::{self, Question, Ran};
use lab::diagnostic::{Diagnostic, one_of};
use lab::results::table::{self, Table};
use lab::results::{self, ClaimedFolder, File, Kind, MANIFEST, Terms, Unchanged, complete_folder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The files of a results folder, by their path in it.
#[derive(Debug, Clone)]
pub struct Results {
    files: BTreeMap<String, Vec<u8>>,
    title: String,
    axes: Vec<String>,
    /// The results' folder, if they are in one.
    pub folder: Option<PathBuf>,
    /// The errors of failed iterations, if any.
    pub failed: Option<String>,
    /// Whether all iterations have finished.
    pub complete: bool,
}

/// Which policy is better.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// A sentence per group and policy: faster or slower than the baseline, by how much and with
    /// what confidence.
    pub answers: Vec<String>,
    /// The command line's text with its tables.
    pub text: String,
    /// The results that the comparison is based on.
    pub results: Results,
}

impl Results {
    /// Takes the outcomes of a run as results, and publishes them if they have a folder. An
    /// interrupted run is an error; its finished iterations stay in the folder.
    pub(super) fn of(ran: Ran) -> Result<Self, Error> {
        let outcomes = &ran.outcomes;
        let wanted = outcomes.results.iter().flatten().count();
        let finished = outcomes.results.iter().flatten().flatten().count();
        let stopped = |kept| Failure::Interrupted {
            finished,
            wanted,
            kept,
        };
        if outcomes.interrupted && (finished == 0 || ran.place.is_none()) {
            return Err(stopped(None).into());
        }
        let answer = runs::answer(outcomes, Question::Compare, &ran.releases);
        let mut files = BTreeMap::new();
        if !outcomes.interrupted {
            let mut keep = |file: File| {
                files.insert(file.path, file.bytes);
                Ok(())
            };
            let kept = results::files(outcomes, &answer.files, &mut keep);
            kept.expect("memory takes all files");
        }
        let mut folder = None;
        if let Some(place) = ran.place {
            let (dir, written) = runs::put(outcomes, &answer, place)?;
            if outcomes.interrupted {
                return Err(stopped(Some(dir)).into());
            }
            written?;
            folder = Some(dir);
        }
        Ok(Self {
            files,
            title: outcomes.experiment.name.clone(),
            axes: outcomes.experiment.axes.clone(),
            folder,
            failed: runs::failures(outcomes),
            complete: !outcomes.interrupted,
        })
    }

    /// Reads the results in a folder that `lowmark run` has written.
    ///
    /// # Errors
    /// The path is no such folder, or can't be read.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let wrong = |what: String| {
            let what = format!("`{}`: {what}", dir.display());
            Error::from(Diagnostic::placeless(
                what,
                "accepted: a results folder that `lowmark run` has written",
            ))
        };
        fs::read_dir(dir).map_err(|e| wrong(e.to_string()))?;
        // A missing or strange file is a clearer error than a missing list.
        if let Err(e) = input::file(&dir.join("results.json")) {
            return Err(wrong(match e.kind() {
                ErrorKind::NotFound => "there is no results.json".to_owned(),
                _ => format!("results.json: {e}"),
            }));
        }
        let unchanged = Unchanged::of(dir).map_err(|e| wrong(e.to_string()))?;
        let mut files = BTreeMap::new();
        for path in unchanged.names() {
            match unchanged.read(path) {
                Ok(bytes) => drop(files.insert(path.to_owned(), bytes)),
                // A user may remove files; a table that needs one then says so.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(wrong(format!("{path}: {e}"))),
            }
        }
        let json = files.get("results.json");
        let json = json.ok_or_else(|| {
            wrong(format!(
                "results.json can't be checked for changes, because {MANIFEST} does not list it"
            ))
        })?;
        let document: Value =
            serde_json::from_slice(json).map_err(|e| wrong(format!("results.json: {e}")))?;
        let experiment = &document["experiment"];
        let axes = experiment["axes"].as_array();
        let axes = axes.ok_or_else(|| wrong("results.json is not from an experiment".into()))?;
        Ok(Self {
            title: experiment["name"].as_str().unwrap_or_default().to_owned(),
            axes: axes
                .iter()
                .filter_map(|a| a.as_str().map(str::to_owned))
                .collect(),
            folder: Some(complete_folder(dir).to_owned()),
            failed: None,
            complete: document["interrupted"] == Value::Bool(false),
            files,
        })
    }

    /// Returns the experiment's name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the keys of the experiment in which cells differ.
    pub fn axes(&self) -> &[String] {
        &self.axes
    }

    /// Returns the paths of the files, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns the bytes of a file, by its path in the results folder; `None` if there is none.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Returns the comparison of the policies as the command line prints it.
    pub fn comparison(&self) -> &str {
        let text = self.file("comparison.txt").unwrap_or_default();
        str::from_utf8(text).unwrap_or_default()
    }

    /// Returns a table: `summary`, `iterations`, `tasks`, `latency`, `rows` or `series` (one row
    /// per value).
    ///
    /// # Errors
    /// There is no such table, or it can't be read.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        if name == table::SERIES {
            let files = self.files.iter().filter_map(|(path, bytes)| {
                let own = path.strip_prefix("series/")?.strip_suffix(".csv")?;
                Some((own, bytes.as_slice()))
            });
            return Ok(table::series(files)?);
        }
        let found = table::TABLES.iter().find(|(own, _)| *own == name);
        let Some((_, file)) = found else {
            let mut known = table::TABLES.map(|(name, _)| name).to_vec();
            known.push(table::SERIES);
            let what = format!("there is no table `{name}`");
            return Err(Diagnostic::placeless(what, one_of(name, &known)).into());
        };
        let bytes = self.file(file).ok_or_else(|| {
            let what = format!("there is no {file} in these results");
            Diagnostic::placeless(what, "accepted: results as `lowmark run` writes them")
        })?;
        Ok(Table::read(file, bytes, &self.axes)?)
    }

    /// Writes the results to a folder as `lowmark run --out` does; returns the folder.
    ///
    /// # Errors
    /// The folder exists or can't be written.
    pub fn save(&self, dir: &Path, replace: bool) -> Result<PathBuf, Error> {
        let terms = Terms {
            kind: Kind::Run,
            title: &self.title,
            replace,
        };
        let place = ClaimedFolder::claim(dir, terms).map_err(Failure::from)?;
        let all = || self.files.iter().map(|(p, b)| File::new(p.clone(), &b[..]));
        let published = place.publish(&|emit| all().try_for_each(&mut *emit));
        let published = published.map_err(Failure::from)?;
        settled(&published)?;
        Ok(published.dir)
    }

    /// Converts the results to their comparison. The lines up to the first empty one are its
    /// answers.
    pub fn into_comparison(self) -> Comparison {
        let text = self.comparison().to_owned();
        let answers = text.lines().take_while(|line| !line.is_empty());
        Comparison {
            answers: answers.map(str::to_owned).collect(),
            text,
            results: self,
        }
    }
}
