//! Measures and notes by which comparisons and studies judge runs.
//!
//! | file | contents |
//! |---|---|
//! | `measure.rs` | the table of measures: unit, span, population, and which values are better |
//! | `standings.rs` | the order of controllers, and which of them may be the best |
//! | `change.rs` | the change from one controller to another, with its interval |
//! | `limits/` | limits of senders, from the counts of their runs |
//! | `failures.rs` | requests that failed, with their reasons |
//! | `repeats.rs` | controllers under which two runs with one seed differ |

mod change;
mod failures;
mod limits;
mod measure;
mod repeats;
mod standings;

pub use change::Change;
pub(crate) use failures::FailedRequests;
pub(crate) use limits::{Counted, Evidence, decisive};
pub(crate) use measure::primary;
pub use measure::{Better, MEASURES, MOST_LEFT_OUT, Measure, Population, Span, measures_table};
pub use repeats::unseeded_note;
pub(crate) use standings::{Entrant, Standings};

/// Returns names as part of a sentence: `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn names_are_joined_with_commas_and_a_final_and() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(
            (listed(&names), listed(&names[..1]), listed(&[])),
            ("a, b and c".into(), "a".into(), String::new())
        );
    }
}
