//! Controllers as rules: recovery, undo, path changes and what a stack reads are written here once; a paper's file holds its rule.
//!
//! A [`RuleConfig`] makes a [`WindowRule`]; a [`RuleController`] holds the two beside one [`Aimd`] window and is the [`Controller`]
//! that adapters see. A rule that names nothing but its growth is NewReno with that growth.

use std::fmt;
use std::sync::Arc;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, DEFAULT_HINT, Missing};
use crate::controller::{Controller, ControllerMetrics, Pacing, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::hystart;
use crate::options::{Options, ParsedOptions};
use crate::reno::LOSS_REDUCTION;
use crate::units::{Ratio, Time};

/// What one paper says about the window.
pub trait WindowRule: fmt::Debug + Clone + Send + Sync + 'static {
    /// One ACK frame, of which the window already took note: grow by one of its `grow_*` functions, or cut early. `acked` are the bytes
    /// that may count as growth: none in recovery, none while the application is the limit ([`Aimd::on_ack`]).
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64);

    /// What a loss or a mark leaves of the window.
    fn kept(&self, _window: &Aimd) -> Ratio {
        LOSS_REDUCTION
    }

    /// A loss or a mark of this path. Rules with state of their own to reduce take it over; it must call
    /// [`Aimd::on_congestion_event`].
    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.on_congestion_event(event, self.kept(window)) {
            self.on_reduction(event);
        }
    }

    /// The window was reduced because of `event`.
    fn on_reduction(&mut self, _event: &CongestionEvent) {}

    /// The last loss was spurious; the window went back to what it was before, if it `restored` something
    /// ([`Aimd::on_spurious_congestion_event`]).
    fn on_spurious_congestion_event(&mut self, _restored: bool) {}

    /// Packets left.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// The path carries datagrams of this size in bytes now; the window knows it.
    fn on_datagram(&mut self, _bytes: u16) {}

    /// How to space packets.
    fn pacing(&self) -> Pacing {
        Pacing::Window
    }

    /// Telemetry: that of the window, with what else the rule knows.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        window
    }
}

/// The options of a rule; `rule_options!` writes it.
pub trait RuleOptions: Options {
    /// Whether HyStart++ watches the first slow start.
    fn hystart_use(&self) -> hystart::Use;
}

/// A configuration that makes a rule: its options, and what they need.
pub trait RuleConfig: RuleOptions {
    /// The rule's entry in the catalogue.
    const ALGORITHM: &'static Algorithm;

    /// The rule.
    type Rule: WindowRule;

    /// The rule at the beginning of a path, `window` being the initial one: everything it knew of another path is forgotten.
    fn rule(&self, window: &Aimd, now: Time) -> Self::Rule;

    /// [`ControllerConfig::required`].
    fn required(&self) -> Capabilities {
        Self::ALGORITHM.required
    }

    /// [`ControllerConfig::optional`].
    fn optional(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// [`ControllerConfig::hint`].
    fn hint(&self) -> &'static str {
        DEFAULT_HINT
    }
}

/// [`Algorithm::build`] of a rule.
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
        let window = Aimd::new(start).with_hystart(self.hystart_use());
        Ok(Box::new(RuleController { config: *self, rule: self.rule(&window, start.now), window }))
    }
}

/// A rule and the window it steers.
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
    /// The entry of a rule that needs nothing but acknowledgements and losses, and keeps to NewReno's contract. What is empty here (name,
    /// summary, source, page), each rule's file fills in.
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

/// The [`options!`](macro@crate::options) of a [`WindowRule`](crate::rule::WindowRule): those given, and HyStart++, which the window brings.
#[macro_export]
macro_rules! rule_options {
    ($(#[$meta:meta])* pub struct $name:ident { $($options:tt)* }) => {
        $crate::options::options! {
            $(#[$meta])*
            pub struct $name {
                $($options)*
                /// end the first slow start when round trips grow (HyStart++)
                hystart: $crate::hystart::Use,
            }
        }

        impl $crate::rule::RuleOptions for $name {
            fn hystart_use(&self) -> $crate::hystart::Use {
                self.hystart
            }
        }
    };
}
#[doc(inline)]
pub use rule_options;
