//! Expands lists into axes: a tree with lists where one value is due becomes several trees without
//! them.

use super::node::{Entry, Node, Table, Value};
use crate::diagnostic::{Diagnostic, Place};
use std::collections::BTreeSet;

/// The choices that lead to one variant: (key, value as text).
pub type Choices = Vec<(String, String)>;

/// One tree without lists of alternatives.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The choices that lead to this tree, in the order of the text.
    pub choices: Choices,
    /// The tree, without lists of alternatives.
    pub node: Node,
}

/// Returns true if the value of `key` is a list by nature; a list anywhere else makes an axis of
/// the matrix. `of` is the key of the list whose element the key's table is, empty if it is none.
fn is_list(key: &str, of: &str) -> bool {
    match key {
        "at" | "disk" | "node" | "zones" | "faults" | "lowmem_reserve_ratio" => true,
        // A profile's `zone` is its list of zones; within a zone, `zone` is the zone's type.
        "zone" => of != "zones" && of != "zone",
        // A machine's `cpus` is a number, a node's `cpus` a list.
        "cpus" => of == "node",
        _ => false,
    }
}

/// Most variants; more are taken for a mistake.
pub const MOST: usize = 10_000;

/// Expands the lists of a tree into all combinations of one value from each; the first list of the
/// text varies slowest. `path` is the key of the tree, which stands before the keys of the choices.
///
/// # Errors
/// Fails on an empty list, a repeated value, a list of values that are no scalars, and too many
/// variants.
pub fn expand(node: &Node, path: &str) -> Result<Vec<Variant>, Diagnostic> {
    let count = count(node, "");
    if count > MOST {
        return Err(too_many(&node.place, count));
    }
    expand_table_or_leaf(node, path, "")
}

/// Returns all pairs of the elements of two lists; the first list's vary slowest.
pub fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first
        .iter()
        .flat_map(move |a| second.iter().map(move |b| (a, b)))
}

/// Builds the error for a matrix with too many cells: `count` of them (`usize::MAX`: more than can
/// be counted), at `place`.
pub fn too_many(place: &Place, count: usize) -> Diagnostic {
    let count = if count == usize::MAX {
        "more than can be counted".into()
    } else {
        count.to_string()
    };
    Diagnostic::at(
        place,
        format!("the lists multiply to {count} cells"),
        format!("accepted: at most {MOST} cells, and at most 100000 runs in all"),
    )
}

/// Counts the variants into which `expand` would turn a tree, without building them; saturates at
/// `usize::MAX`. `of` is the key of the list whose element the tree is.
fn count(node: &Node, of: &str) -> usize {
    match &node.value {
        Value::Table(t) => t.0.iter().fold(1, |n, e| {
            // The number of variants of this entry's value.
            let here = match &e.node.value {
                Value::List(l) if is_list(&e.key, of) => l
                    .iter()
                    .fold(1, |n: usize, l| n.saturating_mul(count(l, &e.key))),
                Value::List(l) => l.len().max(1),
                _ => count(&e.node, ""),
            };
            n.saturating_mul(here)
        }),
        _ => 1,
    }
}

/// Returns the variants of a tree: the product of those of a table's entries; a scalar is its own
/// only variant. `path` is the tree's key, and `of` the key of the list whose element it is.
fn expand_table_or_leaf(node: &Node, path: &str, of: &str) -> Result<Vec<Variant>, Diagnostic> {
    let Value::Table(table) = &node.value else {
        return Ok(vec![Variant {
            choices: Vec::new(),
            node: node.clone(),
        }]);
    };
    // Combinations of the entries so far: the choices made, and the entries that result.
    let mut partial = vec![(Choices::new(), Vec::<Entry>::new())];
    for entry in &table.0 {
        let path = if path.is_empty() {
            entry.key.clone()
        } else {
            format!("{path}.{}", entry.key)
        };
        let variants = match &entry.node.value {
            Value::List(list) if is_list(&entry.key, of) => {
                expand_elements(&entry.node, list, &path, &entry.key)?
            }
            Value::List(_) => alternatives(&entry.node, &path)?
                .into_iter()
                .map(|(text, node)| Variant {
                    choices: vec![(path.clone(), text)],
                    node: node.clone(),
                })
                .collect(),
            _ => expand_table_or_leaf(&entry.node, &path, "")?,
        };
        // Cloning `entry` itself would copy its value, which may be a list of ten thousand values.
        let with = |node: Node| Entry {
            key: entry.key.clone(),
            place: entry.place.clone(),
            node,
        };
        partial = product(partial, variants, with);
    }
    Ok(partial
        .into_iter()
        .map(|(choices, entries)| Variant {
            choices,
            node: Node {
                place: node.place.clone(),
                value: Value::Table(Table(entries)),
            },
        })
        .collect())
}

/// Combines every beginning in `partial` (the choices so far, and the parts of a table or list so
/// far) with every variant of the next part, which `as_next` makes of the variant's tree.
fn product<T: Clone>(
    mut partial: Vec<(Choices, Vec<T>)>,
    mut variants: Vec<Variant>,
    as_next: impl Fn(Node) -> T,
) -> Vec<(Choices, Vec<T>)> {
    // Usually there is one variant, and nothing needs to be copied.
    if variants.len() == 1
        && let Some(only) = variants.pop()
    {
        for (choices, parts) in &mut partial {
            choices.extend_from_slice(&only.choices);
            parts.push(as_next(only.node.clone()));
        }
        return partial;
    }
    let mut next = Vec::with_capacity(partial.len() * variants.len());
    for (choices, parts) in partial {
        for variant in &variants {
            let mut parts = parts.clone();
            parts.push(as_next(variant.node.clone()));
            next.push(([&choices[..], &variant.choices].concat(), parts));
        }
    }
    next
}

/// Returns the variants of a list that is a list by nature: the product of the variants of its
/// elements. `key` is the list's own key, and `path` its whole path.
fn expand_elements(
    list: &Node,
    elements: &[Node],
    path: &str,
    key: &str,
) -> Result<Vec<Variant>, Diagnostic> {
    let mut partial = vec![(Choices::new(), Vec::new())];
    for (i, element) in elements.iter().enumerate() {
        let variants = expand_table_or_leaf(element, &format!("{path}.{i}"), key)?;
        partial = product(partial, variants, |node| node);
    }
    Ok(partial
        .into_iter()
        .map(|(choices, nodes)| Variant {
            choices,
            node: Node {
                place: list.place.clone(),
                value: Value::List(nodes),
            },
        })
        .collect())
}

/// Returns the scalars that a value stands for, each with its text: the value itself, or the
/// elements of a list.
///
/// # Errors
/// Fails on an empty list, a repeated value, and an element that is no scalar.
pub fn alternatives<'a>(node: &'a Node, path: &str) -> Result<Vec<(String, &'a Node)>, Diagnostic> {
    let elements = match &node.value {
        Value::List(list) => &list[..],
        _ => std::slice::from_ref(node),
    };
    if elements.is_empty() {
        return Err(Diagnostic::at(
            &node.place,
            format!("`{path}`: the list is empty"),
            "accepted: one value, or a list of at least one",
        ));
    }
    let mut known = BTreeSet::new();
    let mut seen: Vec<(String, &Node)> = Vec::new();
    for element in elements {
        let Some(text) = element.scalar() else {
            return Err(Diagnostic::at(
                &element.place,
                format!("`{path}`: {} does not fit here", element.kind()),
                "accepted: one value, or a list of values (strings, numbers, booleans)",
            ));
        };
        if !known.insert(text.clone()) {
            return Err(Diagnostic::at(
                &element.place,
                format!("`{path}`: `{text}` is listed twice"),
                "accepted: each value once",
            ));
        }
        seen.push((text, element));
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;

    fn variants(text: &str) -> Result<Vec<String>, Diagnostic> {
        let node = Node::parse(&Source::new("f", text)).unwrap();
        Ok(expand(&node, "m")?
            .iter()
            .map(|v| {
                let parts: Vec<_> = v.choices.iter().map(|(k, v)| format!("{k}={v}")).collect();
                parts.join(" ")
            })
            .collect())
    }

    #[test]
    fn the_first_list_of_the_text_varies_slowest() {
        let text = "cpus = [1, 2]\nname = 'x'\n[[node]]\nzones = [{size = ['1G', '2G']}]\n";
        assert_eq!(
            variants(text).unwrap(),
            [
                "m.cpus=1 m.node.0.zones.0.size=1G",
                "m.cpus=1 m.node.0.zones.0.size=2G",
                "m.cpus=2 m.node.0.zones.0.size=1G",
                "m.cpus=2 m.node.0.zones.0.size=2G",
            ]
        );
        assert_eq!(variants("a = 1").unwrap(), [""]);
        let text = "cpus = [1, 2]\n[[node]]\ncpus = [0, 1]\nzones = [{size = '1G'}]\n";
        assert_eq!(variants(text).unwrap(), ["m.cpus=1", "m.cpus=2"]);
    }

    #[test]
    fn absurd_lists_are_refused_before_they_are_laid_out() {
        let list = format!("{:?}", (0..100).collect::<Vec<_>>());
        let text: String = (0..30).map(|i| format!("k{i} = {list}\n")).collect();
        assert!(
            variants(&text)
                .unwrap_err()
                .message
                .contains("more than can be counted")
        );
        assert!(variants("a = []").unwrap_err().message.contains("empty"));
        assert!(
            variants("a = [1, 2, 1]")
                .unwrap_err()
                .message
                .contains("twice")
        );
        assert!(
            variants("a = [[1]]")
                .unwrap_err()
                .message
                .contains("a list")
        );
    }
}
