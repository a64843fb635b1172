//! Controllers as rules. This module implements recovery, undo, path changes and the parameters for
//! the stack once. A paper's file contains only its rule.
//!
//! A [`RuleConfig`] creates a [`WindowRule`]. A [`RuleController`] combines the rule with one
//! [`Aimd`] window and is the [`Controller`] that adapters use. A rule that defines only its growth
//! is NewReno with that growth.

use std::fmt;
use std::sync::Arc;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, DEFAULT_HINT, Missing};
use crate::controller::{Controller, ControllerMetrics, Pacing, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::options::{Options, ParsedOptions};
use crate::reno::LOSS_REDUCTION;
use crate::startup::Startup;
use crate::units::{Ratio, Time};

/// The window rule of one paper.
pub trait WindowRule: fmt::Debug + Clone + Send + Sync + 'static {
    /// Grows the window with one of its `grow_*` functions, or cuts it early, for one ACK frame.
    /// `Aimd` has already processed the frame.
    ///
    /// `acked` is the number of bytes that may count as growth. It is zero in recovery and while
    /// the application is the limit ([`Aimd::on_ack`]).
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64);

    /// Returns the fraction of the window that remains after a loss or a mark.
    fn kept(&self, _window: &Aimd) -> Ratio {
        LOSS_REDUCTION
    }

    /// Handles a loss or a mark of this path. A rule overrides this method if it must reduce its
    /// own state. An override must call [`Aimd::on_congestion_event`].
    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.on_congestion_event(event, self.kept(window)) {
            self.on_reduction(event);
        }
    }

    /// Handles a reduction of the window because of `event`.
    fn on_reduction(&mut self, _event: &CongestionEvent) {}

    /// Handles the report that the last loss was spurious. `restored` is true if the window
    /// returned to its state before the loss ([`Aimd::on_spurious_congestion_event`]).
    fn on_spurious_congestion_event(&mut self, _restored: bool) {}

    /// Records that bytes were sent.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// Handles a new datagram size of the path, in bytes. The window has already processed it.
    fn on_datagram(&mut self, _bytes: u16) {}

    /// Returns how to space packets.
    fn pacing(&self) -> Pacing {
        Pacing::Window
    }

    /// Returns telemetry: the metrics of the window, plus the values that only the rule knows.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        window
    }
}

/// The options of a rule; `rule_options!` implements this trait.
pub trait RuleOptions: Options {
    /// Returns the parts of the first slow start; none by default.
    fn startup(&self) -> Startup {
        Startup::default()
    }
}

/// A configuration that creates a rule: its options and required signals.
pub trait RuleConfig: RuleOptions {
    /// Catalogue entry of the rule.
    const ALGORITHM: &'static Algorithm;

    /// Type of the rule.
    type Rule: WindowRule;

    /// Creates the rule for a new path. `window` has its initial size. The new rule knows nothing
    /// about earlier paths.
    fn rule(&self, window: &Aimd, now: Time) -> Self::Rule;

    /// Returns the signals for [`ControllerConfig::required`].
    fn required(&self) -> Capabilities {
        Self::ALGORITHM.required
    }

    /// Returns the signals for [`ControllerConfig::optional`].
    fn optional(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// Returns the advice for [`ControllerConfig::hint`].
    fn hint(&self) -> &'static str {
        DEFAULT_HINT
    }
}

/// Builds the configuration of a rule; see [`Algorithm::build`].
pub fn build<C: RuleConfig>(parsed: &ParsedOptions<'_>) -> Arc<dyn ControllerConfig> {
    Arc::new(C::read(parsed))
}

impl<C: RuleConfig> ControllerConfig for C {
    fn name(&self) -> &'static str {
        C::ALGORITHM.name
    }

    fn spec(&self) -> String {
        self.spec_of(C::ALGORITHM.name)
    }

    fn required(&self) -> Capabilities {
        RuleConfig::required(self)
    }

    fn optional(&self) -> Capabilities {
        RuleConfig::optional(self)
    }

    fn hint(&self) -> &'static str {
        RuleConfig::hint(self)
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.check(start.provided)?;
        let window = Aimd::new(start).with_startup(self.startup());
        Ok(Box::new(RuleController { config: *self, rule: self.rule(&window, start.now), window }))
    }
}

/// A rule and the window that it controls.
#[derive(Debug)]
pub struct RuleController<C: RuleConfig> {
    config: C,
    window: Aimd,
    rule: C::Rule,
}

impl<C: RuleConfig> Controller for RuleController<C> {
    fn on_sent(&mut self, sent: &Sent) {
        self.rule.on_sent(sent);
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        let acked = self.window.on_ack(acks);
        self.rule.on_ack(&mut self.window, acks, acked);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        if self.window.concerns(event) {
            self.rule.on_congestion_event(&mut self.window, event);
        }
    }

    fn on_spurious_congestion_event(&mut self, _now: Time) {
        let restored = self.window.on_spurious_congestion_event();
        self.rule.on_spurious_congestion_event(restored);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        match change {
            PathChange::Datagram(bytes) => {
                self.window.on_datagram(bytes);
                self.rule.on_datagram(bytes);
            }
            PathChange::Moved => {
                self.window.on_moved(now);
                self.rule = self.config.rule(&self.window, now);
            }
        }
    }

    fn send_params(&self) -> SendParams {
        SendParams { pacing: self.rule.pacing(), ..SendParams::window(self.window.window()) }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.rule.metrics(self.window.metrics())
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self { config: self.config, window: self.window.clone(), rule: self.rule.clone() })
    }
}

impl Algorithm {
    /// Returns the entry of a rule that needs only acknowledgements and losses and satisfies
    /// NewReno's contract. The file of each rule fills in the empty fields (name, summary, source,
    /// page).
    pub const fn of_rule<C: RuleConfig>() -> Self {
        Self {
            name: "",
            aliases: &[],
            summary: "",
            source: "",
            options: C::OPTIONS,
            required: Capabilities::NONE,
            wraps: None,
            build: build::<C>,
            contract: Contract::AS_RENO,
            page: Page { about: "", departures: "", figure: "", to_see: "", weakness: "" },
        }
    }
}

/// Declares the [`options!`](macro@crate::options) of a [`WindowRule`](crate::rule::WindowRule):
/// the given options, plus `hystart`, `search` and `rapid-start`, which the window
/// implements.
#[macro_export]
macro_rules! rule_options {
    ($(#[$meta:meta])* pub struct $name:ident { $($options:tt)* }) => {
        $crate::options::options! {
            $(#[$meta])*
            pub struct $name {
                $($options)*
                /// end the first slow start when round trips grow (HyStart++)
                hystart: $crate::hystart::Use,
                /// end the first slow start when deliveries no longer double (SEARCH)
                search: $crate::search::Use,
                /// triple the window per round trip until a queue builds up (Rapid Start)
                rapid_start: $crate::rapid_start::Use,
            }
        }

        impl $crate::rule::RuleOptions for $name {
            fn startup(&self) -> $crate::startup::Startup {
                $crate::startup::Startup {
                    hystart: self.hystart,
                    search: self.search,
                    rapid_start: self.rapid_start,
                }
            }
        }
    };
}
#[doc(inline)]
pub use rule_options;
