//! The trait of a workload, and the types that its methods return.

use std::fmt;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_traffic::{Arrivals, RateOutOfRange};

use super::{Period, Source, WebLoad};
use crate::scenario::{ResponseKind, Resumption};
use crate::stack::Stack;

/// A way to write a workload: `web:90% of 10Mbps`.
pub(super) struct Form<M> {
    /// Name before the colon.
    pub(super) name: &'static str,
    /// Parses the workload from the whole text, without options, and the text after the colon.
    pub(super) read: fn(&str, &str) -> Result<M, Invalid>,
    /// Examples for errors.
    pub(super) examples: &'static [&'static str],
}

/// Fields of a group of traffic that only some workloads have, as a plan has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnFields {
    /// Whether the field `server-delay` is set.
    pub(crate) server_delay: bool,
    /// Value of the field `arrivals`.
    pub(crate) arrivals: Arrivals,
    /// Value of the field `priorities`.
    pub(crate) priorities: Option<bool>,
    /// Value of the field `in-flight`.
    pub(crate) in_flight: Option<u32>,
}

/// Work of a group over a run, for estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// Number of connections.
    pub(crate) connections: f64,
    /// Connections that are open at once.
    pub(crate) at_once: f64,
    /// Bytes on the wire.
    pub(crate) bytes: f64,
    /// Whether the estimated CPU time of a connection already includes its packets. It does if a
    /// connection has few packets.
    pub(crate) few_packets: bool,
}

/// A workload. Methods with a default suit workloads without the property in question.
pub(crate) trait Model: fmt::Debug {
    /// Returns the requests. `rate` is the number of new connections (for pages, page views) per
    /// second.
    ///
    /// # Errors
    /// Returns an error if the model has no parameters for this rate.
    fn source(&self, rate: f64, seed: u64) -> Result<Source, RateOutOfRange>;

    /// Returns the kind of the responses.
    fn response_kind(&self) -> ResponseKind;

    /// Returns the workload in words, for the explanation of a study.
    fn words(&self) -> String;

    /// Returns the question that a comparison answers.
    fn question(&self) -> &'static str;

    /// Sets an option, such as `resume=0rtt`.
    ///
    /// # Errors
    /// Returns an error if the workload does not have this option or the value is wrong.
    fn set(&mut self, name: &str, _value: &str) -> Result<(), Invalid> {
        Err(no_option(name, "leave it out"))
    }

    /// Returns the names of the fields of a group that only some workloads, including this one,
    /// have: `server-delay`, `arrivals`, `priorities`, `in-flight`, `connections`, `streams`.
    fn own_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Sets these fields of the workload to the values from a group.
    fn take(&mut self, _fields: &OwnFields) {}

    /// Returns the number of flows, if it is fixed.
    fn flows(&self) -> Option<u32> {
        None
    }

    /// Returns the maximum number of responses, if it is fixed.
    fn requests(&self) -> Option<u64> {
        self.flows().map(u64::from)
    }

    /// Returns the amount of traffic, if it is a load or a rate of arrivals.
    fn load(&self) -> Option<WebLoad> {
        None
    }

    /// Returns the part of the run in which requests arrive.
    fn period(&self) -> Period {
        Period::default()
    }

    /// Returns how the connections resume TLS sessions.
    fn resumption(&self) -> Resumption {
        Resumption::default()
    }

    /// Returns whether TCP at packet level can run the workload.
    fn runs_on_tcp(&self) -> bool {
        false
    }

    /// Checks requirements on the stack that only this workload has.
    ///
    /// # Errors
    /// Returns an error that says what to write instead.
    fn check_stack(&self, _stack: Stack) -> Result<(), Invalid> {
        Ok(())
    }

    /// Returns whether bodies travel from clients to servers.
    fn goes_up(&self) -> bool {
        false
    }

    /// Returns whether responses complete while the run goes on.
    fn ends(&self) -> bool {
        true
    }

    /// Returns whether the flows are few and long, so that their shares of a link are of interest.
    fn is_long(&self) -> bool {
        false
    }

    /// Returns the size of the buffer of QUIC DATAGRAM frames that wait to be sent, if bodies
    /// travel in such frames.
    fn datagram_buffer(&self) -> Option<usize> {
        None
    }

    /// Returns the time after which a response is useless, if there is one.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Returns whether the traced response is the largest one. Otherwise, the response to the first
    /// request is traced.
    fn traces_largest(&self) -> bool {
        false
    }

    /// Returns the key of the measure that ranks controllers.
    fn measure(&self) -> &'static str {
        "response_time_mean_ms"
    }

    /// Returns the time in which the requests of a run that ends after `responses` arrive. For
    /// transfers, the time includes the transfers on an idle path; `transfer` returns the time for
    /// a number of bytes. Returns zero if the transfers outlast the run.
    fn span(&self, responses: u64, rate: f64, _transfer: &dyn Fn(u64) -> Duration) -> Duration {
        Duration::from_secs_f64(responses as f64 / rate)
    }

    /// Returns the start of the first request, if it is not random.
    fn begins(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the time by which all flows have started, in a run whose times are multiplied by
    /// `scale`.
    fn starts(&self, scale: f64) -> Duration {
        self.period().from.mul_f64(scale)
    }

    /// Returns whether the starts of flows are closer together in a shorter run.
    fn has_scaled_starts(&self) -> bool {
        false
    }

    /// Multiplies the workload's times by `scale`, for a run that is shorter by this factor.
    fn scale(&mut self, _scale: f64) {}

    /// Returns the bits per second that the group offers; `None` if its flows fill their link.
    fn bits_per_second(&self) -> Option<f64>;

    /// Returns the responses per second of a group that sends `rate` bits per second.
    fn responses_per_second(&self, rate: f64) -> f64;

    /// Returns the work of a run of `seconds` in which the group sends `rate` bits per second.
    fn work(&self, rate: f64, seconds: f64) -> Work;
}

/// Returns the error of an option that a workload does not have.
pub(super) fn no_option(name: &str, hint: &'static str) -> Invalid {
    Invalid::because("not an option of this workload")
        .hint(hint)
        .in_field(name.escape_debug().to_string())
}
