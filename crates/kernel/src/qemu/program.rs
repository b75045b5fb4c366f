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

/// Returns the installed QEMU.
///
/// # Errors
/// There is none, or it is too old; in one line that says what to install.
pub fn find() -> Result<Program, String> {
    static FOUND: OnceLock<Result<Program, String>> = OnceLock::new();
    FOUND.get_or_init(look).clone()
}

fn look() -> Result<Program, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(NAME));
    let path = places
        .find(|path| path.is_file())
        .ok_or_else(|| format!("there is no {NAME}: {REMEDY}"))?;
    let said = Command::new(&path).arg("--version").output();
    let said = said.map_err(|e| format!("{}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if !Path::new(FIRMWARE).exists() {
        return Err(format!(
            "there is no {FIRMWARE}: `apt install qemu-system-data`"
        ));
    }
    of_version(path, &text)
}

/// Judges a QEMU by the text of its `--version`.
fn of_version(path: PathBuf, text: &str) -> Result<Program, String> {
    let unknown = || format!("{}: can't read its version: {REMEDY}", path.display());
    let mut words = text.split_whitespace().skip_while(|w| *w != "version");
    let version = words.nth(1).ok_or_else(unknown)?.to_owned();
    let major = version.split('.').next().and_then(|n| n.parse().ok());
    let major: u32 = major.ok_or_else(unknown)?;
    if major < OLDEST {
        return Err(format!(
            "{} is QEMU {version}, older than {OLDEST}: {REMEDY}",
            path.display()
        ));
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
        assert!(
            old.contains("QEMU 7.2.17, older than 10") && old.contains("apt install"),
            "{old}"
        );
        assert!(of("").unwrap_err().contains("version"));
    }
}
