//! Reads the tables of a results folder with the types of their columns, for exports and other
//! languages.
//!
//! A folder's CSV files are the only form of its figures. A column's type follows from its name
//! alone, so that the same table of two runs has the same types, whatever values they have.

use crate::diagnostic::Diagnostic;
use std::collections::BTreeSet;

/// The values of a column; `None`: the row has no value.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Words.
    Text(Vec<Option<String>>),
    /// Whole numbers from 0 on.
    Count(Vec<Option<u64>>),
    /// Any numbers.
    Number(Vec<Option<f64>>),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The column's name, with the unit in brackets if the file has it.
    pub name: String,
    /// The column's values, one for each row.
    pub values: Values,
}

/// A table read from a results folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The columns, in the file's order.
    pub columns: Vec<Column>,
    /// The number of rows.
    pub rows: usize,
}

/// The type of those columns of a file that are not known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Columns that are no text and have no unit are counters.
    Counters,
    /// All of them are numbers.
    Numbers,
}

/// The tables of every results folder with a line or more for each cell of the matrix: (name,
/// file).
pub const TABLES: [(&str, &str); 5] = [
    ("summary", "summary.csv"),
    ("iterations", "iterations.csv"),
    ("tasks", "tasks.csv"),
    ("latency", "alloc_latency.csv"),
    ("rows", "rows.csv"),
];

/// The name of the table that [`series`] makes.
pub const SERIES: &str = "series";

/// Columns of text in any table, beside the axes.
const TEXTS: [&str; 16] = [
    "machine",
    "filesystem",
    "policy",
    "seed",
    "outcome",
    "digest",
    "kind",
    "name",
    "unit",
    "class",
    "path",
    "block",
    "row",
    "better",
    "significant",
    "unsupported",
];

/// Columns of whole numbers in any table.
const COUNTS: [&str; 9] = [
    "iteration",
    "n",
    "tasks",
    "count",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
];

impl Table {
    /// Reads a table of the results folder from the text of its CSV file, named `file`; the file's
    /// name and the columns' names decide the types. `axes` are those of the experiment, whose
    /// columns hold text.
    ///
    /// # Errors
    /// Fails if a line has another number of fields, or a value is no number where one is required.
    pub fn read(file: &str, text: &[u8], axes: &[String]) -> Result<Self, Diagnostic> {
        let kind = match file {
            "iterations.csv" => Kind::Counters,
            _ => Kind::Numbers,
        };
        let wrong = |what: String| {
            let what = format!("`{file}`: {what}");
            Diagnostic::placeless(what, "accepted: results as `lowmark run` writes them")
        };
        let mut reader = csv::Reader::from_reader(text);
        let header = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
        let axes: BTreeSet<&str> = axes.iter().map(String::as_str).collect();
        // The type of a column, with no values yet.
        let empty = |name: &str| match name {
            _ if TEXTS.contains(&name) || axes.contains(name) => Values::Text(Vec::new()),
            _ if COUNTS.contains(&name) => Values::Count(Vec::new()),
            _ if kind == Kind::Counters && !name.ends_with(']') => Values::Count(Vec::new()),
            _ => Values::Number(Vec::new()),
        };
        let mut columns: Vec<Column> = header
            .iter()
            .map(|name| Column {
                name: name.to_owned(),
                values: empty(name),
            })
            .collect();
        let mut rows = 0;
        for record in reader.records() {
            let record = record.map_err(|e| wrong(e.to_string()))?;
            rows += 1;
            for (column, field) in columns.iter_mut().zip(&record) {
                column.push(field).map_err(|()| {
                    wrong(format!(
                        "row {rows}: `{field}` is not a value of `{}`",
                        column.name
                    ))
                })?;
            }
        }
        Ok(Self { columns, rows })
    }

    /// Appends the rows of another table. Columns of one table that the other lacks have no values
    /// (`None`) in the other's rows.
    pub fn append(&mut self, other: Self) {
        let (mine, theirs) = (self.rows, other.rows);
        for column in other.columns {
            match self.columns.iter_mut().find(|c| c.name == column.name) {
                Some(own) => own.values.append(column.values),
                None => {
                    let mut values = column.values.none(mine);
                    values.append(column.values);
                    let name = column.name;
                    self.columns.push(Column { name, values });
                }
            }
        }
        self.rows = mine + theirs;
        for column in &mut self.columns {
            // Rows of `other` for which the column got no value.
            let missing = self.rows - column.values.len();
            let none = column.values.none(missing);
            column.values.append(none);
        }
    }
}

impl Column {
    /// Adds a field of the CSV file as a value of the column's type; an empty field is `None`.
    /// Fails if the field is no number in a column of numbers.
    fn push(&mut self, field: &str) -> Result<(), ()> {
        let has_value = !field.is_empty();
        match &mut self.values {
            Values::Text(all) => all.push(has_value.then(|| field.to_owned())),
            Values::Count(all) if has_value => all.push(Some(field.parse().map_err(|_| ())?)),
            Values::Number(all) if has_value => all.push(Some(field.parse().map_err(|_| ())?)),
            Values::Count(all) => all.push(None),
            Values::Number(all) => all.push(None),
        }
        Ok(())
    }
}

impl Values {
    /// Returns the number of values, which includes those that are `None`.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(all) => all.len(),
            Self::Count(all) => all.len(),
            Self::Number(all) => all.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns values of the same type for `rows` rows, all `None`.
    fn none(&self, rows: usize) -> Self {
        match self {
            Self::Text(_) => Self::Text(vec![None; rows]),
            Self::Count(_) => Self::Count(vec![None; rows]),
            Self::Number(_) => Self::Number(vec![None; rows]),
        }
    }

    /// Appends values of the same type.
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Text(all), Self::Text(more)) => all.extend(more),
            (Self::Count(all), Self::Count(more)) => all.extend(more),
            (Self::Number(all), Self::Number(more)) => all.extend(more),
            _ => unreachable!("a column's type follows from its name"),
        }
    }
}

/// Combines the time series of all cells into one table with a row for each value: the file
/// (`cell`), `time [s]`, the series (`name`, `scope`, `unit`), `value`. `files` are names below
/// `series/` without their ending, and texts.
///
/// # Errors
/// Fails as [`Table::read`] does.
pub fn series<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Table, Diagnostic> {
    let (mut cells, mut times, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let (mut scopes, mut units, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (file, text) in files {
        let table = Table::read(SERIES, text, &[])?;
        let mut columns = table.columns.into_iter();
        let Some(Values::Number(t)) = columns.next().map(|c| c.values) else {
            continue;
        };
        for column in columns {
            let Values::Number(own) = column.values else {
                continue;
            };
            let [name, scope, unit] = parts(&column.name);
            for (t, value) in t.iter().zip(own) {
                cells.push(Some(file.to_owned()));
                times.push(*t);
                names.push(Some(name.to_owned()));
                scopes.push(Some(scope.to_owned()));
                units.push(Some(unit.to_owned()));
                values.push(value);
            }
        }
    }
    let rows = values.len();
    let column = |name: &str, values| Column {
        name: name.to_owned(),
        values,
    };
    let columns = vec![
        column("cell", Values::Text(cells)),
        column("time [s]", Values::Number(times)),
        column("name", Values::Text(names)),
        column("scope", Values::Text(scopes)),
        column("unit", Values::Text(units)),
        column("value", Values::Number(values)),
    ];
    Ok(Table { columns, rows })
}

/// Splits a column's heading, such as `free node1/Normal [pages]`, into name, scope and unit;
/// missing parts are empty.
pub fn parts(head: &str) -> [&str; 3] {
    let (rest, unit) = head.rsplit_once(" [").unwrap_or((head, ""));
    let (name, scope) = rest.split_once(' ').unwrap_or((rest, ""));
    [name, scope, unit.trim_end_matches(']')]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_from_names_and_empty_fields_have_no_value() {
        let text = b"machine,machine.cpus,iteration,elapsed [s],pgscan\nm,2,0,1.5,\nm,4,1,,7\n";
        let axes = ["machine.cpus".to_owned()];
        let table = Table::read("iterations.csv", text, &axes).unwrap();
        let values: Vec<&Values> = table.columns.iter().map(|c| &c.values).collect();
        assert_eq!(
            values[1],
            &Values::Text(vec![Some("2".into()), Some("4".into())])
        );
        assert_eq!(values[2], &Values::Count(vec![Some(0), Some(1)]));
        assert_eq!(values[3], &Values::Number(vec![Some(1.5), None]));
        assert_eq!(values[4], &Values::Count(vec![None, Some(7)]));
        assert_eq!(table.rows, 2);
        let error = Table::read("iterations.csv", b"pgscan\nmany\n", &[]).unwrap_err();
        assert!(
            error.message.contains("`many` is not a value of `pgscan`"),
            "{error}"
        );
        assert!(Table::read("iterations.csv", b"a,b\n1\n", &[]).is_err());
    }

    #[test]
    fn tables_of_unlike_columns_go_below_each_other() {
        let read = |text: &str| Table::read("iterations.csv", text.as_bytes(), &[]).unwrap();
        let mut table = read("n,a\n1,2\n");
        table.append(read("n,b\n3,4\n"));
        let names: Vec<&str> = table.columns.iter().map(|c| &c.name[..]).collect();
        assert_eq!(names, ["n", "a", "b"]);
        assert_eq!(table.columns[1].values, Values::Count(vec![Some(2), None]));
        assert_eq!(table.columns[2].values, Values::Count(vec![None, Some(4)]));
    }

    #[test]
    fn a_series_becomes_a_row_a_value() {
        let text = b"time [s],free node1/Normal [pages],waiting page lock [tasks]\n0,5,\n1,6,2\n";
        let table = series([("1-a", &text[..])]).unwrap();
        assert_eq!(table.rows, 4);
        let scope = &table.columns[3].values;
        let Values::Text(scope) = scope else { panic!() };
        assert_eq!(scope[0].as_deref(), Some("node1/Normal"));
        assert_eq!(scope[3].as_deref(), Some("page lock"));
        let values = &table.columns[5].values;
        assert_eq!(
            *values,
            Values::Number(vec![Some(5.0), Some(6.0), None, Some(2.0)])
        );
    }
}
