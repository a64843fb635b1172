//! All cells as a table, and as JSON.

use std::fmt::Write as _;

use serde_json::json;

use super::cell::{Cell, Tried};
use super::judge::Verdict;
use super::known::Known;
use super::party::Party;
use super::trial::Trial;

/// What all cells came to.
#[derive(Debug, Default)]
pub struct Matrix {
    cells: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    tried: Tried,
    /// Why it fails, where that is known.
    known: Option<String>,
}

impl Entry {
    fn mark(&self) -> char {
        match (&self.tried.verdict, &self.known) {
            // Known and explained.
            (Verdict::Failed(_), Some(_)) => '!',
            (verdict, _) => verdict.mark(),
        }
    }

    fn command(&self) -> String {
        let Cell { client, server, trial } = &self.cell;
        format!("fathom-interop --client {} --server {} --test {} --keep", client.name(), server.name(), trial.name())
    }
}

impl Matrix {
    /// Adds a cell.
    pub fn add(&mut self, cell: Cell, tried: Tried, known: &Known) {
        let why = known.why(cell.client.name(), cell.server.name(), cell.trial).map(str::to_owned);
        self.cells.push(Entry { known: why, cell, tried });
    }

    /// Something failed that nobody has explained.
    pub fn has_failed(&self) -> bool {
        self.cells.iter().any(|e| matches!(e.tried.verdict, Verdict::Failed(_)) && e.known.is_none())
    }

    /// Something was not to be seen, and so is not known to work.
    pub fn has_unverified(&self) -> bool {
        self.cells.iter().any(|e| matches!(e.tried.verdict, Verdict::Unverified(_)))
    }

    /// The tables: one for each of our stacks in each role; then why what did not pass did not.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let trials: Vec<Trial> =
            Trial::ALL.into_iter().filter(|trial| self.cells.iter().any(|e| e.cell.trial == *trial)).collect();
        let ours = |of: fn(&Cell) -> &Party| {
            let mut names: Vec<&str> = Vec::new();
            for party in self.cells.iter().map(|e| of(&e.cell)).filter(|party| party.is_subject()) {
                if !names.contains(&party.name()) {
                    names.push(party.name());
                }
            }
            names
        };
        for name in ours(|cell| &cell.client) {
            let rows = |cell: &Cell| (cell.client.name() == name).then(|| cell.server.name().to_owned());
            self.table(&mut text, &format!("{name} as client"), "server", &trials, rows);
        }
        for name in ours(|cell| &cell.server) {
            // Our clients are in the tables above.
            let rows = |cell: &Cell| {
                (cell.server.name() == name && !cell.client.is_subject()).then(|| cell.client.name().to_owned())
            };
            self.table(&mut text, &format!("{name} as server"), "client", &trials, rows);
        }
        let letters: Vec<String> = trials.iter().map(|trial| format!("{} {}", trial.letters(), trial.name())).collect();
        let _ = writeln!(text, "{}", letters.join(", "));
        text.push_str("✓ passed, ✕ failed, ! failed as known, - not supported, ? not to be seen, · not played\n");
        self.reasons(&mut text);
        text
    }

    fn table(
        &self,
        text: &mut String,
        title: &str,
        others: &str,
        trials: &[Trial],
        row: impl Fn(&Cell) -> Option<String>,
    ) {
        let mut names: Vec<String> = Vec::new();
        for name in self.cells.iter().filter_map(|e| row(&e.cell)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return;
        }
        let width = names.iter().map(String::len).chain([others.len()]).max().unwrap_or(0) + 2;
        let _ = write!(text, "{title}\n{others:width$}");
        for trial in trials {
            let _ = write!(text, "{:>4}", trial.letters());
        }
        text.push('\n');
        for name in names {
            let _ = write!(text, "{name:width$}");
            for trial in trials {
                let found = self.cells.iter().find(|e| e.cell.trial == *trial && row(&e.cell).as_ref() == Some(&name));
                let _ = write!(text, "{:>4}", found.map_or(' ', Entry::mark));
            }
            text.push('\n');
        }
        text.push('\n');
    }

    fn reasons(&self, text: &mut String) {
        let about =
            |e: &Entry| format!("{} with {}, {}", e.cell.client.name(), e.cell.server.name(), e.cell.trial.name());
        for e in &self.cells {
            let why = e.tried.verdict.why();
            match (&e.tried.verdict, &e.known) {
                (Verdict::Failed(_), Some(known)) => {
                    let _ = writeln!(text, "known: {}: {why}: {known}", about(e));
                }
                (Verdict::Failed(_), None) => {
                    let _ = writeln!(text, "FAILED: {}: {why}", about(e));
                    if let Some(logs) = &e.tried.logs {
                        let _ = writeln!(text, "  logs: {}", logs.display());
                    }
                    let _ = writeln!(text, "  again: {}", e.command());
                }
                (Verdict::Unverified(_), _) => {
                    let _ = writeln!(text, "not to be seen: {}: {why}", about(e));
                }
                (Verdict::Passed, Some(known)) => {
                    let _ = writeln!(text, "passed, though known to fail: {}: {known}", about(e));
                }
                _ => {}
            }
        }
        let mut skipped: Vec<String> = Vec::new();
        for e in &self.cells {
            if let Verdict::Skipped(why) = &e.tried.verdict
                && !skipped.contains(why)
            {
                skipped.push(why.clone());
            }
        }
        for why in skipped {
            let _ = writeln!(text, "skipped: {why}");
        }
    }

    /// Everything, for programs.
    pub fn json(&self) -> serde_json::Value {
        let cell = |e: &Entry| {
            let connections = e.tried.wire.as_ref().map(|wire| &wire.connections);
            json!({
                "client": e.cell.client.name(),
                "client_version": e.cell.client.version(),
                "server": e.cell.server.name(),
                "server_version": e.cell.server.version(),
                "test": e.cell.trial.name(),
                "letters": e.cell.trial.letters(),
                "verdict": &e.tried.verdict,
                "known": &e.known,
                "seconds": e.tried.took.as_secs_f64(),
                "logs": &e.tried.logs,
                "again": e.command(),
                "connections": connections,
            })
        };
        json!(self.cells.iter().map(cell).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn cell(client: &str, server: &str, trial: Trial) -> Cell {
        let party = |name: &str| Party::ours(Path::new("fathom-endpoint"), name);
        Cell { client: party(client), server: party(server), trial }
    }

    fn tried(verdict: Verdict) -> Tried {
        Tried { took: Duration::from_secs(1), logs: Some("/tmp/x".into()), ..Tried::unplayed(verdict) }
    }

    #[test]
    fn the_table_shows_every_cell_and_why_it_failed() {
        let mut matrix = Matrix::default();
        let known = Known::default();
        matrix.add(cell("quinn", "noq", Trial::Handshake), tried(Verdict::Passed), &known);
        matrix.add(cell("quinn", "noq", Trial::Retry), tried(Verdict::Failed(vec!["no Retry".into()])), &known);
        matrix.add(cell("quinn", "stock-quinn", Trial::Handshake), tried(Verdict::Skipped("it is ill".into())), &known);
        matrix.add(cell("stock-quinn", "quinn", Trial::Retry), tried(Verdict::Unverified("no keys".into())), &known);
        let text = matrix.text();
        let wanted = "quinn as client\nserver          H   S\nnoq             ✓   ✕\nstock-quinn     ·    \n\n\
                      quinn as server\nclient          H   S\nstock-quinn         ?\n\nH handshake, S retry\n";
        assert!(text.starts_with(wanted), "{text}");
        for line in [
            "FAILED: quinn with noq, retry: no Retry\n  logs: /tmp/x\n  again: fathom-interop --client quinn --server noq --test retry --keep\n",
            "not to be seen: stock-quinn with quinn, retry: no keys\n",
            "skipped: it is ill\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(matrix.has_failed() && matrix.has_unverified());
        assert_eq!(matrix.json()[1]["verdict"]["why"][0], "no Retry");
    }
}
