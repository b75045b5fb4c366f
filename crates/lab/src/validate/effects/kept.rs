//! Kernels' figures of pairs' sides in a file, so that the engine is judged without a guest.
//!
//! The file is a JSON object with a side in each line. A side's key is a digest of what the kernel
//! ran ([`Side::key`](super::pairs::Side::key)), so that figures of a side that has changed since
//! are not found.

use crate::diagnostic::Diagnostic;
use crate::validate::kept::{to_lines, write_whole};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the file in a folder of pairs.
pub const FILE: &str = "kernels.json";
/// The format that such a file names in itself.
const FORMAT: &str = "lowmark effects 1";
/// Largest file that is read, in bytes: a hundred times that of this project.
const MOST: u64 = 64 << 20;

/// Kernels' figures of the sides of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    format: String,
    /// The digest of the measured figures.
    pub figures: String,
    /// The sides by key.
    pub sides: BTreeMap<String, OfSide>,
}

/// A kernel's figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfSide {
    /// The scenario and its settings, for people.
    pub label: String,
    /// The name of the kernel's build, with its ticks.
    pub kernel: String,
    /// The kernel's release (`uname -r`) in a guest.
    pub release: String,
    /// The digest of everything that the kernel was built from.
    pub build: String,
    /// Pages that the kernel's allocator owned in each zone of the machine, in its order.
    pub owned: Vec<u64>,
    /// Number of iterations.
    pub iterations: u32,
    /// Number of iterations that completed.
    pub completed: usize,
    /// One value for each completed iteration that has the figure, by its name.
    pub figures: BTreeMap<String, Vec<f64>>,
}

impl Kept {
    /// Starts an empty file for figures with this digest.
    pub fn new(figures: String) -> Self {
        Self {
            format: FORMAT.to_owned(),
            figures,
            sides: BTreeMap::new(),
        }
    }

    /// Returns the text of the file: a JSON object with a line for each side.
    pub fn to_text(&self) -> String {
        let head = [("format", &self.format), ("figures", &self.figures)];
        to_lines(&head, "sides", &self.sides)
    }

    /// Writes the file into a folder, completely or not at all.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        write_whole(&path(folder), &self.to_text())
    }
}

/// Returns the path of the file in a folder of pairs.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Reads the file of a folder; `None` if there is none. `figures` is the digest of the figures that
/// it must have.
///
/// # Errors
/// Fails if the file cannot be read, has another form, or other figures.
pub fn read(folder: &Path, figures: &str) -> Result<Option<Kept>, Diagnostic> {
    let path = path(folder);
    let wrong = |what: String| {
        let accepted = "accepted: a file that `lowmark validate --effects … --measure` wrote";
        Diagnostic::placeless(format!("`{}`: {what}", path.display()), accepted)
    };
    if !path.exists() {
        return Ok(None);
    }
    let text = input::text(&path, MOST).map_err(|e| wrong(format!("can't be read: {e}")))?;
    let kept: Kept = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("the file does not hold stored figures: {e}")))?;
    match (kept.format == FORMAT, kept.figures == figures) {
        (false, _) => Err(wrong(format!("it is of the form `{}`", kept.format))),
        (true, false) => Err(wrong(
            "its figures are others than those of the pairs".into(),
        )),
        (true, true) => Ok(Some(kept)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: Vec<f64>) -> OfSide {
        OfSide {
            label: "write-ext4-256m kernel:6.12".into(),
            kernel: "6.12".into(),
            release: "6.12.117".into(),
            build: "a".into(),
            owned: vec![61_145],
            iterations: 2,
            completed: values.len(),
            figures: BTreeMap::from([("elapsed".into(), values)]),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::new("x".into());
        kept.sides.insert("b".into(), side(vec![1.5, 0.1 + 0.2]));
        kept.sides.insert("a".into(), side(vec![]));
        kept.write(folder.path()).unwrap();
        assert_eq!(read(folder.path(), "x").unwrap(), Some(kept.clone()));
        assert_eq!(kept.to_text().lines().count(), 8, "one line a side");
    }

    #[test]
    fn other_figures_and_forms_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), "x").unwrap(), None);
        Kept::new("x".into()).write(folder.path()).unwrap();
        let refused = |figures| read(folder.path(), figures).unwrap_err().to_string();
        assert!(
            refused("y").contains("figures are others"),
            "{}",
            refused("y")
        );
        std::fs::write(path(folder.path()), "{\"format\": 1}").unwrap();
        assert!(refused("x").contains("does not hold stored figures"));
    }
}
