//! A table as Parquet: one row group, plain pages, every column optional.

use super::Table;
use lab::results::table::Values;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;

/// Writes a table into memory.
pub fn write(table: &Table, out: &mut Vec<u8>) -> Result<(), String> {
    written(table, out).map_err(|e| e.to_string())
}

/// Writes a table into memory as a Parquet file with one row group. A missing value is null.
fn written(table: &Table, out: &mut Vec<u8>) -> Result<(), ParquetError> {
    let fields = table.columns.iter().map(|c| {
        let (physical, converted) = match c.values {
            Values::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            Values::Count(_) => (Physical::INT64, ConvertedType::UINT_64),
            Values::Number(_) => (Physical::DOUBLE, ConvertedType::NONE),
        };
        let field = Type::primitive_type_builder(&c.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted);
        field.build().map(Arc::new)
    });
    let schema = Type::group_type_builder("lowmark").with_fields(fields.collect::<Result<_, _>>()?);
    let properties = WriterProperties::builder()
        .set_created_by(format!("lowmark {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema.build()?), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in &table.columns {
        let Some(mut writer) = group.next_column()? else {
            break;
        };
        match &column.values {
            Values::Text(v) => {
                let (levels, v) = given(v, |s| ByteArray::from(s.as_bytes().to_vec()));
                writer
                    .typed::<ByteArrayType>()
                    .write_batch(&v, Some(&levels), None)?;
            }
            Values::Count(v) => {
                let (levels, v) = given(v, |n| *n as i64);
                writer
                    .typed::<Int64Type>()
                    .write_batch(&v, Some(&levels), None)?;
            }
            Values::Number(v) => {
                let (levels, v) = given(v, |n| *n);
                writer
                    .typed::<DoubleType>()
                    .write_batch(&v, Some(&levels), None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

/// Splits a column as Parquet stores it: for each row whether it has a value (1) or not (0), and
/// the values, converted by `one`.
fn given<T, U>(values: &[Option<T>], one: impl Fn(&T) -> U) -> (Vec<i16>, Vec<U>) {
    let levels = values.iter().map(|v| i16::from(v.is_some())).collect();
    (levels, values.iter().flatten().map(one).collect())
}
