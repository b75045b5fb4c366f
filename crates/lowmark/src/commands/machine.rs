//! `lowmark machine`.

mod reported;

use crate::cli;
use crate::text;
use front::failure::Failure;
use front::machines::{self, root, tested_disk, unreadable};
use front::place;
use indicatif::{ProgressBar, ProgressStyle};
use lab::results::{ClaimedFolder, File, Kind, Single, Terms};
use machine::Root;
use machine::capture::{Captured, Disk};
use machine::describe::{self, Described, HEADER};
use machine::probe::{self, Fit, Measurements, ProbeError};
use machine::verify::{self, Verification};
use miette::miette;
use serde_json::json;
use std::io::{Read, Write};
use std::path::Path;

/// How often the dirty limits of a running machine are read before they count as different: they
/// change with every page, and the kernel does not read all counters at once.
const LOOKS: usize = 50;

/// Describes this machine or a saved one as a machine file, after measuring its disk if asked for
/// (`--probe`); or compares its figures with the engine's formulas (`--verify`).
pub fn run(args: &cli::Machine) -> Result<(), Failure> {
    if let Some(log) = &args.from_dmesg {
        return reported::of_log(args, log);
    }
    if let Some(zoneinfo) = &args.zoneinfo {
        return reported::of_zoneinfo(args, zoneinfo);
    }
    let root = root(args.root.as_deref())?;
    let captured = Captured::read(&root).map_err(unreadable)?;
    if let Some(dir) = &args.save {
        save(args, &root, dir)?;
    }
    if args.verify {
        return verify(args, &root, captured);
    }
    // Opened before the measurement, so that a place that can't be written is reported at once.
    let out = match &args.out {
        Some(out) => Some(Single::create(out, args.replace, is_ours)?),
        None => None,
    };
    let disk = tested_disk(args.disk.as_deref(), &captured)?.cloned();
    let described = machines::described(args.name.as_deref(), &captured, disk.as_ref(), None)?;
    let Some(dir) = &args.probe else {
        return deliver(args, out, &captured, &described, None);
    };
    // Measured last: errors are reported before a minute has passed.
    let measurements = measure(args, dir)?;
    let disk = match disk {
        Some(disk) if args.disk.is_some() => disk,
        _ => probed_disk(&captured, &measurements),
    };
    let fit = probe::fit(&measurements, &describe::likely_spec(&disk));
    let described = machines::described(args.name.as_deref(), &captured, Some(&disk), Some(&fit))?;
    deliver(args, out, &captured, &described, Some(&fit))
}

/// Measures the device below the folder `dir`, with progress on a terminal. Ctrl-C stops the
/// measurement.
fn measure(args: &cli::Machine, dir: &Path) -> Result<Measurements, Failure> {
    let stop = crate::interrupt::flag_saying("stopping; once more to stop at once");
    let options = probe::Options {
        dir: dir.to_owned(),
        size: args.probe_size,
        time: args.probe_time,
    };
    // The bar is hidden if standard error is no terminal.
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a valid template"),
    );
    let measured = probe::measure(&options, &stop, |what, done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    measured.map_err(|e| match e {
        ProbeError::Input { what, accepted } => Failure::Input(miette!(help = accepted, "{what}")),
        ProbeError::Stopped => Failure::Stopped(e.to_string()),
        ProbeError::System { .. } => Failure::System(miette!("{}: {e}", dir.display())),
    })
}

/// Returns the captured disk that the measured folder lies on. A filesystem without a captured
/// block device counts as a disk of its own size.
fn probed_disk(captured: &Captured, measurements: &Measurements) -> Disk {
    let found = captured.disk_of(&measurements.device);
    found.cloned().unwrap_or_else(|| Disk {
        name: format!("of device number {}", measurements.device),
        number: Some(measurements.device.clone()),
        bytes: measurements.filesystem_bytes,
        ..Disk::default()
    })
}

/// Delivers the description: to the file `out`, if one was asked for, else to standard output. The
/// nearest preset and the notes go to standard error. `--json` prints everything, the fit of a
/// probe too.
fn deliver(
    args: &cli::Machine,
    out: Option<Single>,
    captured: &Captured,
    described: &Described,
    fit: Option<&Fit>,
) -> Result<(), Failure> {
    if let Some(mut out) = out {
        out.write_all(described.text.as_bytes())
            .map_err(|e| Failure::System(miette!("the machine file can't be written: {e}")))?;
        out.finish()?;
    }
    eprintln!("nearest preset of this kernel: {}", described.preset);
    for note in &described.notes {
        eprintln!("note: {note}");
    }
    if args.json {
        return text::print_json(&json!({
            "machine": described.machine,
            "preset": described.preset,
            "notes": described.notes,
            "captured": captured,
            "probe": fit,
        }));
    }
    match &args.out {
        Some(out) => {
            eprintln!(
                "machine {} written to {}",
                described.machine.name,
                out.display()
            );
            Ok(())
        }
        None => text::print(&described.text),
    }
}

/// Returns true if this command wrote the file `out`, so that `--replace` may overwrite it.
fn is_ours(out: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    let file = input::file(out)?;
    file.take(HEADER.len() as u64).read_to_end(&mut start)?;
    Ok(start == HEADER.as_bytes())
}

/// Saves the files that were read as a tree in the new folder `dir`, which `--root` can read.
fn save(args: &cli::Machine, root: &Root, dir: &Path) -> Result<(), Failure> {
    let terms = Terms {
        kind: Kind::Machine,
        title: args.name.as_deref().unwrap_or_default(),
        replace: args.replace,
    };
    let files: Vec<File> = root
        .files()
        .into_iter()
        .map(|(path, text)| File::new(path, text))
        .collect();
    let place = ClaimedFolder::claim(dir, terms)?;
    place::say(place.notes());
    let published = place.publish(&|emit| files.iter().try_for_each(|f| emit(f.clone())))?;
    place::settled(&published)?;
    eprintln!("{} files saved in {}", files.len(), dir.display());
    Ok(())
}

/// Compares the engine's figures with the kernel's and prints them; a difference is an error. On a
/// running machine the figures that change all the time are read up to [`LOOKS`] times, so that an
/// unlucky moment does not count as a difference.
fn verify(args: &cli::Machine, root: &Root, first: Captured) -> Result<(), Failure> {
    let compare = |captured: &Captured| {
        verify::verify(captured)
            .map_err(|e| Failure::Input(miette!("this machine can't be verified: {e}")))
    };
    let (mut captured, mut looks) = (first, 1);
    let mut report = compare(&captured)?;
    // Only changing figures are worth another look.
    while root.is_live()
        && looks < LOOKS
        && report
            .rows
            .iter()
            .any(|r| !r.is_equal() && r.of == "machine")
    {
        captured = Captured::read(root).map_err(unreadable)?;
        report = compare(&captured)?.since(&report, captured.cpus.len());
        looks += 1;
    }
    if args.json {
        text::print_json(&json!({
            "release": captured.release, "equal": report.is_equal(), "looks": looks, "report": report,
        }))?;
    } else {
        text::print(&to_text(&captured, &report, looks))?;
    }
    if report.is_equal() {
        return Ok(());
    }
    let wrong = report.rows.iter().filter(|r| !r.is_equal()).count();
    Err(Failure::System(miette!(
        "{wrong} of {} figures differ from the kernel's",
        report.rows.len()
    )))
}

/// Formats a verification: a table of the figures, the origin of `min_free_kbytes`, and notes.
/// `looks` is how often the machine was read.
fn to_text(captured: &Captured, report: &Verification, looks: usize) -> String {
    let mut table = text::table(["of", "figure", "computed", "kernel", ""]);
    for row in &report.rows {
        let verdict = match row.computed == row.actual {
            true => "equal".to_owned(),
            false if row.is_equal() => format!("equal within the {} that moved", row.moved),
            false => "DIFFERS".to_owned(),
        };
        table.add_row([
            &row.of,
            &row.what,
            &row.computed.to_string(),
            &row.actual.to_string(),
            &verdict,
        ]);
    }
    let m = &report.min_free;
    let raised = m.raised.map_or_else(
        || "khugepaged does not run".to_owned(),
        |kb| format!("khugepaged raises it to {kb} kB"),
    );
    let mut out = format!(
        "Linux {}; pages of 4 KiB\n{table}\nmin_free_kbytes is {} kB, set by {}: the formula gives {} kB for the pages managed now, {raised}\n",
        captured.release,
        m.actual,
        m.origin.phrase(),
        m.formula,
    );
    if looks > 1 {
        out += &format!("the moving counters were sampled {looks} times\n");
    }
    for note in &report.notes {
        out += &format!("note: {note}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lab::experiment::Overrides;

    fn args(more: &[&str]) -> cli::Machine {
        let capture = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../machine/tests/captures/small-vm"
        );
        let all = ["lowmark", "machine", "--root", capture];
        match cli::Cli::parse_from(all.iter().chain(more)).command {
            cli::Command::Machine(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_saved_machine_is_verified_and_written_for_an_experiment() {
        run(&args(&["--verify"])).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("small.toml");
        let write = args(&["--name", "small", "--out", out.to_str().unwrap()]);
        run(&write).unwrap();
        // An existing file of this command is replaced only with `--replace`.
        assert!(matches!(run(&write), Err(Failure::Input(_))));
        let mut again = write;
        again.replace = true;
        run(&again).unwrap();
        let experiment = dir.path().join("e.toml");
        let text = "name = \"e\"\npolicy = \"linux-6.12\"\nfilesystem = \"ext4\"\n\
            machine = \"small.toml\"\n[workload]\ncommand = \"dd if=/dev/zero of=x bs=4k count=1\"\n";
        std::fs::write(&experiment, text).unwrap();
        let read = lab::experiment::load(&experiment, &Overrides::default()).unwrap();
        assert_eq!(read.cells[0].machine, "small");
        assert_eq!(
            read.cells[0].spec.machine.sysctl.watermark_scale_factor,
            Some(10)
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn another_s_file_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("mine.toml");
        std::fs::write(&out, "precious").unwrap();
        let failure = run(&args(&["--out", out.to_str().unwrap()])).unwrap_err();
        assert!(matches!(failure, Failure::Input(_)));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "precious");
    }

    #[test]
    fn wrong_input_is_the_user_s() {
        for more in [&["--disk", "vdb"][..], &["--name", "a/b"]] {
            let failure = run(&args(more)).unwrap_err();
            assert!(matches!(failure, Failure::Input(_)), "{more:?}");
        }
        let nowhere = cli::Machine {
            root: Some("/nonexistent".into()),
            ..args(&[])
        };
        assert!(matches!(run(&nowhere), Err(Failure::Input(_))));
    }

    #[test]
    fn figures_that_differ_are_a_failure() {
        let capture = Captured::read(&root(args(&[]).root.as_deref()).unwrap()).unwrap();
        let saved = tempfile::tempdir().unwrap();
        let from = root(args(&[]).root.as_deref()).unwrap();
        Captured::read(&from).unwrap();
        from.save(saved.path()).unwrap();
        let zones = saved.path().join("proc/zoneinfo");
        let text = std::fs::read_to_string(&zones).unwrap();
        let high = format!("high     {}", capture.zones[0].marks[2]);
        assert!(text.contains(&high));
        std::fs::write(&zones, text.replacen(&high, "high     9999", 1)).unwrap();
        let altered = cli::Machine {
            root: Some(saved.path().to_owned()),
            ..args(&["--verify"])
        };
        assert!(matches!(run(&altered), Err(Failure::System(_))));
    }

    /// A log with a report makes a machine file that an experiment can use; one without is refused.
    #[test]
    fn a_kernel_s_report_is_written_as_a_machine() {
        let dir = tempfile::tempdir().unwrap();
        let (log, out) = (dir.path().join("dmesg"), dir.path().join("m.toml"));
        let report = "[ 1.5] dd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n\
            CPU: 1 PID: 5 Comm: dd Not tainted 6.12.0 #1\nMem-Info:\nactive_anon:10 inactive_anon:30000\n free:100\n\
            Node 0 Normal free:400kB min:2000kB low:2500kB high:3000kB present:131072kB managed:131072kB\n\
            Out of memory: Killed process 5 (dd) total-vm:9kB, anon-rss:110000kB, file-rss:0kB\n";
        let machine = |more: &[&str]| {
            let all = ["lowmark", "machine", "--from-dmesg", log.to_str().unwrap()];
            match cli::Cli::parse_from(all.iter().chain(more)).command {
                cli::Command::Machine(args) => run(&args),
                other => panic!("{other:?}"),
            }
        };
        std::fs::write(&log, report).unwrap();
        machine(&["--out", out.to_str().unwrap()]).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(
            text.contains("size = \"128M\"") && text.contains("cpus = 2"),
            "{text}"
        );
        assert!(matches!(
            machine(&["--report", "2"]),
            Err(Failure::Input(_))
        ));
        std::fs::write(&log, "nothing\n").unwrap();
        assert!(matches!(machine(&[]), Err(Failure::Input(_))));
        let group = "dd invoked oom-killer: gfp_mask=0xcc0, order=0\nmemory: usage 4kB, limit 4kB, failcnt 1\n";
        std::fs::write(&log, group).unwrap();
        machine(&[]).unwrap();
        let other = dir.path().join("n.toml");
        assert!(matches!(
            machine(&["--out", other.to_str().unwrap()]),
            Err(Failure::Input(_))
        ));
        assert!(!other.exists());
    }
}
