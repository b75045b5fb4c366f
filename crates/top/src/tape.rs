//! Sources of playback: a recording, or the series of a results folder's cells.

use crate::frames;
use crate::look::{self, between};
use crate::moment::{Moment, Reclaim};
use crate::series;
use kernel::running::file;
use lab::compare;
use lab::results::{must_be_unchanged, text_unchanged};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The reason why something can't be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The problem, in one line.
    pub what: String,
    /// The input that would be accepted.
    pub accepted: String,
}

/// The accepted sources of playback.
pub const ACCEPTED: &str = "accepted: a `recording.z` of `lowmark record`, a results folder of `run` or `record`, a file \
    of its `series/`, and the `frames` of a guest that runs";

/// Makes the error that `path` can't be played back because of `why`.
fn wrong(path: &Path, why: impl std::fmt::Display) -> Wrong {
    Wrong {
        what: format!("`{}`: {why}", path.display()),
        accepted: ACCEPTED.to_owned(),
    }
}

/// The source of a cell's moments.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Recording(PathBuf),
    Series(PathBuf),
}

/// A cell of a results folder, or the contents of a single file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The cell's number in the results, from 1.
    number: usize,
    /// The cell's key.
    pub name: String,
    place: Place,
}

/// An opened source of playback.
#[derive(Debug)]
pub struct Tape {
    /// The tape's title.
    pub title: String,
    /// The cells of the tape; at least one.
    pub cells: Vec<Cell>,
    /// The results folder, if there is one.
    folder: Option<PathBuf>,
}

/// A cell that was read.
#[derive(Debug, Default)]
pub struct Played {
    /// The moments of the cell in order of time; at least one.
    pub moments: Vec<Moment>,
    /// Reclaim as means over the whole run, if the results have it and the moments do not.
    pub whole: Option<Reclaim>,
}

/// Returns the cells of a results folder that have a series, in the order of their numbers.
fn series_of(folder: &Path) -> Vec<Cell> {
    let entries = std::fs::read_dir(folder.join("series"));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    let mut cells: Vec<Cell> = paths.filter_map(|path| cell_of(&path)).collect();
    cells.sort_by_key(|c| c.number);
    cells
}

/// Returns the cell of a series by its file's name: number and key of `2-policy=linux-3.1.csv`, or
/// the number 1 and the whole name. `None`: the file is no CSV.
fn cell_of(path: &Path) -> Option<Cell> {
    if path.extension().is_none_or(|e| e != "csv") {
        return None;
    }
    let stem = path.file_stem()?.to_string_lossy();
    let numbered = stem
        .split_once('-')
        .and_then(|(n, key)| Some((n.parse().ok()?, key)));
    let (number, name) = numbered.unwrap_or((1, &stem));
    Some(Cell {
        number,
        name: name.to_owned(),
        place: Place::Series(path.to_owned()),
    })
}

impl Tape {
    /// Opens a path to be played back: a recording, one series, a guest's frames, or a folder of
    /// results (of its `latest` if it has none itself). Only names are looked at; cells are read by
    /// [`read`](Self::read).
    ///
    /// # Errors
    /// The path can't be played back.
    pub fn open(path: &Path) -> Result<Self, Wrong> {
        let meta = path.metadata().map_err(|e| wrong(path, e))?;
        let title = path.display().to_string();
        if !meta.is_dir() {
            let (cell, folder) = match cell_of(path) {
                Some(cell) => {
                    let above = path.parent().filter(|p| p.ends_with("series"));
                    (cell, above.and_then(Path::parent))
                }
                None => (recording(path), None),
            };
            return Ok(Self {
                title,
                cells: vec![cell],
                folder: folder.map(Path::to_owned),
            });
        }
        let latest = path.join("latest");
        let kept = path.join(file::NAME);
        let cells = match kept.exists() {
            true => vec![recording(&kept)],
            false => series_of(path),
        };
        match cells.is_empty() {
            true if latest.is_dir() => Self::open(&latest),
            true => Err(wrong(path, "it has neither a recording nor time series")),
            false => Ok(Self {
                title,
                cells,
                folder: Some(path.to_owned()),
            }),
        }
    }

    /// Finds the cell that the user names in `wanted`: by its number from 1, its key, or a part of
    /// one key alone. Returns its index.
    ///
    /// # Errors
    /// No cell matches, or several do.
    pub fn find(&self, wanted: &str) -> Result<usize, Wrong> {
        let number = self
            .cells
            .iter()
            .position(|c| c.number.to_string() == wanted);
        let exact = || self.cells.iter().position(|c| c.name == wanted);
        let mut parts = (0..self.cells.len()).filter(|i| self.cells[*i].name.contains(wanted));
        let part = || parts.next().filter(|_| parts.next().is_none());
        number.or_else(exact).or_else(part).ok_or_else(|| {
            let all = self
                .cells
                .iter()
                .map(|c| format!("{}: {}", c.number, c.name));
            Wrong {
                what: format!("`{wanted}` is not one cell of `{}`", self.title),
                accepted: format!(
                    "accepted: a number, or a part of one key alone; its cells are {}",
                    all.collect::<Vec<_>>().join(", ")
                ),
            }
        })
    }

    /// Reads the cell of that index: its moments, and for a series of a results folder the crowds
    /// and the means of reclaim over the whole run as well.
    ///
    /// # Errors
    /// The cell's file can't be read, or has no moments.
    pub fn read(&self, cell: usize) -> Result<Played, Wrong> {
        let cell = &self.cells[cell];
        let (Place::Recording(path) | Place::Series(path)) = &cell.place;
        must_be_unchanged(path).map_err(|e| wrong(path, e))?;
        let (path, moments) = match &cell.place {
            Place::Recording(path) => (path, recorded(path)),
            Place::Series(path) => {
                let file = input::file(path).map_err(|e| wrong(path, e))?;
                (path, series::read(file))
            }
        };
        let mut moments = moments.map_err(|e| wrong(path, e))?;
        if moments.is_empty() {
            return Err(wrong(path, "it has no moment to show"));
        }
        let mut whole = None;
        if let (Place::Series(_), Some(folder)) = (&cell.place, &self.folder) {
            whole = whole_run(folder, cell.number);
            let waits = match text_unchanged(folder, "waits.json") {
                Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
                waits => waits.map_err(|e| wrong(&folder.join("waits.json"), e))?,
            };
            series::add(&mut moments, &series::crowds(&waits, cell.number - 1));
        }
        Ok(Played { moments, whole })
    }
}

/// Makes the only cell of a recording.
fn recording(path: &Path) -> Cell {
    Cell {
        number: 1,
        name: String::new(),
        place: Place::Recording(path.to_owned()),
    }
}

/// Reads the moments of a recording of `lowmark record`, or of a guest's frames; each moment needs
/// two looks.
///
/// # Errors
/// The file can't be read, or is neither; in one line.
fn recorded(path: &Path) -> Result<Vec<Moment>, String> {
    let open = || input::file(path).map_err(|e| e.to_string());
    let about = file::about(Box::new(open()?));
    let disks = about
        .as_ref()
        .map_or_else(|_| Vec::new(), |a| a.disks.clone());
    let read = match about {
        Ok(_) => file::frames(Box::new(open()?)).and_then(frames::all),
        Err(_) => frames::all(std::io::BufReader::new(open()?)),
    };
    let (_, looks) = read.map_err(|_| "it is no recording of `lowmark record`".to_owned())?;
    let disks = match looks.first() {
        Some(first) if disks.is_empty() => first.busy_disks(),
        _ => disks,
    };
    let pairs = looks.windows(2);
    Ok(pairs.map(|p| between(&p[0], &p[1], &disks)).collect())
}

/// Returns the means of reclaim over the first iteration of the cell with that number (from 1) in a
/// results folder; `None` if the results do not have them.
fn whole_run(folder: &Path, number: usize) -> Option<Reclaim> {
    let run = compare::read(folder).ok()?.pop()?;
    let first = run.cells.get(number - 1)?.iterations.first()?;
    let elapsed = first.result.metrics.get("elapsed")?.value;
    look::over(&first.result.counters, elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CSV: &str = "time [s],dirty global [pages]\n1,2\n2,3\n";

    #[test]
    fn what_a_path_is_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let none = Tape::open(&dir.join("none")).unwrap_err();
        assert!(none.what.contains("none") && none.accepted.contains("recording.z"));
        assert!(Tape::open(dir).unwrap_err().what.contains("neither"));
        let series = dir.join("latest/series");
        fs::create_dir_all(&series).unwrap();
        for (name, text) in [
            ("02-policy=b.csv", CSV),
            ("10-policy=c.csv", CSV),
            ("01-policy=a.csv", "x\n"),
        ] {
            fs::write(series.join(name), text).unwrap();
        }
        let tape = Tape::open(dir).unwrap();
        let names: Vec<&str> = tape.cells.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["policy=a", "policy=b", "policy=c"]);
        assert_eq!((tape.find("2"), tape.find("=c")), (Ok(1), Ok(2)));
        let several = tape.find("policy").unwrap_err();
        assert!(
            several.accepted.contains("2: policy=b, 10: policy=c"),
            "{several:?}"
        );
        assert!(tape.read(0).unwrap_err().what.contains("time [s]"));
        let played = tape.read(1).unwrap();
        assert_eq!(played.moments.len(), 2);
        assert_eq!(played.whole, None);
        fs::write(dir.join("other"), "no frames").unwrap();
        let other = Tape::open(&dir.join("other")).unwrap().read(0).unwrap_err();
        assert!(other.what.contains("no recording"), "{other:?}");
    }
}
