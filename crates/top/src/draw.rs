//! Draws one frame of a [`Player`]: lines of text, as many as fit.

use crate::help;
use crate::panels::{self, Panel};
use crate::player::Player;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

/// The least width of a frame in columns; narrower windows cut it off.
pub const NARROWEST: u16 = 80;

/// The colours; true: in use. Blue and orange are distinguishable with every kind of
/// colour-blindness, and every colour is accompanied by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette(pub bool);

impl Palette {
    /// Returns the style with that colour, or without any if colours are not in use.
    fn colour(self, colour: Color) -> Style {
        match self.0 {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// The style of a good state.
    pub fn fine(self) -> Style {
        self.colour(Color::Blue)
    }

    /// The style of a state that costs work.
    pub fn watch(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// The style of a state that stops programs.
    pub fn bad(self) -> Style {
        self.watch().add_modifier(Modifier::REVERSED)
    }
}

/// Makes a line of `width` columns with `left` in bold at its left end and `right` at its right
/// end; the left text is cut if both do not fit.
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

/// Makes the line above a panel: its title, then a rule to the window's edge.
fn rule(title: &str, width: usize) -> Line<'static> {
    let rest = "─".repeat(width.saturating_sub(title.chars().count() + 4));
    Line::from(vec![
        Span::raw("─ "),
        Span::styled(title.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(" {rest}")),
    ])
}

/// Removes lines from the panels until all fit `room` lines, each time the last line of the panel
/// with the most above its least number; when none has more, the last panel goes. A cut panel's
/// title says how many lines are missing.
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

/// Returns the lines of a frame of `width` columns and at most `height` lines: a title with `state`
/// at its right, then the help, the panels of the shown moment, or a sentence while there is none.
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
        // Lines left below the panels, which the histories may fill.
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

/// Returns the last line of the screen, which lists the keys of a live source or of playback.
fn keys(player: &Player) -> &'static str {
    match (player.follows(), player.has_cells()) {
        (true, _) => " q quit  space pause  ← → step back and on  ? help",
        (false, false) => " q quit  space pause  ← → step  + - speed  ? help",
        (false, true) => " q quit  space pause  ← → step  + - speed  c next cell  ? help",
    }
}

/// Draws a frame into `buffer` at `area`: the lines of the player's moment, and the keys in the
/// last row. It is drawn for at least 80 columns; a narrower window cuts it.
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

/// Returns a frame as text of 80 columns with all lines and without colours, for scripts.
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
