//! Converts a command line to a script.

use super::{Process, Script, Step};
use crate::error::CommandError;
use crate::program::{MOST_FILES, MOST_PROCESSES, Program};
use crate::programs::{self, Command};
use crate::shell::{self, AndList, SimpleCommand, Word};
use std::ops::Range;

/// Parses a shell command line; [`shell`] documents the supported part of the shell.
///
/// # Errors
/// The line is one that the shell or a program would refuse, uses unsupported features, or runs
/// nothing in the foreground.
pub fn parse(line: &str) -> Result<Script, CommandError> {
    let mut steps = Vec::new();
    // A background program that does not end by itself.
    let mut endless = None;
    let mut notes: Vec<String> = Vec::new();
    for list in &shell::parse(line)? {
        let step = step(list, &mut notes)?;
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
        notes,
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

/// Programs that run another one and change nothing that is modelled: each name, the options that
/// have a value of their own, and what is said of it in the results, if anything.
const PREFIXES: &[(&str, &[&str], Option<&str>)] = &[
    ("sudo", &["-u", "-g"], None),
    ("time", &["-f", "-o"], None),
    ("nohup", &[], None),
    ("nice", &["-n"], Some(NO_PRIORITIES)),
    ("ionice", &["-c", "-n"], Some(NO_PRIORITIES)),
    ("chrt", &[], Some(NO_PRIORITIES)),
];

const NO_PRIORITIES: &str = "priorities of the CPU and of I/O (nice, ionice, chrt) are not \
                             modelled: the programs ran with those of others";

/// Returns a command without `sudo`, `nice` and the like before it, and a write to
/// /proc/sys/vm/drop_caches, by `echo` or sysctl(8), as the program `drop_caches`. Adds what the
/// results have to say of the programs that were taken off to `notes`, each sentence once.
///
/// # Errors
/// Nothing is left to run, or another program's output goes to /proc/sys/vm/drop_caches.
fn plain(command: &SimpleCommand, notes: &mut Vec<String>) -> Result<Vec<Word>, CommandError> {
    let mut words = &command.words[..];
    while let Some((_, valued, says)) = PREFIXES.iter().find(|p| p.0 == words[0].text) {
        let mut rest = &words[1..];
        while let Some(option) = rest.first().filter(|w| w.text.starts_with('-')) {
            let value = usize::from(valued.contains(&option.text.as_str()));
            rest = &rest[(1 + value).min(rest.len())..];
        }
        // chrt(1) has the priority before the program.
        if words[0].text == "chrt" && rest.first().is_some_and(|w| w.text.parse::<u32>().is_ok()) {
            rest = &rest[1..];
        }
        if rest.is_empty() {
            return Err(CommandError::new(
                words[0].span.clone(),
                format!("`{}` runs no program", words[0].text),
                format!("{} PROGRAM …", words[0].text),
            ));
        }
        if let Some(says) = says.filter(|says| !notes.iter().any(|note| note == says)) {
            notes.push(says.to_owned());
        }
        words = rest;
    }
    let mut words = words.to_vec();
    if let Some(place) = &command.drops_caches {
        if words[0].text != "echo" || words.len() != 2 {
            return Err(CommandError::new(
                place.clone(),
                "only echo's output may go there",
                "echo 1, 2 or 3 > /proc/sys/vm/drop_caches",
            ));
        }
        "drop_caches".clone_into(&mut words[0].text);
    }
    if words[0].text == "sysctl" {
        let key = |w: &Word| w.text.replace('/', ".").starts_with("vm.drop_caches=");
        let others = |w: &Word| ["-w", "-q", "-qw", "-wq"].contains(&w.text.as_str());
        if let [rest @ .., last] = &words[1..]
            && key(last)
            && rest.iter().all(others)
        {
            let (mut name, mut value) = (words[0].clone(), last.clone());
            "drop_caches".clone_into(&mut name.text);
            value.text.drain(.."vm.drop_caches=".len());
            words = vec![name, value];
        }
    }
    Ok(words)
}

/// Returns the word that names an endless program in `list`, one that ends only with the script;
/// `None` if all programs end by themselves. `step` is the list, parsed.
fn endless_in(list: &AndList, step: &Step) -> Option<Word> {
    let (Step::Foreground(process) | Step::Background(process)) = step else {
        return None;
    };
    let at = process.commands.iter().position(Program::endless)?;
    Some(list.commands[at].words[0].clone())
}

/// Parses one list of commands into a step: `wait` alone, or a process of all the list's commands,
/// in the background after `&`. `notes` gets what the results have to say of it.
fn step(list: &AndList, notes: &mut Vec<String>) -> Result<Step, CommandError> {
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
        .map(|c| {
            let words = plain(c, notes)?;
            Command::parse(&words[0], &words[1..])
        })
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
    /// can't exist. A path may exist if a file or directory that the script finds, a mount point
    /// (`mounts`) or a word of an earlier command is that path, one of its parents or below it.
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
        // All paths and words that may name an existing path so far.
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

impl Script {
    /// Checks that paths below a place where disks are mounted by custom (`/mnt/NAME`,
    /// `/media/NAME`) have their mount point among `mounts`. Without it the files would lie on the
    /// disk of `/`, and the run would answer another question.
    ///
    /// # Errors
    /// The first path without its mount point, with its place in the line; the place is empty if
    /// the path stands in no line.
    pub fn mounts_are_there(&self, mounts: &[&str]) -> Result<(), CommandError> {
        let lost = |path: &str, span: Range<usize>| {
            let mounted: Vec<String> = mounts.iter().map(|mount| format!("`/{mount}`")).collect();
            CommandError::new(
                span,
                format!("the machine mounts no disk at or above `{path}`"),
                format!(
                    "a path below a mount point of the machine ({}), or outside of /mnt and /media",
                    mounted.join(", ")
                ),
            )
        };
        let mut said: Vec<Word> = Vec::new();
        if !self.steps.is_empty() {
            for list in shell::parse(&self.line)? {
                said.extend(
                    list.commands
                        .into_iter()
                        .flat_map(|c| c.words.into_iter().skip(1)),
                );
            }
        }
        if let Some(word) = said.iter().find(|word| lacks_mount(&word.text, mounts)) {
            let path = names_of(&word.text).join("/");
            return Err(lost(&path, word.span.clone()));
        }
        let said: Vec<&str> = said.iter().map(|word| &word.text[..]).collect();
        // Files that a program of the line expects are below a word that was judged.
        let files = self.files.iter().map(|file| &file.path[..]);
        let mut paths = files
            .chain(self.directories.iter().map(|d| &d[..]))
            .filter(|path| said.is_empty() || !may_be_there(path, &said));
        match paths.find(|path| lacks_mount(path, mounts)) {
            Some(path) => Err(lost(path, 0..0)),
            None => Ok(()),
        }
    }
}

/// Device files that every host has.
const DEVICES: [&str; 3] = ["/dev/zero", "/dev/null", "/dev/urandom"];

impl Script {
    /// Checks that the programs name no device files but those that every host has: a disk is used
    /// through the filesystem on it.
    ///
    /// # Errors
    /// The first other device file, with its place in the line.
    pub fn devices_are_there(&self) -> Result<(), CommandError> {
        if self.steps.is_empty() {
            return Ok(());
        }
        let lists = shell::parse(&self.line)?;
        let mut words = lists
            .iter()
            .flat_map(|list| &list.commands)
            .flat_map(|command| command.words.iter().skip(1));
        let lost = words.find_map(|word| {
            let path = word.text.rsplit('=').next().unwrap_or(&word.text);
            let other = path.starts_with("/dev/") && !DEVICES.contains(&path);
            other.then_some((word, path))
        });
        match lost {
            None => Ok(()),
            Some((word, path)) => Err(CommandError::new(
                word.span.clone(),
                format!("there is no device file `{path}`"),
                format!(
                    "{}, or a path in the tested filesystem, which is on the machine's disk",
                    DEVICES.join(", ")
                ),
            )),
        }
    }
}

/// Returns true if a path is below a place for mounted disks, and no mount point is above it or
/// below it.
fn lacks_mount(path: &str, mounts: &[&str]) -> bool {
    let wanted = names_of(path);
    let [root, _, ..] = wanted[..] else {
        return false;
    };
    let related = |mount: &&str| {
        let mount = names_of(mount);
        !mount.is_empty() && mount.iter().zip(&wanted).all(|(a, b)| a == b)
    };
    ["mnt", "media"].contains(&root) && !mounts.iter().any(related)
}

/// Returns the names of a path's parts. Of a word such as `of=a` the part after the last `=` is the
/// path.
fn names_of(path: &str) -> Vec<&str> {
    let path = path.rsplit('=').next().unwrap_or(path);
    let names = path.split('/');
    names.filter(|n| !n.is_empty() && *n != ".").collect()
}

/// Returns true if one of the words `named` may be a path to, or through, `path`.
fn may_be_there(path: &str, named: &[&str]) -> bool {
    let wanted = names_of(path);
    let related = |word: &&str| names_of(word).iter().zip(&wanted).all(|(a, b)| a == b);
    wanted.is_empty() || named.iter().filter(|word| !word.is_empty()).any(related)
}
