//! Reads memory control groups: the tables `[groups]`, and the group of the whole workload.

use super::expand::{Choices, expand};
use super::node::{Entry, Node, Table};
use super::read::read;
use super::workload::Workload;
use crate::diagnostic::{Diagnostic, one_of};
use sim::spec::{Group, GroupSettings, Limit};
use workload::Source;

/// One variant of the groups: the choices that lead to it, and the groups, parents before their
/// children.
pub type Variant = (Choices, Vec<Group>);

const KEYS: [&str; 8] = [
    "max",
    "high",
    "low",
    "min",
    "swap_max",
    "oom_group",
    "cpu_weight",
    "io_weight",
];

/// Reads the value of the key `groups`, a table for each group; tables inside a group's are the
/// groups inside it. Lists in it are axes. Without the key there is one variant without groups.
/// `models` are the policies that are no real kernels.
///
/// # Errors
/// Returns the first mistake.
pub fn groups(node: Option<&Node>, models: &[&mm::Policy]) -> Result<Vec<Variant>, Diagnostic> {
    let Some(node) = node else {
        return Ok(vec![(Choices::new(), Vec::new())]);
    };
    if let Some(policy) = models.iter().find(|policy| !policy.knows_groups()) {
        return Err(Diagnostic::at(
            &node.place,
            format!(
                "`groups`: policy `{}` is a model without memory control groups, which need the \
                 reclaim of Linux 5.16 and later: `lru = \"node\"`, `scan_balance = \"cost\"`, \
                 `reclaim_throttle = \"reasons\"` and no eviction policy",
                policy.name
            ),
            "accepted: \"linux-6.12\", \"linux-6.1\", policies based on them, and real kernels such \
             as \"kernel:6.12\"",
        ));
    }
    let table = |node: &Node| node.table().is_some_and(|t| !t.0.is_empty());
    if !table(node) {
        return Err(Diagnostic::at(
            &node.place,
            format!("`groups`: {} does not fit here", node.kind()),
            "accepted: a table for each group, such as [groups.web]",
        ));
    }
    let mut all = Vec::new();
    for variant in expand(node, "groups")? {
        let mut groups = Vec::new();
        for entry in &variant.node.table().expect("checked above").0 {
            group(entry, "", &mut groups)?;
        }
        if let Some(policy) = models.first() {
            no_weights(&variant.node, &groups, &policy.name)?;
        }
        all.push((variant.choices, groups));
    }
    Ok(all)
}

/// Reads one group and then the groups inside it, and appends them to `all`. `above` is the name of
/// the group that it lies in with a point at its end, or empty.
fn group(entry: &Entry, above: &str, all: &mut Vec<Group>) -> Result<(), Diagnostic> {
    let name = format!("{above}{}", entry.key);
    let path = format!("groups.{name}");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if entry.key.is_empty() || entry.key.len() > 64 || !entry.key.chars().all(plain) {
        return Err(Diagnostic::at(
            &entry.place,
            format!("`groups`: `{}` is not the name of a group", entry.key),
            "accepted: letters, digits, `_` and `-`; a group inside another is a table inside its table, \
             such as [groups.web.worker]",
        ));
    }
    let Some(table) = entry.node.table() else {
        return Err(Diagnostic::at(
            &entry.node.place,
            format!("`{path}`: {} does not fit here", entry.node.kind()),
            "accepted: a table of settings, such as { max = \"200M\" }",
        ));
    };
    // A table inside the table is a group of its own.
    let (inside, own): (Vec<&Entry>, Vec<&Entry>) =
        table.0.iter().partition(|e| e.node.table().is_some());
    let implied = own.is_empty() && !inside.is_empty();
    if implied {
        let child = &inside[0];
        return Err(Diagnostic::at(
            &child.place,
            format!(
                "`{path}.{}`: the group `{name}` around it is missing",
                child.key
            ),
            format!(
                "accepted: the group inside one that has settings of its own, such as [{path}] with `max`"
            ),
        ));
    }
    if let Some(e) = inside.iter().find(|e| KEYS.contains(&e.key.as_str())) {
        return Err(Diagnostic::at(
            &e.node.place,
            format!("`{path}.{}`: a table does not fit here", e.key),
            "accepted: one value",
        ));
    }
    let own = Table(own.into_iter().cloned().collect());
    if let Some(e) = own.0.iter().find(|e| !KEYS.contains(&e.key.as_str())) {
        let what = format!("unknown key `{path}.{}`", e.key);
        return Err(Diagnostic::at(&e.place, what, one_of(&e.key, &KEYS)));
    }
    let stated = Node {
        place: entry.node.place.clone(),
        value: super::node::Value::Table(own),
    };
    let settings: GroupSettings = read(&stated, &path)?;
    in_range(&settings, &stated, &path)?;
    all.push(Group {
        name: name.clone(),
        settings,
    });
    let above = format!("{name}.");
    inside
        .into_iter()
        .try_for_each(|entry| group(entry, &above, all))
}

/// Refuses weights in an experiment with the model `policy`, which has none: the model's schedulers
/// know no groups. `node` is the value of `groups`.
fn no_weights(node: &Node, groups: &[Group], policy: &str) -> Result<(), Diagnostic> {
    for group in groups {
        let s = &group.settings;
        let weights = [("cpu_weight", s.cpu_weight), ("io_weight", s.io_weight)];
        if let Some((key, _)) = weights.into_iter().find(|(_, weight)| weight.is_some()) {
            let path: Vec<&str> = group.name.split('.').chain([key]).collect();
            return Err(Diagnostic::at(
                &node.nearest(&path).place,
                format!(
                    "`groups.{}.{key}`: policy `{policy}` is a model, and models have no weights of groups",
                    group.name
                ),
                "accepted: limits of memory and swap; weights with real kernels such as \
                 \"kernel:6.12\" alone",
            ));
        }
    }
    Ok(())
}

/// Refuses weights that the kernel refuses, and protections above the group's limit, of which the
/// part above it protects nothing. `node` is the group's table and `path` its key.
fn in_range(settings: &GroupSettings, node: &Node, path: &str) -> Result<(), Diagnostic> {
    let weights = [
        ("cpu_weight", settings.cpu_weight),
        ("io_weight", settings.io_weight),
    ];
    for (key, weight) in weights {
        if let Some(weight) = weight.filter(|w| !(1..=10_000).contains(w)) {
            return Err(Diagnostic::at(
                &node.nearest(&[key]).place,
                format!("`{path}.{key}`: {weight} is out of range"),
                "accepted: 1 to 10000",
            ));
        }
    }
    let Some(max) = settings.max else {
        return Ok(());
    };
    for (key, limit) in [("min", settings.min), ("low", settings.low)] {
        if limit.is_some_and(|limit| limit != Limit::Max && limit.bytes() > max.bytes()) {
            return Err(Diagnostic::at(
                &node.nearest(&[key]).place,
                format!(
                    "`{path}.{key}` is above `{path}.max`, so that a part of it protects nothing"
                ),
                format!("accepted: at most {} bytes", max.bytes()),
            ));
        }
    }
    Ok(())
}

/// Checks that the groups which workloads name exist and have no groups inside them, and that some
/// workload runs in each group that has none inside. `runs` is the table `[workload]`, and `node`
/// the value of `groups`.
///
/// # Errors
/// Returns the first mistake.
pub fn members<'a>(
    runs: &Node,
    node: Option<&Node>,
    groups: &[Group],
    workloads: impl Iterator<Item = &'a Workload> + Clone,
) -> Result<(), Diagnostic> {
    for workload in workloads.clone() {
        let whole = workload.group.as_deref().into_iter();
        for (key, name) in whole
            .map(|name| ("group", name))
            .chain(workload.script.groups().map(|name| ("command", name)))
        {
            named(runs, key, name, groups)?;
        }
        let inside = workload.script.groups().next();
        if let (Some(whole), Some(inside)) = (&workload.group, inside) {
            return Err(Diagnostic::at(
                &runs.nearest(&["group"]).place,
                format!(
                    "`workload.group`: the whole workload is in `{whole}`, and a program of it in `{inside}`"
                ),
                "accepted: either this key or `cgexec -g GROUP` in the command",
            ));
        }
    }
    // A user's own program may enter groups by itself.
    let foreign = |w: &Workload| matches!(w.script.source, Source::Foreign(_));
    if workloads.clone().any(foreign) {
        return Ok(());
    }
    let used = |name: &str| {
        workloads.clone().any(|w| {
            w.group.as_deref() == Some(name) || w.script.groups().any(|group| group == name)
        })
    };
    let empty = groups
        .iter()
        .find(|g| is_leaf(&g.name, groups) && !used(&g.name));
    match (empty, node) {
        (Some(group), Some(node)) => {
            let path: Vec<&str> = group.name.split('.').collect();
            Err(Diagnostic::at(
                &node.nearest(&path).place,
                format!(
                    "`groups.{0}`: no program runs in the group `{0}`",
                    group.name
                ),
                format!(
                    "accepted: `workload.group = \"{0}\"`, or `cgexec -g {0} PROGRAM …` in the command",
                    group.name
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// Returns true if a group has no groups inside it.
fn is_leaf(name: &str, groups: &[Group]) -> bool {
    let inside = format!("{name}.");
    !groups.iter().any(|group| group.name.starts_with(&inside))
}

/// Checks that a group which the key `key` of `[workload]` (`runs`) names exists and has no groups
/// inside it: the kernel lets programs into such groups alone.
fn named(runs: &Node, key: &str, name: &str, groups: &[Group]) -> Result<(), Diagnostic> {
    let place = &runs.nearest(&[key]).place;
    if !groups.iter().any(|group| group.name == name) {
        let known: Vec<&str> = groups.iter().map(|g| &g.name[..]).collect();
        let accepted = match known.is_empty() {
            true => format!("accepted: a group of the experiment, such as [groups.{name}]"),
            false => one_of(name, &known),
        };
        return Err(Diagnostic::at(
            place,
            format!("`workload.{key}`: there is no group `{name}`"),
            accepted,
        ));
    }
    if !is_leaf(name, groups) {
        let leaves = groups.iter().filter(|g| is_leaf(&g.name, groups));
        let leaves: Vec<&str> = leaves.map(|g| &g.name[..]).collect();
        return Err(Diagnostic::at(
            place,
            format!(
                "`workload.{key}`: the group `{name}` has groups inside it, and the kernel lets \
                 programs only into groups that have none"
            ),
            format!("accepted: {}", leaves.join(", ")),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::{Diagnostic, Source};
    use crate::experiment::{Overrides, parse};
    use crate::model::Experiment;
    use sim::spec::Limit;

    const MACHINE: &str = "name = \"m\"\ncpus = 1\n[[node]]\nzones = [{ zone = \"Normal\", \
        size = \"512M\" }]\n[disk]\nkind = \"ssd\"\ncapacity = \"1G\"\n";

    /// Parses an experiment with this policy, these lines of `[workload]`, and these of groups.
    fn experiment(policy: &str, workload: &str, groups: &str) -> Result<Experiment, Diagnostic> {
        let text = format!(
            "name = \"t\"\niterations = 1\npolicy = {policy}\nfilesystem = \"ext4\"\n\
             machine = \"m.toml\"\n[workload]\n{workload}\n{groups}\n"
        );
        let files = |name: &str| Ok((name.to_owned(), MACHINE.to_owned()));
        parse(&Source::new("t.toml", text), &files, &Overrides::default())
    }

    const KERNEL: &str = "\"kernel:6.12\"";
    const DD: &str = "command = \"cgexec -g web dd if=/dev/zero of=a bs=1M count=1\"";

    #[test]
    fn groups_are_read_parents_first_and_lists_are_axes() {
        let groups = "[groups.web]\nmax = [\"200M\", \"max\"]\nlow = 4096\n[groups.web.a]\n\
                      oom_group = true\n[groups.web.b]\ncpu_weight = 50\n";
        let both = "command = \"cgexec -g web.a sleep 1 & cgexec -g memory:web/b sleep 1; wait\"";
        let e = experiment(KERNEL, both, groups).unwrap();
        assert_eq!(e.axes, ["groups.web.max"]);
        let names = |cell: usize| {
            let all = e.cells[cell].spec.groups.all.iter();
            all.map(|g| g.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["web", "web.a", "web.b"]);
        let first = &e.cells[0].spec.groups.all[0].settings;
        assert_eq!(first.max, Some(Limit::Bytes(200 << 20)));
        assert_eq!(
            first.files(),
            [
                ("memory.low", "4096".to_owned()),
                ("memory.max", (200 << 20).to_string())
            ]
        );
        let second = &e.cells[1].spec.groups.all[0].settings;
        assert_eq!(second.max, Some(Limit::Max));
    }

    #[test]
    fn the_whole_workload_can_be_in_a_group() {
        let workload = "command = \"sleep 1\"\ngroup = \"web\"";
        let e = experiment(KERNEL, workload, "[groups.web]\nmax = \"1M\"").unwrap();
        let groups = &e.cells[0].spec.groups;
        assert_eq!(groups.of_workload.as_deref(), Some("web"));
    }

    #[test]
    fn models_have_groups_since_6_1_and_no_weights() {
        let web = "[groups.web]\nmax = \"200M\"\n";
        let e = experiment("[\"linux-6.12\", \"linux-6.1\"]", DD, web).unwrap();
        assert_eq!(e.cells[1].spec.groups.all[0].name, "web");
        let old = experiment("\"linux-4.9\"", DD, web).unwrap_err();
        let message = "`linux-4.9` is a model without memory control groups";
        assert!(old.message.contains(message), "{old}");
        let weight = format!("{web}io_weight = 50");
        let e = experiment("\"linux-6.12\"", DD, &weight).unwrap_err();
        let message = "`groups.web.io_weight`: policy `linux-6.12` is a model";
        assert!(e.message.contains(message), "{e}");
    }

    #[test]
    fn mistakes_are_refused_at_their_place() {
        let web = "[groups.web]\nmax = \"200M\"\n";
        for (policy, workload, groups, place, message) in [
            (
                "\"linux-6.12\"",
                DD,
                String::new(),
                "\"cgexec",
                "no group `web`",
            ),
            (
                KERNEL,
                "command = \"sleep 1\"",
                web.to_owned(),
                "[groups.web]",
                "no program runs in the group `web`",
            ),
            (
                KERNEL,
                DD,
                format!("{web}min = \"201M\""),
                "\"201M\"",
                "`groups.web.min` is above `groups.web.max`",
            ),
            (
                KERNEL,
                DD,
                format!("{web}[groups.db.a]\nmax = \"1M\""),
                "a",
                "the group `db` around it is missing",
            ),
            (
                KERNEL,
                DD,
                format!("{web}[groups.web.a]\nmax = \"1M\""),
                "\"cgexec",
                "has groups inside it",
            ),
            (
                KERNEL,
                DD,
                format!("{web}io_weight = 0"),
                "0",
                "0 is out of range",
            ),
            (
                KERNEL,
                DD,
                format!("{web}hihg = \"1M\""),
                "hihg",
                "unknown key `groups.web.hihg`",
            ),
            (
                KERNEL,
                DD,
                "[groups.web]\nmax = \"200 apples\"".to_owned(),
                "\"200 apples\"",
                "is not a size",
            ),
            (
                KERNEL,
                "command = \"cgexec -g wbe sleep 1\"",
                web.to_owned(),
                "\"cgexec",
                "no group `wbe`",
            ),
            (
                KERNEL,
                "command = \"cgexec -g web sleep 1\"\ngroup = \"web\"",
                web.to_owned(),
                "\"web\"",
                "the whole workload is in `web`",
            ),
            (
                KERNEL,
                "command = \"sleep 1\"\ngroup = \"db\"",
                web.to_owned(),
                "\"db\"",
                "no group `db`",
            ),
            (
                KERNEL,
                DD,
                "groups = 3".to_owned(),
                "groups",
                "unknown key `workload.groups`",
            ),
        ] {
            let e = experiment(policy, workload, &groups).expect_err(message);
            assert!(e.message.contains(message), "{message}: {e}");
            assert!(e.accepted.contains("accepted"), "{message}: {}", e.accepted);
            let found = e.place.as_ref().unwrap().text();
            assert!(found.starts_with(place), "{message}: {found}");
        }
    }
}
