//! Texts of /proc and /sys that no kernel writes: every parser parses them or returns the line of
//! the error, and a damaged tree gives a machine or an error that names a file.

use machine::parse::{self, ParseError};
use machine::{Captured, Root, describe, verify};
use std::path::{Path, PathBuf};
use trace::damage::{AMOUNT, damaged, feed};
use trace::random::Rng;

const CAPTURES: [&str; 3] = ["lazy-vm", "numa", "small-vm"];

fn capture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "captures", name]
        .iter()
        .collect()
}

/// Feeds ten million bytes to a parser; the samples are a file of the captures and the texts in
/// `more`.
fn ten_million<T>(
    seed: u64,
    file: &str,
    more: &[&str],
    parser: impl Fn(&str) -> Result<T, ParseError>,
) {
    let mut samples: Vec<Vec<u8>> = more.iter().map(|t| t.as_bytes().to_vec()).collect();
    let files = CAPTURES.map(|name| capture(name).join(file));
    samples.extend(files.iter().filter_map(|f| std::fs::read(f).ok()));
    samples.retain(|s| !s.is_empty());
    let mut accepted = 0_u64;
    feed(seed, &samples, AMOUNT, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match parser(&text) {
            Ok(_) => accepted += 1,
            Err(e) => assert!(e.line >= 1 && e.line <= text.lines().count().max(1), "{e}"),
        }
    });
    assert!(accepted > 100, "{file}: {accepted}");
}

#[test]
fn ten_million_bytes_as_zoneinfo() {
    ten_million(1, "proc/zoneinfo", &[], parse::zoneinfo);
}

#[test]
fn ten_million_bytes_as_vmstat() {
    ten_million(2, "proc/vmstat", &[], parse::counters);
}

#[test]
fn ten_million_bytes_as_meminfo() {
    ten_million(3, "proc/meminfo", &[], parse::kilobytes);
}

#[test]
fn ten_million_bytes_as_swaps() {
    let area = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2   partition\t8388604\t0\t-2\n";
    ten_million(4, "proc/swaps", &[area], parse::swaps);
}

#[test]
fn ten_million_bytes_as_numbers() {
    ten_million(5, "proc/sys/vm/dirty_ratio", &[], parse::number);
    ten_million(6, "proc/sys/vm/lowmem_reserve_ratio", &[], parse::numbers);
}

#[test]
fn ten_million_bytes_as_a_choice() {
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    ten_million(7, file, &["[none] mq-deadline kyber\n"], |text| {
        parse::choice(text).map(str::len)
    });
}

#[test]
fn ten_million_bytes_as_cpus() {
    ten_million(
        8,
        "sys/devices/system/cpu/online",
        &["0-3,8,10-11\n"],
        parse::cpus,
    );
}

#[test]
fn ten_million_bytes_as_release_mounts_and_configuration() {
    ten_million(9, "proc/sys/kernel/osrelease", &[], parse::release);
    let mounts = "20 1 0:5 / /proc rw - proc proc rw\n21 1 8:2 / / rw - ext4 /dev/sda2 rw\n";
    ten_million(10, "proc/self/mountinfo", &[mounts], |text| {
        let mount = parse::root_mount(text);
        let _ = parse::mount_device(text);
        assert_eq!(parse::root_mount(&mount), mount);
        Ok(())
    });
    let config = "# CONFIG_HZ_100 is not set\nCONFIG_HZ=250\n";
    ten_million(11, "boot/config-6.1.0-numa", &[config], |text| {
        let _ = parse::config_hz(&parse::config_line(text));
        Ok(())
    });
}

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push(path);
        }
    }
    all.sort();
}

/// Feeds ten million bytes of trees in which up to three files are damaged.
#[test]
fn ten_million_bytes_of_saved_trees() {
    let mut rng = Rng::new(12);
    let (mut machines, mut errors) = (0_u64, 0_u64);
    for name in CAPTURES {
        let (from, tree) = (capture(name), tempfile::tempdir().unwrap());
        let mut paths = Vec::new();
        files(&from, &mut paths);
        let whole: Vec<(PathBuf, Vec<u8>)> = paths
            .iter()
            .map(|path| {
                let to = tree.path().join(path.strip_prefix(&from).unwrap());
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                let contents = std::fs::read(path).unwrap();
                std::fs::write(&to, &contents).unwrap();
                (to, contents)
            })
            .collect();
        let size: usize = whole.iter().map(|(_, contents)| contents.len()).sum();
        for _ in 0..AMOUNT / CAPTURES.len() / size {
            let mut changed = Vec::new();
            for _ in 0..=rng.below(3) {
                let (path, contents) = &whole[rng.below(whole.len() as u64) as usize];
                if contents.is_empty() {
                    continue;
                }
                std::fs::write(path, damaged(std::slice::from_ref(contents), &mut rng)).unwrap();
                changed.push((path, contents));
            }
            match Captured::read(&Root::at(tree.path())) {
                Ok(machine) => {
                    machines += 1;
                    let _ = verify::verify(&machine);
                    let options = describe::Options {
                        disk: describe::likely_disk(&machine),
                        ..describe::Options::default()
                    };
                    if let Ok(described) = describe::describe(&machine, &options) {
                        let read: sim::spec::Machine = toml::from_str(&described.text).unwrap();
                        assert_eq!(read, described.machine);
                    }
                }
                Err(e) => {
                    errors += 1;
                    assert!(e.path.starts_with(tree.path()), "{e}");
                }
            }
            for (path, contents) in changed {
                std::fs::write(path, contents).unwrap();
            }
        }
    }
    assert!(machines > 100 && errors > 100, "{machines} {errors}");
}
