//! A record as text for a terminal.

use fathom_report::{Grid, capitalised, wrapped};

use crate::{Artefact, Body, Claim, Record, StudyRecord, Verdict};

/// Maximum number of characters per line.
const WIDTH: usize = 100;
/// Indentation by the width of the longest verdict plus a gap.
const INDENT: &str = "               ";

/// Returns the word for a verdict.
pub(super) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not held",
        Verdict::Undecided => "undecided",
        Verdict::Inapplicable => "inapplicable",
        Verdict::NotInRegime => "not in regime",
    }
}

/// Returns the label for the reason of a claim.
const fn why(claim: &Claim) -> &'static str {
    match claim.verdict {
        Verdict::Inapplicable => "inapplicable",
        Verdict::NotInRegime => "not in regime",
        // The rest of the claim decided the verdict.
        Verdict::Held | Verdict::NotHeld | Verdict::Undecided => "in part not in regime",
    }
}

/// Returns the explanations of the verdict on a claim, each with its label.
pub(super) fn explained(claim: &Claim) -> impl Iterator<Item = (&'static str, &str)> {
    [(why(claim), claim.reason.as_str()), ("cause", claim.cause.as_str())]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
}

/// Returns the number of claims with a verdict.
pub(super) fn count(claims: &[Claim], verdict: Verdict) -> usize {
    claims.iter().filter(|claim| claim.verdict == verdict).count()
}

/// Counts the claims by verdict.
pub(super) fn tally(claims: &[Claim]) -> String {
    let counts =
        Verdict::ALL.map(|verdict| format!("{} {}", count(claims, verdict), word(verdict)));
    let claims =
        if claims.len() == 1 { "1 claim".to_owned() } else { format!("{} claims", claims.len()) };
    format!("{claims}: {}", counts.join(", "))
}

/// Describes a study that was run.
pub(super) fn ran(ran: &StudyRecord) -> String {
    let runs = match ran.done == ran.runs {
        true if ran.runs == 1 => "1 run".to_owned(),
        true => format!("{} runs", ran.runs),
        false => format!("{} of {} runs", ran.done, ran.runs),
    };
    let seeds =
        if ran.seeds == 1 { "seed 1".to_owned() } else { format!("seeds 1 to {}", ran.seeds) };
    format!(
        "{}: {runs}, {seeds}, {}; fingerprint {}",
        ran.study,
        ran.stacks.join(", "),
        ran.fingerprint
    )
}

/// Returns the caveats to read before the numbers.
pub(super) fn cautions(record: &Record) -> Vec<String> {
    let mut cautions = Vec::new();
    if !record.stale.is_empty() {
        cautions.push(
            "These results have to be computed again, because they are older than changes \
             listed under \"Departures from the paper\"."
                .to_owned(),
        );
    }
    if record.scale < 1.0 {
        cautions.push(format!("Runs have {} of their full length: a quick look.", record.scale));
    }
    if record.studies.iter().any(|ran| ran.done < ran.runs) {
        cautions.push("Some runs have no result and are left out.".to_owned());
    }
    if !record.missing.is_empty() {
        cautions.push(format!("Without results: {}.", record.missing.join(", ")));
    }
    cautions
}

/// Returns the differences between the experiments and the paper's, and between these results and
/// the current experiments.
pub(super) fn departures(record: &Record) -> Vec<String> {
    let stale = record
        .stale
        .iter()
        .map(|change| format!("Applies to these results until they are computed again: {change}"));
    stale.chain(record.report.departures.iter().cloned()).collect()
}

/// Returns the title with the id, capitalised: `Figure 4`.
pub(super) fn heading(artefact: &Artefact) -> String {
    format!("{}: {}", capitalised(&artefact.id), artefact.title)
}

fn paragraph(text: &mut String, first: &str, rest: &str, words: &str) {
    for (i, line) in wrapped(words, WIDTH - first.chars().count()).iter().enumerate() {
        *text += if i == 0 { first } else { rest };
        *text += line;
        text.push('\n');
    }
}

/// Formats the record as lines of at most 100 characters: tables, figures as tables, claims,
/// departures.
pub fn text(record: &Record) -> String {
    let mut text = String::new();
    let t = &mut text;
    paragraph(t, "", "", &record.citation);
    paragraph(t, "", "  ", &format!("{} (fathom {})", record.command, record.fathom));
    for study in &record.studies {
        paragraph(t, "  ", "    ", &ran(study));
    }
    for caution in cautions(record) {
        paragraph(t, "", "", &caution);
    }
    for artefact in &record.report.artefacts {
        t.push('\n');
        paragraph(t, "", "  ", &heading(artefact));
        let grid = match &artefact.body {
            Body::Table(table) => Grid::from(table),
            Body::Figure(figure) => Grid::from(figure),
        };
        *t += &grid.text(WIDTH);
        if !artefact.note.is_empty() {
            paragraph(t, "  ", "  ", &artefact.note);
        }
    }
    if !record.report.claims.is_empty() {
        *t += &format!("\n{}\n", tally(&record.report.claims));
    }
    for claim in &record.report.claims {
        let said = format!("{} ({}): {}", claim.id, claim.source, claim.says);
        paragraph(t, &format!("{:<15}", word(claim.verdict)), INDENT, &said);
        paragraph(t, "    test       ", INDENT, &claim.test);
        for (what, reason) in explained(claim) {
            let (label, said) = match what {
                "cause" => ("    cause      ", reason.to_owned()),
                _ => ("    because    ", format!("{what}: {reason}")),
            };
            paragraph(t, label, INDENT, &said);
        }
        paragraph(t, "    found      ", INDENT, &claim.found);
        if !claim.ns2.is_empty() {
            paragraph(t, "    ns-2       ", INDENT, &claim.ns2);
        }
    }
    let departures = departures(record);
    if !departures.is_empty() {
        *t += "\ndepartures from the paper:\n";
    }
    for departure in departures {
        paragraph(t, "- ", "  ", &departure);
    }
    text
}
