//! A TOML document with the place of every key: `machine.sysctl.dirty_ratio` → byte range.

use super::InputError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::{DeTable, DeValue};

/// A parsed file.
#[derive(Debug, Clone)]
pub struct Doc {
    /// Where it came from.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its values.
    pub table: toml::Table,
    /// The place of each value by dotted path.
    pub values: BTreeMap<String, Range<usize>>,
    /// The place of each key by dotted path.
    pub keys: BTreeMap<String, Range<usize>>,
    /// Dotted paths in file order.
    pub order: Vec<String>,
}

impl Doc {
    /// Parses a file's text.
    ///
    /// # Errors
    /// TOML that is not well-formed.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Box<InputError>> {
        let syntax = |e: &toml::de::Error| {
            let span = e.span().unwrap_or(0..0);
            InputError::at(path, text, span, e.message().to_string(), "well-formed TOML 1.0")
        };
        let spanned = DeTable::parse(text).map_err(|e| syntax(&e))?;
        let table: toml::Table = toml::from_str(text).map_err(|e| syntax(&e))?;
        let mut doc = Self {
            path: path.into(),
            text: text.into(),
            table,
            values: BTreeMap::new(),
            keys: BTreeMap::new(),
            order: Vec::new(),
        };
        doc.walk_table("", spanned.get_ref());
        doc.order.sort_by_key(|k| doc.keys[k].start);
        Ok(doc)
    }

    fn walk_table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = join(prefix, key.get_ref());
            self.keys.insert(path.clone(), key.span());
            self.values.insert(path.clone(), value.span());
            self.order.push(path.clone());
            self.walk(&path, value.get_ref());
        }
    }

    fn walk(&mut self, path: &str, value: &DeValue<'_>) {
        match value {
            DeValue::Table(t) => self.walk_table(path, t),
            DeValue::Array(a) => {
                for (i, v) in a.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    self.values.insert(path.clone(), v.span());
                    self.walk(&path, v.get_ref());
                }
            }
            _ => {}
        }
    }

    /// An error at a value, or at its nearest known parent.
    pub fn error(
        &self,
        path: &str,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Box<InputError> {
        self.error_in(path, None, message, accepted)
    }

    /// An error at a part of a string value: `within` counts bytes inside the quotes.
    pub fn error_in(
        &self,
        path: &str,
        within: Option<Range<usize>>,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Box<InputError> {
        let mut at = path;
        let span = loop {
            if let Some(span) = self.values.get(at) {
                break span.clone();
            }
            match at.rfind(['.', '[']) {
                Some(i) => at = &at[..i],
                None => break 0..0,
            }
        };
        let span = match within {
            // Only a one-line string without escapes maps byte for byte.
            Some(w) if !self.text[span.clone()].contains(['\\', '\n']) => {
                span.start + 1 + w.start..(span.start + 1 + w.end).min(span.end)
            }
            _ => span,
        };
        InputError::at(&self.path, &self.text, span, message, accepted)
    }

    /// An error at a key.
    pub fn key_error(
        &self,
        path: &str,
        message: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Box<InputError> {
        let span = self.keys.get(path).or_else(|| self.values.get(path)).cloned().unwrap_or(0..0);
        InputError::at(&self.path, &self.text, span, message, accepted)
    }

    /// The value at a dotted path.
    pub fn get(&self, path: &str) -> Option<&Value> {
        get(&self.table, path)
    }
}

/// Joins a dotted path.
pub fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.into() } else { format!("{prefix}.{key}") }
}

/// The value at a dotted path of a table.
pub fn get<'a>(table: &'a toml::Table, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let mut v = table.get(parts.next()?)?;
    for p in parts {
        v = v.as_table()?.get(p)?;
    }
    Some(v)
}

/// Replaces the value at a dotted path, making tables on the way.
pub fn set(table: &mut toml::Table, path: &str, value: Value) -> Result<(), String> {
    match path.split_once('.') {
        None => {
            table.insert(path.into(), value);
            Ok(())
        }
        Some((head, rest)) => {
            let inner = table.entry(head).or_insert_with(|| Value::Table(toml::Table::new()));
            match inner {
                Value::Table(t) => set(t, rest, value),
                _ => Err(format!("`{head}` is not a table")),
            }
        }
    }
}
