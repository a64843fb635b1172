//! A record as one self-contained HTML file: no scripts and no external resources.

use fathom_report::{Grid, csv, plot, shown};
use maud::{Markup, html};

use super::text::{cautions, departures, explained, heading, ran, tally, word};
use crate::{Artefact, Body, Claim, Record, Verdict};

/// Style in addition to the common one of all reports.
const STYLE: &str = "\
.claims td{text-align:left;vertical-align:top}.verdict{white-space:nowrap;font-weight:600}\
.held{color:#00805c}.not-held{color:#c04000}.undecided,.inapplicable,.not-in-regime{color:#777}\
@media(prefers-color-scheme:dark){.held{color:#3cc9a0}.not-held{color:#ff8a4c}\
.undecided,.inapplicable,.not-in-regime{color:#aaa}}";

/// Returns the mark for a verdict, shown next to the word.
pub(super) const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "✓",
        Verdict::NotHeld => "✗",
        Verdict::Undecided => "?",
        Verdict::Inapplicable => "–",
        Verdict::NotInRegime => "○",
    }
}

/// Returns the record as an HTML page.
pub fn html(record: &Record) -> String {
    let report = &record.report;
    let body = html! {
        p { (record.citation) }
        p { code { (record.command) } }
        @for caution in cautions(record) { p { strong { (caution) } } }
        @if !report.claims.is_empty() {
            p { (tally(&report.claims)) ". " a href="#claims" { "Each with its numbers." } }
        }
        @for artefact in &report.artefacts { (section(artefact)) }
        @if !report.claims.is_empty() { (claims(&report.claims)) }
        @if !departures(record).is_empty() {
            h2 { "Departures from the paper" }
            ul { @for departure in departures(record) { li { (departure) } } }
        }
        h2 { "How this was made" }
        ul {
            li { "fathom " (record.fathom) ", in virtual time: " code { (record.command) } }
            @for study in &record.studies { li { (ran(study)) } }
        }
    };
    fathom_report::page(&format!("Fathom: {} again", report.paper), STYLE, &body)
}

fn section(artefact: &Artefact) -> Markup {
    html! {
        h2 { (heading(artefact)) }
        @match &artefact.body {
            Body::Table(numbers) => (Grid::from(numbers).html()),
            Body::Figure(figure) => {
                @if let Some(drawing) = plot(figure) { (shown(&heading(artefact), &drawing, &csv(figure))) }
                details { summary { "numbers" } (Grid::from(figure).html()) }
            }
        }
        @if !artefact.note.is_empty() { p.note { (artefact.note) } }
    }
}

fn claims(claims: &[Claim]) -> Markup {
    html! {
        h2 #claims { "What the paper claims" }
        p { (tally(claims)) "." }
        div.wide { table.claims {
            @for claim in claims {
                tr {
                    td class={ "verdict " (word(claim.verdict).replace(' ', "-")) } {
                        (mark(claim.verdict)) " " (word(claim.verdict))
                    }
                    td {
                        strong { (claim.id) } " (" (claim.source) "): " (claim.says)
                        br; span.note { "test:" } " " (claim.test)
                        @for (what, reason) in explained(claim) { br; span.note { (what) ":" } " " (reason) }
                        br; span.note { "found:" } " " (claim.found)
                        @if !claim.ns2.is_empty() {
                            br; span.note { "ns-2:" } " " (claim.ns2)
                        }
                    }
                }
            }
        } }
    }
}
