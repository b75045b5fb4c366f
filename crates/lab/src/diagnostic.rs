//! Errors about wrong input: each names the file, the line, the key and what would be accepted.

use miette::{
    LabeledSpan, MietteError, MietteSpanContents, NamedSource, SourceCode, SourceSpan, SpanContents,
};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text of the user's, with the name under which the user knows it.
#[derive(Clone)]
pub struct Source {
    text: Arc<NamedSource<String>>,
    /// The text as it is displayed: of the same length, with control characters replaced.
    shown: Arc<NamedSource<String>>,
}

impl Source {
    /// Wraps a user's text under the name of its file; control characters are replaced where the
    /// text is shown.
    pub fn new(name: impl AsRef<str>, text: impl Into<String>) -> Self {
        let (name, text) = (plain(name.as_ref()), text.into());
        let shown = as_long(&text);
        let text = Arc::new(NamedSource::new(&name, text));
        let shown = shown.map_or_else(
            || Arc::clone(&text),
            |shown| Arc::new(NamedSource::new(&name, shown)),
        );
        Self { text, shown }
    }

    /// Returns the name of the text.
    pub fn name(&self) -> &str {
        self.text.name()
    }

    /// Returns the text itself.
    pub fn text(&self) -> &str {
        self.text.inner()
    }
}

/// Most bytes of a source line that are shown whole; of a longer one, the part around the mistake.
const MOST_SHOWN: usize = 160;
/// Most lines of source shown around a mistake that reaches over many.
const MOST_LINES: usize = 40;
/// Bytes of a long line that are shown before and after the beginning of the mistake, which fill a
/// terminal of 80 columns beside the line's number.
const BEFORE: usize = 24;
const AFTER: usize = 44;

impl Source {
    /// Returns the lines around a mistake in full, with so many lines before and after it, for
    /// display if they are short.
    fn lines<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        self.shown.read_span(span, before, after)
    }

    /// Returns the part of its line that is shown for a mistake at `span` (bytes) whose lines are
    /// too long to show whole; `None`: the lines are short enough.
    fn cut(&self, span: &Range<usize>) -> Option<Range<usize>> {
        let whole: SourceSpan = (span.start, span.len()).into();
        let lines = self.lines(&whole, 1, 1).ok()?;
        let mut lines = lines.data().split(|&byte| byte == b'\n');
        let short = |line: &[u8]| line.len() <= MOST_SHOWN;
        if lines.by_ref().take(MOST_LINES).all(short) && lines.next().is_none() {
            return None;
        }
        let text = self.text();
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let from = text.ceil_char_boundary(start.saturating_sub(BEFORE).max(line_start));
        let to = text.floor_char_boundary((start + AFTER).min(line_end));
        Some(from..to.max(start))
    }
}

impl SourceCode for Source {
    /// Returns the source lines that are shown around a mistake; of a line that is too long, the
    /// part around the mistake.
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let Some(cut) = self.cut(&(span.offset()..span.offset() + span.len())) else {
            return self.lines(span, before, after);
        };
        let place = Place {
            source: self.clone(),
            span: span.offset()..span.offset(),
        };
        let (line, column) = place.line_column();
        // With no context lines the caller asks for the place where the mistake begins.
        let from = if before + after == 0 {
            span.offset().clamp(cut.start, cut.end)
        } else {
            cut.start
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name().to_owned(),
            &self.shown.inner().as_bytes()[from..cut.end],
            (from, cut.end - from).into(),
            line - 1,
            column - 1,
            1,
        )))
    }
}

/// Returns true for characters that a terminal obeys instead of showing them: control characters
/// (Unicode's category Cc), and format characters that are invisible or change the order of the
/// letters beside them (Cf, and the separators of lines and paragraphs). Signs of Arabic and
/// related scripts that belong to Cf and are visible are none.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Returns true for characters that are shown as they are: those that no terminal obeys, line feeds
/// and tabs.
fn is_plain(c: char) -> bool {
    !is_obeyed(c) || c == '\n' || c == '\t'
}

/// Returns a text without characters that terminals obey ([`is_obeyed`]) other than line feeds and
/// tabs: others are escaped as in JSON, such as `\u001b`, because names can come from files that
/// other people wrote.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_plain(c) {
            true => out.push(c),
            false => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out.into()
}

/// Returns the text with each character that terminals obey replaced by a visible one of equal
/// length in bytes (a space, `?`, `¿`, U+FFFD, U+10102), so that byte offsets in it stay valid;
/// `None` if there are none.
fn as_long(text: &str) -> Option<String> {
    let other = |c: char| match (c, c.len_utf8()) {
        (c, _) if is_plain(c) => c,
        ('\r', _) => ' ',
        (_, 1) => '?',
        (_, 2) => '\u{bf}',
        (_, 3) => '\u{fffd}',
        _ => '\u{10102}',
    };
    (!text.chars().all(is_plain)).then(|| text.chars().map(other).collect())
}

/// Prepares an error sentence, which may repeat input, for display: [`plain`], and with the middle
/// left out if it is longer than 2000 bytes.
fn readable(text: &str) -> Cow<'_, str> {
    const HEAD: usize = 1500;
    const TAIL: usize = 300;
    if text.len() <= 2000 {
        return plain(text);
    }
    let head = &text[..text.floor_char_boundary(HEAD)];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL)..];
    plain(&format!("{head} … {tail}")).into_owned().into()
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name())
    }
}

/// A range of bytes in a source.
#[derive(Debug, Clone)]
pub struct Place {
    /// The text that the range lies in.
    pub source: Source,
    /// The range, in bytes.
    pub span: Range<usize>,
}

impl Place {
    /// Returns the line and column, both from 1, at which the range begins; columns count
    /// characters, not bytes.
    pub fn line_column(&self) -> (usize, usize) {
        let text = self.source.text();
        let mut at = self.span.start.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }

    /// Returns the text in this range; empty if the range is not in the source.
    pub fn text(&self) -> &str {
        self.source.text().get(self.span.clone()).unwrap_or("")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name())
    }
}

/// One mistake in the user's input.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", readable(message))]
pub struct Diagnostic {
    /// The mistake, with the key or the file.
    pub message: String,
    /// The input that would be accepted.
    pub accepted: String,
    /// The place of the mistake; `None` if it is not in a text (a missing file, a command line
    /// option).
    pub place: Option<Box<Place>>,
}

impl Diagnostic {
    /// Builds a diagnostic for a mistake at a place in a text.
    pub fn at(place: &Place, message: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            accepted: accepted.into(),
            place: Some(Box::new(place.clone())),
        }
    }

    /// Builds a diagnostic for a mistake that is not in a text.
    pub fn placeless(message: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            accepted: accepted.into(),
            place: None,
        }
    }
}

impl miette::Diagnostic for Diagnostic {
    /// Returns the input that would be accepted, as the help text of the error.
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        if self.accepted.is_empty() {
            None
        } else {
            Some(Box::new(readable(&self.accepted)))
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|p| &p.source as &dyn SourceCode)
    }

    /// Returns the mark that is put under the mistake, not beyond the part of its line that is
    /// shown.
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let span = &place.span;
        let end = place.source.cut(span).map_or(span.end, |cut| cut.end);
        Some(Box::new(std::iter::once(LabeledSpan::new(
            Some("here".into()),
            span.start,
            end.min(span.end).saturating_sub(span.start),
        ))))
    }
}

/// Words longer than this many bytes are not taken as a misspelling of a name: comparing them takes
/// time and memory proportional to the product of both lengths.
pub const LONGEST_NAME: usize = 80;

/// Returns the word of `known` that `word` was probably meant to be: the nearest by edit distance,
/// if at most a third of the letters (or one) differ. `None`: no word is so near, or `word` is too
/// long.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_NAME {
        return None;
    }
    known
        .into_iter()
        .map(|k| {
            (
                strsim::damerau_levenshtein(&word.to_lowercase(), &k.to_lowercase()),
                k,
            )
        })
        .filter(|(distance, k)| *distance <= 1.max(k.len().max(word.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// Returns the sentence that lists the accepted words, preceded by the nearest one as a guess.
pub fn one_of(word: &str, known: &[&str]) -> String {
    let list = match known {
        [] => "nothing".into(),
        known => known.join(", "),
    };
    match did_you_mean(word, known.iter().copied()) {
        Some(guess) => format!("did you mean `{guess}`? accepted: {list}"),
        None => format!("accepted: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("f", "äb\ncé = 1");
        let at = |start| {
            Place {
                source: source.clone(),
                span: start..start,
            }
            .line_column()
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 2));
        assert_eq!(at(4), (2, 1));
        assert_eq!(at(7), (2, 3));
        assert_eq!(at(999), (2, 7));
    }

    fn report(text: &str, span: Range<usize>, message: &str) -> String {
        let place = Place {
            source: Source::new("f.toml", text),
            span,
        };
        format!(
            "{:?}",
            miette::Report::new(Diagnostic::at(&place, message, "accepted: x"))
        )
    }

    /// A column beyond 65,535 once panicked: the width of a formatted field has 16 bits.
    #[test]
    fn a_mistake_far_to_the_right_is_shown_with_what_stands_around_it() {
        for (before, after) in [
            (70_000, 0),
            (70_000, 10_000_000),
            (0, 10_000_000),
            (3, 70_000),
        ] {
            let line = format!("{}wrong{}", "a".repeat(before), "ä".repeat(after / 2));
            let text = format!("x = 1\n{line}\ny = 2\n");
            let start = 6 + before;
            let all = report(&text, start..start + 5, "it is wrong");
            assert!(all.contains(&format!("f.toml:2:{}", before + 1)), "{all}");
            assert!(all.contains("wrong") && all.contains("here"), "{all}");
            let widest = all.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(80), "{widest:?} columns: {all}");
            // The label covers the rest of the line.
            let all = report(&text, start..start + 5 + after, "it is wrong");
            assert!(all.contains("here") && all.len() < 1000, "{all}");
        }
        let many = format!("[\n{}]\n", "1,\n".repeat(100_000));
        let all = report(&many, 0..many.len() - 1, "a long list");
        assert!(all.contains("here") && all.len() < 1000, "{all}");
        let all = report("x", 1..1, &"ö".repeat(5_000_000));
        assert!(all.len() < 12_000, "{} bytes", all.len());
    }

    /// Control characters would be obeyed by a terminal.
    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let text = "a = \"\u{1b}[2J\u{9b}1A\"\r\nb = 1\n";
        let place = Place {
            source: Source::new("f\u{7}.toml", text),
            span: 4..14,
        };
        let diagnostic = Diagnostic::at(&place, "no `\u{1b}[2J`", "accepted: \u{8}x");
        let all = format!("{:?}", miette::Report::new(diagnostic.clone()));
        let odd = |c: char| c.is_control() && c != '\n';
        assert!(!all.contains(odd), "{all:?}");
        assert!(
            all.contains("no `\\u001b[2J`") && all.contains("accepted: \\u0008x"),
            "{all}"
        );
        assert!(
            all.contains("f\\u0007.toml:1:5") && all.contains("?[2J¿1A"),
            "{all}"
        );
        assert_eq!(place.source.text(), text, "what is read stays");
        assert_eq!(diagnostic.to_string(), "no `\\u001b[2J`");
        assert_eq!(as_long("ä\tb\n"), None);
    }

    /// Such characters would hide letters, or show them in another order than they are in.
    #[test]
    fn format_characters_are_shown_and_not_sent() {
        let odd = "a\u{202e}b\u{200b}\u{2066}\u{feff}\u{ad}\u{61c}\u{2028}\u{e0041}c";
        let escaped = "a\\u202eb\\u200b\\u2066\\ufeff\\u00ad\\u061c\\u2028\\udb40\\udc41c";
        assert_eq!(plain(odd), escaped);
        let read: String = serde_json::from_str(&format!("\"{}\"", plain(odd))).unwrap();
        assert_eq!(read, odd);
        let shown = as_long(odd).unwrap();
        assert_eq!(shown.len(), odd.len());
        assert!(shown.chars().all(is_plain), "{shown:?}");
        // Letters, accents, flags and the visible signs of Arabic stay.
        for text in ["e\u{301}", "\u{600}", "🇩🇪", "שלום", "ä"] {
            assert!(matches!(plain(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn guesses_are_near() {
        let known = ["cpus", "hz", "node", "dirty_limits"];
        assert_eq!(did_you_mean("cpu", known), Some("cpus"));
        assert_eq!(did_you_mean("dirty-limit", known), Some("dirty_limits"));
        assert_eq!(did_you_mean("elephant", known), None);
        assert_eq!(did_you_mean("", []), None);
        assert_eq!(did_you_mean(&"cpus".repeat(1 << 20), known), None);
    }
}
