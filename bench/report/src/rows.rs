//! A table written in pieces, for results that are too large for memory. This module writes CSV,
//! and `fathom-parquet` writes Parquet.

use std::io::{self, Write};

use crate::dataset::{Kind, Value, csv_line};

/// Destination for rows as they arrive.
pub trait RowWriter {
    /// Writes a piece. Every row has a value for each column. The value is missing or of the
    /// column's kind.
    ///
    /// # Errors
    /// Returns errors of the destination and of the format.
    fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()>;

    /// Finishes the output.
    ///
    /// # Errors
    /// Returns the same errors as [`RowWriter::write`].
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Writer of CSV (RFC 4180) with the names of the columns first.
#[derive(Debug)]
pub struct CsvRows<W>(W);

impl<W: Write> CsvRows<W> {
    /// Creates a writer and writes the names of the columns.
    ///
    /// # Errors
    /// Returns errors of `to`.
    pub fn new(mut to: W, columns: &[(&str, Kind)]) -> io::Result<Self> {
        let names = columns.iter().map(|(name, _)| Value::from(*name));
        writeln!(to, "{}", csv_line(&names.collect::<Vec<_>>()))?;
        Ok(Self(to))
    }
}

impl<W: Write> RowWriter for CsvRows<W> {
    fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        rows.iter().try_for_each(|row| writeln!(self.0, "{}", csv_line(row)))
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_written_in_pieces_form_one_csv_file() {
        let columns = [("name", Kind::Text), ("n", Kind::Whole), ("x_ms", Kind::Number)];
        let row = |name: &str, n: u64, x: Option<f64>| {
            vec![Value::from(name), Value::from(n), Value::measured(x)]
        };
        let pieces = [
            vec![row("a,b", 1, Some(0.5))],
            Vec::new(),
            vec![row("c", 2, None), row("d", 3, Some(2.0))],
        ];
        let mut csv = Vec::new();
        let mut writer = Box::new(CsvRows::new(&mut csv, &columns).unwrap());
        pieces.iter().for_each(|piece| writer.write(piece).unwrap());
        writer.finish().unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), "name,n,x_ms\n\"a,b\",1,0.5\nc,2,\nd,3,2\n");
    }
}
