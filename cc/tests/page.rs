//! Compares `docs/controllers.md` with the catalogue. The page must have a section, a figure and a
//! current table of options for every controller.
//!
//! `FATHOM_WRITE=1 cargo test -p fathom-cc --test cc-tests page::` rewrites the sections. Without
//! `FATHOM_WRITE`, the test compares.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_cc::algorithm::Page;
use fathom_cc::catalogue::{Algorithm, CATALOGUE, Values};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Returns the committed page. A checkout may have changed the line ends.
fn page() -> String {
    fs::read_to_string(docs().join("controllers.md")).expect("the page").replace("\r\n", "\n")
}

fn values(values: Values) -> String {
    match values {
        Values::Choice(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        range => range.to_string(),
    }
}

fn table(entry: &Algorithm) -> String {
    let rows = entry.options.iter().map(|option| {
        let about = option.about.replace('|', "\\|");
        format!(
            "| `{}` | `{}` | {} | {about} |\n",
            option.name,
            option.default,
            values(option.values)
        )
    });
    format!(
        "\n| option | default | values | what it does |\n|---|---|---|---|\n{}\n",
        rows.collect::<String>()
    )
}

/// Returns the section of a controller, generated from its catalogue entry.
fn section(entry: &Algorithm) -> String {
    let Algorithm { name, page, .. } = entry;
    let Page { about, departures, figure, to_see, weakness } = page;
    format!(
        "\n## `{name}`\n\n{about}\n\n<!-- options: {name} -->\n{}<!-- end -->\n\nDepartures in brief: {departures}\n\n\
         ![{figure}](figures/reaction-{name}.svg)\n\nIn the figure: {to_see}\n\nWeaknesses: {weakness}\n",
        table(entry)
    )
}

/// Returns the page as it should be. The part before the first section is written by hand, and the
/// sections come from the catalogue.
fn written(page: &str) -> String {
    let head = page.split("\n## ").next().unwrap_or_default();
    head.to_owned() + &CATALOGUE.iter().map(section).collect::<String>()
}

#[test]
fn controllers_page_matches_the_catalogue() {
    let (page, written) = (page(), written(&page()));
    if std::env::var_os("FATHOM_WRITE").is_some() {
        fs::write(docs().join("controllers.md"), &written).expect("the page");
        return;
    }
    let differs = page.lines().zip(written.lines()).find(|(is, should)| is != should);
    let hint = "FATHOM_WRITE=1 cargo test -p fathom-cc --test cc-tests page::";
    assert!(
        page == written,
        "docs/controllers.md is not as the catalogue has it, first at {differs:?}; write it anew: {hint}"
    );
}

#[test]
fn every_controller_has_a_complete_section_on_the_page() {
    for entry in CATALOGUE {
        let Page { about, departures, figure, to_see, weakness } = entry.page;
        for part in [about, departures, figure, to_see, weakness] {
            assert!(!part.is_empty() && part == part.trim(), "{}: '{part}'", entry.name);
        }
        let figure = format!("figures/reaction-{}.svg", entry.name);
        assert!(docs().join(&figure).is_file(), "{figure}: draw it with FATHOM_DRAW=1");
    }
}
