//! `waits.json` and `waits.txt`: the objects that tasks waited on, and the crowds of waiters behind
//! one object.

use super::{File, Format, finished};
use crate::figures::waits::{CrowdOf, Waits, waits};
use crate::model::Outcomes;
use serde::Serialize;
use sim::waiting::Crowd;
use std::fmt::Write as _;

/// Writes the waits as text, cell by cell.
pub struct WaitsText;

/// Writes the waits as JSON.
pub struct WaitsJson;

/// Yields for each cell its key, the waits of its tasks over all iterations, and, if a run did not
/// record them, the reason.
fn of_cells(outcomes: &Outcomes) -> impl Iterator<Item = (String, Waits, Option<&'static str>)> {
    outcomes.experiment.cells.iter().map(|cell| {
        let own = || finished(outcomes).filter(|(c, ..)| std::ptr::eq(*c, cell));
        let untold = own().any(|(_, _, r)| r.waits.is_none());
        let waits = waits(own().map(|(_, i, r)| (i, r)));
        (cell.key(), waits, untold.then_some(UNTOLD))
    })
}

const UNTOLD: &str = "a real kernel does not report the objects that its tasks wait on";

/// Converts nanoseconds to seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Appends to `out` the text on a crowd of tasks that waited for one object: time lost, duration,
/// and its members.
fn write_crowd(out: &mut String, c: &CrowdOf) {
    let Crowd {
        object,
        since_ns,
        lasted_ns,
        most,
        most_at_ns,
        task_ns,
        members,
    } = &c.crowd;
    let _ = writeln!(
        out,
        "\n  {:.3} task seconds of waiting for the {object}, iteration {} from {:.3} s on for \
         {:.3} s; greatest at {:.3} s, {most} tasks:",
        seconds(*task_ns),
        c.iteration,
        seconds(*since_ns),
        seconds(*lasted_ns),
        seconds(*most_at_ns),
    );
    for m in members {
        let _ = writeln!(
            out,
            "    {:<24}{:<44}since {:.3} s, {} between",
            m.task,
            m.waits_on,
            seconds(m.since_ns),
            m.behind
        );
    }
}

impl Format for WaitsText {
    /// Writes `waits.txt`: for each cell the sums by kind of wait, and the greatest crowds.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut out = String::from(
            "Waits of tasks by object, and the crowds at one object: all tasks that waited on \
             it without a break, directly or through other tasks, at the moment of the greatest \
             number. The last task of each crowd held the object.\n",
        );
        for (nth, (key, waits, untold)) in (1..).zip(of_cells(outcomes)) {
            let _ = writeln!(out, "\n{nth}. {key}");
            if let Some(why) = untold {
                let _ = writeln!(out, "  unsupported: {why}");
                continue;
            }
            let _ = writeln!(
                out,
                "  {:<20}{:>12}{:>16}{:>14}",
                "on", "waits", "task seconds", "most tasks"
            );
            for k in &waits.kinds {
                let _ = writeln!(
                    out,
                    "  {:<20}{:>12}{:>16.3}{:>14}",
                    k.kind,
                    k.count,
                    seconds(k.total_ns),
                    k.most
                );
            }
            for crowd in &waits.crowds {
                write_crowd(&mut out, crowd);
            }
        }
        emit(File::new("waits.txt", out.into_bytes()))
    }
}

impl Format for WaitsJson {
    /// Writes `waits.json`: the waits of all cells.
    fn files(
        &self,
        outcomes: &Outcomes,
        emit: &mut dyn FnMut(File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        #[derive(Serialize)]
        struct Cell {
            cell: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            unsupported: Option<&'static str>,
            #[serde(flatten)]
            waits: Waits,
        }
        let cells: Vec<Cell> = of_cells(outcomes)
            .map(|(cell, waits, unsupported)| Cell {
                cell,
                unsupported,
                waits,
            })
            .collect();
        let mut text = serde_json::to_string_pretty(&cells).expect("plain data has a JSON form");
        text.push('\n');
        emit(File::new("waits.json", text))
    }
}
