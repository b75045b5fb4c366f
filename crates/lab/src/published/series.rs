//! A published series: a folder with `series.toml`, which describes the tables beside it.
//!
//! | key of `series.toml` | meaning |
//! | --- | --- |
//! | `title`, `date`, `kernel` | the series, month of its first posting (`2011-07`), its kernel |
//! | `link` | the thread, if it is known |
//! | `pages` | pages of the project's documentation about it |
//! | `baseline` | the policy that the others are compared with |
//! | `policies` | the meaning of each policy of the tables |
//! | `watched` | tables with this in their file's name were taken while monitors ran |
//! | `experiment` | a list of experiments that give figures: `file`, `any_machine` (see below) |
//! | `fitted` | cells to which a machine file fits a parameter (see below) |
//! | `sample` | simulated seconds of each run in CI's check for changed answers; default 20 |
//! | `light` | all of it is measured in a minute or so: `just scores` without a name measures it |
//! | `gaps` | facts about the series that are unknown, a sentence each |
//!
//! `any_machine` says that the experiment's commands do not depend on the machine, so that it
//! stands for every `machines/NAME.toml`. A `fitted` cell is named by machine, threads, filesystem,
//! workload, metric and policy with `/` between. Files named in `series.toml` lie beside it or come
//! with the program, under their paths from the project's root.

use super::files;
use super::table::{PublishedRow, TableError, parse};
use crate::experiment::{files_near, read_text};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The name of the file that makes a folder a series.
pub const FILE: &str = "series.toml";
/// The folder of the shipped series, from the project's root.
const SHIPPED: &str = "data/published";

/// The contents of `series.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The series' title.
    pub title: String,
    /// Year and month of the first posting, such as `2011-07`.
    pub date: String,
    /// The kernel that the series was for.
    pub kernel: String,
    /// The address of the thread, if it is known.
    pub link: Option<String>,
    /// Pages of the documentation about the series.
    #[serde(default)]
    pub pages: Vec<String>,
    /// The policy that the others are compared with.
    pub baseline: String,
    /// The meaning of each policy.
    pub policies: BTreeMap<String, String>,
    /// A part of the file names of tables that were taken while monitors ran.
    pub watched: Option<String>,
    /// The experiments that give the figures.
    pub experiment: Vec<Template>,
    /// Cells to which a machine file fits a parameter: all columns but the series, with `/`
    /// between.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// Simulated seconds of each run of the sample ([`super::scores::Sample`]).
    #[serde(default = "sample_seconds")]
    pub sample: u32,
    /// True if the whole series is measured in a minute or so.
    #[serde(default)]
    pub light: bool,
    /// Facts about the series that are unknown.
    #[serde(default)]
    pub gaps: Vec<String>,
}

fn sample_seconds() -> u32 {
    20
}

/// An experiment of a series, which rows of the tables may widen ([`super::plan()`]).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The path of the experiment's file.
    pub file: String,
    /// True if the experiment gives figures for any machine that has a file.
    #[serde(default)]
    pub any_machine: bool,
}

/// A series of published results.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name of the series, which is that of its folder and of the first column of its tables.
    pub name: String,
    /// The contents of `series.toml`.
    pub about: About,
    /// The rows of its tables, sorted by the tables' file names.
    pub rows: Vec<PublishedRow>,
    /// The folder of the series; `None` for one that comes with the program.
    folder: Option<PathBuf>,
}

impl Series {
    /// Builds a series from the texts of its files, and checks them. `about` is `series.toml` and
    /// `tables` are its CSV tables, each as (name for messages, text); `folder` is the folder of
    /// the series, `None` for one that comes with the program.
    fn new(
        name: &str,
        about: (&str, &str),
        tables: &[(String, String)],
        folder: Option<PathBuf>,
    ) -> Result<Self, TableError> {
        let (file, text) = about;
        let wrong = |line: u64, message: String, accepted: &str| TableError {
            file: file.into(),
            line,
            message,
            accepted: accepted.into(),
        };
        let about: About = toml::from_str(text).map_err(|e| {
            let before = e.span().map_or("", |s| &text[..s.start.min(text.len())]);
            let line = before.matches('\n').count() as u64 + 1;
            let accepted = "the keys that `lab::published::series` lists, such as `title = \"…\"`";
            wrong(line, e.message().to_owned(), accepted)
        })?;
        let line_of = |key: &str| {
            let at = text.lines().position(|l| l.trim_start().starts_with(key));
            at.map_or(1, |n| n as u64 + 1)
        };
        let (year, month) = about.date.split_once('-').unwrap_or_default();
        let is_date = year.len() == 4
            && year.bytes().all(|b| b.is_ascii_digit())
            && month.len() == 2
            && (1..=12).contains(&month.parse().unwrap_or(0));
        if !is_date {
            let what = format!("`date` is `{}`", about.date);
            return Err(wrong(
                line_of("date"),
                what,
                "year and month, such as `2011-07`",
            ));
        }
        if !about.policies.contains_key(&about.baseline) {
            let what = format!(
                "`baseline` is `{}`, which `policies` leaves out",
                about.baseline
            );
            let all: Vec<&str> = about.policies.keys().map(String::as_str).collect();
            let accepted = format!("one of {}", all.join(", "));
            return Err(wrong(line_of("baseline"), what, &accepted));
        }
        if about.experiment.is_empty() {
            return Err(wrong(
                1,
                "no `experiment`".into(),
                "at least one [[experiment]]",
            ));
        }
        let mut series = Self {
            name: name.to_owned(),
            about,
            rows: Vec::new(),
            folder,
        };
        for (file, text) in tables {
            let rows = series.rows_of(file, parse(file, text)?)?;
            series.rows.extend(rows);
        }
        let is_row = |key: &&String| series.rows.iter().any(|r| r.key() == **key);
        if let Some(none) = series.about.fitted.iter().find(|key| !is_row(key)) {
            let what = format!("`fitted` has `{none}`, which is not a row of its tables");
            let accepted = "machine/threads/filesystem/workload/metric/policy of a row";
            return Err(wrong(line_of("fitted"), what, accepted));
        }
        Ok(series)
    }

    /// Checks that the rows of one table are of this series, and sets which of them were taken
    /// while monitors ran or are fitted. `file` is the table's name.
    fn rows_of(
        &self,
        file: &str,
        mut rows: Vec<PublishedRow>,
    ) -> Result<Vec<PublishedRow>, TableError> {
        let name = Path::new(file).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let watched = self.about.watched.as_deref();
        for row in &mut rows {
            row.monitors = watched.is_some_and(|w| name.contains(w));
            let key = row.key();
            let of_series = format!("{}/{key}", row.series);
            let mut of_model = sim::Params::TABLE.iter().flat_map(|p| p.fitted);
            row.fitted = self.about.fitted.contains(&key) || of_model.any(|f| *f == of_series);
            if row.series != self.name {
                return Err(TableError {
                    file: file.into(),
                    line: row.line,
                    message: format!("`series` is `{}`", row.series),
                    accepted: format!("`{}`, as the folder is called", self.name),
                });
            }
        }
        Ok(rows)
    }

    /// Returns a file that the series or one of its experiments names, as (name to show in
    /// messages, text). It lies beside the series or comes with the program.
    ///
    /// # Errors
    /// Fails if there is no such file, or it can't be read.
    pub fn file(&self, name: &str) -> Result<(String, String), String> {
        let beside = match &self.folder {
            Some(folder) => files_near(&folder.join(FILE))(name).ok(),
            None => {
                let path = format!("{SHIPPED}/{}/{name}", self.name);
                files::find(&path).map(|text| (path, text.to_owned()))
            }
        };
        let own = || files::find(name).map(|text| (name.to_owned(), text.to_owned()));
        beside.or_else(own).ok_or_else(|| {
            format!(
                "there is no file `{name}` beside {FILE} of `{}`, nor with the program",
                self.name
            )
        })
    }
}

/// Returns the series that come with the program, the oldest first.
///
/// # Panics
/// Panics if a shipped series is not well-formed; the tests exclude this.
pub fn shipped() -> &'static [Series] {
    static ALL: OnceLock<Vec<Series>> = OnceLock::new();
    ALL.get_or_init(|| of_files(files::FILES).unwrap_or_else(|e| panic!("{e}; {}", e.accepted)))
}

/// Returns the shipped series of this name.
pub fn find(name: &str) -> Option<&'static Series> {
    shipped().iter().find(|s| s.name == name)
}

/// Returns the series among files of the program, given as (path from the project's root, text),
/// the oldest first.
fn of_files(files: &[(&str, &str)]) -> Result<Vec<Series>, TableError> {
    let mut all = Vec::new();
    for (path, text) in files {
        let inside = path.strip_prefix(SHIPPED).and_then(|p| p.strip_prefix('/'));
        let Some((name, FILE)) = inside.and_then(|p| p.split_once('/')) else {
            continue;
        };
        let folder = format!("{SHIPPED}/{name}/");
        let tables: Vec<(String, String)> = files
            .iter()
            .filter(|(path, _)| path.starts_with(&folder) && path.ends_with(".csv"))
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        all.push(Series::new(name, (path, text), &tables, None)?);
    }
    all.sort_by(by_age);
    Ok(all)
}

fn by_age(a: &Series, b: &Series) -> std::cmp::Ordering {
    (&a.about.date, &a.name).cmp(&(&b.about.date, &b.name))
}

/// Builds the error for a file or folder that can't be read.
fn unreadable(what: &Path, e: &std::io::Error, accepted: &str) -> TableError {
    TableError {
        file: what.display().to_string(),
        line: 0,
        message: format!("can't read it: {e}"),
        accepted: accepted.into(),
    }
}

/// Returns the paths in a folder, sorted by name; `accepted` is for the error.
fn entries(folder: &Path, accepted: &str) -> Result<Vec<PathBuf>, TableError> {
    let all = std::fs::read_dir(folder).and_then(|entries| {
        entries
            .map(|e| Ok(e?.path()))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut all = all.map_err(|e| unreadable(folder, &e, accepted))?;
    all.sort();
    Ok(all)
}

/// Returns the CSV tables of a folder, sorted by name: the name to show, and the text.
fn tables(folder: &Path) -> Result<Vec<(String, String)>, TableError> {
    let accepted = "a folder of CSV tables";
    let paths = entries(folder, accepted)?;
    let csv = |p: &&PathBuf| p.extension().is_some_and(|x| x == "csv");
    let read = |path: &PathBuf| {
        let text = read_text(path).map_err(|e| unreadable(path, &e, accepted))?;
        Ok((path.display().to_string(), text))
    };
    paths.iter().filter(csv).map(read).collect()
}

/// Returns the shipped series together with those of a folder of series folders, which replace
/// shipped ones of the same name; the oldest first.
///
/// # Errors
/// Fails if the folder can't be read or has no series in it, and on the first mistake in one.
pub fn read_folder(folder: &Path) -> Result<Vec<Series>, TableError> {
    let accepted = "a folder of folders with series.toml and CSV tables";
    let mut all = shipped().to_vec();
    let mut any = false;
    for path in entries(folder, accepted)? {
        let file = path.join(FILE);
        if !file.is_file() {
            continue;
        }
        any = true;
        let text = read_text(&file).map_err(|e| unreadable(&file, &e, accepted))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let shown = file.display().to_string();
        let series = Series::new(&name, (&shown, &text), &tables(&path)?, Some(path.clone()))?;
        all.retain(|s| s.name != series.name);
        all.push(series);
    }
    if !any {
        let none = std::io::Error::other("no folder with series.toml in it");
        return Err(unreadable(folder, &none, accepted));
    }
    all.sort_by(by_age);
    Ok(all)
}

/// Replaces the rows of all series by those of a folder's tables; a series without a row in them is
/// left without rows.
///
/// # Errors
/// Fails if the folder can't be read or has no table in it, and on the first mistake in one.
pub fn replace_tables(series: &mut [Series], folder: &Path) -> Result<(), TableError> {
    let tables = tables(folder)?;
    if tables.is_empty() {
        let none = std::io::Error::other("no .csv file in it");
        return Err(unreadable(folder, &none, "a folder of CSV tables"));
    }
    series.iter_mut().for_each(|s| s.rows.clear());
    let known: Vec<String> = series.iter().map(|s| s.name.clone()).collect();
    for (file, text) in tables {
        let rows = parse(&file, &text)?;
        if let Some(row) = rows.iter().find(|r| !known.contains(&r.series)) {
            return Err(TableError {
                file,
                line: row.line,
                message: format!("`series` is `{}`", row.series),
                accepted: format!("one of {}", known.join(", ")),
            });
        }
        for s in series.iter_mut() {
            let own = rows.iter().filter(|r| r.series == s.name).cloned();
            let own = s.rows_of(&file, own.collect())?;
            s.rows.extend(own);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Direction;

    #[test]
    fn shipped_series_are_well_formed() {
        let all = shipped();
        let names: Vec<&str> = all.iter().map(|s| &s.name[..]).collect();
        assert!(names.contains(&"per-zone-dirty-limits"), "{names:?}");
        assert!(all.iter().map(|s| s.rows.len()).sum::<usize>() > 500);
        let down = |r: &PublishedRow| r.direction == Some(Direction::Down);
        assert!(find("per-zone-dirty-limits").is_some_and(|s| s.rows.iter().any(down)));
        for s in all {
            assert!(!s.rows.is_empty(), "{}", s.name);
            for page in &s.about.pages {
                let path = page.split('#').next().unwrap_or_default();
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                assert!(root.join(path).is_file(), "{}: {page}", s.name);
            }
        }
        let watched = |s: &str| find(s).is_some_and(|s| s.rows.iter().any(|r| r.monitors));
        assert!(watched("writeback-from-reclaim") && !watched("sequential-read"));
    }

    const HEAD: &str = "series,machine,threads,filesystem,workload,metric,unit,policy,value,stddev,tolerance,direction\n";
    const ABOUT: &str = "title = 't'\ndate = '2011-07'\nkernel = 'k'\nbaseline = 'p'\n\
                         policies = { p = 'it' }\nexperiment = [{ file = 'e.toml' }]\n";

    fn series(about: &str, table: &str) -> Result<Series, TableError> {
        let tables = [("s.csv".to_owned(), format!("{HEAD}{table}\n"))];
        Series::new("s", ("s/series.toml", about), &tables, None)
    }

    #[test]
    fn what_is_wrong_with_a_series_is_told_with_its_line() {
        let row = "s,m,1,xfs,w,e,s,p,1,,none,";
        assert_eq!(series(ABOUT, row).expect("well-formed").rows.len(), 1);
        for (about, line, message) in [
            (
                ABOUT.replace("2011-07", "July 2011"),
                2,
                "`date` is `July 2011`",
            ),
            (
                ABOUT.replace("2011-07", "2011-13"),
                2,
                "`date` is `2011-13`",
            ),
            (
                ABOUT.replace("baseline = 'p'", "baseline = 'q'"),
                4,
                "`baseline` is `q`",
            ),
            (ABOUT.replace("title", "titel"), 1, "titel"),
            (
                ABOUT.replace("[{ file = 'e.toml' }]", "[]"),
                1,
                "no `experiment`",
            ),
            (
                ABOUT.replace("kernel = 'k'", "kernel = 3"),
                3,
                "invalid type",
            ),
        ] {
            let e = series(&about, row).expect_err(message);
            assert!(e.message.contains(message), "{e}");
            assert_eq!((&e.file[..], e.line), ("s/series.toml", line), "{e}");
        }
        let e = series(ABOUT, "t,m,1,xfs,w,e,s,p,1,,none,").expect_err("another series");
        let told = (&e.file[..], e.line, &e.message[..]);
        assert_eq!(told, ("s.csv", 2, "`series` is `t`"));
    }

    #[test]
    fn a_folder_adds_and_replaces_series_and_tables() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let e = read_folder(dir.path()).expect_err("nothing in it");
        assert!(e.message.contains("no folder with series.toml"), "{e}");
        put("toy/series.toml", ABOUT);
        put(
            "toy/toy.csv",
            &format!("{HEAD}toy,m,1,xfs,w,e,s,p,1,,none,\n"),
        );
        put("toy/e.toml", "name = 'x'");
        put("note.txt", "no series");
        let mut all = read_folder(dir.path()).expect("one more");
        assert_eq!(all.len(), shipped().len() + 1);
        let toy = all.iter().find(|s| s.name == "toy").expect("found");
        assert_eq!(toy.file("e.toml").expect("beside it").1, "name = 'x'");
        assert!(toy.file("machines/512M.toml").is_ok());
        assert!(toy.file("machines/none.toml").is_err());
        put(
            "tables/a.csv",
            &format!("{HEAD}toy,m,4X,xfs,w,e,s,p,1,,none,\n"),
        );
        replace_tables(&mut all, &dir.path().join("tables")).expect("well-formed");
        let rows: Vec<usize> = all
            .iter()
            .map(|s| s.rows.len())
            .filter(|n| *n > 0)
            .collect();
        assert_eq!(rows, [1]);
        put(
            "tables/b.csv",
            &format!("{HEAD}no,m,4X,xfs,w,e,s,p,1,,none,\n"),
        );
        let e = replace_tables(&mut all, &dir.path().join("tables")).expect_err("unknown");
        assert_eq!((e.line, &e.message[..]), (2, "`series` is `no`"));
    }
}
