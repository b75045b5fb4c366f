//! `lowmark kernel`.

use crate::cli::{Kernel, KernelAdd, KernelBuild, KernelList, KernelRemove, KernelShell};
use crate::{interrupt, text};
use front::failure::Failure;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use kernel::build::{self, Arch, BuildError, Listed, Request, Source, Step, Watch, ticks};
use kernel::image::Images;
use kernel::qemu::installed::{self, Installed};
use lab::diagnostic::Source as Text;
use lab::experiment::Overrides;
use lab::experiment::kernels::PREFIX;
use miette::MietteDiagnostic;
use serde_json::json;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Builds, adds, lists, removes or boots kernels.
pub fn run(what: &Kernel) -> Result<(), Failure> {
    match what {
        Kernel::Build(args) => build(args),
        Kernel::Add(args) => add(args),
        Kernel::List(args) => list(args),
        Kernel::Remove(args) => remove(args),
        Kernel::Shell(args) => shell(args),
    }
}

/// Shows progress on a terminal, and notes everywhere.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Makes the progress of a build. `stop` is set to end it; `quiet`, or no terminal, shows none.
    pub fn new(quiet: bool, stop: &Arc<AtomicBool>) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        };
        let stop = Arc::clone(stop);
        Self { bar, quiet, stop }
    }

    /// Removes the progress from the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Progress {
    /// Shows a step of the build: notes as lines, compilation as a bar if its length is known,
    /// other steps as a message.
    fn step(&mut self, step: Step<'_>) {
        let words = match step {
            Step::Note(note) => {
                if !self.quiet {
                    self.bar.suspend(|| eprintln!("{note}"));
                }
                return;
            }
            Step::Compiling(done, Some(all)) if done > 0 => {
                if self.bar.length().is_none() {
                    let form = "{spinner} {elapsed_precise} [{bar:30}] {pos}/{len} compiled";
                    let style = ProgressStyle::with_template(form).expect("a template");
                    self.bar.set_style(style);
                }
                self.bar.set_length(all.max(done));
                self.bar.set_position(done);
                return;
            }
            Step::Unpacking(archive) => format!("unpacking {}", archive.display()),
            Step::Reading => "reading the source tree".into(),
            Step::Copying(files) => format!("copying {files} files"),
            Step::Configuring => "configuring".into(),
            Step::Compiling(done, _) => format!("compiling ({done} steps)"),
            Step::Keeping => "storing the kernel".into(),
        };
        self.bar.set_message(words);
    }

    fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

/// Ticks a second of a kernel that is built for QEMU, as Debian's kernels have.
const QEMU_HZ: u32 = 250;

/// Builds a kernel from a source tree or a Debian package, and prints its name and place.
fn build(args: &KernelBuild) -> Result<(), Failure> {
    let source = match (&args.tree, &args.debian) {
        (Some(tree), None) => Source::Tree(tree.clone()),
        (None, Some(version)) => Source::Debian(version.clone()),
        _ => unreachable!("the command line has one of them"),
    };
    if args.arch == Arch::Um && args.config_from.is_some() {
        let why = "--config-from: a configuration of distributions is for real machines";
        return Err(Failure::Input(miette::miette!(
            help = "accepted: --config-from with --arch x86_64; --config takes a fragment for User-Mode Linux",
            "{why}"
        )));
    }
    let request = Request {
        source,
        patches: args.patch.clone(),
        fragments: args.config.clone(),
        name: args.name.clone(),
        costs: !args.without_costs,
        hz: args.hz.unwrap_or(match args.arch {
            Arch::Um => ticks::HZ,
            Arch::X86_64 => QEMU_HZ,
        }),
        arch: args.arch,
        base: args.config_from.clone(),
    };
    let stop = interrupt::flag_saying("stopping the build; once more to stop at once");
    let mut progress = Progress::new(args.quiet, &stop);
    let said = match args.arch {
        Arch::Um => build::build(&request, &mut progress).map(|built| {
            let (name, release) = (&built.name, &built.release);
            format!(
                "kernel:{name} is Linux {release}, in {}\n",
                built.folder.display()
            )
        }),
        Arch::X86_64 => {
            let built = build::build_for_qemu(&request, &mut progress);
            built.map(|built| of_qemu(&built))
        }
    };
    progress.clear();
    let said = said?;
    if args.quiet {
        return Ok(());
    }
    text::print(&said)
}

/// Adds a kernel that Debian's package installed.
fn add(args: &KernelAdd) -> Result<(), Failure> {
    let name = args.name.as_deref();
    let root = std::path::absolute(&args.root).unwrap_or_else(|_| args.root.clone());
    let request = installed::Request::debian(&args.debian_image, name, &root)?;
    text::print(&of_qemu(&installed::add(&request)?))
}

/// Returns the line that says which kernel of QEMU guests is there now.
fn of_qemu(kernel: &Installed) -> String {
    format!(
        "kernel:{} is Linux {} for QEMU guests, {} ticks a second, in {}\n",
        kernel.name,
        kernel.record.release,
        kernel.record.hz,
        kernel.folder.display()
    )
}

fn list(args: &KernelList) -> Result<(), Failure> {
    let listed = build::list()?;
    let added = installed::list()?;
    if args.json {
        let rows = listed.iter().map(as_json);
        let rows: Vec<_> = rows.chain(added.iter().map(added_as_json)).collect();
        return text::print_json(&rows);
    }
    if listed.is_empty() && added.is_empty() {
        return text::print(&format!(
            "no kernels yet: `lowmark kernel build --debian 6.12` builds one, or `lowmark kernel build \
             TREE`\n{}",
            images_line(images()?.bytes())
        ));
    }
    let mut table = text::table([
        "name",
        "Linux",
        "from",
        "costs",
        "built",
        "size",
        "for the next build",
    ]);
    for row in &listed {
        let (linux, from, costs, when) = match &row.built {
            Ok(b) => (
                b.release.clone(),
                from(b),
                if b.record.costs { "yes" } else { "no" },
                b.record.built.clone(),
            ),
            Err(why) => (why.clone(), String::new(), "", String::new()),
        };
        table.add_row([
            row.name.clone(),
            linux,
            from,
            costs.into(),
            when,
            HumanBytes(row.bytes).to_string(),
            HumanBytes(row.work_bytes).to_string(),
        ]);
    }
    let mut all = String::new();
    if !listed.is_empty() {
        all = format!("{table}\n");
    }
    if !added.is_empty() {
        all.push_str(&format!("{}\n", added_table(&added)));
    }
    text::print(&format!("{all}{}", images_line(images()?.bytes())))
}

/// Returns the table of kernels for QEMU guests.
fn added_table(added: &[Installed]) -> impl std::fmt::Display {
    let mut table = text::table(["for QEMU", "Linux", "from", "ticks"]);
    for kernel in added {
        let record = &kernel.record;
        table.add_row([
            kernel.name.clone(),
            record.release.clone(),
            record.image.clone(),
            record.hz.to_string(),
        ]);
    }
    table
}

fn added_as_json(kernel: &Installed) -> serde_json::Value {
    json!({"name": kernel.name, "guest": "qemu", "added": kernel.record})
}

/// Describes the size of kept disk images; empty if there are none.
fn images_line(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(
            "images of disks: {}; `lowmark kernel remove --images` frees it\n",
            HumanBytes(bytes)
        ),
    }
}

/// Describes the sources of a kernel: the tree or package, patches and configuration fragments,
/// joined by ` + `.
fn from(built: &build::Built) -> String {
    let parts = [&built.record.patches, &built.record.fragments];
    let parts = parts.into_iter().flatten().map(String::as_str);
    let all: Vec<&str> = std::iter::once(built.record.source.as_str())
        .chain(parts)
        .collect();
    all.join(" + ")
}

/// Returns a listed kernel as JSON: `built` is its record, or `trouble` the reason why it can't be
/// used.
fn as_json(row: &Listed) -> serde_json::Value {
    let (built, trouble) = match &row.built {
        Ok(built) => (Some(&built.record), None),
        Err(why) => (None, Some(why)),
    };
    json!({
        "name": row.name,
        "built": built,
        "trouble": trouble,
        "bytes": row.bytes,
        "work_bytes": row.work_bytes,
    })
}

/// Returns the user's cache of disk images.
fn images() -> Result<Images, BuildError> {
    Ok(Images::at(build::Cache::of_user()?.images()))
}

/// Removes the named kernels, and with `--images` the kept disk images.
fn remove(args: &KernelRemove) -> Result<(), Failure> {
    for name in &args.names {
        let added = installed::remove(name)?;
        match build::remove(name) {
            // The name was that of a kernel for QEMU alone.
            Err(BuildError::Input { .. }) if added => {}
            removed => removed?,
        }
    }
    if args.images {
        images()?.remove().map_err(|e| {
            let diagnostic = MietteDiagnostic::new(e.to_string());
            Failure::System(miette::Report::new(diagnostic))
        })?;
    }
    Ok(())
}

/// The default machine of a shell.
const SHELL: &str = r#"
name = "shell"
filesystem = "ext4"
workload = { command = "sleep 1" }

[machine]
name = "512M"
cpus = 1
node = [{ zones = [{ zone = "Normal", size = "512M" }] }]
disk = { kind = "ssd", capacity = "10G" }
"#;

/// Boots a kernel with a shell on this terminal, on the machine of an experiment's first cell or a
/// default one. Returns when the guest ends.
fn shell(args: &KernelShell) -> Result<(), Failure> {
    let policy = format!("policy=\"{PREFIX}{}\"", args.name);
    let set = args.set.iter().map(|(k, v)| format!("{k}={v}"));
    let overrides = Overrides {
        set: std::iter::once(policy).chain(set).collect(),
        ..Overrides::default()
    };
    let loaded = match &args.experiment {
        Some(path) => lab::experiment::load(path, &overrides),
        None => {
            let source = Text::new("the machine of a shell", SHELL);
            let files = lab::experiment::files_near(Path::new(""));
            lab::experiment::parse(&source, &files, &overrides)
        }
    };
    let experiment = loaded.map_err(|e| Failure::Input(e.into()))?;
    let cell = experiment.cells.first().expect("an experiment has cells");
    let Some(kernel) = &cell.kernel else {
        unreachable!("the policy is a kernel's");
    };
    let built = build::find(&kernel.build)?;
    let wrong = |why: String| Failure::Input(miette::miette!("{why}"));
    kernel::shell::busybox().map_err(wrong)?;
    let (name, release) = (&built.name, &built.release);
    let (machine, filesystem) = (&cell.machine, &cell.filesystem);
    // In raw mode a newline does not return to the first column.
    let mut started = |pid: u32| {
        eprint!(
            "kernel:{name}, Linux {release}, on {machine} with {filesystem}: process {pid}; Ctrl-] ends it\r\n"
        );
    };
    let control = Arc::default();
    let sat = kernel::shell::shell(&cell.spec, kernel, &mut started, &control);
    sat.map_err(|why| Failure::System(miette::miette!("{why}")))
}
