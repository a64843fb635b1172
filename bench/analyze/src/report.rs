//! Results of `fathom analyze` as text for a terminal and as one self-contained HTML file.

use std::fmt::Write;

use fathom_report::{Column, Grid, csv, plain, plot, shown};
use maud::{Markup, html};

use crate::{Drawing, Page, Sheet};

/// Maximum number of characters in a line of text.
const WIDTH: usize = 110;

impl Drawing {
    /// Returns the plot and its numbers; `None` if there is nothing to draw.
    fn svg_and_csv(&self) -> Option<(String, String)> {
        match self {
            Self::Curves(figure) => plot(figure).map(|svg| (svg, csv(figure))),
            Self::Whiskers(whiskers) => whiskers.svg().map(|svg| (svg, whiskers.csv())),
        }
    }
}

/// Formats a page for a terminal. Control characters in file names and log contents are escaped.
pub fn text(page: &Page) -> String {
    let mut text = format!("{}\n", plain(&page.title));
    if !page.warnings.is_empty() {
        text.push('\n');
    }
    for line in &page.warnings {
        text += &wrapped(&format!("warning: {line}"), "         ");
    }
    for line in &page.verdicts {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "\n{}", wrapped(line, ""));
    }
    if !page.cautions.is_empty() {
        text.push('\n');
    }
    for line in &page.cautions {
        text += &wrapped(&format!("note: {line}"), "      ");
    }
    for sheet in &page.sheets {
        let _ = write!(text, "\n{}", Grid::from(sheet).text(WIDTH));
    }
    text
}

/// Breaks text into lines of at most [`WIDTH`] characters; lines after the first start with
/// `indent`.
fn wrapped(words: &str, indent: &str) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for word in words.split_whitespace() {
        let word = &*plain(word);
        let long = word.chars().count();
        // Keep a percent sign with its number.
        if at > 0 && at + 1 + long > WIDTH && !word.starts_with('%') {
            let _ = write!(text, "\n{indent}");
            at = indent.len();
        } else if at > 0 {
            text.push(' ');
            at += 1;
        }
        text += word;
        at += long;
    }
    text.push('\n');
    text
}

impl From<&Sheet> for Grid {
    fn from(sheet: &Sheet) -> Self {
        let of = |text: &String| plain(text).into_owned();
        let column = |(i, name): (usize, &String)| Column {
            over: String::new(),
            name: of(name),
            cells: sheet
                .rows
                .iter()
                .map(|(_, cells)| cells.get(i).map(of).unwrap_or_default())
                .collect(),
        };
        Self {
            corner: of(&sheet.title),
            labels: sheet.rows.iter().map(|(label, _)| of(label)).collect(),
            columns: sheet.columns.iter().enumerate().map(column).collect(),
        }
    }
}

/// Formats a page as one self-contained HTML file.
pub fn html(page: &Page) -> String {
    let body = html! {
        @for line in &page.warnings { p.warning { strong { "Warning: " } (line) } }
        @for line in &page.verdicts { p.answer { (line) } }
        @if !page.cautions.is_empty() { (list(&page.cautions)) }
        @for drawn in &page.figures {
            @if let Some((drawing, csv)) = drawn.drawing.svg_and_csv() {
                h2 { (drawn.title) }
                (shown(&drawn.title, &drawing, &csv))
                @if !drawn.note.is_empty() { p.note { (drawn.note) } }
            }
        }
        @for sheet in &page.sheets {
            h2 { (sheet.title) }
            (Grid { corner: String::new(), ..Grid::from(sheet) }.html())
        }
        @if !page.method.is_empty() {
            h2 { "How this was measured" }
            (list(&page.method))
        }
    };
    fathom_report::page(&format!("Fathom: {}", page.title), "", &body)
}

fn list(lines: &[String]) -> Markup {
    html! { ul { @for line in lines { li { (line) } } } }
}
