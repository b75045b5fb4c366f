//! Parses the options of programs: turns the words after a program's name into options with values.
//!
//! A program has a constant [`Syntax`], and reads the options that [`Syntax::read`] finds, in
//! order. Texts of errors have placeholders: `{option}`, `{value}`, and `{word}` for the whole
//! word.

use crate::error::CommandError;
use crate::shell::Word;
use crate::units::{self, Suffixes};
use std::ops::{Range, RangeInclusive};

/// Returns the operands of a program without options as paths; `accepted` is its usage.
///
/// # Errors
/// A word is an option, or is empty.
pub fn paths(operands: &[Word], accepted: &str) -> Result<Vec<String>, CommandError> {
    if let Some(option) = operands.iter().find(|w| w.text.starts_with('-')) {
        let what = format!("`{}` is not an option here", option.text);
        return Err(CommandError::new(option.span.clone(), what, accepted));
    }
    if let Some(empty) = operands.iter().find(|w| w.text.is_empty()) {
        let what = "a path is empty";
        return Err(CommandError::new(empty.span.clone(), what, accepted));
    }
    Ok(operands.iter().map(|w| w.text.clone()).collect())
}

/// How values are attached to options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `-s 4K`: each word is an option or a value.
    Words,
    /// As `Words`, and every option has a value, so a last word without one is reported before it
    /// is looked up.
    Pairs,
    /// `-t 4`, `-t4`, `--threads 4` and `--threads=4`.
    Inline,
    /// getopt(3): `-kv`, `-d5`, `-d 5`.
    Bundled,
}

/// The options of a program.
#[derive(Debug)]
pub struct Syntax {
    /// How values are attached to options.
    pub style: Style,
    /// Options with a value, each with its alternative name or the same again.
    pub values: &'static [(&'static str, &'static str)],
    /// Options without a value.
    pub flags: &'static [&'static str],
    /// Options of the original that are refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
    /// The accepted command line.
    pub usage: &'static str,
    /// The error text for an unknown option.
    pub unknown: &'static str,
    /// The error text for a word that is neither an option nor a value; empty: such words are
    /// operands of the program.
    pub operand: &'static str,
    /// The error text for an option without its value, and the accepted input (empty: the usage).
    pub no_value: (&'static str, &'static str),
    /// The error text for a wrong value.
    pub wrong: &'static str,
    /// The error text for a number out of range.
    pub out_of_range: &'static str,
    /// Errors about numbers give the accepted range instead of the usage.
    pub ranges: bool,
}

impl Syntax {
    /// Returns a syntax with the usual texts; the options are to be added.
    pub const fn new(style: Style, usage: &'static str) -> Self {
        const WRONG: &str = "`{value}` is not a value for `{option}`";
        Self {
            style,
            values: &[],
            flags: &[],
            refused: &[],
            usage,
            unknown: "`{word}` is not an option here",
            operand: "`{word}` is not an option here",
            no_value: ("`{option}` has no value", ""),
            wrong: WRONG,
            out_of_range: WRONG,
            ranges: false,
        }
    }

    /// Reads the options in the words after a program's name, in order and up to the first mistake.
    /// A flag has an empty value; an operand is the value of the option with the empty name.
    pub fn read<'a>(&'static self, words: &'a [Word]) -> Options<'a> {
        Options {
            syntax: self,
            words: words.iter(),
            bundle: None,
            failed: false,
        }
    }

    /// Builds an error about an option at `span` of the line: fills option and word into the
    /// placeholders of `sentence` and `accepted` (empty: the usage).
    fn complaint(
        &self,
        sentence: &str,
        found: &Found<'_>,
        span: Range<usize>,
        accepted: &str,
    ) -> CommandError {
        let fill = |sentence: &str| {
            sentence
                .replace("{option}", found.option)
                .replace("{word}", &found.word.text)
        };
        let accepted = match accepted {
            "" => self.usage.to_owned(),
            accepted => fill(accepted),
        };
        CommandError::new(span, fill(sentence), accepted)
    }
}

/// An option as written, before it is looked up.
struct Found<'a> {
    word: &'a Word,
    option: &'a str,
    /// The place of its name in the line.
    span: Range<usize>,
    /// The offset in the word at which an attached value starts.
    inline: Option<usize>,
}

/// An option with its value.
#[derive(Debug)]
pub struct OptionValue<'a> {
    syntax: &'static Syntax,
    /// The option's first name; empty for an operand.
    pub option: &'static str,
    /// The option as written.
    written: &'a str,
    /// The value; empty for a flag.
    pub text: &'a str,
    /// The place of the value in the line; for a flag, that of the flag.
    pub span: Range<usize>,
}

impl OptionValue<'_> {
    /// Builds an error about this option's value: fills option and value into the placeholders of
    /// `sentence`.
    fn complaint(&self, sentence: &str, value: &str, accepted: &str) -> CommandError {
        let message = sentence
            .replace("{option}", self.written)
            .replace("{value}", value);
        CommandError::new(self.span.clone(), message, accepted)
    }

    /// Returns the error that the text is no value of this option.
    pub fn wrong(&self) -> CommandError {
        self.complaint(self.syntax.wrong, self.text, self.syntax.usage)
    }

    /// Returns an error at the place of the value, with its own text and accepted input.
    pub fn error(&self, message: impl Into<String>, accepted: impl Into<String>) -> CommandError {
        CommandError::new(self.span.clone(), message, accepted)
    }

    /// Returns the value that the caller has parsed from the text, or the option's error.
    ///
    /// # Errors
    /// `value` is `None`: the text could not be parsed.
    pub fn read<T>(&self, value: Option<T>) -> Result<T, CommandError> {
        value.ok_or_else(|| self.wrong())
    }

    /// Parses the value as a whole number in `range`.
    ///
    /// # Errors
    /// The text is no whole number, or is out of range.
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, CommandError> {
        // The syntax has the texts of errors.
        let s = self.syntax;
        let number = units::whole(self.text);
        if let Some(n) = number.filter(|n| range.contains(n)) {
            return Ok(n);
        }
        let of_range = format!("a whole number from {} to {}", range.start(), range.end());
        let accepted = if s.ranges { &of_range } else { s.usage };
        Err(match number {
            Some(n) => self.complaint(s.out_of_range, &n.to_string(), accepted),
            None => self.complaint(s.wrong, self.text, accepted),
        })
    }

    /// Parses the value as a number with one of the suffixes, which scale it, in `range`.
    ///
    /// # Errors
    /// The text is no such number, or is out of range.
    pub fn scaled(
        &self,
        suffixes: Suffixes,
        range: RangeInclusive<u64>,
    ) -> Result<u64, CommandError> {
        self.read(units::scaled(self.text, suffixes).filter(|n| range.contains(n)))
    }
}

/// The options of a command line.
#[derive(Debug)]
pub struct Options<'a> {
    syntax: &'static Syntax,
    words: std::slice::Iter<'a, Word>,
    /// A word of bundled options, and the offset of the next option in it.
    bundle: Option<(&'a Word, usize)>,
    failed: bool,
}

impl<'a> Options<'a> {
    /// Reads the next option with its value, or the next operand, according to the syntax's style;
    /// `None` after the last word.
    fn find(&mut self) -> Option<Result<OptionValue<'a>, CommandError>> {
        if let Some((word, at)) = self.bundle.take() {
            return Some(self.bundled(word, at));
        }
        let word = self.words.next()?;
        let text = word.text.as_str();
        let whole = Found {
            word,
            option: text,
            span: word.span.clone(),
            inline: None,
        };
        let dashed = text.starts_with('-') && text.len() > 1;
        Some(match self.syntax.style {
            Style::Words => self.value(whole),
            Style::Pairs if self.words.as_slice().is_empty() => Err(self.without_value(&whole)),
            Style::Pairs => self.value(whole),
            Style::Inline if dashed => self.value(joined(whole)),
            Style::Bundled if dashed && text != "--" => self.bundled(word, 1),
            Style::Inline | Style::Bundled => self.operand(whole),
        })
    }

    /// Returns a word that is no option as an operand, or the error if the program has no operands.
    fn operand(&self, found: Found<'a>) -> Result<OptionValue<'a>, CommandError> {
        match self.syntax.operand {
            "" => Ok(OptionValue {
                syntax: self.syntax,
                option: "",
                written: found.option,
                text: found.option,
                span: found.span,
            }),
            sentence => Err(self
                .syntax
                .complaint(sentence, &found, found.span.clone(), "")),
        }
    }

    /// Reads the one-letter option at offset `at` of a word such as `-kv` or `-d5`, and its value.
    /// After a flag the rest of the word is kept for the next call.
    fn bundled(&mut self, word: &'a Word, at: usize) -> Result<OptionValue<'a>, CommandError> {
        let text = word.text.as_str();
        let letter = text[at..].chars().next().map_or(0, char::len_utf8);
        let behind = at + letter;
        let found = Found {
            word,
            option: &text[at..behind],
            span: word.source(at..behind),
            inline: (behind < text.len()).then_some(behind),
        };
        let value = self.value(found)?;
        // After a flag the rest of the word is further options.
        if value.text.is_empty() && behind < text.len() {
            self.bundle = Some((word, behind));
        }
        Ok(value)
    }

    /// Looks up an option as written and takes its value: attached to it, or the next word. A flag
    /// has an empty value. Fails if the option is unknown, refused, or lacks its value.
    fn value(&mut self, found: Found<'a>) -> Result<OptionValue<'a>, CommandError> {
        let s = self.syntax;
        let flag = s.flags.iter().find(|name| **name == found.option);
        let joined = found.inline.filter(|_| s.style == Style::Inline);
        if let (Some(option), None) = (flag, joined) {
            return Ok(OptionValue {
                syntax: s,
                option,
                written: found.option,
                text: "",
                span: found.span,
            });
        }
        let same = |(a, b): &&(&str, &str)| *a == found.option || *b == found.option;
        let Some((option, _)) = s.values.iter().find(same) else {
            let refused = s.refused.iter().find(|(name, _)| *name == found.option);
            let sentence = refused.map_or(s.unknown, |(_, why)| *why);
            return Err(s.complaint(sentence, &found, found.span.clone(), ""));
        };
        let (text, span) = match found.inline {
            Some(at) => {
                let text = found.word.text.as_str();
                (&text[at..], found.word.source(at..text.len()))
            }
            None => {
                let next = self.words.next();
                let next = next.ok_or_else(|| self.without_value(&found))?;
                (next.text.as_str(), next.span.clone())
            }
        };
        Ok(OptionValue {
            syntax: s,
            option,
            written: found.option,
            text,
            span,
        })
    }

    /// Builds the error for an option that needs a value and has none.
    fn without_value(&self, found: &Found<'_>) -> CommandError {
        let (sentence, accepted) = self.syntax.no_value;
        self.syntax
            .complaint(sentence, found, found.span.clone(), accepted)
    }
}

/// Splits an option from a value attached to it: after `=` of a long option, after the letter of a
/// short one. An option without an attached value is returned as it is.
fn joined(found: Found<'_>) -> Found<'_> {
    let text = found.option;
    let letter = || text.char_indices().nth(2).map(|(at, _)| (&text[..at], at));
    let parts = match text.starts_with("--") {
        true => text.find('=').map(|at| (&text[..at], at + 1)),
        false => letter(),
    };
    match parts {
        Some((option, at)) => Found {
            option,
            inline: Some(at),
            ..found
        },
        None => found,
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<OptionValue<'a>, CommandError>;

    /// Returns the next option or operand; after an error nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.find();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &Syntax = &Syntax {
        values: &[("-s", "-s"), ("-n", "-n")],
        flags: &["-a"],
        ..Syntax::new(Style::Words, "USAGE")
    };
    const INLINE: &Syntax = &Syntax {
        values: &[("-t", "--threads"), ("--keep", "--keep")],
        flags: &["--fast"],
        unknown: "no `{option}` in `{word}`",
        operand: "",
        ranges: true,
        ..Syntax::new(Style::Inline, "USAGE")
    };
    const BUNDLED: &Syntax = &Syntax {
        values: &[("d", "d"), ("é", "é")],
        flags: &["k", "v"],
        refused: &[("F", "never -F")],
        no_value: ("-{option} alone", "-{option} and more"),
        out_of_range: "-{option}: {value} is too much",
        ..Syntax::new(Style::Bundled, "USAGE")
    };

    fn words(line: &str) -> Vec<Word> {
        let mut lists = crate::shell::parse(line).unwrap();
        lists.remove(0).commands.remove(0).words.split_off(1)
    }

    /// Returns `option=value` for each option, then place and text of the error.
    fn read(syntax: &'static Syntax, line: &str) -> String {
        let words = words(line);
        let told = syntax.read(&words).map(|value| match value {
            Ok(value) => format!("{}={}@{}", value.option, value.text, &line[value.span]),
            Err(e) => format!("{}: {e}", &line[e.span.clone()]),
        });
        told.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn values_are_joined_as_the_style_says() {
        assert_eq!(read(PLAIN, "x -s 4 -a -n 5"), "-s=4@4 | -a=@-a | -n=5@5");
        assert_eq!(
            read(INLINE, "x -t4 --threads=5 a --threads 6 - -t 7 --fast"),
            "-t=4@4 | -t=5@5 | =a@a | -t=6@6 | =-@- | -t=7@7 | --fast=@--fast"
        );
        assert_eq!(
            read(BUNDLED, "x -kvd5 -d 6 -kd7 -é8"),
            "k=@k | v=@v | d=5@5 | d=6@6 | k=@k | d=7@7 | é=8@8"
        );
    }

    #[test]
    fn the_first_mistake_ends_it() {
        for (syntax, line, told) in [
            (
                PLAIN,
                "x -a y -s 4",
                "-a=@-a | y: `y` is not an option here; accepted: USAGE",
            ),
            (PLAIN, "x -s", "-s: `-s` has no value; accepted: USAGE"),
            (INLINE, "x -q5", "-q5: no `-q` in `-q5`; accepted: USAGE"),
            (
                INLINE,
                "x --fast=1",
                "--fast=1: no `--fast` in `--fast=1`; accepted: USAGE",
            ),
            (BUNDLED, "x -kF", "k=@k | F: never -F; accepted: USAGE"),
            (
                BUNDLED,
                "x -kd",
                "k=@k | d: -d alone; accepted: -d and more",
            ),
            (
                BUNDLED,
                "x y",
                "y: `y` is not an option here; accepted: USAGE",
            ),
        ] {
            assert_eq!(read(syntax, line), told, "{line}");
        }
    }

    #[test]
    fn numbers_lie_in_their_ranges() {
        let number = |syntax: &'static Syntax, line: &str| {
            let words = words(line);
            let value = syntax.read(&words).next().unwrap().unwrap();
            value.number(1..=9).map_err(|e| e.to_string())
        };
        assert_eq!(number(PLAIN, "x -s 9"), Ok(9));
        for (syntax, line, told) in [
            (
                PLAIN,
                "x -s 10",
                "`10` is not a value for `-s`; accepted: USAGE",
            ),
            (
                INLINE,
                "x --threads=+5",
                "`+5` is not a value for `--threads`; accepted: a whole number from 1 to 9",
            ),
            (BUNDLED, "x -d010", "-d: 10 is too much; accepted: USAGE"),
        ] {
            assert_eq!(number(syntax, line), Err(told.to_owned()), "{line}");
        }
    }
}
