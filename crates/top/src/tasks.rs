//! Tasks of the running Linux in uninterruptible sleep (state D), and the kernel function in which
//! each waits.

use crate::moment::Wait;
use crate::reasons;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The tasks of a system, from `/proc/PID`.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    /// Waiting tasks; `None`: no task is visible.
    pub waits: Option<Vec<Wait>>,
    /// CPU time of all kswapds in ticks.
    pub kswapd_ticks: Option<u64>,
}

/// The fields of a line of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    ticks: u64,
}

/// Parses a line of `/proc/PID/stat` into name, state and CPU ticks; `None` if it is malformed. The
/// name is in parentheses and may contain any characters, also parentheses.
fn stat(line: &str) -> Option<Stat> {
    let (open, close) = (line.find('(')?, line.rfind(')')?);
    let mut rest = line.get(close + 1..)?.split_whitespace();
    let state = rest.next()?.chars().next()?;
    // `utime` and `stime` are fields 14 and 15 of proc(5); the state is field 3.
    let ticks: Vec<u64> = rest.skip(10).take(2).flat_map(str::parse).collect();
    let visible = |c: char| if c.is_control() { '?' } else { c };
    Some(Stat {
        name: line.get(open + 1..close)?.chars().map(visible).collect(),
        state,
        ticks: ticks.iter().sum(),
    })
}

/// Removes the variable parts of a worker's name, so that equal work is counted together:
/// `kworker/u8:3+flush-254:0` becomes `kworker flush-254:0`.
fn plain(name: &str) -> String {
    match name.strip_prefix("kworker/") {
        Some(rest) => match rest.split_once(['+', '-']) {
            Some((_, work)) => format!("kworker {work}"),
            None => "kworker".to_owned(),
        },
        None => name.to_owned(),
    }
}

/// Samples all tasks below `proc` (`/proc`): groups those in state D by name and kernel function,
/// the largest group first, and adds up the CPU time of the kswapds. A task that ends meanwhile is
/// skipped.
pub fn look(proc: &Path) -> Tasks {
    // Entries whose name is a number: processes, and threads below `task`.
    let numbers = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let number =
            |name: &std::ffi::OsString| name.to_str().is_some_and(|n| n.parse::<u32>().is_ok());
        entries
            .filter(move |e| number(&e.file_name()))
            .map(|e| e.path())
            .collect::<Vec<_>>()
    };
    let mut seen = 0_u64;
    let mut kswapd = None;
    let mut waits: BTreeMap<(String, Option<String>), u32> = BTreeMap::new();
    for task in numbers(proc).iter().flat_map(|p| numbers(&p.join("task"))) {
        let line = fs::read(task.join("stat")).ok();
        let Some(stat) = line.and_then(|l| stat(&String::from_utf8_lossy(&l))) else {
            continue;
        };
        seen += 1;
        if stat.name.starts_with("kswapd") {
            *kswapd.get_or_insert(0) += stat.ticks;
        }
        if stat.state == 'D' {
            // "0" if permissions are missing, or the task is running again.
            let on = fs::read_to_string(task.join("wchan")).ok();
            let on = on.filter(|w| !w.is_empty() && w != "0");
            *waits.entry((plain(&stat.name), on)).or_default() += 1;
        }
    }
    let wait = |((who, on), tasks): ((String, Option<String>), u32)| Wait {
        tasks,
        who,
        means: on.as_deref().map_or("", reasons::of),
        on,
    };
    let mut waits: Vec<Wait> = waits.into_iter().map(wait).collect();
    waits.sort_by_key(|w| std::cmp::Reverse(w.tasks));
    Tasks {
        waits: (seen > 0).then_some(waits),
        kswapd_ticks: kswapd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let tail = "7 7 7 0 -1 69238880 0 0 0 0 12 30 0 0 20 0 1 0 28 0 0";
        let own = |name: &str, state| stat(&format!("7 ({name}) {state} {tail}"));
        let read = own("a) D (b", 'S').unwrap();
        assert_eq!((read.name.as_str(), read.state), ("a) D (b", 'S'));
        assert_eq!(own("kswapd0", 'D').unwrap().ticks, 42);
        assert_eq!(own("a\nb", 'R').unwrap().name, "a?b");
        assert_eq!((stat(""), stat("7 )("), stat("7 (x)")), (None, None, None));
    }

    #[test]
    fn workers_are_called_by_their_work() {
        assert_eq!(plain("kworker/u8:3+flush-254:0"), "kworker flush-254:0");
        assert_eq!(plain("kworker/0:1H-kblockd"), "kworker kblockd");
        assert_eq!(plain("kworker/0:1"), "kworker");
        assert_eq!(plain("jbd2/vda1-8"), "jbd2/vda1-8");
    }

    #[test]
    fn tasks_in_state_d_are_grouped_by_what_they_wait_in() {
        let dir = tempfile::tempdir().unwrap();
        let task = |tid: u32, name: &str, state: char, wchan: &str| {
            let path = dir.path().join(format!("{tid}/task/{tid}"));
            fs::create_dir_all(&path).unwrap();
            let line =
                format!("{tid} ({name}) {state} 1 1 0 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0");
            fs::write(path.join("stat"), line).unwrap();
            fs::write(path.join("wchan"), wchan).unwrap();
        };
        assert_eq!(look(dir.path()).waits, None, "nobody can be seen");
        task(5, "dd", 'D', "balance_dirty_pages");
        task(6, "dd", 'D', "balance_dirty_pages");
        task(7, "sh", 'D', "0");
        task(8, "sh", 'S', "do_wait");
        task(9, "kswapd0", 'R', "0");
        let tasks = look(dir.path());
        assert_eq!(tasks.kswapd_ticks, Some(10));
        let told = |w: &Wait| (w.tasks, w.who.clone(), w.on.clone(), w.means);
        let told: Vec<_> = tasks.waits.unwrap().iter().map(told).collect();
        let dd = Some("balance_dirty_pages".to_owned());
        let expected = [
            (2, "dd".to_owned(), dd, "dirty limit"),
            (1, "sh".to_owned(), None, ""),
        ];
        assert_eq!(told, expected);
    }
}
