use super::*;
use crate::results::File;
use crate::runner::fixture;
use std::collections::BTreeMap;

fn terms(replace: bool) -> Terms<'static> {
    Terms {
        kind: Kind::Run,
        title: "small",
        replace,
    }
}

fn claim(dir: &Path, replace: bool) -> Result<ClaimedFolder, OutputError> {
    ClaimedFolder::claim(dir, terms(replace))
}

fn publish(place: ClaimedFolder, text: &str) -> Published {
    place
        .publish(&|emit| {
            emit(File::new("results.json", text))?;
            emit(File::new("series/a.csv", text))
        })
        .unwrap()
}

fn put(dir: &Path, text: &str, replace: bool) -> Result<Published, OutputError> {
    Ok(publish(claim(dir, replace)?, text))
}

/// Returns paths and contents of everything below a folder; `None` for a folder.
fn all(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(all(&path));
            found.insert(path, None);
        } else {
            let text = fs::read(&path).ok();
            found.insert(path, text);
        }
    }
    found
}

fn header(check: bool) -> Header {
    Header::new(&fixture::experiment(2), check, "build".into())
}

fn result(seed: u64) -> RunResult {
    let mut spec = fixture::experiment(1).cells[0].spec.clone();
    spec.seed = seed;
    fixture::simulate(&spec, &sim::Control::default())
}

/// Leaves the state of a run that was killed after `n` iterations.
fn killed_after(dir: &Path, n: u32) {
    let mut place = claim(dir, false).unwrap();
    place.begin(&header(false)).unwrap();
    for i in 0..n {
        place.log().finished(0, i, &result(u64::from(i))).unwrap();
    }
    // A killed process runs no destructors; the lock is released with its descriptors.
    place.ended = true;
}

fn resumed(dir: &Path) -> ClaimedFolder {
    match ClaimedFolder::resume(dir, terms(false)).unwrap() {
        Resumption::Unfinished(place) => *place,
        Resumption::Complete(dir) => panic!("{} is complete", dir.display()),
    }
}

#[test]
fn what_is_not_ours_stays_whatever_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    let refused = |what: &str| {
        let before = all(dir.path());
        for replace in [false, true] {
            let error = claim(&x, replace).map(|_| ()).unwrap_err();
            assert!(matches!(error, OutputError::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(all(dir.path()), before);
    };
    fs::write(&x, "a file").unwrap();
    refused("is not a folder");
    fs::remove_file(&x).unwrap();
    std::os::unix::fs::symlink("nowhere", &x).unwrap();
    refused("a dangling link");
    fs::remove_file(&x).unwrap();
    fs::create_dir(&x).unwrap();
    drop(claim(&x, false).unwrap());
    fs::write(x.join("thesis.tex"), "years").unwrap();
    refused("`thesis.tex`");
    fs::remove_file(x.join("thesis.tex")).unwrap();
    // Earlier versions wrote this file, and replaced any folder that had it.
    fs::write(x.join("results.json"), "{\"lowmark\": \"0.1.0\"}").unwrap();
    refused("earlier version");
    fs::remove_file(x.join("results.json")).unwrap();
    put(&x, "1", false).unwrap();
    fs::write(x.join("notes.md"), "mine").unwrap();
    refused("`notes.md`, which lowmark did not write");
    fs::remove_file(x.join("notes.md")).unwrap();
    fs::create_dir(x.join("empty")).unwrap();
    refused("`empty`");
    fs::remove_dir(x.join("empty")).unwrap();
    fs::write(x.join("series/a.csv"), "2").unwrap();
    refused("`series/a.csv`, which was changed");
    fs::write(x.join("series/a.csv"), "1").unwrap();
    // A list that leads out of its folder was not written by Lowmark.
    let list = fs::read_to_string(x.join(MANIFEST)).unwrap();
    fs::write(x.join(MANIFEST), list.replace("series/a.csv", "../y")).unwrap();
    refused("no manifest.json written by lowmark");
    fs::write(x.join(MANIFEST), list).unwrap();
    put(&x, "2", true).unwrap();
    let nameless = [Path::new("/"), Path::new(".."), Path::new("none/..")];
    for path in nameless {
        assert!(claim(path, true).is_err(), "{}", path.display());
    }
}

use super::manifest::MANIFEST;

#[test]
fn the_working_folder_and_those_above_it_are_never_replaced() {
    let here = std::env::current_dir().unwrap();
    for dir in here.ancestors() {
        let error = claim(dir, true).map(|_| ()).unwrap_err();
        let plain = matches!(
            error,
            OutputError::Foreign { .. } | OutputError::Unnamed { .. }
        );
        assert!(plain, "{error}");
    }
    assert!(claim(Path::new("."), true).is_err());
}

#[test]
fn nothing_is_left_of_a_place_that_nothing_came_to() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b/c");
    let place = claim(&deep, false).unwrap();
    assert!(matches!(
        claim(&deep, true).map(|_| ()).unwrap_err(),
        OutputError::InUse { .. }
    ));
    drop(place);
    assert_eq!(all(dir.path()), BTreeMap::new());
    // Publishing with an error of the callback fails, too, also in the temporary folder.
    let place = claim(&deep, false).unwrap();
    let broken = |emit: &mut dyn FnMut(File) -> io::Result<()>| {
        emit(File::new("half.csv", "1,"))?;
        Err(io::Error::other("no space left"))
    };
    let error = place.publish(&broken).unwrap_err().to_string();
    assert!(error.contains("half.csv") && error.contains("no space left"));
    assert_eq!(all(dir.path()), BTreeMap::new());
    let outside = |emit: &mut dyn FnMut(File) -> io::Result<()>| emit(File::new("../x", "1"));
    claim(&deep, false).unwrap().publish(&outside).unwrap_err();
    assert_eq!(all(dir.path()), BTreeMap::new());
}

#[test]
fn what_comes_while_a_run_goes_on_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    put(&x, "1", false).unwrap();
    let place = claim(&x, true).unwrap();
    fs::write(x.join("notes.md"), "mine").unwrap();
    let done = publish(place, "2");
    assert!(done.trouble.unwrap().contains("notes.md"));
    assert_eq!(done.dir, dir.path().join("x.results-1"));
    assert_eq!(
        fs::read_to_string(done.dir.join("results.json")).unwrap(),
        "2"
    );
    assert_eq!(fs::read_to_string(x.join("results.json")).unwrap(), "1");
    assert_eq!(fs::read_to_string(x.join("notes.md")).unwrap(), "mine");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn new_places_differ_within_a_second_and_latest_leads_to_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("small");
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_337_660);
    let new = || ClaimedFolder::claim_new(&root, at, terms(false)).unwrap();
    let (first, second) = (new(), new());
    let first = publish(first, "1").dir;
    assert_eq!(first, root.join("2026-11-22T08-54-20Z"));
    assert_eq!(
        fs::read_link(root.join("latest")).unwrap(),
        Path::new("2026-11-22T08-54-20Z")
    );
    let second = publish(second, "2").dir;
    assert_eq!(second, root.join("2026-11-22T08-54-20Z-2"));
    drop(new());
    assert_eq!(publish(new(), "3").dir, root.join("2026-11-22T08-54-20Z-3"));
    let latest = root.join("latest/results.json");
    assert_eq!(fs::read_to_string(latest).unwrap(), "3");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 4);
    // A user's file named `latest` stays.
    fs::remove_file(root.join("latest")).unwrap();
    fs::write(root.join("latest"), "mine").unwrap();
    assert!(publish(new(), "4").notes[0].contains("latest"));
    assert_eq!(fs::read_to_string(root.join("latest")).unwrap(), "mine");
}

#[test]
fn a_killed_run_is_gone_on_with_or_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    killed_after(&x, 2);
    let error = claim(&x, false).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("2 finished") && error.contains("--resume"),
        "{error}"
    );
    for way in [
        x.clone(),
        dir.path().join("x.partial"),
        dir.path().join("x.partial/"),
    ] {
        let mut place = resumed(&way);
        let earlier = place.begin(&header(false)).unwrap();
        assert_eq!(earlier.keys().collect::<Vec<_>>(), [&(0, 0), &(0, 1)]);
        assert_eq!(
            crate::runner::check::difference(&earlier[&(0, 1)], &result(1)),
            None
        );
    }
    let error = resumed(&x).begin(&header(true)).unwrap_err().to_string();
    assert!(error.contains("without --check"), "{error}");
    let place = resumed(&x);
    publish(place, "1");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(matches!(
        ClaimedFolder::resume(&x, terms(false)),
        Ok(Resumption::Complete(_))
    ));
    fs::remove_dir_all(&x).unwrap();
    assert!(matches!(
        ClaimedFolder::resume(&x, terms(false))
            .map(|_| ())
            .unwrap_err(),
        OutputError::NothingToResume { .. }
    ));
    // A killed run without a finished iteration does not block the place.
    killed_after(&x, 0);
    drop(claim(&x, false).unwrap());
    killed_after(&x, 1);
    put(&x, "2", true).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_partial_result_is_gone_on_with_and_notes_in_it_stay() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    killed_after(&x, 1);
    let keep = |place: ClaimedFolder, text: &'static str| {
        place.keep_partial(&|emit| emit(File::new("series/a.csv", text)))
    };
    let partial = keep(resumed(&x), "1").unwrap();
    let second = keep(resumed(&x), "2").unwrap();
    assert_eq!(partial, second);
    assert_eq!(
        fs::read_to_string(partial.join("series/a.csv")).unwrap(),
        "2"
    );
    fs::write(partial.join("notes.md"), "mine").unwrap();
    let done = publish(resumed(&x), "3");
    assert!(done.notes[0].contains("x.partial"), "{:?}", done.notes);
    assert_eq!(all(&partial).len(), 1);
    assert!(claim(&x, true).is_err());
}

/// All states in which a process may end while it puts results in place.
#[test]
fn what_a_killed_process_left_is_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    let text = || fs::read_to_string(x.join("results.json")).unwrap();
    let hidden = |what: &str| dir.path().join(format!(".x.lowmark-{what}-aB3dE6gH"));
    let elsewhere = |text: &str| {
        let other = tempfile::tempdir_in(dir.path()).unwrap();
        put(&other.path().join("y"), text, false).unwrap();
        let moved = dir.path().join("moved");
        fs::rename(other.path().join("y"), &moved).unwrap();
        moved
    };
    // Killed while it wrote the results.
    put(&x, "1", false).unwrap();
    fs::create_dir(hidden("new")).unwrap();
    fs::write(hidden("new").join("half"), "1,").unwrap();
    drop(claim(&x, true).unwrap());
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("1", 1)
    );
    // Killed while it wrote the list.
    fs::create_dir(hidden("new")).unwrap();
    fs::write(hidden("new").join("half"), "1,").unwrap();
    fs::write(hidden("new").join(MANIFEST), "{\n").unwrap();
    drop(claim(&x, true).unwrap());
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("1", 1)
    );
    // Killed after the exchange: the replaced results are still there.
    fs::rename(elsewhere("0"), hidden("new")).unwrap();
    drop(claim(&x, true).unwrap());
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("1", 1)
    );
    // Killed between two renames, where the filesystem can't exchange folders: with the new
    // results, and without them.
    fs::rename(&x, hidden("old")).unwrap();
    fs::rename(elsewhere("2"), hidden("new")).unwrap();
    assert!(matches!(claim(&x, false), Err(OutputError::Foreign { .. })));
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("2", 1)
    );
    fs::rename(&x, hidden("old")).unwrap();
    assert!(matches!(claim(&x, false), Err(OutputError::Foreign { .. })));
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("2", 1)
    );
    // Files that a user put into a folder right before it was replaced must be kept.
    fs::rename(elsewhere("0"), hidden("old")).unwrap();
    fs::write(hidden("old").join("notes.md"), "mine").unwrap();
    let place = claim(&x, true).unwrap();
    assert!(place.notes()[0].contains("x.kept-1"));
    drop(place);
    let kept = dir.path().join("x.kept-1/notes.md");
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine");
    fs::remove_dir_all(dir.path().join("x.kept-1")).unwrap();
    // Killed when only the log was left to be removed.
    killed_after(&dir.path().join("y"), 1);
    fs::rename(dir.path().join("y.partial"), dir.path().join("x.partial")).unwrap();
    let (bytes, sum) = manifest::digest(fs::File::open(x.join(MANIFEST)).unwrap()).unwrap();
    assert!(bytes > 0);
    let log = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.path().join("x.partial").join(LOG));
    let (mut log, _) = Log::open(log.unwrap()).unwrap().unwrap();
    log.publishes(&sum).unwrap();
    drop(log);
    assert!(matches!(
        ClaimedFolder::resume(&x, terms(false)),
        Ok(Resumption::Complete(_))
    ));
    assert_eq!(
        (text().as_str(), fs::read_dir(dir.path()).unwrap().count()),
        ("2", 1)
    );
}

/// The process ended after writing the list of its results, before recording it in the log.
#[test]
fn results_that_were_whole_when_the_process_ended_are_the_results() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    let text = || fs::read_to_string(x.join("results.json")).unwrap();
    let whole = |text: &str| {
        killed_after(&x, 1);
        let place = resumed(&x);
        let fresh = place.fresh(true, &|emit| emit(File::new("results.json", text)));
        assert!(fresh.unwrap().0.exists() && !x.exists());
        place
    };
    drop(whole("1"));
    let complete = ClaimedFolder::resume(&x, terms(false)).unwrap();
    assert!(matches!(complete, Resumption::Complete(_)));
    assert_eq!(text(), "1");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // With `replace` the results may go, and the log with them.
    fs::remove_dir_all(&x).unwrap();
    drop(whole("2"));
    put(&x, "3", true).unwrap();
    assert_eq!(text(), "3");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // The log names other results than those in the hidden folder, which were replaced and must not
    // end the resumption.
    fs::remove_dir_all(&x).unwrap();
    whole("4").log().publishes("of another list").unwrap();
    let gone_on = ClaimedFolder::resume(&x, terms(true)).unwrap();
    assert!(matches!(gone_on, Resumption::Unfinished(_)));
}

#[test]
fn a_new_place_sweeps_what_is_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    killed_after(&dir.path().join("a"), 0);
    killed_after(&dir.path().join("b"), 1);
    fs::create_dir(dir.path().join(".c.lowmark-new-aB3dE6gH")).unwrap();
    fs::create_dir(dir.path().join("mine.partial")).unwrap();
    let busy = claim(&dir.path().join("d"), false).unwrap();
    let now = SystemTime::now();
    drop(ClaimedFolder::claim_new(dir.path(), now, terms(false)).unwrap());
    let left = |n: &str| dir.path().join(n).exists();
    assert!(!left("a.partial") && left("b.partial") && left("mine.partial") && left("d.partial"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    drop(busy);
}

#[test]
fn results_that_were_to_be_replaced_do_not_end_a_resumption() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    put(&x, "1", false).unwrap();
    // Killed before its log was begun, then after the log was removed.
    let mut place = claim(&x, true).unwrap();
    place.ended = true;
    drop(place);
    for _ in 0..2 {
        let error = ClaimedFolder::resume(&x, terms(true))
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, OutputError::NothingToResume { .. }));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    // Without `replace` they complete the run: its log may have been removed just before it was
    // killed.
    fs::create_dir(dir.path().join("x.partial")).unwrap();
    for _ in 0..2 {
        let complete = ClaimedFolder::resume(&x, terms(false)).unwrap();
        assert!(matches!(complete, Resumption::Complete(_)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
