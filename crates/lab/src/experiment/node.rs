//! A TOML text as a tree that remembers the place of every value.

use crate::diagnostic::{Diagnostic, Place, Source};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The place of the value.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// A table's entries in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Table(pub Vec<Entry>);

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub place: Place,
    /// The value.
    pub node: Node,
}

impl Table {
    /// Returns the entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|e| e.key == key)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.node)
    }

    /// Returns the value of a key for modification.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0
            .iter_mut()
            .find(|e| e.key == key)
            .map(|e| &mut e.node)
    }

    /// Removes a key and returns its entry.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.0.iter().position(|e| e.key == key)?;
        Some(self.0.remove(at))
    }
}

impl Node {
    /// Parses a TOML text to a tree in which each value has its place in the text.
    ///
    /// # Errors
    /// Fails on the first violation of TOML's grammar.
    pub fn parse(source: &Source) -> Result<Self, Diagnostic> {
        let table = DeTable::parse(source.text()).map_err(|e| {
            let accepted = match e.message() {
                "duplicate key" => "accepted: each key once in a table",
                _ => "accepted: TOML, lines such as `key = value` and `[table]`",
            };
            let at = place(source, e.span().unwrap_or(0..0));
            Diagnostic::at(&at, format!("not TOML: {}", e.message()), accepted)
        })?;
        let span = table.span();
        convert_table(source, span, table.get_ref())
    }

    /// Converts a JSON value to a tree. The value has no text of its own, so that `place` becomes
    /// the place of all its parts. Null becomes an empty table.
    pub fn from_json(value: &serde_json::Value, place: &Place) -> Self {
        let value = match value {
            serde_json::Value::Null => Value::Table(Table::default()),
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) => Value::Int(i),
                None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(s) => Value::Text(s.clone()),
            serde_json::Value::Array(a) => {
                Value::List(a.iter().map(|v| Self::from_json(v, place)).collect())
            }
            serde_json::Value::Object(o) => Value::Table(Table(
                o.iter()
                    .map(|(k, v)| Entry {
                        key: k.clone(),
                        place: place.clone(),
                        node: Self::from_json(v, place),
                    })
                    .collect(),
            )),
        };
        Self {
            place: place.clone(),
            value,
        }
    }

    /// Returns the table, if the value is one.
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(t) => Some(t),
            _ => None,
        }
    }

    /// Returns the string, if the value is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }

    /// Returns the node at a path of keys and list indices, or, if the path does not exist, the
    /// last node on it that does: for error messages, which need some place.
    pub fn nearest(&self, path: &[&str]) -> &Self {
        let Some((first, rest)) = path.split_first() else {
            return self;
        };
        let next = match &self.value {
            Value::Table(t) => t.get(first),
            Value::List(l) => first.parse::<usize>().ok().and_then(|i| l.get(i)),
            _ => None,
        };
        next.map_or(self, |n| n.nearest(rest))
    }

    /// Returns the node at a path of keys; `None` if a key is absent or a node on the path is no
    /// table.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        let mut at = self;
        for key in path {
            at = at.table()?.get(key)?;
        }
        Some(at)
    }

    /// Returns the type of the value in words.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number with a fraction",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Formats a scalar; `None` for lists and tables.
    pub fn scalar(&self) -> Option<String> {
        Some(match &self.value {
            Value::Bool(b) => b.to_string(),
            Value::Int(i) => i.to_string(),
            Value::Float(f) => f.to_string(),
            Value::Text(t) => t.clone(),
            Value::List(_) | Value::Table(_) => return None,
        })
    }

    /// Lays `over` on top: tables merge key by key, anything else replaces.
    pub fn overlay(&mut self, over: Node) {
        match (&mut self.value, over.value) {
            (Value::Table(under), Value::Table(over)) => {
                let keys = under.0.iter().enumerate();
                let mut places: BTreeMap<String, usize> =
                    keys.map(|(i, e)| (e.key.clone(), i)).collect();
                for entry in over.0 {
                    match places.get(&entry.key) {
                        Some(&i) => under.0[i].node.overlay(entry.node),
                        None => {
                            places.insert(entry.key.clone(), under.0.len());
                            under.0.push(entry);
                        }
                    }
                }
            }
            (_, value) => {
                *self = Self {
                    place: over.place,
                    value,
                }
            }
        }
    }

    /// Returns the range in bytes of this string's contents in the source, so that offsets into the
    /// string are offsets into the source. `None` if the value is no string, or is written with
    /// escapes.
    pub fn contents_span(&self) -> Option<Range<usize>> {
        let text = self.text()?;
        let raw = self.place.text();
        for quote in ["\"\"\"", "'''", "\"", "'"] {
            let Some(body) = raw.strip_prefix(quote).and_then(|r| r.strip_suffix(quote)) else {
                continue;
            };
            // TOML drops a line break right after three quotes; its length in bytes.
            let newline = if quote.len() == 3 {
                body.len()
                    - body
                        .strip_prefix("\r\n")
                        .or(body.strip_prefix('\n'))
                        .unwrap_or(body)
                        .len()
            } else {
                0
            };
            if &body[newline..] == text {
                let start = self.place.span.start + quote.len() + newline;
                return Some(start..start + text.len());
            }
            return None;
        }
        None
    }
}

/// Returns the place of a range of bytes in a source.
fn place(source: &Source, span: Range<usize>) -> Place {
    Place {
        source: source.clone(),
        span,
    }
}

/// Converts a table of the TOML parser to a node; its entries are sorted into the order of the
/// text. `span` is the table's range of bytes in the source.
fn convert_table(
    source: &Source,
    span: Range<usize>,
    table: &DeTable<'_>,
) -> Result<Node, Diagnostic> {
    let mut entries = table
        .iter()
        .map(|(key, value)| {
            Ok(Entry {
                key: key.get_ref().to_string(),
                place: place(source, key.span()),
                node: convert(source, value)?,
            })
        })
        .collect::<Result<Vec<_>, Diagnostic>>()?;
    entries.sort_by_key(|e| e.place.span.start);
    Ok(Node {
        place: place(source, span),
        value: Value::Table(Table(entries)),
    })
}

/// Converts a value of the TOML parser to a node with its place in `source`. Dates and too large
/// numbers are refused.
fn convert(source: &Source, value: &Spanned<DeValue<'_>>) -> Result<Node, Diagnostic> {
    let at = place(source, value.span());
    let converted = match value.get_ref() {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(i) => {
            Value::Int(i64::from_str_radix(i.as_str(), i.radix()).map_err(|_| {
                Diagnostic::at(
                    &at,
                    format!("the whole number `{}` is too large", at.text()),
                    format!("accepted: {} to {}", i64::MIN, i64::MAX),
                )
            })?)
        }
        DeValue::Float(f) => Value::Float(f.as_str().parse().map_err(|_| {
            Diagnostic::at(
                &at,
                format!("`{}` is not a number", at.text()),
                "accepted: a number",
            )
        })?),
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(_) => {
            return Err(Diagnostic::at(
                &at,
                "no key takes a date or a time of day",
                "accepted: a number, a string, a boolean, a list or a table",
            ));
        }
        DeValue::Array(list) => Value::List(
            list.iter()
                .map(|v| convert(source, v))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => return convert_table(source, value.span(), table),
    };
    Ok(Node {
        place: at,
        value: converted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        Node::parse(&Source::new("f.toml", text)).unwrap()
    }

    #[test]
    fn keys_keep_the_order_of_the_text_and_their_places() {
        let n = node("zebra = 1\n[apple]\nb.c = 'x'\na = [2.5, true]\n");
        let keys: Vec<_> = n.table().unwrap().0.iter().map(|e| &e.key[..]).collect();
        assert_eq!(keys, ["zebra", "apple"]);
        let at = |path: &[&str]| n.nearest(path).place.to_string();
        assert_eq!(at(&["apple", "b", "c"]), "f.toml:3:7");
        assert_eq!(at(&["apple", "a", "1"]), "f.toml:4:11");
        assert_eq!(n.nearest(&["apple", "a", "0"]).scalar().unwrap(), "2.5");
        assert_eq!(at(&["apple", "nothing"]), at(&["apple"]));
    }

    #[test]
    fn contents_of_plain_strings_are_found_and_of_escaped_ones_not() {
        for (text, found) in [
            ("a = \"x y\"", true),
            ("a = 'x y'", true),
            ("a = '''\nx y'''", true),
            ("a = \"\"\"x y\"\"\"", true),
            ("a = \"x \\u0079\"", false),
            ("a = ''", true),
        ] {
            let n = node(text);
            let a = n.nearest(&["a"]);
            let span = a.contents_span();
            assert_eq!(span.is_some(), found, "{text}");
            if let Some(span) = span {
                assert_eq!(&text[span], a.text().unwrap(), "{text}");
            }
        }
    }

    #[test]
    fn overlay_merges_tables_and_replaces_the_rest() {
        let mut n = node("a = 1\n[t]\nx = 1\ny = [1, 2]");
        n.overlay(node("[t]\ny = 3\nz = 4"));
        assert_eq!(n.nearest(&["t", "x"]).scalar().unwrap(), "1");
        assert_eq!(n.nearest(&["t", "y"]).scalar().unwrap(), "3");
        assert_eq!(n.nearest(&["t", "z"]).scalar().unwrap(), "4");
    }
}
