//! Kernels for QEMU guests: as distributions ship them, the image and modules that a package
//! installed, with the driver of this program's disks built against the package's headers; or as
//! [`crate::build`] makes them from sources, with the driver in the image and no modules.
//!
//! ```text
//! qemu/NAME/   vmlinuz, modules/NN-NAME.ko in the order of loading, seed.so, kernel.toml
//! ```

use crate::build::for_qemu::{DRIVER, folder, open, ticks};
pub use crate::build::for_qemu::{Installed, Record};
use crate::build::{BuildError, Cache, check_name, compiler_of_preload, hex, tool};
use crate::guest::mount_type;
use sha2::{Digest as _, Sha256};
use sim::spec::FsKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest image, module or list of modules that is read, in bytes.
const MOST: u64 = 1 << 30;

/// Modules that a guest needs for a feature. Those of a filesystem's checksums are named because
/// the kernel would ask a modprobe for them, which a guest does not have; a kernel that has them
/// built in, or under another name, has no such module.
const WANTED: [(&str, &[&str]); 4] = [
    (
        "ext4",
        &[
            "crc32c_generic",
            "crc32c-generic",
            "crc32c-cryptoapi",
            "ext4",
        ],
    ),
    (
        "xfs",
        &[
            "crc32c_generic",
            "crc32c-generic",
            "crc32c-cryptoapi",
            "xfs",
        ],
    ),
    (
        "btrfs",
        &[
            "crc32c_generic",
            "crc32c-generic",
            "crc32c-cryptoapi",
            "xxhash_generic",
            "sha256_generic",
            "blake2b_generic",
            "btrfs",
        ],
    ),
    ("", &["mq-deadline"]),
];

impl Installed {
    /// Returns the files of the modules that a guest with these filesystems loads, in order.
    pub fn modules(&self, filesystems: &[FsKind]) -> Vec<PathBuf> {
        let wanted = |feature: &str| {
            let mut drivers = filesystems.iter().map(|kind| mount_type(*kind).0);
            feature.is_empty() || drivers.any(|driver| driver == feature)
        };
        let lists = self.record.modules.iter().filter(|(f, _)| wanted(f));
        let mut seen = BTreeSet::new();
        let files = lists.flat_map(|(_, files)| files);
        let files = files.filter(|file| seen.insert(file.as_str()));
        files
            .map(|file| self.folder.join("modules").join(file))
            .collect()
    }
}

/// The inputs of an added kernel.
#[derive(Debug, Clone)]
pub struct Request {
    /// The compressed image, such as `/boot/vmlinuz-6.12.9-amd64`.
    pub image: PathBuf,
    /// The folder of its modules, with `modules.dep`.
    pub modules: PathBuf,
    /// Its headers, against which the driver is built.
    pub headers: PathBuf,
    /// The folder of the system whose compiler builds the driver: `/`, or a system below it.
    pub root: PathBuf,
    /// The release.
    pub release: String,
    /// The name for `policy = "kernel:NAME"`.
    pub name: String,
}

impl Request {
    /// Finds the kernel that Debian's package of this version installed in the system in `root`:
    /// the newest of several. `root` is `/`, or a folder with another release of Debian, as
    /// debootstrap makes it.
    ///
    /// # Errors
    /// The package, or that of its headers, is not installed there; the error names both.
    pub fn debian(version: &str, name: Option<&str>, root: &Path) -> Result<Self, BuildError> {
        let boot = root.join("boot");
        let entries = fs::read_dir(&boot).into_iter().flatten().flatten();
        let names = entries.filter_map(|e| e.file_name().into_string().ok());
        let mut releases: Vec<String> = names
            .filter_map(|n| n.strip_prefix("vmlinuz-").map(str::to_owned))
            .filter(|release| is_of(release, version))
            .collect();
        releases.sort_by_key(|release| numbers(release));
        let packages = match root == Path::new("/") {
            true => {
                format!("`apt install linux-image-{version}-amd64 linux-headers-{version}-amd64`")
            }
            false => format!(
                "the packages of linux-image-amd64 and linux-headers-amd64, make and gcc, installed in {}",
                root.display()
            ),
        };
        let release = releases.pop().ok_or_else(|| {
            BuildError::input(
                format!("there is no kernel {version} in {}", boot.display()),
                packages.clone(),
            )
        })?;
        let modules = root.join("lib/modules").join(&release);
        let headers = below(root, &modules.join("build"));
        if !headers.join("Makefile").exists() {
            return Err(BuildError::input(
                format!(
                    "there are no headers of kernel {release} in {}",
                    headers.display()
                ),
                packages,
            ));
        }
        Ok(Self {
            image: boot.join(format!("vmlinuz-{release}")),
            modules,
            headers,
            name: name.unwrap_or(version).to_owned(),
            root: root.to_owned(),
            release,
        })
    }
}

/// Returns the file that a symbolic link in the system in `root` names, with an absolute name taken
/// from there; `path` itself, if it is no such link.
fn below(root: &Path, path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(to) => match to.strip_prefix("/") {
            Ok(absolute) => root.join(absolute),
            Err(_) => path.to_owned(),
        },
        Err(_) => path.to_owned(),
    }
}

/// Returns true if a release is of a version: `6.12.9-amd64` of `6.12`, `6.12.9` and itself.
fn is_of(release: &str, version: &str) -> bool {
    let rest = release.strip_prefix(version);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the numbers of a release, to order releases by.
fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The lines of a `modules.dep`.
struct Dependencies {
    /// Each module's file, and the files that it needs, the one that is loaded last first.
    files: Vec<(String, Vec<String>)>,
}

impl Dependencies {
    fn parse(text: &str) -> Self {
        let line = |line: &str| -> Option<(String, Vec<String>)> {
            let (file, needs) = line.split_once(':')?;
            let needs = needs.split_whitespace().map(str::to_owned).collect();
            Some((file.to_owned(), needs))
        };
        Self {
            files: text.lines().filter_map(line).collect(),
        }
    }

    /// Returns the files to load for a module, in order; none if there is no such module.
    fn of(&self, module: &str) -> Vec<&str> {
        let found = self.files.iter().find(|(file, _)| stem(file) == module);
        let Some((file, needs)) = found else {
            return Vec::new();
        };
        let needs = needs.iter().rev().map(String::as_str);
        needs.chain([file.as_str()]).collect()
    }
}

/// Returns a module's name from its file: `ext4` of `kernel/fs/ext4/ext4.ko.xz`.
fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name)
}

/// Runs a program and returns its standard output.
fn output(command: &mut Command, what: &str) -> Result<Vec<u8>, BuildError> {
    let done = command.output().map_err(|e| {
        let program = command.get_program().to_string_lossy().into_owned();
        BuildError::input(
            format!("{what}: {program}: {e}"),
            format!("an installed {program}"),
        )
    })?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let line = said.lines().find(|l| l.contains("rror")).unwrap_or("");
    Err(BuildError::input(
        format!("{what} failed: {line}"),
        "headers, compiler and image of one release",
    ))
}

/// Reads a module, which may be compressed.
fn read_module(path: &Path) -> Result<Vec<u8>, BuildError> {
    let unreadable = |e| BuildError::io("can't read", path, e);
    // Refused here, because a program would wait for a pipe.
    input::file(path).map_err(unreadable)?;
    let program = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return input::bytes(path, MOST).map_err(unreadable),
    };
    output(
        tool(program).arg("-dc").arg(path),
        &path.display().to_string(),
    )
}

/// Builds the driver against a kernel's headers, in a folder of its own, by the tools of the system
/// that they are installed in: headers of a newer release have programs that need its C library.
fn build_driver(request: &Request) -> Result<Vec<u8>, BuildError> {
    let here = request.root == Path::new("/");
    let temporary = if here {
        std::env::temp_dir()
    } else {
        request.root.join("tmp")
    };
    let folder = tempfile::tempdir_in(&temporary)
        .map_err(|e| BuildError::io("can't make a folder in", &temporary, e))?;
    let folder = folder.path();
    let makefile = ("Kbuild", include_str!("../../driver/Kbuild"));
    for (name, text) in DRIVER.into_iter().chain([makefile]) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|e| BuildError::io("can't write", &path, e))?;
    }
    let mut make = tool(if here { "make" } else { "unshare" });
    if !here {
        // objtool of 7.x reads its limits from /proc, which any user may mount in a new process
        // namespace.
        make.args([
            "--map-root-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "--root",
        ]);
        make.arg(&request.root).arg("make");
    }
    // A path as programs in `root` see it.
    let inside = |path: &Path| {
        let rest = path.strip_prefix(&request.root).unwrap_or(path);
        Path::new("/").join(rest)
    };
    make.arg("-s")
        .arg("-C")
        .arg(inside(&request.headers))
        .arg(format!("M={}", inside(folder).display()))
        .arg("modules");
    output(&mut make, "building the driver of the guest's disks")?;
    let built = folder.join("lowmark.ko");
    output(tool("strip").arg("--strip-debug").arg(&built), "the driver")?;
    fs::read(&built).map_err(|e| BuildError::io("can't read", &built, e))
}

/// Compiles the library with which filesystems are made in a fixed form.
fn compile_preload(to: &Path, folder: &Path) -> Result<(), BuildError> {
    let source = folder.join("fixed.c");
    fs::write(&source, crate::build::FIXED)
        .map_err(|e| BuildError::io("can't write", &source, e))?;
    let mut gcc = compiler_of_preload(&source, to);
    output(&mut gcc, "compiling the library for tools of filesystems").map(drop)
}

/// Adds a kernel to the user's [`Cache`], in the place of an earlier one of the same name.
///
/// # Errors
/// A file is missing, the driver can't be built, or the cache can't be written.
pub fn add(request: &Request) -> Result<Installed, BuildError> {
    check_name(&request.name)?;
    let root = folder(&Cache::of_user()?);
    fs::create_dir_all(&root).map_err(|e| BuildError::io("can't make", &root, e))?;
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&root);
    let new = new.map_err(|e| BuildError::io("can't make a folder in", &root, e))?;
    let path = |name: &str| new.path().join(name);
    let put = |name: &str, bytes: &[u8]| {
        let to = path(name);
        fs::write(&to, bytes).map_err(|e| BuildError::io("can't write", &to, e))
    };
    let hz = ticks(&request.headers).ok_or_else(|| {
        BuildError::input(
            format!("no CONFIG_HZ in {}/.config", request.headers.display()),
            "headers with the kernel's configuration",
        )
    })?;
    let mut digest = Sha256::new();
    let image = input::bytes(&request.image, MOST).map_err(|e| {
        BuildError::input(
            format!("can't read {}: {e}", request.image.display()),
            "the image of an installed kernel, such as /boot/vmlinuz-6.12.0",
        )
    })?;
    digest.update(&image);
    put("vmlinuz", &image)?;
    let dep = request.modules.join("modules.dep");
    let text = input::text(&dep, MOST).map_err(|e| BuildError::io("can't read", &dep, e))?;
    let dependencies = Dependencies::parse(&text);
    fs::create_dir(path("modules"))
        .map_err(|e| BuildError::io("can't make", &path("modules"), e))?;
    let ko = build_driver(request)?;
    digest.update(&ko);
    put("modules/00-lowmark.ko", &ko)?;
    let mut lists = vec![(String::new(), vec!["00-lowmark.ko".to_owned()])];
    let mut names: Vec<(String, String)> = Vec::new();
    for (feature, wanted) in WANTED {
        let mut list = Vec::new();
        for file in wanted.iter().flat_map(|module| dependencies.of(module)) {
            let known = names.iter().find(|(from, _)| from == file);
            let name = match known {
                Some((_, name)) => name.clone(),
                None => {
                    let bytes = read_module(&request.modules.join(file))?;
                    let name = format!("{:02}-{}.ko", names.len() + 1, stem(file));
                    digest.update(&bytes);
                    put(&format!("modules/{name}"), &bytes)?;
                    names.push((file.to_owned(), name.clone()));
                    name
                }
            };
            if !list.contains(&name) {
                list.push(name);
            }
        }
        lists.push((feature.to_owned(), list));
    }
    compile_preload(&path("seed.so"), new.path())?;
    let record = Record {
        release: request.release.clone(),
        image: request.image.display().to_string(),
        digest: hex(&digest.finalize()[..10]),
        hz,
        modules: lists,
    };
    let text = toml::to_string(&record).expect("a record of strings and numbers is TOML");
    put("kernel.toml", text.as_bytes())?;
    let to = root.join(&request.name);
    let _ = fs::remove_dir_all(&to);
    let made = new.keep();
    fs::rename(&made, &to).map_err(|e| BuildError::io("can't rename to", &to, e))?;
    open(&request.name, &to)
}

/// Finds an added kernel by its name.
///
/// # Errors
/// There is none, or its folder is damaged.
pub fn find(name: &str) -> Result<Installed, BuildError> {
    let path = folder(&Cache::of_user()?).join(name);
    if !path.is_dir() {
        return Err(BuildError::input(
            format!("there is no kernel {name} for QEMU guests"),
            format!(
                "`lowmark kernel add --debian-image {name}`, after `apt install \
                 linux-image-{name}-amd64 linux-headers-{name}-amd64`; or `lowmark kernel build TREE \
                 --arch x86_64 --name {name}`"
            ),
        ));
    }
    open(name, &path)
}

/// Lists all added kernels by name.
///
/// # Errors
/// The user has no cache folder.
pub fn list() -> Result<Vec<Installed>, BuildError> {
    let root = folder(&Cache::of_user()?);
    let entries = fs::read_dir(&root).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| check_name(name).is_ok())
        .collect();
    names.sort();
    Ok(names
        .iter()
        .filter_map(|name| open(name, &root.join(name)).ok())
        .collect())
}

/// Removes an added or built kernel, and the objects from which its next build would start; returns
/// false if there is no such kernel.
///
/// # Errors
/// Its files can't be removed.
pub fn remove(name: &str) -> Result<bool, BuildError> {
    check_name(name)?;
    let cache = Cache::of_user()?;
    cache.forget_qemu(name)?;
    let path = folder(&cache).join(name);
    match fs::remove_dir_all(&path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(BuildError::io("can't remove", &path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_loaded_first() {
        let all = Dependencies::parse(
            "kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz kernel/fs/jbd2/jbd2.ko.xz\n\
             kernel/lib/crc16.ko.xz:\n",
        );
        let names: Vec<&str> = all.of("ext4").into_iter().map(stem).collect();
        assert_eq!(names, ["jbd2", "mbcache", "crc16", "ext4"]);
        assert!(all.of("xfs").is_empty());
    }

    #[test]
    fn releases_are_told_apart() {
        assert!(is_of("6.12.9-amd64", "6.12") && is_of("6.12.9-amd64", "6.12.9-amd64"));
        assert!(!is_of("6.12.90-amd64", "6.12.9") && !is_of("6.1.2-amd64", "6.12"));
        assert!(numbers("6.12.117+deb12-amd64") > numbers("6.12.95+deb12-amd64"));
    }

    #[test]
    fn links_of_another_system_stay_within_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let modules = root.path().join("lib/modules/7.2.1-amd64");
        fs::create_dir_all(&modules).unwrap();
        let headers = root.path().join("usr/src/linux-headers-7.2.1-amd64");
        fs::create_dir_all(&headers).unwrap();
        fs::write(headers.join("Makefile"), "").unwrap();
        fs::create_dir(root.path().join("boot")).unwrap();
        fs::write(root.path().join("boot/vmlinuz-7.2.1-amd64"), "").unwrap();
        let link = modules.join("build");
        std::os::unix::fs::symlink("/usr/src/linux-headers-7.2.1-amd64", &link).unwrap();
        let found = Request::debian("7.2", None, root.path()).unwrap();
        assert_eq!(found.headers, headers);
        assert_eq!((&*found.name, &*found.release), ("7.2", "7.2.1-amd64"));
    }

    #[test]
    fn packages_that_are_missing_are_named() {
        let root = tempfile::tempdir().unwrap();
        let said = |version: &str| {
            let e = Request::debian(version, None, root.path()).unwrap_err();
            format!("{e}; {}", e.help().unwrap_or_default())
        };
        let none = said("6.12");
        let place = format!("installed in {}", root.path().display());
        assert!(
            none.contains("linux-image-amd64") && none.contains(&place),
            "{none}"
        );
        fs::create_dir(root.path().join("boot")).unwrap();
        fs::write(root.path().join("boot/vmlinuz-6.12.9-amd64"), "").unwrap();
        let headers = said("6.12");
        assert!(
            headers.contains("no headers of kernel 6.12.9-amd64"),
            "{headers}"
        );
    }
}
