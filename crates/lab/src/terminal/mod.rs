//! Lays tables out for a terminal, or for a file that a terminal shows: figures are never broken,
//! columns fit the width, and claimed differences are coloured.

use crate::diagnostic::plain;
use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
    Width,
};

pub mod ruled;

/// The style of tables on a terminal: lines around the header and at the end.
pub const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// The terminal that a text is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Screen {
    /// Width in columns; `None`: lines are as long as they need to be.
    pub width: Option<u16>,
    /// True if differences are coloured.
    pub colour: bool,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Col<'a> {
    /// Words, which are wrapped where space is short; with the heading.
    Words(&'a str),
    /// Figures, right-aligned and never broken; with the heading.
    Figure(&'a str),
}

/// The meaning of a coloured cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A change for the better.
    Good,
    /// A change for the worse.
    Bad,
    /// A change that is neither good nor bad.
    Plain,
}

impl From<Option<bool>> for Tone {
    /// Returns the tone of a change: `None` is neither good nor bad.
    fn from(good: Option<bool>) -> Self {
        match good {
            Some(true) => Self::Good,
            Some(false) => Self::Bad,
            None => Self::Plain,
        }
    }
}

/// The sequences by which a coloured [`Grid`] shows tones: green, red, and the end of both. They
/// hide no text, and no other sequence that a terminal obeys is printed on standard output.
pub const TONES: [&str; 3] = ["\u{1b}[38;5;10m", "\u{1b}[38;5;9m", "\u{1b}[39m"];

/// A table to which rows are being added.
pub struct Grid {
    screen: Screen,
    /// Headings; true for columns of figures.
    heads: Vec<(String, bool)>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
}

/// Least width of a column of words that are at least this long.
const WORDS: usize = 12;
/// Longest word that is kept whole, such as the path of a results folder; a longer one is broken.
const LONGEST: usize = 44;
/// Blanks within a column, beside its text.
const PADDING: usize = 2;
/// Width that a column takes beside its text: its blanks, and one to the next column.
const GAP: usize = PADDING + 1;

impl Screen {
    /// Wraps a sentence between words, with further lines indented by four; ends with a newline.
    pub fn wrapped(self, sentence: &str) -> String {
        let width = self.width.map_or(usize::MAX, usize::from);
        let (mut out, mut used) = (String::new(), 0);
        for word in sentence.split(' ') {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > width {
                out.push_str("\n    ");
                used = 4;
            } else if used > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += length;
        }
        out.push('\n');
        out
    }

    /// Sets the table's width to that of the screen, and keeps words whole if there is room;
    /// without a width the table stays as it is.
    pub fn fitted(self, mut table: Table) -> Table {
        let Some(width) = self.width else {
            return table;
        };
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
        // The length of the longest word of each column, at most `LONGEST`.
        let mut least: Vec<usize> = Vec::new();
        for row in table.header().into_iter().chain(table.row_iter()) {
            for (at, cell) in row.cell_iter().enumerate() {
                let content = cell.content();
                let words = content.split_whitespace().map(|w| w.chars().count());
                let longest = words.max().unwrap_or(0).min(LONGEST);
                match least.get_mut(at) {
                    Some(known) => *known = longest.max(*known),
                    None => least.push(longest),
                }
            }
        }
        // Words stay whole where the screen has room for the longest of each column.
        if least.iter().map(|word| word + GAP).sum::<usize>() <= usize::from(width) + 1 {
            for (at, word) in least.into_iter().enumerate() {
                if let Some(column) = table.column_mut(at) {
                    let whole = (PADDING + word) as u16;
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(whole)));
                }
            }
        }
        table
    }

    /// Wraps those lines of a text between words that are longer than the screen is wide; further
    /// lines are indented by four more than the first.
    pub fn broken(self, text: &str) -> String {
        let Some(width) = self.width.map(usize::from) else {
            return text.to_owned();
        };
        let mut out = String::new();
        for line in text.lines() {
            // The line's own indent, in bytes.
            let own = line.len() - line.trim_start().len();
            if line.chars().count() <= width {
                out.push_str(line);
                out.push('\n');
                continue;
            }
            let inner = Self {
                width: Some((width - own.min(width / 2)) as u16),
                ..self
            };
            for part in inner.wrapped(line.trim_start()).lines() {
                out.push_str(&line[..own]);
                out.push_str(part);
                out.push('\n');
            }
        }
        out
    }

    /// Starts a table for this screen with these columns; rows are added to it.
    pub fn grid(self, columns: &[Col<'_>]) -> Grid {
        let heads = columns.iter().map(|c| match c {
            Col::Words(head) => (plain(head).into_owned(), false),
            Col::Figure(head) => (plain(head).into_owned(), true),
        });
        Grid {
            screen: self,
            heads: heads.collect(),
            rows: Vec::new(),
        }
    }
}

impl Grid {
    /// Adds a row of texts; those with a tone are coloured. The texts are escaped before they are,
    /// so that a name in them can't set a colour.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Tone>)>) {
        let cells = cells.into_iter();
        let cells = cells.map(|(text, tone)| (plain(&text).into_owned(), tone));
        self.rows.push(cells.collect());
    }

    /// Adds a row without colour.
    pub fn plain(&mut self, cells: impl IntoIterator<Item = String>) {
        self.row(cells.into_iter().map(|text| (text, None)));
    }

    /// Returns true if no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the indices of the columns that are not empty; columns of figures count as empty if
    /// all are `0`.
    fn filled(&self) -> Vec<usize> {
        let says = |i: usize| {
            let mut cells = self.rows.iter().filter_map(|r| r.get(i));
            // `heads[i].1`: true for a column of figures.
            cells.any(|(text, _)| !(text.is_empty() || self.heads[i].1 && text == "0"))
        };
        (0..self.heads.len()).filter(|&i| says(i)).collect()
    }

    /// Returns the length in characters of the longest word of a column, its head included; at most
    /// [`LONGEST`].
    fn longest_word(&self, i: usize) -> usize {
        let own = self.rows.iter().filter_map(|r| r.get(i));
        let texts = own.map(|(text, _)| &text[..]).chain([&self.heads[i].0[..]]);
        let words = texts.flat_map(|text| text.split(' '));
        let longest = words.map(|w| w.chars().count()).max();
        longest.unwrap_or(0).min(LONGEST)
    }

    /// Returns the width in characters that a column takes with its gap: figures in full, words
    /// wrapped, but at least [`WORDS`] wide if they are that long.
    fn takes(&self, i: usize) -> usize {
        let length = |text: &str| text.chars().count();
        // The column's texts; `heads[i]` is (its heading, true for figures).
        let own = self.rows.iter().filter_map(|r| r.get(i));
        let longest = own.map(|(text, _)| length(text)).max().unwrap_or(0);
        let whole = longest.max(length(&self.heads[i].0));
        GAP + if self.heads[i].1 {
            whole
        } else {
            whole.min(WORDS).max(self.longest_word(i))
        }
    }

    /// Splits the columns into tables that fit the width of the screen; returns the indices of each
    /// table's columns. If all do not fit beside each other, several tables follow each other, each
    /// with all columns of words and some of the figures.
    fn parts(&self) -> Vec<Vec<usize>> {
        let filled = self.filled();
        let Some(width) = self.screen.width else {
            return vec![filled];
        };
        let (figures, words): (Vec<usize>, Vec<usize>) =
            filled.into_iter().partition(|&i| self.heads[i].1);
        let fixed: usize = words.iter().map(|&i| self.takes(i)).sum();
        let mut parts: Vec<Vec<usize>> = vec![words.clone()];
        let mut used = fixed;
        for i in figures {
            let part = parts.last_mut().expect("one at least");
            // The last column needs no gap to the edge.
            if used + self.takes(i) > usize::from(width) + 1 && part.len() > words.len() {
                parts.push(words.clone());
                used = fixed;
            }
            used += self.takes(i);
            parts.last_mut().expect("one at least").push(i);
        }
        for part in &mut parts {
            part.sort_unstable();
        }
        parts
    }

    /// Returns the table as text, with a newline at its end. Empty columns are left out, and so are
    /// columns of figures that are all `0`.
    pub fn text(self) -> String {
        let parts = self.parts();
        let tables: Vec<String> = parts.iter().map(|part| self.part(part)).collect();
        tables.join("\n")
    }

    /// Returns, as text, the table with as many columns of figures as stand side by side, the
    /// headings of those that do not fit, and the headings of those that are left out because all
    /// of their figures are `0`.
    pub fn first(self) -> (String, [Vec<String>; 2]) {
        let parts = self.parts();
        let shown = self.part(&parts[0]);
        let heading = |i: usize| self.heads[i].0.clone();
        let figures = |i: &usize| self.heads[*i].1;
        let left = parts[1..].iter().flatten().copied().filter(figures);
        let filled = self.filled();
        let zero = (0..self.heads.len()).filter(|i| figures(i) && !filled.contains(i));
        (
            shown,
            [left.map(heading).collect(), zero.map(heading).collect()],
        )
    }

    /// Lays out the columns with these indices as one table, as text.
    fn part(&self, columns: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(RULED);
        if self.screen.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if let Some(width) = self.screen.width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        let cell = |i: usize, text: &str| {
            let cell = Cell::new(text);
            match self.heads[i].1 {
                true => cell.set_alignment(CellAlignment::Right),
                false => cell,
            }
        };
        table.set_header(columns.iter().map(|&i| cell(i, &self.heads[i].0)));
        for row in &self.rows {
            let cells = columns.iter().filter_map(|&i| {
                let (text, tone) = row.get(i)?;
                let cell = cell(i, text);
                Some(match tone {
                    Some(Tone::Good) => cell.fg(Color::Green),
                    Some(Tone::Bad) => cell.fg(Color::Red),
                    Some(Tone::Plain) | None => cell,
                })
            });
            table.add_row(cells.collect::<Vec<_>>());
        }
        if self.screen.width.is_some() {
            for (at, &i) in columns.iter().enumerate() {
                let Some(column) = table.column_mut(at) else {
                    continue;
                };
                column.set_constraint(match self.heads[i].1 {
                    true => ColumnConstraint::ContentWidth,
                    false => {
                        let least = (PADDING + self.longest_word(i)) as u16;
                        ColumnConstraint::LowerBoundary(Width::Fixed(least))
                    }
                });
            }
        }
        let mut out = String::new();
        for line in table.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Returns a unit as it stands behind an amount: with a blank in front, or nothing where there is
/// none.
pub fn spaced(unit: &str) -> String {
    match unit {
        "" => String::new(),
        unit => format!(" {unit}"),
    }
}

/// Returns a figure's name with the unit of its column in brackets, `name [ms]`, which may differ
/// from the unit in its name.
pub fn titled(name: &str, unit: &str) -> String {
    match unit {
        "" => name.to_owned(),
        unit => format!("{} [{unit}]", name.replace(" (seconds)", "")),
    }
}

/// Returns (the number to divide a figure by, the unit in which it can then be read), for figures
/// in `unit` of which the largest is `largest`: times in the largest unit that leaves a whole part,
/// bytes in KiB, MiB or GiB. Other units are kept, with 1.
pub fn readable(unit: &str, largest: f64) -> (f64, &str) {
    let times = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
    let of_time = |unit: &str| times.iter().find(|t| t.0 == unit).map(|t| t.1);
    if let Some(ns) = of_time(unit) {
        if largest == 0.0 || !largest.is_finite() {
            return (1.0, unit);
        }
        let fits = times.iter().find(|t| largest.abs() * ns >= t.1);
        let (name, of) = fits.unwrap_or(&times[3]);
        return (of / ns, name);
    }
    if unit == "bytes" {
        let sizes = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let fits = sizes
            .iter()
            .find(|s| largest.abs() >= f64::from(1_u32 << s.1));
        return fits.map_or((1.0, unit), |s| (f64::from(1_u32 << s.1), s.0));
    }
    (1.0, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of figures that are all 0 is left out of the first table, and named beside it.
    #[test]
    fn columns_of_zeros_are_named() {
        let mut grid = Screen::default().grid(&[
            Col::Words("policy"),
            Col::Figure("stalls"),
            Col::Figure("kills"),
        ]);
        grid.plain(["one", "0", "0"].map(String::from));
        grid.plain(["two", "3", "0"].map(String::from));
        let (shown, [left, zero]) = grid.first();
        assert!(
            shown.contains("stalls") && !shown.contains("kills"),
            "{shown}"
        );
        assert_eq!((left.len(), zero), (0, vec!["kills".to_owned()]));
    }

    #[test]
    fn words_of_tables_stay_whole() {
        let mut table = Table::new();
        table.load_style(RULED);
        table.set_header(["name", "value", "what it is"]);
        table.add_row([
            "cost_page_allocation",
            "120",
            "one allocation from a list of a CPU, with its test of watermarks",
        ]);
        let screen = Screen {
            width: Some(50),
            colour: false,
        };
        let text = screen.fitted(table).to_string();
        for word in ["cost_page_allocation", "allocation", "watermarks"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 50), "{text}");
    }

    #[test]
    fn long_lines_are_broken_and_keep_their_indentation() {
        let screen = |width| Screen {
            width,
            colour: false,
        };
        let text = "short\n  one two three four five\n";
        assert_eq!(screen(None).broken(text), text);
        assert_eq!(
            screen(Some(16)).broken(text),
            "short\n  one two three\n      four five\n"
        );
    }

    fn table(screen: Screen) -> String {
        let columns = [
            Col::Words("what"),
            Col::Figure("n"),
            Col::Figure("none"),
            Col::Words("end"),
        ];
        let mut grid = screen.grid(&columns);
        for what in ["a name of many words that nobody has room for", "short"] {
            let n = ("1,234,567".to_owned(), Some(Tone::Good));
            grid.row([
                (what.to_owned(), None),
                n,
                ("0".into(), None),
                (String::new(), None),
            ]);
        }
        grid.text()
    }

    #[test]
    fn a_table_fits_its_screen_and_its_figures_stay_whole() {
        let wide = table(Screen::default());
        assert_eq!(wide.lines().count(), 6, "{wide}");
        assert!(!wide.contains("none") && !wide.contains("end"), "{wide}");
        let narrow = table(Screen {
            width: Some(30),
            colour: false,
        });
        assert!(narrow.lines().all(|l| l.chars().count() <= 30), "{narrow}");
        assert_eq!(narrow.matches("1,234,567").count(), 2, "{narrow}");
        assert!(!narrow.contains('\u{1b}'));
    }

    #[test]
    fn a_sentence_breaks_between_words() {
        let screen = Screen {
            width: Some(20),
            colour: false,
        };
        let text = screen.wrapped("xfs: one is 46.4 % faster than another (p<0.001)");
        assert_eq!(
            text,
            "xfs: one is 46.4 %\n    faster than\n    another\n    (p<0.001)\n"
        );
        let whole = Screen::default().wrapped("a sentence of any length");
        assert_eq!(whole, "a sentence of any length\n");
    }

    #[test]
    fn what_does_not_fit_side_by_side_stands_below() {
        let heads: Vec<String> = (0..6).map(|i| format!("figure {i}")).collect();
        let mut columns = vec![Col::Words("policy")];
        columns.extend(heads.iter().map(|h| Col::Figure(h)));
        let screen = Screen {
            width: Some(40),
            colour: false,
        };
        let mut grid = screen.grid(&columns);
        let figures = (0..6).map(|i| format!("{i}00"));
        grid.plain(["linux-6.12".to_owned()].into_iter().chain(figures));
        let text = grid.text();
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert_eq!(text.matches("linux-6.12").count(), 3, "{text}");
        assert!(text.contains("figure 5") && text.contains("500"), "{text}");
    }

    #[test]
    fn a_word_is_not_broken() {
        let screen = Screen {
            width: Some(48),
            colour: false,
        };
        let mut grid = screen.grid(&[
            Col::Words("policy"),
            Col::Figure("a figure of a name"),
            Col::Figure("another of a name"),
        ]);
        let cells = ["linux-6.12 watermark_boost_factor=0", "1", "2"];
        grid.plain(cells.map(str::to_owned));
        let text = grid.text();
        assert!(
            text.contains("linux-6.12") && text.contains("watermark_boost_factor=0"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 48), "{text}");
    }

    #[test]
    fn claims_are_coloured_where_colour_is_wanted() {
        let text = table(Screen {
            width: None,
            colour: true,
        });
        assert!(text.contains("\u{1b}["), "{text:?}");
    }

    #[test]
    fn names_in_cells_set_no_colour() {
        for (colour, sequences) in [(true, 4), (false, 0)] {
            let screen = Screen {
                width: Some(60),
                colour,
            };
            let name = |which| format!("\u{1b}[8m{which}\u{202e}\u{1b}[38;5;10m");
            let head = name("head");
            let mut grid = screen.grid(&[Col::Words(&head), Col::Figure("n")]);
            grid.row([
                (name("good"), Some(Tone::Good)),
                ("1".to_owned(), Some(Tone::Bad)),
            ]);
            let mut text = grid.text();
            assert!(text.contains("\\u001b[8mgood\\u202e"), "{text:?}");
            let found: usize = TONES.iter().map(|t| text.matches(t).count()).sum();
            assert_eq!(found, sequences, "{text:?}");
            for tone in TONES {
                text = text.replace(tone, "");
            }
            assert!(
                !text.contains('\u{1b}') && !text.contains('\u{202e}'),
                "{text:?}"
            );
        }
    }

    #[test]
    fn units_can_be_read() {
        assert_eq!(readable("us", 1_500_000.0), (1e6, "s"));
        assert_eq!(readable("us", 900.0), (1.0, "us"));
        assert_eq!(readable("s", 0.002), (1e-3, "ms"));
        assert_eq!(readable("s", 0.0), (1.0, "s"));
        assert_eq!(readable("bytes", 3e9), (f64::from(1_u32 << 30), "GiB"));
        assert_eq!(readable("pages", 1e9), (1.0, "pages"));
    }
}
