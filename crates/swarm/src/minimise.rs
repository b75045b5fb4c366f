//! Makes a find smaller while it stays the same find: removes keys and elements, reduces numbers,
//! and shortens command lines and the files beside the experiment.

use crate::case::Case;
use toml::{Table, Value};

/// A step into a table or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

type Way = Vec<Step>;

/// Returns the smallest case found that still shows what `case` shows: makes one edit after the
/// other (without a key, with a smaller number) and keeps those for which `still` returns true.
/// Stops when no edit helps, after `questions` calls, or when `still` returns `None`.
pub fn minimise(case: &Case, questions: u32, mut still: impl FnMut(&Case) -> Option<bool>) -> Case {
    let mut best = case.clone();
    let mut left = questions;
    loop {
        let before = best.clone();
        let mut nth = 0;
        // Edits are listed anew after each success, because paths have changed.
        while let Some(smaller) = edit(&best, nth) {
            if left == 0 {
                return best;
            }
            nth += 1;
            if smaller == best {
                continue;
            }
            left -= 1;
            match still(&smaller) {
                Some(true) => {
                    best = smaller;
                    nth -= 1;
                }
                Some(false) => {}
                None => return best,
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Returns a case with its `nth` edit made, larger edits first: removed keys and elements, then
/// smaller values, then files beside the experiment with fewer lines. `None` behind the last.
fn edit(case: &Case, nth: usize) -> Option<Case> {
    let mut ways = Vec::new();
    list(
        &Value::Table(case.table.clone()),
        &mut Vec::new(),
        &mut ways,
    );
    // Shorter paths first: they hold more below them.
    ways.sort_by_key(Vec::len);
    if nth < ways.len() {
        return Some(with(case, |root| remove(root, &ways[nth])));
    }
    // The index among the remaining edits, counted down.
    let mut at = nth - ways.len();
    for way in &ways {
        let root = Value::Table(case.table.clone());
        let Some(value) = get(&root, way) else {
            continue;
        };
        let smaller = smaller(value);
        if at < smaller.len() {
            let value = smaller[at].clone();
            return Some(with(case, |root| set(root, way, value.clone())));
        }
        at -= smaller.len();
    }
    for (name, bytes) in &case.beside {
        let pieces = pieces(bytes);
        if at < pieces.len() {
            let mut case = case.clone();
            case.beside.insert(name.clone(), pieces[at].clone());
            return Some(case);
        }
        at -= pieces.len();
    }
    None
}

/// Returns a copy of a case whose table `change` has changed.
fn with(case: &Case, change: impl FnOnce(&mut Value)) -> Case {
    let mut root = Value::Table(case.table.clone());
    change(&mut root);
    Case {
        table: match root {
            Value::Table(table) => table,
            _ => Table::new(),
        },
        beside: case.beside.clone(),
    }
}

/// Appends to `ways` the paths to everything below `value`; `way` is the path to `value` itself.
fn list(value: &Value, way: &mut Way, ways: &mut Vec<Way>) {
    let mut below = |step: Step, value: &Value| {
        way.push(step);
        ways.push(way.clone());
        list(value, way, ways);
        way.pop();
    };
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                below(Step::Key(key.clone()), value);
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                below(Step::Index(i), value);
            }
        }
        _ => {}
    }
}

/// Returns the value at a path below `root`; `None` if there is none.
fn get<'a>(root: &'a Value, way: &[Step]) -> Option<&'a Value> {
    way.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(i) => value.get(*i),
    })
}

/// Returns the value at a path below `root`, to be changed; `None` if there is none.
fn get_mut<'a>(root: &'a mut Value, way: &[Step]) -> Option<&'a mut Value> {
    way.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(i) => value.get_mut(*i),
    })
}

/// Removes the key or element at a path below `root`, if it is there.
fn remove(root: &mut Value, way: &[Step]) {
    let Some((last, before)) = way.split_last() else {
        return;
    };
    match (get_mut(root, before), last) {
        (Some(Value::Table(table)), Step::Key(key)) => {
            table.remove(key);
        }
        (Some(Value::Array(list)), Step::Index(i)) if *i < list.len() => {
            list.remove(*i);
        }
        _ => {}
    }
}

/// Replaces the value at the path `way` below `root`, if there is one.
fn set(root: &mut Value, way: &[Step], value: Value) {
    if let Some(place) = get_mut(root, way) {
        *place = value;
    }
}

/// Returns smaller values that may replace one, smallest first: numbers nearer to 0, or a shorter
/// command line.
fn smaller(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(n) => numbers(*n).into_iter().map(Value::Integer).collect(),
        Value::Float(x) => {
            let simple = [0.0, 1.0, x.trunc()];
            let simple = simple
                .into_iter()
                .filter(|s| s.abs() < x.abs() || (*s != *x && x.fract() != 0.0));
            simple.map(Value::Float).collect()
        }
        Value::String(text) if text.contains(' ') => {
            lines(text).into_iter().map(Value::String).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns smaller numbers that may replace `n`, smallest first.
fn numbers(n: i64) -> Vec<i64> {
    const MIB: i64 = 1 << 20;
    let mut all: Vec<i64> = [0, 1, n / 4, n / 2, n / MIB * MIB, n - 1]
        .into_iter()
        .filter(|m| (0..n).contains(m))
        .collect();
    all.dedup();
    all
}

/// Returns shorter variants of a command line: without one command, operand or option, or with a
/// smaller number.
fn lines(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for separator in [" & ", "; ", " && ", "\n"] {
        let parts: Vec<&str> = text.split(separator).collect();
        if parts.len() > 1 {
            all.extend(without_each(&parts, separator));
        }
    }
    let words: Vec<&str> = text.split(' ').collect();
    all.extend(without_each(&words, " "));
    for at in 0..words.len().saturating_sub(1) {
        // An option together with its value.
        let rest: Vec<&str> = [&words[..at], &words[at + 2..]].concat();
        all.push(rest.join(" "));
    }
    for (at, word) in words.iter().enumerate() {
        let from = word.find(|c: char| c.is_ascii_digit());
        let Some(from) = from else { continue };
        let digits = word[from..]
            .chars()
            .take_while(char::is_ascii_digit)
            .count();
        let Ok(n) = word[from..from + digits].parse::<i64>() else {
            continue;
        };
        for less in numbers(n) {
            let mut words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            words[at] = format!("{}{less}{}", &word[..from], &word[from + digits..]);
            all.push(words.join(" "));
        }
    }
    all
}

/// Returns variants of a text that consists of `parts` between separators, each without one of the
/// parts.
fn without_each(parts: &[&str], separator: &str) -> Vec<String> {
    (0..parts.len())
        .map(|at| {
            let rest: Vec<&str> = [&parts[..at], &parts[at + 1..]].concat();
            rest.join(separator)
        })
        .collect()
}

/// Returns variants of a file beside the experiment without halves, quarters and so on of its
/// lines, or of its 24-byte records if it is not text.
fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let records: Vec<&[u8]> = if std::str::from_utf8(bytes).is_ok() {
        bytes.split_inclusive(|b| *b == b'\n').collect()
    } else {
        bytes.chunks(24).collect()
    };
    let mut all = Vec::new();
    let mut size = records.len() / 2;
    while size > 0 && all.len() < 64 {
        let starts = (0..records.len()).step_by(size);
        for start in starts {
            let end = (start + size).min(records.len());
            all.push([&records[..start], &records[end..]].concat().concat());
        }
        size /= 2;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn case(text: &str) -> Case {
        Case {
            table: toml::from_str(text).unwrap(),
            beside: BTreeMap::from([("t".to_owned(), b"a\nb\nc\nd\ne\n".to_vec())]),
        }
    }

    /// Everything that the find does not need is removed.
    #[test]
    fn a_find_shrinks_to_what_makes_it() {
        let found = case(
            "name = \"x\"\nseed = 99\n[params]\na = 3.25\nb = 8\n[[node]]\nz = 1\n[[node]]\nz = 512\n\
             [workload]\ncommand = \"dd bs=4k count=777 & sleep 9; rm -r x\"\n",
        );
        let mut asked = 0;
        let small = minimise(&found, 10_000, |c| {
            asked += 1;
            let text = c.text();
            let d = c.beside.get("t").is_some_and(|b| b.contains(&b'd'));
            let count = text.split("count=").nth(1).and_then(|t| {
                let digits: String = t.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u32>().ok()
            });
            Some(text.contains("b = ") && count.is_some_and(|n| n >= 100) && d)
        });
        assert_eq!(
            small,
            Case {
                table: toml::from_str("[params]\nb = 0\n[workload]\ncommand = \"count=100\"")
                    .unwrap(),
                beside: BTreeMap::from([("t".to_owned(), b"d\n".to_vec())]),
            },
            "after {asked} questions"
        );
        assert!(asked < 1000, "{asked} questions");
    }

    #[test]
    fn questions_are_bounded() {
        let mut asked = 0;
        minimise(&case("a = 1000\nb = 2000\n"), 3, |_| {
            asked += 1;
            Some(false)
        });
        assert_eq!(asked, 3);
    }

    /// If `still` has no answer, the smallest case so far is kept.
    #[test]
    fn without_an_answer_it_stops() {
        let mut asked = 0;
        let small = minimise(&case("a = 1\nb = 2\nc = 3\n"), 100, |_| {
            asked += 1;
            (asked <= 2).then_some(true)
        });
        assert_eq!(asked, 3);
        assert_eq!(small.table.len(), 1, "{small:?}");
    }
}
