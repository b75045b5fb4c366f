//! Tables in Arrow's format, exported through its C interface.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use front::Values;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A table that polars, pandas, pyarrow and DuckDB read by `__arrow_c_stream__`.
#[pyclass(frozen, module = "lowmark._lowmark")]
pub struct Table(RecordBatch);

fn wrong(e: ArrowError) -> PyErr {
    PyValueError::new_err(e.to_string())
}

impl Table {
    /// Converts a table of results to Arrow's columns: text, counts (64 bits) and numbers.
    pub fn of(table: front::Table) -> PyResult<Self> {
        let mut fields = Vec::with_capacity(table.columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(table.columns.len());
        for column in table.columns {
            let (kind, array): (_, ArrayRef) = match column.values {
                Values::Text(v) => (DataType::Utf8, Arc::new(StringArray::from(v))),
                Values::Count(v) => (DataType::UInt64, Arc::new(UInt64Array::from(v))),
                Values::Number(v) => (DataType::Float64, Arc::new(Float64Array::from(v))),
            };
            fields.push(Field::new(column.name, kind, true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new(schema, arrays)
            .map(Self)
            .map_err(wrong)
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.0.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Returns Arrow's stream, which shares the table's memory.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the requested schema.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
