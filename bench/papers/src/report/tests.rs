//! Every form of a report with every kind of table and figure. `FATHOM_LOOK=DIR` writes them to a
//! folder for inspection.

use super::*;
use crate::testing::record;
use crate::{Body, Record, Verdict};

#[test]
fn terminal_report_is_complete_and_fits_in_100_columns() {
    let text = text(&record());
    for line in text.lines() {
        assert!(line.chars().count() <= 100 && line.trim_end() == line, "'{line}' in\n{text}");
    }
    for said in [
        "fathom reproduce made-up --scale 0.5 --seeds 2",
        "A. Author, B. Author: <Everything> & more.",
        "Runs have 0.5 of",
        "sdc-figure-4: 72 runs, seeds 1 to 2, quinn",
        "Table 1: drops and goodput",
        // Student's t for two values: 12.706 x 0.1414 / 1.414.
        "4.0 ± 1.3",
        "~1100",
        "Figure 3-4: response times",
        "5 claims: 1 held, 1 not held, 1 undecided, 1 inapplicable, 1 not in regime",
        "held           fewer-drops (Made up §3.2)",
        "test       drop rate < Reno's",
        "found      goodput is 3 % lower",
        "inapplicable   needs-timeouts",
        "because    inapplicable: QUIC's timeouts",
        "not in regime  queue-acts",
        "because    not in regime: the queue dropped nothing",
        "departures from the paper:",
        "- QUIC takes the place of TCP",
    ] {
        assert!(text.contains(said), "'{said}' is not in\n{text}");
    }
}

#[test]
fn paper_report_page_is_self_contained_and_escapes_text() {
    let record = record();
    let page = html(&record);
    assert_eq!(page.matches("<svg").count(), 5);
    assert_eq!(page, html(&record));
    for load in
        ["src=", "@import", "url(", "<script", "<link", "<Everything>", "<made-up>", "NaN", "inf\""]
    {
        assert!(!page.contains(load), "{load}");
    }
    for said in [
        "&lt;Everything&gt;",
        "✓ held",
        "✗ not held",
        "? undecided",
        "– inapplicable",
        "○ not in regime",
        "verdict not-in-regime",
        "the queue dropped nothing",
        "id=\"claims\"",
        "seeds 1 to 2",
        "paper",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert_eq!(page.matches("<table").count(), page.matches("</table>").count());
}

#[test]
fn markdown_page_shows_every_figure_file() {
    let record = record();
    let page = markdown(&record, &[]);
    let files = figures(&record);
    assert_eq!(files.len(), 5);
    assert_eq!(files[1].0, "made-up-figure-5.svg");
    for (file, svg) in &files {
        assert!(page.contains(&format!("](../../bench/results/figures/{file})")), "{file}");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }
    assert!(page.contains("SDC \\| paced: here") && page.contains("&lt;Everything&gt;"), "{page}");
    assert!(
        page.contains("| – inapplicable | needs-timeouts")
            && page.contains("| *not in regime*: the queue"),
        "{page}"
    );
    // Rows of a table have as many cells as the heading.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    for rows in page
        .lines()
        .collect::<Vec<_>>()
        .windows(2)
        .filter(|l| l[0].starts_with('|') && l[1].starts_with('|'))
    {
        assert_eq!(cells(rows[0]), cells(rows[1]), "{rows:?}");
    }
}

#[test]
fn stored_record_gives_the_same_figures() {
    let compact = record().compact();
    let read: Record = serde_json::from_str(&serde_json::to_string(&compact).unwrap()).unwrap();
    assert_eq!(figures(&read), figures(&compact));
    assert_eq!(markdown(&read, &[]), markdown(&compact, &[]));
}

#[test]
fn record_with_empty_tables_and_figures_is_reported() {
    let mut record = record();
    for artefact in &mut record.report.artefacts {
        match &mut artefact.body {
            Body::Table(table) => table.rows.clear(),
            Body::Figure(figure) => figure.series.iter_mut().for_each(|s| s.points.clear()),
        }
    }
    assert!(!html(&record).contains("<svg") && figures(&record).is_empty());
    assert!(text(&record).contains("Figure 5") && markdown(&record, &[]).contains("## Figure 5"));
    record.report.artefacts.clear();
    record.missing = vec!["figure 5".into()];
    assert!(text(&record).contains("Without results: figure 5."));
}

#[test]
fn reports_can_be_written_for_inspection() {
    let Some(folder) = std::env::var_os("FATHOM_LOOK").map(std::path::PathBuf::from) else {
        return;
    };
    let record = record();
    std::fs::write(folder.join("paper.html"), html(&record)).unwrap();
    std::fs::write(folder.join("paper.txt"), text(&record)).unwrap();
    std::fs::write(folder.join("paper.md"), markdown(&record, &[])).unwrap();
    for (file, svg) in figures(&record) {
        std::fs::write(folder.join(file), svg).unwrap();
    }
}

#[test]
fn page_shows_the_verdicts_on_other_stacks() {
    let record = record();
    let mut other = record.clone().verdicts_only(vec!["study 'a': no".to_owned()]);
    other.command += " --stack noq";
    other.studies.iter_mut().for_each(|study| study.stacks = vec!["noq".to_owned()]);
    other.report.claims[0].verdict = Verdict::NotHeld;
    other.report.claims.truncate(1);
    assert!(!markdown(&record, &[]).contains("other stacks"));
    let page = markdown(&record, std::slice::from_ref(&other));
    let part = page.split_once("## The claims on other stacks").expect("the section").1;
    assert!(part.contains(&format!("\n{}\n", other.command)), "{part}");
    assert!(part.contains("Not run on noq: study 'a': no."), "{part}");
    let rows: Vec<&str> = part.lines().filter(|line| line.ends_with(" |")).collect();
    assert_eq!(rows.len(), 1 + record.report.claims.len());
    assert!(rows[0].ends_with("| noq |") && rows[1].ends_with("| ✗ not held |"), "{part}");
    assert!(rows[2].ends_with("| not run |"), "{part}");
}
