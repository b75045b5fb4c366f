//! Settings: texts written to files below `/proc` and `/sys`.

use super::{Step, of, say};
use crate::wire::Frame;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Writes one setting, a pair of path and text, with one call.
fn put((path, text): &(String, String)) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
}

/// Writes settings, pairs of path and text, in order; the first that the kernel refuses is the
/// error.
pub(super) fn write(settings: &[(String, String)]) -> Step {
    settings.iter().try_for_each(|setting| {
        let (path, text) = setting;
        put(setting).map_err(of(format_args!("`{text}` into {path}")))
    })
}

/// Writes settings in order, and reports the first that the kernel refuses to the host as a frame:
/// its number, the reason, and the names of the files beside it.
pub(super) fn try_out(out: &mut File, settings: &[(String, String)]) -> Step {
    for (nth, setting) in settings.iter().enumerate() {
        if let Err(why) = put(setting) {
            let beside = beside(Path::new(&setting.0));
            return say(out, &Frame::Refused(nth as u64, why.to_string(), beside));
        }
    }
    Ok(())
}

/// Returns the sorted names of the files in the directory of `path`, one per line.
fn beside(path: &Path) -> String {
    let entries = path.parent().map(fs::read_dir).into_iter().flatten();
    let entries = entries.flatten().flatten();
    let files = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_file()));
    let mut names: Vec<String> = files
        .map(|e| e.file_name().to_string_lossy().into_owned() + "\n")
        .collect();
    names.sort();
    names.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_not_taken_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        fs::write(path("b"), "").unwrap();
        fs::write(path("a"), "").unwrap();
        fs::create_dir(path("c")).unwrap();
        let settings = ["a", "x", "b"].map(|name| (path(name), "5".to_owned()));
        let mut out = File::create(path("c/out")).unwrap();
        try_out(&mut out, &settings).unwrap();
        let said = fs::read(path("c/out")).unwrap();
        let Some(Frame::Refused(1, why, beside)) = Frame::read(&mut &said[..]).unwrap() else {
            panic!("{said:?}");
        };
        assert!(why.contains("No such file"), "{why}");
        assert_eq!(beside, "a\nb\n");
        assert_eq!(fs::read(path("a")).unwrap(), b"5");
        assert_eq!(fs::read(path("b")).unwrap(), b"");
        assert!(write(&settings).unwrap_err().contains("`5` into "));
    }
}
