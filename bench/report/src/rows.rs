//! A table that is written piece by piece, for results that memory should not hold: CSV, and Parquet where it is built in.

use std::io::{self, Write};

use crate::dataset::{Kind, Value, csv_line};

/// Writes rows as they come. A Parquet file has a row group for each piece.
pub struct RowWriter<W: Write + Send> {
    kinds: Vec<Kind>,
    format: Format<W>,
}

enum Format<W: Write + Send> {
    Csv(W),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::file::writer::SerializedFileWriter<W>>),
}

impl<W: Write + Send> RowWriter<W> {
    /// As Parquet, or else as CSV.
    ///
    /// # Errors
    /// Those of `to`, and of the Parquet library; also that it is not built in.
    pub fn new(to: W, parquet: bool, columns: &[(&str, Kind)]) -> io::Result<Self> {
        match parquet {
            #[cfg(feature = "parquet")]
            true => Self::parquet(to, columns),
            #[cfg(not(feature = "parquet"))]
            true => Err(io::Error::other("this build lacks Parquet; name a file that ends in .csv")),
            false => Self::csv(to, columns),
        }
    }

    /// CSV (RFC 4180), names of columns first.
    fn csv(mut to: W, columns: &[(&str, Kind)]) -> io::Result<Self> {
        let names = columns.iter().map(|(name, _)| Value::from(*name));
        writeln!(to, "{}", csv_line(&names.collect::<Vec<_>>()))?;
        Ok(Self { kinds: columns.iter().map(|(_, kind)| *kind).collect(), format: Format::Csv(to) })
    }

    /// Parquet, as [`Dataset::parquet`](crate::Dataset::parquet) writes it.
    #[cfg(feature = "parquet")]
    fn parquet(to: W, columns: &[(&str, Kind)]) -> io::Result<Self> {
        let (names, kinds): (Vec<&str>, Vec<Kind>) = columns.iter().copied().unzip();
        let writer = crate::dataset::parquet_writer(to, &names, &kinds).map_err(io::Error::other)?;
        Ok(Self { kinds, format: Format::Parquet(Box::new(writer)) })
    }

    /// Writes a piece. Every row has a value for each column, of its kind or missing.
    ///
    /// # Errors
    /// Those of the writer, and of the Parquet library.
    pub fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        debug_assert!(rows.iter().all(|row| row.len() == self.kinds.len()), "a value for each column");
        match &mut self.format {
            Format::Csv(to) => rows.iter().try_for_each(|row| writeln!(to, "{}", csv_line(row))),
            #[cfg(feature = "parquet")]
            Format::Parquet(_) if rows.is_empty() => Ok(()),
            #[cfg(feature = "parquet")]
            Format::Parquet(writer) => {
                crate::dataset::write_row_group(writer, &self.kinds, rows).map_err(io::Error::other)
            }
        }
    }

    /// Writes the end.
    ///
    /// # Errors
    /// As [`RowWriter::write`].
    pub fn finish(self) -> io::Result<()> {
        match self.format {
            Format::Csv(mut to) => to.flush(),
            #[cfg(feature = "parquet")]
            Format::Parquet(writer) => writer.into_inner().map_err(io::Error::other)?.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Kind); 3] = [("name", Kind::Text), ("n", Kind::Whole), ("x_ms", Kind::Number)];

    fn pieces() -> [Vec<Vec<Value>>; 3] {
        let row = |name: &str, n: u64, x: Option<f64>| vec![Value::from(name), Value::from(n), Value::measured(x)];
        [vec![row("a,b", 1, Some(0.5))], Vec::new(), vec![row("c", 2, None), row("d", 3, Some(2.0))]]
    }

    #[test]
    fn pieces_make_one_csv() {
        let mut csv = Vec::new();
        let mut writer = RowWriter::csv(&mut csv, &COLUMNS).unwrap();
        pieces().iter().for_each(|piece| writer.write(piece).unwrap());
        writer.finish().unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), "name,n,x_ms\n\"a,b\",1,0.5\nc,2,\nd,3,2\n");
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn pieces_make_one_parquet_file() {
        use parquet::file::reader::{FileReader, SerializedFileReader};

        let mut file = Vec::new();
        let mut writer = RowWriter::parquet(&mut file, &COLUMNS).unwrap();
        pieces().iter().for_each(|piece| writer.write(piece).unwrap());
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| format!("{}", row.unwrap())).collect();
        let expected =
            ["{name: \"a,b\", n: 1, x_ms: 0.5}", "{name: \"c\", n: 2, x_ms: null}", "{name: \"d\", n: 3, x_ms: 2.0}"];
        assert_eq!((rows, reader.num_row_groups()), (expected.map(String::from).to_vec(), 2));
    }
}
