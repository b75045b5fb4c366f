//! `lowmark kernel` with wrong input: exit code 2 and one error that says what would be accepted.
//! Building takes minutes and is tested in CI.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

struct Trial {
    dir: TempDir,
}

impl Trial {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowmark"));
        command
            .arg("kernel")
            .args(args)
            .env("LOWMARK_CACHE", self.path("cache"));
        command
    }

    /// Runs a wrong command; returns its message without line breaks.
    fn wrong(&self, args: &[&str]) -> String {
        wrong(self.command(args))
    }

    /// Makes a folder that looks like a source tree.
    fn tree(&self) -> String {
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n";
        for (name, text) in [
            ("Makefile", makefile),
            ("Kconfig", ""),
            ("kernel/sched/core.c", ""),
            ("arch/um/Kconfig", ""),
            ("arch/um/drivers/virtio_uml.c", ""),
            ("mm/vmscan.c", "one\ntwo\n"),
        ] {
            let path = self.dir.path().join("tree").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.path("tree")
    }
}

fn wrong(mut command: Command) -> String {
    let output: Output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(
        said.matches("  × ").count() + said.matches("error: ").count(),
        1,
        "{said}"
    );
    let words: Vec<&str> = said.split_whitespace().filter(|w| *w != "│").collect();
    words.join(" ")
}

/// Returns true if all programs exist; prints the missing ones.
fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let missing = programs
        .iter()
        .find(|p| !folders.iter().any(|f| f.join(p).is_file()));
    if let Some(missing) = missing {
        eprintln!("skipped: no {missing}");
    }
    missing.is_none()
}

const BUILDERS: [&str; 10] = [
    "make", "gcc", "ld", "flex", "bison", "bc", "perl", "awk", "tar", "xz",
];

#[test]
fn wrong_trees_names_and_packages() {
    let t = Trial::new();
    assert!(
        t.wrong(&["build", &t.path("no")])
            .contains("is not a source tree of Linux: no folder")
    );
    assert!(
        t.wrong(&["build", &t.path("")])
            .contains("is not a source tree of Linux: no Makefile")
    );
    let said = t.wrong(&["build", "--debian", "1.2"]);
    assert!(
        said.contains("`apt install linux-source-1.2` first"),
        "{said}"
    );
    assert!(
        t.wrong(&["build", &t.tree(), "--name", "a/b"])
            .contains("can't be a kernel's name")
    );
    assert!(t.wrong(&["build"]).contains("required"));
    assert!(
        t.wrong(&["build", &t.tree(), "--debian", "6.12"])
            .contains("cannot be used with")
    );
    assert!(
        t.wrong(&["remove", "6.12"])
            .contains("there is no kernel 6.12")
    );
    assert!(!Path::new(&t.path("cache/kernels")).exists());
}

#[test]
fn wrong_fragments() {
    let t = Trial::new();
    let (tree, file) = (t.tree(), t.path("my.config"));
    assert!(
        t.wrong(&["build", &tree, "--config", &file])
            .contains("can't read the fragment")
    );
    fs::write(&file, "# mine\nCONFIG_VIRTIO_BLK=n\n").unwrap();
    let said = t.wrong(&["build", &tree, "--config", &file]);
    assert!(said.contains("line 2: a guest can't run with"), "{said}");
    fs::write(&file, "NUMA=y\n").unwrap();
    assert!(
        t.wrong(&["build", &tree, "--config", &file])
            .contains("line 1: `NUMA=y` is not a line")
    );
}

#[test]
fn wrong_patches() {
    let t = Trial::new();
    let (tree, file) = (t.tree(), t.path("my.patch"));
    assert!(
        t.wrong(&["build", &tree, "--patch", &file])
            .contains("can't read the patch")
    );
    if !have(&BUILDERS) {
        return;
    }
    let patch = "--- a/mm/vmscan.c\n+++ b/mm/vmscan.c\n@@ -1,2 +1,2 @@\n one\n-three\n+four\n";
    fs::write(&file, patch).unwrap();
    let said = t.wrong(&["build", &tree, "--patch", &file]);
    assert!(
        said.contains("does not fit Linux 6.12.1: hunk 1 of mm/vmscan.c, line 3"),
        "{said}"
    );
    // The user's patch fits, and then Lowmark's own does not: no kernel is left.
    fs::write(&file, patch.replace("-three", "-two")).unwrap();
    let said = t.wrong(&["build", &tree, "--patch", &file]);
    assert!(
        said.contains("Lowmark's own") && said.contains("--without-costs"),
        "{said}"
    );
    // Where the tree does not say how often its timer ticks, no build says otherwise.
    let said = t.wrong(&["build", &tree, "--hz", "250", "--without-costs"]);
    assert!(
        said.contains("does not say in arch/um/Kconfig") && said.contains("without `--hz`"),
        "{said}"
    );
    let said = t.wrong(&["build", &tree, "--hz", "24"]);
    assert!(said.contains("100, 250, 300 or 1000"), "{said}");
    assert!(!Path::new(&t.path("cache/kernels")).exists());
}

#[test]
fn no_compiler_and_no_home() {
    let t = Trial::new();
    let tree = t.tree();
    let mut command = t.command(&["build", &tree]);
    command.env("PATH", t.path("nothing"));
    let said = wrong(command);
    assert!(
        said.contains("missing: make, gcc, ld, flex, bison, bc"),
        "{said}"
    );
    assert!(
        said.contains("`apt install make gcc binutils flex bison bc"),
        "{said}"
    );
    let mut command = t.command(&["list"]);
    command.env_clear();
    assert!(wrong(command).contains("none of LOWMARK_CACHE, XDG_CACHE_HOME and HOME is set"));
    let mut command = t.command(&["list"]);
    command.env("LOWMARK_CACHE", t.path("with space"));
    assert!(wrong(command).contains("no spaces"));
}

#[test]
fn nothing_to_list() {
    let t = Trial::new();
    let output = t.command(&["list"]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no kernels yet"));
    let output = t.command(&["list", "--json"]).output().unwrap();
    assert_eq!(output.stdout, b"[]\n");
}

/// Runs in its own mount namespace, which needs root, on a disk of 32 MiB.
#[test]
fn a_full_disk_is_one_error_and_leaves_nothing() {
    let t = Trial::new();
    if !have(&BUILDERS) || !have(&["unshare", "mount"]) {
        return;
    }
    if !Path::new("/usr/src/linux-source-6.12.tar.xz").is_file() {
        eprintln!("skipped: no linux-source-6.12");
        return;
    }
    let cache = t.path("cache");
    fs::create_dir(&cache).unwrap();
    let small = |script: &str| {
        let mut command = Command::new("unshare");
        let mount = format!("mount -t tmpfs -o size=32M none '{cache}' && {{ {script}; }}");
        command
            .args(["-m", "sh", "-c", &mount])
            .env("LOWMARK_CACHE", &cache);
        command
    };
    if !small("true").output().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: no mount namespaces");
        return;
    }
    let build = format!(
        "{} kernel build --debian 6.12",
        env!("CARGO_BIN_EXE_lowmark")
    );
    let look = format!(
        "{build}; code=$?; find '{cache}' -name '*.partial' -o -name linux >&2; exit $code"
    );
    let said = wrong(small(&look));
    assert!(said.contains("no space left"), "{said}");
    assert!(said.ends_with("LOWMARK_CACHE"), "something is left: {said}");
}
