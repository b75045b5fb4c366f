//! Shell command lines: the part of a POSIX shell's syntax that benchmark descriptions use.
//!
//! Accepted: words with single quotes, double quotes and backslash escapes; comments; line
//! continuation; `$(( … ))`; bash's `{1..16}`, once a word; lists of commands joined by `;`,
//! newline, `&&` and `&`; `( … )`, `{ …; }` and `for NAME in WORDS; do …; done` with `$NAME` inside
//! it; the redirections `>/dev/null`, `2>/dev/null` and `2>&1`, which have no effect here and are
//! dropped; and one of `echo` to /proc/sys/vm/drop_caches. All other syntax (other variables,
//! command substitution, globs, pipes, files as input or output, conditions) is refused with its
//! place in the line.
//!
//! A [`Word`] records from where in the line each of its bytes came, so that an error about an
//! operand can point at the wrong digit even inside quotes or an arithmetic expansion.
//!
//! Reference: POSIX.1-2017, Shell & Utilities, 2.2 Quoting, 2.3 Token Recognition, 2.6.4 Arithmetic
//! Expansion, 2.7 Redirection, 2.9.3 Lists.

mod arithmetic;
mod compound;
mod cursor;
mod word;

pub use word::Word;

use crate::error::CommandError;
use compound::Within;
use cursor::Cursor;
use std::ops::Range;

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 64 << 10;

/// One program with its arguments, not yet parsed; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program's name and its arguments.
    pub words: Vec<Word>,
    /// The place of a redirection of its output to [`DROP_CACHES`].
    pub drops_caches: Option<Range<usize>>,
}

/// The one file that a command's output may go to: what is written is dropped from memory.
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Commands joined by `&&`: each starts when the one before it has succeeded. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AndList {
    /// The commands, in order.
    pub commands: Vec<SimpleCommand>,
    /// Whether the list ended with `&`: the next list does not wait for it.
    pub background: bool,
}

/// Splits a line into its lists of commands, in order.
///
/// # Errors
/// The line has a syntax error of the shell, a construct that the module documentation does not
/// list, or more than [`MAX_LINE`] bytes.
pub fn parse(line: &str) -> Result<Vec<AndList>, CommandError> {
    if line.len() > MAX_LINE {
        let mut start = MAX_LINE;
        while !line.is_char_boundary(start) {
            start -= 1;
        }
        return Err(CommandError::new(
            start..line.len(),
            format!("the line is {} bytes long", line.len()),
            format!("at most {MAX_LINE} bytes"),
        ));
    }
    Parser::new(line).lists()
}

const PLAIN_WORDS: &str =
    "plain words, quotes, \\ escapes, $(( … )) arithmetic; quote the character to mean itself";
const REDIRECTIONS: &str = ">/dev/null, 2>/dev/null and 2>&1 (output is not kept)";
const SEPARATORS: &str = "commands separated by ;, newline, && or &";
const CONTROL: &str = "for NAME in WORDS; do COMMANDS; done, ( COMMANDS ), and commands separated by ;, newline, && or &";
const RESERVED: [&str; 15] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "{",
    "}", "!",
];

/// A sequence `{from..to}` of a word.
struct Sequence {
    from: i64,
    to: i64,
    /// The sequence's place in the line.
    span: Range<usize>,
}

/// The limit on words made from sequences.
const MOST_WORDS: u64 = 1000;

struct Parser<'a> {
    at: Cursor<'a>,
    /// The sequence found in the current word, and the number that replaces it.
    sequence: Option<Sequence>,
    number: Option<i64>,
    /// The number of words made from sequences.
    made: u64,
    /// The number of passes through loops.
    passes: u64,
    /// The number of compound commands around the cursor.
    depth: usize,
    /// Whether the words of a loop's head are read, among which no command begins.
    in_head: bool,
    lists: Vec<AndList>,
    commands: Vec<SimpleCommand>,
    words: Vec<Word>,
    /// The place of an `&&` that still needs its right-hand side.
    and: Option<Range<usize>>,
    /// The place of a redirection in the current command.
    redirection: Option<Range<usize>>,
    /// The place of its redirection to [`DROP_CACHES`].
    drops_caches: Option<Range<usize>>,
}

impl<'a> Parser<'a> {
    /// Makes a parser at the start of a line, with nothing read.
    fn new(line: &'a str) -> Self {
        Self {
            at: Cursor {
                line,
                pos: 0,
                variables: Vec::new(),
            },
            sequence: None,
            number: None,
            made: 0,
            passes: 0,
            depth: 0,
            in_head: false,
            lists: Vec::new(),
            commands: Vec::new(),
            words: Vec::new(),
            and: None,
            redirection: None,
            drops_caches: None,
        }
    }

    /// Reads the whole line and returns its lists of commands.
    fn lists(mut self) -> Result<Vec<AndList>, CommandError> {
        self.until(None)?;
        Ok(self.lists)
    }

    /// Reads lists of commands to the end of the line or, inside a compound command, up to and with
    /// the word that ends it. Separators end the current command or list, and everything else
    /// begins a word or a redirection.
    fn until(&mut self, within: Option<&Within>) -> Result<(), CommandError> {
        while let Some(c) = self.at.peek() {
            let start = self.at.pos;
            match c {
                ' ' | '\t' => self.at.bump(),
                '#' => {
                    while self.at.raw().is_some_and(|c| c != '\n') {
                        self.at.bump();
                    }
                }
                '\n' => {
                    self.at.bump();
                    // A newline may follow `&&`, and blank lines are ignored.
                    if !self.words.is_empty() || self.redirection.is_some() {
                        self.end_command()?;
                        self.end_list(false);
                    }
                }
                ';' => {
                    self.at.bump();
                    self.separator(start, ";")?;
                    self.end_list(false);
                }
                '&' => {
                    self.at.bump();
                    if self.at.eat('&') {
                        self.separator(start, "&&")?;
                        self.and = Some(start..self.at.pos);
                    } else if self.at.peek() == Some('>') {
                        return Err(CommandError::new(
                            start..self.at.here().end,
                            "`&>` means background in one shell and a redirection in another",
                            ">/dev/null 2>&1",
                        ));
                    } else {
                        self.separator(start, "&")?;
                        self.end_list(true);
                    }
                }
                '|' => {
                    self.at.bump();
                    let what = if self.at.eat('|') {
                        "`||` lists aren't"
                    } else {
                        "pipes aren't"
                    };
                    return Err(CommandError::new(
                        start..self.at.pos,
                        format!("{what} accepted"),
                        SEPARATORS,
                    ));
                }
                '(' if self.words.is_empty() && self.redirection.is_none() => {
                    self.compound(None)?;
                }
                ')' if matches!(within, Some(Within::Subshell(_))) => {
                    self.at.bump();
                    return self.end_lists();
                }
                '(' | ')' => {
                    return Err(CommandError::new(
                        self.at.here(),
                        "subshells and functions aren't accepted",
                        SEPARATORS,
                    ));
                }
                '<' | '>' => self.redirect(start, None)?,
                _ => {
                    if self.word_or_redirection(within)? {
                        return self.end_lists();
                    }
                }
            }
        }
        match within {
            Some(within) => Err(within.open()),
            None => self.end_lists(),
        }
    }

    /// Ends the last command and list at the end of the line or of a compound command.
    fn end_lists(&mut self) -> Result<(), CommandError> {
        if self.and.is_some() || !self.words.is_empty() || self.redirection.is_some() {
            self.end_command()?;
        }
        self.end_list(false);
        Ok(())
    }

    /// Ends a command at a separator, which requires one before it. `start` is the offset of the
    /// separator, `operator` its text.
    fn separator(&mut self, start: usize, operator: &str) -> Result<(), CommandError> {
        if self.words.is_empty() && self.redirection.is_none() {
            return Err(CommandError::new(
                start..self.at.pos,
                format!("no command before this `{operator}`"),
                SEPARATORS,
            ));
        }
        self.end_command()
    }

    /// Ends the current command and adds it to the list. Errors name the missing command after
    /// `&&`, and a redirection that has no command.
    fn end_command(&mut self) -> Result<(), CommandError> {
        let words = std::mem::take(&mut self.words);
        let redirection = self.redirection.take();
        let drops_caches = self.drops_caches.take();
        if let Some(first) = words.first() {
            refuse_shell_words(first)?;
            self.and = None;
            self.commands.push(SimpleCommand {
                words,
                drops_caches,
            });
            return Ok(());
        }
        match (redirection, self.and.take()) {
            (Some(place), _) => Err(CommandError::new(
                place,
                "a redirection without a command",
                "a command before or after it",
            )),
            (None, place) => Err(CommandError::new(
                place.unwrap_or(self.at.pos..self.at.pos),
                "no command follows this `&&`",
                SEPARATORS,
            )),
        }
    }

    /// Ends the current list of commands; nothing if it is empty. `background`: an `&` ended it.
    fn end_list(&mut self, background: bool) {
        let commands = std::mem::take(&mut self.commands);
        if !commands.is_empty() {
            self.lists.push(AndList {
                commands,
                background,
            });
        }
    }

    /// Reads a word of the command, or a redirection with a descriptor such as `2>`. A word with a
    /// sequence such as `a{1..3}` becomes one word for each number. Returns true if the word ends
    /// the compound command `within`; a word that begins one is read with all that belongs to it.
    fn word_or_redirection(&mut self, within: Option<&Within>) -> Result<bool, CommandError> {
        let start = self.at.pos;
        let word = self.word()?;
        if self.words.is_empty() && self.redirection.is_none() && self.sequence.is_none() {
            if Self::ends(within, &word) && self.and.is_none() {
                return Ok(true);
            }
            if !self.in_head && self.compound(Some(&word))? {
                return Ok(false);
            }
        }
        if let Some(Sequence { from, to, span }) = self.sequence.take() {
            self.made += from.abs_diff(to) + 1;
            if self.made > MOST_WORDS {
                return Err(CommandError::new(
                    span,
                    "the sequence makes too many words",
                    format!("sequences such as {{1..16}}, at most {MOST_WORDS} words in all"),
                ));
            }
            self.words.push(word);
            let mut n = from;
            while n != to {
                n += if from < to { 1 } else { -1 };
                // The word is read again with the next number of the sequence.
                self.at.pos = start;
                self.number = Some(n);
                let word = self.word()?;
                self.words.push(word);
            }
            (self.sequence, self.number) = (None, None);
            return Ok(false);
        }
        // Digits directly before `<` or `>` are the number of a file descriptor.
        let descriptor = !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit());
        if descriptor && matches!(self.at.peek(), Some('<' | '>')) {
            self.redirect(word.span.start, Some(&word))?;
            return Ok(false);
        }
        self.words.push(word);
        Ok(false)
    }

    /// Reads a redirection that begins at `start`; the cursor is at `<` or `>`. `descriptor` is the
    /// word with its number; `None`: standard output. Only redirections to `/dev/null` and `2>&1`
    /// are accepted, and have no effect.
    fn redirect(&mut self, start: usize, descriptor: Option<&Word>) -> Result<(), CommandError> {
        let refuse = |span: Range<usize>, what: String| CommandError::new(span, what, REDIRECTIONS);
        let descriptor = descriptor.map_or("1", |w| w.text.as_str());
        if self.at.eat('<') {
            return Err(refuse(
                start..self.at.pos,
                "input redirections aren't accepted".into(),
            ));
        }
        self.at.eat('>');
        let duplicate = self.at.eat('&');
        if !duplicate && matches!(self.at.peek(), Some('>' | '|')) {
            self.at.bump();
            return Err(refuse(
                start..self.at.pos,
                "this redirection isn't accepted".into(),
            ));
        }
        while matches!(self.at.peek(), Some(' ' | '\t')) {
            self.at.bump();
        }
        if matches!(
            self.at.peek(),
            None | Some('\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
        ) {
            return Err(refuse(
                start..self.at.pos,
                "a redirection to nothing".into(),
            ));
        }
        let target = self.word()?;
        if let Some(sequence) = self.sequence.take() {
            return Err(refuse(sequence.span, "a sequence of targets".into()));
        }
        if (descriptor, duplicate) == ("1", false) && target.text == DROP_CACHES {
            self.drops_caches = Some(start..target.span.end);
        }
        let accepted = self.drops_caches.is_some()
            || match (descriptor, duplicate) {
                ("1" | "2", false) => target.text == "/dev/null",
                ("2", true) => target.text == "1",
                _ => false,
            };
        if !accepted {
            return Err(refuse(
                start..target.span.end,
                "this redirection isn't accepted".into(),
            ));
        }
        self.redirection = Some(start..target.span.end);
        Ok(())
    }

    /// Reads one word up to the next blank or operator, with quotes removed and arithmetic
    /// expanded; the cursor is at its first character. Unsupported expansions are errors.
    fn word(&mut self) -> Result<Word, CommandError> {
        let start = self.at.here().start;
        let mut word = Word::new(start);
        while let Some(c) = self.at.peek() {
            let here = self.at.here();
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    self.at.bump();
                    let Some(escaped) = self.at.raw() else {
                        return Err(CommandError::new(
                            here,
                            "nothing follows this backslash",
                            "a character after it, or '\\' for a backslash",
                        ));
                    };
                    self.at.bump();
                    refuse_nul(escaped, here.end..self.at.pos)?;
                    word.push(escaped, here.start..self.at.pos, false);
                    word.quoted = true;
                }
                '$' => self.dollar(&mut word, false)?,
                '{' if self.sequence_here().is_some() => self.sequence(&mut word)?,
                '`' => {
                    return Err(refuse_expansion(
                        here,
                        "command substitution isn't accepted",
                    ));
                }
                '*' | '?' | '[' => {
                    return Err(refuse_expansion(here, "file name patterns aren't accepted"));
                }
                '~' if word.span.start == self.at.pos => {
                    return Err(refuse_expansion(here, "home directories aren't accepted"));
                }
                '\r' => return Err(refuse_expansion(here, "a carriage return in the line")),
                _ => {
                    refuse_nul(c, here.clone())?;
                    self.at.bump();
                    word.push(c, here, true);
                }
            }
        }
        word.span = start..self.at.pos;
        Ok(word)
    }

    /// Returns the sequence `{from..to}` that begins at the cursor; `None` if there is none. The
    /// cursor stays.
    fn sequence_here(&self) -> Option<Sequence> {
        let start = self.at.pos;
        let rest = &self.at.line[start..];
        let body = rest.get(1..rest.find('}')?)?;
        let (from, to) = body.split_once("..")?;
        let number = |text: &str| text.parse::<i32>().ok().map(i64::from);
        Some(Sequence {
            from: number(from)?,
            to: number(to)?,
            span: start..start + body.len() + 2,
        })
    }

    /// Appends the sequence at the cursor to the word as one number: the one that the caller has
    /// set (`self.number`), or else the sequence's first. Keeps the sequence, so that the caller
    /// makes the further words.
    fn sequence(&mut self, word: &mut Word) -> Result<(), CommandError> {
        let Some(sequence) = self.sequence_here() else {
            unreachable!("a sequence begins here")
        };
        let span = sequence.span.clone();
        let first = |s: &Sequence| s.span != span;
        if self.sequence.as_ref().is_some_and(first) {
            return Err(CommandError::new(
                span,
                "a second sequence in one word",
                "one sequence a word",
            ));
        }
        let number = self.number.unwrap_or(sequence.from);
        word.push_expansion(&number.to_string(), span.clone());
        self.at.pos = span.end;
        self.sequence = Some(sequence);
        Ok(())
    }

    /// Appends the characters between single quotes; the cursor is at the first quote.
    fn single_quoted(&mut self, word: &mut Word) -> Result<(), CommandError> {
        let open = self.at.pos;
        self.at.bump();
        word.quoted = true;
        loop {
            let start = self.at.pos;
            let Some(c) = self.at.raw() else {
                return Err(unterminated(open, "'"));
            };
            self.at.bump();
            if c == '\'' {
                return Ok(());
            }
            refuse_nul(c, start..self.at.pos)?;
            word.push(c, start..self.at.pos, true);
        }
    }

    /// Appends the text between double quotes, with escapes and arithmetic expanded; the cursor is
    /// at the first quote.
    fn double_quoted(&mut self, word: &mut Word) -> Result<(), CommandError> {
        let open = self.at.pos;
        self.at.bump();
        word.quoted = true;
        loop {
            let Some(c) = self.at.peek() else {
                return Err(unterminated(open, "\""));
            };
            let here = self.at.here();
            match c {
                '"' => {
                    self.at.bump();
                    return Ok(());
                }
                '$' => self.dollar(word, true)?,
                '`' => {
                    return Err(refuse_expansion(
                        here,
                        "command substitution isn't accepted",
                    ));
                }
                '\\' => {
                    self.at.bump();
                    match self.at.raw() {
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                            self.at.bump();
                            word.push(escaped, here.start..self.at.pos, false);
                        }
                        _ => word.push('\\', here, true),
                    }
                }
                _ => {
                    refuse_nul(c, here.clone())?;
                    self.at.bump();
                    word.push(c, here, true);
                }
            }
        }
    }

    /// Reads an expansion; the cursor is at its `$`. Arithmetic is evaluated and appended to the
    /// word, variables and command substitution are errors, and any other `$` stands for itself.
    /// `in_quotes`: within double quotes, where a quote after `$` has no meaning.
    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), CommandError> {
        let here = self.at.here();
        let start = here.start;
        self.at.bump();
        match self.at.peek() {
            Some('(') => {
                self.at.bump();
                if !self.at.eat('(') {
                    return Err(refuse_expansion(
                        start..self.at.pos,
                        "command substitution isn't accepted",
                    ));
                }
                let value = arithmetic::expansion(&mut self.at, start)?;
                word.push_expansion(&value.to_string(), start..self.at.pos);
                word.quoted = true;
                Ok(())
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.at.pos;
                while matches!(self.at.peek(), Some(c) if c == '_' || c.is_ascii_alphanumeric()) {
                    self.at.bump();
                }
                let name = &self.at.line[name..self.at.pos];
                let what = format!("variables aren't accepted: ${name}");
                self.variable(word, name, start, what)
            }
            Some('{')
                if self
                    .braced()
                    .is_some_and(|name| self.at.variable(name).is_some()) =>
            {
                let name = self.braced().unwrap_or_default();
                self.at.pos += name.len() + 2;
                self.variable(word, name, start, String::new())
            }
            Some(c @ ('{' | '0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                let what = format!("variables aren't accepted: ${c}");
                Err(refuse_expansion(start..self.at.here().end, what))
            }
            Some('\'' | '"') if !in_quotes => Err(refuse_expansion(
                start..self.at.here().end,
                "`$` before a quote isn't accepted",
            )),
            Some('[') => Err(refuse_expansion(
                start..self.at.here().end,
                "`$[` isn't accepted",
            )),
            _ => {
                word.push('$', here, true);
                Ok(())
            }
        }
    }
}

impl<'a> Parser<'a> {
    /// Returns the name in `{NAME}` at the cursor; `None` if that does not stand there.
    fn braced(&self) -> Option<&'a str> {
        let line: &'a str = self.at.line;
        let (name, _) = line[self.at.pos..].strip_prefix('{')?.split_once('}')?;
        Some(name)
    }

    /// Appends the value of a loop's variable to the word; `start` is the place of its `$`. Fails
    /// with the message `none` if there is no such variable.
    fn variable(
        &self,
        word: &mut Word,
        name: &str,
        start: usize,
        none: String,
    ) -> Result<(), CommandError> {
        let Some(value) = self.at.variable(name) else {
            return Err(refuse_expansion(start..self.at.pos, none));
        };
        word.push_expansion(value, start..self.at.pos);
        word.quoted = true;
        Ok(())
    }
}

/// Returns the error for an expansion that is not accepted at `span`.
fn refuse_expansion(span: Range<usize>, message: impl Into<String>) -> CommandError {
    CommandError::new(span, message, PLAIN_WORDS)
}

/// Refuses a NUL character at `span`: no argument of a program can hold one.
fn refuse_nul(c: char, span: Range<usize>) -> Result<(), CommandError> {
    if c == '\0' {
        return Err(CommandError::new(
            span,
            "a NUL byte can't be in a word",
            PLAIN_WORDS,
        ));
    }
    Ok(())
}

/// Returns the error for a quote at offset `open` that is never closed.
fn unterminated(open: usize, quote: &str) -> CommandError {
    CommandError::new(
        open..open + quote.len(),
        "this quote is never closed",
        format!("a second {quote}"),
    )
}

/// Refuses reserved words such as `if`, and assignments, in the place of a program's name.
fn refuse_shell_words(word: &Word) -> Result<(), CommandError> {
    if !word.quoted && RESERVED.contains(&word.text.as_str()) {
        return Err(CommandError::new(
            word.span.clone(),
            format!("`{}`: this control structure isn't accepted", word.text),
            CONTROL,
        ));
    }
    // `NAME=value` is an assignment whether or not the value is quoted, if the name is plain.
    let name = word.text.split_once('=').map_or("", |(name, _)| name);
    let is_name = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    // True if the name and its `=` stand in the line as they are, without quotes or escapes.
    let plain = word.pieces.first().is_some_and(|p| {
        p.verbatim && p.source.start == word.span.start && p.source.len() > name.len()
    });
    if is_name && plain {
        return Err(CommandError::new(
            word.source(0..name.len() + 1),
            format!("assigning the variable `{name}` isn't accepted"),
            "a command that begins with a program's name",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
