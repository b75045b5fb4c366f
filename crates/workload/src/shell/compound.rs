//! Compound commands: `( … )`, `{ …; }` and `for NAME in WORDS; do … done`.
//!
//! A loop is read once for each of its words, so that each pass has places of its own in the line.
//! In the foreground the lists of a compound command stand in the script as if it were not there.
//! In the background, or beside `&&`, they are one process: its commands run one after the other
//! and end at the first that fails, as after `set -e`, and none of them may run in the background.

use super::{AndList, CommandError, MOST_WORDS, Parser, REDIRECTIONS, SEPARATORS, Word};
use std::ops::Range;

/// The deepest nesting of compound commands.
const MOST_DEEP: usize = 32;

const LOOP: &str = "for NAME in WORDS; do COMMANDS; done";

/// The compound command that is being read, with the place of its first word in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Within {
    Subshell(Range<usize>),
    Braces(Range<usize>),
    Loop(Range<usize>),
}

impl Within {
    /// Returns the word that ends it.
    fn end(&self) -> &'static str {
        match self {
            Self::Subshell(_) => ")",
            Self::Braces(_) => "}",
            Self::Loop(_) => "done",
        }
    }

    /// Returns the error that the line ends inside it.
    pub(super) fn open(&self) -> CommandError {
        let (Self::Subshell(place) | Self::Braces(place) | Self::Loop(place)) = self;
        let accepted = match self {
            Self::Loop(_) => LOOP.to_owned(),
            _ => format!("a `{}` after its commands", self.end()),
        };
        CommandError::new(
            place.clone(),
            format!("no `{}` ends this", self.end()),
            accepted,
        )
    }
}

impl Parser<'_> {
    /// Reads a compound command whose first word is `word` or, for `(`, the next character; `None`
    /// as word stands for `(`. Returns false if the word begins none.
    pub(super) fn compound(&mut self, word: Option<&Word>) -> Result<bool, CommandError> {
        let (place, lists) = match word.map(|w| (w.quoted, w.text.as_str(), w.span.clone())) {
            None => {
                let place = self.at.here();
                self.at.bump();
                let lists = self.inner(Within::Subshell(place.clone()))?;
                (place, lists)
            }
            Some((false, "{", place)) => {
                let lists = self.inner(Within::Braces(place.clone()))?;
                (place, lists)
            }
            Some((false, "for", place)) => {
                let lists = self.for_loop(place.clone())?;
                (place, lists)
            }
            Some(_) => return Ok(false),
        };
        if lists.is_empty() {
            return Err(CommandError::new(place, "no command in here", SEPARATORS));
        }
        self.finish(place, lists)?;
        Ok(true)
    }

    /// Reads the lists inside a compound command, up to and with the word that ends it.
    fn inner(&mut self, within: Within) -> Result<Vec<AndList>, CommandError> {
        if self.depth == MOST_DEEP {
            return Err(CommandError::new(
                within.open().span,
                format!("more than {MOST_DEEP} compound commands inside each other"),
                SEPARATORS,
            ));
        }
        self.depth += 1;
        let lists = std::mem::take(&mut self.lists);
        let commands = std::mem::take(&mut self.commands);
        let (and, redirection) = (self.and.take(), self.redirection.take());
        self.until(Some(&within))?;
        let inner = std::mem::replace(&mut self.lists, lists);
        self.commands = commands;
        (self.and, self.redirection) = (and, redirection);
        self.depth -= 1;
        Ok(inner)
    }

    /// Returns true if the word ends the compound command that is being read.
    pub(super) fn ends(within: Option<&Within>, word: &Word) -> bool {
        !word.quoted && within.is_some_and(|w| w.end() == word.text)
    }

    /// Takes a compound command's lists over, with the separator behind it. `place` is its first
    /// word.
    fn finish(&mut self, place: Range<usize>, lists: Vec<AndList>) -> Result<(), CommandError> {
        loop {
            while matches!(self.at.peek(), Some(' ' | '\t')) {
                self.at.bump();
            }
            let start = self.at.pos;
            match self.at.peek() {
                Some('>') => self.redirect(start, None)?,
                Some('1' | '2') => {
                    let word = self.word()?;
                    if !matches!(self.at.peek(), Some('>')) {
                        return Err(self.no_separator(start));
                    }
                    self.redirect(start, Some(&word))?;
                }
                _ => break,
            }
        }
        if let Some(place) = self.drops_caches.take() {
            return Err(CommandError::new(
                place,
                "this redirection isn't accepted",
                REDIRECTIONS,
            ));
        }
        self.redirection = None;
        self.and = None;
        let start = self.at.pos;
        match self.at.peek() {
            Some('&') => {
                self.at.bump();
                if self.at.eat('&') {
                    self.flatten(&place, lists)?;
                    self.and = Some(start..self.at.pos);
                    return Ok(());
                }
                self.flatten(&place, lists)?;
                self.end_list(true);
            }
            None | Some('\n' | ';' | ')') => {
                if !matches!(self.at.peek(), Some(')')) {
                    self.at.bump();
                }
                if self.commands.is_empty() {
                    self.lists.extend(lists);
                } else {
                    self.flatten(&place, lists)?;
                    self.end_list(false);
                }
            }
            // The main loop names what is wrong with these.
            Some('|' | '<' | '#') => self.lists.extend(lists),
            Some(_) => return Err(self.no_separator(start)),
        }
        Ok(())
    }

    /// Returns the error for a word directly behind a compound command.
    fn no_separator(&mut self, start: usize) -> CommandError {
        let end = self.at.here().end.max(start);
        CommandError::new(start..end, "a separator is missing here", SEPARATORS)
    }

    /// Adds the commands of several lists to the list that is being read, as one process.
    fn flatten(&mut self, place: &Range<usize>, lists: Vec<AndList>) -> Result<(), CommandError> {
        let waits = |l: &AndList| l.commands.iter().any(|c| c.words[0].text == "wait");
        if lists.iter().any(|l| l.background || waits(l)) {
            return Err(CommandError::new(
                place.clone(),
                "a part that runs in the background, or beside `&&`, has a command with `&` or a `wait`",
                "plain commands inside it; or `&` inside it, and none behind it",
            ));
        }
        self.commands
            .extend(lists.into_iter().flat_map(|l| l.commands));
        Ok(())
    }

    /// Reads a loop behind its `for`, whose place is given, and returns the lists of all its
    /// passes.
    fn for_loop(&mut self, place: Range<usize>) -> Result<Vec<AndList>, CommandError> {
        let within = Within::Loop(place.clone());
        let name = self.next_word(&within)?;
        let plain = name
            .text
            .bytes()
            .all(|b| b == b'_' || b.is_ascii_alphanumeric());
        if name.quoted || !plain || name.text.starts_with(|c: char| c.is_ascii_digit()) {
            let what = format!("`{}` is no name of a variable", name.text);
            return Err(CommandError::new(name.span, what, LOOP));
        }
        let keyword = self.next_word(&within)?;
        if keyword.quoted || keyword.text != "in" {
            return Err(CommandError::new(
                keyword.span,
                "`in` is missing here",
                LOOP,
            ));
        }
        let values = self.values()?;
        if values.is_empty() {
            return Err(CommandError::new(place, "the loop has no words", LOOP));
        }
        while matches!(self.at.peek(), Some(' ' | '\t' | '\n' | ';')) {
            self.at.bump();
        }
        let keyword = self.next_word(&within)?;
        if keyword.quoted || keyword.text != "do" {
            return Err(CommandError::new(
                keyword.span,
                "`do` is missing here",
                LOOP,
            ));
        }
        self.made += values.len() as u64;
        let body = self.at.pos;
        let mut lists = Vec::new();
        for value in values {
            self.passes += 1;
            if self.passes > MOST_WORDS {
                return Err(CommandError::new(
                    place,
                    "the loops make too many commands",
                    format!("at most {MOST_WORDS} passes of all loops"),
                ));
            }
            self.at.pos = body;
            self.at.variables.push((name.text.clone(), value));
            lists.extend(self.inner(within.clone())?);
            self.at.variables.pop();
        }
        Ok(lists)
    }

    /// Reads the next word of a loop's head.
    fn next_word(&mut self, within: &Within) -> Result<Word, CommandError> {
        while matches!(self.at.peek(), Some(' ' | '\t')) {
            self.at.bump();
        }
        let word = self.word()?;
        if let Some(sequence) = self.sequence.take() {
            return Err(CommandError::new(
                sequence.span,
                "a sequence is not accepted here",
                LOOP,
            ));
        }
        match word.span.is_empty() {
            true => Err(within.open()),
            false => Ok(word),
        }
    }

    /// Reads the words of a loop behind its `in`, up to the separator: plain words, sequences such
    /// as `{1..4}`, and `$(seq FIRST LAST)`.
    fn values(&mut self) -> Result<Vec<String>, CommandError> {
        debug_assert!(self.words.is_empty(), "a loop begins a command");
        let mut values = Vec::new();
        loop {
            while matches!(self.at.peek(), Some(' ' | '\t')) {
                self.at.bump();
            }
            match self.at.peek() {
                None | Some('\n' | ';') => return Ok(values),
                Some('$') if self.at.line[self.at.pos..].starts_with("$(seq") => {
                    values.extend(self.seq()?);
                }
                Some(c @ ('&' | '|' | '(' | ')' | '<' | '>')) => {
                    let what = format!("`{c}` is not accepted here");
                    return Err(CommandError::new(self.at.here(), what, LOOP));
                }
                Some(_) => {
                    self.in_head = true;
                    let read = self.word_or_redirection(None);
                    self.in_head = false;
                    read?;
                    for word in std::mem::take(&mut self.words) {
                        if word.text.is_empty() || word.text.contains([' ', '\t', '\n']) {
                            let what = "a word of a loop is empty or has a blank";
                            return Err(CommandError::new(word.span, what, LOOP));
                        }
                        values.push(word.text);
                    }
                }
            }
        }
    }

    /// Reads `$(seq LAST)`, `$(seq FIRST LAST)` or `$(seq FIRST STEP LAST)` into its numbers.
    fn seq(&mut self) -> Result<Vec<String>, CommandError> {
        let start = self.at.pos;
        let rest = &self.at.line[start..];
        let end = rest.find(')').map_or(rest.len(), |at| at + 1);
        let place = start..start + end;
        let wrong = || {
            let accepted = format!(
                "$(seq LAST), $(seq FIRST LAST) or $(seq FIRST STEP LAST), at most {MOST_WORDS} numbers"
            );
            CommandError::new(place.clone(), "no sequence of whole numbers", accepted)
        };
        let inside = rest[..end]
            .strip_prefix("$(seq")
            .and_then(|r| r.strip_suffix(')'));
        let numbers: Option<Vec<i64>> = inside.and_then(|r| {
            let each = r
                .split_whitespace()
                .map(|n| n.parse::<i32>().map(i64::from));
            each.collect::<Result<_, _>>().ok()
        });
        let (first, step, last) = match numbers.as_deref() {
            Some([last]) => (1, 1, *last),
            Some([first, last]) => (*first, 1, *last),
            Some([first, step, last]) if *step != 0 => (*first, *step, *last),
            _ => return Err(wrong()),
        };
        let mut values = Vec::new();
        let mut n = first;
        while if step > 0 { n <= last } else { n >= last } {
            if values.len() as u64 == MOST_WORDS {
                return Err(wrong());
            }
            values.push(n.to_string());
            n += step;
        }
        self.at.pos = place.end;
        Ok(values)
    }
}
