//! The files that come with the program, for a binary far from its sources.

/// Every file of `data/published`, `experiments`, `machines` and `policies` by its path from the
/// project's root, ascending.
pub const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped_files.rs"));

/// The text of the file with this path from the project's root.
pub fn find(path: &str) -> Option<&'static str> {
    let at = FILES.binary_search_by_key(&path, |f| f.0).ok()?;
    Some(FILES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_found_by_its_path() {
        assert!(FILES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(find("machines/512M.toml").is_some_and(|t| t.contains("cpus = 4")));
        assert_eq!(find("machines/none.toml"), None);
    }
}
