//! Profiles: each is a battery whose criteria come from one document.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Invalid;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

static PROFILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/profiles");

/// Document from which the criteria of a battery come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// RFC 9743: criteria for any congestion controller.
    #[default]
    Rfc9743,
    /// The appendix with example test cases of draft-ietf-ccwg-bbr.
    Bbr,
    /// RFC 8867: test cases for live media.
    Rmcat,
}

impl Profile {
    /// All profiles, with the default first.
    pub const ALL: [Self; 3] = [Self::Rfc9743, Self::Bbr, Self::Rmcat];

    /// Returns the name, which is also the name of the folder in `profiles/`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9743 => "rfc9743",
            Self::Bbr => "bbr",
            Self::Rmcat => "rmcat",
        }
    }

    /// Returns the document, as it is called within a sentence.
    pub const fn document(self) -> &'static str {
        match self {
            Self::Rfc9743 => "RFC 9743",
            Self::Bbr => "the BBR draft",
            Self::Rmcat => "RFC 8867",
        }
    }

    /// Returns the statement about the thresholds in every report.
    pub const fn note(self) -> &'static str {
        match self {
            Self::Rfc9743 => {
                "RFC 9743 gives no thresholds, and says that its criteria are not a checklist. The \
                 thresholds come from Fathom; bench/judge/profiles/rfc9743/thresholds.toml gives \
                 the reason for each."
            }
            Self::Bbr => {
                "The cases are those of the appendix of draft-ietf-ccwg-bbr (2026-08-03). The draft \
                 describes most of them by the sender's state. Fathom tests what an observer of the \
                 network sees of them, so a pass does not show that the state is right. The \
                 thresholds come from Fathom; bench/judge/profiles/bbr/thresholds.toml gives the \
                 reason for each."
            }
            Self::Rmcat => {
                "The cases are those of RFC 8867 §5, which describes what it expects in words. The \
                 thresholds come from Fathom; bench/judge/profiles/rmcat/thresholds.toml gives the \
                 reason for each. The judged controller sends live media whose encoder adapts to it."
            }
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the criteria, each with the name of its file, and the thresholds.
    ///
    /// # Panics
    /// Panics if a shipped file is missing, which a test prevents.
    pub(crate) fn files(
        self,
    ) -> (impl Iterator<Item = (&'static str, &'static str)>, &'static str) {
        let name = self.name();
        let criteria = PROFILES.get_dir(format!("{name}/criteria")).expect("a folder of criteria");
        let thresholds =
            PROFILES.get_file(format!("{name}/thresholds.toml")).expect("a file of thresholds");
        let files = criteria
            .files()
            .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)));
        (files, thresholds.contents_utf8().expect("text"))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|profile| profile.name()).collect();
            Invalid::value(name, format!("is not a profile; write one of {}", names.join(", ")))
        })
    }
}
