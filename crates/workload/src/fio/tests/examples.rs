//! fio's own example jobs.

use super::*;

/// The names of fio's example jobs that run here.
const RUN: &str = include_str!("examples.txt");

/// Variables that the examples take from the environment.
struct Examples;

impl Surroundings for Examples {
    fn variable(&self, name: &str) -> Option<String> {
        let value = match name {
            "FIO_RW" => "randread",
            "FIO_IODEPTH" => "16",
            "FIO_BS" => "4k",
            _ => "x",
        };
        Some(value.to_owned())
    }

    fn included(&self, _: &str) -> Result<String, String> {
        Err("no such file".to_owned())
    }
}

/// The examples that are accepted are those of the list. `FIO_EXAMPLES` is the folder with fio's
/// examples, which are not part of this project.
#[test]
#[ignore = "needs FIO_EXAMPLES, the folder of fio's examples"]
fn the_listed_examples_run() {
    let folder = std::env::var("FIO_EXAMPLES").expect("FIO_EXAMPLES");
    let mut accepted = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "fio") {
            continue;
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match read(&std::fs::read_to_string(&path).expect("a text"), &Examples) {
            Ok(_) => accepted.push(name),
            Err(e) => println!("{name}: {e}"),
        }
    }
    accepted.sort();
    println!("{} run", accepted.len());
    assert_eq!(accepted, RUN.lines().collect::<Vec<_>>());
}
