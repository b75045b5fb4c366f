//! How often a guest's timer ticks: one line of the private copy's `arch/um/Kconfig`, where
//! User-Mode Linux has no choice.

use super::error::BuildError;
use super::patch::Patched;
use super::scan::Scan;
use super::source::Release;
use std::path::Path;

/// Ticks a second of User-Mode Linux as its source has it.
pub const HZ: u32 = 100;

/// Ticks a second that a guest's kernel is built with (`kernel/Kconfig.hz`).
pub const ACCEPTED: [u32; 4] = [100, 250, 300, 1000];

/// Where the number stands.
const KCONFIG: &str = "arch/um/Kconfig";

/// Separates a build's name from the ticks in it.
const SUFFIX: &str = "-hz";

/// Returns the name of the build whose timer ticks `hz` times a second: the name as it is if its
/// ticks are these, or with an ending such as `-hz250`.
pub fn ticking(name: &str, hz: u32) -> String {
    match of_name(name) == hz {
        true => name.to_owned(),
        false => format!("{name}{SUFFIX}{hz}"),
    }
}

/// Returns how often a build's timer ticks in a second, by the ending of its name; [`HZ`] without
/// one.
pub fn of_name(name: &str) -> u32 {
    split(name).1
}

/// Splits a build's name (`6.12-hz250`) into that of the same kernel with the usual ticks (`6.12`),
/// and its ticks a second (250).
pub fn split(name: &str) -> (&str, u32) {
    let parts = name.rsplit_once(SUFFIX);
    let known = parts.and_then(|(plain, hz)| Some((plain, hz.parse().ok()?)));
    known
        .filter(|(plain, hz)| !plain.is_empty() && ACCEPTED.contains(hz))
        .unwrap_or((name, HZ))
}

/// Has a tree's timer tick `hz` times a second: changes the default of `config HZ` in the patched
/// `arch/um/Kconfig`.
///
/// # Errors
/// The tree says it otherwise than User-Mode Linux does.
pub fn apply(
    hz: u32,
    patched: &mut Patched,
    scan: &Scan,
    release: &Release,
) -> Result<(), BuildError> {
    let path = Path::new(KCONFIG);
    let file = patched.read(scan, path).ok().flatten();
    let changed = file.and_then(|(kind, bytes)| {
        let text = String::from_utf8(bytes).ok()?;
        Some((kind, with_ticks(&text, hz)?))
    });
    let Some((kind, text)) = changed else {
        return Err(BuildError::input(
            format!(
                "Linux {release} does not say in {KCONFIG} how often its timer ticks (`config HZ` with `default {HZ}`)"
            ),
            format!(
                "the command without `--hz`: the kernel's timer then ticks {HZ} times per second"
            ),
        ));
    };
    patched
        .0
        .insert(path.to_owned(), Some((kind, text.into_bytes())));
    Ok(())
}

/// Returns the text of `arch/um/Kconfig` with another default in the entry `config HZ`; `None` if
/// the text has no such entry or another default than User-Mode Linux's.
fn with_ticks(text: &str, hz: u32) -> Option<String> {
    let begin = text.find("config HZ\n")?;
    let (before, rest) = text.split_at(begin);
    let own = rest.find("\n\n").unwrap_or(rest.len());
    let (own, behind) = rest.split_at(own);
    let line = format!("\tdefault {HZ}");
    own.contains(&line).then(|| {
        format!(
            "{before}{}{behind}",
            own.replace(&line, &format!("\tdefault {hz}"))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_named_by_their_ticks() {
        for (name, hz, build) in [
            ("6.12", 100, "6.12"),
            ("6.12", 250, "6.12-hz250"),
            ("6.12-hz250", 250, "6.12-hz250"),
            ("6.12-hz250", 1000, "6.12-hz250-hz1000"),
            ("6.12-hz24", 250, "6.12-hz24-hz250"),
        ] {
            assert_eq!(ticking(name, hz), build);
        }
        assert_eq!(split("mine-hz1000"), ("mine", 1000));
        assert_eq!(of_name("-hz250"), HZ);
    }

    #[test]
    fn one_line_of_kconfig_changes() {
        let text = "config UML\n\tdefault 100\n\nconfig HZ\n\tint\n\tdefault 100\n\nconfig X\n\tdefault 100\n";
        let changed = with_ticks(text, 250).expect("it says so");
        assert_eq!(
            changed,
            text.replacen(
                "config HZ\n\tint\n\tdefault 100",
                "config HZ\n\tint\n\tdefault 250",
                1
            )
        );
        assert_eq!(
            with_ticks("config HZ\n\tint\n\nconfig X\n\tdefault 100\n", 250),
            None
        );
        assert_eq!(with_ticks("", 250), None);
    }
}
