//! The installed QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program's name.
const NAME: &str = "qemu-system-x86_64";
/// The firmware that starts a kernel at once, and QEMU's package that has it.
const FIRMWARE: &str = "/usr/share/qemu/qboot.rom";
/// The oldest release whose insides the clock is tested with.
const OLDEST: u32 = 10;
/// The first release with another plugin interface, and that interface's version.
const LATER: (u32, i32) = (11, 7);
/// The version of the plugin interface in earlier releases.
const EARLIER: i32 = 4;

/// How to get a QEMU that does.
const REMEDY: &str =
    "`apt install qemu-system-x86` (QEMU 10 or later: Debian 13, or bookworm-backports)";

/// A QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its version, such as `10.0.2`.
    pub version: String,
    /// The version of its plugin interface that the clock uses.
    pub plugin_api: i32,
}

/// The lack of a QEMU that does, and how to get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The lack, in a sentence.
    pub what: String,
    /// The package to install.
    pub remedy: &'static str,
}

impl Missing {
    /// The lack of a QEMU, or of one that is new enough.
    fn qemu(what: String) -> Self {
        Self {
            what,
            remedy: REMEDY,
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// Returns the installed QEMU.
///
/// # Errors
/// There is none, or it is too old.
pub fn find() -> Result<Program, Missing> {
    static FOUND: OnceLock<Result<Program, Missing>> = OnceLock::new();
    FOUND.get_or_init(look).clone()
}

/// Looks for a QEMU in `PATH` and asks it for its version.
fn look() -> Result<Program, Missing> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(NAME));
    let path = places
        .find(|path| path.is_file())
        .ok_or_else(|| Missing::qemu(format!("there is no {NAME}")))?;
    let said = Command::new(&path).arg("--version").output();
    let said = said.map_err(|e| Missing::qemu(format!("{}: {e}", path.display())))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if !Path::new(FIRMWARE).exists() {
        return Err(Missing {
            what: format!("there is no {FIRMWARE}"),
            remedy: "`apt install qemu-system-data`",
        });
    }
    of_version(path, &text)
}

/// Judges a QEMU by the text of its `--version`.
fn of_version(path: PathBuf, text: &str) -> Result<Program, Missing> {
    let unknown = || Missing::qemu(format!("{}: can't read its version", path.display()));
    let mut words = text.split_whitespace().skip_while(|w| *w != "version");
    let version = words.nth(1).ok_or_else(unknown)?.to_owned();
    let major = version.split('.').next().and_then(|n| n.parse().ok());
    let major: u32 = major.ok_or_else(unknown)?;
    if major < OLDEST {
        let what = format!("{} is QEMU {version}, older than {OLDEST}", path.display());
        return Err(Missing::qemu(what));
    }
    let plugin_api = if major >= LATER.0 { LATER.1 } else { EARLIER };
    Ok(Program {
        path,
        version,
        plugin_api,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        let of = |text: &str| of_version("/usr/bin/qemu".into(), text);
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) 2003-2025\n";
        let ten = of(text).unwrap();
        assert_eq!((ten.version.as_str(), ten.plugin_api), ("10.0.2", 4));
        assert_eq!(of("QEMU emulator version 11.1.0\n").unwrap().plugin_api, 7);
        let old = of("QEMU emulator version 7.2.17 (Debian)\n").unwrap_err();
        let old = old.to_string();
        assert!(
            old.contains("QEMU 7.2.17, older than 10") && old.contains("apt install"),
            "{old}"
        );
        assert!(of("").unwrap_err().what.contains("version"));
    }
}
