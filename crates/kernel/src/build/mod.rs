//! Kernels for guests: built from a source tree, kept by a digest of their inputs.
//!
//! A kernel is a User-Mode Linux, an ordinary program of the host, or one for QEMU guests
//! ([`Arch`]). [`build`] takes a tree or a Debian package of sources ([`Source`]), applies patches
//! to a private copy (`sync`), configures it (`config`), runs make and puts the files that a guest
//! needs into a folder whose name is a digest of all inputs (`cache` draws the folders). A name
//! such as `6.12` only points to such a folder, so the same sources are never built twice, and
//! another build under a name starts from the objects of the last one.
//!
//! A folder appears by one renaming, so an unfinished build is never taken for a finished one.

mod arch;
mod begin;
mod beneath;
mod cache;
mod compile;
mod config;
mod error;
pub(crate) mod for_qemu;
mod ignored;
mod own;
mod patch;
mod record;
mod run;
mod scan;
mod source;
mod sync;
pub mod ticks;

pub use arch::Arch;
pub use cache::Cache;
pub use error::BuildError;
pub use record::{Built, Listed, Record};

use cache::{make_folder, remove_folder, write_file};
pub(crate) use compile::compiler_of_preload;
use config::{Fragment, Wanted};
use for_qemu::Installed;
use own::Own;
use patch::{Patch, Patched};
pub(crate) use run::tool;
use scan::Scan;
pub(crate) use scan::hex;
use sha2::{Digest as _, Sha256};
use source::Release;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The library that is preloaded into kernels and tools: it fixes random numbers, clock and process
/// ids.
pub(crate) const FIXED: &str = include_str!("fixed.c");
/// Version of the build procedure; raised when the same inputs would give another kernel.
const FORM: u32 = 1;
/// Hexadecimal digits of the digest that name a folder.
const KEY: usize = 20;
/// The longest name of a kernel, in bytes.
const LONGEST: usize = 64;
/// CPU seconds of a first build, assumed where no earlier build is known (6.12, on a machine of
/// 2026).
const FIRST: f64 = 600.0;

/// The sources of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A source tree. It is read, never written to.
    Tree(PathBuf),
    /// The version of an installed Debian package of sources: `6.12` of `linux-source-6.12`.
    Debian(String),
}

/// A kernel to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sources.
    pub source: Source,
    /// Patch files, applied in this order.
    pub patches: Vec<PathBuf>,
    /// Files with configuration fragments, applied after ours; the last setting of a symbol holds.
    pub fragments: Vec<PathBuf>,
    /// The name under which to keep the kernel; `None`: the version of a Debian package, or the
    /// release and the name of the tree's folder.
    pub name: Option<String>,
    /// Whether the patch is applied that makes computation take virtual time. Without it the tree
    /// is built unpatched.
    pub costs: bool,
    /// Ticks a second of its timer, one of [`ticks::ACCEPTED`]. Other ones than [`ticks::HZ`] are
    /// in the name of a User-Mode Linux, too.
    pub hz: u32,
    /// The kernel's purpose.
    pub arch: Arch,
    /// A whole configuration, such as a distribution's, to start from; `None`: `tinyconfig`.
    pub base: Option<PathBuf>,
}

/// A step of a build, for progress reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'a> {
    /// A remark for the user.
    Note(&'a str),
    /// The archive at this path is unpacked.
    Unpacking(&'a Path),
    /// The files of the source tree are read.
    Reading,
    /// The private copy is made, of this many files.
    Copying(usize),
    /// The kernel is configured.
    Configuring,
    /// The kernel is compiled: steps that make has taken, and steps that an earlier whole build
    /// took.
    Compiling(u64, Option<u64>),
    /// The finished files are moved to their folder.
    Keeping,
}

/// An observer of a build.
pub trait Watch {
    /// Reports the next step, or progress of the current one.
    fn step(&mut self, step: Step<'_>);

    /// Returns true if the build should stop.
    fn stopped(&self) -> bool {
        false
    }
}

/// An observer that ignores all reports.
impl Watch for () {
    fn step(&mut self, _: Step<'_>) {}
}

/// Builds a kernel in the user's [`Cache`], or finds it there.
///
/// # Errors
/// An input is wrong or missing, the disk is full, or the build failed.
pub fn build(request: &Request, watch: &mut dyn Watch) -> Result<Built, BuildError> {
    Cache::of_user()?.build(request, watch)
}

/// Builds a kernel for QEMU guests in the user's [`Cache`], or finds it there.
///
/// # Errors
/// As [`build`].
pub fn build_for_qemu(request: &Request, watch: &mut dyn Watch) -> Result<Installed, BuildError> {
    Cache::of_user()?.build_for_qemu(request, watch)
}

/// Lists all kernels of the user's [`Cache`] by name.
///
/// # Errors
/// The user has no cache folder ([`Cache::of_user`]).
pub fn list() -> Result<Vec<Listed>, BuildError> {
    Ok(record::listed(&Cache::of_user()?))
}

/// Finds the kernel of this name in the user's [`Cache`].
///
/// # Errors
/// As [`Cache::find`].
pub fn find(name: &str) -> Result<Built, BuildError> {
    Cache::of_user()?.find(name)
}

/// Removes a kernel's name from the user's [`Cache`], with all files that no other name needs.
///
/// # Errors
/// As [`Cache::remove`].
pub fn remove(name: &str) -> Result<(), BuildError> {
    Cache::of_user()?.remove(name)
}

/// Returns true for a character that a kernel's name, and so a folder's name, may have.
fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+-~".contains(c)
}

/// Checks that `name` can be a kernel's name.
///
/// # Errors
/// The name is too long, has characters that are not allowed, or ends like a lock or temporary
/// file.
pub fn check_name(name: &str) -> Result<(), BuildError> {
    let good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST
        && name.chars().all(plain)
        && !name.ends_with(".lock")
        && !name.ends_with(".new");
    if good {
        return Ok(());
    }
    Err(BuildError::input(
        format!("`{name}` can't be a kernel's name"),
        format!(
            "1 to {LONGEST} letters, digits and . _ + - ~, a letter or digit first, not ending in .lock \
             or .new"
        ),
    ))
}

/// All inputs of a kernel, read and combined.
struct Plan {
    name: String,
    release: Release,
    /// The source's name for people.
    source: String,
    scan: Scan,
    patches: Vec<Patch>,
    fragments: Vec<Fragment>,
    own: Option<&'static Own>,
    wanted: Wanted,
    patched: Patched,
    hz: u32,
    arch: Arch,
    base: Option<Fragment>,
    compiler: String,
    /// The digest of the inputs that come with the program.
    ours: String,
    /// The digest of all inputs.
    hash: String,
}

impl Plan {
    /// Reads and checks all inputs of a request: sources (a Debian package is unpacked), patches,
    /// fragments and compiler. Applies the patches in memory and computes the digest by which a
    /// finished kernel is found again.
    ///
    /// # Errors
    /// An input is missing or wrong, or a patch does not fit.
    fn read(cache: &Cache, request: &Request, watch: &mut dyn Watch) -> Result<Self, BuildError> {
        // Checks that can fail come before steps that take long.
        if let Some(name) = &request.name {
            check_name(name)?;
        }
        let patches: Vec<Patch> = each(&request.patches, Patch::read)?;
        let fragments: Vec<Fragment> = each(&request.fragments, Fragment::read)?;
        let base = request.base.as_deref().map(Fragment::read).transpose()?;
        let wanted = Wanted::read(request.arch, request.hz, &fragments)?;
        let archive = match &request.source {
            Source::Tree(tree) => source::release(tree).map(|_| None)?,
            Source::Debian(version) => Some((version, source::archive(cache, version)?)),
        };
        run::find_tools()?;
        let compiler = format!("{}; {}", run::version("gcc")?, run::version("ld")?);
        let (scan, source) = match (&request.source, &archive) {
            (_, Some((version, archive))) => (
                source::unpacked(cache, version, archive, watch)?,
                format!("linux-source-{version}"),
            ),
            (Source::Tree(tree), None) => {
                watch.step(Step::Reading);
                let tree =
                    fs::canonicalize(tree).map_err(|e| BuildError::io("can't read", tree, e))?;
                (Scan::read(&tree)?, tree.display().to_string())
            }
            (Source::Debian(_), None) => unreachable!("a package has an archive"),
        };
        let release = source::release(&scan.root)?;
        let name = match (&request.name, &request.source) {
            (Some(name), _) => name.clone(),
            (None, Source::Debian(version)) => version.clone(),
            (None, Source::Tree(_)) => default_name(&release, &scan.root),
        };
        let um = request.arch == Arch::Um;
        let name = match (um, &request.name) {
            (true, _) => ticks::ticking(&name, request.hz),
            (false, Some(name)) => name.clone(),
            // The package's own kernel has its version as name.
            (false, None) => format!("{name}-{}", request.arch.word()),
        };
        check_name(&name)?;
        let mut patched = Patched::default();
        for patch in &patches {
            patched.apply(&scan, patch, &release.text)?;
        }
        let own = own::for_release(own::ALL, &release).filter(|_| request.costs && um);
        if let Some(own) = own {
            own::apply(own, &mut patched, &scan, &release)?;
        }
        if !um {
            arch::add_driver(&mut patched, &scan, &release)?;
        } else if request.hz != ticks::HZ {
            ticks::apply(request.hz, &mut patched, &scan, &release)?;
        }
        let mut plan = Self {
            ours: ours(own, request.arch, request.hz),
            hash: String::new(),
            name,
            release,
            source,
            scan,
            patches,
            fragments,
            own,
            wanted,
            patched,
            hz: request.hz,
            arch: request.arch,
            base,
            compiler,
        };
        plan.hash = plan.digest();
        Ok(plan)
    }

    /// Returns the digest, in hex, of all inputs that determine the kernel; its first digits name
    /// the kernel's folder.
    fn digest(&self) -> String {
        let mut all = Sha256::new();
        let mut part = |what: &str, bytes: &[u8]| {
            all.update(format!("{what} {}\n", bytes.len()));
            all.update(bytes);
        };
        part("ours", self.ours.as_bytes());
        part("source", &self.scan.manifest.digest());
        for patch in &self.patches {
            part("patch", &patch.bytes);
        }
        for fragment in &self.fragments {
            part("fragment", fragment.text.as_bytes());
        }
        // Kernels that were built before there was a choice are the same as ever.
        if self.hz != ticks::HZ {
            part("hz", self.hz.to_string().as_bytes());
        }
        if self.arch != Arch::Um {
            part("arch", self.arch.word().as_bytes());
        }
        if let Some(base) = &self.base {
            part("base", base.text.as_bytes());
        }
        part("compiler", self.compiler.as_bytes());
        hex(&all.finalize())
    }
}

/// Reads every file of a list with `read`; stops at the first error.
fn each<T>(
    paths: &[PathBuf],
    read: impl Fn(&Path) -> Result<T, BuildError>,
) -> Result<Vec<T>, BuildError> {
    paths.iter().map(|path| read(path)).collect()
}

/// Returns the digest, in hex, of the inputs that come with the program: the form of the build, the
/// configuration fragment, the preloaded library and Lowmark's own patch, if one is applied. (The
/// driver of a kernel for QEMU is among its sources.)
fn ours(own: Option<&Own>, arch: Arch, hz: u32) -> String {
    let mut all = Sha256::new();
    all.update(format!("form {FORM}\n"));
    for text in [&*config::ours(arch, hz), FIXED, own.map_or("", |o| o.text)] {
        all.update(format!("{}\n", text.len()));
        all.update(text);
    }
    hex(&all.finalize())
}

/// Returns the name of a kernel for which the user gave none: release and name of the tree's
/// folder, with `-` in the place of characters that names can't have.
fn default_name(release: &Release, root: &Path) -> String {
    let folder = root.file_name().unwrap_or_default().to_string_lossy();
    let spelt = |c| if plain(c) { c } else { '-' };
    let name = format!("{release}-{folder}");
    name.chars().map(spelt).take(LONGEST).collect()
}

impl Cache {
    /// Builds a kernel in this cache and gives it its name, or finds it there if the same inputs
    /// were built before.
    ///
    /// # Errors
    /// As [`build`].
    pub fn build(&self, request: &Request, watch: &mut dyn Watch) -> Result<Built, BuildError> {
        let plan = Plan::read(self, request, watch)?;
        if let (true, None) = (request.costs, plan.own) {
            watch.step(Step::Note(
                "computing takes no time in this kernel: Lowmark has no patch for this release that charges it",
            ));
        }
        let lock = self.lock(&plan.name)?;
        let key = &plan.hash[..KEY];
        let folder = self.kernels().join(key);
        let existing = Built::open(&plan.name, &folder);
        if folder.exists() && existing.is_err() {
            remove_folder(&folder)?;
        }
        if let Ok(existing) = existing {
            self.name(&plan.name, key)?;
            watch.step(Step::Note("nothing to do: these sources were built before"));
            return Ok(existing);
        }
        self.compile(&plan, &folder, &lock, watch)?;
        self.name(&plan.name, key)?;
        Built::open(&plan.name, &folder)
    }

    /// Builds a kernel for QEMU guests in this cache and gives it its name, or finds it there if
    /// the same inputs were built under this name before.
    ///
    /// # Errors
    /// As [`build`].
    pub fn build_for_qemu(
        &self,
        request: &Request,
        watch: &mut dyn Watch,
    ) -> Result<Installed, BuildError> {
        assert_eq!(request.arch, Arch::X86_64, "User-Mode Linux needs no QEMU");
        let plan = Plan::read(self, request, watch)?;
        // Objects of one architecture are of no use to the other: their builds lie apart.
        let own = self.of_qemu();
        let lock = own.lock(&plan.name)?;
        let folder = for_qemu::folder(self).join(&plan.name);
        if let Ok(existing) = for_qemu::open(&plan.name, &folder)
            && existing.record.digest == plan.hash[..KEY]
        {
            watch.step(Step::Note("nothing to do: these sources were built before"));
            return Ok(existing);
        }
        own.compile(&plan, &folder, &lock, watch)?;
        for_qemu::open(&plan.name, &folder)
    }

    /// Removes the objects from which the next build for QEMU under this name would start.
    ///
    /// # Errors
    /// Another process builds it now, or the system refuses.
    pub(crate) fn forget_qemu(&self, name: &str) -> Result<(), BuildError> {
        let own = self.of_qemu();
        if !own.work(name).exists() {
            return Ok(());
        }
        let _lock = own.lock(name)?;
        remove_folder(&own.work(name))
    }

    /// Finds the kernel of this name, with the command that would build it in the errors.
    ///
    /// # Errors
    /// There is none, it is damaged, or another version of this program built it.
    pub fn find(&self, name: &str) -> Result<Built, BuildError> {
        let (plain, hz) = ticks::split(name);
        let ticks = match hz {
            ticks::HZ => String::new(),
            hz => format!(" --hz {hz}"),
        };
        let command = match plain.split('.').all(|part| part.parse::<u32>().is_ok()) {
            true => format!("`lowmark kernel build --debian {plain}{ticks}`"),
            false => format!("`lowmark kernel build TREE --name {plain}{ticks}`"),
        };
        let Some(built) = record::by_name(self, name)? else {
            let names: Vec<String> = record::names(self)
                .into_iter()
                .filter(|n| record::key_of(self, n).is_some())
                .collect();
            let listed = match names.as_slice() {
                [] => "there are none".to_owned(),
                some => format!("there are {}", some.join(", ")),
            };
            return Err(BuildError::input(
                format!("there is no kernel {name}"),
                format!("one that was built ({listed}), or {command} first"),
            ));
        };
        let record = &built.record;
        let own = own::ALL
            .iter()
            .find(|own| record.own_patches.iter().any(|p| p == own.file));
        if record.ours != ours(own, Arch::Um, record.hz) {
            return Err(BuildError::input(
                format!("kernel {name} was built by another version of this program"),
                format!("{command} once more, with the patches and options of the first build"),
            ));
        }
        Ok(built)
    }

    /// Removes a kernel's name, its work folder, and all finished kernels and unpacked sources that
    /// no other name needs.
    ///
    /// # Errors
    /// There is no such name, another process builds it now, or the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), BuildError> {
        check_name(name)?;
        let names = record::names(self);
        if !names.iter().any(|n| n == name) {
            return Err(BuildError::input(
                format!("there is no kernel {name}"),
                match names.as_slice() {
                    [] => "no name: no kernel is stored".to_owned(),
                    some => format!("one of {}", some.join(", ")),
                },
            ));
        }
        let lock = self.lock(name)?;
        let key = record::key_of(self, name);
        let pointer = self.names().join(name);
        if key.is_some() {
            fs::remove_file(&pointer).map_err(|e| BuildError::io("can't remove", &pointer, e))?;
        }
        remove_folder(&self.work(name))?;
        let needed: BTreeSet<String> = names
            .iter()
            .filter_map(|n| record::key_of(self, n))
            .collect();
        // Also removes the kernels that were built under this name before.
        for earlier in record::of_name(self, name).into_iter().chain(key) {
            if !needed.contains(&earlier) {
                remove_folder(&self.kernels().join(earlier))?;
            }
        }
        self.remove_sources(&names)?;
        // The lock file stays: another process may have it open and wait.
        drop(lock);
        Ok(())
    }

    /// Removes the unpacked packages that none of the kernels with these names was built from,
    /// unless another process uses them; removes none while there is an unfinished build.
    fn remove_sources(&self, names: &[String]) -> Result<(), BuildError> {
        let built = names
            .iter()
            .filter_map(|n| record::by_name(self, n).ok().flatten());
        let needed: BTreeSet<String> = built.map(|b| b.record.source).collect();
        // An unfinished build may need any of them.
        if names
            .iter()
            .any(|n| self.work(n).exists() && record::key_of(self, n).is_none())
        {
            return Ok(());
        }
        for entry in fs::read_dir(self.sources()).into_iter().flatten().flatten() {
            let folder = entry.file_name().to_string_lossy().into_owned();
            let version = folder.rsplit_once('-').map(|(version, _)| version);
            let Some(version) = version.filter(|_| entry.path().is_dir()) else {
                continue;
            };
            let lock = cache::lock_file(&self.sources().join(format!("{version}.lock")))?;
            if !needed.contains(&format!("linux-source-{version}")) && lock.try_lock().is_ok() {
                remove_folder(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Makes a name point to the finished kernel with this key.
    fn name(&self, name: &str, key: &str) -> Result<(), BuildError> {
        make_folder(&self.names())?;
        write_file(&self.names().join(name), format!("{key}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests;
