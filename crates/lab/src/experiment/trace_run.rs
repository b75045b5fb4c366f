//! An experiment without a file: one trace or fio job on one machine under some policies.

use super::{Overrides, files_near, parse};
use crate::diagnostic::{Diagnostic, Source};
use crate::model::Experiment;
use std::path::Path;

/// What the command line says of such an experiment.
#[derive(Debug, Clone, Default)]
pub struct TraceRun {
    /// The trace's file.
    pub trace: String,
    /// A fio job file in the trace's place.
    pub fio: Option<String>,
    /// The machine's file.
    pub machine: String,
    /// The policies, the baseline first.
    pub policies: Vec<String>,
    /// The filesystem.
    pub filesystem: String,
    /// `recorded` or `fast`; absent: recorded.
    pub timing: Option<String>,
    /// Whether records that can't be read are skipped.
    pub lenient: bool,
    /// The trace's format; absent: recognised.
    pub format: Option<String>,
    /// What object numbers are; absent: guessed.
    pub unit: Option<String>,
}

/// Samples that a time series has at most, as far as one second between them allows.
const MOST_SAMPLES: u64 = 2000;

impl TraceRun {
    /// The text of the experiment file that does the same.
    pub fn text(&self) -> String {
        let quoted = |text: &str| serde_json::Value::String(text.to_owned()).to_string();
        let policies: Vec<String> = self.policies.iter().map(|p| quoted(p)).collect();
        let what = self.fio.as_ref().unwrap_or(&self.trace);
        let mut text = format!(
            "name = {}\niterations = 1\npolicy = [{}]\nfilesystem = {}\nmachine = {}\n\
             {}\n[workload]\n{} = {}\n",
            quoted(&match self.fio {
                Some(_) => name(what).replacen("trace-", "fio-", 1),
                None => name(what),
            }),
            policies.join(", "),
            quoted(&self.filesystem),
            quoted(&self.machine),
            // A trace ends where it was recorded to end, a job may run for ever.
            if self.fio.is_some() {
                ""
            } else {
                "time_limit_s = 0\n"
            },
            if self.fio.is_some() { "fio" } else { "trace" },
            quoted(what),
        );
        for (key, value) in [
            ("timing", &self.timing),
            ("format", &self.format),
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

    /// The experiment.
    ///
    /// # Errors
    /// The first thing wrong in what was given.
    pub fn experiment(&self, overrides: &Overrides) -> Result<Experiment, Diagnostic> {
        let source = Source::new("run --trace", self.text());
        let mut experiment = parse(&source, &files_near(Path::new("run --trace")), overrides)?;
        for cell in &mut experiment.cells {
            let span = cell.spec.workload.recorded_ns();
            cell.spec.sample_ns = cell.spec.sample_ns.max(span / MOST_SAMPLES);
        }
        Ok(experiment)
    }
}

/// A name for an experiment and its folder: the file's, as far as names allow it.
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
            trace: "a \"b\"/c d.csv".into(),
            machine: "m.toml".into(),
            policies: vec!["linux-3.0".into(), "linux-3.1".into()],
            filesystem: "ext4".into(),
            timing: Some("fast".into()),
            lenient: true,
            format: None,
            unit: Some("page".into()),
        };
        insta::assert_snapshot!(run.text());
        assert_eq!(name("x/y z.csv"), "trace-y-z.csv");
    }
}
