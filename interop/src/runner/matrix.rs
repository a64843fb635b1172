//! All test results as tables and as JSON.

use std::fmt::Write as _;

use serde_json::json;
use strum::VariantArray as _;

use super::check::TestResult;
use super::implementation::Implementation;
use super::known_failures::KnownFailures;
use super::test_case::TestCase;
use super::test_run::{TestRecord, TestRun};

/// The results of all tests.
#[derive(Debug, Default)]
pub struct Matrix {
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    run: TestRun,
    record: TestRecord,
    /// Reason of a known failure; `None` for an unknown one.
    known: Option<String>,
}

impl Cell {
    fn mark(&self) -> char {
        match (&self.record.result, &self.known) {
            (TestResult::Failed(_), Some(_)) => '!',
            (result, _) => result.mark(),
        }
    }

    fn command(&self) -> String {
        let TestRun { client, server, test_case } = &self.run;
        format!(
            "fathom-interop --client {} --server {} --test {} --keep",
            client.name(),
            server.name(),
            test_case
        )
    }
}

impl Matrix {
    /// Adds the result of a test.
    pub fn add(&mut self, run: TestRun, record: TestRecord, known: &KnownFailures) {
        let why = known.why(run.client.name(), run.server.name(), run.test_case).map(str::to_owned);
        self.cells.push(Cell { known: why, run, record });
    }

    /// Returns whether a test failed without a known failure.
    pub fn has_failed(&self) -> bool {
        self.cells
            .iter()
            .any(|e| matches!(e.record.result, TestResult::Failed(_)) && e.known.is_none())
    }

    /// Returns whether a test could not be verified.
    pub fn has_unverified(&self) -> bool {
        self.cells.iter().any(|e| matches!(e.record.result, TestResult::Unverified(_)))
    }

    /// Returns one table for each of our stacks in each role, followed by the reasons for all
    /// results other than passed.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let test_cases: Vec<TestCase> = TestCase::VARIANTS
            .iter()
            .copied()
            .filter(|test_case| self.cells.iter().any(|e| e.run.test_case == *test_case))
            .collect();
        let ours = |of: fn(&TestRun) -> &Implementation| {
            let mut names: Vec<&str> = Vec::new();
            for implementation in self
                .cells
                .iter()
                .map(|e| of(&e.run))
                .filter(|implementation| implementation.is_under_test())
            {
                if !names.contains(&implementation.name()) {
                    names.push(implementation.name());
                }
            }
            names
        };
        for name in ours(|run| &run.client) {
            let rows =
                |run: &TestRun| (run.client.name() == name).then(|| run.server.name().to_owned());
            self.table(&mut text, &format!("{name} as client"), "server", &test_cases, rows);
        }
        for name in ours(|run| &run.server) {
            // Pairs with one of our clients are already in the tables above.
            let rows = |run: &TestRun| {
                (run.server.name() == name && !run.client.is_under_test())
                    .then(|| run.client.name().to_owned())
            };
            self.table(&mut text, &format!("{name} as server"), "client", &test_cases, rows);
        }
        let letters: Vec<String> = test_cases
            .iter()
            .map(|test_case| format!("{} {}", test_case.abbreviation(), test_case))
            .collect();
        let _ = writeln!(text, "{}", letters.join(", "));
        text.push_str(
            "✓ passed, ✕ failed, ! known failure, - unsupported, ? unverified, · not run\n",
        );
        self.reasons(&mut text);
        text
    }

    fn table(
        &self,
        text: &mut String,
        title: &str,
        others: &str,
        test_cases: &[TestCase],
        row: impl Fn(&TestRun) -> Option<String>,
    ) {
        let mut names: Vec<String> = Vec::new();
        for name in self.cells.iter().filter_map(|e| row(&e.run)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return;
        }
        let width = names.iter().map(String::len).chain([others.len()]).max().unwrap_or(0) + 2;
        let _ = write!(text, "{title}\n{others:width$}");
        for test_case in test_cases {
            let _ = write!(text, "{:>4}", test_case.abbreviation());
        }
        text.push('\n');
        for name in names {
            let _ = write!(text, "{name:width$}");
            for test_case in test_cases {
                let found = self
                    .cells
                    .iter()
                    .find(|e| e.run.test_case == *test_case && row(&e.run).as_ref() == Some(&name));
                let _ = write!(text, "{:>4}", found.map_or(' ', Cell::mark));
            }
            text.push('\n');
        }
        text.push('\n');
    }

    fn reasons(&self, text: &mut String) {
        let about = |e: &Cell| {
            format!("{} with {}, {}", e.run.client.name(), e.run.server.name(), e.run.test_case)
        };
        for e in &self.cells {
            let why = e.record.result.why();
            match (&e.record.result, &e.known) {
                (TestResult::Failed(_), Some(known)) => {
                    let _ = writeln!(text, "known: {}: {why}: {known}", about(e));
                }
                (TestResult::Failed(_), None) => {
                    let _ = writeln!(text, "FAILED: {}: {why}", about(e));
                    if let Some(logs) = &e.record.logs {
                        let _ = writeln!(text, "  logs: {}", logs.display());
                    }
                    let _ = writeln!(text, "  reproduce: {}", e.command());
                }
                (TestResult::Unverified(_), _) => {
                    let _ = writeln!(text, "unverified: {}: {why}", about(e));
                }
                (TestResult::Passed, Some(known)) => {
                    let _ = writeln!(
                        text,
                        "passed, although listed as a known failure: {}: {known}",
                        about(e)
                    );
                }
                _ => {}
            }
        }
        let mut skipped: Vec<String> = Vec::new();
        for e in &self.cells {
            if let TestResult::Skipped(why) = &e.record.result
                && !skipped.contains(why)
            {
                skipped.push(why.clone());
            }
        }
        for why in skipped {
            let _ = writeln!(text, "skipped: {why}");
        }
    }

    /// Returns all results as JSON.
    pub fn json(&self) -> serde_json::Value {
        let run = |e: &Cell| {
            let connections = e.record.trace.as_ref().map(|trace| &trace.connections);
            json!({
                "client": e.run.client.name(),
                "client_version": e.run.client.version(),
                "server": e.run.server.name(),
                "server_version": e.run.server.version(),
                "test": e.run.test_case.as_ref(),
                "letters": e.run.test_case.abbreviation(),
                "verdict": &e.record.result,
                "known": &e.known,
                "seconds": e.record.duration.as_secs_f64(),
                "logs": &e.record.logs,
                "again": e.command(),
                "connections": connections,
            })
        };
        json!(self.cells.iter().map(run).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn run(client: &str, server: &str, test_case: TestCase) -> TestRun {
        let implementation = |name: &str| Implementation::ours(Path::new("fathom-endpoint"), name);
        TestRun { client: implementation(client), server: implementation(server), test_case }
    }

    fn record(result: TestResult) -> TestRecord {
        TestRecord {
            duration: Duration::from_secs(1),
            logs: Some("/tmp/x".into()),
            ..TestRecord::not_run(result)
        }
    }

    #[test]
    fn interop_table_shows_results_and_reasons() {
        let mut matrix = Matrix::default();
        let known = KnownFailures::default();
        matrix.add(run("quinn", "noq", TestCase::Handshake), record(TestResult::Passed), &known);
        matrix.add(
            run("quinn", "noq", TestCase::Retry),
            record(TestResult::Failed(vec!["no Retry".into()])),
            &known,
        );
        matrix.add(
            run("quinn", "stock-quinn", TestCase::Handshake),
            record(TestResult::Skipped("it is ill".into())),
            &known,
        );
        matrix.add(
            run("stock-quinn", "quinn", TestCase::Retry),
            record(TestResult::Unverified("no keys".into())),
            &known,
        );
        let text = matrix.text();
        let wanted = "quinn as client\nserver          H   S\nnoq             ✓   ✕\nstock-quinn     ·    \n\n\
                      quinn as server\nclient          H   S\nstock-quinn         ?\n\nH handshake, S retry\n";
        assert!(text.starts_with(wanted), "{text}");
        for line in [
            "FAILED: quinn with noq, retry: no Retry\n  logs: /tmp/x\n  reproduce: fathom-interop --client quinn --server noq --test retry --keep\n",
            "unverified: stock-quinn with quinn, retry: no keys\n",
            "skipped: it is ill\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(matrix.has_failed() && matrix.has_unverified());
        assert_eq!(matrix.json()[1]["verdict"]["why"][0], "no Retry");
    }
}
