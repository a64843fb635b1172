//! What limited senders, from the counts of runs: a line per controller, and what of it must stand
//! before a verdict.

mod evidence;
mod words;

pub(crate) use self::evidence::{Counted, Evidence};

/// From this part of the time on, a limit that is not the congestion controller is said before the
/// verdict.
const WORTH_SAYING: f64 = 0.1;
/// Above this part of a sender's losses that arrived after all, its losses are mainly spurious; above
/// this part of the time without anything to send, controllers decide little.
const MOSTLY: f64 = 0.5;
/// Fewer losses or cuts than this say nothing.
const FEW: u64 = 5;

/// Returns limits that are not the congestion controllers' and decide, as sentences.
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
