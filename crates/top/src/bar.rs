//! Bars with marks, and lines of blocks for histories.

use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

/// A bar with a filled and a hatched part, and letters as marks.
pub struct Bar<'a> {
    /// Width in columns.
    pub width: usize,
    /// The value of the whole width.
    pub scale: f64,
    /// The value of the filled part.
    pub filled: f64,
    /// The value of the hatched part, which follows the filled one.
    pub hatched: f64,
    /// Letters and their values; of two at the same column the first is shown.
    pub marks: &'a [(char, f64)],
    /// The style of the filled part.
    pub style: Style,
}

impl Bar<'_> {
    /// Returns the column at which a value stands, rounded, from 0; it may lie beyond the bar.
    fn column(&self, value: f64) -> usize {
        (value / self.scale * self.width as f64).round() as usize
    }

    /// Returns the bar as runs of text of one style: full blocks for the filled part, hatched ones
    /// after it, dots for the rest, and the marks' letters over them. A bar beyond the scale ends
    /// in an arrow.
    pub fn spans(&self) -> Vec<Span<'static>> {
        let (filled, both) = (
            self.column(self.filled),
            self.column(self.filled + self.hatched),
        );
        let plain = Style::new();
        let mark = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
        let mut spans: Vec<Span<'static>> = Vec::new();
        for i in 0..self.width {
            let at = |(_, value): &&(char, f64)| self.column(*value).min(self.width - 1) == i;
            let over = i + 1 == self.width && self.filled + self.hatched > self.scale;
            let (text, style) = match self.marks.iter().find(at) {
                Some((letter, _)) => (*letter, mark),
                None if over => ('▶', self.style),
                None if i < filled => ('█', self.style),
                None if i < both => ('▒', self.style),
                None => ('·', plain),
            };
            match spans.last_mut() {
                Some(last) if last.style == style => last.content.to_mut().push(text),
                _ => spans.push(Span::styled(text.to_string(), style)),
            }
        }
        spans
    }
}

/// Formats the last `width` values as a line of blocks, whose height goes from 0 to the values'
/// maximum; a missing value is a gap. Returns the line and the maximum, which is `None` if all
/// values are missing.
pub fn history(values: &[Option<f64>], width: usize) -> (String, Option<f64>) {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let own = &values[values.len().saturating_sub(width)..];
    let most = own.iter().flatten().copied().reduce(f64::max);
    let block = |value: &Option<f64>| match (value, most) {
        (Some(v), Some(most)) if most > 0.0 => {
            STEPS[(v / most * 7.0).round().clamp(0.0, 7.0) as usize]
        }
        (Some(_), _) => STEPS[0],
        (None, _) => ' ',
    };
    (own.iter().map(block).collect(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(filled: f64, hatched: f64, marks: &[(char, f64)]) -> String {
        let bar = Bar {
            width: 10,
            scale: 100.0,
            filled,
            hatched,
            marks,
            style: Style::new(),
        };
        bar.spans().iter().map(|s| s.content.as_ref()).collect()
    }

    #[test]
    fn marks_stand_at_their_own_place() {
        assert_eq!(bar(30.0, 20.0, &[('m', 10.0), ('h', 70.0)]), "█m█▒▒··h··");
        assert_eq!(bar(200.0, 0.0, &[('l', 50.0)]), "█████l███▶");
        assert_eq!(bar(0.0, 0.0, &[('d', 100.0)]), "·········d");
        assert_eq!(bar(0.0, 0.0, &[('m', 10.0), ('l', 12.0)]), "·m········");
    }

    #[test]
    fn a_history_is_as_long_as_it_fits_and_has_gaps() {
        let values = [Some(9.0), Some(0.0), None, Some(7.0), Some(14.0)];
        assert_eq!(history(&values, 4), ("▁ ▅█".to_owned(), Some(14.0)));
        assert_eq!(history(&[Some(0.0)], 4), ("▁".to_owned(), Some(0.0)));
        assert_eq!(history(&[None], 4), (" ".to_owned(), None));
    }
}
