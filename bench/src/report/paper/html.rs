//! A record as one self-contained HTML file: no scripts, nothing loaded from anywhere.

use std::fmt::Write;

use super::grid::{self, Grid};
use super::text::{cautions, heading, ran, tally, word};
use super::{curves, svg};
use crate::report::html::{STYLE, escape};
use crate::reproduce::{Artefact, Body, Claim, Record, Verdict};

/// Beside the style that all reports share.
const MORE: &str = "\
figure{margin:1em 0}thead tr:first-child th{border-bottom-width:0}th.over{text-align:left}\
details{margin:.5em 0}summary{cursor:pointer;color:#777}code{font-size:.95em}\
.claims td{text-align:left;vertical-align:top}.verdict{white-space:nowrap;font-weight:600}\
.held{color:#00805c}.not-held{color:#c04000}.undecided{color:#777}@media(prefers-color-scheme:dark){\
.held{color:#3cc9a0}.not-held{color:#ff8a4c}.undecided{color:#aaa}}";

/// A mark for a verdict; its word stands beside it.
pub(super) const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "✓",
        Verdict::NotHeld => "✗",
        Verdict::Undecided => "?",
    }
}

/// The page.
pub fn html(record: &Record) -> String {
    let title = escape(&format!("Fathom: {} again", record.report.paper));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}{MORE}</style></head><body>\n<h1>{title}</h1>\n\
         <p>{}</p>\n<p><code>{}</code></p>\n",
        escape(&record.citation),
        escape(&record.command),
    );
    for caution in cautions(record) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "<p><strong>{}</strong></p>", escape(&caution));
    }
    if !record.report.claims.is_empty() {
        let _ =
            writeln!(page, "<p>{}. <a href=\"#claims\">Each with its numbers.</a></p>", tally(&record.report.claims));
    }
    for artefact in &record.report.artefacts {
        section(&mut page, artefact);
    }
    claims(&mut page, &record.report.claims);
    departures(&mut page, record);
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, artefact: &Artefact) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(&heading(artefact)));
    match &artefact.body {
        Body::Table(numbers) => table(page, &grid::of_table(numbers)),
        Body::Figure(figure) => {
            if let Some(plot) = svg(figure) {
                let name = escape(&artefact.title);
                // The drawing has a name for those who hear the page.
                let plot = plot.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{name}\" "), 1);
                let _ = writeln!(page, "<figure>{plot}</figure>");
            }
            page.push_str("<details><summary>numbers</summary>\n");
            table(page, &curves::grid(figure));
            page.push_str("</details>\n");
        }
    }
    if !artefact.note.is_empty() {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(&artefact.note));
    }
}

fn table(page: &mut String, grid: &Grid) {
    page.push_str("<div class=\"wide\"><table><thead>");
    if grid.has_overs() {
        page.push_str("<tr><th></th>");
        for (over, n) in grid.overs() {
            let _ = write!(page, "<th class=\"over\" colspan=\"{n}\">{}</th>", escape(over));
        }
        page.push_str("</tr>\n");
    }
    let _ = write!(page, "<tr><th>{}</th>", escape(&grid.corner));
    for column in &grid.columns {
        let _ = write!(page, "<th>{}</th>", escape(&column.name));
    }
    page.push_str("</tr></thead>\n<tbody>");
    for (i, label) in grid.labels.iter().enumerate() {
        let _ = write!(page, "<tr><td>{}</td>", escape(label));
        for cell in grid.row(i) {
            let _ = write!(page, "<td>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn claims(page: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    let _ = write!(page, "<h2 id=\"claims\">What the paper claims</h2>\n<p>{}.</p>\n", tally(claims));
    page.push_str("<div class=\"wide\"><table class=\"claims\">\n");
    for claim in claims {
        let class = word(claim.verdict).replace(' ', "-");
        let _ = writeln!(
            page,
            "<tr><td class=\"verdict {class}\">{} {}</td><td><strong>{}</strong> ({}): {}<br><span class=\"note\">test:</span> {}<br>\
             <span class=\"note\">found:</span> {}</td></tr>",
            mark(claim.verdict),
            word(claim.verdict),
            escape(&claim.id),
            escape(&claim.source),
            escape(&claim.says),
            escape(&claim.test),
            escape(&claim.found),
        );
    }
    page.push_str("</table></div>\n");
}

fn departures(page: &mut String, record: &Record) {
    if !record.report.departures.is_empty() {
        page.push_str("<h2>Departures from the paper</h2>\n<ul>\n");
        for departure in &record.report.departures {
            let _ = writeln!(page, "<li>{}</li>", escape(departure));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("<h2>How this was made</h2>\n<ul>\n");
    let _ = writeln!(
        page,
        "<li>fathom {}, in virtual time: <code>{}</code></li>",
        escape(&record.fathom),
        escape(&record.command)
    );
    for study in &record.studies {
        let _ = writeln!(page, "<li>{}</li>", escape(&ran(study)));
    }
    page.push_str("</ul>\n");
}
