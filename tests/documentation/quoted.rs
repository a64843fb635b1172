//! `docs/quinn.md`, `docs/noq.md` and `docs/quiche.md` quote all marked lines of the examples, in
//! order. noq's examples are quinn's with noq's name.
//!
//! `FATHOM_WRITE=1 cargo test --release --test fathom-tests quoted::` rewrites noq's examples. Without
//! the variable, the test compares them.

use super::{read, repository};

const MARK: &str = "// >>>";

/// Examples of the plug-ins.
const EXAMPLES: [&str; 4] = ["adopt.rs", "h3.rs", "several.rs", "shaping_socket.rs"];

/// Reads a file of this repository.
fn file(path: &str) -> String {
    read(&repository().join(path))
}

/// Removes the indentation that all lines share.
fn dedent(lines: &[&str]) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the text between the marks, including the first mark.
fn marked(example: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in example.lines() {
        match line.trim_start() {
            "// <<<" => found.push(dedent(&open.take().expect("an open mark"))),
            start if start.starts_with(MARK) => open = Some(vec![line]),
            _ => open.iter_mut().for_each(|lines| lines.push(line)),
        }
    }
    assert!(open.is_none(), "a mark that does not end");
    found
}

/// Returns the code blocks of a page under `<!-- name -->`.
fn quoted(page: &str, name: &str) -> Vec<String> {
    let head = format!("<!-- {name} -->\n```rust\n");
    page.split(&head)
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn documentation_pages_quote_the_examples() {
    for (stack, folder, names) in [
        ("quinn", "quinn", &EXAMPLES[..]),
        ("noq", "noq", &EXAMPLES),
        ("quiche", "quiche/tokio", &["adopt.rs", "h3.rs"]),
    ] {
        let page = file(&format!("docs/{stack}.md"));
        let mut blocks = 0;
        for name in names {
            let example = file(&format!("cc/{folder}/examples/{name}"));
            let (marked, quoted) = (marked(&example), quoted(&page, name));
            assert!(marked.len() >= 2, "{stack} {name}");
            assert_eq!(quoted, marked, "docs/{stack}.md and {name}");
            blocks += quoted.len();
        }
        assert_eq!(
            page.matches("```rust").count(),
            blocks,
            "docs/{stack}.md: every block is from an example"
        );
    }
}

/// Each stack has its own example files, because an example shows a program for one stack. quinn's
/// are the template.
#[test]
fn noq_examples_equal_the_quinn_examples() {
    for name in EXAMPLES {
        let (from, to) = (format!("cc/quinn/examples/{name}"), format!("cc/noq/examples/{name}"));
        let wanted = file(&from).replace("quinn", "noq");
        if std::env::var_os("FATHOM_WRITE").is_some() {
            std::fs::write(repository().join(&to), &wanted).unwrap_or_else(|e| panic!("{to}: {e}"));
        }
        assert_eq!(
            file(&to),
            wanted,
            "{to} is {from} with noq's name: change that one, then FATHOM_WRITE=1"
        );
    }
}

#[test]
fn quotation_marks_in_examples_are_found_and_dedented() {
    let example = "a\n  // >>> why\n  b\n    c\n\n  // <<<\nd\n";
    assert_eq!(marked(example), ["// >>> why\nb\n  c\n"]);
    assert_eq!(quoted("x\n<!-- n -->\n```rust\none\ntwo\n```\ny\n", "n"), ["one\ntwo"]);
}
