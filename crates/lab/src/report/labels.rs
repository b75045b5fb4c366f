//! Names groups of cells for the first screen: in few columns, and each by its own name.

use crate::model::last_part;

/// Longest value that is shown in full.
const LONGEST: usize = 20;
/// Axes whose values name themselves.
const PLAIN: [&str; 2] = ["filesystem", "workload.threads"];

/// Returns the labels of groups, given the axes of each: of a key its last part, and of long values
/// the part in which they differ.
pub fn labels(groups: &[&[(String, String)]]) -> Vec<String> {
    let keys: Vec<&str> = groups
        .iter()
        .flat_map(|axes| axes.iter().map(|(key, _)| &key[..]))
        .collect();
    let named = |key: &str| {
        let last = last_part(key);
        let twice = keys
            .iter()
            .any(|other| *other != key && last_part(other) == last);
        if twice {
            key.to_owned()
        } else {
            last.to_owned()
        }
    };
    let label = |axes: &&[(String, String)]| {
        let part = |(key, value): &(String, String)| {
            let all: Vec<&str> = groups
                .iter()
                .flat_map(|axes| axes.iter().filter(|(k, _)| k == key))
                .map(|(_, value)| &value[..])
                .collect();
            let value = short(value, &all);
            match PLAIN.contains(&&key[..]) {
                true => value,
                false => format!("{}={value}", named(key)),
            }
        };
        let parts: Vec<String> = axes.iter().map(part).collect();
        parts.join(" ")
    };
    let short: Vec<String> = groups.iter().map(label).collect();
    let twice = |label: &String| short.iter().filter(|other| *other == label).count() > 1;
    let numbered = short
        .iter()
        .enumerate()
        .map(|(nth, label)| match twice(label) {
            true => format!("{label} ({})", nth + 1),
            false => label.clone(),
        });
    numbered.collect()
}

/// Returns a long value without the words that it begins with in common with all others, and cut
/// where it is still too long.
fn short(value: &str, all: &[&str]) -> String {
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    let words: Vec<&str> = value.split(' ').collect();
    let others: Vec<Vec<&str>> = all.iter().map(|other| other.split(' ').collect()).collect();
    let same = |at: usize| others.iter().all(|other| other.get(at) == words.get(at));
    let alike = (0..words.len()).take_while(|&at| same(at)).count();
    let (start, rest) = match alike == words.len() {
        true => ("", value.to_owned()),
        false if alike == 0 => ("", value.to_owned()),
        false => ("… ", words[alike..].join(" ")),
    };
    match rest.chars().count() > LONGEST {
        true => {
            let cut: String = rest.chars().take(LONGEST - 1).collect();
            format!("{start}{}…", cut.trim_end())
        }
        false => format!("{start}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &[&[(&str, &str)]]) -> Vec<String> {
        let owned: Vec<Vec<(String, String)>> = groups
            .iter()
            .map(|axes| {
                let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
                axes.iter().map(own).collect()
            })
            .collect();
        let refs: Vec<&[(String, String)]> = owned.iter().map(|axes| &axes[..]).collect();
        labels(&refs)
    }

    #[test]
    fn labels_are_short_and_differ() {
        assert_eq!(
            of(&[
                &[("machine.boot.kernel", "400M"), ("filesystem", "xfs")],
                &[("machine.boot.kernel", "2G"), ("filesystem", "xfs")],
            ]),
            ["kernel=400M xfs", "kernel=2G xfs"]
        );
        assert_eq!(
            of(&[
                &[("workload.command", "dd if=/dev/zero of=a & burst -d 15s")],
                &[(
                    "workload.command",
                    "dd if=/dev/zero of=a & burst -s 94208K -r 1179648K"
                )],
            ]),
            ["command=… -d 15s", "command=… -s 94208K -r 117964…"]
        );
        let same = "a-value-that-is-longer-than-a-column";
        assert_eq!(
            of(&[&[("k", &format!("{same}1"))], &[("k", &format!("{same}2"))]]),
            ["k=a-value-that-is-lon… (1)", "k=a-value-that-is-lon… (2)"]
        );
        // Keys that end alike are written out.
        assert_eq!(
            of(&[&[("a.size", "1"), ("b.size", "2")]]),
            ["a.size=1 b.size=2"]
        );
    }
}
