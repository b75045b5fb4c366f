//! `docs/kernels.md` says of each preset what it is.

use mm::policy::Policy;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../docs/kernels.md");

/// The switches of a preset, as an experiment writes them.
fn switches(preset: &str) -> BTreeMap<String, String> {
    let policy = Policy::preset(preset).expect("a preset");
    let toml = toml::Table::try_from(policy).expect("a policy can be written");
    toml.into_iter()
        .filter(|(key, _)| key != "name")
        .map(|(key, value)| (key, value.to_string().trim_matches('"').to_owned()))
        .collect()
}

/// The rows of the table below a heading: switch and value.
fn table(heading: &str) -> BTreeMap<String, String> {
    let section = PAGE
        .split("\n## ")
        .find(|s| s.lines().next() == Some(heading))
        .unwrap_or_else(|| panic!("docs/kernels.md has no heading `## {heading}`"));
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let mut cells = row.split('`');
            let switch = cells.next().expect("a switch");
            let value = cells.nth(1).expect("a value");
            (switch.to_owned(), value.to_owned())
        })
        .collect()
}

#[test]
fn the_page_of_kernels_lists_what_presets_change() {
    for (preset, base) in [
        ("linux-2.6.37", "linux-3.0"),
        ("linux-3.1", "linux-3.0"),
        ("linux-3.16", "linux-3.1"),
        ("linux-4.9", "linux-3.16"),
    ] {
        let before = switches(base);
        let mut changed = switches(preset);
        changed.retain(|switch, value| before[switch] != *value);
        assert_eq!(
            table(preset),
            changed,
            "docs/kernels.md, {preset} (left: the page)"
        );
    }
}

#[test]
fn the_page_of_kernels_has_every_preset() {
    for preset in Policy::PRESETS {
        assert!(
            PAGE.contains(&format!("| `{preset}` |")),
            "{preset} is missing"
        );
    }
}
