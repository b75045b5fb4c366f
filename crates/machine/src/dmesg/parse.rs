//! Parses the kernel's log into reports.

use super::{Killed, Kind, Report, Task, ZoneReport};
use crate::parse::{MOST_KBYTES, MOST_PAGES, ParseError};
use std::collections::BTreeMap;

/// The most reports that are read; further ones are passed over.
const MOST_REPORTS: usize = 1000;
/// The most zones of a report: 1024 nodes of 6 types.
const MOST_ZONES: usize = 6144;
/// The most processes of a report's table that are kept.
const MOST_TASKS: usize = 1 << 16;
/// The most orders of free blocks.
const MOST_ORDERS: usize = 32;

/// Reads all reports in a log. Other lines of the log are passed over; a report that lacks parts,
/// since the log was cut or rate-limited, is returned with what is there.
///
/// # Errors
/// The log has no report, or a figure of a report is out of range.
pub fn parse(text: &str) -> Result<Vec<Report>, ParseError> {
    let mut reports: Vec<Report> = Vec::new();
    let mut within = Part::Head;
    let mut lines = 0;
    for (number, line) in (1..).zip(text.lines()) {
        lines = number;
        let (seconds, said) = plain(line);
        if let Some(report) = begun(said, number, seconds) {
            if reports.len() == MOST_REPORTS {
                break;
            }
            reports.push(report);
            within = Part::Head;
            continue;
        }
        let Some(report) = reports.last_mut() else {
            continue;
        };
        let wrong = |what| ParseError { line: number, what };
        within = take(report, within, said).map_err(wrong)?;
    }
    if reports.is_empty() {
        return Err(ParseError {
            line: lines.max(1),
            what: "no report of memory shortage up to here".into(),
        });
    }
    Ok(reports)
}

/// The part of a report that the next line may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first lines, and lines that belong to no other part.
    Head,
    /// The pages by kind, after `Mem-Info:`.
    MemInfo,
    /// The statistics of the group.
    GroupStat,
    /// The table of processes: which of its words are the resident pages, the pages in swap, and
    /// the name.
    Tasks { rss: usize, swapped: usize },
    /// The report is over: a process was killed.
    Over,
}

/// Takes one line of a report. Returns the part that the next line belongs to.
fn take(report: &mut Report, within: Part, said: &str) -> Result<Part, String> {
    let trimmed = said.trim();
    if trimmed.ends_with("Mem-Info:") {
        return Ok(Part::MemInfo);
    }
    if let Some(path) = between(trimmed, "Memory cgroup stats for ", ":") {
        let group = report.group.get_or_insert_default();
        if group.path.is_empty() {
            path.clone_into(&mut group.path);
        }
        // Before 5.3 the figures stand behind the path.
        let behind = trimmed.split_once(": ").map_or("", |(_, behind)| behind);
        for word in behind.split_whitespace() {
            if let Some((name, kb)) = word.split_once(':').and_then(|(n, v)| Some((n, kb(v)?))) {
                group
                    .stat
                    .insert(name.to_owned(), checked(kb, MOST_KBYTES)? * 1024);
            }
        }
        return Ok(Part::GroupStat);
    }
    if let Some(killed) = killed(trimmed)? {
        report.killed.push(killed);
        return Ok(Part::Over);
    }
    if let Some(part) = columns(trimmed) {
        return Ok(part);
    }
    if let Some(zone) = zone(trimmed)? {
        if report.zones.len() == MOST_ZONES {
            return Err(format!("more than {MOST_ZONES} zones"));
        }
        report.zones.push(zone);
        return Ok(Part::Head);
    }
    if let Some(numbers) = trimmed.strip_prefix("lowmem_reserve[]:") {
        if let Some(zone) = report.zones.last_mut() {
            let pages = numbers.split_whitespace().map_while(|n| n.parse().ok());
            for pages in pages.take(16) {
                zone.reserve.push(checked(pages, MOST_PAGES)?);
            }
        }
        return Ok(Part::Head);
    }
    if let Some((node, name, blocks)) = blocks(trimmed) {
        let of = |z: &&mut ZoneReport| z.node == node && z.name == name;
        if let Some(zone) = report.zones.iter_mut().find(of) {
            zone.blocks = blocks;
        }
        return Ok(Part::Head);
    }
    if sums(report, trimmed)? {
        return Ok(Part::Head);
    }
    match within {
        Part::MemInfo => pages(report, trimmed),
        Part::GroupStat => group_stat(report, trimmed),
        Part::Tasks { rss, swapped } => {
            if let Some(task) = task(trimmed, rss, swapped)
                && report.tasks.len() < MOST_TASKS
            {
                report.tasks.push(task);
            }
            Ok(within)
        }
        Part::Head | Part::Over => {
            head(report, trimmed);
            Ok(within)
        }
    }
}

/// Splits a line of a log into its time in seconds since boot, if it has that, and the kernel's
/// words: without a level (`<4>`), a host and date of syslog, and the task or CPU that printed it.
fn plain(line: &str) -> (Option<f64>, &str) {
    let mut rest = line;
    // Syslog and journalctl: `Nov 30 10:00:00 host kernel: [  12.345678] words`.
    if let Some((_, words)) = rest.split_once(" kernel: ") {
        rest = words;
    }
    if let Some((level, words)) = rest.strip_prefix('<').and_then(|l| l.split_once('>'))
        && level.bytes().all(|b| b.is_ascii_digit())
    {
        rest = words;
    }
    let mut seconds = None;
    // The time, and with CONFIG_PRINTK_CALLER the printer; a pid of the table of processes has
    // neither a point nor a colon in its brackets.
    while let Some((inside, words)) = rest.strip_prefix('[').and_then(|l| l.split_once(']')) {
        let inside = inside.trim();
        let caller = inside.strip_prefix(['T', 'C']);
        let caller = caller.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if !caller && !inside.contains(['.', ':']) {
            break;
        }
        if let Ok(time) = inside.parse::<f64>() {
            seconds = Some(time).filter(|t| t.is_finite());
        }
        rest = words.strip_prefix(' ').unwrap_or(words);
    }
    (seconds, rest)
}

/// Returns the text between `from` and the next `to`; `None` if one of them is missing.
fn between<'a>(line: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

/// Returns the report that begins with this line; `None` if none does.
fn begun(said: &str, line: usize, seconds: Option<f64>) -> Option<Report> {
    let (task, rest, kind) = if let Some((task, rest)) = said.split_once(" invoked oom-killer: ") {
        (task, rest, Kind::Oom)
    } else {
        let (task, rest) = said.split_once(": page allocation failure")?;
        (task, rest, Kind::AllocationFailure)
    };
    // `order=0` and `order:0`.
    let order = rest.split("order").nth(1)?;
    let order = order.trim_start_matches(['=', ':']);
    let digits = order.find(|c: char| !c.is_ascii_digit() && c != '-');
    let order = order[..digits.unwrap_or(order.len())].parse().ok()?;
    let gfp = ["gfp_mask=", "mode:"]
        .iter()
        .find_map(|key| rest.split_once(key))
        .map_or("", |(_, gfp)| gfp);
    // `0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0`: the names if they are there.
    let gfp = match (between(gfp, "(", ")"), gfp.split([',', ' ']).next()) {
        (Some(names), _) => names,
        (None, first) => first.unwrap_or(""),
    };
    Some(Report {
        line,
        seconds,
        kind,
        task: task.trim().to_owned(),
        order,
        gfp: gfp.to_owned(),
        cpu: None,
        release: None,
        group: None,
        pages: BTreeMap::new(),
        zones: Vec::new(),
        swap: None,
        ram: None,
        tasks: Vec::new(),
        killed: Vec::new(),
    })
}

/// Takes a line of the report's head: the CPU and the kernel's release, the group.
fn head(report: &mut Report, said: &str) {
    // `CPU: 3 PID: 1 Comm: x Not tainted 6.1.0-18-amd64 #1 Debian`, in 6.12 with `UID:`; before
    // 3.x `Pid: 1, comm: x Not tainted 2.6.37 #1`.
    if let Some(rest) = said.strip_prefix("CPU: ") {
        report.cpu = rest.split_whitespace().next().and_then(|n| n.parse().ok());
    }
    if said.contains("ainted") && report.release.is_none() {
        let words: Vec<&str> = said.split_whitespace().collect();
        let at = words.iter().position(|w| w.starts_with('#'));
        let release = at.and_then(|at| at.checked_sub(1)).map(|at| words[at]);
        let release = release.filter(|r| r.starts_with(|c: char| c.is_ascii_digit()));
        report.release = release.map(str::to_owned);
    }
    // `memory: usage 204800kB, limit 204800kB, failcnt 12`, and `swap:`.
    let usage = |rest: &str| {
        let used = kb(between(rest, "usage ", ",")?)?;
        let limit = kb(between(rest, "limit ", ",").or_else(|| rest.split("limit ").nth(1))?)?;
        Some((used, limit))
    };
    for (key, is_swap) in [("memory: ", false), ("swap: ", true)] {
        if let Some(both) = said.strip_prefix(key).and_then(usage) {
            let group = report.group.get_or_insert_default();
            match is_swap {
                true => group.swap = Some(both),
                false => group.memory = Some(both),
            }
        }
    }
    // Before 4.19: `Task in /a killed as a result of limit of /b`; since then the line oom-kill.
    let limit_of = said.split(" as a result of limit of ").nth(1);
    if let Some(path) = limit_of.or_else(|| between(said, "oom_memcg=", ",")) {
        let group = report.group.get_or_insert_default();
        path.trim().clone_into(&mut group.path);
    }
}

/// Takes a line of pages by kind, `active_anon:1 inactive_anon:2`; a line without any ends the
/// part.
fn pages(report: &mut Report, said: &str) -> Result<Part, String> {
    if said.starts_with("Node ") {
        return Ok(Part::Head);
    }
    for word in said.split_whitespace() {
        if let Some((name, pages)) = word.rsplit_once(':')
            && let Ok(pages) = pages.parse::<u64>()
        {
            let pages = checked(pages, MOST_PAGES)?;
            report.pages.entry(name.to_owned()).or_insert(pages);
        }
    }
    Ok(Part::MemInfo)
}

/// Takes a line of the group's statistics, `anon 123`, in bytes; any other line ends the part.
fn group_stat(report: &mut Report, said: &str) -> Result<Part, String> {
    let mut words = said.split_whitespace();
    if let (Some(name), Some(value), None) = (words.next(), words.next(), words.next())
        && let Ok(value) = value.parse::<u64>()
        && let Some(group) = &mut report.group
    {
        if group.stat.len() < 256 {
            group.stat.insert(name.to_owned(), value);
        }
        return Ok(Part::GroupStat);
    }
    head(report, said);
    Ok(Part::Head)
}

/// Takes a line of the sums behind the zones: memory and swap in all. Returns whether it was one.
fn sums(report: &mut Report, said: &str) -> Result<bool, String> {
    if let Some(pages) = said.strip_suffix(" pages RAM") {
        report.ram = match pages.parse() {
            Ok(pages) => Some(checked(pages, MOST_PAGES)?),
            Err(_) => None,
        };
        return Ok(true);
    }
    for (key, is_total) in [("Free swap", false), ("Total swap", true)] {
        let Some(rest) = said.strip_prefix(key) else {
            continue;
        };
        let Some(size) = kb(rest.trim_start_matches([' ', '=', ':'])) else {
            continue;
        };
        let size = checked(size, MOST_KBYTES)?;
        let (total, free) = report.swap.unwrap_or((0, 0));
        report.swap = Some(match is_total {
            true => (size, free),
            false => (total, size),
        });
        return Ok(true);
    }
    Ok(false)
}

/// Parses a zone's line, `Node 0 DMA free:15904kB min:20kB … managed:15360kB …`; `None` if it is
/// none. The node is missing on machines without NUMA.
fn zone(said: &str) -> Result<Option<ZoneReport>, String> {
    let (before, _) = match said.split_once(" free:") {
        Some(parts) => parts,
        None => return Ok(None),
    };
    let (node, name) = match place(before) {
        Some(place) => place,
        None => return Ok(None),
    };
    let mut zone = ZoneReport {
        node,
        name: name.to_owned(),
        ..ZoneReport::default()
    };
    for word in said[before.len()..].split_whitespace() {
        if let Some((name, value)) = word.split_once(':')
            && let Some(value) = kb(value)
        {
            let value = checked(value, MOST_KBYTES)?;
            zone.kb.entry(name.to_owned()).or_insert(value);
        }
    }
    let whole = ["free", "min", "present"];
    Ok(whole
        .iter()
        .all(|f| zone.kb.contains_key(*f))
        .then_some(zone))
}

/// Parses the place of a zone, `Node 0 DMA32` or `DMA32`; `None` if it is none.
fn place(text: &str) -> Option<(u32, &str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["Node", node, name] => Some((node.parse().ok()?, name)),
        [name] => Some((0, name)),
        _ => None,
    }
}

/// Parses a zone's line of free blocks, `Node 0 DMA: 1*4kB (U) 2*8kB (UM) = 15904kB`, into its
/// place and the blocks by order; `None` if it is none.
fn blocks(said: &str) -> Option<(u32, &str, Vec<u64>)> {
    let (before, rest) = said.split_once(": ")?;
    let (node, name) = place(before)?;
    let (lists, _) = rest.split_once(" = ")?;
    let mut blocks = Vec::new();
    for word in lists.split_whitespace() {
        if word.starts_with('(') {
            continue;
        }
        let (number, size) = word.split_once('*')?;
        let size = kb(size)?;
        if size != 4 << blocks.len() || blocks.len() == MOST_ORDERS {
            return None;
        }
        blocks.push(number.parse::<u64>().ok()?.min(MOST_PAGES));
    }
    (!blocks.is_empty()).then_some((node, name, blocks))
}

/// Parses the head of the table of processes into the places of its columns; `None` if the line is
/// none. A row has a word for each column, with the number of the process in brackets.
fn columns(said: &str) -> Option<Part> {
    let words: Vec<&str> = said.strip_prefix('[')?.split_whitespace().collect();
    if words.first()? != &"pid" || words.last()? != &"name" {
        return None;
    }
    // `[`, `pid` and `]` are one word of a row or two, so that columns are counted from the end.
    let from_end = |name: &str| Some(words.len() - 1 - words.iter().position(|w| *w == name)?);
    Some(Part::Tasks {
        rss: from_end("rss")?,
        swapped: from_end("swapents")?,
    })
}

/// Parses a row of the table of processes. `rss` and `swapped` are the places of its columns,
/// counted from the name at its end. `None` if it is none.
fn task(said: &str, rss: usize, swapped: usize) -> Option<Task> {
    let (pid, rest) = said.strip_prefix('[')?.split_once(']')?;
    // A name may contain blanks: the row has as many numbers as the table has columns before it.
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_number = |w: &&&str| w.parse::<i64>().is_ok();
    let numbers = words.iter().take_while(is_number).count();
    let name = words[numbers..].join(" ");
    let at = |from_end: usize| words[..numbers].get((numbers + 1).checked_sub(from_end + 1)?);
    Some(Task {
        pid: pid.trim().parse().ok()?,
        rss: at(rss)?.parse().ok().filter(|n| *n <= MOST_PAGES)?,
        swapped: at(swapped)?.parse().ok().filter(|n| *n <= MOST_PAGES)?,
        name,
    })
}

/// Parses the line of a kill, `Killed process 12 (mysqld) total-vm:1kB, anon-rss:2kB, …`; `None` if
/// it is none.
fn killed(said: &str) -> Result<Option<Killed>, String> {
    let Some((_, rest)) = said.split_once("Killed process ") else {
        return Ok(None);
    };
    let Some((pid, rest)) = rest.split_once(" (") else {
        return Ok(None);
    };
    // The name may contain brackets: what follows it is the size of its mappings.
    let Some((name, rest)) = rest.rsplit_once(") ").or_else(|| rest.rsplit_once("), ")) else {
        return Ok(None);
    };
    let Ok(pid) = pid.trim_end_matches(',').parse() else {
        return Ok(None);
    };
    let of = |key: &str| -> Result<u64, String> {
        let text = rest.split(key).nth(1);
        let text = text.map(|t| t.split([',', ' ']).next().unwrap_or(t));
        text.and_then(kb)
            .map_or(Ok(0), |kb| checked(kb, MOST_KBYTES))
    };
    Ok(Some(Killed {
        pid,
        name: name.to_owned(),
        anon: of("anon-rss:")?,
        file: of("file-rss:")?,
        shmem: of("shmem-rss:")?,
    }))
}

/// Parses a size in kB, `15904kB` or `0KB`; `None` if the text is none.
fn kb(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .strip_suffix("kB")
        .or_else(|| text.strip_suffix("KB"))?;
    digits.trim().parse().ok()
}

/// Refuses a figure above `most`, so that sums do not overflow.
fn checked(value: u64, most: u64) -> Result<u64, String> {
    match value <= most {
        true => Ok(value),
        false => Err(format!("{value} is more than {most}")),
    }
}
