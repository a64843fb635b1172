//! Tests of pages: the site's summary lists every page, every link has a target, and every example
//! works.

mod blocks;
mod commands;
mod examples;
mod quoted;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn pages_of(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(folder))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the targets of links, `](target)`, outside code blocks.
fn targets(page: &str) -> Vec<String> {
    let mut code = false;
    let text = page.lines().filter(|line| {
        code ^= line.trim_start().starts_with("```");
        !code
    });
    let text = text.collect::<Vec<_>>().join("\n");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// Returns the anchor that forges and mdBook generate for a heading.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    plain
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_page_is_listed_in_the_site_summary() {
    let summary = targets(&read(&repository().join("docs/site/SUMMARY.md")));
    let listed: BTreeSet<PathBuf> =
        summary.iter().map(|target| repository().join(target)).collect();
    assert_eq!(listed.len(), summary.len(), "a page is listed twice");
    for page in pages_of("docs").into_iter().chain(pages_of("docs/papers")) {
        assert!(listed.contains(&page), "docs/site/SUMMARY.md lacks {}", page.display());
    }
    for page in &listed {
        assert!(page.exists(), "docs/site/SUMMARY.md names {}, which is not there", page.display());
    }
}

#[test]
fn links_between_pages_have_targets() {
    let roots = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| repository().join(name));
    let mut followed = 0;
    for page in pages_of("docs").into_iter().chain(pages_of("docs/papers")).chain(roots) {
        for target in targets(&read(&page)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let to = if path.is_empty() {
                page.clone()
            } else {
                page.parent().expect("a folder").join(path)
            };
            assert!(to.exists(), "{}: {target} is not there", page.display());
            if !fragment.is_empty() {
                let anchors: Vec<String> =
                    read(&to).lines().filter(|line| line.starts_with('#')).map(anchor).collect();
                assert!(
                    anchors.iter().any(|a| a == fragment),
                    "{}: no heading for {target}",
                    page.display()
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed} links");
}
