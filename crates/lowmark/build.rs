//! Sets linker options.

use std::process::Command;

/// Makes the program smaller with Rust's own linker (lld, on x86-64 with glibc; `-C linker` and
/// `link-arg` in RUSTFLAGS may select another one, with unknown options): identical functions are
/// merged, and relocations are a bitmap (`DT_RELR`) instead of 24 bytes each.
fn link_small() {
    let is = |key: &str, value: &str| std::env::var(key).is_ok_and(|v| v == value);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let ours = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && !flags.contains("link");
    if !ours || !is("PROFILE", "release") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // The C library's loader supports the bitmap since 2.36; a program for another computer may
    // meet an older one.
    if is("HOST", "x86_64-unknown-linux-gnu")
        && is("TARGET", "x86_64-unknown-linux-gnu")
        && glibc().is_some_and(|v| v >= (2, 36))
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this computer's C library.
fn glibc() -> Option<(u32, u32)> {
    let out = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

fn main() {
    link_small();
    println!("cargo::rerun-if-changed=build.rs");
}
