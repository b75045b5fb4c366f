//! A table as JSON lines: one object per row, null for missing values.

use super::Table;
use lab::results::table::Values;
use serde_json::Value;
use std::io::Write;

/// Writes a table into memory: a line for each row, with null for missing values.
pub fn write(table: &Table, out: &mut Vec<u8>) {
    let names: Vec<String> = table
        .columns
        .iter()
        .map(|c| Value::String(c.name.clone()).to_string())
        .collect();
    for row in 0..table.rows {
        for (i, (column, name)) in table.columns.iter().zip(&names).enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let value = match &column.values {
                Values::Text(v) => v[row].clone().map_or(Value::Null, Value::String),
                Values::Count(v) => v[row].map_or(Value::Null, Value::from),
                Values::Number(v) => v[row].map_or(Value::Null, Value::from),
            };
            let _ = write!(out, "{before}{name}:{value}");
        }
        out.extend_from_slice(b"}\n");
    }
}
