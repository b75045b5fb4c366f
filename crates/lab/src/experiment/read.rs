//! Converts a [`Node`] to a typed value by serde, with every error at its place in the text.
//!
//! The types of `sim` and `mm` define what an experiment may hold; a new field or switch there
//! needs no change here.

use super::node::{Entry, Node, Table, Value};
use crate::diagnostic::{Diagnostic, Place, one_of};
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Converts a tree to a value of type `T` by serde; `path` is its key as shown in messages.
///
/// # Errors
/// Returns the first mistake.
pub fn read<T: DeserializeOwned>(node: &Node, path: &str) -> Result<T, Diagnostic> {
    T::deserialize(node).map_err(|e| e.at(node).into_diagnostic(path))
}

/// An error on its way up the tree.
#[derive(Debug)]
pub struct Complaint {
    what: What,
    accepted: String,
    place: Option<Place>,
    path: Vec<String>,
}

#[derive(Debug)]
enum What {
    /// A sentence about the value at the path.
    Value(String),
    /// The last part of the path is an unknown key.
    UnknownKey(String),
    /// A key is missing in the table at the path.
    MissingKey(&'static str),
}

impl Complaint {
    /// Builds an error whose place and path are filled in on its way up the tree.
    fn new(what: What, accepted: impl Into<String>) -> Self {
        Self {
            what,
            accepted: accepted.into(),
            place: None,
            path: Vec::new(),
        }
    }

    /// Sets the place of the error, unless a node further down has set it already.
    fn at(mut self, node: &Node) -> Self {
        self.place.get_or_insert_with(|| node.place.clone());
        self
    }

    /// Adds the key or index under which the value lies; keys are added from the innermost to the
    /// outermost.
    fn under(mut self, key: &str) -> Self {
        self.path.push(key.to_owned());
        self
    }

    /// Turns the error into the one that is shown, with the whole path of the value; `root` is the
    /// path of the tree that was read.
    fn into_diagnostic(self, root: &str) -> Diagnostic {
        let mut path = if root.is_empty() {
            Vec::new()
        } else {
            vec![root.to_owned()]
        };
        path.extend(self.path.into_iter().rev());
        let dotted = |path: &[String]| path.join(".");
        let message = match self.what {
            What::Value(sentence) if path.is_empty() => sentence,
            What::Value(sentence) => format!("`{}`: {sentence}", dotted(&path)),
            What::UnknownKey(key) => {
                path.push(key);
                format!("unknown key `{}`", dotted(&path))
            }
            What::MissingKey(key) => {
                path.push(key.to_owned());
                format!("missing key `{}`", dotted(&path))
            }
        };
        Diagnostic {
            message,
            accepted: self.accepted,
            place: self.place.map(Box::new),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.what)
    }
}

impl std::error::Error for Complaint {}

impl serde::de::Error for Complaint {
    /// Builds an error from a message of a type of `sim` or `mm` that refused its value.
    fn custom<T: fmt::Display>(message: T) -> Self {
        // Types say "…; accepted: …" in one sentence; the second part is shown as help.
        let text = message.to_string();
        match text.split_once("; accepted: ") {
            Some((what, accepted)) => {
                Self::new(What::Value(what.into()), format!("accepted: {accepted}"))
            }
            None => Self::new(What::Value(text), ""),
        }
    }

    /// Builds the error for a value of a type that does not fit.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(
            What::Value(format!("{found} does not fit here")),
            format!("accepted: {expected}"),
        )
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    /// Builds the error for a string that is not one of the accepted words.
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            What::Value(format!("unknown value `{variant}`")),
            one_of(variant, expected),
        )
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(What::UnknownKey(field.to_owned()), one_of(field, expected))
    }

    /// Builds the error for a table that lacks a required key.
    fn missing_field(field: &'static str) -> Self {
        Self::new(
            What::MissingKey(field),
            format!("accepted: a line `{field} = …` in this table"),
        )
    }
}

impl Node {
    /// Builds the error for this value, which is of the wrong type; `accepted` says in words which
    /// is right. Short values are shown.
    fn misfit(&self, accepted: impl Into<String>) -> Complaint {
        let shown = match self.scalar() {
            Some(text) if text.chars().count() <= 40 => format!("{} (`{text}`)", self.kind()),
            _ => self.kind().to_owned(),
        };
        Complaint::new(
            What::Value(format!("{shown} does not fit here")),
            format!("accepted: {}", accepted.into()),
        )
        .at(self)
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
            match &self.value {
                Value::Int(i) => match <$type>::try_from(*i) {
                    Ok(v) => visitor.$visit(v),
                    Err(_) => {
                        let (min, max) = (<$type>::MIN, <$type>::MAX);
                        Err(self.misfit(format!("a whole number from {min} to {max}")))
                    }
                },
                _ => Err(self.misfit("a whole number")),
            }
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for &'de Node {
    type Error = Complaint;

    /// Passes the value to serde's visitor by its own type, for targets that accept several.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        let result = match &self.value {
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Int(i) => visitor.visit_i64(*i),
            Value::Float(f) => visitor.visit_f64(*f),
            Value::Text(t) => visitor.visit_str(t),
            Value::List(list) => visitor.visit_seq(Elements { list, next: 0 }),
            Value::Table(table) => visitor.visit_map(Fields { table, next: 0 }),
        };
        result.map_err(|e| e.at(self))
    }

    whole_numbers! {
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
    }

    /// Reads a number; whole numbers are accepted, too, infinity and NaN are not.
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Int(i) => visitor.visit_f64(*i as f64),
            Value::Float(f) if f.is_finite() => visitor.visit_f64(*f),
            _ => Err(self.misfit("a number")),
        }
    }

    /// Reads true or false; other values are refused, at their place.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Bool(b) => visitor.visit_bool(*b),
            _ => Err(self.misfit("true or false")),
        }
    }

    /// Reads a string; other values are refused, at their place.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Text(t) => visitor.visit_str(t),
            _ => Err(self.misfit("a string in quotes")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        visitor.visit_some(self)
    }

    /// Reads the value as that of the only field of a newtype.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Complaint> {
        visitor.visit_newtype_struct(self)
    }

    /// Reads the name of one of an enum's `variants`, a string.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Text(t) => {
                let name: StrDeserializer<'_, Complaint> = t.as_str().into_deserializer();
                visitor.visit_enum(name).map_err(|e| e.at(self))
            }
            _ => Err(self.misfit(format!("one of {}", quoted(variants)))),
        }
    }

    /// Reads a list; other values are refused, at their place.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::List(_) => self.deserialize_any(visitor),
            _ => Err(self.misfit("a list")),
        }
    }

    /// Reads a table with any keys; other values are refused, at their place.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.misfit("a table")),
        }
    }

    /// Reads a list of exactly `len` values.
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::List(list) if list.len() == len => self.deserialize_any(visitor),
            _ => Err(self.misfit(format!("a list of {len} values"))),
        }
    }

    /// Reads a table with these keys; unknown keys are refused by the type itself.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Complaint> {
        match &self.value {
            Value::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.misfit(format!("a table with the keys {}", fields.join(", ")))),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 f32 char bytes byte_buf unit unit_struct tuple_struct identifier
        ignored_any
    }
}

/// Joins names, each in double quotes, with commas.
fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|n| format!("\"{n}\""))
        .collect::<Vec<_>>()
        .join(", ")
}

struct Elements<'de> {
    list: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Complaint;

    /// Reads the next element of a list for serde; `None` at the end. An error gets the element's
    /// index and place.
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Complaint> {
        let Some(node) = self.list.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(node)
            .map(Some)
            .map_err(|e| e.at(node).under(&index.to_string()))
    }
}

struct Fields<'de> {
    table: &'de Table,
    next: usize,
}

impl Fields<'_> {
    /// Returns the entry whose value is to be read next; fails at the end of the table.
    fn entry(&self) -> Result<&Entry, Complaint> {
        self.table
            .0
            .get(self.next)
            .ok_or_else(|| Complaint::custom("a value without a key"))
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Complaint;

    /// Reads the next key of a table for serde; `None` at the end. The entry stays the next one
    /// until its value is read.
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Complaint> {
        let Some(entry) = self.table.0.get(self.next) else {
            return Ok(None);
        };
        let name: StrDeserializer<'_, Complaint> = entry.key.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|mut e| {
            e.place.get_or_insert_with(|| entry.place.clone());
            e
        })
    }

    /// Reads the value of the key that was read last, and moves on. An error gets the key and the
    /// value's place.
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Complaint> {
        self.entry()?;
        let entry = &self.table.0[self.next];
        self.next += 1;
        seed.deserialize(&entry.node)
            .map_err(|e| e.at(&entry.node).under(&entry.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;
    use sim::spec::{Boot, DiskSpec, Sysctl};

    fn complaint<T: DeserializeOwned + fmt::Debug>(text: &str) -> String {
        let node = Node::parse(&Source::new("f.toml", text)).unwrap();
        let e = read::<T>(&node, "machine").unwrap_err();
        format!(
            "{} | {} | {}",
            e.place.as_ref().unwrap(),
            e.message,
            e.accepted
        )
    }

    #[test]
    fn complaints_name_key_place_and_what_fits() {
        insta::assert_snapshot!(
            [
                complaint::<Boot>("kernal = 1"),
                complaint::<Boot>("kernel = true"),
                complaint::<Boot>("anon = '5 apples'"),
                complaint::<Sysctl>("dirty_ratio = -1"),
                complaint::<Sysctl>("dirty_ratio = '40%'"),
                complaint::<Sysctl>("\nswappiness = 4.5"),
                complaint::<DiskSpec>("kind = 'usb-flsh'\ncapacity = '1G'"),
                complaint::<DiskSpec>("kind = 'ssd'"),
                complaint::<DiskSpec>("kind = 3\ncapacity = '1G'"),
            ]
            .join("\n")
        );
    }

    #[test]
    fn values_are_read() {
        let node = Node::parse(&Source::new(
            "f",
            "dirty_ratio = 40\nmin_free_kbytes = 4096\ndirty_bytes = '1M'",
        ))
        .unwrap();
        let sysctl: Sysctl = read(&node, "").unwrap();
        assert_eq!(
            (sysctl.dirty_ratio, sysctl.min_free_kbytes),
            (40, Some(4096))
        );
        assert_eq!(sysctl.dirty_bytes.0, 1 << 20);
        let node = Node::parse(&Source::new(
            "f",
            "kind = 'ssd'\ncapacity = 512\nfaults = [{kind = 'stop', at_s = 1}]",
        ))
        .unwrap();
        let disk: DiskSpec = read(&node, "").unwrap();
        assert_eq!(disk.faults.len(), 1);
    }
}
