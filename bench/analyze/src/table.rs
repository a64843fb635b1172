//! Tables in CSV whose first line names the columns.

use std::io::{self, BufRead};
use std::ops::RangeInclusive;

use fathom_cc::Invalid;

/// Maximum bytes of a line.
const LINE: u64 = 1 << 16;

/// Reason why a table cannot be read, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The next bytes cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// There is no header.
    #[error("is empty")]
    Empty,
    /// A line is not UTF-8.
    #[error("is neither qlog nor text")]
    NotText,
    /// A line has more than 64 KiB.
    #[error("has a line that is too long for a table row")]
    LongLine,
    /// A table of responses lacks the columns for size and time.
    #[error("is neither qlog nor a table with columns 'bytes' and 'response' or 'total_ms'")]
    NoResponses,
    /// A table of connections lacks this column.
    #[error("has no column '{0}'; write one (docs/advise.md)")]
    NoColumn(&'static str),
    /// A cell has a wrong value.
    #[error("line {line}: {problem}")]
    Cell {
        /// Number of the line, from 1.
        line: u64,
        /// Column and value.
        problem: Invalid,
    },
}

/// Reads a table row by row, with at most 64 KiB per line.
#[derive(Debug)]
pub struct TableReader<R> {
    from: R,
    columns: Vec<String>,
    line: u64,
}

impl<R: BufRead> TableReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Returns an error if there is no header or it cannot be read.
    pub fn new(mut from: R) -> Result<Self, TableError> {
        let head = line(&mut from)?.ok_or(TableError::Empty)?;
        Ok(Self { from, columns: cells(&head), line: 1 })
    }

    /// Returns the position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the next row; `None` after the last one. Empty lines are skipped.
    ///
    /// # Errors
    /// Returns an error if the next line is too long, is not text or cannot be read.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, TableError> {
        while let Some(text) = line(&mut self.from)? {
            self.line += 1;
            if !text.is_empty() {
                return Ok(Some(Row {
                    cells: cells(&text),
                    columns: &self.columns,
                    line: self.line,
                }));
            }
        }
        Ok(None)
    }
}

/// A row of a table.
#[derive(Debug)]
pub struct Row<'a> {
    cells: Vec<String>,
    columns: &'a [String],
    line: u64,
}

impl Row<'_> {
    /// Returns the cell of a column; `None` if it is empty or the table has no such column.
    pub fn cell(&self, column: Option<usize>) -> Option<&str> {
        self.cells.get(column?).map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// Returns the number in a column; `None` if the cell is empty or the table has no such column.
    ///
    /// # Errors
    /// Returns an error if the cell is not a number or outside `range`.
    pub fn number(
        &self,
        column: Option<usize>,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, TableError> {
        let Some((column, cell)) = column.zip(self.cell(column)) else { return Ok(None) };
        let number = cell.parse().ok().filter(|n: &f64| n.is_finite() && range.contains(n));
        number.map(Some).ok_or_else(|| {
            let (low, high) = range.into_inner();
            let problem = Invalid::value(cell, "is not a number");
            let problem = if high.is_finite() {
                problem.hint(format!("write a number from {low} to {high}"))
            } else {
                problem
            };
            self.refuse(column, problem)
        })
    }

    /// Returns the error for a wrong value in a column.
    pub fn refuse(&self, column: usize, problem: Invalid) -> TableError {
        TableError::Cell {
            line: self.line,
            problem: problem.in_field(self.columns[column].clone()),
        }
    }
}

/// Returns the next line without its end.
fn line(from: &mut impl BufRead) -> Result<Option<String>, TableError> {
    let mut text = Vec::new();
    let n = io::Read::take(&mut *from, LINE).read_until(b'\n', &mut text)?;
    if n as u64 == LINE {
        return Err(TableError::LongLine);
    }
    let text = String::from_utf8(text).map_err(|_| TableError::NotText)?;
    Ok((n > 0).then(|| text.trim_start_matches('\u{feff}').trim().to_owned()))
}

fn cells(line: &str) -> Vec<String> {
    line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned()).collect()
}
