//! Answers of `fathom analyze`: for a terminal, and as one HTML file that loads nothing.

use std::fmt::Write;

use super::html::{STYLE, escape};
use super::paper::svg;
use super::plain;
use crate::analyze::{Page, Sheet};

/// Characters of a line of text.
const WIDTH: usize = 110;

/// For a terminal. Names of files and what logs say of themselves are shown as they are, not acted upon.
pub fn text(page: &Page) -> String {
    let mut text = format!("{}\n", plain(&page.title));
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
        let _ = write!(text, "\n{}", table(sheet));
    }
    text
}

/// Words in lines of at most [`WIDTH`] characters, those after the first behind `indent`.
fn wrapped(words: &str, indent: &str) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for word in words.split_whitespace() {
        let word = &*plain(word);
        let long = word.chars().count();
        // A sign of percent stays with its number.
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

fn table(sheet: &Sheet) -> String {
    let of = |s: &String| plain(s).into_owned();
    let rows = sheet.rows.iter().map(|(label, cells)| (of(label), cells.iter().map(of).collect())).collect();
    let sheet = &Sheet { title: of(&sheet.title), columns: sheet.columns.iter().map(of).collect(), rows };
    let long = |s: &str| s.chars().count();
    let labels = sheet.rows.iter().map(|r| long(&r.0)).max().unwrap_or(0).max(long(&sheet.title));
    let column = |i: usize| {
        let cells = sheet.rows.iter().filter_map(|r| r.1.get(i)).map(|c| long(c));
        cells.chain([long(&sheet.columns[i])]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..sheet.columns.len()).map(column).collect();
    let line = |label: &str, cells: &[String]| {
        let mut line = format!("{label:<labels$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "  {cell:>width$}");
        }
        line.trim_end().to_owned() + "\n"
    };
    let rows: String = sheet.rows.iter().map(|(label, cells)| line(label, cells)).collect();
    line(&sheet.title, &sheet.columns) + &rows
}

/// One self-contained HTML file.
pub fn html(page: &Page) -> String {
    let title = escape(&format!("Fathom: {}", page.title));
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}figure{{margin:1em 0}}</style></head><body>\n\
         <h1>{}</h1>\n",
        escape(&page.title)
    );
    for line in &page.verdicts {
        let _ = writeln!(html, "<p><strong>{}</strong></p>", escape(line));
    }
    list(&mut html, "", &page.cautions);
    for drawn in &page.figures {
        let Some(plot) = svg(&drawn.figure) else { continue };
        let name = escape(&drawn.title);
        // The drawing has a name for those who hear the page.
        let plot = plot.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{name}\" "), 1);
        let _ = writeln!(html, "<h2>{name}</h2>\n<figure>{plot}</figure>");
        if !drawn.note.is_empty() {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&drawn.note));
        }
    }
    for sheet in &page.sheets {
        of_sheet(&mut html, sheet);
    }
    list(&mut html, "How this was measured", &page.method);
    html.push_str("</body></html>\n");
    html
}

fn list(html: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    if !title.is_empty() {
        let _ = writeln!(html, "<h2>{title}</h2>");
    }
    html.push_str("<ul>\n");
    for line in lines {
        let _ = writeln!(html, "<li>{}</li>", escape(line));
    }
    html.push_str("</ul>\n");
}

fn of_sheet(html: &mut String, sheet: &Sheet) {
    let _ = write!(html, "<h2>{}</h2>\n<div class=\"wide\"><table><tr><th></th>", escape(&sheet.title));
    for column in &sheet.columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr>\n");
    for (label, cells) in &sheet.rows {
        let _ = write!(html, "<tr><td>{}</td>", escape(label));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}
