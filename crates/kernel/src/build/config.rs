//! The configuration of a guest's kernel: `tinyconfig`, then our fragment, then the user's.

use super::arch::Arch;
use super::error::BuildError;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Lowmark's own configuration fragment of User-Mode Linux.
pub const OURS: &str = include_str!("guest.config");

/// Lowmark's own configuration fragment of QEMU guests, without the part that all guests have.
const OURS_X86_64: &str = include_str!("guest-x86_64.config");

/// The line of [`OURS`] with which the part begins that all guests have.
const COMMON: &str = "# As a distribution's kernel is compiled";

/// Returns Lowmark's own configuration fragment of a kernel whose timer ticks `hz` times a second
/// (User-Mode Linux takes the ticks from a file of the tree, [`super::ticks`]).
pub fn ours(arch: Arch, hz: u32) -> Cow<'static, str> {
    match arch {
        Arch::Um => OURS.into(),
        Arch::X86_64 => {
            let begin = OURS.find(COMMON).expect("guest.config has the line");
            format!("{OURS_X86_64}CONFIG_HZ_{hz}=y\n\n{}", &OURS[begin..]).into()
        }
    }
}

/// Symbols that no guest can run without; a user's fragment can't turn them off.
const REQUIRED: [&str; 17] = [
    "64BIT",
    "BLK_DEV_INITRD",
    "BLOCK",
    "BINFMT_ELF",
    "PRINTK",
    "PROC_FS",
    "PROC_SYSCTL",
    "SYSFS",
    "DEVTMPFS",
    "TMPFS",
    "SWAP",
    "VM_EVENT_COUNTERS",
    "EVENT_TRACING",
    "CGROUPS",
    "MEMCG",
    "FUTEX",
    "EPOLL",
];

/// Returns the symbols that only guests of one kind can't run without.
fn required_of(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Um => &[
            "UML_TIME_TRAVEL_SUPPORT",
            "VIRTIO_UML",
            "VIRTIO_BLK",
            "STATIC_LINK",
            "POSIX_TIMERS",
        ],
        Arch::X86_64 => &["SMP", "NUMA", "ACPI", "PCI", "SERIAL_8250_CONSOLE"],
    }
}

/// A configuration fragment and its file's name for messages.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The file's name.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// The longest fragment that is read, in bytes: a full configuration has some 300 KiB.
const MOST: u64 = 16 << 20;

impl Fragment {
    /// Reads a fragment of a kernel's configuration (lines `CONFIG_X=y`) from a file.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(path: &Path) -> Result<Self, BuildError> {
        let text = input::text(path, MOST).map_err(|e| {
            BuildError::input(
                format!("can't read the fragment {}: {e}", path.display()),
                "a text file with lines `CONFIG_X=y` and `# CONFIG_X is not set`",
            )
        })?;
        Ok(Self {
            name: path.display().to_string(),
            text,
        })
    }
}

/// The wanted value of a symbol and the fragment that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Want {
    /// The value; `None`: not set.
    value: Option<String>,
    /// The name of the fragment that sets it, for messages; empty: ours.
    by: String,
}

/// The configuration that is wanted of a kernel.
#[derive(Debug)]
pub struct Wanted {
    /// Values by symbol, without `CONFIG_`; a later setting replaces an earlier one.
    values: BTreeMap<String, Want>,
    arch: Arch,
}

impl Wanted {
    /// Reads the values that our fragment of the kernel's configuration and then the user's ask
    /// for.
    ///
    /// # Errors
    /// A line is neither a setting nor a comment, or changes a symbol that is required.
    pub fn read(arch: Arch, hz: u32, fragments: &[Fragment]) -> Result<Self, BuildError> {
        let mut out = Self {
            values: BTreeMap::new(),
            arch,
        };
        out.add(&Fragment {
            name: String::new(),
            text: ours(arch, hz).into(),
        })?;
        for fragment in fragments {
            out.add(fragment)?;
        }
        Ok(out)
    }

    /// Returns true for a symbol that the guest can't run without.
    fn requires(&self, symbol: &str) -> bool {
        REQUIRED.contains(&symbol) || required_of(self.arch).contains(&symbol)
    }

    /// Adds the settings of a fragment, which replace earlier ones of the same symbols; a fragment
    /// without a name is ours.
    ///
    /// # Errors
    /// A line is neither a setting nor a comment, or changes a symbol that is required.
    fn add(&mut self, fragment: &Fragment) -> Result<(), BuildError> {
        for (number, line) in (1..).zip(fragment.text.lines()) {
            let line = line.trim();
            let by = match fragment.name.as_str() {
                "" => String::new(),
                name => format!("{name}, line {number}"),
            };
            let Some((symbol, value)) = assignment(line) else {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                return Err(BuildError::input(
                    format!("{by}: `{line}` is not a line of a configuration"),
                    "`CONFIG_X=y`, `CONFIG_X=\"text\"`, `CONFIG_X=100`, `# CONFIG_X is not set`, other \
                     lines that begin with #",
                ));
            };
            let want = Want { value, by };
            if self.requires(symbol)
                && let Some(ours) = self.values.get(symbol)
                && ours.value != want.value
            {
                return Err(BuildError::input(
                    format!("{}: a guest can't run with `{line}`", want.by),
                    format!("`{}`", config_line(symbol, ours.value.as_deref())),
                ));
            }
            self.values.insert(symbol.to_owned(), want);
        }
        Ok(())
    }

    /// Compares the wanted values with those of the finished configuration file, because make drops
    /// settings that a tree does not allow. `known` has the symbols that the tree defines.
    ///
    /// Returns the symbols of our fragment that this tree does not know.
    ///
    /// # Errors
    /// A symbol has another value than wanted although it is required or the tree knows it, or a
    /// user's fragment names a symbol that the tree does not know.
    pub fn check(&self, config: &str, known: &BTreeSet<String>) -> Result<Vec<String>, BuildError> {
        let is: BTreeMap<&str, Option<String>> = config.lines().filter_map(assignment).collect();
        let (mut otherwise, mut unknown) = (Vec::new(), Vec::new());
        for (symbol, want) in &self.values {
            if is.get(symbol.as_str()).cloned().flatten() == want.value {
                continue;
            }
            let required = self.requires(symbol);
            if !known.contains(symbol) && want.by.is_empty() && !required {
                unknown.push(symbol.clone());
                continue;
            }
            let mut line = config_line(symbol, want.value.as_deref());
            if !want.by.is_empty() {
                line = format!("{line} ({})", want.by);
            }
            if !known.contains(symbol) {
                line.push_str(", which this tree does not have");
            }
            otherwise.push(line);
        }
        if otherwise.is_empty() {
            return Ok(unknown);
        }
        Err(BuildError::input(
            format!(
                "the tree's Kconfig does not allow these settings: {}",
                otherwise.join("; ")
            ),
            "a tree that has these symbols, with their dependencies set (by a fragment for \
             `--config` if need be), or a fragment with other values",
        ))
    }
}

/// Returns the line that a configuration file has for a symbol (without `CONFIG_`) and its value;
/// `None`: not set.
fn config_line(symbol: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("CONFIG_{symbol}={value}"),
        None => format!("# CONFIG_{symbol} is not set"),
    }
}

/// Returns the symbol (without `CONFIG_`) and the value of a line of a configuration, where a value
/// of `None` means not set or `n`; returns `None` for other lines.
fn assignment(line: &str) -> Option<(&str, Option<String>)> {
    let name = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !text.is_empty() && text.chars().all(plain)
    };
    if let Some(rest) = line.strip_prefix("# CONFIG_") {
        let symbol = rest.strip_suffix(" is not set")?;
        return name(symbol).then_some((symbol, None));
    }
    let (symbol, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
    let value = (value != "n").then(|| value.to_owned());
    name(symbol).then_some((symbol, value))
}

/// Returns the symbols that a Kconfig file defines with `config` or `menuconfig`.
pub fn symbols(kconfig: &str) -> impl Iterator<Item = &str> {
    kconfig.lines().filter_map(|line| {
        let (word, rest) = line.trim_start().split_once([' ', '\t'])?;
        ["config", "menuconfig"]
            .contains(&word)
            .then(|| rest.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(text: &str) -> Fragment {
        Fragment {
            name: "my.config".into(),
            text: text.into(),
        }
    }

    fn known() -> BTreeSet<String> {
        let mut all: BTreeSet<String> = Wanted::read(Arch::Um, 100, &[])
            .unwrap()
            .values
            .into_keys()
            .collect();
        all.insert("NUMA".into());
        all
    }

    /// Checked against itself, our fragment leaves nothing unmet, and it has all that is required.
    #[test]
    fn what_is_wanted_is_found() {
        for arch in [Arch::Um, Arch::X86_64] {
            let wanted = Wanted::read(arch, 250, &[]).unwrap();
            assert_eq!(wanted.check(&ours(arch, 250), &known()).unwrap(), [""; 0]);
            for symbol in REQUIRED.iter().chain(required_of(arch)) {
                assert!(wanted.values.contains_key(*symbol), "{symbol}");
            }
        }
        let ticks = ours(Arch::X86_64, 1000);
        assert!(ticks.contains("\nCONFIG_HZ_1000=y\n") && ticks.contains("\nCONFIG_LRU_GEN=y\n"));
        assert!(!ticks.contains("UML"), "{ticks}");
    }

    #[test]
    fn what_is_otherwise_is_named() {
        let wanted = Wanted::read(Arch::Um, 100, &[fragment("CONFIG_NUMA=y\n")]).unwrap();
        let config = OURS.replace("CONFIG_BLK_WBT=y", "# CONFIG_BLK_WBT is not set");
        let e = wanted.check(&config, &known()).unwrap_err().to_string();
        assert!(e.contains("CONFIG_BLK_WBT=y;"), "{e}");
        assert!(e.contains("CONFIG_NUMA=y (my.config, line 1)"), "{e}");
    }

    /// A symbol of our fragment that an old tree lacks is reported and not refused, unless it is
    /// required.
    #[test]
    fn what_a_tree_does_not_know() {
        let wanted = Wanted::read(Arch::Um, 100, &[]).unwrap();
        let (mut known, mut config) = (known(), OURS.to_owned());
        known.remove("LRU_GEN");
        config = config.replace("CONFIG_LRU_GEN=y\n", "");
        assert_eq!(wanted.check(&config, &known).unwrap(), ["LRU_GEN"]);
        known.remove("VIRTIO_UML");
        config = config.replace("CONFIG_VIRTIO_UML=y\n", "");
        let e = wanted.check(&config, &known).unwrap_err().to_string();
        assert!(
            e.contains("CONFIG_VIRTIO_UML=y, which this tree does not have"),
            "{e}"
        );
        let wanted = Wanted::read(Arch::Um, 100, &[fragment("CONFIG_BLK_WTB=y\n")]).unwrap();
        assert!(wanted.check(&config, &known).is_err());
    }

    #[test]
    fn users_may_want_otherwise_but_not_everything() {
        let off = Wanted::read(
            Arch::Um,
            100,
            &[fragment("# CONFIG_LRU_GEN is not set\nCONFIG_HZ=n\n")],
        )
        .unwrap();
        assert_eq!(off.values["LRU_GEN"].value, None);
        assert_eq!(off.values["HZ"].value, None);
        for (text, place) in [
            ("\n# CONFIG_VIRTIO_BLK is not set", "my.config, line 2"),
            ("CONFIG_STATIC_LINK=y", "my.config, line 1"),
            ("# why\nLRU_GEN=y", "my.config, line 2"),
        ] {
            let e = Wanted::read(Arch::Um, 100, &[fragment(text)])
                .unwrap_err()
                .to_string();
            assert!(e.starts_with(place), "{e}");
        }
    }

    #[test]
    fn definitions_in_kconfig() {
        let text = "menuconfig FTRACE\n\tbool \"config X\"\n\tdepends on A\n config  EXT4_FS\n# config NO\n";
        assert_eq!(symbols(text).collect::<Vec<_>>(), ["FTRACE", "EXT4_FS"]);
    }
}
