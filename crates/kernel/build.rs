//! Compiles the clock of QEMU guests (`clock/vt.c`), where there is a C compiler for x86-64 Linux.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "clock/vt.c";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let library = out.join("clock.so");
    let missing = match compile(&library) {
        Ok(()) => String::new(),
        Err(why) => {
            fs::write(&library, "")?;
            println!("cargo::warning=lowmark is built without QEMU guests: {why}");
            why
        }
    };
    fs::write(out.join("clock-missing"), missing)?;
    Ok(())
}

/// Compiles the library to `to`.
///
/// # Errors
/// Returns the reason why there is none, in one line.
fn compile(to: &Path) -> Result<(), String> {
    let of = |name: &str| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_OS") != "linux" || of("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return Err("guests run on x86-64 Linux only".to_owned());
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let done = Command::new(&compiler)
        .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC"])
        .args(["-fvisibility=hidden", "-o"])
        .arg(to)
        .args([SOURCE, "-ldl"])
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let error = said.lines().find(|line| line.contains("error"));
            Err(error.unwrap_or("the C compiler failed").to_owned())
        }
        Err(e) => Err(format!("{}: {e}", compiler.display())),
    }
}
