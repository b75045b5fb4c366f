//! Transfers scripts into a guest: converts a script to a [`ScriptJob`] and back.

use crate::wire::ScriptJob;
use std::path::PathBuf;
use trace::{Format, Options, Unit};
use workload::{Replay, Script, Source, Timing, fio};

/// The folder of the initramfs that traces are put into.
const TRACES: &str = "/trace";

impl ScriptJob {
    /// Converts a script into the job by which a guest gets it. Returns the job and, for a trace,
    /// the host's file to put into the initramfs at the job's path. The device of a user's root
    /// folder is filled in later. `None` if the script has no source text: it was changed since it
    /// was read.
    pub fn of(script: &Script) -> Option<(Self, Option<PathBuf>)> {
        Some(match &script.source {
            Source::Line if script.line.is_empty() => return None,
            Source::Line => (Self::Command(script.line.clone()), None),
            Source::Fio(text) => (Self::Fio(text.clone()), None),
            Source::Trace(replay) => {
                // Trace formats are recognised by the file name, too.
                let name = replay.path.file_name().unwrap_or_default();
                let job = Self::Trace {
                    path: format!("{TRACES}/{}", name.to_string_lossy()),
                    format: replay.options.format.map_or("", Format::name).to_owned(),
                    columns: (replay.options.columns).map_or(String::new(), |c| c.to_string()),
                    timing: replay.timing.name().to_owned(),
                    lenient: replay.options.lenient,
                    unit: replay.options.unit.name().to_owned(),
                };
                (job, Some(replay.path.clone()))
            }
            // The host fills in the device when it attaches the root.
            Source::Foreign(foreign) => {
                let (run, root) = (foreign.run.clone(), String::new());
                (Self::Foreign { run, root }, None)
            }
        })
    }

    /// Returns the script of a job, parsed again in the guest; `None` for a user's own program,
    /// which is no script.
    ///
    /// # Errors
    /// The script can't be parsed; in one line.
    pub fn script(&self) -> Result<Option<Script>, String> {
        Ok(Some(match self {
            Self::Command(line) => workload::parse(line).map_err(|e| e.to_string())?,
            Self::Fio(text) => fio::parse(text).map_err(|e| e.to_string())?.script(),
            Self::Trace {
                path,
                format,
                columns,
                timing,
                lenient,
                unit,
            } => {
                let named = |what: &str, name: &str| format!("{path}: {what} `{name}`");
                let format = match format.as_str() {
                    "" => None,
                    name => Some(Format::parse(name).ok_or_else(|| named("format", name))?),
                };
                let columns = match columns.as_str() {
                    "" => None,
                    text => Some(text.parse().map_err(|_| named("columns", text))?),
                };
                let unit = match unit.as_str() {
                    "" => Unit::default(),
                    name => Unit::parse(name).ok_or_else(|| named("unit", name))?,
                };
                let timing = match timing.as_str() {
                    "" => Timing::default(),
                    name => Timing::parse(name).ok_or_else(|| named("timing", name))?,
                };
                let options = Options {
                    format,
                    columns,
                    lenient: *lenient,
                    unit,
                };
                let replay = Replay::open(path.into(), options, timing);
                replay.map_err(|e| e.to_string())?.script()
            }
            Self::Foreign { .. } => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn again(script: &Script) -> Script {
        let (job, _) = ScriptJob::of(script).unwrap();
        let text = serde_json::to_string(&job).unwrap();
        let job: ScriptJob = serde_json::from_str(&text).unwrap();
        job.script().unwrap().unwrap()
    }

    #[test]
    fn scripts_are_the_same_on_the_other_side() {
        let line = workload::parse("dd if=/dev/zero of=a bs=64k count=2 & sleep 1; wait").unwrap();
        assert_eq!(again(&line), line);
        let text = "[a]\nrw=randread\nsize=1M\n[b]\nrw=write\nsize=1M\nstonewall\n";
        let jobs = fio::parse(text).unwrap().script();
        assert_eq!(again(&jobs), jobs);
    }

    #[test]
    fn a_trace_goes_by_its_file() {
        let mut file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        file.write_all(b"0,1,4096\n1.5,2,4096\n").unwrap();
        let options = Options {
            unit: Unit::Page,
            ..Options::default()
        };
        let replay = Replay::open(file.path().to_owned(), options, Timing::Fast).unwrap();
        let (job, path) = ScriptJob::of(&replay.script()).unwrap();
        assert_eq!(path.as_deref(), Some(file.path()));
        let ScriptJob::Trace {
            path: inside,
            format,
            columns,
            timing,
            lenient,
            unit,
        } = job
        else {
            panic!("{job:?}")
        };
        assert!(
            inside.starts_with("/trace/") && inside.ends_with(".csv"),
            "{inside}"
        );
        let said = (&*format, &*columns, &*timing, lenient, &*unit);
        assert_eq!(said, ("", "", "fast", false, "page"));
        let missing = ScriptJob::Trace {
            path: "/trace/none".into(),
            format,
            columns,
            timing: "slow".into(),
            lenient,
            unit,
        };
        assert!(missing.script().unwrap_err().contains("`slow`"));
    }

    #[test]
    fn what_was_changed_since_is_told() {
        let script = workload::parse("burst -s 1M -n 1").unwrap();
        assert_eq!(ScriptJob::of(&script.with_bursts(2.0).unwrap()), None);
    }
}
