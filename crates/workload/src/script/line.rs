//! Converts a command line to a script.

use super::{MOST_PROCESSES, Process, Script, Step};
use crate::error::CommandError;
use crate::program::{MOST_FILES, Program};
use crate::programs::{self, Command};
use crate::shell::{self, AndList, Word};

/// Parses a shell command line; [`shell`] documents the supported part of the shell.
///
/// # Errors
/// The line is one that the shell or a program would refuse, uses unsupported features, or runs
/// nothing in the foreground.
pub fn parse(line: &str) -> Result<Script, CommandError> {
    let mut steps = Vec::new();
    // A background program that does not end by itself.
    let mut endless = None;
    for list in &shell::parse(line)? {
        let step = step(list)?;
        let here = endless_in(list, &step);
        let waits_for = match &step {
            Step::Foreground(_) => here.as_ref(),
            Step::Background(_) => None,
            Step::Wait => endless.as_ref(),
        };
        if let Some(program) = waits_for {
            return Err(CommandError::new(
                program.span.clone(),
                format!("the script would wait for `{}` for ever", program.text),
                "an end time for the program (-t), or `&` after it and no `wait`",
            ));
        }
        endless = endless.or(here);
        steps.push(step);
    }
    if steps.is_empty() {
        return Err(CommandError::new(
            0..line.len(),
            "the line holds no command",
            format!("a command line with {}", programs::names()),
        ));
    }
    if steps.iter().all(|s| matches!(s, Step::Background(_))) {
        return Err(CommandError::new(
            0..line.len(),
            "every command runs in the background, so the script would end at once",
            "a last command without `&`, or `wait` as the last command",
        ));
    }
    let mut script = Script {
        steps,
        line: line.to_owned(),
        ..Script::default()
    };
    script.find_files();
    let processes = script.processes_at_a_time() - 1;
    if processes > MOST_PROCESSES {
        return Err(CommandError::new(
            0..line.len(),
            format!("the line has {processes} processes at a time"),
            format!("at most {MOST_PROCESSES}"),
        ));
    }
    if script.files_made() > MOST_FILES {
        return Err(CommandError::new(
            0..line.len(),
            format!("the line makes {} files", script.files_made()),
            format!("at most {}", MOST_FILES),
        ));
    }
    Ok(script)
}

/// Returns the name of a program in a list that ends only with the script, if there is one.
fn endless_in(list: &AndList, step: &Step) -> Option<Word> {
    let (Step::Foreground(process) | Step::Background(process)) = step else {
        return None;
    };
    let at = process.commands.iter().position(Program::endless)?;
    Some(list.commands[at].words[0].clone())
}

fn step(list: &AndList) -> Result<Step, CommandError> {
    if let Some(wait) = list.commands.iter().find(|c| c.words[0].text == "wait") {
        if list.commands.len() > 1 || list.background || wait.words.len() > 1 {
            return Err(CommandError::new(
                wait.words[0].span.start..wait.words[wait.words.len() - 1].span.end,
                "`wait` takes no operands and is never part of `&&` or `&`",
                "`;` or a newline before and after a plain `wait`",
            ));
        }
        return Ok(Step::Wait);
    }
    let commands = list
        .commands
        .iter()
        .map(|c| Command::parse(&c.words[0], &c.words[1..]))
        .collect::<Result<Vec<_>, _>>()?;
    let process = Process { commands };
    Ok(if list.background {
        Step::Background(process)
    } else {
        Step::Foreground(process)
    })
}

impl Script {
    /// Checks early whether a program of the line is going to fail because a path that it needs
    /// can't exist: no file or directory that the script finds, no mount point (`mounts`), and no
    /// word of an earlier command is that path, one of its parents or below it. Paths that may
    /// exist are accepted.
    ///
    /// # Errors
    /// The first path that can't exist, with its place in the line.
    pub fn needs_are_met(&self, mounts: &[&str]) -> Result<(), CommandError> {
        // A user's own program has its own shell, and no steps.
        if self.steps.is_empty() {
            return Ok(());
        }
        let lists = shell::parse(&self.line)?;
        let files = self.files.iter().map(|file| &file.path[..]);
        let directories = self.directories.iter().map(|d| &d[..]);
        let mut named: Vec<&str> = files
            .chain(directories)
            .chain(mounts.iter().copied())
            .collect();
        for (list, step) in lists.iter().zip(&self.steps) {
            let (Step::Foreground(process) | Step::Background(process)) = step else {
                continue;
            };
            for (program, words) in process.commands.iter().zip(&list.commands) {
                let unmet = program
                    .needs()
                    .iter()
                    .find(|path| !may_be_there(path, &named));
                if let Some(path) = unmet {
                    let words = &words.words;
                    let word = words.iter().find(|w| w.text == *path).unwrap_or(&words[0]);
                    return Err(CommandError::new(
                        word.span.clone(),
                        format!(
                            "the path `{path}` does not exist when `{}` begins",
                            program.program()
                        ),
                        "a path that an earlier command makes, that `files` lays out or that is \
                         mounted; `rm -f` accepts missing paths",
                    ));
                }
                named.extend(words.words[1..].iter().map(|w| &w.text[..]));
            }
        }
        Ok(())
    }
}

/// Returns true if one of the words `named` may be a path to, or through, `path`. Of a word such as
/// `of=a` the part after the last `=` is the path.
fn may_be_there(path: &str, named: &[&str]) -> bool {
    fn names(path: &str) -> Vec<&str> {
        let path = path.rsplit('=').next().unwrap_or(path);
        let names = path.split('/');
        names.filter(|n| !n.is_empty() && *n != ".").collect()
    }
    let wanted = names(path);
    let related = |word: &&str| names(word).iter().zip(&wanted).all(|(a, b)| a == b);
    wanted.is_empty() || named.iter().filter(|word| !word.is_empty()).any(related)
}
