//! Failures that are known and explained: they do not fail a run.

use std::path::Path;

use serde::Deserialize;

use super::party::Side;
use super::trial::Trial;

/// A failure that somebody has looked into.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A name, or `*`.
    client: String,
    /// A name, or `*`.
    server: String,
    /// A test's name.
    test: String,
    /// Whose failure it is, and what it comes from.
    why: String,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default)]
    failure: Vec<Entry>,
}

impl Known {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read: one line that names the mend.
    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |why: String| format!("'{}': {why}; mend it as docs/interop.md has it", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let known: Self = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        for entry in &known.failure {
            Trial::named(&entry.test)?;
            if entry.why.trim().is_empty() {
                return Err(format!("{} and {}, {}: no why", entry.client, entry.server, entry.test));
            }
        }
        Ok(known)
    }

    /// Why this fails, if that is known.
    pub fn why(&self, client: &str, server: &str, trial: Trial) -> Option<&str> {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        let of = |e: &&Entry| fits(&e.client, client) && fits(&e.server, server) && e.test == trial.name();
        self.failure.iter().find(of).map(|entry| entry.why.as_str())
    }

    /// Sides that no party has, as typing errors hide failures.
    pub fn strangers<'a>(&'a self, names: &[&str]) -> Vec<(Side, &'a str)> {
        let sides = |e: &'a Entry| [(Side::Client, e.client.as_str()), (Side::Server, e.server.as_str())];
        let strange = |(_, name): &(Side, &str)| *name != "*" && !names.contains(name);
        self.failure.iter().flat_map(sides).filter(strange).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_failures_are_found_and_must_say_why() {
        let text = "[[failure]]\nclient = \"*\"\nserver = \"b\"\ntest = \"retry\"\nwhy = \"b sends none\"\n";
        let known = Known::parse(text).unwrap();
        assert_eq!(known.why("a", "b", Trial::Retry), Some("b sends none"));
        assert_eq!((known.why("b", "a", Trial::Retry), known.why("a", "b", Trial::Ecn)), (None, None));
        assert!(known.strangers(&["b"]).is_empty());
        assert_eq!(known.strangers(&["a"]), [(Side::Server, "b")]);
        for (text, mend) in [
            (text.replace("retry", "retri"), "no test"),
            (text.replace("b sends none", " "), "no why"),
            (text.replace("why", "reason"), "unknown field"),
        ] {
            assert!(Known::parse(&text).unwrap_err().contains(mend), "{text}");
        }
        assert_eq!(Known::parse("").unwrap(), Known::default());
    }
}
