//! Results as columns of typed values, for programs: CSV, and Parquet where it is built in.

use std::fmt::Write;

use crate::saved::cell;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// Not measured, or not of this row.
    Missing,
}

impl Value {
    /// A number that may not have been measured.
    pub fn measured(value: Option<f64>) -> Self {
        value.filter(|v| v.is_finite()).map_or(Self::Missing, Self::Number)
    }

    /// What a text says: a whole number, a number, or itself.
    pub fn typed(text: &str) -> Self {
        let number = || text.parse().ok().filter(|x: &f64| x.is_finite()).map(Self::Number);
        let whole = text.parse().ok().map(Self::Whole);
        whole.or_else(number).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(n) => n.to_string(),
            Self::Number(x) => x.to_string(),
            Self::Missing => String::new(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        i64::try_from(n).map_or(Self::Number(n as f64), Self::Whole)
    }
}

/// A row: names of columns and values.
pub type Record = Vec<(String, Value)>;

/// A table of typed columns. Names say the unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Dataset {
    /// Rows that may have different columns: each column stands where it first comes, and is missing where a row lacks it.
    pub fn new(records: Vec<Record>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            let mut row = vec![Value::Missing; names.len()];
            for (name, value) in record {
                let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name);
                    row.push(Value::Missing);
                    names.len() - 1
                });
                row[place] = value;
            }
            rows.push(row);
        }
        rows.iter_mut().for_each(|row| row.resize(names.len(), Value::Missing));
        Self { names, rows }
    }

    /// Lines of CSV (RFC 4180), names first. Missing values are empty.
    pub fn csv(&self) -> String {
        let mut csv = self.names.iter().map(|name| cell(name)).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(csv, "{}", csv_line(row));
        }
        csv
    }

    /// A Parquet file: texts, 64-bit integers and doubles, all nullable, not compressed.
    ///
    /// # Errors
    /// What the Parquet library says.
    #[cfg(feature = "parquet")]
    pub fn parquet(&self) -> Result<Vec<u8>, String> {
        self.write_parquet().map_err(|e| e.to_string())
    }

    #[cfg(feature = "parquet")]
    fn write_parquet(&self) -> parquet::errors::Result<Vec<u8>> {
        let kinds: Vec<Kind> = (0..self.names.len()).map(|i| Kind::of(self.rows.iter().map(|row| &row[i]))).collect();
        let mut writer = parquet_writer(Vec::new(), &self.names, &kinds)?;
        write_row_group(&mut writer, &kinds, &self.rows)?;
        writer.into_inner()
    }
}

/// A line of CSV, without its end.
pub(crate) fn csv_line(row: &[Value]) -> String {
    row.iter().map(|value| cell(&value.text())).collect::<Vec<_>>().join(",")
}

/// A Parquet file to be: columns of these names and kinds.
#[cfg(feature = "parquet")]
pub(crate) fn parquet_writer<W: std::io::Write + Send>(
    to: W,
    names: &[impl AsRef<str>],
    kinds: &[Kind],
) -> parquet::errors::Result<parquet::file::writer::SerializedFileWriter<W>> {
    use std::sync::Arc;

    use parquet::basic::{LogicalType, Repetition, Type as Physical};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    let field = |(name, kind): (&str, &Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Whole => (Physical::INT64, None),
            Kind::Number => (Physical::DOUBLE, None),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        field.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = names.iter().map(AsRef::as_ref).zip(kinds).map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("fathom").with_fields(fields).build()?);
    let created = format!("fathom {}", env!("CARGO_PKG_VERSION"));
    let properties = Arc::new(WriterProperties::builder().set_created_by(created).build());
    SerializedFileWriter::new(to, schema, properties)
}

/// Writes these rows as a row group.
#[cfg(feature = "parquet")]
pub(crate) fn write_row_group<W: std::io::Write + Send>(
    writer: &mut parquet::file::writer::SerializedFileWriter<W>,
    kinds: &[Kind],
    rows: &[Vec<Value>],
) -> parquet::errors::Result<()> {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};

    let mut group = writer.next_row_group()?;
    for (i, kind) in kinds.iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        let values = || rows.iter().map(|row| &row[i]).filter(|value| **value != Value::Missing);
        // A level of one: the value is there.
        let there: Vec<i16> = rows.iter().map(|row| i16::from(row[i] != Value::Missing)).collect();
        match kind {
            Kind::Text => {
                let values: Vec<ByteArray> = values().map(|v| ByteArray::from(v.text().into_bytes())).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
            }
            Kind::Whole => {
                let whole = |value: &Value| if let Value::Whole(n) = value { *n } else { 0 };
                let values: Vec<i64> = values().map(whole).collect();
                column.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
            }
            Kind::Number => {
                let number = |value: &Value| match value {
                    Value::Number(x) => *x,
                    Value::Whole(n) => *n as f64,
                    Value::Text(_) | Value::Missing => f64::NAN,
                };
                let values: Vec<f64> = values().map(number).collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
            }
        }
        column.close()?;
    }
    group.close().map(drop)
}

/// What all values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
}

#[cfg(feature = "parquet")]
impl Kind {
    fn of<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        let of = |value: &Value| match value {
            Value::Text(_) => Some(Self::Text),
            Value::Whole(_) => Some(Self::Whole),
            Value::Number(_) => Some(Self::Number),
            Value::Missing => None,
        };
        let wider = |a, b| match (a, b) {
            (Self::Text, _) | (_, Self::Text) => Self::Text,
            (Self::Whole, Self::Whole) => Self::Whole,
            _ => Self::Number,
        };
        // A column without any value is of numbers: measures are.
        values.filter_map(of).reduce(wider).unwrap_or(Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset() -> Dataset {
        let record = |name: &str, more: Record| [vec![("name".to_owned(), Value::from(name))], more].concat();
        Dataset::new(vec![
            record("a,b", vec![("n".into(), Value::from(3)), ("x_ms".into(), Value::measured(Some(0.1)))]),
            record("c", vec![("x_ms".into(), Value::measured(None)), ("late".into(), Value::Whole(1))]),
        ])
    }

    #[test]
    fn columns_are_the_union_and_missing_is_empty() {
        assert_eq!(dataset().csv(), "name,n,x_ms,late\n\"a,b\",3,0.1,\nc,,,1\n");
        assert_eq!(Dataset::default().csv(), "\n");
    }

    #[test]
    fn texts_are_typed() {
        let cases = [("5", Value::Whole(5)), ("0.5", Value::Number(0.5)), ("10Mbps", Value::from("10Mbps"))];
        for (text, value) in cases {
            assert_eq!(Value::typed(text), value);
        }
        assert_eq!(Value::typed("inf"), Value::from("inf"));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_reads_back() {
        use parquet::file::reader::{FileReader, SerializedFileReader};

        let reader = SerializedFileReader::new(bytes::Bytes::from(dataset().parquet().unwrap())).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| format!("{}", row.unwrap())).collect();
        assert_eq!(
            rows,
            ["{name: \"a,b\", n: 3, x_ms: 0.1, late: null}", "{name: \"c\", n: null, x_ms: null, late: 1}"]
        );
    }
}
