//! Tests of the cache on finished kernels; building one takes minutes (`tests/kernels.rs`).

use super::*;
use tempfile::TempDir;

struct Trial {
    _dir: TempDir,
    cache: Cache,
}

impl Trial {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        Self { _dir: dir, cache }
    }

    /// Writes a finished kernel's folder.
    fn put(&self, name: &str, key: &str, ours: &str) {
        let folder = self.cache.kernels().join(key);
        fs::create_dir_all(&folder).unwrap();
        for file in ["linux", "seed.so", "config", "log"] {
            fs::write(folder.join(file), "x").unwrap();
        }
        let record = Record {
            name: name.into(),
            release: "6.12.1".into(),
            hash: key.into(),
            source: "linux-source-6.12".into(),
            patches: vec!["my.patch".into()],
            fragments: Vec::new(),
            own_patches: Vec::new(),
            costs: false,
            hz: ticks::HZ,
            unknown: Vec::new(),
            ours: ours.into(),
            compiler: "gcc".into(),
            built: "2026-01-01T00:00:00Z".into(),
            seconds: 170.5,
            jobs: 2,
            steps: 1300,
            whole: true,
        };
        fs::write(folder.join("build.toml"), toml::to_string(&record).unwrap()).unwrap();
        fs::create_dir_all(self.cache.work(name).join("objects")).unwrap();
        self.cache.name(name, key).unwrap();
    }

    fn refused(&self, name: &str) -> String {
        let e = self.cache.find(name).unwrap_err();
        format!("{e}; {}", e.help().unwrap_or_default())
    }
}

#[test]
fn names_are_found_listed_and_removed() {
    let t = Trial::new();
    assert!(t.refused("6.12").contains("there are none"));
    for (name, command) in [
        ("6.12", "`lowmark kernel build --debian 6.12`"),
        (
            "6.12-hz250",
            "`lowmark kernel build --debian 6.12 --hz 250`",
        ),
        (
            "mine-hz1000",
            "`lowmark kernel build TREE --name mine --hz 1000`",
        ),
    ] {
        let said = t.refused(name);
        assert!(said.contains(command), "{said}");
        assert!(
            said.starts_with(&format!("there is no kernel {name};")),
            "{said}"
        );
    }
    t.put("6.12", "aaaa", &ours(None, Arch::Um, ticks::HZ));
    t.put("mine", "aaaa", &ours(None, Arch::Um, ticks::HZ));
    t.put("other", "bbbb", &ours(None, Arch::Um, ticks::HZ));
    fs::create_dir_all(t.cache.work("begun")).unwrap();
    let listed = record::listed(&t.cache);
    let names: Vec<&str> = listed.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["6.12", "begun", "mine", "other"]);
    assert_eq!(listed[1].built, Err("not finished".into()));
    assert_eq!(
        t.cache.find("mine").unwrap().linux,
        t.cache.kernels().join("aaaa/linux")
    );
    let said = t.refused("6.1");
    assert!(
        said.contains("6.12, mine, other") && said.contains("build --debian 6.1"),
        "{said}"
    );
    assert!(t.refused("7-x").contains("TREE --name 7-x"));
    // The folder stays as long as a name points to it.
    t.cache.remove("6.12").unwrap();
    assert!(t.cache.find("mine").is_ok());
    t.cache.remove("mine").unwrap();
    assert!(!t.cache.kernels().join("aaaa").exists());
    t.cache.remove("begun").unwrap();
    // Kernels that a name pointed to before are removed with it.
    t.put("other", "cccc", &ours(None, Arch::Um, ticks::HZ));
    t.put("last", "dddd", &ours(None, Arch::Um, ticks::HZ));
    t.cache.remove("other").unwrap();
    assert!(!t.cache.kernels().join("bbbb").exists() && !t.cache.kernels().join("cccc").exists());
    assert!(
        t.cache
            .remove("mine")
            .unwrap_err()
            .help()
            .unwrap()
            .contains("one of last")
    );
    assert!(t.cache.remove("../x").is_err());
}

#[test]
fn damaged_and_outdated_kernels_are_refused() {
    let t = Trial::new();
    t.put("old", "aaaa", "another version");
    assert!(t.refused("old").contains("another version"));
    t.put("torn", "bbbb", &ours(None, Arch::Um, ticks::HZ));
    fs::remove_file(t.cache.kernels().join("bbbb/linux")).unwrap();
    assert!(t.refused("torn").contains("damaged"));
    fs::write(t.cache.kernels().join("bbbb/build.toml"), "x = 1").unwrap();
    assert!(t.refused("torn").contains("build.toml"));
    t.cache.remove("torn").unwrap();
}

#[test]
fn one_builds_a_name_at_a_time() {
    let t = Trial::new();
    let held = t.cache.lock("6.12").unwrap();
    let e = t.cache.lock("6.12").unwrap_err();
    assert!(e.to_string().contains("built by another process"), "{e}");
    drop(held);
    t.cache.lock("6.12").unwrap();
}

#[test]
fn names_and_places_that_do_not_do() {
    for good in ["6.12", "6.12-mine", "a+b~c_d"] {
        check_name(good).unwrap();
    }
    for bad in ["", ".x", "-x", "a/b", "a b", "x.lock", "ä", &"x".repeat(65)] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
    assert!(Cache::at("/tmp/with space").is_err());
    assert!(Cache::at("/tmp/a:b").is_err());
    let release = Release {
        series: (6, 12),
        text: "6.12.1".into(),
    };
    assert_eq!(
        default_name(&release, Path::new("/src/my tree")),
        "6.12.1-my-tree"
    );
}

/// The estimate comes from the earlier build that is most like the next one.
#[test]
fn estimates_come_from_the_same_release() {
    let t = Trial::new();
    assert!(record::earlier(&t.cache, "6.12.3").is_none());
    t.put("a", "aaaa", "");
    assert_eq!(record::earlier(&t.cache, "6.12.3").unwrap().steps, 1300);
    assert_eq!(record::earlier(&t.cache, "6.1.3").unwrap().steps, 1300);
}
