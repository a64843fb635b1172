//! List of known failures. A known failure does not make a run fail.

use std::path::Path;

use fathom_cc::Invalid;
use serde::Deserialize;

use super::implementation::{Role, in_described_file};
use super::test_case::TestCase;

/// A failure whose cause is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailure {
    /// Client's name, or `*`.
    client: String,
    /// Server's name, or `*`.
    server: String,
    /// Name of the test case.
    test: String,
    /// Implementation that fails, and the reason.
    why: String,
}

/// The list of known failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailures {
    #[serde(default)]
    failure: Vec<KnownFailure>,
}

impl KnownFailures {
    /// Reads a list from a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or parsed.
    pub fn read(file: &Path) -> Result<Self, Invalid> {
        let wrong = |error| in_described_file(error, file);
        let text =
            std::fs::read_to_string(file).map_err(|e| wrong(Invalid::because(e.to_string())))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        let known: Self =
            toml::from_str(text).map_err(|e| Invalid::because(e.message().to_owned()))?;
        for entry in &known.failure {
            entry.test.parse::<TestCase>()?;
            if entry.why.trim().is_empty() {
                let entry = format!("{} and {}, {}", entry.client, entry.server, entry.test);
                return Err(Invalid::because("'why' is empty").in_field(entry));
            }
        }
        Ok(known)
    }

    /// Returns the reason why this test fails; `None` if no failure is known.
    pub fn why(&self, client: &str, server: &str, test_case: TestCase) -> Option<&str> {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        let of = |e: &&KnownFailure| {
            fits(&e.client, client) && fits(&e.server, server) && e.test == test_case.as_ref()
        };
        self.failure.iter().find(of).map(|entry| entry.why.as_str())
    }

    /// Returns the names in the list that no implementation has. A typing error in a name would
    /// hide failures.
    pub fn unknown_names<'a>(&'a self, names: &[&str]) -> Vec<(Role, &'a str)> {
        let roles = |e: &'a KnownFailure| {
            [(Role::Client, e.client.as_str()), (Role::Server, e.server.as_str())]
        };
        let unknown = |(_, name): &(Role, &str)| *name != "*" && !names.contains(name);
        self.failure.iter().flat_map(roles).filter(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_failures_match_runs_and_require_a_reason() {
        let text = "[[failure]]\nclient = \"*\"\nserver = \"b\"\ntest = \"retry\"\nwhy = \"b sends none\"\n";
        let known = KnownFailures::parse(text).unwrap();
        assert_eq!(known.why("a", "b", TestCase::Retry), Some("b sends none"));
        assert_eq!(
            (known.why("b", "a", TestCase::Retry), known.why("a", "b", TestCase::Ecn)),
            (None, None)
        );
        assert!(known.unknown_names(&["b"]).is_empty());
        assert_eq!(known.unknown_names(&["a"]), [(Role::Server, "b")]);
        for (text, hint) in [
            (text.replace("retry", "retri"), "is not a test case"),
            (text.replace("b sends none", " "), "'why' is empty"),
            (text.replace("why", "reason"), "unknown field"),
        ] {
            let error = KnownFailures::parse(&text).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert_eq!(KnownFailures::parse("").unwrap(), KnownFailures::default());
    }
}
