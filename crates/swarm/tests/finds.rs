//! Every earlier find of the swarm keeps every law. Each file has one find, minimised, with its
//! cause in the first line. A new find is added together with its fix.

use std::path::Path;
use std::time::Duration;
use swarm::case::Case;
use swarm::law::Law;
use swarm::watch::{End, Limits, Worker};
use swarm::worker::Task;

#[test]
fn finds_stay_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("finds");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(files.len() > 4, "{files:?}");
    let limits = Limits {
        // Tests are built without optimisation.
        cpu: Duration::from_secs(30),
        ..Limits::default()
    };
    let mut worker = Worker::new(Path::new(env!("CARGO_BIN_EXE_lowmark-swarm")), limits).unwrap();
    let mut broken = Vec::new();
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case::read(file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let breach = match worker
            .ask(&Task::Case(Box::new(case), Law::ANY.to_vec()))
            .unwrap()
        {
            End::Lost(breach) => Some(breach),
            End::Answered(answer) => answer.breach,
        };
        broken.extend(breach.map(|b| format!("{name}: law {}: {}", b.law.name(), b.what)));
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
