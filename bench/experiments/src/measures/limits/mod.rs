//! Limits of senders, derived from the counts of runs: one line per controller, and the limits that
//! are stated before a verdict.

mod evidence;
mod words;

pub(crate) use self::evidence::{Counted, Evidence};

/// Minimum share of the time at which a limit other than the congestion controller is stated before
/// the verdict.
const WORTH_SAYING: f64 = 0.1;
/// Fraction above which a limit decides the result. Losses are mainly spurious if more than this
/// fraction of a sender's declared losses arrived. Controllers decide little if senders have
/// nothing to send for more than this fraction of the time.
const MOSTLY: f64 = 0.5;
/// Minimum number of losses or reductions that count as evidence.
const FEW: u64 = 5;

/// Returns, as sentences, the limits that decide the result but do not come from the congestion
/// controllers.
pub(crate) fn decisive(all: &[Evidence]) -> Vec<String> {
    let lines = [
        words::flow_control(all),
        words::spurious(all),
        words::undone(all),
        words::first_windows(all),
        words::machine(all),
        words::nothing_to_send(all),
    ];
    lines.into_iter().flatten().collect()
}
