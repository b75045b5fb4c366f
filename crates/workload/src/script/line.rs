//! From a command line to a script.

use super::{MOST_PROCESSES, Process, Script, Step};
use crate::error::CommandError;
use crate::program::{MOST_FILES, Program};
use crate::programs::{self, Command};
use crate::shell::{self, AndList, Word};

/// Reads a shell command line; [`shell`] says what of the shell is known.
///
/// # Errors
/// A line that the shell or a program would refuse, that uses what Lowmark does not know, or that
/// runs nothing in the foreground.
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
                "a time that it ends after (-t), or `&` behind it and no `wait`",
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

/// The name of the program in a list that ends only with the script, if there is one.
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
