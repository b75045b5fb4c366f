//! The panels of a frame: one for each question, its lines in order of importance.

use crate::amount::{self, UNTOLD};
use crate::bar::{self, Bar};
use crate::draw::Palette;
use crate::moment::{
    Class, Dirty, Disk, Latency, Moment, PRESSURES, Pressure, Reclaim, Wait, Zone,
};
use crate::player::Player;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A panel.
pub struct Panel {
    /// The panel's title.
    pub title: String,
    /// The panel's lines.
    pub lines: Vec<Line<'static>>,
    /// The least number of lines, if there is room for the panel at all.
    pub least: usize,
}

impl Panel {
    /// Makes a panel; `least` is the number of lines that it keeps when the window is small.
    fn new(title: &str, least: usize, lines: Vec<Line<'static>>) -> Self {
        Self {
            title: title.to_owned(),
            lines,
            least,
        }
    }
}

/// Returns the panels of a moment, in the order of the screen, each of `width` columns. A live
/// cache has one more, for its latencies.
pub fn all(player: &Player, moment: &Moment, palette: Palette, width: usize) -> Vec<Panel> {
    let mut all = vec![
        zones(&moment.zones, palette, width),
        dirty(&moment.dirty, palette, width),
        reclaim(moment, player.whole()),
        waits(moment, palette),
        disks(&moment.disks),
    ];
    if !moment.latencies.is_empty() {
        all.insert(3, latencies(&moment.latencies));
    }
    all
}

/// Describes a zone's free pages in relation to its watermarks: returns the words and their style.
fn standing(zone: &Zone, palette: Palette) -> (&'static str, Style) {
    let [min, low, high] = zone.marks;
    match zone.free {
        free if free < min => ("BELOW MIN", palette.bad()),
        free if free < low => ("below low", palette.watch()),
        free if free < high => ("below high", palette.fine()),
        _ => ("above high", palette.fine()),
    }
}

/// Makes the panel of zones: for each a bar of free pages with the watermarks as marks, free pages,
/// the watermarks, and the words about them.
fn zones(zones: &[Zone], palette: Palette, width: usize) -> Panel {
    let line = |zone: &Zone| {
        let (words, style) = standing(zone, palette);
        let [min, low, high] = zone.marks;
        let bar = Bar {
            width: width - 50,
            scale: (2.0 * high).max(1.0),
            filled: zone.free,
            hatched: 0.0,
            marks: &[('m', min), ('l', low), ('h', high)],
            style,
        };
        let mut spans = vec![Span::raw(format!(" {:<9.9}", zone.name))];
        spans.extend(bar.spans());
        // Formats the three watermarks in the unit of the largest.
        let unit = amount::size(high)
            .split_once(' ')
            .map_or("", |(_, unit)| unit)
            .to_owned();
        // Pages of 4 KiB to that unit.
        let by = 4.0
            / [1.0, 1024.0, 1_048_576.0, 1_073_741_824.0][["KiB", "MiB", "GiB", "TiB"]
                .iter()
                .position(|u| *u == unit)
                .unwrap_or(0)];
        let marks = [min, low, high].map(|mark| match mark * by {
            v if v < 9.95 && by < 4.0 => format!("{v:.1}"),
            v => format!("{v:.0}"),
        });
        spans.push(Span::raw(format!(" {:>8}", amount::size(zone.free))));
        spans.push(Span::raw(format!(" {:>15} {unit} ", marks.join("/"))));
        spans.push(Span::styled(words, style));
        Line::from(spans)
    };
    let lines = match zones.is_empty() {
        true => vec![Line::raw(format!(" {UNTOLD}"))],
        false => zones.iter().map(line).collect(),
    };
    let title = "zones: free against min (m), low (l), high (h); a bar is twice high";
    Panel::new(title, 1, lines)
}

/// Describes dirty pages in relation to the limits: returns the words and their style; no words if
/// a figure is not reported. Since 3.2 writers are paused from the middle between the limits on
/// (`docs/reference/writeback.md`).
fn held(dirty: &Dirty, palette: Palette) -> (&'static str, Style) {
    let both = dirty.dirty.zip(dirty.writeback).map(|(d, w)| d + w);
    let (Some(both), Some(background), Some(limit)) = (both, dirty.background, dirty.limit) else {
        return ("", Style::new());
    };
    match both {
        v if v >= limit => ("OVER THE LIMIT", palette.bad()),
        v if v >= f64::midpoint(background, limit) => ("writers slowed", palette.watch()),
        // The flushers stop according to dirty pages only.
        _ if dirty.dirty >= Some(background) => ("flushers write", palette.fine()),
        _ => ("below background", palette.fine()),
    }
}

/// Makes the panel of dirty pages: dirty and writeback pages with the two limits, a bar of them,
/// and how many pages a second are dirtied and written.
fn dirty(dirty: &Dirty, palette: Palette, width: usize) -> Panel {
    let (words, style) = held(dirty, palette);
    let first = format!(
        " {} dirty, {} writeback; b {}, d {}  ",
        amount::pages(dirty.dirty),
        amount::pages(dirty.writeback),
        amount::pages(dirty.background),
        amount::pages(dirty.limit)
    );
    let mut spans = vec![Span::raw(" ")];
    let flows = format!(
        "  dirtied {}, written {}",
        amount::flow(dirty.dirtied),
        amount::flow(dirty.written)
    );
    match dirty.limit {
        Some(limit) => {
            let bar = Bar {
                width: (width - 1).saturating_sub(flows.len().max(36)),
                scale: (1.1 * limit).max(1.0),
                filled: dirty.dirty.unwrap_or(0.0),
                hatched: dirty.writeback.unwrap_or(0.0),
                marks: &[('d', limit), ('b', dirty.background.unwrap_or(limit))],
                style,
            };
            spans.extend(bar.spans());
        }
        None => spans.push(Span::raw(format!("limits {UNTOLD}"))),
    }
    spans.push(Span::raw(flows));
    let lines = vec![
        Line::from(vec![Span::raw(first), Span::styled(words, style)]),
        Line::from(spans),
    ];
    Panel::new(
        "dirty pages against the background (b) and dirty (d) limits",
        2,
        lines,
    )
}

/// Makes the panel of reclaim: a table of kswapd and direct reclaim at the left, other rates at the
/// right. If the moments do not report reclaim, the means over the `whole` run are shown.
fn reclaim(moment: &Moment, whole: Option<&Reclaim>) -> Panel {
    let both = moment.reclaim.both;
    let of_run = whole.filter(|_| moment.reclaim.is_silent());
    let r = of_run.unwrap_or(&moment.reclaim);
    let swap = match (r.swap_in, r.swap_out) {
        (None, None) => UNTOLD.to_owned(),
        (read, written) => format!("{} / {}", amount::rate(read), amount::rate(written)),
    };
    let cpu = amount::share(moment.kswapd_cpu);
    let class = |name: &str, class: &Class| {
        [
            name.to_owned(),
            amount::rate(class.scanned),
            amount::rate(class.freed),
            amount::of(class.freed, class.scanned),
        ]
    };
    let heads = ["", "scanned", "freed", "of scanned"].map(str::to_owned);
    let mut left = vec![
        heads,
        class("kswapd", &r.kswapd),
        class("direct", &r.direct),
    ];
    if both != Class::default() {
        left.insert(1, class("both now", &both));
    }
    let right = [
        ("allocstall", amount::rate(r.stalls)),
        ("refaults of files", amount::rate(r.refaults_file)),
        ("refaults of anonymous", amount::rate(r.refaults_anon)),
        ("swap in / out", swap),
        ("written by reclaim", amount::rate(r.written)),
    ];
    // The row `i`: a row of the table, kswapd's CPU below it, and a rate at the right.
    let line = |i: usize| {
        let rows = left.len();
        let left = match (left.get(i), i) {
            (Some([name, a, b, c]), _) => format!(" {name:<9}{a:>11} {b:>11} {c:>11}"),
            (None, i) if i == rows => format!(" kswapd takes {cpu} of a CPU"),
            (None, _) => String::new(),
        };
        let (what, value) = &right[i];
        let room = 33_usize.saturating_sub(what.len());
        Line::raw(format!("{left:<46}{what}{value:>room$}"))
    };
    let title = match of_run {
        Some(_) if both != Class::default() => {
            "reclaim, pages a second: both at this moment, the rest over the whole run"
        }
        Some(_) => "reclaim, pages a second, over the whole run",
        None => "reclaim, pages a second",
    };
    Panel::new(title, 4, (0..right.len()).map(line).collect())
}

/// Makes the panel of a live cache's latencies: calls timed per second, and the 99th and 99.9th
/// percentiles; two kinds of calls per line.
fn latencies(latencies: &[Latency]) -> Panel {
    let head = "              timed/s      p99    p99.9";
    let mut lines = vec![Line::raw(format!("{head} {head}"))];
    for pair in latencies.chunks(2) {
        let mut line = String::new();
        for l in pair {
            let [p99, p999] = l.shares.map(amount::time);
            let timed = amount::rate(Some(l.timed));
            line += &format!(" {:<10} {timed:>9} {p99:>8} {p999:>8} ", l.name);
        }
        lines.push(Line::raw(line.trim_end().to_owned()));
    }
    Panel::new("how long calls took since the look before", 4, lines)
}

/// Makes the panel of waiting: pressure in the first line, then the groups of waiting tasks, with
/// the function they wait in and its meaning. Waits of the dirty limit and of reclaim throttling
/// are marked.
fn waits(moment: &Moment, palette: Palette) -> Panel {
    let own = |(name, p): (&&str, &Pressure)| match (p.some, p.full) {
        (None, None) => format!("{name} {UNTOLD}"),
        (some, full) => format!("{name} {}/{}", amount::share(some), amount::share(full)),
    };
    let pressure: Vec<String> = PRESSURES.iter().zip(&moment.pressure).map(own).collect();
    let mut lines = vec![Line::raw(format!(
        " pressure, some/full: {}",
        pressure.join("  ").replace(" %/", "/")
    ))];
    let line = |wait: &Wait| {
        let function = wait.on.as_deref().unwrap_or(UNTOLD);
        let tasks = format!(" {:>3} ", wait.tasks);
        let text = match &*wait.who {
            "" => format!("{function:<52.52}"),
            who => format!("{who:<20.20} {function:<31.31}"),
        };
        let style = match wait.means {
            "dirty limit" | "reclaim throttle" => palette.watch(),
            _ => Style::new(),
        };
        Line::from(vec![
            Span::raw(tasks + &text),
            Span::styled(format!(" {}", wait.means), style),
        ])
    };
    match &moment.waits {
        None => lines.push(Line::raw(format!(" tasks: {UNTOLD}"))),
        Some(waits) if waits.is_empty() => lines.push(Line::raw(" no task waits")),
        Some(waits) => lines.extend(waits.iter().map(line)),
    }
    Panel::new("who waits for what, in tasks", 2, lines)
}

/// Makes the panel of disks: write and read throughput, and requests in flight, of each.
fn disks(disks: &[Disk]) -> Panel {
    let line = |disk: &Disk| {
        Line::raw(format!(
            " {:<14.14} write {:>13}   read {:>13}   queue {:>6}",
            disk.name,
            amount::megabytes(disk.write),
            amount::megabytes(disk.read),
            amount::count(disk.queue)
        ))
    };
    let lines = match disks.is_empty() {
        true => vec![Line::raw(format!(" {UNTOLD}"))],
        false => disks.iter().map(line).collect(),
    };
    Panel::new("disks", 1, lines)
}

/// Makes the panel of histories: for five figures a line of blocks over the moments up to the shown
/// one, with the maximum at the right.
pub fn history(player: &Player, width: usize) -> Panel {
    let sum = |m: &Moment| (!m.zones.is_empty()).then(|| m.zones.iter().map(|z| z.free).sum());
    let both = |m: &Moment| Some(m.dirty.dirty? + m.dirty.writeback?);
    let scanned = |m: &Moment| {
        let r = &m.reclaim;
        let apart = r.kswapd.scanned.zip(r.direct.scanned);
        apart.map(|(k, d)| k + d).or(r.both.scanned)
    };
    type Of<'a> = &'a dyn Fn(&Moment) -> Option<f64>;
    type Show = fn(Option<f64>) -> String;
    let rows: [(&str, Of<'_>, Show); 5] = [
        ("free", &sum, amount::pages),
        ("dirty", &both, amount::pages),
        ("scanned", &scanned, amount::rate),
        ("memory some", &|m| m.pressure[0].some, amount::share),
        ("written", &|m| m.disks.first()?.write, amount::megabytes),
    ];
    let moments = player.history();
    let room = width.saturating_sub(30);
    let line = |(name, of, show): (&str, Of<'_>, Show)| {
        let last = &moments[moments.len().saturating_sub(room)..];
        let values: Vec<Option<f64>> = last.iter().map(of).collect();
        let (blocks, most) = bar::history(&values, room);
        let blocks = most.map_or_else(|| UNTOLD.to_owned(), |_| blocks);
        Line::raw(format!(" {name:<12}{blocks:<room$} {:>13}", show(most)))
    };
    let title = "how it came: from 0 to the most, which stands at the right";
    Panel::new(title, 1, rows.into_iter().map(line).collect())
}
