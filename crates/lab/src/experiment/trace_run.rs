//! Builds an experiment without a file: one trace or fio job on one machine under some policies.

use super::{Overrides, files_near, parse, quoted};
use crate::diagnostic::{Diagnostic, Source};
use crate::model::Experiment;
use crate::rows;
use std::path::Path;

/// The options of the command line for such an experiment.
#[derive(Debug, Clone, Default)]
pub struct TraceRun {
    /// The path of the trace.
    pub trace: String,
    /// The path of a fio job file, which replaces the trace.
    pub fio: Option<String>,
    /// The options of a fio command line, which replace the trace.
    pub fio_args: Option<String>,
    /// The path of the machine file.
    pub machine: String,
    /// The policies, the baseline first.
    pub policies: Vec<String>,
    /// The name of the filesystem.
    pub filesystem: String,
    /// `recorded` or `fast`; `None`: recorded.
    pub timing: Option<String>,
    /// True if records that can't be read are skipped.
    pub lenient: bool,
    /// The trace's format; `None`: recognised from name and contents.
    pub format: Option<String>,
    /// The columns of a text trace, instead of a format.
    pub columns: Option<String>,
    /// The meaning of object numbers; `None`: guessed.
    pub unit: Option<String>,
}

/// Most samples of a time series, unless samples are a second apart.
const MOST_SAMPLES: u64 = 2000;

impl TraceRun {
    /// Returns the text of an experiment file that is equivalent to these options.
    pub fn text(&self) -> String {
        let policies: Vec<String> = self.policies.iter().map(|p| quoted(p)).collect();
        let fio = self.fio.as_ref().or(self.fio_args.as_ref());
        let what = fio.unwrap_or(&self.trace);
        let kind = match (&self.fio, &self.fio_args) {
            (Some(_), _) => "fio",
            (None, Some(_)) => "fio_args",
            (None, None) => "trace",
        };
        let mut text = format!(
            "name = {}\niterations = 1\npolicy = [{}]\nfilesystem = {}\nmachine = {}\n\
             {}\n[workload]\n{} = {}\n",
            quoted(&match kind {
                "fio" => name(what).replacen("trace-", "fio-", 1),
                "fio_args" => "fio-args".to_owned(),
                _ => name(what),
            }),
            policies.join(", "),
            quoted(&self.filesystem),
            quoted(&self.machine),
            // A trace ends where its recording ended, so needs no limit; a fio job may run for
            // ever.
            if fio.is_some() {
                ""
            } else {
                "time_limit_s = 0\n"
            },
            kind,
            quoted(what),
        );
        for (key, value) in [
            ("timing", &self.timing),
            ("format", &self.format),
            ("columns", &self.columns),
            ("unit", &self.unit),
        ] {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", quoted(value));
            }
        }
        if self.lenient {
            text += "lenient = true\n";
        }
        text
    }

    /// Returns the experiment. Samples of the time series are taken less often if the recording is
    /// long, so that a run has at most `MOST_SAMPLES` of them.
    ///
    /// # Errors
    /// Returns the first mistake in the options.
    pub fn experiment(&self, overrides: &Overrides) -> Result<Experiment, Diagnostic> {
        let source = Source::new("run --trace", self.text());
        let mut experiment = parse(&source, &files_near(Path::new("run --trace")), overrides)?;
        // Without `compare` the runs are compared by what a job or a recording is about.
        if experiment.figures.is_empty() {
            let first = experiment.cells.first();
            let names = first.map_or(Vec::new(), |cell| cell.spec.workload.figures());
            let figures = names.into_iter().filter_map(|name| rows::figure(name).ok());
            experiment.figures = figures.collect();
        }
        for cell in &mut experiment.cells {
            let span = cell.spec.workload.recorded_ns();
            cell.spec.sample_ns = cell.spec.sample_ns.max(span / MOST_SAMPLES);
        }
        Ok(experiment)
    }
}

/// Returns a name for the experiment and its results folder: `trace-` and the name of the trace's
/// file, with characters that are not allowed in names replaced by `-`.
fn name(trace: &str) -> String {
    let file = Path::new(trace).file_name().unwrap_or_default();
    let name: String = file
        .to_string_lossy()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || ".-_".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(72)
        .collect();
    format!("trace-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_an_experiment_file() {
        let run = TraceRun {
            fio: None,
            fio_args: None,
            trace: "a \"b\"/c d.csv".into(),
            machine: "m.toml".into(),
            policies: vec!["linux-3.0".into(), "linux-3.1".into()],
            filesystem: "ext4".into(),
            timing: Some("fast".into()),
            lenient: true,
            format: None,
            columns: None,
            unit: Some("page".into()),
        };
        insta::assert_snapshot!(run.text());
        assert_eq!(name("x/y z.csv"), "trace-y-z.csv");
    }
}
