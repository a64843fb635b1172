//! A record as a page of `docs/papers`, with the figure files of the page.

use std::collections::BTreeSet;
use std::fmt::Write;

use fathom_report::{Grid, standalone};

use super::html::mark;
use super::text::{cautions, count, departures, explained, heading, ran, tally, word};
use crate::{Artefact, Body, Claim, Record, Verdict};

/// Path of the figures relative to `docs/papers`.
const FIGURES: &str = "../../bench/results/figures";

/// Returns the file name of a figure: `sdc-figure-4.svg`.
pub fn figure_file(paper: &str, id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c.to_ascii_lowercase() } else { '-' }
    };
    format!("{paper}-{}.svg", id.chars().map(plain).collect::<String>())
}

/// Returns the figures of a record as file names and contents.
pub fn figures(record: &Record) -> Vec<(String, String)> {
    let of = |artefact: &Artefact| match &artefact.body {
        Body::Table(_) => None,
        Body::Figure(figure) => {
            Some((figure_file(&record.report.paper, &artefact.id), standalone(figure)?))
        }
    };
    record.report.artefacts.iter().filter_map(of).collect()
}

/// Escapes a text so that Markdown shows it unchanged, also in a table.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => plain.extend(['\\', c]),
            '\n' => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

/// Returns the page in Markdown. `others` are records of the same paper on other stacks, of which
/// the page shows the verdicts.
pub fn markdown(record: &Record, others: &[Record]) -> String {
    let paper = &record.report.paper;
    let mut page = format!(
        "# {}\n\n<!-- Made from bench/results/{paper}.json: FATHOM_WRITE=1 cargo test -p fathom-papers --test papers -->\n\n{}\n\n\
         ```sh\n{}\n```\n\n",
        plain(paper),
        plain(&record.citation),
        record.command,
    );
    for caution in cautions(record) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "**{}**\n", plain(&caution));
    }
    for artefact in &record.report.artefacts {
        let _ = writeln!(page, "## {}\n", plain(&heading(artefact)));
        match &artefact.body {
            Body::Table(numbers) => page += &table(&Grid::from(numbers)),
            Body::Figure(figure) => {
                if standalone(figure).is_some() {
                    let file = figure_file(paper, &artefact.id);
                    let _ = writeln!(page, "![{}]({FIGURES}/{file})\n", plain(&artefact.title));
                }
                page += &table(&Grid::from(figure));
            }
        }
        if !artefact.note.is_empty() {
            let _ = writeln!(page, "{}\n", plain(&artefact.note));
        }
    }
    claims(&mut page, &record.report.claims);
    on_other_stacks(&mut page, record, others);
    let departures = departures(record);
    if !departures.is_empty() {
        page.push_str("## Departures from the paper\n\n");
        for departure in departures {
            let _ = writeln!(page, "- {}", plain(&departure));
        }
        page.push('\n');
    }
    let _ = writeln!(
        page,
        "## How this was made\n\nfathom {}, in virtual time:\n",
        plain(&record.fathom)
    );
    for study in &record.studies {
        let _ = writeln!(page, "- {}", plain(&ran(study)));
    }
    page
}

/// Returns a verdict as its mark and its word.
fn marked(verdict: Verdict) -> String {
    format!("{} {}", mark(verdict), word(verdict))
}

/// Returns the names of the stacks that ran a record's studies.
fn stacks(record: &Record) -> String {
    let names: BTreeSet<&str> =
        record.studies.iter().flat_map(|study| &study.stacks).map(String::as_str).collect();
    Vec::from_iter(names).join(", ")
}

/// Adds a table of the verdicts on each stack.
fn on_other_stacks(page: &mut String, record: &Record, others: &[Record]) {
    if others.is_empty() {
        return;
    }
    let all = || std::iter::once(record).chain(others);
    page.push_str("## The claims on other stacks\n\n```sh\n");
    for other in others {
        let _ = writeln!(page, "{}", other.command);
    }
    page.push_str("```\n\n");
    for other in others {
        for caution in cautions(other) {
            let _ = writeln!(page, "**{}: {}**\n", stacks(other), plain(&caution));
        }
    }
    for other in others {
        for reason in &other.left_out {
            let _ = writeln!(page, "Not run on {}: {}.\n", stacks(other), plain(reason));
        }
    }
    let heads: Vec<String> = all().map(stacks).collect();
    let _ =
        writeln!(page, "| claim | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for claim in &record.report.claims {
        let verdict = |record: &Record| {
            let same = record.report.claims.iter().find(|other| other.id == claim.id);
            same.map_or_else(|| "not run".to_owned(), |claim| marked(claim.verdict))
        };
        let verdicts: Vec<String> = all().map(verdict).collect();
        let _ = writeln!(
            page,
            "| {}: {} | {} |",
            plain(&claim.id),
            plain(&claim.says),
            verdicts.join(" | ")
        );
    }
    page.push('\n');
}

/// Formats a table in Markdown, which allows one line of headings: an upper heading is prefixed to
/// the column's name.
fn table(grid: &Grid) -> String {
    if grid.columns.is_empty() {
        return String::new();
    }
    let mut text = format!("| {} |", plain(&grid.corner));
    for column in &grid.columns {
        let head = if column.over.is_empty() {
            column.name.clone()
        } else {
            format!("{}: {}", column.over, column.name)
        };
        let _ = write!(text, " {} |", plain(&head));
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(grid.columns.len()));
    for (i, label) in grid.labels.iter().enumerate() {
        let _ = write!(text, "| {} |", plain(label));
        for cell in grid.row(i) {
            let _ = write!(text, " {} |", plain(cell));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Returns the number of claims of each paper by verdict, as a table.
pub fn verdict_counts<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let words = Verdict::ALL.map(word);
    let mut text = format!(
        "| paper | stacks | seeds | claims | {} |\n|---|---|---|--:|{}\n",
        words.join(" | "),
        "--:|".repeat(words.len())
    );
    for record in records {
        let Record { report, studies, .. } = record;
        let seeds: BTreeSet<u64> = studies.iter().map(|study| study.seeds).collect();
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let _ = writeln!(
            text,
            "| [{name}](papers/{name}.md) | {} | {} | {} | {} |",
            stacks(record),
            seeds.join(" or "),
            report.claims.len(),
            Verdict::ALL.map(|verdict| count(&report.claims, verdict).to_string()).join(" | "),
            name = report.paper,
        );
    }
    text
}

/// Returns the claims as a table of the paper's, ns-2's and the laboratory's numbers.
pub fn beside_ns2(record: &Record) -> String {
    let claims = &record.report.claims;
    let mut text = format!(
        "{}.\n\n| paper | ns-2 | laboratory | verdict |\n|---|---|---|---|\n",
        tally(claims)
    );
    for claim in claims {
        let ns2 = if claim.ns2.is_empty() { "not run" } else { claim.ns2.as_str() };
        let _ = writeln!(
            text,
            "| {} ({}) | {} | {} | {} |",
            plain(&claim.says),
            plain(&claim.source),
            plain(ns2),
            plain(&claim.found),
            marked(claim.verdict),
        );
    }
    text
}

fn claims(page: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "## What the paper claims\n\n{}.\n\n| verdict | claim | test | found |\n|---|---|---|---|",
        tally(claims)
    );
    for claim in claims {
        let reason: String = explained(claim)
            .map(|(what, reason)| format!("*{what}*: {}. ", plain(reason).trim_end_matches('.')))
            .collect();
        let ns2 = match claim.ns2.as_str() {
            "" => String::new(),
            numbers => format!(". *ns-2*: {}", plain(numbers)),
        };
        let _ = writeln!(
            page,
            "| {} | {} ({}): {} | {} | {reason}{}{ns2} |",
            marked(claim.verdict),
            plain(&claim.id),
            plain(&claim.source),
            plain(&claim.says),
            plain(&claim.test),
            plain(&claim.found),
        );
    }
    page.push('\n');
}
