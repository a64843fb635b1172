//! Tables as cells of text, and as lines for a terminal.

use std::borrow::Cow;

use maud::{Markup, html};

use crate::data::{Entry, Row, Table};
use crate::scale::estimate;

/// Placeholder for an unknown value.
pub const NOTHING: &str = "-";
/// Maximum width of a line of a row label, in characters.
const LABEL: usize = 34;

/// Upper bounds in pixels: the width of a character, the padding of a cell, and the width of the
/// column of labels. Digits of the widest common system font at 16 pixels are 10.2 pixels wide. The
/// style of pages makes the column of labels at least 9 letters wide.
const CHARACTER: f64 = 10.2;
const PADDING: f64 = 26.0;
const LEAST_LABEL: f64 = 144.0;
/// Total width in pixels of the margins on both sides of a table.
const MARGINS: f64 = 34.0;
/// Maximum width of a page in pixels (`page.rs`).
const WIDEST: f64 = 960.0;
/// Window widths in pixels below which the hint of a table is shown. `page.rs` has a rule for each
/// of them.
const WINDOWS: [f64; 4] = [480.0, 640.0, 800.0, WIDEST];
/// Hint over a table that must be scrolled.
const HINT: &str = "Swipe or scroll the table sideways for more columns.";

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Heading of the column of labels.
    pub corner: String,
    /// Row labels.
    pub labels: Vec<String>,
    /// Columns to the right of the labels.
    pub columns: Vec<Column>,
}

/// A column with two lines of heading.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Upper heading, which neighbouring columns with the same text share. Empty if there is none.
    pub over: String,
    /// Lower heading, directly over the cells.
    pub name: String,
    /// Cells, one per row.
    pub cells: Vec<String>,
}

impl From<&Table> for Grid {
    /// Lists our numbers, each followed by the paper's numbers if the table has any.
    fn from(table: &Table) -> Self {
        let mut columns = Vec::new();
        for (i, head) in table.columns.iter().enumerate() {
            let cells = |of: &dyn Fn(&Entry) -> Option<String>| {
                let cell = |row: &Row| row.entries.get(i).and_then(of);
                table
                    .rows
                    .iter()
                    .map(|row| cell(row).unwrap_or_else(|| NOTHING.to_owned()))
                    .collect::<Vec<_>>()
            };
            let mut column = |name: &str, cells| {
                columns.push(Column { over: head.clone(), name: name.into(), cells })
            };
            column("here", cells(&|entry| entry.ours.as_ref().map(estimate)));
            let paper = cells(&|entry| entry.paper.clone());
            if paper.iter().any(|cell| cell != NOTHING) {
                column("paper", paper);
            }
        }
        Self {
            corner: String::new(),
            labels: table.rows.iter().map(|row| row.label.clone()).collect(),
            columns,
        }
    }
}

impl Grid {
    /// Returns the upper headings with the number of columns under each.
    fn overs(&self) -> Vec<(&str, usize)> {
        let mut overs: Vec<(&str, usize)> = Vec::new();
        for column in &self.columns {
            match overs.last_mut() {
                Some((over, n)) if *over == column.over && !over.is_empty() => *n += 1,
                _ => overs.push((&column.over, 1)),
            }
        }
        overs
    }

    /// Returns whether any column has an upper heading.
    fn has_overs(&self) -> bool {
        self.columns.iter().any(|column| !column.over.is_empty())
    }

    /// Returns the cells of a row.
    pub fn row(&self, i: usize) -> impl Iterator<Item = &str> {
        self.columns.iter().map(move |column| column.cells[i].as_str())
    }

    /// Formats the table in lines of at most `width` characters, unless a single column is wider.
    /// Columns that do not fit go into a further block below.
    pub fn text(&self, width: usize) -> String {
        let labels: Vec<Vec<String>> =
            self.labels.iter().map(|label| wrapped(label, LABEL)).collect();
        let first = labels.iter().flatten().map(|line| chars(line)).max().unwrap_or(0);
        let mut blocks: Vec<Vec<(&str, Vec<&Column>)>> = Vec::new();
        let mut left = 0;
        let mut next = self.columns.iter();
        for (over, n) in self.overs() {
            let columns: Vec<&Column> = next.by_ref().take(n).collect();
            let needs = 2 + group_width(over, &columns);
            if blocks.is_empty() || needs > left {
                blocks.push(Vec::new());
                left = width.saturating_sub(first);
            }
            left = left.saturating_sub(needs);
            if let Some(block) = blocks.last_mut() {
                block.push((over, columns));
            }
        }
        let blocks: Vec<String> =
            blocks.iter().map(|block| self.block(&labels, first, block)).collect();
        let corner = match self.corner.is_empty() {
            true => String::new(),
            false => wrapped(&self.corner, width).join("\n") + "\n",
        };
        corner + &blocks.join("\n")
    }

    /// Formats the table for a page. If the table is wider than the page, a line above the table
    /// says that it can be scrolled.
    pub fn html(&self) -> Markup {
        html! {
            (swipe_hint(self.width()))
            div.wide { (self.rows()) }
        }
    }

    /// Returns the width in pixels if all cells are broken as far as possible. The result is at
    /// least as large as the width in any browser.
    fn width(&self) -> f64 {
        let of = |chars: usize| chars as f64 * CHARACTER;
        let label = self
            .labels
            .iter()
            .chain([&self.corner])
            .map(|label| longest_word(label))
            .max()
            .unwrap_or(0);
        let mut columns = self.columns.iter();
        let groups = self.overs().into_iter().map(|(over, n)| {
            let group = columns.by_ref().take(n);
            let own: f64 = group
                .map(|c| {
                    PADDING
                        + of(c
                            .cells
                            .iter()
                            .chain([&c.name])
                            .map(|text| longest_word(text))
                            .max()
                            .unwrap_or(0))
                })
                .sum();
            own.max(PADDING + of(longest_word(over)))
        });
        let columns: f64 = groups.sum();
        of(label).max(LEAST_LABEL) + PADDING + columns
    }

    fn rows(&self) -> Markup {
        html! {
            table {
                thead {
                    @if self.has_overs() {
                        tr { th {} @for (over, n) in self.overs() { th.over colspan=(n) { (over) } } }
                    }
                    tr { th { (self.corner) } @for column in &self.columns { th { (column.name) } } }
                }
                tbody { @for (i, label) in self.labels.iter().enumerate() {
                    tr { td { (label) } @for cell in self.row(i) { td { (unbroken(cell)) } } }
                } }
            }
        }
    }

    fn block(
        &self,
        labels: &[Vec<String>],
        first: usize,
        block: &[(&str, Vec<&Column>)],
    ) -> String {
        let mut overs = " ".repeat(first);
        let mut names = overs.clone();
        for (over, columns) in block {
            overs += &format!("  {over:<0$}", group_width(over, columns));
            names += &group(over, columns, |column| &column.name);
        }
        let mut lines = if self.has_overs() { vec![overs] } else { Vec::new() };
        lines.push(names);
        for (i, label) in labels.iter().enumerate() {
            let (last, above) =
                label.split_last().map_or(("", &[][..]), |(last, above)| (last.as_str(), above));
            lines.extend(above.iter().cloned());
            let cells =
                block.iter().map(|(over, columns)| group(over, columns, |column| &column.cells[i]));
            lines.push(format!("{last:<first$}") + &cells.collect::<String>());
        }
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// Keeps a mean and its interval on one line.
fn unbroken(cell: &str) -> Cow<'_, str> {
    match cell.contains('±') && chars(cell) <= 20 {
        true => Cow::Owned(cell.replace(' ', "\u{a0}")),
        false => Cow::Borrowed(cell),
    }
}

/// Returns the hint above a table of this width. It is shown only in narrower windows. Tables that
/// fit on every telephone have no hint.
fn swipe_hint(width: f64) -> Markup {
    let needed = width + MARGINS;
    let class = match WINDOWS.iter().find(|window| needed <= **window) {
        _ if needed <= 360.0 => return html! {},
        Some(window) => format!("note sideways under-{window}"),
        None => "note".to_owned(),
    };
    html! { p class=(class) { (HINT) } }
}

/// Returns the number of characters of the longest part of a cell that browsers do not break.
fn longest_word(text: &str) -> usize {
    unbroken(text).split(' ').map(chars).max().unwrap_or(0)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn column_width(column: &Column) -> usize {
    column.cells.iter().chain([&column.name]).map(|text| chars(text)).max().unwrap_or(0)
}

/// Returns the width of several columns with two spaces between them.
fn group_width(over: &str, columns: &[&Column]) -> usize {
    let own: usize = columns.iter().map(|column| column_width(column) + 2).sum();
    own.saturating_sub(2).max(chars(over))
}

fn group<'c>(over: &str, columns: &[&'c Column], of: impl Fn(&'c Column) -> &'c str) -> String {
    let text: String = columns
        .iter()
        .map(|&column| format!("  {:>1$}", of(column), column_width(column)))
        .collect();
    format!("{text:<0$}", group_width(over, columns) + 2)
}

/// Returns the text with its first letter in upper case.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Breaks a text into lines of at most `width` characters, unless a single word is longer.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.len() - 1;
        if !lines[line].is_empty() && chars(&lines[line]) + 1 + chars(word) > width {
            lines.push(word.to_owned());
        } else {
            if !lines[line].is_empty() {
                lines[line].push(' ');
            }
            lines[line].push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(over: &str, name: &str, cells: &[&str]) -> Column {
        Column {
            over: over.into(),
            name: name.into(),
            cells: cells.iter().map(|&c| c.to_owned()).collect(),
        }
    }

    fn grid(columns: Vec<Column>) -> Grid {
        Grid { corner: String::new(), labels: vec!["a".into(), "bcd".into()], columns }
    }

    #[test]
    fn table_columns_line_up_under_their_heads() {
        let grid = grid(vec![
            column("reno", "here", &["4.0 ± 0.1", "12"]),
            column("reno", "paper", &["3.9", "-"]),
            column("the quiet one", "here", &["1", "2"]),
        ]);
        let expected = [
            "     reno              the quiet one",
            "          here  paper  here",
            "a    4.0 ± 0.1    3.9     1",
            "bcd         12      -     2",
            "",
        ];
        assert_eq!(grid.text(100), expected.join("\n"));
    }

    #[test]
    fn table_columns_that_do_not_fit_continue_below() {
        let columns = || (1..=6).map(|i| column("", &format!("column {i}"), &["1", "2"])).collect();
        let text = grid(columns()).text(36);
        // Three columns fit, because they need 3 + 3 x 10 characters.
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 36), "{text}");
        assert!(blocks[1].contains("column 4") && blocks[1].contains("\nbcd"), "{text}");
    }

    #[test]
    fn confidence_intervals_stay_on_one_line() {
        let grid =
            grid(vec![column("", "one", &["4.0 ± 0.1", "a b"]), column("", "two", &["1", "2"])]);
        let page = grid.html().into_string();
        assert!(
            page.contains("<td>4.0\u{a0}±\u{a0}0.1</td>") && page.contains("<td>a b</td>"),
            "{page}"
        );
    }

    #[test]
    fn wide_tables_have_a_hint_to_scroll() {
        let of = |n: usize| {
            grid((0..n).map(|_| column("", "name", &["123456", "2"])).collect())
                .html()
                .into_string()
        };
        assert!(!of(1).contains(HINT), "{}", of(1));
        assert!(
            of(3).contains("sideways under-480") && of(5).contains("sideways under-640"),
            "{}",
            of(5)
        );
        assert!(of(20).contains("class=\"note\""), "wider than any page: {}", of(20));
        // The words of a cell can be broken, an interval cannot.
        let cell = |cell: &str| grid(vec![column("", "a", &[cell, "1"])]).html().into_string();
        assert!(
            !cell("a few words that break").contains(HINT)
                && cell("123456.7 ± 123456.7").contains(HINT)
        );
    }

    #[test]
    fn long_labels_are_wrapped() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 5), ["incomprehensible"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
