//! Exports results to formats of other tools: one module per format.

mod jsonl;
mod openmetrics;
#[cfg(feature = "parquet")]
mod parquet;

use super::{Error, Results, Table};
use lab::diagnostic::Diagnostic;
use lab::results::table::{SERIES, TABLES};
use lab::results::{ClaimedFolder, File, Kind, Single, Terms};
use std::io::Write;
use std::path::Path;

/// The destinations of an export, by format.
#[derive(Debug, Clone, Default)]
pub struct Exports<'a> {
    /// A new file of OpenMetrics: a family per figure, a sample per iteration; series with their
    /// times.
    pub openmetrics: Option<&'a Path>,
    /// A new folder of JSON lines, one file per table.
    pub jsonl: Option<&'a Path>,
    /// A new folder of Parquet files, one per table; only with the feature `parquet`.
    pub parquet: Option<&'a Path>,
    /// Replace an earlier export.
    pub replace: bool,
}

/// Writes a table into memory.
type WriteTable = dyn Fn(&Table, &mut Vec<u8>) -> Result<(), String>;

/// Returns the names of all tables.
fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name).chain([SERIES])
}

impl Results {
    /// Writes the results in other formats, each wholly or not at all.
    ///
    /// # Errors
    /// A destination exists or can't be written, a table can't be read, or this program was built
    /// without Parquet.
    pub fn export(&self, to: &Exports<'_>) -> Result<(), Error> {
        if to.parquet.is_some() && !cfg!(feature = "parquet") {
            let what = "this lowmark was built without Parquet";
            return Err(Diagnostic::placeless(
                what,
                "accepted: `cargo install --path crates/lowmark --features parquet`, the Python package \
                 (lowmark.load(FOLDER).export(parquet=DIR)), or `--jsonl`",
            )
            .into());
        }
        if let Some(file) = to.openmetrics {
            let mut out = Single::create(file, to.replace, openmetrics::is_ours)
                .map_err(crate::failure::Failure::from)?;
            openmetrics::write(self, &mut out)?;
            out.finish().map_err(crate::failure::Failure::from)?;
        }
        if let Some(dir) = to.jsonl {
            self.folder_of(dir, to.replace, "jsonl", &|table, out| {
                jsonl::write(table, out);
                Ok(())
            })?;
        }
        #[cfg(feature = "parquet")]
        if let Some(dir) = to.parquet {
            self.folder_of(dir, to.replace, "parquet", &parquet::write)?;
        }
        Ok(())
    }

    /// Writes every table of the results to the folder `dir`, each as a file with the extension
    /// `ending`, in the form that `write` gives them. `replace`: an earlier export may be replaced.
    fn folder_of(
        &self,
        dir: &Path,
        replace: bool,
        ending: &str,
        write: &WriteTable,
    ) -> Result<(), Error> {
        let terms = Terms {
            kind: Kind::Export,
            title: self.title(),
            replace,
        };
        let place = ClaimedFolder::claim(dir, terms).map_err(crate::failure::Failure::from)?;
        let mut files = Vec::new();
        for name in names() {
            let mut bytes = Vec::new();
            write(&self.table(name)?, &mut bytes)
                .map_err(|e| Error::from(Diagnostic::placeless(format!("{name}: {e}"), "")))?;
            files.push(File::new(format!("{name}.{ending}"), bytes));
        }
        let published = place.publish(&|emit| files.iter().try_for_each(|f| emit(f.clone())));
        let published = published.map_err(crate::failure::Failure::from)?;
        Ok(crate::place::settled(&published)?)
    }
}

/// Returns the error that a file can't be written.
fn unwritten(file: &Path, e: &std::io::Error) -> Error {
    let report = miette::miette!("{} can't be written: {e}", file.display());
    crate::failure::Failure::System(report).into()
}

/// Writes a text, a line or several, to the export; errors name the export.
fn line(out: &mut dyn Write, text: &str) -> Result<(), Error> {
    let written = out.write_all(text.as_bytes());
    written.map_err(|e| unwritten(Path::new("the export"), &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, Options, parse, run};
    use std::fs;

    fn results() -> Results {
        let text = r#"
            name = "tiny"
            iterations = 2
            sample_s = 0.01
            policy = ["linux-3.0", "linux-3.1"]
            filesystem = "ext4"
            machine = "machines/512M.toml"
            workload = { command = "dd if=/dev/zero of=a bs=64k count=64" }
        "#;
        let experiment = parse(text, "tiny.toml", &Changes::default()).unwrap();
        run(&experiment, Options::default()).unwrap()
    }

    /// `python/tests/test_exports.py` reads the same exports with other tools.
    #[test]
    fn every_row_is_a_line_and_every_value_a_sample() {
        let (results, dir) = (results(), tempfile::tempdir().unwrap());
        let (lines, metrics) = (dir.path().join("lines"), dir.path().join("metrics.txt"));
        let to = Exports {
            openmetrics: Some(&metrics),
            jsonl: Some(&lines),
            ..Exports::default()
        };
        results.export(&to).unwrap();
        for name in names() {
            let text = fs::read_to_string(lines.join(format!("{name}.jsonl"))).unwrap();
            let table = results.table(name).unwrap();
            assert_eq!(text.lines().count(), table.rows, "{name}");
            for line in text.lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(row.as_object().unwrap().len(), table.columns.len());
            }
        }
        let text = fs::read_to_string(&metrics).unwrap();
        assert!(text.ends_with("# EOF\n"));
        let elapsed = text
            .lines()
            .filter(|l| l.starts_with("lowmark_elapsed_seconds{"));
        assert_eq!(elapsed.count(), 4);
        assert!(
            text.contains("policy=\"linux-3.1\",iteration=\"1\"} "),
            "{text}"
        );
        // An existing export is replaced only on request.
        assert_eq!(results.export(&to).unwrap_err().code, 2);
        let again = Exports {
            replace: true,
            ..to
        };
        results.export(&again).unwrap();
        assert_eq!(fs::read_to_string(&metrics).unwrap(), text);
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn without_its_feature_parquet_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (metrics, parquet) = (dir.path().join("m"), dir.path().join("p"));
        let to = Exports {
            openmetrics: Some(&metrics),
            parquet: Some(&parquet),
            ..Exports::default()
        };
        let error = results().export(&to).unwrap_err();
        assert!(error.code == 2 && error.message.contains("without Parquet"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
