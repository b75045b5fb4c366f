//! Formats the answer as text, JSON and files.

use super::goals::{Figures, Goals, mib, time};
use super::learn::Learned;
use super::margin::Margin;
use super::space::{Setting, sums};
use super::verify::Verified;
use super::{Answer, Question, sysctl_d, verdict};
use crate::model::Cell;
use crate::results::File;
use crate::results::csv::Csv;
use crate::terminal::RULED;
use crate::terminal::{Col, Screen};
use comfy_table::{Cell as TableCell, CellAlignment, Table};
use serde_json::{Value, json};
use sim::spec::Machine;
use std::fmt::Write as _;

/// An answer together with everything needed to understand it.
pub struct AnswerReport<'a> {
    /// The answer.
    pub answer: &'a Answer,
    /// The question.
    pub question: &'a Question,
    /// The cell that the question is about.
    pub cell: &'a Cell,
    /// Sentences on how far the model is known to be off.
    pub known_gaps: &'a [String],
    /// Figures of a real kernel with these settings; `None` if none was run.
    pub verified: Option<&'a Verified>,
}

/// Rows of the front that the text shows; `front.csv` holds all of them.
const SHOWN: usize = 12;

/// Formats the sysctls of a setting as `name=value` words; for a setting that changes nothing, the
/// sums of the machine's own watermarks.
pub fn values(s: &Setting, machine: &Machine) -> String {
    let mut parts = Vec::new();
    let mut put = |name: &str, value: Option<u64>| {
        parts.extend(value.map(|v| format!("{name}={v}")));
    };
    put("min_free_kbytes", s.min_free_kbytes);
    put(
        "watermark_scale_factor",
        s.watermark_scale_factor.map(u64::from),
    );
    put("wmark_low_kbytes", s.wmark_low_kbytes);
    put("wmark_high_kbytes", s.wmark_high_kbytes);
    put("dirty_background_bytes", s.dirty_background_bytes);
    put("dirty_bytes", s.dirty_bytes);
    put("swappiness", s.swappiness.map(u64::from));
    if parts.is_empty() {
        let [min, low, high] = sums(machine);
        return format!("the machine's own: min {min}, low {low}, high {high} kB");
    }
    parts.join(" ")
}

/// Returns the setting itself. A setting that changes nothing is replaced by the sums of the
/// machine's watermarks, which then come from a profile and have to be written out.
fn spelled_out(s: &Setting, machine: &Machine) -> Setting {
    if *s != Setting::default() {
        return s.clone();
    }
    let [min, low, high] = sums(machine);
    Setting {
        min_free_kbytes: Some(min),
        wmark_low_kbytes: Some(low),
        wmark_high_kbytes: Some(high),
        ..Setting::default()
    }
}

fn right(text: impl ToString) -> TableCell {
    TableCell::new(text).set_alignment(CellAlignment::Right)
}

/// Returns an empty ruled table with this header.
fn table(header: &[&str]) -> Table {
    let mut t = Table::new();
    t.load_style(RULED);
    t.set_header(header);
    t
}

/// The heading of a column, and the time that it shows.
type TimeColumn = (&'static str, fn(&Figures) -> Option<u64>);

/// Returns the table columns for the times of programs that the goals ask for: the longest answer
/// of an interactive task, and the 99th percentile of requests.
fn program_times(goals: &Goals) -> Vec<TimeColumn> {
    let mut all: Vec<TimeColumn> = Vec::new();
    if goals.response_ns.is_some() {
        all.push(("answer", |f| f.response_ns));
    }
    if goals.fio_p99_ns.is_some() {
        all.push(("99 of 100", |f| f.fio_p99_ns));
    }
    all
}

/// Returns the table cells of a setting's figures: memory kept free, the times of programs that the
/// goals ask for, longest allocation, direct reclaims, throughput in MB/s.
fn columns(f: &Figures, goals: &Goals) -> Vec<String> {
    let mut cells = vec![mib(f.kept_free)];
    let own = program_times(goals).into_iter();
    cells.extend(own.map(|(_, of)| of(f).map_or("-".into(), time)));
    cells.extend([
        time(f.worst_ns),
        f.direct.to_string(),
        format!("{:.1}", f.throughput),
    ]);
    cells
}

/// The meaning of the headings of both tables.
fn heads_said(goals: &Goals) -> String {
    let answer = match goals.response_ns.is_some() {
        true => "answer and allocation are the longest of all runs",
        false => "allocation is the longest of all runs",
    };
    let requests = match goals.fio_p99_ns.is_some() {
        true => "; 99 of 100: requests within this time",
        false => "",
    };
    format!("{answer}{requests}; direct: direct reclaims.")
}

/// Returns the lines that stand with every answer of the model: its origin, the goals, the seed.
pub fn provenance(cell: &Cell, question: &Question) -> Vec<String> {
    vec![
        predicted(cell),
        format!("Goals: {}. Search seed {}.", question.goals, question.seed),
    ]
}

/// Returns the sentence that says that the figures are a model's prediction, of which version,
/// policy, filesystem, disk and machine.
fn predicted(cell: &Cell) -> String {
    format!(
        "Predicted by a model, not measured: the engine of lowmark {} as {}, {} on {}, machine {}.",
        env!("CARGO_PKG_VERSION"),
        cell.policy,
        cell.filesystem,
        disk_name(cell),
        cell.machine,
    )
}

/// Returns the name of the cell's kind of disk, as machine files write it.
fn disk_name(cell: &Cell) -> String {
    let kind = serde_json::to_value(cell.spec.machine.disk.kind);
    kind.ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Returns the table of the settings that no other beats, ascending by memory and thinned to about
/// [`SHOWN`] rows; the machine's own settings come first, and the chosen setting is among them in
/// any case.
fn front_table(answer: &Answer, goals: &Goals, screen: Screen) -> String {
    let mut heads = vec![Col::Words(""), Col::Figure("kept free")];
    heads.extend(
        program_times(goals)
            .iter()
            .map(|(head, _)| Col::Figure(head)),
    );
    heads.extend(["allocation", "direct", "MB/s"].map(Col::Figure));
    heads.push(Col::Words("settings"));
    let mut grid = screen.grid(&heads);
    let mut row = |mark: &str, f: &Figures, values: String| {
        let mut cells = vec![mark.to_owned()];
        cells.extend(columns(f, goals));
        cells.push(values);
        grid.plain(cells);
    };
    row("now", &answer.own, "the machine's own".into());
    let n = answer.front.len();
    let chosen = answer
        .front
        .iter()
        .position(|(s, _)| *s == answer.chosen.setting);
    // Each `every`th setting of the front is listed, beside the last and the chosen one.
    let every = n.div_ceil(SHOWN).max(1);
    let mut listed = false;
    for (i, (setting, f)) in answer.front.iter().enumerate() {
        let is_chosen = chosen == Some(i);
        let is_own = *setting == Setting::default() && !is_chosen;
        if is_own || i % every != 0 && i + 1 != n && !is_chosen {
            continue;
        }
        listed |= is_chosen;
        row(if is_chosen { "chosen" } else { "" }, f, short(setting));
    }
    if !listed {
        row(
            "chosen",
            &answer.chosen.figures,
            short(&answer.chosen.setting),
        );
    }
    grid.text()
}

/// Formats the number of settings that were tried, and of the runs of each.
fn counted(settings: usize, seeds: u32) -> String {
    let settings = match settings {
        1 => "1 setting tried".to_owned(),
        n => format!("{n} settings tried"),
    };
    match seeds {
        1 => format!("{settings} with 1 seed"),
        n => format!("{settings} with {n} seeds each"),
    }
}

/// Formats a setting in few characters for a table's column: kB, and MiB for the dirty limits.
fn short(s: &Setting) -> String {
    let mut parts = Vec::new();
    parts.extend(s.min_free_kbytes.map(|v| format!("min {v}")));
    parts.extend(s.watermark_scale_factor.map(|v| format!("factor {v}")));
    parts.extend(s.wmark_low_kbytes.map(|v| format!("low {v}")));
    parts.extend(s.wmark_high_kbytes.map(|v| format!("high {v}")));
    if let (Some(bg), Some(most)) = (s.dirty_background_bytes, s.dirty_bytes) {
        parts.push(format!("dirty {}/{} MiB", bg >> 20, most >> 20));
    }
    parts.extend(s.swappiness.map(|v| format!("swap {v}")));
    parts.join(", ")
}

/// Returns the table of the chosen setting's margins: its figures under other seeds, bursts and
/// costs, and how far below the goal the time is (headroom). Of the costs, those that miss a goal
/// come first; all of them are shown, and at least five costs.
fn margin_table(margins: &[Margin], goals: &Goals, screen: Screen) -> String {
    let own = program_times(goals);
    let mut heads = vec![Col::Words("under")];
    heads.extend(own.iter().map(|(head, _)| Col::Figure(head)));
    heads.extend(["allocation", "headroom", "direct", "MB/s"].map(Col::Figure));
    heads.push(Col::Words("goals"));
    let mut grid = screen.grid(&heads);
    let worst_first =
        |m: &&Margin| std::cmp::Reverse((!m.holds, m.figures.worst_ns, m.figures.direct));
    let mut main: Vec<&Margin> = margins.iter().filter(|m| m.case.is_main()).collect();
    let mut costs: Vec<&Margin> = margins.iter().filter(|m| !m.case.is_main()).collect();
    costs.sort_by_key(worst_first);
    // The costs under which every goal is met.
    let fine = costs.iter().filter(|m| m.holds).count();
    let shown = costs.len().min(5.max(costs.len() - fine));
    main.extend(&costs[..shown]);
    for m in main {
        let headroom = goals.time_goal().0.map_or("-".into(), |most| {
            let share = 1.0 - goals.time_of(&m.figures) as f64 / most as f64;
            format!("{:+.0} %", share * 100.0)
        });
        let mut cells = vec![m.case.name().replace(" %", "%")];
        cells.extend(
            own.iter()
                .map(|(_, of)| of(&m.figures).map_or("-".into(), time)),
        );
        cells.extend([
            time(m.figures.worst_ns),
            headroom,
            m.figures.direct.to_string(),
            format!("{:.1}", m.figures.throughput),
            if m.holds { "met" } else { "missed" }.to_owned(),
        ]);
        grid.plain(cells);
    }
    let mut out = grid.text();
    if costs.len() > shown {
        let _ = writeln!(
            out,
            "and {} other costs, under which the goals hold",
            costs.len() - shown
        );
    }
    out
}

/// Returns the figures measured with a setting as JSON, with their units in the names.
fn figures_json(f: &Figures) -> Value {
    let mut figures = json!({
        "kept_free_bytes": f.kept_free, "longest_allocation_ns": f.worst_ns,
        "direct_reclaims": f.direct, "throughput_mb_per_s": f.throughput, "runs": f.runs,
        "failed": f.failed,
    });
    for (name, ns) in [
        ("longest_answer_ns", f.response_ns),
        ("p99_of_requests_ns", f.fio_p99_ns),
    ] {
        if let Some(ns) = ns {
            figures[name] = json!(ns);
        }
    }
    figures
}

impl AnswerReport<'_> {
    /// Returns the answer in words and tables of any width.
    pub fn text(&self) -> String {
        self.text_for(Screen::default())
    }

    /// Returns the answer in words and tables that fit a screen: the settings with their price in
    /// memory, the front, the refused settings, the margins, and the origin of the figures.
    pub fn text_for(&self, screen: Screen) -> String {
        let Self {
            answer,
            question,
            cell,
            known_gaps,
            verified,
        } = *self;
        let mut out = String::new();
        let machine = &cell.spec.machine;
        let chosen = &answer.chosen;
        let verdict = if answer.already {
            format!(
                "Your settings already do: with the machine's own every goal holds ({}), under {} other seeds and with \
                 every cost half as large and half as large again. There is nothing to change.",
                question.goals.times(&chosen.figures),
                question.seeds
            )
        } else {
            self.verdict()
        };
        let _ = writeln!(out, "{verdict}");
        let modern = sysctl_d::modern(&chosen.setting, machine);
        if let Some(f) = &chosen.modern {
            let _ = writeln!(
                out,
                "\nLinux takes no explicit watermarks; the nearest that it takes ({}) gives: {}, {} direct \
             reclaims, {} kept free.",
                values(&modern, machine),
                time(f.worst_ns),
                f.direct,
                mib(f.kept_free)
            );
        }
        if let Some(verified) = verified {
            let _ = write!(out, "\n{}", verified.text());
        }
        let _ = writeln!(
            out,
            "\n{}{}\n",
            front_table(answer, &question.goals, screen),
            heads_said(&question.goals)
        );
        let shown = answer.front.len().min(SHOWN);
        let _ = writeln!(
            out,
            "{}; {} of them no other beats in everything{}.\n",
            counted(answer.tried, question.search_seeds),
            answer.front.len(),
            if shown < answer.front.len() {
                format!(", {shown} are shown, all stand in front.csv")
            } else {
                String::new()
            }
        );
        out += &self.refused();
        out += &margin_table(&chosen.margins, &question.goals, screen);
        out.push('\n');
        for line in provenance(cell, question) {
            let _ = writeln!(out, "{line}");
        }
        for line in known_gaps {
            let _ = writeln!(out, "{line}");
        }
        screen.broken(&out)
    }

    /// Returns the settings to write, gain and price in a sentence, and whether the goals hold.
    pub fn verdict(&self) -> String {
        let (answer, question) = (self.answer, self.question);
        let (machine, chosen) = (&self.cell.spec.machine, &answer.chosen);
        let setting = values(&spelled_out(&chosen.setting, machine), machine);
        let lines = setting.split(' ').map(str::to_owned);
        let changes = verdict::changes(&answer.own, &chosen.figures, &question.goals);
        let holds = match chosen.holds {
            true => format!(
                "The goals hold, also under {} other seeds and with every cost half as large and half as large again.",
                question.seeds
            ),
            false => {
                let last = answer.rungs.last().and_then(|rung| rung.refused.as_ref());
                let why = last.map_or(String::new(), |refused| {
                    let times = question.goals.times(&refused.figures);
                    format!(" ({}: {times})", refused.case.name())
                });
                format!(
                    "No setting that was found meets the goals under other seeds and costs{why}; the nearest does \
                     with the search's own seeds alone."
                )
            }
        };
        let lines: Vec<String> = lines.collect();
        let sentence = verdict::sentence(&lines, &changes, chosen.holds);
        match chosen.holds {
            true => format!("{sentence}\n{holds}"),
            false => format!("{holds}\n{sentence}"),
        }
    }

    /// Lists the settings that were tried before the chosen one, and why each was refused.
    fn refused(&self) -> String {
        let (answer, question) = (self.answer, self.question);
        let mut out = String::new();
        if answer.rungs.len() < 2 && answer.chosen.holds {
            return out;
        }
        out += match question.goals.of_programs() {
            true => "Tried before, and refused:\n\n",
            false => "Why not less memory:\n\n",
        };
        for rung in &answer.rungs {
            if let Some(refused) = &rung.refused {
                let _ = writeln!(
                    out,
                    "    {:>10}  {}: {}, {} direct reclaims{}",
                    mib(rung.kept_free),
                    refused.case.name(),
                    question.goals.times(&refused.figures),
                    refused.figures.direct,
                    refused
                        .figures
                        .failed
                        .as_ref()
                        .map_or(String::new(), |w| format!(", {w}"))
                );
            }
        }
        out.push('\n');
        out
    }

    /// Returns the answer of `tune` as JSON: the machine's own and the chosen setting with their
    /// figures, the margins, the settings refused on the way, the front, and the origin of the
    /// figures.
    pub fn json(&self) -> Value {
        let Self {
            answer,
            question,
            cell,
            known_gaps,
            verified,
        } = *self;
        let machine = &cell.spec.machine;
        let chosen = &answer.chosen;
        json!({
            "lowmark": env!("CARGO_PKG_VERSION"),
            "goals": question.goals.to_string(),
            "seed": question.seed,
            "knobs": answer.knobs.iter().map(|k| k.name()).collect::<Vec<_>>(),
            "settings_tried": answer.tried,
            "already": answer.already,
            "own": figures_json(&answer.own),
            "chosen": {
                "setting": chosen.setting, "figures": figures_json(&chosen.figures),
                "holds": chosen.holds,
                "modern_setting": sysctl_d::modern(&chosen.setting, machine),
                "modern_figures": chosen.modern.as_ref().map(figures_json),
            },
            "margins": chosen.margins.iter().map(|m| json!({
                "case": m.case.name(), "figures": figures_json(&m.figures), "holds": m.holds,
            })).collect::<Vec<_>>(),
            "rungs": answer.rungs.iter().map(|r| json!({
                "setting": r.setting, "kept_free_bytes": r.kept_free,
                "refused": r.refused.as_ref().map(|r| json!({
                    "case": r.case.name(), "figures": figures_json(&r.figures),
                })),
            })).collect::<Vec<_>>(),
            "front": answer.front.iter().map(|(s, f)| json!({
                "setting": s, "figures": figures_json(f),
            })).collect::<Vec<_>>(),
            "model": provenance(cell, question), "known_gaps": known_gaps,
            "verified": verified.map(Verified::json),
        })
    }

    /// Returns the files of the results folder: the sysctl file unless nothing is to be changed,
    /// the answer as text, JSON and HTML page, and the front as CSV.
    pub fn files(&self) -> Vec<File> {
        let Self {
            answer,
            question,
            cell,
            known_gaps,
            verified,
        } = *self;
        let chosen = &answer.chosen;
        let f = &chosen.figures;
        let mut head = provenance(cell, question);
        let goals = &question.goals;
        let said = |f: &Figures| {
            format!(
                "{}, {} direct reclaims, {:.1} MB/s",
                goals.times(f),
                f.direct,
                f.throughput
            )
        };
        head.push(format!(
            "There: {}; with the machine's own settings: {}.",
            said(f),
            said(&answer.own)
        ));
        head.extend(known_gaps.iter().cloned());
        head.extend(verified.map(Verified::verdict));
        let json = self.json();
        let mut front = Csv::default();
        front.row([
            "kept_free_bytes",
            "longest_allocation_ns",
            "direct_reclaims",
            "throughput_mb_per_s",
            "min_free_kbytes",
            "watermark_scale_factor",
            "wmark_low_kbytes",
            "wmark_high_kbytes",
            "dirty_background_bytes",
            "dirty_bytes",
            "swappiness",
        ]);
        for (s, f) in &answer.front {
            let or_empty = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
            front.row([
                f.kept_free.to_string(),
                f.worst_ns.to_string(),
                f.direct.to_string(),
                f.throughput.to_string(),
                or_empty(s.min_free_kbytes),
                or_empty(s.watermark_scale_factor.map(u64::from)),
                or_empty(s.wmark_low_kbytes),
                or_empty(s.wmark_high_kbytes),
                or_empty(s.dirty_background_bytes),
                or_empty(s.dirty_bytes),
                or_empty(s.swappiness.map(u64::from)),
            ]);
        }
        // Without a change there is no file to install.
        let conf = (!answer.already).then(|| {
            let setting = spelled_out(&chosen.setting, &cell.spec.machine);
            let text = sysctl_d::text(&head, &setting, &cell.spec.machine);
            File::new("90-lowmark.conf", text)
        });
        let mut files: Vec<File> = conf.into_iter().collect();
        files.extend([
            File::new("tune.txt", self.text()),
            File::new("results.json", format!("{json:#}\n")),
            File::new("front.csv", front.into_bytes()),
            File::new("report.html", super::page::page(self)),
        ]);
        files
    }
}

/// Describes the result of learning in words: a table of the stress phases, then the learned sums
/// of watermarks and whether the last phase was free of direct reclaim.
pub fn learned_text(l: &Learned) -> String {
    let mut t = table(&[
        "stress phase",
        "min kB",
        "low kB",
        "high kB",
        "longest allocation",
        "direct reclaims",
    ]);
    for (i, p) in l.phases.iter().enumerate() {
        let [min, low, high] = p.sums;
        t.add_row(vec![
            right(i + 1),
            right(min),
            right(low),
            right(high),
            right(time(p.worst_ns)),
            right(p.direct),
        ]);
    }
    let [min, low, high] = l.profile.sums();
    let verdict = match (l.calm, l.cap) {
        (true, _) => "the last phase had no direct reclaim".to_owned(),
        (false, None) => {
            "the last phase still had direct reclaim: it is not enough for this load".to_owned()
        }
        (false, Some(cap)) => format!(
            "the last phase still had direct reclaim, with a low watermark of {cap} times the default, which \
             is the cap (auto.cap)"
        ),
    };
    format!(
        "{t}\n\nlearned: min {min}, low {low}, high {high} kB, {} kept free; {verdict}\n",
        mib(high * 1024)
    )
}

/// Returns the result of learning watermarks as JSON: the stress phases, and the profile.
pub fn learned_json(l: &Learned) -> Value {
    json!({
        "lowmark": env!("CARGO_PKG_VERSION"),
        "phases": l.phases.iter().map(|p| json!({
            "watermarks_kbytes": p.sums, "direct_reclaims": p.direct,
            "longest_allocation_ns": p.worst_ns,
        })).collect::<Vec<_>>(),
        "profile": l.profile, "calm": l.calm, "cap_reached": l.cap,
    })
}

/// Returns the files of the results folder of a learning run with `runs` runs in each phase: the
/// profile, a sysctl file with its sums, and the result as text and JSON.
pub fn learned_files(l: &Learned, cell: &Cell, runs: u32) -> Vec<File> {
    let head = vec![
        predicted(cell),
        format!(
            "Learned from {} stress phases of {runs} runs each{}.",
            l.phases.len(),
            if l.calm {
                ""
            } else {
                ", the last still with direct reclaim"
            }
        ),
    ];
    let profile = toml::to_string(&l.profile).unwrap_or_default();
    let [min, low, high] = l.profile.sums();
    let setting = Setting {
        min_free_kbytes: Some(min),
        wmark_low_kbytes: Some(low),
        wmark_high_kbytes: Some(high),
        ..Setting::default()
    };
    vec![
        File::new(
            "watermarks.toml",
            format!("# {}\n# {}\n{profile}", head[0], head[1]),
        ),
        File::new(
            "90-lowmark.conf",
            sysctl_d::text(&head, &setting, &cell.spec.machine),
        ),
        File::new("tune.txt", learned_text(l)),
        File::new("results.json", format!("{:#}\n", learned_json(l))),
    ]
}
