//! `docs/quinn.md`, `docs/noq.md` and `docs/quiche.md` quote the marked lines of the examples, all of them and in order.

use std::path::Path;

const MARK: &str = "// >>>";

/// A file of this repository.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Without the indentation that all lines share.
fn dedent(lines: &[&str]) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What stands between the marks, the first mark included.
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

/// Code blocks of a page under `<!-- name -->`.
fn quoted(page: &str, name: &str) -> Vec<String> {
    let head = format!("<!-- {name} -->\n```rust\n");
    page.split(&head).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn pages_quote_the_examples() {
    let plugins = ["adopt.rs", "h3.rs", "shaping_socket.rs"];
    for (stack, folder, names) in
        [("quinn", "quinn", &plugins[..]), ("noq", "noq", &plugins), ("quiche", "quiche/tokio", &["adopt.rs", "h3.rs"])]
    {
        let page = file(&format!("docs/{stack}.md"));
        let mut blocks = 0;
        for name in names {
            let example = file(&format!("cc/{folder}/examples/{name}"));
            let (marked, quoted) = (marked(&example), quoted(&page, name));
            assert!(marked.len() >= 2, "{stack} {name}");
            assert_eq!(quoted, marked, "docs/{stack}.md and {name}");
            blocks += quoted.len();
        }
        assert_eq!(page.matches("```rust").count(), blocks, "docs/{stack}.md: every block is from an example");
    }
}

#[test]
fn marks_are_found_and_dedented() {
    let example = "a\n  // >>> why\n  b\n    c\n\n  // <<<\nd\n";
    assert_eq!(marked(example), ["// >>> why\nb\n  c\n"]);
    assert_eq!(quoted("x\n<!-- n -->\n```rust\none\ntwo\n```\ny\n", "n"), ["one\ntwo"]);
}
