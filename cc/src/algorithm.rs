//! A controller's entry in the catalogue: all that commands, pages and tests know of it.

use std::sync::Arc;

use crate::aimd::minimum_window;
use crate::capabilities::Capabilities;
use crate::config::ControllerConfig;
use crate::options::{OptionInfo, ParsedOptions};
use crate::reno::LOSS_REDUCTION;
use crate::units::Ratio;

/// One controller of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Name, as users type it.
    pub name: &'static str,
    /// Other names under which it is found. Lists and specs show `name`.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// Citation of its source.
    pub source: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Signals it needs with all options at their defaults.
    pub required: Capabilities,
    /// For a wrapper: what it is put around when its spec names nothing.
    pub wraps: Option<&'static str>,
    /// Makes the configuration from options that are already checked.
    pub build: fn(&ParsedOptions<'_>) -> Arc<dyn ControllerConfig>,
    /// What tests hold it to.
    pub contract: Contract,
    /// What its documentation says.
    pub page: Page,
}

/// What every controller is tested for, as far as papers differ in it; the controller's module says why it differs.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// What a loss leaves of the initial window.
    pub loss: Ratio,
    /// Slow start doubles per round trip without queueing.
    pub doubles: bool,
    /// Avoidance adds exactly one datagram per round trip without queueing.
    pub one_per_round: bool,
    /// The smallest window in bytes that losses alone leave, one after the other from the initial window on, by the path's datagram.
    pub least: fn(u64) -> u64,
    /// The smallest window in bytes once the path's datagram has grown to this.
    pub least_on: fn(u64) -> u64,
    /// The window after persistent congestion and one packet acknowledged, in datagrams.
    pub after_collapse: Ratio,
    /// Options with which the window never grows, as users type them.
    pub still: &'static [&'static str],
}

impl Contract {
    /// NewReno's.
    pub const AS_RENO: Self = Self {
        loss: LOSS_REDUCTION,
        doubles: true,
        one_per_round: true,
        least: minimum_window,
        least_on: minimum_window,
        after_collapse: Ratio::new(3, 1),
        still: &[],
    };
}

/// A controller's section of `docs/controllers.md`, in Markdown; the table of options comes from the entry.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// What it is, where it comes from, how it works.
    pub about: &'static str,
    /// How it departs from its source, in brief; more paragraphs may follow.
    pub departures: &'static str,
    /// What the figure shows, for those who cannot see it.
    pub figure: &'static str,
    /// What to see in the figure.
    pub to_see: &'static str,
    /// Where it does not do well.
    pub weakness: &'static str,
}
