//! Catalogue entries: everything that commands, documentation pages and tests know about a
//! controller.

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
    /// Other names that find this controller. Lists and specs show `name`.
    pub aliases: &'static [&'static str],
    /// Summary in one line.
    pub summary: &'static str,
    /// Citation of the source.
    pub source: &'static str,
    /// Options of the controller.
    pub options: &'static [OptionInfo],
    /// Signals that the controller needs when all options have their defaults.
    pub required: Capabilities,
    /// Controller that a wrapper wraps if the spec names none; `None` for a controller that is not
    /// a wrapper.
    pub wraps: Option<&'static str>,
    /// Builds the configuration from options that are already checked.
    pub build: fn(&ParsedOptions<'_>) -> Arc<dyn ControllerConfig>,
    /// Behaviour that the contract tests expect.
    pub contract: Contract,
    /// Text for the documentation.
    pub page: Page,
}

/// Behaviour that the contract tests expect, where papers differ. The controller's module explains
/// each difference.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Fraction of the initial window that remains after a loss.
    pub loss: Ratio,
    /// Fraction of the initial window that remains after a mark; `None` if it is that after a loss.
    pub mark: Option<Ratio>,
    /// Whether slow start doubles the window per round trip without queueing.
    pub doubles: bool,
    /// Whether avoidance adds exactly one datagram per round trip without queueing.
    pub one_per_round: bool,
    /// Smallest window in bytes to which repeated losses reduce the initial window, given the
    /// path's datagram size in bytes.
    pub least: fn(u64) -> u64,
    /// Smallest window in bytes after the path's datagram size has grown to the given number of
    /// bytes.
    pub least_on: fn(u64) -> u64,
    /// Window in datagrams after persistent congestion and one acknowledged packet.
    pub after_collapse: Ratio,
    /// Whether the window may grow while the application is the limit, if enough data are in
    /// flight.
    pub grows_app_limited: bool,
    /// Options, as users type them, with which the window never grows.
    pub still: &'static [&'static str],
}

impl Contract {
    /// The contract of NewReno.
    pub const AS_RENO: Self = Self {
        loss: LOSS_REDUCTION,
        mark: None,
        doubles: true,
        one_per_round: true,
        least: minimum_window,
        least_on: minimum_window,
        after_collapse: Ratio::new(3, 1),
        grows_app_limited: false,
        still: &[],
    };
}

/// A controller's section of `docs/controllers.md`, in Markdown. The table of options is generated
/// from the entry.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Description of the controller: its origin and how it works.
    pub about: &'static str,
    /// Summary of the departures from the source; more paragraphs may follow.
    pub departures: &'static str,
    /// Alternative text of the figure, for readers who cannot see it.
    pub figure: &'static str,
    /// Explanation of the figure.
    pub to_see: &'static str,
    /// Conditions under which the controller performs badly.
    pub weakness: &'static str,
}
