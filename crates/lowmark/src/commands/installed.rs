//! `lowmark completions` and `lowmark man`.

use crate::cli::{Cli, Completions, Man};
use crate::text;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use front::failure::Failure;
use lab::diagnostic::Diagnostic;
use lab::results::Single;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The program's name in shells and man pages.
const NAME: &str = "lowmark";

/// Prints a shell's completion script.
pub fn completions(args: &Completions) -> Result<(), Failure> {
    text::print(&script(args.shell))
}

/// Returns the completion script of the whole command line for a shell.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    String::from_utf8(script).expect("names of options are text")
}

/// Writes the man pages of the program and its subcommands, either all of them or none.
pub fn man(args: &Man) -> Result<(), Failure> {
    let mut pages = Vec::new();
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    collect(&program, NAME, &mut pages).expect("memory takes what is written");
    write_all(&args.out, &pages)?;
    text::print(&format!(
        "{} pages are in {}; `man -l {}` shows one\n",
        pages.len(),
        args.out.display(),
        args.out.join(&pages[0].0).display()
    ))
}

/// Adds the man page of a command, called `name`, and those of its visible subcommands to `pages`,
/// each with its file name and contents.
fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let mut page = Vec::new();
    let named = command.clone().display_name(name.to_owned());
    clap_mangen::Man::new(named).render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

/// Writes pages, each a file name and its contents, into `dir`: all to temporary files before the
/// first one is moved to its place, so that an error leaves the old pages. The folder is made if
/// missing.
fn write_all(dir: &Path, pages: &[(String, Vec<u8>)]) -> Result<(), Failure> {
    if !dir.is_dir() {
        fs::create_dir(dir).map_err(|e| {
            let what = format!("can't write man pages into `{}`: {e}", dir.display());
            let accepted =
                "accepted: a folder that can be written to, or a new folder in an existing one";
            Failure::Input(Diagnostic::placeless(what, accepted).into())
        })?;
    }
    let mut files = Vec::new();
    for (name, page) in pages {
        let place = dir.join(name);
        let mut file = Single::create(&place, true, |_| Ok(true))?;
        let written = file.write_all(page);
        written.map_err(|e| {
            Failure::System(miette::miette!("can't write `{}`: {e}", place.display()))
        })?;
        files.push(file);
    }
    for file in files {
        file.finish()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::process::{Command as Process, Stdio};

    fn shown() -> Vec<String> {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        visible.map(|c| c.get_name().to_owned()).collect()
    }

    #[test]
    fn every_shells_script_knows_every_subcommand() {
        for &shell in Shell::value_variants() {
            let script = script(shell);
            for name in shown() {
                assert!(script.contains(&name), "{shell}: {name}");
            }
        }
    }

    /// bash itself completes a subcommand, an option and its values with the script.
    #[test]
    fn bash_completes_with_it() {
        let ask = r#"
            complete_words() {
                COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
                _lowmark lowmark "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
                echo "${COMPREPLY[*]}"
            }
            complete_words lowmark valid
            complete_words lowmark run --iter
            complete_words lowmark completions z"#;
        let mut bash = Process::new("bash")
            .args(["--norc", "-s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let text = script(Shell::Bash) + ask;
        let mut input = bash.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("a pipe");
        drop(input);
        let out = bash.wait_with_output().expect("bash");
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "validate\n--iterations\nzsh\n"
        );
    }

    #[test]
    fn every_subcommand_has_a_page() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("man1");
        man(&Man { out: out.clone() }).expect("pages");
        let page = |name: &str| fs::read_to_string(out.join(name)).expect(name);
        for name in shown() {
            let text = page(&format!("lowmark-{name}.1"));
            assert!(text.contains(&format!(".TH lowmark-{name} 1")), "{text}");
        }
        if kernel::includes_guest() {
            assert!(page("lowmark-kernel-build.1").contains("\\-\\-patch"));
        }
        assert!(page("lowmark.1").contains("Exit codes"));
        // A second call replaces the pages and leaves no other files.
        let names = || fs::read_dir(&out).expect("a folder").count();
        let before = names();
        man(&Man { out: out.clone() }).expect("pages");
        assert_eq!(names(), before);
    }

    #[test]
    fn a_place_that_is_none_is_wrong_input() {
        let dir = tempfile::tempdir().expect("a folder");
        let failed = man(&Man {
            out: dir.path().join("not/there"),
        });
        let failure = failed.expect_err("no such folder");
        assert_eq!(failure.code(), 2);
        assert!(
            failure.text().contains("accepted: a folder"),
            "{}",
            failure.text()
        );
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }
}
