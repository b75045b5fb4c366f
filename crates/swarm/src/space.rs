//! Everything that an experiment may contain, read from the code's own tables: the JSON schema of
//! experiment files, the parameter table, the list of programs.
//!
//! A place is a key of an experiment with the kind of value that fits there; its path has `*` for
//! any name and `#` for any element of a list: `policies.*.dirty_limits`,
//! `machine.node.#.zones.#.size`. The generator draws from these places, so that a new switch,
//! filesystem or kind of disk is drawn as soon as the schema has it. Ranges that the schema does
//! not have, because they are checked in code, are written beside the generator, where a test finds
//! missing keys.

use serde_json::Value;
use std::collections::BTreeMap;

/// The kind of value that fits at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fits {
    /// One of these words.
    Choice(Vec<String>),
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Whole,
    /// Any number.
    Number,
    /// A text, a size or a name.
    Text,
    /// A table or a list: its parts have places of their own.
    Parts,
}

/// Places by their path.
pub type Places = BTreeMap<String, Fits>;

/// The space of all experiments.
#[derive(Debug, Clone)]
pub struct Space {
    /// All keys of an experiment.
    pub places: Places,
}

impl Space {
    /// Reads the places of all experiments, keys and the values that fit there, from the JSON
    /// schema of experiment files.
    pub fn new() -> Self {
        let schema = lab::experiment::schema();
        let mut places = Places::new();
        walk(&schema, &schema, "", &mut places);
        places.remove("");
        Self { places }
    }

    /// Returns the words that the schema allows at a path; empty if no words fit there.
    pub fn choices(&self, path: &str) -> &[String] {
        match self.places.get(path) {
            Some(Fits::Choice(words)) => words,
            _ => &[],
        }
    }

    /// Returns the places anywhere below a table that take a value: the rest of their path, and the
    /// kind of value that fits.
    pub fn below<'a>(&'a self, table: &'a str) -> impl Iterator<Item = (&'a str, &'a Fits)> {
        self.places.iter().filter_map(move |(path, fits)| {
            let rest = path.strip_prefix(table)?.strip_prefix('.')?;
            (*fits != Fits::Parts).then_some((rest, fits))
        })
    }
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// Schema of the tables of policies that are real kernels. The swarm tests the engine, and has no
/// kernels built.
const OF_KERNELS: &str = "#/$defs/KernelPolicy";

/// Enters the places at `path` and below, which the schema's `node` describes; `root` is the whole
/// schema, for references. A key that takes several kinds of values (a word or a table) has the
/// places of all of them; a list of alternatives for one value is an axis, and no place of its own.
fn walk(root: &Value, node: &Value, path: &str, places: &mut Places) {
    if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
        if reference == OF_KERNELS {
            return;
        }
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .unwrap_or_else(|| panic!("the schema has {reference}"));
        return walk(root, target, path, places);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        for one in node
            .get(several)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if one.get("uniqueItems").is_none() {
                walk(root, one, path, places);
            }
        }
    }
    if let Some(words) = node.get("enum").and_then(Value::as_array) {
        for word in words.iter().filter_map(Value::as_str) {
            enter(places, path, Fits::Choice(vec![word.to_owned()]));
        }
        return;
    }
    if let Some(word) = node.get("const").and_then(Value::as_str) {
        enter(places, path, Fits::Choice(vec![word.to_owned()]));
        return;
    }
    let kinds: Vec<&str> = match node.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for kind in kinds {
        match kind {
            "boolean" => enter(places, path, Fits::Switch),
            "integer" => enter(places, path, Fits::Whole),
            "number" => enter(places, path, Fits::Number),
            "string" => enter(places, path, Fits::Text),
            "array" => {
                enter(places, path, Fits::Parts);
                if let Some(items) = node.get("items") {
                    walk(root, items, &format!("{path}.#"), places);
                }
            }
            "object" => enter(places, path, Fits::Parts),
            _ => {}
        }
    }
    let join = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    let properties = node.get("properties").and_then(Value::as_object);
    for (key, value) in properties.into_iter().flatten() {
        walk(root, value, &join(key), places);
    }
    if let Some(any) = node.get("additionalProperties").filter(|a| a.is_object()) {
        walk(root, any, &join("*"), places);
    }
}

/// Enters a place with the kind of value that fits there. If the path is known, words are added to
/// its words, and a table replaces a single value.
fn enter(places: &mut Places, path: &str, fits: Fits) {
    match (places.get_mut(path), fits) {
        (None, fits) => {
            places.insert(path.to_owned(), fits);
        }
        (Some(Fits::Choice(known)), Fits::Choice(more)) => {
            for word in more {
                if !known.contains(&word) {
                    known.push(word);
                }
            }
        }
        // A place that can be a table counts as one; the name of a file in its place is tested by
        // the shipped experiments.
        (Some(known), Fits::Parts) => *known = Fits::Parts,
        (Some(_), _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read() {
        let space = Space::new();
        let is = |path: &str| space.places.get(path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!(*is("policies.*.workingset"), Fits::Switch);
        assert_eq!(*is("policies.*.auto.cap"), Fits::Whole);
        assert!(!space.places.contains_key("policies.*.lru_gen"));
        assert_eq!(*is("machine.node.#.zones.#.size"), Fits::Text);
        assert_eq!(*is("params.cost_copy"), Fits::Number);
        assert_eq!(*is("machine.disk"), Fits::Parts);
        assert!(space.choices("filesystem").contains(&"xfs".to_owned()));
        let kinds = space.choices("machine.disk.kind");
        assert_eq!(space.choices("machine.swap.disk.kind"), kinds);
        let faults = space.choices("machine.second.disk.faults.#.kind");
        assert!(faults.contains(&"stop".to_owned()), "{faults:?}");
        let names = space.choices("policies.*.eviction");
        assert_eq!(names, mm::policy::Eviction::NAMES);
        let params = space.below("params").count();
        assert_eq!(params, sim::Params::TABLE.len());
    }
}
