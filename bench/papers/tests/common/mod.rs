//! Files of the repository that tests generate from stored results: read, compare, write. Tables of
//! results.
#![allow(dead_code, reason = "no test uses all functions")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_metrics::Estimate;

/// Returns the folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the repository. Line ends are normalised, because a checkout may
/// have converted them.
pub(crate) fn text(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.replace("\r\n", "\n")
}

/// Returns whether generated files are to be written instead of compared.
pub(crate) fn writes() -> bool {
    std::env::var_os("FATHOM_WRITE").is_some()
}

/// Writes a file of the repository.
pub(crate) fn write(path: &str, text: &str) {
    fs::write(root().join(path), text).unwrap_or_else(|e| panic!("{path}: {e}"));
}

/// Compares a generated file with what it should be, or writes it. `hint` is the command that does
/// so.
pub(crate) fn is_or_becomes(path: &str, should: &str, hint: &str) {
    if writes() {
        write(path, should);
    } else {
        assert!(text(path) == should, "{path} differs from the stored results: {hint}");
    }
}

/// Checks that README.md contains this text, whatever its line breaks.
pub(crate) fn readme_says(should: &str) {
    let readme = text("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(should), "README.md does not say: {should}");
}

/// Returns a Markdown table.
pub(crate) fn table(
    head: impl IntoIterator<Item = impl Into<String>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let head: Vec<String> = head.into_iter().map(Into::into).collect();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    let rule = "---|".repeat(head.len());
    format!("{}|{rule}\n{rows}", line(&head))
}

/// Returns the page with tables between their marks.
pub(crate) fn with_tables(page: &str, tables: &[(impl AsRef<str>, String)]) -> String {
    let mut page = page.to_owned();
    for (name, table) in tables {
        let name = name.as_ref();
        let (start, end) = (format!("<!-- table: {name} -->\n"), "<!-- end of table -->");
        let (before, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no table {name}"));
        let (_, after) = rest.split_once(end).expect("the end of a table");
        page = format!("{before}{start}{table}{end}{after}");
    }
    page
}

/// A row of results: column name to text.
pub(crate) type Row = BTreeMap<String, String>;

/// Returns the rows of a CSV file of the repository, which has no quotes.
pub(crate) fn csv_rows(path: &str) -> Vec<Row> {
    let text = text(path);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().expect("a head").collect();
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

/// Returns the estimate of a column over the rows with these values, or `None` without such rows.
pub(crate) fn estimate(rows: &[Row], key: &[(&str, &str)], column: &str) -> Option<Estimate> {
    let has = |row: &&Row| key.iter().all(|(name, value)| row[*name] == *value);
    let values: Vec<f64> =
        rows.iter().filter(has).map(|row| row[column].parse().expect("a number")).collect();
    (!values.is_empty()).then(|| Estimate::of(&values).expect("numbers"))
}

/// Returns the values of a column over the rows with these values, by seed.
pub(crate) fn by_seed(rows: &[Row], key: &[(&str, &str)], column: &str) -> BTreeMap<String, f64> {
    let has = |row: &&Row| key.iter().all(|(name, value)| row[*name] == *value);
    let value = |row: &Row| (row["seed"].clone(), row[column].parse().expect("a number"));
    rows.iter().filter(has).map(value).collect()
}

/// Returns a cell of a table.
pub(crate) fn cell(rows: &[Row], key: &[(&str, &str)], column: &str, digits: usize) -> String {
    estimate(rows, key, column).map_or_else(|| "-".to_owned(), |e| format!("{e:.digits$}"))
}

/// Returns the distinct values of a column, in the order of the rows or of their numbers.
pub(crate) fn values(rows: &[Row], column: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        if !all.contains(&row[column]) {
            all.push(row[column].clone());
        }
    }
    if all.iter().all(|value| value.parse::<f64>().is_ok()) {
        all.sort_by(|a, b| a.parse::<f64>().unwrap().total_cmp(&b.parse().unwrap()));
    }
    all
}

/// Returns a row: its name and its cells.
pub(crate) fn named(
    name: impl Into<String>,
    cells: impl IntoIterator<Item = String>,
) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
}
