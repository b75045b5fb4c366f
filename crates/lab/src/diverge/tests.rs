use super::*;
use crate::diagnostic::Source;
use crate::experiment::{Overrides, parse};
use crate::terminal::Screen;

/// Returns an experiment of a quarter of a second.
fn experiment(more: &str) -> Experiment {
    let text = format!(
        "name = \"small\"\nfilesystem = \"ext4\"\npolicy = [\"linux-3.0\", \"linux-3.16\"]\nsample_s = 0.1\n{more}\n\
         [machine]\nname = \"m\"\ncpus = 1\nnode = [{{ zones = [{{ zone = \"Normal\", size = \"64M\" }}] }}]\n\
         boot = {{ kernel = \"4M\", dma = 0, anon = \"4M\", cache = 0 }}\n[machine.disk]\nkind = \"disk\"\ncapacity = \"2G\"\n[workload]\n\
         command = \"dd if=/dev/zero of=f bs=64k count=2048\"\n"
    );
    let none = |path: &str| Err(format!("{path}: no file"));
    let source = Source::new("small.toml", text);
    parse(&source, &none, &Overrides::default()).expect("an experiment")
}

fn between(experiment: &Experiment, a: (usize, u32), b: (usize, u32)) -> Divergence {
    let side = |(cell, iteration): (usize, u32)| Side {
        cell: &experiment.cells[cell],
        iteration,
    };
    let stop = Arc::new(AtomicBool::new(false));
    diverge(experiment, [side(a), side(b)], &stop).expect("both ended")
}

#[test]
fn a_run_does_not_part_from_itself() {
    let e = experiment("");
    let same = between(&e, (0, 3), (0, 3));
    assert!(same.decisions[0] > 50 && same.decisions[0] == same.decisions[1]);
    assert_eq!(
        (same.compared, same.first, same.figures),
        (same.decisions[0], None, None)
    );
    assert_eq!(same.parted, []);
}

/// Two kernels must diverge where their code does, and the text must show both sides.
#[test]
fn two_policies_part_and_what_follows_is_in_order() {
    let e = experiment("");
    let found = between(&e, (0, 0), (1, 0));
    let first = found.first.as_ref().expect("they part");
    assert_ne!(first.decisions[0], first.decisions[1]);
    assert_eq!(first.before[0].len(), first.before[1].len());
    let names = |of: &[Decision]| -> Vec<String> {
        of.iter()
            .map(|d| d.event.split(':').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names(&first.before[0]), names(&first.before[1]));
    assert!(
        found
            .figures
            .as_ref()
            .is_some_and(|f| f.number <= first.number)
    );
    assert!(found.parted.is_sorted_by(|a, b| a.at <= b.at));
    // 3.16 does not wait in congestion_wait, so some kind of decision occurs on one side only.
    assert!(!found.parted.is_empty());
    let text = to_text(&found, Screen::default());
    assert!(
        text.contains("linux-3.0") && text.contains("A > ") && text.contains("B > "),
        "{text}"
    );
}

#[test]
fn kinds_part_where_they_stay_apart() {
    let heard = |counts: &[u32]| Heard {
        kinds: [("writeback_start", counts.to_vec())].into(),
        slots: counts.len(),
        ..Heard::default()
    };
    let (a, b) = (heard(&[10, 0, 10, 10, 10]), heard(&[0, 10, 10, 30, 30]));
    let parted = kinds_parted([&a, &b]);
    // The difference in the first slot is made up for in the second.
    assert_eq!(parted.len(), 1);
    assert_eq!(
        (parted[0].then, parted[0].all),
        ([30.0, 50.0], [40.0, 80.0])
    );
    assert!((parted[0].at - 0.3).abs() < 1e-9);
    assert_eq!(kinds_parted([&a, &a]), []);
    // Counts below the minimum are not compared.
    assert_eq!(kinds_parted([&heard(&[0, 1]), &heard(&[0, 4])]), []);
}

#[test]
fn the_shorter_stream_ends_and_the_other_goes_on() {
    let of = |hashes: &[[u32; 2]]| Heard {
        number: hashes.len() as u64,
        hashes: hashes.to_vec(),
        ..Heard::default()
    };
    let (a, b) = (of(&[[1, 1], [2, 2]]), of(&[[1, 1], [2, 9], [3, 3]]));
    assert_eq!(heard::first_apart(&a, &b, heard::figures), Some(1));
    assert_eq!(heard::first_apart(&a, &b, heard::places), Some(2));
    assert_eq!(heard::first_apart(&a, &a, heard::figures), None);
}
