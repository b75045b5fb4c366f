//! Tests that the page about machine files agrees with the table in the code.

use mm::sysctl::{Fits, TABLE};

#[test]
fn the_page_has_every_sysctl() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machine-files.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|l| l.starts_with("| `vm.") || l.starts_with("| `fs."))
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), TABLE.len());
    for (row, info) in rows.iter().zip(TABLE) {
        assert_eq!(row[0], format!("`{}`", info.name));
        assert_eq!(row[1], info.unit, "{}", info.name);
        if let Fits::Number(least, most) = info.fits {
            assert_eq!(row[3], format!("{least} to {most}"), "{}", info.name);
        }
        let follows = info.follows != mm::sysctl::Follows::Nothing;
        assert_eq!(!row[4].is_empty(), follows, "{}", info.name);
    }
}
