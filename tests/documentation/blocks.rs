//! Code blocks of pages, with the comment above each that says how it is tested.
//!
//! | comment above a block | meaning |
//! |---|---|
//! | none | `sh`: every command is parsed; `toml`: `fathom plan check` accepts the block |
//! | `<!-- example: run --seeds 1 -->` | every command runs, with these options |
//! | `<!-- example: file mine.toml -->` | a plan, under the name that the page's commands use |
//! | `<!-- example: part of mine.toml -->` | tables that replace or complete tables of that plan |
//! | `<!-- example: not run: REASON -->` | not tested, but commands of fathom are parsed |
//! | `<!-- adopt.rs -->` | quoted from an example, which `quoted.rs` compares |

use std::path::{Path, PathBuf};

use super::read;

/// Way in which a block is tested.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note {
    /// The language of the block determines the test.
    Default,
    Run(Vec<String>),
    File(String),
    PartOf(String),
    NotRun(String),
    Quoted,
    /// A comment with an unknown form.
    Unknown(String),
}

/// A code block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) page: PathBuf,
    /// Number of the first line of code.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) note: Note,
}

impl Block {
    /// Returns the place of the block: `docs/plans.md:93`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }
}

fn note(comment: &str) -> Note {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let Some(example) = comment.strip_prefix("example:").map(str::trim) else {
        return if comment.ends_with(".rs") { Note::Quoted } else { Note::Default };
    };
    match example.split_once(' ').unwrap_or((example, "")) {
        ("run", options) => Note::Run(words(options)),
        ("file", name) if !name.is_empty() => Note::File(name.trim().to_owned()),
        ("part", name) if name.starts_with("of ") => {
            Note::PartOf(name["of ".len()..].trim().to_owned())
        }
        ("not", why) if why.strip_prefix("run:").is_some_and(|why| !why.trim().is_empty()) => {
            Note::NotRun(why.to_owned())
        }
        _ => Note::Unknown(example.to_owned()),
    }
}

/// Returns the code blocks of a page.
pub(crate) fn blocks(page: &Path) -> Vec<Block> {
    let text = read(page);
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut above = Note::Default;
    while let Some((_, line)) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
            above = note(comment.trim());
        } else if let Some(language) = line.strip_prefix("```") {
            let mut code = Vec::new();
            let mut first = None;
            for (number, line) in
                lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```"))
            {
                first.get_or_insert(number + 1);
                code.push(line);
            }
            let note = std::mem::replace(&mut above, Note::Default);
            let (page, line) = (page.to_owned(), first.unwrap_or(0));
            found.push(Block {
                page,
                line,
                language: language.to_owned(),
                text: code.join("\n"),
                note,
            });
        } else if !line.is_empty() {
            above = Note::Default;
        }
    }
    found
}
