//! Machines of which there is only a text: a report of the kernel's log, or /proc/zoneinfo.

use super::{deliver, is_ours};
use crate::cli;
use crate::text;
use front::failure::Failure;
use front::machines;
use lab::diagnostic::Diagnostic;
use lab::results::Single;
use machine::capture::Captured;
use machine::describe;
use machine::dmesg::{self, Report};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// The longest text that is read, in bytes.
const MOST: u64 = 256 << 20;

/// Explains a report of memory shortage in the kernel log `log`, and describes its machine. The
/// report of a memory control group has no machine: its limits are printed as `[groups]`.
pub fn of_log(args: &cli::Machine, log: &Path) -> Result<(), Failure> {
    let shown = shown(log);
    let text = read(log)?;
    let wrong = |what: String| {
        let accepted = "accepted: a log with a report of the OOM killer (\"invoked oom-killer\") or of a \
                        \"page allocation failure\", as `dmesg` and `journalctl -k` print it";
        Failure::Input(Diagnostic::placeless(what, accepted).into())
    };
    let reports = dmesg::parse(&text).map_err(|e| wrong(format!("{shown}: {e}")))?;
    let nth = args.report.get();
    let Some(report) = reports.get(nth - 1) else {
        let accepted = format!("accepted: 1 to {}", reports.len());
        let what = format!("`--report {nth}`: {shown} has {} reports", reports.len());
        return Err(Failure::Input(Diagnostic::placeless(what, accepted).into()));
    };
    let told = told(report, nth, reports.len());
    let Some((captured, assumed)) = dmesg::captured(report) else {
        return match (&report.group, &args.out) {
            (Some(_), None) => text::print(&(told + &groups(report))),
            (Some(_), Some(_)) => Err(wrong(format!(
                "{shown}: the report at line {} is about a memory group and has no zones, so it makes no machine",
                report.line
            ))),
            (None, _) => Err(wrong(format!(
                "{shown}: the report at line {} has no zones (lines such as \"Node 0 Normal free:…kB min:…kB\"), \
                 so it makes no machine\n{told}",
                report.line
            ))),
        };
    };
    eprint!("{told}");
    described(args, &captured, "a report in the kernel's log", &assumed)
}

/// Describes the machine of a text of /proc/zoneinfo.
pub fn of_zoneinfo(args: &cli::Machine, path: &Path) -> Result<(), Failure> {
    let captured = machine::capture::of_zoneinfo(&read(path)?);
    let (captured, assumed) = captured.map_err(|e| {
        let accepted = "accepted: the text of /proc/zoneinfo of a Linux with 4 KiB pages";
        let what = format!("{}: {e}", shown(path));
        Failure::Input(Diagnostic::placeless(what, accepted).into())
    })?;
    described(args, &captured, "/proc/zoneinfo alone", &assumed)
}

/// Writes the description of a machine that `source` alone tells of; `assumed` are its notes.
fn described(
    args: &cli::Machine,
    captured: &Captured,
    source: &str,
    assumed: &[String],
) -> Result<(), Failure> {
    let out = match &args.out {
        Some(out) => Some(Single::create(out, args.replace, is_ours)?),
        None => None,
    };
    let described = machines::of_options(
        captured,
        &describe::Options {
            name: args.name.as_deref(),
            source: Some(source),
            assumed,
            ..describe::Options::default()
        },
    )?;
    deliver(args, out, captured, &described, None)
}

/// Reads a text; `-` is standard input. Bytes that are no UTF-8 are replaced, because logs hold
/// what drivers print.
fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |e: std::io::Error| {
        let what = format!("{}: {e}", shown(path));
        Failure::Input(Diagnostic::placeless(what, "accepted: a text file, or `-`").into())
    };
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        let mut input = std::io::stdin().lock().take(MOST + 1);
        input.read_to_end(&mut bytes).map_err(wrong)?;
        if bytes.len() as u64 > MOST {
            return Err(wrong(std::io::Error::other("longer than 256 MiB")));
        }
        bytes
    } else {
        input::bytes(path, MOST).map_err(wrong)?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a file's name for messages.
fn shown(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Returns the explanation of a report: a head where the log has several, then a paragraph for each
/// point, broken at the screen's width.
fn told(report: &Report, nth: usize, all: usize) -> String {
    let mut out = String::new();
    if all > 1 {
        let _ = writeln!(
            out,
            "report {nth} of {all}, at line {} of the log (--report N takes another)",
            report.line
        );
    }
    for line in dmesg::explain(report) {
        out += &text::screen().wrapped(&lab::diagnostic::plain(&line));
    }
    out.push('\n');
    out
}

/// Returns the limits of the report's group as the table of an experiment, with what it is for.
fn groups(report: &Report) -> String {
    let Some(group) = &report.group else {
        return String::new();
    };
    let name: String = (group.path.rsplit('/').next().unwrap_or("").chars())
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(64)
        .collect();
    let name = if name.is_empty() {
        "group".to_owned()
    } else {
        name
    };
    let mut out =
        "# The group for an experiment; `group = \"NAME\"` in [workload] runs everything in it.\n"
            .to_owned();
    let _ = writeln!(out, "[groups.{name}]");
    let limit = |both: Option<(u64, u64)>| both.map(|(_, limit)| limit).filter(|kb| *kb < 1 << 52);
    if let Some(kb) = limit(group.memory) {
        let _ = writeln!(out, "max = \"{kb}K\"");
    }
    if let Some(kb) = limit(group.swap) {
        let _ = writeln!(out, "swap_max = \"{kb}K\"");
    }
    out
}
