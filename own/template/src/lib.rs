//! `template-controller`: NewReno that also reduces its window while there is a standing queue.
//!
//! The rule is in [`Rule::on_ack`], which you can change. [`Aimd`] provides slow start, recovery,
//! undo, path changes and the bounds of the window.

use std::time::Duration;

use fathom_cc::aimd::Aimd;
use fathom_cc::catalogue::{Algorithm, Values};
use fathom_cc::round::RoundTrip;
use fathom_cc::rule::{RuleConfig, WindowRule, rule_options};
use fathom_cc::{AckEvent, Ratio, Time};

/// Factor by which the window shrinks while the queue is above the target.
pub const DELAY_REDUCTION: Ratio = Ratio::new(7, 8);

/// The entry in the catalogue, which `fathom controllers` shows.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "template-controller",
    summary: "NewReno that gives up an eighth of its window per round trip while the queueing \
        delay exceeds its target",
    source: "own work",
    ..Algorithm::of_rule::<Config>()
};

rule_options! {
    /// Options of the controller, as in `template-controller:target=5ms`. Each field is an option,
    /// and its comment is the help text.
    pub struct Config {
        /// queueing delay above which the window is reduced
        target: Duration = "20ms" in Values::Duration { min: Duration::from_millis(1), max: Duration::from_secs(1) },
    }
}

impl RuleConfig for Config {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Rule;

    fn rule(&self, _window: &Aimd, _now: Time) -> Rule {
        Rule { target: self.target, round: RoundTrip::default() }
    }
}

/// State of one connection, without its window.
#[derive(Clone, Debug)]
pub struct Rule {
    target: Duration,
    round: RoundTrip,
}

impl WindowRule for Rule {
    /// Handles an ACK frame. `acks` has all information about the frame, and `acked` is the number
    /// of bytes that may count as growth.
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
        let queueing = acks.rtt.latest.saturating_sub(acks.rtt.min);
        if self.round.on_ack(acks) && !window.in_recovery() && queueing > self.target {
            window.cut(DELAY_REDUCTION);
        }
    }
}
