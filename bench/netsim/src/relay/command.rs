//! Commands for a relay, and their answers (`control.rs` executes them).

use std::sync::mpsc::{Receiver, Sender};

use fathom_units::Invalid;

use super::stats::RelayStats;
use crate::link::HasNoRate;

/// Commands, each with an example, as help and error lines show them.
pub const COMMANDS: &str = "rate 5Mbps, rtt 80ms, delay 40ms, loss 2%, jitter 5ms, reorder 1%, \
     duplicate 1%, corrupt 1%, policer 10Mbps,burst=100kB, ecn bleach, each also with the prefix \
     up- (direction to the server) and with the value none; blackout 3s, hold 200ms, mtu 1250, \
     rebind, status, help";

/// A command for a relay, with the channel for its answer.
#[derive(Debug)]
pub struct Request {
    /// Text of the command, without the end of its line.
    pub command: String,
    /// Channel that receives the answer within about 50 ms.
    pub reply: Sender<Result<Reply, CommandError>>,
}

/// Answer to a command that was executed.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The command was executed.
    Done,
    /// The user asked for the counts so far.
    Status(Box<RelayStats>),
    /// The user asked for help on the commands.
    Help,
}

/// Reason why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No command has this name.
    #[error("'{0}' is not a command; write {COMMANDS}")]
    Unknown(String),
    /// The command needs a value.
    #[error("{0}: the command needs a value; write a command such as {0} {1}")]
    NoValue(&'static str, &'static str),
    /// The command takes no value.
    #[error("{0}: the command takes no value; write {0}")]
    TakesNoValue(&'static str),
    /// A path cannot have this value.
    #[error("{0}")]
    Value(Invalid),
    /// The option is fixed from the start.
    #[error("{0}: this option cannot be changed while the link runs; restart the link with --{0}")]
    Fixed(String),
    /// The link has no rate to change.
    #[error("{0}: {1}")]
    NoRate(String, HasNoRate),
    /// There is no link with a rate.
    #[error(
        "{0}: the link was started without a rate; restart the link with a rate, such as \
        --rate 10Mbps"
    )]
    NoLink(String),
    /// There are too many events.
    #[error("the link already has {0} events; wait until some are over")]
    TooMany(usize),
}

/// State that a relay needs to handle commands.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) requests: Receiver<Request>,
    /// Options that were set only for the direction to the server. Commands without `up-` leave
    /// these options unchanged.
    pub(super) only_up: Vec<String>,
}
