//! The files that are built into the program, so that the binary works without its source tree.

/// Every file of `data/published`, `experiments`, `machines` and `policies` by its path from the
/// project's root, ascending.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped_files.rs"));

/// Returns the text of the file built into the program that has this path from the project's root;
/// `None` if there is none.
pub fn find(path: &str) -> Option<&'static str> {
    let at = FILES.binary_search_by_key(&path, |f| f.0).ok()?;
    Some(FILES[at].1)
}

/// Finds a file built into the program by its path or its name: `experiments/usb-stick.toml`, or
/// `usb-stick` in one of `folders`. Returns its path and text; `None` if none is called so.
pub fn meant(name: &str, folders: &[&str]) -> Option<(&'static str, &'static str)> {
    let whole = name.trim_start_matches("./");
    let mut paths = vec![whole.to_owned()];
    for folder in folders {
        paths.push(format!("{folder}/{whole}"));
        paths.push(format!("{folder}/{whole}.toml"));
    }
    let found = |path: String| {
        let at = FILES.binary_search_by_key(&&path[..], |f| f.0).ok()?;
        Some(FILES[at])
    };
    paths.into_iter().find_map(found)
}

/// Returns the name of the shipped experiment that is most like a name which is none; `None` if
/// none is alike.
pub fn like(name: &str) -> Option<&'static str> {
    let names = FILES.iter().filter_map(|(path, _)| {
        let name = path.strip_prefix("experiments/")?.strip_suffix(".toml")?;
        (!name.contains('/')).then_some(name)
    });
    crate::diagnostic::did_you_mean(name, names)
}

/// Returns the first sentence of the comment (`#`) at the head of a shipped file, which says what
/// the file is for.
pub fn about(text: &str) -> String {
    let comment = text.lines().map_while(|l| l.strip_prefix('#'));
    let comment: Vec<&str> = comment.map(str::trim).collect();
    let whole = comment.join(" ");
    let end = whole.find(". ").or_else(|| whole.find("? "));
    whole[..end.map_or(whole.len(), |i| i + 1)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_found_by_its_path() {
        assert!(FILES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(find("machines/512M.toml").is_some_and(|t| t.contains("cpus = 4")));
        assert_eq!(find("machines/none.toml"), None);
        let path = |name| meant(name, &["machines", "experiments"]).map(|f| f.0);
        assert_eq!(path("512M"), Some("machines/512M.toml"));
        assert_eq!(
            path("./experiments/usb-stick.toml"),
            Some("experiments/usb-stick.toml")
        );
        assert_eq!(path("usb-stick"), Some("experiments/usb-stick.toml"));
        assert_eq!(path("none"), None);
        assert_eq!(like("usb-deskop"), Some("usb-desktop"));
        assert_eq!(like("something-else-entirely"), None);
        assert_eq!(about("# Two words. More.\n"), "Two words.");
    }
}
