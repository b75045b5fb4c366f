//! Turns a private copy into a finished kernel folder: configures, runs make, keeps the result.

use super::arch::Arch;
use super::cache::{Cache, make_folder, remove_folder, write_file};
use super::config;
use super::error::BuildError;
use super::for_qemu;
use super::record::{self, Record};
use super::run::{Log, tool};
use super::sync::{self, Copy};
use super::{FIRST, FIXED, KEY, Plan, Step, Watch};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

/// The state of a running build: the name's private copy, objects, lock and log.
struct Site<'a> {
    plan: &'a Plan,
    copy: Copy,
    objects: PathBuf,
    lock: &'a File,
    log: Log,
    jobs: usize,
}

impl Cache {
    /// Builds the kernel of `plan` in the work folder of its name and moves the result to `folder`.
    /// `lock` is the lock of the name, which compilers inherit; `watch` is told of each step and
    /// can stop the build. On a full disk the work folder goes: objects of an interrupted compiler
    /// may look finished.
    pub(super) fn compile(
        &self,
        plan: &Plan,
        folder: &Path,
        lock: &File,
        watch: &mut dyn Watch,
    ) -> Result<(), BuildError> {
        let work = self.work(&plan.name);
        let compiled = self.compile_in(plan, &work, folder, lock, watch);
        if let Err(BuildError::Full { .. }) = compiled {
            let _ = fs::remove_dir_all(&work);
        }
        compiled
    }

    /// Builds as [`Self::compile`] does, in the folder `work`.
    fn compile_in(
        &self,
        plan: &Plan,
        work: &Path,
        folder: &Path,
        lock: &File,
        watch: &mut dyn Watch,
    ) -> Result<(), BuildError> {
        let begin = Instant::now();
        make_folder(work)?;
        let mut site = Site {
            plan,
            copy: Copy::below(work),
            objects: work.join("objects"),
            lock,
            log: Log::create(&work.join("log"))?,
            jobs: std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        let wanted = sync::patched(&plan.scan, &plan.patched);
        if let Some(other) = self.begin(&plan.name, &wanted)? {
            let note = format!("the build starts from the objects of {other}");
            watch.step(Step::Note(&note));
        }
        let earlier = record::earlier(self, &plan.release.text);
        watch.step(Step::Note(&estimate(plan, earlier.as_ref(), &site)));
        // The quickest step first: it fails at once if the compiler or the C library is broken.
        let preload = site.preload(work, watch)?;
        watch.step(Step::Copying(wanted.0.len()));
        site.copy.update(&plan.scan, &plan.patched, &wanted)?;
        // True if all of the kernel is compiled, not only what has changed.
        let whole = !site.objects.join("vmlinux").exists();
        let unknown = site.configure(watch)?;
        if !unknown.is_empty() {
            let note = format!("this kernel does not have {}", unknown.join(", "));
            watch.step(Step::Note(&note));
        }
        let before = earlier.map(|r| r.steps);
        let steps = site.make(before, watch)?;
        if let Some(changed) = plan.scan.changed() {
            return Err(BuildError::input(
                format!(
                    "{} was written to while the kernel was built",
                    changed.display()
                ),
                "the same command once more",
            ));
        }
        watch.step(Step::Keeping);
        let release = site.objects.join("include/config/kernel.release");
        let release =
            fs::read_to_string(&release).map_err(|e| BuildError::io("can't read", &release, e))?;
        if plan.arch == Arch::X86_64 {
            let hz = for_qemu::ticks(&site.objects).unwrap_or(plan.hz);
            let from = std::iter::once(&plan.source).chain(plan.patches.iter().map(|p| &p.name));
            let fragments = plan.base.iter().chain(&plan.fragments).map(|f| &f.name);
            let from: Vec<&str> = from.chain(fragments).map(String::as_str).collect();
            let record = for_qemu::Record {
                release: release.trim().to_owned(),
                image: from.join(" + "),
                digest: plan.hash[..KEY].to_owned(),
                hz,
                modules: Vec::new(),
            };
            let text = toml::to_string(&record).expect("a record has a TOML form");
            return site.keep(work, folder, &preload, ("kernel.toml", &text));
        }
        let record = Record {
            name: plan.name.clone(),
            release: release.trim().to_owned(),
            hash: plan.hash.clone(),
            source: plan.source.clone(),
            patches: plan.patches.iter().map(|p| p.name.clone()).collect(),
            fragments: plan.fragments.iter().map(|f| f.name.clone()).collect(),
            own_patches: plan.own.iter().map(|own| own.file.to_owned()).collect(),
            costs: plan.own.is_some(),
            hz: plan.hz,
            unknown,
            ours: plan.ours.clone(),
            compiler: plan.compiler.clone(),
            built: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            seconds: (begin.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            jobs: site.jobs,
            steps,
            whole,
        };
        let text = toml::to_string(&record).expect("a record has a TOML form");
        site.keep(work, folder, &preload, ("build.toml", &text))
    }
}

/// Describes how long the build is expected to take: from the time and number of jobs of an earlier
/// build (`earlier`), or else from a build that was measured elsewhere.
fn estimate(plan: &Plan, earlier: Option<&Record>, site: &Site<'_>) -> String {
    let (seconds, from) = match earlier {
        Some(r) => (
            r.seconds * r.jobs as f64 / site.jobs as f64,
            format!("{} took {:.0} s with {} jobs", r.release, r.seconds, r.jobs),
        ),
        None => (
            FIRST / site.jobs as f64,
            format!("measured elsewhere: {FIRST:.0} s of one CPU"),
        ),
    };
    let minutes = match (seconds / 60.0).ceil() {
        n if n <= 1.0 => "a minute".to_owned(),
        n => format!("{n:.0} minutes"),
    };
    let release = &plan.release;
    if site.objects.join("vmlinux").exists() {
        format!(
            "building Linux {release}: only what has changed; all of it takes about {minutes} ({from})"
        )
    } else {
        format!("building Linux {release}: about {minutes} ({from})")
    }
}

/// Returns the compiler's command that makes the library of `fixed.c`, which guests and tools of
/// filesystems are started with.
pub(crate) fn compiler_of_preload(source: &Path, library: &Path) -> Command {
    let mut gcc = tool("gcc");
    gcc.args(["-O2", "-fPIC", "-shared", "-o"])
        .arg(library)
        .arg(source)
        .arg("-ldl");
    gcc
}

impl Site<'_> {
    /// Compiles the library (`fixed.c`) that guests are started with, and returns its path.
    fn preload(&mut self, work: &Path, watch: &mut dyn Watch) -> Result<PathBuf, BuildError> {
        let (source, library) = (work.join("fixed.c"), work.join("seed.so"));
        write_file(&source, FIXED.as_bytes())?;
        let gcc = compiler_of_preload(&source, &library);
        self.log
            .run(gcc, self.lock, watch, |_, _| {})?
            .or_failed("compiling a library", &self.log)?;
        Ok(library)
    }

    /// Returns the kernel's own out-of-tree make command, with time, user, host and version of the
    /// build fixed.
    fn kernel_make(&self, target: &str) -> Command {
        let mut make = tool("make");
        make.arg("-C")
            .arg(&self.copy.root)
            .arg(format!("O={}", self.objects.display()))
            .arg(format!("ARCH={}", self.plan.arch.word()))
            .arg("--no-print-directory")
            .arg(target)
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_USER", "lowmark")
            .env("KBUILD_BUILD_HOST", "lowmark")
            .env("KBUILD_BUILD_VERSION", "1");
        make
    }

    /// Runs make for a target, with its output in the log. `doing` names the step in errors.
    fn run(&mut self, target: &str, doing: &str, watch: &mut dyn Watch) -> Result<(), BuildError> {
        let make = self.kernel_make(target);
        let ended = self.log.run(make, self.lock, watch, |_, _| {})?;
        ended.or_failed(doing, &self.log)
    }

    /// Configures the kernel: `tinyconfig` or a whole configuration, then our fragment and the
    /// user's. Returns the symbols of our fragment that the tree does not know.
    fn configure(&mut self, watch: &mut dyn Watch) -> Result<Vec<String>, BuildError> {
        watch.step(Step::Configuring);
        make_folder(&self.objects)?;
        let file = self.objects.join(".config");
        match &self.plan.base {
            None => self.run("tinyconfig", "configuring the kernel (tinyconfig)", watch)?,
            Some(base) => write_file(&file, base.text.as_bytes())?,
        }
        let read = || fs::read_to_string(&file).map_err(|e| BuildError::io("can't read", &file, e));
        let mut text = read()?;
        text.push('\n');
        text.push_str(&config::ours(self.plan.arch, self.plan.hz));
        for fragment in &self.plan.fragments {
            text.push('\n');
            text.push_str(&fragment.text);
            text.push('\n');
        }
        write_file(&file, text.as_bytes())?;
        self.run(
            "olddefconfig",
            "configuring the kernel (olddefconfig)",
            watch,
        )?;
        self.plan.wanted.check(&read()?, &self.known()?)
    }

    /// Returns the configuration symbols that the Kconfig files of the patched tree define.
    fn known(&self) -> Result<BTreeSet<String>, BuildError> {
        let patched = sync::patched(&self.plan.scan, &self.plan.patched);
        let is_kconfig = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("Kconfig")
        };
        let mut out = BTreeSet::new();
        for path in patched.0.keys().filter(is_kconfig) {
            let path = self.copy.root.join(path);
            let text = fs::read(&path).map_err(|e| BuildError::io("can't read", &path, e))?;
            let text = String::from_utf8_lossy(&text);
            out.extend(config::symbols(&text).map(str::to_owned));
        }
        Ok(out)
    }

    /// Compiles and links; returns the number of steps that make printed. `before` is that number
    /// in an earlier build, for progress reports.
    fn make(&mut self, before: Option<u64>, watch: &mut dyn Watch) -> Result<u64, BuildError> {
        watch.step(Step::Compiling(0, before));
        let mut make = self.kernel_make(self.plan.arch.image()[0]);
        make.arg(format!("-j{}", self.jobs));
        let mut steps = 0;
        let ended = self.log.run(make, self.lock, watch, |line, watch| {
            // A step looks like " CC mm/vmscan.o".
            let step = line
                .strip_prefix("  ")
                .is_some_and(|l| l.starts_with(char::is_uppercase));
            if step {
                steps += 1;
                watch.step(Step::Compiling(steps, before));
            }
        })?;
        ended.or_failed("compiling the kernel", &self.log)?;
        Ok(steps)
    }

    /// Copies the files that a guest needs from the work folder `work` into `folder`, which appears
    /// by one renaming, with the record of the build (the name of its file, and its text).
    /// `preload` is the path of the preloaded library.
    fn keep(
        &self,
        work: &Path,
        folder: &Path,
        preload: &Path,
        record: (&str, &str),
    ) -> Result<(), BuildError> {
        let new = work.join("new");
        remove_folder(&new)?;
        make_folder(&new)?;
        let [_, image, name] = self.plan.arch.image();
        let files = [
            (self.objects.join(image), name),
            (self.objects.join(".config"), "config"),
            (preload.to_owned(), "seed.so"),
            (work.join("log"), "log"),
        ];
        for (from, name) in files {
            let to = new.join(name);
            fs::copy(&from, &to)
                .and_then(|_| File::open(&to)?.sync_all())
                .map_err(|e| BuildError::io("can't write", &to, e))?;
        }
        write_file(&new.join(record.0), record.1.as_bytes())?;
        make_folder(folder.parent().unwrap_or(folder))?;
        // A kernel for QEMU lies under its name, and replaces an earlier one.
        if self.plan.arch == Arch::X86_64 {
            remove_folder(folder)?;
        }
        match fs::rename(&new, folder) {
            // A build of the same kernel under another name was quicker.
            Err(_) if folder.is_dir() => remove_folder(&new),
            Err(e) => Err(BuildError::io("can't move", &new, e)),
            Ok(()) => Ok(()),
        }
    }
}
