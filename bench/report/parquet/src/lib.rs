//! Parquet files of results: strings, 64-bit integers and doubles, all nullable and uncompressed.
//!
//! This is a separate crate so that only the program that writes such files builds the Parquet
//! library.

use std::io::{self, Write};
use std::sync::Arc;

use fathom_report::{Dataset, Kind, RowWriter, Value};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Returns a dataset as a Parquet file.
///
/// # Errors
/// Returns errors of the Parquet library.
pub fn encode(dataset: &Dataset) -> io::Result<Vec<u8>> {
    let encode = || -> Result<Vec<u8>> {
        let names = dataset.names();
        let column = |i: usize| Kind::of(dataset.rows().iter().map(move |row| &row[i]));
        let kinds: Vec<Kind> = (0..names.len()).map(column).collect();
        let mut writer = file_writer(Vec::new(), names, &kinds)?;
        write_row_group(&mut writer, &kinds, dataset.rows())?;
        writer.into_inner()
    };
    encode().map_err(io::Error::other)
}

/// Writer of rows as they arrive, with one row group per call of `write`.
pub struct ParquetRows<W: Write + Send> {
    kinds: Vec<Kind>,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetRows<W> {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// Returns errors of `to` and of the Parquet library.
    pub fn new(to: W, columns: &[(&str, Kind)]) -> io::Result<Self> {
        let (names, kinds): (Vec<&str>, Vec<Kind>) = columns.iter().copied().unzip();
        let writer = file_writer(to, &names, &kinds).map_err(io::Error::other)?;
        Ok(Self { kinds, writer })
    }
}

impl<W: Write + Send> RowWriter for ParquetRows<W> {
    fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        write_row_group(&mut self.writer, &self.kinds, rows).map_err(io::Error::other)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.writer.into_inner().map_err(io::Error::other)?.flush()
    }
}

fn file_writer<W: Write + Send>(
    to: W,
    names: &[impl AsRef<str>],
    kinds: &[Kind],
) -> Result<SerializedFileWriter<W>> {
    let field = |(name, kind): (&str, &Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Whole => (Physical::INT64, None),
            Kind::Number => (Physical::DOUBLE, None),
        };
        let field =
            Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        field.with_logical_type(logical).build().map(Arc::new)
    };
    let fields =
        names.iter().map(AsRef::as_ref).zip(kinds).map(field).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("fathom").with_fields(fields).build()?);
    let created = format!("fathom {}", env!("CARGO_PKG_VERSION"));
    let properties = Arc::new(WriterProperties::builder().set_created_by(created).build());
    SerializedFileWriter::new(to, schema, properties)
}

fn write_row_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    kinds: &[Kind],
    rows: &[Vec<Value>],
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for (i, kind) in kinds.iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        let values = || rows.iter().map(|row| &row[i]).filter(|value| **value != Value::Missing);
        // Definition level 1 means that the value is present.
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row[i] != Value::Missing)).collect();
        match kind {
            Kind::Text => {
                let values: Vec<ByteArray> =
                    values().map(|v| ByteArray::from(v.text().into_bytes())).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Kind::Whole => {
                let whole = |value: &Value| if let Value::Whole(n) = value { *n } else { 0 };
                let values: Vec<i64> = values().map(whole).collect();
                column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Kind::Number => {
                let number = |value: &Value| match value {
                    Value::Number(x) => *x,
                    Value::Whole(n) => *n as f64,
                    Value::Text(_) | Value::Missing => f64::NAN,
                };
                let values: Vec<f64> = values().map(number).collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        column.close()?;
    }
    group.close().map(drop)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn read(file: Vec<u8>) -> (Vec<String>, usize) {
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows =
            reader.get_row_iter(None).unwrap().map(|row| format!("{}", row.unwrap())).collect();
        (rows, reader.num_row_groups())
    }

    #[test]
    fn dataset_round_trips_through_parquet() {
        let record = |name: &str, more: fathom_report::Record| {
            [vec![("name".to_owned(), Value::from(name))], more].concat()
        };
        let dataset = Dataset::new(vec![
            record(
                "a,b",
                vec![("n".into(), Value::from(3)), ("x_ms".into(), Value::measured(Some(0.1)))],
            ),
            record(
                "c",
                vec![("x_ms".into(), Value::measured(None)), ("late".into(), Value::Whole(1))],
            ),
        ]);
        let expected = [
            "{name: \"a,b\", n: 3, x_ms: 0.1, late: null}",
            "{name: \"c\", n: null, x_ms: null, late: 1}",
        ];
        assert_eq!(read(encode(&dataset).unwrap()), (expected.map(String::from).to_vec(), 1));
    }

    #[test]
    fn parquet_data_written_in_pieces_form_one_file() {
        let columns = [("name", Kind::Text), ("n", Kind::Whole), ("x_ms", Kind::Number)];
        let row = |name: &str, n: u64, x: Option<f64>| {
            vec![Value::from(name), Value::from(n), Value::measured(x)]
        };
        let pieces = [
            vec![row("a,b", 1, Some(0.5))],
            Vec::new(),
            vec![row("c", 2, None), row("d", 3, Some(2.0))],
        ];
        let mut file = Vec::new();
        let mut writer = Box::new(ParquetRows::new(&mut file, &columns).unwrap());
        pieces.iter().for_each(|piece| writer.write(piece).unwrap());
        writer.finish().unwrap();
        let expected = [
            "{name: \"a,b\", n: 1, x_ms: 0.5}",
            "{name: \"c\", n: 2, x_ms: null}",
            "{name: \"d\", n: 3, x_ms: 2.0}",
        ];
        assert_eq!(read(file), (expected.map(String::from).to_vec(), 2));
    }
}
