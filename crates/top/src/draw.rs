//! One frame of what a [`Player`] shows: lines of text, as many as there is room for.

use crate::help;
use crate::panels::{self, Panel};
use crate::player::Player;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

/// Columns that a frame is made for at least; narrower ones are cut off.
pub const NARROWEST: u16 = 80;

/// Which colours there are. Blue and orange differ for every kind of colour-blindness, and no colour says what no
/// word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette(pub bool);

impl Palette {
    fn colour(self, colour: Color) -> Style {
        match self.0 {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// What is as it should be.
    pub fn fine(self) -> Style {
        self.colour(Color::Blue)
    }

    /// What somebody works against.
    pub fn watch(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// What stops programs.
    pub fn bad(self) -> Style {
        self.watch().add_modifier(Modifier::REVERSED)
    }
}

/// A title at the left and something at the right.
fn ends(left: &str, right: &str, width: usize) -> Line<'static> {
    let room = width.saturating_sub(right.chars().count() + 2);
    let left: String = match left.chars().count() > room {
        true => left
            .chars()
            .take(room.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => left.to_owned(),
    };
    let gap = " ".repeat(width.saturating_sub(left.chars().count() + right.chars().count() + 1));
    Line::from(vec![
        Span::styled(left, Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(gap),
        Span::raw(right.to_owned()),
    ])
}

/// A panel's rule: its title, then a line to the edge.
fn rule(title: &str, width: usize) -> Line<'static> {
    let rest = "─".repeat(width.saturating_sub(title.chars().count() + 4));
    Line::from(vec![
        Span::raw("─ "),
        Span::styled(title.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(" {rest}")),
    ])
}

/// Takes lines away where there is the most to spare until all fits. The last line of a panel that was cut says how
/// much is missing.
fn fit(panels: &mut Vec<Panel>, room: usize) {
    let all = |panels: &[Panel]| panels.iter().map(|p| p.lines.len() + 1).sum::<usize>();
    let mut cut = vec![0; panels.len()];
    while all(panels) > room {
        let spare = |p: &Panel| p.lines.len().saturating_sub(p.least);
        let most = (0..panels.len()).rev().max_by_key(|i| spare(&panels[*i]));
        match most.filter(|i| spare(&panels[*i]) > 0) {
            Some(i) => {
                panels[i].lines.pop();
                cut[i] += 1;
            }
            None => {
                panels.pop();
            }
        }
        if panels.is_empty() {
            return;
        }
    }
    for (panel, cut) in panels.iter_mut().zip(cut) {
        if cut > 0 {
            panel.title += &format!(" ({cut} more: a taller window shows them)");
        }
    }
}

/// The lines of a frame of so many columns and, at most, lines.
fn lines(
    player: &Player,
    state: &str,
    palette: Palette,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let title = format!("lowmark top  {}", player.title());
    let mut out = vec![ends(&title, state, width)];
    let room = height.saturating_sub(2);
    if player.helps() {
        out.extend(help::lines().into_iter().take(room));
    } else if let Some(moment) = player.moment() {
        let mut panels = panels::all(player, moment, palette, width);
        let spare = |panels: &[Panel]| {
            let used = panels.iter().map(|p| p.lines.len() + 1).sum::<usize>();
            room.saturating_sub(used)
        };
        let mut history = panels::history(player, width);
        history.lines.truncate(spare(&panels).saturating_sub(1));
        if history.lines.len() > 1 {
            panels.push(history);
        }
        fit(&mut panels, room);
        for panel in panels {
            out.push(rule(&panel.title, width));
            out.extend(panel.lines);
        }
    } else {
        out.push(Line::raw(" waiting for a second look: rates need two"));
    }
    out
}

/// The line of keys.
fn keys(player: &Player) -> &'static str {
    match (player.follows(), player.has_cells()) {
        (true, _) => " q quit  space pause  ← → step back and on  ? help",
        (false, false) => " q quit  space pause  ← → step  + - speed  ? help",
        (false, true) => " q quit  space pause  ← → step  + - speed  c next cell  ? help",
    }
}

/// Draws a frame.
pub fn frame(player: &Player, palette: Palette, area: Rect, buffer: &mut Buffer) {
    let (width, height) = (area.width.max(NARROWEST) as usize, area.height as usize);
    let lines = lines(player, &player.state(), palette, width, height);
    let rows = area.y..area.bottom().saturating_sub(1);
    for (line, y) in lines.into_iter().zip(rows) {
        line.render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
    }
    if height > 1 {
        let last = Rect {
            y: area.bottom() - 1,
            height: 1,
            ..area
        };
        Line::raw(keys(player)).render(last, buffer);
    }
}

/// A frame as text of 80 columns, with everything that there is, for scripts.
pub fn text(player: &Player) -> String {
    let lines = lines(
        player,
        &player.when(),
        Palette(false),
        NARROWEST as usize,
        usize::MAX,
    );
    let area = Rect::new(0, 0, NARROWEST, lines.len() as u16);
    let mut buffer = Buffer::empty(area);
    let mut out = String::new();
    for (line, y) in lines.into_iter().zip(0..) {
        line.render(
            Rect {
                y,
                height: 1,
                ..area
            },
            &mut buffer,
        );
        let row: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
        out += row.trim_end();
        out.push('\n');
    }
    out
}
