//! Tables of figures by policy and size that fit a terminal without a broken word or number.

use lab::terminal::Screen;

/// A table's cells with the names of its rows and columns.
pub struct Cells {
    /// The heading of the column of names of rows.
    pub corner: &'static str,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// The columns: the heading, and a cell for each row.
    pub columns: Vec<(String, Vec<String>)>,
}

impl Cells {
    /// Swaps rows and columns; `corner` is the heading of the new column of names.
    fn turned(&self, corner: &'static str) -> Self {
        let column = |(at, row): (usize, &String)| {
            let cells = self.columns.iter().map(|(_, cells)| cells[at].clone());
            (row.clone(), cells.collect())
        };
        Self {
            corner,
            rows: self.columns.iter().map(|(name, _)| name.clone()).collect(),
            columns: self.rows.iter().enumerate().map(column).collect(),
        }
    }

    /// Returns how many columns of each table stand side by side on a screen that is `width`
    /// columns wide; at least one.
    fn blocks(&self, width: usize) -> Vec<usize> {
        let longest = |cells: &[String], head: &str| {
            let cells = cells.iter().map(|c| c.chars().count());
            cells.max().unwrap_or(0).max(head.chars().count()) + PADDING
        };
        let names = longest(&self.rows, self.corner);
        let mut blocks = Vec::new();
        let mut used = usize::MAX;
        for (head, cells) in &self.columns {
            // The line between two columns takes one.
            let own = 1 + longest(cells, head);
            match blocks.last_mut() {
                Some(block) if used + own <= width => {
                    *block += 1;
                    used += own;
                }
                _ => {
                    blocks.push(1);
                    used = names + own;
                }
            }
        }
        blocks
    }

    /// Returns the lines of so many tables: those of the rows, the heading and the lines around it.
    fn lines(&self, blocks: &[usize]) -> usize {
        blocks.len() * (self.rows.len() + 5)
    }

    /// Formats the columns as tables, with so many columns in each; an empty line between them.
    fn text(&self, screen: Screen, blocks: &[usize]) -> String {
        let mut columns = &self.columns[..];
        let mut out = Vec::new();
        for block in blocks {
            let (these, others) = columns.split_at(*block);
            columns = others;
            let heads = these.iter().map(|(head, _)| head.as_str());
            let mut table = screen.table(std::iter::once(self.corner).chain(heads));
            for (at, name) in self.rows.iter().enumerate() {
                let cells = these.iter().map(|(_, cells)| cells[at].as_str());
                table.add_row(std::iter::once(name.as_str()).chain(cells));
            }
            table.align_right();
            out.push(format!("{table}\n"));
        }
        out.join("\n")
    }
}

/// Blanks beside the text of a column.
const PADDING: usize = 2;

/// Formats figures for a screen, with a row for each size. If the columns do not fit, rows and
/// columns are swapped, or stand in several tables, whichever has fewer lines; `turned` is the
/// heading of the names of columns when they are rows.
pub fn fitted(cells: &Cells, turned: &'static str, screen: Screen) -> String {
    let Some(width) = screen.width.map(usize::from) else {
        return cells.text(screen, &[cells.columns.len()]);
    };
    let blocks = cells.blocks(width);
    if blocks.len() == 1 {
        return cells.text(screen, &blocks);
    }
    let other = cells.turned(turned);
    let others = other.blocks(width);
    if other.lines(&others) < cells.lines(&blocks) {
        other.text(screen, &others)
    } else {
        cells.text(screen, &blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(policies: usize, sizes: usize) -> Cells {
        let names = [
            "lru",
            "generational",
            "w-tinylfu",
            "s3-fifo",
            "hyperbolic",
            "2q",
        ];
        let column = |p: usize| {
            let name = names[p % names.len()].to_owned();
            let cells = (0..sizes).map(|s| format!("0.{:06}", 100_000 + p * 1000 + s));
            (name, cells.collect())
        };
        Cells {
            corner: "pages",
            rows: (0..sizes).map(|s| (s * 12_345).to_string()).collect(),
            columns: (0..policies).map(column).collect(),
        }
    }

    /// Returns true if every word of the cells stands in the text in one piece, as often as it
    /// should.
    fn whole(cells: &Cells, text: &str) -> bool {
        let figures = cells.columns.iter().flat_map(|(_, cells)| cells);
        let words: Vec<&str> = text.split_whitespace().collect();
        let has = |word: &str| words.contains(&word);
        figures.clone().all(|f| has(f))
            && cells.columns.iter().all(|(head, _)| has(head))
            && cells.rows.iter().all(|row| has(row))
    }

    #[test]
    fn no_number_and_no_word_is_broken() {
        for width in [40, 60, 80, 120] {
            for policies in 1..17 {
                for sizes in [1, 2, 5, 30] {
                    let cells = cells(policies, sizes);
                    let screen = Screen {
                        width: Some(width),
                        colour: false,
                    };
                    let text = fitted(&cells, "policy, pages", screen);
                    assert!(whole(&cells, &text), "{width}: {text}");
                    let widest = text.lines().map(|line| line.chars().count()).max();
                    assert!(widest <= Some(width.into()), "{width}: {text}");
                }
            }
        }
    }

    #[test]
    fn few_sizes_of_many_policies_are_one_table() {
        let cells = cells(16, 2);
        let screen = |width| Screen {
            width,
            colour: false,
        };
        let wide = fitted(&cells, "policy, pages", screen(None));
        assert_eq!(wide.lines().count(), 3 + 2 + 1);
        let narrow = fitted(&cells, "policy, pages", screen(Some(80)));
        assert_eq!(narrow.lines().count(), 3 + 16 + 1, "{narrow}");
    }
}
