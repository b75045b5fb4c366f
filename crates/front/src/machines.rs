//! A computer as a machine file: the running one, or a saved one.

use crate::failure::Failure;
use lab::diagnostic::Source;
use lab::experiment::Overrides;
use machine::capture::{Captured, Disk};
use machine::describe::{self, Described};
use machine::probe::Fit;
use machine::{ReadError, Root};
use miette::miette;
use std::path::Path;

/// Describes the machine, called `name`, and checks that an experiment can use it. `disk` is the
/// tested disk, `fit` the model fitted to its measurements.
pub fn described(
    name: Option<&str>,
    captured: &Captured,
    disk: Option<&Disk>,
    fit: Option<&Fit>,
) -> Result<Described, Failure> {
    of_options(
        captured,
        &describe::Options {
            name,
            disk,
            fit,
            ..describe::Options::default()
        },
    )
}

/// Describes the machine with these additions to its capture, and checks that an experiment can use
/// it.
pub fn of_options(
    captured: &Captured,
    options: &describe::Options<'_>,
) -> Result<Described, Failure> {
    let described = describe::describe(captured, options)
        .map_err(|e| Failure::Input(miette!("this machine can't be described: {e}")))?;
    check(&described)?;
    Ok(described)
}

/// Returns the files to read: the running system's, or a saved tree, which must have
/// `proc/zoneinfo`.
pub fn root(saved: Option<&Path>) -> Result<Root, Failure> {
    let Some(dir) = saved else {
        return Ok(Root::live());
    };
    if dir.join("proc/zoneinfo").is_file() {
        return Ok(Root::at(dir));
    }
    Err(Failure::Input(miette!(
        help = "accepted: a folder with proc/zoneinfo and the like, such as `lowmark machine --save DIR` writes",
        "{} holds no saved machine",
        dir.display()
    )))
}

/// Converts an error of reading a machine into a failure.
pub fn unreadable(e: ReadError) -> Failure {
    Failure::Input(miette!(
        help = "accepted: the files of a Linux with 4 KiB pages, as `lowmark machine --save DIR` saves them",
        "{e}"
    ))
}

/// Returns the disk called `wanted`, or else the likely one, which is `None` on a machine without
/// disks. An unknown name is an error that lists the disks.
pub fn tested_disk<'a>(
    wanted: Option<&str>,
    captured: &'a Captured,
) -> Result<Option<&'a Disk>, Failure> {
    let Some(name) = wanted else {
        return Ok(describe::likely_disk(captured));
    };
    let found = captured.disks.iter().find(|d| d.name == name);
    let names: Vec<&str> = captured.disks.iter().map(|d| d.name.as_str()).collect();
    found.map(Some).ok_or_else(|| {
        Failure::Input(miette!(
            help = lab::diagnostic::one_of(name, &names),
            "no disk `{name}`"
        ))
    })
}

/// Parses the description as an experiment would, so that no machine is written that the engine
/// refuses.
fn check(described: &Described) -> Result<(), Failure> {
    let experiment = "name = \"check\"\npolicy = \"linux-6.12\"\nfilesystem = \"ext4\"\n\
        machine = \"the captured machine\"\n[workload]\n\
        command = \"dd if=/dev/zero of=disk/x bs=4k count=1\"\n";
    let text = described.text.clone();
    let files = move |name: &str| Ok((name.to_owned(), text.clone()));
    let source = Source::new("check", experiment);
    lab::experiment::parse(&source, &files, &Overrides::default())
        .map(|_| ())
        .map_err(|e| Failure::Input(e.into()))
}
