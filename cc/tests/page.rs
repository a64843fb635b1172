//! `docs/controllers.md` against the catalogue: a section, a figure and a table of options for every controller, as they are.
//!
//! `FATHOM_WRITE=1 cargo test -p fathom-cc --test page` writes the tables anew; without it the test compares.

use fathom_cc::catalogue::{Algorithm, CATALOGUE, Values};
use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "<!-- end -->\n";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The page as committed; a checkout may have turned line ends.
fn page() -> String {
    fs::read_to_string(docs().join("controllers.md")).expect("the page").replace("\r\n", "\n")
}

fn values(values: Values) -> String {
    match values {
        Values::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        range => range.to_string(),
    }
}

fn table(entry: &Algorithm) -> String {
    let rows = entry.options.iter().map(|option| {
        let about = option.about.replace('|', "\\|");
        format!("| `{}` | `{}` | {} | {about} |\n", option.name, option.default, values(option.values))
    });
    format!("\n| option | default | values | what it does |\n|---|---|---|---|\n{}\n", rows.collect::<String>())
}

/// The page with the tables of the catalogue between their marks.
fn written(page: &str) -> String {
    let mut text = page.to_owned();
    for entry in CATALOGUE {
        let begin = format!("<!-- options: {} -->\n", entry.name);
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no line '{}'", begin.trim()));
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("no end of the options of {}", entry.name));
        text = format!("{before}{begin}{}{END}{after}", table(entry));
    }
    text
}

#[test]
fn the_tables_are_those_of_the_catalogue() {
    let (page, written) = (page(), written(&page()));
    if std::env::var_os("FATHOM_WRITE").is_some() {
        fs::write(docs().join("controllers.md"), &written).expect("the page");
        return;
    }
    let differs = page.lines().zip(written.lines()).find(|(is, should)| is != should);
    let hint = "FATHOM_WRITE=1 cargo test -p fathom-cc --test page";
    assert!(
        page == written,
        "docs/controllers.md is not as the catalogue has it, first at {differs:?}; write it anew: {hint}"
    );
}

#[test]
fn every_controller_has_a_complete_section() {
    let page = page();
    let mut sections = page.split("\n## ");
    sections.next();
    let sections: Vec<&str> = sections.collect();
    let titles: Vec<String> = sections.iter().map(|s| s.lines().next().unwrap_or_default().to_owned()).collect();
    assert_eq!(titles, CATALOGUE.iter().map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>());
    for (entry, section) in CATALOGUE.iter().zip(sections) {
        let figure = format!("figures/reaction-{}.svg", entry.name);
        assert!(section.contains(&format!("({figure})")) && docs().join(&figure).is_file(), "{figure}");
        for part in ["\nDepartures in brief: ", "\nTo see: ", "\nDoes not do well: "] {
            assert_eq!(section.matches(part).count(), 1, "{}: '{}'", entry.name, part.trim());
        }
        assert_eq!(section.matches("<!-- options: ").count(), 1, "{}", entry.name);
    }
}
