//! `--set key=value`: changes to an experiment from the command line.

use super::node::{Entry, Node, Table, Value};
use super::quoted;
use super::sysctls;
use crate::diagnostic::{Diagnostic, Source};

/// Lays one `--set key=value` over the tree of an experiment. The left side is a TOML key, the
/// right side a TOML value; a bare word is taken as a string.
///
/// # Errors
/// Fails on a setting that can't be read.
pub fn set(root: &mut Node, setting: &str) -> Result<(), Diagnostic> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(Diagnostic::placeless(
            format!("`--set {setting}` has no value"),
            "accepted: --set key=value, such as --set machine.cpus=8",
        ));
    };
    let source = Source::new(format!("--set {key}"), setting);
    let parsed = match Node::parse(&source) {
        Ok(node) => node,
        Err(e) => {
            let second = format!("{key}={}", quoted(value));
            let second = Source::new(format!("--set {key}"), second);
            let bare = value.trim().chars().all(|c| !"[]{}\"'\n".contains(c)) && !value.is_empty();
            match Node::parse(&second) {
                Ok(node) if bare => node,
                _ => return Err(e),
            }
        }
    };
    let mut parsed = parsed;
    sysctls::last_parts(&mut parsed, None)?;
    root.merge_experiment(parsed);
    Ok(())
}

impl Node {
    /// Lays `over` on top as [`Node::overlay`] does, except for `machine` and `policies`: where the
    /// experiment names a file, the file stays the base of the changes, and where it lists several
    /// machines, the changes are laid over each.
    fn merge_experiment(&mut self, mut over: Node) {
        for key in ["machine", "policies"] {
            let entry = over.table().and_then(|t| t.get(key)).cloned();
            let Some(entry) = entry.filter(|e| e.table().is_some()) else {
                continue;
            };
            let Value::Table(table) = &mut self.value else {
                continue;
            };
            let Some(named) = table.get_mut(key) else {
                continue;
            };
            named.file_to_base();
            if let (Value::List(list), Value::Table(t)) = (&mut named.value, &mut over.value) {
                for element in list {
                    element.overlay(entry.clone());
                }
                t.remove(key);
            }
        }
        self.overlay(over);
    }

    /// Turns the name of a file into a table that has the file as its `base`, so that changes can
    /// be laid over it; in a list, each name. Other values stay as they are.
    fn file_to_base(&mut self) {
        match &mut self.value {
            Value::Text(_) => {
                let place = self.place.clone();
                let file = std::mem::replace(&mut self.value, Value::Table(Table::default()));
                let node = Node {
                    place: place.clone(),
                    value: file,
                };
                let entry = Entry {
                    key: "base".into(),
                    place: place.clone(),
                    node,
                };
                self.value = Value::Table(Table(vec![entry]));
            }
            Value::List(list) => list.iter_mut().for_each(Self::file_to_base),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, setting: &str) -> Result<Node, Diagnostic> {
        let mut node = Node::parse(&Source::new("f", text)).unwrap();
        set(&mut node, setting).map(|()| node)
    }

    #[test]
    fn words_numbers_lists_and_strings_are_values() {
        for (setting, value) in [
            ("policy=vanilla", "vanilla"),
            ("policy = \"vanilla\"", "vanilla"),
            ("policy=linux-3.0", "linux-3.0"),
            ("policy=4", "4"),
            ("policy=dd if=/dev/zero of=x", "dd if=/dev/zero of=x"),
        ] {
            let node = after("", setting).unwrap();
            assert_eq!(
                node.nearest(&["policy"]).scalar().unwrap(),
                value,
                "{setting}"
            );
        }
        let node = after("", "machine.cpus=[1, 2]").unwrap();
        assert_eq!(
            node.nearest(&["machine", "cpus", "1"]).scalar().unwrap(),
            "2"
        );
    }

    #[test]
    fn a_machine_file_becomes_the_base_of_its_changes() {
        let node = after("machine = 'm.toml'", "machine.cpus=2").unwrap();
        assert_eq!(
            node.nearest(&["machine", "base"]).scalar().unwrap(),
            "m.toml"
        );
        assert_eq!(node.nearest(&["machine", "cpus"]).scalar().unwrap(), "2");
        let node = after("machine = ['m.toml', 'n.toml']", "machine.cpus=2").unwrap();
        assert_eq!(
            node.nearest(&["machine", "1", "base"]).scalar().unwrap(),
            "n.toml"
        );
        assert_eq!(
            node.nearest(&["machine", "1", "cpus"]).scalar().unwrap(),
            "2"
        );
    }

    #[test]
    fn a_file_of_policies_becomes_the_base_of_its_changes() {
        let node = after("policies = 'p.toml'", "policies.a.dirty_limits='global'").unwrap();
        assert_eq!(
            node.nearest(&["policies", "base"]).scalar().unwrap(),
            "p.toml"
        );
        let a = node.nearest(&["policies", "a", "dirty_limits"]);
        assert_eq!(a.scalar().unwrap(), "global");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        assert!(after("", "cpus").is_err());
        assert!(after("", "=3").is_err());
        assert!(after("", "a=[1").is_err());
        assert!(after("", "a b=1").is_err());
    }
}
