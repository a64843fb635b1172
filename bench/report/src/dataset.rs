//! Results as columns of typed values for programs, and as CSV. `fathom-parquet` writes them as
//! Parquet.

use std::fmt::Write;

use crate::saved::cell;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// An integer.
    Whole(i64),
    /// A floating-point number.
    Number(f64),
    /// No value, because it was not measured or does not apply to the row.
    Missing,
}

impl Value {
    /// Converts a number that may not have been measured.
    pub fn measured(value: Option<f64>) -> Self {
        value.filter(|v| v.is_finite()).map_or(Self::Missing, Self::Number)
    }

    /// Parses a text as an integer or a number, and otherwise keeps it as text.
    pub fn typed(text: &str) -> Self {
        let number = || text.parse().ok().filter(|x: &f64| x.is_finite()).map(Self::Number);
        let whole = text.parse().ok().map(Self::Whole);
        whole.or_else(number).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Returns the value as text. The text of a missing value is empty.
    pub fn text(&self) -> String {
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

/// A row of column names and values.
pub type Record = Vec<(String, Value)>;

/// A table of typed columns. The names of the columns include the units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Dataset {
    /// Builds a dataset from rows that may have different columns. Columns are ordered by first
    /// appearance. A value is missing if its row lacks the column.
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

    /// Formats the table as CSV (RFC 4180), with the names first. Missing values are empty.
    pub fn csv(&self) -> String {
        let mut csv = self.names.iter().map(|name| cell(name)).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(csv, "{}", csv_line(row));
        }
        csv
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the rows. Each has a value for each column.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
}

/// Formats a line of CSV without the line end.
pub(crate) fn csv_line(row: &[Value]) -> String {
    row.iter().map(|value| cell(&value.text())).collect::<Vec<_>>().join(",")
}

/// Common type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Integers.
    Whole,
    /// Floating-point numbers.
    Number,
}

impl Kind {
    /// Returns the narrowest kind that holds all of these values.
    pub fn of<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
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
        // A column without values counts as a column of numbers, because measures are numbers.
        values.filter_map(of).reduce(wider).unwrap_or(Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset() -> Dataset {
        let record = |name: &str, more: Record| {
            [vec![("name".to_owned(), Value::from(name))], more].concat()
        };
        Dataset::new(vec![
            record(
                "a,b",
                vec![("n".into(), Value::from(3)), ("x_ms".into(), Value::measured(Some(0.1)))],
            ),
            record(
                "c",
                vec![("x_ms".into(), Value::measured(None)), ("late".into(), Value::Whole(1))],
            ),
        ])
    }

    #[test]
    fn missing_values_are_empty_csv_fields() {
        assert_eq!(dataset().csv(), "name,n,x_ms,late\n\"a,b\",3,0.1,\nc,,,1\n");
        assert_eq!(Dataset::default().csv(), "\n");
    }

    #[test]
    fn numeric_text_values_become_numbers() {
        let cases = [
            ("5", Value::Whole(5)),
            ("0.5", Value::Number(0.5)),
            ("10Mbps", Value::from("10Mbps")),
        ];
        for (text, value) in cases {
            assert_eq!(Value::typed(text), value);
        }
        assert_eq!(Value::typed("inf"), Value::from("inf"));
    }
}
